"""Parsing from Python: a trained parser, loaded once, that takes what Python programs have."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from gpuparse.api.results import Parsed, ParsedSentence, Reasons
from gpuparse.confidence import KBest
from gpuparse.data.arrow_tables import is_arrow, read_rows
from gpuparse.data.conll import MAX_LINE, OnError, treebank_from_bytes
from gpuparse.data.guides import Guides
from gpuparse.data.sentences import (
    EXAMPLE,
    GIVEN,
    Columns,
    as_conllu,
    is_pandas,
    read_sentences,
    table_rows,
    tags_in,
)
from gpuparse.data.table_files import AUTO, TableFile, check_output_name, format_of, is_table
from gpuparse.data.treebank import Treebank
from gpuparse.engines.admission import default_batch_size
from gpuparse.errors import ConfigError, DataError, plural
from gpuparse.extras import require
from gpuparse.files import replace_file, unchanged
from gpuparse.jobs.options import PYTHON, ParseOptions, device_of_parsing
from gpuparse.jobs.parse import GPU_CHUNK, Job, Share, missing_columns, read_chunks
from gpuparse.jobs.predictions import EMPTY, Found, kept_of, written, written_k_best
from gpuparse.jobs.progress import Progress, silent
from gpuparse.jobs.resources import thread_count
from gpuparse.jobs.shards import Counts
from gpuparse.jobs.tables import TableJob
from gpuparse.model_folder import load_parser, pack_parser, unpack_parser
from gpuparse.parser import Parser
from gpuparse.pipeline import NO_STAGES, Pipeline, load_stages, unpack_stages
from gpuparse.text.reader import text_chunk

# What to do about columns that are missing.
GIVE_COLUMNS = "give it, or load the model with allow_missing=True to parse without"
BATCH = 1000  # sentences of an iterable that `stream` parses at a time
_TEXT = "text"  # the name of CoNLL-U text in messages
_SENTENCES = "sentences"  # of Python objects
_FIELDS = {2: "lemma", 3: "upos", 4: "xpos", 5: "feats"}  # names of columns in Python


def load(
    folder: str | os.PathLike[str],
    *,
    threads: int = 0,
    device: str = "cpu",
    backend: str = "auto",
    allow_missing: bool = False,
    single_root: bool = False,
) -> SentenceParser:
    """Load a trained parser, with its tokeniser, tagger and lemmatiser if it has them.

    Nothing in its folder is executed, whoever made it.

    Args:
        folder: the folder that training wrote; `~` is the home folder.
        threads: CPU threads of each call of `parse`; 0: all processors of this process.
        device: "cpu", "cuda", or "auto": CUDA if it works. The parses are the same. Torch is
            imported for CUDA only.
        backend: "auto", "cpu" (native code), "torch", or "gpu" (Triton kernels).
        allow_missing: whether to parse sentences without tags, lemmas or features that the model
            reads; the parses are worse.
        single_root: exactly one word of each sentence is attached to the root, even if the training
            trees had several.
    Raises: ModelError: the folder has no model, or it is damaged. ConfigError: an option that does
        not exist or cannot be used here.
    Cost: one pass over the model's files.

    >>> parser = gpuparse.load("runs/quickstart")
    >>> she = {"form": ["She", "sings"], "upos": ["PRON", "VERB"], "xpos": ["PRP", "VBZ"]}
    >>> parser.parse([she])[0].heads
    [2, 0]
    """
    if not isinstance(folder, (str, os.PathLike)) or not os.fspath(folder):
        raise ConfigError(f"load() takes the folder that training wrote, and not {folder!r}")
    path = Path(folder).expanduser()
    model = load_parser(path)
    model = model.with_single_root() if single_root else model
    return SentenceParser(
        model, name=os.fspath(folder), stages=load_stages(path), threads=threads,
        device=device, backend=backend, allow_missing=allow_missing,
    )  # fmt: skip


class SentenceParser:
    """A trained parser, as `gpuparse.load` returns it.

    Several threads may use it at once. It can be pickled (the pickle has the model's files as
    bytes, not the folder's name) and used in processes started by fork or spawn.
    """

    def __init__(
        self,
        model: Parser,
        *,
        name: str,
        stages: Pipeline = NO_STAGES,
        threads: int = 0,
        device: str = "cpu",
        backend: str = "auto",
        allow_missing: bool = False,
    ) -> None:
        """`load` is the way to make one; name: of the model in messages."""
        self._stages = stages
        self._model, self._name, self._allow_missing = model, name, allow_missing
        self._asked = {"threads": threads, "device": device, "backend": backend}
        self._threads = thread_count(threads)
        self._device, self._is_native = device_of_parsing(
            model, ParseOptions(), device, backend, PYTHON, silent
        )
        self._warned: set[str] = set()

    @property
    def labels(self) -> list[str]:
        """The relations that it knows; none for a parser of heads only."""
        return list(self._model.labels)

    @property
    def decoder(self) -> str:
        """The name of its decoder."""
        return self._model.search_decoder

    @property
    def columns(self) -> list[str]:
        """The columns that it reads beside `form`, such as `upos`, and cannot fill in itself."""
        read = self._model.reads
        return [
            name
            for column, name in _FIELDS.items()
            if column in read and column not in self._stages.columns
        ]

    @property
    def config(self) -> str:
        """The YAML text of the config that it was trained with."""
        return self._model.config

    def __repr__(self) -> str:
        return (
            f"<SentenceParser: {self._name}, {self.decoder},"
            f" {plural(len(self.labels), 'relation')}>"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        options = self._asked | {"allow_missing": self._allow_missing}
        files = pack_parser(self._model), self._stages.pack()
        return _unpickled, (*files, self._model.single_root, self._name, options)

    def parse(
        self,
        sentences: Any,
        *,
        probabilities: bool = False,
        mbr: bool = False,
        kbest: int | None = None,
        keep_heads: bool = False,
        guide: str | None = None,
        keep: str | None = None,
        deps: str = EMPTY,
    ) -> Parsed:
        r"""Parse sentences.

        Args:
            sentences: one of

                - a list of sentences, each a list of words, of (word, tag) pairs, or of dicts
                  with the keys form, lemma, upos, xpos, feats, head, deprel, misc;
                - CoNLL-U text, as str or bytes;
                - an Arrow table, a pandas frame or a dict of columns: one row per sentence, each
                  column (form, lemma, upos, xpos, feats, ...) with a list per row.

                A tag of a pair is the coarse or fine one, whichever the model knows.
            probabilities: whether to compute the probabilities of heads and relations, and of the
                tags that the model fills in.
            mbr: whether to find minimum Bayes risk trees instead of the best ones.
            kbest: how many trees to find for each sentence; see `ParsedSentence.trees`.
            keep_heads: whether to keep the heads that the sentences have, and their relations.
            guide: of models with guide features: `misc:KEY`.
            keep: "tags": a model with a tagger or a lemmatiser keeps the tags, features and lemmas
                that are given, and fills in those that are missing; None: it predicts all anew.
            deps: what a parser of trees writes into DEPS, whose arcs in the input are of other
                trees: "empty": nothing; "tree": the head and the relation of each word.
        Returns: the parsed sentences, as many as were given; a sentence without words has none.
        Raises:
            DataError: sentences that cannot be read; columns that the model reads are missing.
            ConfigError: the decoder has no probabilities or k best trees; options that do not fit.
        Cost: that of the command `parse`, and for dicts and frames one or two us per word.

        >>> she = {"form": ["She", "sings"], "upos": ["PRON", "VERB"], "xpos": ["PRP", "VBZ"]}
        >>> [sentence] = parser.parse([she], probabilities=True)
        >>> sentence.heads, sentence.deprels
        ([2, 0], ['nsubj', 'root'])
        >>> print(sentence)
        ╭──► She    nsubj
        ╰─── sings  root
        >>> parser.parse([[{"form": "No", "upos": "INTJ", "xpos": "UH"}]])[0].heads
        [0]
        >>> parser.parse("1\tNo\t_\tINTJ\tUH\t_\t_\t_\t_\t_\n\n")[0].heads
        [0]
        """
        job = self._job(probabilities, mbr, kbest, keep_heads, guide, keep, deps)
        if isinstance(sentences, (str, bytes)):
            treebank = treebank_from_bytes(_as_text(sentences, "parse()"), _TEXT)
            return self._parsed(job, treebank, np.diff(treebank.word_starts))
        if is_arrow(sentences):
            return self._parsed_table(job, sentences)
        rows = table_rows(sentences)
        table = sentences if is_pandas(sentences) else None
        read = read_sentences(_iterable(sentences) if rows is None else rows, keep_heads=keep_heads)
        return self._parsed_columns(job, read, self._tag_field(read), table=table)

    def parse_text(
        self,
        text: str,
        *,
        probabilities: bool = False,
        mbr: bool = False,
        kbest: int | None = None,
        deps: str = EMPTY,
    ) -> Parsed:
        """Split raw text into sentences and words, and parse them.

        Args:
            text: paragraphs are separated by empty lines.
            Other arguments: see `parse`.
        Raises:
            ConfigError: the model has no tokeniser, or as `parse`.
            DataError: NUL in the text, or too much white space.
        Cost: that of the command `parse`.
        """
        if self._stages.tokenizer is None:
            raise ConfigError(
                f"{self._name}: has no tokeniser: train a model with tokenizer.learn=true, or give"
                " words to parse()"
            )
        if not isinstance(text, str):
            raise DataError(f"parse_text() takes a str, and not {type(text).__name__}")
        if text.endswith(".txt") and os.path.isfile(text):
            warnings.warn(
                f"parse_text() parses the words {text!r}; stream({text!r}) parses that file",
                stacklevel=2,
            )
        try:
            chunk = text_chunk(text.encode(), _TEXT)
        except UnicodeEncodeError as error:
            raise DataError(f"parse_text(): an unpaired surrogate at {error.start}") from error
        tokens = self._stages.tokenizer.split(chunk, threads=self._threads)
        return self.parse(tokens, probabilities=probabilities, mbr=mbr, kbest=kbest, deps=deps)

    def stream(
        self,
        source: str | os.PathLike[str] | Iterable[Any],
        *,
        probabilities: bool = False,
        mbr: bool = False,
        kbest: int | None = None,
        keep_heads: bool = False,
        guide: str | None = None,
        keep: str | None = None,
        deps: str = EMPTY,
        input: str = AUTO,
    ) -> Iterator[ParsedSentence]:
        """Parse a file, or any iterable of sentences, in memory that does not grow with it.

        Args:
            source: the path of a file; or sentences as `parse` takes them in lists, read as they
                are needed, 1,000 at a time.
            input: the format of the file; see `parse_file`.
            Other arguments: see `parse`.
        Returns: an iterator over the parsed sentences; nothing is read before the first is asked
            for.
        Raises: as `parse`, when the sentences are reached.

        >>> she = {"form": ["She", "sings"], "upos": ["PRON", "VERB"], "xpos": ["PRP", "VBZ"]}
        >>> [sentence.heads for sentence in parser.stream(she for _ in range(3))]
        [[2, 0], [2, 0], [2, 0]]
        """
        job = self._job(probabilities, mbr, kbest, keep_heads, guide, keep, deps)
        if isinstance(source, (str, os.PathLike)):
            kind = format_of(os.fspath(source), input)
            if is_table(kind):
                return self._stream_table_file(job, os.fspath(source), kind)
            job.options.check_input(kind, os.fspath(source), self._name, self._stages, PYTHON)
            return self._stream_file(job, source, kind)
        if is_arrow(source):
            return self._stream_table(job, source)
        rows = table_rows(source)
        return self._stream_sentences(job, _iterable(source) if rows is None else rows, keep_heads)

    def parse_file(
        self,
        source: str | os.PathLike[str],
        target: str | os.PathLike[str],
        *,
        probabilities: bool = False,
        mbr: bool = False,
        kbest: int | None = None,
        keep_heads: bool = False,
        guide: str | None = None,
        keep: str | None = None,
        deps: str = EMPTY,
        input: str = AUTO,
        on_error: OnError = "fail",
        force: bool = False,
    ) -> Counts:
        r"""Parse a file into a file, with the bytes that the command `parse` writes.

        Args:
            source: the path of a file.
            target: the path of the output: a table for a table, CoNLL-U for other formats. It
                appears when it is complete.
            input: the format of the source: "conllu" (CoNLL-X too), "text" for models with a
                tokeniser, "vertical" (one word per line), "parquet", "arrow"; "auto": by the suffix
                (.txt, .parquet, .arrow, ...), conllu for others.
            on_error: what is done about a malformed sentence: "fail": an error; "skip": it is left
                out; "keep": it is passed through, in a table with nulls.
            force: whether an existing target may be replaced.
            Other arguments: see `parse`.
        Returns: the numbers of sentences and of malformed ones.
        Raises: as `parse`; ConfigError: the target exists, or is the source; OSError: it cannot be
            written.
        Cost: that of the command, in memory that does not grow with the file.

        >>> from pathlib import Path
        >>> n_bytes = Path("no.conllu").write_text("1\tNo\t_\tINTJ\tUH\t_\t_\t_\t_\t_\n\n")
        >>> parser.parse_file("no.conllu", "parsed.conllu", force=True)
        Counts(sentences=1, faults=0)
        """
        job = self._job(probabilities, mbr, kbest, keep_heads, guide, keep, deps, on_error)
        name = os.fspath(source)
        kind = format_of(name, input)
        if is_table(kind):
            require(f"{name}: a table", "pyarrow.parquet")
            if kbest is not None:
                raise ConfigError("kbest: a table has one tree per row; give CoNLL-U, or use parse")
        else:
            job.options.check_input(kind, name, self._name, self._stages, PYTHON)
        check_output_name(os.fspath(target), kind)
        output, progress = Path(target), Progress("parsing", quiet=True)
        with _opened(name) as file, unchanged(file, name):
            if output.exists() and output.samefile(name):
                raise ConfigError(f"{name}: would be replaced by its own output; name another one")
            with replace_file(output, force=force) as written_to:
                if not is_table(kind):
                    share = Share(0)
                    return job.parse(file, name, written_to, progress, share, kind=kind)
                table = TableFile(file, name, kind, threads=self._threads > 1)
                return TableJob(job, table).parse(table.runs(), written_to, progress, Share(0))

    def explain(
        self, sentence: Any, word: int, *, instead: int | None = None, guide: str | None = None,
        keep: str | None = None,
    ) -> Reasons:  # fmt: skip
        """Say why a word has its head and not another, template by template.

        With a parser of graphs: why it has these heads; see `gpuparse.explaining.explain`.

        Args:
            sentence: one sentence, as `parse` takes it in a list, or CoNLL-U text.
            word: counted from 1.
            instead: the other head, 0 for the root; None: that of the best tree in which the word
                has another head. Of graphs: a head that the other graph has too, or instead, or
                leaves out if the word has it.
            guide: of models with guide features: `misc:KEY`.
            keep: see `parse`.
        Returns: the reasons; their weights add up to the scores of both trees exactly.
        Raises: as `parse`; ConfigError: no such word or head. NoTreeError:
            no tree or graph has the other head. ResourceError: the sentence is too long.
        Cost: two searches, or one for each possible head.

        >>> she = {"form": ["She", "sings"], "upos": ["PRON", "VERB"], "xpos": ["PRP", "VBZ"]}
        >>> reasons = parser.explain(she, 1)
        >>> reasons.head, reasons.other_head
        (2, 0)
        >>> tree = reasons.to_dict()["tree"]
        >>> sum(line["difference"] for line in tree["lines"]) == tree["difference"]
        True
        """
        from gpuparse.explaining import explain

        if isinstance(sentence, (str, bytes)):
            treebank = treebank_from_bytes(_as_text(sentence, "explain()"), _TEXT)
        else:
            read = read_sentences([sentence], keep_heads=False)
            text = as_conllu(read, self._tag_field(read), 0)
            treebank = treebank_from_bytes(text, _SENTENCES)
        if len(treebank) != 1:
            raise DataError(f"explain() takes one sentence with words, and not {len(treebank)}")
        options = ParseOptions(guide=guide, keep=keep)
        _check_guide(guide)
        options.check(self._model, self._stages, self._name, PYTHON)
        treebank = self._stages.annotate(treebank, keep=options.keeps_tags)
        self._check_columns(treebank)
        guides = None if guide is None else Guides(guide).of(treebank)
        return Reasons(explain(self._model, treebank, 1, word, instead=instead, guides=guides))

    def _stream_file(
        self, job: Job, path: str | os.PathLike[str], kind: str
    ) -> Iterator[ParsedSentence]:
        name = os.fspath(path)
        guides = None if job.options.guide is None else Guides(job.options.guide)
        is_checked = False
        with _opened(name) as file, unchanged(file, name):
            for chunk in read_chunks(
                file, name, kind, self._stages.tokenizer, on_error="fail", max_line=MAX_LINE,
                threads=self._threads, chunk_bytes=None if self._is_native else GPU_CHUNK,
                ranges=False,
            ):  # fmt: skip
                counts = np.diff(chunk.word_starts)
                yield from self._parsed(job, chunk, counts, guides=guides, is_checked=is_checked)
                is_checked |= chunk.n_words > 0

    def _stream_sentences(
        self, job: Job, sentences: Iterable[Any], keep_heads: bool
    ) -> Iterator[ParsedSentence]:
        left, first, tag_field = iter(sentences), 0, ""
        while batch := list(islice(left, BATCH)):
            read = read_sentences(batch, keep_heads=keep_heads, first=first)
            is_checked = bool(tag_field)
            if not tag_field and any(columns["form"] for columns in read):
                tag_field = self._tag_field(read)
            yield from self._parsed_columns(
                job, read, tag_field or "upos", first=first, is_checked=is_checked
            )
            first += len(batch)

    def _stream_table(self, job: Job, table: Any) -> Iterator[ParsedSentence]:
        is_checked = False
        for first in range(0, table.num_rows, BATCH):
            parsed = self._parsed_table(job, table.slice(first, BATCH), first, is_checked)
            is_checked |= any(map(len, parsed))
            yield from parsed

    def _stream_table_file(self, job: Job, name: str, kind: str) -> Iterator[ParsedSentence]:
        require(f"{name}: a table", "pyarrow.parquet")
        is_checked = False
        with _opened(name) as file, unchanged(file, name):
            source = TableFile(file, name, kind, threads=self._threads > 1)
            for first, table in source.runs():
                parsed = self._parsed_table(job, table, first, is_checked)
                is_checked |= any(map(len, parsed))
                yield from parsed

    def _job(
        self, probabilities: bool, mbr: bool, kbest: int | None, keep_heads: bool,
        guide: str | None, keep: str | None, deps: str, on_error: OnError = "fail",
    ) -> Job:  # fmt: skip
        """How to parse, as the command has it."""
        options = ParseOptions(
            probabilities=probabilities, mbr=mbr, kbest=kbest, keep_heads=keep_heads, guide=guide,
            keep=keep, deps=deps, on_error=on_error, allow_missing=self._allow_missing,
        )  # fmt: skip
        _check_guide(guide)
        notes = options.check(self._model, self._stages, self._name, PYTHON)
        if (probabilities or mbr or kbest is not None) and not self._is_native:
            raise ConfigError(
                "probabilities, mbr and kbest are computed by native code on the CPU: load the"
                ' model with device="cpu" and backend="auto"'
            )
        for note in notes:
            if note not in self._warned:
                self._warned.add(note)
                warnings.warn(f"{self._name}: {note}", stacklevel=3)
        return Job(
            model=self._model,
            stages=self._stages,
            options=options,
            door=PYTHON,
            batch_size=default_batch_size(self._device),
            threads=self._threads,
            device=self._device,
            backend=self._asked_backend,
            is_native=self._is_native,
            tell=silent,
        )

    @property
    def _asked_backend(self) -> str:
        return str(self._asked["backend"])

    def _parsed_columns(
        self, job: Job, read: list[Columns], tag_field: str, *,
        table: Any = None, first: int = 0, is_checked: bool = False,
    ) -> Parsed:  # fmt: skip
        text = as_conllu(read, tag_field, first)
        treebank = treebank_from_bytes(text, _SENTENCES)
        counts = np.array([len(columns["form"]) for columns in read], np.int64)
        return self._parsed(job, treebank, counts, table=table, is_checked=is_checked)

    def _parsed_table(
        self, job: Job, table: Any, first: int = 0, is_checked: bool = False
    ) -> Parsed:
        """Of an Arrow table, whose first row has a number in messages."""
        read = read_rows(table, _SENTENCES, keep_heads=job.options.keep_heads, first=first)
        for row, fault in read.faults.items():
            raise DataError(f"{_SENTENCES}[{first + row}]{fault}")
        return self._parsed(job, read.treebank, read.counts, table=table, is_checked=is_checked)

    def _parsed(
        self, job: Job, treebank: Treebank, counts: np.ndarray, *,
        table: Any = None, guides: Guides | None = None, is_checked: bool = False,
    ) -> Parsed:  # fmt: skip
        treebank, of_tags = job.annotate(treebank)
        if not is_checked:
            self._check_columns(treebank)
        kept = None
        if job.options.keep_heads:
            unkept, _ = job.unkept(treebank)
            if unkept:
                raise unkept[0]
            kept = kept_of(treebank)
        if guides is None and job.options.guide is not None:
            guides = Guides(job.options.guide)
        found = job.find(treebank, kept, None if guides is None else guides.of(treebank))
        if isinstance(found, KBest):
            text = written_k_best(self._model, treebank, found, kept, of_tags, job.options.deps)
        else:
            text = written(self._model, treebank, found, kept, of_tags, job.options.deps)
        as_arrays = Found.of(found, self._model.label_names, kept, of_tags)
        return Parsed(
            treebank, as_arrays, text, counts, table, self._stages.columns, job.options.deps
        )  # fmt: skip

    def _check_columns(self, treebank: Treebank) -> None:
        """Refuse sentences without a column that the model reads: their trees would be worse."""
        missing = missing_columns(treebank, self._model, self._stages)
        if missing and not self._allow_missing:
            raise DataError(
                "\n".join(
                    f"{treebank.source}: {_FIELDS[column]} is missing in all of the"
                    f" {plural(treebank.n_words, 'word')}, but the model reads {fields} there:"
                    f" {GIVE_COLUMNS}"
                    for column, fields in missing.items()
                )
            )

    def _tag_field(self, read: list[Columns]) -> str:
        """Which column the tags of (word, tag) pairs are of: the one that the model knows best."""
        if not self._model.has_templates:
            return _FIELDS[min(self._model.reads.keys() & {3, 4}, default=3)]
        tags, vocabularies = tags_in(read) - {"_"}, self._model.linear.vocabularies
        known: dict[int, set[str]] = {}
        for field, values in vocabularies.values.items():
            if field in ("pos", "cpos"):
                known[vocabularies.column(field)] = set(values)
        if not tags or not known:
            return _FIELDS[vocabularies.pos_column]
        shares = {column: len(tags & values) for column, values in known.items()}
        best = max(shares, key=lambda column: (shares[column], column == vocabularies.pos_column))
        if not shares[best] and not self._allow_missing:
            expected = ", ".join(sorted(known[best])[:5])
            raise DataError(
                f"the model knows none of the tags {', '.join(sorted(tags)[:5])}: it was trained"
                f" with tags such as {expected}"
            )
        return _FIELDS[best]


def _unpickled(
    files: dict[str, bytes],
    stages: dict[str, bytes],
    single_root: bool,
    name: str,
    options: dict[str, Any],
) -> SentenceParser:
    """The parser of a pickle."""
    model = unpack_parser(files, Path(name))
    if single_root and not model.single_root:
        model = model.with_single_root()
    return SentenceParser(model, name=name, stages=unpack_stages(stages, Path(name)), **options)


_TAKEN = {  # besides CoNLL-U text
    "parse()": f"a list of sentences, each {GIVEN}, as in {EXAMPLE}",
    "explain()": f"a sentence, which is {GIVEN}",
}


def _check_guide(guide: str | None) -> None:
    """ConfigError for guides that are not in the sentences."""
    if guide is not None and not guide.startswith("misc:"):
        raise ConfigError(f"guide: expected misc:KEY, not {guide!r}")


def _as_text(sentences: str | bytes, method: str) -> bytes:
    """CoNLL-U as bytes; DataError for text that is none. method: of the class, in messages."""
    try:
        text = sentences.encode() if isinstance(sentences, str) else sentences
    except UnicodeEncodeError as error:
        raise DataError(f"{method}: an unpaired surrogate at {error.start}") from error
    if b"\t" not in text and text.strip():
        raise DataError(
            f"{method} takes {_TAKEN[method]}, or CoNLL-U text"
            f" with ten columns between tabs, and not {text[:40].decode(errors='replace')!r}."
            " Plain text is for parse_text(), of a model with a tokeniser;"
            " for a file there is stream(path)"
        )
    return text


def _iterable(sentences: Any) -> Iterable[Any]:
    """The sentences; DataError for anything else."""
    if isinstance(sentences, Iterable) and not isinstance(sentences, (str, bytes, os.PathLike)):
        return sentences
    what = f"{type(sentences).__name__} {sentences!r}"[:60]
    raise DataError(
        f"expected a list of sentences, each {GIVEN}, as in {EXAMPLE}; CoNLL-U text, an Arrow table"
        f" or a pandas frame; not {what}; for a file there is stream(path)"
    )


@contextmanager
def _opened(name: str) -> Iterator[BinaryIO]:
    """A file for reading; DataError if there is none."""
    try:
        file = open(name, "rb")  # noqa: SIM115 (closed below)
    except OSError as error:
        raise DataError(f"{name}: cannot be read: {error.strerror}; check the path") from error
    with file:
        yield file
