"""Reading and writing: what was on disk comes back, whole or streamed, and the views show it."""

import io
import itertools
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuparse.data.conll import (
    read_treebank,
    stream_treebanks,
    treebank_from_bytes,
    write_predictions,
)

# Every character but the separators and what UTF-8 cannot write.
TEXT = st.text(
    st.characters(blacklist_characters="\t\n\r", blacklist_categories=["Cs"]), max_size=6
)
FIELD = TEXT.filter(bool)


@st.composite
def blocks(draw):
    """Lines of one sentence: comments anywhere, ranges, empty nodes, words with any columns."""
    n = draw(st.integers(1, 5))
    lines, i = [], 1
    range_end = 0
    while i <= n:
        kind = draw(st.sampled_from(["word", "word", "word", "comment", "range", "empty"]))
        if kind == "comment":
            lines.append("#" + draw(TEXT))
            continue
        if kind == "range" and i > range_end:
            range_end = draw(st.integers(i, n))
            name = f"{i}-{range_end}"
        elif kind == "empty":
            name = f"{draw(st.integers(0, 9))}.{draw(st.integers(1, 12))}"
        else:
            name = str(i)
            i += 1
        head = draw(st.one_of(st.just("_"), st.integers(0, 2**31 - 1).map(str), TEXT))
        columns = [name, draw(FIELD), *draw(st.lists(TEXT, min_size=4, max_size=4)), head]
        lines.append("\t".join(columns + draw(st.lists(TEXT, min_size=3, max_size=3))))
    return lines


@st.composite
def documents(draw):
    """A well-formed file: sentences, comments on their own, blank lines, either line end."""
    line_end = draw(st.sampled_from(["\n", "\r\n"]))
    comments = st.lists(TEXT.map(lambda text: "#" + text), max_size=2)
    paragraphs = draw(st.lists(st.one_of(blocks(), comments), max_size=5))
    lines = [line for block in paragraphs for line in [*block, ""]]
    return "".join(line + line_end for line in lines).encode()


def labels_of(treebank):
    """Gold relations as write_predictions takes them: names and ids."""
    texts = [treebank.column(w, 7).encode() for w in range(treebank.n_words)]
    names = sorted(set(texts))
    return names, np.array([names.index(text) for text in texts], np.int32)


@settings(deadline=None, max_examples=100)
@given(documents(), st.integers(1, 40))
def test_gold_written_back_is_the_file_whole_and_streamed(data, chunk_bytes):
    chunks = list(stream_treebanks(io.BytesIO(data), "f", chunk_bytes=chunk_bytes))
    assert b"".join(write_predictions(c, c.heads, *labels_of(c)) for c in chunks) == data
    assert b"".join(write_predictions(c, c.heads) for c in chunks) == data
    whole = treebank_from_bytes(data, "f")
    assert sum(map(len, chunks)) == len(whole)
    assert [line for c in chunks for line in c.lines] == whole.lines.tolist()
    assert [s.forms for c in chunks for s in c] == [s.forms for s in whole]
    ends = np.cumsum([np.count_nonzero(c.data == ord("\n")) for c in chunks]).tolist()
    assert [c.first_line for c in chunks] == [1, *(1 + end for end in ends[:-1])][: len(chunks)]


@settings(deadline=None, max_examples=60)
@given(documents(), st.data())
def test_parts_written_back_are_the_file(data, draw):
    """Cut between any sentences, some of which are left out."""
    whole = treebank_from_bytes(data.rstrip(b"\r\n"), "f")
    kept = draw.draw(st.lists(st.booleans(), min_size=len(whole), max_size=len(whole)))
    for treebank in (whole, whole.only(np.array(kept, bool))):
        n = len(treebank)
        cuts = draw.draw(st.sets(st.integers(1, n - 1))) if n > 1 else set()
        bounds = [0, *sorted(cuts), n]
        parts = [treebank.part(i, j) for i, j in itertools.pairwise(bounds)]
        written = b"".join(write_predictions(part, part.heads) for part in parts)
        assert written == write_predictions(treebank, treebank.heads)
        assert [line for part in parts for line in part.lines] == treebank.lines.tolist()
        assert [s.forms for part in parts for s in part] == [s.forms for s in treebank]


@settings(deadline=None, max_examples=66)
@given(documents())
def test_columns_and_lines_are_those_that_splitting_finds(data):
    treebank = treebank_from_bytes(data, "f")
    lines = data.decode().split("\n")
    rows = [line.removesuffix("\r").split("\t") for line in lines]
    words = [k for k, row in enumerate(rows) if row[0].isascii() and row[0].isdigit()]
    words = [k for k in words if not lines[k].startswith("#")]
    assert treebank.lines.tolist() == [k + 1 for k in words]
    for w, k in enumerate(words):
        assert [treebank.column(w, c) for c in range(10)] == rows[k]


@settings(deadline=None, max_examples=50)
@given(documents(), st.data())
def test_only_head_and_deprel_change(data, draw):
    treebank = treebank_from_bytes(data, "f")
    size = treebank.n_words
    heads = draw.draw(st.lists(st.integers(-1, 10**6), min_size=size, max_size=size))
    ids = draw.draw(st.lists(st.integers(-1, 1), min_size=size, max_size=size))
    names = ["nsubj", "\u5b50"]
    expected = data.decode().split("\n")
    for w, line in enumerate(treebank.lines):
        row = expected[line - 1].split("\t")
        row[6] = "_" if heads[w] < 0 else str(heads[w])
        row[7] = "_" if ids[w] < 0 else names[ids[w]]
        expected[line - 1] = "\t".join(row)
    text = write_predictions(
        treebank, np.array(heads), [name.encode() for name in names], np.array(ids)
    )
    assert text.decode() == "\n".join(expected)


