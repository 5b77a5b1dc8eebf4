"""The queue of requests and the thread that parses them, several at once.

An input goes through in pieces. In each round the thread takes pieces of all requests that ask for
the same, joins them into one treebank, parses it, and gives each request its own sentences. What
a request gets does not depend on the others: its words are found before they are joined, and trees
of sentences do not depend on one another.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import traceback
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import numpy as np

import gpuparse
from gpuparse.data.scanner import column_name
from gpuparse.data.treebank import Treebank
from gpuparse.errors import GpuparseError
from gpuparse.formats.sources import SENTENCES, BytesSource, Piece, Source
from gpuparse.formats.text import TextChunk
from gpuparse.jobs.options import ParseOptions
from gpuparse.jobs.parse import Job, missing_columns
from gpuparse.jobs.predictions import Result
from gpuparse.server.models import WORDS, InputPiece, ServedModel, words_of
from gpuparse.server.refusals import RequestError, refusal

MOST_BYTES = 1 << 18  # of CoNLL-U in a round


class Recipe(NamedTuple):
    """What requests that are parsed together have in common.

    depth: see `ServedModel.job`. is_text: whether places in a text are wanted.
    """

    model: str
    options: ParseOptions
    depth: str
    is_text: bool = False


class Sink(ABC):
    """What makes the answer to a request; the thread that parses calls it."""

    @abstractmethod
    def add(self, text: bytes, sentences: Sequence[gpuparse.ParsedSentence]) -> None:
        """Take the next sentences: as CoNLL-U, and as objects unless no parser was asked for."""

    @abstractmethod
    def finish(self) -> Any:
        """The answer."""


@dataclass(eq=False)
class Task:
    """A request in the queue.

    pieces: makes the pieces of the input, given the job. call: makes the answer of a request that
    is no parse. loop, answer: where the answer goes.
    """

    model: ServedModel
    recipe: Recipe
    loop: asyncio.AbstractEventLoop
    answer: asyncio.Future[Any]
    pieces: Callable[[Job], Iterator[InputPiece]] | None = None
    sink: Sink | None = None
    call: Callable[[], Any] | None = None
    where: str | None = None
    n_words: int = 0
    is_cancelled: bool = False
    is_checked: bool = False
    is_done: bool = False
    left: Iterator[InputPiece] | None = field(default=None, init=False)
    next_piece: InputPiece | None = field(default=None, init=False)

    @property
    def first_character(self) -> int:
        """That of the next piece in the whole text."""
        return self.next_piece.character if isinstance(self.next_piece, TextChunk) else 0

    def add(self, text: bytes, sentences: Sequence[gpuparse.ParsedSentence]) -> None:
        """Take the next sentences."""
        assert self.sink
        self.sink.add(text, sentences)


@dataclass(frozen=True, kw_only=True)
class _WholeTreebank(Source):
    """A treebank as a source."""

    treebank: Treebank

    def pieces(self) -> Iterator[Piece]:
        """The treebank as one piece."""
        treebank = self.treebank
        counts = np.diff(treebank.word_starts)
        yield Piece(treebank, counts, [], len(treebank), len(treebank.data))

    def empty(self, number: int) -> str:
        """With its key for words that are objects, else with its number and name."""
        if self.name == SENTENCES:
            return super().empty(number)
        return f"{column_name(number)} is _"


class Worker:
    """The queue, and the thread that empties it."""

    def __init__(self, *, max_words: int, max_queue: int) -> None:
        """
        Args: max_words: of a request. max_queue: requests that wait.
        """
        self._max_words, self._max_queue = max_words, max_queue
        self._waiting: deque[Task] = deque()
        self._current: list[Task] = []
        self._condition = threading.Condition()
        self._is_stopped = False
        self._thread = threading.Thread(target=self._work, name="parsing", daemon=True)
        self.rounds = self.n_joined = 0  # rounds, and requests in them

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Finish what is in the queue, and end the thread."""
        with self._condition:
            self._is_stopped = True
            self._condition.notify()
        self._thread.join()

    def __len__(self) -> int:
        """The number of requests that wait or are parsed."""
        return len(self._waiting) + len(self._current)

    def put(self, task: Task) -> None:
        """Add a request. Raises: RequestError: the queue is full, or the server stops."""
        with self._condition:
            if self._is_stopped:
                raise RequestError(503, "the server is shutting down", code="shutting_down")
            if len(self) >= self._max_queue:
                raise RequestError(
                    429, f"{len(self):,} requests wait already: try again later", code="queue_full"
                )
            self._waiting.append(task)
            self._condition.notify()

    def cancel(self, task: Task) -> None:
        """Take a request out of the queue whose client has left."""
        task.is_cancelled = True
        with self._condition:
            if task in self._waiting:
                self._waiting.remove(task)

    def _work(self) -> None:
        """Rounds until the end; no error ends the thread."""
        while True:
            try:
                with self._condition:
                    while not self._waiting and not self._is_stopped:
                        self._condition.wait()
                    if not self._waiting:
                        return
                    self._current = self._same()
                self.rounds += 1
                self.n_joined += len(self._current)
                self._round(self._current)
            except BaseException as error:
                _log_place(error)
                for task in self._current:
                    self._fail(task, error)
            finally:
                with self._condition:
                    unfinished = [t for t in self._current if not (t.is_done or t.is_cancelled)]
                    self._waiting.extend(unfinished)
                    self._current = []

    def _same(self) -> list[Task]:
        """The first request, and others that ask for the same, out of the queue."""
        first = self._waiting.popleft()
        if first.call is not None:
            return [first]
        recipe, found = first.recipe, [first]
        others: list[Task] = []
        while self._waiting and len(found) < 256:
            task = self._waiting.popleft()
            (found if task.call is None and task.recipe == recipe else others).append(task)
        self._waiting.extendleft(reversed(others))
        return found

    def _round(self, tasks: list[Task]) -> None:
        """Parse the next piece of each request, and answer those that have no more."""
        first = tasks[0]
        if first.call is not None:
            with self._failing(first):
                self._give(first, first.call())
            return
        try:
            options, depth = first.recipe.options, first.recipe.depth
            job = first.model.job(options, depth)
        except GpuparseError as error:
            for task in tasks:
                self._fail(task, error)
            return
        taken: list[tuple[Task, InputPiece]] = []
        n_bytes = 0
        for task in tasks:
            if task.is_cancelled or n_bytes > MOST_BYTES:
                continue
            with self._failing(task):
                if task.left is None:
                    assert task.pieces
                    task.left = task.pieces(job)
                    self._advance(task)
                if task.next_piece is not None:
                    taken.append((task, task.next_piece))
                    n_bytes += len(task.next_piece.data)
        read = [(task, words) for task, words in self._words(taken, job) if self._fits(task, words)]
        if read:
            self._parse(read, job, depth)
        for task, _ in taken:
            if not task.is_done:
                with self._failing(task):
                    self._advance(task)

    def _words(self, taken: list[tuple[Task, InputPiece]], job: Job) -> list[tuple[Task, Treebank]]:
        """The words of pieces: of all texts at once, or, if one has an error, one by one."""
        try:
            found = words_of([piece for _, piece in taken], job)
            return [(task, words) for (task, _), words in zip(taken, found, strict=True)]
        except GpuparseError:
            alone = []
            for task, piece in taken:
                with self._failing(task):
                    alone.append((task, words_of([piece], job)[0]))
            return alone

    def _fits(self, task: Task, treebank: Treebank) -> bool:
        """Whether a request may have these words, too; if not, that is its answer."""
        task.n_words += treebank.n_words
        if task.n_words > self._max_words:
            message = f"more than {self._max_words:,} words: send the text in several requests"
            error = RequestError(413, message, code="too_many_words", where=task.where)
            self._fail(task, error)
        return not task.is_done

    @contextmanager
    def _failing(self, task: Task) -> Iterator[None]:
        """Let an error be the answer to a request."""
        try:
            yield
        except Exception as error:
            if not isinstance(error, GpuparseError):
                _log_place(error)
            self._fail(task, error)

    def _advance(self, task: Task) -> None:
        """Read the next piece of a request; where there is none, give the answer."""
        assert task.left is not None
        task.next_piece = next(task.left, None)
        if task.next_piece is None:
            assert task.sink
            self._give(task, task.sink.finish())

    def _parse(self, taken: list[tuple[Task, Treebank]], job: Job, depth: str) -> None:
        """Parse pieces: those that can be joined in one call, others one by one."""
        joined, alone = [], []
        for task, treebank in taken:
            if depth == WORDS:
                with self._failing(task):
                    task.add(treebank.data.tobytes(), [])
                continue
            text = _joinable(treebank)
            is_whole = task.is_checked or not treebank.n_words
            if text is None or not (
                is_whole or not missing_columns(treebank, job.model, job.stages)
            ):
                alone.append((task, treebank))
            else:
                joined.append((task, treebank, text))
        if len(joined) == 1:
            alone.append(joined.pop()[:2])
        if joined:
            try:
                self._parse_joined(joined, job)
            except GpuparseError:  # of one of them
                alone += [(task, treebank) for task, treebank, _ in joined]
        for task, treebank in alone:
            with self._failing(task):
                task.add(*self._parse_alone(task, treebank, job))
        for task, treebank in taken:
            task.is_checked |= bool(treebank.n_words)

    def _parse_joined(self, joined: list[tuple[Task, Treebank, bytes]], job: Job) -> None:
        source = BytesSource(text=b"".join(text for *_, text in joined), name="text")
        [(piece, result)] = job.results(source, is_checked=True)
        numbers = [*accumulate((len(treebank) for _, treebank, _ in joined), initial=0)]
        firsts = {i: task.first_character for i, (task, _, _) in zip(numbers, joined, strict=False)}
        is_text = joined[0][0].recipe.is_text
        parsed = gpuparse.Parsed(result, piece.counts, is_text=is_text, firsts=firsts)
        ends = _ends(result)
        for (task, _, _), (i, j) in zip(joined, pairwise(numbers), strict=True):
            sentences = [] if job.model is None else parsed[i:j]
            with self._failing(task):
                task.add(result.text[ends[i] : ends[j]], sentences)

    def _parse_alone(
        self, task: Task, treebank: Treebank, job: Job
    ) -> tuple[bytes, Sequence[gpuparse.ParsedSentence]]:
        """The piece of one request, as the command parses it."""
        source = _WholeTreebank(name=treebank.source, treebank=treebank)
        [(piece, result)] = job.results(source, is_checked=task.is_checked)
        parsed = gpuparse.Parsed(
            result, piece.counts, is_text=task.recipe.is_text, firsts={0: task.first_character}
        )
        return result.text, [] if job.model is None else parsed[:]

    def _give(self, task: Task, answer: Any) -> None:
        task.is_done = True
        _call(task, task.answer.set_result, answer)

    def _fail(self, task: Task, error: BaseException) -> None:
        task.is_done = True
        said = refusal(error, task.where)
        _call(task, task.answer.set_exception, said)


