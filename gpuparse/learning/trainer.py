"""Training: epochs, events and state. Yields events; prints nothing, saves nothing."""

from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from gpuparse.config import RunConfig
from gpuparse.data.columns import is_value
from gpuparse.data.lexicon import read_lexicon
from gpuparse.data.treebank import Treebank
from gpuparse.data.vocabulary import (
    Encoder,
    Vocabularies,
    choose_pos_column,
    frequent_pairs,
    seen_attributes,
)
from gpuparse.engines.engine import Scales
from gpuparse.errors import ConfigError, DataError, ModelError
from gpuparse.features.plan import LINE, compile_plan
from gpuparse.features.templates import MAX_ATTRIBUTE_PAIRS, PARTS, TemplateSet, fields_read
from gpuparse.features.word_vectors import (
    FURTHER,
    VectorTemplates,
    compile_vectors,
    frequent_values,
)
from gpuparse.inference.decoders import DECODERS
from gpuparse.learning.events import STAGES, Counts, Progress
from gpuparse.learning.gold import read_gold, without_unreachable
from gpuparse.learning.growth import (
    check_start,
    continued_templates,
    grown_labels,
    grown_plan,
    grown_vectors,
    grown_weights,
    learned_networks,
    learned_weights,
)
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
    PrunersSoFar,
    check_folds,
    from_state,
    known_pruning,
    learn_pruning,
    pruning_shapes,
)
from gpuparse.learning.stages.vectors import (
    GRANDPARENT_SHARE,
    VectorGold,
    VectorStage,
    VectorTables,
)
from gpuparse.learning.states import Shape, check_state
from gpuparse.learning.temperatures import fit_temperatures
from gpuparse.learning.updates import AveragedWeights, check_learning
from gpuparse.limits import MAX_LABELS
from gpuparse.parser import Parser
from gpuparse.scorers.linear.pruning import Arcs, Pruner, all_cells
from gpuparse.scorers.linear.scorer import LinearScorer, check_guides, compile_joint
from gpuparse.scorers.linear.weights import (
    JointLabels,
    Weights,
    hashed_map,
    stride_of,
    whole_weights,
)
from gpuparse.scorers.vectors.scorer import vectors_of, with_vectors
from gpuparse.scorers.vectors.word_vectors import POINTS, WordVectors, frozen

_SINGLE_ROOT = {"auto": None, True: True, False: False}
_DRAWN_FOR = {"arcs": 0, "labels": 1, "vectors": 3}  # what orders are drawn for


