"""The sentences of several genres, benchmarks/english-genres.conllu, are a treebank."""

from collections import Counter
from pathlib import Path

import gpuparse

FILE = Path(__file__).parents[2] / "benchmarks" / "english-genres.conllu"


def test_sentences_of_genres_are_a_treebank():
    assert not gpuparse.check(FILE).errors
    sentences = gpuparse.read(FILE)
    assert {10 <= len(sentence) <= 35 for sentence in sentences} == {True}
    genres = Counter(sentence.sent_id.partition("-")[0] for sentence in sentences)
    assert len(genres) == 8
    assert genres.total() == 30
