"""Laws of sums over trees and of random trees, for every decoder that has them, on every engine."""

import importlib.util
import warnings
from functools import partial

import numpy as np
import pytest
import torch
from torch._dynamo.backends.common import aot_autograd
from torch.autograd import gradcheck as every_gradcheck
from torch.autograd import gradgradcheck as every_gradgradcheck

from gpuparse.errors import NoTreeError, ScoreError
from gpuparse.inference import (
    DECODERS,
    eisner_entropy,
    eisner_log_partition,
    eisner_marginals,
    with_quantity,
)
from gpuparse.inference.support import TreeKind
from gpuparse.inference.textbook import projective
from tests.inference.decoders import IN_MAIN_MEMORY
from tests.oracles.brute_force import all_trees
from tests.oracles.tree_parts import AXES, is_read, parts_of, values_of_trees
from tests.oracles.tree_sums import arc_marginals, sibling_marginals, sums_of_values
from tests.strategies import cases

# Derivatives in a random direction rather than in all of them.
gradcheck = partial(every_gradcheck, fast_mode=True)
gradgradcheck = partial(every_gradgradcheck, fast_mode=True)
QUANTITIES = ("log_partition", "marginals", "entropy")
SUMMED = with_quantity("log_partition")
every_decoder = pytest.mark.parametrize("name", SUMMED)
every_root = pytest.mark.parametrize("single_root", [False, True], ids=["multi", "single"])
every_engine = pytest.mark.parametrize("engine", IN_MAIN_MEMORY)


def draw(rng, *shape, forbidden=0.0, spread=1.0):
    scores = spread * rng.standard_normal(shape)
    scores[rng.random(shape) < forbidden] = -np.inf
    return scores


def draw_parts(name, rng, n_batch, n, *, spread=1.0, forbidden=0.0):
    """Float64 scores of all parts by name; of every second sentence some are forbidden."""
    parts = {}
    for field in ("arc", *DECODERS[name].reads):
        parts[field] = draw(rng, n_batch, *[n + 1] * AXES[field], spread=spread)
        part = parts[field][::2]
        part[rng.random(part.shape) < forbidden * (1 if field == "arc" else 0.5)] = -np.inf
    return parts


def call(quantity, name, parts, lengths, *more, engine="auto", **options):
    """The public function of a quantity of a decoder."""
    arcs, *others = (torch.as_tensor(part) for part in parts.values())
    if others:
        options["end_scores"] = others[1]
    if len(DECODERS[name].engines[quantity]) > 1:
        options["engine"] = engine
    function = DECODERS[name].function(quantity)
    words = torch.as_tensor(lengths, dtype=torch.int64)
    return function(arcs, *others[:1], words, *more, **options)


def values_of(name, parts, single_root):
    """The scores (B, T) of all trees, and the trees."""
    is_projective, n = DECODERS[name].is_projective, parts["arc"].shape[1] - 1
    values = values_of_trees(parts, projective=is_projective, single_root=single_root)
    return values, all_trees(n, is_projective, single_root)


def draw_enumerated(name, rng, n_batch, n, single_root, **how):
    """Scores under which every sentence has a tree, the values of all trees, and the trees."""
    parts = draw_parts(name, rng, n_batch, n, **how)
    values, trees = values_of(name, parts, single_root)
    has_tree = values.max(axis=1) > -np.inf
    return {f: part[has_tree] for f, part in parts.items()}, values[has_tree], trees


def assert_equals_numpy(result, expected, atol=1e-9, rtol=0.0):
    assert result.dtype == torch.float64
    np.testing.assert_allclose(result.detach().numpy(), expected, rtol=rtol, atol=atol)


