"""A trainer and its literal twin: the same sentences, templates and options, the same start."""

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import NamedTuple

import numpy as np

from gpuparse.config import RunConfig
from gpuparse.features.templates import TemplateSet, parse_set
from gpuparse.inference.textbook import projective
from gpuparse.inference.textbook import spanning_trees as reference
from gpuparse.learning.trainer import Trainer
from gpuparse.parser import Parser
from tests.named_rows import lines_of_labels, rows_of_trees
from tests.oracles import online_k_best as oracle
from tests.oracles.arc_features import arc_features, known_values
from tests.oracles.online_parts import Weights
from tests.oracles.sibling_features import end_features, sibling_features
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
    decoder="eisner", min_gain=0.0, single_root=False, pos="coarse", map_rows=1 << 22,
    rule="mira", epochs=2, batch_size=1, cost_augmented=False, max_step=None, shuffle=True,
    unreachable="oracle", seed=1, label_rows=1 << 18, label_epochs=1,
)  # fmt: skip
ARC = [
    "h.form m.form", "h.pos m.pos direction distance", "m.form direction",
    "h.pos between.pos m.pos",
]  # fmt: skip
SIBLING = ["s.form m.form", "s.pos m.pos direction distance", "h.pos s.pos m.pos", "m.pos"]
END = ["h.form e.form direction", "h.pos e.pos direction distance", "e.form"]
LABEL = ["m.form", "h.form m.form direction", "h.pos m.pos direction distance", "m.pos distance"]
FIRST_ORDER = parse_set(template_set_text(arc=ARC), "first")
SECOND_ORDER = parse_set(template_set_text(arc=ARC, sibling=SIBLING, end=END), "second")
JOINT = parse_set(template_set_text(label=LABEL), "joint")
FORMS = [f"w{number}" for number in range(12)]
READS_SIBLINGS = ("eisner_sibling", "hill_climb")
PROJECTIVE = ("eisner", "eisner_sibling")


def templates_for(decoder: str) -> TemplateSet:
    return SECOND_ORDER if decoder in READS_SIBLINGS else FIRST_ORDER


def toy_treebank(
    decoder: str, seed: int, lengths: Iterable[int], *, single_root: bool = False
) -> list[Sentence]:
    """Sentences no two words of which are alike: random weights leave no ties."""
    draw, sentences = random.Random(seed), []
    for n in lengths:
        is_plain = decoder in PROJECTIVE or single_root
        heads = (projective_heads if is_plain else any_heads)(draw, n)
        forms = draw.sample(FORMS, n)
        sentences.append(
            [
                row(m, forms[m - 1], heads[m - 1], draw.choice("abc"), cpos=draw.choice("NVP"))
                for m in range(1, n + 1)
            ]
        )
    return sentences


def without_heads(sentences: list[Sentence], share: float, seed: int) -> list[Sentence]:
    """A copy in which some words, drawn by chance, have no head."""
    draw = random.Random(seed)
    return [
        [[*w[:6], "_" if draw.random() < share else w[6], *w[7:]] for w in sentence]
        for sentence in sentences
    ]


def with_random_weights(trainer: Trainer, seed: int) -> dict[str, np.ndarray]:
    """Let a trainer start from random weights; returns a copy of them."""
    rng, model, state = np.random.default_rng(seed), trainer.model(16), trainer.state()
    start = rng.normal(0, 0.5, len(state["arcs"])).astype(np.float32)
    start = {"arcs": silence(start, model.plan, model.features)[:, np.newaxis]}
    if trainer.config.labels.kind == "joint":
        start["labels"] = rng.normal(0, 0.5, state["labels"].shape).astype(np.float32)
        start["labels"][:, len(model.labels) :] = 0  # what makes up a line
    trainer.restore(state | {name: array.copy() for name, array in start.items()})
    return start


class Averages(NamedTuple):
    """Of the weights of arcs, siblings and ends (rows,), and of labels (lines, labels)."""

    arcs: np.ndarray
    labels: np.ndarray | None
    wrong: list[int]  # in each epoch


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


