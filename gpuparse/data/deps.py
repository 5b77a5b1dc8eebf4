"""The DEPS column, compiled: where the arcs of every word stand in the bytes.

DEPS is `_` or items `head:relation` joined by `|`. The relation begins behind the first `:` and may
hold further ones. The head is a number, or `i.j` for an empty node.
"""

import numpy as np

from gpuparse.compiled import compiled
from gpuparse.data.scanner import DEPS, EMPTY_NODE, UNDERSCORE, WORD, parse_id

COLON, BAR = 58, 124

# What can be wrong with an item.
NO_FAULT = 0
NO_COLON = 1
NO_NUMBER = 2
NO_RELATION = 3
OUT_OF_RANGE = 4
OWN_HEAD = 5

# Columns of a row of faults: code as above; sentence; word of the treebank; offsets of the item.
FAULT_CODE, FAULT_SENTENCE, FAULT_WORD, FAULT_START, FAULT_END = 0, 1, 2, 3, 4


@compiled
def is_missing(data: np.ndarray, start: int, end: int) -> bool:
    """Is the column `_`?"""
    return end - start == 1 and data[start] == UNDERSCORE


@compiled
def item_end(data: np.ndarray, start: int, end: int) -> int:
    """Where the item that begins at `start` ends: at the next `|`, or at the column's end."""
    at = start
    while at < end and data[at] != BAR:
        at += 1
    return at


@compiled
def parse_item(data: np.ndarray, start: int, end: int) -> tuple[int, int, int, int]:
    """(fault, i, j, offset of the relation) of an item. Word i has j = 0, empty node i.j not."""
    colon = start
    while colon < end and data[colon] != COLON:
        colon += 1
    if colon == end:
        return NO_COLON, 0, 0, end
    kind, i, j = parse_id(data, start, colon)
    if kind != WORD and kind != EMPTY_NODE:
        return NO_NUMBER, 0, 0, end
    if colon + 1 == end:
        return NO_RELATION, 0, 0, end
    return NO_FAULT, i, (j if kind == EMPTY_NODE else 0), colon + 1


@compiled
def count_items(data: np.ndarray, columns: np.ndarray) -> int:
    """Items of all words, at least one a word."""
    count = len(columns)
    for word in range(len(columns)):
        for at in range(columns[word, DEPS], columns[word, DEPS + 1] - 1):
            count += data[at] == BAR
    return count


@compiled
def insert_arc(
    heads: np.ndarray, spans: np.ndarray, first: int, last: int, head: int, start: int, end: int
) -> bool:
    """Puts an arc among the word's arcs first..last-1 by its head; False if that head is there."""
    at = last
    while at > first and heads[at - 1] > head:
        at -= 1
    if at > first and heads[at - 1] == head:
        return False
    for k in range(last, at, -1):
        heads[k] = heads[k - 1]
        spans[k, 0], spans[k, 1] = spans[k - 1, 0], spans[k - 1, 1]
    heads[at] = head
    spans[at, 0], spans[at, 1] = start, end
    return True


@compiled
def scan_word(
    data: np.ndarray, column: tuple[int, int], word: int, n_words: int,
    heads: np.ndarray, spans: np.ndarray, first: int, skipped: np.ndarray,
) -> tuple[int, int, int, int]:  # fmt: skip
    """Stores the arcs of word `word` (1..n_words) from index `first` on.

    Args:
        column: offsets of its DEPS.
        skipped: (2,) counts of items with an empty node for a head, and with a head seen before.
    Returns: the index after its last arc; the fault, if any, and the offsets of its item.
    """
    start, end = column
    last = first
    if is_missing(data, start, end):
        return last, NO_FAULT, 0, 0
    while True:
        stop = item_end(data, start, end)
        fault, i, j, relation = parse_item(data, start, stop)
        if fault == NO_FAULT and i > n_words:
            fault = OUT_OF_RANGE
        if fault == NO_FAULT and i == word and j == 0:
            fault = OWN_HEAD
        if fault != NO_FAULT:
            return last, fault, start, stop
        if j > 0:
            skipped[0] += 1
        elif insert_arc(heads, spans, first, last, i, relation, stop):
            last += 1
        else:
            skipped[1] += 1
        if stop == end:
            return last, NO_FAULT, 0, 0
        start = stop + 1


@compiled
def scan_deps(
    data: np.ndarray, columns: np.ndarray, word_starts: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The arcs between words, and from the root, of all words.

    Args: columns, word_starts: as a Treebank has them.
    Returns: starts (W + 1,), heads (A,) and spans (A, 2), offsets of the relations, word by word,
        heads ascending; faults (F, 5), the first of every faulty sentence, which has no arcs;
        skipped (2,) as scan_word counts, of sound sentences.
    """
    n_items = count_items(data, columns)
    starts = np.zeros(len(columns) + 1, np.int64)
    heads = np.empty(n_items, np.int32)
    spans = np.empty((n_items, 2), np.int64)
    faults = np.empty((len(word_starts) - 1, 5), np.int64)
    skipped, before = np.zeros(2, np.int64), np.zeros(2, np.int64)
    n_faults, at = 0, 0
    for s in range(len(word_starts) - 1):
        first, last = word_starts[s], word_starts[s + 1]
        begin = at
        before[0], before[1] = skipped[0], skipped[1]
        for w in range(first, last):
            column = (columns[w, DEPS], columns[w, DEPS + 1] - 1)
            at, fault, item, stop = scan_word(
                data, column, w - first + 1, last - first, heads, spans, at, skipped
            )
            starts[w + 1] = at
            if fault != NO_FAULT:
                faults[n_faults, FAULT_CODE] = fault
                faults[n_faults, FAULT_SENTENCE] = s
                faults[n_faults, FAULT_WORD] = w
                faults[n_faults, FAULT_START] = item
                faults[n_faults, FAULT_END] = stop
                n_faults += 1
                at = begin
                skipped[0], skipped[1] = before[0], before[1]
                for v in range(first, last):
                    starts[v + 1] = begin
                break
    return starts, heads[:at], spans[:at], faults[:n_faults], skipped
