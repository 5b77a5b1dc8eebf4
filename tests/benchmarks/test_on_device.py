"""The tables for a device, tried on the CPU; the command that runs them, with fake parts."""

import json
import subprocess
import sys
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
import torch

from benchmarks import __main__ as program
from benchmarks import gpu
from benchmarks.on_device import clock, kernels, peers
from benchmarks.on_device import tests as gpu_tests
from benchmarks.on_device.contest import (
    CALL,
    RATIO,
    TASK,
    Contest,
    main,
)  # fmt: skip
from benchmarks.registry import FOLDER, Report
from gpuparse.errors import GpuparseError

CPU = torch.device("cpu")
FAKE = """
import json, subprocess, sys, time
from pathlib import Path
module, path, end, given = sys.argv[1:]
name = module.rpartition(".")[2]
record = {"report": {"title": name, "columns": ["n"], "rows": [[7]], "notes": []}}
if name == "failing":
    record["result"] = "failed: a reason"
Path(path).write_text(json.dumps(record))
if name in ("slow", "breaking"):
    sleeper = subprocess.Popen(["sleep", "60"])
    Path(path).with_name(f"{name}-sleeper").write_text(str(sleeper.pid))
if name == "slow":
    sleeper.wait()
sys.exit(name in ("failing", "breaking"))
"""


@pytest.fixture
def call(tmp_path, monkeypatch):
    """Run `gpu` with fakes of its parts."""
    monkeypatch.setattr(program, "gate_is_green", lambda gate: True)
    monkeypatch.setattr(program.torch, "set_num_threads", lambda threads: None)
    monkeypatch.setattr(gpu, "_PART", FAKE)
    limits = {"failing": 20.0, "slow": 3.0, "breaking": 20.0, "sound": 20.0, "cores": 20.0}
    monkeypatch.setattr(gpu, "PARTS", limits)
    monkeypatch.chdir(tmp_path.parent)
    return lambda *words: program.main(["gpu", "--output", tmp_path.name, *words])


def records(folder: Path) -> dict[str, dict]:
    found = json.loads((folder / "figures.json").read_text())
    assert all(json.loads((folder / f"{n}.json").read_text()) == r for n, r in found.items())
    return found


def has_ended(pid: str) -> bool:
    """True if a process ends within five seconds."""
    stat = Path("/proc", pid, "stat")
    for _ in range(100):
        with suppress(FileNotFoundError, ProcessLookupError):
            if stat.read_text().rpartition(")")[2].split()[0] != "Z":
                time.sleep(0.05)
                continue
        return True
    return False


def test_what_fails_or_takes_too_long_is_kept_with_its_reason_and_the_rest_goes_on(call, tmp_path):
    with pytest.raises(GpuparseError, match=r"failing: failed: a reason; slow: .*; breaking") as it:
        call("--small")
    assert it.value.exit_code == 1
    found = records(tmp_path)
    assert {name: each["result"] for name, each in found.items()} == {
        "failing": "failed: a reason", "slow": "failed: not finished after 3 s",
        "breaking": "failed: exit code 1", "sound": "done", "cores": "done",
    }  # fmt: skip
    assert all(Report(**each["report"]).rows == [[7]] for each in found.values())
    page = (tmp_path / "figures.md").read_text()
    assert page.count("processors:") == 1
    for name, each in found.items():
        assert f"## {name}\n\n{each['result']}, " in page
    for name in ("slow", "breaking"):
        assert has_ended((tmp_path / f"{name}-sleeper").read_text())


def test_a_second_call_runs_what_is_not_finished_by_this_commit_on_this_device(
    call, tmp_path, capsys, monkeypatch
):
    with pytest.raises(GpuparseError):
        call("--small", "--parts", "sound", "failing")
    (tmp_path / "cores.json").write_text('{"part": "co')  # a call that was cut off
    monkeypatch.setattr(gpu, "_PART", FAKE.replace("failing", "none").replace("7", "8"))
    capsys.readouterr()
    assert call("--small", "--parts", "sound", "failing", "cores") == 0
    out, err = capsys.readouterr()
    assert "sound: finished before" in err
    assert err.count("finished before") == 1
    assert "sound" in out
    rows = {name: each["report"]["rows"] for name, each in records(tmp_path).items()}
    assert rows == {"failing": [[8]], "sound": [[7]], "cores": [[8]]}
    found = gpu.described
    monkeypatch.setattr(gpu, "described", lambda device: found(device) | {"gpuparse": "another"})
    assert call("--small", "--parts", "sound") == 0
    assert records(tmp_path)["sound"]["report"]["rows"] == [[8]]


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_without_a_gpu_there_are_the_cores(call, tmp_path):
    with pytest.raises(GpuparseError, match="sound: no CUDA device"):
        call("--parts", "sound", "cores")
    assert records(tmp_path)["cores"]["result"] == "done"
    assert call("--parts", "cores") == 0


