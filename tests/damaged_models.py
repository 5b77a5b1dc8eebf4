"""Valid arguments of functions that take a model or a text, and damage to them.

`tests.hostile_calls` calls the functions with both: whatever is damaged, no function may read or
write beyond an array.
"""

from __future__ import annotations

import copy
from types import SimpleNamespace
from typing import Any

import numpy as np

from gpuparse import native
from gpuparse.data.vocabulary import Encoder, Interner, Vocabularies
from gpuparse.features.plan import (
    compile_higher,
    compile_joint_labels,
    compile_labels,
    compile_plan,
)
from gpuparse.features.templates import PARTS, parse_set
from gpuparse.features.word_vectors import FURTHER
from gpuparse.inference.decoders import DECODERS, with_quantity
from gpuparse.scorers.linear.weights import Weights, hashed_map, joint_labels
from gpuparse.scorers.vectors.word_vectors import WordVectors, frozen
from gpuparse.text.boundaries import CLASSES, open_places
from gpuparse.text.boundaries import FIELDS as GAP_FIELDS
from gpuparse.text.sentences import FIELDS, Tokens
from gpuparse.text.sequences.model import NO_HIDDEN, SequenceModel, Sequences
from gpuparse.text.sequences.tags import TagTable
from gpuparse.text.sequences.templates import parse_sequence_templates
from gpuparse.text.tagging.fields import FormTexts, as_bytes
from gpuparse.text.tokenizer import TextTokenizer
from gpuparse.text.views import TextView
from tests.encoders import arcs_of_bytes, encoder_of, labels_of, sequences_of
from tests.samples import random_sentences, treebank_of
from tests.vectors import random_plan, random_weights

TEMPLATES = """
distance: [1, 2, 5]
arc: [{suffixes: [direction, direction distance], templates: [h.form m.form, h.pos, m-1.pos m.pos,
  h.pos between.pos m.pos, between.pos m.lemma]}]
sibling: [{suffixes: [direction, distance], templates: [h.pos s.pos m.pos, h.form s.form m.form,
  s.pos m.pos, s+1.pos m.pos]}]
end: [{templates: [h.pos e.pos, e.form]}]
guide: [{templates: [h.pos m.pos]}]
grandparent: [{suffixes: [direction], templates: [g.pos h.pos m.pos, g-1.pos m.pos]}]
grand_sibling: [{templates: [g.pos h.pos s.pos m.pos]}]
tri_sibling: [{templates: [h.pos t.pos s.pos m.pos]}]
inner_grandchild: [{templates: [h.pos m.pos c.pos]}]
outer_grandchild: [{templates: [m.pos c.pos]}]
label: [{suffixes: [direction, distance], templates: [h.pos m.pos, m.form, m+1.pos]}]
"""
TREE_LABELS = (
    "label: [{suffixes: [direction], templates: [h.pos m-1.pos, g.pos p.pos, q.form, o.pos]}]"
)
N_LABELS, N_LINES, N_BETWEEN = 5, 64, 3
LEARNING = {"predict_batch", "learn_batch"}


class Model:
    """A small model with every kind of part, and sentences.

    Args:
        random: draws the sentences and the weights.
        dtype: of the weights.
        with_labels: whether labels are found with the trees.
    """

    def __init__(self, random: np.random.Generator, dtype: type, *, with_labels: bool) -> None:
        treebank = treebank_of(random_sentences(int(random.integers(99)), 3, 6))
        templates = parse_set(TEMPLATES, "damaged").expanded(set())
        tree_labels = parse_set(TREE_LABELS, "damaged").expanded(set())
        sets = (templates, tree_labels)
        fields = sorted({field for of in sets for part in PARTS for field in of.fields(part)})
        vocabularies = Vocabularies.build(treebank, fields, 3)
        self.random, self.dtype = random, dtype
        batch = Encoder(vocabularies).encode(treebank)
        self.batch = batch.guided(random.integers(-1, 4, int(batch.lengths.sum())))
        self.tokens = self.batch.values.shape[1]
        plan = compile_plan(templates, vocabularies, higher=True)
        features = hashed_map(int(random.choice([1024, 1000])), plan.dense_lines)
        weights = self.draw_weights(features.n_rows)
        children = compile_higher(templates.only(("inner_grandchild",)), vocabularies)
        joint = joint_labels(
            compile_joint_labels(templates, vocabularies),
            Weights(self.draw_weights(N_LINES, N_LABELS)),
            N_LABELS,
            children if random.random() < 0.5 else None,
        )
        self.scorer = SimpleNamespace(
            plan=plan, weights=weights, rows=features.rows,
            joint=joint if with_labels else None,
            vectors=self.draw_vectors() if random.random() < 0.5 else None,
        )  # fmt: skip
        self.label_plan = compile_labels(tree_labels, vocabularies)

    def draw_vectors(self) -> WordVectors:
        plan = random_plan(self.random, self.batch, [0, -1, 2, 0], 20)
        hidden = int(self.random.choice([0, 20]))
        further = {kind: int(self.random.choice([0, 20])) for kind in FURTHER}
        weights = random_weights(self.random, plan, hidden, 40, 7, N_LABELS, **further)
        margin = (
            float(self.random.choice([0.0, 1.0, 100.0])) if self.random.random() < 0.5 else None
        )
        return frozen(weights, plan, self.batch).with_margin(margin)

    def kept_vectors(self) -> np.ndarray | None:
        if self.scorer.vectors is None or self.random.random() < 0.5:
            return None
        nodes, size = int((self.batch.lengths + 1).sum()), 4 * len(self.scorer.vectors.labels)
        return self.random.integers(-127, 128, (nodes, size)).astype(np.int16)

    def draw_weights(self, *shape: int) -> np.ndarray:
        return self.random.integers(-9, 9, shape).astype(self.dtype)

    def heads(self, lowest: int = 0) -> np.ndarray:
        """(T,) trees by token: the head of each word is the word before; -1 for no word."""
        found = np.full(self.tokens, -1, np.int64)
        for start, n in zip(self.batch.starts, self.batch.lengths, strict=True):
            found[start + 1 : start + 1 + n] = np.arange(n)
        if lowest < 0:
            found[self.random.random(self.tokens) < 0.2] = -1
        return found

    def by_token(self, *shape: int) -> np.ndarray:
        return np.full((*shape, self.tokens), -1, np.int64)

    def squares(self) -> tuple[np.ndarray, int]:
        """(T,) first cells of all sentences, and the number of cells."""
        sizes = (self.batch.lengths + 1) ** 2
        firsts = np.zeros(self.tokens, np.int64)
        firsts[self.batch.starts] = np.cumsum(sizes) - sizes
        return firsts, int(sizes.sum())


