"""Arc scores on the GPU: Triton kernels that hash, gather and sum in one go.

What depends on one word alone is computed once for every place of the batch: the two parts of each
pair family's keys, and the sums of the word families. An arc then costs one XOR and one or two
gathers for each pair family, and as many for each word in between. One program scores the arcs of
one head, modifiers in its lanes, several families at a time so that their gathers are all under way
before the first is waited for.
"""

from typing import NamedTuple

import numpy as np
import torch
import triton
import triton.language as tl
from torch import Tensor

from gpuparse.data.batch import ROOT
from gpuparse.features.plan import HEAD, LINE, ArcPlan
from gpuparse.inference.triton.launch import WARP, as_laid_out, on_device
from gpuparse.scoring.tensors import table_of
from gpuparse.scoring.triton.keys import (
    POWER,
    DeviceMap,
    device_map,
    find_base,
    is_off,
    part_of,
    side_key,
)
from gpuparse.scoring.weights import FeatureMap, Weights

AT_ONCE = 4  # families whose gathers are under way together
PLACES = 32  # places that one program computes the parts of
_LINE = tl.constexpr(LINE)
_ROOT = tl.constexpr(ROOT)


class ArcTables(NamedTuple):
    """An ArcPlan on a device. F pair families and W word families.

    Pair families are sorted by their code tables, and each group of the same tables is made up to a
    multiple of AT_ONCE by families that never fire.
    """

    atoms: Tensor  # (A, 2) int32: row, offset
    parts: Tensor  # (2F, 3) int64: first atom, last atom + 1, salt of the hash or seed
    words: Tensor  # (W, 5) int64: as parts, and both code tables, those of heads first
    n_head_words: int
    groups: Tensor  # (G, 4) int32: first family, last family + 1, code tables
    between: Tensor  # (Y, 9) int32: atom of head and modifier or -1, row, sizes, line, code tables
    codes: Tensor  # (K, C) int32
    buckets: Tensor  # (L,) int32
    n_buckets: int
    map: DeviceMap


class PlaceSums(NamedTuple):
    """What depends on one place of a batch alone."""

    parts: Tensor  # (2F, T) parts of the keys, of heads and then of modifiers; negative: silent
    words: Tensor  # (2, T, C) sums of the word families


def arc_tables(plan: ArcPlan, features: FeatureMap, device: torch.device) -> ArcTables:
    """Put a plan onto a device."""
    groups, families = _groups(plan)
    parts = [_part(plan, family, role) for role in ("head", "modifier") for family in families]
    order = np.argsort(plan.word["role"], kind="stable")
    words = [
        (*_atoms(plan, w["side"]), 2 * int(w["seed"]), w["first_codes"], w["second_codes"])
        for w in plan.word[order]
    ]
    between = [
        (
            _single_atom(plan, y["head_side"]), _single_atom(plan, y["modifier_side"]), y["row"],
            y["n_heads"], y["n_middles"], y["n_modifiers"], y["line"], y["first_codes"],
            y["second_codes"],
        )
        for y in plan.between
    ]  # fmt: skip
    atoms = [tuple(atom) for atom in plan.atoms.tolist()]

    def table(rows: list, width: int, dtype: torch.dtype) -> Tensor:
        return torch.tensor(rows, dtype=torch.int64).reshape(-1, width).to(device, dtype)

    return ArcTables(
        table(atoms, 2, torch.int32),
        table(parts, 3, torch.int64),
        table(words, 5, torch.int64),
        int((plan.word["role"] == HEAD).sum()),
        table(groups, 4, torch.int32),
        table(between, 9, torch.int32),
        torch.from_numpy(plan.codes.astype(np.int32)).to(device),
        torch.from_numpy(plan.buckets.astype(np.int32)).to(device),
        plan.n_buckets,
        device_map(features),
    )


