"""The weight rows of single parts of a sentence, a place for each template, from native code."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from gpuparse import native
from gpuparse.data.batch import Batch
from gpuparse.data.parts import HIGHER_ORDER
from gpuparse.scorers.native import sentences_of

LISTED_KINDS = ("arc", "label", "sibling", "right_end", "left_end")
"""Before the kinds of higher order, and these with a label, in the order of native/part_list.h."""
ABSENT_WORD = 0  # stands for a word that a part does not have


class ListedPart(NamedTuple):
    """A part as `Part` of native/part_list.h has it; kind: of `listed_number`."""

    kind: int
    h: int
    m: int
    third: int = 0
    fourth: int = 0
    label: int = 0


def listed_number(name: str, *, has_label: bool = False) -> int:
    """The number of a kind of listed parts.

    name: of `LISTED_KINDS` or of a kind of higher order, which may have labels.
    """
    if name in LISTED_KINDS:
        return LISTED_KINDS.index(name)
    number = [kind.name for kind in HIGHER_ORDER].index(name)
    return len(LISTED_KINDS) + number + (len(HIGHER_ORDER) if has_label else 0)


def list_part_rows(
    batch: Batch, scorer: native.Struct, parts: Sequence[ListedPart]
) -> np.ndarray:  # fmt: skip
    """The rows of parts of one sentence.

    Args:
        batch: of the sentence. scorer: of `make_scorer`; its weights are not read.
        parts: P of them.
    Returns: (P, R) int64: rows in the order of the templates, see `gpuparse.features.plan`
        (`templates_of_rows` and others); -1 for a template that does not fire, and at the end.
        Weights of labels are counted on, behind the other weights, line by line.
    """
    listed = np.array(parts, np.int64).reshape(len(parts), 6)
    call = "list_part_rows", sentences_of(batch), scorer, listed
    rows = np.zeros((len(parts), native.call(*call, np.zeros((len(parts), 0), np.int64))), np.int64)
    native.call(*call, rows)
    return rows
