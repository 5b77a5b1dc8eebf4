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


GOOD = sentence(word(1, head="2"), word(2))


def read(text, **options):
    """The treebank of a text; whole and streamed in pieces of every size up to 7 must agree."""
    data = text if isinstance(text, bytes) else text.encode()
    whole = one(data, **options)
    for size in (1, 2, 3, 7):
        chunks = list(stream_treebanks(io.BytesIO(data), "f", chunk_bytes=size, **options))
        assert sum(map(len, chunks)) == len(whole)
        assert [w for chunk in chunks for w in chunk.warnings] == whole.warnings
        assert [str(e) for chunk in chunks for e in chunk.faults] == list(map(str, whole.faults))
        assert b"".join(write_predictions(c, c.heads) for c in chunks) == written(whole)
        assert [n for chunk in chunks for n in chunk.lines] == list(whole.lines)
    return whole


def one(data, **options):
    return treebank_from_bytes(data, "f", **options)


def written(treebank):
    return write_predictions(treebank, treebank.heads)


def error(text, **options):
    """The message that reading the text fails with; the same whole and streamed."""
    data = text if isinstance(text, bytes) else text.encode()
    with pytest.raises(DataError) as caught:
        one(data, **options)
    messages = {str(caught.value)}
    for size in (1, 5, 1 << 20):
        with pytest.raises(DataError) as caught:
            list(stream_treebanks(io.BytesIO(data), "f", chunk_bytes=size, **options))
        messages.add(str(caught.value))
    (message,) = messages
    assert caught.value.exit_code == 3
    return message


@pytest.mark.parametrize("text", ["", "# only a comment\n", "# no line feed", "\n\n\n", "# a\n\n"])
def test_case_01_empty_file_and_comments_only_come_back_as_they_are(text):
    treebank = read(text)
    assert len(treebank) == treebank.n_words == 0
    assert list(treebank) == []
    assert written(treebank) == text.encode()


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
@pytest.mark.parametrize("missing", [0, 1, 2])
def test_case_02_missing_last_line_feed_and_blank_line_are_added(line_end, missing):
    text = (GOOD * 2).replace("\n", line_end)
    cut = text[: len(text) - missing * len(line_end)]
    treebank = read(cut)
    assert [sentence.forms for sentence in treebank] == [["word", "word"]] * 2
    assert written(treebank).decode() == text


def test_case_02_missing_end_after_a_faulty_sentence():
    bad = sentence(word(2))
    assert written(read(GOOD + bad[:-2], on_error="keep")).decode() == GOOD + bad
    assert written(read(GOOD + bad[:-2], on_error="skip")).decode() == GOOD


def test_case_03_crlf_is_accepted_with_one_warning_and_kept():
    text = (GOOD * 3).replace("\n", "\r\n")
    treebank = read(text)
    assert [w for w in treebank.warnings if "\\r\\n" in w] == treebank.warnings
    assert len(treebank.warnings) == 1
    assert treebank[0].misc == ["_", "_"]
    assert treebank[0].comments == ["# sent_id = a1"]
    assert treebank.sent_id(2) == "a1"
    assert written(treebank).decode() == text


def test_case_03_mixed_line_ends_are_kept():
    text = GOOD + GOOD.replace("\n", "\r\n") + GOOD
    treebank = read(text)
    assert len(treebank) == 3
    assert len(treebank.warnings) == 1
    assert written(treebank).decode() == text


@pytest.mark.parametrize("broken", ["wo\rrd", "word\r\r"])
def test_case_03_lone_carriage_return_is_an_error_with_its_line(broken):
    message = error(GOOD + sentence(word(1), word(2, broken), sent_id="b"))
    assert message.startswith("f:7: sent_id b: a carriage return without a line feed")


def test_case_03_lone_carriage_return_at_the_end_of_a_line_or_file():
    assert error(GOOD + word(1).replace("\n", "\r\r\n")).startswith("f:5: a carriage return")
    assert error(GOOD + word(1).replace("\n", "\r")).startswith("f:5: a carriage return")


