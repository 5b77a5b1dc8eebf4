"""A trainer's literal twin: the same sentences, templates and options, the same start.

What a tree has of features is read from the text of the templates. Features are named by the weight
rows in which the model keeps them, labels' features by their line and label.
"""

import random
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cache, cached_property
from typing import NamedTuple

import numpy as np
import torch

from gpuparse.config import RunConfig
from gpuparse.data.parts import CHILDREN, HIGHER_ORDER
from gpuparse.features.templates import TemplateSet, parse_set
from gpuparse.inference.decoders import DECODERS
from gpuparse.inference.textbook import projective
from gpuparse.inference.textbook import spanning_trees as reference
from gpuparse.learning import textbook
from gpuparse.learning.mira import update_rule
from gpuparse.learning.trainer import Trainer
from gpuparse.model.parser import Parser
from gpuparse.scorers.linear.weights import label_map
from tests.graphs_by_place import acyclic_graph, with_deps
from tests.inference.decoders import TEXTBOOK
from tests.named_rows import lines_of_labels, rows_of_trees
from tests.oracles.arc_features import arc_features, known_values
from tests.oracles.brute_force import all_trees
from tests.oracles.higher_order_features import higher_order_features
from tests.oracles.higher_order_parts import higher_order_parts_of
from tests.oracles.higher_order_scores import higher_rows
from tests.oracles.sibling_features import end_features, sibling_features
from tests.oracles.tree_features import (
    UNKNOWN,
    Answer,
    Arcs,
    Features,
    TieError,
    feature_vector,
    score_tables,
)
from tests.oracles.tree_parts import values_of_trees
from tests.rows import end_parts, sibling_parts, silence
from tests.runs import run_config
from tests.samples import (
    Sentence,
    any_heads,
    projective_heads,
    row,
    template_set_text,
    treebank_of,
)

OPTIONS = run_config(
    decoder="eisner", min_gain=0.0, single_root=False, pos="coarse", map_rows=1 << 17,
    rule="mira", epochs=2, batch_size=1, cost_augmented=False, max_step=None, shuffle=True,
    unreachable="projectivise", seed=1, label_rows=1 << 14, label_epochs=1,
)  # fmt: skip
ARC = [
    "h.form m.form", "h.pos m.pos direction distance", "m.form direction",
    "h.pos between.pos m.pos",
]  # fmt: skip
SIBLING = [
    "s.form m.form", "s.pos m.pos direction distance", "s.pos m.form", "m.pos",
    "h.pos s.pos m.pos", "h.pos s.pos m.pos direction distance", "h.form s.pos m.form",
    "s-1.pos m.form", "s+1.form direction",
]  # fmt: skip
END = [
    "h.form e.form direction", "h.pos e.pos direction distance", "h-1.pos h.form e.pos", "e.form",
    "h.pos direction",
]  # fmt: skip
HIGHER = {
    "grandparent": ["g.form h.pos m.form", "g.pos m.pos direction"],
    "grand_sibling": ["g.form s.form m.form direction", "g.pos h.pos s.pos m.pos"],
    "tri_sibling": ["t.form s.form m.form", "h.pos t.pos m.pos direction"],
    "head_child": ["h.form m.form c.form direction", "m.pos c.pos"],
    "inner_grandchild": ["m.form c.form", "h.pos m.pos c.pos direction"],
    "outer_grandchild": ["m.form c.form direction", "h.form c.pos"],
}
LABEL = ["m.form", "h.form m.form direction", "h.pos m.pos direction distance", "m.pos distance"]


def higher_order_text(text: str, kinds: Iterable[str]) -> str:
    """YAML of a set with templates of more kinds."""
    for kind in kinds:
        text += f"{kind}:\n  - templates:\n" + "".join(f"      - {each}\n" for each in HIGHER[kind])
    return text


