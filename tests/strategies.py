"""Strategies of hypothesis and of the random tests."""

import os

import numpy as np

from tests.oracles.tree_parts import is_read


def some(number: int) -> int:
    """The number of cases that a test draws: a tenth, or all with `pytest --thorough`."""
    return number if os.environ.get("GPUPARSE_THOROUGH") else -(-number // 10)


def cases(per_size: dict[int, int]) -> dict[int, int]:
    """Size -> how many of its random cases a test draws."""
    return {size: some(number) for size, number in per_size.items()}


def integer_scores(
    rng: np.random.Generator, n_batch: int, n: int, *, forbidden: float = 0.0, spread: int = 3
) -> np.ndarray:
    """Matrices float32 (B, n+1, n+1) of small integers, full of ties; `forbidden`: part at -inf."""
    scores = rng.integers(-spread, spread + 1, (n_batch, n + 1, n + 1)).astype(np.float32)
    scores[rng.random(scores.shape) < forbidden] = -np.inf
    return scores


def integer_siblings(
    rng: np.random.Generator, n_batch: int, n: int, *, forbidden: float = 0.0, spread: int = 3
) -> np.ndarray:
    """Sibling scores float32 (B, n+1, n+1, n+1) of small integers; `forbidden`: part at -inf."""
    scores = rng.integers(-spread, spread + 1, (n_batch, n + 1, n + 1, n + 1)).astype(np.float32)
    scores[rng.random(scores.shape) < forbidden] = -np.inf
    return scores


def with_junk(arc_scores: np.ndarray, sibling_scores: np.ndarray, end_scores: np.ndarray) -> None:
    """Write NaN to every cell of (..., N, N) and (..., N, N, N) that no decoder reads."""
    parts = {"arc": arc_scores, "sibling": sibling_scores, "end": end_scores}
    for field, part in parts.items():
        part[..., ~is_read(field, part.shape[-1], True)] = np.nan
