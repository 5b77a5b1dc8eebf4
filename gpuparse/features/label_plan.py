"""Label templates compiled to integer tables.

A label template looks at one arc of a finished tree and the words around it there; its key is a
hash of everything it looks at, and finds a line of weights, one weight a label.
"""

from typing import NamedTuple

import numpy as np

from gpuparse.data.vocabulary import Vocabularies
from gpuparse.features.plan import bucket_table
from gpuparse.features.templates import LABEL_ROLES, TemplateSet

NONE = -1  # position of a role that a tree does not fill
ABSENT = 3  # value read at such a position: that of the edge after the last word


class LabelPlan(NamedTuple):
    """Label templates as arrays: F templates, A atoms."""

    buckets: np.ndarray  # (L,) int64: bucket of distance d at d - 1, the last one for all beyond
    start: np.ndarray  # (F + 1,) int64: template f has atoms start[f]:start[f + 1]
    role: np.ndarray  # (A,) int64: index into LABEL_ROLES
    row: np.ndarray  # (A,) int64: row of the batch's values
    offset: np.ndarray  # (A,) int64: words to the right of the role's word
    direction: np.ndarray  # (F,) bool: whether the arc's direction takes part
    distance: np.ndarray  # (F,) bool: whether its distance bucket does


def compile_labels(templates: TemplateSet, vocabularies: Vocabularies) -> LabelPlan:
    """Compile the label templates of an expanded set."""
    row = {field: row for row, field in enumerate(vocabularies.fields)}
    atoms = [atom for template in templates.label for atom in template.atoms]
    counts = [len(template.atoms) for template in templates.label]
    return LabelPlan(
        bucket_table(templates.distance),
        np.cumsum([0, *counts]),
        np.array([LABEL_ROLES.index(atom.role) for atom in atoms], np.int64),
        np.array([row[atom.field] for atom in atoms], np.int64),
        np.array([atom.offset for atom in atoms], np.int64),
        np.array(["direction" in template.suffix for template in templates.label]),
        np.array(["distance" in template.suffix for template in templates.label]),
    )
