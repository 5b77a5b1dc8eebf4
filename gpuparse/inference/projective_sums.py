"""Sums over projective trees of the first and second order, and random trees."""

import torch
from torch import Tensor

from gpuparse.errors import ScoreError
from gpuparse.inference.decoders import Engine
from gpuparse.inference.engines import choose_engine, is_traced
from gpuparse.inference.native_trees import draw_native_trees, require_sample_count
from gpuparse.inference.scores import Lengths, check_arcs, check_sibling_scores, device_of
from gpuparse.inference.tree_sums import (
    SummedTrees,
    draw_trees,
    find_entropies,
    find_log_partitions,
    find_marginals,
)

LARGEST_SUM = 1e15  # a log-partition with some digits behind the point


def eisner_log_partition(
    arc_scores: Tensor, lengths: Lengths, *, single_root: bool = False, engine: str = "auto"
) -> Tensor:
    """Logarithm of the sum of exp(score) over all projective trees of every sentence.

    Args:
        arc_scores, lengths, single_root: as `eisner` reads them; all is computed in float64.
        engine: "auto", "native", "torch" or "triton". Second derivatives come from the torch form.
    Returns: float64 (B,), 0 for a sentence without words; differentiable, its gradient is
        `eisner_marginals`. The engines agree to about 1e-12 of the largest sum of scores.
    Raises:
        ScoreError: wrong shapes, types, lengths or values; an unknown engine.
        NoTreeError: a sentence, named by its index, has no tree without forbidden arcs.
    Cost: O(n^3) time; O(n^2) memory per sentence, in torch O(n^3) where gradients are kept.
    Source: Eisner 1996 with sums (inside algorithm); spec of the charts as `eisner`.
    """
    engine = choose_engine(engine, device_of(arc_scores), has_kernels=True)
    trees = _checked(arc_scores, None, lengths, None, single_root)
    return find_log_partitions(trees, engine)


def eisner_sibling_log_partition(
    arc_scores: Tensor,
    sibling_scores: Tensor,
    lengths: Lengths,
    *,
    end_scores: Tensor | None = None,
    single_root: bool = False,
    engine: str = "auto",
) -> Tensor:
    """`eisner_log_partition` under scores of arcs and siblings.

    Its gradients are marginals: with respect to the arc scores those of arcs, to the sibling scores
    those of pairs of siblings (and of arcs without an inner sibling), to the end scores the
    probability that a word is the outermost modifier on its side.

    Args:
        arc_scores, sibling_scores, lengths, end_scores, single_root: as `eisner_sibling`.
        engine: as `eisner_log_partition`.
    Returns: float64 (B,), 0 for a sentence without words; differentiable.
    Raises: ScoreError, NoTreeError: as `eisner_sibling`.
    Cost: O(n^3) time; without torch O(n^2) memory per sentence beside the scores and their
    gradients.
    Source: McDonald & Pereira 2006, section 2.2, with sums for maxima; differs: as
    `eisner_sibling`.
    """
    engine = choose_engine(engine, device_of(arc_scores), has_kernels=True)
    trees = _checked(arc_scores, sibling_scores, lengths, end_scores, single_root)
    return find_log_partitions(trees, engine)


def eisner_marginals(
    arc_scores: Tensor, lengths: Lengths, *, single_root: bool = False, engine: str = "auto"
) -> Tensor:
    """Probability of every arc, trees having probabilities proportional to exp(score).

    Args: as `eisner_log_partition`.
    Returns: float64 (B, N, N): each word's column sums to 1; 0 where scores are not read.
        Differentiable.
    Raises: as `eisner_log_partition`; ScoreError for a log-partition beyond 1e15, whose rounding
        would leave no digits.
    Cost: O(n^3) time; O(n^2) memory per sentence, O(n^3) in torch.
    Source: inside-outside; in torch the outside part is the derivative of the inside part (Eisner
    2016, "Inside-outside and forward-backward algorithms are just backprop").
    """
    engine = choose_engine(engine, device_of(arc_scores), has_kernels=True)
    return _marginals(_checked(arc_scores, None, lengths, None, single_root), engine, 1)[0]


