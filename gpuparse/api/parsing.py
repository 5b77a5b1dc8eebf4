"""Parsing from Python: a trained parser, loaded once, that takes what Python programs have."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, islice, repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypedDict, Unpack

from gpuparse.api.json_lines import as_json_lines
from gpuparse.api.results import Parsed, ParsedSentence
from gpuparse.data.conll import OnError
from gpuparse.data.formats.arrow_tables import frame_of_texts, has_texts, is_arrow
from gpuparse.data.formats.json_lines import file_format, first_line, is_object
from gpuparse.data.formats.names import (
    AUTO,
    TEXT,
    WORDS_ALONE,
    check_output_folder,
    inputs_below,
    is_raw_text,
    is_table,
    output_format,
    outputs_of,
)
from gpuparse.data.formats.objects import (
    EXAMPLE,
    GIVEN,
    Columns,
    is_pandas,
    shown,
    table_rows,
    tags_in,
)
from gpuparse.data.formats.sources import (
    BATCH,
    SENTENCES,
    BytesSource,
    DocumentSource,
    ObjectSource,
    Rows,
    Source,
)
from gpuparse.data.formats.text import line_hints, text_chunk
from gpuparse.data.scanner import ScannedText
from gpuparse.errors import ConfigError, DataError, ModelError, plural, require
from gpuparse.files import check_new_file, input_file, replace_file
from gpuparse.jobs.options import ParseOptions, device_of_parsing
from gpuparse.jobs.parse import Job, ShareRead
from gpuparse.jobs.predictions import EMPTY
from gpuparse.jobs.progress import Progress, silent
from gpuparse.jobs.resources import thread_count
from gpuparse.jobs.shards import Counts
from gpuparse.model.engines.admission import default_batch_size
from gpuparse.model.folder import load_parser, pack_parser, unpack_parser
from gpuparse.model.installed import find_model
from gpuparse.model.parser import Parser
from gpuparse.model.pipeline import FILES, NO_STAGES, Pipeline, load_stages, unpack_stages

if TYPE_CHECKING:
    from gpuparse.api.reasons import Reasons

_TEXT = "text"  # the name of CoNLL-U text in messages
_MOST_JOBS = 64
_PLAIN = ParseOptions()
_FIELDS = {2: "lemma", 3: "upos", 4: "xpos", 5: "feats"}  # names of columns in Python


def load(
    folder: str | os.PathLike[str],
    *,
    threads: int = 0,
    device: str = "cpu",
    engine: str = "auto",
    allow_missing: bool = False,
    single_root: bool = False,
) -> SentenceParser:
    """Load a trained parser, with its tokeniser, tagger and lemmatiser if it has them.

    Nothing in its folder is executed, whoever made it.

    Args:
        folder: the folder that training wrote, where `~` is the home folder; or the name of an
            installed model, such as "english".
        threads: CPU threads of each call of `parse`; 0: all processors of this process.
        device: "cpu", "cuda", or "auto": CUDA if it works. The parses are the same, but for a few
            heads of models with an encoder. Torch is imported for CUDA only.
        engine: "auto", "native", "torch", or "triton".
        allow_missing: whether to parse sentences without tags, lemmas or features that the model
            reads; the parses are worse.
        single_root: exactly one word of each sentence is attached to the root, even if the training
            trees had several.
    Raises: ModelError: the folder has no model, or it is damaged. ConfigError: an option that does
        not exist or cannot be used here.
    Cost: one pass over the model's files the first time that a user loads it, less after that.

    >>> parser = gpuparse.load("runs/quickstart")
    >>> she = {"form": ["She", "sings"], "upos": ["PRON", "VERB"], "xpos": ["PRP", "VBZ"]}
    >>> parser.parse([she])[0].heads
    [2, 0]
    """
    if not isinstance(folder, (str, os.PathLike)) or not os.fspath(folder):
        raise ConfigError(f"load() takes a folder that training wrote, or a name, not {folder!r}")
    options = LoadOptions(threads, device, engine, allow_missing=allow_missing)
    return SentenceParser.of_folder(folder, options, single_root=single_root)


@dataclass(frozen=True)
class LoadOptions:
    """The options of `load`.

    to_allow_missing, to_give_columns: see Job; other doors say it in their words.
    """

    threads: int = 0
    device: str = "cpu"
    engine: str = "auto"
    allow_missing: bool = False
    to_allow_missing: str = "load the model with allow_missing=True"
    to_give_columns: str = "fill it in"


class ParseArguments(TypedDict, total=False):
    """The options that `SentenceParser.parse` describes."""

    probabilities: bool
    mbr: bool
    kbest: int | None
    keep_heads: bool
    guide: str | None
    keep: str | None
    deps: str


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
        options: LoadOptions | None = None,
    ) -> None:
        """`load` is the way to make one. name: of the model in messages."""
        self._stages = stages.filled_by(model)
        self._model, self._name, self._options = model, name, options or LoadOptions()
        self._threads = thread_count(self._options.threads)
        self._device, self._is_native = device_of_parsing(
            model, self._options.device, self._options.engine, silent
        )
        self._warned: set[str] = set()
        self._jobs: dict[tuple[ParseOptions, bool], Job] = {}

    @classmethod
    def of_folder(
        cls, folder: str | os.PathLike[str], options: LoadOptions, *, single_root: bool = False
    ) -> Self:
        """The parser that `load` returns, for doors of other programs. Raises: as `load`."""
        path = find_model(folder)
        model = load_parser(path)
        model = model.with_single_root() if single_root else model
        return cls(model, name=os.fspath(folder), stages=load_stages(path), options=options)

    @classmethod
    def of_files(
        cls, files: Mapping[str, bytes], name: str, options: LoadOptions | None = None
    ) -> Self:
        """The parser of files that `files` returned.

        Args: name: of the model in messages.
        Raises: ModelError: a file is missing or damaged. ConfigError: as `load`.
        """
        folder = Path(name)
        try:
            model = unpack_parser(files, folder)
            packed = {stage: files[file] for stage, file in FILES.items() if file in files}
            stages = unpack_stages(packed, folder)
        except (TypeError, KeyError, AttributeError) as error:
            raise ModelError(f"{name}: files of a model are missing: {error}") from error
        return cls(model, name=name, stages=stages, options=options)

    def files(self) -> dict[str, bytes]:
        """The files of its model's folder by name; `of_files` reads them."""
        stages = self._stages.pack()
        return pack_parser(self._model) | {FILES[name]: stages[name] for name in stages}

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
        return type(self).of_files, (self.files(), self._name, self._options)

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
                  column (form, lemma, upos, xpos, feats, ...) with a list per row;
                - of models with a tokeniser, an Arrow table or a pandas frame with a column
                  `text` of raw texts and none `form`: one row per document, whose name is in the
                  column `id`, or is the number of the row.

                A tag of a pair is the coarse or the fine one: the one that the model knows.
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
        Returns: one parsed sentence for each that was given; a sentence without words has no words.
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
        asked = ParseOptions(
            probabilities=probabilities, mbr=mbr, kbest=kbest, keep_heads=keep_heads, guide=guide,
            keep=keep, deps=deps,
        )  # fmt: skip
        job = self.job(asked)
        table = sentences if is_pandas(sentences) else None
        [parsed] = self._parsed(job, self._source(job, sentences, batch=None), table)
        return parsed

    def parse_text(
        self,
        text: str | Sequence[str],
        *,
        ids: Iterable[Any] | None = None,
        probabilities: bool = False,
        mbr: bool = False,
        kbest: int | None = None,
        deps: str = EMPTY,
    ) -> Parsed:
        """Split raw text into sentences and words, and parse them.

        Args:
            text: paragraphs are separated by empty lines; or a list of texts, one per document.
            ids: of a list of texts: the names of the documents, for `Parsed.documents` and
                `# newdoc id`; None: their numbers, from 0.
            Other arguments: see `parse`.
        Returns: the sentences of all texts.
        Raises:
            ConfigError: the model has no tokeniser, or as `parse`.
            DataError: NUL in a text, or too much white space; two texts with one name.
        Cost: that of the command `parse`.
        """
        if self._stages.tokenizer is None:
            raise ConfigError(
                f"{self._name}: has no tokeniser: train a model with tokenizer.learn=true, or give"
                " words to parse()"
            )
        asked = ParseOptions(probabilities=probabilities, mbr=mbr, kbest=kbest, deps=deps)
        job = self.job(asked)
        if isinstance(text, str):
            if ids is not None:
                raise ConfigError("ids: names of a list of texts, and not of one text")
            words = self._split(job, text)
            hints = line_hints(text.encode(), words.text.count(b"\n\n"), "give a list of the lines")
            named = [f"{_TEXT}: {hint}" for hint in hints]
            source: Source = BytesSource(text=words, name=_TEXT, hints=named)
        else:
            texts = _checked_texts(text)
            names = list(range(len(texts)) if ids is None else ids)
            if len(names) != len(texts):
                raise ConfigError(f"ids: {len(names)} names of {plural(len(texts), 'text')}")
            documents = zip(names, texts, strict=True)
            source = DocumentSource(documents=documents, split=job.split)
        [parsed] = self._parsed(job, source, is_text=True)
        return parsed

    __call__ = parse_text

    def _split(self, job: Job, text: str) -> ScannedText:
        """The words of a text as CoNLL-U."""
        if text.endswith(".txt") and os.path.isfile(text):
            warnings.warn(
                f"parse_text() parses the words {text!r}; stream({text!r}) parses that file",
                stacklevel=3,
            )
        try:
            chunk = text_chunk(text.encode(), _TEXT)
        except UnicodeEncodeError as error:
            raise DataError(f"parse_text(): an unpaired surrogate at {error.start}") from error
        return job.split(chunk)

    def stream(
        self,
        source: str | os.PathLike[str] | Iterable[Any],
        *,
        input: str = AUTO,
        encoding: str | None = None,
        **asked: Unpack[ParseArguments],
    ) -> Iterator[ParsedSentence]:
        """Parse a file, or any iterable, in memory that does not grow with it.

        Args:
            source: the path of a file or folder; or an iterable, read as it is needed, 1,000 items
                at a time: of sentences as `parse` takes them in lists, or, for models with a
                tokeniser, of raw texts, or of tuples of an identifier and a text, the name of
                `ParsedSentence.document`.
            input: the format of the file; see `parse_file`. "text": an iterable has texts; "auto":
                if its first item is a str or such a tuple.
            encoding: of a file of text, such as "cp1252"; None: UTF-16 if it begins with its
                byte-order mark, else UTF-8.
            asked: the options of `parse`.
        Returns: an iterator over the parsed sentences; nothing is read before the first is asked
            for.
        Raises: as `parse`, when the sentences are reached.

        >>> she = {"form": ["She", "sings"], "upos": ["PRON", "VERB"], "xpos": ["PRP", "VBZ"]}
        >>> [sentence.heads for sentence in parser.stream(she for _ in range(3))]
        [[2, 0], [2, 0], [2, 0]]
        """
        job = self.job(replace(options_of(asked), encoding=encoding))
        if isinstance(source, (str, os.PathLike)):
            name = os.fspath(source)
            files = (
                [os.path.join(name, f) for f in _names_below(name, input)]
                if os.path.isdir(name)
                else [name]
            )
            kinds = [file_format(file, input) for file in files]
            for file, kind in zip(files, kinds, strict=True):
                self._check_kind(job, file, kind, input)
            return chain.from_iterable(map(self._stream_file, repeat(job), files, kinds))
        if encoding is not None:
            raise ConfigError("encoding: is for a file, and not for sentences")
        if input not in (AUTO, TEXT):
            raise ConfigError(f"input: {input!r} is a format of files; an iterable has sentences")
        if is_arrow(source) or is_pandas(source) or isinstance(source, Mapping):
            return chain.from_iterable(self._parsed(job, self._source(job, source, batch=BATCH)))
        return self._stream_items(job, _iterable(source), input)

    def _stream_items(self, job: Job, items: Iterable[Any], input: str) -> Iterator[ParsedSentence]:
        """The results of sentences, or of texts if the first item is one."""
        left = iter(items)
        first = list(islice(left, 1))
        items = chain(first, left)
        if input == TEXT or any(map(self._is_document, first)):
            job.options.check_input(TEXT, "texts", self._name, self._stages)
            given: Source = DocumentSource(
                documents=_documents(items), split=job.split, is_stream=True
            )
        else:
            given = self._source(job, items, batch=BATCH)
        yield from chain.from_iterable(self._parsed(job, given))

    def _is_document(self, item: Any) -> bool:
        """True for a text, or a pair of an identifier and a text."""
        is_pair = isinstance(item, tuple) and len(item) == 2 and isinstance(item[1], str)
        return isinstance(item, str) or bool(is_pair and self._stages.tokenizer)

    def parse_file(
        self,
        source: str | os.PathLike[str],
        target: str | os.PathLike[str],
        *,
        input: str = AUTO,
        on_error: OnError = "fail",
        force: bool = False,
        **asked: Unpack[ParseArguments],
    ) -> Counts:
        r"""Parse a file into a file, with the bytes that the command `parse` writes.

        Args:
            source: the path of a file, or of a folder, whose files are all parsed.
            target: the path of the output: a folder for a folder, JSON lines for .jsonl and for
                JSON lines, a table for a table, CoNLL-U for other formats. A file appears when it
                is complete. It is compressed if its name ends in .gz or .zst, as the source may be.
            input: the format of the source: "conllu" (CoNLL-X too), "text" and "lines" (one
                sentence per line) for models with a tokeniser, "vertical" (one word per line),
                "jsonl", "parquet", "arrow"; "auto": by the suffix, such as .txt or .jsonl, or by a
                first line that is an object of JSON; conllu for others.
            on_error: what is done about a malformed sentence: "fail": an error; "skip": it is left
                out; "keep": it is passed through, in a table with nulls.
            force: whether an existing target may be replaced.
            asked: the options of `parse`.
        Returns: the numbers of sentences and of malformed ones.
        Raises: as `parse`; ConfigError: the target exists, or is the source; OSError: it cannot be
            written.
        Cost: that of the command, in memory that does not grow with the file.

        >>> from pathlib import Path
        >>> n_bytes = Path("no.conllu").write_text("1\tNo\t_\tINTJ\tUH\t_\t_\t_\t_\t_\n\n")
        >>> parser.parse_file("no.conllu", "parsed.conllu", force=True)
        Counts(sentences=1, faults=0)
        """
        job = self.job(replace(options_of(asked), on_error=on_error), may_pass_over=True)
        name = os.fspath(source)
        if not os.path.isdir(name):
            kind = file_format(name, input)
            self._check_kind(job, name, kind, input)
            return self._write_file(job, name, kind, Path(target), force)
        counts = Counts(0, 0)
        for file, kind, output in folder_files(name, target, input):
            output.parent.mkdir(parents=True, exist_ok=True)
            self._check_kind(job, file, kind, input)
            of_file = self._write_file(job, file, kind, output, force)
            counts = Counts(*(a + b for a, b in zip(counts, of_file, strict=True)))
        return counts

    def _write_file(self, job: Job, name: str, kind: str, output: Path, force: bool) -> Counts:
        if is_table(kind) and job.options.kbest is not None:
            raise ConfigError("kbest: a table has one tree per row; give CoNLL-U, or use parse")
        form = output_format(kind, os.fspath(output))
        job.options.check_output(kind, form, name, self._model)
        with input_file(name) as opened:
            given = job.source(opened, name, kind)
            check_new_file(output, force=force, source=name)
            with replace_file(output, force=force) as file:
                progress = Progress("parsing", quiet=True)
                return job.write(given, file, progress, ShareRead(0), form=form, name=output.name)

    def explain(
        self, sentence: Any, word: int, *, instead: int | None = None, guide: str | None = None,
        keep: str | None = None,
    ) -> Reasons:  # fmt: skip
        """Say why a word has its head and not another, template by template or word by word.

        With a parser without templates: what leaving out each other word changes.

        Args:
            sentence: one sentence, as `parse` takes it in a list, CoNLL-U text, or raw text: text
                whose first line that does not begin with # has no tab.
            word: counted from 1.
            instead: the other head, 0 for the root; None: that of the best tree in which the word
                has another head, without templates the one whose arc scores most.
            guide: of models with guide features: `misc:KEY`.
            keep: see `parse`.
        Returns: the reasons; weights of templates add up to the scores of both trees exactly,
            effects of words do not.
        Raises: as `parse`; ConfigError: no such word or head, a parser of graphs. NoTreeError: no
            tree has the other head. ResourceError: the sentence is too long.
        Cost: two searches, or one for each possible head; without templates one for each word.

        >>> she = {"form": ["She", "sings"], "upos": ["PRON", "VERB"], "xpos": ["PRP", "VBZ"]}
        >>> reasons = parser.explain(she, 1)
        >>> reasons.head, reasons.other_head
        (2, 0)
        >>> tree = reasons.to_dict()["tree"]
        >>> sum(line["difference"] for line in tree["lines"]) == tree["difference"]
        True
        """
        from gpuparse.api.reasons import Reasons, explain  # and the features of explanations

        job = self.job(ParseOptions(guide=guide, keep=keep))
        if (
            isinstance(sentence, str)
            and self._stages.tokenizer
            and is_raw_text(sentence.encode(errors="replace"))
        ):
            given: Source = BytesSource(text=self._split(job, sentence), name=_TEXT)
        else:
            is_text = isinstance(sentence, (str, bytes))
            if is_text:
                sentence = _as_text(sentence, "explain()")
            given = self._source(job, sentence if is_text else [sentence], batch=None)
        [(piece, guides)] = job.annotated(given)
        if len(piece.treebank) != 1:
            n_given = len(piece.treebank)
            raise DataError(f"explain() takes one sentence with words, and not {n_given}")
        return Reasons(
            explain(self._model, piece.treebank, 1, word, instead=instead, guides=guides)
        )

    def _source(self, job: Job, sentences: Any, *, batch: int | None) -> Source:
        """Objects of Python as a source; batch: how many are read at a time, None: all."""
        if isinstance(sentences, (str, bytes)):
            return BytesSource(text=_as_text(sentences, "parse()"), name=_TEXT)
        if is_arrow(sentences):
            step = batch or max(1, sentences.num_rows)
            firsts = range(0, max(1, sentences.num_rows), step)
            runs = ((i, sentences.slice(i, step)) for i in firsts)
            return job.table(runs, SENTENCES, fails=True)
        if is_pandas(sentences) and has_texts(list(sentences.columns)):
            return self._source(job, frame_of_texts(sentences), batch=batch)
        rows = table_rows(sentences)
        return ObjectSource(
            sentences=_iterable(sentences) if rows is None else rows, tag_field=self._tag_field,
            keep_heads=job.options.keep_heads, batch=batch,
        )  # fmt: skip

    def _parsed(
        self, job: Job, source: Source, table: Any = None, *, is_text: bool = False
    ) -> Iterator[Parsed]:
        """The results of each piece; table, is_text: see Parsed."""
        for piece, result in job.results(source):
            of_piece = table
            if isinstance(piece, Rows) and is_arrow(piece.table):
                of_piece = piece.table
            yield Parsed(result, piece.counts, of_piece, piece.documents, is_text=is_text)

    def _check_kind(self, job: Job, name: str, kind: str, input: str) -> None:
        """Make sure that the model can read a file of this format."""
        if input in WORDS_ALONE and os.path.isfile(name) and is_object(first_line(name)):
            warnings.warn(
                f"{name}: the first line is an object of JSON: read as {kind}", stacklevel=3
            )
        if is_table(kind):
            require(f"{name}: a table", "pyarrow.parquet")
        job.options.check_input(kind, name, self._name, self._stages)

    def _stream_file(self, job: Job, name: str, kind: str) -> Iterator[ParsedSentence]:
        with input_file(name) as file:
            source = job.source(file, name, kind)
            yield from chain.from_iterable(self._parsed(job, source))

    def job(self, options: ParseOptions = _PLAIN, *, may_pass_over: bool = False) -> Job:
        """The job of a parse, as the command has it; for doors of other programs.

        Args:
            options: without `allow_missing`, which is an option of the parser.
            may_pass_over: whether the door has the option `on_error`.
        Raises: ConfigError: the model cannot do it.
        """
        options.check_values()  # others may have no hash
        if options.guide is not None and not str(options.guide).startswith("misc:"):
            raise ConfigError(f"guide: expected misc:KEY, not {options.guide!r}")
        # Of short texts the checks take as long as a stage: the jobs of a few calls are kept.
        key = options, may_pass_over
        if (job := self._jobs.get(key)) is None:
            if len(self._jobs) >= _MOST_JOBS:
                self._jobs.clear()
            job = self._jobs[key] = self._made_job(options, may_pass_over)
        return job

    def _made_job(self, options: ParseOptions, may_pass_over: bool) -> Job:
        options = replace(options, allow_missing=self._options.allow_missing)
        notes = options.check(self._model, self._stages, self._name)
        for note in notes:
            if note not in self._warned:
                self._warned.add(note)
                warnings.warn(f"{self._name}: {note}", stacklevel=4)
        return Job(
            model=self._model,
            stages=self._stages.filled_by(self._model, self._device),
            options=options,
            batch_size=default_batch_size(self._device),
            threads=self._threads,
            device=self._device,
            engine=self._options.engine,
            is_native=self._is_native,
            tell=silent,
            advise=partial(warnings.warn, stacklevel=2),
            may_pass_over=may_pass_over,
            as_json_lines=as_json_lines,
            to_allow_missing=self._options.to_allow_missing,
            to_give_columns=self._options.to_give_columns,
        )

    def _tag_field(self, read: list[Columns]) -> str:
        """The column of the tags of (word, tag) pairs: the one that the model knows best."""
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
        if not shares[best] and not self._options.allow_missing:
            expected = ", ".join(sorted(known[best])[:5])
            raise DataError(
                f"the model knows none of the tags {', '.join(sorted(tags)[:5])}: it was trained"
                f" with tags such as {expected}"
            )
        return _FIELDS[best]


