"""The gold trees or graphs of a training treebank, as arcs are learned from them.

A gold tree that the decoder cannot find is replaced. Words may lack a head; the decoder completes
such trees with the weights of the moment.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from gpuparse.data.batch import Batch, incomplete, word_places
from gpuparse.data.columns import is_value
from gpuparse.data.graphs import acyclic, by_place, missing_graphs, primary_relations, read_graphs
from gpuparse.data.treebank import Treebank, word_place
from gpuparse.data.trees import is_projective, n_roots, nonprojective_arcs
from gpuparse.errors import DataError
from gpuparse.inference.decoders import DECODERS
from gpuparse.inference.nearest_trees import nearest_projective, unkeepable
from gpuparse.limits import MAX_LABELS, MAX_TAG

if TYPE_CHECKING:
    from gpuparse.config import RunConfig


@dataclass(frozen=True, eq=False)
class GoldGraphs:
    """Gold graphs without cycles, by token index.

    cells: (C,) bool: the arc h -> m of a sentence of n words at its first cell + h * (n + 1) + m.
    firsts: (T,) int64: the first cell of each sentence, at the token index of its root.
    arc_starts, arc_heads, relations: as in `gpuparse.data.graphs.by_place`.
    names: of the relations. primary: the DEPREL that goes with each of them on a primary arc, None
    for a relation that no primary arc has.
    """

    cells: np.ndarray
    firsts: np.ndarray
    arc_starts: np.ndarray
    arc_heads: np.ndarray
    relations: np.ndarray
    names: list[str]
    primary: list[str | None]

    @property
    def may_be_primary(self) -> np.ndarray:
        """(relations,) bool: whether a primary arc may have the relation."""
        return np.array([name is not None for name in self.primary])


@dataclass(frozen=True, eq=False)
class GoldTrees:
    """Gold trees by token index, as the treebank has them and as arcs are learned from them.

    batch, heads: the sentences, and their gold heads (T,), -1 for a word without one and for what
    is no word. Labels are learned from these.
    arc_heads: (T,) the heads that arcs are learned from, which the decoder can find.
    graphs: the gold graphs, if the decoder finds graphs.
    single_root: whether every tree has exactly one modifier of the root.
    n_unreachable: trees that the decoder cannot find; of graphs, arcs left out.
    """

    batch: Batch
    heads: np.ndarray
    arc_heads: np.ndarray
    graphs: GoldGraphs | None
    single_root: bool
    n_unreachable: int

    @property
    def longest(self) -> int:
        """Words of the longest sentence."""
        return int(self.batch.lengths.max())

    @property
    def is_partial(self) -> bool:
        """True if a word lacks a head that arcs could be learned from."""
        return bool((self.arc_heads[word_places(self.batch)] < 0).any())

    def by_token(self, by_word: np.ndarray) -> np.ndarray:
        """(T,) int64 by token index from (W,) by word, -1 elsewhere."""
        return _by_token(self.batch, by_word)


def read_gold(
    treebank: Treebank,
    batch: Any,
    decoder: str,
    *,
    unreachable: str,
    single_root: bool | None,
) -> GoldTrees:
    """Read the gold trees of a treebank, and the graphs if the decoder finds graphs.

    Args:
        batch: the treebank, as a scorer has encoded it.
        decoder: what finds trees while learning.
        unreachable: what replaces a non-projective gold tree of a projective decoder:
            "projectivise", the nearest projective tree; other values, nothing.
        single_root: None: whether all gold trees have exactly one modifier of the root.
    Raises: DataError: no graphs, or a tree with several modifiers of the root where one is wanted.
    """
    heads = _by_token(batch, treebank.heads)
    graphs, n_unreachable = None, 0
    if DECODERS[decoder].gives_graphs:
        graphs, n_unreachable = _read_graphs(treebank, batch, decoder)
    if single_root is None:
        single_root = _all_have_one_root(batch, heads)
    reachable, n_replaced = _reachable(
        batch, heads, decoder, unreachable=unreachable, single_root=single_root
    )
    return GoldTrees(batch, heads, reachable, graphs, single_root, n_unreachable + n_replaced)


def _by_token(batch: Batch, by_word: np.ndarray) -> np.ndarray:
    values = np.full(batch.n_tokens, -1, np.int64)
    values[word_places(batch)] = by_word
    return values


def _read_graphs(treebank: Treebank, batch: Batch, decoder: str) -> tuple[GoldGraphs, int]:
    """The gold graphs, and how many arcs were left out because each would close a cycle."""
    if missing_graphs(treebank).all():
        raise DataError(
            f"{treebank.source}: DEPS, column 9, is _ in every word; decoder {decoder} learns from"
            " the heads in that column"
        )
    graphs, n_left_out = acyclic(read_graphs(treebank), treebank)
    arc_starts, arc_heads, relations = by_place(graphs, batch)
    primary = primary_relations(graphs, treebank)
    starts, lengths = batch.starts, batch.lengths
    sizes = (lengths + 1) ** 2
    firsts = np.zeros(batch.n_tokens, np.int64)
    firsts[starts] = np.cumsum(sizes) - sizes
    cells = np.zeros(int(sizes.sum()), np.bool_)
    for start, n in zip(starts.tolist(), lengths.tolist(), strict=True):
        modifiers = np.arange(1, n + 1).repeat(np.diff(arc_starts[start + 1 : start + n + 2]))
        heads = arc_heads[arc_starts[start + 1] : arc_starts[start + n + 1]]
        cells[firsts[start] + heads * (n + 1) + modifiers] = True
    found = GoldGraphs(
        cells,
        firsts,
        arc_starts.astype(np.int64),
        arc_heads.astype(np.int64),
        relations.astype(np.int64),
        graphs.names,
        primary,
    )
    return found, n_left_out


def check_relations(treebank: Treebank, names: Iterable[str]) -> None:
    """DataError for relations that no model may have."""
    names = list(names)
    if not all(is_value(name) and name.strip() for name in names):
        raise DataError(
            f"{treebank.source}: a relation (DEPREL) is empty or has NUL in it: write _ in its"
            " place"
        )
    if max(map(len, names), default=0) > MAX_TAG:
        raise DataError(
            f"{treebank.source}: a relation (DEPREL) has more than {MAX_TAG:,} characters: write _"
            " in its place"
        )
    if len(names) > MAX_LABELS:
        raise DataError(f"{treebank.source}: {len(names):,} relations, more than {MAX_LABELS:,}")


def _all_have_one_root(batch: Batch, heads: np.ndarray) -> bool:
    """True if every tree has one modifier of the root, or may have: an incomplete one with none."""
    starts, lengths = batch.starts, batch.lengths
    at_root = np.concatenate([[0], np.cumsum(heads == 0)])
    counts = at_root[starts + lengths + 1] - at_root[starts + 1]
    may_lack_one = incomplete(batch, heads)
    return bool(((counts == 1) | ((counts == 0) & may_lack_one)).all())


def _reachable(
    batch: Batch, heads: np.ndarray, decoder: str, *, unreachable: str, single_root: bool
) -> tuple[np.ndarray, int]:
    """Heads that the decoder can find, and how many trees are replaced."""
    reachable, n_replaced = heads.copy(), 0
    is_of_projective = DECODERS[decoder].is_projective
    for start, n in zip(batch.starts.tolist(), batch.lengths.tolist(), strict=True):
        words = slice(start + 1, start + n + 1)
        tree = reachable[words]
        is_whole = bool((tree >= 0).all())
        if single_root and (n_roots(tree) > 1 or (is_whole and n_roots(tree) != 1)):
            raise DataError(
                f"a training tree has {n_roots(tree)} words under the root: set data.single_root"
                " to false or auto"
            )
        if DECODERS[decoder].needs_projective_tree and not is_whole:
            nearest = nearest_projective(tree, single_root=single_root)
            n_replaced += bool(((tree >= 0) & (tree != nearest)).any())
            tree[tree != nearest] = -1  # a head that cannot be kept counts as unknown
        elif is_of_projective and not is_projective(tree):
            n_replaced += 1
            if unreachable == "projectivise":
                tree[:] = nearest_projective(tree, single_root=single_root)
    return reachable, n_replaced


def without_unreachable(
    treebank: Treebank, guides: np.ndarray | None, config: RunConfig
) -> tuple[Treebank, np.ndarray | None]:
    """A training treebank, and its guides (W,), without the trees that a decoder cannot find.

    That is what `learning.unreachable` asks for: "skip", leave them out, or "error". Any other
    value replaces trees (`read_gold`), or keeps them as they are.
    Raises: DataError: "error" and there is such a tree, or no tree is left.
    """
    wish, decoder = config.learning.unreachable, config.decoder
    if wish not in ("skip", "error") or not DECODERS[decoder].is_projective:
        return treebank, guides
    starts, heads = treebank.word_starts, treebank.heads
    sentences = np.repeat(np.arange(len(treebank)), np.diff(starts))
    crosses = np.zeros(len(treebank), np.bool_)
    crosses[sentences[nonprojective_arcs(heads, starts)]] = True
    for s in np.unique(sentences[heads < 0]).tolist():
        crosses[s] = bool(unkeepable(heads[starts[s] : starts[s + 1]]))
    if wish == "error" and crosses.any():
        first = word_place(treebank, int(starts[np.flatnonzero(crosses)[0]]))
        raise DataError(
            f"{first}the tree has crossing arcs, and decoder {decoder} finds projective trees: give"
            " learning.unreachable=skip or projectivise, or a decoder of all trees"
        )
    if crosses.all():
        raise DataError(f"{treebank.source}: no training tree is projective")
    return treebank.only(~crosses), None if guides is None else guides[~crosses[sentences]]
