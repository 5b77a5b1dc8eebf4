"""Drawings: what they look like, and that the heads can be read back from them."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuparse.data.draw import display_width, draw_tree
from tests.strategies import some

PROJECTIVE = """\
  ╭──► The  det
  ├──► old  amod
╭─┴──► man  nsubj
├───── saw  root
│ ╭──► a    det
├─┴──► cat  obj
╰────► .    punct"""

CROSSING = """\
  ╭────► A          det
╭─┼────► man        nsubj
├─│───── arrived    root
├─│────► yesterday  advmod
│ │ ╭──► who        nsubj
│ ╰─┴──► sang       acl:relcl
╰──────► .          punct"""

QUESTION = """\
  ╭──► What  obj
╭─│──► did   aux
├─│──► Anna  nsubj
├─│─── say   root
│ ├──► that  mark
│ ├──► he    nsubj
├─┴──► ate   ccomp
╰────► ?     punct"""

WIDE = """\
╭─┬──► 私     nsubj
│ ╰──► は     case
├───── élève  root
╰─┬──► 😀     punct
  ╰──► 한b    x"""

ROOTS = """\
╭─── one    root
╰──► two    x
     three  root
     four   _"""


@pytest.mark.parametrize(
    ("picture", "heads"),
    [
        (PROJECTIVE, [3, 3, 4, 0, 6, 4, 4]),
        (CROSSING, [2, 3, 0, 3, 6, 2, 3]),
        (QUESTION, [7, 4, 4, 0, 7, 7, 4, 4]),
        (WIDE, [3, 1, 0, 3, 4]),
        (ROOTS, [0, 1, 0, -1]),
        ("   Yes  root", [0]),
        ("", []),
    ],
    ids=["projective", "crossing", "question", "wide", "roots", "one word", "none"],
)
def test_a_tree_looks_so(picture, heads):
    rows = [line.split()[-2:] for line in picture.split("\n") if heads]
    forms, labels = [row[0] for row in rows], [row[1] for row in rows]
    assert draw_tree(forms, heads, labels) == picture


def test_without_labels():
    drawn = draw_tree(["The", "old", "man", "saw", "a", "cat", "."], [3, 3, 4, 0, 6, 4, 4])
    assert drawn.split("\n") == [line[:10].rstrip() for line in PROJECTIVE.split("\n")]


def test_wide_and_combining_characters_take_their_columns():
    forms = ["\u79c1", "\u306f", "e\u0301le\u0300ve", "\U0001f600", "\ud55cb"]
    assert [line.split()[-2] for line in WIDE.split("\n")] == forms
    assert list(map(display_width, [*forms, "\uff21"])) == [2, 2, 5, 2, 3, 2]


def test_characters_that_would_disturb_the_terminal_are_replaced():
    drawn = draw_tree(["a\x1b[31m", "b\nc", "d\u2028e", "f\u202eg"], [0, 1, 1, 1], ["\t", *"xyz"])
    assert len(drawn.split("\n")) == 4
    assert not set(drawn) & set("\x1b\t\u2028\u202e")


def test_a_tree_too_deep_for_the_width_names_the_heads():
    n = 40
    drawn = draw_tree([f"w{i}" for i in range(1, n + 1)], range(n), ["x"] * n, width=40)
    lines = drawn.split("\n")
    assert max(map(display_width, lines)) <= 40
    assert lines[1].endswith("x ← 1 w1")
    assert lines[-1].endswith("w40  x")
    assert heads_drawn(lines)[-5:] == [35, 36, 37, 38, 39]


@pytest.mark.parametrize(
    ("forms", "heads", "labels", "what"),
    [
        (["a", "b"], [2, 1], None, "cycle"),
        (["a"], [1], None, "cycle"),
        (["a"], [2], None, "not in the sentence"),
        (["a"], [0, 0], None, "of one length"),
        (["a"], [0], ["x", "y"], "of one length"),
    ],
)
def test_what_is_no_tree_is_refused(forms, heads, labels, what):
    with pytest.raises(ValueError, match=what):
        draw_tree(forms, heads, labels)


UP, DOWN, LEFT = set("│╰├┴┼"), set("│╭├┬┼"), set("─│┬┴┼►")


def incoming(line):
    """Column of the upright line that the row's arrow comes from; -1 where there is no arrow."""
    at = line.find("►")
    while at > 0 and line[at] in LEFT and line[at - 1] != " ":
        at -= 1
    return at


def heads_drawn(lines):
    """Heads read off a drawing: along the branch to the upright line, along that to its owner."""
    columns = [incoming(line) for line in lines]
    heads = []
    for m, column in enumerate(columns):
        if column < 0:
            heads.append(0)
            continue
        top = bottom = m
        while lines[top][column] in UP:
            top -= 1
        while lines[bottom][column] in DOWN:
            bottom += 1
        owners = [
            row
            for row in range(top, bottom + 1)
            if columns[row] != column and lines[row][column] != "│"
        ]
        (owner,) = owners
        heads.append(owner + 1)
    return heads


@st.composite
def trees(draw):
    n = draw(st.integers(1, 25))
    order = [0, *draw(st.permutations(range(1, n + 1)))]
    heads = [0] * n
    for k in range(1, n + 1):
        heads[order[k] - 1] = order[draw(st.integers(0, k - 1))]
    return heads


@settings(deadline=None, max_examples=some(500))
@given(trees())
def test_heads_can_be_read_back_from_any_drawing(heads):
    lines = draw_tree(["w"] * len(heads), heads, width=1000).split("\n")
    assert heads_drawn(lines) == heads


@settings(deadline=None, max_examples=some(300))
@given(trees(), st.data(), st.integers(24, 120))
def test_no_line_is_wider_than_asked(heads, data, width):
    texts = st.lists(st.text(max_size=60), min_size=len(heads), max_size=len(heads))
    drawn = draw_tree(data.draw(texts), heads, data.draw(texts), width=width)
    assert len(drawn.split("\n")) == len(heads)
    assert max(map(display_width, drawn.split("\n"))) <= width
