"""Arcs that every tree must have, and arcs that none may have."""

import torch
from torch import Tensor

from gpuparse.errors import ScoreError
from gpuparse.inference.scores import check_scores, read_cells, require_tensor


def constrain(
    arc_scores: Tensor,
    lengths: Tensor,
    *,
    required: Tensor | None = None,
    forbidden: Tensor | None = None,
) -> Tensor:
    """Arc scores under which only trees with the required and without the forbidden arcs exist.

    What the decoders, the k best trees, the sums and the samples of any order make of these scores
    is what they make of the permitted trees: sums are those over them, probabilities those given
    the constraints. Sibling and end scores need no change.

    Args:
        arc_scores, lengths: as for every decoder.
        required: bool (B, N, N): the word m has the head h where [b, h, m] is true.
        forbidden: bool (B, N, N): it has not. What lies where scores are not read does not matter.
    Returns: (B, N, N), a copy in the type that decoders compute with, differentiable: -inf for the
        forbidden arcs and for all others into a word with a required one.
    Raises:
        ScoreError: what the decoders refuse; masks of other shapes or types; a required arc that no
            tree can have, into the root, a word itself or padding; masks that contradict one
            another. Names the sentence and the words. Required arcs that form a cycle, or cross
            where trees are projective, are a NoTreeError of the decoder.
    Cost: O(B N^2).
    Source: constrained decoding by forbidding all competitors of an arc.
    """
    checked = check_scores(arc_scores, lengths)
    is_usable = arc_scores.dtype in (torch.float32, torch.float64)
    scores = arc_scores if is_usable else checked.arc
    readable = read_cells(checked.lengths, scores.shape[1])
    wanted = _checked(required, "required", scores)
    banned = _checked(forbidden, "forbidden", scores)
    _complain(wanted & ~readable, "head {h} of word {m} is required, where no tree has an arc")
    _complain(wanted & banned, "head {h} of word {m} is both required and forbidden")
    several = wanted & (wanted.sum(1, keepdim=True) > 1)
    _complain(several, "word {m} has more than one required head, one of them {h}")
    none_left = readable & (readable & ~banned).sum(1, keepdim=True).eq(0)
    _complain(none_left, "all heads of word {m} are forbidden")
    rivals = wanted.any(1, keepdim=True) & ~wanted
    return scores.masked_fill((banned | rivals) & readable, -torch.inf)


def _checked(mask: Tensor | None, name: str, scores: Tensor) -> Tensor:
    if mask is None:
        return torch.zeros(scores.shape, dtype=torch.bool, device=scores.device)
    require_tensor(mask, name)
    if mask.shape != scores.shape or mask.dtype != torch.bool or mask.device != scores.device:
        raise ScoreError(
            f"{name} is {mask.dtype} {tuple(mask.shape)} on {mask.device}, expected torch.bool"
            f" {tuple(scores.shape)} on {scores.device}, as arc_scores"
        )
    return mask


def _complain(cells: Tensor, what: str) -> None:
    """Raise ScoreError for the first cell [b, h, m] that is true."""
    found = cells.nonzero()
    if len(found):
        b, h, m = found[0].tolist()
        raise ScoreError(f"sentence {b}: " + what.format(h=h, m=m))
