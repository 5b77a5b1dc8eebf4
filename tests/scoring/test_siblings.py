"""Sibling scores: factored equals dense equals torch equals a plain sum over a part's rows."""

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
from gpuparse.scoring.arcs import arc_scores
from gpuparse.scoring.cpu_siblings import make_sibling_score_scratch, score_siblings
from gpuparse.scoring.feature_map import FeatureMap, hashed_map
from gpuparse.scoring.siblings import sibling_scores
from gpuparse.scoring.weights import Weights
from tests.inference.siblings import dense
from tests.rows import full_exact_map, rows_of_siblings, sibling_parts, silence
from tests.samples import random_sentence, random_sentences, template_set_text, treebank_of

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
    "triples": parse_set(template_set_text(arc=ARCS, sibling=["h.pos s.form m.pos"]), "triples"),
}
MAPS = [1 << 14, 100_003, 100, "exact"]
# Which triple families are found by shifts: all; those of small fields, the others in few cells.
CELLS = {"direct": (1 << 26, 0), "hashed": (1 << 10, 1 << 8)}
TRAIN = random_sentences(10, 6, 9)
SENTENCES = random_sentences(11, 9, 10) + random_sentences(12, 2, 1)

Part = tuple[int, int, int, int]


@pytest.fixture(params=CELLS)
def cells(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    most, hashed = CELLS[request.param]
    monkeypatch.setattr(plan_module, "MAX_TRIPLE_CELLS", most)
    monkeypatch.setattr(plan_module, "HASHED_TRIPLE_CELLS", hashed)
    return request.param


def prepared(
    templates: TemplateSet, kind: int | str, sentences: list = SENTENCES
) -> tuple[Batch, Plan, FeatureMap]:
    fields = sorted({*templates.fields("arc"), *templates.fields("sibling")})
    vocabularies = Vocabularies.build(treebank_of(TRAIN), fields, 3)
    plan = compile_plan(templates, vocabularies)
    encoder = Encoder(vocabularies)
    batch = encoder.encode(treebank_of(sentences))
    if kind == "exact":
        # Built from other sentences, so that some keys are missing.
        return batch, plan, full_exact_map(encoder.encode(treebank_of(TRAIN)), plan)
    return batch, plan, hashed_map(int(kind), plan.dense_lines)


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
    return [(b, *part) for b, n in enumerate(batch.lengths.tolist()) for part in sibling_parts(n)]


def values_at(scores: torch.Tensor, parts: list[Part]) -> np.ndarray:
    b, h, m, s = np.array(parts).T
    return scores.numpy()[b, h, m, s]


def summed(
    batch: Batch, plan: Plan, features: FeatureMap, weights: Weights, parts: list[Part]
) -> np.ndarray:
    """The plain sums over the rows of parts."""
    wide = weights.array[:, 0].astype(np.float64)
    rows = [rows_of_siblings(batch, b, plan, features) for b in range(len(batch))]
    return np.array([wide[rows[b][part]].sum() for b, *part in parts for part in [tuple(part)]])


@pytest.mark.parametrize("name", TEMPLATES)
@pytest.mark.parametrize("kind", MAPS)
@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.float32])
def test_compiled_equals_torch_equals_the_sum_over_rows(
    name: str, kind: int | str, dtype: type, cells: str
) -> None:
    batch, plan, features = prepared(TEMPLATES[name].expanded(["Case"]), kind)
    weights = random_weights(dtype, plan, features)
    parts, longest = parts_of(batch), max(len(sentence) for sentence in SENTENCES)
    expected = summed(batch, plan, features, weights, parts)
    assert len(np.unique(expected)) > 15
    for backend in ("cpu", "torch"):
        scores = sibling_scores(batch, plan.siblings, features, weights, backend=backend)
        assert scores.shape == (len(batch), *[longest + 1] * 3)
        if dtype is np.float32:
            assert scores.dtype == torch.float32
            np.testing.assert_allclose(values_at(scores, parts), expected, rtol=1e-5, atol=2e-4)
        else:
            assert scores.dtype == torch.float64
            np.testing.assert_array_equal(values_at(scores, parts), expected)


