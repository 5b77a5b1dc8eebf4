"""`tables`: train the systems of a paper on given data, and print tables of the paper's shape."""

from __future__ import annotations

import argparse
import dataclasses
import difflib
import hashlib
import json
import re
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpuparse.commands.checkpoint import (
    FOLDER,
    STATE,
    Origin,
    check_output,
    differences,
    read_checkpoint,
)
from gpuparse.commands.config import RunConfig, Settings, folder_of
from gpuparse.commands.console import exit_codes, say, silent
from gpuparse.commands.gold import check_treebanks, guides_of, parsed, read_gold
from gpuparse.commands.kernels import compilation_announced
from gpuparse.commands.train import Run, templates_of
from gpuparse.data.graphs import check_graphs, missing_graphs
from gpuparse.data.treebank import Treebank
from gpuparse.errors import ConfigError, DataError
from gpuparse.evaluation.graphs import GraphScores
from gpuparse.evaluation.metrics import TreeScores
from gpuparse.evaluation.punctuation import punctuation_by_category
from gpuparse.evaluation.treebanks import (
    GraphColumn,
    score_treebank_graphs,
    score_treebanks,
)
from gpuparse.files import replace_file
from gpuparse.inference.decode import DECODERS
from gpuparse.model import WEIGHTS, Model
from gpuparse.plain_yaml import PlainYaml, read_yaml

SYSTEMS, TABLES = "systems", "tables"
COMMAND_LINE = "command line"
COMMON = ("output", "data.test")  # keys that all systems share
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")  # of a system, for it names a folder
_TABLE_KEYS = ("title", "columns", "rows", "ignore_punctuation", "note")
_ROW_KEYS = ("system", "paper")


@dataclass(frozen=True)
class Result:
    """What a system is measured by.

    trees: scores of its HEAD column. graphs: of its arcs against the gold graphs, where a table
    asks for them. seconds: how long training took, None where that is not known.
    """

    trees: TreeScores
    graphs: GraphScores | None
    seconds: float | None


@dataclass(frozen=True)
class Measure:
    """A column of a table: its title, what it shows, and whether that is counted over graphs."""

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
    "complete": Measure("complete", lambda result: result.trees.complete.percent),
    "precision": Measure("precision", _arcs("precision"), of_graphs=True),
    "recall": Measure("recall", _arcs("recall"), of_graphs=True),
    "F": Measure("F", _arcs("f"), of_graphs=True),
    "training_time": Measure("training, s", lambda result: result.seconds),
}


@dataclass(frozen=True)
class Row:
    """A row of a table: its name in the paper, the system, and the paper's figures if given."""

    title: str
    system: str
    paper: tuple[float | None, ...] | None


@dataclass(frozen=True)
class Table:
    """A table: the rows' systems measured by the columns, which are keys of MEASURES."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    ignore_punctuation: bool
    note: str

    @property
    def of_graphs(self) -> bool:
        """Whether it takes treebanks with graphs to fill it."""
        return any(MEASURES[column].of_graphs for column in self.columns)


@dataclass(frozen=True)
class Paper:
    """What a file of tables holds. The systems' configs name no test treebank; it is common."""

    systems: dict[str, RunConfig]
    tables: dict[str, Table]
    test: str

    def only(self, names: Sequence[str]) -> Paper:
        """The tables of the given names, in the file's order, and the systems that they need."""
        tables = {name: table for name, table in self.tables.items() if name in names}
        used = {row.system for table in tables.values() for row in table.rows}
        systems = {name: config for name, config in self.systems.items() if name in used}
        return Paper(systems, tables, self.test)


