"""The table of decoders that all tests of inference run over: one row a decoder."""

from collections.abc import Callable
from dataclasses import dataclass

from gpuparse import inference
from gpuparse.inference import reference, reference_kbest

BACKENDS = ["torch", "cpu"]
"""Every backend but "auto" and the ones that do not exist."""


@dataclass(frozen=True)
class Row:
    """A public decoder, its textbook form, and the trees among which it searches."""

    search: Callable
    textbook: Callable
    projective: bool


ROWS = {
    "eisner": Row(inference.eisner, reference.eisner, projective=True),
    "chu_liu_edmonds": Row(inference.chu_liu_edmonds, reference.chu_liu_edmonds, projective=False),
}

SIBLING_ROWS = {
    "eisner_sibling": Row(inference.eisner_sibling, reference.eisner_sibling, projective=True),
    "hill_climb": Row(inference.hill_climb, reference.hill_climb, projective=False),
    "multi_parent": Row(inference.multi_parent, reference.multi_parent, projective=False),
}
"""Those that read sibling scores too."""

KBEST_ROWS = {
    "eisner_kbest": Row(inference.eisner_kbest, reference_kbest.eisner_kbest, projective=True),
    "eisner_sibling_kbest": Row(
        inference.eisner_sibling_kbest, reference_kbest.eisner_sibling_kbest, projective=True
    ),
}
"""Those that find several trees, each named after the decoder of the best one."""

KBEST = {"chu_liu_edmonds_kbest"}
"""Another, whose tests are in a file of its own."""

NOT_DECODERS = {"DECODERS", "Decoder", "Parse", "Scores", "constrain", "decode"}
"""Public names of `gpuparse.inference` that search for nothing themselves."""

SUMS = {
    "arc_scores_of_labels",
    "eisner_entropy",
    "eisner_log_partition",
    "eisner_marginals",
    "eisner_sample",
    "eisner_sibling_entropy",
    "eisner_sibling_log_partition",
    "eisner_sibling_marginals",
    "eisner_sibling_sample",
    "label_marginals",
    "matrix_tree_entropy",
    "matrix_tree_log_partition",
    "matrix_tree_marginals",
    "matrix_tree_sample",
    "minimum_bayes_risk",
}
"""Those over all trees, and what reads marginals."""
