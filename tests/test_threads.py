"""One parser in many threads at once: the batches and trees of one thread."""

import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TypeVar

import pytest

from gpuparse.data.treebank import Treebank
from gpuparse.data.vocabulary import Encoder, Vocabularies
from gpuparse.inference.decoders import DECODERS
from gpuparse.model.parser import Parser
from tests import test_higher_order_models
from tests.samples import random_sentences, row, treebank_of
from tests.test_model import trained

pytestmark = pytest.mark.usefixtures("frequent_switches")
THREADS = 16
Shared = TypeVar("Shared")


@pytest.fixture
def rounds(pytestconfig: pytest.Config) -> int:
    return int(pytestconfig.getoption("rounds"))


def compare_with_one_thread(
    make: Callable[[], Shared], work: Callable[[Shared, Treebank], list[bytes]],
    texts: list[Treebank], rounds: int,
) -> None:  # fmt: skip
    """Work on all texts with one new object in 16 threads, again and again."""
    alone = [work(make(), text) for text in texts]
    for _ in range(rounds):
        shared = make()
        with ThreadPoolExecutor(THREADS) as pool:
            assert list(pool.map(work, len(texts) * [shared], texts)) == alone


def test_threads_encode_as_one_does(rounds: int) -> None:
    draw, known = random.Random(1), [f"known{k}" for k in range(2000)]
    fields = {"form": known, "lemma": known, "form[-3:]": [word[-3:] for word in known[:1000]]}
    vocabularies = Vocabularies(fields, 3)

    def sentence() -> list[list[str]]:
        words = [
            draw.choice([draw.choice(known), f"new{draw.randrange(20_000)}"]) for _ in "x" * 20
        ]
        return [row(m, word, 0, lemma=word) for m, word in enumerate(words, 1)]

    texts = [treebank_of([sentence() for _ in range(15)]) for _ in range(2 * THREADS)]
    compare_with_one_thread(
        lambda: Encoder(vocabularies),
        lambda encoder, text: [encoder.encode(text).values.tobytes()],
        texts,
        rounds,
    )


@pytest.mark.parametrize(
    ("decoder", "engine"),
    [
        ("chu_liu_edmonds", "native"),
        ("eisner", "torch"),
        ("eisner_sibling", "native"),
        ("multi_parent", "native"),
        ("dual_decomposition", "native"),  # with pruning and labels found with the trees
    ],
)
def test_threads_parse_as_one_does(decoder: str, engine: str, rounds: int) -> None:
    if DECODERS[decoder].is_higher_order:
        model = test_higher_order_models.trained(decoder)
    else:
        model = trained(decoder=decoder)
    draw = random.Random(1)
    texts = []
    for seed in range(THREADS):
        sentences = random_sentences(seed, 12, 12)
        for word in (word for sentence in sentences for word in sentence):
            if draw.random() < 0.5:
                word[1] = word[2] = f"word{draw.randrange(2000)}"
        texts.append(treebank_of(sentences))

    def parsed(parser: Parser, text: Treebank) -> list[bytes]:
        found = parser.parse(text, engine=engine)
        arrays = [found.heads, found.labels]
        if found.certified is not None:
            arrays.append(found.certified)
        if found.graphs is not None:
            arrays += [found.graphs.starts, found.graphs.heads, found.graphs.relations]
        return [array.tobytes() for array in arrays]

    # A copy has met no word and compiled no template yet.
    compare_with_one_thread(lambda: replace(model), parsed, texts, rounds)
