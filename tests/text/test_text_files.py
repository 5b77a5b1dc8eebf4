"""Raw text: read in chunks, written as CoNLL-U and brought back."""

import io
import itertools
import random
import re
import textwrap
from pathlib import Path

import numpy as np
import pytest

from gpuparse.__main__ import main
from gpuparse.data.conll import (
    MAX_LINE,
    read_treebank,
    stream_treebanks,
    treebank_from_bytes,
    treebank_of_scan,
)
from gpuparse.data.formats import paragraphs
from gpuparse.data.formats import text as reader
from gpuparse.data.formats.paragraphs import are_spaces, code_points, segments
from gpuparse.data.formats.text import line_hints, stream_text, text_chunk
from gpuparse.data.formats.vertical import stream_vertical
from gpuparse.data.scanner import Scanned, joined_scans, scan
from gpuparse.errors import DataError
from gpuparse.text.conllu import (
    TokenTable,
    surface_sentences,
    text_pieces,
    unescaped,
    with_raw_spaces,
    write_tokens,
)  # fmt: skip
from tests.oracles import tokens as oracle
from tests.strategies import some
from tests.text.raw_texts import random_text, random_tokens

DATA = Path(__file__).parents[3] / "shared" / "data"


class Typed(io.BytesIO):
    """A pipe into which lines are written with pauses."""

    def read(self, size=-1):
        return self.readline(size)


def test_paragraphs_and_lines_are_given_when_a_pipe_has_nothing_more():
    text = b"One\ntwo.\n\n\nThree \xff.\n\nFour\r\n \r\nFive"
    for of_lines, expected in (
        (False, [b"One\ntwo.\n\n", b"Four\r\n \r\n", b"Five"]),
        (True, [b"One\n", b"two.\n", b"Four\r\n", b" \r\nFive"]),
    ):
        chunks = list(stream_text(Typed(text), "t", on_error="skip", of_lines=of_lines))
        assert [chunk.data for chunk in chunks] == expected
        assert [chunk.faults for chunk in chunks if chunk.faults] != []
    assert [c.data for c in stream_text(io.BytesIO(text[:10]), "t")] == [text[:10]]


def text_of(conllu: bytes) -> str:
    return "".join(text_pieces([treebank_from_bytes(conllu, "t")]))


def concatenated(conllu: bytes) -> str:
    """Forms and the spaces of MISC, by the definition of SpaceAfter and SpacesAfter."""
    pieces = []
    for sentence in surface_sentences(treebank_from_bytes(conllu, "t")):
        for token in sentence.tokens:
            after = " " if token.after is None else token.after
            pieces.append(token.before + token.form + after)
    return "".join(pieces)


def written(text: np.ndarray, table: TokenTable) -> bytes:
    """CoNLL-U of tokens; what the writer says of it is what the scanner finds."""
    conllu, found = write_tokens(text, table)
    assert_scanned(conllu, found)
    return conllu


def assert_scanned(conllu: bytes, found: Scanned | None) -> None:
    expected = scan(conllu, MAX_LINE, stop_at_fault=True)
    assert found is not None
    for ours, its in zip(found, expected, strict=True):
        assert np.array_equal(ours, its)


def test_texts_that_are_joined_are_as_if_scanned_together():
    draw = random.Random(5)
    for _ in range(some(500)):
        parts = []
        for _ in range(draw.randrange(4)):
            data = random_text(draw).encode()
            parts.append(write_tokens(np.frombuffer(data, np.uint8), random_tokens(draw, data)))
        joined = joined_scans(parts)
        assert joined.text == b"".join(part.text for part in parts)
        assert_scanned(*joined)
        treebank = treebank_of_scan(joined, "t")
        expected = treebank_from_bytes(joined.text, "t")
        for name in ("data", "columns", "word_starts", "heads", "lines", "spans", "dropped"):
            assert np.array_equal(getattr(treebank, name), getattr(expected, name)), name
        assert (treebank.file_end, treebank.first_line) == (expected.file_end, 1)


