"""Labels found with the trees: compiled equals torch equals sums over features by name."""

import numpy as np
import pytest
import torch

from gpuparse import native
from gpuparse.data.batch import Batch
from gpuparse.data.vocabulary import Encoder, Vocabularies
from gpuparse.errors import ConfigError
from gpuparse.features.plan import ArcPlan, Plan, check_joint_templates, compile_joint_labels
from gpuparse.features.templates import TemplateSet, load_templates, parse_set
from gpuparse.scorers.linear.labels import all_label_scores
from gpuparse.scorers.linear.weights import Weights, joint_labels, label_map
from gpuparse.scorers.native import make_scorer, sentences_of
from gpuparse.scorers.tensors import first_best
from tests.named_rows import rows_of_names
from tests.oracles.arc_features import arc_features, known_values
from tests.rows import rows_of_arcs, wide_map
from tests.samples import random_sentences, template_set_text, treebank_of
from tests.scoring.forms import as_tensors

LABEL = [
    "m.form", "m.form direction", "h.lemma direction", "h.pos m.pos", "h.pos m.pos direction",
    "h.form m.form direction distance", "m.pos distance", "h.pos direction distance", "distance",
    "m-1.pos m.pos m+1.pos direction", "h+1.pos m.lemma", "m.form[-3:] h.pos direction", "m.pos",
]  # fmt: skip
TEMPLATES = parse_set(template_set_text(label=LABEL), "joint")
FIELDS = ["form", "pos", "lemma", "form[-3:]"]
TRAIN = random_sentences(10, 8, 9)
SENTENCES = random_sentences(11, 9, 10) + random_sentences(12, 2, 1)


def prepared(templates: TemplateSet = TEMPLATES) -> tuple[Batch, ArcPlan]:
    expanded = templates.expanded(set())
    vocabularies = Vocabularies.build(treebank_of(TRAIN), expanded.fields("label"), 3)
    return (
        Encoder(vocabularies).encode(treebank_of(SENTENCES)),
        compile_joint_labels(expanded, vocabularies),
    )


def random_lines(n_lines: int, width: int, dtype: type, seed: int = 1) -> Weights:
    rng = np.random.default_rng(seed)
    if dtype is np.float32:
        return Weights(rng.normal(size=(n_lines, width)).astype(np.float32))
    ends = np.iinfo(dtype)
    return Weights(rng.integers(ends.min, ends.max, (n_lines, width), dtype, endpoint=True))


def by_native(batch: Batch, plan: ArcPlan, weights: Weights) -> list[tuple[np.ndarray, np.ndarray]]:
    """The score of the best label of every arc, and its number, sentence by sentence."""
    width, nodes = weights.array.shape[1], batch.n_nodes
    joint = joint_labels(plan, weights, width)
    dtype = np.float64 if weights.is_integer else np.float32
    lines = Weights(joint.weights.reshape(-1, joint.stride))
    scorer = make_scorer(Plan(plan), lines, joint.rows, joint)
    scores = np.zeros((len(batch), nodes, nodes, width), dtype)
    native.call("score_labels_batch", sentences_of(batch), scorer, scores)
    return [
        (scores[b, : n + 1, : n + 1].max(-1), scores[b, : n + 1, : n + 1].argmax(-1))
        for b, n in enumerate(batch.lengths.tolist())
    ]


def best_of(scores: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The score of each arc's best label, and its number, the first of equals."""
    return scores.max(-1).values, first_best(scores)


def arcs_of(n: int) -> tuple[np.ndarray, np.ndarray]:
    arcs = [(h, m) for h in range(n + 1) for m in range(1, n + 1) if h != m]
    heads, modifiers = np.array(arcs).T
    return heads, modifiers


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.float32])
@pytest.mark.parametrize("width", [1, 3, 50])
def test_both_forms_are_the_sum_over_features_by_name(dtype: type, width: int) -> None:
    batch, plan = prepared()
    weights = random_lines(1 << 16, width, dtype)
    known = known_values(TRAIN, FIELDS, 3)
    named = [
        {
            (h, m): arc_features(LABEL, sentence, h, m, known, 3, TEMPLATES.distance)
            for h, m in zip(*(part.tolist() for part in arcs_of(len(sentence))), strict=True)
        }
        for sentence in SENTENCES
    ]
    maps = wide_map(plan), label_map(1 << 16)
    rows = ([rows_of_arcs(batch, b, plan, each) for b in range(len(batch))] for each in maps)
    lines, wide = rows_of_names(named, *rows), weights.array.astype(np.float64)
    by_torch = best_of(all_label_scores(as_tensors(batch), plan, weights))
    seen: set[int] = set()
    for b, (most, label) in enumerate(by_native(batch, plan, weights)):
        heads, modifiers = arcs_of(len(SENTENCES[b]))
        expected = np.array(
            [
                sum((wide[lines[name]] * k for name, k in named[b][arc].items()), np.zeros(width))
                for arc in zip(heads.tolist(), modifiers.tolist(), strict=True)
            ]
        )
        theirs = [part[b].numpy()[heads, modifiers] for part in by_torch]
        for values, labels in ((most[heads, modifiers], label[heads, modifiers]), theirs):
            tolerance = 1e-4 if dtype is np.float32 else 0
            np.testing.assert_allclose(values, expected.max(axis=1), rtol=0, atol=tolerance)
            assert np.array_equal(labels, expected.argmax(axis=1))
        seen |= set(theirs[1].tolist())
    assert len(seen) > width // 2


@pytest.mark.parametrize("n_lines", [16, 48, 1000])
@pytest.mark.parametrize("name", ["mixed", "joint-labels"])
def test_compiled_equals_torch_to_the_bit_where_features_share_lines(
    n_lines: int, name: str
) -> None:
    """Among equals the first label is taken: of small numbers there are many."""
    batch, plan = prepared(TEMPLATES if name == "mixed" else load_templates(name))
    weights = random_lines(n_lines, 7, np.int8)
    small = Weights(weights.array // 64)
    ties = 0
    for table in (weights, small):
        most, label = best_of(all_label_scores(as_tensors(batch), plan, table))
        few, same = best_of(all_label_scores(as_tensors(batch), plan, table, rows_at_once=1))
        assert most.dtype == torch.float64
        for b, (ours, which) in enumerate(by_native(batch, plan, table)):
            cells = arcs_of(len(SENTENCES[b]))
            assert np.array_equal(ours[cells], most[b].numpy()[cells])
            assert np.array_equal(which[cells], label[b].numpy()[cells])
            assert np.array_equal(ours[cells], few[b].numpy()[cells])
            assert np.array_equal(which[cells], same[b].numpy()[cells])
        reversed_table = Weights(np.ascontiguousarray(table.array[:, ::-1]))
        other = 6 - best_of(all_label_scores(as_tensors(batch), plan, reversed_table))[1]
        ties += sum(
            np.count_nonzero(label[b].numpy()[cells] < other[b].numpy()[cells])
            for b in range(len(batch))
            for cells in [arcs_of(len(SENTENCES[b]))]
        )
    assert ties > 10


def test_the_shipped_set_looks_at_the_arc_alone_and_the_second_stages_does_not() -> None:
    check_joint_templates(load_templates("joint-labels"))
    with pytest.raises(ConfigError, match=r"labels\.kind joint: template '.*' looks at"):
        check_joint_templates(load_templates("labels"))
