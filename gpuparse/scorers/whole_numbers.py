"""Factors of scores in whole numbers."""

import numpy as np

from gpuparse.errors import ScoreError

MAX_SHIFT = 62


def fraction(factor: float) -> tuple[int, int]:
    """A multiplier and a shift that stand for a factor; the multiplier has 30 bits.

    Raises: ScoreError: the factor is too large.
    """
    if not factor > 0.0:
        return 0, 0
    shift = min(30 - int(np.frexp(factor)[1]), MAX_SHIFT)
    if shift < 0:
        raise ScoreError("word vectors: scores are too large to be added to scores of templates")
    return int(np.rint(np.ldexp(factor, shift))), shift
