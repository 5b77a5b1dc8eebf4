"""Laws of the best tree and the k best, for every decoder on every engine, whatever the scores."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from gpuparse.inference import DECODERS, engines
from gpuparse.native import mapped
from tests.inference.decoders import (
    HAS_GPU,
    TRITON,
    Parts,
    decode_parts,
    draw_parts,
    engines_of,
    fewer,
    search_with,
)
from tests.oracles.brute_force import is_tree
from tests.oracles.tree_parts import is_read, tree_value
from tests.strategies import some

K = 6
EVERY = [
    pytest.param(quantity, *pair.values, marks=pair.marks, id=f"{quantity}-{pair.id}")
    for quantity in ("best", "k_best")
    for pair in engines_of(quantity)
]
every_search = pytest.mark.parametrize(("quantity", "name", "engine"), EVERY)
every_root = pytest.mark.parametrize("single_root", [False, True], ids=["multi", "single"])
TREES = [case for case in EVERY if not DECODERS[case.values[1]].gives_graphs]
every_search_of_trees = pytest.mark.parametrize(("quantity", "name", "engine"), TREES)


def answers(
    quantity: str, name: str, parts: dict[str, Any], lengths: list[int], single_root: bool,
    engine: str, k: int = K,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Heads (B, N) or arcs (B, N, N), and scores (B,); of the k best (B, K, N) and (B, K)."""
    tensors = {field: torch.as_tensor(part) for field, part in parts.items()}
    if quantity == "best":
        device = "cuda" if engine == "triton" and HAS_GPU else "cpu"
        found = decode_parts(name, tensors, lengths, single_root, engine, device)
        heads = found.arcs if found.heads is None else found.heads
        assert heads is not None
        return heads, found.scores
    arcs, *others = tensors.values()
    options = {"end_scores": others[1]} if others else {}
    heads, scores = DECODERS[name].function("k_best")(
        arcs, *others[:1], lengths, k, single_root=single_root, engine=engine, **options
    )
    return heads, scores


