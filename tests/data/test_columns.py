"""Items of MISC against lists of strings, and all that must not change."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuparse.data.columns import as_key, is_key, scan_numbers
from gpuparse.data.conll import treebank_from_bytes, with_misc, write_predictions
from gpuparse.data.scanner import BAD_HEAD, NO_HEAD
from tests.data.test_conll import TEXT, documents
from tests.strategies import some
from tests.synthetic import generate

KEYS = ["Guide", "G", "PArc", "é"]
ITEMS = st.sampled_from(
    ["SpaceAfter=No", "Guide=3", "Guide", "Guides=4", "G=1", "G=", "x", "=", "", "PArc=0.5", "é=ü"]
)
VALUES = TEXT.filter(lambda text: "|" not in text and "\0" not in text)


def new_misc(misc: str, new: dict[str, str]) -> str:
    """MISC with other items, by lists."""
    items = [] if misc in ("", "_") else misc.split("|")
    names = [item.partition("=")[0] for item in items]
    kept = []
    for i, (item, name) in enumerate(zip(items, names, strict=True)):
        if name not in new:
            kept.append(item)
        elif name not in names[:i] and new[name]:
            kept.append(f"{name}={new[name]}")
    kept += [f"{name}={value}" for name, value in new.items() if value and name not in names]
    if not kept:
        return "_" if misc else ""
    return "|".join(kept)


@settings(deadline=None, max_examples=some(500))
@given(documents(), st.data())
def test_items_against_lists(document, data):
    treebank = treebank_from_bytes(document, "f")
    n = treebank.n_words
    names = data.draw(st.lists(st.sampled_from(KEYS), unique=True, max_size=3))
    misc = [
        data.draw(st.one_of(st.just("_"), TEXT, st.lists(ITEMS, min_size=1).map("|".join)))
        for _ in range(n)
    ]
    before = _with_column(treebank, misc)
    new = {name: data.draw(st.lists(VALUES, min_size=n, max_size=n)) for name in names}
    found = with_misc(treebank_from_bytes(before, "f"), new)
    expected = [
        new_misc(text, {name: new[name][w] for name in names}) for w, text in enumerate(misc)
    ]
    assert found == _with_column(treebank, expected)


def _with_column(treebank, texts: list[str]) -> bytes:
    """The file with other texts in column 10, by cutting its bytes."""
    parts, done = [], 0
    data = treebank.data.tobytes()
    for row, text in zip(treebank.columns.tolist(), texts, strict=True):
        parts += [data[done : row[9]], text.encode()]
        done = row[10] - 1
    return b"".join([*parts, data[done:]]) + treebank.file_end


def test_heads_relations_and_items_in_one_go():
    treebank = treebank_from_bytes(generate(50, 1), "f")
    heads = np.arange(treebank.n_words) % 7
    ids = np.zeros(treebank.n_words, np.int64)
    values = heads.astype("S")
    together = write_predictions(treebank, heads, [b"x"], ids, {"Guide": values})
    first = treebank_from_bytes(write_predictions(treebank, heads, [b"x"], ids), "f")
    assert together == with_misc(first, {"Guide": [str(h) for h in heads]})
    again = treebank_from_bytes(together, "f")
    key = as_key("Guide")
    assert np.array_equal(scan_numbers(again.data, again.columns, key), heads)
    # Without values the items go again, and nothing else.
    none = np.full(treebank.n_words, b"")
    assert with_misc(again, {"Guide": none}) == first.data.tobytes()


def test_numbers_under_a_key():
    misc = ["_", "G=3", "a|G=0|b", "G=_", "G", "G=", "G=x", "G=-1", "G=04", "XG=5", "GG=5|G=2|G=7"]
    expected = [NO_HEAD, 3, 0, NO_HEAD, *[BAD_HEAD] * 5, NO_HEAD, 2]
    rows = [f"{i}\ta\t_\t_\t_\t_\t0\tx\t_\t{text}\n" for i, text in enumerate(misc, 1)]
    treebank = treebank_from_bytes("".join(rows).encode() + b"\n", "f")
    found = scan_numbers(treebank.data, treebank.columns, as_key("G"))
    assert found.tolist() == expected


def test_what_cannot_stand_in_misc_is_refused():
    treebank = treebank_from_bytes(generate(2, 1), "f")
    n = treebank.n_words
    for name in ("", "_", "a=b", "a|b", "a b", "a\tb"):
        assert not is_key(name)
        with pytest.raises(ValueError, match="cannot all be keys of MISC"):
            with_misc(treebank, {name: ["1"] * n})
    for value in ("a|b", "a\tb", "a\nb", "a\rb", "a\0b"):
        with pytest.raises(ValueError, match="a value of MISC has"):
            with_misc(treebank, {"Key": [value] * n})
    with pytest.raises(ValueError, match="of shape"):
        with_misc(treebank, {"Key": ["1"] * (n + 1)})


def test_skipped_sentences_stay_out_and_kept_ones_pass():
    good, bad = b"1\ta\ta\tX\tX\t_\t0\tdep\t_\t_\n\n", b"1\tno\n\n"
    text, new = good + bad + good, good.replace(b"_\n\n", b"K=v\n\n")
    skipped = treebank_from_bytes(text, "f", on_error="skip")
    assert with_misc(skipped, {"K": ["v", "v"]}) == new + new
    kept = treebank_from_bytes(text, "f", on_error="keep")
    assert with_misc(kept, {"K": ["v", "v"]}) == new + bad + new
