"""Losses of distributions over trees: what a neural parser learns from.

Each is a function of a distribution and gold heads, and of gold labels for `LabelledTrees`. It
returns one value for each sentence, a sum over its words: float32 where all scores are float32 or
narrower, else float64; it is computed in float64.
"""

import torch
from torch import Tensor

from gpuparse.errors import ScoreError
from gpuparse.inference.distributions import TreeDistribution
from gpuparse.inference.engines import is_traced
from gpuparse.inference.labelled import NO_LABEL, LabelledTrees
from gpuparse.inference.scores import read_cells, word_mask
from gpuparse.inference.search import NO_HEAD
from gpuparse.inference.support import TreeKind, Unreachable, as_heads

Trees = TreeDistribution | LabelledTrees
NARROW = (torch.float32, torch.float16, torch.bfloat16)


def conditional_loss(
    trees: Trees, gold_heads: Tensor, *, gold_labels: Tensor | None = None,
    unreachable: Unreachable = "error", partial: bool | None = None,
) -> Tensor:  # fmt: skip
    """Negative conditional log-likelihood of the gold heads, that of a conditional random field.

    Args:
        trees: a distribution whose scores are learned.
        gold_heads: integers (B, N), -1 for words whose heads are not known: then all trees with the
            known heads count as right.
        gold_labels: of `LabelledTrees`: integers (B, N), -1 for those that are not known; then all
            labels count as right. Labels of words whose heads are not known are not read. None:
            none is known.
        unreachable: what is done about a gold tree that the distribution does not have, such as one
            with crossing arcs under `ProjectiveTrees`, or two words at the root under
            `single_root`: "error"; "skip": its loss is 0, without a gradient; "projectivise": the
            nearest projective tree is learned, as `projectivise` finds it. Traced code checks
            nothing.
        partial: whether some heads are not known; None: that is looked at in main memory, and
            traced code and other devices, which nothing waits for, take all heads for known.
    Returns: (B,), in nats. Label smoothing is of `local_loss` alone, where heads are independent.
    Raises:
        ScoreError: a gold tree that the distribution does not have, or a label; it names sentence
            and word. ScoreError, NoTreeError: from the sums; NoTreeError too where no tree has the
            known heads.
    Cost: that of the log-partition; twice that where heads are not known.
    Source: Lafferty, McCallum & Pereira 2001; for projective trees Eisner 1996, for all trees Koo,
    Globerson, Carreras & Collins 2007; partial annotation: Li, Zhang, Zhang & Liu 2014.
    """
    gold, is_partial, skipped = _gold_of(trees, gold_heads, gold_labels, unreachable, partial)
    right = trees.constrained(*gold).log_partition if is_partial else trees._score_of(*gold)
    return _typed(trees.log_partition - right, trees, skipped)


def hinge_loss(
    trees: Trees, gold_heads: Tensor, cost: float | Tensor = 1.0, *,
    gold_labels: Tensor | None = None, unreachable: Unreachable = "error",
    partial: bool | None = None,
) -> Tensor:  # fmt: skip
    """Structured hinge loss: by how much the margin of the gold trees is missed.

    max over trees of (score + cost of its wrong words), minus the highest score of a tree that has
    the known heads and labels: where all are known, the score of the gold tree.

    Args:
        trees, gold_heads, gold_labels, unreachable, partial: see `conditional_loss`. Words whose
            heads are not known cost nothing.
        cost: of a word with a wrong head or label, as `TreeDistribution.augmented`.
    Returns: (B,), at least 0; its subgradient is the parts of the best tree less those of the gold
        tree.
    Raises: ScoreError, NoTreeError: as `conditional_loss`, and from the decoder.
    Cost: that of the decoder; twice that where heads are not known.
    Source: Taskar, Guestrin & Koller 2003; McDonald, Crammer & Pereira 2005, section 2.3; partial
    annotation: Yu & Joachims 2009.
    """
    gold, is_partial, skipped = _gold_of(trees, gold_heads, gold_labels, unreachable, partial)
    harder = trees.augmented(*gold, cost=cost)  # type: ignore[misc]
    with torch.no_grad():
        found = harder.best()
        if is_partial:
            known = trees.constrained(*gold).best()
            gold, has_none = known[: len(gold)], known.scores == -torch.inf
        elif isinstance(trees, LabelledTrees):
            heads, labels = gold
            gold = heads, torch.where(labels == NO_LABEL, trees.best_labels(heads), labels)
    # Of a tree that is the gold tree but for rounding, nothing is left.
    right = trees._score_of(*gold)
    if is_partial:
        right = right.masked_fill(has_none, -torch.inf)
    missed = harder._score_of(*found[: len(gold)]) - right
    return _typed(missed.clamp(min=0.0), trees, skipped)