class Trainer:
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
        start: a finished model to learn on from; None: from nothing.
    Raises:
        DataError: a treebank without sentences, or as `without_unreachable` says.
        ConfigError: templates that do not fit the treebank, or guides without guide templates, or
            the other way round; a model that the config does not fit, or that cannot be learned on.
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
        start: Parser | None = None,
    ) -> None:
        if len(treebank) == 0:
            raise DataError(f"{treebank.source}: no sentences to learn from")
        check_guides(arcs, are_given=guides is not None)
        check_learning(config)
        self.config, self._threads, self._device = config, threads, device
        given = len(treebank)
        treebank, guides = without_unreachable(treebank, guides, config)
        self._treebank, self._guides, self._n_left_out = treebank, guides, given - len(treebank)
        self._decoder, self._start = DECODERS[config.decoder], start
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
            single_root=self._wanted_root(),
            guide_row=self.plan.guide.row if self.plan.guide else None,
        )  # fmt: skip
        rows = config.feature_map.rows if self._has_arc_stage else LINE
        self.features = hashed_map(rows, self.plan.dense_lines)
        self.weights = self._start_weights()
        self._start_labels()
        self._known_vectors: WordVectors | None = None
        self._vectors = self._start_vectors()
        # The word vectors after some epochs, and their sizes.
        self._frozen: tuple[int, VectorTemplates, WordVectors] | None = None
        self._epochs_done = dict.fromkeys(STAGES, 0)
        self._known_pruner = self._start_pruner()
        self._pruners = PrunersSoFar(self.gold.arc_batch) if self._is_pruned else None
        if self._is_pruned and self._known_pruner is None:
            check_folds(len(treebank), config.pruning.folds)
        self._best: dict[str, Best] = {}  # of the stages whose epochs were scored

    def _expanded(
        self, arcs: TemplateSet, labels: TemplateSet | None
    ) -> tuple[TemplateSet, TemplateSet | None]:
        """The templates with the attributes of FEATS that there are, or those of the model."""
        if self._start is not None:
            check_start(self._start, self.config)
            networks = self.config.word_vectors.networks
            return continued_templates(self._start, self._read(arcs), labels, networks)
        attributes = seen_attributes(self._treebank)
        has_pairs = any(templates.has_pairs() for templates in (arcs, labels) if templates)
        pairs = frequent_pairs(self._treebank, MAX_ATTRIBUTE_PAIRS) if has_pairs else []
        expanded = labels.expanded(attributes, pairs) if labels else None
        return self._read(arcs.expanded(attributes, pairs)), expanded

    def _read(self, arcs: TemplateSet) -> TemplateSet:
        """The templates of the parts that the decoder reads."""
        arcs = arcs.only(self._decoder.parts)
        vectors = arcs.word_vectors
        if vectors and not self._decoder.is_projective:  # more than arcs gains nothing there
            return replace(arcs, word_vectors=vectors.of_sizes(**dict.fromkeys(FURTHER, 0)))
        return arcs

    def _wanted_root(self) -> bool | None:
        """Whether every tree gets one modifier of the root; None: if all training trees have."""
        wanted = _SINGLE_ROOT[self.config.data.single_root]
        if wanted is None and self._start is not None and not self._start.single_root:
            return False
        return wanted

    def _start_weights(self) -> AveragedWeights:
        """The weights of arcs and other parts before anything is learned."""
        if self._start is None:
            return AveragedWeights.zeros(self.features.n_rows)
        assert self._start.linear.points is not None
        whole = self._grown(self._start.linear.arcs.array, self.features.n_rows)
        return AveragedWeights(learned_weights(whole, self._start.linear.points[0]))

    def _grown(self, weights: np.ndarray, n_rows: int) -> np.ndarray:
        """A table of the model in `n_rows` rows, for the vocabulary of this run."""
        assert self._start is not None
        return grown_weights(
            weights, self.features.rows.rows, self._start.linear.plan,
            self._start.linear.vocabularies, self.plan, n_rows,
        )  # fmt: skip

    def _start_pruner(self) -> Pruner | None:
        """The pruner of the model, which has not been learned from these sentences."""
        if self._start is None or self._start.linear.pruner is None:
            return None
        n_rows = self.features.rows.rows + self.plan.arcs.dense_lines * LINE
        weights = self._grown(self._start.linear.pruner.weights.array, n_rows).astype(np.int16)
        return self._start.linear.pruner._replace(weights=Weights(weights))

    def _see_values(self) -> Vocabularies:
        """The values of all fields that templates read, after those of the model."""
        pos_column = choose_pos_column(self._treebank, self.config.data.pos)
        fields = fields_read(self._arcs, self._labels)
        path = self.config.lexicon
        lexicon = None if path is None else read_lexicon(path)
        if self._start is not None:
            return self._start.linear.vocabularies.grown(self._treebank, lexicon)
        return Vocabularies.build(self._treebank, fields, pos_column, lexicon)

    def _start_labels(self) -> None:
        """The gold labels, and their weights before anything is learned."""
        self.label_names: list[str] = []
        self.label_weights: AveragedWeights | None = None
        self._joint, self._label_stage = None, None
        self._gold_labels = None
        if self._labels is None:
            return
        known = self._start.labels if self._start else ()
        self._gold_labels, self.label_names = gold_labels(self._treebank, self.gold, known)
        self._check_labels()
        self.label_weights = self._start_label_weights()
        if self.config.labels.kind == "joint":
            self._joint = self._joint_labels()
        elif self._labels.label:
            self._label_stage = LabelStage(
                self._labels, self._vocabularies, self.gold, self._gold_labels,
                self.label_weights, self.config,
            )  # fmt: skip

    def _start_label_weights(self) -> AveragedWeights:
        assert self._labels is not None
        n_labels, start = len(self.label_names), self._start
        if start is None:
            rows = self.config.labels.rows if self._labels.label else 1
            return label_weights(n_labels, rows, self.config.labels.kind)
        assert start.linear.label_weights is not None
        assert start.linear.points is not None
        lines = grown_labels(start.linear.label_weights.array, n_labels)
        if self.config.labels.kind == "joint":
            lines = np.pad(lines, ((0, 0), (0, stride_of(n_labels) - n_labels)))
        return AveragedWeights(learned_weights(lines, start.linear.points[1]))

    def _start_vectors(self) -> VectorStage | None:
        """The word vectors before anything is learned."""
        templates, config = self._arcs.word_vectors, self.config
        if templates is None:
            return None
        min_count, networks = config.word_vectors.min_count, None
        values = templates, self._vocabularies, self.gold.batch, min_count
        known = vectors_of(self._start.scorers) if self._start else None
        if self._start is None or known is None:
            has_row = frequent_values(*values)
            self._vector_plan = compile_vectors(templates, self._vocabularies, has_row)
        else:
            self._vector_plan = grown_plan(self._start, *values)
            n_labels = len(self.label_names)
            self._known_vectors = grown_vectors(
                known, self._vector_plan, len(self._start.labels), n_labels
            )
            networks = learned_networks(
                self._known_vectors, templates, config.word_vectors.networks, n_labels,
                self._vector_factors,
            )  # fmt: skip
        labels = self._gold_labels
        return VectorStage(
            templates,
            self._vector_plan,
            self.gold.arc_batch,
            VectorGold(self.gold.arc_heads, None if labels is None else labels[self.gold.moved]),
            config.word_vectors,
            n_labels=len(self.label_names),
            decoder=self._decoder.of_arcs,
            single_root=self.single_root,
            seed=config.seed,
            threads=self._threads,
            device=self._device if config.backend == "torch" else None,
            start=networks,
        )

    @property
    def _vector_factors(self) -> tuple[float, float]:
        """What the vectors' scores of arcs and of labels are multiplied by after learning."""
        keys = self.config.word_vectors
        weight = keys.weight if self._arcs.arc else 1.0
        label_weight = keys.label_weight if self._labels and self._labels.label else 1.0
        return weight, label_weight

    def _check_labels(self) -> None:
        """DataError for labels that no model may have."""
        names = [*self.label_names, *(self.gold.graphs.primary if self.gold.graphs else ())]
        if not all(name is None or (is_value(name) and name.strip()) for name in names):
            raise DataError(
                f"{self._treebank.source}: a relation (DEPREL) is empty or has NUL in it: write _"
                " in its place"
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
    def pruned(self) -> Pruned | None:
        """The pruner and the candidate arcs, if they are learned."""
        return self._pruners.result if self._pruners else None

    @property
    def epochs(self) -> dict[str, int]:
        """How many epochs each stage has, and how many parsers the pruning stage, in order."""
        has_pruning = self._is_pruned and self._known_pruner is None
        epochs = self._epochs()
        return {
            "vectors": epochs.pop("vectors"),
            "pruning": self.config.pruning.folds + 1 if has_pruning else 0,
            **epochs,
        }

    @property
    def epochs_done(self) -> dict[str, int]:
        """How many of `epochs` are learned."""
        done = dict(self._epochs_done)
        so_far = self._pruners
        n_pruners = 0 if so_far is None else len(so_far.ratios)
        if so_far is not None and so_far.result is not None:
            n_pruners = self.epochs["pruning"]
        return {"vectors": done.pop("vectors"), "pruning": n_pruners, **done}

    @property
    def n_unreachable(self) -> int:
        """Gold trees that the decoder cannot find; of graphs, arcs left out."""
        return self._n_left_out + self.gold.n_unreachable

    @property
    def vectors_have_labels(self) -> bool:
        """Whether word vectors score labels."""
        templates = self._arcs.word_vectors
        return bool(templates and templates.label and self._labels)

    @property
    def _is_pruned(self) -> bool:
        return self._decoder.is_higher_order and self.config.pruning.max_heads is not None

    @property
    def _has_arc_stage(self) -> bool:
        """Whether there are templates of arcs, and not word vectors alone."""
        return bool(self._arcs.arc)

    def learn(self) -> Iterator[Progress]:
        """Learn all that is left to learn; yields events during and at the end of every epoch."""
        if self._vectors is not None:
            yield from self._learn_epochs("vectors", self._vectors.learn)
        if self._pruners is not None and self._pruners.result is None:
            given = self.gold.arc_batch, self.plan, self.features.rows, self.gold.arc_heads
            single_root = self.single_root
            if self._known_pruner is not None:
                found = known_pruning(*given, self._known_pruner, single_root=single_root)
                self._pruners.result = found
            else:
                yield from learn_pruning(
                    *given, self.config.pruning, self._decoder.of_arcs, self._first_order(),
                    self._pruners, single_root=single_root,
                )  # fmt: skip
        yield from self._learn_epochs("arcs", self._learn_arcs)
        if self._label_stage is None:
            return
        if not self.gold.graphs:
            self._label_stage.complete(complete_heads(self._arc_model(), self.gold, self.config))
        yield from self._learn_epochs("labels", self._label_stage.learn)

    def _first_order(self) -> "_FirstOrder":
        config = replace(
            self.config,
            decoder=self._decoder.of_arcs,
            data=replace(self.config.data, single_root=self.single_root),
            learning=replace(self.config.learning, epochs=self.config.pruning.epochs),
            labels=replace(self.config.labels, kind="none"),
        )
        templates = replace(self._arcs.first_order(), word_vectors=None)
        return _FirstOrder(
            self._treebank, templates, config, self._guides, self._threads, self._vocabularies
        )  # fmt: skip

    def arc_engine(self) -> Engine:
        """What learns the arcs of an epoch."""
        model = self._arc_model()
        if self.config.backend == "torch":
            return TorchEngine(model, self.gold, self.config, self._device)
        labels = self._gold_labels if self._joint else None
        return NativeEngine(model, self.gold, labels, self.config, self._threads)

    def _learn_arcs(self, order: np.ndarray, seen: int) -> Iterator[Counts]:
        """Learn from sentences in their order, `seen` ones came before."""
        size = self.config.learning.batch_size
        return learn_arcs(self.arc_engine(), self.gold.arc_batch, order, seen, size)

    def _learn_epochs(
        self, stage: str, learn: Callable[[np.ndarray, int], Iterator[Counts]]
    ) -> Iterator[Progress]:
        """The epochs of a stage that are left."""
        for epoch in range(self._epochs_done[stage], self._epochs()[stage]):
            order = self.order(stage, epoch)
            for counts in learn(order, epoch * len(order)):
                if counts.done == len(order):
                    self._epochs_done[stage] = epoch + 1
                done, wrong, words = counts
                yield Progress(stage, epoch + 1, done, len(order), wrong, words)

    def order(self, stage: str, epoch: int) -> np.ndarray:
        """The sentences in the order of an epoch, drawn from seed, stage and epoch alone."""
        n = len(self._treebank)
        if not self.config.learning.shuffle:
            return np.arange(n)
        seeds = np.random.SeedSequence([self.config.seed, _DRAWN_FOR[stage], epoch])
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
        labels, is_joint = None, self._joint is not None
        if self.label_weights is not None:
            stage = "arcs" if is_joint else "labels"
            labels = self._mean(self.label_weights, stage)[:, : len(self.label_names)]
        arcs, label_weights, scale, label_scale = whole_weights(
            self._mean(self.weights, "arcs")[:, 0], labels, bits, is_joint=is_joint
        )
        templates, vectors = self._arcs, None
        if added := self._added_vectors():
            templates, vectors = replace(templates, word_vectors=added[0]), added[1]
        if vectors:  # where they are alone, no weight decides how fine scores are
            are_labels = label_weights and label_weights.largest
            if not (arcs.largest or (is_joint and are_labels)):
                scale = POINTS
            if not are_labels:
                label_scale = scale if is_joint else POINTS
        linear = LinearScorer(
            templates=templates,
            label_templates=self._labels,
            vocabularies=self._vocabularies,
            features=self.features,
            arcs=arcs,
            label_weights=label_weights,
            labels_with_trees=is_joint,
            decoder=self.config.decoder,
            points=(scale, label_scale),
            pruner=self.pruned.pruner if self.pruned else self._known_pruner,
        )
        return Parser(
            scorers=with_vectors(
                linear, vectors.with_points(scale, label_scale) if vectors else None
            ),
            labels=self.label_names,
            primary=self.gold.graphs.primary if self.gold.graphs and label_weights else None,
            decoder=self.config.decoder,
            min_gain=self.config.min_gain * scale,
            single_root=self.single_root,
            scales=Scales(*linear.nats_per_point),
            config=config,
        )

    def _added_vectors(self) -> tuple[VectorTemplates, WordVectors] | None:
        """The word vectors so far with their sizes, and with the weight of their scores."""
        if self._vectors is None:
            return None
        done = self._epochs_done["vectors"]
        if self._frozen is None or self._frozen[0] != done:
            templates, weights = self._vectors.result()
            if not done and self._known_vectors is not None:  # the same numbers, not rounded again
                self._frozen = done, templates, self._known_vectors
                return self._frozen[1:]
            share = np.float32(GRANDPARENT_SHARE)
            weights = weights._replace(grandparents=weights.grandparents * share)
            made = frozen(weights, self._vector_plan, self.gold.batch)
            made = made.with_margin(self.config.word_vectors.margin if self._arcs.arc else None)
            self._frozen = done, templates, made.with_units(*self._vector_factors)
        return self._frozen[1:]

    def scored(self, stage: str, score: float) -> None:
        """Keep the weights after the epoch of a stage that has just ended if its score is the best.

        Of equally good epochs the first one is kept. To be called after every epoch of the stages
        in `STAGES`, or after none: when a stage has ended, `model` has the weights that were kept.
        Of word vectors each network is a stage of its own.
        """
        number = self._epochs_done[stage]
        epochs = self.config.word_vectors.epochs if stage == "vectors" else self._epochs()[stage]
        is_first, is_last = number % epochs == 1 % epochs, number % epochs == 0
        best = None if is_first else self._best.get(stage)
        if best is None or score > best.score:
            best = Best(score, number, self._averages(stage))
        if stage == "vectors" and is_last:
            assert self._vectors is not None
            self._vectors.finished[-1] = VectorTables(*best.averages)
            self._frozen = None
            best = best._replace(averages=[])
        self._best[stage] = best._replace(is_chosen=is_last)

    def best_epoch(self, stage: str) -> int:
        """The epoch that `scored` has found to be the best one of a stage, from 1."""
        return self._best[stage].epoch

    def _averages(self, stage: str) -> list[np.ndarray]:
        """Copies of the weights that `model` has after an epoch of a stage, that stage's alone."""
        if stage == "vectors":
            assert self._vectors is not None
            return list(self._vectors.snapshot())
        return [self._mean_so_far(weights, stage) for weights in self._tables_of(stage)]

    def _tables_of(self, stage: str) -> list[AveragedWeights]:
        """The tables that a stage learns, beside word vectors."""
        tables = [self.weights] if stage == "arcs" else []
        if self.label_weights is not None and (stage == "labels" or self._joint):
            tables.append(self.label_weights)
        return tables

    def _mean(self, weights: AveragedWeights, stage: str) -> np.ndarray:
        """The mean of the weights of a stage so far, or that of its best epoch."""
        best = self._best.get(stage)
        if best is None or not best.is_chosen:
            return self._mean_so_far(weights, stage)
        return best.averages[0 if weights is self.weights else -1].copy()

    def _mean_so_far(self, weights: AveragedWeights, stage: str) -> np.ndarray:
        """The mean of the weights after each sentence; or the last ones."""
        if not self.config.learning.averaged:
            return weights.array.copy()
        return weights.mean(max(1, self._epochs_done[stage] * len(self._treebank)))

    def state(self) -> dict[str, np.ndarray]:
        """All that a later `restore` needs to continue to the same bytes.

        Only between two epochs. The arrays are no copies: copy them before learning continues.
        Weights of which nothing is learned yet are left out.
        """
        state: dict[str, np.ndarray] = {}
        state["done"] = np.array([self._epochs_done[stage] for stage in STAGES], np.int64)
        for name, weights in self._learned_tables(self._epochs_done):
            state |= {name: weights.array, f"{name}_weighted": weights.weighted}
        if self._pruners is not None:
            state |= self._pruners.state()
        if self._vectors is not None:
            state |= {f"vectors_{name}": a for name, a in self._vectors.state().items()}
        for stage, best in self._best.items():
            state[f"best_{stage}"] = np.array([best.score, best.epoch], np.float64)
            state |= {f"best_{stage}_{i}": a for i, a in enumerate(best.averages)}
        return state

    def _learned_tables(self, done: Mapping[str, int]) -> Iterator[tuple[str, AveragedWeights]]:
        """The tables of weights of stages of which an epoch is done, by name."""
        if done["arcs"]:
            yield "arcs", self.weights
        if self.label_weights is not None and done["arcs" if self._joint else "labels"]:
            yield "labels", self.label_weights

    def _state_shapes(self, state: Mapping[str, np.ndarray]) -> dict[str, Shape]:
        """The types and shapes that the arrays of a state of this run have, after what is done."""
        shapes = {"done": Shape(np.int64, (len(STAGES),))}
        found = state.get("done")
        if found is None or found.dtype != np.int64 or found.shape != (len(STAGES),):
            return shapes
        done = {stage: max(0, n) for stage, n in zip(STAGES, found.tolist(), strict=True)}
        for name, weights in self._learned_tables(done):
            shapes[name] = Shape(np.float32, weights.array.shape)
            shapes[f"{name}_weighted"] = Shape(np.float32, weights.weighted.shape)
        if self._pruners is not None:
            n_rows = self.features.rows.rows + self.plan.arcs.dense_lines * LINE
            shapes |= pruning_shapes(self.gold.arc_batch, n_rows, state)
        if self._vectors is not None:
            of_vectors = self._vectors.shapes(done["vectors"]).items()
            shapes |= {f"vectors_{name}": shape for name, shape in of_vectors}
        for stage in STAGES:
            if f"best_{stage}" in state and done[stage]:
                shapes[f"best_{stage}"] = Shape(np.float64, (2,))
                sizes = [table.array.shape for table in self._tables_of(stage)]
                if stage == "vectors" and self._vectors is not None:
                    is_between = done[stage] % self.config.word_vectors.epochs == 0
                    sizes = [] if is_between else self._vectors.sizes.of_tables
                shapes |= {f"best_{stage}_{i}": Shape(np.float32, s) for i, s in enumerate(sizes)}
        return shapes

    def _epochs(self) -> dict[str, int]:
        """How many epochs each stage has."""
        return {
            "vectors": self.config.word_vectors.all_epochs if self._vectors else 0,
            "arcs": self.config.learning.epochs if self._has_arc_stage else 0,
            "labels": self.config.labels.epochs if self._label_stage else 0,
        }

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Continue from the `state` of a trainer with the same arguments.

        Raises: ModelError: the state is of another run, or of none.
        """
        check_state(state, self._state_shapes(state), self._epochs())
        done = dict(zip(STAGES, state["done"].tolist(), strict=True))
        if self._is_pruned and "pruner" not in state and (done["arcs"] or done["labels"]):
            raise ModelError("a damaged state: it has no candidate arcs")
        tables = {
            name: AveragedWeights(state[name], state[f"{name}_weighted"])
            for name, _ in self._learned_tables(done)
        }
        self.weights = tables["arcs"] if "arcs" in tables else self._start_weights()
        if self.label_weights is not None:
            labels = tables["labels"] if "labels" in tables else self._start_label_weights()
            self.label_weights = labels
            if self._joint:
                self._joint = self._joint_labels()
            elif self._label_stage:
                self._label_stage.weights = labels
        self._epochs_done = done
        self._restore_best(state)
        if self._vectors is not None:
            prefix = "vectors_"
            self._vectors.restore(
                {
                    name.removeprefix(prefix): a
                    for name, a in state.items()
                    if name.startswith(prefix)
                }
            )
            self._frozen = None
        if self._pruners is not None:
            self._pruners = PrunersSoFar(self.gold.arc_batch)
        if self._pruners is not None and "pruner" in state:
            self._pruners.result = from_state(
                state, self.config.pruning, self._decoder.of_arcs, self.gold.arc_batch,
                self.gold.arc_heads,
            )  # fmt: skip
        elif self._pruners is not None and "pruning_ratios" in state:
            self._pruners.restore(state, self.config.pruning.folds)

    def _restore_best(self, state: Mapping[str, np.ndarray]) -> None:
        """The best epochs so far of a state.

        Raises: ModelError: an epoch that is not done.
        """
        self._best = {}
        for stage in STAGES:
            if (facts := state.get(f"best_{stage}")) is None:
                continue
            score, epoch = facts.tolist()
            done, epochs = self._epochs_done[stage], self._epochs()[stage]
            if not 1 <= epoch <= done or epoch != int(epoch):
                raise ModelError(f"a damaged state: epoch {epoch} of {stage} is not done")
            names = [name for i in range(2) if (name := f"best_{stage}_{i}") in state]
            averages = [state[name] for name in names]
            self._best[stage] = Best(score, int(epoch), averages, is_chosen=done == epochs)


def check_templates(arcs: TemplateSet, labels: TemplateSet | None, config: RunConfig) -> None:
    """Make sure that sets of templates, decoder and kind of labels go together.

    Raises: ConfigError: they do not.
    """
    decoder, vectors = DECODERS[config.decoder], arcs.word_vectors
    which = f"the set {arcs.name!r}"
    if decoder.needs and not any(getattr(arcs, part) for part in decoder.needs):
        raise ConfigError(
            f"features: {which} has no {' or '.join(decoder.needs)} templates, which decoder"
            f" {config.decoder} needs"
        )
    others = [part for part in PARTS if part not in ("arc", "label") and getattr(arcs, part)]
    if not arcs.arc and (others or not vectors):
        raise ConfigError(f"features: {which} has no arc templates")
    if vectors and decoder.gives_graphs:
        raise ConfigError(
            f"features: {which} has word vectors, which learn from trees, and decoder"
            f" {config.decoder} finds graphs: choose a decoder of trees"
        )
    if vectors and config.data.partial:
        raise ConfigError(
            f"data.partial: word vectors, which {which} has, learn from whole trees: choose a set"
            " without them"
        )
    if vectors and arcs.guide and config.word_vectors.margin is not None:
        raise ConfigError(
            f"word_vectors.margin: {which} has guide templates, which score all arcs: give null"
        )
    if labels is None:
        return
    if not labels.label and not (vectors and vectors.label):
        raise ConfigError(f"labels.features: the set {labels.name!r} has no label templates")
    if labels.label and not arcs.arc and config.labels.kind == "joint":
        raise ConfigError(
            f"labels.kind joint: {which} has no arc templates, so that labels can have none:"
            " choose labels.features=vectors, or second-stage"
        )


class Best(NamedTuple):
    """The best epoch of a stage so far: its score and number, and the weights of a model after it.

    is_chosen: whether the stage has ended, so that a model has these weights.
    """

    score: float
    epoch: int
    averages: list[np.ndarray]
    is_chosen: bool = False


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
