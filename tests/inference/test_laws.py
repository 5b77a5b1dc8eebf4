"""Laws that hold for any scores: hypothesis looks for scores that break them."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuparse.inference import chu_liu_edmonds, eisner
from tests.inference.decoders import QUICK_BACKENDS, ROWS, search_with
from tests.strategies import Batch, score_batches, some

pytestmark = [
    pytest.mark.parametrize("backend", QUICK_BACKENDS),
    pytest.mark.parametrize("single_root", [False, True], ids=["multi", "single"]),
]
every_decoder = pytest.mark.parametrize("name", ROWS)
examples = settings(max_examples=some(100), deadline=None)


def search(name, batch, single_root, backend):
    return search_with(
        ROWS[name].search,
        batch.arc_scores,
        batch.lengths,
        single_root=single_root,
        backend=backend,
    )


@every_decoder
@examples
@given(batch=score_batches(), data=st.data())
def test_a_constant_added_to_one_column_moves_no_head(name, single_root, backend, batch, data):
    heads, values = search(name, batch, single_root, backend)
    n = int(batch.lengths[0])
    m = data.draw(st.integers(1, n))
    constant = data.draw(st.integers(-50, 50))
    arcs = batch.arc_scores.clone()
    arcs[0, :, m] += constant
    moved_heads, moved = search(name, Batch(arcs, batch.lengths), single_root, backend)
    assert moved_heads.equal(heads)
    assert moved[0] == values[0] + constant
    assert moved[1:].equal(values[1:])


@every_decoder
@examples
@given(batch=score_batches(), junk=st.sampled_from([torch.nan, torch.inf, -torch.inf, 1e38]))
def test_cells_that_are_not_read_and_padding_change_nothing(
    name, single_root, backend, batch, junk
):
    heads, values = search(name, batch, single_root, backend)
    n_batch, n_nodes = heads.shape
    wide = torch.full((n_batch, n_nodes + 3, n_nodes + 3), junk)
    for b, n in enumerate(batch.lengths.tolist()):
        wide[b, : n + 1, : n + 1] = batch.arc_scores[b, : n + 1, : n + 1]
    wide[:, :, 0] = junk
    wide.diagonal(dim1=1, dim2=2).fill_(junk)
    wide_heads, wide_values = search(name, Batch(wide, batch.lengths), single_root, backend)
    assert wide_heads[:, :n_nodes].equal(heads)
    assert (wide_heads[:, n_nodes:] == -1).all()
    assert wide_values.equal(values)


@every_decoder
@examples
@given(batch=score_batches(), data=st.data())
def test_batch_mates_and_their_order_change_nothing(name, single_root, backend, batch, data):
    heads, values = search(name, batch, single_root, backend)
    order = torch.tensor(data.draw(st.permutations(range(len(heads)))))
    shuffled = Batch(batch.arc_scores[order], batch.lengths[order])
    other_heads, other_values = search(name, shuffled, single_root, backend)
    assert other_heads.equal(heads[order])
    assert other_values.equal(values[order])
    alone = Batch(batch.arc_scores[:1], batch.lengths[:1])
    assert search(name, alone, single_root, backend)[0].equal(heads[:1])


@every_decoder
@examples
@given(batch=score_batches())
def test_inputs_are_left_as_they_were(name, single_root, backend, batch):
    arcs, lengths = batch.arc_scores.clone(), batch.lengths.clone()
    search(name, batch, single_root, backend)
    assert batch.arc_scores.equal(arcs)
    assert batch.lengths.equal(lengths)


@every_decoder
@examples
@given(batch=score_batches())
def test_answers_are_trees_with_the_value_they_claim(name, single_root, backend, batch):
    heads, values = search(name, batch, single_root, backend)
    for b, n in enumerate(batch.lengths.tolist()):
        tree = heads[b, 1 : n + 1].tolist()
        assert all(0 <= h <= n for h in tree)
        assert tree.count(0) == 1 if single_root else tree.count(0) >= 1
        for m in range(1, n + 1):
            steps = 0
            while m != 0:
                m, steps = tree[m - 1], steps + 1
                assert steps <= n
        assert values[b] == sum(batch.arc_scores[b, h, m] for m, h in enumerate(tree, start=1))


@examples
@given(batch=score_batches())
def test_dropping_projectivity_or_the_single_root_never_costs(single_root, backend, batch):
    projective = search("eisner", batch, single_root, backend)[1]
    any_tree = search("chu_liu_edmonds", batch, single_root, backend)[1]
    assert (any_tree >= projective).all()
    for decoder in (eisner, chu_liu_edmonds):
        multi = search(decoder.__name__, batch, False, backend)[1]
        assert (multi >= search(decoder.__name__, batch, single_root, backend)[1]).all()


@examples
@given(n=st.integers(1, 9), seed=st.integers(0, 2**32 - 1))
def test_mirrored_words_mirror_the_projective_parse(single_root, backend, n, seed):
    """Scores without ties, so that the best tree is the only one."""
    rng = np.random.default_rng(seed)
    arcs = torch.from_numpy(rng.standard_normal((1, n + 1, n + 1)))
    mirror = torch.tensor([0, *range(n, 0, -1)])
    length = torch.tensor([n])
    heads, value = search("eisner", Batch(arcs, length), single_root, backend)
    mirrored, mirrored_value = search(
        "eisner", Batch(arcs[:, mirror][:, :, mirror], length), single_root, backend
    )
    assert mirror[mirrored[0, 1:]].flip(0).equal(heads[0, 1:])
    assert torch.isclose(mirrored_value, value)
