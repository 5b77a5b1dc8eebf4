"""Scores of trees whose arcs may cross; the check of label scores."""

import torch
from torch import Tensor

from gpuparse.errors import ScoreError
from gpuparse.inference.higher_order_scores import Parts
from gpuparse.inference.scores import inner_siblings, is_outermost, read_cells, word_mask


def crossing_tree_scores(parts: Parts, heads: Tensor) -> Tensor:
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


def check_label_scores(label_scores: Tensor, parts: Parts) -> Tensor:
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
