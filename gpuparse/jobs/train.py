"""Learn a parser and the stages before it from a config, save them, and score them."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from gpuparse.data.treebank import Treebank
from gpuparse.errors import (
    ConfigError,
    DataError,
    ModelError,
    NoTreeError,
    one_line,
    option,
    plural,
)
from gpuparse.files import lock_folder
from gpuparse.inference.decoders import DECODERS
from gpuparse.jobs import training_log
from gpuparse.jobs.card import card_of, remove_card, write_card
from gpuparse.jobs.checkpoint import (
    CALIBRATION,
    FOLDER,
    STATE,
    Checkpoint,
    KeptStages,
    States,
    is_kept,
    unfinished_run,
)
from gpuparse.jobs.expectations import expectations
from gpuparse.jobs.gold import Gold, check_treebanks, gold_part, guides_of
from gpuparse.jobs.receipts import Origin
from gpuparse.jobs.records import MetricsFile, as_epoch, remove_records
from gpuparse.jobs.resources import working_device
from gpuparse.jobs.stages import has_stages, learn_stages
from gpuparse.jobs.toy import TOY, is_toy
from gpuparse.jobs.train_checks import (
    TrainingPlan,
    check_output_of,
    learning_of_encoders,
    with_possible_labels,
)
from gpuparse.jobs.train_scores import RunScores, Tested, key_of
from gpuparse.jobs.training_log import TrainingLog
from gpuparse.learning import events
from gpuparse.learning.stages.stage import Stage
from gpuparse.learning.temperatures import (
    PIECES,
    calibration_parts,
    fit_temperatures,
    fits_as_text,
    with_temperatures_of,
)
from gpuparse.learning.trainer import StagesTrainer, Trainer
from gpuparse.model.folder import save_parser
from gpuparse.model.parser import Parser
from gpuparse.model.pipeline import NO_STAGES, Pipeline, write_stages
from gpuparse.model.self_test import device_difference, with_random_weights

_UNREACHABLE = {
    "projectivise": "the nearest projective tree is learned from",
    "skip": "left out by the parser",
    "none": "learned from, although the decoder cannot build them",
}


@dataclass(frozen=True, eq=False)
class Trained:
    """A finished training run.

    Attributes:
        plan: what was learned with: heads only if data.train has no relations, and the device that
            passed its self-test.
        scores: those on data.dev and data.test.
        tested: what the written parser makes of data.test; None without either.
        learning_seconds: CPU time of this process in the epochs that made the model, those before
            an interruption included, without reading, checkpoints and scoring.
    """

    plan: TrainingPlan
    scores: RunScores
    tested: Tested | None = None
    learning_seconds: float = 0.0


def train(
    plan: TrainingPlan,
    *,
    resume: bool,
    force: bool,
    quiet: bool,
    watch: Callable[[events.LearningEvent], None] = lambda event: None,
) -> Trained:
    """Learn from data.train and write the model: stages before the parser, and the parser.

    Of several processes that learn together, the first one does all that is not learning.

    Args:
        resume: whether to continue an interrupted run. force: whether to replace a model.
        quiet: whether to show no progress.
        watch: called with each event of learning; what it raises ends the run, which can be
            resumed.
    Raises: ConfigError, DataError, ModelError: the output folder, a treebank or a state that is
        kept cannot be used.
    """
    if plan.follows:
        plan, gold, scores = _read_all(plan)
        plan, trainer = _trainer(plan, gold.treebank, None)  # with an encoder, without guides
        trainer.follow()
        return Trained(plan, scores)
    check_output_of(plan.config, resume=resume, force=force)
    check_treebanks(plan.config)
    started = time.monotonic()
    plan, gold, scores = _read_all(plan)
    origin = plan.origin(gold.sha256)
    with lock_folder(plan.output):
        check_output_of(plan.config, resume=resume, force=force)
        if resume and not is_kept(plan.output):
            resume = False
            plan.tell(f"{plan.output}: nothing is kept of an earlier run: this one begins anew")
        log = TrainingLog(plan.tell, quiet=quiet)
        with unfinished_run(plan.output, resume=resume):
            try:
                return _learn_all(
                    plan, gold.treebank, scores, origin, log, watch, started, resume=resume
                )
            finally:
                log.clear()


def _read_all(plan: TrainingPlan) -> tuple[TrainingPlan, Gold, RunScores]:
    """Read the treebanks.

    Returns: The plan, of heads only if data.train has no relations; data.train; the scores on the
        others.
    """
    data, has_parser = plan.config.data, plan.config.parser
    partial = data.partial if has_parser else True
    gold = _read(plan, "train", partial=partial)
    if has_parser and plan.is_labelled and not plan.graphs:
        plan = with_possible_labels(plan, gold.treebank)
    of_others = None if has_parser else True
    dev = _read(plan, "dev", partial=of_others).treebank if data.dev else None
    test = _read(plan, "test", partial=of_others).treebank if data.test else None
    scores = RunScores(
        plan.config, dev, test, threads=plan.threads, device=plan.device, tell=plan.tell
    )
    return plan, gold, scores


def _read(plan: TrainingPlan, name: str, *, partial: bool | None) -> Gold:
    gold = gold_part(plan.config, name, graphs=plan.graphs, tell=plan.tell, partial=partial)
    missing, skipped = int((gold.treebank.heads < 0).sum()), "malformed sentence"
    plan.tell(
        f"{name}: {plural(len(gold.treebank), 'sentence')},"
        f" {plural(gold.treebank.n_words, 'word')}"
        + (f", {missing:,} of them without a head" if missing else "")
        + (f", {plural(gold.left_out, skipped)} skipped" if gold.left_out else "")
    )
    return gold


def _learn_all(
    plan: TrainingPlan, treebank: Treebank, scores: RunScores, origin: Origin, log: TrainingLog,
    watch: Callable[[events.LearningEvent], None], started: float, *, resume: bool,
) -> Trained:  # fmt: skip
    """Learn and write all models, and score them on data.dev and data.test."""
    config, output, tell, stages = plan.config, plan.output, plan.tell, NO_STAGES
    if has_stages(config):
        stages, treebank = learn_stages(
            config, treebank, scores.dev, KeptStages(output, origin), threads=plan.threads,
            tell=tell, log=log,
        )  # fmt: skip
        fills_tags = plan.pretrained is not None and not config.encoder.read_tags
        scores.annotate(stages, parser_fills_tags=fills_tags)
    if not config.parser:
        _write(output, stages, None)
        seconds = scores.write_of_stages(started)
        tell(f"{output}: stages written, {seconds:.1f} s in all")
        _write_card(plan, treebank, stages, None, scores)
        return Trained(plan, scores)
    guides = guides_of(config, "train", treebank)
    scores.read_guides()
    plan, trainer = _trainer(plan, treebank, guides)
    scores.device = plan.device
    states = States(output, origin)
    checkpoint = states.read() if resume else None
    if checkpoint:
        _restore(trainer, checkpoint, output / FOLDER / STATE)
    else:
        remove_records(output)
    clock = _LearningClock(checkpoint.learning_seconds if checkpoint else 0.0)
    metrics = MetricsFile(output, trainer.epochs_done if checkpoint else None)
    _learn(plan, trainer, clock, watch, states, metrics, scores, log)
    bits = _bits(plan, trainer, scores)
    model = trainer.model(bits, config.recorded().to_yaml())
    second = _with_epochs_of(plan, trainer)
    model = _calibrated(second, model, treebank, guides, scores, origin, log)
    _write(output, stages, model)
    scores.write(
        trainer, model, bits, seconds=time.monotonic() - started, learning_seconds=clock.seconds
    )
    tested = scores.write_test()
    _write_card(plan, treebank, stages, model, scores)
    seconds = time.monotonic() - started
    tell(f"{output}: model of {bits}-bit weights written, {seconds:.1f} s in all")
    if is_toy(model.config):
        tell(f"{output}: {TOY}")
    return Trained(plan, scores, tested, clock.seconds)


def _trainer(
    plan: TrainingPlan, treebank: Treebank, guides: np.ndarray | None
) -> tuple[TrainingPlan, StagesTrainer]:
    """The trainer on data.train, and the plan with the device that it works on."""
    config, tell = plan.config, plan.tell
    trainer = _new_trainer(plan, treebank, guides)
    device = working_device(plan.device, config.device, lambda: _difference(plan, trainer))
    if device != plan.device:
        plan = replace(plan, device=device)
        trainer = _new_trainer(plan, treebank, guides)
    threads = plural(plan.threads, "thread")
    roots = "one root per tree" if trainer.single_root else "any number of roots"
    tell(f"{config.decoder}, {roots}, {threads}, parsing on {plan.device}")
    if trainer.n_unreachable and plan.graphs:
        arcs = plural(
            trainer.n_unreachable, "arc that would close a cycle is",
            "arcs that would close a cycle are",
        )  # fmt: skip
        tell(f"{arcs} left out")
    elif trainer.n_unreachable:
        done = _UNREACHABLE[config.learning.unreachable]
        tell(f"{plural(trainer.n_unreachable, 'non-projective training tree')}: {done}")
    if plan.pretrained is None:
        read = plan.arcs.only(DECODERS[config.decoder].parts)
        for line in expectations(treebank, read, plan.labels, config.data.pos):
            tell(line)
    return plan, trainer


def _new_trainer(
    plan: TrainingPlan, treebank: Treebank, guides: np.ndarray | None
) -> StagesTrainer:
    """A trainer of the kind of scorer that the config has."""
    if plan.pretrained is not None:
        found: StagesTrainer = learning_of_encoders().EncoderTrainer(
            treebank, plan.config, plan.pretrained, plan.tell, plan.device, plan.group
        )
        return found
    return Trainer(
        treebank, plan.arcs, plan.labels, plan.config, threads=plan.threads, guides=guides,
        device=plan.device,
    )  # fmt: skip


def _difference(plan: TrainingPlan, trainer: StagesTrainer) -> str:
    """The self-test of the device, with the kinds of weights that the run needs there."""
    if plan.pretrained is not None:  # there are no whole numbers to compare
        return ""
    model, of_run = trainer.model(16), ["int16"]
    if plan.config.engine == "torch":
        of_run.append("float32")
    tested = (with_random_weights(model, dtype) for dtype in of_run)
    found = (device_difference(each, plan.device, only_known=True) for each in tested)
    return next(filter(None, found), "")


def _restore(trainer: StagesTrainer, checkpoint: Checkpoint, file: Path) -> None:
    try:
        trainer.restore(checkpoint.state)
    except ModelError as error:
        again = f"give {option('force', True)} to start again"
        raise ModelError(f"{file}: {error}; {again}") from error


class _LearningClock:
    """CPU time of this process in the epochs that made the model.

    Args: seconds: those before an interruption.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def timed(self, events: Iterator[events.LearningEvent]) -> Iterator[events.LearningEvent]:
        """The events; the time that passes before each is added."""
        while True:
            began = time.process_time()
            event = next(events, None)
            self.seconds += time.process_time() - began
            if event is None:
                return
            yield event


