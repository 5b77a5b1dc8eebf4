"""A trained model: all that parsing needs, and nothing else."""

import copy
import json
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from gpuparse.data.batch import Batch, incomplete, word_places
from gpuparse.data.graphs import Graphs
from gpuparse.data.treebank import Treebank
from gpuparse.data.vocabulary import Encoder, Vocabularies
from gpuparse.errors import ConfigError, ModelError, ScoreError
from gpuparse.features.label_plan import LabelPlan, compile_labels
from gpuparse.features.larger_plan import CHILDREN, LargerPlan, compile_larger
from gpuparse.features.plan import (
    LINE,
    ArcPlan,
    Plan,
    compile_arcs,
    compile_joint_labels,
    compile_plan,
)
from gpuparse.features.templates import PARTS, TemplateSet, dump_set, parse_set
from gpuparse.inference.backends import choose_backend
from gpuparse.inference.crossing_scores import MOST_LIMITS, classes_of_labels
from gpuparse.inference.decode import DECODERS
from gpuparse.inference.kernels.cpu.search_k_best import K_BEST
from gpuparse.inference.kernels.cpu.search_larger import LargerSearch
from gpuparse.model_folder import (
    CONFIG,
    FEATURES,
    LABEL_FEATURES,
    VOCABULARY,
    are_units,
    as_json,
    check_parts,
    read_folder,
    write_folder,
)
from gpuparse.scoring.admission import (
    CHAIN,
    CPU_BUDGET,
    LOWER,
    MAX_CELLS,
    OWN,
    Admission,
    PartSize,
    default_batch_size,
    permitted_orders,
)
from gpuparse.scoring.confidence import (
    Chances,
    TreeScorer,
    find_k_best,
    no_chances,
    require_all,
    trust_labels,
    trust_trees,
)
from gpuparse.scoring.cpu_confidence import SUMS
from gpuparse.scoring.cpu_joint import JointLabels
from gpuparse.scoring.cpu_parse import (
    ParseScratch,
    label_sentence,
    make_parse_scratch,
    parse_graphs,
    parse_sentences,
    score_crossing_parts,
)
from gpuparse.scoring.device import DeviceParser, Scored, Sent
from gpuparse.scoring.exact import CrossingParts, best_tree
from gpuparse.scoring.feature_map import (
    FeatureMap,
    contents,
    frozen_map,
    hashed_map,
)
from gpuparse.scoring.joint import joint_labels
from gpuparse.scoring.labels import label_ragged, label_ragged_graphs
from gpuparse.scoring.pruning import Pruner, all_cells, prune, with_arcs
from gpuparse.scoring.weights import Weights

NOTHING_KNOWN = np.zeros(0, np.int64)
UNLABELLED = "dep"  # the relation written into DEPS by a model of graphs that has no labels


@dataclass(frozen=True)
class Predictions:
    """Trees or graphs of a treebank's words, in its order.

    heads: (W,) int32, 0 for the root; of graphs the primary ones. labels: (W,) int32 numbers of
    relations, or None. graphs: all heads with their relations, of models that find graphs.
    head_chances, label_chances: (W,) float64, of the arc and, given that, of the relation, if asked
    for; the latter with labels only. orders: (S,) int8 OWN, LOWER or CHAIN of
    `gpuparse.scoring.admission`: what each sentence was parsed with. certified: (S,) bool, of dual
    decomposition: whether the tree is known to be the best one under the model; iterations: (S,)
    int64, how often its sub-problems were solved.
    """

    heads: np.ndarray
    labels: np.ndarray | None
    graphs: Graphs | None = None
    head_chances: np.ndarray | None = None
    label_chances: np.ndarray | None = None
    orders: np.ndarray | None = None
    certified: np.ndarray | None = None
    iterations: np.ndarray | None = None


@dataclass(frozen=True)
class KBest:
    """Several trees of each of the S sentences of a treebank with W words, the best first.

    heads: (k, W) int32, -1 where a sentence has fewer trees. labels: (k, W) int32, or None.
    scores: (k, S) float64 in nats, without a constant; of the labels too, if they are found with
    the trees. -inf where there is no such tree. head_chances, label_chances: (k, W) as of
    Predictions. chances: (k, S) probabilities of the trees, of whose scores they are exp less the
    logarithm of the sum over all trees. orders: as of Predictions; a sentence that was not searched
    has one tree, of score 0.
    """

    heads: np.ndarray
    labels: np.ndarray | None
    scores: np.ndarray
    head_chances: np.ndarray | None = None
    label_chances: np.ndarray | None = None
    chances: np.ndarray | None = None
    orders: np.ndarray | None = None


@dataclass(frozen=True)
class Found:
    """What was found for a batch, by place; -1 for what is no word, and where there are no labels.

    heads, labels: (T,) int64. arc_starts, arc_heads, arc_labels: of graphs, where the word at place
    t has the heads arc_heads[arc_starts[t] : arc_starts[t + 1]], ascending.
    """

    heads: np.ndarray
    labels: np.ndarray
    arc_starts: np.ndarray | None = None
    arc_heads: np.ndarray | None = None
    arc_labels: np.ndarray | None = None
    notes: "Notes | None" = None


class Notes:
    """What searches beyond the second order write down besides trees, at the places of roots.

    by_place: (2, T) int64, whether the tree is certified, and iterations. firsts: (T,) int64 for
    pruning.
    """

    def __init__(self, n_places: int) -> None:
        self.by_place = np.zeros((2, n_places), np.int64)
        self.firsts = np.zeros(n_places, np.int64)


