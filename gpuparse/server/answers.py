"""Answers: CoNLL-U, plain data and drawings of parsed sentences, written piece by piece.

What is long goes to a temporary file, so that memory does not grow with it, and an error has its
status before the first byte is sent.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from tempfile import SpooledTemporaryFile
from typing import Any

import numpy as np

import gpuparse
from gpuparse.api.tokens import encoded, members_as_json
from gpuparse.data.arc_layout import Arc, lay_out
from gpuparse.data.formats.text import line_hints
from gpuparse.data.svg import svg_graph
from gpuparse.data.tikz import tikz_of_layout
from gpuparse.server.refusals import RequestError
from gpuparse.server.worker import Sink
from gpuparse.text.conllu import sentence_text, surface_sentence, with_raw_spaces

IN_MEMORY = 1 << 20  # bytes of an answer
MAX_HINTED = 1 << 16  # bytes of a text whose lines are looked at
MAX_DRAWN = 400  # words of a sentence; drawings take the square of it
CONLLU, VERTICAL, HORIZONTAL, PLAIN = OUTPUTS = "conllu", "vertical", "horizontal", "plaintext"
_BLOCK = 1 << 16


class Spooled:
    """Bytes that are written now and read once later."""

    def __init__(self) -> None:
        self._file: Any = SpooledTemporaryFile(max_size=IN_MEMORY)  # noqa: SIM115 (closed by blocks)
        self.n_bytes = 0

    def write(self, piece: bytes) -> None:
        """Add bytes."""
        self._file.write(piece)
        self.n_bytes += len(piece)

    def add(self, items: Sequence[bytes]) -> None:
        """Add items of a list of JSON."""
        if items:
            self.write(b",\n" * bool(self.n_bytes) + b",\n".join(items))

    def blocks(self) -> Iterator[bytes]:
        """The bytes, in blocks."""
        with self._file as file:
            file.seek(0)
            while block := file.read(_BLOCK):
                yield block


class Body:
    """The body of an answer: bytes and texts, one after the other."""

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
    return encoded(value).encode()


def _inside(text: str) -> bytes:
    """Text as it is inside a string of JSON."""
    return as_json(text)[1:-1]


class ProcessSink(Sink):
    """The answer of UDPipe's interface; output: one of OUTPUTS. is_text: raw text was given."""

    def __init__(self, model: str, output: str, *, is_text: bool) -> None:
        self._output, self._text, self._is_text = output, Spooled(), is_text
        self._head = (
            b'{\n "model": ' + as_json(model) + b',\n "acknowledgements": [],\n "result": "'
        )

    def add(self, text: bytes, sentences: Sequence[gpuparse.ParsedSentence]) -> None:
        """Write sentences in the format that was asked for."""
        found = text.decode()
        if self._is_text:
            found = with_raw_spaces(found)
        if self._output != CONLLU:
            blocks = filter(None, found.split("\n\n"))
            found = "".join(_as_words(block, self._output) for block in blocks)
            if not self._text.n_bytes:
                found = found.removeprefix("\n")  # before the first paragraph
        self._text.write(_inside(found))
        self.n_bytes = self._text.n_bytes

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
    return ("\n" if begins else "") + sentence_text(surface_sentence(block)) + "\n"


class ParseSink(Sink):
    """The answer of /api/parse; text: raw text that was given, "" without any."""

    def __init__(self, model: str, text: bytes = b"") -> None:
        self._model, self._given = model, text if len(text) <= MAX_HINTED else b""
        self._sentences, self._conllu, self._n = Spooled(), Spooled(), 0

    def add(self, text: bytes, sentences: Sequence[gpuparse.ParsedSentence]) -> None:
        """Write sentences as objects and as CoNLL-U."""
        found = []
        for sentence in sentences:
            self._n += 1
            if len(sentence):
                members = members_as_json(sentence, str(self._n))
                found.append(f"{{{','.join(members.values())}}}".encode())
        self._sentences.add(found)
        self._conllu.write(_inside(text.decode()))
        self.n_bytes = self._sentences.n_bytes + self._conllu.n_bytes

    def finish(self) -> Body:
        """One object of JSON."""
        hints = line_hints(self._given, self._n, "lines in place of text makes each a sentence")
        return Body(
            b'{"model":' + as_json(self._model) + b',"sentences":[', self._sentences,
            b'],"conllu":"', self._conllu, b'","warnings":' + as_json(hints) + b"}\n",
        )  # fmt: skip


