"""The models that a server has loaded, by their public names."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from io import BytesIO
from typing import Any, NamedTuple

import numpy as np

import gpuparse
from gpuparse.api.parsing import LoadOptions
from gpuparse.data.cached import cached_property
from gpuparse.data.conll import stream_treebanks, treebank_from_bytes, treebank_of_scan
from gpuparse.data.formats.names import CONLLU, LINES, RAW, VERTICAL
from gpuparse.data.formats.text import TextChunk, stream_text
from gpuparse.data.formats.vertical import stream_vertical
from gpuparse.data.treebank import Treebank
from gpuparse.errors import ConfigError
from gpuparse.inference.decoders import DECODERS
from gpuparse.jobs.card import read_card
from gpuparse.jobs.options import ParseOptions
from gpuparse.jobs.parse import Job
from gpuparse.jobs.progress import silent
from gpuparse.model.engines.admission import MAX_CELLS
from gpuparse.model.installed import find_model
from gpuparse.scorers.scorer import ReadsWholes, cells_of
from gpuparse.server.refusals import RequestError

PIECE = 1 << 16  # bytes of a request that are split into words before others have their turn
MOST_COUNTED = 4096  # words of a sentence; a longer one takes long, too
WORDS, TAGS, TREES = "words", "tags", "trees"  # how far an input is analysed


class Placed(NamedTuple):
    """Words of a text whose piece began at a character."""

    words: Treebank
    character: int


InputPiece = Treebank | TextChunk | Placed


@dataclass(frozen=True)
class ServedModel:
    """A loaded model.

    name: public. parser: the door of Python. base: its job, whose options requests replace.
    card: what its folder says of it; None without a card.
    """

    name: str
    parser: gpuparse.SentenceParser
    base: Job
    card: dict[str, Any] | None = None

    @property
    def stages(self) -> list[str]:
        """The stages that it has, in order."""
        stages = self.base.stages
        fills = stages.columns
        found = {
            "tokenizer": stages.tokenizer is not None,
            "tagger": bool({3, 4} & set(fills)),
            "lemmatizer": 2 in fills,
            "parser": True,
        }
        return [name for name, is_there in found.items() if is_there]

    def described(self) -> dict[str, object]:
        """The entry of the model in /api/models."""
        decoder, parser = DECODERS[self.base.parser.search_decoder], self.parser
        card = self.card or {}
        package = card.get("package") or {}
        licence = package.get("licence") or card.get("licence")
        facts = [card.get("treebank"), licence and f"licence {licence}"]
        about = ", ".join(fact for fact in facts if fact) or None
        return {
            "name": self.name, "language": card.get("code"), "description": about,
            "stages": self.stages,
            "relations": parser.labels, "decoder": parser.decoder, "graphs": decoder.gives_graphs,
            "can": {
                "text": self.base.stages.tokenizer is not None,
                "probabilities": decoder.has("marginals"),
                "kbest": decoder.has("k_best"),
                "keep_heads": not decoder.gives_graphs,
                "explain": not decoder.gives_graphs,
            },
        }  # fmt: skip

    def job(self, options: ParseOptions, depth: str) -> Job:
        """The job of a request.

        Args: depth: TAGS: without the parser; TREES.
        Raises: ConfigError: the model cannot do it.
        """
        model = None if depth == TAGS else self.base.model
        options.check(model, self.base.stages, self.name)
        return replace(self.base, model=model, options=options)

    def seconds(self, lengths: np.ndarray, options: ParseOptions, depth: str) -> np.ndarray:
        """(S,) about how long sentences of these numbers of words take on one core.

        Rounded up; measured with the models of the configs. Sums for probabilities take 8 times as
        long as a search.
        """
        n = np.minimum(lengths, MOST_COUNTED)
        if depth != TREES:
            return 2e-5 * n
        of_word, of_search = self._seconds
        searches = 8 if options.probabilities or options.mbr else 1
        return (of_word + 5e-6 * (options.kbest or 1)) * n + searches * of_search[n]

    @cached_property
    def _seconds(self) -> tuple[float, np.ndarray]:
        """Seconds of a word, and of a search by number of words; 1 ns per cell, n^3 / 4 of arcs."""
        n, scorers = np.arange(MOST_COUNTED + 1), self.base.parser.scorers
        cells = cells_of(scorers, n)
        of_search = 1e-9 * (np.where(cells > MAX_CELLS, 0, cells) + n**3 / 4)
        reads_wholes = any(isinstance(scorer, ReadsWholes) for scorer in scorers)
        return 1e-3 if reads_wholes else 2e-5, of_search

    def pieces(self, data: bytes, kind: str, name: str) -> Iterator[InputPiece]:
        """An input in pieces, whose words `words_of` finds.

        Args: kind: CONLLU, VERTICAL, TEXT or LINES. name: of the input in messages.
        Raises: DataError: it cannot be read. RequestError: text for a model without a tokeniser.
        """
        if kind in RAW and self.base.stages.tokenizer is None:
            raise RequestError(
                400, f"the model {self.name} has no tokeniser: give words, as sentences or conllu",
                code="not_possible",
            )  # fmt: skip
        file = BytesIO(data)
        if kind == VERTICAL:
            for text in stream_vertical(file, name, chunk_bytes=PIECE):
                yield treebank_from_bytes(text, name)
        elif kind in RAW:
            yield from stream_text(file, name, chunk_bytes=PIECE, of_lines=kind == LINES)
        else:
            assert kind == CONLLU
            yield from stream_treebanks(file, name, chunk_bytes=PIECE)


def words_of(pieces: Sequence[InputPiece], job: Job) -> list[Treebank]:
    """The words of each of some pieces, of any inputs; texts are split together.

    Raises: DataError: a piece cannot be read.
    """
    texts = [piece for piece in pieces if isinstance(piece, TextChunk)]
    found = iter(job.split_all(texts) if texts else ())
    return [
        treebank_of_scan(next(found), piece.source) if isinstance(piece, TextChunk)
        else piece.words if isinstance(piece, Placed) else piece
        for piece in pieces
    ]  # fmt: skip


def load_models(given: Sequence[str], *, threads: int, device: str) -> dict[str, ServedModel]:
    """Load the models of a command line.

    Args: given: `MODEL` or `NAME=MODEL`; without a name it is the last part of the path.
    Returns: them by name, the default model first.
    Raises: ConfigError: two have one name, or a name cannot be one. ModelError: as `gpuparse.load`.
    """
    found: dict[str, ServedModel] = {}
    for each in given:
        name, equals, path = each.partition("=")
        if not equals or os.path.exists(each):
            path, name = each, os.path.basename(os.path.normpath(each))
        if not name or not name.isprintable() or len(name) > 100 or not path:
            raise ConfigError(f"{each!r}: expected MODEL or NAME=MODEL, with a name to print")
        if name in found:
            raise ConfigError(f"two models have the name {name!r}: write NAME={path}")
        options = LoadOptions(threads, device, to_allow_missing="")  # as requests cannot allow it
        parser = gpuparse.SentenceParser.of_folder(path, options)
        job = replace(parser.job(), advise=silent)  # hints are of requests, not for the log
        found[name] = ServedModel(name, parser, job, read_card(find_model(path)))
    return found
