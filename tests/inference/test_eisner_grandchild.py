"""Siblings and grandchildren with labels: enumeration -> textbook -> compiled; laws, refusals.

The search without labels is among those of test_ladder.py and test_laws.py.
"""

from contextlib import suppress
from functools import cache

import numpy as np
import pytest
import torch

from gpuparse.errors import NoTreeError, ScoreError
from gpuparse.inference import eisner_grandchild, eisner_grandchild_labelled, engines
from gpuparse.inference.textbook import higher_order
from tests.oracles.brute_force import all_trees
from tests.oracles.tree_parts import cells_of, cells_of_all, is_read
from tests.strategies import cases

every_root = pytest.mark.parametrize("single_root", [False, True], ids=["multi", "single"])
FIELDS = ("arc", "sibling", "inner_grandchild", "outer_grandchild")
KINDS = tuple(f"{field}_scores" for field in FIELDS[1:])
LABELS = 3
CASES = cases({1: 500, 2: 1500, 3: 2500, 4: 3000, 5: 2500})


def draw(rng, n_batch, n, *, forbidden=0.0, dtype=np.float32, whole=True):
    """Arc, sibling, inner and outer scores with labels; NaN in the cells that are not read."""
    shapes = [(n_batch, n + 1, n + 1, LABELS)] + 3 * [(n_batch, *3 * (n + 1,), LABELS)]
    parts = []
    for shape in shapes:
        scores = rng.integers(-3, 4, shape) if whole else rng.standard_normal(shape)
        scores = scores.astype(dtype)
        scores[rng.random(shape) < forbidden / len(shapes)] = -np.inf
        parts.append(scores)
    # Whole arcs too: what is no candidate.
    parts[0][rng.random(parts[0].shape[:3]) < forbidden] = -np.inf
    for field, scores in zip(FIELDS, parts, strict=True):
        scores[:, ~is_read(field, n + 1, False)] = np.nan
    return parts


def search(parts, lengths, single_root):
    """heads, labels, scores."""
    arcs, *others = (torch.as_tensor(part) for part in parts)
    options = dict(zip(KINDS, others, strict=True), single_root=single_root)
    return eisner_grandchild_labelled(arcs, lengths, **options)


def labelled_values(parts, *, single_root):
    """Scores (B, T) of all projective trees, each arc with its best label."""
    n, total = parts[0].shape[1] - 1, 0
    for words in zip(*(cells_of_all(f, n, True, single_root) for f in FIELDS), strict=True):
        cells = [(slice(None), *cell.T) for cell in words]
        total += sum(part[cell] for part, cell in zip(parts, cells, strict=True)).max(axis=2)
    return total


def value_of(parts, tree, labels):
    """The sum of the parts of a tree, which the enumerator names."""
    return sum(
        part[(*cells[field], label)]
        for cells, label in zip(cells_of(tree), labels[1:], strict=True)
        for field, part in zip(FIELDS, parts, strict=True)
    )


def test_the_enumerator_names_the_factors_of_the_paper():
    # They sold 1,200 cars in the U.S.: table 1, where - is for none; h, m, c_h, c_mi, c_mo.
    tree = [-1, 2, 0, 4, 2, 2, 7, 5]
    assert [
        (*cells["sibling"], cells["inner_grandchild"][2], cells["outer_grandchild"][2])
        for cells in cells_of(tree)
    ] == [
        (2, 1, 2, 1, 1),
        (0, 2, 0, 1, 5),
        (4, 3, 4, 3, 3),
        (2, 4, 2, 3, 4),
        (2, 5, 4, 5, 7),
        (7, 6, 7, 6, 6),
        (5, 7, 5, 6, 7),
    ]


@every_root
def test_textbook_equals_enumeration(single_root):
    rng, none = np.random.default_rng(1), 0
    for n, forbidden in [(n, p) for n in range(1, 6) for p in (0.0, 0.3)]:
        parts = draw(rng, 5, n, forbidden=forbidden)
        best = labelled_values(parts, single_root=single_root).max(axis=1)
        trees = all_trees(n, True, single_root).tolist()
        for value, *scores in zip(best, *parts, strict=True):
            if value == -np.inf:
                none += 1
                with pytest.raises(NoTreeError):
                    higher_order.eisner_grandchild_labelled(*scores, single_root=single_root)
                continue
            heads, labels, score = higher_order.eisner_grandchild_labelled(
                *scores, single_root=single_root
            )
            assert heads in trees
            assert score == value == value_of(scores, heads, labels)
    assert none > 0


@cache
def textbook_cases(single_root, kind):
    """A batch of sentences of up to nine words, and what the textbook finds of each."""
    rng, lengths, found = np.random.default_rng(2), [9, 0, 1, 2, 3, 5, 8], []
    parts = draw(
        rng, len(lengths), 9,
        forbidden=0.2 * (kind == "forbidden"),
        dtype=np.float64 if kind == "float64" else np.float32,
        whole=kind in ("ties", "forbidden"),
    )  # fmt: skip
    if kind == "float32":  # a few heads for each word
        order = rng.permuted(np.broadcast_to(np.arange(10), (len(lengths), 10, 10)), axis=2)
        parts[0][order.swapaxes(1, 2) >= 6] = -np.inf
    for b, length in enumerate(lengths):
        nodes = slice(length + 1)
        scores = [parts[0][b, nodes, nodes], *(part[b, nodes, nodes, nodes] for part in parts[1:])]
        with suppress(NoTreeError):
            tree = higher_order.eisner_grandchild_labelled(*scores, single_root=single_root)
            found.append((b, tree))
    return [part[[b for b, _ in found]] for part in parts], [tree for _, tree in found]


