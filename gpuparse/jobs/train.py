"""Learn a parser and the stages before it from a config, save them, and score them."""

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gpuparse.cached import cached_property
from gpuparse.config import SYNTHETIC, RunConfig
from gpuparse.data.columns import IN_MISC
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
)
from gpuparse.evaluation.graphs import GraphScores
from gpuparse.evaluation.metrics import TreeScores
from gpuparse.evaluation.reports import Measures, treebank_scores
from gpuparse.evaluation.treebanks import score_treebank_graphs, score_treebanks
from gpuparse.evaluation.words import Hits
from gpuparse.extras import require
from gpuparse.files import lock_folder
from gpuparse.inference.decoders import DECODERS
from gpuparse.jobs import training_log
from gpuparse.jobs.calibrate import fits_as_text
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
from gpuparse.jobs.gold import Gold, check_treebanks, guide_source, guides_of, parsed, read_gold
from gpuparse.jobs.receipts import Origin
from gpuparse.jobs.records import MetricsFile, as_epoch, check_events, remove_records, write_scores
from gpuparse.jobs.resources import choose_device, limit_torch_threads, thread_count, working_device
from gpuparse.jobs.stages import (
    accuracies,
    accuracies_as_text,
    as_scores,
    check_stages,
    has_stages,
    hits_from_text,
    learn_stages,
    learned_of,
    weights_of,
)
from gpuparse.jobs.toy import TOY
from gpuparse.jobs.train_checks import (
    check_keep,
    check_output_of,
    origin_of,
    start_of,
    templates_of,
)
from gpuparse.jobs.training_log import TimeLeft, TrainingLog, expected_costs
from gpuparse.learning import events
from gpuparse.learning.stages.stage import Stage
from gpuparse.learning.start import (
    FILE,
    Start,
    rounded_of,
    write_learned,
)
from gpuparse.learning.temperatures import (
    PIECES,
    calibration_parts,
    fit_temperatures,
    with_temperatures_of,
)
from gpuparse.learning.trainer import (
    StagesTrainer,
    Trainer,
)
from gpuparse.model_folder import load_parser, save_parser
from gpuparse.parser import Parser
from gpuparse.pipeline import (
    NO_STAGES,
    Pipeline,
    write_stages,
)
from gpuparse.self_test import device_difference, with_random_weights

_DEPREL = 7
_UNREACHABLE = {
    "projectivise": "the nearest projective tree is learned from",
    "reorder": "learned from with their words in a projective order",
    "skip": "left out by the parser",
    "none": "learned from, although the decoder cannot build them",
}


class Tested(NamedTuple):
    """What a new model makes of data.test.

    graphs: of decoders of graphs. from_text: of models that read raw text.
    """

    system: Treebank
    scores: TreeScores
    graphs: GraphScores | None
    from_text: dict[str, Hits] | None


