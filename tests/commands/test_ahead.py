"""The next item is made while one is used; errors replace their item; stopping does not wait."""

import threading
from collections.abc import Iterator

import pytest

from gpuparse.jobs.workers import ahead


def test_items_come_in_their_order() -> None:
    assert list(ahead(iter(range(100)))) == list(range(100))
    assert list(ahead(iter([]))) == []


def test_one_item_is_made_ahead_and_no_more() -> None:
    made: list[int] = []
    two, three = threading.Event(), threading.Event()

    def items() -> Iterator[int]:
        for i in range(5):
            made.append(i)
            if len(made) == 2:
                two.set()
            if len(made) == 3:
                three.set()
            yield i

    found = ahead(items())
    assert next(found) == 0
    assert two.wait(10)  # while item 0 is in use
    assert not three.wait(0.1)
    assert next(found) == 1
    assert three.wait(10)


def test_an_error_comes_where_its_item_would_have_come() -> None:
    def items() -> Iterator[int]:
        yield 1
        yield 2
        raise ValueError("no third item")

    found = ahead(items())
    assert [next(found), next(found)] == [1, 2]
    with pytest.raises(ValueError, match="no third item"):
        next(found)


def test_whoever_stops_early_waits_for_nothing() -> None:
    never = threading.Event()

    def items() -> Iterator[int]:
        yield 1
        never.wait(60)  # as a pipe that stays open
        yield 2

    found = ahead(items())
    assert next(found) == 1
    found.close()
    assert not never.is_set()
    never.set()
