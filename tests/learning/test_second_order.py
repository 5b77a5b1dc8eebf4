"""Learning of the second order and of graphs, against the literal algorithm over named features."""

import random

import numpy as np
import pytest

from gpuparse import inference
from gpuparse.config import RunConfig
from gpuparse.data.graphs import read_graphs
from gpuparse.data.vocabulary import Encoder
from gpuparse.errors import ConfigError, DataError
from gpuparse.features import plan as plan_module
from gpuparse.features.templates import TemplateSet, load_templates, parse_set
from gpuparse.learning.events import LearningEvent
from gpuparse.learning.textbook import score
from gpuparse.learning.trainer import Trainer
from gpuparse.model.parser import Parser
from tests.graphs_by_place import acyclic_graph, with_deps
from tests.learning.literal import (
    OPTIONS,
    SECOND_ORDER,
    Literal,
    assert_the_average_is_literal,
    toy_treebank,
    with_random_weights,
)
from tests.oracles import brute_force
from tests.rows import rows_of_arcs
from tests.runs import changed
from tests.samples import (
    Sentence,
    fingerprint,
    random_sentences,
    row,
    template_set_text,
    treebank_of,
)

DECODERS = [name for name, decoder in inference.DECODERS.items() if decoder.order == 2]
LABELS = parse_set(
    template_set_text(label=["m.form direction", "h.form m.form", "o.pos"]), "labels"
)


def treebank_for(
    decoder: str, seed: int, count: int, longest: int, *, single_root: bool = False
) -> list[Sentence]:
    """Sentences no two words of which are alike, with the trees or graphs of a decoder.

    So no two trees have the same features, and random weights leave no ties.
    """
    draw = random.Random(seed)
    lengths = [draw.randint(1, longest) for _ in range(count)]
    sentences = toy_treebank(decoder, seed, lengths, single_root=single_root)
    return [with_deps(sentence, acyclic_graph(draw, sentence)) for sentence in sentences]


def trained(
    options: RunConfig, sentences: list[Sentence], *, threads: int = 1,
    templates: TemplateSet = SECOND_ORDER, labels: TemplateSet | None = None,
) -> Trainer:  # fmt: skip
    trainer = Trainer(treebank_of(sentences), templates, labels, options, threads)
    for _ in trainer.learn():
        pass
    return trainer


@pytest.mark.parametrize("decoder", DECODERS)
@pytest.mark.parametrize(
    "change",
    [
        {"rule": "perceptron"},
        {"cost_augmented": True, "batch_size": 4},
        {"single_root": True, "max_step": 0.01},
        {"single_root": True, "cost_augmented": True, "rule": "perceptron", "batch_size": 4},
        {"min_gain": 0.5, "batch_size": 4},
        {"min_gain": 3.0, "cost_augmented": True},
    ],
    ids=[
        "plain",
        "cost augmented",
        "capped, one root",
        "cost augmented, one root",
        "least gain",
        "large least gain, cost augmented",
    ],
)
def test_from_random_weights_the_average_is_the_literal_one(decoder: str, change: dict) -> None:
    options = changed(OPTIONS, decoder=decoder, **change)
    single_root = bool(options.data.single_root)
    assert_the_average_is_literal(
        options, lambda seed: treebank_for(decoder, seed, 9, 6, single_root=single_root)
    )


