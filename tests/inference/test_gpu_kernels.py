"""Promises of Triton's kernels beyond the public functions: any N, any lanes, no exceptions."""

import numpy as np
import pytest
import torch

from gpuparse.errors import NoTreeError, ScoreError
from gpuparse.inference.textbook import projective
from gpuparse.inference.textbook import spanning_trees as reference
from tests.inference.decoders import HAS_GPU, TRITON
from tests.strategies import integer_scores, integer_siblings, with_junk

pytest.importorskip("triton", reason="Triton is not installed")

from gpuparse.inference.triton.chu_liu_edmonds import chu_liu_edmonds
from gpuparse.inference.triton.eisner import eisner, eisner_sibling
from gpuparse.inference.triton.launch import count_programs, row_length

pytestmark = TRITON

DEVICE = torch.device("cuda" if HAS_GPU else "cpu")
every_root = pytest.mark.parametrize("single_root", [False, True], ids=["multi", "single"])
SEARCHES = {
    "eisner": (eisner, projective.eisner),
    "eisner_sibling": (eisner_sibling, projective.eisner_sibling),
    "chu_liu_edmonds": (chu_liu_edmonds, reference.chu_liu_edmonds),
}
every_search = pytest.mark.parametrize("name", SEARCHES)


def scores_for(name, n_batch, n, forbidden=0.0, seed=0):
    """The arrays of scores that a search reads, NaN where it must not look."""
    rng = np.random.default_rng(seed)
    arcs = integer_scores(rng, n_batch, n, forbidden=forbidden)
    siblings = integer_siblings(rng, n_batch, n, forbidden=forbidden / 3)
    ends = integer_scores(rng, n_batch, n)
    with_junk(arcs, siblings, ends)
    return (arcs, siblings, ends) if name == "eisner_sibling" else (arcs,)


def search(name, scores, lengths, single_root, **options):
    """Heads and tree scores, as lists."""
    tensors = [torch.from_numpy(part).to(DEVICE) for part in scores]
    lengths = torch.as_tensor(lengths, dtype=torch.int64, device=DEVICE)
    heads, values = SEARCHES[name][0](*tensors, lengths, single_root=single_root, **options)
    assert heads.dtype == torch.int64
    assert values.dtype == torch.float64
    assert heads.device == values.device == tensors[0].device
    return heads.tolist(), values.tolist()


def textbook(name, scores, lengths, single_root):
    """The same by the textbook, one sentence after another."""
    found, n_nodes = ([], []), scores[0].shape[1]
    for b, n in enumerate(lengths):
        alone = [part[(b, *[slice(n + 1)] * (part.ndim - 1))] for part in scores]
        try:
            heads, value = SEARCHES[name][1](*alone, single_root=single_root)
        except NoTreeError:
            heads, value = [], -np.inf
        found[0].append(heads + [-1] * (n_nodes - len(heads)))
        found[1].append(float(value))
    return found


@every_search
@every_root
def test_room_for_more_words_than_there_are_and_sentences_without_a_tree(name, single_root):
    """All in one batch, which few programs search: each finds scratch as another left it."""
    lengths = [3, 0, 6, 1, 5, 4, 2, 6, 0, 6]
    scores = scores_for(name, len(lengths), 9, forbidden=0.35)
    for part in scores[:1]:
        part[7, :, 2] = -np.inf
    found = search(name, scores, lengths, single_root)
    assert found == textbook(name, scores, lengths, single_root)
    assert found[1][7] == -np.inf
    assert found[0][7] == [-1] * 10
    assert sum(value > -np.inf for value in found[1]) >= 4


@pytest.mark.parametrize("name", ["eisner", "eisner_sibling"])
@every_root
@pytest.mark.parametrize("lanes", [4, 8])
def test_more_starts_than_lanes(name, single_root, lanes):
    lengths = [11, 7, 8, 4, 3]
    scores = scores_for(name, len(lengths), 11, seed=1)
    expected = textbook(name, scores, lengths, single_root)
    assert search(name, scores, lengths, single_root, lanes=lanes) == expected


@pytest.mark.gpu
@pytest.mark.skipif(not HAS_GPU, reason="no CUDA device on this machine")
@every_search
@every_root
@pytest.mark.parametrize("n", [31, 32, 63, 64, 100, 127, 128, 140])
def test_long_sentences_at_full_speed(name, single_root, n):
    """More sentences than programs would search in one turn, against the batched form."""
    from gpuparse import inference

    n = min(n, 64) if name == "eisner_sibling" else n
    scores = [torch.from_numpy(part).to(DEVICE) for part in scores_for(name, 20, n)]
    lengths = torch.arange(n - 19, n + 1, device=DEVICE)
    options = {"end_scores": scores.pop()} if name == "eisner_sibling" else {}
    run = getattr(inference, name)
    heads, values = run(*scores, lengths, single_root=single_root, engine="triton", **options)
    expected = run(*scores, lengths, single_root=single_root, engine="torch", **options)
    assert heads.equal(expected[0])
    assert values.equal(expected[1])


@pytest.mark.gpu
@pytest.mark.skipif(not HAS_GPU, reason="no CUDA device on this machine")
@every_search
@every_root
def test_the_host_does_not_wait(name, single_root):
    scores = [torch.from_numpy(part).to(DEVICE) for part in scores_for(name, 5, 6)]
    lengths = torch.full((5,), 6, device=DEVICE)
    SEARCHES[name][0](*scores, lengths, single_root=single_root)  # compiles
    torch.cuda.set_sync_debug_mode("error")
    try:
        SEARCHES[name][0](*scores, lengths, single_root=single_root)
    finally:
        torch.cuda.set_sync_debug_mode("default")


@every_search
def test_scores_that_are_views(name):
    scores = scores_for(name, 3, 9, seed=2)
    views = [
        torch.from_numpy(part)[(slice(None), *[slice(5)] * (part.ndim - 1))] for part in scores
    ]
    lengths = torch.tensor([4, 3, 4], dtype=torch.int32)
    run = SEARCHES[name][0]
    heads, values = run(*(view.to(DEVICE) for view in views), lengths.to(DEVICE), single_root=False)
    copies = [view.contiguous().numpy() for view in views]
    assert (heads.tolist(), values.tolist()) == search(name, copies, lengths, False)


@every_search
def test_nothing_is_written_to_the_scores(name):
    scores = scores_for(name, 2, 4, seed=3)
    before = [part.copy() for part in scores]
    search(name, scores, [4, 2], True)
    for part, was in zip(scores, before, strict=True):
        assert np.array_equal(part, was, equal_nan=True)


@every_search
def test_empty_batches_and_no_room_for_words(name):
    for n_batch, n in [(0, 3), (2, 0), (0, 0)]:
        heads, values = search(name, scores_for(name, n_batch, n), [0] * n_batch, False)
        assert heads == [[-1] * (n + 1)] * n_batch
        assert values == [0] * n_batch


@pytest.mark.parametrize("run", [eisner, chu_liu_edmonds])
def test_more_words_than_can_be_counted(run):
    arcs = torch.zeros(1).expand(1, 2**13 + 1, 2**13 + 1)
    with pytest.raises(ScoreError, match="up to 8191 words, there is room for 8192"):
        run(arcs, torch.tensor([4]), single_root=False)


def test_rows_are_whole_cache_lines():
    assert [row_length(n) for n in (2, 32, 33, 100)] == [32, 32, 64, 128]


def test_there_are_no_more_programs_than_sentences():
    assert count_programs(1, 1000, DEVICE) == 1
    assert 1 < count_programs(10**6, 2**14, DEVICE) < 10**5
