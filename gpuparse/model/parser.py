"""A trained parser: all that parsing needs, and nothing else.

Parsing goes in phases over a batch: encode (words to numbers), score, decode and label. Scorers
encode and score; a searcher decodes and labels under their scores; `Parser.searcher` chooses it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any

import numpy as np

from gpuparse.data.batch import Encoded, word_places
from gpuparse.data.cached import cached_property
from gpuparse.data.graphs import Graphs
from gpuparse.data.treebank import Treebank
from gpuparse.errors import ConfigError
from gpuparse.inference.decoders import DECODERS, Engine
from gpuparse.limits import MAX_SCALE
from gpuparse.model.engines.admission import (
    CHAIN,
    LOWER,
    OWN,
    default_batch_size,
    permitted_orders,
    write_chains,
)
from gpuparse.model.engines.fused import Fused, fused_engine
from gpuparse.model.engines.results import LabelLimits, SearchResult, found_graphs
from gpuparse.model.engines.searcher import BatchOptions, Scales, Searcher, SearchTask, engine_of
from gpuparse.scorers.linear.scorer import LinearScorer
from gpuparse.scorers.scorer import Scorer, cells_of

NOTHING_KNOWN = np.zeros(0, np.int64)
UNLABELLED = "dep"  # the relation written into DEPS by a parser of graphs that has no labels

# Finds trees of a batch with a parser.
Find = Callable[["Parser", Encoded], SearchResult]


@dataclass(frozen=True, eq=False)
class Predictions:
    """Trees or graphs of a treebank's words, in its order.

    heads: (W,) int32, 0 for the root; of graphs the primary ones. labels: (W,) int32 numbers of
    relations, or None. graphs: all heads with their relations, of parsers of graphs.
    head_probabilities, label_probabilities: (W,) float64, of the arc and, given the arc, of its
    relation, if asked for; the latter with labels only. orders: (S,) int8 OWN, LOWER or CHAIN: what
    each sentence was parsed with. certified: (S,) bool, of dual decomposition: whether no tree
    scores more; iterations: (S,) int64, how often its sub-problems were solved.
    """

    heads: np.ndarray
    labels: np.ndarray | None
    graphs: Graphs | None = None
    head_probabilities: np.ndarray | None = None
    label_probabilities: np.ndarray | None = None
    orders: np.ndarray | None = None
    certified: np.ndarray | None = None
    iterations: np.ndarray | None = None


@dataclass(frozen=True, eq=False, kw_only=True)
class Parser:
    """A frozen parser; many threads may use it at once.

    Args:
        scorers: what scores parts and labels; they are summed in their order.
        labels: names of the relations, none for a parser that predicts heads only.
        primary: of a parser of graphs that predicts relations: the DEPREL of a primary arc with
            each relation, None for relations that no primary arc may have.
        decoder: a name in `gpuparse.inference.decoders.DECODERS`, the one learned with.
        min_gain: a threshold. In `hill_climb` and `multi_parent` a single change must raise the
            score by more; in `dual_decomposition` a tree with crossing arcs must score more than
            the best projective one by more than this.
        single_root: whether every tree gets exactly one modifier of the root.
        scales: nats of one point of a tree's score, and of a label's score.
        config: the YAML text of the run that made the parser, kept as a record.
        other_decoder: to search with; None: `decoder`.
        limits: of labels, which `limit_labels` makes.
    """

    scorers: tuple[Scorer, ...]
    labels: Sequence[str]
    primary: Sequence[str | None] | None = None
    decoder: str
    min_gain: float = 0.0
    single_root: bool
    scales: Scales
    config: str
    other_decoder: str | None = None
    limits: LabelLimits | None = None

    @property
    def search_decoder(self) -> str:
        """The decoder that finds the trees."""
        return self.other_decoder or self.decoder

    def __getstate__(self) -> dict[str, Any]:
        """The fields, for pickle and copy; what was made of them is made again."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @property
    def has_templates(self) -> bool:
        """True if there is a scorer of templates."""
        return any(isinstance(scorer, LinearScorer) for scorer in self.scorers)

    @property
    def linear(self) -> LinearScorer:
        """The scorer of templates.

        Raises: ConfigError: there is none.
        """
        for scorer in self.scorers:
            if isinstance(scorer, LinearScorer):
                return scorer
        raise ConfigError(
            f"the model has no templates, which this needs: its scores are of kind {self.kinds}"
        )

    @property
    def kinds(self) -> str:
        """The kinds of its scorers, for messages."""
        return " and ".join(scorer.kind for scorer in self.scorers)

    def with_linear(self, **changes: Any) -> "Parser":
        """This parser with other fields of the scorer of templates."""
        changed = replace(self.linear, **changes)
        scorers = (changed if each is self.linear else each for each in self.scorers)
        return replace(self, scorers=tuple(scorers))

    @property
    def is_exact(self) -> bool:
        """True if all scores are whole numbers, the same on every device."""
        return all(scorer.is_exact for scorer in self.scorers)

    @property
    def reads_guides(self) -> bool:
        """True if it reads heads that another parser proposes."""
        return any(scorer.reads_guides for scorer in self.scorers)

    @property
    def labels_with_trees(self) -> bool:
        """True if labels are found with the trees, not when these are finished."""
        return any(scorer.has_labels and scorer.labels_with_trees for scorer in self.scorers)

    @cached_property
    def reads(self) -> dict[int, list[str]]:
        """The columns of CoNLL-U that it reads, 0 to 9, and the names of the fields there."""
        read: dict[int, list[str]] = {}
        for scorer in self.scorers:
            for column, names in scorer.reads.items():
                read.setdefault(column, []).extend(names)
        return read

    @property
    def fills(self) -> tuple[int, ...]:
        """The columns of CoNLL-U that its scorers fill, 0 to 9."""
        return tuple(column for scorer in self.scorers for column in scorer.fills)

    @cached_property
    def label_names(self) -> list[bytes]:
        """The DEPREL of each relation, in UTF-8, as `write_predictions` takes it."""
        names = self.labels if self.primary is None else self.primary
        return [(name or "").encode() for name in names]

    @property
    def may_be_primary(self) -> np.ndarray | None:
        """(labels,) bool, of graphs: the labels that arcs from primary heads may have."""
        return (
            None if self.primary is None else np.array([name is not None for name in self.primary])
        )

    def with_scales(
        self, arc_scale: float, label_scale: float, *, is_calibrated: bool = True
    ) -> "Parser":
        """This parser with other scales of probability, and the same trees.

        Raises: ValueError: a scale is not above 0, or above MAX_SCALE.
        """
        if not are_scales(arc_scale, label_scale):
            raise ValueError(
                f"scales must be above 0 and at most {MAX_SCALE:g}: {arc_scale}, {label_scale}"
            )
        return replace(self, scales=Scales(arc_scale, label_scale, is_calibrated))

    def with_single_root(self) -> "Parser":
        """This parser, each of whose trees gets exactly one modifier of the root."""
        return replace(self, single_root=True)

    def lower_order(self) -> "Parser":
        """A parser of the first order with the arc scores of this one, or those of its pruner."""
        scorers: list[Scorer] = []
        for scorer in self.scorers:
            is_replaced = any(before.replaces_arcs for before in self.scorers[: len(scorers)])
            scorers.append(scorer.lower_order(is_replaced=is_replaced))
        decoder = DECODERS[self.search_decoder].of_arcs
        return replace(self, scorers=tuple(scorers), limits=None, other_decoder=decoder)

    def encode(self, treebank: Treebank, guides: np.ndarray | None = None) -> Encoded:
        """The sentences of a treebank as one batch.

        Args: guides: as in `parse`.
        Raises: ConfigError: as `parse` for guides.
        """
        return self.scorers[0].encode(treebank, guides)

    def generated(self, lengths: Sequence[int], *, only_known: bool = False) -> Encoded:
        """Random sentences of given lengths, for self-tests; only_known: of known values alone."""
        return self.scorers[0].generated(lengths, only_known=only_known)

    def parse(
        self,
        treebank: Treebank | None,
        *,
        guides: np.ndarray | None = None,
        known: np.ndarray | None = None,
        batch_size: int | None = None,
        threads: int = 1,
        device: str = "cpu",
        engine: str = "auto",
        batch: Encoded | None = None,
        sent: Any = None,
        progress: Callable[[int], None] = lambda sentences: None,
    ) -> Predictions:
        """Best trees and labels of a treebank; its own heads and labels are not looked at.

        Very long sentences are parsed with a lower order or not at all (`permitted_orders`), which
        the predictions say.

        Args:
            guides: (W,) heads that another parser proposes, -1 for none, as `read_guides` returns
                them; for parsers with guide features.
            known: (W,) heads that the trees shall have, -1 for those to be found.
            batch_size: most sentences at a time, at least 1, or what suits the device; they are
                sorted by length first. Neither this nor threads and engine change a
                single head, nor does the device where `is_exact`.
            threads: CPU threads, each with batches of its own; on another device there is one.
            device: "cpu" or "cuda".
            engine: "native", "torch", "triton", or "auto".
            batch: the treebank with its guides, encoded; the treebank is not read then.
            sent: the values of that batch on the device, of `send`.
            progress: called with the number of sentences finished, batch by batch.
        Raises:
            ConfigError, ScoreError: a batch size or engine that does not exist; guides that are
                missing, or that the parser has no use for; known heads of graphs.
            NoTreeError: a sentence has no tree with its known heads.
        Cost: as `arc_scores`, the decoder and the search for labels together.
        """
        if batch is None:
            assert treebank is not None
            batch = self.encode(treebank, guides)
        given = by_token(batch, known)
        size = default_batch_size(device) if batch_size is None else batch_size
        find = partial(
            Parser.search, known=given, batch_size=size, threads=threads, device=device,
            engine=engine, sent=sent, progress=progress,
        )  # fmt: skip
        return self.predict(batch, given, find)

    def predict(self, batch: Encoded, known: np.ndarray, find: Find) -> Predictions:
        """The results of `find` with this parser, and with lower orders for longer sentences.

        Args: batch: of a whole treebank. known: (T,) heads by token, or empty.
        """
        orders = self.orders(batch)
        if orders.any():
            found = find(self, batch.select(np.flatnonzero(orders == OWN)))
            found = self._add_long_sentences(batch, orders, known, found, find)
        else:
            found = find(self, batch)
        return self._by_word(batch, orders, found)

    def orders(self, batch: Encoded) -> np.ndarray:
        """(S,) int8: what each sentence of a batch may be parsed with; see `permitted_orders`."""
        cells = cells_of(self.scorers, batch.lengths)
        return permitted_orders(batch.lengths, cells)

    def _add_long_sentences(
        self, batch: Encoded, orders: np.ndarray, known: np.ndarray, found: SearchResult, find: Find
    ) -> SearchResult:
        """Add the trees of a batch's sentences that are too long; `found` is changed in place."""
        some = batch.select(np.flatnonzero(orders == LOWER))
        if len(some):
            found.copy_words(word_places(some), find(self.lower_order(), some))
        some = batch.select(np.flatnonzero(orders == CHAIN))
        if len(some):
            write_chains(some, known, found)
            if found.arcs is None:
                self.host.label_trees(some, found)
        if found.arcs is None:
            return found
        some = batch.select(np.flatnonzero(orders != OWN))
        return self._add_trees_to_graphs(some, found)

    def _add_trees_to_graphs(self, batch: Encoded, found: SearchResult) -> SearchResult:
        """Graphs, with the trees found for some of the sentences as graphs of these."""
        assert found.arcs is not None
        trees = found.tree_arcs(np.sort(word_places(batch)))
        self.host.label_graphs(batch, found.heads, trees)
        return found_graphs(found.heads, found.labels, [found.arcs, trees])

    def _by_word(self, batch: Encoded, orders: np.ndarray, found: SearchResult) -> Predictions:
        """The predictions, in the order of the treebank's words."""
        tokens = word_places(batch)
        certified = iterations = None
        if found.certificates is not None:
            is_certified, iterations = found.certificates[:, batch.starts]
            certified = (is_certified > 0) & (orders == OWN)
        head_probabilities, label_probabilities = (
            None if each is None else each[tokens]
            for each in (found.head_probabilities, found.label_probabilities)
        )
        return Predictions(
            found.heads[tokens].astype(np.int32),
            found.labels[tokens].astype(np.int32) if self.labels else None,
            None if found.arcs is None else self._graphs(found, tokens),
            head_probabilities,
            label_probabilities if self.labels else None,
            orders,
            certified,
            iterations,
        )

    def _graphs(self, found: SearchResult, tokens: np.ndarray) -> Graphs:
        """The graphs by word; without labels every arc has the relation UNLABELLED."""
        assert found.arcs is not None
        counts = np.bincount(found.arcs.tokens, minlength=len(found.heads))[tokens]
        return Graphs(
            np.concatenate([[0], np.cumsum(counts)]),
            found.arcs.heads.astype(np.int32),
            found.arcs.labels.astype(np.int32).clip(min=0),
            list(self.labels) or [UNLABELLED],
        )

    def search(
        self,
        batch: Encoded,
        *,
        known: np.ndarray = NOTHING_KNOWN,
        batch_size: int = 64,
        threads: int = 1,
        device: str = "cpu",
        engine: str = "auto",
        sent: Any = None,
        progress: Callable[[int], None] = lambda sentences: None,
    ) -> SearchResult:
        """`parse` for a batch that is already encoded.

        known: (T,) heads by token, -1 for none, or empty.
        sent: the batch's values on the device, of `send`, if they are there already.
        """
        if len(known) and DECODERS[self.search_decoder].gives_graphs:
            raise ConfigError(
                f"decoder {self.search_decoder} finds graphs; known heads cannot be kept in graphs:"
                " use a model of trees"
            )
        options = BatchOptions(batch_size, threads, sent, progress)
        return self.searcher(device, engine).best(batch, known, options)

    def send(self, batch: Encoded, device: str, engine: str = "auto") -> Any:
        """Send a batch to a device for `search`, without waiting; None for native code.

        Raises: ScoreError: an engine that does not exist.
        """
        return self.searcher(device, engine).send(batch)

    def searcher(self, device: str = "cpu", engine: str = "auto") -> Searcher:
        """The object that finds trees and labels on a device; made at its first use.

        Raises: ScoreError: an engine that does not exist, or that cannot run there.
        """
        chosen = engine_of(self.search_decoder, device, engine, is_fused=self.fused is not None)
        if chosen == "native" and self.fused is not None:
            return self.fused
        if chosen == "native" and device == "cpu" and self.quantised is not None:
            return self.quantised
        return self._dense_searcher(device, chosen)

    def _dense_searcher(self, device: str, engine: Engine) -> Searcher:
        if (device, engine) not in self._dense:
            from gpuparse.model.engines.dense import Dense  # and torch with it

            otherwise = None if engine == "native" else self.host
            self._dense[device, engine] = Dense(self.scorers, self.task, device, engine, otherwise)
        return self._dense[device, engine]

    @property
    def host(self) -> Searcher:
        """The engine of the CPU, which parses and labels what fits nowhere else."""
        return self.searcher()

    @cached_property
    def task(self) -> SearchTask:
        """The task of engines."""
        return SearchTask(
            self.search_decoder, self.single_root, self.min_gain, self.scales, len(self.labels),
            self.may_be_primary, self.limits,
        )  # fmt: skip

    @cached_property
    def fused(self) -> Fused | None:
        """The searcher in native code; None: the scorers have no native forms."""
        return fused_engine(self.scorers, self.task)

    @cached_property
    def quantised(self) -> Searcher | None:
        """The native engine of weights of 8 bits; None: the scorers are others."""
        from gpuparse.model.engines.quantised import quantised_engine  # and the encoders with it

        return quantised_engine(self.scorers, self.task)

    @cached_property
    def _dense(self) -> dict[tuple[str, str], Searcher]:
        return {}


def by_token(batch: Encoded, by_word: np.ndarray | None) -> np.ndarray:
    """(T,) heads by token from (W,) by word; NOTHING_KNOWN if none is known."""
    if by_word is None or not (by_word >= 0).any():
        return NOTHING_KNOWN
    placed = np.full(batch.n_tokens, -1, np.int64)
    placed[word_places(batch)] = by_word
    return placed


def are_scales(*scales: object) -> bool:
    """True if scores can be multiplied by them to be nats, without larger rounding errors."""
    return all(isinstance(scale, float) and 0 < scale <= MAX_SCALE for scale in scales)
