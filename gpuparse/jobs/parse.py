"""Parsing of one input, for all doors: streams and shards, in chunks."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from queue import SimpleQueue
from typing import Any, BinaryIO, NamedTuple, TypeVar, cast

import numpy as np

from gpuparse.confidence import KBest, find_k_best_trees, parse_with_confidence
from gpuparse.data.batch import Encoded
from gpuparse.data.conll import (
    OnError,
    check_trees,
    stream_treebanks,
    treebank_from_bytes,
    write_predictions,
)
from gpuparse.data.faults import TreeFault
from gpuparse.data.guides import Guides
from gpuparse.data.scanner import BAD_HEAD
from gpuparse.data.table_files import CONLLU, TEXT, VERTICAL
from gpuparse.data.treebank import Treebank, word_place
from gpuparse.data.trees import check_sentences
from gpuparse.data.vocabulary import empty_columns
from gpuparse.errors import DataError, plural
from gpuparse.inference.decoders import DECODERS
from gpuparse.jobs.options import Door, ParseOptions
from gpuparse.jobs.predictions import (
    Kept,
    kept_of,
    long_sentences,
    tag_items,
    uncertified,
    written,
    written_k_best,
)
from gpuparse.jobs.progress import Progress
from gpuparse.jobs.shards import Counts, Place, Sharded
from gpuparse.learning.gold import unkeepable
from gpuparse.parser import Parser, Predictions
from gpuparse.pipeline import Pipeline
from gpuparse.text.reader import OnTextError, TextPlace, stream_text
from gpuparse.text.tokenizer import Tokenizer
from gpuparse.text.vertical import stream_vertical

Item = TypeVar("Item")

STANDARD = "-"
GPU_CHUNK = 16 << 20  # bytes of input per piece on a GPU
TEXT_CHUNK = 1 << 20  # bytes of raw text that are split into words at a time
_MAX_BEGINNING = 1 << 20  # bytes that say of a stream whether it is raw text
SHOWN = 20  # malformed sentences that are reported one by one
COLUMNS = ("ID", "FORM", "LEMMA", "coarse tags", "fine tags", "FEATS")
SHORT = 30  # words; a shorter text may have neither lemmas nor features
TAGS = (3, 4)
FORM = 1
MANY = 12  # most words that a message lists


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


class Share:
    """The share of the input that has been read; unknown if the total number of bytes is 0."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._done = 0

    def without(self, n_bytes: int) -> None:
        """Subtract bytes that will not be read from the total."""
        self._total -= n_bytes

    def after(self, n_bytes: int) -> float | None:
        self._done += n_bytes
        return self._done / self._total if self._total > 0 else None


class _Counted:
    """A stream that counts the bytes that are read of it."""

    def __init__(self, source: BinaryIO) -> None:
        self._source, self.n_bytes = source, 0

    def read(self, size: int = -1) -> bytes:
        block = self._source.read(size)
        self.n_bytes += len(block)
        return block

    def __getattr__(self, name: str) -> Any:
        return getattr(self._source, name)


def beginning(source: BinaryIO) -> bytes:
    """The first line of a stream that is not blank, and the blank ones before it."""
    begin = b""
    while line := source.readline(_MAX_BEGINNING - len(begin)):
        begin += line
        if line.strip():
            break
    return begin


class Begun:
    """A stream whose beginning was read, which is read again."""

    def __init__(self, begin: bytes, source: BinaryIO) -> None:
        self._begin, self._source = begin, source

    def read(self, size: int = -1) -> bytes:
        if size < 0 or size > len(self._begin):
            block = self._begin + self._source.read(size if size < 0 else size - len(self._begin))
            self._begin = b""
            return block
        block, self._begin = self._begin[:size], self._begin[size:]
        return block

    def __getattr__(self, name: str) -> Any:
        return getattr(self._source, name)


class _Chunk(NamedTuple):
    """Sentences of a stream, ready to be parsed.

    tag_probabilities: (W,); see `Pipeline.annotate_with_probabilities`. guides: (W,) heads by
    another parser. batch, sent: see `Job.find`.
    """

    treebank: Treebank
    tag_probabilities: np.ndarray | None
    guides: np.ndarray | None
    batch: Encoded | None = None
    sent: Any = None

    def only(self, some: Treebank, sound: np.ndarray) -> _Chunk:
        """The chunk with some of its sentences, (S,) bool."""
        words = np.repeat(sound, np.diff(self.treebank.word_starts))
        of_tags, guides = (
            None if each is None else each[words] for each in (self.tag_probabilities, self.guides)
        )
        return _Chunk(some, of_tags, guides)


