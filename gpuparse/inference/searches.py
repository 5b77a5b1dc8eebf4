"""The functions of the table of decoders, and search by the name of a decoder."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor

from gpuparse.errors import ConfigError, ScoreError
from gpuparse.inference import best_trees, higher_order, matrix_tree, projective_sums
from gpuparse.inference.approximate.dual_decomposition import dual_decomposition
from gpuparse.inference.approximate.hill_climb import hill_climb, multi_parent
from gpuparse.inference.best_trees import device_search
from gpuparse.inference.decoders import DECODERS, ENGINES, Quantity
from gpuparse.inference.scores import Scores

FUNCTIONS: Mapping[tuple[str, Quantity], Callable[..., Any]] = MappingProxyType(
    {
        ("eisner", "best"): best_trees.eisner,
        ("eisner", "k_best"): best_trees.eisner_kbest,
        ("eisner", "log_partition"): projective_sums.eisner_log_partition,
        ("eisner", "marginals"): projective_sums.eisner_marginals,
        ("eisner", "entropy"): projective_sums.eisner_entropy,
        ("eisner", "samples"): projective_sums.eisner_sample,
        ("chu_liu_edmonds", "best"): best_trees.chu_liu_edmonds,
        ("chu_liu_edmonds", "k_best"): best_trees.chu_liu_edmonds_kbest,
        ("chu_liu_edmonds", "log_partition"): matrix_tree.matrix_tree_log_partition,
        ("chu_liu_edmonds", "marginals"): matrix_tree.matrix_tree_marginals,
        ("chu_liu_edmonds", "entropy"): matrix_tree.matrix_tree_entropy,
        ("chu_liu_edmonds", "samples"): matrix_tree.matrix_tree_sample,
        ("eisner_sibling", "best"): best_trees.eisner_sibling,
        ("eisner_sibling", "k_best"): best_trees.eisner_sibling_kbest,
        ("eisner_sibling", "log_partition"): projective_sums.eisner_sibling_log_partition,
        ("eisner_sibling", "marginals"): projective_sums.eisner_sibling_marginals,
        ("eisner_sibling", "entropy"): projective_sums.eisner_sibling_entropy,
        ("eisner_sibling", "samples"): projective_sums.eisner_sibling_sample,
        ("hill_climb", "best"): hill_climb,
        ("multi_parent", "best"): multi_parent,
        ("eisner_grandchild", "best"): higher_order.eisner_grandchild,
        ("eisner_grand_sibling", "best"): higher_order.eisner_grand_sibling,
        ("eisner_tri_sibling", "best"): higher_order.eisner_tri_sibling,
        ("dual_decomposition", "best"): dual_decomposition,
    }
)
"""By decoder and quantity, as the table in decoders.py has them."""


@dataclass(frozen=True)
class Parse:
    """The result of a decoder for a batch.

    heads: of trees, int64 (B, N), -1 at the root and in padding; None if there are graphs.
    scores: float64 (B,). arcs: of graphs, bool (B, N, N), [b, h, m]; None if there are trees.
    certified, iterations: bool and int64 (B,), of a decoder that certifies trees.
    """

    heads: Tensor | None
    scores: Tensor
    arcs: Tensor | None = None
    certified: Tensor | None = None
    iterations: Tensor | None = None


def parts_for(name: str, scores: Scores) -> tuple[list[Tensor], dict[str, Tensor | None]]:
    """The scores that the functions of a decoder take: by place before the lengths, and by keyword.

    Raises:
        ConfigError: no decoder has this name. ScoreError: sibling scores are missing that one of
            the second order needs.
    """
    if name not in DECODERS:
        raise ConfigError(f"unknown decoder {name!r}: expected one of {', '.join(DECODERS)}")
    decoder = DECODERS[name]
    parts = {f"{field}_scores": getattr(scores, field) for field in decoder.reads}
    arcs = [scores.arc]
    if decoder.order == 2:
        if scores.sibling is None and not decoder.gives_graphs:
            raise ScoreError(f"{name} reads sibling scores, and there are none")
        arcs.append(parts.pop("sibling_scores"))
    return arcs, parts


def decode(
    name: str,
    scores: Scores,
    *,
    single_root: bool = False,
    engine: str = "auto",
    min_gain: float = 0.0,
    granularity: float | None = None,
    are_checked: bool = False,
) -> Parse:
    """Trees or graphs under the decoder of that name.

    Args:
        name: a key of `DECODERS`.
        scores: those of the parts that the decoder reads; others are not looked at.
        single_root: exactly one modifier of the root; otherwise one or more.
        engine: "auto", "native", "torch" or "triton".
        min_gain: of decoders that search by single changes, or prefer projective trees.
        granularity: of decoders that certify trees: see `dual_decomposition`.
        are_checked: whether scores are known to be usable. Then nothing waits for the device where
            the decoder has a form there, and a sentence without a tree has the score -inf.
    Raises:
        ConfigError: no decoder has this name.
        ScoreError, NoTreeError: from the decoder; ScoreError too for an engine that it does not run
            on, and if sibling scores are missing that one of the second order needs.
    Cost: that of the decoder.
    """
    arcs, parts = parts_for(name, scores)
    decoder = DECODERS[name]
    if engine in ENGINES and engine not in decoder.engines["best"]:
        known = decoder.engines["best"]
        raise ScoreError(
            f"{name} does not run on the engine {engine!r}, only on {' or '.join(known)}"
        )
    if are_checked and engine in ("torch", "triton"):
        search = device_search(name, engine)
        if decoder.order == 2:
            ends = scores.end
            arcs.append(torch.zeros_like(scores.arc) if ends is None else ends)
        return Parse(*search(*arcs, scores.lengths, single_root=single_root)[:2])
    options: dict[str, float | None] = {}
    if decoder.starts_from or decoder.certifies:
        options["min_gain"] = min_gain
    if decoder.certifies:
        options["granularity"] = granularity
    found, values, *more = FUNCTIONS[name, "best"](
        *arcs, scores.lengths, single_root=single_root, engine=engine, **parts, **options
    )
    if decoder.gives_graphs:
        return Parse(None, values, found)
    if decoder.certifies:
        return Parse(found, values, None, *more)
    return Parse(found, values)
