"""Scores of parts, which decoders read, and the one place where they are checked."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor

from gpuparse import native
from gpuparse.data.parts import axes_of
from gpuparse.errors import NoTreeError, ScoreError
from gpuparse.inference.engines import is_traced


def word_mask(lengths: Tensor, n_nodes: int) -> Tensor:
    """The positions of words, without the root and padding.

    Args:
        lengths: words of each sentence, int (B,).
        n_nodes: N, positions including the root.
    Returns: bool (B, N).
    """
    position = torch.arange(n_nodes, device=lengths.device)
    return (position > 0) & (position <= lengths[:, None])


Lengths: TypeAlias = Tensor | np.ndarray | Sequence[int] | None
"""The numbers of words, as public functions take them; None: no padding."""


@dataclass(frozen=True)
class Scores:
    """Scores of the parts of a batch of sentences: what decoders read, from any model.

    arc: head h -> modifier m, float (B, N, N); lengths: words of each sentence, int64 (B,).
    sibling: [b, h, m, s], s the inner sibling of m, or h if there is none, float (B, N, N, N); end:
    [b, h, m], m the outermost modifier of h on its side, float (B, N, N), None for zeros.
    Higher-order parts, None for zeros: grandparent [b, h, m, g], inner_grandchild and
    outer_grandchild [b, h, m, c]; grand_sibling and outermost [b, h, m, s, g], tri_sibling
    [b, h, m, s, t]. The decoders that read them say what they are and how absence is written.
    """

    arc: Tensor
    lengths: Tensor
    sibling: Tensor | None = None
    end: Tensor | None = None
    grandparent: Tensor | None = None
    grand_sibling: Tensor | None = None
    tri_sibling: Tensor | None = None
    outermost: Tensor | None = None
    inner_grandchild: Tensor | None = None
    outer_grandchild: Tensor | None = None


def check_scores(arc_scores: Tensor, lengths: Lengths) -> Scores:
    """Check everything that decoders rely on, once.

    Args:
        arc_scores: (B, N, N), where N is the number of words of the longest sentence and the root.
            float32 and float64 are used as they are; half precision is widened to float32 and
            integers to float64 (exact up to 2^53). Read cells hold -inf (forbidden) or finite
            numbers of at most a 1/(4n + 4)-th of the largest float, so that no sum overflows.
            Column 0, the diagonal and padding may hold anything.
        lengths: words of each sentence, integers (B,), 0..N-1; None: N-1 of each.
    Returns:
        Scores, detached, contiguous, both on the device of `arc_scores`; no input is written to.
    Raises: ScoreError: a wrong shape, type or length, or an unusable value in a cell that is read.
        Values and lengths are not checked where code is traced (`engines.is_traced`).
    Cost: O(B N^2).
    """
    return Scores(*check_arcs(arc_scores, lengths))


def check_arcs(arc_scores: Tensor, lengths: Lengths) -> tuple[Tensor, Tensor]:
    """`check_scores`, as arc scores and lengths."""
    arcs, words = as_arcs(arc_scores, lengths)
    require_usable_arcs(arcs, words)
    return arcs, words


def as_arcs(arc_scores: Tensor, lengths: Lengths) -> tuple[Tensor, Tensor]:
    """`check_arcs` for native searches of best trees, which check values and lengths themselves."""
    require_tensor(arc_scores, "arc_scores")
    shape = arc_scores.shape
    if len(shape) != 3 or shape[1] != shape[2]:
        raise ScoreError(f"arc_scores has shape {tuple(shape)}, expected (B, N, N)")
    words = as_lengths(lengths, arc_scores)
    return as_float(arc_scores, "arc_scores").detach().contiguous(), words


def require_usable_arcs(arcs: Tensor, lengths: Tensor) -> None:
    """Raise ScoreError for the first sentence that no decoder accepts; not where code is traced.

    Args: as `as_arcs` returns them.
    """
    if is_traced():
        return
    if arcs.device.type == "cpu":
        b = native.call("find_unusable_arc", arcs.numpy(), lengths.numpy())
    else:
        b = _first_unusable(arcs, lengths)
    if b >= 0:
        raise ScoreError(_what_is_wrong(arcs[b].cpu(), int(lengths[b]), b))


def require_tensor(scores: object, name: str) -> None:
    """Raise ScoreError for anything but a dense tensor with values."""
    if not isinstance(scores, Tensor):
        hint = f": torch.from_numpy({name})" if isinstance(scores, np.ndarray) else ""
        raise ScoreError(f"{name} is a {type(scores).__name__}, expected a torch.Tensor{hint}")
    # Layouts are compared by `is`, which takes a fifth of the time.
    strange = scores.is_nested or scores.layout is not torch.strided
    strange = strange or scores.is_quantized or scores.is_meta
    if strange or (not is_traced() and (scores._is_zerotensor() or scores.is_neg())):
        raise ScoreError(
            f"{name} is sparse, nested, quantized, on meta, or a view without memory of its own,"
            " expected a dense tensor with values"
        )


def device_of(arc_scores: object) -> torch.device:
    """The device of the scores; ScoreError if they are no dense tensor."""
    require_tensor(arc_scores, "arc_scores")
    assert isinstance(arc_scores, Tensor)
    return arc_scores.device


def as_lengths(lengths: Lengths, arc_scores: Tensor) -> Tensor:
    """Lengths as int64 (B,) on the device of the scores, their values unchecked."""
    n_batch, n_nodes, *_ = arc_scores.shape
    if lengths is None:
        return torch.full((n_batch,), n_nodes - 1, dtype=torch.int64, device=arc_scores.device)
    try:
        given = lengths if isinstance(lengths, Tensor) else torch.as_tensor(lengths)
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        raise ScoreError(f"lengths is no list of numbers: {error}") from None
    require_tensor(given, "lengths")
    if given.numel() == 0 and not isinstance(lengths, Tensor):
        given = given.long()
    if given.shape != (n_batch,):
        hint = ", or a mask of words as mask=" if given.dtype == torch.bool else ""
        raise ScoreError(
            f"lengths has shape {tuple(given.shape)}, expected ({n_batch},), "
            f"one number of words for each sentence of arc_scores{hint}"
        )
    if given.is_floating_point() or given.is_complex() or given.dtype == torch.bool:
        hint = ": give a mask of words as mask=" if given.dtype == torch.bool else ""
        raise ScoreError(f"lengths has type {given.dtype}, expected integers{hint}")
    return sent(given, arc_scores.device)


def lengths_of_mask(mask: object, arc_scores: Tensor) -> Tensor:
    """Lengths (B,) of a mask of words, bool (B, N); ScoreError for another one.

    That the words of a sentence are the first ones is checked as `TreeKind.require` checks trees.
    """
    require_tensor(mask, "mask")
    assert isinstance(mask, Tensor)
    if mask.shape != arc_scores.shape[:2] or mask.dtype != torch.bool:
        raise ScoreError(
            f"mask has shape {tuple(mask.shape)} and type {mask.dtype}, expected"
            f" {tuple(arc_scores.shape[:2])}, (B, N), and torch.bool"
        )
    words = mask.to(arc_scores.device)[:, 1:]
    is_prefix = (words.cummin(1).values == words).all(1)
    what = "expected the first words of each sentence, without gaps"
    if fails(~is_prefix, f"mask: {what}"):
        raise ScoreError(f"mask: sentence {int((~is_prefix).nonzero()[0, 0])}: {what}")
    return words.sum(1)


def fails(is_wrong: Tensor, what: str) -> bool:
    """True if a value is wrong. Nothing is looked at where code is traced, and nothing waits.

    For a device but the CPU torch reports what is wrong when the device is next waited for.
    """
    if is_traced():
        return False
    if is_wrong.device.type != "cpu":
        torch._assert_async(~is_wrong.any(), what)
        return False
    return bool(is_wrong.any())


def sent(tensor: Tensor, device: torch.device) -> Tensor:
    """Integers as int64 on a device; main memory does not wait for another one."""
    return tensor.to(device, torch.int64, non_blocking=device.type != "cpu").contiguous()


def check_sibling_scores(
    arc_scores: Tensor, sibling_scores: Tensor, lengths: Lengths, end_scores: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """`check_scores` for decoders that read sibling and end scores too.

    Args:
        arc_scores, lengths: as in `check_scores`. sibling_scores: (B, N, N, N), under the same
            rules; read are the cells [b, h, m, s] of words m with h < s < m, m < s < h or s == h.
            end_scores: (B, N, N), read like those of arcs; None: zeros. If the types differ, all
            are used as the widest one.
    Returns: arc, sibling and end scores and lengths, as `Scores` has them; the scores in one type.
    Raises: ScoreError: as `check_scores`.
    Cost: O(B N^3).
    """
    scores = check_scores(arc_scores, lengths)
    require_tensor(sibling_scores, "sibling_scores")
    n_nodes = scores.arc.shape[1]
    expected = (*scores.arc.shape, n_nodes)
    if sibling_scores.shape != expected:
        shape = tuple(sibling_scores.shape)
        raise ScoreError(f"sibling_scores has shape {shape}, expected {expected}, (B, N, N, N)")
    if sibling_scores.device != scores.arc.device:
        raise ScoreError(
            f"sibling_scores is on {sibling_scores.device}, arc_scores on {scores.arc.device}"
        )
    siblings = as_float(sibling_scores, "sibling_scores").detach()
    wider = torch.promote_types(scores.arc.dtype, siblings.dtype)
    ends = torch.zeros_like(scores.arc)
    if end_scores is not None:
        ends = _checked_ends(end_scores, scores)
        wider = torch.promote_types(wider, ends.dtype)
    siblings = siblings.to(wider).contiguous()
    checked = scores.arc.to(wider), siblings, ends.to(wider), scores.lengths
    require_usable(siblings, scores.lengths, "sibling", per_word=4)
    return checked


def rows_of_parts(scores: Tensor) -> np.ndarray:
    """Scores (B, N, N, N) in main memory as (B N, N, N), which native functions take."""
    return scores.flatten(0, 1).numpy()


def _checked_ends(end_scores: Tensor, scores: Scores) -> Tensor:
    require_tensor(end_scores, "end_scores")
    if end_scores.shape != scores.arc.shape or end_scores.device != scores.arc.device:
        raise ScoreError(
            f"end_scores has shape {tuple(end_scores.shape)} on {end_scores.device}, expected "
            f"{tuple(scores.arc.shape)} on {scores.arc.device}, as arc_scores"
        )
    try:
        return check_scores(end_scores, scores.lengths).arc
    except ScoreError as error:
        raise ScoreError(f"end_scores: {error}") from None


def as_float(scores: Tensor, name: str) -> Tensor:
    if scores.dtype in (torch.float32, torch.float64):
        return scores
    if scores.dtype in (torch.float16, torch.bfloat16):
        return scores.float()
    if scores.is_floating_point() or scores.is_complex() or scores.dtype == torch.bool:
        raise ScoreError(f"{name} has type {scores.dtype}, expected floats or integers")
    return scores.double()


def as_floats(scores: Iterable[Tensor], name: str) -> list[Tensor]:
    """Scores as `as_float`, all of the widest of their types."""
    floats = [as_float(part, name) for part in scores]
    wide = reduce(torch.promote_types, (part.dtype for part in floats))
    return [part.to(wide) for part in floats]


def _first_unusable(arc: Tensor, lengths: Tensor) -> int:
    """First sentence whose length or read cells no decoder accepts, or -1; any device."""
    found = unusable_arcs(arc, lengths).nonzero()
    return int(found[0, 0]) if len(found) else -1


def unusable_arcs(arc: Tensor, lengths: Tensor) -> Tensor:
    """Bool (B,): sentences whose length or read cells no decoder accepts; it waits for no device.

    Args: as `as_arcs` returns them.
    """
    n_nodes = arc.shape[1]
    read = read_cells(lengths, n_nodes)
    limit = torch.finfo(arc.dtype).max / (4 * (lengths + 1)).to(arc.dtype)[:, None, None]
    usable = (arc == -torch.inf) | (arc.abs() <= limit)
    return (read & ~usable).any(2).any(1) | (lengths < 0) | (lengths >= n_nodes)


def read_cells(lengths: Tensor, n_nodes: int) -> Tensor:
    """True for the cells [b, h, m] that a decoder may read."""
    is_word = word_mask(lengths, n_nodes)
    is_head = is_word.clone()
    is_head[:, 0] = True
    diagonal = torch.eye(n_nodes, dtype=torch.bool, device=lengths.device)
    return is_head[:, :, None] & is_word[:, None, :] & ~diagonal


def largest_into_words(arc_scores: Tensor, lengths: Tensor) -> Tensor:
    """The largest score of an arc into each word (B, N); 0 where no arc is allowed."""
    read = read_cells(lengths, arc_scores.shape[1])
    top = arc_scores.detach().masked_fill(~read, -torch.inf).amax(1)
    return top.masked_fill(top == -torch.inf, 0.0)


def require_usable(
    scores: Tensor, lengths: Tensor, name: str, *, may_cross: bool = False, per_word: int = 8
) -> None:
    """Raise ScoreError for the first score that is read and that no decoder accepts.

    Args:
        scores: of a part, or "label", of arcs; perhaps with labels in a last axis.
        per_word: scores of one word that are added, at most.
    """
    if is_traced():
        return
    part = "arc" if name == "label" else name
    which = torch.arange(len(scores), device=scores.device)
    if scores.device.type == "cpu":
        # Sweeps over more cells than are read; what stops them is looked at below.
        rows = scores.flatten(2, 3) if len(axes_of(part)) == 4 else scores[..., None].flatten(3)
        found = np.empty(len(scores), np.bool_)
        if not native.call("find_suspicious_sentences", rows.numpy(), lengths.numpy(), found):
            return
        which = torch.from_numpy(found).nonzero()[:, 0]
        scores, lengths = scores[which], lengths[which]
    limit = torch.finfo(scores.dtype).max / (per_word * (lengths + 1)).to(scores.dtype)
    most = limit.view(-1, *[1] * (scores.dim() - 1))
    read = read_part_cells(lengths, scores.shape[1], part, may_cross=may_cross)
    read = read.view(*read.shape, *[1] * (scores.dim() - read.dim()))
    bad = (read & ~((scores == -torch.inf) | (scores.abs() <= most))).nonzero()
    if len(bad):
        k, *place = bad[0].tolist()
        raise ScoreError(
            f"{name}_scores: sentence {int(which[k])}: the score at {place} is "
            f"{scores[(k, *place)].item()}; expected -inf (forbidden) or a number between "
            f"-{most[k].item():.3g} and {most[k].item():.3g}"
        )


def read_part_cells(lengths: Tensor, n_nodes: int, name: str, *, may_cross: bool = False) -> Tensor:
    """True for the cells [b, h, m, ...] of a field of `Scores` that a decoder may read.

    docs/architecture.md says where the further words of a part stand.
    """
    axes = axes_of(name)
    position = torch.arange(n_nodes, device=lengths.device)
    word = {axis: position.view(-1, *[1] * (len(axes) - k - 1)) for k, axis in enumerate(axes)}
    read = read_cells(lengths, n_nodes).view(len(lengths), n_nodes, n_nodes, *[1] * len(axes[2:]))
    for axis in axes[2:]:
        h, m, x = word["h"], word["m"], word[axis]
        between = ((h < x) & (x < m)) | ((m < x) & (x < h))
        if axis == "g":
            above = (x != m) & (x != h) if may_cross else (x != m) & (x != h) & ~between
            is_part = torch.where(h == 0, x == 0, above)
        elif axis == "t":
            s = word["s"]
            is_part = (x == h) | ((h < x) & (x < s)) | ((s < x) & (x < h))
        elif axis == "s":
            is_part = (x == h) | between
        elif name == "inner_grandchild":
            is_part = (x == m) | between
        else:
            is_part = (x == m) | torch.where(h < m, x > m, (x < m) & (x > 0))
        inside = x <= lengths.view(-1, *[1] * len(axes))
        read = read & is_part & inside
    return read


def _what_is_wrong(arc: Tensor, n: int, b: int) -> str:
    """The message for sentence b, which is known to be unusable."""
    n_nodes = arc.shape[0]
    if not 0 <= n < n_nodes:
        return (
            f"sentence {b}: length {n} is not between 0 and {n_nodes - 1}: arc_scores has"
            f" {n_nodes} rows, one for each word and one for the root"
        )
    limit = torch.finfo(arc.dtype).max / (4 * (n + 1))
    usable = (arc == -torch.inf) | (arc.abs() <= limit)
    read = read_cells(torch.tensor([n]), n_nodes)[0]
    h, m = (read & ~usable).nonzero()[0].tolist()
    return (
        f"sentence {b}: the score of head {h} -> modifier {m} is {arc[h, m].item()}; "
        f"expected -inf (forbidden) or a number between -{limit:.3g} and {limit:.3g}"
    )


def tree_scores(arc_scores: Tensor, heads: Tensor, lengths: Tensor) -> Tensor:
    """Sum of the arcs of each tree, into words 1, 2, ..., n, added from the left.

    The order is fixed because float sums depend on it.

    Args: arc_scores: (B, N, N); heads: (B, N), or (B, K, N) of several trees; lengths: (B,).
    Returns: float64 (B,) or (B, K).
    """
    is_word = _word_mask_of(heads, lengths)
    rows = (heads if heads.dim() == 3 else heads[:, None]).clamp(min=0)
    arcs = arc_scores.gather(1, rows).view(heads.shape).double()
    total = arcs.new_zeros(heads.shape[:-1])
    for of_word in arcs.masked_fill(~is_word, 0.0).unbind(-1):
        total = total + of_word
    return total


def _word_mask_of(heads: Tensor, lengths: Tensor) -> Tensor:
    """`word_mask` of trees (B, N) or (B, K, N)."""
    is_word = word_mask(lengths, heads.shape[-1])
    return is_word if heads.dim() == 2 else is_word[:, None]


def inner_siblings(heads: Tensor) -> Tensor:
    """The modifier of each word's head just inside the word; the head itself if there is none.

    Args: heads: (B, N) or (B, K, N), -1 at the root and in padding.
    Returns: int64 as heads, 0 where there is no head.
    Cost: O(N^2) for each tree.
    """
    position = torch.arange(heads.shape[-1], device=heads.device)
    h, m, s = heads[..., None], position[:, None], position
    shares_head = heads[..., None, :] == h
    left_of_m = torch.where(shares_head & (h < s) & (s < m), s, -1).amax(-1)
    right_of_m = torch.where(shares_head & (m < s) & (s < h), s, heads.shape[-1]).amin(-1)
    inner = torch.where(heads < position, left_of_m, right_of_m)
    has_sibling = (inner >= 0) & (inner < heads.shape[-1])
    return torch.where(has_sibling, inner, heads).clamp(min=0)


def sibling_tree_scores(
    arc_scores: Tensor, sibling_scores: Tensor, end_scores: Tensor, heads: Tensor, lengths: Tensor
) -> Tensor:
    """Sum over words 1, 2, ..., n of arc, sibling and end score, one by one from the left.

    Args:
        arc_scores, end_scores: (B, N, N); sibling_scores: (B, N, N, N); heads: (B, N), or (B, K, N)
        of several trees; lengths: (B,).
    Returns: float64 (B,) or (B, K).
    """
    is_word = _word_mask_of(heads, lengths)
    position = torch.arange(heads.shape[-1], device=heads.device)
    b, h = torch.arange(len(heads), device=heads.device), heads.clamp(min=0)
    b = b.view(-1, *[1] * (heads.dim() - 1))
    arcs = arc_scores[b, h, position].double().masked_fill(~is_word, 0.0)
    siblings = sibling_scores[b, h, position, inner_siblings(heads)].double()
    siblings = siblings.masked_fill(~is_word, 0.0)
    ends = end_scores[b, h, position].double()
    ends = ends.masked_fill(~is_word | ~is_outermost(heads), 0.0)
    total = arcs.new_zeros(heads.shape[:-1])
    parts = arcs.unbind(-1), siblings.unbind(-1), ends.unbind(-1)
    for arc, sibling, end in zip(*parts, strict=True):
        total = ((total + arc) + sibling) + end
    return total


def is_outermost(heads: Tensor) -> Tensor:
    """Bool as heads, (B, N) or (B, K, N): whether a word's head has no modifier beyond it."""
    position = torch.arange(heads.shape[-1], device=heads.device)
    m, o, h = position[:, None], position, heads[..., None]
    is_beyond = torch.where(h < m, o > m, o < m)
    return ~((heads[..., None, :] == h) & is_beyond).any(-1)


def require_trees(scores: Tensor) -> None:
    """Raise NoTreeError for the first sentence whose tree score is -inf; not where code is traced.

    Args: scores: (B,).
    """
    if is_traced():
        return
    missing = (scores == -torch.inf).nonzero()
    if len(missing):
        raise without_tree(int(missing[0, 0]))


def without_tree(b: int) -> NoTreeError:
    """The error for sentence b."""
    return NoTreeError(
        f"sentence {b} of the batch has no tree: too many of its arcs are forbidden (-inf)"
    )