def test_text_of_random_tokens_comes_back():
    draw = random.Random(1)
    for _ in range(some(10_000)):
        text = random_text(draw)
        data = text.encode()
        conllu = written(np.frombuffer(data, np.uint8), random_tokens(draw, data))
        expected = "" if all(are_spaces(code_points(data))) else text
        assert text_of(conllu) == expected
        assert concatenated(conllu) == expected


def test_no_line_ends_in_white_space():
    """Validators and libraries take it off."""
    for space in map(chr, paragraphs.SPACES):
        data = f"a{space}b{space}".encode()
        ends, one = np.array([1, 2 + len(space.encode())]), np.zeros(1, np.int64)
        table = TokenTable(
            ends - 1, ends, np.array([0, 2]), np.ones(1, np.uint8), one + 1, one + 1,
            np.zeros(3, np.int64), np.zeros(0, np.uint8), one, np.zeros((0, 2), np.int64), True,
            np.zeros(0, np.uint8),
        )  # fmt: skip
        conllu = written(np.frombuffer(data, np.uint8), table)
        assert text_of(conllu) == data.decode()
        rows = [line for line in conllu.decode().split("\n") if "\t" in line]
        assert len(rows) == 2
        assert [row.rstrip() for row in rows] == rows
        assert sum(map(len, map(str.splitlines, rows))) == 2
        raw = with_raw_spaces(conllu.decode())
        assert text_of(raw.encode()) == data.decode()
        assert ("\\u" in raw) is False


def test_tokens_are_written_as_in_plain_python():
    draw = random.Random(2)
    for _ in range(500):
        data = np.frombuffer(random_text(draw).encode(), np.uint8)
        table = random_tokens(draw, data.tobytes())
        assert written(data, table) == oracle.write_tokens(data, table)


def test_what_is_written():
    text = np.frombuffer(b"\tDu bist\xc2\xa0da.\r\nJa ", np.uint8)
    table = random_tokens(random.Random(), b"")._replace(
        starts=np.array([1, 4, 10, 12, 15]), ends=np.array([3, 8, 12, 13, 17]),
        sentence_starts=np.array([0, 4, 5]), begins=np.array([2, 0], np.uint8),
        segments=np.array([1, 1]), numbers=np.array([1, 2]),
        word_starts=np.array([0, 2, 2, 2, 2, 2]), words=np.frombuffer(b"Dere", np.uint8),
        word_ends=np.array([0, 2, 4]),
        characters=np.array([[1, 3], [4, 8], [9, 11], [11, 12], [14, 16]]),
        document=np.zeros(0, np.uint8),
    )  # fmt: skip
    rest = "\t_\t_\t_\t_\t_\t_\t_\t"
    assert written(text, table).decode() == (
        "# newdoc\n# newpar\n# sent_id = 1-1\n# text = Du bist da.\n"
        f"1-2\tDu{rest}SpacesBefore=\\t|TokenRange=1:3\n"
        f"1\tDe{rest}_\n2\tre{rest}_\n"
        f"3\tbist{rest}SpacesAfter=\\u00A0|TokenRange=4:8\n"
        f"4\tda{rest}SpaceAfter=No|TokenRange=9:11\n"
        f"5\t.{rest}SpacesAfter=\\r\\n|TokenRange=11:12\n\n"
        "# sent_id = 1-2\n# text = Ja\n"
        f"1\tJa{rest}SpacesAfter=\\s|TokenRange=14:16\n\n"
    )


def test_escapes():
    assert unescaped("\\s\\t\\r\\n\\p\\\\\u00a0\u2028") == " \t\r\n|\\\u00a0\u2028"
    assert unescaped("\\u00A0\\x\\") == "\u00a0\\x\\"


