"""The tables for a device, tried on the CPU in tiny sizes: all of the chain but the device."""

import json
import time
from functools import partial
from types import SimpleNamespace
from xml.etree import ElementTree

import pytest
import torch

from benchmarks import __main__ as program
from benchmarks import gpu, plots
from benchmarks.floors import H100, Work
from benchmarks.on_device import clock, kernels, peers, scoring
from benchmarks.on_device.contest import (
    BATCH,
    BY,
    CALL,
    COLUMNS,
    FLOOR,
    RATIO,
    SHARE,
    TASK,
    Contest,
    N,
)  # fmt: skip
from benchmarks.registry import Report
from gpuparse.errors import ConfigError, ResourceError
from gpuparse.inference import chu_liu_edmonds

CPU = torch.device("cpu")
CASES = ("kernels", "scoring", "parse", "train")


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
    assert names >= expected | {"machine.json", "floors.json", "log.txt", "tests.log"}
    if plots.can_plot():
        drawn = {f"{case}-by-{axis}.svg" for case in CASES[:2] for axis in ("n", "batch")}
        assert drawn == {name for name in names if name.endswith(".svg")}
        for name in drawn:
            assert ElementTree.parse(folder / name).getroot().tag.endswith("svg")
    machine = json.loads((folder / "machine.json").read_text())
    assert machine["torch"] == torch.__version__
    assert machine["device"] == "cpu"
    assert "1 passed" in (folder / "tests.log").read_text()
    for case in CASES:
        report = Report(**json.loads((folder / f"{case}.json").read_text()))
        assert report.rows
        assert (folder / f"{case}.txt").read_text() == report.as_text() + "\n"
        assert case in printed
    scored = Report(**json.loads((folder / "scoring.json").read_text())).rows
    assert {(row[N], row[BATCH]) for row in scored} == set(scoring.sizes(small=True))
    searched = Report(**json.loads((folder / "kernels.json").read_text())).rows
    assert {row[TASK] for row in searched} == set(kernels.SEARCHES)
    assert {"torch"} <= {row[BY] for row in searched}
    assert all(0 < row[SHARE] == pytest.approx(row[FLOOR] / row[CALL]) for row in searched)
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
@pytest.mark.parametrize("case", ["gpu", "kernels"])
def test_without_a_gpu_there_is_an_error(case, tmp_path):
    folder = tmp_path / "figures"
    words = ["--output", str(folder)] if case == "gpu" else ["--device", "cuda"]
    with pytest.raises(ResourceError, match="no GPU is here"):
        program.main([case, *words])
    assert not folder.exists()


def test_other_cases_know_the_cpu_alone():
    with pytest.raises(ConfigError, match="reading measures the CPU alone"):
        program.main(["reading", "--device", "cuda"])


def test_one_case_on_a_device(tmp_path, monkeypatch, capsys):
    if not plots.can_plot():
        pytest.skip("matplotlib is not installed")
    monkeypatch.setattr(program, "gate_is_green", lambda gate: True)
    monkeypatch.setattr(program.torch, "set_num_threads", lambda threads: None)
    monkeypatch.setattr(program, "require_device", lambda name: CPU)
    monkeypatch.setattr(program, "measured", lambda device: H100)
    tasks = [("eisner", False, n, 2) for n in (2, 3)]
    monkeypatch.setattr(kernels, "tasks", lambda small: tasks)
    monkeypatch.setattr(kernels, "PEERS", ())
    out, folder = tmp_path / "figures.json", tmp_path / "plots"
    words = ["kernels", "--device", "cuda", "--json", str(out), "--plots", str(folder)]
    assert program.main(words) == 0
    assert "Tree search on a device" in capsys.readouterr().out
    assert json.loads(out.read_text())["on"]["torch"] == torch.__version__
    assert [path.name for path in folder.iterdir()] == ["kernels-by-n.svg"]


@pytest.mark.parametrize("words", [["kernels"], ["parse", "--device", "cuda"]])
def test_plots_of_what_has_none_are_refused(words):
    with pytest.raises(ConfigError, match="--plots goes with"):
        program.main([*words, "--plots", "folder"])


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
    return Contest(CPU, H100, **({"deadline": float("inf"), "seconds": 1e-3} | given))


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
        "gpu": lambda: ([lambda: time.sleep(0.002)], 10),
        "peer": lambda: ([lambda: time.sleep(0.002)], 5),
    }
    table.measure(("eisner", "multi", 4, 10), ready, Work(3e12))
    ours, theirs = table.rows
    assert ours[CALL] >= 2000
    assert theirs[CALL] >= 4000
    assert (ours[RATIO], theirs[RATIO]) == (1, pytest.approx(theirs[CALL] / ours[CALL]))
    assert ours[FLOOR] == 1e6


def test_what_there_is_no_time_or_memory_for_is_said():
    late = contest(deadline=0.0)
    late.measure(("eisner", "multi", 4, 10), {"gpu": pytest.fail}, Work(1))
    assert late.rows == []
    assert late.notes == ["Left out for want of time: gpu on eisner, root multi, n = 4, batch 10."]

    def too_large():
        raise torch.cuda.OutOfMemoryError("out of memory")

    full = contest()
    full.measure(("eisner", "multi", 4, 10), {"peer": too_large}, Work(1))
    assert full.rows == []
    assert "has not the memory" in full.notes[0]


def test_a_peer_that_breaks_is_left_out_and_ours_is_not():
    def breaks():
        raise RuntimeError("tensors on two devices")

    table = contest()
    table.measure(("eisner", "multi", 4, 10), {"peer": breaks}, Work(1))
    assert table.rows == []
    assert table.notes == [
        "peer on eisner, root multi, n = 4, batch 10 failed: tensors on two devices"
    ]
    with pytest.raises(RuntimeError, match="two devices"):
        table.measure(("eisner", "multi", 4, 10), {"gpu": breaks}, Work(1))


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


def test_plots_draw_what_varies(tmp_path):
    if not plots.can_plot():
        pytest.skip("matplotlib is not installed")
    rows = [
        ["eisner", "multi", n, batch, by, 10.0 * n, None, 1.0, 1.0, "bytes", 0.1, 1.0]
        for n, batch in [(10, 1024), (25, 1024), (25, 4096)]
        for by in ("gpu", "torch")
    ]
    report = Report("Title", COLUMNS, rows)
    files = plots.draw(report, "kernels", tmp_path)
    assert [path.name for path in files] == ["kernels-by-n.svg", "kernels-by-batch.svg"]
    text = files[0].read_text()
    for word in ("eisner, multi root, batch 1,024", "floor", "torch"):
        assert word in text
    first = [path.read_bytes() for path in files]
    assert [path.read_bytes() for path in plots.draw(report, "kernels", tmp_path)] == first
    assert plots.draw(Report("Title", ["n"], [[1]]), "other", tmp_path) == []
    assert plots.draw(Report("Title", COLUMNS, rows[:1]), "one", tmp_path) == []
