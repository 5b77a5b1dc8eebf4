"""Word vectors: templates of one word, whose values are rows of a table of vectors.

    word_vectors:
      hidden: 192
      arc: 96
      sibling: 64
      label: 64
      templates: [w.form, w-1.pos, w.feats.*]

A template is one atom of role `w`: the word itself or one up to three words beside it. The rows of
all values of a word and its window are summed; two vectors are made of the sum, that of the word
as a head and that as a modifier, and the score of an arc or of its label is a product of two such
vectors; so is that of a modifier and its inner sibling. A value has a row if it occurred often
enough in training.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from gpuparse.data.batch import UNKNOWN, Batch, word_places
from gpuparse.data.vocabulary import Vocabularies
from gpuparse.errors import ConfigError
from gpuparse.features.atoms import Atom, parse_atom
from gpuparse.limits import MAX_DISTANCE, MAX_VECTOR_TEMPLATES

SECTION = "word_vectors"
ROLE = "w"
DISTANCE = (1, 2, 3, 4, 5, 7, 10, 20)  # upper ends of the distance buckets, if none are given
MAX_ENDS = 15  # distance buckets, but the last
# The least and most numbers of a vector; products of 8-bit numbers are summed in 32 bits.
_SIZES = {"hidden": (0, 4096), "arc": (1, 2048), "sibling": (0, 2048), "label": (0, 2048)}
_OPTIONAL = {"sibling"}  # sizes that are 0 where they are not given


@dataclass(frozen=True)
class VectorTemplates:
    """What word vectors are made of.

    templates: atoms of role `w`.
    hidden: numbers of the hidden layer for each role; 0: none, rows are the vectors themselves.
    arc, label: numbers of the vectors that score arcs, and labels of arcs; label 0: not scored.
    distance: the upper ends, in words, of the distance buckets.
    sibling: numbers of the vectors that score a modifier and its inner sibling; 0: not scored.
    """

    templates: tuple[Atom, ...]
    hidden: int
    arc: int
    label: int
    distance: tuple[int, ...] = DISTANCE
    sibling: int = 0

    def fields(self) -> set[str]:
        """The fields that are looked at."""
        return {atom.field for atom in self.templates}

    def times(self, networks: int) -> "VectorTemplates":
        """The sizes of several such networks in one.

        Raises: ConfigError: one is too large.
        """
        sizes = {name: networks * getattr(self, name) for name in _SIZES}
        for name, size in sizes.items():
            most = _SIZES[name][1]
            if size > most:
                raise ConfigError(
                    f"word_vectors.networks: {networks} of {name} {size // networks:,} make"
                    f" {size:,}, more than {most:,}: learn fewer, or smaller ones"
                )
        return replace(self, **sizes)

    def of_sizes(self, *, hidden: int, arc: int, label: int, sibling: int) -> "VectorTemplates":
        """The same templates with other sizes.

        Raises: ConfigError: one is too large.
        """
        sizes = {"hidden": hidden, "arc": arc, "label": label, "sibling": sibling}
        for name, size in sizes.items():
            most = _SIZES[name][1]
            if size > most:
                raise ConfigError(f"{SECTION}: {name} {size:,}, more than {most:,}: use fewer")
        return replace(self, hidden=hidden, arc=arc, label=label, sibling=sibling)

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
    `places[starts[k] + v]` of the table; -1: none.
    """

    rows: np.ndarray  # (K,) int64, of the batch's values
    offsets: np.ndarray  # (K,) int64
    starts: np.ndarray  # (K,) int64, into places
    sizes: np.ndarray  # (K,) int64, value ids of each template
    places: np.ndarray  # (sum of sizes,) int32
    buckets: np.ndarray  # (L,) int64: bucket of distance d at d - 1, the last one for all beyond
    n_buckets: int

    @property
    def n_rows(self) -> int:
        """Rows of the table."""
        return int(self.places.max(initial=-1)) + 1


def compile_vectors(
    templates: VectorTemplates, vocabularies: Vocabularies, has_row: np.ndarray
) -> VectorPlan:
    """Compile expanded templates.

    has_row: (sum of sizes,) bool, of `frequent_values`: which values have a row.
    Raises: ValueError: `has_row` is not that of these templates, or UNKNOWN has a row.
    """
    fields = {field: row for row, field in enumerate(vocabularies.fields)}
    sizes = _sizes(templates, vocabularies)
    starts = np.cumsum(sizes) - sizes
    if has_row.dtype != np.bool_ or has_row.shape != (sizes.sum(),):
        raise ValueError(f"{SECTION}: {sizes.sum()} values, of which {has_row.shape} are counted")
    if has_row[starts + UNKNOWN].any():
        raise ValueError(f"{SECTION}: unknown values have a row")
    places = np.where(has_row, np.cumsum(has_row) - 1, -1)
    ends = templates.distance
    return VectorPlan(
        np.array([fields[atom.field] for atom in templates.templates], np.int64),
        np.array([atom.offset for atom in templates.templates], np.int64),
        starts,
        sizes,
        places.astype(np.int32),
        np.searchsorted(ends, np.arange(1, ends[-1] + 2 if ends else 2)).astype(np.int64),
        len(ends) + 1,
    )


def frequent_values(
    templates: VectorTemplates, vocabularies: Vocabularies, batch: Batch, min_count: int
) -> np.ndarray:
    """(sum of sizes,) bool: the values that `min_count` nodes of a batch have, by template.

    Args: templates: expanded; batch: of the training treebank.
    Cost: one pass of the batch for each template.
    """
    fields = {field: row for row, field in enumerate(vocabularies.fields)}
    nodes = np.concatenate([word_places(batch), batch.starts])
    sizes = _sizes(templates, vocabularies).tolist()
    counts = [
        np.bincount(batch.values[fields[atom.field], nodes + atom.offset], minlength=size)
        for atom, size in zip(templates.templates, sizes, strict=True)
    ]
    for count in counts:
        count[UNKNOWN] = 0
    return np.concatenate(counts) >= max(min_count, 1)


def _sizes(templates: VectorTemplates, vocabularies: Vocabularies) -> np.ndarray:
    return np.array([vocabularies.size(atom.field) for atom in templates.templates], np.int64)


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
    atoms = [parse_atom(str(text), str(text), (ROLE,)) for text in texts]
    if len(set(atoms)) < len(atoms):
        twice = next(atom for i, atom in enumerate(atoms) if atom in atoms[:i])
        raise ConfigError(f"{SECTION}: template '{twice}' appears twice")
    if any(atom.field == "feats.**" for atom in atoms):
        raise ConfigError(f"{SECTION}: a template looks at one attribute: write {ROLE}.feats.*")
    return VectorTemplates(tuple(atoms), **sizes, distance=tuple(ends))


def dump_vectors(templates: VectorTemplates) -> dict[str, Any]:
    """The section as `parse_vectors` reads it."""
    sizes = {name: getattr(templates, name) for name in _SIZES}
    return {
        **{name: size for name, size in sizes.items() if size or name not in _OPTIONAL},
        "distance": list(templates.distance),
        "templates": list(map(str, templates.templates)),
    }


def _check_count(count: int) -> None:
    if count > MAX_VECTOR_TEMPLATES:
        raise ConfigError(
            f"{SECTION}: {count:,} templates with all attributes of FEATS, more than"
            f" {MAX_VECTOR_TEMPLATES:,}: write fewer"
        )
