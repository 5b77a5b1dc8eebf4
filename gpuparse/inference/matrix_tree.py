"""Sums over all trees of a sentence, crossing arcs allowed: partition, marginals, entropy, samples.

All in float64, for scores of any type. native/matrix_tree.h explains the elimination without
subtractions; here it is once more in torch, in logarithms, for gradients and other devices.
"""

import torch
from torch import Tensor

from gpuparse.errors import ScoreError
from gpuparse.inference.engines import choose_engine, is_traced
from gpuparse.inference.native_trees import (
    LogPartition,
    draw_trees,
    require_sample_count,
    sum_trees,
)
from gpuparse.inference.scores import (
    Lengths,
    check_arcs,
    device_of,
    read_cells,
    require_tensor,
    require_trees,
    word_mask,
)
from gpuparse.inference.torch.charts import differentiate

DECODER = "chu_liu_edmonds"

ABSENT = -1e300  # the logarithm of no weight: -inf would make gradients NaN
LARGEST = 1e100  # of scores, far from ABSENT


def matrix_tree_log_partition(
    arc_scores: Tensor, lengths: Lengths, *, single_root: bool = False, engine: str = "auto"
) -> Tensor:
    """Logarithm of the sum of exp(score) over all trees; differentiable, any number of times.

    Its gradient is `matrix_tree_marginals`.

    Args:
        arc_scores, lengths, single_root: as `chu_liu_edmonds` reads them; scores in nats.
        engine: "auto", "native" or "torch", which alone can be traced by torch.compile and
            transformed by torch.func.
    Returns: float64 (B,) in nats, on the device of `arc_scores`; 0 for a sentence without words.
    Raises:
        ScoreError: wrong shapes, types, lengths or values, or a score beyond 1e100.
        NoTreeError: a sentence, named by its index, has no tree without forbidden arcs.
    Cost: O(n^3) time, O(n^2) memory per sentence; O(n^3) memory for second derivatives, and for
    first ones too in torch. Native code takes about three times as long where scores lie more than
    300 nats apart, whose exponentials need wider exponents than a float64 has.
    Source: Koo, Globerson, Carreras & Collins 2007; Smith & Smith 2007; McDonald & Satta 2007;
    differs: no determinant but an elimination without subtractions, right to the last digits at any
    scale of the scores; a single root by its limit (native/matrix_tree.h).
    """
    engine = choose_engine(engine, device_of(arc_scores))
    scores, words = _checked(arc_scores, lengths)
    sums: Tensor
    if engine == "native":
        sums = LogPartition.apply(
            scores, words, DECODER, single_root, lambda *given: _Sums.apply(*given)[1]
        )
    else:
        sums, _ = _eliminate(scores, words, single_root)
    require_trees(sums.detach())
    return sums


def matrix_tree_marginals(
    arc_scores: Tensor, lengths: Lengths, *, single_root: bool = False, engine: str = "auto"
) -> Tensor:
    """The probability of every arc, trees being drawn by exp(score); differentiable.

    Args: arc_scores, lengths, single_root, engine: as in `matrix_tree_log_partition`.
    Returns: float64 (B, N, N), [b, h, m]; 0 where no score is read. Each word's column sums to 1,
        and with a single root so does row 0.
    Raises: ScoreError, NoTreeError: as `matrix_tree_log_partition`.
    Cost: O(n^3) per sentence, about 1.3 n^3 multiplications; see `matrix_tree_log_partition` for
    scores that lie far apart.
    Source: that of `matrix_tree_log_partition`; the walks of Wilson 1996 give the marginals without
    subtractions.
    """
    engine = choose_engine(engine, device_of(arc_scores))
    scores, words = _checked(arc_scores, lengths)
    if engine == "native":
        sums, marginals = _Sums.apply(scores, words, single_root)
    else:
        sums, marginals = _torch_marginals(scores, words, single_root)
    require_trees(sums.detach())
    return marginals


def matrix_tree_entropy(
    arc_scores: Tensor, lengths: Lengths, *, single_root: bool = False, engine: str = "auto"
) -> Tensor:
    """Entropy of the distribution over trees, each drawn by exp(score); differentiable.

    Args: arc_scores, lengths, single_root, engine: as in `matrix_tree_log_partition`.
    Returns: float64 (B,) in nats.
    Raises: ScoreError, NoTreeError: as `matrix_tree_log_partition`.
    Cost: in torch on every engine: O(n^3) time in tensors of O(n^2) per sentence; O(n^3) memory
    where gradients are needed.
    Source: Smith & Smith 2007, section 3.3; differs: not the log-partition minus the expected
    score, which is a difference of large numbers, but spreads that the elimination carries along.
    """
    choose_engine(engine, device_of(arc_scores))
    scores, words = _checked(arc_scores, lengths)
    sums, entropy = _eliminate(scores, words, single_root)
    require_trees(sums.detach())
    return entropy


