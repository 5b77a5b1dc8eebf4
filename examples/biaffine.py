"""Train, save and score a biaffine parser: python examples/biaffine.py TRAIN TEST MODEL

Arcs and labels have biaffine scores (Dozat & Manning 2017) of states from a BiLSTM or a pretrained
encoder. Arcs are learned as a conditional random field over all trees, labels given the arcs.
"""

import argparse

import torch
from torch import nn
from torch.nn.functional import pad
from treebank_batches import batches_of, relations_of
from word_states import Pretrained, Words

import gpuparse
from gpuparse.inference import LabelledTrees, NonProjectiveTrees, conditional_loss, label_loss


class Parser(nn.Module):
    """names: of the relations; encoder: the name of a pretrained one, or None."""

    def __init__(self, names, encoder=None, size=128):
        super().__init__()
        self.names, self.encoder = names, encoder
        self.states = Pretrained(encoder) if encoder else Words()
        self.vectors, self.drop = nn.Linear(self.states.size, 4 * size), nn.Dropout(0.33)
        self.arcs = nn.Parameter(torch.zeros(size, size + 1))
        self.labels = nn.Parameter(torch.zeros(len(names), size + 1, size + 1))

    def forward(self, sentences):
        vectors = self.drop(self.vectors(self.states(sentences)).relu())
        h, m, label_h, label_m = vectors.chunk(4, 2)
        arcs = h @ self.arcs @ pad(m, (0, 1), value=1.0).mT
        lengths = torch.tensor([len(s) for s in sentences], device=arcs.device)
        trees = NonProjectiveTrees(arcs, lengths, single_root=True)
        return LabelledTrees(trees, (label_h, label_m, self.labels))

    @torch.no_grad()
    def parse(self, document):
        heads, deprels = [[]] * len(document), [[]] * len(document)
        for batch in batches_of(document, self.eval().names, positions=800):
            labelled = self(batch.words)
            found = labelled.trees.best().heads
            labels = labelled.best_labels(found).tolist()
            for s, row, ids in zip(batch.numbers, found.tolist(), labels, strict=True):
                heads[s] = row
                deprels[s] = [self.names[i] for i in ids[1 : 1 + len(document[s])]]
        return document.with_heads(heads, deprels)


def loss_of(model, batch):
    """The negative log-likelihood of gold trees, and of gold labels given them, per word."""
    labelled = model(batch.words)
    of_arcs = conditional_loss(labelled.trees, batch.heads, unreachable="skip")
    of_labels = label_loss(labelled, batch.heads, batch.labels)
    return (of_arcs + of_labels).sum() / batch.lengths.sum()


def train(model, document, epochs, rate=None, loss_of=loss_of):
    rate = rate or (5e-5 if model.encoder else 8e-3)
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
    model = Parser(relations_of(document), given.encoder).to(given.device)
    train(model, document, given.epochs)
    torch.save([model.names, model.encoder, model.state_dict()], given.model)
    print(gpuparse.evaluate(test, load(given.model).to(given.device).parse(test)))
