"""Word vectors in a model folder: arrays and facts, each named `vectors_` and its field."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from gpuparse.data import array_file
from gpuparse.features.word_vectors import compile_vectors
from gpuparse.scorers.linear.scorer import LinearScorer
from gpuparse.scorers.vectors.scorer import VectorScorer
from gpuparse.scorers.vectors.word_vectors import (
    BLOCK,
    GROUP,
    KINDS,
    LABEL_LANES,
    MARGINS,
    NO_BETWEEN,
    NO_PAIRS,
    WordVectors,
    check_vectors,
)

_PREFIX = "vectors_"
_VALUES = f"{_PREFIX}values"  # the array that says which values have a row
_TYPES = WordVectors.__annotations__
_ARRAYS = [name for name, kind in _TYPES.items() if kind is np.ndarray]
_NUMBERS = [name for name, kind in _TYPES.items() if kind in (int, float) and name not in MARGINS]
# The fields that a folder lacks where vectors do not score what they are of, by the first of them.
_MAY_LACK = {next(iter(fields)): fields for fields in (*NO_PAIRS.values(), NO_BETWEEN)}


def arrays(vectors: WordVectors) -> dict[str, np.ndarray]:
    """The arrays that a folder has, without the empty arrays of parts that are not scored."""
    found = {name: getattr(vectors, name) for name in _ARRAYS}
    may_lack = {name for fields in _MAY_LACK.values() for name in fields}
    kept = {
        _PREFIX + name: array for name, array in found.items() if len(array) or name not in may_lack
    }
    return kept | {_VALUES: vectors.plan.has_row.astype(np.uint8)}


def facts(vectors: WordVectors, tensors: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """The facts that a folder with these arrays has."""
    numbers = {_PREFIX + name: getattr(vectors, name) for name in _stored(_NUMBERS, tensors)}
    margins = {_PREFIX + name: getattr(vectors, name) for name in MARGINS}
    return numbers | {name: margin for name, margin in margins.items() if margin >= 0}


def names(given: Mapping[str, Any], tensors: Mapping[str, np.ndarray]) -> tuple[set[str], set[str]]:
    """Names of the facts and of the arrays that a folder with these has to have."""
    if _VALUES not in tensors:
        return set(), set()
    of_facts = {_PREFIX + name for name in _stored(_NUMBERS, tensors)}
    of_facts |= {_PREFIX + name for name in MARGINS} & given.keys()
    return of_facts, {_VALUES, *(_PREFIX + name for name in _stored(_ARRAYS, tensors))}


def read(opened: array_file.Opened, linear: LinearScorer, n_labels: int) -> VectorScorer | None:
    """The word vectors of a folder, all of whose facts and arrays are there; None: it has none.

    Args: linear: the templates of the folder. n_labels: of the parser.
    Raises: TypeError, ValueError: they are not as they should be.
    """
    given, tensors = opened.facts, opened.arrays
    section = linear.templates.word_vectors
    if (section is None) != (_VALUES not in tensors):
        raise ValueError("word vectors without templates, or templates without vectors")
    if section is None:
        return None
    values = tensors[_VALUES]
    if values.dtype != np.uint8 or values.max(initial=0) > 1:
        raise ValueError(f"{_VALUES}: 0 or 1 is expected for each value")
    plan = compile_vectors(section, linear.vocabularies, values.astype(np.bool_))
    numbers: dict[str, Any] = {name: given[_PREFIX + name] for name in _stored(_NUMBERS, tensors)}
    wrong = [name for name, number in numbers.items() if type(number) is not _TYPES[name]]
    if wrong:
        raise TypeError(f"{_PREFIX}{wrong[0]} is not a number of its kind")
    found: dict[str, Any] = {name: tensors[_PREFIX + name] for name in _stored(_ARRAYS, tensors)}
    margins: Any = {name: given.get(_PREFIX + name, -1) for name in MARGINS}
    vectors = WordVectors(plan=plan, **_absent(tensors), **found, **numbers, **margins)
    if not opened.is_known:  # it was checked with the same texts, whose sums are in the facts
        check_vectors(vectors)
    label = section.label if n_labels else 0
    sizes = (
        (len(vectors.table), plan.n_rows, 1),
        (len(vectors.heads) * GROUP, section.hidden, BLOCK),
        *(
            (size, label if kind == "label" else getattr(section, kind), BLOCK)
            for kind, size in zip(KINDS, vectors.sizes, strict=True)
        ),
        (len(vectors.label_constants), n_labels if label else 0, LABEL_LANES),
    )
    if any(size != -(-wanted // block) * block for size, wanted, block in sizes):
        raise ValueError("the word vectors come from another model")
    return VectorScorer.after(linear, vectors)


def _absent(tensors: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """The fields that a folder with these arrays lacks, and their values."""
    absent: dict[str, Any] = {}
    for name, fields in _MAY_LACK.items():
        if _PREFIX + name not in tensors:
            absent |= fields
    return absent


def _stored(fields: list[str], tensors: Mapping[str, np.ndarray]) -> list[str]:
    """The fields that a folder with these arrays has, of some of them."""
    absent = _absent(tensors)
    return [name for name in fields if name not in absent]
