"""Gold heads and relations that a parser doubts: probabilities that it gives them, and others."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gpuparse.data.batch import word_places
from gpuparse.data.columns import DEPREL, FORM, MISC
from gpuparse.data.conll import treebank_from_bytes, with_misc
from gpuparse.data.guides import read_guides
from gpuparse.data.treebank import Treebank
from gpuparse.data.vocabulary import column_ids
from gpuparse.errors import DataError, option
from gpuparse.evaluation.reliability import (
    GOLD_ARC,
    GOLD_HEAD,
    GOLD_LABEL,
    HEAD,
    LABEL,
    misc_probabilities,
)
from gpuparse.evaluation.treebanks import check_same_words
from gpuparse.jobs.predictions import probability_items, written
from gpuparse.jobs.resources import thread_count
from gpuparse.learning.temperatures import label_numbers
from gpuparse.model.confidence import find_marginals, parse_with_confidence, require_sums
from gpuparse.model.folder import load_parser
from gpuparse.model.installed import find_model
from gpuparse.model.parser import Parser
from gpuparse.model.pipeline import NO_STAGES, load_stages


@dataclass(frozen=True)
class Doubt:
    """A word of a gold treebank for which a parser prefers another head or relation.

    word: from 1. head, relation: those of the treebank, 0 for the root; relation: None where the
    parser has none. head_form: "" of the root. probability: of both; head_probability: of the head;
    relation_probability: of the relation given the head. preferred_...: the same of what the parser
    finds.
    """

    file: str
    line: int
    sent_id: str
    word: int
    form: str
    head: int
    head_form: str
    relation: str | None
    probability: float
    head_probability: float
    relation_probability: float | None
    preferred_head: int
    preferred_head_form: str
    preferred_relation: str | None
    preferred_probability: float
    preferred_head_probability: float
    preferred_relation_probability: float | None


def parsed_beside_gold(
    model: Parser, treebank: Treebank, *, guides: np.ndarray | None = None, threads: int,
    progress: Callable[[int], None] = lambda sentences: None,
) -> Treebank:  # fmt: skip
    """A gold treebank as a parser parses it, with the probabilities of both in MISC.

    HeadProb and LabelProb are those of what was found, GoldHeadProb and GoldLabelProb those of the
    gold head, and of the gold relation given the gold head: 0 for a relation that the parser does
    not know, none for a word without a gold head. GoldArc is this head and relation.

    Args:
        treebank: gold trees, with tags as the parser's stages find them.
        guides: as in `Parser.parse`. threads: of the CPU.
        progress: called with the number of sentences that are parsed.
    Raises: ConfigError: there are no sums over the decoder's trees.
    Cost: twice that of parsing with probabilities.
    """
    require_sums(model)
    treebank = NO_STAGES.filled_by(model).annotate(treebank, threads=threads)
    found = parse_with_confidence(
        model, treebank, guides=guides, threads=threads, progress=progress
    )
    batch = model.encode(treebank, guides)
    tokens = word_places(batch)
    heads, labels = np.full((2, batch.n_tokens), -1, np.int64)
    heads[tokens] = treebank.heads
    labels[tokens] = numbers = label_numbers(model, treebank)
    of_heads, of_labels = (
        each[0, tokens] for each in find_marginals(model, batch, heads, labels, threads=threads)
    )
    items = {GOLD_HEAD: of_heads}
    if model.labels:
        is_unknown = (numbers < 0) & (treebank.heads >= 0) & ~_lacks_relation(treebank)
        items[GOLD_LABEL] = np.where(is_unknown, 0.0, of_labels)
    parsed = treebank_from_bytes(written(model, treebank, found), f"{treebank.source}, parsed")
    misc = probability_items(items) | {GOLD_ARC: np.array(_gold_arcs(treebank), np.bytes_)}
    return treebank_from_bytes(with_misc(parsed, misc), parsed.source)


def _gold_arcs(treebank: Treebank) -> list[bytes]:
    """GOLD_ARC of each word, b"" without a head. `|`, which separates items, is written %7C."""
    ids, names = column_ids(treebank, DEPREL)
    texts = [name.replace("%", "%25").replace("|", "%7C") for name in names]
    pairs = zip(treebank.heads.tolist(), ids.tolist(), strict=True)
    return [f"{head}:{texts[i]}".encode() if head >= 0 else b"" for head, i in pairs]


def changed_words(gold: Treebank, parsed: Treebank) -> list[tuple[int, str]]:
    """The words whose head or relation is not the one that the probabilities were made for.

    Args: gold: a treebank. parsed: the same words as `parsed_beside_gold` made them.
    Returns: words from 0, in order, each with the arc that the probabilities are of, as 2:nsubj,
        "" for none.
    Raises: DataError: other words, or no word of the parsed treebank has such an arc.
    """
    check_same_words(gold, parsed)
    item = re.compile(rf"(?:^|\|){GOLD_ARC}=([^|]*)")
    found = [item.search(parsed.column(w, MISC)) for w in range(parsed.n_words)]
    if not any(found) and (gold.heads >= 0).any():
        raise _without(GOLD_ARC, parsed)
    before = [match[1] if match else "" for match in found]
    now = [arc.decode() for arc in _gold_arcs(gold)]
    return [(w, arc) for w, arc in enumerate(before) if arc != now[w]]


def _without(key: str, parsed: Treebank) -> DataError:
    return DataError(
        f"{parsed.source}: words have no {key} in MISC; make the file by crossval"
        f" {option('probabilities', True)}"
    )


def parser_beside_gold(
    folder: Path, guide: str | None, threads: int
) -> Callable[[Treebank, Callable[[int], None]], Treebank]:
    """`parsed_beside_gold` by the parser of a model's folder and the stages before it.

    Args: guide: as for `parse`. threads: 0 for all processors.
    Raises: ModelError: the model cannot be used. ConfigError: it has no probabilities.
    """
    folder, n_threads = find_model(folder), thread_count(threads)
    model, stages = load_parser(folder), load_stages(folder)
    require_sums(model)

    def parse(gold: Treebank, progress: Callable[[int], None]) -> Treebank:
        guides = None if guide is None else read_guides(gold, guide)
        tagged = stages.annotate(gold, threads=n_threads)  # as it is parsed later
        return parsed_beside_gold(
            model, tagged, guides=guides, threads=n_threads, progress=progress
        )

    return parse


def find_doubts(pairs: Iterable[tuple[Treebank, Treebank]]) -> list[Doubt]:
    """The words for which a parser prefers another head or relation, most doubtful first.

    Words whose gold head and relation have the lowest probability come first; of equals, those
    whose preferred ones have the highest. Changed words have no probability, and are left out.

    Args: pairs: gold treebanks, each with the same words as `parsed_beside_gold` makes it.
    Raises: DataError: other words, or no probabilities.
    """
    found = [doubt for gold, parsed in pairs for doubt in _doubts(gold, parsed)]
    return sorted(found, key=lambda each: (each.probability, -each.preferred_probability))


def _doubts(gold: Treebank, parsed: Treebank) -> list[Doubt]:
    """The doubts about a treebank, by line."""
    changed = [w for w, _ in changed_words(gold, parsed)]
    of_heads, of_labels, best_heads, best_labels = (
        misc_probabilities(parsed, key) for key in (GOLD_HEAD, GOLD_LABEL, HEAD, LABEL)
    )
    lacks = np.isnan(of_heads) & (gold.heads >= 0)
    lacks[changed] = False
    if lacks.any():
        raise _without(GOLD_HEAD, parsed)
    labelled = not np.isnan(best_labels).all()
    found = []
    others = gold.heads != parsed.heads
    if labelled:
        others |= _differ(gold, parsed) & ~np.isnan(of_labels)
    others[changed] = False
    for s in np.unique(np.searchsorted(gold.word_starts, np.flatnonzero(others), side="right")):
        start, stop = int(gold.word_starts[s - 1]), int(gold.word_starts[s])
        name = gold.sent_id(int(s) - 1)
        for w in range(start, stop):
            if not others[w] or gold.heads[w] < 0:
                continue
            own, best = (
                (float(head), None if np.isnan(label) else float(label))
                for head, label in ((of_heads[w], of_labels[w]), (best_heads[w], best_labels[w]))
            )
            relations = [each.column(w, DEPREL) if labelled else None for each in (gold, parsed)]
            heads = [int(each.heads[w]) for each in (gold, parsed)]
            forms = [gold.column(start + head - 1, FORM) if head else "" for head in heads]
            found.append(
                Doubt(
                    gold.source, int(gold.lines[w]), name, w - start + 1, gold.column(w, FORM),
                    heads[0], forms[0], relations[0], _product(*own), *own,
                    heads[1], forms[1], relations[1], _product(*best), *best,
                )
            )  # fmt: skip
    return found


def _differ(gold: Treebank, parsed: Treebank) -> np.ndarray:
    """(W,) bool: the words with other relations."""
    (ids, names), (other_ids, other_names) = (
        column_ids(treebank, DEPREL) for treebank in (gold, parsed)
    )
    numbers = {name: number for number, name in enumerate(other_names)}
    of_names = np.array([numbers.get(name, -1) for name in names] or [-1])
    return of_names[ids] != other_ids


def _lacks_relation(treebank: Treebank) -> np.ndarray:
    """(W,) bool: the words whose DEPREL is `_`."""
    ids, names = column_ids(treebank, DEPREL)
    return np.array([name == "_" for name in names] or [False])[ids]


def _product(head: float, label: float | None) -> float:
    return head if label is None else head * label
