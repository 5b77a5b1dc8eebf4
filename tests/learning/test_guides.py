"""Learning with guides against the literal algorithm, and what must not change its result."""

import numpy as np
import pytest

from gpuparse.config import RunConfig
from gpuparse.data.conll import treebank_from_bytes, with_misc
from gpuparse.data.guides import read_guides
from gpuparse.errors import ConfigError
from gpuparse.features.templates import TemplateSet, load_templates, parse_set
from gpuparse.learning.trainer import Trainer
from gpuparse.model.folder import load_parser, save_parser
from tests.learning.literal import (
    OPTIONS,
    assert_the_average_is_literal,
    learned,
    toy_treebank,
    trainer_of,
)
from tests.runs import changed
from tests.samples import (
    Sentence,
    fingerprint,
    random_sentences,
    template_set_text,
    text_of,
    treebank_of,
)
from tests.scoring.test_guides import random_guides

ARC = ["h.pos m.pos", "h.form m.pos", "m.form direction", "h.pos between.pos m.pos"]
GUIDE = ["", "direction distance", "h.pos", "h.pos m.pos direction", "m.form"]
SIBLING = ["h.pos s.pos m.pos", "s.form m.pos"]
END = ["h.pos e.pos"]
TEMPLATES = parse_set(template_set_text(arc=ARC, guide=GUIDE), "guided")
SECOND_ORDER = parse_set(
    template_set_text(arc=ARC, guide=GUIDE, sibling=SIBLING, end=END), "second"
)
SENTENCES = random_sentences(50, 30, 6)


def gold_heads(sentences: list[Sentence]) -> np.ndarray:
    return np.array([int(word[6]) for sentence in sentences for word in sentence])


def guides_of(sentences: list[Sentence], seed: int = 3) -> np.ndarray:
    """Two of three guides are right, the others anything."""
    draw, gold = np.random.default_rng(seed), gold_heads(sentences)
    wrong = np.concatenate(random_guides(sentences, seed))
    return np.where(draw.random(len(gold)) < 2 / 3, gold, wrong)


def trained(
    options: RunConfig, guides: np.ndarray | None, sentences: list[Sentence] = SENTENCES,
    templates: TemplateSet = TEMPLATES,
) -> Trainer:  # fmt: skip
    return learned(trainer_of(sentences, options, templates=templates, guides=guides))


@pytest.mark.parametrize(
    "change",
    [{}, {"batch_size": 4}, {"cost_augmented": True, "rule": "perceptron"}],
    ids=["plain", "batches", "cost"],
)
def test_the_average_is_the_literal_one(change: dict) -> None:
    options = changed(OPTIONS, decoder="eisner_sibling", **change)
    assert_the_average_is_literal(
        options, lambda seed: toy_treebank("eisner", seed, [4, 3, 5, 1, 5, 2, 4]),
        templates=SECOND_ORDER, guide=guides_of,
    )  # fmt: skip


@pytest.mark.parametrize("decoder", ["eisner", "eisner_sibling", "hill_climb"])
def test_guides_are_followed_on_both_engines(decoder: str) -> None:
    """Guides that are always right, and sentences whose words say nothing: heads are the guides."""
    sentences, other = random_sentences(5, 40, 8), random_sentences(6, 40, 8)
    templates = SECOND_ORDER if decoder != "eisner" else TEMPLATES
    options = changed(OPTIONS, decoder=decoder, epochs=4)
    model = trained(options, gold_heads(sentences), sentences, templates).model(16)
    gold, treebank = gold_heads(other), treebank_of(other)
    found = model.parse(treebank, guides=gold).heads
    assert (found == gold).mean() > 0.9
    assert np.array_equal(model.parse(treebank, guides=gold, engine="torch").heads, found)
    assert np.array_equal(model.parse(treebank, guides=gold, batch_size=1, threads=2).heads, found)
    none = np.full_like(gold, -1)
    blind = model.parse(treebank, guides=none).heads
    assert np.array_equal(model.parse(treebank, guides=none, engine="torch").heads, blind)
    assert (blind == gold).mean() < 0.6


def test_guides_of_misc_and_of_a_file_make_the_same_model(tmp_path) -> None:
    guides = guides_of(SENTENCES)
    texts = ["" if h < 0 else str(h) for h in guides.tolist()]
    in_misc = treebank_from_bytes(with_misc(treebank_of(SENTENCES), {"Other": texts}), "misc")
    parsed = [[[*word] for word in sentence] for sentence in SENTENCES]
    for word, text in zip((w for s in parsed for w in s), texts, strict=True):
        word[6] = text or "_"
    path = tmp_path / "guides.conllu"
    path.write_text(text_of(parsed))
    models = []
    for treebank, source in ((in_misc, "misc:Other"), (treebank_of(SENTENCES), str(path))):
        read = read_guides(treebank, source)
        assert np.array_equal(read, guides)
        trainer = learned(Trainer(treebank, TEMPLATES, None, OPTIONS, guides=read))
        models.append(fingerprint(trainer.model(16)))
    assert models[0] == models[1]
    assert models[0] != fingerprint(trained(OPTIONS, np.full_like(guides, -1)).model(16))


def test_a_model_keeps_its_guide_templates(tmp_path) -> None:
    guides, treebank = guides_of(SENTENCES), treebank_of(SENTENCES)
    model = trained(OPTIONS, guides, templates=load_templates("guided")).model(16)
    save_parser(model, tmp_path)
    loaded = load_parser(tmp_path)
    assert loaded.linear.templates.guide == model.linear.templates.guide != ()
    found = loaded.parse(treebank, guides=guides).heads
    assert np.array_equal(found, model.parse(treebank, guides=guides).heads)
    with pytest.raises(ConfigError, match="reads guides, and there are none"):
        loaded.parse(treebank)
    bare = parse_set(template_set_text(arc=ARC), "bare")
    with pytest.raises(ConfigError, match="learned without guides, and guides are given"):
        trained(OPTIONS, None, templates=bare).model(8).parse(treebank, guides=guides)
