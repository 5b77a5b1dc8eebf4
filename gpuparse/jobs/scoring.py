"""Scores of parsed treebanks and their comparison, as plain data and as text, for all doors."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict
from string import ascii_uppercase
from typing import Any, NamedTuple

import numpy as np

from gpuparse.data.graphs import check_graphs
from gpuparse.data.treebank import Treebank
from gpuparse.errors import ConfigError, option, plural
from gpuparse.evaluation.graphs import GraphColumn, score_treebank_graphs
from gpuparse.evaluation.metrics import (
    ArcCounts,
    TreeScores,
    by_sentence,
    punctuation_by_category,
    punctuation_by_tag,
    score_treebanks,
)
from gpuparse.evaluation.reports import (
    ARC_SETS,
    SHARES,
    WORD_MEASURES,
    hits_as_json,
    hits_as_text,
    percent_text,
    scores_as_json,
    scores_as_text,
)
from gpuparse.evaluation.significance import Comparison, compare_treebanks
from gpuparse.evaluation.treebanks import find_difference
from gpuparse.evaluation.words import (
    Hits,
    compare_words,
    has_graphs,
    has_heads,
    has_same_tags,
    score_words,
)

RESAMPLES = 10_000
# Titles of the tested measures, and their names in Comparison and in JSON.
_TESTED = (("UAS", "uas"), ("LAS", "las"), ("LAS, whole relation", "las_full"))
_RELATIONS_SHOWN = 10
NO_ARCS = ArcCounts(0, 0, 0, 0)
_OVER_ALIGNED = "the measures are of the CoNLL 2018 shared task, over aligned words"
# Measures that are shown beside those of trees.
_OF_GRAPHS = ("elas", "eulas")
_OF_TAGS = ("upos", "xpos", "ufeats", "alltags", "lemmas", "clas", "mlas", "blex")


class Scored(NamedTuple):
    """Scores as plain data and as tables; notes: what users should know about them."""

    as_json: dict[str, Any]
    as_text: str
    notes: list[str]


class Punctuation(NamedTuple):
    """The words that are left out of the scores of trees.

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
        for hits in _other_hits(gold, [system]):
            as_json["conll18"] = hits_as_json(hits)
            as_text += f"\n{_title_of(hits)}\n" + hits_as_text(hits)
    notes += _unread_graphs([gold, system])
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
        common = set.intersection(*map(set, hits))
        hits = [{name: of[name] for name in of if name in common} for of in hits]
        notes.append(f"{obstacle}: {_OVER_ALIGNED}")
        lines = [
            f"{plural(gold.n_words, 'gold word')}, {plural(len(gold), 'gold sentence')}",
            *_letters(names),
        ]
    else:
        ignored = punctuation.words_of(gold)
        scores = [score_treebanks(gold, system, ignored=ignored) for system in systems]
        first, *rest = systems
        comparisons = [
            compare_treebanks(gold, first, system, ignored=ignored, resamples=resamples, seed=seed)
            for system in rest
        ]
        for of_system, found in zip(result["systems"], scores, strict=True):
            of_system |= scores_as_json(found)
        for tested, comparison in zip(result["comparisons"], comparisons, strict=True):
            tested |= _tests_as_json(comparison)
            tested["lengths"] = {
                length: {"first": a.percent, "second": b.percent, "total": a.total}
                for length, (a, b) in comparison.lengths.items()
            }
        lines = _trees_as_text(list(names), scores, comparisons, drawn)
        hits = _other_hits(gold, systems)
        if hits:
            lines += ["", _title_of(hits[0])]
    if hits:
        tests = [
            compare_words(gold, hits[0], other, resamples=resamples, seed=seed)
            for other in hits[1:]
        ]
        for of_system, of_words in zip(result["systems"], hits, strict=True):
            of_system["conll18"] = hits_as_json(of_words)
        for tested, comparison in zip(result["comparisons"], tests, strict=True):
            tested["conll18"] = _tests_as_json(comparison)
        lines += ["", *_words_as_text(hits, tests, drawn)]
    return Scored(result, "\n".join(lines) + "\n", notes)


def _count_of_several_roots(treebank: Treebank) -> int:
    """The number of sentences with more than one word whose head is the root."""
    return int((by_sentence(treebank.heads == 0, treebank.word_starts) > 1).sum())


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


def _other_hits(gold: Treebank, systems: Sequence[Treebank]) -> list[dict[str, Hits]]:
    """The measures of files with the same words beside those of trees; none if there are none.

    They are of tags and lemmas where these differ, and of DEPS where all files have graphs.
    """
    names: tuple[str, ...] = ()
    if not all(has_same_tags(gold, system) for system in systems):
        names += _OF_TAGS
    if all(map(has_graphs, [gold, *systems])):
        names += _OF_GRAPHS
    if not names:
        return []
    found = [score_words(gold, system, same_words=True) for system in systems]
    return [
        {name: hits[name] for name in names if all(name in others for others in found)}
        for hits in found
    ]


def _title_of(hits: Mapping[str, Hits]) -> str:
    """The title of the table of `_other_hits`."""
    titles = ["tags and lemmas"] * ("upos" in hits) + ["enhanced dependencies"] * ("elas" in hits)
    return f"{', '.join(titles)}, all words"


