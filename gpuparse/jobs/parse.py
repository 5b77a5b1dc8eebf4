"""Parsing of one input, for all doors: one loop from any source into bytes, tables or objects."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, count
from queue import SimpleQueue
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from gpuparse.data.batch import Encoded
from gpuparse.data.columns import FORM
from gpuparse.data.conll import OnError, check_trees
from gpuparse.data.faults import TreeFault
from gpuparse.data.formats.arrow_tables import TableFile, send_rows_alone, table_writer, with_lists
from gpuparse.data.formats.documents import texts_of
from gpuparse.data.formats.json_lines import CHUNK
from gpuparse.data.formats.names import CONLLU, JSONL, RAW, WORDS_ALONE, is_table
from gpuparse.data.formats.sources import (
    Cut,
    CutSource,
    JsonSource,
    Piece,
    Rows,
    Source,
    StreamSource,
    TableSource,
    all_but,
)
from gpuparse.data.formats.streams import compressed, decoded, opened
from gpuparse.data.formats.text import TextChunk
from gpuparse.data.graphs import unwritable_relations
from gpuparse.data.guides import Guides
from gpuparse.data.scanner import ScannedText
from gpuparse.data.treebank import Treebank, word_place
from gpuparse.data.trees import check_sentences
from gpuparse.data.vocabulary import NO_FORMS, empty_columns
from gpuparse.errors import DataError, option, plural
from gpuparse.files import input_file
from gpuparse.inference.decoders import DECODERS
from gpuparse.inference.nearest_trees import unkeepable
from gpuparse.jobs.messages import Messages, PieceCounts, ResultCounts
from gpuparse.jobs.options import TAGS as KEEP_TAGS
from gpuparse.jobs.options import ParseOptions
from gpuparse.jobs.predictions import TREE, Kept, Result, kept_of
from gpuparse.jobs.progress import Progress, silent
from gpuparse.jobs.shards import Counts, Sharded
from gpuparse.jobs.workers import ahead, can_fork, worked_on
from gpuparse.model.confidence import KBest, find_k_best_trees, parse_with_confidence
from gpuparse.model.engines.admission import default_batch_size
from gpuparse.model.parser import Parser, Predictions
from gpuparse.model.pipeline import Pipeline

Render = Callable[[Piece, Result], Any]
_Trees = Predictions | KBest | None  # None: not known yet
_Part = tuple[PieceCounts, ResultCounts | None, Any]  # a piece, and what is written of it


class FileParts(NamedTuple):
    """The pieces of a file, with what is written of them; said: other messages about it."""

    said: list[str]
    parts: list[_Part]


GPU_CHUNK = 16 << 20  # bytes of input per piece on a GPU
# Bytes of what each of several workers parses at once: the most of a treebank and of a text, and
# the least. What is shorter is a whole input, its end, or all that a pipe has now.
SHARED_CHUNK, SHARED_TEXT, SMALL = 1 << 20, 128 << 10, 32 << 10
STREAMS = 2  # batches that a GPU has at once
DEVICE_CHUNK = 4 << 20  # bytes of a piece that workers read and write, and a GPU searches
SHARES = 16  # parts of an input that each worker should have
SHORT = 30  # words; a shorter text may have neither lemmas nor features
TAGS = (3, 4)
MANY = 12  # most words that a message lists


class ShareRead:
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


class _Ready(NamedTuple):
    """A piece that is ready to be parsed, with the tags and lemmas of the stages.

    tag_probabilities: (W,); see `Pipeline.annotate_with_probabilities`. guides: (W,) heads by
    another parser. batch, sent: see `Job.find`.
    """

    piece: Piece
    tag_probabilities: np.ndarray | None
    guides: np.ndarray | None
    batch: Encoded | None = None
    sent: Any = None


@dataclass(frozen=True, kw_only=True)
class Job:
    """The settings of parsing an input.

    advise: as tell, of hints about texts; None: tell. may_pass_over: whether the door has the
    option `on_error`. to_allow_missing, to_give_columns:
    what its user can do about columns that are missing; to_allow_missing: None: `allow_missing`,
    "": nothing, for a user who knows columns and not what templates call them. as_json_lines: a
    function that writes a piece with what was found as JSON lines; None: the door writes none.
    """

    model: Parser | None  # None: tags and lemmas alone
    stages: Pipeline  # before the parser, with what the parser's own pass fills
    options: ParseOptions
    batch_size: int = default_batch_size("cpu")
    threads: int = 1
    device: str = "cpu"
    engine: str = "auto"
    is_native: bool = True  # whether native code on the CPU parses
    tell: Callable[[str], None] = silent
    advise: Callable[[str], None] | None = None
    may_pass_over: bool = False
    to_allow_missing: str | None = None
    to_give_columns: str = "fill it in"
    as_json_lines: Callable[[Piece, Result], bytes] | None = None

    @property
    def parser(self) -> Parser:
        """The model, where there must be one."""
        assert self.model is not None
        return self.model

    def recipe(self, kind: str, form: str) -> dict[str, object]:
        """All that changes bytes of the output of an input of a format, beside model and input.

        Args: form: the format of the output.

        The device and what computes there are part of it unless the model's scores are exact and no
        sums are asked for.
        """
        found, model = self.options.of_bytes(kind) | {"format": form}, self.model
        if model is not None:
            found |= {"decoder": model.search_decoder, "single_root": model.single_root}
        # Sums are rounded in the last digits, which decide between trees of equal risk.
        is_rounded = self.options.probabilities or self.options.mbr
        if model is not None and (is_rounded or not model.is_exact):
            found |= {"device": self.device, "engine": self.engine}
        return found

    def stream(
        self, file: BinaryIO, name: str, kind: str, *, place: Any = None,
        on_error: OnError | None = None,
    ) -> Source:  # fmt: skip
        """A stream of bytes as the source of this job, decompressed if its name says so.

        Args:
            kind: its format. place: where it begins in its file; see StreamSource.
            on_error: another one than that of the options.
        """
        file = opened(file, name)
        if kind in WORDS_ALONE:
            file = decoded(file, name, self.options.encoding)
        on_error = on_error or self.options.on_error
        workers, size = self._shares(file, kind)
        if kind == JSONL:
            return JsonSource(
                file=file, name=name, keep_heads=self.options.keep_heads, keeps=on_error == "keep",
                split=self.split if self.stages.tokenizer else None,
                first=place.line if place else 1, chunk_bytes=size or CHUNK, workers=workers,
            )  # fmt: skip
        return StreamSource(
            file=file, name=name, kind=kind, on_error=on_error, place=place,
            split=self.split if self.stages.tokenizer else None,
            chunk_bytes=size, workers=workers,
        )  # fmt: skip

    def _shares(self, file: BinaryIO, kind: str) -> tuple[int, int | None]:
        """The workers that a stream is worth; the bytes of a piece, None: those of its format."""
        if not self.may_share:
            return 1, None if self.is_native else GPU_CHUNK
        most = SHARED_TEXT if kind in RAW else SHARED_CHUNK if self.is_native else DEVICE_CHUNK
        with suppress(AttributeError, OSError):  # compressed, or no file of the system
            about = os.fstat(file.fileno())
            if stat.S_ISREG(about.st_mode):
                # Pieces are shorter than this, since they end with a sentence.
                size = max(2 * SMALL, min(most, about.st_size // (SHARES * self.threads)))
                return min(self.threads, about.st_size // size), size
        return self.threads, most

    @property
    def may_share(self) -> bool:
        """True if workers may have pieces of their own.

        Guides are read one after the other. A parser's pass that fills columns is of the device.
        """
        if self.stages.filler is not None and not self.is_native:
            return False
        return self.threads > 1 and self.options.guide is None and self._can_fork()

    def _can_fork(self) -> bool:
        return can_fork(beside_torch=not self.is_native)

    def source(self, file: BinaryIO, name: str, kind: str) -> Source:
        """An open file as the source of this job.

        Args: kind: its format.
        Raises: DataError: a damaged table.
        """
        if not is_table(kind):
            return self.stream(file, name, kind)
        table = TableFile(file, name, kind, threads=self.threads > 1)
        return self.table(table.runs(), name, table)

    def table(self, runs: Any, name: str, file: Any = None, *, fails: bool = False) -> TableSource:
        """Runs of rows as the source of this job; see TableSource."""
        workers = self.threads if file is not None and self.may_share else 1
        if workers > 1 and (n_rows := file.n_rows) is not None:
            workers = min(workers, n_rows // file.run)
        return TableSource(
            runs=runs, name=name, file=file, fails=fails, keep_heads=self.options.keep_heads,
            split=self.split if self.stages.tokenizer else None, workers=workers,
            reads_ahead=file is not None and (self.threads > 1 or not self.is_native),
        )  # fmt: skip

    def split(self, chunk: TextChunk) -> ScannedText:
        """The words of a text as CoNLL-U."""
        return self.split_all([chunk])[0]

    def split_all(self, chunks: Sequence[TextChunk]) -> list[ScannedText]:
        """The words of each of several texts as CoNLL-U."""
        assert self.stages.tokenizer
        return self.stages.tokenizer.split_all(
            chunks, threads=self.threads, token_range=self.options.ranges
        )

    def results(
        self, source: Source, *, is_checked: bool = False, has_misc: bool = True
    ) -> Iterator[tuple[Piece, Result]]:
        """Parse an input, piece by piece.

        Args:
            is_checked: whether the columns of the input have been checked.
            has_misc: whether the output has MISC, in messages.
        Yields: what was read, without the sentences that are not parsed, and what was found.
        Raises: DataError: with `on_error` fail, the first sentence that is malformed or whose heads
            cannot be kept; a column that the model reads is missing; a damaged file.
        """
        told = self._messages(source)
        yield from self._parsed(self._ready(source, is_checked=is_checked), told)
        told.end(has_misc=has_misc)

    def _messages(self, source: Source) -> Messages:
        return Messages(
            source=source, tell=self.tell, advise=self.advise or self.tell,
            fails=self.options.on_error == "fail", may_pass_over=self.may_pass_over,
            decoder=self.model.search_decoder if self.model else "",
        )  # fmt: skip

    def _parsed(self, pieces: Iterator[_Ready], told: Messages) -> Iterator[tuple[Piece, Result]]:
        """Pieces with what was found."""
        for ready in pieces:
            told.read(PieceCounts.of(ready.piece))
            result = self.result(ready)
            told.found(ResultCounts.of(result))
            yield ready.piece, result

    def _rendered(
        self, source: Source, render: Render, told: Messages, *, is_checked: bool
    ) -> Generator[tuple[PieceCounts, Any], None, None]:
        """Pieces with what is written of them.

        The first piece with words, and short ones before the first long one, are parsed here: this
        checks the columns, and makes what workers share. Workers parse all others.
        """
        left: list[Cut] = []
        shared = source if isinstance(source, CutSource) and source.workers > 1 else None
        cuts = shared.cuts() if shared else iter(())
        pieces = _first_pieces(shared, cuts, left, self._can_fork) if shared else None
        ready = self._ready(source, pieces, is_checked=is_checked)
        for piece, result in self._parsed(ready, told):
            yield PieceCounts.of(piece), render(piece, result)
        if shared is None or not left:
            return
        alone = replace(self, threads=1)
        work = _WorkOnParts(alone, shared.with_split(alone.split), render)
        between = None if self.is_native else _Device(alone)
        if isinstance(source, TableSource):
            send_rows_alone()
        for parts in worked_on(work, chain(left, cuts), shared.workers, between):
            yield from _told(told, parts)

    def parts_of_files(self, files: Sequence[tuple[str, str, str]]) -> Iterator[FileParts]:
        """The parts of each file, in order, which a worker parses as a whole.

        Args: files: name, format and format of the output of each.
        Raises: DataError: as `results`, in place of a file.
        """
        return worked_on(replace(self, threads=1).parts_of_file, iter(files), self.threads)

    def parts_of_file(self, file: tuple[str, str, str]) -> FileParts:
        """See `parts_of_files`."""
        name, kind, form = file
        said: list[str] = []
        job = replace(self, tell=said.append)
        with input_file(name) as opened:
            source = job.source(opened, name, kind)
            work = _WorkOnParts(job, source, job._renderer(source, form))
            pieces = list(job._ready(source, goes_ahead=False))
            return FileParts(said, work.parts(pieces, [None] * len(pieces)))

    def write(
        self, source: Source, target: BinaryIO, progress: Progress, share: ShareRead,
        *, form: str = CONLLU, is_checked: bool = False, name: str = "",
        of_file: FileParts | None = None,
    ) -> Counts:  # fmt: skip
        """Parse an input into a file.

        Args:
            form: the format of the output: JSONL, that of the table that is the input, or CONLLU.
            name: of the output, which is compressed if it says so.
            of_file: what `parts_of_files` has found in the input.
        Returns: the numbers of sentences or rows, and of those that are not sound.
        Raises: as `results`.
        """
        n_sentences = failed = 0
        told, render = self._messages(source), self._renderer(source, form)
        if of_file:
            for line in of_file.said:
                self.tell(line)
            pieces = _told(told, of_file.parts)
        else:
            pieces = self._rendered(source, render, told, is_checked=is_checked)
        with (
            closing(pieces),  # which ends workers
            compressed(target, name) as file,
            self._sink(source, file, form) as write,
        ):
            for read, rendered in pieces:
                write(rendered)
                target.flush()  # for a reader that waits; flushing a compressor adds bytes
                n_sentences += read.n_sentences
                failed += len(read.faults)
                progress.advance(read.n_sentences, fraction=share.after(read.size))
            told.end(has_misc=form == CONLLU)
        return Counts(n_sentences, failed)

    def write_shards(self, sharded: Sharded, progress: Progress, share: ShareRead) -> int:
        """Parse an input in shards; returns the number of sentences that are not sound."""
        is_checked = False

        def parse(run: Any, target: BinaryIO, place: Any) -> Counts:
            nonlocal is_checked
            table = sharded.table
            if not is_checked and table is not None:
                self._check_beginning(self.table(table.runs(), table.name, table))
            elif not is_checked:
                with open(sharded.file, "rb") as file:
                    # Malformed sentences are reported when they are parsed.
                    whole = self.stream(file, sharded.file, sharded.kind, on_error="skip")
                    self._check_beginning(whole)
            is_checked = True
            if table is not None:
                source: Source = self.table(run, table.name, table)
            else:
                source = self.stream(run, sharded.file, sharded.kind, place=place)
            return self.write(source, target, progress, share, form=sharded.form, is_checked=True)

        return sharded.run(parse, share.without)

    def _renderer(self, source: Source, form: str) -> Render:
        """The function that makes what `_sink` writes of a piece."""
        if form == JSONL:
            assert self.as_json_lines
            return self.as_json_lines
        return table_of if isinstance(source, TableSource) else _text_of

    @contextmanager
    def _sink(
        self, source: Source, target: BinaryIO, form: str
    ) -> Iterator[Callable[[Any], object]]:
        """A function that writes what was rendered of a piece into a file, in a format."""
        if form == JSONL or not isinstance(source, TableSource):
            yield target.write
            return
        nothing = source.piece(source.file.schema.empty_table(), 0)
        [ready] = self._annotated(iter([nothing]), None)
        schema = table_of(ready.piece, self.result(ready)).schema
        with table_writer(target, source.file, schema) as writer:
            yield writer.write

    def _check_beginning(self, source: Source) -> None:
        """Check the columns of the first sentences of an input, for all its shards."""
        for ready in self._ready(source, goes_ahead=False):
            if ready.piece.treebank.n_words:
                return

    def check_columns(
        self, source: Source, treebank: Treebank, guides: Guides | None = None,
        heads: np.ndarray | None = None,
    ) -> None:  # fmt: skip
        """Refuse an input without a column that the model reads: its trees would be far worse.

        Args: treebank: its first words. guides, heads: the guides of the input, and of these words.
        """
        is_of_columns = self.to_allow_missing == ""
        missing = {
            number: f"{source.name}: {source.empty(number)} in all of the first"
            f" {plural(treebank.n_words, 'word')}, but the model reads"
            f" {'it' if is_of_columns else f'{fields} there'}"
            for number, fields in missing_columns(treebank, self.model, self.stages).items()
        }
        self._miss([missing.pop(FORM)] if FORM in missing else [], NO_FORMS)
        self._miss([*missing.values()], self.to_give_columns)
        if guides is not None and heads is not None and heads.max() < 0:
            self._miss([guides.missing_in(treebank)], "add them")

    def _miss(self, missing: list[str], what: str) -> None:
        """Refuse what is missing, or report it if it may be."""
        if missing and not self.options.allow_missing:
            allow = self.to_allow_missing
            if allow is None:
                allow = f"give {option('allow_missing', True)}"
            advice = f"; {what}" + (f", or {allow} to parse without" if allow else "")
            raise DataError("\n".join(line + advice for line in missing))
        for line in missing:
            self.tell(line)

    def _ready(
        self, source: Source, pieces: Iterator[Piece] | None = None, *, is_checked: bool = False,
        goes_ahead: bool = True,
    ) -> Iterator[_Ready]:  # fmt: skip
        """The pieces of a source; the columns of the first one with words are checked.

        Args:
            pieces: those of the source; None: all of them.
            goes_ahead: whether the next piece may be read while one is parsed; for a GPU it is
                encoded and transferred then, too.
        """
        guides = None if self.options.guide is None else Guides(self.options.guide)
        if pieces is None:
            pieces = source.pieces()
            pieces = ahead(pieces) if goes_ahead and source.reads_ahead else pieces
        ready = self._annotated(pieces, guides)
        if goes_ahead and not self.is_native and not isinstance(source, TableSource):
            ready = ahead(self._sent(ready))
        for each in ready:
            if not is_checked and each.piece.treebank.n_words:
                self.check_columns(source, each.piece.treebank, guides, each.guides)
                is_checked = True
            yield each
        if guides is not None:
            guides.check_end()

    def _sent(self, pieces: Iterator[_Ready]) -> Iterator[_Ready]:
        """Pieces, encoded and on their way to the device."""
        for each in pieces:
            batch = self.parser.encode(each.piece.treebank, each.guides)
            yield each._replace(batch=batch, sent=self.parser.send(batch, self.device, self.engine))

    def _annotated(self, pieces: Iterator[Piece], guides: Guides | None) -> Iterator[_Ready]:
        """Pieces with guides, tags and lemmas, without sentences whose heads cannot be kept."""
        for piece in pieces:
            treebank = piece.treebank
            heads = None if guides is None else guides.of(treebank)
            errors = self._unkept(treebank) if self.options.keep_heads else {}
            if errors and heads is not None:
                sound = all_but(len(treebank), errors)
                heads = heads[np.repeat(sound, np.diff(treebank.word_starts))]
            piece = piece.without(errors, skip=self.options.on_error == "skip")
            treebank, of_tags = self.annotate(piece.treebank)
            yield _Ready(replace(piece, treebank=treebank), of_tags, heads)

    def annotated_pieces(self, pieces: Iterator[Piece]) -> list[_Ready]:
        """Pieces with tags and lemmas, without sentences whose heads cannot be kept."""
        return list(self._annotated(pieces, None))

    def prepared(self, ready: _Ready) -> tuple[Encoded, Kept | None]:
        """The batch of a piece for a device, and what is kept."""
        treebank = ready.piece.treebank
        return self.parser.encode(treebank), self._kept(treebank)

    def _kept(self, treebank: Treebank) -> Kept | None:
        return kept_of(treebank) if self.options.keep_heads else None

    def annotated(self, source: Source) -> Iterator[tuple[Piece, np.ndarray | None]]:
        """An input as the parser gets it, piece by piece: with tags and lemmas; and its guides.

        Columns that the parser itself fills are left as they are: it does not read them.

        Raises: DataError: as `results`.
        """
        job = replace(self, stages=replace(self.stages, filler=None))
        return ((ready.piece, ready.guides) for ready in job._ready(source, goes_ahead=False))

    def annotate(self, chunk: Treebank) -> tuple[Treebank, np.ndarray | None]:
        """The words with tags and lemmas, and the probabilities of tags if they were asked for."""
        keep = self.options.keep == KEEP_TAGS
        if self.options.probabilities:
            return self.stages.annotate_with_probabilities(chunk, keep=keep, threads=self.threads)
        return self.stages.annotate(chunk, keep=keep, threads=self.threads), None

    def _unkept(self, chunk: Treebank) -> dict[int, DataError]:
        """Errors of sentences whose kept heads fit no tree, or relations not DEPS, by number."""
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
                    faults[s] = _crossing(chunk, int(starts[s]), words, name)
        if self.options.deps == TREE:
            of_kept = np.flatnonzero(kept_of(chunk).labels >= 0)
            for word, error in unwritable_relations(chunk, of_kept):
                faults.setdefault(int(np.searchsorted(starts, word, side="right")) - 1, error)
        return faults

    def result(self, ready: _Ready, found: _Trees = None) -> Result:
        """The result for a piece; found: its trees, if they are known."""
        treebank, model = ready.piece.treebank, self.model
        if model is None:
            found, names, kept = None, [], None
        else:
            kept = self._kept(treebank)
            if found is None:
                found = self.find(treebank, kept, ready.guides, ready.batch, ready.sent)
            names = model.label_names
        return Result(
            treebank=treebank, found=found, names=names,
            decoder=model.search_decoder if model else "", kept=kept,
            tag_probabilities=ready.tag_probabilities, annotated=self.stages.columns,
            deps=self.options.deps,
        )  # fmt: skip

    def find(
        self,
        chunk: Treebank | None,
        kept: Kept | None,
        guides: np.ndarray | None,
        batch: Encoded | None = None,
        sent: Any = None,
    ) -> Predictions | KBest:
        """The trees of a chunk with what was asked for beside them; KBest where `k` is given.

        Args:
            kept: heads and relations to keep. guides: (W,) heads by another parser.
            batch, sent: the chunk, encoded, and on the device, if it is there already; the chunk
                itself is not read then.
        """
        asked = self.options
        given: Any = chunk if batch is None else batch
        search: Callable[..., Predictions | KBest]
        if asked.kbest is not None:
            search = partial(
                find_k_best_trees, self.parser, given, k=asked.kbest,
                probabilities=asked.probabilities,
            )  # fmt: skip
        elif asked.probabilities or asked.mbr:
            search = partial(
                parse_with_confidence, self.parser, given, probabilities=asked.probabilities,
                least_risk=asked.mbr,
            )  # fmt: skip
        else:
            search = partial(self.parser.parse, chunk, batch=batch)
        return search(
            guides=guides, known=None if kept is None else kept.heads,
            batch_size=self.batch_size, threads=self.threads, device=self.device,
            engine=self.engine, sent=sent,
        )  # fmt: skip


def _first_pieces(
    source: CutSource, cuts: Iterator[Cut], left: list[Cut], may_end: Callable[[], bool]
) -> Iterator[Piece]:
    """The first pieces, up to those with words, and short ones; the cut after them goes to left."""
    has_words = False
    for cut in cuts:
        if has_words and cut.size >= SMALL and may_end():
            left.append(cut)
            return
        for piece in source.read(cut):
            has_words |= piece.treebank.n_words > 0
            yield piece


def _told(messages: Messages, parts: list[_Part]) -> Generator[tuple[PieceCounts, Any], None, None]:
    """Parts that a worker has made; their messages are told."""
    for read, found, rendered in parts:
        messages.read(read)
        messages.found(found)
        yield read, rendered


class _Prepared(NamedTuple):
    """The sentences of a part of an input for a device: its number in a worker, and its batches.

    batches: of each piece, with the heads that are kept.
    """

    number: int
    batches: list[tuple[Encoded, Kept | None]]


class _Searched(NamedTuple):
    """The trees of a part of an input; number: of `_Prepared`."""

    number: int
    found: Sequence[_Trees]


class _WorkOnParts:
    """The work of a worker on parts of an input: all of it, or all but the search on a device.

    It answers with pieces as `Job._rendered` needs them, and before with `_Prepared`.
    """

    def __init__(self, job: Job, source: Source, render: Render) -> None:
        self._job, self._source, self._render = job, source, render
        self._left: dict[int, list[_Ready]] = {}  # parts that are on the device, by number
        self._numbers = count()

    def __call__(self, item: Cut | _Searched) -> list[_Part] | _Prepared:
        if isinstance(item, _Searched):
            return self.parts(self._left.pop(item.number), item.found)
        assert isinstance(self._source, CutSource)
        pieces = self._job.annotated_pieces(self._source.read(item))
        if self._job.is_native:
            return self.parts(pieces, [None] * len(pieces))
        number = next(self._numbers)
        self._left[number] = pieces
        return _Prepared(number, [self._job.prepared(ready) for ready in pieces])

    def parts(self, pieces: list[_Ready], found: Sequence[_Trees]) -> list[_Part]:
        """Pieces with what is written of them; found: their trees, if they are known."""
        parts: list[_Part] = []
        for ready, trees in zip(pieces, found, strict=True):
            counts = PieceCounts.of(ready.piece)
            if counts.faults and self._job.options.on_error == "fail":
                return [*parts, (counts, None, None)]
            result = self._job.result(ready, trees)
            parts.append((counts, ResultCounts.of(result), self._render(ready.piece, result)))
        return parts


class _Device:
    """The search of trees on a device, of several parts of an input at once."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._streams: SimpleQueue[Any] = SimpleQueue()
        if job.device == "cpu":
            self._streams.put(nullcontext())
            return
        import torch

        for _ in range(STREAMS):
            self._streams.put(torch.cuda.stream(torch.cuda.Stream()))

    def __call__(self, prepared: _Prepared) -> _Searched:
        stream = self._streams.get()
        try:
            with stream:
                found = [
                    self._job.find(None, kept, None, batch) for batch, kept in prepared.batches
                ]
        finally:
            self._streams.put(stream)
        return _Searched(prepared.number, found)


