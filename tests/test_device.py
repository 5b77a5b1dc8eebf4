"""Parsing on a device: in little memory, without any, and sentences that are too long."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch

from gpuparse.data.batch import Encoded
from gpuparse.errors import ConfigError, ScoreError
from gpuparse.inference.decoders import DECODERS
from gpuparse.model.confidence import find_k_best_trees, parse_with_confidence
from gpuparse.model.engines import admission
from gpuparse.model.engines.admission import CHAIN, LOWER, OWN, Admission, permitted_orders
from gpuparse.model.engines.dense import Dense
from gpuparse.model.engines.fused import Fused
from gpuparse.model.engines.searcher import BestTrees
from gpuparse.model.parser import Parser
from gpuparse.scorers.scorer import cells_of as scorer_cells
from gpuparse.scorers.sizes import PartSize, sentence_cells
from tests import test_higher_order_models
from tests.dense_scorer import dense_parser
from tests.learning.test_guides import OPTIONS, SECOND_ORDER, guides_of
from tests.learning.test_guides import TEMPLATES as FIRST_ORDER
from tests.learning.test_guides import trained as guided
from tests.runs import changed
from tests.samples import random_sentences, treebank_of
from tests.test_model import KINDS, by_sentence, every_place, of_kind, same, trained

TEMPLATES = {"eisner": FIRST_ORDER, "eisner_sibling": SECOND_ORDER}
LENGTHS = (1, 2, 3, 5, 8, 12)
SENTENCES = [random_sentences(n, 1, n)[0] for n in LENGTHS] + random_sentences(60, 6, 7)
TEST = treebank_of(SENTENCES)


@pytest.fixture(params=KINDS)
def model(request: pytest.FixtureRequest) -> Parser:
    return replace(of_kind(request.param))


@every_place
@pytest.mark.parametrize("decoder", ["eisner", "eisner_sibling"])
def test_guides_and_known_heads(device: str, engine: str, decoder: str) -> None:
    training = random_sentences(50, 20, 6)
    options = changed(OPTIONS, decoder=decoder, epochs=2)
    model = guided(options, guides_of(training), training, TEMPLATES[decoder]).model(16)
    guides = guides_of(SENTENCES)
    bare = model.parse(TEST, guides=guides)
    known = np.where(np.arange(len(guides)) % 3 == 0, bare.heads, -1)
    known[0] = 0
    for given in (None, known):
        expected = model.parse(TEST, guides=guides, known=given)
        found = model.parse(TEST, guides=guides, known=given, device=device, engine=engine)
        assert same(found, expected)


def test_kernels_need_a_gpu_or_the_interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    with pytest.raises(ScoreError, match="reads tensors on a CUDA device"):
        trained().parse(TEST, engine="triton")


class Scarce:
    """Lets batches of more than a number of cells run out of memory."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, most: int) -> None:
        self.batches: list[tuple[int, int]] = []  # sentences and cells of those that went through
        self.refused = 0
        score = Dense._scored

        def scarce(engine: Dense, sent, batch, known):
            longest = batch.lengths.max(keepdims=True)
            cells = len(batch) * int(scorer_cells(engine._scorers, longest)[0])
            if cells > most:
                self.refused += 1
                raise torch.OutOfMemoryError("no room")
            self.batches.append((len(batch), cells))
            return score(engine, sent, batch, known)

        monkeypatch.setattr(Dense, "_scored", scarce)


