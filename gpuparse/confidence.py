"""How sure a parser is: marginals of heads and labels, minimum Bayes risk, the k best trees."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from gpuparse import native
from gpuparse.data.batch import Batch, incomplete, word_places
from gpuparse.data.treebank import Treebank
from gpuparse.engines.admission import CHAIN, LOWER, MAX_CELLS, OWN, run_in_parts, write_chains
from gpuparse.engines.found import Found
from gpuparse.errors import ConfigError
from gpuparse.inference.decoders import DECODERS, with_quantity
from gpuparse.parser import NOTHING_KNOWN, Parser, Predictions, by_token
from gpuparse.scorers.native import make_scorer, make_search, require_all, sentences_of


@dataclass(frozen=True, eq=False)
class KBest:
    """Several trees of each of the S sentences of a treebank with W words, the best first.

    heads: (k, W) int32, -1 where a sentence has fewer trees. labels: (k, W) int32, or None.
    scores: (k, S) float64 in nats, without a constant; of the labels too, if they are found with
    the trees. -inf where there is no such tree. head_probabilities, label_probabilities: (k, W) as
    of Predictions. probabilities: (k, S) of the trees: exp of their scores minus the
    log-partition. orders: as in Predictions; a sentence that was not searched has one tree, of
    score 0.
    """

    heads: np.ndarray
    labels: np.ndarray | None
    scores: np.ndarray
    head_probabilities: np.ndarray | None = None
    label_probabilities: np.ndarray | None = None
    probabilities: np.ndarray | None = None
    orders: np.ndarray | None = None


class Marginals(NamedTuple):
    """Probabilities by token, NaN where nothing is asked or known.

    heads: (K, T) of the arcs of K trees. labels: (K, T) of their labels, given the arcs.
    """

    heads: np.ndarray
    labels: np.ndarray


def empty_marginals(k: int, n_tokens: int) -> Marginals:
    """Probabilities to be filled in."""
    return Marginals(np.full((k, n_tokens), np.nan), np.full((k, n_tokens), np.nan))


def parse_with_confidence(
    parser: Parser,
    treebank: Treebank,
    *,
    probabilities: bool = True,
    least_risk: bool = False,
    guides: np.ndarray | None = None,
    known: np.ndarray | None = None,
    batch_size: int = 64,
    max_cells: int = MAX_CELLS,
    threads: int = 1,
    progress: Callable[[int], None] = lambda sentences: None,
) -> Predictions:
    """`Parser.parse` in native code, with probabilities, or for minimum Bayes risk trees.

    Args:
        probabilities: whether to compute those of heads and labels, given the known heads.
        least_risk: whether the trees shall be those with the most heads expected to be right
            (minimum Bayes risk), instead of the best ones; projective if those are.
        Other arguments: as in `Parser.parse`.
    Raises: ConfigError: there are no sums over the decoder's trees. Others as `Parser.parse`.
    Cost: as `Parser.parse`, and the sums over all trees.
    """
    require_sums(parser)
    batch = parser.encode(treebank, guides)
    given = by_token(batch, known)

    def find(of_order: Parser, some: Batch) -> Found:
        found = of_order.native.empty(some)
        n_tokens = some.values.shape[1]
        marginals = empty_marginals(1, n_tokens)
        firsts = of_order.native.empty_firsts(some)

        def work(part: np.ndarray) -> int:
            these = some.select(part)
            if not least_risk:
                of_order.native.find_trees(these, given, found, firsts)
            find_tree_marginals(
                of_order, these, given, found.heads[None], found.labels[None], marginals,
                least_risk=least_risk,
            )  # fmt: skip
            of_order.native.label_trees(these, found)
            if probabilities:
                _add_label_marginals(of_order, these, found, marginals.labels[0])
            return len(part)

        run_in_parts(work, some, batch_size, threads, progress)
        if not probabilities:
            return found
        return Found(
            found.heads, found.labels,
            head_probabilities=marginals.heads[0], label_probabilities=marginals.labels[0],
        )  # fmt: skip

    return parser.predict(batch, given, max_cells, find)


def find_marginals(
    parser: Parser,
    batch: Batch,
    heads: np.ndarray,
    labels: np.ndarray,
    *,
    which: str = "both",
    threads: int = 1,
) -> Marginals:
    """Probabilities of given heads, and of given labels under them.

    Args:
        batch: all sentences.
        heads, labels: (T,) int64 by token, -1 where nothing is asked. Labels of sentences in which
            a head is -1 get no answer, unless they are found with the trees.
        which: "heads", "labels" or "both"; labels that are found with the trees come with them.
    Returns: (1, T) each, NaN where there is no answer.
    Raises: ConfigError: there are no sums over the decoder's trees.
    Cost: the scores of all arcs and the sums over all trees.
    """
    require_sums(parser)
    marginals = empty_marginals(1, batch.values.shape[1])
    is_whole = ~incomplete(batch, heads)
    found = Found(heads, labels)

    def work(part: np.ndarray) -> int:
        if which != "labels" or parser.joint_plan:
            find_tree_marginals(
                parser, batch.select(part), NOTHING_KNOWN, heads[None], labels[None], marginals
            )  # fmt: skip
        whole = part[is_whole[part]]
        if len(whole) and which != "heads":
            _add_label_marginals(parser, batch.select(whole), found, marginals.labels[0])
        return len(part)

    run_in_parts(work, batch, 64, threads)
    return marginals


def find_k_best_trees(
    parser: Parser,
    treebank: Treebank,
    k: int,
    *,
    guides: np.ndarray | None = None,
    known: np.ndarray | None = None,
    probabilities: bool = False,
    batch_size: int = 64,
    max_cells: int = MAX_CELLS,
    threads: int = 1,
) -> KBest:
    """The k best trees of every sentence and the best labels of each of them, in native code.

    Labels that are found when a tree is finished do not count in its score.

    Args:
        k: at least 1.
        Other arguments: as in `parse_with_confidence`.
    Raises:
        ConfigError: no k best trees, or no sums, of this decoder; as `Parser.parse`.
        NoTreeError: as `Parser.parse`.
    Cost: as `arc_scores`, the search for k trees and k times `best_labels`.
    """
    _require_k_best(parser, k)
    if probabilities:
        require_sums(parser)
    batch = parser.encode(treebank, guides)
    search = _KBestSearch(parser, batch, k, by_token(batch, known), probabilities)
    orders = parser.orders(batch, max_cells)
    for of_order, order in ((parser, OWN), (parser.lower_order(), LOWER)):
        which = np.flatnonzero(orders == order)
        work = partial(search.work, of_order, which)
        run_in_parts(work, batch.select(which), batch_size, threads)
    search.add_chains(np.flatnonzero(orders == CHAIN))
    return search.by_word(orders)


class _KBestSearch:
    """The k best trees of a batch, by token: (k, T) each."""

    def __init__(
        self, parser: Parser, batch: Batch, k: int, known: np.ndarray, probabilities: bool
    ) -> None:
        n_tokens = batch.values.shape[1]
        self._parser, self._batch, self._known = parser, batch, known
        self._probabilities = probabilities
        self._heads, self._labels = np.full((2, k, n_tokens), -1, np.int64)
        self._scores = np.full((k, len(batch)), -np.inf)
        self._log_partitions = np.zeros(len(batch))
        self._marginals = empty_marginals(k, n_tokens)

    def work(self, parser: Parser, which: np.ndarray, part: np.ndarray) -> int:
        """Find the trees of some of the sentences `which` with a parser."""
        numbers = which[part]
        some = self._batch.select(numbers)
        scores = find_k_best(parser, some, self._known, self._heads, self._labels)
        self._scores[:, numbers] = scores
        for j in range(len(scores)):
            there = np.flatnonzero(scores[j] > -np.inf)
            if not len(there):
                continue
            found = Found(self._heads[j], self._labels[j])
            parser.native.label_trees(some.select(there), found)
            if self._probabilities:
                of_labels = self._marginals.labels[j]
                _add_label_marginals(parser, some.select(there), found, of_labels)
        if self._probabilities:
            self._log_partitions[numbers] = find_tree_marginals(
                parser, some, self._known, self._heads, self._labels, self._marginals
            )  # fmt: skip
        return len(part)

    def add_chains(self, which: np.ndarray) -> None:
        """Sentences that are too long for any search: one tree, of score 0."""
        if not len(which):
            return
        some, found = self._batch.select(which), Found(self._heads[0], self._labels[0])
        write_chains(some, self._known, found)
        self._parser.native.label_trees(some, found)
        self._scores[0, which], self._log_partitions[which] = 0.0, np.inf
        for of_words in self._marginals:
            of_words[:, word_places(some)] = 0.0

    def by_word(self, orders: np.ndarray) -> KBest:
        """What was found, in the order of the treebank's words."""
        tokens = word_places(self._batch)
        has_labels = self._parser.label_weights is not None
        nats = self._scores * self._parser.arc_scale
        labels = self._labels[:, tokens].astype(np.int32) if has_labels else None
        heads = self._heads[:, tokens].astype(np.int32)
        if not self._probabilities:
            return KBest(heads, labels, nats, orders=orders)
        return KBest(
            heads,
            labels,
            nats,
            self._marginals.heads[:, tokens],
            self._marginals.labels[:, tokens] if has_labels else None,
            np.exp(np.minimum(nats - self._log_partitions, 0.0)),
            orders,
        )


