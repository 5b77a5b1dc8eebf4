"""The k best trees: enumeration -> textbook -> native -> torch, for every decoder; errors."""

import numpy as np
import pytest
import torch
from torch import Tensor

from gpuparse.errors import NoTreeError, ScoreError
from gpuparse.inference import DECODERS, with_quantity
from gpuparse.inference.native_trees import MAX_TREES
from gpuparse.inference.textbook import projective, spanning_trees
from tests.inference.decoders import draw_parts
from tests.inference.test_laws import answers, with_junk
from tests.oracles.brute_force import all_trees
from tests.oracles.tree_parts import values_of_trees
from tests.strategies import cases

every_decoder = pytest.mark.parametrize("name", with_quantity("k_best"))
every_root = pytest.mark.parametrize("single_root", [False, True], ids=["multi", "single"])
every_engine = pytest.mark.parametrize("engine", ["native", "torch"])
KINDS = ["float32", "float64", "ties", "forbidden", "pruned"]


def search(name, parts, lengths, k, single_root=False, engine="native"):
    return answers("k_best", name, parts, lengths, single_root, engine, k)


def textbook(name, parts, b, n, k, single_root):
    """The textbook's trees and scores of a sentence, or None."""
    parts = {f: part[(b, *[slice(n + 1)] * (part.ndim - 1))] for f, part in parts.items()}
    book = spanning_trees if name == "chu_liu_edmonds" else projective
    given = [parts.pop("arc"), *([parts["sibling"], k, parts["end"]] if parts else [k])]
    try:
        return getattr(book, f"{name}_kbest")(*given, single_root=single_root)
    except NoTreeError:
        return None


CASES = cases({1: 500, 2: 2000, 3: 2500, 4: 3000, 5: 2000})
"""Words -> sentences."""
RANKS = {1: (1, 3), 2: (2, 5), 3: (7, 30), 4: (3, 20), 5: (5, 40)}
"""Words -> k: for up to three of them more than there are projective trees."""


