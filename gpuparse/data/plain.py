"""The native functions of this folder in plain Python: for machines without native code, and tests.

Each has the name and the arguments of the function that native/api/conll.h or native/api/treebank.h
declares, and writes to the same arrays; `native.call` calls it where there is no native code. The
plain scanner is in `scanner`.

Cost: some hundred times that of native code.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from gpuparse import native
from gpuparse.data.faults import DepsFault, TreeFault
from gpuparse.data.scanner import DEPREL, DEPS, HEAD, MISC, NO_HEAD, parse_id, parse_number

EMPTY_SLOT = -1
WORD_64 = (1 << 64) - 1


def check_tree(heads: np.ndarray) -> int:
    """1 if every word has a head and every chain of heads ends at the root, else 0."""
    fault, _ = _fault_of(heads.tolist(), False, False)
    return int(fault == TreeFault.WELL_FORMED)


def mark_nonprojective(heads: np.ndarray, word_starts: np.ndarray, marks: np.ndarray) -> int:
    """Marks words with non-projective arcs; the first sentence that is no tree, or -1."""
    for s, (first, tree) in enumerate(_sentences(heads.clip(min=0), word_starts)):
        if not check_tree(np.array(tree, np.int32)):
            return s
        above = [_above(tree, m) for m in range(len(tree) + 1)]
        for m, h in enumerate(tree, 1):
            between = range(min(h, m) + 1, max(h, m))
            marks[first + m - 1] = h > 0 and any(h not in above[k] for k in between)
    return -1


def _above(tree: list[int], m: int) -> set[int]:
    """The nodes on the way from m to the root, m included."""
    nodes = {m}
    while m > 0:
        m = tree[m - 1]
        nodes.add(m)
    return nodes


def check_sentences(
    heads: np.ndarray, word_starts: np.ndarray, single_root: bool, is_partial: bool,
    faults: np.ndarray, words: np.ndarray,
) -> int:  # fmt: skip
    """The first fault of each sentence, and its word."""
    for s, (_, tree) in enumerate(_sentences(heads, word_starts)):
        faults[s], words[s] = _fault_of(tree, single_root, is_partial)
    return native.OK


def _fault_of(tree: list[int], single_root: bool, is_partial: bool) -> tuple[int, int]:
    n = len(tree)
    for m, h in enumerate(tree, 1):
        if h == NO_HEAD and not is_partial:
            return TreeFault.MISSING_HEAD, m
        if h < NO_HEAD:
            return TreeFault.NO_HEAD_NUMBER, m
        if h > n:
            return TreeFault.HEAD_OUT_OF_RANGE, m
        if h == m:
            return TreeFault.SELF_HEAD, m
    first_climb: dict[int, int] = {}  # of each word, the word whose climb passed it first
    for m in range(1, n + 1):
        v = m
        while v > 0 and v not in first_climb:
            first_climb[v] = m
            v = tree[v - 1]
        if v > 0 and first_climb[v] == m:
            return TreeFault.CYCLE, v
    return (
        TreeFault.SEVERAL_ROOTS if single_root and tree.count(0) > 1 else TreeFault.WELL_FORMED
    ), 0


def choose_acyclic_arcs(
    starts: np.ndarray, heads: np.ndarray, primary: np.ndarray, word_starts: np.ndarray,
    kept: np.ndarray, added: np.ndarray,
) -> int:  # fmt: skip
    """Which arcs are kept so that no cycle is left, and heads given besides; see acyclic.py."""
    kept[:], added[:] = False, -1
    for first, tree in _sentences(primary, word_starts):
        words = range(first, first + len(tree))
        arcs = {w: range(starts[w], starts[w + 1]) for w in words}
        parents: dict[int, set[int]] = {m: set() for m in range(1, len(tree) + 1)}

        def keep_all(some: list[tuple[int, int]], parents: dict[int, set[int]], first: int) -> None:
            for w, a in some:
                if not kept[a] and not _is_above(parents, w - first + 1, int(heads[a])):
                    kept[a] = True
                    parents[w - first + 1].add(int(heads[a]))

        for w in words:
            if not arcs[w]:
                added[w] = primary[w]
                parents[w - first + 1].add(int(primary[w]))
            for a in arcs[w]:
                if heads[a] == primary[w]:
                    kept[a] = True
                    parents[w - first + 1].add(int(heads[a]))
        is_headed = {w: bool(parents[w - first + 1]) for w in words}
        for turn in (False, True):
            some = [(w, a) for w in words if is_headed[w] == turn for a in arcs[w]]
            keep_all(some, parents, first)
        for w in words:
            m = w - first + 1
            if not parents[m]:
                added[w] = 0 if _is_above(parents, m, int(primary[w])) else primary[w]
                parents[m].add(int(added[w]))
    return native.OK


def _is_above(parents: dict[int, set[int]], m: int, h: int) -> bool:
    """Is m above h, or h itself?"""
    waiting, seen = [h], {0}
    while waiting:
        v = waiting.pop()
        if v == m:
            return True
        if v not in seen:
            seen.add(v)
            waiting += parents[v]
    return False


def count_deps(data: np.ndarray, columns: np.ndarray) -> int:
    """The items of DEPS, at least one a word."""
    return sum(text.count(b"|") + 1 for text in _texts(data, columns, DEPS))


def scan_deps(
    data: np.ndarray, columns: np.ndarray, word_starts: np.ndarray, starts: np.ndarray,
    heads: np.ndarray, spans: np.ndarray, faults: np.ndarray, counts: np.ndarray,
) -> int:  # fmt: skip
    """The arcs in DEPS; see native/api/conll.h."""
    starts[0] = n_arcs = n_faults = n_from_empty = n_repeated = 0
    texts = list(_texts(data, columns, DEPS))
    for s in range(len(word_starts) - 1):
        first, last = int(word_starts[s]), int(word_starts[s + 1])
        found: list[tuple[int, int, int]] = []
        ends, left_out = [], [0, 0]
        for w in range(first, last):
            start = int(columns[w, DEPS])
            fault, arcs = _arcs_of(texts[w], start, w - first + 1, last - first, left_out)
            if fault:
                faults[n_faults] = fault[0], s, w, *fault[1:]
                n_faults += 1
                found, ends, left_out = [], [0] * (last - first), [0, 0]
                break
            found += arcs
            ends.append(len(found))
        starts[first + 1 : last + 1] = [n_arcs + end for end in ends]
        for head, start, stop in found:
            heads[n_arcs], spans[n_arcs] = head, (start, stop)
            n_arcs += 1
        n_from_empty, n_repeated = n_from_empty + left_out[0], n_repeated + left_out[1]
    counts[:] = n_arcs, n_faults, n_from_empty, n_repeated
    return native.OK


def _arcs_of(
    text: bytes, start: int, m: int, n: int, left_out: list[int]
) -> tuple[tuple[int, int, int] | None, list[tuple[int, int, int]]]:
    """The first fault of a word's DEPS, and its arcs: heads and offsets of the relations."""
    arcs: dict[int, tuple[int, int, int]] = {}
    if text == b"_":
        return None, []
    for item in text.split(b"|"):
        stop = start + len(item)
        fault, i, j, relation = _deps_item(item)
        if fault == DepsFault.NO_DEPS_FAULT and i > n:
            fault = DepsFault.OUT_OF_RANGE
        if fault == DepsFault.NO_DEPS_FAULT and i == m and not j:
            fault = DepsFault.OWN_HEAD
        if fault != DepsFault.NO_DEPS_FAULT:
            return (fault, start, stop), []
        if j:
            left_out[0] += 1
        elif i in arcs:
            left_out[1] += 1
        else:
            arcs[i] = (i, start + relation, stop)
        start = stop + 1
    return None, [arcs[i] for i in sorted(arcs)]


