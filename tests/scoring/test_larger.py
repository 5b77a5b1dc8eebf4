"""Parts of three and four words: compiled blocks, listed rows, torch, and whole models by looking
at every tree."""

from itertools import product

import numpy as np
import pytest
import torch

from gpuparse.data.vocabulary import Encoder, Vocabularies
from gpuparse.errors import ConfigError
from gpuparse.features.plan import check_exact_keys, compile_plan
from gpuparse.features.templates import LARGER_PARTS, PARTS, parse_set, parse_template
from gpuparse.inference.decode import DECODERS
from gpuparse.model import Model
from gpuparse.scoring.arcs import arc_scores
from gpuparse.scoring.cpu_larger import (
    fill_larger_keys,
    larger_rows,
    make_larger_scratch,
    max_larger_rows,
)
from gpuparse.scoring.feature_map import hashed_map
from gpuparse.scoring.larger import larger_rows as rows_in_torch
from gpuparse.scoring.larger import larger_scores
from gpuparse.scoring.siblings import sibling_scores
from gpuparse.scoring.weights import Weights
from tests.oracles.arc_features import known_values
from tests.oracles.brute_force import all_trees, ends_of, parts_of
from tests.oracles.larger_features import larger_features
from tests.oracles.larger_trees import larger_parts_of
from tests.samples import random_sentences, treebank_of

TEMPLATES = {
    "grandparent": ["g.pos h.pos m.pos", "g.form m.pos", "h.pos m.pos m+1.pos direction"],
    "grand_sibling": ["g.pos h.pos s.pos m.pos direction", "s.form m.form", "g.pos s+1.pos m.pos"],
    "tri_sibling": ["h.pos t.pos s.pos m.pos direction", "t.form m.pos", "t-1.pos s.pos"],
    "head_child": ["h.pos m.pos c.pos direction", "h.form c.form"],
    "inner_grandchild": ["h.pos m.pos c.pos direction", "m.form c.form"],
    "outer_grandchild": ["h.pos m.pos c.pos direction", "h.pos c+1.form"],
}
ROWS = [1 << 12, 10_007]
SENTENCES = random_sentences(21, 5, 5) + random_sentences(22, 3, 1)


def template_set(parts=LARGER_PARTS, siblings=True):
    lines = ["name: test", "distance: [1, 3]", "arc:", "  - templates: [h.pos m.pos direction]"]
    if siblings:
        lines += ["sibling:", "  - templates: [h.pos s.pos m.pos, s.form m.pos direction]"]
        lines += ["end:", "  - templates: [h.pos e.pos direction]"]
    for part in parts:
        lines.append(f"{part}:\n  - templates:")
        lines += [f"      - {text}" for text in TEMPLATES[part]]
    return parse_set("\n".join(lines), "test")


def prepared(templates, rows):
    fields = sorted({f for part in PARTS for f in templates.fields(part)})
    treebank = treebank_of(SENTENCES)
    vocabularies = Vocabularies.build(treebank, fields, 3)
    plan = compile_plan(templates, vocabularies)
    return treebank, vocabularies, plan, hashed_map(rows, plan.dense_lines)


def parts_over(kind, n):
    """Every choice of words for the roles of a part, whether a tree can have it or not."""
    roles = PARTS[kind]
    for words in product(range(n + 1), repeat=len(roles)):
        h, m = words[roles.index("h")], words[roles.index("m")]
        if h != m and m > 0:
            yield words


@pytest.mark.parametrize("rows", ROWS)
def test_rows_in_torch_are_the_compiled_ones(rows):
    treebank, vocabularies, plan, features = prepared(template_set(), rows)
    batch = Encoder(vocabularies).encode(treebank)
    scratch = make_larger_scratch(plan.larger, int(batch.lengths.max()))
    found = np.zeros(max_larger_rows(plan.larger), np.int64)
    for b in range(len(batch)):
        n, larger = int(batch.lengths[b]), plan.larger
        fill_larger_keys(batch.values.numpy(), int(batch.starts[b]), n, larger, scratch)
        for number, kind in enumerate(LARGER_PARTS):
            parts = list(parts_over(kind, n))[::7]
            if not parts:
                continue
            at = torch.tensor([(b, *words) for words in parts])
            lines = rows_in_torch(kind, at, batch, larger, features, -1).tolist()
            for words, line in zip(parts, lines, strict=True):
                words = (*words, 0)[:4]
                count = larger_rows(number, *words, larger, scratch, features.rows.rows, found)
                assert found[:count].tolist() == [row for row in line if row >= 0]


