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
from gpuparse.data.cached import SharedCache, cached_property
from gpuparse.data.columns import FORM
from gpuparse.data.treebank import Treebank
from gpuparse.data.vocabulary import Interner, column_ids
from gpuparse.errors import plural
from gpuparse.text.sequences.model import NO_HIDDEN, SequenceModel, Sequences
from gpuparse.text.sequences.tags import starts_of
from gpuparse.text.sequences.templates import (
    AFTER,
    BEFORE,
    MARGIN,
    SequenceTemplates,
    TemplateArrays,
)
from gpuparse.text.tagging.dictionary import MAX_CELLS, Dictionary

if TYPE_CHECKING:
    from gpuparse.text.tagging.network import NetworkArrays, TagNetwork

COLUMNS = ("upos", "xpos", "feats")
_OF_SENTENCE = {"place": -1, "capitals": -2}  # as in native/api/tagging.h
_GIVEN = -3  # the first field that is given
N_EDGES = 2  # rows of what is before and behind a sentence
_OF_FORM = re.compile(
    r"form|lower|lower\[:[1-9]\]|lower\[-[1-9]:\]|shape|shape\[:[1-9]\]|case"
    r"|seen|seen\[:-[1-9]\]|seen\[[1-9]:\]|seen\.last"
)
_CACHE = 1 << 18  # forms whose values are kept
_NOTHING = np.empty(0, np.int32)


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
    """W words in S sentences.

    starts: (S + 1,) int64. ids: (W,) int32 numbers of forms.
    """

    starts: np.ndarray
    ids: np.ndarray
    forms: Sequence[str]

    @classmethod
    def of(cls, treebank: Treebank) -> Words:
        """All words of a treebank."""
        return cls(treebank.word_starts, *column_ids(treebank, FORM))


class WordBatch(NamedTuple):
    """As native/api/tagging.h has it."""

    starts: np.ndarray
    ids: np.ndarray
    rows: np.ndarray
    given: np.ndarray


class WordReader(NamedTuple):
    """As native/api/tagging.h has it."""

    templates: TemplateArrays
    fields: np.ndarray
    network: NetworkArrays | None


class WordForms(NamedTuple):
    """As native/api/tagging.h has it."""

    values: np.ndarray
    letters: np.ndarray
    vectors: np.ndarray


