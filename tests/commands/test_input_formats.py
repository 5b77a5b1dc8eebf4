"""Inputs that are no CoNLL-U: files and standard input, encodings, faults, and what is told."""

import gzip
import io
import re
import subprocess
import sys
import warnings

import pytest

import gpuparse
from gpuparse.commands import parse
from gpuparse.data.conll import treebank_from_bytes
from gpuparse.data.formats import sources
from gpuparse.errors import ConfigError
from gpuparse.text.conllu import text_pieces
from tests.commands.conftest import ROOT, program, words_of


def column(text: bytes, number: int) -> list[str]:
    return [row[number - 1].decode() for row in words_of(text)]


def vertical(text: bytes) -> bytes:
    """The words of CoNLL-U, one a line."""
    rows = (line.split(b"\t") for line in text.split(b"\n") if not line.startswith(b"#"))
    return b"\n".join(row[1] if row[1:] else b"" for row in rows if row[0].isdigit() or not row[1:])


def test_lines_that_are_joined_are_told_with_the_option_that_keeps_them_apart(
    staged, call, tmp_path
):
    path, lines = tmp_path / "heads.txt", ["- the owl", "- the dogs", "- two men"]
    path.write_text("\n".join(lines))
    said = "3 lines that look like sentences or items of their own became 1 sentence; "
    code, out, err = call(parse.main, staged.model, path)
    assert (code, out.count(b"# sent_id")) == (0, 1)
    assert err.splitlines()[0] == (
        f"gpuparse: {path}: {said}--input lines makes each line a sentence"
    )
    code, out, err = call(parse.main, staged.model, path, "--input", "lines")
    assert (code, out.count(b"# sent_id"), said in err) == (0, 3, False)
    parser = gpuparse.load(staged.model)
    for found, told in (
        (lambda: parser.parse_text(path.read_text()), f"text: {said}give a list of the lines"),
        (lambda: parser.parse_text(["Hi.", path.read_text()]),
         re.escape(f"texts[1]: {said}give a text for each line")),
        (lambda: list(parser.stream(path)), f"heads.txt: {said}"),
        (lambda: parser.parse_text(str(path)),
         r"parses the words .*; stream\('.*heads.txt'\) parses that"),
    ):  # fmt: skip
        with pytest.warns(UserWarning, match=told):
            found()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(list(parser.stream(path, input="lines"))) == 3
        assert len(parser.parse_text(lines)) == 3


def test_lines_have_their_numbers_in_the_file(parsed, tmp_path):
    (tmp_path / "in.txt").write_text("\nOne.\n\n  \nThree.\nFour.\n")
    out = parsed(tmp_path / "in.txt", "--input", "lines").decode()
    assert re.findall("(?m)^# sent_id = (.+)", out) == ["2-1", "5-1", "6-1"]
    treebank = treebank_from_bytes(out.encode(), "-")
    assert "".join(text_pieces([treebank])) == (tmp_path / "in.txt").read_text()


def test_raw_text_gets_the_columns_of_its_words_and_comes_back(staged, parsed):
    out, of_words = parsed(staged.raw), parsed(staged.test)
    for number in range(1, 9):
        assert column(out, number) == column(of_words, number), number
    assert "".join(text_pieces([treebank_from_bytes(out, "-")])) == staged.raw.read_text()
    done = program("parse.py", staged.model, "--quiet", input=staged.raw.read_bytes())
    assert (done.returncode, done.stderr, done.stdout) == (0, b"", out)


@pytest.mark.parametrize("kind", ["text", "conllu"])
def test_children_forked_while_threads_parse_do_not_wait_for_them(staged, kind):
    file = staged.raw if kind == "text" else staged.test
    arguments = [sys.executable, "-m", "tests.forks", staged.model, file, kind, "8"]
    done = subprocess.run(arguments, cwd=ROOT, capture_output=True, text=True, timeout=500)
    assert done.stdout == "8\n", done.stderr


@pytest.mark.parametrize("kind", ["text", "vertical", "conllu"])
def test_progress_is_the_share_of_the_input_and_chunks_change_no_byte(
    staged, parsed, tmp_path, monkeypatch, kind
):
    text = staged.test.read_bytes()
    content = {"text": staged.raw.read_bytes(), "vertical": vertical(text), "conllu": text}[kind]
    (tmp_path / "input").write_bytes(content)
    expected = parsed(tmp_path / "input", "--input", kind)
    monkeypatch.setattr(sources, "TEXT_CHUNK", 500)
    monkeypatch.setattr(sources, "CONLLU_CHUNK", 500 if kind == "vertical" else 5000)
    shares = []
    monkeypatch.setattr(
        parse.Progress, "advance", lambda self, n, fraction=None, **more: shares.append(fraction)
    )
    assert parsed(tmp_path / "input", "--input", kind) == expected
    assert len(shares) > 3
    assert shares == sorted(shares)
    assert shares[0] < 0.5
    assert 0.9 < shares[-1] <= 1.0


