"""Labels that are learned with the trees: one scale with arcs, and one result on every way."""

import random
from pathlib import Path

import numpy as np
import pytest

from gpuparse.inference import with_quantity
from gpuparse.model.folder import load_parser, save_parser
from tests.learning.literal import (
    OPTIONS,
    learned,
    toy_treebank,
    trainer_of,
    with_random_weights,
)
from tests.runs import changed
from tests.samples import (
    Sentence,
    fingerprint,
    projective_heads,
    random_sentences,
    row,
    treebank_of,
)

JOINTLY = changed(OPTIONS, labels_kind="joint")


def separable(seed: int, count: int) -> list[Sentence]:
    """The form names the head, and the label its distance: heads and labels can all be right."""
    draw = random.Random(seed)
    trees = [projective_heads(draw, draw.randint(1, 7)) for _ in range(count)]
    return [
        [row(m, f"w{s}.{m}", h, f"by{abs(h - m)}", cpos="N") for m, h in enumerate(heads, start=1)]
        for s, heads in enumerate(trees)
    ]


@pytest.mark.parametrize("decoder", with_quantity("k_best"))
def test_models_find_what_was_learned_on_every_way(decoder: str, tmp_path: Path) -> None:
    sentences = separable(3, 15)
    options = changed(JOINTLY, decoder=decoder, epochs=25, k=2)
    model = learned(trainer_of(sentences, options)).model(16)
    found = model.parse(treebank_of(sentences))
    assert found.heads.tolist() == [int(w[6]) for s in sentences for w in s]
    assert [model.labels[i] for i in found.labels] == [w[7] for s in sentences for w in s]
    save_parser(model, tmp_path)
    again = load_parser(tmp_path)
    assert fingerprint(again) == fingerprint(model)
    fresh = treebank_of(random_sentences(7, 30, 9) + sentences)
    first = model.parse(fresh)
    for other in (model, again):
        for how in (
            {"engine": "torch"}, {"batch_size": 1}, {"batch_size": 7, "threads": 3},
            {"engine": "torch", "batch_size": 5},
        ):  # fmt: skip
            then = other.parse(fresh, **how)
            assert then.heads.tobytes() == first.heads.tobytes()
            assert then.labels.tobytes() == first.labels.tobytes()


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
    labels = labels[:, : len(model.labels)] * scale
    assert np.abs(model.linear.label_weights.array - labels).max() <= 1
    assert np.abs(model.linear.arcs.array - arcs * scale).max() <= 1
