"""Hostile model folders, the sums of all their parts right.

    python -m tests.hostile_models [WORD ...]        # entries whose names have all the words

Each entry is a small model of which one thing is changed as no training writes it. It must be
refused with ModelError, in one line, within 5 seconds of CPU time and 100 MB; or it parses.
`python -m tests.sanitize` runs the catalogue with the sanitizers. Printed are the numbers of
entries refused and parsed; the exit code is 1 if any is neither.
"""

from __future__ import annotations

import copy
import json
import os
import random
import shutil
import socket
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from gpuparse.config.schema import PruningConfig
from gpuparse.data import array_file
from gpuparse.data.vocabulary import Vocabularies
from gpuparse.errors import ModelError
from gpuparse.features.plan import compile_plan
from gpuparse.features.templates import TemplateSet, fields_read, parse_set
from gpuparse.inference.decoders import DECODERS
from gpuparse.jobs.gold import written
from gpuparse.learning.trainer import Trainer
from gpuparse.model.confidence import parse_with_confidence
from gpuparse.model.folder import (
    CONFIG,
    FEATURES,
    FORMAT,
    LABEL_FEATURES,
    VOCABULARY,
    WEIGHTS,
    load_parser,
    save_parser,
)
from gpuparse.model.parser import Parser
from gpuparse.scorers.linear.weights import hashed_map
from tests.graphs_by_place import acyclic_graph, with_deps
from tests.hostile_files import (
    Arrays,
    Raw,
    as_text,
    bounded,
    pack,
    print_outcomes,
    try_entries,
)
from tests.learning.literal import ALL, FIRST_ORDER, JOINT, OPTIONS, SECOND_ORDER, WITH_CHILDREN
from tests.runs import changed
from tests.samples import random_sentences, template_set_text, treebank_of

# CPU seconds: most entries take a hundredth of one; a slow and busy machine must not fail here.
SECONDS, MEGABYTES = 5.0, 100
SENTENCES = random_sentences(80, 8, 6)
TEST = treebank_of([*random_sentences(81, 3, 6), random_sentences(3, 1, 40)[0]])
SECOND_STAGE = parse_set(
    template_set_text(label=["m.form h.pos direction", "g.pos m.pos", "p.pos q.pos m.pos"]),
    "labels",
)
VECTORS = """
word_vectors:
  hidden: 8
  arc: 4
  label: 4
  distance: [1, 2]
  templates: [w.form, w.pos, w-1.pos, w+1.form, between.pos]
"""
ALONE = parse_set(VECTORS, "alone")
WITH_VECTORS = parse_set(template_set_text(arc=["h.form m.form", "h.pos m.pos"]) + VECTORS, "both")
OF_SIBLINGS = parse_set(
    template_set_text(arc=["h.form m.form", "h.pos m.pos"], sibling=["s.pos m.pos"])
    + VECTORS.replace("arc: 4", "arc: 4\n  sibling: 3"),
    "siblings",
)
GUIDED = parse_set(template_set_text(arc=["h.pos m.pos"], guide=["m.pos direction"]), "guided")
OF_GRANDPARENTS = parse_set(
    template_set_text(arc=["h.form m.form", "h.pos m.pos"])
    + "grandparent:\n  - templates: [g.pos m.pos]\n"
    + VECTORS.replace("arc: 4", "arc: 4\n  grandparent: 3"),
    "grandparents",
)
PRUNING = PruningConfig(threshold=0.001, max_heads=3)
TEXTS = (CONFIG, FEATURES, LABEL_FEATURES, VOCABULARY)


class Base(NamedTuple):
    """A kind of model: its decoder, templates and keys of its run.

    learned_as: another kind, which learns faster; its decoder is replaced.
    """

    decoder: str
    templates: TemplateSet
    labels: TemplateSet | None = SECOND_STAGE
    keys: dict[str, Any] = {}  # noqa: RUF012
    learned_as: str = ""


BASES = {
    "first": Base("eisner", FIRST_ORDER),
    "first, odd rows": Base("chu_liu_edmonds", FIRST_ORDER, keys={"map_rows": 1000}),
    "heads alone": Base("eisner", FIRST_ORDER, None),
    "joint": Base("chu_liu_edmonds", FIRST_ORDER, JOINT, {"labels_kind": "joint"}),
    "sibling": Base("eisner_sibling", SECOND_ORDER),
    "sibling, joint": Base("eisner_sibling", SECOND_ORDER, JOINT, {"labels_kind": "joint"}),
    "hill climb": Base("hill_climb", SECOND_ORDER),
    "graphs": Base("multi_parent", SECOND_ORDER),
    "guides": Base("eisner", GUIDED),
    "grandchild": Base(
        "eisner_grandchild", ALL, WITH_CHILDREN, {"labels_kind": "joint", "pruning": PRUNING}
    ),
    "grand-sibling": Base("eisner_grand_sibling", ALL, keys={"pruning": PRUNING}),
    "tri-sibling": Base(
        "eisner_tri_sibling", ALL, JOINT, {"labels_kind": "joint", "pruning": PRUNING}
    ),
    "grand-sibling, joint": Base(
        "eisner_grand_sibling", ALL, JOINT, {"labels_kind": "joint", "pruning": PRUNING}
    ),
    "vectors": Base("eisner", WITH_VECTORS),
    "vectors, joint": Base("chu_liu_edmonds", WITH_VECTORS, JOINT, {"labels_kind": "joint"}),
    "vectors alone": Base("eisner", ALONE, ALONE),
    "vectors, siblings": Base("eisner_sibling", OF_SIBLINGS),
    "vectors, grandparents": Base("eisner_grand_sibling", OF_GRANDPARENTS),
    "dual": Base("dual_decomposition", ALL, learned_as="grand-sibling, joint"),
    "dual, unpruned": Base("dual_decomposition", ALL, learned_as="grand-sibling"),
}  # fmt: skip