def test_all_parts_take_nine_minutes_with_the_gate():
    assert sum(gpu.PARTS.values()) <= 510
    for name in gpu.PARTS:
        assert (FOLDER / "on_device" / f"{name}.py").exists()


def test_a_part_keeps_its_rows_and_goes_on_after_a_fault(tmp_path, monkeypatch):
    def run(options, contest):
        assert options.small
        contest.add(["first", 1])
        assert json.loads(path.read_text())["report"]["rows"] == [["first", 1]]
        with contest.attempt("second"):
            raise ValueError("no\nsense")
        contest.add(["third", 3])

    path, case = tmp_path / "part.rows", ModuleType("parts.case")
    case.TITLE, case.COLUMNS, case.run = "Title", ["what", "n"], run
    monkeypatch.setitem(sys.modules, case.__name__, case)
    words = [
        case.__name__,
        str(path),
        str(time.monotonic() + 9),
        '{"device": "cpu", "small": true}',
    ]
    monkeypatch.setattr(sys, "argv", ["-c", *words])
    with pytest.raises(SystemExit):
        main()
    found = json.loads(path.read_text())
    assert found["result"] == "failed: second: no sense"
    assert found["report"]["rows"] == [["first", 1], ["third", 3]]
    assert found["report"]["notes"] == ["Failed: second: no sense"]


def test_tests_are_counted_with_xdist_and_without():
    printed = """
tests/test_model.py::test_a[first order-cuda] PASSED      [ 10%]
tests/test_model.py::test_b SKIPPED (no CUDA device)      [ 20%]
[gw0] [ 33%] PASSED tests/test_model.py::test_c
[gw11] [  3%] FAILED tests/encoder/test_devices.py::test_d[a b]
[gw1] [100%] ERROR tests/test_model.py::test_e
SKIPPED [1] tests/test_model.py:3: no CUDA device
FAILED tests/encoder/test_devices.py::test_d[a b] - AssertionError
"""
    counted = {"PASSED": 2, "SKIPPED": 1, "FAILED": 1, "ERROR": 1}
    assert gpu_tests.results_in(printed) == counted


@pytest.mark.slow
def test_all_files_with_tests_of_the_gpu_are_run():
    command = [sys.executable, "-m", "pytest", "-q", "--co", "-m", "gpu", "tests"]
    listed = subprocess.run(command, cwd=FOLDER.parent, stdout=subprocess.PIPE, text=True).stdout
    files = {line.partition("::")[0] for line in listed.splitlines() if "::" in line[:99]}
    assert {file for file in files if file.startswith("tests/")} <= set(gpu_tests.FILES)


@pytest.mark.slow
def test_the_parts_run_on_the_cpu_in_tiny_sizes(tmp_path, monkeypatch):
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)  # without it nothing runs interpreted
    monkeypatch.setattr(program, "gate_is_green", lambda gate: True)
    monkeypatch.setattr(program.torch, "set_num_threads", lambda threads: None)
    monkeypatch.setattr(gpu, "PARTS", dict.fromkeys(gpu.PARTS, 300.0))
    assert program.main(["gpu", "--small", "--output", str(tmp_path)]) == 0
    found = records(tmp_path)
    assert found.keys() == gpu.PARTS.keys()
    assert all(each["report"]["rows"] for each in found.values())
    searched = found["kernels"]["report"]["rows"]
    assert {row[TASK] for row in searched} == set(kernels.SEARCHES)
    assert all(row[CALL] > 0 for row in searched)


def test_a_peer_with_other_values_is_a_fault(monkeypatch):
    wrong = peers.Peer("wrong", "torch", wrong_values, {"eisner": (False,)}, {})
    monkeypatch.setattr(kernels, "PEERS", (wrong,))
    monkeypatch.setattr(kernels, "tasks", lambda small: [("eisner", False, 2, 1), SOUND])
    table = contest()
    kernels.run(SimpleNamespace(small=True), table)
    assert {row[TASK] for row in table.rows} == {"chu_liu_edmonds"}
    [fault] = table.faults
    assert "wrong disagrees on the values" in fault


SOUND = ("chu_liu_edmonds", False, 2, 1)


def wrong_values(decoder, arcs, lengths, single_root):
    return {peers.BEST: (lambda: arcs, lambda: torch.zeros(len(arcs)))}


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
