"""Work in threads, where there is enough of it for more than one."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextvars import copy_context
from typing import TYPE_CHECKING, TypeVar

from gpuparse.native import cancelled_when

if TYPE_CHECKING:
    from concurrent.futures import Executor

Item = TypeVar("Item")
Result = TypeVar("Result")


def mapped(work: Callable[[Item], Result], items: Sequence[Item], threads: int) -> Iterator[Result]:
    """The results of some work on every item, in order; one item or thread needs no new thread.

    Threads take over the check of `gpuparse.native.cancelled_when`. After an error, an interruption
    or a result that is the last one wanted, native calls in all of them end, too.
    """
    return map(work, items) if threads < 2 or len(items) < 2 else _in_threads(work, items, threads)


def _in_threads(
    work: Callable[[Item], Result], items: Sequence[Item], threads: int
) -> Iterator[Result]:
    try:
        from concurrent.futures import ThreadPoolExecutor  # and logging with it: a slow import
    except RuntimeError as error:
        require_ending(error)
        yield from map(work, items)
        return
    with ThreadPoolExecutor(threads) as pool:
        yield from mapped_in(pool, work, items)


def require_ending(error: RuntimeError) -> None:
    """Raise the error unless it says that Python is ending and starts no thread any more.

    A daemon thread may still work then: without threads of its own it does until the process ends.
    """
    if "shutdown" not in str(error):
        raise error


def mapped_in(
    pool: Executor, work: Callable[[Item], Result], items: Iterable[Item]
) -> Iterator[Result]:
    """As `mapped`, in the threads of a pool; all work has ended when this has."""
    stopped = threading.Event()

    def run(item: Item) -> Result:
        with cancelled_when(stopped.is_set):
            return work(item)

    items = list(items)
    try:
        futures = [pool.submit(copy_context().run, run, item) for item in items]
    except RuntimeError as error:
        require_ending(error)
        yield from map(work, items)
        return
    try:
        for future in futures:
            yield future.result()
    finally:
        stopped.set()
        for future in futures:
            future.cancel()
        for future in futures:
            if not future.cancelled():
                future.exception()  # waits
