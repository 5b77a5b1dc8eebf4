"""Pieces of an input that workers parse give the bytes and messages of one process."""

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from multiprocessing import get_context
from pathlib import Path

import pytest

from gpuparse.commands import parse
from gpuparse.errors import ResourceError
from gpuparse.jobs import parse as job
from gpuparse.jobs import workers
from gpuparse.jobs.parse import Job
from tests.commands.conftest import ROOT
from tests.synthetic import generate

KINDS = ["conllu", "text", "lines", "jsonl", "parquet"]
PIECES = [1 << 10, 1 << 14, 1 << 24]  # bytes


@pytest.fixture
def pieces_of(monkeypatch):
    """Set the bytes of a piece; torch, which other tests load, is not used here after a fork."""

    def pieces_of(size: int) -> None:
        monkeypatch.setattr(job, "can_fork", lambda **_: True)
        monkeypatch.setattr(job, "SMALL", 0)
        monkeypatch.setattr(Job, "_shares", lambda self, file, kind: (self.threads, size))

    return pieces_of


@pytest.fixture
def works(monkeypatch):
    """The numbers of workers of each call."""
    counts: list[int] = []

    def worked_on(work, items, n_workers, between=None):
        counts.append(n_workers)
        return workers.worked_on(work, items, n_workers, between)

    monkeypatch.setattr(job, "worked_on", worked_on)
    return counts


def write_input(staged, folder: Path, kind: str) -> Path:
    path = folder / f"in.{kind}"
    text = staged.test.read_bytes()
    if kind == "conllu":
        sentences = text.split(b"\n\n")
        faulty = [b"1\tbad", sentences[5].replace(b"\t0\t", b"\t99\t")]
        mixed = [*sentences[:9], faulty[0], *sentences[9:30], b"# alone", *sentences[30:]]
        path.write_bytes(b"\xef\xbb\xbf" + b"\n\n".join(mixed))
    elif kind in ("text", "lines"):
        lines = staged.raw.read_bytes().replace(b"\n\n", b"\n" if kind == "lines" else b"\n\n")
        path.write_bytes(lines + b"One\xff two.\n\nThree.\n" + lines)
    elif kind == "jsonl":
        assert parse.main([str(staged.model), str(staged.test), "--format", "jsonl",
                           "--output", str(path), "--threads", "1", "--quiet"]) == 0  # fmt: skip
    else:
        pyarrow = pytest.importorskip("pyarrow")
        from pyarrow import parquet

        forms = [re.findall(r"(?m)^\d+\t([^\t]+)", each) for each in text.decode().split("\n\n")]
        parquet.write_table(pyarrow.table({"form": forms}), path, row_group_size=4)
    return path


@pytest.mark.parametrize("kind", KINDS)
def test_bytes_and_messages_do_not_depend_on_workers_and_pieces(
    staged, call, tmp_path, pieces_of, kind, short_runs, works
):
    path, found = write_input(staged, tmp_path, kind), set()
    keep = "keep" if kind in ("conllu", "jsonl") else "skip"
    for on_error in {"skip", keep}:
        found.clear()
        for threads, size in [(1, 0), *((n, size) for n in (2, 7) for size in PIECES)]:
            if size:
                pieces_of(size)
            works.clear()
            out = tmp_path / f"out{threads}-{size}-{on_error}"
            code, _, err = call(
                parse.main, staged.model, path, "--input", kind, "--threads", threads,
                "--on-error", on_error, "--output", f"{out}/", "--allow-missing",
            )  # fmt: skip
            said = "\n".join(line for line in err.splitlines() if "sentences in" not in line)
            [written] = out.iterdir()
            assert works == [threads] or size != PIECES[0]
            found.add((code, written.read_bytes(), re.sub(r"[\d.,]+ (seconds|s)\b.*", "", said)))
        assert len(found) == 1


