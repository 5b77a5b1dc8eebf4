"""The examples of neural parsers learn the trees of a few sentences, by the gradients they name."""

import importlib
import random
import runpy
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
import torch

import gpuparse
from gpuparse.inference import LabelledTrees, NonProjectiveTrees
from tests.samples import random_sentences, text_of
from tests.synthetic import generate
from tests.tiny_encoders import write_encoder

EXAMPLES = Path(__file__).parents[2] / "examples"
DOCUMENT, RAW = gpuparse.read(generate(6, 1)), gpuparse.read(generate(6, 2))
NAMES = ("treebank_batches", "word_states", "biaffine", "reinforce", "semi_supervised",
         "perturb_and_map")  # fmt: skip


@pytest.fixture
def examples(monkeypatch) -> SimpleNamespace:
    """The modules, with a small table of words and a small LSTM."""
    monkeypatch.syspath_prepend(EXAMPLES)
    for name in NAMES:
        monkeypatch.delitem(sys.modules, name, raising=False)
    found: dict[str, ModuleType] = {name: importlib.import_module(name) for name in NAMES}
    words = found["word_states"]
    monkeypatch.setattr(words, "ROWS", 2000)
    monkeypatch.setattr(words.Words.__init__, "__defaults__", (40,))
    monkeypatch.setattr(found["biaffine"].Parser.__init__, "__defaults__", (None, 40))
    torch.manual_seed(1)
    random.seed(1)
    return SimpleNamespace(**found)


def uas(model) -> float:
    return gpuparse.evaluate(DOCUMENT, model.parse(DOCUMENT))["uas"]["percent"]


def parser_of(examples, epochs: int = 0, loss_of=None):
    model = examples.biaffine.Parser(examples.treebank_batches.relations_of(DOCUMENT))
    if epochs:
        loss_of = loss_of or examples.biaffine.loss_of
        examples.biaffine.train(model, DOCUMENT, epochs, 2e-2, loss_of)
    return model


def test_batches_have_all_sentences_once_in_the_layout_of_the_library(examples):
    names = examples.treebank_batches.relations_of(DOCUMENT)
    for shuffle in (False, True):
        batches = list(
            examples.treebank_batches.batches_of(DOCUMENT, names, positions=40, shuffle=shuffle)
        )
        assert len(batches) > 2
        assert sorted(s for batch in batches for s in batch.numbers) == [*range(len(DOCUMENT))]
        for batch in batches:
            assert batch.mask.numel() <= 40
            assert batch.mask.sum(1).equal(batch.lengths)
            for b, s in enumerate(batch.numbers):
                sentence = DOCUMENT[s]
                assert batch.words[b] == sentence.words
                assert batch.heads[b][batch.mask[b]].tolist() == sentence.heads
                found = [names[i] for i in batch.labels[b][batch.mask[b]].tolist()]
                assert found == sentence.deprels
            assert (batch.heads[~batch.mask] == -1).all()
            assert (batch.labels[~batch.mask] == -1).all()
    [batch] = examples.treebank_batches.batches_of(DOCUMENT, [])
    assert (batch.labels == -1).all()


@pytest.fixture(params=["conditional", "perturbed"])
def loss_of(request, examples):
    """A loss of arcs and labels."""
    return {
        "conditional": examples.biaffine.loss_of,
        "perturbed": examples.perturb_and_map.perturbed_loss,
    }[request.param]


def test_losses_teach_the_trees_of_the_training_sentences(examples, loss_of):
    assert uas(parser_of(examples)) < 50
    assert uas(parser_of(examples, 120, loss_of)) > 80


def test_sentences_with_several_roots_teach_labels_alone(examples, loss_of):
    some = gpuparse.read("".join(s.to_conllu() for s in DOCUMENT[:2]))
    some = some.with_heads([[0] * len(s) for s in some], [s.deprels for s in some])
    model = parser_of(examples)
    (batch,) = examples.treebank_batches.batches_of(some, model.names)
    loss_of(model, batch).backward()
    assert not model.arcs.grad.any()
    assert model.labels.grad.any()


