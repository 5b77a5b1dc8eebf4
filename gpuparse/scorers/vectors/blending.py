"""Word vectors of several parsers as those of one, whose scores are their weighted sum.

Labels are compared for one arc: added to each is the difference from the best in the sum.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from gpuparse.data.vocabulary import Vocabularies
from gpuparse.errors import one_line
from gpuparse.features.templates import TemplateSet
from gpuparse.features.word_vectors import compile_vectors
from gpuparse.scorers.vectors.scorer import VectorScorer
from gpuparse.scorers.vectors.word_vectors import GROUP, KINDS, Addend, WordVectors, added


def difference(one: TemplateSet, other: TemplateSet, names: tuple[str, str]) -> str | None:
    """Why the word vectors of two parsers cannot be summed; None: they can, or one has none."""
    here, there = one.word_vectors, other.word_vectors
    if here is None or there is None:
        return None
    for some, others, name in (
        (here.templates, there.templates, names[0]),
        (there.templates, here.templates, names[1]),
    ):
        alone = [atom for atom in some if atom not in others]
        if alone:
            return one_line(f"template '{alone[0]}' of word vectors is in {name} alone")
    if here.templates != there.templates:
        return "the templates of word vectors are in another order"
    if here.distance != there.distance:
        return "word vectors have other distance buckets"
    if here.between != there.between:
        return "word vectors look at other fields of words in between"
    if bool(here.hidden) != bool(there.hidden):
        return "one has a hidden layer of word vectors, the other has none"
    return None


def common(templates: TemplateSet, given: Sequence[TemplateSet]) -> TemplateSet:
    """A set with the word vectors of the first of the given ones that has any."""
    section = next((each.word_vectors for each in given if each.word_vectors), None)
    return replace(templates, word_vectors=section)


def blended(
    given: Sequence[tuple[VectorScorer, tuple[float, float, np.ndarray]]],
    templates: TemplateSet,
    vocabularies: Vocabularies,
    points: tuple[float, float],
) -> tuple[TemplateSet, WordVectors]:
    """All networks as one, and the templates with its sizes.

    Args:
        given: scorers, each with the other fields of its `Addend`.
        templates: made by `common`. points: of the sum, for 1 of arc scores and of label scores.
    Raises: ConfigError, ScoreError: they are too large.
    """
    addends = [Addend(scorer.numbers, *values) for scorer, values in given]
    section = templates.word_vectors
    assert section is not None
    has_row = np.any([each.vectors.plan.has_row for each in addends], axis=0)
    plan = compile_vectors(section, vocabularies, has_row)
    vectors = added(addends, plan, arc_points=points[0], label_points=points[1])
    sizes = dict(zip(KINDS, vectors.sizes, strict=True))
    section = section.of_sizes(hidden=GROUP * len(vectors.heads), **sizes)
    return replace(templates, word_vectors=section), vectors
