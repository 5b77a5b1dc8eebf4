"""Parts, differences and steps of mini-batches in torch against plain loops."""

import math
import random

import numpy as np
import pytest
import torch

from gpuparse.learning.mira import (
    MIRA,
    PERCEPTRON,
    UpdateRule,
    steps_in_turn,
)
from gpuparse.learning.on_device import (
    PartIndices,
    arcs_that_differ,
    change,
    coalesced,
    ends_that_differ,
    listed,
    margins,
    products,
    siblings_that_differ,
    sum_runs,
)
from tests.learning.test_parts import ARC, LEFT_END, RIGHT_END, SIBLINGS
from tests.learning.test_parts import listed as listed_by_native_code
from tests.samples import any_heads

ROWS = 40


def listed_one_by_one(gold: np.ndarray, found: np.ndarray) -> list[tuple[int, ...]]:
    """Kind, head, modifier, third word and sign of the parts that native code lists."""
    no_labels = np.zeros(0, np.int64)
    parts = listed_by_native_code((gold, no_labels), (found, no_labels), siblings=True)
    return sorted((kind, h, m, third, sign) for kind, h, m, third, _, _, sign in parts if sign)


def rows_of(parts: PartIndices, b: int, kinds: tuple[int, int]) -> list[tuple[int, ...]]:
    """As native code has them; of ends the kind says the side."""
    is_end = kinds[0] != kinds[1]
    return [
        (kinds[third], h, m, 0, sign) if is_end else (kinds[0], h, m, third, sign)
        for at, h, m, third, sign in torch.stack(parts, 1).tolist()
        if at == b
    ]


def test_parts_are_those_that_native_code_lists(device: torch.device) -> None:
    draw, longest = random.Random(1), 12
    pairs = []
    for n in [1, 1, 2, 2, 3, 3, 4, *[draw.randint(5, longest) for _ in range(60)]]:
        gold, found = any_heads(draw, n), any_heads(draw, n)
        if draw.random() < 0.3:  # alike but for a few words
            found = [g if draw.random() < 0.8 else f for g, f in zip(gold, found, strict=True)]
        pairs.append([np.array([-1, *heads], np.int64) for heads in (gold, found)])
    padded = np.full((2, len(pairs), longest + 3), -1)
    for b, pair in enumerate(pairs):
        padded[:, b, : len(pair[0])] = pair
    gold, found = torch.from_numpy(padded).to(device)
    compared = [
        compare(gold, found)
        for compare in (arcs_that_differ, siblings_that_differ, ends_that_differ)
    ]
    arcs, siblings, ends = listed(compared, [int(each.differ.sum()) for each in compared])
    n_compared = 0
    for b, pair in enumerate(pairs):
        expected = listed_one_by_one(*pair)
        of_arcs = [(*part[:3], 0, part[4]) for part in rows_of(arcs, b, (ARC, ARC))]
        others = rows_of(siblings, b, (SIBLINGS, SIBLINGS)) + rows_of(
            ends, b, (LEFT_END, RIGHT_END)
        )
        assert sorted(of_arcs + others) == expected
        n_compared += len(expected)
    assert n_compared > 1000


def random_features(seed: int, n_sentences: int, count: int) -> torch.Tensor:
    draw = np.random.default_rng(seed)
    features = draw.integers(0, [[n_sentences], [ROWS + 1], [2]], (3, count))
    features[2] = 2 * features[2] - 1
    return torch.from_numpy(features)


def dense(features: torch.Tensor, n_sentences: int) -> np.ndarray:
    matrix = np.zeros((n_sentences, ROWS))
    for b, row, sign in features.T.tolist():
        if row < ROWS:  # else it is no feature
            matrix[b, row] += sign
    return matrix


