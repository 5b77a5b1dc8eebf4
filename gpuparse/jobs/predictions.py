"""Predictions for the words of an input, as bytes of CoNLL-U, arrays, or columns of a table."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from gpuparse import native
from gpuparse.data.cached import cached_property
from gpuparse.data.columns import DEPREL, FORM, UPOS, XPOS
from gpuparse.data.conll import with_misc, write_predictions
from gpuparse.data.formats.objects import FIELDS
from gpuparse.data.graphs import Graphs, check_graphs, missing_graphs, read_graphs
from gpuparse.data.tag_columns import without_deps
from gpuparse.data.treebank import Treebank, repeated
from gpuparse.data.vocabulary import column_ids
from gpuparse.errors import plural
from gpuparse.evaluation.reliability import GOLD_ARC, GOLD_HEAD, GOLD_LABEL, HEAD, LABEL, TAG
from gpuparse.inference.decoders import DECODERS
from gpuparse.model.confidence import KBest
from gpuparse.model.engines.admission import CHAIN, LOWER
from gpuparse.model.parser import Parser, Predictions

CERTIFIED = "Certified"  # in MISC of sentences whose tree has no certificate of optimality
PARSED_WITH = "ParsedWith"  # in MISC of sentences too long for the model's own decoder
_IN_CHAIN = "chain"
EMPTY, TREE = DEPS_OF_TREES = "empty", "tree"  # what a parser of trees writes into DEPS

# Values of all words by column, or numbers and the names that they stand for; negative: no value.
WordColumns = dict[str, tuple[np.ndarray, list[str] | None]]
_DECIMALS = 4


@dataclass(frozen=True)
class Kept:
    """Heads and relations of the input that are kept.

    heads: (W,) int32, -1 for heads to predict. labels: (W,) int32 indices into names, -1 for
    relations to predict. names: relations.
    """

    heads: np.ndarray
    labels: np.ndarray
    names: list[bytes]


def kept_of(treebank: Treebank) -> Kept:
    """The heads of a treebank, and the relations of words with a head."""
    ids, names = column_ids(treebank, DEPREL)
    is_there = (treebank.heads >= 0) & np.array([name != "_" for name in names] or [False])[ids]
    labels = np.where(is_there, ids, -1).astype(np.int32)
    return Kept(treebank.heads, labels, [name.encode() for name in names])


@dataclass(frozen=True, eq=False)
class FoundArrays:
    """Predictions for the W words of S sentences, as arrays; K is 1, or the trees asked for.

    heads, labels, head_probabilities, label_probabilities: (K, W), see Predictions; the relations
    that were kept are among them. names: of the labels; the last is `_`, which -1 stands for.
    scores, probabilities: (K, S) of trees. graphs, certified: see Predictions.
    tag_probabilities: (W,) of the tags, NaN where they were given; None unless asked for.
    """

    heads: np.ndarray
    labels: np.ndarray | None
    names: list[str]
    head_probabilities: np.ndarray | None = None
    label_probabilities: np.ndarray | None = None
    scores: np.ndarray | None = None
    probabilities: np.ndarray | None = None
    graphs: Graphs | None = None
    certified: np.ndarray | None = None
    tag_probabilities: np.ndarray | None = None

    @classmethod
    def of(
        cls, found: Predictions | KBest, names: list[bytes], kept: Kept | None,
        tag_probabilities: np.ndarray | None = None,
    ) -> FoundArrays:  # fmt: skip
        """The arrays of a search's result.

        Args:
            names: of the model's labels. kept: what was given to the search.
            tag_probabilities: of the tags that the tagger found before.
        """
        labels, of_labels = found.labels, found.label_probabilities
        if kept is not None and labels is not None:
            labels, names, of_labels = _with_kept(kept, labels, names, of_labels)
        texts = [*map(bytes.decode, names), "_"]
        of_heads = found.head_probabilities
        if isinstance(found, KBest):
            return cls(
                found.heads, labels, texts, of_heads, of_labels, found.scores,
                found.probabilities, tag_probabilities=tag_probabilities,
            )  # fmt: skip

        def of_tree(values: np.ndarray | None) -> Any:
            return None if values is None else values[None]

        return cls(
            of_tree(found.heads), of_tree(labels), texts, of_tree(of_heads), of_tree(of_labels),
            graphs=found.graphs, certified=found.certified, tag_probabilities=tag_probabilities,
        )  # fmt: skip

    def columns(self, given: Collection[str] = (), deps: str = EMPTY) -> WordColumns:
        """Columns of tables, of the best trees: values of all words, or numbers and their names.

        A negative number stands for no value.

        Args: given: names of the table's columns. deps: see Result.
        """
        columns: WordColumns = {}
        columns["head"] = self.heads[0], None
        if self.labels is not None:
            columns["deprel"] = self.labels[0], self.names
        if self.graphs is not None:
            columns["deps"] = np.arange(self.heads.shape[1]), _arcs_as_text(self.graphs)
        elif deps == TREE:
            assert self.labels is not None
            pairs = zip(self.heads[0].tolist(), self.labels[0].tolist(), strict=True)
            texts = [f"{head}:{self.names[label]}" for head, label in pairs]
            columns["deps"] = np.arange(len(texts)), texts
        elif "deps" in given:  # which belongs to other trees
            columns["deps"] = np.full(self.heads.shape[1], -1), []
        if self.head_probabilities is not None:
            columns["prob"] = self.head_probabilities[0], None
        if self.label_probabilities is not None:
            columns["deprel_prob"] = self.label_probabilities[0], None
        if self.tag_probabilities is not None:
            columns["tag_prob"] = self.tag_probabilities, None
        return columns


def given_arrays(treebank: Treebank) -> FoundArrays:
    """The trees of a treebank, or its graphs where any word has one, as if they were found.

    Where DEPS cannot be read, as that of CoNLL-X, there are no graphs.
    """
    labels, names = column_ids(treebank, DEPREL)
    has_graphs = not (missing_graphs(treebank).all() or check_graphs(treebank))
    return FoundArrays(
        treebank.heads[None], labels[None], names,
        graphs=read_graphs(treebank) if has_graphs else None,
    )  # fmt: skip


def word_columns(treebank: Treebank, numbers: Iterable[int]) -> WordColumns:
    """Columns of tables as in `FoundArrays.columns`, with what some columns of a treebank have.

    Args: numbers: 1 to 5, FORM to FEATS; `_` is no value, except in FORM.
    """
    columns: WordColumns = {}
    for number in numbers:
        ids, names = column_ids(treebank, number)
        if number != FORM and "_" in names:
            ids = np.where(ids == names.index("_"), -1, ids)
        columns[FIELDS[number - 1]] = ids, names
    return columns


def _arcs_as_text(graphs: Graphs) -> list[str]:
    """DEPS of every word."""
    items = [
        f"{h}:{graphs.names[r]}"
        for h, r in zip(graphs.heads.tolist(), graphs.relations.tolist(), strict=True)
    ]
    return ["|".join(items[i:j]) for i, j in pairwise(graphs.starts.tolist())]


def _with_kept(
    kept: Kept, labels: np.ndarray, names: list[bytes], probabilities: np.ndarray | None
) -> tuple[np.ndarray, list[bytes], np.ndarray | None]:
    """Labels, their names and their probabilities with the relations that are kept."""
    stays = kept.labels >= 0
    if probabilities is not None:  # conditional on what is kept, as those of heads
        probabilities = np.where(stays, 1.0, probabilities)
    labels = np.where(stays, kept.labels + len(names), labels)
    return labels, names + kept.names, probabilities


@dataclass(frozen=True, eq=False, kw_only=True)
class Result:
    """Sentences with what was found for their words; it needs no model any more.

    treebank: with the tags and lemmas of the stages. found: None of a model without a parser.
    names: of the model's labels, none for heads alone. decoder: that searched. kept: heads and
    relations that were given to the search, which replace the predicted ones. tag_probabilities:
    (W,) of the tags; see SearchResult. annotated: numbers of the columns that the stages filled in.
    deps: what a parser of trees writes into DEPS, whose arcs in the input are of other trees;
    EMPTY: `_`; TREE: the head and the relation of HEAD and DEPREL.
    """

    treebank: Treebank
    found: Predictions | KBest | None
    names: list[bytes]
    decoder: str
    kept: Kept | None = None
    tag_probabilities: np.ndarray | None = None
    annotated: tuple[int, ...] = ()
    deps: str = EMPTY

    @cached_property
    def text(self) -> bytes:
        """The bytes of the treebank with what was found.

        Several trees of a sentence follow each other. After the sentence's comments follow
        `# rank`, from 1, `# score` in nats and, if computed, `# probability` of the tree.
        """
        treebank, of_tags = self.treebank, tag_items(self.tag_probabilities)
        if self.found is None:
            return with_misc(treebank, self._only(of_tags, treebank))
        found = self.arrays
        others = _other_search(self.decoder, self.found.orders, treebank)
        others |= _uncertified(found.certified, treebank) | of_tags
        which: Any = 0
        if found.scores is not None:
            treebank, which = _repeated(treebank, found)
            others = {key: values[which[1]] for key, values in others.items()}
        heads, labels, of_heads, of_labels = (
            None if each is None else each[which]
            for each in (
                found.heads, found.labels, found.head_probabilities, found.label_probabilities
            )
        )  # fmt: skip
        assert heads is not None
        names = None if labels is None else [name.encode() for name in found.names[:-1]]
        graphs = found.graphs
        if graphs is None:
            treebank = without_deps(treebank)
        if self.deps == TREE and graphs is None:
            assert labels is not None
            graphs = Graphs(np.arange(len(heads) + 1), heads, labels, found.names[:-1])
        misc = self._only(probability_items({HEAD: of_heads, LABEL: of_labels}) | others, treebank)
        return write_predictions(treebank, heads, names, labels, misc or None, graphs)

    def _only(self, items: dict[str, np.ndarray], treebank: Treebank) -> dict[str, np.ndarray]:
        """Items of MISC, and empty ones for probabilities of trees and tags that are replaced."""
        if not (_has(treebank, "Prob=") or _has(treebank, f"{GOLD_ARC}=")):
            return items
        replaced = [TAG] if {UPOS, XPOS} & {*self.annotated} else []
        if self.found is not None:
            replaced += HEAD, LABEL, GOLD_HEAD, GOLD_LABEL, GOLD_ARC
        nothing = np.zeros(treebank.n_words, "S1")
        return items | {key: nothing for key in replaced if key not in items}

    @cached_property
    def arrays(self) -> FoundArrays:
        """The predictions of the parser."""
        assert self.found is not None
        return FoundArrays.of(self.found, self.names, self.kept, self.tag_probabilities)

    def columns(self, given: Collection[str] = ()) -> WordColumns:
        """Columns of tables as in `FoundArrays.columns`, after those that the stages filled in.

        Args: given: names of the table's columns.
        """
        columns = word_columns(self.treebank, self.annotated)
        if self.found is not None:
            return columns | self.arrays.columns(given, self.deps)
        if self.tag_probabilities is not None:
            columns["tag_prob"] = self.tag_probabilities, None
        return columns


def _repeated(
    treebank: Treebank, found: FoundArrays
) -> tuple[Treebank, tuple[np.ndarray, np.ndarray]]:
    """The sentences, each once for each of its trees; the tree and the word of each word."""
    assert found.scores is not None
    copies = (found.scores > -np.inf).sum(0).tolist()
    comments = [[_comments(found, rank, s) for rank in range(k)] for s, k in enumerate(copies)]
    starts = treebank.word_starts.tolist()
    spans = list(zip(starts, starts[1:], copies, strict=False))
    words = [np.tile(np.arange(i, j), k) for i, j, k in spans]
    ranks = [np.repeat(np.arange(k), j - i) for i, j, k in spans]
    nothing = np.empty(0, np.int64)
    which = np.concatenate([*ranks, nothing]), np.concatenate([*words, nothing])
    return repeated(treebank, comments), which


def written(model: Parser, treebank: Treebank, found: Predictions) -> bytes:
    """The bytes of a treebank with a model's predictions."""
    return Result(
        treebank=treebank, found=found, names=model.label_names, decoder=model.search_decoder
    ).text


