"""Work in threads, where there is enough of it for more than one."""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def mapped(work: Callable[[Item], Result], items: Sequence[Item], threads: int) -> Iterator[Result]:
    """The results of some work on every item, in order; one item or thread needs no new thread."""
    return map(work, items) if threads < 2 or len(items) < 2 else _in_threads(work, items, threads)


def _in_threads(
    work: Callable[[Item], Result], items: Sequence[Item], threads: int
) -> Iterator[Result]:
    from concurrent.futures import ThreadPoolExecutor  # and logging with it: a slow import

    with ThreadPoolExecutor(threads) as pool:
        yield from pool.map(work, items)
