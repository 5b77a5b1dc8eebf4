"""Learning on from a finished model: the same scores before the first step, with more values."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gpuparse.config import RunConfig, WordVectorsConfig
from gpuparse.config.schema import PruningConfig
from gpuparse.data.treebank import Treebank
from gpuparse.errors import ConfigError, ModelError
from gpuparse.features.templates import TemplateSet, load_templates, parse_set
from gpuparse.learning.trainer import Trainer
from gpuparse.parser import Parser
from gpuparse.scoring.weights import Weights
from gpuparse.self_test import with_random_weights
from tests.runs import changed, run_config
from tests.samples import Sentence, random_sentences, row, template_set_text, treebank_of

TRAIN = treebank_of(random_sentences(11, 40, 9, projective=False))
SAME = treebank_of(random_sentences(12, 20, 9, projective=False))
TRIPLES = ["h.form s.form m.form direction distance", "h.pos s.pos m.pos"]
DENSE = parse_set(
    template_set_text(
        arc=["h.form m.form", "h.pos between.pos m.pos direction", "between.form distance"],
        sibling=["s.pos m.pos", *TRIPLES],
        end=["h.pos e.pos"],
    ),
    "dense",
)
SMALL = """
word_vectors:
  hidden: {hidden}
  arc: 5
  sibling: 3
  grandparent: 3
  label: 4
  templates: [w.form, w.pos, w.feats.*, w-1.pos, between.pos]
