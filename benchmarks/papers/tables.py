"""Tables in the form of a paper: read from config files, as text and as plain data."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from gpuparse.config import RunConfig, Settings, folder_of
from gpuparse.data.plain_yaml import PlainYaml, read_yaml
from gpuparse.errors import ConfigError, did_you_mean, near_names, plural
from gpuparse.evaluation.graphs import GraphScores
from gpuparse.evaluation.metrics import TreeScores
from gpuparse.evaluation.significance import Disagreement
from gpuparse.jobs.gold import with_fitting_decoder

FOLDER = Path(__file__).parent
PAPER = "paper"  # the name of a paper's figures if the file gives none
Figure = int | float | str | None
_HERE = "here"

SYSTEMS, TABLES = "systems", "tables"
COMMAND_LINE = "command line"
COMMON = ("output", "data.test")  # keys that all systems share
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")  # of a system, which names a folder
_FLAGS, _TEXTS = ("transposed", "ignore_punctuation"), ("title", "note")
_TABLE_KEYS = ("title", "columns", "rows", "compare", *_FLAGS, "note")
_ROW_KEYS = ("system", "paper")


@dataclass(frozen=True)
class Result:
    """The scores of a system.

    trees: scores of its HEAD column. graphs: of its arcs against the gold graphs, if a table needs
    them. learning_seconds: CPU time, as in `Trained`. right: (W,) bool, the scored words with the
    right head.
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
        """True if it needs treebanks with graphs."""
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
    Returns: The lines; "-" for an unknown figure.
    """
    lines = [table.title, ""]
    lines += (_side_by_side if table.transposed else _one_below_the_other)(table, results)
    if table.compare:
        lines.append("")
    for first, second in table.compare:
        found = _disagreement(first, second, results)
        lines.append(
            f"{first.title} against {second.title}:"
            f" {plural(found.only_first, 'right head')} that the other"
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


@dataclass(frozen=True)
class Paper:
    """Systems and tables. The systems' configs have no test treebank; all share `test`."""

    systems: dict[str, RunConfig]
    tables: dict[str, Table]
    test: str

    def only(self, names: Sequence[str]) -> Paper:
        """The tables with these names, in the file's order, and the systems that they need."""
        tables = {name: table for name, table in self.tables.items() if name in names}
        used = {system for table in tables.values() for system in table.systems}
        systems = {name: config for name, config in self.systems.items() if name in used}
        return Paper(systems, tables, self.test)


def load_tables(path: str | Path, overrides: Sequence[str] = ()) -> Paper:
    """Read a file of tables and the overrides of the command line, and check all of it.

    The file is the config of a run (see `load_config`) with two more sections: `systems`, each a
    mapping of dotted keys to the values that it changes, and `tables`, each with a `title`,
    `columns` (keys of MEASURES), and `rows`, each with a `system`, figures of the `paper`, or both;
    also pairs of rows to `compare`, `transposed`, `ignore_punctuation` and a `note`.

    Args:
        path: the YAML file, or the name of one of this folder without `.yaml`.
        overrides: words such as `learning.epochs=5`, for all systems.
    Returns: The tables and the config of every system; each system has its own output folder.
    Raises: ConfigError: all errors, one line each.
    """
    source = path = _file_of(path)
    content = read_yaml(source)
    if not isinstance(content.value, Mapping):
        raise ConfigError(f"{source}: expected keys and values, {SYSTEMS} and {TABLES} among them")
    rest = {key: v for key, v in content.value.items() if key not in (SYSTEMS, TABLES)}
    settings = Settings.of_yaml(PlainYaml(rest, content.lines), source, folder=folder_of(path))
    for override in overrides:
        settings.override(override)
    settings.take_output_from(path)
    reader = _Reader(source, content, settings.errors + settings.missing())
    changed = reader.systems(settings, folder_of(path))
    tables = reader.tables(list(changed))
    if settings.values.get("data.test") is None and "data.test" not in reader.wrong(settings):
        reader.errors.append(f"{settings.lacks('data.test')}; the systems are scored on it")
    if reader.errors:
        raise ConfigError("\n".join(dict.fromkeys(reader.errors)))
    configs = {name: with_fitting_decoder(own.config()) for name, own in changed.items()}
    systems = {
        name: dataclasses.replace(
            config,
            output=str(Path(config.output) / name),
            data=dataclasses.replace(config.data, test=None),
        )
        for name, config in configs.items()
    }
    return Paper(systems, tables, str(settings.values["data.test"]))


def _file_of(path: str | Path) -> str:
    shipped = FOLDER / f"{path}.yaml"
    return str(shipped if shipped.exists() and not Path(path).exists() else path)


def _copy_of(settings: Settings) -> Settings:
    """The values of settings and where they were given, without the errors."""
    copy = Settings(settings.source)
    copy.values, copy.places = dict(settings.values), dict(settings.places)
    return copy


