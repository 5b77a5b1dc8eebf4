"""Models with stages before the parser: training, parsing and the commands that read them."""

import gzip
import io
import json
import pickle
import re
import shutil
import subprocess
import sys
import warnings
from collections import Counter
from functools import partial
from itertools import pairwise
from types import SimpleNamespace

import pyarrow
import pytest
from pyarrow import parquet

import gpuparse
from gpuparse.api.workers import WorkerParser
from gpuparse.commands import crossval, explain, jackknife, parse, report, train
from gpuparse.commands.console import run
from gpuparse.data.conll import read_treebank, stream_treebanks, treebank_from_bytes
from gpuparse.data.formats import sources, table_files
from gpuparse.data.formats.objects import FIELDS
from gpuparse.data.formats.sources import TableSource
from gpuparse.data.formats.vertical import stream_vertical
from gpuparse.data.tag_columns import read_column
from gpuparse.errors import ConfigError, DataError
from gpuparse.evaluation.reports import WORD_MEASURES
from gpuparse.evaluation.words import score_words
from gpuparse.model.folder import WEIGHTS
from gpuparse.model.pipeline import FILES, load_stages, stages_of
from gpuparse.text.conllu import text_pieces
from tests.commands.conftest import ROOT, program
from tests.synthetic import generate, treebank_file

CONFIG = """
output: {folder}/model
features: mcdonald-2005
decoder: chu_liu_edmonds
threads: 1
device: cpu
data: {{train: {folder}/train.conllu, dev: {dev}, test: {folder}/test.conllu}}
feature_map: {{rows: 65537}}
tokenizer: {{learn: true}}
tagger: {{learn: true, folds: 3}}
lemmatizer: {{learn: true}}
learning: {{epochs: 3, cost_augmented: true}}
labels: {{rows: 16384, epochs: 2}}
"""
_TAGS = (2, 3, 4, 5)  # LEMMA, UPOS, XPOS, FEATS


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> SimpleNamespace:
    """A model with all stages, trained by the command; what training said."""
    folder = tmp_path_factory.mktemp("pipeline")
    config = folder / "run.yaml"
    config.write_text(CONFIG.format(folder=folder, dev=treebank_file(60, 2)))
    (folder / "train.conllu").write_bytes(generate(300, 1))
    (folder / "test.conllu").write_bytes(generate(60, 3))
    done = program("train.py", config)
    assert done.returncode == 0, done.stderr.decode()
    test = folder / "test.conllu"
    return SimpleNamespace(
        folder=folder, config=config, model=folder / "model", test=test, err=done.stderr.decode(),
        out=done.stdout.decode(),
        words=without(test.read_bytes(), (2, 3, 4, 5, 6, 7, 8)),
    )  # fmt: skip


def without(text: bytes, columns: tuple[int, ...]) -> bytes:
    """CoNLL-U with `_` in some columns of its rows."""
    lines = []
    for line in text.decode().split("\n"):
        row = line.split("\t")
        if len(row) == 10:
            row = ["_" if c in columns else value for c, value in enumerate(row)]
        lines.append("\t".join(row))
    return "\n".join(lines).encode()


def vertical(text: bytes) -> bytes:
    """The words of CoNLL-U, one a line."""
    rows = (line.split("\t") for line in text.decode().split("\n") if not line.startswith("#"))
    words = (row[1] if len(row) > 1 else "" for row in rows if row[0].isdigit() or len(row) < 2)
    return "\n".join(words).encode()


def column(text: bytes, number: int) -> list[str]:
    return read_column(treebank_from_bytes(text, "-"), number).texts()


@pytest.fixture
def command(capfdbinary, monkeypatch):
    """Run a command in this process; (exit code, stdout, stderr)."""
    monkeypatch.chdir(ROOT)

    def call(main, *words):
        code = run(main, [str(word) for word in words])
        sys.stdout.flush()
        captured = capfdbinary.readouterr()
        return code, captured.out, captured.err.decode()

    return call


@pytest.fixture
def parsed(command, made):
    """The output of `parse` for a file; no error is expected."""

    def call(file, *words):
        code, out, err = command(parse.main, made.model, file, "--quiet", *words)
        assert (code, err) == (0, "")
        return out

    return call


def test_words_alone_are_tagged_and_parsed(made, parsed, tmp_path):
    (tmp_path / "words.conllu").write_bytes(made.words)
    out = parsed(tmp_path / "words.conllu")
    gold = made.test.read_bytes()
    # Nothing but the columns of the stages is other than in the input.
    assert without(out, (*_TAGS, 6, 7)) == made.words
    for number in _TAGS:
        mine, right = column(out, number), column(gold, number)
        assert sum(map(str.__eq__, mine, right)) > 0.9 * len(right), number
    heads = treebank_from_bytes(out, "-").heads
    assert (heads == treebank_from_bytes(gold, "-").heads).mean() > 0.8
    # The tags of the input have no influence, and so have none that are missing.
    assert without(parsed(made.test), (8,)) == out


def test_words_that_are_all_underscores_are_refused_unless_a_text_has_them(
    made, command, parsed, tmp_path
):
    (tmp_path / "words.conllu").write_bytes(without(made.words, (1,)))
    code, _, err = command(parse.main, made.model, tmp_path / "words.conllu")
    assert (code, "FORM (column 2) is _ in all of" in err) == (3, True)
    (tmp_path / "blanks.txt").write_text(80 * "_ ")
    assert column(parsed(tmp_path / "blanks.txt"), 1) == ["_"] * 80


def test_lines_that_are_joined_are_told_with_the_option_that_keeps_them_apart(
    made, command, tmp_path
):
    path, lines = tmp_path / "heads.txt", ["- the owl", "- the dogs", "- two men"]
    path.write_text("\n".join(lines))
    said = "3 lines that look like sentences or items of their own became 1 sentence; "
    code, out, err = command(parse.main, made.model, path)
    assert (code, out.count(b"# sent_id")) == (0, 1)
    assert err.splitlines()[0] == (
        f"gpuparse: {path}: {said}--input lines makes each line a sentence"
    )
    code, out, err = command(parse.main, made.model, path, "--input", "lines")
    assert (code, out.count(b"# sent_id"), said in err) == (0, 3, False)
    parser = gpuparse.load(made.model)
    with pytest.warns(UserWarning, match=f"text: {said}give a list of the lines"):
        parser.parse_text(path.read_text())
    with pytest.warns(UserWarning, match=re.escape(f"texts[1]: {said}give a text for each line")):
        parser.parse_text(["Hi.", path.read_text()])
    with pytest.warns(UserWarning, match=f"heads.txt: {said}"):
        assert len(list(parser.stream(path))) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(list(parser.stream(path, input="lines"))) == 3
        assert len(parser.parse_text(lines)) == 3


