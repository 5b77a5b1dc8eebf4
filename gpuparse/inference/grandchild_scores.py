"""Scores of siblings and grandchildren with labels: their check, and the score of a tree."""

import numpy as np
import torch
from torch import Tensor

from gpuparse import native
from gpuparse.errors import ScoreError
from gpuparse.inference.scores import as_float, check_scores, inner_siblings, read_cells, word_mask

KINDS = ("sibling_scores", "inner_grandchild_scores", "outer_grandchild_scores")


def check_grandchild_scores(
    arc_scores: Tensor, lengths: Tensor, parts: tuple[Tensor | None, Tensor | None, Tensor | None]
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """`check_scores` for decoders that read sibling and grandchild scores with labels.

    Args:
        arc_scores: (B, N, N, L); lengths: (B,). parts: sibling, inner and outer grandchild scores,
            (B, N, N, N, L) or None for zeros, under the same rules, read where
            `read_grandchild_cells` says. If the types differ, all are used as the widest one.

    Returns:
        arc, sibling, inner and outer scores in one type, detached and contiguous, and lengths.

    Raises:
        ScoreError: a wrong shape, type, device or length, or an unusable value in a cell that is
        read.

    Cost: O(B N^3 L).
    """
    shape = tuple(arc_scores.shape)
    if len(shape) != 4 or shape[1] != shape[2] or shape[3] == 0:
        raise ScoreError(f"arc_scores has shape {shape}, expected (B, N, N, L), L > 0")
    arcs = as_float(arc_scores, "arc_scores").detach()
    lengths = check_scores(arcs.new_zeros(shape[:3]), lengths).lengths
    floats, wider = [], arcs.dtype
    for name, part in zip(KINDS, parts, strict=True):
        if part is None:
            floats.append(arcs.new_zeros(()))
            continue
        if part.shape != (*shape[:3], shape[1], shape[3]) or part.device != arcs.device:
            raise ScoreError(
                f"{name} has shape {tuple(part.shape)} on {part.device}, expected "
                f"{(*shape[:3], shape[1], shape[3])} on {arcs.device}, as arc_scores"
            )
        floats.append(as_float(part, name).detach())
        wider = torch.promote_types(wider, floats[-1].dtype)
    arcs = arcs.to(wider).contiguous()
    read = read_cells(lengths, shape[1])
    _require_usable(arcs, lengths, "arc_scores", read)
    checked = [part.to(wider).expand(*shape[:3], shape[1], shape[3]) for part in floats]
    for name, part, given in zip(KINDS, checked, parts, strict=True):
        if given is not None:
            _require_usable(part.contiguous(), lengths, name, read)
    sibling, inner, outer = (part.contiguous() for part in checked)
    return arcs, sibling, inner, outer, lengths


def read_grandchild_cells(kind: str, n_nodes: int, device: torch.device) -> Tensor:
    """True for the cells [h, m, c] of parts, bool (N, N, N), h and m being an arc.

    Siblings and inner grandchildren stand between h and m, outer ones beyond m. c == h is no
    sibling, c == m no modifier of m.
    """
    position = torch.arange(n_nodes, device=device)
    h, m, c = position[:, None, None], position[:, None], position
    none = c == (h if kind == "sibling_scores" else m)
    if kind == "outer_grandchild_scores":
        return none.expand(n_nodes, n_nodes, n_nodes) | torch.where(h < m, c > m, (c < m) & (c > 0))
    return none | ((h < c) & (c < m)) | ((m < c) & (c < h))


def _require_usable(scores: Tensor, lengths: Tensor, name: str, read: Tensor) -> None:
    """Raise ScoreError for the first cell that is read and that no decoder accepts."""
    n_nodes = scores.shape[1]
    limit = torch.finfo(scores.dtype).max / (4 * (lengths + 1)).double()
    suspicious = torch.ones(len(lengths), dtype=torch.bool)
    if scores.device.type == "cpu":
        found = np.empty(len(lengths), np.bool_)
        rows = scores.flatten(2).numpy()
        native.call("find_suspicious_sentences", rows, lengths.numpy(), limit.numpy(), found)
        suspicious = torch.from_numpy(found)
    for b in suspicious.nonzero()[:, 0].tolist():
        cells, n = scores[b], int(lengths[b])
        most = limit[b].to(scores.dtype)
        is_read = read[b]
        if name != "arc_scores":
            of_parts = read_grandchild_cells(name, n_nodes, scores.device)
            is_read = is_read[..., None] & of_parts
            is_read[..., n + 1 :] = False
        bad = is_read[..., None] & ~((cells == -torch.inf) | (cells.abs() <= most))
        if bad.any():
            place = tuple(bad.nonzero()[0].tolist())
            raise ScoreError(
                f"sentence {b}: {name} at {list(place[:-1])}, label {place[-1]}, is "
                f"{cells[place].item()}; expected -inf (forbidden) or a number between "
                f"-{most:.3g} and {most:.3g}"
            )


def grandchildren(heads: Tensor) -> tuple[Tensor, Tensor]:
    """The furthest modifier of each word inside and outside its arc; the word itself if none.

    Args:
        heads: (B, N), -1 at the root and in padding.

    Returns:
        two of int64 (B, N).

    Cost: O(B N^2).
    """
    n_nodes = heads.shape[1]
    position = torch.arange(n_nodes, device=heads.device)
    h, m, c = heads[:, :, None], position[:, None], position
    is_modifier = heads[:, None, :] == m
    before = torch.where(is_modifier & (c < m), c, n_nodes)
    after = torch.where(is_modifier & (c > m), c, -1)
    is_right = heads < position
    inner = torch.where(
        is_right,
        before.masked_fill(c <= h, n_nodes).amin(2),
        after.masked_fill(c >= h, -1).amax(2),
    )
    outer = torch.where(is_right, after.amax(2), before.amin(2))
    return tuple(
        torch.where((found > 0) & (found < n_nodes), found, position) for found in (inner, outer)
    )


def grandchild_tree_scores(
    arc_scores: Tensor,
    sibling_scores: Tensor,
    inner_scores: Tensor,
    outer_scores: Tensor,
    heads: Tensor,
    labels: Tensor,
    lengths: Tensor,
) -> Tensor:
    """Sum over words 1, 2, ..., n of arc + sibling, inner and outer score, one by one.

    Args:
        scores: as `check_grandchild_scores` returns them; heads, labels: (B, N); lengths: (B,).

    Returns:
        (B,) in the type of `arc_scores`.
    """
    is_word = word_mask(lengths, heads.shape[1])
    position = torch.arange(heads.shape[1], device=heads.device)
    b, h = torch.arange(len(heads), device=heads.device)[:, None], heads.clamp(min=0)
    label, (inner, outer) = labels.clamp(min=0), grandchildren(heads)
    siblings = sibling_scores[b, h, position, inner_siblings(heads), label]
    parts = (
        arc_scores[b, h, position, label] + siblings,
        inner_scores[b, h, position, inner, label],
        outer_scores[b, h, position, outer, label],
    )
    total = arc_scores.new_zeros(len(heads))
    columns = (part.masked_fill(~is_word, 0.0).unbind(1) for part in parts)
    for of_word in zip(*columns, strict=True):
        for score in of_word:
            total = total + score
    return total
