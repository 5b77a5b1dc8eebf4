"""The parts of given trees, as tensors of words, and the scores of trees."""

from dataclasses import dataclass

import torch
from torch import Tensor

from gpuparse.data.parts import axes_of
from gpuparse.inference.scores import Scores, word_mask

# What is summed first for a word, and what is added to the sum over words one by one.
OF_ARCS = ("arc", "sibling", "grandparent", "grand_sibling", "tri_sibling")
AFTER_ARCS = ("outermost", "end", "inner_grandchild", "outer_grandchild")


@dataclass(frozen=True)
class Parts:
    """The parts that every word m of K trees of each sentence is in, all (B, K, N).

    h: its head. s: the inner sibling, h for none; t: that of s, h for none. g: the head of h, 0 for
    that of the root. inner, outer: the modifier of m furthest from m between h and m, and beyond m;
    m for none. is_outermost: h has no modifier beyond m. is_word: m is a word; elsewhere all
    fields have arbitrary positions.
    """

    h: Tensor
    m: Tensor
    s: Tensor
    t: Tensor
    g: Tensor
    inner: Tensor
    outer: Tensor
    is_outermost: Tensor
    is_word: Tensor


def find_parts(heads: Tensor, lengths: Tensor) -> Parts:
    """The parts of trees.

    Args:
        heads: integers (B, K, N); values at the root and in padding are not read.
        lengths: (B,).
    Cost: O(B K N^2) time and memory.
    """
    n_nodes = heads.shape[2]
    is_word = word_mask(lengths, n_nodes)[:, None].expand(heads.shape)
    heads = torch.where(is_word & (heads >= 0), heads, -1)
    position = torch.arange(n_nodes, device=heads.device)
    h, m = heads.clamp(min=0), position.expand(heads.shape)
    # [b, k, m, c]: c is another modifier of the head of m; c is a modifier of m.
    c, head, word = position, heads[..., None], position[:, None]
    shares_head = (heads[..., None, :] == head) & (head >= 0)
    is_child = heads[..., None, :] == word
    before_m = shares_head & (head < c) & (c < word)
    after_m = shares_head & (word < c) & (c < head)
    nothing_left, nothing_right = -1, n_nodes
    nearest_left = torch.where(before_m, c, nothing_left).amax(-1)
    nearest_right = torch.where(after_m, c, nothing_right).amin(-1)
    s = torch.where(h < m, nearest_left, nearest_right)
    s = torch.where((s >= 0) & (s < n_nodes), s, h)
    t = torch.where(s == h, h, s.gather(-1, s))
    g = heads.gather(-1, h).clamp(min=0)
    beyond = shares_head & torch.where(head < word, c > word, c < word)
    # Of h < m the inner modifiers of m lie in h + 1 .. m - 1, and the furthest is the first.
    between = is_child & torch.where(head < word, (head < c) & (c < word), (word < c) & (c < head))
    outside = is_child & torch.where(head < word, c > word, c < word)
    inner = _furthest(between, c, h < m, n_nodes)
    outer = _furthest(outside, c, h > m, n_nodes)
    return Parts(
        h,
        m,
        s,
        t,
        g,
        torch.where(inner >= 0, inner, m),
        torch.where(outer >= 0, outer, m),
        ~beyond.any(-1),
        is_word & (heads >= 0),
    )


def scores_of_words(scores: Scores, parts: Parts, labels: Tensor | None = None) -> list[Tensor]:
    """The share of each word in the score of its tree, in this order, each float64 (B, K, N).

    Args: labels: (B, K, N) where scores have a last axis of labels.
    """
    b = torch.arange(len(scores.arc), device=scores.arc.device)[:, None, None]
    word = {"h": parts.h, "m": parts.m, "e": parts.m, "s": parts.s, "t": parts.t, "g": parts.g}

    def of_words(field: str) -> Tensor | None:
        cells: Tensor | None = getattr(scores, field)
        if cells is None:
            return None
        word["c"] = parts.inner if field == "inner_grandchild" else parts.outer
        place = [b, *(word[axis] for axis in axes_of(field))]
        found = cells[(*place, labels) if labels is not None else tuple(place)].double()
        needs_outermost = field in ("outermost", "end")
        is_part = parts.is_word & parts.is_outermost if needs_outermost else parts.is_word
        return found.masked_fill(~is_part, 0)

    of_arcs = [found for found in map(of_words, OF_ARCS) if found is not None]
    after = [found for found in map(of_words, AFTER_ARCS) if found is not None]
    return [sum(of_arcs[1:], of_arcs[0]), *after]


def part_tree_scores(scores: Scores, heads: Tensor, labels: Tensor | None = None) -> Tensor:
    """Scores of trees, added word by word, so that float sums are the same everywhere.

    Args:
        scores: may be -inf where nothing is read.
        heads, labels: (B, N), -1 where there is nothing.
    Returns: float64 (B,), -inf where a word has no head.
    """
    parts = find_parts(heads[:, None], scores.lengths)
    chosen = None if labels is None else labels.clamp(min=0)[:, None]
    of_words = scores_of_words(scores, parts, chosen)
    columns = [added[:, 0].unbind(1) for added in of_words]
    total = torch.zeros_like(columns[0][0])
    for of_word in zip(*columns, strict=True):
        for added in of_word:
            total = total + added
    has_tree = ((heads >= 0) | ~word_mask(scores.lengths, heads.shape[1])).all(1)
    return total.masked_fill(~has_tree, -torch.inf)


def _furthest(is_part: Tensor, c: Tensor, takes_first: Tensor, n_nodes: int) -> Tensor:
    """The first or the last c that is a part, (B, K, N); -1 if there is none."""
    first = torch.where(is_part, c, n_nodes).amin(-1)
    last = torch.where(is_part, c, -1).amax(-1)
    return torch.where(takes_first, torch.where(first < n_nodes, first, -1), last)