@pytest.mark.parametrize("field", ["starts", "ends", "sentence_starts", "word_starts", "word_ends"])
def test_tokens_that_do_not_fit_are_refused(field):
    data = b"one two three"
    table = random_tokens(random.Random(3), data)
    wrong = getattr(table, field).copy()
    wrong[-1] += 1000
    with pytest.raises(ValueError, match="write_tokens"):
        write_tokens(np.frombuffer(data, np.uint8), table._replace(**{field: wrong}))


def rows(*tokens, comments=""):
    return comments + "".join(
        f"{number}\t{form}" + "\t_" * 7 + f"\t{misc}\n" for number, form, misc in tokens
    )


def test_text_of_a_treebank():
    conllu = (
        rows((1, "a", "SpaceAfter=No"), (2, ".", "_"), comments="# newdoc id = d\n# newpar\n")
        + "\n"
        + rows(("1-2", "du", "_"), (1, "de", "SpaceAfter=No"), (2, "le", "X=1|SpaceAfter=No"))
        + "\n"
        + rows((1, "10 000", "SpacesInToken=10\\s\\s000"), ("1.1", "e", "_"), comments="# newpar\n")
        + "\n" + rows((1, "b", "SpacesAfter=\\n"), comments="# newpar = x\n") + "\n"
        + rows((1, "c", "SpacesAfter=\\s\\n\\n"), comments="# newdoc\n") + "\n"
        + rows((1, "d", "_"), comments="# newpar\n") + "\n"
    )  # fmt: skip
    assert text_of(conllu.encode()) == "a. du\n\n10  000\n\nb\n\n\nc \n\nd\n"
    chunks = stream_treebanks(io.BytesIO(conllu.encode()), "t", chunk_bytes=10)
    assert "".join(text_pieces(chunks)) == text_of(conllu.encode())


def test_spaces_of_text_where_misc_has_none():
    conllu = rows((1, "a", "_"), (2, ",", "_"), (3, "b", "_"), comments="# text = a, b\n") + "\n"
    assert text_of(conllu.encode()) == "a, b\n"
    other = conllu.replace("# text = a, b", "# text = a, c")
    assert text_of(other.encode()) == "a , b\n"


@pytest.mark.parametrize(
    "name",
    ["english-ewt/en_ewt-ud-dev", "french-sequoia/dev", "chinese-small/train", "danish-ddt/test"],
)
def test_text_comment_of_treebanks_is_their_text(name):
    path = DATA / f"{name}.conllu"
    if not path.is_file():
        pytest.skip("needs the treebank")
    for sentence in surface_sentences(read_treebank(path)):
        text = "".join(t.text + (" " if t.after is None else t.after) for t in sentence.tokens)
        assert " ".join(text.split()) == " ".join(sentence.text.split())


def read_all(text: bytes, chunk_bytes: int, on_error="fail"):
    """Segments as (line, byte, character, number, is paragraph, bytes) and the faults."""
    found, faults = [], []
    for chunk in stream_text(io.BytesIO(text), "t", chunk_bytes=chunk_bytes, on_error=on_error):
        faults += map(str, chunk.faults)
        codes = code_points(chunk.data)
        starts, begins = segments(codes, are_spaces(codes))
        for k, start in enumerate(starts.tolist()):
            before = codes[:start].tobytes().decode("utf-32-le").encode()
            end = starts[k + 1] if k + 1 < len(starts) else len(codes)
            is_paragraph = bool(begins[k]) if k else chunk.begins_paragraph
            found.append((
                chunk.line + before.count(b"\n"), chunk.byte + len(before),
                chunk.character + start, int(chunk.numbers[k]), is_paragraph,
                k == 0 and chunk.begins_document,
                codes[start:end].tobytes().decode("utf-32-le").encode(),
            ))  # fmt: skip
    return found, faults


MANY = f"[{''.join(map(chr, paragraphs.SPACES))}]{{6,}}"
FAULTS = b"\0", b"\xff", b"\xe2\x80", b" " * 7, b"\n" * 6, b"\r" * 8 + b"\xc2\xa0"