@every_decoder
@every_root
@pytest.mark.parametrize("n", CASES)
def test_many_sentences_have_the_trees_of_enumeration(name, single_root, n):
    """Over n = 1..5, with many ties, half of the sentences with forbidden parts."""
    rng, is_projective = np.random.default_rng(n), DECODERS[name].is_projective
    drawn = [draw_parts(name, rng, CASES[n] // 2, n, kind) for kind in ("ties", "forbidden")]
    parts = {field: np.concatenate([each[field] for each in drawn]) for field in drawn[0]}
    values = values_of_trees(parts, projective=is_projective, single_root=single_root)
    is_possible = values.max(axis=1) > -np.inf
    for b in np.flatnonzero(~is_possible)[:20]:
        with pytest.raises(NoTreeError, match="sentence 0"):
            search(name, {f: part[[b]] for f, part in parts.items()}, [n], 3, single_root)
    parts, values = {f: part[is_possible] for f, part in parts.items()}, values[is_possible]
    trees = all_trees(n, is_projective, single_root)
    places = {tuple(tree): t for t, tree in enumerate(trees.tolist())}
    for k in RANKS[n]:
        heads, found = search(name, parts, [n] * len(values), k, single_root)
        assert (heads.dtype, found.dtype) == (torch.int64, torch.float64)
        expected = np.full((len(values), k), -np.inf, np.float32)
        ranked = -np.sort(-values, axis=1)[:, :k]
        expected[:, : ranked.shape[1]] = ranked
        assert (found.numpy() == expected).all()
        # Each answer is one of the enumerated trees, has the value it claims, and comes once.
        exists = found.numpy() > -np.inf
        assert (heads.numpy()[~exists] == -1).all()
        sentence, _ = np.nonzero(exists)
        tree = [places[tuple(tree)] for tree in heads.numpy()[exists].tolist()]
        assert (values[sentence, tree] == found.numpy()[exists]).all()
        assert len(set(zip(sentence.tolist(), tree, strict=True))) == len(tree)


@every_decoder
@every_root
@pytest.mark.parametrize("kind", KINDS)
def test_native_code_equals_the_textbook(name, single_root, kind):
    """The same trees in the same order and the same bits, ties and rounding included."""
    rng = np.random.default_rng(2)
    for n, k in [(1, 2), (2, 4), (3, 30), (5, 1), (6, 12), (8, 7), (11, 5)]:
        lengths = [n, int(rng.integers(0, n + 1))]
        parts = with_junk(name, draw_parts(name, rng, 2, n, kind), lengths, np.nan)
        for b, length in enumerate(lengths):
            wanted = textbook(name, parts, b, length, k, single_root)
            if wanted is None:
                continue
            trees, sums = wanted
            alone = {field: part[[b]] for field, part in parts.items()}
            heads, values = search(name, alone, [length], k, single_root)
            count, padding = len(trees), [-1] * (n + 3 - length)
            assert heads[0, :count].tolist() == [tree + padding for tree in trees]
            assert values[0, :count].tolist() == [float(value) for value in sums]
            assert (heads[0, count:] == -1).all()
            assert (values[0, count:] == -torch.inf).all()


@every_decoder
@every_root
@pytest.mark.parametrize("kind", KINDS)
def test_torch_finds_the_same_trees_and_bits(name, single_root, kind, device):
    """Batches have all lengths, and some sentences fewer trees than are asked for."""
    rng, lengths = np.random.default_rng(3), [9, 0, 1, 6, 2, 9, 4]
    for k in (1, 2, 6, 25):
        drawn = draw_parts(name, rng, len(lengths), max(lengths), kind)
        parts = with_junk(name, drawn, lengths, np.nan)
        possible = [
            b
            for b, n in enumerate(lengths)
            if textbook(name, parts, b, n, 1, single_root) is not None
        ]
        parts = {field: part[possible] for field, part in parts.items()}
        words = [lengths[b] for b in possible]
        there = {field: torch.from_numpy(part).to(device) for field, part in parts.items()}
        ours = search(name, there, words, k, single_root, "torch")
        theirs = search(name, parts, words, k, single_root)
        assert ours[0].device.type == device.type
        assert ours[0].cpu().equal(theirs[0])
        assert ours[1].cpu().equal(theirs[1])


@every_decoder
def test_traced_code_finds_them_as_one_operation_of_torch(name):
    drawn = draw_parts(name, np.random.default_rng(4), 6, 5, "ties")
    parts = [torch.from_numpy(part) for part in drawn.values()]

    def find(arcs: Tensor, *others: Tensor) -> tuple[Tensor, Tensor]:
        ends = {"end_scores": others[1]} if others else {}
        lengths = torch.full((len(arcs),), 5)
        kbest = DECODERS[name].function("k_best")
        return kbest(arcs, *others[:1], lengths, 3, engine="torch", **ends)

    expected = find(*parts)
    found = torch.compile(find, fullgraph=True, backend="eager")(*parts)
    assert all(ours.equal(theirs) for ours, theirs in zip(found, expected, strict=True))
    found = torch.func.vmap(find)(*(part.unflatten(0, (2, 3)) for part in parts))
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.flatten(0, 1).equal(theirs)


@every_decoder
@every_root
@every_engine
def test_ties_go_by_the_part_made_first(name, single_root, engine):
    """All trees score 0; each is the best of the first part that is left."""
    parts = {
        field: 0 * part for field, part in draw_parts(name, np.random.default_rng(9), 1, 3).items()
    }
    heads, values = search(name, parts, [3], 5, single_root, engine)
    assert heads[0].tolist() == textbook(name, parts, 0, 3, 5, single_root)[0]
    assert (values == 0).all()
    if name == "chu_liu_edmonds" and not single_root:
        expected = [[0, 0, 0], [2, 0, 0], [0, 1, 0], [0, 0, 1], [3, 0, 0]]
        assert heads[0, :, 1:].tolist() == expected


@every_decoder
@every_root
@pytest.mark.parametrize("is_close", [False, True], ids=["far", "close"])
def test_scores_of_long_sentences_fall_and_no_tree_comes_twice(name, single_root, is_close):
    """Also where scores differ by rounding alone."""
    rng = np.random.default_rng(5)
    parts = draw_parts(name, rng, 8, 30, "float32")
    if is_close:
        parts["arc"] = (1000 + rng.integers(0, 3, (8, 31, 31)) * 1e-4).astype(np.float32)
    heads, values = search(name, parts, [30] * 8, 40, single_root)
    assert (values[:, 1:] <= values[:, :-1]).all()
    assert all(len({tuple(tree) for tree in trees.tolist()}) == 40 for trees in heads)


@every_decoder
@every_root
@every_engine
def test_many_more_trees_than_there_are(name, single_root, engine):
    for n in range(5 if engine == "native" else 4):
        parts = draw_parts(name, np.random.default_rng(n), 2, n, "float32")
        heads, values = search(name, parts, [n, n], 300, single_root, engine)
        trees = all_trees(n, DECODERS[name].is_projective, single_root and n > 0).tolist()
        for b in range(2):
            assert sorted(heads[b, : len(trees)].tolist()) == sorted(trees)
        assert (values > -torch.inf).sum(1).tolist() == [len(trees)] * 2
        assert heads[:, len(trees) :].eq(-1).all()


@every_decoder
@every_root
@pytest.mark.parametrize("n", [6, 17, 40])
def test_no_tree_is_left_out(name, single_root, n):
    """The second best tree is the best without one of the arcs of the first."""
    parts = draw_parts(name, np.random.default_rng(n), 1, n, "float64")
    heads, values = search(name, parts, [n], 2, single_root)
    others = {field: np.repeat(part, n, axis=0) for field, part in parts.items()}
    others["arc"][np.arange(n), heads[0, 0, 1:], np.arange(1, n + 1)] = -np.inf
    _, rest = answers("best", name, others, [n] * n, single_root, "native")
    assert values[0, 1].item() == pytest.approx(rest.max().item(), rel=1e-12)


@every_decoder
@every_root
@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_sentences_of_one_batch_share_no_memory(name, single_root, kind):
    """Sentences of any length after one another, some with fewer trees than asked for."""
    lengths = [20, 1, 2, 20, 9, 3, 20, 2]
    parts = draw_parts(name, np.random.default_rng(6), len(lengths), 20, kind)
    found = search(name, with_junk(name, parts, lengths, np.nan), lengths, 6, single_root)
    for b, n in enumerate(lengths):
        alone = {f: part[(slice(b, b + 1), *[slice(n + 1)] * (part.ndim - 1))]
                 for f, part in parts.items()}  # fmt: skip
        heads, values = search(name, alone, [n], 6, single_root)
        assert heads[0].equal(found[0][b, :, : n + 1])
        assert values[0].equal(found[1][b])


@every_decoder
def test_errors_say_what_is_wrong(name):
    parts = {
        field: 0 * part for field, part in draw_parts(name, np.random.default_rng(9), 2, 3).items()
    }
    no_tree = parts | {"arc": parts["arc"].copy()}
    no_tree["arc"][1, :, 1] = -np.inf
    meta = {field: torch.from_numpy(part).to("meta") for field, part in parts.items()}
    flat = parts | {"arc": parts["arc"][0]}
    for given, lengths, k, engine, error, said in [
        *((parts, [3, 2], k, "native", ScoreError, f"k is {k}") for k in (0, -1, MAX_TREES + 1)),
        (parts, [3, 2], 0, "torch", ScoreError, "k is 0"),
        (parts, [3, 2], 2, "triton", ScoreError, "there are no Triton kernels"),
        (parts, [3, 2], 2, "tpu", ScoreError, "unknown engine 'tpu'"),
        (meta, [3, 2], 2, "native", ScoreError, "on meta"),
        (flat, [3, 2], 2, "native", ScoreError, "expected"),
        (parts, [4, 2], 2, "native", ScoreError, "sentence 0: length 4"),
        *((no_tree, [3, 2], 2, e, NoTreeError, "sentence 1") for e in ("native", "torch")),
    ]:
        with pytest.raises(error, match=said):
            search(name, given, lengths, k, engine=engine)
