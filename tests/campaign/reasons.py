"""Explanations of random words add up to the scores: every decoder and kind of template set.

    python -m tests.campaign.reasons [--words 1000] [--case NAME ...]

A small model is trained for each case of `tests/test_explaining.py`; random words of random
sentences are explained, half of them against a random other head. `explain` compares the sums of
weights with scores that are computed from dense tensors, and a difference is an error.
"""

import argparse
import random
import time

from gpuparse.errors import ConfigError, NoTreeError
from gpuparse.explaining import explain
from tests.samples import random_sentences, treebank_of
from tests.test_explaining import CASES, trained


def main() -> None:
    """Print for each case how many explanations were exact, and how many lines they had."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--words", type=int, default=1000, help="explanations of each case")
    parser.add_argument("--case", nargs="+", choices=tuple(CASES), default=tuple(CASES))
    options = parser.parse_args()
    for name in options.case:
        check(name, options.words)


def check(name: str, count: int) -> None:
    """Explain so many words with the model of a case."""
    decoder, templates, labels, change = CASES[name]
    model = trained(decoder, templates, labels, **change)
    sentences = random_sentences(7, count, 8)
    treebank = treebank_of(sentences)
    guides = treebank.heads if templates.guide else None
    draw, start = random.Random(11), time.monotonic()
    n_exact, n_lines, n_refused = 0, 0, 0
    for s, words in enumerate(sentences, 1):
        word = draw.randint(1, len(words))
        heads = [h for h in range(len(words) + 1) if h != word]
        instead = draw.choice(heads) if s % 2 else None
        try:
            found = explain(model, treebank, s, word, instead=instead, guides=guides)
        except (ConfigError, NoTreeError):  # the word's own head, or no other head
            n_refused += 1
            continue
        for choice in filter(None, (found.tree, found.label)):
            choice.require_exact()
            n_lines += len(choice.lines)
        n_exact += 1
    seconds = time.monotonic() - start
    print(
        f"{name}: {n_exact} exact, {n_refused} refused, {n_lines} lines, {seconds:.0f} s",
        flush=True,
    )


if __name__ == "__main__":
    main()
