"""Without the compiled library, what needs it is one clear error."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from gpuparse import inference, native
from gpuparse.errors import NativeError

ROOT = Path(__file__).parents[1]
WHAT_TO_DO = r"the compiled library is missing: run `python native/build\.py`"


@pytest.fixture
def without_library(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(native.ENVIRONMENT, raising=False)
    monkeypatch.setattr(native, "_loaded", [])
    monkeypatch.setattr(native, "_FOLDER", tmp_path)


def test_functions_and_structs_say_what_is_missing(without_library):
    for use in (
        lambda: native.call("processor_fits"),
        lambda: native.struct("Search", None),
        lambda: inference.eisner(torch.zeros(1, 3, 3), None),
    ):
        with pytest.raises(NativeError, match=WHAT_TO_DO):
            use()


def test_a_library_that_was_built_meanwhile_is_used(without_library, monkeypatch):
    with pytest.raises(NativeError):
        native.library()
    monkeypatch.setattr(native, "_load", lambda: "the library")
    assert native.library() == "the library"


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["evaluate", "gold.conllu", "gold.conllu"], 6, "/no/library: no such library, named by"),
        (["configs"], 0, ""),
    ],
)
def test_commands_end_with_their_exit_code(words, code, said, tmp_path):
    (tmp_path / "gold.conllu").write_text("1\ta\t_\t_\t_\t_\t0\troot\t_\t_\n\n")
    environment = {**os.environ, "PYTHONPATH": str(ROOT), native.ENVIRONMENT: "/no/library"}
    done = subprocess.run(
        [sys.executable, "-m", "gpuparse", *words],
        cwd=tmp_path, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == code, done.stderr
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.splitlines()) == bool(said)
