"""Triton's sums over trees: native sums, the torch form, enumeration; any tile."""

import numpy as np
import pytest
import torch

from gpuparse.errors import NoTreeError, ScoreError
from gpuparse.inference import native_trees, with_quantity
from gpuparse.inference.scores import read_part_cells
from tests.inference.decoders import HAS_GPU, TRITON
from tests.inference.test_sums import (
    QUANTITIES,
    assert_equals_numpy,
    call,
    draw_enumerated,
    draw_parts,
    values_of,
)
from tests.oracles.tree_sums import arc_marginals, sibling_marginals, sums_of_values

pytest.importorskip("triton", reason="Triton is not installed")

from gpuparse.inference.triton.eisner_sums import sum_trees

pytestmark = TRITON

DEVICE = torch.device("cuda" if HAS_GPU else "cpu")
every_sum = pytest.mark.parametrize("name", with_quantity("log_partition", "triton"))
every_root = pytest.mark.parametrize("single_root", [False, True], ids=["multi", "single"])


def sums_of(parts, lengths, **options):
    found = sum_trees(lengths.to(DEVICE), *(part.to(DEVICE) for part in parts), **options)
    return [part.cpu() for part in found]


def close(found, expected, atol=1e-10):
    torch.testing.assert_close(found.cpu(), expected, rtol=1e-13, atol=atol)


def drawn(name, lengths, n_nodes, spread):
    """Scores with forbidden parts, and NaN where none is read; sentences with a tree."""
    rng, parts = np.random.default_rng(1), []
    for field, part in draw_parts(name, rng, len(lengths), n_nodes - 1, spread=spread).items():
        part[rng.random(part.shape) < 0.1] = -np.inf
        chain = np.arange(n_nodes - 1)
        part[:, chain, chain + 1] = part[:, 0, 1:] = 0.1 * spread
        part[~read_part_cells(lengths, n_nodes, field).numpy()] = np.nan
        parts.append(torch.from_numpy(part))
    return parts


@every_sum
@every_root
@pytest.mark.parametrize(("spread", "tile"), [(2.0, (2, 4)), (1e6, None)])
def test_sums_equal_native_ones(name, single_root, spread, tile):
    """In few programs, one sentence after another; without a tree, the sum is -inf."""
    lengths = torch.tensor([3, 0, 6, 1, 2])
    parts = drawn(name, lengths, 9, spread)
    options = {"single_root": single_root}
    expected = native_trees.sum_trees(name, lengths, *parts, n_marginals=len(parts), **options)
    entropies = call("entropy", name, dict(enumerate(parts)), lengths, engine="torch", **options)
    atol = 1e-10 if spread < 1e6 else 1e-7
    options["tile"] = tile
    found = sums_of(parts, lengths, n_marginals=len(parts), **options)
    for one, other in zip(found, expected, strict=True):
        close(one, other, atol)
    sums, own = sums_of(parts, lengths, with_entropy=True, **options)
    assert sums.equal(found[0])
    close(own, entropies, atol)
    parts[0][4, :, 2] = -torch.inf
    broken = sums_of(parts, lengths, n_marginals=1, **options)
    assert broken[0][4] == -torch.inf
    assert (broken[1][4] == 0).all()
    assert all(a[:4].equal(b[:4]) for a, b in zip(broken, found, strict=False))


@every_sum
@every_root
@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_sums_are_those_of_enumeration(name, single_root, n):
    """Every second sentence has ties and forbidden parts."""
    rng = np.random.default_rng(n)
    parts, _, trees = draw_enumerated(name, rng, 4, n, single_root, spread=2.0, forbidden=0.3)
    for part in parts.values():
        part[::2] = np.round(part[::2])
    values, _ = values_of(name, parts, single_root)
    given = [torch.from_numpy(part) for part in parts.values()]
    lengths, expected = torch.full((len(values),), n), sums_of_values(values)
    options = {"single_root": single_root}
    found = sums_of(given, lengths, n_marginals=len(given), **options)
    assert_equals_numpy(found[0], expected.log_partition)
    assert_equals_numpy(found[1], arc_marginals(expected.probabilities, trees))
    if len(given) > 1:
        assert_equals_numpy(found[2], sibling_marginals(expected.probabilities, trees))
    _, entropies = sums_of(given, lengths, with_entropy=True, **options)
    assert_equals_numpy(entropies, expected.entropy)


