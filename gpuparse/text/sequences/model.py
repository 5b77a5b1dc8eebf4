"""A linear model of sequences: the best candidate tags by hashed features and the tags before.

The score of a tag at a position is the sum of the weights of all features of the position, each
with each part of the tag. A feature that was rare in training is no feature: a filter of one bit
for each hash says which are known. Search is exact over the candidates; the tags with the best own
scores are the candidates where none are given. native/sequences.h has the algorithms.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from gpuparse import native
from gpuparse.data.array_file import check_names
from gpuparse.data.cached import cached_property
from gpuparse.limits import MAX_BEAM, MAX_MARGIN
from gpuparse.text.sequences.tags import PART_BLOCK, TagTable, starts_of
from gpuparse.text.sequences.templates import SequenceTemplates, parse_sequence_templates

FILTER_BITS = 24
_FOLDED = 1 << 15  # words of a folded filter
MAX_TAGS, MAX_TEXT = 1 << 20, 1 << 12
ARRAYS = ("weights", "known")  # of a packed model
_FACTS = ("templates", "tags", "attributes", "scale", "beam")
NO_HIDDEN = np.empty((0, 0), np.uint8)  # `hidden` of sequences for models without an output


class Sequences(NamedTuple):
    """Positions with features and candidates.

    features: (N, T) uint32. starts: (S + 1,) int64. candidate_starts: (N + 1,) int64; a position
    without candidates gets those with the best own scores. candidates: int32, numbers of tags.
    hidden: (N, H) uint8, what the model's `output` reads; empty where it has none.
    """

    features: np.ndarray
    starts: np.ndarray
    candidate_starts: np.ndarray
    candidates: np.ndarray
    hidden: np.ndarray = NO_HIDDEN

    @classmethod
    def open(cls, features: np.ndarray, starts: np.ndarray) -> "Sequences":
        """Positions where every tag is a candidate."""
        return cls(features, starts, np.zeros(len(features) + 1, np.int64), np.empty(0, np.int32))

    def part(self, first: int, last: int) -> "Sequences":
        """Sequences first : last."""
        start, end = self.starts[first], self.starts[last]
        bounds = self.candidate_starts[start : end + 1]
        return Sequences(
            self.features[start:end],
            self.starts[first : last + 1] - start,
            bounds - bounds[0],
            self.candidates[bounds[0] : bounds[-1]],
            self.hidden[start:end],
        )


class Output(NamedTuple):
    """The scores that a network adds to parts of tags.

    rows: (8 * blocks, H) int8. constants: (8 * blocks,) int32. A part is given the product of its
    row with the hidden numbers of a position, plus its constant, times multiplier / 2^shift.
    unit: of the logarithm of a probability as learned, what 1 of the product is.
    """

    rows: np.ndarray
    constants: np.ndarray
    multiplier: int
    shift: int
    unit: float


_NO_OUTPUT = Output(np.empty((0, 0), np.int8), np.empty(0, np.int32), 0, 0, 1.0)


@dataclass(frozen=True)
class SequenceModel:
    """A model.

    Attributes:
        templates: its features and contexts.
        table: its tags.
        weights: (2^b,) int16, or float32 while it is learned.
        known: (2^24 / 32,) uint32, a bit for each hash of a known feature.
        scale: of the whole numbers: a score of the learned weights is this times their sum.
        beam: int64, most coarse classes and tags where no candidates are given; and perhaps how
            many points the own score of a candidate may be below the best one in `find`.
        output: of a network; None: templates alone. It is stored with the network.
    """

    templates: SequenceTemplates
    table: TagTable
    weights: np.ndarray
    known: np.ndarray
    scale: float
    beam: np.ndarray
    output: Output | None = None

    @cached_property
    def arrays(self) -> "ModelArrays":
        """The arrays of the model."""
        return ModelArrays(
            self.weights, self.known, folded(self.known), self.table.blocks, self.table.tag_starts,
            self.table.tag_parts, self.table.coarse_starts, self.templates.contexts, self.beam,
            *(self.output or _NO_OUTPUT)[:4], None,
        )  # fmt: skip

    @cached_property
    def arrays_of_search(self) -> "ModelArrays":
        """The arrays, of two tags also their weights alone, by which the search is faster."""
        is_of_two = self.table.tag_parts.tolist() == [0, 1]
        if self.weights.dtype != np.int16 or self.templates.order != 1 or not is_of_two:
            return self.arrays
        pairs = self.weights.reshape(-1, PART_BLOCK)[:, :2]
        return self.arrays._replace(pair_weights=np.ascontiguousarray(pairs))

    @cached_property
    def struct(self) -> native.Struct:
        """The model as the native library takes it."""
        return native.struct("SequenceModel", self.arrays_of_search)

    def find(self, sequences: Sequences) -> np.ndarray:
        """The best tags, (N,) int32 numbers.

        Of equal sequences, the one whose last tag, then the one before, ... comes first among the
        candidates.
        """
        tags = np.empty(len(sequences.features), np.int32)
        native.call("find_sequences", self.struct, sequences, tags)
        return tags

    def sums(self, sequences: Sequences, k: int) -> tuple[np.ndarray, np.ndarray]:
        """The k most probable tags of each position, (N, k) int32, and their probabilities.

        A tag of -1 and a probability of 0 where there are fewer candidates. The probability of a
        sequence is proportional to exp of its score in the unit of learning.
        """
        tags = np.empty((len(sequences.features), k), np.int32)
        probabilities = np.empty(tags.shape)
        native.call("sum_sequences", self.struct, sequences, self.scale, tags, probabilities)
        return tags, probabilities

    def marginals(self, sequences: Sequences, tags: np.ndarray) -> np.ndarray:
        """The probabilities of given tags, (N,); 0 of those that are no candidates.

        Args: tags: (N,) numbers.
        """
        most = min(int(self.beam[1]), len(self.table))  # all candidates
        found, probabilities = self.sums(sequences, most)
        return np.where(found == tags[:, None], probabilities, 0.0).sum(1)

    def rounded(self, bits: int = 16) -> "SequenceModel":
        """The model with weights of whole numbers of some bits."""
        largest, most = float(np.abs(self.weights).max(initial=0)) or 1.0, (1 << (bits - 1)) - 1
        weights = np.rint(self.weights * (most / largest)).astype(np.int16)
        scale = self.scale * largest / most
        return replace(self, weights=weights, scale=scale)

    def packed(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Facts and arrays, from which `unpacked` makes the model again."""
        facts = {
            "templates": self.templates.dump(),
            "tags": [list(tag) for tag in self.table.tags],
            "attributes": self.table.attributes,
            "scale": self.scale,
            "beam": self.beam.tolist(),
        }
        return facts, {"weights": self.weights, "known": self.known.view(np.int32)}