def main(arguments: Sequence[str]) -> int:
    """Train the systems of a paper's tables, and print the tables.

    Args:
        arguments: `FILE [KEY=VALUE ...] [--only TABLE] [--json] [--force] [--quiet]`.
    Returns:
        0.
    Raises:
        ConfigError: the file is wrong, or a model stands where one is to be written.
        DataError: a treebank cannot be used, or has not what a table asked for needs.
    Cost: one training run for every system that has no model yet.
    """
    options = _parser().parse_intermixed_args(arguments)
    tell = silent if options.quiet else say
    paper = load_tables(options.file, options.overrides)
    unknown = [name for name in options.only if name not in paper.tables]
    if unknown:
        raise ConfigError(f"--only {unknown[0]}: expected one of {', '.join(paper.tables)}")
    with compilation_announced(tell) as compiling:
        work = _Work(paper.only(options.only or list(paper.tables)), tell, quiet=options.quiet)
        work.look_at_treebanks(named=bool(options.only))
        work.look_at_models(force=options.force)
        results = work.results(compiling, force=options.force)
    if options.json:
        json.dump(work.as_json(results), sys.stdout, indent=2, ensure_ascii=False)
        print()
    else:
        texts = [table_as_text(table, results[n]) for n, table in work.paper.tables.items()]
        print("\n".join(texts), end="")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m gpuparse tables",
        description="Train the systems of a paper's tables, one after the other, score them on"
        " data.test, and print the tables with the paper's figures beside them. Each system's model"
        " is kept in a folder of its own under `output`: run the same command again after an"
        " interruption, and it goes on where it stopped.",
        epilog=exit_codes(0, 2, 3, 5),
    )
    parser.add_argument("file", metavar="FILE", help="YAML, such as those in configs/papers")
    parser.add_argument(
        "overrides",
        nargs="*",
        default=[],  # or argparse would call them required
        metavar="KEY=VALUE",
        help="overrides a key for all systems, such as data.train=train.conllu features=extended",
    )
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="TABLE",
        help="print this table and train no other systems than its own; may be given again",
    )
    parser.add_argument("--json", action="store_true", help="write JSON, unrounded")
    parser.add_argument("--force", action="store_true", help="train all systems anew")
    parser.add_argument("--quiet", action="store_true", help="say nothing on stderr but errors")
    return parser


def load_tables(path: str | Path, overrides: Sequence[str] = ()) -> Paper:
    """Read a file of tables and the overrides of the command line, and check all of it.

    The file is the config of a run (`load_config` says how its keys and paths are read) with two
    sections more: `systems`, each a mapping of dotted keys to the values that it changes, and
    `tables`, each with a `title`, `columns` (keys of MEASURES), and `rows`, which name a `system`
    and perhaps the figures of the `paper`; also `ignore_punctuation` and a `note`.

    Args:
        path: the YAML file.
        overrides: words such as `learning.epochs=5`, for all systems.
    Returns:
        The tables and the config of every system, which writes into a folder of its own.
    Raises:
        ConfigError: whatever is wrong, all of it, one line each.
    """
    content, source = read_yaml(path), str(path)
    if not isinstance(content.value, Mapping):
        raise ConfigError(f"{source}: expected keys and values, {SYSTEMS} and {TABLES} among them")
    rest = {key: v for key, v in content.value.items() if key not in (SYSTEMS, TABLES)}
    settings = Settings.of_file(PlainYaml(rest, content.lines), source, folder=folder_of(path))
    for override in overrides:
        settings.override(override)
    reader = _Reader(source, content, settings.errors + settings.missing())
    changed = reader.systems(settings, folder_of(path))
    tables = reader.tables(list(changed))
    if settings.values.get("data.test") is None and "data.test" not in reader.wrong(settings):
        reader.errors.append(f"{source}: data.test: missing; the systems are scored on it")
    if reader.errors:
        raise ConfigError("\n".join(dict.fromkeys(reader.errors)))
    configs = {name: own.config() for name, own in changed.items()}
    systems = {
        name: dataclasses.replace(
            config,
            output=str(Path(config.output) / name),
            data=dataclasses.replace(config.data, test=None),
        )
        for name, config in configs.items()
    }
    return Paper(systems, tables, str(settings.values["data.test"]))


