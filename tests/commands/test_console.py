"""Exit codes, error lines, progress; threads and devices; the table of commands."""

import errno
import os
import re
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest

from gpuparse import __main__, __version__
from gpuparse.commands import check, evaluate
from gpuparse.commands.console import run
from gpuparse.errors import (
    ConfigError,
    DataError,
    GpuparseError,
    ModelError,
    NoTreeError,
    ResourceError,
    ScoreError,
    plural,
)
from gpuparse.jobs import progress, resources
from gpuparse.jobs.progress import Progress
from tests.commands.conftest import ROOT, Clock, Terminal
from tests.synthetic import treebank_file


def raising(error):
    def main(arguments):
        raise error

    return main


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (GpuparseError("a"), 1, "a"),
        (ConfigError("a.yaml:1: b"), 2, "a.yaml:1: b"),
        (ConfigError("one\ntwo"), 2, "one\ngpuparse: error: two"),
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
        (BrokenPipeError(errno.EPIPE, "Broken pipe", "x"), 3, "x: Broken pipe"),
    ],
)
def test_what_stops_a_command_becomes_a_line_and_a_code(capsys, error, code, text):
    assert run(raising(error), []) == code
    captured = capsys.readouterr()
    assert captured.err == f"gpuparse: error: {text}\n"
    assert captured.out == ""


@pytest.mark.parametrize("says", [
    lambda text: run(raising(DataError(text)), []),
    lambda text: run(raising(FileNotFoundError(errno.ENOENT, "No such file", text)), []),
    progress.say,
    progress.redraw,
    lambda text: Progress(text).close(),
    lambda text: Progress("work", total=1).advance(1, note=text),
])  # fmt: skip
def test_names_cannot_command_the_terminal(says, capsys, monkeypatch):
    """Whoever says it: they may be those of a stranger's file."""
    monkeypatch.setattr(progress, "INTERVAL", 0.0)
    says("a\x1b]0;title\x07\x1b[2J\x9b31m\u202eb")
    said = capsys.readouterr().err.removeprefix("\r\x1b[K")
    assert "]0;title" in said
    assert all(character == "\n" or character.isprintable() for character in said)


def test_a_name_of_a_sentence_cannot_command_the_terminal(tmp_path, capsys):
    text = "# sent_id = \x1b]0;title\x07x\n" + "1\ta\t_\t_\t_\t_\t%s\t%s\t_\t_\n\n"
    gold, bad = tmp_path / "\x1b[31mgold.conllu", tmp_path / "bad.conllu"
    gold.write_text(text % (0, "\x1b[2Jroot"))
    bad.write_text(text % (7, "root"))
    assert run(evaluate.main, [str(gold), str(bad)]) == 3
    assert run(evaluate.main, [str(gold), str(gold)]) == 0
    assert run(check.main, [str(gold), str(bad)]) == 3
    assert "\x1b" not in "".join(capsys.readouterr())


def test_a_command_without_errors_keeps_its_code():
    assert run(lambda words: len(words), ["a"]) == 1
    assert run(lambda words: 0, []) == 0


def test_case_31_device_memory_errors_are_resource_errors(capsys):
    torch = pytest.importorskip("torch")
    assert run(raising(torch.cuda.OutOfMemoryError("2 GiB")), []) == 5
    assert capsys.readouterr().err == "gpuparse: error: out of memory: 2 GiB\n"


@pytest.mark.parametrize("error", [ValueError("bug"), OSError("no number, no name")])
def test_an_unexpected_error_keeps_its_traceback(error):
    with pytest.raises(type(error)):
        run(raising(error), [])


PROGRAM = "import sys; from gpuparse.commands.console import run; sys.exit(run(main, []))"


WRITES = """
def main(words):
    from gpuparse.files import replace_file
    with replace_file("out"):
        print("here", flush=True); time.sleep(60)
"""


