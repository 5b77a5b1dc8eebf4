"""Keys, treebanks and templates that do not fit are refused before any work, with what to do."""

import random

import pytest

from gpuparse.errors import ConfigError, DataError, GpuparseError
from gpuparse.features.templates import TemplateSet, load_templates, parse_set
from gpuparse.inference.decoders import DECODERS
from gpuparse.learning.config_checks import check_learning
from gpuparse.learning.trainer import Trainer
from gpuparse.limits import MAX_TAG
from tests.graphs_by_place import acyclic_graph, with_deps
from tests.learning import test_guides as guided
from tests.learning.literal import (
    ARC,
    FIRST_ORDER,
    JOINT,
    OPTIONS,
    SECOND_ORDER,
    toy_treebank,
    trainer_of,
)
from tests.runs import changed
from tests.samples import Sentence, random_sentences, row, template_set_text, treebank_of

HIGHER_ORDER = [name for name, decoder in DECODERS.items() if decoder.is_higher_order]
CONDITIONAL = {"rule": "conditional", "max_step": 1.0}
KEYS = [
    ({"rule": "perceptron", "k": 2}, "learning.rule perceptron: learning.k is 2.*one tree only"),
    ({"rule": "mira-factored", "k": 2}, "mira-factored: learning.k is 2"),
    (CONDITIONAL | {"k": 5}, "conditional: learning.k is 5"),
    ({"k": 2, "decoder": "hill_climb"}, "decoder hill_climb finds one tree only: choose.*eisner"),
    ({"k": 2, "decoder": "multi_parent"}, "decoder multi_parent finds one tree only"),
    ({"rule": "conditional"}, "conditional: learning.max_step must be given"),
    ({"labels_kind": "joint", "decoder": "multi_parent"}, "decoder multi_parent.*second-stage"),
    ({"rule": "mira-factored", "decoder": "eisner_sibling"}, "of the first order.*choose eisner"),
    (CONDITIONAL | {"decoder": "hill_climb"}, "of the first order"),
    ({"rule": "mira-factored", "labels_kind": "joint"}, "does not learn labels.kind joint"),
    ({"rule": "mira-factored", "batch_size": 2}, "learning.batch_size must be 1"),
    (CONDITIONAL | {"batch_size": 2}, "learning.batch_size must be 1"),
    ({"rule": "mira-factored", "cost_augmented": True}, "learning.cost_augmented must be false"),
    *(({"engine": "torch", **change}, f"{message}.*learning.engine=native") for change, message in [
        ({"rule": "mira-factored"}, "choose one of perceptron, mira, or"),
        (CONDITIONAL, "learning.rule conditional"),
        ({"decoder": "hill_climb"}, "choose one of eisner, chu_liu_edmonds, eisner_sibling, or"),
        ({"decoder": "multi_parent"}, "decoder multi_parent"),
        ({"labels_kind": "joint"}, "labels.kind joint"),
    ]),
    *(({"decoder": decoder, **change}, message) for decoder in HIGHER_ORDER for change, message in [
        ({"k": 2}, "finds one tree only"),
        ({"engine": "torch"}, "only native code learns with"),
        ({"rule": "mira-factored"}, "is of the first order"),
        (CONDITIONAL, "is of the first order"),
    ]),
]  # fmt: skip
TOGETHER = [
    {},
    {"rule": "mira", "k": 20, "decoder": "eisner_sibling", "labels_kind": "joint", "batch_size": 8},
    {"rule": "mira", "k": 2, "decoder": "chu_liu_edmonds"},
    {"rule": "conditional", "max_step": 0.1, "cost_augmented": True},
    {"rule": "mira-factored", "decoder": "chu_liu_edmonds"},
    {"rule": "perceptron", "decoder": "multi_parent", "cost_augmented": True},
    {"decoder": "hill_climb", "labels_kind": "joint"},
    *({"engine": "torch", "decoder": each} for each in ("eisner", "eisner_sibling")),
    *({"decoder": decoder, "batch_size": 8} for decoder in HIGHER_ORDER),
]


