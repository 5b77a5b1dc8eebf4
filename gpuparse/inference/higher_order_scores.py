"""The check of scores of parts that span three arcs, or two that hang on each other."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from gpuparse import native
from gpuparse.errors import ScoreError
from gpuparse.inference.scores import (
    as_float,
    check_sibling_scores,
    inner_siblings,
    is_outermost,
    read_cells,
)

# The last axes of the scores of a part of h -> m: [g], the head of h; [s, g]; [s, t], siblings.
GRANDPARENT, GRAND_SIBLING, TRI_SIBLING = range(3)


@dataclass(frozen=True)
class Parts:
    """Checked scores of a batch, in one type; None for those that were not given.

    arc, end: (B, N, N); sibling, grandparent: (B, N, N, N); grand_sibling, tri_sibling, outermost:
    (B, N, N, N, N); lengths: (B,).
    """

    arc: Tensor
    sibling: Tensor
    end: Tensor
    lengths: Tensor
    grandparent: Tensor | None = None
    grand_sibling: Tensor | None = None
    tri_sibling: Tensor | None = None
    outermost: Tensor | None = None


def check_parts(
    arc_scores: Tensor,
    lengths: Tensor,
    *,
    sibling_scores: Tensor | None = None,
    end_scores: Tensor | None = None,
    grandparent_scores: Tensor | None = None,
    grand_sibling_scores: Tensor | None = None,
    tri_sibling_scores: Tensor | None = None,
    outermost_scores: Tensor | None = None,
) -> Parts:
    """`check_sibling_scores` for decoders that read higher-order parts too; None: zeros.

    Args:
        arc_scores, lengths, sibling_scores, end_scores: as in `check_sibling_scores`.
        grandparent_scores: (B, N, N, N), [b, h, m, g]: g is the head of h; read where g is
            outside the span of h and m, and g == 0 for h == 0.
        grand_sibling_scores: (B, N, N, N, N), [b, h, m, s, g]: s as for siblings, g as above.
        tri_sibling_scores: (B, N, N, N, N), [b, h, m, s, t]: t is the inner sibling of s, t == h:
            there is none; for s == h only t == h is read.
        outermost_scores: (B, N, N, N, N), [b, h, m, s, g], read like those of grand-siblings.

    Returns:
        The scores, detached and contiguous, in the widest type of all. Scores of higher-order
        parts are -inf or at most a 1/(8n + 8)-th of the largest float, so that no sum overflows.

    Raises:
        ScoreError: a wrong shape, type, device or length, or an unusable value that is read.

    Cost: O(B N^4).
    """
    n_nodes = arc_scores.shape[-1] if arc_scores.dim() else 0
    if sibling_scores is None:
        shape = (*arc_scores.shape, n_nodes)
        sibling_scores = torch.zeros(shape, dtype=torch.float16, device=arc_scores.device)
    arc, sibling, end, lengths = check_sibling_scores(
        arc_scores, sibling_scores, lengths, end_scores
    )
    others = {
        "grandparent": _shaped(grandparent_scores, "grandparent_scores", arc, 1),
        "grand_sibling": _shaped(grand_sibling_scores, "grand_sibling_scores", arc, 2),
        "tri_sibling": _shaped(tri_sibling_scores, "tri_sibling_scores", arc, 2),
        "outermost": _shaped(outermost_scores, "outermost_scores", arc, 2),
    }
    dtype = arc.dtype
    for scores in others.values():
        dtype = dtype if scores is None else torch.promote_types(dtype, scores.dtype)
    checked = {}
    for name, scores in others.items():
        if scores is not None:
            scores = scores.to(dtype).contiguous()
            _require_usable(scores, lengths, name)
        checked[name] = scores
    return Parts(arc.to(dtype), sibling.to(dtype), end.to(dtype), lengths, **checked)


_KINDS = {
    "grandparent": GRANDPARENT,
    "grand_sibling": GRAND_SIBLING,
    "tri_sibling": TRI_SIBLING,
    "outermost": GRAND_SIBLING,
}


def _shaped(scores: Tensor | None, name: str, arc: Tensor, n_contexts: int) -> Tensor | None:
    if scores is None:
        return None
    expected = (*arc.shape, *[arc.shape[1]] * n_contexts)
    if scores.shape != expected:
        raise ScoreError(f"{name} has shape {tuple(scores.shape)}, expected {expected}")
    if scores.device != arc.device:
        raise ScoreError(f"{name} is on {scores.device}, arc_scores on {arc.device}")
    return as_float(scores, name).detach()


def _require_usable(scores: Tensor, lengths: Tensor, name: str) -> None:
    if scores.device.type == "cpu":
        position = np.empty(5, np.int64)
        rows = scores.flatten(1).numpy()
        native.call(
            "find_unusable_part", rows, lengths.numpy(), scores.shape[1], _KINDS[name], position
        )
        b, h, m, x, y = position.tolist()
    else:
        b, h, m, x, y = _first_unusable_part(scores, lengths, _KINDS[name])
    if b < 0:
        return
    context = [x, y] if scores.dim() == 5 else [y]
    value = scores[(b, h, m, *context)].item()
    limit = torch.finfo(scores.dtype).max / (8 * (int(lengths[b]) + 1))
    raise ScoreError(
        f"{name}_scores: sentence {b}: the score at {[h, m, *context]} is {value}; expected -inf "
        f"(forbidden) or a number between -{limit:.3g} and {limit:.3g}"
    )


def _first_unusable_part(scores: Tensor, lengths: Tensor, kind: int) -> list[int]:
    """As the compiled form, on any device."""
    cells = scores if scores.dim() == 5 else scores[:, :, :, None]
    limit = torch.finfo(scores.dtype).max / (8 * (lengths + 1)).to(scores.dtype)
    usable = (cells == -torch.inf) | (cells.abs() <= limit[:, None, None, None, None])
    bad = (read_part_cells(lengths, scores.shape[1], kind) & ~usable).nonzero()
    return bad[0].tolist() if len(bad) else [-1] * 5


def read_part_cells(lengths: Tensor, n_nodes: int, kind: int) -> Tensor:
    """True for the cells [b, h, m, x, y] that a decoder may read; x is 0 alone for grandparents."""
    position = torch.arange(n_nodes, device=lengths.device)
    h, m = position[:, None, None, None], position[:, None, None]
    x, y = position[:, None], position
    low, high = torch.minimum(h, m), torch.maximum(h, m)
    is_grandparent = torch.where(h == 0, y == 0, (y < low) | (y > high))
    is_sibling = (x == h) | ((low < x) & (x < high))
    is_inner = torch.where(h < m, (h < y) & (y < x), (x < y) & (y < h)) & (x != h)
    is_part = {
        GRANDPARENT: is_grandparent,
        GRAND_SIBLING: is_sibling & is_grandparent,
        TRI_SIBLING: is_sibling & (is_inner | (y == h)),
    }[kind]
    inside = position <= lengths[:, None]
    read = read_cells(lengths, n_nodes)[..., None, None] & is_part
    read = read & inside[:, None, None, None]
    return read if kind == GRANDPARENT else read & inside[:, None, None, :, None]


def parts_of_trees(heads: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """What the parts of every word are made of, all (B, N), anything where there is no head.

    Args:
        heads: (B, N), -1 at the root and in padding.

    Returns:
        h; s, the inner sibling, h for none; t, that of s, h for none; g, the head of h, 0 for that
        of the root; whether the word is the outermost modifier of h on its side.
    """
    h, s = heads.clamp(min=0), inner_siblings(heads)
    t = torch.where(s == h, h, s.gather(1, s))
    return h, s, t, heads.gather(1, h).clamp(min=0), is_outermost(heads)


class NativeScores(NamedTuple):
    """`HigherOrderScores` of native/api/higher.h: float (B, cells), None for those not given."""

    arc: np.ndarray
    sibling: np.ndarray | None = None
    grandparent: np.ndarray | None = None
    grand_sibling: np.ndarray | None = None
    tri_sibling: np.ndarray | None = None
    outermost: np.ndarray | None = None
    end: np.ndarray | None = None

    def of_sentences(self, part: slice) -> "NativeScores":
        """The scores of some sentences."""
        return NativeScores(*(None if scores is None else scores[part] for scores in self))


def native_scores(parts: Any) -> NativeScores:
    """Checked scores in main memory, contiguous, as compiled code takes them."""
    fields = ((getattr(parts, field, None)) for field in NativeScores._fields)
    return NativeScores(*(None if part is None else part.flatten(1).numpy() for part in fields))
