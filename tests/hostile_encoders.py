"""Models with an encoder as `tests/hostile_files.py` damages them: how tiny ones are made and used.

What is hostile in them alone: configs of encoders, tokenisers, columns of words, quantised weights.
"""

from __future__ import annotations

import copy
import json
import pickle
import tempfile
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

import gpuparse
from gpuparse.data.conll import treebank_from_bytes
from gpuparse.errors import ModelError, ScoreError
from gpuparse.model.folder import WEIGHTS, load_parser
from gpuparse.model.pipeline import NO_STAGES
from tests.hostile_files import (
    FILES,
    HEADERS,
    PACKED,
    REMOVED,
    Entry,
    Kind,
    Parts,
    array,
    at,
    facts_of,
    of_arrays,
    of_texts,
    other,
    text,
)
from tests.hostile_models import seal
from tests.synthetic import treebank_file
from tests.tiny_encoders import write_encoder

SENTENCES = b"".join(
    f"{i}\t{form}".encode() + b"\t_" * 8 + b"\n"
    for i, form in enumerate(["The", "tall", "officer", "saw", "a", "cat", "."] * 30, 1)
) + b"\n"  # fmt: skip
CONFIG, PIECES, WORDS = "encoder.json", "encoder-tokenizer.json", "vocabulary.json"
OF_FOLDER = ("config.json", "tokenizer.json", "tokenizer_config.json")  # of a pretrained encoder
PRETRAINED, RAN = "model.safetensors", "ran"  # a file that code in a folder would make


@cache
def _parts_of(family: str, bits: int) -> Parts:
    from gpuparse.learning.stages.encoder import stage, trainer

    with tempfile.TemporaryDirectory() as top, pytest.MonkeyPatch.context() as patch:
        for module, name, value in (
            (trainer, "ARC_SIZE", 32), (trainer, "LABEL_SIZE", 16), (stage, "HEAD_RATE", 0.02),
        ):  # fmt: skip
            patch.setattr(module, name, value)
        write_encoder(Path(top) / "encoder", family)
        keys = {
            "data.train": treebank_file(40, 1), "data.dev": None, "threads": 1, "device": "cpu",
            "encoder.epochs": 1, "tokenizer.learn": False, "weights.bits": bits,
            "encoder.model": f"{top}/encoder", "output": f"{top}/model",
        }  # fmt: skip
        gpuparse.train("encoder", keys, quiet=True)
        folder = Path(top) / "model"
        facts, arrays = facts_of(folder)
        texts: dict[str, Any] = {name: (folder / name).read_text() for name in facts.pop("texts")}
        for name in texts:
            if name.endswith(".json"):
                texts[name] = json.loads(texts[name])
        return Parts(facts, {name: np.array(array) for name, array in arrays.items()}, texts=texts)


def parts_of(family: str, bits: int) -> Parts:
    """The parts of a tiny model, which may be changed; its arrays are shared."""
    found = _parts_of(family, bits)
    return Parts(copy.deepcopy(found.facts), dict(found.arrays), texts=copy.deepcopy(found.texts))


def use(folder: Path) -> str:
    """Load and parse with a model. Raises: ModelError: it is refused."""
    try:
        parser = load_parser(folder)
        treebank = NO_STAGES.filled_by(parser).annotate(treebank_from_bytes(SENTENCES, "test"))
        assert parser.parse(treebank).heads.min() == 0
    except ScoreError as error:  # of numbers that are too large
        raise ModelError(f"{folder}: {error}") from None
    return "parsed"


