"""The tables for a device, tried on the CPU in tiny sizes: all of the chain but the device."""

import json
import time
from functools import partial
from types import SimpleNamespace

import pytest
import torch

from benchmarks import __main__ as program
from benchmarks import gpu
from benchmarks.on_device import clock, kernels, peers
from benchmarks.on_device.contest import (
    BATCH,
    BY,
    CALL,
    RATIO,
    TASK,
    Contest,
    N,
)  # fmt: skip
from benchmarks.registry import Report
from gpuparse.errors import ConfigError, ResourceError
from gpuparse.inference import chu_liu_edmonds

CPU = torch.device("cpu")
CASES = ("kernels", "scores", "parse", "train")


@pytest.fixture
def small(tmp_path, monkeypatch):
    """Run `gpu` on the CPU in its smallest form, with these tests as those of the GPU."""
    monkeypatch.setattr(program, "gate_is_green", lambda gate: True)
    monkeypatch.setattr(program.torch, "set_num_threads", lambda threads: None)
    monkeypatch.setattr(gpu, "available_processors", lambda: 0)  # no workers for one test
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)  # without it nothing runs interpreted
    tests = tmp_path / "test_some.py"
    tests.write_text("import pytest\n\n@pytest.mark.gpu\ndef test_it():\n    assert True\n")
    words = ["gpu", "--device", "cpu", "--small", "--output", str(tmp_path / "figures")]
    return partial(program.main, [*words, "--tests", str(tests)])


@pytest.mark.slow
def test_one_command_leaves_everything_in_one_folder(small, tmp_path, capsys):
    assert small() == 0
    printed = capsys.readouterr().out
    folder = tmp_path / "figures"
    names = {path.name for path in folder.iterdir()}
    expected = {f"{case}.{kind}" for case in CASES for kind in ("txt", "json")}
    assert names >= expected | {"machine.json", "log.txt", "tests.log"}
    machine = json.loads((folder / "machine.json").read_text())
    assert machine["torch"] == torch.__version__
    assert machine["device"] == "cpu"
    assert "1 passed" in (folder / "tests.log").read_text()
    for case in CASES:
        report = Report(**json.loads((folder / f"{case}.json").read_text()))
        assert report.rows
        assert (folder / f"{case}.txt").read_text() == report.as_text() + "\n"
        assert case in printed
    searched = Report(**json.loads((folder / "kernels.json").read_text())).rows
    assert {row[TASK] for row in searched} == set(kernels.SEARCHES)
    assert {"torch"} <= {row[BY] for row in searched}
    assert all(row[CALL] > 0 for row in searched)
    assert {row[N] for row in searched} == set(kernels.SMALL_WORDS)
    assert {row[BATCH] for row in searched} == set(kernels.SMALL_BATCHES)
    with pytest.raises(ConfigError, match="not empty"):
        small()


def test_red_tests_leave_no_figures(small, tmp_path):
    (tmp_path / "test_some.py").write_text(
        "import pytest\n\n@pytest.mark.gpu\ndef test_it():\n    assert False\n"
    )
    with pytest.raises(ResourceError, match="no figures"):
        small()
    names = {path.name for path in (tmp_path / "figures").iterdir()}
    assert names == {"machine.json", "tests.log", "log.txt"}


def test_what_fails_is_told_and_the_rest_is_kept(small, tmp_path, monkeypatch):
    wrong = peers.Peer("wrong", "torch", "eisner", wrong_values, (False,))
    monkeypatch.setattr(kernels, "PEERS", (wrong,))
    monkeypatch.setattr(gpu, "SHARES", {"tests": 0.5, "kernels": 0.7, "train": 1.0})
    with pytest.raises(ResourceError, match="kernels failed"):
        small()
    log = (tmp_path / "figures" / "log.txt").read_text()
    assert "wrong disagrees on the values" in log
    cut = json.loads((tmp_path / "figures" / "kernels.json").read_text())
    assert cut["rows"] == []
    assert "wrong disagrees on the values" in cut["notes"][-1]
    assert json.loads((tmp_path / "figures" / "train.json").read_text())["rows"]


