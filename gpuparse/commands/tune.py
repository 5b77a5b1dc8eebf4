"""`tune`: train and score a config with several values of its keys, or on several amounts of data.

Each setting has a folder of its own, which is that of a cross-validation with these overrides.
"""

import argparse
import hashlib
import re
import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from gpuparse.cached import cached_property
from gpuparse.commands.config import add_overrides, parse_with_overrides
from gpuparse.commands.console import exit_codes, print_json
from gpuparse.commands.crossval_scores import percentages
from gpuparse.commands.evaluate import whole_number
from gpuparse.commands.fold_runs import Folds, FoldSplit, Sample, learn_folds, read_split
from gpuparse.commands.settings import (
    ALL,
    SENTENCES,
    KeyValues,
    Setting,
    drawn_settings,
    grid,
    parse_grid,
    parse_sizes,
    setting_words,
)
from gpuparse.commands.tune_plot import Point, tuning_svg
from gpuparse.config import RunConfig, load_config
from gpuparse.errors import ConfigError, plural
from gpuparse.evaluation.reports import percent_text
from gpuparse.evaluation.significance import Bootstrap
from gpuparse.evaluation.treebanks import compare_treebanks
from gpuparse.files import check_new_file, replace_file
from gpuparse.inference.decoders import DECODERS
from gpuparse.jobs.progress import program, say, silent

# Titles of measures and their names in JSON, the one to choose by last; of graphs or trees, and
# whether relations count.
_MEASURES = (
    ("UAS", "uas", False, False), ("LAS", "las", False, True),
    ("arcs F", "arcs_f", True, False), ("labelled F", "labelled_arcs_f", True, True),
)  # fmt: skip
_NOT_SEARCHED = ("output", "data.dev", "data.test")
_LONGEST_NAME = 120  # characters of a folder's name


def main(arguments: Sequence[str]) -> int:
    """Score settings of a config on folds of data.train or on data.dev; print a table.

    Args: arguments: `CONFIG [KEY=VALUE ...] --output FOLDER [--grid KEY=VALUE,...]
        [--sizes N,...] [--random N] [--folds N] [--seed N] [--setting K] [--json | --tsv]
        [--plot FILE [--force]] [--quiet]`.
    Returns: 0.
    Raises:
        ConfigError: a setting or the command line is wrong, or the folder has results of another
            config, treebank or sample.
        DataError: a treebank cannot be used.
        ModelError: the state of an unfinished training is damaged.
    Cost: a training run per setting and fold, one per thread at a time.
    """
    options = parse_with_overrides(_parser(), arguments)
    tell = silent if options.quiet else say
    if options.plot:
        check_new_file(options.plot, force=options.force)
    axes = parse_grid(options.grid)
    if refused := [axis.name for axis in axes if axis.name in _NOT_SEARCHED]:
        raise ConfigError(f"--grid {refused[0]}: is not searched over")
    sizes = [parse_sizes(options.sizes)] if options.sizes else []
    if not axes and not sizes:
        raise ConfigError("nothing to try: give --grid KEY=VALUE,VALUE,... or --sizes N,N,...")
    if options.random is None:
        settings = grid(axes)
    else:
        settings = drawn_settings(axes, options.random, options.seed)
    settings = [{**setting, **size} for setting in settings for size in grid(sizes)]
    axes += sizes
    search = SettingsSearch(options, axes, settings, tell)
    if options.setting is not None and not 1 <= options.setting <= len(settings):
        raise ConfigError(
            f"--setting {options.setting}: expected a number from 1 to {len(settings)}"
        )
    chosen = search.trials if options.setting is None else [search.trials[options.setting - 1]]
    search.learn(chosen)
    trials = search.results(chosen)
    if options.plot:
        drawing = tuning_svg(axes, search.points(trials), search.title)
        with replace_file(options.plot, force=options.force) as file:
            file.write(drawing.encode())
    if options.json:
        print_json(search.as_json(trials))
    elif options.tsv:
        sys.stdout.write("".join("\t".join(row) + "\n" for row in search.as_rows(trials)))
    else:
        print(search.as_text(trials))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=program("tune"),
        description="Train and score a config with several values of its keys (--grid), or with"
        " several numbers of training sentences (--sizes), or all combinations of both. Settings"
        " are scored on folds of data.train (--folds), or on data.dev. After an interruption, the"
        " same command continues; when all is done, it prints the results again."
        " docs/tuning.md has examples.",
        epilog=exit_codes(0, 2, 3, 4, 5),
    )
    parser.add_argument("config", metavar="CONFIG", help="YAML file or name, as for train")
    add_overrides(parser, "overrides a key of the config, for all settings")
    parser.add_argument(
        "-o", "--output", required=True, metavar="FOLDER", help="for a folder of each setting"
    )
    parser.add_argument(
        "--grid",
        action="append",
        default=[],
        metavar="KEY=VALUE,...",
        help="values of a key, such as learning.epochs=5,10,20; repeated, all combinations; with"
        " --random also a range, such as learning.max_step=0.001..0.1",
    )
    parser.add_argument(
        "--sizes",
        metavar="N,...",
        help="numbers of training sentences, such as 100,300,1000,all, for a learning curve",
    )
    parser.add_argument(
        "--random",
        type=whole_number(1),
        metavar="N",
        help="try N settings drawn from the values and ranges instead of all combinations",
    )
    parser.add_argument(
        "--folds",
        type=whole_number(2),
        metavar="N",
        help="score on N folds of data.train, as crossval does; without it, on data.dev",
    )
    parser.add_argument(
        "--seed",
        type=whole_number(0),
        default=0,
        metavar="N",
        help="seed of --random, and of the sentences that --sizes draws (0)",
    )
    parser.add_argument(
        "--setting",
        type=int,
        metavar="K",
        help="work on this setting only, from 1, so that several processes can share them; the"
        " same command without --setting then has the table of all",
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="write unrounded JSON instead of a table")
    form.add_argument("--tsv", action="store_true", help="write tab-separated values instead")
    parser.add_argument("--plot", metavar="FILE", help="draw the scores over the values, as SVG")
    parser.add_argument("--force", action="store_true", help="replace that file if it exists")
    parser.add_argument("--quiet", action="store_true", help="only errors on stderr")
    return parser


