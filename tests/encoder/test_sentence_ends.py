"""Sentence ends that an encoder decides where the tokeniser is unsure."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from gpuparse.data.conll import treebank_from_bytes, treebank_of_scan
from gpuparse.data.formats.text import text_chunk
from gpuparse.model.folder import load_parser
from gpuparse.model.pipeline import load_stages
from gpuparse.text import tokenizer as module
from gpuparse.text.training import learn_tokenizer
from tests.synthetic import generate

TEXT = "one two. three four. five six seven. eight\n\nnine ten. eleven\n"


@pytest.fixture
def tokenizer(monkeypatch):
    """A tokeniser that is unsure of all tokens that do not end a paragraph."""
    monkeypatch.setattr(module, "UNSURE", np.inf)
    monkeypatch.setattr(module, "OWN_WEIGHT", 0.0)
    return learn_tokenizer(treebank_from_bytes(generate(20, 1), "test"), seed=1)


def sentences(tokenizer, text: str, threads: int = 1) -> list[list[str]]:
    scanned = tokenizer.split(text_chunk(text.encode(), "test"), threads=threads)
    return [list(sentence.forms) for sentence in treebank_of_scan(scanned, "test")]


def ends_after(*words):
    return lambda given, starts: np.array([1.0 if word in words else -1.0 for word in given])


def test_the_reader_decides_where_the_tokeniser_is_unsure(tokenizer):
    made = replace(tokenizer, reads_ends=ends_after("two", "six", "ten"))
    firsts = [words[0] for words in sentences(made, TEXT)]
    after = {"two": ".", "six": "seven", "ten": "."}
    assert firsts == ["one", after["two"], after["six"], "nine", after["ten"]]


def test_it_is_not_asked_where_the_tokeniser_is_sure(tokenizer, monkeypatch):
    monkeypatch.setattr(module, "UNSURE", 0.0)

    def fails(words, starts):
        raise AssertionError

    assert sentences(replace(tokenizer, reads_ends=fails), TEXT) == sentences(tokenizer, TEXT)


def test_windows_have_context_and_stay_in_their_paragraph(tokenizer, monkeypatch):
    monkeypatch.setattr(module, "CONTEXT", 2)
    read = []

    def reader(words, starts):
        read.extend(words[i:j] for i, j in pairwise(starts))
        return np.full(len(words), -1.0)

    found = sentences(replace(tokenizer, reads_ends=reader), TEXT)
    assert [" ".join(words) for words in read] == [" ".join(words) for words in found]
    assert len(found) == 2
    read.clear()
    monkeypatch.setattr(module, "UNSURE", 0.0)
    sentences(replace(tokenizer, reads_ends=reader), TEXT)
    assert read == []


def test_gold_of_windows_equals_a_slow_reading():
    from gpuparse.learning.stages.encoder import end_windows
    from gpuparse.scorers.encoder.pieces import EncodedTreebank, Ragged

    text = generate(60, 5).decode().split("\n\n")[:-1]
    for number in (0, 20, 21, 50):
        text[number] = "# newpar\n" + text[number]
    treebank = treebank_from_bytes(("\n\n".join(text) + "\n\n").encode(), "test")
    n = treebank.n_words
    forms = Ragged.of([[1]] * n)
    starts = np.asarray(treebank.word_starts, np.int64)
    whole = EncodedTreebank(forms, np.zeros(n, np.int32), np.arange(n), starts, None)
    made = end_windows.EndWindows.of(treebank, whole, np.random.default_rng(1))
    edges = made.whole.word_starts.tolist()
    borders = {int(starts[number]) for number in (0, 20, 21, 50)} | {n}
    assert borders <= set(edges)
    assert max(np.diff(edges)) <= end_windows.SIZE
    ends = set((starts[1:] - 1).tolist())
    for first, end in pairwise(edges):
        for word in range(first, end):
            blind = 1 if end in borders else 3
            expected = -1 if word >= end - blind else int(word in ends)
            assert made.gold[word] == expected
    drawn = list(made.drawn(np.random.default_rng(2), 10))
    assert len(drawn) == 10
    some = np.concatenate(drawn)
    assert len(set(some.tolist())) == len(some) > 0


def test_a_model_learns_them_and_reads_them_in_any_batch(models, monkeypatch):
    keys = {"tokenizer__learn": True, "encoder__epochs": 2}
    eight, sixteen = (
        models.model("bert", f"ends-{bits}", weights__bits=bits, **keys) for bits in (8, 16)
    )
    text = "the parser reads the tree . " * 40
    monkeypatch.setattr(module, "UNSURE", np.inf)
    found = []
    for folder in (eight, sixteen):
        parser = load_parser(folder)
        assert parser.scorers[0].sizes.ends
        filled = load_stages(folder).filled_by(parser).tokenizer
        assert filled.reads_ends is not None
        assert sentences(filled, text, threads=3) == sentences(filled, text)
        words, starts = text.split(), np.array([0, 100, 240])
        scores = filled.reads_ends(words, starts)
        alone = filled.reads_ends(words[100:], np.array([0, 140]))
        assert np.array_equal(scores[100:], alone)
        found.append(scores)
    assert np.allclose(*found, atol=0.2), "both read weights of 8 bits"


def test_a_model_without_a_tokeniser_learns_none(models):
    [scorer] = load_parser(models.model("bert")).scorers
    assert not scorer.sizes.ends
    assert scorer.reads_ends is None
