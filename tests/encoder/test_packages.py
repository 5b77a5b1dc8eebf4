"""Packages of models with an encoder."""

import numpy as np

from gpuparse.commands import models as command
from gpuparse.commands.console import run
from gpuparse.model.folder import load_parser


def test_weights_are_rounded_to_8_bits_without_learning(models, tmp_path, capsys):
    model = models.model("bert", "of-16-bits", weights__bits=16)
    asked = [str(model), "small", "--version", "1.0", "--license", "MIT", "--unpacked"]
    assert run(command.main, ["package", *asked, "--bits", "8", "--output", str(tmp_path)]) == 0
    made = tmp_path / "small"
    assert str(made) in capsys.readouterr().out
    [before], [after] = (load_parser(folder).scorers for folder in (model, made))
    assert before.quantised is None
    for name, array in before.in_bytes.quantised.arrays.items():
        assert np.array_equal(getattr(after.quantised, name), array)
    for name, array in after.arrays.items():
        assert np.array_equal(before.arrays[name], array)
    sizes = [(folder / "weights.safetensors").stat().st_size for folder in (model, made)]
    assert sizes[1] < sizes[0]
    assert models.parse(made, models.parse(model, b"1\tA\t_\t_\t_\t_\t_\t_\t_\t_\n\n"))