def options_of(asked: Mapping[str, Any]) -> ParseOptions:
    """The options of `SentenceParser.parse`. Raises: TypeError: one that it does not have."""
    if unknown := asked.keys() - ParseArguments.__annotations__.keys():
        raise TypeError(f"there is no option {min(unknown)!r}; see SentenceParser.parse")
    return ParseOptions(**asked)


_TAKEN = {  # besides CoNLL-U text
    "parse()": f"a list of sentences, each {GIVEN}, as in {EXAMPLE}",
    "explain()": f"a sentence, which is {GIVEN}",
}


def _checked_texts(texts: Any) -> list[str]:
    """A list of texts; DataError for anything else."""
    if not isinstance(texts, Iterable) or isinstance(texts, (bytes, Mapping)):
        raise DataError(
            f"parse_text() takes a str or a list of str, and not {type(texts).__name__}"
        )
    found = list(texts)
    for number, text in enumerate(found):
        if not isinstance(text, str):
            raise DataError(f"texts[{number}]: expected a str, and not {type(text).__name__}")
    return found


def _documents(items: Iterable[Any]) -> Iterator[tuple[object, str]]:
    """Texts with their identifiers, or numbers; DataError for anything else."""
    for number, item in enumerate(items):
        name, text = item if isinstance(item, tuple) and len(item) == 2 else (number, item)
        if not isinstance(text, str):
            raise DataError(
                f"texts[{number}]: expected a str, or a tuple of an identifier and a str, and not"
                f" {shown(item)}"
            )
        yield name, text


def _names_below(folder: str, input: str) -> list[str]:
    """The files of a folder that are read; warns of those that are passed over."""
    names, said = inputs_below(folder, input)
    if said:
        warnings.warn(said, stacklevel=3)
    return names


def folder_files(
    source: str, target: str | os.PathLike[str], input: str = AUTO
) -> list[tuple[str, str, Path]]:
    """The files of a folder that `gpuparse parse` reads, with their formats and outputs.

    Raises: ConfigError: the target is in the source; there are no files; outputs of one name.
    """
    check_output_folder(target, source)
    names = _names_below(source, input)
    files = [os.path.join(source, each) for each in names]
    kinds = [file_format(file, input) for file in files]
    return list(zip(files, kinds, outputs_of(files, names, target, kinds), strict=True))


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
