"""Scores on a GPU are those of main memory, to the last bit for whole-number weights."""

import numpy as np
import pytest
import torch

from gpuparse.scorers.linear.labels import all_label_scores
from gpuparse.scorers.linear.weights import Weights
from tests.labels import best_labels
from tests.scoring import test_dense_parts as parts
from tests.scoring import test_joint as joint
from tests.scoring import test_labels as labels
from tests.scoring.forms import as_tensors
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
    batch, plan, features = parts.prepared(parts.TEMPLATES["extended"], kind)
    weights = parts.random_weights(dtype, plan, features)
    found, expected = (
        parts.scored(some, plan, features, weights, "torch")
        for some in (as_tensors(batch).to(CUDA), as_tensors(batch))
    )
    assert list(found) == ["arc", "sibling", "end"]
    for name, scores in found.items():
        assert_same(scores, expected[name])


@pytest.mark.parametrize("dtype", [np.int8, np.int16])
def test_labels(dtype: type) -> None:
    batch, plan = labels.prepared("labels")
    heads, _ = labels.padded(labels.GRAPHS)
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
    b, h, m = torch.tensor(
        [
            (b, h, m)
            for b, n in enumerate(batch.lengths.tolist())
            for h in range(n + 1) for m in range(1, n + 1) if h != m
        ]
    ).T  # fmt: skip
    on_device = (each.to(CUDA) for each in (b, h, m))
    assert_same(found.labels(*on_device), expected.labels(b, h, m))
