"""Sibling and end scores: factored equals dense equals torch equals a plain sum over rows."""

import random

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuparse.data.batch import Batch
from gpuparse.data.vocabulary import Encoder, Vocabularies
from gpuparse.features import plan as plan_module
from gpuparse.features.plan import Plan, compile_plan
from gpuparse.features.templates import TemplateSet, load_templates, parse_set
from gpuparse.scorers.linear.weights import FeatureMap, Weights, hashed_map
from tests.rows import (
    end_parts,
    rows_of_ends,
    rows_of_siblings,
    sibling_parts,
    silence,
)
from tests.samples import random_sentence, random_sentences, template_set_text, treebank_of
from tests.scoring.forms import arc_scores, as_tensors, sibling_scores

ARCS = ["h.form m.form", "h.pos between.pos m.pos direction", "m.pos distance"]
MIXED = parse_set(
    template_set_text(
        arc=ARCS,
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
    "mcdonald-pereira-2006": load_templates("mcdonald-pereira-2006"),
    "extended": load_templates("extended"),
    "pairs": parse_set(template_set_text(arc=ARCS, sibling=["s.pos m.pos distance"]), "pairs"),
    "ends": parse_set(
        template_set_text(arc=ARCS, sibling=["h.pos s.pos m.pos"], end=["h.form e.pos distance"]),
        "ends",
    ),
    "triples": parse_set(template_set_text(arc=ARCS, sibling=["h.pos s.form m.pos"]), "triples"),
}
MAPS = [1 << 14, 100_003, 100]
# Which triple families are found by shifts: all; those of small fields, the others in few cells.
CELLS = {"direct": (1 << 26, 0), "hashed": (1 << 10, 1 << 8)}
TRAIN = random_sentences(10, 6, 9)
SENTENCES = random_sentences(11, 9, 10) + random_sentences(12, 2, 1)

Part = tuple[int, int, int, int] | tuple[int, int, int]
"""Siblings (sentence, h, m, s) or an end (sentence, h, m)."""
Scores = tuple[torch.Tensor, torch.Tensor]


@pytest.fixture(params=CELLS)
def cells(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    most, hashed = CELLS[request.param]
    monkeypatch.setattr(plan_module, "MAX_TRIPLE_CELLS", most)
    monkeypatch.setattr(plan_module, "HASHED_TRIPLE_CELLS", hashed)
    return request.param


def prepared(
    templates: TemplateSet, kind: int, sentences: list = SENTENCES
) -> tuple[Batch, Plan, FeatureMap]:
    fields = sorted({f for part in ("arc", "sibling", "end") for f in templates.fields(part)})
    vocabularies = Vocabularies.build(treebank_of(TRAIN), fields, 3)
    plan = compile_plan(templates, vocabularies)
    encoder = Encoder(vocabularies)
    batch = encoder.encode(treebank_of(sentences))
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


def parts_of(batch: Batch) -> list[Part]:
    return [part for b, n in enumerate(batch.lengths.tolist()) for part in parts_over(n, b)]


def parts_over(n: int, b: int = 0) -> list[Part]:
    ends = [(b, h, m) for h, m, _ in end_parts(n) if h != m]
    return [*[(b, *part) for part in sibling_parts(n)], *ends]


def values_at(scores: Scores, parts: list[Part]) -> np.ndarray:
    siblings, ends = (part.numpy() for part in scores)
    assert ends.shape == siblings.shape[:3]
    assert ends.dtype == siblings.dtype
    return np.array([(siblings if len(part) == 4 else ends)[part] for part in parts])


def of_sentence(scores: Scores, b: int) -> Scores:
    return scores[0][b : b + 1], scores[1][b : b + 1]


def summed(
    batch: Batch, plan: Plan, features: FeatureMap, weights: Weights, parts: list[Part]
) -> np.ndarray:
    """The plain sums over the rows of parts."""
    wide = weights.array[:, 0].astype(np.float64)
    rows = [rows_of_siblings(batch, b, plan, features) for b in range(len(batch))]
    ends = [rows_of_ends(batch, b, plan, features) for b in range(len(batch))]

    def value(part: Part) -> float:
        if len(part) == 4:
            b, *siblings = part
            return wide[rows[b][tuple(siblings)]].sum()
        b, h, m = part
        side = "right" if h < m else "left"
        # A side without modifiers is to score 0, so that what it has is taken from all others.
        return wide[ends[b][h, m, side]].sum() - wide[ends[b][h, h, side]].sum()

    return np.array([value(part) for part in parts])


@pytest.mark.parametrize("name", TEMPLATES)
@pytest.mark.parametrize("kind", MAPS)
@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.float32])
def test_compiled_equals_torch_equals_the_sum_over_rows(
    name: str, kind: int, dtype: type, cells: str
) -> None:
    batch, plan, features = prepared(TEMPLATES[name].expanded(["Case"]), kind)
    weights = random_weights(dtype, plan, features)
    parts, longest = parts_of(batch), max(len(sentence) for sentence in SENTENCES)
    expected = summed(batch, plan, features, weights, parts)
    assert len(np.unique(expected)) > 15
    for engine in ("native", "torch"):
        scores = sibling_scores(batch, plan.siblings, features, weights, engine=engine)
        assert scores[0].shape == (len(batch), *[longest + 1] * 3)
        if dtype is np.float32:
            assert scores[0].dtype == torch.float32
            np.testing.assert_allclose(values_at(scores, parts), expected, rtol=1e-5, atol=2e-4)
        else:
            assert scores[0].dtype == torch.float64
            np.testing.assert_array_equal(values_at(scores, parts), expected)


