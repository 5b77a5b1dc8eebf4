"""Learn from samples of trees: python examples/reinforce.py TRAIN TEST

The score-function gradient of an expected cost (REINFORCE, Williams 1992) is for costs that are no
sum over arcs: here the number of wrong heads, and 1 more if any is wrong. A parser that knows
nothing learns slowly from a cost alone, so it learns from gold trees first.
"""

from biaffine import Parser, train
from treebank_batches import documents_of, relations_of

import gpuparse
from gpuparse.inference import label_loss


def reinforce_loss(model, batch, samples=8):
    """Per word; its gradient is that of the expected cost, and its value has no meaning."""
    labelled = model(batch.words)
    drawn = labelled.trees.sample(samples)  # (B, K, N)
    gold, is_word = (x[:, None].to(drawn.device) for x in (batch.heads, batch.mask))
    wrong = (drawn != gold) & is_word
    cost = wrong.sum(2) + wrong.any(2).double()  # (B, K)
    others = (cost.sum(1, keepdim=True) - cost) / (samples - 1)  # mean cost of the other samples
    of_arcs = ((cost - others) * labelled.trees.log_prob(drawn)).mean(1)
    of_labels = label_loss(labelled, batch.heads, batch.labels)
    return (of_arcs + of_labels).sum() / batch.lengths.sum()


if __name__ == "__main__":
    document, test = documents_of(__doc__, "train", "test")
    model = Parser(relations_of(document))
    train(model, document, epochs=3)
    print(gpuparse.evaluate(test, model.parse(test)))
    train(model, document, epochs=3, rate=2e-3, loss_of=reinforce_loss)
    print(gpuparse.evaluate(test, model.parse(test)))
