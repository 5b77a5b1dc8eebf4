"""Training: epochs, events and state. Yields events; prints nothing, saves nothing."""

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
from gpuparse.errors import ConfigError, DataError, ModelError
from gpuparse.features.plan import LINE, compile_plan
from gpuparse.features.templates import MAX_ATTRIBUTE_PAIRS, TemplateSet, fields_read
from gpuparse.inference.decoders import DECODERS
from gpuparse.learning.events import STAGES, Progress
from gpuparse.learning.gold import read_gold
from gpuparse.learning.mixing import ALONE, Counts, Learn, Mixing, Processes
from gpuparse.learning.stages.arcs import (
    ArcModel,
    Engine,
    NativeEngine,
    TorchEngine,
    complete_heads,
    learn_arcs,
)
from gpuparse.learning.stages.labels import LabelStage, gold_labels, label_weights
from gpuparse.learning.stages.pruning import (
    Pruned,
    as_state,
    check_folds,
    from_state,
    learn_pruning,
    pruning_shapes,
)
from gpuparse.learning.states import Shape, check_state
from gpuparse.learning.temperatures import fit_temperatures
from gpuparse.learning.updates import AveragedWeights, Table, check_learning
from gpuparse.limits import MAX_LABELS
from gpuparse.parser import Parser, check_guides, compile_joint
from gpuparse.scoring.pruning import Arcs, all_cells
from gpuparse.scoring.weights import JointLabels, Weights, hashed_map, quantised

_SINGLE_ROOT = {"auto": None, True: True, False: False}