@dataclass
class Parts:
    """The parts of a model folder; what `files` has is made of a path in place of a file."""

    facts: dict[str, Any]
    words: Any
    texts: dict[str, str]
    arrays: Arrays
    form: Any = FORMAT
    packed: bytes | None = None  # the file of the weights as it is
    files: dict[str, Callable[[Path], object]] = field(default_factory=dict)

    def write(self, folder: Path) -> None:
        """Write the folder, all sums right."""
        if self.words is not None:
            self.texts[VOCABULARY] = as_text(self.words)
        texts = {n: t.encode("utf-8", "surrogatepass") for n, t in self.texts.items()}
        facts = {"texts": {n: array_file.sha256(text) for n, text in texts.items()}} | self.facts
        packed = self.packed or pack(facts, self.arrays, form=self.form)
        for name, content in (*texts.items(), (WEIGHTS, packed)):
            if name in self.files:
                self.files[name](folder / name)
            else:
                (folder / name).write_bytes(content)


class Entry(NamedTuple):
    """A hostile model: a kind of model and what is changed of its parts."""

    name: str
    base: str
    change: Callable[[Parts], object]


def train(base: str, batch_size: int = 1) -> Parser:
    """A small model of a kind."""
    decoder, templates, labels, keys, _ = BASES[BASES[base].learned_as or base]
    sentences = SENTENCES
    if DECODERS[decoder].gives_graphs:
        sentences = [
            with_deps(words, acyclic_graph(random.Random(k), words))
            for k, words in enumerate(sentences)
        ]
    treebank = treebank_of(sentences)
    options = changed(
        OPTIONS,
        batch_size=batch_size,
        **({"decoder": decoder, "epochs": 1, "map_rows": 1 << 10, "label_rows": 1 << 8} | keys),
    )
    guides = np.full(treebank.n_words, -1) if templates.guide else None
    trainer = Trainer(treebank, templates, labels, options, guides=guides)
    for _ in trainer.learn():
        pass
    return trainer.model(16, "seed: 1\n")


@cache
def parts_of(base: str) -> Parts:
    """The parts of a small model of a kind."""
    decoder, *_, other = BASES[base]
    if other:
        parts = copy.deepcopy(parts_of(other))
        parts.facts["decoder"] = decoder
        if "unpruned" in base:
            del parts.arrays["pruner"]
            parts.facts = {k: v for k, v in parts.facts.items() if not k.startswith("pruner")}
        return parts
    with tempfile.TemporaryDirectory() as folder:
        save_parser(train(base), Path(folder))
        facts, arrays = array_file.read(Path(folder) / WEIGHTS, form=FORMAT, what="model")
        texts = {name: (Path(folder) / name).read_text() for name in TEXTS}
    del facts["texts"]
    return Parts(facts, json.loads(texts[VOCABULARY]), texts, dict(arrays))


# ---- what is changed -------------------------------------------------------------------------


def fact(name: str, value: Any) -> Callable[[Parts], object]:
    return lambda parts: parts.facts.update({name: value})


def word(name: str, value: Any) -> Callable[[Parts], object]:
    """value: of vocabulary.json, or a function of what is there."""
    return lambda parts: parts.words.update(
        {name: value(parts.words[name]) if callable(value) else value}
    )


def array(name: str, value: Any) -> Callable[[Parts], object]:
    """value: an array or Raw, or a function of the array that is there."""
    return lambda parts: parts.arrays.update(
        {name: value(parts.arrays[name]) if callable(value) else value}
    )


def text(name: str, value: Any) -> Callable[[Parts], object]:
    """value: a text, or a function of the text that is there."""

    def change(parts: Parts) -> None:
        parts.texts[name] = value(parts.texts[name]) if callable(value) else value
        if name == VOCABULARY:
            parts.words = None

    return change


def templates(content: dict[str, Any]) -> Callable[[Parts], object]:
    """Other templates of trees."""
    return text(FEATURES, json.dumps({"name": "x", "distance": [1]} | content))


def raw(found: np.ndarray, **said: Any) -> Raw:
    """An array, of which the header says something else."""
    whole = {"dtype": f"I{8 * found.itemsize}", "shape": list(found.shape)} | said
    return Raw(data=whole.pop("data", found.tobytes()), **whole)


