"""Native calls end soon after a signal, or after their work was cancelled."""

import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

import gpuparse
from gpuparse import native
from gpuparse.errors import Cancelled
from gpuparse.inference import NonProjectiveTrees, ProjectiveTrees
from gpuparse.jobs.workers import ahead
from gpuparse.native import cancelled_when, mapped
from tests.hostile_calls import arguments_of, recorded, takes_struct

SOON = 3.0  # seconds: two, and more where the machine is busy; all calls below take far longer


def scores(*shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(1))


def sentence(n):
    words = (f"{i}\tw{i % 300}\tw\tNOUN\tNN\t_\t_\t_\t_\t_\n" for i in range(1, n + 1))
    return "".join(words) + "\n"


def parse_a_long_sentence():
    gpuparse.load("english").parse(sentence(9000))


def learn_tags():
    *arguments, order, a, b, c, d, e = arguments_of("learn_tag_network", np.random.default_rng(0))
    native.call("learn_tag_network", *arguments, np.resize(order, 10**6), a, b, c, d, e)


# Each takes more than 10 s.
CALLS = {
    "search": lambda: [ProjectiveTrees(scores(1, 3000, 3000)).best() for _ in range(50)],
    "search of siblings": parse_a_long_sentence,
    "dual decomposition": lambda: NonProjectiveTrees(
        scores(1, 80, 80), grand_sibling_scores=scores(1, 80, 80, 80, 80)
    ).best(),
    "sums": lambda: ProjectiveTrees(scores(1, 3000, 3000)).marginals,
    "sums of trees with crossing arcs": lambda: NonProjectiveTrees(scores(1, 3500, 3500)).marginals,
    "samples": lambda: NonProjectiveTrees(scores(1, 700, 700)).sample(10**6),
    "projective samples": lambda: ProjectiveTrees(scores(1, 300, 300)).sample(10**6),
    "k best": lambda: NonProjectiveTrees(scores(1, 400, 400)).k_best(10**4),
    "learning": learn_tags,
}


@pytest.fixture
def interrupted_by():
    """SIGINT raises KeyboardInterrupt, also where pytest was started with it ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield lambda: os.kill(os.getpid(), signal.SIGINT)
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("name", CALLS)
def test_a_signal_ends_a_call(name, interrupted_by):
    timer = threading.Timer(1.0, interrupted_by)
    timer.start()
    begin = time.monotonic()
    try:
        with pytest.raises(KeyboardInterrupt):
            CALLS[name]()
    finally:
        timer.cancel()
    assert time.monotonic() - begin < 1.0 + SOON


def test_another_thread_cancels_a_call():
    is_over = threading.Event()
    with ThreadPoolExecutor(1) as pool:

        def work():
            with cancelled_when(is_over.is_set):
                CALLS["samples"]()

        done = pool.submit(work)
        time.sleep(0.5)
        assert not done.done()
        is_over.set()
        with pytest.raises(Cancelled):
            done.result(timeout=SOON)


def test_only_the_work_in_the_body_is_cancelled():
    with pytest.raises(Cancelled), cancelled_when(lambda: True):
        native.call("processor_fits")
    assert native.call("processor_fits") == 1


def test_a_check_within_another_adds_to_it():
    for outer, inner in ((True, False), (False, True)):
        with pytest.raises(Cancelled), cancelled_when(lambda is_over=outer: is_over):  # noqa: SIM117
            with cancelled_when(lambda is_over=inner: is_over):
                native.call("processor_fits")


def test_what_a_check_raises_ends_the_call():
    def fail():
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), cancelled_when(fail):
        CALLS["samples"]()


def test_threads_take_over_the_check_and_end_after_an_error():
    begin = time.monotonic()
    with pytest.raises(Cancelled), cancelled_when(lambda: time.monotonic() - begin > 0.5):
        list(mapped(lambda _: CALLS["samples"](), range(2), 2))
    assert time.monotonic() - begin < 0.5 + SOON

    def fail_or_work(item):
        if item == 1:
            raise ZeroDivisionError
        return item if item == 0 else CALLS["samples"]()

    begin = time.monotonic()
    with pytest.raises(ZeroDivisionError):
        list(mapped(fail_or_work, range(3), 3))
    assert time.monotonic() - begin < SOON


class _Ended(Exception):
    pass


_raised_at = [0, 0]  # questions until the one that raises; questions so far


def _count() -> None:
    _raised_at[1] += 1
    if _raised_at[1] == _raised_at[0]:
        raise _Ended


@pytest.fixture
def asks_always():
    """Native calls ask at every step that may ask; recording calls is over before."""
    recorded()
    native.library().ask(0, 0.0, _count)
    yield
    native.library().ask(native._STEPS, native._SECONDS, native._ask)


NAMES = sorted(filter(takes_struct, native.library().declarations.functions))


@pytest.mark.parametrize("name", NAMES)
def test_a_call_unwinds_wherever_it_ends(name, asks_always):
    for seed in range(9):
        _raised_at[:] = 0, 0
        try:
            native.call(name, *arguments_of(name, np.random.default_rng(seed)))
        except (TypeError, ValueError):  # as where the function does not know the decoder
            continue
        asked = _raised_at[1]
        for last in np.unique(np.geomspace(1, asked, 6).astype(int)) if asked else []:
            _raised_at[:] = last, 0
            with pytest.raises(_Ended):
                native.call(name, *arguments_of(name, np.random.default_rng(seed)))
            assert _raised_at[1] == last  # nothing is asked while the call unwinds


def test_an_interrupted_call_gives_its_memory_back(asks_always):
    def resident() -> int:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    trees = ProjectiveTrees(scores(1, 600, 600).double())
    sizes = []
    for _ in range(30):
        _raised_at[:] = 1000, 0
        with pytest.raises(_Ended):
            trees.sample(1)
        sizes.append(resident())
    assert sizes[-1] - sizes[9] < 20e6


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_command(number, tmp_path):
    long = tmp_path / "long.conllu"
    long.write_text(sentence(9000))
    command = [sys.executable, "-m", "gpuparse", "parse", "english", str(long)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        time.sleep(5)
        process.send_signal(number)
        begin = time.monotonic()
        _, said = process.communicate(timeout=60)
        assert time.monotonic() - begin < SOON
    assert b"Traceback" not in said
    assert process.returncode == (130 if number == signal.SIGINT else -signal.SIGTERM)


AT_THE_END = """
import sys, threading, time
import gpuparse

parser = gpuparse.load("english")
text = "The old man gave her a book about the sea. " * 3000

def work():
    while True:
        parser.parse_text(text)
        begun.set()

begun = threading.Event()
for _ in range(4):
    threading.Thread(target=work, daemon=True).start()
begun.wait()
sys.exit(7)
"""


def test_daemon_threads_that_parse_say_nothing_when_python_ends():
    command = [sys.executable, "-c", AT_THE_END]
    ended = subprocess.run(command, capture_output=True, timeout=120, check=False)
    assert (ended.returncode, ended.stderr) == (7, b"")


@pytest.mark.parametrize("said", ["cannot schedule new futures after shutdown", "no memory"])
def test_work_is_done_without_threads_where_none_can_be_started(said, monkeypatch):
    def refuse(*given):
        raise RuntimeError(said)

    monkeypatch.setattr(ThreadPoolExecutor, "submit", refuse)
    monkeypatch.setattr(threading.Thread, "start", refuse)
    for squares in (mapped(lambda i: i * i, range(3), 3), ahead(i * i for i in range(3))):
        if "shutdown" in said:
            assert list(squares) == [0, 1, 4]
        else:
            with pytest.raises(RuntimeError, match=said):
                list(squares)
