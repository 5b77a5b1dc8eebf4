"""What decoders read and what they return, and the one place where scores are checked."""

from dataclasses import dataclass

import torch
from torch import Tensor

from gpuparse.errors import NoTreeError, ScoreError
from gpuparse.inference.kernels.cpu.check import first_unusable
from gpuparse.tensors import word_mask


@dataclass(frozen=True)
class Scores:
    """Scores of the parts of a batch of sentences.

    arc: head h -> modifier m, float (B, N, N); lengths: words of each sentence, int64 (B,).
    """

    arc: Tensor
    lengths: Tensor


@dataclass(frozen=True)
class Parse:
    """Trees of a batch: heads int64 (B, N), -1 at the root and in padding; their scores (B,)."""

    heads: Tensor
    scores: Tensor


def check_scores(arc_scores: Tensor, lengths: Tensor) -> Scores:
    """Check everything that decoders rely on, once.

    Args:
        arc_scores: (B, N, N). float32 and float64 are used as they are; half precision is widened
            to float32 and integers to float64 (exact up to 2^53). Read cells hold -inf (forbidden)
            or finite numbers of at most a 1/(4n + 4)-th of the largest float, so that no sum
            overflows. Column 0, the diagonal and padding may hold anything.
        lengths: words of each sentence, int (B,), 0..N-1.

    Returns:
        Scores, detached, contiguous, both on the device of `arc_scores`; no input is written to.

    Raises:
        ScoreError: a wrong shape, type or length, or an unusable value in a cell that is read.

    Cost: O(B N^2).
    """
    if arc_scores.dim() != 3 or arc_scores.shape[1] != arc_scores.shape[2]:
        raise ScoreError(f"arc_scores has shape {tuple(arc_scores.shape)}, expected (B, N, N)")
    if lengths.shape != arc_scores.shape[:1]:
        raise ScoreError(
            f"lengths has shape {tuple(lengths.shape)}, expected ({arc_scores.shape[0]},), "
            "one number of words for each sentence of arc_scores"
        )
    if lengths.is_floating_point() or lengths.is_complex() or lengths.dtype == torch.bool:
        raise ScoreError(f"lengths has type {lengths.dtype}, expected integers")
    arc = _as_float(arc_scores).detach().contiguous()
    lengths = lengths.detach().to(arc.device, torch.int64).contiguous()
    if arc.device.type == "cpu":
        b = first_unusable(arc.numpy(), lengths.numpy())
    else:
        b = _first_unusable(arc, lengths)
    if b >= 0:
        raise ScoreError(_what_is_wrong(arc[b].cpu(), int(lengths[b]), b))
    return Scores(arc, lengths)


def _as_float(scores: Tensor) -> Tensor:
    if scores.dtype in (torch.float32, torch.float64):
        return scores
    if scores.dtype in (torch.float16, torch.bfloat16):
        return scores.float()
    if scores.is_floating_point() or scores.is_complex() or scores.dtype == torch.bool:
        raise ScoreError(f"arc_scores has type {scores.dtype}, expected floats or integers")
    return scores.double()


def _first_unusable(arc: Tensor, lengths: Tensor) -> int:
    """First sentence whose length or read cells no decoder accepts, or -1; any device."""
    n_nodes = arc.shape[1]
    read = _read_cells(lengths, n_nodes)
    limit = torch.finfo(arc.dtype).max / (4 * (lengths + 1)).to(arc.dtype)[:, None, None]
    usable = (arc == -torch.inf) | (arc.abs() <= limit)
    bad = (read & ~usable).any(2).any(1) | (lengths < 0) | (lengths >= n_nodes)
    found = bad.nonzero()
    return int(found[0, 0]) if len(found) else -1


def _read_cells(lengths: Tensor, n_nodes: int) -> Tensor:
    """True for the cells [b, h, m] that a decoder may read."""
    is_word = word_mask(lengths, n_nodes)
    is_head = is_word.clone()
    is_head[:, 0] = True
    diagonal = torch.eye(n_nodes, dtype=torch.bool, device=lengths.device)
    return is_head[:, :, None] & is_word[:, None, :] & ~diagonal


def _what_is_wrong(arc: Tensor, n: int, b: int) -> str:
    """The message for sentence b, which is known to be unusable."""
    n_nodes = arc.shape[0]
    if not 0 <= n < n_nodes:
        return f"sentence {b}: length {n} is not between 0 and {n_nodes - 1}"
    limit = torch.finfo(arc.dtype).max / (4 * (n + 1))
    usable = (arc == -torch.inf) | (arc.abs() <= limit)
    read = _read_cells(torch.tensor([n]), n_nodes)[0]
    h, m = (read & ~usable).nonzero()[0].tolist()
    return (
        f"sentence {b}: the score of head {h} -> modifier {m} is {arc[h, m].item()}; "
        f"expected -inf (forbidden) or a number between -{limit:.3g} and {limit:.3g}"
    )


def tree_scores(arc_scores: Tensor, heads: Tensor, lengths: Tensor) -> Tensor:
    """Sum of the arcs of each tree, into words 1, 2, ..., n, added from the left.

    The order is fixed because float sums depend on it.

    Args:
        arc_scores: (B, N, N); heads: (B, N); lengths: (B,).

    Returns:
        (B,) in the type of `arc_scores`.
    """
    is_word = word_mask(lengths, heads.shape[1])
    arcs = arc_scores.gather(1, heads.clamp(min=0)[:, None, :])[:, 0].masked_fill(~is_word, 0.0)
    total = arc_scores.new_zeros(len(heads))
    for of_word in arcs.unbind(1):
        total = total + of_word
    return total


def require_trees(scores: Tensor) -> None:
    """Raise NoTreeError for the first sentence whose tree score is -inf.

    Args:
        scores: (B,).
    """
    missing = (scores == -torch.inf).nonzero()
    if len(missing):
        raise NoTreeError(
            f"sentence {int(missing[0, 0])} of the batch has no tree: too many of its arcs are "
            "forbidden (-inf)"
        )