SHAPES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "no rows": lambda a: a[:0],
    "one row": lambda a: a[:1],
    "a line of rows": lambda a: a[:16],
    "half the rows": lambda a: a[: len(a) // 2],
    "one row less": lambda a: a[:-1],
    "a line less": lambda a: a[:-16],
    "one row more": lambda a: np.concatenate([a, a[:1]]),
    "a line more": lambda a: np.concatenate([a, a[:16]]),
    "twice the rows": lambda a: np.concatenate([a, a]),
    "one axis": lambda a: a.reshape(-1),
    "three axes": lambda a: a[:, :, np.newaxis],
    "no axes": lambda a: a.reshape(-1)[:1].reshape(()),
    "transposed": lambda a: np.ascontiguousarray(a.T),
    "one column more": lambda a: np.pad(a, ((0, 0), (0, 1))),
    "a hundred columns": lambda a: np.tile(a, (1, 100)),
    "no columns": lambda a: a[:, :0],
    "smallest numbers": lambda a: np.full_like(a, np.iinfo(a.dtype).min),
    "largest numbers": lambda a: np.full_like(a, np.iinfo(a.dtype).max),
    "8 bits": lambda a: a.astype(np.int8),
}
TYPES: dict[str, Callable[[np.ndarray], Any]] = {
    **{
        kind: lambda a, kind=kind: a.astype(kind)
        for kind in ("i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "b1")
    },
    "not a number": lambda a: np.full(a.shape, np.nan, np.float32),
    "infinity": lambda a: np.full(a.shape, np.inf, np.float64),
    "BF16": lambda a: raw(a, dtype="BF16"),
    "F8_E4M3": lambda a: raw(a, dtype="F8_E4M3", data=a.astype(np.int8).tobytes()),
    "F8_E5M2": lambda a: raw(a, dtype="F8_E5M2", data=a.astype(np.int8).tobytes()),
    "C64": lambda a: raw(a, dtype="C64", data=np.tile(a, (1, 4)).tobytes()),
    "unknown": lambda a: raw(a, dtype="I17"),
    "no text": lambda a: raw(a, dtype=16),
    "a list": lambda a: raw(a, dtype=["I16"]),
}
HEADERS: dict[str, Callable[[np.ndarray], Raw]] = {
    "2^40 rows, no columns": lambda a: raw(a, shape=[1 << 40, 0], data=b""),
    "2^62 rows, no columns": lambda a: raw(a, shape=[1 << 62, 0], data=b""),
    "2^63 rows": lambda a: raw(a, shape=[1 << 63, 1]),
    "a product that wraps": lambda a: raw(a, shape=[1 << 32, 1 << 32]),
    "a product that wraps to its size": lambda a: raw(a, shape=[(1 << 63) + len(a), 1]),
    "2^64 + 1 columns": lambda a: raw(a, shape=[len(a), (1 << 64) + 1]),
    "fewer than none": lambda a: raw(a, shape=[-len(a), -1]),
    "a fraction": lambda a: raw(a, shape=[float(len(a)), 1]),
    "a text": lambda a: raw(a, shape=[str(len(a)), 1]),
    "true": lambda a: raw(a, shape=[len(a), True]),
    "nested": lambda a: raw(a, shape=[[len(a)], 1]),
    "no list": lambda a: raw(a, shape=len(a)),
    "nothing": lambda a: raw(a, shape=None),
    "a thousand axes": lambda a: raw(a, shape=[len(a)] + [1] * 999),
    "65 axes": lambda a: raw(a, shape=[1] * 64 + [len(a)]),
    "digits without end": lambda a: raw(a, shape=[10**4000, 1]),
    "offsets reversed": lambda a: raw(a, offsets=[a.nbytes, 0]),
    "offsets below 0": lambda a: raw(a, offsets=[-a.nbytes, 0]),
    "offsets beyond": lambda a: raw(a, offsets=[a.nbytes, 2 * a.nbytes]),
    "offsets of 2^63": lambda a: raw(a, offsets=[1 << 63, (1 << 63) + a.nbytes]),
    "offsets of 2^64": lambda a: raw(a, offsets=[1 << 64, (1 << 64) + a.nbytes]),
    "a gap before": lambda a: raw(a, offsets=[2, a.nbytes + 2]),
    "fractions of bytes": lambda a: raw(a, offsets=[0.0, float(a.nbytes)]),
    "three offsets": lambda a: raw(a, offsets=[0, a.nbytes, a.nbytes]),
    "no offsets": lambda a: raw(a, offsets="none"),
    "bytes too many": lambda a: raw(a, data=a.tobytes() + b"xx"),
    "bytes too few": lambda a: raw(a, data=a.tobytes()[:-2]),
}
VALUES: dict[str, Any] = {
    "nothing": None, "true": True, "-1": -1, "0": 0, "1": 1, "1.0": 1.0, "0.0": 0.0, "-0.5": -0.5,
    "2^31": 1 << 31, "2^63": 1 << 63, "2^64": 1 << 64, "1e308": 1e308, "5e-324": 5e-324,
    "nan": float("nan"), "inf": float("inf"), "-inf": float("-inf"), "empty": "",
    "a text": "eisner\n", "a list": [1.0], "a table": {"a": 1}, "1e9": 1e9, "1.1e9": 1.1e9,
}  # fmt: skip
LABELS: dict[str, Any] = {
    "missing": "absent", "none": [], "nothing": None, "a text": "dep", "a table": {"dep": 1},
    "one less": lambda known: known[:-1], "one more": lambda known: [*known, "new"],
    "twice the same": lambda known: [known[0], *known[:-1]],
    "70,000": [str(i) for i in range(70_000)],
    "300,000": [str(i) for i in range(300_000)],
    **{
        f"one is {value!r}": lambda known, value=value: [value, *known[1:]]
        for value in (
            "", " ", "\u3000", "a|b", "a\tb", "a\nb", "a\rb", "\ud800", "\udfff x", 7, None,
            ["dep"], True,
        )
    },
    "one is long": lambda known: ["x" * 100_000, *known[1:]],
    "one is a control": lambda known: ["\x1b[2J", *known[1:]],
}  # fmt: skip
FIELDS: dict[str, Any] = {
    "nothing": None, "a list": [], "empty": {}, "numbers": lambda v: dict.fromkeys(v, 3),
    "texts": lambda v: dict.fromkeys(v, "abc"), "tables": lambda v: {name: {} for name in v},
    "lists of numbers": lambda v: {name: [1, 2] for name in v},
    "lists of lists": lambda v: {name: [["a"]] for name in v},
    "lists of nothing": lambda v: {name: [None] for name in v},
    "one field missing": lambda v: dict(list(v.items())[1:]),
    "a field more": lambda v: v | {"lemma": ["a"]},
    "a field that is none": lambda v: v | {"x": ["a"]},
    "feats.*": lambda v: v | {"feats.*": ["a"]},
    "200,000 fields more": lambda v: v | {f"feats.{i}": [] for i in range(200_000)},
    "no values": lambda v: {name: [] for name in v},
    "a value twice": lambda v: {name: ["a", "b", "a"] for name in v},
    "halves of characters": lambda v: {name: ["\ud800", "b"] for name in v},
    "700 values more": lambda v: {
        name: known + [f"+{i}" for i in range(700)] for name, known in v.items()
    },
    "one value": lambda v: {name: ["w1"] for name in v},
    "long values": lambda v: {name: ["x" * 1_000_000] for name in v},
    "100,000 values": lambda v: {name: [str(i) for i in range(100_000)] for name in v},
    "other values": lambda v: {name: known[::-1] for name, known in v.items()},
}  # fmt: skip
DISTANCES: dict[str, Any] = {
    "2,000,000,000": [2_000_000_000], "200,000,000": [200_000_000], "10,001": [10_001],
    "10,000": [10_000], "2^63": [1 << 63], "none": [], "0": [0], "-1": [-1], "falling": [5, 2],
    "equal": [2, 2], "seven": [1, 2, 3, 4, 5, 6, 7], "true": [True], "1.5": [1.5], "a text": "5",
    "texts": ["1"], "nothing": None, "nested": [[1]], "six": [1, 2, 3, 4, 5, 6],
}  # fmt: skip
SETS: dict[str, Any] = {
    **{
        name: {"arc": [{"templates": [each]}]}
        for name, each in {
            "unknown role": "x.pos", "unknown field": "h.colour", "no field": "h.",
            "no role": ".pos",
            "offset 4": "h+4.pos", "offset without end": "h+" + "9" * 5000 + ".pos",
            "offset 2^31": "h+2147483648.pos", "an atom twice": "h.pos h.pos", "empty": "",
            "two betweens": "between.pos between.form", "distance twice": "distance distance",
            "between of two heads": "h.pos h.form between.pos", "slice 0": "h.form[:0]",
            "slice 10": "h.form[:10]", "slice 9": "h.form[:9]", "another field": "h.feats.Case",
            "attributes": "h.feats.*", "a sibling": "s.pos", "control": "h.\x1bpos", "a number": 7,
            "nothing": None, "2,000 atoms": " ".join(f"h.feats.{i}" for i in range(2000)),
        }.items()
    },
    "no templates": {}, "no lists": {"arc": 3}, "a set by its name": {"arc": "extended"},
    "a set that does not exist": {"arc": "../../etc/passwd"}, "unknown parts": {"arcs": []},
    "unknown keys of a block": {"arc": [{"template": ["h.pos"]}]},
    "a list of texts": {"arc": ["h.pos"]},
    "a million of suffixes": {
        "arc": [{"suffixes": [f"h.feats.{i}" for i in range(1000)],
                 "templates": [f"m.feats.{i}" for i in range(1000)]}]
    },
    "20,000 templates": {"arc": [{"templates": [f"h.feats.{i}" for i in range(20_000)]}]},
    "9,000 between templates": {
        "arc": [{"templates": ["between.pos"], "suffixes": [f"h.feats.{i}" for i in range(9000)]}]
    },
    "one template": {"arc": [{"templates": ["h.pos"]}]},
    "one between": {"arc": [{"templates": ["h.pos between.pos m.pos"]}]},
    "siblings": {"arc": [{"templates": ["h.pos"]}], "sibling": [{"templates": ["s.pos m.pos"]}]},
    "sibling of two heads": {
        "arc": [{"templates": ["h.pos"]}], "sibling": [{"templates": ["h.pos h.form s.pos m.pos"]}]
    },
    "sibling with offset": {
        "arc": [{"templates": ["h.pos"]}], "sibling": [{"templates": ["h+1.pos s.pos m.pos"]}]
    },
    "large triples": {
        "arc": [{"templates": ["h.pos"]}], "sibling": [{"templates": ["h.form s.form m.form"]}]
    },
    "ends with offset": {"arc": [{"templates": ["h.pos"]}], "end": [{"templates": ["e+1.pos"]}]},
    "guides": {"arc": [{"templates": ["h.pos"]}], "guide": [{"templates": ["h.pos"]}]},
    "guides between": {"arc": [{"templates": ["h.pos"]}],
    "guide": [{"templates": ["between.pos"]}]},
    "grandparents": {
        "arc": [{"templates": ["h.pos"]}], "grandparent": [{"templates": ["g.pos h.pos"]}]
    },
    "grandparents with distance": {
        "arc": [{"templates": ["h.pos"]}], "grandparent": [{"templates": ["g.pos distance"]}]
    },
    "a name that is a table": {"name": {"a": [1, 2]}, "arc": [{"templates": ["h.pos"]}]},
}  # fmt: skip
YAMLS: dict[str, str] = {
    "empty": "", "a number": "7", "a list": "[]", "nul": "\0", "no YAML": "{",
    "a tag": "!!python/name:os.system",
    "aliases": "a: &a [x]\nb: [*a, *a]", "deep": "[" * 10_000, "2 MiB": "#" * (2 << 20),
    "1 MiB of a comment": "#" * ((1 << 20) - 1), "two documents": "a: 1\n---\nb: 2\n",
    "keys twice": "arc: []\narc: []\n", "control": "\x1b[2J",
    "escapes": '"\\e[2J": 1\n', "halves of characters": "\ud800",
}  # fmt: skip
JSONS: dict[str, str] = {
    "empty": "", "a number": "7", "a list": "[]", "nothing": "null", "nul": "\0", "no JSON": "{",
    "deep": "[" * 100_000, "deep tables": '{"a":' * 100_000, "not a number": "NaN",
    "a byte order mark": "\ufeff{}", "a number without end": "1" * 100_000,
    "5 million lists": "[" + "[]," * 5_000_000 + "[]]",
    "7 million values": '["",' + '"",' * 7_000_000 + '""]',
    "labels twice": '{"labels": [], "labels": [], "primary": null, "pos_column": 3, "values": {}}',
}  # fmt: skip
FACTS: dict[str, str] = {
    "empty": "", "{}": "{}", "a list": "[]", "a number": "7", "nothing": "null", "no JSON": "{",
    "deep": "[" * 200_000, "deep tables": '{"a":' * 100_000, "not a number": "NaN", "nul": "\0",
    "format alone": '{"format": 5}', "format twice": '{"format": 5, "format": 5}',
    "1 MB of blanks": " " * 1_000_000 + '{"format": 5}', "3 MB of blanks": " " * 3_000_000,
}  # fmt: skip


def _device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as bound:
        before = os.getcwd()
        os.chdir(path.parent)  # names of sockets are short
        try:
            bound.bind(path.name)
        finally:
            os.chdir(before)


def _sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(8 << 30)


FILES: dict[str, Callable[[Path], object]] = {
    "missing": lambda path: None,
    "a folder": Path.mkdir,
    "a pipe": os.mkfifo,
    "a socket": _socket,
    "a link to a device": _device,
    "a link to a terminal": lambda path: path.symlink_to("/dev/tty"),
    "a link to itself": lambda path: path.symlink_to(path.name),
    "a link to nothing": lambda path: path.symlink_to("nowhere"),
    "a link to a folder": lambda path: path.symlink_to("/"),
    "a link to a pipe": lambda path: (os.mkfifo(f"{path}.pipe"), path.symlink_to(f"{path}.pipe")),
    "8 GB of nothing": _sparse,
    "no text": lambda path: path.write_bytes(b"\xff\xfe" * 100),
}


def header_of(content: bytes, size: int | None = None) -> bytes:
    """A weights file with this header; size: what it says of the header's length."""
    return (len(content) if size is None else size).to_bytes(8, "little") + content


PACKED: dict[str, bytes] = {
    "one byte": b"x", "7 bytes": b"\0" * 7, "no header": b"\0" * 8,
    "a huge header": header_of(b"{}", 1 << 40),
    "a header of 2^64 - 1": header_of(b"{}", (1 << 64) - 1), "a header of -1": b"\xff" * 8,
    "{}": header_of(b"{}"), "a list": header_of(b"[]"), "deep": header_of(b"[" * 100_000),
    "no JSON": header_of(b"{" * 9), "no UTF-8": header_of(b"\xff" * 9),
    "3 MB of blanks": header_of(b"{}" + b" " * 3_000_000),
    "a pickle": b"\x80\x04." * 50, "a zip file": b"PK\x03\x04" + b"x" * 100,
    "metadata is a list": header_of(b'{"__metadata__": ["gpuparse"]}'),
    "metadata is a number": header_of(b'{"__metadata__": {"gpuparse": 4}}'),
    "two metadata": header_of(b'{"__metadata__": {}, "__metadata__": {}}'),
}  # fmt: skip


# ---- the catalogue ---------------------------------------------------------------------------


def entries() -> Iterator[Entry]:
    """All hostile models, and one unchanged of each kind."""
    for base in BASES:
        yield Entry("unchanged", base, lambda parts: None)
        for name in parts_of(base).arrays:
            yield from (
                Entry(f"{name}: {what}", base, array(name, shape))
                for what, shape in SHAPES.items()
                if not name.startswith("vectors")
            )
            yield Entry(f"{name}: missing", base, lambda parts, name=name: parts.arrays.pop(name))
        for decoder in DECODERS:
            yield Entry(f"decoder: {decoder}", base, fact("decoder", decoder))
        yield Entry("joint or not", base, lambda parts: parts.facts.update(
            labels_with_trees=not parts.facts["labels_with_trees"]
        ))  # fmt: skip
        yield from (
            Entry(f"{field}: {what}", base, word("values", FIELDS[what]))
            for field, what in (
                ("values", "700 values more"), ("values", "one value"), ("values", "no values"),
                ("values", "100,000 values"), ("values", "one field missing"),
            )
        )  # fmt: skip
        yield Entry("more rows are said", base, lambda parts: parts.facts.update(
            table_rows=parts.facts["table_rows"] + 16
        ))  # fmt: skip
        yield Entry("fewer rows are said", base, lambda parts: parts.facts.update(
            table_rows=parts.facts["table_rows"] - 16
        ))  # fmt: skip
    for base in ("first", "joint", "grand-sibling", "graphs"):
        for name in parts_of(base).arrays:
            for what, value in (TYPES | HEADERS).items():
                yield Entry(f"{name}: {what}", base, array(name, value))
    yield from of_facts()
    yield from of_vectors()
    yield from of_words()
    yield from of_templates()
    yield from of_files()


def of_facts() -> Iterator[Entry]:
    """Every fact with every odd value, and facts as no JSON has them."""
    for base in ("first", "grand-sibling"):
        for name in parts_of(base).facts:
            yield Entry(f"{name}: missing", base, lambda parts, name=name: parts.facts.pop(name))
            if base == "first" or name.startswith("pruner"):
                for what, value in VALUES.items():
                    yield Entry(f"{name}: {what}", base, fact(name, value))
    rows = len(parts_of("first").arrays["arcs"])
    for value in (15, 16, 17, rows, rows - 1, 2 * rows, 1 << 32, (1 << 64) + 16, -(1 << 63)):
        yield Entry(f"table_rows: {value}", "first", fact("table_rows", value))
    for name in ("author", "feature_map", "__class__", "pruner_unit", "arrays2", "\n\x1b[2J"):
        yield Entry(f"an unknown fact: {name!r}", "first", fact(name, 1))
    for value in (0, 1, 4, 6, 5.0, 4.0, "5", None, [5], True, 1 << 64):
        yield Entry(
            f"format: {value!r}", "first", lambda parts, value=value: setattr(parts, "form", value)
        )
    for what in ("texts", "arrays"):
        for value in ({}, [], None, "x", {"arcs": 1}, {CONFIG: None}):
            yield Entry(f"sums of {what}: {value!r}", "first", fact(what, value))
    for what, content in FACTS.items():
        yield Entry(f"facts: {what}", "first", lambda parts, content=content: setattr(
            parts, "packed", pack(content, parts.arrays)
        ))  # fmt: skip
    for what, name in (("an unknown array", "bases"), ("an array without a name", ""),
                       ("an array with an odd name", "\n\x1b[2J")):  # fmt: skip
        yield Entry(what, "first", array(name, np.zeros((3, 1), np.int16)))
    yield Entry("exact maps of before", "first", lambda parts: parts.arrays.update(
        keys=np.zeros(0, np.uint64), bases=np.array([(1 << 64) - 16], np.uint64)
    ))  # fmt: skip
    yield Entry("a pruner of the first order", "first", lambda parts: (
        parts.arrays.update(pruner=parts.arrays["arcs"]),
        parts.facts.update(pruner_unit=1.0, pruner_threshold=0.1, pruner_heads=3),
    ))  # fmt: skip
    yield Entry(
        "labels of the heads alone", "heads alone", array("labels", np.zeros((64, 3), np.int16))
    )


def of_vectors() -> Iterator[Entry]:
    """Arrays and facts of word vectors, and templates of others."""
    of_any = ("no rows", "one row", "one row less", "one row more", "twice the rows", "one axis",
              "no axes", "transposed", "smallest numbers", "largest numbers", "8 bits")  # fmt: skip
    for base in ("vectors", "vectors, joint", "vectors alone"):
        parts = parts_of(base)
        for name in (name for name in parts.arrays if name.startswith("vectors")):
            for what in of_any:
                yield Entry(f"{name}: {what}", base, array(name, SHAPES[what]))
            for kind in ("i2", "i4", "i8", "u1", "f4", "f8"):
                yield Entry(f"{name}: {kind}", base, array(name, TYPES.get(kind, _as_words)))
            yield Entry(f"{name}: zeros", base, array(name, np.zeros_like))
            yield Entry(f"{name}: ones", base, array(name, np.ones_like))
            yield Entry(f"{name}: one axis more", base, array(name, lambda a: a[..., np.newaxis]))
            for what in ("2^40 rows, no columns", "a product that wraps", "bytes too few"):
                yield Entry(f"{name}: {what}", base, array(name, HEADERS[what]))
        for name in (name for name in parts.facts if name.startswith("vectors")):
            yield Entry(f"{name}: missing", base, lambda parts, name=name: parts.facts.pop(name))
            for what, value in VALUES.items():
                yield Entry(f"{name}: {what}", base, fact(name, value))
        for what, value in VALUES.items():
            for margin in ("vectors_arc_margin", "vectors_label_margin"):  # models may lack them
                yield Entry(f"{margin}: {what}", base, fact(margin, value))
        for old, new in (
            ("hidden: 8", "hidden: 0"), ("hidden: 8", "hidden: 33"), ("hidden: 8", "hidden: -8"),
            ("arc: 4", "arc: 0"), ("arc: 4", "arc: 33"), ("arc: 4", "arc: 513"),
            ("label: 4", "label: 0"), ("label: 4", "label: 33"), ("- 2\n", ""), ("- 1\n", ""),
            ("w+1.form", "w+1.pos"), ("w-1.pos", "w-4.pos"), ("- w.pos\n", ""), ("w.pos", "w.form"),
            ("between.pos", "between.form"), ("between.pos", "between.feats.*"),
            ("- between.pos\n", ""), ("between.pos", "w+2.pos"),
            ("w.pos", "w.feats.*"), ("word_vectors", "vectors"), ("w.pos", "h.pos"),
        ):  # fmt: skip
            yield Entry(f"{old} -> {new}", base, text(
                FEATURES, lambda known, old=old, new=new: _in_section(known, old, new)
            ))  # fmt: skip
        yield Entry("no section", base, text(FEATURES, lambda known: known.partition("word_v")[0]))
    yield Entry("word vectors without arrays", "first", text(
        FEATURES, lambda known: known + VECTORS
    ))  # fmt: skip
    yield Entry("arrays without word vectors", "first", lambda parts: parts.arrays.update({
        name: found
        for name, found in parts_of("vectors").arrays.items() if name.startswith("vectors")
    }))  # fmt: skip


def _in_section(known: str, old: str, new: str) -> str:
    """The text of a set with something else in its section of word vectors."""
    before, start, section = known.partition("word_vectors")
    return before + (start + section).replace(old, new, 1)


def _as_words(found: np.ndarray) -> np.ndarray:
    return found.astype(np.int16)


def of_words() -> Iterator[Entry]:
    """Every key of vocabulary.json."""
    for base in ("first", "joint", "graphs"):
        for what, value in LABELS.items():
            yield Entry(f"labels: {what}", base, word("labels", value))
    for what, value in LABELS.items():
        yield Entry(f"primary: {what}", "graphs", word("primary", value))
    yield Entry("primary: of trees", "first", lambda parts: parts.words.update(
        primary=parts.words["labels"]
    ))  # fmt: skip
    for base in ("first", "sibling", "graphs"):
        for what, value in FIELDS.items():
            yield Entry(f"values: {what}", base, word("values", value))
    for what, value in VALUES.items():
        yield Entry(f"pos_column: {what}", "first", word("pos_column", value))
    for value in (2, 3, 4, 5, 9, 10, 3.0, "3", [3]):
        yield Entry(f"pos_column: {value!r}", "first", word("pos_column", value))
    yield Entry("an unknown word", "first", lambda parts: parts.words.update(author="x"))
    for name in ("labels", "primary", "pos_column", "values"):
        yield Entry(f"{name}: missing", "first", lambda parts, name=name: parts.words.pop(name))
    for what, content in JSONS.items():
        yield Entry(f"vocabulary: {what}", "first", text(VOCABULARY, content))


def of_templates() -> Iterator[Entry]:
    """Templates of trees and labels."""
    for base in ("first", "sibling", "grand-sibling", "guides"):
        for what, content in SETS.items():
            yield Entry(f"templates: {what}", base, templates(content))
        for what, ends in DISTANCES.items():
            yield Entry(f"distance: {what}", base, text(
                FEATURES, lambda known, ends=ends: _with_distance(known, ends)
            ))  # fmt: skip
    for base in ("first", "joint", "graphs"):
        for what, ends in DISTANCES.items():
            yield Entry(f"distance of labels: {what}", base, text(
                LABEL_FEATURES, lambda known, ends=ends: _with_distance(known, ends)
            ))  # fmt: skip
        for each in ("x.pos", "g.pos", "o.pos", "between.pos", "s.pos", "h+4.pos", "", "h.colour"):
            content = json.dumps({"name": "x", "distance": [1], "label": [{"templates": [each]}]})
            yield Entry(f"label template: {each!r}", base, text(LABEL_FEATURES, content))
    yield Entry("sums beyond 32 bits", "first", _sums_beyond_32_bits)
    for name in (FEATURES, LABEL_FEATURES, CONFIG):
        for what, content in YAMLS.items():
            yield Entry(f"{name}: {what}", "first", text(name, content))
    yield Entry("the templates of labels for trees", "first", lambda parts: parts.texts.update(
        {FEATURES: parts.texts[LABEL_FEATURES]}
    ))  # fmt: skip
    yield Entry("the templates of trees for labels", "first", lambda parts: parts.texts.update(
        {LABEL_FEATURES: parts.texts[FEATURES]}
    ))  # fmt: skip
    yield Entry("label templates without labels", "heads alone", text(
        LABEL_FEATURES, parts_of("first").texts[LABEL_FEATURES]
    ))  # fmt: skip
    for other in BASES:
        yield Entry(f"the templates of {other}", "dual", text(
            FEATURES, parts_of(other).texts[FEATURES]
        ))  # fmt: skip
        yield Entry(f"the arrays of {other}", "dual", lambda parts, other=other: setattr(
            parts, "arrays", dict(parts_of(other).arrays)
        ))  # fmt: skip
        yield Entry(f"the vocabulary of {other}", "dual", lambda parts, other=other: setattr(
            parts, "words", copy.deepcopy(parts_of(other).words)
        ))  # fmt: skip


def _with_distance(known: str, ends: Any) -> str:
    lines = known.split("\n")
    start = next(k for k, line in enumerate(lines) if line.startswith("distance:"))
    end = next(k for k in range(start + 1, len(lines)) if not lines[k].startswith(("-", " ")))
    return "\n".join([*lines[:start], f"distance: {json.dumps(ends)}", *lines[end:]])


def _sums_beyond_32_bits(parts: Parts) -> None:
    """Thousands of templates of words in between, and the largest weights."""
    names = [f"feats.{i}" for i in range(95)]
    content = {
        "distance": [1], "arc": [{
            "templates": [f"between.pos h.{name}" for name in names],
            "suffixes": [f"m.{name}" for name in names],
        }]
    }  # fmt: skip
    parts.texts[FEATURES] = json.dumps({"name": "x"} | content)
    of_labels = parse_set(parts.texts[LABEL_FEATURES], "labels")
    fields = fields_read(parse_set(parts.texts[FEATURES], "x"), of_labels)
    parts.words["values"] = {
        name: parts_of("first").words["values"].get(name, ["a"]) for name in fields
    }
    plan = compile_plan(
        parse_set(parts.texts[FEATURES], "x"), Vocabularies(parts.words["values"], 3)
    )
    n_rows = hashed_map(parts.facts["table_rows"], plan.dense_lines).n_rows
    parts.arrays["arcs"] = np.full((n_rows, 1), 32767, np.int16)


def of_files() -> Iterator[Entry]:
    """Other things in the place of files, and files of arrays that are none."""
    for name in (*TEXTS, WEIGHTS):
        for what, make in FILES.items():
            yield Entry(f"{name} is {what}", "first", lambda parts, name=name, make=make: (
                parts.files.update({name: make})
            ))  # fmt: skip
    for what, content in PACKED.items():
        yield Entry(f"{WEIGHTS} is {what}", "first", lambda parts, content=content: setattr(
            parts, "packed", content
        ))  # fmt: skip


# ---- trying them -----------------------------------------------------------------------------


def try_entry(entry: Entry, folder: Path) -> str:
    """Load and parse with one hostile model: "refused" or "parsed"; else AssertionError.

    folder: empty, and emptied again.
    """
    parts = copy.copy(parts_of(entry.base))
    parts.facts, parts.texts = copy.deepcopy(parts.facts), dict(parts.texts)
    parts.words, parts.arrays, parts.files = copy.deepcopy(parts.words), dict(parts.arrays), {}
    entry.change(parts)
    if isinstance(parts.words, dict):
        parts.words = {name: value for name, value in parts.words.items() if value != "absent"}
    parts.write(folder)
    del parts
    outcome = "parsed"
    try:
        with bounded(SECONDS, MEGABYTES):
            try:
                model = load_parser(folder)
            except ModelError as error:
                outcome, message = "refused", str(error)
                assert message.isprintable(), message
                assert message.startswith(str(folder)), message
                assert len(message) < 400 + 2 * len(str(folder)), message
            else:
                check_model(model)
    finally:
        shutil.rmtree(folder)
        folder.mkdir()
    return outcome


def check_model(model: Parser) -> None:
    """Parse with a model in every way that it has."""
    guides = np.full(TEST.n_words, -1) if model.linear.templates.guide else None
    if DECODERS[model.decoder].has("marginals", "native"):
        parse_with_confidence(model, TEST, guides=guides, least_risk=True)
    found = model.parse(TEST, guides=guides)
    assert len(found.heads) == TEST.n_words
    written(model, TEST, found)


def try_all(words: list[str], step: int = 1) -> tuple[Counter[str], list[str]]:
    """Try every `step`-th entry whose name has all the words: outcomes, and what failed."""

    def attempt(entry: Entry) -> str:
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder) / "model"
            place.mkdir()
            return try_entry(entry, place)

    named = ((f"{entry.base}: {entry.name}", partial(attempt, entry)) for entry in entries())
    return try_entries(named, words, step)


def main(arguments: list[str]) -> int:
    """The command."""
    torch.set_num_threads(1)
    return print_outcomes("models", *try_all(arguments))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
