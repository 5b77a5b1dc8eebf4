"""Word vectors as whole numbers: native and torch forms are the sums by definition."""

from dataclasses import replace
from functools import partial
from random import Random
from typing import Any

import numpy as np
import pytest
import torch

from gpuparse import native
from gpuparse.data.batch import Batch
from gpuparse.data.vocabulary import Encoder, Vocabularies
from gpuparse.errors import ScoreError
from gpuparse.features.plan import (
    LabelPlan,
    Plan,
    compile_arcs,
    compile_joint_labels,
    compile_labels,
    compile_plan,
)
from gpuparse.features.templates import parse_set
from gpuparse.features.word_vectors import FURTHER
from gpuparse.inference.decoders import DECODERS
from gpuparse.inference.scores import Scores, read_cells
from gpuparse.inference.searches import decode
from gpuparse.scorers.linear.labels import all_label_scores, arc_label_scores
from gpuparse.scorers.linear.weights import (
    FeatureMap,
    JointLabels,
    Weights,
    hashed_map,
    joint_labels,
)
from gpuparse.scorers.native import GraphHeads, make_scorer, make_search, sentences_of
from gpuparse.scorers.tensors import TensorBatch, first_best
from gpuparse.scorers.vectors import scores as torch_form
from gpuparse.scorers.vectors.scorer import VectorScorer
from gpuparse.scorers.vectors.scores import NodeVectors
from gpuparse.scorers.vectors.word_vectors import TERMS, WordVectors, check_vectors, frozen, merged
from tests.labels import best_labels
from tests.oracles.higher_order_scores import dense_higher_scores
from tests.samples import random_sentence, random_sentences, template_set_text, treebank_of
from tests.scoring.forms import arc_scores, as_tensors, sibling_scores
from tests.vectors import (
    float_pairs,
    float_scores,
    nodes_of,
    random_plan,
    random_weights,
    vector_arc_scores,
    vector_pair_scores,
    whole_further,
    whole_scores,
)

SENTENCES = [*random_sentences(3, 4, 9), [], *random_sentences(4, 3, 1)]
SIZES = [(0, 5, 3), (0, 40, 32), (7, 18, 6), (64, 33, 40), (192, 96, 64)]  # hidden, arc, label
LABELS = 5


def sample_batch() -> tuple[Batch, Vocabularies]:
    treebank = treebank_of(random_sentences(1, 9, 9))
    vocabularies = Vocabularies.build(treebank, ["form", "pos", "lemma"], 3)
    found = Encoder(vocabularies).encode(treebank_of([s for s in SENTENCES if s]))
    batch = Encoder(vocabularies).encode(treebank)
    # A sentence without words, in the margin of another one.
    starts = np.append(found.starts, found.starts[0])
    return Batch(found.values, starts, np.append(found.lengths, 0)), vocabularies, batch


def sample_vectors(
    hidden: int, arc: int, label: int, seed: int = 1, n_labels: int = LABELS, **further: int
) -> tuple[Batch, WordVectors]:
    random = np.random.default_rng(seed)
    batch, _, train = sample_batch()
    plan = random_plan(random, batch, [0, -1, 2, 0, 1, -3, 0], 30)
    weights = random_weights(random, plan, hidden, arc, label, n_labels, **further)
    return batch, frozen(weights, plan, train)


def extreme_vectors(hidden: int, seed: int) -> tuple[Batch, WordVectors]:
    """Vectors whose numbers all lie at the ends of their ranges."""
    random = np.random.default_rng(seed)
    batch, vectors = sample_vectors(hidden, 64, 32, seed, **dict.fromkeys(FURTHER, 64))

    def ends(array: np.ndarray, end: int) -> np.ndarray:
        return random.choice([-end, end], array.shape).astype(array.dtype)

    most = 32767 - 127 * 127
    vectors = vectors._replace(
        **{
            name: ends(getattr(vectors, name), 127)
            for name in (
                "table",
                "heads",
                "modifiers",
                *(TERMS[kind][0] for kind in ("arc", *FURTHER)),
            )
        },
        scales=np.full_like(vectors.scales, 255),
        labels=ends(vectors.labels, 127),
        bias=ends(vectors.bias, 1 << 20),
        shift=2,
        head_shifts=np.zeros_like(vectors.head_shifts),
        modifier_shifts=random.integers(0, 14, vectors.modifier_shifts.shape).astype(np.int32),
        **{
            name: ends(getattr(vectors, name), most)
            for names in TERMS.values()
            for name in names[1:3]
        },
    )
    check_vectors(vectors)
    return batch, vectors


