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
from gpuparse.inference.best_trees import device_search
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


class DifferentParts(NamedTuple):
    """Where two trees differ, and the parts at given places that only one of them has."""

    differ: Tensor  # bool, of any shape
    parts: Callable[..., PartIndices]


def arcs_that_differ(gold: Tensor, found: Tensor) -> DifferentParts:
    """The arcs that only one of two trees has; gold, found: heads (B, N)."""
    return DifferentParts(
        gold != found, lambda b, m: _both(b, (gold[b, m], m, m), (found[b, m], m, m))
    )


def siblings_that_differ(gold: Tensor, found: Tensor) -> DifferentParts:
    """The sibling parts that only one of two trees has.

    Cost: O(B N^2) time and memory.
    """
    inner, found_inner = inner_siblings(gold), inner_siblings(found)
    return DifferentParts(
        (gold != found) | (inner != found_inner),
        lambda b, m: _both(b, (gold[b, m], m, inner[b, m]), (found[b, m], m, found_inner[b, m])),
    )


def ends_that_differ(gold: Tensor, found: Tensor) -> DifferentParts:
    """The ends, one for each head and side, that only one of two trees has; cost as above."""
    # [side, B, N]: the outermost modifier of each node, itself for none
    last, found_last = _outermost(gold), _outermost(found)
    return DifferentParts(
        last != found_last,
        lambda side, b, h: _both(b, (h, last[side, b, h], side), (h, found_last[side, b, h], side)),
    )


def listed(all_parts: Sequence[DifferentParts], sizes: Sequence[int]) -> list[PartIndices]:
    """The parts of all_parts; sizes: how many places of each differ."""
    found = []
    for (differ, parts), size in zip(all_parts, sizes, strict=True):
        number = torch.arange(differ.numel(), device=differ.device)
        (number,) = kept(differ.flatten(), number)
        places, number = [], number[:size]
        for length in reversed(differ.shape):
            places.append(number % length)
            number = number // length
        found.append(parts(*reversed(places)))
    return found


def kept(is_kept: Tensor, *columns: Tensor) -> list[Tensor]:
    """The values of columns (E,) that are kept, then zeros; no size is asked for."""
    size = len(is_kept)
    place = torch.where(is_kept, is_kept.cumsum(0) - 1, size)
    return [x.new_zeros(size + 1).scatter_(0, place, x)[:size] for x in columns]


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
    sizes: Tensor  # (C,) entries of each constraint
    longest: int  # the largest of these
    largest: int  # sum of the squares of the counts of one constraint


class EntriesByRow(NamedTuple):
    """The same entries by row, then by constraint, and the U different rows."""

    order: Tensor  # (E,) which entries
    rows: Tensor  # (U,) ascending
    number: Tensor  # (E,) of each entry's row
    sizes: Tensor  # (U,) entries of each row
    longest: int  # the largest of these
    shared: Tensor  # (E,) the number of its row among those of several constraints, -1: it is none
    n_shared: int
    step: int
    cuts: list[int]  # where the first `step` shared rows begin, the next ones, and so on


