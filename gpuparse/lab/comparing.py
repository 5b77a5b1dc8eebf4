"""Scores of several systems and their tests against the first, as plain data and as text."""

from collections.abc import Sequence
from dataclasses import asdict
from string import ascii_uppercase
from typing import Any

from gpuparse.errors import plural
from gpuparse.evaluation.metrics import ArcCounts, TreeScores
from gpuparse.evaluation.reports import (
    ARC_SETS,
    SHARES,
    WORD_MEASURES,
    hits_as_json,
    percent_text,
    scores_as_json,
)
from gpuparse.evaluation.significance import Comparison
from gpuparse.evaluation.words import Hits

# Titles of the tested measures, and their names in Comparison and in JSON.
TESTED = (("UAS", "uas"), ("LAS", "las"), ("LAS, whole relation", "las_full"))

_RELATIONS_SHOWN = 10

_NO_ARCS = ArcCounts(0, 0, 0, 0)


def add_trees(
    result: dict[str, Any], scores: list[TreeScores], comparisons: list[Comparison]
) -> None:
    """Write scores of trees and their tests into the result."""
    for of_system, found in zip(result["systems"], scores, strict=True):
        of_system |= scores_as_json(found)
    for tested, comparison in zip(result["comparisons"], comparisons, strict=True):
        tested |= _tests_as_json(comparison)
        tested["lengths"] = {
            length: {"first": first.percent, "second": second.percent, "total": first.total}
            for length, (first, second) in comparison.lengths.items()
        }


def add_words(
    result: dict[str, Any], hits: list[dict[str, Hits]], comparisons: list[Comparison]
) -> None:
    """Write measures over aligned words and their tests into the result, under `conll18`."""
    for of_system, found in zip(result["systems"], hits, strict=True):
        of_system["conll18"] = hits_as_json(found)
    for tested, comparison in zip(result["comparisons"], comparisons, strict=True):
        tested["conll18"] = _tests_as_json(comparison)


def _tests_as_json(comparison: Comparison) -> dict[str, Any]:
    return {
        "mcnemar": {
            measure: {**asdict(counts), "p": counts.p}
            for measure, counts in comparison.disagreements.items()
        },
        "bootstrap": {measure: asdict(result) for measure, result in comparison.bootstrap.items()},
    }


def letters(names: list[str]) -> list[str]:
    return [f"{letter}  {name}" for letter, name in zip(ascii_uppercase, names, strict=False)]


def words_as_text(
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


def trees_as_text(
    names: list[str], scores: list[TreeScores], comparisons: list[Comparison], drawn: str
) -> list[str]:
    lines = [
        f"{plural(scores[0].uas.total, 'word')}, {plural(scores[0].complete.total, 'sentence')}"
    ]
    lines += [*letters(names), "", *_side_by_side(scores)]
    for k, comparison in enumerate(comparisons, 1):
        letter = ascii_uppercase[k]
        lines += ["", f"{letter} against A", "", *_tests(comparison, TESTED, letter, drawn)]
        lines += ["", *_by_length(comparison, letter)]
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
        changed = [change(values[0], value) for value in values[1:]]
        lines.append(_row(title, [*map(percent_text, values), *changed]))
    return lines


def _tests(
    comparison: Comparison, shown: Sequence[tuple[str, str]], letter: str, drawn: str
) -> list[str]:
    lines = [_row("McNemar's test", ["only A", f"only {letter}", "p"])]
    for title, name in shown:
        counts = comparison.disagreements[name]
        only = [str(counts.only_first), str(counts.only_second)]
        lines.append(_row(f"right for {title}", [*only, p_value(counts.p)]))
    lines += ["", _row("paired bootstrap", [f"{letter} - A", "from", "to", "p"])]
    for title, name in shown:
        result = comparison.bootstrap[name]
        points = [f"{x:+z.2f}" for x in (result.difference, result.low, result.high)]
        lines.append(_row(title, [*points, p_value(result.p)]))
    return [*lines, f"from, to: 95 % interval; {drawn}"]


def _by_length(comparison: Comparison, letter: str) -> list[str]:
    lines = [_row("right heads by length of arc", ["A", letter, f"{letter} - A", "words"])]
    for length, (first, second) in comparison.lengths.items():
        values = first.percent, second.percent
        cells = [*map(percent_text, values), change(*values), str(first.total)]
        lines.append(_row(length, cells))
    return lines


def _by_relation(
    first: dict[str, ArcCounts], second: dict[str, ArcCounts], letter: str
) -> list[str]:
    """F of the relations with the largest changes in correct words."""

    def more(name: str) -> int:
        return second.get(name, _NO_ARCS).right - first.get(name, _NO_ARCS).right

    changed = [name for name in {**first, **second} if more(name)]
    changed.sort(key=lambda name: (-abs(more(name)), name))
    header = ["A", letter, f"{letter} - A", "words", f"more right in {letter}"]
    lines = [_row("F by relation, most changed", header)]
    for name in changed[:_RELATIONS_SHOWN]:
        a, b = first.get(name, _NO_ARCS), second.get(name, _NO_ARCS)
        cells = [percent_text(a.f), percent_text(b.f), change(a.f, b.f)]
        lines.append(_row(name, [*cells, str(max(a.gold, b.gold)), f"{more(name):+d}"]))
    return lines


def _row(title: str, cells: list[str]) -> str:
    return f"{title:<30}" + "".join(f" {cell:>9}" for cell in cells)


def change(before: float | None, after: float | None) -> str:
    return "-" if before is None or after is None else f"{after - before:+z.2f}"


def p_value(value: float) -> str:
    """A p value as tables show it."""
    return "< 0.0001" if value < 0.0001 else f"{value:.4f}"
