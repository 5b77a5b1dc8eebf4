"""Online training: order, averaging, epochs. Yields events; prints nothing, saves nothing."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from gpuparse.data.acyclic import acyclic
from gpuparse.data.batch import Batch, incomplete, word_places
from gpuparse.data.graphs import by_place, missing_graphs, primary_relations, read_graphs
from gpuparse.data.tree import is_projective, n_roots, nesting_order, reordered
from gpuparse.data.treebank import Treebank
from gpuparse.data.vocabulary import (
    Encoder,
    Vocabularies,
    choose_pos_column,
    column_ids,
    seen_attributes,
)
from gpuparse.errors import ConfigError, DataError, NoTreeError
from gpuparse.features.label_plan import compile_labels
from gpuparse.features.larger_plan import CHILDREN
from gpuparse.features.plan import LINE, check_exact_keys, compile_joint_labels, compile_plan
from gpuparse.features.templates import PARTS, TemplateSet
from gpuparse.inference.decoders import DECODERS, with_quantity
from gpuparse.learning.difference import Difference, make_difference
from gpuparse.learning.mixing import ALONE, Counts, Learn, Mixing, Processes, Table
from gpuparse.learning.on_device import DeviceLearner
from gpuparse.learning.online import (
    DIFFERENCE_FULL,
    NO_TREE,
    TABLE_FULL,
    Course,
    label_solved,
    learn_sentences,
    parts_to_solve,
    predict_sentences,
)
from gpuparse.learning.online_conditional import (
    Expectations,
    learn_conditional,
    make_expectations,
)
from gpuparse.learning.online_factored import Constraints, learn_factored, make_constraints
from gpuparse.learning.online_labels import learn_graph_labels, learn_labels
from gpuparse.learning.parts import GraphCells, Trees
from gpuparse.learning.projectivize import nearest_projective
from gpuparse.learning.pruning import (
    Pruned,
    PruningOptions,
    as_state,
    check_folds,
    from_state,
    learn_pruning,
)
from gpuparse.learning.units import fit_units
from gpuparse.learning.updates import CONDITIONAL, FACTORED, RULES
from gpuparse.parser import Parser, check_guides, label_children
from gpuparse.scoring.cpu_joint import JointLabels, stride_of
from gpuparse.scoring.cpu_labels import LabelScratch, make_label_scratch
from gpuparse.scoring.cpu_parse import ParseScratch, make_parse_scratch, parse_sentences
from gpuparse.scoring.exact import best_tree
from gpuparse.scoring.feature_map import (
    contents,
    exact_map,
    frozen_map,
    grown,
    hashed_map,
    n_values,
    next_free_row,
)
from gpuparse.scoring.joint import joint_labels
from gpuparse.scoring.pruning import Arcs, all_cells, with_arcs
from gpuparse.scoring.weights import Weights, quantised

SLICE = 256  # sentences between two events
STAGES = ("arcs", "labels")
_DEPREL = 7


@dataclass(frozen=True, kw_only=True)
class Options:
    """How to learn; every field is a key of the config."""

    decoder: str
    single_root: bool | None  # None: whether all gold trees have one word under the root
    pos: str
    map_kind: str
    map_rows: int
    rule: str
    epochs: int
    batch_size: int
    cost_augmented: bool
    max_step: float | None
    shuffle: bool
    unreachable: str
    seed: int
    label_rows: int
    label_epochs: int
    joint_labels: bool = False  # whether labels are found with the trees
    k: int = 1  # trees of each sentence that are learned from
    min_gain: float = 0.0  # of single changes; in words: as much as so many wrong heads cost
    averaged: bool = True  # whether the model is the mean of the weights after every sentence
    shards: int = 1  # that learn for themselves and are mixed after every epoch
    backend: str = "cpu"  # of the arcs: "cpu", compiled, or "torch", on any device
    pruning: PruningOptions | None = None  # of decoders beyond the second order; None: all arcs


def check_rule(options: Options) -> None:
    """Make sure that the update rule, the decoder and the labels go together.

    Raises:
        ConfigError: they do not.
    """
    if options.shards > 1 and options.map_kind == "exact":
        raise ConfigError(
            f"learning.shards is {options.shards}: an exact map would give a feature another row in"
            " every shard; choose feature_map.kind=hashed"
        )
    rule, decoder = RULES[options.rule], DECODERS[options.decoder]
    if decoder.is_higher_order:
        _check_larger(options)
    what = f"learning.rule {options.rule}"
    if options.k > 1 and not rule.takes_k_best:
        raise ConfigError(f"{what}: learning.k is {options.k}, and it learns from one tree only")
    if options.k > 1 and not decoder.has("k_best"):
        raise ConfigError(
            f"learning.k is {options.k}, and decoder {options.decoder} finds one tree only: choose"
            f" one of {', '.join(with_quantity('k_best'))}"
        )
    if rule.needs_max_step and options.max_step is None:
        raise ConfigError(f"{what}: learning.max_step must be given")
    if options.joint_labels and decoder.gives_graphs:
        raise ConfigError(
            f"labels.kind joint: decoder {options.decoder} finds graphs, whose labels are found"
            " when they are finished: choose second-stage"
        )
    if options.backend == "torch":
        _check_backend(options)
    if rule.searches:
        return
    if decoder.parts:
        raise ConfigError(
            f"{what}: it is of the first order, decoder {options.decoder} is not: choose eisner or"
            " chu_liu_edmonds"
        )
    if options.joint_labels:
        raise ConfigError(f"{what}: it does not learn labels.kind joint: choose second-stage")
    if options.batch_size > 1:
        raise ConfigError(f"{what}: it searches for no trees: learning.batch_size must be 1")
    if options.cost_augmented and rule.number == FACTORED:
        raise ConfigError(f"{what}: learning.cost_augmented must be false, no tree has a cost")


def _check_larger(options: Options) -> None:
    """Refuse what decoders beyond the second order do not learn with."""
    what = f"decoder {options.decoder}"
    if options.map_kind == "exact":
        raise ConfigError(
            f"{what}: templates of larger parts are found by hash alone: choose"
            " feature_map.kind=hashed"
        )
    if options.shards > 1 and options.pruning:
        raise ConfigError(
            f"{what}: learning.shards is {options.shards}, and what is pruned is learned in one:"
            " choose learning.shards=1, or pruning.max_heads=null"
        )


def _check_backend(options: Options) -> None:
    """Refuse what has no torch form, so that nothing runs elsewhere than was asked for."""
    on_device = [
        name
        for name, decoder in DECODERS.items()
        if decoder.has("best", "torch") and not decoder.is_higher_order
    ]
    rules = [name for name, rule in RULES.items() if rule.searches]
    wanted = [
        (options.rule in rules, f"learning.rule {options.rule}", f"one of {', '.join(rules)}"),
        (options.k == 1, f"learning.k {options.k}", "1"),
        (
            options.decoder in on_device,
            f"decoder {options.decoder}",
            f"one of {', '.join(on_device)}",
        ),
        (options.map_kind == "hashed", f"feature_map.kind {options.map_kind}", "hashed"),
        (not options.joint_labels, "labels.kind joint", "second-stage or none"),
        (options.shards == 1, f"learning.shards {options.shards}", "1"),
    ]
    for is_there, what, instead in wanted:
        if not is_there:
            raise ConfigError(
                f"learning.backend torch, which device cuda means too: {what} is learned by"
                f" compiled code alone: choose {instead}, or learning.backend=cpu"
            )


@dataclass(frozen=True)
class Progress:
    """Where learning stands: `done` of `total` sentences of an epoch, `wrong` of `words` words.

    Cost-augmented search makes mistakes on purpose, and those are counted too.
    """

    stage: str  # "pruning", "arcs" or "labels"
    epoch: int  # from 1
    done: int
    total: int
    wrong: int
    words: int

    @property
    def epoch_is_over(self) -> bool:
        return self.done == self.total

    def of_stage(self, stage: str, number: int, epochs: int) -> "Progress":
        """The same as a part of one epoch, the one after `number`, which takes so many of these."""
        before = (self.epoch - 1) * self.total
        return replace(
            self, stage=stage, epoch=number + 1, done=before + self.done, total=epochs * self.total
        )


@dataclass(frozen=True, eq=False)
class _GoldGraphs:
    """Gold graphs that can be learned, by place.

    cells, firsts: as in `GraphCells`. arc_starts, arc_heads, relations: as of `by_place`.
    names: of the relations. primary: the DEPREL that goes with each of them on a primary arc, None
    for one that stands on none.
    """

    cells: np.ndarray
    firsts: np.ndarray
    arc_starts: np.ndarray
    arc_heads: np.ndarray
    relations: np.ndarray
    names: list[str]
    primary: list[str | None]

    @property
    def may_be_primary(self) -> np.ndarray:
        """(relations,) bool."""
        return np.array([name is not None for name in self.primary])


class Trainer:
    """Everything that learning needs and parsing does not.

    Args:
        treebank: gold trees, checked.
        arcs: the arc templates; labels: the label templates, or None to predict heads only.
        options: how to learn.
        threads: threads that predict the sentences of a batch; the result is the same for any.
        guides: (W,) heads that another parser proposes, -1 for none; for guide templates.
        processes: that share the work, each with the same of all this.
        vocabularies: the values to see, if not those of the treebank.
        device: where arcs are learned with the backend "torch".
    Raises:
        DataError: a treebank without sentences. ConfigError: templates that do not fit it, or
            guides without guide templates, or the other way round.
    Source: McDonald, Crammer & Pereira (2005), figure 3; McDonald & Pereira (2006), figure 6.
    """

    def __init__(
        self,
        treebank: Treebank,
        arcs: TemplateSet,
        labels: TemplateSet | None,
        options: Options,
        threads: int = 1,
        guides: np.ndarray | None = None,
        processes: Processes = ALONE,
        device: str = "cpu",
        vocabularies: Vocabularies | None = None,
    ) -> None:
        if len(treebank) == 0:
            raise DataError(f"{treebank.source}: no sentences to learn from")
        check_guides(arcs, are_given=guides is not None)
        self.options, self._threads, self._device = options, threads, device
        attributes = seen_attributes(treebank)
        self._decoder = DECODERS[options.decoder]
        self._arcs = arcs.expanded(attributes)
        self._arcs = self._arcs.only(self._decoder.parts)
        needs = self._decoder.needs
        if needs and not any(getattr(self._arcs, part) for part in needs):
            raise ConfigError(
                f"decoder {options.decoder} needs {' or '.join(needs)} templates, and the set"
                f" {arcs.name!r} has none"
            )
        self._labels = labels.expanded(attributes) if labels else None
        check_rule(options)
        fields = {field for part in PARTS if part != "label" for field in self._arcs.fields(part)}
        if self._labels:
            fields |= {
                field for part in ("label", *CHILDREN) for field in self._labels.fields(part)
            }
        if vocabularies is None:
            pos_column = choose_pos_column(treebank, options.pos)
            vocabularies = Vocabularies.build(treebank, sorted(fields), pos_column)
        self._vocabularies = vocabularies
        is_higher_order = self._decoder.is_higher_order
        self._plan = compile_plan(self._arcs, self._vocabularies, larger=is_higher_order)
        self._batch = Encoder(self._vocabularies).encode(treebank)
        if guides is not None:
            self._batch = self._batch.guided(guides)
        self._longest = int(self._batch.lengths.max())
        self._heads = self._by_place(treebank.heads)
        self.n_unreachable = 0
        self._graphs = self._gold_graphs(treebank) if self._decoder.gives_graphs else None
        self.single_root = options.single_root
        if self.single_root is None:
            self.single_root = self._all_have_one_root()
        # What arcs are learned from; labels are learned from the trees and words as they are.
        self._moved, self._reachable = self._reachable_heads()
        self._arc_batch = self._rearranged_batch()
        if options.map_kind == "exact":
            check_exact_keys(self._plan, self._vocabularies)
            self._features = exact_map(self._plan.dense_lines)
        else:
            self._features = hashed_map(options.map_rows, self._plan.dense_lines)
        self._weights = Weights(np.zeros((self._features.n_rows, 1), np.float32))
        self._weighted = np.zeros(self._features.n_rows, np.float32)
        self._epochs_done = {"arcs": 0, "labels": 0}
        self._mixing = Mixing(
            len(treebank), options.shards, options.seed if options.shuffle else None, processes
        )
        self._joint: JointLabels | None = None
        self._start_labels(treebank)
        self.pruned: Pruned | None = None
        self._treebank, self._guides = treebank, guides
        if self._pruning:
            check_folds(len(treebank), self._pruning.folds)

    @property
    def _pruning(self) -> PruningOptions | None:
        """How to prune, if arcs are pruned."""
        return self.options.pruning if self._decoder.is_higher_order else None

    def _by_place(self, by_word: np.ndarray) -> np.ndarray:
        """(T,) int64 by place from (W,) by word, -1 elsewhere."""
        placed = np.full(self._batch.values.shape[1], -1, np.int64)
        placed[word_places(self._batch)] = by_word
        return placed

    def _gold_graphs(self, treebank: Treebank) -> "_GoldGraphs":
        if missing_graphs(treebank).all():
            raise DataError(
                f"{treebank.source}: DEPS, column 9, is _ in every word; decoder "
                f"{self.options.decoder} learns from the heads that stand there"
            )
        graphs, self.n_unreachable = acyclic(read_graphs(treebank), treebank)
        arc_starts, arc_heads, relations = by_place(graphs, self._batch)
        primary = primary_relations(graphs, treebank)
        starts, sizes = self._batch.starts, (self._batch.lengths + 1) ** 2
        firsts = np.zeros(self._batch.values.shape[1], np.int64)
        firsts[starts] = np.cumsum(sizes) - sizes
        cells = np.zeros(int(sizes.sum()), np.bool_)
        for start, n in zip(starts.tolist(), self._batch.lengths.tolist(), strict=True):
            of_word = np.arange(1, n + 1).repeat(np.diff(arc_starts[start + 1 : start + n + 2]))
            heads = arc_heads[arc_starts[start + 1] : arc_starts[start + n + 1]]
            cells[firsts[start] + heads * (n + 1) + of_word] = True
        return _GoldGraphs(cells, firsts, arc_starts, arc_heads, relations, graphs.names, primary)

    def _all_have_one_root(self) -> bool:
        starts, lengths = self._batch.starts, self._batch.lengths
        at_root = np.concatenate([[0], np.cumsum(self._heads == 0)])
        n_roots = at_root[starts + lengths + 1] - at_root[starts + 1]
        may_lack_one = incomplete(self._batch, self._heads)
        return bool(((n_roots == 1) | ((n_roots == 0) & may_lack_one)).all())

    def _reachable_heads(self) -> tuple[np.ndarray, np.ndarray]:
        """Where the word of each place comes from, and heads that the decoder can find.

        Trees out of the decoder's reach are replaced, or their words rearranged, if so configured.
        """
        heads = self._heads.copy()
        moved = np.arange(len(heads))
        projective = self._decoder.is_projective
        # To complete a tree it climbs from the best projective one that has all known heads.
        climbs = self._decoder.starts_from is not None and not self._decoder.gives_graphs
        for start, n in zip(self._batch.starts.tolist(), self._batch.lengths.tolist(), strict=True):
            words = slice(start + 1, start + n + 1)
            tree = heads[words]
            is_whole = bool((tree >= 0).all())
            if self.single_root and (n_roots(tree) > 1 or (is_whole and n_roots(tree) != 1)):
                raise DataError(
                    f"a training tree has {n_roots(tree)} words under the root: set "
                    "data.single_root to false or auto"
                )
            if (projective or climbs) and not is_whole:
                nearest = nearest_projective(tree, single_root=bool(self.single_root))
                self.n_unreachable += bool(((tree >= 0) & (tree != nearest)).any())
                tree[tree != nearest] = -1  # what cannot be kept is taken to be unknown
            elif projective and not is_projective(tree):
                self.n_unreachable += 1
                if self.options.unreachable == "oracle":
                    tree[:] = nearest_projective(tree, single_root=bool(self.single_root))
                elif self.options.unreachable == "reorder":
                    order = nesting_order(tree)
                    tree[:] = reordered(tree, order)
                    moved[words] = start + order
        return moved, heads

    def _rearranged_batch(self) -> Batch:
        """The batch with its words in the order of the heads that arcs are learned from."""
        if self.options.unreachable != "reorder" or self.n_unreachable == 0:
            return self._batch
        values = np.take(self._batch.values, self._moved, axis=1)
        if self._plan.guide:
            self._renumber(values[self._plan.guide.row])
        return Batch(values, self._batch.starts, self._batch.lengths)

    def _renumber(self, guides: np.ndarray) -> None:
        """Change guide heads, 1 more than the head, to the numbers of words that have moved."""
        now = np.argsort(self._moved)  # where each place's word has gone
        for start, n in zip(self._batch.starts.tolist(), self._batch.lengths.tolist(), strict=True):
            words = slice(start + 1, start + n + 1)
            # None stays, and the root, 1, is where it was.
            number = np.concatenate([[0, 1], now[words] - start + 1])
            guides[words] = number[guides[words]]

    def _grow(self) -> None:
        """Make room in the exact map for twice the values of the longest sentence's trees, or as
        many again as there are; and for twice as many as there was room for, since graphs may
        differ in more arcs than any tree has."""
        known, least = n_values(self._features), 8 * self._longest * self._plan.families
        spare = (len(self._weighted) - next_free_row(self._features)) // LINE
        self._features = grown(self._features, max(known, least, 2 * spare))
        weights = np.zeros((self._features.n_rows, 1), np.float32)
        weights[: len(self._weighted)] = self._weights.array
        self._weights = Weights(weights)
        room = np.zeros(len(weights) - len(self._weighted), np.float32)
        self._weighted = np.concatenate([self._weighted, room])

    def _start_labels(self, treebank: Treebank) -> None:
        self.label_names: list[str] = []
        self._label_weights: Weights | None = None
        self._label_weighted = np.zeros(0, np.float32)
        if self._labels is None:
            return
        if self._graphs:
            self.label_names = self._graphs.names
        else:
            ids, self.label_names = column_ids(treebank, _DEPREL)
            self._gold_labels = self._by_place(np.where(treebank.heads < 0, -1, ids))
        width = len(self.label_names)
        n_lines = max(1, self.options.label_rows // width)
        if self.options.joint_labels:
            n_lines = max(1, n_lines // LINE) * LINE
        stride = stride_of(width) if self.options.joint_labels else width
        self._label_weights = Weights(np.zeros((n_lines, stride), np.float32))
        self._label_weighted = np.zeros(n_lines * stride, np.float32)
        if self.options.joint_labels:
            plan = compile_joint_labels(self._labels, self._vocabularies)
            larger = label_children(self._labels, self._vocabularies, self.options.decoder)
            self._joint = joint_labels(plan, self._label_weights.array, width, larger)
        else:
            self._label_plan = compile_labels(self._labels, self._vocabularies)

    def learn(self) -> Iterator[Progress]:
        """Learn what is left to learn, and say so now and then and at the end of every epoch."""
        if self._pruning and self.pruned is None:
            yield from self._learn_pruning()
        while self._epochs_done["arcs"] < self.options.epochs:
            yield from self._arc_epoch(self._epochs_done["arcs"])
        if self._label_weights is None or self._joint:
            return
        self._complete_heads()
        while self._epochs_done["labels"] < self.options.label_epochs:
            yield from self._label_epoch(self._epochs_done["labels"])

    def _learn_pruning(self) -> Iterator[Progress]:
        """Learn a parser of the first order, and which arcs larger parts are searched over."""
        assert self._pruning is not None
        decoder = self._decoder.of_arcs
        options = replace(
            self.options, decoder=decoder, epochs=self._pruning.epochs, joint_labels=False,
            pruning=None, single_root=bool(self.single_root),
        )  # fmt: skip
        templates = self._arcs.first_order()
        of_word = np.diff(self._treebank.word_starts)

        def make(learned: np.ndarray) -> tuple[Trainer, Callable[[Parser], Parser]]:
            words = np.repeat(learned, of_word)
            guides, rest = self._guides, self._treebank.only(~learned)
            trainer = Trainer(
                self._treebank.only(learned), templates, None, options, self._threads,
                None if guides is None else guides[words], vocabularies=self._vocabularies,
            )  # fmt: skip
            of_rest = None if guides is None else guides[~words]
            return trainer, lambda model: fit_units(
                model, rest, guides=of_rest, threads=self._threads
            )[0]

        def keep(pruned: Pruned) -> None:
            self.pruned = pruned

        yield from learn_pruning(
            self._arc_batch, self._plan, self._features.rows, self._reachable, self._pruning,
            decoder, make, keep,
        )  # fmt: skip

    def _arcs_left(self, pruned: Pruned) -> Arcs:
        """The arcs of the training sentences that larger parts are searched over."""
        firsts = np.zeros(len(self._reachable), np.int64)
        return Arcs(all_cells(self._arc_batch, firsts).firsts, pruned.cells)

    def _complete_heads(self) -> None:
        """Find the heads that gold leaves open, so that labels are learned from whole trees."""
        starts, lengths = self._batch.starts, self._batch.lengths
        partial = incomplete(self._batch, self._heads)
        if self._graphs or not partial.any():
            return
        weights, rows = self._weights.array[:, 0], self._features.rows
        scratch = make_parse_scratch(
            self._plan, rows, None, self.options.decoder, self._longest, weights
        )
        if self.pruned:
            scratch = with_arcs(scratch, self._arcs_left(self.pruned))
        heads = self._heads.copy()
        failed = parse_sentences(
            self._batch.values, starts[partial], lengths[partial], self._plan, weights,
            rows, None, bool(self.single_root), self.options.min_gain, self._reachable, scratch,
            heads, heads,
        )  # fmt: skip
        if failed >= 0:
            raise NoTreeError("a training sentence has no tree: its scores are not finite")
        self._gold_labels[self._heads != heads] = -1
        self._heads = heads

    def _order(self, stage: int, epoch: int) -> np.ndarray:
        """The sentences in the order of an epoch, drawn from seed, stage and epoch alone."""
        n = len(self._batch)
        if not self.options.shuffle:
            return np.arange(n)
        seeds = np.random.SeedSequence([self.options.seed, stage, epoch])
        return np.random.Generator(np.random.PCG64(seeds)).permutation(n)

    def _arc_epoch(self, epoch: int) -> Iterator[Progress]:
        tables = [Table(self._weights.array[:, 0], self._weighted)]
        if self._joint:
            tables += self._label_tables()
        with ThreadPoolExecutor(self._threads) as pool:
            learner: _ArcLearner | _TorchLearner = (
                _TorchLearner(self) if self.options.backend == "torch" else _ArcLearner(self, pool)
            )

            def learn(order: np.ndarray, seen: int) -> Iterator[Counts]:
                return self._learn_arcs(learner, order, seen)

            yield from self._epoch("arcs", epoch, tables, learn)

    def _label_epoch(self, epoch: int) -> Iterator[Progress]:
        width = len(self.label_names)
        scratch = make_label_scratch(
            len(self._label_plan.direction), width, self._longest, np.dtype(np.float32)
        )

        def learn(order: np.ndarray, seen: int) -> Iterator[Counts]:
            return self._learn_label_slices(scratch, order, seen)

        yield from self._epoch("labels", epoch, self._label_tables(), learn)

    def _label_tables(self) -> list[Table]:
        assert self._label_weights is not None
        return [Table(self._label_weights.array.reshape(-1), self._label_weighted)]

    def _epoch(
        self, stage: str, epoch: int, tables: list[Table], learn: Learn
    ) -> Iterator[Progress]:
        order = self._order(STAGES.index(stage), epoch)
        for counts in self._mixing.epoch(order, epoch, tables, learn):
            if counts.done == len(order):
                self._epochs_done[stage] = epoch + 1
            done, wrong, words = counts
            yield Progress(stage, epoch + 1, done, len(order), wrong, words)

    def _learn_arcs(
        self, learner: "_ArcLearner | _TorchLearner", order: np.ndarray, seen: int
    ) -> Iterator[Counts]:
        """Learn the arcs of sentences in their order; `seen` came before."""
        ordered = self._arc_batch.select(order)
        words, wrong, done = 0, 0, 0
        step = max(SLICE // self.options.batch_size, 1) * self.options.batch_size
        for first in range(0, len(order), step):
            part = ordered.select(np.arange(first, min(first + step, len(order))))
            wrong += learner.learn(part, seen + first)
            words += int(part.lengths.sum())
            done += len(part)
            if done == len(order):
                learner.finish()
            yield Counts(done, wrong, words)

    def _learn_label_slices(
        self, scratch: LabelScratch, order: np.ndarray, seen: int
    ) -> Iterator[Counts]:
        """Learn the labels of sentences in their order; `seen` came before."""
        ordered = self._batch.select(order)
        words, wrong, done = 0, 0, 0
        for first in range(0, len(order), SLICE):
            part = ordered.select(np.arange(first, min(first + SLICE, len(order))))
            wrong += self._learn_labels(part, seen + first, scratch)
            words += int(part.lengths.sum())
            done += len(part)
            yield Counts(done, wrong, words)

    def _learn_labels(self, part: Batch, seen: int, scratch: LabelScratch) -> int:
        """Learn the labels of some sentences; returns how many arcs got another label first."""
        assert self._label_weights is not None
        values, starts, lengths = part.values, part.starts, part.lengths
        weights = self._label_weights.array.reshape(-1), self._label_weighted
        n_lines, rule = len(self._label_weights.array), RULES[self.options.rule].number
        cap = self.options.max_step or np.inf
        if self._graphs is None:
            return learn_labels(
                values, starts, lengths, self._heads, self._gold_labels, self._label_plan, *weights,
                n_lines, seen, rule, cap, scratch,
            )  # fmt: skip
        graphs = self._graphs
        return learn_graph_labels(
            values, starts, lengths, self._heads, graphs.arc_starts, graphs.arc_heads,
            graphs.relations, self._label_plan, *weights, n_lines, seen, graphs.may_be_primary,
            rule, cap, scratch,
        )  # fmt: skip

    def model(self, bits: int, config: str = "") -> Parser:
        """The model with the average of all weights so far, as whole numbers of `bits` bits.

        Only between two epochs: sentences are counted by the epoch.
        """
        seen = max(1, self._epochs_done["arcs"] * len(self._batch))
        arcs = self._mean(self._weights.array[:, 0], self._weighted, seen)
        label_weights, label_scale = None, 1.0
        if self._label_weights is not None:
            stage = "arcs" if self._joint else "labels"
            seen = max(1, self._epochs_done[stage] * len(self._batch))
            mean = self._mean(self._label_weights.array.reshape(-1), self._label_weighted, seen)
            mean = mean.reshape(self._label_weights.array.shape)[:, : len(self.label_names)]
            if self._joint is None:
                whole, label_scale = quantised(mean, bits)
                label_weights = Weights(whole)
        features = self._features
        if features.is_exact:
            # Room to grow is left out: how much there is depends on where a run was resumed. One
            # line more than the rows in use, so that no base row and code lead out of the table.
            used = next_free_row(features)
            arcs = np.concatenate([arcs[:used], np.zeros(LINE, np.float32)])
            features = frozen_map(*contents(features), len(arcs))
        whole, scale = quantised(arcs, bits)
        if self._joint:  # one scale for all that is added up
            both, scale = quantised(np.concatenate([arcs, mean.reshape(-1)]), bits)
            label_scale = scale
            whole, lines = both[: len(arcs)], both[len(arcs) :]
            label_weights = Weights(lines.reshape(mean.shape))
        return Parser(
            templates=self._arcs,
            label_templates=self._labels,
            vocabularies=self._vocabularies,
            features=features,
            arcs=Weights(whole[:, np.newaxis]),
            labels=self.label_names,
            primary=self._graphs.primary if self._graphs and label_weights else None,
            label_weights=label_weights,
            labels_with_trees=self._joint is not None,
            decoder=self.options.decoder,
            min_gain=self.options.min_gain * scale,
            single_root=bool(self.single_root),
            arc_scale=1.0 / scale,
            label_scale=1.0 / label_scale,
            pruner=self.pruned.pruner if self.pruned else None,
            config=config,
        )

    def _mean(self, weights: np.ndarray, weighted: np.ndarray, seen: int) -> np.ndarray:
        """The mean of the weights after each of `seen` sentences; or the last ones."""
        if not self.options.averaged:
            return weights.copy()
        return weights - weighted / np.float32(seen)

    def state(self) -> dict[str, np.ndarray]:
        """All that a later `restore` needs to go on as if nothing had happened.

        Only between two epochs; the arrays are those that learning goes on to change.
        """
        done = np.array([self._epochs_done["arcs"], self._epochs_done["labels"]], np.int64)
        state = {"done": done, "arcs": self._weights.array, "arcs_weighted": self._weighted}
        if self._label_weights is not None:
            state["labels"] = self._label_weights.array
            state["labels_weighted"] = self._label_weighted
        if self._features.is_exact:
            keys, bases = contents(self._features)
            next_row = np.array([next_free_row(self._features)])
            state |= {"keys": keys.astype(np.int64), "bases": bases, "next_row": next_row}
        if self.pruned is not None:
            state |= as_state(self.pruned)
        return state

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Go back to where a run with the same treebank, templates and options stood."""
        self._epochs_done = dict(zip(STAGES, state["done"].tolist(), strict=True))
        self._weights = Weights(state["arcs"])
        self._weighted = state["arcs_weighted"].copy()
        if self._label_weights is not None:
            self._label_weights = Weights(state["labels"])
            if self._joint:
                array, width = self._label_weights.array, len(self.label_names)
                self._joint = joint_labels(self._joint.plan, array, width, self._joint.larger)
            self._label_weighted = state["labels_weighted"].copy()
        if self._pruning and "pruner" in state:
            self.pruned = from_state(state, self._pruning, self._decoder.of_arcs)
        if self._features.is_exact:
            bare = frozen_map(state["keys"], state["bases"], int(state["next_row"][0]))
            self._features = bare._replace(n_rows=len(state["arcs"]))


