"""Scores of templates in Triton: from ids to hashed rows to sums, with no row number in memory.

The definition is the bag of `embedding_bag.py`, to which `arcs.py` and `siblings.py` pass all rows.
Three kernels do the same:

    word_kernel     what one word adds to the row of every feature, once per word
    pair_kernel     two words: both numbers make the row, and its weights are summed
    triple_kernel   three words, added to the sums of two: siblings

A lane sums one part in a register. Weights are read as they are stored, whole numbers of 8 or 16
bits too; these are summed as integers, exact in any order. float32 is summed in one order: word
families of the head, those of the modifier, pair families, each by their code tables; words in
between from left to right, family by family; triples.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from gpuparse.features import plan as features_plan
from gpuparse.features.plan import (
    HEAD,
    MODIFIER,
    ArcPlan,
    GuidePlan,
    SiblingPlan,
    most_arc_rows,
    most_sibling_rows,
)
from gpuparse.inference.triton.launch import on_device
from gpuparse.scorers.linear import hashing, kernel_tables
from gpuparse.scorers.linear.embedding_bag import bag_of
from gpuparse.scorers.linear.kernel_tables import KernelArcs, KernelTriples
from gpuparse.scorers.linear.plan_tensors import kept_tables
from gpuparse.scorers.linear.weights import FeatureMap, Weights
from gpuparse.scorers.tensors import TensorBatch

FOLD, SEED = tl.constexpr(hashing.FOLD), tl.constexpr(hashing.SEED)
MIX_1, MIX_2 = tl.constexpr(hashing.MIX_1), tl.constexpr(hashing.MIX_2)
LINE, SILENT = tl.constexpr(features_plan.LINE), tl.constexpr(kernel_tables.SILENT)
COLUMNS = tl.constexpr(len(kernel_tables.LOOK))
FIRST, END, SILENT_NUMBER, IS_HASHED, OWN_SEED, MOST, FACTOR, CONSTANT = map(
    tl.constexpr, range(COLUMNS.value)
)
# What `pair_kernel` sums: two nodes; a node and the root in every combination of direction and
# distance.
NODES, ROOT_AND_NODE, NODE_AND_ROOT = tl.constexpr(0), tl.constexpr(1), tl.constexpr(2)
LANES, MOST_LANES = 128, 2048  # of a program; in the interpreter, which sums arrays
MOST_INT32 = (1 << 31) - 1
NUMBERS = (  # arguments for whose values no kernel is compiled anew
    "n_tokens", "n_nodes", "n_places", "n_groups", "n_between", "n_triples", "n_buckets",
    "last_bucket", "parts", "size", "dense",
)  # fmt: skip


def arc_scores(batch: TensorBatch, plan: ArcPlan, features: FeatureMap, weights: Weights) -> Tensor:
    """`gpuparse.scorers.linear.arcs.arc_scores`."""
    sums = PairSums(batch, plan, features, weights, most_arc_rows(plan, batch.n_nodes))
    return sums.of_nodes().to(dtype_of(weights))


def guide_scores(
    batch: TensorBatch, plan: GuidePlan, features: FeatureMap, weights: Weights
) -> Tensor:
    """`gpuparse.scorers.linear.arcs.guide_scores`; features of guides alone are read."""
    sums = PairSums(batch, plan.arcs, features, weights, most_arc_rows(plan.arcs, 0))
    return sums.of_nodes(batch.values[plan.row][batch.places()]).to(dtype_of(weights))


def sibling_scores(
    batch: TensorBatch, plan: SiblingPlan, features: FeatureMap, weights: Weights
) -> tuple[Tensor, Tensor]:
    """`gpuparse.scorers.linear.siblings.sibling_scores`."""
    dtype, most = dtype_of(weights), 2 * most_sibling_rows(plan)  # ends are differences
    pairs = PairSums(batch, plan.pairs, features, weights, most, lone_root=True)
    ends = PairSums(batch, plan.ends, features, weights, most)
    # Without a modifier there is a direction, and no distance: the first bucket.
    alone = ends.of_root(NODE_AND_ROOT)
    right, left = (alone[:, :, c].unsqueeze(2) for c in (0, plan.ends.n_buckets))
    nodes = torch.arange(batch.n_nodes, device=alone.device)
    of_ends = ends.of_nodes() - torch.where(nodes.unsqueeze(1) < nodes, right, left)
    return _with_triples(pairs, plan, features, weights), of_ends.to(dtype)


class PairSums:
    """Sums of the weights of two nodes of a batch.

    Args:
        batch, plan, features, weights, lone_root: see `gpuparse.scorers.linear.arcs.TorchSums`.
        most: features of a part: where 32 bits hold the sums of whole numbers, they have the type
            int32, else int64.
    """

    def __init__(
        self,
        batch: TensorBatch,
        plan: ArcPlan,
        features: FeatureMap,
        weights: Weights,
        most: int,
        *,
        lone_root: bool = False,
    ) -> None:
        device = batch.values.device
        self.batch, self.n_nodes, self._rows = batch, batch.n_nodes, features.rows
        self.tables = kept_tables(weights, plan, device, KernelArcs)
        self._weights, self.dtype = stored(weights, device), torch.float32
        if weights.is_integer:
            self.dtype = torch.int32 if most * weights.largest <= MOST_INT32 else torch.int64
        self._numbers = word_numbers(batch, self.tables, lone_root=lone_root)
        self._of_one: Tensor | None = None
        head, modifier, both, _ = self.tables.of_kind
        if both > head:
            of_one = self._room(2, len(batch), self.n_nodes, 2 * plan.n_buckets)
            self._sum(of_one[HEAD], NODE_AND_ROOT, slice(head, modifier))
            self._sum(of_one[MODIFIER], ROOT_AND_NODE, slice(modifier, both))
            self._of_one = of_one

    def of_nodes(self, guides: Tensor | None = None) -> Tensor:
        """(B, N, N) of head and modifier; guides: (B, N) 1 + the only head that counts, or 0."""
        out = self._room(len(self.batch), self.n_nodes, self.n_nodes)
        return self._sum(out, NODES, slice(*self.tables.of_kind[2:]), guides)

    def of_root(self, parts: tl.constexpr) -> Tensor:
        """(B, N, C) of the root and a node, one of them the head; without words in between."""
        out = self._room(len(self.batch), self.n_nodes, 2 * self.tables.n_buckets)
        return self._sum(out, parts, slice(*self.tables.of_kind[2:]))

    def _room(self, *shape: int) -> Tensor:
        return self._weights.new_empty(shape, dtype=self.dtype)

    def _sum(
        self, out: Tensor, parts: tl.constexpr, groups: slice, guides: Tensor | None = None
    ) -> Tensor:
        """Fill out (B, N, columns) with the sums of the families of some groups."""
        tables, rows = self.tables, self._rows
        lanes = lanes_on(out.device)
        programs = len(out) * triton.cdiv(self.n_nodes * out.shape[2], lanes)
        if programs:
            with on_device(out.device):
                pair_kernel[(programs,)](
                    self._numbers, self._weights, self._of_one, guides, self.batch.lengths,
                    tables.codes, tables.buckets, tables.groups[groups.start :], out, parts.value,
                    self.n_nodes, self._numbers.shape[1], groups.stop - groups.start,
                    tables.n_between if parts == NODES else 0, tables.n_buckets,
                    len(tables.buckets) - 1,
                    rows.mask if rows.is_power else rows.rows // LINE.value, rows.dense,
                    IS_POWER=rows.is_power, LANES=lanes,
                )  # fmt: skip
        return out


def _with_triples(
    pairs: PairSums, plan: SiblingPlan, features: FeatureMap, weights: Weights
) -> Tensor:
    """(B, N, N, N) scores of siblings from the sums of the inner sibling and the modifier."""
    batch, n_nodes, two = pairs.batch, pairs.n_nodes, pairs.tables
    tables = kept_tables(weights, plan, batch.values.device, KernelTriples)
    of_two, alone = pairs.of_nodes(), pairs.of_root(ROOT_AND_NODE)
    out = of_two.new_empty((len(batch), *[n_nodes] * 3), dtype=dtype_of(weights))
    lanes = lanes_on(out.device)
    programs = len(batch) * n_nodes * triton.cdiv(n_nodes**2, lanes)
    if programs:
        with on_device(out.device):
            triple_kernel[(programs,)](
                word_numbers(batch, tables), stored(weights, out.device), of_two, alone,
                batch.lengths, two.codes, two.buckets, tables.triples, out, n_nodes,
                len(batch) * n_nodes, len(tables.triples), two.n_buckets, len(two.buckets) - 1,
                features.rows.dense, LANES=lanes,
            )  # fmt: skip
    return out


def dtype_of(weights: Weights) -> torch.dtype:
    """The type of scores."""
    return torch.float64 if weights.is_integer else torch.float32


def lanes_on(device: torch.device) -> int:
    """The lanes of a program."""
    return LANES if device.type == "cuda" else MOST_LANES


def stored(weights: Weights, device: torch.device) -> Tensor:
    """The weights on a device: float32 those of the bag, whole numbers as the model has them."""
    if not weights.is_integer:
        return bag_of(weights, device, 1).weight.detach()
    key = device, weights.array.dtype
    if key not in weights.tensors:
        weights.tensors[key] = torch.tensor(weights.array, device=device)
    return weights.tensors[key]


def word_numbers(
    batch: TensorBatch, tables: KernelArcs | KernelTriples, *, lone_root: bool = False
) -> Tensor:
    """(L, B N) int64 what every word adds to the row of every look."""
    n_looks, n_places = len(tables.looks), len(batch) * batch.n_nodes
    numbers = torch.empty((n_looks, n_places), dtype=torch.int64, device=batch.values.device)
    lanes = lanes_on(numbers.device)
    if numbers.numel():
        with on_device(numbers.device):
            word_kernel[(triton.cdiv(n_places, lanes), n_looks)](
                batch.values.contiguous(), batch.starts, batch.lengths, tables.atoms, tables.looks,
                numbers, batch.values.shape[1], batch.n_nodes, n_places, LONE_ROOT=lone_root,
                LANES=lanes,
            )  # fmt: skip
    return numbers


@triton.jit(do_not_specialize=NUMBERS)
def word_kernel(
    values: tl.tensor, starts: tl.tensor, lengths: tl.tensor, atoms: tl.tensor, looks: tl.tensor,
    numbers: tl.tensor, n_tokens: tl.tensor, n_nodes: tl.tensor, n_places: tl.tensor,
    LONE_ROOT: tl.constexpr, LANES: tl.constexpr,
) -> None:  # fmt: skip
    """One look of LANES words: `fold` and `mix` of `hashing.py`, or a line of words in between."""
    look = looks + tl.program_id(1) * COLUMNS
    place = tl.program_id(0).to(tl.int64) * LANES + tl.arange(0, LANES)
    is_node = place < n_places
    b, node = place // n_nodes, place % n_nodes
    n = tl.load(lengths + b, mask=is_node, other=0)
    token = tl.load(starts + b, mask=is_node, other=0) + tl.minimum(node, n + 1)
    key = tl.zeros((LANES,), tl.uint32)
    value = tl.zeros((LANES,), tl.int32)
    is_there = is_node
    for a in range(tl.load(look + FIRST), tl.load(look + END)):
        row, offset = tl.load(atoms + 2 * a), tl.load(atoms + 2 * a + 1)
        at = tl.minimum(tl.maximum(token + offset, 0), n_tokens - 1)
        value = tl.load(values + row * n_tokens + at, mask=is_node, other=0)
        is_there = is_there & (value != 0)
        if LONE_ROOT:
            is_there = is_there & ((node > 0) | (offset == 0))
        key = (key ^ value.to(tl.uint32)) * FOLD
        key = key ^ (key >> 15)
    salt = tl.zeros((LANES,), tl.uint32) + tl.load(look + OWN_SEED).to(tl.uint32)
    key = key ^ (salt * SEED)
    key = (key ^ (key >> 16)) * MIX_1
    key = (key ^ (key >> 15)) * MIX_2
    key = key ^ (key >> 16)
    most, factor = tl.load(look + MOST), tl.load(look + FACTOR)
    hashed = (key.to(tl.int64) * factor) & most
    line = tl.minimum(value.to(tl.int64), most) * factor + tl.load(look + CONSTANT)
    number = tl.where(tl.load(look + IS_HASHED) != 0, hashed, line)
    number = tl.where(is_there, number, tl.load(look + SILENT_NUMBER))
    tl.store(numbers + tl.program_id(1).to(tl.int64) * n_places + place, number, mask=is_node)


@triton.jit(do_not_specialize=NUMBERS, do_not_specialize_on_alignment=["out"])
def pair_kernel(
    numbers: tl.tensor, weights: tl.tensor, of_one: tl.tensor, guides: tl.tensor,
    lengths: tl.tensor, codes: tl.tensor, buckets: tl.tensor, groups: tl.tensor, out: tl.tensor,
    parts: tl.tensor, n_nodes: tl.tensor, n_places: tl.tensor, n_groups: tl.tensor,
    n_between: tl.tensor, n_buckets: tl.tensor, last_bucket: tl.tensor, size: tl.tensor,
    dense: tl.tensor, IS_POWER: tl.constexpr, LANES: tl.constexpr,
) -> None:  # fmt: skip
    """LANES cells of out (B, N, columns) of one sentence, see `PairSums`.

    of_one: (2, B, N, C) sums of word families, by role, or None. size: the mask of rows, or lines.
    """
    n_columns = tl.where(parts == NODES, n_nodes, 2 * n_buckets)
    n_chunks = tl.cdiv(n_nodes * n_columns, LANES)
    b = (tl.program_id(0) // n_chunks).to(tl.int64)
    cell = tl.program_id(0) % n_chunks * LANES + tl.arange(0, LANES)
    x, y = cell // n_columns, cell % n_columns
    h = tl.where(parts == ROOT_AND_NODE, 0, x)
    m = tl.where(parts == NODES, y, tl.where(parts == ROOT_AND_NODE, x, 0))
    n = tl.load(lengths + b).to(tl.int32)
    is_part = (x <= n) & ((parts != NODES) | ((m > 0) & (m <= n) & (h != m)))
    c = tl.where(parts == NODES, _combination(m - h, buckets, n_buckets, last_bucket), y)
    root = b * n_nodes
    if guides is not None:
        is_part = is_part & (tl.load(guides + root + m, mask=is_part, other=0) == h + 1)
    total = tl.zeros((LANES,), out.dtype.element_ty)
    if of_one is not None:
        total += tl.load(of_one + (root + h) * (2 * n_buckets) + c, mask=is_part, other=0)
        place = (n_places + root + m) * (2 * n_buckets) + c
        total += tl.load(of_one + place, mask=is_part, other=0)
    head, modifier = numbers + root + h, numbers + n_places + root + m
    for g in range(n_groups):
        first, second = _codes(codes, groups + 4 * g, c, 2 * n_buckets)
        begin, end = tl.load(groups + 4 * g + 2), tl.load(groups + 4 * g + 3)
        for look in tl.range(begin, end, 2, loop_unroll_factor=4):
            at = look * n_places
            key = tl.load(head + at, mask=is_part, other=0)
            key = key ^ tl.load(modifier + at, mask=is_part, other=0)
            fires = is_part & (key >> 32 == 0)
            if IS_POWER:
                row = key & size
            else:
                row = (key * size >> 32) * LINE + (key & (LINE - 1))
            total += _weight(weights, row, first, fires, out)
            total += _weight(weights, row, second, fires, out)
    for y in range(n_between):
        first, second = _codes(codes, groups + 4 * (n_groups + y), c, 2 * n_buckets)
        at = tl.load(groups + 4 * (n_groups + y) + 2) * n_places
        line = dense + tl.load(head + at, mask=is_part, other=0)
        line = line + tl.load(modifier + at, mask=is_part, other=0)
        for k in tl.range(1, n, loop_unroll_factor=4):
            row = line + tl.load(numbers + at + 2 * n_places + root + k)
            fires = is_part & (row < SILENT) & (k > tl.minimum(h, m)) & (k < tl.maximum(h, m))
            total += _weight(weights, row, first, fires, out)
            total += _weight(weights, row, second, fires, out)
    tl.store(out + root * n_columns + cell, total, mask=cell < n_nodes * n_columns)


@triton.jit(do_not_specialize=NUMBERS)
def triple_kernel(
    numbers: tl.tensor, weights: tl.tensor, pairs: tl.tensor, alone: tl.tensor, lengths: tl.tensor,
    codes: tl.tensor, buckets: tl.tensor, triples: tl.tensor, out: tl.tensor, n_nodes: tl.tensor,
    n_places: tl.tensor, n_triples: tl.tensor, n_buckets: tl.tensor, last_bucket: tl.tensor,
    dense: tl.tensor, LANES: tl.constexpr,
) -> None:  # fmt: skip
    """LANES cells (m, s) of one head h of out (B, N, N, N), see `_with_triples`.

    pairs: (B, N, N) of the inner sibling and the modifier. alone: (B, N, C) of the modifier without
    an inner sibling.
    """
    n_chunks = tl.cdiv(n_nodes * n_nodes, LANES)
    place_of_h = (tl.program_id(0) // n_chunks).to(tl.int64)
    b, h = place_of_h // n_nodes, place_of_h % n_nodes
    cell = tl.program_id(0) % n_chunks * LANES + tl.arange(0, LANES)
    m, s = cell // n_nodes, cell % n_nodes
    is_alone, root = s == h, b * n_nodes
    is_part = is_alone | ((s > tl.minimum(h, m)) & (s < tl.maximum(h, m)))
    n = tl.load(lengths + b)
    is_part = is_part & (h <= n) & (m > 0) & (m <= n) & (m != h)
    c = _combination(m - s, buckets, n_buckets, last_bucket)
    place = (root + m) * (2 * n_buckets) + c
    total = tl.load(alone + place, mask=is_part & is_alone, other=0)
    total += tl.load(pairs + (root + s) * n_nodes + m, mask=is_part & (s != h), other=0)
    inner = tl.where(is_alone, 0, s)  # the root stands for a sibling that is absent
    for z in range(n_triples):
        first, second = _codes(codes, triples + 3 * z, c, 2 * n_buckets)
        of_head = numbers + tl.cast(3 * z, tl.int64) * n_places + root
        place = tl.load(of_head + h) ^ tl.load(of_head + n_places + inner, mask=is_part, other=0)
        place = place ^ tl.load(of_head + 2 * n_places + m, mask=is_part, other=0)
        # The first line is where words without a value are sent.
        fires = is_part & (place >= LINE) & (place < SILENT)
        row = dense + tl.load(triples + 3 * z + 2) + place
        total += _weight(weights, row, first, fires, pairs)
        total += _weight(weights, row, second, fires, pairs)
    at = out + place_of_h * n_nodes * n_nodes + cell
    tl.store(at, total.to(out.dtype.element_ty), mask=cell < n_nodes * n_nodes)


@triton.jit
def _combination(
    gap: tl.tensor, buckets: tl.tensor, n_buckets: tl.tensor, last_bucket: tl.tensor
) -> tl.tensor:
    """The combination of direction and distance of differences of positions."""
    bucket = tl.load(buckets + tl.minimum(tl.maximum(tl.abs(gap), 1) - 1, last_bucket))
    return bucket + tl.where(gap < 0, n_buckets, 0)


@triton.jit
def _codes(
    codes: tl.tensor, tables: tl.tensor, c: tl.tensor, n_combinations: tl.tensor
) -> tuple[tl.tensor, tl.tensor]:
    """The codes of two tables for a combination; -1 if there is no second table."""
    first, second = tl.load(tables), tl.load(tables + 1)
    of_second = tl.load(codes + second * n_combinations + c, mask=second >= 0, other=-1)
    return tl.load(codes + first * n_combinations + c), of_second


@triton.jit
def _weight(
    weights: tl.tensor, row: tl.tensor, code: tl.tensor, fires: tl.tensor, sums: tl.tensor
) -> tl.tensor:
    """The weights of features as numbers of the type that `sums` has; 0 where none fires."""
    found = tl.load(weights + (row ^ code), mask=fires & (code >= 0), other=0)
    return found.to(sums.dtype.element_ty)
