"""Answers: CoNLL-U, plain data and drawings of parsed sentences, written piece by piece.

What is long goes to a temporary file, so that memory does not grow with it, and an error has its
status before the first byte is sent.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from tempfile import SpooledTemporaryFile
from typing import Any

import gpuparse
from gpuparse.api.tokens import items_of
from gpuparse.data.arc_layout import Arc, lay_out
from gpuparse.data.svg import svg_graph
from gpuparse.data.tikz import tikz_of_layout
from gpuparse.server.refusals import RequestError
from gpuparse.server.worker import Sink

IN_MEMORY = 1 << 20  # bytes of an answer
MAX_DRAWN = 400  # words of a sentence; drawings take the square of it
CONLLU, VERTICAL, HORIZONTAL, PLAIN = OUTPUTS = "conllu", "vertical", "horizontal", "plaintext"
_BLOCK = 1 << 16
_RANGE = re.compile(rb"^([0-9][^\n]*[\t|])TokenRange=[0-9]+:[0-9]+(\|[^\t\n]*)?$", re.MULTILINE)
_ROW = re.compile(r"[0-9]+(?:-[0-9]+)?\t")


class Spooled:
    """Bytes that are written now and read once later."""

    def __init__(self) -> None:
        self._file: Any = SpooledTemporaryFile(max_size=IN_MEMORY)  # noqa: SIM115 (closed by blocks)
        self.n_bytes = 0

    def write(self, piece: bytes) -> None:
        """Add bytes."""
        self._file.write(piece)
        self.n_bytes += len(piece)

    def blocks(self) -> Iterator[bytes]:
        """The bytes, in blocks."""
        with self._file as file:
            file.seek(0)
            while block := file.read(_BLOCK):
                yield block


class Body:
    """The body of an answer: bytes and texts, one after the other; n_words: of the input."""

    def __init__(self, *parts: bytes | Spooled) -> None:
        self._parts = parts
        self.n_bytes = sum(p.n_bytes if isinstance(p, Spooled) else len(p) for p in parts)

    def blocks(self) -> Iterator[bytes]:
        """The bytes, in blocks."""
        for part in self._parts:
            if isinstance(part, Spooled):
                yield from part.blocks()
            elif part:
                yield part


def as_json(value: Any) -> bytes:
    """A value as JSON in UTF-8."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


def _inside(text: str) -> bytes:
    """Text as it is inside a string of JSON."""
    return json.dumps(text, ensure_ascii=False)[1:-1].encode()


class ProcessSink(Sink):
    """The answer of UDPipe's interface; `model` is the name, `output` one of OUTPUTS."""

    def __init__(self, model: str, output: str) -> None:
        self._output, self._text = output, Spooled()
        head = json.dumps({"model": model, "acknowledgements": [], "result": ""}, indent=1)
        self._head = head.removesuffix('"\n}').encode()

    def add(self, text: bytes, sentences: Sequence[gpuparse.ParsedSentence]) -> None:
        """Write sentences in the format that was asked for."""
        found = text.decode()
        if self._output != CONLLU:
            blocks = filter(None, found.split("\n\n"))
            found = "".join(_as_words(block, self._output) for block in blocks)
            if not self._text.n_bytes:
                found = found.removeprefix("\n")  # before the first paragraph
        self._text.write(_inside(found))

    def finish(self) -> Body:
        """One object of JSON."""
        return Body(self._head, self._text, b'"\n}\n')


def _as_words(block: str, output: str) -> str:
    """A sentence without its analysis."""
    lines = block.split("\n")
    forms = [line.split("\t")[1] for line in lines if re.match(r"[0-9]+\t", line)]
    if not forms:
        return ""
    if output == VERTICAL:
        return "\n".join(forms) + "\n\n"
    if output == HORIZONTAL:
        return " ".join(form.replace(" ", "\u00a0") for form in forms) + "\n"
    begins = any(line.startswith("# newpar") for line in lines)
    return ("\n" if begins else "") + sentence_text(block) + "\n"


