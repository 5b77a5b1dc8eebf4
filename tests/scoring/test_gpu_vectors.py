"""Triton's kernels of word vectors: equal to native code and to torch, number by number."""

from functools import partial
from random import Random

import numpy as np
import pytest
import torch

from gpuparse.data.batch import Batch
from gpuparse.data.vocabulary import Encoder, Vocabularies
from gpuparse.features.plan import LabelPlan, compile_labels
from gpuparse.features.templates import parse_set
from gpuparse.features.word_vectors import FURTHER
from gpuparse.inference.backends import has_triton
from gpuparse.scoring.labels import best_labels
from gpuparse.scoring.tensors import as_tensors
from gpuparse.scoring.vector_scores import (
    NodeVectors,
    vector_arc_scores,
    vector_pair_scores,
    vectors_on,
)
from gpuparse.scoring.weights import Weights
from gpuparse.scoring.word_vectors import WordVectors, frozen, merged
from tests.inference.decoders import TRITON, skip_unless_it_reads
from tests.samples import random_sentence, random_sentences, template_set_text, treebank_of
from tests.scoring.test_arcs import arcs_of
from tests.scoring.test_word_vectors import extreme_vectors
from tests.test_vector_models import BOTH, LABELS, SIBLINGS, learned, trainer_of
from tests.vectors import random_plan, random_weights

pytestmark = [TRITON, pytest.mark.skipif(not has_triton(), reason="Triton is not installed")]

# Hidden numbers, those of vectors of arcs, siblings and labels; networks; labels; longest sentence.
CASES = [
    (0, 5, 0, 3, 1, 5, 4),
    (0, 40, 3, 0, 2, 1, 3),
    (1, 1, 33, 70, 1, 37, 40),
    (32, 32, 32, 32, 3, 64, 3),
]


def drawn(case: tuple[int, ...]) -> tuple[Batch, WordVectors]:
    """Random vectors, and sentences of one word and up to the longest, out of order."""
    hidden, arc, sibling, label, networks, n_labels, longest = case
    random = np.random.default_rng(sum(case))
    train = treebank_of(random_sentences(1, 9, 9))
    vocabularies = Vocabularies.build(train, ["form", "pos", "lemma"], 3)
    sentences = treebank_of([random_sentence(Random(n), n) for n in (longest, 1, 3)])
    batch = Encoder(vocabularies).encode(sentences).select(np.array([1, 0, 2]))
    plan = random_plan(random, batch, [0, -1, 2, 0, 1, -3], 30, n_between=4 if arc > 1 else 0)
    weights = [
        random_weights(
            random,
            plan,
            hidden,
            arc,
            label,
            n_labels if label else 0,
            **dict.fromkeys(FURTHER, sibling),
        )
        for _ in range(networks)
    ]
    vectors = frozen(merged(weights), plan, Encoder(vocabularies).encode(train))
    assert vectors.networks == (networks if hidden else 1)
    return batch, vectors


