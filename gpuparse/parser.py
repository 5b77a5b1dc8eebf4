"""A trained parser: all that parsing needs, and nothing else.

Parsing goes in phases over a batch: encode (words to numbers), score, decode and label. An engine
does the last three: native code, torch, or Triton kernels; `Parser.engine` chooses it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gpuparse.cached import cached_property
from gpuparse.data.batch import Batch, word_places
from gpuparse.data.graphs import Graphs
from gpuparse.data.treebank import Treebank
from gpuparse.data.vocabulary import Encoder, Vocabularies
from gpuparse.errors import ConfigError
from gpuparse.features.plan import (
    ArcPlan,
    LabelPlan,
    Plan,
    compile_higher,
    compile_joint_labels,
    compile_labels,
    compile_plan,
)
from gpuparse.features.templates import TemplateSet
from gpuparse.inference.decoders import DECODERS
from gpuparse.limits import MAX_SCALE
from gpuparse.parts import CHILDREN
from gpuparse.scoring.admission import (
    CHAIN,
    LOWER,
    MAX_CELLS,
    OWN,
    PartSize,
    default_batch_size,
    permitted_orders,
    write_chains,
)
from gpuparse.scoring.engines import Found, LabelLimits, Scored, found_graphs, parsing_engine
from gpuparse.scoring.native_parser import NativeParser
from gpuparse.scoring.pruning import Pruner
from gpuparse.scoring.weights import FeatureMap, JointLabels, Weights, joint_labels
from gpuparse.scoring.word_vectors import WordVectors

if TYPE_CHECKING:
    from gpuparse.scoring.device import DeviceParser, Sent

NOTHING_KNOWN = np.zeros(0, np.int64)
UNLABELLED = "dep"  # the relation written into DEPS by a parser of graphs that has no labels

# Finds trees of a batch with a parser.
Find = Callable[["Parser", Batch], Found]


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


class Plans(NamedTuple):
    """What the templates of a parser compile to.

    labels: of finished trees. joint: of labels found with the trees, with their weights.
    """

    trees: Plan
    labels: LabelPlan | None
    joint: JointLabels | None


@dataclass(frozen=True, eq=False, kw_only=True)
class Parser:
    """A frozen parser; many threads may use it at once.

    Args:
        templates: the expanded arc templates.
        label_templates: the expanded label templates, None where only heads are predicted.
        vocabularies: the values that templates see.
        features: the row map of the arc features.
        arcs: integer weights (R, 1).
        labels: names of the relations, none for a parser that predicts heads only.
        primary: of a parser of graphs that predicts relations: the DEPREL of a primary arc with
            each relation, None for relations that no primary arc may have.
        label_weights: integer weights (lines, labels), with `labels` only.
        labels_with_trees: whether labels are found with the trees, not when these are finished.
        decoder: a name in `gpuparse.inference.decoders.DECODERS`, the one learned with.
        min_gain: a threshold. In `hill_climb` and `multi_parent` a single change must raise the
            score by more; in `dual_decomposition` a tree with crossing arcs must score more than
            the best projective one by more than this.
        single_root: whether every tree gets exactly one modifier of the root.
        arc_scale, label_scale: nats of one point of a tree's score, of a label's score.
        is_calibrated: whether the scales were fitted to trees that were not learned from.
        points: of weights of arcs and of labels for a unit of cost, as they were learned; None: of
            a blend, which nothing is learned from.
        pruner: of a higher-order parser: which arcs are searched over; None: all of them.
        vectors: word vectors, whose scores of arcs and labels are added; None: there are none.
        config: the YAML text of the run that made the parser, kept as a record.
        search_decoder: another decoder to search with; "" for `decoder`.
        limits: of labels, which `limit_labels` makes.
        compiled: what the templates compile to; None: found out.
    """

    templates: TemplateSet
    label_templates: TemplateSet | None
    vocabularies: Vocabularies
    features: FeatureMap
    arcs: Weights
    labels: Sequence[str]
    primary: Sequence[str | None] | None = None
    label_weights: Weights | None
    labels_with_trees: bool = False
    decoder: str
    min_gain: float = 0.0
    single_root: bool
    arc_scale: float = 1.0
    label_scale: float = 1.0
    is_calibrated: bool = False
    points: tuple[float, float] | None = None
    pruner: Pruner | None = None
    vectors: WordVectors | None = None
    config: str
    search_decoder: str = ""
    limits: LabelLimits | None = None
    compiled: Plans | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "search_decoder", self.search_decoder or self.decoder)

    def __getstate__(self) -> dict[str, Any]:
        """The fields, for pickle and copy; what was made of them is made again."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @cached_property
    def plans(self) -> Plans:
        """What the templates compile to."""
        if self.compiled is not None:
            return self.compiled
        higher = DECODERS[self.search_decoder].is_higher_order
        trees = compile_plan(self.templates, self.vocabularies, higher=higher)
        if self.label_templates is None or self.label_weights is None:
            return Plans(trees, None, None)
        if not self.labels_with_trees:
            return Plans(trees, compile_labels(self.label_templates, self.vocabularies), None)
        joint = compile_joint(
            self.label_templates, self.vocabularies, self.label_weights, len(self.labels),
            self.decoder,
        )  # fmt: skip
        return Plans(trees, None, joint)

    @property
    def plan(self) -> Plan:
        """The templates that trees are searched for with."""
        return self.plans.trees

    @property
    def label_plan(self) -> LabelPlan | None:
        """The templates of labels of finished trees."""
        return self.plans.labels

    @property
    def joint_plan(self) -> ArcPlan | None:
        """The templates of labels found with the trees."""
        return None if self.plans.joint is None else self.plans.joint.plan

    @cached_property
    def label_names(self) -> list[bytes]:
        """What DEPREL says for each relation, in UTF-8, as `write_predictions` takes it."""
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
        return replace(
            self,
            arc_scale=arc_scale,
            label_scale=label_scale,
            is_calibrated=is_calibrated,
            compiled=self.plans,
        )

    def with_single_root(self) -> "Parser":
        """This parser, each of whose trees gets exactly one modifier of the root."""
        return replace(self, single_root=True, compiled=self.plans)

    def lower_order(self) -> "Parser":
        """A parser of the first order with the arc scores of this one, or those of its pruner."""
        decoder, joint = DECODERS[self.search_decoder], self.plans.joint
        of_trees = not decoder.gives_graphs  # labels of graphs label no trees of the first order
        is_pruners = self.pruner is not None and joint is None
        vectors = self.vectors
        if vectors and is_pruners:  # whose scores have another scale
            vectors = vectors._replace(arc_multiplier=0)
        return replace(
            self,
            arcs=self.pruner.weights if self.pruner and is_pruners else self.arcs,
            pruner=None,
            vectors=vectors,
            limits=None,
            search_decoder=decoder.of_arcs,
            label_weights=self.label_weights if of_trees else None,
            compiled=Plans(
                self.plan.of_arcs,
                self.label_plan if of_trees else None,
                None if joint is None else joint._replace(higher=None),
            ),
        )

    def encode(self, treebank: Treebank, guides: np.ndarray | None = None) -> Batch:
        """The sentences of a treebank as one batch.

        Args: guides: as in `parse`.
        Raises: ConfigError: as `parse` for guides.
        """
        check_guides(self.templates, are_given=guides is not None)
        batch = self._encoder.encode(treebank)
        return batch if guides is None else batch.guided(guides)

    def parse(
        self,
        treebank: Treebank,
        *,
        guides: np.ndarray | None = None,
        known: np.ndarray | None = None,
        batch_size: int | None = None,
        max_cells: int = MAX_CELLS,
        threads: int = 1,
        device: str = "cpu",
        backend: str = "auto",
        batch: Batch | None = None,
        sent: "Sent | None" = None,
        progress: Callable[[int], None] = lambda sentences: None,
    ) -> Predictions:
        """Best trees and labels of a treebank; its own heads and labels are not looked at.

        Args:
            guides: (W,) heads that another parser proposes, -1 for none, as `read_guides` returns
                them; for parsers with guide features.
            known: (W,) heads that the trees shall have, -1 for those to be found.
            batch_size: most sentences at a time, at least 1, or what suits the device; they are
                sorted by length first. Neither this nor threads, device and backend change a
                single head.
            max_cells: of one sentence, as `permitted_orders` counts them: longer ones are parsed
                with a lower order or not at all, which the predictions say.
            threads: CPU threads, each with batches of its own; on another device there is one.
            device: "cpu" or "cuda".
            backend: "cpu" (native), "torch", "gpu" (Triton kernels), or "auto".
            batch: the treebank with its guides, if it has been encoded already.
            sent: the values of that batch on the device, of `send`.
            progress: called with the number of sentences finished, batch by batch.
        Raises:
            ConfigError, ScoreError: a batch size or backend that does not exist; guides that are
                missing, or that the parser has no use for; known heads of graphs.
            NoTreeError: a sentence has no tree with its known heads.
        Cost: as `arc_scores`, the decoder and `best_labels` together.
        """
        batch = self.encode(treebank, guides) if batch is None else batch
        given = by_token(batch, known)
        size = default_batch_size(device) if batch_size is None else batch_size
        find = partial(
            Parser.search, known=given, batch_size=size, threads=threads, device=device,
            backend=backend, sent=sent, progress=progress,
        )  # fmt: skip
        return self.predict(batch, given, max_cells, find)

    def predict(self, batch: Batch, known: np.ndarray, max_cells: int, find: Find) -> Predictions:
        """The results of `find` with this parser, and with lower orders for longer sentences.

        Args:
            batch: of a whole treebank. known: (T,) heads by token, or empty.
            max_cells: as in `parse`.
        """
        orders = self.orders(batch, max_cells)
        if orders.any():
            found = find(self, batch.select(np.flatnonzero(orders == OWN)))
            found = self._add_long_sentences(batch, orders, known, found, find)
        else:
            found = find(self, batch)
        return self._by_word(batch, orders, found)

    def orders(self, batch: Batch, max_cells: int = MAX_CELLS) -> np.ndarray:
        """(S,) int8: what each sentence of a batch may be parsed with; see `permitted_orders`."""
        return permitted_orders(batch.lengths, self._part_size(), max_cells)

    def _part_size(self) -> PartSize:
        """What the cells of a sentence are counted by."""
        if self.plan.higher and len(self.plan.higher.sides):
            joint = self.plans.joint
            labels = joint.stride if joint and joint.higher else 0
            return PartSize(4, self.pruner.max_heads if self.pruner else None, labels)
        return PartSize(3 if self.plan.siblings else 2)

    def _add_long_sentences(
        self, batch: Batch, orders: np.ndarray, known: np.ndarray, found: Found, find: Find
    ) -> Found:
        """What was found for a batch, with its sentences that are too long; changed in place."""
        some = batch.select(np.flatnonzero(orders == LOWER))
        if len(some):
            found.copy_words(word_places(some), find(self.lower_order(), some))
        some = batch.select(np.flatnonzero(orders == CHAIN))
        if len(some):
            write_chains(some, known, found)
            if found.arcs is None:
                self.native.label_trees(some, found)
        if found.arcs is None:
            return found
        some = batch.select(np.flatnonzero(orders != OWN))
        return self._add_trees_to_graphs(some, found)

    def _add_trees_to_graphs(self, batch: Batch, found: Found) -> Found:
        """Graphs, with the trees found for some of the sentences as graphs of these."""
        assert found.arcs is not None
        trees = found.tree_arcs(np.sort(word_places(batch)))
        if self.label_weights:
            starts = trees.starts(len(found.heads))
            self.native.label_graphs(batch, found.heads, trees, starts)
        return found_graphs(found.heads, found.labels, [found.arcs, trees])

    def _by_word(self, batch: Batch, orders: np.ndarray, found: Found) -> Predictions:
        """What was found, in the order of the treebank's words."""
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
            found.labels[tokens].astype(np.int32) if self.label_weights else None,
            None if found.arcs is None else self._graphs(found, tokens),
            head_probabilities,
            label_probabilities if self.label_weights else None,
            orders,
            certified,
            iterations,
        )

    def _graphs(self, found: Found, tokens: np.ndarray) -> Graphs:
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
        batch: Batch,
        *,
        known: np.ndarray = NOTHING_KNOWN,
        batch_size: int = 64,
        threads: int = 1,
        device: str = "cpu",
        backend: str = "auto",
        sent: "Sent | None" = None,
        progress: Callable[[int], None] = lambda sentences: None,
    ) -> Found:
        """`parse` for a batch that is already encoded.

        known: (T,) heads by token, -1 for none, or empty.
        sent: the batch's values on the device, of `send`, if they are there already.
        """
        if len(known) and DECODERS[self.search_decoder].gives_graphs:
            raise ConfigError(
                f"decoder {self.search_decoder} finds graphs; known heads cannot be kept in graphs:"
                " use a model of trees"
            )
        engine = self.engine(device, backend)
        if isinstance(engine, NativeParser):
            return engine.parse(batch, known, batch_size, threads, progress)
        found, left = engine.parse(batch, sent or engine.send(batch), known, batch_size, progress)
        if not len(left):
            return found
        some = batch.select(left)  # not even one at a time do they fit into the device's memory
        rest = self.native.parse(some, known, batch_size, threads, progress)
        found.copy_words(word_places(some), rest)
        if found.arcs is None or rest.arcs is None:
            return found
        return found_graphs(found.heads, found.labels, [found.arcs, rest.arcs])

    def send(self, batch: Batch, device: str, backend: str = "auto") -> "Sent | None":
        """Send a batch's values to a device for `search`, without waiting; None for native code.

        Raises: ScoreError: a backend that does not exist.
        """
        engine = self.engine(device, backend)
        return None if isinstance(engine, NativeParser) else engine.send(batch)

    def engine(self, device: str, backend: str) -> "NativeParser | DeviceParser":
        """What scores, decodes and labels on a device; made when it is first asked for.

        Raises: ScoreError: a backend that does not exist, or that cannot run there.
        """
        engine = parsing_engine(self.search_decoder, device, backend)
        if engine == "native":
            return self.native
        if (device, engine) not in self._device_parsers:
            from gpuparse.scoring.device import DeviceParser  # and torch with it

            self._device_parsers[device, engine] = DeviceParser(self.scored, device, engine)
        return self._device_parsers[device, engine]

    @cached_property
    def scored(self) -> Scored:
        """What engines score and search with."""
        return Scored(
            self.plan, self.features, self.arcs, self.search_decoder, self.single_root,
            self.min_gain, self.label_plan, self.plans.joint, self.label_weights,
            self.may_be_primary, self.pruner, self.limits, self.vectors,
        )  # fmt: skip

    @cached_property
    def native(self) -> NativeParser:
        """The native engine."""
        return NativeParser(self.scored)

    @cached_property
    def _encoder(self) -> Encoder:
        return Encoder(self.vocabularies)

    @cached_property
    def _device_parsers(self) -> "dict[tuple[str, str], DeviceParser]":
        return {}


