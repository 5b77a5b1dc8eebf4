"""First-order Eisner: the public function, and the batched form in torch for any device."""

from collections.abc import Callable

import torch
from torch import Tensor

from gpuparse.inference import native_charts
from gpuparse.inference.backends import choose_backend
from gpuparse.inference.scores import check_scores, require_trees, tree_scores
from gpuparse.tensors import NO_HEAD


def eisner(
    arc_scores: Tensor, lengths: Tensor, *, single_root: bool = False, backend: str = "auto"
) -> tuple[Tensor, Tensor]:
    """Best projective tree of every sentence of a batch.

    Args:
        arc_scores: score of head h -> modifier m, (B, N, N); -inf forbids. Column 0, the diagonal
            and padding are never read. Integers are computed with as float64.
        lengths: words of each sentence, int (B,), 0..N-1.
        single_root: exactly one modifier of the root; otherwise one or more.
        backend: "auto", "torch", "cpu" (compiled) or "gpu" (Triton kernels); all give the same
            trees and the same bits.

    Returns:
        heads int64 (B, N), -1 at position 0 and in padding; scores (B,), the sum of each tree's
        arcs in the order of the words. Charts add (left + right), then the arc; among equally good
        splits every span takes the smallest, a single root the smallest word.

    Raises:
        ScoreError: wrong shapes, types, lengths or values; an unknown backend.
        NoTreeError: a sentence, named by its index, has no tree without forbidden arcs.

    Cost: O(n^3) time, O(n^2) memory a sentence.
    Source: McDonald, Crammer & Pereira 2005, section 2.2 (Eisner 1996); single root: Carreras 2007,
    section 2.1.
    """
    search = _search_of(choose_backend(backend, arc_scores.device, has_kernels=True))
    checked = check_scores(arc_scores, lengths)
    heads, scores = search(checked.arc, checked.lengths, single_root=single_root)
    require_trees(scores)
    return heads, scores


def _search_of(backend: str) -> Callable[..., tuple[Tensor, Tensor]]:
    """The form of the search on checked scores."""
    if backend == "gpu":
        from gpuparse.inference.kernels.gpu import eisner as kernels  # imports Triton

        return kernels.eisner
    return native_charts.find_best if backend == "cpu" else eisner_torch


def eisner_torch(
    arc_scores: Tensor, lengths: Tensor, *, single_root: bool
) -> tuple[Tensor, Tensor]:
    """`eisner` on checked scores, all sentences and all starts of one width at once.

    Charts are stored by diagonal, `[b, width, start]`. The right-hand operand of a split shrinks as
    the left-hand one grows; its charts are stored in reverse, `[b, nodes - width, start]`, so that
    both are plain strided views.

    Returns:
        As `eisner`; a sentence without a tree gets the score -inf.
    """
    if arc_scores.numel() == 0 or arc_scores.shape[1] == 1:  # no word at all
        no_heads = torch.full_like(arc_scores[:, 0], NO_HEAD, dtype=torch.int64)
        return no_heads, arc_scores.new_zeros(len(arc_scores))
    first = 1 if single_root else 0
    n_batch, n_nodes = arc_scores.shape[0], arc_scores.shape[1] - first
    arcs = arc_scores[:, first:, first:]
    shape = (n_batch, n_nodes + 1, n_nodes)
    I_R, C_R, C_L, I_L_flipped, C_R_flipped, C_L_flipped = arc_scores.new_zeros((6, *shape))
    split_I, split_R, split_L = [], [], []
    for w in range(1, n_nodes):
        starts = slice(0, n_nodes - w)
        up = n_nodes - w
        # S(i,j) = max_{i<=r<j} C_R(i,r) + C_L(r+1,j);  I_R = S + arc(i,j);  I_L = S + arc(j,i)
        best, split = (C_R[:, :w, starts] + staircase(C_L_flipped, w, 1)).max(1)
        split_I.append(split)
        I_R[:, w, starts] = best + arcs.diagonal(w, 1, 2)
        I_L_flipped[:, up, starts] = best + arcs.diagonal(-w, 1, 2)
        # C_R(i,j) = max_{i<r<=j} I_R(i,r) + C_R(r,j)
        best, split = (I_R[:, 1 : w + 1, starts] + staircase(C_R_flipped, w, 1)).max(1)
        split_R.append(split + 1)
        C_R[:, w, starts] = C_R_flipped[:, up, starts] = best
        # C_L(i,j) = max_{i<=r<j} C_L(i,r) + I_L(r,j)
        best, split = (C_L[:, :w, starts] + staircase(I_L_flipped, w, 0)).max(1)
        split_L.append(split)
        C_L[:, w, starts] = C_L_flipped[:, up, starts] = best
    trace = Trace(n_batch, n_nodes, arc_scores.device)
    if single_root:
        best, root = best_root(lengths, C_L, C_R, arc_scores[:, 0, 1:])
        trace.mark(trace.left, root, 0)
        trace.mark(trace.right, lengths - 1 - root, root)
    else:
        best = C_R[:, :, 0].gather(1, lengths[:, None])[:, 0]
        trace.mark(trace.right, lengths, 0)
    heads = trace.run(split_I, split_R, split_L, first)
    if single_root:
        word = torch.arange(n_nodes + 1, device=heads.device)
        heads = torch.where(word == root[:, None] + 1, 0, heads)
    heads = heads.masked_fill((best == -torch.inf)[:, None] | (lengths == 0)[:, None], NO_HEAD)
    scores = tree_scores(arc_scores, heads, lengths)
    return heads, scores.masked_fill((best == -torch.inf) & (lengths > 0), -torch.inf)


