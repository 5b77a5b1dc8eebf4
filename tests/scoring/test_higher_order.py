"""Parts of three and four words: listed rows, torch, and whole models against every tree."""

from itertools import product

import numpy as np
import pytest
import torch

from gpuparse.data.parts import HIGHER_ORDER
from gpuparse.data.trees import is_projective
from gpuparse.data.vocabulary import Encoder, Vocabularies
from gpuparse.errors import ConfigError
from gpuparse.features.plan import compile_plan
from gpuparse.features.templates import PARTS, parse_set, parse_template
from gpuparse.inference.decoders import DECODERS
from gpuparse.model.engines.searcher import Scales
from gpuparse.model.parser import Parser
from gpuparse.scorers.linear.part_rows import listed_number
from gpuparse.scorers.linear.scorer import LinearScorer
from gpuparse.scorers.linear.weights import Weights, hashed_map
from tests.oracles.arc_features import known_values
from tests.oracles.brute_force import all_trees
from tests.oracles.higher_order_features import higher_order_features
from tests.oracles.higher_order_parts import higher_order_parts_of
from tests.oracles.higher_order_scores import higher_rows, higher_scores
from tests.oracles.tree_parts import parts_of
from tests.rows import rows_of_parts
from tests.samples import random_sentences, treebank_of
from tests.scoring.forms import arc_scores, sibling_scores

TEMPLATES = {
    "grandparent": ["g.pos h.pos m.pos", "g.form m.pos", "h.pos m.pos m+1.pos direction"],
    "grand_sibling": ["g.pos h.pos s.pos m.pos direction", "s.form m.form", "g.pos s+1.pos m.pos"],
    "tri_sibling": ["h.pos t.pos s.pos m.pos direction", "t.form m.pos", "t-1.pos s.pos"],
    "head_child": ["h.pos m.pos c.pos direction", "h.form c.form"],
    "inner_grandchild": ["h.pos m.pos c.pos direction", "m.form c.form"],
    "outer_grandchild": ["h.pos m.pos c.pos direction", "h.pos c+1.form"],
}
HIGHER_PARTS = [kind.name for kind in HIGHER_ORDER]
ROWS = [1 << 12, 10_007]
SENTENCES = random_sentences(21, 5, 5) + random_sentences(22, 3, 1)


def template_set(parts=HIGHER_PARTS, siblings=True):
    lines = ["name: test", "distance: [1, 3]", "arc:", "  - templates: [h.pos m.pos direction]"]
    if siblings:
        lines += ["sibling:", "  - templates: [h.pos s.pos m.pos, s.form m.pos direction]"]
        lines += ["end:", "  - templates: [h.pos e.pos direction]"]
    for part in parts:
        lines.append(f"{part}:\n  - templates:")
        lines += [f"      - {text}" for text in TEMPLATES[part]]
    return parse_set("\n".join(lines), "test")


def prepared(templates, rows, sentences=SENTENCES):
    fields = sorted({f for part in PARTS for f in templates.fields(part)})
    treebank = treebank_of(sentences)
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


def arcs_over(n):
    return [(h, m) for h in range(n + 1) for m in range(1, n + 1) if h != m]


# Where native code lists the words of a part besides h and m: third, fourth.
LISTED = {
    "grandparent": ("g", None), "grand_sibling": ("s", "g"), "tri_sibling": ("s", "t"),
    "head_child": ("c", None), "inner_grandchild": ("c", None), "outer_grandchild": ("c", None),
}  # fmt: skip


@pytest.mark.parametrize("rows", ROWS)
def test_rows_in_torch_are_the_native_ones(rows):
    treebank, vocabularies, plan, features = prepared(template_set(), rows)
    batch = Encoder(vocabularies).encode(treebank)
    for b in range(len(batch)):
        for kind in HIGHER_PARTS:
            parts = list(parts_over(kind, int(batch.lengths[b])))[::7]
            if not parts:
                continue
            at = torch.tensor([(b, *words) for words in parts])
            lines = higher_rows(kind, at, batch, plan.higher, features, -1).tolist()
            listed = []
            for words in parts:
                of_role = dict(zip(PARTS[kind], words, strict=True)) | {None: 0}
                third, fourth = (of_role[role] for role in LISTED[kind])
                number = listed_number(kind)
                listed.append((number, of_role["h"], of_role["m"], third, fourth, 0))
            found = rows_of_parts(batch, b, plan, features, listed)
            assert found == [[row for row in line if row >= 0] for line in lines]


def test_a_feature_has_a_row_of_its_own_and_the_same_one_wherever_it_fires():
    # A table so large that what is told apart has different rows, but for a very small chance.
    treebank, vocabularies, plan, features = prepared(template_set(), 1 << 30)
    batch = Encoder(vocabularies).encode(treebank)
    known = known_values(SENTENCES, vocabularies.fields, 3)
    row_of, feature_of = {}, {}
    for kind in HIGHER_PARTS:
        for b, sentence in enumerate(SENTENCES):
            parts = list(parts_over(kind, len(sentence)))[::3]
            if not parts:
                continue
            at = torch.tensor([(b, *words) for words in parts])
            rows = higher_rows(kind, at, batch, plan.higher, features, -1)
            for words, line in zip(parts, rows.tolist(), strict=True):
                expected = higher_order_features(kind, TEMPLATES[kind], sentence, words, known)
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