def assert_scores(batch: Batch, vectors: WordVectors, *further: str) -> None:
    """Both engines score arcs, and pairs of further kinds, as defined."""
    for kind in ("arc", *further):
        of_kind = vector_arc_scores if kind == "arc" else partial(vector_pair_scores, kind)
        forms = {name: of_kind(batch, vectors, engine=name).numpy() for name in ("native", "torch")}
        for b, n in enumerate(batch.lengths.tolist()):
            wanted = (
                whole_scores(vectors, batch, b)[0]
                if kind == "arc"
                else whole_further(kind, vectors, batch, b)
            )
            i, m = np.nonzero(~np.eye(n + 1, dtype=bool) & (np.arange(n + 1) > 0))
            for name, scores in forms.items():
                assert np.array_equal(scores[b][i, m], np.array(wanted)[i, m]), (kind, name)


@pytest.mark.parametrize(("sizes", "size"), [*((sizes, 3) for sizes in SIZES), (SIZES[-1], 64)])
@pytest.mark.parametrize("kind", FURTHER)
def test_scores_of_pairs_are_those_by_definition(
    kind: str, sizes: tuple[int, int, int], size: int
) -> None:
    batch, vectors = sample_vectors(*sizes, **{kind: size})
    check_vectors(vectors)
    assert_scores(batch, vectors, kind)


@pytest.mark.parametrize("kind", FURTHER)
def test_pairs_that_are_not_scored_have_no_scores(kind: str) -> None:
    batch, vectors = sample_vectors(7, 18, 6)
    with pytest.raises(ValueError, match="score_vectors_batch: sizes of arrays do not agree"):
        vector_pair_scores(kind, batch, vectors)


@pytest.mark.parametrize("sizes", SIZES)
def test_arc_scores_are_those_by_definition(sizes: tuple[int, int, int]) -> None:
    batch, vectors = sample_vectors(*sizes)
    check_vectors(vectors)
    assert_scores(batch, vectors)


@pytest.mark.parametrize("hidden", [0, 64])
def test_numbers_at_the_ends_of_their_ranges_are_summed_exactly(hidden: int) -> None:
    for seed in range(2):
        assert_scores(*extreme_vectors(hidden, seed), *FURTHER)


