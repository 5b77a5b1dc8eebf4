"""Models that find graphs: what they find, however it is made, and folders that are refused."""

import hashlib
import json
import random
from pathlib import Path

import numpy as np
import pytest

from gpuparse.data.conll import treebank_from_bytes
from gpuparse.data.graphs import Graphs, read_graphs
from gpuparse.features.templates import load_templates
from gpuparse.jobs.gold import written
from gpuparse.model.folder import VOCABULARY, load_parser, save_parser
from gpuparse.model.parser import UNLABELLED, Parser, Predictions
from tests.graphs_by_place import acyclic_graph, with_deps
from tests.hostile_files import facts_of, rewrite
from tests.oracles import brute_force
from tests.oracles.graphs import is_acyclic
from tests.samples import random_sentences, row, treebank_of
from tests.test_model import refused, trained

SENTENCES = random_sentences(101, 30, 14)
TEST = treebank_of(SENTENCES)
KINDS = {
    "hashed": {"labels": True},
    "one root": {"labels": True, "single_root": True},
    "heads only": {"labels": False},
}


@pytest.fixture(scope="module", params=KINDS)
def model(request: pytest.FixtureRequest) -> Parser:
    return trained(decoder="multi_parent", epochs=1, **KINDS[request.param])


def by_sentence(graphs: Graphs) -> list[np.ndarray]:
    """The graphs of SENTENCES as matrices (N, N)."""
    matrices, first = [], 0
    for sentence in SENTENCES:
        n = len(sentence)
        arcs = np.zeros((n + 1, n + 1), bool)
        for m in range(1, n + 1):
            w = first + m - 1
            arcs[graphs.heads[graphs.starts[w] : graphs.starts[w + 1]], m] = True
        matrices.append(arcs)
        first += n
    return matrices


def same(one: Predictions, two: Predictions) -> bool:
    assert one.graphs is not None
    assert two.graphs is not None
    return (
        np.array_equal(one.heads, two.heads)
        and (one.labels is two.labels is None or np.array_equal(one.labels, two.labels))
        and np.array_equal(one.graphs.starts, two.graphs.starts)
        and np.array_equal(one.graphs.heads, two.graphs.heads)
        and np.array_equal(one.graphs.relations, two.graphs.relations)
        and one.graphs.names == two.graphs.names
    )


def test_every_graph_is_acyclic_and_every_word_has_a_head_in_the_primary_tree(
    model: Parser,
) -> None:
    found, first, several = model.parse(TEST), 0, 0
    assert found.graphs is not None
    assert found.graphs.n_words == TEST.n_words
    for arcs in by_sentence(found.graphs):
        n = len(arcs) - 1
        heads = found.heads[first : first + n]
        first += n
        assert is_acyclic(arcs)
        assert arcs[:, 1:].any(axis=0).all()
        assert arcs[heads, np.arange(1, n + 1)].all()
        for m in range(1, n + 1):  # the nearest one, the left one of two
            assert heads[m - 1] == min(np.flatnonzero(arcs[:, m]), key=lambda h: (abs(h - m), h))
        assert brute_force.is_tree(tuple(heads.tolist()))
        several += (arcs.sum(axis=0) > 1).sum()
        assert not model.single_root or arcs[0].sum() == 1
    assert several > 10


def test_heads_of_a_word_ascend_and_have_relations_that_may_stand_there(model: Parser) -> None:
    found = model.parse(TEST)
    graphs = found.graphs
    assert graphs is not None
    ends = np.repeat(graphs.starts[1:], np.diff(graphs.starts))
    inside = np.arange(1, len(graphs.heads) + 1) < ends
    assert (np.diff(graphs.heads)[inside[:-1]] > 0).all()
    if found.labels is None:
        assert graphs.names == [UNLABELLED]
        assert set(graphs.relations.tolist()) == {0}
        return
    assert model.primary is not None
    assert graphs.names == model.labels
    is_primary = graphs.heads == found.heads[graphs.modifiers()]
    assert is_primary.sum() == len(found.heads)
    assert np.array_equal(graphs.relations[is_primary], found.labels)
    assert all(model.primary[i] is not None for i in found.labels)
    assert any(model.primary[i] is None for i in graphs.relations[~is_primary])


def test_parses_do_not_depend_on_how_they_are_made(model: Parser) -> None:
    expected = model.parse(TEST, batch_size=1)
    for batch_size in (2, 64, 1000):
        for threads, backend in ((1, "auto"), (1, "torch"), (2, "cpu"), (5, "auto")):
            found = model.parse(TEST, batch_size=batch_size, threads=threads, backend=backend)
            assert same(found, expected)


def test_parses_do_not_depend_on_the_other_sentences_or_on_their_gold_graphs(
    model: Parser,
) -> None:
    together = model.parse(TEST)
    assert together.graphs is not None
    matrices, first = by_sentence(together.graphs), 0
    for sentence, arcs in zip(SENTENCES, matrices, strict=True):
        gold = with_deps(sentence, acyclic_graph(random.Random(1), sentence))
        alone = model.parse(treebank_of([gold]))
        assert alone.graphs is not None
        n = len(sentence)
        assert np.array_equal(alone.heads, together.heads[first : first + n])
        found = np.zeros_like(arcs)
        found[alone.graphs.heads, alone.graphs.modifiers() + 1] = True
        assert np.array_equal(found, arcs)
        first += n


