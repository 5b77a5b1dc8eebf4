"""The label stage: a classifier of the arcs of finished trees or graphs, one arc at a time."""

from collections.abc import Callable, Iterator

import numpy as np

from gpuparse import native
from gpuparse.config import RunConfig
from gpuparse.data.batch import Batch
from gpuparse.data.columns import DEPREL
from gpuparse.data.treebank import Treebank
from gpuparse.data.vocabulary import Vocabularies, column_ids
from gpuparse.features.plan import LINE, compile_labels
from gpuparse.features.templates import TemplateSet
from gpuparse.learning.events import EpochCounts
from gpuparse.learning.gold import GoldTrees
from gpuparse.learning.mira import update_rule
from gpuparse.learning.stages.stage import TableStage
from gpuparse.scorers.linear.weights import stride_of
from gpuparse.scorers.native import GraphHeads, sentences_of

SLICE = 256  # sentences between two events


def gold_labels(treebank: Treebank, gold: GoldTrees) -> tuple[np.ndarray, list[str]]:
    """(T,) gold labels by token index, -1 for none, and their names; of graphs the names alone."""
    if gold.graphs:
        return np.full(len(gold.heads), -1, np.int64), gold.graphs.names
    labels, names = column_ids(treebank, DEPREL)
    return gold.by_token(np.where(treebank.heads < 0, -1, labels)), names


def label_weights(n_labels: int, rows: int, kind: str) -> np.ndarray:
    """Weights of labels of zero, float32: lines of one weight per label.

    Where labels are found with the trees, there is a whole number of blocks of LINE lines, and
    lines are padded with zeros for vector instructions.

    rows: weights of all lines, where there is room. kind: "second-stage" or "joint".
    """
    n_lines = max(1, rows // n_labels)
    if kind != "joint":
        return np.zeros((n_lines, n_labels), np.float32)
    return np.zeros((max(1, n_lines // LINE) * LINE, stride_of(n_labels)), np.float32)


class LabelStage(TableStage):
    """Learns the table `weights` of second-stage labels.

    Args:
        labels: (T,) gold labels by token index, -1 for none.
        tables: of zeros; `weights` is that of `label_weights`.
        complete_heads: completes the gold heads (T,), once the stages before are learned.
    Source: McDonald, Lerman & Pereira (2006).
    """

    name = "labels"
    drawn_for = 1

    def __init__(
        self,
        templates: TemplateSet,
        vocabularies: Vocabularies,
        gold: GoldTrees,
        labels: np.ndarray,
        config: RunConfig,
        tables: dict[str, np.ndarray],
        complete_heads: Callable[[], np.ndarray],
    ) -> None:
        super().__init__(
            config.labels.epochs if templates.label else 0, tables, len(gold.batch), config
        )
        self._gold, self._heads, self._labels = gold, gold.heads, labels
        self._complete_heads = complete_heads
        self._rule = native.struct("UpdateRule", update_rule(config))
        self._plan = native.struct("LabelPlan", compile_labels(templates, vocabularies))

    @property
    def has_labels(self) -> bool:
        """Always."""
        return True

    def prepare(self) -> None:
        """Complete the heads of trees; nothing is learned of the labels of words that lack one."""
        if self.epochs and not self._gold.graphs:
            heads = self._complete_heads()
            self._labels = np.where(self._heads != heads, -1, self._labels)
            self._heads = heads

    def learn(self, order: np.ndarray, seen: int) -> Iterator[EpochCounts]:
        """Learn from sentences in their order; `seen` came before."""
        ordered = self._gold.batch.select(order)
        words, wrong, done = 0, 0, 0
        for first in range(0, len(order), SLICE):
            part = ordered.select(np.arange(first, min(first + SLICE, len(order))))
            wrong += self._learn(part, seen + first)
            words += int(part.lengths.sum())
            done += len(part)
            yield EpochCounts(done, len(order), wrong, words)

    def _learn(self, part: Batch, seen: int) -> int:
        """Learn from some sentences; returns how many arcs got another label first."""
        graphs, labels, arcs = self._gold.graphs, self._labels, None
        if graphs is not None:
            arcs = GraphHeads(graphs.arc_starts, graphs.arc_heads, graphs.may_be_primary)
            labels = graphs.relations
        weights = self.tables["weights"]
        wrong: int = native.call(
            "learn_labels", sentences_of(part), self._plan, self._rule, self._heads, arcs,
            labels, seen, weights.array, weights.weighted,
        )  # fmt: skip
        return wrong
