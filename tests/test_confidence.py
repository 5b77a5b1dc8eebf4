"""Probabilities, k best trees, least risk and known heads of models, against enumeration."""

import random
from functools import partial

import numpy as np
import pytest

from gpuparse.data.batch import word_places
from gpuparse.errors import ConfigError, DataError, NoTreeError
from gpuparse.inference.decoders import DECODERS
from gpuparse.inference.nearest_trees import unkeepable
from gpuparse.learning.temperatures import fit_temperatures
from gpuparse.model.confidence import find_k_best_trees, find_marginals, parse_with_confidence
from gpuparse.model.parser import Parser
from gpuparse.scorers.linear.labels import all_label_scores
from gpuparse.scorers.vectors.scorer import vectors_of
from tests import test_higher_order_models
from tests.oracles import brute_force
from tests.oracles.tree_parts import values_of_trees
from tests.samples import any_heads, random_sentences, treebank_of
from tests.scoring.forms import arc_scores, as_tensors, sibling_scores
from tests.test_model import (
    TEST,
    TRAIN,
    assert_saved_whole,
    every_place,
    of_decoder,
    of_kind,
    same,
    trained,
)
from tests.vectors import vector_arc_scores

KINDS = (
    "first order", "word vectors", "non-projective, one root", "second order", "joint labels",
    "joint labels, second order",
)  # fmt: skip
SHORT = random_sentences(7, 12, 4)


@pytest.fixture(scope="module", params=KINDS)
def model(request) -> Parser:
    """A model whose probabilities are neither all alike nor all 0 or 1."""
    raw = of_kind(request.param)
    return raw.with_scales(20 * raw.scales.arc, 7 * raw.scales.label)


def dense(model: Parser, treebank):
    """(scores, lengths, options): what a decoder of tensors reads, in nats; best labels in arcs."""
    batch = model.encode(treebank)
    given = model.linear.features, model.linear.arcs
    arcs = (
        arc_scores(batch, model.linear.plan.arcs, *given, engine="torch").double()
        * model.scales.arc
    )
    if vectors_of(model.scorers):
        added = vector_arc_scores(batch, vectors_of(model.scorers), engine="torch")
        arcs = arcs + added.double() * model.scales.arc
    if model.linear.joint_plan:
        weights = model.linear.label_weights
        labels = all_label_scores(as_tensors(batch), model.linear.joint_plan, weights).double()
        arcs = arcs + labels.max(-1).values * model.scales.arc
    options = {"single_root": model.single_root}
    parts = [arcs]
    if model.linear.plan.siblings:
        siblings, ends = sibling_scores(batch, model.linear.plan.siblings, *given, engine="torch")
        parts.append(siblings.double() * model.scales.arc)
        options["end_scores"] = ends.double() * model.scales.arc
    return parts, batch.lengths, options


def by_sentence(treebank, values):
    starts = treebank.word_starts
    return [values[starts[s] : starts[s + 1]] for s in range(len(treebank))]


def test_probabilities_are_asked_for_and_change_no_tree(model):
    found, plain = parse_with_confidence(model, TEST, probabilities=True), model.parse(TEST)
    assert np.array_equal(found.heads, plain.heads)
    assert np.array_equal(found.labels, plain.labels)
    assert plain.head_probabilities is None
    assert 0.2 < found.head_probabilities.mean() < 0.999
    assert (found.label_probabilities > 1 / 3 - 1e-9).all()  # the best of three
    assert found.label_probabilities.max() <= 1


def test_labels_of_finished_trees_have_the_probability_of_their_scores(model):
    if model.linear.joint_plan:
        pytest.skip("found with the trees; compared with torch in another test")
    batch = model.encode(TEST)
    places = word_places(batch)
    found = model.parse(TEST)
    heads = np.full(batch.values.shape[1], -1, np.int64)
    heads[places] = found.heads
    probabilities = []
    for label in range(len(model.labels)):
        labels = np.full_like(heads, -1)
        labels[places] = label
        probabilities.append(find_marginals(model, batch, heads, labels).labels[0, places])
    probabilities = np.array(probabilities)
    np.testing.assert_allclose(probabilities.sum(0), 1.0, atol=1e-12)
    assert np.array_equal(probabilities.argmax(0), found.labels)
    # Ratios of probabilities are differences of scores: twice the unit, ratios squared.
    twice = model.with_scales(model.scales.arc, 2 * model.scales.label)
    labels[places] = 0
    squared = find_marginals(twice, batch, heads, labels).labels[0, places]
    np.testing.assert_allclose(
        squared, probabilities[0] ** 2 / (probabilities**2).sum(0), atol=1e-12
    )


