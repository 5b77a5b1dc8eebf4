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
from tests.learning import literal
from tests.learning.test_trainer import (
    OPTIONS,
    fingerprint,
    gold_heads,
)
from tests.runs import changed
from tests.samples import Sentence, random_sentences, template_set_text, text_of, treebank_of
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


def guides_of(sentences: list[Sentence], seed: int = 3) -> np.ndarray:
    """Two of three guides are right, the others anything."""
    draw = np.random.default_rng(seed)
    gold = np.concatenate(gold_heads(sentences))
    return np.where(
        draw.random(len(gold)) < 2 / 3, gold, np.concatenate(random_guides(sentences, seed))
    )


def trained(
    options: RunConfig, guides: np.ndarray | None, sentences: list[Sentence] = SENTENCES,
    templates: TemplateSet = TEMPLATES, threads: int = 1,
) -> Trainer:  # fmt: skip
    trainer = Trainer(treebank_of(sentences), templates, None, options, threads, guides)
    for _ in trainer.learn():
        pass
    return trainer


@pytest.mark.parametrize(
    "change",
    [{}, {"batch_size": 4}, {"cost_augmented": True, "rule": "perceptron"}],
    ids=["plain", "batches", "cost"],
)
def test_the_average_is_the_literal_one(change: dict) -> None:
    options = changed(literal.OPTIONS, decoder="eisner_sibling", **change)
    literal.assert_the_average_is_literal(
        options, lambda seed: literal.toy_treebank("eisner", seed, [4, 3, 5, 1, 5, 2, 4]),
        templates=SECOND_ORDER, guide=guides_of,
    )  # fmt: skip


@pytest.mark.parametrize("decoder", ["eisner", "eisner_sibling", "hill_climb"])
def test_guides_are_followed_on_both_backends(decoder: str) -> None:
    """Guides that are always right, and sentences whose words say nothing: heads are the guides."""
    sentences = random_sentences(5, 40, 8)
    guides = np.concatenate(gold_heads(sentences))
    templates = SECOND_ORDER if decoder != "eisner" else TEMPLATES
    options = changed(OPTIONS, decoder=decoder, epochs=4)
    model = trained(options, guides, sentences, templates).model(16)
    other = random_sentences(6, 40, 8)
    gold = np.concatenate(gold_heads(other))
    treebank = treebank_of(other)
    found = model.parse(treebank, guides=gold).heads
    assert (found == gold).mean() > 0.9
    assert np.array_equal(model.parse(treebank, guides=gold, backend="torch").heads, found)
    assert np.array_equal(model.parse(treebank, guides=gold, batch_size=1, threads=2).heads, found)
    none = np.full_like(gold, -1)
    blind = model.parse(treebank, guides=none).heads
    assert np.array_equal(model.parse(treebank, guides=none, backend="torch").heads, blind)
    assert (blind == gold).mean() < 0.6


def test_threads_and_resuming_change_nothing() -> None:
    guides = guides_of(SENTENCES)
    options = changed(OPTIONS, batch_size=4)
    whole = trained(options, guides)
    assert fingerprint(trained(options, guides, threads=3).model(16)) == fingerprint(
        whole.model(16)
    )
    first = Trainer(treebank_of(SENTENCES), TEMPLATES, None, options, guides=guides)
    for event in first.learn():
        if event.epoch_is_over:
            state = {name: part.copy() for name, part in first.state().items()}
            break
    second = Trainer(treebank_of(SENTENCES), TEMPLATES, None, options, guides=guides)
    second.restore(state)
    for _ in second.learn():
        pass
    assert fingerprint(second.model(16)) == fingerprint(whole.model(16))


def test_guides_of_misc_and_of_a_file_make_the_same_model(tmp_path) -> None:
    guides = guides_of(SENTENCES)
    texts = ["" if h < 0 else str(h) for h in guides.tolist()]
    in_misc = treebank_from_bytes(with_misc(treebank_of(SENTENCES), {"Other": texts}), "misc")
    parsed = [[[*word] for word in sentence] for sentence in SENTENCES]
    for word, text in zip((w for s in parsed for w in s), texts, strict=True):
        word[6] = text or "_"
    (tmp_path / "guides.conllu").write_text(text_of(parsed))
    options = changed(OPTIONS)
    models = []
    for treebank, source in (
        (in_misc, "misc:Other"),
        (treebank_of(SENTENCES), str(tmp_path / "guides.conllu")),
    ):
        read = read_guides(treebank, source)
        assert np.array_equal(read, guides)
        trainer = Trainer(treebank, TEMPLATES, None, options, guides=read)
        for _ in trainer.learn():
            pass
        models.append(fingerprint(trainer.model(16)))
    assert models[0] == models[1]
    assert models[0] != fingerprint(trained(options, np.full_like(guides, -1)).model(16))


def test_a_model_keeps_its_guide_templates(tmp_path) -> None:
    guides = guides_of(SENTENCES)
    model = trained(OPTIONS, guides, templates=load_templates("guided")).model(16)
    save_parser(model, tmp_path)
    loaded = load_parser(tmp_path)
    assert loaded.linear.templates.guide == model.linear.templates.guide != ()
    treebank = treebank_of(SENTENCES)
    found = loaded.parse(treebank, guides=guides).heads
    assert np.array_equal(found, model.parse(treebank, guides=guides).heads)
    with pytest.raises(ConfigError, match="reads guides, and there are none"):
        loaded.parse(treebank)


def test_guides_without_templates_and_templates_without_guides_are_refused() -> None:
    bare, guides = parse_set(template_set_text(arc=ARC), "bare"), guides_of(SENTENCES)
    with pytest.raises(ConfigError, match="learned without guides, and guides are given"):
        trained(OPTIONS, guides, templates=bare)
    with pytest.raises(ConfigError, match="reads guides, and there are none"):
        trained(OPTIONS, None)
    model = trained(OPTIONS, None, templates=bare).model(8)
    with pytest.raises(ConfigError, match="learned without guides, and guides are given"):
        model.parse(treebank_of(SENTENCES), guides=guides)
