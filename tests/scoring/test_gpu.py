"""Triton's kernels of scoring: equal to compiled code, and what they become on a GPU."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from gpuparse.data.batch import MARGIN, Batch
from gpuparse.scoring.arcs import arc_scores
from gpuparse.scoring.labels import best_arc_labels, best_labels
from gpuparse.scoring.siblings import sibling_scores
from gpuparse.scoring.tensors import TensorBatch, as_tensors
from gpuparse.scoring.weights import Weights
from tests.inference.decoders import TRITON, skip_unless_it_reads
from tests.scoring import test_arcs as arcs
from tests.scoring import test_joint as joint
from tests.scoring import test_labels as labels
from tests.scoring import test_siblings as siblings
from tests.scoring.test_siblings import cells  # noqa: F401

pytest.importorskip("triton", reason="Triton is not installed")

pytestmark = TRITON

# Kinds of maps and types of weights, each met once at least.
CASES = [(1 << 14, np.int16), (100_003, np.int8), (100, np.float32)]
every_case = pytest.mark.parametrize(("kind", "dtype"), CASES)


@every_case
@pytest.mark.parametrize("name", arcs.TEMPLATES)
def test_arcs(name: str, kind: int, dtype: type, device: torch.device) -> None:
    skip_unless_it_reads("gpu", device)
    batch, plan, features = arcs.prepared(arcs.TEMPLATES[name], kind)
    weights = arcs.random_weights(dtype, plan, features)
    expected = arc_scores(batch, plan, features, weights, backend="cpu")
    found = arc_scores(as_tensors(batch).to(device), plan, features, weights, backend="gpu")
    assert found.dtype == expected.dtype
    every = arcs.arcs_of(batch)
    mine, its = (arcs.values_at(scores.cpu(), every) for scores in (found, expected))
    if dtype is np.float32:
        np.testing.assert_allclose(mine, its, rtol=1e-5, atol=2e-4)
    else:
        np.testing.assert_array_equal(mine, its)
    assert len(np.unique(its)) > 50


@every_case
@pytest.mark.parametrize("name", ["mixed", "mcdonald-pereira-2006", "pairs"])
def test_siblings_and_ends(
    name: str, kind: int, dtype: type, cells: str, device: torch.device  # noqa: F811
) -> None:  # fmt: skip
    skip_unless_it_reads("gpu", device)
    some = siblings.SENTENCES[:4] + siblings.SENTENCES[-1:]
    batch, plan, features = siblings.prepared(siblings.TEMPLATES[name], kind, some)
    weights = siblings.random_weights(dtype, plan, features)
    given = plan.siblings, features, weights
    expected = sibling_scores(batch, *given, backend="cpu")
    found = sibling_scores(as_tensors(batch).to(device), *given, backend="gpu")
    parts = siblings.parts_of(batch)
    on_cpu = found[0].cpu(), found[1].cpu()
    mine, its = (siblings.values_at(scores, parts) for scores in (on_cpu, expected))
    if dtype is np.float32:
        np.testing.assert_allclose(mine, its, rtol=1e-5, atol=2e-4)
    else:
        np.testing.assert_array_equal(mine, its)


@pytest.mark.parametrize("name", ["", "labels"])
@pytest.mark.parametrize(("dtype", "spread"), [(np.int16, 32767), (np.int8, 1), (np.float32, 5)])
@pytest.mark.parametrize(("n_lines", "n_labels"), [(1, 2), (7, 11), (4096, 1), (4096, 17)])
def test_labels(
    name: str, dtype: type, spread: int, n_lines: int, n_labels: int, device: torch.device
) -> None:
    skip_unless_it_reads("gpu", device)
    batch, plan = labels.prepared(labels.SENTENCES[:6], name)
    heads = labels.padded_heads(labels.SENTENCES[:6])
    rng = np.random.default_rng(n_lines)
    # Small whole numbers as floats: no rounding, so the same label for certain.
    lines = rng.integers(-spread, spread + 1, (n_lines, n_labels)).astype(dtype)
    expected = best_labels(batch, heads, plan, Weights(lines), backend="cpu")
    found = best_labels(
        as_tensors(batch).to(device), heads.to(device), plan, Weights(lines), backend="gpu"
    )
    assert torch.equal(found.cpu(), expected)


@pytest.mark.parametrize("dtype", [np.int8, np.int16])
@pytest.mark.parametrize(("n_lines", "width"), [(1 << 10, 1), (1 << 10, 13), (1008, 130)])
def test_joint_labels(dtype: type, n_lines: int, width: int, device: torch.device) -> None:
    skip_unless_it_reads("gpu", device)
    batch, plan = joint.prepared()
    batch = batch.select(np.arange(0, len(batch), 2))
    weights = joint.random_lines(n_lines, width, dtype)
    expected = best_arc_labels(batch, plan, weights)
    found = best_arc_labels(as_tensors(batch).to(device), plan, weights, backend="gpu")
    for mine, its in zip(found, expected, strict=True):
        for b, h, m in arcs.arcs_of(batch):
            assert mine[b, h, m] == its[b, h, m]


def test_a_sentence_without_a_word_has_no_labels(device: torch.device) -> None:
    skip_unless_it_reads("gpu", device)
    batch, plan = labels.prepared(labels.SENTENCES[:1])
    none = as_tensors(Batch(batch.values, batch.starts, np.zeros(1, np.int64))).to(device)
    heads = torch.full((1, 1), -1, device=device)
    weights = Weights(np.ones((16, 3), np.int8))
    assert best_labels(none, heads, plan, weights, backend="gpu").tolist() == [[-1]]


def test_scores_depend_on_nothing_else_in_a_batch(device: torch.device) -> None:
    """Not even the last bits of floats; and values may be a part of larger ones."""
    skip_unless_it_reads("gpu", device)
    batch, plan, features = siblings.prepared(siblings.TEMPLATES["mixed"], 1 << 14)
    weights = siblings.random_weights(np.float32, plan, features)
    whole = as_tensors(batch).to(device)
    one = np.argsort(batch.lengths, kind="stable")[-2:-1]
    n = batch.lengths[one].item()
    low = batch.starts[one].item() - MARGIN
    high = low + n + 2 * MARGIN
    alone = TensorBatch(
        whole.values[:, low : high + 1],
        torch.tensor([MARGIN], device=device),
        torch.from_numpy(batch.lengths[one]).to(device),
    )
    assert n > 2
    found = []
    for some, b in ((whole, one.item()), (alone, 0)):
        given = features, weights
        arcs_found = arc_scores(some, plan.arcs, *given, backend="gpu")
        pair = sibling_scores(some, plan.siblings, *given, backend="gpu")
        scores = siblings.values_at(
            siblings.of_sentence((pair[0].cpu(), pair[1].cpu()), b), siblings.parts_over(n)
        )
        word = torch.ones(n + 1, n + 1, dtype=torch.bool).fill_diagonal_(False)
        word[:, 0] = False
        found.append((arcs_found[b, : n + 1, : n + 1].cpu()[word].numpy(), scores))
    for mine, its in zip(*found, strict=True):
        np.testing.assert_array_equal(mine, its)


def test_batches_of_nothing() -> None:
    batch, plan, features = siblings.prepared(siblings.TEMPLATES["mixed"], 1 << 14)
    weights = siblings.random_weights(np.int16, plan, features)
    none = batch.select(np.arange(0))
    assert arc_scores(none, plan.arcs, features, weights, backend="gpu").shape == (0, 1, 1)
    found = sibling_scores(none, plan.siblings, features, weights, backend="gpu")
    assert [scores.shape for scores in found] == [(0, 1, 1, 1), (0, 1, 1)]


def test_kernels_compile_for_a_gpu_that_need_not_be_there(tmp_path: Path) -> None:
    """Nothing is spilled, and what kernels write is not read through the cache of constants."""
    environment = {key: value for key, value in os.environ.items() if key != "TRITON_INTERPRET"}
    environment |= {"TRITON_CACHE_DIR": str(tmp_path), "PYTHONPATH": "."}
    done = subprocess.run(
        [sys.executable, "tests/scoring/compile_kernels.py"],
        check=True, capture_output=True, text=True, env=environment, cwd=Path(__file__).parents[2],
    )  # fmt: skip
    launches = [json.loads(line) for line in done.stdout.splitlines()]
    assert {launch["kernel"] for launch in launches} == {
        "_fill_parts", "_sum_words", "_score_arcs", "_fill_places", "_score_alone",
        "_score_triples", "_label_words", "_sum_word_lines", "_label_arcs",
        "_fill_vectors", "_score_pairs", "_score_labels",
    }  # fmt: skip
    for launch in launches:
        assert launch["nc"] == 0
        if "STACK" in launch:  # cuobjdump comes with this Triton
            assert launch["STACK"] == launch["LOCAL"] == 0, launch
            assert launch["REG"] <= 128, launch