def eisner_sibling_marginals(
    arc_scores: Tensor,
    sibling_scores: Tensor,
    lengths: Lengths,
    *,
    end_scores: Tensor | None = None,
    single_root: bool = False,
    engine: str = "auto",
) -> Tensor:
    """`eisner_marginals` of arcs, under scores of arcs and siblings.

    Args: as `eisner_sibling_log_partition`, whose gradients are the marginals of the other parts.
    Returns: as `eisner_marginals`.
    Raises: as `eisner_sibling_log_partition`; ScoreError as `eisner_marginals`.
    Cost, source: as `eisner_marginals`.
    """
    engine = choose_engine(engine, device_of(arc_scores), has_kernels=True)
    trees = _checked(arc_scores, sibling_scores, lengths, end_scores, single_root)
    return _marginals(trees, engine, 1)[0]


def eisner_sibling_part_marginals(
    arc_scores: Tensor,
    sibling_scores: Tensor,
    lengths: Lengths,
    *,
    end_scores: Tensor | None = None,
    single_root: bool = False,
    engine: str = "auto",
) -> tuple[Tensor, ...]:
    """`eisner_sibling_marginals` of arcs, siblings and ends, shaped as their scores."""
    engine = choose_engine(engine, device_of(arc_scores), has_kernels=True)
    trees = _checked(arc_scores, sibling_scores, lengths, end_scores, single_root)
    return _marginals(trees, engine, 3)


def eisner_entropy(
    arc_scores: Tensor, lengths: Lengths, *, single_root: bool = False, engine: str = "auto"
) -> Tensor:
    """Entropy of the distribution over projective trees, in nats.

    It is the sum over all spans of the probability of the span times the entropy of the choice
    among its splits, collected with the inside sums: nothing cancels, for scores of any
    size. Rounding of the sums of scores remains: about 1e-16 of the largest sum, relatively.

    Args:
        as `eisner_log_partition`. In native code it comes from the marginals where that loses
        no digits, else from the torch form, as its gradient.
    Returns: float64 (B,), 0 for a sentence without words; differentiable.
    Raises: as `eisner_log_partition`.
    Cost: as `eisner_log_partition`, about twice.
    Source: the expectation semiring of Li & Eisner 2009; differs: expectations of the surprise at
    each split, so that all terms are positive.
    """
    engine = choose_engine(engine, device_of(arc_scores), has_kernels=True)
    return find_entropies(_checked(arc_scores, None, lengths, None, single_root), engine)


def eisner_sibling_entropy(
    arc_scores: Tensor,
    sibling_scores: Tensor,
    lengths: Lengths,
    *,
    end_scores: Tensor | None = None,
    single_root: bool = False,
    engine: str = "auto",
) -> Tensor:
    """`eisner_entropy` under scores of arcs and siblings.

    Args: as `eisner_sibling_log_partition`.
    Returns: float64 (B,), 0 for a sentence without words; differentiable.
    Raises: as `eisner_sibling_log_partition`.
    Cost: O(n^3) time and memory.
    Source: as `eisner_entropy`.
    """
    engine = choose_engine(engine, device_of(arc_scores), has_kernels=True)
    trees = _checked(arc_scores, sibling_scores, lengths, end_scores, single_root)
    return find_entropies(trees, engine)


def eisner_sample(
    arc_scores: Tensor,
    lengths: Lengths,
    n_samples: int,
    generator: torch.Generator | None = None,
    *,
    single_root: bool = False,
    engine: str = "auto",
) -> Tensor:
    """Independent projective trees, each drawn with its exact probability.

    In native code the generator gives one seed per sentence, in the order of the batch. Sample k of
    a sentence depends on its seed, its scores and k alone: not on the other sentences, the padding,
    the number of samples or the threads. In torch the trees are others, of the same distribution,
    and depend on the batch and the device.

    Args:
        arc_scores, lengths, single_root: as `eisner_log_partition`.
        n_samples: trees for each sentence.
        generator: where randomness comes from; None: torch's own, of the device. In native code it
            moves on by B numbers. In torch one of another device gives the seed.
        engine: "auto", "native" or "torch". Traced code draws by native code on any device.
    Returns:
        heads int64 (B, n_samples, N), -1 at position 0 and in padding, on the device of the scores.
    Raises: as `eisner_log_partition`; ScoreError for a negative number of samples.
    Cost: O(n^3) once and O(n^2) per sample, in torch O(n^2 log n); O(n^3) memory in torch.
    Source: top-down through the inside chart (forward filtering, backward sampling).
    """
    engine = choose_engine(engine, device_of(arc_scores))
    require_sample_count(n_samples)
    trees = _checked(arc_scores, None, lengths, None, single_root)
    return _sample(trees, engine, n_samples, generator)


