"""Pieces of words: what a pretrained encoder reads, and the windows that it reads them in.

Each distinct form is split once, as a word of its own. A window has the pieces of successive words
between the special pieces that the encoder was pretrained with.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice, pairwise
from typing import Any, NamedTuple

import numpy as np

from gpuparse.data.batch import ranges
from gpuparse.data.cached import cached_property
from gpuparse.data.columns import FORM
from gpuparse.data.treebank import Treebank
from gpuparse.data.vocabulary import column_ids
from gpuparse.errors import ConfigError, ModelError, one_line, require
from gpuparse.scorers.encoder import tokenizer_json

MAX_PIECES = 16  # of a word; the others are not read
CASINGS = 5  # see `casing_of`
_FORMS_AT_ONCE = 1 << 16
_LONGEST_FORM = 1_000  # characters; those after them are not read
MAX_WINDOW = 512  # pieces, even if an encoder can read more


@dataclass(frozen=True, eq=False)
class Ragged:
    """Rows of numbers: row i is values[starts[i] : starts[i + 1]]."""

    values: np.ndarray
    starts: np.ndarray

    @classmethod
    def of(cls, rows: Sequence[Sequence[int]]) -> Ragged:
        """Rows of int32 numbers."""
        starts = np.zeros(len(rows) + 1, np.int64)
        np.cumsum([len(row) for row in rows], out=starts[1:])
        values = np.fromiter((value for row in rows for value in row), np.int32, int(starts[-1]))
        return cls(values, starts)

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def lengths(self) -> np.ndarray:
        """(R,) int64 numbers of each row."""
        return np.diff(self.starts)

    def __add__(self, more: Ragged) -> Ragged:
        """These rows, and more of them."""
        starts = np.concatenate([self.starts, self.starts[-1] + more.starts[1:]])
        return Ragged(np.concatenate([self.values, more.values]), starts)

    def __getitem__(self, rows: np.ndarray) -> Ragged:
        """Some of the rows, in the order given."""
        starts = np.concatenate([[0], np.cumsum(self.lengths[rows])])
        return Ragged(self.values[ranges(self.starts[rows], self.starts[rows + 1])], starts)


class Windows(NamedTuple):
    """Pieces of windows (P,), each with its special pieces: starts (V + 1,).

    casings: (P,) int32, of the words of pieces; 0 of special pieces. firsts, counts: (K,) int64
    the first piece of each kept word, and how many it has. tokens: (K,) its token index. roots,
    root_tokens: the first piece of windows that begin a sentence, and the token of its root.
    """

    ids: np.ndarray
    casings: np.ndarray
    starts: np.ndarray
    firsts: np.ndarray
    counts: np.ndarray
    tokens: np.ndarray
    roots: np.ndarray
    root_tokens: np.ndarray


class Splitter:
    """Splits words into pieces by the text of a `tokenizer.json`.

    Args:
        window: the most pieces of a window, the special ones included.
        n_pieces: that the encoder knows.
        where: begins the message if words have other pieces.
    Raises: ModelError: the text is none that the package `tokenizers` reads, has something that
        `tokenizer_json.check` refuses, or gives no pieces.
        MissingPackageError: that package is not installed.
    """

    def __init__(self, text: str, window: int, n_pieces: int, where: str = "") -> None:
        require("the encoder", "tokenizers")
        from tokenizers import Tokenizer

        self.text, self._n_pieces, self._where = text, n_pieces, where
        tokenizer_json.check(text)
        with faults_as(ModelError, "the encoder's tokenizer cannot be read"):
            self._tokenizer = Tokenizer.from_str(text)
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        self.prefix, self.suffix = self._special_pieces()
        self._unknown = self._unknown_piece()
        self._check([*self.prefix, *self.suffix, self._unknown])
        self.window = min(window, MAX_WINDOW)
        self.room = self.window - len(self.prefix) - len(self.suffix)
        if self.room < MAX_PIECES:
            raise ModelError(
                f"the encoder reads windows of {window} pieces, at least 32 are needed"
            )

    def _special_pieces(self) -> tuple[list[int], list[int]]:
        """The pieces before and after those of a sentence."""
        alone = self._encoded(["a"], special=False)[0]
        whole = self._encoded(["a"], special=True)[0]
        if not alone:
            raise ModelError("the encoder's tokenizer gives no pieces for the word 'a'")
        for start in range(len(whole) - len(alone) + 1):
            if whole[start : start + len(alone)] == alone:
                return whole[:start] or alone[:1], whole[start + len(alone) :]
        raise ModelError("the encoder's tokenizer changes words beside its special pieces")

    def _unknown_piece(self) -> int:
        """The piece of words without pieces."""
        found = self.piece_named("[UNK]", "<unk>", "[MASK]", "<mask>")
        return self.prefix[0] if found is None else found

    def piece_named(self, *names: str) -> int | None:
        """The first of some pieces that the tokenizer has, as a number; None: it has none."""
        numbers = (self._tokenizer.token_to_id(name) for name in names)
        return next((int(number) for number in numbers if number is not None), None)

    @cached_property
    def masks(self) -> Ragged:
        """The masks that replace a word of 1, 2, ..., MAX_PIECES pieces, one for each.

        Of a tokenizer without a mask that the encoder knows: the piece of words without pieces.
        """
        found = self.piece_named("[MASK]", "<mask>")
        mask = self._unknown if found is None or found >= self._n_pieces else found
        return Ragged.of([[mask] * n for n in range(1, MAX_PIECES + 1)])

    def split(self, forms: Sequence[str]) -> Ragged:
        """The pieces of each form: at least one, and at most MAX_PIECES."""
        encoded = self._encoded(forms, special=False)
        found = [ids[:MAX_PIECES] or [self._unknown] for ids in encoded]
        self._check(map(max, found))  # before they are int32
        return Ragged.of(found)

    def pieces_of(self, forms: Iterable[str]) -> set[int]:
        """All pieces of some forms, and those that no form has."""
        found = {*self.prefix, *self.suffix, self._unknown, *self.masks.values.tolist()}
        left = iter(forms)
        while some := list(islice(left, _FORMS_AT_ONCE)):
            found.update(*self._encoded(some, special=False))
        return found

    def _encoded(self, forms: Sequence[str], *, special: bool) -> list[list[int]]:
        cut = [form[:_LONGEST_FORM] for form in forms]
        with faults_as(ModelError, "the encoder's tokenizer fails"):
            found = self._tokenizer.encode_batch_fast(cut, add_special_tokens=special)
        return [each.ids for each in found]

    def _check(self, ids: Iterable[int]) -> None:
        """Raises: ModelError: a piece that the encoder does not know."""
        if (most := max(ids, default=0)) >= self._n_pieces:
            raise ModelError(
                f"{self._where}the encoder's tokenizer has piece {most}, and the encoder knows"
                f" {self._n_pieces}"
            )


@contextmanager
def faults_as(kind: type[ConfigError | ModelError], what: str) -> Iterator[None]:
    """Replace any error that the packages raise for a stranger's files by one of this kind."""
    try:
        yield
    except kind:
        raise
    except BaseException as error:
        # The package `tokenizers` raises nothing narrower, and for its own faults no `Exception`.
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        raise kind(f"{what}: {one_line(error)}") from None