@dataclass
class _Reader:
    """Reads the sections `systems` and `tables`, and collects errors with their places."""

    source: str
    content: PlainYaml
    errors: list[str] = field(default_factory=list)

    def wrong(self, settings: Settings) -> set[str]:
        """The keys whose values were refused."""
        return set(settings.places) - set(settings.values)

    def _fault(self, path: tuple[str, ...], what: str) -> None:
        lines = self.content.lines
        there = [path[:n] for n in range(len(path), 0, -1) if path[:n] in lines]  # or what it is in
        place = f"{self.source}:{lines[there[0]]}" if there else self.source
        self.errors.append(f"{place}: {'.'.join(path)}: {what}")

    def _section(self, path: tuple[str, ...], parent: object) -> Mapping[str, Any]:
        value = parent.get(path[-1]) if isinstance(parent, Mapping) else None
        if isinstance(value, Mapping) and value:
            return value
        what = "missing; expected" if (path not in self.content.lines) else "expected"
        self._fault(path, f"{what} a section of keys and values")
        return {}

    def systems(self, common: Settings, folder: str) -> dict[str, Settings]:
        """The settings of every system."""
        found = {}
        clashes: dict[str, list[str]] = {}
        for name, changes in self._section((SYSTEMS,), self.content.value).items():
            path = (SYSTEMS, name)
            if not _NAME.fullmatch(name):
                self._fault(path, "expected a name of letters, digits, '-', '_' and '.'")
            if not isinstance(changes, Mapping):
                self._fault(path, "expected dotted keys and values, such as {decoder: eisner}")
                changes = {}
            found[name] = own = _copy_of(common)
            for key, value in changes.items():
                place = f"{self.source}:{self.content.lines[(*path, key)]}"
                if key in COMMON:
                    self._fault((*path, key), "must be the same for all systems")
                elif common.places.get(key) == COMMAND_LINE:
                    clashes.setdefault(key, []).append(name)
                else:
                    own.set(key, value, place, folder)
            self.errors += own.errors + own.missing()
        for key, names in clashes.items():
            what = f"cannot be overridden; it differs between systems: {', '.join(names)}"
            self.errors.append(f"{COMMAND_LINE}: {key}: {what}")
        return found

    def tables(self, systems: Sequence[str]) -> dict[str, Table]:
        """The tables; those with errors are incomplete."""
        found = {}
        for name, table in self._section((TABLES,), self.content.value).items():
            path = (TABLES, name)
            if not isinstance(table, Mapping):
                self._fault(path, f"expected the keys {', '.join(_TABLE_KEYS)}")
                continue
            self._only_keys(path, table, _TABLE_KEYS)
            columns = self._columns(path, table)
            rows = {
                title: self._row((*path, "rows", title), row, systems, len(columns))
                for title, row in self._section((*path, "rows"), table).items()
            }
            if rows and not any(row.system for row in rows.values()):
                self._fault((*path, "rows"), "expected a row with a system")
            for key in _TEXTS:
                if key in table and not (isinstance(table[key], str) and table[key]):
                    self._fault((*path, key), "expected text")
            for key in _FLAGS:
                if not isinstance(table.get(key, False), bool):
                    self._fault((*path, key), "expected true or false")
            found[name] = Table(
                title=table.get("title", name),
                columns=columns,
                rows=tuple(rows.values()),
                compare=self._compare(path, table, rows),
                transposed=table.get("transposed", False),
                ignore_punctuation=table.get("ignore_punctuation", False),
                note=table.get("note", ""),
            )
        return found

    def _only_keys(self, path: tuple[str, ...], section: Mapping, known: Sequence[str]) -> None:
        for key in section:
            if key not in known:
                hint = did_you_mean(near_names(key, known)) or f"expected {', '.join(known)}"
                self._fault((*path, key), f"unknown key; {hint}")

    def _columns(self, path: tuple[str, ...], table: Mapping[str, Any]) -> tuple[str, ...]:
        columns = table.get("columns")
        known = isinstance(columns, list) and all(
            isinstance(column, str) and column in MEASURES for column in columns
        )
        if not (isinstance(columns, list) and columns and known):
            self._fault((*path, "columns"), f"expected a list of {', '.join(MEASURES)}")
            return ()
        return tuple(columns)

    def _row(
        self, path: tuple[str, ...], row: object, systems: Sequence[str], n_columns: int
    ) -> Row:
        if not isinstance(row, Mapping):
            self._fault(path, "expected the keys system and paper")
            return Row(path[-1], None, {})
        self._only_keys(path, row, _ROW_KEYS)
        system, paper = row.get("system"), row.get("paper")
        if system not in systems and not ("system" not in row and paper is not None):
            self._fault((*path, "system"), f"expected one of the systems {', '.join(systems)}")
        if paper is None:
            return Row(path[-1], system, {})
        if not isinstance(paper, Mapping):
            return Row(path[-1], system, {PAPER: self._figures((*path, "paper"), paper, n_columns)})
        named = {
            source: self._figures((*path, "paper", source), figures, n_columns)
            for source, figures in paper.items()
        }
        return Row(path[-1], system, named)

    def _figures(self, path: tuple[str, ...], given: object, wanted: int) -> tuple[Figure, ...]:
        figures = given if isinstance(given, list) else []
        if any(type(figure) not in (int, float, str, type(None)) for figure in figures) or (
            len(figures) != wanted
        ):
            self._fault(path, "expected a list with a number, text or null for each column")
        return tuple(figures)

    def _compare(
        self, path: tuple[str, ...], table: Mapping[str, Any], rows: Mapping[str, Row]
    ) -> tuple[tuple[Row, Row], ...]:
        pairs = table.get("compare", [])
        with_system = [title for title, row in rows.items() if row.system is not None]
        if not isinstance(pairs, list) or not all(
            isinstance(pair, list) and len(pair) == 2 and all(one in with_system for one in pair)
            for pair in pairs
        ):
            what = f"expected a list of pairs of rows with a system: {', '.join(with_system)}"
            self._fault((*path, "compare"), what)
            return ()
        return tuple((rows[first], rows[second]) for first, second in pairs)