class Run:
    """One training run: its input, output and messages.

    `learning_seconds` is the CPU time of this process in the epochs that made the model, those
    before an interruption included, without reading, checkpoints and scoring. `dev_scores` are the
    last ones on data.dev: UAS and LAS, or F of arcs without and with labels.

    Args:
        config: the config, valid.
        tell: writes a line for the user.
        quiet: whether to show no progress.
        watch: called with each event of learning; what it raises ends the run, which can be
            resumed.
        tensorboard: whether to write event files too.
    Raises: ConfigError: a template set, device or package does not exist.
    """

    def __init__(
        self,
        config: RunConfig,
        tell: Callable[[str], None],
        *,
        quiet: bool,
        watch: Callable[[events.LearningEvent], None] = lambda event: None,
        tensorboard: bool = False,
    ) -> None:
        if tensorboard:
            check_events()
        self._has_events = tensorboard
        if _is_one_of_several() and not (config.has_encoder and config.parser):
            raise ConfigError("torchrun: several processes learn models with an encoder alone")
        self._given = config  # what the run depends on, whatever the treebank lacks
        self.config, self.tell, self.quiet = config, tell, quiet
        self._watch = watch
        self.output = Path(config.output)
        self.learning_seconds = 0.0
        self.dev_scores: tuple[float, float] | None = None
        self._parsed_devs: dict[int, Treebank] = {}  # by the number of bits of the weights
        self._about: dict[str, Any] = {}  # what scores.json says
        self._tag_scores: dict[str, dict[str, float]] = {}
        self._gold: dict[str, Treebank | None] = {}  # dev and test without predicted tags
        self._from_text: dict[str, dict[str, Hits]] = {}
        self._sizes: dict[str, dict[str, int]] = {}  # of the treebanks, for the card
        self._facts = about_treebank(config)
        self._read_templates(config)
        check_keep(config)
        check_stages(config)
        self.stages: Pipeline | None = None
        self._start: Start | None = None
        self._stage_starts: dict[str, Any] = {}
        if config.init_from is not None:
            self._start, self._stage_starts = start_of(config, Path(config.init_from))
        self.graphs = DECODERS[config.decoder].gives_graphs
        self.threads = thread_count(config.threads)
        if config.backend == "torch":
            what = "device cuda" if config.device == "cuda" else "learning.backend torch"
            require(what, "torch")
        is_native = config.backend == "cpu" and self._pretrained is None
        limit_torch_threads(self.threads, is_native=is_native)
        is_higher_order = DECODERS[config.decoder].is_higher_order  # native code on the CPU
        if is_higher_order and config.device == "cuda":
            raise ConfigError(
                f"device cuda: decoder {config.decoder} is native code on the CPU: choose device"
                " cpu or auto"
            )
        self.device = "cpu" if is_higher_order else choose_device(config.device, tell)
        self._group: Any = None
        if _is_one_of_several():
            from gpuparse.learning.stages.encoder.processes import Processes

            self._group = Processes.joined(self.device)
            if self._group.rank > 0:  # the first process says the same
                self.tell = lambda text: None
        if config.backend == "torch":
            size = config.learning.batch_size
            tell(
                f"arcs are learned in torch on {self.device}, learning.batch_size {size}"
                + ("; larger batches are much faster" if size < 32 else "")
            )
        elif self.device != "cpu":
            tell(
                f"learning runs on the CPU, {self.device} parses data.dev and data.test;"
                " learning.backend=torch learns there"
            )

    def _read_templates(self, config: RunConfig) -> None:
        """The templates of the run, if it has any, and whether relations are learned."""
        self.arcs, self.labels = templates_of(config)
        self.is_labelled = config.labels.kind != "none"

    def train(self, *, resume: bool, force: bool) -> Tested | None:
        """Learn from data.train and write the model: stages before the parser, and the parser.

        Of several processes that learn together, the first one does all that is not learning.

        Returns: What the written parser makes of data.test; None without either.
        """
        if self._group is not None and self._group.rank > 0:
            self._trainer(self._read_all().treebank).follow()
            return None
        check_output_of(self.config, resume=resume, force=force)
        start = self.config.init_from
        if start is not None and os.path.realpath(start) == os.path.realpath(self.output):
            raise ConfigError(f"output: {self.output} is init_from too: name another output")
        check_treebanks(self.config)
        started = time.monotonic()
        gold = self._read_all()
        origin = self.origin(gold.sha256)
        with lock_folder(self.output):
            check_output_of(self.config, resume=resume, force=force)
            if resume and not is_kept(self.output):
                resume = False
                self.tell(f"{self.output}: nothing is kept of an earlier run: this one begins anew")
            self.log = self._new_log()
            with unfinished_run(self.output, resume=resume):
                try:
                    return self._learn_all(gold.treebank, origin, started, resume=resume)
                finally:
                    self.log.clear()

    def _read_all(self) -> Gold:
        """Read the treebanks; returns data.train."""
        data, has_parser = self.config.data, self.config.parser
        partial = data.partial if has_parser else True
        gold = self._read("train", single_root=data.single_root is True, partial=partial)
        if has_parser and self.is_labelled and not self.graphs:
            self._check_relations(gold.treebank)
        of_others = None if has_parser else True
        self.dev = self._read("dev", partial=of_others).treebank if data.dev else None
        self.tested = self._read("test", partial=of_others).treebank if data.test else None
        return gold

    def _check_relations(self, treebank: Treebank) -> None:
        """Let heads alone be learned from a treebank without relations."""
        if not is_empty_column(treebank, _DEPREL):
            return
        what = f"{treebank.source}: DEPREL (column 8) is `_` in every word"
        if self._start is not None:
            raise DataError(f"{what}, but the model of init_from has relations: annotate them")
        self.tell(f"{what}: heads only are learned")
        self.config = replace(self.config, labels=replace(self.config.labels, kind="none"))
        self._read_templates(self.config)

    def _new_log(self) -> TrainingLog:
        read = self.arcs.only(DECODERS[self.config.decoder].parts)
        left = TimeLeft(expected_costs(self.config, read, self.threads))
        return TrainingLog(lambda text: self.tell(text), quiet=self.quiet, left=left)

    def _learn_all(
        self, treebank: Treebank, origin: Origin, started: float, *, resume: bool
    ) -> Tested | None:
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
        with MetricsFile(
            self.output, trainer.epochs_done if checkpoint else None, has_events=self._has_events
        ) as metrics:
            self._learn(trainer, states, metrics)
        bits = self._bits(trainer)
        model = trainer.model(bits, self.config.recorded().to_yaml())
        model = self._calibrated(model, treebank, origin)
        self._write(model, trainer.learned())
        self._write_scores(trainer, model, bits, time.monotonic() - started)
        tested = self._test()
        self._write_card(model)
        seconds = time.monotonic() - started
        self.tell(f"{self.output}: model of {bits}-bit weights written, {seconds:.1f} s in all")
        if self.config.data.train.startswith(SYNTHETIC):
            self.tell(f"{self.output}: {TOY}")
        return tested

    def _write(self, model: Parser | None, learned: dict[str, np.ndarray]) -> None:
        """Write the model, and what it was rounded from if that is to be kept."""
        stages = self.stages or NO_STAGES
        (self.output / FILE).unlink(missing_ok=True)  # never of another model
        remove_card(self.output)
        write_stages(stages, self.output)
        if model is not None:
            save_parser(model, self.output)
        if self.config.learning.keep_state:
            whole = {} if model is None else rounded_of(model)
            state = learned_of(stages)
            whole |= {name: array for name, array in weights_of(stages).items() if name in state}
            write_learned(self.output, learned | state, whole)

    def _write_stages(self, started: float) -> None:
        """Write the stages before the parser, where there is no parser."""
        self._write(None, {})
        self._say_from_text("dev", None)
        self._say_from_text("test", None)
        seconds = time.monotonic() - started
        about = {"seed": self.config.seed, "threads": self.threads, "seconds": seconds}
        self._about = about | self._tag_scores | self._scores_from_text()
        write_scores(self.output, self._about)
        self.tell(f"{self.output}: stages written, {seconds:.1f} s in all")

    def _write_card(self, model: Parser | None) -> None:
        """Write what the model was learned from and how well it parses."""
        stages = self.stages or NO_STAGES
        facts, sizes = self._facts, self._sizes
        card = card_of(self.output, self.config, facts, stages, model, sizes, self._about)
        write_card(self.output, card)

    def _learn_stages(self, treebank: Treebank, kept: KeptStages) -> Treebank:
        """Learn the stages before the parser; returns what the parser learns from.

        Afterwards data.dev and data.test have predicted tags, too.
        """
        self._gold = {"dev": self.dev, "test": self.tested}
        self.stages, treebank = learn_stages(
            self.config, treebank, self.dev, kept, threads=self.threads, tell=self.tell,
            log=self.log, starts=self._stage_starts,
        )  # fmt: skip
        self.dev, self.tested = (self._annotated(*part) for part in self._gold.items())
        return treebank

    def _annotated(self, name: str, part: Treebank | None) -> Treebank | None:
        """data.dev or data.test with predicted tags, whose scores are kept."""
        if part is None:
            return None
        assert self.stages is not None
        if self._fills_tags:  # the lemmatiser reads tags that there are not yet
            return part
        predicted = self.stages.annotate(part, threads=self.threads)
        self._score_tags(name, part, predicted, self.stages.columns)
        return predicted

    @property
    def _fills_tags(self) -> bool:
        """Whether the parser fills the tags that stages read."""
        return self._pretrained is not None and not self.config.encoder.read_tags

    def _score_filled(self, name: str, part: Treebank, system: Treebank, model: Parser) -> None:
        """Score the columns that a model has filled in data.dev or data.test, and then lemmas."""
        if model.fills:
            lemmatizer = Pipeline(None, None, self.stages.lemmatizer if self.stages else None)
            system = lemmatizer.annotate(system, threads=self.threads)
            self._score_tags(name, part, system, (*model.fills, *lemmatizer.columns))

    def _score_tags(
        self, name: str, gold: Treebank, system: Treebank, columns: tuple[int, ...]
    ) -> None:
        """Score columns that are filled in data.dev or data.test, if there are any."""
        if columns:
            scores = self._tag_scores.get(name, {}) | accuracies(gold, system, columns)
            self._tag_scores[name] = scores
            self.tell(f"{name}: {accuracies_as_text(scores)}")

    def _say_from_text(self, name: str, parser: Parser | None) -> None:
        """Score what the model makes of the raw text of data.dev or data.test, if it reads it."""
        gold = self._gold.get(name)
        if self.stages is None or not self.stages.tokenizer or gold is None or not gold.n_words:
            return
        found = self._from_text[name] = hits_from_text(
            gold, self.stages, parser, threads=self.threads, device=self.device
        )
        text = f"{name}, from raw text: {accuracies_as_text(as_scores(found))}"
        if parser is not None and "uas" not in found:
            text += "; trees are not scored: the parser reads columns that no stage fills in"
        self.tell(text)

    def _scores_from_text(self) -> dict[str, Any]:
        found = {name: as_scores(hits) for name, hits in self._from_text.items()}
        return {"from_text": found} if found else {}

    def _write_scores(
        self, trainer: StagesTrainer, model: Parser, bits: int, seconds: float
    ) -> None:
        """Write scores.json, without scores on data.test so far."""
        data = self.config.data
        files = {part: getattr(data, part) for part in ("train", "dev", "test")}
        guides = {
            part: _absolute(guide_source(self.config, part))
            for part in ("dev", "test") if data.guide is not None and files[part] is not None
        }  # fmt: skip
        self._about = {
            "decoder": self.config.decoder,
            "features": self.config.features,
            "seed": self.config.seed,
            "threads": self.threads,
            "device": self.device,
            "bits": bits,
            "init_from": _absolute(self.config.init_from),
            "files": {part: _absolute(file) for part, file in files.items()},
            "guides": guides,
            "on_error": data.on_error,
            "seconds": seconds,
            "learning_seconds": self.learning_seconds,
        }
        if self.dev is not None:
            system = self._parsed_dev(trainer, bits)
            self._about["dev"] = treebank_scores(self.dev, system, self._measures)
            self._score_filled("dev", self.dev, system, model)
            self._about["dev"] |= self._tag_scores.get("dev", {})
        self._say_from_text("dev", model)
        self._about |= self._scores_from_text()
        write_scores(self.output, self._about)

    @property
    def _measures(self) -> Measures:
        return Measures(labelled=self.is_labelled, graphs=self.graphs)

    def _restore(self, trainer: StagesTrainer, checkpoint: Checkpoint, name: str) -> None:
        try:
            trainer.restore(checkpoint.state)
        except ModelError as error:
            raise ModelError(
                f"{self.output / FOLDER / name}: {error}; give {option('force', True)} to start"
                " again"
            ) from error

    def origin(self, treebank: str) -> Origin:
        """What the model depends on; `treebank` is the SHA-256 of the training treebank."""
        return origin_of(self._given, {"data.train": treebank}, *templates_of(self._given))

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

    def _trainer(self, treebank: Treebank) -> StagesTrainer:
        """The trainer on data.train, with what the user should know of it."""
        config = self.config
        treebanks = {"train": treebank, "dev": self.dev, "test": self.tested}
        self.guides = {
            part: None if each is None else guides_of(config, part, each)
            for part, each in treebanks.items()
        }
        trainer = self._trainer_on(self.device, treebank)
        device = working_device(self.device, config.device, lambda: self._difference(trainer))
        if device != self.device:
            self.device = device
            trainer = self._trainer_on(device, treebank)
        if self._start is not None:
            self._say_start(trainer, self._start.parser)
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

    def _say_start(self, trainer: StagesTrainer, start: Parser) -> None:
        """What the run starts from, and what training trees add to it."""
        model = trainer.model(16)
        old, new = (
            sum(map(len, each.linear.vocabularies.values.values())) for each in (start, model)
        )
        labels = model.labels[len(start.labels) :]
        self.tell(
            f"starts from {self.config.init_from}: {plural(old, 'value')} of words,"
            f" {new - old:,} new ones, and {plural(len(labels), 'new relation')}"
            + (f": {', '.join(labels[:10])}" if labels else "")
        )

    def _trainer_on(self, device: str, treebank: Treebank) -> StagesTrainer:
        return self._new_trainer(self.config, treebank, self.guides["train"], device, self._group)

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
            device=device, start=self._start,
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
        if self.config.backend == "torch":
            of_run.append("float32")
        tested = (with_random_weights(model, dtype) for dtype in of_run)
        found = (device_difference(each, self.device, only_known=True) for each in tested)
        return next(filter(None, found), "")

    def _learn(self, trainer: StagesTrainer, states: States, metrics: MetricsFile) -> None:
        """Learn all epochs that are left, and keep states of them."""
        for stage in trainer.stages:
            if stage.epochs:
                self.log.left.skip(stage.name, stage.done / stage.epochs)
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
                share = (event.epoch - 1 + fraction) / stage.epochs
                note = self._mistakes(event)
                self.log.draw(event.stage, share, step.what, fraction, note)
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
                if self.dev is not None:
                    scores = self._score_dev(trainer, stage)
                    epoch |= {f"dev_{_key(name)}": score for name, score in scores.items()}
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
            self.log.left.advance(event.stage, event.epoch / stage.epochs)
            self.log.epoch(text, is_last=step.is_last, end=end)
            began = time.monotonic()
        if self.dev is not None and (self.dev_scores is None or self._keeps_best):
            self._parsed_devs.clear()
            self.dev_scores = self._dev_scores(trainer, 16)

    @property
    def _keeps_best(self) -> bool:
        return self.config.learning.keep == "best"

    def _kept_epoch(self, stage: Stage, step: "_Step") -> str:
        """Which epoch of a stage, or of one of its models, that has ended is kept."""
        if stage.best is None:
            return "the last one is kept"
        return f"epoch {(stage.best.epoch - 1) % step.epochs + 1} is kept"

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

    def _score_dev(self, trainer: StagesTrainer, stage: Stage) -> dict[str, float]:
        """The scores on data.dev after an epoch; those of labels if they are learned."""
        # After every epoch: parsing the development treebank is far cheaper than an epoch.
        self._parsed_devs.clear()
        names, self.dev_scores = self.measures, self._dev_scores(trainer, 16)
        return dict(list(zip(names, self.dev_scores, strict=True))[: 1 + stage.has_labels])

    @property
    def measures(self) -> tuple[str, str]:
        """Names of the scores on data.dev, without and with labels."""
        return ("arcs F", "labelled arcs F") if self.graphs else ("UAS", "LAS")

    def _parsed_dev(self, trainer: StagesTrainer, bits: int) -> Treebank:
        """data.dev, parsed by what is learned so far; bits: of its weights."""
        assert self.dev is not None
        if bits not in self._parsed_devs:
            self._parsed_devs[bits] = self._parsed(trainer.model(bits), self.dev, "dev")
        return self._parsed_devs[bits]

    def _dev_scores(self, trainer: StagesTrainer, bits: int) -> tuple[float, float]:
        assert self.dev is not None
        system = self._parsed_dev(trainer, bits)
        if self.graphs:
            graphs = score_treebank_graphs(self.dev, system, "deps")
            return graphs.unlabelled.f or 0.0, graphs.labelled.f or 0.0
        trees = score_treebanks(self.dev, system)
        return trees.uas.percent or 0.0, trees.las.percent or 0.0

    def _calibrated(self, model: Parser, learned_from: Treebank, origin: Origin) -> Parser:
        """The model with temperatures fitted to unseen trees, if it has probabilities."""
        if not DECODERS[self.config.decoder].has("marginals", "native"):
            return model
        if self.dev is not None:
            model, before, after = fit_temperatures(
                model, self.dev, guides=self.guides["dev"], threads=self.threads
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
        guides = self.guides["train"]
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
        self.log.left.skip(training_log.CALIBRATION, n_done / max(1, n_epochs))
        watch = self.log.begin(training_log.CALIBRATION)
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
        self.log.end(training_log.CALIBRATION, fits_as_text(before, after))
        return with_temperatures_of(model, other, fitted)

    def _parsed(self, model: Parser, treebank: Treebank, part: str) -> Treebank:
        guides = self.guides[part]
        return parsed(model, treebank, guides=guides, threads=self.threads, device=self.device)

    def _bits(self, trainer: StagesTrainer) -> int:
        """Bits per stored weight: 8 if the scores on data.dev fall by little."""
        wanted = self.config.weights.bits
        if isinstance(wanted, int):
            return wanted
        if self.dev is None or trainer.most_loss is None:
            return 16
        coarse, fine = self._dev_scores(trainer, 8), self._dev_scores(trainer, 16)
        holds = all(c >= f - trainer.most_loss for c, f in zip(coarse, fine, strict=True))
        names = self.measures
        self.tell(
            f"dev: {names[0]} {coarse[0]:.2f}, {names[1]} {coarse[1]:.2f} with 8-bit weights,"
            f" {fine[0]:.2f}, {fine[1]:.2f} with 16"
        )
        return 8 if holds else 16

    def _test(self) -> Tested | None:
        """Parse data.test with the written model, and score it; None without data.test."""
        if self.tested is None:
            return None
        began, model = time.monotonic(), load_parser(self.output)
        system = self._parsed(model, self.tested, "test")
        seconds = time.monotonic() - began
        graphs = score_treebank_graphs(self.tested, system, "deps") if self.graphs else None
        found = {"seconds": seconds} | treebank_scores(self.tested, system, self._measures)
        self._score_filled("test", self.tested, system, model)
        found |= self._tag_scores.get("test", {})
        self._say_from_text("test", model)
        self._about |= {"test": found} | self._scores_from_text()
        write_scores(self.output, self._about)
        trees = score_treebanks(self.tested, system)
        return Tested(system, trees, graphs, self._from_text.get("test"))


def _is_one_of_several() -> bool:
    """Whether the command `torchrun` has started this process, and others."""
    return "TORCHELASTIC_RUN_ID" in os.environ and int(os.environ["WORLD_SIZE"]) > 1


def _told(trainer: StagesTrainer) -> dict[str, str]:
    """What is to be told of the stages that have come to a result."""
    return {stage.name: stage.summary for stage in trainer.stages if stage.summary is not None}


class _Step(NamedTuple):
    """An epoch of a stage, or of a network: its name, and its number among all."""

    what: str
    epoch: int
    epochs: int

    @classmethod
    def of(cls, stage: Stage, event: events.LearningEvent) -> "_Step":
        """What an epoch is called, and its place in its stage, or in its network's."""
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


def _key(name: str) -> str:
    """The name of a measure in metrics.jsonl."""
    return name.lower().replace(" ", "_")


def _absolute(file: str | None) -> str | None:
    """A treebank as any working directory can name it."""
    is_file = file is not None and not file.startswith((SYNTHETIC, IN_MISC))
    return os.path.abspath(str(file)) if is_file else file


def _rest_of_epoch(
    first: events.LearningEvent, events: Iterator[events.LearningEvent]
) -> Iterator[events.LearningEvent]:
    """The events of an epoch from the first one to its end; no further event is requested."""
    yield first
    while not first.epoch_is_over:
        first = next(events)
        yield first