def arguments_of(name: str, random: np.random.Generator) -> list[Any]:
    """Valid arguments of a function that takes a model, a text or scores; plain structs."""
    _, arguments = native.library().declarations.functions[name]
    takes_batch = any(argument.type == "Sentences" for argument in arguments)
    if name == "higher_order_batch":
        given = of_scores(random)
    elif name == "view_text" or any(a.type in ("TextView", "TextTokenizer") for a in arguments):
        given = of_views(name, random)
    elif any(argument.type in ("SequenceModel", "SequenceTemplates") for argument in arguments):
        given = of_sequences(name, random)
    elif any(argument.type in ("TagNetwork", "TagLesson") for argument in arguments):
        given = of_tag_network(name, random)
    elif any(argument.type == "VectorPlan" for argument in arguments):
        given = of_vectors(random)
    elif name in FORM_FUNCTIONS:
        given = of_forms(name, random)
    elif name == "encode_pieces":
        given = of_encoder(random)
    elif name in ("score_byte_labels", "score_byte_arcs", "multiply_byte_linear"):
        given = of_byte_layers(name, random)
    elif any(argument.type == "VectorStep" for argument in arguments):
        given = of_vector_steps(name, random)
    else:
        given = of_batch(name, random) if takes_batch else of_text(name, random)
    return [as_plain(given[a.name], a.type) for a in arguments]


FORM_FUNCTIONS = (
    "read_forms", "find_form_keys", "classify_counts", "join_words_with_upos", "join_lists",
)  # fmt: skip


def of_forms(name: str, random: np.random.Generator) -> dict[str, Any]:
    """Values of arguments by name: some forms, tags that they were seen with, and candidates."""
    forms = as_bytes("Aé-bc\n7th\n\nx")
    lowers, kinds = as_bytes("aé-bc\n7th\n\nx"), as_bytes("Xx-xx\ndxx\n\nx")
    if name == "read_forms":
        fields = np.array([[field, random.integers(0, 10)] for field in range(12)])
        return {
            "texts": FormTexts(forms, lowers, kinds), "fields": fields,
            "seen": Interner([b"a", b"bc", b"x"])._table, "known": np.arange(3, dtype=np.uint32),
            "values": np.zeros((4, 12), np.uint32),
        }  # fmt: skip
    if name == "find_form_keys":
        return {
            "values": random.integers(0, 3, (4, 5), np.uint32),
            "names": np.arange(5, dtype=np.uint32), "lowers": lowers,
            "sizes": np.array([1, 3]), "ngram_name": 7,
            "keys": np.zeros((4, 12), np.uint32), "counts": np.zeros(4, np.int64),
        }  # fmt: skip
    if name == "classify_counts":
        starts = np.cumsum([0, *random.integers(0, 7, 4)])
        return {
            "starts": starts, "tags": random.integers(0, 3, starts[-1]).astype(np.int32),
            "counts": random.integers(1, 9, starts[-1]), "texts": as_bytes("N\nVERB\nÉ"),
            "values": np.zeros(4, np.uint32),
        }  # fmt: skip
    if name == "join_lists":
        ends, ids = np.cumsum([0, *random.integers(0, 4, 5)]), random.integers(0, 5, 9)
        starts = np.cumsum([0, *np.diff(ends)[ids]])
        return {
            "ids": ids.astype(np.int32), "ends": ends, "items": np.arange(ends[-1], dtype=np.int32),
            "starts": starts, "found": np.zeros(starts[-1], np.int32),
        }  # fmt: skip
    names, lowers = as_bytes("Aé\tN\tNN\n\tX\t"), as_bytes("aé\tn\tnn\n\tx\t")
    room = np.zeros(len(names) + len(lowers), np.uint8)
    return {"names": names, "lowers": lowers, "count": 2, "found": room}


