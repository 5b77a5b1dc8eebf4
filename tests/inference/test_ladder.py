"""Enumeration -> textbook loops -> torch -> compiled, Triton: each rung equals the one below."""

import importlib
from functools import cache
from math import prod

import numpy as np
import pytest
import torch

from gpuparse import inference, native
from gpuparse.errors import NoTreeError
from tests.inference.decoders import (
    ENGINES,
    OTHERS,
    QUANTITIES,
    ROWS,
    TEXTBOOK,
    decode_parts,
    draw_parts,
    engines_of,
    fewer,
    no_longer,
    search_with,
    skip_unless_it_reads,
)
from tests.oracles.brute_force import all_trees, best_values
from tests.oracles.graphs import graph_value, single_changes
from tests.oracles.tree_parts import tree_value
from tests.strategies import cases, integer_scores

every_decoder = pytest.mark.parametrize("name", ROWS)
every_root = pytest.mark.parametrize("single_root", [False, True], ids=["multi", "single"])
every_engine = pytest.mark.parametrize("engine", ENGINES)


def test_every_decoder_has_a_textbook_form():
    """A decoder without an oracle fails here; the tests below run over the table."""
    assert list(TEXTBOOK) == list(inference.DECODERS)
    for name, decoder in inference.DECODERS.items():
        assert decoder.name == name
        assert decoder.function("best") is getattr(inference, name)


def test_every_quantity_is_tested_for_every_decoder():
    quantities = {
        quantity for decoder in inference.DECODERS.values() for quantity in decoder.engines
    }
    assert quantities == set(QUANTITIES)
    for quantity in quantities:
        assert inference.with_quantity(quantity)
    for test in QUANTITIES.values():
        assert callable(found_test(test))


def test_every_public_name_is_a_quantity_of_a_decoder_or_has_its_test():
    of_decoders = {
        decoder.function(quantity).__name__
        for decoder in inference.DECODERS.values()
        for quantity in decoder.engines
    }
    assert set(inference.__all__) == of_decoders | set(OTHERS)
    assert not of_decoders & set(OTHERS)
    for name, test in OTHERS.items():
        assert callable(found_test(test)), name


def found_test(name):
    module, function = name.split(":")
    return getattr(importlib.import_module(f"tests.inference.{module}"), function)


@pytest.mark.parametrize("name", inference.DECODERS)
def test_the_table_has_the_sums_of_native_code(name):
    decoder, arcs, siblings = inference.DECODERS[name], np.zeros((1, 3, 3)), np.zeros((3, 3, 3))
    heads, totals = np.zeros((1, 1, 3), np.int64), np.zeros((1, 1))
    given = decoder.number, arcs, siblings, arcs, np.array([2]), False, heads, totals
    if decoder.has("k_best", "native"):
        assert native.call("find_trees_batch", *given) == -1  # no sentence lacks a tree
    else:
        with pytest.raises(ValueError, match="find_trees_batch"):
            native.call("find_trees_batch", *given)


def test_the_enumerator_finds_the_known_numbers_of_trees():
    assert [len(all_trees(n, True, False)) for n in range(1, 6)] == [1, 3, 12, 55, 273]
    assert [len(all_trees(n, False, False)) for n in range(1, 6)] == [
        (n + 1) ** (n - 1) for n in range(1, 6)
    ]
    assert [len(all_trees(n, False, True)) for n in range(1, 6)] == [
        n ** (n - 1) for n in range(1, 6)
    ]


def split_by_existence(scores, row, single_root):
    """(matrices with a tree, their best values, matrices without)."""
    best = best_values(scores, projective=row.projective, single_root=single_root)
    has_tree = best > -np.inf
    return scores[has_tree], best[has_tree], scores[~has_tree]


@every_decoder
@every_root
def test_the_first_order_textbook_equals_enumeration(name, single_root):
    row, rng = ROWS[name], np.random.default_rng(1)
    for n, forbidden in [(n, p) for n in range(1, 6) for p in (0.0, 0.2, 0.5)]:
        scores = integer_scores(rng, 60, n, forbidden=forbidden)
        trees = all_trees(n, row.projective, single_root).tolist()
        possible, best, impossible = split_by_existence(scores, row, single_root)
        for matrix, value in zip(possible, best, strict=True):
            heads, score = row.textbook(matrix, single_root=single_root)
            assert heads in trees
            assert score == value == sum(matrix[h, m] for m, h in enumerate(heads) if m > 0)
        for matrix in impossible:
            with pytest.raises(NoTreeError):
                row.textbook(matrix, single_root=single_root)


@every_decoder
@every_root
@every_engine
@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 6])
def test_many_matrices_have_the_value_of_enumeration(name, single_root, engine, n):
    """Over n = 1..6, with many ties, half of the matrices with forbidden arcs.

    Triton's kernels search as many on a GPU, and fewer where they are interpreted.
    """
    row, rng = ROWS[name], np.random.default_rng(n)
    n_batch = fewer(engine, cases({1: 250, 2: 1250, 3: 2000, 4: 2500, 5: 2500, 6: 1500})[n])
    scores = integer_scores(rng, n_batch, n)
    scores[::2] = integer_scores(rng, len(scores[::2]), n, forbidden=0.25)
    possible, best, impossible = split_by_existence(scores, row, single_root)
    lengths = torch.full((len(possible),), n)
    scores = torch.from_numpy(possible)
    heads, values = search_with(row.search, scores, lengths, single_root=single_root, engine=engine)
    assert values.tolist() == best.tolist()
    # Each answer is one of the enumerated trees, and has the value it claims.
    trees = all_trees(n, row.projective, single_root)
    base = (n + 1) ** np.arange(n)
    assert set((heads.numpy()[:, 1:] @ base).tolist()) <= set((trees[:, 1:] @ base).tolist())
    sentence, word = np.arange(len(possible))[:, None], np.arange(1, n + 1)
    assert (possible[sentence, heads.numpy()[:, 1:], word].sum(axis=1) == best).all()
    for matrix in impossible[: fewer(engine, 20)]:
        with pytest.raises(NoTreeError, match="sentence 0"):
            search_with(
                row.search,
                torch.from_numpy(matrix[None]),
                torch.tensor([n]),
                single_root=single_root,
                engine=engine,
            )


