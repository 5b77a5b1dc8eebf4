"""The check of given trees against a distribution, and the trees that replace others."""

from typing import Literal

import numpy as np
import torch
from torch import Tensor

from gpuparse import native
from gpuparse.errors import ConfigError, ScoreError
from gpuparse.inference.engines import is_traced
from gpuparse.inference.nearest_trees import have_projective, nearest_projective, unkeepable
from gpuparse.inference.scores import (
    Lengths,
    as_lengths,
    fails,
    require_tensor,
    sent,
    word_mask,
)
from gpuparse.inference.search import NO_HEAD

Unreachable = Literal["error", "skip", "projectivise"]
UNREACHABLE = ("error", "skip", "projectivise")
# By the number of the fault, as native/trees.h has them.
_FAULTS = (
    "", "has no head", "has a head below 0", "has a head beyond the words of the sentence",
    "is its own head", "is on a cycle", "", "has an arc that crosses another one",
    "has an arc that no tree has with the other known ones",
)  # fmt: skip
_CROSSING, _TOGETHER = 7, 8


class TreeKind:
    """The trees of a distribution, for checks of given ones.

    Args: lengths: int64 (B,). is_projective: whether arcs must not cross. single_root: whether
        exactly one word is attached to the root.
    """

    def __init__(self, lengths: Tensor, *, is_projective: bool, single_root: bool) -> None:
        self.lengths, self.is_projective, self.single_root = lengths, is_projective, single_root

    def require(self, heads: Tensor, *, is_partial: bool = False, is_loss: bool = False) -> None:
        """Make sure that all trees are of the kind; nothing is checked where code is traced.

        Args: heads: as `as_heads` returns them. is_partial: whether -1 says that a head is not
            known; then some tree has to have the known ones.
        Raises: ScoreError: names the first sentence with another tree, and what is wrong. On
            devices but the CPU nothing waits for the result: torch reports a failed assertion when
            the device is next waited for; known heads that no projective tree has may be there.
        Cost: of a tree about the sum of the lengths of its arcs; on devices O(N^2). Of a projective
            tree with heads that are not known O(n^3), on the CPU.
        """
        if is_traced():
            return
        if heads.device.type != "cpu":
            is_wrong = self._find_wrong(heads, is_partial=is_partial)
            fails(is_wrong, f"given trees: {self._hint(None, is_loss)}")
            return
        faults, words = self._faults(heads, is_partial=is_partial)
        if faults.any():
            raise ScoreError(self._message(heads, faults, words, is_loss))

    def find_wrong(self, heads: Tensor, *, is_partial: bool = False) -> Tensor:
        """Bool (B,) or (B, K): which trees are not of the kind; as `require`.

        Cost: partial projective trees move to the CPU.
        """
        is_of_device = heads.device.type != "cpu" and not (is_partial and self.is_projective)
        if is_traced() or is_of_device:
            return self._find_wrong(heads, is_partial=is_partial)
        faults, _ = self._faults(heads, is_partial=is_partial)
        return torch.from_numpy(faults != 0).reshape(heads.shape[:-1]).to(heads.device)

    def _find_wrong(self, heads: Tensor, *, is_partial: bool) -> Tensor:
        of_trees = heads if heads.dim() == 3 else heads[:, None]
        is_wrong = _find_wrong(of_trees, self, is_partial=is_partial)
        return is_wrong if heads.dim() == 3 else is_wrong[:, 0]

    def reachable(
        self, heads: Tensor, unreachable: Unreachable, *, is_partial: bool
    ) -> tuple[Tensor, Tensor | None]:
        """Trees that are all of the kind, and bool (B,): which are to be left out; None for none.

        Args: heads: (B, N). unreachable: "error", as `require`; "skip": other trees become chains
            of words, which are left out; "projectivise": the nearest projective trees.
        Cost: "projectivise" moves the heads to the CPU.
        """
        if unreachable not in UNREACHABLE:
            raise ConfigError(
                f"unreachable: expected {', '.join(UNREACHABLE)}, and not {unreachable!r}"
            )
        if unreachable == "projectivise":
            heads = projectivise(heads, self.lengths, single_root=self.single_root)
        if unreachable != "skip":
            self.require(heads, is_partial=is_partial, is_loss=True)
            return heads, None
        is_wrong = self.find_wrong(heads, is_partial=is_partial)
        position = torch.arange(heads.shape[1], device=heads.device)
        return torch.where(is_wrong[:, None], position - 1, heads), is_wrong

    def _faults(self, heads: Tensor, *, is_partial: bool) -> tuple[np.ndarray, np.ndarray]:
        """(R,) faults of all trees, and the words that have them."""
        rows = heads.reshape(-1, heads.shape[-1]).cpu().numpy()
        lengths = self.lengths.cpu().numpy()
        if heads.dim() == 3:
            lengths = lengths.repeat(heads.shape[1])
        faults, words = np.zeros(len(rows), np.int32), np.zeros(len(rows), np.int32)
        native.call(
            "find_tree_faults", rows, lengths, self.single_root, self.is_projective, is_partial,
            faults, words,
        )  # fmt: skip
        if is_partial and self.is_projective:
            is_word = np.arange(rows.shape[1]) <= lengths[:, None]
            is_open = (faults == 0) & ((rows < 0) & is_word)[:, 1:].any(1)
            found = have_projective(rows[is_open], lengths[is_open], single_root=self.single_root)
            for r in np.flatnonzero(is_open)[~found]:
                known = rows[r, 1 : lengths[r] + 1]
                words[r] = unkeepable(known, single_root=self.single_root)[0]
                faults[r] = _TOGETHER
        return faults, words

    def _message(self, heads: Tensor, faults: np.ndarray, words: np.ndarray, is_loss: bool) -> str:
        row = int(np.flatnonzero(faults)[0])
        per_sentence = heads.shape[1] if heads.dim() == 3 else 1
        b, m = row // per_sentence, int(words[row])
        tree = f", tree {row % per_sentence}" if heads.dim() == 3 else ""
        what = f"word {m} {_FAULTS[faults[row]]}" if m else "several words are attached to the root"
        if m:
            what += f": its head is {int(heads.reshape(-1, heads.shape[-1])[row, m])}"
        return f"sentence {b}{tree}: {what}; {self._hint(int(faults[row]), is_loss)}"

    def _hint(self, fault: int | None, is_loss: bool) -> str:
        """The expected trees; for losses also another remedy of a fault, None for any."""
        kind = "projective trees" if self.is_projective else "trees"
        hint = f"expected {kind}{' with one word at the root' if self.single_root else ''}"
        if is_loss:
            hint += '; a loss leaves out other sentences with unreachable="skip"'
        if is_loss and fault is None:
            hint += ", and takes -1 for heads that are not known with partial=True"
        if is_loss and fault in (None, _CROSSING, _TOGETHER):
            hint += ', and learns from the nearest projective tree with unreachable="projectivise"'
        return hint