def sentence_text(block: str) -> str:
    """The `# text` of a sentence, or its tokens with the spaces between them."""
    for line in block.split("\n"):
        if line.startswith("# text = "):
            return line.removeprefix("# text = ")
    text, passed = "", 0
    for line in block.split("\n"):
        if not _ROW.match(line):
            continue
        columns = line.split("\t")
        first, _, last = columns[0].partition("-")
        if int(first) > passed:
            passed = int(last or first)
            text += columns[1] + ("" if "SpaceAfter=No" in columns[9].split("|") else " ")
    return text.rstrip(" ")


class ParseSink(Sink):
    """The answer of /api/parse."""

    def __init__(self, model: str, *, has_ranges: bool) -> None:
        self._model, self._has_ranges = model, has_ranges
        self._sentences, self._conllu, self._n = Spooled(), Spooled(), 0

    def add(self, text: bytes, sentences: Sequence[gpuparse.ParsedSentence]) -> None:
        """Write sentences as objects and as CoNLL-U."""
        found = []
        for sentence in sentences:
            self._n += 1
            if len(sentence):
                found.append(as_json(sentence_dict(sentence, self._n)))
        if found:
            self._sentences.write(b",\n" * bool(self._sentences.n_bytes) + b",\n".join(found))
        text = without_ranges(text) if self._has_ranges else text
        self._conllu.write(_inside(text.decode()))

    def finish(self) -> Body:
        """One object of JSON."""
        return Body(
            b'{"model":' + as_json(self._model) + b',"sentences":[', self._sentences,
            b'],"conllu":"', self._conllu, b'"}\n',
        )  # fmt: skip


def without_ranges(text: bytes) -> bytes:
    """CoNLL-U of text without TokenRange in MISC, as it is written unless ranges are asked for."""

    def without(row: re.Match[bytes]) -> bytes:
        if row[2]:
            return row[1] + row[2][1:]
        return row[1] + b"_" if row[1].endswith(b"\t") else row[1][:-1]

    return _RANGE.sub(without, text)


def sentence_dict(sentence: gpuparse.ParsedSentence, number: int) -> dict[str, Any]:
    """A sentence as plain data for JSON.

    Args: number: of the sentence in the answer, which is its name if it has none.
    """
    block = sentence.to_conllu().partition("\n\n")[0].replace("\r", "")
    tokens: list[dict[str, Any]] = []
    multiword: list[dict[str, Any]] = []
    own = sentence.probabilities
    of_labels, of_tags = sentence.deprel_probabilities, sentence.tag_probabilities
    inside = 0  # the last word of a multiword token that was passed
    for line in block.split("\n"):
        if not _ROW.match(line):
            continue
        columns = line.split("\t")
        misc = columns[9].split("|")
        start, end = _place(misc)
        first, _, last = columns[0].partition("-")
        if last:
            inside = int(last)
            multiword.append(
                {"first": int(first), "last": inside, "form": columns[1], "start": start,
                 "end": end, "space_after": "SpaceAfter=No" not in misc}
            )  # fmt: skip
            continue
        i = len(tokens)
        is_inner = i + 1 < inside or (i + 1 == inside and bool(multiword))
        tokens.append(
            {
                "id": i + 1, "form": columns[1], "lemma": _value(columns[2], columns[1]),
                "upos": _value(columns[3]), "xpos": _value(columns[4]),
                "feats": dict(items_of(columns[5])), "head": sentence.heads[i],
                "deprel": sentence.deprels[i] if sentence.deprels else None,
                "start": start, "end": end,
                "space_after": not is_inner and "SpaceAfter=No" not in misc,
                "probability": own[i] if own else None,
                "deprel_probability": of_labels[i] if of_labels else None,
                "tag_probability": of_tags[i] if of_tags else None,
            }
        )  # fmt: skip
    if multiword:
        ends = {each["last"]: each["space_after"] for each in multiword}
        for token in tokens:
            token["space_after"] = ends.get(token["id"], token["space_after"])
        for each in multiword:
            del each["space_after"]
    return {
        "id": sentence.sent_id or str(number), "text": sentence_text(block), "tokens": tokens,
        "multiword": multiword,
        "trees": [
            {"heads": tree.heads, "deprels": tree.deprels, "probabilities": tree.probabilities,
             "score": tree.score, "probability": tree.probability}
            for tree in sentence.trees
        ],
    }  # fmt: skip


