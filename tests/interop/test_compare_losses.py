"""The example that compares losses learns a few sentences with each of them."""

import runpy
import sys
from pathlib import Path

import pytest

from tests.synthetic import generate

EXAMPLE = Path(__file__).parents[2] / "examples" / "compare_losses.py"


@pytest.mark.parametrize("loss", ["conditional", "local", "hinge", "risk"])
def test_curves(loss, tmp_path, monkeypatch, capsys):
    file = tmp_path / "trees.conllu"
    file.write_bytes(generate(8, 1))
    given = ["--loss", loss, "--warm", "20", "--seconds", "1", "--every", "0.5", "--rate", "0.01"]
    monkeypatch.setattr(sys, "argv", [str(EXAMPLE), str(file), str(file), *given])
    runpy.run_path(str(EXAMPLE), run_name="__main__")
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) >= 2
    assert float(lines[-1].split(": ")[1]) > 60, lines
