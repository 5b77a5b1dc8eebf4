"""A missing package is one error with one exit code, which names the extra."""

import importlib
import re
import sys
import tomllib
from pathlib import Path

import pytest

import gpuparse
from gpuparse.commands import parse, train
from gpuparse.commands.console import run
from gpuparse.errors import EXTRAS, ConfigError, MissingPackageError, require
from gpuparse.jobs.resources import choose_device
from gpuparse.model.folder import save_parser
from tests.synthetic import treebank_file
from tests.test_model import trained

INSTALL = "pip install 'gpuparse[torch]'"


@pytest.fixture
def no_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """torch cannot be imported anew."""
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.setitem(sys.modules, "triton", None)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    save_parser(trained(), folder)
    return folder


def test_every_package_is_in_its_extra() -> None:
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
    for package, extra in EXTRAS.items():
        names = [re.split(r"[^\w.-]", each)[0] for each in project["optional-dependencies"][extra]]
        assert package.replace("_", "-") in names


def test_a_package_that_is_there_is_imported() -> None:
    require("a test", "pyarrow", "pyarrow.parquet")


def test_a_missing_package_is_a_config_error_and_an_import_error(no_torch: None) -> None:
    with pytest.raises(MissingPackageError) as raised:
        require("a test", "torch")
    assert str(raised.value) == f"a test needs torch: {INSTALL}"
    assert isinstance(raised.value, ConfigError)
    assert isinstance(raised.value, ImportError)


def test_a_package_that_is_broken_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "spacy.py").write_text("import no_such_module\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "spacy", raising=False)
    with pytest.raises(MissingPackageError) as raised:
        require("a test", "spacy")
    assert str(raised.value) == (
        "a test needs spacy, which cannot be imported (No module named 'no_such_module'):"
        " pip install 'gpuparse[spacy]'"
    )


@pytest.mark.parametrize(
    ("options", "what"),
    [
        (["--device", "cuda"], "device cuda"),
        (["--engine", "torch"], "engine torch"),
        (["--engine", "triton"], "engine triton"),
    ],
)
def test_parsing_names_the_extra(
    options: list[str], what: str, no_torch: None, model: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(parse.main, [str(model), *options, "-"]) == 2
    error = capfd.readouterr().err.splitlines()[-1]
    assert error == f"gpuparse: error: {what} needs torch: {INSTALL}"
    keys = {options[0].removeprefix("--"): options[1]}
    with pytest.raises(ConfigError, match=f"{what} needs torch"):
        gpuparse.load(model, **keys)


@pytest.mark.parametrize(
    ("key", "what"),
    [("device=cuda", "device cuda"), ("learning.engine=torch", "learning.engine torch")],
)
def test_training_names_the_extra(
    key: str, what: str, no_torch: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    words = ["first-order-projective", f"data.train={treebank_file(20, 1)}", "output=model", key]
    assert run(train.main, words) == 2
    assert f"gpuparse: error: {what} needs torch: {INSTALL}\n" in capfd.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_gpu_that_torch_is_missing_for_is_said(
    no_torch: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpuparse.jobs.resources._has_cuda_driver", lambda: True)
    said: list[str] = []
    assert choose_device("auto", said.append) == "cpu"
    assert said == [f"device: cpu (CUDA needs torch: {INSTALL})"]


def test_the_library_names_the_extra(no_torch: None, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("gpuparse.inference")]:
        monkeypatch.delitem(sys.modules, name)
    inference = importlib.import_module("gpuparse.inference")
    assert "eisner" in inference.DECODERS
    with pytest.raises(ImportError, match=r"^gpuparse\.inference needs torch: pip install"):
        from gpuparse.inference import NonProjectiveTrees  # noqa: F401
    monkeypatch.delitem(sys.modules, "gpuparse.api.torch_struct", raising=False)
    with pytest.raises(ImportError, match=r"^gpuparse\.api\.torch_struct needs torch"):
        importlib.import_module("gpuparse.api.torch_struct")