@every_sum
@every_root
@pytest.mark.parametrize("quantity", QUANTITIES)
def test_derivatives_are_those_of_the_torch_form(name, single_root, quantity):
    """The first and the second ones, with padding and forbidden parts."""
    lengths = torch.tensor([3, 0, 1])
    parts = [part.nan_to_num(nan=0.0, neginf=-torch.inf) for part in drawn(name, lengths, 4, 1.0)]
    found = []
    for engine in ("torch", "triton"):
        device = DEVICE if engine == "triton" else torch.device("cpu")
        leaves = [part.to(device, copy=True).requires_grad_() for part in parts]
        given = dict(enumerate(leaves))
        value = call(
            quantity, name, given, lengths.to(device), engine=engine, single_root=single_root
        )
        sizes = torch.linspace(0.5, 2.0, value.numel(), dtype=torch.float64).view(value.shape)
        first = torch.autograd.grad((value * sizes.to(device)).sum(), leaves, create_graph=True)
        second = [None] * len(leaves)
        if quantity == "log_partition" or name == "eisner":
            total = sum((part * part.detach().cos()).sum() for part in first)
            second = torch.autograd.grad(total, leaves)
        found.append([value.detach(), *(part.detach() for part in first), *second])
    for expected, own in zip(*found, strict=True):
        if expected is not None:
            close(own, expected)


@every_sum
def test_sentences_without_a_tree_are_named(name):
    parts = draw_parts(name, np.random.default_rng(2), 3, 2)
    parts["arc"][1, :, 2] = -np.inf
    given = {field: torch.from_numpy(part).to(DEVICE) for field, part in parts.items()}
    for quantity in QUANTITIES:
        with pytest.raises(NoTreeError, match="sentence 1"):
            call(quantity, name, given, [2, 2, 2], engine="triton")
    given["arc"][1, 0, 1] = torch.nan  # where nothing is checked
    for options in ({}, {"with_entropy": True}):
        found = sums_of(given.values(), torch.tensor([2, 2, 2]), single_root=False, **options)
        assert all(part.isnan().tolist() == [False, True, False] for part in found)


@every_sum
@every_root
@pytest.mark.parametrize("shape", [(0, 1), (0, 4), (3, 1), (2, 3)])
def test_no_sentences_and_no_words(name, single_root, shape):
    n_batch, n_nodes = shape
    drawn = draw_parts(name, np.random.default_rng(3), n_batch, n_nodes - 1)
    parts = [torch.full(part.shape, torch.nan).double() for part in drawn.values()]
    lengths = torch.zeros(n_batch, dtype=torch.int64)
    found = sums_of(parts, lengths, n_marginals=len(parts), single_root=single_root)
    found += sums_of(parts, lengths, with_entropy=True, single_root=single_root)
    assert [part.shape for part in found[1:-2]] == [part.shape for part in parts]
    assert all((part == 0).all() for part in found)


def test_more_words_than_can_be_counted():
    arcs = torch.zeros(1, dtype=torch.float64).expand(1, 2**13 + 1, 2**13 + 1)
    with pytest.raises(ScoreError, match="up to 8191 words, there is room for 8192"):
        sum_trees(torch.tensor([4]), arcs, single_root=False)


@pytest.mark.gpu
@pytest.mark.skipif(not HAS_GPU, reason="no CUDA device on this machine")
@every_sum
@every_root
@pytest.mark.parametrize("n", [31, 32, 63, 64, 100])
def test_long_sentences_on_a_device(name, single_root, n):
    """More sentences than programs would sum in one turn; the host does not wait."""
    n = min(n, 64) if name == "eisner_sibling" else n
    lengths = torch.arange(n - 19, n + 1)
    parts = drawn(name, lengths, n + 1, 2.0)
    options = {"single_root": single_root, "n_marginals": len(parts)}
    given = [lengths.to(DEVICE), *(part.to(DEVICE) for part in parts)]
    sum_trees(*given, **options)  # compiles
    torch.cuda.set_sync_debug_mode("error")
    try:
        found = sum_trees(*given, **options)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    expected = native_trees.sum_trees(name, lengths, *parts, **options)
    for own, other in zip(found, expected, strict=True):
        close(own, other, 1e-9)