def test_save_and_load_lose_nothing(model: Parser, tmp_path: Path) -> None:
    save_parser(model, tmp_path)
    again = load_parser(tmp_path)
    assert again.primary == model.primary
    assert (model.primary is None) == (model.linear.label_weights is None)
    assert same(again.parse(TEST), model.parse(TEST))


@pytest.mark.parametrize("backend", ["cpu", "torch"])
def test_no_sentences_and_unknown_words(model: Parser, backend: str) -> None:
    nothing = model.parse(treebank_of([]), backend=backend)
    assert nothing.graphs is not None
    assert nothing.heads.tolist() == nothing.graphs.heads.tolist() == []
    assert nothing.graphs.starts.tolist() == [0]
    words = [row(m, f"neu{m}", "_", "neu", lemma="neu", cpos="NEU") for m in range(1, 8)]
    found = model.parse(treebank_of([words, words[:1]]), backend=backend)
    assert found.graphs is not None
    assert found.graphs.n_words == 8
    assert found.heads[7] == 0
    assert brute_force.is_tree(tuple(found.heads[:7].tolist()))


def test_tree_models_find_no_graphs() -> None:
    found = trained(decoder="hill_climb", epochs=1).parse(TEST)
    assert found.graphs is None


@pytest.fixture(scope="module")
def graph_model() -> Parser:
    return trained(decoder="multi_parent", epochs=1, label_templates=load_templates("graph-labels"))


def spoilt(folder: Path, model: Parser, change: dict) -> None:
    """Save a model, change what vocabulary.json says, and make the sums right again."""
    save_parser(model, folder)
    words = json.loads((folder / VOCABULARY).read_text(encoding="utf-8"))
    words = {name: value for name, value in (words | change).items() if value != "absent"}
    text = json.dumps(words)
    (folder / VOCABULARY).write_text(text, encoding="utf-8")
    facts, tensors = facts_of(folder)
    facts["texts"][VOCABULARY] = hashlib.sha256(text.encode()).hexdigest()
    rewrite(folder, facts, tensors)


def test_a_change_of_nothing_would_be_accepted(graph_model: Parser, tmp_path: Path) -> None:
    spoilt(tmp_path, graph_model, {"primary": graph_model.primary})
    assert same(load_parser(tmp_path).parse(TEST), graph_model.parse(TEST))


@pytest.mark.parametrize(
    "primary",
    [
        "absent", None, [], ["dep"], "dep", 7, {"dep": 1}, "none of them", "a number", "a tab",
        "one too many", "a surrogate",
    ],
    ids=str,
)  # fmt: skip
def test_primary_relations_that_are_missing_or_wrong_are_refused(
    graph_model: Parser, tmp_path: Path, primary: object
) -> None:
    known = graph_model.primary
    assert known is not None
    assert len(known) > 2
    changed = {
        "none of them": [None] * len(known),
        "a number": [3, *known[1:]],
        "a tab": ["a\tb", *known[1:]],
        "one too many": [*known, "dep"],
        "a surrogate": ["\ud800", *known[1:]],
    }
    value = changed.get(primary, primary) if isinstance(primary, str) else primary
    spoilt(tmp_path, graph_model, {"primary": value})
    assert "primary" in refused(tmp_path)


def test_tree_models_with_primary_relations_are_refused(tmp_path: Path) -> None:
    model = trained(decoder="eisner_sibling", epochs=1)
    spoilt(tmp_path, model, {"primary": model.labels})
    assert "primary" in refused(tmp_path)


@pytest.mark.parametrize(
    ("decoder", "other"),
    [
        ("multi_parent", "eisner"),
        ("multi_parent", "hill_climb"),
        ("hill_climb", "multi_parent"),
        ("eisner_sibling", "chu_liu_edmonds"),
        ("eisner", "eisner_sibling"),
        ("chu_liu_edmonds", "hill_climb"),
    ],
)
def test_another_kind_of_decoder_than_the_parts_are_for_is_refused(
    tmp_path: Path, decoder: str, other: str
) -> None:
    """Swapped in the facts, with the right sums."""
    save_parser(trained(decoder=decoder, epochs=1), tmp_path)
    facts, tensors = facts_of(tmp_path)
    rewrite(tmp_path, facts | {"decoder": other}, tensors)
    refused(tmp_path)


def test_what_is_parsed_can_be_written_and_read(graph_model: Parser) -> None:
    found = graph_model.parse(TEST)
    text = written(graph_model, TEST, found)
    again = read_graphs(treebank_from_bytes(text, "again"))
    assert found.graphs is not None
    assert np.array_equal(again.heads, found.graphs.heads)
    assert np.array_equal(again.starts, found.graphs.starts)
    assert [again.names[i] for i in again.relations] == [
        found.graphs.names[i] for i in found.graphs.relations
    ]
