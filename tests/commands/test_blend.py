"""`blend`: what it writes and says, and that a failure leaves nothing behind."""

import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpuparse.commands import blend, calibrate, parse
from gpuparse.commands.console import run
from gpuparse.files import lock_folder
from gpuparse.jobs.card import README, read_card
from gpuparse.model_folder import CONFIG, WEIGHTS, load_parser, save_parser
from gpuparse.scorers.linear.weights import Weights
from tests.parsers import parser_with


@pytest.fixture
def call(capfdbinary: Any) -> Any:
    """Blend in this process; (exit code, stdout, lines of stderr)."""

    def blended(*words: object, main: Any = blend.main) -> tuple[int, bytes, list[str]]:
        try:
            code = run(main, list(map(str, words)))
        except SystemExit as done:  # by argparse
            code = int(done.code or 0)
        captured = capfdbinary.readouterr()
        return code, captured.out, captured.err.decode().splitlines()

    return blended


@pytest.fixture(scope="module")
def other(trained: Any, tmp_path_factory: Any) -> Path:
    """A model with the weights of another order of learning, as it were."""
    folder = tmp_path_factory.mktemp("other")
    model = load_parser(trained.model)
    moved = np.where(np.arange(len(model.linear.arcs.array)) % 3 == 0, -1, 1)[:, np.newaxis]
    array = (model.linear.arcs.array * moved).astype(model.linear.arcs.array.dtype)
    save_parser(
        parser_with(
            model, arcs=Weights(array), scales=model.scales._replace(arc=2 * model.scales.arc)
        ),
        folder,
    )
    return folder


def test_a_blend_has_no_card_of_one_of_its_models(
    trained: Any, other: Path, call: Any, tmp_path: Path
) -> None:
    output = tmp_path / "model"
    shutil.copytree(trained.model, output)
    assert read_card(output) is not None
    assert call(output, trained.model, other, "--force")[0] == 0
    assert read_card(output) is None
    assert not (output / README).exists()


def test_a_model_of_two(trained: Any, other: Path, call: Any, tmp_path: Path) -> None:
    output = tmp_path / "new" / "model"
    code, out, lines = call(output, trained.model, other)
    assert (code, out) == (0, b"")
    assert lines[0].startswith(f"gpuparse: {trained.model}: weight 0.5, of labels 0.5, ")
    assert lines[2].startswith(f"gpuparse: {output}: one model of 2, chu_liu_edmonds, templates of")
    assert "not calibrated: gpuparse calibrate" in lines[3]
    model, parts = load_parser(output), [load_parser(trained.model), load_parser(other)]
    exact = sum(0.5 * part.scales.arc * part.linear.arcs.array for part in parts)
    assert (
        np.abs(model.linear.arcs.array * model.scales.arc - exact).max() <= 0.51 * model.scales.arc
    )
    recorded = (output / CONFIG).read_text()
    assert len(re.findall("^# blended: weight 0.5, .* [0-9a-f]{64}$", recorded, re.M)) == 2
    assert recorded.endswith(parts[0].config)
    content = (output / WEIGHTS).read_bytes()
    assert call(output, trained.model, other, "--force", "--quiet") == (0, b"", [])
    assert (output / WEIGHTS).read_bytes() == content
    parsed = call(output, trained.test, "--quiet", main=parse.main)
    assert parsed[0] == 0
    assert parsed == call(output, trained.test, "--quiet", "--backend", "torch", main=parse.main)
    fitted = tmp_path / "fitted"
    assert call(output, trained.test, "--output", fitted, main=calibrate.main)[0] == 0
    assert load_parser(fitted).scales.is_calibrated


def test_weights(trained: Any, other: Path, call: Any, tmp_path: Path) -> None:
    words = [tmp_path / "a", trained.model, other, "--weights", 1, 0.25, "--label-weights", 1, 3]
    code, _, lines = call(*words)
    assert code == 0
    assert "weight 0.25, of labels 3" in lines[1]
    model, parts = load_parser(tmp_path / "a"), [load_parser(trained.model), load_parser(other)]
    exact = sum(
        w * p.scales.arc * p.linear.arcs.array for w, p in zip((1, 0.25), parts, strict=True)
    )
    assert (
        np.abs(model.linear.arcs.array * model.scales.arc - exact).max() <= 0.51 * model.scales.arc
    )


def test_an_output_is_not_written_over(trained: Any, other: Path, call: Any, tmp_path: Path):
    before = (trained.model / WEIGHTS).read_bytes()
    code, _, lines = call(trained.model, trained.model, other)
    assert (code, lines) == (
        2, [f"gpuparse: error: {trained.model}: holds a model; give --force to replace it"]
    )  # fmt: skip
    assert (trained.model / WEIGHTS).read_bytes() == before
    (tmp_path / "file").write_text("mine")
    assert call(tmp_path, trained.model, other)[0] == 2
    assert call(tmp_path / "file", trained.model, other)[0] == 2
    assert call(tmp_path / "file", trained.model, other, "--force")[0] == 2
    assert (tmp_path / "file").read_text() == "mine"
    with lock_folder(tmp_path / "locked"):
        code, _, lines = call(tmp_path / "locked", trained.model, other, "--force")
    assert code == 2
    assert "another process is writing there" in lines[-1]
    copy = tmp_path / "copy"
    shutil.copytree(trained.model, copy)
    assert call(copy, copy, other, "--force")[0] == 0
    assert "# blended" in load_parser(copy).config


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "two models are needed at least"),
        (["MODEL", "--weights", "1"], "--weights: 1 weight for 2 models"),
        (["MODEL", "--label-weights", "1", "1", "1"], "--label-weights: 3 weights for 2 models"),
        (["MODEL", "--weights", "1", "0"], "number from 0.001 to 1000"),
        (["MODEL", "--weights", "1", "nan"], "number from 0.001 to 1000"),
        (["MODEL", "--weights", "1", "-1"], "--weights"),
    ],
)
def test_wrong_command_lines(
    words: list[str], message: str, trained: Any, other: Path, call: Any, tmp_path: Path
) -> None:
    words = [str(other) if word == "MODEL" else word for word in words]
    code, out, lines = call(tmp_path / "new", trained.model, *words)
    assert (code, out) == (2, b"")
    assert message in lines[-1]
    assert not (tmp_path / "new").exists()


def test_models_that_cannot_be_used(trained: Any, other: Path, call: Any, tmp_path: Path) -> None:
    new, damaged = tmp_path / "new", tmp_path / "damaged"
    assert call(new, trained.model, tmp_path / "none")[0] == 4
    shutil.copytree(other, damaged)
    content = bytearray((damaged / WEIGHTS).read_bytes())
    content[len(content) // 2] ^= 1
    (damaged / WEIGHTS).write_bytes(content)
    code, _, lines = call(new, trained.model, damaged)
    assert code == 4
    assert "damaged" in lines[-1]
    eisner = tmp_path / "eisner"
    eisner.mkdir()
    save_parser(replace(load_parser(other), decoder="eisner"), eisner)
    code, _, lines = call(new, trained.model, eisner)
    assert code == 2
    assert lines[-1].startswith(f"gpuparse: error: {trained.model} and {eisner} cannot be blended")
    assert not new.exists()
