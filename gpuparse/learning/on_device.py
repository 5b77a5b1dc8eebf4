"""Online learning of trees in torch, on any device: mini-batches are searched, compared, learned.

As native code learns mini-batches: all trees of a mini-batch are found with the same weights, and
then its sentences are learned from one after the other, each step computed with the weights that
the steps before it have moved. Here the steps (`learning/mira.py`) come from the products of all
differences (`products`), and the rows of the embedding bag change once per mini-batch, without a
gradient.

A mini-batch of B sentences and the k best trees of each has C = B k constraints, one for each tree,
sentence by sentence. A tree that is not wrong has no features.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from gpuparse.config import RunConfig
from gpuparse.data.batch import MARGIN, Batch
from gpuparse.errors import ResourceError, plural
from gpuparse.features.plan import Plan
from gpuparse.inference.constraints import constrain
from gpuparse.inference.decoders import DECODERS
from gpuparse.inference.engines import choose_engine
from gpuparse.inference.scores import inner_siblings
from gpuparse.learning.averaged import AveragedWeights
from gpuparse.learning.mira import steps_in_turn, update_rule
from gpuparse.model.engines.admission import LEARNING_BUDGET, Admission
from gpuparse.model.engines.dense import or_no_memory
from gpuparse.scorers.linear.dense import template_scores
from gpuparse.scorers.linear.embedding_bag import bag_of
from gpuparse.scorers.linear.rows import PartRows
from gpuparse.scorers.linear.weights import FeatureMap
from gpuparse.scorers.sizes import ROWS_AT_ONCE, SHARED_CELLS, PartSize, sentence_cells
from gpuparse.scorers.tensors import TensorBatch, tensors_over


class PartIndices(NamedTuple):
    """P parts of one kind: (P,) int64 each."""

    sentence: Tensor
    head: Tensor
    modifier: Tensor  # of ends the outermost one, the head for none
    third: Tensor  # the inner sibling, the head for none; of ends 1 for the right side
    sign: Tensor


def arcs_that_differ(gold: Tensor, found: Tensor) -> PartIndices:
    """The arcs that only one of two trees has; gold, found: heads (B, N)."""
    b, m = (gold != found).nonzero(as_tuple=True)
    return _both(b, (gold[b, m], m, m), (found[b, m], m, m))


def siblings_that_differ(gold: Tensor, found: Tensor) -> PartIndices:
    """The sibling parts that only one of two trees has.

    Cost: O(B N^2) time and memory.
    """
    inner, found_inner = inner_siblings(gold), inner_siblings(found)
    b, m = ((gold != found) | (inner != found_inner)).nonzero(as_tuple=True)
    return _both(b, (gold[b, m], m, inner[b, m]), (found[b, m], m, found_inner[b, m]))


def ends_that_differ(gold: Tensor, found: Tensor) -> PartIndices:
    """The ends, one for each head and side, that only one of two trees has; cost as above."""
    # [side, B, N]: the outermost modifier of each node, itself for none
    last, found_last = _outermost(gold), _outermost(found)
    side, b, h = (last != found_last).nonzero(as_tuple=True)
    return _both(b, (h, last[side, b, h], side), (h, found_last[side, b, h], side))


def _both(b: Tensor, gold: tuple[Tensor, ...], found: tuple[Tensor, ...]) -> PartIndices:
    signs = torch.ones_like(b)
    head, modifier, third = (torch.cat(pair) for pair in zip(gold, found, strict=True))
    return PartIndices(torch.cat([b, b]), head, modifier, third, torch.cat([signs, -signs]))


def _outermost(heads: Tensor) -> Tensor:
    """(2, B, N) the last modifier of each node to the left, to the right; the node for none."""
    n_nodes = heads.shape[1]
    m = torch.arange(n_nodes, device=heads.device)
    h = m.unsqueeze(1)
    # [B, h, m]
    is_arc = heads.unsqueeze(1) == h
    left = torch.where(is_arc & (m < h), m, n_nodes).amin(2)
    right = torch.where(is_arc & (m > h), m, -1).amax(2)
    return torch.stack([torch.where(left < n_nodes, left, m), torch.where(right < 0, m, right)])


class Differences(NamedTuple):
    """E entries that are not zero, (E,) int64 each, by constraint, then by row of the weights."""

    constraint: Tensor
    row: Tensor
    count: Tensor


class EntriesByRow(NamedTuple):
    """The same entries by row, then by constraint, and the U different rows."""

    order: Tensor  # (E,) which entries
    rows: Tensor  # (U,) ascending
    number: Tensor  # (E,) of each entry's row
    sizes: Tensor  # (U,) entries of each row


def coalesced(features: Tensor, n_rows: int) -> Differences:
    """Add up the signs of features that have constraint and row in common.

    Args: features: (3, F) int64: constraint, row, sign.
    """
    constraint, row, sign = features
    key, place = torch.unique(constraint * n_rows + row, return_inverse=True)
    count = torch.zeros_like(key).index_add_(0, place, sign)  # whole numbers, in any order
    is_left = count != 0
    key, count = key[is_left], count[is_left]
    return Differences(key // n_rows, key % n_rows, count)


def by_row(differences: Differences) -> EntriesByRow:
    """The entries in the other order."""
    row, order = torch.sort(differences.row, stable=True)
    rows, number, sizes = torch.unique_consecutive(row, return_inverse=True, return_counts=True)
    return EntriesByRow(order, rows, number, sizes)


def margins(differences: Differences, weights: Tensor, n_constraints: int) -> Tensor:
    """D w, (C,) float64; weights: (rows,)."""
    products = differences.count * weights[differences.row].double()
    sizes = torch.bincount(differences.constraint, minlength=n_constraints)
    return sum_runs(products, differences.constraint, sizes)


def products(
    differences: Differences, column: EntriesByRow, n_constraints: int, cells: int = SHARED_CELLS
) -> Tensor:
    """D D^T, (C, C) float64.

    Args:
        cells: of the dense matrix that is held at a time: rows of the weights that several
            constraints share, by constraint.
    Cost: O(E + C^2 S) for S such rows.
    """
    squares = torch.zeros(n_constraints, dtype=torch.int64, device=differences.count.device)
    squares.index_add_(0, differences.constraint, differences.count**2)
    is_shared = column.sizes > 1
    of_entry = is_shared[column.number]
    entry = column.order[of_entry]
    shared = (is_shared.cumsum(0) - 1)[column.number[of_entry]]
    n_shared = int(is_shared.sum())
    total = torch.zeros(n_constraints, n_constraints, dtype=torch.float64, device=squares.device)
    step = max(1, cells // n_constraints)
    firsts = torch.arange(0, n_shared + step, step, device=squares.device)
    cuts = torch.searchsorted(shared, firsts).tolist()
    for first, (low, high) in enumerate(pairwise(cuts)):
        dense = total.new_zeros(n_constraints, min(step, n_shared - first * step))
        here = entry[low:high]
        place = differences.constraint[here], shared[low:high] - first * step
        dense[place] = differences.count[here].double()
        total += dense @ dense.T
    return total.diagonal_scatter(squares.double())


def change(differences: Differences, column: EntriesByRow, steps: Tensor) -> Tensor:
    """Steps times D at the rows of the column, (K, U) float64; steps: (K, C) float64."""
    moved = (steps[:, differences.constraint] * differences.count)[:, column.order]
    return sum_runs(moved, column.number, column.sizes)


def sum_runs(values: Tensor, run: Tensor, sizes: Tensor) -> Tensor:
    """Sum runs of values, pair by pair: the same bits on every device.

    Args:
        values: (..., E), the runs one after the other. run: (E,) int64, ascending.
        sizes: (R,) int64, how long each run is.
    Returns: (..., R), 0 for empty runs.
    Cost: O(E log L) for a longest run of L values; log L rounds.
    """
    count = values.shape[-1]
    if count == 0:
        return values.new_zeros(*values.shape[:-1], len(sizes))
    firsts = sizes.cumsum(0) - sizes
    place = torch.arange(count, device=values.device) - firsts[run]
    left = sizes[run] - place  # values of the run from here on
    width, longest = 1, int(sizes.max())
    while width < longest:
        takes = (place & (2 * width - 1) == 0) & (left > width)
        next_ones = torch.where(takes[:-width], values[..., width:], 0)
        values = torch.cat([values[..., :-width] + next_ones, values[..., -width:]], -1)
        width *= 2
    sums = values[..., firsts.clamp(max=count - 1)]
    return torch.where(sizes > 0, sums, 0)


class DeviceLearner:
    """Learning of arcs in one epoch; the weights come back to main memory when it is finished.

    Args:
        batch: all sentences, in main memory.
        gold: (T,) int64 heads by place, -1 for what is no word and where gold says nothing.
        plan, features: the compiled templates and a hashed map.
        weights: of one number a row; they change when the epoch is finished.
        config: of the run; its decoder is eisner, chu_liu_edmonds or eisner_sibling.
        single_root: whether every tree has exactly one modifier of the root.
        device: where the work is done.
        engine: "torch", "triton", or "auto", which takes the kernels on a GPU.
    Source: McDonald, Crammer & Pereira (2005), figure 3, and McDonald & Pereira (2006), figure 6;
        differs: the trees of a mini-batch are found with the weights before it.
    """

    def __init__(
        self,
        batch: Batch,
        gold: np.ndarray,
        plan: Plan,
        features: FeatureMap,
        weights: AveragedWeights,
        *,
        config: RunConfig,
        single_root: bool,
        device: str,
        engine: str = "auto",
    ) -> None:
        self._values = torch.from_numpy(batch.values).to(device)
        self._gold = torch.from_numpy(gold).to(device)
        self._is_partial = int((gold >= 0).sum()) < int(batch.lengths.sum())
        self._decoder, self._rule = DECODERS[config.decoder], update_rule(config)
        # Where vectors alone score siblings, the plan has them, and this learner does not.
        self._plan = plan if self._decoder.reads_siblings else plan.of_arcs
        self._features, self._weights = features, weights.weights
        self._kept_weighted = weights.weighted
        self._single_root, self._k = single_root, config.learning.k
        self._max_cells = LEARNING_BUDGET  # what memory is found to allow, changes no bit
        # The table that scores are summed from on this device; in main memory, `weights` itself.
        self._table = bag_of(weights.weights, self._values.device, 1).weight.detach()
        self._table[:-1] = torch.from_numpy(weights.array).to(device)
        self._weighted = torch.from_numpy(weights.weighted).to(device)
        # In main memory the torch form too: what runs there is what runs on another device.
        where = self._values.device
        engine = "torch" if engine == "auto" and where.type == "cpu" else engine
        self._engine = choose_engine(engine, where, has_kernels=True)
        # Sentences of similar length: on a CPU padding costs more than calls.
        self._at_once = 8 if where.type == "cpu" else config.learning.batch_size

    @torch.no_grad()
    def learn(self, mini: Batch, seen: int) -> int:
        """Learn from a mini-batch; `seen` sentences came before. Returns wrong words."""
        costs, features = self._compared_in_parts(mini)
        self._move(coalesced(features, self._features.n_rows), costs, seen)
        return int(costs[:, 0].sum())

    def _compared_in_parts(self, mini: Batch) -> tuple[Tensor, Tensor]:
        """`_compare` for a whole mini-batch, in pieces that fit into memory."""
        device = self._values.device
        cells = sentence_cells(mini.lengths, PartSize(2 + self._decoder.reads_siblings))
        admission = Admission(mini.lengths, self._at_once, self._max_cells, cells)
        costs = torch.zeros(len(mini), self._k, dtype=torch.int64, device=device)
        found = [torch.zeros(3, 0, dtype=torch.int64, device=device)]
        compare = or_no_memory(lambda part: self._compare(*self._taken(mini, part)))
        for part, compared in admission.run(compare):
            if compared is None:
                raise ResourceError(
                    f"device {device}: no memory for a sentence of"
                    f" {plural(int(mini.lengths[part[0]]), 'word')}: leave it out, or learn with"
                    " learning.engine=native"
                )
            sentences = torch.from_numpy(part).to(device)
            costs[sentences], features = compared
            rank = features[0] % self._k
            features[0] = sentences[features[0] // self._k] * self._k + rank
            found.append(features)
        self._max_cells = admission.budget
        return costs, torch.cat(found, 1)

    def _taken(self, mini: Batch, part: np.ndarray) -> tuple[TensorBatch, Tensor]:
        """Some sentences on the device, with no values but their own, and their gold heads (B, N).

        So no work is done for words of other sentences.
        """
        batch = tensors_over(self._values, mini.select(part))
        places = batch.own_places()
        return batch.alone(), self._gold[places[:, MARGIN : MARGIN + batch.n_nodes]]

    def _compare(self, batch: TensorBatch, gold: Tensor) -> tuple[Tensor, Tensor]:
        """Search the trees of a batch, and list the features in which they differ from gold.

        Returns: (B, k) int64 wrong words; (3, F) int64: constraint, row of the weights, sign.
        """
        found, target = self._search(batch, gold)
        is_tree = (found[:, :, 1:] >= 0).any(2)  # else there are fewer than k
        costs = ((gold >= 0).unsqueeze(1) & (gold.unsqueeze(1) != found)).sum(2) * is_tree
        found = torch.where((costs > 0).unsqueeze(2), found, target.unsqueeze(1))
        rows = PartRows(batch, self._plan, self._features, self._weights)
        features = [self._rows_of(rows, target, found[:, rank]) for rank in range(self._k)]
        for rank, of_rank in enumerate(features):
            of_rank[0] = of_rank[0] * self._k + rank
        return costs, torch.cat(features, 1)

    def _search(self, batch: TensorBatch, gold: Tensor) -> tuple[Tensor, Tensor]:
        """(B, k, N) heads of the k best trees, -1 for none; (B, N) of the tree learned towards."""
        given = self._plan, self._features, self._weights
        scores = template_scores(batch, *given, self._engine)
        arcs, others = scores.arc, [] if scores.sibling is None else [scores.sibling, scores.end]
        target = self._completed(batch.lengths, arcs, others, gold) if self._is_partial else gold
        if self._rule.cost > 0.0:
            # The cost of a wrong head; without a gold head, all heads have it.
            nodes = torch.arange(arcs.shape[1], device=arcs.device)
            arcs += self._rule.cost * (gold.unsqueeze(1) != nodes.unsqueeze(1))
        if self._k == 1:
            return self._decoded(batch.lengths, arcs, others).unsqueeze(1), target
        return self._k_best(batch.lengths, arcs, others), target

    def _k_best(self, lengths: Tensor, arcs: Tensor, others: Sequence[Tensor]) -> Tensor:
        """(B, k, N) heads; native code finds them, in main memory."""
        arcs, lengths, *others = (each.cpu() for each in (arcs, lengths, *others))
        ends = {"end_scores": others.pop()} if others else {}
        find = self._decoder.function("k_best")
        heads = find(arcs, *others, lengths, self._k, single_root=self._single_root, **ends)[0]
        return heads.to(self._values.device)

    def _decoded(self, lengths: Tensor, arcs: Tensor, others: Sequence[Tensor]) -> Tensor:
        how = {"single_root": self._single_root, "engine": self._engine}
        if not others:
            return self._decoder.function()(arcs, lengths, **how)[0]
        siblings, ends = others
        return self._decoder.function()(arcs, siblings, lengths, end_scores=ends, **how)[0]

    def _completed(
        self, lengths: Tensor, arcs: Tensor, others: Sequence[Tensor], gold: Tensor
    ) -> Tensor:
        """The best trees that have all heads that gold says; gold where it says all."""
        nodes = torch.arange(gold.shape[1], device=gold.device)
        is_open = (gold < 0) & (nodes > 0) & (nodes <= lengths.unsqueeze(1))
        some = is_open.any(1).nonzero().squeeze(1)
        if len(some) == 0:
            return gold
        required = gold[some].unsqueeze(1) == nodes.unsqueeze(1)
        under_gold = constrain(arcs[some], lengths[some], required=required)
        best = self._decoded(lengths[some], under_gold, [part[some] for part in others])
        return gold.index_copy(0, some, best)

    def _rows_of(self, rows: PartRows, target: Tensor, found: Tensor) -> Tensor:
        """(3, F) the features that only one of two trees has: sentence, row, sign."""
        silent = self._features.n_rows
        size = max(1, ROWS_AT_ONCE // rows.longest_line)
        features = []

        def add(parts: PartIndices, find: Callable[[PartIndices], Tensor]) -> None:
            for columns in zip(*(column.split(size) for column in parts), strict=True):
                some = PartIndices(*columns)
                lines = find(some)
                fires = lines != silent
                sentence, sign = (
                    x.unsqueeze(1).expand_as(lines) for x in (some.sentence, some.sign)
                )
                features.append(torch.stack([x[fires] for x in (sentence, lines, sign)]))

        add(arcs_that_differ(target, found), lambda p: rows.of_arcs(*p[:3]))
        if self._plan.siblings:
            add(siblings_that_differ(target, found), lambda p: rows.of_siblings(*p[:4]))
            add(ends_that_differ(target, found), lambda p: rows.of_ends(*p[:4]))
        return torch.cat(features, 1)

    def _move(self, differences: Differences, costs: Tensor, seen: int) -> None:
        """Take the steps of all sentences of a mini-batch; costs: (B, k)."""
        n, column = costs.numel(), by_row(differences)
        before = margins(differences, self._table[:, 0], n)
        with_each_other = products(differences, column, n)
        # The steps follow from one another, and from C^2 numbers: in main memory.
        small = torch.cat([with_each_other, before.unsqueeze(0), costs.double().reshape(1, n)])
        *gram, of_weights, of_mistakes = small.cpu().numpy()
        steps = steps_in_turn(
            self._rule, of_mistakes.reshape(costs.shape), of_weights.reshape(costs.shape),
            np.stack(gram).reshape(*costs.shape, *costs.shape),
        )  # fmt: skip
        # The second line is for the average: learning/averaged.py.
        counted = steps * (seen + np.arange(len(costs)))[:, np.newaxis]
        sizes = torch.from_numpy(np.stack([steps.reshape(n), counted.reshape(n)]))
        moved, counted = change(differences, column, sizes.to(self._values.device)).float()
        # Every row is there once, so that no two additions meet.
        self._table[:, 0].index_add_(0, column.rows, moved)
        self._weighted.index_add_(0, column.rows, counted)

    def finish(self) -> None:
        """Bring the weights, and the sums for their average, back to main memory."""
        if self._values.device.type != "cpu":
            self._weights.array[:] = self._table[:-1].cpu().numpy()
        self._kept_weighted[:] = self._weighted.cpu().numpy()