class ModelArrays(NamedTuple):
    """As native/api/sequences.h has it."""

    weights: np.ndarray
    known: np.ndarray
    folded: np.ndarray
    blocks: np.ndarray
    tag_starts: np.ndarray
    tag_parts: np.ndarray
    coarse_starts: np.ndarray
    contexts: np.ndarray
    beam: np.ndarray
    outputs: np.ndarray
    output_constants: np.ndarray
    output_multiplier: int
    output_shift: int
    pair_weights: np.ndarray | None


def folded(known: np.ndarray) -> np.ndarray:
    """The bits of all parts of a filter in one: (2^20 / 32,) uint32, which the cache holds."""
    found: np.ndarray = np.bitwise_or.reduce(known.reshape(-1, min(len(known), _FOLDED)), axis=0)
    return found


def unpacked(
    facts: dict[str, Any], arrays: dict[str, np.ndarray], is_field: Callable[[str], bool]
) -> SequenceModel:
    """The model of `packed`, checked.

    Raises: ValueError, TypeError, KeyError, ConfigError: it is no such model.
    """
    check_names(facts, _FACTS)
    tags = facts["tags"]
    if not isinstance(facts["templates"], str):
        raise TypeError("templates: text is expected")
    if not isinstance(tags, list) or not 0 < len(tags) <= MAX_TAGS or not all(map(_is_tag, tags)):
        raise ValueError("tags: a list of lists of one or two texts is expected")
    if len(set(map(len, tags))) > 1 or not isinstance(facts["attributes"], bool):
        raise ValueError("tags of different kinds")
    table = TagTable(tuple(map(tuple, tags)), facts["attributes"])
    if not table.is_sorted():
        raise ValueError("tags that are not sorted by class")
    weights, known = arrays["weights"], arrays["known"]
    rows = len(weights)
    if (
        weights.dtype != np.int16
        or weights.ndim != 1
        or rows & (rows - 1)
        or not 8 <= rows <= 1 << 31
    ):
        raise ValueError("weights: 2^b numbers of int16 are expected")
    if known.dtype != np.int32 or known.shape != (1 << (FILTER_BITS - 5),):
        raise ValueError("known: of another size")
    beam, scale = facts["beam"], facts["scale"]
    if not isinstance(beam, list) or not 2 <= len(beam) <= 3 or not all(map(_is_beam, beam[:2])):
        raise ValueError(f"beam: two numbers from 1 to {MAX_BEAM} are expected")
    if not all(type(margin) is int and 1 <= margin <= MAX_MARGIN for margin in beam[2:]):
        raise ValueError(f"beam: a margin from 1 to {MAX_MARGIN} is expected")
    if type(scale) is not float or not 0 < scale < np.inf:
        raise ValueError("scale: a number above 0 is expected")
    templates = parse_sequence_templates(facts["templates"], "templates", is_field)
    return SequenceModel(
        templates, table, weights, known.view(np.uint32), scale, np.array(beam, np.int64)
    )


def _is_tag(tag: object) -> bool:
    return (
        isinstance(tag, list)
        and 1 <= len(tag) <= 2
        and all(isinstance(text, str) and len(text) <= MAX_TEXT for text in tag)
    )


def _is_beam(number: object) -> bool:
    return type(number) is int and 1 <= number <= MAX_BEAM


def candidate_lists(lists: Iterable[Sequence[int] | np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Candidates of all positions as `Sequences` has them."""
    given = [np.asarray(each, np.int32) for each in lists]
    return starts_of(map(len, given)), np.concatenate([*given, np.empty(0, np.int32)])
