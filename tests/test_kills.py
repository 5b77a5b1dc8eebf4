"""Training that is killed in any stage goes on; `python -m tests.campaign` tries many kills."""

import random

import pytest
import torch

from tests.campaign.bench import PIPELINE, SYSTEMS, Bench
from tests.campaign.kills import (
    check_resumed,
    count_writes,
    kill_training,
    killed_at,
    last_kept,
)

PARTS = 4  # of the writes of a run: a kill in each


@pytest.fixture(scope="module")
def bench(tmp_path_factory) -> Bench:
    torch.set_num_threads(1)  # processes are forked: no threads may run
    return Bench(tmp_path_factory.mktemp("kills"))


@pytest.mark.parametrize("part", range(PARTS))
def test_a_kill_in_any_part_of_a_pipeline(bench, part):
    n_writes = count_writes(PIPELINE, bench)
    model, number = bench.place() / "model", 1 + part * (n_writes - 1) // (PARTS - 1)
    assert killed_at(PIPELINE, model, bench, number, is_done=bool(part % 2))
    print(number, "of", n_writes, last_kept(model))
    check_resumed(PIPELINE, model, bench)


@pytest.mark.parametrize(
    "system",
    ["third-order", *(pytest.param(x, marks=pytest.mark.slow) for x in ("best-epochs", "stages"))],
)
def test_a_run_that_is_killed_again_and_again(bench, system):
    n_writes = count_writes(system, bench)
    model = bench.place() / "model"
    for number in (n_writes // 3, n_writes // 3, 1):
        assert killed_at(system, model, bench, max(1, number), is_done=True)
    check_resumed(system, model, bench)


def test_kills_at_random_moments(bench):
    assert kill_training(random.Random(3), bench)
    assert len(SYSTEMS) >= 10