def by_token(batch: Batch, by_word: np.ndarray | None) -> np.ndarray:
    """(T,) heads by token from (W,) by word; NOTHING_KNOWN if none is known."""
    if by_word is None or not (by_word >= 0).any():
        return NOTHING_KNOWN
    placed = np.full(batch.values.shape[1], -1, np.int64)
    placed[word_places(batch)] = by_word
    return placed


def compile_joint(
    templates: TemplateSet, vocabularies: Vocabularies, weights: Weights, width: int, decoder: str
) -> JointLabels:
    """What `width` labels are scored with, of a decoder that finds them with the trees.

    templates: of labels; those of children are read if the decoder labels children.
    weights: as `joint_labels`.
    """
    plan, children = compile_joint_labels(templates, vocabularies), None
    if DECODERS[decoder].reads_children:
        children = compile_higher(templates.only(CHILDREN), vocabularies)
    return joint_labels(plan, weights, width, children)


def check_guides(templates: TemplateSet, *, are_given: bool) -> None:
    """Make sure that guides are there for guide templates, and only for them.

    Raises: ConfigError: they are not.
    """
    if templates.guide and not are_given:
        raise ConfigError("the model reads guides, and there are none")
    if are_given and not templates.guide:
        raise ConfigError("the model was learned without guides, and guides are given")


def are_scales(*scales: object) -> bool:
    """Whether scores can be multiplied by them to be nats, without larger rounding errors."""
    return all(isinstance(scale, float) and 0 < scale <= MAX_SCALE for scale in scales)