def _learn(
    plan: TrainingPlan, trainer: StagesTrainer, clock: _LearningClock,
    watch: Callable[[events.LearningEvent], None], states: States, metrics: MetricsFile,
    scores: RunScores, log: TrainingLog,
) -> None:  # fmt: skip
    """Learn all epochs that are left, and keep states of them."""
    timed, told = clock.timed(trainer.learn()), _told(trainer)
    keeps_best = plan.config.learning.keep == "best"
    began = stage_began = time.monotonic()
    cpu_seconds, n_epochs = clock.seconds, 0
    for first in timed:
        stage = trainer.stage(first.stage)
        step = _Step.of(stage, first)
        if step.is_first:
            stage_began, n_epochs = began, 0
        n_epochs += 1
        for event in _rest_of_epoch(first, timed):
            watch(event)
            mistakes = _mistakes(event, graphs=plan.graphs)
            log.draw(step.what, event.done / event.total, mistakes)
        cpu, cpu_seconds = clock.seconds - cpu_seconds, clock.seconds
        now = time.monotonic()
        epoch = as_epoch(event, now - began, cpu)
        text, end = f"{step.what}: {now - began:.1f} s, {mistakes}", ""
        if stage.is_scored:
            before, told = told, _told(trainer)
            for name, summary in told.items():
                if name not in before:
                    plan.tell(summary)
            # Before the next event is requested, which changes the weights.
            if scores.dev is not None:
                found = scores.score_dev(trainer, with_labels=stage.has_labels)
                epoch |= {f"dev_{key_of(name)}": score for name, score in found.items()}
                text += ", dev " + ", ".join(f"{n} {score:.2f}" for n, score in found.items())
                if keeps_best:
                    stage.scored(list(found.values())[-1])
            end = f"; {plural(n_epochs, 'epoch')} in {time.monotonic() - stage_began:.1f} s"
            end += f", {_kept_epoch(stage, step)}" if step.is_last else ""
        metrics.add(epoch)
        states.after_epoch(
            lambda: Checkpoint(trainer.state(), clock.seconds), is_last=trainer.is_learned
        )
        log.epoch(text, is_last=step.is_last, end=end)
        began = time.monotonic()
    if scores.dev is not None and (scores.dev_scores is None or keeps_best):
        scores.score_dev(trainer)


