"""Sums over all trees of a sentence, crossing arcs allowed: partition, marginals, entropy, samples.

All in float64, for scores of any type. native/matrix_tree.h explains the elimination without
subtractions; torch/matrix_tree.py has it once more in torch, for other devices and derivatives.
"""

import torch
from torch import Tensor

from gpuparse.errors import ScoreError
from gpuparse.inference.engines import choose_engine, is_traced
from gpuparse.inference.native_trees import draw_native_trees, require_sample_count
from gpuparse.inference.scores import Lengths, check_arcs, device_of, require_tensor
from gpuparse.inference.torch.matrix_tree import read_scores
from gpuparse.inference.tree_sums import (
    SummedTrees,
    draw_trees,
    find_entropies,
    find_log_partitions,
    find_marginals,
)

LARGEST = 1e100  # of scores, far from the logarithm of no weight


def matrix_tree_log_partition(
    arc_scores: Tensor, lengths: Lengths, *, single_root: bool = False, engine: str = "auto"
) -> Tensor:
    """Logarithm of the sum of exp(score) over all trees; differentiable, any number of times.

    Its gradient is `matrix_tree_marginals`.

    Args:
        arc_scores, lengths, single_root: as `chu_liu_edmonds` reads them; scores in nats.
        engine: "auto", "native" or "torch".
    Returns: float64 (B,) in nats, on the device of `arc_scores`; 0 for a sentence without words.
    Raises:
        ScoreError: wrong shapes, types, lengths or values, or a score beyond 1e100.
        NoTreeError: a sentence, named by its index, has no tree without forbidden arcs.
    Cost: O(n^3) time, O(n^2) memory per sentence. Sums in torch, and second derivatives of all
    engines, take an inverse of the Laplacian where that is precise, as a bound of its errors or its
    marginals show, and else the elimination in torch, n steps, with O(n^3) memory for derivatives.
    To choose waits for the device once. Native code takes about three times as long where scores
    lie more than 300 nats apart, whose exponentials need wider exponents than a float64 has.
    Source: Koo, Globerson, Carreras & Collins 2007; Smith & Smith 2007; McDonald & Satta 2007;
    differs: without an inverse, an elimination without subtractions, right to the last digits at
    any scale of the scores; a single root by its limit (native/matrix_tree.h).
    """
    engine = choose_engine(engine, device_of(arc_scores))
    return find_log_partitions(_checked(arc_scores, lengths, single_root), engine)


def matrix_tree_marginals(
    arc_scores: Tensor, lengths: Lengths, *, single_root: bool = False, engine: str = "auto"
) -> Tensor:
    """The probability of every arc, trees being drawn by exp(score); differentiable.

    Args: arc_scores, lengths, single_root, engine: as in `matrix_tree_log_partition`.
    Returns: float64 (B, N, N), [b, h, m]; 0 where no score is read. Each word's column sums to 1,
        and with a single root so does row 0.
    Raises: ScoreError, NoTreeError: as `matrix_tree_log_partition`.
    Cost: O(n^3) per sentence, about 1.3 n^3 multiplications; see `matrix_tree_log_partition` for
    scores that lie far apart.
    Source: that of `matrix_tree_log_partition`; the walks of Wilson 1996 give the marginals without
    subtractions.
    """
    engine = choose_engine(engine, device_of(arc_scores))
    return find_marginals(_checked(arc_scores, lengths, single_root), engine, 1)[1]


def matrix_tree_entropy(
    arc_scores: Tensor, lengths: Lengths, *, single_root: bool = False, engine: str = "auto"
) -> Tensor:
    """Entropy of the distribution over trees, each drawn by exp(score); differentiable.

    Args: arc_scores, lengths, single_root, engine: as in `matrix_tree_log_partition`.
    Returns: float64 (B,) in nats.
    Raises: ScoreError, NoTreeError: as `matrix_tree_log_partition`.
    Cost: that of the marginals; its gradient that of second derivatives of the log-partition.
    Source: Smith & Smith 2007, section 3.3; differs: where the log-partition minus the expected
    score is a difference of large numbers, spreads that the elimination carries.
    """
    engine = choose_engine(engine, device_of(arc_scores))
    return find_entropies(_checked(arc_scores, lengths, single_root), engine)


def matrix_tree_sample(
    arc_scores: Tensor,
    lengths: Lengths,
    n_samples: int,
    generator: torch.Generator | None = None,
    *,
    single_root: bool = False,
    engine: str = "auto",
) -> Tensor:
    """Independent random trees, each with a probability proportional to exp(score); exact.

    Args:
        arc_scores, lengths, single_root: as in `matrix_tree_log_partition`.
        n_samples: trees of each sentence.
        generator: None: torch's own. In native code it is on the CPU, and one int64 is drawn from
            it for each sentence of the batch, in order. Tree s of sentence b depends on the scores
            of the sentence, on the b-th of these numbers and on s: not on other sentences, padding,
            threads or n_samples.
        engine: as `eisner_sample`, as is the generator in torch.
    Returns: heads int64 (B, n_samples, N), -1 at position 0 and in padding, on the device of the
        scores.
    Raises:
        ScoreError: as `matrix_tree_log_partition`, or a negative n_samples.
        NoTreeError: as `matrix_tree_log_partition`.
    Cost: O(n^3) per sentence and typically O(n^2) per tree, at the worst O(n^3); in torch
    O(n^2 log n) per tree and O(n^3) memory.
    Source: native/matrix_tree_sample.h; differs from Wilson 1996, whose walks may take
    forever where cycles outweigh trees.
    """
    engine = choose_engine(engine, device_of(arc_scores))
    require_sample_count(n_samples)
    require_tensor(arc_scores, "arc_scores")
    trees = _checked(arc_scores.detach(), lengths, single_root)
    if engine == "torch" and not is_traced():
        return draw_trees(trees, n_samples, generator)
    numbers = torch.iinfo(torch.int64)
    n_batch = len(trees.lengths)
    seeds = torch.randint(numbers.min, numbers.max, (n_batch,), generator=generator)
    return draw_native_trees(*trees[:3], list(trees.parts), seeds, n_samples)[0]


def _checked(arc_scores: Tensor, lengths: Lengths, single_root: bool) -> SummedTrees:
    """Raises: ScoreError: as `matrix_tree_log_partition`."""
    arcs, words = check_arcs(arc_scores, lengths)
    scores = arc_scores.double().contiguous()
    if arcs.dtype == torch.float64 and not is_traced():  # no other type reaches as far
        size = read_scores(scores.detach(), words).abs()
        if bool(((size > LARGEST) & (size < torch.inf)).any()):
            raise ScoreError(
                f"a score is not between -{LARGEST:g} and {LARGEST:g}: too far for sums"
            )
    return SummedTrees("chu_liu_edmonds", single_root, words, (scores,))
