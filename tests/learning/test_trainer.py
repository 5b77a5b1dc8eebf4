"""Training against the literal algorithm, and what must not change its result."""

import random
from contextlib import nullcontext

import numpy as np
import pytest

from gpuparse.config import RunConfig
from gpuparse.data.treebank import Treebank
from gpuparse.data.trees import is_projective
from gpuparse.data.vocabulary import Encoder, frequent_pairs
from gpuparse.errors import DataError
from gpuparse.features.templates import MAX_ATTRIBUTE_PAIRS, TemplateSet, parse_set
from gpuparse.learning.gold import without_unreachable
from gpuparse.learning.trainer import Trainer
from gpuparse.limits import MAX_TAG
from gpuparse.model.parser import Parser
from tests.learning import literal
from tests.oracles import brute_force
from tests.rows import rows_of_arcs, silence
from tests.runs import changed, run_config
from tests.samples import (
    Sentence,
    any_heads,
    fingerprint,
    projective_heads,
    random_sentences,
    row,
    template_set_text,
    treebank_of,
)

OPTIONS = run_config(
    decoder="eisner", single_root=False, pos="coarse", map_rows=1 << 18,
    rule="mira", epochs=2, batch_size=1, cost_augmented=False, max_step=None, shuffle=True,
    unreachable="projectivise", seed=1, label_rows=1 << 18, label_epochs=1,
)  # fmt: skip
ARC = [
    "h.form m.form", "h.pos m.pos direction distance", "h.form", "m.form direction", "h.pos m.pos",
    "h-1.pos h.pos m.pos m+1.pos", "h.pos between.pos m.pos", "m.form[-3:] h.pos",
]  # fmt: skip
TEMPLATES = parse_set(template_set_text(arc=ARC), "arcs")
LABELS = parse_set(template_set_text(label=["m.form direction", "h.pos m.pos", "g.pos"]), "labels")
SENTENCES = random_sentences(50, 13, 6)


def trained(
    options: RunConfig, sentences: list[Sentence] = SENTENCES, *, threads: int = 1,
    templates: TemplateSet = TEMPLATES, labels: TemplateSet | None = None,
) -> Trainer:  # fmt: skip
    trainer = Trainer(treebank_of(sentences), templates, labels, options, threads)
    for _ in trainer.learn():
        pass
    return trainer


def gold_heads(sentences: list[Sentence]) -> list[list[int]]:
    return [[int(word[6]) for word in sentence] for sentence in sentences]


@pytest.mark.parametrize("rule", ["perceptron", "mira"])
@pytest.mark.parametrize("batch_size", [1, 4])
@pytest.mark.parametrize(
    "change",
    [
        {},
        {"shuffle": False, "epochs": 1},
        {"cost_augmented": True, "single_root": True},
        {"decoder": "chu_liu_edmonds", "max_step": 0.01},
    ],
    ids=["plain", "in file order", "cost augmented", "capped"],
)
def test_the_average_is_the_literal_one(rule: str, batch_size: int, change: dict) -> None:
    options = changed(literal.OPTIONS, rule=rule, batch_size=batch_size, **change)
    single_root = bool(options.data.single_root)

    def draw(seed: int) -> list[Sentence]:
        return literal.toy_treebank(
            options.decoder, seed, (4, 3, 5, 1, 5, 2, 4), single_root=single_root
        )

    literal.assert_the_average_is_literal(options, draw, moved=30)


