"""Weights together with the sums that their average over all sentences is made of."""

from typing import NamedTuple

import numpy as np

from gpuparse.scoring.weights import Weights


class Table(NamedTuple):
    """Weights (R,), and the sums (R,) that their average is made of; both float32, contiguous.

    To `weighted` each change of the weights is added times the number of sentences before it, so
    that after n sentences the mean over them is weights - weighted / n. A weight that a sentence
    does not change costs nothing.
    """

    weights: np.ndarray
    weighted: np.ndarray


class AveragedWeights:
    """A table of weights that are learned, `width` weights a row, and their average.

    Args:
        array: (rows, width) float32, copied.
        weighted: (rows * width,) float32, copied; None: zeros.
    Source: McDonald, Crammer & Pereira (2005), figure 3.
    """

    def __init__(self, array: np.ndarray, weighted: np.ndarray | None = None) -> None:
        self.weights = Weights(array)
        self.weighted = np.zeros(array.size, np.float32) if weighted is None else weighted.copy()

    @classmethod
    def zeros(cls, rows: int, width: int = 1) -> "AveragedWeights":
        """A table before anything is learned."""
        return cls(np.zeros((rows, width), np.float32))

    @property
    def array(self) -> np.ndarray:
        """(rows, width) float32, the weights themselves."""
        return self.weights.array

    @property
    def table(self) -> Table:
        """The weights themselves, and the sums, as arrays of one axis."""
        return Table(self.array.reshape(-1), self.weighted)

    def mean(self, n_sentences: int) -> np.ndarray:
        """(rows, width) float32: the mean of the weights after each of `n_sentences` sentences."""
        return self.array - (self.weighted / np.float32(n_sentences)).reshape(self.array.shape)
