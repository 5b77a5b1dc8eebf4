"""Learning of labels with the trees against the literal algorithm."""

import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gpuparse.errors import ConfigError
from gpuparse.features.templates import load_templates, parse_set
from gpuparse.learning.trainer import Trainer
from gpuparse.model import Model
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
from tests.samples import (
    Sentence,
    fingerprint,
    projective_heads,
    random_sentences,
    row,
    template_set_text,
    treebank_of,
)

DECODERS = ["eisner", "chu_liu_edmonds", "eisner_sibling", "hill_climb"]
JOINTLY = replace(OPTIONS, joint_labels=True)
LENGTHS = [4, 3, 5, 1, 4, 2, 5, 3]


@pytest.mark.parametrize("decoder", DECODERS)
@pytest.mark.parametrize(
    "change",
    [
        {},
        {"rule": "perceptron"},
        {"k": 3},
        {"cost_augmented": True},
        {"cost_augmented": True, "k": 3, "batch_size": 4},
        {"batch_size": 3, "max_step": 0.02, "single_root": True},
        {"rule": "passive-aggressive", "max_step": 0.5},
    ],
    ids=["1", "perceptron", "3", "cost", "3, cost, batches", "capped, batches", "passive"],
)
@pytest.mark.parametrize("share", [0.0, 0.4], ids=["whole", "partial"])
def test_the_average_is_the_literal_one(decoder: str, change: dict, share: float) -> None:
    """Wrong labels cost as much as wrong heads; of words without a head nothing costs anything."""
    options = replace(JOINTLY, decoder=decoder, **change)
    if options.k > 1 and decoder == "hill_climb":
        pytest.skip("it finds one tree only")
    single_root = bool(options.single_root)
    assert_the_average_is_literal(
        options,
        lambda seed: without_heads(
            toy_treebank(decoder, seed, LENGTHS, single_root=single_root), share, seed
        ),
    )
