"""Stages before the parser as `tests/hostile_files.py` damages them: how they are learned and used.

What a stage writes is CoNLL-U with ten filled columns in each line, of the same text and the same
words. What is hostile in stages alone: beams, tags, rules of lemmas and of multiword tokens.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from gpuparse.data import array_file
from gpuparse.data.conll import treebank_from_bytes
from gpuparse.data.formats.text import text_chunk
from gpuparse.data.treebank import Treebank
from gpuparse.model.pipeline import FILES, LEMMATIZER, TAGGER, TOKENIZER, Pipeline, load_stage
from gpuparse.text import tokenizer
from gpuparse.text.conllu import text_pieces
from gpuparse.text.sequences.tags import PART_BLOCK, TagTable
from gpuparse.text.tagging import lemmatizer, tagger, tagger_learner
from gpuparse.text.tagging.lemmatizer import learn_lemmatizer
from gpuparse.text.tagging.tagger_learner import learn_tagger
from gpuparse.text.training import learn_tokenizer
from tests.hostile_files import VALUES, Entry, Kind, Parts, array, at
from tests.small_stages import small_stages
from tests.synthetic import generate

# `many`: a tagger whose second model has XPOS with FEATS.
MANY = "tagger, many"
FORMATS = {
    TOKENIZER: tokenizer.FORMAT, TAGGER: tagger.FORMAT, MANY: tagger.FORMAT,
    LEMMATIZER: lemmatizer.FORMAT,
}  # fmt: skip
TRAIN = treebank_from_bytes(generate(60, 1), "train")
WORDS = ["s", "ss", "S", "_", "10 000", "é", "ﬀ", "İ", "#", "'"]
TEST = treebank_from_bytes(
    generate(8, 2)
    + "".join(f"{k}\t{word}" + "\t_" * 8 + "\n" for k, word in enumerate(WORDS, 1)).encode()
    + b"\n",
    "test",
)
TEXT = "".join(text_pieces([TEST])) + "\n\n" + "le " * 3000 + "LE Le's 10 000 le\u00a0le.\n"
# What no column can be, and what it can.
UNFIT: dict[str, Any] = {
    repr(text)[:20]: text
    for text in (
        "", " ", "   ", "a\tb", "a\nb", "a\n\n1\tb", "\n", "a\rb", "a\r\n", "a\0b", "\0",
        "\ud800", "a\udfff", 7, None, True, ["a"], "x" * 1001, "x" * 100_000,
    )
}  # fmt: skip
FIT: dict[str, Any] = {
    repr(text)[:20]: text
    for text in (
        "_", "a b", "#", "a|b=c", "a\u2028b", "a\x85b", "\x1b[2J", "x" * 900, "-", "1-2", "\u3000",
    )
}  # fmt: skip


@cache
def learned(kind: str) -> bytes:
    """The file of a small stage of a kind."""
    learners = {TOKENIZER: learn_tokenizer, LEMMATIZER: learn_lemmatizer}
    with small_stages(epochs=1) as patch:
        if kind == MANY:
            patch.setattr(tagger_learner, "_MANY", 4)
        return learners.get(kind, learn_tagger)(TRAIN, seed=1).pack()


def parts_of(kind: str) -> Parts:
    """The parts of a small stage, which may be changed."""
    facts, arrays = array_file.read_open(
        io.BytesIO(learned(kind)), Path("stage"), form=FORMATS[kind], what="stage"
    )
    return Parts(facts, dict(arrays), FORMATS[kind])


def use(name: str, folder: Path) -> str:
    """Load a stage and annotate with it. Raises: ModelError: it is refused."""
    check_stage(load_stage(folder, name), name)
    return "annotated"


def check_stage(stage: Any, name: str) -> None:
    """AssertionError unless a stage annotates and its CoNLL-U is right."""
    if name == TOKENIZER:
        found = stage.split(text_chunk(TEXT.encode(), "text")).text
        check_filled(found)
        assert "".join(text_pieces([treebank_from_bytes(found, "found")])) == TEXT
        return
    stages = Pipeline(None, stage, None) if name == TAGGER else Pipeline(None, None, stage)
    treebank, _ = stages.annotate_with_probabilities(TEST)
    found = treebank.data.tobytes()
    check_filled(found)
    again = treebank_from_bytes(found, "found")
    assert words_of(again) == words_of(TEST)


def words_of(treebank: Treebank) -> list[list[str]]:
    """The words of each sentence."""
    return [sentence.forms for sentence in treebank]


def check_filled(found: bytes) -> None:
    """AssertionError unless each line that is no comment has ten filled columns."""
    for line in found.decode().split("\n"):
        columns = line.split("\t")
        assert not line or line[0] == "#" or len(columns) == 10, line[:80]
        assert "\0" not in line, line[:80]
        assert "\r" not in line, line[:80]
        assert len(columns) == 1 or all(column.strip(" ") for column in columns), line[:80]


# ---- what is hostile in stages alone -----------------------------------------------------------


def _retagged(model: str, place: int, text: Any) -> Callable[[Parts], object]:
    """Another text in the place of one of a model's tags, wherever that is."""

    def change(parts: Parts) -> None:
        tags = parts.facts[model]["tags"]
        old = tags[len(tags) // 2][place]
        for tag in tags:
            tag[place] = text if tag[place] == old else tag[place]

    return change


def _rules(texts: list[str]) -> Callable[[Parts], object]:
    """The rules of lemmas, all others than those that were learned."""

    def change(parts: Parts) -> None:
        tags = parts.facts["rules"]["tags"]
        numbered = [f"whole\t\t\t\tlemma{k}" for k in range(len(tags))]
        parts.facts["rules"]["tags"] = [[text] for text in [*texts, *numbered][: len(tags)]]

    return change


def _split(rule: list[Any]) -> Callable[[Parts], object]:
    """One rule for multiword tokens in place of another, chosen for some tokens that it fits."""

    def change(parts: Parts) -> None:
        parts.facts["rules"]["rules"][0] = rule
        weights = parts.arrays["words.weights"]
        draw = np.random.default_rng(1)
        parts.arrays["words.weights"] = draw.integers(-9, 9, len(weights)).astype(np.int16)
        parts.arrays["words.known"] = np.full_like(parts.arrays["words.known"], -1)

    return change


def _names(name: str, change: Callable[[str], str]) -> Callable[[Parts], object]:
    """Other names in a dictionary."""
    return array(
        f"{name}_names",
        lambda found: np.frombuffer(
            "\n".join(map(change, found.tobytes().decode().split("\n"))).encode(), np.uint8
        ),
    )


def _many_tags(parts: Parts) -> None:
    """8,000 tags, and no word is frequent enough for the dictionary."""
    tags = [["X", str(k)] for k in range(8_000)]
    parts.facts["pairs"]["tags"], parts.facts["words"] = tags, 1 << 30


def _many_candidates(count: int) -> Callable[[Parts], object]:
    """A tagger with a given number of possible FEATS for every word."""

    def change(parts: Parts) -> None:
        tags = parts.facts["feats"]["tags"]
        tags += [["X", f"A={k}"] for k in range(count - len(tags))]
        names = len(parts.arrays["classes_starts"]) - 1
        parts.arrays["classes_starts"] = np.arange(names + 1, dtype=np.int64) * len(tags)
        parts.arrays["classes_tags"] = np.tile(np.arange(len(tags), dtype=np.int32), names)
        parts.arrays["classes_counts"] = np.ones(names * len(tags), np.int32)
        parts.facts["words_of_feats"] = 1 << 30
        # The network needs rows for all of these tags.
        attributes = parts.facts["feats"]["attributes"]
        rows = PART_BLOCK * len(TagTable(tuple(map(tuple, tags)), attributes).blocks)
        hidden = parts.arrays["network_feats"].shape[1]
        parts.arrays["network_feats"] = np.zeros((rows, hidden), np.int8)
        parts.arrays["network_feats_constants"] = np.zeros(rows, np.int32)

    return change


# front, back, before, prefix, suffix, after, is_plain, shortest
DU = ["le", "", ["de", "le"], "", "", [], False, 0]
SPLITS: dict[str, tuple[list[Any], str]] = {
    "as learned": (DU, "annotated"),
    "16 words": (["le" * 4, "", list("abcdefghijklmnop"), "", "", [], False, 0], "annotated"),
    "17 words": (["le" * 9, "", list("abcdefghijklmnopq"), "", "", [], False, 0], "refused"),
    "5 words of 2 characters": (["le", "", list("abcde"), "", "", [], False, 0], "refused"),
    "200 long words": (["le", "", ["x" * 1000] * 200, "", "", [], False, 0], "refused"),
    "2 million words": (["le", "", ["x"] * 100_000, "", "", [], False, 0], "refused"),
    "long words": (["le", "", ["x" * 50] * 2, "", "", [], False, 0], "refused"),
    "a long prefix": (["l", "", ["a"], "x" * 50, "", [], False, 1], "refused"),
    "a long beginning": (["l" * 101, "", ["a", "b"], "", "", [], False, 0], "refused"),
    "no stem, words after": (["le", "", [], "", "", ["a", "b"], False, 0], "refused"),
    "no stem, words around": (["le", "", ["a"], "", "", ["b"], False, 0], "refused"),
    "no stem, an end": (["l", "e", ["a", "b"], "", "", [], False, 0], "refused"),
    "no stem, no words": (["le", "", [], "", "", [], False, 0], "refused"),
    "no stem, one word": (["le", "", ["a"], "", "", [], False, 0], "refused"),
    "no stem, a prefix": (["le", "", ["a", "b"], "x", "", [], False, 0], "refused"),
    "a stem alone": (["l", "", [], "", "", [], False, 1], "refused"),
    "a stem of any token": (["", "", ["a"], "", "", [], False, 1], "refused"),
    "a stem": (["l", "", ["a"], "x", "y", [], True, 1], "annotated"),
    "a stem of a space": (["10", "000", ["a"], "", "", ["b"], False, 1], "annotated"),
    "a stem of 2^31": (["l", "", ["a"], "", "", [], False, 1 << 31], "refused"),
    "a stem of -1": (["l", "", ["a"], "", "", [], False, -1], "refused"),
    "a stem of 1.0": (["l", "", ["a"], "", "", [], False, 1.0], "refused"),
    "is_plain 0": (["l", "", ["a"], "", "", [], 0, 1], "refused"),
    "a part less": (DU[:7], "refused"),
    "words that are a text": (["le", "", "ab", "", "", [], False, 0], "refused"),
}


def others() -> Iterator[Entry]:
    """Beams, tags, rules of lemmas and of multiword tokens."""
    for each in (of_models(), of_tags(), of_lemmas(), of_split()):
        for name, kind, *change in each:
            yield Entry(f"{kind}: {name}", KINDS[kind], *change)


Changes = Iterator[tuple[Any, ...]]  # name, kind, change, and the outcome if only one is right
BEAMS: dict[str, list[Any]] = {
    "annotated": [[1, 1], [64, 64]],
    "refused": [[65, 8], [3, 65], [1 << 20, 1 << 20], [0, 1], [-1, 8], [1 << 64, 8], [8.0, 8],
                [True, 8], [8], [8, 8, 8, 8], [8, 8, 0], [8, 8, 2.0], None],
}  # fmt: skip


def of_models() -> Changes:
    """Beams and tags of models of sequences."""
    for kind, model in (
        (TAGGER, "pairs"), (TAGGER, "feats"), (LEMMATIZER, "rules"), (TOKENIZER, "models/ends"),
        (TOKENIZER, "models/gaps"), (TOKENIZER, "models/words"),
    ):  # fmt: skip
        for outcome, beams in BEAMS.items():
            for beam in beams:
                yield f"{model}/beam: {beam}", kind, at(f"{model}/beam", beam), outcome
        for what, change in (
            ("of three texts", lambda tags: [[*tag, "x"] for tag in tags]),
            ("of no text", lambda tags: [[] for tag in tags]),
        ):
            yield f"{model}/tags: {what}", kind, at(f"{model}/tags", change)


def of_tags() -> Changes:
    """Texts in UPOS, XPOS and FEATS, dictionaries, and very many tags."""
    for kind, column, model, place in (
        (TAGGER, "UPOS", "pairs", 0), (TAGGER, "XPOS", "pairs", 1), (TAGGER, "FEATS", "feats", 1),
        (MANY, "UPOS", "pairs", 0), (MANY, "UPOS", "feats", 0), (MANY, "FEATS", "feats", 1),
    ):  # fmt: skip
        for what, text in UNFIT.items():
            if (kind, text) != (MANY, "a\tb") or column == "UPOS":
                yield (f"{column}: {what}", kind, _retagged(model, place, text), "refused")
        for what, text in FIT.items():
            outcome = "refused" if (kind, column) == (MANY, "FEATS") else ""
            outcome = "annotated" if kind == TAGGER and text != "_" else outcome
            yield (f"{column}: {what}", kind, _retagged(model, place, text), outcome)
    for text in ("\tA=b", "x\t", "x\ty\tz", "x\n\ty"):
        yield (f"XPOS and FEATS: {text!r}", MANY, _retagged("feats", 1, text), "refused")
    for what, change in (
        ("no tabs", lambda name: name.replace("\t", " ")),
        ("more tabs", lambda name: name + "\tx"),
        ("NUL", lambda name: "\0" + name), ("returns", lambda name: "\r" + name),
        ("empty", lambda name: ""),
    ):  # fmt: skip
        for name in ("words", "words_of_feats", "classes", "composed"):
            outcome = "refused" if name == "words_of_feats" and "tabs" in what else ""
            yield (f"{name}: {what}", TAGGER, _names(name, change), outcome)
        for name in ("words", "classes"):
            yield (f"{name}: {what}", LEMMATIZER, _names(name, change))
    yield ("8,000 tags of all words", TAGGER, _many_tags)
    yield ("9,000 candidates", TAGGER, _many_candidates(9_000), "annotated")
    yield ("12,000 candidates", TAGGER, _many_candidates(12_000), "refused")


def of_lemmas() -> Changes:
    """Rules of lemmas."""
    for what, text in UNFIT.items():
        if isinstance(text, str):
            for place in range(1, 5):
                parts = ["keep", *[""] * 4]
                parts[place] = text
                outcome = "refused" if text.strip(" ") else ""
                yield (f"part {place}: {what}", LEMMATIZER, _rules(["\t".join(parts)]),
                            outcome)  # fmt: skip
            yield (f"whole: {what}", LEMMATIZER, _rules([f"whole\t\t\t\t{text}"]), "refused")
        else:
            yield (f"rule: {what}", LEMMATIZER, _rules([text]), "refused")
    for what, text in FIT.items():
        yield (f"whole: {what}", LEMMATIZER, _rules([f"whole\t\t\t\t{text}"]), "annotated")
    for case in ("", "Lower", "lower ", "None", "\n"):
        yield (f"case: {case!r}", LEMMATIZER, _rules([f"{case}\t\t\t\t"]), "refused")
    for text in ("whole\t\t\t\t", "whole", "lower\t\t\t", "lower\t\t\t\t\t", "", "\t\t\t\t"):
        yield (f"rule: {text!r}", LEMMATIZER, _rules([text]), "refused")
    # Nothing is left of these words, or a space.
    erasing = [f"{case}\t{word.lower()}\t\t\t" for case in ("keep", "lower") for word in WORDS]
    erasing += [f"upper\t\t\t{word.lower()}\t" for word in WORDS] + ["title\t10\t\t000\t"]
    erasing = list(dict.fromkeys(erasing))
    for text in erasing:
        yield (f"erases: {text!r}", LEMMATIZER, _rules([text]), "annotated")
    yield ("erases all", LEMMATIZER, _rules(erasing), "annotated")


def of_split() -> Changes:
    """Rules of multiword tokens."""
    for what, (rule, outcome) in SPLITS.items():
        yield (f"split: {what}", TOKENIZER, _split(rule), outcome)
    for what, text in UNFIT.items():
        yield (f"split: a word {what}", TOKENIZER, _split([*DU[:2], ["de", text], *DU[3:]]),
                    "refused")  # fmt: skip
        if text in ("", " ", "   "):
            continue
        for place in (0, 1, 3, 4):
            rule = ["l", "", ["a"], "", "", [], False, 1]
            rule[place] = text
            yield (f"split: part {place} {what}", TOKENIZER, _split(rule), "refused")
    for what, value in (VALUES | UNFIT).items():
        yield (f"exceptions: {what}", TOKENIZER, at("rules/exceptions", value), "refused")
        yield (f"an exception: {what}", TOKENIZER,
                    at("rules/exceptions", {"le": ["De"] if what == "missing" else ["De", value]}),
                    "annotated" if value in ("a text", "eisner\n"[:-1]) else "")  # fmt: skip
        yield (f"rules: {what}", TOKENIZER, at("rules/rules", value), "refused")
    for value in (1, 2, 7, 1 << 15):
        yield (f"max_words: {value}", TOKENIZER, at("max_words", value), "annotated")
    for value in (0, -1, (1 << 15) + 1, 1 << 64, 10.0, "10", True, None, [10]):
        yield (f"max_words: {value}", TOKENIZER, at("max_words", value), "refused")
    yield ("rules: an unknown fact", TOKENIZER, at("rules.author", 1), "refused")


KINDS = {
    kind: Kind(
        partial(parts_of, kind), partial(use, TAGGER if kind == MANY else kind),
        FILES[TAGGER if kind == MANY else kind], "annotated", megabytes=300,
    )
    for kind in FORMATS
}  # fmt: skip