def local_loss(
    trees: Trees, gold_heads: Tensor, *, gold_labels: Tensor | None = None,
    label_smoothing: float = 0.0,
) -> Tensor:  # fmt: skip
    """Cross-entropy of each word's head among its candidates, and of the label of its gold arc.

    It knows of no trees: gold trees may cross, and nothing is summed or searched.

    Args:
        trees: whose scores are learned; of arcs and labels alone.
        gold_heads, gold_labels: see `conditional_loss`; words whose heads are not known have no
            loss.
        label_smoothing: share of each gold head, and label, that all candidates which are not
            forbidden have instead, in equal parts (Szegedy et al. 2016).
    Returns: (B,), in nats.
    Raises: ScoreError: scores of other parts; heads or labels that there are not, or on a cycle; a
        share that is not in 0..1.
    Cost: O(N^2) a sentence, and the label scores of the gold arcs.
    Source: Dozat & Manning 2017, section 2.2; Zhang, Cheng & Lapata 2017.
    """
    if not 0.0 <= label_smoothing < 1.0:
        raise ScoreError(f"label_smoothing is {label_smoothing}, expected 0 or more and below 1")
    of_trees = _unlabelled(trees)
    if of_trees.decoder.order > 1:
        raise ScoreError(
            f"local_loss reads scores of arcs and labels alone, and {of_trees.decoder.name} reads"
            " more: use conditional_loss or hinge_loss"
        )
    gold = _arcs_of(trees, gold_heads, gold_labels)
    arcs = of_trees.scores.arc.double()
    arcs = arcs.masked_fill(~read_cells(trees.lengths, arcs.shape[1]), -torch.inf)
    loss = smoothed_cross_entropy(arcs.mT, gold[0], label_smoothing)
    if isinstance(trees, LabelledTrees):
        of_labels = trees._scores_of_arcs(gold[0])
        loss = loss + smoothed_cross_entropy(of_labels, gold[1], label_smoothing)
    return _typed(loss.sum(1), trees)


def label_loss(trees: LabelledTrees, gold_heads: Tensor, gold_labels: Tensor) -> Tensor:
    """Cross-entropy of the labels of the gold arcs: `local_loss` less that of the heads.

    With a loss of `trees.trees` labels are a second step, as `best_labels` of the best heads.

    Args: trees: of any parts. gold_heads, gold_labels: see `conditional_loss`; words whose heads or
        labels are not known have no loss.
    Returns: (B,), in nats.
    Raises: ScoreError: heads or labels that there are not, or on a cycle.
    Cost: the label scores of the gold arcs.
    Source: Dozat & Manning 2017, section 2.2.
    """
    heads, labels = _arcs_of(trees, gold_heads, gold_labels)
    losses = smoothed_cross_entropy(trees._scores_of_arcs(heads), labels, 0.0)
    return _typed(losses.sum(1), trees)


