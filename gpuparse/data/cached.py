"""Values that are computed once and kept, in ways that threads share and forks do not break."""

import os
import threading
from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar, overload

Kept = TypeVar("Kept")


class cached_property(Generic[Kept]):
    """A property that is computed at its first use.

    The one in functools holds a lock of its class while it computes, up to Python 3.11: threads
    wait for each other, and a child that is forked meanwhile waits for ever. Here threads that come
    at once compute the same value.
    """

    def __init__(self, compute: Callable[[Any], Kept]) -> None:
        self._compute, self.__doc__ = compute, compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type) -> Kept: ...
    def __get__(self, instance: object | None, owner: type) -> Self | Kept:
        if instance is None:
            return self
        # Without __set__, so that the value in the instance's dictionary is found first from now.
        value: Kept = instance.__dict__.setdefault(self._name, self._compute(instance))
        return value


class SharedCache(Generic[Kept]):
    """An object that one thread at a time reads and changes.

    A fork copies only the thread that forks. If another thread holds the lock at that moment, no
    thread of the child ever releases it, and the object may be half-changed. The child then begins
    with a new lock and a new object; otherwise it goes on with its copy.

    Args: make: makes an empty object.
    """

    def __init__(self, make: Callable[[], Kept]) -> None:
        self._make = make
        self._state = os.getpid(), threading.Lock(), make()

    def take(self) -> tuple[threading.Lock, Kept]:
        """The lock, and the object that may be read and changed while the lock is held."""
        process, lock, kept = self._state
        if process != os.getpid():
            if lock.acquire(blocking=False):
                lock.release()
            else:
                lock, kept = threading.Lock(), self._make()
            self._state = os.getpid(), lock, kept
        return lock, kept
