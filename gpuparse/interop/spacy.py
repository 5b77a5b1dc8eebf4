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
from itertools import accumulate
from pathlib import Path
from typing import Any, TypeVar

import srsly
from spacy.language import Language
from spacy.pipeline import Pipe
from spacy.tokens import Doc
from spacy.util import registry
from spacy.vocab import Vocab

from gpuparse.api.parsing import SentenceParser
from gpuparse.api.spacy_docs import (
    DEP_PROB,
    FIELDS,
    HEAD_PROB,
    WORDS,
    DocTokens,
    DocWords,
    add_extensions,
)
from gpuparse.data.conll import treebank_from_bytes
from gpuparse.errors import ConfigError, DataError, ModelError
from gpuparse.files import replace_file
from gpuparse.formats.text import text_chunk
from gpuparse.inference.decoders import DECODERS
from gpuparse.installed import find_model
from gpuparse.model_folder import WEIGHTS
from gpuparse.pipeline import FILES, TOKENIZER, load_stage, stages_of, unpack_stage
from gpuparse.text.conllu import surface_sentences
from gpuparse.text.tokenizer import Tokenizer

MOST_TOKENS = 200_000  # that are parsed at once, but for the last Doc
MOST_CHARACTERS = 1 << 20  # that are cut into tokens at once, but for the last text
_GAP = "\n\n"  # between texts: a paragraph ends there
_FOLDER = "model"
_ADVICE = {
    "to_allow_missing": 'give config={"allow_missing": True}',
    "to_give_columns": "put components that set tags, lemmas or morphology before this one",
}
_Sized = TypeVar("_Sized", str, Doc)