@pytest.mark.parametrize("on_error", ["fail", "skip"])
def test_segments_do_not_depend_on_chunks(on_error, monkeypatch):
    monkeypatch.setattr(paragraphs, "PIECE", 16)
    monkeypatch.setattr(reader, "MAX_SPACES", 5)
    draw = random.Random(4)
    for _ in range(some(500)):
        text = random_text(draw, 200).encode()
        if on_error == "skip":
            for _ in range(draw.randrange(4)):
                at = draw.randrange(len(text) + 1)
                text = text[:at] + draw.choice(FAULTS) + text[at:]
        else:
            text = re.sub(MANY, " ", text.decode()).encode()
        whole, faults = read_all(text, 1 << 20, on_error)
        for size in (1, 2, 7, 30):
            assert read_all(text, size, on_error) == (whole, faults)
        if on_error == "fail":
            assert b"".join(segment[-1] for segment in whole) == text
        for *_, segment in whole:
            assert len(segment.decode().strip("".join(map(chr, paragraphs.SPACES)))) <= 16
        for line, byte, *_, segment in whole:
            assert text[byte : byte + len(segment)] == segment
            assert line == text[:byte].count(b"\n") + 1


def test_lines_are_numbered_as_in_the_file(monkeypatch):
    """Empty lines are counted, in chunks of any size, after faults too."""
    monkeypatch.setattr(reader, "MAX_SPACES", 9)
    end, draw = re.compile("\r\n|[\n\r\x85\u2028\u2029]"), random.Random(11)
    spaces = "".join(map(chr, paragraphs.SPACES))
    for _ in range(some(300)):
        text = "".join(
            draw.choice(("a", "b c", " ", "\n", "\n", "\r\n", "\r", "\u2028", "\u2029", "\x85"))
            for _ in range(draw.randrange(40))
        )
        text = re.sub(f"[{spaces}]{{9,}}", "\n", text).replace("\r\n", "\n")
        lines = enumerate(end.split(text), 1)
        expected = [number for number, line in lines if line.strip(spaces)]
        at = draw.randrange(len(text) + 1)
        faulty = text[:at].encode() + b"\xff" + text[at:].encode()
        first = len(end.findall(text[:at])) + 1  # from the fault to the next line feed or return
        left_out = range(first, first + 1 + len(end.findall(re.split("[\r\n]", text[at:])[0])))
        for size in (1, 3, 1 << 20):
            chunks = stream_text(io.BytesIO(text.encode()), "t", chunk_bytes=size, of_lines=True)
            assert [n for chunk in chunks for n in chunk.numbers.tolist()][: len(expected)] == (
                expected
            )
            chunks = stream_text(
                io.BytesIO(faulty), "t", chunk_bytes=size, of_lines=True, on_error="skip"
            )
            numbers = [n for c in chunks if not c.spaces.all() for n in c.numbers.tolist()]
            assert numbers == [n for n in expected if n not in left_out]
        now = stream_text(Typed(text.encode()), "t", of_lines=True)
        if not re.search("[\r\x85\u2028\u2029]", text):
            numbers = [n for c in now if not c.spaces.all() for n in c.numbers.tolist()]
            assert numbers == expected


HEADLINES = "Storm hits coast", "President visits Berlin", "Markets rally after cut"
PROSE = "When the men sang in the Alps of Tyrol\nTwo of them fell. The others\nwent on to Italy."


