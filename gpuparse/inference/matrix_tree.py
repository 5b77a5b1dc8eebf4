"""Sums over all trees of a sentence, crossing arcs allowed: partition, marginals, entropy, samples.

All in float64, whatever the scores' type. `kernels/cpu/matrix_tree.py` explains the elimination
without subtractions; here it is once more in torch, in logarithms, for gradients and other devices.
"""

import torch
from torch import Tensor

from gpuparse.errors import ScoreError
from gpuparse.inference.kernels.cpu.matrix_tree import sum_batch
from gpuparse.inference.kernels.cpu.matrix_tree_sample import sample_batch
from gpuparse.inference.scores import check_scores, require_trees
from gpuparse.tensors import word_mask

ABSENT = -1e300  # the logarithm of no weight: -inf would make gradients NaN
LARGEST = 1e100  # of scores, far from ABSENT


def matrix_tree_log_partition(
    arc_scores: Tensor, lengths: Tensor, *, single_root: bool = False
) -> Tensor:
    """Logarithm of the sum of exp(score) over all trees; differentiable, any number of times.

    Its gradient is `matrix_tree_marginals`.

    Args:
        arc_scores: score of head h -> modifier m in nats, (B, N, N); -inf forbids. Column 0, the
            diagonal and padding are never read.
        lengths: words of each sentence, int (B,), 0..N-1.
        single_root: exactly one modifier of the root; otherwise one or more.

    Returns:
        float64 (B,) in nats, on the device of `arc_scores`; 0 for a sentence without words.

    Raises:
        ScoreError: wrong shapes, types, lengths or values, or a score beyond 1e100.
        NoTreeError: a sentence, named by its index, has no tree without forbidden arcs.

    Cost: O(n^3) time, O(n^2) memory a sentence; O(n^3) memory for second derivatives, and for first
    ones too on other devices than the CPU.
    Source: Koo, Globerson, Carreras & Collins 2007; Smith & Smith 2007; McDonald & Satta 2007;
    differs: no determinant but an elimination without subtractions, right to the last digits at any
    scale of the scores; a single root by its limit (`kernels/cpu/matrix_tree.py`).
    """
    scores, words = _checked(arc_scores, lengths)
    sums: Tensor = _LogPartition.apply(scores, words, single_root)
    require_trees(sums.detach())
    return sums


def matrix_tree_marginals(
    arc_scores: Tensor, lengths: Tensor, *, single_root: bool = False
) -> Tensor:
    """The probability of every arc, trees being drawn by exp(score); differentiable.

    Args:
        arc_scores, lengths, single_root: as of `matrix_tree_log_partition`.

    Returns:
        float64 (B, N, N), [b, h, m]; 0 where no score is read. Each word's column sums to 1, and
        with a single root so does row 0.

    Raises:
        ScoreError, NoTreeError: as `matrix_tree_log_partition`.

    Cost: O(n^3) a sentence, about 1.3 n^3 multiplications; more by a factor where scores lie more
    than 300 apart, or forbidden arcs meet scores that lie far apart, for then logarithms are added.
    Source: as there; the walks of Wilson 1996 give the marginals without subtractions.
    """
    scores, words = _checked(arc_scores, lengths)
    sums, marginals = _Sums.apply(scores, words, single_root)
    require_trees(sums.detach())
    return marginals


def matrix_tree_entropy(
    arc_scores: Tensor, lengths: Tensor, *, single_root: bool = False
) -> Tensor:
    """Entropy of the distribution over trees, each drawn by exp(score); differentiable.

    Args:
        arc_scores, lengths, single_root: as of `matrix_tree_log_partition`.

    Returns:
        float64 (B,) in nats.

    Raises:
        ScoreError, NoTreeError: as `matrix_tree_log_partition`.

    Cost: as `matrix_tree_marginals`.
    Source: Smith & Smith 2007, section 3.3: the log-partition minus the expected score; differs:
    each word's expected score is taken from its scores first, which changes no probability and
    keeps what is subtracted small.
    """
    scores, words = _checked(arc_scores, lengths)
    sums, marginals = _Sums.apply(scores, words, single_root)
    require_trees(sums.detach())
    finite = scores.masked_fill(scores == -torch.inf, 0.0)
    center = (marginals * finite).sum(1).detach()
    centred = scores - center[:, None, :]
    expected = (marginals * (finite - center[:, None, :])).sum((1, 2))
    sums = _LogPartition.apply(centred, words, single_root)
    return sums - expected


