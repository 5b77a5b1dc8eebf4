"""A dictionary: how often each name (a word, a word with its tag) had each tag in training."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

import numpy as np

from gpuparse.data.cached import cached_property
from gpuparse.data.vocabulary import numbered_rows
from gpuparse.errors import DataError
from gpuparse.limits import MAX_CANDIDATES
from gpuparse.text.sequences.tags import starts_of

Tag = TypeVar("Tag", int, str)
_NOTHING = np.empty(0, np.int32)
_TAB, _LINE_FEED = ord("\t"), ord("\n")
MAX_NAMES = 1 << 22
MAX_CELLS = 1 << 26  # candidates of all words of a sentence: 2 GB
ARRAYS = ("names", "starts", "tags", "counts")  # of a packed dictionary


class Dictionary:
    """Names with the numbers of their tags, ascending, and how often each occurred.

    Args:
        names: all different, without line ends.
        starts: int64 (n + 1,): name i has the tags starts[i] : starts[i + 1].
        tags, counts: int32, the numbers of tags, ascending for each name, and how often the name
            had each.
        least: times that a name must have occurred for its tags to be all that is possible.
    """

    def __init__(
        self,
        names: Sequence[str],
        starts: np.ndarray,
        tags: np.ndarray,
        counts: np.ndarray,
        least: int,
    ) -> None:
        self.names, self.starts, self.tags, self.counts = names, starts, tags, counts
        self.least = least
        self._candidates: dict[str, np.ndarray] = {}

    @classmethod
    def of_counts(cls, counts: Mapping[str, Mapping[int, int]], least: int) -> "Dictionary":
        """The dictionary of how often each name had each tag.

        Raises: DataError: there are more names than a model may have.
        """
        if len(counts) > MAX_NAMES:
            raise DataError(
                f"{len(counts):,} different words, or words with tags, are learned, more than"
                f" {MAX_NAMES:,}: give a smaller treebank or word list"
            )
        names = list(counts)
        pairs = [pair for name in names for pair in sorted(counts[name].items())]
        tags, numbers = np.array(pairs, np.int32).reshape(-1, 2).T.copy()
        return cls(names, starts_of(len(counts[name]) for name in names), tags, numbers, least)

    def with_least(self, least: int) -> "Dictionary":
        """The same counts with another `least`."""
        return Dictionary(self.names, self.starts, self.tags, self.counts, least)

    @cached_property
    def _rows(self) -> dict[str, int]:
        return dict(zip(self.names, range(len(self.names)), strict=True))

    @property
    def most(self) -> int:
        """The largest number of tags of a name."""
        return int(np.diff(self.starts).max(initial=0))

    def candidates(self, name: str) -> np.ndarray:
        """The tags that are possible for a name; none if it is unknown or rare."""
        found = self._candidates.get(name)
        if found is None:
            row = self._rows.get(name)
            if row is None:
                return _NOTHING
            is_known = self.count(name) >= self.least
            found = self.tags[self._place(row)] if is_known else _NOTHING
            self._candidates[name] = found
        return found

    def candidates_of(self, names: Sequence[str]) -> list[np.ndarray]:
        """The tags that are possible for each of some names."""
        known = self._candidates
        return [known[name] if name in known else self.candidates(name) for name in names]

    def count(self, name: str) -> int:
        """The number of times that a name occurred."""
        row = self._rows.get(name)
        return 0 if row is None else self._totals.item(row)

    @cached_property
    def _totals(self) -> np.ndarray:
        counts = self.counts.astype(np.int64)
        return np.add.reduceat(counts, self.starts[:-1]) if len(counts) else counts

    def most_frequent(self, name: str) -> int | None:
        """The tag that a name had most often, the first of equal ones; None if it is unknown."""
        row = self._rows.get(name)
        if row is None:
            return None
        first, last = self.starts.item(row), self.starts.item(row + 1)
        if last > first + 1:
            first += int(self.counts[first:last].argmax())
        return self.tags.item(first)

    def counts_of(self, name: str) -> dict[int, int]:
        """The number of times that a name had each tag."""
        row = self._rows.get(name)
        if row is None:
            return {}
        place = self._place(row)
        return dict(zip(self.tags[place].tolist(), self.counts[place].tolist(), strict=True))

    def _place(self, row: int) -> slice:
        return slice(self.starts.item(row), self.starts.item(row + 1))

    def packed(self, prefix: str) -> dict[str, np.ndarray]:
        """Arrays, from which `unpacked` makes the dictionary again."""
        return {
            f"{prefix}_names": np.frombuffer("\n".join(self.names).encode(), np.uint8),
            f"{prefix}_starts": self.starts,
            f"{prefix}_tags": self.tags,
            f"{prefix}_counts": self.counts,
        }


def counted(
    names: Iterable[str], tags: Iterable[Tag], before: dict[str, Counter[Tag]] | None = None
) -> dict[str, Counter[Tag]]:
    """The counts of each name's tags, added to those of `before`, which is changed."""
    counts: dict[str, Counter[Tag]] = {} if before is None else before
    for name, tag in zip(names, tags, strict=True):
        counts.setdefault(name, Counter())[tag] += 1
    return counts


