"""Sums over projective trees with sibling parts: log-partition, marginals, entropy, samples."""

from typing import NamedTuple

import torch
from torch import Tensor

from gpuparse.charts.eisner_sibling import CHART
from gpuparse.inference.backends import choose_backend
from gpuparse.inference.batched.charts import differentiate, log_sums
from gpuparse.inference.eisner_sums import draw_seeds, require_sample_count
from gpuparse.inference.native_charts import draw_trees, sum_trees
from gpuparse.inference.scores import (
    check_sibling_scores,
    read_cells,
    read_sibling_cells,
    require_trees,
)


def eisner_sibling_log_partition(
    arc_scores: Tensor,
    sibling_scores: Tensor,
    lengths: Tensor,
    *,
    end_scores: Tensor | None = None,
    single_root: bool = False,
    backend: str = "auto",
) -> Tensor:
    """Logarithm of the sum of exp(score) over all projective trees of every sentence.

    Its gradients are marginals: with respect to the arc scores those of arcs, to the sibling scores
    those of pairs of siblings (and of arcs without an inner sibling), to the end scores the
    probability that a word is the outermost modifier on its side.

    Args:
        arc_scores, sibling_scores, lengths, end_scores, single_root: as `eisner_sibling`.
        backend: "auto", "torch" or "cpu" (native). Where a gradient is asked for, "auto" takes
            the torch form; "cpu" has none.

    Returns:
        float64 (B,), 0 for a sentence without words; differentiable in the torch form.

    Raises:
        ScoreError: wrong shapes, types, lengths or values; an unknown backend.
        NoTreeError: a sentence, named by its index, has no tree without forbidden parts.

    Cost: O(n^3) time; native code takes O(n^2) memory a sentence beside the scores.
    Source: McDonald & Pereira 2006, section 2.2, with sums for maxima; differs: as
    `eisner_sibling`.
    """
    if _choose(backend, arc_scores, sibling_scores, end_scores) == "cpu":
        checked = _checked(arc_scores, sibling_scores, lengths, end_scores)
        log_partition, _ = sum_trees(*checked, single_root=single_root, with_marginals=False)
    else:
        parts = _readable(arc_scores, sibling_scores, lengths, end_scores)
        log_partition = _inside_sums(parts, single_root, with_entropy=False)[0]
    require_trees(log_partition)
    return log_partition


def eisner_sibling_marginals(
    arc_scores: Tensor,
    sibling_scores: Tensor,
    lengths: Tensor,
    *,
    end_scores: Tensor | None = None,
    single_root: bool = False,
    backend: str = "auto",
) -> Tensor:
    """Probability of every arc, trees having probabilities proportional to exp(score).

    Args:
        as `eisner_sibling_log_partition`, whose gradients are the marginals of the other parts.

    Returns:
        float64 (B, N, N): each word's column sums to 1; 0 where scores are not read.
        Differentiable in the torch form.

    Raises:
        as `eisner_sibling_log_partition`.

    Cost: as `eisner_sibling_log_partition`; in torch O(n^3) memory.
    Source: inside-outside; in torch the outside part is the derivative of the inside part.
    """
    if _choose(backend, arc_scores, sibling_scores, end_scores) == "cpu":
        checked = _checked(arc_scores, sibling_scores, lengths, end_scores)
        log_partition, marginals = sum_trees(*checked, single_root=single_root)
    else:
        parts = _readable(arc_scores, sibling_scores, lengths, end_scores)
        needs_gradient = _needs_gradient(*parts[:3])
        log_partition, marginals = _marginals_torch(parts, single_root, needs_gradient)
    require_trees(log_partition)
    return marginals


def eisner_sibling_entropy(
    arc_scores: Tensor,
    sibling_scores: Tensor,
    lengths: Tensor,
    *,
    end_scores: Tensor | None = None,
    single_root: bool = False,
) -> Tensor:
    """Entropy of the distribution over projective trees, in nats; as `eisner_entropy`.

    Args:
        as `eisner_sibling_log_partition`; always in torch.

    Returns:
        float64 (B,), 0 for a sentence without words; differentiable.

    Raises:
        as `eisner_sibling_log_partition`.

    Cost: O(n^3) time and memory.
    Source: as `eisner_entropy`.
    """
    parts = _readable(arc_scores, sibling_scores, lengths, end_scores)
    log_partition, entropy = _inside_sums(parts, single_root, with_entropy=True)
    require_trees(log_partition)
    return entropy


