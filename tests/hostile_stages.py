"""Hostile stages before the parser, the sums of all their parts right.

    python -m tests.hostile_stages [WORD ...]        # entries whose names have all the words

Each entry is a small tokeniser, tagger or lemmatiser of which one thing is changed as no training
writes it. It must be refused with ModelError, in one line; or it annotates a text, and what it
writes are rows of ten columns that are not empty, within 5 seconds of CPU time and 100 MB.
"""

from __future__ import annotations

import copy
import io
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gpuparse.array_file import read_open
from gpuparse.config.schema import LemmatizerConfig, TaggerConfig, TokenizerConfig
from gpuparse.data.conll import treebank_from_bytes
from gpuparse.data.synthetic import generate
from gpuparse.errors import ModelError
from gpuparse.pipeline import LEMMATIZER, TAGGER, TOKENIZER, Pipeline, unpack_stage
from gpuparse.tagging import lemmatizer, tagger
from gpuparse.text import tokenizer
from gpuparse.text.reader import text_chunk
from gpuparse.text.training import learn_tokenizer
from tests.hostile_files import pack, print_outcomes, try_entries
from tests.hostile_models import MEGABYTES, SECONDS, _peak, _reset_peak

FORMATS = {
    TOKENIZER: tokenizer.FORMAT, TAGGER: tagger.FORMAT, LEMMATIZER: lemmatizer.FORMAT,
}  # fmt: skip
TEXT = "She sang to the old men. They saw two harbours, and le le sat down!\n" * 30
CONTROLS = {"a tab": "\t", "a line end": "\n", "a carriage return": "\r", "NUL": "\0",
            "half a character": "\ud800"}  # fmt: skip
BAD_TEXTS = {"nothing": "", "a blank": " "} | {
    f"{what} in it": f"a{character}b" for what, character in CONTROLS.items()
}
Change = Callable[[dict[str, Any], dict[str, np.ndarray]], object]


class Entry(NamedTuple):
    """A stage and what is changed in its facts and arrays."""

    name: str
    stage: str
    change: Change


@cache
def stages() -> Pipeline:
    """Small stages, learned once."""
    treebank = treebank_from_bytes(generate(120, 1), "train")
    learned = tagger.learn_tagger(treebank, TaggerConfig(rows=65536, epochs=2), seed=1)
    config = LemmatizerConfig(rows=65536, epochs=2)
    return Pipeline(
        learn_tokenizer(treebank, TokenizerConfig(rows=65536, epochs=2)),
        learned,
        lemmatizer.learn_lemmatizer(treebank, learned.tag(treebank), config, seed=1),
    )


