"""Sums of weights by Triton kernels: their hash, and the sums over rows that bags define."""

import random
from types import ModuleType

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuparse.features import plan as plan_module
from gpuparse.features.templates import load_templates, parse_set
from gpuparse.inference.engines import has_triton
from gpuparse.scorers.linear.hashing import fold, mix
from gpuparse.scorers.tensors import TensorBatch
from tests.inference.decoders import HAS_GPU, TRITON
from tests.samples import random_sentence, template_set_text
from tests.scoring.forms import as_tensors
from tests.scoring.test_dense_parts import (
    CELLS,
    MAPS,
    MIXED,
    SENTENCES,
    TEMPLATES,
    assert_scores_are_sums,
    parts_of,
    parts_over,
    prepared,
    random_weights,
    scored,
    summed,
    values_at,
)

pytestmark = pytest.mark.skipif(not has_triton(), reason="Triton is not installed")
DEVICE = torch.device("cuda" if HAS_GPU else "cpu")
FEW = SENTENCES[:2] + SENTENCES[-1:]


@pytest.fixture
def kernels() -> ModuleType:
    """The module of kernels."""
    from gpuparse.scorers.linear import triton_sums

    return triton_sums


@TRITON
@pytest.mark.parametrize("lone_root", [False, True])
def test_the_hash_of_any_ids_is_that_of_the_definition(
    kernels: ModuleType, lone_root: bool
) -> None:
    rng, ends = np.random.default_rng(1), np.iinfo(np.int32)
    lengths = torch.tensor([5, 60, 300, 1], device=DEVICE)
    starts = torch.tensor([3, 14, 80, 386], device=DEVICE)
    values = torch.from_numpy(rng.integers(0, ends.max, (4, 400), np.int32, endpoint=True))
    values[:, ::7], values[1, ::11] = ends.max, 0
    batch = TensorBatch(values.to(DEVICE), starts, lengths, 300)
    atoms = np.array([[0, 0], [1, -1], [2, 3], [3, 0]])
    first, end = np.array([0, 0, 1, 3, 2]), np.array([1, 3, 4, 4, 2])  # the last reads nothing
    seeds = np.array([1, 0, 77, (1 << 31) + 5, 3])
    tables = kernels.KernelArcs.__new__(kernels.KernelArcs)
    columns = {"silent": -5, "is_hashed": 1, "seed": seeds, "most": 0xFFFFFFFF}
    tables.looks = torch.from_numpy(kernels.kernel_tables.looks(first, end, **columns)).to(DEVICE)
    tables.atoms = torch.from_numpy(atoms).to(DEVICE)
    found = kernels.word_numbers(batch, tables, lone_root=lone_root).cpu().reshape(5, 4, 301)
    places, nodes, wide = batch.places().cpu(), torch.arange(301), values.long()
    for look in range(len(seeds)):
        key, is_there = torch.zeros_like(places), torch.ones_like(places, dtype=torch.bool)
        for row, offset in atoms[first[look] : end[look]].tolist():
            value = wide[row, (places + offset).clamp(0, 399)]
            key, is_there = fold(key, value), is_there & (value != 0)
            if lone_root and offset:
                is_there = is_there & (nodes > 0)
        expected = torch.where(is_there, mix(key, int(seeds[look])), -5)
        assert torch.equal(found[look], expected)
    assert (found == -5).any()