def test_case_31_without_memory_the_budget_is_halved(
    model: Parser, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = model.parse(TEST)
    of_longest = cells_of(model, max(LENGTHS))
    scarce = Scarce(monkeypatch, 3 * of_longest)
    assert same(model.parse(TEST, engine="torch"), expected)
    assert scarce.refused > 0
    assert sum(sentences for sentences, _ in scarce.batches) == len(SENTENCES)
    assert max(cells for _, cells in scarce.batches) > of_longest
    # What was learned of the device is not forgotten.
    scarce.refused = 0
    assert same(model.parse(TEST, engine="torch"), expected)
    assert scarce.refused == 0


def test_case_31_a_sentence_that_no_device_has_memory_for_is_parsed_in_main_memory(
    model: Parser, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = model.parse(TEST)
    scarce = Scarce(monkeypatch, cells_of(model, 7))
    assert same(model.parse(TEST, engine="torch"), expected)
    too_long = sum(len(sentence) > 7 for sentence in SENTENCES)
    assert too_long > 0
    assert sum(sentences for sentences, _ in scarce.batches) == len(SENTENCES) - too_long


def test_case_31_as_are_the_trees_of_one_with_several(monkeypatch: pytest.MonkeyPatch) -> None:
    model = of_kind("second order")
    expected = find_k_best_trees(model, TEST, 3, probabilities=True)
    Scarce(monkeypatch, cells_of(model, 7))
    found = find_k_best_trees(model, TEST, 3, probabilities=True, engine="torch")
    assert np.array_equal(found.heads, expected.heads)
    assert np.array_equal(found.scores, expected.scores)
    np.testing.assert_allclose(found.probabilities, expected.probabilities, rtol=1e-9)


def test_case_31_or_whose_sums_do_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    model = of_kind("second order")
    expected = find_k_best_trees(model, TEST, 3, probabilities=True)
    monkeypatch.setattr(model.searcher("cpu", "torch"), "budget", 4 * 8**3)
    there: list[int] = []
    find = Fused.k_best

    def host(self: Fused, batch: Encoded, *more) -> BestTrees:
        there.extend(batch.lengths.tolist())
        return find(self, batch, *more)

    monkeypatch.setattr(Fused, "k_best", host)
    found = find_k_best_trees(model, TEST, 3, probabilities=True, engine="torch")
    assert sorted(there) == sorted(len(each) for each in SENTENCES if len(each) > 7)
    assert np.array_equal(found.heads, expected.heads)
    assert np.array_equal(found.scores, expected.scores)


def test_case_31_without_memory_for_any_sentence_all_are_parsed_in_main_memory(
    model: Parser, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = model.parse(TEST)
    parser = model.searcher("cpu", "torch")
    budget, refused = parser.budget, 0

    def without_room(*_: object, **__: object) -> None:
        nonlocal refused
        refused += 1
        raise torch.OutOfMemoryError("no room")

    monkeypatch.setattr(torch, "full", without_room)
    assert same(model.parse(TEST, engine="torch"), expected)
    assert refused == 1
    assert parser.budget == budget  # how many sentences it has room for is another matter


def test_other_errors_are_not_taken_for_want_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("something else")

    monkeypatch.setattr(Dense, "_scored", broken)
    with pytest.raises(RuntimeError, match="something else"):
        trained().parse(TEST, engine="torch")


@pytest.mark.parametrize("batch_size", [1, 4, 100])
@pytest.mark.parametrize("budget", [1, 5_000, 1 << 20])
def test_batches_are_admitted_by_their_cells(batch_size: int, budget: int) -> None:
    lengths = np.array([3, 9, 1, 30, 30, 12, 5, 5, 0, 2])
    batches = [
        part
        for part, _ in Admission(
            lengths, batch_size, budget, sentence_cells(lengths, PartSize(3))
        ).run(len)
    ]
    assert sorted(np.concatenate(batches).tolist()) == list(range(len(lengths)))
    for part in batches:
        assert len(part) <= batch_size
        cells = sentence_cells(lengths[part], PartSize(3))
        assert len(part) == 1 or len(part) * cells.max() <= budget
    if batch_size == 100 and budget == 1 << 20:
        assert len(batches) == 1


def test_a_batch_size_that_is_none() -> None:
    with pytest.raises(ConfigError, match="batch_size is 0"):
        Admission(np.array([1]), 0, 1, np.array([8]))


def test_cells_are_those_of_the_tensors() -> None:
    assert sentence_cells(np.array([0, 9]), PartSize(2)).tolist() == [8, 800]
    assert sentence_cells(np.array([0, 9]), PartSize(3)).tolist() == [9, 1800]
    # No overflow, however long the sentence.
    assert sentence_cells(np.array([1_000_000]), PartSize(3))[0] > 10**18


def test_orders_go_by_length_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    lengths = np.array([0, 5, 6, 17, 18, 400])
    with_siblings = sentence_cells(lengths, PartSize(3))
    assert not permitted_orders(lengths, with_siblings).any()
    monkeypatch.setattr(admission, "MAX_CELLS", int(with_siblings[1]))
    orders = permitted_orders(lengths, with_siblings)
    assert orders[:3].tolist() == [OWN, OWN, LOWER]
    assert orders[-1] == CHAIN
    assert (np.diff(orders) >= 0).all()
    first = permitted_orders(lengths, sentence_cells(lengths, PartSize(2)))
    assert set(first.tolist()) == {OWN, CHAIN}
    assert (first == CHAIN).tolist() == (orders == CHAIN).tolist()


# Of the first order, of siblings, of more, of graphs; scored by templates, vectors and tensors.
LONG: dict[str, Callable[[], Parser]] = {
    **{kind: partial(of_kind, kind) for kind in KINDS},
    **{
        f"tensors, {name}": partial(dense_parser, name)
        for name in ("eisner", "eisner_sibling", "eisner_grand_sibling", "multi_parent")
    },
    **{
        f"third order, {name}": partial(test_higher_order_models.trained, name)
        for name in ("eisner_grand_sibling", "dual_decomposition")
    },
}


@every_place
@pytest.mark.parametrize("kind", LONG)
def test_long_sentences_fall_back_to_the_first_order_or_to_chains(
    kind: str, device: str, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = LONG[kind]()
    mine, lower = DECODERS[model.decoder], model.lower_order()
    assert lower.search_decoder == mine.of_arcs
    assert DECODERS[mine.of_arcs].is_projective == mine.is_projective
    assert not DECODERS[mine.of_arcs].parts
    assert not model.has_templates or lower.linear.plan.siblings is None
    whole, of_lower = model.parse(TEST), lower.parse(TEST)
    is_native = mine.is_higher_order  # and nothing else
    place = {} if is_native else {"device": device, "engine": engine}
    most = cells_of(model, 7)
    monkeypatch.setattr(admission, "MAX_CELLS", most)
    found = model.parse(TEST, **place)
    assert same(found, model.parse(TEST))
    lengths = np.array([len(words) for words in SENTENCES])
    of_arcs = sentence_cells(lengths, PartSize(2))
    expected = np.where(lengths <= 7, OWN, np.where(of_arcs <= most, LOWER, CHAIN))
    assert found.orders.tolist() == expected.tolist()
    assert set(expected.tolist()) >= {OWN, LOWER if mine.parts else CHAIN}
    parses = map(by_sentence, (found.heads, whole.heads, of_lower.heads), [SENTENCES] * 3)
    for order, heads, own, below in zip(expected, *parses, strict=True):
        assert heads == {OWN: own, LOWER: below, CHAIN: list(range(len(heads)))}[order]
    if found.graphs is not None:  # one head each, and its relation
        long = np.repeat(expected != OWN, lengths)
        assert (np.diff(found.graphs.starts)[long] == 1).all()
        assert np.array_equal(found.graphs.heads[found.graphs.starts[:-1][long]], found.heads[long])
    assert found.certified is None or not found.certified[expected != OWN].any()
    monkeypatch.setattr(admission, "MAX_CELLS", 1)
    chains = model.parse(TEST, **place)
    assert (chains.orders == CHAIN).all()
    assert by_sentence(chains.heads, SENTENCES) == [list(range(n)) for n in lengths]
    for each in () if model.labels_with_trees or not model.labels else (found, chains):
        assert (each.labels >= 0).all()
        assert len(set(each.labels.tolist())) > 1  # the best ones of these arcs


def cells_of(model: Parser, n: int) -> int:
    """The cells of a sentence of n words."""
    return int(scorer_cells(model.scorers, np.array([n]))[0])


def test_no_sentence_is_too_long_for_probabilities_and_several_trees(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = of_kind("second order")
    own, below = (
        parse_with_confidence(each, TEST, probabilities=True).head_probabilities
        for each in (model, model.lower_order())
    )
    k_own, k_below = (
        find_k_best_trees(each, TEST, 3, probabilities=True)
        for each in (model, model.lower_order())
    )
    monkeypatch.setattr(admission, "MAX_CELLS", cells_of(model, 7))
    found = parse_with_confidence(model, TEST, probabilities=True)
    several = find_k_best_trees(model, TEST, 3, probabilities=True)
    assert np.array_equal(found.heads, model.parse(TEST).heads)
    is_lower = np.repeat(found.orders == LOWER, [len(sentence) for sentence in SENTENCES])
    assert 0 < is_lower.sum() < len(is_lower)
    assert np.array_equal(found.head_probabilities, np.where(is_lower, below, own))
    assert np.array_equal(several.heads[0], found.heads)
    assert np.array_equal(several.orders, found.orders)
    assert np.array_equal(several.heads, np.where(is_lower, k_below.heads, k_own.heads))
    assert np.array_equal(
        several.probabilities,
        np.where(found.orders == LOWER, k_below.probabilities, k_own.probabilities),
    )


def test_words_in_a_chain_have_no_chances(monkeypatch: pytest.MonkeyPatch) -> None:
    model = of_kind("first order")
    monkeypatch.setattr(admission, "MAX_CELLS", cells_of(model, 7))
    found = parse_with_confidence(model, TEST, probabilities=True)
    several = find_k_best_trees(model, TEST, 2, probabilities=True)
    long = np.repeat(found.orders == CHAIN, [len(sentence) for sentence in SENTENCES])
    assert long.any()
    assert (found.head_probabilities[long] == 0).all()
    assert np.array_equal(several.heads[0], found.heads)
    assert (several.heads[1][long] == -1).all()
    assert (several.probabilities[:, found.orders == CHAIN] == 0).all()
    assert (several.probabilities[0, found.orders == OWN] > 0).all()


def test_known_heads_of_a_chain_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, "MAX_CELLS", 1)
    sentence = random_sentences(12, 1, 12)
    known = np.full(len(sentence[0]), -1)
    known[1] = 3
    found = of_kind("first order").parse(treebank_of(sentence), known=known)
    assert found.heads.tolist() == [0, 3, *[0] * (len(known) - 2)]
