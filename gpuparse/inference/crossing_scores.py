"""The check and the sums of scores of parts with grandparents, where arcs may cross; of labels.

Other than in projective trees, the head of a head may stand anywhere but at the modifier.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from gpuparse import native
from gpuparse.errors import ScoreError
from gpuparse.inference.scores import (
    as_float,
    check_scores,
    check_sibling_scores,
    inner_siblings,
    is_outermost,
    read_cells,
    read_sibling_cells,
)
from gpuparse.tensors import word_mask

MOST_LIMITS = 10  # sets of labels: the work doubles with each


@dataclass(frozen=True)
class CrossingParts:
    """Checked scores of a batch, all in one type; None for those that were not given.

    arc, end: (B, N, N); sibling, grandparent: (B, N, N, N); grand_sibling: (B, N, N, N, N);
    lengths: (B,).
    """

    arc: Tensor
    lengths: Tensor
    sibling: Tensor | None = None
    grandparent: Tensor | None = None
    grand_sibling: Tensor | None = None
    end: Tensor | None = None

    @property
    def has_grandparents(self) -> bool:
        return self.grandparent is not None or self.grand_sibling is not None


def check_crossing_parts(
    arc_scores: Tensor,
    lengths: Tensor,
    *,
    sibling_scores: Tensor | None = None,
    grandparent_scores: Tensor | None = None,
    grand_sibling_scores: Tensor | None = None,
    end_scores: Tensor | None = None,
) -> CrossingParts:
    """`check_scores` for decoders of crossing arcs that read higher-order parts too.

    Args:
        arc_scores, lengths: as in `check_scores`; sibling_scores, end_scores: as in
            `check_sibling_scores`.
        grandparent_scores: (B, N, N, N), [b, h, m, g], g the head of h; read where g is neither h
            nor m, and g == 0 for h == 0.
        grand_sibling_scores: (B, N, N, N, N), [b, h, m, s, g]: s as for siblings, g as above.

    Raises:
        ScoreError: a wrong shape, type, device or length, or an unusable value that is read.

    Cost: O(B N^4) with grand-sibling scores.
    """
    checked = check_scores(arc_scores, lengths)
    arc, words = checked.arc, checked.lengths
    n_nodes = arc.shape[1]
    sibling, end = None, None
    if sibling_scores is not None:
        arc, sibling, end, words = check_sibling_scores(
            arc_scores, sibling_scores, lengths, end_scores
        )
    elif end_scores is not None:
        end = _checked(end_scores, "end_scores", arc, words, 2, lambda: read_cells(words, n_nodes))
    grandparent, grand_sibling = None, None
    if grandparent_scores is not None:
        grandparent = _checked(
            grandparent_scores, "grandparent_scores", arc, words, 3,
            lambda: read_grandparent_cells(words, n_nodes),
        )  # fmt: skip
    if grand_sibling_scores is not None:
        grand_sibling = _checked(
            grand_sibling_scores, "grand_sibling_scores", arc, words, 4,
            lambda: read_sibling_cells(words, n_nodes)[..., None]
            & read_grandparent_cells(words, n_nodes)[:, :, :, None],
        )  # fmt: skip
    given = [part for part in (sibling, grandparent, grand_sibling, end) if part is not None]
    dtype = arc.dtype
    for part in given:
        dtype = torch.promote_types(dtype, part.dtype)
    others = [_as(part, dtype) for part in (sibling, grandparent, grand_sibling, end)]
    return CrossingParts(arc.to(dtype), words, *others)


def _as(part: Tensor | None, dtype: torch.dtype) -> Tensor | None:
    return None if part is None else part.to(dtype).contiguous()


def read_grandparent_cells(lengths: Tensor, n_nodes: int) -> Tensor:
    """True for the cells [b, h, m, g] that a decoder may read."""
    position = torch.arange(n_nodes, device=lengths.device)
    h, m, g = position[:, None, None], position[:, None], position
    is_node = word_mask(lengths, n_nodes)
    is_node[:, :1] = True
    is_part = torch.where(h == 0, g == 0, (g != h) & (g != m))
    return read_cells(lengths, n_nodes)[..., None] & is_part & is_node[:, None, None]


def _checked(
    scores: Tensor,
    name: str,
    arc: Tensor,
    lengths: Tensor,
    n_axes: int,
    read: Callable[[], Tensor],
) -> Tensor:
    """The scores, detached; read: makes a bool tensor of their shape, true for cells that count."""
    shape = (len(arc), *[arc.shape[1]] * n_axes)
    if scores.shape != shape or scores.device != arc.device:
        raise ScoreError(
            f"{name} has shape {tuple(scores.shape)} on {scores.device}, expected "
            f"{shape} on {arc.device}"
        )
    scores = as_float(scores, name).detach()
    limit = torch.finfo(scores.dtype).max / (8 * (lengths + 1)).to(scores.dtype)
    if scores.device.type == "cpu" and not _any_suspicious(scores, lengths, limit):
        return scores
    limit = limit.view(-1, *[1] * (scores.dim() - 1))
    bad = (read() & ~((scores == -torch.inf) | (scores.abs() <= limit))).nonzero()
    if len(bad):
        b, *place = bad[0].tolist()
        raise ScoreError(
            f"{name}: sentence {b}: the score at {place} is {scores[(b, *place)].item()}; expected "
            f"-inf (forbidden) or a number between -{limit[b].item():.3g} and "
            f"{limit[b].item():.3g}"
        )
    return scores


def _any_suspicious(scores: Tensor, lengths: Tensor, limit: Tensor) -> bool:
    """Whether any number is unusable, be it read or not; so that masks are made only then."""
    found = np.empty(len(scores), np.bool_)
    rows = scores.contiguous().flatten(2).numpy()
    limits = limit.double().numpy()
    native.call("find_suspicious_sentences", rows, lengths.numpy(), limits, found)
    return bool(found.any())


def crossing_tree_scores(parts: CrossingParts, heads: Tensor) -> Tensor:
    """Sums over words 1, 2, ..., n of the folded score of a word's part, then of its end.

    Args:
        parts: their scores may be -inf where nothing is read; heads: (B, N), all -1 where there is
            no tree.

    Returns:
        float64 (B,), -inf where there is no tree; ((arc + sibling) + grandparent) + grand-sibling
        is added in the type of the scores.
    """
    is_word = word_mask(parts.lengths, heads.shape[1])
    position = torch.arange(heads.shape[1], device=heads.device)
    b, h = torch.arange(len(heads), device=heads.device)[:, None], heads.clamp(min=0)
    s, g = inner_siblings(heads), heads.gather(1, h).clamp(min=0)
    of_words = parts.arc[b, h, position]
    if parts.sibling is not None:
        of_words = of_words + parts.sibling[b, h, position, s]
    if parts.grandparent is not None:
        of_words = of_words + parts.grandparent[b, h, position, g]
    if parts.grand_sibling is not None:
        of_words = of_words + parts.grand_sibling[b, h, position, s, g]
    of_words = of_words.double().masked_fill(~is_word, 0.0)
    of_ends = torch.zeros_like(of_words)
    if parts.end is not None:
        is_end = is_word & is_outermost(heads)
        of_ends = parts.end[b, h, position].double().masked_fill(~is_end, 0.0)
    total = of_words.new_zeros(len(heads))
    for of_word, of_end in zip(of_words.unbind(1), of_ends.unbind(1), strict=True):
        total = (total + of_word) + of_end
    has_tree = ((heads >= 0) | ~is_word).all(1)
    return total.masked_fill(~has_tree, -torch.inf)


def check_label_scores(label_scores: Tensor, parts: CrossingParts) -> Tensor:
    """float (B, N, N, L), contiguous."""
    expected = tuple(parts.arc.shape)
    if label_scores.dim() != 4 or tuple(label_scores.shape[:3]) != expected:
        raise ScoreError(
            f"label_scores has shape {tuple(label_scores.shape)}, expected {(*expected, 'L')}"
        )
    if label_scores.device != parts.arc.device or label_scores.is_complex():
        raise ScoreError(f"label_scores: expected real numbers on {parts.arc.device}")
    is_narrow = label_scores.dtype in (torch.float32, torch.float16, torch.bfloat16)
    scores = label_scores.detach().to(torch.float32 if is_narrow else torch.float64).contiguous()
    limit = torch.finfo(scores.dtype).max / (8 * (parts.arc.shape[1] + 1))
    read = read_cells(parts.lengths, expected[1])[..., None]
    bad = (read & ~((scores == -torch.inf) | (scores.abs() <= limit))).nonzero()
    if len(bad):
        b, *place = bad[0].tolist()
        raise ScoreError(
            f"label_scores: sentence {b}: the score at {place} is {scores[(b, *place)].item()}; "
            f"expected -inf (forbidden) or a number between -{limit:.3g} and {limit:.3g}"
        )
    return scores


def classes_of_labels(
    limits: Sequence[Sequence[int] | set[int] | frozenset[int]], n_labels: int
) -> tuple[np.ndarray, np.ndarray]:
    """The class of each label (L,), and the limits that each class is under, as bits (D,)."""
    if len(limits) > MOST_LIMITS:
        raise ScoreError(f"there are {len(limits)} limits, expected at most {MOST_LIMITS}")
    of_label = np.zeros(n_labels, np.int64)
    for k, limit in enumerate(limits):
        for label in limit:
            if not 0 <= label < n_labels:
                raise ScoreError(f"limit {k} names label {label}, there are {n_labels} labels")
            of_label[label] |= 1 << k
    masks, class_of = np.unique(of_label, return_inverse=True)
    return class_of.astype(np.int64), masks
