"""Scores of a cross-validation: per fold, over all words, mean and standard deviation."""

from statistics import mean, stdev
from typing import Any

from gpuparse.evaluation.reports import SHARES, percent_text


def spread(folds: list[dict[str, Any]]) -> dict[str, dict[str, float | None]]:
    """Mean and standard deviation (of a sample) over folds, of every percentage that all have.

    The standard deviation of a single fold is None.
    """
    found: dict[str, dict[str, float | None]] = {"mean": {}, "standard_deviation": {}}
    for name, of in percentages(folds[0]).items():
        values = [percentages(fold).get(name) for fold in folds]
        known = [value for value in values if value is not None]
        is_known = of is not None and len(known) == len(folds)
        found["mean"][name] = mean(known) if is_known else None
        found["standard_deviation"][name] = stdev(known) if is_known and len(known) > 1 else None
    return found


def percentages(scores: dict[str, Any]) -> dict[str, float | None]:
    """The shares of trees, and F of the arcs of graphs."""
    found = {name: scores[name]["percent"] for _, name, _ in SHARES if name in scores}
    if graphs := scores.get("graphs"):
        found |= {"arcs_f": graphs["unlabelled"]["f"], "labelled_arcs_f": graphs["labelled"]["f"]}
    return found


_COLUMNS = (
    ("UAS", "uas"), ("LAS", "las"), ("complete", "complete"), ("arcs F", "arcs_f"),
    ("labelled F", "labelled_arcs_f"),
)  # fmt: skip


def scores_as_table(
    folds: list[dict[str, Any]], whole: dict[str, Any] | None, over: dict[str, Any] | None
) -> str:
    """A row per fold, then all words, mean and standard deviation, where there are any.

    Args: folds: of `treebank_scores`, with their numbers. whole: of all words. over: of `spread`.
    """
    there = percentages(folds[0])
    columns = [(title, name) for title, name in _COLUMNS if name in there]
    lines = [_row("fold", "sentences", "words", [title for title, _ in columns])]

    def add(title: str, counts: dict[str, Any], values: dict[str, float | None]) -> None:
        texts = [percent_text(values[name]) for _, name in columns]
        lines.append(_row(title, counts.get("sentences", ""), counts.get("words", ""), texts))

    for fold in folds:
        add(str(fold["fold"]), fold, percentages(fold))
    if whole is not None and over is not None:
        add("all", whole, percentages(whole))
        add("mean", {}, over["mean"])
        add("standard deviation", {}, over["standard_deviation"])
    return "\n".join(lines) + "\n"


def _row(title: str, sentences: object, words: object, texts: list[str]) -> str:
    return f"{title:<18} {sentences:>9} {words:>8}" + "".join(f" {text:>10}" for text in texts)