@pytest.mark.parametrize("cells", [1, 8, 100, 1 << 20])
@pytest.mark.parametrize(("n_sentences", "count"), [(1, 30), (5, 400), (8, 60), (3, 0)])
def test_the_matrix_is_the_sum_of_the_features(
    n_sentences: int, count: int, cells: int, device: torch.device
) -> None:
    for seed in range(5):
        features = random_features(seed, n_sentences, count)
        matrix = dense(features, n_sentences)
        found, column = coalesced(features.to(device), ROWS, n_sentences, cells)
        assert bool((found.count != 0).all())
        again = np.zeros_like(matrix)
        again[found.constraint.cpu(), found.row.cpu()] = found.count.cpu()
        assert np.array_equal(again, matrix)
        square = products(found, column).cpu().numpy()
        assert np.array_equal(square, matrix @ matrix.T)
        weights = np.random.default_rng(seed).integers(-9, 10, ROWS)
        on_device = torch.from_numpy(weights.astype(np.float32)).to(device)
        of_weights = margins(found, on_device).cpu().numpy()
        assert np.array_equal(of_weights, matrix @ weights)
        steps = np.random.default_rng(seed + 1).integers(0, 9, (2, n_sentences)) / 8
        moved = change(found, column, torch.from_numpy(steps).to(device)).cpu().numpy()
        rows = column.rows.cpu().numpy()
        assert np.array_equal(rows, np.flatnonzero(np.abs(matrix).sum(0)))
        assert np.array_equal(moved, (steps @ matrix)[:, rows])


def test_products_of_large_counts_are_exact(device: torch.device) -> None:
    """Beyond what float32 holds: the sum of squares decides in which type they are multiplied."""
    features = random_features(1, 3, 40).repeat(1, 5001)
    matrix = dense(features, 3)
    found, column = coalesced(features.to(device), ROWS, 3)
    assert found.largest > 1 << 24
    assert np.array_equal(products(found, column).cpu().numpy(), matrix @ matrix.T)


def pair_by_pair(values: list[float]) -> float:
    while len(values) > 1:
        pairs = [values[i] + values[i + 1] for i in range(0, len(values) - 1, 2)]
        values = pairs + values[len(pairs) * 2 :]
    return values[0] if values else 0.0


@pytest.mark.parametrize("sizes", [[], [0], [1], [3], [0, 5, 0, 0, 64, 1, 33, 0], [1000, 7, 1]])
def test_runs_are_summed_pair_by_pair(sizes: list[int], device: torch.device) -> None:
    rng = np.random.default_rng(3)
    runs = [(rng.normal(size=n) * 10.0 ** rng.integers(-3, 4, n)).tolist() for n in sizes]
    values = torch.tensor([x for run in runs for x in run], dtype=torch.float64, device=device)
    number = torch.repeat_interleave(
        torch.arange(len(sizes)), torch.tensor(sizes, dtype=torch.long)
    )
    lengths = torch.tensor(sizes, dtype=torch.int64, device=device)
    found = sum_runs(values, number.to(device), lengths, max(sizes, default=0)).tolist()
    assert found == [pair_by_pair(run) for run in runs]
    assert found == pytest.approx([math.fsum(run) for run in runs])


@pytest.mark.parametrize("rule", [PERCEPTRON, MIRA])
@pytest.mark.parametrize("cap", [np.inf, 0.05])
def test_steps_in_turn_are_those_of_moved_weights(rule: int, cap: float) -> None:
    """One sentence after the other, the weights moved after each."""
    taken = 0
    for seed in range(20):
        n = 7
        matrix = dense(random_features(seed, n, 60), n)
        matrix[3] = 0
        rng = np.random.default_rng(seed)
        weights, costs = rng.normal(size=ROWS), rng.integers(0, 4, n).astype(float)
        of_rule = UpdateRule(rule, 0.0, cap)
        steps = steps_in_turn(
            of_rule, costs[:, None], (matrix @ weights)[:, None],
            (matrix @ matrix.T)[:, None, :, None],
        )[:, 0]  # fmt: skip
        for b in range(n):
            norm, lacking = matrix[b] @ matrix[b], costs[b] - matrix[b] @ weights
            if norm == 0:
                expected = 0.0
            elif rule == PERCEPTRON:
                expected = float(costs[b] > 0)
            else:
                expected = min(cap, max(0.0, lacking / norm))
            assert steps[b] == pytest.approx(expected, abs=1e-12)
            weights += steps[b] * matrix[b]
            taken += steps[b] > 0
    assert taken > 40


def test_no_features_at_all(device: torch.device) -> None:
    no_features = torch.zeros(3, 0, dtype=torch.int64, device=device)
    found, column = coalesced(no_features, ROWS, 4)
    assert products(found, column).tolist() == [[0.0] * 4] * 4
    assert margins(found, torch.ones(ROWS, device=device)).tolist() == [0.0] * 4
    steps = torch.ones(2, 4, dtype=torch.float64, device=device)
    assert change(found, column, steps).shape == (2, 0)
