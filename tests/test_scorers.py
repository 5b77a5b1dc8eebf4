"""Scorers and engines: a scorer of tensors parses, and tensors give the trees of native code."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from gpuparse.data.batch import word_places
from gpuparse.data.conll import write_predictions
from gpuparse.data.treebank import Treebank
from gpuparse.errors import ConfigError, ModelError, NoTreeError, ResourceError, ScoreError
from gpuparse.inference.decoders import DECODERS, with_quantity
from gpuparse.inference.scores import Scores
from gpuparse.inference.searches import decode
from gpuparse.learning.temperatures import fit_temperatures
from gpuparse.model.confidence import find_marginals, parse_with_confidence
from gpuparse.model.decoder_choice import with_decoder
from gpuparse.model.engines.dense import Dense
from gpuparse.model.engines.searcher import BatchOptions
from gpuparse.model.explain import explain
from gpuparse.model.folder import save_parser
from gpuparse.model.parser import NOTHING_KNOWN, Parser
from gpuparse.model.self_test import device_difference
from gpuparse.scorers.linear.scorer import LinearScorer
from tests.dense_scorer import dense_parser
from tests.oracles.tree_parts import values_of_trees
from tests.samples import random_sentences, treebank_of
from tests.test_model import JOINT, KINDS, TEST, WITH_VECTORS, trained

TREEBANK = treebank_of(random_sentences(5, 12, 6))
WITH_MARGINALS = with_quantity("marginals", "native")


def scores_of(model: Parser, treebank: Treebank, s: int) -> tuple[Scores, torch.Tensor]:
    """The tensors of one sentence without padding, and (N, N, L) of its labels."""
    scorer = model.scorers[0].in_torch()
    part = scorer.part(torch.device("cpu"), model.encode(treebank).select(np.array([s])))
    return scorer.score(part), scorer.arc_label_scores(part)[0]


def words_of(treebank: Treebank, s: int) -> slice:
    return slice(int(treebank.word_starts[s]), int(treebank.word_starts[s + 1]))


@pytest.mark.parametrize("single_root", [False, True])
@pytest.mark.parametrize("name", DECODERS)
def test_a_scorer_of_tensors_parses_with_every_decoder(name: str, single_root: bool) -> None:
    model = dense_parser(name, single_root=single_root)
    found = model.parse(TREEBANK)
    assert found.labels is not None
    for s in range(len(TREEBANK)):
        scores, labels = scores_of(model, TREEBANK, s)
        expected = decode(name, scores, single_root=single_root, granularity=0.0)
        words, n = words_of(TREEBANK, s), int(scores.lengths[0])
        if found.graphs is not None:
            arcs = expected.arcs
            assert arcs is not None
            for m in range(1, n + 1):
                given = slice(*found.graphs.starts[words.start + m - 1 : words.start + m + 1])
                heads = arcs[0, :, m].nonzero()[:, 0]
                assert found.graphs.heads[given].tolist() == heads.tolist()
                assert (
                    found.graphs.relations[given].tolist() == labels[heads, m].argmax(-1).tolist()
                )
            continue
        assert expected.heads is not None
        heads = expected.heads[0, 1:]
        assert found.heads[words].tolist() == heads.tolist()
        best = labels[heads, torch.arange(1, n + 1)].argmax(-1)
        assert found.labels[words].tolist() == best.tolist()
    assert (found.graphs is None) != DECODERS[name].gives_graphs


@pytest.mark.parametrize("name", DECODERS)
def test_neither_batches_nor_engines_change_anything(name: str) -> None:
    model = dense_parser(name)
    expected = model.parse(TREEBANK)
    for other in (
        model.parse(TREEBANK, batch_size=1), model.parse(TREEBANK, threads=3),
        model.parse(TREEBANK, engine="torch"),
    ):  # fmt: skip
        assert np.array_equal(other.heads, expected.heads)
        assert np.array_equal(other.labels, expected.labels)


@pytest.mark.parametrize("name", [name for name in DECODERS if not DECODERS[name].gives_graphs])
def test_known_heads_are_kept(name: str) -> None:
    model = dense_parser(name)
    known = np.full(TREEBANK.n_words, -1)
    known[TREEBANK.word_starts[:-1]] = 0
    found = model.parse(TREEBANK, known=known)
    assert not found.heads[TREEBANK.word_starts[:-1]].any()
    assert not np.array_equal(found.heads, model.parse(TREEBANK).heads)
    if DECODERS[name].is_projective:
        crossing = treebank_of([words for words in random_sentences(7, 9, 4) if len(words) == 4])
        heads = np.full(crossing.n_words, -1)
        heads[:4] = 3, 4, 0, 3
        with pytest.raises(NoTreeError):
            model.parse(crossing, known=heads)


@pytest.mark.parametrize("with_trees", [False, True])
def test_probabilities_of_given_trees_are_asked_of_the_engine(with_trees: bool) -> None:
    model = dense_parser("eisner", labels_with_trees=with_trees)
    found = parse_with_confidence(model, TREEBANK)
    batch = model.encode(TREEBANK)
    heads, labels = np.full((2, batch.n_tokens), -1)
    tokens = word_places(batch)
    heads[tokens], labels[tokens] = found.heads, found.labels
    again = find_marginals(model, batch, heads, labels)
    np.testing.assert_allclose(again.heads[0, tokens], found.head_probabilities)
    np.testing.assert_allclose(again.labels[0, tokens], found.label_probabilities)
    fitted, before, after = fit_temperatures(model, TREEBANK)
    assert fitted.scales.is_calibrated
    assert after.heads <= before.heads
    assert np.array_equal(fitted.parse(TREEBANK).heads, found.heads)


def test_certificates_of_floats_are_right() -> None:
    """Whole numbers would be at least 1 apart: these are all closer, and none is certified so."""
    few = treebank_of([words for words in random_sentences(5, 60, 6) if len(words) <= 4])
    model = dense_parser("dual_decomposition", size_of_scores=0.01)
    found = model.parse(few)
    assert found.certified is not None
    assert found.certified.any()
    for s in np.flatnonzero(found.certified).tolist():
        scores, _ = scores_of(model, few, s)
        n = int(scores.lengths[0])
        own = decode("dual_decomposition", scores, granularity=0.0)
        parts = {k: part for k, part in vars(scores).items() if part is not None and k != "lengths"}
        values = values_of_trees(
            {kind: part[:, *[slice(n + 1)] * (part.dim() - 1)].numpy()
             for kind, part in parts.items()}, projective=False, single_root=False,
        )  # fmt: skip
        best = values.max()
        assert float(own.scores[0]) == pytest.approx(best, abs=1e-6)


def test_self_tests_allow_for_rounding() -> None:
    assert device_difference(dense_parser("eisner"), "cpu", "torch") == ""
    assert device_difference(dense_parser("multi_parent"), "cpu", "torch") == ""


@pytest.mark.parametrize("wrong", [1, 40])
def test_self_tests_find_devices_that_are_wrong(wrong: int, monkeypatch) -> None:
    """A few words may differ where scores are rounded, many may not; none where they are whole."""
    best = Dense.best

    def broken(self, batch, known, how):
        found = best(self, batch, known, how)
        if self._engine != "native":
            found.labels[word_places(batch)[:wrong]] += 1
        return found

    monkeypatch.setattr(Dense, "best", broken)
    said = device_difference(dense_parser("eisner"), "cpu", "torch")
    assert (said == "") == (wrong == 1)
    assert device_difference(trained(), "cpu", "torch") != ""


def test_what_needs_templates_says_so() -> None:
    model = dense_parser("eisner")
    assert not model.is_exact
    with pytest.raises(ConfigError, match="of kind random, and no sums of weights"):
        explain(model, TREEBANK, 1, 1)
    with pytest.raises(ConfigError, match="no templates, which this needs"):
        _ = model.linear
    with pytest.raises(ScoreError, match="unknown engine"):
        model.parse(TREEBANK, engine="other")
    assert with_decoder(model, "chu_liu_edmonds").parse(TREEBANK).heads.size


def test_a_sentence_that_fits_nowhere_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def without_room(*_: object) -> None:
        raise torch.OutOfMemoryError("no room")

    monkeypatch.setattr(Dense, "_scored", without_room)
    with pytest.raises(ResourceError, match="no memory for a sentence of"):
        dense_parser("eisner").parse(TREEBANK)


MODELS = KINDS | {
    "word vectors, joint": {
        "templates": WITH_VECTORS, "labels_kind": "joint", "label_templates": JOINT,
    },
    "word vectors, siblings": {"templates": WITH_VECTORS, "decoder": "eisner_sibling"},
}  # fmt: skip


@pytest.mark.parametrize("engine", ["native", "torch"])
@pytest.mark.parametrize("kind", MODELS)
def test_tensors_give_the_trees_of_the_fused_searcher(kind: str, engine: str) -> None:
    model = trained(**MODELS[kind])
    fused, dense = model.fused, Dense(model.scorers, model.task, "cpu", engine, model.fused)
    assert fused is not None
    batch, how = model.encode(TEST), BatchOptions(batch_size=7)
    known = np.full(batch.n_tokens, -1)
    known[batch.starts + 1] = 0
    gives_graphs = DECODERS[model.decoder].gives_graphs
    for given in (NOTHING_KNOWN,) if gives_graphs else (NOTHING_KNOWN, known):
        ours, theirs = fused.best(batch, given, how), dense.best(batch, given, how)
        tokens = word_places(batch)
        assert np.array_equal(ours.heads[tokens], theirs.heads[tokens])
        assert np.array_equal(ours.labels[tokens], theirs.labels[tokens])
        if ours.arcs is not None and theirs.arcs is not None:
            for one, other in zip(ours.arcs, theirs.arcs, strict=True):
                assert np.array_equal(one, other)
    for engine in (fused, dense):  # labels of given trees, which long sentences get
        engine.label_trees(batch, relabelled := replace(ours, labels=np.full_like(ours.labels, -1)))
        if not model.labels_with_trees and not gives_graphs:
            assert np.array_equal(relabelled.labels[tokens], ours.labels[tokens])
    if model.decoder not in WITH_MARGINALS:
        return
    for least_risk in (False, True):
        how = replace(how, least_risk=least_risk, probabilities=True)
        ours, theirs = (e.marginals(batch, known, how) for e in (fused, dense))
        assert np.array_equal(ours.heads[tokens], theirs.heads[tokens])
        assert np.array_equal(ours.labels[tokens], theirs.labels[tokens])
        for name in ("head_probabilities", "label_probabilities"):
            one, other = getattr(ours, name)[tokens], getattr(theirs, name)[tokens]
            np.testing.assert_allclose(one, other, rtol=1e-9)
    of_both = [e.k_best(batch, known, 4, how) for e in (fused, dense)]
    for one, other in zip(of_both[0][:3], of_both[1][:3], strict=True):
        columns = tokens if one.shape[1] == batch.n_tokens else slice(None)
        assert np.array_equal(one[:, columns], other[:, columns])
    np.testing.assert_allclose(of_both[0].log_partitions, of_both[1].log_partitions, rtol=1e-9)
    for one, other in zip(of_both[0].marginals, of_both[1].marginals, strict=True):
        np.testing.assert_allclose(one[:, tokens], other[:, tokens], rtol=1e-9)
    heads, labels = ours.heads.copy(), ours.labels.copy()
    heads[tokens[::5]] = -1
    for which in ("heads", "labels", "both"):
        of_both = [e.probabilities_of(batch, heads, labels, which, how) for e in (fused, dense)]
        for one, other in zip(*of_both, strict=True):
            np.testing.assert_allclose(one[0, tokens], other[0, tokens], rtol=1e-9)


def test_a_parser_of_tensors_writes_columns_and_is_not_saved(tmp_path: Path) -> None:
    model = dense_parser("eisner")
    found = model.parse(TREEBANK)
    text = write_predictions(TREEBANK, found.heads, model.label_names, found.labels)
    assert text.count(b"\n") == TREEBANK.n_words + len(TREEBANK)
    assert not isinstance(model.scorers[0], LinearScorer)
    with pytest.raises(ModelError, match="cannot be saved: its scores are of kind random"):
        save_parser(model, tmp_path)
