"""Keys that do not go together are refused, each with what to do."""

import pytest

from gpuparse.errors import ConfigError
from gpuparse.learning.config_checks import check_learning
from gpuparse.learning.trainer import Trainer
from tests.learning.literal import JOINT, OPTIONS, SECOND_ORDER, toy_treebank
from tests.runs import changed
from tests.samples import treebank_of

WRONG = [
    ({"rule": "perceptron", "k": 2}, "learning.rule perceptron: learning.k is 2.*one tree only"),
    ({"rule": "mira-factored", "k": 2}, "mira-factored: learning.k is 2"),
    ({"rule": "conditional", "k": 5, "max_step": 1.0}, "conditional: learning.k is 5"),
    ({"k": 2, "decoder": "hill_climb"}, "decoder hill_climb finds one tree only: choose.*eisner"),
    ({"k": 2, "decoder": "multi_parent"}, "decoder multi_parent finds one tree only"),
    ({"rule": "conditional"}, "conditional: learning.max_step must be given"),
    ({"labels_kind": "joint", "decoder": "multi_parent"}, "decoder multi_parent.*second-stage"),
    ({"rule": "mira-factored", "decoder": "eisner_sibling"}, "of the first order.*choose eisner"),
    ({"rule": "conditional", "max_step": 1.0, "decoder": "hill_climb"}, "of the first order"),
    ({"rule": "mira-factored", "labels_kind": "joint"}, "does not learn labels.kind joint"),
    ({"rule": "mira-factored", "batch_size": 2}, "learning.batch_size must be 1"),
    ({"rule": "conditional", "max_step": 1.0, "batch_size": 2}, "learning.batch_size must be 1"),
    ({"rule": "mira-factored", "cost_augmented": True}, "learning.cost_augmented must be false"),
]  # fmt: skip
RIGHT = [
    {},
    {"rule": "mira", "k": 20, "decoder": "eisner_sibling", "labels_kind": "joint", "batch_size": 8},
    {"rule": "mira", "k": 2, "decoder": "chu_liu_edmonds"},
    {"rule": "conditional", "max_step": 0.1, "cost_augmented": True},
    {"rule": "mira-factored", "decoder": "chu_liu_edmonds"},
    {"rule": "perceptron", "decoder": "multi_parent", "cost_augmented": True},
    {"decoder": "hill_climb", "labels_kind": "joint"},
]


@pytest.mark.parametrize(("change", "message"), WRONG)
def test_what_does_not_go_together_is_refused(change: dict, message: str) -> None:
    options = changed(OPTIONS, **change)
    with pytest.raises(ConfigError, match=message):
        check_learning(options)
    sentences = toy_treebank("eisner", 1, [3])
    with pytest.raises(ConfigError, match=message):
        Trainer(treebank_of(sentences), SECOND_ORDER, JOINT, options)


@pytest.mark.parametrize("change", RIGHT)
def test_what_goes_together_is_not(change: dict) -> None:
    check_learning(changed(OPTIONS, **change))