@pytest.mark.parametrize(("change", "message"), KEYS, ids=str)
def test_keys_that_do_not_go_together_are_refused(change: dict, message: str) -> None:
    options = changed(OPTIONS, **change)
    with pytest.raises(ConfigError, match=message):
        check_learning(options)
    with pytest.raises(ConfigError, match=message):
        Trainer(treebank_of(toy_treebank("eisner", 1, [3])), SECOND_ORDER, JOINT, options)


@pytest.mark.parametrize("change", TOGETHER, ids=str)
def test_what_goes_together_is_not(change: dict) -> None:
    check_learning(changed(OPTIONS, **change))


def words(*heads: int | str, label: str = "dep") -> list[Sentence]:
    return [[row(m, "a", head, label, cpos="N") for m, head in enumerate(heads, start=1)]]


def label_set(*templates: str) -> TemplateSet:
    return parse_set(template_set_text(label=["m.pos", *templates]), "labels")


PLAIN = random_sentences(1, 3, 4)
BARE = parse_set(template_set_text(arc=ARC), "bare")
NO_LABEL = r"sample.conllu: a relation \(DEPREL\) is empty or has NUL"
TOO_LONG = "sample.conllu: .* more than 1,000 characters"
draw = random.Random(1)
GRAPHS = [with_deps(sentence, acyclic_graph(draw, sentence)) for sentence in PLAIN]
# Error; message; sentences; changes of the options; templates and labels; guides.
DATA: list[tuple[type[GpuparseError], str, list[Sentence], dict, dict]] = [
    (DataError, "sample.conllu: no sentences to learn from", [], {}, {}),
    *((DataError, NO_LABEL, words(0, 1, label=label), {}, {"labels": JOINT})
      for label in ("", " ", "a\0b")),
    (DataError, TOO_LONG, words(0, 1, label="x" * (MAX_TAG + 1)), {}, {"labels": JOINT}),
    (DataError, "2 words under the root", words(0, 0), {"single_root": True}, {}),
    (DataError, "the tree has crossing arcs, and decoder eisner", words(3, 4, 0, 3),
     {"unreachable": "error"}, {}),
    (DataError, "no training tree is projective", words(3, 4, "_", 0), {"unreachable": "skip"}, {}),
    (DataError, "sample.conllu: DEPS, column 9, is _ in every word", PLAIN,
     {"decoder": "multi_parent"}, {}),
    (ConfigError, "joint: decoder multi_parent finds graphs", GRAPHS,
     {"decoder": "multi_parent", "labels_kind": "joint"}, {}),
    *((ConfigError, f"no {' or '.join(DECODERS[decoder].needs)} templates, which decoder {decoder}",
       GRAPHS, {"decoder": decoder}, {"templates": templates})
      for decoder in DECODERS if DECODERS[decoder].order > 1 or DECODERS[decoder].is_higher_order
      for templates in (FIRST_ORDER, load_templates("mcdonald-2005"))),
    (ConfigError, "learned without guides, and guides are given", guided.SENTENCES, {},
     {"templates": BARE, "guides": guided.guides_of(guided.SENTENCES)}),
    (ConfigError, "reads guides, and there are none", PLAIN, {}, {"templates": guided.TEMPLATES}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("error", "message", "sentences", "change", "given"), DATA, ids=[each[1][:40] for each in DATA]
)
def test_treebanks_and_templates_that_do_not_fit_are_refused(
    error: type[GpuparseError], message: str, sentences: list[Sentence], change: dict, given: dict
) -> None:
    with pytest.raises(error, match=message):
        trainer_of(sentences, changed(OPTIONS, **change), **given)


def test_the_longest_relation_is_learned() -> None:
    trainer_of(words(0, 1, label="x" * MAX_TAG), labels=JOINT)


@pytest.mark.parametrize("template", ["g.pos m.pos", "l.pos", "p.form h.pos", "m.pos q.pos"])
def test_joint_labels_look_at_the_arc_alone(template: str) -> None:
    options = changed(OPTIONS, labels_kind="joint")
    for labels in (label_set(template), load_templates("labels")):
        with pytest.raises(ConfigError, match=r"kind joint: template '.*' looks at [glopqr], "):
            Trainer(treebank_of(PLAIN), FIRST_ORDER, labels, options)
