"""Folders of files, parsed one file at a time: the bytes of the command, whatever the engine."""

import pickle
from pathlib import Path
from typing import Any

import pytest

from gpuparse.commands import parse
from gpuparse.errors import ConfigError, DataError, ModelError
from gpuparse.interop.files import FileParser, ParsedFile

arrow = pytest.importorskip("pyarrow")
import pyarrow.parquet as parquet  # noqa: E402 (after the check that it is there)


@pytest.fixture
def text_of(sentences: Any) -> bytes:
    """Five sentences as CoNLL-U."""
    names = ("form", "lemma", "upos", "xpos", "feats")
    texts = []
    for row in sentences.slice(0, 5).to_pylist():
        words = zip(*(row[name] for name in names), strict=True)
        lines = [
            "\t".join([str(i), *word, "_", "_", "_", "_"]) + "\n" for i, word in enumerate(words, 1)
        ]
        texts.append("".join(lines) + "\n")
    return "".join(texts).encode()


def contents(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def test_all_formats_get_the_bytes_of_the_command(model, corpus, text_of, tmp_path):
    (corpus / "deep" / "er").mkdir(parents=True)
    (corpus / "deep" / "er" / "text.conllu").write_bytes(text_of)
    (corpus / "_SUCCESS").touch()
    function = FileParser(model, corpus, tmp_path / "out")
    names = function.files()
    assert names == [*(f"{k}.parquet" for k in range(4)), "deep/er/text.conllu"]
    copy = pickle.loads(pickle.dumps(function))  # noqa: S301
    found = [copy(name) for name in names]
    assert found == [ParsedFile(name, 5 if "deep" in name else 100, 0) for name in names]
    for name in names:
        folder = tmp_path / "command" / Path(name).parent
        assert parse.main([model, str(corpus / name), "--output", f"{folder}/", "--quiet"]) == 0
    assert contents(tmp_path / "out") == contents(tmp_path / "command")


def test_options_change_what_is_written(model, corpus, tmp_path):
    FileParser(model, corpus, tmp_path / "out", probabilities=True)("0.parquet")
    parse.main([
        model, str(corpus / "0.parquet"), "--output", f"{tmp_path}/command/",
        "--probabilities", "--quiet",
    ])  # fmt: skip
    assert contents(tmp_path / "out") == contents(tmp_path / "command")


def test_a_job_goes_on_where_it_ended(model, corpus, tmp_path):
    function = FileParser(model, corpus, tmp_path / "out")
    function("1.parquet")
    with pytest.raises(ConfigError, match=r'1\.parquet: exists.*existing="keep"'):
        function.files()
    assert function.files(existing="keep") == ["0.parquet", "2.parquet", "3.parquet"]
    assert function.files(existing="replace") == [f"{k}.parquet" for k in range(4)]
    with pytest.raises(ConfigError, match="fail, keep, replace"):
        function.files(existing="append")


def test_a_file_with_a_fault_is_named_and_not_half_written(model, corpus, tmp_path):
    rows = parquet.read_table(corpus / "2.parquet").to_pylist()
    rows[17]["form"][0] = None
    parquet.write_table(arrow.Table.from_pylist(rows), corpus / "2.parquet")
    with pytest.raises(DataError, match=r"2\.parquet:row:17\[0\]: expected a word"):
        FileParser(model, corpus, tmp_path / "out")("2.parquet")
    assert contents(tmp_path / "out") == {}
    kept = FileParser(model, corpus, tmp_path / "out", on_error="keep")("2.parquet")
    assert kept == ParsedFile("2.parquet", 100, 1)
    heads = parquet.read_table(tmp_path / "out" / "2.parquet")["head"]
    assert [k for k in range(100) if heads[k].as_py() is None] == [17]


def test_outputs_of_one_name_are_refused(model, tmp_path):
    (tmp_path / "in").mkdir()
    for name in ("a.txt", "a.conllu", "b.txt"):
        (tmp_path / "in" / name).write_text("")
    files = FileParser(model, tmp_path / "in", tmp_path / "out")
    with pytest.raises(
        ConfigError, match=r"a\..* and .*a\..* would both be written as .*/a\.conllu"
    ):
        files.files()
    (tmp_path / "in" / "a.conllu").unlink()
    assert files.files() == ["a.txt", "b.txt"]
    assert files.output("a.txt") == tmp_path / "out" / "a.conllu"
    files.output("a.txt").parent.mkdir()
    files.output("a.txt").write_text("")
    assert files.files(existing="keep") == ["b.txt"]


def test_models_are_given_by_name(tmp_path, monkeypatch):
    """Each process finds an installed model by itself; a folder is the same from anywhere."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.txt").write_text("He left.")
    function = pickle.loads(pickle.dumps(FileParser("english", tmp_path / "in", tmp_path / "out")))  # noqa: S301
    assert function("a.txt").sentences == 1
    assert function._model == "english"
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ModelError, match=r"englich: no such folder; did you mean english\?"):
        FileParser("englich", "in", "out")


def test_what_cannot_be_parsed_is_an_error(model, corpus, tmp_path):
    for target in (corpus, corpus / "below"):
        with pytest.raises(ConfigError, match="name another folder for the output"):
            FileParser(model, corpus, target)
    with pytest.raises(ConfigError, match="is not a folder"):
        FileParser(model, corpus / "0.parquet", tmp_path / "out").files()
    (tmp_path / "empty").mkdir()
    with pytest.raises(ConfigError, match="has no files"):
        FileParser(model, tmp_path / "empty", tmp_path / "out").files()
    for wrong in ({"probability": True}, {"force": False}):
        with pytest.raises(TypeError, match=next(iter(wrong))):
            FileParser(model, corpus, tmp_path / "out", **wrong)
    with pytest.raises(ConfigError, match="kbest: a table has one tree per row"):
        FileParser(model, corpus, tmp_path / "out", kbest=2)("0.parquet")
    with pytest.raises(ConfigError, match="on_error: expected 'fail' or 'skip' or 'keep'"):
        FileParser(model, corpus, tmp_path / "out", on_error="null")("0.parquet")
    with pytest.raises(DataError, match=r"none\.parquet: cannot be read"):
        FileParser(model, corpus, tmp_path / "out")("none.parquet")
    with pytest.raises(ModelError):
        FileParser(tmp_path, corpus, tmp_path / "out")("0.parquet")
    assert contents(tmp_path / "out") == {}
