"""Rows and comments of a treebank that reading accepts, and the validator of UD does not."""

import re
import unicodedata
from collections.abc import Iterator

from gpuparse.data.columns import DEPREL, DEPS, FEATS, FORM, HEAD, ID, LEMMA, MISC
from gpuparse.data.faults import DepsFault, quoted
from gpuparse.data.graphs import MESSAGES
from gpuparse.data.problems import Problem
from gpuparse.data.scanner import column_name
from gpuparse.data.treebank import Treebank
from gpuparse.data.vocabulary import column_ids

_HEAD = re.compile(r"(?:0|[1-9][0-9]{0,8})(?:\.[1-9][0-9]{0,8})?")
_Found = Iterator[tuple[int, str, str]]  # index of a line, kind and message


def row_warnings(treebank: Treebank) -> Iterator[Problem]:
    """Faults of structure that training does not mind.

    Comments inside or behind a sentence, empty nodes in another place or order, columns that must
    be `_` in rows of multiword tokens and empty nodes, every item of DEPS that cannot be read, and
    text that is not in Unicode's normal form NFC.

    Cost: 2 µs per word.
    """
    deps = {*column_ids(treebank, DEPS)[1]} - {"", "_"}
    is_phead = bool(deps) and all(each.isascii() and each.isdigit() for each in deps)  # of CoNLL-X
    data = treebank.data.tobytes()
    for s, (start, end) in enumerate(treebank.spans.tolist()):
        text = data[start:end].decode()
        rows = [line.removesuffix("\r").split("\t") for line in text.split("\n")]
        first = next(i for i, row in enumerate(rows) if row[ID] == "1" and len(row) > 1)
        before = int(treebank.lines[treebank.word_starts[s]]) - first
        found = [*_misplaced(rows), *_not_empty(rows)]
        if not is_phead:
            found += _of_deps(rows)
        if not unicodedata.is_normalized("NFC", text):
            found += _not_normal(rows)
        name = treebank.sent_id(s) if found else ""
        for i, kind, message in found:
            yield Problem(treebank.source, before + i, name, kind, message, is_error=False)


def _misplaced(rows: list[list[str]]) -> _Found:
    """Comments and empty nodes in a wrong place."""
    i = j = last = 0  # the word and empty node before; the last word of the range that begins
    range_id = ""
    for line, row in enumerate(rows):
        number = row[ID]
        if number.startswith("#"):
            if i or j or last:
                what = "a comment inside or behind a sentence; put it before the first word"
                yield line, "comment", what
        elif "-" in number:
            last, range_id = int(number.partition("-")[0]), number
        elif "." in number:
            j += 1
            if number != f"{i}.{j}":
                what = (
                    f"empty node {number} where {i}.{j} should be; put empty nodes behind the word"
                    " that they follow, and number them i.1, i.2, ..."
                )
                yield line, "empty node", what
                j = int(number.partition(".")[2]) if number.startswith(f"{i}.") else j - 1
            elif last > i:
                what = f"empty node {number} is behind the row {range_id}; put it before that row"
                yield line, "empty node", what
        elif number:
            i, j = int(number), 0


def _not_empty(rows: list[list[str]]) -> _Found:
    """Columns of multiword tokens and empty nodes that must be `_`."""
    for line, row in enumerate(rows):
        is_range, is_empty_node = "-" in row[ID], "." in row[ID]
        if len(row) == 1 or not (is_range or is_empty_node):
            continue
        kind = "multiword token" if is_range else "empty node"
        for column in range(LEMMA, MISC) if is_range else (HEAD, DEPREL):
            is_typo = is_range and column == FEATS and row[column] == "Typo=Yes"
            if row[column] != "_" and not is_typo:
                what = f"{column_name(column)} of the {kind} {row[ID]} is {quoted(row[column])}"
                yield line, kind, f"{what}; write _, as in every {kind}"


def _of_deps(rows: list[list[str]]) -> _Found:
    """Items of DEPS that cannot be read, or name a missing empty node."""
    ids = {row[ID] for row in rows if len(row) > 1}
    n = sum(number.isdecimal() for number in ids)
    for line, row in enumerate(rows):
        if len(row) == 1 or "-" in row[ID] or row[DEPS] in ("", "_"):
            continue
        node = "empty node" if "." in row[ID] else "word"
        for item in row[DEPS].split("|"):
            if fault := deps_fault(item, row[ID], n):
                what = MESSAGES[fault].format(n=n)
            elif (head := item.partition(":")[0]) != "0" and head not in ids:
                what = f"but the sentence has no empty node {head}"
            else:
                continue
            where = f"DEPS of {node} {row[ID]} ({row[FORM]})"
            yield line, "DEPS", f"{where} has the item {quoted(item)}, {what}"


def deps_fault(item: str, own: str, n: int) -> DepsFault:
    """The fault of an item of DEPS of the node with an ID, in a sentence of n words."""
    head, colon, relation = item.partition(":")
    if not colon:
        return DepsFault.NO_COLON
    if not _HEAD.fullmatch(head):
        return DepsFault.NO_NUMBER
    if not relation:
        return DepsFault.NO_RELATION
    if int(head.partition(".")[0]) > n:
        return DepsFault.OUT_OF_RANGE
    return DepsFault.OWN_HEAD if head == own else DepsFault.NO_DEPS_FAULT


def _not_normal(rows: list[list[str]]) -> _Found:
    """Comments and columns whose characters are not composed as NFC has them."""
    for line, row in enumerate(rows):
        for column, value in enumerate(row):
            if not unicodedata.is_normalized("NFC", value):
                where = (
                    "the comment" if len(row) == 1 else f"{column_name(column)}, {quoted(value)},"
                )
                what = f"{where} is not in Unicode's normal form NFC; normalise the file"
                yield line, "normal form", what
                break
