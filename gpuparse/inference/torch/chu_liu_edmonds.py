"""Chu-Liu/Edmonds in torch: all sentences of a batch in lockstep, on any device."""

import torch
from torch import Tensor

from gpuparse.inference.scores import tree_scores, word_mask
from gpuparse.inference.search import NO_HEAD

FREE, ATTACHED = -1, -2  # in `place`, of words that are not on the path


def chu_liu_edmonds_torch(
    arc_scores: Tensor, lengths: Tensor, k: int | None = None, *, single_root: bool
) -> tuple[Tensor, Tensor]:
    """`chu_liu_edmonds`, or `chu_liu_edmonds_kbest`, on checked scores.

    The paths of all sentences grow in lockstep.

    A step takes the best source of one super-node, or puts one member into a super-node in the
    making: O(B n) work, at most about 4 n steps.

    Returns: As these; a sentence without a tree gets the score -inf.
    """
    if k is not None:
        return _k_best(arc_scores, lengths, k, single_root)
    if arc_scores.numel() == 0 or arc_scores.shape[1] == 1:  # no word at all
        no_heads = torch.full_like(arc_scores[:, 0], NO_HEAD, dtype=torch.int64)
        return no_heads, arc_scores.new_zeros(len(arc_scores), dtype=torch.float64)
    paths = _Paths(arc_scores, lengths, single_root)
    while bool(paths.running.any()):
        paths.take_best_sources()
        paths.put_members_in()
    source = paths.take_apart()
    is_word = word_mask(lengths, arc_scores.shape[1])
    has_tree = ~paths.is_stuck
    if single_root:
        has_tree &= ((source == 0) & is_word).sum(1) <= 1
    heads = source.masked_fill(~is_word | ~has_tree[:, None], NO_HEAD)
    scores = tree_scores(arc_scores, heads, lengths)
    return heads, scores.masked_fill(~has_tree, -torch.inf)


def _k_best(
    arc_scores: Tensor, lengths: Tensor, k: int, single_root: bool
) -> tuple[Tensor, Tensor]:
    """The k best trees: the next one of each sentence splits its part of all trees.

    Cost: n searches of `chu_liu_edmonds_torch` for each tree, as one batch.
    """
    n_batch, n = arc_scores.shape[:2]
    heads, score = chu_liu_edmonds_torch(arc_scores, lengths, single_root=single_root)
    found, scores = [heads], [score]
    # What is left of all trees, in parts (B, P), the next one first: their best trees, the word at
    # which each was split off, and the heads that are forbidden there.
    trees, values = heads[:, None][:, :0], score[:, None][:, :0]
    words, taken = lengths[:, None][:, :0], torch.zeros_like(trees, dtype=torch.bool)
    word, forbidden = torch.ones_like(lengths), torch.zeros_like(heads, dtype=torch.bool)
    node = torch.arange(n, device=arc_scores.device)
    of_words = lengths.repeat_interleave(n - 1)
    while len(found) < k and bool((score > -torch.inf).any()) and n > 1:
        # Part m, (B, N - 1): the heads before m are those of the tree, and that of m is not.
        m = node[1:]
        is_tree = node[:, None] == heads[:, None]  # [h, m]
        at_word = is_tree.mT[:, 1:] | (forbidden[:, None] & (m == word[:, None])[..., None])
        is_out = (node < m[:, None])[:, None] & ~is_tree[:, None]  # [part, h, m]
        is_out = is_out | (at_word[..., None] & (node == m[:, None])[:, None])
        parts = arc_scores[:, None].masked_fill(is_out, -torch.inf).flatten(0, 1)
        is_part = (m >= word[:, None]) & (m <= lengths[:, None]) & (score > -torch.inf)[:, None]
        best, own = chu_liu_edmonds_torch(
            parts, of_words * is_part.flatten(), single_root=single_root
        )
        best = best.unflatten(0, (n_batch, n - 1))
        own = own.unflatten(0, (n_batch, n - 1)).masked_fill(~is_part, -torch.inf)
        values = torch.cat([values, torch.minimum(own, score[:, None])], 1)
        values, order = values.sort(dim=1, descending=True, stable=True)
        order = order[:, : k - len(found)]
        of_nodes = order[..., None].expand(-1, -1, n)
        score, values = values[:, 0], values[:, 1 : order.shape[1]]
        trees = torch.cat([trees, best], 1).gather(1, of_nodes)
        taken = torch.cat([taken, at_word], 1).gather(1, of_nodes)
        words = torch.cat([words, m.expand(n_batch, -1)], 1).gather(1, order)
        (heads, trees), (forbidden, taken), (word, words) = (
            (each[:, 0], each[:, 1:]) for each in (trees, taken, words)
        )
        found.append(heads.masked_fill((score == -torch.inf)[:, None], NO_HEAD))
        scores.append(score)
    missing = k - len(found)
    found += [torch.full_like(heads, NO_HEAD)] * missing
    scores += [torch.full_like(score, -torch.inf)] * missing
    return torch.stack(found, 1), torch.stack(scores, 1)


