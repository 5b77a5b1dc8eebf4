"""What hypothesis and the random tests draw from."""

from dataclasses import dataclass
from typing import Any

import hypothesis.extra.numpy as hnp
import numpy as np
import torch
from hypothesis import strategies as st
from torch import Tensor


@dataclass(frozen=True)
class Batch:
    """Score matrices (B, N, N) and the lengths (B,) of their sentences."""

    arc_scores: Tensor
    lengths: Tensor


def integer_scores(
    rng: np.random.Generator, n_batch: int, n: int, *, forbidden: float = 0.0, spread: int = 3
) -> np.ndarray:
    """Matrices float32 (B, n+1, n+1) of small integers, full of ties; `forbidden`: part at -inf."""
    scores = rng.integers(-spread, spread + 1, (n_batch, n + 1, n + 1)).astype(np.float32)
    scores[rng.random(scores.shape) < forbidden] = -np.inf
    return scores


@st.composite
def score_batches(draw: st.DrawFn, max_batch: int = 4, max_words: int = 7) -> Batch:
    """Batches with integer scores and padding: every tree exists, values are exact."""
    n_batch = draw(st.integers(1, max_batch))
    n_nodes = draw(st.integers(2, max_words + 1))
    cells: st.SearchStrategy[Any] = st.integers(-4, 4)
    scores = draw(hnp.arrays(np.float32, (n_batch, n_nodes, n_nodes), elements=cells))
    lengths = draw(st.lists(st.integers(1, n_nodes - 1), min_size=n_batch, max_size=n_batch))
    return Batch(torch.from_numpy(scores), torch.tensor(lengths))
