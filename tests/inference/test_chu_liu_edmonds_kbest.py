"""k best trees with crossing arcs: enumeration, the textbook form, ties, laws, errors."""

import numpy as np
import pytest
import torch

from gpuparse.errors import NoTreeError, ScoreError
from gpuparse.inference import chu_liu_edmonds, chu_liu_edmonds_kbest
from gpuparse.inference.textbook import spanning_trees as reference
from tests.oracles.brute_force import all_trees, tree_values
from tests.strategies import cases, integer_scores

every_root = pytest.mark.parametrize("single_root", [False, True], ids=["multi", "single"])
KINDS = ["ties", "forbidden", "mostly forbidden", "negative", "reals"]
every_kind = pytest.mark.parametrize("kind", KINDS)


def random_scores(rng, n_batch, n, kind):
    if kind == "reals":
        return rng.standard_normal((n_batch, n + 1, n + 1))
    forbidden = {"forbidden": 0.2, "mostly forbidden": 0.5}.get(kind, 0.0)
    scores = integer_scores(rng, n_batch, n, forbidden=forbidden)
    return scores - 50 if kind == "negative" else scores


def require_best(scores, heads, values, k, single_root):
    """The trees are trees, different, in falling order, and have the k highest values there are."""
    n_batch, n = len(scores), scores.shape[1] - 1
    trees = all_trees(n, False, single_root)
    every_value = -np.sort(-tree_values(scores, trees), axis=1)
    n_trees = np.minimum((every_value > -np.inf).sum(axis=1), k)
    expected = np.full((n_batch, k), -np.inf)
    count = min(k, len(trees))
    expected[:, :count] = every_value[:, :count]
    np.testing.assert_allclose(values, expected, rtol=1e-12 if scores.dtype == np.float64 else 0)
    assert (values[:, 1:] <= values[:, :-1]).all()
    assert ((values > -np.inf).sum(axis=1) == n_trees).all()
    assert (heads[values == -np.inf] == -1).all()
    assert (heads[:, :, 0] == -1).all()
    base = (n + 1) ** np.arange(n)
    codes = heads[:, :, 1:] @ base
    known = set((trees[:, 1:] @ base).tolist())
    for b in range(n_batch):
        found = codes[b, : n_trees[b]].tolist()
        assert len(set(found)) == len(found)
        assert set(found) <= known
    b, rank = np.nonzero(values > -np.inf)
    total = scores[b[:, None], heads[b, rank][:, 1:], np.arange(1, n + 1)].sum(axis=1)
    np.testing.assert_allclose(
        total, values[b, rank], rtol=1e-12 if total.dtype.itemsize > 4 else 0
    )


@every_root
@every_kind
@pytest.mark.parametrize("n", [1, 2, 3, 4, 5])
def test_many_matrices_have_the_trees_of_enumeration(single_root, kind, n):
    rng = np.random.default_rng(n)
    n_batch = cases({1: 100, 2: 500, 3: 1000, 4: 1000, 5: 1000})[n]
    scores = random_scores(rng, n_batch, n, kind)
    has_tree = tree_values(scores, all_trees(n, False, single_root)).max(axis=1) > -np.inf
    arcs, lengths = torch.from_numpy(scores[has_tree]), torch.full((int(has_tree.sum()),), n)
    best, best_values = chu_liu_edmonds(arcs, lengths, single_root=single_root)
    for k in (1, 2, 3, 7, 20) if n < 5 else (5, 40):
        heads, values = chu_liu_edmonds_kbest(arcs, lengths, k, single_root=single_root)
        assert heads.dtype == torch.int64
        assert values.dtype == torch.float64
        require_best(scores[has_tree], heads.numpy(), values.numpy(), k, single_root)
        assert heads[:, 0].equal(best)
        assert values[:, 0].equal(best_values)
    for matrix in scores[~has_tree][:10]:
        with pytest.raises(NoTreeError, match="sentence 0"):
            chu_liu_edmonds_kbest(
                torch.from_numpy(matrix[None]), torch.tensor([n]), 3, single_root=single_root
            )


@every_root
@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_all_trees_there_are(single_root, n):
    arcs = torch.randn(3, n + 1, n + 1, generator=torch.Generator().manual_seed(n))
    trees = all_trees(n, False, single_root)
    heads, values = chu_liu_edmonds_kbest(
        arcs, torch.full((3,), n), len(trees) + 3, single_root=single_root
    )
    for b in range(3):
        assert sorted(heads[b, : len(trees)].tolist()) == sorted(trees.tolist())
    assert (values[:, len(trees) :] == -torch.inf).all()
    assert (heads[:, len(trees) :] == -1).all()


