"""Laws that hold for every decoder of the table, whatever parts it reads."""

import numpy as np
import pytest
import torch

from gpuparse.inference import DECODERS, with_quantity
from tests.inference.decoders import decode_parts, draw_parts

LENGTHS = [5, 3, 0, 4]
every_decoder = pytest.mark.parametrize("name", DECODERS)
every_root = pytest.mark.parametrize("single_root", [False, True], ids=["multi", "single"])


def answers(name, parts, lengths, single_root):
    """Heads or arcs, and scores."""
    found = decode_parts(name, parts, lengths, single_root)
    return found.arcs if found.heads is None else found.heads, found.scores


@every_decoder
@every_root
def test_padding_the_order_of_a_batch_and_unread_cells_change_nothing(name, single_root):
    parts = draw_parts(name, np.random.default_rng(1), 4, 5)
    before = {field: part.copy() for field, part in parts.items()}
    found, scores = answers(name, parts, LENGTHS, single_root)
    assert all(np.array_equal(parts[field], part) for field, part in before.items())
    order = [2, 0, 3, 1]
    wide = {}
    for field, part in parts.items():
        axes = part.ndim - 1
        wide[field] = np.full((4, *[8] * axes), np.nan, np.float32)
        for b, n in enumerate(LENGTHS):
            words = (b, *[slice(n + 1)] * axes)
            wide[field][words] = part[words]
        wide[field][:, :, 0] = np.nan  # no arc leads to the root
        wide[field] = wide[field][order]
    again, their_scores = answers(name, wide, [LENGTHS[b] for b in order], single_root)
    inside = (slice(None), *[slice(6)] * (found.dim() - 1))
    for i, b in enumerate(order):
        assert again[inside][i].equal(found[b])
        assert their_scores[i] == scores[b]
        alone = {field: part[b : b + 1] for field, part in parts.items()}
        assert answers(name, alone, LENGTHS[b : b + 1], single_root)[0][0].equal(found[b])


@pytest.mark.parametrize("name", [name for name, row in DECODERS.items() if not row.gives_graphs])
@every_root
def test_a_constant_added_to_one_column_moves_no_head(name, single_root):
    """Graphs are left out: there a word may take further heads for it."""
    parts = draw_parts(name, np.random.default_rng(2), 4, 5)
    heads, scores = answers(name, parts, LENGTHS, single_root)
    parts["arc"][:, :, 2] += 7
    moved, their_scores = answers(name, parts, LENGTHS, single_root)
    if not DECODERS[name].certifies:  # among equally good trees it returns the first that it meets
        assert moved.equal(heads)
    assert (their_scores - scores).tolist() == [7.0 * (n >= 2) for n in LENGTHS]


@pytest.mark.parametrize("name", [name for name, row in DECODERS.items() if row.order > 1])
@every_root
def test_parts_that_score_nothing_leave_the_lower_order(name, single_root):
    decoder = DECODERS[name]
    parts = draw_parts(name, np.random.default_rng(3), 4, 5)
    for field in decoder.reads:
        parts[field][:] = 0
    _, scores = answers(name, parts, LENGTHS, single_root)
    of_arcs = {"arc": parts["arc"]}
    _, best = answers(decoder.of_arcs, of_arcs, LENGTHS, single_root)
    if decoder.starts_from is None:
        assert scores.equal(best)
    if decoder.starts_from is not None:
        _, start = answers("eisner", of_arcs, LENGTHS, single_root)
        assert (scores >= start).all()


@pytest.mark.parametrize("name", with_quantity("k_best"))
@every_root
def test_k_best_trees_are_sorted_and_distinct(name, single_root):
    parts = draw_parts(name, np.random.default_rng(4), 4, 5)
    arcs, *others = (torch.from_numpy(part) for part in parts.values())
    options = {"end_scores": others[1]} if others else {}
    heads, scores = DECODERS[name].function("k_best")(
        arcs, *others[:1], LENGTHS, 30, single_root=single_root, **options
    )
    for trees, values in zip(heads.tolist(), scores, strict=True):
        there = values > -torch.inf
        assert (values[there].diff() <= 0).all()
        assert not there[int(there.sum()) :].any()
        distinct = {tuple(tree) for tree, is_there in zip(trees, there, strict=True) if is_there}
        assert len(distinct) == there.sum()
