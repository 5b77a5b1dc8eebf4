"""Learning with any rule, decoder and options: the average is that of the printed algorithm."""

from collections.abc import Iterator

import numpy as np
import pytest

from gpuparse.features import plan as plan_module
from gpuparse.inference.decoders import DECODERS, with_quantity
from tests.learning.literal import (
    OPTIONS,
    Literal,
    assert_the_average_is_literal,
    learned,
    toy_treebank,
    trainer_of,
    with_graphs,
    without_heads,
)
from tests.runs import changed
from tests.samples import Sentence, random_sentences

FIRST_ORDER = ("eisner", "chu_liu_edmonds")
SECOND_ORDER = tuple(name for name, decoder in DECODERS.items() if decoder.order == 2)
HIGHER_ORDER = tuple(name for name, decoder in DECODERS.items() if decoder.is_higher_order)
READS_CHILDREN = tuple(name for name in HIGHER_ORDER if DECODERS[name].reads_children)
K_BEST = tuple(with_quantity("k_best"))
JOINT = {"labels_kind": "joint"}
HARDER = {"cost_augmented": True}
ONE_ROOT = {"single_root": True}
PERCEPTRON = {"rule": "perceptron"}
# Decoders; what differs from the options; the share of words that have no head.
CASES: list[tuple[tuple[str, ...], dict, float]] = [
    (FIRST_ORDER, {"epochs": 3}, 0.0),
    (FIRST_ORDER, PERCEPTRON, 0.0),
    (FIRST_ORDER, {"batch_size": 4, "shuffle": False}, 0.0),
    (FIRST_ORDER, {"max_step": 0.01, "batch_size": 4}, 0.0),
    (FIRST_ORDER, PERCEPTRON | HARDER | ONE_ROOT | {"batch_size": 4}, 0.0),
    (FIRST_ORDER, HARDER | ONE_ROOT, 0.0),
    (FIRST_ORDER, HARDER | {"unreachable": "none"}, 0.0),
    (FIRST_ORDER, {"batch_size": 3} | HARDER, 0.4),
    (FIRST_ORDER, {}, 0.4),
    (K_BEST, {"k": 2}, 0.0),
    (K_BEST, {"k": 5}, 0.0),
    (K_BEST, {"k": 5, "batch_size": 4} | HARDER, 0.0),
    (K_BEST, {"k": 4, "max_step": 0.02} | ONE_ROOT, 0.0),
    (K_BEST, {"k": 3, "batch_size": 3}, 0.4),
    (SECOND_ORDER, PERCEPTRON, 0.0),
    (SECOND_ORDER, {"batch_size": 4} | HARDER, 0.0),
    (SECOND_ORDER, {"max_step": 0.01} | ONE_ROOT, 0.0),
    (SECOND_ORDER, PERCEPTRON | HARDER | ONE_ROOT | {"batch_size": 4}, 0.0),
    (SECOND_ORDER, {"min_gain": 0.5, "batch_size": 4}, 0.0),
    (SECOND_ORDER, {"min_gain": 3.0} | HARDER, 0.0),
    (("eisner_sibling",), PERCEPTRON | ONE_ROOT, 0.4),
    (HIGHER_ORDER, PERCEPTRON, 0.0),
    (HIGHER_ORDER, {"batch_size": 3, "max_step": 0.02} | ONE_ROOT, 0.0),
    (HIGHER_ORDER, HARDER, 0.4),
    (READS_CHILDREN, JOINT | PERCEPTRON, 0.0),
    (READS_CHILDREN, JOINT | HARDER, 0.5),
    ((*FIRST_ORDER, "hill_climb"), JOINT, 0.0),
    (("eisner",), JOINT | PERCEPTRON, 0.0),
    (("eisner",), JOINT | ONE_ROOT | {"batch_size": 3, "max_step": 0.02}, 0.0),
    (FIRST_ORDER, JOINT | HARDER, 0.0),
    (("eisner_sibling",), JOINT | HARDER | {"batch_size": 3}, 0.0),
    (("hill_climb",), JOINT | HARDER | PERCEPTRON, 0.0),
    (K_BEST, JOINT | {"k": 3}, 0.4),
    (K_BEST, JOINT | HARDER | {"k": 3, "batch_size": 4}, 0.4),
]


def cases() -> Iterator[object]:
    for decoders, change, share in CASES:
        for decoder in decoders:
            names = [f"{key} {value}" for key, value in change.items()]
            of_heads = [f"{share:.0%} without heads"] if share else []
            yield pytest.param(decoder, change, share, id=", ".join([decoder, *names, *of_heads]))


@pytest.mark.parametrize(("decoder", "change", "share"), [*cases()])
def test_the_average_is_the_literal_one(decoder: str, change: dict, share: float) -> None:
    """Learning moves towards the best tree that has all known heads; labels cost as heads do.

    Words without a head cost nothing.
    """
    options = changed(OPTIONS, decoder=decoder, **change)
    is_higher, crosses = DECODERS[decoder].is_higher_order, "unreachable" in change
    if is_higher:
        options = changed(options, map_rows=1 << 20)
    lengths = [4, 3, 1, 4, 2] if is_higher else [4, 3, 5, 1, 4, 2, 5, 3]

    def draw(seed: int) -> list[Sentence]:
        kind = "chu_liu_edmonds" if crosses else decoder
        is_one = bool(options.data.single_root)
        return without_heads(toy_treebank(kind, seed, lengths, single_root=is_one), share, seed)

    assert_the_average_is_literal(options, draw, moved=30 if options.learning.max_step else 60)


@pytest.mark.parametrize("decoder", K_BEST)
def test_where_there_are_fewer_than_k_trees_all_are_learned_from(decoder: str) -> None:
    options = changed(OPTIONS, decoder=decoder, k=20, epochs=1)
    assert_the_average_is_literal(
        options, lambda seed: toy_treebank(decoder, seed, [2, 1, 2, 3, 1, 2]), moved=20
    )


@pytest.mark.parametrize("decoder", SECOND_ORDER)
@pytest.mark.parametrize("cells", [1 << 22, 0], ids=["triples by their values", "hashed triples"])
@pytest.mark.parametrize("cost_augmented", [False, True])
def test_from_nothing_the_average_is_the_literal_one_to_the_tie(
    decoder: str, cells: int, cost_augmented: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The weights of the perceptron are whole numbers: there are many ties."""
    monkeypatch.setattr(plan_module, "MAX_TRIPLE_CELLS", cells)
    options = changed(OPTIONS, decoder=decoder, rule="perceptron", cost_augmented=cost_augmented)
    projective = decoder == "eisner_sibling"
    sentences = with_graphs(random_sentences(50, 10, 5, projective=projective), 3)
    trainer = learned(trainer_of(sentences, options))
    model = trainer.model(16)
    nothing = {"arcs.weights": np.zeros_like(trainer.state()["arcs.weights"])}
    average = Literal(sentences, options, model).average(nothing).arcs
    found = model.linear.arcs.array[:, 0].astype(int)
    expected = average * 32767 / np.abs(average).max()
    assert np.count_nonzero(expected) > 100
    assert np.abs(found - expected).max() <= 1
