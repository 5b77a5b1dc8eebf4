"""Sums over projective trees of the first and second order, and random trees."""

from typing import NamedTuple

import torch
from torch import Tensor

from gpuparse.errors import ScoreError
from gpuparse.inference.charts import eisner as first_order
from gpuparse.inference.charts import eisner_sibling as second_order
from gpuparse.inference.decoders import Engine
from gpuparse.inference.engines import choose_engine, is_traced
from gpuparse.inference.native_trees import (
    LogPartition,
    draw_trees,
    require_sample_count,
    sum_trees,
)
from gpuparse.inference.scores import (
    Lengths,
    check_arcs,
    check_sibling_scores,
    device_of,
    read_cells,
    read_part_cells,
    require_trees,
)
from gpuparse.inference.torch.charts import differentiate, log_sums

LARGEST_SUM = 1e15  # a log-partition with some digits behind the point


def eisner_log_partition(
    arc_scores: Tensor, lengths: Lengths, *, single_root: bool = False, engine: str = "auto"
) -> Tensor:
    """Logarithm of the sum of exp(score) over all projective trees of every sentence.

    Args:
        arc_scores, lengths, single_root: as `eisner` reads them; all is computed in float64.
        engine: "auto", "torch" or "native". Second derivatives come from the torch form.
    Returns: float64 (B,), 0 for a sentence without words; differentiable, its gradient is
        `eisner_marginals`. The engines agree to about 1e-12 of the largest sum of scores.
    Raises:
        ScoreError: wrong shapes, types, lengths or values; an unknown engine.
        NoTreeError: a sentence, named by its index, has no tree without forbidden arcs.
    Cost: O(n^3) time; O(n^2) memory per sentence in native code, in torch O(n^3) where gradients
    are kept.
    Source: Eisner 1996 with sums (inside algorithm); spec of the charts as `eisner`.
    """
    engine = choose_engine(engine, device_of(arc_scores))
    given = _checked(arc_scores, None, lengths, None)
    if engine == "native" and torch.is_grad_enabled() and arc_scores.requires_grad:
        log_partition: Tensor = LogPartition.apply(
            given.arc, given.lengths, "eisner", single_root, _differentiable_marginals
        )
        return log_partition
    return _log_partition(given, single_root, engine)


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
        engine: "auto", "torch" or "native". Where a gradient is asked for, "auto" takes
            the torch form; "native" has none.
    Returns: float64 (B,), 0 for a sentence without words; differentiable in the torch form.
    Raises: ScoreError, NoTreeError: as `eisner_sibling`.
    Cost: O(n^3) time; native code takes O(n^2) memory per sentence beside the scores.
    Source: McDonald & Pereira 2006, section 2.2, with sums for maxima; differs: as
    `eisner_sibling`.
    """
    engine = _choose(engine, arc_scores, sibling_scores, end_scores)
    given = _checked(arc_scores, sibling_scores, lengths, end_scores)
    return _log_partition(given, single_root, engine)


def eisner_marginals(
    arc_scores: Tensor, lengths: Lengths, *, single_root: bool = False, engine: str = "auto"
) -> Tensor:
    """Probability of every arc, trees having probabilities proportional to exp(score).

    Args: as `eisner_log_partition`. Where a gradient is asked for, "auto" takes the torch form.
    Returns: float64 (B, N, N): each word's column sums to 1; 0 where scores are not read.
        Differentiable in the torch form.
    Raises: as `eisner_log_partition`; ScoreError for a log-partition beyond 1e15, whose rounding
        would leave no digits.
    Cost: O(n^3) time; O(n^2) memory per sentence in native code, O(n^3) in torch.
    Source: inside-outside; in torch the outside part is the derivative of the inside part (Eisner
    2016, "Inside-outside and forward-backward algorithms are just backprop").
    """
    engine = _choose(engine, arc_scores)
    return _marginals(_checked(arc_scores, None, lengths, None), single_root, engine)


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
    engine = _choose(engine, arc_scores, sibling_scores, end_scores)
    given = _checked(arc_scores, sibling_scores, lengths, end_scores)
    return _marginals(given, single_root, engine)


def eisner_entropy(
    arc_scores: Tensor, lengths: Lengths, *, single_root: bool = False, engine: str = "auto"
) -> Tensor:
    """Entropy of the distribution over projective trees, in nats.

    It is the sum over all spans of the probability of the span times the entropy of the choice
    among its splits, collected with the inside sums: nothing cancels, for scores of any
    size. Rounding of the sums of scores remains: about 1e-16 of the largest sum, relatively.

    Args:
        as `eisner_log_partition`. In native code it comes from the marginals where that loses
        no digits, else from the torch form, as wherever a gradient is asked for.
    Returns: float64 (B,), 0 for a sentence without words; differentiable.
    Raises: as `eisner_log_partition`.
    Cost: as `eisner_log_partition`, about twice.
    Source: the expectation semiring of Li & Eisner 2009; differs: expectations of the surprise at
    each split, so that all terms are positive.
    """
    engine = _choose(engine, arc_scores)
    given = _checked(arc_scores, None, lengths, None)
    if engine != "native":
        return _entropy(given, single_root)
    log_partition, marginals = sum_trees(*given.native, single_root=single_root)
    entropy, is_sharp = _entropy_of_marginals(log_partition, marginals, given)
    rest = (~is_sharp).nonzero()[:, 0]
    if len(rest):
        entropy[rest] = _entropy(
            _CheckedScores({"arc": given.arc.detach()[rest]}, given.lengths[rest]), single_root
        )
    return entropy


def eisner_sibling_entropy(
    arc_scores: Tensor,
    sibling_scores: Tensor,
    lengths: Lengths,
    *,
    end_scores: Tensor | None = None,
    single_root: bool = False,
) -> Tensor:
    """`eisner_entropy` under scores of arcs and siblings, always in torch.

    Args: as `eisner_sibling_log_partition`.
    Returns: float64 (B,), 0 for a sentence without words; differentiable.
    Raises: as `eisner_sibling_log_partition`.
    Cost: O(n^3) time and memory.
    Source: as `eisner_entropy`.
    """
    return _entropy(_checked(arc_scores, sibling_scores, lengths, end_scores), single_root)


def eisner_sample(
    arc_scores: Tensor,
    lengths: Lengths,
    n_samples: int,
    generator: torch.Generator | None = None,
    *,
    single_root: bool = False,
) -> Tensor:
    """Independent projective trees, each drawn with its exact probability.

    The generator gives one seed a sentence, in the order of the batch. Sample k of a sentence
    depends on its seed, its scores and k alone: not on the other sentences, the padding, the number
    of samples, the device or the threads.

    Args:
        arc_scores, lengths, single_root: as `eisner_log_partition`.
        n_samples: trees for each sentence.
        generator: where randomness comes from; None: torch's own. It moves on by B numbers.
    Returns:
        heads int64 (B, n_samples, N), -1 at position 0 and in padding, on the device of the scores.
    Raises: as `eisner_log_partition`; ScoreError for a negative number of samples.
    Cost: O(n^3) once and O(n^2) per sample; in native code and main memory for every device.
    Source: top-down through the inside chart (forward filtering, backward sampling).
    """
    require_sample_count(n_samples)
    return _sample(_checked(arc_scores, None, lengths, None), n_samples, generator, single_root)


def eisner_sibling_sample(
    arc_scores: Tensor,
    sibling_scores: Tensor,
    lengths: Lengths,
    n_samples: int,
    generator: torch.Generator | None = None,
    *,
    end_scores: Tensor | None = None,
    single_root: bool = False,
) -> Tensor:
    """`eisner_sample` under scores of arcs and siblings.

    Args:
        arc_scores, sibling_scores, lengths, end_scores, single_root: as `eisner_sibling`.
        n_samples, generator: as `eisner_sample`.
    Returns: as `eisner_sample`.
    Raises: as `eisner_sibling_log_partition`; ScoreError for a negative number of samples.
    Cost, source: as `eisner_sample`.
    """
    require_sample_count(n_samples)
    given = _checked(arc_scores, sibling_scores, lengths, end_scores)
    return _sample(given, n_samples, generator, single_root)


class _CheckedScores(NamedTuple):
    """Checked scores as float64, by their names in the chart, still attached; lengths int64."""

    scores: dict[str, Tensor]
    lengths: Tensor

    @property
    def arc(self) -> Tensor:
        return self.scores["arc"]

    @property
    def has_siblings(self) -> bool:
        return "sib" in self.scores

    @property
    def native(self) -> tuple[str, Tensor, *tuple[Tensor, ...]]:
        """For native code, which reads no other cells than those of parts."""
        decoder = "eisner_sibling" if self.has_siblings else "eisner"
        return decoder, self.lengths, *self.scores.values()

    def readable(self) -> "_CheckedScores":
        """0 where nothing is to be read."""
        n_nodes = self.arc.shape[1]
        read = {name: read_cells(self.lengths, n_nodes) for name in self.scores}
        if self.has_siblings:
            read["sib"] = read_part_cells(self.lengths, n_nodes, "sibling")
        scores = {name: torch.where(read[name], part, 0.0) for name, part in self.scores.items()}
        return _CheckedScores(scores, self.lengths)

    def log_sums(self, single_root: bool, with_entropy: bool) -> Tensor:
        """Log-partition and, if asked for, entropy in torch: (1 or 2, B); of `readable`."""
        chart = (second_order if self.has_siblings else first_order).CHART
        return log_sums(
            chart, self.scores, self.lengths, single_root=single_root, with_entropy=with_entropy
        )


def _checked(
    arc_scores: Tensor, sibling_scores: Tensor | None, lengths: Lengths, end_scores: Tensor | None
) -> _CheckedScores:
    """The scores of a batch; no siblings: those of the first order."""
    if sibling_scores is None:
        words, parts = check_arcs(arc_scores, lengths)[1], {"arc": arc_scores}
    else:
        *_, words = check_sibling_scores(arc_scores, sibling_scores, lengths, end_scores)
        ends = torch.zeros_like(arc_scores) if end_scores is None else end_scores
        parts = {"arc": arc_scores, "sib": sibling_scores, "end": ends}
    return _CheckedScores({name: part.to(torch.float64) for name, part in parts.items()}, words)


def _needs_gradient(*scores: Tensor | None) -> bool:
    return torch.is_grad_enabled() and any(
        isinstance(part, Tensor) and part.requires_grad for part in scores
    )


def _choose(engine: str, arcs: Tensor, *others: Tensor | None) -> Engine:
    """The engine; where a gradient is asked for, "auto" is the torch form."""
    if engine == "auto" and _needs_gradient(arcs, *others):
        return "torch"
    return choose_engine(engine, device_of(arcs))


def _log_partition(given: _CheckedScores, single_root: bool, engine: Engine) -> Tensor:
    if engine == "native":
        return sum_trees(*given.native, single_root=single_root, with_marginals=False)[0]
    log_partition = given.readable().log_sums(single_root, with_entropy=False)[0]
    require_trees(log_partition)
    return log_partition


def _marginals(given: _CheckedScores, single_root: bool, engine: Engine) -> Tensor:
    if engine == "native":
        log_partition, marginals = sum_trees(*given.native, single_root=single_root)
        assert marginals is not None
        _require_digits(log_partition)
        return marginals
    needs_gradient = _needs_gradient(*given.scores.values())
    log_partition, marginals = _marginals_torch(given, single_root, needs_gradient)
    require_trees(log_partition)
    if not is_traced():
        _require_digits(log_partition.detach())
    return marginals


def _require_digits(log_partition: Tensor) -> None:
    """Raise ScoreError where sums are so large that their differences have no digits."""
    is_far = ~(log_partition.abs() <= LARGEST_SUM)
    if bool(is_far.any()):
        b = int(is_far.nonzero()[0])
        raise ScoreError(
            f"sentence {b}: its log-partition is {float(log_partition[b]):.3g}, beyond"
            f" {LARGEST_SUM:g}: the scores are too far for marginals; scale or shift them"
        )


def _entropy(given: _CheckedScores, single_root: bool) -> Tensor:
    log_partition, entropy = given.readable().log_sums(single_root, with_entropy=True)
    require_trees(log_partition)
    return entropy


def _sample(
    given: _CheckedScores, n_samples: int, generator: torch.Generator | None, single_root: bool
) -> Tensor:
    seeds = _draw_seeds(len(given.lengths), generator)
    return draw_trees(*given.native, n_samples=n_samples, seeds=seeds, single_root=single_root)


def _draw_seeds(n_batch: int, generator: torch.Generator | None) -> Tensor:
    """One seed a sentence, int64 (B,) in main memory; the first ones do not depend on B."""
    device = "cpu" if generator is None else generator.device
    seeds = [
        torch.randint(2**63 - 1, (1,), generator=generator, device=device) for _ in range(n_batch)
    ]
    return torch.cat([*seeds, torch.empty(0, dtype=torch.int64, device=device)]).cpu()


def _entropy_of_marginals(
    log_partition: Tensor, marginals: Tensor | None, given: _CheckedScores
) -> tuple[Tensor, Tensor]:
    """log Z - <marginals, scores>, and whether no more than three digits cancel; both (B,)."""
    assert marginals is not None
    arcs = given.arc.detach()
    # The largest score into each word, 0 where there is no finite one.
    top = arcs.masked_fill(~read_cells(given.lengths, arcs.shape[1]), -torch.inf).amax(1)
    top = top.masked_fill(top == -torch.inf, 0.0)
    # 0 * -inf = 0: forbidden arcs have no probability.
    shifted = torch.where(marginals > 0, arcs - top[:, None], 0.0)
    expected = (marginals * shifted).flatten(1).sum(1)
    is_sharp = (expected > -1e3) & (top.abs().sum(1) < 1e5)
    return (log_partition - top.sum(1) - expected).clamp(min=0.0), is_sharp


def _marginals_torch(
    given: _CheckedScores, single_root: bool, needs_gradient: bool
) -> tuple[Tensor, Tensor]:
    """Log-partition (B,) and arc marginals (B, N, N) by differentiation."""
    given = given.readable()
    with torch.inference_mode(False):  # autograd refuses tensors that were made in inference mode
        lengths, scores = given.lengths.clone(), given.scores
        if not needs_gradient:
            scores = {name: part.detach().clone() for name, part in scores.items()}

    def log_partitions(arcs: Tensor) -> Tensor:
        parts = _CheckedScores({**scores, "arc": arcs}, lengths)
        return parts.log_sums(single_root, with_entropy=False)[0]

    return differentiate(log_partitions, scores["arc"], keep_gradients=needs_gradient)


def _differentiable_marginals(arcs: Tensor, lengths: Tensor, single_root: bool) -> Tensor:
    given = _CheckedScores({"arc": arcs}, lengths)
    return _marginals_torch(given, single_root, needs_gradient=True)[1]