def of_words(text: str) -> str:
    """A `tokenizer.json` for single words: those of byte pairs get the mark of a word's beginning.

    Raises: ModelError: it is no JSON of a tokenizer.
    """
    try:
        content = json.loads(text)
        _mark_beginnings(content["pre_tokenizer"])
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise ModelError(f"the encoder's tokenizer cannot be read: {one_line(error)}") from error
    return json.dumps(content, ensure_ascii=False)


def _mark_beginnings(part: Any) -> None:
    if part is None:
        return
    if part["type"] == "ByteLevel":
        part["add_prefix_space"] = True
    for inner in part.get("pretokenizers", ()):
        _mark_beginnings(inner)


@dataclass(frozen=True, eq=False)
class EncodedTreebank:
    """All sentences of a treebank, as an encoder reads them.

    forms: the pieces of each distinct form. casings: (F,) int32, of each form. words: (W,) numbers
    of forms. word_starts: (S + 1,). tags: (W,) of each column that is read. hidden: what a
    device has computed of them, so that several searches share one pass.
    """

    forms: Ragged
    casings: np.ndarray
    words: np.ndarray
    word_starts: np.ndarray
    splitter: Splitter
    tags: Mapping[str, np.ndarray] = field(default_factory=dict)
    hidden: dict[Any, Any] = field(default_factory=dict)

    @property
    def n_tokens(self) -> int:
        """A sentence of n words has n + 2 tokens: the root, the words, and one that is no word."""
        return int(self.word_starts[-1]) + 2 * (len(self.word_starts) - 1)

    @cached_property
    def word_tokens(self) -> np.ndarray:
        """(W,) int64 the token of each word."""
        counts = np.diff(self.word_starts)
        return np.arange(len(self.words)) + 2 * np.repeat(np.arange(len(counts)), counts) + 1

    def tags_of(self, windows: Windows) -> dict[str, np.ndarray]:
        """(K,) the tags of the words that windows keep."""
        words = np.searchsorted(self.word_tokens, windows.tokens)
        return {name: ids[words] for name, ids in self.tags.items()}

    @cached_property
    def pieces(self) -> np.ndarray:
        """(S,) pieces of each sentence, without special ones."""
        ends = np.concatenate([[0], np.cumsum(self.forms.lengths[self.words])])
        return np.diff(ends[self.word_starts])

    def batches(self, sentences: np.ndarray, most: int) -> Iterator[np.ndarray]:
        """Sentences in batches of similar numbers of pieces, at most `most` in each.

        Args: sentences: numbers; those of equal numbers of pieces keep their order.
        """
        lengths = self.pieces[sentences] + len(self.splitter.prefix) + len(self.splitter.suffix)
        order = np.argsort(-lengths, kind="stable")
        start = 0
        while start < len(order):
            longest = min(int(lengths[order[start]]), self.splitter.window)
            end = start + max(1, most // longest)
            yield sentences[order[start:end]]
            start = end

    def windows(self, sentences: np.ndarray) -> Windows:
        """The windows of some sentences.

        A sentence that is too long for one window has several, which overlap by half; a word is
        kept from the one in which it has the most words around it.
        """
        spans: list[tuple[int, int, int, int, int]] = []  # sentence, words read, words kept
        for s in sentences.tolist():
            first, last = int(self.word_starts[s]), int(self.word_starts[s + 1])
            if self.pieces[s] <= self.splitter.room:
                spans.append((s, first, last, first, last))
            else:
                spans += [(s, *span) for span in self._long(first, last)]
        numbers, firsts_read, lasts_read, kept, end = np.array(spans, np.int64).reshape(-1, 5).T
        words = ranges(firsts_read, lasts_read)
        pieces_of = self.forms[self.words[words]]
        before, after = len(self.splitter.prefix), len(self.splitter.suffix)
        # Where the pieces of each window lie among those of words, and among all.
        n_words = lasts_read - firsts_read
        ends = pieces_of.starts[np.concatenate([[0], np.cumsum(n_words)])]
        starts = ends + (before + after) * np.arange(len(ends))
        ids = np.empty(int(starts[-1]), np.int32)
        window_of = np.repeat(np.arange(len(spans)), np.diff(ends))
        places = np.arange(len(window_of)) + (before + after) * window_of + before
        ids[places] = pieces_of.values
        casings = np.zeros(len(ids), np.int32)
        casings[places] = np.repeat(self.casings[self.words[words]], pieces_of.lengths)
        for i, piece in enumerate(self.splitter.prefix):
            ids[starts[:-1] + i] = piece
        for i, piece in enumerate(self.splitter.suffix):
            ids[starts[1:] - after + i] = piece
        of_word = np.repeat(np.arange(len(spans)), n_words)
        firsts = pieces_of.starts[:-1] + (before + after) * of_word + before
        is_kept = (words >= kept[of_word]) & (words < end[of_word])
        tokens = words + 2 * numbers[of_word] + 1
        begins = firsts_read == self.word_starts[numbers]
        return Windows(
            ids, casings, starts, firsts[is_kept], pieces_of.lengths[is_kept], tokens[is_kept],
            starts[:-1][begins], firsts_read[begins] + 2 * numbers[begins],
        )  # fmt: skip

    def _long(self, first: int, last: int) -> list[tuple[int, int, int, int]]:
        """The words that are read and kept of each window of a long sentence."""
        lengths = self.forms.lengths[self.words[first:last]]
        ends = np.concatenate([[0], np.cumsum(lengths)])
        windows = []
        start = 0
        while True:
            end = int(np.searchsorted(ends, ends[start] + self.splitter.room, side="right")) - 1
            windows.append((first + start, first + end))
            if end == last - first:
                break
            middle = np.searchsorted(ends, ends[start] + self.splitter.room // 2, side="right")
            start = max(start + 1, int(middle) - 1)
        borders = [first]
        borders += [(one[1] + two[0]) // 2 for one, two in pairwise(windows)]
        kept = zip(borders, [*borders[1:], last], strict=True)
        return [(*read, *keep) for read, keep in zip(windows, kept, strict=True)]


def casing_of(form: str) -> int:
    """The casing of a form: 0, without capital letters; 1, with a capital letter that is its only
    letter; 2, with capital letters alone; 3, with one at the beginning alone; 4, with others.

    Many encoders read all letters as small ones; names are then like other words to them.
    """
    small = form.lower()
    if form == small:
        return 0
    if form == form.upper():
        return 1 if sum(map(str.isalpha, form)) == 1 else 2
    return 3 if form[1:] == small[1:] else 4


@dataclass(frozen=True, eq=False)
class EncodedPieces:
    """Some sentences of `whole`, and where their tokens are; see `gpuparse.data.batch.Encoded`."""

    whole: EncodedTreebank
    starts: np.ndarray
    lengths: np.ndarray

    @classmethod
    def of(
        cls, treebank: Treebank, splitter: Splitter, tags: Mapping[str, np.ndarray] | None = None
    ) -> EncodedPieces:
        """The sentences of a treebank; tags: (W,) of each column that is read."""
        ids, names = column_ids(treebank, FORM)
        starts = np.asarray(treebank.word_starts, np.int64)
        return cls.of_forms(ids, names, starts, splitter, tags)

    @classmethod
    def of_forms(
        cls, words: np.ndarray, names: Sequence[str], word_starts: np.ndarray, splitter: Splitter,
        tags: Mapping[str, np.ndarray] | None = None,
    ) -> EncodedPieces:  # fmt: skip
        """Sentences of forms; words: (W,) numbers of names."""
        casings = np.fromiter(map(casing_of, names), np.int32, len(names))
        forms = splitter.split(names)
        return cls.all_of(EncodedTreebank(forms, casings, words, word_starts, splitter, tags or {}))

    @classmethod
    def all_of(cls, whole: EncodedTreebank) -> EncodedPieces:
        """All sentences of a treebank that is encoded."""
        n_before = np.arange(len(whole.word_starts) - 1)
        return cls(whole, whole.word_starts[:-1] + 2 * n_before, np.diff(whole.word_starts))

    @property
    def n_tokens(self) -> int:
        """T: the length of arrays by token, of all sentences."""
        return self.whole.n_tokens

    def __len__(self) -> int:
        return len(self.lengths)

    def select(self, sentences: np.ndarray | slice) -> EncodedPieces:
        """The sentences of the given indices, sharing all else."""
        return replace(self, starts=self.starts[sentences], lengths=self.lengths[sentences])

    def without_words(self, words: np.ndarray, most: int) -> Iterator[EncodedPieces]:
        """The only sentence of these, once for each of some words, which is left out.

        Masks are read in place of its pieces, and no tag that was learned. All words have the same
        places as in the sentence.

        Args:
            words: (V,) from 1 on; 0: no word is left out.
            most: pieces of those that are read at once, if it has room for the sentence.
        """
        [start], [n] = self.starts, self.lengths
        first = int(np.searchsorted(self.whole.word_tokens, start + 1))
        own, splitter = slice(first, first + n), self.whole.splitter
        forms = self.whole.forms[self.whole.words[own]]
        casings = self.whole.casings[self.whole.words[own]]
        casings = np.concatenate([casings, np.zeros(len(splitter.masks), np.int32)])
        n_pieces = int(forms.starts[-1]) + len(splitter.prefix) + len(splitter.suffix)
        n_at_once = max(1, most // n_pieces)
        for some in np.split(words, range(n_at_once, len(words), n_at_once)):
            rows = np.tile(np.arange(n), (len(some), 1))
            place = np.flatnonzero(some), some[some > 0] - 1
            rows[place] = n - 1 + forms.lengths[place[1]]
            tags = {}
            for name, ids in self.whole.tags.items():
                of_some = np.tile(ids[own], (len(some), 1))
                of_some[place] = 0
                tags[name] = of_some.reshape(-1)
            starts = n * np.arange(len(some) + 1)
            given = forms + splitter.masks
            yield EncodedPieces.all_of(
                EncodedTreebank(given, casings, rows.reshape(-1), starts, splitter, tags)
            )