class WordFields:
    """Reads fields of words.

    Args:
        given: names of fields whose values come with the words, in place of those of forms; all
            fields of columns that are read.
        forms: of `known_forms`, with the other fields.
    """

    def __init__(
        self, fields: Sequence[str], given: Sequence[str], forms: SharedCache[_Forms]
    ) -> None:
        self._forms = forms
        rows = {name: row for row, name in enumerate(forms.take()[1].fields)}
        rows |= _OF_SENTENCE | {name: _GIVEN - g for g, name in enumerate(given)}
        self._fields = np.array([rows[name] for name in fields], np.int64)

    def read_values(self, words: Words, given: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The values (F, P) uint32 of all fields, and the places (W,) of the words among them.

        Args: given: (G, W) uint32.
        Returns: as `SequenceTemplates.features` takes them.
        """
        forms, rows = self._known(words)
        n_places = len(words.ids) + 2 * MARGIN * (len(words.starts) - 1)
        values = np.empty((len(self._fields), n_places), np.uint32)
        places = np.empty(len(words.ids), np.int64)
        listed = WordBatch(words.starts, words.ids, rows, given)
        native.call("find_word_values", forms, self._fields, listed, values, places)
        return values, places

    def _known(self, words: Words) -> tuple[native.Struct, np.ndarray]:
        """The forms that are known, those of the words among them, and the rows of these."""
        lock, known = self._forms.take()
        with lock:
            return known.read(words.forms)


class WordSequences(WordFields):
    """Reads words as sequences for a model.

    Args:
        templates: of the model. given, forms: as WordFields has them.
        network: of `forms`, whose hidden numbers the model reads; None: none.
    """

    def __init__(
        self, templates: SequenceTemplates, given: Sequence[str], forms: SharedCache[_Forms],
        network: TagNetwork | None = None,
    ) -> None:  # fmt: skip
        super().__init__(templates.fields, given, forms)
        self._templates, self._network = templates, network

    def read(
        self, words: Words, given: np.ndarray, lists: np.ndarray, candidates: Sequence[np.ndarray]
    ) -> Sequences:
        """The words with their candidates, and the hidden numbers of those that have to be found.

        Args, raises, cost: as `find`.
        """
        return self.find(None, words, given, lists, candidates)[0]

    def find(
        self, model: SequenceModel | None, words: Words, given: np.ndarray, lists: np.ndarray,
        candidates: Sequence[np.ndarray], before: Sequences | None = None,
    ) -> tuple[Sequences, np.ndarray]:  # fmt: skip
        """As `read`, and the best tags, (W,) int32, as `SequenceModel.find` finds them.

        Args:
            model: that finds tags; None: none are found.
            given: (G, W) uint32. lists: (W,) int32, which of the `candidates` each word has.
            before: of the same words, whose hidden numbers are used again.
        Raises: MemoryError: there are more than MAX_CELLS candidates.
        Cost: some microseconds for each distinct form, some nanoseconds for each word.
        """
        forms, rows = self._known(words)
        n, hidden = len(words.ids), NO_HIDDEN
        if self._network:
            hidden = before.hidden if before else np.empty((n, self._network.sizes[2]), np.uint8)
        ends = starts_of(map(len, candidates))
        n_cells = int((ends[1:] - ends[:-1])[lists].sum())
        if n_cells > MAX_CELLS:
            raise MemoryError(
                f"{n_cells:,} tags are possible for {plural(n, 'word')}, more than {MAX_CELLS:,}:"
                " split long sentences"
            )
        found = Sequences(
            np.empty((n, len(self._templates.templates)), np.uint32), words.starts,
            np.empty(n + 1, np.int64), np.empty(n_cells, np.int32), hidden,
        )  # fmt: skip
        tags = np.empty(n if model else 0, np.int32)
        native.call(
            "read_words", self._reader, forms, WordBatch(words.starts, words.ids, rows, given),
            lists, ends, np.concatenate([_NOTHING, *candidates], dtype=np.int32),
            before.candidate_starts if before else None, found.features, found.candidate_starts,
            found.candidates, hidden, model and model.struct, tags,
        )  # fmt: skip
        return found, tags

    @cached_property
    def _reader(self) -> native.Struct:
        network = self._network.arrays if self._network else None
        reader = WordReader(self._templates.arrays, self._fields, network)
        return native.struct("WordReader", reader)


def known_forms(
    fields: Iterable[str], seen: SeenTags, network: TagNetwork | None = None
) -> SharedCache[_Forms]:
    """The forms met so far, none at first, with the values of fields.

    Args:
        fields: those that are not of forms have any value. seen: what `seen` reads.
        network: whose vectors of forms are kept, too.
    """
    kept = list(dict.fromkeys([*fields, *(network.fields if network else ())]))
    return SharedCache(lambda: _Forms(kept, seen, network))


class _Forms:
    """The values of the forms met so far, in rows after those of the edges of sentences.

    Args: as `known_forms`.
    """

    def __init__(
        self, fields: Sequence[str], seen: SeenTags, network: TagNetwork | None = None
    ) -> None:
        self.fields, self._seen, self._network = fields, seen, network
        self._read_fields = np.array([_field_code(field) for field in fields], np.int64)
        self._cases = [row for row, field in enumerate(fields) if field == "case"]
        self._of_network = [fields.index(field) for field in network.fields] if network else []
        self._clear()

    def _clear(self) -> None:
        self._rows: dict[str, int] = {}
        size = self._network.size if self._network else 0
        arrays = np.zeros((len(self.fields), 1024), np.uint32), np.zeros((1024, 3), np.int64)
        self._keep(WordForms(*arrays, np.zeros((1024, size), np.uint8)))
        self.arrays.values[:, :2] = [BEFORE, AFTER]
        if self._network:
            self.arrays.vectors[:2] = self._network.edges()

    def _keep(self, arrays: WordForms) -> None:
        self.arrays, self._struct = arrays, native.struct("WordForms", arrays)

    def read(self, forms: Sequence[str]) -> tuple[native.Struct, np.ndarray]:
        """The values, letters and vectors of all forms met, and the rows of some, int64."""
        if len(self._rows) > _CACHE:
            self._clear()
        known = self._rows
        new = [form for form in forms if form not in known]
        if new:
            self._add(new)
        return self._struct, np.array([known[form] for form in forms], np.int64)

    def _add(self, new: list[str]) -> None:
        """Add forms; rows of others stay as they are, for threads that read them."""
        first = N_EDGES + len(self._rows)
        size = first + len(new)
        if size > len(self.arrays.letters):
            more = (0, 2 * size - len(self.arrays.letters))
            values, *others = self.arrays
            padded = (np.pad(each, (more, (0, 0))) for each in others)
            self._keep(WordForms(np.pad(values, ((0, 0), more)), *padded))
        lowers = "\n".join(new).lower()
        values = np.empty((len(new), len(self.fields)), np.uint32)
        self._read_new(new, lowers, values)
        self.arrays.values[:, first:size] = values.T
        self.arrays.letters[first:size] = [
            (form[:1].isalpha(), form[:1].isupper(), form[:1].isalpha() and form.isupper())
            for form in new
        ]
        if self._network:
            of_network = values[:, self._of_network]
            self.arrays.vectors[first:size] = self._network.vectors(of_network, lowers)
        self._rows.update(zip(new, range(first, size), strict=True))

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
