"""Templates of three and four words compiled to integer tables.

The feature of a template for a part is a hash: the XOR of one number for each of the part's words,
which is hashed once a word from all that the template reads there. A part of four words costs three
XORs then, and one row of weights a template.
"""

from typing import NamedTuple

import numpy as np

from gpuparse.data.vocabulary import Vocabularies
from gpuparse.features.templates import CHILD_ROLES, LARGER_PARTS, PARTS, Atom, TemplateSet

SLOTS = 4  # most words of a part
CHILDREN = tuple(part for part in LARGER_PARTS if PARTS[part] == CHILD_ROLES)
RIGHT, BELOW = 0x5BD1E995, 0xB5297A4D  # into the hash: m stands to the right of h, h to that of g


class LargerPlan(NamedTuple):
    """Templates of larger parts as arrays: F templates, S sides, A atoms.

    A side is a sequence of atoms that are read of one word; templates share them.
    """

    family_start: np.ndarray  # (parts + 1,) int64: the templates of the k-th of LARGER_PARTS
    sides: np.ndarray  # (F, SLOTS) int64: the side that is read of each word of a part
    with_direction: np.ndarray  # (F,) bool
    side_start: np.ndarray  # (S + 1,) int64: side s has the atoms side_start[s]:side_start[s + 1]
    atoms: np.ndarray  # (A, 2) int64: row of the batch's values, words to the right
    only_last: bool  # whether parts with a grandparent are those of outermost modifiers alone


def compile_larger(
    templates: TemplateSet, vocabularies: Vocabularies, *, even_if_none: bool = False
) -> LargerPlan | None:
    """Compile the templates of larger parts of an expanded set.

    even_if_none: whether there is a plan without templates too, instead of None.
    """
    row = {field: row for row, field in enumerate(vocabularies.fields)}
    numbers: dict[tuple[tuple[int, int], ...], int] = {(): 0}
    sides, with_direction, starts = [], [], [0]

    def side(atoms: tuple[Atom, ...]) -> int:
        reads = tuple((row[atom.field], atom.offset) for atom in atoms)
        return numbers.setdefault(reads, len(numbers))

    for part in LARGER_PARTS:
        for template in getattr(templates, part):
            of_words = [side(template.of(role)) for role in PARTS[part]]
            sides.append(of_words + [0] * (SLOTS - len(of_words)))
            with_direction.append("direction" in template.suffix)
        starts.append(len(sides))
    if not sides and not even_if_none:
        return None
    atoms = [atom for reads in numbers for atom in reads]
    return LargerPlan(
        np.array(starts, np.int64),
        np.array(sides, np.int64).reshape(len(sides), SLOTS),
        np.array(with_direction, np.bool_),
        np.cumsum([0, *map(len, numbers)]),
        np.array(atoms, np.int64).reshape(len(atoms), 2),
        bool(templates.tri_sibling),
    )
