"""Enumeration -> textbook loops -> torch -> compiled, Triton: each rung equals the one below."""

import importlib
from functools import cache

import numpy as np
import pytest
import torch

from gpuparse import inference, native
from gpuparse.errors import NoTreeError
from tests.inference.decoders import (
    OTHERS,
    QUANTITIES,
    TEXTBOOK,
    decode_parts,
    draw_parts,
    engines_of,
    fewer,
    no_longer,
    skip_unless_it_reads,
)
from tests.inference.test_laws import answers
from tests.oracles.brute_force import all_trees
from tests.oracles.graphs import graph_value, single_changes
from tests.oracles.tree_parts import tree_value, values_of_trees
from tests.strategies import cases

every_root = pytest.mark.parametrize("single_root", [False, True], ids=["multi", "single"])
EXACT = [name for name, row in inference.DECODERS.items() if not (row.starts_from or row.certifies)]


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
    decoder, rng, n_none = inference.DECODERS[name], np.random.default_rng(4), 0
    for n in range(1, 6 if name in EXACT else 5):
        parts = draw_parts(name, rng, 12 if name in EXACT else 6, n, kind)
        is_projective = decoder.is_projective
        all_values = values_of_trees(parts, projective=is_projective, single_root=single_root)
        trees = all_trees(n, is_projective, single_root).tolist()
        for b, values in enumerate(all_values.tolist()):
            sentence = of_sentence(parts, b, n)
            found = expected(name, sentence, n, single_root)
            if found is None:
                n_none += 1
                assert max(values) == -np.inf or name not in EXACT
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
            assert value == pytest.approx(values[trees.index(tree)])
            if name in EXACT:
                assert value == pytest.approx(max(values))
            elif not decoder.certifies:
                for other, of_other in zip(trees, values, strict=True):
                    if sum(h != k for h, k in zip(tree, other, strict=True)) == 1:
                        assert of_other <= value + 1e-12
    assert (n_none > 0) == (kind == "forbidden")


CASES = cases({1: 500, 2: 1500, 3: 2500, 4: 3000, 5: 2500})


@pytest.mark.parametrize(
    ("name", "engine"), [pair for pair in engines_of() if pair.values[0] in EXACT]
)
@every_root
@pytest.mark.parametrize("n", CASES)
def test_many_sentences_have_the_best_tree_of_enumeration(name, engine, single_root, n):
    """Over n = 1..5, with many ties, half of the sentences with forbidden parts."""
    rng, half = np.random.default_rng(n), fewer(engine, CASES[n]) // 2
    drawn = [draw_parts(name, rng, half, n, kind) for kind in ("ties", "forbidden")]
    parts = {field: np.concatenate([each[field] for each in drawn]) for field in drawn[0]}
    is_projective = inference.DECODERS[name].is_projective
    values = values_of_trees(parts, projective=is_projective, single_root=single_root)
    has_tree = values.max(1) > -np.inf
    assert has_tree[:half].all()
    assert has_tree[half:].any()
    assert not has_tree.all()
    left, values = {field: part[has_tree] for field, part in parts.items()}, values[has_tree]
    heads, scores = answers("best", name, left, [n] * len(values), single_root, engine)
    assert scores.tolist() == values.max(1).tolist()
    # Each answer is one of the enumerated trees, and has the value it claims.
    trees = {tuple(t): i for i, t in enumerate(all_trees(n, is_projective, single_root).tolist())}
    found = [trees[tuple(tree)] for tree in heads.tolist()]
    assert values[np.arange(len(found)), found].tolist() == scores.tolist()
    for b in np.flatnonzero(~has_tree)[: fewer(engine, 20)]:
        alone = {field: part[[b]] for field, part in parts.items()}
        with pytest.raises(NoTreeError, match="sentence 0"):
            answers("best", name, alone, [n], single_root, engine)


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
    "kinds", [("float32", "ties", "forbidden", "pruned"), ("float64",)], ids=["float32", "float64"]
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


@pytest.mark.parametrize(
    "name", [name for name in EXACT if inference.DECODERS[name].is_higher_order]
)
@every_root
@pytest.mark.parametrize("kind", ["float32", "float64"])
@pytest.mark.parametrize("n", [12, pytest.param(36, marks=pytest.mark.slow)])
def test_long_sentences_equal_the_textbook(name, single_root, kind, n):
    """Rows of several vectors; the same bits."""
    parts = draw_parts(name, np.random.default_rng(14), 1, n, kind)
    found = decode_parts(name, parts, [n], single_root, "native")
    tree, value = expected(name, of_sentence(parts, 0, n), n, single_root)
    assert (found.heads[0].tolist(), found.scores.item()) == (tree, float(value))