def as_heads(
    heads: object, lengths: Tensor, n_nodes: int, *, several: bool = False, name: str = "heads"
) -> Tensor:
    """Given heads, or labels, as int64 on the device of the lengths, their values unchecked.

    Args: heads: integers (B, N) or, if `several`, also (B, K, N). name: in messages.
    Raises: ScoreError: another type or shape.
    """
    require_tensor(heads, name)
    assert isinstance(heads, Tensor)
    if heads.is_floating_point() or heads.is_complex() or heads.dtype == torch.bool:
        raise ScoreError(f"{name} has type {heads.dtype}, expected integers")
    shape, batch = tuple(heads.shape), len(lengths)
    fits = len(shape) in ((2, 3) if several else (2,))
    if not fits or shape[0] != batch or shape[-1] != n_nodes:
        more = f", or ({batch}, K, {n_nodes})" if several else ""
        raise ScoreError(
            f"{name} has shape {shape}, expected ({batch}, {n_nodes}){more}: one for each"
            " position of arc_scores, the root's first"
        )
    return sent(heads, lengths.device)


def projectivise(heads: Tensor, lengths: Lengths = None, *, single_root: bool = False) -> Tensor:
    """The nearest projective trees: those that keep most arcs of the given ones.

    Of several, the one in which more words are attached to an ancestor of theirs in the given tree,
    as if the arc had been lifted. `learning.unreachable: projectivise` replaces gold trees so.

    Args:
        heads: integers (B, N) of trees, 0 for the root; -1 for words whose head is not known.
            Position 0 and padding are not read.
        lengths: words of each sentence, integers (B,); None: N-1 of each.
        single_root: whether exactly one word is attached to the root.
    Returns: int64 (B, N) on the same device, -1 at the root and in padding; projective trees stay
        as they are. In a sentence with a head that is not known, neither are heads that the
        projective tree with most of the known ones does not have.
    Raises: ScoreError: a wrong type or shape; heads out of range, or on a cycle.
    Cost: linear for projective trees, O(N^3) for others, on the CPU.
    Source: Carreras 2007, footnote 2; see `nearest_projective`.

    >>> projectivise(torch.tensor([[-1, 3, 0, 2, 2]]))
    tensor([[-1,  2,  0,  2,  2]])
    """
    require_tensor(heads, "heads")
    if heads.dim() != 2:
        raise ScoreError(f"heads has shape {tuple(heads.shape)}, expected (B, N)")
    words = as_lengths(lengths, heads[:, :, None])
    given = as_heads(heads, words, heads.shape[1]).cpu()
    n_words = words.cpu()
    TreeKind(n_words, is_projective=False, single_root=False).require(given, is_partial=True)
    found = given.masked_fill(~word_mask(n_words, given.shape[1]), NO_HEAD)
    kind = TreeKind(n_words, is_projective=True, single_root=single_root)
    for b in kind.find_wrong(found, is_partial=True).nonzero()[:, 0].tolist():
        tree = slice(1, int(n_words[b]) + 1)
        nearest = torch.from_numpy(
            nearest_projective(found[b, tree].numpy(), single_root=single_root)
        )
        is_whole = bool((found[b, tree] >= 0).all())
        found[b, tree] = nearest if is_whole else nearest.where(nearest == found[b, tree], NO_HEAD)
    return found.to(heads.device)