def test_lines_have_their_numbers_in_the_file(made, parsed, tmp_path):
    (tmp_path / "in.txt").write_text("\nOne.\n\n  \nThree.\nFour.\n")
    out = parsed(tmp_path / "in.txt", "--input", "lines").decode()
    assert re.findall("(?m)^# sent_id = (.+)", out) == ["2-1", "5-1", "6-1"]
    treebank = treebank_from_bytes(out.encode(), "-")
    assert "".join(text_pieces([treebank])) == (tmp_path / "in.txt").read_text()


def test_the_scores_of_training_are_those_of_words_alone(made, parsed, tmp_path):
    (tmp_path / "words.conllu").write_bytes(made.words)
    (tmp_path / "out.conllu").write_bytes(parsed(tmp_path / "words.conllu"))
    gold, system = read_treebank(str(made.test)), read_treebank(str(tmp_path / "out.conllu"))
    recorded = json.loads((made.model / "scores.json").read_text())["test"]
    assert recorded["uas"]["correct"] == (gold.heads == system.heads).sum()
    for number, name in enumerate(("Lemmas", "UPOS", "XPOS", "UFeats"), 2):
        pairs = zip(*(read_column(each, number).texts() for each in (gold, system)), strict=True)
        right = [mine == theirs for mine, theirs in pairs]
        assert recorded[name] == pytest.approx(100 * sum(right) / len(right)), name


def test_the_scores_from_raw_text_are_those_of_evaluate(made, parsed, tmp_path):
    gold = read_treebank(str(made.test))
    (tmp_path / "raw.txt").write_text("".join(text_pieces([gold])))
    (tmp_path / "out.conllu").write_bytes(parsed(tmp_path / "raw.txt"))
    hits = score_words(gold, read_treebank(str(tmp_path / "out.conllu")))
    recorded = json.loads((made.model / "scores.json").read_text())["from_text"]
    assert set(recorded) == {"dev", "test"}
    assert list(recorded["test"]) == [title for title, _ in WORD_MEASURES]
    assert recorded["test"] == {title: hits[name].counts.f for title, name in WORD_MEASURES}
    table = program("-m", "gpuparse", "evaluate", made.test, tmp_path / "out.conllu")
    shown, written = table.stdout.decode(), made.out.partition("from raw text\n")[2].splitlines()
    # Where all tokens are right, heads are scored as those of given words.
    rows = (shown.partition("tags and lemmas, all words\n")[2] or shown).splitlines()
    assert len(rows) >= 9
    assert [row for row in rows if row not in written] == []
    for name, scores in recorded.items():
        shown = f", LAS {scores['LAS']:.2f}, "
        said = next(line for line in made.err.splitlines() if f"{name}, from raw text" in line)
        assert shown in said


def test_the_log_of_a_run_is_short(made):
    """Each stage, or network, that is learned has a line."""
    lines = [line.removeprefix("gpuparse: ") for line in made.err.splitlines()]
    assert len(lines) < 25
    stages = ["tokeniser", "tagger", "lemmatiser", "tags of data.train", "arcs", "labels"]
    begun = [line.split(":")[0].split(",")[0] for line in lines]
    assert [name for name in begun if name in stages] == stages


def test_vertical_text_gives_the_same_trees(made, parsed, tmp_path):
    (tmp_path / "words.txt").write_bytes(vertical(made.test.read_bytes()))
    out = parsed(tmp_path / "words.txt", "--input", "vertical")
    of_rows = parsed(made.test)
    for number in (1, *_TAGS, 6, 7):
        assert column(out, number) == column(of_rows, number), number


@pytest.fixture(scope="module")
def raw(made):
    """The test treebank as raw text, a sentence a paragraph."""
    comments = (line for line in made.test.read_text().split("\n") if line.startswith("# text = "))
    path = made.folder / "raw.txt"
    path.write_text("\n\n".join(line.removeprefix("# text = ") for line in comments) + "\n")
    return path


def test_raw_text_gives_the_trees_of_its_words(made, parsed, raw):
    assert stages_of(made.model) == ["tokenizer", "tagger", "lemmatizer", "parser"]
    out, of_words = parsed(raw), parsed(made.test)
    for number in (1, *_TAGS, 6, 7):
        assert column(out, number) == column(of_words, number), number
    assert parsed(raw, "--threads", "3") == out
    done = program("parse.py", made.model, "--input", "text", "--quiet", input=raw.read_bytes())
    assert (done.returncode, done.stderr, done.stdout) == (0, b"", out)
    text = "".join(text_pieces([treebank_from_bytes(out, "-")]))
    assert text == raw.read_text()


def test_text_of_several_chunks(made, parsed, raw, tmp_path, monkeypatch):
    expected = parsed(raw)
    monkeypatch.setattr(sources, "TEXT_CHUNK", 100)
    assert parsed(raw) == expected


def test_raw_text_in_python(made, parsed, raw):
    parser = gpuparse.load(made.model)
    found = parser.parse_text(raw.read_text())
    assert found.to_conllu().encode() == parsed(raw)
    assert found[0].probabilities is None
    assert parser.parse_text("She sings.", probabilities=True)[0].probabilities
    assert len(parser.parse_text(" \n")) == 0
    with pytest.raises(DataError, match="NUL"):
        parser.parse_text("a\0b")
    with pytest.warns(UserWarning, match=r"parses the words .*; stream\('.*raw.txt'\) parses that"):
        parser.parse_text(str(raw))
    with pytest.raises(DataError, match="an unpaired surrogate at 1"):
        parser.parse_text("a\ud800")
    with pytest.raises(DataError, match="takes a str or a list of str, and not int"):
        parser.parse_text(3)


