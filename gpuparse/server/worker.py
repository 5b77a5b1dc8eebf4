"""The queue of requests and the two threads that parse them, several at once.

An input goes through in parts: pieces of bytes are read and split into words, and their sentences
are cut into parts by what they cost. In each round a thread takes parts of all requests that ask
for the same, joins them into one treebank, parses it, and gives each request its own sentences;
then the next requests have their turn. One thread does this. What cannot be cut and takes long, as
one long sentence, is done by the other thread, one by one, so that short requests do not wait for
it. What a request gets does not depend on the others: its words are found before they are joined,
and trees of sentences do not depend on one another.
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
from contextvars import copy_context
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import numpy as np

import gpuparse
from gpuparse.api.tokens import Surfaces
from gpuparse.data.formats.sources import SENTENCES, BytesSource, Piece, Source
from gpuparse.data.formats.text import TextChunk
from gpuparse.data.scanner import column_name
from gpuparse.data.treebank import Treebank
from gpuparse.errors import Cancelled, GpuparseError
from gpuparse.jobs.options import ParseOptions
from gpuparse.jobs.parse import Job
from gpuparse.jobs.predictions import Result
from gpuparse.native import cancelled_when
from gpuparse.server.models import TREES, WORDS, InputPiece, ServedModel, words_of
from gpuparse.server.refusals import Limits, RequestError, refusal

# Seconds on one core, as `ServedModel.seconds` estimates them: of a round, of the sentences that
# are kept together in it, and of a byte that is split into words.
ROUND, PART, BYTE = 0.2, 0.1, 1e-6
MOST_JOINED = 256  # requests in a round
LONG_AT_ONCE = 2  # long sentences of a request; one of 1,000 words takes about 100 MB


class Recipe(NamedTuple):
    """The common settings of requests that are parsed together.

    depth: see `ServedModel.job`. is_text: whether places in a text are wanted.
    """

    model: str
    options: ParseOptions
    depth: str
    is_text: bool = False


class Sink(ABC):
    """The maker of the answer to a request; the thread that parses calls it.

    n_bytes: of the answer until now.
    """

    n_bytes = 0

    def seconds(self, lengths: np.ndarray) -> np.ndarray:
        """(S,) how long `add` takes for sentences of these numbers of words, where that is long."""
        return np.zeros(len(lengths))

    @abstractmethod
    def add(self, text: bytes, sentences: Sequence[gpuparse.ParsedSentence]) -> None:
        """Take the next sentences: as CoNLL-U, and as objects unless no parser was asked for."""

    @abstractmethod
    def finish(self) -> Any:
        """The answer."""


class _Part(NamedTuple):
    """Sentences that are parsed together, from a place of a text on; seconds: an estimate."""

    words: Treebank
    first_character: int
    seconds: float


@dataclass(eq=False)
class Task:
    """A request in the queue.

    pieces: makes the pieces of the input, given the job. call: makes the answer of a request that
    is no parse, in about `call_seconds`. loop, answer: where the answer goes.
    """

    model: ServedModel
    recipe: Recipe
    loop: asyncio.AbstractEventLoop
    answer: asyncio.Future[Any]
    pieces: Callable[[Job], Iterator[InputPiece]] | None = None
    sink: Sink | None = None
    call: Callable[[], Any] | None = None
    call_seconds: float = 0.0
    where: str | None = None
    n_words: int = 0
    is_cancelled: bool = False
    is_checked: bool = False
    is_done: bool = False
    left: Iterator[InputPiece] | None = field(default=None, init=False)
    next_piece: InputPiece | None = field(default=None, init=False)
    n_sentences: int = field(default=0, init=False)  # of the pieces that were read
    parts: deque[_Part] = field(default_factory=deque, init=False)

    @property
    def next_seconds(self) -> float:
        """About how long its next step takes."""
        if self.call is not None:
            return self.call_seconds
        if self.parts:
            return self.parts[0].seconds
        return BYTE * len(self.next_piece.data) if isinstance(self.next_piece, TextChunk) else 0.0

    @property
    def is_long(self) -> bool:
        """True if its next step is for the thread of long work."""
        return self.next_seconds > ROUND


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
    """The queue, and the threads that empty it."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._waiting: deque[Task] = deque()
        self._current: dict[bool, list[Task]] = {False: [], True: []}  # by Task.is_long
        self._lock = threading.RLock()
        self._conditions = {is_long: threading.Condition(self._lock) for is_long in self._current}
        self._is_stopped = False
        self._threads: list[threading.Thread] = []
        self.rounds = self.n_joined = 0  # rounds, and requests in them

    def start(self) -> None:
        """Start the threads, whose messages name options as those of the caller do."""
        for is_long in self._current:
            run = partial(copy_context().run, self._work, is_long)
            self._threads.append(threading.Thread(target=run, name="parsing", daemon=True))
            self._threads[-1].start()

    def stop(self) -> None:
        """Finish what is in the queue, and end the threads."""
        with self._lock:
            self._is_stopped = True
            self._wake(False, True)
        for thread in self._threads:
            thread.join()

    def __len__(self) -> int:
        """The number of requests that wait or are parsed."""
        return len(self._waiting) + sum(map(len, self._current.values()))

    def put(self, task: Task) -> None:
        """Add a request. Raises: RequestError: the queue is full, or the server stops."""
        with self._lock:
            if self._is_stopped:
                raise RequestError(503, "the server is shutting down", code="shutting_down")
            if len(self) >= self._limits.queue:
                raise RequestError(
                    429, f"{len(self):,} requests wait already: try again later", code="queue_full"
                )
            self._waiting.append(task)
            self._wake(task.is_long)

    def cancel(self, task: Task) -> None:
        """Take a request out of the queue whose client has left, or end work for it alone."""
        task.is_cancelled = True
        with self._lock:
            if task in self._waiting:
                self._waiting.remove(task)

    def _wake(self, *of: bool) -> None:
        """Wake threads that wait for work: that of long steps, or the other one."""
        for is_long in of:
            self._conditions[is_long].notify()

    def _work(self, is_long: bool) -> None:
        """Rounds until the end; no error ends the thread."""
        while True:
            tasks: list[Task] = []
            try:
                with self._lock:
                    while not (tasks := self._same(is_long)):
                        if self._is_stopped and not len(self):
                            return
                        self._conditions[is_long].wait()
                    self._current[is_long] = tasks
                    self.rounds += 1
                    self.n_joined += len(tasks)
                with cancelled_when(lambda: all(task.is_cancelled for task in tasks)):  # noqa: B023
                    self._round(tasks)
            except Cancelled:
                pass
            except BaseException as error:
                _log_place(error)
                for task in tasks:
                    self._fail(task, error)
            finally:
                with self._lock:
                    left = [task for task in tasks if not (task.is_done or task.is_cancelled)]
                    self._waiting.extend(left)
                    self._current[is_long] = []
                    self._wake(*{task.is_long for task in left})
                    if self._is_stopped:
                        self._wake(False, True)

    def _same(self, is_long: bool) -> list[Task]:
        """Requests of one recipe out of the queue, the first ones, for a round of one thread."""
        found: list[Task] = []
        seconds = 0.0
        for task in self._waiting:
            if task.is_long != is_long or (
                found and (task.call is not None or task.recipe != found[0].recipe)
            ):
                continue
            seconds += task.next_seconds
            if found and (seconds > ROUND or len(found) == MOST_JOINED):
                break
            found.append(task)
            if task.call is not None:
                break
        if found:
            chosen = set(found)
            self._waiting = deque(task for task in self._waiting if task not in chosen)
        return found

    def _round(self, tasks: list[Task]) -> None:
        """Take one step of each request: parse its next part, and answer where none is left."""
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
        is_long = first.is_long
        self._read([task for task in tasks if not task.parts], job)
        seconds = 0.0
        taken: list[tuple[Task, _Part]] = []
        for task in tasks:
            if not task.parts or task.is_long != is_long or task.is_done or task.is_cancelled:
                continue
            seconds += task.next_seconds
            if seconds <= ROUND or not taken:
                taken.append((task, task.parts.popleft()))
        if is_long and taken and not (options.probabilities or options.mbr):  # these take memory
            while first.parts and first.is_long and len(taken) < min(LONG_AT_ONCE, job.threads):
                taken.append((first, first.parts.popleft()))
        if taken:
            if is_long:
                job = replace(job, batch_size=1)  # a thread for each
            self._parse(taken, job, depth)
        for task in tasks:
            if not (task.is_done or task.is_cancelled or task.parts or task.next_piece is not None):
                with self._failing(task):
                    assert task.sink
                    self._give(task, task.sink.finish())

    def _read(self, tasks: list[Task], job: Job) -> None:
        """Split the next pieces of some requests into words, and cut these into parts."""
        seconds = 0.0
        taken: list[tuple[Task, InputPiece]] = []
        for task in tasks:
            if task.is_cancelled:
                continue
            with self._failing(task):
                if task.left is None:
                    assert task.pieces
                    task.left = task.pieces(job)
                    task.next_piece = next(task.left, None)
                seconds += task.next_seconds
                if task.next_piece is not None and (seconds <= ROUND or not taken):
                    taken.append((task, task.next_piece))
        for task, words in self._words(taken, job):
            with self._failing(task):
                self._check(task, words, job)
                task.parts.extend(_cut(task, words))
                assert task.left
                task.next_piece = next(task.left, None)

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

    def _check(self, task: Task, words: Treebank, job: Job) -> None:
        """Make sure that a request may have these words, too.

        Raises: RequestError: it has too many, or too long a sentence. DataError: a column that the
            model reads is missing.
        """
        depth, most = task.recipe.depth, self._limits.n_words
        task.n_words += words.n_words
        if task.n_words > most:
            message = f"more than {most:,} words: send the text in several requests"
            raise RequestError(413, message, code="too_many_words", where=task.where)
        long = np.flatnonzero(np.diff(words.word_starts) > self._limits.sentence)
        if len(long) and depth == TREES:
            n, number = len(words[int(long[0])]), task.n_sentences + int(long[0]) + 1
            raise RequestError(
                422, f"sentence {number} has {n:,} words: at most {self._limits.sentence:,} are"
                " parsed; cut it into several sentences", code="sentence_too_long",
                where=task.where,
            )  # fmt: skip
        task.n_sentences += len(words)
        if depth != WORDS and words.n_words and not task.is_checked:
            job.check_columns(_WholeTreebank(name=words.source, treebank=words), words)
            task.is_checked = True

    @contextmanager
    def _failing(self, task: Task) -> Iterator[None]:
        """Let an error be the answer to a request."""
        try:
            yield
        except Cancelled:
            raise
        except Exception as error:
            if not isinstance(error, GpuparseError):
                _log_place(error)
            self._fail(task, error)

    def _add(self, task: Task, text: bytes, sentences: Sequence[gpuparse.ParsedSentence]) -> None:
        """Add sentences to an answer. Raises: RequestError: it becomes too long."""
        assert task.sink
        task.sink.add(text, sentences)
        most = self._limits.answer_bytes
        if task.sink.n_bytes > most:
            raise RequestError(
                413, f"the answer has more than {most:,} bytes: send the text in several requests,"
                " or ask for fewer trees", code="answer_too_long", where=task.where,
            )  # fmt: skip

    def _parse(self, taken: list[tuple[Task, _Part]], job: Job, depth: str) -> None:
        """Parse parts: those that can be joined in one call, others one by one."""
        if depth == WORDS:
            for task, part in taken:
                with self._failing(task):
                    self._add(task, part.words.data.tobytes(), [])
            return
        texts = [_joinable(part.words) if len(taken) > 1 else None for _, part in taken]
        joined = [each for each, text in zip(taken, texts, strict=True) if text is not None]
        alone = [each for each, text in zip(taken, texts, strict=True) if text is None]
        if len(joined) == 1:
            alone += joined
        elif joined:
            text = b"".join(filter(None, texts))
            try:
                self._parse_together(joined, BytesSource(text=text, name="text"), job)
            except GpuparseError:  # of one of them
                alone += joined
        for task, part in alone:
            with self._failing(task):
                source = _WholeTreebank(name=part.words.source, treebank=part.words)
                self._parse_together([(task, part)], source, job)

    def _parse_together(self, taken: list[tuple[Task, _Part]], source: Source, job: Job) -> None:
        """Parse parts that are a source, as the command parses each of them."""
        [(piece, result)] = job.results(source, is_checked=True)
        numbers = [*accumulate((len(part.words) for _, part in taken), initial=0)]
        firsts = {i: part.first_character for i, (_, part) in zip(numbers, taken, strict=False)}
        is_text = taken[0][0].recipe.is_text
        parsed = gpuparse.Parsed(result, piece.counts, is_text=is_text, firsts=firsts)
        ends = _ends(result) if len(taken) > 1 else None
        for (task, _), (i, j) in zip(taken, pairwise(numbers), strict=True):
            text = result.text if ends is None else result.text[ends[i] : ends[j]]
            with self._failing(task):
                self._add(task, text, [] if job.model is None else parsed[i:j])

    def _give(self, task: Task, answer: Any) -> None:
        task.is_done = True
        _call(task, task.answer.set_result, answer)

    def _fail(self, task: Task, error: BaseException) -> None:
        task.is_done = True
        said = refusal(error, task.where)
        _call(task, task.answer.set_exception, said)