@pytest.mark.parametrize(
    ("number", "code", "text"),
    [
        (signal.SIGINT, 130, "gpuparse: interrupted\n"),
        (signal.SIGTERM, -signal.SIGTERM, ""),
        (signal.SIGHUP, -signal.SIGHUP, ""),
    ],
)
def test_signals_remove_what_is_half_written(tmp_path, number, code, text):
    process = subprocess.Popen(
        [sys.executable, "-c", f"import time{WRITES}{PROGRAM}"],
        cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout.readline() == "here\n"
    assert len(os.listdir(tmp_path)) == 1
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (code, text)
    assert os.listdir(tmp_path) == []


def test_an_ignored_signal_stays_ignored():
    hang_up = "def main(words):\n import signal; signal.raise_signal(signal.SIGHUP); return 7\n"
    start = "import signal; signal.signal(signal.SIGHUP, signal.SIG_IGN)\n"
    assert subprocess.run([sys.executable, "-c", start + hang_up + PROGRAM]).returncode == 7


@pytest.mark.parametrize("unbuffered", [False, True])
@pytest.mark.parametrize(
    "words", [["--help"], ["config"], ["parse", "english", treebank_file(60, 2), "--quiet"]]
)
def test_case_33_a_full_stdout_is_an_error(words, unbuffered):
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [sys.executable, *["-u"] * unbuffered, "-m", "gpuparse", *words],
            cwd=ROOT, stdout=full, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
    assert done.returncode == 5
    assert done.stderr == "gpuparse: error: <stdout>: No space left on device\n"


def test_a_short_write_is_finished(monkeypatch, capfdbinary):
    text = "".join(f"{i}\n" for i in range(30_000))
    write = os.write
    monkeypatch.setattr(os, "write", lambda where, content: write(where, content[:1000]))

    def main(arguments):
        sys.stdout.buffer.write(text.encode())
        print(text, end="")
        return 0

    assert run(main, []) == 0
    assert capfdbinary.readouterr().out.decode() == text + text


def test_a_stdout_that_does_not_wait_is_waited_for():
    code = f"import os; os.set_blocking(1, False)\n{MUCH}{PROGRAM}"
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    time.sleep(0.3)  # until the pipe is full
    assert process.communicate(timeout=60)[0] == b"x" * 1_000_000
    assert process.returncode == 7


MUCH = """
def main(words):
    import sys
    sys.stdout.write('x' * 1_000_000)
    return 7
"""


@pytest.mark.parametrize("command", [None, *__main__.COMMANDS])
def test_a_closed_stdout_is_an_error_of_every_command(command, capsys, monkeypatch):
    monkeypatch.setattr(sys, "stdout", None)
    assert run(__main__.main, [command or "--help"]) == 3
    assert capsys.readouterr().err.startswith("gpuparse: error: standard output is closed;")


MESSAGES = """
def main(words):
    import os, sys, time
    from gpuparse.jobs import progress as of_progress
    of_progress.INTERVAL, say = 0.0, of_progress.say
    with of_progress.Progress("parsing") as progress, open("out", "wb") as file:
        for i in range(3):
            say("message"); progress.advance(1)
            file.write(os.read(0, 1) or b"data")
    print("data")
    return 7
"""


def messages_to(stderr, folder, **options) -> subprocess.Popen:
    """A command that writes messages, and data to stdout and to a file."""
    return subprocess.Popen(
        [sys.executable, "-c", MESSAGES + PROGRAM], cwd=folder, stderr=stderr,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": str(ROOT)}, **options,
    )  # fmt: skip


def test_messages_that_cannot_be_written_are_lost_and_nothing_else(tmp_path):
    with open("/dev/full", "wb") as full:
        processes = [messages_to(full, tmp_path)]
        assert processes[0].communicate(timeout=60)[0] == b"data\n"
    closed = messages_to(None, tmp_path, preexec_fn=lambda: os.close(2))
    assert closed.communicate(timeout=60)[0] == b"data\n"
    assert (tmp_path / "out").read_bytes() == b"datadatadata"
    left = messages_to(subprocess.PIPE, tmp_path)
    assert left.stderr.readline() == b"gpuparse: message\n"
    left.stderr.close()  # the reader goes away
    left.stdin.write(b"abc")
    left.stdin.close()
    assert left.stdout.read() == b"data\n"
    left.stdout.close()
    assert [each.wait(60) for each in (*processes, closed, left)] == [7, 7, 7]
    assert (tmp_path / "out").read_bytes() == b"abc"


def test_a_closed_stdin_is_an_error(monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", None)
    assert run(__main__.main, ["evaluate", "-", "parsed.conllu"]) == 3
    assert capsys.readouterr().err == "gpuparse: error: <stdin>: is closed; name a file\n"


def test_an_interruption_that_became_another_error_is_one_too(capsys):
    def main(arguments):
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt as interrupt:
            raise SystemError("returned a result with an exception set") from interrupt

    assert run(main, []) == 130
    assert capsys.readouterr().err == "gpuparse: interrupted\n"
    with pytest.raises(SystemError):
        run(raising(SystemError("something else")), [])


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=clock))
    return clock