def test_case_04_byte_order_mark_is_left_out_with_one_warning():
    treebank = read(b"\xef\xbb\xbf" + GOOD.encode())
    assert [w for w in treebank.warnings if "byte order mark" in w] == treebank.warnings
    assert len(treebank.warnings) == 1
    assert treebank.sent_id(0) == "a1"
    assert written(treebank).decode() == GOOD
    alone = one(b"\xef\xbb\xbf")
    assert len(alone.warnings) == 1
    assert written(alone) == b""


INVALID = [b"\xff", b"\xc3", b"\xc0\xaf", b"\xe0\x80\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80"]


@pytest.mark.parametrize("bad", INVALID)
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_case_05_invalid_utf8_is_an_error_with_line_and_byte(bad, mark):
    text = mark + GOOD.encode() + word(1, "caf\u00e9").encode() + word(2, "XX").encode() + b"\n"
    data = text.replace(b"XX", b"x" + bad)
    message = error(data)
    offset = text.index(b"XX") + 1
    assert message.startswith(f"f:6: byte {offset} of the file is not UTF-8")


def test_case_05_the_first_of_several_faults_is_reported():
    bad = word(2, "XX").encode().replace(b"XX", b"\xff")
    before = error(word(1).encode() + bad + word(7).encode())
    assert before.startswith("f:2: byte ")
    after = error(word(1).encode() + word(7).encode() + bad)
    assert after.startswith("f:2: ID 7 where 2 should be")


def test_case_05_invalid_utf8_passes_through_unparsed_when_kept():
    bad = sentence(word(1, "XX")).encode().replace(b"XX", b"\xfe\xff")
    data = GOOD.encode() + bad + GOOD.encode() + bad
    kept = read(data, on_error="keep")
    assert len(kept) == 2
    assert len(kept.faults) == 2
    assert written(kept) == data
    assert written(read(data, on_error="skip")).decode() == GOOD * 2


STRANGE = ["a\0b", "a\u2028b", "a\x85b", "a\u0085b", "a\u200bb", "\u05d0\u05d1", "e\u0301", "\v\f"]


@pytest.mark.parametrize("form", STRANGE)
def test_case_06_lines_split_at_line_feeds_only_and_bytes_are_unchanged(form):
    text = sentence(word(1, form, head="2"), word(2))
    treebank = read(text)
    assert treebank[0].forms == [form, "word"]
    assert written(treebank).decode() == text


@pytest.mark.parametrize(
    ("line", "what"),
    [
        (word(2).replace("\t", " "), "1 column instead of 10; separate the columns by tabs"),
        (word(2).replace("\t", "    "), "1 column instead of 10; separate the columns by tabs"),
        (word(2)[:-3] + "\n", "9 columns instead of 10"),
        (word(2)[:-1] + "\t_\n", "11 columns instead of 10"),
        (word(2)[:-1] + "\t" * 300 + "\n", "310 columns instead of 10"),
        (" \n", "a line of blanks (1 column); a blank line must be empty"),
        ("\t\n", "a line of blanks (2 columns); a blank line must be empty"),
        ("no columns at all\n", "1 column instead of 10"),
    ],
)
def test_case_07_wrong_number_of_columns_is_an_error_with_line_and_count(line, what):
    message = error(GOOD + sentence(word(1), line, sent_id="b"))
    assert message.startswith(f"f:7: sent_id b: {what}")


def test_case_08_empty_form_is_an_error():
    assert error(sentence(word(1, ""))).startswith("f:2: sent_id a1: FORM (column 2) is empty")
    assert "FORM" in error(sentence(word("1-2", ""), word(1), word(2)))


@pytest.mark.parametrize("form", ["_", "New York", " ", "#", "a  b"])
def test_case_08_underscore_and_spaces_are_forms(form):
    text = sentence(word(1, form))
    treebank = read(text)
    assert treebank[0].forms == [form]
    assert written(treebank).decode() == text


