"""Hill climbing and graphs with several heads: against brute force and textbook twins; laws."""

from functools import cache

import numpy as np
import pytest
import torch

from gpuparse.errors import NoTreeError, ScoreError
from gpuparse.inference import chu_liu_edmonds, eisner, eisner_sibling, hill_climb, multi_parent
from gpuparse.inference.textbook import spanning_trees
from tests.inference.decoders import draw_parts
from tests.oracles.brute_force import all_trees, is_projective
from tests.oracles.graphs import is_acyclic, part_cells, single_changes
from tests.oracles.tree_parts import values_of_trees
from tests.strategies import (
    cases,
    integer_scores,
    integer_siblings,
)

every_root = pytest.mark.parametrize("single_root", [False, True], ids=["multi", "single"])
every_search = pytest.mark.parametrize("search", [hill_climb, multi_parent])
CASES = cases({1: 500, 2: 1500, 3: 2500, 4: 3000, 5: 2500})


GAINS = [0.0, 1.5, 4.0, 2.0**100]
"""Least gains; scores are whole numbers, so that some changes gain just as much as the third."""


def with_projective_tree(rng, n, n_cases, single_root):
    """Scores with ties, half of the cases with forbidden parts: (arcs, siblings, lengths), ends."""
    how = {"projective": True, "single_root": single_root}
    drawn = []
    while sum(len(parts["arc"]) for parts in drawn) < n_cases:
        kind = ("ties", "forbidden")[len(drawn) % 2]
        parts = draw_parts("hill_climb", rng, n_cases // 2, n, kind)
        has_tree = values_of_trees(parts, **how).max(axis=1) > -np.inf
        drawn.append({field: part[has_tree] for field, part in parts.items()})
    arcs, siblings, ends = (
        torch.from_numpy(np.concatenate([parts[field] for parts in drawn])[:n_cases])
        for field in ("arc", "sibling", "end")
    )
    return (arcs, siblings, torch.full((n_cases,), n)), ends


@every_root
@pytest.mark.parametrize("n", CASES)
@pytest.mark.parametrize("min_gain", GAINS)
def test_many_climbs_end_on_a_hill(single_root, n, min_gain):
    """Over n = 1..5: never below the start; no tree that differs in one head gains more."""
    batch, ends = with_projective_tree(np.random.default_rng(n), n, CASES[n], single_root)
    options = {"end_scores": ends, "single_root": single_root}
    heads, values, changes = hill_climb(*batch, min_gain=min_gain, **options)
    trees = all_trees(n, False, single_root)
    parts = {"arc": batch[0].numpy(), "sibling": batch[1].numpy(), "end": ends.numpy()}
    of_trees = values_of_trees(parts, projective=False, single_root=single_root)
    number = {tuple(tree): t for t, tree in enumerate(trees.tolist())}
    found = np.array([number[tuple(tree)] for tree in heads.tolist()])
    assert of_trees[np.arange(len(found)), found].tolist() == values.tolist()
    is_neighbour = (trees[:, None] != trees).sum(axis=2) <= 1
    around = np.where(is_neighbour[found], of_trees, -np.inf).max(axis=1)
    assert (around <= values.numpy() + min_gain).all()
    start, start_values = eisner_sibling(*batch, **options)
    moved = heads.ne(start).any(1)
    assert (values - start_values >= changes * (min_gain if moved.any() else 0)).all()
    assert (values > start_values).equal(moved)
    assert (changes > 0).equal(moved)
    # Only from three words on can arcs cross, and no gain is a very large one.
    assert moved.any() == (n > 2 and min_gain < 2.0**100)
    if n > 3 and 0 < min_gain < 2.0**100:
        better = around - values.numpy()
        assert ((better > 0) & (better <= min_gain)).any()
        assert (better == 4).any() == (min_gain == 4)


@cache
def cells_of_changes(graph, n, single_root):
    """Cells of a graph, given as bytes, and of all that one change leads to (C, ...).

    They count the scores of arcs, siblings and ends, one after the other, and then one that is 0.
    """
    arcs = np.frombuffer(graph, bool).reshape(n + 1, n + 1)
    assert is_acyclic(arcs)
    others = [part_cells(each) for each in single_changes(arcs, single_root=single_root)]
    size, nothing = max(map(len, others), default=0), 2 * (n + 1) ** 2 + (n + 1) ** 3
    padded = [cells + [nothing] * (size - len(cells)) for cells in others]
    return np.array(part_cells(arcs)), np.array(padded, np.int64).reshape(len(others), size)


@every_root
@pytest.mark.parametrize(("min_gain", "n_cases"), [(0.0, CASES), (2.0, dict.fromkeys(CASES, 300))])
@pytest.mark.parametrize("n", CASES)
def test_many_graphs_end_on_a_hill(single_root, n, min_gain, n_cases):
    """Over n = 1..5: acyclic, a head for every word, the root's rules, no change gains more."""
    batch, ends = with_projective_tree(np.random.default_rng(n), n, n_cases[n], single_root)
    options = {"end_scores": ends, "single_root": single_root}
    graphs, values = multi_parent(*batch, min_gain=min_gain, **options)
    start, start_values = eisner_sibling(*batch, **options)
    assert (values >= start_values).all()
    unchanged, same_values = multi_parent(*batch, min_gain=2.0**100, **options)
    assert same_values.equal(start_values)
    assert unchanged.sum((1, 2)).tolist() == [n] * len(start)
    assert unchanged.gather(1, start[:, None].clamp(min=0))[:, 0, 1:].all()
    assert (graphs[:, :, 1:].sum(1) >= 1).all()
    assert not graphs[:, :, 0].any()
    if single_root:
        assert (graphs[:, 0].sum(1) == 1).all()
    if n > 1 + single_root:
        assert (graphs.sum((1, 2)) > n).any()
    flat = [part.flatten(1) for part in (batch[0], batch[1], ends, torch.zeros(len(values), 1))]
    cells = torch.cat(flat, 1).numpy()
    most = 0.0
    for b, graph in enumerate(graphs.numpy()):
        own, around = cells_of_changes(graph.tobytes(), n, single_root)
        assert cells[b, own].sum() == values[b]
        if len(around):
            most = max(most, cells[b, around].sum(1).max() - values[b].item())
    assert most == (min_gain if n > 1 + single_root else 0)


def textbook_arcs(arcs, n_nodes):
    matrix = np.zeros((n_nodes, n_nodes), bool)
    for h, m in arcs:
        matrix[h, m] = True
    return matrix


@every_root
@pytest.mark.parametrize("kind", ["ties", "float32", "float64"])
def test_the_textbook_twins_find_the_same(single_root, kind):
    """The same changes in the same order: also when they are stopped on the way."""
    rng = np.random.default_rng(20)
    for n in [1, 2, 3, 4, 7]:
        for _ in range(3):
            if kind == "ties":
                arcs, ends = integer_scores(rng, 2, n)
                siblings = integer_siblings(rng, 1, n)[0]
            else:
                arcs, ends = rng.standard_normal((2, n + 1, n + 1)).astype(kind)
                siblings = rng.standard_normal((n + 1, n + 1, n + 1)).astype(kind)
            batch = (
                torch.from_numpy(arcs[None]),
                torch.from_numpy(siblings[None]),
                torch.tensor([n]),
            )
            with_ends = rng.random() < 0.8
            of_ends = {"end_scores": torch.from_numpy(ends[None]) if with_ends else None}
            of_textbook = {"end_scores": ends if with_ends else None}
            start = eisner_sibling(*batch, **of_ends, single_root=single_root)[0]
            if rng.random() < 0.5:
                start = chu_liu_edmonds(batch[0], batch[2], single_root=single_root)[0]
            limit = None if rng.random() < 0.5 else int(rng.integers(0, 4))
            options = {"max_changes": limit, "single_root": single_root}
            options["min_gain"] = float(rng.choice([0.0, 0.75, 2.0]))
            heads, value, changes = hill_climb(*batch, start=start, **of_ends, **options)
            tree, expected, count = spanning_trees.hill_climb(
                arcs, siblings, start[0].tolist(), **of_textbook, **options
            )
            assert heads[0].tolist() == tree
            assert value.item() == expected
            assert changes.item() == count
            assert limit is None or count <= limit
            graph, value = multi_parent(*batch, start=start, **of_ends, **options)
            found, expected, _ = spanning_trees.multi_parent(
                arcs, siblings, start[0].tolist(), **of_textbook, **options
            )
            assert (graph[0].numpy() == textbook_arcs(found, n + 1)).all()
            assert value.item() == expected


@every_root
def test_graphs_of_arcs_alone(single_root):
    """Without scores of siblings the graphs are those of zeros; the start is the best tree."""
    rng = np.random.default_rng(21)
    for n in range(1, 8):
        arcs = integer_scores(rng, 1, n)[0]
        start = eisner(torch.from_numpy(arcs[None]), [n], single_root=single_root)[0]
        graph, value = multi_parent(
            torch.from_numpy(arcs[None]), None, [n], single_root=single_root
        )
        found, expected, _ = spanning_trees.multi_parent(
            arcs, np.zeros([n + 1] * 3), start[0].tolist(), single_root=single_root
        )
        assert (graph[0].numpy() == textbook_arcs(found, n + 1)).all()
        assert value.item() == expected
    with pytest.raises(ScoreError, match="end_scores is given without sibling_scores"):
        multi_parent(torch.zeros(1, 2, 2), None, [1], end_scores=torch.zeros(1, 2, 2))


def test_crossing_arcs_are_found():
    """Words 1 and 2 hang on 3 and 4, whose arcs cross; no projective tree has both."""
    arcs = torch.full((1, 5, 5), -5.0)
    for h, m in [(3, 1), (4, 2), (0, 4), (4, 3)]:
        arcs[0, h, m] = 5
    batch = arcs, torch.zeros(1, 5, 5, 5), torch.tensor([4])
    start, _ = eisner_sibling(*batch)
    assert is_projective(tuple(start[0, 1:].tolist()))
    heads, values, changes = hill_climb(*batch)
    assert heads[0].tolist() == [-1, 3, 4, 4, 0]
    assert values.tolist() == [20]
    assert changes.tolist() == [1]


def test_a_second_head_is_found_and_the_root_is_none():
    """Word 3 modifies both 1 and 2 and would gladly modify the root as well."""
    arcs = torch.full((1, 4, 4), -5.0)
    for h, m in [(0, 1), (1, 2), (1, 3), (2, 3), (0, 3)]:
        arcs[0, h, m] = 5
    arcs[0, 1, 3] = 6
    graphs, values = multi_parent(arcs, torch.zeros(1, 4, 4, 4), torch.tensor([3]))
    assert graphs[0].nonzero().tolist() == [[0, 1], [1, 2], [1, 3], [2, 3]]
    assert values.tolist() == [21]


def test_siblings_are_taken_among_all_modifiers_of_a_head():
    """Word 2 as a second modifier of 1 comes between 1 and 3, and is liked there."""
    arcs = torch.full((1, 4, 4), -9.0)
    for h, m in [(0, 1), (1, 3), (3, 2)]:
        arcs[0, h, m] = 9
    arcs[0, 1, 2] = -1
    siblings = torch.zeros(1, 4, 4, 4)
    siblings[0, 1, 3, 2] = 2
    graphs, values = multi_parent(arcs, siblings, torch.tensor([3]))
    assert graphs[0].nonzero().tolist() == [[0, 1], [1, 2], [1, 3], [3, 2]]
    assert values.tolist() == [28]


def test_the_first_modifier_beyond_all_others_takes_over_the_end():
    """Word 3 as a second modifier of 1 is outermost there, and 2 no more."""
    arcs = torch.full((1, 4, 4), -9.0)
    for h, m in [(0, 1), (1, 2), (2, 3)]:
        arcs[0, h, m] = 9
    arcs[0, 1, 3] = 0
    ends = torch.zeros(1, 4, 4)
    ends[0, 1, 2], ends[0, 1, 3] = -1, 2
    batch = arcs, torch.zeros(1, 4, 4, 4), torch.tensor([3])
    graphs, values = multi_parent(*batch, end_scores=ends, min_gain=2.5)
    assert graphs[0].nonzero().tolist() == [[0, 1], [1, 2], [1, 3], [2, 3]]
    assert values.tolist() == [29]
    graphs, values = multi_parent(*batch, end_scores=ends, min_gain=3)  # just what it gains
    assert graphs[0].nonzero().tolist() == [[0, 1], [1, 2], [2, 3]]
    assert values.tolist() == [26]


@every_root
@every_search
def test_a_hill_is_not_left(search, single_root):
    rng = np.random.default_rng(22)
    n = 8
    arcs = torch.from_numpy(integer_scores(rng, 50, n))
    siblings = torch.from_numpy(integer_siblings(rng, 50, n))
    lengths = torch.from_numpy(rng.integers(1, n + 1, 50))
    start, _ = chu_liu_edmonds(arcs, lengths, single_root=single_root)
    before = start.clone()
    heads, values, changes = hill_climb(
        arcs, siblings, lengths, start=start, single_root=single_root
    )
    assert start.equal(before)
    assert changes.any()
    again = hill_climb(arcs, siblings, lengths, start=heads, single_root=single_root)
    assert again[0].equal(heads)
    assert again[1].equal(values)
    assert not again[2].any()
    # What stands at the root and in padding of a start does not matter; no changes, no change.
    start[:, 0] = 7
    still, of_start, none = hill_climb(
        arcs, siblings, lengths, start=start, single_root=single_root, max_changes=0
    )
    assert still.equal(before)
    assert (of_start <= values).all()
    assert not none.any()


@every_search
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_rounding_neither_loops_nor_lowers_the_score(search, dtype):
    """Numbers so unlike in size that gains and sums disagree about what rises."""
    generator = torch.Generator().manual_seed(23)
    n = 12
    arcs, siblings, ends = (
        torch.randn(200, *[n + 1] * k, generator=generator, dtype=dtype)
        * 10 ** torch.randint(0, 12, (200, *[n + 1] * k), generator=generator).to(dtype)
        for k in (2, 3, 2)
    )
    lengths = torch.full((200,), n)
    for min_gain in (0.0, 1e3):
        _, start = eisner_sibling(arcs, siblings, lengths, end_scores=ends)
        found = search(arcs, siblings, lengths, end_scores=ends, min_gain=min_gain)
        assert (found[1] >= start).all()
        assert ((found[1] == start) | (found[1] >= start + 0.9 * min_gain)).all()


def zeros(n=4, n_batch=3):
    shape = (n_batch, n + 1, n + 1)
    return torch.zeros(shape), torch.zeros(*shape, n + 1), torch.full((n_batch,), n)


def refusals():
    """Scores and options, and what is said."""
    chain, (arcs, siblings, _) = torch.tensor([[-1, 0, 1, 2, 3]] * 3), zeros()
    for changes in ({1: 2, 2: 1}, {3: 3}, {3: 5}, {3: -1}):
        start = chain.clone()
        for m, h in changes.items():
            start[1, m] = h
        yield siblings, {"start": start}, "start of sentence 1 is no tree"
    two, forbidden, ends = chain.clone(), siblings.clone(), torch.zeros_like(arcs)
    two[2, 3] = 0
    forbidden[1, 2, 3, 2] = ends[1, 2, 3] = -torch.inf
    yield siblings, {"start": chain[:, :4]}, r"start has shape \(3, 4\), expected \(3, 5\)"
    yield siblings, {"start": chain.float()}, r"start has type torch\.float32, expected integers"
    yield siblings, {"max_changes": -1}, "max_changes is -1"
    one_root = "sentence 2 is no tree with a single modifier"
    yield siblings, {"start": two, "single_root": True}, one_root
    yield forbidden, {"start": chain}, "start of sentence 1 has a forbidden part"
    said = "start of sentence 1 has a forbidden part"
    yield siblings, {"start": chain, "end_scores": ends}, said
    for gain in (-1e-9, -1, np.nan, np.inf, -np.inf):
        yield siblings, {"min_gain": gain}, "expected a number from 0 on"


@every_search
def test_starts_limits_and_gains_that_are_refused(search):
    arcs, _, lengths = zeros()
    for siblings, options, said in refusals():
        with pytest.raises(ScoreError, match=said):
            search(arcs, siblings, lengths, **options)
        if options.pop("start", None) is not None:
            search(arcs, siblings, lengths, **options)
    arcs[2, :, 3] = -torch.inf
    with pytest.raises(NoTreeError, match="sentence 2 "):
        search(arcs, siblings, lengths)
    ends = torch.zeros(3, 5, 5)
    ends[2, :, 4] = -torch.inf  # the last word is the outermost modifier of whatever it modifies
    with pytest.raises(NoTreeError, match="sentence 2 "):
        search(*zeros(), end_scores=ends)


def test_a_chain_of_a_hundred_words_is_climbed():
    """Long ways up to the root, long chains of siblings; the start is the wrong way round."""
    n = 100
    generator = torch.Generator().manual_seed(24)
    siblings = torch.randn(1, *[n + 1] * 3, generator=generator)
    arcs = torch.zeros(1, n + 1, n + 1)
    arcs[0, 0, 1:] = 40
    start = torch.arange(-1, n)[None]
    heads, _, changes = hill_climb(arcs, siblings, torch.tensor([n]), start=start)
    assert heads[0, 1:].tolist() == [0] * n
    assert changes == n - 1
