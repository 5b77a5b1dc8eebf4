"""Tables in the form of a paper: their content, as text and as plain data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpuparse.evaluation.comparison import Disagreement
from gpuparse.evaluation.graphs import GraphScores
from gpuparse.evaluation.metrics import TreeScores

PAPER = "paper"  # the name of a paper's figures if the file gives none
Figure = int | float | str | None
_HERE = "here"


@dataclass(frozen=True)
class Result:
    """The scores of a system.

    trees: scores of its HEAD column. graphs: of its arcs against the gold graphs, if a table needs
    them. learning_seconds: CPU time, as in `Run`. right: (W,) bool, the scored words with the right
    head.
    """

    trees: TreeScores
    graphs: GraphScores | None
    learning_seconds: float
    right: np.ndarray


@dataclass(frozen=True)
class Measure:
    """A column of a table: its title, its value, and whether it is measured over graphs."""

    title: str
    value: Callable[[Result], float | None]
    of_graphs: bool = False


def _arcs(share: str) -> Callable[[Result], float | None]:
    def value(result: Result) -> float | None:
        assert result.graphs is not None
        return getattr(result.graphs.unlabelled, share)

    return value


MEASURES = {
    "accuracy": Measure("accuracy", lambda result: result.trees.uas.percent),
    "labelled": Measure("labelled", lambda result: result.trees.las.percent),
    "root": Measure("root", lambda result: result.trees.root.f),
    "complete": Measure("complete", lambda result: result.trees.complete.percent),
    "precision": Measure("precision", _arcs("precision"), of_graphs=True),
    "recall": Measure("recall", _arcs("recall"), of_graphs=True),
    "F": Measure("F", _arcs("f"), of_graphs=True),
    "training_time": Measure("training, CPU s", lambda result: result.learning_seconds),
}


@dataclass(frozen=True)
class Row:
    """A row of a table: its name in the paper, the system, and the paper's figures.

    system: None where there are the paper's figures alone. paper: a figure for each column, by what
    they are of (PAPER, or such names as English and Czech).
    """

    title: str
    system: str | None
    paper: dict[str, tuple[Figure, ...]]


@dataclass(frozen=True)
class Table:
    """A table: the rows' systems measured by the columns, which are keys of MEASURES.

    compare: pairs of rows that McNemar's test compares. transposed: whether systems are columns.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    compare: tuple[tuple[Row, Row], ...] = ()
    transposed: bool = False
    ignore_punctuation: bool = False
    note: str = ""

    @property
    def of_graphs(self) -> bool:
        """Whether it needs treebanks with graphs."""
        return any(MEASURES[column].of_graphs for column in self.columns)

    @property
    def systems(self) -> set[str]:
        """The systems that it needs."""
        return {row.system for row in self.rows if row.system is not None}

    @property
    def sources(self) -> list[str]:
        """The names of the paper's data sets, in order."""
        return list(dict.fromkeys(source for row in self.rows for source in row.paper))


def table_as_json(table: Table, results: dict[str, Result]) -> dict[str, Any]:
    """A table as plain data: unrounded, null for unknown figures."""
    rows = []
    for row in table.rows:
        cells: dict[str, Any] = {"row": row.title, "system": row.system}
        for i, column in enumerate(table.columns):
            figures: Any = {source: figures[i] for source, figures in row.paper.items()}
            if not figures.keys() - {PAPER}:
                figures = figures.get(PAPER)
            cells[column] = {_HERE: _value(row, column, results), PAPER: figures}
        rows.append(cells)
    return {
        "title": table.title,
        "ignore_punctuation": table.ignore_punctuation,
        "rows": rows,
        "compare": [_comparison_as_json(*pair, results) for pair in table.compare],
    }


def _comparison_as_json(first: Row, second: Row, results: dict[str, Result]) -> dict[str, Any]:
    found = _disagreement(first, second, results)
    return {
        "first": first.title,
        "second": second.title,
        "only_first": found.only_first,
        "only_second": found.only_second,
        "p": found.p,
    }


def table_as_text(table: Table, results: dict[str, Result]) -> str:
    """A table as text: our figures with two decimals, the paper's as they are given.

    Args:
        table: the table.
        results: of each of its systems.
    Returns:
        The lines; "-" for an unknown figure.
    """
    lines = [table.title, ""]
    lines += (_side_by_side if table.transposed else _one_below_the_other)(table, results)
    if table.compare:
        lines.append("")
    for first, second in table.compare:
        found = _disagreement(first, second, results)
        lines.append(
            f"{first.title} against {second.title}: {found.only_first} right heads that the other"
            f" has wrong, {found.only_second} the other way round, McNemar's p"
            f" {'< 0.0001' if found.p < 0.0001 else f'= {found.p:.4f}'}"
        )
    notes = _notes(table)
    return "\n".join([*lines, *(["", *notes] if notes else [])]) + "\n"


def _one_below_the_other(table: Table, results: dict[str, Result]) -> list[str]:
    """One row per system; below each measure, our figure and those of the paper."""
    width = max(len(row.title) for row in table.rows)
    titles = [MEASURES[column].title for column in table.columns]
    sources = table.sources
    papers = [max(8, len(source) + 2) for source in sources]
    longest = max(len(title) for title in titles)
    here = max(9 if sources else 8, longest + 2 - sum(papers))
    lines = [" " * width + "".join(f"{title:>{here + sum(papers)}}" for title in titles)]
    if sources:
        line = _cells([_HERE, *sources], [here, *papers])
        lines.append(" " * width + line * len(titles))
    for row in table.rows:
        lines.append(f"{row.title:<{width}}")
        for i, column in enumerate(table.columns):
            figures = [_figure_as_text(row, source, i) for source in sources]
            shown = _as_text(_value(row, column, results))
            lines[-1] += _cells([shown, *figures], [here, *papers])
    return lines


def _side_by_side(table: Table, results: dict[str, Result]) -> list[str]:
    """One column per system; one row per measure, the paper's figures below it."""
    grid = [["", *(row.title for row in table.rows)]]
    for i, column in enumerate(table.columns):
        shown = [_as_text(_value(row, column, results)) for row in table.rows]
        grid.append([MEASURES[column].title, *shown])
        for source in table.sources:
            figures = [_figure_as_text(row, source, i) for row in table.rows]
            grid.append([f"  {source}", *figures])
    first, *others = (max(map(len, cells)) for cells in zip(*grid, strict=True))
    widths = [max(9, width + 2) for width in others]
    return [f"{title:<{first}}{_cells(cells, widths)}" for title, *cells in grid]


def _cells(texts: Sequence[str], widths: Sequence[int]) -> str:
    return "".join(f"{text:>{width}}" for text, width in zip(texts, widths, strict=True))


def _value(row: Row, column: str, results: dict[str, Result]) -> float | None:
    return None if row.system is None else MEASURES[column].value(results[row.system])


def _as_text(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _figure_as_text(row: Row, source: str, i: int) -> str:
    figure = row.paper[source][i] if source in row.paper else None
    return "-" if figure is None else str(figure)


def _disagreement(first: Row, second: Row, results: dict[str, Result]) -> Disagreement:
    assert first.system is not None
    assert second.system is not None
    a, b = results[first.system].right, results[second.system].right
    return Disagreement(int(np.count_nonzero(a & ~b)), int(np.count_nonzero(b & ~a)))


def _notes(table: Table) -> list[str]:
    notes = [table.note] if table.note else []
    if table.ignore_punctuation:
        notes.append("Words that are punctuation are not counted.")
    if table.sources:
        notes.append("The paper's figures are of the paper's data, not of these files.")
    return notes
