"""A component of spaCy: `nlp.add_pipe("gpuparse", config={"model": FOLDER})` parses Docs.

Token.head and Token.dep are filled in; sentences, words and tags must be there already.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from spacy.attrs import DEP, HEAD
from spacy.language import Language
from spacy.tokens import Doc, Span, Token
from spacy.util import minibatch

from gpuparse.api.parsing import SentenceParser, load
from gpuparse.errors import ConfigError, DataError
from gpuparse.inference.decoders import DECODERS
from gpuparse.model_folder import pack_parser

ROOT = "ROOT"  # the relation of a word without a head in spaCy
SPACE = "dep"  # the relation of blanks that are tokens, as spaCy's parsers have it
PROBABILITIES = ("head_prob", "dep_prob")
_FOLDER = "model"


@Language.factory(
    "gpuparse",
    assigns=["token.head", "token.dep", "token.is_sent_start", "doc.sents"],
    default_config={
        "model": "", "threads": 0, "probabilities": False, "mbr": False, "allow_missing": False,
    },
)  # fmt: skip
def make_component(
    nlp: Language, name: str, model: str, threads: int, probabilities: bool, mbr: bool,
    allow_missing: bool,
) -> Component:  # fmt: skip
    """The component of a config; see Component."""
    return Component(
        name, model, threads=threads, probabilities=probabilities, mbr=mbr,
        allow_missing=allow_missing,
    )  # fmt: skip


class Component:
    """Fills in heads and relations of Docs.

    A sentence is one of `doc.sents`, or the whole Doc if nothing says where sentences begin. Each
    gets exactly one root, whose relation is ROOT. A token of blanks is attached to the token before
    it, and not parsed.
    """

    def __init__(
        self,
        name: str,
        model: str,
        *,
        threads: int = 0,
        probabilities: bool = False,
        mbr: bool = False,
        allow_missing: bool = False,
    ) -> None:
        """
        Args:
            name: of the component in its pipeline.
            model: the folder that training wrote; it is read when the first Doc comes.
            threads: CPU threads; 0: all processors.
            probabilities: whether to set `token._.head_prob` and `token._.dep_prob`.
            mbr: whether to find minimum Bayes risk trees.
            allow_missing: whether to parse Docs without tags, lemmas or morphology that the model
                reads; the parses are worse.
        """
        self.name, self.model, self._parser = name, model, None
        self._options: dict[str, Any] = {"threads": threads, "allow_missing": allow_missing}
        self._asked: dict[str, Any] = {"probabilities": probabilities, "mbr": mbr}
        for extension in PROBABILITIES if probabilities else ():
            if not Token.has_extension(extension):
                Token.set_extension(extension, default=None)

    _parser: SentenceParser | None

    @property
    def parser(self) -> SentenceParser:
        """The parser, loaded when it is first asked for.

        Raises: ConfigError: no model is named, or it is of graphs. ModelError: it cannot be read.
        """
        if self._parser is None:
            if not self.model:
                raise ConfigError(
                    'gpuparse: name a model: nlp.add_pipe("gpuparse", config={"model": FOLDER})'
                )
            parser = load(self.model, single_root=True, **self._options)
            if DECODERS[parser.decoder].gives_graphs:
                raise ConfigError(f"{self.model}: a Doc holds trees, and this model finds graphs")
            self._parser = parser
        return self._parser

    def __call__(self, doc: Doc) -> Doc:
        """Parse a Doc."""
        self._parse([doc])
        return doc

    def pipe(self, stream: Iterable[Doc], *, batch_size: int = 128) -> Iterator[Doc]:
        """Parse a stream of Docs, some at a time."""
        for docs in minibatch(stream, size=batch_size):
            docs = list(docs)
            self._parse(docs)
            yield from docs

    def to_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> None:
        """Copy the model into a folder, so that the pipeline can be moved."""
        folder = Path(path)
        folder.mkdir(parents=True, exist_ok=True)
        for file, content in pack_parser(self.parser._model).items():
            target = folder / _FOLDER / file
            target.parent.mkdir(exist_ok=True)
            target.write_bytes(content)

    def from_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> Component:
        """Take the model of a folder that `to_disk` wrote."""
        self.model, self._parser = str(Path(path) / _FOLDER), None
        return self

    def _parse(self, docs: list[Doc]) -> None:
        sentences = [span for doc in docs for span in _sentences(doc)]
        words = [[token for token in span if not token.is_space] for span in sentences]
        try:
            parsed = self.parser.parse([_columns(tokens) for tokens in words], **self._asked)
        except DataError as error:
            raise DataError(
                f"{self.name}: {error}; put components that set tags, lemmas or morphology before"
                ' this one, or give config={"allow_missing": True}'
            ) from error
        trees = {id(doc): ([0] * len(doc), [SPACE] * len(doc)) for doc in docs}
        for span, tokens, found in zip(sentences, words, parsed, strict=True):
            heads, deps = trees[id(span.doc)]
            last = tokens[0].i if tokens else span.start
            for token in span:  # blanks go to what is before them, or to the first word
                if not token.is_space:
                    last = token.i
                heads[token.i] = last
            if not tokens:
                deps[span.start] = ROOT
            relations = found.deprels or [SPACE] * len(tokens)
            for token, h, relation in zip(tokens, found.heads, relations, strict=True):
                heads[token.i] = tokens[h - 1].i if h else token.i
                deps[token.i] = relation if h else ROOT
            if self._asked["probabilities"]:
                of_heads, of_deps = found.probabilities, found.deprel_probabilities
                for k, token in enumerate(tokens):
                    token._.head_prob = None if of_heads is None else of_heads[k]
                    token._.dep_prob = None if of_deps is None else of_deps[k]
        for doc in docs:
            if len(doc):
                heads, deps = trees[id(doc)]
                offsets = (np.array(heads) - np.arange(len(doc))).astype(np.uint64)
                names = np.array([doc.vocab.strings.add(dep) for dep in deps], np.uint64)
                doc.from_array([HEAD, DEP], np.stack([offsets, names], axis=1))


def _sentences(doc: Doc) -> list[Span]:
    """The sentences of a Doc; all of it if nothing says where they begin."""
    if not len(doc):
        return []
    return list(doc.sents) if doc.has_annotation("SENT_START") else [doc[:]]


def _columns(tokens: list[Token]) -> dict[str, list[str]]:
    """The words of a sentence as `parse` takes them; tabs and line ends in words become blanks."""
    return {
        "form": [" ".join(token.text.split()) or "_" for token in tokens],
        "lemma": [" ".join(token.lemma_.split()) for token in tokens],
        "upos": [token.pos_ for token in tokens],
        "xpos": [token.tag_ for token in tokens],
        "feats": [str(token.morph) for token in tokens],
    }
