"""Learn from sentences without trees, too: python examples/semi_supervised.py TRAIN RAW TEST

Entropy regularisation (Grandvalet & Bengio 2004): besides the likelihood of gold trees, the entropy
of the trees of raw sentences is made small. RAW is CoNLL-U whose heads are not read.
"""

from itertools import cycle

from biaffine import Parser, loss_of, train
from treebank_batches import batches_of, documents_of, relations_of

import gpuparse


def semi_supervised_loss(raw, weight=0.1):
    """The loss of `train` with the entropy of sentences of another document, both per word."""
    batches = cycle(batches_of(raw, [], shuffle=True))

    def loss(model, batch):
        others = next(batches)
        entropy = model(others.words).trees.entropy.sum() / others.lengths.sum()
        return loss_of(model, batch) + weight * entropy

    return loss


if __name__ == "__main__":
    document, raw, test = documents_of(__doc__, "train", "raw", "test")
    model = Parser(relations_of(document))
    train(model, document, epochs=10, loss_of=semi_supervised_loss(raw))
    print(gpuparse.evaluate(test, model.parse(test)))