@dataclass
class _Reader:
    """Reads the two sections of a file of tables; what is wrong is kept, with its place."""

    source: str
    content: PlainYaml
    errors: list[str] = field(default_factory=list)

    def wrong(self, settings: Settings) -> set[str]:
        """The keys whose values were refused."""
        return set(settings.places) - set(settings.values)

    def _fault(self, path: tuple[str, ...], what: str) -> None:
        line = self.content.lines.get(path)
        place = self.source if line is None else f"{self.source}:{line}"
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
            found[name] = own = common.varied()
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
            what = f"cannot be overridden, for some systems set it: {', '.join(names)}"
            self.errors.append(f"{COMMAND_LINE}: {key}: {what}")
        return found

    def tables(self, systems: Sequence[str]) -> dict[str, Table]:
        """The tables; those with faults are incomplete."""
        found = {}
        for name, table in self._section((TABLES,), self.content.value).items():
            path = (TABLES, name)
            if not isinstance(table, Mapping):
                self._fault(path, f"expected the keys {', '.join(_TABLE_KEYS)}")
                continue
            self._only_keys(path, table, _TABLE_KEYS)
            columns = self._columns(path, table)
            rows = [
                self._row((*path, "rows", title), row, systems, len(columns))
                for title, row in self._section((*path, "rows"), table).items()
            ]
            for key in ("title", "note"):
                if key in table and not (isinstance(table[key], str) and table[key]):
                    self._fault((*path, key), "expected text")
            ignore = table.get("ignore_punctuation", False)
            if not isinstance(ignore, bool):
                self._fault((*path, "ignore_punctuation"), "expected true or false")
            found[name] = Table(
                table.get("title", name), columns, tuple(rows), ignore, table.get("note", "")
            )
        return found

    def _only_keys(self, path: tuple[str, ...], section: Mapping, known: Sequence[str]) -> None:
        for key in section:
            if key not in known:
                near = difflib.get_close_matches(key, known, n=1)
                hint = f"did you mean {near[0]}?" if near else f"expected {', '.join(known)}"
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
            return Row(path[-1], "", None)
        self._only_keys(path, row, _ROW_KEYS)
        system, paper = row.get("system"), row.get("paper")
        if system not in systems:
            self._fault((*path, "system"), f"expected one of the systems {', '.join(systems)}")
        if paper is None:
            return Row(path[-1], str(system), None)
        figures = paper if isinstance(paper, list) else []
        if any(type(figure) not in (int, float, type(None)) for figure in figures) or (
            len(figures) != n_columns
        ):
            self._fault((*path, "paper"), "expected a list with a number or null for each column")
        return Row(path[-1], str(system), tuple(figures))


@dataclass(frozen=True)
class Trained:
    """What is kept beside a model: what it was made of, and how long that took.

    weights: SHA-256 of its weights file. seconds: None for a run that was interrupted.
    """

    origin: Origin
    weights: str
    seconds: float | None

    @classmethod
    def read(cls, model: Path) -> Trained | None:
        """What is kept beside a model; None if nothing is, or it is of another model."""
        try:
            facts = json.loads(_kept_beside(model).read_text(encoding="utf-8"))
            trained = cls(Origin(**facts["origin"]), facts["weights"], facts["seconds"])
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return trained if trained.weights == _weights_sha256(model) else None

    def write(self, model: Path) -> None:
        with replace_file(_kept_beside(model), force=True) as file:
            file.write((json.dumps(dataclasses.asdict(self), indent=1) + "\n").encode())


def _kept_beside(model: Path) -> Path:
    return model.with_name(f"{model.name}.json")


def _weights_sha256(model: Path) -> str:
    return hashlib.sha256((model / WEIGHTS).read_bytes()).hexdigest()


