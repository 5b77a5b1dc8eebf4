"""The weights of features: a row each, floats while learning and small integers afterwards."""

from typing import Any

import numpy as np


class Weights:
    """One row of weights for each feature.

    While learning, weights are float32 and change; for parsing they are integers of 8 or 16 bits.
    `gpuparse.scoring.bags` has them as tensors, whose memory on the CPU is that of `array` for
    float32.

    Args:
        array: (R, D) float32, int8 or int16; D is 1 for arcs, the number of labels for labels.
    """

    def __init__(self, array: np.ndarray) -> None:
        if array.dtype not in (np.float32, np.int8, np.int16):
            raise TypeError(f"weights are float32, int8 or int16, not {array.dtype}")
        self.is_integer = array.dtype != np.float32
        self.tensors: dict[Any, Any] = {}  # what `gpuparse.scoring.bags` has made of them
        if self.is_integer:
            self.array = np.ascontiguousarray(array)
            self.padded = self.array
            self.largest = int(max(np.max(array, initial=0), -int(np.min(array, initial=0))))
        else:
            # One row of zeros more, which stands for features that do not fire.
            self.padded = np.zeros((len(array) + 1, array.shape[1]), np.float32)
            self.padded[:-1] = array
            self.array = self.padded[:-1]
            self.largest = 0


def quantised(averages: np.ndarray, bits: int) -> tuple[np.ndarray, float]:
    """Averages as integers of `bits` bits, the largest becoming the end; and their scale.

    A tree's score is multiplied by the scale as a whole, so that no best tree depends on it.
    """
    largest = float(np.abs(averages).max(initial=0.0))
    if not np.isfinite(largest):
        raise ValueError("weights that are not finite cannot be stored; learning went astray")
    end = (1 << (bits - 1)) - 1
    scale = end / largest if largest > 0.0 else 1.0
    whole = np.rint(averages.astype(np.float64) * scale)
    return whole.astype(np.int8 if bits == 8 else np.int16), scale