@dataclass(frozen=True, kw_only=True)
class Job:
    """How to parse a stream."""

    model: Parser | None  # None: tags and lemmas alone
    stages: Pipeline  # before the parser
    options: ParseOptions
    door: Door
    batch_size: int
    threads: int
    device: str
    backend: str
    is_native: bool  # whether native code on the CPU parses
    tell: Callable[[str], None]

    @property
    def parser(self) -> Parser:
        """The model, where there must be one."""
        assert self.model is not None
        return self.model

    def parse_shards(self, sharded: Sharded, progress: Progress, share: Share) -> int:
        """Parse an input in shards; returns the number of malformed sentences."""
        checked = False

        def parse(source: BinaryIO, target: BinaryIO, place: Place | TextPlace) -> Counts:
            nonlocal checked
            if not checked:
                self._check_beginning(sharded.file, sharded.kind)
            checked = True
            return self.parse(source, sharded.file, target, progress, share, place, sharded.kind)

        return sharded.run(parse, share.without)

    def parse(
        self,
        source: BinaryIO,
        name: str,
        target: BinaryIO,
        progress: Progress,
        share: Share,
        place: Place | TextPlace | None = None,
        kind: str = CONLLU,
    ) -> Counts:
        """Parse a stream chunk by chunk; its columns are checked unless it is a shard (`place`)."""
        failed, n_sentences = 0, 0
        name = "<stdin>" if name == STANDARD else name
        checked = place is not None
        guides = None if self.options.guide is None else Guides(self.options.guide)
        orders, certified, searched = np.zeros(3, np.int64), 0, 0
        counted, n_read = _Counted(source), 0
        for read in self._read(cast(BinaryIO, counted), name, guides, place, kind):
            chunk = read.treebank
            if not checked and chunk.n_words:
                self._check_first(chunk, guides, read.guides)
                checked = True
            for warning in chunk.warnings:
                self.tell(warning)
            faults, sound = list(chunk.faults), np.ones(len(chunk), np.bool_)
            if self.options.keep_heads:
                unkept, sound = self.unkept(chunk)
                if unkept and self.options.on_error == "fail":
                    n_more = len(unkept) - 1
                    more = f" (and {plural(n_more, 'more such sentence')})" if n_more else ""
                    option = self.door.option("on_error", "skip", "keep")
                    raise DataError(f"{unkept[0]}{more}; {option} passes over them")
                faults += unkept
            for fault in faults[: max(0, SHOWN - failed)]:
                self.tell(str(fault))
            failed += len(faults)
            n_sentences += len(chunk)
            some = read if sound.all() else read.only(self._only(chunk, sound), sound)
            parsed, of_chunk, proved = self._parsed(some)
            if proved is not None:
                certified, searched = certified + int(proved.sum()), searched + len(proved)
            target.write(parsed)
            orders += np.bincount(of_chunk, minlength=len(orders))
            # What was written of text or words alone is longer than what was read of them.
            n_bytes = len(chunk.data) if kind == CONLLU else counted.n_bytes - n_read
            n_read += n_bytes
            progress.advance(len(chunk), fraction=share.after(n_bytes))
        if guides is not None:
            guides.check_end()
        for line in long_sentences(self.model, np.repeat(np.arange(len(orders)), orders)):
            self.tell(f"{name}: {line}")
        if searched:
            self.tell(f"{name}: {uncertified(certified, searched)}")
        return Counts(n_sentences, failed)

    def _check_beginning(self, file: str, kind: str) -> None:
        """Check the columns of the first piece of a file, for all its shards."""
        with open(file, "rb") as source:
            # Malformed sentences are reported when they are parsed.
            for read in read_chunks(
                source, file, kind, self.stages.tokenizer, on_error="skip",
                max_line=self.options.max_line, threads=self.threads, ranges=False,
            ):  # fmt: skip
                chunk, _ = self.annotate(read)
                if chunk.n_words:
                    guides = None if self.options.guide is None else Guides(self.options.guide)
                    heads = None if guides is None else guides.of(chunk)
                    self._check_first(chunk, guides, heads)
                    return

    def _check_first(
        self, chunk: Treebank, guides: Guides | None, heads: np.ndarray | None
    ) -> None:
        self._check_columns(chunk)
        if guides is not None and heads is not None and heads.max() < 0:
            self.miss([guides.missing_in(chunk)], "add them")

    def _read(
        self,
        source: BinaryIO,
        name: str,
        guides: Guides | None,
        place: Place | TextPlace | None,
        kind: str,
    ) -> Iterator[_Chunk]:
        """A stream in chunks with their guides; for a GPU, encoded and being transferred to it.

        For a GPU, the next chunk is read while one is parsed.
        """
        read = read_chunks(
            source, name, kind, self.stages.tokenizer, on_error=self.options.on_error,
            max_line=self.options.max_line, threads=self.threads, place=place,
            chunk_bytes=None if self.is_native else GPU_CHUNK, ranges=self.options.ranges,
        )  # fmt: skip

        def annotated() -> Iterator[_Chunk]:
            for words in read:
                chunk, of_tags = self.annotate(words)
                yield _Chunk(chunk, of_tags, None if guides is None else guides.of(chunk))

        if self.is_native:
            yield from annotated()
            return

        def encoded() -> Iterator[_Chunk]:
            for chunk in annotated():
                batch = self.parser.encode(chunk.treebank, chunk.guides)
                sent = self.parser.send(batch, self.device, self.backend)
                yield chunk._replace(batch=batch, sent=sent)

        yield from ahead(encoded())

    def annotate(self, chunk: Treebank) -> tuple[Treebank, np.ndarray | None]:
        """The words with tags and lemmas, and the probabilities of tags if they were asked for."""
        options: Any = {"keep": self.options.keeps_tags, "threads": self.threads}
        if self.options.probabilities:
            return self.stages.annotate_with_probabilities(chunk, **options)
        return self.stages.annotate(chunk, **options), None

    def _check_columns(self, chunk: Treebank) -> None:
        """Refuse an input without a column that the model reads: its trees would be far worse."""
        missing = [
            f"{chunk.source}: column {column + 1} ({COLUMNS[column]}) is _ in all of the first"
            f" {plural(chunk.n_words, 'word')}, but the model reads {fields} there"
            for column, fields in missing_columns(chunk, self.model, self.stages).items()
        ]
        self.miss(missing, "fill it in")

    def miss(self, missing: list[str], what: str) -> None:
        """Refuse what is missing, or report it if it may be."""
        if missing and not self.options.allow_missing:
            advice = f"; {what}, or {self.door.to_allow_missing} to parse without"
            raise DataError("\n".join(line + advice for line in missing))
        for line in missing:
            self.tell(line)

    def unkept(self, chunk: Treebank) -> tuple[list[DataError], np.ndarray]:
        """Errors of sentences whose kept heads fit no tree, in order, and (S,) bool: the others."""
        name, single_root = self.parser.search_decoder, self.parser.single_root
        starts = chunk.word_starts
        found, _ = check_sentences(chunk.heads, starts, single_root, True)
        sound = found == TreeFault.WELL_FORMED
        errors = check_trees(chunk, single_root=single_root, partial=True)
        faults = dict(zip(np.flatnonzero(~sound).tolist(), errors, strict=True))
        if DECODERS[name].needs_projective_tree:
            for s in np.flatnonzero(sound).tolist():
                heads = chunk.heads[starts[s] : starts[s + 1]]
                words = unkeepable(heads, single_root=single_root) if (heads >= 0).any() else []
                if words:
                    sound[s] = False
                    faults[s] = _crossing(chunk, int(starts[s]), words, name)
        return [faults[s] for s in sorted(faults)], sound

    def _only(self, chunk: Treebank, sound: np.ndarray) -> Treebank:
        """The sound sentences; other sentences are skipped or passed through."""
        some = replace(chunk.only(sound), dropped=chunk.dropped)
        return _without(some, chunk.spans[~sound]) if self.options.on_error == "skip" else some

    def _parsed(self, read: _Chunk) -> tuple[bytes, np.ndarray, np.ndarray | None]:
        """The bytes of a parsed chunk, the orders of its sentences, and their certificates."""
        chunk, of_tags = read.treebank, read.tag_probabilities
        if self.model is None:
            heads = np.full(chunk.n_words, BAD_HEAD, np.int32)  # as they are
            text = write_predictions(chunk, heads, misc=tag_items(of_tags) or None)
            return text, np.zeros(len(chunk), np.int64), None
        kept: Kept | None = kept_of(chunk) if self.options.keep_heads else None
        found = self.find(chunk, kept, read.guides, read.batch, read.sent)
        assert found.orders is not None
        if isinstance(found, KBest):
            text = written_k_best(self.model, chunk, found, kept, of_tags, self.options.deps)
            return text, found.orders, None
        text = written(self.model, chunk, found, kept, of_tags, self.options.deps)
        return text, found.orders, found.certified

    def find(
        self,
        chunk: Treebank,
        kept: Kept | None,
        guides: np.ndarray | None,
        batch: Encoded | None = None,
        sent: Any = None,
    ) -> Predictions | KBest:
        """The trees of a chunk with what was asked for beside them; KBest where `k` is given.

        Args:
            kept: heads and relations to keep. guides: (W,) heads by another parser.
            batch, sent: the chunk, encoded, and on the device, if it is there already.
        """
        known = None if kept is None else kept.heads
        if self.options.kbest is not None:
            return find_k_best_trees(
                self.parser,
                chunk,
                self.options.kbest,
                guides=guides,
                known=known,
                probabilities=self.options.probabilities,
                batch_size=self.batch_size,
                max_cells=self.options.max_cells,
                threads=self.threads,
                device=self.device,
                backend=self.backend,
            )
        if self.options.probabilities or self.options.mbr:
            return parse_with_confidence(
                self.parser,
                chunk,
                probabilities=self.options.probabilities,
                least_risk=self.options.mbr,
                guides=guides,
                known=known,
                batch_size=self.batch_size,
                max_cells=self.options.max_cells,
                threads=self.threads,
                device=self.device,
                backend=self.backend,
            )
        return self.parser.parse(
            chunk,
            guides=guides,
            known=known,
            batch_size=self.batch_size,
            max_cells=self.options.max_cells,
            threads=self.threads,
            device=self.device,
            backend=self.backend,
            batch=batch,
            sent=sent,
        )


