"""Scores of arcs, siblings and ends: compiled equals torch equals a plain sum over their rows."""

import random
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode

from gpuparse.data.batch import Batch
from gpuparse.data.vocabulary import Encoder, Vocabularies
from gpuparse.features import plan as plan_module
from gpuparse.features.plan import Plan, compile_plan
from gpuparse.features.templates import TemplateSet, load_templates, parse_set
from gpuparse.scorers.linear.weights import FeatureMap, Weights, hashed_map
from tests.rows import (
    rows_of_arcs,
    rows_of_ends,
    rows_of_siblings,
    sibling_parts,
    silence,
)
from tests.samples import random_sentence, random_sentences, template_set_text, treebank_of
from tests.scoring.forms import AnyBatch, arc_scores, sibling_scores

ARCS = ["h.form m.form", "h.pos between.pos m.pos direction", "m.pos distance"]
MIXED = parse_set(
    template_set_text(
        arc=[
            "h.form", "m.form[-3:] direction", "h.form m.form",
            "h.lemma m.lemma direction distance", "h.pos m.pos", "h.pos m.pos direction",
            "h.pos m.pos distance", "h-1.pos h.pos m.pos m+1.pos distance",
            "h.pos between.pos m.pos",
            "h.pos between.pos m.pos direction distance", "h+1.pos between.cpos direction",
            "between.form", "distance",
        ],
        sibling=[
            "s.form", "m.form[-3:] direction", "s.form m.form", "s.lemma m.lemma",
            "s.lemma m.lemma direction distance", "s.pos m.pos", "s.pos m.pos direction",
            "s.pos m.pos distance", "s.pos m-1.pos m.pos m+1.pos distance", "distance",
            "h.pos s.pos m.pos", "h.pos s.pos m.pos direction distance",
            "h.lemma s.feats.Case m.form direction", "h.form s.form m.form",
            "s-1.pos m.pos direction", "s+1.form distance", "s-2.pos s.pos m.pos m+1.pos",
        ],
        end=[
            "h.form", "e.form[-3:] direction", "h.lemma e.lemma direction distance", "h.pos e.pos",
            "h-1.pos h.pos h+1.pos e.pos distance", "e.feats.Case", "direction",
        ],
        distance=(1, 2, 5),
    ),
    "mixed",
)  # fmt: skip
TEMPLATES = {
    "mixed": MIXED,
    **{
        name: load_templates(name)
        for name in ("mcdonald-2005", "mcdonald-pereira-2006", "extended")
    },
    "pairs": parse_set(template_set_text(arc=ARCS, sibling=["s.pos m.pos distance"]), "pairs"),
    "ends": parse_set(
        template_set_text(arc=ARCS, sibling=["h.pos s.pos m.pos"], end=["h.form e.pos distance"]),
        "ends",
    ),
    "triples": parse_set(template_set_text(arc=ARCS, sibling=["h.pos s.form m.pos"]), "triples"),
}
MAPS = [1 << 14, 100_003, 16]
# Which triple families are found by shifts: all; those of small fields, the others in few cells.
CELLS = {"direct": (1 << 26, 0), "hashed": (1 << 10, 1 << 8)}
TRAIN = random_sentences(10, 6, 9)
SENTENCES = random_sentences(11, 9, 10) + random_sentences(12, 2, 1)

Part = tuple[str, int, int, int] | tuple[str, int, int, int, int]
"""The kind of an arc, end (sentence, h, m) or sibling (sentence, h, m, s), and its place."""
Scores = dict[str, torch.Tensor]