def assert_enumerated(name, engine, parts, values, trees, single_root, **tolerance):
    """All sums on an engine are those of the values of all trees."""
    expected = sums_of_values(values)
    by_quantity = {
        "log_partition": expected.log_partition, "entropy": expected.entropy,
        "marginals": arc_marginals(expected.probabilities, trees),
    }  # fmt: skip
    lengths = [trees.shape[1] - 1] * len(values)
    for quantity in QUANTITIES:
        if DECODERS[name].has(quantity, engine):
            found = call(quantity, name, parts, lengths, engine=engine, single_root=single_root)
            assert_equals_numpy(found, by_quantity[quantity], **tolerance)
            if quantity == "marginals":
                assert (found[torch.from_numpy(parts["arc"]) == -torch.inf] == 0).all()


@pytest.mark.parametrize("name", [name for name in SUMMED if DECODERS[name].is_projective])
@every_root
def test_textbook_equals_enumeration(name, single_root):
    rng, textbook = np.random.default_rng(1), getattr(projective, f"{name}_log_partition")
    for n in range(1, 6):
        parts, values, _ = draw_enumerated(name, rng, 20, n, single_root, forbidden=0.25)
        for b, expected in enumerate(sums_of_values(values).log_partition):
            of_sentence = [part[b] for part in parts.values()]
            found = textbook(*of_sentence, single_root=single_root)
            assert found == pytest.approx(expected, abs=1e-10)
    nothing = [np.full([3] * AXES[field], -np.inf) for field in parts]
    assert textbook(*nothing, single_root=single_root) == -np.inf


CASES = cases({1: 250, 2: 1250, 3: 2000, 4: 3250, 5: 3250})
"""Words -> scores of each kind."""