class _Paths:
    """The growing paths of all sentences; the words of one sentence share index b.

    rows: (B, 2N, N), best way into super-node k from source u outside it. Words stand at 1..N-1,
    super-nodes from N on in the order of making.
    best, source, parent: (B, 2N), the arc that super-node k takes; the super-node made from it.
    path: (B, N), super-nodes from the start to the end; end: (B,), index of the last.
    place: (B, N), for each word FREE, ATTACHED, or where on the path its super-node stands.
    made: (B,), the super-node made next; cycle: (B,), where its members begin, -1 outside.
    """

    def __init__(self, arc_scores: Tensor, lengths: Tensor, single_root: bool) -> None:
        n_batch, n = arc_scores.shape[:2]
        device = arc_scores.device
        self.single_root = single_root
        self.b = torch.arange(n_batch, device=device)
        self.n_nodes = n
        is_word = word_mask(lengths, n)
        is_node = is_word.clone()
        is_node[:, 0] = True
        self_arc = torch.eye(n, dtype=torch.bool, device=device)
        usable = is_word[:, :, None] & is_node[:, None, :] & ~self_arc
        self.rows = arc_scores.new_full((n_batch, 2 * n, n), -torch.inf)
        self.rows[:, :n] = arc_scores.mT.masked_fill(~usable, -torch.inf)
        self.best = arc_scores.new_zeros(n_batch, 2 * n)
        self.source = torch.zeros((n_batch, 2 * n), dtype=torch.int64, device=device)
        self.parent = torch.zeros_like(self.source)
        self.path = torch.ones((n_batch, n), dtype=torch.int64, device=device)
        self.end = torch.zeros_like(lengths)
        self.place = torch.where(is_word, FREE, ATTACHED)
        self.place[:, 1] = torch.where(lengths > 0, 0, ATTACHED)  # every path starts at word 1
        self.made = torch.full_like(lengths, n)
        self.cycle = torch.full_like(lengths, -1)
        self.running = lengths > 0
        self.is_stuck = torch.zeros_like(self.running)

    def take_best_sources(self) -> None:
        """For every path not making a super-node: extend it, attach it, or find a cycle."""
        b = self.b
        k = self.path[b, self.end]
        row = self.rows[b, k]
        best, u = row[:, 1:].max(1)
        takes_root = best == -torch.inf if self.single_root else row[:, 0] >= best
        best = torch.where(takes_root, row[:, 0], best)
        u = torch.where(takes_root, 0, u + 1)
        taking = self.running & (self.cycle < 0)
        stuck = taking & (best == -torch.inf)
        self.is_stuck |= stuck
        taking &= ~stuck
        self.best[b, k] = torch.where(taking, best, self.best[b, k])
        self.source[b, k] = torch.where(taking, u, self.source[b, k])
        place_of_u = self.place[b, u]
        attach = taking & (place_of_u == ATTACHED)
        self.place.masked_fill_(attach[:, None] & (self.place >= 0), ATTACHED)
        is_free, start = (self.place == FREE).max(1)
        self.running &= ~stuck & (~attach | is_free)
        extend = taking & (place_of_u == FREE)
        moves = extend | (attach & is_free)
        self.end = torch.where(attach, 0, self.end + extend)
        word = torch.where(attach, start, u)
        self.path[b, self.end] = torch.where(moves, word, self.path[b, self.end])
        self.place[b, word] = torch.where(moves, self.end, self.place[b, word])
        self.cycle = torch.where(taking & (place_of_u >= 0), place_of_u, self.cycle)

    def put_members_in(self) -> None:
        """For every path making a super-node c: row[c] = max(row[c], row[k] - best[k])."""
        b, c = self.b, self.made
        making = self.running & (self.cycle >= 0)
        k = self.path[b, self.end]
        entering = self.rows[b, k] - self.best[b, k][:, None]
        row = torch.maximum(self.rows[b, c], entering)
        finished = making & (self.end == self.cycle)
        inside = finished[:, None] & (self.place >= self.cycle[:, None])
        row = row.masked_fill(inside, -torch.inf)
        self.rows[b, c] = torch.where(making[:, None], row, self.rows[b, c])
        self.parent[b, k] = torch.where(making, c, self.parent[b, k])
        self.place = torch.where(inside, self.cycle[:, None], self.place)
        self.path[b, self.end] = torch.where(finished, c, k)
        self.end = self.end - (making & ~finished).long()
        self.made = self.made + finished.long()
        self.cycle = self.cycle.masked_fill(finished, -1)

    def take_apart(self) -> Tensor:
        """Pass the arc that enters each super-node to the member it enters; heads (B, N)."""
        b = self.b
        for c in range(int(self.made.max()) - 1, self.n_nodes - 1, -1):
            u = self.source[:, c]
            entering = self.rows[b, :, u] - self.best
            _, k = entering.masked_fill(self.parent != c, -torch.inf).max(1)
            self.source[b, k] = torch.where(c < self.made, u, self.source[b, k])
        return self.source[:, : self.n_nodes]
