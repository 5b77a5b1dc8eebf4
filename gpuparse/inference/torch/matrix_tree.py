"""Sums over all trees in torch: the elimination of native/matrix_tree.h, and an inverse.

The elimination subtracts nothing and is right at any scale of the scores, in n steps. The inverse
and the determinant of the Laplacian are one operation of torch each, whose derivatives take two
products of matrices; but their digits are lost where the Laplacian is nearly singular.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from gpuparse.inference.scores import read_cells, word_mask
from gpuparse.inference.torch.charts import ABSENT


def read_scores(scores: Tensor, lengths: Tensor) -> Tensor:
    """The scores (B, N, N), and -inf in cells that are not read."""
    return scores.masked_fill(~read_cells(lengths, scores.shape[1]), -torch.inf)


class Step(NamedTuple):
    """The elimination of a word e, the logarithms of weights among the words before it.

    into: (B, e), from all heads. is_late: (B,), of that from the root. passed: (B, e, e - 1), of
    ways from h through e into m = 1, ... passes_late: (B,), of those from the root.
    """

    into: Tensor
    is_late: Tensor
    passed: Tensor
    passes_late: Tensor


def eliminate(
    scores: Tensor, lengths: Tensor, single_root: bool, steps: list[Step] | None = None
) -> tuple[Tensor, Tensor]:
    """The elimination in torch, in logarithms: log-partition, -inf without a tree, and entropy.

    Every weight w has a spread, log w - d log w / d b at b = 1 where all scores are multiplied by
    b. That of a score itself is 0, of a product the sum, of a quotient the difference, of a sum the
    average by the shares plus the entropy of the shares; that of the sum over trees is the entropy.

    Args: scores: (B, N, N), checked. steps: a list for what is done, the last word first.
    """
    scores = read_scores(scores, lengths)
    if scores.shape[1] == 1:  # zeros that autograd can lead back to the scores
        nothing = scores.masked_fill(torch.ones_like(scores, dtype=torch.bool), 0.0).sum((1, 2))
        return nothing, nothing
    is_word = word_mask(lengths, scores.shape[1])[:, 1:]
    moved, log_partition = shifts(scores.detach(), single_root)
    is_there = scores != -torch.inf
    weights = torch.where(is_there, scores.masked_fill(~is_there, 0.0) - moved, ABSENT)
    # Padding hangs on the root by arcs of score 0, for which no power of t is counted.
    root, words = torch.where(is_word, weights[:, 0, 1:], 0.0), weights[:, 1:, 1:]
    spread, root_spread = torch.zeros_like(words), torch.zeros_like(root)
    late, powers = is_word & single_root, torch.zeros_like(lengths)
    entropy = torch.zeros_like(log_partition)
    for e in range(scores.shape[1] - 2, -1, -1):
        has_head = (words[:, :e, e] > ABSENT / 2).any(1)
        powers = powers + (late[:, e] & ~has_head)
        pull_late = (late[:, e] & has_head)[:, None]
        into = torch.cat([words[:, :e, e], torch.where(pull_late, ABSENT, root[:, e, None])], 1)
        into_spread = torch.cat([spread[:, :e, e], root_spread[:, e, None]], 1)
        total, total_spread = _sum(into, into_spread, 1)
        log_partition, entropy = log_partition + total, entropy + total_spread
        out, out_spread = words[:, e, :e], spread[:, e, :e]
        through = (root[:, e] - total)[:, None] + out
        through_spread = (root_spread[:, e] - total_spread)[:, None] + out_spread
        passed = (words[:, :e, e] - total[:, None])[:, :, None] + out[:, None]
        passed_spread = (spread[:, :e, e] - total_spread[:, None])[:, :, None] + out_spread[:, None]
        if steps is not None:
            before = torch.cat([root[:, e, None], words[:, :e, e]], 1)
            ways = torch.cat([through[:, None], passed], 1)
            steps.append(Step(before, late[:, e], ways, pull_late[:, 0]))
        # Of the arc from the root and the way through e, that with the lower power of t counts.
        had, has = root[:, :e] > ABSENT / 2, through > ABSENT / 2
        old = torch.where(late[:, :e] & has & ~pull_late, ABSENT, root[:, :e])
        new = torch.where(~late[:, :e] & had & pull_late, ABSENT, through)
        late = torch.where(has, pull_late & (late[:, :e] | ~had), late[:, :e])
        root, root_spread = _sum(
            torch.stack([old, new]), torch.stack([root_spread[:, :e], through_spread]), 0
        )
        words, spread = _sum(
            torch.stack([words[:, :e, :e], passed]),
            torch.stack([spread[:, :e, :e], passed_spread]),
            0,
        )
    has_tree = (log_partition > ABSENT / 2) & ((powers <= 1) | (not single_root))
    return torch.where(has_tree | log_partition.isnan(), log_partition, -torch.inf), entropy


class Laplacian(NamedTuple):
    """The matrix whose determinant is the sum over all trees, after shifts of the scores.

    matrix: (B, n, n); with a single root, the first row has the arcs from the root. Padding has the
    identity. root, words: (B, n) and (B, n, n), weights of arcs. scores: (B, N, N), shifted, -inf
    for cells that are not read. shift: (B,), of every tree.
    """

    matrix: Tensor
    root: Tensor
    words: Tensor
    scores: Tensor
    shift: Tensor
    single_root: bool

    def arcs(self, inverse: Tensor, sign: float = -1.0) -> Tensor:
        """The marginals (B, N, N); with the sign 1 and errors of the inverse bounds of theirs."""
        own, across = inverse.diagonal(dim1=1, dim2=2), inverse.mT
        from_root = own
        if self.single_root:
            is_first = torch.arange(own.shape[1], device=own.device) == 0
            own = own.masked_fill(is_first, 0.0)
            from_root, across = inverse[:, :, 0], across.masked_fill(is_first[:, None], 0.0)
        rows = (self.root * from_root)[:, None], self.words * (own[:, None] + sign * across)
        return torch.nn.functional.pad(torch.cat(rows, 1), (1, 0))


def laplacian_of(scores: Tensor, lengths: Tensor, single_root: bool) -> Laplacian:
    """The Laplacian of scores (B, N, N), checked, with N > 1.

    Source: Koo, Globerson, Carreras & Collins 2007, sections 3.1 to 3.3.
    """
    scores = read_scores(scores, lengths)
    moved, shift = shifts(scores.detach(), single_root)
    scores = scores - moved
    weights = scores.exp()
    root, words = weights[:, 0, 1:], weights[:, 1:, 1:]
    n = root.shape[1]
    is_word = word_mask(lengths, n + 1)[:, 1:]
    total = words.sum(1) if single_root else words.sum(1) + root
    matrix = torch.diag_embed(torch.where(is_word, total, 1.0)) - words
    if single_root:  # the root in the place of the first head
        first = torch.where(lengths[:, None] > 0, root, torch.eye(n, device=root.device)[0])
        matrix = torch.cat([first[:, None], matrix[:, 1:]], 1)
    return Laplacian(matrix, root, words, scores, shift, single_root)


def marginals_by_inverse(scores: Tensor, lengths: Tensor, single_root: bool) -> Tensor:
    """Marginals (B, N, N), from the inverse of the Laplacian; differentiable any number of times.

    Where the Laplacian is nearly singular they are wrong, or not finite: compare them with others.

    Args: as `laplacian_of`.
    """
    laplacian = laplacian_of(scores, lengths, single_root)
    return laplacian.arcs(torch.linalg.inv_ex(laplacian.matrix).inverse)


def sums_by_inverse(scores: Tensor, lengths: Tensor, single_root: bool) -> tuple[Tensor, Tensor]:
    """Log-partitions and entropies (2, B), and a bound of their errors and of those of marginals.

    The bound (B,) is large or NaN where the Laplacian is nearly singular. It comes from what the
    inverse leaves of the identity, and from the rounding of that, which for sums of n numbers grows
    with the root of n (Higham & Mary 2019).

    Args: as `laplacian_of`.
    """
    laplacian = laplacian_of(scores, lengths, single_root)
    matrix, inverse = laplacian.matrix, torch.linalg.inv_ex(laplacian.matrix).inverse
    log_determinant = torch.linalg.slogdet(matrix).logabsdet
    centred = laplacian.scores.masked_fill(laplacian.scores == -torch.inf, 0.0)
    marginals = laplacian.arcs(inverse)
    entropies = log_determinant - (marginals * centred).sum((1, 2))
    entropies = entropies - entropies.detach().clamp(max=0.0)  # rounded below 0
    with torch.no_grad():
        n = matrix.shape[1]
        unit = 2 * n**0.5 * torch.finfo(matrix.dtype).eps
        rounding = unit * (matrix.abs() @ inverse.abs())
        left = (torch.eye(n, device=matrix.device) - matrix @ inverse).abs() + rounding
        of_marginals = laplacian.arcs(inverse.abs() @ left, sign=1.0)
        bound = of_marginals + (of_marginals + unit * marginals.abs()) * centred.abs()
        bound = bound.sum((1, 2)) + n * left.amax((1, 2))
    return torch.stack([log_determinant + laplacian.shift, entropies]), bound


def _sum(weights: Tensor, spreads: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """Logarithm of the sum over a dimension, and its spread."""
    total = torch.logsumexp(weights, dim)
    shares = weights - total.unsqueeze(dim)
    return total, (shares.exp() * (spreads - shares)).sum(dim)


def shifts(scores: Tensor, single_root: bool) -> tuple[Tensor, Tensor]:
    """The amounts that every tree loses alike: (B, N, N) from its arcs, (B,) in all.

    From arcs into m the highest of their scores. With a single root it is the highest of those from
    words, and the arcs from the root lose the highest of what they have left.
    """
    highest = scores[:, 1 if single_root else 0 :].amax(1)
    highest = torch.where(highest > -torch.inf, highest, 0.0)
    left = (scores[:, 0] - highest).amax(1)
    from_root = torch.where((left > -torch.inf) & single_root, left, 0.0)
    moved = highest[:, None, :].repeat(1, scores.shape[1], 1)
    moved[:, 0] += from_root[:, None]
    return moved, highest.sum(1) + from_root
