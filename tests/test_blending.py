"""Blended models: scores are weighted sums of those of the models, or it is said what differs."""

import random
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from gpuparse.blending import BlendedParser, blend
from gpuparse.config import WordVectorsConfig
from gpuparse.engines.engine import Scales
from gpuparse.errors import ConfigError, ScoreError
from gpuparse.features.templates import TemplateSet, parse_set
from gpuparse.learning.trainer import Trainer
from gpuparse.model_folder import load_parser, save_parser
from gpuparse.parser import Parser
from gpuparse.scorers.linear.arcs import arc_scores
from gpuparse.scorers.linear.labels import all_label_scores
from gpuparse.scorers.tensors import as_tensors
from gpuparse.scorers.vectors.scorer import vectors_of
from gpuparse.scorers.vectors.word_vectors import GROUP, check_vectors
from tests.graphs_by_place import acyclic_graph, with_deps
from tests.labels import tree_label_scores
from tests.parsers import parser_with
from tests.runs import changed, run_config
from tests.samples import random_sentences, template_set_text, treebank_of
from tests.test_model import trained
from tests.vectors import vector_arc_scores, vector_pair_scores

SECTION = """
word_vectors:
  hidden: {hidden}
  arc: {arc}
  label: {label}
  distance: [1, 2]
  templates: [w.form, w.pos, w.feats.*, w-1.pos, w+1.lemma, between.pos]
"""
SIZES = {"hidden": 40, "arc": 33, "label": 20}
TRAIN = treebank_of(random_sentences(5, 30, 8, projective=False))
TEST = treebank_of(random_sentences(6, 20, 10))
ARCS = ["h.form m.form", "h.pos m.pos direction distance", "h.pos between.pos m.pos"]
TEMPLATES = template_set_text(arc=ARCS)
LABELS = parse_set(template_set_text(label=["m.form h.pos direction", "m.pos"]), "labels")


def vectors(hidden: int = 40, arc: int = 33, label: int = 20) -> TemplateSet:
    return parse_set(SECTION.format(hidden=hidden, arc=arc, label=label), "vectors")


def both(arcs: str = TEMPLATES, **sizes: int) -> TemplateSet:
    section = vectors(**sizes).word_vectors
    return replace(parse_set(arcs, "both"), word_vectors=section)


@cache
def parser(
    templates: TemplateSet, labels: TemplateSet | None = LABELS, *, bits: int = 16,
    train: Any = TRAIN, **keys: Any,
) -> Parser:  # fmt: skip
    """A trained parser, as it is loaded."""
    small = {"map_rows": 1 << 12, "label_rows": 1 << 8, "epochs": 2, "label_epochs": 2}
    config = changed(run_config(**small), **{"decoder": "chu_liu_edmonds"} | keys)
    of_vectors = WordVectorsConfig(epochs=2, batch_size=4, learning_rate=0.02, min_count=1)
    trainer = Trainer(train, templates, labels, replace(config, word_vectors=of_vectors))
    for _ in trainer.learn():
        pass
    return trainer.model(bits)


def shares(*parsers: Parser, weights: tuple[float, ...] = ()) -> list[BlendedParser]:
    weights = weights or (1.0 / len(parsers),) * len(parsers)
    pairs = enumerate(zip(parsers, weights, strict=True))
    return [BlendedParser(f"model {i}", each, weight, 2 * weight) for i, (each, weight) in pairs]


def arcs_of(parser: Parser) -> np.ndarray:
    """(B, N, N) scores of arcs in nats."""
    batch = parser.encode(TEST)
    scores = arc_scores(batch, parser.linear.plan.arcs, parser.linear.features, parser.linear.arcs)
    if vectors_of(parser.scorers) is not None:
        scores = scores + vector_arc_scores(batch, vectors_of(parser.scorers))
    return cells(scores, batch) * parser.scales.arc


def labels_of(parser: Parser, names: list[str]) -> np.ndarray:
    """(B, N, labels) scores in nats of labels of the gold trees, less those of the first one."""
    batch, heads = as_tensors(parser.encode(TEST)), gold_heads()
    assert parser.linear.label_plan is not None
    found = tree_label_scores(batch, heads, parser.linear.label_plan, parser.linear.label_weights)
    for scorer in parser.scorers[1:]:
        nodes = torch.arange(heads.shape[1]).expand_as(heads)
        sentences = torch.arange(len(heads)).unsqueeze(1).expand_as(heads)
        part = scorer.part(scorer.send(parser.encode(TEST), heads.device), parser.encode(TEST))
        if scorer.has_labels:
            found = scorer.label_scores(part, heads, (sentences, heads.clamp(min=0), nodes), found)
            found = found.masked_fill((heads < 0).unsqueeze(-1), 0)
    order = [parser.labels.index(name) for name in names]
    scores = found.double().numpy()[..., order] * parser.scales.label
    return scores - scores[..., :1]