@every_root
@every_kind
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_same_trees_and_bits_as_the_textbook(single_root, kind, dtype):
    """Ties and rounding included."""
    rng = np.random.default_rng(1)
    for n, k in [(1, 3), (2, 5), (3, 9), (5, 11), (8, 8), (13, 4), (21, 3)]:
        for scores in random_scores(rng, 5, n, kind).astype(dtype):
            try:
                trees, values = reference.chu_liu_edmonds_kbest(scores, k, single_root=single_root)
            except NoTreeError:
                continue
            heads, found = chu_liu_edmonds_kbest(
                torch.from_numpy(scores[None]), torch.tensor([n]), k, single_root=single_root
            )
            assert heads[0, : len(trees)].tolist() == trees
            assert found[0, : len(trees)].tolist() == [float(value) for value in values]
            assert (found[0, len(trees) :] == -torch.inf).all()


@every_root
def test_ties_go_by_the_part_made_first(single_root):
    """All trees score 0; each is the best of the first part that is left."""
    arcs = torch.zeros(1, 4, 4)
    heads, values = chu_liu_edmonds_kbest(arcs, torch.tensor([3]), 5, single_root=single_root)
    trees, _ = reference.chu_liu_edmonds_kbest(arcs[0].numpy(), 5, single_root=single_root)
    assert heads[0].tolist() == trees
    assert (values == 0).all()
    if not single_root:
        expected = [[0, 0, 0], [2, 0, 0], [0, 1, 0], [0, 0, 1], [3, 0, 0]]
        assert heads[0, :, 1:].tolist() == expected


@every_root
def test_close_scores_of_long_sentences_fall(single_root):
    """Scores that differ by rounding alone must neither repeat a tree nor rise."""
    rng = np.random.default_rng(2)
    scores = (1000 + rng.integers(0, 3, (8, 31, 31)) * 1e-4).astype(np.float32)
    heads, values = chu_liu_edmonds_kbest(
        torch.from_numpy(scores), torch.full((8,), 30), 40, single_root=single_root
    )
    assert (values[:, 1:] <= values[:, :-1]).all()
    for trees in heads:
        assert len(set(map(tuple, trees.tolist()))) == 40


@every_root
@pytest.mark.parametrize("n", [6, 17, 40])
def test_no_tree_is_left_out(single_root, n):
    """The second best tree is the best without one of the arcs of the first."""
    rng = np.random.default_rng(n)
    arcs = torch.from_numpy(rng.standard_normal((1, n + 1, n + 1)))
    length = torch.tensor([n])
    heads, values = chu_liu_edmonds_kbest(arcs, length, 2, single_root=single_root)
    others = arcs.repeat(n, 1, 1)
    others[torch.arange(n), heads[0, 0, 1:], torch.arange(1, n + 1)] = -torch.inf
    _, rest = chu_liu_edmonds(others, length.expand(n), single_root=single_root)
    assert values[0, 1] == rest.max()


@every_root
def test_sentences_of_one_batch_share_no_memory(single_root):
    """Sentences of any length after one another, some with fewer trees than asked for."""
    rng = np.random.default_rng(6)
    sizes = [20, 1, 2, 20, 9, 3, 20, 2]
    for dtype in (torch.float32, torch.float64):
        arcs = torch.full((len(sizes), 23, 23), torch.nan, dtype=dtype)
        for b, n in enumerate(sizes):
            arcs[b, : n + 1, : n + 1] = torch.from_numpy(rng.standard_normal((n + 1, n + 1)))
        found = chu_liu_edmonds_kbest(arcs, sizes, 6, single_root=single_root)
        for b, n in enumerate(sizes):
            alone = arcs[b : b + 1, : n + 1, : n + 1]
            heads, values = chu_liu_edmonds_kbest(alone, None, 6, single_root=single_root)
            assert heads[0].equal(found[0][b, :, : n + 1])
            assert values[0].equal(found[1][b])


def test_errors():
    arcs, lengths = torch.zeros(2, 3, 3), torch.tensor([2, 2])
    for k in (0, -1):
        with pytest.raises(ScoreError, match=f"k is {k}"):
            chu_liu_edmonds_kbest(arcs, lengths, k)
    with pytest.raises(ScoreError, match="chu_liu_edmonds_kbest exists in native code only"):
        chu_liu_edmonds_kbest(arcs, lengths, 2, engine="torch")
    with pytest.raises(ScoreError, match="unknown engine 'gpus'"):
        chu_liu_edmonds_kbest(arcs, lengths, 2, engine="gpus")
    with pytest.raises(ScoreError, match="on meta"):
        chu_liu_edmonds_kbest(arcs.to("meta"), lengths, 2)
    with pytest.raises(ScoreError, match="length 3"):
        chu_liu_edmonds_kbest(arcs, torch.tensor([2, 3]), 2)
    arcs[1, :, 1] = -torch.inf
    with pytest.raises(NoTreeError, match="sentence 1"):
        chu_liu_edmonds_kbest(arcs, lengths, 2)