def _mistakes(event: events.LearningEvent, *, graphs: bool) -> str:
    rate = 100 * event.wrong / event.words
    if graphs:
        return f"{rate:.2f} wrong or missing arcs per 100 words"
    return f"{100 - rate:.2f}% of the words right"


def _kept_epoch(stage: Stage, step: "_Step") -> str:
    """The epoch that is kept of a finished stage, or of one of its models, in words."""
    if stage.best is None:
        return "the last one is kept"
    return f"epoch {(stage.best.epoch - 1) % step.epochs + 1} is kept"


def _bits(plan: TrainingPlan, trainer: StagesTrainer, scores: RunScores) -> int:
    """Bits per stored weight: 8 if the scores on data.dev fall by little."""
    wanted = plan.config.weights.bits
    if isinstance(wanted, int):
        return wanted
    if scores.dev is None or trainer.most_loss is None:
        return 16
    coarse, fine = (scores.dev_scores_of(trainer, bits) for bits in (8, 16))
    holds = all(c >= f - trainer.most_loss for c, f in zip(coarse, fine, strict=True))
    names = scores.names_of_scores
    plan.tell(
        f"dev: {names[0]} {coarse[0]:.2f}, {names[1]} {coarse[1]:.2f} with 8-bit weights,"
        f" {fine[0]:.2f}, {fine[1]:.2f} with 16"
    )
    return 8 if holds else 16