@pytest.fixture(params=CELLS)
def cells(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    most, hashed = CELLS[request.param]
    monkeypatch.setattr(plan_module, "MAX_TRIPLE_CELLS", most)
    monkeypatch.setattr(plan_module, "HASHED_TRIPLE_CELLS", hashed)
    return request.param


def fields_of(templates: TemplateSet) -> list[str]:
    return sorted({f for part in ("arc", "sibling", "end") for f in templates.fields(part)})


def prepared(
    templates: TemplateSet, kind: int, sentences: list = SENTENCES
) -> tuple[Batch, Plan, FeatureMap]:
    vocabularies = Vocabularies.build(treebank_of(TRAIN), fields_of(templates), 3)
    plan = compile_plan(templates, vocabularies)
    batch = Encoder(vocabularies).encode(treebank_of(sentences))
    return batch, plan, hashed_map(kind, plan.dense_lines)


def random_weights(
    dtype: type, plan: Plan, features: FeatureMap, seed: int = 0, *, extremes: bool = False
) -> Weights:
    rng = np.random.default_rng(seed)
    if dtype is np.float32:
        array = rng.normal(size=features.n_rows).astype(np.float32)
    else:
        ends = np.iinfo(dtype)
        array = rng.integers(ends.min, ends.max, features.n_rows, dtype, endpoint=True)
        if extremes:
            array[:] = ends.max
    return Weights(silence(array, plan, features)[:, np.newaxis])


def scored(
    batch: AnyBatch, plan: Plan, features: FeatureMap, weights: Weights, engine: str = "auto",
    **options: int,
) -> Scores:  # fmt: skip
    """Scores of all parts that the plan has."""
    given = features, weights
    found = {"arc": arc_scores(batch, plan.arcs, *given, engine=engine, **options)}
    if plan.siblings:
        found["sibling"], found["end"] = sibling_scores(
            batch, plan.siblings, *given, engine=engine, **options
        )
    return found


def parts_of(batch: Batch, plan: Plan) -> list[Part]:
    return [part for b, n in enumerate(batch.lengths.tolist()) for part in parts_over(n, plan, b)]


def parts_over(n: int, plan: Plan, b: int = 0) -> list[Part]:
    pairs = [(b, h, m) for h in range(n + 1) for m in range(1, n + 1) if h != m]
    parts = [("arc", *pair) for pair in pairs]
    if plan.siblings:
        parts += [("sibling", b, *part) for part in sibling_parts(n)]
        parts += [("end", *pair) for pair in pairs]
    return parts


def values_at(scores: Scores, parts: list[Part]) -> np.ndarray:
    arrays = {kind: each.cpu().numpy() for kind, each in scores.items()}
    return np.array([arrays[kind][place] for kind, *at in parts for place in [tuple(at)]])


def summed(
    batch: Batch, plan: Plan, features: FeatureMap, weights: Weights, parts: list[Part]
) -> np.ndarray:
    """The plain sums over the rows of parts."""
    wide = weights.array[:, 0].astype(np.float64)
    of_kind = {"arc": [rows_of_arcs(batch, b, plan.arcs, features) for b in range(len(batch))]}
    if plan.siblings:
        of_kind["sibling"] = [rows_of_siblings(batch, b, plan, features) for b in range(len(batch))]
        of_kind["end"] = [rows_of_ends(batch, b, plan, features) for b in range(len(batch))]

    def value(part: Part) -> float:
        kind, b, *at = part
        rows = of_kind[kind][b]
        if kind != "end":
            return wide[rows[tuple(at)]].sum()
        h, m = at
        side = "right" if h < m else "left"
        # A side without modifiers is to score 0, so that what it has is taken from all others.
        return wide[rows[h, m, side]].sum() - wide[rows[h, h, side]].sum()

    return np.array([value(part) for part in parts])


def assert_scores_are_sums(
    batch: Batch, plan: Plan, features: FeatureMap, weights: Weights,
    engines: Sequence[str] = ("native", "torch"),
) -> int:  # fmt: skip
    """Engines score parts as their rows say; returns how many values there are."""
    parts, n = parts_of(batch, plan), int(batch.lengths.max())
    expected = summed(batch, plan, features, weights, parts)
    for engine in engines:
        scores = scored(batch, plan, features, weights, engine)
        for kind, of_kind in scores.items():
            assert of_kind.shape == (len(batch), *[n + 1] * (3 if kind == "sibling" else 2))
            assert of_kind.dtype == (torch.float64 if weights.is_integer else torch.float32)
        if weights.is_integer:
            np.testing.assert_array_equal(values_at(scores, parts), expected)
        else:
            np.testing.assert_allclose(values_at(scores, parts), expected, rtol=1e-5, atol=2e-4)
    return len(np.unique(expected))


@pytest.mark.parametrize("name", TEMPLATES)
@pytest.mark.parametrize("kind", MAPS)
@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.float32])
def test_compiled_equals_torch_equals_the_sum_over_rows(
    name: str, kind: int, dtype: type, cells: str
) -> None:
    batch, plan, features = prepared(TEMPLATES[name].expanded(["Case"]), kind)
    weights = random_weights(dtype, plan, features)
    before = [each.copy() for each in (batch.values, batch.starts, batch.lengths, weights.array)]
    assert assert_scores_are_sums(batch, plan, features, weights) > 10
    after = batch.values, batch.starts, batch.lengths, weights.array
    assert all(np.array_equal(*pair) for pair in zip(before, after, strict=True))