@TRITON
@pytest.mark.parametrize(
    ("name", "dtype", "kind", "cells"),
    [("mixed", dtype, kind, "direct") for dtype in (np.int8, np.int16, np.float32) for kind in MAPS]
    + [(name, np.int16, MAPS[0], "direct") for name in TEMPLATES if name != "mixed"]
    + [("extended", np.float32, MAPS[1], "hashed"), ("mixed", np.int16, MAPS[1], "hashed")],
)
def test_kernels_sum_the_rows_of_parts(
    name: str, dtype: type, kind: int, cells: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for limit, cell in zip(("MAX_TRIPLE_CELLS", "HASHED_TRIPLE_CELLS"), CELLS[cells], strict=True):
        monkeypatch.setattr(plan_module, limit, cell)
    batch, plan, features = prepared(TEMPLATES[name].expanded(["Case"]), kind, FEW)
    weights = random_weights(dtype, plan, features)
    assert assert_scores_are_sums(batch, plan, features, weights, ["triton"]) > 10


@TRITON
@pytest.mark.parametrize("dtype", [np.int16, np.float32])
@pytest.mark.parametrize("name", ["mixed", "mcdonald-pereira-2006"])
def test_kernels_score_as_the_bags_in_any_batch(
    kernels: ModuleType, name: str, dtype: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    """float32 is summed in one order, whatever the batch; sentences have several programs."""
    monkeypatch.setattr(kernels, "MOST_LANES", 32)
    batch, plan, features = prepared(TEMPLATES[name].expanded(["Case"]), 100_003, FEW)
    weights = random_weights(dtype, plan, features)
    ours, bags = (scored(batch, plan, features, weights, engine) for engine in ("triton", "torch"))
    parts = parts_of(batch, plan)
    found, expected = values_at(ours, parts), values_at(bags, parts)
    if dtype is np.int16:
        assert np.array_equal(found, expected)
    else:
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=2e-4)
    for b, n in enumerate(batch.lengths.tolist()):
        alone = scored(batch.select(np.array([b])), plan, features, weights, "triton")
        one = {part: of_part[b : b + 1] for part, of_part in ours.items()}
        assert np.array_equal(
            values_at(one, parts_over(n, plan)), values_at(alone, parts_over(n, plan))
        )


@TRITON
def test_sums_that_32_bits_do_not_hold_are_exact(
    kernels: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The largest weights are summed with each type of sums."""
    sentence = random_sentence(random.Random(5), 14)
    batch, plan, features = prepared(MIXED, 1 << 12, [sentence])
    weights = random_weights(np.int16, plan, features, extremes=True)
    parts = parts_of(batch, plan)
    expected = summed(batch, plan, features, weights, parts)
    for most, dtype in ((kernels.MOST_INT32, torch.int32), (1 << 15, torch.int64)):
        monkeypatch.setattr(kernels, "MOST_INT32", most)
        sums = kernels.PairSums(as_tensors(batch).to(DEVICE), plan.arcs, features, weights, 100)
        assert sums.dtype == dtype
        assert np.array_equal(
            values_at(scored(batch, plan, features, weights, "triton"), parts), expected
        )


@TRITON
def test_no_sentences_and_no_templates() -> None:
    batch, plan, features = prepared(MIXED, 1 << 12, FEW)
    weights = random_weights(np.int16, plan, features)
    found = scored(batch.select(np.zeros(0, np.int64)), plan, features, weights, "triton")
    assert [(each.ndim, len(each)) for each in found.values()] == [(3, 0), (4, 0), (3, 0)]
    batch, plan, features = prepared(load_templates("vectors"), 16, FEW)
    found = scored(batch, plan, features, random_weights(np.int16, plan, features), "triton")
    assert len(found) == 3
    assert not any(each.any() for each in found.values())


@TRITON
@settings(deadline=None, max_examples=15)
@given(
    st.lists(st.sampled_from([str(t) for t in MIXED.arc]), min_size=1, unique=True),
    st.lists(st.sampled_from([str(t) for t in MIXED.sibling]), min_size=1, unique=True),
    st.lists(st.sampled_from([str(t) for t in MIXED.end]), unique=True),
    st.sampled_from([16, 1000, 1 << 12]),
    st.integers(0, 1000),
)
def test_any_templates(
    arc: list[str], sibling: list[str], end: list[str], kind: int, seed: int
) -> None:
    templates = parse_set(template_set_text(arc=arc, sibling=sibling, end=end), "some")
    batch, plan, features = prepared(templates, kind, FEW[1:])
    weights = random_weights(np.int8, plan, features, seed)
    assert_scores_are_sums(batch, plan, features, weights, ["triton"])