@pytest.mark.parametrize("max_step", [None, 1e-3])
@pytest.mark.parametrize("decoder", ["eisner", "chu_liu_edmonds"])
def test_after_a_mira_step_the_margin_is_the_cost(max_step: float | None, decoder: str) -> None:
    """One sentence, one step: gold is above the tree guessed before by as many words as differ."""
    for seed in range(8):
        sentences = random_sentences(60 + seed, 1, 7)
        options = changed(OPTIONS, epochs=1, decoder=decoder, max_step=max_step)
        treebank, gold = treebank_of(sentences), gold_heads(sentences)[0]
        before = Trainer(treebank, TEMPLATES, None, options).model(16).parse(treebank).heads
        trainer = trained(options, sentences)
        model = trainer.model(16)
        batch = Encoder(model.linear.vocabularies).encode(treebank)
        rows = rows_of_arcs(batch, 0, model.linear.plan.arcs, model.linear.features)
        cost = sum(a != b for a, b in zip(before.tolist(), gold, strict=True))
        weights = trainer.state()["arcs.weights"][:, 0].astype(np.float64)
        margin = sum(
            weights[rows[h, m]].sum() * sign
            for heads, sign in ((gold, 1), (before.tolist(), -1))
            for m, h in enumerate(heads, start=1)
        )
        if max_step is None:
            assert margin == pytest.approx(cost, abs=1e-4)
        else:
            steps = np.unique(np.abs(weights[weights != 0]) / max_step)
            assert np.allclose(steps, np.rint(steps), atol=1e-4)
            assert (len(steps) > 0) == (cost > 0)


@pytest.mark.parametrize("batch_size", [1, 64])
@pytest.mark.parametrize("cost_augmented", [False, True])
@pytest.mark.parametrize("decoder", ["eisner", "chu_liu_edmonds"])
def test_learning_looks_at_the_best_tree_of_all(
    decoder: str, cost_augmented: bool, batch_size: int
) -> None:
    """From random weights on: the tree learned from, by enumeration, has the highest score, plus
    its cost where so configured."""
    options = changed(
        OPTIONS, rule="perceptron", epochs=1, map_rows=1 << 12, decoder=decoder,
        cost_augmented=cost_augmented, batch_size=batch_size, unreachable="none",
    )  # fmt: skip
    rng = np.random.default_rng(7)
    different = 0
    for seed in range(12):
        sentences = random_sentences(80 + seed, 1, 5, projective=False)
        trainer = Trainer(treebank_of(sentences), TEMPLATES, None, options)
        model = trainer.model(16)
        batch = Encoder(model.linear.vocabularies).encode(treebank_of(sentences))
        weights = rng.normal(0, 0.3, (trainer.features.n_rows, 1)).astype(np.float32)
        weights = silence(weights[:, 0], model.linear.plan.arcs, model.linear.features)
        weights = weights[:, np.newaxis]
        trainer.stage("arcs").tables["weights"].array[:] = weights
        for _ in trainer.learn():
            pass
        rows, gold = (
            rows_of_arcs(batch, 0, model.linear.plan.arcs, model.linear.features),
            gold_heads(sentences)[0],
        )

        def value(tree: list[int], rows: dict, gold: list[int], weights: np.ndarray) -> float:
            score = sum(
                weights[rows[h, m], 0].astype(float).sum() for m, h in enumerate(tree, start=1)
            )
            return score + cost_augmented * sum(a != b for a, b in zip(tree, gold, strict=True))

        trees = brute_force.all_trees(len(gold), decoder == "eisner", False)[:, 1:].tolist()
        guess = max(trees, key=lambda tree: value(tree, rows, gold, weights))
        expected = np.zeros(len(weights))
        for heads, sign in ((gold, 1), (guess, -1)):
            for m, h in enumerate(heads, start=1):
                np.add.at(expected, rows[h, m], sign)
        np.testing.assert_allclose(
            trainer.state()["arcs.weights"] - weights, expected[:, None], atol=1e-5
        )
        different += bool(expected.any())
    assert different > 6


@pytest.mark.parametrize("batch_size", [3, 64])
def test_threads_change_nothing(batch_size: int) -> None:
    sentences = random_sentences(70, 90, 12, projective=False)
    options = changed(OPTIONS, batch_size=batch_size)
    one = trained(options, sentences, labels=LABELS)
    for threads in (2, 5):
        more = trained(options, sentences, labels=LABELS, threads=threads)
        assert fingerprint(more.model(16)) == fingerprint(one.model(16))


