"""Distributions over trees whose arcs have labels.

    trees = LabelledTrees(ProjectiveTrees(arc_scores, lengths), label_scores)
    heads, labels, scores, _ = trees.best()
    loss = conditional_loss(trees, gold_heads, gold_labels=gold_labels).mean()

Given the tree, the labels of its arcs are independent. So sums are those over trees under arc
scores with the logarithm of the sum of exp over labels added, and the best tree is the one under
arc scores with the largest label score added, for trees with any other parts.
"""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple, Self

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from gpuparse.errors import ScoreError
from gpuparse.inference.distributions import (
    Change,
    KeptQuantities,
    TreeDistribution,
    as_cost,
    expectation,
    generator_of,
    with_gradient_of,
)
from gpuparse.inference.engines import is_traced
from gpuparse.inference.marginals import arc_scores_of_labels, label_marginals, minimum_bayes_risk
from gpuparse.inference.scores import as_floats, fails, require_tensor, sent, word_mask
from gpuparse.inference.search import NO_HEAD
from gpuparse.inference.support import as_heads

NO_LABEL = -1
CELLS = 1 << 22  # numbers of each intermediate result: 32 MiB


class BestLabelled(NamedTuple):
    """Best labelled trees of a batch: `Best` with labels, int64 (B, N), -1 where heads are."""

    heads: Tensor
    labels: Tensor
    scores: Tensor
    certified: Tensor | None = None


