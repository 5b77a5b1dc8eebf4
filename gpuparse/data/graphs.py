"""Dependency graphs of a treebank: every word may have several heads."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from gpuparse import native
from gpuparse.data import columns
from gpuparse.data.batch import Batch, word_places
from gpuparse.data.columns import DEPREL, DEPS
from gpuparse.data.faults import DepsFault, TreeFault, quoted
from gpuparse.data.treebank import Treebank, word_place
from gpuparse.data.trees import check_sentences
from gpuparse.data.vocabulary import Interner, column_ids
from gpuparse.errors import DataError

MESSAGES = {
    DepsFault.NO_COLON: "without a ':'; write head:relation, several joined by |, or _ for none"
    " (CoNLL-X has no graphs, but PHEAD in this column)",
    DepsFault.NO_NUMBER: "whose head is no number; write a number from 0 to {n}, or i.j for an"
    " empty node",
    DepsFault.NO_RELATION: "without a relation; write it behind the ':'",
    DepsFault.OUT_OF_RANGE: "whose head is not in the sentence; it has {n} words",
    DepsFault.OWN_HEAD: "but a word is not its own head; give it another, or leave the item out",
}

NONE = -1
_EMPTY_NODE = re.compile(rb"^([0-9]+\.[0-9]+)\t(?:[^\t\n]*\t){7}([^\t\n]*)\t", re.MULTILINE)
_MOST_STEPS = 1_000  # of paths through empty nodes to a word
_Items = Sequence[tuple[str, ...]]  # of DEPS: head and relation


@dataclass(frozen=True, eq=False)
class Graphs:
    """Heads of every word of a treebank: A arcs between words, word by word, heads ascending.

    An arc has one relation. 0 is the root.
    """

    starts: np.ndarray  # int64 (W + 1,): word w has the arcs starts[w]:starts[w + 1]
    heads: np.ndarray  # int32 (A,): word numbers within the sentence, 0 the root
    relations: np.ndarray  # int32 (A,): numbers of `names`
    names: list[str]  # relations in order of first appearance

    @property
    def n_words(self) -> int:
        """Number of words, W."""
        return len(self.starts) - 1

    def modifiers(self) -> np.ndarray:
        """(A,) int64: of every arc the word of the treebank that it enters, 0..W - 1."""
        return np.repeat(np.arange(self.n_words), np.diff(self.starts))


def read_graphs(treebank: Treebank) -> Graphs:
    """Reads the graphs in the DEPS column.

    Arcs from empty nodes (`8.1:obj`) are left out. Of several relations between the same two words
    the first is the arc's. Cycles are allowed.

    Args: treebank: any; HEAD and DEPREL are not looked at.
    Returns: The arcs. A word has none where its DEPS is `_` or names empty nodes only.
    Raises: DataError: an item that cannot be read; as check_graphs tells it.
    Cost: linear in the bytes of DEPS, about 40 ns per arc.
    """
    found = _scan(treebank)
    if len(found.faults):
        raise _item_error(treebank, found.faults[0])
    interner = Interner()
    relations = interner.intern(treebank.data, found.spans[:, 0], found.spans[:, 1])
    return Graphs(found.starts, found.heads, relations, interner.strings())


def check_graphs(treebank: Treebank) -> list[DataError]:
    """Finds the sentences whose DEPS column cannot be read.

    Returns: one error for each such sentence, in order, for its first fault: an item without ":"
        or relation, a head that is no number or not in the sentence, a word that is its own head.
    Cost: as read_graphs.
    """
    return [_item_error(treebank, fault) for fault in _scan(treebank).faults]


def readable_graphs(treebank: Treebank) -> np.ndarray:
    """(S,) bool: the sentences that check_graphs does not name."""
    readable = np.ones(len(treebank), bool)
    readable[_scan(treebank).faults[:, columns.FAULT_SENTENCE]] = False
    return readable


def missing_graphs(treebank: Treebank) -> np.ndarray:
    """(W,) bool: the words whose DEPS is `_`."""
    starts, ends = treebank.columns[:, DEPS], treebank.columns[:, DEPS + 1] - 1
    missing = ends - starts == 1
    missing[missing] = treebank.data[starts[missing]] == ord("_")
    return missing


class EnhancedArcs(NamedTuple):
    """Arcs (A,) between words of a treebank, with empty nodes collapsed.

    modifiers, heads: words 0..W - 1; the head -1 is the root. relations: numbers of `names`, in
    which the relations of a path through empty nodes are joined by ">".
    """

    modifiers: np.ndarray
    heads: np.ndarray
    relations: np.ndarray
    names: list[str]


def enhanced_arcs(treebank: Treebank) -> EnhancedArcs:
    """The arcs of the DEPS column as the shared tasks on enhanced dependencies count them.

    Each path from a word or the root through empty nodes to a word is one arc. Several relations
    between the same two words are several arcs. A word whose DEPS is `_` has none. Arcs of empty
    nodes from heads that are not in the sentence are left out.

    Args: treebank: its graphs can be read (see check_graphs).
    Raises: DataError: too many paths lead to a word.
    Cost: 1 µs for each word and arc.
    Source: Bouma, Seddah & Zeman (2020), section 4: `conj>nsubj` is an arc through an empty node.
    """
    ids, texts = column_ids(treebank, DEPS)
    items, nodes = [_items(text) for text in texts], _empty_nodes(treebank)
    names: dict[str, int] = {}
    arcs: list[tuple[int, int, int]] = []
    for s, first in enumerate(treebank.word_starts[:-1].tolist()):
        for w in range(first, int(treebank.word_starts[s + 1])):
            for step, (head, relation) in enumerate(_collapsed(items[ids[w]], nodes.get(s, {}))):
                if step > _MOST_STEPS:
                    raise DataError(
                        f"{word_place(treebank, w)}too many paths lead through empty nodes to this"
                        " word; leave some of their DEPS out"
                    )
                if "." not in head:
                    at = first + int(head) - 1 if int(head) else NONE
                    arcs.append((w, at, names.setdefault(relation, len(names))))
    modifiers, heads, relations = np.array(arcs, np.int64).reshape(-1, 3).T
    return EnhancedArcs(modifiers, heads, relations, list(names))


def _items(text: str) -> _Items:
    """The heads and relations of a DEPS."""
    return [] if text == "_" else [tuple(item.split(":", 1)) for item in text.split("|")]


def _empty_nodes(treebank: Treebank) -> dict[int, dict[str, _Items]]:
    """The items of DEPS of empty nodes, by sentence and by ID."""
    found: dict[int, dict[str, _Items]] = {}
    for row in _EMPTY_NODE.finditer(treebank.data.data):
        s = int(np.searchsorted(treebank.spans[:, 0], row.start(), side="right")) - 1
        if s >= 0 and row.start() < treebank.spans[s, 1]:
            n = int(treebank.word_starts[s + 1] - treebank.word_starts[s])
            items = [item for item in _items(row[2].decode()) if _is_readable(item, n)]
            found.setdefault(s, {})[row[1].decode()] = items
    return found


def _is_readable(item: tuple[str, ...], n: int) -> bool:
    """True for a relation with a head that is an empty node, or among n words and the root."""
    is_node = len(item) == 2 and item[0].replace(".", "", 1).isdecimal()
    return is_node and ("." in item[0] or int(item[0]) <= n)


def _collapsed(items: _Items, nodes: Mapping[str, _Items]) -> Iterator[tuple[str, str]]:
    """The beginnings of all paths to a word, and their relations; no path is at a node twice.

    Args: items: of the word. nodes: the items of empty nodes, by ID.
    """
    left = [(head, relation, frozenset[str]()) for head, relation in items]
    while left:
        head, relation, passed = left.pop()
        yield head, relation
        if head not in passed:
            more = passed | {head}
            left += [(above, f"{upper}>{relation}", more) for above, upper in nodes.get(head, ())]


def tree_graphs(treebank: Treebank) -> Graphs:
    """The HEAD column as graphs: one arc per word, DEPREL its relation.

    Args:
        treebank: its heads are not checked (see check_trees); a word whose HEAD is no number has
            no arc.
    Returns: The arcs. Unlike those of DEPS their relations may be empty or hold a `|`.
    Cost: linear in the words.
    """
    has_head = treebank.heads >= 0
    interner = Interner()
    relations = _intern_deprels(interner, treebank, np.flatnonzero(has_head))
    starts = np.concatenate([[0], np.cumsum(has_head)])
    return Graphs(starts, treebank.heads[has_head], relations, interner.strings())


def with_tree_arcs(graphs: Graphs, treebank: Treebank, words: np.ndarray) -> Graphs:
    """Graphs in which some words that have no arc are given that of the HEAD column.

    Args:
        graphs: of the treebank.
        treebank: HEAD and DEPREL are read where `words` says so; a HEAD that is no number gives
            no arc.
        words: (W,) bool, none of them with an arc, or ValueError.
    Returns: The graphs; new relations behind those known.
    Cost: linear in the words and arcs.
    """
    added = np.flatnonzero(words & (treebank.heads >= 0))
    return add_arcs(graphs, treebank, added, treebank.heads[added])


def add_arcs(graphs: Graphs, treebank: Treebank, words: np.ndarray, heads: np.ndarray) -> Graphs:
    """Graphs in which words without an arc have one; DEPREL is its relation.

    Args:
        words: (K,) ascending words of the treebank, none of them with an arc, or ValueError.
        heads: (K,) the head of each.
    """
    counts = np.diff(graphs.starts)
    if counts[words].any():
        raise ValueError("a word that is given an arc has one already")
    counts[words] = 1
    starts = np.concatenate([[0], np.cumsum(counts)])
    is_new = np.zeros(starts[-1], bool)
    is_new[starts[words]] = True
    interner = Interner(name.encode() for name in graphs.names)
    all_heads, relations = np.empty(len(is_new), np.int32), np.empty(len(is_new), np.int32)
    all_heads[~is_new], all_heads[is_new] = graphs.heads, heads
    relations[~is_new] = graphs.relations
    relations[is_new] = _intern_deprels(interner, treebank, words)
    return Graphs(starts, all_heads, relations, interner.strings())


def primary_relations(graphs: Graphs, treebank: Treebank) -> list[str | None]:
    """The DEPREL that belongs to each relation of the graphs, such as `nmod` for `nmod:of`.

    Args:
        graphs: of the treebank.
        treebank: its HEAD and DEPREL are compared with the graphs.
    Returns: For each relation of graphs.names the most frequent DEPREL of the words whose arc from
        their HEAD has that relation; among equally frequent ones the first in the file. None where
        no such arc has the relation.
    Cost: linear in words and arcs, and a table of all pairs of relations.
    """
    modifiers = graphs.modifiers()
    primary = np.flatnonzero(graphs.heads == treebank.heads[modifiers])
    interner = Interner()
    deprels = _intern_deprels(interner, treebank, modifiers[primary])
    size = max(len(interner), 1)
    pairs = graphs.relations[primary].astype(np.int64) * size + deprels
    counts = np.bincount(pairs, minlength=len(graphs.names) * size)
    table = counts.reshape(len(graphs.names), size)
    best, names = table.argmax(axis=1), interner.strings()
    return [names[best[r]] if table[r].any() else None for r in range(len(graphs.names))]


def by_place(graphs: Graphs, batch: Batch) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The graphs as kernels see them: the arcs of every place of a batch.

    Args:
        graphs: of W words.
        batch: all the treebank's sentences, in order, T places.
    Returns: arc_starts int64 (T + 1,): the word of place t has the arcs arc_starts[t]:arc_starts[t
        + 1]; arc_heads int64 (A,), ascending within a word; relations int32 (A,).
    Raises: ValueError: the batch has another number of words.
    Cost: linear in places and arcs.
    """
    places = word_places(batch)
    if len(places) != graphs.n_words:
        raise ValueError(f"the graphs have {graphs.n_words} words, the batch {len(places)}")
    counts = np.zeros(batch.n_tokens + 1, np.int64)
    counts[places + 1] = np.diff(graphs.starts)
    return np.cumsum(counts), graphs.heads.astype(np.int64), graphs.relations


