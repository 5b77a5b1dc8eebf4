"""Arc scores: compiled equals torch equals a plain sum over an arc's rows, however they are cut."""

import itertools
import random

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from gpuparse.data.batch import Batch
from gpuparse.data.vocabulary import Encoder, Vocabularies
from gpuparse.features import plan as plan_module
from gpuparse.features.plan import ArcPlan, compile_arcs
from gpuparse.features.templates import TemplateSet, load_templates, parse_set
from gpuparse.scorers.linear.weights import FeatureMap, Weights, hashed_map
from tests.rows import rows_of_arcs, silence
from tests.samples import random_sentence, random_sentences, template_set_text, treebank_of
from tests.scoring.forms import arc_scores, as_tensors

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
        distance=(1, 2, 5),
    ),
    "mixed",
)  # fmt: skip
TEMPLATES = {"mixed": MIXED, "mcdonald-2005": load_templates("mcdonald-2005")}
MAPS = [1 << 14, 100_003, 100, 16]
TRAIN = random_sentences(10, 6, 9)
SENTENCES = random_sentences(11, 9, 11) + random_sentences(12, 2, 1)


def prepared(
    templates: TemplateSet, kind: int, sentences: list = SENTENCES
) -> tuple[Batch, ArcPlan, FeatureMap]:
    vocabularies = Vocabularies.build(treebank_of(TRAIN), templates.fields("arc"), 3)
    plan = compile_arcs(templates, vocabularies)
    encoder = Encoder(vocabularies)
    batch = encoder.encode(treebank_of(sentences))
    return batch, plan, hashed_map(kind, plan.dense_lines)


def random_weights(
    dtype: type, plan: ArcPlan, features: FeatureMap, seed: int = 0, *, extremes: bool = False
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


def arcs_of(batch: Batch) -> list[tuple[int, int, int]]:
    return [
        (b, h, m)
        for b, n in enumerate(batch.lengths.tolist())
        for h, m in itertools.product(range(n + 1), range(1, n + 1))
        if h != m
    ]


def values_at(scores: torch.Tensor, arcs: list[tuple[int, int, int]]) -> np.ndarray:
    b, h, m = np.array(arcs).T
    return scores.numpy()[b, h, m]


@pytest.mark.parametrize("name", TEMPLATES)
@pytest.mark.parametrize("kind", MAPS)
@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.float32])
def test_compiled_equals_torch_equals_the_sum_over_rows(name: str, kind: int, dtype: type) -> None:
    batch, plan, features = prepared(TEMPLATES[name], kind)
    weights = random_weights(dtype, plan, features)
    rows = {
        (b, h, m): found
        for b in range(len(batch))
        for (h, m), found in rows_of_arcs(batch, b, plan, features).items()
    }
    arcs, longest = arcs_of(batch), max(len(sentence) for sentence in SENTENCES)
    assert set(arcs) == set(rows)
    wide = weights.array[:, 0].astype(np.float64)
    expected = np.array([wide[rows[arc]].sum() for arc in arcs])
    assert len(np.unique(expected)) > (10 if kind == 16 else 100)
    for engine in ("native", "torch"):
        scores = arc_scores(batch, plan, features, weights, engine=engine)
        assert scores.shape == (len(batch), longest + 1, longest + 1)
        if dtype is np.float32:
            assert scores.dtype == torch.float32
            np.testing.assert_allclose(values_at(scores, arcs), expected, rtol=1e-5, atol=2e-4)
        else:
            assert scores.dtype == torch.float64
            np.testing.assert_array_equal(values_at(scores, arcs), expected)


@pytest.mark.parametrize("engine", ["native", "torch"])
@pytest.mark.parametrize("dtype", [np.int16, np.float32])
@pytest.mark.parametrize("kind", [1 << 14])
def test_batch_mates_padding_and_order_change_nothing(engine: str, dtype: type, kind: int) -> None:
    batch, plan, features = prepared(MIXED, kind)
    weights = random_weights(dtype, plan, features)

    def score(batch: Batch) -> torch.Tensor:
        return arc_scores(batch, plan, features, weights, engine=engine)

    together = score(batch)
    order = np.random.default_rng(0).permutation(len(batch))
    shuffled = score(batch.select(order))
    for place, b in enumerate(order.tolist()):
        n = int(batch.lengths[b])
        alone = score(batch.select(np.array([b])))
        assert alone.shape == (1, n + 1, n + 1)
        arcs = [(0, h, m) for h in range(n + 1) for m in range(1, n + 1) if h != m]
        expected = values_at(alone, arcs)
        assert np.array_equal(values_at(together[b : b + 1], arcs), expected)
        assert np.array_equal(values_at(shuffled[place : place + 1], arcs), expected)


