"""Sums over projective trees in Triton, first order and sibling parts: one sentence per program.

Charts and barriers are those of eisner.py; all numbers are float64. A tile is some splits of some
starts; its sums over the splits are added up when all are done. Inside, sums of exponentials stand
for maxima. Beside each goes the entropy of its derivations, all of whose terms are positive.
Outside, from the widest spans to the narrowest, each item gathers its probability from the items
above it: the share of its derivations in theirs. Beside an item is then kept the logarithm of its
probability less its inside value; an item below adds its own inside value, and that of the item
next to it.
"""

import torch
import triton
import triton.language as tl

from gpuparse.inference.scores import largest_into_words
from gpuparse.inference.triton.eisner import C_L, C_R, E_L, E_R, I_L, I_R, S
from gpuparse.inference.triton.launch import WARP, chart_scratch, on_device, require_countable

ABSENT = tl.constexpr(-1e300)  # the logarithm of no tree: -inf would make differences NaN
PRESENT = tl.constexpr(-5e299)  # less than the logarithm of any tree
LOWEST = tl.constexpr(-1e305)  # less than all products of ABSENT
NEVER = tl.constexpr(float("-inf"))  # the logarithm of no probability
# Inside planes by whether there are siblings; S is kept in both orders. As many follow: what is
# kept beside them.
PLANES = tl.constexpr((5, 7))
THREADS = 256  # of a program; there are as many splits of a start at once as they allow


