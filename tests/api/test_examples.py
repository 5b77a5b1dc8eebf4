"""The examples of the docstrings, which need the quickstart's model."""

import doctest
import importlib
from pathlib import Path

import pytest

import gpuparse

MODULES = ["documents", "parsing", "results", "training"]


@pytest.fixture(scope="module")
def quickstart(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A working directory with runs/quickstart."""
    folder = tmp_path_factory.mktemp("quickstart")
    gpuparse.train("quickstart", {"output": folder / "runs" / "quickstart"}, quiet=True)
    return folder


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