@pytest.mark.parametrize("decoder", DECODERS)
@pytest.mark.parametrize("cells", [1 << 22, 0], ids=["triples by their values", "hashed triples"])
@pytest.mark.parametrize("cost_augmented", [False, True])
def test_from_nothing_the_average_is_the_literal_one_to_the_tie(
    decoder: str, cells: int, cost_augmented: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the perceptron, whose weights are whole numbers: ties, of which there are many, too."""
    monkeypatch.setattr(plan_module, "MAX_TRIPLE_CELLS", cells)
    options = changed(
        OPTIONS, decoder=decoder, rule="perceptron",
        cost_augmented=cost_augmented,
    )  # fmt: skip
    projective = decoder == "eisner_sibling"
    draw = random.Random(3)
    sentences = [
        with_deps(s, acyclic_graph(draw, s))
        for s in random_sentences(50, 10, 5, projective=projective)
    ]
    trainer = trained(options, sentences)
    model = trainer.model(16)
    nothing = {"arcs.weights": np.zeros_like(trainer.state()["arcs.weights"])}
    average = Literal(sentences, options, model).average(nothing).arcs
    found = model.linear.arcs.array[:, 0].astype(int)
    expected = average * 32767 / np.abs(average).max()
    assert np.count_nonzero(expected) > 100
    assert np.abs(found - expected).max() <= 1


@pytest.mark.parametrize("decoder", DECODERS)
@pytest.mark.parametrize(("max_step", "cost_augmented"), [(None, False), (1e-3, True)])
def test_after_a_mira_step_the_margin_is_at_least_the_cost(
    decoder: str, max_step: float | None, cost_augmented: bool
) -> None:
    different = 0
    for seed in range(5):
        options = changed(
            OPTIONS, decoder=decoder, max_step=max_step, epochs=1, cost_augmented=cost_augmented
        )
        sentences = treebank_for(decoder, 60 + seed, 1, 6)
        trainer = Trainer(treebank_of(sentences), SECOND_ORDER, None, options)
        start = with_random_weights(trainer, seed)
        literal = Literal(sentences, options, trainer.model(16))
        before, gold = literal.named(start), literal.gold[0]
        [guess] = literal.search(before, 0, 1)
        for _ in trainer.learn():
            pass
        state = trainer.state()
        difference = literal.features_of(0, gold)
        difference.subtract(literal.features_of(0, guess))
        cost, margin = literal.cost_of(0, guess), score(before, difference)
        after = literal.named(state)
        if cost == 0 or margin >= cost:
            assert np.array_equal(state["arcs.weights"], start["arcs.weights"])
            continue
        different += 1
        if max_step is None:
            assert score(after, difference) == pytest.approx(cost, abs=1e-4)
        else:
            length = sum(times**2 for times in difference.values())
            step = min(max_step, (cost - margin) / length)
            assert score(after, difference) == pytest.approx(margin + step * length, abs=1e-4)
    assert different > 2


@pytest.mark.parametrize("decoder", DECODERS)
def test_the_least_gain_is_one_of_training_and_is_stored_in_the_models_scale(decoder: str) -> None:
    sentences = treebank_for(decoder, 101, 12, 8)
    models = {
        gain: trained(changed(OPTIONS, decoder=decoder, min_gain=gain), sentences)
        for gain in (0.0, 0.5, 1e6)
    }
    for gain, trainer in models.items():
        state, seen = trainer.state(), OPTIONS.learning.epochs * len(sentences)
        average = state["arcs.weights"][:, 0] - state["arcs.weights_weighted"] / seen
        scale = 32767 / np.abs(average).max()
        assert trainer.model(16).min_gain == pytest.approx(gain * scale, rel=1e-4)
        scale = 127 / np.abs(average).max()
        assert trainer.model(8).min_gain == pytest.approx(gain * scale, rel=1e-4)
    weights = {gain: trainer.state()["arcs.weights"].tobytes() for gain, trainer in models.items()}
    assert len(set(weights.values())) == (1 if decoder == "eisner_sibling" else 3)


@pytest.mark.parametrize("decoder", ["hill_climb", "multi_parent"])
def test_with_a_very_large_least_gain_the_projective_trees_are_found(decoder: str) -> None:
    sentences = treebank_for(decoder, 102, 20, 9)
    options = changed(OPTIONS, decoder=decoder, min_gain=1e12)
    model = trained(options, sentences).model(16)
    for backend in ("cpu", "torch"):
        found = model.parse(treebank_of(sentences), backend=backend)
        if found.graphs is not None:
            assert len(found.graphs.heads) == len(found.heads)
        first = 0
        for sentence in sentences:
            heads = tuple(found.heads[first : first + len(sentence)].tolist())
            assert brute_force.is_projective(heads)
            first += len(sentence)


@pytest.mark.parametrize("decoder", DECODERS)
@pytest.mark.parametrize("batch_size", [3, 64])
def test_threads_change_nothing(decoder: str, batch_size: int) -> None:
    sentences = treebank_for(decoder, 70, 60, 11)
    options = changed(OPTIONS, decoder=decoder, batch_size=batch_size, min_gain=0.5)
    one = trained(options, sentences, labels=LABELS)
    for threads in (2, 5):
        more = trained(options, sentences, labels=LABELS, threads=threads)
        assert fingerprint(more.model(16)) == fingerprint(one.model(16))


@pytest.mark.parametrize("decoder", ["eisner_sibling", "multi_parent"])
def test_a_batch_of_one_sentence_learns_as_one_after_the_other(decoder: str) -> None:
    """The way over a whole batch, with a batch that is a sentence: all is found beforehand."""
    sentences = treebank_for(decoder, 71, 1, 11)
    one, many = (
        trained(changed(OPTIONS, decoder=decoder, batch_size=size, epochs=5), sentences)
        for size in (1, 8)
    )
    assert fingerprint(one.model(16)) == fingerprint(many.model(16))


def resumed(
    options: RunConfig, sentences: list[Sentence], after: int, templates: TemplateSet = SECOND_ORDER
) -> Parser:
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
    return second.model(16)


@pytest.mark.parametrize("decoder", DECODERS)
@pytest.mark.parametrize("after", [1, 2, 3, 4])
def test_a_resumed_run_ends_with_the_same_model(decoder: str, after: int) -> None:
    sentences = treebank_for(decoder, 93, 25, 9)
    options = changed(
        OPTIONS, decoder=decoder, label_epochs=2, batch_size=1 + 3 * (after % 2),
        min_gain=0.5,
    )  # fmt: skip
    whole = trained(options, sentences, labels=LABELS).model(16)
    assert fingerprint(resumed(options, sentences, after)) == fingerprint(whole)


@pytest.mark.parametrize("decoder", DECODERS)
@pytest.mark.parametrize("rule", ["perceptron", "mira"])
def test_a_separable_treebank_is_learned_without_a_mistake(decoder: str, rule: str) -> None:
    """Each form names its heads and their relations.

    A search by single changes may miss even the best graph; of these sentences it misses none.
    """
    sentences = []
    for number, sentence in enumerate(treebank_for(decoder, 6, 20, 8)):
        sentences.append([[w[0], f"{w[1]}.{number}", *w[2:]] for w in sentence])
    options = changed(
        OPTIONS, decoder=decoder, rule=rule, epochs=80, label_epochs=60, map_rows=1 << 22
    )
    treebank = treebank_of(sentences)
    model = trained(options, sentences, labels=LABELS).model(16)
    found = model.parse(treebank)
    if decoder != "multi_parent":
        assert found.graphs is None
        assert found.heads.tolist() == [int(word[6]) for s in sentences for word in s]
        assert [model.labels[i] for i in found.labels] == [w[7] for s in sentences for w in s]
        return
    gold = read_graphs(treebank)
    assert len(gold.heads) > len(found.heads) * 1.1
    assert np.array_equal(found.graphs.starts, gold.starts)
    assert np.array_equal(found.graphs.heads, gold.heads)
    modifiers = gold.modifiers()
    # Others may have no relation of the other kind, or see another primary head of the word.
    alike = found.heads[modifiers] == treebank.heads[modifiers]
    ours, theirs = (
        np.array([g.names[i] for i in g.relations])[alike] for g in (found.graphs, gold)
    )
    assert np.array_equal(ours, theirs)
    assert alike.mean() > 0.5
    assert len(set(theirs)) > 3


def test_progress_of_graphs_counts_wrong_and_missing_arcs() -> None:
    sentences = treebank_for("multi_parent", 94, 300, 4)
    trainer = Trainer(
        treebank_of(sentences), SECOND_ORDER, LABELS, changed(OPTIONS, decoder="multi_parent")
    )
    events: list[LearningEvent] = list(trainer.learn())
    assert [(e.stage, e.epoch, e.done) for e in events] == [
        ("arcs", 1, 256), ("arcs", 1, 300), ("arcs", 2, 256), ("arcs", 2, 300),
        ("labels", 1, 256), ("labels", 1, 300),
    ]  # fmt: skip
    assert {e.words for e in events if e.epoch_is_over} == {sum(map(len, sentences))}
    assert 0 < events[3].wrong < events[1].wrong


@pytest.mark.parametrize(
    ("decoder", "count"), [("eisner_sibling", 1), ("hill_climb", 0), ("multi_parent", 0)]
)
def test_unreachable_trees_are_counted_and_replaced(decoder: str, count: int) -> None:
    crossing = [row(m, "a", h, cpos="N") for m, h in enumerate([4, 4, 1, 0], start=1)]
    replaced = [[*word] for word in crossing]
    replaced[2][6] = "4"
    others = treebank_for("eisner_sibling", 95, 6, 5)
    options = changed(OPTIONS, decoder=decoder)
    trainer = trained(options, [crossing, *others])
    assert trainer.n_unreachable == count
    same = trained(options, [replaced, *others])
    assert same.n_unreachable == 0
    equal = fingerprint(trainer.model(16)) == fingerprint(same.model(16))
    assert equal == (decoder == "eisner_sibling")


def test_arcs_that_close_a_cycle_are_left_out_and_counted() -> None:
    sentences = treebank_for("multi_parent", 96, 6, 5)
    cycle = [row(m, "a", h, cpos="N") for m, h in enumerate([0, 1, 2], start=1)]
    for word, deps in zip(cycle, ["0:r|3:x", "1:a", "2:a|1:b"], strict=True):
        word[8] = deps
    broken = [[*word] for word in cycle]
    broken[0][8] = "0:r"
    options = changed(OPTIONS, decoder="multi_parent")
    trainer, same = trained(options, [cycle, *sentences]), trained(options, [broken, *sentences])
    assert (trainer.n_unreachable, same.n_unreachable) == (1, 0)
    assert fingerprint(trainer.model(16)) == fingerprint(same.model(16))


@pytest.mark.parametrize("decoder", DECODERS)
def test_a_set_without_sibling_templates_is_refused(decoder: str) -> None:
    sentences = treebank_for(decoder, 97, 3, 4)
    for templates in (SECOND_ORDER.first_order(), load_templates("mcdonald-2005")):
        with pytest.raises(ConfigError, match=f"no sibling templates, which decoder {decoder}"):
            Trainer(treebank_of(sentences), templates, None, changed(OPTIONS, decoder=decoder))


@pytest.mark.parametrize("decoder", ["eisner", "chu_liu_edmonds"])
def test_the_first_order_is_learned_as_if_there_were_no_sibling_templates(decoder: str) -> None:
    sentences = random_sentences(98, 15, 8)
    options = changed(OPTIONS, decoder=decoder)
    with_siblings, without = (
        trained(options, sentences, templates=templates).model(16)
        for templates in (SECOND_ORDER, SECOND_ORDER.first_order())
    )
    assert with_siblings.linear.plan.siblings is None
    assert fingerprint(with_siblings) == fingerprint(without)


def test_a_treebank_without_graphs_is_refused() -> None:
    sentences = random_sentences(99, 3, 4)
    with pytest.raises(DataError, match=r"sample.conllu: DEPS, column 9, is _ in every word"):
        Trainer(
            treebank_of(sentences), SECOND_ORDER, None, changed(OPTIONS, decoder="multi_parent")
        )


def test_zero_sibling_weights_give_first_order_trees() -> None:
    """Without a change to the weights of siblings, parsing is that of the first order."""
    sentences = treebank_for("eisner_sibling", 100, 20, 8)
    trees = {}
    for decoder in ("eisner", "eisner_sibling"):
        trainer = Trainer(
            treebank_of(sentences), SECOND_ORDER, None, changed(OPTIONS, decoder=decoder)
        )
        weights = trainer.stage("arcs").tables["weights"].array
        arcs = trained(changed(OPTIONS, decoder="eisner"), sentences)
        model = arcs.model(16)
        batch = Encoder(model.linear.vocabularies).encode(treebank_of(sentences))
        rows = sorted(
            {
                found
                for b in range(len(batch))
                for of_arc in rows_of_arcs(
                    batch, b, model.linear.plan.arcs, model.linear.features
                ).values()
                for found in of_arc
            }
        )
        weights[rows] = arcs.state()["arcs.weights"][rows]
        trees[decoder] = trainer.model(16).parse(treebank_of(sentences)).heads.tolist()
    assert trees["eisner_sibling"] == trees["eisner"]
    assert np.count_nonzero(weights) > 100