def test_a_feature_has_a_row_of_its_own_and_the_same_one_wherever_it_fires():
    # A table so large that what is told apart has different rows, but for a very small chance.
    treebank, vocabularies, plan, features = prepared(template_set(), 1 << 30)
    batch = Encoder(vocabularies).encode(treebank)
    known = known_values(SENTENCES, vocabularies.fields, 3)
    row_of, feature_of = {}, {}
    for kind in LARGER_PARTS:
        for b, sentence in enumerate(SENTENCES):
            parts = list(parts_over(kind, len(sentence)))[::3]
            if not parts:
                continue
            at = torch.tensor([(b, *words) for words in parts])
            rows = rows_in_torch(kind, at, batch, plan.larger, features, -1)
            for words, line in zip(parts, rows.tolist(), strict=True):
                expected = larger_features(kind, TEMPLATES[kind], sentence, words, known)
                for feature, row in zip(expected, line, strict=True):
                    assert (feature is None) == (row < 0)
                    if feature is not None:
                        assert row_of.setdefault(feature, row) == row
                        assert feature_of.setdefault(row, feature) == feature
    assert len(row_of) > 300


def whole_weights(plan, features, seed):
    rng = np.random.default_rng(seed)
    array = rng.integers(-40, 40, features.n_rows).astype(np.int16)
    # The rows that stand for words without a value stay silent.
    for triple in plan.siblings.triple if plan.siblings else []:
        first = features.rows.dense + triple["line"] * 16
        array[first : first + 16] = 0
    return Weights(array[:, np.newaxis])


def value_of(tree, b, templates, batch, plan, features, weights, arcs, siblings):
    total = sum(float(arcs[b, tree[m], m]) for m in range(1, len(tree)))
    if siblings is not None:
        total += sum(float(siblings[0][(b, *part)]) for part in parts_of(np.array(tree)))
        total += sum(float(siblings[1][(b, *part)]) for part in ends_of(np.array(tree)))
    for kind, words, _, is_last in larger_parts_of(tree):
        only_last = templates.tri_sibling and kind in ("grandparent", "grand_sibling")
        if getattr(templates, kind) and (is_last or not only_last):
            at = torch.tensor([(b, *words)])
            total += float(larger_scores(kind, at, batch, plan.larger, features, weights)[0])
    return total


@pytest.mark.parametrize("single_root", [False, True], ids=["multi", "single"])
@pytest.mark.parametrize(
    "name", [name for name, decoder in DECODERS.items() if decoder.reads_larger]
)
def test_a_model_finds_the_best_of_all_trees(name, single_root):
    decoder = DECODERS[name]
    parts = [part for part in LARGER_PARTS if part in decoder.parts]
    templates = template_set(parts).only(decoder.parts)
    treebank, vocabularies, plan, features = prepared(templates, 1 << 12)
    weights = whole_weights(plan, features, 3)
    model = Model(
        templates=templates, label_templates=None, vocabularies=vocabularies, features=features,
        arcs=weights, labels=[], label_weights=None, decoder=name, single_root=single_root,
        config="",
    )  # fmt: skip
    batch = Encoder(vocabularies).encode(treebank)
    found = model.search(batch)
    arcs = arc_scores(batch, plan.arcs, features, weights)
    siblings = sibling_scores(batch, plan.siblings, features, weights) if plan.siblings else None
    scored = (templates, batch, plan, features, weights, arcs, siblings)
    certified = 0
    for b, (start, n) in enumerate(zip(batch.starts.tolist(), batch.lengths.tolist(), strict=True)):
        trees = all_trees(n, decoder.is_projective, single_root).tolist()
        best = max(value_of(tree, b, *scored) for tree in trees)
        tree = [-1, *found.heads[start + 1 : start + n + 1].tolist()]
        assert tree in trees
        value = value_of(tree, b, *scored)
        if name != "dual_decomposition" or found.notes.by_place[0, start]:
            assert value == best
            certified += 1
        assert value <= best
    assert certified >= len(batch) - 1


def test_larger_parts_take_no_distance_and_no_exact_map():
    with pytest.raises(ConfigError, match="takes no distance"):
        parse_template("g.pos m.pos distance", PARTS["grandparent"])
    _, vocabularies, plan, _ = prepared(template_set(), 1 << 12)
    with pytest.raises(ConfigError, match="by hash alone"):
        check_exact_keys(plan, vocabularies)