@pytest.mark.parametrize(
    ("ids", "line", "what"),
    [
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
    ],
)
def test_case_09_ids_must_be_1_to_n(ids, line, what):
    message = error(sentence(*map(word, ids)))
    assert message.startswith(f"f:{line}: sent_id a1: {what}")


@pytest.mark.parametrize(
    ("ids", "line", "what"),
    [
        (["2-1", 1, 2], 2, "the multiword range 2-1 ends before it begins"),
        (["1-2", 1, "2-3", 2, 3], 4, "the multiword range 2-3 overlaps the one before it"),
        (["1-2", "1-2", 1, 2], 3, "the multiword range 1-2 overlaps the one before it"),
        ([1, "2-3", 2], 3, "the multiword range 2-3 goes past the end of the sentence of 2 words"),
        (["2-3", 1, 2, 3], 2, "the multiword range 2-3 stands before word 1"),
        ([1, 2, "2-3", 3], 4, "the multiword range 2-3 stands before word 3"),
    ],
)
def test_case_10_multiword_ranges_must_fit(ids, line, what):
    assert error(sentence(*map(word, ids))).startswith(f"f:{line}: sent_id a1: {what}")


@pytest.mark.parametrize("ids", [["1-1", 1, 2], ["1-2", 1, 2, "3-3", 3], [1, "2-4", 2, 3, 4]])
def test_case_10_good_ranges_are_kept_and_are_no_words(ids):
    text = sentence(*(word(i, form=f"w{i}") for i in ids))
    treebank = read(text)
    assert treebank[0].forms == [f"w{i}" for i in ids if isinstance(i, int)]
    assert written(treebank).decode() == text


@pytest.mark.parametrize("ids", [["0.1", 1], [1, "8.1", 2], ["5.1", "0.1", 1], [1, "1.1", "1.2"]])
def test_case_11_empty_nodes_are_kept_wherever_they_stand_and_are_no_words(ids):
    text = sentence(*map(word, ids))
    treebank = read(text)
    assert treebank.n_words == sum(isinstance(i, int) for i in ids)
    assert list(treebank.lines) == [2 + k for k, i in enumerate(ids) if isinstance(i, int)]
    assert written(treebank).decode() == text


def test_case_12_missing_heads_are_normal_in_text_to_parse():
    text = sentence(word(1, head="_", label="_"), word(2, head="_", label="_"))
    treebank = read(text)
    assert treebank[0].heads == [-1, -1]
    parsed = write_predictions(treebank, np.array([2, 0]), [b"a", b"root"], np.array([0, 1]))
    assert parsed.decode() == sentence(word(1, head="2", label="a"), word(2, label="root"))


def checks(*heads, **options):
    treebank = read(GOOD + sentence(*(word(i + 1, f"w{i + 1}", h) for i, h in enumerate(heads))))
    return [str(error) for error in check_trees(treebank, **options)]


def test_case_13_missing_head_is_an_error_in_gold_trees_unless_partial():
    (message,) = checks("0", "_", "1", "_")
    assert message.startswith("f:7: sent_id a1: no HEAD for words 2 (w2) and 4 (w4)")
    assert checks("0", "_", "1", "_", partial=True) == []
    (message,) = checks("0", "3", "2", "_", partial=True)
    assert "words 3 (w3) and 2 (w2) form a cycle" in message or "words 2 (w2) and 3 (w3)" in message


