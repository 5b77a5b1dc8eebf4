"""Third order: enumeration -> textbook loops -> compiled, each equal to the one below."""

import numpy as np
import pytest
import torch

from gpuparse.errors import NoTreeError, ScoreError
from gpuparse.inference import DECODERS, eisner, eisner_sibling
from tests.inference.decoders import TEXTBOOK
from tests.oracles.brute_force import all_trees
from tests.oracles.higher_order_values import part_values
from tests.oracles.tree_parts import AXES, is_read
from tests.strategies import cases

every_root = pytest.mark.parametrize("single_root", [False, True], ids=["multi", "single"])

NAMES = [
    name for name, row in DECODERS.items() if row.is_projective and "grand_sibling" in row.parts
]
every_decoder = pytest.mark.parametrize("name", NAMES)
# The scores that a decoder reads beside those of arcs, and how many words each names.
READS = {name: {f"{field}_scores": AXES[field] for field in DECODERS[name].reads} for name in NAMES}
HIGHER = {
    name: [key for key in reads if key not in ("sibling_scores", "end_scores")]
    for name, reads in READS.items()
}
Scores = dict[str, np.ndarray]


def drawn(rng, name, n_batch, n, *, forbidden=0.0, dtype=np.float32, whole=True) -> Scores:
    """Scores of all parts; `whole`: small integers, full of ties; `forbidden`: part at -inf."""
    scores = {}
    for key, words in {"arc_scores": 2, **READS[name]}.items():
        shape = (n_batch, *[n + 1] * words)
        numbers = rng.integers(-3, 4, shape) if whole else rng.standard_normal(shape)
        scores[key] = numbers.astype(dtype)
        scores[key][rng.random(shape) < forbidden] = -np.inf
    return scores


def fill_unread(scores: Scores, junk: float) -> None:
    """Write `junk` where nothing is read."""
    for key, part in scores.items():
        part[:, ~is_read(key.removesuffix("_scores"), part.shape[1], False)] = junk


def textbook(name, scores, b, n, single_root):
    """The textbook's tree of sentence b, of n words."""
    parts = {
        key.removesuffix("_scores"): part[(b, *[slice(n + 1)] * (part.ndim - 1))]
        for key, part in scores.items()
    }
    return TEXTBOOK[name](parts, single_root)


def search(name, scores, lengths=None, *, single_root=False, engine="native", device="cpu"):
    """Heads and values of the public function."""
    tensors = {key: torch.from_numpy(part).to(device) for key, part in scores.items()}
    arcs = tensors.pop("arc_scores")
    if lengths is None:
        lengths = torch.full((len(arcs),), arcs.shape[1] - 1)
    return DECODERS[name].function("best")(
        arcs, lengths, **tensors, single_root=single_root, engine=engine
    )


def chosen(scores, index):
    return {key: part[index] for key, part in scores.items()}


@every_decoder
@every_root
def test_textbook_equals_enumeration(name, single_root):
    rng = np.random.default_rng(1)
    for n, forbidden in [(n, p) for n in range(1, 6) for p in (0.0, 0.2)]:
        scores = drawn(rng, name, 10, n, forbidden=forbidden)
        values = part_values(scores, single_root=single_root)
        fill_unread(scores, np.nan)
        trees = all_trees(n, True, single_root).tolist()
        for b, best in enumerate(values.max(1)):
            if best == -np.inf:
                with pytest.raises(NoTreeError):
                    textbook(name, scores, b, n, single_root)
                continue
            heads, score = textbook(name, scores, b, n, single_root)
            assert score == best == values[b, trees.index(heads)]


CASES = cases({1: 500, 2: 1500, 3: 2500, 4: 3000, 5: 2500})


@every_decoder
@every_root
@pytest.mark.parametrize("n", CASES)
def test_many_cases_have_the_value_of_enumeration(name, single_root, n):
    """Over n = 1..5, with many ties, half of the cases with forbidden parts."""
    rng, half = np.random.default_rng(n), CASES[n] // 2
    free, forbidden = drawn(rng, name, half, n), drawn(rng, name, half, n, forbidden=0.1)
    scores = {key: np.concatenate([free[key], forbidden[key]]) for key in free}
    all_values = part_values(scores, single_root=single_root)
    best = all_values.max(1)
    has_tree = best > -np.inf
    assert has_tree[:half].all()
    assert not has_tree[half:].all()
    fill_unread(scores, np.nan)
    heads, values = search(name, chosen(scores, has_tree), single_root=single_root)
    assert values.tolist() == best[has_tree].tolist()
    # Each answer is one of the enumerated trees, and has the value it claims.
    trees = {tuple(tree): t for t, tree in enumerate(all_trees(n, True, single_root).tolist())}
    found = [trees[tuple(tree)] for tree in heads.tolist()]
    assert (all_values[np.flatnonzero(has_tree), found] == best[has_tree]).all()
    for b in np.flatnonzero(~has_tree)[:20]:
        with pytest.raises(NoTreeError, match="sentence 0"):
            search(name, chosen(scores, [b]), single_root=single_root)


@every_decoder
@every_root
def test_every_score_is_optional(name, single_root):
    rng = np.random.default_rng(3)
    whole = drawn(rng, name, 6, 5)
    for missing in READS[name]:
        zeros = {**whole, missing: np.zeros_like(whole[missing])}
        expected = search(name, zeros, single_root=single_root)
        left = {key: part for key, part in whole.items() if key != missing}
        found = search(name, left, single_root=single_root)
        assert found[0].equal(expected[0])
        assert found[1].equal(expected[1])


