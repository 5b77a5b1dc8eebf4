"""Copying a treebank's bytes with HEAD and DEPREL exchanged: the compiled half of the writer."""

import numpy as np

from gpuparse.compiled import compiled
from gpuparse.data.scanner import DEPREL, HEAD, NO_HEAD, UNDERSCORE, ZERO

LONGEST_HEAD = 10  # digits of the largest int32


@compiled
def copy_bytes(data: np.ndarray, start: int, end: int, out: np.ndarray, at: int) -> int:
    """out[at:] = data[start:end]; returns the place after it."""
    size = end - start
    source, target = data[start:end], out[at : at + size]
    for i in range(size):
        target[i] = source[i]
    return at + size


@compiled
def write_head(head: int, out: np.ndarray, at: int) -> int:
    """Writes a head as a number, NO_HEAD as `_`; returns the place after it."""
    if head == NO_HEAD:
        out[at] = UNDERSCORE
        return at + 1
    n_digits, rest = 1, head // 10
    while rest > 0:
        n_digits += 1
        rest //= 10
    rest = head
    for k in range(n_digits - 1, -1, -1):
        out[at + k] = ZERO + rest % 10
        rest //= 10
    return at + n_digits


@compiled
def replace_columns(
    data: np.ndarray,
    columns: np.ndarray,
    dropped: np.ndarray,
    heads: np.ndarray,
    names: np.ndarray,
    name_ends: np.ndarray,
    label_ids: np.ndarray,
    with_labels: bool,
) -> np.ndarray:
    """The bytes with each word's HEAD and, when with_labels, DEPREL replaced.

    Args:
        dropped: (F, 2) spans to leave out, in order and apart from all words.
        heads: (W,); NO_HEAD writes `_`, anything below leaves the column as it is.
        names, name_ends: relation r is names[name_ends[r] : name_ends[r + 1]].
        label_ids: (W,) relation of each word.
    """
    longest = LONGEST_HEAD
    if with_labels:
        for r in range(len(name_ends) - 1):
            longest = max(longest, LONGEST_HEAD + name_ends[r + 1] - name_ends[r])
    out = np.empty(len(data) + len(columns) * longest, np.uint8)
    done, at, span = 0, 0, 0  # bytes read, bytes written, spans passed
    for word in range(len(columns)):
        while span < len(dropped) and dropped[span, 0] < columns[word, 0]:
            at = copy_bytes(data, done, dropped[span, 0], out, at)
            done = dropped[span, 1]
            span += 1
        if heads[word] >= NO_HEAD:
            at = copy_bytes(data, done, columns[word, HEAD], out, at)
            at = write_head(heads[word], out, at)
            done = columns[word, HEAD + 1] - 1
        if with_labels:
            at = copy_bytes(data, done, columns[word, DEPREL], out, at)
            label = label_ids[word]
            at = copy_bytes(names, name_ends[label], name_ends[label + 1], out, at)
            done = columns[word, DEPREL + 1] - 1
    while span < len(dropped):
        at = copy_bytes(data, done, dropped[span, 0], out, at)
        done = dropped[span, 1]
        span += 1
    at = copy_bytes(data, done, len(data), out, at)
    return out[:at]