@pytest.mark.parametrize("engine", ["native", "torch"])
@pytest.mark.parametrize("dtype", [np.int16, np.float32])
def test_batch_mates_padding_and_order_change_nothing(engine: str, dtype: type, cells: str) -> None:
    batch, plan, features = prepared(MIXED, 1 << 14)
    weights = random_weights(dtype, plan, features)
    together = scored(batch, plan, features, weights, engine)
    order = np.random.default_rng(0).permutation(len(batch))
    shuffled = scored(batch.select(order), plan, features, weights, engine)
    for place, b in enumerate(order.tolist()):
        alone = scored(batch.select(np.array([b])), plan, features, weights, engine)
        parts = parts_over(int(batch.lengths[b]), plan)
        expected = values_at(alone, parts)
        for scores, at in ((together, b), (shuffled, place)):
            one = {kind: of_kind[at : at + 1] for kind, of_kind in scores.items()}
            assert np.array_equal(values_at(one, parts), expected)


@pytest.mark.parametrize("dtype", [np.int16, np.float32])
@pytest.mark.parametrize("rows_at_once", [1, 16, 1000])
def test_chunks_change_nothing(dtype: type, rows_at_once: int, cells: str) -> None:
    batch, plan, features = prepared(MIXED, 100_003)
    weights = random_weights(dtype, plan, features)
    parts = parts_of(batch, plan)
    whole = scored(batch, plan, features, weights, "torch")
    cut = scored(batch, plan, features, weights, "torch", rows_at_once=rows_at_once)
    assert np.array_equal(values_at(cut, parts), values_at(whole, parts))


