"""Words that are punctuation, for scores without punctuation."""

from __future__ import annotations

import unicodedata
from collections.abc import Collection

import numpy as np

from gpuparse.data.treebank import Treebank

_FORM, _COARSE_POS, _FINE_POS = 1, 3, 4


def punctuation_by_category(treebank: Treebank) -> np.ndarray:
    """Find the words whose form consists of punctuation.

    Args:
        treebank: the gold file.
    Returns:
        (W) bool, True where every character of FORM is in one of Unicode's P categories. Signs such
        as "$" and "+" are in its S categories and no punctuation.
    Cost: O(W).
    """
    known: dict[str, bool] = {}
    is_punctuation = np.zeros(treebank.n_words, bool)
    for w in range(treebank.n_words):
        form = treebank.column(w, _FORM)
        if form not in known:
            known[form] = all(unicodedata.category(character)[0] == "P" for character in form)
        is_punctuation[w] = known[form]
    return is_punctuation


def punctuation_by_tag(treebank: Treebank, tags: Collection[str]) -> np.ndarray:
    """Find the words with one of the given part-of-speech tags.

    Args:
        treebank: the gold file.
        tags: tags of punctuation, coarse or fine (columns 4 and 5 of the file, counted from 1).
    Returns:
        (W) bool, True where either column is one of the tags.
    Cost: O(W).
    """
    wanted = frozenset(tags)
    is_punctuation = np.zeros(treebank.n_words, bool)
    for w in range(treebank.n_words):
        is_punctuation[w] = (
            treebank.column(w, _COARSE_POS) in wanted or treebank.column(w, _FINE_POS) in wanted
        )
    return is_punctuation
