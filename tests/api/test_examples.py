"""The examples of all pages and of the docstrings that need the quickstart's model."""

import doctest
import importlib
from pathlib import Path

import pytest

import gpuparse
from gpuparse.commands import parse
from tests.test_docs import ROOT, blocks

PAGE = ROOT / "docs" / "python.md"
MODULES = ["parsing", "results", "training"]


@pytest.fixture(scope="module")
def quickstart(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A working directory in which docs/python.md has been read from top to bottom."""
    folder = tmp_path_factory.mktemp("quickstart")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        names: dict = {}
        for path, code in blocks("python"):
            if path == PAGE:
                exec(compile(code, str(path), "exec"), names)
    return folder


@pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
def test_the_page_can_be_read_from_top_to_bottom(quickstart):
    assert {"quickstart", "small", "other"} == {
        path.name for path in (quickstart / "runs").iterdir()
    }


def test_pages_show_what_can_be_done_with_the_model_of_the_quickstart(quickstart, monkeypatch):
    monkeypatch.chdir(quickstart)
    shown = [
        code for path, code in blocks("python")
        if path != PAGE and "runs/quickstart" in code
    ]  # fmt: skip
    assert shown
    Path("input.conllu").write_text(blocks("conllu")[0][1], encoding="utf-8")
    for code in shown:
        exec(compile(code, "an example", "exec"), {})


def test_the_tutorial_shows_what_the_parser_writes(quickstart, monkeypatch, capfdbinary):
    monkeypatch.chdir(quickstart)
    given, parsed = [code.encode() for _, code in blocks("conllu")]
    Path("input.conllu").write_bytes(given)
    assert parse.main(["runs/quickstart", "--probabilities", "input.conllu", "--quiet"]) == 0
    assert capfdbinary.readouterr().out == parsed


def test_the_corpus_of_the_page_on_clusters_can_be_made(quickstart, monkeypatch):
    parquet = pytest.importorskip("pyarrow.parquet")
    monkeypatch.chdir(quickstart)
    [code] = [code for path, code in blocks("python") if path.name == "clusters.md"]
    exec(compile(code, "clusters.md", "exec"), {})
    assert parquet.read_table("corpus").column_names[:2] == ["form", "lemma"]


@pytest.mark.parametrize("name", MODULES)
def test_examples_of_docstrings_are_right(quickstart, monkeypatch, name):
    monkeypatch.chdir(quickstart)
    module = importlib.import_module(f"gpuparse.api.{name}")
    parser = gpuparse.load("runs/quickstart", threads=1)
    found = doctest.DocTestFinder(exclude_empty=True).find(
        module, f"gpuparse.api.{name}", globs={"gpuparse": gpuparse, "parser": parser}
    )
    assert any(test.examples for test in found)
    for test in found:
        assert doctest.DocTestRunner().run(test).failed == 0, test.name
