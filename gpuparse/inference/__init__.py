"""Tree search: score tensors in, trees out."""

from gpuparse.inference.chu_liu_edmonds import chu_liu_edmonds
from gpuparse.inference.chu_liu_edmonds_kbest import chu_liu_edmonds_kbest
from gpuparse.inference.decode import DECODERS, Decoder, decode
from gpuparse.inference.eisner import eisner
from gpuparse.inference.eisner_sibling import eisner_sibling
from gpuparse.inference.hill_climb import hill_climb
from gpuparse.inference.matrix_tree import (
    matrix_tree_entropy,
    matrix_tree_log_partition,
    matrix_tree_marginals,
    matrix_tree_sample,
)
from gpuparse.inference.minimum_bayes_risk import minimum_bayes_risk
from gpuparse.inference.multi_parent import multi_parent
from gpuparse.inference.scores import Parse, Scores

__all__ = [
    "DECODERS",
    "Decoder",
    "Parse",
    "Scores",
    "chu_liu_edmonds",
    "chu_liu_edmonds_kbest",
    "decode",
    "eisner",
    "eisner_sibling",
    "hill_climb",
    "matrix_tree_entropy",
    "matrix_tree_log_partition",
    "matrix_tree_marginals",
    "matrix_tree_sample",
    "minimum_bayes_risk",
    "multi_parent",
]
