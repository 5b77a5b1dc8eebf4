"""The parts in which gold trees and those found differ, of many sentences at once, on any device.

The parts are those that `parts.py` lists for one sentence: what only gold has with the sign +1,
what gold lacks with -1.
"""

from typing import NamedTuple

import torch
from torch import Tensor


class Parts(NamedTuple):
    """P parts of one kind: (P,) int64 each."""

    sentence: Tensor
    head: Tensor
    modifier: Tensor  # of ends the outermost one, the head for none
    third: Tensor  # the inner sibling, the head for none; of ends 1 for the right side
    sign: Tensor


def arcs_that_differ(gold: Tensor, found: Tensor) -> Parts:
    """The arcs that only one of two trees has; gold, found: heads (B, N)."""
    b, m = (gold != found).nonzero(as_tuple=True)
    return _both(b, (gold[b, m], m, m), (found[b, m], m, m))


def siblings_that_differ(gold: Tensor, found: Tensor) -> Parts:
    """The sibling parts that only one of two trees has.

    Cost: O(B N^2) time and memory.
    """
    inner, found_inner = _inner_siblings(gold), _inner_siblings(found)
    b, m = ((gold != found) | (inner != found_inner)).nonzero(as_tuple=True)
    return _both(b, (gold[b, m], m, inner[b, m]), (found[b, m], m, found_inner[b, m]))


def ends_that_differ(gold: Tensor, found: Tensor) -> Parts:
    """The ends, one for each head and side, that only one of two trees has; cost as above."""
    # [side, B, N]: the outermost modifier of each node, itself for none
    last, found_last = _outermost(gold), _outermost(found)
    side, b, h = (last != found_last).nonzero(as_tuple=True)
    return _both(b, (h, last[side, b, h], side), (h, found_last[side, b, h], side))


def _both(b: Tensor, gold: tuple[Tensor, ...], found: tuple[Tensor, ...]) -> Parts:
    signs = torch.ones_like(b)
    head, modifier, third = (torch.cat(pair) for pair in zip(gold, found, strict=True))
    return Parts(torch.cat([b, b]), head, modifier, third, torch.cat([signs, -signs]))


def _inner_siblings(heads: Tensor) -> Tensor:
    """(B, N) the modifier between each word and its head that is nearest to the word, or the head.

    heads: (B, N), -1 for what is no word, which stays so.
    """
    n_nodes = heads.shape[1]
    s = torch.arange(n_nodes, device=heads.device)
    m, h = s.unsqueeze(1), heads.unsqueeze(2)
    # [B, m, s]
    shared = h == heads.unsqueeze(1)
    left = torch.where(shared & (h < s) & (s < m), s, -1).amax(2)
    right = torch.where(shared & (m < s) & (s < h), s, n_nodes).amin(2)
    return torch.where(left >= 0, left, torch.where(right < n_nodes, right, heads))


def _outermost(heads: Tensor) -> Tensor:
    """(2, B, N) the last modifier of each node to the left, to the right; the node for none."""
    n_nodes = heads.shape[1]
    m = torch.arange(n_nodes, device=heads.device)
    h = m.unsqueeze(1)
    # [B, h, m]
    is_arc = heads.unsqueeze(1) == h
    left = torch.where(is_arc & (m < h), m, n_nodes).amin(2)
    right = torch.where(is_arc & (m > h), m, -1).amax(2)
    return torch.stack([torch.where(left < n_nodes, left, m), torch.where(right < 0, m, right)])