class _Work:
    """The systems and tables that are wanted: what is there, what is to be trained, the scores."""

    def __init__(self, paper: Paper, tell: Callable[[str], None], *, quiet: bool) -> None:
        self.paper, self._tell, self._quiet = paper, tell, quiet
        self.left_out: dict[str, str] = {}  # tables, and why
        self._ready: dict[str, Trained] = {}
        self._runs: dict[str, Run] = {}
        self._sha256: dict[str, str] = {}  # of every system's training treebank

    def look_at_treebanks(self, *, named: bool) -> None:
        """Read the treebanks; leave out tables that they cannot fill, an error if `named`."""
        self._check_templates()
        for config in self.paper.systems.values():
            data = dataclasses.replace(config.data, test=self.paper.test)
            check_treebanks(dataclasses.replace(config, data=data))
        trees = {name: table for name, table in self.paper.tables.items() if not table.of_graphs}
        if len(trees) < len(self.paper.tables):
            why = self._no_graphs()
            if why and (named or not trees):
                names = ", ".join(name for name in self.paper.tables if name not in trees)
                raise DataError(f"{why}; table {names} is about graphs")
            if why:
                self.left_out = {n: why for n in self.paper.tables if n not in trees}
                for name in self.left_out:
                    self._tell(f"table {name} is left out: {why}")
                self.paper = self.paper.only(list(trees))
        by_path: dict[str, str] = {}
        for name, config in self.paper.systems.items():
            path = config.data.train
            if path not in by_path:
                by_path[path] = self._gold(path, config, silent)[1]
            self._sha256[name] = by_path[path]
        any_config = next(iter(self.paper.systems.values()))
        self.test, _ = self._gold(self.paper.test, any_config, self._tell, graphs=self._of_graphs)

    @property
    def _of_graphs(self) -> bool:
        return any(table.of_graphs for table in self.paper.tables.values())

    def _check_templates(self) -> None:
        """ConfigError for all systems whose template sets do not suit them."""
        errors = []
        for name, config in self.paper.systems.items():
            data = dataclasses.replace(config.data, test=self.paper.test)
            try:
                templates_of(dataclasses.replace(config, data=data))
            except ConfigError as error:
                errors.append(f"system {name}: {error}")
        if errors:
            raise ConfigError("\n".join(errors))

    def _gold(
        self, path: str, config: RunConfig, tell: Callable[[str], None], *, graphs: bool = False
    ) -> tuple[Treebank, str]:
        gold = read_gold(
            path, on_error=config.data.on_error, single_root=False, graphs=graphs, tell=tell,
            partial=config.data.partial if path == config.data.train else None,
        )  # fmt: skip
        return gold.treebank, gold.sha256

    def _no_graphs(self) -> str:
        """Why the treebanks hold no graphs that could be used; empty if they do."""
        graph_systems = [
            config
            for config in self.paper.systems.values()
            if DECODERS[config.decoder].gives_graphs
        ]
        some = next(iter(self.paper.systems.values()))
        paths = {config.data.train: config for config in graph_systems} | {self.paper.test: some}
        for path, config in paths.items():
            treebank, _ = self._gold(path, config, silent)
            faults = check_graphs(treebank)
            if missing_graphs(treebank).all():
                return f"{path}: DEPS (column 9) is _ in every word, so there are no graphs"
            if faults and config.data.on_error == "fail":
                return str(faults[0])
        return ""

    def look_at_models(self, *, force: bool) -> None:
        """Find the models that are there already, and what is in the way of the others."""
        errors = []
        for name, config in self.paper.systems.items():
            try:
                self._look_at_model(name, config, force=force)
            except ConfigError as error:
                errors.append(str(error))
        if errors:
            raise ConfigError("\n".join(errors))

    def _look_at_model(self, name: str, config: RunConfig, *, force: bool) -> None:
        folder = Path(config.output)
        unfinished = (folder / FOLDER / STATE).exists()
        finished = (folder / WEIGHTS).exists() and not unfinished
        tell = silent if self._runs or finished else self._tell  # of the device: once is enough
        run = self._runs[name] = Run(config, tell, quiet=self._quiet)
        run.tell = lambda text: self._tell(f"{name}: {text}")
        if force or not finished:
            resume = unfinished and not force
            check_output(folder, resume=resume, force=force)
            if resume:
                read_checkpoint(folder, run.origin(self._sha256[name]))  # or say why not
            return
        trained = Trained.read(folder)
        if trained is None:
            raise ConfigError(
                f"{folder}: holds a model that this command did not train; give --force to train"
                " it anew, or name another output"
            )
        changed = differences(trained.origin, run.origin(self._sha256[name]))
        if changed:
            changed.append("give --force to train it anew, or name another output")
            raise ConfigError("\n".join(f"{folder}: {line}" for line in changed))
        self._ready[name] = trained

    def results(
        self, compiling: Callable[[], float], *, force: bool
    ) -> dict[str, dict[str, Result]]:
        """Train what is not there yet, and score everything: by table, then by system."""
        for name in self.paper.systems:
            if name in self._ready:
                self._tell(f"{name}: trained already")
            else:
                self._train(name, compiling, force=force)
        found: dict[str, dict[str, Result]] = {name: {} for name in self.paper.tables}
        for name, run in self._runs.items():
            guides = guides_of(run.config, "test", self.test)
            system = parsed(
                Model.load(run.output), self.test, guides=guides, threads=run.threads,
                device=run.device,
            )  # fmt: skip
            for of_table, table in self.paper.tables.items():
                if any(row.system == name for row in table.rows):
                    found[of_table][name] = self._result(name, table, system)
        return found

    def _train(self, name: str, compiling: Callable[[], float], *, force: bool) -> None:
        run = self._runs[name]
        resume = not force and (run.output / FOLDER / STATE).exists()
        started = time.monotonic() - compiling()
        run.train(resume=resume, force=force)
        # Compiling is done once after installation, by whichever system comes first.
        seconds = None if resume else time.monotonic() - compiling() - started
        origin = run.origin(self._sha256[name])
        self._ready[name] = Trained(origin, _weights_sha256(run.output), seconds)
        self._ready[name].write(run.output)

    def _result(self, name: str, table: Table, system: Treebank) -> Result:
        ignored = punctuation_by_category(self.test) if table.ignore_punctuation else None
        graphs = None
        if table.of_graphs:
            column: GraphColumn = "deps" if self._runs[name].graphs else "heads"
            graphs = score_treebank_graphs(self.test, system, column, ignored=ignored)
        trees = score_treebanks(self.test, system, ignored=ignored)
        return Result(trees, graphs, self._ready[name].seconds)

    def as_json(self, results: dict[str, dict[str, Result]]) -> dict[str, Any]:
        """The tables as plain data: unrounded, null for what was not measured."""
        tables = {name: _as_json(t, results[name]) for name, t in self.paper.tables.items()}
        return {"tables": tables, "left_out": self.left_out}


