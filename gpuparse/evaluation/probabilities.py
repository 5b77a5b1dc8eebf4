"""The probabilities in MISC of a parsed file."""

from __future__ import annotations

import re

import numpy as np

from gpuparse.data.treebank import Treebank, word_place
from gpuparse.errors import DataError

HEAD, LABEL = "HeadProb", "LabelProb"

_MISC = 9
_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)?(?:[eE]-?[0-9]+)?")


def misc_probabilities(treebank: Treebank, key: str) -> np.ndarray:
    """Read one probability per word from MISC, as in `HeadProb=0.9871|LabelProb=0.9990`.

    Args:
        treebank: a parsed file.
        key: HEAD, the probability of the arc to the word's head; or LABEL, that of the word's
            relation, the head being given.
    Returns:
        (W,) float64 in 0..1; NaN where the word has no such key.
    Raises:
        DataError: a value that is no number from 0 to 1, or a key that a word has twice.
    Cost: O(W), some microseconds a word.
    """
    item = re.compile(rf"(?:^|\|){re.escape(key)}=([^|]*)")
    found = np.full(treebank.n_words, np.nan)
    for w in range(treebank.n_words):
        values = item.findall(treebank.column(w, _MISC))
        if not values:
            continue
        if len(values) > 1 or not _NUMBER.fullmatch(values[0]) or float(values[0]) > 1.0:
            said = f"{key} in MISC (column 10) is " + " and ".join(map(repr, values))
            raise DataError(f"{word_place(treebank, w)}{said}; expected one number from 0 to 1")
        found[w] = float(values[0])
    return found
