"""The check of scores of higher-order parts, and the parts of trees."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from gpuparse import native
from gpuparse.errors import ScoreError
from gpuparse.inference.backends import is_traced
from gpuparse.inference.scores import (
    Lengths,
    as_float,
    check_scores,
    check_sibling_scores,
    inner_siblings,
    is_outermost,
    read_cells,
    require_tensor,
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
    lengths: Tensor
    sibling: Tensor | None = None
    end: Tensor | None = None
    grandparent: Tensor | None = None
    grand_sibling: Tensor | None = None
    tri_sibling: Tensor | None = None
    outermost: Tensor | None = None

    @property
    def has_grandparents(self) -> bool:
        return self.grandparent is not None or self.grand_sibling is not None


def check_parts(
    arc_scores: Tensor,
    lengths: Lengths,
    *,
    sibling_scores: Tensor | None = None,
    end_scores: Tensor | None = None,
    grandparent_scores: Tensor | None = None,
    grand_sibling_scores: Tensor | None = None,
    tri_sibling_scores: Tensor | None = None,
    outermost_scores: Tensor | None = None,
    may_cross: bool = False,
) -> Parts:
    """`check_sibling_scores` for decoders that read higher-order parts too.

    Args:
        arc_scores, lengths: as in `check_scores`; sibling_scores, end_scores: as in
            `check_sibling_scores`, or None.
        grandparent_scores: (B, N, N, N), [b, h, m, g]: g is the head of h; read where g is outside
            the span of h and m, or with may_cross neither h nor m, and g == 0 for h == 0.
        grand_sibling_scores: (B, N, N, N, N), [b, h, m, s, g]: s as for siblings, g as above.
        tri_sibling_scores: (B, N, N, N, N), [b, h, m, s, t]: t is the inner sibling of s, t == h:
            there is none; for s == h only t == h is read.
        outermost_scores: (B, N, N, N, N), [b, h, m, s, g], read like those of grand-siblings.
        may_cross: arcs may cross, so that the head of h may be any other word.

    Returns:
        The scores, detached and contiguous, in the widest type of all. Scores of higher-order
        parts are -inf or at most a 1/(8n + 8)-th of the largest float, so that no sum overflows.

    Raises:
        ScoreError: a wrong shape, type, device or length, or an unusable value that is read.

    Cost: O(B N^4) with scores of four words.
    """
    scores = check_scores(arc_scores, lengths)
    arc, words = scores.arc, scores.lengths
    given = {
        "grandparent": _shaped(grandparent_scores, "grandparent_scores", arc, 1),
        "grand_sibling": _shaped(grand_sibling_scores, "grand_sibling_scores", arc, 2),
        "tri_sibling": _shaped(tri_sibling_scores, "tri_sibling_scores", arc, 2),
        "outermost": _shaped(outermost_scores, "outermost_scores", arc, 2),
    }
    if sibling_scores is None:
        given["end"] = _shaped(end_scores, "end_scores", arc, 0)
    else:
        arc, sibling, end, words = check_sibling_scores(
            arc_scores, sibling_scores, lengths, end_scores
        )
        given |= {"sibling": sibling, "end": end if end_scores is not None else None}
    dtype = arc.dtype
    for part in given.values():
        dtype = dtype if part is None else torch.promote_types(dtype, part.dtype)
    checked = {}
    for name, part in given.items():
        checked[name] = None if part is None else part.to(dtype).contiguous()
        if checked[name] is not None and name != "sibling":
            _require_usable(checked[name], words, name, may_cross)
    return Parts(arc.to(dtype), words, **checked)


def _shaped(scores: Tensor | None, name: str, arc: Tensor, n_contexts: int) -> Tensor | None:
    if scores is None:
        return None
    require_tensor(scores, name)
    expected = (*arc.shape, *[arc.shape[1]] * n_contexts)
    if scores.shape != expected:
        raise ScoreError(f"{name} has shape {tuple(scores.shape)}, expected {expected}")
    if scores.device != arc.device:
        raise ScoreError(f"{name} is on {scores.device}, arc_scores on {arc.device}")
    return as_float(scores, name).detach()


def _require_usable(scores: Tensor, lengths: Tensor, name: str, may_cross: bool) -> None:
    """Raise ScoreError for the first score that is read and that no decoder accepts."""
    if is_traced():
        return
    limit = torch.finfo(scores.dtype).max / (8 * (lengths + 1)).to(scores.dtype)
    which = torch.arange(len(scores), device=scores.device)
    if scores.device.type == "cpu" and native.is_available():
        found = np.empty(len(scores), np.bool_)
        limits = limit.double().numpy()
        native.call(
            "find_suspicious_sentences", scores.flatten(2).numpy(), lengths.numpy(), limits, found
        )
        which = torch.from_numpy(found).nonzero()[:, 0]
    if not len(which):
        return
    cells, most = scores[which], limit[which].view(-1, *[1] * (scores.dim() - 1))
    read = _read_cells(lengths[which], scores.shape[1], name, may_cross)
    bad = (read & ~((cells == -torch.inf) | (cells.abs() <= most))).nonzero()
    if len(bad):
        k, *place = bad[0].tolist()
        raise ScoreError(
            f"{name}_scores: sentence {int(which[k])}: the score at {place} is "
            f"{cells[(k, *place)].item()}; expected -inf (forbidden) or a number between "
            f"-{most[k].item():.3g} and {most[k].item():.3g}"
        )


def _read_cells(lengths: Tensor, n_nodes: int, name: str, may_cross: bool) -> Tensor:
    """True for the cells that a decoder may read, in the shape of the scores."""
    if name == "end":
        return read_cells(lengths, n_nodes)
    kind = {"grandparent": GRANDPARENT, "tri_sibling": TRI_SIBLING}.get(name, GRAND_SIBLING)
    read = read_part_cells(lengths, n_nodes, kind, may_cross=may_cross)
    return read[:, :, :, 0] if kind == GRANDPARENT else read


def read_part_cells(lengths: Tensor, n_nodes: int, kind: int, *, may_cross: bool = False) -> Tensor:
    """True for the cells [b, h, m, x, y] that a decoder may read; x is 0 alone for grandparents."""
    position = torch.arange(n_nodes, device=lengths.device)
    h, m = position[:, None, None, None], position[:, None, None]
    x, y = position[:, None], position
    low, high = torch.minimum(h, m), torch.maximum(h, m)
    is_above = (y != h) & (y != m) if may_cross else (y < low) | (y > high)
    is_grandparent = torch.where(h == 0, y == 0, is_above)
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
        return NativeScores._make(None if scores is None else scores[part] for scores in self)


def native_scores(parts: Parts) -> NativeScores:
    """Checked scores in main memory, contiguous, as compiled code takes them."""
    fields = (getattr(parts, field) for field in NativeScores._fields)
    return NativeScores._make(None if part is None else part.flatten(1).numpy() for part in fields)