def read_chunks(
    source: BinaryIO,
    name: str,
    kind: str,
    tokenizer: Tokenizer | None,
    *,
    on_error: OnError,
    max_line: int,
    threads: int,
    place: Place | TextPlace | None = None,
    chunk_bytes: int | None = None,
    ranges: bool,
) -> Iterator[Treebank]:
    """A stream of `text`, `vertical` or `conllu` as treebanks, some sentences at a time.

    Args:
        tokenizer: for text. place: where the stream begins in its file; for text a TextPlace.
        chunk_bytes: bytes of CoNLL-U read at a time; None: the default.
        ranges: whether tokens of text get TokenRange.
    Raises: DataError: as the readers say.
    """
    if kind == VERTICAL:
        for text in stream_vertical(source, name, first_line=place.line if place else 1):
            yield treebank_from_bytes(text, name)
        return
    if kind == TEXT:
        assert tokenizer
        # A paragraph with a fault is not passed through: its bytes are no lines of CoNLL-U.
        skips: OnTextError = "fail" if on_error == "fail" else "skip"
        assert not isinstance(place, Place)
        for chunk in stream_text(source, name, on_error=skips, chunk_bytes=TEXT_CHUNK, start=place):
            tokens = tokenizer.split(chunk, threads=threads, token_range=ranges)
            treebank = treebank_from_bytes(tokens, name)
            yield replace(treebank, faults=[*chunk.faults, *treebank.faults])
        return
    place = place or Place(1, 0)
    stream = stream_treebanks
    if chunk_bytes is not None:
        stream = partial(stream, chunk_bytes=chunk_bytes)
    yield from stream(
        source, name, on_error=on_error, max_line=max_line, first_line=place.line,
        first_byte=place.byte,
    )  # fmt: skip


