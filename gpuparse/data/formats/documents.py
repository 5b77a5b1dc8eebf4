"""Documents: raw texts of a list or of a column of a table, split into sentences and words."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from gpuparse.data.formats.text import TextChunk, text_chunk
from gpuparse.data.scanner import ScannedText, joined_scans
from gpuparse.data.treebank import Treebank
from gpuparse.errors import DataError

Split = Callable[[TextChunk], ScannedText]  # of a tokeniser: the words of a text as CoNLL-U

_TEXT = "# text = "
_PLACE = re.compile(r"^text:\d+:")


class Documents(NamedTuple):
    """Documents as CoNLL-U.

    words: their sentences, one document after the other; each begins with `# newdoc id = `, and
    each `# sent_id` with the identifier. counts: sentences of each document. faults: what is wrong
    with documents that are left out, by number.
    """

    words: ScannedText
    counts: list[int]
    faults: dict[int, str]


def split_documents(
    texts: Iterable[str | bytes | None], identifiers: Sequence[str], split: Split
) -> Documents:
    """Split texts into sentences and words.

    Args:
        texts: one for each document, or None. identifiers: their names, without line ends.
        split: of a tokeniser.
    Cost: that of the tokeniser.
    """
    parts, counts, faults = [], [], {}
    for number, (text, name) in enumerate(zip(texts, identifiers, strict=True)):
        try:
            encoded = text.encode() if isinstance(text, str) else text or b""
            chunk = text_chunk(encoded, "text")._replace(document=name.encode())
        except UnicodeEncodeError as error:
            faults[number] = f": text has an unpaired surrogate at {error.start}"
        except DataError as error:
            faults[number] = _PLACE.sub(":", str(error))
        if number in faults:
            counts.append(0)
            continue
        parts.append(split(chunk))
        counts.append(parts[-1].text.count(b"\n\n"))
    return Documents(joined_scans(parts), counts, faults)


def identifiers_of(values: Iterable[object] | None, n: int, first: int) -> list[str]:
    """Identifiers as text: the given ones, or the numbers from `first` on.

    Raises: DataError: one is missing, or has a line end.
    """
    if values is None:
        return [str(number) for number in range(first, first + n)]
    found = []
    for number, value in enumerate(values, first):
        name = "" if value is None else str(value)
        try:
            is_sound = bool(name.encode()) and name.isprintable()
        except UnicodeEncodeError:
            is_sound = False
        if not is_sound:
            raise DataError(
                f"[{number}]: id {name[:40]!r}: expected an identifier of printable characters"
            )
        found.append(name)
    return found


def repeated(names: Sequence[str]) -> tuple[int, int] | None:
    """The places of the first name that was there before; None if all differ."""
    seen: dict[str, int] = {}
    for place, name in enumerate(names):
        if seen.setdefault(name, place) != place:
            return seen[name], place
    return None


def texts_of(treebank: Treebank) -> list[str]:
    """The `# text` of each sentence, "" where it has none."""
    data = treebank.data.tobytes()
    starts = [*treebank.spans[:, 0].tolist(), len(data)]
    found = []
    for start, end in pairwise(starts):
        lines = data[start : data.find(b"\n1", start, end)].decode().split("\n")
        of_text = [line.removeprefix(_TEXT) for line in lines if line.startswith(_TEXT)]
        found.append(of_text[0] if of_text else "")
    return found