def of_encoder(random: np.random.Generator) -> dict[str, Any]:
    """Values of arguments by name: a small transformer and some sequences."""
    encoder = encoder_of()
    ids, types, starts = sequences_of(encoder, random.integers(0, 41, 4).tolist())
    return {
        "encoder": encoder, "ids": ids, "types": types, "starts": starts,
        "mix": np.ones(encoder.layers + 1, np.float32),
        "hidden": np.zeros((len(ids), encoder.width), np.float32), "seconds": np.zeros(6),
    }  # fmt: skip


def of_byte_layers(name: str, random: np.random.Generator) -> dict[str, Any]:
    """Values of arguments by name: weights of arcs, or of three labels, and states."""
    starts = np.cumsum([0, *random.integers(0, 4, 20)])
    heads, modifiers = (np.ones((n, 16), np.float32) for n in (20, starts[-1]))
    if name == "multiply_byte_linear":
        found = np.zeros((20, 5), np.float32)
        return {"linear": labels_of(16, 5, 3).heads, "rows": heads, "found": found}
    if name == "score_byte_arcs":
        return {
            "arcs": arcs_of_bytes(16, 5), "states": heads, "starts": np.array([0, 5, 11]),
            "lengths": np.array([4, 5, 8]), "scores": np.zeros((3, 9, 9), np.float32),
        }  # fmt: skip
    return {
        "labels": labels_of(16, 5, 3), "heads": heads, "starts": starts, "modifiers": modifiers,
        "scores": np.zeros((starts[-1], 3), np.float32),
    }  # fmt: skip


def of_scores(random: np.random.Generator) -> dict[str, Any]:
    """Values of arguments by name: dense scores of all parts, for any decoder of higher orders."""
    names = [name for name, decoder in DECODERS.items() if decoder.is_higher_order]
    name = names[int(random.integers(len(names)))]
    n_batch, n_nodes, n_limited = 3, int(random.integers(1, 6)), 3
    n_labels = int(random.integers(1, 4)) if DECODERS[name].reads_children else 1
    axes = {
        "arc": 2, "end": 2, "sibling": 3, "grandparent": 3, "inner_grandchild": 3,
        "outer_grandchild": 3, "grand_sibling": 4, "tri_sibling": 4,
    }  # fmt: skip
    dtype = np.float32 if random.random() < 0.3 else np.float64
    labelled = {"arc", "sibling", "inner_grandchild", "outer_grandchild"}
    cells = {
        field: n_nodes**count * (n_labels if field in labelled else 1)
        for field, count in axes.items()
    }
    scores = {
        field: random.integers(-9, 9, (n_batch, count)).astype(dtype)
        for field, count in cells.items()
        if field == "arc" or random.random() < 0.7
    }
    limited = random.integers(-9, 9, (n_batch, n_nodes**2 * n_limited)).astype(np.float64)
    has_limits = bool(random.random() < 0.5)
    search = SimpleNamespace(
        decoder=DECODERS[name].number, single_root=bool(random.random() < 0.5), min_gain=0.5,
        max_iterations=20, granularity=-1.0, class_of=random.integers(0, 2, n_limited),
        masks=np.array([1, 2]),
    )  # fmt: skip
    if not has_limits:
        limited, search.class_of, search.masks = None, None, None
    return {
        "scores": SimpleNamespace(
            **{field: scores.get(field) for field in axes}, n_labels=n_labels, limited=limited
        ),
        "search": search,
        "lengths": random.integers(0, n_nodes, n_batch),
        "heads": np.empty((n_batch, n_nodes), np.int64),
        "labels": np.empty((n_batch, n_nodes), np.int64),
        "certified": np.empty(n_batch, np.bool_),
        "iterations": np.empty(n_batch, np.int64),
    }