def _with_epochs_of(plan: TrainingPlan, trainer: StagesTrainer) -> TrainingPlan:
    """The plan with the epochs of an encoder that has been learned.

    `encoder.epochs: auto` would give the smaller part of the treebank, from which calibration
    learns, more of them.
    """
    epochs = trainer.epochs_done.get("encoder")
    if epochs is None:
        return plan
    encoder = replace(plan.config.encoder, epochs=epochs)
    return replace(plan, config=replace(plan.config, encoder=encoder))


def _calibrated(
    plan: TrainingPlan, model: Parser, treebank: Treebank, guides: np.ndarray | None,
    scores: RunScores, origin: Origin, log: TrainingLog,
) -> Parser:  # fmt: skip
    """The model with temperatures fitted to unseen trees, if it has probabilities.

    Args: treebank, guides: what it was learned from.
    """
    if not DECODERS[plan.config.decoder].has("marginals", "native"):
        return model
    if scores.dev is not None:
        model, before, after = fit_temperatures(
            model, scores.dev, guides=scores.guides["dev"], threads=plan.threads
        )
        plan.tell(f"dev: probabilities calibrated, {fits_as_text(before, after)}")
    elif plan.config.calibration == "held-out":
        try:
            model = _calibrated_on_held_out(plan, model, treebank, guides, origin, log)
        except (ConfigError, DataError, NoTreeError) as error:
            plan.tell(f"probabilities are not calibrated: {one_line(error)}")
    return model


