"""Conventions shared by all tensors: the mark for "no head" and the mask of words."""

import torch
from torch import Tensor

NO_HEAD = -1
"""The value of `heads` at position 0 and in padding."""


def word_mask(lengths: Tensor, n_nodes: int) -> Tensor:
    """The positions of words, without the root and padding.

    Args:
        lengths: words of each sentence, int (B,).
        n_nodes: N, positions including the root.

    Returns:
        bool (B, N).
    """
    position = torch.arange(n_nodes, device=lengths.device)
    return (position > 0) & (position <= lengths[:, None])