def _text_of(_: Piece, result: Result) -> bytes:
    """The bytes of CoNLL-U."""
    return result.text


def table_of(piece: Piece, result: Result) -> Any:
    """The table of a piece of rows, with the columns that were found at its end."""
    assert isinstance(piece, Rows)
    columns = result.columns(piece.table.schema.names)
    return with_lists(piece.table, piece.counts, columns, piece.is_faulty)


def missing_columns(chunk: Treebank, model: Parser | None, stages: Pipeline) -> dict[int, str]:
    """Columns that are `_` in all words of a chunk, and the fields that the model reads there.

    A short text may lack lemmas and features, and its words may all be `_`; a chunk without words,
    or without a model that reads it, lacks nothing. What the stages before the parser fill in is
    not missing: where they find nothing there is nothing.
    """
    if not chunk.n_words:
        return {}
    filled = stages.columns
    reads = {FORM: ["form"]} if filled else {}
    reads |= model.reads if model else {}
    read = {
        column: fields
        for column, fields in reads.items()
        if column not in filled and (column in TAGS or chunk.n_words >= SHORT)
    }
    found = empty_columns(chunk, read)
    if FORM in found and _has_underscores(chunk):
        del found[FORM]
    return {column: _listed(fields) for column, fields in found.items()}


def _has_underscores(chunk: Treebank) -> bool:
    """True if `# text` of all sentences, whose words are all `_`, has these words."""
    texts, counts = texts_of(chunk), np.diff(chunk.word_starts).tolist()
    return all("".join(text.split()) == n * "_" for text, n in zip(texts, counts, strict=True))


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
