"""Work that is done at once: the next item in a thread, or several items in several processes.

A worker is a copy of this process, which shares the memory of the model with it. Python runs one
thread of a process at a time, and a third of the time of raw text is Python's.
"""

from __future__ import annotations

import ctypes
import gc
import mmap
import os
import pickle
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import copy_context
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, TypeVar

from gpuparse.errors import ResourceError, option, plural
from gpuparse.native import cancelled_when, require_ending

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from multiprocessing.context import ForkProcess

Item = TypeVar("Item")

_SHARED = 64 << 20  # bytes that two processes share; those that were never used are none
_END_WITH_PARENT = 1  # PR_SET_PDEATHSIG of Linux


def ahead(items: Iterator[Item], most: int = 1) -> Iterator[Item]:
    """The items of an iterator; a thread makes at most `most` of them before they are requested.

    Errors are raised in place of their item. Stopping early does not wait for an item that is still
    being made, or read from a pipe that never ends.
    """
    made: SimpleQueue[tuple[str, object]] = SimpleQueue()
    wanted, stopped = threading.Semaphore(most), threading.Event()

    def make() -> None:
        while wanted.acquire() and not stopped.is_set():
            try:
                with cancelled_when(stopped.is_set):
                    made.put(("item", next(items)))
            except StopIteration:
                made.put(("end", None))
                return
            except BaseException as error:  # raised again when the item is requested
                made.put(("error", error))
                return

    try:
        threading.Thread(target=copy_context().run, args=(make,), daemon=True).start()
    except RuntimeError as error:
        require_ending(error)
        yield from items
        return
    try:
        while True:
            kind, item = made.get()
            if kind == "end":
                return
            if kind == "error":
                assert isinstance(item, BaseException)
                raise item
            wanted.release()
            yield item  # type: ignore[misc]
    finally:
        stopped.set()
        wanted.release()


def can_fork(*, beside_torch: bool = False) -> bool:
    """True if a copy of this process can work: it lacks the threads of torch and of a caller.

    Processes of `multiprocessing.Pool` may have no others.

    beside_torch: whether it can do so without torch where this process has loaded torch.
    """
    processes = sys.modules.get("multiprocessing.process")
    is_free = processes is None or not processes.current_process().daemon
    is_free &= beside_torch or "torch" not in sys.modules
    return sys.platform == "linux" and is_free and threading.active_count() == 1


def worked_on(
    work: Callable[[Any], Any], items: Iterator[Any], n_workers: int,
    between: Callable[[Any], Any] | None = None,
) -> Iterator[Any]:  # fmt: skip
    """The results of some work on every item, in order, by workers that this process becomes.

    Args:
        between: what this process makes of a worker's answer for the same worker, whose second
            answer is the result then; each worker has two items at once.

    Of items and results at most n_workers + 2 are held, twice as many with `between`. What goes
    between the processes is pickled, into memory that they share, where it fits there; the work
    itself is not.

    Raises: what the work raises, in place of its result. ResourceError: a worker ended.
    """
    from concurrent.futures import ThreadPoolExecutor  # slow imports, of long inputs alone

    with _workers(work, n_workers) as workers:
        free: SimpleQueue[_Worker] = SimpleQueue()
        for worker in workers if between is None else workers * 2:
            free.put(worker)
        n_asked = free.qsize()

        def ask(item: Any) -> Any:
            worker = free.get()
            try:
                answer = worker.ask(item)
                return answer if between is None else worker.ask(between(answer))
            finally:
                free.put(worker)

        with ThreadPoolExecutor(n_asked) as pool:
            try:
                for future in ahead((pool.submit(ask, item) for item in items), n_asked + 1):
                    yield future.result()
            finally:
                for worker in workers:
                    worker.end()
                pool.shutdown(cancel_futures=True)


class _Channel:
    """One end of what two processes tell each other: a pipe and shared memory."""

    def __init__(self, pipe: Connection, memory: mmap.mmap) -> None:
        self._pipe, self._memory = pipe, memory

    def send(self, thing: Any) -> None:
        """Send a thing, which the other end receives before it sends one."""
        self._memory.seek(0)
        try:
            _pickler()(self._memory, pickle.HIGHEST_PROTOCOL).dump(thing)
        except ValueError:  # longer than the memory
            self._pipe.send(thing)
        else:
            self._pipe.send(None)

    def receive(self) -> Any:
        """The thing that was sent. Raises: EOFError, ConnectionError: the other end is closed."""
        thing = self._pipe.recv()
        if thing is None:
            self._memory.seek(0)
            thing = pickle.load(self._memory)  # noqa: S301 (of a copy of this process)
        return thing

    def close(self) -> None:
        """Close the pipe: the other end gets an EOFError."""
        self._pipe.close()


def _pickler() -> Any:
    from multiprocessing.reduction import ForkingPickler

    return ForkingPickler


class _Worker:
    """A process, and this process's end of the channel to it."""

    def __init__(self, process: ForkProcess, channel: _Channel) -> None:
        self._process, self._channel, self._lock = process, channel, threading.Lock()

    def ask(self, item: Any) -> Any:
        """The result of its work on an item."""
        try:
            with self._lock:
                self._channel.send(item)
                error, result = self._channel.receive()
        except (EOFError, ConnectionError):
            raise self._ended() from None
        if error is not None:
            raise error
        return result

    def _ended(self) -> ResourceError:
        self._process.join()
        code = self._process.exitcode or 0
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        return ResourceError(
            f"a worker process ended early ({how}); if memory is short, give fewer"
            f" {option('threads')}"
        )

    def end(self) -> None:
        """End it in the middle of its work: it has nothing to finish."""
        self._process.kill()
        self._process.join()
        self._channel.close()


@contextmanager
def _workers(work: Callable[[Any], Any], n_workers: int) -> Iterator[list[_Worker]]:
    from multiprocessing import get_context

    context, workers, channels = get_context("fork"), [], []
    # A worker ends with this process, and not by Ctrl-C, which would end both at once.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        for _ in range(n_workers):
            pipes, memory = context.Pipe(), mmap.mmap(-1, _SHARED)
            here, there = (_Channel(pipe, memory) for pipe in pipes)
            channels.append(here)
            process = context.Process(
                target=_serve, args=(work, there, list(channels), before), daemon=True
            )
            with warnings.catch_warnings():  # of NumPy's threads, which continue after a fork
                warnings.simplefilter("ignore", DeprecationWarning)
                process.start()
            there.close()
            workers.append(_Worker(process, here))
    except OSError as error:
        for worker in workers:
            worker.end()
        raise ResourceError(
            f"cannot start {plural(n_workers, 'worker process', 'worker processes')}: {error}; give"
            f" fewer {option('threads')}"
        ) from error
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    yield workers


def _serve(
    work: Callable[[Any], Any], channel: _Channel, others: list[_Channel], mask: set[int]
) -> None:
    """Work on items that come through a channel until it is closed."""
    gc.freeze()  # a collection would copy the memory of all objects that it looks at
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    ctypes.CDLL(None).prctl(_END_WITH_PARENT, signal.SIGKILL)
    for other in others:  # else they stay open
        other.close()
    with suppress(EOFError, ConnectionError):
        while True:
            item = channel.receive()
            answer: tuple[BaseException | None, Any]
            try:
                answer = None, work(item)
            except BaseException as error:
                answer = error, None
            channel.send(answer)
    os._exit(0)  # without the steps that end the parent
