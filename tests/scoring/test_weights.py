"""Weights as bags, and averages as whole numbers."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from gpuparse.scorers.linear.embedding_bag import bag_of, sum_rows, sum_runs_of_rows
from gpuparse.scorers.linear.weights import Weights, quantised
from gpuparse.scorers.tensors import EXACT_BELOW

CPU = torch.device("cpu")


def test_the_array_of_float_weights_is_the_memory_of_the_bag() -> None:
    weights = Weights(np.zeros((5, 2), np.float32))
    weights.array[3, 1] = 2.5
    assert bag_of(weights, CPU, 100).weight[3, 1] == 2.5
    assert bag_of(weights, CPU, 100).mode == "sum"
    assert sum_rows(weights, torch.tensor([[3, 3, 0]])).tolist() == [[0.0, 5.0]]


def test_one_row_past_the_last_stays_out_of_the_sums() -> None:
    weights = Weights(np.ones((4, 1), np.int8))
    rows = torch.tensor([[[0, 1, 4], [4, 4, 4]]])
    assert sum_rows(weights, rows).tolist() == [[[2.0], [0.0]]]


@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.int16])
@pytest.mark.parametrize("width", [1, 3])
def test_bags_of_different_sizes_have_the_sums_of_bags_of_one(dtype: type, width: int) -> None:
    rng = np.random.default_rng(width)
    weights = Weights(rng.integers(-99, 99, (50, width)).astype(dtype))
    sizes = torch.tensor([0, 3, 0, 1, 7, 0])
    rows = torch.from_numpy(rng.integers(0, 51, (11, 2)))  # one row past the last among them
    found = sum_runs_of_rows(weights, rows, sizes.cumsum(0) - sizes, 14)
    assert found.dtype == (torch.float32 if dtype == np.float32 else torch.float64)
    expected = [sum_rows(weights, bag.reshape(1, -1))[0] for bag in rows.split(sizes.tolist())]
    assert torch.equal(found, torch.stack(expected))


def test_bags_go_to_double_precision_where_single_would_round() -> None:
    weights = Weights(np.full((3, 1), 32767, np.int16))
    few = EXACT_BELOW // 32767
    assert few * 32767 < EXACT_BELOW
    assert bag_of(weights, CPU, few).weight.dtype == torch.float32
    assert bag_of(weights, CPU, few + 1).weight.dtype == torch.float64
    odd = torch.full((1, 1025), 2)
    assert int(sum_rows(weights, odd)) == 1025 * 32767


def test_the_lowest_number_counts_as_the_largest() -> None:
    weights = Weights(np.array([[-32768], [1]], np.int16))
    assert bag_of(weights, CPU, 511).weight.dtype == torch.float32
    assert bag_of(weights, CPU, 512).weight.dtype == torch.float64


def test_other_types_are_refused() -> None:
    for dtype in (np.float64, np.int32, np.uint8, np.float16):
        with pytest.raises(TypeError, match="float32, int8 or int16"):
            Weights(np.zeros((2, 1), dtype))


MAGNITUDES = st.floats(2.0**-60, 2.0**20, width=32)
AVERAGES = st.just(0.0) | MAGNITUDES | MAGNITUDES.map(lambda x: -x)


@settings(deadline=None)
@given(
    hnp.arrays(np.float32, st.integers(1, 30), elements=AVERAGES),
    st.sampled_from([8, 16]),
)
def test_whole_numbers_keep_the_ratios_to_half_a_step(averages: np.ndarray, bits: int) -> None:
    found, scale = quantised(averages, bits)
    end = 2 ** (bits - 1) - 1
    assert found.dtype == (np.int8 if bits == 8 else np.int16)
    largest = np.abs(averages).max()
    if largest == 0:
        assert not found.any()
        assert scale == 1
        return
    assert np.abs(found.astype(int)).max() == end
    exact = averages.astype(np.float64) / largest * end
    assert np.abs(found - exact).max() <= 0.5 + 0.01
    assert scale == pytest.approx(end / largest)
    assert np.array_equal(np.sign(found) * np.sign(averages) >= 0, np.full(len(found), True))
    assert not found[averages == 0].any()


@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.int16])
@pytest.mark.parametrize("width", [1, 3])
@pytest.mark.parametrize("shape", [(4, 0), (0, 2), (2, 3, 5), (2, 3, 4, 6)])
def test_a_sum_of_rows_is_that_of_the_definition(
    dtype: type, width: int, shape: tuple[int, ...], device: torch.device
) -> None:
    """nn.EmbeddingBag, and what is faster on CUDA, are w . f with f counted row by row."""
    rng = np.random.default_rng(1)
    weights = Weights(rng.integers(-100, 100, (7, width)).astype(dtype))
    rows = rng.integers(0, 8, shape)
    counts = (rows[..., np.newaxis] == np.arange(8)).sum(-2)[..., :7]
    found = sum_rows(weights, torch.from_numpy(rows).to(device))
    assert found.cpu().numpy().tolist() == (counts @ weights.array.astype(np.int64)).tolist()
    assert found.dtype == (torch.float32 if dtype == np.float32 else torch.float64)