class CountedOperations(TorchDispatchMode):
    """Counts the operations of torch that are run."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.count += 1
        return function(*args, **kwargs or {})


def test_more_families_take_no_more_operations() -> None:
    """On a GPU most are launches, of 10 microseconds each: families go all at once."""
    counts = []
    for name in ("mcdonald-2005", "extended"):
        batch, plan, features = prepared(load_templates(name).first_order(), 1 << 14)
        weights = random_weights(np.int16, plan, features)
        scored(batch, plan, features, weights, "torch")
        with CountedOperations() as counted:
            scored(batch, plan, features, weights, "torch")
        n_families = sum(map(len, (plan.arcs.word, plan.arcs.pair, plan.arcs.between)))
        counts.append((n_families, counted.count))
    (few, by_few), (many, by_many) = counts
    assert many > 2 * few
    assert by_many < 1.2 * by_few < 300


@pytest.mark.parametrize("n", [1, 45])
def test_sentences_of_any_length_at_the_extremes_stay_exact(n: int, cells: str) -> None:
    """Odd sums of the largest weights there are."""
    batch, plan, features = prepared(MIXED, 1 << 12, [random_sentence(random.Random(5), n)])
    weights = random_weights(np.int16, plan, features, extremes=True)
    assert_scores_are_sums(batch, plan, features, weights)
    values = scored(batch, plan, features, weights)["arc"]
    assert n == 1 or (values % 2 == 1).any()


def test_arcs_of_a_long_sentence_stay_exact() -> None:
    """Sums pass 2^24, from where on float32 would round."""
    sentence = random_sentence(random.Random(5), 200)
    batch, plan, features = prepared(MIXED.first_order(), 1 << 12, [sentence])
    weights = random_weights(np.int16, plan, features, extremes=True)
    parts = parts_of(batch, plan)
    compiled = scored(batch, plan, features, weights, "native")
    in_torch = scored(batch, plan, features, weights, "torch", rows_at_once=1 << 20)
    assert np.array_equal(values_at(compiled, parts), values_at(in_torch, parts))
    assert values_at(compiled, parts).max() > 1 << 24
    rows = rows_of_arcs(batch, 0, plan.arcs, features)
    for h, m in ((0, 200), (200, 1), (1, 200), (100, 101)):
        expected = 32767 * sum(weights.array[row, 0] != 0 for row in rows[h, m])
        assert compiled["arc"][0, h, m] == expected


def test_fields_of_very_many_values_have_triples_too() -> None:
    """Places of three fields of 20,000 values take more bits than can be shifted."""
    templates = parse_set(
        template_set_text(arc=["h.pos"], sibling=["h.form s.form m.form direction distance"]), "x"
    )
    many = [str(number) for number in range(20_000)]
    of_train = Vocabularies.build(treebank_of(TRAIN), ["form", "pos"], 3).values
    vocabularies = Vocabularies({**of_train, "form": many + of_train["form"]}, 3)
    plan = compile_plan(templates, vocabularies)
    features = hashed_map(1 << 10, plan.dense_lines)
    batch = Encoder(vocabularies).encode(treebank_of(SENTENCES))
    weights = random_weights(np.int16, plan, features)
    assert assert_scores_are_sums(batch, plan, features, weights) > 15


def test_fields_with_too_many_values_share_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between families whose lines are fewer than the values: still the same on all engines."""
    monkeypatch.setattr(plan_module, "MAX_DENSE_LINES", 150)
    batch, plan, features = prepared(MIXED.first_order(), 1 << 14)
    assert plan.dense_lines <= 150
    assert all(plan.arcs.between["n_middles"] >= 2)
    assert_scores_are_sums(batch, plan, features, random_weights(np.int16, plan, features))


@pytest.mark.parametrize("engine", ["native", "torch"])
def test_no_sentences(engine: str) -> None:
    batch, plan, features = prepared(MIXED, 1 << 12)
    weights = random_weights(np.int16, plan, features)
    found = scored(batch.select(np.zeros(0, np.int64)), plan, features, weights, engine)
    assert [each.ndim for each in found.values()] == [3, 4, 3]
    assert [len(each) for each in found.values()] == [0, 0, 0]


@settings(deadline=None, max_examples=30)
@given(
    st.lists(st.sampled_from([str(t) for t in MIXED.sibling]), min_size=1, unique=True),
    st.lists(st.sampled_from([str(t) for t in MIXED.end]), unique=True),
    st.sampled_from([16, 1000, 1 << 12]),
    st.integers(0, 1000),
)
def test_any_templates_score_alike_on_all_engines(
    sibling: list[str], end: list[str], kind: int, seed: int
) -> None:
    templates = parse_set(template_set_text(arc=ARCS, sibling=sibling, end=end), "some")
    batch, plan, features = prepared(templates, kind, random_sentences(seed, 3, 6))
    assert_scores_are_sums(batch, plan, features, random_weights(np.int8, plan, features, seed))
