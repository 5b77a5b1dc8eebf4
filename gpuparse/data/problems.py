"""All faults of the format and the trees of a treebank, and not only the first of each sentence.

Each line of a malformed sentence is scanned by itself. Then the sentence is scanned again, with the
faulty lines mended or left out, until nothing is wrong: what a mended line hides is found too. The
scanner is that of reading, so that the same things are wrong, and messages are the same.
"""

import re
from bisect import bisect
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from gpuparse.data import scanner
from gpuparse.data.conll import BYTE_ORDER_MARK, MAX_LINE, treebank_from_bytes
from gpuparse.data.faults import TreeFault, fault_text
from gpuparse.data.treebank import Treebank, find_sent_id, place
from gpuparse.data.trees import check_sentences, tree_fault_text, tree_faults
from gpuparse.files import no_utf8

KINDS = {  # of faults of the format, by what the scanner finds
    scanner.COLUMN_COUNT: "columns",
    scanner.LINE_TOO_LONG: "line too long",
    scanner.LONE_RETURN: "line end",
    scanner.NOT_UTF8: "encoding",
    scanner.BAD_ID: "ID",
    scanner.UNEXPECTED_ID: "ID",
    scanner.EMPTY_FORM: "empty FORM",
    scanner.RANGE_REVERSED: "multiword range",
    scanner.RANGE_OVERLAPS: "multiword range",
    scanner.RANGE_MISPLACED: "multiword range",
    scanner.RANGE_PAST_END: "multiword range",
}
TREE_KINDS = {
    TreeFault.MISSING_HEAD: "no head",
    TreeFault.NO_HEAD_NUMBER: "head is no number",
    TreeFault.HEAD_OUT_OF_RANGE: "head not in the sentence",
    TreeFault.SELF_HEAD: "own head",
    TreeFault.CYCLE: "cycle",
    TreeFault.SEVERAL_ROOTS: "several roots",
}
_OF_RANGES = (
    scanner.RANGE_REVERSED, scanner.RANGE_OVERLAPS, scanner.RANGE_MISPLACED, scanner.RANGE_PAST_END
)  # fmt: skip
_IN_CONTEXT = {scanner.UNEXPECTED_ID, *_OF_RANGES}  # that a line alone does not have, or not alone
_WORD_ID = re.compile(rb"[0-9]+(?![-.0-9])")
_ROW = b"\t_\t_\t_\t_\t_\t_\t_\t_\t_"


@dataclass(frozen=True)
class Problem:
    """Something wrong with a treebank.

    line: from 1; None of the file as a whole. sent_id: "" where there is none, or no sentence.
    kind: a short name, that problems are counted by. message: what is wrong and what to do.
    is_error: whether training refuses the treebank because of it.
    """

    file: str
    line: int | None
    sent_id: str
    kind: str
    message: str
    is_error: bool = True

    def __str__(self) -> str:
        if self.line is None:
            return f"{self.file}: {self.message}"
        return place(self.file, self.line, self.sent_id) + self.message


@dataclass
class _FileLine:
    """A line: its number in the file, from 1, its offset, and its bytes, which are mended."""

    number: int
    offset: int
    text: bytes


_Add = Callable[[int, int, _FileLine], None]  # of a fault: its code, detail and line


