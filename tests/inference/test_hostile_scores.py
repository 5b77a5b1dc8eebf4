"""Whatever is given in place of scores or lengths, public functions refuse it by name."""

import random

import numpy as np
import pytest
import torch

from gpuparse.errors import ScoreError
from gpuparse.inference import matrix_tree_marginals
from tests.campaign.tensors import AXES, FUNCTIONS, arguments_of

DENSE = torch.zeros(2, 3, 3)
# Anything else that may stand where a tensor is expected.
STRANGE = {
    "list": DENSE.tolist(),
    "array": np.zeros((2, 3, 3)),
    "sparse": DENSE.to_sparse(),
    "meta": DENSE.to("meta"),
    "nested": torch.nested.nested_tensor([DENSE[0], DENSE[1]], layout=torch.jagged),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_what_is_no_dense_tensor_is_refused(name):
    given = arguments_of(name, random.Random(name))
    for key in given:
        if key in AXES:
            for strange in STRANGE.values():
                with pytest.raises(ScoreError):
                    FUNCTIONS[name](**given | {key: strange})


@pytest.mark.parametrize("name", [name for name in FUNCTIONS if name.endswith("_sample")])
def test_lengths_and_counts_are_refused(name):
    given = arguments_of(name, random.Random(name))
    for strange in ({}, "two", [[1]], [None], [2**70], DENSE.to_sparse(), 1.5):
        with pytest.raises(ScoreError):
            FUNCTIONS[name](**given | {"lengths": strange})
    for count in (-1, 2**31, 2**62):
        with pytest.raises(ScoreError, match="n_samples is"):
            FUNCTIONS[name](**given | {"n_samples": count})


@pytest.mark.parametrize("engine", ["torch", "auto"])
def test_marginals_of_a_batch_without_words(engine):
    found = matrix_tree_marginals(torch.zeros(2, 1, 1), [0, 0], engine=engine)
    assert found.tolist() == [[[0.0]], [[0.0]]]