def _other_search(
    decoder: str, orders: np.ndarray | None, treebank: Treebank
) -> dict[str, np.ndarray]:
    """The item of MISC that names the decoder of lower order of long sentences.

    Earlier values are removed from all sentences, however the input is cut into pieces.
    """
    if orders is None:
        return {}
    if not orders.any() and not _has(treebank, PARSED_WITH):
        return {}
    names = np.zeros(3, "S32")
    names[LOWER], names[CHAIN] = DECODERS[decoder].of_arcs, _IN_CHAIN
    return {PARSED_WITH: np.repeat(names[orders], np.diff(treebank.word_starts))}


def _uncertified(certified: np.ndarray | None, treebank: Treebank) -> dict[str, np.ndarray]:
    """The item of MISC of words in trees without a certificate.

    Earlier values are removed with every decoder.
    """
    if certified is None:
        certified = np.ones(len(treebank), np.bool_)
    if certified.all() and not _has(treebank, CERTIFIED):
        return {}
    marks = np.where(certified, b"", b"No")
    return {CERTIFIED: np.repeat(marks, np.diff(treebank.word_starts))}


def probability_items(items: Mapping[str, np.ndarray | None]) -> dict[str, np.ndarray]:
    """Items of MISC of probabilities (W,) by their keys; NaN is none."""
    return {key: _as_text(values) for key, values in items.items() if values is not None}