def tree_sums(model, treebank, s):
    """All trees of a short sentence, and their probabilities."""
    parts, lengths, options = dense(model, treebank)
    n = int(lengths[s])
    projective = model.decoder != "chu_liu_edmonds"
    trees = brute_force.all_trees(n, projective, model.single_root)
    parts = dict(zip(("arc", "sibling"), parts, strict=False))
    if "sibling" in parts:
        parts["end"] = options["end_scores"]
    cut = {
        kind: part[s : s + 1][(..., *[slice(n + 1)] * (part.dim() - 1))].numpy()
        for kind, part in parts.items()
    }
    values = values_of_trees(cut, projective=projective, single_root=model.single_root)[0]
    weights = np.exp(values - values.max())
    return trees, weights / weights.sum()


def test_all_trees_of_short_sentences_have_their_probabilities(model):
    """More trees than there are: all of them, and those of labelled trees where labels count."""
    treebank = treebank_of(SHORT)
    found = find_k_best_trees(model, treebank, 130, probabilities=True)
    plain = find_k_best_trees(model, treebank, 130)
    assert np.array_equal(found.heads, plain.heads)
    assert plain.probabilities is None
    for s in range(len(treebank)):
        words = slice(treebank.word_starts[s], treebank.word_starts[s + 1])
        trees, expected = tree_sums(model, treebank, s)
        count = int((found.scores[:, s] > -np.inf).sum())
        assert count == len(trees)
        heads = found.heads[:count, words]
        assert (found.heads[count:, words] == -1).all()
        assert len({tuple(tree) for tree in heads.tolist()}) == count
        assert (np.diff(found.scores[:count, s]) <= 1e-9).all()
        number = {tuple(tree): t for t, tree in enumerate(trees[:, 1:].tolist())}
        order = [number[tuple(tree)] for tree in heads.tolist()]
        np.testing.assert_allclose(found.probabilities[:count, s], expected[order], atol=1e-9)
        assert (found.probabilities[count:, s] == 0).all()
        # An arc's probability is that of all trees that have it.
        for k in range(count):
            has_arc = trees[:, 1:] == heads[k]
            np.testing.assert_allclose(
                found.head_probabilities[k, words], expected @ has_arc, atol=1e-9
            )


def test_the_best_of_several_trees_is_the_best(model):
    found, best = find_k_best_trees(model, TEST, 3), model.parse(TEST)
    assert np.array_equal(found.heads[0], best.heads)
    assert np.array_equal(found.labels[0], best.labels)
    one = find_k_best_trees(model, TEST, 1)
    assert np.array_equal(one.heads[0], best.heads)
    assert np.array_equal(one.scores[0], found.scores[0])


def test_no_tree_has_more_heads_that_are_expected_to_be_right_than_that_of_least_risk(model):
    treebank = treebank_of(SHORT)
    found = parse_with_confidence(model, treebank, least_risk=True, probabilities=True)
    of_words = by_sentence(treebank, found.head_probabilities)
    for s, heads in enumerate(by_sentence(treebank, found.heads)):
        trees, chances = tree_sums(model, treebank, s)
        right = [(chances @ (trees[:, 1:] == tree[1:])) for tree in trees]
        assert of_words[s].sum() == pytest.approx(max(each.sum() for each in right), abs=1e-9)
        [number] = np.flatnonzero((trees[:, 1:] == heads).all(1))
        np.testing.assert_allclose(of_words[s], right[number], atol=1e-9)
    best = parse_with_confidence(model, TEST, probabilities=True)
    risk = parse_with_confidence(model, TEST, least_risk=True, probabilities=True)
    assert risk.head_probabilities.sum() > best.head_probabilities.sum()
    assert not np.array_equal(risk.heads, best.heads)
    assert np.array_equal(parse_with_confidence(model, TEST, least_risk=True).labels, risk.labels)


@every_place
def test_every_engine_gives_the_same_trees_and_probabilities(model, device, engine):
    place = {"device": device, "engine": engine}
    treebank = treebank_of(SHORT)
    for search in (
        partial(parse_with_confidence, model, treebank, probabilities=True),
        partial(parse_with_confidence, model, treebank, probabilities=True, least_risk=True),
        partial(find_k_best_trees, model, treebank, 4, probabilities=True),
    ):
        ours, theirs = search(**place), search()
        assert np.array_equal(ours.heads, theirs.heads)
        assert np.array_equal(ours.labels, theirs.labels)
        for name in ("scores", "probabilities", "head_probabilities", "label_probabilities"):
            if hasattr(ours, name):
                found, expected = getattr(ours, name), getattr(theirs, name)
                np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


