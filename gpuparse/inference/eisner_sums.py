"""First-order sums over projective trees: log-partition, marginals, entropy, samples."""

import torch
from torch import Tensor

from gpuparse.charts.eisner import CHART
from gpuparse.errors import ScoreError
from gpuparse.inference.backends import choose_backend
from gpuparse.inference.batched.charts import differentiate, log_sums
from gpuparse.inference.native_charts import draw_trees, sum_trees
from gpuparse.inference.scores import check_scores, read_cells, require_trees


def eisner_log_partition(
    arc_scores: Tensor, lengths: Tensor, *, single_root: bool = False, backend: str = "auto"
) -> Tensor:
    """Logarithm of the sum of exp(score) over all projective trees of every sentence.

    Args:
        arc_scores: score of head h -> modifier m, (B, N, N); -inf forbids. Column 0, the diagonal
            and padding are never read. Any type; computed with as float64.
        lengths: words of each sentence, int (B,), 0..N-1.
        single_root: exactly one modifier of the root; otherwise one or more.
        backend: "auto", "torch" or "cpu" (native). Second derivatives come from the torch form.

    Returns:
        float64 (B,), 0 for a sentence without words; differentiable, its gradient is
        `eisner_marginals`. The backends agree to about 1e-12 of the largest sum of scores.

    Raises:
        ScoreError: wrong shapes, types, lengths or values; an unknown backend.
        NoTreeError: a sentence, named by its index, has no tree without forbidden arcs.

    Cost: O(n^3) time; O(n^2) memory a sentence in native code, in torch O(n^3) where gradients are
    kept.
    Source: Eisner 1996 with sums (inside algorithm); spec of the charts as `eisner`.
    """
    backend = choose_backend(backend, arc_scores.device)
    arcs, lengths = _readable(arc_scores, lengths)
    if backend == "cpu" and torch.is_grad_enabled() and arcs.requires_grad:
        log_partition = _NativeLogPartition.apply(arcs, lengths, single_root)
    elif backend == "cpu":
        log_partition, _ = sum_trees(arcs, lengths, single_root=single_root, with_marginals=False)
    else:
        log_partition = _inside_sums(arcs, lengths, single_root, with_entropy=False)[0]
    require_trees(log_partition)
    return log_partition


def eisner_marginals(
    arc_scores: Tensor, lengths: Tensor, *, single_root: bool = False, backend: str = "auto"
) -> Tensor:
    """Probability of every arc, trees having probabilities proportional to exp(score).

    Args:
        as `eisner_log_partition`. Where a gradient is asked for, "auto" takes the torch form.

    Returns:
        float64 (B, N, N): each word's column sums to 1; 0 where scores are not read.
        Differentiable in the torch form.

    Raises:
        as `eisner_log_partition`.

    Cost: O(n^3) time; O(n^2) memory a sentence in native code, O(n^3) in torch.
    Source: inside-outside; in torch the outside part is the derivative of the inside part (Eisner
    2016, "Inside-outside and forward-backward algorithms are just backprop").
    """
    needs_gradient = torch.is_grad_enabled() and arc_scores.requires_grad
    if needs_gradient and backend == "auto":
        backend = "torch"
    backend = choose_backend(backend, arc_scores.device)
    arcs, lengths = _readable(arc_scores, lengths)
    if backend == "cpu":
        log_partition, marginals = sum_trees(arcs, lengths, single_root=single_root)
    else:
        log_partition, marginals = _marginals_torch(arcs, lengths, single_root, needs_gradient)
    require_trees(log_partition)
    return marginals


def eisner_entropy(
    arc_scores: Tensor, lengths: Tensor, *, single_root: bool = False, backend: str = "auto"
) -> Tensor:
    """Entropy of the distribution over projective trees, in nats.

    It is the sum over all spans of the probability of the span times the entropy of the choice
    among its splits, collected with the inside sums: nothing cancels, whatever the size of the
    scores. Rounding of the sums of scores remains: about 1e-16 of the largest sum, relatively.

    Args:
        as `eisner_log_partition`. In native code it comes from the marginals where that loses
        no digits, else from the torch form, as wherever a gradient is asked for.

    Returns:
        float64 (B,), 0 for a sentence without words; differentiable.

    Raises:
        as `eisner_log_partition`.

    Cost: as `eisner_log_partition`, about twice.
    Source: the expectation semiring of Li & Eisner 2009; differs: expectations of the surprise at
    each split, so that all terms are positive.
    """
    needs_gradient = torch.is_grad_enabled() and arc_scores.requires_grad
    if needs_gradient and backend == "auto":
        backend = "torch"
    backend = choose_backend(backend, arc_scores.device)
    arcs, lengths = _readable(arc_scores, lengths)
    if backend == "cpu":
        arcs = arcs.detach()
        log_partition, marginals = sum_trees(arcs, lengths, single_root=single_root)
        require_trees(log_partition)
        entropy, is_sharp = _entropy_of_marginals(log_partition, marginals, arcs, lengths)
        rest = (~is_sharp).nonzero()[:, 0]
        if len(rest):
            entropy[rest] = _inside_sums(arcs[rest], lengths[rest], single_root, True)[1]
        return entropy
    log_partition, entropy = _inside_sums(arcs, lengths, single_root, with_entropy=True)
    require_trees(log_partition)
    return entropy


