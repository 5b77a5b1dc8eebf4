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


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            rows((1, "a", 1), (2, "b", 9), (3, "c", "x"), (4, "d", 5), (5, "e", 4), (6, "f", 0)),
            [(1, "own head"), (2, "head not in the sentence"), (3, "head is no number"),
             (4, "cycle")],
        ),
        (  # an empty form and a byte of another encoding hide no fault of the tree
            rows((1, "", 0), (2, "b", 2)).replace(b"\tb\t", b"\tb\xff\t"),
            [(1, "empty FORM"), (2, "encoding"), (2, "own head")],
        ),
        (
            b"# a\xff\n"
            + rows((1, "a", 0), ("2x", "b", 1), (3, "", 1), (4, "d", 4)).replace(b"d\t_", b"d")
            + rows((1, "e", 1)),
            [(1, "encoding"), (3, "ID"), (4, "empty FORM"), (5, "columns"), (7, "own head")],
        ),
        (rows((1, "a", 0), (3, "b", 1), (4, "c", 9)), [(2, "ID")]),
        (
            rows(("2-1", "ab", "_"), (1, "a", 0), ("3-4", "x", "_"), (2, "b", 2)),
            [(1, "multiword range"), (3, "multiword range"), (4, "own head")],
        ),
        (b"\x1f\x8b\n\n\n1", [(1, "encoding")]),
        (rows((1, "a", "_"), (2, "b", 1)), [(1, "no head")]),
    ],
    ids=["tree", "format and tree", "lines", "a missing word", "ranges", "compressed",
         "no head"],
)  # fmt: skip
def test_all_faults_of_a_sentence_are_found(text, expected):
    sound, problems = find_faults(text, "f", partial=False)
    assert [(each.line, each.kind) for each in problems] == expected
    assert len(sound) == 0


def test_a_sentence_begins_at_its_comments_without_a_blank_line_too():
    text = rows((1, "a", 0), (2, "b", 1)).rstrip(b"\n") + b"\n# sent_id = second\n"
    sound, problems = find_faults(text + rows((1, "c", 2), (2, "d", 1)), "f", partial=False)
    assert [(each.line, each.kind, each.sent_id) for each in problems] == [
        (4, "ID", "second"), (4, "cycle", "second"),
    ]  # fmt: skip
    assert len(sound) == 0


def test_words_without_a_head_are_no_faults_of_partial_trees():
    assert not find_faults(rows((1, "a", "_"), (2, "b", 1)), "f", partial=True)[1]
