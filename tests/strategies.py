"""Strategies of hypothesis and of the random tests."""

import os
from dataclasses import dataclass
from typing import Any

import hypothesis.extra.numpy as hnp
import numpy as np
import torch
from hypothesis import strategies as st
from torch import Tensor

from tests.oracles.tree_parts import is_read


def some(number: int) -> int:
    """The number of cases that a test draws: a tenth, or all with `pytest --thorough`."""
    return number if os.environ.get("GPUPARSE_THOROUGH") else -(-number // 10)


def cases(per_size: dict[int, int]) -> dict[int, int]:
    """Size -> how many of its random cases a test draws."""
    return {size: some(number) for size, number in per_size.items()}


@dataclass(frozen=True)
class Batch:
    """Score matrices (B, N, N) and the lengths (B,) of their sentences."""

    arc_scores: Tensor
    lengths: Tensor


@dataclass(frozen=True)
class SiblingBatch:
    """As Batch, with sibling scores (B, N, N, N) and end scores (B, N, N) or None."""

    arc_scores: Tensor
    sibling_scores: Tensor
    lengths: Tensor
    end_scores: Tensor | None = None


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


@st.composite
def score_batches(draw: st.DrawFn, max_batch: int = 4, max_words: int = 7) -> Batch:
    """Batches with integer scores and padding: every tree exists, values are exact."""
    n_batch = draw(st.integers(1, max_batch))
    n_nodes = draw(st.integers(2, max_words + 1))
    cells: st.SearchStrategy[Any] = st.integers(-4, 4)
    scores = draw(hnp.arrays(np.float32, (n_batch, n_nodes, n_nodes), elements=cells))
    lengths = draw(st.lists(st.integers(1, n_nodes - 1), min_size=n_batch, max_size=n_batch))
    return Batch(torch.from_numpy(scores), torch.tensor(lengths))


@st.composite
def sibling_batches(draw: st.DrawFn, max_batch: int = 4, max_words: int = 7) -> SiblingBatch:
    """As `score_batches`; the many sibling scores, and those of ends, come from a seed."""
    batch = draw(score_batches(max_batch, max_words))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n_batch, n_nodes = batch.arc_scores.shape[:2]
    siblings = torch.from_numpy(integer_siblings(rng, n_batch, n_nodes - 1))
    ends = torch.from_numpy(integer_scores(rng, n_batch, n_nodes - 1))
    return SiblingBatch(batch.arc_scores, siblings, batch.lengths, ends)
