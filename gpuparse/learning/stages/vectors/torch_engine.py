"""Learning of word vectors in torch, on any device; what native/learn_vectors.h does on the CPU.

The same values are dropped and the same steps are taken, so weights differ from native ones only by
the rounding of sums.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from gpuparse.data.batch import Batch
from gpuparse.errors import NoTreeError, ScoreError
from gpuparse.features.word_vectors import FURTHER, VectorPlan
from gpuparse.inference.decoders import DECODERS
from gpuparse.inference.distributions import (
    NonProjectiveTrees,
    ProjectiveTrees,
    TreeDistribution,
    conditional_loss,
)
from gpuparse.learning.stages.vectors.engine import (
    LOSSES,
    MOST_GRAND_WORDS,
    OPTIMIZERS,
    PASSIVE_AGGRESSIVE,
    VectorLearning,
    VectorStep,
    VectorTables,
    VectorTask,
)
from gpuparse.scorers.vectors.scores import add_between, parts_of_pairs, values_in_between

CELLS = 1 << 21  # scores of arcs, or of parts of three words, at a time
_GAMMA, _FIRST, _SECOND = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB


class Gradients(NamedTuple):
    """Words with a wrong head; the loss; its gradients by the weights `dense`, by sums of rows."""

    wrong: int
    loss: float
    dense: Tensor  # (n_dense,)
    sums: Tensor  # (nodes, W)


def rows_of(plan: VectorPlan, values: np.ndarray, tokens: np.ndarray) -> np.ndarray:
    """(nodes, K) int64 rows of the table, -1 for none; tokens: (nodes,)."""
    found = np.empty((len(tokens), len(plan.rows)), np.int64)
    columns = zip(plan.rows, plan.offsets, plan.starts, plan.sizes, strict=True)
    for k, (row, offset, start, size) in enumerate(columns):
        value = values[row, tokens + offset]
        is_known = (value >= 0) & (value < size)
        found[:, k] = np.where(is_known, plan.places[start + np.where(is_known, value, 0)], -1)
    return found


def kept_values(seed: int, tokens: np.ndarray, count: int, dropout: float) -> np.ndarray:
    """(nodes, count) bool: what is not dropped; as native/random.h draws it."""
    with np.errstate(over="ignore"):
        first = _mixed(np.array([seed], np.uint64)) + tokens.astype(np.uint64) * np.uint64(_GAMMA)
        numbers = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(_GAMMA)
        drawn = _mixed(_mixed(first)[:, None] + numbers)
    uniform: np.ndarray = (drawn >> np.uint64(11)).astype(np.float64) * 2.0**-53
    return uniform >= dropout


def _mixed(z: np.ndarray) -> np.ndarray:
    z = (z ^ (z >> np.uint64(30))) * np.uint64(_FIRST)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(_SECOND)
    return z ^ (z >> np.uint64(31))


class TorchVectorEngine:
    """Takes steps in torch.

    Args:
        weights: before the first step.
        device: where the work is done.
    """

    def __init__(self, task: VectorTask, weights: VectorTables, device: str) -> None:
        self._task, self._device = task, torch.device(device)
        self._weights = {name: self._moved(array) for name, array in weights._asdict().items()}
        self._moments = {
            name: torch.zeros(2, *array.shape, device=self._device)
            for name, array in self._weights.items()
        }
        self._mean = {name: torch.zeros_like(array) for name, array in self._weights.items()}

    @property
    def _axes(self) -> int:
        """Of nodes, that the largest array of scores has."""
        sizes = self._task.sizes
        return 4 if sizes.grandparent else 3 if sizes.sibling else 2

    def _trees(
        self, scores: Tensor, parts: Mapping[str, Tensor], lengths: Tensor
    ) -> TreeDistribution:
        """The trees of sentences with scores of arcs (B, N, N), and of other parts (B, N, N, N)."""
        is_projective = DECODERS[self._task.decoder].is_projective
        of_kind = ProjectiveTrees if is_projective else NonProjectiveTrees
        single_root = self._task.single_root
        given: dict[str, Any] = {f"{kind}_scores": part for kind, part in parts.items()}
        return of_kind(scores, lengths, **given, single_root=single_root)

    def _moved(self, array: np.ndarray) -> Tensor:
        return torch.from_numpy(array.copy()).to(self._device)

    def step(self, mini: Batch, learning: VectorLearning, step: VectorStep) -> int:
        """Learn from some sentences together. Returns words with a wrong head; -1: no tree."""
        nodes = mini.lengths + 1
        tokens = np.arange(nodes.sum()) + np.repeat(mini.starts - np.cumsum(nodes) + nodes, nodes)
        rows = rows_of(self._task.plan, mini.values, tokens)
        kept = kept_values(learning.seed, tokens, rows.shape[1], learning.dropout)
        rows = np.where(kept, rows, -1)
        scale = 1.0 / (1.0 - learning.dropout)
        try:
            found = self.find_gradients(mini, rows, scale, learning)
        except (NoTreeError, ScoreError):  # scores are not finite
            return -1
        with torch.no_grad():
            changed, of_rows = self._gradients_of_rows(rows, found.sums * scale)
            dense = found.dense
            if OPTIMIZERS[step.optimizer] == PASSIVE_AGGRESSIVE:
                of_row, of_dense = self._task.sizes.factor(step.steps % 3)
                for gradients, part in ((of_rows, of_row), (dense, of_dense)):
                    gradients[..., : part.start] = 0.0
                    gradients[..., part.stop :] = 0.0
                squares = float(of_rows.double().square().sum() + dense.double().square().sum())
                step = step.no_longer_than(found.loss, squares)
            _take(step, dense, self._weights["dense"], *self._moments["dense"])
            self._change_rows(step, changed, of_rows)
        return found.wrong

    def find_gradients(
        self, mini: Batch, rows: np.ndarray, scale: float, learning: VectorLearning
    ) -> Gradients:
        """Gradients of the loss.

        Args: rows: (nodes, K) of the table, -1 for none. scale: of the rows' sums.
        """
        dense = self._weights["dense"].clone().requires_grad_()
        sums = (self._summed(rows) * scale).requires_grad_()
        first, wrong, loss = 0, 0, 0.0
        for part in _runs(mini, self._axes):
            count = int((part.lengths + 1).sum())
            found = self._go_back(part, sums[first : first + count], dense, learning)
            wrong, loss, first = wrong + found[0], loss + found[1], first + count
        return Gradients(wrong, loss, _gradient(dense), _gradient(sums))

    def _summed(self, rows: np.ndarray) -> Tensor:
        """(nodes, W) sums of the rows that are there."""
        is_there = rows >= 0
        sizes = is_there.sum(1)
        return functional.embedding_bag(
            self._moved(rows[is_there]), self._weights["table"],
            self._moved(np.cumsum(sizes) - sizes), mode="sum",
        )  # fmt: skip

    def _go_back(
        self, part: Batch, sums: Tensor, dense: Tensor, learning: VectorLearning
    ) -> tuple[int, float]:
        """Add the gradients of the loss of some sentences; returns wrong words, and the loss."""
        sizes, gold = self._task.sizes, self._task.gold
        places = torch.from_numpy(part.places())
        is_node = torch.arange(part.n_nodes) <= torch.from_numpy(part.lengths).unsqueeze(1)
        is_word = is_node.clone()
        is_word[:, 0] = False

        def of_words(by_token: np.ndarray) -> Tensor:
            found = torch.from_numpy(by_token)[places].masked_fill(~is_word, -1)
            return found.to(self._device)

        is_node = is_node.to(self._device)
        bias, heads, modifiers, arcs, *further, labels, between = sizes.parts(dense)
        hidden = sums + bias
        if sizes.hidden:
            left, right = hidden.relu().chunk(2, 1)
            as_head, as_modifier = left @ heads, right @ modifiers
        else:
            as_head, as_modifier = hidden.chunk(2, 1)
        shape = (*is_node.shape, sizes.columns)
        u, v = (
            torch.zeros(shape, device=self._device).masked_scatter(is_node.unsqueeze(2), vectors)
            for vectors in (as_head, as_modifier)
        )
        of_arcs = u[..., : sizes.arc], v[..., : sizes.arc]
        scores = self._scores_of_pairs(*of_arcs, arcs)
        if sizes.n_between:
            of_heads, of_modifiers = between[:, : sizes.arc], between[:, sizes.arc : -1]
            values = values_in_between(self._task.plan, torch.from_numpy(part.values), places)
            add_between(
                scores, values.to(self._device), of_arcs[0] @ of_heads.T + between[:, -1],
                of_arcs[1] @ of_modifiers.T,
            )  # fmt: skip
        parts, first = {}, sizes.arc
        for kind, size, rows in zip(FURTHER, sizes.of_pairs[1:], further, strict=True):
            columns, first = slice(first, first + size), first + size
            if size and not (kind == "grandparent" and part.n_nodes > MOST_GRAND_WORDS + 1):
                pairs = self._scores_of_pairs(u[..., columns], v[..., columns], rows)
                parts[kind] = parts_of_pairs(kind, pairs)
        gold_heads = of_words(gold.heads)
        lengths = torch.from_numpy(part.lengths).to(self._device)
        loss, wrong = self._arc_loss(scores, parts, lengths, gold_heads, learning)
        if gold.labels is not None and learning.label_loss > 0.0:
            gold_labels = of_words(gold.labels)
            b, m = ((gold_heads >= 0) & (gold_labels >= 0)).nonzero(as_tuple=True)
            of_head = u[b, gold_heads[b, m], sizes.first_label :]
            of_modifier = v[b, m, sizes.first_label :]
            found = _pair_scores(of_head, of_modifier, labels)
            of_labels = functional.cross_entropy(found, gold_labels[b, m], reduction="sum")
            loss = loss + learning.label_loss * of_labels
        scores.retain_grad()
        loss.backward()
        if wrong is not None:
            return int(wrong), loss.item()
        of_gold = _gradient(scores).gather(1, gold_heads.clamp(min=0).unsqueeze(1)).squeeze(1)
        return int(((of_gold <= -0.5) & (gold_heads >= 0)).sum()), loss.item()

    def _scores_of_pairs(self, u: Tensor, v: Tensor, rows: Tensor) -> Tensor:
        """(B, N, N) scores of pairs of words; u, v: (B, N, P) vectors as heads and modifiers."""
        buckets = torch.from_numpy(self._task.plan.buckets).to(self._device)
        nodes = torch.arange(u.shape[1], device=self._device)
        distance = nodes - nodes.unsqueeze(1)
        bucket = buckets[(distance.abs() - 1).clamp(0, len(buckets) - 1)]
        combination = torch.where(distance > 0, bucket, self._task.plan.n_buckets + bucket)
        products, of_heads, of_modifiers, constants = _split(rows)
        # [b, c, h, m]: with each combination, of which one is chosen for each pair
        every = (u.unsqueeze(1) * products.unsqueeze(1)) @ v.unsqueeze(1).transpose(2, 3)
        every = every + (u @ of_heads.T).transpose(1, 2).unsqueeze(3)
        every = every + (v @ of_modifiers.T).transpose(1, 2).unsqueeze(2)
        every = every + constants.view(-1, 1, 1)
        chosen = combination.expand(len(u), 1, *combination.shape)
        return every.gather(1, chosen).squeeze(1)

    def _arc_loss(
        self,
        scores: Tensor,
        parts: Mapping[str, Tensor],
        lengths: Tensor,
        gold: Tensor,
        learning: VectorLearning,
    ) -> tuple[Tensor, Tensor | None]:
        """The loss of trees, and words with a wrong head; None: those with less than half.

        parts: (B, N, N, N) of each further kind of pairs that vectors score. gold: (B, N), -1 where
        there is no known head.
        """
        nodes = torch.arange(scores.shape[1], device=self._device)
        is_gold = gold.unsqueeze(1) == nodes.unsqueeze(1)
        is_known = (gold >= 0).unsqueeze(1)
        harder = scores + learning.cost * (is_known & ~is_gold)
        if LOSSES[learning.loss] == "conditional":
            return conditional_loss(self._trees(harder, {}, lengths), gold).sum(), None
        if LOSSES[learning.loss] == "heads":
            no_arc = (nodes == nodes.unsqueeze(1)) | (nodes > lengths.view(-1, 1)).unsqueeze(2)
            b, m = (gold >= 0).nonzero(as_tuple=True)
            of_words = harder.masked_fill(no_arc, -torch.inf)[b, :, m]
            loss = functional.cross_entropy(of_words, gold[b, m], reduction="sum")
            return loss, (of_words.argmax(1) != gold[b, m]).sum()
        with torch.no_grad():
            fixed = {kind: part.detach() for kind, part in parts.items()}
            found = self._trees(harder.detach(), fixed, lengths).best().heads
            target = gold
            is_word = (nodes > 0) & (nodes <= lengths.unsqueeze(1))
            if bool((is_word & (gold < 0)).any()):
                trees = self._trees(scores.detach(), fixed, lengths)
                target = trees.constrained(gold).best().heads
        wrong = (is_word & (gold >= 0) & (found != gold)).sum()
        if parts:
            trees = self._trees(harder, parts, lengths)
            return (trees.score_of(found) - trees.score_of(target)).sum(), wrong
        b, m = (is_word & (found != target)).nonzero(as_tuple=True)
        loss = (harder[b, found[b, m], m] - harder[b, target[b, m], m]).sum()
        return loss, wrong

    def _gradients_of_rows(self, rows: np.ndarray, gradients: Tensor) -> tuple[Tensor, Tensor]:
        """The rows of the table that occur, and their gradients; gradients: (nodes, W) of sums."""
        node, column = np.nonzero(rows >= 0)
        occurring = rows[node, column]
        order = np.argsort(occurring, kind="stable")
        changed, firsts = np.unique(occurring[order], return_index=True)
        sums = functional.embedding_bag(
            self._moved(node[order]), gradients, self._moved(firsts), mode="sum"
        )
        return self._moved(changed), sums

    def _change_rows(self, step: VectorStep, changed: Tensor, gradients: Tensor) -> None:
        """A step of some rows of the table."""
        table, (first, second) = self._weights["table"], self._moments["table"]
        own = [array[changed] for array in (table, first, second)]
        _take(step, gradients, *own)
        for array, new in zip((table, first, second), own, strict=True):
            array[changed] = new

    def average(self, count: int) -> None:
        """Make the weights of the moment one of `count` whose mean is kept."""
        for name, mean in self._mean.items():
            mean += (self._weights[name] - mean) * (1.0 / count)

    def state(self) -> dict[str, np.ndarray]:
        """Weights, moments and means."""
        kinds = {"weights": self._weights, "moments": self._moments, "mean": self._mean}
        return {
            f"{part}_{kind}": arrays[part].cpu().numpy()
            for kind, arrays in kinds.items()
            for part in VectorTables._fields
        }

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Go on from a state."""
        kinds = {"weights": self._weights, "moments": self._moments, "mean": self._mean}
        for kind, arrays in kinds.items():
            for part, array in arrays.items():
                array.copy_(torch.from_numpy(state[f"{part}_{kind}"]))


