"""The definition of native/text_view.h and native/text_tokens.h in numpy."""

import functools
from collections.abc import Callable
from types import SimpleNamespace

import numpy as np

from gpuparse.data.formats.paragraphs import BLANKS
from gpuparse.text.boundaries import CLASSES, gaps
from gpuparse.text.characters import LOWER_CASE, UPPER_CASE, CharacterTable
from gpuparse.text.sentences import AROUND
from gpuparse.text.views import MARGIN, SPACE, TextView

_BASE = 6364136223846793005
_INVERSE = pow(_BASE, -1, 2**64)
_REACH = 64  # characters that hashes of a string between spaces reach to either side
_SIGNS = "@/:.-'\u2019"
_LONGEST = 6  # characters of a word of the lexicon


def view_text(
    codes: np.ndarray, spaces: np.ndarray, segments: np.ndarray, table: CharacterTable
) -> SimpleNamespace:
    """The arrays of `TextView.of_text`."""
    # A space stands for its run where a visible character of the same segment follows.
    kept = ~spaces
    kept[:-1] |= spaces[:-1] & ~spaces[1:]
    kept[segments[1:] - 1] &= ~spaces[segments[1:] - 1]
    kept[: np.argmin(spaces) if spaces.any() else 0] = False
    first = np.zeros(len(codes), np.int64)
    first[segments] = MARGIN
    places = np.cumsum(kept + first) - 1
    of_kept = np.flatnonzero(kept)
    at = places[of_kept]
    size = int(places[-1]) + 1 + MARGIN if len(places) else MARGIN
    shown = np.zeros(size, np.uint32)
    shown[at] = np.where(spaces[of_kept], SPACE, codes[of_kept])
    source = np.full(size, -1, np.int64)
    source[at] = of_kept
    lower, classes = table.lower[shown], table.classes[shown]
    is_visible = (shown != 0) & (shown != SPACE)
    is_blank = np.zeros(size, np.bool_)
    # The first character of a text is not kept if it is a space.
    alone = spaces[of_kept] & np.isin(codes[of_kept], BLANKS) & ~spaces[of_kept - 1]
    is_blank[at] = alone
    return SimpleNamespace(
        codes=shown, lower=lower, classes=classes, is_visible=is_visible, is_blank=is_blank,
        source=source, places=places, starts=places[segments],
    )  # fmt: skip


