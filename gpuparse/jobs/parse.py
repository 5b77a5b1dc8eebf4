"""Parsing of one input, for all doors: one loop from any source into bytes, tables or objects."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import dataclass, replace
from functools import partial
from queue import SimpleQueue
from typing import Any, BinaryIO, NamedTuple, TypeVar

import numpy as np

from gpuparse.data.batch import Encoded
from gpuparse.data.columns import FORM
from gpuparse.data.conll import OnError, check_trees
from gpuparse.data.faults import TreeFault
from gpuparse.data.formats.arrow_tables import TableFile, table_writer, with_lists
from gpuparse.data.formats.documents import texts_of
from gpuparse.data.formats.names import CONLLU, JSONL, TEXT, WORDS_ALONE, is_table
from gpuparse.data.formats.sources import (
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
from gpuparse.data.treebank import Treebank, word_place
from gpuparse.data.trees import check_sentences
from gpuparse.data.vocabulary import NO_FORMS, empty_columns
from gpuparse.errors import DataError, option, plural
from gpuparse.inference.decoders import DECODERS
from gpuparse.inference.nearest_trees import unkeepable
from gpuparse.jobs.options import TAGS as KEEP_TAGS
from gpuparse.jobs.options import ParseOptions
from gpuparse.jobs.predictions import TREE, Kept, Result, kept_of, long_sentences, uncertified
from gpuparse.jobs.progress import Progress, silent
from gpuparse.jobs.shards import Counts, Sharded
from gpuparse.model.confidence import KBest, find_k_best_trees, parse_with_confidence
from gpuparse.model.engines.admission import CHAIN, LOWER, default_batch_size
from gpuparse.model.parser import Parser, Predictions
from gpuparse.model.pipeline import Pipeline
from gpuparse.native import cancelled_when, require_ending

Item = TypeVar("Item")

GPU_CHUNK = 16 << 20  # bytes of input per piece on a GPU
SHOWN = 20  # malformed sentences that are reported one by one
SHORT = 30  # words; a shorter text may have neither lemmas nor features
TAGS = (3, 4)
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
                with cancelled_when(stopped.is_set):
                    made.put(("item", next(items)))
            except StopIteration:
                made.put(("end", None))
                return
            except BaseException as error:  # raised again when the item is requested
                made.put(("error", error))
                return

    try:
        threading.Thread(target=copy_context().run, args=(make,), daemon=True).start()
    except RuntimeError as error:
        require_ending(error)
        yield from items
        return
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

        The device and what computes there are part of it unless the model's scores are exact.
        """
        found, model = self.options.of_bytes(kind) | {"format": form}, self.model
        if model is not None:
            found |= {"decoder": model.search_decoder, "single_root": model.single_root}
        if model is not None and not model.is_exact:
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
        if kind == JSONL:
            return JsonSource(
                file=file, name=name, keep_heads=self.options.keep_heads, keeps=on_error == "keep",
                split=self.split if self.stages.tokenizer else None,
                first=place.line if place else 1,
            )  # fmt: skip
        return StreamSource(
            file=file, name=name, kind=kind, split=self.split, on_error=on_error, place=place,
            chunk_bytes=None if self.is_native else GPU_CHUNK,
        )  # fmt: skip

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
        return TableSource(
            runs=runs, name=name, file=file, fails=fails, keep_heads=self.options.keep_heads,
            split=self.split if self.stages.tokenizer else None,
            reads_ahead=file is not None and (self.threads > 1 or not self.is_native),
        )  # fmt: skip

    def split(self, chunk: TextChunk) -> bytes:
        """The words of a text as CoNLL-U."""
        return self.split_all([chunk])[0]

    def split_all(self, chunks: Sequence[TextChunk]) -> list[bytes]:
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
        failed, orders, certified, searched = 0, np.zeros(3, np.int64), 0, 0
        n_sentences, has_comments = 0, False
        for ready in self._ready(source, is_checked=is_checked, goes_ahead=True):
            piece = ready.piece
            for warning in piece.treebank.warnings:
                self.tell(warning)
            for hint in piece.hints:
                (self.advise or self.tell)(hint)
            if piece.faults and self.options.on_error == "fail":
                self._refuse(piece.faults, source.unit)
            for fault in piece.faults[: max(0, SHOWN - failed)]:
                self.tell(str(fault))
            failed += len(piece.faults)
            n_sentences += piece.n_sentences
            has_comments |= not piece.n_sentences and b"#" in piece.treebank.data.tobytes()
            result = self._result(ready)
            if result.found is not None and result.found.orders is not None:
                orders += np.bincount(result.found.orders, minlength=len(orders))
            if isinstance(result.found, Predictions) and result.found.certified is not None:
                certified += int(result.found.certified.sum())
                searched += len(result.found.certified)
            yield piece, result
        if has_comments and not n_sentences and getattr(source, "place", None) is None:
            may_be_text = isinstance(source, StreamSource) and self.stages.tokenizer
            how = f"; give {option('input', TEXT)} if it is text" if may_be_text else ""
            (self.advise or self.tell)(f"{source.name}: has comments (#) and no sentences{how}")
        in_misc = has_misc and not isinstance(source, TableSource)
        decoder = self.model.search_decoder if self.model else ""
        for line in long_sentences(decoder, *orders[[LOWER, CHAIN]].tolist(), in_misc=in_misc):
            self.tell(f"{source.name}: {line}")
        if searched:
            self.tell(f"{source.name}: {uncertified(certified, searched, in_misc=in_misc)}")

    def write(
        self, source: Source, target: BinaryIO, progress: Progress, share: ShareRead,
        *, form: str = CONLLU, is_checked: bool = False, name: str = "",
    ) -> Counts:  # fmt: skip
        """Parse an input into a file.

        Args:
            form: the format of the output: JSONL, that of the table that is the input, or CONLLU.
            name: of the output, which is compressed if it says so.
        Returns: the numbers of sentences or rows, and of those that are not sound.
        Raises: as `results`.
        """
        n_sentences = failed = 0
        found = self.results(source, is_checked=is_checked, has_misc=form == CONLLU)
        with compressed(target, name) as file, self._sink(source, file, form) as write:
            for piece, result in found:
                write(piece, result)
                target.flush()  # for a reader that waits; flushing a compressor adds bytes
                n_sentences += piece.n_sentences
                failed += len(piece.faults)
                progress.advance(piece.n_sentences, fraction=share.after(piece.size))
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

    @contextmanager
    def _sink(
        self, source: Source, target: BinaryIO, form: str
    ) -> Iterator[Callable[[Piece, Result], object]]:
        """A function that writes results into a file, in a format."""
        if form == JSONL:
            as_lines = self.as_json_lines
            assert as_lines
            yield lambda piece, result: target.write(as_lines(piece, result))
            return
        if not isinstance(source, TableSource):
            yield lambda _, result: target.write(result.text)
            return
        nothing = source.piece(source.file.schema.empty_table(), 0)
        [ready] = self._annotated(iter([nothing]), None)
        schema = table_of(ready.piece, self._result(ready)).schema
        with table_writer(target, source.file, schema) as writer:
            yield lambda piece, result: writer.write(table_of(piece, result))

    def _check_beginning(self, source: Source) -> None:
        """Check the columns of the first sentences of an input, for all its shards."""
        for ready in self._ready(source):
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

    def _refuse(self, faults: list[DataError], what: str) -> None:
        n_more = len(faults) - 1
        more = f" (and {plural(n_more, f'more such {what}')})" if n_more else ""
        how = option("on_error", "skip", "keep")
        advice = f"; {how} passes over them" if self.may_pass_over else ""
        raise DataError(f"{faults[0]}{more}{advice}")

    def _ready(
        self, source: Source, *, is_checked: bool = False, goes_ahead: bool = False
    ) -> Iterator[_Ready]:
        """The pieces of a source; the columns of the first one with words are checked.

        Args: goes_ahead: whether the next piece may be read while one is parsed; for a GPU it is
            encoded and transferred then, too.
        """
        guides = None if self.options.guide is None else Guides(self.options.guide)
        pieces = source.pieces()
        ready = self._annotated(
            ahead(pieces) if goes_ahead and source.reads_ahead else pieces, guides
        )
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

    def annotated(self, source: Source) -> Iterator[tuple[Piece, np.ndarray | None]]:
        """An input as the parser gets it, piece by piece: with tags and lemmas; and its guides.

        Columns that the parser itself fills are left as they are: it does not read them.

        Raises: DataError: as `results`.
        """
        job = replace(self, stages=replace(self.stages, filler=None))
        return ((ready.piece, ready.guides) for ready in job._ready(source))

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

    def _result(self, ready: _Ready) -> Result:
        """The result for a piece."""
        treebank, model = ready.piece.treebank, self.model
        if model is None:
            found, names, kept = None, [], None
        else:
            kept = kept_of(treebank) if self.options.keep_heads else None
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
        asked = self.options
        search: Callable[..., Predictions | KBest]
        if asked.kbest is not None:
            search = partial(
                find_k_best_trees, self.parser, k=asked.kbest, probabilities=asked.probabilities
            )
        elif asked.probabilities or asked.mbr:
            search = partial(
                parse_with_confidence, self.parser, probabilities=asked.probabilities,
                least_risk=asked.mbr,
            )  # fmt: skip
        else:
            search = partial(self.parser.parse, batch=batch, sent=sent)
        return search(
            treebank=chunk, guides=guides, known=None if kept is None else kept.heads,
            batch_size=self.batch_size, threads=self.threads, device=self.device,
            engine=self.engine,
        )  # fmt: skip


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
