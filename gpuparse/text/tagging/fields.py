"""Fields of words that taggers read: values of a form, of its place, and of columns.

form, lower            the form, and in lower case
lower[:3], lower[-3:]  its first and last characters, of forms that have as many
shape, shape[:8]       kinds of its characters: X upper, x lower, a other letters, d digits, all
                       others themselves; runs as one character, and without that
case                   whether it has digits, hyphens, capitals, is all capitals, has no letter
seen                   the tags that the training treebank has for `lower`, frequent ones first
seen[:-2], seen[2:]    the same of `lower` without its last, first characters
seen.last              the same of what is behind its last hyphen or slash
place                  first, second or later word of the sentence
capitals               how many words of the sentence begin with a capital, and whether it is short
upos, xpos, feats      these columns
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

import numpy as np

from gpuparse import native
from gpuparse.data.cached import SharedCache
from gpuparse.data.columns import FEATS, FORM, UPOS, XPOS
from gpuparse.data.treebank import Treebank
from gpuparse.data.vocabulary import Interner, column_ids
from gpuparse.text.sequences.templates import AFTER, BEFORE, MARGIN
from gpuparse.text.tagging.dictionary import Dictionary

if TYPE_CHECKING:
    from gpuparse.text.tagging.network import TagNetwork

COLUMNS = {"upos": UPOS, "xpos": XPOS, "feats": FEATS}
_OF_SENTENCE = ("place", "capitals")
_OF_FORM = re.compile(
    r"form|lower|lower\[:[1-9]\]|lower\[-[1-9]:\]|shape|shape\[:[1-9]\]|case"
    r"|seen|seen\[:-[1-9]\]|seen\[[1-9]:\]|seen\.last"
)
_CACHE = 1 << 18  # forms whose values are kept
_MARGINS = np.arange(MARGIN)
_SHORT, _SOME = 4, 0.5  # words; share of words with a capital


def is_field(name: str) -> bool:
    """True if there is a field of this name."""
    return name in COLUMNS or name in _OF_SENTENCE or _OF_FORM.fullmatch(name) is not None


def value_of(text: str | None) -> int:
    """The number of a field's value, which is not 0; 0 for none."""
    return 0 if text is None else crc32(text.encode()) | 4


class SeenTags:
    """Values of the tags that words in lower case were seen with.

    Args: names: of the words, all different. values: uint32, of each.
    """

    def __init__(self, names: Iterable[str], values: np.ndarray) -> None:
        self._names, self.values = Interner(name.encode() for name in names), values

    @classmethod
    def of_classes(cls, classes: Mapping[str, str]) -> SeenTags:
        """The tags seen with words, from their texts of `class_of_counts`."""
        return cls(classes, np.array([value_of(text) for text in classes.values()], np.uint32))

    @classmethod
    def of_dictionary(cls, known: Dictionary, names: np.ndarray, texts: Sequence[str]) -> SeenTags:
        """The tags that a dictionary counts, under other names; several may be the same.

        Args: names: in place of its own, as `find` takes them. texts: of its tags.
        Cost: some hundreds of nanoseconds a name.
        """
        made = cls((), np.empty(0, np.uint32))
        ids = made._names.intern(names, *_lines(names, len(known.names)))
        numbers = {text: number for number, text in enumerate(dict.fromkeys(texts))}
        cells = ids.astype(np.int64).repeat(np.diff(known.starts)) * len(numbers)
        cells += np.array([numbers[text] for text in texts], np.int64)[known.tags]
        distinct, places = np.unique(cells, return_inverse=True)
        counts = np.bincount(places, known.counts).astype(np.int64)
        rows, tags = np.divmod(distinct, max(len(numbers), 1))
        starts = rows.searchsorted(np.arange(len(made._names) + 1))
        made.values = np.empty(len(made._names), np.uint32)
        lines = as_bytes("\n".join(numbers))
        native.call("classify_counts", starts, tags.astype(np.int32), counts, lines, made.values)
        return made

    @property
    def table(self) -> native.Struct:
        """The words, numbered as `values`, for native code."""
        return self._names.struct

    def find(self, names: np.ndarray, count: int) -> np.ndarray:
        """(N,) uint32 values of words; 0 of those that are not known.

        Args: names: uint8, a line each. count: N.
        """
        numbers = self._names.find(names, *_lines(names, count))
        return np.append(self.values, np.uint32(0))[numbers]


def words_with_upos(names: Sequence[str]) -> np.ndarray:
    """The lines `form<TAB>UPOS` in lower case of `form<TAB>UPOS<TAB>XPOS`."""
    text = "\n".join(names)
    before, lowers = as_bytes(text), as_bytes(text.lower())
    found = np.empty(len(before) + len(lowers), np.uint8)
    return found[: native.call("join_words_with_upos", before, lowers, len(names), found)]


