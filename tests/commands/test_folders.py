"""Folders in and out of the command `parse`: what is read, and how a run goes on."""

import os
import signal

import pytest

import gpuparse
from gpuparse.api.workers import files_of
from gpuparse.commands import parse
from gpuparse.errors import ConfigError, DataError
from tests.synthetic import generate

MODEL = "english"


def parsed(*words: object) -> int:
    return parse.main([MODEL, *map(str, words), "--threads", "1"])


def names_in(folder) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def corpus(tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    for k, name in enumerate("abc"):
        (folder / f"{name}.conllu").write_bytes(generate(4, k))
    return folder


def test_files_of_unknown_suffixes_are_passed_over(corpus, tmp_path, capsys):
    for name in ("notes.md", "README", "a.conllu.done", "x.gz"):
        (corpus / name).write_text("She sings.")
    (corpus / "d.JSONL.gz").write_bytes(b"")
    assert parsed(corpus, "-o", tmp_path / "out") == 0
    said = (
        "in: 4 files with unknown suffixes passed over: README, a.conllu.done, notes.md and 1 more"
    )
    assert said in capsys.readouterr().err
    files = ["a.conllu", "b.conllu", "c.conllu", "d.JSONL.gz"]
    assert names_in(tmp_path / "out") == files
    parser = gpuparse.load(MODEL, threads=1)
    with pytest.warns(UserWarning, match="4 files with unknown suffixes passed over: README"):
        assert parser.parse_file(corpus, tmp_path / "python") == (12, 0)
    with pytest.warns(UserWarning, match="4 files with unknown suffixes"):
        assert len(list(parser.stream(corpus))) == 12
    with pytest.warns(UserWarning, match="4 files with unknown suffixes"):
        assert len(files_of(corpus, tmp_path / "workers")) == len(files)
    # Named, or with a format for all, they are read.
    assert parsed(corpus / "notes.md", "-o", tmp_path / "n", "--input", "text") == 0
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "notes.md").write_text("She sings.")
    with pytest.raises(ConfigError, match=r"1 file with .*: notes.md; name them, or give --input"):
        parsed(tmp_path / "notes", "-o", tmp_path / "none")
    assert parsed(tmp_path / "notes", "-o", tmp_path / "texts", "--input", "text") == 0
    assert names_in(tmp_path / "texts") == ["notes.md.conllu"]


def test_a_run_that_has_failed_goes_on_where_it_was(corpus, tmp_path, capsys):
    out, whole = tmp_path / "out", tmp_path / "whole"
    assert parsed(corpus, "-o", whole) == 0
    assert names_in(whole) == ["a.conllu", "b.conllu", "c.conllu"]
    sound = (corpus / "b.conllu").read_bytes()
    (corpus / "b.conllu").write_bytes(b"1\tx\n\n")
    with pytest.raises(DataError, match=r"b\.conllu:1"):
        parsed(corpus, "-o", out)
    assert "1 file is finished; the same command parses the others" in capsys.readouterr().err
    first = os.stat(out / "a.conllu")
    (corpus / "b.conllu").write_bytes(sound)
    with pytest.raises(
        ConfigError, match=r"a\.conllu: cannot continue: mbr was false and is now t"
    ):
        parsed(corpus, "-o", out, "--mbr")
    kept = (corpus / "a.conllu").read_bytes()
    (corpus / "a.conllu").write_bytes(kept + kept)
    with pytest.raises(ConfigError, match=r"a\.conllu: cannot continue: the input: has other"):
        parsed(corpus, "-o", out)
    (corpus / "a.conllu").write_bytes(kept)
    assert parsed(corpus, "-o", out) == 0
    assert "out: 1 file is finished and kept, with the same model" in capsys.readouterr().err
    assert os.stat(out / "a.conllu").st_mtime_ns == first.st_mtime_ns
    assert names_in(out) == names_in(whole)
    for name in names_in(out):
        assert (out / name).read_bytes() == (whole / name).read_bytes()
    with pytest.raises(ConfigError, match=r"a\.conllu: exists; give --force"):
        parsed(corpus, "-o", out)
    assert parsed(corpus, "-o", out, "--force") == 0


def test_an_output_that_was_changed_is_not_kept(corpus, tmp_path):
    out = tmp_path / "out"
    (corpus / "c.conllu").write_bytes(b"1\tx\n\n")
    words = [corpus, "-o", out]
    with pytest.raises(DataError, match=r"c\.conllu:1"):
        parsed(*words)
    (out / "a.conllu").write_text("mine")
    with pytest.raises(ConfigError, match=r"a\.conllu: was changed since it was parsed; name"):
        parsed(*words)
    (out / "a.conllu").unlink()
    assert parsed(*words, "--on-error", "skip", "--force") == 1
    assert len(names_in(out)) == 3
    (out / "c.conllu").unlink()
    (out / ".c.conllu.gpuparse.done").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ConfigError, match="is a link, which is not followed"):
        parsed(*words, "--on-error", "skip", "--force")


def test_malformed_sentences_of_kept_files_are_counted(corpus, tmp_path, capsys):
    (corpus / "a.conllu").write_bytes(b"1\tx\n\n")
    words = [corpus, "-o", tmp_path / "out", "--on-error", "skip"]
    (corpus / "d.parquet").write_bytes(b"no table")
    with pytest.raises(DataError, match=r"d\.parquet: cannot be read as a Parquet file"):
        parsed(*words)
    (corpus / "d.parquet").unlink()
    capsys.readouterr()
    assert parsed(*words) == 1
    said = capsys.readouterr().err
    assert "3 files are finished and kept" in said
    assert "1 sentence is malformed and was skipped" in said


def test_a_run_that_is_killed_anywhere_goes_on(corpus, tmp_path):
    out, whole = tmp_path / "out", tmp_path / "whole"
    assert parsed(corpus, "-o", whole) == 0
    n_kills = 0
    while n_kills < 20 and killed_at_rename(1 + n_kills % 3, [corpus, "-o", out]):
        n_kills += 1
        for name in names_in(out):
            if not name.startswith("."):
                assert (out / name).read_bytes() == (whole / name).read_bytes()
    assert 4 <= n_kills < 20  # before and after receipts and outputs
    assert names_in(out) == names_in(whole)


def killed_at_rename(number: int, words: list[object]) -> bool:
    """Run the command in a process that kills itself at its n-th rename; whether it did."""
    process = os.fork()
    if not process:
        left, rename = [number], os.replace

        def replace(*paths):
            left[0] -= 1
            if not left[0]:
                os.kill(os.getpid(), signal.SIGKILL)
            rename(*paths)

        os.replace = replace
        os._exit(parsed(*words, "--quiet"))
    _, status = os.waitpid(process, 0)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0
    return os.WIFSIGNALED(status)
