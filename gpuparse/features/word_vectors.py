"""Word vectors: templates of one word, whose values are rows of a table of vectors.

docs/features.md has the keys of the section. The rows of all values of a word and its window are
summed; two vectors are made of the sum, that of the word as a head and that as a modifier, and the
score of an arc or of its label is a product of two such vectors; so are those of a modifier and its
inner sibling, and of a modifier and the head of its head. `between.FIELD` adds to the score of an
arc products of both vectors with a vector of each value that words in between have.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from gpuparse.data.atoms import Atom, checked_field, parse_atom
from gpuparse.data.batch import UNKNOWN, Batch, word_places
from gpuparse.data.vocabulary import Vocabularies
from gpuparse.errors import ConfigError
from gpuparse.limits import MAX_BETWEEN_VALUES, MAX_DISTANCE, MAX_VECTOR_TEMPLATES

SECTION = "word_vectors"
ROLE = "w"
_BETWEEN = "between."
DISTANCE = (1, 2, 3, 4, 5, 7, 10, 20)  # upper ends of the distance buckets, if none are given
MAX_ENDS = 15  # distance buckets, but the last
FURTHER = ("sibling", "grandparent")
"""Kinds of parts that are scored by a pair of words beside arcs, by their names in parts.py."""
# The least and most numbers of a vector; products of 8-bit numbers are summed in 32 bits.
_SIZES = {
    "hidden": (0, 4096), "arc": (1, 2048), **dict.fromkeys(FURTHER, (0, 2048)), "label": (0, 2048)
}  # fmt: skip
FEW_WORDS = 30_000  # of a training treebank; benchmarks/book.md has the measurements
_OPTIONAL = set(FURTHER)  # sizes that are 0 where they are not given


@dataclass(frozen=True)
class VectorTemplates:
    """The templates and sizes of word vectors.

    templates: atoms of role `w`.
    hidden: numbers of the hidden layer for each role; 0: none, rows are the vectors themselves.
    arc, label: numbers of the vectors that score arcs, and labels of arcs; label 0: not scored.
    distance: the upper ends, in words, of the distance buckets.
    sibling: numbers of the vectors that score a modifier and its inner sibling; 0: not scored.
    grandparent: the same of a modifier and the head of its head.
    between: the field of the words in between that is looked at; None: they are not.
    """

    templates: tuple[Atom, ...]
    hidden: int
    arc: int
    label: int
    distance: tuple[int, ...] = DISTANCE
    sibling: int = 0
    grandparent: int = 0
    between: str | None = None

    @property
    def reads(self) -> dict[str, str]:
        """The field that each template looks at, by its text."""
        between = {_BETWEEN + self.between: self.between} if self.between else {}
        return {str(atom): atom.field for atom in self.templates} | between

    @property
    def width(self) -> int:
        """Numbers of a row of the table."""
        return 2 * (self.hidden or self.arc + self.sibling + self.grandparent + self.label)

    def times(self, networks: int) -> "VectorTemplates":
        """The sizes of several such networks in one.

        Raises: ConfigError: one is too large.
        """
        sizes: dict[str, Any] = {name: networks * getattr(self, name) for name in _SIZES}
        for name, size in sizes.items():
            most = _SIZES[name][1]
            if size > most:
                raise ConfigError(
                    f"word_vectors.networks: {networks} of {name} {size // networks:,} make"
                    f" {size:,}, more than {most:,}: learn fewer, or smaller ones"
                )
        return replace(self, **sizes)

    def of_sizes(self, **sizes: int) -> "VectorTemplates":
        """The same templates with other sizes.

        Args: sizes: by their names.
        Raises: ConfigError: one is too large.
        """
        for name, size in sizes.items():
            most = _SIZES[name][1]
            if size > most:
                raise ConfigError(f"{SECTION}: {name} {size:,}, more than {most:,}: use fewer")
        changed: dict[str, Any] = dict(sizes)
        return replace(self, **changed)

    def expanded(self, attributes: Sequence[str]) -> "VectorTemplates":
        """These with each of the attributes in place of `feats.*`, each template once.

        Raises: ConfigError: that makes more than MAX_VECTOR_TEMPLATES.
        """
        names = [f"feats.{name}" for name in attributes]
        found = tuple(
            dict.fromkeys(
                Atom(atom.role, atom.offset, field)
                for atom in self.templates
                for field in (names if atom.field == "feats.*" else [atom.field])
            )
        )
        if not found:
            raise ConfigError(f"{SECTION}: no word has a value of any template")
        _check_count(len(found))
        return replace(self, templates=found)


class VectorPlan(NamedTuple):
    """Templates of word vectors as arrays. K templates, L distances.

    Value v of template k at a node, read `offsets[k]` words to the right of it, has the row
    `places[starts[k] + v]` of the table; -1: none. A word in between has the number
    `between_places[v]` of those told apart, T of them, -1 for none; v: its value.
    """

    rows: np.ndarray  # (K,) int64, of the batch's values
    offsets: np.ndarray  # (K,) int64
    starts: np.ndarray  # (K,) int64, into places
    sizes: np.ndarray  # (K,) int64, value ids of each template
    places: np.ndarray  # (sum of sizes,) int32
    buckets: np.ndarray  # (L,) int64: bucket of distance d at d - 1, the last one for all beyond
    n_buckets: int
    between_row: int  # of the batch's values; 0 if nothing is looked at
    between_places: np.ndarray  # (values of the field,) int32
    n_between: int  # T

    @property
    def has_row(self) -> np.ndarray:
        """As `compile_vectors` takes it."""
        return np.concatenate([self.places, self.between_places]) >= 0

    @property
    def n_rows(self) -> int:
        """Rows of the table."""
        return int(self.places.max(initial=-1)) + 1


def compile_vectors(
    templates: VectorTemplates, vocabularies: Vocabularies, has_row: np.ndarray
) -> VectorPlan:
    """Compile expanded templates.

    has_row: (sum of sizes,) bool, of `frequent_values`: which values have a row.
    Raises: ValueError: `has_row` is not that of these templates, UNKNOWN has a row, or too many
        values of words in between have a number.
    """
    fields = {field: row for row, field in enumerate(vocabularies.fields)}
    sizes = _sizes(templates, vocabularies)
    starts = np.cumsum(sizes) - sizes
    if has_row.dtype != np.bool_ or has_row.shape != (sizes.sum(),):
        raise ValueError(f"{SECTION}: {sizes.sum()} values, of which {has_row.shape} are counted")
    if has_row[starts + UNKNOWN].any():
        raise ValueError(f"{SECTION}: unknown values have a row")
    count = len(templates.templates)
    has_row, is_counted = np.split(has_row, [sizes[:count].sum()])
    n_between = int(is_counted.sum())
    if n_between > MAX_BETWEEN_VALUES:
        raise ValueError(f"{SECTION}: {n_between:,} values of words in between")
    places = np.where(has_row, np.cumsum(has_row) - 1, -1)
    ends = templates.distance
    return VectorPlan(
        np.array([fields[atom.field] for atom in templates.templates], np.int64),
        np.array([atom.offset for atom in templates.templates], np.int64),
        starts[:count],
        sizes[:count],
        places.astype(np.int32),
        np.searchsorted(ends, np.arange(1, ends[-1] + 2 if ends else 2)).astype(np.int64),
        len(ends) + 1,
        fields[templates.between] if templates.between else 0,
        np.where(is_counted, np.cumsum(is_counted) - 1, -1).astype(np.int32),
        n_between,
    )


def is_small(batch: Batch) -> bool:
    """True if a training treebank has few words; `auto` keys of word vectors depend on it."""
    return len(word_places(batch)) < FEW_WORDS


def frequent_values(
    templates: VectorTemplates, vocabularies: Vocabularies, batch: Batch, min_count: int | str
) -> np.ndarray:
    """(sum of sizes,) bool: the values that `min_count` nodes of a batch have, by template.

    `auto` counts by the size of the batch: vectors of rare values are of use where there is little
    to learn from, and elsewhere know the training sentences.

    Those of words in between follow, if there are any: MAX_BETWEEN_VALUES at most, the most
    frequent.

    Args: templates: expanded; batch: of the training treebank.
    Cost: one pass of the batch for each template.
    """
    if isinstance(min_count, str):  # "auto"
        min_count = 2 if is_small(batch) else 5
    fields = {field: row for row, field in enumerate(vocabularies.fields)}
    nodes = np.concatenate([word_places(batch), batch.starts])
    sizes = _sizes(templates, vocabularies).tolist()
    counts = [
        np.bincount(batch.values[fields[atom.field], nodes + atom.offset], minlength=size)
        for atom, size in zip(templates.templates, sizes, strict=False)
    ]
    if templates.between:
        values = batch.values[fields[templates.between], word_places(batch)]
        count = np.bincount(values, minlength=sizes[-1])
        count[np.argsort(-count, kind="stable")[MAX_BETWEEN_VALUES:]] = 0
        counts.append(count)
    for count in counts:
        count[UNKNOWN] = 0
    return np.concatenate(counts) >= max(min_count, 1)


def _sizes(templates: VectorTemplates, vocabularies: Vocabularies) -> np.ndarray:
    """Values of each template, and then of the words in between, if they are looked at."""
    fields = [atom.field for atom in templates.templates]
    if templates.between:
        fields.append(templates.between)
    return np.array([vocabularies.size(field) for field in fields], np.int64)


def parse_vectors(content: object) -> VectorTemplates:
    """Read the section of a template set.

    Raises: ConfigError: a key, size, bucket or template that cannot be read.
    """
    keys = {"templates", "distance", *_SIZES}
    if not isinstance(content, Mapping) or set(content) - keys or "templates" not in content:
        raise ConfigError(f"{SECTION} has the keys templates, {', '.join(_SIZES)} and distance")
    sizes: dict[str, int] = {}
    for name, (low, high) in _SIZES.items():
        size = content.get(name, 0 if name in _OPTIONAL else None)
        if type(size) is not int or not low <= size <= high:
            raise ConfigError(f"{SECTION}: {name}: a whole number from {low} to {high} is expected")
        sizes[name] = size
    ends = content.get("distance", list(DISTANCE))
    if (
        not isinstance(ends, list)
        or any(type(end) is not int or not 1 <= end <= MAX_DISTANCE for end in ends)
        or sorted(set(ends)) != ends
        or len(ends) > MAX_ENDS
    ):
        raise ConfigError(
            f"{SECTION}: distance: at most {MAX_ENDS} upper ends, rising, from 1 to"
            f" {MAX_DISTANCE:,}"
        )
    texts = content["templates"]
    if not isinstance(texts, list) or not texts:
        raise ConfigError(f"{SECTION}: templates: a list of templates is expected")
    _check_count(len(texts))
    texts = list(map(str, texts))
    fields = [text for text in texts if text.startswith(_BETWEEN)]
    if len(fields) > 1:
        raise ConfigError(f"{SECTION}: only one {_BETWEEN}FIELD is allowed")
    between = checked_field(fields[0].removeprefix(_BETWEEN), fields[0]) if fields else None
    if between and between.startswith("feats.*"):
        raise ConfigError(f"{SECTION}: template '{fields[0]}': name one attribute")
    atoms = [parse_atom(text, text, (ROLE,)) for text in texts if text not in fields]
    if not atoms:
        raise ConfigError(f"{SECTION}: templates: none of the word itself")
    if len(set(atoms)) < len(atoms):
        twice = next(atom for i, atom in enumerate(atoms) if atom in atoms[:i])
        raise ConfigError(f"{SECTION}: template '{twice}' appears twice")
    if any(atom.field == "feats.**" for atom in atoms):
        raise ConfigError(f"{SECTION}: a template looks at one attribute: write {ROLE}.feats.*")
    return VectorTemplates(tuple(atoms), **sizes, distance=tuple(ends), between=between)


def dump_vectors(templates: VectorTemplates) -> dict[str, Any]:
    """The section as `parse_vectors` reads it."""
    sizes = {name: getattr(templates, name) for name in _SIZES}
    return {
        **{name: size for name, size in sizes.items() if size or name not in _OPTIONAL},
        "distance": list(templates.distance),
        "templates": list(templates.reads),
    }


def _check_count(count: int) -> None:
    if count > MAX_VECTOR_TEMPLATES:
        raise ConfigError(
            f"{SECTION}: {count:,} templates with all attributes of FEATS, more than"
            f" {MAX_VECTOR_TEMPLATES:,}: write fewer"
        )
