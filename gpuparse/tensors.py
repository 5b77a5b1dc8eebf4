"""Conventions shared by all tensors: the mark for "no head" and the mask of words."""

import torch
from torch import Tensor

NO_HEAD = -1
"""What stands in `heads` at position 0 and in padding."""


def word_mask(lengths: Tensor, n_nodes: int) -> Tensor:
    """True where a word stands: not at the root, not in padding.

    Args:
        lengths: words of each sentence, int (B,).
        n_nodes: N, positions including the root.

    Returns:
        bool (B, N).
    """
    position = torch.arange(n_nodes, device=lengths.device)
    return (position > 0) & (position <= lengths[:, None])
