"""Distributions over dependency trees: one object for best trees, sums, samples and losses.

    trees = ProjectiveTrees(arc_scores, lengths)  # or NonProjectiveTrees
    heads, scores = trees.best()
    loss = conditional_loss(trees, gold_heads).mean()  # or hinge_loss

The probability of a tree is proportional to exp of its score, the sum of the scores of its parts.
Which parts there are decides the order of the model; which quantities exist for that order says the
table in decoders.py. All numbers are float64, for scores of any type, and
differentiable in them. All of it is traced whole by torch.compile(fullgraph=True) and transformed
by torch.func; values are not checked then.
"""

from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from typing import Any, ClassVar, Literal, NamedTuple, Self, TypeVar

import numpy as np
import torch
from torch import Tensor
from torch.distributions import Distribution, register_kl

from gpuparse.errors import ScoreError
from gpuparse.inference.best_trees import find_unchecked
from gpuparse.inference.decoders import DECODERS, Decoder, Quantity, with_quantity
from gpuparse.inference.engines import choose_engine, is_traced
from gpuparse.inference.marginals import minimum_bayes_risk
from gpuparse.inference.operators import operation
from gpuparse.inference.projective_sums import eisner_sibling_part_marginals
from gpuparse.inference.scores import (
    Lengths,
    Scores,
    as_float,
    as_lengths,
    fails,
    lengths_of_mask,
    require_tensor,
    word_mask,
)
from gpuparse.inference.search import NO_HEAD
from gpuparse.inference.searches import FUNCTIONS, parts_for
from gpuparse.inference.support import TreeKind, Unreachable, as_heads
from gpuparse.inference.tree_parts import find_parts, scores_of_words
from gpuparse.inference.tree_sums import (
    SummedTrees,
    find_entropies,
    find_log_partitions,
    find_marginals,
)

Result = TypeVar("Result")
Change = Callable[[Tensor], Tensor]

_OTHER_PARTS = tuple(f.name for f in fields(Scores) if f.name not in ("arc", "lengths"))


class Best(NamedTuple):
    """Best trees of a batch.

    heads: int64 (B, N), -1 at the root and in padding; scores: float64 (B,). certified: bool (B,),
    whether no tree scores more; None where the search is exact, so that no tree does.
    """

    heads: Tensor
    scores: Tensor
    certified: Tensor | None = None