def _deps_item(item: bytes) -> tuple[int, int, int, int]:
    """(fault, i, j, offset of the relation) of an item; j = 0 for a word, not for a node i.j."""
    head, colon, relation = item.partition(b":")
    if not colon:
        return DepsFault.NO_COLON, 0, 0, 0
    parsed = parse_id(head)
    if parsed is None or parsed[1] == "-":
        return DepsFault.NO_NUMBER, 0, 0, 0
    if not relation:
        return DepsFault.NO_RELATION, 0, 0, 0
    return DepsFault.NO_DEPS_FAULT, parsed[0], parsed[2] if parsed[1] else 0, len(head) + 1


def scan_misc_numbers(
    data: np.ndarray, columns: np.ndarray, key: np.ndarray, numbers: np.ndarray
) -> int:
    """The numbers under a key of MISC."""
    name = key.tobytes()
    for w, text in enumerate(_texts(data, columns, MISC)):
        numbers[w] = NO_HEAD
        for item in text.split(b"|") if text else []:
            found, equals, value = item.partition(b"=")
            if item == name or (found == name and equals):
                numbers[w] = NO_HEAD if value == b"_" else parse_number(value)
                break
    return native.OK


def first_difference(
    data: np.ndarray, columns: np.ndarray, other: np.ndarray, other_columns: np.ndarray, column: int
) -> int:
    """The first word whose text in a column differs; -1 if none does."""
    pairs = zip(_texts(data, columns, column), _texts(other, other_columns, column), strict=True)
    return next((w for w, (mine, its) in enumerate(pairs) if mine != its), -1)


