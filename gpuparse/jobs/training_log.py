"""What a training run says while it learns, and how long the rest of it will take."""

import time
from collections.abc import Callable, Mapping

from gpuparse.config import RunConfig
from gpuparse.features.templates import TemplateSet
from gpuparse.inference.decoders import DECODERS
from gpuparse.jobs.progress import bar, clock_time, on_terminal, redraw
from gpuparse.learning.stages.addends import ADDEND_STAGES
from gpuparse.learning.stages.arcs import ArcStage
from gpuparse.learning.stages.labels import LabelStage
from gpuparse.learning.stages.pruning import PruningStage
from gpuparse.pipeline import BEFORE_PARSER

TAGS, CALIBRATION = "tags of data.train", "calibration"

INTERVAL = 10.0  # seconds between the lines of two epochs, where stderr is no terminal
STAGE_INTERVAL = 60.0  # between two lines of a stage without epochs of its own
_REDRAW = 0.1  # seconds between two drawings on a terminal

# Microseconds per word on one thread, measured on French: what is expected of parts that have not
# begun. What has been learned so far in a run says how much faster or slower its machine is.
_PRUNING, _PRUNED = 40.0, 450.0  # of an epoch of a parser; of the marginals of all sentences
_ARC_TEMPLATE = 0.5  # of an epoch of the first order, for each template
_ARCS = {1: 0.0, 2: 30.0, 3: 400.0}  # of an epoch, by the order of the decoder
_JOINT = 50.0  # more, where labels are found with the trees
_LABELS = 4.0
_ENCODER, _EPOCHS_OF_ENCODER = 3000.0, 9
_HELD_OUT = 0.3  # of the sentences are learned from by the second parser


def expected_costs(config: RunConfig, arcs: TemplateSet, threads: int) -> dict[str, float]:
    """The parts of a run in their order, and how long each is expected to take, in any unit.

    Args: arcs: the templates that the decoder reads.
    """
    decoder, costs = DECODERS[config.decoder], dict[str, float]()
    for name, row in BEFORE_PARSER.items():
        if getattr(config, name).learn:
            costs[row.title] = row.cost
    holds_out = config.data.dev is None and config.calibration == "held-out"
    if not config.parser:
        return costs
    if config.tagger.learn and (folds := config.tagger.folds) > 1:
        predicted = sum(costs.get(row.title, 0.0) for row in BEFORE_PARSER.values() if row.reads)
        costs[TAGS] = (folds - 1) * predicted / min(threads, folds)
    parser: dict[str, float] = {}
    if config.has_encoder:
        epochs = config.encoder.epochs
        costs["encoder"] = _ENCODER * (_EPOCHS_OF_ENCODER if isinstance(epochs, str) else epochs)
        return costs
    for stage in ADDEND_STAGES:
        if cost := stage.cost(arcs, config):
            parser[stage.name] = cost
    if decoder.is_higher_order and config.pruning.max_heads is not None:
        keys = config.pruning
        parser[PruningStage.name] = _PRUNING * keys.epochs * (keys.folds + 1) + _PRUNED
    if arcs.arc:
        order = 3 if decoder.is_higher_order else 2 if decoder.parts else 1
        epoch = _ARC_TEMPLATE * len(arcs.arc) + _ARCS[order]
        epoch += _JOINT * (config.labels.kind == "joint")
        parser[ArcStage.name] = epoch * config.learning.epochs
    if config.labels.kind == "second-stage":
        parser[LabelStage.name] = _LABELS * config.labels.epochs
    costs |= parser
    if holds_out and decoder.has("marginals", "native"):
        costs[CALIBRATION] = _HELD_OUT * sum(parser.values())
    return costs


