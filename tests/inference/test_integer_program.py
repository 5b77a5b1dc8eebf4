"""Integer programs against all trees, and against other exact decoders."""

import numpy as np
import pytest
import torch

from gpuparse.inference import chu_liu_edmonds
from tests.inference.crossing import MODELS, at, draw_parts, values_of
from tests.oracles.brute_force import all_trees, is_tree
from tests.oracles.integer_program import integer_program
from tests.strategies import integer_scores

every_root = pytest.mark.parametrize("single_root", [False, True], ids=["multi", "single"])


@every_root
@pytest.mark.parametrize("forbidden", [0.0, 0.2])
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("n", [1, 2, 3, 4, 5])
def test_the_best_of_all_trees_is_found(model, single_root, forbidden, n):
    rng, n_batch = np.random.default_rng(40 + n), 10
    parts = draw_parts(rng, n_batch, n, model, forbidden=forbidden)
    values = values_of(parts, single_root)
    trees = all_trees(n, False, single_root).tolist()
    for b in range(n_batch):
        found = integer_program(at(parts, b), single_root=single_root)
        if values[b].max() == -np.inf:
            assert found is None
        else:
            assert values[b, trees.index(found)] == values[b].max()


@every_root
def test_twelve_words_as_by_chu_liu_edmonds(single_root):
    n = 12
    arcs = integer_scores(np.random.default_rng(32), 10, n, spread=9)
    _, scores = chu_liu_edmonds(
        torch.from_numpy(arcs), torch.full((10,), n), single_root=single_root
    )
    for b, expected in enumerate(scores.tolist()):
        heads = integer_program({"arc": arcs[b]}, single_root=single_root)
        assert is_tree(tuple(heads[1:]))
        assert sum(arcs[b, h, m] for m, h in enumerate(heads) if m) == expected