def find_faults(text: bytes, source: str, *, partial: bool) -> tuple[Treebank, list[Problem]]:
    """All faults of the format and of the trees of a CoNLL file.

    Trees are checked in malformed sentences too, unless their words or the numbers of these are
    unknown. After a wrong ID the further words of its sentence count as numbered right.

    Args:
        text: the file's bytes. source: its name in messages.
        partial: words may lack a head.
    Returns: the sentences without faults; the problems, by line.
    Cost: linear in the bytes; of a malformed sentence also once for each range that is wrong.
    """
    read = treebank_from_bytes(text, source, on_error="skip")
    first_byte = len(BYTE_ORDER_MARK) if text.startswith(BYTE_ORDER_MARK) else 0
    text = text[first_byte:]
    if read.faults and not first_byte and (what := no_utf8(text)):
        return read, [Problem(source, 1, "", "encoding", what)]
    rows = scanner.scan(text, MAX_LINE, stop_at_fault=False).faults if read.faults else ()
    problems: list[Problem] = []
    mended, numbers = [], []
    for row in rows:
        found, sound = _format_faults(text, row, source, first_byte)
        problems += found
        for lines in sound:
            mended.append(b"\n".join([*(line.text for line in lines), b"", b""]))
            numbers += [*(line.number for line in lines), 0]
    rest = treebank_from_bytes(b"".join(mended), source)
    rest = replace(rest, lines=np.array(numbers or [0], np.int64)[rest.lines - 1])
    for treebank in (read, rest):
        problems += _tree_problems(treebank, partial)
    kept, _ = check_sentences(read.heads, read.word_starts, False, partial)
    return read.only(kept == TreeFault.WELL_FORMED), sorted(
        problems, key=lambda each: each.line or 0
    )


def _tree_problems(treebank: Treebank, partial: bool) -> Iterator[Problem]:
    """All faults of the trees."""
    faults, _ = check_sentences(treebank.heads, treebank.word_starts, False, partial)
    for s in np.flatnonzero(faults != TreeFault.WELL_FORMED).tolist():
        sentence = treebank[s]
        for fault, m in tree_faults(sentence.heads, partial=partial):
            word, what = tree_fault_text(sentence, fault, m)
            line = int(treebank.lines[treebank.word_starts[s] + word - 1])
            yield Problem(treebank.source, line, sentence.sent_id, TREE_KINDS[fault], what)


def _format_faults(
    text: bytes, first: np.ndarray, source: str, first_byte: int
) -> tuple[list[Problem], list[list[_FileLine]]]:
    """All faults of the format of a malformed sentence, and what can be read of it.

    Args: text: of the file; first: the row of the first fault; the others as in `fault_text`.
    Returns: the problems; sentences whose words, and the numbers of these, are those of the file.
    """
    start, end = int(first[scanner.FAULT_START]), int(first[scanner.FAULT_END])
    lines = _lines(text, start, end)
    found: dict[tuple[int, int], tuple[int, str]] = {}  # by line and code: offset, message

    def add(code: int, detail: int, line: _FileLine) -> None:
        stop = text.find(b"\n", line.offset) + 1 or end
        what = fault_text((code, detail, 0, line.offset, start, stop), text, first_byte=first_byte)
        found.setdefault((line.number, code), (line.offset, what))

    [line] = [line for line in lines if line.offset == first[scanner.FAULT_OFFSET]]
    add(int(first[scanner.FAULT_CODE]), int(first[scanner.FAULT_DETAIL]), line)
    sound, begins = [], [start]
    for sentence, is_known in _mended(lines, add):
        for part in _sentences(sentence, add):
            begins.append(part[0].offset)
            if _check_numbers(part, add) and is_known:
                sound.append(part)
    names = [find_sent_id(text[at:to]) for at, to in pairwise([*begins, end])]
    # Reading looks at all lines up to the blank one; what it reports, and all faults of the first
    # part, are named as it names them.
    read_name = find_sent_id(text[start:end])
    problems = []
    for i, ((number, code), (at, what)) in enumerate(found.items()):
        index = bisect(begins, at) - 1
        sent_id = read_name if i == 0 or begins[index] == start else names[index]
        problems.append(Problem(source, number, sent_id, KINDS[code], what))
    return problems, sound