class _ArcLearner:
    """One epoch's working memory, and the learning of one run of sentences."""

    def __init__(self, trainer: Trainer, pool: ThreadPoolExecutor) -> None:
        options = trainer.options
        self._trainer, self._pool = trainer, pool
        self._course = _course_of(trainer)
        self._structures = self._make_structures()
        self._scratch = [
            make_parse_scratch(
                trainer._plan, trainer._features.rows, trainer._joint, options.decoder,
                trainer._longest, trainer._weights.array, options.k,
            )
            for _ in range(trainer._threads if options.batch_size > 1 else 1)
        ]  # fmt: skip
        if trainer.pruned:
            arcs = trainer._arcs_left(trainer.pruned)
            self._scratch = [with_arcs(scratch, arcs) for scratch in self._scratch]
        self._learn = {FACTORED: self._factored, CONDITIONAL: self._conditional}.get(
            self._course.rule, self._searched
        )
        self._capacity = 1 << 16
        self._memory = self._make_memory()

    def _make_structures(self) -> Trees | GraphCells:
        trainer = self._trainer
        gold = trainer._reachable
        found = np.full((trainer.options.k, len(gold)), -1, np.int64)
        if trainer._graphs:
            graphs = trainer._graphs
            return GraphCells(graphs.cells, np.zeros_like(graphs.cells), graphs.firsts, found[0])
        is_partial = bool((gold[word_places(trainer._batch)] < 0).any())
        target = gold.copy() if is_partial else gold
        if trainer._joint is None:
            return Trees(gold, found, None, None, target, None, True if is_partial else None)
        labels = trainer._gold_labels[trainer._moved]
        found_labels = np.full_like(found, -1)
        return Trees(
            gold, found, labels, found_labels, target, labels.copy() if is_partial else labels,
            True if is_partial else None,
        )  # fmt: skip

    def _make_memory(self) -> Difference | Constraints | Expectations:
        trainer = self._trainer
        if self._course.rule == FACTORED:
            return make_constraints(trainer._plan, trainer._longest, self._capacity)
        if self._course.rule == CONDITIONAL:
            return make_expectations(trainer._plan, trainer.options.decoder, trainer._longest)
        return make_difference(
            trainer._plan, trainer._joint, trainer._longest, trainer.options.k,
            graphs=trainer._decoder.gives_graphs, capacity=self._capacity,
        )  # fmt: skip

    def learn(self, part: Batch, seen: int) -> int:
        """Learn from some sentences in their order; `seen` came before. Returns wrong words."""
        size = self._trainer.options.batch_size
        if size == 1 and not self._solves:
            return self._update(part, seen, predict=True)
        wrong = 0
        for first in range(0, len(part), size):
            mini = part.select(np.arange(first, min(first + size, len(part))))
            self._predict(mini)
            wrong += self._update(mini, seen + first, predict=False)
        return wrong

    def finish(self) -> None:
        """Nothing: the weights of the trainer themselves have been changed."""

    def _predict(self, mini: Batch) -> None:
        """Find the trees of a batch, all with the same weights, one run of it in each thread."""
        trainer = self._trainer
        starts, lengths = mini.starts, mini.lengths
        if self._solves:
            self._solve(mini)
            return
        work = np.cumsum((lengths + 1) ** 2)
        threads = len(self._scratch)
        cuts = np.searchsorted(work, work[-1] * np.arange(1, threads) / threads).tolist()

        def search(run: tuple[int, int], scratch: ParseScratch) -> int:
            return predict_sentences(
                mini.values, starts[slice(*run)], lengths[slice(*run)], trainer._plan,
                trainer._weights.array[:, 0], trainer._features.rows, trainer._joint, self._course,
                scratch, self._structures,
            )  # fmt: skip

        runs = list(pairwise([0, *cuts, len(mini)]))
        if any(failed >= 0 for failed in self._pool.map(search, runs, self._scratch)):
            raise NoTreeError("a training sentence has no tree: its scores are not finite")

    @property
    def _solves(self) -> bool:
        """Whether trees are found by integer programs, which compiled code cannot call."""
        return False

    def _solve(self, mini: Batch) -> None:
        """Find the trees of a batch by integer programs."""
        trainer, structures, scratch = self._trainer, self._structures, self._scratch[0]
        assert isinstance(structures, Trees)
        for start, n in zip(mini.starts.tolist(), mini.lengths.tolist(), strict=True):
            parts = parts_to_solve(
                mini.values, start, n, trainer._plan, trainer._weights.array[:, 0],
                trainer._features.rows, trainer._joint, self._course, scratch, structures,
            )  # fmt: skip
            course = self._course
            tree = best_tree(parts, n, single_root=course.single_root, min_gain=course.min_gain)
            structures.found[0, start : start + n + 1] = tree
            label_solved(start, n, trainer._joint, self._course, scratch, structures)

    def _update(self, part: Batch, seen: int, *, predict: bool) -> int:
        wrong, first = 0.0, 0
        while True:
            status, first, mistakes = self._learn(part, seen, predict, first)
            wrong += mistakes
            if status == NO_TREE:
                raise NoTreeError("a training sentence has no tree: its scores are not finite")
            if status == TABLE_FULL:
                self._trainer._grow()
            elif status == DIFFERENCE_FULL:
                self._capacity *= 2
                self._memory = self._make_memory()
            else:
                return int(wrong)

    def _searched(
        self, part: Batch, seen: int, predict: bool, first: int
    ) -> tuple[int, int, float]:
        trainer = self._trainer
        return learn_sentences(
            *_sentences(part), self._structures, trainer._plan, trainer._weights.array[:, 0],
            trainer._weighted, seen, trainer._features.rows, trainer._joint,
            trainer._label_weighted, self._course, self._scratch[0], self._memory, predict, first,
        )  # fmt: skip

    def _factored(
        self, part: Batch, seen: int, predict: bool, first: int
    ) -> tuple[int, int, float]:
        trainer = self._trainer
        return learn_factored(
            *_sentences(part), trainer._reachable, trainer._plan, trainer._weights.array[:, 0],
            trainer._weighted, seen, trainer._features.rows, self._course, self._scratch[0],
            self._memory, first,
        )  # fmt: skip

    def _conditional(
        self, part: Batch, seen: int, predict: bool, first: int
    ) -> tuple[int, int, float]:
        trainer = self._trainer
        return learn_conditional(
            *_sentences(part), trainer._reachable, trainer._plan, trainer._weights.array[:, 0],
            trainer._weighted, seen, trainer._features.rows, self._course, self._scratch[0],
            self._memory, first,
        )  # fmt: skip


class _TorchLearner:
    """The same in torch, on the device of the trainer."""

    def __init__(self, trainer: Trainer) -> None:
        self._size = trainer.options.batch_size
        self._learner = DeviceLearner(
            trainer._arc_batch, trainer._reachable, trainer._plan, trainer._features,
            trainer._weights, trainer._weighted, decoder=trainer.options.decoder,
            course=_course_of(trainer), device=trainer._device,
        )  # fmt: skip

    def learn(self, part: Batch, seen: int) -> int:
        """Learn from some sentences in their order; `seen` came before. Returns wrong words."""
        firsts = range(0, len(part), self._size)
        numbers = np.arange(len(part))
        return sum(
            self._learner.learn(part.select(numbers[first : first + self._size]), seen + first)
            for first in firsts
        )

    def finish(self) -> None:
        """Bring the weights back to the trainer."""
        self._learner.finish()


def _course_of(trainer: Trainer) -> Course:
    options = trainer.options
    return Course(
        bool(trainer.single_root), options.min_gain, RULES[options.rule].number,
        float(options.cost_augmented), options.max_step or np.inf,
    )  # fmt: skip


def _sentences(part: Batch) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return part.values, part.starts, part.lengths
