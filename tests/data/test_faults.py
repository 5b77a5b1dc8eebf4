"""Every fault that a treebank file can have: what is accepted, what is refused, and how."""

import io
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from gpuparse.data.conll import (
    check_trees,
    read_treebank,
    stream_treebanks,
    treebank_from_bytes,
    write_predictions,
)
from gpuparse.data.trees import nonprojective_arcs
from gpuparse.data.vocabulary import Interner
from gpuparse.errors import DataError


def word(i, form="word", head="0", deps="_", label="dep"):
    return f"{i}\t{form}\tlemma\tN\tNN\t_\t{head}\t{label}\t{deps}\t_\n"


def sentence(*lines, sent_id="a1"):
    return f"# sent_id = {sent_id}\n" + "".join(lines) + "\n"


def of_ids(*ids):
    """A sentence of words, ranges and nodes of these IDs."""
    return sentence(*(word(i, f"w{i}") for i in ids))


GOOD = sentence(word(1, head="2"), word(2))


def as_bytes(text):
    return text if isinstance(text, bytes) else text.encode()


def read(text, **options):
    """The treebank of a text; whole and streamed in pieces of every size up to 7 must agree."""
    whole = one(text, **options)
    for size in (1, 2, 3, 7):
        given = io.BytesIO(as_bytes(text))
        chunks = list(stream_treebanks(given, "f", chunk_bytes=size, **options))
        assert sum(map(len, chunks)) == len(whole)
        assert [w for chunk in chunks for w in chunk.warnings] == whole.warnings
        assert [str(e) for chunk in chunks for e in chunk.faults] == list(map(str, whole.faults))
        assert "".join(map(written, chunks)) == written(whole)
        assert [n for chunk in chunks for n in chunk.lines] == list(whole.lines)
    return whole


def one(text, **options):
    return treebank_from_bytes(as_bytes(text), "f", **options)


def written(treebank):
    return write_predictions(treebank, treebank.heads).decode("utf-8", "surrogateescape")


def error(text, **options):
    """The message that reading the text fails with; the same whole and streamed."""
    with pytest.raises(DataError) as caught:
        one(text, **options)
    messages = {str(caught.value)}
    for size in (1, 5, 1 << 20):
        given = io.BytesIO(as_bytes(text))
        with pytest.raises(DataError) as caught:
            list(stream_treebanks(given, "f", chunk_bytes=size, **options))
        messages.add(str(caught.value))
    (message,) = messages
    assert caught.value.exit_code == 3
    return message


@pytest.mark.parametrize("text", ["", "# only a comment\n", "# no line feed", "\n\n\n", "# a\n\n"])
def test_an_empty_file_and_comments_only_come_back_as_they_are(text):
    treebank = read(text)
    assert len(treebank) == treebank.n_words == len(list(treebank)) == 0
    assert written(treebank) == text


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
@pytest.mark.parametrize("missing", [0, 1, 2])
def test_a_missing_last_line_feed_and_blank_line_are_added(line_end, missing):
    text = (GOOD * 2).replace("\n", line_end)
    treebank = read(text[: len(text) - missing * len(line_end)])
    assert [sentence.forms for sentence in treebank] == [["word", "word"]] * 2
    assert written(treebank) == text


def test_the_missing_end_of_a_faulty_sentence_is_added_where_it_is_kept():
    text = GOOD + sentence(word(2))
    assert written(read(text[:-2], on_error="keep")) == text
    assert written(read(text[:-2], on_error="skip")) == GOOD


@pytest.mark.parametrize("n_windows", [1, 3])
def test_line_ends_of_windows_are_kept_with_one_warning(n_windows):
    text = GOOD + GOOD.replace("\n", "\r\n") * n_windows + GOOD
    for each in (text, text[len(GOOD) : -len(GOOD)]):
        treebank = read(each)
        [warning] = treebank.warnings
        assert "\\r\\n" in warning
        assert (treebank[0].misc, treebank[-1].comments) == (["_", "_"], ["# sent_id = a1"])
        assert written(treebank) == each