def _runs(mini: Batch, axes: int) -> Iterator[Batch]:
    """The sentences of a batch in order, some at a time: at most CELLS scores, or one sentence.

    axes: of nodes, that scores have.
    """
    first = 0
    while first < len(mini):
        longest = np.maximum.accumulate(mini.lengths[first:]) + 1
        cells = longest**axes * np.arange(1, len(longest) + 1)
        last = first + max(1, int(np.searchsorted(cells, CELLS, side="right")))
        yield mini.select(slice(first, last))
        first = last


def _gradient(tensor: Tensor) -> Tensor:
    return torch.zeros_like(tensor) if tensor.grad is None else tensor.grad


def _split(rows: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Numbers of products, of heads, of modifiers, constants; rows: (R, 3 P + 1)."""
    of_words, constants = rows[:, :-1], rows[:, -1]
    products, of_heads, of_modifiers = of_words.chunk(3, 1)
    return products, of_heads, of_modifiers, constants


def _pair_scores(u: Tensor, v: Tensor, rows: Tensor) -> Tensor:
    """(pairs, R) scores of each pair of vectors (pairs, P) by each of the rows (R, 3 P + 1)."""
    products, of_heads, of_modifiers, constants = _split(rows)
    return (u * v) @ products.T + u @ of_heads.T + v @ of_modifiers.T + constants


def _take(
    step: VectorStep, gradient: Tensor, weights: Tensor, first: Tensor, second: Tensor
) -> None:
    """One step of the optimizer, in place; as `VectorStepper` of native/learn_vectors.h."""
    if OPTIMIZERS[step.optimizer] == "adagrad":
        second += gradient * gradient
        weights -= step.rate * gradient / (second.sqrt() + 1e-6)
        return
    if OPTIMIZERS[step.optimizer] == PASSIVE_AGGRESSIVE:
        weights -= step.rate * gradient
        return
    first.mul_(step.first_decay).add_(gradient, alpha=1.0 - step.first_decay)
    second.mul_(step.second_decay).addcmul_(gradient, gradient, value=1.0 - step.second_decay)
    first_scale = 1.0 / (1.0 - step.first_decay**step.steps)
    second_scale = 1.0 / (1.0 - step.second_decay**step.steps)
    weights -= step.rate * (first * first_scale) / ((second * second_scale).sqrt() + 1e-8)