LONG = "x" * 10_000
ODD = {  # the input, its format, and its words
    "no words": ("\ufeff \n\n\t", "text", []),
    "an empty file of words": ("", "vertical", []),
    "line ends": ("\n\n\n", "vertical", []),
    "no word has features": (".\n" * 50, "text", ["."] * 50),
    "underscores": (80 * "_ ", "text", ["_"] * 80),
    "strange words": (LONG + "\n漢字\n🙂\n\n", "vertical", [LONG, "漢字", "🙂"]),
    "a mark": ("\ufeffThe dogs sing.", "text", ["The", "dogs", "sing", "."]),
}


@pytest.mark.parametrize("name", ODD)
def test_odd_texts_are_parsed(staged, parsed, tmp_path, name):
    text, kind, words = ODD[name]
    (tmp_path / "in").write_text(text)
    out = parsed(tmp_path / "in", "--input", kind)
    assert column(out, 2) == words
    assert "SpacesBefore" not in out.decode()
    assert column(out, 7).count("0") >= bool(words)
    assert "_" not in column(out, 4)
    gpuparse.load(staged.model).parse_file(tmp_path / "in", tmp_path / "out", input=kind)
    assert (tmp_path / "out").read_bytes() == out


TEXT_TOLD = "the first line has no tab: read as raw text, as by --input text"


@pytest.mark.parametrize("begin", ["# a comment\n", "# a\n#b\n\n# c\n", "\n\n", "\ufeff"], ids=repr)
def test_columns_on_standard_input(staged, call, parsed, begin):
    code, out, err = call(parse.main, staged.model, stdin=begin.encode() + staged.words)
    assert (code, TEXT_TOLD in err) == (0, False)
    assert words_of(out) == words_of(parsed(staged.test))


@pytest.mark.parametrize(
    "text",
    ["\n  \nShe sings.\n", "\ufeffShe sings.\n", "#cats sing. #dogs too.\n",
     "# Cats\n\nThe dogs sing.\n", "#cats\n#dogs"],
    ids=repr,
)  # fmt: skip
def test_text_on_standard_input_is_known_by_its_first_line(staged, call, parsed, tmp_path, text):
    (tmp_path / "a.txt").write_text(text)
    code, out, err = call(parse.main, staged.model, stdin=text.encode())
    assert (code, out) == (0, parsed(tmp_path / "a.txt"))
    assert b"\t0\t" in out
    assert f"gpuparse: <stdin>: {TEXT_TOLD}" in err.splitlines()


ENCODINGS = {"utf-16": None, "utf-32": None, "utf-16-be": "UTF-16BE", "cp1252": "windows-1252"}


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_text_of_other_encodings(staged, parsed, tmp_path, encoding, monkeypatch):
    """UTF-16 and UTF-32 are known by their byte-order marks, others by their names."""
    monkeypatch.setattr(io, "DEFAULT_BUFFER_SIZE", 3)  # halves of characters
    text = "The Züge sing\u00a0\u2014 \u201cÖl\u201d.\r\n\r\nTwo men sang.\r\n"
    given = ENCODINGS[encoding]
    options = ["--encoding", given] if given else []
    (tmp_path / "a.txt").write_bytes(text.encode())
    (tmp_path / "b.txt").write_bytes(text.encode(encoding))
    (tmp_path / "c.txt.gz").write_bytes(gzip.compress(text.encode(encoding)))
    for more in ([], ["--input", "lines"], ["--input", "vertical"], ["--ranges"]):
        expected = parsed(tmp_path / "a.txt", *more)
        for name in ("b.txt", "c.txt.gz"):
            assert parsed(tmp_path / name, *options, *more) == expected
    done = program("parse.py", staged.model, "--ranges", *options, input=text.encode(encoding))
    assert (done.returncode, done.stdout) == (0, parsed(tmp_path / "a.txt", "--ranges"))
    parser = gpuparse.load(staged.model)
    found = "".join(s.to_conllu() for s in parser.stream(tmp_path / "b.txt", encoding=given))
    assert found == parsed(tmp_path / "a.txt").decode()
    with pytest.raises(ConfigError, match="encoding: is for a file, and not for sentences"):
        parser.stream([["Hi"]], encoding="cp1252")