def batches(
    name: str, engine: str, count: int = 100
) -> Iterator[tuple[Parts, list[int], np.random.Generator]]:
    """Small whole scores, full of ties, and lengths."""
    rng, is_large = np.random.default_rng(1), DECODERS[name].order == 3
    for _ in range(fewer(engine, some(count // 3 if is_large else count))):
        n_batch, n = int(rng.integers(1, 5)), int(rng.integers(1, 6 if is_large else 8))
        yield draw_parts(name, rng, n_batch, n), rng.integers(0, n + 1, n_batch).tolist(), rng


def with_junk(name: str, parts: Parts, lengths: list[int], junk: float) -> Parts:
    """The scores with three positions of padding more, and junk in all cells that are not read."""
    wide = {}
    for field, part in parts.items():
        axes, n_nodes = part.ndim - 1, part.shape[1] + 3
        wide[field] = np.full((len(part), *[n_nodes] * axes), junk, part.dtype)
        read = is_read(field, n_nodes, not DECODERS[name].is_projective)
        for b, n in enumerate(lengths):
            words = (slice(n + 1),) * axes
            wide[field][b][words] = np.where(read[words], part[b][words], junk)
    return wide


@every_search
@every_root
def test_unread_cells_padding_and_batch_mates_change_nothing_and_inputs_stay(
    quantity: str, name: str, engine: str, single_root: bool
) -> None:
    for parts, lengths, rng in batches(name, engine):
        before = {field: part.copy() for field, part in parts.items()}
        found, scores = answers(quantity, name, parts, lengths, single_root, engine)
        assert all(np.array_equal(parts[field], part) for field, part in before.items())
        junk = float(rng.choice([np.nan, np.inf, -np.inf, 1e38]))
        order = rng.permutation(len(lengths))
        wide = {field: part[order] for field, part in with_junk(name, parts, lengths, junk).items()}
        mixed = [lengths[b] for b in order]
        again, theirs = answers(quantity, name, wide, mixed, single_root, engine)
        nodes, nothing = slice(found.shape[-1]), -1
        inside: tuple[Any, ...] = (..., nodes)
        if DECODERS[name].gives_graphs:
            inside, nothing = (..., nodes, nodes), 0
        assert again[inside].equal(found[order])
        assert theirs.equal(scores[order])
        again[inside] = nothing
        assert (again == nothing).all()
        alone = {field: part[:1] for field, part in parts.items()}
        first, value = answers(quantity, name, alone, lengths[:1], single_root, engine)
        assert first.equal(found[:1])
        assert value.equal(scores[:1])


@every_search_of_trees
@every_root
def test_a_constant_added_to_all_parts_of_a_word_moves_no_head(
    quantity: str, name: str, engine: str, single_root: bool
) -> None:
    """Graphs are left out: there a word may take further heads for it."""
    for parts, lengths, rng in batches(name, engine):
        heads, scores = answers(quantity, name, parts, lengths, single_root, engine)
        m = int(rng.integers(1, parts["arc"].shape[1]))
        # Parts of which each word has one.
        field = str(rng.choice([field for field in parts if field not in ("end", "outermost")]))
        constant = int(rng.integers(-50, 51))
        parts[field][:, :, m] += constant
        moved, theirs = answers(quantity, name, parts, lengths, single_root, engine)
        if not DECODERS[name].certifies:  # it returns the first of the best trees that it meets
            assert moved.equal(heads)
        there = constant * (torch.tensor(lengths) >= m)
        assert theirs.equal(scores + there.view(-1, *[1] * (scores.dim() - 1)))


@every_search_of_trees
@every_root
def test_answers_are_trees_with_the_value_they_claim(
    quantity: str, name: str, engine: str, single_root: bool
) -> None:
    for parts, lengths, _ in batches(name, engine):
        heads, scores = answers(quantity, name, parts, lengths, single_root, engine)
        for b, n in enumerate(lengths):
            words = slice(n + 1)
            sentence = {f: part[(b, *[words] * (part.ndim - 1))] for f, part in parts.items()}
            trees, values = heads[b].reshape(-1, heads.shape[-1]), scores[b].reshape(-1)
            for tree, value in zip(trees[:, words].tolist(), values.tolist(), strict=True):
                if value == -np.inf:
                    assert tree == [-1] * (n + 1)
                    continue
                assert is_tree(tuple(tree[1:]))
                assert not (single_root and n) or tree.count(0) == 1
                assert value == tree_value(sentence, tree)
            assert values[0] > -np.inf


@every_search
@every_root
def test_empty_sentences_and_batches(
    quantity: str, name: str, engine: str, single_root: bool
) -> None:
    rng = np.random.default_rng(2)
    for n, lengths in [(3, [0, 3]), (3, []), (0, [0, 0, 0]), (0, [])]:
        parts = {f: 0 * p for f, p in draw_parts(name, rng, len(lengths), n).items()}
        found, scores = answers(quantity, name, parts, lengths, single_root, engine)
        if quantity == "k_best":
            found, scores = found[:, 0], scores[:, 0]
        assert found.shape[0] == len(lengths)
        assert found.shape[-1] == n + 1
        counts = found.sum((1, 2)) if DECODERS[name].gives_graphs else (found >= 0).sum(1)
        assert counts.tolist() == lengths
        assert scores.tolist() == [0] * len(lengths)


@every_search
def test_other_types_of_numbers_are_widened(quantity: str, name: str, engine: str) -> None:
    types = [torch.float16, torch.bfloat16, torch.float64, torch.int8, torch.int16, torch.int64]
    for parts, lengths, rng in batches(name, engine):
        found, scores = answers(quantity, name, parts, lengths, False, engine)
        given = {
            field: torch.from_numpy(part).to(types[rng.integers(len(types))])
            for field, part in parts.items()
        }
        for part in given.values():
            if part.is_floating_point():
                part.requires_grad_()
        again, theirs = answers(quantity, name, given, lengths, False, engine)
        assert theirs.dtype == torch.float64
        assert not theirs.requires_grad
        assert theirs.equal(scores)
        assert again.equal(found) or DECODERS[name].certifies


@every_search
def test_the_largest_scores_do_not_overflow(quantity: str, name: str, engine: str) -> None:
    """Below 2^128 / (8 n + 8), and sums of a power of two are exact."""
    decoder, rng = DECODERS[name], np.random.default_rng(3)
    n = 4 if decoder.certifies or (engine == "triton" and not HAS_GPU) else 16
    n = 30 if decoder.order < 3 and engine != "triton" else n
    parts = {
        field: rng.choice([-1.0, 1.0], part.shape).astype(np.float32)
        for field, part in draw_parts(name, rng, 2, n).items()
    }
    found, scores = answers(quantity, name, parts, [n, n], False, engine)
    huge = {field: part * np.float32(2.0**120) for field, part in parts.items()}
    again, theirs = answers(quantity, name, huge, [n, n], False, engine)
    assert theirs.equal(scores * 2.0**120)
    assert again.equal(found) or decoder.certifies


@pytest.mark.parametrize(
    ("quantity", "name", "engine"), [case for case in EVERY if case.values[2] == "native"]
)
def test_threads_change_nothing(
    quantity: str, name: str, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = []

    def start(work: Any, slices: Any, workers: int) -> Any:
        started.append(workers)
        return mapped(work, slices, workers)

    monkeypatch.setattr(engines, "mapped", start)
    monkeypatch.setattr(engines.run_in_threads, "__defaults__", (1,))
    for module in ("native_trees", "higher_order_scores"):
        monkeypatch.setattr(f"gpuparse.inference.{module}.WORTH_A_THREAD", 4)
    n = 6 if DECODERS[name].certifies else 9
    parts = draw_parts(name, np.random.default_rng(4), 9, n, "float32")
    lengths, found = [n, 1, 0, 5, n, 2, 6, 3, n], []
    for threads in (1, 3):
        monkeypatch.setattr(torch, "get_num_threads", lambda threads=threads: threads)
        found.append(answers(quantity, name, parts, lengths, True, engine))
    assert all(one.equal(other) for one, other in zip(*found, strict=True))
    assert set(started) == {3}


@pytest.mark.parametrize(
    ("quantity", "name", "engine"),
    [case for case in TREES if DECODERS[case.values[1]].is_projective],
)
@every_root
def test_mirrored_words_mirror_the_projective_parse(
    quantity: str, name: str, engine: str, single_root: bool
) -> None:
    """Scores without ties, so that the best tree is the only one."""
    rng, largest = np.random.default_rng(5), 6 if DECODERS[name].order == 3 else 9
    for _ in range(fewer(engine, some(100))):
        n = int(rng.integers(1, largest + 1))
        parts = draw_parts(name, rng, 1, n, "float64")
        for field, part in parts.items():
            # The root stays to the left: its nearest modifier becomes the furthest.
            if field != "arc" and (not single_root or "grandchild" in field):
                part[:, 0] = 0
        mirror = np.array([0, *range(n, 0, -1)])
        mirrored = {
            field: part[np.ix_([0], *[mirror] * (part.ndim - 1))] for field, part in parts.items()
        }
        heads, scores = answers(quantity, name, parts, [n], single_root, engine)
        theirs, their_scores = answers(quantity, name, mirrored, [n], single_root, engine)
        back = torch.where(theirs >= 0, torch.from_numpy(mirror)[theirs.clamp(min=0)], -1)
        assert back[..., 1:].flip(-1).equal(heads[..., 1:])
        torch.testing.assert_close(their_scores, scores)


LARGER = {"eisner": "chu_liu_edmonds", "eisner_grand_sibling": "dual_decomposition"}
"""Decoders of projective trees -> of all trees with the same parts."""


@every_search
def test_dropping_projectivity_or_the_single_root_never_costs(
    quantity: str, name: str, engine: str
) -> None:
    decoder = DECODERS[name]
    for parts, lengths, _ in batches(name, engine):
        multi, single = (
            answers(quantity, name, parts, lengths, root, engine)[1] for root in (False, True)
        )
        assert decoder.starts_from is not None or (multi >= single).all()
        if name in LARGER and DECODERS[LARGER[name]].has(quantity):  # type: ignore[arg-type]
            for root, own in ((False, multi), (True, single)):
                of_all = answers(quantity, LARGER[name], parts, lengths, root, "auto")[1]
                assert (of_all >= own).all()


def searched(
    name: str, parts: dict[str, Any], lengths: list[int], engine: str, **options: Any
) -> list[Tensor]:
    """The result of the public function of the best trees under the parts that are given."""
    scores = {f"{field}_scores": torch.as_tensor(part) for field, part in parts.items()}
    first = [scores.pop("arc_scores")]
    if DECODERS[name].order == 2:
        first.append(scores.pop("sibling_scores"))
    words = torch.tensor(lengths, dtype=torch.int64)
    search = DECODERS[name].function("best")
    return search_with(search, *first, words, engine=engine, **scores, **options)


@pytest.mark.parametrize(
    ("name", "engine"), [pair for pair in engines_of() if DECODERS[pair.values[0]].order > 1]
)
@every_root
def test_scores_that_are_left_out_are_zeros(name: str, engine: str, single_root: bool) -> None:
    """The same bits: numbers that are no sums of powers of two."""
    decoder, rng = DECODERS[name], np.random.default_rng(6)
    given = [field for field in decoder.reads if decoder.order > 2 or field == "end"]
    for kind in ("float32", "float64"):
        parts = draw_parts(name, rng, 5, 6, kind)
        for field in given:
            left = {key: part for key, part in parts.items() if key != field}
            zeros = parts | {field: np.zeros_like(parts[field])}
            for one, other in zip(
                searched(name, left, [6, 2, 5, 0, 6], engine, single_root=single_root),
                searched(name, zeros, [6, 2, 5, 0, 6], engine, single_root=single_root),
                strict=True,
            ):
                assert one.equal(other)


@pytest.mark.parametrize(
    ("name", "engine"),
    [
        pair
        for pair in engines_of()
        if not (DECODERS[pair.values[0]].starts_from or TRITON in pair.marks)
    ],
)
@every_root
def test_deep_chains_and_wide_heads(name: str, engine: str, single_root: bool) -> None:
    n = 150 if engine == "native" else 60
    m = np.arange(1, n + 1)
    for head in (m - 1, (m + 1) % (n + 1), np.where(m == n // 2, 0, n // 2)):
        arcs = np.full((1, n + 1, n + 1), -np.inf, np.float32)
        arcs[0, head, m] = 1
        parts = {"arc": arcs}
        if DECODERS[name].order == 2:
            parts["sibling"] = np.zeros((1, *[n + 1] * 3), np.float32)
        heads, values, *_ = searched(name, parts, [n], engine, single_root=single_root)
        assert heads[0, 1:].tolist() == head.tolist()
        assert values.item() == n


@pytest.mark.parametrize("name", [name for name, row in DECODERS.items() if row.order > 1])
@every_root
def test_parts_that_score_nothing_leave_the_lower_order(name: str, single_root: bool) -> None:
    decoder = DECODERS[name]
    for parts, lengths, _ in batches(name, "native"):
        for field in decoder.reads:
            parts[field][:] = 0
        _, scores = answers("best", name, parts, lengths, single_root, "native")
        of_arcs = {"arc": parts["arc"]}
        lower = decoder.of_arcs if decoder.starts_from is None else "eisner"
        _, best = answers("best", lower, of_arcs, lengths, single_root, "native")
        assert (scores >= best).all() if decoder.starts_from else scores.equal(best)


@pytest.mark.parametrize(
    ("quantity", "name", "engine"), [case for case in EVERY if case.values[0] == "k_best"]
)
@every_root
def test_k_best_trees_are_sorted_and_distinct_from_the_best_on_and_more_come_after(
    quantity: str, name: str, engine: str, single_root: bool
) -> None:
    for parts, lengths, _ in batches(name, engine):
        heads, scores = answers(quantity, name, parts, lengths, single_root, engine)
        best, values = answers("best", name, parts, lengths, single_root, engine)
        assert heads[:, 0].equal(best)
        assert scores[:, 0].equal(values)
        more, their_scores = answers(quantity, name, parts, lengths, single_root, engine, K + 5)
        assert more[:, :K].equal(heads)
        assert their_scores[:, :K].equal(scores)
        for trees, of_trees in zip(heads.tolist(), scores, strict=True):
            there = of_trees > -torch.inf
            assert (of_trees[there].diff() <= 0).all()
            assert not there[int(there.sum()) :].any()
            assert len({tuple(tree) for tree in trees[: int(there.sum())]}) == there.sum()
