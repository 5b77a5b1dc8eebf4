"""Scores of parsed treebanks and their comparison, as plain data and as text, for all doors."""

from collections.abc import Collection, Sequence
from string import ascii_uppercase
from typing import Any, NamedTuple

import numpy as np

from gpuparse.data.treebank import Treebank
from gpuparse.errors import ConfigError, option, plural
from gpuparse.evaluation.graphs import GraphColumn, score_treebank_graphs
from gpuparse.evaluation.metrics import punctuation_by_category, punctuation_by_tag, score_treebanks
from gpuparse.evaluation.reports import (
    OF_TAGS_TITLE,
    hits_as_json,
    hits_as_text,
    scores_as_json,
    scores_as_text,
)
from gpuparse.evaluation.significance import compare_treebanks
from gpuparse.evaluation.treebanks import find_difference
from gpuparse.evaluation.words import Hits, compare_words, has_heads, has_same_tags, score_words
from gpuparse.lab.comparing import add_trees, add_words, letters, trees_as_text, words_as_text

RESAMPLES = 10_000
_OVER_ALIGNED = "the measures are those of the CoNLL 2018 shared task, over aligned words"
_OF_TAGS = ("upos", "xpos", "ufeats", "alltags", "lemmas", "clas", "mlas", "blex")


class Scored(NamedTuple):
    """Scores as plain data and as tables; notes: what users should know about them."""

    as_json: dict[str, Any]
    as_text: str
    notes: list[str]


class Punctuation(NamedTuple):
    """Which words are left out of the scores of trees.

    ignored: those whose characters are all punctuation. tags: or those with one of these tags in
    the gold file.
    """

    ignored: bool = False
    tags: Collection[str] | None = None

    def words_of(self, gold: Treebank) -> np.ndarray | None:
        """(W,) bool, the words; None for none."""
        if self.tags:
            return punctuation_by_tag(gold, self.tags)
        return punctuation_by_category(gold) if self.ignored else None

    def refuse(self, obstacle: str) -> None:
        """ConfigError if words of files that are scored over aligned words are left out."""
        if self.ignored or self.tags:
            asked = option("ignore_punct", True) if self.ignored else option("punct_tags")
            raise ConfigError(
                f"{obstacle}: {asked} needs trees over the same words and sentences; leave it out"
                " to score aligned words"
            )


def scored(
    gold: Treebank, system: Treebank, graphs: GraphColumn | None, punctuation: Punctuation
) -> Scored:
    """Score a parsed treebank against the gold one.

    Treebanks of the same words get the scores of trees, and with other tags or lemmas those too.
    Treebanks of the same text with other words or sentences, or without any heads, get the scores
    of the CoNLL 2018 shared task.

    Args: graphs: where the system's graphs are, see `score_treebank_graphs`; None: score trees.
    Raises: ConfigError: punctuation is to be left out of the scores of the shared task.
        DataError: the two differ in their text, or their heads are no trees.
    """
    notes: list[str] = []
    if graphs:
        of_graphs = score_treebank_graphs(gold, system, graphs, ignored=punctuation.words_of(gold))
        as_json, as_text = scores_as_json(of_graphs), scores_as_text(of_graphs)
    elif obstacle := _obstacle_to_trees([gold, system]):
        punctuation.refuse(obstacle)
        hits = score_words(gold, system)
        notes.append(f"{obstacle}: {_OVER_ALIGNED}")
        as_json, as_text = {"conll18": hits_as_json(hits)}, hits_as_text(hits)
    else:
        scores = score_treebanks(gold, system, ignored=punctuation.words_of(gold))
        as_json, as_text = scores_as_json(scores), scores_as_text(scores)
        for hits in _tag_hits(gold, [system]):
            as_json["conll18"] = hits_as_json(hits)
            as_text += f"\n{OF_TAGS_TITLE}\n" + hits_as_text(hits)
    for treebank in [gold] if graphs else [gold, system]:
        if several := _count_of_several_roots(treebank):
            have = "has" if several == 1 else "have"
            of_all = f"{several:,} of {plural(len(treebank), 'sentence')}"
            notes.append(f"{treebank.source}: {of_all} {have} several roots")
    return Scored(as_json, as_text, notes)


def compared(
    gold: Treebank, systems: Sequence[Treebank], names: Sequence[str], punctuation: Punctuation,
    *, resamples: int = RESAMPLES, seed: int = 0,
) -> Scored:  # fmt: skip
    """Score parsed treebanks, at least two, and test each against the first.

    Args: names: of the systems. resamples, seed: of the bootstrap.
    Raises: ConfigError: there are more systems than letters; else as `scored`.
    """
    if len(names) > len(ascii_uppercase):
        raise ConfigError(f"{len(names)} systems; at most {len(ascii_uppercase)} can be compared")
    notes: list[str] = []
    drawn = f"{resamples:,} resamples of the sentences, seed {seed}"
    result: dict[str, Any] = {
        "resamples": resamples,
        "seed": seed,
        "systems": [{"file": name} for name in names],
        "comparisons": [{"file": name, "against": names[0]} for name in names[1:]],
    }
    lines: list[str] = []
    if obstacle := _obstacle_to_trees([gold, *systems]):
        punctuation.refuse(obstacle)
        hits = [score_words(gold, system) for system in systems]
        notes.append(f"{obstacle}: {_OVER_ALIGNED}")
        lines = [
            f"{plural(gold.n_words, 'gold word')}, {plural(len(gold), 'gold sentence')}",
            *letters(list(names)),
        ]
    else:
        ignored = punctuation.words_of(gold)
        scores = [score_treebanks(gold, system, ignored=ignored) for system in systems]
        first, *rest = systems
        comparisons = [
            compare_treebanks(gold, first, system, ignored=ignored, resamples=resamples, seed=seed)
            for system in rest
        ]
        add_trees(result, scores, comparisons)
        lines = trees_as_text(list(names), scores, comparisons, drawn)
        hits = _tag_hits(gold, systems)
        if hits:
            lines += ["", OF_TAGS_TITLE]
    if hits:
        tests = [
            compare_words(gold, hits[0], other, resamples=resamples, seed=seed)
            for other in hits[1:]
        ]
        add_words(result, hits, tests)
        lines += ["", *words_as_text(hits, tests, drawn)]
    return Scored(result, "\n".join(lines) + "\n", notes)


def _count_of_several_roots(treebank: Treebank) -> int:
    """The number of sentences with more than one word whose head is the root."""
    is_root = np.append(treebank.heads == 0, False)
    roots = np.add.reduceat(is_root, treebank.word_starts[:-1], dtype=np.int64)
    return int((roots[np.diff(treebank.word_starts) > 0] > 1).sum())


def _obstacle_to_trees(treebanks: Sequence[Treebank]) -> str:
    """Why files are to be scored over aligned words, and not as trees of the same words.

    Returns: the first difference of words or sentences from the first file, or the first file
        without heads; "" if the trees can be scored.
    """
    gold, *systems = treebanks
    differences = (find_difference(gold, system) for system in systems)
    without = (
        f"{each.source}: no word has a HEAD"
        for each in treebanks
        if each.n_words and not has_heads(each)
    )
    return next(filter(None, differences), "") or next(without, "")


def _tag_hits(gold: Treebank, systems: Sequence[Treebank]) -> list[dict[str, Hits]]:
    """The measures of tags and lemmas of files with the same words; none if these are gold."""
    if all(has_same_tags(gold, system) for system in systems):
        return []
    found = [score_words(gold, system, same_words=True) for system in systems]
    return [{name: hits[name] for name in _OF_TAGS} for hits in found]
