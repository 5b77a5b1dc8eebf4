"""The table of decoders that all tests of inference run over: one row a decoder."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from gpuparse import inference
from gpuparse.inference import decoders
from gpuparse.inference.engines import has_triton
from gpuparse.inference.textbook import dual_decomposition, higher_order, projective
from gpuparse.inference.textbook import spanning_trees as reference
from tests.oracles.tree_parts import AXES

HAS_GPU = torch.cuda.is_available()
IN_MAIN_MEMORY = ["torch", "native"]
"""Every engine that is quick without a GPU."""

_no_triton = pytest.mark.skipif(not has_triton(), reason="Triton is not installed")
TRITON = pytest.mark.gpu if HAS_GPU else pytest.mark.triton
"""The mark of tests that run Triton's kernels: on the GPU, or in the interpreter."""

_triton = pytest.param("triton", marks=[_no_triton, TRITON])
ENGINES = [*IN_MAIN_MEMORY, _triton]
"""Every engine but "auto" and the ones that do not exist."""


def fewer(engine: str, cases: int) -> int:
    """As many cases as a test can afford: Triton's interpreter takes 10 ms and more for each."""
    return max(4, cases // 5) if engine == "triton" and not HAS_GPU else cases


def no_longer(engine: str, n: int, lengths: list[int]) -> list[int]:
    """The lengths that a test can afford: up to n words in Triton's interpreter."""
    return [length for length in lengths if length <= n or engine != "triton" or HAS_GPU]


def skip_unless_it_reads(engine: str, device: torch.device) -> None:
    """Skip a test where an engine does not run on tensors of that device."""
    if engine == "native" and device.type != "cpu":
        pytest.skip("the compiled engine reads main memory only")
    if engine == "triton" and device.type == "cpu" and HAS_GPU:
        pytest.skip("Triton's kernels are compiled for the GPU here, not interpreted")


def search_with(search: Callable, *scores: Tensor, engine: str, **options) -> list[Tensor]:
    """Search on the device that the engine reads; what is found is where `scores` were."""
    device = torch.device("cuda") if engine == "triton" and HAS_GPU else scores[0].device
    options = {key: _moved(value, device) for key, value in options.items()}
    found = search(*(_moved(part, device) for part in scores), engine=engine, **options)
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

Parts = dict[str, np.ndarray]
"""Scores by part: of one sentence (N, ...), or of a batch (B, N, ...)."""


def _from_projective(function: Callable) -> Callable[[Parts, bool], tuple[Any, Any]]:
    """A search by single changes from the best projective tree."""

    def found(parts: Parts, single_root: bool) -> tuple[Any, Any]:
        arcs, siblings, ends = parts["arc"], parts["sibling"], parts["end"]
        start, _ = projective.eisner_sibling(arcs, siblings, ends, single_root=single_root)
        return function(arcs, siblings, start, end_scores=ends, single_root=single_root)[:2]

    return found


def _textbook(function: Callable, *fields: str) -> Callable[[Parts, bool], tuple[Any, Any]]:
    return lambda parts, single_root: function(
        *(parts[field] for field in ("arc", *fields)), single_root=single_root
    )[:2]


TEXTBOOK: dict[str, Callable[[Parts, bool], tuple[Any, Any]]] = {
    "eisner": _textbook(projective.eisner),
    "chu_liu_edmonds": _textbook(reference.chu_liu_edmonds),
    "eisner_sibling": _textbook(projective.eisner_sibling, "sibling", "end"),
    "hill_climb": _from_projective(reference.hill_climb),
    "multi_parent": _from_projective(reference.multi_parent),
    "eisner_grandchild": _textbook(
        higher_order.eisner_grandchild, "sibling", "inner_grandchild", "outer_grandchild"
    ),
    "eisner_grand_sibling": _textbook(
        higher_order.eisner_grand_sibling, "sibling", "grandparent", "grand_sibling", "end"
    ),
    "eisner_tri_sibling": _textbook(
        higher_order.eisner_tri_sibling, "sibling", "tri_sibling", "outermost", "end"
    ),
    "dual_decomposition": _textbook(
        dual_decomposition.dual_decomposition, "sibling", "grandparent", "grand_sibling", "end"
    ),
}
"""Decoder -> its textbook form: (parts of a sentence, single_root) -> (heads or arcs, score)."""

OTHERS = {
    "DECODERS": "test_ladder:test_every_decoder_has_a_textbook_form",
    "Decoder": "test_ladder:test_every_decoder_has_a_textbook_form",
    "Parse": "test_scores:test_decode_by_name",
    "Scores": "test_scores:test_decode_by_name",
    "LabelledTrees": "test_labelled:test_labelled_trees_are_those_of_enumeration",
    "NonProjectiveTrees": "test_distributions:test_sums",
    "ProjectiveTrees": "test_distributions:test_sums",
    "arc_scores_of_labels": (
        "test_minimum_bayes_risk:test_label_marginals_are_those_of_enumeration"
    ),
    "conditional_loss": "test_distributions:test_conditional_losses",
    "constrain": "test_constraints:test_searches_and_sums_are_those_of_the_trees_that_satisfy",
    "decode": "test_scores:test_decode_by_name",
    "dual_decomposition_labelled": (
        "test_dual_decomposition:test_labelled_trees_are_the_best_that_keep_the_limits"
    ),
    "eisner_grandchild_labelled": (
        "test_eisner_grandchild:test_many_cases_have_the_value_of_enumeration"
    ),
    "hinge_loss": "test_distributions:test_costs_and_hinge_losses",
    "label_marginals": "test_minimum_bayes_risk:test_label_marginals_are_those_of_enumeration",
    "label_loss": "test_labelled:test_local_losses",
    "local_loss": "test_labelled:test_local_losses",
    "risk_loss": "test_labelled:test_losses_are_those_of_enumeration",
    "projectivise": "test_support:test_projectivise_is_the_form_of_training",
    "minimum_bayes_risk": "test_minimum_bayes_risk:test_the_least_risk_of_all_trees",
    "with_quantity": "test_ladder:test_every_quantity_is_tested_for_every_decoder",
}
"""Public name that is no quantity of a decoder -> the test that compares it with enumeration."""

QUANTITIES = {
    "best": "test_ladder:test_every_engine_equals_the_textbook",
    "k_best": "test_distributions:test_sums",
    "log_partition": "test_distributions:test_sums",
    "marginals": "test_distributions:test_sums",
    "entropy": "test_distributions:test_sums",
    "samples": "test_sums:test_samples_have_the_probabilities_of_enumeration",
}
"""Quantity -> the test that runs over all decoders that have it."""


def draw_parts(
    name: str, rng: np.random.Generator, n_batch: int, n: int, kind: str = "ties"
) -> Parts:
    """Scores (B, N, ...) of all parts that a decoder reads.

    Args:
        kind: "float32" or "float64" (normal), "ties" (small integers), "forbidden" (integers, a
            few parts at -inf), or "pruned" (normal, most arcs at -inf).
    """
    parts = {}
    for field in ("arc", *inference.DECODERS[name].reads):
        shape = (n_batch, *[n + 1] * AXES[field])
        is_whole = kind in ("ties", "forbidden")
        numbers = rng.integers(-3, 4, shape) if is_whole else rng.standard_normal(shape)
        parts[field] = numbers.astype("float64" if kind == "float64" else "float32")
        if kind == "forbidden":
            parts[field][rng.random(shape) < (0.35 if field == "arc" else 0.04)] = -np.inf
        if kind == "pruned" and field == "arc":
            left = rng.random(shape) < 0.3
            left[:, np.arange(n), np.arange(1, n + 1)] = True
            parts[field][~left] = -np.inf
    return parts


def decode_parts(
    name: str, parts: Parts, lengths: Sequence[int], single_root: bool, engine: str = "auto",
    device: torch.device | str = "cpu",
) -> inference.Parse:  # fmt: skip
    """The result of a decoder on a device; results are in main memory."""
    tensors = {field: torch.as_tensor(part).to(device) for field, part in parts.items()}
    words = torch.tensor(lengths, dtype=torch.int64, device=device)
    scores = inference.Scores(lengths=words, **tensors)
    found = inference.decode(name, scores, single_root=single_root, engine=engine)
    heads, arcs = (None if x is None else x.cpu() for x in (found.heads, found.arcs))
    return inference.Parse(heads, found.scores.cpu(), arcs)


def engines_of(quantity: str = "best") -> list[Any]:
    """All (decoder, engine) that have a quantity, as parameters of a test."""
    pairs = []
    for name, decoder in inference.DECODERS.items():
        for engine in decoders.ENGINES:
            if decoder.has(quantity, engine):
                marks = [_no_triton, TRITON] if engine == "triton" else []
                pairs.append(pytest.param(name, engine, marks=marks, id=f"{name}-{engine}"))
    return pairs
