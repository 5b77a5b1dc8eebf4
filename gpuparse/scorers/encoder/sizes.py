"""The sizes of an encoder's heads."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Sizes:
    """The sizes of the layers that read hidden states.

    arcs, labels: of the vectors of heads and modifiers. n_labels: 0 for none. columns: of each
    column that is filled, how many values there are. tags: of each column that is read, how many.
    """

    arcs: int
    labels: int
    n_labels: int
    columns: Mapping[str, int]
    tags: Mapping[str, int]
