"""The native scanner and the one in plain Python find the same, in any bytes."""

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gpuparse.data import scanner
from tests.oracles import scanner as oracle
from tests.strategies import some

WORD = b"%d\tform\tl\tN\tN\t_\t%s\trel\t_\t_"
PIECES = [
    b"\n", b"\n\n", b"\r\n", b"\r", b"\t", b"_", b"#", b"# sent_id = a\n", b"0", b"1", b"2-3",
    b"1-1", b"1.1", b"-", b".", b"\x00", "é".encode(), b"\xff", b"\xed\xa0\x80", b"\xf0\x9f",
    b"x" * 70,
    b"1-2\tvom\t_\t_\t_\t_\t_\t_\t_\t_\n", b"2-4\tzum\t_\t_\t_\t_\t_\t_\t_\t_\r\n",
    b"1\t\tl\tN\tN\t_\t0\trel\t_\t_\n", b"3\ta\tb\n",
    *(WORD % (i, head) + end for i in (1, 2, 3) for head in (b"0", b"_", b"01", b"2147483648")
      for end in (b"\n", b"\r\n")),
]  # fmt: skip
FILES = st.one_of(
    st.lists(st.sampled_from(PIECES), max_size=30).map(b"".join),
    st.lists(st.one_of(st.sampled_from(PIECES), st.binary(max_size=5)), max_size=20).map(b"".join),
)


def check_same(text: bytes, max_line: int, stop_at_fault: bool) -> None:
    data = np.frombuffer(text, np.uint8)
    found = scanner.scan(text, max_line, stop_at_fault=stop_at_fault)
    expected = oracle.scan(data, max_line, stop_at_fault=stop_at_fault)
    for name, mine, its in zip(found._fields[:-1], found, expected, strict=False):
        assert mine.dtype == its.dtype
        assert mine.tolist() == its.tolist(), name
    if not (stop_at_fault and len(found.faults)):
        assert found.n_crlf == expected.n_crlf


@settings(deadline=None, max_examples=some(3000))
@given(FILES, st.sampled_from([20, 60, 1 << 20]), st.booleans())
@example(b"", 10, True)
@example(WORD % (1, b"0"), 100, True)
@example(WORD % (1, b"0") + b"\r", 100, True)
@example((WORD % (1, b"0")).ljust(64, b"x"), 100, True)
@example((WORD % (1, b"0")).ljust(63, b"x") + b"\n", 100, True)
def test_both_scanners_find_the_same(text, max_line, stop_at_fault):
    check_same(text, max_line, stop_at_fault)


@settings(deadline=None, max_examples=300)
@given(st.lists(st.sampled_from(PIECES), max_size=12).map(b"".join), st.data())
def test_both_scanners_find_the_same_at_any_offset(text, data):
    """Blocks of 64 bytes begin anywhere in a line."""
    check_same(b"# " + b"y" * data.draw(st.integers(0, 70)) + b"\n" + text, 1 << 20, False)