def test_workers_parse_pieces_of_the_least_size(staged, call, tmp_path, works, monkeypatch):
    """They end with a sentence, so that they are shorter than what is read at a time."""
    texts = re.findall(rb"(?m)^# text = (.*\n)", generate(3000, 1))
    (tmp_path / "in.txt").write_bytes(b"".join(texts))
    monkeypatch.setattr(job, "can_fork", lambda **_: True)
    call(parse.main, staged.model, tmp_path / "in.txt", "--threads", 2, "--output", tmp_path / "o")
    assert works == [2]


def test_the_first_error_of_the_input_is_the_one_that_is_told(staged, call, tmp_path, pieces_of):
    """Later pieces have others, which threads may find before."""
    path = write_input(staged, tmp_path, "conllu")
    expected = call(parse.main, staged.model, path, "--threads", 1, "--quiet")
    pieces_of(1 << 10)
    for _ in range(5):
        code, _, err = call(parse.main, staged.model, path, "--threads", 3, "--quiet")
        assert (code, err) == (3, expected[2])
    assert expected[0] == 3


@pytest.mark.parametrize("on_error", ["skip", "fail"])
def test_files_that_workers_parse_as_a_whole_are_as_in_turn(
    staged, call, tmp_path, pieces_of, works, on_error
):
    """With `fail`, an error is that of the first faulty file, and files before it are finished."""
    folder, found = tmp_path / "in", []
    folder.mkdir()
    sentences = staged.test.read_bytes().split(b"\n\n")
    for number in range(12):
        text = b"\n\n".join(sentences[number : number + 3]) + b"\n\n"
        (folder / f"{number:02}.conllu").write_bytes(text + b"1\tbad\n\n" * (number in (6, 9)))
        (folder / f"{number:02}-text.txt").write_text("She sings. " * number)
    for threads in (1, 3):
        pieces_of(1 << 24)
        out = tmp_path / f"out{threads}"
        code, _, err = call(
            parse.main, staged.model, folder, "--threads", threads, "--on-error", on_error,
            "--output", f"{out}/", "--allow-missing",
        )  # fmt: skip
        said = [line for line in err.splitlines() if "sentences in" not in line]
        said = [re.sub(r"[\d,]+ sentences?, .*", "", line).replace(str(out), "") for line in said]
        found.append((code, said, {path.name: path.read_bytes() for path in out.iterdir()}))
    assert works == [3]
    assert found[0] == found[1]


@pytest.mark.parametrize("kind", ["conllu", "parquet"])
@pytest.mark.parametrize("keep", [[], ["--keep", "heads"]])
def test_a_device_searches_what_workers_read_and_write(
    trained, call, tmp_path, pieces_of, works, kind, keep, short_runs
):
    """Torch on a CPU has the place of a GPU."""
    path, found = write_input(trained, tmp_path, kind), {}
    for engine, threads in [("native", 1), ("torch", 1), ("torch", 3)]:
        pieces_of(1 << 10)
        works.clear()
        code, *_ = call(
            parse.main, trained.model, path, "--input", kind, "--threads", threads, "--engine",
            engine, "--on-error", "skip", "--allow-missing", *keep, "--output",
            tmp_path / f"{engine}{threads}.{kind}",
        )  # fmt: skip
        assert works == [3] * (threads == 3)
        found[engine, threads] = code, (tmp_path / f"{engine}{threads}.{kind}").read_bytes()
    assert len(set(found.values())) == 1


def square(number: int) -> int:
    if number == 17:
        raise ValueError("seventeen")
    if number < 0:
        os.kill(os.getpid(), -number)
    return number * number


def test_results_are_in_order_and_each_worker_does_some():
    def slow(number: int) -> tuple[int, int]:
        time.sleep(0.01)
        return number, os.getpid()

    found = list(workers.worked_on(slow, iter(range(20)), 3))
    assert [number for number, _ in found] == list(range(20))
    pids = Counter(pid for _, pid in found)
    assert len(pids) == 3
    assert os.getpid() not in pids


def test_what_shared_memory_cannot_hold_goes_through_the_pipe(monkeypatch):
    monkeypatch.setattr(workers, "_SHARED", 1 << 12)
    items = [b"x" * size for size in (0, 10, 4000, 4096, 5000, 1 << 20)]
    assert list(workers.worked_on(bytes, iter(items), 2)) == items