def gold_heads() -> torch.Tensor:
    heads = torch.full((len(TEST), 1 + max(map(len, TEST))), -1)
    for b, sentence in enumerate(TEST):
        heads[b, 1 : len(sentence) + 1] = torch.from_numpy(np.array(sentence.heads))
    return heads


def cells(scores: torch.Tensor, batch: Any) -> np.ndarray:
    """The scores that are read, in one row."""
    kept = []
    for sentence, n in zip(scores.numpy(), batch.lengths.tolist(), strict=True):
        is_read = ~np.eye(n + 1, dtype=bool)
        is_read[:, 0] = False
        kept.append(sentence[: n + 1, : n + 1][is_read])
    return np.concatenate(kept)


def assert_sums(found: np.ndarray, parts: list[np.ndarray], within: float) -> None:
    """Rounding is `within` of the standard deviation of the sum."""
    wanted = sum(parts)
    assert np.abs(found - wanted).max() <= within * wanted.std()
    assert any(np.abs(found - part).max() > 4 * within * wanted.std() for part in parts)


SEEDS = (1, 2, 3)
SUMS = {
    "templates": ([(both(), {"seed": seed, "strip": True}) for seed in SEEDS], 1e-3),
    "8 bits": ([(both(), {"seed": seed, "strip": True, "bits": 8}) for seed in SEEDS], 0.1),
    "vectors": ([(vectors(), {"seed": seed}) for seed in SEEDS], 0.1),
    "no hidden layer": ([(vectors(hidden=0), {"seed": seed}) for seed in SEEDS], 0.1),
    "sizes": ([(vectors(), {}), (vectors(90, 70, 3), {"seed": 2})], 0.1),
    "arcs alone": ([(vectors(), {}), (vectors(40, 20, 0), {"labels": LABELS})], 0.1),
    "both kinds": ([(both(), {"strip": True}), (vectors(), {"seed": 3})], 0.1),
    "all": ([(both(), {"seed": seed}) for seed in SEEDS] + [(vectors(), {"seed": 4})], 0.1),
}


def made(templates: TemplateSet, keys: dict[str, Any]) -> Parser:
    keys = dict(keys)
    strip = keys.pop("strip", False)
    if strip:
        templates = replace(templates, word_vectors=None)
    labels = keys.pop("labels", LABELS if templates.arc else vectors())
    return parser(templates, labels, **keys)


@pytest.mark.parametrize("name", SUMS)
def test_scores_are_the_weighted_sum(name: str, tmp_path: Path) -> None:
    given, within = SUMS[name]
    parsers = [made(templates, keys) for templates, keys in given]
    parts = shares(*parsers, weights=(0.5, 0.3, 0.2, 0.4)[: len(parsers)])
    save_parser(blend(parts), tmp_path)
    found = load_parser(tmp_path)
    assert_sums(arcs_of(found), [each.weight * arcs_of(each.parser) for each in parts], within)
    names = list(found.labels)
    of_labels = [each.label_weight * labels_of(each.parser, names) for each in parts]
    assert_sums(labels_of(found, names), of_labels, within)
    assert not found.scales.is_calibrated


@pytest.mark.parametrize(
    ("kind", "decoder"), [("sibling", "eisner_sibling"), ("grandparent", "eisner_grand_sibling")]
)
def test_further_pairs_are_summed(kind: str, decoder: str) -> None:
    """Those of one parser without vectors of that kind are none."""
    arcs = template_set_text(arc=ARCS, sibling=["s.pos m.pos"])
    arcs += "grandparent:\n  - templates: [g.pos m.pos]\n"
    one, other, without = (
        parser(replace(both(arcs), word_vectors=section), decoder=decoder, seed=seed)
        for seed, size in ((1, 20), (2, 40), (3, 0))
        for section in [vectors().word_vectors.of_sizes(**{kind: size})]
    )
    found = blend(shares(one, without, other, weights=(0.6, 0.3, 0.4)))
    assert getattr(found.linear.templates.word_vectors, kind) == 3 * 64
    batch = found.encode(TEST)
    scores = [
        cells(vector_pair_scores(kind, batch, vectors_of(each.scorers)), batch) * each.scales.arc
        for each in (found, one, other)
    ]
    assert_sums(scores[0], [0.6 * scores[1], 0.4 * scores[2]], 0.1)
    changed = vectors_of(found.scorers)._replace(**{f"{kind}_multiplier": 0})
    plain = parser_with(found, vectors=changed)
    assert not np.array_equal(found.parse(TEST).heads, plain.parse(TEST).heads)
    if kind == "sibling":  # decoders of higher orders have native code alone
        same = found.parse(TEST, backend="torch")
        assert np.array_equal(found.parse(TEST).heads, same.heads)


