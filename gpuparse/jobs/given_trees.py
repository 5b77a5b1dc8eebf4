"""Trees that a caller gives for the sentences of a treebank, such as those of another parser."""

from collections.abc import Iterable
from dataclasses import replace
from operator import index
from typing import Any

import numpy as np

from gpuparse.data.scanner import NO_HEAD
from gpuparse.data.treebank import Treebank, word_place
from gpuparse.data.trees import check_trees
from gpuparse.errors import DataError, plural
from gpuparse.evaluation.treebanks import require_none
from gpuparse.model.parser import Predictions

_MOST = np.iinfo(np.int32).max


def given_trees(
    treebank: Treebank, counts: np.ndarray, heads: Any, deprels: Any
) -> tuple[Predictions, list[bytes]]:
    """Heads and relations as if a parser had found them, and the names of the relations.

    Args:
        treebank: the sentences that have words.
        counts: (S,) words of all sentences.
        heads, deprels: see `gpuparse.Parsed.with_heads`.
    Raises: DataError: they do not fit the sentences, or are no trees.
    """
    numbers: list[int] = []
    for n, where, row in _rows(treebank, counts, "heads", heads):
        if len(row) > n and [row[0], *row[n + 1 :]] == [NO_HEAD] * (len(row) - n):
            row = row[1 : n + 1]
        if len(row) != n:
            raise DataError(
                f"{where}{plural(len(row), 'head')} for {plural(n, 'word')}; give one for each"
                f" word, or a row as gpuparse.inference has it, with {NO_HEAD} at position 0 and in"
                " padding"
            )
        try:
            numbers += [min(max(index(head), NO_HEAD), _MOST) for head in row]
        except TypeError as error:
            raise DataError(f"{where}heads must be whole numbers, but are {row!r:.60}") from error
    found = np.array(numbers, np.int32)
    require_none(check_trees(replace(treebank, heads=found)))
    if deprels is None:
        return Predictions(heads=found, labels=np.full_like(found, -1)), []
    names: dict[str, int] = {}
    labels: list[int] = []
    for n, where, row in _rows(treebank, counts, "deprels", deprels):
        if len(row) != n:
            raise DataError(f"{where}{plural(len(row), 'relation')} for {plural(n, 'word')}")
        for name in row:
            if not isinstance(name, str) or not name or {*name} & {*"\t\r\n"}:
                raise DataError(f"{where}expected the name of a relation, not {name!r:.60}")
            labels.append(names.setdefault(name, len(names)))
    predictions = Predictions(heads=found, labels=np.array(labels, np.int32))
    return predictions, [name.encode() for name in names]


def _rows(
    treebank: Treebank, counts: np.ndarray, name: str, values: Any
) -> Iterable[tuple[int, str, list[Any]]]:
    """Number of words, beginning of messages, and values of each sentence."""
    rows = _listed(values, name)
    if len(rows) != len(counts):
        raise DataError(
            f"{name}: given for {plural(len(rows), 'sentence')}, but there are {len(counts):,}"
        )
    word = 0
    for s, (n, row) in enumerate(zip(counts.tolist(), rows, strict=True)):
        where = word_place(treebank, word) if n else f"sentence {s}: "
        yield n, where, _listed(row, f"{where}{name}")
        word += n


def _listed(values: Any, name: str) -> list[Any]:
    """The elements of a list, an array or a tensor on any device."""
    if hasattr(values, "tolist"):
        values = values.tolist()
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise DataError(f"{name}: expected a list, an array or a tensor, not {values!r:.60}")
    return list(values)
