"""Training: epochs, events and state. Yields events; prints nothing, saves nothing."""

from abc import ABC, abstractmethod
from collections.abc import Generator, Iterator
from dataclasses import dataclass, replace

import numpy as np

from gpuparse.config import RunConfig
from gpuparse.data.treebank import Treebank
from gpuparse.data.vocabulary import (
    Encoder,
    Vocabularies,
    choose_pos_column,
    frequent_pairs,
    seen_attributes,
)
from gpuparse.errors import ConfigError, DataError
from gpuparse.features.plan import LINE, compile_plan
from gpuparse.features.templates import MAX_ATTRIBUTE_PAIRS, PARTS, TemplateSet, fields_read
from gpuparse.features.word_vectors import compile_vectors, frequent_values
from gpuparse.inference.decoders import DECODERS
from gpuparse.learning.config_checks import check_learning, check_vectors
from gpuparse.learning.events import LearningEvent
from gpuparse.learning.gold import check_relations, read_gold, without_unreachable
from gpuparse.learning.stages import pruning
from gpuparse.learning.stages.arcs import ArcStage
from gpuparse.learning.stages.labels import LabelStage, gold_labels, label_weights
from gpuparse.learning.stages.pruning import Pruned, PruningStage
from gpuparse.learning.stages.stage import Stage
from gpuparse.learning.stages.vectors.engine import VectorGold
from gpuparse.learning.stages.vectors.stage import LABEL_WEIGHT, VectorStage, Whole
from gpuparse.learning.states import restore, state_of
from gpuparse.learning.temperatures import fit_temperatures
from gpuparse.model.engines.searcher import Scales
from gpuparse.model.parser import Parser
from gpuparse.scorers.linear.pruning import KeptArcs
from gpuparse.scorers.linear.scorer import LinearScorer, check_guides, compile_joint
from gpuparse.scorers.linear.weights import JointLabels, Weights, hashed_map, whole_weights
from gpuparse.scorers.vectors.word_vectors import POINTS

STAGES: tuple[type[Stage], ...] = (VectorStage, PruningStage, ArcStage, LabelStage)  # in order
SINGLE_ROOT = {"auto": None, True: True, False: False}