def test_models_whose_templates_score_some_arcs_are_refused() -> None:
    one, two = (parser(both(), seed=seed) for seed in (1, 2))
    some = parser_with(two, vectors=vectors_of(two.scorers)._replace(arc_margin=100))
    with pytest.raises(ScoreError, match=r"word_vectors\.margin cannot be added"):
        blend(shares(one, some))


@pytest.mark.parametrize("steps", [1, 3])
def test_networks_of_other_ranges(steps: int) -> None:
    one, two = (parser(vectors(), vectors(), seed=seed) for seed in (1, 2))
    fine = parser_with(
        two, vectors=vectors_of(two.scorers)._replace(shift=vectors_of(two.scorers).shift + steps)
    )
    parts = shares(one, fine, weights=(1.0, 2.0**steps))
    found = blend(parts)
    assert (
        vectors_of(found.scorers).shift < vectors_of(fine.scorers).shift
    )  # scales of rows have 8 bits
    assert_sums(arcs_of(found), [each.weight * arcs_of(each.parser) for each in parts], 0.3)


@pytest.mark.parametrize("templates", [vectors(), vectors(hidden=0), both()])
def test_a_model_with_itself_is_the_model(templates: TemplateSet) -> None:
    model = parser(templates, LABELS if templates.arc else vectors())
    found = blend(shares(model, model))
    assert np.array_equal(found.linear.arcs.array, model.linear.arcs.array)
    assert np.array_equal(found.linear.label_weights.array, model.linear.label_weights.array)
    np.testing.assert_allclose(arcs_of(found), arcs_of(model), rtol=0, atol=3 * found.scales.arc)
    one, other = model.parse(TEST), found.parse(TEST)
    assert np.array_equal(one.heads, other.heads)
    assert np.array_equal(one.labels, other.labels)


@pytest.mark.parametrize("kind", ["second-stage", "joint"])
def test_templates_and_vectors_are_what_training_makes_of_both(kind: str) -> None:
    whole = parser(both(), labels_kind=kind)
    templates = parser(replace(both(), word_vectors=None), labels_kind=kind)
    alone = parser(vectors(), vectors())
    keys = WordVectorsConfig()
    found = blend(
        [
            BlendedParser("templates", templates, 1.0, 1.0),
            BlendedParser("vectors", alone, keys.weight, keys.label_weight),
        ]
    )
    assert np.array_equal(found.linear.arcs.array, whole.linear.arcs.array)
    assert found.labels_with_trees == (kind == "joint")
    assert found.decoder == whole.decoder
    np.testing.assert_allclose(arcs_of(found), arcs_of(whole), rtol=0, atol=3 * found.scales.arc)
    one, other = whole.parse(TEST), found.parse(TEST)
    assert np.array_equal(one.heads, other.heads)
    assert np.array_equal(one.labels, other.labels)


@pytest.mark.parametrize("given", [both(), vectors(), vectors(hidden=0)])
def test_engines_find_the_same_trees(given: TemplateSet) -> None:
    labels = LABELS if given.arc else vectors()
    found = blend(shares(*(parser(given, labels, seed=seed) for seed in SEEDS)))
    one, other = found.parse(TEST), found.parse(TEST, backend="torch")
    assert np.array_equal(one.heads, other.heads)
    assert np.array_equal(one.labels, other.labels)


def test_joint_labels_are_summed() -> None:
    parsers = [parser(both(), labels_kind="joint", seed=seed) for seed in SEEDS]
    parsers = [parser_with(each, vectors=None, templates=bare(each)) for each in parsers]
    parts = shares(*parsers)
    found = blend(parts)
    assert found.labels_with_trees
    weights = [each.parser.linear.label_weights.array * each.label_value for each in parts]
    exact = sum(weights)
    assert (
        np.abs(found.linear.label_weights.array * found.scales.arc - exact).max()
        <= found.scales.arc
    )
    batch = as_tensors(found.encode(TEST))
    scores = all_label_scores(batch, found.linear.joint_plan, found.linear.label_weights)
    assert scores.shape[0] == len(TEST)


def bare(parser: Parser) -> TemplateSet:
    return replace(parser.linear.templates, word_vectors=None)


