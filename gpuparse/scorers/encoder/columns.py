"""The columns of tags that an encoder fills, and their values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gpuparse.data.columns import FEATS, UPOS, XPOS
from gpuparse.data.tag_columns import Column, read_column, require_values
from gpuparse.data.treebank import Treebank

NUMBERS = {"upos": UPOS, "xpos": XPOS, "feats": FEATS}
NOTHING = -1  # of words that nothing is learned from


@dataclass(frozen=True, eq=False)
class Values:
    """The values of each column that is filled, by its key in NUMBERS."""

    texts: Mapping[str, Sequence[str]]

    @property
    def parts(self) -> dict[str, np.ndarray]:
        """The attributes of values of FEATS: (n, attributes) booleans."""
        if "feats" not in self.texts:
            return {}
        has = [set(text.split("|")) - {"_"} for text in self.texts["feats"]]
        names = sorted(set().union(*has))
        return {"feats": np.array([[name in each for name in names] for each in has], np.bool_)}

    @property
    def sizes(self) -> dict[str, int]:
        """The number of values of each column."""
        return {name: len(texts) for name, texts in self.texts.items()}

    @property
    def columns(self) -> tuple[int, ...]:
        """The numbers of the columns that are filled."""
        return tuple(sorted(NUMBERS[name] for name in self.texts))

    def tags(self, best: Mapping[str, np.ndarray]) -> dict[int, Column]:
        """UPOS, XPOS and FEATS of words; best: (W,) the number of each value."""
        return {
            NUMBERS[name]: Column(self.texts[name], best[name].astype(np.int32)) for name in best
        }


def learned_values(
    treebank: Treebank, names: Sequence[str]
) -> tuple[Values, dict[str, np.ndarray]]:
    """The values of the columns of a treebank, and the (W,) numbers of its words, or NOTHING.

    A column that is `_` in all words is left out.

    Raises: DataError: a text that no model may write.
    """
    texts: dict[str, list[str]] = {}
    gold: dict[str, np.ndarray] = {}
    for name in names:
        column = read_column(treebank, NUMBERS[name])
        if set(column.names) <= {"_"}:
            continue
        require_values(treebank, name.upper(), column.names)
        texts[name], gold[name] = list(column.names), column.ids.astype(np.int64)
        if name == "upos" and "_" in column.names:
            gold[name][column.ids == column.names.index("_")] = NOTHING
    return Values(texts), gold