@pytest.mark.parametrize("engine", ["native", "torch"])
@pytest.mark.parametrize("dtype", [np.int16, np.float32])
@pytest.mark.parametrize("kind", [1 << 14])
def test_batch_mates_padding_and_order_change_nothing(
    engine: str, dtype: type, kind: int, cells: str
) -> None:
    batch, plan, features = prepared(MIXED, kind)
    weights = random_weights(dtype, plan, features)

    def score(batch: Batch) -> Scores:
        return sibling_scores(batch, plan.siblings, features, weights, engine=engine)

    together = score(batch)
    order = np.random.default_rng(0).permutation(len(batch))
    shuffled = score(batch.select(order))
    for place, b in enumerate(order.tolist()):
        n = int(batch.lengths[b])
        alone = score(batch.select(np.array([b])))
        assert alone[0].shape == (1, *[n + 1] * 3)
        parts = parts_over(n)
        expected = values_at(alone, parts)
        assert np.array_equal(values_at(of_sentence(together, b), parts), expected)
        assert np.array_equal(values_at(of_sentence(shuffled, place), parts), expected)


@pytest.mark.parametrize("dtype", [np.int16, np.float32])
@pytest.mark.parametrize("rows_at_once", [16, 1000])
def test_chunks_change_nothing(dtype: type, rows_at_once: int, cells: str) -> None:
    batch, plan, features = prepared(MIXED, 100_003)
    weights = random_weights(dtype, plan, features)
    parts = parts_of(batch)
    whole = sibling_scores(batch, plan.siblings, features, weights, engine="torch")
    cut = sibling_scores(
        batch, plan.siblings, features, weights, engine="torch", rows_at_once=rows_at_once
    )
    assert np.array_equal(values_at(cut, parts), values_at(whole, parts))


