"""The averaged weights of online learning, without a copy after each sentence.

The model is the mean of the weights after each of the N T sentences (McDonald, Crammer & Pereira
2005, figure 3: v / (N T)). A sentence changes few weights, so v is not added up. If the change
after `seen` earlier sentences is c, the weights after n sentences have it n - seen times in v:

    v / n = w - u / n    with    u = sum of seen * c over all changes

Engines add c to w and seen * c to u: native/difference.h, `learning/on_device.py`.
"""

import numpy as np

from gpuparse.scorers.linear.weights import Weights


class AveragedWeights:
    """A table of weights that are learned (w), and the sums of their average (u).

    Args:
        array: (rows, width) float32, copied.
        weighted: (rows * width,) float32, copied; None: zeros.
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
    def arrays(self) -> tuple[np.ndarray, np.ndarray]:
        """The weights themselves, and the sums, as arrays of one axis."""
        return self.array.reshape(-1), self.weighted

    def mean(self, n_sentences: int) -> np.ndarray:
        """(rows, width) float32: the mean of the weights after each of `n_sentences` sentences."""
        with np.errstate(invalid="ignore"):  # storing them refuses infinite ones
            return self.array - (self.weighted / np.float32(n_sentences)).reshape(self.array.shape)