def test_labels_may_be_in_another_order() -> None:
    one, two = (parser(both(), seed=seed) for seed in (1, 2))
    turned = [*two.labels[1:], two.labels[0]]
    order = [*range(1, len(turned)), 0]
    again = parser_with(
        two,
        labels=turned,
        label_weights=type(two.linear.label_weights)(two.linear.label_weights.array[:, order]),
        vectors=turned_labels(two, order),
    )
    straight, other = blend(shares(one, two)), blend(shares(one, again))
    assert list(other.labels) == list(one.labels)
    assert np.array_equal(straight.linear.label_weights.array, other.linear.label_weights.array)
    for name in vectors_of(straight.scorers)._fields[1:]:
        found = getattr(vectors_of(other.scorers), name)
        assert np.array_equal(getattr(vectors_of(straight.scorers), name), found), name


def turned_labels(parser: Parser, order: list[int]) -> Any:
    of = vectors_of(parser.scorers)
    padded = order + [order[0]] * (len(of.label_constants) - len(order))
    arrays = {
        name: np.ascontiguousarray(getattr(of, name)[:, padded])
        for name in ("labels", "label_heads", "label_modifiers")
    }
    return of._replace(**arrays, label_constants=of.label_constants[padded])


def test_networks_lie_side_by_side() -> None:
    parsers = [parser(vectors(), vectors(), seed=seed) for seed in SEEDS]
    found = blend(shares(*parsers))
    check_vectors(vectors_of(found.scorers))
    assert vectors_of(found.scorers).networks == 3
    assert GROUP * len(vectors_of(found.scorers).heads) == 3 * 64
    again = blend(shares(found, parsers[0]))
    assert vectors_of(again.scorers).networks == 4


def test_pruners_are_summed() -> None:
    text = template_set_text(arc=ARCS, sibling=["s.pos m.pos"])
    text += "grandparent:\n  - templates: [g.pos h.pos m.pos]\n"
    keys = {"decoder": "eisner_grand_sibling", "pruning_epochs": 1, "folds": 2}
    one, two = (parser(parse_set(text, "all"), max_heads=3, seed=s, **keys) for s in (1, 2))
    wide = parser_with(two, pruner=two.linear.pruner._replace(max_heads=4, threshold=0.5))
    parts = shares(one, wide, weights=(0.75, 0.5))
    found = blend(parts).linear.pruner
    exact = sum(
        share.weight
        / 1.25
        * share.parser.linear.pruner.scale
        * share.parser.linear.pruner.weights.array
        for share in parts
    )
    assert np.abs(found.weights.array * found.scale - exact).max() <= found.scale
    assert (found.max_heads, found.threshold) == (4, min(0.5, one.linear.pruner.threshold))
    with pytest.raises(ConfigError, match="prunes the arcs"):
        blend(shares(one, parser_with(two, pruner=None)))


def test_the_smallest_gain_is_in_nats() -> None:
    templates = parse_set(template_set_text(arc=ARCS, sibling=["s.pos m.pos"]), "siblings")
    one, two = (parser(templates, seed=seed, decoder="hill_climb") for seed in (1, 2))
    found = blend(shares(one, two, weights=(1.0, 3.0)))
    nats = one.min_gain * one.scales.arc + 3 * two.min_gain * two.scales.arc
    assert found.min_gain * found.scales.arc == pytest.approx(nats)
    assert nats == pytest.approx(2.0)  # four times the 0.5 of the config


