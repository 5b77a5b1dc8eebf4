"""Sibling and end scores on the GPU: Triton kernels beside those of arcs."""

from typing import NamedTuple

import numpy as np
import torch
import triton
import triton.language as tl
from torch import Tensor

from gpuparse.features.plan import LINE, SiblingPlan
from gpuparse.inference.triton.launch import as_laid_out, on_device
from gpuparse.scoring.tensors import table_of
from gpuparse.scoring.triton.arcs import (
    ArcTables,
    PlaceSums,
    arc_tables,
    combination_of,
    place_sums,
    score_arcs,
    score_type,
)
from gpuparse.scoring.triton.keys import find_base, fold, is_off, mix
from gpuparse.scoring.weights import FeatureMap, Weights

AT_ONCE = 4  # modifiers whose sibling scores one program computes together
PLACES = 128  # places that one program hashes
FAMILIES = 16  # pair families that one program reads at a time
_LINE = tl.constexpr(LINE)


class SiblingTables(NamedTuple):
    """A SiblingPlan on a device; Z triple families."""

    pairs: ArcTables
    ends: ArcTables
    has_ends: bool
    roles: Tensor  # (Z, 3, 3) int32: row, shift (-1: hashed) and salt of head, sibling, modifier
    triples: Tensor  # (Z, 5) int32: line, cells, slots, code tables


class SiblingSums(NamedTuple):
    """What depends on one place of a batch alone."""

    pairs: PlaceSums
    ends: PlaceSums
    places: Tensor  # (Z, 3, T) int32: what each role adds to a triple's cell; -1 without a value


def sibling_tables(plan: SiblingPlan, features: FeatureMap, device: torch.device) -> SiblingTables:
    """Put a plan onto a device."""
    roles = [
        [
            [z[f"{role}_row"], -1 if z["is_hashed"] else z[f"{role}_shift"], 3 * z["seed"] + number]
            for number, role in enumerate(("head", "sibling", "modifier"))
        ]
        for z in plan.triple
    ]
    triples = [
        [z["line"], z["cells"], z["slots"], z["first_codes"], z["second_codes"]]
        for z in plan.triple
    ]
    return SiblingTables(
        arc_tables(plan.pairs, features, device),
        arc_tables(plan.ends, features, device),
        len(plan.ends.word) + len(plan.ends.pair) > 0,
        torch.from_numpy(np.array(roles, np.int32).reshape(-1, 3, 3)).to(device),
        torch.from_numpy(np.array(triples, np.int32).reshape(-1, 5)).to(device),
    )


def sibling_sums(values: Tensor, tables: SiblingTables, weights: Weights) -> SiblingSums:
    """Compute what depends on one place alone; values: (C, T) int32 on the device."""
    (values,) = as_laid_out(values)
    n_places, n_triples = values.shape[1], len(tables.triples)
    shape = n_triples, 3, n_places
    places = torch.empty(shape, dtype=torch.int32, device=values.device)
    if places.numel():
        with on_device(values.device):
            _fill_places[triton.cdiv(n_places, PLACES), n_triples](
                values, n_places, tables.roles, tables.triples, places, PLACES, num_warps=4
            )
    return SiblingSums(
        place_sums(values, tables.pairs, weights, lone_root=True),
        place_sums(values, tables.ends, weights),
        places,
    )


