"""Treebanks with other columns, against rewriting the rows and reading them again."""

import pickle
from dataclasses import replace

import numpy as np
import pytest

from gpuparse.data.conll import treebank_from_bytes
from gpuparse.data.tag_columns import Column, filled, read_column, with_columns
from gpuparse.data.vocabulary import column_ids

TEXT = """# sent_id = 1
# text = vámonos al mar
1-2\tvámonos\t_\t_\t_\t_\t_\t_\t_\t_
1\tvamos\tir\tVERB\tV\tMood=Ind\t0\troot\t0:root\t_
2\tnos\tnosotros\tPRON\t_\t_\t1\tobj\t1:obj\tSpaceAfter=No
2.1\tnada\t_\t_\t_\t_\t_\t_\t1:obj\t_


# sent_id = 2
1\tmar\t_\tNOUN\tN\tGender=Masc|Number=Sing\t0\troot\t_\t_
"""


def rewritten(text: str, columns: dict[int, list[str]]) -> bytes:
    lines, word = [], 0
    for line in text.split("\n"):
        fields = line.rstrip("\r").split("\t")
        if fields[0].isdigit():
            for column, texts in columns.items():
                fields[column] = texts[word]
            word += 1
            line = "\t".join(fields) + ("\r" if line.endswith("\r") else "")
        lines.append(line)
    return "\n".join(lines).encode()


def column(texts: list[str]) -> Column:
    return Column.of_texts(texts, np.arange(len(texts)))


@pytest.mark.parametrize("numbers", [[2, 3, 4, 5], [3], [5], [9], [1, 2]])
@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_columns_are_replaced(numbers, line_end):
    text = TEXT.replace("\n", line_end)
    treebank = treebank_from_bytes(text.encode(), "t")
    generator = np.random.default_rng(len(numbers))
    texts = {c: list(generator.choice(["_", "längeres", "x"], 3)) for c in numbers}
    made = with_columns(treebank, {c: column(each) for c, each in texts.items()})
    expected = rewritten(text, texts)
    assert made.data.tobytes() == expected
    read = treebank_from_bytes(expected, "t")
    for name in ("columns", "spans", "word_starts", "heads", "lines", "dropped"):
        assert (getattr(made, name) == getattr(read, name)).all(), name
    for c, each in texts.items():
        assert read_column(made, c).texts() == each


def test_a_part_of_a_treebank_keeps_what_is_dropped():
    treebank = treebank_from_bytes(TEXT.encode(), "t").only(np.array([False, True]))
    made = with_columns(treebank, {3: column(["PROPN"])})
    whole = treebank_from_bytes(made.data.tobytes(), "t").only(np.array([False, True]))
    assert (made.dropped == whole.dropped).all()
    assert (made.columns == whole.columns).all()
    assert made[0].cpos == ["PROPN"]


def test_bytes_are_written_when_they_are_asked_for():
    treebank = treebank_from_bytes(TEXT.encode(), "t")
    made = with_columns(treebank, {3: column(["A", "B", "A"])})
    again = with_columns(made, {2: column(["x", "y", "z"]), 3: column(["C", "_", "_"])})
    copied = pickle.loads(pickle.dumps(again))  # noqa: S301
    assert "data" not in again.__dict__
    assert (len(made), made.n_words) == (2, 3)
    expected = rewritten(TEXT, {2: ["x", "y", "z"], 3: ["C", "_", "_"]})
    for each in (again, copied, replace(again, heads=again.heads)):
        assert each.data.tobytes() == expected
    with pytest.raises(AttributeError):
        again.nothing  # noqa: B018


def test_empty_treebanks_and_given_tags():
    empty = treebank_from_bytes(b"", "t")
    assert not len(with_columns(empty, {3: Column([], np.empty(0, np.int32))}).data)
    given, found = column(["_", "A", "_"]), column(["X", "Y", "A"])
    assert filled(given, found).texts() == ["X", "A", "A"]


def test_wrong_columns_are_refused():
    treebank = treebank_from_bytes(TEXT.encode(), "t")
    texts = column(["a", "b", "c"])
    with pytest.raises(ValueError, match="do not follow"):
        with_columns(treebank, {2: texts, 4: texts})
    with pytest.raises(ValueError):
        with_columns(treebank, {2: column(["a", "b"])})
    with pytest.raises(IndexError):
        with_columns(treebank, {2: texts._replace(ids=np.array([0, 1, 7], np.int32))})


def test_strings_are_found_once_and_go_on_in_columns_that_stay():
    treebank = treebank_from_bytes(TEXT.encode(), "t")
    ids, names = column_ids(treebank, 1)
    assert column_ids(treebank, 1)[0] is ids
    assert not replace(treebank, heads=treebank.heads).interned
    changed = with_columns(
        treebank, {1: Column(["no", "x", "y"], np.arange(treebank.n_words, dtype=np.int32) % 2 + 1)}
    )
    assert column_ids(changed, 1)[1] == ["x", "y"]
    column_ids(treebank, 3)
    again = with_columns(treebank, {2: Column(["z"], np.zeros(treebank.n_words, np.int32))})
    assert again.interned.keys() == {1, 2, 3}
    for column in (1, 2, 3):
        fresh = treebank_from_bytes(again.data.tobytes(), "t")
        numbers, strings = column_ids(again, column)
        assert numbers.tolist() == column_ids(fresh, column)[0].tolist()
        assert strings == column_ids(fresh, column)[1]
    assert column_ids(again, 1)[1] is names
