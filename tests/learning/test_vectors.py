"""Learning of word vectors: losses and gradients by definition, steps, states, threads."""

from random import Random
from typing import Any

import numpy as np
import pytest
import torch

from gpuparse import native
from gpuparse.config.schema import WordVectorsConfig
from gpuparse.data.batch import Batch, word_places
from gpuparse.data.conll import Treebank
from gpuparse.data.vocabulary import Encoder, Vocabularies, column_ids
from gpuparse.errors import ConfigError, NoTreeError
from gpuparse.features.word_vectors import (
    FURTHER,
    VectorPlan,
    VectorTemplates,
    compile_vectors,
    frequent_values,
    parse_vectors,
)
from gpuparse.learning.stages.vectors import engine as vectors
from gpuparse.learning.stages.vectors.engine import (
    LOSSES,
    VectorGold,
    VectorLearning,
    VectorStep,
    VectorTables,
    VectorTask,
    initial_weights,
)
from gpuparse.learning.stages.vectors.stage import VectorStage
from gpuparse.scorers.native import sentences_of
from gpuparse.scorers.vectors.word_vectors import VectorWeights
from tests.oracles.brute_force import all_trees
from tests.oracles.tree_parts import parts_of
from tests.samples import random_sentence, random_sentences, treebank_of
from tests.vectors import float_pairs, float_scores, row_of

ATOMS = ["w.form", "w.pos", "w-1.pos", "w+2.form", "w.lemma", "w.lower[-2:]", "between.pos"]
DECODERS = ["eisner", "chu_liu_edmonds"]
MOST_GRAND_WORDS = 80  # as in native/learn_vectors.h

STAGE = "gpuparse.learning.stages.vectors.stage"


class Sample:
    """A small treebank with templates of some sizes."""

    def __init__(
        self, *, hidden: int = 20, arc: int = 18, label: int = 7, n_sentences: int = 12,
        longest: int = 9, partial: bool = False, sentences: Any = None, **further: int,
    ) -> None:  # fmt: skip
        sentences = sentences or random_sentences(3, n_sentences, longest)
        self.treebank: Treebank = treebank_of(sentences)
        self.templates: VectorTemplates = parse_vectors(
            {
                "templates": ATOMS,
                "hidden": hidden,
                "arc": arc,
                "label": label,
                **further,
                "distance": [1, 2, 4],
            }
        )
        vocabularies = Vocabularies.build(
            self.treebank, sorted(set(self.templates.reads.values())), 3
        )
        self.batch: Batch = Encoder(vocabularies).encode(self.treebank)
        has_row = frequent_values(self.templates, vocabularies, self.batch, 2)
        self.plan: VectorPlan = compile_vectors(self.templates, vocabularies, has_row)
        ids, self.labels = column_ids(self.treebank, 7)
        heads, labels = self.treebank.heads.astype(np.int64), ids.astype(np.int64)
        if partial:
            lacking = np.random.default_rng(1).random(len(heads))
            heads, labels = np.where(lacking < 0.3, -1, heads), np.where(lacking < 0.4, -1, labels)
        self.gold = VectorGold(self.by_token(heads), self.by_token(labels))

    def by_token(self, by_word: np.ndarray) -> np.ndarray:
        found = np.full(self.batch.values.shape[1], -1, np.int64)
        found[word_places(self.batch)] = by_word
        return found

    def stage(self, **options: Any) -> VectorStage:
        config = WordVectorsConfig(**{"epochs": 2, **options.pop("config", {})})
        batch_size = options.pop("batch_size", 5)
        given = {"decoder": "eisner", "single_root": False, **options}
        made = VectorStage(
            self.templates, self.plan, self.batch, self.gold, config, n_labels=len(self.labels),
            **given,
        )  # fmt: skip
        made._batch_size = batch_size or made._batch_size
        return made

    def task(self, decoder: str, *, single_root: bool = False) -> VectorTask:
        stage = self.stage()
        return VectorTask(
            self.batch, self.plan, stage.sizes, self.gold, decoder, single_root=single_root
        )

    def weights(self) -> VectorTables:
        """Weights of which nothing is small, or 0."""
        table, dense = initial_weights(self.stage().sizes, 5)
        random = np.random.default_rng(7)
        return VectorTables(table * 8, dense + random.normal(0, 0.1, len(dense)).astype(np.float32))