def _groups(plan: ArcPlan) -> tuple[list[tuple[int, int, int, int]], list[int]]:
    """The groups of pair families, and the family at each place of them, -1 for none."""
    groups: list[tuple[int, int, int, int]] = []
    families: list[int] = []
    tables = np.stack([plan.pair["first_codes"], plan.pair["second_codes"]], 1)
    for first, second in np.unique(tables, axis=0).tolist():
        members = np.flatnonzero((tables == (first, second)).all(1)).tolist()
        begin = len(families)
        families += members + [-1] * (-len(members) % AT_ONCE)
        groups.append((begin, len(families), first, second))
    return groups, families


def _part(plan: ArcPlan, family: int, role: str) -> tuple[int, int, int]:
    if family < 0:
        return -1, -1, 0
    record = plan.pair[family]
    salt = 2 * int(record["seed"]) + (0 if role == "head" else 1)
    return *_atoms(plan, record[f"{role}_side"]), salt


def _atoms(plan: ArcPlan, side: int) -> tuple[int, int]:
    return int(plan.side_start[side]), int(plan.side_start[side + 1])


def _single_atom(plan: ArcPlan, side: int) -> int:
    first, last = _atoms(plan, side)
    return first if first < last else -1


def place_sums(
    values: Tensor, tables: ArcTables, weights: Weights, *, lone_root: bool = False
) -> PlaceSums:
    """Compute what depends on one place alone.

    Args:
        values: (C, T) int32 of a batch, on the device.
        lone_root: whether the neighbours of a root have no value, as for siblings.
    """
    (values,) = as_laid_out(values)
    n_places, table = values.shape[1], table_of(weights, values.device)
    shape = 2, n_places, tables.codes.shape[1]
    words = torch.empty(shape, dtype=sum_type(weights), device=values.device)
    if n_places:
        with on_device(values.device):
            _sum_words[triton.cdiv(n_places, PLACES), 2](
                values, n_places, tables.atoms, tables.words, tables.n_head_words,
                len(tables.words), tables.codes, tables.codes.shape[1], table, words,
                *tables.map.search, tables.map.kind, lone_root, PLACES,
                triton.next_power_of_2(tables.codes.shape[1]), num_warps=1,
            )  # fmt: skip
    return PlaceSums(place_parts(values, tables, lone_root=lone_root), words)


def place_parts(values: Tensor, tables: ArcTables, *, lone_root: bool = False) -> Tensor:
    """(2F, T) the parts of every pair family's keys at every place, as in PlaceSums."""
    (values,) = as_laid_out(values)
    n_places, kind = values.shape[1], tables.map.kind
    dtype = torch.int32 if kind == POWER else torch.int64
    parts = torch.empty((len(tables.parts), n_places), dtype=dtype, device=values.device)
    if parts.numel():
        with on_device(values.device):
            _fill_parts[triton.cdiv(n_places, PLACES), len(parts)](
                values, n_places, tables.atoms, tables.parts, parts, tables.map.mask,
                kind, lone_root, PLACES, num_warps=1,
            )  # fmt: skip
    return parts


def sum_type(weights: Weights) -> torch.dtype:
    """The type in which weights are summed."""
    return torch.int32 if weights.is_integer else torch.float32


def score_type(weights: Weights) -> torch.dtype:
    """The type of scores: every sum of whole numbers is exact in it."""
    return torch.float64 if weights.is_integer else torch.float32


def score_arcs(
    values: Tensor,
    starts: Tensor,
    lengths: Tensor,
    n_nodes: int,
    tables: ArcTables,
    sums: PlaceSums,
    weights: Weights,
) -> Tensor:
    """Scores of all arcs, (B, N, N) with N = n_nodes; cells of no arc hold anything."""
    shape = len(lengths), n_nodes, n_nodes
    out = torch.empty(shape, dtype=score_type(weights), device=values.device)
    if out.numel() == 0:
        return out
    values, starts, lengths = as_laid_out(values, starts, lengths)
    # A lane holds all families of its arc: floats are summed in one order, whatever N is.
    block = min(128, max(WARP, triton.next_power_of_2(n_nodes - 1)))
    with on_device(values.device):
        _score_arcs[shape[:2]](
            values, starts, lengths, values.shape[1], n_nodes, sums.parts, len(sums.parts) // 2,
            sums.words, tables.codes, tables.codes.shape[1], tables.groups, len(tables.groups),
            tables.between, len(tables.between), tables.atoms, tables.buckets,
            len(tables.buckets) - 1, tables.n_buckets, table_of(weights, values.device), out,
            tables.map.dense, *tables.map.search, tables.map.kind, AT_ONCE, block,
            num_warps=block // WARP,
        )  # fmt: skip
    return out