@pytest.mark.parametrize("kind", ["text", "conllu"])
def test_children_forked_while_threads_parse_do_not_wait_for_them(made, raw, tmp_path, kind):
    file = tmp_path / "input"
    file.write_bytes(raw.read_bytes() if kind == "text" else made.test.read_bytes())
    arguments = [sys.executable, "-m", "tests.forks", made.model, file, kind, "8"]
    done = subprocess.run(arguments, cwd=ROOT, capture_output=True, text=True, timeout=500)
    assert done.stdout == "8\n", done.stderr


def test_a_parser_of_python_without_a_tokeniser_takes_no_text(trained):
    with pytest.raises(ConfigError, match="has no tokeniser"):
        gpuparse.load(trained.model).parse_text("She sings.")


@pytest.mark.parametrize(
    ("content", "said"),
    [(b"Good.\n\nBad \xff.\n\nGood.\n", "not UTF-8"), (b"Good.\n\nB\0d.\n\nGood.\n", "NUL")],
    ids=["encoding", "NUL"],
)
def test_faults_of_text(made, command, tmp_path, content, said):
    (tmp_path / "a.txt").write_bytes(content)
    code, out, err = command(parse.main, made.model, tmp_path / "a.txt", "--quiet")
    assert code == 3
    assert "a.txt:3: byte" in err
    assert said in err
    code, out, err = command(parse.main, made.model, tmp_path / "a.txt", "--on-error", "skip")
    assert code == 1
    assert column(out, 1) == ["Good", ".", "Good", "."]
    assert "a.txt:3: byte" in err
    with pytest.raises(ConfigError, match=r"a\.txt: malformed text cannot be passed through"):
        parse.main([str(made.model), str(tmp_path / "a.txt"), "--on-error", "keep"])


def test_text_in_which_no_word_has_features_is_parsed(made, parsed, tmp_path):
    (tmp_path / "a.txt").write_text(".\n" * 50)
    out = parsed(tmp_path / "a.txt")
    assert set(column(out, 5)) == {"_"}
    assert set(column(out, 6)) != {"_"}
    found = gpuparse.load(made.model).parse_text(".\n" * 50)
    assert found.to_conllu().encode() == out


@pytest.mark.parametrize("kind", ["text", "vertical", "conllu"])
def test_progress_is_the_share_of_the_input(made, raw, tmp_path, monkeypatch, kind):
    monkeypatch.setattr(sources, "TEXT_CHUNK", 500)
    monkeypatch.setattr(sources, "stream_vertical", partial(stream_vertical, chunk_bytes=500))
    monkeypatch.setattr(sources, "stream_treebanks", partial(stream_treebanks, chunk_bytes=5000))
    text = made.test.read_bytes()
    content = {"text": raw.read_bytes(), "vertical": vertical(text), "conllu": text}[kind]
    (tmp_path / "input").write_bytes(content)
    shares = []
    monkeypatch.setattr(
        parse.Progress, "advance", lambda self, n, fraction=None, **more: shares.append(fraction)
    )
    options = ["--input", kind, "--output", f"{tmp_path}/out/"]
    assert parse.main([str(made.model), str(tmp_path / "input"), *options]) == 0
    assert len(shares) > 3
    assert shares == sorted(shares)
    assert shares[0] < 0.5
    assert 0.9 < shares[-1] <= 1.0


def test_a_text_without_words_gives_nothing(parsed, tmp_path):
    (tmp_path / "a.txt").write_bytes(b"\xef\xbb\xbf \n\n\t")
    assert parsed(tmp_path / "a.txt") == b""


def test_a_byte_order_mark_is_no_part_of_a_file(made, raw, parsed, tmp_path):
    (tmp_path / "marked.txt").write_bytes(b"\xef\xbb\xbf" + raw.read_bytes())
    expected = parsed(raw)
    assert b"SpacesBefore" not in expected
    assert parsed(tmp_path / "marked.txt") == expected
    gpuparse.load(made.model).parse_file(tmp_path / "marked.txt", tmp_path / "out.conllu")
    assert (tmp_path / "out.conllu").read_bytes() == expected


def test_standard_input(made, parsed):
    words = vertical(made.test.read_bytes())
    done = program("parse.py", made.model, "--input", "vertical", "--quiet", input=words)
    assert (done.returncode, done.stderr) == (0, b"")
    assert column(done.stdout, 7) == column(parsed(made.test), 7)


@pytest.mark.parametrize("begin", ["\n  \n", "\ufeff"])
def test_raw_text_on_standard_input(made, raw, parsed, tmp_path, begin):
    """It has no suffix: the first line says what it is."""
    text = begin.encode() + raw.read_bytes()
    (tmp_path / "a.txt").write_bytes(text)
    done = program("parse.py", made.model, input=text)
    assert (done.returncode, done.stdout) == (0, parsed(tmp_path / "a.txt"))
    assert done.stdout.count(b"\n\n") > 10
    assert done.stderr.splitlines()[0] == (
        b"gpuparse: <stdin>: the first line has no tab: read as raw text, as by --input text"
    )


@pytest.mark.parametrize(
    "text", ["#cats sing. #dogs too.\n", "# Cats\n\nThe dogs sing.\n", "#cats\n#dogs"]
)
def test_text_that_begins_as_a_comment_does(made, parsed, tmp_path, text):
    (tmp_path / "a.txt").write_text(text)
    done = program("parse.py", made.model, input=text.encode())
    assert (done.returncode, done.stdout) == (0, parsed(tmp_path / "a.txt"))
    assert b"\t0\t" in done.stdout


def test_multiword_tokens_that_cannot_be_learned_are_told(made, command, tmp_path):
    words = "abcdefghijklmnopq"
    rows = [f"1-17\t{words}" + 8 * "\t_"]
    for m, word in enumerate(words, 1):
        rows.append(f"{m}\t{word}\t{word}\tX\tX\t_\t{m - 1}\tdep\t_\t_")
    train_file = tmp_path / "t.conllu"
    train_file.write_bytes(generate(30, 1) + ("\n".join(rows) + "\n\n").encode())
    short = [f"data.train={train_file}", "data.dev=null", "data.test=null", "parser=false"]
    off = ["tagger.learn=false", "lemmatizer.learn=false", f"output={tmp_path}/m"]
    code, _, err = command(train.main, made.config, *short, *off)
    assert code == 0
    assert (
        f"warning: {train_file}: 1 multiword token is left out of the tokeniser, such as"
        f" '{words}' of 17 words: its rule has more than 16 words or 100 characters" in err
    )


