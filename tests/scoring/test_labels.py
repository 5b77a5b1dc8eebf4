"""Labels of arcs of trees and graphs: the lines that templates see, and the best label of each."""

import random
from collections import Counter, defaultdict

import numpy as np
import pytest
import torch

from gpuparse.data.batch import Batch
from gpuparse.data.vocabulary import Encoder, Vocabularies
from gpuparse.features.plan import LabelPlan, compile_labels
from gpuparse.features.templates import load_templates, parse_set
from gpuparse.scorers.linear.weights import Weights
from gpuparse.scorers.native import GraphHeads
from tests.graphs_by_place import Graph, by_place, random_graph
from tests.labels import best_graph_labels, best_labels, label_by_place
from tests.oracles.arc_features import known_values
from tests.oracles.label_features import label_features
from tests.rows import lines_of_arcs
from tests.samples import random_sentences, row, template_set_text, treebank_of

EVERY_ROLE = [
    "h.pos m.pos direction", "m.form", "g.pos h.pos m.pos", "p.form m.pos", "q.lemma",
    "l.pos r.pos", "l-1.pos", "r+1.form direction distance", "p.pos q.pos distance", "o.pos m.pos",
    "h.pos o.pos", "o.form direction", "g-1.cpos o+2.lemma", "q+3.form", "o-1.pos p.pos",
    "g+2.cpos g-1.lemma", "h.feats.Case m.feats.Case", "distance", "m-3.form",
]  # fmt: skip
LABELLED = parse_set(template_set_text(label=EVERY_ROLE), "labelled")
SENTENCES = random_sentences(43, 14, 9, projective=False)
GRAPHS = [random_graph(random.Random(seed), s) for seed, s in enumerate(SENTENCES)]
TRAIN = SENTENCES[:7]


def prepared(name: str = "") -> tuple[Batch, LabelPlan]:
    templates = load_templates(name) if name else LABELLED
    vocabularies = Vocabularies.build(treebank_of(TRAIN), templates.fields("label"), 3)
    plan = compile_labels(templates, vocabularies)
    return Encoder(vocabularies).encode(treebank_of(SENTENCES)), plan


def padded(graphs: list[Graph]) -> tuple[torch.Tensor, torch.Tensor]:
    """Primary heads (B, N) and arcs (B, N, N)."""
    n = 1 + max(len(graph.heads) for graph in graphs)
    heads, arcs = torch.full((len(graphs), n), -1), torch.zeros(len(graphs), n, n, dtype=torch.bool)
    for b, graph in enumerate(graphs):
        heads[b, 1 : len(graph.heads) + 1] = torch.tensor(graph.heads)
        for h, m in graph.arcs:
            arcs[b, h, m] = True
    return heads, arcs


def random_weights(seed: int, n_lines: int = 500, n_labels: int = 6) -> Weights:
    rng = np.random.default_rng(seed)
    return Weights(rng.integers(-99, 100, (n_lines, n_labels)).astype(np.int16))


def test_the_graphs_have_what_matters() -> None:
    further = [(h, m, g) for g in GRAPHS for h, m in g.arcs if g.heads[m - 1] != h]
    assert len(further) > 30
    assert any(h == 0 for h, _, _ in further)
    assert any(g.heads[m - 1] == 0 for _, m, g in further)
    assert max(Counter(m for _, m in g.arcs).most_common(1)[0][1] for g in GRAPHS) > 2


def test_arcs_share_lines_just_when_they_share_features() -> None:
    batch, plan = prepared()
    known = known_values(TRAIN, LABELLED.fields("label"), 3)
    by_line, by_name = defaultdict(set), defaultdict(set)
    for b, (sentence, graph) in enumerate(zip(SENTENCES, GRAPHS, strict=True)):
        found = lines_of_arcs(batch, b, np.array(graph.heads), graph.arcs, plan, 1 << 31)
        for (h, m), lines in zip(graph.arcs, found, strict=True):
            features = label_features(
                EVERY_ROLE, sentence, graph.heads, h, m, known, LABELLED.distance
            )
            for line, feature in zip(lines, features, strict=True):
                assert (line < 0) == (feature is None)
                if feature is not None:
                    by_line[line].add((b, h, m))
                    by_name[feature].add((b, h, m))
    assert Counter(map(frozenset, by_line.values())) == Counter(map(frozenset, by_name.values()))
    assert len(by_name) > 100


def test_o_tells_primary_from_further_arcs() -> None:
    sentence = [row(m, "w", h, cpos="N") for m, h in ((1, 0), (2, 1), (3, 1))]
    templates = parse_set(template_set_text(label=["m.pos o.pos", "m.pos"]), "o")
    vocabularies = Vocabularies.build(treebank_of([sentence]), ["pos"], 3)
    batch = Encoder(vocabularies).encode(treebank_of([sentence]))
    plan = compile_labels(templates, vocabularies)
    heads, arcs = np.array([0, 1, 1]), [(1, 2), (1, 3), (2, 3)]
    other, another, further = lines_of_arcs(batch, 0, heads, arcs, plan, 1 << 31)
    assert other[0] == another[0] != further[0]  # on primary arcs, o.pos is one value
    assert other[1] == another[1] == further[1]
    assert min(other + another + further) >= 0  # and silences none