FIRST_ORDER = parse_set(template_set_text(arc=ARC), "first")
SECOND_ORDER = parse_set(template_set_text(arc=ARC, sibling=SIBLING, end=END), "second")
ALL = parse_set(
    higher_order_text(
        template_set_text(arc=ARC, sibling=SIBLING, end=END), [kind.name for kind in HIGHER_ORDER]
    ),
    "higher",
)
JOINT = parse_set(template_set_text(label=LABEL), "joint")
WITH_CHILDREN = parse_set(higher_order_text(template_set_text(label=LABEL), CHILDREN), "children")
TEMPLATES = {1: FIRST_ORDER, 2: SECOND_ORDER, 3: ALL}
FORMS = [f"w{number}" for number in range(14)]


def templates_for(decoder: str) -> TemplateSet:
    return TEMPLATES[DECODERS[decoder].order]


def toy_treebank(
    decoder: str, seed: int, lengths: Iterable[int], *, single_root: bool = False
) -> list[Sentence]:
    """Sentences no two words of which are alike: random weights leave no ties.

    Their trees or graphs are of the kind that a decoder finds.
    """
    draw, sentences = random.Random(seed), []
    for n in lengths:
        is_plain = DECODERS[decoder].is_projective or single_root
        heads = (projective_heads if is_plain else any_heads)(draw, n)
        forms = draw.sample(FORMS[:12], n)
        sentences.append(
            [
                row(m, forms[m - 1], heads[m - 1], draw.choice("abc"), cpos=draw.choice("NVP"))
                for m in range(1, n + 1)
            ]
        )
    return with_graphs(sentences, seed) if DECODERS[decoder].gives_graphs else sentences


def with_graphs(sentences: list[Sentence], seed: int) -> list[Sentence]:
    draw = random.Random(seed)
    return [with_deps(sentence, acyclic_graph(draw, sentence)) for sentence in sentences]


def without_heads(sentences: list[Sentence], share: float, seed: int) -> list[Sentence]:
    """A copy in which some words, drawn by chance, have no head."""
    draw = random.Random(seed)
    return [
        [[*w[:6], "_" if draw.random() < share else w[6], *w[7:]] for w in sentence]
        for sentence in sentences
    ]


def with_random_weights(trainer: Trainer, seed: int) -> dict[str, np.ndarray]:
    """Let a trainer start from random weights; returns a copy of them."""
    rng, model = np.random.default_rng(seed), trainer.model(16)
    start = rng.normal(0, 0.5, trainer.features.n_rows).astype(np.float32)
    start = {
        "arcs.weights": silence(start, model.linear.plan, model.linear.features)[:, np.newaxis]
    }
    if trainer.config.labels.kind == "joint":
        labels = trainer.stage("arcs").tables["labels"].array
        start["arcs.labels"] = rng.normal(0, 0.5, labels.shape).astype(np.float32)
        start["arcs.labels"][:, len(model.labels) :] = 0  # what makes up a line
        labels[:] = start["arcs.labels"]
    trainer.stage("arcs").tables["weights"].array[:] = start["arcs.weights"]
    return start


def seen_orders(options: RunConfig, count: int) -> list[list[int]]:
    """The order of every epoch: as documented, drawn from seed, stage and epoch."""
    orders = []
    for epoch in range(options.learning.epochs):
        order = np.arange(count)
        if options.learning.shuffle:
            seeds = np.random.SeedSequence([options.seed, 0, epoch])
            order = np.random.Generator(np.random.PCG64(seeds)).permutation(count)
        orders.append(order.tolist())
    return orders


class Averages(NamedTuple):
    """The averages of weights of arcs and other parts (rows,), and of labels (lines, labels)."""

    arcs: np.ndarray
    labels: np.ndarray | None
    wrong: list[int]  # in each epoch


class Tree(NamedTuple):
    """The parts of a tree beyond arcs, siblings and ends: rows, and lines of each word's label."""

    rows: Counter
    lines: list[list[int]]