OL, UTF16 = "Öl\n".encode("cp1252"), "1\tÖl".encode("utf-16")
IS_UTF16 = "the file is UTF-16; convert it to UTF-8 (iconv"
REFUSED = [  # name, content, options, exit code, and what is said
    ("a.txt", OL, "", 3, "a.txt:1: byte 0 of the text is not UTF-8; convert the text to UTF-8, or"
     " give --encoding with its encoding, such as cp1252"),
    ("a.txt", OL, "--encoding ascii", 3, "a.txt: byte 0 is not ascii; give --encoding with"),
    ("a.txt", OL, "--encoding klingon", 2, "--encoding: 'klingon' is no encoding of text"),
    ("a.txt", OL, "--encoding base64", 2, "--encoding: 'base64' is no encoding of text"),
    ("a.txt", OL, "--shard all/2 --output {out}/ --encoding cp1252", 2,
     "--shard reads UTF-8, without --encoding"),
    ("a.conllu", UTF16, "", 3, f"a.conllu:1: {IS_UTF16}"),
    ("b.conllu", "1\tÖl".encode("utf-16-be"), "", 3, f"b.conllu:1: {IS_UTF16}"),
    ("c.txt", "Öl".encode("utf-16-le"), "", 3, f"c.txt:1: {IS_UTF16}"),
    ("a.conllu", UTF16, "--encoding utf-16", 2, "a.conllu: --encoding is for text, lines,"),
    ("a.txt", b"G.\n\nBad \xff.\n", "", 3, "a.txt:3: byte 8 of the text is not UTF-8"),
    ("a.txt", b"G.\n\nB\0d.\n", "", 3, "a.txt:3: byte 5 of the text is NUL"),
    ("a.txt", b"G.\n", "--on-error keep", 2, "a.txt: malformed text cannot be passed through"),
    ("a", b"a\nb\xff\n", "--input vertical", 3, "a:2: the line is not UTF-8"),
    ("a", b"a\n\nb\0\n", "--input vertical", 3, "a:3: the line has NUL"),
    ("a", b"1\ta\tb\n", "--input vertical", 3, "a:1: the line has a tab"),
    ("-", b"She sings.\n", "--input conllu", 3,
     "<stdin>:1: 1 column instead of 10: this is not CoNLL-U"),
    ("-", b"She sings.\n", "--keep heads", 2, "<stdin>: text has no columns: --keep heads needs"),
    *[("-", b"She sings.\n", f"--input {kind} {option}{value}", 2,
       f"{kind} has no columns: {option} needs CoNLL-U or a table")
      for kind in ("text", "vertical")
      for option, value in (("--keep", " tags"), ("--keep heads", ""), ("--guide", " misc:Head"))],
    ("a.conllu", b"1\tShe" + 8 * b"\t_" + b"\n\n", "--ranges", 2, "--ranges"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "content", "words", "code", "said"), REFUSED, ids=[row[2] + row[4] for row in REFUSED]
)
def test_what_is_refused(staged, call, tmp_path, name, content, words, code, said):
    file = tmp_path / name if name != "-" else name
    if name != "-":
        file.write_bytes(content)
    words = [word.format(out=tmp_path / "out") for word in words.split()]
    if "--output" not in words:
        words += ["--output", f"{tmp_path}/out{'.conllu' if name == '-' else '/'}"]
    found, out, err = call(parse.main, staged.model, file, *words, stdin=content)
    assert (found, out, said in err) == (code, b"", True), err
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and path.name != name]


@pytest.mark.parametrize("bad", [b"Bad \xff.", b"B\0d."])
def test_faulty_paragraphs_can_be_left_out(staged, call, tmp_path, bad):
    (tmp_path / "a.txt").write_bytes(b"Good.\n\n" + bad + b"\n\nGood.\n")
    code, out, err = call(parse.main, staged.model, tmp_path / "a.txt", "--on-error", "skip")
    assert (code, column(out, 2)) == (1, ["Good", ".", "Good", "."])
    assert "a.txt:3: byte" in err


def test_comments_without_a_sentence_are_told(staged, call, tmp_path):
    """They are passed through, and a text that begins with # is no CoNLL-U."""
    (tmp_path / "tweets").write_text("#cats sing.\n")
    said = "has comments (#) and no sentences"
    for file, text in ((tmp_path / "tweets", b"#cats sing.\n"), ("-", b"# sent_id = 1\n# x\n\n")):
        code, out, err = call(parse.main, staged.model, file, stdin=text)
        assert (code, out) == (0, text)
        name = "<stdin>" if file == "-" else file
        assert err.splitlines()[0] == f"gpuparse: {name}: {said}; give --input text if it is text"
        assert call(parse.main, staged.model, file, "--quiet", stdin=text)[2] == ""
    with pytest.warns(UserWarning, match=rf"text: {re.escape(said)}$"):
        assert len(gpuparse.load(staged.model).parse("#\tcats\n")) == 0