ENCODINGS = {"utf-16": None, "utf-32": None, "utf-16-be": "UTF-16BE", "cp1252": "windows-1252"}


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_text_of_other_encodings(made, parsed, tmp_path, encoding, monkeypatch):
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
    done = program("parse.py", made.model, "--ranges", *options, input=text.encode(encoding))
    assert (done.returncode, done.stdout) == (0, parsed(tmp_path / "a.txt", "--ranges"))
    parser = gpuparse.load(made.model)
    found = "".join(s.to_conllu() for s in parser.stream(tmp_path / "b.txt", encoding=given))
    assert found == parsed(tmp_path / "a.txt").decode()


def test_encodings_that_cannot_be_read_are_errors(made, command, tmp_path):
    text = "Öl\n".encode("cp1252")
    (tmp_path / "a.txt").write_bytes(text)
    (tmp_path / "a.conllu").write_bytes("1\tÖl".encode("utf-16"))
    (tmp_path / "b.conllu").write_bytes("1\tÖl".encode("utf-16-be"))
    (tmp_path / "c.txt").write_bytes("Öl".encode("utf-16-le"))
    shard = ["--shard", "all/2", "--output", tmp_path / "out.conllu", "--encoding", "cp1252"]
    for name, words, code, said in (
        ("a.txt", [], 3, "a.txt:1: byte 0 of the text is not UTF-8; convert the text to UTF-8, or"
         " give --encoding with its encoding, such as cp1252"),
        ("a.txt", ["--encoding", "ascii"], 3, "a.txt: byte 0 is not ascii; give --encoding with"),
        ("a.txt", ["--encoding", "klingon"], 2, "--encoding: 'klingon' is no encoding of text"),
        ("a.txt", ["--encoding", "base64"], 2, "--encoding: 'base64' is no encoding of text"),
        ("a.txt", shard, 2, "--shard reads UTF-8, without --encoding"),
        ("a.conllu", [], 3, "a.conllu:1: the file is UTF-16; convert it to UTF-8 (iconv"),
        ("b.conllu", [], 3, "b.conllu:1: the file is UTF-16; convert it to UTF-8 (iconv"),
        ("c.txt", [], 3, "c.txt:1: the file is UTF-16; convert it to UTF-8 (iconv"),
        ("a.conllu", ["--encoding", "utf-16"], 2, "a.conllu: --encoding is for text, lines,"),
    ):  # fmt: skip
        got, out, err = command(parse.main, made.model, tmp_path / name, *words)
        assert (got, out) == (code, b"")
        assert said in err
    parser = gpuparse.load(made.model)
    with pytest.raises(ConfigError, match="encoding: is for a file, and not for sentences"):
        parser.stream([["Hi"]], encoding="cp1252")


def test_comments_without_a_sentence_are_told(made, command, tmp_path):
    """They are passed through, and a text that begins with # is no CoNLL-U."""
    (tmp_path / "tweets").write_text("#cats sing.\n")
    code, out, err = command(parse.main, made.model, tmp_path / "tweets")
    assert (code, out) == (0, b"#cats sing.\n")
    assert err.splitlines()[0] == (
        f"gpuparse: {tmp_path}/tweets: has comments (#) and no sentences; give --input text if it"
        " is text"
    )
    text = b"# sent_id = 1\n# other\n\n"
    done = program("parse.py", made.model, input=text)
    assert (done.returncode, done.stdout) == (0, text)
    assert b"<stdin>: has comments (#) and no sentences" in done.stderr
    with pytest.warns(UserWarning, match=r"text: has comments \(#\) and no sentences$"):
        assert len(gpuparse.load(made.model).parse("#\tcats\n")) == 0
    code, _, err = command(parse.main, made.model, "--quiet", tmp_path / "tweets")
    assert (code, err) == (0, "")


@pytest.mark.parametrize("begin", ["# a comment\n", "# a\n#b\n\n# c\n", "\n\n", "\ufeff"])
def test_columns_on_standard_input(made, parsed, begin):
    done = program("parse.py", made.model, "--quiet", input=begin.encode() + made.words)
    assert (done.returncode, done.stderr) == (0, b"")
    assert column(done.stdout, 7) == column(parsed(made.test), 7)


def test_the_format_of_standard_input_that_is_asked_for_is_taken(made):
    done = program("parse.py", made.model, "--input", "conllu", input=b"She sings.\n")
    assert done.returncode == 3
    assert b"<stdin>:1: 1 column instead of 10: this is not CoNLL-U" in done.stderr
    done = program("parse.py", made.model, "--keep-heads", input=b"She sings.\n")
    assert done.returncode == 2
    assert b"<stdin>: text has no columns: --keep-heads needs CoNLL-U" in done.stderr


@pytest.mark.parametrize(
    "options",
    [["--threads", "3"], ["--backend", "torch"]],
    ids=" ".join,
)
def test_no_option_of_speed_changes_a_byte(made, parsed, options, monkeypatch):
    expected = parsed(made.test)
    assert parsed(made.test, *options) == expected
    monkeypatch.setattr(parse, "default_batch_size", lambda device: 1)
    assert parsed(made.test, *options) == expected


@pytest.mark.parametrize("shards", [["all/3"], ["2/2", "1/2", "join/2"]], ids=" ".join)
def test_shards_have_the_same_bytes(made, parsed, tmp_path, shards):
    for shard in shards:
        assert parsed(made.test, "--shard", shard, "--output", tmp_path) == b""
    assert (tmp_path / made.test.name).read_bytes() == parsed(made.test)


def items(out, key):
    """The values of an item of MISC of every word, "" where there is none."""
    found = (re.search(rf"(?:^|\|){key}=([^|]*)", misc) for misc in column(out, 9))
    return [each[1] if each else "" for each in found]