def matrix_tree_sample(
    arc_scores: Tensor,
    lengths: Tensor,
    n_samples: int,
    generator: torch.Generator | None = None,
    *,
    single_root: bool = False,
) -> Tensor:
    """Independent random trees, each with a probability proportional to exp(score); exact.

    Args:
        arc_scores, lengths, single_root: as of `matrix_tree_log_partition`.
        n_samples: trees of each sentence.
        generator: on the CPU; None: torch's own. One int64 is drawn from it for each sentence of
            the batch, in order. Tree s of sentence b depends on the scores of the sentence, on the
            b-th of these numbers and on s: not on other sentences, padding, threads or n_samples.

    Returns:
        heads int64 (B, n_samples, N), -1 at position 0 and in padding, on the device of the scores.
        The work is done on the CPU.

    Raises:
        ScoreError: as there, or a negative n_samples.
        NoTreeError: as there.

    Cost: O(n^3) a sentence and typically O(n^2) a tree, at the worst O(n^3).
    Source: `kernels/cpu/matrix_tree_sample.py`; differs from Wilson 1996, whose walks may take
    forever where cycles outweigh trees.
    """
    if n_samples < 0:
        raise ScoreError(f"n_samples is {n_samples}, expected a number from 0 on")
    scores, words = _checked(arc_scores, lengths)
    numbers = torch.iinfo(torch.int64)
    seeds = torch.randint(numbers.min, numbers.max, (len(words),), generator=generator)
    heads, has_tree = sample_batch(
        scores.detach().cpu().numpy(), words.cpu().numpy(), n_samples, seeds.numpy(),
        single_root=single_root,
    )  # fmt: skip
    require_trees(torch.from_numpy(has_tree).double().log())
    return torch.from_numpy(heads).to(arc_scores.device)


