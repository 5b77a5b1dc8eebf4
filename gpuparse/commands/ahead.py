"""Prefetching: the next item of an iterator is made in another thread while one is used."""

import threading
from collections.abc import Iterator
from queue import SimpleQueue
from typing import TypeVar

Item = TypeVar("Item")


def ahead(items: Iterator[Item]) -> Iterator[Item]:
    """The items of an iterator; each is begun as soon as the item before it is requested.

    Errors are raised in place of their item. Stopping early does not wait for an item that is still
    being made, or read from a pipe that never ends.
    """
    made: SimpleQueue[tuple[str, object]] = SimpleQueue()
    wanted, stopped = threading.Semaphore(1), threading.Event()

    def make() -> None:
        while wanted.acquire() and not stopped.is_set():
            try:
                made.put(("item", next(items)))
            except StopIteration:
                made.put(("end", None))
                return
            except BaseException as error:  # raised again when the item is requested
                made.put(("error", error))
                return

    threading.Thread(target=make, daemon=True).start()
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