class Touching:
    """An object whose pickle makes a file when it is read."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self._path,)


def _pickled(path: Path) -> None:
    path.write_bytes(pickle.dumps(Touching(path.parent / RAN)))


@cache
def _pretrained() -> Parts:
    with tempfile.TemporaryDirectory() as top:
        folder = write_encoder(Path(top) / "encoder")
        texts = {name: json.loads((folder / name).read_text()) for name in OF_FOLDER}
        return Parts({}, load_file(folder / PRETRAINED), texts=texts)


def pretrained_parts() -> Parts:
    """The parts of a tiny pretrained encoder."""
    found = _pretrained()
    return Parts({}, dict(found.arrays), texts=copy.deepcopy(found.texts))


def use_pretrained(folder: Path) -> str:
    """Read a pretrained encoder. Raises: ConfigError: it is refused."""
    from gpuparse.learning.stages.encoder.pretrained import read_pretrained

    try:
        found = read_pretrained(str(folder))
        found.splitter.split(["The", "officer", "a" * 300])
        found.body()
    finally:
        assert not (folder / RAN).exists()
    return "parsed"


def of_pretrained() -> Iterator[Entry]:
    """Things that are hostile in folders of pretrained encoders alone."""
    kind = OF_PRETRAINED
    for what, value in HEADERS.items():
        change = array("embeddings.LayerNorm.bias", value)
        yield Entry(f"an array: {what}", kind, change, "refused")
    for what, content in PACKED.items():
        yield Entry(what, kind, other("packed", content), "refused")
    for name in (*OF_FOLDER, kind.file):
        for what, make in FILES.items():
            yield Entry(f"{name} is {what}", kind, other("files", {name: make}))
    for key, values in (CONFIGS | OF_PACKAGE).items():
        for value in values:
            said = "missing" if value is REMOVED else repr(value)[:20]
            yield Entry(f"{key}: {said}", kind, at(key, value, "config.json"))
    code = f"from pathlib import Path\nPath(__file__).with_name({RAN!r}).touch()\n"
    for name in ("code.py", "modeling_bert.py", "conftest.py"):
        change = partial(with_file, name, lambda path: path.write_text(code), {})
        yield Entry(f"{name} beside", kind, change, "parsed")
    for name in ("pytorch_model.bin", "training_args.bin", "tokenizer.pkl"):
        yield Entry(f"{name} beside", kind, partial(with_file, name, _pickled, {}), "parsed")
    change = partial(with_file, "pytorch_model.bin", _pickled, {PRETRAINED: FILES["missing"]})
    yield Entry("a pickle alone", kind, change, "refused")


def with_file(
    name: str, make: Callable[[Path], object], others: dict[str, Any], parts: Parts
) -> None:
    """One more file."""
    parts.texts[name] = ""
    parts.files = {name: make, **others}


# ---- what is hostile in models with an encoder alone ---------------------------------------------


CONFIGS: dict[str, list[Any]] = {
    "model_type": ["gpt2", "deberta-v2", None, ["bert"]],
    "auto_map": [{"AutoModel": "code.Model"}], "_name_or_path": ["x"],
    "quantization_config": [{"load_in_8bit": True}],
    "num_hidden_layers": [0, -1, 3, 256, 10**9, 10**30, 2.0, "2", True, REMOVED],
    "hidden_size": [64, 1, 1 << 15, 1 << 40, REMOVED],
    "intermediate_size": [50, 1 << 18], "num_attention_heads": [5, 64],
    "vocab_size": [10, 90, 1 << 24, REMOVED],
    "max_position_embeddings": [512, 3, 1 << 20, REMOVED],
    "hidden_act": ["no such", 3], "pad_token_id": [1000, "x", -5],
    "type_vocab_size": [0, 1 << 40], "layer_norm_eps": ["x"], "hidden_dropout_prob": [7.0],
    "license": [["mit"], "mit\n\x1b[2J"], "is_decoder": [True],
    "num_labels": [1 << 40], "id2label": [{"a": "b"}, 3, {}], "problem_type": ["x"],
    "return_dict": [False], "output_attentions": [True], "output_hidden_states": [False],
    "chunk_size_feed_forward": [7], "per_layer_config": [{"0": {"hidden_size": 8}}],
    "pruned_heads": [{"0": [0]}], "torchscript": [True], "to_dict": [1],
}  # fmt: skip
OF_PACKAGE: dict[str, list[Any]] = {
    "auto_map": [{"AutoConfig": "code.Config", "AutoTokenizer": ["code.Slow", "code.Fast"]}],
    "architectures": ["x", ["code.Model"]], "transformers_weights": ["pytorch_model.bin", "/"],
    "_attn_implementation": ["no/kernel"], "attn_implementation": ["no/kernel"],
    "torch_dtype": ["float9", 3], "dtype": ["float64", "int8"],
    "vocab_size": [1 << 24], "hidden_size": [1 << 15], "type_vocab_size": [1 << 24],
    "initializer_range": [float("nan"), "x"], "layer_norm_eps": [float("inf")],
    "position_embedding_type": ["relative_key"], "max_position_embeddings": [1 << 20],
}  # fmt: skip
IGNORED = (  # no weight depends on these
    "is_decoder", "hidden_dropout_prob", "num_labels", "id2label", "problem_type", "return_dict",
    "output_attentions", "output_hidden_states", "chunk_size_feed_forward", "per_layer_config",
    "pruned_heads", "torchscript", "to_dict",
)  # fmt: skip
FIRST = ["\0", "a\tb", "a\nb", "\ud800", "", "a\r", "x" * 100_000, 3, None, ["x"]]
COLUMNS: dict[str, Callable[[list], Any]] = {
    **{repr(first)[:20]: lambda known, first=first: [first, *known[1:]] for first in FIRST},
    "twice": lambda known: [known[1], *known[1:]],
    "one less": lambda known: known[1:],
    "one more": lambda known: [*known, "more"],
    "none": lambda known: [], "text": lambda known: "text", "a dict": lambda known: {"x": "y"},
    "no column": lambda known: None,
}  # fmt: skip
OF_WORDS = {
    "another column": at("values/form", ["a"], WORDS),
    "a column less": at("values/upos", REMOVED, WORDS),
    "a key less": at("tags", REMOVED, WORDS),
    "a key more": at("more", 1, WORDS),
    "relations of graphs": at("primary", ["dep"], WORDS),
    "tags that are not read": at("tags/upos", ["", "X"], WORDS),
    "tags of another column": at("tags/lemma", ["", "X"], WORDS),
    "tags of another type": at("tags", [], WORDS),
    "values of another type": at("values", [], WORDS),
}
FACTS: dict[str, list[Any]] = {
    "decoder": ["eisner_sibling", "none"], "arc_unit": [0.0, "1"], "label_unit": [-1.0],
    "min_gain": ["x"], "single_root": [1], "more": [1], "precision": ["float8"],
    "quantised": [3, {}, *({"epsilon": 1e-12, "heads": heads, "width": width}
                           for heads, width in ((5, 32), (2, 48), (2, 1 << 60)))],
    "kinds": [{"parser": "linear"}, {"parser": "none"}],
}  # fmt: skip


def removing(**pattern: str) -> Callable[[Parts], object]:
    """A tokeniser that removes something from all words."""
    return at("normalizer", {"type": "Replace", "pattern": pattern, "content": ""}, PIECES)


def added(**piece: Any) -> Callable[[Parts], object]:
    """A tokeniser with one more piece."""
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized", "special"), False)
    return at("added_tokens", [flags | piece], PIECES)


def without_unknown(parts: Parts) -> None:
    """A tokeniser without the piece of unknown words."""
    content = parts.texts[PIECES]
    del content["model"]["vocab"]["[UNK]"]
    content["added_tokens"] = []
    text(WORDS, parts.texts[WORDS])(parts)


def huge(parts: Parts) -> None:
    """The largest weights of heads."""
    for name, found in parts.arrays.items():
        if name.startswith("heads.") and found.dtype.kind == "f":
            parts.arrays[name] = np.full_like(found, np.finfo(found.dtype).max)


def with_body_of(bits: int, parts: Parts) -> None:
    """The encoder of another family."""
    other = parts_of("roberta", bits)
    bodies = ("body.", "quantised.")
    own = {name: a for name, a in parts.arrays.items() if not name.startswith(bodies)}
    others = {name: a for name, a in other.arrays.items() if name.startswith(bodies)}
    parts.arrays = own | others
    if "quantised" in other.facts:
        parts.facts["quantised"] = other.facts["quantised"]


def others() -> Iterator[Entry]:
    """Things that are hostile in encoders alone, and all damage of a pretrained one."""
    yield from alone()
    parts = pretrained_parts()
    for each in (*of_arrays(OF_PRETRAINED, parts), *of_texts(OF_PRETRAINED, parts)):
        yield each._replace(name=f"pretrained: {each.name}")


def alone() -> Iterator[Entry]:
    """Configs, columns and facts, which are refused; tokenisers; weights of another encoder."""
    for name, kind in KINDS.items():
        bits = int(name.split()[0])
        for key, values in CONFIGS.items():
            for value in values:
                said = "missing" if value is REMOVED else repr(value)[:20]
                outcome = "" if key in IGNORED else "refused"
                yield Entry(f"{name}: {key}: {said}", kind, at(key, value, CONFIG), outcome)
        for column in ("values/upos", "values/xpos", "values/feats", "labels"):
            for what, change in COLUMNS.items():
                yield Entry(f"{name}: {column}: {what}", kind, at(column, change, WORDS), "refused")
        for what, change in OF_WORDS.items():
            yield Entry(f"{name}: {what}", kind, change, "refused")
        for key, values in FACTS.items():
            for value in values:
                yield Entry(f"{name}: {key}: {value}", kind, at(key, value), "refused")
        for what, change, outcome in (
            ("a piece beyond the vocabulary", at("model/vocab/a", 100_000, PIECES), "refused"),
            ("a special piece beyond it",
             at("post_processor/special_tokens/[CLS]/ids", [100_000], PIECES), "refused"),
            ("an exponential expression", removing(Regex="(a+)+$"), "refused"),
            ("no pieces for a word", removing(String="a"), "refused"),
            # Words whose letters are removed have the unknown piece.
            ("an unknown word", removing(String="officer"), "parsed"),
            ("another piece of a word", added(id=100_000, content="officer"), "parsed"),
            ("no unknown piece", without_unknown, ""),
            ("huge numbers", huge, ""),
            ("the weights of another encoder", partial(with_body_of, bits), ""),
        ):  # fmt: skip
            yield Entry(f"{name}: {what}", kind, change, outcome)
    yield from (each._replace(name=f"pretrained: {each.name}") for each in of_pretrained())


# The package `transformers` reads a tokenizer.json into some thirty times its size.
OF_PRETRAINED = Kind(pretrained_parts, use_pretrained, PRETRAINED, is_whole=False, megabytes=500)
KINDS = {
    f"{bits} bits": Kind(partial(parts_of, "bert", bits), use, WEIGHTS, seal=seal, megabytes=400)
    for bits in (8, 16)
}
