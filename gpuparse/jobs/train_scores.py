"""The scores of a training run's models on data.dev and data.test, for scores.json."""

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gpuparse.config import RunConfig
from gpuparse.data.columns import IN_MISC
from gpuparse.data.folders import part_files
from gpuparse.data.treebank import Treebank
from gpuparse.evaluation.graphs import GraphScores, score_treebank_graphs
from gpuparse.evaluation.metrics import TreeScores, score_treebanks
from gpuparse.evaluation.reports import Measures, treebank_scores
from gpuparse.evaluation.words import Hits
from gpuparse.inference.decoders import DECODERS
from gpuparse.jobs.gold import guide_source, guides_of, parsed
from gpuparse.jobs.records import write_scores
from gpuparse.jobs.stages import accuracies, accuracies_as_text, as_scores, hits_from_text
from gpuparse.learning.trainer import StagesTrainer
from gpuparse.model.folder import load_parser
from gpuparse.model.parser import Parser
from gpuparse.model.pipeline import NO_STAGES, Pipeline


class Tested(NamedTuple):
    """The results of a new model on data.test.

    graphs: of decoders of graphs. from_text: of models that read raw text.
    """

    system: Treebank
    scores: TreeScores
    graphs: GraphScores | None
    from_text: dict[str, Hits] | None