@every_decoder
@every_root
@every_engine
@pytest.mark.parametrize("n", CASES)
def test_sums_are_those_of_enumeration(name, single_root, engine, n):
    how = {"spread": 2.0, "forbidden": 0.3}
    parts = draw_parts(name, np.random.default_rng(n), CASES[n], n, **how)
    without = np.flatnonzero(values_of(name, parts, single_root)[0].max(axis=1) == -np.inf)
    assert len(without) or n > 2
    for b in without[:10]:
        alone = {field: part[[b]] for field, part in parts.items()}
        with pytest.raises(NoTreeError, match="sentence 0"):
            call("log_partition", name, alone, [n], engine=engine, single_root=single_root)
    rng = np.random.default_rng(n)
    drawn = draw_enumerated(name, rng, CASES[n], n, single_root, **how)
    assert_enumerated(name, engine, *drawn, single_root)
    wide = draw_enumerated(name, rng, CASES[n] // 4, n, single_root, spread=200.0, forbidden=0.3)
    assert_enumerated(name, engine, *wide, single_root, rtol=1e-9)


@every_decoder
@every_root
@every_engine
@pytest.mark.parametrize("scale", [1e3, 1e6])
@pytest.mark.parametrize("is_whole", [True, False], ids=["whole", "real"])
def test_huge_scores_have_the_sums_of_enumeration(name, single_root, engine, scale, is_whole):
    """Whole numbers have ties: many best trees, next to nothing on the others."""
    for n in (1, 3, 4):
        rng = np.random.default_rng(n)
        parts = draw_parts(name, rng, 200, n, forbidden=0.2)
        if is_whole:
            parts = {field: np.round(part) for field, part in parts.items()}
        parts = {field: scale * part for field, part in parts.items()}
        values, trees = values_of(name, parts, single_root)
        has_tree = values.max(axis=1) > -np.inf
        parts = {field: part[has_tree] for field, part in parts.items()}
        # The scores themselves are known to 1e-10 at this scale, and so are differences of sums.
        tolerance = {"rtol": 1e-14, "atol": 1e-9 if is_whole else 1e-7}
        assert_enumerated(name, engine, parts, values[has_tree], trees, single_root, **tolerance)


@every_decoder
@every_root
@every_engine
def test_a_constant_of_a_column_changes_the_log_partition_alone(name, single_root, engine):
    """A million up or down changes nothing else but the rounding of the scores themselves."""
    rng, n = np.random.default_rng(10), 12
    parts = {f: np.round(part, 3) for f, part in draw_parts(name, rng, 20, n).items()}
    columns = 1e6 * rng.integers(-1, 2, (20, 1, n + 1))
    moved = parts | {"arc": parts["arc"] + columns}
    for quantity in QUANTITIES:
        if DECODERS[name].has(quantity, engine):
            before, after = (
                call(quantity, name, given, [n] * 20, engine=engine, single_root=single_root)
                for given in (parts, moved)
            )
            if quantity == "log_partition":
                before += torch.from_numpy(columns[:, 0, 1:].sum(1))
            torch.testing.assert_close(after, before, rtol=0, atol=1e-8)


@every_decoder
@every_root
@every_engine
def test_the_gradient_of_the_log_partition_is_the_marginals(name, single_root, engine):
    rng, n = np.random.default_rng(5), 4
    parts, values, trees = draw_enumerated(name, rng, 30, n, single_root, forbidden=0.2)
    tensors = {f: torch.from_numpy(part).requires_grad_() for f, part in parts.items()}
    lengths, factors = [n] * len(values), torch.linspace(-1, 2, len(values)).double()
    how = {"single_root": single_root, "engine": engine}
    (call("log_partition", name, tensors, lengths, **how) * factors).sum().backward()
    marginals = call("marginals", name, parts, lengths, **how)
    expected = factors[:, None, None] * marginals
    torch.testing.assert_close(tensors["arc"].grad, expected, rtol=0, atol=1e-12)
    torch.testing.assert_close(marginals[:, :, 1:].sum(1), torch.ones(len(values), n).double())
    if len(parts) == 1:
        return
    probabilities = sums_of_values(values).probabilities * factors.numpy()[:, None]
    assert_equals_numpy(tensors["sibling"].grad, sibling_marginals(probabilities, trees))
    of_ends = np.zeros(parts["end"].shape)
    for t, tree in enumerate(trees):
        for h, m in parts_of("end", tree):
            of_ends[:, h, m] += probabilities[:, t]
    assert_equals_numpy(tensors["end"].grad, of_ends)


@every_decoder
@every_root
@every_engine
@pytest.mark.parametrize("quantity", QUANTITIES)
def test_derivatives_are_right(name, single_root, engine, quantity):
    """By differences; forbidden parts and padding included."""
    rng = np.random.default_rng(7)
    parts = {f: torch.from_numpy(p) for f, p in draw_parts(name, rng, 3, 4).items()}
    forbidden = {f: torch.from_numpy(rng.random(part.shape) < 0.12) for f, part in parts.items()}
    forbidden["arc"][:, :2] = False
    for field in forbidden.keys() - {"arc"}:
        forbidden[field][:, 0] = False

    def of_allowed(*given):
        allowed = {
            field: part.masked_fill(forbidden[field], -torch.inf)
            for field, part in zip(parts, given, strict=True)
        }
        return call(quantity, name, allowed, [4, 3, 0], engine=engine, single_root=single_root)

    leaves = tuple(part.requires_grad_() for part in parts.values())
    assert gradcheck(of_allowed, leaves)
    if name == "chu_liu_edmonds" or quantity == "log_partition":
        assert gradgradcheck(of_allowed, leaves)
    # Gradients may be asked for with respect to other parts than the arcs alone.
    for k in range(1, len(leaves)):
        rest = [leaf.detach() for leaf in leaves]
        assert gradcheck(
            lambda x, k=k, rest=rest: of_allowed(*rest[:k], x, *rest[k + 1 :]), leaves[k]
        )


@every_decoder
@every_root
@pytest.mark.parametrize("quantity", QUANTITIES)
def test_forbidden_arcs_and_padding_leave_no_nan_in_gradients(name, single_root, quantity):
    arcs = torch.full((3, 7, 7), -torch.inf, dtype=torch.float64)
    chain = torch.arange(6)
    arcs[:, chain, chain + 1] = 1.0  # a single tree, but for:
    arcs[:, 1, 3] = 0.5
    arcs[:, :, 5:] = torch.nan
    arcs[:, 5:] = torch.nan
    arcs[:, :, 0] = torch.nan
    arcs.diagonal(dim1=1, dim2=2).fill_(torch.nan)
    parts = draw_parts(name, np.random.default_rng(9), 3, 6)
    parts = {"arc": arcs} | {f: torch.from_numpy(p) for f, p in parts.items() if f != "arc"}
    for field in parts.keys() - {"arc"}:
        parts[field][:, 5:] = torch.nan
    for part in parts.values():
        part.requires_grad_()
    result = call(quantity, name, parts, [4, 2, 0], single_root=single_root)
    result.square().sum().backward()
    assert result.isfinite().all()
    assert all(part.grad.isfinite().all() for part in parts.values())


@every_decoder
@every_root
@every_engine
@pytest.mark.parametrize("spread", [1e-3, 1.0, 30.0, 1e6])
def test_marginals_are_probabilities_and_no_tree_is_above_the_log_partition(
    name, single_root, engine, spread
):
    rng, lengths = np.random.default_rng(11), torch.tensor([20, 1, 2, 3, 7, 13, 19, 20])
    parts = draw_parts(name, rng, 8, 20, spread=spread)
    how = {"single_root": single_root, "engine": engine}
    log_partition = call("log_partition", name, parts, lengths, **how)
    marginals = call("marginals", name, parts, lengths, **how)
    heads, best = call("best", name, parts, lengths, single_root=single_root)
    assert (log_partition >= best - 1e-13 * (1 + best.abs())).all()
    is_word = heads >= 0
    torch.testing.assert_close(marginals.sum(1), is_word.double(), rtol=0, atol=1e-8)
    assert ((marginals >= 0) & (marginals <= 1 + 1e-8)).all()
    if single_root:
        of_root = marginals[:, 0].sum(1)
        torch.testing.assert_close(of_root, torch.ones(8).double(), rtol=0, atol=1e-8)
    if spread == 1e6:  # nothing but the best tree is left
        of_best = marginals.gather(1, heads.clamp(min=0)[:, None])[:, 0]
        torch.testing.assert_close(of_best, is_word.double(), rtol=0, atol=1e-8)
        torch.testing.assert_close(log_partition, best, rtol=1e-14, atol=0)


@every_decoder
@every_root
@pytest.mark.parametrize("spread", [1.0, 40.0, 1000.0, 1e6])
def test_native_sums_equal_those_of_torch(name, single_root, spread):
    """Among them sums by numbers and, where spread is large, by logarithms."""
    rng = np.random.default_rng(12)
    for n in (1, 2, 7, 33):
        parts = draw_parts(name, rng, 4, n, spread=spread)
        arcs, lengths = parts["arc"], [n, (n + 1) // 2, n, 0]
        arcs[rng.random(arcs.shape) < 0.1] = -spread if single_root else -np.inf
        arcs[:, 0, 1:] = 0.1 * spread  # so that there are trees
        for quantity in QUANTITIES:
            if not DECODERS[name].has(quantity, "native"):
                continue
            found, expected = (
                call(quantity, name, parts, lengths, engine=engine, single_root=single_root)
                for engine in IN_MAIN_MEMORY
            )
            atol = 1e-10 if spread < 1e6 else 1e-7
            torch.testing.assert_close(found, expected, rtol=1e-13, atol=atol)


@pytest.mark.parametrize("name", ["eisner", "chu_liu_edmonds"])
@pytest.mark.parametrize("spread", [1.0, 1e3, 1e6])
def test_long_sentences_and_large_scores_have_the_sums_of_torch(name, spread):
    parts = draw_parts(
        name, np.random.default_rng(13), 1, 180 if name == "eisner" else 60, spread=spread
    )
    lengths = [parts["arc"].shape[1] - 1]
    found, expected = (
        call("marginals", name, parts, lengths, engine=engine) for engine in IN_MAIN_MEMORY
    )
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-9 if name == "eisner" else 1e-7)


@every_decoder
def test_native_quantities_are_one_operation_of_traced_code(name):
    """Forward and backward; what is compiled gives the same bits."""
    parts = [
        torch.from_numpy(p) for p in draw_parts(name, np.random.default_rng(25), 2, 3).values()
    ]
    names, calls = list(draw_parts(name, np.random.default_rng(25), 1, 1)), []

    def backend(graph, _inputs):
        calls.append([str(node.target) for node in graph.graph.nodes if node.op == "call_function"])
        return graph.forward

    for quantity in QUANTITIES:

        def function(*given, quantity=quantity):
            return call(quantity, name, dict(zip(names, given, strict=True)), [3, 1]).sin().sum()

        torch.compiler.reset()
        leaves = [part.clone().requires_grad_() for part in parts]
        expected = function(*leaves)
        gradients = torch.autograd.grad(expected, leaves)
        compiled = torch.compile(
            function, fullgraph=True, backend=aot_autograd(fw_compiler=backend)
        )
        found = compiled(*leaves)
        assert found.item() == expected.item()
        for one, other in zip(torch.autograd.grad(found, leaves), gradients, strict=True):
            torch.testing.assert_close(one, other, rtol=0, atol=1e-12)
    own = [[target for target in graph if target.startswith("gpuparse")] for graph in calls]
    assert [len(targets) for targets in own] == [1, 0, 1, 1, 1, 1]


@every_decoder
@every_root
@every_engine
@pytest.mark.parametrize("quantity", QUANTITIES)
def test_unread_cells_and_batch_mates_change_nothing(name, single_root, engine, quantity):
    if not DECODERS[name].has(quantity, engine):
        pytest.skip("the quantity exists on the other engine")
    rng, n, lengths = np.random.default_rng(14), 6, torch.tensor([6, 0, 4, 1, 5])
    parts, wide = draw_parts(name, rng, 5, n, spread=3.0), {}
    for field, part in parts.items():
        axes = AXES[field]
        wide[field] = np.full((5, *[n + 4] * axes), np.nan)
        read = is_read(field, n + 4, not DECODERS[name].is_projective)
        for b, length in enumerate(lengths.tolist()):
            words = (slice(length + 1),) * axes
            wide[field][b][words] = np.where(read[words], part[b][words], np.nan)
    before = {field: part.copy() for field, part in wide.items()}
    how = {"single_root": single_root, "engine": engine}
    expected = call(quantity, name, parts, lengths, **how)
    order = rng.permutation(5)
    mixed = {field: part[order] for field, part in wide.items()}
    # In torch, which has the last step of entropies too, the order of a sum depends on the width.
    atol = 0 if engine == "native" and quantity != "entropy" else 1e-14
    for given, words, own in ((wide, lengths, expected), (mixed, lengths[order], expected[order])):
        found = call(quantity, name, given, words, **how)
        if found.dim() == 3:
            assert (found[:, n + 1 :] == 0).all()
            assert (found[:, :, n + 1 :] == 0).all()
            found = found[:, : n + 1, : n + 1]
        torch.testing.assert_close(found, own, rtol=0, atol=atol)
    for field, part in wide.items():
        np.testing.assert_array_equal(part, before[field])
    if not atol:
        alone = {field: part[2:3] for field, part in parts.items()}
        assert call(quantity, name, alone, lengths[2:3], **how)[0].equal(expected[2])


@every_decoder
@every_engine
@pytest.mark.parametrize("kind", [torch.float32, torch.float16, torch.bfloat16, torch.int64])
def test_any_type_is_computed_with_as_float64(name, engine, kind):
    parts = draw_parts(name, np.random.default_rng(15), 4, 8, spread=3.0)
    given = {field: torch.from_numpy(part).to(kind) for field, part in parts.items()}
    wide = {field: part.double() for field, part in given.items()}
    for quantity in QUANTITIES:
        if DECODERS[name].has(quantity, engine):
            found = call(quantity, name, given, [8] * 4, engine=engine)
            assert found.dtype == torch.float64
            assert found.equal(call(quantity, name, wide, [8] * 4, engine=engine))


@every_decoder
@every_root
def test_gradients_arrive_in_the_type_of_the_scores(name, single_root):
    parts = draw_parts(name, np.random.default_rng(1), 2, 3)
    leaves = {f: torch.from_numpy(part).float().requires_grad_() for f, part in parts.items()}
    call("entropy", name, leaves, [3, 2], single_root=single_root).sum().backward()
    grad = leaves["arc"].grad
    assert grad.dtype == torch.float32
    assert (grad[1, :, 3] == 0).all()
    assert (grad[:, :, 0] == 0).all()


@every_decoder
@every_engine
def test_sums_are_there_in_inference_mode(name, engine):
    drawn = draw_parts(name, np.random.default_rng(16), 2, 5)
    parts = {field: torch.from_numpy(part) for field, part in drawn.items()}
    expected = call("marginals", name, parts, [5, 5], engine=engine)
    with torch.inference_mode():
        again = {field: part.clone() for field, part in parts.items()}
        assert call("marginals", name, again, [5, 5], engine=engine).equal(expected)


@every_decoder
@every_root
@every_engine
def test_a_sentence_without_a_tree_is_named(name, single_root, engine):
    parts = {f: 0 * part for f, part in draw_parts(name, np.random.default_rng(2), 3, 3).items()}
    parts["arc"][1, :, 2] = -np.inf
    how = {"single_root": single_root, "engine": engine}
    for quantity, more in (*((quantity, ()) for quantity in QUANTITIES), ("samples", (2,))):
        with pytest.raises(NoTreeError, match="sentence 1"):
            call(quantity, name, parts, [3] * 3, *more, **how)
    parts["arc"][1, :, 2] = 0.0
    parts["arc"][1, 1:, 1:] = -np.inf  # the root alone is left as a head
    for quantity, more in (*((quantity, ()) for quantity in QUANTITIES), ("samples", (2,))):
        if not single_root:
            call(quantity, name, parts, [3] * 3, *more, **how)
            continue
        with pytest.raises(NoTreeError, match="sentence 1"):
            call(quantity, name, parts, [3] * 3, *more, **how)


@every_decoder
@every_root
@every_engine
@pytest.mark.parametrize("shape", [(0, 1), (0, 4), (3, 1), (2, 3)])
def test_no_sentences_and_no_words(name, single_root, engine, shape):
    n_batch, n_nodes = shape
    drawn = draw_parts(name, np.random.default_rng(3), n_batch, n_nodes - 1)
    parts = {field: np.full_like(part, np.nan) for field, part in drawn.items()}
    lengths, how = [0] * n_batch, {"single_root": single_root, "engine": engine}
    nothing = torch.zeros(n_batch, dtype=torch.float64)
    assert call("log_partition", name, parts, lengths, **how).equal(nothing)
    assert call("entropy", name, parts, lengths, **how).equal(nothing)
    assert call("marginals", name, parts, lengths, **how).equal(
        torch.zeros(n_batch, n_nodes, n_nodes).double()
    )
    samples = call("samples", name, parts, lengths, 2, **how)
    assert samples.equal(torch.full((n_batch, 2, n_nodes), -1))


@every_decoder
def test_threads_change_nothing(name, monkeypatch):
    monkeypatch.setattr("gpuparse.inference.native_trees.WORTH_A_THREAD", 1)
    rng = np.random.default_rng(17)
    parts, lengths = draw_parts(name, rng, 20, 30), rng.integers(0, 31, 20)
    found = []
    for threads in (1, 3):
        monkeypatch.setattr(torch, "get_num_threads", lambda threads=threads: threads)
        generator = torch.Generator().manual_seed(1)
        drawn = call("samples", name, parts, lengths, 3, generator)
        found.append([*(call(q, name, parts, lengths) for q in QUANTITIES), drawn])
    assert all(a.equal(b) for a, b in zip(*found, strict=True))


@every_decoder
@every_root
@every_engine
@pytest.mark.parametrize(("forbidden", "shift"), [(0.0, 0.0), (0.35, 0.0), (0.0, 1e6)])
def test_samples_have_the_probabilities_of_enumeration(name, single_root, engine, forbidden, shift):
    """A shift makes cycles outweigh all trees, where walks that erase loops never end."""
    rng, n, n_samples = np.random.default_rng(19), 4, 20_000
    parts = draw_parts(name, rng, 6, n, forbidden=forbidden)
    parts["arc"][:, 1:] += shift
    values, trees = values_of(name, parts, single_root)
    has_tree = values.max(axis=1) > -np.inf
    parts, values = {f: part[has_tree] for f, part in parts.items()}, values[has_tree]
    generator = torch.Generator().manual_seed(20)
    samples = call(
        "samples", name, parts, [n] * len(values), n_samples, generator, single_root=single_root,
        engine=engine,
    )  # fmt: skip
    assert (samples[:, :, 0] == -1).all()
    probabilities = sums_of_values(values).probabilities
    base = (n + 1) ** np.arange(n)
    codes = trees[:, 1:] @ base
    for b in range(len(samples)):
        drawn = samples[b, :, 1:].numpy() @ base
        assert set(drawn) <= set(codes[probabilities[b] > 0])
        shares = (drawn[:, None] == codes).mean(axis=0)
        deviation = np.sqrt(probabilities[b] * (1 - probabilities[b]) / n_samples)
        assert (abs(shares - probabilities[b]) <= 4.5 * deviation + 1e-4).all()
        # Pearson's chi-square over the trees that are expected more than five times.
        often = probabilities[b] * n_samples > 5
        wanted = probabilities[b][often] * n_samples
        statistic = ((shares[often] * n_samples - wanted) ** 2 / wanted).sum()
        assert statistic < often.sum() + 5 * np.sqrt(2 * often.sum()) + 5


@every_decoder
@every_root
def test_a_sample_depends_on_its_seed_its_scores_and_its_number_alone(name, single_root):
    parts = draw_parts(name, np.random.default_rng(21), 3, 9)
    lengths = torch.tensor([9, 4, 7])

    def sample(given, words, n_samples, seed=5):
        generator = torch.Generator().manual_seed(seed)
        return call("samples", name, given, words, n_samples, generator, single_root=single_root)

    first = sample(parts, lengths, 50)
    assert first.dtype == torch.int64
    assert sample(parts, lengths, 50).equal(first)
    assert sample(parts, lengths, 20).equal(first[:, :20])
    assert sample({f: part[:2] for f, part in parts.items()}, lengths[:2], 50).equal(first[:2])
    others = {field: part.copy() for field, part in parts.items()}
    for part in others.values():
        part[0], part[2] = 0.0, 1.0
    assert sample(others, torch.tensor([2, 4, 5]), 50)[1].equal(first[1])
    wide = {f: np.pad(p, [(0, 0), *[(0, 2)] * (p.ndim - 1)]) for f, p in parts.items()}
    wide = {f: np.where(wide[f] == 0, np.nan, wide[f]) for f in wide}
    assert sample(wide, lengths, 50)[:, :, :10].equal(first)
    assert not sample(parts, lengths, 50, seed=6).equal(first)
    assert not all(first[0, 0].equal(tree) for tree in first[0, 1:])
    by_default = []
    for _ in range(2):
        torch.manual_seed(7)
        by_default.append(call("samples", name, parts, lengths, 50))
    assert by_default[0].equal(by_default[1])
    assert sample(parts, lengths, 0).shape == (3, 0, 10)
    with pytest.raises(ScoreError, match="n_samples is -1"):
        sample(parts, lengths, -1)


@every_decoder
@every_root
def test_samples_in_torch_repeat_and_have_the_trees_of_each_sentence(name, single_root, device):
    """The generator is of main memory, or of the device."""
    lengths = torch.tensor([7, 0, 4, 1])
    drawn = draw_parts(name, np.random.default_rng(25), 4, 7)
    parts = {
        field: np.pad(part, [(0, 0), *[(0, 3)] * (part.ndim - 1)], constant_values=np.nan)
        for field, part in drawn.items()
    }
    parts = {field: torch.from_numpy(part).to(device) for field, part in parts.items()}

    def sample(seed, n_samples=30, place="cpu"):
        generator = torch.Generator(place).manual_seed(seed)
        how = {"engine": "torch", "single_root": single_root}
        drawn = call("samples", name, parts, lengths, n_samples, generator, **how)
        assert drawn.device.type == device.type
        return drawn.cpu()

    found = sample(1)
    assert found.dtype == torch.int64
    assert found.shape == (4, 30, 11)
    assert found.equal(sample(1))
    assert not found.equal(sample(2))
    assert sample(3, place=device).equal(sample(3, place=device))
    assert sample(1, 0).shape == (4, 0, 11)
    is_projective = DECODERS[name].is_projective
    TreeKind(lengths, is_projective=is_projective, single_root=single_root).require(found)
    is_padding = torch.arange(11) > lengths[:, None]
    assert found.masked_select(is_padding[:, None]).eq(-1).all()


@every_engine
def test_parts_without_scores_leave_the_first_order(engine):
    rng, lengths = np.random.default_rng(23), [11, 3, 8, 1]
    parts = draw_parts("eisner_sibling", rng, 4, 11)
    parts |= {"sibling": 0 * parts["sibling"], "end": 0 * parts["end"]}
    for quantity in QUANTITIES:
        torch.testing.assert_close(
            call(quantity, "eisner_sibling", parts, lengths, engine=engine),
            call(quantity, "eisner", {"arc": parts["arc"]}, lengths, engine=engine),
            rtol=0,
            atol=1e-12,
        )


@every_root
@pytest.mark.skipif(
    importlib.util.find_spec("torch_struct") is None, reason="torch-struct is not installed"
)
def test_torch_struct_has_the_same_sums_and_entropy(single_root):
    torch_struct = importlib.import_module("torch_struct")
    arcs = torch.from_numpy(draw(np.random.default_rng(24), 6, 16, 16))
    lengths = torch.tensor([15, 15, 9, 3, 2, 1])
    theirs = arcs[:, 1:, 1:].clone()
    theirs.diagonal(dim1=1, dim2=2).copy_(arcs[:, 0, 1:])
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*arg_constraints")
        peer = torch_struct.DependencyCRF(
            theirs.requires_grad_(), lengths, multiroot=not single_root
        )
    how = {"single_root": single_root}
    torch.testing.assert_close(
        eisner_log_partition(arcs, lengths, **how), peer.partition.detach()
    )  # fmt: skip
    torch.testing.assert_close(eisner_entropy(arcs, lengths, **how), peer.entropy.detach())
    marginals = peer.marginals.detach()
    ours = eisner_marginals(arcs, lengths, **how)
    torch.testing.assert_close(ours[:, 0, 1:], marginals.diagonal(dim1=1, dim2=2))
    off_diagonal = ~torch.eye(15, dtype=torch.bool)
    torch.testing.assert_close(ours[:, 1:, 1:][:, off_diagonal], marginals[:, off_diagonal])


def test_enumerated_parts_are_those_of_the_trees():
    tree = np.array([-1, 2, 0, 2, 2])
    probabilities = np.ones((1, 1))
    found = sibling_marginals(probabilities, tree[None])[0]
    assert sorted(map(tuple, np.argwhere(found))) == sorted(parts_of("sibling", tree))
    assert arc_marginals(probabilities, tree[None])[0].sum() == 4
