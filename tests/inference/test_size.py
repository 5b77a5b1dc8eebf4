"""Long sentences, deep trees, many cycles, many threads."""

import sys

import numpy as np
import pytest
import torch

from gpuparse.inference import chu_liu_edmonds, eisner, engines
from gpuparse.inference.textbook import spanning_trees
from gpuparse.native import mapped
from tests.inference.decoders import ROWS

every_decoder = pytest.mark.parametrize("name", ROWS)
every_root = pytest.mark.parametrize("single_root", [False, True], ids=["multi", "single"])


@pytest.fixture
def shallow_stack():
    """So few frames left that no recursion over a sentence gets through."""
    frames, frame = 0, sys._getframe()
    while frame is not None:
        frames, frame = frames + 1, frame.f_back
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(frames + 100)
    yield
    sys.setrecursionlimit(limit)


def chain(n, towards_end):
    """Scores (1, n+1, n+1) whose best tree hangs every word on its neighbour."""
    arcs = torch.zeros(1, n + 1, n + 1)
    m = torch.arange(1, n + 1)
    head = m - 1 if towards_end else (m + 1) % (n + 1)
    arcs[0, head, m] = 1
    return arcs, [-1, *head.tolist()]


@pytest.mark.usefixtures("shallow_stack")
@every_decoder
@every_root
@pytest.mark.parametrize("towards_end", [True, False])
@pytest.mark.parametrize(("engine", "n"), [("native", 1000), ("torch", 150)])
def test_case_23_deep_chains(name, single_root, towards_end, engine, n):
    arcs, expected = chain(n, towards_end)
    heads, values = ROWS[name].search(
        arcs, torch.tensor([n]), single_root=single_root, engine=engine
    )
    assert heads[0].tolist() == expected
    assert values.item() == n


@every_root
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_charts_of_long_sentences_are_filled_in_blocks(single_root, dtype):
    """Around the length where blocks begin, and where blocks end; with ties and forbidden arcs."""
    lengths = torch.tensor([159, 160, 161, 190, 191, 192, 200])
    generator = torch.Generator().manual_seed(1)
    arcs = torch.randint(-2, 3, (len(lengths), 201, 201), generator=generator).to(dtype)
    arcs[torch.rand(arcs.shape, generator=generator) < 0.3] = -torch.inf
    arcs[:, 0] = 1
    found = [
        eisner(arcs, lengths, single_root=single_root, engine=engine)
        for engine in ("native", "torch")
    ]
    for native, batched in zip(*found, strict=True):
        assert torch.equal(native, batched)


@pytest.mark.usefixtures("shallow_stack")
@pytest.mark.parametrize(("search", "n"), [(chu_liu_edmonds, 5000), (eisner, 2000)])
def test_case_23_chains_of_thousands_of_words(search, n):
    arcs, expected = chain(n, towards_end=False)
    heads, _ = search(arcs, torch.tensor([n]))
    assert heads[0].tolist() == expected


@every_root
@pytest.mark.parametrize("engine", ["native", "torch"])
def test_case_23_nested_cycles(single_root, engine):
    """Every word closes a cycle with all before it, so super-nodes nest n deep."""
    n = 60
    arcs = np.full((n + 1, n + 1), -1000.0)
    for m in range(2, n + 1):
        arcs[m, m - 1] = 2 * n - m
        arcs[m - 1, m] = n + m / 2
    arcs[0, 1:] = -np.arange(1, n + 1)
    heads, values = chu_liu_edmonds(
        torch.from_numpy(arcs[None]), torch.tensor([n]), single_root=single_root, engine=engine
    )
    tree, value = spanning_trees.chu_liu_edmonds(arcs, single_root=single_root)
    assert heads[0].tolist() == tree
    assert values.item() == value


@every_decoder
@every_root
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_engines_agree_on_long_sentences(name, single_root, dtype):
    rng = np.random.default_rng(4)
    arcs = torch.from_numpy(rng.standard_normal((5, 131, 131)).astype(dtype))
    lengths = torch.tensor([130, 64, 63, 127, 16])
    cpu = ROWS[name].search(arcs, lengths, single_root=single_root, engine="native")
    on_torch = ROWS[name].search(arcs, lengths, single_root=single_root, engine="torch")
    assert cpu[0].equal(on_torch[0])
    assert cpu[1].equal(on_torch[1])


@every_decoder
def test_thread_counts_change_nothing(name, monkeypatch):
    started = []

    def start(work, slices, workers):
        started.append(workers)
        return mapped(work, slices, workers)

    monkeypatch.setattr(engines, "mapped", start)
    rng = np.random.default_rng(5)
    arcs = torch.from_numpy(rng.standard_normal((600, 71, 71)).astype(np.float32))
    lengths = torch.from_numpy(rng.integers(1, 71, 600))
    before = torch.get_num_threads()
    results = []
    try:
        for n_threads in (1, 2, 3):
            torch.set_num_threads(n_threads)
            heads, values = ROWS[name].search(arcs, lengths)
            results.append((heads.numpy().tobytes(), values.numpy().tobytes()))
    finally:
        torch.set_num_threads(before)
    assert len(set(results)) == 1
    assert started == [2, 3]


@pytest.mark.parametrize("n_threads", [1, 2, 3, 7, 50])
@pytest.mark.parametrize("n_batch", [0, 1, 2, 10, 33])
def test_threads_cover_the_batch_once(n_threads, n_batch):
    lengths = np.random.default_rng(6).integers(0, 50, n_batch)
    visits = np.zeros(n_batch, np.int64)

    def visit(part):
        visits[part] += 1

    engines.run_in_threads(visit, lengths, 2, n_threads, worth=1)
    assert (visits == 1).all()


def test_an_error_in_a_thread_comes_out():
    def fail(part):
        raise ArithmeticError(f"{part}")

    with pytest.raises(ArithmeticError):
        engines.run_in_threads(fail, np.full(10, 20), 3, 2, worth=1)
