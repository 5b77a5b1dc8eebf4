"""Models as `tests/hostile_files.py` damages them: how small ones are learned and used.

What is hostile in models alone: decoders, templates, distances, and parts of other models.
"""

from __future__ import annotations

import copy
import json
import random
import tempfile
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gpuparse.config.schema import PruningConfig
from gpuparse.data import array_file
from gpuparse.data.plain_yaml import parse_yaml
from gpuparse.data.vocabulary import Vocabularies
from gpuparse.features.plan import compile_plan
from gpuparse.features.templates import TemplateSet, fields_read, parse_set
from gpuparse.inference.decoders import DECODERS
from gpuparse.jobs.gold import written
from gpuparse.learning.trainer import Trainer
from gpuparse.model.confidence import parse_with_confidence
from gpuparse.model.folder import (
    CONFIG,
    FEATURES,
    LABEL_FEATURES,
    VOCABULARY,
    load_parser,
    save_parser,
)
from gpuparse.model.parser import Parser
from gpuparse.scorers.linear.weights import hashed_map
from tests.graphs_by_place import acyclic_graph, with_deps
from tests.hostile_files import LISTS, Entry, Kind, Parts, array, at, damages, facts_of, other, text
from tests.learning.literal import ALL, FIRST_ORDER, JOINT, OPTIONS, SECOND_ORDER, WITH_CHILDREN
from tests.runs import changed
from tests.samples import random_sentences, template_set_text, treebank_of

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
def _parts_of(base: str) -> Parts:
    decoder, *_, learned_as = BASES[base]
    if learned_as:
        parts = copy.deepcopy(_parts_of(learned_as))
        parts.facts["decoder"] = decoder
        if "unpruned" in base:
            del parts.arrays["pruner"]
            parts.facts = {k: v for k, v in parts.facts.items() if not k.startswith("pruner")}
        return parts
    with tempfile.TemporaryDirectory() as top:
        folder = Path(top)
        save_parser(train(base), folder)
        facts, arrays = facts_of(folder)
        del facts["texts"]
        texts: dict[str, Any] = {CONFIG: (folder / CONFIG).read_text()}
        for name in (FEATURES, LABEL_FEATURES, VOCABULARY):
            found = (folder / name).read_text()
            read = json.loads(found) if name == VOCABULARY else parse_yaml(found, name).value
            texts[name] = read or found  # a file without templates is empty
        return Parts(facts, dict(arrays), texts=texts)


def parts_of(base: str) -> Parts:
    """The parts of a small model of a kind, which may be changed; its arrays are shared."""
    found = _parts_of(base)
    return Parts(copy.deepcopy(found.facts), dict(found.arrays), texts=copy.deepcopy(found.texts))


def seal(parts: Parts) -> Any:
    """The facts of a model, with the sums of its texts."""
    sums = {
        name: array_file.sha256(content.encode("utf-8", "surrogatepass"))
        for name, content in parts.texts.items()
    }
    return {"texts": sums} | parts.facts


def use(folder: Path) -> str:
    """Load and parse with a model. Raises: ModelError: it is refused."""
    check_model(load_parser(folder))
    return "parsed"


def check_model(model: Parser) -> None:
    """Parse with a model in every way that it has."""
    guides = np.full(TEST.n_words, -1) if model.linear.templates.guide else None
    if DECODERS[model.decoder].has("marginals", "native"):
        parse_with_confidence(model, TEST, guides=guides, least_risk=True)
    found = model.parse(TEST, guides=guides)
    assert len(found.heads) == TEST.n_words
    written(model, TEST, found)


# ---- what is hostile in models alone -----------------------------------------------------------


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
SECTIONS: dict[str, list[Any]] = {
    "hidden": [0, 33, -8], "arc": [0, 33, 513], "label": [0, 33], "distance": [[1], [2], []],
    "templates": [["w.form"], ["w.pos", "w.pos"], ["w-4.pos"], ["between.form"], ["h.pos"],
                  ["between.feats.*"], ["w.feats.*"], ["w+2.pos", "w.pos"]],
}  # fmt: skip


def features(content: dict[str, Any]) -> Callable[[Parts], object]:
    """Other templates of trees."""
    return text(FEATURES, {"name": "x", "distance": [1]} | content)


def others() -> Iterator[Entry]:
    """Facts that contradict arrays and texts, templates, and parts of other models."""
    for name, kind in KINDS.items():
        for what, change in of_any().items():
            yield Entry(f"{name}: {what}", kind, change)
    for name, what, change in of_some():
        yield Entry(f"{name}: {what}", KINDS[name], change)


def of_any() -> dict[str, Callable[[Parts], object]]:
    """Changes of all kinds of models."""
    changes = {f"decoder: {decoder}": at("decoder", decoder) for decoder in DECODERS}
    changes["joint or not"] = at("labels_with_trees", lambda known: not known)
    for more in (16, -16):
        changes[f"{more} rows more are said"] = at("table_rows", lambda rows, k=more: rows + k)
    for what, change in {
        "700 values more": LISTS["700 more"], "one value": lambda known: ["w1"],
        "no values": lambda known: [], "100,000 values": lambda known: list(map(str, range(10**5))),
    }.items():  # fmt: skip
        changes[what] = at("values", lambda values, change=change: {
            name: change(known) for name, known in values.items()
        }, VOCABULARY)  # fmt: skip
    changes["one field missing"] = at("values", lambda v: dict(list(v.items())[1:]), VOCABULARY)
    return changes


