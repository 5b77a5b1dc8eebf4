"""Sums over projective trees with sibling parts: log-partition, marginals, entropy, samples."""

from typing import NamedTuple

import torch
from torch import Tensor

from gpuparse.inference.backends import choose_backend
from gpuparse.inference.eisner_sums import (
    add_to_log,
    arcs_by_width,
    at_lengths,
    column_tops,
    draw_seeds,
    grow,
    require_sample_count,
    sum_over_roots,
    sum_splits,
    sums_without_words,
    with_components,
)
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
        backend: "auto", "torch" or "cpu" (compiled). Where a gradient is asked for, "auto" takes
            the torch form; "cpu" has none.

    Returns:
        float64 (B,), 0 for a sentence without words; differentiable in the torch form.

    Raises:
        ScoreError: wrong shapes, types, lengths or values; an unknown backend.
        NoTreeError: a sentence, named by its index, has no tree without forbidden parts.

    Cost: O(n^3) time; compiled, O(n^2) memory a sentence beside the scores.
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

    Cost: O(n^3) once and O(n^2) a sample; compiled, in main memory, whatever the device.
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
    """For compiled code, which looks at nothing that is not to be read."""
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
    with torch.inference_mode(False), torch.enable_grad():
        arcs = parts.arcs
        if not needs_gradient:
            parts = _Parts(*(part.detach().clone() for part in parts))
            arcs = parts.arcs.requires_grad_()
        elif not arcs.requires_grad:  # the gradient goes to other parts
            arcs = arcs.detach().requires_grad_()
            parts = parts._replace(arcs=arcs)
        log_partition = _inside_sums(parts, single_root, with_entropy=False)[0]
        (marginals,) = torch.autograd.grad(
            log_partition.masked_fill(log_partition == -torch.inf, 0.0).sum(),
            arcs,
            create_graph=needs_gradient,
        )
    return log_partition, marginals


def _inside_sums(parts: _Parts, single_root: bool, with_entropy: bool) -> Tensor:
    """Log-partition and, if asked for, entropy: (1 or 2, B), all spans of one width at once.

    Charts as in `eisner_sums`; E: incomplete spans with the end of the modifiers on that side.
    """
    if parts.arcs.shape[1] == 1:
        return sums_without_words(parts.arcs, with_entropy)
    top = column_tops(parts.arcs, parts.lengths)
    first = 1 if single_root else 0
    arcs = with_components(parts.arcs - top[:, None], with_entropy)
    ends = with_components(parts.ends, with_entropy)
    siblings = with_components(parts.siblings, with_entropy)
    arc_R, arc_L = arcs_by_width(arcs, first)
    end_R, end_L = arcs_by_width(ends, first)
    sib_R, sib_L = siblings_by_width(siblings, first)
    n_nodes = arcs.shape[-1] - first
    empty = arcs.new_zeros((*arcs.shape[:2], 1, n_nodes))
    C_R_left = C_L_left = C_R_right = C_L_right = empty
    I_R_left = E_R_left = S_left = I_L_right = E_L_right = S_right = empty[:, :, :0]
    rows = [empty[:, :, 0]]  # C_R by start
    for w in range(1, n_nodes):
        C_R_left, C_L_left, I_R_left, E_R_left, S_left = (
            x[..., :-1] for x in (C_R_left, C_L_left, I_R_left, E_R_left, S_left)
        )
        C_R_right, C_L_right, I_L_right, E_L_right, S_right = (
            x[..., 1:] for x in (C_R_right, C_L_right, I_L_right, E_L_right, S_right)
        )
        # I_R(i,j) = arc(i,j) (C_L(i+1,j) sib(i,-,j) + sum_{i<k<j} I_R(i,k) S(k,j) sib(i,k,j))
        inner = torch.cat([C_L_right[:, :, :1], I_R_left + S_right], 2)
        I_R = sum_splits(inner + sib_R[w - 1]) + arc_R[w - 1]
        # I_L(i,j) = arc(j,i) (C_R(i,j-1) sib(j,-,i) + sum_{i<k<j} S(i,k) I_L(k,j) sib(j,k,i))
        inner = torch.cat([C_R_left[:, :, -1:], S_left + I_L_right], 2)
        I_L = sum_splits(inner + sib_L[w - 1]) + arc_L[w - 1]
        # S(i,j) = sum_{i<=r<j} C_R(i,r) C_L(r+1,j)
        S = sum_splits(C_R_left + C_L_right)
        S_left, S_right = grow(S_left, S_right, S)
        I_R_left = torch.cat([I_R_left, I_R[:, :, None]], 2)
        I_L_right = torch.cat([I_L[:, :, None], I_L_right], 2)
        # C_R(i,j) = sum_{i<r<=j} I_R(i,r) end(i,r) C_R(r,j)
        # C_L(i,j) = sum_{i<=r<j} C_L(i,r) I_L(r,j) end(j,r)
        E_R_left = torch.cat([E_R_left, (I_R + end_R[w - 1])[:, :, None]], 2)
        E_L_right = torch.cat([(I_L + end_L[w - 1])[:, :, None], E_L_right], 2)
        C_R = sum_splits(E_R_left + C_R_right)
        C_L = sum_splits(C_L_left + E_L_right)
        rows.append(C_R)
        C_R_left, C_R_right = grow(C_R_left, C_R_right, C_R)
        C_L_left, C_L_right = grow(C_L_left, C_L_right, C_L)
    if single_root:
        of_root = arcs[:, :, 0, 1:] + siblings[:, :, 0, 1:, 0] + ends[:, :, 0, 1:]
        sums = sum_over_roots(C_L_left[..., 0], rows, of_root, parts.lengths)
    else:
        sums = at_lengths(C_R_left[..., 0], parts.lengths)
    return add_to_log(sums, top.sum(1), parts.lengths)


def siblings_by_width(
    scores: Tensor, first: int
) -> tuple[list[Tensor], list[Tensor]]:  # fmt: skip
    """Sibling scores (S, B, N, N, N) of all arcs to the right and to the left, by their width w.

    Returns:
        for each width, (S, B, w, starts): at d = 0 without a sibling, else with k = i + d.
    """
    n_all = scores.shape[-1]
    n_nodes = n_all - first
    to_right, to_left, shapes = [], [], []
    for w in range(1, n_nodes):
        i = torch.arange(first, n_all - w, device=scores.device)
        d = torch.arange(w, device=scores.device)[:, None]
        k_or_end = torch.where(d == 0, i + w, i + d)
        to_right.append(((i * n_all + i + w) * n_all + i + d).flatten())
        to_left.append((((i + w) * n_all + i) * n_all + k_or_end).flatten())
        shapes.append((w, n_nodes - w))
    flat = scores.flatten(2)
    return _gather_cells(flat, to_right, shapes), _gather_cells(flat, to_left, shapes)


def _gather_cells(
    flat: Tensor, cells: list[Tensor], shapes: list[tuple[int, int]]
) -> list[Tensor]:  # fmt: skip
    """For each list of cells of (S, B, cells) a tensor (S, B, *shape), gathered in one go."""
    if not cells:
        return []
    gathered = flat.index_select(2, torch.cat(cells)).split([len(c) for c in cells], 2)
    return [
        part.reshape(*part.shape[:2], *shape) for part, shape in zip(gathered, shapes, strict=True)
    ]
