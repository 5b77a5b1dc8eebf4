"""Small treebanks for the tests of features, scores and learning."""

import random
import tempfile
from pathlib import Path

from gpuparse.data.conll import Treebank, treebank_from_bytes
from gpuparse.model.folder import save_parser
from gpuparse.model.parser import Parser

Sentence = list[list[str]]

FORMS = [
    "a",
    "_",
    "Hunde",
    "hunde",
    "schläft",
    "Straßenbahn",
    "İstanbul",
    "naïveté",
    "🦊🦊🦊🦊🦊🦊",
    ".",
]
LEMMAS = ["_", "hund", "schlafen", "Straßenbahnen"]
FEATS = ["_", "Case=Nom|Number=Sing", "Case=Acc", "Flag", "Number=Plur|Flag"]


def row(number: int, form: str, head: int | str, label: str = "dep", **columns: str) -> list[str]:
    """Ten columns of a word; `columns` are lemma, cpos, fpos and feats."""
    named = [columns.get(name, "_") for name in ("lemma", "cpos", "fpos", "feats")]
    return [str(number), form, *named, str(head), label, "_", "_"]


def projective_heads(draw: random.Random, n: int) -> list[int]:
    """A random projective tree of n words with one word under the root."""
    heads = [0] * n

    def attach(first: int, last: int, head: int) -> None:
        if first <= last:
            top = draw.randint(first, last)
            heads[top - 1] = head
            attach(first, top - 1, top)
            attach(top + 1, last, top)

    attach(1, n, 0)
    return heads


def any_heads(draw: random.Random, n: int) -> list[int]:
    """A random tree of n words, crossing arcs and several roots included."""
    order = draw.sample(range(1, n + 1), n)
    heads = [0] * n
    for place, m in enumerate(order):
        heads[m - 1] = draw.choice([0, *order[:place]])
    return heads


def random_sentence(draw: random.Random, n: int, *, projective: bool = True) -> Sentence:
    """n words with every oddity that a column can have."""
    heads = (projective_heads if projective else any_heads)(draw, n)
    return [
        row(
            m,
            draw.choice(FORMS),
            heads[m - 1],
            draw.choice(["subj", "obj", "root"]),
            lemma=draw.choice(LEMMAS),
            cpos=draw.choice(["N", "V", "P", "_"]),
            fpos=draw.choice(["NN", "NE", "VV", "_"]),
            feats=draw.choice(FEATS),
        )
        for m in range(1, n + 1)
    ]


def random_sentences(
    seed: int, count: int, longest: int, *, projective: bool = True
) -> list[Sentence]:
    draw = random.Random(seed)
    return [
        random_sentence(draw, draw.randint(1, longest), projective=projective) for _ in range(count)
    ]


def text_of(sentences: list[Sentence]) -> str:
    return "".join("\n".join("\t".join(word) for word in words) + "\n\n" for words in sentences)


def treebank_of(sentences: list[Sentence]) -> Treebank:
    return treebank_from_bytes(text_of(sentences).encode(), "sample.conllu")


def template_set_text(
    arc: list[str] = (),
    label: list[str] = (),
    distance: tuple[int, ...] = (1, 2, 5),
    sibling: list[str] = (),
    end: list[str] = (),
    guide: list[str] = (),
) -> str:
    """YAML of a set with the given templates."""
    lines = [f"distance: {list(distance)}"]
    parts = {"arc": arc, "sibling": sibling, "end": end, "guide": guide, "label": label}
    for part, templates in parts.items():
        if templates:
            lines += [f"{part}:", "  - templates:"]
            lines += [f"      - '{template}'" for template in templates]
    return "\n".join(lines) + "\n"


def fingerprint(model: Parser) -> dict[str, bytes]:
    """The bytes of the model's files."""
    with tempfile.TemporaryDirectory() as folder:
        save_parser(model, Path(folder))
        return {file.name: file.read_bytes() for file in Path(folder).iterdir()}


def without(text: bytes, *empty: int) -> bytes:
    """CoNLL-U with `_` in some columns of its rows."""
    rows = [line.split(b"\t") for line in text.split(b"\n")]
    for row in rows:
        if len(row) == 10:
            for column in empty:
                row[column] = b"_"
    return b"\n".join(map(b"\t".join, rows))