def tag_items(probabilities: np.ndarray | None) -> dict[str, np.ndarray]:
    """The item of MISC of probabilities of tags; none in words whose tags were given."""
    return probability_items({TAG: probabilities})


def _has(treebank: Treebank, text: str) -> bool:
    """True if the bytes of a treebank have a text somewhere."""
    sought = np.frombuffer(text.encode(), np.uint8)
    return bool(native.call("find_text", treebank.data, sought) >= 0)


def uncertified(n_certified: int, n_sentences: int, *, in_misc: bool = True) -> str:
    """The message about the number of certified trees; in_misc: whether MISC marks the rest."""
    share = 100 * n_certified / max(1, n_sentences)
    said = (
        f"{n_certified:,} of {plural(n_sentences, 'tree')} ({share:.1f}%)"
        " are certified to be the best ones"
    )
    if n_certified < n_sentences and in_misc:
        said += f"; the words of other trees have {CERTIFIED}=No in MISC"
    return said


def long_sentences(name: str, n_lower: int, n_chain: int, *, in_misc: bool = True) -> list[str]:
    """The messages about sentences that were too long for the model's own decoder.

    Args:
        name: of the decoder.
        n_lower, n_chain: sentences that were parsed by a lower order, and by none.
        in_misc: whether MISC marks them.
    """
    said = []
    if n_lower:
        lower = DECODERS[name].of_arcs
        where = f" ({PARSED_WITH} in MISC)" if in_misc else ""
        said.append(
            f"{plural(n_lower, 'sentence was', 'sentences were')} too long for decoder {name} and"
            f" parsed with {lower}{where}"
        )
    if n_chain:
        where = f" ({PARSED_WITH}={_IN_CHAIN} in MISC)" if in_misc else ""
        said.append(
            f"{plural(n_chain, 'sentence was', 'sentences were')} too long for any decoder: the"
            f" head of each word is the preceding word{where}"
        )
    return said


def _comments(found: FoundArrays, rank: int, s: int) -> list[str]:
    assert found.scores is not None
    lines = [f"# rank = {rank + 1}", f"# score = {found.scores[rank, s]:.6f}"]
    if found.probabilities is not None:
        lines.append(f"# probability = {found.probabilities[rank, s]:.{_DECIMALS}f}")
    return lines


def _as_text(probabilities: np.ndarray) -> np.ndarray:
    """Probabilities (W,) as bytes with four decimals; nothing for NaN."""
    steps = 10**_DECIMALS
    texts = [f"{step / steps:.{_DECIMALS}f}" for step in range(steps + 1)]
    places = np.where(np.isnan(probabilities), steps + 1, np.rint(probabilities * steps))
    return np.array([*texts, ""], np.bytes_)[places.astype(np.int64)]