def of_sentence(parts, b, n):
    """The parts of one sentence, without padding."""
    return {field: part[(b, *[slice(n + 1)] * (part.ndim - 1))] for field, part in parts.items()}


def expected(name, parts, n, single_root):
    """The textbook's result, or None."""
    try:
        return TEXTBOOK[name](parts, single_root)
    except NoTreeError:
        return None


@pytest.mark.parametrize("name", inference.DECODERS)
@every_root
@pytest.mark.parametrize("kind", ["ties", "forbidden", "float64"])
def test_textbook_equals_enumeration(name, single_root, kind):
    """The best of all trees; of searches by single changes, one that no change improves."""
    decoder, rng = inference.DECODERS[name], np.random.default_rng(4)
    is_exact = decoder.starts_from is None
    for n in (1, 2, 3, 4):
        parts = draw_parts(name, rng, 6, n, kind)
        for b in range(6):
            sentence = of_sentence(parts, b, n)
            trees = all_trees(n, decoder.is_projective, single_root).tolist()
            values = [tree_value(sentence, tree) for tree in trees]
            found = expected(name, sentence, n, single_root)
            if found is None:
                is_start = decoder.starts_from or decoder.certifies
                assert max(values) == -np.inf or is_start
                continue
            tree, value = found
            if decoder.gives_graphs:
                graph = np.zeros((n + 1, n + 1), bool)
                graph[tuple(zip(*tree, strict=True))] = True
                given = sentence["arc"], sentence["sibling"]
                assert value == pytest.approx(graph_value(*given, graph, sentence["end"]))
                for changed in single_changes(graph, single_root=single_root):
                    assert graph_value(*given, changed, sentence["end"]) <= value + 1e-12
                continue
            assert value == pytest.approx(tree_value(sentence, tree))
            assert tree in trees
            if is_exact and not decoder.certifies:
                assert value == pytest.approx(max(values))
            for other, of_other in zip(trees, values, strict=True):
                if sum(h != k for h, k in zip(tree, other, strict=True)) == 1:
                    assert of_other <= value + 1e-12 or decoder.certifies


def lengths_for(decoder):
    """Lengths that the textbook can search, also around sizes of vectors in native code."""
    if decoder.certifies:
        return [3, 0, 1, 2, 3]
    if decoder.gives_graphs:
        return [4, 0, 1, 2, 3, 4, 4]
    if decoder.starts_from:
        return [6, 0, 1, 2, 3, 4, 5]
    return [9, 0, 1, 2, 3, 5, 8] if decoder.is_higher_order else [17, 0, 1, 2, 3, 5, 8, 15, 16]


@cache
def cases_of(name, single_root, kinds, lengths):
    """Parts of one batch of all kinds, and of each sentence its length and the textbook's tree."""
    rng, n = np.random.default_rng(5), max(lengths)
    drawn = [draw_parts(name, rng, len(lengths), n, kind) for kind in kinds]
    parts = {field: np.concatenate([each[field] for each in drawn]) for field in drawn[0]}
    found = [
        (b, length, expected(name, of_sentence(parts, b, length), length, single_root))
        for b, length in enumerate(lengths * len(kinds))
    ]
    kept = [(b, length, tree) for b, length, tree in found if tree is not None]
    some = {field: part[[b for b, *_ in kept]] for field, part in parts.items()}
    return some, [(length, tree) for _, length, tree in kept]


@pytest.mark.parametrize(("name", "engine"), engines_of())
@every_root
@pytest.mark.parametrize(
    "kinds", [("float32", "ties", "forbidden"), ("float64",)], ids=["float32", "float64"]
)
def test_every_engine_equals_the_textbook(name, engine, device, single_root, kinds):
    """The same trees and the same bits; of dual decomposition, which certifies, the same scores."""
    skip_unless_it_reads(engine, device)
    decoder = inference.DECODERS[name]
    lengths = tuple(no_longer(engine, 5, lengths_for(decoder)))
    parts, wanted = cases_of(name, single_root, kinds, lengths)
    parse = decode_parts(name, parts, [n for n, _ in wanted], single_root, engine, device)
    assert parse.scores.dtype == torch.float64
    for i, (length, (tree, value)) in enumerate(wanted):
        if decoder.certifies:
            sentence = of_sentence(parts, i, length)
            heads = parse.heads[i, : length + 1].tolist()
            trees = all_trees(length, False, single_root and length > 0)
            best = max(tree_value(sentence, tree) for tree in trees)
            value = tree_value(sentence, heads)
            assert value == pytest.approx(best, abs=1e-5)
            continue
        assert parse.scores[i].item() == float(value)
        if decoder.gives_graphs:
            assert set(map(tuple, parse.arcs[i].nonzero().tolist())) == set(tree)
        else:
            padding = [-1] * (parts["arc"].shape[1] - 1 - length)
            assert parse.heads[i].tolist() == list(tree) + padding


def test_some_of_the_matrices_above_have_no_tree():
    scores = integer_scores(np.random.default_rng(3), 500, 3, forbidden=0.25)
    _, _, impossible = split_by_existence(scores, ROWS["eisner"], True)
    assert 0 < len(impossible) < 500
    assert prod(impossible.shape) > 0
