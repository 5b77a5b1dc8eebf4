"""Second-order Eisner: enumeration -> textbook -> torch -> native, Triton; laws."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuparse.errors import NoTreeError, ScoreError
from gpuparse.inference import eisner_sibling
from gpuparse.inference.textbook import projective
from tests.inference.decoders import (
    ENGINES,
    QUICK_ENGINES,
    fewer,
    search_with,
)
from tests.oracles.brute_force import all_trees, best_sibling_values, ends_of, parts_of
from tests.strategies import (
    SiblingBatch,
    cases,
    integer_scores,
    integer_siblings,
    sibling_batches,
    some,
    with_junk,
)

every_root = pytest.mark.parametrize("single_root", [False, True], ids=["multi", "single"])
every_engine = pytest.mark.parametrize("engine", ENGINES)
every_quick_engine = pytest.mark.parametrize("engine", QUICK_ENGINES)
examples = settings(max_examples=some(100), deadline=None)


def search(batch, single_root=False, engine="native"):
    return search_with(
        eisner_sibling,
        batch.arc_scores,
        batch.sibling_scores,
        batch.lengths,
        end_scores=batch.end_scores,
        single_root=single_root,
        engine=engine,
    )


def value_of(tree, arcs, siblings, ends):
    """The sum of the parts of a tree, which the enumerator names."""
    tree = np.array(tree)
    value = sum(arcs[h, m] + siblings[h, m, s] for h, m, s in parts_of(tree))
    return value + sum(ends[h, m] for h, m in ends_of(tree))


@every_root
def test_textbook_equals_enumeration(single_root):
    rng = np.random.default_rng(1)
    for n, forbidden in [(n, p) for n in range(1, 6) for p in (0.0, 0.1, 0.3)]:
        arcs = integer_scores(rng, 40, n, forbidden=forbidden)
        siblings = integer_siblings(rng, 40, n, forbidden=forbidden)
        ends = integer_scores(rng, 40, n, forbidden=forbidden)
        best = best_sibling_values(arcs, siblings, ends, projective=True, single_root=single_root)
        trees = all_trees(n, True, single_root).tolist()
        with_junk(arcs, siblings, ends)
        for arc, sibling, end, value in zip(arcs, siblings, ends, best, strict=True):
            if value == -np.inf:
                with pytest.raises(NoTreeError):
                    projective.eisner_sibling(arc, sibling, end, single_root=single_root)
                continue
            heads, score = projective.eisner_sibling(arc, sibling, end, single_root=single_root)
            assert heads in trees
            assert score == value == value_of(heads, arc, sibling, end)


@every_root
def test_the_textbook_without_ends_equals_enumeration(single_root):
    rng = np.random.default_rng(11)
    for n in range(1, 6):
        arcs, siblings = integer_scores(rng, 20, n), integer_siblings(rng, 20, n)
        best = best_sibling_values(arcs, siblings, projective=True, single_root=single_root)
        for arc, sibling, value in zip(arcs, siblings, best, strict=True):
            assert projective.eisner_sibling(arc, sibling, single_root=single_root)[1] == value


CASES = cases({1: 500, 2: 1500, 3: 2500, 4: 3000, 5: 2500})


@every_root
@every_engine
@pytest.mark.parametrize("n", CASES)
def test_many_cases_have_the_value_of_enumeration(single_root, engine, n):
    """Over n = 1..5, with many ties, half of the cases with forbidden parts."""
    rng, half = np.random.default_rng(n), fewer(engine, CASES[n]) // 2
    arcs, siblings = integer_scores(rng, 2 * half, n), integer_siblings(rng, 2 * half, n)
    arcs[:half] = integer_scores(rng, half, n, forbidden=0.15)
    siblings[:half] = integer_siblings(rng, half, n, forbidden=0.15)
    ends = integer_scores(rng, 2 * half, n)
    ends[:half:2] = integer_scores(rng, (half + 1) // 2, n, forbidden=0.15)
    best = best_sibling_values(arcs, siblings, ends, projective=True, single_root=single_root)
    has_tree = best > -np.inf
    assert has_tree.any()
    with_junk(arcs, siblings, ends)
    arcs_left, siblings_left, ends_left = (
        torch.from_numpy(part[has_tree]) for part in (arcs, siblings, ends)
    )
    batch = SiblingBatch(arcs_left, siblings_left, torch.full((len(arcs_left),), n), ends_left)
    heads, values = search(batch, single_root, engine)
    assert values.tolist() == best[has_tree].tolist()
    trees = {tuple(tree) for tree in all_trees(n, True, single_root).tolist()}
    left = arcs[has_tree], siblings[has_tree], ends[has_tree]
    for *scores, tree, value in zip(*left, heads.numpy(), values.tolist(), strict=True):
        assert tuple(tree.tolist()) in trees
        assert value_of(tree, *scores) == value
    for b in np.flatnonzero(~has_tree)[: fewer(engine, 20)]:
        arc, sibling, end = (torch.from_numpy(part[b : b + 1]) for part in (arcs, siblings, ends))
        with pytest.raises(NoTreeError, match="sentence 0"):
            search(SiblingBatch(arc, sibling, torch.tensor([n]), end), single_root, engine)


@every_root
@every_quick_engine
@examples
@given(batch=sibling_batches(), dtype=st.sampled_from([torch.float32, torch.float64]))
def test_zero_end_scores_give_what_no_end_scores_give(single_root, engine, batch, dtype):
    """The same bits: numbers that are no sums of powers of two."""
    parts = (batch.arc_scores / 7).to(dtype), (batch.sibling_scores / 7).to(dtype), batch.lengths
    heads, values = search(SiblingBatch(*parts), single_root, engine)
    zeros = SiblingBatch(*parts, torch.zeros_like(parts[0]))
    zero_heads, zero_values = search(zeros, single_root, engine)
    assert zero_heads.equal(heads)
    assert zero_values.equal(values)


@every_engine
@every_root
def test_ends_decide_who_comes_last(single_root, engine):
    """Words 2 and 3 hang on 1 or in a chain, as the end scores of 1 and 2 say."""
    arcs = torch.full((1, 4, 4), -5.0)
    arcs[0, 0, 1] = arcs[0, 1, 2] = arcs[0, 1, 3] = arcs[0, 2, 3] = 1
    length, siblings = torch.tensor([3]), torch.zeros(1, 4, 4, 4)
    for last, head in [((1, 3), 1), ((1, 2), 2), ((2, 3), 2)]:
        ends = torch.zeros(1, 4, 4)
        ends[0][last] = 2
        heads, values = search(SiblingBatch(arcs, siblings, length, ends), single_root, engine)
        assert heads.tolist() == [[-1, 0, 1, head]]
        assert values.tolist() == [5]


@every_engine
def test_sibling_scores_are_checked(engine):
    arcs, siblings, lengths = torch.zeros(3, 5, 5), torch.zeros(3, 5, 5, 5), torch.tensor([4, 4, 4])

    def refused(message, siblings=siblings, arcs=arcs):
        with pytest.raises(ScoreError, match=message):
            search(SiblingBatch(arcs, siblings, lengths), False, engine)

    refused("sibling_scores has shape .3, 5, 5., expected .3, 5, 5, 5.", arcs)
    refused("sibling_scores has type torch.bool, expected floats or integers", siblings.bool())
    refused("arc_scores has shape", arcs=arcs[:, 1:])
    for bad in (torch.nan, torch.inf, 3e38, -3e38):
        siblings = torch.zeros(3, 5, 5, 5)
        siblings[1, 2, 4, 3] = bad
        refused(r"sibling_scores: sentence 1: the score at \[2, 4, 3\] is", siblings)
        siblings = torch.zeros(3, 5, 5, 5)
        siblings[2, 3, 1, 3] = bad
        refused(r"sibling_scores: sentence 2: the score at \[3, 1, 3\] is", siblings)


@every_engine
def test_end_scores_are_checked(engine):
    shape = (3, 5, 5)
    arcs, siblings, lengths = torch.zeros(shape), torch.zeros(3, 5, 5, 5), torch.tensor([4, 3, 4])

    def refused(message, ends):
        with pytest.raises(ScoreError, match=message):
            search(SiblingBatch(arcs, siblings, lengths, ends), False, engine)

    refused(r"end_scores has shape \(3, 5, 4\) on c\S+, expected \(3, 5, 5\)", torch.zeros(3, 5, 4))
    refused(r"end_scores has shape \(2, 5, 5\)", torch.zeros(2, 5, 5))
    refused(r"end_scores has shape \(5, 5\)", torch.zeros(5, 5))
    refused("end_scores is .* on meta", torch.zeros(shape, device="meta"))
    refused("end_scores.*type torch.bool, expected floats or integers", torch.zeros(shape).bool())
    refused("end_scores.*complex64, expected floats", torch.zeros(shape, dtype=torch.complex64))
    for bad in (torch.nan, torch.inf, 3e38, -3e38):
        ends = torch.zeros(shape)
        ends[1, :, 4] = ends[1, 4] = ends[:, 2, 2] = ends[:, :, 0] = bad  # not read
        search(SiblingBatch(arcs, siblings, lengths, ends), False, engine)
        ends[1, 2, 3] = bad
        refused("end_scores: sentence 1: the score of head 2 -> modifier 3 is", ends)


@every_root
@pytest.mark.parametrize("towards_end", [True, False])
@pytest.mark.parametrize(("engine", "n"), [("native", 180), ("torch", 60)])
def test_deep_chains(single_root, towards_end, engine, n):
    arcs = torch.zeros(1, n + 1, n + 1)
    m = torch.arange(1, n + 1)
    head = m - 1 if towards_end else (m + 1) % (n + 1)
    arcs[0, head, m] = 1
    batch = SiblingBatch(arcs, torch.zeros(1, n + 1, n + 1, n + 1), torch.tensor([n]))
    heads, values = search(batch, single_root, engine)
    assert heads[0].tolist() == [-1, *head.tolist()]
    assert values.item() == n


@every_engine
@every_root
def test_against_supar(engine, single_root):
    tree = pytest.importorskip("supar.structs.tree", reason="SuPar is not installed")
    rng = torch.Generator().manual_seed(8)
    n_batch, n_nodes = 12, 12
    arcs = torch.randn(n_batch, n_nodes, n_nodes, generator=rng)
    siblings = torch.randn(n_batch, n_nodes, n_nodes, n_nodes, generator=rng)
    lengths = torch.randint(2, n_nodes, (n_batch,), generator=rng)
    for h in range(n_nodes):
        siblings[:, h, :, h] = 0  # it scores no modifiers without siblings
    # Its rows are modifiers, its columns heads.
    theirs = (arcs.mT.contiguous(), siblings.permute(0, 2, 1, 3).contiguous())
    peer = tree.Dependency2oCRF(theirs, lengths, multiroot=not single_root)
    heads, values = search(SiblingBatch(arcs, siblings, lengths), single_root, engine)
    torch.testing.assert_close(values, peer.max.detach(), rtol=1e-5, atol=1e-4)
    for b, n in enumerate(lengths.tolist()):
        assert peer.argmax[b, 1 : n + 1].tolist() == heads[b, 1 : n + 1].tolist()
