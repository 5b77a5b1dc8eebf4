"""The fields of tokens, for sentence ends and multiword tokens."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gpuparse import native
from gpuparse.data.cached import cached_property
from gpuparse.text.characters import LOWER_CASE, UPPER_CASE
from gpuparse.text.views import TextView, field_numbers, span_hashes

GO_ON, END = 0, 1  # tags: whether a sentence ends with the token
AROUND = 4  # rows without a token around each segment


class Tokens:
    """Tokens of a view. T tokens; fields have R columns, AROUND empty ones around each segment.

    Attributes:
        first, last: (T,) int64, the first place of each token and the one after it.
        segments: (T,) int64, the number of the segment. rows: (T,) int64.
        starts: (S + 1,) int64, the first token of each segment.
        is_closing: (T,) bool, a closing mark without a space before it. Marks that also open, such
            as `"`, are closing ones if a space or nothing follows.
    """

    def __init__(self, view: TextView, ends: np.ndarray) -> None:
        """Args: ends: (P,) bool, whether a token ends with the place."""
        self.view = view
        first, last, segments = np.empty((3, len(view.codes)), np.int64)
        self.starts = np.empty(len(view.starts) + 1, np.int64)
        closing = np.empty(len(view.codes), np.bool_)
        size = native.call(
            "find_tokens", view.struct, ends, first, last, segments, self.starts, closing
        )
        self.is_closing = closing[:size]
        self.first, self.last, self.segments = first[:size], last[:size], segments[:size]
        self.rows = AROUND * self.segments + np.arange(AROUND, AROUND + size)
        self.cases = np.zeros(size, np.uint8)  # of `KnownCases`, for those that know them

    def __len__(self) -> int:
        return len(self.first)

    @cached_property
    def is_capital(self) -> np.ndarray:
        """True if the token begins with an upper-case letter."""
        return np.isin(self.view.classes[self.first], UPPER_CASE)

    @cached_property
    def is_small(self) -> np.ndarray:
        """True if the token begins with a lower-case letter."""
        return np.isin(self.view.classes[self.first], LOWER_CASE)

    def lower_hashes(self) -> np.ndarray:
        """Hashes of the tokens in lower case, (T,) uint64."""
        return span_hashes(self.view.lower, self.first, self.last)

    def fields(self, names: tuple[str, ...]) -> np.ndarray:
        """(F, R) uint32, a row for each field; 1 in columns without a token.

        Args: names: of FIELDS.
        """
        found = np.ones((len(names), len(self) + AROUND * len(self.starts)), np.uint32)
        native.call(
            "token_fields", self.view.struct, self.struct, field_numbers(FIELDS, names),
            self.cases, self.rows, found,
        )  # fmt: skip
        return found

    @cached_property
    def struct(self) -> native.Struct:
        """The tokens as the native library takes them."""
        return native.struct("TextTokens", self)


class KnownCases(NamedTuple):
    """The casing of words in training.

    hashes: (K,) uint64 of words in lower case, ascending.
    kinds: (K,) uint8: 1 seen with a small letter, 2 with a capital one within a sentence, 3 both.
    """

    hashes: np.ndarray
    kinds: np.ndarray

    @classmethod
    def learn(cls, tokens: Tokens, is_end: np.ndarray, folds: int) -> KnownCases:
        """Learn from all tokens; `tokens.cases` becomes the cases of the treebank's other parts.

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
        found = np.empty(len(tokens), np.uint8)
        native.call("find_cases", tokens.view.struct, tokens.struct, *self, found)
        return found


# Fields of the token alone, and all of them, as native/text_tokens.h has them.
OWN_FIELDS = (
    "form", "lower", "shape", "kind", "length",
    *(f"prefix{size}" for size in range(1, 6)), *(f"suffix{size}" for size in range(1, 6)),
)  # fmt: skip
FIELDS = (
    *OWN_FIELDS, "spaces", "case", "final", "from-start", "to-end", "since-final", "to-final",
    "open-marks",
)  # fmt: skip
