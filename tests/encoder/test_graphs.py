"""Graphs whose arcs an encoder scores: the loss, training, and all ways to parse."""

import math
from dataclasses import replace

import numpy as np
import pytest

from gpuparse.commands import evaluate
from gpuparse.commands.console import run
from gpuparse.data.conll import treebank_from_bytes
from gpuparse.data.graphs import read_graphs
from gpuparse.errors import ModelError
from gpuparse.inference.textbook import projective, spanning_trees
from gpuparse.model.folder import load_parser, save_parser
from tests.encoder.conftest import column, rows
from tests.encoder.test_parts import stage_of
from tests.synthetic import generate
from tests.tiny_encoders import write_encoder

HEAD, DEPREL, DEPS = 6, 7, 8


@pytest.fixture(scope="module", params=[16, 8])
def model(models, request):
    """A model with weights of torch, and one with native ones."""
    return models.model(
        "bert", f"graphs-{request.param}", decoder="multi_parent", weights__bits=request.param
    )


def test_the_loss_is_that_of_each_arc_alone():
    torch = pytest.importorskip("torch")
    from gpuparse.learning.stages.encoder.stage import loss_of_graphs

    scores = torch.randn(3, 5, 5, generator=torch.Generator().manual_seed(1)).requires_grad_()
    lengths = [4, 2, 1]
    gold = {(0, 0, 2), (0, 2, 1), (0, 4, 1), (0, 2, 3), (0, 3, 4), (1, 0, 1), (1, 1, 2), (2, 0, 1)}
    loss, wrong = loss_of_graphs(
        scores, torch.tensor(lengths), *torch.tensor(sorted(gold)).T.contiguous()
    )
    loss.backward()
    expected, mistakes, gradient = 0.0, 0, torch.zeros_like(scores)
    for b, n in enumerate(lengths):
        for h in range(n + 1):
            for m in set(range(1, n + 1)) - {h}:
                is_arc, score = (b, h, m) in gold, scores[b, h, m].item()
                probability = 1 / (1 + math.exp(-score))
                expected -= math.log(probability if is_arc else 1 - probability)
                mistakes += is_arc != (score > 0)
                gradient[b, h, m] = probability - is_arc
    assert loss.item() == pytest.approx(expected, rel=1e-6)
    assert (int(wrong), len(gold)) == (mistakes, 8)
    assert torch.allclose(scores.grad, gradient, atol=1e-6)


def test_several_heads_are_learned(models, tmp_path, monkeypatch):
    """After some steps all arcs of the training sentences score above 0, and no others."""
    from gpuparse.learning.stages.encoder import stage, trainer

    monkeypatch.setattr(stage, "RATE", 0.003)
    monkeypatch.setattr(trainer, "DROPOUT", 0.0)
    words = {form.lower() for form in column(generate(30, 4), 1)}
    learned, _ = stage_of(write_encoder(tmp_path, words=words), decoder="multi_parent")
    assert (np.diff(learned._gold.starts)[learned._words(np.arange(8))] > 1).any()
    missed = [int(learned._step(np.arange(8))) for _ in range(60)]
    assert missed[-1] < 0.05 * missed[0]


def shaken(folder):
    """A model with other weights of arcs, under which words have several heads."""
    parser = load_parser(folder)
    [scorer] = parser.scorers
    shape = scorer.arrays["heads.arcs.weight"].shape
    weights = np.random.default_rng(1).normal(size=shape).astype(np.float32) * 2
    scorer = replace(scorer, arrays={**scorer.arrays, "heads.arcs.weight": weights})
    return replace(parser, scorers=(scorer,), config="")


