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

import re
import unicodedata
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from gpuparse.cached import SharedCache
from gpuparse.data.tag_columns import FEATS, FORM, UPOS, XPOS
from gpuparse.data.treebank import Treebank
from gpuparse.data.vocabulary import column_ids
from gpuparse.sequences.templates import AFTER, BEFORE, MARGIN

COLUMNS = {"upos": UPOS, "xpos": XPOS, "feats": FEATS}
_OF_SENTENCE = ("place", "capitals")
_OF_FORM = re.compile(
    r"form|lower|lower\[:[1-9]\]|lower\[-[1-9]:\]|shape|shape\[:[1-9]\]|case"
    r"|seen|seen\[:-[1-9]\]|seen\[[1-9]:\]|seen\.last"
)
_CACHE = 1 << 18  # forms whose values are kept
_SEPARATOR = re.compile("[-/]")
_MARGINS = np.arange(MARGIN)
_SHORT, _SOME = 4, 0.5  # words; share of words with a capital


def is_field(name: str) -> bool:
    """Whether there is a field of this name."""
    return name in COLUMNS or name in _OF_SENTENCE or _OF_FORM.fullmatch(name) is not None


def value_of(text: str | None) -> int:
    """The number of a field's value, which is not 0; 0 for none."""
    return 0 if text is None else zlib.crc32(text.encode()) | 4


class SeenTags:
    """Which tags the training treebank has for each word in lower case.

    Args: counts_of: how often a word has each tag; nothing of an unknown word.
    """

    def __init__(self, counts_of: Callable[[str], Mapping[str, int] | None]) -> None:
        self._counts_of = counts_of
        self._classes: dict[str, str] = {}

    def class_of(self, word: str) -> str | None:
        """The tags of a word as one text; None for an unknown one."""
        known = self._classes.get(word)
        if known is None and (counts := self._counts_of(word)):
            known = self._classes[word] = class_of_counts(counts)
        return known


def class_of_counts(counts: Mapping[str, int]) -> str:
    """The frequent tags, at most four, and the number of words if there are three at most."""
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
    def of(cls, treebank: Treebank) -> "Words":
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


class FormNetwork(Protocol):
    """What has vectors of forms; see `TagNetwork`."""

    @property
    def fields(self) -> Sequence[str]:
        """Of words, that it reads."""

    @property
    def size(self) -> int:
        """Numbers of a vector."""

    def vectors(self, values: np.ndarray, lowers: Sequence[str]) -> np.ndarray:
        """The vectors of forms with these values of `fields`."""

    def edges(self) -> np.ndarray:
        """Those of what is before and behind a sentence."""


class WordFields:
    """Reads fields of a treebank's words.

    Args:
        fields: to be read. seen: what `seen` reads.
        network: whose vectors of forms are found, too; it has some of the fields.
    """

    def __init__(
        self, fields: Iterable[str], seen: SeenTags, network: FormNetwork | None = None
    ) -> None:
        self.fields = list(dict.fromkeys([*fields, *(network.fields if network else ())]))
        self._of_form = set(self.fields) - {*COLUMNS, *_OF_SENTENCE}
        self._others = [(row, f) for row, f in enumerate(self.fields) if f not in self._of_form]
        self._forms = SharedCache(lambda: _Forms(self.fields, seen, network))

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
            values = by_form.T.take(rows[words.rows], axis=1)
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
            return known.vectors, rows[
                words.rows
            ]  # rows that are added later leave these as they are


class _Forms:
    """The values of the forms met so far, in rows after those of the edges of sentences.

    Args:
        fields: those that are not of forms have any value. seen: what `seen` reads.
        network: whose vectors are kept, too.
    """

    def __init__(self, fields: Sequence[str], seen: SeenTags, network: FormNetwork | None) -> None:
        self._fields, self._seen, self._network = fields, seen, network
        self._columns = [fields.index(field) for field in network.fields] if network else []
        self._clear()

    def _clear(self) -> None:
        self._rows: dict[str, int] = {}
        self._values = np.zeros((1024, len(self._fields)), np.uint32)
        self._values[:2] = [[BEFORE], [AFTER]]
        self._letters = np.zeros((1024, 3), np.int64)
        self.vectors = np.zeros((1024, self._network.size if self._network else 0), np.uint8)
        if self._network:
            self.vectors[:2] = self._network.edges()

    def read(self, forms: Sequence[str]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Rows (2 + forms,) of edges and forms in the values (R, fields) and letters (R, 3)."""
        if len(self._rows) > _CACHE:
            self._clear()
        known = self._rows
        new = [form for form in forms if form not in known]
        size = 2 + len(known) + len(new)
        if size > len(self._values):
            more = ((0, 2 * size - len(self._values)), (0, 0))
            self._values, self._letters = np.pad(self._values, more), np.pad(self._letters, more)
            self.vectors = np.pad(self.vectors, more)
        for form in new:
            row = 2 + len(known)
            self._values[row] = [value_of(text) for text in self._texts(form)]
            is_letter = form[:1].isalpha()
            self._letters[row] = is_letter, form[:1].isupper(), is_letter and form.isupper()
            known[form] = row
        if new and self._network:
            values = self._values[size - len(new) : size, self._columns]
            lowers = [form.lower() for form in new]
            self.vectors[size - len(new) : size] = self._network.vectors(values, lowers)
        rows = np.array([0, 1, *map(known.__getitem__, forms)])
        return rows, self._values, self._letters

    def _texts(self, form: str) -> list[str | None]:
        lower = form.lower()
        return [self._text(field, form, lower) for field in self._fields]

    def _text(self, field: str, form: str, lower: str) -> str | None:
        name, _, rest = field.partition("[")
        if name == "form":
            return form
        if name == "lower":
            if not rest:
                return lower
            first = int(rest[1] if rest[0] == ":" else rest[1:-2])
            return (
                None if len(lower) < first else lower[:first] if rest[0] == ":" else lower[-first:]
            )
        if name == "shape":
            kinds = "".join(map(_kind, form[: 40 if not rest else int(rest[1])]))
            return kinds if rest else re.sub(r"(.)\1+", r"\1", kinds)[:12]
        if name == "case":
            return _case(form)
        if name == "seen":
            part = lower
            if rest:
                part = lower[: int(rest[1:-1])] if rest[0] == ":" else lower[int(rest[0]) :]
            return self._seen.class_of(part) if not rest or len(part) > 1 else None
        if name != "seen.last":
            return None
        parts = _SEPARATOR.split(lower)
        return self._seen.class_of(parts[-1]) if len(parts) > 1 else None


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


def _case(form: str) -> str:
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
