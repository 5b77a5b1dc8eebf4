"""What is wrong with a tree, or with an item of DEPS: the codes that native code gives."""

from enum import IntEnum


class TreeFault(IntEnum):
    """The first fault of a sentence's heads, as in native/trees.h."""

    WELL_FORMED = 0
    MISSING_HEAD = 1
    NO_NUMBER = 2
    OUT_OF_RANGE = 3
    SELF_HEAD = 4
    CYCLE = 5
    SEVERAL_ROOTS = 6


class DepsFault(IntEnum):
    """What is wrong with an item of DEPS, as in native/conll_columns.h."""

    NONE = 0
    NO_COLON = 1
    NO_NUMBER = 2
    NO_RELATION = 3
    OUT_OF_RANGE = 4
    OWN_HEAD = 5