def coalesced(
    features: Tensor, n_rows: int, n_constraints: int, cells: int = SHARED_CELLS
) -> tuple[Differences, EntriesByRow]:
    """Add up the signs of features that have constraint and row in common.

    All sizes are read from the device at once, when everything is computed in tensors of F numbers.

    Args:
        features: (3, F) int64: constraint, row, sign; row `n_rows` is no feature.
        cells: of the dense matrix that `products` holds at a time: shared rows, by constraint.
    """
    no_feature = features.new_tensor([[0], [n_rows], [0]])
    constraint, row, sign = torch.cat([features, no_feature], 1)
    key, order = torch.sort(constraint * (n_rows + 1) + row)
    number = _run_numbers(key)
    count = torch.zeros_like(key).index_add_(0, number, sign[order])  # whole, in any order
    key = torch.zeros_like(key).scatter_(0, number, key)
    key, count = kept((count != 0) & (key % (n_rows + 1) != n_rows), key, count)
    ones, is_entry = torch.ones_like(key), count != 0
    constraint = torch.where(is_entry, key // (n_rows + 1), n_constraints)
    row = torch.where(is_entry, key % (n_rows + 1), n_rows)
    sizes, squares = (
        key.new_zeros(n_constraints + 1).index_add_(0, constraint, x)[:-1] for x in (ones, count**2)
    )
    row_of, order = torch.sort(row, stable=True)
    number = _run_numbers(row_of)
    of_row = torch.zeros_like(key).index_add_(0, number, (row_of < n_rows).long())
    rows = torch.zeros_like(key).scatter_(0, number, row_of)
    is_shared = of_row[number] > 1
    is_first = torch.diff(number, prepend=number.new_full((1,), -1)) > 0
    shared = (is_shared & is_first).cumsum(0) - is_shared.long()  # of others, that of the next one
    step = max(1, cells // n_constraints)
    firsts = torch.arange(0, len(key) // 2 + step + 1, step, device=key.device)
    read = is_entry.sum(), (of_row > 0).sum(), sizes.max(), squares.max(), of_row.max()
    read = *read, (is_shared & is_first).sum(), *torch.searchsorted(shared, firsts).unbind()
    n_entries, n_different, longest, largest, longest_row, n_shared, *cuts = torch.stack(
        read
    ).tolist()
    shared = torch.where(is_shared, shared, -1)
    constraint, row, count, order, number, shared = (
        x[:n_entries] for x in (constraint, row, count, order, number, shared)
    )
    return (
        Differences(constraint, row, count, sizes, longest, largest),
        EntriesByRow(
            order, rows[:n_different], number, of_row[:n_different], longest_row,
            shared, n_shared, step, cuts,
        ),
    )  # fmt: skip


def _run_numbers(values: Tensor) -> Tensor:
    """The number of the run of equal values that each of them is in."""
    return (torch.diff(values, prepend=values[:1]) != 0).cumsum(0)


def margins(differences: Differences, weights: Tensor) -> Tensor:
    """D w, (C,) float64; weights: (rows,)."""
    products = differences.count * weights[differences.row].double()
    return sum_runs(products, differences.constraint, differences.sizes, differences.longest)


def products(differences: Differences, column: EntriesByRow) -> Tensor:
    """D D^T, (C, C) float64.

    Cost: O(E + C^2 S) for S rows of the weights that several constraints share.
    """
    constraint, count, n_constraints = *differences[::2][:2], len(differences.sizes)
    # Counts below 2^8 and sums below 2^16 are exact however a device multiplies float32.
    exact = torch.float32 if differences.largest < 1 << 16 else torch.float64
    squares = torch.zeros_like(differences.sizes).index_add_(0, constraint, count**2)
    total = squares.new_zeros((n_constraints, n_constraints), dtype=torch.float64)
    for first, (low, high) in zip(
        range(0, column.n_shared, column.step), pairwise(column.cuts), strict=False
    ):
        width = min(column.step, column.n_shared - first)
        entry, shared = column.order[low:high], column.shared[low:high]
        dense = total.new_zeros((n_constraints, width + 1), dtype=exact)
        place = constraint[entry], torch.where(shared < 0, width, shared - first)
        dense[place] = count[entry].to(exact)
        total += dense[:, :-1] @ dense[:, :-1].T
    return total.diagonal_scatter(squares.double())


def change(differences: Differences, column: EntriesByRow, steps: Tensor) -> Tensor:
    """Steps times D at the rows of the column, (K, U) float64; steps: (K, C) float64."""
    moved = (steps[:, differences.constraint] * differences.count)[:, column.order]
    return sum_runs(moved, column.number, column.sizes, column.longest)


def sum_runs(values: Tensor, run: Tensor, sizes: Tensor, longest: int) -> Tensor:
    """Sum runs of values, pair by pair: the same bits on every device.

    Args:
        values: (..., E), the runs one after the other. run: (E,) int64, ascending.
        sizes: (R,) int64, how long each run is. longest: the largest of these.
    Returns: (..., R), 0 for empty runs.
    Cost: O(E log L) for a longest run of L values; log L rounds.
    """
    count = values.shape[-1]
    if count == 0:
        return values.new_zeros(*values.shape[:-1], len(sizes))
    firsts = sizes.cumsum(0) - sizes
    place = torch.arange(count, device=values.device) - firsts[run]
    left = sizes[run] - place  # values of the run from here on
    width = 1
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
        weights: of one number per row; they change when the epoch is finished.
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
        self._asks_for_sizes = where.type == "cpu"  # nothing waits there for few features

    @torch.no_grad()
    def learn(self, mini: Batch, seen: int) -> int:
        """Learn from a mini-batch; `seen` sentences came before. Returns wrong words."""
        costs, features = self._compared_in_parts(mini)
        return self._move(features, costs, seen)

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
        return costs, self._rows_of(rows, target.repeat_interleave(self._k, 0), found.flatten(0, 1))

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
            # Not checked: there is a tree, and nothing waits for the device.
            search = device_search(self._decoder.name, self._engine)
            found = search(arcs, *others, batch.lengths, single_root=self._single_root)[0]
            return found.unsqueeze(1), target
        return self._k_best(batch.lengths, arcs, others), target

    def _k_best(self, lengths: Tensor, arcs: Tensor, others: Sequence[Tensor]) -> Tensor:
        """(B, k, N) heads; native code finds them, in main memory."""
        arcs, lengths, *others = (each.cpu() for each in (arcs, lengths, *others))
        ends = {"end_scores": others.pop()} if others else {}
        find = self._decoder.function("k_best")
        heads = find(arcs, *others, lengths, self._k, single_root=self._single_root, **ends)[0]
        return heads.to(self._values.device)

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
        given = [under_gold, *(part[some] for part in others)]
        parts = dict(zip(("end_scores",), given[2:], strict=False))
        best, _ = self._decoder.function()(
            *given[:2], lengths[some], single_root=self._single_root, engine=self._engine, **parts
        )
        return gold.index_copy(0, some, best)

    def _rows_of(self, rows: PartRows, target: Tensor, found: Tensor) -> Tensor:
        """(3, F) the features that only one of two trees has: constraint, row, sign.

        target, found: (C, N), of each constraint.
        """
        of_siblings = bool(self._plan.siblings)
        all_parts = [arcs_that_differ(target, found)]
        if of_siblings:
            all_parts += [siblings_that_differ(target, found), ends_that_differ(target, found)]
        m = torch.arange(found.shape[1], device=found.device)
        gaps = sum(((heads - m).abs() - 1).clamp(min=0) for heads in (target, found))
        between = torch.where(all_parts[0].differ, gaps, 0).sum()
        *sizes, n_between = torch.stack([*(x.differ.sum() for x in all_parts), between]).tolist()
        arcs, *others = listed(all_parts, sizes)
        size, features = max(1, ROWS_AT_ONCE // rows.longest_line), []

        def add(parts: PartIndices, find: Callable[[PartIndices], Tensor]) -> None:
            for columns in zip(*(column.split(size) for column in parts), strict=True):
                some = PartIndices(*columns)
                lines = find(some._replace(sentence=some.sentence // self._k))
                given = (x.unsqueeze(1).expand_as(lines) for x in (some.sentence, some.sign))
                constraint, sign = given
                columns = constraint, lines, sign
                if self._asks_for_sizes:
                    fires = lines != self._features.n_rows
                    columns = tuple(x[fires] for x in columns)
                features.append(torch.stack(columns).flatten(1))

        in_one = n_between if len(arcs.head) <= size else None
        add(arcs, lambda p: rows.of_arcs(*p[:3], in_one))
        if of_siblings:
            siblings, ends = others
            add(siblings, lambda p: rows.of_siblings(*p[:4]))
            add(ends, lambda p: rows.of_ends(*p[:4]))
        return torch.cat(features, 1)

    def _move(self, features: Tensor, costs: Tensor, seen: int) -> int:
        """Take the steps of all sentences of a mini-batch; costs: (B, k). Returns wrong words."""
        n = costs.numel()
        differences, column = coalesced(features, self._features.n_rows, n)
        before = margins(differences, self._table[:, 0])
        with_each_other = products(differences, column)
        # The steps follow from one another, and from C^2 numbers: in main memory.
        small = torch.cat([with_each_other, before.unsqueeze(0), costs.double().reshape(1, n)])
        *gram, of_weights, of_mistakes = small.cpu().numpy()
        mistakes = of_mistakes.reshape(costs.shape)
        steps = steps_in_turn(
            self._rule, mistakes, of_weights.reshape(costs.shape),
            np.stack(gram).reshape(*costs.shape, *costs.shape),
        )  # fmt: skip
        # The second line is for the average: learning/averaged.py.
        counted = steps * (seen + np.arange(len(costs)))[:, np.newaxis]
        sizes = torch.from_numpy(np.stack([steps.reshape(n), counted.reshape(n)]))
        moved, counted = change(differences, column, sizes.to(self._values.device)).float()
        # Every row is there once, so that no two additions meet.
        self._table[:, 0].index_add_(0, column.rows, moved)
        self._weighted.index_add_(0, column.rows, counted)
        return int(mistakes[:, 0].sum())

    def finish(self) -> None:
        """Bring the weights, and the sums for their average, back to main memory."""
        if self._values.device.type != "cpu":
            self._weights.array[:] = self._table[:-1].cpu().numpy()
        self._kept_weighted[:] = self._weighted.cpu().numpy()
