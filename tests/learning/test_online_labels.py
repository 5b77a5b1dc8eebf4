"""Learning of labels against the literal algorithm, from trees and from graphs."""

import random
from typing import NamedTuple

import numpy as np
import pytest

from gpuparse import native
from gpuparse.config import RULES
from gpuparse.data.batch import Batch
from gpuparse.data.vocabulary import Encoder, Vocabularies
from gpuparse.features.plan import LabelPlan, compile_labels
from gpuparse.features.templates import parse_set
from gpuparse.learning.mira import UpdateRule
from gpuparse.scorers.native import GraphHeads, sentences_of
from tests.graphs_by_place import Graph, by_place, random_graph, tree_of
from tests.oracles.online_labels import averaged_label_weights
from tests.rows import lines_of_arcs
from tests.samples import random_sentences, template_set_text, treebank_of

TEMPLATES = parse_set(
    template_set_text(
        label=["m.form direction", "h.pos m.pos", "g.pos p.pos", "m.pos o.pos", "m.lemma"]
    ),
    "labels",
)
SENTENCES = random_sentences(61, 30, 7, projective=False)
GRAPHS = [random_graph(random.Random(seed), s) for seed, s in enumerate(SENTENCES)]
TREES = [tree_of(graph) for graph in GRAPHS]
N_LABELS, N_LINES = 5, 50  # few lines, so that features share some
PRIMARY = np.array([True, False, True, True, False])
EVERYTHING = np.ones(N_LABELS, bool)


every_rule = pytest.mark.parametrize(
    ("rule", "cap"), [("perceptron", np.inf), ("mira", np.inf), ("mira", 0.125)]
)


class Learned(NamedTuple):
    weights: np.ndarray  # (lines, labels)
    weighted: np.ndarray
    wrong: int

    def average(self) -> np.ndarray:
        return self.weights - self.weighted / len(SENTENCES)


def rule_of(name: str, cap: float) -> UpdateRule:
    return UpdateRule(list(RULES).index(name), 0.0, cap)


def prepared() -> tuple[Batch, LabelPlan]:
    treebank = treebank_of(SENTENCES)
    vocabularies = Vocabularies.build(treebank, TEMPLATES.fields("label"), 3)
    return Encoder(vocabularies).encode(treebank), compile_labels(TEMPLATES, vocabularies)


def gold_of(graphs: list[Graph], may_be_primary: np.ndarray, seed: int = 1) -> np.ndarray:
    """Random gold labels, permitted on primary arcs, here and there none."""
    rng = np.random.default_rng(seed)
    gold = []
    for graph in graphs:
        for h, m in graph.arcs:
            is_primary = graph.heads[m - 1] == h
            labels = np.flatnonzero(may_be_primary) if is_primary else np.arange(N_LABELS)
            gold.append(-1 if rng.random() < 0.1 else rng.choice(labels))
    return np.array(gold, np.int64)


def learned_from_graphs(
    graphs: list[Graph], gold: np.ndarray, may_be_primary: np.ndarray, rule: str, cap: float,
    runs: int = 1,
) -> Learned:  # fmt: skip
    batch, plan = prepared()
    heads, arc_starts, arc_heads, _ = by_place(batch, graphs)
    weights, weighted = np.zeros((2, N_LINES, N_LABELS), np.float32)
    arcs = GraphHeads(arc_starts, arc_heads, may_be_primary)
    wrong = 0
    for part in np.array_split(np.arange(len(batch)), runs):
        wrong += native.call(
            "learn_labels", sentences_of(batch.select(part)), plan,
            rule_of(rule, cap), heads, arcs, gold, int(part[0]), weights,
            weighted.reshape(-1),
        )  # fmt: skip
    return Learned(weights, weighted, wrong)


def learned_from_trees(graphs: list[Graph], gold: np.ndarray, rule: str, cap: float) -> Learned:
    batch, plan = prepared()
    heads, arc_starts, _, _ = by_place(batch, graphs)
    labels = np.full(len(heads), -1, np.int64)
    labels[np.diff(arc_starts) == 1] = gold
    weights, weighted = np.zeros((2, N_LINES, N_LABELS), np.float32)
    wrong = native.call(
        "learn_labels", sentences_of(batch), plan, rule_of(rule, cap), heads,
        None, labels, 0, weights, weighted.reshape(-1),
    )  # fmt: skip
    return Learned(weights, weighted, wrong)


def literal(
    graphs: list[Graph], gold: np.ndarray, may_be_primary: np.ndarray, rule: str, cap: float
) -> tuple[np.ndarray, int]:
    batch, plan = prepared()
    labels, arcs = iter(gold.tolist()), []
    for b, graph in enumerate(graphs):
        found = lines_of_arcs(batch, b, np.array(graph.heads), graph.arcs, plan, N_LINES)
        arcs.append(
            [
                ([line for line in lines if line >= 0], next(labels), graph.heads[m - 1] == h)
                for (h, m), lines in zip(graph.arcs, found, strict=True)
            ]
        )
    return averaged_label_weights(arcs, (N_LINES, N_LABELS), may_be_primary, rule=rule, cap=cap)


@every_rule
@pytest.mark.parametrize("graphs", [GRAPHS, TREES], ids=["graphs", "trees"])
@pytest.mark.parametrize("may_be_primary", [PRIMARY, EVERYTHING], ids=["some", "all"])
def test_the_average_is_that_of_the_literal_algorithm(
    rule: str, cap: float, graphs: list[Graph], may_be_primary: np.ndarray
) -> None:
    gold = gold_of(graphs, may_be_primary)
    found = learned_from_graphs(graphs, gold, may_be_primary, rule, cap)
    expected, wrong = literal(graphs, gold, may_be_primary, rule, cap)
    np.testing.assert_allclose(found.average(), expected, atol=1e-4)
    assert found.wrong == wrong > 20
    assert np.count_nonzero(expected) > 50


@every_rule
def test_graphs_that_are_trees_teach_what_trees_teach(rule: str, cap: float) -> None:
    gold = gold_of(TREES, EVERYTHING)
    from_graphs = learned_from_graphs(TREES, gold, EVERYTHING, rule, cap)
    from_trees = learned_from_trees(TREES, gold, rule, cap)
    assert from_graphs.weights.tobytes() == from_trees.weights.tobytes()
    assert from_graphs.weighted.tobytes() == from_trees.weighted.tobytes()
    assert from_graphs.wrong == from_trees.wrong > 20


def test_primary_arcs_teach_nothing_of_labels_that_they_cannot_have() -> None:
    gold = gold_of(TREES, PRIMARY)
    found = learned_from_graphs(TREES, gold, PRIMARY, "mira", np.inf)
    assert not found.weights[:, ~PRIMARY].any()
    assert found.weights[:, PRIMARY].any(axis=0).all()
    # Where a primary arc can have one label only, there is nothing to learn at all.
    only = np.arange(N_LABELS) == 2
    nothing = learned_from_graphs(TREES, gold_of(TREES, only), only, "mira", np.inf)
    assert not nothing.weights.any()
    assert nothing.wrong == 0


def test_learning_in_runs_changes_nothing() -> None:
    gold = gold_of(GRAPHS, PRIMARY)
    whole, runs = (
        learned_from_graphs(GRAPHS, gold, PRIMARY, "mira", np.inf, runs) for runs in (1, 4)
    )
    assert whole.weights.tobytes() == runs.weights.tobytes()
    assert whole.weighted.tobytes() == runs.weighted.tobytes()
    assert whole.wrong == runs.wrong