def of_some() -> Iterator[tuple[str, str, Callable[[Parts], object]]]:
    """Kinds of models, and changes of them by name."""
    first = parts_of("first")
    rows = len(first.arrays["arcs"])
    for value in (15, 16, 17, rows, rows - 1, 2 * rows, 1 << 32, (1 << 64) + 16, -(1 << 63)):
        yield "first", f"table_rows: {value}", at("table_rows", value)
    yield (
        "first",
        "exact maps of before",
        lambda parts: parts.arrays.update(
            keys=np.zeros(0, np.uint64), bases=np.array([(1 << 64) - 16], np.uint64)
        ),
    )
    yield (
        "first",
        "a pruner of the first order",
        lambda parts: (
            parts.arrays.update(pruner=parts.arrays["arcs"]),
            parts.facts.update(pruner_unit=1.0, pruner_threshold=0.1, pruner_heads=3),
        ),
    )
    yield "heads alone", "labels of the heads alone", array("labels", np.zeros((64, 3), np.int16))
    yield "heads alone", "their templates", text(LABEL_FEATURES, first.texts[LABEL_FEATURES])
    yield "first", "sums beyond 32 bits", _sums_beyond_32_bits
    yield (
        "first",
        "primary labels of trees",
        lambda parts: parts.texts[VOCABULARY].update(primary=parts.texts[VOCABULARY]["labels"]),
    )
    for value in (2, 3, 4, 5, 9, 10, 3.0, "3", [3]):
        yield "first", f"pos_column: {value!r}", at("pos_column", value, VOCABULARY)
    for one, two in ((FEATURES, LABEL_FEATURES), (LABEL_FEATURES, FEATURES)):
        yield "first", f"{two} for {one}", text(one, first.texts[two])
    vectors = parts_of("vectors")
    yield (
        "first",
        "word vectors without arrays",
        at("word_vectors", vectors.texts[FEATURES]["word_vectors"], FEATURES),
    )
    yield (
        "first",
        "arrays without word vectors",
        lambda parts: parts.arrays.update(
            {name: a for name, a in vectors.arrays.items() if name.startswith("vectors")}
        ),
    )
    for name, found in parts_of("grand-sibling").facts.items():
        for what, value in damages(found).items() if name.startswith("pruner") else ():
            yield "grand-sibling", f"{name}: {what}", at(name, value)
    for base in ("vectors", "vectors, joint", "vectors alone"):
        for key, values in SECTIONS.items():
            for value in values:
                yield base, f"{key}: {value}", at(f"word_vectors/{key}", value, FEATURES)
        yield base, "no section", lambda parts: parts.texts[FEATURES].pop("word_vectors")
        for margin in ("vectors_arc_margin", "vectors_label_margin"):  # models may lack them
            for value in (0, 1, -1, 1.0, 1 << 63, None, "x", True):
                yield base, f"{margin}: {value}", at(margin, value)
    for base in ("first", "sibling", "grand-sibling", "guides", "joint", "graphs"):
        for what, content in SETS.items():
            yield base, f"templates: {what}", features(content)
        for what, ends in DISTANCES.items():
            yield base, f"distance: {what}", at("distance", ends, FEATURES)
            yield base, f"distance of labels: {what}", at("distance", ends, LABEL_FEATURES)
        for each in ("x.pos", "g.pos", "o.pos", "between.pos", "s.pos", "h+4.pos", "", "h.colour"):
            content = {"name": "x", "distance": [1], "label": [{"templates": [each]}]}
            yield base, f"label template: {each!r}", text(LABEL_FEATURES, content)
    for base in BASES:
        of_base = parts_of(base)
        for name in (FEATURES, VOCABULARY):
            yield "dual", f"{name} of {base}", text(name, of_base.texts[name])
        yield "dual", f"the arrays of {base}", other("arrays", of_base.arrays)


def _sums_beyond_32_bits(parts: Parts) -> None:
    """Thousands of templates of words in between, and the largest weights."""
    names = [f"feats.{i}" for i in range(95)]
    content = {
        "distance": [1], "arc": [{
            "templates": [f"between.pos h.{name}" for name in names],
            "suffixes": [f"m.{name}" for name in names],
        }]
    }  # fmt: skip
    parts.texts[FEATURES] = {"name": "x"} | content
    features, of_labels = (
        parse_set(json.dumps(parts.texts[name]), name) for name in (FEATURES, LABEL_FEATURES)
    )
    known = parts.texts[VOCABULARY]["values"]
    values = {name: known.get(name, ["a"]) for name in fields_read(features, of_labels)}
    parts.texts[VOCABULARY]["values"] = values
    plan = compile_plan(features, Vocabularies(values, 3))
    n_rows = hashed_map(parts.facts["table_rows"], plan.dense_lines).n_rows
    parts.arrays["arcs"] = np.full((n_rows, 1), 32767, np.int16)


WHOLE = ("first", "graphs", "vectors, joint")
KINDS = {
    base: Kind(partial(parts_of, base), use, is_whole=base in WHOLE, seal=seal) for base in BASES
}
