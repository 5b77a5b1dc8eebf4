"""Labels of finished trees: what templates see there, and the best label of every word."""

from collections import Counter, defaultdict

import numpy as np
import pytest
import torch

from gpuparse.data.batch import Batch
from gpuparse.data.vocabulary import Encoder, Vocabularies
from gpuparse.features.plan import LabelPlan, compile_labels
from gpuparse.features.templates import load_templates, parse_set
from gpuparse.scorers.linear.weights import Weights
from tests.labels import best_labels
from tests.oracles.arc_features import known_values
from tests.oracles.label_features import label_features
from tests.rows import lines_of_words
from tests.samples import Sentence, random_sentences, template_set_text, treebank_of

EVERY_ROLE = [
    "h.pos m.pos direction", "m.form", "g.pos h.pos m.pos", "p.form m.pos", "q.lemma",
    "l.pos r.pos", "l-1.pos", "r+1.form direction distance", "p.pos q.pos distance",
    "g+2.cpos g-1.lemma",
    "h.feats.Case m.feats.Case", "q+3.form", "distance", "m-3.form", "o.pos m.pos",
]  # fmt: skip
LABELLED = parse_set(template_set_text(label=EVERY_ROLE), "labelled")
SENTENCES = random_sentences(40, 12, 8, projective=False)
TRAIN = SENTENCES[:6]


def prepared(sentences: list[Sentence] = SENTENCES, name: str = "") -> tuple[Batch, LabelPlan]:
    templates = load_templates(name) if name else LABELLED
    vocabularies = Vocabularies.build(treebank_of(TRAIN), templates.fields("label"), 3)
    plan = compile_labels(templates, vocabularies)
    return Encoder(vocabularies).encode(treebank_of(sentences)), plan


def heads_of(sentence: Sentence) -> list[int]:
    return [int(word[6]) for word in sentence]


def padded_heads(sentences: list[Sentence]) -> torch.Tensor:
    longest = max(map(len, sentences))
    heads = torch.full((len(sentences), longest + 1), -1)
    for b, sentence in enumerate(sentences):
        heads[b, 1 : len(sentence) + 1] = torch.tensor(heads_of(sentence))
    return heads


def test_words_share_lines_just_when_they_share_features() -> None:
    batch, plan = prepared()
    known = known_values(TRAIN, LABELLED.fields("label"), 3)
    by_line, by_name = defaultdict(set), defaultdict(set)
    for b, sentence in enumerate(SENTENCES):
        heads = heads_of(sentence)
        found = lines_of_words(batch, b, np.array(heads), plan, 1 << 31)
        for m, (h, lines) in enumerate(zip(heads, found, strict=True), start=1):
            features = label_features(EVERY_ROLE, sentence, heads, h, m, known, LABELLED.distance)
            for line, feature in zip(lines, features, strict=True):
                assert (line < 0) == (feature is None)
                if feature is not None:
                    by_line[line].add((b, m))
                    by_name[feature].add((b, m))
    assert Counter(map(frozenset, by_line.values())) == Counter(map(frozenset, by_name.values()))
    assert len(by_name) > 100


@pytest.mark.parametrize("name", ["", "labels"])
@pytest.mark.parametrize(("dtype", "spread"), [(np.int8, 127), (np.int16, 32767), (np.int8, 1)])
@pytest.mark.parametrize("n_lines", [1, 7, 4096])
@pytest.mark.parametrize("n_labels", [1, 2, 11])
def test_best_label_is_the_first_of_the_highest_sums(
    name: str, dtype: type, spread: int, n_lines: int, n_labels: int
) -> None:
    batch, plan = prepared(name=name)
    rng = np.random.default_rng(n_lines)
    weights = Weights(rng.integers(-spread, spread + 1, (n_lines, n_labels)).astype(dtype))
    heads, ties = padded_heads(SENTENCES), 0
    expected = torch.full_like(heads, -1)
    for b, sentence in enumerate(SENTENCES):
        found = lines_of_words(batch, b, np.array(heads_of(sentence)), plan, n_lines)
        for m, lines in enumerate(found, start=1):
            sums = sum(
                (weights.array[line].astype(int) for line in lines if line >= 0),
                np.zeros(n_labels, int),
            )
            expected[b, m] = sums.tolist().index(sums.max())
            ties += (sums == sums.max()).sum() > 1
    before = heads.clone()
    assert torch.equal(best_labels(batch, heads, plan, weights, engine="native"), expected)
    assert torch.equal(best_labels(batch, heads, plan, weights, engine="torch"), expected)
    assert torch.equal(heads, before)
    if spread == 1 and n_labels == 11:
        assert ties > 0


def test_all_labels_equal_gives_the_first() -> None:
    batch, plan = prepared()
    heads = padded_heads(SENTENCES)
    weights = Weights(np.full((10, 5), 3, np.int8))
    for engine in ("native", "torch"):
        found = best_labels(batch, heads, plan, weights, engine=engine)
        assert torch.equal(found, torch.where(heads >= 0, 0, -1))


def test_floats_agree_between_engines() -> None:
    batch, plan = prepared()
    heads = padded_heads(SENTENCES)
    rng = np.random.default_rng(1)
    # Small whole numbers as floats: no rounding, so the same label for certain.
    weights = Weights(rng.integers(-5, 6, (500, 6)).astype(np.float32))
    compiled = best_labels(batch, heads, plan, weights, engine="native")
    assert torch.equal(compiled, best_labels(batch, heads, plan, weights, engine="torch"))
    assert len(compiled.unique()) == 7


def test_batch_mates_padding_and_order_change_nothing() -> None:
    batch, plan = prepared()
    heads = padded_heads(SENTENCES)
    rng = np.random.default_rng(1)
    weights = Weights(rng.integers(-99, 100, (500, 6)).astype(np.int16))
    together = best_labels(batch, heads, plan, weights)
    order = rng.permutation(len(batch))
    shuffled = best_labels(batch.select(order), heads[order], plan, weights)
    assert torch.equal(shuffled, together[order])
    for b, n in enumerate(batch.lengths.tolist()):
        for engine in ("native", "torch"):
            alone = batch.select(np.array([b]))
            found = best_labels(alone, heads[b : b + 1, : n + 1], plan, weights, engine=engine)
            assert torch.equal(found[0], together[b, : n + 1])