def replaced_size(data: np.ndarray, replacing: Any) -> int:
    """Enough bytes for `replace_columns`."""
    size = len(data) + 12 * len(replacing.heads)
    if replacing.labels is not None:
        names = _names(replacing.labels.names)
        size += len(replacing.heads) * max(map(len, names), default=0)
    if replacing.arcs is not None:
        names = _names(replacing.arcs.names)
        size += sum(12 + len(names[r]) for r in replacing.arcs.relations.tolist())
    if replacing.items is not None:
        keys, values = replacing.items
        size += len(replacing.heads) * (len(keys.bytes) + len(values) * (values.shape[2] + 2))
    return size


def replace_columns(
    data: np.ndarray, columns: np.ndarray, dropped: np.ndarray, replacing: Any, text: np.ndarray
) -> int:
    """Copy the bytes with columns replaced; see native/api/conll.h."""
    source, done = data.tobytes(), 0
    new = {span[0]: (span[1], b"") for span in dropped.tolist()}
    named = replacing.labels, replacing.arcs, replacing.items
    names = tuple([] if each is None else _names(each[0]) for each in named)
    for w, offsets in enumerate(columns.tolist()):
        for column, content in _new_columns(source, offsets, w, replacing, names):
            new[offsets[column]] = (offsets[column + 1] - 1, content)
    parts = []
    for start in sorted(new):
        end, content = new[start]
        parts += [source[done:start], content]
        done = end
    joined = b"".join([*parts, source[done:]])
    text[: len(joined)] = np.frombuffer(joined, np.uint8)
    return len(joined)


def set_columns(
    data: np.ndarray, columns: np.ndarray, first: int, names: np.ndarray, ends: np.ndarray,
    ids: np.ndarray, text: np.ndarray,
) -> int:  # fmt: skip
    """Copy the bytes with successive columns replaced; see native/api/conll.h."""
    source, strings, read = data.tobytes(), _slices(names, ends[:-1], ends[1:]), 0
    known, parts = list(strings), []
    for offsets, row in zip(columns.tolist(), ids.T.tolist(), strict=True):
        parts += [source[read : offsets[first]], b"\t".join(known[i] for i in row)]
        read = offsets[first + len(ids)] - 1
    text[:] = np.frombuffer(b"".join([*parts, source[read:]]), np.uint8)
    return 0


def _new_columns(
    source: bytes, offsets: list[int], w: int, replacing: Any, names: tuple[list[bytes], ...]
) -> Iterator[tuple[int, bytes]]:
    """The new columns of word w; names: of labels, of relations and of keys."""
    if replacing.heads[w] >= NO_HEAD:
        yield HEAD, b"_" if replacing.heads[w] == NO_HEAD else b"%d" % replacing.heads[w]
    if replacing.labels is not None:
        yield DEPREL, names[0][replacing.labels.labels[w]]
    if replacing.arcs is not None:
        text = source[offsets[DEPS] : offsets[DEPS + 1] - 1]
        yield DEPS, _deps(text, w, replacing.arcs, names[1])
    if replacing.items is not None:
        text = source[offsets[MISC] : offsets[MISC + 1] - 1]
        yield MISC, _misc(text, w, replacing.items.values, names[2])


def _deps(text: bytes, w: int, arcs: Any, names: list[bytes]) -> bytes:
    """DEPS of the arcs of word w, and of the items of the present one from empty nodes."""
    items = []
    for item in text.split(b"|"):
        fault, i, j, _ = _deps_item(item)
        if fault == DepsFault.NO_DEPS_FAULT and j:
            items.append(((i, j), item))
    for a in range(arcs.starts[w], arcs.starts[w + 1]):
        head = int(arcs.heads[a])
        items.append(((head, 0), b"%d:%s" % (head, names[arcs.relations[a]])))
    items.sort(key=lambda item: item[0])
    return b"|".join(item for _, item in items) or b"_"


def _misc(text: bytes, w: int, values: np.ndarray, keys: list[bytes]) -> bytes:
    """MISC with the values of word w under their keys."""
    new = {}
    for key, value in zip(keys, values[:, w], strict=True):
        content = value.tobytes().split(b"\0")[0]
        new[key] = [key + b"=" + content] if content else []
    written: list[bytes] = []
    for item in [] if text in (b"", b"_") else text.split(b"|"):
        name = item.partition(b"=")[0]
        written += new.pop(name, []) if name in keys else [item]
    written += [item for each in new.values() for item in each]
    return b"|".join(written) if written or not text else b"_"