def eisner_sibling_sample(
    arc_scores: Tensor,
    sibling_scores: Tensor,
    lengths: Tensor,
    n_samples: int,
    generator: torch.Generator | None = None,
    *,
    end_scores: Tensor | None = None,
    single_root: bool = False,
) -> Tensor:
    """Independent projective trees, each drawn with its exact probability; as `eisner_sample`.

    Args:
        arc_scores, sibling_scores, lengths, end_scores, single_root: as `eisner_sibling`.
        n_samples: trees for each sentence.
        generator: where randomness comes from; None: torch's own. It moves on by B numbers.

    Returns:
        heads int64 (B, n_samples, N), -1 at position 0 and in padding, on the device of the scores.

    Raises:
        as `eisner_sibling_log_partition`; ScoreError for a negative number of samples.

    Cost: O(n^3) once and O(n^2) a sample; in native code and main memory, whatever the device.
    Source: top-down through the inside chart.
    """
    require_sample_count(n_samples)
    checked = _checked(arc_scores, sibling_scores, lengths, end_scores)
    seeds = draw_seeds(len(arc_scores), generator)
    log_partition, heads = draw_trees(
        *(part.cpu() for part in checked),
        n_samples=n_samples,
        seeds=seeds,
        single_root=single_root,
    )
    require_trees(log_partition)
    return heads.to(arc_scores.device)


class _Parts(NamedTuple):
    """Checked scores as float64."""

    arcs: Tensor
    siblings: Tensor
    ends: Tensor
    lengths: Tensor


def _needs_gradient(*scores: Tensor | None) -> bool:
    return torch.is_grad_enabled() and any(s is not None and s.requires_grad for s in scores)


def _choose(backend: str, arcs: Tensor, siblings: Tensor, ends: Tensor | None) -> str:
    if backend == "auto" and _needs_gradient(arcs, siblings, ends):
        return "torch"
    return choose_backend(backend, arcs.device)


def _checked(
    arc_scores: Tensor, sibling_scores: Tensor, lengths: Tensor, end_scores: Tensor | None
) -> _Parts:
    """For native code, which reads no other cells than those of parts."""
    *scores, lengths = check_sibling_scores(arc_scores, sibling_scores, lengths, end_scores)
    arcs, siblings, ends = (part.to(torch.float64) for part in scores)
    return _Parts(arcs, siblings, ends, lengths)


def _readable(
    arc_scores: Tensor, sibling_scores: Tensor, lengths: Tensor, end_scores: Tensor | None
) -> _Parts:
    """0 where nothing is to be read, still differentiable."""
    checked = check_sibling_scores(arc_scores, sibling_scores, lengths, end_scores)
    n_nodes, lengths = arc_scores.shape[1], checked[3]
    read = read_cells(lengths, n_nodes)
    arcs = torch.where(read, arc_scores.to(torch.float64), 0.0)
    ends = torch.zeros_like(arcs)
    if end_scores is not None:
        ends = torch.where(read, end_scores.to(torch.float64), 0.0)
    of_three = read_sibling_cells(lengths, n_nodes)
    siblings = torch.where(of_three, sibling_scores.to(torch.float64), 0.0)
    return _Parts(arcs, siblings, ends, lengths)


def _marginals_torch(
    parts: _Parts, single_root: bool, needs_gradient: bool
) -> tuple[Tensor, Tensor]:
    """Log-partition (B,) and arc marginals (B, N, N) by differentiation."""
    if not needs_gradient:
        with torch.inference_mode(False):  # autograd refuses tensors made in inference mode
            parts = _Parts(*(part.detach().clone() for part in parts))

    def log_partitions(arcs: Tensor) -> Tensor:
        return _inside_sums(parts._replace(arcs=arcs), single_root, with_entropy=False)[0]

    return differentiate(log_partitions, parts.arcs, keep_gradients=needs_gradient)


def _inside_sums(parts: _Parts, single_root: bool, with_entropy: bool) -> Tensor:
    """Log-partition and, if asked for, entropy: (1 or 2, B)."""
    scores = {"arc": parts.arcs, "sib": parts.siblings, "end": parts.ends}
    return log_sums(
        CHART, scores, parts.lengths, single_root=single_root, with_entropy=with_entropy
    )