"""
THIRD = (
    template_set_text(
        arc=["h.form m.form", "h.pos m.pos direction", "h.pos between.pos m.pos"],
        sibling=["s.pos m.pos"],
    )
    + "grandparent:\n  - templates: [g.pos h.pos m.pos]\n"
)
BOTH = parse_set(THIRD + SMALL.format(hidden=8), "both")
ALONE = parse_set(SMALL.format(hidden=0), "alone")
KEYS = WordVectorsConfig(networks=2, epochs=2, batch_size=4, min_count=2, learning_rate=0.02)
# Template sets of trees and labels, and other keys than the usual.
CASES: dict[str, tuple[TemplateSet, TemplateSet | None, dict]] = {
    "first order": (load_templates("extended"), load_templates("labels"), {"pos": "fine"}),
    "non-projective": (
        load_templates("mcdonald-2005"), load_templates("labels"),
        {"decoder": "chu_liu_edmonds", "map_rows": 100_003},
    ),
    "heads alone": (DENSE.only(()), None, {"labels_kind": "none"}),
    "second order": (DENSE, load_templates("wide-labels"), {"decoder": "eisner_sibling"}),
    "joint": (
        DENSE, load_templates("joint-labels"),
        {"decoder": "eisner_sibling", "labels_kind": "joint"},
    ),
    "third order": (
        parse_set(THIRD, "third"), load_templates("joint-labels"),
        {"decoder": "eisner_grand_sibling", "labels_kind": "joint",
         "pruning": PruningConfig(max_heads=4, threshold=0.001, epochs=2, folds=2)},
    ),
    "third order, all heads": (
        parse_set(THIRD, "third"), load_templates("labels"), {"decoder": "dual_decomposition"},
    ),
    "vectors": (ALONE, ALONE, {}),
    "vectors, joint": (ALONE, ALONE, {"labels_kind": "joint", "decoder": "chu_liu_edmonds"}),
    "vectors and templates": (BOTH, load_templates("joint-labels"), {
        "decoder": "eisner_sibling", "labels_kind": "joint",
    }),
    "vectors leave little": (
        BOTH, load_templates("labels"), {"keys": replace(KEYS, margin=1.0, weight=1.5)},
    ),
}  # fmt: skip


def config_of(keys: WordVectorsConfig = KEYS, **change: object) -> RunConfig:
    small = {"map_rows": 1 << 14, "label_rows": 1 << 12, "epochs": 2, "label_epochs": 2}
    options = {key: value for key, value in change.items() if key != "pruning"}
    config = replace(run_config(**small | options), word_vectors=keys)
    return changed(config, pruning=change["pruning"]) if "pruning" in change else config


def trainer_of(case: str, treebank: Treebank, start: Parser | None = None, **more) -> Trainer:
    templates, labels, change = CASES[case]
    return Trainer(treebank, templates, labels, config_of(**change | more), start=start)


def learned(trainer: Trainer) -> Trainer:
    for _ in trainer.learn():
        pass
    return trainer


def model_of(case: str, bits: int = 16) -> Parser:
    config = config_of(**CASES[case][2]).recorded().to_yaml()
    return learned(trainer_of(case, TRAIN)).model(bits, config)


def other_words(count: int = 20) -> Treebank:
    """Sentences that have many new values of all columns, and two new relations."""
    sentences: list[Sentence] = []
    for k in range(count):
        tag, label = f"T{k % 9}", ["new", "other", "subj"][k % 3]
        columns = {"lemma": f"l{k}", "cpos": tag, "fpos": f"F{k % 7}", "feats": f"Case=C{k % 5}"}
        sentences.append(
            [
                row(1, f"w{k}", 2, label, **columns),
                row(2, "Hunde", 0, "root", cpos="N", fpos="NN"),
                row(3, f"w{k % 4}", 2, "obj", **columns),
            ]
        )
    return treebank_of(sentences)


def differences(one: Parser, other: Parser, treebank: Treebank) -> int:
    first, second = one.parse(treebank), other.parse(treebank)
    count = int((first.heads != second.heads).sum())
    if first.labels is not None and second.labels is not None:
        count += int((first.labels != second.labels).sum())
    return count


@pytest.mark.parametrize("bits", [8, 16])
@pytest.mark.parametrize("case", CASES)
def test_nothing_changes_before_the_first_step(case: str, bits: int) -> None:
    start = model_of(case, bits)
    same = trainer_of(case, SAME, start).model(bits)
    assert same.vocabularies.values == start.vocabularies.values
    for name in ("arcs", "label_weights"):
        one, other = getattr(start, name), getattr(same, name)
        assert one is other is None or np.array_equal(one.array, other.array)
    assert np.allclose(same.points, start.points)
    grown = trainer_of(case, other_words(), start).model(bits)
    for field, values in start.vocabularies.values.items():
        found = grown.vocabularies.values[field]
        assert found[: len(values)] == values
    assert sum(map(len, grown.vocabularies.values.values())) > 20 + sum(
        map(len, start.vocabularies.values.values())
    )
    if start.labels:
        assert grown.labels == [*start.labels, "new", "other"]
    for treebank in (TRAIN, SAME):
        assert differences(start, same, treebank) == 0
        assert differences(start, grown, treebank) == 0


@pytest.mark.parametrize("case", ["first order", "heads alone", "second order", "joint"])
def test_all_weights_are_carried(case: str) -> None:
    start = with_random_weights(model_of(case))
    start = replace(start, vectors=None)
    start.arcs.array[0] = 32767  # so that weights are stored with the same scale
    if start.label_weights is not None and not start.labels_with_trees:
        start.label_weights.array[0, 0] = 32767
    start = replace(start, points=(100.0, 100.0))
    grown = trainer_of(case, other_words(), start).model(16)
    assert len(grown.arcs.array) > len(start.arcs.array)  # of more tags
    assert np.count_nonzero(grown.arcs.array) <= np.count_nonzero(start.arcs.array)
    assert differences(start, grown, TRAIN) == 0
    assert differences(start, model_of(case), TRAIN) > 0


@pytest.mark.parametrize("case", CASES)
def test_learning_goes_on_from_there(case: str) -> None:
    start, more = model_of(case), other_words(30)
    keys = replace(CASES[case][2].get("keys", KEYS), epochs=30)
    model = learned(trainer_of(case, more, start, keys=keys)).model(16)
    assert (model.parse(more).heads == more.heads).mean() > 0.9
    if model.labels:
        found = model.parse(more).labels
        assert {model.labels[k] for k in found} >= {"new", "other"}
    if case != "heads alone":  # a state between two epochs is enough to go on to the same bytes
        first, second = (trainer_of(case, more, start, keys=keys) for _ in range(2))
        state = None
        for event in first.learn():
            if event.epoch_is_over and event.stage != "pruning":
                state = {name: array.copy() for name, array in first.state().items()}
                break
        second.restore(state)
        resumed = learned(second).model(16)
        assert np.array_equal(resumed.arcs.array, model.arcs.array)
        assert np.array_equal(resumed.label_weights.array, model.label_weights.array)
        if model.vectors:
            assert np.array_equal(resumed.vectors.table, model.vectors.table)


def test_networks_learn_on_from_their_numbers() -> None:
    """Word vectors whose steps are too short for anything score nearly as they did."""
    for case in ("vectors", "vectors and templates"):
        start = model_of(case)
        keys = replace(KEYS, learning_rate=1e-9)
        model = learned(trainer_of(case, SAME, start, keys=keys, epochs=1)).model(16)
        if case == "vectors":
            assert differences(start, model, TRAIN) <= 0.02 * TRAIN.n_words
        for name in ("arc", "label"):
            units = [getattr(each.vectors, f"{name}_unit") for each in (start, model)]
            assert 0.5 < units[0] / units[1] < 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"map_rows": 1 << 13}, "give feature_map.rows=16384"),
        ({"decoder": "chu_liu_edmonds"}, "give decoder=eisner"),
        ({"labels_kind": "joint"}, "give labels.kind=second-stage"),
        ({"label_rows": 1 << 11}, "give labels.rows=4096"),
        ({"keys": replace(KEYS, networks=3)}, "give word_vectors.networks=2"),
        ({"pos": "coarse"}, "data.pos"),
    ],
)
def test_keys_of_another_model_are_refused(change: dict, message: str) -> None:
    start = model_of("first order")
    with pytest.raises(ConfigError, match=message):
        trainer_of("first order", SAME, start, **change)


def test_other_templates_are_refused() -> None:
    start, (arcs, labels, change) = model_of("first order"), CASES["first order"]
    config = config_of(**change)
    for other, of_labels, key in (
        (load_templates("mcdonald-2005"), labels, "features: the set"),
        (replace(arcs, distance=(1, 2)), labels, "features: the set"),
        (replace(arcs, arc=arcs.arc[::-1]), labels, "features: the set"),
        (arcs, load_templates("wide-labels"), "labels.features: the set"),
    ):
        with pytest.raises(ConfigError, match=key):
            Trainer(SAME, other, of_labels, config, start=start)


def test_models_without_learned_weights_are_refused() -> None:
    start = model_of("first order")
    with pytest.raises(ConfigError, match="a blend"):
        trainer_of("first order", SAME, replace(start, points=None))
    with pytest.raises(ConfigError, match=r"config\.yaml"):
        trainer_of("first order", SAME, replace(start, config="seed: 1\n"))


def test_damaged_numbers_are_refused() -> None:
    start = model_of("vectors and templates")
    assert start.vectors is not None
    for damaged in (
        replace(start, points=(1e-300, 1e-300)),
        replace(start, vectors=start.vectors._replace(arc_unit=1e300)),
    ):
        with pytest.raises(ModelError, match="not finite"):
            trainer_of("vectors and templates", SAME, damaged)


def test_a_table_of_three_words_becomes_a_hashed_one() -> None:
    templates = parse_set(
        template_set_text(arc=["h.pos m.pos"], sibling=["h.lemma s.pos m.pos direction distance"]),
        "triples",
    )
    config = config_of(decoder="eisner_sibling", labels_kind="none", pos="coarse")
    start = learned(Trainer(TRAIN, templates, None, config)).model(16, config.recorded().to_yaml())
    assert not start.plan.siblings.triple["is_hashed"].any()
    more = treebank_of([[row(1, "a", 0, "root", lemma=f"l{k}", cpos="N")] for k in range(9000)])
    grown = Trainer(more, templates, None, config, start=start).model(16)
    assert grown.plan.siblings.triple["is_hashed"].all()
    dense = start.arcs.array[start.features.rows.rows :]
    assert np.count_nonzero(dense) > 50
    assert np.count_nonzero(grown.arcs.array[start.features.rows.rows :]) > 50
    assert differences(start, grown, TRAIN) == 0
    cut = replace(start, arcs=Weights(start.arcs.array.copy()))
    cut.arcs.array[start.features.rows.rows :] = 0
    assert differences(start, cut, TRAIN) > 0


def test_values_that_the_table_has_no_room_for_are_refused() -> None:
    """A between family tells apart some 80 values of each of three words, or more of two."""
    few = treebank_of([[row(1, f"f{k}", 0, "root", cpos=f"T{k}")] for k in range(100)])
    more = treebank_of([[row(1, f"f{k}", 0, "root", fpos=f"F{k}")] for k in range(100)])
    templates = parse_set(template_set_text(arc=["h.cpos between.fpos m.cpos"]), "set")
    config = config_of(labels_kind="none", pos="coarse")
    start = learned(Trainer(few, templates, None, config)).model(16, config.recorded().to_yaml())
    with pytest.raises(ConfigError, match="new values of"):
        Trainer(more, templates, None, config, start=start)


def test_a_lexicon_is_given_again(tmp_path: Path) -> None:
    templates = parse_set(template_set_text(arc=["h.pos m.pos", "h.lexicon.c m.lexicon.c"]), "set")
    first, second = tmp_path / "first.tsv", tmp_path / "second.tsv"
    first.write_text("form\tc\nHunde\tc1\na\tc2\n")
    second.write_text("form\tc\nHunde\tc1\na\tc2\nw1\tc3\n")
    config = replace(config_of(labels_kind="none"), lexicon=str(first))
    start = learned(Trainer(TRAIN, templates, None, config)).model(16, config.recorded().to_yaml())
    more = replace(config, lexicon=str(second))
    grown = Trainer(other_words(), templates, None, more, start=start).model(16)
    assert grown.vocabularies.values["lexicon.c"] == [*start.vocabularies.values["lexicon.c"], "c3"]
    assert differences(start, grown, TRAIN) == 0
    with pytest.raises(ConfigError, match="give lexicon=FILE"):
        Trainer(SAME, templates, None, replace(config, lexicon=None), start=start)
