"""Row maps: rows in their bounds, spread as evenly as chance, the same in both forms."""

import numpy as np
import pytest
import torch

from gpuparse.errors import ConfigError
from gpuparse.features.plan import LINE
from gpuparse.scorers.linear.hashing import fold, mix
from gpuparse.scorers.linear.plan_tensors import row_finder
from gpuparse.scorers.linear.weights import FeatureMap, hashed_map

SIZES = [16, 48, 1000, 1 << 16, 100_003, 1 << 20, 1_000_003]


def base_rows(features: FeatureMap, keys: torch.Tensor) -> torch.Tensor:
    return row_finder(features)(keys)


def keys_of_pairs(seed: int, heads: int, modifiers: int) -> torch.Tensor:
    """Keys of one family for small consecutive values, the kind that vocabularies give."""
    zero = torch.zeros((), dtype=torch.int64)
    head = mix(fold(zero, torch.arange(heads)), 2 * seed)
    modifier = mix(fold(zero, torch.arange(modifiers)), 2 * seed + 1)
    return (head.unsqueeze(1) ^ modifier).reshape(-1)


def keys_of_words(seed: int, firsts: int, seconds: int) -> torch.Tensor:
    """Keys of a family that looks at two values of one word."""
    zero = torch.zeros((), dtype=torch.int64)
    first = fold(zero, torch.arange(firsts)).unsqueeze(1)
    return mix(fold(first, torch.arange(seconds)), 2 * seed).reshape(-1)


@pytest.mark.parametrize("size", SIZES)
def test_all_codes_stay_in_the_line_and_the_table(size: int) -> None:
    features = hashed_map(size, 3)
    assert features.n_rows == size // LINE * LINE + 3 * LINE
    assert features.rows.dense == size // LINE * LINE
    base = base_rows(features, keys_of_pairs(1, 300, 300))
    assert int(base.min()) >= 0
    for code in range(LINE):
        rows = base ^ code
        assert torch.equal(rows >> 4, base >> 4)
        assert int(rows.max()) < features.rows.dense


FAMILIES = {
    "pairs": lambda seed: keys_of_pairs(seed, 400, 250),
    "words": lambda seed: keys_of_words(seed, 2000, 50),
    "one word": lambda seed: keys_of_words(seed, 1, 100_000),
}


@pytest.mark.parametrize("size", [1 << 12, 5_000, 1 << 16, 100_003, 1 << 20, 1_000_003])
@pytest.mark.parametrize("kind", FAMILIES)
@pytest.mark.parametrize("code", [0, 13])
def test_rows_touched_are_as_many_as_chance_gives(size: int, kind: str, code: int) -> None:
    """Rows that 100,000 distinct features touch, against the occupancy of balls in bins."""
    features = hashed_map(size, 0)
    rows = features.n_rows
    for seed in (1, 77):
        keys = FAMILIES[kind](seed)
        balls = len(keys)
        touched = np.count_nonzero(np.bincount((base_rows(features, keys) ^ code).numpy()))
        expected = rows * -np.expm1(balls * np.log1p(-1 / rows))
        # Pair keys are XORs of few parts: not independent, so the spread is wider than chance's.
        assert abs(touched - expected) < 0.02 * expected + 1


@pytest.mark.parametrize("size", [1 << 12, 1_600, 100_003])
@pytest.mark.parametrize("kind", ["words", "one word"])
def test_rows_are_equally_likely(size: int, kind: str) -> None:
    """Chi-square over the rows, and over the places in a line, within six standard deviations."""
    features = hashed_map(size, 0)
    for seed in (3, 90):
        base = base_rows(features, FAMILIES[kind](seed)).numpy()
        for bins in (features.n_rows, LINE):
            counts = np.bincount(base % bins if bins == LINE else base, minlength=bins)
            mean = len(base) / bins
            statistic = ((counts - mean) ** 2 / mean).sum()
            freedom = bins - 1
            assert abs(statistic - freedom) < 6 * np.sqrt(2 * freedom)


def test_families_do_not_share_their_rows() -> None:
    """Two families over the same values coincide no more often than chance lets them."""
    features = hashed_map(1 << 20, 0)
    first, second = (base_rows(features, keys_of_pairs(seed, 300, 300)) for seed in (1, 2))
    assert int((first == second).sum()) <= 5
    assert len(torch.unique(torch.cat([first, second]))) > 0.9 * 180_000


def test_too_small_a_table_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"feature_map.rows: 15 is too few, at least 16"):
        hashed_map(15, 0)
    assert hashed_map(16, 0).n_rows == 16
    assert hashed_map(47, 2).n_rows == 64