def find_text(data: np.ndarray, text: np.ndarray) -> int:
    """The place of the first occurrence of a text in `data`, or -1."""
    return data.tobytes().find(text.tobytes())


def find_strings(
    data: np.ndarray, starts: np.ndarray, stops: np.ndarray, table: Any, ids: np.ndarray
) -> int:
    """Numbers of strings, -1 for those that the table lacks."""
    for k, text in enumerate(_slices(data, starts, stops)):
        ids[k] = table.slots[_find_slot(text, _hash_bytes(text, table.key), table)]
    return native.OK


def add_strings(
    data: np.ndarray, starts: np.ndarray, stops: np.ndarray, table: Any, first: int,
    size: np.ndarray, ids: np.ndarray,
) -> int:  # fmt: skip
    """The same, but new strings are added while there is room; where it stopped."""
    for k, text in enumerate(_slices(data, starts[first:], stops[first:]), first):
        hashed = _hash_bytes(text, table.key)
        slot = _find_slot(text, hashed, table)
        if table.slots[slot] == EMPTY_SLOT:
            i = int(size[0])
            used = int(table.ends[i])
            if i == len(table.hashes) or used + len(text) > len(table.pool):
                return k
            table.pool[used : used + len(text)] = np.frombuffer(text, np.uint8)
            table.hashes[i], table.ends[i + 1] = np.uint64(hashed), used + len(text)
            table.slots[slot] = i
            size[0] += 1
        ids[k] = table.slots[slot]
    return len(starts)


def fill_slots(table: Any, size: int) -> int:
    """Enter strings, all different, into empty slots."""
    mask = len(table.slots) - 1
    for i in range(size):
        slot = int(table.hashes[i]) & mask
        while table.slots[slot] != EMPTY_SLOT:
            slot = (slot + 1) & mask
        table.slots[slot] = i
    return native.OK


def _find_slot(text: bytes, hashed: int, table: Any) -> int:
    mask = len(table.slots) - 1
    slot = hashed & mask
    while (i := int(table.slots[slot])) != EMPTY_SLOT:
        start, end = int(table.ends[i]), int(table.ends[i + 1])
        if int(table.hashes[i]) == hashed and table.pool[start:end].tobytes() == text:
            break
        slot = (slot + 1) & mask
    return slot


def _hash_bytes(text: bytes, key: int) -> int:
    """As `hash_bytes` of native/strings.h."""
    factor = (key ^ 0xFF51AFD7ED558CCD) | 1
    mixed, whole = len(text) ^ key, len(text) // 8 * 8
    for at in range(0, whole, 8):
        mixed = _fold_product(mixed ^ int.from_bytes(text[at : at + 8], "little"), factor)
    return _fold_product(mixed ^ int.from_bytes(text[whole:], "big"), 0xC4CEB9FE1A85EC53)


def _fold_product(a: int, b: int) -> int:
    """The product of two numbers of 64 bits, its halves folded together."""
    return a * b & WORD_64 ^ a * b >> 64


def _sentences(heads: np.ndarray, word_starts: np.ndarray) -> Iterator[tuple[int, list[int]]]:
    """The first word of each sentence, and its heads."""
    for first, last in zip(word_starts[:-1].tolist(), word_starts[1:].tolist(), strict=True):
        yield first, heads[first:last].tolist()


def _texts(data: np.ndarray, columns: np.ndarray, column: int) -> Iterator[bytes]:
    """A column of every word."""
    return _slices(data, columns[:, column], columns[:, column + 1] - 1)


def _slices(data: np.ndarray, starts: np.ndarray, stops: np.ndarray) -> Iterator[bytes]:
    text = data.tobytes()
    for start, stop in zip(starts.tolist(), stops.tolist(), strict=True):
        yield text[start:stop]


def _names(names: Any) -> list[bytes]:
    """The names of a `Names`."""
    return list(_slices(names.bytes, names.ends[:-1], names.ends[1:]))


FUNCTIONS: dict[str, Callable[..., int]] = {
    function.__name__: function
    for function in (
        check_tree, mark_nonprojective, check_sentences, choose_acyclic_arcs, count_deps, scan_deps,
        scan_misc_numbers, first_difference, replaced_size, replace_columns, set_columns, find_text,
        add_strings, find_strings, fill_slots,
    )
}  # fmt: skip