class Trainer:
    """Learns a parser from gold trees.

    Args:
        treebank: gold trees, checked.
        arcs: the templates of arcs and other parts; labels: those of labels, or None to predict
            heads only.
        config: the keys of the run; treebanks, templates and threads are given here instead.
        threads: threads that predict the sentences of a batch; the result is the same for any.
        guides: (W,) heads that another parser proposes, -1 for none; for guide templates.
        processes: that share the work, each with the same arguments.
        device: where the torch engine learns arcs.
        vocabularies: the known values, if not those of the treebank.
    Raises:
        DataError: a treebank without sentences. ConfigError: templates that do not fit it, or
            guides without guide templates, or the other way round.
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
        processes: Processes = ALONE,
        device: str = "cpu",
        vocabularies: Vocabularies | None = None,
    ) -> None:
        if len(treebank) == 0:
            raise DataError(f"{treebank.source}: no sentences to learn from")
        check_guides(arcs, are_given=guides is not None)
        check_learning(config)
        self.config, self._threads, self._device = config, threads, device
        self._treebank, self._guides = treebank, guides
        self._decoder = DECODERS[config.decoder]
        attributes = seen_attributes(treebank)
        has_pairs = any(templates.has_pairs() for templates in (arcs, labels) if templates)
        pairs = frequent_pairs(treebank, MAX_ATTRIBUTE_PAIRS) if has_pairs else []
        self._arcs = arcs.expanded(attributes, pairs).only(self._decoder.parts)
        self._labels = labels.expanded(attributes, pairs) if labels else None
        self._check_needs()
        self._vocabularies = vocabularies or self._see_values()
        self.plan = compile_plan(
            self._arcs, self._vocabularies, higher=self._decoder.is_higher_order
        )
        batch = Encoder(self._vocabularies).encode(treebank)
        if guides is not None:
            batch = batch.guided(guides)
        self.gold = read_gold(
            treebank, batch, config.decoder, unreachable=config.learning.unreachable,
            single_root=_SINGLE_ROOT[config.data.single_root],
            guide_row=self.plan.guide.row if self.plan.guide else None,
        )  # fmt: skip
        self.features = hashed_map(config.feature_map.rows, self.plan.dense_lines)
        self.weights = AveragedWeights.zeros(self.features.n_rows)
        self._start_labels()
        self._epochs_done = dict.fromkeys(STAGES, 0)
        self._mixing = Mixing(
            len(treebank), config.learning.shards,
            config.seed if config.learning.shuffle else None, processes,
        )  # fmt: skip
        self.pruned: Pruned | None = None
        if self._is_pruned:
            check_folds(len(treebank), config.pruning.folds)

    def _check_needs(self) -> None:
        needs = self._decoder.needs
        if needs and not any(getattr(self._arcs, part) for part in needs):
            raise ConfigError(
                f"decoder {self.config.decoder} needs {' or '.join(needs)} templates, and the set"
                f" {self._arcs.name!r} has none"
            )

    def _see_values(self) -> Vocabularies:
        """The values of all fields that templates read."""
        pos_column = choose_pos_column(self._treebank, self.config.data.pos)
        fields = fields_read(self._arcs, self._labels)
        return Vocabularies.build(self._treebank, fields, pos_column)

    def _start_labels(self) -> None:
        """The gold labels, and their weights before anything is learned."""
        self.label_names: list[str] = []
        self.label_weights: AveragedWeights | None = None
        self._joint, self._label_stage = None, None
        self._gold_labels = None
        if self._labels is None:
            return
        self._gold_labels, self.label_names = gold_labels(self._treebank, self.gold)
        self._check_labels()
        self.label_weights = label_weights(len(self.label_names), self.config)
        if self.config.labels.kind == "joint":
            self._joint = self._joint_labels()
        else:
            self._label_stage = LabelStage(
                self._labels, self._vocabularies, self.gold, self._gold_labels,
                self.label_weights, self.config,
            )  # fmt: skip

    def _check_labels(self) -> None:
        """DataError for labels that no model may have."""
        names = [*self.label_names, *(self.gold.graphs.primary if self.gold.graphs else ())]
        if any(name is not None and not name.strip() for name in names):
            raise DataError(
                f"{self._treebank.source}: a relation (DEPREL) is empty: write _ in its place"
            )
        if len(self.label_names) > MAX_LABELS:
            raise DataError(
                f"{self._treebank.source}: {len(self.label_names):,} relations, more than"
                f" {MAX_LABELS:,}"
            )

    @property
    def single_root(self) -> bool:
        """Whether every tree gets exactly one modifier of the root."""
        return self.gold.single_root

    @property
    def n_unreachable(self) -> int:
        """Gold trees that the decoder cannot find; of graphs, arcs left out."""
        return self.gold.n_unreachable

    @property
    def _is_pruned(self) -> bool:
        return self._decoder.is_higher_order and self.config.pruning.max_heads is not None

    def learn(self) -> Iterator[Progress]:
        """Learn all that is left to learn; yields events during and at the end of every epoch."""
        if self._is_pruned and self.pruned is None:
            self.pruned = yield from learn_pruning(
                self.gold.arc_batch, self.plan, self.features.rows, self.gold.arc_heads,
                self.config.pruning, self._decoder.of_arcs, self._first_order(),
                single_root=self.single_root,
            )  # fmt: skip
        while self._epochs_done["arcs"] < self.config.learning.epochs:
            yield from self._learn_arc_epoch(self._epochs_done["arcs"])
        if self._label_stage is None:
            return
        if not self.gold.graphs:
            self._label_stage.complete(complete_heads(self._arc_model(), self.gold, self.config))
        while self._epochs_done["labels"] < self.config.labels.epochs:
            tables = [self._label_stage.weights.table]
            epoch = self._epochs_done["labels"]
            yield from self._learn_epoch("labels", epoch, tables, self._label_stage.learn)

    def _first_order(self) -> "_FirstOrder":
        config = replace(
            self.config,
            decoder=self._decoder.of_arcs,
            data=replace(self.config.data, single_root=self.single_root),
            learning=replace(self.config.learning, epochs=self.config.pruning.epochs),
            labels=replace(self.config.labels, kind="none"),
        )
        return _FirstOrder(
            self._treebank, self._arcs.first_order(), config, self._guides, self._threads,
            self._vocabularies,
        )  # fmt: skip

    def _learn_arc_epoch(self, epoch: int) -> Iterator[Progress]:
        tables = [self.weights.table]
        if self._joint and self.label_weights:
            tables.append(self.label_weights.table)
        engine = self.arc_engine()

        def learn(order: np.ndarray, seen: int) -> Iterator[Counts]:
            size = self.config.learning.batch_size
            return learn_arcs(engine, self.gold.arc_batch, order, seen, size)

        yield from self._learn_epoch("arcs", epoch, tables, learn)

    def arc_engine(self) -> Engine:
        """What learns the arcs of an epoch."""
        model = self._arc_model()
        if self.config.backend == "torch":
            return TorchEngine(model, self.gold, self.config, self._device)
        labels = self._gold_labels if self._joint else None
        return NativeEngine(model, self.gold, labels, self.config, self._threads)

    def _learn_epoch(
        self, stage: str, epoch: int, tables: list[Table], learn: Learn
    ) -> Iterator[Progress]:
        order = self.order(stage, epoch)
        for counts in self._mixing.epoch(order, epoch, tables, learn):
            if counts.done == len(order):
                self._epochs_done[stage] = epoch + 1
            done, wrong, words = counts
            yield Progress(stage, epoch + 1, done, len(order), wrong, words)

    def order(self, stage: str, epoch: int) -> np.ndarray:
        """The sentences in the order of an epoch, drawn from seed, stage and epoch alone."""
        n = len(self._treebank)
        if not self.config.learning.shuffle:
            return np.arange(n)
        seeds = np.random.SeedSequence([self.config.seed, STAGES.index(stage), epoch])
        return np.random.Generator(np.random.PCG64(seeds)).permutation(n)

    def _arc_model(self) -> ArcModel:
        return ArcModel(
            self.plan, self.features, self.weights, self._joint,
            self.label_weights if self._joint else None, self.candidates(),
        )  # fmt: skip

    def candidates(self) -> Arcs | None:
        """The candidate arcs of the training sentences; None: all arcs."""
        if self.pruned is None:
            return None
        firsts = np.zeros(len(self.gold.heads), np.int64)
        return Arcs(all_cells(self.gold.arc_batch, firsts).firsts, self.pruned.cells)

    def _joint_labels(self) -> JointLabels:
        assert self._labels is not None
        assert self.label_weights is not None
        return compile_joint(
            self._labels, self._vocabularies, self.label_weights.weights, len(self.label_names),
            self.config.decoder,
        )  # fmt: skip

    def model(self, bits: int, config: str = "") -> Parser:
        """The parser with the average of all weights so far, as whole numbers of `bits` bits.

        Only between two epochs: sentences are counted by the epoch.
        """
        arcs = self._mean(self.weights, "arcs")[:, 0]
        whole, scale = quantised(arcs, bits)
        label_weights, label_scale = None, 1.0
        if self.label_weights is not None:
            stage = "arcs" if self._joint else "labels"
            labels = self._mean(self.label_weights, stage)[:, : len(self.label_names)]
            if self._joint:  # one scale for all that is added up
                both, scale = quantised(np.concatenate([arcs, labels.reshape(-1)]), bits)
                whole, label_scale = both[: len(arcs)], scale
                label_weights = Weights(both[len(arcs) :].reshape(labels.shape))
            else:
                lines, label_scale = quantised(labels, bits)
                label_weights = Weights(lines)
        return Parser(
            templates=self._arcs,
            label_templates=self._labels,
            vocabularies=self._vocabularies,
            features=self.features,
            arcs=Weights(whole[:, np.newaxis]),
            labels=self.label_names,
            primary=self.gold.graphs.primary if self.gold.graphs and label_weights else None,
            label_weights=label_weights,
            labels_with_trees=self._joint is not None,
            decoder=self.config.decoder,
            min_gain=self.config.min_gain * scale,
            single_root=self.single_root,
            arc_scale=1.0 / scale,
            label_scale=1.0 / label_scale,
            pruner=self.pruned.pruner if self.pruned else None,
            config=config,
        )

    def _mean(self, weights: AveragedWeights, stage: str) -> np.ndarray:
        """The mean of the weights after each sentence; or the last ones."""
        if not self.config.learning.averaged:
            return weights.array.copy()
        return weights.mean(max(1, self._epochs_done[stage] * len(self._treebank)))

    def state(self) -> dict[str, np.ndarray]:
        """All that a later `restore` needs to continue to the same bytes.

        Only between two epochs. The arrays are no copies: copy them before learning continues.
        """
        done = np.array([self._epochs_done[stage] for stage in STAGES], np.int64)
        state = {"done": done, "arcs": self.weights.array, "arcs_weighted": self.weights.weighted}
        if self.label_weights is not None:
            state["labels"] = self.label_weights.array
            state["labels_weighted"] = self.label_weights.weighted
        if self.pruned is not None:
            state |= as_state(self.pruned)
        return state

    def _state_shapes(self, *, pruned: bool) -> dict[str, Shape]:
        """The types and shapes of all arrays of a state of this run."""
        shapes = {"done": Shape(np.int64, (len(STAGES),))}
        for name, weights in (("arcs", self.weights), ("labels", self.label_weights)):
            if weights is not None:
                shapes[name] = Shape(np.float32, weights.array.shape)
                shapes[f"{name}_weighted"] = Shape(np.float32, weights.weighted.shape)
        if pruned:
            n_rows = self.features.rows.rows + self.plan.arcs.dense_lines * LINE
            shapes |= pruning_shapes(self.gold.arc_batch, n_rows)
        return shapes

    def _epochs(self) -> dict[str, int]:
        """How many epochs each stage has."""
        of_labels = self.config.labels.epochs if self._label_stage else 0
        return {"arcs": self.config.learning.epochs, "labels": of_labels}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Continue from the `state` of a trainer with the same arguments.

        Raises: ModelError: the state is of another run, or of none.
        """
        shapes = self._state_shapes(pruned=self._is_pruned and "pruner" in state)
        check_state(state, shapes, self._epochs())
        if self._is_pruned and "pruner" not in state and state["done"].any():
            raise ModelError("a damaged state: it has no candidate arcs")
        self._epochs_done = dict(zip(STAGES, state["done"].tolist(), strict=True))
        self.weights = AveragedWeights(state["arcs"], state["arcs_weighted"])
        if self.label_weights is not None:
            self.label_weights = AveragedWeights(state["labels"], state["labels_weighted"])
            if self._joint:
                self._joint = self._joint_labels()
            elif self._label_stage:
                self._label_stage.weights = self.label_weights
        if self._is_pruned and "pruner" in state:
            self.pruned = from_state(
                state, self.config.pruning, self._decoder.of_arcs, self.gold.arc_batch,
                self.gold.arc_heads,
            )  # fmt: skip


@dataclass(frozen=True, eq=False)
class _FirstOrder:
    """Learns first-order parsers of parts of a treebank, for pruning."""

    treebank: Treebank
    templates: TemplateSet
    config: RunConfig
    guides: np.ndarray | None
    threads: int
    vocabularies: Vocabularies

    def learn(self, is_learned: np.ndarray) -> Generator[Progress, None, Parser]:
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
