"""All faults of a treebank at once: those of reading are among them, and what these hide too."""

from itertools import product

import pytest
from hypothesis import example, given, settings

from gpuparse.data.conll import BYTE_ORDER_MARK, check_trees, treebank_from_bytes
from gpuparse.data.problems import find_faults
from gpuparse.data.trees import tree_faults
from gpuparse.files import no_utf8
from tests.data.test_scanner import FILES
from tests.strategies import some

ROW = b"%s\t%s\t_\t_\t_\t_\t%s\tdep\t_\t_\n"


def rows(*given: tuple) -> bytes:
    return b"".join(ROW % tuple(str(value).encode() for value in row) for row in given) + b"\n"


def kinds(text: bytes) -> list[tuple]:
    return [(each.line, each.kind) for each in find_faults(text, "f", partial=False)[1]]


@settings(deadline=None, max_examples=some(2000))
@given(FILES)
@example(2 * BYTE_ORDER_MARK)
@example(b"(\xb5/\xfd\n\n\r")
@example(rows((1, "a", 0))[:-1] + rows((1, "", 0))[:-1] + b"\t\n# sent_id = a\n")
def test_what_reading_reports_is_among_all_faults(text):
    read = treebank_from_bytes(text, "f", on_error="skip")
    trees = check_trees(read)
    sound, problems = find_faults(text, "f", partial=False)
    said = [str(problem) for problem in problems]
    assert len(set(said)) == len(said)
    # What follows in a compressed file is not reported.
    reported = read.faults[:1] if no_utf8(text) else read.faults
    assert {str(error) for error in reported} <= set(said)
    if not read.faults:  # several faults of a tree are reported, and reading stops at the first
        assert {problem.line for problem in problems} >= {
            int(str(each).split(":")[1]) for each in trees
        }
    assert bool(problems) == bool(read.faults or trees)
    assert len(sound) == len(read) - len(trees)


@pytest.mark.parametrize("n", range(1, 5))
def test_all_faults_of_all_heads_up_to_four_words(n):
    for heads in product(range(-2, n + 2), repeat=n):
        found = tree_faults(list(heads), partial=False)
        assert sum(fault == 1 for fault, _ in found) == (-1 in heads)
        assert sum(fault == 2 for fault, _ in found) == heads.count(-2)
        assert sum(fault == 3 for fault, _ in found) == heads.count(n + 1)
        assert sum(fault == 4 for fault, _ in found) == sum(h == m for m, h in enumerate(heads, 1))
        below = dict(enumerate(heads, 1))
        cycles = set()
        for m in below:
            v, seen = m, []
            while below.get(v, 0) > 0 and v not in seen:
                seen.append(v)
                v = below[v]
            if v in seen and len(seen) > seen.index(v) + 1:
                cycles.add(frozenset(seen[seen.index(v) :]))
        assert sum(fault == 5 for fault, _ in found) == len(cycles)
        is_bad = any(h < 0 or h == n + 1 or h == m for m, h in below.items())
        assert bool(found) == (is_bad or bool(cycles))
        faults = {fault for fault, _ in tree_faults(list(heads), partial=True)}
        assert 1 not in faults


def test_several_faults_of_one_sentence():
    text = rows((1, "a", 1), (2, "b", 9), (3, "c", "x"), (4, "d", 5), (5, "e", 4), (6, "f", 0))
    assert kinds(text) == [
        (1, "own head"), (2, "head not in the sentence"), (3, "head is no number"), (4, "cycle"),
    ]  # fmt: skip


def test_format_and_tree_of_one_sentence():
    """An empty form and a byte of another encoding hide no fault of the tree."""
    text = rows((1, "", 0), (2, "b", 2)).replace(b"\tb\t", b"\tb\xff\t")
    assert kinds(text) == [(1, "empty FORM"), (2, "encoding"), (2, "own head")]


def test_each_faulty_line_of_one_sentence():
    text = rows((1, "a", 0), ("2x", "b", 1), (3, "", 1), (4, "d", 4)) + rows((1, "e", 1))
    text = b"# a\xff\n" + text.replace(b"4\td\t_", b"4\td")
    assert kinds(text) == [
        (1, "encoding"), (3, "ID"), (4, "empty FORM"), (5, "columns"), (7, "own head"),
    ]  # fmt: skip


def test_missing_blank_lines():
    """A sentence begins at a word 1, and at its comments; what is behind it is checked too."""
    text = rows((1, "a", 0), (2, "b", 1)).rstrip(b"\n") + b"\n# sent_id = second\n"
    text += rows((1, "c", 2), (2, "d", 1))
    sound, problems = find_faults(text, "f", partial=False)
    assert [(each.line, each.kind, each.sent_id) for each in problems] == [
        (4, "ID", "second"), (4, "cycle", "second"),
    ]  # fmt: skip
    assert len(sound) == 0


def test_a_missing_word_is_one_fault():
    assert kinds(rows((1, "a", 0), (3, "b", 1), (4, "c", 9))) == [(2, "ID")]


def test_ranges_hide_nothing():
    text = rows(("2-1", "ab", "_"), (1, "a", 0), ("3-4", "x", "_"), (2, "b", 2))
    assert kinds(text) == [(1, "multiword range"), (3, "multiword range"), (4, "own head")]


def test_compressed():
    assert kinds(b"\x1f\x8b\n\n\n1") == [(1, "encoding")]


def test_partial():
    text = rows((1, "a", "_"), (2, "b", 1))
    assert [kind for _, kind in kinds(text)] == ["no head"]
    assert not find_faults(text, "f", partial=True)[1]
