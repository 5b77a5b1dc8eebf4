"""Learn from best trees under noise: python examples/perturb_and_map.py TRAIN TEST

Gumbel noise on the scores of arcs makes the best tree a random one (perturb-and-MAP, Papandreou &
Yuille 2011). The mean score of such trees, noise included, less that of the gold tree is a loss
whose gradient is a perceptron's: the arcs of these trees less the gold arcs (Berthet et al. 2020).
It needs no sums over trees, so any decoder will do.
"""

import torch
from biaffine import Parser, label_loss, relations, train
from treebank_batches import documents_of

import gpuparse
from gpuparse.inference import NonProjectiveTrees


def perturbed_loss(model, batch, samples=4):
    """Per word, of arcs and labels."""
    trees, gold, scores = model(batch.words, batch.heads)
    arcs = trees.scores.arc.double()
    noise = (
        -torch.empty(samples, *arcs.shape, dtype=arcs.dtype, device=arcs.device)
        .exponential_()
        .log()
    )
    perturbed = NonProjectiveTrees(
        (arcs + noise).flatten(0, 1), trees.lengths.repeat(samples), single_root=True
    )
    of_arcs = perturbed.best().scores.sum() / samples - trees.score_of(gold).sum()
    return (of_arcs + label_loss(scores, batch)) / batch.lengths.sum()


if __name__ == "__main__":
    document, test = documents_of(__doc__, "train", "test")
    model = Parser(relations(document))
    train(model, document, epochs=10, rate=2e-3, loss_of=perturbed_loss)
    print(gpuparse.evaluate(test, model.parse(test)))