class Literal:
    """The literal algorithm over the oracles' features."""

    def __init__(self, sentences: list[Sentence], options: RunConfig) -> None:
        self.rows, self.options = sentences, options
        self.names = sorted({w[7] for s in sentences for w in s}, key=self._first_place)
        known = known_values(sentences, ["form", "pos"], 3)
        self.sentences = [self._sentence(sentence, known) for sentence in sentences]
        self.search = self._search()

    def _first_place(self, name: str) -> int:
        return [w[7] for s in self.rows for w in s].index(name)

    def _sentence(self, sentence: Sentence, known: dict) -> oracle.Sentence:
        n, buckets = len(sentence), FIRST_ORDER.distance
        features, labels = defaultdict(Counter), {}
        for h in range(n + 1):
            for m in range(1, n + 1):
                if h == m:
                    continue
                arc = arc_features(ARC, sentence, h, m, known, 3, buckets)
                features[h, m] = Counter({("arc", *name): k for name, k in arc.items()})
                if self.options.labels.kind == "joint":
                    labels[h, m] = arc_features(LABEL, sentence, h, m, known, 3, buckets)
        if self.options.decoder in READS_SIBLINGS:
            for part in sibling_parts(n):
                of_part = sibling_features(SIBLING, sentence, part, known, 3, buckets)
                features[part] = Counter({("siblings", *name): 1 for name in of_part})
            for part in end_parts(n):
                of_part = end_features(END, sentence, part, known, 3, buckets)
                features[part] = Counter({("ends", *name): 1 for name in of_part})
        heads = tuple(oracle.UNKNOWN if w[6] == "_" else int(w[6]) for w in sentence)
        if self.options.labels.kind != "joint":
            return oracle.Sentence(features, oracle.Tree(heads))
        gold = tuple(oracle.UNKNOWN if w[6] == "_" else self.names.index(w[7]) for w in sentence)
        return oracle.Sentence(features, oracle.Tree(heads, gold), labels, len(self.names))

    def _search(self) -> oracle.Search:
        options, single_root = self.options, bool(self.options.data.single_root)
        if options.decoder == "hill_climb":

            def climb(
                arcs: np.ndarray, siblings: np.ndarray, ends: np.ndarray
            ) -> list[tuple[int, ...]]:
                heads, _ = projective.eisner_sibling(arcs, siblings, ends, single_root=single_root)
                heads, *_ = reference.hill_climb(
                    arcs, siblings, heads, end_scores=ends, min_gain=options.min_gain,
                    single_root=single_root,
                )  # fmt: skip
                return [tuple(int(h) for h in heads[1:])]

            return oracle.Search(climb, climb, options.learning.cost_augmented)
        best, one = (
            oracle.k_best_by_enumeration(
                k, projective=options.decoder in PROJECTIVE, single_root=single_root
            )
            for k in (options.learning.k, 1)
        )
        return oracle.Search(best, one, options.learning.cost_augmented)

    def rows_in(self, model: Parser) -> dict:
        return rows_of_trees(model, self.rows, [s.features for s in self.sentences])

    def lines_in(self, model: Parser) -> dict:
        return lines_of_labels(model, self.rows, [s.labels for s in self.sentences])

    def orders(self) -> list[list[int]]:
        return seen_orders(self.options, len(self.sentences))

    def named(self, model: Parser, weights: dict[str, np.ndarray]) -> Weights:
        """Weights by the names of their features."""
        found = {name: float(weights["arcs"][r, 0]) for name, r in self.rows_in(model).items()}
        if self.options.labels.kind == "joint":
            found |= {
                (name, label): float(weights["labels"][line, label])
                for name, line in self.lines_in(model).items()
                for label in range(len(self.names))
            }
        return found

    def average(self, model: Parser, start: dict[str, np.ndarray]) -> Averages:
        average, wrong = oracle.averaged_weights(
            self.sentences, self.search, self.orders(), rule=self.options.learning.rule,
            start=self.named(model, start), cap=self.options.learning.max_step or np.inf,
            batch_size=self.options.learning.batch_size,
        )  # fmt: skip
        arcs = start["arcs"][:, 0].astype(np.float64)
        for name, found in self.rows_in(model).items():
            arcs[found] = average[name]
        if self.options.labels.kind != "joint":
            return Averages(arcs, None, wrong)
        labels = start["labels"].astype(np.float64)
        for name, line in self.lines_in(model).items():
            labels[line, : len(self.names)] = [
                average[name, label] for label in range(len(self.names))
            ]
        return Averages(arcs, labels, wrong)


def trainer_of(
    sentences: list[Sentence], options: RunConfig = OPTIONS, *, threads: int = 1,
    labels: TemplateSet | None = None,
) -> Trainer:  # fmt: skip
    templates = templates_for(options.decoder)
    labels = JOINT if options.labels.kind == "joint" else labels
    return Trainer(treebank_of(sentences), templates, labels, options, threads)


def learned(trainer: Trainer) -> Trainer:
    for _ in trainer.learn():
        pass
    return trainer


def average_of(trainer: Trainer, wrong: list[int]) -> Averages:
    state = trainer.state()
    seen = trainer.config.learning.epochs * len(trainer.gold.batch)
    arcs = state["arcs"][:, 0] - state["arcs_weighted"] / seen
    labels = None
    if trainer.config.labels.kind == "joint":
        labels = state["labels"] - state["labels_weighted"].reshape(state["labels"].shape) / seen
    return Averages(arcs, labels, wrong)


def assert_the_average_is_literal(
    options: RunConfig, draw: Callable[[int], list[Sentence]], *, moved: int = 60
) -> None:
    """Learn from random weights on, and compare all of them with the twin's.

    draw: the sentences of a seed; the first seeds without ties are taken.
    """
    for seed in range(20):
        sentences = draw(seed)
        trainer = trainer_of(sentences, options)
        start = with_random_weights(trainer, seed)
        events = list(trainer.learn())
        with suppress(oracle.TieError):
            expected = Literal(sentences, options).average(trainer.model(16), start)
            break
    wrong = [event.wrong for event in events if event.epoch_is_over]
    found = average_of(trainer, wrong)
    assert np.count_nonzero(np.abs(expected.arcs - start["arcs"][:, 0]) > 1e-4) > moved
    np.testing.assert_allclose(found.arcs, expected.arcs, atol=2e-5)
    if options.labels.kind == "joint":
        assert expected.labels is not None
        assert np.count_nonzero(np.abs(expected.labels - start["labels"]) > 1e-4) > moved // 3
        np.testing.assert_allclose(found.labels, expected.labels, atol=2e-5)
    # Later the cost of trees that were learned from may make up for their margin to the point.
    compared = 1 if options.learning.cost_augmented else options.learning.epochs
    assert wrong[:compared] == expected.wrong[:compared]
    assert wrong[0] > 0