class Model:
    """A frozen parser.

    Args:
        templates: the expanded arc templates.
        label_templates: the expanded label templates, None where only heads are predicted.
        vocabularies: the values that templates see.
        features: the row map of the arc features.
        arcs: whole-number weights (R, 1).
        labels: names of the relations, none for a parser that predicts heads only.
        primary: of a parser of graphs that predicts relations: what DEPREL says where a primary
            arc has a relation, None for relations that no primary arc may have.
        label_weights: whole-number weights (lines, labels), with `labels` only.
        labels_with_trees: whether labels are found with the trees, not when these are finished.
        decoder: a name in `gpuparse.inference.decode.DECODERS`, the one learned with.
        min_gain: what a single change must raise the score by more than, in the decoders that make
            such changes; what a tree with crossing arcs must score more than the best projective
            one, in `dual_decomposition` and `ilp`.
        single_root: whether every tree gets exactly one modifier of the root.
        arc_unit, label_unit: nats that one point of a tree's score, of a label's score is worth
            where probabilities are asked for.
        is_calibrated: whether the units were fitted to trees that were not learned from.
        pruner: of a parser beyond the second order: what says which arcs are searched over; None:
            all of them.
        config: the YAML text of the run that made the model, kept as a record.
    """

    def __init__(
        self,
        *,
        templates: TemplateSet,
        label_templates: TemplateSet | None,
        vocabularies: Vocabularies,
        features: FeatureMap,
        arcs: Weights,
        labels: Sequence[str],
        primary: Sequence[str | None] | None = None,
        label_weights: Weights | None,
        labels_with_trees: bool = False,
        decoder: str,
        min_gain: float = 0.0,
        single_root: bool,
        arc_unit: float = 1.0,
        label_unit: float = 1.0,
        is_calibrated: bool = False,
        pruner: Pruner | None = None,
        config: str,
    ) -> None:
        self.templates = templates
        self.label_templates = label_templates
        self.vocabularies = vocabularies
        self.features = features
        self.arcs = arcs
        self.labels = list(labels)
        self.primary = None if primary is None else list(primary)
        self.label_weights = label_weights
        self.decoder = decoder
        self.searched_with = decoder  # another one only after `with_decoder`
        self.min_gain = min_gain
        self.single_root = single_root
        self.arc_unit, self.label_unit = arc_unit, label_unit
        self.is_calibrated = is_calibrated
        self.pruner = pruner
        self.config = config
        self.plan: Plan = compile_plan(
            templates, vocabularies, larger=DECODERS[decoder].reads_larger
        )
        self.label_plan: LabelPlan | None = None  # of labels of finished trees
        self.joint_plan: ArcPlan | None = None  # of labels found with the trees
        self._joint: JointLabels | None = None
        if label_templates is not None and label_weights is not None:
            if labels_with_trees:
                self.joint_plan = compile_joint_labels(label_templates, vocabularies)
                larger = label_children(label_templates, vocabularies, decoder)
                self._joint = joint_labels(
                    self.joint_plan, label_weights.array, len(labels), larger
                )
            else:
                self.label_plan = compile_labels(label_templates, vocabularies)
        # The class of each label, and the limits of each class, after `with_limits`.
        self._limits: tuple[np.ndarray, np.ndarray] | None = None
        self._device_parsers: dict[tuple[str, str, str, bool], DeviceParser] = {}
        self._encoder = Encoder(vocabularies)

    @property
    def label_names(self) -> list[bytes]:
        """What DEPREL says for each relation, in UTF-8, as `write_predictions` takes it."""
        names = self.labels if self.primary is None else self.primary
        return [(name or "").encode() for name in names]

    def with_decoder(self, name: str, *, force: bool = False) -> "Model":
        """This model, searching with another decoder; saved, it still names its own.

        Args:
            name: a decoder; the model's own gives the model as it was sent.
            force: whether to search with one that the weights were not learned with.
        Raises:
            ConfigError: no such decoder; another one that is not forced; or one that the model
                lacks something for, forced or not.
        """
        if name not in DECODERS:
            raise ConfigError(f"unknown decoder {name!r}: expected one of {', '.join(DECODERS)}")
        if name != self.decoder:
            self._check_decoder(name)
            if not force:
                raise ConfigError(
                    f"decoder {name}: the model's weights were learned with {self.decoder}, and"
                    " weights learned from the mistakes of one search mislead another: projective"
                    " models lose 1 to 10 points of UAS under hill_climb; train a model with"
                    f" decoder={name}, or give --force-decoder to search with {name} all the same"
                )
        other = copy.copy(self)
        other.searched_with = name
        reads_larger = DECODERS[name].reads_larger
        if reads_larger != (self.plan.larger is not None):
            other.plan = compile_plan(self.templates, self.vocabularies, larger=reads_larger)
        if self.pruner:  # so that among the arcs left there is a tree of the other kind
            other.pruner = self.pruner._replace(decoder=DECODERS[name].of_arcs)
        other._encoder = Encoder(self.vocabularies)
        return other

    def with_units(
        self, arc_unit: float, label_unit: float, *, is_calibrated: bool = True
    ) -> "Model":
        """This model with other units of probability, and the same trees.

        Args:
            arc_unit, label_unit: positive.
        Raises:
            ValueError: they are not.
        """
        if not are_units(arc_unit, label_unit):
            raise ValueError(f"{arc_unit} and {label_unit} cannot be the units of this model")
        other = copy.copy(self)
        other.arc_unit, other.label_unit, other.is_calibrated = arc_unit, label_unit, is_calibrated
        other._encoder = Encoder(self.vocabularies)
        return other

    def with_single_root(self) -> "Model":
        """This model, each of whose trees gets exactly one modifier of the root."""
        other = copy.copy(self)
        other.single_root = True
        other._encoder = Encoder(self.vocabularies)
        return other

    def with_limits(self, limits: Sequence[Sequence[str]]) -> "Model":
        """This model, no head of whose trees has two modifiers with relations of one set.

        Args:
            limits: sets of relations, such as those of all kinds of subjects.
        Raises:
            ConfigError: a relation that the model does not know, no or too many sets; a model whose
                labels are not found with the trees, or a decoder other than dual_decomposition.
        """
        if not DECODERS[self.searched_with].certifies or self._joint is None:
            raise ConfigError(
                "limits on relations are kept by decoder dual_decomposition, where labels are found"
                f" with the trees; this model searches with {self.searched_with}"
                + ("" if self._joint else ", and labels come later: train with labels.kind=joint")
            )
        if not 0 < len(limits) <= MOST_LIMITS:
            raise ConfigError(f"{len(limits)} limits on relations: expected 1 to {MOST_LIMITS}")
        for name in (name for limit in limits for name in limit):
            if name not in self.labels:
                known = ", ".join(sorted(self.labels))
                raise ConfigError(f"no relation {name!r} in this model, which knows {known}")
        numbers = [[self.labels.index(name) for name in limit] for limit in limits]
        other = copy.copy(self)
        other._limits = classes_of_labels(numbers, len(self.labels))
        larger = compile_larger(TemplateSet("", (), (), ()), self.vocabularies, even_if_none=True)
        other._joint = self._joint._replace(larger=larger)
        other._encoder = Encoder(self.vocabularies)
        return other

    def _check_decoder(self, name: str) -> None:
        """Refuse decoders that need, or would ignore, a part of the model."""
        mine, other = DECODERS[self.decoder], DECODERS[name]
        if other.gives_graphs and not mine.gives_graphs:
            why = (
                "finds graphs, and the model was learned from trees: nothing says what a further"
                " head of a word is worth, nor how its arc is labelled"
            )
        elif mine.gives_graphs and not other.gives_graphs:
            why = (
                "finds trees, and the model was learned from graphs: its scores count arcs"
                " beside one another, and its relations are those of DEPS"
            )
        elif other.needs and not any(getattr(self.templates, part) for part in other.needs):
            needs = " or ".join(other.needs).replace("_", " ")
            order = "is of the first order" if not mine.parts else "has other parts"
            why = f"reads {needs} scores, and the model {order}: it has none"
        elif ignored := [
            part for part in mine.parts if getattr(self.templates, part) and part not in other.parts
        ]:
            parts = " and ".join(ignored).replace("_", " ")
            order = "" if other.parts else "is of the first order and "
            why = (
                f"{order}does not read the model's {parts} scores, without which the others are but"
                " a part of what was learned"
            )
        else:
            return
        raise ConfigError(
            f"decoder {name}: it {why}; the model was trained with {self.decoder}, and no option"
            f" changes that; train a model with decoder={name}"
        )

    def parse(
        self,
        treebank: Treebank,
        *,
        guides: np.ndarray | None = None,
        known: np.ndarray | None = None,
        probabilities: bool = False,
        least_risk: bool = False,
        batch_size: int | None = None,
        max_cells: int = MAX_CELLS,
        threads: int = 1,
        device: str = "cpu",
        backend: str = "auto",
        batch: Batch | None = None,
        sent: Sent | None = None,
        progress: Callable[[int], None] = lambda sentences: None,
    ) -> Predictions:
        """Best trees and labels of a treebank; its own heads and labels are not looked at.

        Args:
            guides: (W,) heads that another parser proposes, -1 for none, as `read_guides` returns
                them; for models with guide features.
            known: (W,) heads that the trees shall have, -1 for those to be found.
            probabilities: whether those of heads and labels are asked for, given what is known.
            least_risk: whether the trees shall be those with the most heads expected to be right,
                instead of the best ones; projective if those are.
            batch_size: most sentences at a time, at least 1, or what suits the device; they are
                sorted by length first. Neither this nor threads, device and backend change a
                single head.
            max_cells: of one sentence, as `permitted_orders` counts them: longer ones are parsed
                with a lower order or not at all, which the predictions say.
            threads: CPU threads, each with batches of its own; on another device there is one.
            device: "cpu" or "cuda".
            backend: "cpu" (compiled), "torch", "gpu" (Triton kernels), or "auto".
            batch: the treebank with its guides, if it has been encoded already.
            sent: the values of that batch on the device, of `send`.
            progress: called with the number of sentences finished, batch by batch.
        Raises:
            ConfigError, ScoreError: a batch size or backend that does not exist; guides that are
                missing, or that the model has no use for; probabilities or least risk of a decoder
                that has no sums over its trees, or not on the CPU; known heads of graphs.
            NoTreeError: a sentence has no tree with its known heads.
        Cost: as `arc_scores`, the decoder and `best_labels` together; with probabilities, and sums
            over all trees.
        """
        batch = self.encode(treebank, guides) if batch is None else batch
        places, given = word_places(batch), self._by_place(batch, known)
        orders = self.orders(batch, max_cells)
        size = default_batch_size(device) if batch_size is None else batch_size
        if probabilities or least_risk:
            self._require_sums(device, backend)

        def of_order(model: Model, some: Batch) -> tuple[Found, Chances | None]:
            if probabilities or least_risk:
                return model._trusted(
                    some, given, probabilities, least_risk, size, threads, progress
                )
            search = model.search(
                some, known=given, batch_size=size, threads=threads, device=device,
                backend=backend, sent=sent, progress=progress,
            )  # fmt: skip
            return search, None

        own = batch if not orders.any() else batch.select(_numbers(orders, OWN))
        found, chances = of_order(self, own)
        if orders.any():
            found = self._with_long_sentences(batch, orders, given, found, chances, of_order)
        return Predictions(
            found.heads[places].astype(np.int32),
            found.labels[places].astype(np.int32) if self.label_weights else None,
            self._graphs(found, places) if found.arc_starts is not None else None,
            None if chances is None else chances.heads[0, places],
            None if chances is None or not self.label_weights else chances.labels[0, places],
            orders,
            *self._marks(batch, orders, found),
        )

    def _marks(
        self, batch: Batch, orders: np.ndarray, found: Found
    ) -> tuple[np.ndarray | None, np.ndarray | None]:
        """Which trees are certified, and iterations, of each sentence; None for other decoders."""
        if not DECODERS[self.searched_with].certifies or found.notes is None:
            return None, None
        certified, iterations = found.notes.by_place[:, batch.starts]
        return (certified > 0) & (orders == OWN), iterations

    def orders(self, batch: Batch, max_cells: int = MAX_CELLS) -> np.ndarray:
        """(S,) int8: what each sentence of a batch may be parsed with; see `permitted_orders`."""
        return permitted_orders(batch.lengths, self._part_size(), max_cells)

    def _part_size(self) -> PartSize:
        """What the cells of a sentence are counted by."""
        if DECODERS[self.searched_with].is_program:  # its parts are written out, pruned or not
            return PartSize(4)
        if self.plan.larger and len(self.plan.larger.sides):
            labels = self._joint.stride if self._joint and self._joint.larger else 0
            return PartSize(4, self.pruner.max_heads if self.pruner else None, labels)
        return PartSize(3 if self.plan.siblings else 2)

    def lower_order(self) -> "Model":
        """A model of the first order with the arc scores of this one, or those of its pruner."""
        other = copy.copy(self)
        if self.pruner and self._joint is None:
            other.arcs = self.pruner.weights
        if self._joint:
            other._joint, other._limits = self._joint._replace(larger=None), None
        other.pruner = None
        other.searched_with = DECODERS[self.searched_with].of_arcs
        other.plan = self.plan.of_arcs
        if DECODERS[self.searched_with].gives_graphs:
            other.label_weights = other.label_plan = None  # those of graphs label its trees
        return other

    def _with_long_sentences(
        self,
        batch: Batch,
        orders: np.ndarray,
        known: np.ndarray,
        found: Found,
        chances: Chances | None,
        of_order: Callable[["Model", Batch], tuple[Found, Chances | None]],
    ) -> Found:
        """What was found for a batch, with the sentences that are too long for the model's order.

        Arrays are changed in place.
        """
        some = batch.select(_numbers(orders, LOWER))
        if len(some):
            lower, lower_chances = of_order(self.lower_order(), some)
            places = word_places(some)
            found.heads[places], found.labels[places] = lower.heads[places], lower.labels[places]
            if chances is not None and lower_chances is not None:
                for mine, its in zip(chances, lower_chances, strict=True):
                    mine[:, places] = its[:, places]
        some = batch.select(_numbers(orders, CHAIN))
        if len(some):
            _chain(some, known, found.heads)
            if found.arc_starts is None:
                self._label_trees(some, found.heads, found.labels)
            if chances is not None:
                for mine in chances:
                    mine[:, word_places(some)] = 0.0
        if found.arc_starts is None:
            return found
        some = batch.select(np.flatnonzero(orders != OWN))
        places = np.sort(word_places(some))
        trees = _Arcs(places, found.heads[places], np.full(len(places), -1))
        if self.label_weights:
            self._label(some, found.heads, _starts(places, len(found.heads)), trees)
        everything = _arcs_at(found, np.arange(len(found.heads)))
        return _found_graphs(found.heads, found.labels, [everything, trees])

    def k_best(
        self,
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
        """The k best trees of every sentence and the best labels of each of them.

        Labels that are found when a tree is finished do not count in its score.

        Args:
            k: at least 1.
            the others: as of `parse`. Compiled, on the CPU.
        Raises:
            ConfigError: no k best trees, or no sums, of this decoder; as `parse`.
            NoTreeError: as `parse`.
        Cost: as `arc_scores`, the search for k trees and k times `best_labels`.
        """
        if k < 1:
            raise ConfigError(f"{k} best trees: at least 1 is needed")
        if self.searched_with not in K_BEST:
            raise ConfigError(
                f"decoder {self.searched_with} finds one tree only: several best ones are found by"
                f" {', '.join(K_BEST)}; train a model with one of these"
            )
        if probabilities:
            self._require_sums("cpu", "cpu")
        batch = self.encode(treebank, guides)
        places, given = word_places(batch), self._by_place(batch, known)
        n_places = batch.values.shape[1]
        heads, labels = np.full((k, n_places), -1, np.int64), np.full((k, n_places), -1, np.int64)
        scores, log_sums = np.full((k, len(batch)), -np.inf), np.zeros(len(batch))
        chances = no_chances(k, n_places)

        def work(model: Model, which: np.ndarray, part: np.ndarray) -> int:
            some, numbers = batch.select(which[part]), which[part]
            scores[:, numbers] = found = find_k_best(some, model._scorer(), given, heads, labels)
            for j in range(k):
                which = np.flatnonzero(found[j] > -np.inf)
                if len(which):
                    self._label_trees(some.select(which), heads[j], labels[j])
                if len(which) and probabilities:
                    self._trust_labels(some.select(which), heads[j], labels[j], chances.labels[j])
            if probabilities:
                log_sums[numbers] = trust_trees(
                    some, model._scorer(), self._units(), given, heads, labels, chances
                )
            return len(part)

        orders = self.orders(batch, max_cells)
        for model, order in ((self, OWN), (self.lower_order(), LOWER)):
            which = _numbers(orders, order)
            parts = partial(work, model, which)
            _in_threads(parts, batch.select(which), batch_size, threads)
        chained = orders == CHAIN
        if chained.any():
            some = batch.select(_numbers(orders, CHAIN))
            _chain(some, given, heads[0])
            self._label_trees(some, heads[0], labels[0])
            scores[0, chained], log_sums[chained] = 0.0, np.inf
            for of_words in chances:
                of_words[:, word_places(some)] = 0.0
        nats = scores * self.arc_unit
        return KBest(
            heads[:, places].astype(np.int32),
            labels[:, places].astype(np.int32) if self.label_weights else None,
            nats,
            chances.heads[:, places] if probabilities else None,
            chances.labels[:, places] if probabilities and self.label_weights else None,
            np.exp(np.minimum(nats - log_sums, 0.0)) if probabilities else None,
            orders,
        )

    def chances(
        self,
        batch: Batch,
        heads: np.ndarray,
        labels: np.ndarray,
        *,
        which: str = "both",
        threads: int = 1,
    ) -> Chances:
        """Probabilities of given heads, and of given labels under them.

        Args:
            batch: all sentences.
            heads, labels: (T,) int64 by place, -1 where nothing is asked. Labels of sentences in
                which a head is -1 are asked for in vain, unless they are found with the trees.
            which: "heads", "labels" or "both"; labels that are found with the trees come with them.
        Returns:
            (1, T) each, NaN where there is no answer.
        Raises:
            ConfigError: there are no sums over the decoder's trees.
        Cost: the scores of all arcs and the sums over all trees.
        """
        self._require_sums("cpu", "cpu")
        found = no_chances(1, batch.values.shape[1])
        is_whole = ~incomplete(batch, heads)

        def work(part: np.ndarray) -> int:
            if which != "labels" or self.joint_plan:
                trust_trees(
                    batch.select(part), self._scorer(), self._units(), NOTHING_KNOWN, heads[None],
                    labels[None], found,
                )  # fmt: skip
            whole = part[is_whole[part]]
            if len(whole) and which != "heads":
                self._trust_labels(batch.select(whole), heads, labels, found.labels[0])
            return len(part)

        _in_threads(work, batch, 64, threads)
        return found

    def _require_sums(self, device: str, backend: str) -> None:
        """ConfigError unless there are sums over the trees that are searched."""
        if self.searched_with not in SUMS:
            raise ConfigError(
                f"decoder {self.searched_with}: there are no exact sums over what it searches, and"
                f" so no probabilities; train a model with one of {', '.join(SUMS)}"
            )
        if choose_backend(backend, torch.device(device)) != "cpu":
            raise ConfigError(
                "probabilities come from compiled sums on the CPU, so that they are the same"
                " everywhere; give device cpu and backend auto or cpu"
            )

    def _units(self) -> tuple[float, float]:
        return self.arc_unit, self.label_unit

    def _scorer(self) -> TreeScorer:
        return TreeScorer(
            self.plan, self.arcs.array[:, 0], self.features.rows, self._joint, self.searched_with,
            self.single_root,
        )  # fmt: skip

    def _by_place(self, batch: Batch, known: np.ndarray | None) -> np.ndarray:
        """Known heads by place, NOTHING_KNOWN if there are none."""
        if known is None or not (known >= 0).any():
            return NOTHING_KNOWN
        placed = np.full(batch.values.shape[1], -1, np.int64)
        placed[word_places(batch)] = known
        return placed

    def _trusted(
        self,
        batch: Batch,
        known: np.ndarray,
        probabilities: bool,
        least_risk: bool,
        batch_size: int,
        threads: int,
        progress: Callable[[int], None],
    ) -> tuple[Found, Chances | None]:
        """`search`, compiled, with probabilities, or for the trees of least risk."""
        n_places = batch.values.shape[1]
        heads, labels = np.full((1, n_places), -1, np.int64), np.full((1, n_places), -1, np.int64)
        chances = no_chances(1, n_places)

        def work(part: np.ndarray) -> int:
            some = batch.select(part)
            if not least_risk:
                self._search_part(some, known, heads[0], labels[0], Notes(0))
            trust_trees(
                some, self._scorer(), self._units(), known, heads, labels, chances,
                least_risk=least_risk,
            )  # fmt: skip
            if least_risk:
                self._label_trees(some, heads[0], labels[0])
            if probabilities:
                self._trust_labels(some, heads[0], labels[0], chances.labels[0])
            return len(part)

        _in_threads(work, batch, batch_size, threads, progress)
        return Found(heads[0], labels[0]), chances if probabilities else None

    def _label_trees(self, batch: Batch, heads: np.ndarray, labels: np.ndarray) -> None:
        """Fill in the labels (T,) of finished trees, if that is when they are found."""
        if self.label_weights and self.label_plan:
            label_ragged(batch, heads, self.label_plan, self.label_weights, labels)

    def _trust_labels(
        self, batch: Batch, heads: np.ndarray, labels: np.ndarray, chances: np.ndarray
    ) -> None:
        """Fill in the probabilities of labels of finished trees, if that is when they are found."""
        if self.label_weights and self.label_plan:
            trust_labels(
                batch, heads, self.label_plan, self.label_weights, self.label_unit, labels, chances
            )

    def _graphs(self, found: Found, places: np.ndarray) -> Graphs:
        """The graphs by word; without labels every arc has the relation UNLABELLED."""
        assert found.arc_starts is not None
        assert found.arc_heads is not None
        assert found.arc_labels is not None
        counts = found.arc_starts[places + 1] - found.arc_starts[places]
        return Graphs(
            np.concatenate([[0], np.cumsum(counts)]),
            found.arc_heads.astype(np.int32),
            found.arc_labels.astype(np.int32).clip(min=0),
            self.labels or [UNLABELLED],
        )

    def encode(self, treebank: Treebank, guides: np.ndarray | None = None) -> Batch:
        """The sentences of a treebank as one batch on the CPU; not for several threads at once.

        Args:
            guides: as of `parse`.
        Raises:
            ConfigError: as `parse` for guides.
        """
        check_guides(self.templates, are_given=guides is not None)
        batch = self._encoder.encode(treebank)
        return batch if guides is None else batch.guided(guides)

    def search(
        self,
        batch: Batch,
        *,
        known: np.ndarray = NOTHING_KNOWN,
        batch_size: int = 64,
        threads: int = 1,
        device: str = "cpu",
        backend: str = "auto",
        sent: Sent | None = None,
        progress: Callable[[int], None] = lambda sentences: None,
    ) -> Found:
        """`parse` from token ids on; known: (T,) heads by place, -1 for none, or empty.

        sent: the batch's values on the device, of `send`, if they are there already.
        """
        if len(known) and DECODERS[self.searched_with].gives_graphs:
            raise ConfigError(
                f"decoder {self.searched_with} finds graphs, of which no heads can be given: use a"
                " model of trees"
            )
        if self._backend(device, backend) == "cpu":
            return self._search_compiled(batch, known, batch_size, threads, progress)
        parser = self.on_device(device, backend)
        found = parser.parse(batch, sent or parser.send(batch), known, batch_size, progress)
        heads, labels, left, arcs = found
        runs = [] if arcs is None else [_Arcs(*arcs)]
        if len(left):  # not even one at a time do they fit into the device's memory
            some = batch.select(left)
            rest = self._search_compiled(some, known, batch_size, threads, progress)
            places = word_places(some)
            heads[places], labels[places] = rest.heads[places], rest.labels[places]
            if rest.arc_starts is not None:
                runs.append(_arcs_at(rest, np.sort(places)))
        if arcs is None:
            return Found(heads, labels)
        return _found_graphs(heads, labels, runs)

    def send(self, batch: Batch, device: str, backend: str = "auto") -> Sent | None:
        """Send a batch's values to a device for `search`, without waiting; None for compiled code.

        Raises:
            ScoreError: a backend that does not exist.
        """
        if self._backend(device, backend) == "cpu":
            return None
        return self.on_device(device, backend).send(batch)

    def _backend(self, device: str, backend: str) -> str:
        if DECODERS[self.searched_with].reads_larger:
            if device != "cpu" or backend not in ("auto", "cpu"):
                raise ScoreError(
                    f"decoder {self.searched_with} parses in compiled code, on the CPU: give device"
                    " cpu, and backend auto or cpu"
                )
            return "cpu"
        return choose_backend(backend, torch.device(device), has_kernels=True)

    def on_device(self, device: str, backend: str) -> DeviceParser:
        """The parser on a device, where compiled code does not run; made when first asked for."""
        key = device, self._backend(device, backend), self.searched_with, self.single_root
        if key not in self._device_parsers:
            scored = Scored(
                self.plan, self.features, self.arcs, self.label_plan, self.joint_plan,
                self.label_weights, None if self.primary is None else self._may_be_primary(),
                self.searched_with, self.single_root, self.min_gain,
            )  # fmt: skip
            self._device_parsers[key] = DeviceParser(scored, torch.device(device), key[1])
        return self._device_parsers[key]

    def _search_compiled(
        self,
        batch: Batch,
        known: np.ndarray,
        batch_size: int,
        threads: int,
        progress: Callable[[int], None],
    ) -> Found:
        n_places = batch.values.shape[1]
        heads, labels = np.full(n_places, -1, np.int64), np.full(n_places, -1, np.int64)
        found: list[_Arcs] = []
        notes = Notes(n_places if self.plan.larger else 0)

        def work(part: np.ndarray) -> int:
            arcs = self._search_part(batch.select(part), known, heads, labels, notes)
            if arcs is not None:
                found.append(arcs)
            return len(part)

        _in_threads(work, batch, batch_size, threads, progress)
        if not DECODERS[self.searched_with].gives_graphs:
            return Found(heads, labels, notes=notes)
        graphs = _found_graphs(heads, labels, found)
        if not self.label_weights:
            return graphs
        arcs, arc_starts = _arcs_at(graphs, np.arange(n_places)), graphs.arc_starts
        assert arc_starts is not None
        _in_threads(
            lambda part: self._label(batch.select(part), heads, arc_starts, arcs),
            batch, batch_size, threads,
        )  # fmt: skip
        return _found_graphs(heads, labels, [arcs])

    def _search_part(
        self,
        batch: Batch,
        known: np.ndarray,
        heads: np.ndarray,
        labels: np.ndarray,
        notes: "Notes",
    ) -> "_Arcs | None":
        """Write heads and labels down by place; the arcs of graphs, unlabelled, come back."""
        weights, rows = self.arcs.array[:, 0], self.features.rows
        starts, lengths = batch.starts, batch.lengths
        scratch = make_parse_scratch(
            self.plan, rows, self._joint, self.searched_with, int(lengths.max()), weights
        )
        if self.plan.larger:
            scratch = self._larger_scratch(batch, known, notes, scratch)
        parser = batch.values, starts, lengths, self.plan, weights, rows
        course = self.single_root, self.min_gain, known, scratch, heads
        if DECODERS[self.searched_with].is_program:
            self._solve_part(parser, known, scratch, heads, labels)
            self._label_trees(batch, heads, labels)
            return None
        if DECODERS[self.searched_with].gives_graphs:
            sizes = (lengths + 1) ** 2
            firsts, cells = np.cumsum(sizes) - sizes, np.zeros(sizes.sum(), np.bool_)
            require_all(parse_graphs(*parser, *course, firsts, cells))
            return _arcs_of_cells(np.flatnonzero(cells), firsts, starts, lengths)
        require_all(parse_sentences(*parser, self._joint, *course, labels))
        self._label_trees(batch, heads, labels)
        return None

    def crossing_parts(self, batch: Batch) -> CrossingParts:
        """What dual decomposition and integer programs search over, of a batch of one sentence.

        For models of decoders of trees with crossing arcs, second order or beyond.
        """
        weights, rows, n = self.arcs.array[:, 0], self.features.rows, int(batch.lengths[0])
        scratch = make_parse_scratch(self.plan, rows, self._joint, self.searched_with, n, weights)
        notes = Notes(batch.values.shape[1])
        scratch = self._larger_scratch(batch, NOTHING_KNOWN, notes, scratch)
        return score_crossing_parts(
            batch.values, int(batch.starts[0]), n, self.plan, weights, rows, self._joint,
            NOTHING_KNOWN, scratch,
        )  # fmt: skip

    def _solve_part(
        self,
        parser: tuple[Any, ...],
        known: np.ndarray,
        scratch: ParseScratch,
        heads: np.ndarray,
        labels: np.ndarray,
    ) -> None:
        """`_search_part` by integer programs."""
        values, starts, lengths, plan, weights, rows = parser
        for start, n in zip(starts.tolist(), lengths.tolist(), strict=True):
            parts = score_crossing_parts(
                values, start, n, plan, weights, rows, self._joint, known, scratch
            )
            words = slice(start, start + n + 1)
            heads[words] = best_tree(parts, n, single_root=self.single_root, min_gain=self.min_gain)
            label_sentence(n, self._joint, scratch, heads[words], labels[words])

    def _larger_scratch(
        self, batch: Batch, known: np.ndarray, notes: "Notes", scratch: ParseScratch
    ) -> ParseScratch:
        """What a search over larger parts works with: the arcs left, and where it takes notes."""
        if self.pruner:
            arcs = all_cells(batch, notes.firsts)
            rows, single_root = self.features.rows, self.single_root
            prune(batch, self.plan, rows, self.pruner, known, arcs, single_root=single_root)
            scratch = with_arcs(scratch, arcs)
        search = scratch.tree
        assert isinstance(search, LargerSearch)
        # Scores are whole numbers, so two different ones are at least 1 apart.
        search = search._replace(notes=notes.by_place, granularity=1.0)
        if self._limits:
            search = search._replace(label_classes=self._limits[0], masks=self._limits[1])
        return scratch._replace(tree=search)

    def _label(self, batch: Batch, heads: np.ndarray, arc_starts: np.ndarray, arcs: "_Arcs") -> int:
        """Fill the labels of the arcs of a batch's graphs, compiled; `arcs` may be of more."""
        assert self.label_plan is not None
        assert self.label_weights is not None
        label_ragged_graphs(
            batch, heads, arc_starts, arcs.heads, self.label_plan, self.label_weights,
            self._may_be_primary(), arcs.labels,
        )  # fmt: skip
        return len(batch)

    def _may_be_primary(self) -> np.ndarray:
        assert self.primary is not None
        return np.array([name is not None for name in self.primary])

    def save(self, folder: Path) -> None:
        """Write the model into a folder, which must exist; a file there is replaced whole.

        Raises:
            OSError: the folder cannot be written to.
        """
        tensors = {"arcs": self.arcs.array}
        if self.label_weights:
            tensors["labels"] = self.label_weights.array
        if self.pruner:
            tensors["pruner"] = self.pruner.weights.array
        if self.features.is_exact:
            keys, bases = contents(self.features)
            tensors |= {"keys": keys.astype(np.int64), "bases": bases}
        texts = {
            CONFIG: self.config,
            FEATURES: dump_set(self.templates),
            LABEL_FEATURES: dump_set(self.label_templates) if self.label_templates else "",
            VOCABULARY: as_json(
                {
                    "labels": self.labels,
                    "primary": self.primary,
                    "pos_column": self.vocabularies.pos_column,
                    "values": self.vocabularies.values,
                }
            ),
        }
        facts = {
            "decoder": self.decoder,
            "min_gain": self.min_gain,
            "single_root": self.single_root,
            "arc_unit": self.arc_unit,
            "label_unit": self.label_unit,
            "calibrated": self.is_calibrated,
            "labels_with_trees": self._joint is not None,
            "table_rows": self.features.rows.rows,
        }
        if self.pruner:
            facts |= {
                "pruner_unit": self.pruner.unit,
                "pruner_threshold": self.pruner.threshold,
                "pruner_heads": self.pruner.max_heads,
            }
        write_folder(folder, facts, texts, tensors)

    @classmethod
    def load(cls, folder: Path) -> "Model":
        """Read a model folder. Nothing in it is executed, whoever made it.

        Raises:
            ModelError: a file is missing, damaged, of another format or of another program.
        """
        parts = read_folder(folder)
        try:
            return cls._assemble(*parts)
        except (KeyError, TypeError, ValueError, RecursionError, ConfigError) as error:
            raise ModelError(f"{folder}: not a model of this version: {error}") from error

    @classmethod
    def _assemble(
        cls, facts: dict, texts: dict[str, str], tensors: dict[str, np.ndarray]
    ) -> "Model":
        words = json.loads(texts[VOCABULARY])
        check_parts(facts, words, tensors)
        vocabularies = Vocabularies(words["values"], words["pos_column"])
        templates = parse_set(texts[FEATURES], FEATURES)
        arcs = Weights(tensors["arcs"])
        if "keys" in tensors:
            features = frozen_map(tensors["keys"], tensors["bases"], len(arcs.array))
        else:
            dense_lines = compile_plan(templates, vocabularies).dense_lines
            features = hashed_map(facts["table_rows"], dense_lines)
        decoder = DECODERS[facts["decoder"]]
        given = {part for part in PARTS if part != "label" and getattr(templates, part)}
        fits = given <= {"arc", "guide", *decoder.parts}
        fits &= not decoder.needs or not given.isdisjoint(decoder.needs)
        if features.n_rows != len(arcs.array) or not fits:
            raise ValueError("its parts do not belong together")
        pruner = None
        if "pruner" in tensors:
            least = features.rows.rows + compile_arcs(templates, vocabularies).dense_lines * LINE
            if not decoder.reads_larger or len(tensors["pruner"]) != least:
                raise ValueError("its pruner does not belong to it")
            pruner = Pruner(
                Weights(tensors["pruner"]),
                decoder.of_arcs,
                facts["pruner_unit"], facts["pruner_threshold"], facts["pruner_heads"],
            )  # fmt: skip
        return cls(
            templates=templates,
            label_templates=(
                parse_set(texts[LABEL_FEATURES], LABEL_FEATURES) if words["labels"] else None
            ),
            vocabularies=vocabularies,
            features=features,
            arcs=arcs,
            labels=words["labels"],
            primary=words["primary"],
            label_weights=Weights(tensors["labels"]) if "labels" in tensors else None,
            labels_with_trees=facts["labels_with_trees"],
            decoder=facts["decoder"],
            min_gain=facts["min_gain"],
            single_root=facts["single_root"],
            arc_unit=facts["arc_unit"],
            label_unit=facts["label_unit"],
            is_calibrated=facts["calibrated"],
            pruner=pruner,
            config=texts[CONFIG],
        )


def label_children(
    templates: TemplateSet, vocabularies: Vocabularies, decoder: str
) -> LargerPlan | None:
    """The templates of children in a set of label templates, if the decoder labels children."""
    if not DECODERS[decoder].reads_children:
        return None
    return compile_larger(templates.only(CHILDREN), vocabularies)


def check_guides(templates: TemplateSet, *, are_given: bool) -> None:
    """Make sure that guides are there for guide templates, and only for them.

    Raises:
        ConfigError: they are not.
    """
    if templates.guide and not are_given:
        raise ConfigError("the template set has guide templates, and there are no guides")
    if are_given and not templates.guide:
        raise ConfigError("the template set has no guide templates, so guides are of no use")


def _numbers(orders: np.ndarray, order: int) -> np.ndarray:
    """The numbers of the sentences of one order."""
    return np.flatnonzero(orders == order)


def _chain(batch: Batch, known: np.ndarray, heads: np.ndarray) -> None:
    """Write down by place, for every word, the word before it; beside known heads, the root."""
    for start, n in zip(batch.starts.tolist(), batch.lengths.tolist(), strict=True):
        words = slice(start + 1, start + n + 1)
        if len(known) and (known[words] >= 0).any():
            heads[words] = known[words].clip(min=0)
        else:
            heads[words] = np.arange(n)


class _Arcs(NamedTuple):
    """Arcs of graphs by place and head, ascending: (A,) places of modifiers, heads, labels."""

    places: np.ndarray
    heads: np.ndarray
    labels: np.ndarray


_NO_ARCS = _Arcs(*np.zeros((3, 0), np.int64))


def _arcs_of_cells(
    cells: np.ndarray, firsts: np.ndarray, starts: np.ndarray, lengths: np.ndarray
) -> _Arcs:
    """Unlabelled arcs from the numbers of their cells, as `parse_graphs` counts them."""
    sentence = np.searchsorted(firsts, cells, side="right") - 1
    heads, modifiers = np.divmod(cells - firsts[sentence], lengths[sentence] + 1)
    places = starts[sentence] + modifiers
    order = np.lexsort([heads, places])
    return _Arcs(places[order], heads[order], np.full(len(cells), -1))


def _starts(places: np.ndarray, n_places: int) -> np.ndarray:
    """(T + 1,) where the arcs of each place begin, of arcs in the order of their places."""
    counts = np.bincount(places, minlength=n_places)
    return np.concatenate([[0], np.cumsum(counts)])


def _found_graphs(heads: np.ndarray, labels: np.ndarray, runs: Sequence[_Arcs]) -> Found:
    """Graphs from runs of arcs in any order; labels (T,) are filled in from the primary arcs."""
    arcs = _Arcs(*(np.concatenate(each) for each in zip(_NO_ARCS, *runs, strict=True)))
    order = np.argsort(arcs.places, kind="stable")
    arcs = _Arcs(*(each[order] for each in arcs))
    is_primary = heads[arcs.places] == arcs.heads
    labels[arcs.places[is_primary]] = arcs.labels[is_primary]
    return Found(heads, labels, _starts(arcs.places, len(heads)), arcs.heads, arcs.labels)


def _arcs_at(found: Found, places: np.ndarray) -> _Arcs:
    """The arcs of graphs into the words at some places, ascending."""
    assert found.arc_starts is not None
    assert found.arc_heads is not None
    assert found.arc_labels is not None
    counts = np.diff(found.arc_starts)
    wanted = np.repeat(np.isin(np.arange(len(counts)), places), counts)
    return _Arcs(
        np.repeat(np.arange(len(counts)), counts)[wanted],
        found.arc_heads[wanted],
        found.arc_labels[wanted],
    )


def _in_threads(
    work: Callable[[np.ndarray], int],
    batch: Batch,
    batch_size: int,
    threads: int,
    progress: Callable[[int], None] = lambda sentences: None,
) -> None:
    """Do some work on every part of a batch in main memory, sentence numbers (K,)."""
    admission = Admission(batch.lengths, batch_size, CPU_BUDGET, PartSize(2))
    parts = [part for part, _ in admission.run(len)]
    with ThreadPoolExecutor(threads) as pool:
        for done in pool.map(work, parts):
            progress(done)
