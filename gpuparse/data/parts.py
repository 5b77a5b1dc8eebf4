"""The part kinds of the model: the one table of all parts of a tree that can be scored.

A part is an arc, perhaps with more words around it. Its kind says which words it has, in which
roles; templates (`gpuparse.features.templates`), plans, scorers, decoders, learning and checks take
the kinds from here. Numbers of kinds in native code (native/part_kinds.h, native/part_list.h)
follow the order here.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class PartKind:
    """One kind of parts.

    name: as sets of templates name it.
    roles: the words of a part, in the order in which plans and native code list them.
    axes: the words of the axes of its dense scores, in their order; without a label. A word in
        `absent` that a part lacks has the index of the word named there.
    absent: roles that a part may lack, and whose index stands for the missing word in scores.
        Templates read the root there, beside which there is no word.
    takes_distance: whether its templates may have the suffix `distance`.
    is_guide: whether it is an arc that another parser proposes.
    is_label: whether it is an arc of a finished tree; templates read the words around it there.
    """

    name: str
    roles: tuple[str, ...]
    axes: tuple[str, ...]
    absent: tuple[tuple[str, str], ...] = ()
    takes_distance: bool = False
    is_guide: bool = False
    is_label: bool = False

    @property
    def is_higher_order(self) -> bool:
        """True if its features are found by hash alone, of any three or four words."""
        return not (self.takes_distance or self.is_label)


PART_KINDS = (
    PartKind("arc", ("h", "m"), ("h", "m"), takes_distance=True),
    # The modifier m of h with the inner sibling s.
    PartKind("sibling", ("h", "s", "m"), ("h", "m", "s"), (("s", "h"),), takes_distance=True),
    # The outermost modifier e of h on a side.
    PartKind("end", ("h", "e"), ("h", "e"), (("e", "h"),), takes_distance=True),
    PartKind("guide", ("h", "m"), ("h", "m"), takes_distance=True, is_guide=True),
    PartKind(
        "label",
        ("h", "m", "g", "p", "q", "l", "r", "o"),
        ("h", "m"),
        takes_distance=True,
        is_label=True,
    ),
    # The arc from h to m and g, the head of h.
    PartKind("grandparent", ("g", "h", "m"), ("h", "m", "g")),
    # The same with the inner sibling s of m.
    PartKind("grand_sibling", ("g", "h", "s", "m"), ("h", "m", "s", "g"), (("s", "h"),)),
    # Three successive modifiers of h on one side.
    PartKind("tri_sibling", ("h", "t", "s", "m"), ("h", "m", "s", "t"), (("s", "h"), ("t", "h"))),
    # The arc from h to m and the modifier of h just inside m.
    PartKind("head_child", ("h", "m", "c"), ("h", "m", "c"), (("c", "h"),)),
    # The arc and the modifier of m furthest from it, between h and m.
    PartKind("inner_grandchild", ("h", "m", "c"), ("h", "m", "c"), (("c", "m"),)),
    # The same beyond m.
    PartKind("outer_grandchild", ("h", "m", "c"), ("h", "m", "c"), (("c", "m"),)),
)
BY_NAME = {kind.name: kind for kind in PART_KINDS}
HIGHER_ORDER = tuple(kind for kind in PART_KINDS if kind.is_higher_order)
CHILDREN = tuple(kind.name for kind in HIGHER_ORDER if "c" in kind.roles)
"""Kinds of an arc with a child, which may have labels found with the tree."""
MOST_WORDS = max(len(kind.roles) for kind in HIGHER_ORDER)


def axes_of(field: str) -> tuple[str, ...]:
    """The axes of the dense scores of a field of `Scores`; outermost parts are grand-siblings."""
    return BY_NAME["grand_sibling" if field == "outermost" else field].axes
