"""A search over settings: trainings with several values of keys, or on several amounts of data.

Each setting has a folder of its own, which is that of a cross-validation with these overrides.
"""

import hashlib
import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from gpuparse.config import RunConfig, load_config
from gpuparse.data.cached import cached_property
from gpuparse.errors import ConfigError, option, plural
from gpuparse.evaluation.reports import percent_text
from gpuparse.evaluation.significance import Bootstrap, compare_treebanks
from gpuparse.inference.decoders import DECODERS
from gpuparse.jobs.fold_scores import percentages
from gpuparse.jobs.folds import Folds, FoldSplit, Sample, learn_folds, read_split
from gpuparse.jobs.plots import Point
from gpuparse.jobs.progress import silent
from gpuparse.jobs.settings import ALL, SENTENCES, KeyValues, Setting, setting_words

# Titles of measures and their names in JSON, the one to choose by last; of graphs or trees, and
# whether relations count.
_MEASURES = (
    ("UAS", "uas", False, False), ("LAS", "las", False, True),
    ("arcs F", "arcs_f", True, False), ("labelled F", "labelled_arcs_f", True, True),
)  # fmt: skip

_LONGEST_NAME = 120  # characters of a folder's name


@dataclass(frozen=True)
class SearchOptions:
    """The options of a search: a config with overrides, folders and treebanks.

    output: a folder for a folder of each setting. folds: of data.train; None for data.dev. seed: of
    samples of sentences. setting: the number of the only one to work on, from 1; None for all.
    quiet: whether no progress is shown.
    """

    config: str
    overrides: list[str]
    output: str
    folds: int | None
    seed: int
    setting: int | None
    quiet: bool