class KeptQuantities:
    """Scores of a batch, and quantities that are computed of them once."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, bool], Any] = {}
        self._kept_of: tuple[int, ...] = ()

    def __getstate__(self) -> dict[str, Any]:
        """For copies and pickles: the scores; quantities are computed again."""
        if any(part.grad_fn is not None for part in self._parts):
            raise ScoreError(
                "the scores are results of other tensors, which cannot be copied or pickled: make"
                " a distribution of scores.detach()"
            )
        return {**vars(self), "_kept": {}, "_kept_of": ()}

    @property
    def lengths(self) -> Tensor:
        """Words of each sentence, int64 (B,)."""
        raise NotImplementedError

    @property
    def _parts(self) -> list[Tensor]:
        """All scores."""
        raise NotImplementedError

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, which: Any) -> Self:
        """The distribution of some sentences.

        Args: which: an index, a slice, or a tensor or list of indices or of bools.
        Raises: IndexError: an index beyond the sentences. ScoreError: more than one axis.
        """
        if isinstance(which, (int, np.integer)):
            index = range(len(self))[which]
            which = slice(index, index + 1)
        elif not isinstance(which, slice):
            which = torch.as_tensor(which, device=self.lengths.device)
            if which.dim() != 1:
                raise ScoreError(f"the index has shape {tuple(which.shape)}, expected one axis")
        return self._changed(lambda part: part[which], shared=lambda part: part)

    def to(self, device: torch.device | str) -> Self:
        """The distribution on a device."""
        return self._changed(lambda part: part.to(device=device))

    def detach(self) -> Self:
        """The distribution without a graph."""
        return self._changed(Tensor.detach)

    def _changed(self, change: Change, shared: Change | None = None) -> Self:
        """The distribution with all scores, and the lengths, changed alike.

        shared: changes scores without an axis of sentences; None: as `change`.
        """
        raise NotImplementedError

    def _needs_gradient(self) -> bool:
        return torch.is_grad_enabled() and any(part.requires_grad for part in self._parts)

    def _keep(self, name: str, compute: Callable[[], Result]) -> Result:
        """A quantity that is computed once, and once more where gradients are wanted.

        Torch counts the changes of a tensor in place, but not of one made in inference mode.
        """
        if is_traced():
            return compute()
        tensors = (*self._parts, self.lengths)
        versions = tuple(0 if part.is_inference() else part._version for part in tensors)
        if versions != self._kept_of:
            self._kept, self._kept_of = {}, versions
        key = name, torch.is_grad_enabled()
        if key not in self._kept:
            self._kept[key] = compute()
        found: Result = self._kept[key]
        return found


class TreeDistribution(KeptQuantities):
    """Trees of one kind with probabilities proportional to exp(score).

    Args:
        arc_scores: score of head h -> modifier m, (B, N, N), where N counts the root and the words
            of the longest sentence; -inf forbids. Column 0, the diagonal and padding are not read.
        lengths: words of each sentence, integers (B,); None: N-1 of each.
        mask: in place of lengths: bool (B, N), true for words, as other packages have it; what it
            says of the root, position 0, is not read.
        sibling_scores, end_scores: as `eisner_sibling` reads them.
        grandparent_scores, grand_sibling_scores: as `eisner_grand_sibling` or, for non-projective
            trees, `dual_decomposition` reads them.
        tri_sibling_scores, outermost_scores: as the decoder of tri-siblings reads them.
        inner_grandchild_scores, outer_grandchild_scores: as `eisner_grandchild` reads them.
        single_root: exactly one modifier of the root; otherwise one or more.
        engine: as the public functions take it, for the quantities that exist there; others run on
            an engine that has them.
    Raises: ScoreError: wrong shapes or types, or parts that no decoder of these trees reads
        together. Values are checked by the functions that read them.
    """

    kind: Literal["projective", "all"]

    def __init__(
        self,
        arc_scores: Tensor,
        lengths: Lengths = None,
        *,
        mask: Tensor | None = None,
        single_root: bool = False,
        engine: str = "auto",
        **others: Tensor | None,
    ) -> None:
        if unknown := others.keys() - {f"{part}_scores" for part in _OTHER_PARTS}:
            raise TypeError(f"{type(self).__name__}() has no argument {min(unknown)!r}")
        require_tensor(arc_scores, "arc_scores")
        if arc_scores.dim() != 3 or arc_scores.shape[1] != arc_scores.shape[2]:
            raise ScoreError(f"arc_scores has shape {tuple(arc_scores.shape)}, expected (B, N, N)")
        if mask is not None:
            if lengths is not None:
                raise ScoreError("lengths and mask are given, expected one of them")
            lengths = lengths_of_mask(mask, arc_scores)
        parts = {name.removesuffix("_scores"): part for name, part in others.items()}
        self.scores = Scores(arc_scores, as_lengths(lengths, arc_scores), **parts)
        self.single_root = single_root
        self.engine = engine
        self.decoder = _decoder_of(self.kind, self.scores)
        super().__init__()

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(sentences={len(self.scores.arc)},"
            f" decoder={self.decoder.name!r}, single_root={self.single_root})"
        )

    @property
    def lengths(self) -> Tensor:
        """Words of each sentence, int64 (B,)."""
        return self.scores.lengths

    def _changed(
        self, change: Change, shared: Change | None = None, arc_scores: Tensor | None = None
    ) -> Self:
        parts: Any = {f"{name}_scores": change(part) for name, part in _given(self.scores).items()}
        arcs = change(self.scores.arc) if arc_scores is None else arc_scores
        return type(self)(
            arcs, change(self.lengths), single_root=self.single_root, engine=self.engine, **parts
        )

    def best(self) -> Best:
        """The tree with the highest score of every sentence; scores are differentiable.

        Traced code calls the search as one operation, and has no certificates.

        Raises: ScoreError, NoTreeError: from the decoder.
        Cost: that of the decoder.
        """
        if is_traced():
            names, parts = ",".join(_given(self.scores)), [part.detach() for part in self._parts]
            (heads,) = find_heads(
                self.kind, names, parts, self.lengths, self.single_root, self.engine
            )
            return Best(heads, self._score_of(heads))
        heads, values, *rest = self._call("best")
        if self._needs_gradient():
            values = with_gradient_of(values, self._score_of(heads))
        return Best(heads, values, rest[0] if self.decoder.certifies else None)

    def k_best(self, k: int) -> tuple[Tensor, Tensor]:
        """The k best trees of every sentence: heads (B, k, N) and scores float64 (B, k), falling.

        Where there are fewer trees, the rest have heads -1 and score -inf.

        Raises: ScoreError: no k best trees exist for these parts, or from the decoder; NoTreeError.
        Cost: that of the function, as `eisner_kbest`.
        """
        heads, values = self._call("k_best", k)
        if self._needs_gradient():
            own = self._score_of(heads).masked_fill(values == -torch.inf, 0.0)
            values = with_gradient_of(values, own)
        return heads, values

    @property
    def log_partition(self) -> Tensor:
        """Logarithm of the sum of exp(score) over all trees, float64 (B,)."""
        return self._keep("log_partition", lambda: self._call("log_partition"))

    @property
    def marginals(self) -> Tensor:
        """Probability of every arc, float64 (B, N, N); 0 where no score is read."""
        return self._keep("marginals", lambda: self._call("marginals"))

    @property
    def entropy(self) -> Tensor:
        """In nats, float64 (B,)."""
        return self._keep("entropy", lambda: self._call("entropy"))

    def expected_cost(self, gold_heads: Tensor | None = None, cost: float | Tensor = 1.0) -> Tensor:
        """The cost that a random tree has on average, its Bayes risk, float64 (B,).

        Args: gold_heads: as `augmented`: only arcs that are not in the gold tree cost anything.
            None: all arcs do. cost: of an arc, as `augmented`.
        Raises: ScoreError: as `augmented`; no marginals exist for these parts.
        """
        costs = self._costs(gold_heads, cost)
        return expectation([self.marginals], [costs])

    def cross_entropy(self, other: Self) -> Tensor:
        """Minus the expected log-probability of our trees under another distribution, float64 (B,).

        Args: other: of the same sentences, trees and parts; infinite where it forbids a part that
            our trees have.
        Raises: ScoreError: another kind of distribution; no marginals exist for these parts.
        """
        self._require_alike(other)
        return other.log_partition - expectation(self._part_marginals(), other._summed_parts())

    def kl(self, other: Self) -> Tensor:
        """Kullback-Leibler divergence from another distribution, float64 (B,), at least 0.

        Args, raises: as `cross_entropy`.
        """
        self._require_alike(other)
        pairs = zip(self._summed_parts(), other._summed_parts(), strict=True)
        gains = [ours.double() - theirs.double() for ours, theirs in pairs]
        total = other.log_partition - self.log_partition
        return (total + expectation(self._part_marginals(), gains)).clamp(min=0.0)

    def as_distribution(self) -> "TreeEvents":
        """The same as a `torch.distributions.Distribution` over heads.

        It is another object, since torch has methods where this one has properties, samples along
        the first axes and not the second, and shapes of samples in place of numbers.
        """
        return TreeEvents(self)

    def sample(
        self, count: int, *, seed: int | None = None, generator: torch.Generator | None = None
    ) -> Tensor:
        """Independent random trees, each with its exact probability: heads int64 (B, count, N).

        Args:
            count: trees of each sentence.
            seed: of a generator of its own; or generator: on the CPU or the scores' device;
                neither: torch's own.
        """
        with torch.no_grad():
            drawn: Tensor = self._call("samples", count, generator_of(seed, generator))
        return drawn

    def mbr(self) -> tuple[Tensor, Tensor]:
        """The tree with the most heads expected to be right (minimum Bayes risk).

        Returns: heads int64 (B, N); the expected number of right heads, float64 (B,).
        """
        marginals = self.marginals.detach()
        allowed = marginals.masked_fill(self.scores.arc.detach() == -torch.inf, -torch.inf)
        return minimum_bayes_risk(
            allowed, self.lengths, decoder=self.decoder.of_arcs, single_root=self.single_root,
            engine=self.engine,
        )  # fmt: skip

    def score_of(self, heads: Tensor) -> Tensor:
        """Scores of given trees, the sums of their parts; differentiable.

        Args:
            heads: integers (B, N) or, for several trees of each sentence, (B, K, N). Values at the
                root and in padding are not read. Where all words have the head -1 there is no
                tree, as in the heads of `k_best`.
        Returns: float64 (B,) or (B, K); 0 for trees without words, -inf where there is no tree and
            for trees with a forbidden part.
        Raises: ScoreError: a tree that the distribution does not have, such as one with crossing
            arcs under `ProjectiveTrees`; see `TreeKind.require` for other devices than the CPU.
        Cost: O(N^2) per tree.
        """
        heads = as_heads(heads, self.lengths, self.scores.arc.shape[1], several=True)
        is_word = word_mask(self.lengths, heads.shape[-1])
        is_word = is_word if heads.dim() == 2 else is_word[:, None]
        is_absent = ((heads == NO_HEAD) | ~is_word).all(-1) & is_word.any(-1)
        # A chain of words in its place, which all distributions have.
        chain = torch.arange(-1, heads.shape[-1] - 1, device=heads.device)
        heads = torch.where(is_absent[..., None], chain, heads)
        self._trees.require(heads)
        return self._score_of(heads).masked_fill(is_absent, -torch.inf)

    @property
    def _trees(self) -> TreeKind:
        return TreeKind(
            self.lengths, is_projective=self.kind == "projective", single_root=self.single_root
        )

    def reachable(
        self, heads: Tensor, unreachable: Unreachable, *, is_partial: bool = False
    ) -> tuple[Tensor, Tensor | None]:
        """Gold trees that the distribution has, and which sentences a loss leaves out.

        Args: heads: integers (B, N). unreachable: what is done about others, as the losses say.
            is_partial: whether heads of -1 are not known.
        Returns: heads int64 (B, N); bool (B,), or None if no sentence is left out.
        Raises: ScoreError: as `score_of`. ConfigError: another word for `unreachable`.
        """
        heads = as_heads(heads, self.lengths, self.scores.arc.shape[1])
        return self._trees.reachable(heads, unreachable, is_partial=is_partial)

    def _score_of(self, heads: Tensor) -> Tensor:
        """`score_of`, unchecked."""
        several = heads.dim() == 3
        parts = find_parts(heads if several else heads[:, None], self.lengths)
        of_words = scores_of_words(self.scores, parts)
        total = sum(of_words[1:], of_words[0]).sum(-1)
        return total if several else total[:, 0]

    def log_prob(self, heads: Tensor) -> Tensor:
        """Logarithms of the probabilities of given trees, float64; arguments as `score_of`."""
        scores, log_partition = self.score_of(heads), self.log_partition
        return scores - (log_partition[:, None] if scores.dim() == 2 else log_partition)

    def augmented(self, gold_heads: Tensor, cost: float | Tensor = 1.0) -> Self:
        """The distribution in which every arc that is not in the gold tree scores more.

        Its best tree is the one that a margin of `cost` for each wrong head punishes most. Its arc
        scores are float64.

        Args:
            gold_heads: integers (B, N); words with the head -1 have no wrong head.
            cost: of a wrong head; a number, or a tensor that (B, N, N), [b, h, m], broadcasts with.
        Raises: ScoreError: another type or shape; heads that are no word of the sentence, or on a
            cycle.
        """
        return self._with_arcs(self.scores.arc.double() + self._costs(gold_heads, cost))

    def _costs(self, gold_heads: Tensor | None, cost: float | Tensor) -> Tensor:
        """Costs (B, N, N) of all arcs, those of the gold tree 0; arguments as `expected_cost`."""
        arcs = self.scores.arc
        costs = as_cost(cost, arcs)
        if gold_heads is None:
            return costs
        gold_heads = as_heads(gold_heads, self.lengths, arcs.shape[1])
        kind = TreeKind(self.lengths, is_projective=False, single_root=False)
        kind.require(gold_heads, is_partial=True)
        position = torch.arange(arcs.shape[1], device=arcs.device)
        is_wrong = (gold_heads[:, None] != position[:, None]) & (gold_heads >= 0)[:, None]
        return costs.masked_fill(~is_wrong, 0.0)

    def constrained(self, known_heads: Tensor) -> Self:
        """The distribution over the trees that have all known heads.

        Args: known_heads: integers (B, N), -1 where a head is not known.
        Raises: ScoreError: another type or shape; heads that no tree of the distribution has.
        """
        arcs = as_float(self.scores.arc, "arc_scores")
        known_heads = as_heads(known_heads, self.lengths, arcs.shape[1])
        self._trees.require(known_heads, is_partial=True)
        position = torch.arange(arcs.shape[1], device=arcs.device)
        is_rival = (known_heads[:, None] != position[:, None]) & (known_heads >= 0)[:, None]
        return self._with_arcs(arcs.masked_fill(is_rival, -torch.inf))

    def _with_arcs(self, arc_scores: Tensor) -> Self:
        return self._changed(lambda part: part, arc_scores=arc_scores)

    @property
    def _parts(self) -> list[Tensor]:
        return [self.scores.arc, *_given(self.scores).values()]

    def _require_alike(self, other: "TreeDistribution") -> None:
        alike = type(self) is type(other) and self.decoder is other.decoder
        if not (alike and self.single_root == other.single_root):
            raise ScoreError(f"{self!r} and {other!r} have other trees or parts")
        what = "the two distributions have sentences of other lengths"
        has_shape = self.scores.arc.shape == other.scores.arc.shape
        if not has_shape or fails(self.lengths != other.lengths, what):
            raise ScoreError(what)

    def _part_marginals(self) -> tuple[Tensor, ...]:
        """Marginals of `_summed_parts`."""
        if self.decoder.order == 1 or not self.decoder.has("marginals"):
            return (self.marginals,)
        if self._is_on_device:
            return self._on_device("marginals", 3)
        arcs, siblings, ends = self._summed_parts()
        return eisner_sibling_part_marginals(
            arcs, siblings, self.lengths, end_scores=ends, single_root=self.single_root,
            engine=self.engine,
        )  # fmt: skip

    def _summed_parts(self) -> tuple[Tensor, ...]:
        """The scores that sums read: of arcs, and for siblings of siblings and ends, all there."""
        scores = self._with_siblings()
        if self.decoder.order == 1 or scores.sibling is None:
            return (scores.arc,)
        ends = torch.zeros_like(scores.arc) if scores.end is None else scores.end
        return scores.arc, scores.sibling, ends

    def _with_siblings(self) -> Scores:
        """The scores, with those of siblings where the functions of the decoder want them."""
        scores = self.scores
        if self.decoder.order != 2 or scores.sibling is not None:
            return scores
        shape = *scores.arc.shape, scores.arc.shape[1]
        return replace(scores, sibling=scores.arc.new_zeros(shape))

    def _call(self, quantity: Quantity, *more: Any) -> Any:
        """The result of the public function of a quantity; more: arguments after the lengths."""
        decoder, scores = self.decoder, self._with_siblings()
        if not decoder.has(quantity):
            names = ", ".join(with_quantity(quantity))
            raise ScoreError(
                f"{decoder.name} has no {quantity}: reduce the parts to those of {names}"
            )
        engines = decoder.engines[quantity]
        if self._is_on_device and len(engines) > 1 and quantity not in ("k_best", "samples"):
            found = self._on_device(quantity)
            return found[0] if quantity == "marginals" else found
        tensors, parts = parts_for(decoder.name, scores)
        options: dict[str, Any] = {**parts, "single_root": self.single_root}
        # What exists on one engine alone runs there, for any engine of the rest.
        if len(engines) > 1:
            options["engine"] = decoder.engine_for(quantity, self.engine)
        return FUNCTIONS[decoder.name, quantity](*tensors, scores.lengths, *more, **options)

    @property
    def _is_on_device(self) -> bool:
        return self.lengths.device.type != "cpu"

    def _on_device(self, quantity: Quantity, count: int = 1) -> Any:
        """`_call` without checks, so that nothing waits for the device.

        Sentences without a tree have the log-partition -inf; what else they have is NaN.

        Args: count: of parts that have marginals.
        """
        engine = choose_engine(
            self.decoder.engine_for(quantity, self.engine), self.lengths.device,
            has_kernels=self.decoder.has(quantity, "triton"),
        )  # fmt: skip
        parts = self._summed_parts()
        if quantity == "best":
            return find_unchecked(
                self.decoder.name, engine, self.lengths, *parts, single_root=self.single_root
            )
        wide = tuple(part.double() for part in parts)
        trees = SummedTrees(self.decoder.name, self.single_root, self.lengths, wide, False)
        if quantity == "marginals":
            return find_marginals(trees, engine, count)[1:]
        return (find_entropies if quantity == "entropy" else find_log_partitions)(trees, engine)


class ProjectiveTrees(TreeDistribution):
    """Trees without crossing arcs; see `TreeDistribution` for arguments and methods."""

    kind = "projective"


class NonProjectiveTrees(TreeDistribution):
    """Trees whose arcs may cross; see `TreeDistribution` for arguments and methods.

    With parts of the second order and higher, `best` is dual decomposition, which mostly certifies
    its trees, and there are no sums.
    """

    kind = "all"


class TreeEvents(Distribution):
    """The interface of `torch.distributions`; events are heads (N,), -1 at the root and in padding.

    Args: trees: the distribution, with all quantities.
    """

    arg_constraints: ClassVar[dict[str, Any]] = {}

    def __init__(self, trees: TreeDistribution) -> None:
        self.trees = trees
        shape = trees.scores.arc.shape
        super().__init__(shape[:1], shape[1:2], validate_args=False)

    @property
    def mode(self) -> Tensor:
        """The best trees, (B, N)."""
        return self.trees.best().heads

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Independent trees, (*sample_shape, B, N), by torch's own random numbers."""
        shape = torch.Size(sample_shape)
        drawn = self.trees.sample(shape.numel())
        return drawn.transpose(0, 1).reshape(self._extended_shape(shape))

    def log_prob(self, value: Tensor) -> Tensor:
        """Logarithms of the probabilities of trees (*sample_shape, B, N), (*sample_shape, B)."""
        shape = value.shape[:-1]
        several = value.reshape(-1, *self.batch_shape, *self.event_shape).transpose(0, 1)
        return self.trees.log_prob(several).T.reshape(shape)

    def entropy(self) -> Tensor:
        """In nats, (B,)."""
        return self.trees.entropy