@pytest.mark.parametrize("name", TEMPLATES)
@pytest.mark.parametrize("dtype", [np.int16, np.float32])
def test_the_factored_scores_are_the_dense_ones(name: str, dtype: type, cells: str) -> None:
    """What search reads, added up as its definition says; one scratch for all sentences."""
    batch, plan, features = prepared(TEMPLATES[name].expanded(["Case"]), 100_003)
    weights = random_weights(dtype, plan, features)
    whole = sibling_scores(batch, plan.siblings, features, weights, backend="cpu")
    sums = np.dtype(np.float32 if dtype is np.float32 else np.int32)
    longest = int(batch.lengths.max())
    scratch = make_sibling_score_scratch(plan.siblings, longest + 3, features.is_exact, sums)
    for b, (start, n) in enumerate(zip(batch.starts, batch.lengths.tolist(), strict=True)):
        factored = score_siblings(
            batch.values.numpy(), int(start), n, plan.siblings, weights.array[:, 0],
            features.rows, scratch,
        )  # fmt: skip
        cut = factored._replace(
            first=factored.first[: n + 1, : n + 1],
            pair=factored.pair[: n + 1, : n + 1],
            places=factored.places[:, :, : n + 1],
            masks=factored.masks[:, :, : n + 1],
        )
        scores = dense(cut)
        parts = np.array(sibling_parts(n)).T
        expected = whole[b].numpy()[tuple(parts)]
        if dtype is np.float32:  # the factored ones are added in float64
            np.testing.assert_allclose(scores[tuple(parts)], expected, rtol=1e-5, atol=1e-5)
        else:
            np.testing.assert_array_equal(scores[tuple(parts)], expected)


@pytest.mark.parametrize("backend", ["cpu", "torch"])
@pytest.mark.parametrize("dtype", [np.int16, np.float32])
@pytest.mark.parametrize("kind", [1 << 14, "exact"])
def test_batch_mates_padding_and_order_change_nothing(
    backend: str, dtype: type, kind: int | str, cells: str
) -> None:
    batch, plan, features = prepared(MIXED, kind)
    weights = random_weights(dtype, plan, features)

    def score(batch: Batch) -> torch.Tensor:
        return sibling_scores(batch, plan.siblings, features, weights, backend=backend)

    together = score(batch)
    order = torch.from_numpy(np.random.default_rng(0).permutation(len(batch)))
    shuffled = score(batch.select(order))
    for place, b in enumerate(order.tolist()):
        n = int(batch.lengths[b])
        alone = score(batch.select(torch.tensor([b])))
        assert alone.shape == (1, *[n + 1] * 3)
        parts = [(0, *part) for part in sibling_parts(n)]
        expected = values_at(alone, parts)
        assert np.array_equal(values_at(together[b : b + 1], parts), expected)
        assert np.array_equal(values_at(shuffled[place : place + 1], parts), expected)


@pytest.mark.parametrize("dtype", [np.int16, np.float32])
@pytest.mark.parametrize("rows_at_once", [1, 1000, 30_000])
def test_chunks_change_nothing(dtype: type, rows_at_once: int, cells: str) -> None:
    batch, plan, features = prepared(MIXED, 100_003)
    weights = random_weights(dtype, plan, features)
    parts = parts_of(batch)
    whole = sibling_scores(batch, plan.siblings, features, weights, backend="torch")
    cut = sibling_scores(
        batch, plan.siblings, features, weights, backend="torch", rows_at_once=rows_at_once
    )
    assert np.array_equal(values_at(cut, parts), values_at(whole, parts))


@pytest.mark.parametrize("threads", [1, 3])
def test_threads_change_nothing(threads: int) -> None:
    # So many operations that several threads start.
    batch, plan, features = prepared(MIXED, 1 << 14, random_sentences(21, 12, 70))
    weights = random_weights(np.int16, plan, features)
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(threads)
        scores = sibling_scores(batch, plan.siblings, features, weights, backend="cpu")
    finally:
        torch.set_num_threads(before)
    for b in (0, 5, 11):
        alone = sibling_scores(
            batch.select(torch.tensor([b])), plan.siblings, features, weights, backend="cpu"
        )
        parts = [(0, *part) for part in sibling_parts(int(batch.lengths[b]))]
        assert np.array_equal(values_at(scores[b : b + 1], parts), values_at(alone, parts))