def test_progress_without_a_terminal_is_a_line_now_and_then_and_a_last_one(clock, capsys):
    with Progress("parsing", total=1000) as progress:
        for _ in range(25):
            clock.now += 1.0
            progress.advance(20)
    assert capsys.readouterr().err.splitlines() == [
        "gpuparse: parsing:  20% 200 sentences, 20/s, 0:40 left",
        "gpuparse: parsing:  40% 400 sentences, 20/s, 0:30 left",
        "gpuparse: parsing: 500 sentences in 25.0 s, 20/s",
    ]


def test_progress_by_the_callers_fraction_and_with_a_note(clock, capsys):
    progress = Progress("training")
    clock.now = 3600.0
    progress.advance(5_000_000, fraction=0.25, note="UAS 87.75")
    clock.now = 4000.0
    progress.close()
    assert capsys.readouterr().err.splitlines() == [
        "gpuparse: training:  25% 5,000,000 sentences, 1,389/s, 3:00:00 left, UAS 87.75",
        "gpuparse: training: 5,000,000 sentences in 4000.0 s, 1,250/s, UAS 87.75",
    ]


def test_progress_without_a_total_shows_no_time_left(clock, capsys):
    progress = Progress("parsing")
    clock.now = 12.0
    progress.advance(6)
    assert capsys.readouterr().err == "gpuparse: parsing: 6 sentences, 0.50/s\n"


def test_progress_on_a_terminal_is_one_line_drawn_again(clock, monkeypatch):
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    with Progress("parsing", total=10) as progress:
        clock.now = 1.0
        progress.advance(5)
        clock.now = 1.05  # too soon to draw again
        progress.advance(1)
    assert stream.getvalue().count("\r") == 2
    assert stream.getvalue().count("\n") == 1
    assert " 50% [##########          ] 5 sentences, 5.00/s, 0:01 left" in stream.getvalue()


def test_quiet_progress_says_nothing(clock, capsys):
    with Progress("parsing", total=10, quiet=True) as progress:
        clock.now = 100.0
        progress.advance(10)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(("sentences", "ends"), [(1, "\n"), (0, "")])
def test_an_error_inside_still_ends_the_line_if_there_is_one(sentences, ends, clock, capsys):
    progress = Progress("parsing")
    progress.advance(sentences)
    with pytest.raises(DataError), progress:
        raise DataError("x")
    assert capsys.readouterr().err[-1:] == ends


@pytest.fixture
def control_groups(tmp_path, monkeypatch):
    """Three nested groups and the file that names the innermost."""
    inner = tmp_path / "cgroup" / "outer" / "inner"
    inner.mkdir(parents=True)
    own = tmp_path / "own"
    own.write_text("1:cpu:/old\n0::/outer/inner\n")

    monkeypatch.setattr(resources, "CGROUP_ROOT", tmp_path / "cgroup")
    monkeypatch.setattr(resources, "OWN_CGROUPS", own)

    def count(**quotas):
        for name, text in quotas.items():
            folder = {"inner": inner, "outer": inner.parent, "root": inner.parent.parent}[name]
            (folder / "cpu.max").write_text(text)
        return resources.available_processors()

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
def test_no_control_groups_at_all(tmp_path, monkeypatch):
    monkeypatch.setattr(resources, "OWN_CGROUPS", tmp_path / "groups")
    assert resources.available_processors() == 16
    (tmp_path / "groups").write_text("4:cpu:/x\n")
    assert resources.available_processors() == 16


