"""Tokens of a text as CoNLL-U, and back: the text of a treebank.

The spaces around tokens are kept in MISC as UDPipe does: `SpaceAfter=No`, `SpacesAfter=\\s\\n` for
anything but one space, `SpacesBefore` before the first token. Other white space is `\\u00A0` and
so on, which Stanza writes too: programs take white space off the ends of lines. `SpacesInToken`,
where a token has other spaces than its FORM, is read too.
"""

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from gpuparse import native
from gpuparse.data.conll import MAX_LINE
from gpuparse.data.formats.paragraphs import ends_paragraph
from gpuparse.data.scanner import ScannedText, empty_scan
from gpuparse.data.treebank import Treebank

NO_PARAGRAPH, NEW_PARAGRAPH, NEW_DOCUMENT = 0, 1, 2
_ESCAPED = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|(.))", re.DOTALL)
_HEXADECIMAL = re.compile(r"\\u([0-9A-F]{4})")
_UNESCAPES = {"s": " ", "t": "\t", "r": "\r", "n": "\n", "p": "|", "\\": "\\"}
_NEW = re.compile(r"#[ \t]*new(par|doc)\b")


class TokenTable(NamedTuple):
    """T tokens of a text in S sentences, none empty, with W words.

    Text is UTF-8 without NUL. A token with less than two words is a word itself.
    """

    starts: np.ndarray  # int64 (T,), byte offsets, ascending
    ends: np.ndarray  # int64 (T,)
    sentence_starts: np.ndarray  # int64 (S + 1,), tokens
    begins: np.ndarray  # uint8 (S,): NO_PARAGRAPH, NEW_PARAGRAPH or NEW_DOCUMENT
    segments: np.ndarray  # int64 (S,), the first number of sent_id
    numbers: np.ndarray  # int64 (S,), the second
    word_starts: np.ndarray  # int64 (T + 1,), words
    words: np.ndarray  # uint8, all words in UTF-8
    word_ends: np.ndarray  # int64 (W + 1,), where each word begins in `words`, and the last ends
    characters: np.ndarray | None  # int64 (T, 2), first character and end of each token
    ends_paragraph: bool  # whether the last sentence does
    document: np.ndarray  # uint8, its name; empty: none


def write_tokens(text: np.ndarray, table: TokenTable) -> ScannedText:
    """CoNLL-U of the tokens, with `# newdoc`, `# newpar`, `# sent_id` and `# text`.

    `sent_id` is `segment-number`, with `document-` before it. The last token of a paragraph always
    says what follows it.

    Args: text: uint8, UTF-8.
    Returns: the text, scanned unless a line is longer than MAX_LINE.
    Raises: ValueError where the table does not fit the text.
    Cost: 50 ns per token.
    """
    n_tokens, n_sentences = len(table.starts), len(table.begins)
    sizes = np.maximum(table.word_starts[1:] - table.word_starts[:-1], 1)
    found = empty_scan(int(sizes.sum()), n_sentences)
    longest, written = np.zeros(1, np.int64), np.empty(0, np.uint8)
    room = 3 * len(text) + 40 * n_tokens + (64 + len(table.document)) * n_sentences  # mostly enough
    while room > len(written):
        written = np.empty(room, np.uint8)
        room = native.call("write_tokens", text, table, written, found, longest)
    return ScannedText(written[:room].tobytes(), found if longest[0] <= MAX_LINE else None)


def with_raw_spaces(conllu: str) -> str:
    """CoNLL-U of `write_tokens` with `\\u00A0` and so on as characters, as UDPipe has them."""
    if "\\u" not in conllu:
        return conllu
    found = []
    for line in conllu.split("\n"):
        columns, tab, misc = line.rpartition("\t")
        found.append(columns + tab + (_HEXADECIMAL.sub(_character, misc) if tab else misc))
    return "\n".join(found)


def _character(found: re.Match[str]) -> str:
    return chr(int(found[1], 16))


def unescaped(value: str) -> str:
    """The white space that was written; `\\u00A0` is read too, other escapes stay as they are."""

    def character(found: re.Match[str]) -> str:
        if found[1]:
            return _character(found)
        return _UNESCAPES.get(found[2], found[0])

    return _ESCAPED.sub(character, value) if "\\" in value else value


class Surface(NamedTuple):
    """A token of a treebank: a word, or a multiword range."""

    text: str
    before: str  # white space before it, where MISC says so
    after: str | None  # after it; None: MISC does not say
    words: tuple[str, ...]  # FORM of the words of a range, else of the word
    form: str
    is_range: bool = False


class SurfaceSentence(NamedTuple):
    """The tokens of a sentence, and whether a paragraph or document begins with it."""

    begins: int
    tokens: list[Surface]
    text: str | None  # of the comment