@Language.factory(
    "gpuparse",
    assigns=[
        "token.head", "token.dep", "token.is_sent_start", "doc.sents", "token.pos", "token.tag",
        "token.morph", "token.lemma", f"token._.{WORDS}",
    ],
    default_config={
        "model": "", "threads": 0, "probabilities": False, "mbr": False, "keep": None,
        "allow_missing": False,
    },
)  # fmt: skip
def make_component(
    nlp: Language, name: str, model: str, threads: int, probabilities: bool, mbr: bool,
    keep: str | None, allow_missing: bool,
) -> Component:  # fmt: skip
    """The component of a config; see Component."""
    return Component(
        name, model, threads=threads, probabilities=probabilities, mbr=mbr, keep=keep,
        allow_missing=allow_missing,
    )  # fmt: skip


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
        mbr: bool = False,
        keep: str | None = None,
        allow_missing: bool = False,
    ) -> None:
        """
        Args:
            name: of the component in its pipeline.
            model: the folder that training wrote; it is read when the first Doc comes.
            threads: CPU threads; 0: all processors.
            probabilities: whether to set `token._.head_prob` and `token._.dep_prob`.
            mbr: whether to find minimum Bayes risk trees.
            keep: "tags": tags, features and lemmas that Docs have stay, and the model fills in
                those that are missing; None: it predicts all anew.
            allow_missing: whether to parse Docs without tags, lemmas or morphology that the model
                reads and does not fill in; the parses are worse.
        """
        self.name, self.model = name, model
        self._parser: SentenceParser | None = None
        self._options: dict[str, Any] = {"threads": threads, "allow_missing": allow_missing}
        self._asked: dict[str, Any] = {"probabilities": probabilities, "mbr": mbr, "keep": keep}
        add_extensions((WORDS, HEAD_PROB, DEP_PROB) if probabilities else (WORDS,))

    @property
    def parser(self) -> SentenceParser:
        """The parser, loaded when it is first asked for.

        Raises: ConfigError: no model is named, or it is of graphs. ModelError: it cannot be read.
        """
        if self._parser is None:
            self._parser = self._loaded()
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
        for docs in _batches(stream, batch_size, MOST_TOKENS):
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
            with replace_file(folder / name, force=True) as file:
                file.write(content)

    def from_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> Component:
        """Read the model of a folder that `to_disk` wrote."""
        self.model = str(Path(path) / _FOLDER)
        self._parser = self._loaded()
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
        self._parser = self._of_files(files)
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        files = self.parser.files() if self.model or self._parser else None
        options = self._options | self._asked
        return _component, (self.name, self.model, options, files, self.get_error_handler())

    def _loaded(self) -> SentenceParser:
        if not self.model:
            raise ConfigError(
                f'{self.name}: name a model: nlp.add_pipe("gpuparse", config={{"model": FOLDER}})'
            )
        parser = SentenceParser.of_folder(
            self.model, single_root=True, advice=_ADVICE, **self._options
        )
        return self._of_trees(parser)

    def _of_files(self, files: Any) -> SentenceParser:
        name = self.model or self.name
        parser = SentenceParser.of_files(files, name, advice=_ADVICE, **self._options)
        return self._of_trees(parser)

    def _of_trees(self, parser: SentenceParser) -> SentenceParser:
        if DECODERS[parser.decoder].gives_graphs:
            raise ConfigError(
                f"{self.model or self.name}: a Doc holds trees, and this model finds graphs"
            )
        return parser

    def _annotate(self, docs: list[Doc]) -> None:
        parser, keep = self.parser, self._asked["keep"] is not None
        stages = parser.job().stages
        words = DocWords.of(docs, stages.tokenizer, splits=not parser.columns)
        # A lemmatiser without a tagger reads tags that the parser may not read.
        read = FIELDS if keep or stages.tagger is None else parser.columns
        try:
            parsed = parser.parse(words.sentences(read), **self._asked)
        except DataError as error:
            raise DataError(f"{self.name}: {str(error).removeprefix('sentences: ')}") from error
        words.write(parsed, stages.columns, keep=keep)


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
        add_extensions((WORDS,))

    @property
    def tokenizer(self) -> Tokenizer:
        """The tokeniser of the model, loaded when it is first asked for.

        Raises: ConfigError: no model is named, or it has no tokeniser. ModelError: it cannot be
            read.
        """
        if self._tokenizer is None:
            self._tokenizer = self._loaded()
        return self._tokenizer

    def __call__(self, text: str) -> Doc:
        """The tokens and sentences of a text.

        Raises: DataError: NUL in the text, or too much white space.
        """
        return self._docs([text])[0]

    def pipe(self, texts: Iterable[str], *, batch_size: int = 1000) -> Iterator[Doc]:
        """Docs of texts, several texts at a time, which is faster than one by one.

        `nlp.pipe` takes Docs, too: `nlp.pipe(nlp.tokenizer.pipe(texts))`.

        Raises: as a call, when the text is reached.
        """
        for some in _batches(texts, batch_size, MOST_CHARACTERS):
            try:
                docs = self._docs(some)
            except DataError:
                yield from map(self, some)
            else:
                yield from docs

    def _docs(self, texts: list[str]) -> list[Doc]:
        """Docs of texts, each of which begins with a new paragraph."""
        for text in texts:
            if not isinstance(text, str):
                raise DataError(f"gpuparse.Tokenizer.v1 takes texts, and not {type(text).__name__}")
        try:
            chunk = text_chunk(_GAP.join(texts).encode(), "text")
        except UnicodeEncodeError as error:
            raise DataError(f"text: an unpaired surrogate at {error.start}") from error
        treebank = treebank_from_bytes(self.tokenizer.split(chunk), "text")
        made = [DocTokens(text) for text in texts]
        starts = list(accumulate((len(text) + len(_GAP) for text in texts), initial=0))
        here = 0  # the text that was reached
        at = 0  # the character that was reached
        for sentence in surface_sentences(treebank):
            begins = True
            for token in sentence.tokens:
                at += len(token.before)
                while at >= starts[here + 1]:
                    here += 1
                made[here].add(at - starts[here], token.text, token.words, begins=begins)
                at += len(token.text) + (1 if token.after is None else len(token.after))
                begins = False
        return [tokens.doc(self.vocab) for tokens in made]

    def to_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> None:
        """Write the tokeniser into a folder."""
        folder = Path(path)
        folder.mkdir(parents=True, exist_ok=True)
        with replace_file(folder / FILES[TOKENIZER], force=True) as file:
            file.write(self.to_bytes())

    def from_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> DocTokenizer:
        """Read the tokeniser of a folder that `to_disk` wrote."""
        self.model = str(path)
        self._tokenizer = self._loaded()
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
        return _tokenizer, (self.vocab, self.model, file)

    def _loaded(self) -> Tokenizer:
        if not self.model:
            raise ConfigError('gpuparse.Tokenizer.v1: name a model: "model": FOLDER')
        folder = find_model(self.model)
        if (folder / WEIGHTS).exists() and TOKENIZER not in stages_of(folder):
            raise ConfigError(
                f"{self.model}: has no tokeniser: train a model with tokenizer.learn=true, or leave"
                " out gpuparse.Tokenizer.v1"
            )
        tokenizer: Tokenizer = load_stage(folder, TOKENIZER)
        return tokenizer


def _batches(stream: Iterable[_Sized], size: int, most: int) -> Iterator[list[_Sized]]:
    """Docs or texts, up to `size` at a time, or fewer with `most` tokens or characters."""
    batch: list[_Sized] = []
    length = 0
    for each in stream:
        batch.append(each)
        length += len(each)
        if len(batch) >= size or length >= most:
            yield batch
            batch, length = [], 0
    if batch:
        yield batch


def _component(
    name: str, model: str, options: dict[str, Any], files: dict[str, bytes] | None,
    error_handler: Callable[..., None],
) -> Component:  # fmt: skip
    """The component of a pickle."""
    made = Component(name, model, **options)
    made.set_error_handler(error_handler)
    if files is not None:
        made._parser = made._of_files(files)
    return made


def _tokenizer(vocab: Vocab, model: str, file: bytes | None) -> DocTokenizer:
    """The tokeniser of a pickle."""
    made = DocTokenizer(vocab, model)
    return made if file is None else made.from_bytes(file)
