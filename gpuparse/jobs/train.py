"""Learn a parser and the stages before it from a config, save them, and score them."""

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gpuparse.config import RunConfig
from gpuparse.data.cached import cached_property
from gpuparse.data.columns import DEPREL
from gpuparse.data.treebank import Treebank
from gpuparse.data.vocabulary import is_empty_column
from gpuparse.errors import (
    ConfigError,
    DataError,
    ModelError,
    NoTreeError,
    one_line,
    option,
    plural,
    require,
)
from gpuparse.files import lock_folder
from gpuparse.inference.decoders import DECODERS
from gpuparse.jobs import training_log
from gpuparse.jobs.card import about_treebank, card_of, remove_card, write_card
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
from gpuparse.jobs.gold import Gold, check_treebanks, guides_of, read_gold
from gpuparse.jobs.receipts import Origin
from gpuparse.jobs.records import MetricsFile, as_epoch, remove_records
from gpuparse.jobs.resources import choose_device, limit_torch_threads, thread_count, working_device
from gpuparse.jobs.stages import check_stages, has_stages, learn_stages
from gpuparse.jobs.toy import TOY, is_toy
from gpuparse.jobs.train_checks import (
    check_output_of,
    origin_of,
    templates_of,
    with_possible_keep,
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
from gpuparse.model.pipeline import NO_STAGES, write_stages
from gpuparse.model.self_test import device_difference, with_random_weights

_UNREACHABLE = {
    "projectivise": "the nearest projective tree is learned from",
    "skip": "left out by the parser",
    "none": "learned from, although the decoder cannot build them",
}


class Run:
    """One training run: its input, output and messages.

    `learning_seconds` is the CPU time of this process in the epochs that made the model, those
    before an interruption included, without reading, checkpoints and scoring. `scores` has those on
    data.dev and data.test, once `train` has read them.

    Args:
        config: the config, valid.
        tell: writes a line for the user.
        quiet: whether to show no progress.
        watch: called with each event of learning; what it raises ends the run, which can be
            resumed.
    Raises: ConfigError: a template set, device or package does not exist.
    """

    def __init__(
        self,
        config: RunConfig,
        tell: Callable[[str], None],
        *,
        quiet: bool,
        watch: Callable[[events.LearningEvent], None] = lambda event: None,
    ) -> None:
        if _is_one_of_several() and not (config.has_encoder and config.parser):
            raise ConfigError("torchrun: several processes learn models with an encoder alone")
        self._config_as_given = config  # what the run depends on, whatever the treebank lacks
        config = with_possible_keep(config, tell)
        self.config, self.tell, self.quiet = config, tell, quiet
        self._watch = watch
        self.output = Path(config.output)
        self.learning_seconds = 0.0
        self.stages = NO_STAGES  # those before the parser, once they are learned
        self.scores: RunScores  # made by `train`, as are the log and the guides of data.train
        self._log: TrainingLog
        self._guides: np.ndarray | None
        self._sizes: dict[str, dict[str, int]] = {}  # of the treebanks, for the card
        self._facts = about_treebank(config)
        self.arcs, self.labels = templates_of(config)
        check_stages(config)
        self.graphs = DECODERS[config.decoder].gives_graphs
        self.threads = thread_count(config.threads)
        if config.engine == "torch":
            what = "device cuda" if config.device == "cuda" else "learning.engine torch"
            require(what, "torch")
        is_native = config.engine == "native" and self._pretrained is None
        limit_torch_threads(self.threads, is_native=is_native)
        self.device = self._chosen_device()
        self._group: Any = None
        if _is_one_of_several():
            from gpuparse.learning.stages.encoder.processes import Processes

            self._group = Processes.joined(self.device)
            if self.follows:  # the first process says the same
                self.tell = lambda text: None
        self._say_device(tell)

    def _chosen_device(self) -> str:
        """Where trees are found: of higher orders by native code on the CPU alone."""
        config = self.config
        if not DECODERS[config.decoder].is_higher_order:
            return choose_device(config.device, self.tell)
        if config.device == "cuda":
            raise ConfigError(
                f"device cuda: decoder {config.decoder} is native code on the CPU: choose device"
                " cpu or auto"
            )
        return "cpu"

    def _say_device(self, tell: Callable[[str], None]) -> None:
        """Say what is done where, unless all is done on the CPU. Args: tell: of any process."""
        if self.config.engine == "torch":
            size = self.config.learning.batch_size
            tell(
                f"arcs are learned in torch on {self.device}, learning.batch_size {size}"
                + ("; larger batches are much faster" if size < 32 else "")
            )
        elif self.device != "cpu":
            tell(
                f"learning runs on the CPU, {self.device} parses data.dev and data.test;"
                " learning.engine=torch learns there"
            )

    @property
    def is_labelled(self) -> bool:
        """True if relations are learned."""
        return self.config.labels.kind != "none"

    def origin(self, treebank: str) -> Origin:
        """The origin of the model; `treebank` is the SHA-256 of the training treebank."""
        config = self._config_as_given
        return origin_of(config, {"data.train": treebank}, *templates_of(config))

    @property
    def follows(self) -> bool:
        """True if it only learns together with the first one of several processes."""
        return self._group is not None and self._group.rank > 0

    def train(self, *, resume: bool, force: bool) -> Tested | None:
        """Learn from data.train and write the model: stages before the parser, and the parser.

        Of several processes that learn together, the first one does all that is not learning.

        Returns: What the written parser makes of data.test; None without either.
        """
        if self.follows:
            self._trainer(self._read_all().treebank).follow()
            return None
        check_output_of(self.config, resume=resume, force=force)
        check_treebanks(self.config)
        started = time.monotonic()
        gold = self._read_all()
        origin = self.origin(gold.sha256)
        with lock_folder(self.output):
            check_output_of(self.config, resume=resume, force=force)
            if resume and not is_kept(self.output):
                resume = False
                self.tell(f"{self.output}: nothing is kept of an earlier run: this one begins anew")
            self._log = TrainingLog(lambda text: self.tell(text), quiet=self.quiet)
            with unfinished_run(self.output, resume=resume):
                try:
                    return self._learn_all(gold.treebank, origin, started, resume=resume)
                finally:
                    self._log.clear()

    def _read_all(self) -> Gold:
        """Read the treebanks; returns data.train, and `scores` has the others."""
        data, has_parser = self.config.data, self.config.parser
        partial = data.partial if has_parser else True
        gold = self._read("train", single_root=data.single_root is True, partial=partial)
        if has_parser and self.is_labelled and not self.graphs:
            self._check_relations(gold.treebank)
        of_others = None if has_parser else True
        dev = self._read("dev", partial=of_others).treebank if data.dev else None
        test = self._read("test", partial=of_others).treebank if data.test else None
        self.scores = RunScores(
            self.config, dev, test, threads=self.threads, device=self.device, tell=self.tell
        )
        return gold

    def _read(self, name: str, *, single_root: bool = False, partial: bool | None = None) -> Gold:
        gold = read_gold(
            getattr(self.config.data, name),
            on_error=self.config.data.on_error,
            single_root=single_root,
            graphs=self.graphs,
            tell=self.tell,
            partial=partial,
        )
        self._sizes[name] = {"sentences": len(gold.treebank), "words": gold.treebank.n_words}
        missing, skipped = int((gold.treebank.heads < 0).sum()), "malformed sentence"
        self.tell(
            f"{name}: {plural(len(gold.treebank), 'sentence')},"
            f" {plural(gold.treebank.n_words, 'word')}"
            + (f", {missing:,} of them without a head" if missing else "")
            + (f", {plural(gold.left_out, skipped)} skipped" if gold.left_out else "")
        )
        return gold

    def _check_relations(self, treebank: Treebank) -> None:
        """Let heads alone be learned from a treebank without relations."""
        if not is_empty_column(treebank, DEPREL):
            return
        self.tell(
            f"{treebank.source}: DEPREL (column 8) is `_` in every word: heads only are learned"
        )
        self.config = replace(self.config, labels=replace(self.config.labels, kind="none"))
        self.arcs, self.labels = templates_of(self.config)

    def _learn_all(
        self, treebank: Treebank, origin: Origin, started: float, *, resume: bool
    ) -> Tested | None:
        """Learn and write all models, and score them on data.dev and data.test."""
        if has_stages(self.config):
            treebank = self._learn_stages(treebank, KeptStages(self.output, origin))
        if not self.config.parser:
            self._write_stages(started)
            self._write_card(None)
            return None
        trainer = self._trainer(treebank)
        states = States(self.output, origin)
        checkpoint = states.read() if resume else None
        if checkpoint:
            self._restore(trainer, checkpoint, STATE)
        else:
            remove_records(self.output)
        self.learning_seconds = checkpoint.learning_seconds if checkpoint else 0.0
        metrics = MetricsFile(self.output, trainer.epochs_done if checkpoint else None)
        self._learn(trainer, states, metrics)
        bits = self._bits(trainer)
        model = trainer.model(bits, self.config.recorded().to_yaml())
        model = self._calibrated(model, treebank, origin)
        self._write(model)
        self.scores.write(
            trainer, model, bits, seconds=time.monotonic() - started,
            learning_seconds=self.learning_seconds,
        )  # fmt: skip
        tested = self.scores.write_test()
        self._write_card(model)
        seconds = time.monotonic() - started
        self.tell(f"{self.output}: model of {bits}-bit weights written, {seconds:.1f} s in all")
        if is_toy(model.config):
            self.tell(f"{self.output}: {TOY}")
        return tested

    def _learn_stages(self, treebank: Treebank, kept: KeptStages) -> Treebank:
        """Learn the stages before the parser; returns what the parser learns from.

        Afterwards data.dev and data.test have predicted tags, too.
        """
        self.stages, treebank = learn_stages(
            self.config, treebank, self.scores.dev, kept, threads=self.threads, tell=self.tell,
            log=self._log,
        )  # fmt: skip
        fills_tags = self._pretrained is not None and not self.config.encoder.read_tags
        self.scores.annotate(self.stages, parser_fills_tags=fills_tags)
        return treebank

    def _trainer(self, treebank: Treebank) -> StagesTrainer:
        """The trainer on data.train, with what the user should know of it."""
        config = self.config
        self._guides = guides_of(config, "train", treebank)
        self.scores.read_guides()
        trainer = self._trainer_on(self.device, treebank)
        device = working_device(self.device, config.device, lambda: self._difference(trainer))
        if device != self.device:
            self.device = self.scores.device = device
            trainer = self._trainer_on(device, treebank)
        threads = plural(self.threads, "thread")
        roots = "one root a tree" if trainer.single_root else "any number of roots"
        self.tell(f"{config.decoder}, {roots}, {threads}, parsing on {self.device}")
        if trainer.n_unreachable and self.graphs:
            arcs = plural(
                trainer.n_unreachable, "arc that would close a cycle is",
                "arcs that would close a cycle are",
            )  # fmt: skip
            self.tell(f"{arcs} left out")
        elif trainer.n_unreachable:
            done = _UNREACHABLE[config.learning.unreachable]
            self.tell(f"{plural(trainer.n_unreachable, 'non-projective training tree')}: {done}")
        if self._pretrained is None:
            read = self.arcs.only(DECODERS[config.decoder].parts)
            for line in expectations(treebank, read, self.labels, config.data.pos):
                self.tell(line)
        return trainer

    def _trainer_on(self, device: str, treebank: Treebank) -> StagesTrainer:
        return self._new_trainer(self.config, treebank, self._guides, device, self._group)

    def _new_trainer(
        self, config: RunConfig, treebank: Treebank, guides: np.ndarray | None, device: str,
        group: Any = None,
    ) -> StagesTrainer:  # fmt: skip
        """A trainer of the kind of scorer that the config has; group: learns together."""
        if self._pretrained is not None:
            from gpuparse.learning.stages.encoder.trainer import EncoderTrainer

            return EncoderTrainer(treebank, config, self._pretrained, self.tell, device, group)
        return Trainer(
            treebank, self.arcs, self.labels, config, threads=self.threads, guides=guides,
            device=device,
        )  # fmt: skip

    @cached_property
    def _pretrained(self) -> Any:
        """The pretrained encoder that is learned on from; None: the parser has templates."""
        name = self.config.encoder.model
        if not self.config.has_encoder or not self.config.parser or name is None:
            return None
        require("encoder.model", "torch", "transformers", "tokenizers")
        from gpuparse.learning.stages.encoder.pretrained import read_pretrained

        found = read_pretrained(name)
        if found.licence is None:
            self.tell(
                f"warning: encoder.model {name}: its README.md names no licence: find out what you"
                " may do with it, and with models that are learned from it"
            )
        return found

    def _difference(self, trainer: StagesTrainer) -> str:
        """The self-test of the device, with the kinds of weights that the run needs there."""
        if self._pretrained is not None:  # there are no whole numbers to compare
            return ""
        model, of_run = trainer.model(16), ["int16"]
        if self.config.engine == "torch":
            of_run.append("float32")
        tested = (with_random_weights(model, dtype) for dtype in of_run)
        found = (device_difference(each, self.device, only_known=True) for each in tested)
        return next(filter(None, found), "")

    def _restore(self, trainer: StagesTrainer, checkpoint: Checkpoint, name: str) -> None:
        try:
            trainer.restore(checkpoint.state)
        except ModelError as error:
            raise ModelError(
                f"{self.output / FOLDER / name}: {error}; give {option('force', True)} to start"
                " again"
            ) from error

    def _learn(self, trainer: StagesTrainer, states: States, metrics: MetricsFile) -> None:
        """Learn all epochs that are left, and keep states of them."""
        events, told = self._timed(trainer.learn()), _told(trainer)
        began = stage_began = time.monotonic()
        cpu_seconds, n_epochs = self.learning_seconds, 0
        for first in events:
            stage = trainer.stage(first.stage)
            step = _Step.of(stage, first)
            if step.is_first:
                stage_began, n_epochs = began, 0
            n_epochs += 1
            for event in _rest_of_epoch(first, events):
                fraction = event.done / event.total
                self._log.draw(step.what, fraction, self._mistakes(event))
            cpu, cpu_seconds = self.learning_seconds - cpu_seconds, self.learning_seconds
            now = time.monotonic()
            epoch = as_epoch(event, now - began, cpu)
            text, end = f"{step.what}: {now - began:.1f} s, {self._mistakes(event)}", ""
            if stage.is_scored:
                before, told = told, _told(trainer)
                for name, summary in told.items():
                    if name not in before:
                        self.tell(summary)
                # Before the next event is requested, which changes the weights.
                if self.scores.dev is not None:
                    scores = self.scores.score_dev(trainer, with_labels=stage.has_labels)
                    epoch |= {f"dev_{key_of(name)}": score for name, score in scores.items()}
                    text += ", dev " + ", ".join(f"{n} {score:.2f}" for n, score in scores.items())
                    if self._keeps_best:
                        stage.scored(list(scores.values())[-1])
                end = f"; {plural(n_epochs, 'epoch')} in {time.monotonic() - stage_began:.1f} s"
                end += f", {self._kept_epoch(stage, step)}" if step.is_last else ""
            metrics.add(epoch)
            states.after_epoch(
                lambda: Checkpoint(trainer.state(), self.learning_seconds),
                is_last=trainer.is_learned,
            )
            self._log.epoch(text, is_last=step.is_last, end=end)
            began = time.monotonic()
        if self.scores.dev is not None and (self.scores.dev_scores is None or self._keeps_best):
            self.scores.score_dev(trainer)

    def _timed(self, events: Iterator[events.LearningEvent]) -> Iterator[events.LearningEvent]:
        """The events; the CPU time that passes before each is added to `learning_seconds`."""
        while True:
            began = time.process_time()
            event = next(events, None)
            self.learning_seconds += time.process_time() - began
            if event is None:
                return
            self._watch(event)
            yield event

    def _mistakes(self, event: events.LearningEvent) -> str:
        rate = 100 * event.wrong / event.words
        if self.graphs:
            return f"{rate:.2f} wrong or missing arcs per 100 words"
        return f"{100 - rate:.2f}% of the words right"

    @property
    def _keeps_best(self) -> bool:
        return self.config.learning.keep == "best"

    def _kept_epoch(self, stage: Stage, step: "_Step") -> str:
        """Which epoch of a stage, or of one of its models, that has ended is kept."""
        if stage.best is None:
            return "the last one is kept"
        return f"epoch {(stage.best.epoch - 1) % step.epochs + 1} is kept"

    def _bits(self, trainer: StagesTrainer) -> int:
        """Bits per stored weight: 8 if the scores on data.dev fall by little."""
        wanted = self.config.weights.bits
        if isinstance(wanted, int):
            return wanted
        if self.scores.dev is None or trainer.most_loss is None:
            return 16
        coarse, fine = (self.scores.dev_scores_of(trainer, bits) for bits in (8, 16))
        holds = all(c >= f - trainer.most_loss for c, f in zip(coarse, fine, strict=True))
        names = self.scores.names_of_scores
        self.tell(
            f"dev: {names[0]} {coarse[0]:.2f}, {names[1]} {coarse[1]:.2f} with 8-bit weights,"
            f" {fine[0]:.2f}, {fine[1]:.2f} with 16"
        )
        return 8 if holds else 16

    def _calibrated(self, model: Parser, learned_from: Treebank, origin: Origin) -> Parser:
        """The model with temperatures fitted to unseen trees, if it has probabilities."""
        if not DECODERS[self.config.decoder].has("marginals", "native"):
            return model
        dev = self.scores.dev
        if dev is not None:
            model, before, after = fit_temperatures(
                model, dev, guides=self.scores.guides["dev"], threads=self.threads
            )
            self.tell(f"dev: probabilities calibrated, {fits_as_text(before, after)}")
        elif self.config.calibration == "held-out":
            try:
                model = self._calibrated_on_held_out(model, learned_from, origin)
            except (ConfigError, DataError, NoTreeError) as error:
                self.tell(f"probabilities are not calibrated: {one_line(error)}")
        return model

    def _calibrated_on_held_out(self, model: Parser, treebank: Treebank, origin: Origin) -> Parser:
        """The model with the temperatures of a parser of some sentences, fitted to others."""
        parts = calibration_parts(len(treebank))
        if parts is None:
            raise DataError(f"there are fewer than {PIECES} sentences")
        learned, held_out = parts
        self.tell(
            "calibration: without data.dev, a second parser learns from"
            f" {plural(int(learned.sum()), 'sentence')}, and probabilities are fitted to"
            f" {int(held_out.sum()):,} others; calibration=none leaves this out"
        )
        guides = self._guides
        words = np.repeat(np.arange(len(treebank)), np.diff(treebank.word_starts))
        of_learned, of_held_out = (
            None if guides is None else guides[part[words]] for part in parts
        )
        data = replace(self.config.data, single_root=model.single_root)
        trainer = self._new_trainer(
            replace(self.config, data=data), treebank.only(learned), of_learned, self.device
        )
        states = States(self.output, origin, CALIBRATION)
        if (checkpoint := states.read()) is not None:
            self._restore(trainer, checkpoint, CALIBRATION)
        n_epochs, n_done = (
            sum(getattr(stage, what) for stage in trainer.stages) for what in ("epochs", "done")
        )
        watch = self._log.begin(training_log.CALIBRATION)
        for event in trainer.learn():
            n_done += event.epoch_is_over
            fraction = 0.0 if event.epoch_is_over else event.done / event.total
            watch((n_done + fraction) / n_epochs, event.stage)
            if event.epoch_is_over:
                is_last = n_done == n_epochs
                states.after_epoch(lambda: Checkpoint(trainer.state(), 0.0), is_last=is_last)
        other = trainer.model(16)
        fitted, before, after = fit_temperatures(
            other, treebank.only(held_out), guides=of_held_out, threads=self.threads
        )
        self._log.end(training_log.CALIBRATION, fits_as_text(before, after))
        return with_temperatures_of(model, other, fitted)

    def _write(self, model: Parser | None) -> None:
        """Write the model."""
        remove_card(self.output)
        write_stages(self.stages, self.output)
        if model is not None:
            save_parser(model, self.output)

    def _write_stages(self, started: float) -> None:
        """Write the stages before the parser, where there is no parser."""
        self._write(None)
        seconds = self.scores.write_of_stages(started)
        self.tell(f"{self.output}: stages written, {seconds:.1f} s in all")

    def _write_card(self, model: Parser | None) -> None:
        """Write what the model was learned from and how well it parses."""
        facts, sizes, about = self._facts, self._sizes, self.scores.about
        card = card_of(self.output, self.config, facts, self.stages, model, sizes, about)
        write_card(self.output, card)


def _is_one_of_several() -> bool:
    """True if the command `torchrun` has started this process, and others."""
    return "TORCHELASTIC_RUN_ID" in os.environ and int(os.environ["WORLD_SIZE"]) > 1


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
