"""Models with word vectors: learned, added to templates, stored, and continued after a stop."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from gpuparse import inference
from gpuparse.config import RunConfig, WordVectorsConfig
from gpuparse.errors import ConfigError, ModelError
from gpuparse.features.templates import TemplateSet, parse_set
from gpuparse.inference.decoders import DECODERS
from gpuparse.jobs.checkpoint import Checkpoint, read_checkpoint, write_checkpoint
from gpuparse.jobs.receipts import Origin
from gpuparse.learning.trainer import Trainer, check_templates
from gpuparse.model.confidence import parse_with_confidence
from gpuparse.model.engines import admission
from gpuparse.model.folder import load_parser, save_parser
from gpuparse.model.parser import Parser
from gpuparse.scorers.vectors.scorer import vectors_of
from gpuparse.scorers.vectors.word_vectors import WordVectors
from tests.labels import tree_label_scores
from tests.parsers import parser_with
from tests.runs import changed, run_config
from tests.samples import fingerprint, random_sentences, template_set_text, treebank_of
from tests.scoring.forms import arc_scores, as_tensors
from tests.test_model import assert_saved_whole, same
from tests.vectors import labels_of_trees, nodes_of, vector_arc_scores

SECTION = """
word_vectors:
  hidden: 8
  arc: 4
  label: 4
  distance: [1, 2]
  templates: [w.form, w.pos, w.feats.*, w-1.pos, w+1.lemma]