def staircase(flipped: Tensor, w: int, shift: int) -> Tensor:
    """View [b, d, i] = chart(width w - shift - d, start i + d + shift) of an upside-down chart."""
    n_batch, rows, n_nodes = flipped.shape
    offset = flipped.storage_offset() + (n_nodes - w + shift) * n_nodes + shift
    return flipped.as_strided((n_batch, w, n_nodes - w), (rows * n_nodes, n_nodes + 1, 1), offset)


def best_root(lengths: Tensor, C_L: Tensor, C_R: Tensor, *of_root: Tensor) -> tuple[Tensor, Tensor]:
    """max over m of C_L(1,m) + C_R(m,n) + ...: value and m - 1, both (B,).

    Args:
        of_root: what else is added, each (B, N - 1), for m = 1..N-1.
    """
    m = torch.arange(C_L.shape[2], device=lengths.device)
    rest = lengths[:, None] - 1 - m
    sentence = torch.arange(len(lengths), device=lengths.device)[:, None]
    value = C_L[:, :-1, 0] + C_R[sentence, rest.clamp(min=0), m]
    for scores in of_root:
        value = value + scores
    best, root = value.masked_fill(rest < 0, -torch.inf).max(1)
    return best, root


class Trace:
    """Which spans belong to the best trees, found from the widest to the narrowest.

    Each kind of span has one boolean (B, nodes^2 + 1), flat over [width, start]; the last cell
    takes the marks of sentences and starts that have none to give.
    """

    def __init__(self, n_batch: int, n_nodes: int, device: torch.device) -> None:
        self.n_nodes = n_nodes
        self.right, self.left, self.arc_right, self.arc_left = torch.zeros(
            (4, n_batch, n_nodes * n_nodes + 1), dtype=torch.bool, device=device
        )
        self.start = torch.arange(n_nodes, device=device)

    def mark(self, used: Tensor, width: Tensor, start: Tensor | int) -> None:
        """Mark one span a sentence, none where the sentence is empty (width -1 or 0)."""
        used.scatter_(1, (width.clamp(min=0) * self.n_nodes + start)[:, None], True)

    def run(
        self, split_I: list[Tensor], split_R: list[Tensor], split_L: list[Tensor], first: int
    ) -> Tensor:
        """Heads (B, N) of all marked spans, by following the splits down."""
        heads = self.no_heads(first)
        for w in range(self.n_nodes - 1, 0, -1):
            self.split_complete(w, split_R[w - 1], split_L[w - 1])
            # I(i,j) -> C_R(i,r), C_L(r+1,j)
            used = self.cells(self.arc_right, w) | self.cells(self.arc_left, w)
            self.split_halves(w, used, split_I[w - 1])
            self.write_heads(w, heads, first)
        return heads

    def no_heads(self, first: int) -> Tensor:
        """Heads (B, N) to be filled."""
        shape = (len(self.right), self.n_nodes + first)
        return torch.full(shape, NO_HEAD, dtype=torch.int64, device=self.start.device)

    def cells(self, marks: Tensor, w: int) -> Tensor:
        """The marks of one width, (B, nodes - w)."""
        return marks[:, w * self.n_nodes : (w + 1) * self.n_nodes - w]

    def spread(self, used: Tensor, width: Tensor | int, start: Tensor, marks: Tensor) -> None:
        """Mark spans where `used` says so; all (B, starts)."""
        cell = (width * self.n_nodes + start).expand(used.shape)
        marks.scatter_(1, torch.where(used, cell, self.n_nodes * self.n_nodes), True)

    def split_complete(self, w: int, split_R: Tensor, split_L: Tensor) -> None:
        """C_R(i,j) -> I_R(i,r), C_R(r,j) and C_L(i,j) -> C_L(i,r), I_L(r,j) of one width."""
        start = self.start[: self.n_nodes - w]
        used, d = self.cells(self.right, w), split_R
        self.spread(used, d, start, self.arc_right)
        self.spread(used, w - d, start + d, self.right)
        used, d = self.cells(self.left, w), split_L
        self.spread(used, w - d, start + d, self.arc_left)
        self.spread(used, d, start, self.left)

    def split_halves(self, w: int, used: Tensor, d: Tensor) -> None:
        """Spans of one width -> C_R(i,r), C_L(r+1,j)."""
        start = self.start[: self.n_nodes - w]
        self.spread(used, d, start, self.right)
        self.spread(used, w - 1 - d, start + d + 1, self.left)

    def write_heads(self, w: int, heads: Tensor, first: int) -> None:
        """Heads under the marked arcs of one width."""
        start = self.start[: self.n_nodes - w]
        words = heads[:, first + w :]
        words.copy_(torch.where(self.cells(self.arc_right, w), start + first, words))
        words = heads[:, first : first + self.n_nodes - w]
        words.copy_(torch.where(self.cells(self.arc_left, w), start + first + w, words))
