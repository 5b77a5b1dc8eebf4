"""Learning from trees that are known in part."""

import random

import numpy as np
import pytest

from gpuparse.config import RunConfig
from gpuparse.data.conll import treebank_from_bytes
from gpuparse.data.treebank import Treebank
from gpuparse.features.templates import parse_set
from gpuparse.inference.decoders import DECODERS
from gpuparse.learning.trainer import Trainer
from gpuparse.model.parser import Parser
from tests.learning.literal import (
    OPTIONS,
    assert_the_average_is_literal,
    learned,
    toy_treebank,
    trainer_of,
    without_heads,
)
from tests.runs import changed
from tests.samples import Sentence, fingerprint, random_sentences, template_set_text, treebank_of
from tests.synthetic import generate

LABELS = parse_set(template_set_text(label=["m.form direction", "h.pos m.pos"]), "labels")
RICH = parse_set(
    template_set_text(
        arc=[
            "h.form m.form", "h.pos m.pos direction distance", "h.pos m.form direction",
            "h.form m.pos direction", "h-1.pos h.pos m.pos m+1.pos direction",
            "h.pos h+1.pos m-1.pos m.pos direction", "h.pos between.pos m.pos",
        ]
    ),
    "rich",
)  # fmt: skip


@pytest.mark.parametrize(
    ("decoder", "change"),
    [
        ("eisner", {}),
        ("eisner", {"k": 4, "cost_augmented": True}),
        ("chu_liu_edmonds", {"k": 3}),
        ("chu_liu_edmonds", {"batch_size": 3, "cost_augmented": True}),
        ("eisner_sibling", {"k": 3, "batch_size": 3}),
        ("eisner_sibling", {"single_root": True, "rule": "perceptron"}),
    ],
)
def test_the_average_is_the_literal_one(decoder: str, change: dict) -> None:
    """Learned towards the best tree that has all known heads; a mistake is one of those."""
    options = changed(OPTIONS, decoder=decoder, **change)
    single_root = bool(options.data.single_root)

    def draw(seed: int) -> list[Sentence]:
        lengths = [4, 3, 5, 1, 4, 2, 5, 3]
        return without_heads(
            toy_treebank(decoder, seed, lengths, single_root=single_root), 0.4, seed
        )

    assert_the_average_is_literal(options, draw)


def attachment(model: Parser, gold: Treebank) -> float:
    return 100 * (model.parse(gold).heads == gold.heads).mean()


def test_half_of_the_heads_teach_nearly_as_much_as_all_and_more_than_whole_sentences() -> None:
    """One sentence in five is whole; of the others most heads are missing."""
    text, draw = generate(300, 1).decode(), random.Random(1)
    half, whole = [], []
    for block in text.strip().split("\n\n"):
        is_whole = draw.random() < 0.2
        lines = []
        for line in block.split("\n"):
            columns = line.split("\t")
            if columns[0].isdigit() and not is_whole and draw.random() < 0.625:
                columns[6] = "_"
            lines.append("\t".join(columns))
        half.append("\n".join(lines))
        whole += [half[-1]] * is_whole
    tested = treebank_from_bytes(generate(200, 2), "tested")
    options = changed(OPTIONS, epochs=6, cost_augmented=True, single_root="auto")
    scores, missing = [], []
    for blocks in (text.strip().split("\n\n"), half, whole):
        treebank = treebank_from_bytes(("\n\n".join(blocks) + "\n\n").encode(), "train")
        missing.append((treebank.heads < 0).mean())
        trainer = learned(Trainer(treebank, RICH, None, options))
        assert trainer.single_root
        scores.append(attachment(trainer.model(16), tested))
    of_all, of_half, of_whole = scores
    assert 0.45 < missing[1] < 0.55
    assert missing[0] == missing[2] == 0
    assert of_half > of_all - 3
    assert of_half > of_whole + 1


@pytest.mark.parametrize(
    "change",
    [{}, {"labels_kind": "joint", "k": 3}, {"rule": "conditional", "max_step": 0.1},
     {"rule": "mira-factored"}, {"decoder": "chu_liu_edmonds"}],
    ids=["mira", "joint", "conditional", "factored", "non-projective"],
)  # fmt: skip
def test_a_resumed_run_ends_with_the_same_model(change: dict) -> None:
    options: RunConfig = changed(OPTIONS, label_epochs=2, epochs=3, **change)
    sentences = without_heads(random_sentences(93, 20, 8), 0.4, 3)
    whole = fingerprint(learned(trainer_of(sentences, options, labels=LABELS)).model(16))
    for after in (1, 2, 3):
        first, epochs = trainer_of(sentences, options, labels=LABELS), 0
        for progress in first.learn():
            epochs += progress.epoch_is_over
            if epochs == after:
                break
        state = {name: array.copy() for name, array in first.state().items()}
        second = trainer_of(sentences, options, labels=LABELS)
        second.restore(state)
        assert fingerprint(learned(second).model(16)) == whole


@pytest.mark.parametrize("kind", ["second-stage", "joint"])
def test_case_13_labels_of_words_without_a_head_are_not_learned_from(kind: str) -> None:
    """Whatever DEPREL says there."""
    options = changed(OPTIONS, labels_kind=kind, label_epochs=2)
    sentences = without_heads(random_sentences(94, 25, 7), 0.5, 4)
    # All relations in the order of the first file, so that both files number them alike.
    sentences = [*random_sentences(95, 3, 9), *sentences]
    others = [[[*w[:7], "obj", *w[8:]] if w[6] == "_" else w for w in s] for s in sentences]
    assert others != sentences
    ours, theirs = (
        fingerprint(learned(trainer_of(each, options, labels=LABELS)).model(16))
        for each in (sentences, others)
    )
    assert ours == theirs


@pytest.mark.parametrize("decoder", ["eisner", "hill_climb", "eisner_sibling"])
def test_known_heads_that_cross_are_taken_to_be_unknown(decoder: str) -> None:
    """Where a tree is to be completed by a projective search; one with all its heads stays."""
    crossing = random_sentences(96, 25, 8, projective=False)
    options = changed(OPTIONS, decoder=decoder)
    trainer = trainer_of(without_heads(crossing, 0.3, 5), options, labels=LABELS)
    assert trainer.n_unreachable > 2
    model = learned(trainer).model(16)
    assert np.count_nonzero(model.linear.arcs.array) > 50
    assert (model.linear.plan.siblings is not None) == DECODERS[decoder].reads_siblings
    assert len(model.parse(treebank_of(crossing)).heads) == sum(map(len, crossing))