def test_a_long_sentence_at_the_extremes_stays_exact(cells: str) -> None:
    """Odd sums above 2^20 of the largest weights there are."""
    batch, plan, features = prepared(MIXED, 1 << 12, [random_sentence(random.Random(5), 45)])
    weights = random_weights(np.int16, plan, features, extremes=True)
    parts = parts_of(batch)
    expected = summed(batch, plan, features, weights, parts)
    assert expected.max() > 13 * 32767
    for backend in ("cpu", "torch"):
        scores = sibling_scores(batch, plan.siblings, features, weights, backend=backend)
        assert np.array_equal(values_at(scores, parts), expected)


def test_a_word_alone(cells: str) -> None:
    batch, plan, features = prepared(MIXED, 1 << 12, random_sentences(1, 1, 1))
    weights = random_weights(np.int16, plan, features)
    (expected,) = summed(batch, plan, features, weights, [(0, 0, 1, 0)])
    for backend in ("cpu", "torch"):
        scores = sibling_scores(batch, plan.siblings, features, weights, backend=backend)
        assert scores.shape == (1, 2, 2, 2)
        assert scores[0, 0, 1, 0] == expected != 0


@pytest.mark.parametrize("backend", ["cpu", "torch"])
def test_no_sentences(backend: str) -> None:
    batch, plan, features = prepared(MIXED, 1 << 12)
    weights = random_weights(np.int16, plan, features)
    none = batch.select(torch.tensor([], dtype=torch.int64))
    scores = sibling_scores(none, plan.siblings, features, weights, backend=backend)
    assert scores.shape[0] == 0
    assert scores.ndim == 4


def test_arc_scores_are_those_of_a_set_without_siblings() -> None:
    batch, plan, features = prepared(MIXED, 1 << 12)
    fields = sorted({*MIXED.fields("arc"), *MIXED.fields("sibling")})
    bare = compile_plan(MIXED.first_order(), Vocabularies.build(treebank_of(TRAIN), fields, 3))
    weights = random_weights(np.int16, plan, features)
    few = hashed_map(1 << 12, bare.dense_lines)
    for backend in ("cpu", "torch"):
        ours = arc_scores(batch, plan.arcs, features, weights, backend=backend)
        theirs = arc_scores(
            batch, bare.arcs, few, Weights(weights.array[: few.n_rows].copy()), backend=backend
        )
        assert torch.equal(ours, theirs)


def test_the_batch_and_the_weights_are_not_written_to(cells: str) -> None:
    batch, plan, features = prepared(MIXED, 1 << 12)
    weights = random_weights(np.int16, plan, features)
    copies = batch.values.clone(), batch.starts.clone(), batch.lengths.clone()
    table = weights.array.copy()
    for backend in ("cpu", "torch"):
        sibling_scores(batch, plan.siblings, features, weights, backend=backend)
    for part, copy in zip((batch.values, batch.starts, batch.lengths), copies, strict=True):
        assert torch.equal(part, copy)
    assert np.array_equal(weights.array, table)


@settings(deadline=None, max_examples=30)
@given(
    st.lists(st.sampled_from([str(t) for t in MIXED.sibling]), min_size=1, unique=True),
    st.sampled_from([16, 1000, 1 << 12, "exact"]),
    st.integers(0, 1000),
)
def test_any_templates_score_alike_on_all_backends(
    sibling: list[str], kind: int | str, seed: int
) -> None:
    templates = parse_set(template_set_text(arc=ARCS, sibling=sibling), "some")
    batch, plan, features = prepared(templates, kind, random_sentences(seed, 3, 6))
    weights = random_weights(np.int8, plan, features, seed)
    parts = parts_of(batch)
    expected = summed(batch, plan, features, weights, parts)
    for backend in ("cpu", "torch"):
        scores = sibling_scores(batch, plan.siblings, features, weights, backend=backend)
        assert np.array_equal(values_at(scores, parts), expected)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device on this machine")
@pytest.mark.parametrize("kind", MAPS)
def test_cuda_equals_compiled(kind: int | str, cells: str) -> None:
    batch, plan, features = prepared(MIXED, kind)
    weights = random_weights(np.int16, plan, features)
    parts = parts_of(batch)
    on_cuda = sibling_scores(batch.to(torch.device("cuda")), plan.siblings, features, weights).cpu()
    compiled = sibling_scores(batch, plan.siblings, features, weights, backend="cpu")
    assert np.array_equal(values_at(on_cuda, parts), values_at(compiled, parts))