@pytest.mark.parametrize(
    ("text", "n_lines"),
    [
        ("\n".join(HEADLINES), 3),
        ("\r\n".join(HEADLINES) + "\r\n\r\n", 3),
        ("- one thing\n- another\n- and this", 3),
        ("1 kg flour\n2 eggs\n100 g butter", 3),
        ("\u201cNo news\u201d\n\u00bfQu\u00e9 pasa\nSt\u00fcrme", 3),
        ("\u2022 \u9762\u7c89\n\u2022 \u9e21\u86cb\n\u2022 \u725b\u5976", 3),
        ("\u9762\u7c89\u4e00\n\u9e21\u86cb\u4e8c\n\u725b\u5976\u4e09", 0),
        ("\n".join(f"{line}." for line in HEADLINES), 0),
        ("\n\n".join(HEADLINES), 0),
        ("\n".join(HEADLINES[:2]), 0),
        (PROSE, 0),
        (PROSE.replace("\n", " ") + "\n\n- one thing\n- another", 0),
        ("", 0),
    ],
)
def test_lines_that_look_like_sentences_are_counted(text, n_lines):
    assert paragraphs.lines_of_their_own(text) == n_lines
    assert len(line_hints(text.encode(), 1, "do it")) == (n_lines > 0)
    assert line_hints(text.encode(), len(HEADLINES), "do it") == []


@pytest.mark.parametrize("name", ["english-ewt", "french-sequoia", "danish-ddt", "chinese-small"])
def test_wrapped_prose_does_not_look_like_a_list(name):
    """Real sentences, wrapped; and those without an end mark, a line each."""
    paths = sorted((DATA / name).glob("*train*.conllu"))
    if not paths:
        pytest.skip("needs the treebank")
    found = re.findall("(?m)^# text = (.+)", paths[0].read_text(encoding="utf-8"))
    draw, n_found, n_drawn = random.Random(12), 0, 500
    for _ in range(n_drawn):
        first = draw.randrange(len(found) - 30)
        prose = " ".join(found[first : first + draw.choice((2, 3, 5, 10, 30))])
        wrapped = textwrap.fill(prose, draw.choice((60, 72, 80)))
        n_found += paragraphs.lines_of_their_own(wrapped) > 0
    assert n_found <= 0.01 * n_drawn
    items = [text for text in found if text[-1].isalnum() and len(text) < 100]
    if len(items) > 100:
        lists = ["\n".join(draw.sample(items, 10)) for _ in range(100)]
        assert sum(paragraphs.lines_of_their_own(each) > 0 for each in lists) > 80


def test_a_long_paragraph_is_cut_after_a_sentence(monkeypatch):
    monkeypatch.setattr(paragraphs, "PIECE", 20)
    codes = code_points(b"This is one. And (one!) more of it.\n\nx")
    starts, begins = segments(codes, are_spaces(codes))
    assert starts.tolist() == [0, 13, 24, 37]
    assert begins.tolist() == [True, False, False, True]


def test_faults_of_text():
    with pytest.raises(DataError, match=r"^t:2: byte 3 of the text is not UTF-8; convert"):
        list(stream_text(io.BytesIO(b"ab\n\xff\n"), "t"))
    with pytest.raises(DataError, match=r"^t:2: byte 3 of the text is NUL"):
        text_chunk(b"ab\n\0\n\xff", "t")
    with pytest.raises(DataError, match=r"^t:1: byte 2 of the text is not UTF-8"):
        list(stream_text(io.BytesIO(b"ab\xe2\x80"), "t", chunk_bytes=1))
    with pytest.raises(DataError, match=r"^t:2: more than 100,000 spaces .* from byte 5 "):
        list(stream_text(io.BytesIO(b"ab\nab" + b"\n" * 100_001 + b"c"), "t"))


def test_a_long_paragraph_without_spaces_is_cut_after_a_sentence(monkeypatch):
    monkeypatch.setattr(paragraphs, "PIECE", 20)
    expected = [
        "我们。在学校里喜欢的学生老师。」",
        "他说我喜欢学习我喜欢学习。",
        "我" * 20,
        "我" * 2,
    ]
    text = "".join(expected)
    starts, _ = segments(codes := code_points(text.encode()), are_spaces(codes))
    assert [text[a:b] for a, b in itertools.pairwise([*starts.tolist(), len(text)])] == expected


