"""Triton's kernels have a barrier wherever threads read what others wrote.

The interpreter runs all threads in step and would not miss one. Here it keeps a book of who read
and wrote which cell since the last barrier.
"""

import numpy as np
import pytest
import torch

from tests.inference.decoders import HAS_GPU
from tests.strategies import integer_scores, integer_siblings

pytest.importorskip("triton", reason="Triton is not installed")

import triton
import triton.language as tl
from triton.runtime import interpreter

from gpuparse.inference import with_quantity
from gpuparse.inference.triton.chu_liu_edmonds import chu_liu_edmonds
from gpuparse.inference.triton.eisner import eisner, eisner_sibling
from gpuparse.inference.triton.eisner_sums import sum_trees

pytestmark = [
    pytest.mark.triton,
    pytest.mark.skipif(HAS_GPU, reason="with a GPU, Triton's interpreter is off"),
]
every_root = pytest.mark.parametrize("single_root", [False, True], ids=["multi", "single"])
EVERYBODY, SOMEBODY = -1, -2  # all threads load one number; one, always the same, stores it


class Book:
    """Reads and writes of one program since the last barrier, by address.

    lane_is_thread: a lane is the same thread in all vectors, so it may read what it wrote.
    """

    def __init__(self, lane_is_thread):
        self.lane_is_thread = lane_is_thread
        self.races = []
        self.clear()

    def clear(self):
        self.reads, self.writes = {}, {}

    def is_same(self, one, other):
        if SOMEBODY in (one, other):
            return one == other
        return self.lane_is_thread and one == other != EVERYBODY

    def load(self, addresses, mask):
        for lane, address in lanes(addresses, mask, EVERYBODY):
            if address in self.writes and not self.is_same(lane, self.writes[address][0]):
                self.races.append(f"lane {lane} reads what {self.writes[address]} wrote")
            self.reads.setdefault(address, set()).add(lane)

    def store(self, addresses, values, mask):
        values = np.broadcast_to(values, addresses.shape).ravel()
        for lane, address in lanes(addresses, mask, SOMEBODY):
            value = values[max(lane, 0)]
            if not all(self.is_same(lane, reader) for reader in self.reads.get(address, ())):
                self.races.append(f"lane {lane} writes what {self.reads[address]} read")
            writer, written = self.writes.get(address, (lane, value))
            if not self.is_same(lane, writer) and written != value:
                self.races.append(f"lane {lane} writes {value} where {writer} wrote {written}")
            self.writes[address] = lane, value


def lanes(addresses, mask, alone):
    """(lane, address) where the mask is set; `alone` for a scalar."""
    mask = np.broadcast_to(mask, addresses.shape).ravel()
    for lane, (address, is_set) in enumerate(zip(addresses.ravel().tolist(), mask, strict=True)):
        if is_set:
            yield (lane if mask.size > 1 else alone), address


@pytest.fixture
def keep_book(monkeypatch):
    """Books of everything that is interpreted from now on."""

    def keep(lane_is_thread):
        book, builder = Book(lane_is_thread), interpreter.InterpreterBuilder
        load, store = builder.create_masked_load, builder.create_masked_store
        begin = builder.set_grid_idx

        def loading(self, pointers, mask, *rest):
            book.load(pointers.data, mask.data)
            return load(self, pointers, mask, *rest)

        def storing(self, pointers, value, mask, *rest):
            book.store(pointers.data, value.data, mask.data)
            return store(self, pointers, value, mask, *rest)

        def beginning(self, *index):
            book.clear()
            return begin(self, *index)

        monkeypatch.setattr(builder, "create_masked_load", loading)
        monkeypatch.setattr(builder, "create_masked_store", storing)
        monkeypatch.setattr(builder, "create_barrier", lambda self: book.clear())
        monkeypatch.setattr(builder, "set_grid_idx", beginning)
        return book

    return keep


@triton.jit
def turn_around(numbers, HAS_BARRIER: tl.constexpr) -> None:
    """numbers + 1, the last first."""
    lane = tl.arange(0, 16)
    tl.store(numbers + lane, tl.load(numbers + lane) + 1)
    if HAS_BARRIER:
        tl.debug_barrier()
    turned = tl.load(numbers + 15 - lane)
    if HAS_BARRIER:
        tl.debug_barrier()
    tl.store(numbers + lane, turned)


@pytest.mark.parametrize("has_barrier", [False, True])
def test_the_book_notices_missing_barriers(keep_book, has_barrier):
    book, numbers = keep_book(True), torch.arange(16)
    turn_around[(1,)](numbers, HAS_BARRIER=has_barrier)
    assert numbers.tolist() == list(range(16, 0, -1))
    assert (book.races == []) == has_barrier


@every_root
@pytest.mark.parametrize("name", with_quantity("best", "triton"))
def test_no_thread_reads_what_others_write_at_the_same_time(keep_book, name, single_root):
    rng, lengths = np.random.default_rng(4), torch.tensor([9, 2, 0, 7, 1, 9])
    arcs = torch.from_numpy(integer_scores(rng, 6, 9, forbidden=0.1))
    arcs[5, :, 4] = -torch.inf  # no tree
    if name == "chu_liu_edmonds":
        book = keep_book(lane_is_thread=False)
        heads, _ = chu_liu_edmonds(arcs, lengths, single_root=single_root)
    else:
        book = keep_book(lane_is_thread=True)
        options = {"single_root": single_root, "lanes": 8}
        if name == "eisner":
            heads, _ = eisner(arcs, lengths, **options)
        else:
            siblings = torch.from_numpy(integer_siblings(rng, 6, 9))
            heads, _ = eisner_sibling(arcs, siblings, arcs / 2, lengths, **options)
    assert (heads[0, 1:] >= 0).all()
    assert (heads[5] == -1).all()
    assert book.races == []


@every_root
@pytest.mark.parametrize("n_marginals", [0, 3])
def test_no_thread_reads_what_others_write_in_sums(keep_book, n_marginals, single_root):
    """First-order marginals, and sums with entropies or all marginals of siblings."""
    rng, lengths = np.random.default_rng(4), torch.tensor([6, 2, 0, 5, 1, 6])
    arcs = torch.from_numpy(integer_scores(rng, 6, 6)).double()
    siblings = torch.from_numpy(integer_siblings(rng, 6, 6)).double()
    book = keep_book(lane_is_thread=False)
    options = {"single_root": single_root, "tile": (2, 4)}
    sum_trees(lengths, arcs, n_marginals=1, **options)
    options |= {"n_marginals": n_marginals, "with_entropy": n_marginals == 0}
    sum_trees(lengths, arcs, siblings, arcs / 2, **options)
    assert book.races == []