def test_a_long_sentence_at_the_extremes_stays_exact(cells: str) -> None:
    """Odd sums above 2^20 of the largest weights there are."""
    batch, plan, features = prepared(MIXED, 1 << 12, [random_sentence(random.Random(5), 45)])
    weights = random_weights(np.int16, plan, features, extremes=True)
    parts = parts_of(batch)
    expected = summed(batch, plan, features, weights, parts)
    assert expected.max() > 13 * 32767
    for engine in ("native", "torch"):
        scores = sibling_scores(batch, plan.siblings, features, weights, engine=engine)
        assert np.array_equal(values_at(scores, parts), expected)


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
    parts = parts_of(batch)
    expected = summed(batch, plan, features, weights, parts)
    assert len(np.unique(expected)) > 15
    for engine in ("native", "torch"):
        scores = sibling_scores(batch, plan.siblings, features, weights, engine=engine)
        assert np.array_equal(values_at(scores, parts), expected)


def test_a_word_alone(cells: str) -> None:
    batch, plan, features = prepared(MIXED, 1 << 12, random_sentences(1, 1, 1))
    weights = random_weights(np.int16, plan, features)
    expected, end = summed(batch, plan, features, weights, [(0, 0, 1, 0), (0, 0, 1)])
    for engine in ("native", "torch"):
        scores = sibling_scores(batch, plan.siblings, features, weights, engine=engine)
        assert scores[0].shape == (1, 2, 2, 2)
        assert scores[0][0, 0, 1, 0] == expected != 0
        assert scores[1][0, 0, 1] == end != 0


@pytest.mark.parametrize("engine", ["native", "torch"])
def test_no_sentences(engine: str) -> None:
    batch, plan, features = prepared(MIXED, 1 << 12)
    weights = random_weights(np.int16, plan, features)
    none = batch.select(np.zeros(0, np.int64))
    scores = sibling_scores(none, plan.siblings, features, weights, engine=engine)
    assert [part.ndim for part in scores] == [4, 3]
    assert [len(part) for part in scores] == [0, 0]


def test_arc_scores_are_those_of_a_set_without_siblings() -> None:
    batch, plan, features = prepared(MIXED, 1 << 12)
    fields = sorted({f for part in ("arc", "sibling", "end") for f in MIXED.fields(part)})
    bare = compile_plan(MIXED.first_order(), Vocabularies.build(treebank_of(TRAIN), fields, 3))
    weights = random_weights(np.int16, plan, features)
    few = hashed_map(1 << 12, bare.dense_lines)
    for engine in ("native", "torch"):
        ours = arc_scores(batch, plan.arcs, features, weights, engine=engine)
        theirs = arc_scores(
            batch, bare.arcs, few, Weights(weights.array[: few.n_rows].copy()), engine=engine
        )
        assert torch.equal(ours, theirs)


def test_the_batch_and_the_weights_are_not_written_to(cells: str) -> None:
    batch, plan, features = prepared(MIXED, 1 << 12)
    weights = random_weights(np.int16, plan, features)
    copies = batch.values.copy(), batch.starts.copy(), batch.lengths.copy()
    table = weights.array.copy()
    for engine in ("native", "torch"):
        sibling_scores(batch, plan.siblings, features, weights, engine=engine)
    for part, copy in zip((batch.values, batch.starts, batch.lengths), copies, strict=True):
        assert np.array_equal(part, copy)
    assert np.array_equal(weights.array, table)


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
    weights = random_weights(np.int8, plan, features, seed)
    parts = parts_of(batch)
    expected = summed(batch, plan, features, weights, parts)
    for engine in ("native", "torch"):
        scores = sibling_scores(batch, plan.siblings, features, weights, engine=engine)
        assert np.array_equal(values_at(scores, parts), expected)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device on this machine")
@pytest.mark.parametrize("kind", MAPS)
def test_cuda_equals_compiled(kind: int, cells: str) -> None:
    batch, plan, features = prepared(MIXED, kind)
    weights = random_weights(np.int16, plan, features)
    parts = parts_of(batch)
    on_cuda = sibling_scores(
        as_tensors(batch).to(torch.device("cuda")), plan.siblings, features, weights
    )
    compiled = sibling_scores(batch, plan.siblings, features, weights, engine="native")
    assert np.array_equal(
        values_at((on_cuda[0].cpu(), on_cuda[1].cpu()), parts), values_at(compiled, parts)
    )
