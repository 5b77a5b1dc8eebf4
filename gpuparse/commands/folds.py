"""Folds of a treebank: runs of consecutive sentences, each parsed by a parser of the others."""

import argparse
from itertools import pairwise

from gpuparse.errors import ConfigError


def add_folds(parser: argparse.ArgumentParser) -> None:
    """Let a command line name the number of folds."""
    parser.add_argument(
        "--folds",
        type=int,
        default=10,
        metavar="N",
        help="number of folds, each of consecutive sentences (10)",
    )


def consecutive_folds(n_sentences: int, n_folds: int) -> list[slice]:
    """Folds of consecutive sentences, of equal size within one sentence.

    Neighbouring sentences are often of the same text. In different folds, they would be parsed by a
    parser that knows the text, and would be parsed too well.

    Raises: ConfigError: fewer than 2 folds, or more than sentences.
    """
    if not 2 <= n_folds <= n_sentences:
        raise ConfigError(
            f"--folds {n_folds}: expected at least 2 and at most {n_sentences}, one for each"
            " sentence of data.train"
        )
    cuts = [i * n_sentences // n_folds for i in range(n_folds + 1)]
    return [slice(*cut) for cut in pairwise(cuts)]