@register_kl(TreeEvents, TreeEvents)
def _kl(ours: TreeEvents, theirs: TreeEvents) -> Tensor:
    return ours.trees.kl(theirs.trees)


@operation(lambda kind, fields, parts, lengths, *_: [
    lengths.new_empty(parts[0].shape[:2])
])  # fmt: skip
def find_heads(
    kind: str, fields: str, parts: list[Tensor], lengths: Tensor, single_root: bool, engine: str
) -> list[Tensor]:
    """The heads of `TreeDistribution.best`; fields: names of parts[1:], with commas between."""
    names = [f"{field}_scores" for field in fields.split(",") if field]
    others: dict[str, Any] = dict(zip(names, parts[1:], strict=True))
    made = ProjectiveTrees if kind == "projective" else NonProjectiveTrees
    trees = made(parts[0], lengths, single_root=single_root, engine=engine, **others)
    return [trees.best().heads.contiguous()]


def expectation(marginals: Sequence[Tensor], values: Sequence[Tensor]) -> Tensor:
    """The sum of the values of the parts of a random tree, on average: float64 (B,)."""
    pairs = zip(marginals, values, strict=True)
    # 0 * -inf = 0: what never happens counts nothing.
    terms = [
        (share * torch.where(share != 0, value, 0.0)).flatten(1).sum(1) for share, value in pairs
    ]
    return sum(terms[1:], terms[0])