def surface_sentences(
    treebank: Treebank, *, spaced_as_text: bool = True
) -> Iterator[SurfaceSentence]:
    """The tokens of each sentence; empty nodes are left out.

    Args:
        spaced_as_text: where no token of a sentence has spaces in MISC, take them from `# text`, if
            it has the same characters.

    Cost: 2 µs per word.
    """
    data = treebank.data.tobytes()
    for start, end in treebank.spans.tolist():
        yield surface_sentence(data[start:end].decode(), spaced_as_text=spaced_as_text)


def surface_sentence(lines: str, *, spaced_as_text: bool = True) -> SurfaceSentence:
    """The tokens of a sentence, of its lines; see `surface_sentences`."""
    tokens: list[Surface] = []
    last = 0  # ID of the last word of the range that was read last
    begins, text = read_comments(lines)
    for line in lines.replace("\r\n", "\n").split("\n"):
        if line.startswith("#"):
            continue
        columns = line.split("\t")
        number = columns[0]
        if number.isdecimal():
            if int(number) <= last:
                tokens[-1] = tokens[-1]._replace(words=(*tokens[-1].words, columns[1]))
            else:
                tokens.append(surface(columns[1], columns[9], (columns[1],)))
        elif "-" in number:
            last = int(number.split("-")[1])
            tokens.append(surface(columns[1], columns[9])._replace(is_range=True))
    if spaced_as_text and text is not None and all(token.after is None for token in tokens):
        tokens = _spaced_as(tokens, text)
    return SurfaceSentence(begins, tokens, text)


def sentence_text(sentence: SurfaceSentence) -> str:
    """The `# text` of a sentence; else one space after each token, unless MISC has none."""
    if sentence.text is not None:
        return sentence.text
    pieces = (token.text + ("" if token.after == "" else " ") for token in sentence.tokens)
    return "".join(pieces).rstrip(" ")


def read_comments(lines: str) -> tuple[int, str | None]:
    """The kind of text that begins with a sentence, and its `# text`, from its comments."""
    begins, text = NO_PARAGRAPH, None
    for line in lines.split("\n"):
        if found := _NEW.match(line):
            kind = NEW_DOCUMENT if found[1] == "doc" else NEW_PARAGRAPH
            begins = max(begins, kind)
        elif line.startswith("# text = "):
            text = line[len("# text = ") :].removesuffix("\r")
    return begins, text


def text_pieces(treebanks: Iterable[Treebank]) -> Iterator[str]:
    """The raw text of a treebank that is read in chunks, in pieces to be joined.

    Sentences of a paragraph are separated by a space, paragraphs by an empty line, unless MISC of
    the last token says something else; a text ends with a line feed, unless it does.
    """
    after: str | None = ""
    is_first = True
    for treebank in treebanks:
        for sentence in surface_sentences(treebank):
            if not is_first:
                yield spaces_between(after, sentence.begins != NO_PARAGRAPH)
            is_first = False
            for token in sentence.tokens[:-1]:
                yield token.before + token.text + (" " if token.after is None else token.after)
            for token in sentence.tokens[-1:]:
                yield token.before + token.text
                after = token.after
    if not is_first:
        yield "\n" if after is None else after


def spaces_between(after: str | None, is_new_paragraph: bool) -> str:
    """The white space between two sentences."""
    if not is_new_paragraph:
        return " " if after is None else after
    return after if after and ends_paragraph(after) else (after or "").rstrip(" ") + "\n\n"


def surface(form: str, misc: str, words: tuple[str, ...] = ()) -> Surface:
    """A token, as FORM and MISC say how it is written."""
    text, before, after = form, "", None
    if "Spac" in misc:
        for item in misc.split("|"):
            if item == "SpaceAfter=No":
                after = ""
            elif item.startswith("SpacesAfter="):
                after = unescaped(item[len("SpacesAfter=") :])
            elif item.startswith("SpacesBefore="):
                before = unescaped(item[len("SpacesBefore=") :])
            elif item.startswith("SpacesInToken="):
                text = unescaped(item[len("SpacesInToken=") :])
    return Surface(text, before, after, words, form)


def _spaced_as(tokens: list[Surface], text: str) -> list[Surface]:
    """The tokens with the spaces that a text of the same characters has; else as they are."""
    spaced = []
    at = 0
    for token in tokens:
        if not text.startswith(token.text, at):
            return tokens
        at += len(token.text)
        after = None if text.startswith(" ", at) else ""
        at += after is None
        spaced.append(token._replace(after=after))
    if at < len(text) or not spaced:
        return tokens
    return [*spaced[:-1], spaced[-1]._replace(after=None)]
