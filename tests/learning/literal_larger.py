"""The literal algorithm for decoders beyond the second order: every tree looked at, in full.

A tree's features are counted by the weight rows where a trainer keeps them, so that features that
share a row share it here too; which features a tree has is read from the templates' text.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch

from gpuparse.config import RunConfig
from gpuparse.data.batch import Batch
from gpuparse.data.vocabulary import Encoder
from gpuparse.features.templates import TemplateSet, parse_set
from gpuparse.inference.decoders import DECODERS
from gpuparse.parser import Parser
from gpuparse.parts import CHILDREN, HIGHER_ORDER
from gpuparse.scoring.higher import higher_rows
from gpuparse.scoring.joint_labels import label_map
from tests.learning.literal import ARC, END, LABEL, SIBLING
from tests.named_rows import lines_of_labels, rows_of_trees
from tests.oracles.arc_features import arc_features, known_values
from tests.oracles.brute_force import all_trees
from tests.oracles.larger_features import larger_features
from tests.oracles.larger_trees import larger_parts_of
from tests.oracles.online import step
from tests.oracles.online_parts import feature_vector
from tests.oracles.sibling_features import end_features, sibling_features
from tests.rows import end_parts, sibling_parts
from tests.samples import Sentence, template_set_text, treebank_of

LARGER = {
    "grandparent": ["g.form h.pos m.form", "g.pos m.pos direction"],
    "grand_sibling": ["g.form s.form m.form direction", "g.pos h.pos s.pos m.pos"],
    "tri_sibling": ["t.form s.form m.form", "h.pos t.pos m.pos direction"],
    "head_child": ["h.form m.form c.form direction", "m.pos c.pos"],
    "inner_grandchild": ["m.form c.form", "h.pos m.pos c.pos direction"],
    "outer_grandchild": ["m.form c.form direction", "h.form c.pos"],
}
UNKNOWN = -1
Rows = Counter  # of numbers of rows of arcs, and of (line, label)
Found = tuple[tuple[int, ...], Rows, list[list[int]]]


def _with_larger(text: str, parts: tuple[str, ...]) -> str:
    for part in parts:
        text += f"{part}:\n  - templates:\n" + "".join(f"      - {each}\n" for each in LARGER[part])
    return text


ALL = parse_set(
    _with_larger(
        template_set_text(arc=ARC, sibling=SIBLING, end=END), [kind.name for kind in HIGHER_ORDER]
    ),
    "larger",
)
WITH_CHILDREN = parse_set(_with_larger(template_set_text(label=LABEL), CHILDREN), "children")
BUCKETS = ALL.distance


class Tree(NamedTuple):
    """Heads of words 1..n, and numbers of their labels if there are any."""

    heads: tuple[int, ...]
    labels: tuple[int, ...] | None


class Literal:
    """Sentences with the features of all their trees, and the algorithm."""

    def __init__(self, sentences: list[Sentence], options: RunConfig, model: Parser) -> None:
        self.sentences, self.options, self.model = sentences, options, model
        self.templates: TemplateSet = model.templates
        self.known = known_values(sentences, ["form", "pos"], 3)
        self.batch: Batch = Encoder(model.vocabularies).encode(treebank_of(sentences))
        small = [self._small_parts(sentence) for sentence in sentences]
        rows = rows_of_trees(model, sentences, small)
        self.small = [
            {part: Counter({rows[name]: k for name, k in of_part.items()})
             for part, of_part in parts.items()}
            for parts in small
        ]  # fmt: skip
        if model.joint_plan:
            named = [self._label_parts(sentence) for sentence in sentences]
            lines = lines_of_labels(model, sentences, named)
            self.lines = [
                {arc: [lines[name] for name in found.elements()] for arc, found in parts.items()}
                for parts in named
            ]

    def _small_parts(self, sentence: Sentence) -> dict:
        """Named features of arcs, siblings and ends."""
        n, known, found = len(sentence), self.known, defaultdict(Counter)
        for h in range(n + 1):
            for m in range(1, n + 1):
                if h != m:
                    arc = arc_features(ARC, sentence, h, m, known, 3, BUCKETS)
                    found[h, m] = Counter({("arc", *name): k for name, k in arc.items()})
        if not self.templates.sibling:
            return found
        for part in sibling_parts(n):
            of_part = sibling_features(SIBLING, sentence, part, known, 3, BUCKETS)
            found[part] = Counter({("siblings", *name): 1 for name in of_part})
        for part in end_parts(n) if self.templates.end else []:
            of_part = end_features(END, sentence, part, known, 3, BUCKETS)
            found[part] = Counter({("ends", *name): 1 for name in of_part})
        return found

    def _label_parts(self, sentence: Sentence) -> dict:
        n = len(sentence)
        return {
            (h, m): arc_features(LABEL, sentence, h, m, self.known, 3, BUCKETS)
            for h in range(n + 1) for m in range(1, n + 1) if h != m
        }  # fmt: skip

    @cached_property
    def trees(self) -> list[list["Found"]]:
        """Every tree of each sentence."""
        projective = DECODERS[self.options.decoder].is_projective
        single_root = bool(self.options.data.single_root)
        return [
            [self.tree(b, heads) for heads in all_trees(len(words), projective, single_root)[:, 1:]]
            for b, words in enumerate(self.sentences)
        ]

    def tree(self, b: int, heads: Iterable[int]) -> "Found":
        """A tree of a sentence: its heads, its rows, and the lines of each word's label."""
        model, tree = self.model, [UNKNOWN, *map(int, heads)]
        arcs = {(h, m) for m, h in enumerate(tree) if m > 0}
        rows, lines = Counter(feature_vector(self._default(b), arcs)), []
        if model.joint_plan:
            lines = [list(self.lines[b][h, m]) for m, h in enumerate(tree) if m > 0]
        for kind, words, m, is_last in larger_parts_of(tree):
            of_last = self.templates.tri_sibling and kind in ("grandparent", "grand_sibling")
            if getattr(self.templates, kind) and (is_last or not of_last):
                rows.update(self._rows(b, kind, words, labelled=False))
            if kind in CHILDREN and model.plans.joint and model.plans.joint.higher:
                lines[m - 1] += self._rows(b, kind, words, labelled=True)
        return tuple(tree[1:]), rows, lines

    def _default(self, b: int) -> dict:
        return defaultdict(Counter, self.small[b])

    def _rows(self, b: int, kind: str, words: tuple[int, ...], *, labelled: bool) -> list[int]:
        """Where the features of a part have their weights; which these are, its text says."""
        model = self.model
        plan, features = model.plan.higher, model.features
        if labelled:
            assert model.plans.joint is not None
            assert model.label_weights is not None
            plan, features = model.plans.joint.higher, label_map(len(model.label_weights.array))
        assert plan is not None
        at = torch.tensor([(b, *words)])
        rows = higher_rows(kind, at, self.batch, plan, features, UNKNOWN)[0].tolist()
        named = larger_features(kind, LARGER[kind], self.sentences[b], words, self.known)
        assert [name is None for name in named] == [row == UNKNOWN for row in rows]
        return [row for row in rows if row != UNKNOWN]

    def gold(self, b: int) -> Tree:
        words = self.sentences[b]
        heads = tuple(UNKNOWN if w[6] == "_" else int(w[6]) for w in words)
        if not self.model.joint_plan:
            return Tree(heads, None)
        labels = [UNKNOWN if w[6] == "_" else self.model.labels.index(w[7]) for w in words]
        return Tree(heads, tuple(labels))

    def rows_of(self, b: int, tree: Tree) -> Rows:
        _, rows, lines = self.tree(b, tree.heads)
        for label, of_word in zip(tree.labels or (), lines, strict=True):
            rows.update((line, label) for line in of_word)
        return rows

    def cost_of(self, b: int, tree: Tree) -> int:
        """Words with a wrong head or label, among those whose head is known."""
        gold, cost = self.gold(b), 0
        for m, right in enumerate(gold.heads):
            wrong = right != tree.heads[m]
            if gold.labels is not None and tree.labels is not None:
                wrong |= gold.labels[m] != tree.labels[m]
            cost += right != UNKNOWN and wrong
        return cost

    def best(self, b: int, weigh: "Weigh", cost: float, *, completing: bool = False) -> Tree:
        """The tree of highest score, mistakes added; completing: of those with all known heads."""
        gold, most, chosen = self.gold(b), -np.inf, None
        for heads, rows, lines in self.trees[b]:
            known = [(h, right) for h, right in zip(heads, gold.heads, strict=True) if right >= 0]
            if completing and any(h != right for h, right in known):
                continue
            score = weigh.sum(rows) + cost * sum(h != right for h, right in known)
            labels = []
            for m, of_word in enumerate(lines):
                values = [
                    weigh.sum(Counter((line, label) for line in of_word))
                    for label in range(len(self.model.labels))
                ]
                if gold.labels is not None and gold.heads[m] == heads[m]:
                    values = [v + cost * (k != gold.labels[m]) for k, v in enumerate(values)]
                labels.append(int(np.argmax(values)))
                score += max(values)
            if score > most:
                most, chosen = score, Tree(heads, tuple(labels) if lines else None)
        assert chosen is not None
        return chosen

    def target(self, b: int, weigh: "Weigh") -> Tree:
        """Gold, and what it leaves open as the weights find it best."""
        gold = self.gold(b)
        if UNKNOWN not in gold.heads:
            return gold
        found = self.best(b, weigh, 0.0, completing=True)
        if gold.labels is None or found.labels is None:
            return Tree(found.heads, None)
        labels = [
            k if k >= 0 else other for k, other in zip(gold.labels, found.labels, strict=True)
        ]
        return Tree(found.heads, tuple(labels))

    def learn(self, start: dict[str, np.ndarray]) -> tuple[dict[str, np.ndarray], list[int]]:
        """The mean of the weights after each sentence, and the mistakes of each epoch."""
        options, weigh, total, wrong = self.options, Weigh(start), Counter(), []
        cost, size, seen = float(options.learning.cost_augmented), options.learning.batch_size, 0
        for epoch in range(options.learning.epochs):
            seeds = np.random.SeedSequence([options.seed, 0, epoch])
            order = np.random.Generator(np.random.PCG64(seeds)).permutation(len(self.sentences))
            wrong.append(0)
            for first in range(0, len(order), size):
                batch = order[first : first + size].tolist()
                pairs = [(self.target(b, weigh), self.best(b, weigh, cost)) for b in batch]
                for b, (target, found) in zip(batch, pairs, strict=True):
                    self._step(b, target, found, weigh)
                    wrong[-1] += self.cost_of(b, found)
                    for row, moved in weigh.moved.items():
                        total[row] += moved
                    seen += 1
        average = {name: array.astype(np.float64) for name, array in start.items()}
        for row, moved in total.items():
            if isinstance(row, tuple):
                average["labels"][row] += moved / seen
            else:
                average["arcs"][row, 0] += moved / seen
        return average, wrong

    def _step(self, b: int, target: Tree, found: Tree, weigh: "Weigh") -> None:
        mistakes = self.cost_of(b, found)
        difference = self.rows_of(b, target)
        difference.subtract(self.rows_of(b, found))
        if mistakes:
            vector = np.array(list(difference.values()), np.float64)
            cap = self.options.learning.max_step or np.inf
            size = step(self.options.learning.rule, mistakes, weigh.sum(difference), vector, cap)
            for row, times in difference.items():
                weigh.moved[row] += size * times


class Weigh:
    """Weights: where they began, and how far each has moved since."""

    def __init__(self, start: dict[str, np.ndarray]) -> None:
        self.start, self.moved = start, defaultdict(float)

    def sum(self, rows: Rows) -> float:
        total = 0.0
        for row, times in rows.items():
            begun = (
                self.start["labels"][row] if isinstance(row, tuple) else self.start["arcs"][row, 0]
            )
            total += times * (float(begun) + self.moved.get(row, 0.0))
        return total