def _value(text: str, form: str = "") -> str | None:
    """A column; None for `_`, unless the word is `_` itself."""
    return None if text == "_" and form != "_" else text


def _place(misc: list[str]) -> tuple[int | None, int | None]:
    for item in misc:
        if item.startswith("TokenRange="):
            start, _, end = item.removeprefix("TokenRange=").partition(":")
            if start.isdigit() and end.isdigit():
                return int(start), int(end)
    return None, None


class DrawSink(Sink):
    """The answer of /api/draw; form: "svg" or "tikz"."""

    def __init__(self, form: str) -> None:
        self._form, self._text = form, Spooled()

    def add(self, text: bytes, sentences: Sequence[gpuparse.ParsedSentence]) -> None:
        """Draw sentences."""
        for sentence in filter(len, sentences):
            if len(sentence) > MAX_DRAWN:
                raise RequestError(
                    422, f"a sentence of {len(sentence):,} words: at most {MAX_DRAWN} are drawn",
                    code="too_long_to_draw",
                )  # fmt: skip
            comma = b",\n" * bool(self._text.n_bytes)
            self._text.write(comma + as_json(_drawn(sentence, self._form)))

    def finish(self) -> Body:
        """One object of JSON."""
        return Body(b'{"drawings":[', self._text, b"]}\n")


def _drawn(sentence: gpuparse.ParsedSentence, form: str) -> str:
    arcs = [Arc(*each) for each in sentence.arcs]
    if form == "svg":
        return svg_graph(sentence.words, arcs)
    return tikz_of_layout(lay_out(sentence.words, arcs))


def one_sentence(text: bytes, number: int) -> bytes:
    """One sentence of CoNLL-U, counted from 1. Raises: RequestError: there is no such sentence."""
    blocks = [block for block in re.split(rb"\n\n+", text) if re.search(rb"^[0-9]", block, re.M)]
    if number > len(blocks):
        raise RequestError(
            422, f"sentence: there are {len(blocks):,} sentences", code="wrong_field",
            where="sentence",
        )  # fmt: skip
    return blocks[number - 1].strip(b"\n") + b"\n\n"


def with_heads(text: bytes, heads: dict[tuple[int, int], int]) -> bytes:
    """CoNLL-U with these heads alone; all other heads, and all relations and DEPS, are `_`.

    Args: heads: by the numbers of sentence and word, from 1.
    Raises: RequestError: there is no such sentence, word or head.
    """
    lines, left = text.split(b"\n"), dict(heads)
    starts = [i for i, line in enumerate(lines) if line.startswith(b"1\t")]
    sizes = [
        sum(1 for line in lines[i:j] if re.match(rb"[0-9]+\t", line))
        for i, j in pairwise([*starts, len(lines)])
    ]
    sentence = 0
    for k, line in enumerate(lines):
        if not re.match(rb"[0-9]+\t", line):
            continue
        columns = line.split(b"\t")
        word = int(columns[0])
        sentence += word == 1
        head = left.pop((sentence, word), None)
        if head is not None and (head > sizes[sentence - 1] or head == word):
            raise RequestError(
                422, f"heads: {head} cannot be the head of word {word} of sentence {sentence}",
                code="wrong_field", where="heads",
            )  # fmt: skip
        columns[6:9] = [b"_" if head is None else str(head).encode(), b"_", b"_"]
        lines[k] = b"\t".join(columns)
    for sentence, word in left:
        raise RequestError(
            422, f"heads: there is no word {word} of sentence {sentence}", code="wrong_field",
            where="heads",
        )  # fmt: skip
    return b"\n".join(lines)