def test_nothing_depends_on_threads_and_batches(model):
    def everything(**how):
        first = parse_with_confidence(model, TEST, probabilities=True, **how)
        risk = parse_with_confidence(model, TEST, least_risk=True, probabilities=True, **how)
        several = find_k_best_trees(model, TEST, 3, probabilities=True, **how)
        return [
            getattr(found, name)
            for found in (first, risk, several)
            for name in ("heads", "labels", "head_probabilities", "label_probabilities")
        ] + [several.scores, several.probabilities]

    expected = everything(batch_size=1)
    for how in ({"batch_size": 64}, {"batch_size": 7, "threads": 3}):
        for ours, theirs in zip(everything(**how), expected, strict=True):
            assert np.array_equal(ours, theirs, equal_nan=True)


def test_known_heads_are_kept_and_others_are_the_best_given_them(model):
    sentences = random_sentences(55, 25, 14, projective=model.decoder != "chu_liu_edmonds")
    if model.single_root:
        sentences = [s for s in sentences if [word[6] for word in s].count("0") == 1]
    treebank = treebank_of(sentences)
    share = np.random.default_rng(3).random(treebank.n_words) < 0.4
    known = np.where(share, treebank.heads, -1)
    found = parse_with_confidence(model, treebank, known=known, probabilities=True)
    free = model.parse(treebank)
    assert np.array_equal(found.heads[known >= 0], known[known >= 0])
    assert not np.array_equal(free.heads[known >= 0], known[known >= 0])
    assert not np.array_equal(found.heads[known < 0], free.heads[known < 0])
    np.testing.assert_allclose(found.head_probabilities[known >= 0], 1.0, atol=1e-9)
    for engine in ("native", "torch"):
        again = model.parse(treebank, known=known, engine=engine, batch_size=5)
        assert np.array_equal(again.heads, found.heads)
        assert np.array_equal(again.labels, found.labels)
    risk = parse_with_confidence(model, treebank, known=known, least_risk=True)
    assert np.array_equal(risk.heads[known >= 0], known[known >= 0])
    several = find_k_best_trees(model, treebank, 3, known=known)
    assert np.array_equal(several.heads[0], found.heads)
    for k in range(3):
        is_there = several.heads[k] >= 0
        keeps = several.heads[k] == known
        assert keeps[(known >= 0) & is_there].all()
    everything = model.parse(treebank, known=treebank.heads)
    assert np.array_equal(everything.heads, treebank.heads)
    nothing = model.parse(treebank, known=np.full(treebank.n_words, -1))
    assert np.array_equal(nothing.heads, free.heads)


def test_heads_that_no_tree_has(model):
    treebank = treebank_of(random_sentences(5, 1, 14))
    known = np.full(treebank.n_words, -1)
    known[:2] = 2, 1
    for engine in ("native", "torch"):
        with pytest.raises(NoTreeError):
            model.parse(treebank, known=known, engine=engine)
    with pytest.raises(NoTreeError):
        parse_with_confidence(model, treebank, known=known, probabilities=True)
    with pytest.raises(NoTreeError):
        find_k_best_trees(model, treebank, 2, known=known)


def test_scales_survive_saving_and_change_no_tree(model, tmp_path):
    assert assert_saved_whole(model, tmp_path).scales.is_calibrated
    other = model.with_scales(1.0, 1.0, is_calibrated=False)
    assert same(other.parse(TEST), model.parse(TEST))
    assert other.scales.is_calibrated is False
    for scales in ((0.0, 0.0), (-1.0, -1.0), (np.inf, np.inf), (1, 1)):
        with pytest.raises(ValueError, match="above 0"):
            model.with_scales(*scales)


def test_the_units_of_training_come_with_the_scale():
    """The same averages in 8 and in 16 bits: scores in nats that hardly differ."""
    coarse, fine = trained(bits=8), trained(bits=16)
    assert not fine.scales.is_calibrated
    assert coarse.scales.arc == pytest.approx(fine.scales.arc * 32767 / 127)
    ours, theirs = (
        find_k_best_trees(coarse, TEST, 1).scores,
        find_k_best_trees(fine, TEST, 1).scores,
    )
    np.testing.assert_allclose(ours, theirs, atol=0.3)


