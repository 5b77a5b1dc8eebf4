"""Explanations of random words add up to the scores: every decoder and kind of template set.

A small model is trained for each case of `tests/test_explaining.py`. `explain` compares the sums of
weights with scores that are computed from dense tensors, and a difference is an error.
"""

from __future__ import annotations

import random

from gpuparse.errors import NoTreeError
from gpuparse.model.explain import explain
from tests.campaign.bench import Bench
from tests.samples import random_sentence, treebank_of
from tests.test_explaining import CASES, of_case


def reasons(draw: random.Random, bench: Bench) -> list[str]:
    """A word of a random sentence is explained, half of them against a random other head."""
    case = draw.choice(list(CASES))
    model, treebank = of_case(case), treebank_of([random_sentence(draw, draw.randint(2, 8))])
    guides = treebank.heads if model.linear.templates.guide else None
    word = draw.randint(1, treebank.n_words)
    own = int(model.parse(treebank, guides=guides).heads[word - 1])
    others = [head for head in range(treebank.n_words + 1) if head not in (word, own)]
    instead = draw.choice([None, draw.choice(others)])
    try:
        found = explain(model, treebank, 1, word, instead=instead, guides=guides)
    except NoTreeError:
        return [f"{case}: no tree with another head"]
    assert found.tree is not None
    assert found.tree.lines
    return [f"{case}: exact"]
