"""A component and a tokeniser of spaCy.

    nlp = spacy.blank("en", config={"nlp": {"tokenizer": {
        "@tokenizers": "gpuparse.Tokenizer.v1", "model": FOLDER}}})
    nlp.add_pipe("gpuparse", config={"model": FOLDER})

The tokeniser makes Docs of the model's words and sentences. The component fills in heads and
relations, and what the stages of the model find: tags, features, lemmas and, where nothing else
says it, sentences. It takes Docs of any tokeniser.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import srsly
from spacy.language import Language
from spacy.pipeline import Pipe
from spacy.tokens import Doc
from spacy.util import minibatch, registry
from spacy.vocab import Vocab

from gpuparse.api.parsing import LoadOptions, SentenceParser
from gpuparse.api.spacy_docs import (
    FIELDS,
    WORDS,
    DocWords,
    add_extensions,
    doc_of_text,
    placed_tokens,
)
from gpuparse.data.columns import LEMMA
from gpuparse.data.conll import treebank_of_scan
from gpuparse.data.formats.text import text_chunk
from gpuparse.errors import ConfigError, DataError, ModelError
from gpuparse.files import write_file
from gpuparse.inference.decoders import DECODERS
from gpuparse.model.folder import WEIGHTS
from gpuparse.model.installed import find_model
from gpuparse.model.pipeline import FILES, TOKENIZER, load_stage, stages_of, unpack_stage
from gpuparse.text.tokenizer import Tokenizer

_FOLDER = "model"
_TO_ALLOW_MISSING = 'give config={"allow_missing": True}'
_TO_GIVE_COLUMNS = "put components that set tags, lemmas or morphology before this one"


@Language.factory(
    "gpuparse",
    assigns=[
        "token.head", "token.dep", "token.is_sent_start", "doc.sents", "token.pos", "token.tag",
        "token.morph", "token.lemma", f"token._.{WORDS}",
    ],
    default_config={
        "model": "", "threads": 0, "probabilities": False, "allow_missing": False,
    },
)  # fmt: skip
def make_component(
    nlp: Language, name: str, model: str, threads: int, probabilities: bool, allow_missing: bool
) -> Component:
    """The component of a config; see Component."""
    return Component(
        name, model, threads=threads, probabilities=probabilities, allow_missing=allow_missing
    )


@registry.tokenizers("gpuparse.Tokenizer.v1")
def make_tokenizer(model: str = "") -> Callable[[Language], DocTokenizer]:
    """The tokeniser of a config; see DocTokenizer."""
    return lambda nlp: DocTokenizer(nlp.vocab, model)


class Component(Pipe):
    """Parses Docs, tags and lemmatises them as far as the model does.

    Sentences begin where `token.is_sent_start` is True. Where it is None, a model with a tokeniser
    decides; without one no sentence begins there. Each sentence gets exactly one root, whose
    relation is ROOT. A token of blanks is attached to the token before it, and not parsed.

    If the model has a tokeniser with multiword tokens and fills in all columns that its parser
    reads, a token that it knows as several words is parsed as these; see `DocWords.write` for what
    the token gets. `token._.mwt_words` is then the list of these words with their columns.
    """

    def __init__(
        self,
        name: str,
        model: str,
        *,
        threads: int = 0,
        probabilities: bool = False,
        allow_missing: bool = False,
    ) -> None:
        """
        Args:
            name: of the component in its pipeline.
            model: the folder that training wrote; it is read when the first Doc comes.
            threads: CPU threads; 0: all processors.
            probabilities: whether to set `token._.head_prob` and `token._.dep_prob`.
            allow_missing: whether to parse Docs without tags, lemmas or morphology that the model
                reads and does not fill in; the parses are worse.
        """
        self.name, self.model = name, model
        self._parser: SentenceParser | None = None
        self._options = LoadOptions(
            threads, allow_missing=allow_missing, to_allow_missing=_TO_ALLOW_MISSING,
            to_give_columns=_TO_GIVE_COLUMNS,
        )  # fmt: skip
        self._probabilities = probabilities
        add_extensions()

    @property
    def parser(self) -> SentenceParser:
        """The parser, loaded when it is first asked for.

        Raises: ConfigError: no model is named, or it is of graphs. ModelError: it cannot be read.
        """
        if self._parser is None:
            if not self.model:
                raise ConfigError(
                    f"{self.name}: name a model:"
                    ' nlp.add_pipe("gpuparse", config={"model": FOLDER})'
                )
            self._take(SentenceParser.of_folder(self.model, self._options, single_root=True))
            assert self._parser
        return self._parser

    def __call__(self, doc: Doc) -> Doc:
        """Parse a Doc."""
        self._annotate([doc])
        return doc

    def pipe(self, stream: Iterable[Doc], *, batch_size: int = 128) -> Iterator[Doc]:
        """Parse a stream of Docs, some at a time.

        Where this fails, they are parsed one by one, and the error handler of the pipeline gets
        those that fail.
        """
        for docs in minibatch(stream, batch_size):
            try:
                self._annotate(docs)
            except Exception:
                yield from super().pipe(docs)
            else:
                yield from docs

    def to_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> None:
        """Write the model with all its stages into a folder, so that the pipeline can be moved."""
        folder = Path(path) / _FOLDER
        folder.mkdir(parents=True, exist_ok=True)
        files = self.parser.files()
        for other in set(FILES.values()) - files.keys():
            (folder / other).unlink(missing_ok=True)
        for name, content in files.items():
            write_file(folder / name, content, force=True)

    def from_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> Component:
        """Read the model of a folder that `to_disk` wrote."""
        self.model, self._parser = str(Path(path) / _FOLDER), None
        self.parser  # noqa: B018 (it is loaded)
        return self

    def to_bytes(self, *, exclude: Iterable[str] = ()) -> bytes:
        """The model with all its stages."""
        packed: bytes = srsly.msgpack_dumps(self.parser.files())
        return packed

    def from_bytes(self, bytes_data: bytes, *, exclude: Iterable[str] = ()) -> Component:
        """Take the model of `to_bytes`."""
        try:
            files = srsly.msgpack_loads(bytes_data)
        except ValueError as error:
            raise ModelError(f"{self.name}: not the bytes of to_bytes: {error}") from error
        self._take(SentenceParser.of_files(files, self.model or self.name, self._options))
        return self

    def __reduce__(self) -> Any:
        """A pickle has the whole model, too, and not only its name."""
        if self.model:
            self.parser  # noqa: B018 (it is loaded)
        return super().__reduce__()

    def _take(self, parser: SentenceParser) -> None:
        if DECODERS[parser.decoder].gives_graphs:
            raise ConfigError(
                f"{self.model or self.name}: a Doc holds trees, and this model finds graphs"
            )
        self._parser = parser

    def _annotate(self, docs: list[Doc]) -> None:
        parser = self.parser
        stages = parser.job().stages
        # A lemmatiser without a tagger reads tags that the parser may not read.
        read = FIELDS if stages.tagger is None else parser.columns
        found = [DocWords(doc) for doc in docs]
        for words in found:
            if stages.tokenizer is not None:
                words.ask(stages.tokenizer)
            words.cut(splits=not parser.columns)
        sentences = [sentence for words in found for sentence in words.sentences(read)]
        try:
            parsed = parser.parse(sentences, probabilities=self._probabilities)
        except DataError as error:
            raise DataError(f"{self.name}: {str(error).removeprefix('sentences: ')}") from error
        filled, first = [FIELDS[number - LEMMA] for number in stages.columns], 0
        for words in found:
            first = words.write(parsed, first, filled)


class DocTokenizer:
    """A tokeniser of spaCy that finds the tokens and sentences of a model's tokeniser.

    The text of a Doc is the text that was given. A multiword token whose words, one after the
    other, are its text, such as `don't` of `do` and `n't`, becomes a token for each word. Any other
    one, such as French `du` of `de` and `le`, is one token, and `token._.mwt_words` has its words.
    White space but a single space after a token is a token of blanks, as in spaCy.
    """

    def __init__(self, vocab: Vocab, model: str) -> None:
        """
        Args:
            vocab: of the pipeline.
            model: the folder that training wrote; it is read when the first text comes.
        """
        self.vocab, self.model = vocab, model
        self._tokenizer: Tokenizer | None = None
        add_extensions()

    @property
    def tokenizer(self) -> Tokenizer:
        """The tokeniser of the model, loaded when it is first asked for.

        Raises: ConfigError: no model is named, or it has no tokeniser. ModelError: it cannot be
            read.
        """
        if self._tokenizer is None:
            if not self.model:
                raise ConfigError('gpuparse.Tokenizer.v1: name a model: "model": FOLDER')
            folder = find_model(self.model)
            if (folder / WEIGHTS).exists() and TOKENIZER not in stages_of(folder):
                raise ConfigError(
                    f"{self.model}: has no tokeniser: train a model with tokenizer.learn=true, or"
                    " leave out gpuparse.Tokenizer.v1"
                )
            self._tokenizer = load_stage(folder, TOKENIZER)
            assert self._tokenizer
        return self._tokenizer

    def __call__(self, text: str) -> Doc:
        """The tokens and sentences of a text.

        Raises: DataError: NUL in the text, or too much white space.
        """
        if not isinstance(text, str):
            raise DataError(f"gpuparse.Tokenizer.v1 takes texts, and not {type(text).__name__}")
        try:
            chunk = text_chunk(text.encode(), "text")
        except UnicodeEncodeError as error:
            raise DataError(f"text: an unpaired surrogate at {error.start}") from error
        treebank = treebank_of_scan(self.tokenizer.split(chunk), "text")
        return doc_of_text(text, placed_tokens(treebank), self.vocab)

    def to_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> None:
        """Write the tokeniser into a folder."""
        folder = Path(path)
        folder.mkdir(parents=True, exist_ok=True)
        write_file(folder / FILES[TOKENIZER], self.to_bytes(), force=True)

    def from_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> DocTokenizer:
        """Read the tokeniser of a folder that `to_disk` wrote."""
        self.model, self._tokenizer = str(path), None
        self.tokenizer  # noqa: B018 (it is loaded)
        return self

    def to_bytes(self, *, exclude: Iterable[str] = ()) -> bytes:
        """The tokeniser."""
        return self.tokenizer.pack()

    def from_bytes(self, bytes_data: bytes, *, exclude: Iterable[str] = ()) -> DocTokenizer:
        """Take the tokeniser of `to_bytes`."""
        self._tokenizer = unpack_stage(bytes_data, Path(self.model), TOKENIZER)
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        file = self.to_bytes() if self.model or self._tokenizer else None
        return DocTokenizer, (self.vocab, self.model), file

    __setstate__ = from_bytes