def matrix_tree_sample(
    arc_scores: Tensor,
    lengths: Lengths,
    n_samples: int,
    generator: torch.Generator | None = None,
    *,
    single_root: bool = False,
) -> Tensor:
    """Independent random trees, each with a probability proportional to exp(score); exact.

    Args:
        arc_scores, lengths, single_root: as in `matrix_tree_log_partition`.
        n_samples: trees of each sentence.
        generator: on the CPU; None: torch's own. One int64 is drawn from it for each sentence of
            the batch, in order. Tree s of sentence b depends on the scores of the sentence, on the
            b-th of these numbers and on s: not on other sentences, padding, threads or n_samples.
    Returns: heads int64 (B, n_samples, N), -1 at position 0 and in padding, on the device of the
        scores. The work is done on the CPU.
    Raises:
        ScoreError: as `matrix_tree_log_partition`, or a negative n_samples.
        NoTreeError: as `matrix_tree_log_partition`.
    Cost: O(n^3) per sentence and typically O(n^2) per tree, at the worst O(n^3).
    Source: native/matrix_tree_sample.h; differs from Wilson 1996, whose walks may take
    forever where cycles outweigh trees.
    """
    require_sample_count(n_samples)
    require_tensor(arc_scores, "arc_scores")
    scores, words = _checked(arc_scores.detach(), lengths)
    numbers = torch.iinfo(torch.int64)
    seeds = torch.randint(numbers.min, numbers.max, (len(words),), generator=generator)
    return draw_trees(
        DECODER, words, scores, n_samples=n_samples, seeds=seeds, single_root=single_root
    )


def _checked(arc_scores: Tensor, lengths: Lengths) -> tuple[Tensor, Tensor]:
    """Scores in float64, still attached to the graph; lengths. Unread cells may hold anything.
    Raises: ScoreError: as `matrix_tree_log_partition`.
    """
    arcs, words = check_arcs(arc_scores, lengths)
    scores = arc_scores.double().contiguous()
    if arcs.dtype == torch.float64 and not is_traced():  # no other type reaches as far
        size = _read(scores.detach(), words).abs()
        if bool(((size > LARGEST) & (size < torch.inf)).any()):
            raise ScoreError(
                f"a score is not between -{LARGEST:g} and {LARGEST:g}: too far for sums"
            )
    return scores, words


def _read(scores: Tensor, lengths: Tensor) -> Tensor:
    """The scores (B, N, N), and -inf in cells that are not read."""
    return scores.masked_fill(~read_cells(lengths, scores.shape[1]), -torch.inf)


class _Sums(torch.autograd.Function):
    """(scores, lengths, single_root) -> log-partition (B,), marginals (B, N, N)."""

    @staticmethod
    def forward(ctx, scores, lengths, single_root):  # type: ignore[no-untyped-def]
        sums, marginals = sum_trees(DECODER, lengths, scores, single_root=single_root)
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
            sums, _ = _eliminate(scores, lengths, ctx.single_root)
            (first,) = torch.autograd.grad(sums.sum(), scores, create_graph=True)
            total = (first * grad_marginals).sum() + (sums * grad_sums).sum()
            (grad,) = torch.autograd.grad(total, scores, create_graph=again)
        return grad, None, None


def _torch_marginals(scores: Tensor, lengths: Tensor, single_root: bool) -> tuple[Tensor, Tensor]:
    """Log-partition and marginals by differentiation of the elimination in torch."""

    def log_partitions(given: Tensor) -> Tensor:
        return _eliminate(given, lengths, single_root)[0]

    if scores.shape[1] == 1 or len(scores) == 0:  # no arcs, and so no gradient
        return log_partitions(scores), torch.zeros_like(scores)
    keeps_graph = torch.is_grad_enabled() and scores.requires_grad
    sums, marginals = differentiate(log_partitions, scores, keep_gradients=keeps_graph)
    return sums, marginals.clamp(0.0, 1.0)


def _eliminate(scores: Tensor, lengths: Tensor, single_root: bool) -> tuple[Tensor, Tensor]:
    """The elimination in torch, in logarithms: log-partition, -inf without a tree, and entropy.

    Every weight w has a spread, log w - d log w / d b at b = 1 where all scores are multiplied by
    b. That of a score itself is 0, of a product the sum, of a quotient the difference, of a sum the
    average by the shares plus the entropy of the shares; that of the sum over trees is the entropy.

    Args: scores: (B, N, N), checked.
    """
    scores = _read(scores, lengths)
    if scores.shape[1] == 1 or len(scores) == 0:
        nothing = scores.new_zeros(len(scores))
        return nothing, nothing
    is_word = word_mask(lengths, scores.shape[1])[:, 1:]
    shifts, log_partition = _shifts(scores.detach(), single_root)
    is_there = scores > -torch.inf
    weights = torch.where(is_there, scores.masked_fill(~is_there, 0.0) - shifts, ABSENT)
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
    return torch.where(has_tree, log_partition, -torch.inf), entropy


def _sum(weights: Tensor, spreads: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """Logarithm of the sum over a dimension, and its spread."""
    total = torch.logsumexp(weights, dim)
    shares = weights - total.unsqueeze(dim)
    return total, (shares.exp() * (spreads - shares)).sum(dim)


def _shifts(scores: Tensor, single_root: bool) -> tuple[Tensor, Tensor]:
    """The amounts that every tree loses alike: (B, N, N) from its arcs, (B,) in all.

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
