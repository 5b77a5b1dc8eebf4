"""Templates learned beside word vectors: what vectors score counts in the margins of a step."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from gpuparse import native
from gpuparse.config.schema import RULES
from gpuparse.data.batch import Batch
from gpuparse.data.vocabulary import Encoder, Vocabularies
from gpuparse.features.plan import Plan, compile_arcs, compile_joint_labels
from gpuparse.features.templates import parse_set
from gpuparse.learning.plain import FUNCTIONS
from gpuparse.scoring.native import make_scorer, make_search, sentences_of
from gpuparse.scoring.vector_scores import vector_arc_scores
from gpuparse.scoring.weights import Weights, hashed_map, joint_labels
from gpuparse.scoring.word_vectors import WordVectors, frozen
from tests.samples import random_sentences, template_set_text, treebank_of
from tests.vectors import random_plan, random_weights

LABELS, ROWS = 3, 4096
SENTENCES = [sentence for seed in range(5) for sentence in random_sentences(seed, 1, 6)]


def sample() -> tuple[Batch, Vocabularies, WordVectors]:
    random = np.random.default_rng(4)
    treebank = treebank_of(SENTENCES)
    vocabularies = Vocabularies.build(treebank, ["form", "pos", "lemma"], 3)
    batch = Encoder(vocabularies).encode(treebank)
    plan = random_plan(random, batch, [0, -1, 2, 0, 1], 30)
    weights = random_weights(random, plan, 16, 12, 9, LABELS)
    vectors = frozen(weights, plan, batch)
    # Scores near those of templates.
    scores = vector_arc_scores(batch, vectors, is_learned=True, backend="torch")
    factor = 1.0 / float(scores[0, :4, 1:4].std())
    return batch, vocabularies, vectors.with_units(factor, factor)


class Task:
    """What is learned from, with weights before anything is learned."""

    def __init__(self, rule: str, k: int, *, with_labels: bool) -> None:
        batch, vocabularies, self.vectors = sample()
        random = np.random.default_rng(9)
        text = template_set_text(
            arc=["h.pos m.pos distance", "m.form h.form"], label=["h.pos m.pos"]
        )
        templates = parse_set(text, "set").expanded(set())
        self.weights = Weights(random.normal(size=(ROWS, 1)).astype(np.float32) / 10)
        plan, features = Plan(compile_arcs(templates, vocabularies)), hashed_map(ROWS, 0)
        joint = None
        if with_labels:
            lines = Weights(random.normal(size=(64, 16)).astype(np.float32) / 10)
            lines.array[:, LABELS:] = 0
            joint = joint_labels(compile_joint_labels(templates, vocabularies), lines, LABELS)
        self.batch, self.joint = batch, joint
        self.scorer = make_scorer(plan, self.weights, features.rows, joint, self.vectors)
        self.search = make_search("eisner", single_root=True)
        self.rule: Any = SimpleNamespace(rule=list(RULES).index(rule), cost=1.0, max_step=np.inf)
        heads, tokens = np.full(batch.values.shape[1], -1, np.int64), batch.values.shape[1]
        labels = heads.copy()
        for b, n in enumerate(batch.lengths.tolist()):
            place = int(batch.starts[b])
            heads[place + 1 : place + 1 + n] = [int(row[6]) for row in SENTENCES[b]]
            labels[place + 1 : place + 1 + n] = random.integers(0, LABELS, n)
        found = np.full((2, k, tokens), -1, np.int64)
        self.trees: Any = SimpleNamespace(
            gold=heads, found=found[0], target=heads, is_partial=False,
            gold_labels=labels if joint else None, found_labels=found[1] if joint else None,
            target_labels=labels if joint else None,
        )  # fmt: skip

    def learn(self, b: int, *, plain: bool = False) -> None:
        """Learn from one sentence."""
        sums = np.zeros(ROWS, np.float32)
        tables = SimpleNamespace(
            weights=self.weights.array.reshape(-1), sums=sums,
            label_weights=self.joint.weights if self.joint else None,
            label_sums=np.zeros_like(self.joint.weights) if self.joint else None,
        )  # fmt: skip
        one = sentences_of(self.batch.select(np.array([b])))
        given = one, self.scorer, self.search, self.rule, self.trees, None, None, tables
        wrong = np.zeros(1)
        call = FUNCTIONS["learn_batch"] if plain else lambda *of: native.call("learn_batch", *of)
        assert call(*given, 0, False, wrong) < 0

    def margin(self, b: int) -> float:
        """What the gold tree scores above the one found, without labels."""
        nodes = self.batch.n_nodes
        arcs = np.zeros((len(self.batch), nodes, nodes), np.float32)
        native.call("score_arcs_batch", sentences_of(self.batch), self.scorer, arcs)
        arcs += vector_arc_scores(self.batch, self.vectors, is_learned=True).numpy()
        words = np.arange(1, int(self.batch.lengths[b]) + 1)
        place = int(self.batch.starts[b]) + words
        gold, found = self.trees.gold[place], self.trees.found[0, place]
        return float((arcs[b, gold, words] - arcs[b, found, words]).sum())


def test_after_a_step_the_gold_tree_scores_its_cost_more() -> None:
    steps = 0
    for b in range(len(SENTENCES)):
        task = Task("mira", 1, with_labels=False)
        task.learn(b)
        place = int(task.batch.starts[b]) + np.arange(1, int(task.batch.lengths[b]) + 1)
        cost = int((task.trees.gold[place] != task.trees.found[0, place]).sum())
        steps += cost > 0
        assert task.margin(b) == pytest.approx(cost, abs=1e-4)
    assert steps > 2


@pytest.mark.parametrize(
    ("rule", "k", "with_labels"),
    [("mira", 1, False), ("mira", 1, True), ("mira", 3, True), ("mira-factored", 1, False)],
)
def test_the_plain_form_learns_the_same(
    rule: str, k: int, with_labels: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = Task(rule, k, with_labels=with_labels)
    before = ours.weights.array.copy()
    for b in range(len(SENTENCES)):
        ours.learn(b)
    monkeypatch.setattr(native, "is_available", lambda: False)
    theirs = Task(rule, k, with_labels=with_labels)
    for b in range(len(SENTENCES)):
        theirs.learn(b, plain=True)
    assert not np.array_equal(ours.weights.array, before)
    np.testing.assert_allclose(ours.weights.array, theirs.weights.array, atol=1e-5)
    if ours.joint and theirs.joint:
        np.testing.assert_allclose(ours.joint.weights, theirs.joint.weights, atol=1e-5)
