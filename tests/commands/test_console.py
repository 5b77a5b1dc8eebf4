"""Exit codes, error lines, progress; threads and devices; the table of commands."""

import errno
import io
import os
import re
import signal
import subprocess
import sys
from importlib import import_module

import pytest

from gpuparse import __main__, __version__
from gpuparse.commands import resources
from gpuparse.commands.console import Progress, run
from gpuparse.errors import (
    ConfigError,
    DataError,
    GpuparseError,
    ModelError,
    NoTreeError,
    ResourceError,
    ScoreError,
)


def raising(error):
    def main(arguments):
        raise error

    return main


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (GpuparseError("a"), 1, "a"),
        (ConfigError("a.yaml:1: b"), 2, "a.yaml:1: b"),
        (DataError("f:3: c"), 3, "f:3: c"),
        (ScoreError("d"), 3, "d"),
        (NoTreeError("d"), 3, "d"),
        (ModelError("e"), 4, "e"),
        (ResourceError("g"), 5, "g"),
        (MemoryError(), 5, "out of memory"),
        (MemoryError("8 GiB"), 5, "out of memory: 8 GiB"),
        (OSError(errno.ENOSPC, "No space left on device"), 5, "No space left on device"),
        (OSError(errno.EDQUOT, "Disk quota exceeded", "x"), 5, "x: Disk quota exceeded"),
        (FileNotFoundError(errno.ENOENT, "No such file", "x"), 3, "x: No such file"),
        (PermissionError(errno.EACCES, "Permission denied", "x"), 3, "x: Permission denied"),
    ],
)
def test_what_stops_a_command_becomes_a_line_and_a_code(capsys, error, code, text):
    assert run(raising(error), []) == code
    captured = capsys.readouterr()
    assert captured.err == f"gpuparse: error: {text}\n"
    assert captured.out == ""


def test_every_line_of_an_error_is_marked(capsys):
    assert run(raising(ConfigError("one\ntwo")), []) == 2
    assert capsys.readouterr().err == "gpuparse: error: one\ngpuparse: error: two\n"


def test_a_command_without_errors_keeps_its_code():
    assert run(lambda words: len(words), ["a"]) == 1
    assert run(lambda words: 0, []) == 0


def test_device_memory_errors_are_resource_errors(capsys):
    torch = pytest.importorskip("torch")
    assert run(raising(torch.cuda.OutOfMemoryError("2 GiB")), []) == 5
    assert capsys.readouterr().err == "gpuparse: error: out of memory: 2 GiB\n"


@pytest.mark.parametrize("error", [ValueError("bug"), OSError("no number, no name")])
def test_an_error_nobody_expected_keeps_its_traceback(error):
    with pytest.raises(type(error)):
        run(raising(error), [])


PROGRAM = "import sys; from gpuparse.commands.console import run; sys.exit(run(main, []))"


def test_a_reader_that_goes_away_ends_the_program_quietly():
    code = f"def main(words):\n for i in range(200000): print(i)\n return 7\n{PROGRAM}"
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout.readline() == b"0\n"
    process.stdout.close()
    assert process.wait(60) == 0
    assert process.stderr.read() == b""
    process.stderr.close()


def test_interruption_exits_130():
    code = f"import time\ndef main(words):\n print('here', flush=True); time.sleep(60)\n{PROGRAM}"
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "here\n"
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (130, "gpuparse: interrupted\n")


def test_an_interruption_inside_compiled_code_is_one_too(capsys):
    def main(arguments):
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt as interrupt:
            raise SystemError("returned a result with an exception set") from interrupt

    assert run(main, []) == 130
    assert capsys.readouterr().err == "gpuparse: interrupted\n"
    with pytest.raises(SystemError):
        run(raising(SystemError("something else")), [])


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_progress_without_a_terminal_is_a_line_now_and_then_and_a_last_one():
    stream, clock = io.StringIO(), Clock()
    with Progress("parsing", total=1000, stream=stream, clock=clock) as progress:
        for _ in range(25):
            clock.now += 1.0
            progress.advance(20)
    assert stream.getvalue().splitlines() == [
        "gpuparse: parsing:  20% 200 sentences, 20/s, 0:40 left",
        "gpuparse: parsing:  40% 400 sentences, 20/s, 0:30 left",
        "gpuparse: parsing: 500 sentences in 25.0 s, 20/s",
    ]


def test_progress_by_the_callers_fraction_and_with_a_note():
    stream, clock = io.StringIO(), Clock()
    progress = Progress("training", unit="sentences", stream=stream, clock=clock)
    clock.now = 3600.0
    progress.advance(5_000_000, fraction=0.25, note="UAS 87.75")
    clock.now = 4000.0
    progress.close()
    assert stream.getvalue().splitlines() == [
        "gpuparse: training:  25% 5,000,000 sentences, 1,389/s, 3:00:00 left, UAS 87.75",
        "gpuparse: training: 5,000,000 sentences in 4000.0 s, 1,250/s, UAS 87.75",
    ]


def test_progress_without_a_total_shows_no_time_left():
    stream, clock = io.StringIO(), Clock()
    progress = Progress("parsing", stream=stream, clock=clock)
    clock.now = 12.0
    progress.advance(6)
    assert stream.getvalue() == "gpuparse: parsing: 6 sentences, 0.50/s\n"