def _as_json(table: Table, results: dict[str, Result]) -> dict[str, Any]:
    rows = []
    for row in table.rows:
        cells: dict[str, Any] = {"row": row.title, "system": row.system}
        for i, column in enumerate(table.columns):
            cells[column] = {
                "here": MEASURES[column].value(results[row.system]),
                "paper": row.paper[i] if row.paper else None,
            }
        rows.append(cells)
    facts = {"title": table.title, "ignore_punctuation": table.ignore_punctuation}
    return facts | {"rows": rows}


def table_as_text(table: Table, results: dict[str, Result]) -> str:
    """A table to read: figures with two decimals, the paper's beside them as they are given.

    Args:
        table: the table.
        results: of each of its systems.
    Returns:
        Lines; "-" for what is not known.
    """
    with_paper = any(row.paper for row in table.rows)
    width = max(len(row.title) for row in table.rows)
    titles = [MEASURES[column].title for column in table.columns]
    cells = max(17 if with_paper else 8, *(len(title) + 2 for title in titles))
    lines = [table.title, ""]
    lines.append(" " * width + "".join(f"{title:>{cells}}" for title in titles))
    if with_paper:
        lines.append(" " * width + f"{'here':>{cells - 8}}{'paper':>8}" * len(titles))
    for row in table.rows:
        line = f"{row.title:<{width}}"
        for i, column in enumerate(table.columns):
            value = MEASURES[column].value(results[row.system])
            shown = "-" if value is None else f"{value:.2f}"
            if with_paper:
                figure = row.paper[i] if row.paper else None
                line += f"{shown:>{cells - 8}}{'-' if figure is None else figure:>8}"
            else:
                line += f"{shown:>{cells}}"
        lines.append(line)
    notes = _notes(table, with_paper)
    return "\n".join([*lines, *(["", *notes] if notes else [])]) + "\n"


def _notes(table: Table, with_paper: bool) -> list[str]:
    notes = [table.note] if table.note else []
    if table.ignore_punctuation:
        notes.append("Words that are punctuation are not counted.")
    if with_paper:
        notes.append("The paper's figures are of the paper's data, not of these files.")
    return notes
