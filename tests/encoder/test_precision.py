"""An encoder in bfloat16: learned, stored, and near to float32."""

from dataclasses import replace

import numpy as np
import pytest

from gpuparse.data.conll import treebank_from_bytes
from gpuparse.model.folder import load_parser


def states(scorer, treebank) -> np.ndarray:
    import torch

    return scorer.in_torch().send(scorer.encode(treebank), torch.device("cpu")).numpy()


@pytest.mark.parametrize("family", ["bert", "modernbert"])
def test_a_model_is_learned_and_parses_in_bfloat16(models, family):
    keys = {"weights__bits": 16, "encoder__precision": "bfloat16"}
    folder = models.model(family, "bfloat16", **keys)
    once, again = (models.parse(folder, models.forms) for _ in range(2))
    assert once == again
    [scorer] = load_parser(folder).scorers
    assert scorer.precision == "bfloat16"
    treebank = treebank_from_bytes(models.gold, "gold")
    coarse, fine = (
        states(each, treebank) for each in (scorer, replace(scorer, precision="float32"))
    )
    assert 1e-6 < np.linalg.norm(coarse - fine) / np.linalg.norm(fine) < 0.03