@pytest.mark.parametrize("name", ["", "graph-labels"])
@pytest.mark.parametrize(("dtype", "spread"), [(np.int8, 127), (np.int16, 32767), (np.int8, 1)])
@pytest.mark.parametrize("n_lines", [1, 7, 4096])
@pytest.mark.parametrize("n_labels", [1, 2, 11])
def test_best_label_is_the_first_of_the_highest_that_may_be(
    name: str, dtype: type, spread: int, n_lines: int, n_labels: int
) -> None:
    batch, plan = prepared(name)
    rng = np.random.default_rng(n_lines)
    weights = Weights(rng.integers(-spread, spread + 1, (n_lines, n_labels)).astype(dtype))
    may_be_primary = rng.random(n_labels) < 0.5
    may_be_primary[-1] = True
    heads, arcs = padded(GRAPHS)
    expected, ties, refused = torch.full(arcs.shape, -1), 0, 0
    for b, graph in enumerate(GRAPHS):
        found = lines_of_arcs(batch, b, np.array(graph.heads), graph.arcs, plan, n_lines)
        for (h, m), lines in zip(graph.arcs, found, strict=True):
            sums = sum((weights.array[i].astype(int) for i in lines if i >= 0), np.zeros(n_labels))
            labels = range(n_labels)
            if graph.heads[m - 1] == h:
                labels = np.flatnonzero(may_be_primary).tolist()
                refused += not may_be_primary[sums.argmax()]
            expected[b, h, m] = max(labels, key=lambda label, sums=sums: (sums[label], -label))
            ties += (sums == sums.max()).sum() > 1
    before = heads.clone(), arcs.clone()
    for engine in ("native", "torch"):
        found = best_graph_labels(batch, heads, arcs, plan, weights, may_be_primary, engine=engine)
        assert torch.equal(found, expected)
    assert torch.equal(heads, before[0])
    assert torch.equal(arcs, before[1])
    if n_labels == 11 and n_lines > 1:
        assert refused > 0
        assert ties > 0 or spread > 1


@pytest.mark.parametrize("engine", ["native", "torch"])
@pytest.mark.parametrize("dtype", [np.int16, np.float32])
@pytest.mark.parametrize("name", ["", "graph-labels", "labels"])
def test_trees_are_labelled_as_graphs_of_primary_arcs(name: str, dtype: type, engine: str) -> None:
    """Small whole numbers as floats are not rounded, so their labels are the same."""
    batch, plan = prepared(name)
    heads, _ = padded(GRAPHS)
    weights = Weights(random_weights(1).array.astype(dtype))
    tree, before = heads.unsqueeze(1) == torch.arange(heads.shape[1]).unsqueeze(1), heads.clone()
    everything = np.ones(6, bool)
    expected = best_graph_labels(batch, heads, tree, plan, random_weights(1), everything)
    b, m = (heads >= 0).nonzero(as_tuple=True)
    found = torch.full(tree.shape, -1)
    found[b, heads[b, m], m] = best_labels(batch, heads, plan, weights, engine=engine)[b, m]
    assert torch.equal(found, expected)
    assert torch.equal(heads, before)
    assert len(found.unique()) > 4


def test_further_arcs_change_no_label_of_a_primary_one() -> None:
    batch, plan = prepared("graph-labels")
    heads, arcs = padded(GRAPHS)
    weights, may_be_primary = random_weights(2), np.array([False, True, True, False, True, True])
    primary = heads.unsqueeze(1) == torch.arange(heads.shape[1]).unsqueeze(1)
    whole, tree = (
        best_graph_labels(batch, heads, some, plan, weights, may_be_primary)
        for some in (arcs, primary)
    )
    assert torch.equal(whole[primary], tree[primary])
    assert may_be_primary[whole[primary]].all()
    assert not may_be_primary[whole[arcs & ~primary]].all()


def test_batch_mates_padding_and_order_change_nothing() -> None:
    batch, plan = prepared()
    heads, arcs = padded(GRAPHS)
    weights, everything = random_weights(3), np.ones(6, bool)
    together = best_graph_labels(batch, heads, arcs, plan, weights, everything)
    order = np.random.default_rng(1).permutation(len(batch))
    for engine in ("native", "torch"):
        shuffled = best_graph_labels(
            batch.select(order), heads[order], arcs[order], plan, weights, everything,
            engine=engine,
        )  # fmt: skip
        assert torch.equal(shuffled, together[order])
        for b, n in enumerate(batch.lengths.tolist()):
            alone = batch.select(np.array([b]))
            part = heads[b : b + 1, : n + 1], arcs[b : b + 1, : n + 1, : n + 1]
            found = best_graph_labels(alone, *part, plan, weights, everything, engine=engine)
            assert torch.equal(found[0], together[b, : n + 1, : n + 1])
            of_tree = best_labels(alone, part[0], plan, weights, engine=engine)[0, 1:]
            primary = part[0][0, 1:]
            assert torch.equal(of_tree, found[0][primary, torch.arange(1, n + 1)])


def test_by_place_only_the_arcs_of_the_batch_are_labelled() -> None:
    batch, plan = prepared()
    heads, arcs = padded(GRAPHS)
    weights, everything = random_weights(4), np.ones(6, bool)
    expected = best_graph_labels(batch, heads, arcs, plan, weights, everything)
    trees, arc_starts, arc_heads, _ = by_place(batch, GRAPHS)
    labels = np.full(len(arc_heads), -7, np.int64)
    some = np.array([5, 2, 9])
    graphs = GraphHeads(arc_starts, arc_heads, everything)
    label_by_place(batch.select(some), trees, graphs, plan, weights, labels)
    flat = [(b, h, m) for b, graph in enumerate(GRAPHS) for h, m in graph.arcs]
    for label, (b, h, m) in zip(labels.tolist(), flat, strict=True):
        assert label == (int(expected[b, h, m]) if b in some.tolist() else -7)