class Literal:
    """Sentences with the features of their parts, and searches that look at every tree.

    Searches by single changes are those of the textbook, and so are ties.
    """

    def __init__(
        self, sentences: list[Sentence], options: RunConfig, model: Parser,
        guides: np.ndarray | None = None,
    ) -> None:  # fmt: skip
        self.sentences, self.options, self.model = sentences, options, model
        self.decoder = DECODERS[options.decoder]
        self.single_root = bool(options.data.single_root)
        self.labels_read_children = bool(
            model.linear.plans.joint and model.linear.plans.joint.higher
        )
        self.known = known_values(sentences, ["form", "pos"], 3)
        self.batch = model.encode(treebank_of(sentences), guides)
        self.gold = [self._gold(sentence) for sentence in sentences]
        ends = np.cumsum([len(sentence) for sentence in sentences])[:-1]
        of_words = [None] * len(sentences) if guides is None else np.split(guides, ends)
        named = [self._small_parts(s, g) for s, g in zip(sentences, of_words, strict=True)]
        rows = rows_of_trees(model, self.batch, named)
        self.features: list[Features] = [
            {part: Counter(rows[name] for name in of_part.elements())
             for part, of_part in parts.items()}
            for parts in named
        ]  # fmt: skip
        self.lines: list[dict[tuple[int, int], list[int]]] = []
        if model.linear.joint_plan:
            of_arcs = [self._label_parts(sentence) for sentence in sentences]
            lines = lines_of_labels(model, self.batch, of_arcs)
            self.lines = [
                {arc: [lines[name] for name in found.elements()] for arc, found in parts.items()}
                for parts in of_arcs
            ]

    def _gold(self, sentence: Sentence) -> Answer:
        if self.decoder.gives_graphs:
            cells = [(item, m) for m, w in enumerate(sentence, 1) for item in w[8].split("|")]
            return Answer(frozenset((int(item.partition(":")[0]), m) for item, m in cells))
        arcs = frozenset((int(w[6]), m) for m, w in enumerate(sentence, 1) if w[6] != "_")
        if not self.model.linear.joint_plan:
            return Answer(arcs)
        labels = [UNKNOWN if w[6] == "_" else self.model.labels.index(w[7]) for w in sentence]
        return Answer(arcs, tuple(labels))

    def _small_parts(self, sentence: Sentence, guides: np.ndarray | None) -> dict:
        """Named features of arcs, siblings and ends; guides (n,): heads that another found."""
        n, known, templates, found = len(sentence), self.known, self.model.linear.templates, {}
        buckets = templates.distance
        arc, guide, sibling, end = (
            [str(template) for template in of_kind]
            for of_kind in (templates.arc, templates.guide, templates.sibling, templates.end)
        )
        for h in range(n + 1):
            for m in range(1, n + 1):
                if h != m:
                    of_arc = arc_features(arc, sentence, h, m, known, 3, buckets)
                    found[h, m] = Counter({("arc", *name): k for name, k in of_arc.items()})
                    if guides is not None and guides[m - 1] == h:
                        of_arc = arc_features(guide, sentence, h, m, known, 3, buckets)
                        found[h, m].update(("guide", *name) for name in of_arc)
        if not self.model.linear.plan.siblings:
            return found
        for part in sibling_parts(n):
            of_part = sibling_features(sibling, sentence, part, known, 3, buckets)
            found[part] = Counter({("siblings", *name): 1 for name in of_part})
        for part in end_parts(n):
            of_part = end_features(end, sentence, part, known, 3, buckets)
            found[part] = Counter({("ends", *name): 1 for name in of_part})
        return found

    def _label_parts(self, sentence: Sentence) -> dict:
        n, templates = len(sentence), self.model.linear.label_templates
        assert templates is not None
        text = [str(template) for template in templates.label]
        return {
            (h, m): arc_features(text, sentence, h, m, self.known, 3, templates.distance)
            for h in range(n + 1) for m in range(1, n + 1) if h != m
        }  # fmt: skip

    def gold_heads(self, s: int) -> list[int]:
        """The gold head of each word of a sentence of a tree, UNKNOWN where there is none."""
        heads = {m: h for h, m in self.gold[s].arcs}
        return [heads.get(m, UNKNOWN) for m in range(1, len(self.sentences[s]) + 1)]

    def all_heads(self, s: int) -> list[list[int]]:
        """Heads of words 1..n of every tree of a sentence."""
        n = len(self.sentences[s])
        return all_trees(n, self.decoder.is_projective, self.single_root)[:, 1:].tolist()

    @cached_property
    def trees(self) -> list[list[Tree]]:
        """Every tree of each sentence, in the order of `all_heads`."""
        return [
            [self.tree(s, heads) for heads in self.all_heads(s)] for s in range(len(self.sentences))
        ]

    def tree(self, s: int, heads: Iterable[int]) -> Tree:
        """The parts of a tree beyond arcs, siblings and ends."""
        model, tree, rows = self.model, [UNKNOWN, *map(int, heads)], Counter()
        arcs = list(enumerate(tree))[1:]
        lines = [list(self.lines[s][h, m]) for m, h in arcs] if self.lines else []
        if not (model.linear.plan.higher or self.labels_read_children):
            return Tree(rows, lines)
        for kind, words, m, is_last in higher_order_parts_of(tree):
            of_last = model.linear.templates.tri_sibling and kind in (
                "grandparent",
                "grand_sibling",
            )
            if getattr(model.linear.templates, kind) and (is_last or not of_last):
                rows.update(self._rows(s, kind, words, labelled=False))
            if kind in CHILDREN and self.labels_read_children:
                lines[m - 1] += self._rows(s, kind, words, labelled=True)
        return Tree(rows, lines)

    @cache  # noqa: B019 (a part is in many trees)
    def _rows(self, s: int, kind: str, words: tuple[int, ...], *, labelled: bool) -> list[int]:
        """Where the features of a part have their weights; which these are, its text says."""
        linear = self.model.linear
        plan, features, templates = linear.plan.higher, linear.features, linear.templates
        if labelled:
            plan, templates = linear.plans.joint.higher, linear.label_templates
            features = label_map(len(linear.label_weights.array))
        at = torch.tensor([(s, *words)])
        rows = higher_rows(kind, at, self.batch, plan, features, UNKNOWN)[0].tolist()
        text = [str(template) for template in getattr(templates, kind)]
        named = higher_order_features(kind, text, self.sentences[s], words, self.known)
        assert [name is None for name in named] == [row == UNKNOWN for row in rows]
        return [row for row in rows if row != UNKNOWN]

    def features_of(self, s: int, answer: Answer) -> Counter:
        """All features of a tree or graph, and of its labels."""
        total = feature_vector(self.features[s], answer.arcs)
        if self.decoder.gives_graphs:
            return total
        tree = self.tree(s, [h for m, h in sorted((m, h) for h, m in answer.arcs)])
        total.update(tree.rows)
        if answer.labels is not None:
            for label, lines in zip(answer.labels, tree.lines, strict=True):
                total.update((line, label) for line in lines)
        return total

    def cost_of(self, s: int, answer: Answer) -> int:
        """Words with a wrong head or label, among those whose head is known; of graphs false
        positives and false negatives."""
        gold = self.gold[s]
        if self.decoder.gives_graphs:
            return len(gold.arcs ^ answer.arcs)
        wrong = {m for _, m in gold.arcs - answer.arcs}
        if gold.labels is not None and answer.labels is not None:
            pairs = enumerate(zip(gold.labels, answer.labels, strict=True), start=1)
            wrong |= {m for m, (right, label) in pairs if right not in (UNKNOWN, label)}
        return len(wrong)

    def find(self, weights: textbook.NamedWeights, s: int) -> tuple[Answer, list[Answer]]:
        """The answer that is learned towards, and the best ones."""
        gold = target = self.gold[s]
        if not self.decoder.gives_graphs and len(gold.arcs) < len(self.sentences[s]):
            [target] = self.search(weights, s, 1, completing=True)
            if gold.labels is not None and target.labels is not None:
                pairs = zip(gold.labels, target.labels, strict=True)
                labels = tuple(found if right == UNKNOWN else right for right, found in pairs)
                target = Answer(target.arcs, labels)
        return target, self.search(weights, s, self.options.learning.k)

    def search(
        self, weights: textbook.NamedWeights, s: int, k: int, *, completing: bool = False
    ) -> list[Answer]:
        """The k best answers, with mistakes added if these are to be told from gold.

        completing: of those that have all known heads, and without mistakes.
        """
        n = len(self.sentences[s])
        cost = 0.0 if completing else float(self.options.learning.cost_augmented)
        arcs, siblings, ends = score_tables(weights, self.features[s], n)
        arcs += self._costs(s, n, -np.inf if completing else cost)
        best = {}
        if self.lines and not self.labels_read_children:
            best = {arc: self._best_label(weights, s, arc, self.lines[s][arc], cost)
                    for arc in self.lines[s]}  # fmt: skip
            for arc, (_, value) in best.items():
                arcs[arc] += value
        if self.decoder.starts_from:
            return [self._labelled(self._climbed(arcs, siblings, ends), best)]
        heads = self.all_heads(s)
        tables = {"arc": arcs, "sibling": siblings, "end": ends}
        values = values_of_trees(
            {kind: table[np.newaxis] for kind, table in tables.items()},
            projective=self.decoder.is_projective, single_root=self.single_root,
        )[0]  # fmt: skip
        if self.decoder.is_higher_order:
            values += [textbook.score(weights, tree.rows) for tree in self.trees[s]]
        labels = []
        if self.labels_read_children:
            for t, tree in enumerate(self.trees[s]):
                pairs = [
                    self._best_label(weights, s, (h, m), lines, cost)
                    for m, (h, lines) in enumerate(zip(heads[t], tree.lines, strict=True), start=1)
                ]
                labels.append(tuple(label for label, _ in pairs))
                values[t] += sum(value for _, value in pairs)
        order = [t for t in np.argsort(-values, kind="stable").tolist() if values[t] > -np.inf]
        found = [heads[t] for t in order[:k]]
        if len(order) > k and values[order[k - 1]] - values[order[k]] < 1e-6:
            if k > 1 or self.decoder.is_higher_order:
                raise TieError
            found = [TEXTBOOK[self.decoder.name](tables, self.single_root)[0][1:]]
        if labels:
            return [Answer(_arcs(heads[t]), labels[t]) for t in order[:k]]
        return [self._labelled(_arcs(each), best) for each in found]

    def _costs(self, s: int, n: int, cost: float) -> np.ndarray:
        """The costs of arcs (N, N) that are not gold, of words whose head is known."""
        table, gold = np.zeros((n + 1, n + 1)), self.gold[s].arcs
        if self.decoder.gives_graphs:
            table[:] = cost
        for _, m in gold:
            table[:, m] = cost
        for arc in gold:
            table[arc] = -cost if self.decoder.gives_graphs else 0.0
        return table

    def _best_label(
        self,
        weights: textbook.NamedWeights,
        s: int,
        arc: tuple[int, int],
        lines: list[int],
        cost: float,
    ) -> tuple[int, float]:
        """The number of the best label of an arc, and its score."""
        gold, m = self.gold[s], arc[1]
        scores = [
            sum(weights[line, label] for line in lines) for label in range(len(self.model.labels))
        ]
        if arc in gold.arcs and gold.labels is not None:
            scores = [score + cost * (k != gold.labels[m - 1]) for k, score in enumerate(scores)]
        label = int(np.argmax(scores))
        return label, scores[label]

    def _labelled(self, arcs: Arcs, best: dict) -> Answer:
        if not best:
            return Answer(arcs)
        return Answer(arcs, tuple(best[h, m][0] for m, h in sorted((m, h) for h, m in arcs)))

    def _climbed(self, arcs: np.ndarray, siblings: np.ndarray, ends: np.ndarray) -> Arcs:
        heads, _ = projective.eisner_sibling(arcs, siblings, ends, single_root=self.single_root)
        how = {
            "end_scores": ends, "min_gain": self.options.min_gain, "single_root": self.single_root
        }  # fmt: skip
        if self.decoder.gives_graphs:
            return frozenset(reference.multi_parent(arcs, siblings, heads, **how)[0])
        heads, *_ = reference.hill_climb(arcs, siblings, heads, **how)
        return _arcs(heads[1:])

    def orders(self) -> list[list[int]]:
        return seen_orders(self.options, len(self.sentences))

    def named(self, arrays: dict[str, np.ndarray]) -> textbook.NamedWeights:
        """The weights of all features, by their names."""
        rows = {row for parts in self.features for found in parts.values() for row in found}
        lines = {line for parts in self.lines for found in parts.values() for line in found}
        if self.decoder.is_higher_order:
            for tree in (tree for of_sentence in self.trees for tree in of_sentence):
                rows.update(tree.rows)
                lines.update(line for of_word in tree.lines for line in of_word)
        found = {row: float(arrays["arcs.weights"][row, 0]) for row in rows}
        for line in lines:
            values = arrays["arcs.labels"][line, : len(self.model.labels)].tolist()
            found |= {(line, label): value for label, value in enumerate(values)}
        return found

    def average(self, start: dict[str, np.ndarray]) -> Averages:
        """The mean of the weights after each sentence."""
        average, wrong = textbook.learn(
            self, self.orders(), update_rule(self.options), start=self.named(start),
            batch_size=self.options.learning.batch_size,
        )  # fmt: skip
        arcs = start["arcs.weights"][:, 0].astype(np.float64)
        labels = start["arcs.labels"].astype(np.float64) if self.lines else None
        for name, weight in average.items():
            if isinstance(name, tuple):
                labels[name] = weight
            else:
                arcs[name] = weight
        return Averages(arcs, labels, wrong)