@triton.jit(do_not_specialize=["n_places"])
def _fill_parts(
    values, n_places, atoms, parts, out, mask,
    KIND: tl.constexpr, LONE_ROOT: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """out[p, t] = part p of the key at place t."""
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    p = tl.program_id(1)
    first, last, salt = (
        tl.load(parts + 3 * p),
        tl.load(parts + 3 * p + 1),
        tl.load(parts + 3 * p + 2),
    )
    key, on = side_key(values, n_places, place, atoms, first, last, LONE_ROOT)
    part = part_of(key, on & (first >= 0), salt, mask, KIND)
    tl.store(out + p.to(tl.int64) * n_places + place, part, mask=place < n_places)


@triton.jit(do_not_specialize=["n_places"])
def _sum_words(
    values, n_places, atoms, words, n_head_words, n_words, codes, n_codes, weights, out,
    mask, n_lines,
    KIND: tl.constexpr, LONE_ROOT: tl.constexpr, BLOCK: tl.constexpr, CODES: tl.constexpr,
):  # fmt: skip
    """out[role, t, c] = sum of the role's word families at place t for the combination c."""
    role = tl.program_id(1)
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    c = tl.arange(0, CODES)
    total = tl.zeros([BLOCK, CODES], dtype=out.dtype.element_ty)
    begin = tl.where(role == 0, 0, n_head_words)
    end = tl.where(role == 0, n_head_words, n_words)
    for w in range(begin, end):
        record = words + 5 * w
        first, last, salt = tl.load(record), tl.load(record + 1), tl.load(record + 2)
        key, on = side_key(values, n_places, place, atoms, first, last, LONE_ROOT)
        part = part_of(key, on, salt, mask, KIND)
        base = find_base(part, n_lines, KIND)
        is_cell = (~is_off(part))[:, None] & (c < n_codes)[None, :]
        for suffix in range(3, 5):
            table = tl.load(record + suffix)
            if table >= 0:
                code = tl.load(codes + table * n_codes + c, mask=c < n_codes, other=0)
                row = base[:, None] ^ code[None, :]
                total += tl.load(weights + row, mask=is_cell, other=0).to(total.dtype)
    cell = (role * n_places + place).to(tl.int64)[:, None] * n_codes + c[None, :]
    tl.store(out + cell, total, mask=(place < n_places)[:, None] & (c < n_codes)[None, :])


@triton.jit
def combination_of(gap, buckets, last_bucket, n_buckets):
    """The combination of direction and distance of differences of positions, modifier - head."""
    distance = tl.minimum(tl.maximum(tl.abs(gap), 1) - 1, last_bucket)
    return tl.load(buckets + distance) + tl.where(gap < 0, n_buckets, 0)


@triton.jit(do_not_specialize=["n_places", "n_nodes"])
def _score_arcs(
    values, starts, lengths, n_places, n_nodes, parts, n_families, words, codes, n_codes, groups,
    n_groups, between, n_between, atoms, buckets, last_bucket, n_buckets, weights, out, dense,
    mask, n_lines,
    KIND: tl.constexpr, AT_ONCE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """out[b, h, 1 : n + 1] for the sentence b and the head h of this program."""
    SUM: tl.constexpr = words.dtype.element_ty
    b, h = tl.program_id(0), tl.program_id(1)
    n = tl.load(lengths + b).to(tl.int32)
    start = tl.load(starts + b)
    for first_modifier in range(1, tl.where(h <= n, n + 1, 0), BLOCK):
        m = first_modifier + tl.arange(0, BLOCK)
        is_word = m <= n
        combination = combination_of(m - h, buckets, last_bucket, n_buckets)
        total = tl.zeros([AT_ONCE, BLOCK], dtype=SUM)
        for g in range(n_groups):
            begin, end = tl.load(groups + 4 * g), tl.load(groups + 4 * g + 1)
            one, two = tl.load(groups + 4 * g + 2), tl.load(groups + 4 * g + 3)
            code = tl.load(codes + one * n_codes + combination)[None, :]
            more = tl.load(codes + tl.maximum(two, 0) * n_codes + combination)[None, :]
            for f in range(begin, end, AT_ONCE):
                family = (f + tl.arange(0, AT_ONCE)).to(tl.int64)
                head = tl.load(parts + family * n_places + start + h)[:, None]
                cell = (n_families + family)[:, None] * n_places + start + m[None, :]
                modifier = tl.load(parts + cell, mask=is_word[None, :], other=-1)
                on = ~is_off(head | modifier)
                base = find_base(head ^ modifier, n_lines, KIND)
                total += tl.load(weights + (base ^ code), mask=on, other=0).to(SUM)
                if two >= 0:
                    total += tl.load(weights + (base ^ more), mask=on, other=0).to(SUM)
        for y in range(n_between):
            record = between + 9 * y
            head, head_on = _between_value(
                values, n_places, start + h, True, atoms, tl.load(record), tl.load(record + 3)
            )
            modifier, modifier_on = _between_value(
                values, n_places, start + m, is_word, atoms, tl.load(record + 1),
                tl.load(record + 5),
            )  # fmt: skip
            row, n_middles = tl.load(record + 2).to(tl.int64), tl.load(record + 4)
            one, two = tl.load(record + 7), tl.load(record + 8)
            code = tl.load(codes + one * n_codes + combination)[None, :]
            more = tl.load(codes + tl.maximum(two, 0) * n_codes + combination)[None, :]
            low, high = tl.minimum(h, m)[None, :], tl.maximum(h, m)[None, :]
            for first_middle in range(1, n, AT_ONCE):
                k = (first_middle + tl.arange(0, AT_ONCE))[:, None]
                middle = tl.load(values + row * n_places + start + k, mask=k < n, other=0)
                on = (low < k) & (k < high) & (middle != 0) & modifier_on[None, :] & head_on
                middle = tl.minimum(middle, n_middles - 1)
                line = (head * n_middles + middle) * tl.load(record + 5) + modifier[None, :]
                base = dense + (tl.load(record + 6) + line) * _LINE
                total += tl.load(weights + (base ^ code), mask=on, other=0).to(SUM)
                if two >= 0:
                    total += tl.load(weights + (base ^ more), mask=on, other=0).to(SUM)
        score = tl.sum(total, axis=0)
        score += tl.load(words + (start + h) * n_codes + combination)
        of_modifier = words + (n_places + start + m) * n_codes + combination
        score += tl.load(of_modifier, mask=is_word, other=0)
        arc = (b.to(tl.int64) * n_nodes + h) * n_nodes + m
        tl.store(out + arc, score.to(out.dtype.element_ty), mask=is_word)


@triton.jit
def _between_value(values, n_places, place, inside, atoms, atom, most):
    """What a between family reads of words, 0 for no atom, and whether there is a value."""
    row, offset = (
        tl.load(atoms + 2 * tl.maximum(atom, 0)),
        tl.load(atoms + 2 * tl.maximum(atom, 0) + 1),
    )
    value = tl.load(
        values + row.to(tl.int64) * n_places + place + offset, mask=inside & (atom >= 0), other=0
    )
    return tl.minimum(value, most - 1), inside & ((value != 0) | (atom < 0))