def _lines(text: bytes, start: int, end: int) -> list[_FileLine]:
    """The lines of a sentence, without the blank line after it."""
    texts = text[start:end].split(b"\n")
    if not texts[-1]:  # after the last line end
        texts.pop()
        if len(texts) > 1 and texts[-1] in (b"", b"\r"):
            texts.pop()
    lines, number, offset = [], text.count(b"\n", 0, start) + 1, start
    for line in texts:
        lines.append(_FileLine(number, offset, line))
        number, offset = number + 1, offset + len(line) + 1
    return lines


def _mended(lines: list[_FileLine], add: _Add) -> list[tuple[list[_FileLine], bool]]:
    """The lines without the faults that each has by itself, which are added.

    A line of blanks ends a sentence.

    Returns: sentences, each with whether all its words have their HEAD still.
    """
    alone = b"".join(line.text + b"\n\n" for line in lines)
    faults = scanner.scan(alone, MAX_LINE, stop_at_fault=False).faults
    codes: dict[int, int] = {}
    for row in faults:
        found_code, detail, at = (int(row[i]) for i in range(3))
        if found_code not in _IN_CONTEXT:
            codes[at // 2] = found_code
            add(found_code, detail, lines[at // 2])
    found: list[tuple[list[_FileLine], bool]] = []
    sentence: list[_FileLine] = []
    is_known = True
    for i, line in enumerate(lines):
        code, mended = codes.get(i), line.text
        try:
            mended.decode()
        except UnicodeDecodeError as error:
            add(scanner.NOT_UTF8, line.offset + error.start, line)
            mended = mended.decode(errors="replace").encode()
        if code in (scanner.COLUMN_COUNT, scanner.LINE_TOO_LONG, scanner.LONE_RETURN):
            if not mended.strip():
                found.append((sentence, is_known))
                sentence, is_known = [], True
                continue
            if mended.startswith(b"#"):
                continue
            is_known = False
            number = _WORD_ID.match(mended)
            if number is None:
                continue
            mended = number[0] + _ROW
        elif code == scanner.EMPTY_FORM:
            mended = mended.replace(b"\t", b"\t_", 1)
        sentence.append(replace(line, text=mended))
    return [*found, (sentence, is_known)]


def _sentences(lines: list[_FileLine], add: _Add) -> Iterator[list[_FileLine]]:
    """The lines cut before each word 1 but the first word, and before its comments."""
    begin = n_words = 0
    for i, line in enumerate(lines):
        if n_words and line.text.startswith(b"1\t"):
            add(scanner.UNEXPECTED_ID, n_words + 1, line)
            cut = i
            while lines[cut - 1].text.startswith(b"#"):
                cut -= 1
            yield lines[begin:cut]
            begin, n_words = cut, 0
        n_words += _is_word(line)
    if lines[begin:]:
        yield lines[begin:]


def _check_numbers(sentence: list[_FileLine], add: _Add) -> bool:
    """Add all faults of IDs and ranges of lines without other faults, and mend these.

    sentence: loses lines that are left out.
    Returns: whether all words have their numbers still.
    """
    is_numbered = True
    while True:
        text = b"".join(line.text + b"\n" for line in sentence)
        faults = scanner.scan(text, len(text), stop_at_fault=True).faults
        if not len(faults):
            return is_numbered
        code, detail, i = (int(number) for number in faults[0, :3])
        add(code, detail, sentence[i])
        if code in _OF_RANGES:
            del sentence[i]
            continue
        is_numbered = False
        sentence[i:] = _renumbered(sentence[i:], sum(map(_is_word, sentence[:i])) + 1)


def _is_word(line: _FileLine) -> bool:
    return _WORD_ID.match(line.text) is not None


def _renumbered(lines: list[_FileLine], number: int) -> list[_FileLine]:
    """The lines of words, numbered from a number on, and the comments."""
    found: list[_FileLine] = []
    for line in lines:
        if _is_word(line):
            found.append(replace(line, text=b"%d\t" % number + line.text.partition(b"\t")[2]))
            number += 1
        elif line.text.startswith(b"#"):
            found.append(line)
    return found
