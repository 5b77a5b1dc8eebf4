"""Learn from best trees under noise: python examples/perturb_and_map.py TRAIN TEST

Gumbel noise on the scores of arcs makes the best tree a random one (perturb-and-MAP, Papandreou &
Yuille 2011). The mean score of such trees, noise included, less that of the gold tree is a loss
whose gradient is a perceptron's: the arcs of these trees less the gold arcs (Berthet et al. 2020).
It needs no sums over trees, so any decoder will do.
"""

import torch
from biaffine import Parser, train
from treebank_batches import documents_of, relations_of

import gpuparse
from gpuparse.inference import NonProjectiveTrees, label_loss


def perturbed_loss(model, batch, samples=4):
    """Per word, of arcs and labels."""
    labelled = model(batch.words)
    trees = labelled.trees
    arcs = trees.scores.arc.double()
    noise = torch.distributions.Gumbel(0.0, 1.0).sample((samples, *arcs.shape)).to(arcs)
    perturbed = NonProjectiveTrees(
        (arcs + noise).flatten(0, 1), trees.lengths.repeat(samples), single_root=True
    )
    of_best = perturbed.best().scores.unflatten(0, (samples, -1)).mean(0)
    gold, is_left_out = trees.reachable(batch.heads, "skip")  # those with several roots
    of_arcs = (of_best - trees.score_of(gold)).masked_fill(is_left_out, 0.0)
    of_labels = label_loss(labelled, batch.heads, batch.labels)
    return (of_arcs + of_labels).sum() / batch.lengths.sum()


if __name__ == "__main__":
    document, test = documents_of(__doc__, "train", "test")
    model = Parser(relations_of(document))
    train(model, document, epochs=10, loss_of=perturbed_loss)
    print(gpuparse.evaluate(test, model.parse(test)))