def _call(task: Task, give: Callable[[Any], None], what: Any) -> None:
    """Give something where the client waits, if it still does."""

    def given() -> None:
        if not task.answer.done():
            give(what)

    with suppress(RuntimeError):  # a loop that has ended has no clients
        task.loop.call_soon_threadsafe(given)


def _log_place(error: BaseException) -> None:
    """Say on stderr where an error was raised, without its message, which may have words."""
    places = "".join(traceback.format_tb(error.__traceback__))
    print(f"{places}{type(error).__name__}", file=sys.stderr, flush=True)


def _joinable(treebank: Treebank) -> bytes | None:
    """The bytes of a treebank if sentences and blank lines alternate in them; else None.

    Then its sentences are found again by their blank lines after it was joined with others.
    """
    if len(treebank.dropped) or treebank.file_end or not len(treebank):
        return None
    text = treebank.data.tobytes()
    is_plain = (
        text.endswith(b"\n\n")
        and not text.startswith(b"\n")
        and b"\r" not in text
        and b"\n\n\n" not in text
        and text.count(b"\n\n") == len(treebank)
    )
    return text if is_plain else None


def _ends(result: Result) -> np.ndarray:
    """Where each sentence begins in the bytes of a result, and the end; see `_joinable`."""
    text = np.frombuffer(result.text, np.uint8)
    ends = np.flatnonzero((text[1:] == 10) & (text[:-1] == 10)) + 2
    ends = np.concatenate([[0], ends])
    scores = getattr(result.found, "scores", None)
    if scores is None:
        return ends
    copies = (scores > -np.inf).sum(0)
    return ends[np.concatenate([[0], np.cumsum(copies)])]
