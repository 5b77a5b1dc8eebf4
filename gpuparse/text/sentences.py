"""What is known of tokens, for sentence ends and multiword tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from typing import NamedTuple

import numpy as np

from gpuparse.cached import cached_property
from gpuparse.text.characters import LOWER_CASE, UPPER_CASE
from gpuparse.text.views import TextView, span_hashes, wide_hashes

GO_ON, END = 0, 1  # tags: whether a sentence ends with the token
AROUND = 4  # rows without a token around each segment
_FINAL = [ord(c) for c in ".!?\u2026\u3002\uff01\uff1f\uff61\u0964\u061f\u06d4"]
_OPENING = [ord(c) for c in "([{\u00ab\u201c\u201e\u300c\uff08"]
_CLOSING = [ord(c) for c in ")]}\u00bb\u201d\u203a\u300d\u300f\uff09"]
_OPEN_OR_CLOSING = [ord(c) for c in "\"'\u2019"]
_STEPS = np.array([1, 2, 3, 4, 5, 6, 8, 10, 13, 17, 22, 30, 40, 60])
_FAR = 100


class Tokens:
    """Tokens of a view. T tokens; fields have R columns, AROUND empty ones around each segment.

    Attributes:
        first, last: (T,) int64, the first place of each token and the one after it.
        segments: (T,) int64, the number of the segment. rows: (T,) int64.
        starts: (S + 1,) int64, the first token of each segment.
    """

    def __init__(self, view: TextView, ends: np.ndarray) -> None:
        """Args: ends: (P,) bool, whether a token ends with the place."""
        self.view = view
        ends = np.flatnonzero(ends & view.is_visible)
        after = np.concatenate([[-1], ends])[:-1] + 1
        # The first visible place after the token before.
        visible = np.flatnonzero(view.is_visible)
        self.first = visible[np.searchsorted(visible, after)] if len(ends) else after
        self.last = ends + 1
        self.segments = np.searchsorted(view.starts, self.first, side="right") - 1
        self.starts = np.append(np.searchsorted(self.first, view.starts), len(ends))
        self.rows = np.arange(len(ends)) + (self.segments + 1) * AROUND
        self._n_rows = len(ends) + (len(view.starts) + 1) * AROUND

        self.cases = np.zeros(len(ends), np.uint8)  # of `KnownCases`, for those that know them

    def __len__(self) -> int:
        return len(self.first)

    @cached_property
    def is_capital(self) -> np.ndarray:
        """Whether the token begins with an upper-case letter."""
        return np.isin(self.view.classes[self.first], UPPER_CASE)

    @cached_property
    def is_small(self) -> np.ndarray:
        """Whether the token begins with a lower-case letter."""
        return np.isin(self.view.classes[self.first], LOWER_CASE)

    def lower_hashes(self) -> np.ndarray:
        """Hashes of the tokens in lower case, (T,) uint64."""
        return wide_hashes(self.view.lower_sums, self.first, self.last)

    def fields(self, names: Sequence[str]) -> np.ndarray:
        """(F, R) uint32, a row for each field; 1 in columns without a token.

        Args: names: of FIELDS.
        """
        found = np.ones((len(names), self._n_rows), np.uint32)
        for row, name in zip(found, names, strict=True):
            row[self.rows] = FIELDS[name](self)
        return found

    def fields_around(self, numbers: np.ndarray, names: Sequence[str]) -> np.ndarray:
        """As `fields`, right only up to AROUND tokens around those of these numbers.

        Args: names: of OWN_FIELDS.
        """
        near = np.zeros(len(self), np.bool_)
        for offset in range(-AROUND, AROUND + 1):
            near[np.clip(numbers + offset, 0, len(self) - 1)] = True
        some = copy(self)
        some.first, some.last, some.rows = self.first[near], self.last[near], self.rows[near]
        some.__dict__.pop("lengths", None)
        return some.fields(names)

    @cached_property
    def lengths(self) -> np.ndarray:
        """Characters, up to 12."""
        return np.minimum(self.last - self.first, 12).astype(np.uint32)

    @cached_property
    def to_start(self) -> np.ndarray:
        """Tokens of the segment before each."""
        return np.arange(len(self)) - self.starts[self.segments]

    @cached_property
    def to_end(self) -> np.ndarray:
        """Tokens of the segment after each."""
        return self.starts[self.segments + 1] - 1 - np.arange(len(self))

    @cached_property
    def is_final(self) -> np.ndarray:
        """Whether a short token ends with a mark that ends sentences."""
        return np.isin(self.view.codes[self.last - 1], _FINAL) & (self.lengths <= 4)

    @cached_property
    def is_closing(self) -> np.ndarray:
        """Whether a token is a closing mark without a space before it.

        Marks that also open, such as `"`, are closing ones if a space or nothing follows.
        """
        marks, follows = self.view.codes[self.first], self.spaces()
        is_one = (self.lengths == 1) & (self.to_start > 0)
        is_one[1:] &= follows[:-1] == 1
        return is_one & (
            np.isin(marks, _CLOSING) | (np.isin(marks, _OPEN_OR_CLOSING) & (follows > 1))
        )

    def ends_after_closing(self, is_end: np.ndarray) -> np.ndarray:
        """(T,) bool: ends of sentences, those before closing marks moved to the last of these."""
        numbers = np.arange(len(self))
        starts = np.where(self.is_closing, len(self), numbers)
        following = np.minimum.accumulate(np.append(starts[1:], len(self))[::-1])[::-1]
        moved = np.zeros(len(self), np.bool_)
        moved[following[is_end] - 1] = True
        return moved

    def case(self) -> np.ndarray:
        """For tokens with a capital letter 2 and what is known of the word, else 1."""
        return np.where(self.is_capital, self.cases + 2, 1).astype(np.uint32)

    def shape(self) -> np.ndarray:
        classes = self.view.classes.astype(np.uint32)
        second = classes[np.minimum(self.first + 1, self.last - 1)]
        shape = self.view.shapes(self.first, self.last) * np.uint32(31)
        shape ^= classes[self.first] * np.uint32(131) + second * np.uint32(17)
        shape += classes[self.last - 1] * np.uint32(7919)
        return shape + np.minimum(self.lengths, 4) * np.uint32(104729)

    def kind(self) -> np.ndarray:
        classes = self.view.classes[self.first].astype(np.uint32)
        return classes * np.uint32(4) + np.minimum(self.lengths, 2)

    def spaces(self) -> np.ndarray:
        """2 where a space follows, 1 where none does, 3 at the end of the segment."""
        follows = np.ones(len(self), np.uint32)
        follows[:-1] += self.first[1:] > self.last[:-1]
        follows[self.to_end == 0] = 3
        return follows

    def since_final(self) -> np.ndarray:
        """Tokens since the last one that ends with a mark that ends sentences."""
        numbers = np.arange(len(self))
        last = np.maximum.accumulate(np.where(self.is_final, numbers, -1))
        before = np.concatenate([[-1], last])[:-1] if len(self) else last
        return numbers - np.maximum(before, self.starts[self.segments] - 1)

    def to_final(self) -> np.ndarray:
        """Tokens to the next one that ends with a mark that ends sentences."""
        numbers = np.arange(len(self))
        far = len(self) + _FAR
        following = np.minimum.accumulate(np.where(self.is_final, numbers, far)[::-1])[::-1]
        after = np.append(following[1:], far)
        return np.minimum(after, self.starts[self.segments + 1]) - numbers

    def open_marks(self) -> np.ndarray:
        """Brackets and quotes that are open after the token, in its segment."""
        marks = self.view.codes[self.first]
        is_single = self.lengths == 1
        steps = (np.isin(marks, _OPENING) & is_single).astype(np.int64)
        steps -= np.isin(marks, _CLOSING) & is_single
        quotes = ((marks == ord('"')) & is_single).astype(np.int64)
        depth = np.clip(self._since_start(steps), -1, 2) + 1
        return (depth * 2 + (self._since_start(quotes) & 1) + 1).astype(np.uint32)

    def _since_start(self, steps: np.ndarray) -> np.ndarray:
        sums = np.concatenate([[0], np.cumsum(steps)])
        return sums[1:] - sums[self.starts[self.segments]]


class KnownCases(NamedTuple):
    """How words were written in training.

    hashes: (K,) uint64 of words in lower case, ascending.
    kinds: (K,) uint8: 1 seen with a small letter, 2 with a capital one within a sentence, 3 both.
    """

    hashes: np.ndarray
    kinds: np.ndarray

    @classmethod
    def learn(cls, tokens: Tokens, is_end: np.ndarray, folds: int) -> KnownCases:
        """What all tokens tell; `tokens.cases` becomes what other parts of the treebank tell.

        Args: is_end: (T,) bool, whether a sentence ends with the token.
        """
        hashes, numbers = np.unique(tokens.lower_hashes(), return_inverse=True)
        fold = np.arange(len(tokens)) * folds // max(len(tokens), 1)
        is_within = ~np.concatenate([[True], is_end[:-1]])
        kinds = np.zeros(len(hashes), np.uint8)
        tokens.cases = np.zeros(len(tokens), np.uint8)
        for bit, is_seen in ((1, tokens.is_small), (2, tokens.is_capital & is_within)):
            cells = numbers * folds + fold
            counts = np.bincount(cells[is_seen], minlength=len(hashes) * folds)
            totals = counts.reshape(-1, folds).sum(1)
            kinds |= np.where(totals > 0, bit, 0).astype(np.uint8)
            others = totals[numbers] - counts[cells]
            tokens.cases |= np.where(others > 0, bit, 0).astype(np.uint8)
        return cls(hashes[kinds > 0], kinds[kinds > 0])

    def of_tokens(self, tokens: Tokens) -> np.ndarray:
        """The kinds of tokens with a capital letter, 0 for all others and unknown words."""
        found = np.zeros(len(tokens), np.uint8)
        if len(self.hashes):
            capital = np.flatnonzero(tokens.is_capital)
            first, last = tokens.first[capital], tokens.last[capital]
            wanted = wide_hashes(tokens.view.lower_sums, first, last)
            at = np.minimum(np.searchsorted(self.hashes, wanted), len(self.hashes) - 1)
            found[capital] = np.where(self.hashes[at] == wanted, self.kinds[at], 0)
        return found


def _bucket(counts: np.ndarray) -> np.ndarray:
    return (np.searchsorted(_STEPS, counts, side="right") + 1).astype(np.uint32)


def _beginning(size: int) -> Callable[[Tokens], np.ndarray]:
    return lambda t: span_hashes(t.view.lower_sums, t.first, np.minimum(t.first + size, t.last))


def _ending(size: int) -> Callable[[Tokens], np.ndarray]:
    return lambda t: span_hashes(t.view.lower_sums, np.maximum(t.last - size, t.first), t.last)


# Fields of the token alone.
OWN_FIELDS: dict[str, Callable[[Tokens], np.ndarray]] = {
    "form": lambda t: span_hashes(t.view.form_sums, t.first, t.last),
    "lower": lambda t: span_hashes(t.view.lower_sums, t.first, t.last),
    "shape": Tokens.shape,
    "kind": Tokens.kind,
    "length": lambda t: t.lengths,
    **{f"prefix{size}": _beginning(size) for size in range(1, 6)},
    **{f"suffix{size}": _ending(size) for size in range(1, 6)},
}
FIELDS: dict[str, Callable[[Tokens], np.ndarray]] = {
    **OWN_FIELDS,
    "spaces": Tokens.spaces,
    "case": Tokens.case,
    "final": lambda t: t.is_final + np.uint32(1),
    "from-start": lambda t: _bucket(t.to_start),
    "to-end": lambda t: _bucket(t.to_end),
    "since-final": lambda t: _bucket(t.since_final()),
    "to-final": lambda t: _bucket(t.to_final()),
    "open-marks": Tokens.open_marks,
}
