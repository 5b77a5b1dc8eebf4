"""Learning on from a kept model: the same scores before the first step, with more values."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gpuparse.config import RunConfig, WordVectorsConfig
from gpuparse.config.schema import PruningConfig
from gpuparse.data.conll import treebank_from_bytes
from gpuparse.data.treebank import Treebank
from gpuparse.errors import ConfigError, ModelError
from gpuparse.features.templates import TemplateSet, load_templates, parse_set
from gpuparse.learning.start import (
    FILE,
    Start,
    read_learned,
    rounded_of,
    sizes_of,
    sum_of_learned,
    write_learned,
)
from gpuparse.learning.trainer import Trainer
from gpuparse.parser import Parser
from gpuparse.scorers.linear.weights import Weights
from gpuparse.scorers.vectors.scorer import vectors_of
from tests.parsers import parser_with
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
    "graphs": (DENSE, load_templates("graph-labels"), {"decoder": "multi_parent"}),
    "graphs, heads alone": (
        DENSE, None, {"decoder": "multi_parent", "labels_kind": "none"},
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


def trainer_of(case: str, treebank: Treebank, start: Start | None = None, **more) -> Trainer:
    templates, labels, change = CASES[case]
    if case.startswith("graphs"):
        treebank = with_graphs(treebank)
    return Trainer(treebank, templates, labels, config_of(**change | more), start=start)


def learned(trainer: Trainer) -> Trainer:
    for _ in trainer.learn():
        pass
    return trainer


def with_graphs(treebank: Treebank) -> Treebank:
    """The treebank with the heads in DEPS."""
    lines = [line.split(b"\t") for line in treebank.data.tobytes().splitlines()]
    for line in lines:
        if len(line) == 10:
            line[8] = line[6] + b":" + line[7]
    return treebank_from_bytes(b"".join(b"\t".join(line) + b"\n" for line in lines), "graphs")


def start_of(trainer: Trainer, bits: int = 16) -> Start:
    """What is kept of a trainer that has learned all."""
    return Start(trainer.model(bits, trainer.config.recorded().to_yaml()), trainer.learned())


def kept(case: str, bits: int = 16) -> Start:
    return start_of(learned(trainer_of(case, TRAIN)), bits)


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
    kept_start = kept(case, bits)
    start, same = kept_start.parser, trainer_of(case, SAME, kept_start).model(bits)
    assert same.linear.vocabularies.values == start.linear.vocabularies.values
    for name in ("arcs", "label_weights"):
        one, other = getattr(start.linear, name), getattr(same.linear, name)
        assert one is other is None or np.array_equal(one.array, other.array)
    assert np.allclose(same.linear.points, start.linear.points)
    grown = trainer_of(case, other_words(), kept_start).model(bits)
    for field, values in start.linear.vocabularies.values.items():
        found = grown.linear.vocabularies.values[field]
        assert found[: len(values)] == values
    assert sum(map(len, grown.linear.vocabularies.values.values())) > 20 + sum(
        map(len, start.linear.vocabularies.values.values())
    )
    if start.labels:
        assert grown.labels == [*start.labels, "new", "other"]
    for treebank in (TRAIN, SAME):
        if vectors_of(start.scorers):  # rounded anew, by the ranges of the sentences at hand
            again = trainer_of(case, TRAIN, kept_start).model(bits)
            assert differences(start, again, treebank) == 0
            assert differences(start, same, treebank) <= 0.04 * treebank.n_words
        else:
            assert differences(start, same, treebank) == 0
            assert differences(start, grown, treebank) == 0


def random_start(case: str) -> Start:
    """A model whose weights are all drawn by chance."""
    start, draw = kept(case), np.random.default_rng(5)
    arrays = {
        name: draw.normal(0, 0.5, array.shape).astype(np.float32)
        for name, array in start.arrays.items()
    }
    if "arcs.labels" in arrays:
        arrays["arcs.labels"][:, len(start.parser.labels) :] = 0  # what makes up a line
    return start._replace(arrays=arrays)


@pytest.mark.parametrize("case", ["first order", "heads alone", "second order", "joint", "graphs"])
def test_all_weights_are_carried(case: str) -> None:
    start = random_start(case)
    same, grown = (trainer_of(case, each, start).model(16) for each in (SAME, other_words()))
    assert len(grown.linear.arcs.array) > len(same.linear.arcs.array)  # of more tags
    assert np.count_nonzero(grown.linear.arcs.array) <= np.count_nonzero(same.linear.arcs.array)
    assert differences(same, grown, TRAIN) == 0
    assert differences(same, start.parser, TRAIN) > 0


@pytest.mark.parametrize("case", ["vectors", "vectors and templates"])
def test_word_vectors_are_carried(case: str) -> None:
    """All numbers, those of words between and of labels included; new rows are zero."""
    start = random_start(case)
    same, grown = (trainer_of(case, each, start) for each in (TRAIN, other_words()))
    same_start = {name: a for name, a in same.stage("vectors").state().items() if "weights" in name}
    assert np.array_equal(same_start["table_weights"], start.arrays["vectors.table_0"])
    assert np.array_equal(same_start["dense_weights"], start.arrays["vectors.dense_0"])
    table = grown.stage("vectors").state()["table_weights"]
    rows = table[table.any(axis=1)]
    assert len(table) > len(rows) == len(start.arrays["vectors.table_0"])
    assert {row.tobytes() for row in rows} == {r.tobytes() for r in start.arrays["vectors.table_0"]}


@pytest.mark.parametrize("case", CASES)
def test_learning_goes_on_from_there(case: str) -> None:
    start, more = kept(case), other_words(30)
    keys = replace(CASES[case][2].get("keys", KEYS), epochs=30)
    model = learned(trainer_of(case, more, start, keys=keys)).model(16)
    assert (model.parse(more).heads == more.heads).mean() > 0.9
    if model.labels:
        found = model.parse(more).labels
        assert {model.labels[k] for k in found} >= {"new", "other"}
    if "heads alone" not in case:  # a state between two epochs is enough to go on to the same bytes
        first, second = (trainer_of(case, more, start, keys=keys) for _ in range(2))
        state = None
        for event in first.learn():
            if event.epoch_is_over and event.stage != "pruning":
                state = {name: array.copy() for name, array in first.state().items()}
                break
        second.restore(state)
        resumed = learned(second).model(16)
        assert np.array_equal(resumed.linear.arcs.array, model.linear.arcs.array)
        assert np.array_equal(resumed.linear.label_weights.array, model.linear.label_weights.array)
        if vectors_of(model.scorers):
            assert np.array_equal(
                vectors_of(resumed.scorers).table, vectors_of(model.scorers).table
            )


def test_networks_learn_on_from_their_numbers() -> None:
    """Word vectors whose steps are too short for anything stay as they were."""
    start = kept("vectors")
    keys = replace(KEYS, learning_rate=1e-9)
    trainer = learned(trainer_of("vectors", TRAIN, start, keys=keys))
    for name, array in trainer.learned().items():
        assert np.allclose(array, start.arrays[name], atol=1e-6)
    assert differences(start.parser, trainer.model(16), TRAIN) == 0


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
    start = kept("first order")
    with pytest.raises(ConfigError, match=message):
        trainer_of("first order", SAME, start, **change)


def test_other_templates_are_refused() -> None:
    start, (arcs, labels, change) = kept("first order"), CASES["first order"]
    config = config_of(**change)
    for other, of_labels, key in (
        (load_templates("mcdonald-2005"), labels, "features: the set"),
        (replace(arcs, distance=(1, 2)), labels, "features: the set"),
        (replace(arcs, arc=arcs.arc[::-1]), labels, "features: the set"),
        (arcs, load_templates("wide-labels"), "labels.features: the set"),
    ):
        with pytest.raises(ConfigError, match=key):
            Trainer(SAME, other, of_labels, config, start=start)


def test_a_model_without_its_config_is_refused() -> None:
    start = kept("first order")
    with pytest.raises(ConfigError, match=r"config\.yaml"):
        trainer_of(
            "first order", SAME, start._replace(parser=replace(start.parser, config="seed: 1\n"))
        )


@pytest.mark.parametrize("case", ["first order", "joint", "graphs", "vectors and templates"])
def test_what_is_kept_is_read_again(case: str, tmp_path: Path) -> None:
    start = kept(case)
    sizes, rounded = sizes_of(start.parser), rounded_of(start.parser)
    assert {name: array.shape for name, array in start.arrays.items()} == sizes
    assert sum_of_learned(tmp_path) == ""
    with pytest.raises(ConfigError, match=r"learning\.keep_state=true"):
        read_learned(tmp_path, sizes, rounded)
    write_learned(tmp_path, start.arrays, rounded)
    found = read_learned(tmp_path, sizes, rounded)
    assert found.keys() == start.arrays.keys()
    assert all(np.array_equal(found[name], array) for name, array in start.arrays.items())
    for arrays in (
        {**found, next(iter(found)): np.float32([[1.0]])},
        {name: array.astype(np.float64) for name, array in found.items()},
        {name: np.full_like(array, np.nan) for name, array in found.items()},
        dict(list(found.items())[1:]),
        {**found, "more": np.zeros(1, np.float32)},
    ):
        write_learned(tmp_path, arrays, rounded)
        with pytest.raises(ModelError, match=FILE):
            read_learned(tmp_path, sizes, rounded)
    write_learned(tmp_path, found, {**rounded, "arcs": rounded["arcs"] + 1})
    with pytest.raises(ModelError, match="of another model than the one in the folder"):
        read_learned(tmp_path, sizes, rounded)


def test_a_table_of_three_words_becomes_a_hashed_one() -> None:
    templates = parse_set(
        template_set_text(arc=["h.pos m.pos"], sibling=["h.lemma s.pos m.pos direction distance"]),
        "triples",
    )
    config = config_of(decoder="eisner_sibling", labels_kind="none", pos="coarse")
    given = start_of(learned(Trainer(TRAIN, templates, None, config)))
    start = given.parser
    assert not start.linear.plan.siblings.triple["is_hashed"].any()
    more = treebank_of([[row(1, "a", 0, "root", lemma=f"l{k}", cpos="N")] for k in range(9000)])
    grown = Trainer(more, templates, None, config, start=given).model(16)
    assert grown.linear.plan.siblings.triple["is_hashed"].all()
    dense = start.linear.arcs.array[start.linear.features.rows.rows :]
    assert np.count_nonzero(dense) > 50
    assert np.count_nonzero(grown.linear.arcs.array[start.linear.features.rows.rows :]) > 50
    assert differences(start, grown, TRAIN) == 0
    cut = parser_with(start, arcs=Weights(start.linear.arcs.array.copy()))
    cut.linear.arcs.array[start.linear.features.rows.rows :] = 0
    assert differences(start, cut, TRAIN) > 0


def test_values_that_the_table_has_no_room_for_are_refused() -> None:
    """A between family tells apart some 80 values of each of three words, or more of two."""
    few = treebank_of([[row(1, f"f{k}", 0, "root", cpos=f"T{k}")] for k in range(100)])
    more = treebank_of([[row(1, f"f{k}", 0, "root", fpos=f"F{k}")] for k in range(100)])
    templates = parse_set(template_set_text(arc=["h.cpos between.fpos m.cpos"]), "set")
    config = config_of(labels_kind="none", pos="coarse")
    start = start_of(learned(Trainer(few, templates, None, config)))
    with pytest.raises(ConfigError, match="new values of"):
        Trainer(more, templates, None, config, start=start)