@every_root
@pytest.mark.parametrize("kind", ["float32", "float64", "ties", "forbidden"])
def test_native_code_equals_the_textbook(single_root, kind):
    """The same trees, labels and bits, ties and rounding included."""
    n, (parts, wanted) = 9, textbook_cases(single_root, kind)
    left = [torch.from_numpy(part) for part in parts]
    lengths = torch.tensor([len(tree) - 1 for tree, *_ in wanted])
    heads, labels, values = search(left, lengths, single_root)
    assert heads.dtype == labels.dtype == torch.int64
    assert values.dtype == torch.float64
    for k, (tree, of_words, value) in enumerate(wanted):
        padding = [-1] * (n + 1 - len(tree))
        assert heads[k].tolist() == tree + padding
        assert labels[k].tolist() == of_words + padding
        assert values[k].item() == float(value)


@every_root
@pytest.mark.parametrize("n", CASES)
def test_many_cases_have_the_value_of_enumeration(single_root, n):
    """Over n = 1..5, with many ties, half of the cases with forbidden parts."""
    rng, half = np.random.default_rng(n), CASES[n] // 2
    free, forbidden = (draw(rng, half, n, forbidden=p) for p in (0.0, 0.25))
    parts = [np.concatenate(pair) for pair in zip(free, forbidden, strict=True)]
    best = labelled_values(parts, single_root=single_root).max(axis=1)
    has_tree = best > -np.inf
    assert has_tree[:half].all()
    assert not has_tree.all()
    left = [part[has_tree] for part in parts]
    lengths = torch.full((len(left[0]),), n)
    heads, labels, values = search(left, lengths, single_root)
    assert values.tolist() == best[has_tree].tolist()
    trees = {tuple(tree) for tree in all_trees(n, True, single_root).tolist()}
    found = zip(heads.tolist(), labels.tolist(), values.tolist(), *left, strict=True)
    for tree, of_words, value, *scores in found:
        assert tuple(tree) in trees
        assert value_of(scores, tree, of_words) == value
    for b in np.flatnonzero(~has_tree)[:10]:
        with pytest.raises(NoTreeError, match="sentence 0"):
            search([part[b : b + 1] for part in parts], torch.tensor([n]), single_root)


@every_root
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", [3, 9, 17, pytest.param(34, marks=pytest.mark.slow)])
def test_arcs_may_differ_in_their_labels(single_root, n, dtype):
    """Some labels of an arc are forbidden, and some arcs; the same bits as the textbook's."""
    rng = np.random.default_rng(n)
    parts = draw(rng, 1, n, dtype=dtype, whole=False)
    parts[0][rng.random(parts[0].shape) < 0.6] = -np.inf
    heads, labels, values = search(parts, torch.tensor([n]), single_root)
    tree = higher_order.eisner_grandchild_labelled(
        *(part[0] for part in parts), single_root=single_root
    )
    assert (heads[0].tolist(), labels[0].tolist(), values.item()) == tree


def test_laws():
    rng = np.random.default_rng(5)
    parts = draw(rng, 4, 7)
    lengths = torch.tensor([7, 3, 6, 0])
    before = [part.copy() for part in parts]
    found = search(parts, lengths, False)
    for part, was in zip(parts, before, strict=True):
        np.testing.assert_array_equal(part, was)
    # A constant on all arcs into a word changes no tree.
    shifted = [parts[0].copy(), *parts[1:]]
    shifted[0][:, :, 2] += 5
    again = search(shifted, lengths, False)
    assert again[0].equal(found[0])
    assert again[1].equal(found[1])
    assert (again[2] - found[2]).tolist() == [5, 5, 5, 0]
    # The batch may be turned round, and there may be more padding.
    turned = search([part[::-1].copy() for part in parts], lengths.flip(0), False)
    assert all(x.flip(0).equal(y) for x, y in zip(turned, found, strict=True))
    padded = [
        np.pad(part, [(0, 0), *[(0, 3)] * (part.ndim - 2), (0, 0)], constant_values=np.nan)
        for part in parts
    ]
    heads, labels, values = search(padded, lengths, False)
    assert heads[:, :8].equal(found[0])
    assert labels[:, :8].equal(found[1])
    assert (heads[:, 8:] == -1).all()
    assert values.equal(found[2])


def test_many_threads_find_the_same(monkeypatch):
    monkeypatch.setattr(engines.run_in_threads, "__defaults__", (1,))
    parts = draw(np.random.default_rng(6), 9, 8)
    lengths = torch.tensor([8, 1, 0, 5, 8, 7, 2, 3, 8])
    n_threads, found = torch.get_num_threads(), []
    try:
        for threads in (1, 3):
            torch.set_num_threads(threads)
            found.append(search(parts, lengths, True))
    finally:
        torch.set_num_threads(n_threads)
    assert all(x.equal(y) for x, y in zip(*found, strict=True))


def test_one_label_is_the_search_without_labels_and_none_is_refused():
    parts = draw(np.random.default_rng(8), 4, 7, whole=False)
    parts = [part[..., :1] for part in parts]
    lengths = torch.tensor([7, 3, 6, 0])
    heads, labels, scores = search(parts, lengths, True)
    arcs, *others = (torch.from_numpy(part[..., 0]) for part in parts)
    options = dict(zip(KINDS, others, strict=True), single_root=True)
    plain = eisner_grandchild(arcs, lengths, **options)
    assert heads.equal(plain[0])
    assert scores.equal(plain[1])
    assert labels.equal(torch.where(heads >= 0, 0, -1))
    with pytest.raises(ScoreError, match="L > 0"):
        eisner_grandchild_labelled(torch.zeros(1, 2, 2, 0), torch.tensor([1]))