def test_progress_on_a_terminal_is_one_line_drawn_again():
    stream, clock = Terminal(), Clock()
    with Progress("parsing", total=10, stream=stream, clock=clock) as progress:
        clock.now = 1.0
        progress.advance(5)
        clock.now = 1.05  # too soon to draw again
        progress.advance(1)
    assert stream.getvalue().count("\r") == 2
    assert stream.getvalue().count("\n") == 1
    assert " 50% [##########          ] 5 sentences, 5.00/s, 0:01 left" in stream.getvalue()


def test_quiet_progress_says_nothing():
    stream, clock = io.StringIO(), Clock()
    with Progress("parsing", total=10, stream=stream, clock=clock, quiet=True) as progress:
        clock.now = 100.0
        progress.advance(10)
    assert stream.getvalue() == ""


def test_an_error_inside_still_ends_the_line():
    stream = io.StringIO()
    with pytest.raises(DataError), Progress("parsing", stream=stream, clock=Clock()):
        raise DataError("x")
    assert stream.getvalue().endswith("\n")


@pytest.fixture
def control_groups(tmp_path):
    """Three nested groups and the file that names the innermost."""
    inner = tmp_path / "cgroup" / "outer" / "inner"
    inner.mkdir(parents=True)
    own = tmp_path / "own"
    own.write_text("1:cpu:/old\n0::/outer/inner\n")

    def count(**quotas):
        for name, text in quotas.items():
            folder = {"inner": inner, "outer": inner.parent, "root": inner.parent.parent}[name]
            (folder / "cpu.max").write_text(text)
        return resources.available_processors(cgroup_root=tmp_path / "cgroup", own_cgroups=own)

    return count


@pytest.fixture
def sixteen_processors(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(16)), raising=False)


@pytest.mark.usefixtures("sixteen_processors")
def test_quotas_of_all_groups_count(control_groups):
    assert control_groups() == 16
    assert control_groups(inner="max 100000\n") == 16
    assert control_groups(inner="250000 100000\n") == 3
    assert control_groups(outer="100000 100000\n") == 1
    assert control_groups(inner="max 100000", outer="5000000 100000") == 16
    assert control_groups(root="1000 100000") == 1


@pytest.mark.usefixtures("sixteen_processors")
def test_no_control_groups_at_all(tmp_path):
    assert resources.available_processors(own_cgroups=tmp_path / "none") == 16
    (tmp_path / "old").write_text("4:cpu:/x\n")
    assert resources.available_processors(own_cgroups=tmp_path / "old") == 16


def test_thread_count():
    assert resources.thread_count(3) == 3
    assert resources.thread_count(0) == resources.available_processors() >= 1
    with pytest.raises(ConfigError, match="threads"):
        resources.thread_count(-1)


def test_devices_without_cuda(monkeypatch):
    said = []
    monkeypatch.setattr(resources, "_cuda_trouble", lambda: "CUDA is not available")
    assert resources.choose_device("cpu", said.append) == "cpu"
    assert said == []
    assert resources.choose_device("auto", said.append) == "cpu"
    assert said == ["device: cpu (CUDA is not available)"]
    with pytest.raises(ConfigError, match="CUDA is not available; use cpu or auto"):
        resources.choose_device("cuda", said.append)
    with pytest.raises(ConfigError, match="expected auto, cpu or cuda"):
        resources.choose_device("tpu", said.append)


def test_devices_with_cuda(monkeypatch):
    said = []
    monkeypatch.setattr(resources, "_cuda_trouble", lambda: "")
    assert resources.choose_device("auto", said.append) == "cuda"
    assert said == ["device: cuda"]
    assert resources.choose_device("cuda", said.append) == "cuda"
    assert resources.choose_device("cpu", said.append) == "cpu"


def test_cuda_that_is_there_but_does_not_work_is_told_apart(monkeypatch):
    torch = pytest.importorskip("torch")

    def broken(*args, **kwargs):
        raise RuntimeError("CUDA error: no kernel image\nmore lines")

    monkeypatch.setattr(resources, "_has_cuda_driver", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch, "ones", broken)
    with pytest.raises(ConfigError, match="does not work: CUDA error: no kernel image; use"):
        resources.choose_device("cuda", lambda text: None)


def test_every_command_of_the_table_can_be_called():
    for module, _ in __main__.COMMANDS.values():
        assert callable(import_module(module).main)


def test_help_and_version(capsys):
    assert __main__.main(["--help"]) == 0
    help_text = capsys.readouterr().out
    assert all(f"\n  {name} " in help_text for name in __main__.COMMANDS)
    assert __main__.main(["--version"]) == 0
    commit = r"( \([0-9a-f]{7,40}(-dirty)?\))?"  # of a checkout
    assert re.fullmatch(f"gpuparse {re.escape(__version__)}{commit}\n", capsys.readouterr().out)


@pytest.mark.parametrize("words", [[], ["trian"]])
def test_an_unknown_command_is_a_usage_error(words):
    with pytest.raises(ConfigError, match="expected one of train, parse, evaluate"):
        __main__.main(words)


def test_commands_are_imported_when_called():
    code = "import sys, gpuparse.__main__; sys.exit('gpuparse.commands.evaluate' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_no_command_imports_torch_before_it_needs_it():
    modules = sorted({module for module, _ in __main__.COMMANDS.values()})
    code = (
        "import sys\nfrom importlib import import_module\n"
        f"for name in {modules!r}:\n    import_module(name)\n"
        "    assert 'torch' not in sys.modules, name"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
