"""Models of higher orders: saved, damaged, parsed with other decoders and lower orders."""

import itertools
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gpuparse.config.schema import PruningConfig
from gpuparse.data.array_file import facts_text
from gpuparse.data.trees import is_projective
from gpuparse.errors import ConfigError, ModelError, ScoreError
from gpuparse.features.templates import TemplateSet
from gpuparse.inference.decoders import DECODERS
from gpuparse.learning.trainer import Trainer
from gpuparse.model.decoder_choice import limit_labels, with_decoder
from gpuparse.model.folder import WEIGHTS, load_parser, save_parser
from gpuparse.model.parser import Parser
from gpuparse.scorers.linear.weights import Weights
from tests.hostile_files import facts_of, pack
from tests.learning.literal import (
    ALL,
    JOINT,
    OPTIONS,
    WITH_CHILDREN,
    Literal,
    learned,
    toy_treebank,
    with_random_weights,
)
from tests.oracles.tree_features import Answer
from tests.parsers import parser_with
from tests.runs import changed
from tests.samples import Sentence, random_sentences, treebank_of
from tests.test_model import assert_saved_whole

PRUNING = PruningConfig(threshold=0.001, max_heads=3)
TRAIN = random_sentences(80, 25, 8, projective=False)
TEST = treebank_of(random_sentences(81, 30, 10))


def trained(decoder: str, *, templates: TemplateSet = ALL, map_rows: int = 1 << 18) -> Parser:
    options = changed(
        OPTIONS, decoder=decoder, map_rows=map_rows, label_rows=1 << 12, pruning=PRUNING
    )
    return learned(Trainer(treebank_of(TRAIN), templates, JOINT, options)).model(16, "seed: 1\n")


@pytest.fixture(scope="module", params=["eisner_grand_sibling", "dual_decomposition"])
def model(request: pytest.FixtureRequest) -> Parser:
    return trained(request.param)


def as_numbers(model: Parser, sentences: list[Sentence], trees: np.ndarray) -> list[float]:
    """The scores of some sentences' heads (W,) under a model, by the text of its templates."""
    literal = Literal(sentences, changed(OPTIONS, decoder="dual_decomposition"), model)
    values, first = [], 0
    for b, words in enumerate(sentences):
        values.append(value_of(literal, b, trees[first : first + len(words)].tolist()))
        first += len(words)
    return values


def value_of(literal: Literal, b: int, heads: list[int]) -> int:
    """The score of a tree without its labels."""
    arcs = frozenset((h, m) for m, h in enumerate(heads, start=1))
    array = literal.model.linear.arcs.array
    features = literal.features_of(b, Answer(arcs))
    return sum(int(array[row, 0]) * times for row, times in features.items())


def test_save_and_load_lose_nothing(model: Parser, tmp_path: Path) -> None:
    again = assert_saved_whole(model, tmp_path)
    assert again.linear.pruner[1:] == model.linear.pruner[1:]
    assert again.linear.pruner.decoder == DECODERS[model.decoder].of_arcs
    found = model.parse(TEST)
    is_dual = model.decoder == "dual_decomposition"
    assert (found.certified is not None) == (found.iterations is not None) == is_dual
    if is_dual:
        assert found.certified.mean() > 0.8
        assert found.iterations.min() >= 1


