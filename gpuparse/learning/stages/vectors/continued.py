"""Word vectors of a model to learn on from, with a larger vocabulary."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from gpuparse.data.batch import Batch
from gpuparse.data.vocabulary import Vocabularies
from gpuparse.features.templates import are_expanded
from gpuparse.features.word_vectors import (
    FURTHER,
    VectorPlan,
    VectorTemplates,
    compile_vectors,
    frequent_values,
)
from gpuparse.learning.stages.labels import grown_labels
from gpuparse.learning.stages.vectors.engine import PARTS, VectorSizes, VectorTables, vector_sizes
from gpuparse.limits import MAX_BETWEEN_VALUES
from gpuparse.parser import Parser
from gpuparse.scorers.vectors.scorer import vectors_of
from gpuparse.scorers.vectors.word_vectors import OCCURRENCES

if TYPE_CHECKING:
    from gpuparse.learning.start import Start


def continued_section(
    known: VectorTemplates, given: VectorTemplates, networks: int, *, has_labels: bool
) -> VectorTemplates | None:
    """The templates of a model, with the sizes of one of its networks; None: others are given.

    Args: given: of the config, whose sizes are those of one network.
    """
    sizes = {name: getattr(given, name) for name in ("hidden", "arc", *FURTHER)}
    sizes["label"] = given.label if has_labels else 0
    section = replace(known, **sizes)
    are_same = (
        section.times(networks) == known
        and section.distance == given.distance
        and section.between == given.between
        and are_expanded(known.templates, given.templates)
    )
    return section if are_same else None


def sizes_of_network(parser: Parser, networks: int) -> VectorSizes:
    """Those of one of the networks that the word vectors of a parser were learned as."""
    section, vectors = parser.linear.templates.word_vectors, vectors_of(parser.scorers)
    assert section is not None
    assert vectors is not None
    sizes = {name: getattr(section, name) // networks for name in ("hidden", "arc", *FURTHER)}
    sizes["label"] = section.label // networks if parser.labels else 0
    return vector_sizes(section.of_sizes(**sizes), vectors.plan, len(parser.labels))


def grown_plan(
    start: Parser, templates: VectorTemplates, vocabularies: Vocabularies, batch: Batch,
    min_count: int | str,
) -> VectorPlan:  # fmt: skip
    """A plan in which the values of the model and those frequent in a batch have rows.

    Args: templates: with the sizes of one network.
    """
    vectors = vectors_of(start.scorers)
    assert vectors is not None
    fields = [atom.field for atom in templates.templates]
    fields += [templates.between] if templates.between else []
    old_ends, ends = (
        np.cumsum([each.size(field) for field in fields])[:-1]
        for each in (start.linear.vocabularies, vocabularies)
    )
    frequent = frequent_values(templates, vocabularies, batch, min_count)
    blocks = np.split(frequent, ends)
    for had, has in zip(np.split(vectors.plan.has_row, old_ends), blocks, strict=True):
        has[: len(had)] |= had
    if templates.between:
        had, has = np.split(vectors.plan.has_row, old_ends)[-1], blocks[-1]
        more = has.copy()
        more[: len(had)] &= ~had
        has[np.flatnonzero(more)[MAX_BETWEEN_VALUES - int(had.sum()) :]] = False
    return compile_vectors(templates, vocabularies, np.concatenate(blocks))


def grown_networks(start: Start, plan: VectorPlan, sizes: VectorSizes) -> list[VectorTables]:
    """The networks of word vectors with a larger vocabulary; new rows are zero.

    Args: plan: of `grown_plan`; sizes: of a network with it.
    """
    vectors = vectors_of(start.parser.scorers)
    assert vectors is not None
    count = sum(name.startswith("vectors.table_") for name in start.arrays)
    old, before = vectors.plan, sizes_of_network(start.parser, count)
    networks = []
    for i in range(count):
        known, dense = (start.arrays[f"vectors.{part}_{i}"] for part in PARTS)
        table = np.zeros((plan.n_rows, sizes.width), np.float32)
        for first, size, new in zip(old.starts, old.sizes, plan.starts, strict=True):
            places = old.places[first : first + size]
            has_row = places >= 0
            table[plan.places[new : new + size][has_row]] = known[places[has_row]]
        *parts, labels, between = before.parts(dense)
        if sizes.n_labels > before.n_labels:
            labels = grown_labels(labels.T, sizes.n_labels).T
        more = np.zeros((2 * OCCURRENCES, sizes.n_between, between.shape[1]), np.float32)
        if before.n_between:
            is_known = old.between_places >= 0
            at = plan.between_places[: len(is_known)][is_known]
            given = between.reshape(2 * OCCURRENCES, before.n_between, -1)
            more[:, at] = given[:, old.between_places[is_known]]
        numbers = [part.reshape(-1) for part in (*parts, labels, more)]
        networks.append(VectorTables(table, np.concatenate(numbers)))
    return networks
