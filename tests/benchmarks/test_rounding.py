"""The benchmark of rounding scores arcs and labels by learned weights as the definition does."""

import numpy as np
import pytest

from benchmarks.rounding import _float_scores
from gpuparse.data.vocabulary import Encoder, Vocabularies
from gpuparse.scorers.vectors.word_vectors import VectorWeights
from tests.samples import random_sentences, treebank_of
from tests.vectors import float_scores, random_plan, random_weights


@pytest.mark.parametrize("hidden", [0, 7])
def test_scores_of_arcs_are_those_of_the_definition(hidden: int):
    import torch

    random = np.random.default_rng(hidden)
    treebank = treebank_of(random_sentences(3, 6, 9))
    vocabularies = Vocabularies.build(treebank, ["form", "pos"], 3)
    batch = Encoder(vocabularies).encode(treebank)
    plan = random_plan(random, batch, [0, -1, 2, 0], 30)
    weights = random_weights(random, plan, hidden, 5, 4, 3)
    wide = VectorWeights(*(torch.from_numpy(np.asarray(each, np.float64)) for each in weights))
    for b, (start, n) in enumerate(zip(batch.starts.tolist(), batch.lengths.tolist(), strict=True)):
        found, *_ = _float_scores(wide, plan, batch, start, n)
        expected, _ = float_scores(weights, plan, batch, b)
        is_arc = ~np.eye(n + 1, dtype=np.bool_)
        is_arc[:, 0] = False
        np.testing.assert_allclose(found.numpy()[is_arc], expected[is_arc], rtol=1e-9, atol=1e-12)