def test_the_order_depends_on_the_seed_and_the_epoch() -> None:
    prints = {
        seed: fingerprint(trained(changed(OPTIONS, seed=seed)).model(16)) for seed in (1, 2, 1)
    }
    assert prints[1] != prints[2]
    assert fingerprint(trained(changed(OPTIONS, seed=1)).model(16)) == prints[1]
    file_order = trained(changed(OPTIONS, shuffle=False, seed=1)).model(16)
    assert fingerprint(file_order) != prints[1]
    assert fingerprint(file_order) == fingerprint(
        trained(changed(OPTIONS, shuffle=False, seed=2)).model(16)
    )


def separable(seed: int, count: int) -> list[Sentence]:
    """Each word's form names its head and its relation, so that a linear model can be perfect."""
    draw, sentences = random.Random(seed), []
    for number in range(count):
        n = draw.randint(1, 8)
        heads = projective_heads(draw, n)
        sentences.append(
            [
                row(m, f"w{number}.{m}", h, f"from{h % 3}", cpos="N")
                for m, h in enumerate(heads, start=1)
            ]
        )
    return sentences


@pytest.mark.parametrize("rule", ["perceptron", "mira"])
@pytest.mark.parametrize("decoder", ["eisner", "chu_liu_edmonds"])
@pytest.mark.parametrize("bits", [8, 16])
def test_a_separable_treebank_is_learned_without_a_mistake(
    rule: str, decoder: str, bits: int
) -> None:
    sentences = separable(0, 25)
    if decoder == "chu_liu_edmonds":
        draw = random.Random(1)
        for sentence in sentences:
            for word, head in zip(sentence, any_heads(draw, len(sentence)), strict=True):
                word[6], word[7] = str(head), f"from{head % 3}"
    options = changed(OPTIONS, rule=rule, decoder=decoder, epochs=120, label_epochs=60)
    model = trained(options, sentences, labels=LABELS).model(bits)
    found = model.parse(treebank_of(sentences))
    assert found.heads.tolist() == [h for heads in gold_heads(sentences) for h in heads]
    assert found.labels is not None
    assert [model.labels[i] for i in found.labels] == [w[7] for s in sentences for w in s]


def resumed(
    options: RunConfig, sentences: list[Sentence], after: int, bits: int,
    templates: TemplateSet = TEMPLATES,
) -> Parser:  # fmt: skip
    """Train in two goes, the second from the state that the first left after some epochs."""
    first = Trainer(treebank_of(sentences), templates, LABELS, options)
    epochs = 0
    for progress in first.learn():
        epochs += progress.epoch_is_over
        if epochs == after:
            break
    state = {name: array.copy() for name, array in first.state().items()}
    second = Trainer(treebank_of(sentences), templates, LABELS, options)
    second.restore(state)
    for _ in second.learn():
        pass
    return second.model(bits)