def _checked(arc_scores: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    """Scores in float64, -inf where nothing is read, attached to the graph; lengths."""
    checked = check_scores(arc_scores, lengths)
    n_nodes = arc_scores.shape[1]
    is_word = word_mask(checked.lengths, n_nodes)
    is_head = is_word.clone()
    is_head[:, :1] = True
    diagonal = torch.eye(n_nodes, dtype=torch.bool, device=arc_scores.device)
    is_read = is_head[:, :, None] & is_word[:, None, :] & ~diagonal
    scores = arc_scores.double().masked_fill(~is_read, -torch.inf)
    if bool(((scores.detach().abs() > LARGEST) & (scores.detach() > -torch.inf)).any()):
        raise ScoreError(f"a score is beyond {LARGEST:g} or below -{LARGEST:g}: too far for sums")
    return scores.contiguous(), checked.lengths


class _LogPartition(torch.autograd.Function):
    """(scores, lengths, single_root) -> log-partition (B,); the gradient comes from `_Sums`."""

    @staticmethod
    def forward(ctx, scores, lengths, single_root):  # type: ignore[no-untyped-def]
        ctx.save_for_backward(scores, lengths)
        ctx.single_root = single_root
        return _sums(scores, lengths, single_root, only_partition=True)[0]

    @staticmethod
    def backward(ctx, grad):  # type: ignore[no-untyped-def]
        scores, lengths = ctx.saved_tensors
        marginals = _Sums.apply(scores, lengths, ctx.single_root)[1]
        return grad[:, None, None] * marginals, None, None


class _Sums(torch.autograd.Function):
    """(scores, lengths, single_root) -> log-partition (B,), marginals (B, N, N)."""

    @staticmethod
    def forward(ctx, scores, lengths, single_root):  # type: ignore[no-untyped-def]
        sums, marginals = _sums(scores, lengths, single_root, only_partition=False)
        ctx.save_for_backward(scores, lengths)
        ctx.single_root = single_root
        return sums, marginals

    @staticmethod
    def backward(ctx, grad_sums, grad_marginals):  # type: ignore[no-untyped-def]
        scores, lengths = ctx.saved_tensors
        again = torch.is_grad_enabled()
        with torch.enable_grad():
            if not scores.requires_grad:
                scores = scores.detach().requires_grad_()
            sums = _log_partition(scores, lengths, ctx.single_root)
            (first,) = torch.autograd.grad(sums.sum(), scores, create_graph=True)
            total = (first * grad_marginals).sum() + (sums * grad_sums).sum()
            (grad,) = torch.autograd.grad(total, scores, create_graph=again)
        return grad, None, None


def _sums(
    scores: Tensor, lengths: Tensor, single_root: bool, *, only_partition: bool
) -> tuple[Tensor, Tensor]:
    """Log-partition (B,) and, unless only_partition, marginals (B, N, N), without a graph."""
    if scores.device.type == "cpu":
        sums, marginals = sum_batch(
            scores.detach().numpy(), lengths.numpy(), single_root=single_root,
            only_partition=only_partition,
        )  # fmt: skip
        return torch.from_numpy(sums), torch.from_numpy(marginals)
    if only_partition:
        with torch.no_grad():
            sums_there = _log_partition(scores, lengths, single_root)
        return sums_there, scores
    with torch.enable_grad():
        leaf = scores.detach().requires_grad_()
        sums_there = _log_partition(leaf, lengths, single_root)
        (found,) = torch.autograd.grad(sums_there.sum(), leaf)
    return sums_there.detach(), found.clamp(0.0, 1.0)


def _log_partition(scores: Tensor, lengths: Tensor, single_root: bool) -> Tensor:
    """The elimination in torch, in logarithms; -inf for a sentence without a tree.

    Args:
        scores: (B, N, N), -inf where nothing is read.
    """
    n_nodes = scores.shape[1]
    is_word = word_mask(lengths, n_nodes)
    if n_nodes == 1 or len(scores) == 0:
        return scores.new_zeros(len(scores)) + 0.0 * scores[:, 0, :0].sum(1)
    shifts, taken = _shifts(scores.detach(), single_root)
    shifted = scores - shifts
    is_there = shifted > -torch.inf
    weights = torch.where(is_there, shifted.masked_fill(~is_there, 0.0), ABSENT)
    # Padding hangs on the root by arcs of score 0, which no power of t is counted for.
    padding = torch.zeros_like(weights[:, 0], dtype=torch.bool)
    padding[:, 1:] = ~is_word[:, 1:]
    root = torch.where(padding, 0.0, weights[:, 0])[:, 1:]
    words, late = weights[:, 1:, 1:], is_word[:, 1:] & single_root
    log_partition, powers = taken, torch.zeros_like(lengths)
    for e in range(n_nodes - 2, -1, -1):
        into, from_root, out = words[:, :e, e], root[:, e], words[:, e, :e]
        has_head = (into > ABSENT / 2).any(1)
        total_late, pull_late = late[:, e] & ~has_head, late[:, e] & has_head
        counted = torch.where(pull_late, ABSENT, from_root)
        total = torch.logsumexp(torch.cat([into, counted[:, None]], 1), 1)
        log_partition = log_partition + total
        powers = powers + total_late
        through = (from_root - total)[:, None] + out
        is_passed = through > ABSENT / 2
        keep_old = ~(late[:, :e] & is_passed & ~pull_late[:, None])
        keep_new = late[:, :e] | ~pull_late[:, None] | (root[:, :e] <= ABSENT / 2)
        old = torch.where(keep_old, root[:, :e], ABSENT)
        new = torch.where(keep_new, through, ABSENT)
        had_root = root[:, :e] > ABSENT / 2
        root = torch.logsumexp(torch.stack([old, new]), 0)
        late = torch.where(is_passed, pull_late[:, None] & (late[:, :e] | ~had_root), late[:, :e])
        passed = (into - total[:, None])[:, :, None] + out[:, None, :]
        words = torch.logsumexp(torch.stack([words[:, :e, :e], passed]), 0)
    has_tree = (log_partition > ABSENT / 2) & ((powers <= 1) | (not single_root))
    return torch.where(has_tree, log_partition, -torch.inf)


def _shifts(scores: Tensor, single_root: bool) -> tuple[Tensor, Tensor]:
    """What every tree loses alike: (B, N, N) from its arcs, (B,) in all.

    From arcs into m the highest of their scores. With a single root it is the highest of those from
    words, and the arcs from the root lose the highest of what they have left.
    """
    highest = scores[:, 1 if single_root else 0 :].amax(1)
    highest = torch.where(highest > -torch.inf, highest, 0.0)
    left = (scores[:, 0] - highest).amax(1)
    from_root = torch.where((left > -torch.inf) & single_root, left, 0.0)
    shifts = highest[:, None, :].repeat(1, scores.shape[1], 1)
    shifts[:, 0] += from_root[:, None]
    return shifts, highest.sum(1) + from_root