def test_probabilities_of_tags(made, parsed, raw, tmp_path):
    out = parsed(made.test, "--probabilities")
    expected = load_stages(made.model).tagger.tag_with_probabilities(read_treebank(made.test))[1]
    assert items(out, "TagProb") == [f"{p:.4f}" for p in expected]
    assert without(out, (9,)) == without(parsed(made.test), (9,))
    assert all(items(out, "HeadProb"))
    assert parsed(made.test, "--probabilities", "--threads", "3") == out
    assert parsed(made.test, "--probabilities", "--shard", "all/3", "--output", tmp_path) == b""
    assert (tmp_path / made.test.name).read_bytes() == out
    assert items(parsed(raw, "--probabilities"), "TagProb") == items(out, "TagProb")
    # Earlier values are replaced, also of words whose tags are kept.
    (tmp_path / "again.conllu").write_bytes(out)
    assert parsed(tmp_path / "again.conllu", "--probabilities") == out
    kept = parsed(tmp_path / "again.conllu", "--probabilities", "--keep", "tags")
    assert b"TagProb" not in kept
    assert items(kept, "HeadProb") == items(out, "HeadProb")
    some = parsed(made.test, "--probabilities", "--kbest", "2")
    assert Counter(items(some, "TagProb")) > Counter(items(out, "TagProb"))
    (tmp_path / "heads.conllu").write_bytes(out)
    heads = parsed(tmp_path / "heads.conllu", "--probabilities", "--keep-heads")
    assert items(heads, "TagProb") == items(out, "TagProb")


def test_probabilities_of_some_words(made, parsed, tmp_path):
    lines = made.words.decode().split("\n")
    place = next(i for i, line in enumerate(lines) if line.startswith("2\t"))
    fields = lines[place].split("\t")
    lines[place] = "\t".join([*fields[:3], "NOUN", *fields[4:]])
    (tmp_path / "some.conllu").write_text("\n".join(lines))
    found = items(parsed(tmp_path / "some.conllu", "--keep", "tags", "--probabilities"), "TagProb")
    assert found[1] == ""
    others = items(parsed(made.test, "--probabilities"), "TagProb")
    assert found[:1] + found[2:] == others[:1] + others[2:]


def test_probabilities_of_tags_in_python(made, parsed):
    parser = gpuparse.load(made.model)
    treebank = read_treebank(made.test)
    words = [[treebank.column(w, 1) for w in range(*treebank.word_starts[:2])]]
    assert parser.parse(words)[0].tag_probabilities is None
    found = parser.parse(words, probabilities=True)
    _, expected = load_stages(made.model).tagger.tag_with_probabilities(treebank)
    assert found[0].tag_probabilities == expected[: len(words[0])].tolist()
    assert found.to_arrow().column("tag_prob").to_pylist() == [found[0].tag_probabilities]
    given = [{"form": word, "upos": "NOUN" if i == 0 else "_"} for i, word in enumerate(words[0])]
    [sentence] = parser.parse([given], probabilities=True, keep="tags")
    assert sentence.tag_probabilities == [None, *found[0].tag_probabilities[1:]]
    assert parser.parse(words, probabilities=True, kbest=2)[0].tag_probabilities


def test_a_model_without_a_parser_has_probabilities_of_tags(made, parsed, command, tmp_path):
    code, _, err = command(
        train.main, made.config, "parser=false", f"output={tmp_path / 'tags'}", "data.dev=null",
        "lemmatizer.learn=false", "tokenizer.learn=false",
    )  # fmt: skip
    assert code == 0, err
    assert "calibration: log loss of tags" in err
    code, out, err = command(parse.main, tmp_path / "tags", made.test, "--probabilities")
    assert (code, "not calibrated" in err) == (0, False)
    assert all(items(out, "TagProb"))
    assert column(out, 7) == column(made.test.read_bytes(), 7)
    code, _, err = command(
        train.main, made.config, "parser=false", f"output={tmp_path / 'raw'}", "data.dev=null",
        "calibration=none",
    )  # fmt: skip
    assert code == 0, err
    code, _, err = command(parse.main, tmp_path / "raw", made.test, "--probabilities")
    assert (code, "its probabilities of tags are not calibrated" in err) == (0, True)
    (tmp_path / "raw" / FILES["tagger"]).unlink()
    code, _, err = command(parse.main, tmp_path / "raw", made.test, "--probabilities")
    assert (code, "has no parser and no tagger" in err) == (2, True)


def test_tags_that_are_annotated_are_kept(made, parsed, tmp_path):
    gold = made.test.read_bytes()
    kept = parsed(made.test, "--keep", "tags")
    for number in _TAGS:
        assert column(kept, number) == column(gold, number)
    # Without XPOS and lemmas, these alone are predicted.
    (tmp_path / "some.conllu").write_bytes(without(gold, (2, 4)))
    some = parsed(tmp_path / "some.conllu", "--keep", "tags")
    assert column(some, 3) == column(gold, 3)
    assert column(some, 5) == column(gold, 5)
    assert "_" not in {*column(some, 2), *column(some, 4)}
    with_wrong_tags = gold.replace(b"\tNOUN\t", b"\tPART\t")
    (tmp_path / "wrong.conllu").write_bytes(with_wrong_tags)
    assert "PART" in column(parsed(tmp_path / "wrong.conllu", "--keep", "tags"), 3)
    assert parsed(tmp_path / "wrong.conllu") == parsed(made.test)


def test_multiword_tokens_comments_and_empty_nodes_come_back(parsed, tmp_path):
    text = (
        "# newdoc id = é\n# text = Vi ses.\n1-2\tVises\t_\t_\t_\t_\t_\t_\t_\tSpaceAfter=No\n"
        "1\tVi\t_\t_\t_\t_\t_\t_\t_\t_\n2\tses\t_\t_\t_\t_\t_\t_\t_\tA=b\n"
        "2.1\tda\tda\tX\t_\t_\t_\t_\t_\t_\n3\t.\t_\t_\t_\t_\t_\t_\t_\t_\n\n"
    )
    (tmp_path / "a.conllu").write_text(text)
    out = parsed(tmp_path / "a.conllu").decode().split("\n")
    for mine, given in zip(out, text.split("\n"), strict=True):
        row = mine.split("\t")
        if row[0] in ("1", "2", "3"):
            assert [row[i] for i in (0, 1, 8, 9)] == [given.split("\t")[i] for i in (0, 1, 8, 9)]
            assert "_" not in (row[2], row[3], row[6], row[7])
        else:
            assert mine == given