class DrawSink(Sink):
    """The answer of /api/draw; form: "svg" or "tikz"."""

    def __init__(self, form: str) -> None:
        self._form, self._text = form, Spooled()

    def seconds(self, lengths: np.ndarray) -> np.ndarray:
        """The square of the words."""
        return 1e-6 * lengths.clip(max=MAX_DRAWN) ** 2

    def add(self, text: bytes, sentences: Sequence[gpuparse.ParsedSentence]) -> None:
        """Draw sentences."""
        for sentence in filter(len, sentences):
            if len(sentence) > MAX_DRAWN:
                raise RequestError(
                    422, f"a sentence of {len(sentence):,} words: at most {MAX_DRAWN} are drawn",
                    code="too_long_to_draw",
                )  # fmt: skip
            words, arcs = sentence.words, [Arc(*each) for each in sentence.arcs]
            is_svg = self._form == "svg"
            drawn = svg_graph(words, arcs) if is_svg else tikz_of_layout(lay_out(words, arcs))
            self._text.add([as_json(drawn)])
            self.n_bytes = self._text.n_bytes

    def finish(self) -> Body:
        """One object of JSON."""
        return Body(b'{"drawings":[', self._text, b"]}\n")


class SentenceSink(Sink):
    """One sentence of an input, counted from 1, as CoNLL-U."""

    def __init__(self, number: int) -> None:
        self._left, self._number, self._found = number, number, b""

    def add(self, text: bytes, sentences: Sequence[gpuparse.ParsedSentence]) -> None:
        """Look for it in the next sentences."""
        blocks = re.split(rb"\n\n+", text.replace(b"\r\n", b"\n"))
        blocks = [block for block in blocks if re.search(rb"^[0-9]", block, re.M)]
        if 0 < self._left <= len(blocks):
            self._found = blocks[self._left - 1].strip(b"\n") + b"\n\n"
        self._left -= len(blocks)

    def finish(self) -> bytes:
        """The sentence. Raises: RequestError: there is none of that number."""
        if not self._found:
            raise RequestError(
                422, f"sentence: there are {self._number - self._left:,} sentences",
                code="wrong_field", where="sentence",
            )  # fmt: skip
        return self._found


def with_heads(text: bytes, left: dict[tuple[int, int], int], first: int) -> tuple[bytes, int]:
    """CoNLL-U with these heads alone; all other heads, and all relations and DEPS, are `_`.

    Args:
        left: heads by the numbers of sentence and word, from 1; those of the text are removed.
        first: the sentences before it.
    Returns: the text, and the number of its last sentence.
    Raises: RequestError: a head that its word cannot have.
    """
    lines = text.split(b"\n")
    starts = [i for i, line in enumerate(lines) if line.startswith(b"1\t")]
    sizes = [
        sum(1 for line in lines[i:j] if re.match(rb"[0-9]+\t", line))
        for i, j in pairwise([*starts, len(lines)])
    ]
    sentence = first
    for k, line in enumerate(lines):
        if not re.match(rb"[0-9]+\t", line):
            continue
        columns = line.split(b"\t")
        word = int(columns[0])
        sentence += word == 1
        head = left.pop((sentence, word), None)
        if head is not None and (head > sizes[sentence - first - 1] or head == word):
            raise RequestError(
                422, f"heads: {head} cannot be the head of word {word} of sentence {sentence}",
                code="wrong_field", where="heads",
            )  # fmt: skip
        columns[6:9] = [b"_" if head is None else str(head).encode(), b"_", b"_"]
        lines[k] = b"\t".join(columns)
    return b"\n".join(lines), sentence