def _cut(task: Task, words: Treebank) -> list[_Part]:
    """The words of the next piece of a request in parts, each of one sentence or PART seconds."""
    assert task.sink
    lengths = np.diff(words.word_starts)
    character = getattr(task.next_piece, "character", 0)
    seconds = task.model.seconds(lengths, task.recipe.options, task.recipe.depth)
    seconds = seconds + task.sink.seconds(lengths)
    if len(words) < 2 or seconds.sum() <= PART:
        return [_Part(words, character, float(seconds.sum()))]
    starts, in_part = [0], 0.0
    for s, each in enumerate(seconds.tolist()):
        if in_part and in_part + each > PART:
            starts.append(s)
            in_part = 0.0
        in_part += each
    characters = [character] * len(starts)
    if task.recipe.is_text:  # no spaces are before a sentence but the first
        places = Surfaces.of(words, is_text=True, firsts={0: character}).starts
        characters[1:] = [places[words.word_starts[s]] for s in starts[1:]]
    bounds = pairwise([*starts, len(words)])
    return [
        _Part(words.part(i, j), first, float(seconds[i:j].sum()))
        for (i, j), first in zip(bounds, characters, strict=True)
    ]


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
    """The starts of sentences in the bytes of a result, and the end; see `_joinable`."""
    text = np.frombuffer(result.text, np.uint8)
    ends = np.flatnonzero((text[1:] == 10) & (text[:-1] == 10)) + 2
    ends = np.concatenate([[0], ends])
    scores = getattr(result.found, "scores", None)
    if scores is None:
        return ends
    copies = (scores > -np.inf).sum(0)
    return ends[np.concatenate([[0], np.cumsum(copies)])]