@pytest.mark.parametrize(
    ("heads", "line", "what"),
    [
        (["2", "3", "1"], 6, "words 1 (w1), 2 (w2) and 3 (w3) form a cycle"),
        (["0", "3", "4", "2", "2"], 7, "words 2 (w2), 3 (w3) and 4 (w4) form a cycle"),
        (["0", "2"], 7, "word 2 (w2) is its own head"),
        (["0", "3"], 7, "HEAD of word 2 (w2) is 3; the sentence has 2 words"),
        (["-1", "1"], 6, "HEAD of word 1 (w1) is '-1'; write a number from 0 to 2"),
        (["0", "01"], 7, "HEAD of word 2 (w2) is '01'"),
        (["0", "two"], 7, "HEAD of word 2 (w2) is 'two'"),
        (["0", "2147483648"], 7, "HEAD of word 2 (w2) is '2147483648'; write a number"),
        (["0", "2147483647"], 7, "HEAD of word 2 (w2) is 2147483647; the sentence has 2"),
        (["0", "99999999999"], 7, "HEAD of word 2 (w2) is '99999999999'"),
    ],
)
def test_case_14_cycles_and_wrong_heads_are_errors_that_name_the_words(heads, line, what):
    (message,) = checks(*heads)
    assert message.startswith(f"f:{line}: sent_id a1: {what}")


def test_case_14_a_sentence_that_a_cycle_hangs_from_names_the_cycle_alone():
    (message,) = checks("2", "3", "4", "3", "0")
    assert "words 3 (w3) and 4 (w4) form a cycle" in message


def test_case_15_several_roots_are_an_error_only_with_single_root():
    assert checks("0", "0", "1") == []
    (message,) = checks("0", "0", "1", single_root=True)
    assert message.startswith("f:6: sent_id a1: 2 roots: words 1 (w1) and 2 (w2)")


def test_case_15_no_root_is_always_a_cycle():
    assert len(checks("2", "1")) == 1


def test_case_16_non_projective_gold_trees_can_be_counted():
    treebank = read(GOOD + sentence(*(word(i + 1, head=h) for i, h in enumerate("3401"))))
    arcs = nonprojective_arcs(treebank.heads, treebank.word_starts)
    assert arcs.tolist() == [False, False, False, True, False, True]
    assert check_trees(treebank) == []


@pytest.mark.parametrize("deps", ["", "x", "9:a|2:b", "1:self", "77:far", "0:a||", "1:a:b|8.1:c"])
def test_case_17_deps_are_copied_untouched(deps):
    text = sentence(word(1, deps=deps, head="2"), word(2, deps=deps))
    treebank = read(text)
    assert treebank[0].deps == [deps, deps]
    assert written(treebank).decode() == text
    parsed = write_predictions(treebank, np.array([0, 1], np.int32))
    assert parsed.decode() == sentence(word(1, deps=deps), word(2, deps=deps, head="1"))


def test_case_18_unknown_words_tags_and_relations_are_read_and_unknown_to_the_tables():
    known, text = read(GOOD), read(sentence(word(1, "\u4e0d", label="nie:geh\u00f6rt")))
    assert text[0].labels == ["nie:geh\u00f6rt"]
    for column in (1, 7):
        table = Interner()
        table.intern(known.data, known.columns[:, column], known.columns[:, column + 1] - 1)
        found = table.find(text.data, text.columns[:, column], text.columns[:, column + 1] - 1)
        assert found.tolist() == [-1]