def _calibrated_on_held_out(
    plan: TrainingPlan, model: Parser, treebank: Treebank, guides: np.ndarray | None,
    origin: Origin, log: TrainingLog,
) -> Parser:  # fmt: skip
    """The model with the temperatures of a parser of some sentences, fitted to others."""
    parts = calibration_parts(len(treebank))
    if parts is None:
        raise DataError(f"there are fewer than {PIECES} sentences")
    learned, held_out = parts
    plan.tell(
        "calibration: without data.dev, a second parser learns from"
        f" {plural(int(learned.sum()), 'sentence')}, and probabilities are fitted to"
        f" {int(held_out.sum()):,} others; calibration=none leaves this out"
    )
    words = np.repeat(np.arange(len(treebank)), np.diff(treebank.word_starts))
    of_learned, of_held_out = (None if guides is None else guides[part[words]] for part in parts)
    data = replace(plan.config.data, single_root=model.single_root)
    alone = replace(plan, config=replace(plan.config, data=data), group=None)
    trainer = _new_trainer(alone, treebank.only(learned), of_learned)
    states = States(plan.output, origin, CALIBRATION)
    if (checkpoint := states.read()) is not None:
        _restore(trainer, checkpoint, plan.output / FOLDER / CALIBRATION)
    n_epochs, n_done = (
        sum(getattr(stage, what) for stage in trainer.stages) for what in ("epochs", "done")
    )
    show = log.begin(training_log.CALIBRATION)
    for event in trainer.learn():
        n_done += event.epoch_is_over
        fraction = 0.0 if event.epoch_is_over else event.done / event.total
        show((n_done + fraction) / n_epochs, event.stage)
        if event.epoch_is_over:
            is_last = n_done == n_epochs
            states.after_epoch(lambda: Checkpoint(trainer.state(), 0.0), is_last=is_last)
    other = trainer.model(16)
    fitted, before, after = fit_temperatures(
        other, treebank.only(held_out), guides=of_held_out, threads=plan.threads
    )
    log.end(training_log.CALIBRATION, fits_as_text(before, after))
    return with_temperatures_of(model, other, fitted)


def _write(output: Path, stages: Pipeline, model: Parser | None) -> None:
    remove_card(output)
    write_stages(stages, output)
    if model is not None:
        save_parser(model, output)


def _write_card(
    plan: TrainingPlan, treebank: Treebank, stages: Pipeline, model: Parser | None,
    scores: RunScores,
) -> None:  # fmt: skip
    """Write what the model was learned from and how well it parses."""
    parts = {"train": treebank, "dev": scores.dev, "test": scores.test}
    sizes = {
        name: {"sentences": len(part), "words": part.n_words}
        for name, part in parts.items() if part is not None
    }  # fmt: skip
    card = card_of(plan.output, plan.config, plan.facts, stages, model, sizes, scores.about)
    write_card(plan.output, card)


def _told(trainer: StagesTrainer) -> dict[str, str]:
    """The summaries, by name, of the stages that have come to a result."""
    return {stage.name: stage.summary for stage in trainer.stages if stage.summary is not None}


class _Step(NamedTuple):
    """An epoch of a stage, or of a network: its name, and its number among all."""

    what: str
    epoch: int
    epochs: int

    @classmethod
    def of(cls, stage: Stage, event: events.LearningEvent) -> "_Step":
        """The name of an epoch, and its place in its stage, or in its network's."""
        network, epoch = divmod(event.epoch - 1, stage.epochs_of_model)
        what = stage.name
        if stage.models > 1:
            what += f", network {network + 1} of {stage.models}"
        what += f", {stage.unit} {epoch + 1} of {stage.epochs_of_model}"
        return cls(what, epoch + 1, stage.epochs_of_model)

    @property
    def is_first(self) -> bool:
        return self.epoch == 1

    @property
    def is_last(self) -> bool:
        return self.epoch == self.epochs


def _rest_of_epoch(
    first: events.LearningEvent, events: Iterator[events.LearningEvent]
) -> Iterator[events.LearningEvent]:
    """The events of an epoch from the first one to its end; no further event is requested."""
    yield first
    while not first.epoch_is_over:
        first = next(events)
        yield first