def _unread_graphs(treebanks: Sequence[Treebank]) -> Iterator[str]:
    """Notes about files whose DEPS cannot be read."""
    for treebank in treebanks:
        if faults := check_graphs(treebank):
            yield f"{faults[0]}; ELAS and EULAS are left out"


def _tests_as_json(comparison: Comparison) -> dict[str, Any]:
    return {
        "mcnemar": {
            measure: {**asdict(counts), "p": counts.p}
            for measure, counts in comparison.disagreements.items()
        },
        "bootstrap": {measure: asdict(result) for measure, result in comparison.bootstrap.items()},
    }


def _letters(names: Sequence[str]) -> list[str]:
    return [f"{letter}  {name}" for letter, name in zip(ascii_uppercase, names, strict=False)]


def _words_as_text(
    hits: list[dict[str, Hits]], comparisons: list[Comparison], drawn: str
) -> list[str]:
    """F of the measures over aligned words, one column per system, and their tests."""
    shown = [(title, name) for title, name in WORD_MEASURES if name in hits[0]]
    rows = [(f"{title}, F", [of[name].counts.f for of in hits]) for title, name in shown]
    lines = _columns(rows, len(hits))
    for k, comparison in enumerate(comparisons, 1):
        letter = ascii_uppercase[k]
        lines += ["", f"{letter} against A", "", *_tests(comparison, shown, letter, drawn)]
    return lines


def _trees_as_text(
    names: list[str], scores: list[TreeScores], comparisons: list[Comparison], drawn: str
) -> list[str]:
    lines = [
        f"{plural(scores[0].uas.total, 'word')}, {plural(scores[0].complete.total, 'sentence')}"
    ]
    lines += [*_letters(names), "", *_side_by_side(scores)]
    for k, comparison in enumerate(comparisons, 1):
        letter = ascii_uppercase[k]
        tested = [of for of in _TESTED if of[1] in comparison.bootstrap]
        lines += ["", f"{letter} against A", "", *_tests(comparison, tested, letter, drawn)]
        lines += ["", *_by_length(comparison, letter)]
        if scores[0].relations and scores[k].relations:
            lines += ["", *_by_relation(scores[0].relations, scores[k].relations, letter)]
    return lines


def _side_by_side(scores: list[TreeScores]) -> list[str]:
    rows = [(title, [getattr(s, name).percent for s in scores]) for title, name, _ in SHARES]
    rows += [(f"{title}, F", [getattr(s, name).f for s in scores]) for title, name in ARC_SETS]
    return _columns(rows, len(scores))


def _columns(rows: list[tuple[str, list[float | None]]], n_systems: int) -> list[str]:
    """One column per system, and one per change from the first system."""
    letters = ascii_uppercase[:n_systems]
    lines = [_row("", [*letters, *(f"{letter} - A" for letter in letters[1:])])]
    for title, values in rows:
        changed = [_change(values[0], value) for value in values[1:]]
        lines.append(_row(title, [*map(percent_text, values), *changed]))
    return lines


def _tests(
    comparison: Comparison, shown: Sequence[tuple[str, str]], letter: str, drawn: str
) -> list[str]:
    lines = [_row("McNemar's test", ["only A", f"only {letter}", "p"])]
    for title, name in shown:
        counts = comparison.disagreements[name]
        only = [str(counts.only_first), str(counts.only_second)]
        lines.append(_row(f"right for {title}", [*only, _p_value(counts.p)]))
    lines += ["", _row("paired bootstrap", [f"{letter} - A", "from", "to", "p"])]
    for title, name in shown:
        result = comparison.bootstrap[name]
        points = [f"{x:+z.2f}" for x in (result.difference, result.low, result.high)]
        lines.append(_row(title, [*points, _p_value(result.p)]))
    return [*lines, f"from, to: 95 % interval; {drawn}"]


def _by_length(comparison: Comparison, letter: str) -> list[str]:
    lines = [_row("right heads by length of arc", ["A", letter, f"{letter} - A", "words"])]
    for length, (first, second) in comparison.lengths.items():
        values = first.percent, second.percent
        cells = [*map(percent_text, values), _change(*values), str(first.total)]
        lines.append(_row(length, cells))
    return lines


def _by_relation(
    first: dict[str, ArcCounts], second: dict[str, ArcCounts], letter: str
) -> list[str]:
    """F of the relations with the largest changes in correct words."""

    def more(name: str) -> int:
        return second.get(name, NO_ARCS).right - first.get(name, NO_ARCS).right

    changed = [name for name in {**first, **second} if more(name)]
    changed.sort(key=lambda name: (-abs(more(name)), name))
    header = ["A", letter, f"{letter} - A", "words", f"more right in {letter}"]
    lines = [_row("F by relation, most changed", header)]
    for name in changed[:_RELATIONS_SHOWN]:
        a, b = first.get(name, NO_ARCS), second.get(name, NO_ARCS)
        cells = [percent_text(a.f), percent_text(b.f), _change(a.f, b.f)]
        lines.append(_row(name, [*cells, str(max(a.gold, b.gold)), f"{more(name):+d}"]))
    return lines


def _row(title: str, cells: list[str]) -> str:
    return f"{title:<30}" + "".join(f" {cell:>9}" for cell in cells)


def _change(before: float | None, after: float | None) -> str:
    return "-" if before is None or after is None else f"{after - before:+z.2f}"


def _p_value(value: float) -> str:
    """A p value as tables show it."""
    return "< 0.0001" if value < 0.0001 else f"{value:.4f}"
