"""The table of decoders that all tests of inference run over: one row a decoder."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from gpuparse import inference
from gpuparse.inference.backends import has_triton
from gpuparse.inference.textbook import higher_order, projective
from gpuparse.inference.textbook import spanning_trees as reference

HAS_GPU = torch.cuda.is_available()
IN_MAIN_MEMORY = ["torch", "cpu"]
"""Every backend that is quick without a GPU."""

_no_triton = pytest.mark.skipif(not has_triton(), reason="Triton is not installed")
TRITON = pytest.mark.gpu if HAS_GPU else pytest.mark.triton
"""The mark of tests that run Triton's kernels: on the GPU, or in the interpreter."""

_triton = pytest.param("gpu", marks=[_no_triton, TRITON])
BACKENDS = [*IN_MAIN_MEMORY, _triton]
"""Every backend but "auto" and the ones that do not exist."""

QUICK_BACKENDS = BACKENDS if HAS_GPU else IN_MAIN_MEMORY
"""For tests of many searches, for which Triton's interpreter is too slow."""


def fewer(backend: str, cases: int) -> int:
    """As many cases as a test can afford: Triton's interpreter takes 10 ms and more for each."""
    return max(1, cases // 50) if backend == "gpu" and not HAS_GPU else cases


def no_longer(backend: str, n: int, lengths: list[int]) -> list[int]:
    """The lengths that a test can afford: up to n words in Triton's interpreter."""
    return [length for length in lengths if length <= n or backend != "gpu" or HAS_GPU]


def skip_unless_it_reads(backend: str, device: torch.device) -> None:
    """Skip a test where a backend does not run on tensors of that device."""
    if backend == "cpu" and device.type != "cpu":
        pytest.skip("the compiled backend reads main memory only")
    if backend == "gpu" and device.type == "cpu" and HAS_GPU:
        pytest.skip("Triton's kernels are compiled for the GPU here, not interpreted")


def search_with(search: Callable, *scores: Tensor, backend: str, **options) -> list[Tensor]:
    """Search on the device that the backend reads; what is found is where `scores` were."""
    device = torch.device("cuda") if backend == "gpu" and HAS_GPU else scores[0].device
    options = {key: _moved(value, device) for key, value in options.items()}
    found = search(*(_moved(part, device) for part in scores), backend=backend, **options)
    return [part.to(scores[0].device) for part in found]


def _moved(value: object, device: torch.device) -> object:
    # What is elsewhere than on the CPU was put there by a test, to be refused.
    return value.to(device) if isinstance(value, Tensor) and value.device.type == "cpu" else value


@dataclass(frozen=True)
class Row:
    """A public decoder, its textbook form, and the trees among which it searches."""

    search: Callable
    textbook: Callable
    projective: bool


ROWS = {
    "eisner": Row(inference.eisner, projective.eisner, projective=True),
    "chu_liu_edmonds": Row(inference.chu_liu_edmonds, reference.chu_liu_edmonds, projective=False),
}

SIBLING_ROWS = {
    "eisner_sibling": Row(inference.eisner_sibling, projective.eisner_sibling, projective=True),
    "hill_climb": Row(inference.hill_climb, reference.hill_climb, projective=False),
    "multi_parent": Row(inference.multi_parent, reference.multi_parent, projective=False),
}
"""Those that read sibling scores too."""

KBEST_ROWS = {
    "eisner_kbest": Row(inference.eisner_kbest, projective.eisner_kbest, projective=True),
    "eisner_sibling_kbest": Row(
        inference.eisner_sibling_kbest, projective.eisner_sibling_kbest, projective=True
    ),
}
"""Those that find several trees, each named after the decoder of the best one."""

THIRD_ORDER_ROWS = {
    "eisner_grand_sibling": Row(
        inference.eisner_grand_sibling, higher_order.eisner_grand_sibling, projective=True
    ),
    "eisner_tri_sibling": Row(
        inference.eisner_tri_sibling, higher_order.eisner_tri_sibling, projective=True
    ),
}
"""Those that read parts of three arcs."""

DUAL = {"dual_decomposition", "dual_decomposition_labelled"}
"""Those with certificates, whose tests are in a file of their own, enumeration and textbook too."""

PROGRAMS = {"integer_program", "integer_program_labelled"}
"""Integer programs, whose tests are in a file of their own."""

KBEST = {"chu_liu_edmonds_kbest"}
"""Another, whose tests are in a file of its own."""

GRANDCHILD = {"eisner_grandchild", "eisner_grandchild_labelled"}
"""Those that read scores of grandchildren too, whose tests are in a file of their own."""

NOT_DECODERS = {
    "DECODERS", "Decoder", "Parse", "Scores", "constrain", "decode", "with_quantity",
    "NonProjectiveTrees", "ProjectiveTrees", "conditional_loss", "hinge_loss",
}  # fmt: skip
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
    "loopy_belief_propagation",
    "matrix_tree_entropy",
    "matrix_tree_log_partition",
    "matrix_tree_marginals",
    "matrix_tree_sample",
    "minimum_bayes_risk",
}
"""Those over all trees, and what reads marginals."""
