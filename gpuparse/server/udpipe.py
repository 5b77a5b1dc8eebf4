"""The interface of the UDPipe 2 service: /models and /process."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from io import BytesIO
from typing import TYPE_CHECKING

from gpuparse.data.formats.names import CONLLU, LINES, RAW, TEXT, VERTICAL
from gpuparse.errors import one_line
from gpuparse.jobs.options import TAGS as KEEP_TAGS
from gpuparse.jobs.options import ParseOptions
from gpuparse.jobs.parse import Job
from gpuparse.server.answers import OUTPUTS, Body, ProcessSink
from gpuparse.server.models import PIECE, TAGS, TREES, WORDS, InputPiece, ServedModel
from gpuparse.server.refusals import RequestError

if TYPE_CHECKING:
    from starlette.requests import Request

    from gpuparse.server.app import Service

_STAGES = ("tokenizer", "tagger", "parser")
_TOKENIZERS = ("tokenizer", "generic_tokenizer")
HORIZONTAL = "horizontal"
INPUTS = (CONLLU, *_TOKENIZERS, VERTICAL, HORIZONTAL)
_VERSION = re.compile(r"conllu=v[12]")
_PRESEGMENTED, _RANGES = "presegmented", "ranges"


def models_of(models: Mapping[str, ServedModel]) -> bytes:
    """The answer of /models: each model with the stages that it has."""
    found = {name: [s for s in _STAGES if s in model.stages] for name, model in models.items()}
    return json.dumps({"models": found, "default_model": next(iter(models))}, indent=1).encode()


async def process_request(service: Service, request: Request, fields: Mapping[str, str]) -> Body:
    """The answer of /process.

    Args: fields: of the form and the URL.
    Raises: RequestError.
    """
    if "data" not in fields:
        raise RequestError(400, "The parameter 'data' is required.", where="data")
    name = fields.get("model", "") or next(iter(service.models))
    if name not in service.models:
        raise RequestError(400, f"The requested model '{one_line(name)}' does not exist.")
    model = service.models[name]
    output = fields.get("output", CONLLU)
    if output not in OUTPUTS:
        raise RequestError(
            400, f"Unknown output format '{one_line(output)}'; expected {', '.join(OUTPUTS)}."
        )
    kind, has_ranges = _input(fields)
    options, depth = _asked(model, fields, has_ranges)
    data, limits = fields["data"].encode(), service.limits

    def pieces(job: Job) -> Iterator[InputPiece]:
        if kind == HORIZONTAL:
            for text in _as_vertical(data, limits.n_words):
                yield from model.pieces(text, VERTICAL, "data")
        else:
            yield from model.pieces(data, kind, "data")

    sink = ProcessSink(model.name, output, is_text=kind in RAW)
    return await service.answer(request, model, options, depth, pieces=pieces, sink=sink)


def _input(fields: Mapping[str, str]) -> tuple[str, bool]:
    """The format of the data, and whether places of tokens are wanted."""
    given = fields.get("input", CONLLU) or CONLLU
    name, _, own = given.partition("=")
    if "tokenizer" not in fields and name not in _TOKENIZERS:
        if given not in INPUTS and not _VERSION.fullmatch(given):
            raise RequestError(
                400,
                f"Cannot parse the input in '{one_line(given)}' format; expected"
                f" {', '.join(INPUTS)}.",
            )
        return CONLLU if name == CONLLU else given, False
    asked = {each for each in re.split("[;,]", fields.get("tokenizer", own)) if each}
    for option in asked - {_PRESEGMENTED, _RANGES}:
        raise RequestError(
            400,
            f"Unknown option of the tokenizer '{one_line(option)}'; expected {_PRESEGMENTED} or"
            f" {_RANGES}.",
        )
    return LINES if _PRESEGMENTED in asked else TEXT, _RANGES in asked


def _asked(
    model: ServedModel, fields: Mapping[str, str], has_ranges: bool
) -> tuple[ParseOptions, str]:
    """The options, and how far the data are analysed."""
    for stage in ("tagger", "parser"):
        if fields.get(stage):
            raise RequestError(
                400, f"Unknown option of the {stage} '{one_line(fields[stage])}'; give none."
            )
    tags, trees = "tagger" in fields, "parser" in fields
    if tags and not trees and not model.base.stages.columns:
        raise RequestError(400, f"The model '{model.name}' has no tagger.")
    keeps = trees and not tags and bool(model.base.stages.columns)
    options = ParseOptions(keep=KEEP_TAGS if keeps else None, ranges=has_ranges)
    return options, TREES if trees else TAGS if tags else WORDS


def _as_vertical(data: bytes, max_words: int) -> Iterator[bytes]:
    """Sentences in lines, words between spaces, as a word in each line, some at a time.

    Raises: RequestError: a line has too many words.
    """
    found = bytearray()
    for line in BytesIO(data):
        words = line.split(None, max_words)
        if len(words) > max_words:
            raise RequestError(
                413, f"more than {max_words:,} words: send the text in several requests",
                code="too_many_words", where="data",
            )  # fmt: skip
        if words:
            found += b"\n".join(words) + b"\n\n"
        if len(found) > PIECE:
            yield bytes(found)
            found.clear()
    yield bytes(found)
