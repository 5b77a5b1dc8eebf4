"""Triton's kernels on a few small sentences; the tests marked `triton` do it at length."""

import numpy as np
import pytest
import torch

from gpuparse import inference
from gpuparse.inference.engines import has_triton
from tests.inference.decoders import HAS_GPU
from tests.samples import random_sentences, treebank_of
from tests.strategies import integer_scores, integer_siblings
from tests.test_model import trained

pytestmark = [
    pytest.mark.skipif(not has_triton(), reason="Triton is not installed"),
    pytest.mark.skipif(HAS_GPU, reason="with a GPU, the tests marked gpu run all of it"),
]
LENGTHS = torch.tensor([1, 2, 3, 4])


@pytest.mark.parametrize("single_root", [False, True], ids=["multi", "single"])
@pytest.mark.parametrize("name", inference.with_quantity("best", "triton"))
def test_search(name: str, single_root: bool) -> None:
    rng = np.random.default_rng(1)
    arcs = torch.from_numpy(integer_scores(rng, len(LENGTHS), 4))
    siblings = torch.from_numpy(integer_siblings(rng, len(LENGTHS), 4))
    scores = (arcs, siblings) if name == "eisner_sibling" else (arcs,)
    search = getattr(inference, name)
    found = search(*scores, LENGTHS, single_root=single_root, engine="triton")
    expected = search(*scores, LENGTHS, single_root=single_root, engine="torch")
    assert all(torch.equal(mine, its) for mine, its in zip(found, expected, strict=True))


@pytest.mark.parametrize("decoder", ["eisner", "eisner_sibling"])
def test_parsing(decoder: str) -> None:
    model = trained(decoder=decoder)
    treebank = treebank_of([random_sentences(n, 1, n)[0] for n in (2, 4)])
    found, expected = model.parse(treebank, engine="triton"), model.parse(treebank)
    np.testing.assert_array_equal(found.heads, expected.heads)
    np.testing.assert_array_equal(found.labels, expected.labels)