@pytest.mark.parametrize("tail", ["\r", "x\r", "\r\r", "\n\r"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_case_03_a_torn_line_end_is_completed(tail, end):
    text = (GOOD + "1\tword").replace("\n", end) + tail
    kept = written(read(text, on_error="keep")).decode()
    assert kept.startswith(text)
    assert kept.removeprefix(text) == "\n" + ("" if tail.endswith("\n\r") else end)
    assert written(read(text, on_error="skip")).decode() == GOOD.replace("\n", end)


@pytest.mark.parametrize("bad", ["1\ta\n", word(2), "#\r#\n"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_case_22_malformed_sentences_of_any_length_are_never_held_whole(bad, end):
    middle = "".join(word(i) for i in range(1, 4)) + bad + 2000 * word(4)
    text = (GOOD + middle + "\n" + GOOD).replace("\n", end).encode()
    whole = one(text, on_error="keep")
    assert [len(whole), len(whole.faults)] == [2, 1]
    chunks = list(stream_treebanks(io.BytesIO(text), "f", chunk_bytes=1000, on_error="keep"))
    assert max(len(chunk.data) for chunk in chunks) < 4000
    assert b"".join(map(written, chunks)) == text
    assert [str(e) for chunk in chunks for e in chunk.faults] == list(map(str, whole.faults))
    skipped = stream_treebanks(io.BytesIO(text), "f", chunk_bytes=1000, on_error="skip")
    assert b"".join(map(written, skipped)).decode() == 2 * GOOD.replace("\n", end)


LONG = GOOD + sentence(word(1), word(2, "x" * 500), word(3), sent_id="b") + GOOD


@pytest.mark.parametrize("limit", [30, 60, 499])
def test_case_22_a_long_line_is_an_error(limit):
    expected = f"f:7: sent_id b: the line is longer than {limit} bytes"
    assert error(LONG, max_line=limit).startswith(expected)


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_case_22_the_longest_line_allowed_is_no_error(end):
    text = LONG.replace("\n", end)
    longest = max(map(len, LONG.split("\n")))
    assert len(read(text, max_line=longest)) == 3
    assert "longer" in error(text, max_line=longest - 1)


@pytest.mark.parametrize("tail", ["", GOOD])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_case_22_a_long_line_can_be_skipped_or_kept(tail, end):
    bad = sentence(word(1), "# " + "x" * 500 + "\n", word(2), sent_id="b")
    text, bad = (GOOD + bad + tail).replace("\n", end), bad.replace("\n", end)
    kept = read(text, on_error="keep", max_line=40)
    assert written(kept).decode() == text
    skipped = read(text, on_error="skip", max_line=40)
    assert written(skipped).decode() == text.replace(bad, "")
    for treebank in (kept, skipped):
        assert len(treebank) == (2 if tail else 1)
        assert [str(fault)[:17] for fault in treebank.faults] == ["f:7: sent_id b: t"]
        assert treebank.lines[-1] == (12 if tail else 3)


def test_case_22_a_kept_long_line_at_the_end_of_the_file_is_ended():
    text = GOOD + word(1, "x" * 500)[:-1]
    assert written(read(text, on_error="keep", max_line=40)).decode() == text + "\n\n"
    assert written(read(text, on_error="skip", max_line=40)).decode() == GOOD


@pytest.mark.parametrize("on_error", ["fail", "skip", "keep"])
def test_case_22_ten_megabytes_on_one_line_are_never_held(on_error):
    data = GOOD.encode() + b"1\t" + b"x" * 10_000_000 + b"\n\n" + GOOD.encode()
    options = {"chunk_bytes": 1 << 16, "max_line": 1 << 18, "on_error": on_error}
    write_predictions(one(GOOD.encode()), np.array([0, 1]))  # compiled before memory is watched
    tracemalloc.start()
    if on_error == "fail":
        with pytest.raises(DataError, match="f:5: the line is longer than 262144 bytes"):
            list(stream_treebanks(io.BytesIO(data), "f", **options))
    else:
        n_bytes = sum(len(written(c)) for c in stream_treebanks(io.BytesIO(data), "f", **options))
        assert n_bytes == (len(data) if on_error == "keep" else 2 * len(GOOD))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2_500_000


def test_a_fault_earlier_in_the_sentence_of_a_long_line_is_the_one_reported():
    text = GOOD + sentence(word(7), word(2, "x" * 500))
    assert error(text, max_line=50).startswith("f:6: sent_id a1: ID 7 where 1 should be")


def test_skipped_and_kept_sentences_are_recorded_in_order():
    bad = [sentence(word(i), sent_id=f"b{i}") for i in range(2, 9)]
    text = "".join(b + GOOD for b in bad)
    skipped = read(text, on_error="skip")
    assert written(skipped).decode() == GOOD * 7
    assert [str(fault).split(":")[1] for fault in skipped.faults] == [
        str(2 + 7 * k) for k in range(7)
    ]
    kept = read(text, on_error="keep")
    assert len(kept) == 7
    assert written(kept).decode() == text
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
