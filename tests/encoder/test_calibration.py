"""Probabilities of the tags that an encoder fills are fitted to gold tags."""

from dataclasses import replace

import numpy as np
import pytest

from gpuparse.data.columns import UPOS
from gpuparse.data.conll import treebank_from_bytes
from gpuparse.data.tag_columns import read_column
from gpuparse.learning.temperatures import fit_temperatures, with_temperatures_of
from gpuparse.limits import LEAST_PROBABILITY
from gpuparse.model.folder import load_parser
from tests.synthetic import generate

GOLD = treebank_from_bytes(generate(60, 9), "gold")


def with_tag_scale(model, scale: float):
    return replace(model, scorers=(model.scorers[0].with_tag_scale(scale),))


def loss_of(model) -> float:
    """The mean log loss of gold tags that are found; others cannot be seen from outside."""
    [scorer] = model.scorers
    columns, probabilities = scorer.fill(GOLD, "cpu", 1)
    is_right = np.array(columns[UPOS].texts()) == np.array(read_column(GOLD, UPOS).texts())
    return -np.log(probabilities[is_right].clip(LEAST_PROBABILITY)).mean()


@pytest.fixture(scope="module", params=[8, 16])
def model(models, request):
    bits = request.param
    return load_parser(models.model("bert", f"calibrated-{bits}", weights__bits=bits))


@pytest.mark.parametrize("start", [0.05, 1.0, 20.0])
def test_the_scale_has_the_least_loss(model, start):
    fitted, before, after = fit_temperatures(with_tag_scale(model, start), GOLD)
    scale = fitted.scorers[0].tag_scale
    loss = model.scorers[0].tag_losses(GOLD)
    assert before.tags == pytest.approx(loss(start), abs=1e-5)
    assert after.tags == pytest.approx(loss(scale), abs=1e-5)
    assert after.tags <= before.tags
    if 0.06 < scale < 15:
        assert all(loss(scale) <= loss(scale * factor) + 1e-4 for factor in (0.8, 0.95, 1.05, 1.25))


def test_the_loss_is_that_of_the_probabilities(model):
    """With a great scale all probabilities are 0 or 1, with a small one they are equal."""
    [scorer] = model.scorers
    n_tags = len(scorer.values.texts["upos"])
    assert scorer.tag_losses(GOLD)(1e-6) == pytest.approx(np.log(n_tags), abs=1e-3)
    columns, _ = scorer.fill(GOLD, "cpu", 1)
    wrong = np.mean(np.array(columns[UPOS].texts()) != np.array(read_column(GOLD, UPOS).texts()))
    assert scorer.tag_losses(GOLD)(1e6) == pytest.approx(
        -np.log(LEAST_PROBABILITY) * wrong, abs=0.02
    )


def test_tags_stay_and_probabilities_change(model):
    columns, probabilities = model.scorers[0].fill(GOLD, "cpu", 1)
    other, smaller = (
        with_tag_scale(model, model.scorers[0].tag_scale / 3).scorers[0].fill(GOLD, "cpu", 1)
    )
    assert columns[UPOS].texts() == other[UPOS].texts()
    assert (smaller < probabilities).all()
    assert loss_of(model) < loss_of(with_tag_scale(model, 0.01))


def test_a_model_gets_the_temperature_of_another_one(model):
    raw, fitted, own = (with_tag_scale(model, scale) for scale in (2.0, 3.0, 5.0))
    found = with_temperatures_of(own, raw, fitted)
    assert found.scorers[0].tag_scale == pytest.approx(7.5)


def test_runs_calibrate_tags(models):
    folder = models.model("bert", "calibrated-8", weights__bits=8)
    assert load_parser(folder).scorers[0].tag_scale != 1.0
