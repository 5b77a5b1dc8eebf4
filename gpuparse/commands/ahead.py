"""The next item of an iterator, made in a thread of its own while one is in use."""

import threading
from collections.abc import Iterator
from queue import SimpleQueue
from typing import TypeVar

Item = TypeVar("Item")


def ahead(items: Iterator[Item]) -> Iterator[Item]:
    """The items of an iterator, each begun as soon as the one before it is asked for.

    Errors come where the item would have come. Whoever stops early waits for nothing: an item that
    is still being made, or read from a pipe that never ends, is left to itself.
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
            except BaseException as error:  # raised again where the item is asked for
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