class TimeLeft:
    """An estimate of how long the rest of a run takes.

    A part that has begun goes on as fast as so far. Parts to come take what is expected of them,
    times how much longer the parts so far have taken than was expected.

    Args:
        costs: of all parts, as `expected_costs`.
        clock: returns seconds from any start.
    """

    def __init__(
        self, costs: Mapping[str, float], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._costs, self._clock, self._before = costs, clock, clock()
        self._first, self._done, self._seconds = (dict.fromkeys(costs, 0.0) for _ in range(3))

    def skip(self, part: str, share: float) -> None:
        """A share of a part, 0..1, was done before this run began."""
        if part in self._costs:
            self._first[part] = self._done[part] = share
        self._before = self._clock()

    def advance(self, part: str, share: float) -> None:
        """So much of a part is done now; the time since the last call was spent on it."""
        now = self._clock()
        if part in self._costs:
            self._seconds[part] += now - self._before
            self._done[part] = share
        self._before = now

    def left(self) -> float | None:
        """Seconds; None before anything is done."""
        done = {part: self._done[part] - self._first[part] for part in self._costs}
        expected = sum(self._costs[part] * share for part, share in done.items())
        if expected <= 0.0:
            return None
        slower = sum(self._seconds[part] for part, share in done.items() if share > 0) / expected
        left = 0.0
        for part, share in done.items():
            whole = self._seconds[part] / share if share > 0 else self._costs[part] * slower
            left += whole * (1.0 - self._done[part])
        return left


class TrainingLog:
    """The lines of a run about its progress.

    On a terminal each epoch has a line, and the work at hand one that is drawn again and again.
    Elsewhere an epoch has a line if it ends a stage, or the last line is INTERVAL seconds old.

    Args:
        tell: writes a line.
        quiet: whether to write nothing.
        left: of the whole run.
        clock: returns seconds from any start.
    """

    def __init__(
        self,
        tell: Callable[[str], None],
        *,
        quiet: bool,
        left: TimeLeft,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._tell, self._quiet, self.left, self._clock = tell, quiet, left, clock
        self._is_drawn_on = not quiet and on_terminal()
        self._said = self._drawn = clock()
        self._began: float | None = None

    def draw(self, part: str, share: float, what: str, fraction: float, note: str) -> None:
        """Show the work at hand.

        Args:
            part: of the run; see `expected_costs`. share: of it that is done.
            what: the work. fraction: of it that is done. note: a figure of it.
        """
        self.left.advance(part, share)
        now = self._clock()
        if self._is_drawn_on and now - self._drawn >= _REDRAW:
            self._drawn = now
            redraw(f"gpuparse: {what}: {bar(fraction)} {note}{self._time_left()}")

    def clear(self) -> None:
        """Take away what `draw` shows, before another line is written."""
        if self._is_drawn_on:
            redraw("")

    def say(self, text: str, *, is_end: bool = True, interval: float = INTERVAL) -> None:
        """Write a line.

        Args: is_end: whether it ends a stage. interval: seconds since the last line, if not.
        """
        self.clear()
        now = self._clock()
        if not self._quiet and (is_end or self._is_drawn_on or now - self._said >= interval):
            self._said = now
            self._tell(text)

    def _time_left(self) -> str:
        left = self.left.left()
        return "" if left is None or left < 1 else f", about {clock_time(left)} left"

    def epoch(self, text: str, *, is_last: bool, end: str = "") -> None:
        """Write the line of an epoch.

        Args: is_last: whether it is the last one of its stage. end: more about the stage, if so.
        """
        self.say(f"{text}{self._time_left()}{end if is_last else ''}", is_end=is_last)

    def begin(self, part: str) -> Callable[[float, str], None]:
        """Begin a part without epochs; returns what is told which share is done, and a note."""

        def watch(share: float, note: str) -> None:
            self.draw(part, share, part, share, note)
            if not self._is_drawn_on:
                text = f"{part}: {100 * share:.0f}%, {note}{self._time_left()}"
                self.say(text, is_end=False, interval=STAGE_INTERVAL)

        self._began = self._clock()
        return watch

    def end(self, part: str, text: str) -> None:
        """End such a part, or skip it if it was not begun."""
        if self._began is None:
            self.left.skip(part, 1.0)
            self.say(f"{part}: {text}")
            return
        self.left.advance(part, 1.0)
        self.say(f"{part}: {self._clock() - self._began:.1f} s, {text}{self._time_left()}")
        self._began = None
