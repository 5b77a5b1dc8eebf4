"""The scorer of hashed templates: the weights of the features of parts and labels, summed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple

import numpy as np

from gpuparse.data.batch import (
    AFTER,
    BEFORE,
    FIRST_VALUE,
    MARGIN,
    ROOT,
    UNKNOWN,
    Batch,
)
from gpuparse.data.cached import cached_property
from gpuparse.data.parts import CHILDREN
from gpuparse.data.tag_columns import Column
from gpuparse.data.treebank import Treebank
from gpuparse.data.vocabulary import Encoder, Vocabularies
from gpuparse.errors import ConfigError
from gpuparse.features.plan import (
    ArcPlan,
    LabelPlan,
    Plan,
    compile_higher,
    compile_joint_labels,
    compile_labels,
    compile_plan,
)
from gpuparse.features.templates import TemplateSet
from gpuparse.inference.decoders import DECODERS, Engine
from gpuparse.scorers.linear.pruning import Pruner
from gpuparse.scorers.linear.weights import FeatureMap, JointLabels, Weights, joint_labels
from gpuparse.scorers.scorer import TorchScorer
from gpuparse.scorers.sizes import PartSize, sentence_cells

KIND = "linear"


class Plans(NamedTuple):
    """The plans that templates compile to.

    labels: of finished trees. joint: of labels found with the trees, with their weights.
    """

    trees: Plan
    labels: LabelPlan | None
    joint: JointLabels | None


@dataclass(frozen=True, eq=False, kw_only=True)
class LinearScorer:
    """Templates, their vocabularies and whole-number weights; see `gpuparse.scorers.scorer`.

    Args:
        templates: the expanded arc templates.
        label_templates: the expanded label templates, None where only heads are predicted.
        vocabularies: the values that templates see.
        features: the row map of the arc features.
        arcs: integer weights (R, 1).
        label_weights: integer weights (lines, labels); None without labels.
        labels_with_trees: whether labels are found with the trees, not when these are finished.
        decoder: a name in `DECODERS`, of the search that the templates are compiled for.
        learned_decoder: the one learned with, which says whose labels are found with the trees.
        points: of weights of arcs and of labels for a unit of cost, as they were learned; None: not
            known.
        pruner: of a higher-order parser: which arcs are searched over; None: all of them.
        compiled: what the templates compile to; None: found out.
    """

    templates: TemplateSet
    label_templates: TemplateSet | None
    vocabularies: Vocabularies
    features: FeatureMap
    arcs: Weights
    label_weights: Weights | None
    labels_with_trees: bool = False
    decoder: str
    learned_decoder: str = ""
    points: tuple[float, float] | None = None
    pruner: Pruner | None = None
    compiled: Plans | None = None

    kind = KIND
    is_exact = True
    fills = ()

    def __getstate__(self) -> dict[str, Any]:
        """The fields, for pickle and copy; what was made of them is made again."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @cached_property
    def plans(self) -> Plans:
        """The plans that the templates compile to."""
        if self.compiled is not None:
            return self.compiled
        return compile_plans(
            self.templates, self.label_templates, self.vocabularies, self.label_weights,
            labels_with_trees=self.labels_with_trees, decoder=self.decoder,
            learned_decoder=self.learned_decoder,
        )  # fmt: skip

    @property
    def plan(self) -> Plan:
        """The templates that trees are searched for with."""
        return self.plans.trees

    @property
    def label_plan(self) -> LabelPlan | None:
        """The templates of labels of finished trees."""
        return self.plans.labels

    @property
    def joint_plan(self) -> ArcPlan | None:
        """The templates of labels found with the trees."""
        return None if self.plans.joint is None else self.plans.joint.plan

    @property
    def has_labels(self) -> bool:
        """True if it scores labels."""
        return self.label_weights is not None

    @property
    def replaces_arcs(self) -> bool:
        """True if the arc scores of its `lower_order` are those of the pruner."""
        return self.pruner is not None and self.plans.joint is None

    @property
    def nats_per_point(self) -> tuple[float, float]:
        """Nats of a unit of cost that the weights were learned in; 1 where it is unknown."""
        if self.points is None:
            return 1.0, 1.0
        return 1.0 / self.points[0], 1.0 / self.points[1]

    @property
    def reads(self) -> Mapping[int, Sequence[str]]:
        """The fields with known values, by column."""
        return self.vocabularies.known_by_column

    @property
    def reads_guides(self) -> bool:
        """True if there are guide templates."""
        return bool(self.templates.guide)

    def encode(self, treebank: Treebank, guides: np.ndarray | None = None) -> Batch:
        """The sentences of a treebank as one batch.

        Raises: ConfigError: as `check_guides`.
        """
        check_guides(self.templates, are_given=guides is not None)
        batch = self._encoder.encode(treebank)
        return batch if guides is None else batch.guided(guides)

    def fill(
        self, treebank: Treebank, place: str, threads: int
    ) -> tuple[dict[int, Column], np.ndarray]:
        """No columns."""
        return {}, np.full(treebank.n_words, np.nan)

    def generated(self, lengths: Sequence[int], *, only_known: bool = False) -> Batch:
        """Sentences of random values, with random guides if there are guide templates.

        only_known: whether to leave out the value of words that are not in the vocabularies.
        """
        rng = np.random.default_rng(1)
        words = np.array(lengths, np.int64)
        widths = words + 1 + 2 * MARGIN
        starts = np.cumsum(widths) - widths + MARGIN
        known = self.vocabularies
        values = np.full((len(known.fields), widths.sum()), BEFORE, np.int32)
        is_word = np.zeros(values.shape[1], np.bool_)
        for start, n in zip(starts.tolist(), lengths, strict=True):
            values[:, start] = ROOT
            values[:, start + n + 1 : start + n + 1 + MARGIN] = AFTER
            is_word[start + 1 : start + n + 1] = True
        for row, field in enumerate(known.fields):
            ids = rng.integers(FIRST_VALUE - 1, known.size(field), is_word.sum())
            lowest = FIRST_VALUE if only_known and known.values[field] else UNKNOWN
            values[row, is_word] = np.where(ids < FIRST_VALUE, lowest, ids)
        batch = Batch(values, starts, words)
        if not self.templates.guide:
            return batch
        guides = [(m := np.arange(1, n + 1)) - rng.integers(1, m + 1) for n in lengths]
        return batch.guided(np.concatenate(guides))

    def size(self, lengths: np.ndarray) -> np.ndarray:
        """(S,) cells, by the largest parts that have templates."""
        return sentence_cells(lengths, self._part_size)

    @property
    def _part_size(self) -> PartSize:
        if self.plan.higher and len(self.plan.higher.sides):
            joint = self.plans.joint
            labels = joint.stride if joint and joint.higher else 0
            return PartSize(4, self.pruner.max_heads if self.pruner else None, labels)
        return PartSize(3 if self.plan.siblings else 2)

    def lower_order(self, *, is_replaced: bool = False) -> LinearScorer:
        """The arc scores of this one, or those of its pruner.

        Labels of graphs label no trees of the first order, and are left out.
        """
        decoder, joint = DECODERS[self.decoder], self.plans.joint
        of_trees = not decoder.gives_graphs
        return replace(
            self,
            arcs=self.pruner.weights if self.pruner and self.replaces_arcs else self.arcs,
            pruner=None,
            decoder=decoder.of_arcs,
            label_weights=self.label_weights if of_trees else None,
            compiled=Plans(
                self.plan.of_arcs,
                self.label_plan if of_trees else None,
                None if joint is None else joint._replace(higher=None),
            ),
        )

    def in_torch(self, engine: Engine = "torch") -> TorchScorer:
        """The same scores as dense tensors; "triton" sums them by kernels."""
        from gpuparse.scorers.linear.dense import DenseTemplates  # and torch with it

        return DenseTemplates(self, engine)

    @cached_property
    def _encoder(self) -> Encoder:
        return Encoder(self.vocabularies)


