"""The floors are what counting by hand gives."""

import argparse

import pytest

from benchmarks import floors, roofline
from benchmarks.floors import Machine, Work, floor, latency

PLAIN = Machine("plain", bandwidth=100.0, operations=10.0, sectors=1.0, phase=2.0, programs=3)


@pytest.mark.parametrize(
    ("work", "seconds", "bound"),
    [
        (Work(200, 5, 0.5), 2.0, "bytes"),
        (Work(100, 50, 0.5), 5.0, "operations"),
        (Work(100, 5, 3), 3.0, "sectors"),
    ],
)
def test_the_floor_is_the_largest_of_three(work, seconds, bound):
    assert floor(work, PLAIN) == (seconds, bound)


def test_waiting_goes_by_waves():
    assert latency(Work(0, phases=4), PLAIN, 3) == 8
    assert latency(Work(0, phases=4), PLAIN, 4) == 16


def test_works_add_up():
    assert Work(1, 2, 3, 4) + Work(10, 20, 30, 40) == Work(11, 22, 33, 44)


def counted(n, *, siblings):
    """Sums and maxima of the textbook loops over spans."""
    sums = maxima = 0
    for i in range(n + 1):
        for j in range(i + 1, n + 1):
            splits = j - i  # i <= r < j
            if siblings:
                sums += 2 * 2 * splits + splits  # incomplete from siblings, sibling items
                maxima += 2 * splits + splits
            else:
                sums += splits  # shared by both directions
                maxima += splits
            sums += 2 * splits  # complete spans
            maxima += 2 * splits
    return sums + maxima


@pytest.mark.parametrize("n", [1, 2, 5, 25])
def test_operations_are_those_of_the_loops(n):
    assert floors.eisner(7, n).operations == 7 * counted(n, siblings=False)
    assert floors.eisner_sibling(7, n).operations == 7 * counted(n, siblings=True)


def test_bytes_are_those_of_the_tensors():
    import torch

    batch, n = 3, 4
    arcs = torch.zeros(batch, n + 1, n + 1)
    siblings = torch.zeros(batch, n + 1, n + 1, n + 1)
    heads, lengths = torch.zeros(batch, n + 1, dtype=torch.int64), torch.zeros(batch).long()
    values = torch.zeros(batch)
    small = sum(each.nbytes for each in (heads, lengths, values))
    assert floors.eisner(batch, n).bytes == arcs.nbytes + small
    assert floors.chu_liu_edmonds(batch, n).bytes == arcs.nbytes + small
    assert floors.eisner_sibling(batch, n).bytes == arcs.nbytes + siblings.nbytes + small
    ids = torch.zeros(8, batch * (n + 1), dtype=torch.int32)
    scored = floors.arc_scores(batch, n, 10, fields=8)
    assert scored.bytes == ids.nbytes + arcs.nbytes
    assert (scored.sectors, scored.operations) == (30, 30)
    assert floors.host_copy(batch, n, fields=8) == ids.nbytes + heads.to(torch.int32).nbytes


def test_the_goals_are_under_the_roof():
    """A million trees a second from scores, half as many from ids, 200,000 of second order."""
    best = {row[0]: row[-1] for row in roofline.run(argparse.Namespace()).rows}
    assert best["eisner, from scores"] > 1_000_000
    assert best["eisner, from ids"] > 500_000
    assert best["eisner_sibling, from ids"] > 200_000


def test_work_of_word_vectors():
    """Two sentences of two words: three nodes, and four pairs of a word and a head, each."""
    work = floors.VectorWork(
        6, 4, 8, 5, width=64, columns=32, arc=16, label=16, labels=4, networks=2
    )
    stages = {name: (of.bytes, of.operations) for name, of in work.stages().items()}
    assert stages == {
        "rows of the table": (6 * 5 * 64, 6 * 5 * 64),
        "matrices": (0, 6 * 64 * 32 / 2),
        "scores of arcs": (0, 2 * 8 * 16),
        "labels": (0, 2 * 3 * 4 * 16 * 4),
    }
