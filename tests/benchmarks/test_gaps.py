"""The table of gaps holds what a direct count gives, and says what it leaves out."""

import argparse
from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from benchmarks import gaps
from benchmarks.subjects import options_for
from gpuparse.data.conll import treebank_from_bytes
from gpuparse.errors import ConfigError
from gpuparse.features.templates import load_templates
from gpuparse.inference import eisner_sibling, hill_climb
from gpuparse.learning.trainer import Trainer
from gpuparse.model_folder import save_parser
from tests.oracles.brute_force import best_sibling_values, best_values
from tests.synthetic import generate

pytest.importorskip("scipy.optimize", reason="scipy is not installed")

N = 4


def scored(count=40, n=N):
    rng = np.random.default_rng(41)
    arcs = rng.integers(-9, 10, (count, n + 1, n + 1)).astype(np.float64)
    return arcs, rng.integers(-9, 10, (count, *[n + 1] * 3)).astype(np.float64)


def ends_of(arcs, spread=5):
    rng = np.random.default_rng(42)
    return rng.integers(-spread, spread + 1, arcs.shape).astype(np.float64)


def sentences_of(arcs, siblings, ends=None):
    ends = np.zeros_like(arcs) if ends is None else ends
    return [
        tuple(map(torch.from_numpy, sentence))
        for sentence in zip(arcs, siblings, ends, strict=True)
    ]


def by_search(report):
    return {row[1]: dict(zip(report.columns, row, strict=True)) for row in report.rows}


@pytest.mark.parametrize("single_root", [False, True], ids=["multi", "single"])
def test_shares_and_gaps_are_those_of_a_direct_count(single_root):
    arcs, siblings = scored()
    ends = ends_of(arcs)
    best, start = (
        best_sibling_values(arcs, siblings, ends, projective=projective, single_root=single_root)
        for projective in (False, True)
    )
    batch = torch.from_numpy(arcs), torch.from_numpy(siblings), torch.full((len(arcs),), N)
    _, climbed, changes = hill_climb(
        *batch, end_scores=torch.from_numpy(ends), single_root=single_root
    )
    climbed = climbed.numpy()
    sentences = sentences_of(arcs, siblings, ends)
    report = gaps.gap_table(sentences, source="drawn", single_root=single_root)
    rows = by_search(report)
    for name, values in [
        ("projective optimum", start),
        ("projective optimum, climbed", climbed),
        ("integer program", best),
    ]:
        row = rows[name]
        assert row["scores"] == "drawn"
        assert row["exact %"] == pytest.approx(100 * (values == best).mean())
        assert row["gap"] == pytest.approx((best - values).mean())
        assert row["gap %"] == pytest.approx(100 * (best - values).sum() / abs(best).sum())
    assert (
        0 < rows["projective optimum"]["exact %"] < rows["projective optimum, climbed"]["exact %"]
    )
    assert rows["projective optimum, climbed"]["changes"] == pytest.approx(
        changes.double().mean().item()
    )
    assert rows["integer program"]["heads %"] == 100
    assert rows["first-order tree, climbed"]["gap"] < rows["first-order tree"]["gap"]
    assert report.notes == [
        "drawn: 40 sentences; 0 left out that are longer than 40 words, 0 whose exact tree took "
        "too long."
    ]


def test_without_sibling_scores_the_first_order_tree_is_exact():
    arcs, siblings = scored()
    rows = by_search(gaps.gap_table(sentences_of(arcs, 0 * siblings), source="drawn"))
    assert rows["first-order tree"]["exact %"] == 100
    assert rows["first-order tree, climbed"]["changes"] == 0
    best = best_values(arcs, projective=False, single_root=False)
    projective = best_values(arcs, projective=True, single_root=False)
    assert rows["projective optimum"]["gap"] == pytest.approx((best - projective).mean())


def test_what_is_left_out_is_said():
    sentences = [
        *sentences_of(*scored(3)),
        *sentences_of(*scored(2, n=6)),
        *sentences_of(*scored(4)),
        *sentences_of(*scored(1)),
    ]
    report = gaps.gap_table(sentences, source="drawn", max_words=5, max_sentences=6)
    assert report.notes == [
        "drawn: 6 sentences; 2 left out that are longer than 5 words, 0 whose exact tree took too "
        "long, and all after the first 6."
    ]
    report = gaps.gap_table(sentences[:5], source="drawn", time_limit=0.0)
    assert report.notes == [
        "drawn: 0 sentences; 0 left out that are longer than 40 words, 5 whose exact tree took too "
        "long."
    ]
    assert all(row[2:] == [None] * 7 for row in report.rows)
    assert report.as_text()


