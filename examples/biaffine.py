"""Train, save and score a biaffine parser: python examples/biaffine.py TRAIN TEST MODEL

Arcs and labels have biaffine scores (Dozat & Manning 2017) of states from a BiLSTM or a pretrained
encoder. Arcs are learned as a conditional random field over all trees.
"""

import argparse

import torch
from torch import nn
from torch.nn.functional import cross_entropy, pad
from treebank_batches import batches_of
from word_states import Pretrained, Words

import gpuparse
from gpuparse.inference import NonProjectiveTrees, conditional_loss


def relations(document):
    return sorted({name for sentence in document for name in sentence.deprels})


class Parser(nn.Module):
    """names: of the relations; encoder: the name of a pretrained one, or None."""

    def __init__(self, names, encoder=None, size=200):
        super().__init__()
        self.names, self.encoder = names, encoder
        self.states = Pretrained(encoder) if encoder else Words()
        self.vectors, self.drop = nn.Linear(self.states.size, 2 * size), nn.Dropout(0.33)
        self.arcs = nn.Parameter(torch.zeros(size + 1, size + 1))
        self.labels = nn.Parameter(torch.zeros(len(names), size // 2 + 1, size // 2 + 1))

    def forward(self, sentences, heads=None):
        """Trees; heads, or the best ones; scores (B, N, L) of the labels of words under heads."""
        both = self.drop(self.vectors(self.states(sentences)).relu()).chunk(2, 2)
        h, m = (pad(vectors, (0, 1), value=1.0) for vectors in both)
        lengths = torch.tensor([len(s) for s in sentences], device=h.device)
        trees = NonProjectiveTrees(h @ self.arcs @ m.mT, lengths, single_root=True)
        heads = trees.best().heads if heads is None else heads.to(h.device)
        h, m = (vectors[..., -len(self.labels[0]) :] for vectors in (h, m))
        h = h.take_along_dim(heads.clamp(min=0)[..., None], 1)
        return trees, heads, torch.einsum("bmi,lij,bmj->bml", h, self.labels, m)

    @torch.no_grad()
    def parse(self, document):
        heads, deprels = [[]] * len(document), [[]] * len(document)
        for batch in batches_of(document, self.eval().names):
            _, found, scores = self(batch.words)
            labels = scores.argmax(2).tolist()
            for s, row, ids in zip(batch.numbers, found.tolist(), labels, strict=True):
                heads[s] = row
                deprels[s] = [self.names[i] for i in ids[1 : 1 + len(document[s])]]
        return document.with_heads(heads, deprels)


def label_loss(scores, batch):
    """The sum of the negative log-likelihoods of gold labels, given gold heads."""
    labels = batch.labels.to(scores.device)
    return cross_entropy(scores.mT, labels, ignore_index=-1, reduction="sum")


def loss_of(model, batch):
    """The negative log-likelihood of gold trees and labels, per word."""
    trees, heads, scores = model(batch.words, batch.heads)
    of_arcs = conditional_loss(trees, heads, unreachable="skip").sum()
    return (of_arcs + label_loss(scores, batch)) / batch.lengths.sum()


def train(model, document, epochs, rate, loss_of=loss_of):
    optimiser = torch.optim.Adam(model.parameters(), rate, (0.9, 0.95), fused=True)
    batches = batches_of(document, model.names, shuffle=True)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, rate, epochs * len(batches))
    for _ in range(epochs):
        for batch in batches:
            loss_of(model.train(), batch).backward()
            optimiser.step()
            optimiser.zero_grad()
            schedule.step()


def load(file):
    names, encoder, state = torch.load(file, map_location="cpu")
    (model := Parser(names, encoder)).load_state_dict(state)
    return model


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__)
    for name in ("train", "test", "model"):
        arguments.add_argument(name)
    arguments.add_argument("--encoder", help="a folder or name of the package transformers")
    arguments.add_argument("--epochs", type=int, default=10)
    arguments.add_argument("--device", default="cpu")
    given = arguments.parse_args()
    document, test = gpuparse.read(given.train), gpuparse.read(given.test)
    model = Parser(relations(document), given.encoder).to(given.device)
    train(model, document, given.epochs, 5e-5 if given.encoder else 2e-3)
    torch.save([model.names, model.encoder, model.state_dict()], given.model)
    print(gpuparse.evaluate(test, load(given.model).to(given.device).parse(test)))