def assert_equal(
    batch: Batch, vectors: WordVectors, device: torch.device, *, is_learned: bool = False
) -> None:
    """The scores of arcs and siblings are those of native code, those of labels those of torch."""
    skip_unless_it_reads("gpu", device)
    further = [kind for kind in FURTHER if vectors.scores(kind)]
    of_kinds = [vector_arc_scores, *(partial(vector_pair_scores, kind) for kind in further)]
    b, h, m = torch.tensor(arcs_of(batch)).T
    some = as_tensors(batch).to(device)
    for score in of_kinds:
        mine = score(some, vectors, is_learned=is_learned, backend="gpu").cpu()
        its = score(batch, vectors, is_learned=is_learned, backend="cpu")
        assert mine.dtype == its.dtype
        assert torch.equal(mine[b, h, m], its[b, h, m])
        assert len(its[b, h, m].unique()) > 2
    if len(vectors.labels):
        b, h, m = (each[:: 1 + len(each) // 100] for each in (b, h, m))
        mine, its = (nodes_of(batch, vectors, on) for on in (device, None))
        at = [each.to(device) for each in (b, h, m)]
        found = mine.labels(*at, is_learned).cpu()
        assert torch.equal(found, its.labels(b, h, m, is_learned))
        longest = batch.n_nodes - 1
        b, h = torch.full((2,), int(batch.lengths.argmax())), torch.tensor([0, longest])
        found = mine.labels_of_heads(b.to(device), h.to(device), is_learned).cpu()
        assert torch.equal(found[:, 1:], its.labels_of_heads(b, h, is_learned)[:, 1:])


def label_plan() -> LabelPlan:
    """Templates of labels, over the fields of `drawn`."""
    train = treebank_of(random_sentences(1, 9, 9))
    templates = parse_set(template_set_text(label=["m.pos h.pos", "g.pos m.form"]), "labels")
    vocabularies = Vocabularies.build(train, ["form", "pos", "lemma"], 3)
    return compile_labels(templates.expanded(set()), vocabularies)


def nodes_of(batch: Batch, vectors: WordVectors, device: torch.device | None) -> NodeVectors:
    """Those of the kernels on a device, or those of torch in main memory."""
    on = device or torch.device("cpu")
    some = as_tensors(batch).to(on)
    return vectors_on(on, vectors, "triton" if device else "torch").nodes(some)


@pytest.mark.parametrize("case", CASES)
def test_scores(case: tuple[int, ...], device: torch.device) -> None:
    assert_equal(*drawn(case), device)


def test_scores_beside_learned_weights(device: torch.device) -> None:
    assert_equal(*drawn((8, 4, 0, 4, 1, 5, 2)), device, is_learned=True)


@pytest.mark.parametrize("hidden", [0, 64])
def test_numbers_at_the_ends_of_their_ranges(hidden: int, device: torch.device) -> None:
    batch, vectors = extreme_vectors(hidden, 1)
    assert_equal(batch.select(np.array([1])), vectors, device)


@pytest.mark.parametrize("dtype", [np.int8, np.float32])
def test_labels_of_trees(dtype: type, device: torch.device) -> None:
    skip_unless_it_reads("gpu", device)
    batch, vectors = drawn((8, 4, 0, 4, 1, 5, 4))
    vectors = vectors.with_points(1.0, 50.0).with_units(1.0, 50.0)  # as templates, about
    plan = label_plan()
    lines = np.random.default_rng(1).integers(-99, 99, (64, 5)).astype(dtype)
    heads = torch.full((len(batch), batch.n_nodes), -1)
    for b, n in enumerate(batch.lengths.tolist()):
        heads[b, 1 : n + 1] = torch.arange(n)
    on_device = as_tensors(batch).to(device), heads.to(device)
    weights = Weights(lines)
    found = best_labels(*on_device, plan, weights, vectors=vectors, backend="gpu")
    expected = best_labels(batch, heads, plan, weights, vectors=vectors, backend="cpu")
    assert torch.equal(found.cpu(), expected)
    alone = best_labels(batch, heads, plan, weights, backend="cpu")
    assert not torch.equal(alone, expected)


def test_no_sentences_and_sentences_without_words(device: torch.device) -> None:
    skip_unless_it_reads("gpu", device)
    batch, vectors = drawn(CASES[3])
    none = as_tensors(batch.select(np.arange(0))).to(device)
    assert vector_arc_scores(none, vectors, backend="gpu").shape == (0, 1, 1)
    empty = Batch(batch.values, batch.starts[:1], np.zeros(1, np.int64))
    on_device = as_tensors(empty).to(device)
    assert vector_arc_scores(on_device, vectors, backend="gpu").shape == (1, 1, 1)


@pytest.mark.parametrize(
    ("templates", "change"),
    [
        (BOTH, {"labels_kind": "joint"}),
        (SIBLINGS, {"decoder": "eisner_sibling"}),
    ],
    ids=["joint labels", "siblings"],
)
def test_models(templates, change: dict, device: torch.device) -> None:
    skip_unless_it_reads("gpu", device)
    model = learned(trainer_of(templates, LABELS, **change)).model(16)
    treebank = treebank_of([random_sentence(Random(n), n) for n in (4, 2)])
    found, expected = (
        model.parse(treebank, device=device.type, backend="gpu"),
        model.parse(treebank),
    )
    np.testing.assert_array_equal(found.heads, expected.heads)
    np.testing.assert_array_equal(found.labels, expected.labels)