@cache
def parts_of(stage: str) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The facts and arrays of a stage."""
    return _parts(stages().pack()[stage], stage)


def _parts(file: bytes, stage: str) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    return read_open(io.BytesIO(file), Path(stage), form=FORMATS[stage], what="stage")


def entries() -> Iterator[Entry]:
    """All hostile stages, and one unchanged of each kind."""
    for stage in FORMATS:
        yield Entry("unchanged", stage, lambda facts, arrays: None)
        facts, arrays = parts_of(stage)
        for name in arrays:
            yield Entry(f"{name}: missing", stage, lambda f, a, name=name: a.pop(name))
        for name in facts:
            yield Entry(f"{name}: missing", stage, lambda f, a, name=name: f.pop(name))
        yield Entry("an unknown array", stage, lambda f, a: a.update(more=np.zeros(3, np.int32)))
        yield Entry("an unknown fact", stage, lambda f, a: f.update(more=1))
    yield Entry("templates that are no text", TAGGER, lambda facts, arrays: facts["pairs"].update(
        templates={"name": "pairs"}
    ))  # fmt: skip
    yield from of_tags()
    yield from of_lemma_rules()
    yield from of_split_rules()
    yield from of_beams()


def of_tags() -> Iterator[Entry]:
    """Tags that no column can have."""
    for what, text in BAD_TEXTS.items():
        for model, place in (("pairs", 0), ("pairs", 1), ("feats", 0), ("feats", 1)):

            def change(facts: Any, arrays: Any, model=model, place=place, text=text) -> None:
                old = facts[model]["tags"][0][place]
                for tag in facts[model]["tags"]:
                    tag[place] = text if tag[place] == old else tag[place]

            yield Entry(f"{model}, text {place + 1} of a tag is {what}", TAGGER, change)
    yield Entry("FEATS of several kinds", TAGGER, lambda facts, arrays: facts["feats"]["tags"][
        0
    ].__setitem__(1, "X\tCase=Nom"))  # fmt: skip


def of_lemma_rules() -> Iterator[Entry]:
    """Rules that make lemmas that no column can have."""
    whole = {what: f"whole\t\t\t\t{text}" for what, text in BAD_TEXTS.items()}
    ends = {f"{what}, an end": f"keep\t\t\t\t{text}" for what, text in BAD_TEXTS.items() if text}
    others = {
        "of an unknown case": "odd\t\t\t\ta", "of four texts": "keep\t\t\ta", "empty": "",
        "a beginning with a line end": "keep\t\ta\n\t\t",
    }  # fmt: skip
    for what, text in (whole | ends | others).items():
        yield Entry(f"a rule is {what}", LEMMATIZER, lambda facts, arrays, text=text: facts[
            "rules"
        ]["tags"].__setitem__(0, [text]))  # fmt: skip
    # Every word has it, and nothing is left of some: the form is kept.
    yield Entry("a rule takes all letters", LEMMATIZER, lambda facts, arrays: facts["rules"][
        "tags"
    ].__setitem__(0, ["keep\t\t\te\t"]))  # fmt: skip


def of_split_rules() -> Iterator[Entry]:
    """Rules of multiword tokens."""
    many = ["x" * 1000] * 200
    rules = {
        "without a stem and words before": ["le", "", [], "", "", ["a", "b"], False, 0],
        "of 200,000 characters": ["le", "", many, "", "", [], False, 0],
        "of 200 words": ["le", "", ["a"] * 200, "", "", [], False, 0],
        "of words and a long stem": ["l", "", many[:1], "x" * 999, "y" * 999, [], False, 1],
        "with a back and no stem": ["le", "e", ["a", "b"], "", "", [], False, 0],
        "of one word": ["le", "", ["a"], "", "", [], False, 0],
        "right": ["le", "", ["a", "b"], "", "", [], False, 0],
    }
    for what, text in BAD_TEXTS.items():
        rules[f"with a word that is {what}"] = ["le", "", ["a", text], "", "", [], False, 0]
        if text.strip():
            rules[f"with a suffix that has {what}"] = ["l", "", ["a"], "", text, [], False, 1]
    for what, rule in rules.items():
        yield Entry(f"a split rule {what}", TOKENIZER, partial(_with_rule, rule))


def _with_rule(rule: list[Any], facts: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
    """Put one rule in the place of all, chosen wherever it fits."""
    facts["rules"] = {"rules": [rule], "exceptions": {}}
    facts["models"]["words"] = facts["models"]["ends"] | {
        "templates": "name: words\ntemplates: [w.lower, w-1.form w.form]\n",
        "tags": [["no"], ["yes"]],
    }
    # Any weights: the rule is chosen for some of the tokens that it fits.
    draw = np.random.default_rng(1)
    arrays["words.weights"] = draw.integers(-9, 9, 1 << 16).astype(np.int16)
    arrays["words.known"] = np.full_like(arrays["ends.known"], -1)


def of_beams() -> Iterator[Entry]:
    """Beams for which all memory would be taken, and tags of which all are candidates."""
    for beam in ([1 << 20, 1 << 20], [0, 1], [3], [3, 8.0], [3, 65]):
        yield Entry(f"a beam of {beam}", TAGGER, lambda facts, arrays, beam=beam: facts[
            "pairs"
        ].update(beam=beam))  # fmt: skip
    yield Entry("a beam of 64", TAGGER, lambda facts, arrays: facts["pairs"].update(
        beam=[64, 64]
    ))  # fmt: skip

    def of_many(facts: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        facts["pairs"]["tags"] += [["ZZ", f"{number}"] for number in range(8000)]
        facts["pairs"]["beam"] = [64, 64]
        facts["words"] = 1 << 30  # times that a word must have occurred for its tags to be all

    yield Entry("8,000 tags for each word", TAGGER, of_many)


def try_entry(entry: Entry) -> str:
    """Load and annotate with one hostile stage: "refused" or "annotated"; else AssertionError."""
    facts, arrays = parts_of(entry.stage)
    facts, arrays = copy.deepcopy(facts), dict(arrays)
    entry.change(facts, arrays)
    content = pack(facts, arrays, form=FORMATS[entry.stage])
    folder = Path("hostile")
    before, began = _reset_peak(), time.process_time()
    try:
        stage = unpack_stage(content, folder, entry.stage)
    except ModelError as error:
        message = str(error)
        assert message.isprintable(), message
        assert message.startswith(str(folder)), message
        return "refused"
    pipeline = Pipeline(**{
        name: stage if name == entry.stage else getattr(stages(), name) for name in FORMATS
    })  # fmt: skip
    assert pipeline.tokenizer
    assert pipeline.tagger
    tokens = pipeline.tokenizer.split(text_chunk(TEXT.encode(), "text"))
    treebank = treebank_from_bytes(tokens, "tokens")
    pipeline.tagger.tag_with_probabilities(treebank)
    written = bytes(pipeline.annotate(treebank).data)
    spent, grown = time.process_time() - began, _peak() - before
    rows = [line.split(b"\t") for line in written.split(b"\n") if line[:1].isdigit()]
    assert all(len(row) == 10 and all(row) for row in rows), written[:500]
    assert len(rows) >= treebank.n_words
    assert spent < SECONDS, f"annotated after {spent:.1f} s"
    assert grown < MEGABYTES << 20, f"annotated with {grown >> 20} MB"
    return "annotated"


def try_all(words: list[str], step: int = 1) -> tuple[Counter[str], list[str]]:
    """Try every `step`-th entry whose name has all the words: outcomes, and what failed."""
    stages()
    named = ((f"{entry.stage}: {entry.name}", partial(try_entry, entry)) for entry in entries())
    return try_entries(named, words, step)


if __name__ == "__main__":
    sys.exit(print_outcomes("stages", *try_all(sys.argv[1:])))