def wrong_values(arcs, lengths, single_root):
    return (lambda: arcs), (lambda: torch.zeros(len(arcs)))


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_without_a_gpu_there_is_an_error(tmp_path):
    folder = tmp_path / "figures"
    with pytest.raises(ResourceError, match="no GPU is here"):
        program.main(["gpu", "--output", str(folder)])
    assert not folder.exists()


def test_inputs_go_round_until_the_cache_forgets_them(monkeypatch):
    device, properties = torch.device("cuda"), SimpleNamespace(L2_cache_size=50 * 2**20)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: properties)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (80 * 10**9, 80 * 10**9))
    assert clock.sets_of(2_800_000, device) == 39
    assert clock.sets_of(10**9, device) == 2
    assert clock.sets_of(2 * 10**10, device) == 1
    assert clock.sets_of(100, device) == clock.MOST_SETS
    assert clock.sets_of(100, CPU) == 2


def contest(**given):
    return Contest(CPU, **({"deadline": float("inf"), "seconds": 1e-3} | given))


def test_inputs_take_turns():
    used = []
    calls = [partial(used.append, k) for k in range(3)]
    assert 0 < clock.seconds_of_a_call(calls, CPU, seconds=1e-4) < 1e-3
    assert {used.count(k) > 3 for k in range(3)} == {True}


def test_a_long_call_counts_once():
    used = []

    def call():
        used.append(time.sleep(0.01))

    assert clock.seconds_of_a_call([call], CPU, seconds=0.001) >= 0.01
    assert len(used) == 2


def test_fewer_sentences_count_for_all():
    table = contest()
    ready = {
        "triton": lambda: ([lambda: time.sleep(0.002)], 10),
        "peer": lambda: ([lambda: time.sleep(0.002)], 5),
    }
    table.measure(("eisner", "multi", 4, 10), ready)
    ours, theirs = table.rows
    assert ours[CALL] >= 2000
    assert theirs[CALL] >= 4000
    assert (ours[RATIO], theirs[RATIO]) == (1, pytest.approx(theirs[CALL] / ours[CALL]))


def test_what_there_is_no_time_or_memory_for_is_said():
    late = contest(deadline=0.0)
    late.measure(("eisner", "multi", 4, 10), {"triton": pytest.fail})
    assert late.rows == []
    assert late.notes == [
        "Left out for want of time: triton on eisner, root multi, n = 4, batch 10."
    ]

    def too_large():
        raise torch.cuda.OutOfMemoryError("out of memory")

    full = contest()
    full.measure(("eisner", "multi", 4, 10), {"peer": too_large})
    assert full.rows == []
    assert "has not the memory" in full.notes[0]


def test_a_peer_that_breaks_is_left_out_and_ours_is_not():
    def breaks():
        raise RuntimeError("tensors on two devices")

    table = contest()
    table.measure(("eisner", "multi", 4, 10), {"peer": breaks})
    assert table.rows == []
    assert table.notes == [
        "peer on eisner, root multi, n = 4, batch 10 failed: tensors on two devices"
    ]
    with pytest.raises(RuntimeError, match="two devices"):
        table.measure(("eisner", "multi", 4, 10), {"triton": breaks})


def test_all_sizes_of_the_goals_are_measured():
    full = list(kernels.tasks(small=False))
    assert len(full) == len(set(full))
    for decoder, (_, roots) in kernels.SEARCHES.items():
        assert {(decoder, root, 25, 1024) for root in roots} <= set(full)
        assert (decoder, False, 25, 4096) in full
        assert len({n for name, _, n, batch in full if (name, batch) == (decoder, 1024)}) >= 3


def test_values_are_those_of_the_heads():
    arcs, lengths = torch.randn(5, 7, 7, dtype=torch.float64), torch.tensor([6, 4, 1, 6, 0])
    arcs[:, :, 0] = float("nan")
    heads, values = chu_liu_edmonds(arcs, lengths)
    torch.testing.assert_close(peers.value_of(arcs, lengths, heads), values)
