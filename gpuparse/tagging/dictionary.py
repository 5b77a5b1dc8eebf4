"""A dictionary: how often each name (a word, a word with its tag) had each tag in training."""

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from gpuparse.errors import plural
from gpuparse.limits import MAX_CANDIDATES
from gpuparse.sequences.tags import starts_of

_NOTHING = np.empty(0, np.int32)
MAX_NAMES = 1 << 22
MAX_CELLS = 1 << 26  # candidates of all words of a sentence: 2 GB
ARRAYS = ("names", "starts", "tags", "counts")  # of a packed dictionary


class Dictionary:
    """Names with the numbers of their tags, ascending, and how often each occurred.

    Args:
        counts: of each name, how often it had each tag.
        least: times that a name must have occurred for its tags to be all that is possible.
    """

    def __init__(self, counts: Mapping[str, Mapping[int, int]], least: int) -> None:
        self.counts, self.least = counts, least
        self._candidates: dict[str, np.ndarray] = {}

    def candidates(self, name: str) -> np.ndarray:
        """The tags that are possible for a name; none if it is unknown or rare."""
        found = self._candidates.get(name)
        if found is None:
            known = self.counts.get(name)
            if not known or self.count(name) < self.least:
                return _NOTHING
            found = self._candidates[name] = np.array(sorted(known), np.int32)
        return found

    def count(self, name: str) -> int:
        """How often a name occurred."""
        return sum(self.counts.get(name, {}).values())

    def packed(self, prefix: str) -> dict[str, np.ndarray]:
        """Arrays, from which `unpacked` makes the dictionary again."""
        names = list(self.counts)
        tags = [tag for name in names for tag in sorted(self.counts[name])]
        numbers = [self.counts[name][tag] for name in names for tag in sorted(self.counts[name])]
        return {
            f"{prefix}_names": np.frombuffer("\n".join(names).encode(), np.uint8),
            f"{prefix}_starts": starts_of(len(self.counts[name]) for name in names),
            f"{prefix}_tags": np.array(tags, np.int32),
            f"{prefix}_counts": np.array(numbers, np.int32),
        }


def counted(names: Sequence[str], tags: Sequence[int]) -> dict[str, Counter[int]]:
    """How often each name has each tag."""
    counts: dict[str, Counter[int]] = {}
    for name, tag in zip(names, tags, strict=True):
        counts.setdefault(name, Counter())[tag] += 1
    return counts


def unpacked(arrays: Mapping[str, np.ndarray], prefix: str, least: int, n_tags: int) -> Dictionary:
    """The dictionary of `packed`, checked.

    Raises: KeyError, ValueError, TypeError: it is none.
    """
    names_array, starts, tags, counts = (arrays[f"{prefix}_{name}"] for name in ARRAYS)
    if type(least) is not int or least < 1:
        raise ValueError(f"{prefix}: a least count of at least 1 is expected")
    if names_array.dtype != np.uint8 or names_array.ndim != 1:
        raise ValueError(f"{prefix}: names of bytes are expected")
    names = names_array.tobytes().decode().split("\n") if len(starts) > 1 else []
    if len(names) > MAX_NAMES or len(set(names)) != len(names):
        raise ValueError(f"{prefix}: names that come twice, or more than {MAX_NAMES:,}")
    if starts.dtype != np.int64 or starts.shape != (len(names) + 1,) or starts[0] != 0:
        raise ValueError(f"{prefix}: starts do not fit the names")
    if (np.diff(starts) < 1).any() or tags.shape != (starts[-1],) or counts.shape != tags.shape:
        raise ValueError(f"{prefix}: starts do not fit the tags")
    if np.diff(starts).max(initial=0) > MAX_CANDIDATES:
        raise ValueError(f"{prefix}: more than {MAX_CANDIDATES:,} tags of a name")
    if tags.dtype != np.int32 or counts.dtype != np.int32:
        raise TypeError(f"{prefix}: tags and counts of int32 are expected")
    if len(tags) and not (tags.min() >= 0 and tags.max() < n_tags and counts.min() > 0):
        raise ValueError(f"{prefix}: tags or counts out of range")
    pairs = list(zip(tags.tolist(), counts.tolist(), strict=True))
    bounds = starts.tolist()
    return Dictionary(
        {
            name: dict(pairs[first:end])
            for name, first, end in zip(names, bounds, bounds[1:], strict=False)
        },
        least,
    )


def joined_candidates(
    ids: np.ndarray, lists: Sequence[np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """Candidates of all positions, as `Sequences` has them.

    Args: ids: (N,) for each position, which of the lists it has.
    Raises: MemoryError: they are more than MAX_CELLS.
    """
    sizes = np.array([len(each) for each in lists], np.int64)
    firsts = np.cumsum(sizes) - sizes
    starts = np.concatenate([[0], np.cumsum(sizes[ids])]).astype(np.int64)
    if starts[-1] > MAX_CELLS:
        raise MemoryError(
            f"{starts[-1]:,} tags are possible for"
            f" {plural(len(ids), 'word')}, more than {MAX_CELLS:,}:"
            " split long sentences"
        )
    flat = np.concatenate([*lists, _NOTHING])
    places = np.arange(starts[-1]) + np.repeat(firsts[ids] - starts[:-1], sizes[ids])
    return starts, flat[places].astype(np.int32)


def combined(
    ids: np.ndarray, names: Sequence[str], others: np.ndarray, other_names: Sequence[str]
) -> tuple[np.ndarray, list[str]]:
    """Pairs of two columns: (W,) numbers of pairs, and their names, joined by a tab."""
    keys = ids.astype(np.int64) * max(len(other_names), 1) + others
    distinct: dict[int, int] = {}
    numbers = [distinct.setdefault(key, len(distinct)) for key in keys.tolist()]
    pairs = (divmod(key, max(len(other_names), 1)) for key in distinct)
    return np.array(numbers, np.int64), [f"{names[a]}\t{other_names[b]}" for a, b in pairs]
