"""Reading the hidden states of an encoder by weights of 8 bits, natively, without torch.

Scores are equal to the last bit in any batch and number of threads, as the states are.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from gpuparse import native
from gpuparse.native import mapped
from gpuparse.scorers.encoder.quantised import (
    ByteLinear,
    equal_parts,
    padded,
    parts_of,
    rounded_up,
)


class QuantisedArcs(NamedTuple):
    """Biaffine scores of arcs; the struct `ByteArcs` of native code.

    heads, modifiers: layers from hidden states to vectors of X and Y numbers. products: of a head's
    vector, by which the modifier's is multiplied.
    """

    heads: ByteLinear
    modifiers: ByteLinear
    products: ByteLinear

    @classmethod
    def of(cls, arrays: Mapping[str, np.ndarray]) -> "QuantisedArcs":
        """Round the weights of `Heads` for arcs, by their names there."""
        weights = arrays["arcs.weight"][0].astype(
            np.float32
        )  # (X + 1, Y), of x with a 1 at the end
        products = ByteLinear.of(weights[:-1].T, weights[-1])
        return cls(*_vectors(arrays, "arc"), products)

    def scores(
        self, states: np.ndarray, starts: np.ndarray, lengths: np.ndarray, threads: int = 1
    ) -> np.ndarray:
        """(B, N, N) float32 scores of head and modifier, in nats.

        Args: states: (T, d) float32. starts: (B,) the row of the root of each sentence, which is
            followed by those of its words. lengths: (B,) words.
        """
        states = padded(states, columns=rounded_up(states.shape[1]))
        n_nodes = int(lengths.max(initial=0)) + 1
        found = np.zeros((len(lengths), n_nodes, n_nodes), np.float32)
        arcs = native.struct("ByteArcs", self)

        def score(part: slice) -> None:
            native.call("score_byte_arcs", arcs, states, starts[part], lengths[part], found[part])

        list(mapped(score, equal_parts(len(lengths), threads), threads))
        return found


class QuantisedLabels(NamedTuple):
    """Biaffine scores of L labels; the struct `ByteLabels` of native code.

    heads, modifiers: as those of arcs. products: of a head's vector, with outputs j L + l, by which
    number j of the modifier's is multiplied, and Y L + l, which are added.
    """

    heads: ByteLinear
    modifiers: ByteLinear
    products: ByteLinear

    @classmethod
    def of(cls, arrays: Mapping[str, np.ndarray]) -> "QuantisedLabels":
        """Round the weights of `Heads` for labels, by their names there."""
        heads, modifiers = _vectors(arrays, "label")
        weights = arrays["labels.weight"]  # (L, X + 1, Y + 1), of vectors with a 1 at the end
        of_numbers = np.zeros((len(modifiers.scales) + 1, *weights.shape[:2]), np.float32)
        of_numbers[: weights.shape[2] - 1] = weights[:, :, :-1].transpose(2, 0, 1)
        of_numbers[-1] = weights[:, :, -1]
        rows = of_numbers.reshape(-1, weights.shape[1])
        return cls(heads, modifiers, ByteLinear.of(rows[:, :-1], rows[:, -1]))

    def scores(
        self, n_labels: int, heads: np.ndarray, starts: np.ndarray, modifiers: np.ndarray,
        threads: int = 1,
    ) -> np.ndarray:  # fmt: skip
        """(A, n_labels) float32 scores of all labels of arcs, in nats.

        Args: heads: (H, d) float32, hidden states. starts: (H + 1,) int64: the arcs of head h are
            starts[h] to before starts[h + 1]. modifiers: (A, d) float32, of arcs.
        """
        columns = rounded_up(heads.shape[1])
        heads, modifiers = (padded(each, columns=columns) for each in (heads, modifiers))
        found = np.empty((len(modifiers), n_labels), np.float32)
        labels = native.struct("ByteLabels", self)

        def score(part: tuple[int, int]) -> None:
            first, end = part
            arcs, of_part = slice(starts[first], starts[end]), starts[first : end + 1]
            native.call(
                "score_byte_labels", labels, heads[first:end], of_part - of_part[0],
                modifiers[arcs], found[arcs],
            )  # fmt: skip

        list(mapped(score, parts_of(starts, threads), threads))
        return found

    def of_arcs(
        self, n_labels: int, states: np.ndarray, heads: np.ndarray, modifiers: np.ndarray,
        threads: int = 1,
    ) -> np.ndarray:  # fmt: skip
        """(A, n_labels) those of arcs in any order; heads, modifiers: (A,) rows of states."""
        order = np.argsort(heads, kind="stable")
        distinct, firsts = np.unique(heads[order], return_index=True)
        starts = np.append(firsts, len(heads))
        found = np.empty((len(heads), n_labels), np.float32)
        found[order] = self.scores(
            n_labels, states[distinct], starts, states[modifiers[order]], threads
        )
        return found


class QuantisedHeads(NamedTuple):
    """All that reads hidden states. labels: None without them. columns: by key."""

    arcs: QuantisedArcs
    labels: QuantisedLabels | None
    columns: dict[str, ByteLinear]

    @classmethod
    def of(cls, arrays: Mapping[str, np.ndarray]) -> "QuantisedHeads":
        """Round the weights of `Heads`, by their names there."""
        names = [name.split(".")[1] for name in arrays if name.startswith("columns.")]
        return cls(
            QuantisedArcs.of(arrays),
            QuantisedLabels.of(arrays) if "labels.weight" in arrays else None,
            {name: _linear(arrays, f"columns.{name}") for name in dict.fromkeys(names)},
        )


def _linear(arrays: Mapping[str, np.ndarray], name: str) -> ByteLinear:
    both = (arrays[f"{name}.{kind}"].astype(np.float32) for kind in ("weight", "bias"))
    return ByteLinear.of(*both)


def _vectors(arrays: Mapping[str, np.ndarray], what: str) -> tuple[ByteLinear, ByteLinear]:
    """The layers of the vectors of heads and modifiers."""
    return _linear(arrays, f"{what}_heads"), _linear(arrays, f"{what}_modifiers")
