"""Parsing on a device: the same trees on every backend, in little memory, and long sentences."""

import dataclasses

import numpy as np
import pytest
import torch

from gpuparse.errors import ConfigError, NoTreeError, ScoreError
from gpuparse.inference.decoders import DECODERS
from gpuparse.model.confidence import find_k_best_trees, parse_with_confidence
from gpuparse.model.decoder_choice import with_decoder
from gpuparse.model.engines import admission
from gpuparse.model.engines.admission import CHAIN, LOWER, OWN, Admission, permitted_orders
from gpuparse.model.engines.dense import Dense
from gpuparse.model.parser import Parser, Predictions
from gpuparse.scorers.sizes import PartSize, sentence_cells
from tests.inference.decoders import HAS_GPU
from tests.learning.test_guides import OPTIONS, SECOND_ORDER, guides_of
from tests.learning.test_guides import TEMPLATES as FIRST_ORDER
from tests.learning.test_guides import trained as guided
from tests.runs import changed
from tests.samples import random_sentences, treebank_of
from tests.test_confidence import JOINT
from tests.test_model import trained

TEMPLATES = {"eisner": FIRST_ORDER, "eisner_sibling": SECOND_ORDER}
LENGTHS = (1, 2, 3, 5, 8, 12)
SENTENCES = [random_sentences(n, 1, n)[0] for n in LENGTHS] + random_sentences(60, 6, 7)
TEST = treebank_of(SENTENCES)
KINDS = {
    "first order": {},
    "any size": {"map_rows": 100_003},
    "non-projective": {"decoder": "chu_liu_edmonds", "single_root": True},
    "second order": {"decoder": "eisner_sibling"},
    "second order, one root": {"decoder": "eisner_sibling", "single_root": True},
    "by single changes": {"decoder": "hill_climb", "map_rows": 100_003},
    "graphs": {"decoder": "multi_parent"},
    "joint labels": {"labels_kind": "joint", "label_templates": JOINT},
    "heads only": {"labels": False},
}


@pytest.fixture(scope="module", params=KINDS)
def model(request: pytest.FixtureRequest) -> Parser:
    return trained(**KINDS[request.param])


def same(one: Predictions, two: Predictions) -> bool:
    """True if all fields are equal, graphs included."""
    pairs = [(one, two)]
    if one.graphs is not None and two.graphs is not None:
        pairs.append((one.graphs, two.graphs))
    for a, b in pairs:
        for field in dataclasses.fields(a):
            mine, its = getattr(a, field.name), getattr(b, field.name)
            if field.name != "graphs" and not (mine is its is None or np.array_equal(mine, its)):
                return False
    return (one.graphs is None) == (two.graphs is None)


def places_to_parse() -> list[object]:
    """Devices and backends other than compiled code."""
    interpreted = [] if HAS_GPU else [pytest.param("cpu", "gpu", marks=pytest.mark.triton)]
    on_cpu = [("cpu", "torch"), *interpreted]
    on_gpu = [("cuda", "torch"), ("cuda", "gpu")]
    skip = pytest.mark.skipif(not HAS_GPU, reason="no CUDA device on this machine")
    marks = [pytest.mark.gpu, skip]
    return [*on_cpu, *[pytest.param(*place, marks=marks) for place in on_gpu]]


every_place = pytest.mark.parametrize(("device", "backend"), places_to_parse())


@every_place
def test_every_backend_gives_the_same_trees(model: Parser, device: str, backend: str) -> None:
    expected = model.parse(TEST)
    for batch_size in (3, 2048):
        found = model.parse(TEST, device=device, backend=backend, batch_size=batch_size)
        assert same(found, expected)


@every_place
@pytest.mark.parametrize("decoder", ["eisner", "eisner_sibling"])
def test_guides_and_known_heads(device: str, backend: str, decoder: str) -> None:
    training = random_sentences(50, 20, 6)
    options = changed(OPTIONS, decoder=decoder, epochs=2)
    model = guided(options, guides_of(training), training, TEMPLATES[decoder]).model(16)
    guides = guides_of(SENTENCES)
    bare = model.parse(TEST, guides=guides)
    known = np.where(np.arange(len(guides)) % 3 == 0, bare.heads, -1)
    known[0] = 0
    expected = model.parse(TEST, guides=guides, known=known)
    place = {"device": device, "backend": backend}
    assert same(model.parse(TEST, guides=guides, **place), bare)
    assert same(model.parse(TEST, guides=guides, known=known, **place), expected)


def test_values_can_be_sent_before_they_are_searched(model: Parser) -> None:
    batch = model.encode(TEST)
    sent = model.send(batch, "cpu", "torch")
    expected = model.parse(TEST)
    assert same(model.parse(TEST, batch=batch, sent=sent, backend="torch"), expected)
    assert model.send(batch, "cpu") is None