def require_sums(parser: Parser) -> None:
    """Make sure that there are sums over the trees that are searched.

    Raises: ConfigError: there are none.
    """
    with_sums = with_quantity("marginals", "native")
    if parser.search_decoder not in with_sums:
        raise ConfigError(
            f"decoder {parser.search_decoder} has no exact sums, and so no probabilities; train"
            f" a model with one of {', '.join(with_sums)}"
        )


def _require_k_best(parser: Parser, k: int) -> None:
    if k < 1:
        raise ConfigError(f"{k} best trees: at least 1 is needed")
    if not DECODERS[parser.search_decoder].has("k_best", "native"):
        raise ConfigError(
            f"decoder {parser.search_decoder} finds one tree only; train a model with one of"
            f" {', '.join(with_quantity('k_best', 'native'))}"
        )


def _add_label_marginals(parser: Parser, batch: Batch, found: Found, marginals: np.ndarray) -> None:
    """Fill in the probabilities of labels of finished trees, if that is when they are found."""
    if parser.label_weights and parser.label_plan:
        native.call(
            "find_label_marginals_batch", sentences_of(batch), parser.label_plan,
            parser.label_weights.array, parser.vectors, parser.label_scale, found.heads,
            found.labels, marginals,
        )  # fmt: skip


def find_tree_marginals(
    parser: Parser,
    batch: Batch,
    known: np.ndarray,
    heads: np.ndarray,
    labels: np.ndarray,
    marginals: Marginals,
    *,
    least_risk: bool = False,
) -> np.ndarray:
    """Fill in the probabilities of K trees of every sentence, of labels if found with the trees.

    Args:
        parser: its decoder has marginals. batch: B sentences.
        known: (T,) heads by token that all trees have, -1 for none; empty: nothing is known.
        heads, labels: (K, T) int64 by token, -1 where nothing is asked.
        marginals: filled in for the batch's sentences.
        least_risk: whether heads[0], and labels[0] if found with the trees, are first to be filled
            with the trees of the most expected right heads.
    Returns: (B,) logarithms of the sums over all trees.
    Raises: NoTreeError: no tree has the known heads of a sentence, named by its number.
    Cost: one scoring of all arcs and the sums over trees.
    """
    log_partitions = np.zeros(len(batch))
    require_all(
        native.call(
            "find_marginals_batch", sentences_of(batch, known), *_scorer_and_search(parser),
            parser.arc_scale, parser.label_scale, least_risk, heads, labels, *marginals,
            log_partitions,
        )
    )  # fmt: skip
    return log_partitions


def find_k_best(
    parser: Parser, batch: Batch, known: np.ndarray, heads: np.ndarray, labels: np.ndarray
) -> np.ndarray:
    """Fill in the K best trees of every sentence, and their labels if found with the trees.

    Args:
        parser: its decoder has k best trees.
        known: as in `find_tree_marginals`.
        heads, labels: (K, T) int64 by token, filled in where there are as many trees.
    Returns: (K, B) scores, descending; -inf where there are fewer trees.
    Raises: NoTreeError: as `find_tree_marginals`.
    Cost: one scoring of all arcs and the search for k trees.
    """
    scores = np.full((len(heads), len(batch)), -np.inf)
    require_all(
        native.call(
            "find_k_best_batch", sentences_of(batch, known), *_scorer_and_search(parser),
            heads, labels, scores,
        )
    )  # fmt: skip
    return scores


def _scorer_and_search(parser: Parser) -> tuple[native.Struct, native.Struct]:
    """What trees are scored and searched with, as native code takes it."""
    return (
        make_scorer(
            parser.plan, parser.arcs, parser.features.rows, parser.plans.joint, parser.vectors
        ),
        make_search(parser.search_decoder, single_root=parser.single_root),
    )