def unpacked(
    arrays: Mapping[str, np.ndarray],
    prefix: str,
    least: int,
    n_tags: int,
    *,
    tabs: int | None = None,
) -> Dictionary:
    """The dictionary of `packed`, checked.

    Args: tabs: that each name has; None: any.
    Raises: KeyError, ValueError, TypeError: it is none.
    Cost: some 200 nanoseconds a name.
    """
    text, starts, tags, counts = (arrays[f"{prefix}_{name}"] for name in ARRAYS)
    if type(least) is not int or least < 1:
        raise ValueError(f"{prefix}: a least count of at least 1 is expected")
    if text.dtype != np.uint8 or text.ndim != 1:
        raise ValueError(f"{prefix}: names of bytes are expected")
    if starts.dtype != np.int64 or starts.ndim != 1 or not 1 <= len(starts) <= MAX_NAMES + 1:
        raise ValueError(f"{prefix}: starts of up to {MAX_NAMES:,} names are expected")
    names = str(text.data, "utf-8").split("\n") if len(starts) > 1 else []
    if starts.shape != (len(names) + 1,) or starts[0] != 0:
        raise ValueError(f"{prefix}: starts do not fit the names")
    sizes: np.ndarray = np.diff(starts)
    if sizes.min(initial=1) < 1 or tags.shape != (starts[-1],) or counts.shape != tags.shape:
        raise ValueError(f"{prefix}: starts do not fit the tags")
    if sizes.max(initial=0) > MAX_CANDIDATES:
        raise ValueError(f"{prefix}: more than {MAX_CANDIDATES:,} tags of a name")
    if tags.dtype != np.int32 or counts.dtype != np.int32:
        raise TypeError(f"{prefix}: tags and counts of int32 are expected")
    if len(tags) and not (tags.min() >= 0 and tags.max() < n_tags and counts.min() > 0):
        raise ValueError(f"{prefix}: tags or counts out of range")
    ascends = np.diff(tags) > 0
    ascends[starts[1:-1] - 1] = True
    if not ascends.all():
        raise ValueError(f"{prefix}: tags of a name do not ascend")
    if tabs is not None and not _have_tabs(text, len(names), tabs):
        raise ValueError(f"{prefix}: names with {tabs} tabs are expected")
    found = Dictionary(names, starts, tags, counts, least)
    if len(found._rows) < len(names):
        raise ValueError(f"{prefix}: names that come twice")
    return found


def _have_tabs(text: np.ndarray, n_names: int, tabs: int) -> bool:
    """True if each line of a text has `tabs` tabs."""
    marks = text[(text == _TAB) | (text == _LINE_FEED)]
    if not n_names or len(marks) + 1 != n_names * (tabs + 1):
        return not n_names
    wanted = np.full((n_names, tabs + 1), _TAB, np.uint8)
    wanted[:, -1] = _LINE_FEED
    return bool((marks == wanted.reshape(-1)[:-1]).all())


def combined(*columns: tuple[np.ndarray, Sequence[str]]) -> tuple[np.ndarray, list[str]]:
    """The values of words in some columns: (W,) numbers, and the names joined by tabs.

    Args: columns: (W,) numbers of names, and the names.
    """
    numbers, firsts = numbered_rows([ids for ids, _ in columns])
    texts = [map(names.__getitem__, ids[firsts].tolist()) for ids, names in columns]
    return numbers, list(map("\t".join, zip(*texts, strict=True)))