@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
def test_a_faulty_paragraph_is_left_out(line_end):
    for fault in (b"\xff", b"\0", b" " * 100_001, line_end.encode() * 100_001):
        text = f"One{line_end * 2}Two @ two{line_end} \t{line_end} {line_end}Three".encode()
        found, faults = read_all(text.replace(b"@", fault), 64, "skip")
        assert [segment[-1].split() for segment in found if segment[-1]][:1] == [[b"One"]]
        assert [segment[-1] for segment in found][-1] == b"Three"
    for fault in (b"\xff", b"\0"):  # the paragraph before one that begins with a fault stays
        text = f"One{line_end * 2}@Two{line_end * 2}Three".encode()
        for size in (1, 64):
            found, _ = read_all(text.replace(b"@", fault), size, "skip")
            assert [segment[-1].strip() for segment in found] == [b"One", b"Three"]
        assert len(faults) == 1
        assert len(found) == 2 + (b"\r" in fault or b"\n" in fault)  # `two` is a paragraph then


@pytest.mark.parametrize("on_error", ["fail", "skip"])
def test_a_byte_order_mark_is_no_text(on_error):
    mark = "\ufeff".encode()
    for text in (b"", b"\n\n\nOne. Two.\n\nThree \xef\xbb\xbf", b"a"):
        plain, _ = read_all(text, 100, on_error)
        for size in (1, 3, 100):
            found, faults = read_all(mark + text, size, on_error)
            assert not faults
            assert found == [(a, b + 3, c + 1, *rest) for a, b, c, *rest in plain]
        lines = [chunk.data for chunk in stream_text(Typed(mark + text), "t")]
        assert lines == [chunk.data for chunk in stream_text(Typed(text), "t")]
    with pytest.raises(DataError, match=r"^t:1: byte 4 of the text is not UTF-8"):
        list(stream_text(io.BytesIO(mark + b"a\xff"), "t"))


def test_an_empty_text_has_no_chunks():
    assert list(stream_text(io.BytesIO(b""), "t")) == []


def test_vertical():
    text = b"\xef\xbb\xbfOne\r\n word \n\n\n\nNew York\n\n."
    wanted = "1\tOne", "2\tword", "", "1\tNew York", "", "1\t.", ""
    expected = "".join(line + ("\t_" * 8 if line else "") + "\n" for line in wanted).encode()
    for size in (1, 3, 100):
        pieces = list(stream_vertical(io.BytesIO(text), "t", chunk_bytes=size))
        assert b"".join(pieces) == expected
        assert all(piece.endswith(b"\n\n") for piece in pieces), "a sentence is cut"
    assert treebank_from_bytes(expected, "t").n_words == 4
    assert list(stream_vertical(io.BytesIO(b""), "t")) == []
    assert b"".join(stream_vertical(io.BytesIO(b"BZh\n"), "t"))  # a word, and not bzip2


@pytest.mark.parametrize(
    ("line", "fault"), [(b"\xff", "UTF-8"), (b"a\tb", "tab"), (b"a\0", "NUL"), (b"a\rb", "NUL")]
)
def test_faults_of_vertical(line, fault):
    with pytest.raises(DataError, match=f"^t:2: the line .*{fault}"):
        list(stream_vertical(io.BytesIO(b"a\n" + line + b"\n"), "t", chunk_bytes=2))


def test_a_vertical_line_without_end_is_refused():
    with pytest.raises(DataError, match=r"^t:2: the line has more than"):
        list(stream_vertical(io.BytesIO(b"a\n" + b"b" * (3 << 20)), "t"))


def test_command(tmp_path, capfdbinary):
    path = tmp_path / "t.conllu"
    path.write_text(rows((1, "a", "SpaceAfter=No"), (2, ".", "_")) + "\n")
    assert main(["text", str(path)]) == 0
    assert capfdbinary.readouterr().out == b"a.\n"
    assert main(["text", str(path), "--output", str(tmp_path / "t.txt")]) == 0
    assert (tmp_path / "t.txt").read_bytes() == b"a.\n"
    with pytest.raises(DataError, match="cannot be read"):
        main(["text", str(tmp_path / "none")])
