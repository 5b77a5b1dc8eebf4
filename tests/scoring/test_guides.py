"""Guide scores: compiled equals torch equals a sum over the rows of the arcs that are proposed."""

import random
from collections import Counter, defaultdict

import numpy as np
import pytest
import torch

from gpuparse.data.batch import Batch
from gpuparse.data.vocabulary import Encoder, Vocabularies
from gpuparse.features.plan import Plan, compile_plan
from gpuparse.features.templates import parse_set
from gpuparse.scorers.linear.weights import FeatureMap, Weights, hashed_map
from tests.oracles.arc_features import arc_features, known_values
from tests.rows import WIDE, rows_of_arcs
from tests.samples import random_sentences, template_set_text, treebank_of
from tests.scoring.forms import guide_scores

GUIDE = [
    "", "direction distance", "h.pos", "m.pos direction", "h.pos m.pos",
    "h.pos m.pos direction distance", "h.form m-1.pos",
]  # fmt: skip
ARC = ["h.pos m.pos", "h.pos m.pos direction distance", "h.form", "h.pos between.pos m.pos"]
TEMPLATES = parse_set(
    template_set_text(
        arc=ARC, guide=GUIDE, sibling=["s.pos m.pos", "h.pos s.pos m.pos"], end=["h.pos e.pos"]
    ),
    "guided",
)
SENTENCES = random_sentences(21, 12, 9)
FIELDS = ["form", "pos"]


def random_guides(sentences: list, seed: int, none: float = 0.2) -> list[list[int]]:
    """A head for every word, no tree among them; -1 for some."""
    draw = random.Random(seed)
    return [
        [
            -1 if draw.random() < none else draw.choice([h for h in range(len(s) + 1) if h != m])
            for m in range(1, len(s) + 1)
        ]
        for s in sentences
    ]


GUIDES = random_guides(SENTENCES, 1)


def prepared(kind: int) -> tuple[Batch, Plan, FeatureMap]:
    vocabularies = Vocabularies.build(treebank_of(SENTENCES), FIELDS, 3)
    plan = compile_plan(TEMPLATES, vocabularies)
    batch = Encoder(vocabularies).encode(treebank_of(SENTENCES)).guided(np.concatenate(GUIDES))
    return batch, plan, hashed_map(kind, plan.dense_lines)


def test_the_row_of_guides_says_their_heads_and_none_elsewhere() -> None:
    batch, plan, _ = prepared(1 << 12)
    assert plan.guide is not None
    row = batch.values[plan.guide.row].tolist()
    for start, heads in zip(batch.starts.tolist(), GUIDES, strict=True):
        assert row[start + 1 : start + 1 + len(heads)] == [h + 1 for h in heads]
    assert sum(value != 0 for value in row) == sum(h >= 0 for heads in GUIDES for h in heads)


@pytest.mark.parametrize("dtype", [np.int16, np.float32])
@pytest.mark.parametrize("kind", [1 << 12, 100_003])
def test_scores_are_sums_over_rows_of_proposed_arcs(kind: int, dtype: type) -> None:
    batch, plan, features = prepared(kind)
    assert plan.guide is not None
    rng = np.random.default_rng(3)
    array = rng.integers(-30_000, 30_000, (features.n_rows, 1)).astype(dtype)
    weights = Weights(array / np.float32(1000) if dtype is np.float32 else array)
    expected = np.zeros((len(batch), *[batch.places().shape[1]] * 2))
    for b, heads in enumerate(GUIDES):
        rows = rows_of_arcs(batch, b, plan.guide.arcs, features)
        for m, h in enumerate(heads, start=1):
            if h >= 0:
                expected[b, h, m] = weights.array[rows[h, m], 0].astype(float).sum()
    assert np.count_nonzero(expected) > 30
    for engine in ("native", "torch"):
        found = guide_scores(batch, plan.guide, features, weights, engine=engine)
        if dtype is np.int16:
            assert found.dtype == torch.float64
            assert np.array_equal(found[:, :, 1:].numpy(), expected[:, :, 1:])
        else:
            assert np.allclose(found.numpy()[:, :, 1:], expected[:, :, 1:], atol=1e-3)
    # The same in any company.
    alone = batch.select(np.array([4, 2]))
    n = int(alone.lengths.max()) + 1
    for engine in ("native", "torch"):
        found = guide_scores(
            alone, plan.guide, features, weights, engine=engine, rows_at_once=50
        ).double()
        assert np.allclose(found[:, :, 1:].numpy(), expected[[4, 2], :n, 1:n], atol=1e-3)


def test_rows_of_guides_are_the_features_that_their_templates_say() -> None:
    """Names of features pair off with rows, each with the arcs that it fires on."""
    batch, plan, features = prepared(WIDE)
    assert plan.guide is not None
    known = known_values(SENTENCES, FIELDS, 3)
    arcs_of_row, arcs_of_name = defaultdict(Counter), defaultdict(Counter)
    for b, sentence in enumerate(SENTENCES):
        for (h, m), rows in rows_of_arcs(batch, b, plan.guide.arcs, features).items():
            names = arc_features(GUIDE, sentence, h, m, known, 3, TEMPLATES.distance)
            assert len(rows) == sum(names.values())
            for row in rows:
                arcs_of_row[row][b, h, m] += 1
            for name, times in names.items():
                arcs_of_name[name][b, h, m] += times

    def firings(arcs: dict) -> Counter:
        return Counter(frozenset(where.items()) for where in arcs.values())

    assert firings(arcs_of_row) == firings(arcs_of_name)
    # None of them is a row of another part.
    others = {
        row
        for b in range(len(batch))
        for rows in rows_of_arcs(batch, b, plan.arcs, features).values()
        for row in rows
    }
    assert not others & set(arcs_of_row)


def test_no_family_of_any_part_shares_its_seed() -> None:
    _, plan, _ = prepared(1 << 12)
    assert plan.siblings is not None
    assert plan.guide is not None
    parts = [plan.arcs, plan.siblings.pairs, plan.siblings.ends, plan.guide.arcs]
    seeds = [s for p in parts for table in (p.word, p.pair) for s in table["seed"].tolist()]
    assert len(set(seeds)) == len(seeds)
    bare = compile_plan(
        parse_set(template_set_text(arc=ARC), "bare"), Vocabularies({"form": [], "pos": []}, 3)
    )
    assert bare.guide is None