@pytest.mark.parametrize("single_root", [True, False])
def test_graphs_are_those_of_the_textbook(models, model, single_root):
    """The search over scores of arcs, primary heads, and the best label that an arc may have."""
    parser = replace(shaken(model), single_root=single_root)
    treebank = treebank_from_bytes(generate(300, 3), "test")
    treebank = treebank.only(np.diff(treebank.word_starts) < 8)
    assert len(treebank) > 9
    batch, found = parser.encode(treebank), parser.parse(treebank, batch_size=1)
    assert len(found.graphs.heads) > treebank.n_words + 4
    assert parser.min_gain == 128  # parts of a nat
    import torch

    dense = parser.scorers[0].in_torch()
    place = dense.send(batch, torch.device("cpu"))
    permitted = parser.may_be_primary
    for s, n in enumerate(batch.lengths):
        part = dense.part(place, batch.select(np.array([s])))
        scores = dense.score(part).arc[0].double().numpy()
        zeros = np.zeros((n + 1,) * 3)
        first = projective.eisner(scores.tolist(), single_root=single_root)[0]
        arcs, _, _ = spanning_trees.multi_parent(
            scores.tolist(),
            zeros.tolist(),
            first,
            single_root=single_root,
            min_gain=parser.min_gain,
        )
        words = treebank.word_starts[s] + np.arange(n)
        for m, w in enumerate(words.tolist(), 1):
            mine = slice(found.graphs.starts[w], found.graphs.starts[w + 1])
            heads = found.graphs.heads[mine].tolist()
            assert heads == sorted(h for h, modifier in arcs if modifier == m)
            assert found.heads[w] == min(heads, key=lambda h: (abs(h - m), h))
            for h, label in zip(heads, found.graphs.relations[mine].tolist(), strict=True):
                one = (torch.tensor([each]) for each in (0, h, m))
                points = dense.label_scores(part, torch.tensor([[0]]), tuple(one))[0].numpy()
                if h == found.heads[w]:
                    points = np.where(permitted, points, -np.inf)
                assert label == points.argmax()
    assert (found.graphs.relations[found.graphs.starts[:-1]] >= 0).all()


@pytest.mark.parametrize(
    "how", [{"engine": "torch"}, {"batch_size": 1}, {"threads": 3}], ids=lambda how: next(iter(how))
)
def test_all_ways_find_the_same_graphs(models, model, how):
    parser, treebank = shaken(model), treebank_from_bytes(models.forms, "test")
    found, other = parser.parse(treebank), parser.parse(treebank, **how)
    assert found.heads.tolist() == other.heads.tolist()
    assert found.labels.tolist() == other.labels.tolist()
    for one, two in zip(vars(found.graphs).values(), vars(other.graphs).values(), strict=True):
        assert list(one) == list(two)


def test_a_run(models, model, tmp_path, capsys):
    """Train, parse and evaluate: tags, graphs with their primary heads, and scores of these."""
    parser = load_parser(model)
    out = models.parse(model, models.forms)
    assert set(column(out, 3)) <= set(parser.scorers[0].values.texts["upos"])
    for fields in rows(out):
        items = dict(item.split(":", 1) for item in fields[DEPS].split("|"))
        assert parser.primary[parser.labels.index(items[fields[HEAD]])] == fields[DEPREL]
    (tmp_path / "gold.conllu").write_bytes(models.gold)
    (tmp_path / "parsed.conllu").write_bytes(out)
    files = [str(tmp_path / name) for name in ("gold.conllu", "parsed.conllu")]
    capsys.readouterr()
    assert run(evaluate.main, [*files, "--graphs", "deps"]) == 0
    assert "secondary arcs" in capsys.readouterr().out
    read_graphs(treebank_from_bytes(out, "parsed"))


@pytest.mark.parametrize("primary", [None, ["root"]])
def test_other_relations_of_primary_arcs_are_refused(model, tmp_path, primary):
    parser = load_parser(model)
    save_parser(replace(parser, primary=primary), tmp_path)
    with pytest.raises(ModelError, match="primary"):
        load_parser(tmp_path)


def test_graphs_without_labels(models):
    model = models.model("bert", "graphs-heads", decoder="multi_parent", labels__kind="none")
    assert load_parser(model).primary is None
    assert {item.split(":")[1] for item in column(models.parse(model, models.forms), DEPS)} == {
        "dep"
    }
