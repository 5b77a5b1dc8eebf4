"""Learning of a network that scores tags: float32 weights by Adam, then in whole numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from gpuparse import native
from gpuparse.scorers.whole_numbers import fraction
from gpuparse.text.sequences.learner import Watch
from gpuparse.text.sequences.model import Output, Sequences
from gpuparse.text.sequences.tags import PART_BLOCK, TagTable
from gpuparse.text.sequences.templates import AFTER
from gpuparse.text.tagging.fields import (
    N_EDGES,
    SeenTags,
    WordFields,
    Words,
    known_forms,
    value_of,
)
from gpuparse.text.tagging.network import (
    FIELDS,
    LARGEST,
    MOST_CONSTANT,
    MOST_SHIFT,
    NGRAMS,
    NetworkArrays,
    TagNetwork,
    bases_of,
    keys_of,
    mixed,
    runs_of,
)

_SIZES = 3, 64, 256  # words to either side, numbers of a vector, hidden numbers
_BATCH = 24  # sentences
_CHUNK = 20  # batches between two reports of progress
_RATE, _FIRST_DECAY, _SECOND_DECAY = 2e-3, 0.9, 0.99
_DROPOUT = 0.4
_RARE = 0.25  # a row of a form with n words is left out with the probability RARE / (RARE + n)
_LEAST_COUNT, _ROW_SHARE = 3, 20_000  # words of a row: the larger of 3 and of 1 in 20,000
_LEAST_EPOCHS, _MOST_EPOCHS, _WORDS = 8, 60, 2_000_000  # words of all epochs, if they are enough
_OF_FOLD, _LEAST_OF_FOLD = 4, 5  # the part of these epochs, and the least, of a fold's tagger
_WEIGHT = 0.2  # of the logarithms of its probabilities beside scores of templates as learned
_LARGE, _MOST_TIMES = 160_000, 2.0  # words; of smaller treebanks it has more weight, up to twice
_PERCENTILE = 99.9  # of numbers that are cut at the end of their range
_INITIAL = 7  # what initial weights and orders are drawn for
_OF_FORMS = 2  # fields, the first ones, that tell forms apart
_MOST_POSITIONS = 4_000  # that ranges are chosen by
_FINE, _LEAST_WEIGHT = 32767, 1e-9


class TagTask(NamedTuple):
    """The tags of one model, and those of the training words: candidates of `sequences`.

    scale: of the model, as learned.
    """

    scale: float
    table: TagTable
    sequences: Sequences
    gold: np.ndarray


class _Steps(NamedTuple):
    """VectorStep of native/api/vectors.h."""

    rate: float
    first_decay: float
    second_decay: float
    steps: int


class _Learning(NamedTuple):
    """TagLearning of native/api/tagging.h."""

    reach: int
    hidden: int
    batch: int
    dropout: float
    seed: int
    all_steps: int


class _Lesson(NamedTuple):
    """TagLesson of native/api/tagging.h."""

    starts: np.ndarray
    forms: np.ndarray
    places: np.ndarray
    row_starts: np.ndarray
    rows: np.ndarray
    dropped: np.ndarray


class _Task(NamedTuple):
    """TagTask of native/api/tagging.h."""

    tag_starts: np.ndarray
    tag_parts: np.ndarray
    candidate_starts: np.ndarray
    candidates: np.ndarray
    gold: np.ndarray


_NO_TASK = _Task(
    np.zeros(1, np.int64), np.empty(0, np.int32), np.zeros(1, np.int64), np.empty(0, np.int32),
    np.empty(0, np.int32),
)  # fmt: skip


class _Weights:
    """As learned.

    table: (R, D). dense: window (O, D, H), bias (H,), of each task rows (parts, H) and constants
    (parts,), one after the other.
    """

    def __init__(self, n_rows: int, parts: Sequence[int], sizes: tuple[int, int, int]) -> None:
        reach, size, hidden = sizes
        self.table = np.zeros((n_rows, size), np.float32)
        shapes: list[tuple[int, ...]] = [(2 * reach + 1, size, hidden), (hidden,)]
        for count in parts:
            shapes += [(count, hidden), (count,)]
        ends = np.cumsum([int(np.prod(shape)) for shape in shapes])
        self.dense = np.zeros(ends[-1], np.float32)
        views = np.split(self.dense, ends[:-1])
        found = [view.reshape(shape) for view, shape in zip(views, shapes, strict=True)]
        self.window, self.bias = found[:2]
        self.rows, self.constants = found[2::2], found[3::2]

    @property
    def sizes(self) -> tuple[int, int, int]:
        """As `TagNetwork.sizes`."""
        offsets, size, hidden = self.window.shape
        return offsets // 2, size, hidden

    def draw(self, random: np.random.Generator) -> None:
        """Begin with random numbers."""
        offsets, size, hidden = self.window.shape
        self.table[:] = _drawn(random, self.table.shape, 0.1)
        self.window[:] = _drawn(random, self.window.shape, (3 * offsets * size) ** -0.5)
        for rows in self.rows:
            rows[:] = _drawn(random, rows.shape, (3 * hidden) ** -0.5)


def _merged(networks: Sequence[_Weights]) -> _Weights:
    """One network of the numbers of several, in blocks; its scores are the mean of theirs."""
    n, (reach, size, hidden) = len(networks), networks[0].sizes
    parts = [len(rows) for rows in networks[0].rows]
    found = _Weights(len(networks[0].table), parts, (reach, n * size, n * hidden))
    for k, network in enumerate(networks):
        own, units = slice(k * size, (k + 1) * size), slice(k * hidden, (k + 1) * hidden)
        found.table[:, own] = network.table
        found.window[:, own, units] = network.window
        found.bias[units] = network.bias
        for i in range(len(parts)):
            found.rows[i][:, units] = network.rows[i] / n
            found.constants[i] += network.constants[i] / n
    return found


def _drawn(random: np.random.Generator, shape: tuple[int, ...], deviation: float) -> np.ndarray:
    numbers = random.random(shape, np.float32)
    numbers -= np.float32(0.5)
    numbers *= np.float32(12**0.5 * deviation)
    return numbers


def epochs_of(n_words: int, *, of_fold: bool = False) -> int:
    """Passes over a treebank of some words, more of small ones; fewer for the tagger of a fold."""
    found = min(max(_WORDS // max(n_words, 1), _LEAST_EPOCHS), _MOST_EPOCHS)
    return max(found // _OF_FOLD, _LEAST_OF_FOLD) if of_fold else found


def learn_network(
    words: Words,
    of_words: SeenTags,
    seen: np.ndarray,
    tasks: Mapping[str, TagTask],
    *,
    networks: int,
    epochs: int,
    seed: int,
    watch: Watch,
) -> TagNetwork:
    """Learn a network for the models of a tagger.

    Args:
        words: of training. of_words: what the field `seen` reads; seen: its values of these words.
        tasks: of the models, one or two.
        networks: learned one after the other; scores are the mean of theirs.
        epochs: passes over all sentences.
        watch: called with the share that is done, and the share of wrong tags in the epoch.
    Cost: 10 to 15 microseconds per word, epoch and network, more where words have many candidates.
    """
    lesson, keys = _lesson(words, of_words, seen)
    parts = [int(task.table.tag_parts.max()) + 1 for task in tasks.values()]

    def learned(number: int) -> _Weights:
        seeds = np.random.SeedSequence([seed, _INITIAL, number])
        random = np.random.Generator(np.random.PCG64(seeds))
        weights = _Weights(len(keys) + N_EDGES, parts, _SIZES)
        weights.draw(random)
        name = f"network {number + 1} of {networks}" if networks > 1 else "network"
        _learn(
            weights, lesson, tasks, epochs, random, seed + number,
            lambda done, note: watch((number + done) / networks, f"{name}, {note}"),
        )  # fmt: skip
        return weights

    found = _merged([learned(number) for number in range(networks)])
    weight = _WEIGHT * min(max(_LARGE / len(words.ids), 1.0), _MOST_TIMES)
    factors = {name: weight / task.scale for name, task in tasks.items()}
    return _frozen(found, keys, lesson, factors)


def _learn(
    weights: _Weights, lesson: _Lesson, tasks: Mapping[str, TagTask], epochs: int,
    random: np.random.Generator, seed: int, watch: Watch,
) -> None:  # fmt: skip
    """Learn one network. Args: random: of orders. seed: of dropped numbers."""
    given = [
        _Task(
            task.table.tag_starts, task.table.tag_parts, task.sequences.candidate_starts,
            task.sequences.candidates, task.gold,
        ) for task in tasks.values()
    ]  # fmt: skip
    given += [_NO_TASK] * (2 - len(given))
    moments = [np.zeros((2, *each.shape), np.float32) for each in (weights.table, weights.dense)]
    n = len(lesson.starts) - 1
    all_steps = epochs * -(-n // _BATCH)
    reach, _, hidden = weights.sizes
    learning = _Learning(reach, hidden, _BATCH, _DROPOUT, seed, all_steps)
    structs = [
        native.struct("TagLesson", lesson),
        *(native.struct("TagTask", each) for each in given),
        native.struct("TagLearning", learning),
    ]
    steps = 0
    for epoch in range(epochs):
        order, counts = random.permutation(n), np.zeros(3)
        for at in range(0, n, _BATCH * _CHUNK):
            some = np.ascontiguousarray(order[at : at + _BATCH * _CHUNK])
            step = _Steps(_RATE, _FIRST_DECAY, _SECOND_DECAY, steps)
            native.call(
                "learn_tag_network", *structs, step, some, weights.table, weights.dense, *moments,
                counts,
            )  # fmt: skip
            steps += -(-len(some) // _BATCH)
            wrong = 100 * counts[2] / max(counts[1], 1)
            watch(
                (epoch + (at + len(some)) / n) / epochs,
                f"epoch {epoch + 1} of {epochs}, {wrong:.2f} % of open words wrong",
            )


def _lesson(words: Words, of_words: SeenTags, seen: np.ndarray) -> tuple[_Lesson, np.ndarray]:
    """The data learned from, and the keys of rows behind those of the edges of sentences.

    A form is a word with what was seen with it elsewhere; the first two are the edges.
    """
    fields = WordFields(FIELDS, ["seen"], known_forms(FIELDS, of_words))
    values, places = fields.read_values(words, seen[None])
    numbers_at = (values[0] == AFTER).astype(np.int64)  # 0 before a sentence, 1 behind it
    numbers_at[places] = words.ids + N_EDGES
    both = numbers_at << 32 | values[FIELDS.index("seen")]
    _, firsts, forms = np.unique(both, return_index=True, return_inverse=True)
    rows = numbers_at[firsts[N_EDGES:]] - N_EDGES
    lowers = "\n".join(words.forms[row] for row in rows.tolist()).lower()
    of_forms = np.ascontiguousarray(values[:, firsts[N_EDGES:]].T)
    owners, found = keys_of(of_forms, lowers, FIELDS, NGRAMS)
    counts = np.bincount(forms[places], minlength=len(firsts))[N_EDGES:]
    distinct, numbers = np.unique(found, return_inverse=True)
    n_words = np.bincount(numbers, weights=counts[owners])
    keys = distinct[n_words >= max(_LEAST_COUNT, len(words.ids) // _ROW_SHARE)]
    row_of = keys.searchsorted(distinct)
    is_row = np.isin(distinct, keys)
    kept = is_row[numbers]
    starts = np.arange(len(firsts) + 1)
    starts[N_EDGES + 1 :] = N_EDGES + np.bincount(owners[kept], minlength=len(rows)).cumsum()
    of_rows = np.concatenate([np.arange(N_EDGES), row_of[numbers[kept]] + N_EDGES])
    is_form = np.isin(
        distinct,
        [mixed(of_forms[:, k], np.uint32(value_of(FIELDS[k]))) for k in range(_OF_FORMS)],
    )
    dropped = np.zeros(len(keys) + N_EDGES, np.float32)
    some = is_form & is_row
    dropped[row_of[some] + N_EDGES] = _RARE / (_RARE + n_words[some])
    return _Lesson(
        words.starts, forms.astype(np.int64), places, starts,
        of_rows.astype(np.int32), dropped,
    ), keys  # fmt: skip


def _frozen(
    weights: _Weights, keys: np.ndarray, lesson: _Lesson, factors: Mapping[str, float]
) -> TagNetwork:
    """Learned weights as whole numbers: ranges are those of most numbers of the training words.

    Sums are taken in one order, or are of whole numbers: the result is the same on every machine.
    """
    table, window = weights.table, weights.window
    vectors = _vectors(table, lesson)
    unit = _largest(vectors) / LARGEST["vector"]  # of a number of a vector
    most = np.abs(table).max(1)
    room = unit * LARGEST["weight"] * LARGEST["scale"] / float(most.max())
    vector_shift = min(max(int(_floor_log2(room)), 0), MOST_SHIFT)
    of_table = unit / 2.0**vector_shift
    row_scales = np.ceil(most / (LARGEST["weight"] * of_table)).clip(1, LARGEST["scale"])
    whole_table = _whole(table / (row_scales[:, None] * of_table), LARGEST["weight"])
    # Hidden numbers, each in a unit of its own.
    largest = np.abs(window).max((0, 1)).clip(_LEAST_WEIGHT)
    of_words = largest / _FINE  # of a finer window, whose products with vectors are exact
    fine = np.rint(window.astype(np.float64) / of_words)
    near = _whole(vectors / unit, LARGEST["vector"]).astype(np.float64)
    some = lesson.places[:: max(1, len(lesson.places) // _MOST_POSITIONS)]
    sums = np.repeat(np.rint(weights.bias / (of_words * unit))[None], len(some), 0)
    reach = np.zeros(len(weights.bias))
    for o, matrix in enumerate(fine):
        shares = near[lesson.forms[some + o - len(window) // 2]] @ matrix
        sums += shares
        reach = np.maximum(reach, np.abs(shares).max(0))
    ranges = np.array([_largest(each.clip(0)) for each in sums.T]) * (of_words * unit)
    hidden_units = ranges / LARGEST["hidden"]
    shifts = _floor_log2(hidden_units * LARGEST["weight"] / (unit * largest)).clip(0, MOST_SHIFT)
    of_window = hidden_units / (unit * 2.0**shifts)
    whole_window = _whole(window / of_window, LARGEST["weight"])
    reach *= of_words * unit / hidden_units * 2.0**shifts
    needed = int(_floor_log2(reach / LARGEST["share"]).max()) + 1
    window_shift = min(max(needed, 0), int(shifts.min()))
    hidden_shifts = (shifts - window_shift).astype(np.int32)
    bias = np.rint(weights.bias / hidden_units * 2.0**hidden_shifts)
    by_four = whole_window.reshape(len(window), -1, 4, len(weights.bias))
    grouped = np.ascontiguousarray(by_four.transpose(0, 1, 3, 2))
    arrays = NetworkArrays(
        whole_table, row_scales.astype(np.uint8), vector_shift, grouped, bases_of(grouped),
        runs_of(grouped), window_shift,
        bias.clip(-MOST_CONSTANT, MOST_CONSTANT).astype(np.int32), hidden_shifts,
    )  # fmt: skip
    outputs = {}
    for name, rows, constants in zip(factors, weights.rows, weights.constants, strict=True):
        scaled = rows * hidden_units
        of_rows = float(np.abs(scaled).max(initial=0)) / LARGEST["weight"] or 1.0
        missing = -len(rows) % PART_BLOCK
        whole = np.pad(_whole(scaled / of_rows, LARGEST["weight"]), ((0, missing), (0, 0)))
        rounded = np.rint(constants / of_rows).clip(-MOST_CONSTANT, MOST_CONSTANT)
        factor = fraction(of_rows * factors[name])
        outputs[name] = Output(
            whole, np.pad(rounded.astype(np.int32), (0, missing)), *factor, of_rows
        )
    return TagNetwork(keys, arrays, outputs, unit, hidden_units.astype(np.float32), FIELDS, NGRAMS)


def _vectors(table: np.ndarray, lesson: _Lesson) -> np.ndarray:
    """The sums of the rows of all forms, (F, D), one row after the other."""
    starts, counts = lesson.row_starts[:-1], np.diff(lesson.row_starts)
    found = np.zeros((len(starts), table.shape[1]), np.float32)
    for k in range(int(counts.max(initial=0))):
        has_row = counts > k
        found[has_row] += table[lesson.rows[starts[has_row] + k]]
    return found


def _floor_log2(numbers: np.ndarray | float) -> np.ndarray:
    """The largest e with 2^e not above each number."""
    return np.frexp(numbers)[1].astype(np.int64) - 1


def _largest(numbers: np.ndarray) -> float:
    """The end of the range that most numbers have."""
    return float(np.percentile(np.abs(numbers), _PERCENTILE)) or 1.0


def _whole(numbers: np.ndarray, most: int) -> np.ndarray:
    return np.rint(numbers).clip(-most, most).astype(np.int8)