def test_a_model_that_searches_otherwise_has_tables_of_its_own() -> None:
    model = trained()
    many, one = model.parse(TEST, backend="torch"), model.with_single_root()
    assert same(one.parse(TEST, backend="torch"), one.parse(TEST))
    assert same(model.parse(TEST, backend="torch"), many)
    other = with_decoder(model, "chu_liu_edmonds")
    assert same(other.parse(TEST, backend="torch"), other.parse(TEST))


def test_kernels_need_a_gpu_or_the_interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    with pytest.raises(ScoreError, match="reads tensors on a CUDA device"):
        trained().parse(TEST, backend="gpu")


class Scarce:
    """Lets batches of more than a number of cells run out of memory."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, most: int) -> None:
        self.batches: list[tuple[int, int]] = []  # sentences and cells of those that went through
        self.refused = 0
        score = Dense._scored

        def scarce(engine: Dense, sent, batch, known):
            cells = len(batch) * int(engine._scorer.size(batch.lengths.max(keepdims=True))[0])
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
    siblings = model.linear.plan.siblings is not None
    of_longest = int(sentence_cells(np.array([max(LENGTHS)]), PartSize(2 + siblings))[0])
    scarce = Scarce(monkeypatch, 3 * of_longest)
    assert same(model.parse(TEST, backend="torch"), expected)
    assert scarce.refused > 0
    assert sum(sentences for sentences, _ in scarce.batches) == len(SENTENCES)
    assert max(cells for _, cells in scarce.batches) > of_longest
    # What was learned of the device is not forgotten.
    scarce.refused = 0
    assert same(model.parse(TEST, backend="torch"), expected)
    assert scarce.refused == 0


def test_case_31_a_sentence_that_no_device_has_memory_for_is_parsed_in_main_memory(
    model: Parser, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = model.parse(TEST)
    siblings = model.linear.plan.siblings is not None
    scarce = Scarce(monkeypatch, int(sentence_cells(np.array([7]), PartSize(2 + siblings))[0]))
    assert same(model.parse(TEST, backend="torch"), expected)
    too_long = sum(len(sentence) > 7 for sentence in SENTENCES)
    assert too_long > 0
    assert sum(sentences for sentences, _ in scarce.batches) == len(SENTENCES) - too_long


def test_case_31_without_memory_for_any_sentence_all_are_parsed_in_main_memory(
    model: Parser, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = model.parse(TEST)
    parser = model.engine("cpu", "torch")
    budget, refused = parser.budget, 0

    def without_room(*_: object, **__: object) -> None:
        nonlocal refused
        refused += 1
        raise torch.OutOfMemoryError("no room")

    monkeypatch.setattr(torch, "full", without_room)
    assert same(model.parse(TEST, backend="torch"), expected)
    assert refused == 1
    assert parser.budget == budget  # how many sentences it has room for is another matter


def test_other_errors_are_not_taken_for_want_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("something else")

    monkeypatch.setattr(Dense, "_scored", broken)
    with pytest.raises(RuntimeError, match="something else"):
        trained().parse(TEST, backend="torch")


def test_sentences_without_a_tree_are_told_of_on_every_backend() -> None:
    model = trained(decoder="eisner")
    crossing = [words for words in random_sentences(7, 9, 4) if len(words) == 4][:1]
    known = np.array([3, 4, 0, 3])  # 1 <- 3 and 2 <- 4 cross
    for backend in ("cpu", "torch"):
        with pytest.raises(NoTreeError, match="no tree"):
            model.parse(treebank_of(crossing), known=known, backend=backend)


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


def cells_of(n: int, *, siblings: bool) -> int:
    return int(sentence_cells(np.array([n]), PartSize(2 + siblings))[0])


def test_orders_go_by_length_alone(monkeypatch) -> None:
    lengths = np.array([0, 5, 6, 17, 18, 400])
    with_siblings = sentence_cells(lengths, PartSize(3))
    assert not permitted_orders(lengths, with_siblings).any()
    monkeypatch.setattr(admission, "MAX_CELLS", cells_of(5, siblings=True))
    orders = permitted_orders(lengths, with_siblings)
    assert orders[:3].tolist() == [OWN, OWN, LOWER]
    assert orders[-1] == CHAIN
    assert (np.diff(orders) >= 0).all()
    first = permitted_orders(lengths, sentence_cells(lengths, PartSize(2)))
    assert set(first.tolist()) == {OWN, CHAIN}
    assert (first == CHAIN).tolist() == (orders == CHAIN).tolist()


def heads_by_sentence(found: Predictions) -> list[list[int]]:
    cuts = np.cumsum([len(sentence) for sentence in SENTENCES])[:-1]
    return [part.tolist() for part in np.split(found.heads, cuts)]


@every_place
def test_long_sentences_fall_back_to_the_first_order(
    model: Parser, device: str, backend: str, monkeypatch
) -> None:
    siblings = model.linear.plan.siblings is not None
    whole, lower = model.parse(TEST), model.lower_order().parse(TEST)
    monkeypatch.setattr(admission, "MAX_CELLS", cells_of(7, siblings=siblings))
    found = model.parse(TEST, device=device, backend=backend)
    assert same(found, model.parse(TEST))
    assert found.orders is not None
    parses = [heads_by_sentence(parse) for parse in (found, whole, lower)]
    seen = set()
    for s, order in enumerate(found.orders.tolist()):
        n = len(SENTENCES[s])
        mine, own, of_lower = (parse[s] for parse in parses)
        expected = {OWN: own, LOWER: of_lower, CHAIN: list(range(n))}[order]
        assert mine == expected
        assert (order == OWN) == (n <= 7)
        seen.add(order)
    assert seen == ({OWN, LOWER} if siblings else {OWN, CHAIN})
    if found.graphs is not None:  # one head each, and its relation
        long = np.repeat(found.orders != OWN, [len(sentence) for sentence in SENTENCES])
        counts = np.diff(found.graphs.starts)
        assert (counts[long] == 1).all()
        assert np.array_equal(found.graphs.heads[found.graphs.starts[:-1][long]], found.heads[long])
    if model.linear.label_weights and model.linear.joint_plan is None:
        assert found.labels is not None
        assert (found.labels >= 0).all()


def test_a_lower_order_has_the_same_kind_of_trees(model: Parser) -> None:
    mine, lower = DECODERS[model.decoder], DECODERS[model.lower_order().search_decoder]
    assert lower.is_projective == mine.is_projective
    assert not lower.reads_siblings
    assert model.lower_order().linear.plan.siblings is None


def test_no_sentence_is_too_long_for_probabilities_and_several_trees(monkeypatch) -> None:
    model = trained(decoder="eisner_sibling")
    lower = model.lower_order()
    with monkeypatch.context() as patch:
        patch.setattr(admission, "MAX_CELLS", cells_of(7, siblings=True))
        found = parse_with_confidence(model, TEST, probabilities=True)
        assert np.array_equal(found.heads, model.parse(TEST).heads)
        several = find_k_best_trees(model, TEST, 3, probabilities=True)
    own, below = (
        parse_with_confidence(m, TEST, probabilities=True).head_probabilities
        for m in (model, lower)
    )
    assert found.orders is not None
    is_lower = np.repeat(found.orders == LOWER, [len(sentence) for sentence in SENTENCES])
    assert 0 < is_lower.sum() < len(is_lower)
    assert np.array_equal(found.head_probabilities, np.where(is_lower, below, own))
    assert np.array_equal(several.heads[0], found.heads)
    assert np.array_equal(several.orders, found.orders)
    k_own, k_below = (find_k_best_trees(m, TEST, 3, probabilities=True) for m in (model, lower))
    assert np.array_equal(several.heads, np.where(is_lower, k_below.heads, k_own.heads))
    assert np.array_equal(
        several.probabilities,
        np.where(found.orders == LOWER, k_below.probabilities, k_own.probabilities),
    )


def test_words_in_a_chain_have_no_chances(monkeypatch) -> None:
    model = trained()
    monkeypatch.setattr(admission, "MAX_CELLS", cells_of(7, siblings=False))
    found = parse_with_confidence(model, TEST, probabilities=True)
    several = find_k_best_trees(model, TEST, 2, probabilities=True)
    long = np.repeat(found.orders == CHAIN, [len(sentence) for sentence in SENTENCES])
    assert long.any()
    assert (found.head_probabilities[long] == 0).all()
    assert np.array_equal(several.heads[0], found.heads)
    assert (several.heads[1][long] == -1).all()
    assert (several.probabilities[:, found.orders == CHAIN] == 0).all()
    assert (several.probabilities[0, found.orders == OWN] > 0).all()


def test_known_heads_of_a_chain_stay(monkeypatch) -> None:
    monkeypatch.setattr(admission, "MAX_CELLS", 1)
    model, n = trained(), max(LENGTHS)
    sentence = random_sentences(n, 1, n)
    known = np.full(len(sentence[0]), -1)
    known[1] = 3
    found = model.parse(treebank_of(sentence), known=known)
    assert found.heads.tolist() == [0, 3, *[0] * (len(known) - 2)]