@pytest.mark.parametrize("after", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("batch_size", [1, 8])
def test_a_resumed_run_ends_with_the_same_model(after: int, batch_size: int) -> None:
    sentences = random_sentences(93, 40, 9, projective=False)
    options = changed(OPTIONS, epochs=3, label_epochs=2, batch_size=batch_size)
    whole = trained(options, sentences, labels=LABELS).model(16)
    assert fingerprint(resumed(options, sentences, after, 16)) == fingerprint(whole)


def test_progress_counts_sentences_words_and_mistakes() -> None:
    sentences = random_sentences(94, 600, 4)
    trainer = Trainer(treebank_of(sentences), TEMPLATES, LABELS, OPTIONS)
    events = list(trainer.learn())
    for stage, epochs in (("arcs", 2), ("labels", 1)):
        for epoch in range(1, epochs + 1):
            of_epoch = [e for e in events if (e.stage, e.epoch) == (stage, epoch)]
            assert [e.done for e in of_epoch] == [256, 512, 600]
            assert {e.total for e in of_epoch} == {600}
            assert [e.epoch_is_over for e in of_epoch] == [False, False, True]
            assert of_epoch[-1].words == sum(map(len, sentences))
            wrong = [e.wrong for e in of_epoch]
            assert wrong == sorted(wrong)
            assert 0 < wrong[-1] <= of_epoch[-1].words
    assert [e.stage for e in events] == ["arcs"] * 6 + ["labels"] * 3
    assert list(trainer.learn()) == []


def test_unreachable_trees_are_counted_and_replaced() -> None:
    draw = random.Random(5)
    sentences = random_sentences(95, 6, 5)
    crossing = [row(m, "a", h, cpos="N") for m, h in enumerate([4, 4, 1, 0], start=1)]
    sentences.insert(draw.randint(0, 6), crossing)
    replaced = [[*word] for word in crossing]
    replaced[2][6] = "4"
    with_replaced = [replaced if s is crossing else s for s in sentences]
    trainer = trained(OPTIONS, sentences)
    assert trainer.n_unreachable == 1
    same = trained(OPTIONS, with_replaced)
    assert same.n_unreachable == 0
    assert fingerprint(trainer.model(16)) == fingerprint(same.model(16))
    kept = trained(changed(OPTIONS, unreachable="none"), sentences)
    assert fingerprint(kept.model(16)) != fingerprint(same.model(16))
    free = trained(changed(OPTIONS, decoder="chu_liu_edmonds"), sentences)
    assert free.n_unreachable == 0


def test_unreachable_trees_are_left_out_with_their_guides() -> None:
    crossing = random_sentences(7, 40, 8, projective=False)
    treebank = treebank_of(crossing)
    kept = np.array([is_projective(sentence.heads) for sentence in treebank])
    assert 0 < kept.sum() < 30
    words = np.repeat(kept, np.diff(treebank.word_starts))
    guides = np.arange(len(words))
    for how in ("skip", "error", "projectivise"):
        config = changed(OPTIONS, unreachable=how)
        if how == "error":
            with pytest.raises(DataError, match="the tree has crossing arcs, and decoder eisner"):
                without_unreachable(treebank, guides, config)
            some = treebank_of([s for s, keep in zip(crossing, kept, strict=True) if keep])
            assert len(without_unreachable(some, None, config)[0]) == kept.sum()
            continue
        left, left_guides = without_unreachable(treebank, guides, config)
        wanted = words if how == "skip" else np.ones(len(words), np.bool_)
        assert np.array_equal(left_guides, guides[wanted])
        assert np.array_equal(left.heads, treebank.heads[wanted])
    of_all_trees = changed(OPTIONS, unreachable="error", decoder="chu_liu_edmonds")
    assert without_unreachable(treebank, guides, of_all_trees)[0] is treebank
    ours = trained(changed(OPTIONS, unreachable="skip"), crossing)
    assert ours.n_unreachable == 40 - kept.sum()
    same = trained(OPTIONS, [s for s, keep in zip(crossing, kept, strict=True) if keep])
    assert fingerprint(ours.model(16)) == fingerprint(same.model(16))


def test_partial_trees_are_left_out_if_their_arcs_cross() -> None:
    trees = [[3, 4, "_", 0], ["_", 3, 0, 3], [2, 0, 2, "_"]]
    treebank = treebank_of([[row(m, "a", h) for m, h in enumerate(t, start=1)] for t in trees])
    left, _ = without_unreachable(treebank, None, changed(OPTIONS, unreachable="skip"))
    assert left.heads.tolist() == [-1, 3, 0, 3, 2, 0, 2, -1]
    crossing = treebank.only(np.array([True, False, False]))
    with pytest.raises(DataError, match="no training tree is projective"):
        without_unreachable(crossing, None, changed(OPTIONS, unreachable="skip"))


def test_pairs_of_attributes_are_those_of_the_treebank() -> None:
    pairs = frequent_pairs(treebank_of(SENTENCES), MAX_ATTRIBUTE_PAIRS)
    assert len(pairs) > 5
    written = ["h.feats.* m.feats.**", *(f"h.feats.{a} m.feats.{b}" for a, b in pairs)]
    short, long = (
        parse_set(template_set_text(arc=[*text, "h.pos"], label=text), "set")
        for text in (written[:1], written[1:])
    )
    models = [trained(OPTIONS, templates=s, labels=s).model(16) for s in (short, long)]
    assert fingerprint(models[0]) == fingerprint(models[1])


def test_labels_are_learned_from_sentences_as_they_are() -> None:
    sentences = random_sentences(8, 40, 8, projective=False)
    models = [
        trained(changed(OPTIONS, unreachable=how), sentences, labels=LABELS).model(16)
        for how in ("none", "projectivise")
    ]
    arcs, labels = (
        [model.linear.arcs for model in models],
        [model.linear.label_weights for model in models],
    )
    assert not np.array_equal(arcs[0].array, arcs[1].array)
    assert labels[0]
    assert labels[1]
    assert np.array_equal(labels[0].array, labels[1].array)


@pytest.mark.parametrize(("heads", "expected"), [([[0, 1], [2, 0]], True), ([[0, 0], [0]], False)])
def test_single_root_is_found_from_the_trees(heads: list[list[int]], expected: bool) -> None:
    sentences = [[row(m, "a", h) for m, h in enumerate(tree, start=1)] for tree in heads]
    trainer = Trainer(treebank_of(sentences), TEMPLATES, None, changed(OPTIONS, single_root="auto"))
    assert trainer.single_root is expected
    assert trainer.model(8).single_root is expected


def test_a_treebank_of_one_label_labels_everything_with_it() -> None:
    sentences = [[row(m, "a", h, "only") for m, h in enumerate([0, 1, 1], start=1)]]
    model = trained(OPTIONS, sentences, labels=LABELS).model(16)
    found = model.parse(treebank_of(random_sentences(1, 3, 4)))
    assert model.labels == ["only"]
    assert found.labels is not None
    assert set(found.labels.tolist()) == {0}


def test_no_sentences_are_refused() -> None:
    with pytest.raises(DataError, match=r"sample.conllu: no sentences to learn from"):
        Trainer(treebank_of([]), TEMPLATES, None, OPTIONS)


@pytest.mark.parametrize("label", ["", " ", "a\0b"])
def test_relations_that_no_model_may_have_are_refused(label: str) -> None:
    sentences = [[row(m, "a", h, label) for m, h in enumerate([0, 1, 1], start=1)]]
    with pytest.raises(
        DataError, match=r"sample.conllu: a relation \(DEPREL\) is empty or has NUL"
    ):
        Trainer(treebank_of(sentences), TEMPLATES, LABELS, OPTIONS)


def test_a_relation_that_is_too_long_is_refused() -> None:
    for length, is_refused in ((MAX_TAG, False), (MAX_TAG + 1, True)):
        sentences = [[row(m, "a", h, "x" * length) for m, h in enumerate([0, 1, 1], start=1)]]
        said = pytest.raises(DataError, match=r"sample.conllu: .* more than 1,000 characters")
        with said if is_refused else nullcontext():
            Trainer(treebank_of(sentences), TEMPLATES, LABELS, OPTIONS)


def test_the_treebank_is_not_written_to() -> None:
    treebank: Treebank = treebank_of(random_sentences(96, 10, 6, projective=False))
    data, heads = treebank.data.copy(), treebank.heads.copy()
    for _ in Trainer(treebank, TEMPLATES, LABELS, OPTIONS).learn():
        pass
    assert np.array_equal(treebank.data, data)
    assert np.array_equal(treebank.heads, heads)


def test_two_words_under_the_root_are_refused_where_one_is_asked_for():
    two_roots = [[row(1, "a", 0, cpos="N"), row(2, "b", 0, cpos="V")]]
    templates = parse_set("arc: [{templates: [h.cpos m.cpos]}]", "text")
    with pytest.raises(DataError, match="2 words under the root"):
        Trainer(treebank_of(two_roots), templates, None, changed(OPTIONS, single_root=True))
