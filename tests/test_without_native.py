"""Without the compiled library, what needs it is one clear error."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from unittest.mock import Mock

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
    monkeypatch.setattr(native, "_installed_folder", lambda: tmp_path)


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
    built = Mock(spec=native.Library)
    monkeypatch.setattr(native, "_load", lambda: built)
    assert native.library() is built


@pytest.fixture
def installed(tmp_path: Path) -> dict[str, str]:
    """The environment of a checkout without a library, beside an installed package."""
    checkout, site = tmp_path / "checkout", tmp_path / "site"
    skip = shutil.ignore_patterns("libgpuparse*", "__pycache__")
    for name in ("gpuparse", "native"):
        shutil.copytree(ROOT / name, checkout / name, ignore=skip)
    shutil.copytree(native.library().path.parent, site / "gpuparse" / "_native")
    (site / "gpuparse-0.1.0.dist-info").mkdir()
    (site / "gpuparse-0.1.0.dist-info" / "METADATA").write_text("Name: gpuparse\nVersion: 0.1.0\n")
    paths = os.pathsep.join(map(str, (checkout, site)))
    return {**os.environ, "PYTHONPATH": paths, "PYTHONDONTWRITEBYTECODE": "1"}


@pytest.mark.skipif(native.ENVIRONMENT in os.environ, reason="another library is named")
def test_a_checkout_uses_the_library_of_the_installed_package(installed, tmp_path):
    code = "from gpuparse import native; print(native.__file__, native.library().path)"
    command = [sys.executable, "-c", code]
    options = {"env": installed, "cwd": tmp_path / "checkout", "capture_output": True, "text": True}
    done = subprocess.run(command, **options, check=True)
    module, library = done.stdout.split()
    assert module == str(tmp_path / "checkout" / "gpuparse" / "native.py")
    assert library.startswith(str(tmp_path / "site" / "gpuparse" / "_native" / "libgpuparse"))
    with (tmp_path / "checkout" / "native" / "trees.h").open("a") as file:
        file.write("// changed since\n")
    done = subprocess.run(command, **options, check=False)
    assert done.returncode
    assert "older than its sources: run `python native/build.py` in the checkout" in done.stderr


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["evaluate", "gold.conllu", "gold.conllu"], 6, "/no/library: no such library, named by"),
        (["config", "list"], 0, ""),
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
