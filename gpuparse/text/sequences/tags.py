"""Tags of sequences: their classes and their parts."""

import re
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import accumulate, pairwise

import numpy as np

from gpuparse.data.cached import cached_property

PART_BLOCK = 8  # parts
_LINE = 32  # weights of int16 in a line of the cache
Tag = tuple[str, ...]  # one text, or a coarse one and a fine one such as (UPOS, XPOS)


@dataclass(frozen=True)
class TagTable:
    """All tags of a model. Their numbers, and those of their classes and parts, are in the weights.

    The parts of a tag are its beginnings, (UPOS) and (UPOS, XPOS), and with `attributes` also each
    attribute of its last text, such as `Number=Sing`, with its first one; attributes are separated
    by `|` or a tab.

    Attributes:
        tags: in order: those of a class follow each other. attributes: see above.
    """

    tags: tuple[Tag, ...]
    attributes: bool

    @classmethod
    def of_counts(cls, counts: Mapping[Tag, int], *, attributes: bool) -> "TagTable":
        """The tags of a treebank by how often they occur, frequent classes first."""
        of_class: Counter[Tag] = Counter()
        for tag, count in counts.items():
            for size in range(1, len(tag)):
                of_class[tag[:size]] += count

        def rank(tag: Tag) -> list[tuple[int, str]]:
            beginnings = (tag[: size + 1] for size in range(len(tag)))
            return [(-of_class.get(each, counts[tag]), each[-1]) for each in beginnings]

        return cls(tuple(sorted(counts, key=rank)), attributes)

    def __len__(self) -> int:
        return len(self.tags)

    @cached_property
    def numbers(self) -> dict[Tag, int]:
        """The number of each tag."""
        return {tag: number for number, tag in enumerate(self.tags)}

    @cached_property
    def _names(self) -> tuple[dict[str, int], list[list[int]]]:
        """The parts by name, those of classes first, and those of each tag."""
        numbers: dict[str, int] = {}
        of_tags = []
        for tag in self.tags:
            numbers.setdefault(tag[0], len(numbers))
        for tag in self.tags:
            names = ["\t".join(tag[: size + 1]) for size in range(len(tag))]
            if self.attributes:
                names += [
                    f"{tag[0]}\n{each}" for each in re.split(r"[|\t]", tag[-1]) if each != "_"
                ]
            of_tags.append([numbers.setdefault(name, len(numbers)) for name in names])
        return numbers, of_tags

    @cached_property
    def blocks(self) -> np.ndarray:
        """(ceil(P / 8),) uint32, the hash of each 8 parts.

        Weights of a feature with 8 parts follow each other, and those with the next 8 parts are in
        the same line of the cache, up to _LINE.
        """
        blocks = np.arange(-(-len(self._names[0]) // PART_BLOCK), dtype=np.uint32)
        per_line = _LINE // PART_BLOCK
        lines = range(-(-len(blocks) // per_line))
        hashes = np.array([zlib.crc32(b"%d" % line) for line in lines], np.uint32)
        for factor, shift in ((0x7FEB352D, 15), (0x846CA68B, 16)):
            hashes *= np.uint32(factor)
            hashes ^= hashes >> np.uint32(shift)
        of_lines = hashes[blocks // per_line] // np.uint32(_LINE) * np.uint32(_LINE)
        return of_lines + blocks % per_line * np.uint32(PART_BLOCK)

    @cached_property
    def tag_starts(self) -> np.ndarray:
        """(K + 1,) int64: tag k has the parts tag_starts[k] : tag_starts[k + 1] of `tag_parts`."""
        return starts_of(map(len, self._names[1]))

    @cached_property
    def tag_parts(self) -> np.ndarray:
        """int32, numbers of parts."""
        return np.array([part for parts in self._names[1] for part in parts], np.int32)

    @cached_property
    def coarse_starts(self) -> np.ndarray:
        """(classes + 1,) int64: the first tag of each class, which has one first text, and K."""
        return starts_of(Counter(tag[0] for tag in self.tags).values())

    def is_sorted(self) -> bool:
        """True if tags of a class follow each other, and no tag is there twice."""
        changes = sum(a[0] != b[0] for a, b in pairwise(self.tags))
        n_classes = len({tag[0] for tag in self.tags})
        return changes + 1 == n_classes and len(set(self.tags)) == len(self.tags)


def starts_of(sizes: Iterable[int]) -> np.ndarray:
    """(n + 1,) int64: where each of n successive lists begins, and the end."""
    return np.array(list(accumulate(sizes, initial=0)), np.int64)