@pytest.mark.parametrize("text", ["", "\n\n\n"], ids=["empty", "line ends"])
def test_files_without_words(parsed, tmp_path, text):
    (tmp_path / "a.vert").write_text(text)
    assert parsed(tmp_path / "a.vert", "--input", "vertical") == b""


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"a\nb\xff\n", "a.vert:2: the line is not UTF-8"),
        (b"a\n\nb\0\n", "a.vert:3: the line has NUL"),
        (b"1\ta\tb\n", "a.vert:1: the line has a tab"),
    ],
    ids=["encoding", "NUL", "columns"],
)
def test_faults_of_vertical_text_are_told_with_their_line(made, command, tmp_path, content, said):
    (tmp_path / "a.vert").write_bytes(content)
    code, out, err = command(
        parse.main, made.model, tmp_path / "a.vert", "--input", "vertical", "--quiet",
        "--output", f"{tmp_path}/out/",
    )  # fmt: skip
    assert code == 3
    assert said in err
    assert out == b""
    assert not (tmp_path / "out" / "a.vert").exists()


def test_a_long_and_strange_word_is_parsed(parsed, tmp_path):
    (tmp_path / "a.vert").write_text("x" * 10_000 + "\n漢字\n🙂\n\n")
    out = parsed(tmp_path / "a.vert", "--input", "vertical")
    assert column(out, 1) == ["x" * 10_000, "漢字", "🙂"]
    assert "_" not in column(out, 3)


def test_malformed_sentences_are_skipped_or_kept(made, command, tmp_path):
    bad = b"1\tonly three\tcolumns\n\n"
    (tmp_path / "a.conllu").write_bytes(bad + made.words)
    code, out, err = command(parse.main, made.model, tmp_path / "a.conllu", "--on-error", "skip")
    assert code == 1
    assert "1 sentence is malformed" in err
    assert bad not in out
    assert column(out, 6) == column(command(parse.main, made.model, made.test)[1], 6)
    code, out, _ = command(parse.main, made.model, tmp_path / "a.conllu", "--on-error", "keep")
    assert code == 1
    assert out.startswith(bad)


def test_a_parser_alone_says_what_text_needs(trained, command, tmp_path):
    (tmp_path / "a.txt").write_text("The officer sings.\n")
    code, _, err = command(parse.main, trained.model, tmp_path / "a.txt")
    assert code == 2
    assert "has no tokeniser: train a model with" in err
    code, _, err = command(parse.main, trained.model, trained.test, "--keep", "tags")
    assert code == 2
    assert "--keep tags" in err


@pytest.mark.parametrize("kind", ["text", "vertical"])
@pytest.mark.parametrize("option", ["--keep tags", "--keep-heads", "--guide misc:Head"])
def test_options_about_columns_are_refused_for_words_alone(made, command, tmp_path, kind, option):
    (tmp_path / "a").write_text("The\nofficer\n")
    words = made.model, tmp_path / "a", "--input", kind, *option.split()
    code, out, err = command(parse.main, *words)
    assert (code, out) == (2, b"")
    assert f"{kind} has no columns: {option.split()[0]} needs CoNLL-U or a table" in err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["tagger.model=DIR"], "tagger.model: given with tagger.learn=true"),
        (
            ["parser=false", *(f"{name}.learn=false" for name in FILES)],
            "parser: false, and no other stage",
        ),
        (
            ["tagger.learn=false", "tagger.model=/nowhere"],
            "/nowhere: no such folder",
        ),
    ],
    ids=["twice", "nothing", "absent"],
)
def test_stages_that_do_not_fit_are_refused(made, command, tmp_path, words, said):
    out = tmp_path / "model"
    code, _, err = command(train.main, made.config, *words, f"output={out}")
    assert code in (2, 4)
    assert said in err
    assert not (out / WEIGHTS).exists()


def test_damaged_stages_are_told(made, command, tmp_path):
    for name in FILES:
        model = tmp_path / name
        shutil.copytree(made.model, model)
        content = bytearray((model / FILES[name]).read_bytes())
        content[-100] ^= 1
        (model / FILES[name]).write_bytes(content)
        code, _, err = command(parse.main, model, made.test)
        assert code == 4
        assert FILES[name] in err


def test_a_parser_in_python_tags_what_has_no_tags(made, parsed, tmp_path):
    words = [["The", "officer", "sings"]]
    parser = gpuparse.load(made.model)
    text = parser.parse(words).to_conllu()
    (tmp_path / "a.vert").write_text("The\nofficer\nsings\n")
    of_command = parsed(tmp_path / "a.vert", "--input", "vertical").decode()
    assert text == of_command
    again = pickle.loads(pickle.dumps(parser))  # noqa: S301 - our own bytes
    assert again.parse(words).to_conllu() == text
    # Tags that are given are kept if that is asked for.
    given = [[("The", "NOUN"), ("officer", "NOUN")]]
    [row, *_] = parser.parse(given, keep="tags").to_conllu().split("\n")
    assert row.split("\t")[1:5:2] + row.split("\t")[3:4] == ["The", "NOUN", "NOUN"]
    [row, *_] = parser.parse(given).to_conllu().split("\n")
    assert row.split("\t")[1:5:2] == ["The", "DET"]
    with pytest.raises(ConfigError, match="keep: expected None or 'tags'"):
        parser.parse(given, keep="lemmas")


def test_crossval_scores_with_predicted_tags(made, command, tmp_path):
    code, _, err = command(
        crossval.main, made.config, "--folds", "2", "--output", tmp_path / "cv", "--quiet",
        "data.dev=null", "data.test=null",
    )  # fmt: skip
    assert code == 0, err
    [predicted] = (tmp_path / "cv").glob("predicted*")
    gold = (made.folder / "train.conllu").read_bytes()
    assert column(predicted.read_bytes(), 3) != column(gold, 3), "tags were not predicted"
    assert column(predicted.read_bytes(), 1) == column(gold, 1)


@pytest.mark.parametrize("way", ["a file", "standard input"])
def test_explain_reads_raw_text(made, command, raw, monkeypatch, way):
    asked = ["--sentence", "3", "--word", "2", "--json"]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(raw.read_bytes())))
    code, out, err = command(explain.main, made.model, raw if way == "a file" else "-", *asked)
    assert (code, err) == (0, "")
    found = json.loads(out)
    sentence = gpuparse.load(made.model).parse_text(raw.read_text())[2]
    assert found["forms"] == sentence.words
    assert found["head"] == sentence.heads[1]


