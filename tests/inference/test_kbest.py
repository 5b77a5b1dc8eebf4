"""The k best projective trees: enumeration -> textbook -> native, both orders; laws; errors."""

import numpy as np
import pytest
import torch

from gpuparse.errors import NoTreeError, ScoreError
from gpuparse.inference import eisner, eisner_kbest, eisner_sibling, eisner_sibling_kbest
from gpuparse.inference.native_trees import MAX_TREES
from gpuparse.inference.textbook import projective
from tests.oracles.brute_force import all_trees, sibling_tree_values, tree_values
from tests.strategies import (
    SiblingBatch,
    cases,
    integer_scores,
    integer_siblings,
    with_junk,
)

every_order = pytest.mark.parametrize("name", ["eisner_kbest", "eisner_sibling_kbest"])
every_root = pytest.mark.parametrize("single_root", [False, True], ids=["multi", "single"])


def search(name, batch, k, *, single_root=False, **options):
    options["single_root"] = single_root
    if name == "eisner_kbest":
        return eisner_kbest(batch.arc_scores, batch.lengths, k, **options)
    return eisner_sibling_kbest(
        batch.arc_scores, batch.sibling_scores, batch.lengths, k, end_scores=batch.end_scores,
        **options,
    )  # fmt: skip


def best(name, batch, single_root):
    """(heads, scores) of the best trees alone."""
    if name == "eisner_kbest":
        return eisner(batch.arc_scores, batch.lengths, single_root=single_root)
    return eisner_sibling(
        batch.arc_scores, batch.sibling_scores, batch.lengths, end_scores=batch.end_scores,
        single_root=single_root,
    )  # fmt: skip


def textbook(name, arcs, siblings, ends, k, single_root):
    if name == "eisner_kbest":
        return getattr(projective, name)(arcs, k, single_root=single_root)
    return getattr(projective, name)(arcs, siblings, k, ends, single_root=single_root)


def draw(rng, n_batch, n, *, forbidden=0.0, kind=None):
    """Arcs, siblings and ends: small integers full of ties, or floats of the type `kind`."""
    if kind is not None:
        arcs, ends = rng.standard_normal((2, n_batch, n + 1, n + 1)).astype(kind)
        return arcs, rng.standard_normal((n_batch, *[n + 1] * 3)).astype(kind), ends
    return (
        integer_scores(rng, n_batch, n, forbidden=forbidden),
        integer_siblings(rng, n_batch, n, forbidden=forbidden / 3),
        integer_scores(rng, n_batch, n, forbidden=forbidden / 3),
    )


def as_batch(arcs, siblings, ends, n=None):
    lengths = torch.full((len(arcs),), arcs.shape[1] - 1 if n is None else n)
    arcs, siblings, ends = map(torch.from_numpy, (arcs, siblings, ends))
    return SiblingBatch(arcs, siblings, lengths, ends)


def values_of_all(name, arcs, siblings, ends, single_root):
    """Scores (B, T) of all trees, as enumerated."""
    if name == "eisner_kbest":
        return tree_values(arcs, all_trees(arcs.shape[1] - 1, True, single_root))
    return sibling_tree_values(arcs, siblings, ends, projective=True, single_root=single_root)


CASES = cases({1: 500, 2: 2000, 3: 2500, 4: 3000, 5: 2000})
"""Words -> sentences."""
RANKS = {1: 3, 2: 5, 3: 15, 4: 20, 5: 40}
"""Words -> k: for up to three of them more than there are trees."""


@every_order
@every_root
@pytest.mark.parametrize("n", CASES)
def test_many_sentences_have_the_trees_of_enumeration(name, single_root, n):
    """Over n = 1..5, with many ties, half of the sentences with forbidden parts."""
    rng, n_batch, k = np.random.default_rng(n), CASES[n], RANKS[n]
    scores = draw(rng, n_batch, n)
    for whole, part in zip(scores, draw(rng, len(scores[0][::2]), n, forbidden=0.25), strict=True):
        whole[::2] = part
    values = values_of_all(name, *scores, single_root)
    is_possible = values.max(axis=1) > -np.inf
    for arcs, siblings, ends in zip(*(part[~is_possible][:20] for part in scores), strict=True):
        batch = as_batch(arcs[None], siblings[None], ends[None])
        with pytest.raises(NoTreeError, match="sentence 0"):
            search(name, batch, k, single_root=single_root)
    scores, values = [part[is_possible] for part in scores], values[is_possible]
    heads, found = search(name, as_batch(*scores), k, single_root=single_root)
    expected = np.full((len(values), k), -np.inf, np.float32)
    ranked = -np.sort(-values, axis=1)[:, :k]
    expected[:, : ranked.shape[1]] = ranked
    assert (found.numpy() == expected).all()
    # Each answer is one of the enumerated trees, has the value it claims, and comes once.
    trees = all_trees(n, True, single_root)
    numbers = trees[:, 1:] @ (n + 1) ** np.arange(n)
    order = np.argsort(numbers)
    exists = found.numpy() > -np.inf
    assert (heads.numpy()[~exists] == -1).all()
    assert (heads.numpy()[:, :, 0] == -1).all()
    sentence, _ = np.nonzero(exists)
    answers = heads.numpy()[exists][:, 1:] @ (n + 1) ** np.arange(n)
    tree = order[np.searchsorted(numbers[order], answers)]
    assert (numbers[tree] == answers).all()
    assert (values[sentence, tree] == found.numpy()[exists]).all()
    assert len(set(zip(sentence.tolist(), tree.tolist(), strict=True))) == len(tree)