def sum_trees(
    lengths: torch.Tensor,
    *parts: torch.Tensor,
    single_root: bool,
    n_marginals: int = 0,
    with_entropy: bool = False,
    tile: tuple[int, int] | None = None,
) -> list[torch.Tensor]:
    """Log-partitions (B,), -inf without a tree, and marginals of the first parts, or entropies.

    It does not synchronise.

    Args:
        lengths: int64 (B,). parts: checked float64 scores of arcs, or of arcs, siblings and ends.
        n_marginals: 0, 1 for those of arcs, or the number of parts.
        with_entropy: entropies (B,) follow, NaN without a tree, and no marginals.
        tile: splits and starts that a program computes at once; None: chosen by N.
    Raises: ScoreError: more positions than the kernels can count.
    Cost: O(n^3) time, O(n^2) memory per program beside scores and marginals.
    """
    arcs, n_nodes, order = parts[0], parts[0].shape[1], int(len(parts) > 1)
    require_countable(n_nodes)
    tops = largest_into_words(arcs, lengths)
    sums = arcs.new_zeros((2, len(arcs)))
    marginals = [arcs.new_zeros(part.shape) for part in parts[:n_marginals]]
    if len(arcs) > 0 and n_nodes > 1:
        scratch = chart_scratch(arcs, 2 * PLANES.value[order], 0, 0, tile and tile[1])
        splits = tile[0] if tile else THREADS // scratch.lanes
        given = [(arcs - tops[:, None]).contiguous(), *(part.contiguous() for part in parts[1:])]
        with on_device(arcs.device):
            eisner_sums_kernel[(scratch.n_programs,)](
                *(given if order else 3 * given),
                lengths.contiguous(),
                sums,
                *marginals,
                *[sums] * (3 - n_marginals),
                scratch.charts,
                len(arcs),
                n_nodes,
                SIBLINGS=order,
                SINGLE_ROOT=single_root,
                MARGINALS=n_marginals,
                ENTROPY=with_entropy,
                STRIDE=scratch.stride,
                SPLITS=splits,
                LANES=scratch.lanes,
                num_warps=max(1, splits * scratch.lanes // WARP),
                num_stages=1,
            )
    log_partitions = sums[0] + tops.sum(1)
    if with_entropy:
        return [log_partitions, sums[1].masked_fill(~(log_partitions > -torch.inf), torch.nan)]
    return [log_partitions, *marginals]


@triton.jit(do_not_specialize=["n_batch", "n_nodes"])
def eisner_sums_kernel(
    arc_scores, sibling_scores, end_scores, lengths, sums, of_arcs, of_siblings, of_ends, charts,
    n_batch, n_nodes, SIBLINGS: tl.constexpr, SINGLE_ROOT: tl.constexpr, MARGINALS: tl.constexpr,
    ENTROPY: tl.constexpr, STRIDE: tl.constexpr, SPLITS: tl.constexpr, LANES: tl.constexpr,
) -> None:  # fmt: skip
    """Sums of the sentences program, program + programs, ...; arguments as in `sum_trees`.

    sums: (2, B), log-partitions and entropies. of_arcs, of_siblings, of_ends: zeros, for marginals.
    charts: (programs, N x 2 x planes x STRIDE).
    """
    ROW: tl.constexpr = 2 * PLANES[SIBLINGS] * STRIDE  # from one width to the next
    charts += tl.program_id(0).to(tl.int64) * (n_nodes * ROW)
    first: tl.constexpr = 1 if SINGLE_ROOT else 0
    for sentence in range(tl.program_id(0), n_batch, tl.num_programs(0)):
        b = tl.cast(sentence, tl.int64)
        n = tl.load(lengths + b).to(tl.int32)
        of_sentence = b * n_nodes * n_nodes
        arcs = arc_scores + of_sentence
        siblings = sibling_scores + of_sentence * n_nodes
        ends = end_scores + of_sentence
        total = tl.zeros((), tl.float64)
        entropy = total
        if n > 0:
            last = n - first
            _fill_inside(
                arcs, siblings, ends, n_nodes, last, charts, first, SIBLINGS, ENTROPY, STRIDE,
                SPLITS, LANES,
            )  # fmt: skip
            if SINGLE_ROOT:
                total, entropy = _sum_roots(
                    arcs, siblings, ends, n_nodes, last, charts, SIBLINGS, ENTROPY, STRIDE, LANES
                )
            else:
                whole = charts + last * ROW + C_R * STRIDE
                total = tl.load(whole)
                if ENTROPY:
                    entropy = tl.load(whole + ROW // 2)
            if MARGINALS > 0 and total > PRESENT:
                _fill_outside(
                    arcs, siblings, ends, of_arcs + of_sentence,
                    of_siblings + of_sentence * n_nodes, of_ends + of_sentence, n_nodes, last,
                    charts, total, first, SIBLINGS, MARGINALS, STRIDE, SPLITS, LANES,
                )  # fmt: skip
            total = tl.where(total < PRESENT, NEVER, total)  # scores that are NaN leave NaN
        tl.store(sums + b, total)
        if ENTROPY:
            tl.store(sums + n_batch + b, entropy)
        tl.debug_barrier()  # the next sentence overwrites the scratch


@triton.jit
def _score(at, is_read):
    """The score of a part, ABSENT for one that is forbidden or not read."""
    score = tl.load(at, mask=is_read, other=ABSENT)
    return tl.where(score < ABSENT, ABSENT, score)


@triton.jit
def _plus(whole, log, entropy, ENTROPY: tl.constexpr):
    """A sum with one more term, whose logarithm and entropy are given.

    A sum is the logarithm of its largest term, the sum of all terms by that one, and in the same
    unit the sum of all terms times their entropies and how far they are below the largest.
    """
    top, count, surprise = whole
    rise = log - top
    share = tl.exp(-tl.abs(rise))
    is_higher = rise > 0
    if ENTROPY:
        raised = share * (surprise + rise * count) + entropy
        surprise = tl.where(is_higher, raised, surprise + share * (entropy - rise))
    count = tl.where(is_higher, count * share + 1, count + share)
    return tl.where(is_higher, log, top), count, surprise


@triton.jit
def _plus_pair(whole, left, right, score, is_term, MORE: tl.constexpr, ENTROPY: tl.constexpr):
    """A sum with one more term, the product of two items and a score."""
    log = tl.load(left, mask=is_term, other=LOWEST) + tl.load(right, mask=is_term, other=0.0)
    entropy = log
    if ENTROPY:
        entropy = tl.load(left + MORE, mask=is_term, other=0.0)
        entropy += tl.load(right + MORE, mask=is_term, other=0.0)
    return _plus(whole, log + score, entropy, ENTROPY)


@triton.jit
def _end_sum(whole, log, entropy, ENTROPY: tl.constexpr):
    """Logarithm and entropy of sums along the first axis, which stays, and one more term."""
    top, count, surprise = whole
    highest = tl.max(top, 0, keep_dims=True)
    share = tl.exp(top - highest)
    if ENTROPY:
        surprise = tl.sum(share * (surprise + (highest - top) * count), 0, keep_dims=True)
    whole = highest, tl.sum(share * count, 0, keep_dims=True), surprise
    top, count, surprise = _plus(whole, log, entropy, ENTROPY)
    count = tl.maximum(count, 1.0)  # less where there is no span
    log = tl.log(count)
    return top + log, surprise / count + log


@triton.jit
def _get(at, is_span, MORE: tl.constexpr, ENTROPY: tl.constexpr):
    """Logarithm and entropy of an item."""
    log = tl.load(at, mask=is_span)
    entropy = log
    if ENTROPY:
        entropy = tl.load(at + MORE, mask=is_span)
    return log, entropy


@triton.jit
def _put(at, log, entropy, is_span, MORE: tl.constexpr, ENTROPY: tl.constexpr) -> None:
    tl.store(at, log, mask=is_span)
    if ENTROPY:
        tl.store(at + MORE, entropy, mask=is_span)


@triton.jit
def _fill_inside(
    arcs, siblings, ends, n_nodes, last, charts, first: tl.constexpr, SIBLINGS: tl.constexpr,
    ENTROPY: tl.constexpr, STRIDE: tl.constexpr, SPLITS: tl.constexpr, LANES: tl.constexpr,
) -> None:  # fmt: skip
    """All sums of the spans over positions first .. first + last, by the rules in eisner.py."""
    MORE: tl.constexpr = PLANES[SIBLINGS] * STRIDE
    ROW: tl.constexpr = 2 * MORE
    OUT_R: tl.constexpr = E_R if SIBLINGS else I_R  # spans of an outermost modifier
    OUT_L: tl.constexpr = E_L if SIBLINGS else I_L
    zero = tl.zeros((SPLITS, LANES), tl.float64)
    lowest = zero + LOWEST
    for start in range(0, last + 1, LANES):
        i = start + tl.arange(0, LANES)
        _put(charts + C_R * STRIDE + i, 0.0, 0.0, i <= last, MORE, ENTROPY)
        _put(charts + C_L * STRIDE + i, 0.0, 0.0, i <= last, MORE, ENTROPY)
    tl.debug_barrier()
    for w in range(1, last + 1):
        for start in range(0, last + 1 - w, LANES):
            i = start + tl.arange(0, LANES)[None, :]
            is_span = i <= last - w
            h = i + first
            is_left = is_span & (h > 0)  # nothing is a head of the root
            at_right, at_left = h * n_nodes + h + w, (h + w) * n_nodes + h
            of_right = siblings + at_right.to(tl.int64) * n_nodes + h
            of_left = siblings + at_left.to(tl.int64) * n_nodes + h
            sum_s = lowest, zero, zero
            sum_c_r, sum_c_l, sum_i_r, sum_i_l = sum_s, sum_s, sum_s, sum_s
            for nearest in range(1, w, SPLITS):
                d = nearest + tl.arange(0, SPLITS)[:, None]
                is_term = is_span & (d < w)
                left = charts + d * ROW + i  # width d, start i
                right = charts + (w - d) * ROW + i + d  # width w - d, start i + d
                one, other = left + C_R * STRIDE, right + (C_L * STRIDE + 1 - ROW)
                sum_s = _plus_pair(sum_s, one, other, 0.0, is_term, MORE, ENTROPY)
                one, other = left + OUT_R * STRIDE, right + C_R * STRIDE
                sum_c_r = _plus_pair(sum_c_r, one, other, 0.0, is_term, MORE, ENTROPY)
                one, other = left + C_L * STRIDE, right + OUT_L * STRIDE
                sum_c_l = _plus_pair(sum_c_l, one, other, 0.0, is_term, MORE, ENTROPY)
                if SIBLINGS:
                    score = _score(of_right + d, is_term)
                    one, other = left + I_R * STRIDE, right + S * STRIDE
                    sum_i_r = _plus_pair(sum_i_r, one, other, score, is_term, MORE, ENTROPY)
                    score = _score(of_left + d, is_term & (h > 0))
                    one, other = left + S * STRIDE, right + I_L * STRIDE
                    sum_i_l = _plus_pair(sum_i_l, one, other, score, is_term, MORE, ENTROPY)
            # One more term each: d = 0 of S and C_L, d = w of C_R, and no inner sibling.
            out = charts + w * ROW + i
            none_r, entropy_r = _get(out + (C_L * STRIDE + 1 - ROW), is_span, MORE, ENTROPY)
            none_l, entropy_l = _get(out + (C_R * STRIDE - ROW), is_span, MORE, ENTROPY)
            s, entropy_s = _end_sum(sum_s, none_r, entropy_r, ENTROPY)
            i_r, i_l = s, s
            if SIBLINGS:
                none_r += _score(of_right, is_span)
                none_l += _score(of_left + w, is_left)
                i_r, entropy_r = _end_sum(sum_i_r, none_r, entropy_r, ENTROPY)
                i_l, entropy_l = _end_sum(sum_i_l, none_l, entropy_l, ENTROPY)
            else:
                entropy_r, entropy_l = entropy_s, entropy_s
            i_r += _score(arcs + at_right, is_span)
            i_l += _score(arcs + at_left, is_left)
            _put(out + S * STRIDE, s, entropy_s, is_span, MORE, ENTROPY)
            _put(out + I_R * STRIDE, i_r, entropy_r, is_span, MORE, ENTROPY)
            _put(out + I_L * STRIDE, i_l, entropy_l, is_span, MORE, ENTROPY)
            if SIBLINGS:
                i_r += _score(ends + at_right, is_span)
                i_l += _score(ends + at_left, is_left)
                _put(out + E_R * STRIDE, i_r, entropy_r, is_span, MORE, ENTROPY)
                _put(out + E_L * STRIDE, i_l, entropy_l, is_span, MORE, ENTROPY)
            c_r, entropy_r = _end_sum(sum_c_r, i_r, entropy_r, ENTROPY)
            c_l, entropy_l = _end_sum(sum_c_l, i_l, entropy_l, ENTROPY)
            _put(out + C_R * STRIDE, c_r, entropy_r, is_span, MORE, ENTROPY)
            _put(out + C_L * STRIDE, c_l, entropy_l, is_span, MORE, ENTROPY)
        tl.debug_barrier()


@triton.jit
def _root_score(arcs, siblings, ends, n_nodes, m, is_word, SIBLINGS: tl.constexpr):
    """The score of m + 1 as the single root."""
    score = _score(arcs + 1 + m, is_word)
    if SIBLINGS:
        score += _score(siblings + (m + 1) * n_nodes, is_word) + _score(ends + 1 + m, is_word)
    return score


@triton.jit
def _sum_roots(
    arcs, siblings, ends, n_nodes, last, charts, SIBLINGS: tl.constexpr, ENTROPY: tl.constexpr,
    STRIDE: tl.constexpr, LANES: tl.constexpr,
):  # fmt: skip
    """Logarithm and entropy of the sum over m of C_L(1,m) C_R(m,n) and the parts of the root."""
    MORE: tl.constexpr = PLANES[SIBLINGS] * STRIDE
    zero = tl.zeros((LANES,), tl.float64)
    whole = zero + LOWEST, zero, zero
    for start in range(0, last + 1, LANES):
        m = start + tl.arange(0, LANES)
        is_word = m <= last
        before = charts + C_L * STRIDE + m * (2 * MORE)
        after = charts + C_R * STRIDE + (last - m) * (2 * MORE) + m
        score = _root_score(arcs, siblings, ends, n_nodes, m, is_word, SIBLINGS)
        whole = _plus_pair(whole, before, after, score, is_word, MORE, ENTROPY)
    total, entropy = _end_sum(whole, LOWEST, 0.0, ENTROPY)
    return tl.sum(total, 0), tl.sum(entropy, 0)


@triton.jit
def _share(item, above, beside, is_part):
    """The probability of an item as a part of the one above, together with the one beside it."""
    kept = tl.load(above, mask=is_part, other=NEVER)
    return tl.exp(item + (kept + tl.load(beside, mask=is_part, other=0.0)))


@triton.jit
def _sibling_share(
    item, siblings, of_siblings, cell, above, beside, is_part, STORES: tl.constexpr
):  # fmt: skip
    """`_share` of an item with the score of a sibling, perhaps stored as the marginal of that."""
    item += tl.load(siblings + cell, mask=is_part, other=0.0)
    share = _share(item, above, beside, is_part)
    if STORES:
        tl.store(of_siblings + cell, share, mask=is_part)
    return share


@triton.jit
def _keep(at, share, inside, is_span):
    """Keep and return log(share) - inside."""
    is_there = share > 0
    kept = tl.where(is_there, tl.log(tl.where(is_there, share, 1.0)) - inside, NEVER)
    tl.store(at, kept, mask=is_span)
    return kept


@triton.jit
def _fill_outside(
    arcs, siblings, ends, of_arcs, of_siblings, of_ends, n_nodes, last, charts, total,
    first: tl.constexpr, SIBLINGS: tl.constexpr, MARGINALS: tl.constexpr, STRIDE: tl.constexpr,
    SPLITS: tl.constexpr, LANES: tl.constexpr,
) -> None:  # fmt: skip
    """The marginals of a sentence that has trees.

    For a span (i,j) of width w, those above it are (i,j+d) and (i-d,j).
    """
    MORE: tl.constexpr = PLANES[SIBLINGS] * STRIDE
    ROW: tl.constexpr = 2 * MORE
    OUT_R: tl.constexpr = E_R if SIBLINGS else I_R
    OUT_L: tl.constexpr = E_L if SIBLINGS else I_L
    zero = tl.zeros((SPLITS, LANES), tl.float64)
    if first:
        for start in range(0, last + 1, LANES):
            m = start + tl.arange(0, LANES)
            is_word = m <= last
            of_root = _root_score(arcs, siblings, ends, n_nodes, m, is_word, SIBLINGS) - total
            of_root += tl.load(charts + C_L * STRIDE + m * ROW, mask=is_word)
            of_root += tl.load(charts + C_R * STRIDE + (last - m) * ROW + m, mask=is_word)
            of_root = tl.exp(of_root)
            tl.store(of_arcs + 1 + m, of_root, mask=is_word)
            if MARGINALS == 3:
                tl.store(of_siblings + (m + 1) * n_nodes, of_root, mask=is_word)
                tl.store(of_ends + 1 + m, of_root, mask=is_word)
        tl.debug_barrier()
    for narrower in range(0, last):
        w = last - narrower
        for start in range(0, last + 1 - w, LANES):
            i = start + tl.arange(0, LANES)[None, :]
            is_span = i <= last - w
            h = i + first
            is_left = is_span & (h > 0)
            at_right, at_left = h * n_nodes + h + w, (h + w) * n_nodes + h
            own = charts + w * ROW + i
            beside = own + MORE
            none = own - ROW  # width w - 1
            c_r = tl.load(own + C_R * STRIDE, mask=is_span)
            c_l = tl.load(own + C_L * STRIDE, mask=is_span)
            out_r = tl.load(own + OUT_R * STRIDE, mask=is_span)
            out_l = tl.load(own + OUT_L * STRIDE, mask=is_span)
            i_r = tl.load(own + I_R * STRIDE, mask=is_span)
            i_l = tl.load(own + I_L * STRIDE, mask=is_span)
            s = tl.load(own + S * STRIDE, mask=is_span)
            # Probabilities, by the spans above: sums over d
            of_c_r, of_c_l, of_out_r, of_out_l, of_i_r, of_i_l, of_s = (
                zero, zero, zero, zero, zero, zero, zero
            )  # fmt: skip
            for nearest in range(1, last + 1 - w, SPLITS):
                d = nearest + tl.arange(0, SPLITS)[:, None]
                is_longer, is_earlier = i <= last - w - d, is_span & (i >= d)
                longer = beside + d * ROW  # (i,j+d)
                earlier = longer - d  # (i-d,j)
                after = charts + d * ROW + i + w  # (j,j+d)
                before = charts + d * ROW + i - d  # (i-d,i)
                # C_R(i,j+d) -> OUT_R(i,j) C_R(j,j+d);  C_R(i-d,j) -> OUT_R(i-d,i) C_R(i,j)
                at = longer + C_R * STRIDE
                of_out_r += _share(out_r, at, after + C_R * STRIDE, is_longer)
                at = earlier + C_R * STRIDE
                of_c_r += _share(c_r, at, before + OUT_R * STRIDE, is_earlier)
                # C_L(i,j+d) -> C_L(i,j) OUT_L(j,j+d);  C_L(i-d,j) -> C_L(i-d,i) OUT_L(i,j)
                at = longer + C_L * STRIDE
                of_c_l += _share(c_l, at, after + OUT_L * STRIDE, is_longer)
                at = earlier + C_L * STRIDE
                of_out_l += _share(out_l, at, before + C_L * STRIDE, is_earlier)
                # S(i,j+d) -> C_R(i,j) C_L(j+1,j+d);  S(i-d,j) -> C_R(i-d,i-1) C_L(i,j)
                at = longer + S * STRIDE
                of_c_r += _share(c_r, at, after + (C_L * STRIDE + 1 - ROW), is_longer)
                at = earlier + S * STRIDE
                of_c_l += _share(c_l, at, before + (C_R * STRIDE - ROW), is_earlier)
                if SIBLINGS:
                    # I_R(i,j+d) -> I_R(i,j) S(j,j+d);  I_R(i-d,j) -> I_R(i-d,i) S(i,j)
                    cell = (at_right + d).to(tl.int64) * n_nodes + h + w
                    at, other = longer + I_R * STRIDE, after + S * STRIDE
                    of_i_r += _sibling_share(
                        i_r, siblings, of_siblings, cell, at, other, is_longer, MARGINALS == 3
                    )
                    cell = (at_right - d * n_nodes).to(tl.int64) * n_nodes + h
                    at, other = earlier + I_R * STRIDE, before + I_R * STRIDE
                    of_s += _sibling_share(
                        s, siblings, of_siblings, cell, at, other, is_earlier, False
                    )
                    # I_L(i-d,j) -> S(i-d,i) I_L(i,j);  I_L(i,j+d) -> S(i,j) I_L(j,j+d)
                    is_part = is_earlier & (h > d)
                    cell = (at_left - d).to(tl.int64) * n_nodes + h
                    at, other = earlier + I_L * STRIDE, before + S * STRIDE
                    of_i_l += _sibling_share(
                        i_l, siblings, of_siblings, cell, at, other, is_part, MARGINALS == 3
                    )
                    is_part = is_longer & (h > 0)
                    cell = (at_left + d * n_nodes).to(tl.int64) * n_nodes + h + w
                    at, other = longer + I_L * STRIDE, after + I_L * STRIDE
                    of_s += _sibling_share(
                        s, siblings, of_siblings, cell, at, other, is_part, False
                    )
            sum_c_r = tl.sum(of_c_r, 0, keep_dims=True)
            sum_c_l = tl.sum(of_c_l, 0, keep_dims=True)
            if first:
                sum_c_r += tl.load(of_arcs + 1 + i, mask=i == last - w, other=0.0)
                sum_c_l += tl.load(of_arcs + 1 + w + i, mask=i == 0, other=0.0)
            else:
                sum_c_r = tl.where(w < last, sum_c_r, 1.0)
            if SIBLINGS:
                # I_L(i,j+1) -> C_R(i,j);  I_R(i-1,j) -> C_L(i,j): no inner sibling
                no_item = charts + C_R * STRIDE + i
                part = (at_left + n_nodes).to(tl.int64) * n_nodes + h + w + 1
                is_above = is_left & (i < last - w)
                above = c_r + tl.load(siblings + part, mask=is_above, other=0.0)
                sum_c_r += _share(above, beside + (ROW + I_L * STRIDE), no_item, is_above)
                part = (at_right - n_nodes).to(tl.int64) * n_nodes + h - 1
                is_above = is_span & (i > 0)
                above = c_l + tl.load(siblings + part, mask=is_above, other=0.0)
                sum_c_l += _share(above, beside + (ROW + I_R * STRIDE - 1), no_item, is_above)
            # Of the same width: C_R(i,j) -> OUT_R(i,j), C_L(i,j) -> OUT_L(i,j)
            sum_out_r = tl.sum(of_out_r, 0, keep_dims=True) + sum_c_r * tl.exp(out_r - c_r)
            sum_out_l = tl.sum(of_out_l, 0, keep_dims=True) + sum_c_l * tl.exp(out_l - c_l)
            sum_i_r, sum_i_l = sum_out_r, sum_out_l
            if SIBLINGS:
                sum_i_r += tl.sum(of_i_r, 0, keep_dims=True)
                sum_i_l += tl.sum(of_i_l, 0, keep_dims=True)
                sum_s = tl.sum(of_s, 0, keep_dims=True)
                a_r = i_r - _score(arcs + at_right, is_span)
                a_l = i_l - _score(arcs + at_left, is_left)
                kept_r = _keep(beside + I_R * STRIDE, sum_i_r, a_r, is_span)
                kept_l = _keep(beside + I_L * STRIDE, sum_i_l, a_l, is_span)
                if MARGINALS == 3:
                    tl.store(of_ends + at_right, sum_out_r, mask=is_span)
                    tl.store(of_ends + at_left, sum_out_l, mask=is_left)
                    # I_R(i,j) -> C_L(i+1,j);  I_L(i,j) -> C_R(i,j-1)
                    part = at_right.to(tl.int64) * n_nodes + h
                    kept_r += tl.load(siblings + part, mask=is_span)
                    kept_r += tl.load(none + (C_L * STRIDE + 1), mask=is_span)
                    tl.store(of_siblings + part, tl.exp(kept_r), mask=is_span)
                    part = at_left.to(tl.int64) * n_nodes + h + w
                    kept_l += tl.load(siblings + part, mask=is_left)
                    kept_l += tl.load(none + C_R * STRIDE, mask=is_left)
                    tl.store(of_siblings + part, tl.exp(kept_l), mask=is_left)
            else:
                sum_s = sum_i_r + sum_i_l
            tl.store(of_arcs + at_right, sum_i_r, mask=is_span)
            tl.store(of_arcs + at_left, sum_i_l, mask=is_left)
            _keep(beside + C_R * STRIDE, sum_c_r, c_r, is_span)
            _keep(beside + C_L * STRIDE, sum_c_l, c_l, is_span)
            _keep(beside + S * STRIDE, sum_s, s, is_span)
        tl.debug_barrier()