class StagesTrainer(ABC):
    """Learns the stages of a parser, one after the other.

    Attributes:
        config: the keys of the run. stages: in their order.
        single_root: whether every tree gets exactly one modifier of the root.
        n_unreachable: gold trees that the decoder cannot find; of graphs, arcs left out.
        most_loss: points of UAS and LAS that 8-bit weights may lose; None: there are none of 8.
    """

    config: RunConfig
    stages: list[Stage]
    single_root: bool
    n_unreachable: int
    n_sentences: int
    most_loss: float | None = 0.05

    @abstractmethod
    def model(self, bits: int, config: str = "") -> Parser:
        """The parser so far; only between two epochs.

        Args: bits: of a weight that is a whole number. config: the YAML text of the run.
        """

    def follow(self) -> None:
        """Learn together with the first of several processes, until it has learned all.

        Raises: ConfigError: one process learns this kind of model.
        """
        raise ConfigError("torchrun: one process learns this kind of model")

    def stage(self, name: str) -> Stage:
        """The stage of a name."""
        return next(stage for stage in self.stages if stage.name == name)

    @property
    def epochs_done(self) -> dict[str, int]:
        """The number of learned epochs of each stage, by name."""
        return {stage.name: stage.done for stage in self.stages}

    @property
    def is_learned(self) -> bool:
        """True if all epochs are learned."""
        return all(stage.done == stage.epochs for stage in self.stages)

    def learn(self) -> Iterator[LearningEvent]:
        """Learn all that is left to learn; yields events during and at the end of every epoch."""
        for stage in self.stages:
            stage.prepare()
            for epoch in range(stage.done, stage.epochs):
                order = self._order(stage, epoch)
                for counts in stage.learn(order, epoch * len(order)):
                    if counts.done == counts.total:
                        stage.done = epoch + 1
                    yield LearningEvent(stage.name, epoch + 1, *counts)

    def _order(self, stage: Stage, epoch: int) -> np.ndarray:
        """The sentences in the order of an epoch, drawn from seed, stage and epoch alone."""
        n = self.n_sentences
        if not self.config.learning.shuffle:
            return np.arange(n)
        seeds = np.random.SeedSequence([self.config.seed, stage.drawn_for, epoch])
        return np.random.Generator(np.random.PCG64(seeds)).permutation(n)

    def state(self) -> dict[str, np.ndarray]:
        """All that a later `restore` needs to continue to the same bytes.

        Only between two epochs. The arrays are no copies: copy them before learning continues.
        Weights of which nothing is learned yet are left out.
        """
        return state_of(self.stages)

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Continue from the `state` of a trainer with the same arguments.

        Raises: ModelError: the state is of another run, or of none.
        """
        restore(self.stages, state)


class Trainer(StagesTrainer):
    """Learns a parser from gold trees.

    Args:
        treebank: gold trees, checked.
        arcs: the templates of arcs and other parts; labels: those of labels, or None to predict
            heads only.
        config: the keys of the run; treebanks, templates and threads are given here instead.
        threads: threads that predict the sentences of a batch; the result is the same for any.
        guides: (W,) heads that another parser proposes, -1 for none; for guide templates.
        device: where the torch engine learns arcs.
        vocabularies: the known values, if not those of the treebank.
    Raises:
        DataError: a treebank without sentences, or as `without_unreachable` says.
        ConfigError: templates that do not fit the treebank, or guides without guide templates, or
            the other way round.
    Source: McDonald, Crammer & Pereira (2005), figure 3; McDonald & Pereira (2006), figure 6.
    """

    def __init__(
        self,
        treebank: Treebank,
        arcs: TemplateSet,
        labels: TemplateSet | None,
        config: RunConfig,
        threads: int = 1,
        guides: np.ndarray | None = None,
        device: str = "cpu",
        vocabularies: Vocabularies | None = None,
    ) -> None:
        if len(treebank) == 0:
            raise DataError(f"{treebank.source}: no sentences to learn from")
        check_guides(arcs, are_given=guides is not None)
        check_learning(config_of_templates(arcs, config))
        self.config, self._threads, self._device = config, threads, device
        n_read = len(treebank)
        treebank, guides = without_unreachable(treebank, guides, config)
        self._treebank, self._guides, self._n_left_out = treebank, guides, n_read - len(treebank)
        self.n_sentences = len(treebank)
        self._decoder = DECODERS[config.decoder]
        self._arcs, self._labels = self._expanded(arcs, labels)
        check_templates(self._arcs, self._labels, config)
        self._vocabularies = vocabularies or self._see_values()
        self.plan = compile_plan(
            self._arcs, self._vocabularies, higher=self._decoder.is_higher_order
        )
        batch = Encoder(self._vocabularies).encode(treebank)
        if guides is not None:
            batch = batch.guided(guides)
        self.gold = read_gold(
            treebank, batch, config.decoder, unreachable=config.learning.unreachable,
            single_root=SINGLE_ROOT[config.data.single_root],
        )  # fmt: skip
        rows = config.feature_map.rows if self._has_arc_stage else LINE
        self.features = hashed_map(rows, self.plan.dense_lines)
        self._read_labels()
        self._vectors = self._vector_stage()
        self._pruning = self._pruning_stage() if self._is_pruned else None
        self._arc_stage = self._make_arc_stage()
        self._label_stage = self._make_label_stage()
        stages = self._vectors, self._pruning, self._arc_stage, self._label_stage
        self.stages: list[Stage] = [stage for stage in stages if stage is not None]

    def _expanded(
        self, arcs: TemplateSet, labels: TemplateSet | None
    ) -> tuple[TemplateSet, TemplateSet | None]:
        """The templates with the attributes of FEATS that there are."""
        attributes = seen_attributes(self._treebank)
        has_pairs = any(templates.has_pairs() for templates in (arcs, labels) if templates)
        pairs = frequent_pairs(self._treebank, MAX_ATTRIBUTE_PAIRS) if has_pairs else []
        expanded = labels.expanded(attributes, pairs) if labels else None
        return self._read(arcs.expanded(attributes, pairs)), expanded

    def _read(self, arcs: TemplateSet) -> TemplateSet:
        """The templates of the parts that the decoder reads."""
        arcs = arcs.only(self._decoder.parts)
        # More than arcs gains nothing where trees are not projective.
        return arcs if self._decoder.is_projective else arcs.without_vector_pairs()

    def _see_values(self) -> Vocabularies:
        """The values of all fields that templates read."""
        pos_column = choose_pos_column(self._treebank, self.config.data.pos)
        fields = fields_read(self._arcs, self._labels)
        return Vocabularies.build(self._treebank, fields, pos_column)

    def _read_labels(self) -> None:
        """The gold labels and their names."""
        self.label_names: list[str] = []
        self._gold_labels = None
        if self._labels is None:
            return
        self._gold_labels, self.label_names = gold_labels(self._treebank, self.gold)
        self._check_labels()

    @property
    def _is_joint(self) -> bool:
        """True if labels are found with the trees."""
        return self._labels is not None and self.config.labels.kind == "joint"

    def _make_arc_stage(self) -> ArcStage:
        """The stage of arcs; without templates of arcs it has no epochs."""
        config = config_of_templates(self._arcs, self.config)
        return ArcStage(
            self.plan, self.features, self.gold, config, self._arc_tables(),
            epochs=config.learning.epochs if self._has_arc_stage else 0,
            joint_labels=self._joint_labels if self._is_joint else None,
            labels=self._gold_labels, candidates=self.candidates, threads=self._threads,
            device=self._device,
        )  # fmt: skip

    def _arc_tables(self) -> dict[str, np.ndarray]:
        """The tables of the stage of arcs before anything is learned."""
        tables = {"weights": np.zeros((self.features.n_rows, 1), np.float32)}
        return tables | ({"labels": self._label_weights()} if self._is_joint else {})

    def _make_label_stage(self) -> LabelStage | None:
        """The stage of second-stage labels."""
        if self._labels is None or self._is_joint:
            return None
        assert self._gold_labels is not None
        return LabelStage(
            self._labels, self._vocabularies, self.gold, self._gold_labels, self.config,
            {"weights": self._label_weights()}, self._arc_stage.complete_heads,
        )  # fmt: skip

    def _pruning_stage(self) -> PruningStage:
        return PruningStage(
            self.gold.batch, self.plan, self.features.rows, self.gold.arc_heads,
            self.config.pruning, self._decoder.of_arcs, self._first_order(),
            single_root=self.single_root,
        )  # fmt: skip

    def _label_weights(self) -> np.ndarray:
        assert self._labels is not None
        rows = self.config.labels.rows if self._labels.label else 1
        return label_weights(len(self.label_names), rows, self.config.labels.kind)

    def _vector_stage(self) -> VectorStage | None:
        """The stage of word vectors; None: the templates want none."""
        templates, keys, gold = self._arcs.word_vectors, self.config.word_vectors, self.gold
        if templates is None:
            return None
        frequent = frequent_values(templates, self._vocabularies, gold.batch, keys.min_count)
        has_arcs, has_labels = self._has_arc_stage, bool(self._labels and self._labels.label)
        factors = keys.weight if has_arcs else 1.0, LABEL_WEIGHT if has_labels else 1.0
        return VectorStage(
            templates, compile_vectors(templates, self._vocabularies, frequent), gold.batch,
            VectorGold(gold.arc_heads, self._gold_labels), keys, n_labels=len(self.label_names),
            decoder=self._decoder.of_arcs, single_root=self.single_root, seed=self.config.seed,
            threads=self._threads,
            whole=Whole(keys.margin if has_arcs else None, factors),
        )  # fmt: skip

    def _check_labels(self) -> None:
        """DataError for labels that no model may have."""
        check_relations(self._treebank, self.label_names)
        primary = self.gold.graphs.primary if self.gold.graphs else ()
        check_relations(self._treebank, (name for name in primary if name is not None))

    @property
    def single_root(self) -> bool:  # type: ignore[override]
        """True if every tree gets exactly one modifier of the root."""
        return self.gold.single_root

    @property
    def pruned(self) -> Pruned | None:
        """The pruner and the candidate arcs, if they are learned."""
        return self._pruning.result if self._pruning else None

    @property
    def n_unreachable(self) -> int:  # type: ignore[override]
        """Gold trees that the decoder cannot find; of graphs, arcs left out."""
        return self._n_left_out + self.gold.n_unreachable

    @property
    def _is_pruned(self) -> bool:
        return self._decoder.is_higher_order and self.config.pruning.max_heads is not None

    @property
    def _has_arc_stage(self) -> bool:
        """True if there are templates of arcs, and not word vectors alone."""
        return bool(self._arcs.arc)

    def _first_order(self) -> "_FirstOrder":
        config = replace(
            self.config,
            decoder=self._decoder.of_arcs,
            data=replace(self.config.data, single_root=self.single_root),
            learning=replace(self.config.learning, epochs=pruning.EPOCHS),
            labels=replace(self.config.labels, kind="none"),
        )
        templates = self._arcs.first_order().without_vectors()
        return _FirstOrder(
            self._treebank, templates, config, self._guides, self._threads, self._vocabularies
        )  # fmt: skip

    def candidates(self) -> KeptArcs | None:
        """The candidate arcs of the training sentences; None: all arcs."""
        return self._pruning.candidates if self._pruning else None

    def _joint_labels(self, weights: Weights) -> JointLabels:
        assert self._labels is not None
        return compile_joint(
            self._labels, self._vocabularies, weights, len(self.label_names), self.config.decoder
        )

    def model(self, bits: int, config: str = "") -> Parser:
        """The parser with the average of all weights so far, as whole numbers of `bits` bits.

        Only between two epochs: sentences are counted by the epoch.
        """
        labels, is_joint = None, self._is_joint
        if is_joint:
            labels = self._arc_stage.mean("labels")[:, : len(self.label_names)]
        elif self._label_stage is not None:
            labels = self._label_stage.mean("weights")
        arcs, label_weights, scale, label_scale = whole_weights(
            self._arc_stage.mean("weights")[:, 0], labels, bits, is_joint=is_joint
        )
        vectors = self._vectors
        if vectors:  # where they are alone, no weight decides how fine scores are
            are_labels = label_weights and label_weights.largest
            if not (arcs.largest or (is_joint and are_labels)):
                scale = POINTS
            if not are_labels:
                label_scale = scale if is_joint else POINTS
        linear = LinearScorer(
            templates=vectors.templates(self._arcs) if vectors else self._arcs,
            label_templates=self._labels,
            vocabularies=self._vocabularies,
            features=self.features,
            arcs=arcs,
            label_weights=label_weights,
            labels_with_trees=is_joint,
            decoder=self.config.decoder,
            points=(scale, label_scale),
            pruner=self.pruned.pruner if self.pruned else None,
        )
        return Parser(
            scorers=(linear, *([vectors.scorer(linear, (scale, label_scale))] if vectors else ())),
            labels=self.label_names,
            primary=self.gold.graphs.primary if self.gold.graphs and label_weights else None,
            decoder=self.config.decoder,
            min_gain=self.config.min_gain * scale,
            single_root=self.single_root,
            scales=Scales(*linear.nats_per_point),
            config=config,
        )


def config_of_templates(arcs: TemplateSet, config: RunConfig) -> RunConfig:
    """The config with the decoder that the weights of templates are learned with.

    It is of the first order where templates score arcs alone, and word vectors what it needs.
    """
    decoder = DECODERS[config.decoder]
    if not decoder.needs or any(getattr(arcs, part) for part in decoder.parts):
        return config
    return replace(config, decoder=decoder.of_arcs)


def check_templates(arcs: TemplateSet, labels: TemplateSet | None, config: RunConfig) -> None:
    """Make sure that sets of templates, decoder and kind of labels go together.

    Raises: ConfigError: they do not.
    """
    decoder = DECODERS[config.decoder]
    which = f"the set {arcs.name!r}"
    if decoder.needs and not any(map(arcs.scores, decoder.needs)):
        raise ConfigError(
            f"features: {which} has no {' or '.join(decoder.needs)} templates, which decoder"
            f" {config.decoder} needs"
        )
    others = [part for part in PARTS if part not in ("arc", "label") and getattr(arcs, part)]
    if not arcs.arc and (others or not arcs.vector_reads):
        raise ConfigError(f"features: {which} has no arc templates")
    check_vectors(arcs, config)
    if labels is None:
        return
    if not labels.label and not arcs.scores_labels:
        raise ConfigError(f"labels.features: the set {labels.name!r} has no label templates")
    if labels.label and not arcs.arc and config.labels.kind == "joint":
        raise ConfigError(
            f"labels.kind joint: {which} has no arc templates, so that labels can have none:"
            " choose labels.features=vectors, or second-stage"
        )


@dataclass(frozen=True, eq=False)
class _FirstOrder:
    """Learns first-order parsers of parts of a treebank, for pruning."""

    treebank: Treebank
    templates: TemplateSet
    config: RunConfig
    guides: np.ndarray | None
    threads: int
    vocabularies: Vocabularies

    def learn(self, is_learned: np.ndarray) -> Generator[LearningEvent, None, Parser]:
        """Learn from the sentences (S,) for which `is_learned`; returns the parser."""
        trainer = Trainer(
            self.treebank.only(is_learned), self.templates, None, self.config, self.threads,
            self._guides_of(is_learned), vocabularies=self.vocabularies,
        )  # fmt: skip
        yield from trainer.learn()
        return trainer.model(16)

    def calibrated(self, model: Parser, is_learned: np.ndarray) -> Parser:
        """The model with the scale of its scores fitted to the other sentences."""
        rest, guides = self.treebank.only(~is_learned), self._guides_of(~is_learned)
        return fit_temperatures(model, rest, guides=guides, threads=self.threads)[0]

    def _guides_of(self, sentences: np.ndarray) -> np.ndarray | None:
        words = np.repeat(sentences, np.diff(self.treebank.word_starts))
        return None if self.guides is None else self.guides[words]