@pytest.mark.parametrize("dtype", [np.int16, np.float32])
@pytest.mark.parametrize("rows_at_once", [1, 1000])
def test_chunks_change_nothing(dtype: type, rows_at_once: int) -> None:
    batch, plan, features = prepared(MIXED, 100_003)
    weights = random_weights(dtype, plan, features)
    arcs = arcs_of(batch)
    whole = arc_scores(batch, plan, features, weights, engine="torch")
    cut = arc_scores(batch, plan, features, weights, engine="torch", rows_at_once=rows_at_once)
    assert np.array_equal(values_at(cut, arcs), values_at(whole, arcs))


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
        batch, plan, features = prepared(load_templates(name), 1 << 14)
        weights = random_weights(np.int16, plan, features)
        arc_scores(batch, plan, features, weights, engine="torch")
        with CountedOperations() as counted:
            arc_scores(batch, plan, features, weights, engine="torch")
        counts.append((plan.n_families, counted.count))
    (few, by_few), (many, by_many) = counts
    assert many > 2 * few
    assert by_many < 1.2 * by_few < 300


def test_a_long_sentence_at_the_extremes_stays_exact() -> None:
    """Sums pass 2^24, from where on float32 would round."""
    sentence = random_sentence(random.Random(5), 200)
    batch, plan, features = prepared(MIXED, 1 << 12, [sentence])
    weights = random_weights(np.int16, plan, features, extremes=True)
    compiled = arc_scores(batch, plan, features, weights, engine="native")
    vectorised = arc_scores(batch, plan, features, weights, engine="torch", rows_at_once=1 << 20)
    arcs = arcs_of(batch)
    assert np.array_equal(values_at(compiled, arcs), values_at(vectorised, arcs))
    assert values_at(compiled, arcs).max() > 1 << 24
    rows = rows_of_arcs(batch, 0, plan, features)
    for h, m in ((0, 200), (200, 1), (1, 200), (100, 101)):
        assert compiled[0, h, m] == 32767 * sum(weights.array[row, 0] != 0 for row in rows[h, m])


def test_integer_scores_may_be_odd_numbers_above_float32() -> None:
    batch, plan, features = prepared(MIXED, 1 << 12, random_sentences(31, 1, 1) + SENTENCES)
    weights = random_weights(np.int16, plan, features)
    scores = arc_scores(batch, plan, features, weights, engine="native")
    assert scores.dtype == torch.float64
    assert (values_at(scores, arcs_of(batch)) % 2 == 1).any()


def test_a_word_alone() -> None:
    batch, plan, features = prepared(MIXED, 1 << 12, random_sentences(1, 1, 1))
    weights = random_weights(np.int16, plan, features)
    rows = rows_of_arcs(batch, 0, plan, features)
    expected = weights.array[rows[0, 1], 0].astype(int).sum()
    for engine in ("native", "torch"):
        scores = arc_scores(batch, plan, features, weights, engine=engine)
        assert scores.shape == (1, 2, 2)
        assert scores[0, 0, 1] == expected


def test_the_batch_is_not_written_to() -> None:
    batch, plan, features = prepared(MIXED, 1 << 12)
    weights = random_weights(np.int16, plan, features)
    copies = batch.values.copy(), batch.starts.copy(), batch.lengths.copy()
    table = weights.array.copy()
    for engine in ("native", "torch"):
        arc_scores(batch, plan, features, weights, engine=engine)
    for part, copy in zip((batch.values, batch.starts, batch.lengths), copies, strict=True):
        assert np.array_equal(part, copy)
    assert np.array_equal(weights.array, table)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device on this machine")
@pytest.mark.parametrize("kind", MAPS)
def test_cuda_equals_compiled(kind: int) -> None:
    batch, plan, features = prepared(MIXED, kind)
    weights = random_weights(np.int16, plan, features)
    arcs = arcs_of(batch)
    on_cuda = arc_scores(as_tensors(batch).to(torch.device("cuda")), plan, features, weights).cpu()
    compiled = arc_scores(batch, plan, features, weights, engine="native")
    assert np.array_equal(values_at(on_cuda, arcs), values_at(compiled, arcs))


def test_fields_with_too_many_values_share_lines(monkeypatch):
    """Between families whose lines are fewer than the values: still the same on all engines."""
    monkeypatch.setattr(plan_module, "MAX_DENSE_LINES", 150)
    batch, plan, features = prepared(MIXED, 1 << 14)
    assert plan.dense_lines <= 150
    assert all(plan.between["n_middles"] >= 2)
    weights = random_weights(np.int16, plan, features)
    wide = weights.array[:, 0].astype(np.float64)
    arcs = arcs_of(batch)
    rows = [rows_of_arcs(batch, b, plan, features) for b in range(len(batch))]
    expected = [wide[rows[b][h, m]].sum() for b, h, m in arcs]
    for engine in ("native", "torch"):
        scores = arc_scores(batch, plan, features, weights, engine=engine)
        np.testing.assert_array_equal(values_at(scores, arcs), expected)