def _arcs(heads: Iterable[int]) -> Arcs:
    return frozenset((int(h), m) for m, h in enumerate(heads, start=1))


def trainer_of(
    sentences: list[Sentence], options: RunConfig = OPTIONS, *, threads: int = 1,
    templates: TemplateSet | None = None, labels: TemplateSet | None = None,
    guides: np.ndarray | None = None,
) -> Trainer:  # fmt: skip
    """templates, labels: None for those of the decoder, and for none or those of joint labels."""
    if options.labels.kind == "joint":
        labels = WITH_CHILDREN if DECODERS[options.decoder].reads_children else JOINT
    templates = templates or templates_for(options.decoder)
    return Trainer(treebank_of(sentences), templates, labels, options, threads, guides)


def learned(trainer: Trainer) -> Trainer:
    for _ in trainer.learn():
        pass
    return trainer


def average_of(trainer: Trainer, wrong: list[int]) -> Averages:
    state = trainer.state()
    seen = trainer.config.learning.epochs * len(trainer.gold.batch)
    arcs = state["arcs.weights"][:, 0] - state["arcs.weights_weighted"] / seen
    labels = None
    if trainer.config.labels.kind == "joint":
        labels = state["arcs.labels"]
        labels = labels - state["arcs.labels_weighted"].reshape(labels.shape) / seen
    return Averages(arcs, labels, wrong)


