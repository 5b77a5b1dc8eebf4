"""The definition of native/sequences.cpp in plain Python, position by position."""

import itertools
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from math import exp, inf, log1p
from typing import Any

import numpy as np

_CONTEXT_PARTS = 3
_BLOCK = 8  # parts whose weights for a feature follow each other
_WORD = 0xFFFFFFFF
_MOST_OUTPUT = (1 << 28) - 1


class Model:
    """A model with numbers of Python."""

    def __init__(self, model: Any) -> None:
        self.weights = model.weights
        self.is_whole = model.weights.dtype == np.int16
        self.mask = len(model.weights) - _BLOCK
        self.known = model.known
        self.blocks = model.blocks.tolist()
        starts, parts = model.tag_starts.tolist(), model.tag_parts.tolist()
        self.of_tags = [parts[a:b] for a, b in itertools.pairwise(starts)]
        self.coarse = model.coarse_starts.tolist()
        coarse = np.repeat(np.arange(len(self.coarse) - 1), np.diff(self.coarse))
        self.class_of = [[], coarse.tolist(), list(range(len(self.of_tags)))]
        self.contexts = model.contexts.tolist()
        self.beam = model.beam.tolist()
        self.outputs = model.outputs.astype(np.int64)
        self.constants = model.output_constants.tolist()
        self.multiplier, self.shift = int(model.output_multiplier), int(model.output_shift)

    def index(self, key: int, part: int) -> int:
        """Where the weight of a feature with a part of a tag is."""
        return ((key ^ self.blocks[part // _BLOCK]) & self.mask) + part % _BLOCK

    def weight(self, key: int, part: int) -> float:
        weight = self.weights[self.index(key, part)]
        return int(weight) if self.is_whole else float(weight)

    def is_present(self, feature: int) -> bool:
        return bool(feature and int(self.known[feature >> 13]) >> ((feature >> 8) & 31) & 1)


def _mixed(key: int, value: int) -> int:
    key ^= (value + 0x9E3779B9 + (key << 6) + (key >> 2)) & _WORD
    key = key * 0x85EBCA6B & _WORD
    return key ^ key >> 15


class Lattice:
    """The candidates of one sequence with their scores."""

    def __init__(
        self,
        model: Model,
        batch: Any,
        s: int,
        gold: Any = None,
        cost: float = 0,
        margin: float = inf,
    ) -> None:
        self.model = model
        start, end = int(batch.starts[s]), int(batch.starts[s + 1])
        self.n = end - start
        self.rows = batch.features[start:end].tolist()
        self.hidden = batch.hidden[start:end].astype(np.int64)
        self.present = [[f for f in row if model.is_present(f)] for row in self.rows]
        self.tags: list[list[int]] = []
        self.scores: list[list[float]] = []
        for t in range(self.n):
            first, last = (int(batch.candidate_starts[start + t + i]) for i in (0, 1))
            given = batch.candidates[first:last].tolist()
            right = None if gold is None else int(gold[start + t])
            if len(given) == 1 and right in (None, given[0]):
                self.tags.append(given)
                self.scores.append([0])
                continue
            if given:
                tags = _best(given, partial(self.tag_score, t), model.beam[1])
            else:
                tags = self._ranked(t)
            if right is not None and right not in tags:
                tags.append(right)
            least = max(self.tag_score(t, k) for k in tags) - margin
            tags = [k for k in tags if self.tag_score(t, k) >= least]
            self.tags.append(tags)
            self.scores.append(
                [self.tag_score(t, k) + (cost if right not in (None, k) else 0) for k in tags]
            )

    def paths(self) -> Iterator[tuple[tuple[int, ...], list[int], float]]:
        """Every sequence: the places of its tags among the candidates, the tags, the score."""
        for places in itertools.product(*(range(len(tags)) for tags in self.tags)):
            tags = [self.tags[t][j] for t, j in enumerate(places)]
            before = [-1, -1, *tags]
            score = sum(self.scores[t][j] for t, j in enumerate(places))
            for t, tag in enumerate(tags):
                score += self.context_score(t, before[t + 1], before[t], tag)
            yield places, tags, score

    def tag_score(self, t: int, tag: int) -> float:
        return sum(self._part_score(t, part) for part in self.model.of_tags[tag])

    def _part_score(self, t: int, part: int) -> float:
        model = self.model
        score = sum(model.weight(feature, part) for feature in self.present[t])
        if len(model.outputs):
            product = int(model.outputs[part] @ self.hidden[t]) + model.constants[part]
            points = (product * model.multiplier + (1 << model.shift >> 1)) >> model.shift
            score += min(max(points, -_MOST_OUTPUT), _MOST_OUTPUT)
        return score

    def _ranked(self, t: int) -> list[int]:
        model, coarse = self.model, self.model.coarse
        firsts = [model.of_tags[first][0] for first in coarse[:-1]]
        classes = _best(range(len(firsts)), lambda c: self._part_score(t, firsts[c]), model.beam[0])
        tags = [k for c in classes for k in range(coarse[c], coarse[c + 1])]
        return _best(tags, partial(self.tag_score, t), model.beam[1])

    def context_keys(self, t: int, previous: int, second: int) -> list[int]:
        """The keys of all contexts; -1 for no tag."""
        keys = []
        for number, first_level, second_level, column in self.model.contexts:
            key = _mixed(0x51ED270B, number)
            for level, tag in ((first_level, previous), (second_level, second)):
                if level:
                    key = _mixed(key, 0 if tag < 0 else 1 + self.model.class_of[level][tag])
            if column >= 0:
                feature = self.rows[t][column]
                if not self.model.is_present(feature):
                    continue
                key = _mixed(key, feature)
            keys.append(key)
        return keys

    def context_score(self, t: int, previous: int, second: int, tag: int) -> float:
        parts = self.model.of_tags[tag][:_CONTEXT_PARTS]
        return sum(
            self.model.weight(key, part)
            for key in self.context_keys(t, previous, second)
            for part in parts
        )

    def steps(self, t: int) -> dict[tuple[int, int, int], float]:
        """The scores that the places (h, i, j) at t - 2, t - 1 and t add."""
        seconds = self.tags[t - 2] if t > 1 else [-1]
        previous = self.tags[t - 1] if t else [-1]
        return {
            (h, i, j): self.scores[t][j] + self.context_score(t, one, two, tag)
            for h, two in enumerate(seconds)
            for i, one in enumerate(previous)
            for j, tag in enumerate(self.tags[t])
        }

    def best(self) -> list[int]:
        """The tags of the best sequence."""
        if not self.n:
            return []
        total: dict[tuple[int, int], float] = {(0, 0): 0}
        back: list[dict[tuple[int, int], int]] = []
        for t in range(self.n):
            new: dict[tuple[int, int], float] = {}
            back.append({})
            for (h, i, j), step in self.steps(t).items():
                score = total[h, i] + step
                if (i, j) not in new or score > new[i, j]:
                    new[i, j], back[t][i, j] = score, h
            total = new
        j, i = min(
            ((j, i) for i, j in total), key=lambda place: (-total[place[1], place[0]], place)
        )
        found = []
        for t in range(self.n - 1, -1, -1):
            found.append(self.tags[t][j])
            i, j = back[t][i, j], i
        return found[::-1]

    def score_of(self, tags: list[int]) -> float:
        before = [-1, -1, *tags]
        return sum(
            self.tag_score(t, tag) + self.context_score(t, before[t + 1], before[t], tag)
            for t, tag in enumerate(tags)
        )

    def differing(self, gold: list[int], found: list[int]) -> list[int]:
        """The positions where two sequences differ in what scores read."""
        order = max((2 if row[2] else 1 for row in self.model.contexts), default=0)
        windows = [slice(max(0, t - order), t + 1) for t in range(self.n)]
        return [t for t, window in enumerate(windows) if gold[window] != found[window]]

    def changed(self, gold: list[int], found: list[int]) -> set[int]:
        """The features of these positions."""
        return {feature for t in self.differing(gold, found) for feature in self.present[t]}

    def differences(self, gold: list[int], found: list[int]) -> list[tuple[int, float]]:
        """Rows of weights that one of two sequences has and the other lacks, by position."""
        changes: list[tuple[int, int, float]] = []
        for t in self.differing(gold, found):
            pairs = ((gold, found, 1.0), (found, gold, -1.0))
            if gold[t] != found[t]:
                for one, other, sign in pairs:
                    of_one, of_other = (self.model.of_tags[tags[t]] for tags in (one, other))
                    own = [part for part in of_one if part not in of_other]
                    changes += [(f, part, sign) for part in own for f in self.present[t]]
            for one, _, sign in pairs:
                before = [-1, -1, *one]
                parts = self.model.of_tags[one[t]][:_CONTEXT_PARTS]
                for key in self.context_keys(t, before[t + 1], before[t]):
                    changes += [(key, part, sign) for part in parts]
        return [(self.model.index(key, part), sign) for key, part, sign in changes]

    def sums(self, scale: float) -> list[list[float]]:
        """The probabilities of all candidates."""
        forward: list[dict[tuple[int, int], float]] = [{(0, 0): 0.0}]
        steps = [self.steps(t) for t in range(self.n)]
        for t in range(self.n):
            forward.append({})
            for (h, i, j), step in steps[t].items():
                so_far = forward[t + 1].get((i, j), -inf)
                forward[t + 1][i, j] = _added(so_far, forward[t][h, i] + scale * step)
        backward: list[dict[tuple[int, int], float]] = [{} for _ in range(self.n + 1)]
        backward[-1] = dict.fromkeys(forward[-1], 0.0)
        for t in range(self.n - 1, 0, -1):
            for (h, i, j), step in steps[t].items():
                so_far = backward[t].get((h, i), -inf)
                backward[t][h, i] = _added(so_far, backward[t + 1][i, j] + scale * step)
        whole = -inf
        for score in forward[-1].values():
            whole = _added(whole, score)
        found = []
        for t in range(self.n):
            shares = [0.0] * len(self.tags[t])
            for (i, j), score in forward[t + 1].items():
                shares[j] += exp(score + backward[t + 1][i, j] - whole)
            found.append([min(share, 1.0) for share in shares])
        return found


def _best(numbers: Any, score: Callable[[int], float], most: int) -> list[int]:
    """The most numbers with the highest scores, as they are if there are no more."""
    numbers = list(numbers)
    if len(numbers) <= most:
        return numbers
    return sorted(numbers, key=lambda number: (-score(number), number))[:most]


def _added(a: float, b: float) -> float:
    high, low = max(a, b), min(a, b)
    return high if low == -inf else high + log1p(exp(low - high))


def find_sequences(model: Any, batch: Any, tags: np.ndarray) -> int:
    """The best tags of all positions."""
    read = Model(model)
    margin = read.beam[2] if len(read.beam) > 2 else inf
    for s in range(len(batch.starts) - 1):
        lattice = Lattice(read, batch, s, margin=margin)
        tags[batch.starts[s] : batch.starts[s + 1]] = lattice.best()
    return 0


def sum_sequences(
    model: Any, batch: Any, scale: float, tags: np.ndarray, probabilities: np.ndarray
) -> int:
    """The most probable candidates of all positions."""
    read, k = Model(model), tags.shape[1]
    tags[:], probabilities[:] = -1, 0
    for s in range(len(batch.starts) - 1):
        lattice = Lattice(read, batch, s)
        for t, shares in enumerate(lattice.sums(scale)):
            ranked = sorted(range(len(shares)), key=lambda j: (-shares[j], j))[:k]
            row = int(batch.starts[s]) + t
            tags[row, : len(ranked)] = [lattice.tags[t][j] for j in ranked]
            probabilities[row, : len(ranked)] = [shares[j] for j in ranked]
    return 0


def learn_sequences(
    model: Any, batch: Any, gold: np.ndarray, order: np.ndarray, seen: int, cost: float,
    max_step: float, weights: np.ndarray, sums: np.ndarray, wrong: np.ndarray,
    filter_: np.ndarray,
) -> int:  # fmt: skip
    """Online learning."""
    read = Model(model)
    for s in order.tolist():
        lattice = Lattice(read, batch, s, gold, cost)
        found = lattice.best()
        right = gold[batch.starts[s] : batch.starts[s + 1]].tolist()
        n_wrong = sum(a != b for a, b in zip(right, found, strict=True))
        if n_wrong:
            wrong[0] += n_wrong
            changes = lattice.differences(right, found)
            step = 1.0
            if max_step > 0:
                loss = (cost * n_wrong if cost > 0 else 1.0) + lattice.score_of(found)
                step = (loss - lattice.score_of(right)) / max(len(changes), 1)
                step = min(max(step, 0.0), max_step)
            for feature in lattice.changed(right, found) if step > 0 else ():
                filter_[feature >> 13] |= np.uint32(1 << (feature >> 8 & 31))
            for index, sign in changes:
                change = np.float32(step * sign)
                weights[index] += change
                sums[index] += float(change) * seen
        seen += 1
    return 0


def features(templates: Any, values: np.ndarray, places: np.ndarray) -> np.ndarray:
    """The features of positions, one template and field after the other."""
    of_fields = dict(zip(templates.fields, values, strict=True))
    found = np.empty((len(places), len(templates.templates)), np.uint32)
    at = {
        (field, offset): of_fields[field][places + offset]
        for field, offset in dict.fromkeys(atom for atoms in templates.atoms for atom in atoms)
    }
    for column, (text, atoms) in enumerate(zip(templates.templates, templates.atoms, strict=True)):
        key = np.full(len(places), zlib.crc32(text.encode()) | 1, np.uint32)
        present = None
        for atom in atoms:
            value = at[atom]
            key ^= value
            key *= np.uint32(0x85EBCA6B)
            key ^= key >> np.uint32(13)
            key *= np.uint32(0xC2B2AE35)
            key ^= key >> np.uint32(16)
            present = value != 0 if present is None else present & (value != 0)
        key |= key == 0
        found[:, column] = key if present is None else key * present
    return found
