"""The confidence of a parser: marginals of heads and labels, minimum Bayes risk, k best trees."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from gpuparse.data.batch import Encoded, word_places
from gpuparse.data.treebank import Treebank
from gpuparse.errors import ConfigError
from gpuparse.inference.decoders import DECODERS, with_quantity
from gpuparse.model.engines.admission import CHAIN, LOWER, OWN, write_chains
from gpuparse.model.engines.results import SearchResult
from gpuparse.model.engines.searcher import BatchOptions, BestTrees, Marginals
from gpuparse.model.parser import Parser, Predictions, by_token


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


def parse_with_confidence(
    parser: Parser,
    treebank: Treebank | Encoded,
    *,
    probabilities: bool = True,
    least_risk: bool = False,
    guides: np.ndarray | None = None,
    known: np.ndarray | None = None,
    batch_size: int = 64,
    threads: int = 1,
    device: str = "cpu",
    engine: str = "auto",
    sent: Any = None,
    progress: Callable[[int], None] = lambda sentences: None,
) -> Predictions:
    """`Parser.parse` with probabilities, or for minimum Bayes risk trees.

    Args:
        treebank: or its batch, encoded with guides, whose values `sent` has on the device.
        probabilities: whether to compute those of heads and labels, given the known heads.
        least_risk: whether the trees shall be those with the most heads expected to be right
            (minimum Bayes risk), instead of the best ones; projective if those are.
        Other arguments: as in `Parser.parse`.
    Raises: ConfigError: there are no sums over the decoder's trees. Others as `Parser.parse`.
    Cost: as `Parser.parse`, and the sums over all trees.
    """
    require_sums(parser)
    batch = _encoded(parser, treebank, guides)
    given = by_token(batch, known)
    options = BatchOptions(
        batch_size, threads, sent, progress, probabilities=probabilities, least_risk=least_risk
    )

    def find(of_order: Parser, some: Encoded) -> SearchResult:
        return of_order.searcher(device, engine).marginals(some, given, options)

    return parser.predict(batch, given, find)


def find_marginals(
    parser: Parser,
    batch: Encoded,
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
    options = BatchOptions(threads=threads)
    return parser.host.probabilities_of(batch, heads, labels, which, options)


def find_k_best_trees(
    parser: Parser,
    treebank: Treebank | Encoded,
    k: int,
    *,
    guides: np.ndarray | None = None,
    known: np.ndarray | None = None,
    probabilities: bool = False,
    batch_size: int = 64,
    threads: int = 1,
    device: str = "cpu",
    engine: str = "auto",
    sent: Any = None,
) -> KBest:
    """The k best trees of every sentence and the best labels of each of them.

    Labels that are found when a tree is finished do not count in its score.

    Args:
        k: at least 1.
        Other arguments: as in `parse_with_confidence`.
    Raises:
        ConfigError: no k best trees, or no sums, of this decoder; as `Parser.parse`.
        NoTreeError: as `Parser.parse`.
    Cost: as `arc_scores`, the search for k trees and k times the search for labels.
    """
    _require_k_best(parser, k)
    if probabilities:
        require_sums(parser)
    batch = _encoded(parser, treebank, guides)
    given = by_token(batch, known)
    trees = BestTrees.empty(k, batch)
    options = BatchOptions(batch_size, threads, sent, probabilities=probabilities)
    orders = parser.orders(batch)
    for of_order, order in ((parser, OWN), (parser.lower_order(), LOWER)):
        which = np.flatnonzero(orders == order)
        if len(which):
            some = batch.select(which)
            searcher = of_order.searcher(device, engine)
            trees.copy_sentences(which, some, searcher.k_best(some, given, k, options))
    _add_chains(parser, batch, given, np.flatnonzero(orders == CHAIN), trees)
    return _by_word(parser, batch, orders, trees, probabilities=probabilities)


def _encoded(parser: Parser, treebank: Treebank | Encoded, guides: np.ndarray | None) -> Encoded:
    return parser.encode(treebank, guides) if isinstance(treebank, Treebank) else treebank


def _add_chains(
    parser: Parser, batch: Encoded, known: np.ndarray, which: np.ndarray, trees: BestTrees
) -> None:
    """Sentences that are too long for any search: one tree, of score 0."""
    if not len(which):
        return
    some, found = batch.select(which), SearchResult(trees.heads[0], trees.labels[0])
    write_chains(some, known, found)
    parser.host.label_trees(some, found)
    trees.scores[0, which], trees.log_partitions[which] = 0.0, np.inf
    for of_words in trees.marginals:
        of_words[:, word_places(some)] = 0.0


def _by_word(
    parser: Parser, batch: Encoded, orders: np.ndarray, trees: BestTrees, *, probabilities: bool
) -> KBest:
    """The k best trees, in the order of the treebank's words."""
    tokens = word_places(batch)
    has_labels = bool(parser.labels)
    nats = trees.scores * parser.scales.arc
    labels = trees.labels[:, tokens].astype(np.int32) if has_labels else None
    heads = trees.heads[:, tokens].astype(np.int32)
    if not probabilities:
        return KBest(heads, labels, nats, orders=orders)
    return KBest(
        heads,
        labels,
        nats,
        trees.marginals.heads[:, tokens],
        trees.marginals.labels[:, tokens] if has_labels else None,
        np.exp(np.minimum(nats - trees.log_partitions, 0.0)),
        orders,
    )


def require_sums(parser: Parser) -> None:
    """Make sure that there are sums over the trees that are searched.

    Raises: ConfigError: there are none.
    """
    require_sums_of(parser.search_decoder)


def require_sums_of(decoder: str) -> None:
    """Make sure that there are sums over the trees of a decoder.

    Raises: ConfigError: there are none.
    """
    if not DECODERS[decoder].has("marginals", "native"):
        raise ConfigError(lacks_quantity(decoder, "marginals"))


def lacks_quantity(decoder: str, quantity: Literal["marginals", "k_best"]) -> str:
    """The message that a decoder has no probabilities, or no k best trees, and what has them."""
    what = {
        "marginals": "has no exact sums, and so no probabilities",
        "k_best": "finds one tree only",
    }
    others = " or ".join(with_quantity(quantity, "native"))
    return (
        f"decoder {decoder} {what[quantity]}; train a model with decoder={others}, as the config"
        " fast does, or default with decoder=eisner_sibling"
    )


def _require_k_best(parser: Parser, k: int) -> None:
    if k < 1:
        raise ConfigError(f"{k} best trees: at least 1 is needed")
    if not DECODERS[parser.search_decoder].has("k_best", "native"):
        raise ConfigError(lacks_quantity(parser.search_decoder, "k_best"))