def of_vectors(random: np.random.Generator) -> dict[str, Any]:
    """Values of arguments by name: a small model of word vectors and a batch."""
    model = Model(random, np.int16, with_labels=False)
    values, n_templates, n_rows = model.batch.values, 3, 20
    sizes = np.full(n_templates, int(values.max()) + 1)
    plan = SimpleNamespace(
        rows=np.arange(n_templates), offsets=np.array([-1, 0, 2]),
        starts=np.cumsum(sizes) - sizes, sizes=sizes,
        places=random.integers(-1, n_rows, int(sizes.sum())).astype(np.int32),
        buckets=np.array([0, 1, 2]), n_buckets=3, between_row=2, n_between=N_BETWEEN,
        between_places=random.integers(-1, N_BETWEEN, int(values.max()) + 1).astype(np.int32),
    )  # fmt: skip
    hidden, arc, label = int(random.choice([0, 20])), 18, 7
    further = {kind: int(random.choice([0, 9])) for kind in FURTHER}
    columns = arc + sum(further.values()) + label
    width = 2 * (hidden or columns)
    n_dense = width + 2 * hidden * columns + 6 * (3 * arc + 1) + N_LABELS * (3 * label + 1)
    n_dense += sum(6 * (3 * size + 1) for size in further.values() if size)
    n_dense += 4 * N_BETWEEN * (2 * arc + 1)
    sizes_of_vectors = SimpleNamespace(
        hidden=hidden,
        arc=arc,
        **further,
        label=label,
        n_labels=N_LABELS,
        n_between=N_BETWEEN,
    )
    n_nodes = int((model.batch.lengths + 1).sum())

    def draw(*shape: int) -> np.ndarray:
        return random.random(shape).astype(np.float32)

    return {
        "sentences": SimpleNamespace(
            values=values, starts=model.batch.starts, lengths=model.batch.lengths, known=None,
            vectors=None,
        ),
        "plan": plan,
        "found": np.zeros((model.tokens, n_templates), np.int32),
        "sizes": sizes_of_vectors,
        "tables": SimpleNamespace(table=draw(n_rows, width), dense=draw(n_dense)),
        "search": SimpleNamespace(
            decoder=0 if any(further.values()) else int(random.integers(2)),
            single_root=bool(random.random() < 0.5), min_gain=0.0, max_iterations=1,
            granularity=1.0, class_of=None, masks=None,
        ),
        "learning": SimpleNamespace(
            loss=0 if any(further.values()) else int(random.integers(3)), cost=1.0, label_loss=0.3,
            dropout=0.3, seed=7,
        ),
        "gold": SimpleNamespace(heads=model.heads(-1), labels=model.by_token() + 1),
        "gradients": SimpleNamespace(
            nodes=draw(n_nodes, width), dense=draw(n_dense),
            occurrences=np.zeros(n_nodes * n_templates, np.int64), first_node=0,
        ),
        "counts": np.zeros(3),
        "heads": model.heads(),
        "arcs": draw(len(model.batch), model.batch.n_nodes, model.batch.n_nodes),
        "labels": draw(model.tokens, N_LABELS),
    }  # fmt: skip


