"""Explanations of models with an encoder: scores of heads, and what leaving out words changes."""

import html
import json
from dataclasses import astuple

import numpy as np
import pytest

import gpuparse
from gpuparse.commands import explain as command
from gpuparse.commands.console import run
from gpuparse.data.conll import treebank_from_bytes
from gpuparse.errors import ConfigError, NoTreeError, ResourceError
from gpuparse.explaining import explain
from gpuparse.jobs.reasons import SHOWN, as_dict, as_html, as_text
from gpuparse.model_folder import load_parser
from gpuparse.parser import Parser
from gpuparse.scorers.encoder import scorer as scorers
from gpuparse.scorers.encoder.pieces import EncodedPieces, EncodedTreebank, Ragged
from gpuparse.scorers.encoder.scorer import PARTS

MASK = 4  # the piece in the tokenisers of tests/tiny_encoders.py
ROUNDED = 1 / PARTS  # nats: floats of torch differ between batches, and may be rounded otherwise
TAGS = {"NOUN": 1, "VERB": 2}


@pytest.fixture(scope="module", params=[("bert", 8), ("roberta", 16)], ids=["native", "torch"])
def folder(models, request):
    """A model whose states native code computes, and one of torch."""
    family, bits = request.param
    return models.model(family, f"explained-{bits}", weights__bits=bits, encoder__epochs=4)


@pytest.fixture(scope="module")
def model(folder) -> Parser:
    return load_parser(folder)


def conllu(*sentences: str, tags: str = "") -> bytes:
    """Sentences of forms; tags: UPOS of the first one."""
    upos = tags.split()
    return "".join(
        "".join(
            f"{i}\t{form}\t_\t{upos[i - 1] if upos else '_'}" + "\t_" * 6 + "\n"
            for i, form in enumerate(text.split(), 1)
        )
        + "\n"
        for text in sentences
    ).encode()


FIRST, SECOND = "dogs sleep", "the tall officer must want to smile and old farmers knew that clerk"
TEXT = conllu(FIRST, SECOND)