def test_rows_that_float32_cannot_sum_are_summed_as_float64(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(torch_form, "_MOST_SCALED", 0)
    batch, vectors = sample_vectors(7, 18, 6, sibling=12)
    assert_scores(batch, vectors, "sibling")


@pytest.mark.parametrize("sizes", SIZES)
def test_whole_numbers_are_near_the_learned_ones(sizes: tuple[int, int, int]) -> None:
    random = np.random.default_rng(2)
    *_, train = sample_batch()
    plan = random_plan(random, train, [0, -1, 2, 0, 1], 30)
    weights = random_weights(random, plan, *sizes, LABELS, **dict.fromkeys(FURTHER, 12))
    vectors = frozen(weights, plan, train).with_points(100.0, 100.0)
    exact: list[list[np.ndarray]] = [[] for _ in TERMS]
    near: list[list[np.ndarray]] = [[] for _ in TERMS]
    for b in range(4):
        floats = [*float_scores(weights, plan, train, b)]
        floats += [float_pairs(kind, weights, plan, train, b) for kind in FURTHER]
        wholes = [*whole_scores(vectors, train, b)]
        wholes += [whole_further(kind, vectors, train, b) for kind in FURTHER]
        for kind, (one, other) in enumerate(zip(floats, wholes, strict=True)):
            exact[kind].append(one.ravel())
            near[kind].append(np.array(other)[..., : one.shape[-1]].ravel() / 100)
    for ours, theirs in zip(map(np.concatenate, near), map(np.concatenate, exact), strict=True):
        error = ours - theirs
        assert np.sqrt((error**2).mean()) < (0.2 if sizes[0] else 0.05) * theirs.std()


def labelled(
    vectors: WordVectors, dtype: type
) -> tuple[Plan, Weights, FeatureMap, JointLabels, Weights]:
    """Arc templates, and labels that are found with the trees, with their weights."""
    _, vocabularies, _ = sample_batch()
    random = np.random.default_rng(5)
    text = template_set_text(
        arc=["h.pos m.pos distance", "m.form"], label=["m.pos", "h.form m.pos"]
    )
    templates = parse_set(text, "set").expanded(set())
    features = hashed_map(1024, 0)
    weights = Weights(random.integers(-99, 99, (features.n_rows, 1)).astype(dtype))
    lines = Weights(random.integers(-99, 99, (64, LABELS)).astype(dtype))
    plan = Plan(compile_arcs(templates, vocabularies))
    joint = joint_labels(compile_joint_labels(templates, vocabularies), lines, LABELS)
    return plan, weights, features, joint, lines


@pytest.mark.parametrize("dtype", [np.int8, np.int16])
def test_templates_and_vectors_are_added_for_arcs_and_joint_labels(dtype: type) -> None:
    batch, vectors = sample_vectors(64, 33, 40)
    plan, weights, features, joint, _ = labelled(vectors, dtype)
    nodes = batch.n_nodes
    found = []
    for given in (vectors, None):
        scorer = make_scorer(plan, weights, features.rows, joint, given)
        scores = np.zeros((len(batch), nodes, nodes, LABELS))
        native.call("score_labels_batch", sentences_of(batch), scorer, scores)
        found.append(scores)
    for b, n in enumerate(batch.lengths.tolist()):
        _, labels = whole_scores(vectors, batch, b)
        h, m = np.nonzero(~np.eye(n + 1, dtype=bool) & (np.arange(n + 1) > 0))
        more = found[0][b][h, m] - found[1][b][h, m]
        expected = np.array(labels)[h, m, :LABELS]
        assert np.array_equal(more, expected)


def dense_parts(
    batch: TensorBatch, plan: Plan, weights: Weights, features: FeatureMap, vectors: WordVectors
) -> tuple[dict[str, torch.Tensor], NodeVectors]:
    """Scores of all parts in torch, with those of vectors added."""
    nodes, given = nodes_of(batch, vectors), (features, weights)
    arcs = arc_scores(batch, plan.arcs, *given, engine="torch").double()
    parts = {"arc": nodes.with_templates(arcs)}
    if plan.siblings:
        parts["sibling"], parts["end"] = sibling_scores(
            batch, plan.siblings, *given, engine="torch"
        )
    is_arc = read_cells(batch.lengths, batch.n_nodes)
    for kind in ("grandparent", "tri_sibling") if plan.higher else ():
        parts[kind] = dense_higher_scores(kind, is_arc, batch, plan.higher, *given)[..., 0]
    for kind in FURTHER:
        more = nodes.parts(kind)
        if more is not None and kind in parts:
            parts[kind] = parts[kind] + more
    if plan.higher and plan.higher.only_last:  # of an outermost modifier alone, without a sibling
        of_last = parts.pop("grandparent").unsqueeze(3)
        parts["outermost"] = of_last.expand(*of_last.shape[:3], *is_arc.shape[1:])
    return parts, nodes


@pytest.mark.parametrize("dtype", [np.int8, np.int16])
@pytest.mark.parametrize("decoder", ["eisner", "chu_liu_edmonds"])
@pytest.mark.parametrize("alone", [False, True])
def test_native_parsing_finds_the_trees_of_dense_scores(
    dtype: type, decoder: str, alone: bool
) -> None:
    batch, vectors = sample_vectors(64, 33, 40)
    plan, weights, features, joint, lines = labelled(vectors, dtype)
    if alone:
        empty = parse_set("word_vectors: {hidden: 0, arc: 1, label: 0, templates: [w.pos]}", "set")
        _, vocabularies, _ = sample_batch()
        plan = Plan(compile_arcs(empty, vocabularies))
        lines = Weights(np.zeros((16, LABELS), dtype))
        joint = joint_labels(compile_joint_labels(empty, vocabularies), lines, LABELS)
    struct = make_scorer(plan, weights, features.rows, joint, vectors)
    search = make_search(decoder, single_root=True)
    ours = np.full((2, batch.values.shape[1]), -1, np.int64)
    some = batch.select(np.flatnonzero(batch.lengths))
    native.call("parse_batch", sentences_of(some), struct, search, None, *ours, None)
    tensors = as_tensors(some)
    parts, nodes = dense_parts(tensors, plan, weights, features, vectors)
    labels = all_label_scores(tensors, joint.plan, lines).double()
    labels = labels + nodes.all_labels()[..., :LABELS]
    scores = Scores(parts["arc"] + labels.amax(-1), tensors.lengths)
    heads = decode(decoder, scores, single_root=True, engine="torch").heads
    b, m = torch.arange(len(some))[:, None], torch.arange(some.n_nodes)
    found = first_best(labels[b, heads.clamp(min=0), m])
    is_word = heads >= 0
    places = tensors.places()[is_word].numpy()
    assert np.array_equal(ours[0, places], heads[is_word])
    assert np.array_equal(ours[1, places], found[is_word])
    # One sentence at a time, in the other order.
    again = np.full_like(ours, -1)
    for k in reversed(range(len(some))):
        one = sentences_of(some.select(np.array([k])))
        native.call("parse_batch", one, struct, search, None, *again, None)
    assert np.array_equal(ours, again)


@pytest.mark.parametrize("dtype", [np.int8, np.int16])
@pytest.mark.parametrize(
    ("decoder", "kind", "siblings"),
    [
        ("eisner_sibling", "sibling", True), ("hill_climb", "sibling", True),
        ("eisner_sibling", "sibling", False), ("hill_climb", "sibling", False),
        ("eisner_grand_sibling", "sibling", True), ("eisner_grand_sibling", "sibling", False),
        ("eisner_grand_sibling", "grandparent", True),
        ("eisner_tri_sibling", "grandparent", True),
    ],
)  # fmt: skip
def test_native_parsing_adds_the_scores_of_pairs(
    dtype: type, decoder: str, kind: str, siblings: bool
) -> None:
    """siblings: whether templates score siblings, too."""
    batch, vectors = sample_vectors(20, 18, 6, **{kind: 12})
    vectors = vectors.with_points(60.0, 1.0)  # about as large as the weights of templates
    _, vocabularies, _ = sample_batch()
    random = np.random.default_rng(6)
    text = template_set_text(
        arc=["h.pos m.pos distance"], sibling=["s.pos m.pos", "h.pos s.pos m.pos"]
    )
    text += "grandparent:\n  - templates: [g.pos m.pos]\n"
    text += "word_vectors: {hidden: 8, arc: 4, label: 4, sibling: 4, templates: [w.pos]}\n"
    text += "tri_sibling:\n  - templates: [t.pos m.pos]\n"
    templates = parse_set(text, "set").expanded(set())
    templates = templates.only(DECODERS[decoder].parts)
    if not siblings:
        templates = replace(templates, sibling=())
    is_higher = DECODERS[decoder].is_higher_order
    plan = compile_plan(templates, vocabularies, higher=is_higher)
    features = hashed_map(1 << 14, plan.dense_lines)
    weights = Weights(random.integers(-99, 99, (features.n_rows, 1)).astype(dtype))
    some = batch.select(np.flatnonzero(batch.lengths))
    search, tensors, found = make_search(decoder, single_root=False), as_tensors(some), {}
    for name, given in (
        ("with", vectors),
        ("without", vectors._replace(**{f"{kind}_multiplier": 0})),
    ):
        scorer = make_scorer(plan, weights, features.rows, None, given)
        trees = found[name] = np.full(batch.values.shape[1], -1, np.int64)
        native.call("parse_batch", sentences_of(some), scorer, search, None, trees, None, None)
        parts, _ = dense_parts(tensors, plan, weights, features, given)
        arcs = parts.pop("arc")
        heads = decode(decoder, Scores(arcs, tensors.lengths, **parts)).heads
        is_word = heads >= 0
        assert np.array_equal(trees[tensors.places()[is_word].numpy()], heads[is_word]), name
    assert not np.array_equal(found["with"], found["without"])


@pytest.mark.parametrize("points", [2.0, 60.0])  # many trees of one score, and few
@pytest.mark.parametrize("single_root", [False, True])
@pytest.mark.parametrize("scale", [0.01, 20.0])  # sums of plain numbers, and of scaled ones
def test_siblings_of_vectors_alone_are_those_beside_templates_of_no_weight(
    points: float, single_root: bool, scale: float
) -> None:
    _, vocabularies, _ = sample_batch()
    draw = Random(9)
    lengths = [*range(1, 20), *range(157, 164)]  # the search of longer ones is another one
    words = [random_sentence(draw, n) for n in lengths]
    batch = Encoder(vocabularies).encode(treebank_of(words))
    _, vectors = sample_vectors(20, 18, 6, sibling=12)
    vectors = vectors.with_points(points, 1.0)
    search, found = make_search("eisner_sibling", single_root=single_root), []
    section = "word_vectors: {hidden: 8, arc: 4, label: 4, sibling: 4, templates: [w.pos]}\n"
    for siblings in (["s.pos m.pos", "h.pos s.pos m.pos"], []):
        text = template_set_text(arc=["m.pos"], sibling=siblings) + section
        templates = parse_set(text, "set").expanded(set())
        assert templates.scores("sibling")
        plan = compile_plan(templates, vocabularies)
        features = hashed_map(1 << 14, plan.dense_lines)
        weights = Weights(np.zeros((features.n_rows, 1), np.int16))
        scorer = make_scorer(plan, weights, features.rows, None, vectors)
        trees = np.full((1, batch.n_tokens), -1, np.int64)
        native.call("parse_batch", sentences_of(batch), scorer, search, None, trees[0], None, None)
        probabilities, sums = np.full((2, *trees.shape), np.nan), np.zeros(len(batch))
        native.call(
            "find_marginals_batch", sentences_of(batch), scorer, search, scale, 1.0, False, trees,
            trees, *probabilities, sums,
        )  # fmt: skip
        found.append((trees[0], probabilities[0], sums))
    for one, other in zip(*found, strict=True):
        assert np.array_equal(one, other, equal_nan=True)
    trees = found[0][0].copy()
    assert len(np.unique(trees)) > 20
    of_arcs = vectors._replace(sibling_multiplier=0)
    scorer = make_scorer(plan, weights, features.rows, None, of_arcs)
    native.call("parse_batch", sentences_of(batch), scorer, search, None, trees, None, None)
    assert not np.array_equal(trees, found[0][0])


@pytest.mark.parametrize("dtype", [np.int8, np.int16])
@pytest.mark.parametrize("n_labels", [1, 5, 16, 37])
def test_labels_of_trees_and_graphs(dtype: type, n_labels: int) -> None:
    batch, vectors = sample_vectors(7, 18, 6, n_labels=n_labels)
    _, vocabularies, _ = sample_batch()
    text = template_set_text(label=["m.pos h.pos", "g.pos m.form", "p.pos m.pos direction"])
    plan = compile_labels(parse_set(text, "set").expanded(set()), vocabularies)
    random = np.random.default_rng(7)
    weights = Weights(random.integers(-99, 99, (64, n_labels)).astype(dtype))
    heads = torch.full((len(batch), batch.n_nodes), -1)
    arcs = torch.zeros(len(batch), batch.n_nodes, batch.n_nodes, dtype=torch.bool)
    for b, n in enumerate(batch.lengths.tolist()):
        for m in range(1, n + 1):
            heads[b, m] = int(random.integers(m))
            arcs[b, heads[b, m], m] = True
            arcs[b, (m + 1) % n if n > 1 else 0, m] = True
        arcs[b].fill_diagonal_(False)
    scorer = VectorScorer(vectors, n_labels).in_torch()
    part = scorer.part(scorer.send(batch, heads.device), batch)
    graphs = arcs.transpose(1, 2).nonzero(as_tuple=True)
    of_graphs = graphs[0], graphs[2], graphs[1]
    nodes = torch.arange(batch.n_nodes).expand_as(heads)
    sentences = torch.arange(len(batch)).unsqueeze(1).expand_as(heads)
    of_trees = sentences[heads >= 0], heads[heads >= 0], nodes[heads >= 0]

    def in_torch(arcs_of: Any, plan: LabelPlan, weights: Weights) -> torch.Tensor:
        before = arc_label_scores(as_tensors(batch), heads, arcs_of, plan, weights)
        return scorer.label_scores(part, heads, arcs_of, before)

    def natively(arcs_of: Any, plan: LabelPlan, weights: Weights, primary: Any) -> torch.Tensor:
        """Arcs are sentence by sentence, words ascending."""
        b, h, m = (each.numpy() for each in arcs_of)
        ragged = np.full(batch.n_tokens, -1, np.int64)
        places = as_tensors(batch).places()
        ragged[places[heads >= 0]] = heads[heads >= 0]
        tokens = places.numpy()[b, m]
        order = np.argsort(tokens, kind="stable")
        starts = np.concatenate([[0], np.cumsum(np.bincount(tokens, minlength=len(ragged)))])
        found = np.full(len(h), -1, np.int64)
        given = GraphHeads(starts, np.ascontiguousarray(h[order]), primary)
        native.call(
            "label_batch", sentences_of(batch), plan, weights.array, vectors, ragged, given, found
        )
        return torch.from_numpy(found[np.argsort(order)])

    everything = np.ones(n_labels, bool)
    ours = natively(of_trees, plan, weights, everything)
    assert torch.equal(ours, first_best(in_torch(of_trees, plan, weights)))
    without = best_labels(batch, heads, plan, weights, engine="native")[heads >= 0]
    assert n_labels == 1 or not torch.equal(ours, without)
    primary = np.ones(n_labels, bool)
    primary[: n_labels // 2] = False
    b, h, m = of_graphs
    refused = (heads[b, m] == h).unsqueeze(1) & ~torch.from_numpy(primary)
    scores = in_torch(of_graphs, plan, weights).masked_fill(refused, -torch.inf)
    assert torch.equal(natively(of_graphs, plan, weights, primary), first_best(scores))
    # Vectors alone: no templates.
    zeros = Weights(np.zeros((1, n_labels), np.int8))
    empty = compile_labels(parse_set(template_set_text(arc=["h.pos"]), "set"), vocabularies)
    found = natively(of_trees, empty, zeros, everything)
    assert torch.equal(found, first_best(in_torch(of_trees, empty, zeros)))
    alone = torch.full_like(heads, -1)
    alone[heads >= 0] = found
    for b, n in enumerate(batch.lengths.tolist()):
        _, labels = whole_scores(vectors, batch, b)
        for m in range(1, n + 1):
            of_arc = labels[int(heads[b, m])][m][:n_labels]
            assert int(alone[b, m]) == of_arc.index(max(of_arc))


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("scales", lambda a: a[:-1], "scales has another type or shape"),
        ("heads", lambda a: a.astype(np.int16), "heads has another type"),
        ("shift", lambda _: 31, "shifts"),
        ("bias", lambda a: np.full_like(a, 1 << 30), "sums of rows"),
        ("arc_modifiers", lambda a: np.full_like(a, 32767), "products are too large"),
        ("arc_constants", lambda a: np.full_like(a, 1 << 30), "sums of products"),
        ("arc_multiplier", lambda _: (1 << 30) + 1, "arc scores have a multiplier"),
        ("label_multiplier", lambda _: -1, "multiplier"),
        ("arc_unit", lambda _: float("nan"), "arc_unit"),
        ("siblings", lambda a: a.astype(np.int16), "siblings has another type or shape"),
        ("sibling_modifiers", lambda a: np.full_like(a, 32767), "products are too large"),
        ("sibling_constants", lambda a: np.full_like(a, 1 << 30), "sums of products"),
        ("sibling_shift", lambda _: 63, "sibling scores have a multiplier"),
        ("sibling_unit", lambda _: -1.0, "sibling_unit"),
        ("grandparents", lambda a: a[:, 0], "not enough values"),
        ("grandparent_heads", lambda a: a[:-1].copy(), "grandparent_heads has another type or"),
        ("grandparent_modifiers", lambda a: np.full_like(a, -32767), "products are too large"),
        ("grandparent_multiplier", lambda _: -1, "grandparent scores have a multiplier"),
        (
            "plan",
            lambda p: p._replace(places=np.full_like(p.places, 30)),
            "rows that there are none",
        ),
    ],
)
def test_what_does_not_fit_is_refused(name, change, message) -> None:
    _, vectors = sample_vectors(64, 33, 40, sibling=12, grandparent=3)
    with pytest.raises(ValueError, match=message):
        check_vectors(vectors._replace(**{name: change(getattr(vectors, name))}))


