"""Trees and projectivity against their definitions, word by word."""

import itertools
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuparse.data.conll import check_trees, read_treebank
from gpuparse.data.trees import (
    is_projective,
    n_roots,
    nonprojective_arcs,
)


def chain(heads, m):
    """m, its head, the head of that and so on, as far as 0; None where it never gets there."""
    nodes = [m]
    while nodes[-1] != 0:
        if len(nodes) > len(heads) + 1:
            return None
        nodes.append(heads[nodes[-1] - 1])
    return nodes


def nonprojective_by_definition(heads):
    marks = []
    for m, h in enumerate(heads, 1):
        between = range(min(h, m) + 1, max(h, m))
        marks.append(h != 0 and any(h not in chain(heads, k) for k in between))
    return marks


@pytest.mark.parametrize("n", range(6))
def test_every_assignment_of_heads_up_to_five_words(n):
    n_trees = n_projective = 0
    for heads in itertools.product(range(n + 1), repeat=n):
        tree = all(chain(heads, m) is not None for m in range(1, n + 1))
        if tree:
            marks = nonprojective_by_definition(heads)
            assert nonprojective_arcs(heads).tolist() == marks
            assert is_projective(heads) == (not any(marks))
            n_trees += 1
            n_projective += not any(marks)
        else:
            with pytest.raises(ValueError, match="not a tree"):
                nonprojective_arcs(heads)
    assert n_trees == (n + 1) ** max(n - 1, 0)  # Cayley
    assert n_projective == [1, 1, 3, 12, 55, 273][n]


@settings(deadline=None, max_examples=200)
@given(st.integers(1, 30), st.randoms(use_true_random=False))
def test_random_trees(n, random):
    order = [0, *random.sample(range(1, n + 1), n)]
    heads = [0] * n
    for k in range(1, n + 1):
        heads[order[k] - 1] = random.choice(order[:k])
    assert nonprojective_arcs(heads).tolist() == nonprojective_by_definition(heads)
    assert n_roots(heads) == heads.count(0)
    mirrored = [0 if h == 0 else n + 1 - h for h in reversed(heads)]
    assert nonprojective_arcs(mirrored).tolist() == nonprojective_arcs(heads).tolist()[::-1]


def test_heads_that_are_no_tree():
    assert is_projective([])
    with pytest.raises(ValueError, match="sentence 1 are not a tree"):
        nonprojective_arcs([0, 2, 1], np.array([0, 1, 3]))


def test_a_word_without_a_head_hangs_from_nothing():
    assert nonprojective_arcs([3, -1, 0]).tolist() == [True, False, False]


def test_a_chain_of_many_words_needs_no_deep_calls():
    n = 100_000
    assert is_projective(np.arange(n))
    with pytest.raises(ValueError, match="not a tree"):
        nonprojective_arcs(np.roll(np.arange(1, n + 1), 1))


def test_inputs_are_not_written_to():
    heads = np.array([2, 0, 2], np.int32)
    nonprojective_arcs(heads)
    assert heads.tolist() == [2, 0, 2]


REAL = Path(__file__).resolve().parents[2].parent / "shared" / "data"
PUBLISHED = [  # per cent of arcs, of sentences; sentences with several roots, from the READMEs
    ("danish-ddt/train.conllu", 0.95, 14.4, 56),
    ("danish-ddt/test.conllu", 1.07, 16.1, 7),
    ("ancient-greek-iliad/train.conll", 13.44, 81.1, 5069),
    ("english-ewt/en_ewt-ud-train.conllu", 0.17, 2.3, 0),
    ("spanish-conll07/train.conll", 0.07, 1.8, 0),
]


@pytest.mark.skipif(not REAL.is_dir(), reason="needs the treebanks in ../shared/data")
@pytest.mark.parametrize(("name", "arcs", "sentences", "several_roots"), PUBLISHED)
def test_published_shares_of_nonprojective_arcs(name, arcs, sentences, several_roots):
    treebank = read_treebank(REAL / name)
    marks = nonprojective_arcs(treebank.heads, treebank.word_starts)
    assert round(100 * marks.mean(), 2) == arcs
    per_sentence = np.add.reduceat(marks, treebank.word_starts[:-1]) > 0
    assert round(100 * per_sentence.mean(), 1) == sentences
    assert check_trees(treebank) == []
    assert len(check_trees(treebank, single_root=True)) == several_roots