def test_a_saved_parser_scores_as_it_prints(examples, tmp_path, monkeypatch, capsys):
    (tmp_path / "a.conllu").write_bytes(generate(6, 1))
    monkeypatch.chdir(tmp_path)
    words = ["biaffine.py", "a.conllu", "a.conllu", "model.pt", "--epochs", "2"]
    monkeypatch.setattr(sys, "argv", words)
    names = runpy.run_path(str(EXAMPLES / "biaffine.py"), run_name="__main__")
    model = names["load"]("model.pt")
    assert capsys.readouterr().out == f"{gpuparse.evaluate(DOCUMENT, model.parse(DOCUMENT))}\n"


def test_a_pretrained_encoder_gives_a_state_for_each_word(examples, tmp_path):
    encoder = examples.word_states.Pretrained(str(write_encoder(tmp_path / "encoder"))).eval()
    sentences = [["She", "sings", "unbelievably", "."], ["No", "."]]
    states = encoder(sentences)
    assert states.shape == (2, 5, encoder.size)
    torch.testing.assert_close(encoder(sentences[1:]), states[1:, :3], rtol=1e-4, atol=1e-5)


def test_the_gradient_of_samples_is_that_of_the_expected_cost(examples):
    """The mean over many samples, beside the exact one by marginals and the gold tree."""
    sentences = random_sentences(5, 3, 4, projective=False)
    [batch] = examples.treebank_batches.batches_of(gpuparse.read(text_of(sentences)), [])
    n_nodes = batch.mask.shape[1]
    scores = torch.randn(*batch.mask.shape, n_nodes, dtype=torch.float64, requires_grad=True)
    trees = NonProjectiveTrees(scores, batch.lengths)

    def model(words):
        return LabelledTrees(trees, torch.zeros(*scores.shape, 1))

    torch.manual_seed(2)
    loss = examples.reinforce.reinforce_loss(model, batch, samples=20_000)
    [found] = torch.autograd.grad(loss, scores, retain_graph=True)
    right = trees.marginals.gather(1, batch.heads.clamp(min=0)[:, None])[:, 0]
    expected = (1 - right)[batch.mask].sum() + (1 - trees.log_prob(batch.heads).exp()).sum()
    [exact] = torch.autograd.grad(expected / batch.lengths.sum(), scores)
    assert (found - exact).abs().max() < 0.02 * exact.abs().max() + 1e-3
    assert torch.nn.functional.cosine_similarity(found.flatten(), exact.flatten(), 0) > 0.99


def test_samples_teach_a_parser_that_knows_little(examples):
    def wrong_heads(model) -> float:
        """The exact number that is expected of random trees."""
        [batch] = examples.treebank_batches.batches_of(DOCUMENT, [])
        with torch.no_grad():
            trees = model.eval()(batch.words).trees
        right = trees.marginals.gather(1, batch.heads.clamp(min=0)[:, None])[:, 0]
        return float((1 - right)[batch.mask].sum())

    model = parser_of(examples, 40)
    before = wrong_heads(model)
    examples.biaffine.train(model, DOCUMENT, 100, 5e-3, examples.reinforce.reinforce_loss)
    assert wrong_heads(model) < 0.85 * before


def test_raw_sentences_get_surer_trees(examples):
    def entropy(model) -> float:
        batches = examples.treebank_batches.batches_of(RAW, [])
        with torch.no_grad():
            return sum(model.eval()(b.words).trees.entropy.sum().item() for b in batches)

    loss = examples.semi_supervised.semi_supervised_loss(RAW, weight=0.2)
    torch.manual_seed(1)
    taught = parser_of(examples, 80)
    torch.manual_seed(1)
    with_raw = parser_of(examples, 80, loss)
    assert entropy(with_raw) < 0.5 * entropy(taught)
    assert uas(with_raw) > uas(parser_of(examples)) + 20