@dataclass
class Trial:
    """A setting and, when it is finished, its result.

    number: from 1. result: as in `scores.json`. change: to the first setting with the same number
    of sentences, in the measure to choose by.
    """

    number: int
    setting: Setting
    name: str
    config: RunConfig
    folds: Folds
    result: dict[str, Any] = field(default_factory=dict)
    measure: str = ""
    change: Bootstrap | None = None

    @property
    def n_sentences(self) -> int:
        """Number of sentences that each fold learns from, at least."""
        size = self.setting.get(SENTENCES, ALL)
        return self.folds.split.n_known if size == ALL else int(size)

    @property
    def mean(self) -> float:
        """The measure to choose by, of all folds."""
        return self.result["mean"][self.measure] or 0.0

    @property
    def deviation(self) -> float | None:
        """Its standard deviation over folds."""
        return self.result["standard_deviation"][self.measure]


class SettingsSearch:
    """All settings of a search, and what its folder has of them.

    Args: options: of the command line. axes, settings: what to try. tell: writes a line.
    Raises: ConfigError, DataError: as `main`, before anything is learned.
    """

    def __init__(
        self,
        options: argparse.Namespace,
        axes: Sequence[KeyValues],
        settings: Sequence[Setting],
        tell: Callable[[str], None],
    ) -> None:
        self.options, self.axes, self.tell = options, axes, tell
        if Path(options.output).exists() and not Path(options.output).is_dir():
            raise ConfigError(f"{options.output}: is not a folder; name another output")
        self._splits: dict[tuple, FoldSplit] = {}
        # What does not fit together is an error now, before anything is learned.
        self.trials = [
            Trial(number, setting, _folder_name(setting), config, self._folds(setting, config))
            for number, (setting, config) in enumerate(
                zip(settings, self._configs(settings), strict=True), 1
            )
        ]
        measures = [trial.folds.measures for trial in self.trials]
        if len({each.graphs for each in measures}) > 1:
            raise ConfigError("settings that find trees and settings that find graphs: not both")
        are_labelled = all(each.labelled for each in measures)
        self._measures = [
            (title, name)
            for title, name, of_graphs, of_labels in _MEASURES
            if of_graphs == measures[0].graphs and (are_labelled or not of_labels)
        ]

    def _configs(self, settings: Sequence[Setting]) -> list[RunConfig]:
        """The config of each setting."""
        found, errors = [], []
        for setting in settings:
            words = [*self.options.overrides, *setting_words(setting)]
            try:
                config = load_config(self.options.config, words)
            except ConfigError as error:
                errors += [line for line in str(error).splitlines() if line not in errors]
                continue
            if self.options.folds is None and config.data.dev is None:
                raise ConfigError(
                    "nothing to score on: give --folds N, or a treebank as data.dev=FILE"
                )
            data = replace(config.data, test=None, test_guide=None)
            if self.options.folds is not None:
                data = replace(data, dev=None, dev_guide=None)
            found.append(replace(config, data=data))
        if errors:
            raise ConfigError("\n".join(errors))
        if self.options.folds is not None and len({config.data.train for config in found}) > 1:
            raise ConfigError("--grid data.train: folds of different treebanks cannot be compared")
        return found

    def _folds(self, setting: Setting, config: RunConfig) -> Folds:
        split, size = self._split(config), setting.get(SENTENCES, ALL)
        if size != ALL and int(size) > split.n_known:
            raise ConfigError(
                f"--sizes {size}: data.train has only"
                f" {plural(split.n_known, 'sentence')} to learn from;"
                f" {ALL} takes them all"
            )
        sample = None if size == ALL else Sample(int(size), self.options.seed)
        folder = Path(self.options.output) / _folder_name(setting)
        return Folds(config, folder, split, tell=silent, sample=sample)

    def _split(self, config: RunConfig) -> FoldSplit:
        """What is learned from and parsed; treebanks are kept once for all settings."""
        data = config.data
        graphs = config.decoder in DECODERS and DECODERS[config.decoder].gives_graphs
        key = (data.train, data.dev, data.on_error, data.single_root, data.partial, graphs)
        if key not in self._splits:
            tell = silent if self._splits else self.tell
            self._splits[key] = read_split(config, self.options.folds, tell=tell)
        return self._splits[key]

    def learn(self, trials: Sequence[Trial]) -> None:
        """Train and parse what is missing, and join the folds of each setting."""
        unfinished = []
        for trial in trials:
            if trial.folds.is_joined():
                trial.folds.joined()
                self.tell(f"{trial.name}: already done")
            else:
                unfinished.append(trial)
        names = {trial.folds: trial.name for trial in unfinished}

        def done(folds: Folds, fold: int) -> None:
            scores = percentages(folds.scores(fold))
            shown = [
                f"{title} {percent_text(scores[name]).strip()}" for title, name in self._measures
            ]
            which = f", fold {fold}" if folds.n > 1 else ""
            self.tell(f"{names[folds]}{which}: {', '.join(shown)}")

        work = [(folds, fold) for folds in names for fold in range(1, folds.n + 1)]
        learn_folds("tune, learning", work, quiet=self.options.quiet, done=done)
        for trial in unfinished:
            words = [*self.options.overrides, *setting_words(trial.setting)]
            trial.folds.join({"config": self.options.config, "overrides": words})

    def results(self, trials: Sequence[Trial]) -> list[Trial]:
        """The finished settings, each tested against the first one of its size."""
        firsts: dict[str, Folds] = {}
        for trial in trials:
            trial.result, trial.measure = trial.folds.joined(), self._measures[-1][1]
            first = firsts.setdefault(trial.setting.get(SENTENCES, ALL), trial.folds)
            if first is not trial.folds and not trial.folds.measures.graphs:
                gold, system = trial.folds.systems()
                tested = compare_treebanks(gold, first.systems()[1], system)
                trial.change = tested.bootstrap[trial.measure]
        return list(trials)

    @cached_property
    def title(self) -> str:
        """What the scores are of."""
        split = self._split(self.trials[0].config)
        gold = split.gold()
        where = f"{plural(split.n, 'fold')} of {gold.source}" if split.dev is None else gold.source
        name = self._measures[-1][0]
        return f"{name} on {where}: {plural(len(gold), 'sentence')}, {plural(gold.n_words, 'word')}"

    def points(self, trials: Sequence[Trial]) -> list[Point]:
        """What a plot shows; `all` sentences have their number."""
        return [
            Point({**each.setting, SENTENCES: str(each.n_sentences)}, each.mean, each.deviation)
            for each in trials
        ]

    def best(self, trials: Sequence[Trial]) -> Trial | None:
        """The setting with the highest mean, among those with most sentences; the first of equals.

        None if there is no key to choose a value of.
        """
        if len({tuple(setting_words(trial.setting)) for trial in trials}) == 1:
            return None
        largest = max(trial.n_sentences for trial in trials)
        candidates = [trial for trial in trials if trial.n_sentences == largest]
        return max(candidates, key=lambda trial: trial.mean)

    def train_words(self, trial: Trial) -> list[str]:
        """The command that trains a setting on all of data.train."""
        given = [*self.options.overrides, *setting_words(trial.setting)]
        return ["gpuparse", "train", self.options.config, *given]

    def as_json(self, trials: Sequence[Trial]) -> dict[str, Any]:
        """All results as plain data."""
        best = self.best(trials)
        return {
            "config": self.options.config,
            "overrides": self.options.overrides,
            "folds": self.options.folds,
            "measure": self._measures[-1][1],
            "settings": [
                {
                    "setting": trial.number,
                    "values": dict(trial.setting),
                    "folder": trial.name,
                    "mean": trial.result["mean"],
                    "standard_deviation": trial.result["standard_deviation"],
                    "all": percentages(trial.result["all"]),
                    "change": None if trial.change is None else asdict(trial.change),
                    "seconds": trial.result["seconds"],
                }
                for trial in trials
            ],
            "best": None if best is None else best.number,
            "train": None if best is None else self.train_words(best),
        }

    def as_rows(self, trials: Sequence[Trial], *, rounded: bool = False) -> list[list[str]]:
        """The table, its header first; what does not exist is empty."""

        def text(value: float | None, form: str) -> str:
            if value is None:
                return ""
            return format(value, form) if rounded else repr(value)

        has_folds = any(trial.deviation is not None for trial in trials)
        is_tested = any(trial.change is not None for trial in trials)
        header = ["setting", *(axis.name for axis in self.axes)]
        for title, name in self._measures:
            deviation = "+-" if rounded else f"{name}_deviation"
            header += [title if rounded else name, *([deviation] if has_folds else [])]
        if is_tested:
            header += ["change", "p"]
        rows = [[*header, "seconds"]]
        for trial in trials:
            row = [str(trial.number), *trial.setting.values()]
            for _, name in self._measures:
                row.append(text(trial.result["mean"][name], ".2f"))
                if has_folds:
                    row.append(text(trial.result["standard_deviation"][name], ".2f"))
            if is_tested:
                change = trial.change
                row.append(text(change.difference if change else None, "+z.2f"))
                row.append(text(change.p if change else None, ".4f"))
            rows.append([*row, text(trial.result["seconds"], ".1f")])
        return rows

    def as_text(self, trials: Sequence[Trial]) -> str:
        """The table for readers, and the best setting as a command."""
        rows = self.as_rows(trials, rounded=True)
        n_left = 1 + len(self.axes)  # words on the left, numbers on the right
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [self.title, ""]
        for row in rows:
            cells = [
                f"{cell:<{width}}" if k < n_left else f"{cell:>{width}}"
                for k, (cell, width) in enumerate(zip(row, widths, strict=True))
            ]
            lines.append("  ".join(cells).rstrip())
        if any(trial.change for trial in trials):
            beyond = " with as many sentences" if self.axes[-1].name == SENTENCES else ""
            lines += [
                "",
                f"change: {self._measures[-1][0]} of all words, against the first setting{beyond};"
                " p: paired bootstrap",
            ]
        if best := self.best(trials):
            lines += ["", f"best: setting {best.number}", shlex.join(self.train_words(best))]
        return "\n".join(lines)


def _folder_name(setting: Setting) -> str:
    """The name of a setting's folder: its overrides, in characters that all file systems take."""
    text = ",".join(f"{name}={value}" for name, value in setting.items())
    plain = re.sub(r"[^\w.,=+-]", "_", text, flags=re.ASCII)
    if plain == text and len(text) <= _LONGEST_NAME:
        return text
    return f"{plain[:_LONGEST_NAME]}~{hashlib.sha256(text.encode()).hexdigest()[:8]}"