def with_gradient_of(values: Tensor, like: Tensor) -> Tensor:
    """Values of a search with the gradient of finite ones that differ by rounding at most."""
    return values + (like - like.detach())


def generator_of(seed: object, generator: torch.Generator | None) -> torch.Generator | None:
    """The generator that is given, or one with that seed, or None; ScoreError for both."""
    if seed is None:
        return generator
    if generator is not None:
        raise ScoreError("a seed and a generator are given, expected one of them")
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)):
        raise ScoreError(f"seed is {seed!r}, expected an integer")
    try:
        return torch.Generator().manual_seed(int(seed))
    except (ValueError, RuntimeError, OverflowError):
        raise ScoreError(f"seed is {seed}, expected an integer of 64 bits") from None


def as_cost(cost: object, arc_scores: Tensor) -> Tensor:
    """Costs as float64 (B, N, N) on the device of the scores; ScoreError for others."""
    shape = tuple(arc_scores.shape)
    if isinstance(cost, Tensor):
        require_tensor(cost, "cost")
        own = (*[1] * (3 - cost.dim()), *cost.shape)
        fits = len(own) == 3 and all(a in (1, b) for a, b in zip(own, shape, strict=True))
        if cost.is_complex() or not fits:
            raise ScoreError(
                f"cost has type {cost.dtype} and shape {tuple(cost.shape)}, expected a number, or"
                f" numbers whose shape broadcasts with {shape}, (B, N, N)"
            )
        return cost.to(arc_scores.device, torch.float64).expand(shape)
    if not isinstance(cost, (int, float, np.number)):
        raise ScoreError(f"cost is {cost!r}, expected a number or a tensor")
    return torch.full(shape, float(cost), dtype=torch.float64, device=arc_scores.device)


def _decoder_of(kind: str, scores: Scores) -> Decoder:
    """The decoder of these trees that reads all given parts and as few others as possible."""
    given = set(_given(scores))
    fitting = [
        decoder
        for decoder in DECODERS.values()
        if decoder.trees == kind and decoder.starts_from is None and given <= set(decoder.reads)
    ]
    if not fitting:
        names = " and ".join(sorted(given))
        raise ScoreError(f"no exact decoder of {kind} trees reads {names} scores together")
    fewest = min(len(decoder.reads) for decoder in fitting)
    return next(decoder for decoder in fitting if len(decoder.reads) == fewest)


def _given(scores: Scores) -> dict[str, Tensor]:
    """The scores of other parts than arcs that are there, by the name of the part."""
    others = {name: getattr(scores, name) for name in _OTHER_PARTS}
    return {name: value for name, value in others.items() if value is not None}