def test_answers_between_go_back_to_their_worker():
    def work(item: int | tuple[int, int]) -> tuple[int, int]:
        if isinstance(item, int):
            time.sleep(0.002 * (item % 3))
            return item, os.getpid()
        assert item[1] == os.getpid()
        return -item[0], os.getpid()

    found = list(workers.worked_on(work, iter(range(40)), 3, lambda answer: answer))
    assert [number for number, _ in found] == [-number for number in range(40)]


def test_an_error_comes_in_its_place_and_ends_the_workers():
    before = children()
    found: list[int] = []
    with pytest.raises(ValueError, match="seventeen"):
        found.extend(workers.worked_on(square, iter(range(100)), 2))
    assert found == [number**2 for number in range(17)]
    assert children() <= before


def test_an_error_of_the_items_comes_in_its_place():
    def items():
        yield from range(5)
        raise OSError("the disk is gone")

    found: list[int] = []
    with pytest.raises(OSError, match="the disk is gone"):
        found.extend(workers.worked_on(square, items(), 2))
    assert found == [0, 1, 4, 9, 16]


def test_a_worker_that_is_killed_is_an_error():
    before = children()
    with pytest.raises(ResourceError, match=r"ended early \(signal 9\)"):
        list(workers.worked_on(square, iter([1, 2, -9, 3]), 2))
    assert children() <= before


def test_whoever_stops_ends_the_workers_and_few_items_are_held():
    before = children()
    taken = []

    def items():
        for number in range(1000):
            taken.append(number)
            yield 1

    for number, _ in enumerate(workers.worked_on(square, items(), 2)):
        if number == 30:
            break
    assert children() <= before
    assert len(taken) <= 30 + 2 + 2 + 2


def test_no_workers_where_they_could_not_work(monkeypatch):
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    monkeypatch.setattr(threading, "active_count", lambda: 1)
    assert workers.can_fork()
    with get_context("fork").Pool(1) as pool:
        assert not pool.apply(workers.can_fork)
    monkeypatch.setattr(threading, "active_count", lambda: 2)
    assert not workers.can_fork()
    monkeypatch.setattr(threading, "active_count", lambda: 1)
    monkeypatch.setitem(sys.modules, "torch", None)
    assert not workers.can_fork()
    assert workers.can_fork(beside_torch=True)


def test_processes_that_cannot_be_started_are_an_error(monkeypatch):
    def fork():
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(os, "fork", fork)
    with pytest.raises(ResourceError, match="cannot start 2 worker processes"):
        list(workers.worked_on(square, iter([1, 2]), 2))


def children() -> set[int]:
    """The processes that this one has started and that have not ended."""
    return {pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if is_child(pid)}


def is_child(pid: int, parent: int | None = None) -> bool:
    try:
        state, ppid = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[:2]
    except OSError:
        return False
    return int(ppid) == (parent or os.getpid()) and state != "Z"


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no workers")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_signals_end_the_command_and_its_workers(staged, tmp_path, number):
    """As Ctrl-C does, SIGINT goes to all of them."""
    (tmp_path / "in.conllu").write_bytes(staged.test.read_bytes() * 400)
    process = subprocess.Popen(
        [sys.executable, "parse.py", staged.model, tmp_path / "in.conllu", "--threads", "2",
         "--output", tmp_path / "out.conllu"],
        cwd=ROOT, stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    found: list[int] = []
    while len(found) < 2:
        assert process.poll() is None
        pids = map(int, filter(str.isdigit, os.listdir("/proc")))
        found = [pid for pid in pids if is_child(pid, process.pid)]
        time.sleep(0.01)
    (os.killpg if number == signal.SIGINT else os.kill)(process.pid, number)
    said = process.communicate(timeout=10)[1].decode()
    assert process.returncode in (-number, 128 + number)
    assert "Traceback" not in said
    for _ in range(200):
        if not any(map(is_running, found)):
            break
        time.sleep(0.01)
    assert not any(map(is_running, found))
    assert not (tmp_path / "out.conllu").exists()


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
