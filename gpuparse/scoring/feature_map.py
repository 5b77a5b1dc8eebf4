"""From keys to weight rows: a table of fixed size for hashed features, then a dense region."""

from typing import NamedTuple

from gpuparse.errors import ConfigError
from gpuparse.features.plan import LINE

WORD = 0xFFFFFFFF  # the bits of a key


class RowMap(NamedTuple):
    """From keys to base rows.

    `mask` has the bits of a key that count. The row is the key itself where the number of rows is a
    power of two, else the key chooses a line of the table by multiplication.
    """

    rows: int  # of the table, a multiple of LINE
    is_power: bool  # whether that is a power of two
    mask: int
    dense: int  # first row of the dense region


class FeatureMap(NamedTuple):
    """A row map, and the number of weight rows that it and the dense region need."""

    rows: RowMap
    n_rows: int


def hashed_map(n_rows: int, dense_lines: int) -> FeatureMap:
    """A table of fixed size; the last n_rows % LINE rows stay unused.

    Raises:
        ConfigError: fewer rows than one line.
    """
    if n_rows < LINE:
        raise ConfigError(f"feature_map.rows: {n_rows} is too few, at least {LINE} are needed")
    table = n_rows // LINE * LINE
    is_power = table & (table - 1) == 0
    rows = RowMap(table, is_power, table - 1 if is_power else WORD, table)
    return FeatureMap(rows, table + dense_lines * LINE)