def test_a_better_tree_than_the_best_one_is_an_error(monkeypatch):
    monkeypatch.setattr(gaps, "integer_program", with_all_solved)
    with pytest.raises(AssertionError, match="the best one has"):
        gaps.gap_table(sentences_of(*scored()), source="drawn")


def with_all_solved(
    arcs, siblings, lengths, *, end_scores=None, single_root=False, time_limit=None
):
    found = eisner_sibling(arcs, siblings, lengths, end_scores=end_scores, single_root=single_root)
    assert time_limit is None
    return (*found, torch.tensor([True]))


def test_files_of_scores_and_drawn_ones_are_reported(tmp_path):
    arcs, siblings = scored(5)
    lengths = torch.tensor([4, 3, 0, 1, 4])
    path = tmp_path / "some.safetensors"
    tensors = {"arc_scores": torch.from_numpy(arcs), "sibling_scores": torch.from_numpy(siblings)}
    save_file(tensors | {"lengths": lengths}, path)
    sizes = [arcs.shape[0] for arcs, _, ends in gaps.stored_sentences(path) if not ends.any()]
    assert sizes == [5, 4, 1, 2, 5]
    ends = torch.from_numpy(ends_of(arcs))
    save_file(tensors | {"lengths": lengths, "end_scores": ends}, tmp_path / "ends.safetensors")
    stored = [found for _, _, found in gaps.stored_sentences(tmp_path / "ends.safetensors")]
    assert [part.shape for part in stored] == [(n, n) for n in sizes]
    assert stored[1].equal(ends[1, :4, :4])
    parser = argparse.ArgumentParser()
    gaps.add_arguments(parser)
    report = gaps.run(parser.parse_args([str(path)]))
    assert [row[0] for row in report.rows] == ["some.safetensors"] * 5
    assert report.notes[-1].startswith("some.safetensors: 4 sentences;")
    report = gaps.run(parser.parse_args(["--sentences", "2"]))
    assert len(report.rows) == 5 * len(gaps.DRAWN) * len(gaps.BONUS)
    exact = [row for row in report.rows if row[1] == "integer program"]
    assert all(row[2] == 100 for row in exact)


def trained(treebank, decoder):
    options = replace(options_for(1 << 16, epochs=1), decoder=decoder, min_gain=0.5)
    trainer = Trainer(treebank, load_templates("extended"), None, options)
    for _ in trainer.learn():
        pass
    return trainer.model(16)


def test_models_score_as_they_parse(tmp_path):
    text = generate(40, 5)
    treebank = treebank_from_bytes(text, "generated")
    model = trained(treebank, "hill_climb")
    batch = model.encode(treebank)
    heads = model.search(batch).heads
    scored_ones = list(gaps.scored_sentences(model, treebank))
    assert len(scored_ones) == len(treebank)
    for b, (arcs, siblings, ends) in enumerate(scored_ones):
        n, start = len(arcs) - 1, int(batch.starts[b])
        assert n == batch.lengths[b]
        found, _, _ = hill_climb(
            arcs[None], siblings[None], torch.tensor([n]), end_scores=ends[None],
            min_gain=model.min_gain, single_root=model.single_root,
        )  # fmt: skip
        assert found[0, 1:].tolist() == heads[start + 1 : start + n + 1].tolist()
    assert siblings.count_nonzero() > siblings.shape[0]
    assert ends.count_nonzero() > ends.shape[0]
    assert model.min_gain > 0
    save_parser(model, tmp_path)
    (tmp_path / "text.conllu").write_bytes(text)
    parser = argparse.ArgumentParser()
    gaps.add_arguments(parser)
    arguments = [str(tmp_path), "--treebank", str(tmp_path / "text.conllu"), "--sentences", "20"]
    report = gaps.run(parser.parse_args(arguments))
    climbed = by_search(report)["projective optimum, climbed"]
    assert climbed["exact %"] > 0
    assert "20 sentences" in report.notes[-1]
    with pytest.raises(ConfigError, match="--treebank"):
        gaps.run(parser.parse_args([str(tmp_path)]))


def test_models_of_the_first_order_have_no_such_scores():
    treebank = treebank_from_bytes(generate(20, 5), "generated")
    with pytest.raises(ConfigError, match="first order"):
        next(gaps.scored_sentences(trained(treebank, "chu_liu_edmonds"), treebank))