def score_siblings(
    values: Tensor,
    starts: Tensor,
    lengths: Tensor,
    n_nodes: int,
    tables: SiblingTables,
    sums: SiblingSums,
    weights: Weights,
) -> tuple[Tensor, Tensor]:
    """Sibling scores (B, N, N, N) and end scores (B, N, N), N = n_nodes; other cells: anything."""
    values, starts, lengths = as_laid_out(values, starts, lengths)
    sentences = values, starts, lengths, n_nodes
    ends = score_arcs(*sentences, tables.ends, sums.ends, weights)
    if tables.has_ends:
        # [b, h, 1, c]: the root stands for the modifier that is not there
        none = _alone(*sentences, tables.ends, sums.ends, weights, is_head_root=False)
        nodes = torch.arange(n_nodes, device=values.device)
        left = none[:, :, tables.ends.n_buckets].unsqueeze(2)
        ends -= torch.where(nodes.unsqueeze(1) < nodes, none[:, :, :1], left)
    else:
        ends.zero_()
    # [b, s, m] of two siblings; [b, m, c] of a modifier without one
    pairs = score_arcs(*sentences, tables.pairs, sums.pairs, weights)
    alone = _alone(*sentences, tables.pairs, sums.pairs, weights, is_head_root=True)
    shape = len(lengths), n_nodes, n_nodes, n_nodes
    out = torch.empty(shape, dtype=score_type(weights), device=values.device)
    if out.numel():
        block = min(128, max(16, triton.next_power_of_2(n_nodes)))
        of_two = tables.pairs
        with on_device(values.device):
            _score_triples[shape[:2]](
                starts, lengths, values.shape[1], n_nodes, pairs, alone, sums.places,
                tables.triples, len(tables.triples), of_two.codes, of_two.codes.shape[1],
                of_two.buckets, len(of_two.buckets) - 1, of_two.n_buckets,
                table_of(weights, values.device), out, of_two.map.dense, AT_ONCE, block,
                num_warps=max(1, block // 32),
            )  # fmt: skip
    return out, ends


def _alone(
    values: Tensor,
    starts: Tensor,
    lengths: Tensor,
    n_nodes: int,
    tables: ArcTables,
    sums: PlaceSums,
    weights: Weights,
    *,
    is_head_root: bool,
) -> Tensor:
    """(B, N, C) scores of every node with the root as its head, or as its modifier."""
    n_codes = tables.codes.shape[1]
    shape = len(lengths), n_nodes, n_codes
    out = torch.empty(shape, dtype=score_type(weights), device=values.device)
    if out.numel():
        with on_device(values.device):
            _score_alone[shape[:2]](
                starts, lengths, values.shape[1], n_nodes, sums.parts, len(sums.parts) // 2,
                sums.words, tables.codes, n_codes, tables.groups, len(tables.groups),
                table_of(weights, values.device), out, *tables.map.search, tables.map.kind,
                is_head_root, FAMILIES, triton.next_power_of_2(n_codes), num_warps=1,
            )  # fmt: skip
    return out


@triton.jit(do_not_specialize=["n_places"])
def _fill_places(values, n_places, roles, triples, out, BLOCK: tl.constexpr):
    """out[z, role, t] = what the value at place t adds to the cell of a triple of family z."""
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    z = tl.program_id(1)
    cells, slots = tl.load(triples + 5 * z + 1), tl.load(triples + 5 * z + 2)
    for role in range(3):
        record = roles + 9 * z + 3 * role
        row, shift, salt = tl.load(record).to(tl.int64), tl.load(record + 1), tl.load(record + 2)
        value = tl.load(values + row * n_places + place, mask=place < n_places, other=0)
        key = mix(fold(tl.zeros_like(value).to(tl.uint32), value.to(tl.uint32)), salt.to(tl.uint32))
        hashed = (key.to(tl.int64) * slots & (cells - 1)).to(tl.int32)
        cell = tl.where(shift < 0, hashed, value << tl.maximum(shift, 0))
        cell = tl.where(value != 0, cell, -1)
        tl.store(out + (3 * z + role).to(tl.int64) * n_places + place, cell, mask=place < n_places)


@triton.jit(do_not_specialize=["n_places", "n_nodes"])
def _score_alone(
    starts, lengths, n_places, n_nodes, parts, n_families, words, codes, n_codes, groups, n_groups,
    weights, out, mask, n_lines,
    KIND: tl.constexpr, IS_HEAD_ROOT: tl.constexpr, FAMILIES: tl.constexpr, CODES: tl.constexpr,
):  # fmt: skip
    """out[b, i, c] = score of the root and node i for every combination c."""
    b, i = tl.program_id(0), tl.program_id(1)
    c = tl.arange(0, CODES)
    is_code = c < n_codes
    start = tl.load(starts + b)
    if i <= tl.load(lengths + b):
        head = start if IS_HEAD_ROOT else start + i
        modifier = start + i if IS_HEAD_ROOT else start
        total = tl.load(words + head * n_codes + c, mask=is_code, other=0)
        total += tl.load(words + (n_places + modifier) * n_codes + c, mask=is_code, other=0)
        for g in range(n_groups):
            begin, end = tl.load(groups + 4 * g), tl.load(groups + 4 * g + 1)
            for f in range(begin, end, FAMILIES):
                family = (f + tl.arange(0, FAMILIES)).to(tl.int64)
                inside = family < end
                of_head = tl.load(parts + family * n_places + head, mask=inside, other=-1)
                of_modifier = tl.load(
                    parts + (n_families + family) * n_places + modifier, mask=inside, other=-1
                )
                on = ~is_off(of_head | of_modifier)
                base = find_base(of_head ^ of_modifier, n_lines, KIND)
                for suffix in range(2, 4):
                    table = tl.load(groups + 4 * g + suffix)
                    if table >= 0:
                        code = tl.load(codes + table * n_codes + c, mask=is_code, other=0)
                        row = base[:, None] ^ code[None, :]
                        weight = tl.load(
                            weights + row, mask=on[:, None] & is_code[None, :], other=0
                        )
                        total += tl.sum(weight.to(total.dtype), axis=0)
        cell = (b.to(tl.int64) * n_nodes + i) * n_codes + c
        tl.store(out + cell, total.to(out.dtype.element_ty), mask=is_code)


@triton.jit(do_not_specialize=["n_places", "n_nodes"])
def _score_triples(
    starts, lengths, n_places, n_nodes, pairs, alone, places, triples, n_triples, codes, n_codes,
    buckets, last_bucket, n_buckets, weights, out, dense,
    AT_ONCE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """out[b, h, m, s] for the sentence b and the head h of this program, siblings in the lanes."""
    b, h = tl.program_id(0), tl.program_id(1)
    n = tl.load(lengths + b).to(tl.int32)
    start = tl.load(starts + b)
    sentence = b.to(tl.int64) * n_nodes
    for first_modifier in range(1, tl.where(h <= n, n + 1, 0), AT_ONCE):
        m = first_modifier + tl.arange(0, AT_ONCE)[:, None]
        for first_sibling in range(0, n + 1, BLOCK):
            s = first_sibling + tl.arange(0, BLOCK)[None, :]
            is_none = s == h
            is_inner = (tl.minimum(h, m) < s) & (s < tl.maximum(h, m))
            is_part = (is_none | is_inner) & (m <= n) & (m != h) & (s <= n)
            combination = combination_of(m - s, buckets, last_bucket, n_buckets)
            of_two = tl.load(pairs + (sentence + s) * n_nodes + m, mask=is_part & is_inner, other=0)
            of_one = tl.load(
                alone + (sentence + m) * n_codes + combination, mask=is_part & is_none, other=0
            )
            total = tl.zeros([AT_ONCE, BLOCK], dtype=tl.int32)
            if weights.dtype.element_ty == tl.float32:
                total = tl.zeros([AT_ONCE, BLOCK], dtype=tl.float32)
            for z in range(n_triples):
                of_family = places + 3 * z * n_places.to(tl.int64) + start
                inner = tl.where(is_none, 0, s)
                cell = tl.load(of_family + h)
                cell = cell | tl.zeros_like(s)
                sibling = tl.load(of_family + n_places + inner, mask=is_part, other=-1)
                modifier = tl.load(of_family + 2 * n_places + m, mask=m <= n, other=-1)
                on = is_part & ((cell | sibling | modifier) >= 0)
                cell = cell ^ sibling ^ modifier
                # Words without a value are sent to the first line, which has no other use.
                on = on & (cell >= _LINE)
                base = dense + tl.load(triples + 5 * z) * _LINE + cell
                for suffix in range(3, 5):
                    table = tl.load(triples + 5 * z + suffix)
                    if table >= 0:
                        code = tl.load(codes + table * n_codes + combination)
                        total += tl.load(weights + (base ^ code), mask=on, other=0).to(total.dtype)
            score = of_two + of_one + total.to(out.dtype.element_ty)
            place = ((sentence + h) * n_nodes + m) * n_nodes + s
            tl.store(out + place, score, mask=is_part)
