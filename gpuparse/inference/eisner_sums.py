"""First-order sums over projective trees: log-partition, marginals, entropy, samples.

The charts are those of `eisner` with a sum in the place of each maximum. A chart is grown width by
width and never written to, so that autograd goes through it, twice if need be. Seen from the left
part of a split, a chart's rows are the widths 0, 1, ... and its columns the starts; seen from the
right part, the rows are the widths from the widest down and the columns the ends. So both parts of
all splits of one width stand in the same cells of two tensors.
"""

import torch
from torch import Tensor

from gpuparse.errors import ScoreError
from gpuparse.inference.backends import choose_backend
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
        backend: "auto", "torch" or "cpu" (compiled). Second derivatives come from the torch form.

    Returns:
        float64 (B,), 0 for a sentence without words; differentiable, its gradient is
        `eisner_marginals`. The backends agree to about 1e-12 of the largest sum of scores.

    Raises:
        ScoreError: wrong shapes, types, lengths or values; an unknown backend.
        NoTreeError: a sentence, named by its index, has no tree without forbidden arcs.

    Cost: O(n^3) time; O(n^2) memory a sentence compiled, O(n^3) in torch where gradients are kept.
    Source: Eisner 1996 with sums (inside algorithm); spec of the charts as `eisner`.
    """
    backend = choose_backend(backend, arc_scores.device)
    arcs, lengths = _readable(arc_scores, lengths)
    if backend == "cpu":
        log_partition = _CompiledLogPartition.apply(arcs, lengths, single_root)
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

    Cost: O(n^3) time; O(n^2) memory a sentence compiled, O(n^3) in torch.
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
        as `eisner_log_partition`. Compiled, the entropy comes from the marginals where that loses
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

    Cost: O(n^3) once and O(n^2) a sample; compiled, in main memory, whatever the device.
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
    top = column_tops(arcs, lengths)
    # 0 * -inf = 0: forbidden arcs have no probability.
    shifted = torch.where(marginals > 0, arcs - top[:, None], 0.0)
    expected = (marginals * shifted).flatten(1).sum(1)
    is_sharp = (expected > -1e3) & (top.abs().sum(1) < 1e5)
    return (log_partition - top.sum(1) - expected).clamp(min=0.0), is_sharp


def _readable(arc_scores: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    """Checked scores as float64, 0 where they are not read, still differentiable; lengths int64."""
    lengths = check_scores(arc_scores, lengths).lengths
    read = read_cells(lengths, arc_scores.shape[1])
    return torch.where(read, arc_scores.to(torch.float64), 0.0), lengths


class _CompiledLogPartition(torch.autograd.Function):
    """The log-partition with the compiled marginals as its gradient."""

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
    with torch.inference_mode(False), torch.enable_grad():
        if not needs_gradient:
            arcs, lengths = arcs.detach().clone().requires_grad_(), lengths.clone()
        log_partition = _inside_sums(arcs, lengths, single_root, with_entropy=False)[0]
        (marginals,) = torch.autograd.grad(
            log_partition.masked_fill(log_partition == -torch.inf, 0.0).sum(),
            arcs,
            create_graph=needs_gradient,
        )
    return log_partition, marginals


def _inside_sums(arcs: Tensor, lengths: Tensor, single_root: bool, with_entropy: bool) -> Tensor:
    """Log-partition and, if asked for, entropy: (1 or 2, B), all spans of one width at once.

    Args:
        arcs: as `_readable` gives them.

    Returns:
        -inf for the log-partition of a sentence without a tree.
    """
    if arcs.shape[1] == 1:
        return sums_without_words(arcs, with_entropy)
    top = column_tops(arcs, lengths)
    first = 1 if single_root else 0
    shifted = with_components(arcs - top[:, None], with_entropy)
    right, left = arcs_by_width(shifted, first)
    n_nodes = arcs.shape[1] - first
    # Parts on the left: rows are widths 0.., columns starts. On the right: widths down to 0, ends.
    empty = shifted.new_zeros((*shifted.shape[:2], 1, n_nodes))
    C_R_left = C_L_left = C_R_right = C_L_right = empty
    I_R_left = I_L_right = empty[:, :, :0]
    rows = [empty[:, :, 0]]  # C_R by start
    for w in range(1, n_nodes):
        C_R_left, C_L_left, I_R_left = (x[..., :-1] for x in (C_R_left, C_L_left, I_R_left))
        C_R_right, C_L_right, I_L_right = (x[..., 1:] for x in (C_R_right, C_L_right, I_L_right))
        # S(i,j) = sum_{i<=r<j} C_R(i,r) C_L(r+1,j);  I_R = S arc(i,j);  I_L = S arc(j,i)
        S = sum_splits(C_R_left + C_L_right)
        I_R_left = torch.cat([I_R_left, (S + right[w - 1])[:, :, None]], 2)
        I_L_right = torch.cat([(S + left[w - 1])[:, :, None], I_L_right], 2)
        # C_R(i,j) = sum_{i<r<=j} I_R(i,r) C_R(r,j);  C_L(i,j) = sum_{i<=r<j} C_L(i,r) I_L(r,j)
        C_R = sum_splits(I_R_left + C_R_right)
        C_L = sum_splits(C_L_left + I_L_right)
        rows.append(C_R)
        C_R_left, C_R_right = grow(C_R_left, C_R_right, C_R)
        C_L_left, C_L_right = grow(C_L_left, C_L_right, C_L)
    if single_root:
        of_root = shifted[:, :, 0, 1:]
        sums = sum_over_roots(C_L_left[..., 0], rows, of_root, lengths)
    else:
        sums = at_lengths(C_R_left[..., 0], lengths)
    return add_to_log(sums, top.sum(1), lengths)


def sums_without_words(arcs: Tensor, with_entropy: bool) -> Tensor:
    """Zeros (1 or 2, B) that autograd can lead back to the scores (B, 1, 1), which are 0 here."""
    return (0.0 * arcs).sum((1, 2)).expand(2 if with_entropy else 1, -1)


def column_tops(arcs: Tensor, lengths: Tensor) -> Tensor:
    """The largest score into each word, (B, N), 0 where there is no finite one; a constant."""
    read = read_cells(lengths, arcs.shape[1])
    top = arcs.detach().masked_fill(~read, -torch.inf).amax(1)
    return top.masked_fill(top == -torch.inf, 0.0)


def with_components(scores: Tensor, with_entropy: bool) -> Tensor:
    """Scores as (1, ...), or as (2, ...) with the entropy 0 of a single part beside them.

    Logarithms and entropies of independent parts are both added, so that charts of both are written
    like charts of one.
    """
    return torch.stack([scores, torch.zeros_like(scores)]) if with_entropy else scores[None]


def sum_splits(splits: Tensor) -> Tensor:
    """Sum over the splits of every span.

    Args:
        splits: (1 or 2, B, splits, spans): logarithms, and entropies of what is below.

    Returns:
        (1 or 2, B, spans): -inf, with gradients 0, where all splits are forbidden.
    """
    value = splits[0]
    top = value.detach().amax(1, keepdim=True)
    top = top.masked_fill(top == -torch.inf, 0.0)
    weight = (value - top).exp()
    total = weight.sum(1, keepdim=True)
    is_possible = total > 0
    total = torch.where(is_possible, total, 1.0)
    log_total = top + total.log()
    log_sum = torch.where(is_possible, log_total, -torch.inf)[:, 0]
    if len(splits) == 1:
        return log_sum[None]
    surprise = torch.where(weight > 0, log_total - value, 0.0)
    entropy = (weight / total * (splits[1] + surprise)).sum(1)
    return torch.stack([log_sum, entropy])


def grow(as_left: Tensor, as_right: Tensor, spans: Tensor) -> tuple[Tensor, Tensor]:
    """Both views of a chart with the spans of one more width."""
    return torch.cat([as_left, spans[:, :, None]], 2), torch.cat([spans[:, :, None], as_right], 2)


def arcs_by_width(scores: Tensor, first: int) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
    """Scores (S, B, N, N) of arcs to the right and to the left: for each width, (S, B, starts).

    All are gathered at once: a slice for each width would cost a tensor of all arcs each, on the
    way back.
    """
    n_all, n_nodes = scores.shape[-1], scores.shape[-1] - first
    i, j = torch.triu_indices(n_nodes, n_nodes, 1, device=scores.device) + first
    order = ((j - i) * n_all + i).argsort()
    i, j = i[order], j[order]
    flat, sizes = scores.flatten(2), list(range(n_nodes - 1, 0, -1))
    right = flat.index_select(2, i * n_all + j).split(sizes, 2)
    left = flat.index_select(2, j * n_all + i).split(sizes, 2)
    return right, left


def at_lengths(chart: Tensor, lengths: Tensor) -> Tensor:
    """chart[:, b, lengths[b]] of (S, B, N), as (S, B)."""
    index = lengths[None, :, None].expand(len(chart), -1, 1)
    return chart.gather(2, index)[..., 0]


def sum_over_roots(
    C_L: Tensor, C_R: list[Tensor], of_root: Tensor, lengths: Tensor
) -> Tensor:  # fmt: skip
    """Sum over m of C_L(1,m) C_R(m,n) exp(of_root[m]), (S, B).

    Args:
        C_L: (S, B, N - 1), of start 1 and m = 1..N-1; C_R: for each width, (S, B, starts); of_root:
        (S, B, N - 1).
    """
    n_words = C_L.shape[-1]
    if n_words == 0:
        return C_L.new_zeros(C_L.shape[:2])
    by_width = torch.stack(
        [torch.nn.functional.pad(row, (0, n_words - row.shape[-1])) for row in C_R], 2
    )
    m = torch.arange(n_words, device=lengths.device)
    rest = lengths[:, None] - 1 - m
    sentence = torch.arange(len(lengths), device=lengths.device)[:, None]
    value = C_L + by_width[:, sentence, rest.clamp(min=0), m] + of_root
    log_sum = value[:1].masked_fill(rest < 0, -torch.inf)
    return sum_splits(torch.cat([log_sum, value[1:]])[..., None])[..., 0]


def add_to_log(sums: Tensor, shift: Tensor, lengths: Tensor) -> Tensor:
    """The components with `shift` added to the logarithm; 0 for sentences without words."""
    log_partition = (sums[0] + shift).masked_fill(lengths == 0, 0.0)
    return torch.stack([log_partition, *sums[1:].masked_fill(lengths == 0, 0.0)])
