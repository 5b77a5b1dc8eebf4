"""Copying a treebank's bytes with columns exchanged: the writer's compiled half."""

import numpy as np

from gpuparse.compiled import compiled
from gpuparse.data.deps import BAR, COLON, NO_FAULT, item_end, parse_item
from gpuparse.data.misc_items import MISC, Misc, write_misc
from gpuparse.data.scanner import DEPREL, DEPS, HEAD, NO_HEAD, UNDERSCORE, ZERO

LONGEST_HEAD = 10  # digits of the largest int32

Labels = tuple[np.ndarray, np.ndarray, np.ndarray] | None
Arcs = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray] | None


@compiled
def copy_bytes(data: np.ndarray, start: int, end: int, out: np.ndarray, at: int) -> int:
    """out[at:] = data[start:end]; returns the place after it."""
    size = end - start
    source, target = data[start:end], out[at : at + size]
    for i in range(size):
        target[i] = source[i]
    return at + size


@compiled
def write_head(head: int, out: np.ndarray, at: int) -> int:
    """Writes a head as a number, NO_HEAD as `_`; returns the place after it."""
    if head == NO_HEAD:
        out[at] = UNDERSCORE
        return at + 1
    n_digits, rest = 1, head // 10
    while rest > 0:
        n_digits += 1
        rest //= 10
    rest = head
    for k in range(n_digits - 1, -1, -1):
        out[at + k] = ZERO + rest % 10
        rest //= 10
    return at + n_digits


@compiled
def items_from_empty(data: np.ndarray, start: int, end: int) -> np.ndarray:
    """The items of DEPS with an empty node i.j for a head: (K, 4) i, j and offsets, by i and j."""
    count, at = 1, start
    while at < end:
        count += data[at] == BAR
        at += 1
    items = np.empty((count, 4), np.int64)
    n_items = 0
    while start < end:
        stop = item_end(data, start, end)
        fault, i, j, _ = parse_item(data, start, stop)
        if fault == NO_FAULT and j > 0:
            k = n_items
            while k > 0 and (items[k - 1, 0] > i or (items[k - 1, 0] == i and items[k - 1, 1] > j)):
                for c in range(4):
                    items[k, c] = items[k - 1, c]
                k -= 1
            items[k, 0], items[k, 1], items[k, 2], items[k, 3] = i, j, start, stop
            n_items += 1
        start = stop + 1
    return items[:n_items]


@compiled
def write_deps(
    data: np.ndarray, start: int, end: int, heads: np.ndarray, relations: np.ndarray,
    names: np.ndarray, name_ends: np.ndarray, out: np.ndarray, at: int,
) -> int:  # fmt: skip
    """Writes DEPS from a word's arcs and, between them, its items from empty nodes.

    Args:
        start, end: the present DEPS.
        heads, relations: of the word's arcs, heads ascending.
    Returns: the place after it.
    """
    items = items_from_empty(data, start, end)
    begin, k = at, 0
    for a in range(len(heads) + 1):
        while k < len(items) and (a == len(heads) or items[k, 0] < heads[a]):
            if at > begin:
                out[at] = BAR
                at += 1
            at = copy_bytes(data, items[k, 2], items[k, 3], out, at)
            k += 1
        if a < len(heads):
            if at > begin:
                out[at] = BAR
                at += 1
            at = write_head(heads[a], out, at)
            out[at] = COLON
            r = relations[a]
            at = copy_bytes(names, name_ends[r], name_ends[r + 1], out, at + 1)
    if at == begin:
        out[at] = UNDERSCORE
        at += 1
    return at


@compiled
def longest_name(name_ends: np.ndarray) -> int:
    """Bytes of the longest of the names."""
    longest = 0
    for r in range(len(name_ends) - 1):
        longest = max(longest, name_ends[r + 1] - name_ends[r])
    return longest


@compiled
def longest_deps(starts: np.ndarray, relations: np.ndarray, name_ends: np.ndarray) -> int:
    """Bytes that write_deps needs at most beyond the present columns."""
    size = len(starts)
    for r in relations:
        size += LONGEST_HEAD + 2 + name_ends[r + 1] - name_ends[r]
    return size


@compiled
def replace_columns(
    data: np.ndarray,
    columns: np.ndarray,
    dropped: np.ndarray,
    heads: np.ndarray,
    labels: Labels,
    arcs: Arcs,
    misc: Misc,
) -> np.ndarray:
    """The bytes with each word's HEAD and, if given, DEPREL, DEPS and items of MISC replaced.

    Args:
        dropped: (F, 2) spans to leave out, in order and apart from all words.
        heads: (W,); NO_HEAD writes `_`, anything below leaves the column as it is.
        labels: names and name_ends, where relation r is names[name_ends[r] : name_ends[r + 1]];
            the relation of each word, (W,). None leaves DEPREL as it is.
        arcs: names and name_ends of the graphs' relations; starts, heads and relations of Graphs.
            None leaves DEPS as it is.
        misc: as of misc_arrays; None leaves MISC as it is.
    """
    size = len(data) + len(columns) * LONGEST_HEAD
    if labels is not None:
        names, name_ends, label_ids = labels
        size += len(columns) * longest_name(name_ends)
    if arcs is not None:
        arc_names, arc_name_ends, starts, arc_heads, relations = arcs
        size += longest_deps(starts, relations, arc_name_ends)
    if misc is not None:
        keys, key_ends, values = misc
        size += len(columns) * (len(keys) + len(values) * (values.shape[2] + 2))
    out = np.empty(size, np.uint8)
    done, at, span = 0, 0, 0  # bytes read, bytes written, spans passed
    for word in range(len(columns)):
        while span < len(dropped) and dropped[span, 0] < columns[word, 0]:
            at = copy_bytes(data, done, dropped[span, 0], out, at)
            done = dropped[span, 1]
            span += 1
        if heads[word] >= NO_HEAD:
            at = copy_bytes(data, done, columns[word, HEAD], out, at)
            at = write_head(heads[word], out, at)
            done = columns[word, HEAD + 1] - 1
        if labels is not None:
            at = copy_bytes(data, done, columns[word, DEPREL], out, at)
            label = label_ids[word]
            at = copy_bytes(names, name_ends[label], name_ends[label + 1], out, at)
            done = columns[word, DEPREL + 1] - 1
        if arcs is not None:
            at = copy_bytes(data, done, columns[word, DEPS], out, at)
            done = columns[word, DEPS + 1] - 1
            first, last = starts[word], starts[word + 1]
            at = write_deps(
                data, columns[word, DEPS], done, arc_heads[first:last], relations[first:last],
                arc_names, arc_name_ends, out, at,
            )  # fmt: skip
        if misc is not None:
            at = copy_bytes(data, done, columns[word, MISC], out, at)
            done = columns[word, MISC + 1] - 1
            start = columns[word, MISC]
            at = write_misc(data, start, done, word, keys, key_ends, values, out, at)
    while span < len(dropped):
        at = copy_bytes(data, done, dropped[span, 0], out, at)
        done = dropped[span, 1]
        span += 1
    at = copy_bytes(data, done, len(data), out, at)
    return out[:at]