def eisner_sibling_sample(
    arc_scores: Tensor,
    sibling_scores: Tensor,
    lengths: Lengths,
    n_samples: int,
    generator: torch.Generator | None = None,
    *,
    end_scores: Tensor | None = None,
    single_root: bool = False,
    engine: str = "auto",
) -> Tensor:
    """`eisner_sample` under scores of arcs and siblings.

    Args:
        arc_scores, sibling_scores, lengths, end_scores, single_root: as `eisner_sibling`.
        n_samples, generator, engine: as `eisner_sample`.
    Returns: as `eisner_sample`.
    Raises: as `eisner_sibling_log_partition`; ScoreError for a negative number of samples.
    Cost, source: as `eisner_sample`.
    """
    engine = choose_engine(engine, device_of(arc_scores))
    require_sample_count(n_samples)
    trees = _checked(arc_scores, sibling_scores, lengths, end_scores, single_root)
    return _sample(trees, engine, n_samples, generator)


def _checked(
    arc_scores: Tensor,
    sibling_scores: Tensor | None,
    lengths: Lengths,
    end_scores: Tensor | None,
    single_root: bool,
) -> SummedTrees:
    """The scores of a batch; no siblings: those of the first order."""
    parts: tuple[Tensor, ...]
    if sibling_scores is None:
        decoder, words, parts = "eisner", check_arcs(arc_scores, lengths)[1], (arc_scores,)
    else:
        *_, words = check_sibling_scores(arc_scores, sibling_scores, lengths, end_scores)
        ends = torch.zeros_like(arc_scores) if end_scores is None else end_scores
        decoder, parts = "eisner_sibling", (arc_scores, sibling_scores, ends)
    wide = tuple(part.to(torch.float64) for part in parts)
    return SummedTrees(decoder, single_root, words, wide)


def _marginals(trees: SummedTrees, engine: Engine, count: int) -> tuple[Tensor, ...]:
    log_partition, *marginals = find_marginals(trees, engine, count)
    if not is_traced():
        _require_digits(log_partition)
    return tuple(marginals)


def _require_digits(log_partition: Tensor) -> None:
    """Raise ScoreError where sums are so large that their differences have no digits."""
    is_far = ~(log_partition.abs() <= LARGEST_SUM)
    if bool(is_far.any()):
        b = int(is_far.nonzero()[0])
        raise ScoreError(
            f"sentence {b}: its log-partition is {float(log_partition[b]):.3g}, beyond"
            f" {LARGEST_SUM:g}: the scores are too far for marginals; scale or shift them"
        )


def _sample(
    trees: SummedTrees, engine: Engine, n_samples: int, generator: torch.Generator | None
) -> Tensor:
    if engine == "torch" and not is_traced():
        return draw_trees(trees, n_samples, generator)
    seeds = _draw_seeds(len(trees.lengths), generator)
    return draw_native_trees(*trees[:3], list(trees.parts), seeds, n_samples)[0]


def _draw_seeds(n_batch: int, generator: torch.Generator | None) -> Tensor:
    """One seed per sentence, int64 (B,) in main memory; the first ones do not depend on B."""
    device = "cpu" if generator is None else generator.device
    seeds = [
        torch.randint(2**63 - 1, (1,), generator=generator, device=device) for _ in range(n_batch)
    ]
    return torch.cat([*seeds, torch.empty(0, dtype=torch.int64, device=device)]).cpu()