SAMPLE = """\
# sent_id = first
# text = She doesn't dance.
1	She	she	PRON	PRP	Case=Nom|Number=Sing	4	nsubj	4:nsubj	_
2-3	doesn't	_	_	_	_	_	_	_	_
2	does	do	AUX	VBZ	_	4	aux	4:aux	CorrectForm=3,000|CorrectForm=a
3	n't	not	PART	RB	_	4	advmod	_	_
4	dance	dance	VERB	VB	_	0	root	0:root	SpaceAfter=No|B=2|A=1
4.1	_	_	_	_	_	_	_	4:x	_
5	.	.	PUNCT	.	_	4	punct	_	_

# newpar

1	No	no	INTJ	UH	_	0	root	_	_

"""


def sample(tmp_path):
    path = tmp_path / "sample.conllu"
    path.write_text(SAMPLE, newline="")
    return read_treebank(path)


def test_sentences_show_their_columns(tmp_path):
    treebank = sample(tmp_path)
    assert len(treebank) == 2
    assert treebank.n_words == 6
    first, second = treebank
    assert first.sent_id == "first"
    assert second.sent_id == ""
    assert first.comments == ["# sent_id = first", "# text = She doesn't dance."]
    assert second.comments == []
    assert first.forms == ["She", "does", "n't", "dance", "."]
    assert first.lemmas == ["she", "do", "not", "dance", "."]
    assert first.cpos == ["PRON", "AUX", "PART", "VERB", "PUNCT"]
    assert first.pos == ["PRP", "VBZ", "RB", "VB", "."]
    assert first.feats == ["Case=Nom|Number=Sing", "_", "_", "_", "_"]
    assert first.heads == [4, 4, 4, 0, 4]
    assert first.labels == ["nsubj", "aux", "advmod", "root", "punct"]
    assert first.deps == ["4:nsubj", "4:aux", "_", "0:root", "_"]
    assert first.misc[3] == "SpaceAfter=No|B=2|A=1"
    assert [len(first), len(second)] == [5, 1]
    assert [first.line, second.line] == [3, 13]
    assert treebank[-1].forms == ["No"]
    assert repr(first) == f"<Sentence 0 of {treebank.source}: She does n't dance .>"
    assert repr(treebank) == f"<Treebank: {treebank.source}, 2 sentences, 6 words>"
    with pytest.raises(IndexError):
        treebank[2]
    assert treebank.columns.shape == (6, 11)
    assert treebank.columns.dtype == treebank.word_starts.dtype == treebank.lines.dtype == np.int64
    assert treebank.heads.dtype == np.int32
    assert treebank.word_starts.tolist() == [0, 5, 6]
    assert treebank.lines.tolist() == [3, 5, 6, 7, 9, 13]
    assert treebank.data.tobytes() == SAMPLE.encode()


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_a_stream_holds_little_more_than_a_chunk(line_end):
    data = SAMPLE.replace("\n", line_end).encode() * 200
    sizes = [len(c.data) for c in stream_treebanks(io.BytesIO(data), "f", chunk_bytes=5000)]
    assert sum(sizes) == len(data)
    assert max(sizes) < 5000 + len(SAMPLE.encode()) * 2
    assert len(sizes) <= len(data) // 5000 + 2


def test_standard_input_is_read_for_a_dash(monkeypatch):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(SAMPLE.encode())))
    treebank = read_treebank("-")
    assert treebank.source == "<stdin>"
    assert len(treebank) == 2


@pytest.mark.parametrize(
    ("heads", "labels", "ids", "what"),
    [
        (np.zeros(5), None, None, "must be of shape"),
        (np.zeros(6), [b"a"], None, "go together"),
        (np.zeros(6), None, np.zeros(6), "go together"),
        (np.zeros(6), [b"a"], np.zeros(5), "must be of shape"),
        (np.full(6, -3), None, None, "below -2"),
        (np.zeros(6), [b"a"], np.full(6, 1), "past the end"),
        (np.zeros(6), [b"a"], np.full(6, -2), "below -1"),
        (np.zeros(6), [], np.zeros(6), "past the end"),
        (np.zeros(6), [b"a\tb"], np.zeros(6), "a tab or a line end"),
        (np.zeros(6), [b"a\n"], np.zeros(6), "a tab or a line end"),
    ],
)
def test_predictions_that_do_not_fit_are_refused(heads, labels, ids, what, tmp_path):
    with pytest.raises(ValueError, match=what):
        write_predictions(sample(tmp_path), heads, labels, ids)


REAL = Path(__file__).resolve().parents[2].parent / "shared" / "data"


@pytest.mark.skipif(not REAL.is_dir(), reason="needs the treebanks in ../shared/data")
def test_published_treebanks_come_back_byte_for_byte():
    paths = sorted(REAL.rglob("*.conll*"))
    assert paths
    for path in paths:
        data = path.read_bytes()
        whole = read_treebank(path)
        assert write_predictions(whole, whole.heads) == data, path
        with path.open("rb") as file:
            chunks = list(stream_treebanks(file, str(path), chunk_bytes=1 << 16))
        assert b"".join(write_predictions(c, c.heads, *labels_of(c)) for c in chunks) == data, path
        assert sum(map(len, chunks)) == len(whole)