def eisner_sample(
    arc_scores: Tensor,
    lengths: Tensor,
    n_samples: int,
    generator: torch.Generator | None = None,
    *,
    single_root: bool = False,
) -> Tensor:
    """Independent projective trees, each drawn with its exact probability.

    The generator gives one seed a sentence, in the order of the batch. Sample k of a sentence
    depends on its seed, its scores and k alone: not on the other sentences, the padding, the number
    of samples, the device or the threads.

    Args:
        arc_scores, lengths, single_root: as `eisner_log_partition`.
        n_samples: trees for each sentence.
        generator: where randomness comes from; None: torch's own. It moves on by B numbers.

    Returns:
        heads int64 (B, n_samples, N), -1 at position 0 and in padding, on the device of the scores.

    Raises:
        as `eisner_log_partition`; ScoreError for a negative number of samples.

    Cost: O(n^3) once and O(n^2) a sample; in native code and main memory, whatever the device.
    Source: top-down through the inside chart (forward filtering, backward sampling).
    """
    require_sample_count(n_samples)
    arcs, words = _readable(arc_scores.detach(), lengths)
    seeds = draw_seeds(len(arcs), generator)
    log_partition, heads = draw_trees(
        arcs.cpu(), words.cpu(), n_samples=n_samples, seeds=seeds, single_root=single_root
    )
    require_trees(log_partition)
    return heads.to(arc_scores.device)


def require_sample_count(n_samples: int) -> None:
    """Raise ScoreError for a negative number."""
    if n_samples < 0:
        raise ScoreError(f"n_samples is {n_samples}, expected a number from 0 on")


def draw_seeds(n_batch: int, generator: torch.Generator | None) -> Tensor:
    """One seed a sentence, int64 (B,) in main memory; the first ones do not depend on B."""
    device = "cpu" if generator is None else generator.device
    seeds = [
        torch.randint(2**63 - 1, (1,), generator=generator, device=device) for _ in range(n_batch)
    ]
    return torch.cat([*seeds, torch.empty(0, dtype=torch.int64, device=device)]).cpu()


def _entropy_of_marginals(
    log_partition: Tensor, marginals: Tensor, arcs: Tensor, lengths: Tensor
) -> tuple[Tensor, Tensor]:
    """log Z - <marginals, scores>, and whether no more than three digits cancel; both (B,)."""
    top = _column_tops(arcs, lengths)
    # 0 * -inf = 0: forbidden arcs have no probability.
    shifted = torch.where(marginals > 0, arcs - top[:, None], 0.0)
    expected = (marginals * shifted).flatten(1).sum(1)
    is_sharp = (expected > -1e3) & (top.abs().sum(1) < 1e5)
    return (log_partition - top.sum(1) - expected).clamp(min=0.0), is_sharp


def _column_tops(arcs: Tensor, lengths: Tensor) -> Tensor:
    """The largest score into each word, (B, N), 0 where there is no finite one."""
    read = read_cells(lengths, arcs.shape[1])
    top = arcs.masked_fill(~read, -torch.inf).amax(1)
    return top.masked_fill(top == -torch.inf, 0.0)


def _readable(arc_scores: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    """Checked scores as float64, 0 where they are not read, still differentiable; lengths int64."""
    lengths = check_scores(arc_scores, lengths).lengths
    read = read_cells(lengths, arc_scores.shape[1])
    return torch.where(read, arc_scores.to(torch.float64), 0.0), lengths


class _NativeLogPartition(torch.autograd.Function):
    """The log-partition with the native marginals as its gradient."""

    @staticmethod
    def forward(ctx, arcs, lengths, single_root):  # type: ignore[no-untyped-def]
        log_partition, marginals = sum_trees(arcs, lengths, single_root=single_root)
        ctx.save_for_backward(arcs, lengths, marginals)
        ctx.single_root = single_root
        return log_partition

    @staticmethod
    def backward(ctx, of_log_partition):  # type: ignore[no-untyped-def]
        arcs, lengths, marginals = ctx.saved_tensors
        if torch.is_grad_enabled():  # somebody wants to go on to the second derivative
            _, marginals = _marginals_torch(arcs, lengths, ctx.single_root, needs_gradient=True)
        return of_log_partition[:, None, None] * marginals, None, None


def _marginals_torch(
    arcs: Tensor, lengths: Tensor, single_root: bool, needs_gradient: bool
) -> tuple[Tensor, Tensor]:
    """Log-partition (B,) and marginals (B, N, N) by differentiation."""
    with torch.inference_mode(False):
        words = lengths.clone()  # autograd refuses tensors that were made in inference mode

    def log_partitions(scores: Tensor) -> Tensor:
        return _inside_sums(scores, words, single_root, with_entropy=False)[0]

    return differentiate(log_partitions, arcs, keep_gradients=needs_gradient)


def _inside_sums(arcs: Tensor, lengths: Tensor, single_root: bool, with_entropy: bool) -> Tensor:
    """Log-partition and, if asked for, entropy: (1 or 2, B); arcs as `_readable` gives them."""
    return log_sums(
        CHART, {"arc": arcs}, lengths, single_root=single_root, with_entropy=with_entropy
    )