@every_order
@every_root
@pytest.mark.parametrize("kind", ["float32", "float64", "ties", "forbidden"])
def test_native_code_equals_the_textbook(name, single_root, kind):
    """The same trees in the same order and the same bits, ties and rounding included."""
    rng = np.random.default_rng(2)
    for n, k in [(1, 2), (2, 4), (3, 30), (5, 1), (6, 12), (8, 7), (11, 5)]:
        is_float = kind.startswith("float")
        forbidden = 0.2 * (kind == "forbidden")
        scores = draw(rng, 2, n, forbidden=forbidden, kind=kind if is_float else None)
        with_junk(*scores)
        for b, (arcs, siblings, ends) in enumerate(zip(*scores, strict=True)):
            length = int(rng.integers(0, n + 1)) if b else n
            nodes = slice(length + 1)
            sentence = (arcs[nodes, nodes], siblings[nodes, nodes, nodes], ends[nodes, nodes])
            try:
                trees, sums = textbook(name, *sentence, k, single_root)
            except NoTreeError:
                continue
            batch = as_batch(arcs[None], siblings[None], ends[None], length)
            heads, values = search(name, batch, k, single_root=single_root)
            assert values.dtype == torch.float64
            assert heads.shape == (1, k, n + 1)
            count, padding = len(trees), [-1] * (n - length)
            assert heads[0, :count].tolist() == [tree + padding for tree in trees]
            assert values[0, :count].tolist() == [float(value) for value in sums]
            assert (heads[0, count:] == -1).all()
            assert (values[0, count:] == -torch.inf).all()


@every_order
@every_root
def test_scores_never_rise_and_are_sums_but_for_rounding(name, single_root):
    rng = np.random.default_rng(5)
    batch = as_batch(*draw(rng, 40, 25, kind="float32"))
    heads, values = search(name, batch, 30, single_root=single_root)
    first, value = best(name, batch, single_root)
    assert heads[:, 0].equal(first)
    assert values[:, 0].equal(value)
    assert (values[:, 1:] <= values[:, :-1]).all()
    assert all(len({tuple(tree) for tree in trees.tolist()}) == 30 for trees in heads)
    if name == "eisner_kbest":
        sentence, word = torch.arange(40)[:, None, None], torch.arange(1, 26)
        sums = batch.arc_scores.double()[sentence, heads[:, :, 1:], word].sum(2)
        torch.testing.assert_close(values.double(), sums, rtol=1e-5, atol=1e-4)


@every_order
@every_root
def test_many_more_trees_than_there_are(name, single_root):
    for n in range(5):
        batch = as_batch(*draw(np.random.default_rng(n), 2, n))
        heads, values = search(name, batch, 300, single_root=single_root)
        count = len(all_trees(n, True, single_root)) if n else 1
        assert (values > -torch.inf).sum(1).tolist() == [count, count]
        assert heads[:, count:].eq(-1).all()


@every_order
def test_errors_say_what_is_wrong(name):
    batch = as_batch(*draw(np.random.default_rng(9), 2, 3))
    for k in (0, -1, MAX_TREES + 1):
        with pytest.raises(ScoreError, match=f"k is {k}"):
            search(name, batch, k)
    with pytest.raises(ScoreError, match=f"{name} .* engine 'torch'"):
        search(name, batch, 2, engine="torch")
    with pytest.raises(ScoreError, match="unknown engine 'tpu'"):
        search(name, batch, 2, engine="tpu")
    meta = SiblingBatch(
        *(part.to("meta") for part in (batch.arc_scores, batch.sibling_scores, batch.lengths)),
        batch.end_scores.to("meta"),
    )
    for engine in ("auto", "native"):
        with pytest.raises(ScoreError, match="on meta"):
            search(name, meta, 2, engine=engine)
    with pytest.raises(ScoreError, match="expected"):
        search(name, SiblingBatch(batch.arc_scores[0], *list(vars(batch).values())[1:]), 2)
    too_long = SiblingBatch(
        batch.arc_scores, batch.sibling_scores, batch.lengths + 1, batch.end_scores
    )
    with pytest.raises(ScoreError, match="sentence 0: length 4"):
        search(name, too_long, 2)