def by_hand(
    model: Parser, text: str, left_out: int = 0, tags: list[int] | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """(N, N) scores of arcs in nats and (N,) heads of a sentence with masks for a word."""
    [scorer] = model.scorers
    found = scorer.splitter.split(text.split())
    pieces = [list(row) for row in np.split(found.values, found.starts[1:-1])]
    if left_out:
        pieces[left_out - 1] = [MASK] * len(pieces[left_out - 1])
    n = len(pieces)
    given = {name: np.array(tags, np.int64) for name in scorer.tags}
    starts = np.array([0, n])
    whole = EncodedTreebank(Ragged.of(pieces), np.arange(n), starts, scorer.splitter, given)
    batch = EncodedPieces.all_of(whole)
    part = scorer.part(scorer.send(batch, scorers_device()), batch)
    arcs = scorer.score(part).arc[0].double().numpy() * model.scales.arc
    return arcs, model.search(batch).heads[: n + 1]


def scorers_device():
    import torch

    return torch.device("cpu")


def test_candidates_have_the_scores_of_the_tensor(model):
    treebank = treebank_from_bytes(TEXT, "text")
    arcs, heads = by_hand(model, SECOND)
    n = len(SECOND.split())
    for word in range(1, n + 1):
        found = explain(model, treebank, 2, word)
        assert found.forms == tuple(SECOND.split())
        assert found.heads == tuple(heads[1:])
        assert found.head == heads[word]
        assert sorted(each.head for each in found.candidates) == [
            h for h in range(n + 1) if h != word
        ]
        scores = [each.score for each in found.candidates]
        assert scores == sorted(scores, reverse=True)
        expected = [arcs[each.head, word] for each in found.candidates]
        assert scores == pytest.approx(expected, abs=ROUNDED)
        rivals = [each.head for each in found.candidates if each.head != found.head]
        assert found.other_head == rivals[0]
        labels = model.parse(treebank).labels[2:]
        assert found.labels == tuple(model.labels[k] for k in labels)


def test_effects_are_those_of_sentences_with_masks(model):
    treebank = treebank_from_bytes(TEXT, "text")
    arcs, _ = by_hand(model, SECOND)
    words = [1, 4, 13]
    sizes, changed = [], 0
    for word in words:
        found = explain(model, treebank, 2, word)
        pair = found.head, found.other_head
        whole = arcs[pair[0], word] - arcs[pair[1], word]
        others = [w for w in range(1, 14) if w != word]
        assert sorted(each.word for each in found.left_out) == others
        effects = [abs(each.effect) for each in found.left_out]
        assert effects == sorted(effects, reverse=True)
        for each in found.left_out:
            then, heads = by_hand(model, SECOND, each.word)
            difference = then[pair[0], word] - then[pair[1], word]
            assert each.difference == pytest.approx(difference, abs=2 * ROUNDED)
            assert each.effect == pytest.approx(whole - difference, abs=4 * ROUNDED)
            assert each.head == heads[word]
            changed += each.head != found.head
        sizes += effects
    assert np.median(sizes) > 8 * ROUNDED  # else the comparison says little
    assert changed


def test_the_other_head_that_is_asked_for(model):
    treebank = treebank_from_bytes(TEXT, "text")
    free = explain(model, treebank, 2, 3)
    assert not free.is_asked
    for other in [h for h in range(14) if h not in (3, free.head)]:
        found = explain(model, treebank, 2, 3, instead=other)
        assert (found.is_asked, found.other_head, found.head) == (True, other, free.head)
        assert found.candidates == free.candidates
        assert (other == free.other_head) == (found.left_out == free.left_out)


def test_batches_of_few_pieces_give_the_same(model, monkeypatch):
    treebank = treebank_from_bytes(conllu(SECOND, " ".join(["ab cd"] * 60)), "text")
    expected = [explain(model, treebank, s, 3) for s in (1, 2)]
    sizes, hidden = [], scorers.EncoderScorer._hidden

    def recorded(self, encoded, place):
        sizes.append(int(encoded.whole.pieces.sum()))
        return hidden(self, encoded, place)

    monkeypatch.setattr(scorers.EncoderScorer, "_hidden", recorded)
    for most in (60, 150):
        monkeypatch.setattr(scorers, "BATCH", most)
        for s, whole in ((1, 13), (2, 120)):
            sizes.clear()
            found = explain(model, treebank, s, 3)
            again = [each for each in found.left_out]
            for mine, its in zip(
                sorted(again, key=lambda each: each.word),
                sorted(expected[s - 1].left_out, key=lambda each: each.word),
                strict=True,
            ):
                assert astuple(mine)[:3] == pytest.approx(astuple(its)[:3], abs=4 * ROUNDED)
            one = by_piece_count(model, treebank, s)
            assert sum(sizes) == one * whole
            assert max(sizes) <= max(most, one)


def by_piece_count(model: Parser, treebank, s: int) -> int:
    """The pieces of a sentence, without special ones."""
    return int(model.encode(treebank).whole.pieces[s - 1])


def test_tags_of_words_that_are_left_out_are_not_read(models):
    model = load_parser(
        models.model("bert", "explained-tags", encoder__read_tags=True, encoder__epochs=4)
    )
    [scorer] = model.scorers
    upos = list(scorer.tags["upos"])
    given = (["NOUN", "VERB", "DET"] * 5)[:13]
    numbers = [upos.index(tag) for tag in given]
    assert min(numbers) > 0
    treebank = treebank_from_bytes(conllu(SECOND, tags=" ".join(given)), "text")
    tags = {name: [0] * 13 for name in scorer.tags} | {"upos": numbers}
    assert list(tags) == ["upos"] or all(name in tags for name in scorer.tags)
    found = explain(model, treebank, 1, 3)
    for each in found.left_out:
        without = [0 if w == each.word else tag for w, tag in enumerate(numbers, 1)]
        then, heads = by_hand(model, SECOND, each.word, without)
        difference = then[found.head, 3] - then[found.other_head, 3]
        assert each.difference == pytest.approx(difference, abs=2 * ROUNDED)
        assert each.head == heads[3]