def test_thread_count():
    assert resources.thread_count(3) == 3
    assert resources.thread_count(0) == resources.available_processors() >= 1
    with pytest.raises(ConfigError, match="threads"):
        resources.thread_count(-1)


def test_devices_without_cuda(monkeypatch):
    said = []
    monkeypatch.setattr(resources, "cuda_trouble", lambda: "CUDA is not available")
    assert resources.choose_device("cpu", said.append) == "cpu"
    assert said == []
    assert resources.choose_device("auto", said.append) == "cpu"
    assert said == []  # no GPU was asked for
    with pytest.raises(ConfigError, match="CUDA is not available; use cpu or auto"):
        resources.choose_device("cuda", said.append)
    with pytest.raises(ConfigError, match="expected auto, cpu or cuda"):
        resources.choose_device("tpu", said.append)


def test_devices_with_cuda(monkeypatch):
    said = []
    monkeypatch.setattr(resources, "cuda_trouble", lambda: "")
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
    said = []
    assert resources.choose_device("auto", said.append) == "cpu"
    assert said == ["device: cpu (CUDA does not work: CUDA error: no kernel image)"]


@pytest.mark.parametrize("word", ["--help", "-h", "help"])
def test_help_lists_the_commands(capsys, word):
    assert __main__.main([word]) == 0
    help_text = capsys.readouterr().out
    assert all(f"\n  {name} " in help_text for name in __main__.COMMANDS)


@pytest.mark.parametrize("word", ["--version", "-V", "version"])
def test_the_version_is_printed(capsys, word):
    assert __main__.main([word]) == 0
    commit = r"( \([0-9a-f]{7,40}(-dirty)?\))?"  # of a checkout
    assert re.fullmatch(f"gpuparse {re.escape(__version__)}{commit}\n", capsys.readouterr().out)


def test_help_of_a_command(capsys):
    texts = []
    for words in (["help", "evaluate"], ["evaluate", "--help"]):
        with pytest.raises(SystemExit) as ended:
            __main__.main(words)
        assert ended.value.code == 0
        texts.append(capsys.readouterr().out)
    assert texts[0] == texts[1]
    assert "--ignore-punct" in texts[0]


@pytest.mark.parametrize(
    ("words", "error"),
    [
        ([], "a command is missing; expected one of train, parse, check"),
        (["download"], "no command 'download'; expected one of train, parse, check"),
        (["pasre", "x"], "no command 'pasre'; did you mean parse?"),
        (["help", "trian"], "no command 'trian'; did you mean train?"),
    ],
)
def test_an_unknown_command_is_a_usage_error(words, error):
    with pytest.raises(ConfigError, match=re.escape(error)) as caught:
        __main__.main(words)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(("command", "needs"), [("parse", "MODEL"), ("train", "CONFIG")])
def test_what_a_command_needs_is_a_usage_error(command, needs, capsys):
    with pytest.raises(SystemExit) as caught:
        __main__.main([command])
    assert caught.value.code == 2
    assert capsys.readouterr().err.endswith(f"required: {needs}\n")


def test_no_command_imports_torch_before_it_needs_it():
    modules = sorted({module for module, _ in __main__.COMMANDS.values()})
    code = (
        "import sys\nfrom importlib import import_module\nimport gpuparse.__main__\n"
        "assert 'gpuparse.commands.evaluate' not in sys.modules  # until it is called\n"
        f"for name in {modules!r}:\n    import_module(name)\n"
        "    assert 'torch' not in sys.modules, name"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_what_is_counted_is_in_the_singular_or_the_plural():
    assert [plural(n, "sentence") for n in (0, 1, 2, 4000)] == [
        "0 sentences", "1 sentence", "2 sentences", "4,000 sentences",
    ]  # fmt: skip
    assert [plural(n, "more key differs", "more keys differ") for n in (1, 2)] == [
        "1 more key differs", "2 more keys differ",
    ]  # fmt: skip