def _find_wrong(heads: Tensor, kind: TreeKind, *, is_partial: bool) -> Tensor:
    """Bool (B, K): `TreeKind.find_wrong` by operations of torch, which wait for no device.

    Where a head is not known, arcs may cross.
    """
    lengths, n_nodes = kind.lengths, heads.shape[-1]
    position = torch.arange(n_nodes, device=heads.device)
    is_word = word_mask(lengths, n_nodes)[:, None]
    least = -1 if is_partial else 0
    out = (heads < least) | (heads > lengths[:, None, None]) | (heads == position)
    is_wrong = (out & is_word).any(-1)
    is_open = ((heads < 0) & is_word).any(-1)
    above = heads.masked_fill(out | ~is_word, 0).clamp(min=0)
    top = above
    for _ in range(max(1, n_nodes - 1).bit_length()):  # twice as far up each time
        top = top.gather(-1, top)
    is_wrong |= (top != 0).any(-1)
    if kind.single_root:
        is_wrong |= ((heads == 0) & is_word).sum(-1) > 1
    if kind.is_projective:
        first, last = torch.minimum(above, position), torch.maximum(above, position)
        first, last = first.masked_fill(~is_word, 0), last.masked_fill(~is_word, 0)
        begins = (first[..., :, None] < first[..., None, :]) & (
            first[..., None, :] < last[..., :, None]
        )
        is_crossing = (begins & (last[..., :, None] < last[..., None, :])).flatten(-2).any(-1)
        is_wrong |= is_crossing & ~is_open
    return is_wrong
