"""Random scores of higher-order parts for searches in which arcs may cross."""

import numpy as np
import torch
from torch import Tensor

from tests.oracles.tree_parts import AXES, is_read

MODELS = {
    "arcs": (),
    "siblings": ("sibling_scores", "end_scores"),
    "grandparents": ("grandparent_scores",),
    "both": ("sibling_scores", "grandparent_scores"),
    "all": ("sibling_scores", "grandparent_scores", "grand_sibling_scores", "end_scores"),
}


def draw_parts(
    rng: np.random.Generator, n_batch: int, n: int, model: str, *, forbidden: float, spread: int = 4
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Whole arc scores, and those of the higher-order parts of a model by keyword, float32."""
    arcs = _draw(rng, n_batch, n, 2, forbidden, spread)
    higher = {
        name: _draw(rng, n_batch, n, AXES[name.removesuffix("_scores")], forbidden / 2, spread)
        for name in MODELS[model]
    }
    return arcs, higher


def _draw(
    rng: np.random.Generator, n_batch: int, n: int, n_axes: int, forbidden: float, spread: int
) -> np.ndarray:
    shape = (n_batch, *[n + 1] * n_axes)
    scores = rng.integers(-spread, spread + 1, shape).astype(np.float32)
    scores[rng.random(shape) < forbidden] = -np.inf
    return scores


def as_tensors(higher: dict[str, np.ndarray]) -> dict[str, Tensor]:
    return {name: torch.from_numpy(scores) for name, scores in higher.items()}


def put_junk(arcs: np.ndarray, higher: dict[str, np.ndarray], lengths: list[int]) -> None:
    """NaN in every cell that no search may read, padding included."""
    for name, scores in {"arc_scores": arcs, **higher}.items():
        read = is_read(name.removesuffix("_scores"), arcs.shape[1], True)
        for b, n in enumerate(lengths):
            inside = np.zeros_like(read)
            inside[(slice(n + 1),) * read.ndim] = True
            scores[b][~(read & inside)] = np.nan
