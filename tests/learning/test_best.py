"""`Stage.scored`: a model has the weights of the epoch with the best score."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import pytest

from gpuparse.errors import ModelError
from gpuparse.features.templates import parse_set
from gpuparse.learning.trainer import STAGES, Trainer
from gpuparse.model.parser import Parser
from gpuparse.scorers.vectors.scorer import vectors_of
from tests.runs import run_config
from tests.samples import fingerprint, random_sentences, template_set_text, treebank_of

TREEBANK = treebank_of(random_sentences(5, 40, 9, projective=True))
ARCS = ["h.pos m.pos direction", "h.form m.form", "h.pos m.pos h+1.pos m-1.pos"]
VECTORS = """
word_vectors:
  hidden: 4
  arc: 4
  label: 4
  distance: [1, 2]
  templates: [w.form, w.pos]
"""
SETS = {
    "arcs": parse_set(template_set_text(arc=ARCS), "arcs"),
    "both": parse_set(template_set_text(arc=ARCS) + VECTORS, "both"),
}
LABELS = parse_set(template_set_text(label=["h.pos m.pos", "m.form"]), "labels")
EPOCHS = {"vectors": 3, "arcs": 4, "labels": 3}
# The score of each epoch; the best one is in the middle, first, last, or the first of equal ones.
SCORES = {
    "middle": {"vectors": [1, 3, 2, 1, 3, 2], "arcs": [1, 4, 2, 3], "labels": [1, 3, 2]},
    "first": {"vectors": [9, 1, 2, 9, 1, 2], "arcs": [9, 1, 2, 3], "labels": [9, 1, 2]},
    "last": {"vectors": [1, 2, 3, 1, 2, 3], "arcs": [1, 2, 3, 4], "labels": [1, 2, 3]},
    "equal": {"vectors": [1, 2, 2, 1, 2, 2], "arcs": [1, 2, 2, 2], "labels": [2, 2, 2]},
}


def trainer_of(templates: str, kind: str = "second-stage") -> Trainer:
    config = run_config(
        decoder="eisner", epochs=EPOCHS["arcs"], label_epochs=EPOCHS["labels"], map_rows=1 << 12,
        label_rows=1 << 10, labels_kind=kind,
    )  # fmt: skip
    vectors = replace(config.word_vectors, epochs=EPOCHS["vectors"], networks=2)
    labels = {"none": None, "joint": LABELS, "second-stage": LABELS}[kind]
    return Trainer(TREEBANK, SETS[templates], labels, replace(config, word_vectors=vectors))


def scored(trainer: Trainer, scores: dict[str, list[float]]) -> Iterable[Parser]:
    """Learn with the score of each epoch; yields the models after the epochs, before they count."""
    for event in trainer.learn():
        if event.epoch_is_over:
            yield trainer.model(16)
            trainer.stage(event.stage).scored(scores[event.stage][event.epoch - 1])


@pytest.mark.parametrize("which", list(SCORES))
@pytest.mark.parametrize("kind", ["none", "second-stage", "joint"])
def test_the_model_is_that_of_the_best_epoch(which: str, kind: str) -> None:
    trainer = trainer_of("arcs", kind)
    models = list(scored(trainer, SCORES[which]))
    best = int(np.argmax(SCORES[which]["arcs"]))
    final = trainer.model(16)
    assert trainer.stage("arcs").best.epoch == best + 1
    if kind != "second-stage":
        assert fingerprint(final) == fingerprint(models[best])
    else:  # the labels are learned after all epochs of arcs
        of_labels = models[EPOCHS["arcs"] :][int(np.argmax(SCORES[which]["labels"]))]
        assert fingerprint(final) == fingerprint(of_labels)
        assert np.array_equal(scaled(final), scaled(models[best]))


def scaled(model: Parser) -> np.ndarray:
    """Weights of arcs up to rounding: the unit of whole numbers depends on those of labels."""
    return np.round(model.linear.arcs.array / np.abs(model.linear.arcs.array).max(), 3)


@pytest.mark.parametrize("which", list(SCORES))
def test_each_network_of_word_vectors_has_its_best_epoch(which: str) -> None:
    trainer, n = trainer_of("both"), EPOCHS["vectors"]
    best = int(np.argmax(SCORES[which]["vectors"][:n]))
    models = list(scored(trainer, SCORES[which]))
    after_one = vectors_of(models[best].scorers)
    alone = trainer_of("both")
    for event in alone.learn():
        if event.epoch_is_over:
            alone.stage(event.stage).scored(SCORES[which][event.stage][event.epoch - 1])
            if event.epoch == n:
                break
    assert np.array_equal(vectors_of(alone.model(16).scorers).table, after_one.table)
    assert np.array_equal(
        vectors_of(trainer.model(16).scorers).table, vectors_of(models[n + best].scorers).table
    )
    assert trainer.stage("vectors").best.epoch == n + best + 1


@pytest.mark.parametrize("templates", list(SETS))
def test_a_stop_after_any_epoch_changes_no_bit(templates: str) -> None:
    whole = trainer_of(templates)
    n_epochs = len(list(scored(whole, SCORES["middle"])))
    for stop in range(1, n_epochs):
        second = trainer_of(templates)
        second.restore(state_after(templates, stop))
        assert len(list(scored(second, SCORES["middle"]))) == n_epochs - stop
        assert fingerprint(second.model(16)) == fingerprint(whole.model(16)), stop


def state_after(templates: str, epochs: int) -> dict[str, np.ndarray]:
    """The state of a trainer after some epochs, each scored."""
    trainer = trainer_of(templates)
    for event in trainer.learn():
        if event.epoch_is_over:
            trainer.stage(event.stage).scored(SCORES["middle"][event.stage][event.epoch - 1])
            epochs -= 1
            if not epochs:
                break
    return {name: array.copy() for name, array in trainer.state().items()}


def test_damaged_best_epochs_are_refused() -> None:
    state = state_after("arcs", 2)
    for stage in STAGES:
        for facts in ([1.0, 9.0], [1.0, 0.0], [1.0, 1.5], [np.nan, 1.0], [1.0]):
            with pytest.raises(ModelError):
                trainer_of("arcs").restore(state | {f"{stage.name}.best": np.array(facts)})
    with pytest.raises(ModelError, match=r"arcs\.best_0"):
        trainer_of("arcs").restore({k: v for k, v in state.items() if k != "arcs.best_0"})