def learned(stage: VectorStage, epochs: int = 2, first: int = 0) -> list[int]:
    """Wrong words of each epoch."""
    n = len(stage._batch)
    orders = [np.random.default_rng(epoch).permutation(n) for epoch in range(first, epochs)]
    return [list(stage.learn(order, (first + e) * n))[-1].wrong for e, order in enumerate(orders)]


def gradients_of(
    sample: Sample, task: VectorTask, weights: VectorTables, learning: VectorLearning
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Native counts, gradients of dense weights and of sums, occurrences of rows."""
    batch = sample.batch
    n_nodes = int((batch.lengths + 1).sum())
    gradients = vectors.VectorGradients(
        np.empty((n_nodes, task.sizes.width), np.float32),
        np.empty(task.sizes.n_dense, np.float32),
        np.empty(n_nodes * len(task.plan.rows), np.int64),
        0,
    )
    counts = np.zeros(3)
    search = vectors.make_search(task.decoder, single_root=task.single_root, min_gain=0.0)
    failed = native.call(
        "find_vector_gradients", sentences_of(batch), task.plan, task.sizes, weights, search,
        learning, task.gold, gradients, counts,
    )  # fmt: skip
    assert failed == -1
    return counts, gradients.dense, gradients.nodes, gradients.occurrences


CASES = [
    (loss, decoder, sizes)
    for loss in LOSSES
    for decoder in DECODERS
    for sizes in ({}, {"hidden": 0}, {"partial": True}, {"hidden": 16, "arc": 32, "label": 16})
] + [
    ("hinge", "eisner", sizes)
    for sizes in (
        {"sibling": 9}, {"sibling": 32, "hidden": 0}, {"sibling": 9, "partial": True},
        {"grandparent": 9}, {"sibling": 5, "grandparent": 9, "partial": True},
    )
]  # fmt: skip


@pytest.mark.parametrize(("loss", "decoder", "options"), CASES)
def test_gradients_are_the_differences_of_the_loss(
    loss: str, decoder: str, options: dict[str, Any]
) -> None:
    """For dense weights, and for rows of the table by the chain of their sums."""
    sample = Sample(**options)
    task, weights = sample.task(decoder, single_root=decoder == "eisner"), sample.weights()
    learning = VectorLearning(LOSSES.index(loss), 0.7, 0.3, 0.4, 11)
    _, dense, sums, occurrences = gradients_of(sample, task, weights, learning)
    of_table = np.zeros(weights.table.shape)
    kept = occurrences[occurrences >= 0]
    np.add.at(of_table, kept >> 32, sums[kept & 0xFFFFFFFF] / (1.0 - 0.4))
    random = np.random.default_rng(3)
    for gradient, which in ((of_table, "table"), (dense.astype(np.float64), "dense")):
        for _ in range(3):
            noise = random.normal(size=gradient.shape)
            direction = gradient / np.linalg.norm(gradient) + noise / np.linalg.norm(noise)
            step = 1e-4
            losses = []
            for sign in (1.0, -1.0):
                moved = getattr(weights, which) + (sign * step * direction).astype(np.float32)
                there = weights._replace(**{which: moved})
                losses.append(gradients_of(sample, task, there, learning)[0][1:].sum())
            expected = (losses[0] - losses[1]) / (2 * step)
            assert float((gradient * direction).sum()) == pytest.approx(expected, rel=0.01)


def tree_value(tree: np.ndarray, arcs: np.ndarray, pairs: dict[str, np.ndarray]) -> float:
    """The score of a tree by its arcs and the further kinds of pairs."""
    total = 0.0
    for h, m, s in parts_of("sibling", tree):
        total += arcs[h, m]
        if "sibling" in pairs and s != h:
            total += pairs["sibling"][s, m]
        if "grandparent" in pairs and h > 0:
            total += pairs["grandparent"][tree[h], m]
    return total


@pytest.mark.parametrize("single_root", [False, True])
@pytest.mark.parametrize(
    ("loss", "decoder", "options"),
    [
        *((loss, decoder, partial) for loss in LOSSES for decoder in DECODERS
          for partial in ({}, {"partial": True})),
        *(("hinge", "eisner", further) for further in (
            {"sibling": 9}, {"grandparent": 9}, {"sibling": 5, "grandparent": 9},
            {"sibling": 5, "grandparent": 9, "partial": True})),
    ],
)  # fmt: skip
def test_the_loss_is_that_of_all_trees(
    loss: str, decoder: str, options: dict[str, Any], single_root: bool
) -> None:
    sample = Sample(longest=5, n_sentences=20, **options)
    task, tables = sample.task(decoder, single_root=single_root), sample.weights()
    learning = VectorLearning(LOSSES.index(loss), 0.7, 0.3, 0.0, 1)
    counts, *_ = gradients_of(sample, task, tables, learning)
    weights = VectorWeights(tables.table, *task.sizes.parts(tables.dense))
    of_trees = of_labels = 0.0
    for b, n in enumerate(sample.batch.lengths.tolist()):
        arcs, labels = float_scores(weights, sample.plan, sample.batch, b)
        kinds = [kind for kind in FURTHER if kind in options]
        pairs = {kind: float_pairs(kind, weights, sample.plan, sample.batch, b) for kind in kinds}
        at = sample.batch.starts[b] + np.arange(n + 1)
        gold, label = sample.gold.heads[at], sample.gold.labels[at]
        harder = arcs + 0.7 * ((gold >= 0) & (np.arange(n + 1)[:, None] != gold))
        trees = list(all_trees(n, projective=decoder == "eisner", single_root=single_root))
        right = [tree for tree in trees if all((gold < 0) | (tree == gold))]
        every, wanted = ([tree_value(t, harder, pairs) for t in each] for each in (trees, right))
        total = max if loss == "hinge" else np.logaddexp.reduce
        of_trees += total(every) - total(wanted)
        for m in np.flatnonzero((gold >= 0) & (label >= 0)):
            of_arc = labels[gold[m], m]
            of_labels += 0.3 * (np.logaddexp.reduce(of_arc) - of_arc[label[m]])
    assert counts[1:] == pytest.approx([of_trees, of_labels], rel=1e-5)
    assert counts[0] > 0


def test_values_are_dropped_by_their_token_and_place() -> None:
    """As native/random.h draws: the same of a sentence in any batch."""
    sample = Sample()
    task, dropout, seed = sample.task("eisner"), 0.3, 11
    learning = VectorLearning(0, 0.7, 0.3, dropout, seed)
    occurrences = gradients_of(sample, task, sample.weights(), learning)[3]
    expected = []
    for start, n in zip(sample.batch.starts.tolist(), sample.batch.lengths.tolist(), strict=True):
        for token in range(start, start + n + 1):
            state = mixed(mixed(seed) + token * GAMMA)
            for k in range(len(sample.plan.rows)):
                drawn = (mixed(state + (k + 1) * GAMMA) >> 11) * 2.0**-53
                row = row_of(sample.plan, sample.batch, token, k)
                expected.append(-1 if drawn < dropout or row < 0 else row)
    rows = np.where(occurrences < 0, -1, occurrences >> 32)
    assert rows.tolist() == expected
    assert 0.2 < np.mean(rows < 0) < 0.8


GAMMA = 0x9E3779B97F4A7C15


def mixed(number: int) -> int:
    z = number % 2**64
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
    return z ^ (z >> 31)


def test_steps_are_those_of_adam() -> None:
    """For dense weights, whose gradients come in groups, and for the rows that occur."""
    random = np.random.default_rng(2)
    dense, table = (random.normal(size=size).astype(np.float32) for size in (30, (5, 8)))
    leaves = [torch.from_numpy(each.copy()).requires_grad_() for each in (dense, table)]
    adam = torch.optim.Adam(leaves, lr=0.02, betas=(0.9, 0.99), eps=1e-8)
    moments = [np.zeros((2, *each.shape), np.float32) for each in (dense, table)]
    rows, nodes = np.array([0, 2, 2, 3, 4, 1]), np.array([0, 1, 2, 1, 0, 2])
    occurrences = np.sort((rows << 32) + nodes)
    for count in range(1, 5):
        groups, of_nodes = (random.normal(size=s).astype(np.float32) for s in ((3, 30), (3, 8)))
        step = VectorStep(0.02, 0.9, 0.99, count)
        native.call("step_vector_weights", step, groups, 0, 30, dense, moments[0])
        native.call("step_vector_rows", step, occurrences, of_nodes, 1.5, table, moments[1])
        of_rows = np.zeros_like(table)
        np.add.at(of_rows, rows, 1.5 * of_nodes[nodes])
        for leaf, gradient in zip(leaves, (groups.sum(0), of_rows), strict=True):
            leaf.grad = torch.from_numpy(gradient)
        adam.step()
    for ours, leaf in zip((dense, table), leaves, strict=True):
        assert ours == pytest.approx(leaf.detach().numpy(), abs=1e-5)


def test_grandparents_of_long_sentences_are_not_learned() -> None:
    """All that is scored of one sentence more than the longest are its arcs."""
    changed = {}
    for n in (MOST_GRAND_WORDS, MOST_GRAND_WORDS + 1):
        sample = Sample(grandparent=6, label=0, sentences=[random_sentence(Random(n), n)])
        stage = sample.stage(config={"epochs": 1})
        *_, before, _, _ = stage.sizes.parts(initial_weights(stage.sizes, 0).dense)
        learned(stage, 1)
        after = stage.result()[1].grandparents
        changed[n] = not np.array_equal(before, after)
    assert changed == {MOST_GRAND_WORDS: True, MOST_GRAND_WORDS + 1: False}


@pytest.mark.parametrize("further", [{}, {"sibling": 9}, {"sibling": 9, "grandparent": 7}])
def test_training_learns_the_treebank(
    further: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"{STAGE}.DROPOUT", 0.0)
    monkeypatch.setattr(f"{STAGE}.RATE", 0.03)
    longer = Sample(**further).stage(config={"epochs": 30})
    first, *_, last = learned(longer, 30)
    assert last < first / 3


def test_threads_change_no_byte() -> None:
    sample = Sample(hidden=0, sibling=5, grandparent=5)
    found = [sample.stage(threads=threads) for threads in (1, 3)]
    for stage in found:
        learned(stage)
    one, other = (stage.state() for stage in found)
    assert one.keys() == other.keys()
    for name in one:
        assert one[name].tobytes() == other[name].tobytes(), name


@pytest.mark.parametrize("done", [2, 3, 4])
def test_a_state_between_two_epochs_goes_on_to_the_same_bytes(done: int) -> None:
    """With two networks of three epochs each."""
    sample = Sample(partial=True)
    config = {"epochs": 3, "loss": "conditional", "networks": 2}
    whole = sample.stage(config=config)
    learned(whole, 6)
    first, second = (sample.stage(config=config) for _ in range(2))
    learned(first, done)
    state = first.state()
    shapes = first.shapes(done, {})
    assert {name: (a.dtype, a.shape) for name, a in state.items()} == {
        name: (np.dtype(shape.dtype), shape.sizes) for name, shape in shapes.items()
    }
    second.restore({name: array.copy() for name, array in state.items()})
    learned(second, 6, first=done)
    for ours, theirs in zip(second.result()[1], whole.result()[1], strict=True):
        assert ours.tobytes() == theirs.tobytes()


def test_the_first_of_two_networks_is_the_one_that_is_learned_alone() -> None:
    sample = Sample()
    alone, both = (sample.stage(config={"networks": networks}) for networks in (1, 2))
    learned(alone)
    learned(both)
    for ours, theirs in zip(alone.result()[1], both.result()[1], strict=True):
        assert ours.tobytes() == theirs.tobytes()
    with pytest.raises(ConfigError, match="networks: 64 of"):
        Sample(hidden=80).stage(config={"networks": 64})


def test_the_result_is_the_mean_of_weights_of_the_second_half() -> None:
    """Four times an epoch: of 2 epochs of 12 sentences after 12, 15, 18, 21 and 24 of them."""
    sample = Sample()
    stage = sample.stage(batch_size=3)
    n = len(sample.batch)
    seen = []
    engine = stage._engine
    step = engine.step

    def counted(*arguments: Any) -> int:
        wrong = step(*arguments)
        seen.append(engine.state()["dense_weights"].copy())
        return wrong

    engine.step = counted  # type: ignore[method-assign]
    learned(stage)
    assert len(seen) == 2 * n // 3
    mean = np.mean(seen[n // 3 - 1 :], axis=0)
    assert engine.state()["dense_mean"] == pytest.approx(mean, abs=1e-6)


def test_scores_that_are_not_finite_are_an_error() -> None:
    sample = Sample()
    stage = sample.stage(config={"epochs": 30})
    state = {name: array.copy() for name, array in stage.state().items()}
    state["dense_weights"][:] = np.nan
    stage.restore(state)
    with pytest.raises(NoTreeError, match="give another seed"):
        learned(stage)


def test_labels_are_left_out_where_there_are_none() -> None:
    for sample in (Sample(label=0), Sample(label=8)):
        sample.labels = []
        stage = sample.stage()
        learned(stage)
        assert stage.result()[1].labels.shape == (0, 1)
        assert stage.result()[1].heads.shape == (20, 18)


@pytest.mark.parametrize("loss", LOSSES[1:])
@pytest.mark.parametrize("kind", FURTHER)
def test_further_pairs_are_learned_by_the_hinge_alone(kind: str, loss: str) -> None:
    with pytest.raises(ConfigError, match=f"{kind}s are learned by hinge"):
        Sample(**{kind: 9}).stage(config={"loss": loss})


def test_batches_in_which_no_value_has_a_row_are_learned_from() -> None:
    sample = Sample()
    nothing = np.full_like(sample.plan.places, -1)
    for plan in (sample.plan, sample.plan._replace(places=nothing)):
        sample.plan = plan
        stage = sample.stage(batch_size=1, threads=2)
        learned(stage)
        assert all(np.isfinite(array).all() for array in stage.result()[1])
        assert stage.result()[1].table.shape == (plan.n_rows, 40)


@pytest.mark.parametrize(("few_words", "same_as"), [(1, 8), (10_000, 2)])
def test_the_batch_size_is_set_by_the_size_of_the_treebank(
    monkeypatch: pytest.MonkeyPatch, few_words: int, same_as: int
):
    monkeypatch.setattr("gpuparse.features.word_vectors.FEW_WORDS", few_words)

    def weights(size: int | None) -> VectorWeights:
        stage = Sample().stage(batch_size=size)
        learned(stage)
        return stage.result()[1]

    table = weights(None).table
    assert np.array_equal(table, weights(same_as).table)
    assert not np.array_equal(table, weights(10 - same_as).table)