def assert_the_average_is_literal(
    options: RunConfig, draw: Callable[[int], list[Sentence]], *, moved: int = 60,
    templates: TemplateSet | None = None,
    guide: Callable[[list[Sentence]], np.ndarray] | None = None,
) -> None:  # fmt: skip
    """Learn from random weights on, and compare all of them with the twin's.

    draw: the sentences of a seed; the first seeds without ties are taken.
    """
    for seed in range(1, 20):
        sentences = draw(seed)
        guides = guide(sentences) if guide else None
        trainer = trainer_of(sentences, options, templates=templates, guides=guides)
        start = with_random_weights(trainer, seed)
        events = list(trainer.learn())
        with suppress(TieError):
            expected = Literal(sentences, options, trainer.model(16), guides).average(start)
            break
    wrong = [event.wrong for event in events if event.epoch_is_over]
    found = average_of(trainer, wrong)
    assert np.count_nonzero(np.abs(expected.arcs - start["arcs.weights"][:, 0]) > 1e-4) > moved
    np.testing.assert_allclose(found.arcs, expected.arcs, atol=2e-5)
    if options.labels.kind == "joint":
        assert expected.labels is not None
        assert np.count_nonzero(np.abs(expected.labels - start["arcs.labels"]) > 1e-4) > moved // 3
        np.testing.assert_allclose(found.labels, expected.labels, atol=2e-5)
    # Later the cost of trees that were learned from may make up for their margin to the point.
    compared = 1 if options.learning.cost_augmented else options.learning.epochs
    assert wrong[:compared] == expected.wrong[:compared]
    assert wrong[0] > 0