"""
ALONE = parse_set(SECTION, "alone")
WITH_SIBLINGS = SECTION.replace("arc: 4", "arc: 4\n  sibling: 5")
ARCS = ["h.form m.form", "h.pos m.pos direction distance"]
BOTH = parse_set(template_set_text(arc=ARCS) + SECTION, "both")
SIBLINGS = parse_set(
    template_set_text(arc=ARCS, sibling=["s.pos m.pos"]) + WITH_SIBLINGS, "siblings"
)
SIBLINGS_ALONE = parse_set(template_set_text(arc=ARCS) + WITH_SIBLINGS, "siblings alone")
GRANDPARENTS = parse_set(
    template_set_text(arc=ARCS, sibling=["s.pos m.pos"])
    + "grandparent:\n  - templates: [g.pos m.pos]\n"
    + WITH_SIBLINGS.replace("arc: 4", "arc: 4\n  grandparent: 6"),
    "grandparents",
)
LABELS = parse_set(template_set_text(label=["m.form h.pos direction"]), "labels")
KEYS = WordVectorsConfig(epochs=3, min_count=1)
TRAIN = treebank_of(random_sentences(5, 30, 8))
TEST = treebank_of(random_sentences(6, 20, 10))


@pytest.fixture(scope="module", autouse=True)
def large_steps() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gpuparse.learning.stages.vectors.stage.BATCHES", (4, 4))
        patch.setattr("gpuparse.learning.stages.vectors.stage.RATE", 0.02)
        patch.setattr("gpuparse.learning.stages.vectors.stage.DROPOUT", 0.1)
        yield


def config_of(keys: WordVectorsConfig = KEYS, **change: object) -> RunConfig:
    small = {"map_rows": 1 << 12, "label_rows": 1 << 8, "epochs": 2, "label_epochs": 2}
    return replace(run_config(**small | change), word_vectors=keys)


def trainer_of(
    templates: TemplateSet = ALONE, labels: TemplateSet | None = ALONE, **change: object
) -> Trainer:
    return Trainer(TRAIN, templates, labels, config_of(**change))


def learned(trainer: Trainer) -> Trainer:
    for _ in trainer.learn():
        pass
    return trainer


def numbers_of(model: Parser) -> WordVectors:
    found = vectors_of(model.scorers)
    assert found is not None
    return found


def right(model: Parser, *, labels: bool = False) -> float:
    """The share of words of the training treebank with the right head, or label."""
    found = model.parse(TRAIN)
    if not labels:
        return float((found.heads == TRAIN.heads).mean())
    gold = [sentence.labels for sentence in TRAIN]
    named = [name for names in gold for name in names]
    assert found.labels is not None
    return float(
        np.mean([model.labels[k] == name for k, name in zip(found.labels, named, strict=True)])
    )


@pytest.mark.parametrize("kind", ["second-stage", "joint"])
@pytest.mark.parametrize("decoder", ["eisner", "chu_liu_edmonds"])
def test_vectors_alone_learn_heads_and_labels(decoder: str, kind: str) -> None:
    keys = replace(KEYS, epochs=20)
    trainer = trainer_of(decoder=decoder, labels_kind=kind, keys=keys)
    before = trainer.model(16)
    stages = {event.stage for event in trainer.learn()}
    assert stages == {"vectors"}
    model = trainer.model(16)
    assert not model.linear.arcs.array.any()
    assert right(model) > right(before) + 0.2
    assert right(model, labels=True) > 0.5


def test_templates_are_learned_apart() -> None:
    alone = learned(trainer_of(replace(BOTH, word_vectors=None), LABELS)).model(16)
    apart = learned(trainer_of(BOTH, LABELS)).model(16)
    assert np.array_equal(apart.linear.arcs.array, alone.linear.arcs.array)
    assert not np.array_equal(apart.parse(TEST).heads, alone.parse(TEST).heads)
    assert same(parser_with(apart, vectors=None).parse(TEST), alone.parse(TEST))


def test_weights_say_how_much_vectors_count() -> None:
    heavy = replace(KEYS, weight=100.0)
    alone = learned(trainer_of(ALONE, ALONE)).model(16)
    both = learned(trainer_of(BOTH, LABELS, keys=heavy)).model(16)
    light = learned(trainer_of(BOTH, LABELS)).model(16)
    same = [(m.parse(TEST).heads == alone.parse(TEST).heads).mean() for m in (light, both)]
    assert same[0] < same[1]
    assert same[1] > 0.95


def with_margin(model: Parser, margin: int) -> Parser:
    return parser_with(model, vectors=numbers_of(model)._replace(arc_margin=margin))


@pytest.mark.parametrize("decoder", ["eisner", "chu_liu_edmonds"])
@pytest.mark.parametrize("single_root", [False, True])
def test_templates_score_the_arcs_within_the_margin(decoder: str, *, single_root: bool) -> None:
    model = learned(trainer_of(BOTH, None, decoder=decoder)).model(16)
    model = replace(model, single_root=single_root)
    batch, vectors = model.encode(TEST), numbers_of(model)
    templates = arc_scores(batch, model.linear.plan.arcs, model.linear.features, model.linear.arcs)
    of_vectors = vector_arc_scores(batch, vectors)
    ends = of_vectors.abs().max().item() / vectors.arc_multiplier * 2.0**vectors.arc_shift
    heads = []
    for margin in (0, int(ends / 8), int(ends / 2), 4 * int(ends)):
        points = margin * vectors.arc_multiplier + (1 << vectors.arc_shift >> 1)
        points >>= vectors.arc_shift
        scores = of_vectors.clone()
        for b, n in enumerate(batch.lengths.tolist()):
            for m in range(1, n + 1):
                others = [h for h in range(n + 1) if h != m]
                best = max(of_vectors[b, h, m].item() for h in others)
                close = [h for h in others if of_vectors[b, h, m] >= best - points]
                for h in close if len(close) > 1 else ():
                    scores[b, h, m] += templates[b, h, m]
        search = inference.eisner if decoder == "eisner" else inference.chu_liu_edmonds
        wanted, _ = search(scores, torch.from_numpy(batch.lengths), single_root=single_root)
        by_word = [wanted[b, 1 : n + 1] for b, n in enumerate(batch.lengths.tolist())]
        given = with_margin(model, margin)
        for engine in ("native", "torch"):
            found = given.parse(TEST, engine=engine).heads
            assert np.array_equal(found, torch.cat(by_word).numpy()), (margin, engine)
        heads.append(torch.cat(by_word).numpy())
    assert not np.array_equal(heads[0], heads[1])
    assert not np.array_equal(heads[1], heads[2])
    assert np.array_equal(heads[3], model.parse(TEST).heads)


def test_templates_score_the_labels_that_vectors_leave_open() -> None:
    model = learned(trainer_of(BOTH, LABELS)).model(16)
    batch, vectors = as_tensors(model.encode(TEST)), numbers_of(model)
    heads = model.parse(TEST).heads
    assert model.linear.label_plan is not None
    assert model.linear.label_weights is not None
    n_labels = model.linear.label_weights.array.shape[1]
    trees = torch.full((len(batch.lengths), int(batch.lengths.max()) + 1), -1)
    for b, (sentence, n) in enumerate(zip(TEST, batch.lengths.tolist(), strict=True)):
        first = sum(batch.lengths[:b].tolist())
        assert len(sentence.labels) == n
        trees[b, 1 : n + 1] = torch.from_numpy(heads[first : first + n].astype(np.int64))
    nodes = nodes_of(batch, vectors)
    assert nodes is not None
    scored = tree_label_scores(batch, trees, model.linear.label_plan, model.linear.label_weights)
    of_vectors = labels_of_trees(nodes, trees)[..., :n_labels]
    all_found, counts = [], []
    best = of_vectors[trees >= 0].topk(2).values
    gaps = (best[:, 0] - best[:, 1]).sort().values.tolist()
    for gap in (0, gaps[len(gaps) // 3], gaps[len(gaps) * 2 // 3], gaps[-1]):
        margin = int(gap / vectors.label_multiplier * 2.0**vectors.label_shift)
        points = margin * vectors.label_multiplier + (1 << vectors.label_shift >> 1)
        points >>= vectors.label_shift
        wanted, n_open = [], 0
        for b, n in enumerate(batch.lengths.tolist()):
            for m in range(1, n + 1):
                scores = of_vectors[b, m].tolist()
                if sum(score >= max(scores) - points for score in scores) > 1:
                    scores = [x + y for x, y in zip(scores, scored[b, m].tolist(), strict=True)]
                    n_open += 1
                wanted.append(scores.index(max(scores)))
        given = parser_with(model, vectors=vectors._replace(label_margin=margin))
        for engine in ("native", "torch"):
            found = given.parse(TEST, engine=engine).labels
            assert found is not None
            assert found.tolist() == wanted, (margin, engine)
        all_found.append(wanted)
        counts.append(n_open)
    assert counts[0] < counts[1] < counts[2] < counts[3] == len(heads)
    assert all_found[0] != all_found[3]


def test_the_margin_is_in_units_of_cost() -> None:
    """Neither the weight of the vectors nor the bits of the weights change which arcs are open."""
    for weight, bits in ((0.5, 16), (2.0, 8)):
        keys = replace(KEYS, margin=0.5, weight=weight)
        model = learned(trainer_of(BOTH, LABELS, keys=keys)).model(bits)
        vectors = numbers_of(model)
        nodes = nodes_of(as_tensors(model.encode(TEST)), vectors)
        assert nodes is not None
        in_cost = vectors.arc_margin * vectors.arc_unit
        assert in_cost == pytest.approx(0.5 * weight, rel=1e-3)
        assert 0.05 < nodes.are_open(nodes.arcs()).double().mean() < 0.5
        assert vectors.label_margin * vectors.label_unit == pytest.approx(0.5 / 4, rel=1e-3)
    without = learned(trainer_of(ALONE, ALONE, keys=replace(KEYS, margin=0.5))).model(16)
    assert numbers_of(without).arc_margin == numbers_of(without).label_margin == -1  # no templates


@pytest.mark.parametrize("threads", [2, 3])
def test_threads_change_no_bit(threads: int) -> None:
    one, several = (
        learned(Trainer(TRAIN, BOTH, LABELS, config_of(), threads=n)).model(16)
        for n in (1, threads)
    )
    assert fingerprint(several) == fingerprint(one)


@pytest.mark.parametrize("stop", [("vectors", 1), ("vectors", 3), ("arcs", 1), ("labels", 1)])
def test_a_run_goes_on_from_a_stop_to_the_same_bytes(stop: tuple[str, int], tmp_path: Path):
    origin = Origin({}, {})
    whole, first = learned(trainer_of(BOTH, LABELS)).model(16), trainer_of(BOTH, LABELS)
    for event in first.learn():
        if event.epoch_is_over and (event.stage, event.epoch) == stop:
            write_checkpoint(tmp_path, origin, Checkpoint(first.state(), 0.0))
            break
    again = trainer_of(BOTH, LABELS)
    again.restore(read_checkpoint(tmp_path, origin).state)
    model = learned(again).model(16)
    assert fingerprint(model) == fingerprint(whole)


def test_a_state_of_other_vectors_is_refused() -> None:
    state = learned(trainer_of(BOTH, LABELS)).state()
    other = parse_set(template_set_text(arc=ARCS) + SECTION.replace("arc: 4", "arc: 5"), "both")
    with pytest.raises(ModelError, match=r"vectors\."):
        trainer_of(other, LABELS).restore(state)
    with pytest.raises(ModelError, match="missing or unknown"):
        trainer_of(replace(BOTH, word_vectors=None), LABELS).restore(state)


@pytest.mark.parametrize("bits", [8, 16])
@pytest.mark.parametrize(
    ("templates", "labels", "keys"),
    [
        (ALONE, ALONE, {}),
        (ALONE, None, {}),
        (ALONE, LABELS, {}),
        (BOTH, LABELS, {"decoder": "chu_liu_edmonds"}),
        (BOTH, LABELS, {"keys": replace(KEYS, margin=0.5)}),
        (BOTH, LABELS, {"labels_kind": "joint"}),
        (BOTH, ALONE, {"labels_kind": "joint"}),
        (SIBLINGS, LABELS, {"decoder": "eisner_sibling", "labels_kind": "joint"}),
        (SIBLINGS, LABELS, {"decoder": "eisner_sibling"}),
        (SIBLINGS_ALONE, LABELS, {"decoder": "eisner_sibling", "keys": replace(KEYS, margin=0.5)}),
        (SIBLINGS_ALONE, LABELS, {"decoder": "eisner_sibling", "labels_kind": "joint"}),
        (parse_set(WITH_SIBLINGS, "vectors"), LABELS, {"decoder": "eisner_sibling"}),
        (GRANDPARENTS, LABELS, {"decoder": "eisner_grand_sibling"}),
    ],
)
def test_saved_and_loaded(
    templates: TemplateSet, labels: TemplateSet | None, keys: dict, bits: int, tmp_path: Path
) -> None:
    """And torch finds the same trees."""
    model = learned(trainer_of(templates, labels, **keys)).model(bits)
    again = assert_saved_whole(model, tmp_path)
    if DECODERS[model.decoder].has("marginals", "native"):
        assert same(parse_with_confidence(again, TEST), parse_with_confidence(model, TEST))


def test_probabilities_are_those_of_vectors_too() -> None:
    model = learned(trainer_of(BOTH, LABELS)).model(16)
    without = parser_with(model, vectors=None)
    with_vectors, other = (parse_with_confidence(each, TRAIN) for each in (model, without))
    assert not np.array_equal(with_vectors.head_probabilities, other.head_probabilities)
    assert not np.array_equal(with_vectors.label_probabilities, other.label_probabilities)


def test_long_sentences_of_a_pruned_parser_have_the_scores_of_its_pruner(monkeypatch) -> None:
    text = template_set_text(arc=ARCS, sibling=["s.pos m.pos"])
    text += "grandparent:\n  - templates: [g.pos h.pos m.pos]\n" + SECTION
    config = config_of(decoder="eisner_grand_sibling")
    config = changed(config, max_heads=3)
    model = learned(Trainer(TRAIN, parse_set(text, "all"), LABELS, config)).model(16)
    lower = model.lower_order()
    assert model.linear.pruner is not None
    assert np.array_equal(lower.linear.arcs.array, model.linear.pruner.weights.array)
    assert numbers_of(lower).arc_multiplier == 0
    assert numbers_of(lower).label_multiplier == numbers_of(model).label_multiplier
    monkeypatch.setattr(admission, "MAX_CELLS", 1200)
    found = model.parse(TEST)
    assert (found.orders > 0).any()


@pytest.mark.parametrize(
    ("templates", "labels", "keys", "message"),
    [
        (ALONE, None, {"decoder": "eisner_sibling"}, "has no sibling templates"),
        (
            parse_set(template_set_text(sibling=["s.pos m.pos"], label=["m.pos"]) + SECTION, "x"),
            None, {"decoder": "eisner_sibling"}, "'x' has no arc templates",
        ),
        (LABELS, None, {}, "'labels' has no arc templates"),
        (
            parse_set(template_set_text(arc=ARCS, sibling=["s.pos m.pos"]) + SECTION, "x"),
            None, {"decoder": "multi_parent"}, "learn from trees, and decoder multi_parent",
        ),
        (replace(BOTH, word_vectors=None), ALONE, {}, "'alone' has no label templates"),
        (ALONE, LABELS, {"labels_kind": "joint"}, "choose labels.features=vectors"),
        (
            parse_set(
                template_set_text(arc=ARCS) + "guide:\n  - templates: [m.pos]\n" + SECTION, "x"
            ),
            None, {"keys": replace(KEYS, margin=0.5)}, "'x' has guide templates",
        ),
    ],
)  # fmt: skip
def test_what_does_not_go_together(
    templates: TemplateSet, labels: TemplateSet | None, keys: dict, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        check_templates(templates, labels, config_of(**keys))


OF_KIND = {
    "sibling": (SIBLINGS, "eisner_sibling", ("eisner", "hill_climb")),
    "sibling without templates": (SIBLINGS_ALONE, "eisner_sibling", ("eisner",)),
    "grandparent": (GRANDPARENTS, "eisner_grand_sibling", ("eisner_sibling", "dual_decomposition")),
}


@pytest.mark.parametrize("kind", OF_KIND)
def test_pairs_count_where_templates_score_them_in_projective_trees(kind: str) -> None:
    templates, decoder, others = OF_KIND[kind]
    kind = kind.split()[0]
    model = learned(trainer_of(templates, LABELS, decoder=decoder)).model(16)
    assert numbers_of(model).scores(kind)
    shift = getattr(numbers_of(model), f"{kind}_shift")
    more = parser_with(model, vectors=numbers_of(model)._replace(**{f"{kind}_shift": shift - 5}))
    assert not np.array_equal(model.parse(TEST).heads, more.parse(TEST).heads)
    for name in others:
        other = learned(trainer_of(templates, LABELS, decoder=name)).model(16)
        assert getattr(other.linear.templates.word_vectors, kind) == 0
        assert not numbers_of(other).scores(kind)


@pytest.mark.parametrize("kind", OF_KIND)
def test_pairs_of_other_sizes_or_without_templates_are_refused(kind: str, tmp_path: Path) -> None:
    templates, decoder, _ = OF_KIND[kind]
    kind = kind.split()[0]
    model = learned(trainer_of(templates, LABELS, decoder=decoder)).model(16)
    section = model.linear.templates.word_vectors
    for size in (0, 33):
        other = replace(model.linear.templates, word_vectors=section.of_sizes(**{kind: size}))
        save_parser(parser_with(model, templates=other), tmp_path)
        with pytest.raises(ModelError, match=r"come from (another|different) model"):
            load_parser(tmp_path)


def test_templates_beside_siblings_of_vectors_are_learned_by_rules_of_the_first_order() -> None:
    parts = trainer_of(SIBLINGS_ALONE, LABELS, decoder="eisner_sibling", rule="mira-factored")
    model = learned(parts).model(16)
    assert model.decoder == "eisner_sibling"
    assert numbers_of(model).scores("sibling")
    with_ends = parse_set(
        template_set_text(arc=ARCS, end=["h.pos e.pos"]) + WITH_SIBLINGS, "siblings and ends"
    )
    for templates in (SIBLINGS, with_ends):
        with pytest.raises(ConfigError, match="of the first order, decoder eisner_sibling is not"):
            trainer_of(templates, LABELS, decoder="eisner_sibling", rule="mira-factored")
    model = learned(trainer_of(with_ends, LABELS, decoder="eisner_sibling")).model(16)
    assert model.linear.plan.siblings is not None
    found, expected = model.parse(TEST, engine="torch"), model.parse(TEST)
    assert np.array_equal(found.heads, expected.heads)


def test_words_without_heads_are_refused() -> None:
    config = config_of()
    config = replace(config, data=replace(config.data, partial=True))
    with pytest.raises(ConfigError, match="learn from whole trees"):
        check_templates(ALONE, None, config)