def of_tag_network(name: str, random: np.random.Generator) -> dict[str, Any]:
    """Values of arguments by name: a small network of tags, in whole numbers and while learned."""
    size, hidden, reach, n, n_rows = 64, 64, 1, 5, 7
    window = random.integers(-9, 9, (3, size // 4, hidden, 4), dtype=np.int8)
    network = SimpleNamespace(
        table=random.integers(-9, 9, (n_rows, size), dtype=np.int8),
        scales=random.integers(0, 9, n_rows, dtype=np.uint8), vector_shift=3, window=window,
        bases=(64 * window.sum((1, 3), dtype=np.int64)).astype(np.int32), window_shift=2,
        bias=random.integers(-9, 9, hidden, dtype=np.int32),
        hidden_shifts=random.integers(0, 4, hidden, dtype=np.int32),
    )  # fmt: skip
    row_starts, rows = np.array([0, 1, 2, 5, 6]), random.integers(0, n_rows, 6, dtype=np.int32)
    forms, places = np.array([0, 2, 3, 1, 0, 2, 2, 3, 1]), np.array([1, 2, 5, 6, 7])
    starts = np.array([0, 2, n])
    task = SimpleNamespace(
        tag_starts=np.array([0, 2, 4]), tag_parts=np.array([0, 1, 0, 2], np.int32),
        candidate_starts=np.array([0, 0, 1, 3, 3, 3]), candidates=np.array([1, 0, 1], np.int32),
        gold=np.array([0, 1, 1, 0, 1], np.int32),
    )  # fmt: skip
    n_dense = 3 * size * hidden + hidden + 2 * (3 * hidden + 3)
    return {
        "network": network, "row_starts": row_starts, "rows": rows,
        "vectors": random.integers(1, 128, (4, size), dtype=np.uint8), "forms": forms,
        "places": places, "wanted": random.random(n) < 0.7,
        "hidden": np.empty((n, hidden), np.uint8),
        "lesson": SimpleNamespace(
            starts=starts, forms=forms, places=places, row_starts=row_starts, rows=rows,
            dropped=np.full(n_rows, 0.2, np.float32),
        ),
        "first": task, "second": task,
        "learning": SimpleNamespace(
            reach=reach, hidden=hidden, batch=1, dropout=0.3, seed=1, all_steps=9
        ),
        "step": SimpleNamespace(rate=0.1, first_decay=0.9, second_decay=0.99, steps=0),
        "order": np.array([1, 0]), "table": random.random((n_rows, size)).astype(np.float32),
        "dense": random.random(n_dense).astype(np.float32),
        "table_moments": np.zeros((2, n_rows, size), np.float32),
        "dense_moments": np.zeros((2, n_dense), np.float32), "counts": np.zeros(3),
    }  # fmt: skip


def of_vector_steps(name: str, random: np.random.Generator) -> dict[str, Any]:
    """Values of arguments by name: gradients and the weights that are changed by them."""
    n_rows, width = 9, 20
    shape = (n_rows, width) if name == "step_vector_rows" else (n_rows,)
    numbers = random.random((2, *shape)).astype(np.float32)
    rows = np.sort(random.integers(0, n_rows, 12))
    return {
        "step": SimpleNamespace(rate=0.1, first_decay=0.9, second_decay=0.99, steps=3),
        "gradients": random.random((4, shape[-1])).astype(np.float32),
        "first": 1, "last": 7, "scale": 1.5, "weights": numbers[0], "table": numbers[0],
        "moments": numbers, "occurrences": (rows << 32) + random.integers(0, 4, 12),
    }  # fmt: skip


def of_sequences(name: str, random: np.random.Generator) -> dict[str, Any]:
    """Values of arguments by name: a small model of sequences, and sequences with gold tags."""
    table = TagTable.of_counts({("N", "a"): 3, ("N", "b"): 2, ("V", "_"): 1}, attributes=True)
    text = "name: t\ntemplates: [w.a, w.b]\ncontexts: [t-1.tag, t-1.coarse t-2.tag w.a]"
    templates = parse_sequence_templates(text, "t", lambda name: True)
    features = random.integers(0, 3, (7, 2), dtype=np.uint32) << np.uint32(8)
    dtype = np.float32 if name == "learn_sequences" else np.int16
    weights = random.integers(-9, 9, 64).astype(dtype)
    known = np.full(1 << 19, 0xFFFFFFFF, np.uint32)
    model = SequenceModel(templates, table, weights, known, 1.0, np.array([1, 2]))
    n, width = len(table), 8 * len(table.blocks)
    sum_rows = random.integers(0, 3, (7, 2), dtype=np.int32)
    of_sums = (np.ones((3, width), np.int16), sum_rows, np.array([1])) if dtype == np.int16 else ()
    sums = np.empty((14, width), np.int16) if name == "sum_features" else np.zeros(64)
    return {
        "model": model.arrays,
        "tag_sums": np.empty((n + 1, n), np.int16),
        "pair_sums": np.empty(((n + 1) ** 2, n), np.int16),
        "pair_ranges": np.empty((n + 1, n), np.int16),
        "batch": Sequences(
            features, np.array([0, 4, 4, 7]), np.array([0, 1, 1, 3, 3, 3, 3, 3]),
            np.array([2, 0, 1], np.int32), NO_HIDDEN, *of_sums,
        ),
        "groups": np.array([0, 1, 2]),
        "tags": np.empty((7, 2) if name == "sum_sequences" else 7, np.int32),
        "probabilities": np.empty((7, 2)), "scale": 1.0,
        "gold": random.integers(0, 3, 7, dtype=np.int32), "order": np.array([2, 0, 1]),
        "seen": 0, "cost": 1.0, "max_step": float(random.random() < 0.5), "weights": weights,
        "sums": sums, "wrong": np.zeros(1, np.int64),
        "changed": np.zeros(1 << 19, np.uint32),
        "templates": templates.arrays, "places": np.arange(4, 11), "features": features,
        "values": random.integers(0, 3, (2, 15), dtype=np.uint32),
    }  # fmt: skip


def of_views(name: str, random: np.random.Generator) -> dict[str, Any]:
    """Values of arguments by name: a small text with a view of it, its gaps and its tokens."""
    codes = np.frombuffer("Ab 12 000 c. (D\u00e9'x)".encode("utf-32-le"), np.uint32)
    spaces, segments = codes == ord(" "), np.array([0, 10])
    table = SimpleNamespace(
        classes=(np.arange(256) % CLASSES).astype(np.uint8), lower=np.arange(256, dtype=np.uint32)
    )
    codes = np.minimum(codes, 255)
    view = TextView.of_text(codes, spaces, segments, table)
    size = len(codes) + 8 * 3
    if name == "view_text":
        return {
            "characters": codes, "spaces": spaces, "segments": segments, "class_of": table.classes,
            "lower_of": table.lower, "blanks": np.array([32]), "codes": np.empty(size, np.uint32),
            "lower": np.empty(size, np.uint32), "classes": np.empty(size, np.uint8),
            "is_visible": np.empty(size, np.bool_), "is_blank": np.empty(size, np.bool_),
            "source": np.empty(size, np.int64), "places": np.empty(len(codes), np.int64),
            "starts": np.empty(2, np.int64),
        }  # fmt: skip
    n_places = len(view.codes)
    is_open = random.random((2, CLASSES**2)) < 0.7
    if name == "split_text":
        sequences = of_sequences(name, random)
        model, templates = sequences["model"], sequences["templates"]
        pairs = random.random((2, 256, 256)) < 0.5
        tokenizer = TextTokenizer(
            table.classes, table.lower, np.array([32]), is_open,
            *((model, templates) if random.random() < 0.5 else (None, None)), np.array([1, 3]),
            np.arange(5, dtype=np.uint64), model, templates, np.array([0, 16]),
            np.arange(3, dtype=np.uint64), np.ones(3, np.uint8), bool(random.random() < 0.5),
            np.arange(2, dtype=np.uint64), *pairs,
        )  # fmt: skip
        known = random.integers(0, 3, len(codes), dtype=np.uint8)
        return {
            "tokenizer": tokenizer, "characters": codes, "spaces": spaces, "segments": segments,
            "known": known if random.random() < 0.5 else None,
            "of_segments": bool(random.random() < 0.5),
            "tokens": np.empty((3, len(codes)), np.int64),
            "flags": np.empty((2, len(codes)), np.bool_),
        }  # fmt: skip
    places, ends = open_places(view, is_open, keeps_addresses=False)
    tokens = Tokens(view, ends)
    fields = GAP_FIELDS if name == "gap_fields" else FIELDS
    of_places = {key: np.empty(n_places, np.int64) for key in ("first", "last", "segments")}
    return of_places | {
        "view": view, "tokens": tokens, "is_open": is_open, "ends": ends,
        "places": np.empty(n_places, np.int64) if name == "open_gaps" else places.copy(),
        "fields": np.arange(len(fields)),
        "lexicon": np.sort(random.integers(0, 99, 5, dtype=np.uint64)),
        "values": np.empty(
            (len(fields), n_places if name == "gap_fields" else len(tokens) + 12), np.uint32
        ),
        "starts": np.empty(3, np.int64), "columns": tokens.rows,
        "cases": np.zeros(len(tokens), np.uint8),
        "hashes": np.arange(3, dtype=np.uint64), "kinds": np.ones(3, np.uint8),
        "closing": np.empty(n_places, np.bool_),
    }  # fmt: skip


def of_text(name: str, random: np.random.Generator) -> dict[str, Any]:
    """Values of arguments by name: the table of a small file, and what replaces its columns."""
    treebank = treebank_of(random_sentences(int(random.integers(99)), 2, 5))
    data, columns, n_words = treebank.data, treebank.columns, len(treebank.columns)
    n_lines = int((data == ord("\n")).sum())
    names = SimpleNamespace(bytes=np.frombuffer(b"nsubj", np.uint8), ends=np.array([0, 2, 5]))
    every, numbers = np.arange(n_words + 1), np.zeros(n_words, np.int32)
    table = Interner([b"x", b"yes"])._table
    if name == "fill_slots":
        table = table._replace(slots=np.full_like(table.slots, -1))
    strings_alone = name not in ("find_strings", "add_strings", "fill_slots")
    plan = SimpleNamespace(
        family_start=np.arange(7), sides=np.zeros((6, 4), np.int64),
        side_start=np.zeros(2, np.int64), with_direction=np.zeros(6, bool),
        atoms=np.zeros((0, 2), np.int64), only_last=False,
    )  # fmt: skip
    tree, labels = np.array([-1, 0, 1, 1, 3]), np.zeros(5, np.int64)
    if name == "number_rows":
        rows = random.integers(0, 3, (n_words, 2), dtype=np.int32)
        return {"rows": rows, "key": 5, "numbers": numbers, "firsts": every[:-1].copy()}
    if name == "set_columns":
        old = columns[:, 3:5] - columns[:, 2:4] - 1
        return {
            "data": data, "columns": columns, "first": 2, "names": names.bytes, "ends": names.ends,
            "ids": np.ones((2, n_words), np.int32),
            "text": np.zeros(len(data) + 6 * n_words - int(old.sum()), np.uint8),
        }  # fmt: skip
    return {
        "data": data, "columns": columns, "other": data, "other_columns": columns, "column": 3,
        "max_line": 1000, "stop_at_fault": False, "counts": np.zeros(4, np.int64),
        "found": SimpleNamespace(
            columns=np.zeros((n_lines, 11), np.int64), heads=np.zeros(n_lines, np.int32),
            lines=np.zeros(n_lines, np.int64), word_starts=np.zeros(n_lines + 1, np.int64),
            spans=np.zeros((n_lines, 2), np.int64), faults=np.zeros((n_lines, 6), np.int64),
        ) if name == "scan_conll" else np.array([-1, 2, 0, 1, 3]),
        "replacing": SimpleNamespace(
            heads=numbers, labels=SimpleNamespace(names=names, labels=numbers + 1),
            arcs=SimpleNamespace(names=names, starts=every, heads=numbers, relations=numbers),
            items=SimpleNamespace(
                keys=names, values=random.integers(0, 9, (2, n_words, 3)).astype(np.uint8)
            ),
        ),
        "dropped": np.zeros((0, 2), np.int64), "text": np.zeros(40 * len(data), np.uint8),
        "key": names.bytes, "numbers": np.zeros(n_words, np.int32),
        "word_starts": treebank.word_starts, "spans": np.zeros((n_words, 2), np.int64),
        "faults": np.zeros((len(treebank.word_starts) - 1, 5), np.int64),
        "starts": every if strings_alone else columns[:, 1].copy(),
        "stops": columns[:, 2] - 1, "heads": numbers.copy(), "table": table, "first": 0,
        "size": np.array([2]) if name == "add_strings" else 2, "ids": numbers.copy(),
        "primary": numbers, "kept": np.zeros(n_words, bool), "added": numbers.copy(),
        "gold": tree, "gold_labels": labels, "found_labels": labels, "siblings": True,
        "higher": plan, "children": plan, "parts": np.zeros((50, 7), np.int64),
    }  # fmt: skip


def of_batch(name: str, random: np.random.Generator) -> dict[str, Any]:
    """Values of arguments by name: a small model and a batch."""
    finds_graphs = name == "parse_graphs_batch" or (name in LEARNING and random.random() < 0.1)
    is_float = name in LEARNING or random.random() < 0.3
    with_labels = name == "score_labels_batch" or random.random() < 0.5
    model = Model(random, np.float32 if is_float else np.int16, with_labels=with_labels)
    batch, tokens, joint = model.batch, model.tokens, model.scorer.joint
    n_sentences, nodes = len(batch), batch.n_nodes
    dense = np.float32 if is_float else np.float64
    firsts, n_cells = model.squares()
    one = name in ("list_part_rows", "list_label_lines")
    keep_vectors = ("parse_batch", "label_batch", "score_tree_labels_batch")
    of_trees = [name for name, decoder in DECODERS.items() if not decoder.gives_graphs]
    if name in ("prune_batch", "find_marginals_batch", "find_k_best_batch"):
        of_trees = list(with_quantity("k_best"))
    decoder = "multi_parent" if finds_graphs else str(random.choice(of_trees))
    by_name: dict[str, Any] = {
        "sentences": SimpleNamespace(
            values=batch.values,
            starts=batch.starts[:1] if one else batch.starts,
            lengths=batch.lengths[:1] if one else batch.lengths,
            known=model.heads(-1) if random.random() < 0.3 else None,
            vectors=model.kept_vectors() if name in keep_vectors else None,
        ),
        "scorer": model.scorer,
        "search": SimpleNamespace(
            decoder=DECODERS[decoder].number, single_root=False,
            min_gain=0.0, max_iterations=20, granularity=1.0, class_of=None, masks=None,
        ),
        "rule": SimpleNamespace(rule=int(random.integers(5)), cost=1.0, max_step=np.inf),
        "trees": SimpleNamespace(
            gold=model.heads(), found=model.by_token(2),
            gold_labels=model.by_token() if joint else None,
            found_labels=model.by_token(2) if joint else None, target=model.heads(),
            target_labels=model.by_token() if joint else None, is_partial=False,
        ),
        "allowed": SimpleNamespace(firsts=firsts, cells=random.random(n_cells) < 0.7),
        "tables": SimpleNamespace(
            weights=model.scorer.weights, sums=np.zeros_like(model.scorer.weights),
            label_weights=joint and joint.weights,
            label_sums=joint and np.zeros_like(joint.weights),
        ),
        "seconds": np.zeros(4),
        "vectors": model.scorer.vectors, "plan": model.label_plan, "n_lines": N_LINES, "seen": 3,
        "is_predicted": False,
        "wrong": np.zeros(1), "scale": 0.1, "arc_scale": 0.1, "label_scale": 0.1,
        "threshold": 0.01, "max_heads": 3, "least_risk": True,
        "firsts": firsts[batch.starts] if name == "parse_graphs_batch" else firsts,
        "cells": np.zeros(n_cells, bool), "graphs": None,
        "head_marginals": np.zeros((2, tokens)), "label_marginals": np.zeros((2, tokens)),
        "marginals": np.zeros(tokens), "log_partitions": np.zeros(n_sentences),
        "scores": np.zeros((2, n_sentences)), "marks": np.zeros((2, tokens), np.int64),
        "heads": model.by_token(2) if name in ("find_marginals_batch", "find_k_best_batch")
        else model.heads(),
        "labels": np.zeros((2, tokens), np.int64)
        if name in ("find_marginals_batch", "find_k_best_batch") else np.zeros(tokens, np.int64),
        "weights": model.draw_weights(N_LINES, N_LABELS),
        "sums": np.zeros(N_LINES * N_LABELS, np.float32), "gold": model.by_token() + 1,
        "arcs": np.zeros((n_sentences, nodes, nodes), dense),
        "pairs": np.zeros((n_sentences, nodes, nodes), dense),
        "ends": np.zeros((n_sentences, nodes, nodes), dense),
        "siblings": np.zeros((n_sentences, nodes, nodes, nodes), dense),
        "parts": random.integers(0, 2, (4, 6)), "rows": np.zeros((4, 200), np.int64),
        "lines": np.zeros((2, len(model.label_plan.direction)), np.int64),
    }  # fmt: skip
    if name in ("score_vectors_batch", "time_vectors"):
        by_name["vectors"] = model.draw_vectors()
        scored = [kind for kind in ("arc", *FURTHER) if by_name["vectors"].scores(kind)]
        by_name["kind"] = ("arc", *FURTHER).index(scored[-1])
    if name == "learn_labels":
        by_name["weights"] = by_name["weights"].astype(np.float32)
    if name == "list_label_lines":
        by_name["arcs"] = np.array([[0, 1], [0, 1]])
    if name == "score_trees_batch":
        by_name["scores"] = np.zeros(n_sentences)
    if name == "score_tree_labels_batch":
        by_name["scores"] = np.zeros((tokens, N_LABELS))
    if name == "score_labels_batch":
        by_name["labels"] = np.zeros((n_sentences, nodes, nodes, N_LABELS), dense)
    if name in LEARNING:
        model.scorer.vectors = None
    if name in LEARNING and finds_graphs:
        by_name["trees"] = None
        by_name["graphs"] = SimpleNamespace(
            gold=random.random(n_cells) < 0.2, found=np.zeros(n_cells, bool), firsts=firsts
        )
    elif (
        name in ("label_batch", "learn_labels", "score_tree_labels_batch") and random.random() < 0.5
    ):
        by_name["graphs"] = SimpleNamespace(
            starts=np.arange(tokens + 1), heads=np.zeros(tokens, np.int64),
            may_be_primary=np.ones(N_LABELS, bool),
        )  # fmt: skip
    return by_name


def as_plain(value: Any, kind: str) -> Any:
    """A struct as an object whose fields can be set, its structs too; its arrays are its own."""
    structs = native.library().declarations.structs
    if value is None or kind not in structs:
        return value
    return SimpleNamespace(
        **{field.name: as_plain(getattr(value, field.name), field.type) for field in structs[kind]}
    )


def damage(arguments: list[Any], random: np.random.Generator) -> list[Any]:
    """Arguments of which one to three numbers, arrays or sizes are changed; arrays stay shared."""
    arguments = copy.deepcopy(arguments)
    for _ in range(int(random.integers(1, 4))):
        places: list[tuple[Any, Any]] = []
        for index in range(len(arguments)):
            find_places(arguments, index, places)
        holder, key = places[random.integers(len(places))]
        is_list = isinstance(holder, list)
        value = damaged(holder[key] if is_list else getattr(holder, key), random)
        if is_list:
            holder[key] = value
        else:
            setattr(holder, key, value)
    return arguments


def find_places(holder: Any, key: Any, places: list[tuple[Any, Any]]) -> None:
    """Where a value and the values in it are kept."""
    value = holder[key] if isinstance(holder, list) else getattr(holder, key)
    if isinstance(value, SimpleNamespace):
        for field in vars(value):
            find_places(value, field, places)
        if not isinstance(holder, list):
            places.append((holder, key))  # a struct that is missing
    else:
        places.append((holder, key))


def damaged(value: Any, random: np.random.Generator) -> Any:
    """Another value in the place of one."""
    numbers = [-(2**62), -(2**31), -100, -1, 0, 1, 2, 7, 16, 100, 5000, 2**31 - 1, 2**32, 2**62]
    number = int(random.choice(numbers))
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | np.integer):
        return number
    if isinstance(value, float):
        return float(random.choice([0.0, -1.0, np.inf, -np.inf, np.nan]))
    if not isinstance(value, np.ndarray) or value.size == 0 or random.random() < 0.05:
        return None
    if random.random() < 0.2:  # another size
        return np.ascontiguousarray(value[: random.integers(len(value))])
    if value.dtype.names:
        whole = value.view(np.int64)
        whole[random.integers(whole.size)] = number
    elif value.dtype.kind == "f":
        value.reshape(-1)[random.random(value.size) < 0.1] = random.choice(
            [np.nan, np.inf, -np.inf]
        )
    elif value.dtype.kind == "b":
        value[:] = ~value
    else:
        ends = np.iinfo(value.dtype)
        value.reshape(-1)[random.integers(value.size)] = min(max(number, ends.min), ends.max)
    return value