WITHOUT_SUMS = ("hill_climb", "eisner_grand_sibling", "dual_decomposition")
BLANK = [[[*word[:6], "_", *word[7:]] for word in words] for words in SHORT]
# What is asked of a model of a decoder, and what the message says.
REFUSED = {
    **{
        f"{what}, {decoder}": (decoder, call, "no exact sums")
        for what, call in (
            ("probabilities", partial(parse_with_confidence, treebank=TEST, probabilities=True)),
            ("least risk", partial(parse_with_confidence, treebank=TEST, least_risk=True)),
            ("temperatures", partial(fit_temperatures, treebank=TEST)),
        )
        for decoder in WITHOUT_SUMS
    },
    **{
        f"two trees, {decoder}": (
            decoder, partial(find_k_best_trees, treebank=TEST, k=2), "finds one tree only"
        )
        for decoder in WITHOUT_SUMS
    },
    "known heads of graphs": (
        "multi_parent", partial(Parser.parse, treebank=TEST, known=TEST.heads), "finds graphs"
    ),
    "no trees": ("eisner", partial(find_k_best_trees, treebank=TEST, k=0), "at least 1"),
    "no sentences": (
        "eisner", partial(find_k_best_trees, treebank=TEST, k=2, batch_size=0), "batch_size is 0"
    ),
    "no heads": (
        "eisner", partial(fit_temperatures, treebank=treebank_of(BLANK)), "no word has a head"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_probabilities_is_refused(name):
    decoder, call, said = REFUSED[name]
    higher = DECODERS[decoder].is_higher_order
    make = test_higher_order_models.trained if higher else of_decoder
    with pytest.raises((ConfigError, DataError), match=said):
        call(make(decoder))


def test_models_without_labels_have_probabilities_of_heads():
    model = of_kind("heads only")
    found = parse_with_confidence(model, TEST, probabilities=True)
    several = find_k_best_trees(model, TEST, 2, probabilities=True)
    for each in (found, several):
        assert each.labels is each.label_probabilities is None
        assert each.head_probabilities is not None


@pytest.mark.parametrize("kind", ["first order", "joint labels"])
def test_fitted_units_are_the_likeliest(kind):
    raw = of_kind(kind)
    # Partly known: of trees that are drawn by chance alone, it is best to be sure of nothing.
    treebank = treebank_of(TRAIN[:15] + random_sentences(900, 30, 9))
    fitted, before, after = fit_temperatures(raw, treebank)
    assert fitted.scales.is_calibrated
    assert after.heads + after.labels < before.heads + before.labels

    def loss(model):
        return fit_temperatures(model, treebank)[1]

    again = fit_temperatures(fitted, treebank)[0]
    assert again.scales.arc == pytest.approx(fitted.scales.arc, rel=0.03)
    assert again.scales.label == pytest.approx(fitted.scales.label, rel=0.03)
    for factor in (0.8, 1.25):
        of_arcs = loss(fitted.with_scales(fitted.scales.arc * factor, fitted.scales.label))
        assert of_arcs.heads >= after.heads
        assert of_arcs.labels == after.labels
        of_labels = loss(fitted.with_scales(fitted.scales.arc, fitted.scales.label * factor))
        assert of_labels.labels >= after.labels
        assert of_labels.heads == after.heads
    assert fit_temperatures(raw, treebank, threads=3)[0].scales.arc == fitted.scales.arc


def test_heads_that_no_projective_tree_keeps():
    """Sets of known heads against all projective trees over them."""
    rng = np.random.default_rng(1)
    draw = random.Random(1)
    seen = {True: 0, False: 0}
    for _ in range(400):
        n = int(rng.integers(2, 6))
        tree = np.array(any_heads(draw, n))
        known = np.where(rng.random(n) < 0.7, tree, -1)
        single = bool(rng.integers(2))
        if single and (known == 0).sum() > 1:
            continue
        trees = brute_force.all_trees(n, True, single)[:, 1:]

        def keepable(heads, trees=trees):
            return bool(((trees == heads) | (heads < 0)).all(1).any())

        words = unkeepable(known, single_root=single)
        assert (words == []) == keepable(known)
        seen[words == []] += 1
        if words:
            only = np.full(n, -1)
            only[np.array(words) - 1] = known[np.array(words) - 1]
            assert not keepable(only)
            for m in words:
                fewer = only.copy()
                fewer[m - 1] = -1
                assert keepable(fewer)
    assert min(seen.values()) > 50