def hash_sums(values: np.ndarray) -> np.ndarray:
    """Sums from which `span_hashes` of the values are made: (n + 1,) uint64. Cost: 5 ns a value."""
    sums = np.zeros(len(values) + 1, np.uint64)
    mixed = (values.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    mixed ^= mixed >> np.uint64(29)
    mixed *= _powers(_BASE, len(values))
    np.cumsum(mixed, out=sums[1:])
    return sums


def wide_hashes(sums: np.ndarray, first: np.ndarray, last: np.ndarray) -> np.ndarray:
    """Hashes of spans of the values: uint64, equal for equal spans wherever they are."""
    hashes = (sums[last] - sums[first]) * _powers(_INVERSE, len(sums))[first]
    hashes ^= hashes >> np.uint64(32)
    hashes *= np.uint64(0xD6E8FEB86659FD93)
    hashes ^= hashes >> np.uint64(32)
    return hashes


def span_hashes(sums: np.ndarray, first: np.ndarray, last: np.ndarray) -> np.ndarray:
    """As `wide_hashes`, in 32 bits."""
    return wide_hashes(sums, first, last).astype(np.uint32)


def _powers(base: int, size: int) -> np.ndarray:
    """base^0, base^1, ... modulo 2^64, at least `size` of them."""
    return _power_table(base, max(size, 1 << 17).bit_length())[:size]


@functools.lru_cache(maxsize=8)
def _power_table(base: int, bits: int) -> np.ndarray:
    factors = np.full(1 << bits, base, np.uint64)
    factors[0] = 1
    return np.cumprod(factors, dtype=np.uint64)


def _runs(view: TextView) -> tuple[np.ndarray, np.ndarray]:
    is_first = np.ones(len(view.classes), np.bool_)
    is_first[1:] = view.classes[1:] != view.classes[:-1]
    return np.cumsum(is_first) - 1, hash_sums(view.classes[is_first])


def shapes(view: TextView, first: np.ndarray, last: np.ndarray) -> np.ndarray:
    """Hashes of the classes in spans, equal ones in a row once; 0 for an empty span."""
    runs, sums = _runs(view)
    hashes = span_hashes(sums, runs[first], runs[np.maximum(last, 1) - 1] + 1)
    return hashes * (first < last)


def open_places(view: TextView, is_open: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The places of gaps that a model decides; (P,) bool, where tokens end for certain."""
    adjacent, spaced = gaps(view)
    ends = view.is_visible.copy()
    ends[adjacent] = False
    spaced = spaced[view.is_blank[spaced + 1]]  # a token has no other white space in it

    def pairs(places: np.ndarray, step: int) -> np.ndarray:
        classes = view.classes if step == 1 else view.number_classes
        return classes[places].astype(np.int64) * CLASSES + classes[places + step]

    places = np.concatenate(
        [adjacent[is_open[0][pairs(adjacent, 1)]], spaced[is_open[1][pairs(spaced, 2)]]]
    )
    return np.sort(places), ends


class Gaps:
    """Gaps and the strings between spaces that they are in, or between."""

    def __init__(self, view: TextView, places: np.ndarray, lexicon: np.ndarray) -> None:
        self.view, self.places, self.lexicon = view, places, lexicon
        self.before = places + 1  # one after the character before the gap
        self.after = self.before + (view.codes[self.before] == SPACE)  # the character after it
        edges = np.flatnonzero(np.diff(view.is_visible, prepend=False, append=False))
        self.firsts, lasts = edges[::2], edges[1::2]
        self.lower_sums = hash_sums(view.lower)
        self.string = np.searchsorted(self.firsts, places, side="right") - 1
        first = self.firsts[self.string]
        last = lasts[np.searchsorted(self.firsts, self.after, side="right") - 1]
        self.to_start, self.to_end = self.before - first, last - self.after
        self.first = np.maximum(first, self.before - _REACH)
        self.last = np.minimum(last, self.after + _REACH)

    def span(self, first: np.ndarray, last: np.ndarray) -> np.ndarray:
        return span_hashes(self.lower_sums, first, last) * (first < last)

    def signs(self) -> np.ndarray:
        """Which of some signs the string has: a bit each, and 256."""
        found = np.full(len(self.firsts), 256, np.uint32)
        for number, sign in enumerate(_SIGNS):
            at = np.flatnonzero(self.view.codes == ord(sign))
            found[np.searchsorted(self.firsts, at, side="right") - 1] |= np.uint32(1 << number)
        return found[self.string]

    def since_last(self) -> np.ndarray:
        """Places since the gap before, up to 6."""
        return np.minimum(np.diff(self.places, prepend=0), 6).astype(np.uint32)

    def _knows(self, first: np.ndarray, last: np.ndarray) -> np.ndarray:
        hashes = wide_hashes(self.lower_sums, first, last)
        at = np.minimum(np.searchsorted(self.lexicon, hashes), len(self.lexicon) - 1)
        found: np.ndarray = self.lexicon[at] == hashes
        return found

    def known(self, spans: list[tuple[int, int]]) -> np.ndarray:
        """1 and the number of the last span that is a known word; 0 without a lexicon.

        Args: spans: characters before and after the gap.
        """
        found = np.zeros(len(self.places), np.uint32)
        if len(self.lexicon):
            found += 1
            for number, (before, after) in enumerate(spans, 2):
                found[self._knows(self.before - before, self.before + after)] = number
        return found


_SIZES = range(1, _LONGEST + 1)
_BEFORE, _AFTER = [(size, 0) for size in _SIZES], [(0, size) for size in _SIZES]
_ACROSS = [(before, size - before) for size in range(2, _LONGEST) for before in range(1, size)]

GAP_FIELDS: dict[str, Callable[[Gaps], np.ndarray]] = {
    "char": lambda gap: gap.view.codes + np.uint32(1),
    "lower": lambda gap: gap.view.lower + np.uint32(1),
    "class": lambda gap: gap.view.classes.astype(np.uint32) + np.uint32(1),
    # of the string between spaces: all of it, before and after the gap
    "string": lambda gap: gap.span(gap.first, gap.last),
    "before": lambda gap: gap.span(gap.first, gap.before),
    "after": lambda gap: gap.span(gap.after, gap.last),
    "shape-before": lambda gap: shapes(gap.view, gap.first, gap.before),
    "shape-after": lambda gap: shapes(gap.view, gap.after, gap.last),
    "length-before": lambda gap: np.minimum(gap.to_start, 8).astype(np.uint32),
    "length-after": lambda gap: np.minimum(gap.to_end, 8).astype(np.uint32) + np.uint32(1),
    "signs": Gaps.signs,
    "since-last": Gaps.since_last,
    # the longest word of the lexicon that ends at the gap, begins there, or goes across
    "known-before": lambda gap: gap.known(_BEFORE),
    "known-after": lambda gap: gap.known(_AFTER),
    "known-across": lambda gap: gap.known(_ACROSS),
}


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

        self.cases = np.zeros(len(ends), np.uint8)
        self.lower_sums, self.form_sums = hash_sums(view.lower), hash_sums(view.codes)

    def __len__(self) -> int:
        return len(self.first)

    @functools.cached_property
    def is_capital(self) -> np.ndarray:
        """True if the token begins with an upper-case letter."""
        return np.isin(self.view.classes[self.first], UPPER_CASE)

    @functools.cached_property
    def is_small(self) -> np.ndarray:
        """True if the token begins with a lower-case letter."""
        return np.isin(self.view.classes[self.first], LOWER_CASE)

    @functools.cached_property
    def lengths(self) -> np.ndarray:
        """Characters, up to 12."""
        return np.minimum(self.last - self.first, 12).astype(np.uint32)

    @functools.cached_property
    def to_start(self) -> np.ndarray:
        """Tokens of the segment before each."""
        return np.arange(len(self)) - self.starts[self.segments]

    @functools.cached_property
    def to_end(self) -> np.ndarray:
        """Tokens of the segment after each."""
        return self.starts[self.segments + 1] - 1 - np.arange(len(self))

    @functools.cached_property
    def is_final(self) -> np.ndarray:
        """True if a short token ends with a mark that ends sentences."""
        return np.isin(self.view.codes[self.last - 1], _FINAL) & (self.lengths <= 4)

    @functools.cached_property
    def is_closing(self) -> np.ndarray:
        """True if a token is a closing mark without a space before it.

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
        shape = shapes(self.view, self.first, self.last) * np.uint32(31)
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


def _bucket(counts: np.ndarray) -> np.ndarray:
    return (np.searchsorted(_STEPS, counts, side="right") + 1).astype(np.uint32)


def _beginning(size: int) -> Callable[[Tokens], np.ndarray]:
    return lambda t: span_hashes(t.lower_sums, t.first, np.minimum(t.first + size, t.last))


def _ending(size: int) -> Callable[[Tokens], np.ndarray]:
    return lambda t: span_hashes(t.lower_sums, np.maximum(t.last - size, t.first), t.last)


# Fields of the token alone.
_OWN_FIELDS: dict[str, Callable[[Tokens], np.ndarray]] = {
    "form": lambda t: span_hashes(t.form_sums, t.first, t.last),
    "lower": lambda t: span_hashes(t.lower_sums, t.first, t.last),
    "shape": Tokens.shape,
    "kind": Tokens.kind,
    "length": lambda t: t.lengths,
    **{f"prefix{size}": _beginning(size) for size in range(1, 6)},
    **{f"suffix{size}": _ending(size) for size in range(1, 6)},
}
TOKEN_FIELDS: dict[str, Callable[[Tokens], np.ndarray]] = {
    **_OWN_FIELDS,
    "spaces": Tokens.spaces,
    "case": Tokens.case,
    "final": lambda t: t.is_final + np.uint32(1),
    "from-start": lambda t: _bucket(t.to_start),
    "to-end": lambda t: _bucket(t.to_end),
    "since-final": lambda t: _bucket(t.since_final()),
    "to-final": lambda t: _bucket(t.to_final()),
    "open-marks": Tokens.open_marks,
}