@pytest.mark.parametrize("tail", ["\r", "x\r", "\r\r", "\n\r"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_torn_line_end_is_completed(tail, end):
    text = (GOOD + "1\tword").replace("\n", end) + tail
    kept = written(read(text, on_error="keep"))
    assert kept.startswith(text)
    assert kept.removeprefix(text) == "\n" + ("" if tail.endswith("\n\r") else end)
    assert written(read(text, on_error="skip")) == GOOD.replace("\n", end)


def test_a_byte_order_mark_is_left_out_with_one_warning():
    treebank = read("\ufeff" + GOOD)
    [warning] = treebank.warnings
    assert "byte order mark" in warning
    assert (treebank.sent_id(0), written(treebank)) == ("a1", GOOD)
    alone = one("\ufeff")
    assert (len(alone.warnings), written(alone)) == (1, "")


INVALID = [b"\xff", b"\xc3", b"\xc0\xaf", b"\xe0\x80\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80"]


@pytest.mark.parametrize("bad", INVALID)
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_invalid_utf8_is_an_error_with_line_and_byte(bad, mark):
    text = mark + GOOD.encode() + word(1, "caf\u00e9").encode() + word(2, "XX").encode() + b"\n"
    message = error(text.replace(b"XX", b"x" + bad))
    offset = text.index(b"XX") + 1
    assert message.startswith(f"f:6: byte {offset} of the file is not UTF-8")


def test_invalid_utf8_passes_through_unparsed_when_kept():
    bad = sentence(word(1, "XX")).encode().replace(b"XX", b"\xfe\xff")
    text = GOOD.encode() + bad + GOOD.encode() + bad
    kept = read(text, on_error="keep")
    assert (len(kept), len(kept.faults)) == (2, 2)
    assert write_predictions(kept, kept.heads) == text
    assert written(read(text, on_error="skip")) == GOOD * 2


STRANGE = ["a\0b", "a\u2028b", "a\x85b", "a\u200bb", "\u05d0\u05d1", "e\u0301", "\v\f",
           "_", "New York", " ", "#", "a  b"]  # fmt: skip


@pytest.mark.parametrize("form", STRANGE)
def test_lines_split_at_line_feeds_and_columns_at_tabs_only(form):
    text = sentence(word(1, form, head="2"), word(2))
    treebank = read(text)
    assert treebank[0].forms == [form, "word"]
    assert written(treebank) == text


BAD_LINE = [  # the second line of a sentence, and what is said of it
    (word(2).replace("\t", " "), "1 column instead of 10; separate the columns by tabs"),
    (word(2).replace("\t", "    "), "1 column instead of 10; separate the columns by tabs"),
    (word(2)[:-3] + "\n", "9 columns instead of 10"),
    (word(2)[:-1] + "\t_\n", "11 columns instead of 10"),
    (word(2)[:-1] + "\t" * 300 + "\n", "310 columns instead of 10"),
    (" \n", "a line of blanks (1 column); a blank line must be empty"),
    ("\t\n", "a line of blanks (2 columns); a blank line must be empty"),
    ("no columns at all\n", "1 column instead of 10"),
    (word(2, ""), "FORM (column 2) is empty"),
    (word("2-3", "") + word(2) + word(3), "FORM (column 2) is empty"),
    (word(2, "wo\rrd"), "a carriage return without a line feed"),
    (word(2, "word\r\r"), "a carriage return without a line feed"),
]
BAD_IDS = [
    ([2], 2, "ID 2 where 1 should be"),
    ([0, 1], 2, "ID 0 where 1 should be"),
    ([1, 3], 3, "ID 3 where 2 should be"),
    ([1, 1], 3, "ID 1 where 2 should be"),
    ([1, 2, 1], 4, "ID 1 where 3 should be"),
    (["01"], 2, "'01' is no ID"),
    (["1", ""], 3, "'' is no ID"),
    (["x"], 2, "'x' is no ID"),
    (["-1"], 2, "'-1' is no ID"),
    (["1."], 2, "'1.' is no ID"),
    (["1.2.3"], 2, "'1.2.3' is no ID"),
    (["1-02"], 2, "'1-02' is no ID"),
    (["99999999999999999999"], 2, "'99999999999999999999' is no ID"),
    (["2-1", 1, 2], 2, "the multiword range 2-1 ends before it begins"),
    (["1-2", 1, "2-3", 2, 3], 4, "the multiword range 2-3 overlaps the one before it"),
    (["1-2", "1-2", 1, 2], 3, "the multiword range 1-2 overlaps the one before it"),
    ([1, "2-3", 2], 3, "the multiword range 2-3 goes past the end of the sentence of 2 words"),
    (["2-3", 1, 2, 3], 2, "the multiword range 2-3 stands before word 1"),
    ([1, 2, "2-3", 3], 4, "the multiword range 2-3 stands before word 3"),
]
LONG = GOOD + sentence(word(1), word(2, "x" * 500), word(3), sent_id="b") + GOOD
BAD_WORD = word(2, "XX").encode().replace(b"XX", b"\xff")
REFUSED = [
    *((GOOD + sentence(word(1), line, sent_id="b"), {}, f"f:7: sent_id b: {what}")
      for line, what in BAD_LINE),
    *((of_ids(*ids), {}, f"f:{line}: sent_id a1: {what}") for ids, line, what in BAD_IDS),
    *((LONG, {"max_line": most}, f"f:7: sent_id b: the line is longer than {most} bytes")
      for most in (30, 60, 499)),
    (GOOD + word(1).replace("\n", "\r\r\n"), {}, "f:5: a carriage return"),
    (GOOD + word(1).replace("\n", "\r"), {}, "f:5: a carriage return"),
    # Of several faults the first is reported.
    (word(1).encode() + BAD_WORD + word(7).encode(), {}, "f:2: byte "),
    (word(1).encode() + word(7).encode() + BAD_WORD, {}, "f:2: ID 7 where 2 should be"),
    (GOOD + sentence(word(7), word(2, "x" * 500)), {"max_line": 50}, "f:6: sent_id a1: ID 7"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "options", "message"), REFUSED, ids=[each[2][:60] for each in REFUSED]
)
def test_the_first_fault_of_a_file_is_an_error_with_its_line(text, options, message):
    assert error(text, **options).startswith(message)


@pytest.mark.parametrize(
    "ids",
    [["1-1", 1, 2], ["1-2", 1, 2, "3-3", 3], [1, "2-4", 2, 3, 4], ["0.1", 1], [1, "8.1", 2],
     ["5.1", "0.1", 1], [1, "1.1", "1.2"]],
)  # fmt: skip
def test_ranges_and_empty_nodes_are_kept_and_are_no_words(ids):
    text = of_ids(*ids)
    treebank = read(text)
    assert treebank[0].forms == [f"w{i}" for i in ids if isinstance(i, int)]
    assert list(treebank.lines) == [2 + k for k, i in enumerate(ids) if isinstance(i, int)]
    assert written(treebank) == text


def test_missing_heads_are_normal_in_text_to_parse():
    text = sentence(word(1, head="_", label="_"), word(2, head="_", label="_"))
    treebank = read(text)
    assert treebank[0].heads == [-1, -1]
    parsed = write_predictions(treebank, np.array([2, 0]), [b"a", b"root"], np.array([0, 1]))
    assert parsed.decode() == sentence(word(1, head="2", label="a"), word(2, label="root"))


def checks(*heads, **options):
    treebank = read(GOOD + sentence(*(word(i + 1, f"w{i + 1}", h) for i, h in enumerate(heads))))
    return [str(error) for error in check_trees(treebank, **options)]


@pytest.mark.parametrize(
    ("heads", "options", "line", "what"),
    [
        ("231", {}, 6, "words 1 (w1), 2 (w2) and 3 (w3) form a cycle"),
        ("03422", {}, 7, "words 2 (w2), 3 (w3) and 4 (w4) form a cycle"),
        ("21", {}, 6, "words 1 (w1) and 2 (w2) form a cycle"),
        # A word that hangs from a cycle is not in it.
        ("23430", {}, 8, "words 3 (w3) and 4 (w4) form a cycle"),
        ("032_", {"partial": True}, 7, "words 2 (w2) and 3 (w3) form a cycle"),
        ("02", {}, 7, "word 2 (w2) is its own head"),
        ("03", {}, 7, "HEAD of word 2 (w2) is 3; the sentence has 2 words"),
        (["-1", "1"], {}, 6, "HEAD of word 1 (w1) is '-1'; write a number from 0 to 2"),
        (["0", "01"], {}, 7, "HEAD of word 2 (w2) is '01'"),
        (["0", "two"], {}, 7, "HEAD of word 2 (w2) is 'two'"),
        (["0", "2147483648"], {}, 7, "HEAD of word 2 (w2) is '2147483648'; write a number"),
        (["0", "2147483647"], {}, 7, "HEAD of word 2 (w2) is 2147483647; the sentence has 2"),
        (["0", "99999999999"], {}, 7, "HEAD of word 2 (w2) is '99999999999'"),
        ("0_1_", {}, 7, "no HEAD for words 2 (w2) and 4 (w4)"),
        ("001", {"single_root": True}, 6, "2 roots: words 1 (w1) and 2 (w2)"),
    ],
)
def test_heads_that_are_no_tree_are_errors_that_name_the_words(heads, options, line, what):
    (message,) = checks(*heads, **options)
    assert message.startswith(f"f:{line}: sent_id a1: {what}")


def test_several_roots_and_partial_trees_are_no_faults_by_default_or_where_they_may_be():
    assert checks("0", "0", "1") == []
    assert checks("0", "_", "1", "_", partial=True) == []


def test_non_projective_gold_trees_can_be_counted():
    treebank = read(GOOD + sentence(*(word(i + 1, head=h) for i, h in enumerate("3401"))))
    arcs = nonprojective_arcs(treebank.heads, treebank.word_starts)
    assert arcs.tolist() == [False, False, False, True, False, True]
    assert check_trees(treebank) == []


@pytest.mark.parametrize("deps", ["", "x", "9:a|2:b", "1:self", "77:far", "0:a||", "1:a:b|8.1:c"])
def test_deps_are_copied_untouched(deps):
    text = sentence(word(1, deps=deps, head="2"), word(2, deps=deps))
    treebank = read(text)
    assert treebank[0].deps == [deps, deps]
    assert written(treebank) == text
    parsed = write_predictions(treebank, np.array([0, 1], np.int32))
    assert parsed.decode() == sentence(word(1, deps=deps), word(2, deps=deps, head="1"))


def test_unknown_words_tags_and_relations_are_read_and_unknown_to_the_tables():
    known, text = read(GOOD), read(sentence(word(1, "\u4e0d", label="nie:geh\u00f6rt")))
    assert text[0].labels == ["nie:geh\u00f6rt"]
    for column in (1, 7):
        table = Interner()
        table.intern(known.data, known.columns[:, column], known.columns[:, column + 1] - 1)
        found = table.find(text.data, text.columns[:, column], text.columns[:, column + 1] - 1)
        assert found.tolist() == [-1]


@pytest.mark.parametrize("bad", ["1\ta\n", word(2), "#\r#\n"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_malformed_sentences_of_any_length_are_never_held_whole(bad, end):
    middle = "".join(word(i) for i in range(1, 4)) + bad + 2000 * word(4)
    text = (GOOD + middle + "\n" + GOOD).replace("\n", end)
    whole = one(text, on_error="keep")
    assert [len(whole), len(whole.faults)] == [2, 1]

    def streamed(on_error):
        given = io.BytesIO(text.encode())
        return list(stream_treebanks(given, "f", chunk_bytes=1000, on_error=on_error))

    chunks = streamed("keep")
    assert max(len(chunk.data) for chunk in chunks) < 4000
    assert "".join(map(written, chunks)) == text
    assert [str(e) for chunk in chunks for e in chunk.faults] == list(map(str, whole.faults))
    assert "".join(map(written, streamed("skip"))) == 2 * GOOD.replace("\n", end)


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_the_longest_line_allowed_is_no_error(end):
    text = LONG.replace("\n", end)
    longest = max(map(len, LONG.split("\n")))
    assert len(read(text, max_line=longest)) == 3
    assert "longer" in error(text, max_line=longest - 1)


@pytest.mark.parametrize("tail", ["", GOOD])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_long_line_can_be_skipped_or_kept(tail, end):
    bad = sentence(word(1), "# " + "x" * 500 + "\n", word(2), sent_id="b")
    text, bad = (GOOD + bad + tail).replace("\n", end), bad.replace("\n", end)
    kept = read(text, on_error="keep", max_line=40)
    assert written(kept) == text
    skipped = read(text, on_error="skip", max_line=40)
    assert written(skipped) == text.replace(bad, "")
    for treebank in (kept, skipped):
        assert len(treebank) == (2 if tail else 1)
        assert [str(fault)[:17] for fault in treebank.faults] == ["f:7: sent_id b: t"]
        assert treebank.lines[-1] == (12 if tail else 3)


def test_a_kept_long_line_at_the_end_of_the_file_is_ended():
    text = GOOD + word(1, "x" * 500)[:-1]
    assert written(read(text, on_error="keep", max_line=40)) == text + "\n\n"
    assert written(read(text, on_error="skip", max_line=40)) == GOOD


@pytest.mark.parametrize("on_error", ["fail", "skip", "keep"])
def test_ten_megabytes_on_one_line_are_never_held(on_error):
    data = GOOD.encode() + b"1\t" + b"x" * 10_000_000 + b"\n\n" + GOOD.encode()
    options = {"chunk_bytes": 1 << 16, "max_line": 1 << 18, "on_error": on_error}
    write_predictions(one(GOOD.encode()), np.array([0, 1]))  # compiled before memory is watched
    tracemalloc.start()
    if on_error == "fail":
        with pytest.raises(DataError, match="f:5: the line is longer than 262144 bytes"):
            list(stream_treebanks(io.BytesIO(data), "f", **options))
    else:
        n_bytes = sum(
            len(written(c).encode()) for c in stream_treebanks(io.BytesIO(data), "f", **options)
        )
        assert n_bytes == (len(data) if on_error == "keep" else 2 * len(GOOD))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2_500_000


def test_skipped_and_kept_sentences_are_recorded_in_order():
    bad = [sentence(word(i), sent_id=f"b{i}") for i in range(2, 9)]
    text = "".join(b + GOOD for b in bad)
    skipped = read(text, on_error="skip")
    assert written(skipped) == GOOD * 7
    assert [str(fault).split(":")[1] for fault in skipped.faults] == [
        str(2 + 7 * k) for k in range(7)
    ]
    kept = read(text, on_error="keep")
    assert len(kept) == 7
    assert written(kept) == text
    heads = np.tile(np.array([0, 1], np.int32), 7)
    turned = sentence(word(1), word(2, head="1"))
    assert write_predictions(kept, heads).decode() == text.replace(GOOD, turned)
    assert write_predictions(skipped, heads).decode() == turned * 7


def test_other_values_of_on_error_are_refused():
    with pytest.raises(ValueError, match="on_error"):
        one(b"", on_error="ignore")


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="this system has no /dev/zero")
def test_a_device_without_an_end_is_refused():
    with pytest.raises(DataError, match="/dev/zero: is a device without an end"):
        read_treebank("/dev/zero")
    assert len(read_treebank("/dev/null")) == 0


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(DataError, match=r"no\.conllu: cannot be read"):
        read_treebank(tmp_path / "no.conllu")