def scores_of_parts(templates, batch, plan, features, weights):
    """The score of every part, by kind and (b, words)."""
    found = {}
    arcs = arc_scores(batch, plan.arcs, features, weights)
    of_arcs = [(b, h, m) for b, n in enumerate(batch.lengths.tolist()) for h, m in arcs_over(n)]
    found["arc"] = {part: float(arcs[part]) for part in of_arcs}
    if plan.siblings:
        two, ends = sibling_scores(batch, plan.siblings, features, weights)
        found["sibling"] = {
            (b, h, m, s): float(two[b, h, m, s])
            for b, h, m in of_arcs
            for s in range(int(batch.lengths[b]) + 1)
        }
        found["end"] = {part: float(ends[part]) for part in of_arcs}
    for kind in HIGHER_PARTS:
        if getattr(templates, kind):
            parts = [
                (b, *words)
                for b, n in enumerate(batch.lengths.tolist())
                for words in parts_over(kind, n)
            ]
            scores = higher_scores(
                kind, torch.tensor(parts), batch, plan.higher, features, weights
            )[:, 0]
            found[kind] = dict(zip(parts, scores.tolist(), strict=True))
    return found


def value_of(tree, b, scores):
    """The score of a tree of the sentence b; scores: of parts."""
    small = [kind for kind in ("arc", "sibling", "end") if kind in scores]
    total = sum(scores[kind][(b, *cell)] for kind in small for cell in parts_of(kind, tree))
    for kind, words, _, is_last in higher_order_parts_of(tree):
        only_last = "tri_sibling" in scores and kind in ("grandparent", "grand_sibling")
        if kind in scores and (is_last or not only_last):
            total += scores[kind][(b, *words)]
    return total


@pytest.mark.parametrize("single_root", [False, True], ids=["multi", "single"])
@pytest.mark.parametrize(
    "name", [name for name, decoder in DECODERS.items() if decoder.is_higher_order]
)
def test_a_model_finds_the_best_of_all_trees(name, single_root):
    decoder = DECODERS[name]
    parts = [part for part in HIGHER_PARTS if part in decoder.parts]
    templates = template_set(parts).only(decoder.parts)
    treebank, vocabularies, plan, features = prepared(templates, 1 << 12)
    weights = whole_weights(plan, features, 3)
    linear = LinearScorer(
        templates=templates, label_templates=None, vocabularies=vocabularies, features=features,
        arcs=weights, label_weights=None, decoder=name,
    )  # fmt: skip
    model = Parser(
        scorers=(linear,), labels=[], decoder=name, single_root=single_root, scales=Scales(),
        config="",
    )  # fmt: skip
    batch = Encoder(vocabularies).encode(treebank)
    found = model.search(batch)
    scores = scores_of_parts(templates, batch, plan, features, weights)
    certified = 0
    for b, (start, n) in enumerate(zip(batch.starts.tolist(), batch.lengths.tolist(), strict=True)):
        trees = all_trees(n, decoder.is_projective, single_root).tolist()
        best = max(value_of(tree, b, scores) for tree in trees)
        tree = [-1, *found.heads[start + 1 : start + n + 1].tolist()]
        assert tree in trees
        value = value_of(tree, b, scores)
        if name != "dual_decomposition" or found.certificates[0, start]:
            assert value == best
            certified += 1
        assert value <= best
    assert certified >= len(batch) - 1


@pytest.mark.parametrize("single_root", [False, True], ids=["multi", "single"])
@pytest.mark.parametrize("parts", [(), ("grandparent", "grand_sibling")], ids=["two", "three"])
def test_crossing_arcs_cost_min_gain(parts, single_root):
    templates = template_set(parts)
    treebank, vocabularies, plan, features = prepared(
        templates, 1 << 12, [s for s in random_sentences(23, 40, 5) if len(s) > 3]
    )
    weights = whole_weights(plan, features, 3)
    batch = Encoder(vocabularies).encode(treebank)
    scores = scores_of_parts(templates, batch, plan, features, weights)
    values = [
        {
            tuple(tree): value_of(tree, b, scores)
            for tree in all_trees(n, False, single_root).tolist()
        }
        for b, n in enumerate(batch.lengths.tolist())
    ]
    n_crossing = []
    for min_gain in (0.0, 40.0, 1e6):
        linear = LinearScorer(
            templates=templates, label_templates=None, vocabularies=vocabularies,
            features=features, arcs=weights, label_weights=None, decoder="dual_decomposition",
        )  # fmt: skip
        model = Parser(
            scorers=(linear,), labels=[], decoder="dual_decomposition", min_gain=min_gain,
            single_root=single_root, scales=Scales(), config="",
        )  # fmt: skip
        found = model.search(batch).heads
        n_crossing.append(0)
        for start, of_trees in zip(batch.starts.tolist(), values, strict=True):
            n = len(next(iter(of_trees))) - 1
            tree = (-1, *found[start + 1 : start + n + 1].tolist())
            worth = {
                tree: value if is_projective(tree[1:]) else value - min_gain
                for tree, value in of_trees.items()
            }
            assert worth[tree] == max(worth.values())
            n_crossing[-1] += not is_projective(tree[1:])
    assert n_crossing[0] > n_crossing[1] > n_crossing[2] == 0


def test_higher_order_parts_take_no_distance():
    with pytest.raises(ConfigError, match="has no distance"):
        parse_template("g.pos m.pos distance", "grandparent")