def _scan(treebank: Treebank) -> columns.ScannedDeps:
    return columns.scan_deps(treebank.data, treebank.columns, treebank.word_starts)


def _intern_deprels(interner: Interner, treebank: Treebank, words: np.ndarray) -> np.ndarray:
    """(K,) int32 ids of the DEPREL of the given words."""
    starts, ends = treebank.columns[words, DEPREL], treebank.columns[words, DEPREL + 1] - 1
    return interner.intern(treebank.data, starts, ends)


def _item_error(treebank: Treebank, fault: np.ndarray) -> DataError:
    """The error for one row of the faults of scan_deps."""
    code, s, w, start, end = (int(number) for number in fault)
    first = int(treebank.word_starts[s])
    item = treebank.data[start:end].tobytes().decode()
    what = MESSAGES[DepsFault(code)].format(n=int(treebank.word_starts[s + 1]) - first)
    return DataError(
        f"{word_place(treebank, w)}DEPS of word {w - first + 1} ({treebank.column(w, 1)}) has the"
        f" item {quoted(item)}, {what}"
    )


def acyclic(graphs: Graphs, treebank: Treebank) -> tuple[Graphs, int]:
    """Acyclic graphs: arcs are added in this order, each unless it closes a cycle.

    1. Arcs from a word's HEAD. A word without any arc is given that from its HEAD.
    2. The other arcs, those of words without an arc from their HEAD first, then by modifier and by
       head; each unless it closes a directed cycle.
    3. A word still without a head is given its HEAD if that closes no cycle, else the root.

    Args:
        graphs: of the treebank.
        treebank: HEAD is a tree for every sentence (see check_trees).
    Returns: Graphs without cycles in which every word has a head, DEPREL the relation of arcs that
        were not there before; and how many of the arcs given were left out.
    Raises:
        ValueError: the heads of a sentence are no tree, or the graphs are not the treebank's.
        DataError: a DEPREL that DEPS could not hold (empty, or with `|`) is needed for a new arc.
    Cost: a climb through the graph for each arc that is not from HEAD; linear otherwise.
    """
    if graphs.n_words != treebank.n_words:
        raise ValueError(f"graphs of {graphs.n_words} words, a treebank of {treebank.n_words}")
    faults, _ = check_sentences(treebank.heads, treebank.word_starts, False, False)
    if (faults != TreeFault.WELL_FORMED).any():
        raise ValueError(
            f"the heads of sentence {np.argmax(faults != TreeFault.WELL_FORMED)} are no tree"
        )
    kept, added = np.empty(len(graphs.heads), np.bool_), np.empty(treebank.n_words, np.int32)
    native.call(
        "choose_acyclic_arcs", graphs.starts, graphs.heads, treebank.heads, treebank.word_starts,
        kept, added,
    )  # fmt: skip
    before = np.concatenate([[0], np.cumsum(kept)])
    left = Graphs(before[graphs.starts], graphs.heads[kept], graphs.relations[kept], graphs.names)
    words = np.flatnonzero(added != NONE)
    for _, error in unwritable_relations(treebank, words):
        raise error
    n_dropped = len(kept) - int(np.count_nonzero(kept))
    return add_arcs(left, treebank, words, added[words]), n_dropped


def fits_deps(relation: str) -> bool:
    """True if an item of DEPS can have a relation."""
    return relation != "" and "|" not in relation


def unwritable_relations(treebank: Treebank, words: np.ndarray) -> Iterator[tuple[int, DataError]]:
    """Yield the words, of (K,) numbers, whose DEPREL DEPS cannot have, each with its error."""
    ids, names = column_ids(treebank, DEPREL)
    is_wrong = np.array([not fits_deps(name) for name in names] or [False])[ids]
    for w in words[is_wrong[words]].tolist():
        yield (
            w,
            DataError(
                f"{word_place(treebank, w)}the relation {names[ids[w]]!r} cannot be written into"
                " DEPS, whose items are joined by |; give the word a DEPREL of other characters, or"
                " DEPS of its own"
            ),
        )
