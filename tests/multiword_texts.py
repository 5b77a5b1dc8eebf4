"""Generated text with multiword tokens and all kinds of spaces, and a config of all stages."""

import random

from gpuparse.data.conll import treebank_from_bytes
from gpuparse.text.conllu import text_pieces
from tests.synthetic import generate

CONFIG = {
    "features": "mcdonald-2005", "decoder": "chu_liu_edmonds", "threads": 1, "device": "cpu",
    "feature_map.rows": 65537, "learning.epochs": 3, "learning.cost_augmented": True,
    "labels.rows": 16384, "labels.epochs": 2, "tokenizer.learn": True, "tagger.learn": True,
    "tagger.folds": 2, "lemmatizer.learn": True,
}  # fmt: skip
# Pairs of words that are written as one token, which is not their text. The generated treebank has
# `didn't` of `did` and `n't` besides.
JOINED = {("with", "the"): "wthe", ("with", "a"): "wa", ("of", "the"): "ofe"}


def joined(first: str, second: str) -> str:
    """The token of two words, or nothing; `must` is `x` before a verb, the higher of both."""
    return JOINED.get((first, second), f"x{second}" if first == "must" else "")


def with_multiword_tokens(text: bytes) -> bytes:
    """A treebank with more multiword tokens, and spaces in MISC alone."""
    written: list[str] = []
    for line in text.decode().split("\n"):
        row = line.split("\t")
        if len(row) < 10:
            written += [line] if not line.startswith("# text") else []
            continue
        row[8] = "_"
        before = written[-1].split("\t") if written else []
        if len(before) == 10 and "-" not in before[0] and before[9] == "_":
            token = joined(before[1], row[1])
            two_before = written[-2].split("\t")[0].partition("-")
            if token and two_before[0] != before[0] and two_before[2] != before[0]:
                span = f"{before[0]}-{row[0]}"
                written.insert(-1, "\t".join([span, token, *"_" * 7, row[9]]))
                row[9] = "_"
        written.append("\t".join(row))
    return "\n".join(written).encode()


def raw_text() -> str:
    """Raw text with spaces of all kinds."""
    draw = random.Random(1)
    text = "".join(text_pieces([treebank_from_bytes(with_multiword_tokens(generate(40, 3)), "-")]))
    gaps = [" "] * 20 + ["  ", "\n", "\n\n", " \n", "\t", "\u00a0", "\u200b"]
    return " \n" + "".join(draw.choice(gaps) if c == " " else c for c in text)