def missing_columns(chunk: Treebank, model: Parser | None, stages: Pipeline) -> dict[int, str]:
    """Columns that are `_` in all words of a chunk, and the fields that the model reads there.

    A short text may lack lemmas and features; a chunk without words, or without a parser that reads
    it, lacks nothing. What the stages before the parser fill in is not missing: where they find
    nothing there is nothing.
    """
    if model is None or not chunk.n_words:
        return {}
    return {
        column: _listed(fields)
        for column, fields in empty_columns(chunk, model.reads).items()
        if column not in stages.columns and (column in TAGS or chunk.n_words >= SHORT)
    }


def _without(chunk: Treebank, spans: np.ndarray) -> Treebank:
    """The treebank without these lines (F, 2) and the blank line after each."""
    text = chunk.data
    ends = [
        end + (2 if text[end : end + 2].tobytes() == b"\r\n" else 1) for end in spans[:, 1].tolist()
    ]
    dropped = np.concatenate([chunk.dropped, np.stack([spans[:, 0], ends], 1).clip(max=len(text))])
    is_last = bool((spans[:, 1] == len(text)).any())
    return replace(
        chunk,
        dropped=dropped[np.argsort(dropped[:, 0])],
        file_end=b"" if is_last else chunk.file_end,
    )


def _crossing(chunk: Treebank, first: int, words: list[int], decoder: str) -> DataError:
    """The error of a sentence whose kept heads are non-projective."""
    named = [f"{m} ({chunk.column(first + m - 1, FORM)})" for m in words[:MANY]]
    listed = ", ".join(named) + (f" and {len(words) - MANY} more" if len(words) > MANY else "")
    what = "finds" if DECODERS[decoder].is_projective else "starts from"
    return DataError(
        f"{word_place(chunk, first + words[0] - 1)}the heads of the words {listed} cannot all be"
        f" kept: decoder {decoder} {what} projective trees, and no projective tree has them; change"
        " one to _, or parse with a model of decoder=chu_liu_edmonds"
    )


def _listed(fields: list[str]) -> str:
    """The first names of a list, and the number of further ones."""
    more = f" and {len(fields) - 3} more" if len(fields) > 3 else ""
    return ", ".join(fields[:3]) + more