def test_explain_reads_the_format_that_it_is_told(made, command, raw, tmp_path):
    asked = ["--sentence", "3", "--word", "2", "--json"]
    as_text = command(explain.main, made.model, raw, *asked)
    shutil.copy(raw, tmp_path / "unnamed")
    named = command(explain.main, made.model, tmp_path / "unnamed", "--input", "text", *asked)
    assert named == as_text
    words = json.loads(as_text[1])["forms"]
    (tmp_path / "words.txt").write_text("\n".join([*words, ""]))
    asked[1] = "1"
    file = tmp_path / "words.txt"
    code, out, err = command(explain.main, made.model, file, "--input", "vertical", *asked)
    assert (code, err) == (0, "")
    assert json.loads(out)["forms"] == words
    code, _, err = command(explain.main, made.model, tmp_path / "table.parquet", *asked)
    assert (code, "table.parquet" in err) == (3, True)
    (tmp_path / "table.parquet").write_bytes(b"PAR1")
    code, _, err = command(explain.main, made.model, tmp_path / "table.parquet", *asked)
    assert code == 3
    assert "table.parquet: cannot be read as a Parquet file" in err


def test_explain_refuses_text_without_a_tokeniser(made, command, raw, tmp_path):
    for name in made.model.iterdir():
        if name.is_file() and name.name != FILES["tokenizer"]:
            shutil.copy(name, tmp_path)
    code, _, err = command(explain.main, tmp_path, raw, "--sentence", "1", "--word", "1")
    assert code == 2
    assert f"{raw}: text, but {tmp_path} has no tokeniser" in err
    options = ["--sentence", "1", "--word", "1", "--keep", "tags"]
    code, _, err = command(explain.main, made.model, raw, *options)
    assert code == 2
    assert "text has no columns: --keep needs CoNLL-U" in err


def test_explain_reads_the_tags_that_parse_predicts(made, command, tmp_path):
    (tmp_path / "words.conllu").write_bytes(made.words)
    asked = ("--sentence", "1", "--word", "2", "--json")
    of_words = command(explain.main, made.model, tmp_path / "words.conllu", *asked)
    of_gold = command(explain.main, made.model, made.test, *asked)
    assert of_words[0] == 0, of_words[2]
    assert of_words[1] == of_gold[1]


def test_report_has_the_scores_of_training(made, command, tmp_path):
    code, _, err = command(report.main, made.model, "--output", tmp_path / "report.html")
    assert code == 0, err
    uas = json.loads((made.model / "scores.json").read_text())["test"]["uas"]["percent"]
    assert f"{uas:.2f}" in (tmp_path / "report.html").read_text()


def test_jackknife_of_guides_refuses_stages(made, command, tmp_path):
    code, _, err = command(jackknife.main, made.config, "--output", tmp_path / "a.conllu")
    assert code == 2
    assert "guides are predicted from the tags of data.train" in err


def table_of(text: bytes, *fields: str) -> pyarrow.Table:
    """A row per sentence with some columns of CoNLL-U, and a row without words."""
    numbers = {field: number for number, field in enumerate(FIELDS, 1)}
    treebank = treebank_from_bytes(text, "-")
    ends = treebank.word_starts[1:-1].tolist()
    columns = {}
    for field in fields:
        values = column(text, numbers[field])
        columns[field] = [
            [None if value == "_" else value for value in values[i:j]]
            for i, j in pairwise([0, *ends, treebank.n_words])
        ] + [[]]
    return pyarrow.table(columns | {"page": list(range(len(treebank) + 1))})


def tables_parsed(made, folder, table, *words) -> pyarrow.Table:
    folder.mkdir(exist_ok=True)
    parquet.write_table(table, folder / "in.parquet")
    options = [made.model, folder / "in.parquet", "--output", f"{folder}/out/", "--quiet", *words]
    assert parse.main([str(word) for word in options]) == 0
    return parquet.read_table(folder / "out" / "in.parquet")


@pytest.fixture
def short_runs(monkeypatch):
    """Runs of seven rows, so that a small table has several."""
    monkeypatch.setattr(table_files, "MOST_ROWS", 7)


NEW = ["lemma", "upos", "xpos", "feats", "head", "deprel"]


@pytest.mark.parametrize("options", [(), ("--probabilities",), ("--keep", "tags")], ids=" ".join)
@pytest.mark.parametrize("given", ["words", "tags"])
def test_tables_get_the_tags_and_trees_of_their_text(
    made, parsed, tmp_path, short_runs, given, options
):
    # Some tags are given, some are not.
    text = made.words if given == "words" else without(made.test.read_bytes(), (2, 4, 8))
    fields = ["form"] if given == "words" else ["form", "upos", "feats"]
    table = table_of(text, *fields)
    found = tables_parsed(made, tmp_path, table, *options)
    (tmp_path / "words.conllu").write_bytes(text)
    expected = parsed(tmp_path / "words.conllu", *options)
    more = ["prob", "deprel_prob", "tag_prob"] if "--probabilities" in options else []
    assert found.column_names == ["form", "page", *NEW, *more]
    assert found.select(["form", "page"]).equals(table.select(["form", "page"]))
    kinds = [pyarrow.string()] * 4 + [pyarrow.int32(), pyarrow.string()]
    assert found.select(NEW).schema.types == [pyarrow.list_(kind) for kind in kinds]
    for field in NEW:
        words = [word for row in found[field].to_pylist() for word in row]
        written = column(expected, FIELDS.index(field) + 1)
        assert ["_" if word is None else str(word) for word in words] == written
    assert found[NEW[0]].to_pylist()[-1] == []
    if options == ("--keep", "tags") and given == "tags":
        assert found["upos"].equals(table["upos"])
        assert found["feats"].equals(table["feats"])
    if more:
        of_tags = [word for row in found["tag_prob"].to_pylist() for word in row]
        assert [f"{word:.4f}" for word in of_tags] == items(expected, "TagProb")