def risk_loss(trees: Trees, gold_heads: Tensor, *, gold_labels: Tensor | None = None) -> Tensor:
    """Expected number of words with a wrong head, or with the right head and a wrong label.

    Args: trees, gold_heads, gold_labels: see `conditional_loss`; words whose heads are not known
        are not counted. Gold trees may cross.
    Returns: (B,), from 0 to the number of known heads.
    Raises: ScoreError: heads or labels that there are not, or on a cycle. ScoreError, NoTreeError:
        from the marginals.
    Cost: that of the marginals, whose gradient is one of second order.
    Source: Smith & Eisner 2006.
    """
    gold = _arcs_of(trees, gold_heads, gold_labels)
    return _typed(trees.expected_cost(*gold), trees)


def smoothed_cross_entropy(scores: Tensor, gold: Tensor, smoothing: float) -> Tensor:
    """Cross-entropies of gold values, in nats.

    Args:
        scores: (..., C), -inf for values that are forbidden.
        gold: int64 (...), -1 without a value: the loss is 0.
        smoothing: share of each gold value that all values which are not forbidden have instead, in
            equal parts (Szegedy et al. 2016).
    """
    is_possible = (scores > -torch.inf).any(-1)
    scores = torch.where((is_possible & (gold >= 0))[..., None], scores, 0.0)
    logs = scores.log_softmax(-1)
    found = (smoothing - 1.0) * logs.gather(-1, gold.clamp(min=0)[..., None])[..., 0]
    if smoothing:
        is_open = logs > -torch.inf
        found = found - smoothing * (logs.masked_fill(~is_open, 0.0).sum(-1) / is_open.sum(-1))
    return found.masked_fill(~is_possible, torch.inf).masked_fill(gold < 0, 0.0)


def _gold_of(
    trees: Trees,
    heads: Tensor,
    labels: Tensor | None,
    unreachable: Unreachable,
    is_partial: bool | None,
) -> tuple[tuple[Tensor, ...], bool, Tensor | None]:
    """Gold heads, and labels of labelled trees; if heads are missing; sentences that are left out.

    The last is None for none; where heads are missing, no head of these sentences is known.
    """
    lengths = trees.lengths
    heads = as_heads(heads, lengths, _unlabelled(trees).scores.arc.shape[1])
    if is_partial is None:
        is_word = word_mask(lengths, heads.shape[1])
        is_looked_at = not is_traced() and lengths.device.type == "cpu"
        is_partial = is_looked_at and bool((is_word & (heads == NO_HEAD)).any())
    heads, skipped = _unlabelled(trees).reachable(heads, unreachable, is_partial=is_partial)
    if is_partial and skipped is not None:
        heads = heads.masked_fill(skipped[:, None], NO_HEAD)
    return _with_labels(trees, heads, labels), is_partial, skipped


def _arcs_of(trees: Trees, heads: Tensor, labels: Tensor | None) -> tuple[Tensor, ...]:
    """Gold heads, -1 where there is none, and labels of labelled trees; heads may cross."""
    n_nodes = _unlabelled(trees).scores.arc.shape[1]
    heads = as_heads(heads, trees.lengths, n_nodes)
    TreeKind(trees.lengths, is_projective=False, single_root=False).require(heads, is_partial=True)
    heads = heads.masked_fill(~word_mask(trees.lengths, n_nodes), NO_HEAD)
    return _with_labels(trees, heads, labels)


def _with_labels(trees: Trees, heads: Tensor, labels: Tensor | None) -> tuple[Tensor, ...]:
    if isinstance(trees, LabelledTrees):
        return heads, trees._as_labels(labels, heads, is_partial=True)
    if labels is not None:
        raise ScoreError("gold_labels are given for trees without labels, expected LabelledTrees")
    return (heads,)


def _unlabelled(trees: Trees) -> TreeDistribution:
    return trees.trees if isinstance(trees, LabelledTrees) else trees


def _typed(loss: Tensor, trees: Trees, skipped: Tensor | None = None) -> Tensor:
    """The loss as it is returned, 0 for sentences that are left out."""
    if skipped is not None:
        loss = loss.masked_fill(skipped, 0.0)
    return loss.float() if all(part.dtype in NARROW for part in trees._parts) else loss