def test_weights_that_are_not_finite_are_refused() -> None:
    random = np.random.default_rng(1)
    batch, *_ = sample_batch()
    plan = random_plan(random, batch, [0, 1], 9)
    weights = random_weights(random, plan, 8, 4, 2, 3)
    weights.table[0, 0] = np.nan
    with pytest.raises(ScoreError, match="diverged"):
        frozen(weights, plan, batch)


def test_points_of_scores_can_be_changed() -> None:
    batch, vectors = sample_vectors(7, 18, 6)
    once, twice = (
        vector_arc_scores(batch, vectors.with_points(points, points), engine="native")
        for points in (500.0, 1000.0)
    )
    assert (twice - 2 * once).abs().max() <= 2
    with pytest.raises(ScoreError, match="too large"):
        vectors.with_points(1e15, 1.0)


@pytest.mark.parametrize("sizes", SIZES)
def test_the_scores_of_merged_networks_are_the_means_of_theirs(sizes: tuple[int, int, int]) -> None:
    random = np.random.default_rng(8)
    *_, batch = sample_batch()
    plan = random_plan(random, batch, [0, -1, 2], 20)
    further = dict.fromkeys(FURTHER, 10)
    networks = [random_weights(random, plan, *sizes, LABELS, **further) for _ in range(3)]
    for b in range(3):
        arcs, labels = float_scores(merged(networks), plan, batch, b)
        found = [float_scores(network, plan, batch, b) for network in networks]
        np.testing.assert_allclose(arcs, sum(each[0] for each in found) / 3, rtol=1e-4, atol=1e-3)
        for kind in FURTHER:
            mean, *each = (
                float_pairs(kind, one, plan, batch, b) for one in (merged(networks), *networks)
            )
            np.testing.assert_allclose(mean, sum(each) / 3, rtol=1e-4, atol=1e-3)
        # Labels are relative to the best one, which differs between networks.
        mean = sum(each[1] - each[1][..., :1] for each in found) / 3
        np.testing.assert_allclose(labels - labels[..., :1], mean, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("hidden", [0, 64])
def test_vectors_that_parsing_keeps_are_those_that_labels_are_scored_with(hidden: int) -> None:
    batch, vectors = sample_vectors(hidden, 33, 40)
    plan, weights, features, *_ = labelled(vectors, np.int8)
    _, vocabularies, _ = sample_batch()
    templates = parse_set(template_set_text(label=["m.pos h.pos", "g.pos m.form"]), "set")
    of_trees = compile_labels(templates.expanded(set()), vocabularies)
    lines = np.random.default_rng(1).integers(-99, 99, (64, LABELS)).astype(np.int8)
    order = np.array([2, 0, len(batch) - 1, 4, 1])  # one of them without words
    some = batch.select(order)
    kept = np.zeros((int((some.lengths + 1).sum()), 4 * len(vectors.labels)), np.int16)
    heads, labels, again = (np.full(batch.values.shape[1], -1, np.int64) for _ in range(3))
    scorer = make_scorer(plan, weights, features.rows, None, vectors)
    search = make_search("eisner", single_root=False)
    sentences = sentences_of(some, vectors=kept)
    native.call("parse_batch", sentences, scorer, search, None, heads, None, None)
    assert kept.any()
    native.call("label_batch", sentences, of_trees, lines, vectors, heads, None, labels)
    native.call("label_batch", sentences_of(some), of_trees, lines, vectors, heads, None, again)
    assert np.array_equal(labels, again)
    kept[:] = 0
    native.call("label_batch", sentences, of_trees, lines, vectors, heads, None, again)
    assert not np.array_equal(labels, again)
    for wrong in (kept[1:], kept[:, 1:].copy()):
        with pytest.raises(ValueError, match="sizes of arrays"):
            native.call(
                "label_batch", sentences_of(some, vectors=wrong), of_trees, lines, vectors, heads,
                None, again,
            )  # fmt: skip


def test_numbers_between_networks_are_left_out() -> None:
    """For networks with sizes of whole blocks; the scores are those by definition."""
    random = np.random.default_rng(9)
    *_, batch = sample_batch()
    plan = random_plan(random, batch, [0, -1, 2], 20)
    further = dict.fromkeys(FURTHER, 32)
    networks = [random_weights(random, plan, 32, 64, 32, LABELS, **further) for _ in range(3)]
    vectors, batch = frozen(merged(networks), plan, batch), batch.select(np.arange(4))
    assert vectors.networks == 3
    assert_scores(batch, vectors, *FURTHER)
    whole = vectors._replace(networks=1)
    check_vectors(whole)
    assert_scores(batch, whole)
    mixed = vectors.heads.copy()
    mixed[0, -1, 0] = 1
    for wrong in (vectors._replace(heads=mixed), vectors._replace(networks=2)):
        with pytest.raises(ValueError, match="apart"):
            check_vectors(wrong)