def test_bytes_of_tagged_tables_do_not_depend_on_threads_and_shards(
    made, tmp_path, short_runs, monkeypatch
):
    table, outputs = table_of(made.words, "form"), set()
    for name, options in {
        "1": ["--threads", 1], "2": ["--threads", 2], "one": ["--shard", "all/1"],
        "four": ["--shard", "all/4"],
    }.items():  # fmt: skip
        tables_parsed(made, tmp_path / name, table, "--keep", "tags", *options)
        outputs.add((tmp_path / name / "out" / "in.parquet").read_bytes())
    assert len(outputs) == 1
    as_it_is = TableSource.piece

    def failing(self, table, first, **options):
        if first >= 28:
            raise KeyboardInterrupt
        return as_it_is(self, table, first, **options)

    again = "--keep", "tags", "--shard", "all/4"
    monkeypatch.setattr(TableSource, "piece", failing)
    with pytest.raises(KeyboardInterrupt):
        tables_parsed(made, tmp_path / "stopped", table, *again)
    monkeypatch.setattr(TableSource, "piece", as_it_is)
    with pytest.raises(ConfigError, match='keep was "tags" and is now null'):
        tables_parsed(made, tmp_path / "stopped", table, "--shard", "all/4")
    tables_parsed(made, tmp_path / "stopped", table, *again)
    assert (tmp_path / "stopped" / "out" / "in.parquet").read_bytes() in outputs


def test_faulty_rows_of_tagged_tables(made, parsed, command, tmp_path):
    rows = table_of(made.words, "form").to_pylist()
    words = [row["form"] for row in rows]
    rows[3]["form"] = ["a", None]
    bad = pyarrow.Table.from_pylist(rows)
    parquet.write_table(bad, tmp_path / "in.parquet")
    for on_error in ("keep", "skip"):
        out = tmp_path / on_error
        options = made.model, tmp_path / "in.parquet", "--output", f"{out}/", "--on-error", on_error
        code, _, err = command(parse.main, *options)
        assert code == 1
        assert "in.parquet:row:3[1]: expected a word" in err
        found = parquet.read_table(out / "in.parquet").to_pylist()
        if on_error == "keep":
            faulty = found.pop(3)
            assert [faulty[field] for field in NEW] == [None] * 6
        assert [row["form"] for row in found] == words[:3] + words[4:]
        (tmp_path / "in.conllu").write_bytes(made.words)
        upos = column(parsed(tmp_path / "in.conllu"), 3)
        del upos[sum(map(len, words[:3])) : sum(map(len, words[:4]))]
        assert [tag for row in found for tag in row["upos"]] == upos


def test_tables_of_python_get_tags(made, parsed, tmp_path):
    (tmp_path / "words.conllu").write_bytes(made.words)
    expected = parsed(tmp_path / "words.conllu", "--probabilities")
    table = table_of(made.words, "form")
    parser = gpuparse.load(made.model)
    assert parser.columns == []  # it fills in what it reads
    result = parser.parse(table, probabilities=True)
    found = result.to_arrow()
    names = [*NEW, "prob", "deprel_prob", "tag_prob"]
    assert found.column_names == ["form", "page", *names]
    for field in NEW:
        words = [word for row in found[field].to_pylist() for word in row]
        written = column(expected, FIELDS.index(field) + 1)
        assert ["_" if word is None else str(word) for word in words] == written
    frame = parser.parse(table.to_pandas()).to_pandas()
    assert list(frame.columns) == ["form", "page", *NEW]
    assert frame["upos"].tolist() == found["upos"].to_pylist()
    # Batches of Ray and Spark, of any size, have the same columns, too.
    parse_batch = WorkerParser(made.model, on_error="keep")
    batches = [parse_batch(table.slice(k, 20)) for k in range(0, len(table), 20)]
    assert pyarrow.concat_tables(batches).equals(found.drop_columns(names[-3:]))
    assert parse_batch(table.slice(0, 0)).schema.equals(batches[0].schema)
    rows = table.to_pylist()
    rows[3]["form"][0] = None
    bad = parse_batch(pyarrow.Table.from_pylist(rows, table.schema))
    assert [bad[field][3].as_py() for field in NEW] == [None] * 6
    assert bad["upos"].to_pylist()[4:] == found["upos"].to_pylist()[4:]
    # Tags that are given are kept if that is asked for.
    rows = [{"form": ["The", "officer"], "upos": ["NOUN", None]}]
    kept = parser.parse(pyarrow.Table.from_pylist(rows), keep="tags")
    one = kept.to_arrow().to_pylist()[0]
    assert one["upos"] == ["NOUN", "NOUN"]
    assert one["lemma"][1] == "officer"


def test_models_without_a_parser_take_tables_and_shards(
    made, command, tmp_path, short_runs, monkeypatch
):
    tags = tmp_path / "tags"
    shutil.copytree(made.model, tags)
    (tags / WEIGHTS).unlink()
    text = made.test.read_bytes()
    table = table_of(text, "form", "upos", "deprel")
    both = []
    for model in (made.model, tags):
        of_model = SimpleNamespace(model=model)
        found = tables_parsed(of_model, tmp_path / f"of {model.name}", table, "--probabilities")
        both.append(found.select([*NEW[:4], "tag_prob"]))
    assert both[0].equals(both[1])
    assert found.column_names == ["form", "deprel", "page", *NEW[:4], "tag_prob"]
    assert found["deprel"].equals(table["deprel"])
    whole = tmp_path / "of tags" / "out" / "in.parquet"
    in_shards = tmp_path / "in shards"
    options = "--probabilities", "--shard", "all/3"
    tables_parsed(of_model, in_shards, table, *options)
    assert (in_shards / "out" / "in.parquet").read_bytes() == whole.read_bytes()
    code, expected, _ = command(parse.main, tags, made.test)
    assert code == 0
    assert column(expected, 7) == column(text, 7)
    for i in (2, 1, 3):
        words = tags, made.test, "--output", f"{in_shards}/", "--shard", f"{i}/3"
        assert command(parse.main, *words)[0] == 0
    code, _, err = command(
        parse.main, tags, made.test, "-o", f"{in_shards}/", "--shard", "all/3", "--keep", "tags"
    )
    assert (code, 'keep was null and is now "tags"' in err) == (2, True)
    words = tags, made.test, "--output", f"{in_shards}/", "--shard", "join/3"
    assert command(parse.main, *words)[0] == 0
    assert (in_shards / made.test.name).read_bytes() == expected
    for option in ("--single-root", "--mbr", "--keep-heads"):
        code, _, err = command(parse.main, tags, made.test, option)
        assert (code, f"{option}: {tags} has no parser" in err) == (2, True)
