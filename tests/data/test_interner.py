"""Interning agrees with a dictionary, whatever the strings."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuparse import native
from gpuparse.data.vocabulary import Interner, StringTable


def packed(strings):
    """Bytes of the strings with junk around each, and where they start and end."""
    data, starts, ends = b"<", [], []
    for string in strings:
        starts.append(len(data))
        data += string
        ends.append(len(data))
        data += b"><"
    return np.frombuffer(data, np.uint8).copy(), np.array(starts), np.array(ends)


def string_of(table, i):
    ends = table._table.ends
    return table._table.pool[ends[i] : ends[i + 1]].tobytes()


STRINGS = st.lists(st.one_of(st.binary(max_size=3), st.binary(max_size=40)), max_size=60)


@settings(deadline=None, max_examples=300)
@given(STRINGS, STRINGS)
def test_ids_are_those_of_a_dictionary(first, second):
    table, known = Interner(), {}
    for strings in (first, second):
        expected = [known.setdefault(string, len(known)) for string in strings]
        assert table.intern(*packed(strings)).tolist() == expected
    assert len(table) == len(known)
    assert [string_of(table, i) for i in range(len(table))] == list(known)
    asked = second + [string + b"\0" for string in first]
    expected = [known.get(string, -1) for string in asked]
    assert table.find(*packed(asked)).tolist() == expected
    assert len(table) == len(known)


def test_it_grows_and_keeps_its_ids():
    strings = [f"w{i}".encode() * (1 + i % 7) for i in range(20_000)]
    table = Interner()
    for at in range(0, len(strings), 777):
        part = strings[at : at + 777]
        assert table.intern(*packed(part)).tolist() == list(range(at, at + len(part)))
    assert table.find(*packed(strings)).tolist() == list(range(len(strings)))
    assert [string_of(table, i) for i in (0, 77, 19_999)] == [strings[i] for i in (0, 77, 19_999)]


def test_one_string_larger_than_all_the_room_there_is():
    table = Interner()
    assert table.intern(*packed([b"a", b"x" * 100_000, b"a"])).tolist() == [0, 1, 0]
    assert string_of(table, 1) == b"x" * 100_000


def test_strings_of_one_hash_are_told_apart_by_their_bytes():
    # No two strings of one hash are at hand, so others are entered under the hash of "abd".
    data, starts, ends = packed([b"abd"])
    table = Interner([b"abd"])
    hashed, key = table._table.hashes[0], table._table.key
    for known in (b"abc", b"abde", b"ab"):
        slots = np.full(8, -1, np.int32)
        slots[hashed & np.uint64(7)] = 0
        pool = np.frombuffer(known + b"dd", np.uint8).copy()
        other = StringTable(key, slots, np.array([hashed]), np.array([0, len(known)]), pool)
        ids = np.empty(1, np.int32)
        native.call("find_strings", data, starts, ends, other, ids)
        assert ids.tolist() == [-1]


def test_strings_of_one_hash_cannot_be_chosen():
    """Each table has a key of its own."""
    one, other = Interner([b"abd"]), Interner([b"abd"])
    assert one._table.hashes[0] != other._table.hashes[0]


def test_a_table_starts_with_given_strings():
    table = Interner([b"_", b"", b"root"])
    assert table.find(*packed([b"root", b"_", b"", b"x"])).tolist() == [2, 0, 1, -1]
    with pytest.raises(ValueError, match="1 of the strings appear twice"):
        Interner([b"a", b"a"])


def test_nothing_to_intern():
    table = Interner()
    assert table.intern(*packed([])).tolist() == []
    assert table.find(*packed([b"a"])).tolist() == [-1]
    assert len(table) == 0


@pytest.mark.parametrize(("start", "end"), [(0, 5), (-1, 2), (3, 2)])
def test_offsets_outside_the_data_are_refused(start, end):
    with pytest.raises(ValueError, match="outside of data"):
        Interner().intern(np.zeros(4, np.uint8), np.array([start]), np.array([end]))
    with pytest.raises(ValueError, match="differ in shape"):
        Interner().find(np.zeros(4, np.uint8), np.array([0, 1]), np.array([1]))


def test_threads_give_every_string_one_id():
    table = Interner()
    parts = [[f"{(i * k) % 5000}".encode() for i in range(5000)] for k in (1, 3, 7, 11)]
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda part: table.intern(*packed(part)), parts))
    assert len(table) == 5000
    for part, ids in zip(parts, results, strict=True):
        assert [string_of(table, i) for i in ids] == part


def test_known_strings_are_found_while_others_are_added():
    known = [f"known{i}".encode() for i in range(500)]
    table = Interner(known)
    more = [f"new{i}".encode() for i in range(60_000)]
    with ThreadPoolExecutor(2) as pool:
        adding = pool.submit(table.intern, *packed(more))
        while not adding.done():
            assert table.find(*packed(known)).tolist() == list(range(500))
        assert adding.result().tolist() == list(range(500, 60_500))
