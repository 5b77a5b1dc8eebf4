"""Pruning: the arcs that are left are those of the definition, in parsing and in learning."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from gpuparse.config.schema import PruningConfig
from gpuparse.data.vocabulary import Encoder, Vocabularies
from gpuparse.errors import ConfigError, ModelError
from gpuparse.features.plan import compile_plan
from gpuparse.inference import chu_liu_edmonds, eisner, eisner_marginals, matrix_tree_marginals
from gpuparse.learning.temperatures import fit_temperatures
from gpuparse.learning.trainer import Trainer
from gpuparse.scorers.linear.pruning import KeptArcs, Pruner, all_cells, prune
from gpuparse.scorers.linear.weights import Weights, hashed_map
from tests.learning.literal import ALL, FIRST_ORDER, OPTIONS, learned, without_heads
from tests.oracles.brute_force import all_trees
from tests.rows import silence
from tests.runs import changed
from tests.samples import Sentence, random_sentences, treebank_of
from tests.scoring.forms import arc_scores

pytestmark = pytest.mark.usefixtures("three_folds")
NOTHING = np.zeros(0, np.int64)
PRUNING = PruningConfig(threshold=0.01, max_heads=2)
HIGHER = changed(
    replace(OPTIONS, pruning=PRUNING), decoder="eisner_grand_sibling", map_rows=1 << 18,
    cost_augmented=True,
)  # fmt: skip


def cells_of(arcs: KeptArcs, start: int, n: int) -> np.ndarray:
    """bool (N, N): the arcs h -> m of the sentence at `start` that are left."""
    first = arcs.firsts[start]
    return arcs.cells[first : first + (n + 1) ** 2].reshape(n + 1, n + 1)


@pytest.mark.parametrize("decoder", ["eisner", "chu_liu_edmonds"])
@pytest.mark.parametrize("single_root", [False, True])
def test_what_is_left_is_what_the_definition_says(decoder: str, single_root: bool) -> None:
    sentences = random_sentences(3, 25, 12)
    treebank = treebank_of(sentences)
    vocabularies = Vocabularies.build(treebank, ["form", "pos"], 3)
    plan, batch = compile_plan(FIRST_ORDER, vocabularies), Encoder(vocabularies).encode(treebank)
    features = hashed_map(1 << 14, plan.dense_lines)
    array = np.random.default_rng(4).integers(-300, 300, features.n_rows).astype(np.int16)
    weights = Weights(silence(array, plan, features)[:, np.newaxis])
    known = np.full(batch.values.shape[1], -1, np.int64)
    for start, n, words in zip(batch.starts, batch.lengths, sentences, strict=True):
        if n > 3:
            known[start + 2] = int(words[1][6])
    scores = arc_scores(batch, plan.arcs, features, weights).double()
    find, sums = (
        (eisner, eisner_marginals) if decoder == "eisner"
        else (chu_liu_edmonds, matrix_tree_marginals)
    )  # fmt: skip
    counts = set()
    for given in (NOTHING, known):
        for threshold, max_heads in ((0.02, 4), (0.0, 3), (0.5, 10), (1e-3, 1)):
            pruner = Pruner(weights, decoder, 0.004, threshold, max_heads)
            arcs = all_cells(batch, np.zeros(batch.values.shape[1], np.int64))
            prune(batch, plan, features.rows, pruner, given, arcs, single_root=single_root)
            for b, (start, n) in enumerate(
                zip(batch.starts.tolist(), batch.lengths.tolist(), strict=True)
            ):
                of_b, lengths = scores[b : b + 1, : n + 1, : n + 1].clone(), torch.tensor([n])
                for m in range(1, n + 1):
                    if len(given) and given[start + m] >= 0:
                        others = [h for h in range(n + 1) if h != given[start + m]]
                        of_b[0, others, m] = -torch.inf
                best = find(of_b, lengths, single_root=single_root)[0][0].tolist()
                marginals = sums(of_b * pruner.scale, lengths, single_root=single_root)[0].numpy()
                left = cells_of(arcs, start, n)
                for m in range(1, n + 1):
                    heads = [h for h in range(n + 1) if h != m and h != best[m]]
                    heads.sort(key=lambda h: -marginals[h, m])
                    likeliest = max(marginals[h, m] for h in range(n + 1) if h != m)
                    kept = {best[m]} | {
                        h for h in heads[: max_heads - 1]
                        if marginals[h, m] >= threshold * likeliest and marginals[h, m] > 0
                    }  # fmt: skip
                    assert set(np.flatnonzero(left[:, m]).tolist()) == kept
                    counts.add(len(kept))
                assert not left[:, 0].any()
    assert {1, 2, 3, 4} <= counts


def trainer_of(sentences: list[Sentence], change: dict | None = None) -> Trainer:
    return Trainer(treebank_of(sentences), ALL, None, changed(HIGHER, **(change or {})))


SENTENCES = random_sentences(71, 17, 7)


@pytest.fixture(scope="module")
def pruned() -> Trainer:
    return learned(trainer_of(SENTENCES))


def test_a_fold_is_pruned_by_what_was_learned_from_the_others(pruned: Trainer) -> None:
    """And gold arcs stay."""
    treebank, vocabularies = treebank_of(SENTENCES), pruned.model(16).linear.vocabularies
    batch = Encoder(vocabularies).encode(treebank)
    arcs = all_cells(batch, np.zeros(batch.values.shape[1], np.int64))
    first = changed(HIGHER, decoder="eisner", epochs=2)
    lost = words = 0
    for low, high in ((0, 5), (5, 11), (11, 17)):
        seen = np.ones(17, bool)
        seen[low:high] = False
        trainer = learned(
            Trainer(treebank.only(seen), ALL.first_order(), None, first, vocabularies=vocabularies)
        )
        model = fit_temperatures(trainer.model(16), treebank.only(~seen))[0]
        pruner = Pruner(
            model.linear.arcs, "eisner", model.scales.arc, PRUNING.threshold, PRUNING.max_heads
        )
        fold = batch.select(np.arange(low, high))
        prune(fold, pruned.plan, pruned.features.rows, pruner, NOTHING, arcs, single_root=False)
    left = int(arcs.cells.sum())
    for b, (start, n) in enumerate(zip(batch.starts.tolist(), batch.lengths.tolist(), strict=True)):
        for m in range(1, n + 1):
            cells, gold = cells_of(arcs, start, n), int(SENTENCES[b][m - 1][6])
            words += 1
            lost += not cells[gold, m]
            cells[gold, m] = True
    assert pruned.pruned is not None
    assert np.array_equal(pruned.pruned.cells, arcs.cells)
    assert (pruned.pruned.lost, pruned.pruned.arcs, pruned.pruned.known) == (lost, left, words)
    assert lost > 0
    # The pruner that is kept has seen all of them.
    whole = Trainer(treebank, ALL.first_order(), None, first, vocabularies=vocabularies)
    kept = pruned.model(16).linear.pruner
    assert kept is not None
    assert np.array_equal(kept.weights.array, learned(whole).model(16).linear.arcs.array)
    assert (kept.decoder, kept.threshold, kept.max_heads) == ("eisner", 0.01, 2)


def test_learning_is_over_the_arcs_left_alone(pruned: Trainer) -> None:
    without = learned(trainer_of(SENTENCES, {"max_heads": None}))
    assert without.pruned is None
    assert without.model(16).linear.pruner is None
    assert not np.array_equal(pruned.state()["arcs.weights"], without.state()["arcs.weights"])


def test_a_state_with_scales_that_cannot_be_is_refused() -> None:
    first = trainer_of(SENTENCES)
    next(event for event in first.learn() if event.epoch_is_over)
    state = first.state()
    for ratios in (np.array([0.0]), np.ones(4), np.array(1.0), np.array([np.nan])):
        with pytest.raises(ModelError):
            trainer_of(SENTENCES).restore(state | {"pruning.ratios": ratios})


def test_events_tell_how_far_every_parser_is() -> None:
    events = [event for event in trainer_of(SENTENCES).learn() if event.stage == "pruning"]
    ends = [event for event in events if event.epoch_is_over]
    assert [event.epoch for event in ends] == [1, 2, 3, 4]  # three folds and all
    assert [event.total for event in ends] == [2 * 12, 2 * 11, 2 * 11, 2 * 17]


def test_threads_and_batches_of_parsing_change_nothing(pruned: Trainer) -> None:
    model, fresh = pruned.model(16), treebank_of(random_sentences(9, 40, 11))
    first = model.parse(fresh).heads
    for how in ({"batch_size": 1}, {"batch_size": 7, "threads": 3}, {"threads": 2}):
        assert np.array_equal(model.parse(fresh, **how).heads, first)


@pytest.mark.parametrize("decoder", ["eisner_grand_sibling", "dual_decomposition"])
def test_trees_known_in_part_can_be_completed(decoder: str) -> None:
    """However few arcs are left, some tree has all heads that are known."""
    projective = decoder != "dual_decomposition"
    sentences = random_sentences(72, 40, 5, projective=projective)
    half = without_heads(sentences, 0.5, 4)
    trainer = learned(trainer_of(half, {"decoder": decoder, "max_heads": 1}))
    arcs, batch = trainer.candidates(), trainer.gold.batch
    assert arcs is not None
    starts, lengths = batch.starts.tolist(), batch.lengths.tolist()
    for start, n, words in zip(starts, lengths, half, strict=True):
        left = cells_of(arcs, start, n)
        gold = [int(word[6]) if word[6] != "_" else -1 for word in words]
        assert any(
            all(left[tree[m], m] and gold[m - 1] in (-1, tree[m]) for m in range(1, n + 1))
            for tree in all_trees(n, projective, False).tolist()
        )


def test_there_is_a_sentence_for_every_fold() -> None:
    with pytest.raises(ConfigError, match="a pruner needs 3 sentences or more, and"):
        trainer_of(SENTENCES[:2])