@dataclass
class Trial:
    """A setting and, when it is finished, its result.

    number: from 1. result: as in `scores.json`. change: to the first setting with the same number
    of sentences, in the measure to choose by.
    """

    number: int
    setting: Setting
    name: str
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

    Args: asked: see there. axes, settings: what to try. tell: writes a line.
    Raises: ConfigError, DataError: as `main`, before anything is learned.
    """

    def __init__(
        self,
        asked: SearchOptions,
        axes: Sequence[KeyValues],
        settings: Sequence[Setting],
        tell: Callable[[str], None],
    ) -> None:
        self._asked, self.axes, self.tell = asked, axes, tell
        if Path(asked.output).exists() and not Path(asked.output).is_dir():
            raise ConfigError(f"{asked.output}: is not a folder; name another output")
        self._splits: dict[tuple, FoldSplit] = {}
        # What does not fit together is an error now, before anything is learned.
        self.trials = [
            Trial(number, setting, _folder_name(setting), self._folds(setting, config))
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
        if (number := asked.setting) is not None:
            if not 1 <= number <= len(settings):
                raise ConfigError(
                    f"{option('setting', number)}: expected a number from 1 to {len(settings)}"
                )
            self.trials = [self.trials[number - 1]]

    def _configs(self, settings: Sequence[Setting]) -> list[RunConfig]:
        """The config of each setting."""
        found, errors = [], []
        for setting in settings:
            words = [*self._asked.overrides, *setting_words(setting)]
            try:
                config = load_config(self._asked.config, words)
            except ConfigError as error:
                errors += [line for line in str(error).splitlines() if line not in errors]
                continue
            if self._asked.folds is None and config.data.dev is None:
                raise ConfigError(
                    f"nothing to score on: give a number with {option('folds')}, or a treebank as"
                    " data.dev=FILE"
                )
            data = replace(config.data, test=None, test_guide=None)
            if self._asked.folds is not None:
                data = replace(data, dev=None, dev_guide=None)
            found.append(replace(config, data=data))
        if errors:
            raise ConfigError("\n".join(errors))
        if self._asked.folds is not None and len({config.data.train for config in found}) > 1:
            raise ConfigError("data.train: folds of different treebanks cannot be compared")
        return found

    def _folds(self, setting: Setting, config: RunConfig) -> Folds:
        split, size = self._split(config), setting.get(SENTENCES, ALL)
        if size != ALL and int(size) > split.n_known:
            raise ConfigError(
                f"{option('sizes', size)}: data.train has only"
                f" {plural(split.n_known, 'sentence')} to learn from;"
                f" {ALL} takes them all"
            )
        sample = None if size == ALL else Sample(int(size), self._asked.seed)
        folder = Path(self._asked.output) / _folder_name(setting)
        return Folds(config, folder, split, tell=silent, sample=sample)

    def _split(self, config: RunConfig) -> FoldSplit:
        """The sentences learned from and parsed; treebanks are kept once for all settings."""
        data = config.data
        graphs = config.decoder in DECODERS and DECODERS[config.decoder].gives_graphs
        key = (data.train, data.dev, data.on_error, data.single_root, data.partial, graphs)
        if key not in self._splits:
            tell = silent if self._splits else self.tell
            self._splits[key] = read_split(config, self._asked.folds, tell=tell)
        return self._splits[key]

    def learn(self) -> None:
        """Train and parse what is missing, join folds, and test settings against the first."""
        unfinished = []
        for trial in self.trials:
            if trial.folds.is_joined():
                trial.result = trial.folds.joined()
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
        learn_folds("tune, learning", work, quiet=self._asked.quiet, done=done)
        for trial in unfinished:
            words = [*self._asked.overrides, *setting_words(trial.setting)]
            trial.result = trial.folds.join({"config": self._asked.config, "overrides": words})
        firsts: dict[str, Folds] = {}  # by number of sentences
        for trial in self.trials:
            trial.measure = self._measures[-1][1]
            first = firsts.setdefault(trial.setting.get(SENTENCES, ALL), trial.folds)
            if first is not trial.folds and not trial.folds.measures.graphs:
                gold, system = trial.folds.systems()
                tested = compare_treebanks(gold, first.systems()[1], system)
                trial.change = tested.bootstrap[trial.measure]

    @cached_property
    def title(self) -> str:
        """The title of the table: measure, folds and treebank."""
        split = self.trials[0].folds.split
        gold = split.gold()
        where = f"{plural(split.n, 'fold')} of {gold.source}" if split.dev is None else gold.source
        name = self._measures[-1][0]
        return f"{name} on {where}: {plural(len(gold), 'sentence')}, {plural(gold.n_words, 'word')}"

    def points(self) -> list[Point]:
        """The points of a plot; `all` sentences have their number."""
        return [
            Point({**each.setting, SENTENCES: str(each.n_sentences)}, each.mean, each.deviation)
            for each in self.trials
        ]

    @cached_property
    def best(self) -> Trial | None:
        """The setting with the highest mean, among those with most sentences; the first of equals.

        None if there is no key to choose a value of.
        """
        if len({tuple(setting_words(trial.setting)) for trial in self.trials}) == 1:
            return None
        largest = max(trial.n_sentences for trial in self.trials)
        candidates = [trial for trial in self.trials if trial.n_sentences == largest]
        return max(candidates, key=lambda trial: trial.mean)

    def train_words(self, trial: Trial) -> list[str]:
        """The command that trains a setting on all of data.train."""
        given = [*self._asked.overrides, *setting_words(trial.setting)]
        return ["gpuparse", "train", self._asked.config, *given]

    def as_json(self) -> dict[str, Any]:
        """All results as plain data."""
        best = self.best
        return {
            "config": self._asked.config,
            "overrides": self._asked.overrides,
            "folds": self._asked.folds,
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
                for trial in self.trials
            ],
            "best": None if best is None else best.number,
            "train": None if best is None else self.train_words(best),
        }

    def as_rows(self, *, rounded: bool = False) -> list[list[str]]:
        """The table, its header first; what does not exist is empty."""

        def text(value: float | None, form: str) -> str:
            if value is None:
                return ""
            return format(value, form) if rounded else repr(value)

        has_folds = any(trial.deviation is not None for trial in self.trials)
        is_tested = any(trial.change is not None for trial in self.trials)
        header = ["setting", *(axis.name for axis in self.axes)]
        for title, name in self._measures:
            deviation = "+-" if rounded else f"{name}_deviation"
            header += [title if rounded else name, *([deviation] if has_folds else [])]
        if is_tested:
            header += ["change", "p"]
        rows = [[*header, "seconds"]]
        for trial in self.trials:
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

    def as_text(self) -> str:
        """The table for readers, and the best setting as a command."""
        rows = self.as_rows(rounded=True)
        n_left = 1 + len(self.axes)  # words on the left, numbers on the right
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [self.title, ""]
        for row in rows:
            cells = [
                f"{cell:<{width}}" if k < n_left else f"{cell:>{width}}"
                for k, (cell, width) in enumerate(zip(row, widths, strict=True))
            ]
            lines.append("  ".join(cells).rstrip())
        if any(trial.change for trial in self.trials):
            beyond = " with as many sentences" if self.axes[-1].name == SENTENCES else ""
            lines += [
                "",
                f"change: {self._measures[-1][0]} of all words, against the first setting{beyond};"
                " p: paired bootstrap",
            ]
        if best := self.best:
            lines += ["", f"best: setting {best.number}", shlex.join(self.train_words(best))]
        return "\n".join(lines)


def _folder_name(setting: Setting) -> str:
    """The name of a setting's folder: its overrides, in characters that all file systems take."""
    text = ",".join(f"{name}={value}" for name, value in setting.items())
    plain = re.sub(r"[^\w.,=+-]", "_", text, flags=re.ASCII)
    if plain == text and len(text) <= _LONGEST_NAME:
        return text
    return f"{plain[:_LONGEST_NAME]}~{hashlib.sha256(text.encode()).hexdigest()[:8]}"