def compile_plans(
    templates: TemplateSet,
    label_templates: TemplateSet | None,
    vocabularies: Vocabularies,
    label_weights: Weights | None,
    *,
    labels_with_trees: bool,
    decoder: str,
    learned_decoder: str = "",
) -> Plans:
    """The plans that templates compile to.

    Args: those of LinearScorer.
    Raises: ConfigError: as `compile_plan` and `compile_joint_labels`.
    """
    trees = compile_plan(templates, vocabularies, higher=DECODERS[decoder].is_higher_order)
    if label_templates is None or label_weights is None:
        return Plans(trees, None, None)
    if not labels_with_trees:
        return Plans(trees, compile_labels(label_templates, vocabularies), None)
    n_labels = label_weights.array.shape[1]
    joint = compile_joint(
        label_templates, vocabularies, label_weights, n_labels, learned_decoder or decoder
    )
    return Plans(trees, None, joint)


def compile_joint(
    templates: TemplateSet, vocabularies: Vocabularies, weights: Weights, width: int, decoder: str
) -> JointLabels:
    """The scorer of `width` labels, for a decoder that finds them with the trees.

    templates: of labels; those of children are read if the decoder labels children.
    weights: as `joint_labels`.
    """
    plan, children = compile_joint_labels(templates, vocabularies), None
    if DECODERS[decoder].reads_children:
        children = compile_higher(templates.only(CHILDREN), vocabularies)
    return joint_labels(plan, weights, width, children)


def check_guides(templates: TemplateSet, *, are_given: bool) -> None:
    """Make sure that guides are there for guide templates, and only for them.

    Raises: ConfigError: they are not.
    """
    if templates.guide and not are_given:
        raise ConfigError("the model reads guides, and there are none")
    if are_given and not templates.guide:
        raise ConfigError("the model was learned without guides, and guides are given")