CHANGED = r"was changed or damaged|arrays are not those"
OTHER = "the pruning parser come from another model"
# What is changed of facts and tensors, without the sums; or of the pruner that is saved.
WRONG_PRUNERS = {
    "no tensor": (lambda facts, tensors: tensors.pop("pruner"), CHANGED),
    "other numbers": (
        lambda facts, tensors: tensors.update(pruner=tensors["pruner"] + np.int16(1)), CHANGED
    ),
    **{
        f"another {name}": (lambda facts, tensors, name=name: facts.update({name: 0.5}), CHANGED)
        for name in ("pruner_threshold", "pruner_heads", "pruner_unit")
    },
    **{
        f"{key}: {value!r}": ({key: value}, "pruner")
        for key, value in (
            ("max_heads", 0), ("max_heads", True), ("max_heads", "3"), ("threshold", 2.0),
            ("threshold", -0.1), ("threshold", 1), ("scale", 0.0), ("scale", float("inf")),
        )
    },
    **{
        f"weights {cut}": (cut, OTHER) for cut in (slice(None, -1), slice(0, 0), slice(16, None))
    },
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG_PRUNERS)
def test_a_pruner_that_no_training_writes_is_refused(
    model: Parser, tmp_path: Path, name: str
) -> None:
    change, said = WRONG_PRUNERS[name]
    pruner = model.linear.pruner
    if isinstance(change, slice):
        change = {"weights": Weights(pruner.weights.array[change])}
    if isinstance(change, dict):
        pruner = pruner._replace(**change)
    save_parser(parser_with(model, pruner=pruner), tmp_path)
    if callable(change):
        facts, (_, tensors) = json.loads(facts_text(tmp_path / WEIGHTS)), facts_of(tmp_path)
        change(facts, tensors)
        (tmp_path / WEIGHTS).write_bytes(pack(facts, tensors, sums=False))
    with pytest.raises(ModelError, match=said):
        load_parser(tmp_path)


def test_known_heads_are_kept_and_the_rest_is_found(model: Parser) -> None:
    gold = TEST.heads
    known = np.where(np.arange(len(gold)) % 3 == 0, gold, -1)
    found = model.parse(TEST, known=known).heads
    assert np.array_equal(found[known >= 0], gold[known >= 0])


def test_another_decoder_of_the_same_parts_is_taken(model: Parser) -> None:
    other = {"eisner_grand_sibling": "dual_decomposition"}.get(
        model.decoder, "eisner_grand_sibling"
    )
    forced = with_decoder(model, other)
    found = forced.parse(TEST)
    assert (found.certified is not None) == (other == "dual_decomposition")
    assert forced.linear.pruner.decoder == DECODERS[other].of_arcs
    assert not np.array_equal(found.heads, model.parse(TEST).heads)
    # Heads that cross can be kept by the one that searches all trees, and by it alone.
    crossing = treebank_of(random_sentences(82, 12, 7, projective=False))
    if other == "dual_decomposition":
        assert np.array_equal(forced.parse(crossing, known=crossing.heads).heads, crossing.heads)
    back = with_decoder(forced, model.decoder)
    assert np.array_equal(back.parse(TEST).heads, model.parse(TEST).heads)
    for name in ("eisner", "eisner_sibling", "hill_climb", "multi_parent", "eisner_grandchild"):
        with pytest.raises(ConfigError, match="no option changes that"):
            with_decoder(model, name)


@pytest.mark.parametrize("how", [{"engine": "torch"}, {"device": "cuda"}, {"engine": "triton"}])
def test_they_parse_in_native_code_alone(model: Parser, how: dict[str, str]) -> None:
    with pytest.raises(ScoreError, match="parses in native code, on the CPU"):
        model.parse(TEST, **how)


def test_a_hill_climbing_model_under_dual_decomposition_finds_no_worse_trees() -> None:
    templates = ALL.only(("sibling", "end"))
    climbing = trained("hill_climb", templates=templates, map_rows=1 << 22)
    exact = with_decoder(climbing, "dual_decomposition")
    sentences = random_sentences(83, 40, 5)
    treebank = treebank_of(sentences)
    found = exact.parse(treebank)
    assert found.certified.mean() > 0.8
    climbed = as_numbers(climbing, sentences, climbing.parse(treebank).heads)
    best = as_numbers(climbing, sentences, found.heads)
    for one, other, certified in zip(climbed, best, found.certified, strict=True):
        assert other >= one or not certified
    assert sum(best) > sum(climbed)
    assert np.array_equal(
        with_decoder(exact, "hill_climb").parse(treebank).heads, climbing.parse(treebank).heads
    )


def test_a_model_of_siblings_alone_can_be_searched_by_the_second_order() -> None:
    templates = ALL.only(("sibling", "end"))
    dual = trained("dual_decomposition", templates=templates)
    projective = with_decoder(dual, "eisner_sibling")
    assert projective.linear.plan.higher is None
    assert len(projective.parse(TEST).heads) == TEST.n_words


