"""Learning of labels with the trees against the literal algorithm."""

import random
from pathlib import Path

import numpy as np
import pytest

from gpuparse.errors import ConfigError
from gpuparse.features.templates import load_templates, parse_set
from gpuparse.inference import with_quantity
from gpuparse.learning.trainer import Trainer
from gpuparse.model.folder import load_parser, save_parser
from tests.graphs_by_place import acyclic_graph, with_deps
from tests.learning.literal import (
    FIRST_ORDER,
    JOINT,
    OPTIONS,
    SECOND_ORDER,
    assert_the_average_is_literal,
    learned,
    toy_treebank,
    trainer_of,
    with_random_weights,
    without_heads,
)
from tests.runs import changed
from tests.samples import (
    Sentence,
    fingerprint,
    projective_heads,
    random_sentences,
    row,
    template_set_text,
    treebank_of,
)

JOINTLY = changed(OPTIONS, labels_kind="joint")
LENGTHS = [4, 3, 5, 1, 4, 2, 5, 3]


CASES = [
    ("eisner", {}, 0.0),
    ("eisner", {"rule": "perceptron"}, 0.0),
    ("eisner", {"cost_augmented": True}, 0.0),
    ("eisner", {"batch_size": 3, "max_step": 0.02, "single_root": True}, 0.0),
    ("eisner", {"k": 3}, 0.4),
    ("eisner", {"k": 3, "cost_augmented": True, "batch_size": 4}, 0.4),
    ("chu_liu_edmonds", {"cost_augmented": True}, 0.0),
    ("chu_liu_edmonds", {"k": 3}, 0.4),
    ("eisner_sibling", {"cost_augmented": True, "batch_size": 3}, 0.0),
    ("eisner_sibling", {"k": 3, "cost_augmented": True}, 0.4),
    ("hill_climb", {}, 0.0),
    ("hill_climb", {"cost_augmented": True, "rule": "perceptron"}, 0.0),
]


@pytest.mark.parametrize(("decoder", "change", "share"), CASES)
def test_the_average_is_the_literal_one(decoder: str, change: dict, share: float) -> None:
    """Wrong labels cost as much as wrong heads; of words without a head nothing costs anything."""
    options = changed(JOINTLY, decoder=decoder, **change)
    single_root = bool(options.data.single_root)
    assert_the_average_is_literal(
        options,
        lambda seed: without_heads(
            toy_treebank(decoder, seed, LENGTHS, single_root=single_root), share, seed
        ),
    )


def separable(seed: int, count: int) -> list[Sentence]:
    """The form names the head, and the label its distance: heads and labels can all be right."""
    draw, sentences = random.Random(seed), []
    for number in range(count):
        heads = projective_heads(draw, draw.randint(1, 7))
        sentences.append(
            [
                row(m, f"w{number}.{m}", h, f"by{abs(h - m)}", cpos="N")
                for m, h in enumerate(heads, start=1)
            ]
        )
    return sentences


@pytest.mark.parametrize("decoder", with_quantity("k_best"))
def test_models_find_what_was_learned_on_every_way(decoder: str, tmp_path: Path) -> None:
    sentences = separable(3, 15)
    options = changed(JOINTLY, decoder=decoder, epochs=25, k=2)
    model = learned(trainer_of(sentences, options)).model(16)
    treebank = treebank_of(sentences)
    found = model.parse(treebank)
    assert found.labels is not None
    assert found.heads.tolist() == [int(w[6]) for s in sentences for w in s]
    assert [model.labels[i] for i in found.labels] == [w[7] for s in sentences for w in s]
    save_parser(model, tmp_path)
    again = load_parser(tmp_path)
    assert fingerprint(again) == fingerprint(model)
    fresh = treebank_of(random_sentences(7, 30, 9) + sentences)
    first = model.parse(fresh)
    for other in (model, again):
        for how in (
            {"backend": "torch"}, {"batch_size": 1}, {"batch_size": 7, "threads": 3},
            {"backend": "torch", "batch_size": 5},
        ):  # fmt: skip
            then = other.parse(fresh, **how)
            assert then.heads.tobytes() == first.heads.tobytes()
            assert then.labels.tobytes() == first.labels.tobytes()


def test_threads_and_resuming_change_nothing() -> None:
    sentences = random_sentences(70, 50, 9)
    options = changed(JOINTLY, k=3, batch_size=16, epochs=3)
    one = learned(trainer_of(sentences, options)).model(16)
    more = learned(trainer_of(sentences, options, threads=4)).model(16)
    assert fingerprint(more) == fingerprint(one)
    first, second = trainer_of(sentences, options), trainer_of(sentences, options)
    for progress in first.learn():
        if progress.epoch_is_over:
            break
    second.restore({name: array.copy() for name, array in first.state().items()})
    assert fingerprint(learned(second).model(16)) == fingerprint(one)


def test_arcs_and_labels_have_one_scale() -> None:
    trainer = trainer_of(toy_treebank("eisner", 1, [4, 5, 3]), changed(JOINTLY, epochs=1))
    with_random_weights(trainer, 1)
    trainer.stage("arcs").tables["labels"].array[:] *= 3
    learned(trainer)
    model, state = trainer.model(16), trainer.state()
    labels = state["arcs.labels"]
    labels = labels - state["arcs.labels_weighted"].reshape(labels.shape) / 3
    arcs = state["arcs.weights"] - state["arcs.weights_weighted"][:, np.newaxis] / 3
    scale = 32767 / max(np.abs(labels).max(), np.abs(arcs).max())
    assert model.linear.label_weights
    assert (
        np.abs(model.linear.label_weights.array - labels[:, : len(model.labels)] * scale).max() <= 1
    )
    assert np.abs(model.linear.arcs.array - arcs * scale).max() <= 1


@pytest.mark.parametrize("template", ["g.pos m.pos", "l.pos", "p.form h.pos", "m.pos q.pos"])
def test_templates_that_look_at_more_of_the_tree_are_refused(template: str) -> None:
    labels = parse_set(template_set_text(label=["m.pos", template]), "labels")
    with pytest.raises(ConfigError, match=r"labels\.kind joint: template '.*' looks at [glpq], "):
        Trainer(treebank_of(random_sentences(1, 3, 4)), FIRST_ORDER, labels, JOINTLY)
    with pytest.raises(ConfigError, match=r"labels\.kind joint"):
        Trainer(
            treebank_of(random_sentences(1, 3, 4)), FIRST_ORDER, load_templates("labels"), JOINTLY
        )


def test_graphs_are_refused() -> None:
    draw = random.Random(1)
    sentences = [with_deps(s, acyclic_graph(draw, s)) for s in random_sentences(2, 3, 4)]
    with pytest.raises(ConfigError, match="joint: decoder multi_parent finds graphs"):
        Trainer(
            treebank_of(sentences), SECOND_ORDER, JOINT, changed(JOINTLY, decoder="multi_parent")
        )