@every_decoder
@every_root
def test_without_higher_order_parts_it_is_the_lower_order(name, single_root):
    """The same values; ties may fall another way."""
    rng = np.random.default_rng(4)
    scores = drawn(rng, name, 8, 12)
    for key in HIGHER[name]:
        del scores[key]
    arcs, siblings, ends = (
        torch.from_numpy(scores[key]) for key in ("arc_scores", "sibling_scores", "end_scores")
    )
    lengths = torch.tensor([12, 3, 0, 7, 12, 1, 9, 11])
    _, values = search(name, scores, lengths, single_root=single_root)
    _, second = eisner_sibling(arcs, siblings, lengths, end_scores=ends, single_root=single_root)
    assert values.equal(second)
    _, values = search(name, {"arc_scores": scores["arc_scores"]}, lengths, single_root=single_root)
    assert values.equal(eisner(arcs, lengths, single_root=single_root)[1])


@every_decoder
@every_root
def test_pruned_sentences(name, single_root):
    """The same as the textbook where few arcs are left, and where one tree is."""
    rng, n = np.random.default_rng(5), 10
    scores = drawn(rng, name, 2, n)
    keep = rng.random((2, n + 1, n + 1)) < 0.15
    word = np.arange(1, n + 1)
    keep[0, word - 1, word] = True
    keep[1] = False
    keep[1, (word + 1) % (n + 1), word] = True
    scores["arc_scores"][~keep] = -np.inf
    heads, values = search(name, scores, single_root=single_root)
    for b in range(2):
        tree, value = textbook(name, scores, b, n, single_root)
        assert heads[b].tolist() == tree
        assert values[b] == value
    assert heads[1, 1:].tolist() == [*range(2, n + 1), 0]


@every_decoder
@every_root
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", [17, pytest.param(36, marks=pytest.mark.slow)])
def test_long_sentences_equal_the_textbook(name, single_root, dtype, n):
    """Rows of several vectors; the same bits."""
    rng = np.random.default_rng(14)
    scores = drawn(rng, name, 1, n, whole=False, dtype=dtype)
    heads, values = search(name, scores, single_root=single_root)
    tree, value = textbook(name, scores, 0, n, single_root)
    assert heads[0].tolist() == tree
    assert values.item() == float(value)


@every_decoder
def test_scores_are_checked(name):
    scores = drawn(np.random.default_rng(9), name, 3, 4)
    lengths = torch.tensor([4, 3, 4])

    def refused(message, **changed):
        with pytest.raises(ScoreError, match=message):
            search(name, {**scores, **changed}, lengths)

    for key in HIGHER[name]:
        refused(f"{key} has shape", **{key: scores[key][:, 1:]})
        refused(f"{key} has type torch.bool", **{key: scores[key] > 0})
        for bad in (np.nan, np.inf, 3e38, -3e38):
            part = scores[key].copy()
            part[1, :, 4] = part[1, 4] = bad  # padding
            search(name, {**scores, key: part}, lengths)
            place = {"grandparent_scores": (2, 1, 3), "tri_sibling_scores": (1, 3, 2, 1)}
            at = place.get(key, (1, 3, 2, 0))
            part[(1, *at)] = bad
            refused(rf"{key}: sentence 1: the score at \[{', '.join(map(str, at))}\] is",
                    **{key: part})  # fmt: skip
    siblings = scores["sibling_scores"].copy()
    siblings[1, 2, 3, 2] = np.nan
    refused(r"sibling_scores: sentence 1: the score at \[2, 3, 2\] is", sibling_scores=siblings)
    ends = scores["end_scores"].copy()
    ends[1, 2, 3] = np.nan
    refused(r"end_scores: sentence 1: the score at \[2, 3\] is", end_scores=ends)


@every_decoder
def test_no_score_that_is_read_is_overlooked(name):
    scores = drawn(np.random.default_rng(10), name, 1, 4)
    clean = {key: part.copy() for key, part in scores.items()}
    fill_unread(scores, np.nan)
    for key in HIGHER[name]:
        for place in np.argwhere(np.isfinite(scores[key])):
            part = clean[key].copy()
            part[tuple(place)] = np.nan
            with pytest.raises(ScoreError, match=f"{key}: sentence 0: the score at"):
                search(name, {**clean, key: part})


@every_decoder
def test_other_engines_are_refused(name):
    scores = drawn(np.random.default_rng(10), name, 1, 2)
    for engine in ("torch", "triton"):
        with pytest.raises(ScoreError, match=f"{name} exists in native code only"):
            search(name, scores, engine=engine)
    with pytest.raises(ScoreError, match="unknown engine"):
        search(name, scores, engine="numpy")


@every_decoder
@every_root
@pytest.mark.parametrize("towards_end", [True, False])
def test_deep_chains_and_wide_heads(name, single_root, towards_end):
    n = 150
    m = np.arange(1, n + 1)
    chain = m - 1 if towards_end else (m + 1) % (n + 1)
    flat = np.where(m == n // 2, 0, n // 2)
    for head in (chain, flat):
        arcs = np.full((1, n + 1, n + 1), -np.inf, np.float32)
        arcs[0, head, m] = 1
        # Only what was asked for is read, so that no tensor of n^4 is needed.
        heads, values = DECODERS[name].function("best")(
            torch.from_numpy(arcs), torch.tensor([n]), single_root=single_root, engine="native"
        )
        assert heads[0, 1:].tolist() == head.tolist()
        assert values.item() == n