class RunScores:
    """Scores of the models that a run learns, first of its stages and then of its parser.

    The calls come in the order of the methods; a run without stages or without a parser leaves
    theirs out.

    Args:
        config: of the run.
        dev, test: the treebanks as they were read; None: the run has none.
        threads: that annotate and parse. device: where parsers parse.
        tell: writes a line for the user.
    Attributes:
        dev, test: the treebanks as a parser reads them: with predicted tags after `annotate`.
        guides: those of "dev" and "test" after `read_guides`, None for none.
        device: may be set until a parser is scored.
        dev_scores: the last ones of the parser on data.dev: UAS and LAS, or F of arcs without and
            with labels; None: there are none yet.
        about: what scores.json says.
    """

    def __init__(
        self, config: RunConfig, dev: Treebank | None, test: Treebank | None, *, threads: int,
        device: str, tell: Callable[[str], None],
    ) -> None:  # fmt: skip
        self._config, self._threads, self._tell = config, threads, tell
        self.dev, self.test, self.device = dev, test, device
        self.guides: dict[str, np.ndarray | None] = {}
        self.dev_scores: tuple[float, float] | None = None
        self.about: dict[str, Any] = {}
        self._output = Path(config.output)
        self._graphs = DECODERS[config.decoder].gives_graphs
        self._measures = Measures(labelled=config.labels.kind != "none", graphs=self._graphs)
        self._stages = NO_STAGES
        self._gold = {"dev": dev, "test": test}  # without predicted tags
        self._parsed_devs: dict[int, Treebank] = {}  # by the number of bits of the weights
        self._tag_scores: dict[str, dict[str, float]] = {}
        self._from_text: dict[str, dict[str, Hits]] = {}

    def annotate(self, stages: Pipeline, *, parser_fills_tags: bool) -> None:
        """Fill the tags of both treebanks in by the stages before the parser, and score them.

        Args: parser_fills_tags: whether the tags that stages read come from the parser, so that
            nothing can be filled in yet.
        """
        self._stages = stages
        if not parser_fills_tags:
            self.dev, self.test = (self._annotated(*part) for part in self._gold.items())

    def _annotated(self, name: str, part: Treebank | None) -> Treebank | None:
        """A treebank with predicted tags, whose scores are kept."""
        if part is None:
            return None
        predicted = self._stages.annotate(part, threads=self._threads)
        self._score_tags(name, part, predicted, self._stages.columns)
        return predicted

    def write_of_stages(self, started: float) -> float:
        """Write scores.json of a run without a parser; returns the seconds since it started."""
        for name in self._gold:
            self._score_from_text(name, None)
        seconds = time.monotonic() - started
        about = {"seed": self._config.seed, "threads": self._threads, "seconds": seconds}
        self.about = about | self._tag_scores | self._scores_from_text()
        write_scores(self._output, self.about)
        return seconds

    def read_guides(self) -> None:
        """Read what guides the parser in both treebanks, as they are annotated.

        Raises: ConfigError, DataError: as `guides_of`.
        """
        for name, treebank in (("dev", self.dev), ("test", self.test)):
            found = None if treebank is None else guides_of(self._config, name, treebank)
            self.guides[name] = found

    @property
    def names_of_scores(self) -> tuple[str, str]:
        """Names of `dev_scores`."""
        return ("arcs F", "labelled arcs F") if self._graphs else ("UAS", "LAS")

    def score_dev(self, trainer: StagesTrainer, *, with_labels: bool = True) -> dict[str, float]:
        """Score what has been learned since the last call on data.dev; the scores by name.

        Args: with_labels: whether labels are learned, too.
        """
        # After every epoch: parsing the development treebank is far cheaper than an epoch.
        self._parsed_devs.clear()
        self.dev_scores = self.dev_scores_of(trainer, 16)
        found = dict(zip(self.names_of_scores, self.dev_scores, strict=True))
        return found if with_labels else dict(list(found.items())[:1])

    def dev_scores_of(self, trainer: StagesTrainer, bits: int) -> tuple[float, float]:
        """The scores on data.dev with weights of some bits; the same until `score_dev`."""
        assert self.dev is not None
        system = self._parsed_dev(trainer, bits)
        if self._graphs:
            graphs = score_treebank_graphs(self.dev, system, "deps")
            return graphs.unlabelled.f or 0.0, graphs.labelled.f or 0.0
        trees = score_treebanks(self.dev, system)
        return trees.uas.percent or 0.0, trees.las.percent or 0.0

    def _parsed_dev(self, trainer: StagesTrainer, bits: int) -> Treebank:
        """data.dev, parsed by what is learned so far; bits: of its weights."""
        assert self.dev is not None
        if bits not in self._parsed_devs:
            # A GPU computes encoders by other numbers than those of 8 bits.
            device = "cpu" if bits == 8 else self.device
            self._parsed_devs[bits] = self._parsed(trainer.model(bits), self.dev, "dev", device)
        return self._parsed_devs[bits]

    def write(
        self, trainer: StagesTrainer, model: Parser, bits: int, *, seconds: float,
        learning_seconds: float,
    ) -> None:  # fmt: skip
        """Write scores.json, without scores on data.test so far.

        Args: model: that of the trainer with weights of `bits` bits, as it is written.
        """
        data = self._config.data
        files = {part: getattr(data, part) for part in ("train", "dev", "test")}
        guides = {
            part: _absolute(guide_source(self._config, part))
            for part in ("dev", "test") if data.guide is not None and files[part] is not None
        }  # fmt: skip
        self.about = {
            "decoder": self._config.decoder,
            "features": self._config.features,
            "seed": self._config.seed,
            "threads": self._threads,
            "device": self.device,
            "bits": bits,
            "files": {part: _absolute(file) for part, file in files.items()},
            "guides": guides,
            "on_error": data.on_error,
            "seconds": seconds,
            "learning_seconds": learning_seconds,
        }
        if self.dev is not None:
            system = self._parsed_dev(trainer, bits)
            self.about["dev"] = treebank_scores(self.dev, system, self._measures)
            self._score_filled("dev", self.dev, system, model)
            self.about["dev"] |= self._tag_scores.get("dev", {})
        self._score_from_text("dev", model)
        self.about |= self._scores_from_text()
        write_scores(self._output, self.about)

    def write_test(self) -> Tested | None:
        """Parse data.test with the written model, and add its scores; None without data.test."""
        if self.test is None:
            return None
        began, model = time.monotonic(), load_parser(self._output)
        system = self._parsed(model, self.test, "test", self.device)
        seconds = time.monotonic() - began
        graphs = score_treebank_graphs(self.test, system, "deps") if self._graphs else None
        found = {"seconds": seconds} | treebank_scores(self.test, system, self._measures)
        self._score_filled("test", self.test, system, model)
        found |= self._tag_scores.get("test", {})
        self._score_from_text("test", model)
        self.about |= {"test": found} | self._scores_from_text()
        write_scores(self._output, self.about)
        trees = score_treebanks(self.test, system)
        return Tested(system, trees, graphs, self._from_text.get("test"))

    def _parsed(self, model: Parser, treebank: Treebank, name: str, device: str) -> Treebank:
        guides = self.guides[name]
        return parsed(model, treebank, guides=guides, threads=self._threads, device=device)

    def _score_filled(self, name: str, part: Treebank, system: Treebank, model: Parser) -> None:
        """Score the columns that a model has filled in a treebank, and then lemmas."""
        if model.fills:
            lemmatizer = Pipeline(None, None, self._stages.lemmatizer)
            system = lemmatizer.annotate(system, threads=self._threads)
            self._score_tags(name, part, system, (*model.fills, *lemmatizer.columns))

    def _score_tags(
        self, name: str, gold: Treebank, system: Treebank, columns: tuple[int, ...]
    ) -> None:
        """Score columns that are filled in a treebank, if there are any."""
        if columns:
            scores = self._tag_scores.get(name, {}) | accuracies(gold, system, columns)
            self._tag_scores[name] = scores
            self._tell(f"{name}: {accuracies_as_text(scores)}")

    def _score_from_text(self, name: str, parser: Parser | None) -> None:
        """Score what stages and parser make of a treebank's raw text, if they read text."""
        gold = self._gold[name]
        if not self._stages.tokenizer or gold is None or not gold.n_words:
            return
        found = self._from_text[name] = hits_from_text(
            gold, self._stages, parser, threads=self._threads, device=self.device
        )
        text = f"{name}, from raw text: {accuracies_as_text(as_scores(found))}"
        if parser is not None and "uas" not in found:
            text += "; trees are not scored: the parser reads columns that no stage fills in"
        self._tell(text)

    def _scores_from_text(self) -> dict[str, Any]:
        found = {name: as_scores(hits) for name, hits in self._from_text.items()}
        return {"from_text": found} if found else {}


def key_of(name: str) -> str:
    """The name of a score in records and in Python."""
    return name.lower().replace(" ", "_")


def _absolute(file: str | None) -> str | None:
    """A treebank as any working directory can name it."""
    if file is None or file.startswith(IN_MISC):
        return file
    return ",".join(map(os.path.abspath, part_files(file)))