def _lines(text: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """The starts and ends of some lines."""
    feeds = np.flatnonzero(text == ord("\n"))
    return np.append(0, feeds + 1)[:count], np.append(feeds, len(text))[:count]


def class_of_counts(counts: Mapping[str, int]) -> str:
    """The frequent tags, at most four, and the number of words if there are three at most."""
    if len(counts) == 1:  # most words
        [(tag, total)] = counts.items()
        return (str(total) if total <= 3 else "") + (tag if total > 0 else "")
    total = sum(counts.values())
    ranked = sorted((-n, tag) for tag, n in counts.items() if n > 0 and n >= 0.02 * total)
    return (str(total) if total <= 3 else "") + "|".join(tag for _, tag in ranked[:4])


class Words(NamedTuple):
    """The words of a treebank, at P places with those of the edges of sentences.

    ids, forms: of FORM, as `column_ids` reads it. firsts, counts: (S,) int64 words of sentences.
    within: (W,) int64, the words before it in its sentence. places: (W,) int64.
    rows: (P,) int64, 0 before a sentence and 1 behind it; of a word, its number in `ids` plus 2.
    """

    treebank: Treebank
    ids: np.ndarray
    forms: Sequence[str]
    firsts: np.ndarray
    counts: np.ndarray
    within: np.ndarray
    places: np.ndarray
    rows: np.ndarray

    @classmethod
    def of(cls, treebank: Treebank) -> Words:
        """All words of a treebank."""
        ids, forms = column_ids(treebank, FORM)
        starts = treebank.word_starts
        counts, firsts = starts[1:] - starts[:-1], starts[:-1]
        within = np.arange(treebank.n_words) - firsts.repeat(counts)
        edges = firsts + MARGIN * np.arange(1, 2 * len(counts), 2)  # of the first words
        places = within + edges.repeat(counts)
        rows = np.zeros(treebank.n_words + 2 * MARGIN * len(counts), np.int64)
        rows[places] = ids + 2
        rows[(edges + counts)[:, None] + _MARGINS] = 1
        return cls(treebank, ids, forms, firsts, counts, within, places, rows)


class WordFields:
    """Reads fields of a treebank's words.

    Args:
        fields: to be read. seen: what `seen` reads.
        network: whose vectors of forms are found, too; None: nothing asks for them.
    """

    def __init__(
        self, fields: Iterable[str], seen: SeenTags, network: TagNetwork | None = None
    ) -> None:
        self.fields = list(fields)
        self._of_form = set(self.fields) - {*COLUMNS, *_OF_SENTENCE}
        self._others = [(row, f) for row, f in enumerate(self.fields) if f not in self._of_form]
        kept = list(dict.fromkeys([*self.fields, *(network.fields if network else ())]))
        self._forms = SharedCache(lambda: _Forms(kept, seen, network))

    def read(
        self, words: Words, given: Mapping[str, np.ndarray] = {}
    ) -> tuple[np.ndarray, np.ndarray]:
        """The values (F, P) uint32 of all fields, and the places of the words among them.

        Args: given: values (W,) of some fields, in place of those that would be read.
        Returns: as `SequenceTemplates.features` takes them.
        Cost: some microseconds for each distinct form, some nanoseconds for each word.
        """
        lock, known = self._forms.take()
        with lock:
            rows, by_form, letters = known.read(words.forms)
            values = by_form[: len(self.fields)].take(rows[words.rows], axis=1, mode="clip")
        for row, field in self._others:
            if field in given:
                of_words = given[field]
            elif field in COLUMNS:
                column, names = column_ids(words.treebank, COLUMNS[field])
                of_words = np.array([value_of(name) for name in names], np.uint32)[column]
            elif field == "place":
                of_words = np.minimum(words.within, 2) + 4
            else:
                counts = words.counts
                of_form = letters[rows[words.ids + 2]]
                of_words = _capitals(of_form, words.firsts, counts).repeat(counts)
            values[row, words.places] = of_words
        for field in given.keys() & self._of_form:
            values[self.fields.index(field), words.places] = given[field]
        return values, words.places

    def read_vectors(self, words: Words) -> tuple[np.ndarray, np.ndarray]:
        """Vectors of forms (F, D) uint8, and (P,) int64 which of them is at each place of words."""
        lock, known = self._forms.take()
        with lock:
            rows, *_ = known.read(words.forms)
            vectors = known.vectors  # those that are added later leave these as they are
        return vectors, rows[words.rows]


class _Forms:
    """The values of the forms met so far, in rows after those of the edges of sentences.

    Args:
        fields: those that are not of forms have any value. seen: what `seen` reads.
        network: whose vectors are kept, too.
    """

    def __init__(
        self, fields: Sequence[str], seen: SeenTags, network: TagNetwork | None = None
    ) -> None:
        self._fields, self._seen, self._network = fields, seen, network
        self._read_fields = np.array([_field_code(field) for field in fields], np.int64)
        self._cases = [row for row, field in enumerate(fields) if field == "case"]
        self._of_network = [fields.index(field) for field in network.fields] if network else []
        self._clear()

    def _clear(self) -> None:
        self._rows: dict[str, int] = {}
        self._values = np.zeros((len(self._fields), 1024), np.uint32)
        self._values[:, :2] = [BEFORE, AFTER]
        self._letters = np.zeros((1024, 3), np.int64)
        self.vectors = np.zeros((1024, self._network.size if self._network else 0), np.uint8)
        if self._network:
            self.vectors[:2] = self._network.edges()

    def read(self, forms: Sequence[str]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The places of edges and forms, (2 + forms,), in values (fields, R) and letters (R, 3)."""
        if len(self._rows) > _CACHE:
            self._clear()
        known = self._rows
        new = [form for form in forms if form not in known]
        size = 2 + len(known) + len(new)
        if size > len(self._letters):
            more = (0, 2 * size - len(self._letters))
            self._values = np.pad(self._values, ((0, 0), more))
            self._letters = np.pad(self._letters, (more, (0, 0)))
            self.vectors = np.pad(self.vectors, (more, (0, 0)))
        if new:
            first = 2 + len(known)
            lowers = "\n".join(new).lower()
            values = np.empty((len(new), len(self._fields)), np.uint32)
            self._read_new(new, lowers, values)
            self._values[:, first:size] = values.T
            self._letters[first:size] = [
                (form[:1].isalpha(), form[:1].isupper(), form[:1].isalpha() and form.isupper())
                for form in new
            ]
            known.update(zip(new, range(first, size), strict=True))
            if self._network:
                of_network = values[:, self._of_network]
                self.vectors[first:size] = self._network.vectors(of_network, lowers)
        rows = np.array([0, 1, *map(known.__getitem__, forms)])
        return rows, self._values, self._letters

    def _read_new(self, forms: list[str], lowers: str, values: np.ndarray) -> None:
        """Fill the values (N, fields) of forms. Args: lowers: in lower case, a line each."""
        joined = "\n".join(forms)
        texts = FormTexts(*map(as_bytes, (joined, lowers, joined.translate(_KINDS))))
        seen = self._seen
        native.call("read_forms", texts, self._read_fields, seen.table, seen.values, values)
        if self._cases and not joined.isascii():
            for form, of_form in zip(forms, values, strict=True):
                if not form.isascii():
                    of_form[self._cases] = value_of(_case(form))


class FormTexts(NamedTuple):
    """FormTexts of native/api/forms.h."""

    forms: np.ndarray
    lowers: np.ndarray
    kinds: np.ndarray


def as_bytes(text: str) -> np.ndarray:
    """A text in UTF-8, (N,) uint8."""
    return np.frombuffer(text.encode(), np.uint8)


def _field_code(field: str) -> tuple[int, int]:
    """The code of a field for `read_forms` of native/api/forms.h; 0 if it is not of forms."""
    name, _, part = field.partition("[")
    n = int(part.strip("-:]") or 0)
    if part.startswith(":-"):
        return 9, n
    codes = {"form": 1, "lower": 2, "shape": 5, "case": 7, "seen": 8, "seen.last": 11}
    of_parts = {"lower": 3 if part.startswith(":") else 4, "shape": 6, "seen": 10}
    return (of_parts if part else codes).get(name, 0), n


def _kind(character: str) -> str:
    if character.isupper():
        return "X"
    if character.islower():
        return "x"
    if character.isdigit():
        return "d"
    if character.isalpha() or unicodedata.category(character)[0] == "M":
        return "a"
    return character


class _Kinds(dict[int, str]):
    """The kind of each character, by its code, as `str.translate` takes it."""

    def __missing__(self, code: int) -> str:
        kind = self[code] = _kind(chr(code))
        return kind


_KINDS = _Kinds()


def _case(form: str) -> str:
    """The text of `case`; `read_forms` finds those of ASCII."""
    flags = {
        "d": any(map(str.isdigit, form)),
        "-": "-" in form,
        "U": form[:1].isupper(),
        "A": form.isupper(),
        "M": any(map(str.isupper, form[1:])),
        "P": not any(map(str.isalnum, form)),
    }
    return "".join(flag for flag, is_so in flags.items() if is_so) or "-"


def _capitals(letters: np.ndarray, firsts: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """(S,) how many words of each sentence that begin with a letter begin with a capital."""
    of_sentences, capital, upper = np.add.reduceat(letters, firsts).T
    some = _SOME * of_sentences
    is_capital = capital > some
    level = 4 + (of_sentences > 0) + is_capital + (is_capital & (upper >= some))
    return level + 4 * (counts < _SHORT)


def seen_without_itself(
    words: Sequence[str], tags: Sequence[str], counts: Mapping[str, Mapping[str, int]]
) -> np.ndarray:
    """(W,) values of `seen` of training words as if each word did not occur itself."""
    values: dict[tuple[str, str], int] = {}
    found = np.empty(len(words), np.uint32)
    for i, pair in enumerate(zip(words, tags, strict=True)):
        value = values.get(pair)
        if value is None:
            word, tag = pair
            others = {each: n - (each == tag) for each, n in counts[word].items()}
            known = any(others.values())
            value = values[pair] = value_of(class_of_counts(others) if known else None)
        found[i] = value
    return found
