"""Explanations of random words add up to the scores: every decoder and kind of template set.

    python -m tests.campaign.reasons [--sentences 1000] [--case NAME ...]
    python -m tests.campaign.reasons --model FOLDER --treebank FILE [--sentences 1000]

A small model is trained for each case of `tests/test_explaining.py`, or a trained model is taken;
one random word of each sentence is explained, half of them against a random other head. `explain`
compares the sums of weights with scores that are computed from dense tensors, and a difference is
an error. Sentences of one word, which has no other head, are passed over.
"""

import argparse
import random
import re
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path

from gpuparse.data.conll import read_treebank, treebank_from_bytes
from gpuparse.data.treebank import Treebank
from gpuparse.errors import NoTreeError
from gpuparse.model.explain import Explanation, explain
from gpuparse.model.folder import load_parser
from gpuparse.model.parser import Parser
from tests.samples import random_sentences, treebank_of
from tests.test_explaining import CASES, trained


def main() -> None:
    """Print for each case how many explanations were exact, and how many lines they had."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sentences", type=int, default=1000, help="explained of each case")
    parser.add_argument("--case", nargs="+", choices=tuple(CASES), default=tuple(CASES))
    parser.add_argument("--model", type=Path, help="folder of a trained model, without guides")
    parser.add_argument("--treebank", help="whose sentences it parses; they are drawn by chance")
    options = parser.parse_args()
    if (options.model is None) != (options.treebank is None):
        parser.error("--model and --treebank go together")
    if options.model:
        found = sentences_of(options.treebank)
        check(options.model.name, load_parser(options.model), found, options.sentences)
        return
    for name in options.case:
        decoder, templates, labels, change = CASES[name]
        model = trained(decoder, templates, labels, **change)
        drawn = (treebank_of(random_sentences(seed, 1, 8)) for seed in count(1000))
        check(name, model, drawn, options.sentences)


def sentences_of(path: str) -> Iterator[Treebank]:
    """The sentences of a file one by one, in random order."""
    texts = re.split(rb"\n(?:\r?\n)+", read_treebank(path).data.tobytes())
    texts = [text + b"\n\n" for text in texts if text.strip()]
    random.Random(12).shuffle(texts)
    return (treebank_from_bytes(text, path) for text in texts)


def check(name: str, model: Parser, sentences: Iterator[Treebank], wanted: int) -> None:
    """Explain a word of a number of sentences, of all if there are fewer."""
    draw, start, n_exact, n_asked, n_lines, n_without = (
        random.Random(11),
        time.monotonic(),
        0,
        0,
        0,
        0,
    )
    for treebank in sentences:
        if n_exact == wanted:
            break
        is_asked = n_exact % 2 == 0
        found = (
            explanation(draw, model, treebank, is_asked=is_asked) if treebank.n_words > 1 else None
        )
        if found is None:
            n_without += 1
            continue
        assert found.tree is not None
        n_lines += len(found.tree.lines)
        n_exact += 1
        n_asked += is_asked
    seconds = time.monotonic() - start
    print(
        f"{name}: {n_exact} sentences exact, {n_asked} of them with --instead; {n_without} passed"
        f" over; {n_lines} lines, {seconds:.0f} s",
        flush=True,
    )


def explanation(
    draw: random.Random, model: Parser, treebank: Treebank, *, is_asked: bool
) -> Explanation | None:
    """Explain a random word of one sentence; None: every word has one head in all trees."""
    guides = treebank.heads if model.linear.templates.guide else None
    own = model.parse(treebank, guides=guides).heads
    words = list(range(1, treebank.n_words + 1))
    for word in draw.sample(words, len(words)):
        others = [h for h in (0, *words) if h not in (word, own[word - 1])]
        for instead in draw.sample(others, len(others)) if is_asked else [None]:
            try:
                return explain(model, treebank, 1, word, instead=instead, guides=guides)
            except NoTreeError:
                continue
    return None


if __name__ == "__main__":
    main()
