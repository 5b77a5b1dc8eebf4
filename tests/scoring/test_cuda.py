"""Scores on a GPU are those of main memory, to the last bit for whole-number weights."""

import numpy as np
import pytest
import torch

from gpuparse.scorers.linear.labels import all_label_scores
from gpuparse.scorers.linear.weights import Weights
from tests.labels import best_labels
from tests.scoring import test_arcs as arcs
from tests.scoring import test_joint as joint
from tests.scoring import test_labels as labels
from tests.scoring import test_siblings as siblings
from tests.scoring.forms import arc_scores, as_tensors, sibling_scores
from tests.scoring.test_word_vectors import sample_vectors
from tests.vectors import nodes_of

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device on this machine"),
]
CUDA = torch.device("cuda")
every_type = pytest.mark.parametrize("dtype", [np.int8, np.int16, np.float32])


def assert_same(found: torch.Tensor, expected: torch.Tensor) -> None:
    assert found.device.type == "cuda"
    assert found.dtype == expected.dtype
    if expected.dtype == torch.float32:
        torch.testing.assert_close(found.cpu(), expected, rtol=1e-5, atol=2e-4)
    else:
        assert torch.equal(found.cpu(), expected)
    assert len(expected.unique()) > 1


@every_type
@pytest.mark.parametrize("kind", [1 << 14, 100_003])
def test_arcs_and_siblings(kind: int, dtype: type) -> None:
    batch, plan, features = siblings.prepared(siblings.TEMPLATES["extended"], kind)
    weights = siblings.random_weights(dtype, plan, features)
    for score, of_parts in ((arc_scores, plan.arcs), (sibling_scores, plan.siblings)):
        both = (as_tensors(batch).to(CUDA), as_tensors(batch))
        found, expected = (
            score(some, of_parts, features, weights, engine="torch") for some in both
        )
        pairs = [(found, expected)] if score is arc_scores else zip(found, expected, strict=True)
        for mine, its in pairs:
            assert_same(mine, its)


@pytest.mark.parametrize("dtype", [np.int8, np.int16])
def test_labels(dtype: type) -> None:
    batch, plan = labels.prepared(labels.SENTENCES, "labels")
    heads = labels.padded_heads(labels.SENTENCES)
    some = as_tensors(batch)
    lines = np.random.default_rng(1).integers(-99, 99, (1008, 17)).astype(dtype)
    given = plan, Weights(lines)
    found = best_labels(some.to(CUDA), heads.to(CUDA), *given, engine="torch")
    assert_same(found, best_labels(some, heads, *given, engine="torch"))
    batch, of_arcs = joint.prepared()
    weights = joint.random_lines(1008, 130, dtype)
    some = as_tensors(batch)
    assert_same(
        all_label_scores(some.to(CUDA), of_arcs, weights),
        all_label_scores(some, of_arcs, weights),
    )


@pytest.mark.parametrize("hidden", [0, 64])
def test_word_vectors(hidden: int) -> None:
    batch, vectors = sample_vectors(hidden, 33, 40, sibling=5)
    some = as_tensors(batch)
    found, expected = nodes_of(some.to(CUDA), vectors), nodes_of(some, vectors)
    assert_same(found.arcs(), expected.arcs())
    assert_same(found.pairs("sibling"), expected.pairs("sibling"))
    b, h, m = torch.tensor(arcs.arcs_of(batch)).T
    on_device = (each.to(CUDA) for each in (b, h, m))
    assert_same(found.labels(*on_device), expected.labels(b, h, m))
