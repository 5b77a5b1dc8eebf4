"""`python -m benchmarks.papers PAPER`: train a paper's systems on your data, print its tables.

PAPER is the name of a file of this folder without `.yaml`, or the path of another such file.
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from benchmarks.papers.tables import (
    Paper,
    Result,
    Table,
    load_tables,
    table_as_json,
    table_as_text,
)
from gpuparse.commands.config import add_overrides, parse_with_overrides
from gpuparse.commands.console import GIVE_AGAIN, exit_codes, goes_on_by, print_json, run_and_exit
from gpuparse.config import RunConfig
from gpuparse.data.graphs import check_graphs, missing_graphs
from gpuparse.data.treebank import Treebank
from gpuparse.errors import ConfigError, DataError
from gpuparse.evaluation.graphs import GraphColumn, score_treebank_graphs
from gpuparse.evaluation.metrics import punctuation_by_category, score_treebanks
from gpuparse.inference.decoders import DECODERS
from gpuparse.jobs import train as job
from gpuparse.jobs.checkpoint import (
    check_output,
    is_unfinished,
    read_checkpoint,
)
from gpuparse.jobs.gold import check_treebanks, guides_of, parsed, read_gold
from gpuparse.jobs.progress import say, silent
from gpuparse.jobs.receipts import Receipt
from gpuparse.jobs.train_checks import TrainingPlan, plan_of, templates_of
from gpuparse.learning.config_checks import check_learning
from gpuparse.model.folder import WEIGHTS, load_parser
from gpuparse.model.pipeline import load_stages

_AGAIN = "give --force to train it again, or name another output"


def main(arguments: Sequence[str]) -> int:
    """Train the systems of a paper's tables, and print the tables.

    Args: arguments: `FILE [KEY=VALUE ...] [--only TABLE] [--json] [--force] [--quiet]`.
    Returns: 0.
    Raises:
        ConfigError: the file is wrong, or another model is in the way.
        DataError: a treebank cannot be used, or lacks what a table given by --only needs.
    Cost: one training run for each system without a model.
    """
    options = parse_with_overrides(_parser(), arguments)
    tell = silent if options.quiet else say
    paper = load_tables(options.file, options.overrides)
    unknown = [name for name in options.only if name not in paper.tables]
    if unknown:
        raise ConfigError(f"--only {unknown[0]}: expected one of {', '.join(paper.tables)}")
    work = Work(paper.only(options.only or list(paper.tables)), tell, quiet=options.quiet)
    work.look_at_treebanks(named=bool(options.only))
    work.look_at_models(force=options.force)
    with goes_on_by(GIVE_AGAIN):
        results = work.results(force=options.force)
    if options.json:
        print_json(work.as_json(results))
    else:
        texts = [table_as_text(table, results[n]) for n, table in work.paper.tables.items()]
        print("\n".join(texts), end="")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.papers",
        description="Train the systems of a paper's tables, one after the other, score them on"
        " data.test, and print the tables with the paper's figures beside them. Each system has a"
        " model folder in `output`; after an interruption, the same command continues.",
        epilog=exit_codes(0, 2, 3, 4, 5),
    )
    parser.add_argument("file", metavar="FILE", help="YAML file, such as carreras-2007")
    add_overrides(
        parser, "overrides a key for all systems, such as data.train=train.conllu features=extended"
    )
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="TABLE",
        help="print this table and train its systems only; can be repeated",
    )
    parser.add_argument("--json", action="store_true", help="write unrounded JSON")
    parser.add_argument("--force", action="store_true", help="train all systems again")
    parser.add_argument("--quiet", action="store_true", help="only errors on stderr")
    return parser


def _trained(model: Path) -> Receipt | None:
    """The receipt of a model, beside its folder; None if there is none, or it is of another one."""
    with suppress(ConfigError):
        receipt = Receipt.read(_record_of(model), _AGAIN)
        if receipt is not None and receipt.result["weights"] == _weights_sha256(model):
            return receipt
    return None


def _record_of(model: Path) -> Path:
    return model.with_name(f"{model.name}.json")


def _weights_sha256(model: Path) -> str:
    return hashlib.sha256((model / WEIGHTS).read_bytes()).hexdigest()


class Work:
    """The selected systems and tables: finished models, models to train, scores."""

    def __init__(self, paper: Paper, tell: Callable[[str], None], *, quiet: bool) -> None:
        self.paper, self._tell, self._quiet = paper, tell, quiet
        self.left_out: dict[str, str] = {}  # tables, and why
        self._ready: dict[str, Receipt] = {}
        self._plans: dict[str, TrainingPlan] = {}
        self._sha256: dict[str, str] = {}  # of every system's training treebank

    def look_at_treebanks(self, *, named: bool) -> None:
        """Read the treebanks; skip tables that they cannot fill, or raise an error if `named`."""
        self._check_systems()
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
                    self._tell(f"table {name} is skipped: {why}")
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

    def _check_systems(self) -> None:
        """ConfigError for all systems whose template set, rule and decoder do not fit together."""
        errors = []
        for name, config in self.paper.systems.items():
            data = dataclasses.replace(config.data, test=self.paper.test)
            try:
                templates_of(dataclasses.replace(config, data=data))
                check_learning(config)
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
        """Why the treebanks have no usable graphs; empty if they have."""
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
        """Find finished models, and folders that are in the way of others."""
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
        unfinished = is_unfinished(folder)
        finished = (folder / WEIGHTS).exists() and not unfinished
        tell = silent if self._plans or finished else self._tell  # report the device only once
        plan = self._plans[name] = dataclasses.replace(
            plan_of(config, tell), tell=lambda text: self._tell(f"{name}: {text}")
        )
        if force or not finished:
            resume = unfinished and not force
            check_output(folder, resume=resume, force=force)
            if resume:
                read_checkpoint(
                    folder, plan.origin(self._sha256[name])
                )  # or an error that says why
            return
        trained = _trained(folder)
        if trained is None:
            raise ConfigError(f"{folder}: holds a model that this command did not train; {_AGAIN}")
        trained.origin.check(plan.origin(self._sha256[name]), folder, _AGAIN)
        self._ready[name] = trained

    def results(self, *, force: bool) -> dict[str, dict[str, Result]]:
        """Train missing models and score all: results by table, then by system."""
        for name in self.paper.systems:
            if name in self._ready:
                self._tell(f"{name}: trained already")
            else:
                self._train(name, force=force)
        found: dict[str, dict[str, Result]] = {name: {} for name in self.paper.tables}
        for name, plan in self._plans.items():
            guides = guides_of(plan.config, "test", self.test)
            test = load_stages(plan.output).annotate(self.test, threads=plan.threads)
            system = parsed(
                load_parser(plan.output), test, guides=guides, threads=plan.threads,
                device=plan.device,
            )  # fmt: skip
            for of_table, table in self.paper.tables.items():
                if name in table.systems:
                    found[of_table][name] = self._result(name, table, system)
        return found

    def _train(self, name: str, *, force: bool) -> None:
        plan = self._plans[name]
        resume = not force and is_unfinished(plan.output)
        trained = job.train(plan, resume=resume, force=force, quiet=self._quiet)
        self._plans[name] = trained.plan
        origin, weights = plan.origin(self._sha256[name]), _weights_sha256(plan.output)
        result = {"weights": weights, "learning_seconds": trained.learning_seconds}
        self._ready[name] = Receipt(origin, result)
        self._ready[name].write(_record_of(plan.output))

    def _result(self, name: str, table: Table, system: Treebank) -> Result:
        ignored = punctuation_by_category(self.test) if table.ignore_punctuation else None
        graphs = None
        if table.of_graphs:
            column: GraphColumn = "deps" if self._plans[name].graphs else "heads"
            graphs = score_treebank_graphs(self.test, system, column, ignored=ignored)
        trees = score_treebanks(self.test, system, ignored=ignored)
        right = self.test.heads == system.heads
        if ignored is not None:
            right &= ~ignored
        return Result(trees, graphs, self._ready[name].result["learning_seconds"], right)

    def as_json(self, results: dict[str, dict[str, Result]]) -> dict[str, Any]:
        """The tables as plain data: unrounded, null for missing figures."""
        tables = {name: table_as_json(t, results[name]) for name, t in self.paper.tables.items()}
        return {"tables": tables, "left_out": self.left_out}


if __name__ == "__main__":
    run_and_exit(main, sys.argv[1:])