BARE = replace(both(), word_vectors=None)
OTHER = treebank_of(random_sentences(7, 30, 8, projective=False))
ONE_ROOT = treebank_of(random_sentences(5, 30, 8))
REFUSED: dict[str, tuple[tuple[TemplateSet, dict], tuple[TemplateSet, dict], str]] = {
    "treebank": ((BARE, {}), (BARE, {"train": OTHER}), "other values of the field form"),
    "arc templates": (
        (BARE, {}),
        (parse_set(template_set_text(arc=[*ARCS, "h.pos"]), "more"), {}),
        "arc template 'h.pos' is in model 1 alone",
    ),
    "order": (
        (BARE, {}), (parse_set(template_set_text(arc=ARCS[::-1]), "x"), {}),
        "the arc templates are in another order",
    ),
    "distance": (
        (BARE, {}), (parse_set(template_set_text(arc=ARCS, distance=(1, 3)), "x"), {}),
        r"end at \[1, 2, 5\] and \[1, 3\]",
    ),
    "rows": ((BARE, {}), (BARE, {"map_rows": 1 << 11}), "tables have 4,096 and 2,048 rows"),
    "label lines": ((BARE, {}), (BARE, {"label_rows": 64}), "label tables have 85 and 21 lines"),
    "decoder": (
        (BARE, {}), (BARE, {"decoder": "eisner"}), "decoders are chu_liu_edmonds and eisner",
    ),
    "decoder of vectors": (
        (BARE, {}), (vectors(), {"decoder": "eisner"}), "decoders are chu_liu_edmonds and eisner",
    ),
    "roots": ((BARE, {"train": ONE_ROOT, "single_root": False}),
        (BARE, {"train": ONE_ROOT, "single_root": True}), "one root"),
    "labels with trees": ((BARE, {}), (BARE, {"labels_kind": "joint"}), "with the trees"),
    "label templates": (
        (BARE, {}), (BARE, {"labels": parse_set(template_set_text(label=["m.form"]), "x")}),
        "label template 'm.form h.pos direction' is in model 0 alone",
    ),
    "vector templates": (
        (vectors(), {}),
        (parse_set(SECTION.format(**SIZES).replace("w.pos, ", ""), "x"), {}),
        "template 'w.pos' of word vectors is in model 0 alone",
    ),
    "vector buckets": (
        (vectors(), {}),
        (parse_set(SECTION.format(**SIZES).replace("1, 2", "1"), "x"), {}),
        "word vectors have other distance buckets",
    ),
    "words in between": (
        (vectors(), {}),
        (parse_set(SECTION.replace(", between.pos", "").format(**SIZES), "x"), {}),
        "other fields of words in between",
    ),
    "hidden layer": ((vectors(), {}), (vectors(hidden=0), {}), "hidden layer"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_summed(name: str) -> None:
    *given, message = REFUSED[name]
    parsers = [made(templates, keys) for templates, keys in given]
    with pytest.raises(ConfigError, match=message):
        blend(shares(*parsers))


def test_there_may_be_too_many_networks() -> None:
    model = parser(vectors(), vectors())
    with pytest.raises(ConfigError, match="arc 2,112, more than 2,048"):
        blend(shares(*[model] * 33))
    with pytest.raises(ScoreError, match="65 networks, more than 64"):
        blend(shares(*[model] * 65))


def test_relations_must_be_the_same() -> None:
    one, two = (parser(both(), seed=seed) for seed in (1, 2))
    other = replace(two, labels=["strange", *two.labels[1:]])
    with pytest.raises(ConfigError, match=f"relation '{two.labels[0]}' is in model 0 alone"):
        blend(shares(one, other))
    heads = parser(replace(both(), word_vectors=None), None, seed=2)
    assert list(blend(shares(heads, one)).labels) == list(one.labels)


def test_calibration_is_dropped_and_not_mixed() -> None:
    one, two = (parser(both(), seed=seed) for seed in (1, 2))
    scaled = [each.with_scales(3 * each.scales.arc, each.scales.label) for each in (one, two)]
    assert not blend(shares(*scaled)).scales.is_calibrated
    with pytest.raises(ConfigError, match="calibrated"):
        blend(shares(one, scaled[1]))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"scales": Scales(5e-324)}, "a point of its scores is 4.9"),
        ({"min_gain": 1e308}, "its min_gain is too large"),
        ({"scales": Scales(1e9), "weight": 1e3}, "scores of trees or labels are too large"),
    ],
)
def test_scores_that_have_no_sum(change: dict[str, Any], message: str) -> None:
    model, change = parser(BARE), dict(change)
    weight = change.pop("weight", 1.0)
    share = BlendedParser("strange", parser_with(model, **change), weight, weight)
    with pytest.raises(ConfigError, match=f"strange cannot be blended: {message}"):
        blend([share, BlendedParser("model", model, 1.0, 1.0)])


def test_graphs_have_the_relations_of_both() -> None:
    sentences = random_sentences(101, 30, 8)
    graphs = [
        with_deps(words, acyclic_graph(random.Random(k), words))
        for k, words in enumerate(sentences)
    ]
    one, two = (
        trained(decoder="multi_parent", sentences=graphs, epochs=1, seed=seed) for seed in (1, 2)
    )
    found = blend(shares(one, two))
    assert found.primary == one.primary
    predicted = found.parse(TEST)
    assert predicted.graphs is not None
    same = blend(shares(one, one)).parse(TEST)
    assert np.array_equal(same.graphs.heads, one.parse(TEST).graphs.heads)
    other = replace(two, primary=[*two.primary[1:], two.primary[0]])
    with pytest.raises(ConfigError, match="other relations in DEPREL"):
        blend(shares(one, other))
    vector_model = parser(vectors(), vectors())
    with pytest.raises(ConfigError, match="decoders are multi_parent and chu_liu_edmonds"):
        blend(shares(one, vector_model))