class LabelledTrees(KeptQuantities):
    """Trees with labels, with probabilities proportional to exp(score).

    A class around a distribution over trees and not an option of it: results have labels beside
    heads, and any parts of trees go with any form of label scores.

    Args:
        trees: `ProjectiveTrees` or `NonProjectiveTrees`. The score of a labelled tree is that of
            the tree and of the labels of its arcs. What exists for these trees exists with labels.
        label_scores: score of the label l of head h -> modifier m, (B, N, N, L), L >= 1; -inf
            forbids the arc with this label. Or biaffine factors (heads, modifiers, weights), which
            are never expanded to all arcs and labels at once, only some words at a time, and in
            gradients once more: heads (B, N, K), modifiers (B, N, K'), weights (L, K, K'): the
            score is heads[h] weights[l] modifiers[m]; weights may have one more row, or column, for
            a 1 after each vector, as (L, K + 1, K' + 1). Weights (L, K) are diagonal matrices, a
            low rank. Column 0, the diagonal and padding are not read.
    Raises: ScoreError: wrong shapes or types.
    Limits, such as one subject of each head, are in `dual_decomposition_labelled` alone.
    Source: labels are independent given the tree: McDonald, Crammer & Pereira 2005, section 2.
    """

    def __init__(self, trees: TreeDistribution, label_scores: Tensor | tuple[Tensor, ...]) -> None:
        super().__init__()
        given = (label_scores,) if isinstance(label_scores, Tensor) else tuple(label_scores)
        self.trees = trees
        self._labels = _LabelScores(_checked(given, trees), trees.lengths)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.trees!r}, labels={self._labels.count})"

    @property
    def lengths(self) -> Tensor:
        """Words of each sentence, int64 (B,)."""
        return self.trees.lengths

    @property
    def without_labels(self) -> TreeDistribution:
        """The distribution of the trees alone: a tree weighs as much as all its labellings."""
        return self._keep("without_labels", lambda: self._with_added(arc_scores_of_labels))

    def best(self) -> BestLabelled:
        """The labelled tree with the highest score; as `TreeDistribution.best`.

        Cost: that of the trees' decoder, and of the scores of all labels.
        """
        with torch.no_grad():
            heads, scores, certified = self._with_added(_best_of_labels).best()
            labels = self.best_labels(heads)
        if self._needs_gradient():
            scores = with_gradient_of(scores, self._score_of(heads, labels))
        return BestLabelled(heads, labels, scores, certified)

    def best_labels(self, heads: Tensor) -> Tensor:
        """The best labels of given trees, the first of equal ones.

        Args: heads: integers (B, N) or (B, K, N), -1 where there is no arc.
        Returns: int64 as heads, -1 where these are.
        Cost: the label scores of these arcs alone.
        """
        heads = as_heads(heads, self.lengths, self.trees.scores.arc.shape[1], several=True)
        several = heads if heads.dim() == 3 else heads[:, None]
        with torch.no_grad():
            labels = self._labels.map(lambda scores, _: scores.argmax(3), several)
        is_arc = (several != NO_HEAD) & word_mask(self.lengths, heads.shape[-1])[:, None]
        return labels.masked_fill(~is_arc, NO_LABEL).reshape(heads.shape)

    def k_best(self, k: int) -> tuple[Tensor, Tensor, Tensor]:
        """The k best labelled trees: heads and labels (B, k, N), scores float64 (B, k), falling.

        Where there are fewer, the rest have heads and labels -1 and the score -inf.

        Cost: k best trees, and O(N k^2 L) for their labels.
        """
        with torch.no_grad():
            heads, found = self._with_added(_best_of_labels).k_best(k)
            of_trees = self.trees._score_of(heads).masked_fill(found == -torch.inf, -torch.inf)
            of_labels = self._labels.of_arcs(heads)
            heads, labels, scores = _best_labellings(heads, of_trees, of_labels)
        if self._needs_gradient():
            own = self._score_of(heads, labels).masked_fill(scores == -torch.inf, 0.0)
            scores = with_gradient_of(scores, own)
        return heads, labels, scores

    @property
    def log_partition(self) -> Tensor:
        """Logarithm of the sum of exp(score) over all labelled trees, float64 (B,)."""
        return self.without_labels.log_partition

    @property
    def marginals(self) -> Tensor:
        """Probability of every arc, with any label, float64 (B, N, N)."""
        return self.without_labels.marginals

    @property
    def label_marginals(self) -> Tensor:
        """Probability of every arc with every label, float64 (B, N, N, L)."""
        arcs = self.marginals
        return self._keep("label_marginals", lambda: self._labels.map(partial(_shares, arcs)))

    @property
    def entropy(self) -> Tensor:
        """In nats, float64 (B,): that of the trees, and that of labels expected given the tree."""
        arcs = self.marginals

        def of_words(scores: Tensor, words: slice) -> Tensor:
            logs = _log_shares(scores, arcs[:, :, words] != 0)
            return -arcs[:, :, words] * _expected(logs, logs)

        def compute() -> Tensor:
            return self.without_labels.entropy + self._labels.map(of_words).sum((1, 2))

        return self._keep("entropy", compute)

    def expected_cost(
        self, gold_heads: Tensor | None = None, gold_labels: Tensor | None = None,
        cost: float | Tensor = 1.0,
    ) -> Tensor:  # fmt: skip
        """The cost that a random labelled tree has on average, its Bayes risk, float64 (B,).

        Args: gold_heads, cost: as `TreeDistribution.expected_cost`. gold_labels: as `augmented`;
            None: labels cost nothing.
        """
        found = self.without_labels.expected_cost(gold_heads, cost)
        if gold_heads is None or gold_labels is None:
            return found
        heads, _, costs = self._costs_of_labels(gold_heads, gold_labels, cost)
        of_arcs = self.marginals.gather(1, heads.clamp(min=0)[:, None])
        shares = label_marginals(of_arcs, self._labels.of_arcs(heads[:, None]))[:, 0]
        return found + expectation([shares], [costs])

    def cross_entropy(self, other: "LabelledTrees") -> Tensor:
        """As `TreeDistribution.cross_entropy`, of labelled trees with as many labels."""
        return self.entropy + self.kl(other)

    def kl(self, other: "LabelledTrees") -> Tensor:
        """As `TreeDistribution.kl`, of labelled trees with as many labels."""
        if not isinstance(other, LabelledTrees) or self._labels.count != other._labels.count:
            raise ScoreError(f"{self!r} and {other!r} have other trees or labels")
        of_trees = self.without_labels.kl(other.without_labels)
        arcs = self.marginals

        def of_words(scores: Tensor, words: slice) -> Tensor:
            theirs = other._labels.scores_of(None, words)
            # Where these forbid all labels of an arc, that of the trees is infinite already.
            is_there = (arcs[:, :, words] != 0) & (theirs > -torch.inf).any(3)
            logs, their_logs = (_log_shares(each, is_there) for each in (scores, theirs))
            return arcs[:, :, words] * _expected(logs, logs - their_logs)

        return of_trees + self._labels.map(of_words).sum((1, 2))

    def sample(
        self, count: int, *, seed: int | None = None, generator: torch.Generator | None = None
    ) -> tuple[Tensor, Tensor]:
        """Independent labelled trees: heads and labels int64 (B, count, N).

        Args: as `TreeDistribution.sample`.
        """
        generator = generator_of(seed, generator)
        heads = self.without_labels.sample(count, generator=generator)
        device = "cpu" if generator is None else generator.device
        places = torch.rand(heads.shape, generator=generator, dtype=torch.float64, device=device)
        places = places.to(heads.device)

        def of_words(scores: Tensor, words: slice) -> Tensor:
            # Where there is no arc the scores may be anything; the label is not read.
            ends = scores.softmax(3).nan_to_num().cumsum(3)
            return (ends <= places[:, :, words, None] * ends[..., -1:]).sum(3)

        with torch.no_grad():
            labels = self._labels.map(of_words, heads)
        return heads, labels.masked_fill(heads == NO_HEAD, NO_LABEL)

    def mbr(self) -> tuple[Tensor, Tensor, Tensor]:
        """The labelled tree with the most words expected to have the right head and label.

        Returns: heads and labels int64 (B, N); the expected number of right words, float64 (B,).
        """
        trees = self.trees
        with torch.no_grad():
            arcs = self.marginals
            shares = self._labels.map(lambda *some: _shares(arcs, *some).amax(3))
            is_forbidden = self.without_labels.scores.arc == -torch.inf
        heads, expected = minimum_bayes_risk(
            shares.masked_fill(is_forbidden, -torch.inf), self.lengths,
            decoder=trees.decoder.of_arcs, single_root=trees.single_root, engine=trees.engine,
        )  # fmt: skip
        return heads, self.best_labels(heads), expected

    def score_of(self, heads: Tensor, labels: Tensor) -> Tensor:
        """Scores of given labelled trees; as `TreeDistribution.score_of`.

        Args: heads, labels: integers (B, N) or (B, K, N); labels are read at arcs alone.
        Raises: ScoreError: as `TreeDistribution.score_of`; a label that does not exist.
        """
        of_trees = self.trees.score_of(heads)  # checks the heads
        return of_trees + self._score_of_labels(heads, self._as_labels(labels, heads))

    def log_prob(self, heads: Tensor, labels: Tensor) -> Tensor:
        """Logarithms of the probabilities of labelled trees, float64; arguments as `score_of`."""
        scores, log_partition = self.score_of(heads, labels), self.log_partition
        return scores - (log_partition[:, None] if scores.dim() == 2 else log_partition)

    def augmented(
        self, gold_heads: Tensor, gold_labels: Tensor, cost: float | Tensor = 1.0
    ) -> Self:
        """The distribution in which words with a wrong head or label score more.

        Args: gold_heads, cost: as `TreeDistribution.augmented`; a wrong label of the right head
            costs as much as a wrong head [b, gold head, m] would. gold_labels: integers (B, N), -1
            for words without wrong labels.
        """
        trees = self.trees.augmented(gold_heads, cost)
        return self._with(trees, *self._costs_of_labels(gold_heads, gold_labels, cost))

    def constrained(self, known_heads: Tensor, known_labels: Tensor | None = None) -> Self:
        """The distribution over the labelled trees that have all known heads and labels.

        Args: known_heads, known_labels: integers (B, N), -1 where they are not known; labels of
            words whose heads are not known are not read.
        """
        trees = self.trees.constrained(known_heads)
        known_heads = sent(known_heads, self.lengths.device)
        known_labels = self._as_labels(known_labels, known_heads, is_partial=True)
        extra = torch.where(self._is_other(known_labels), -torch.inf, 0.0)
        return self._with(trees, known_heads, known_labels, extra)

    def _costs_of_labels(
        self, gold_heads: Tensor, gold_labels: Tensor, cost: float | Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Gold heads and labels, int64, and costs of labels of the gold arcs, (B, N, L)."""
        gold_heads = sent(gold_heads, self.lengths.device)
        gold_labels = self._as_labels(gold_labels, gold_heads, is_partial=True)
        costs = as_cost(cost, self.trees.scores.arc)
        costs = costs.gather(1, gold_heads.clamp(min=0)[:, None])[:, 0]
        costs = torch.where(self._is_other(gold_labels), costs[..., None], 0.0)
        return gold_heads, gold_labels, costs

    def _as_labels(
        self, labels: Tensor | None, heads: Tensor, *, is_partial: bool = False
    ) -> Tensor:
        """Given labels as int64 on the device of the scores, -1 where they or heads are not known.

        Args: labels: None: none is known.
        Raises: ScoreError: another type or shape than heads; a label that there is not or, unless
            `is_partial`, no label at an arc.
        """
        labels = torch.full_like(heads, NO_LABEL) if labels is None else labels
        labels = as_heads(labels, self.lengths, heads.shape[-1], several=True, name="labels")
        if labels.shape != heads.shape:
            shapes = tuple(labels.shape), tuple(heads.shape)
            raise ScoreError(f"labels has shape {shapes[0]}, expected that of heads, {shapes[1]}")
        is_word = word_mask(self.lengths, heads.shape[-1])
        is_arc = (heads.to(labels.device) >= 0) & (
            is_word if heads.dim() == 2 else is_word[:, None]
        )
        labels = labels.masked_fill(~is_arc, NO_LABEL)
        is_wrong = (labels < NO_LABEL) | (labels >= self._labels.count)
        if not is_partial:
            is_wrong = is_wrong | (is_arc & (labels == NO_LABEL))
        least = NO_LABEL if is_partial else 0
        expected = f"expected labels from {least} to {self._labels.count - 1}"
        if fails(is_wrong, f"labels: {expected}"):
            b, *_, m = is_wrong.nonzero()[0].tolist()
            raise ScoreError(f"sentence {b}: word {m} has another label; {expected}")
        return labels

    def _score_of(self, heads: Tensor, labels: Tensor) -> Tensor:
        """`score_of`, unchecked; labels of -1 are summed out."""
        return self.trees._score_of(heads) + self._score_of_labels(heads, labels)

    def _score_of_labels(self, heads: Tensor, labels: Tensor) -> Tensor:
        """The share of the labels in `_score_of`."""
        several = heads.dim() == 3
        of_trees = heads if several else heads[:, None]
        chosen = (labels if several else labels[:, None])[..., None]

        def of_words(scores: Tensor, words: slice) -> Tensor:
            label = chosen[:, :, words]
            found = scores.gather(3, label.clamp(min=0))[..., 0]
            return torch.where(label[..., 0] >= 0, found, arc_scores_of_labels(scores))

        of_labels = self._labels.map(of_words, of_trees)
        is_word = word_mask(self.lengths, heads.shape[-1])[:, None]
        total = of_labels.masked_fill(~is_word, 0.0).sum(2)
        return total if several else total[:, 0]

    def _scores_of_arcs(self, heads: Tensor) -> Tensor:
        """Scores of all labels of the arcs of trees (B, N), float64 (B, N, L)."""
        return self._labels.of_arcs(heads[:, None])[:, 0]

    def _is_other(self, labels: Tensor) -> Tensor:
        """Bool (B, N, L): labels other than the given ones; none where these are -1."""
        every = torch.arange(self._labels.count, device=labels.device)
        return (labels[..., None] != every) & (labels >= 0)[..., None]

    def _with(self, trees: TreeDistribution, heads: Tensor, labels: Tensor, extra: Tensor) -> Self:
        """Other trees, and more for each label (B, N, L) of the arcs with known labels."""
        heads = heads.masked_fill(labels == NO_LABEL, NO_HEAD)
        labels_of = replace(self._labels, extra=(*self._labels.extra, (heads, extra)))
        return self._made(trees, labels_of)

    def _changed(self, change: Change, shared: Change | None = None) -> Self:
        return self._made(self.trees._changed(change), self._labels.changed(change, shared))

    def _made(self, trees: TreeDistribution, labels: "_LabelScores") -> Self:
        made = type(self)(trees, labels.given)
        made._labels = labels
        return made

    def _with_added(self, of_labels: Callable[[Tensor], Tensor]) -> TreeDistribution:
        """The trees under arc scores to which a number of each arc's label scores is added."""
        added = self._labels.map(lambda scores, _: of_labels(scores))
        return self.trees._with_arcs(self.trees.scores.arc.double() + added)

    @property
    def _parts(self) -> list[Tensor]:
        return [*self.trees._parts, *self._labels.given]


@dataclass(frozen=True, eq=False)
class _LabelScores:
    """Scores of labels, computed for some words at a time.

    given: one tensor (B, N, N, L), or factors. extra: heads (B, N), and what is added to the scores
    of the labels of these arcs, (B, N, L).
    """

    given: tuple[Tensor, ...]
    lengths: Tensor
    extra: tuple[tuple[Tensor, Tensor], ...] = ()

    @property
    def count(self) -> int:
        """The number of labels."""
        return self.given[0].shape[3] if len(self.given) == 1 else len(self.given[2])

    def changed(self, change: Change, shared: Change | None) -> "_LabelScores":
        """The scores, and the lengths, changed; weights by `shared`, if it is given."""
        weights = map(shared or change, self.given[2:])
        return _LabelScores(
            (*map(change, self.given[:2]), *weights),
            change(self.lengths),
            tuple((change(heads), change(added)) for heads, added in self.extra),
        )

    def map(
        self, function: Callable[[Tensor, slice], Tensor], heads: Tensor | None = None
    ) -> Tensor:
        """The results of a function for all words, put together at axis 2.

        Only some words' scores are in memory at once; for gradients they are computed once more.

        Args:
            function: of float64 (B, H, M, L), the scores of all labels of M words, and the slice of
                these words, that returns (B, H, M) or (B, H, M, X).
            heads: (B, H, N), of several trees; None: every position is a head.
        """
        n_batch, n_nodes = self.given[0].shape[:2]
        n_heads = n_nodes if heads is None else heads.shape[1]
        width = self.given[0].shape[2] if len(self.given) == 3 else 0
        per_word = n_batch * self.count * max(n_heads, width)
        step = n_nodes if is_traced() else max(1, CELLS // max(1, per_word))
        needs_gradient = any(tensor.requires_grad for tensor in self.given)
        is_recomputed = step < n_nodes and torch.is_grad_enabled() and needs_gradient

        def compute(words: slice) -> Tensor:
            return function(self.scores_of(heads, words), words)

        pieces = [slice(start, start + step) for start in range(0, n_nodes, step)]
        found = [
            checkpoint(compute, words, use_reentrant=False, preserve_rng_state=False)
            if is_recomputed
            else compute(words)
            for words in pieces
        ]
        return found[0] if len(found) == 1 else torch.cat(found, 2)

    def of_arcs(self, heads: Tensor) -> Tensor:
        """The scores of all labels of the arcs of trees (B, K, N), float64 (B, K, N, L)."""
        return self.map(lambda scores, _: scores, heads)

    def scores_of(self, heads: Tensor | None, words: slice) -> Tensor:
        """The scores of some words, as the function of `map` takes them."""
        n_batch, n_nodes = self.given[0].shape[:2]
        position = torch.arange(n_nodes, device=self.lengths.device)
        b = torch.arange(n_batch, device=self.lengths.device)[:, None, None]
        some = None if heads is None else heads[:, :, words].clamp(min=0)
        if len(self.given) == 1:
            scores = self.given[0]
            found = scores[:, :, words] if some is None else scores[b, some, position[words]]
        else:
            is_padding = (position > self.lengths[:, None])[..., None]
            of_heads, modifiers = (x.masked_fill(is_padding, 0.0) for x in self.given[:2])
            x = of_heads if some is None else of_heads[b, some]
            kind = x.device.type
            rounds = torch.amp.is_autocast_available(kind)  # autocast does, to 16 bits
            with torch.autocast(kind, enabled=False) if rounds else nullcontext():
                found = _biaffine(x, modifiers[:, words], self.given[2])
        found = found.double()
        heads_of_cells = position[:, None] if some is None else some
        for at, extra in self.extra:
            is_there = (heads_of_cells == at[:, None, words])[..., None]
            found = found + torch.where(is_there, extra[:, None, words], 0.0)
        return found


def _biaffine(heads: Tensor, modifiers: Tensor, weights: Tensor) -> Tensor:
    """Scores (B, H, M, L) of heads (B, H, K), or of M words each (B, H, M, K)."""
    if weights.dim() == 2:
        of_words = modifiers[:, :, None] * weights
    else:
        # A row or column beyond the width is multiplied by 1; the sum of none is 0.
        width = modifiers.shape[2]
        of_words = torch.einsum("bmj,lij->bmli", modifiers, weights[..., :width])
        of_words = of_words + weights[..., width:].sum(2)
    width = heads.shape[-1]
    terms = "bhi,bmli->bhml" if heads.dim() == 3 else "bhmi,bmli->bhml"
    found = torch.einsum(terms, heads, of_words[..., :width])
    return found + of_words[..., width:].sum(3)[:, None]


def _checked(given: tuple[Tensor, ...], trees: TreeDistribution) -> tuple[Tensor, ...]:
    """Label scores that fit the trees, factors in one type of 32 bits or more.

    Raises: ScoreError: others.
    """
    arcs = trees.scores.arc
    for tensor in given:
        require_tensor(tensor, "label_scores")
        if tensor.is_complex() or tensor.dtype == torch.bool or tensor.device != arcs.device:
            raise ScoreError(
                f"label_scores has type {tensor.dtype} on {tensor.device}, expected floats or"
                f" integers on {arcs.device}, as arc_scores"
            )
    shapes = [tuple(tensor.shape) for tensor in given]
    b, n = arcs.shape[:2]
    match shapes:
        case [(*cells, n_labels)]:
            fits = cells == [b, n, n] and n_labels > 0
        case [(*of_heads, k), (*of_modifiers, j), (n_labels, *sizes)]:
            possible = [[k, j], [k + 1, j], [k, j + 1], [k + 1, j + 1]]
            fits = of_heads == of_modifiers == [b, n] and n_labels > 0
            fits = fits and (sizes in possible or sizes == [k] == [j])
        case _:
            fits = False
    if not fits:
        raise ScoreError(
            f"label_scores has shape {', '.join(map(str, shapes))}, expected ({b}, {n}, {n}, L),"
            f" L >= 1, or factors: heads ({b}, {n}, K), modifiers ({b}, {n}, K') and weights"
            " (L, K, K'), with one more row or column for a 1 after the vectors, or (L, K)"
        )
    if len(given) == 1:
        return given
    return tuple(as_floats(given, "label_scores"))


def _best_of_labels(label_scores: Tensor) -> Tensor:
    return label_scores.amax(3)


def _shares(arc_marginals: Tensor, label_scores: Tensor, words: slice) -> Tensor:
    return label_marginals(arc_marginals[:, :, words], label_scores)


def _log_shares(label_scores: Tensor, is_possible: Tensor) -> Tensor:
    """Logarithms of the probabilities of labels, given the arc; anything for impossible arcs."""
    return torch.where(is_possible[..., None], label_scores, 0.0).log_softmax(3)


def _expected(logs: Tensor, values: Tensor) -> Tensor:
    """Values expected of labels with these logarithms of probabilities; 0 * -inf = 0."""
    is_allowed = logs > -torch.inf
    return torch.where(is_allowed, logs, 0.0).exp().mul(torch.where(is_allowed, values, 0.0)).sum(3)


def _best_labellings(
    heads: Tensor, scores: Tensor, of_labels: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """The k best labelled trees, from the k best trees under their best labels.

    No other tree can be among them: k trees with their best labels are at least as good. Word by
    word the k best labellings of every tree are extended; then the k best of all trees are taken.

    Args: heads: (B, k, N), -1 for none; scores: (B, k) of trees, -inf for none; of_labels: float64
        (B, k, N, L) of their arcs.
    Returns: heads, labels (B, k, N), scores (B, k).
    """
    k, n_labels = heads.shape[1], of_labels.shape[3]
    sentence = torch.arange(len(heads), device=heads.device)[:, None]
    label = torch.arange(n_labels, device=heads.device)
    only_first = torch.where(label == 0, 0.0, -torch.inf).double()
    of_labels = torch.where((heads >= 0)[..., None], of_labels, only_first)
    values = scores[..., None]
    labels = heads.new_zeros((*heads.shape[:2], 1, 0))  # sentence, tree, labelling, word
    for of_word in of_labels.unbind(2):
        grown = (values[..., None] + of_word[:, :, None]).flatten(2)
        values, order = (x[..., :k] for x in grown.sort(dim=2, descending=True, stable=True))
        before = (order // n_labels)[..., None].expand(-1, -1, -1, labels.shape[3])
        labels = torch.cat([labels.gather(2, before), (order % n_labels)[..., None]], 3)
    n_kept = values.shape[2]
    values, order = (x[:, :k] for x in values.flatten(1).sort(descending=True, stable=True))
    is_none = (values == -torch.inf)[..., None]
    heads = heads[sentence, order // n_kept].masked_fill(is_none, NO_HEAD)
    labels = labels.flatten(1, 2)[sentence, order].masked_fill(heads == NO_HEAD, NO_LABEL)
    return heads, labels, values