@pytest.mark.parametrize("single_root", [False, True])
def test_labels_with_children_are_those_of_the_best_labelled_tree(single_root: bool) -> None:
    """All heads and all labels of up to three words are tried."""
    options = changed(
        OPTIONS, decoder="eisner_grandchild", labels_kind="joint", map_rows=1 << 18,
        label_rows=1 << 18, single_root=single_root,
    )  # fmt: skip
    sentences = toy_treebank("eisner", 6, [3, 2, 3, 1, 3, 3, 2, 3], single_root=single_root)
    trainer = Trainer(treebank_of(sentences), ALL, WITH_CHILDREN, options)
    with_random_weights(trainer, 6)
    model = trainer.model(16)
    assert len(model.labels) == 3
    found = model.parse(treebank_of(sentences))
    literal = Literal(sentences, options, model)
    first = 0
    for b, words in enumerate(sentences):
        best, chosen = -np.inf, None
        for heads, tree in zip(literal.all_heads(b), literal.trees[b], strict=True):
            of_tree = value_of(literal, b, heads)
            for labels in itertools.product(range(3), repeat=len(words)):
                value = of_tree + sum(
                    int(model.linear.label_weights.array[line, label])
                    for label, of_word in zip(labels, tree.lines, strict=True) for line in of_word
                )  # fmt: skip
                if value > best:
                    best, chosen = value, (tuple(heads), labels)
        part = slice(first, first + len(words))
        assert (tuple(found.heads[part]), tuple(found.labels[part])) == chosen
        first += len(words)


def test_trees_under_limits_are_the_best_ones() -> None:
    """All heads and all labels of up to four words are tried; crossing arcs cost min_gain."""
    options = changed(
        OPTIONS, decoder="dual_decomposition", labels_kind="joint", map_rows=1 << 18,
        label_rows=1 << 18,
    )  # fmt: skip
    sentences = toy_treebank("chu_liu_edmonds", 7, [4, 3, 4, 1, 4, 4, 2, 4, 4])
    trainer = Trainer(treebank_of(sentences), ALL, JOINT, options)
    with_random_weights(trainer, 7)
    whole = trainer.model(16)
    model = limit_labels(whole, [["a"], ["b", "c"]])
    limits = [
        {model.labels.index("a")}, {model.labels.index("b"), model.labels.index("c")}
    ]  # fmt: skip

    def keeps_limits(heads, labels) -> bool:
        return all(
            sum(label in limit and head == h for head, label in zip(heads, labels, strict=True)) < 2
            for h in range(len(heads) + 1) for limit in limits
        )  # fmt: skip

    literal = Literal(sentences, options, whole)
    values_of_sentences = []
    for b, words in enumerate(sentences):
        values = {}
        for heads, tree in zip(literal.all_heads(b), literal.trees[b], strict=True):
            of_tree = value_of(literal, b, heads)
            scores = [sum(whole.linear.label_weights.array[line].astype(int) for line in of_word)
                      for of_word in tree.lines]  # fmt: skip
            for labels in itertools.product(range(len(model.labels)), repeat=len(words)):
                if keeps_limits(heads, labels):
                    values[tuple(heads), labels] = of_tree + sum(
                        score[label] for score, label in zip(scores, labels, strict=True)
                    )
        values_of_sentences.append(values)
    for min_gain in (0.0, 20_000.0, 1e9):
        found = replace(model, min_gain=min_gain).parse(treebank_of(sentences))
        first, n_crossing = 0, 0
        for b, values in enumerate(values_of_sentences):
            part = slice(first, first + len(sentences[b]))
            heads, labels = tuple(found.heads[part].tolist()), tuple(found.labels[part].tolist())
            n_crossing += bool(found.certified[b]) and not is_projective(heads)
            assert keeps_limits(heads, labels)
            cost = {tree: 0 if is_projective(tree) else min_gain for tree, _ in values}
            if found.certified[b]:
                best = max(value - cost[tree] for (tree, _), value in values.items())
                assert values[heads, labels] - cost[heads] == best
            first += len(sentences[b])
        assert found.certified.mean() > 0.5
        assert (n_crossing == 0) == (min_gain > 1e6)
        assert min_gain or found.certified.all()
        unlimited = whole.parse(treebank_of(sentences))
        assert not np.array_equal(unlimited.labels, found.labels)
