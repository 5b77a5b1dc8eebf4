"""Explanations add up to the scores of trees, for every decoder and kind of template set."""

import html
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gpuparse.__main__ import main
from gpuparse.commands.explain import as_dict, as_html, as_text
from gpuparse.confidence import find_k_best
from gpuparse.errors import ConfigError, ScoreError
from gpuparse.explaining import Explanation, explain
from gpuparse.features.templates import TemplateSet, parse_set
from gpuparse.inference.decoders import DECODERS
from gpuparse.learning.trainer import Trainer
from gpuparse.model_folder import save_parser
from gpuparse.parser import Parser
from tests.learning.literal import (
    ALL,
    FIRST_ORDER,
    JOINT,
    OPTIONS,
    WITH_CHILDREN,
    Literal,
    learned,
    templates_for,
)
from tests.oracles.online import Answer
from tests.runs import changed
from tests.samples import random_sentences, template_set_text, treebank_of
from tests.test_vector_models import ALONE, BOTH, GRANDPARENTS, KEYS, SIBLINGS

OF_TREES = [name for name, decoder in DECODERS.items() if not decoder.gives_graphs]
TRAIN = treebank_of(random_sentences(90, 25, 8))
SENTENCES = random_sentences(91, 4, 7)
TEST = treebank_of(SENTENCES)
LABELS = parse_set(
    template_set_text(label=["m.form h.pos direction", "l.form q.pos", "m.pos g.form distance"]),
    "labels",
)
GUIDED = parse_set(
    template_set_text(arc=["h.form m.form"])
    + "guide:\n  - templates: ['', h.pos m.pos direction]\n",
    "guided",
)


def trained(
    decoder: str, templates: TemplateSet, labels: TemplateSet | None = None, **change: object
) -> Parser:
    keys = replace(KEYS, margin=change.pop("margin", None))
    options = changed(OPTIONS, decoder=decoder, label_rows=1 << 10, **change)
    guides = TRAIN.heads if templates.guide else None
    options = replace(options, word_vectors=keys)
    return learned(Trainer(TRAIN, templates, labels, options, guides=guides)).model(16, "seed: 1\n")


def explanations(model: Parser, **options: object) -> list[Explanation]:
    return [
        explain(model, TEST, sentence, word, **options)
        for sentence, words in enumerate(SENTENCES, start=1)
        for word in range(1, len(words) + 1, 5)
        if len(words) > 1
    ]


def native_score(model: Parser, each: Explanation, heads: tuple[int, ...]) -> int:
    """What a tree scores in the search for k best trees, all its heads being known."""
    guides = TEST.heads if model.templates.guide else None
    b = [[row[1] for row in words] for words in SENTENCES].index(list(each.forms))
    batch = model.encode(TEST, guides).select(np.array([b]))
    shape = 1, batch.values.shape[1]
    known = np.full(shape[1], -1, np.int64)
    known[int(batch.starts[0]) + 1 :][: len(heads)] = heads
    nothing = np.full(shape, -1, np.int64)
    return int(find_k_best(model, batch, known, nothing, nothing.copy())[0, 0])


def literal_score(model: Parser, each: Explanation, heads: tuple[int, ...]) -> int:
    """What a tree scores by the text of the templates, and what all sides without modifiers do."""
    literal = Literal(SENTENCES, changed(OPTIONS, decoder="dual_decomposition"), model)
    b = [[row[1] for row in words] for words in SENTENCES].index(list(each.forms))
    arcs = frozenset((h, m) for m, h in enumerate(heads, start=1))
    features = literal.features_of(b, Answer(arcs))
    return sum(int(model.arcs.array[row, 0]) * times for row, times in features.items())


CASES = {
    **{name: (name, templates_for(name), LABELS, {}) for name in OF_TREES},
    "joint": ("eisner", FIRST_ORDER, JOINT, {"labels_kind": "joint"}),
    "labelled children": ("eisner_grandchild", ALL, WITH_CHILDREN, {"labels_kind": "joint"}),
    "pruned": ("eisner_grand_sibling", ALL, JOINT, {"labels_kind": "joint", "max_heads": 3}),
    "vectors and templates": ("chu_liu_edmonds", BOTH, BOTH, {}),
    "margin": ("chu_liu_edmonds", BOTH, BOTH, {"margin": 0.3}),
    "vectors": ("eisner", ALONE, ALONE, {"labels_kind": "joint"}),
    "vectors of siblings": ("eisner_sibling", SIBLINGS, None, {}),
    "vectors of grandparents": ("eisner_grand_sibling", GRANDPARENTS, None, {}),
    "guides": ("eisner", GUIDED, None, {}),
}


@pytest.mark.parametrize("case", CASES)
def test_lines_add_up_to_the_scores(case: str) -> None:
    decoder, templates, labels, change = CASES[case]
    model = trained(decoder, templates, labels, **change)
    guides = TEST.heads if templates.guide else None
    found, heads = explanations(model, guides=guides), model.parse(TEST, guides=guides).heads
    for each in found:
        assert "".join(map(str, each.heads)) in "".join(map(str, heads))
        assert each.other_heads[each.word - 1] == each.other_head != each.head
        both = ((each.tree.score, each.heads), (each.tree.other_score, each.other_heads))
        if DECODERS[decoder].has("k_best", "native"):
            for score, tree in both:
                assert score == native_score(model, each, tree)
        if each.is_exact and model.pruner is None:
            assert each.tree.score >= each.tree.other_score
        sums = [sum(line.weight for line in each.tree.lines)]
        sums.append(sum(line.other_weight for line in each.tree.lines))
        shared = each.tree.shared
        assert [shared + x for x in sums] == [each.tree.score, each.tree.other_score]
        if each.label:
            assert sum(line.weight for line in each.label.lines) == each.label.score
            assert each.label.score >= each.label.other_score
    assert any(line.weight for each in found for line in each.tree.lines)
    is_plain = templates.word_vectors is None and not change
    if is_plain and not DECODERS[decoder].has("k_best", "native"):
        each = found[-1]
        scores = (literal_score(model, each, tree) for tree in (each.heads, each.other_heads))
        assert each.tree.score - next(scores) == each.tree.other_score - next(scores)


@pytest.fixture(scope="module")
def model() -> Parser:
    return trained("eisner_sibling", templates_for("eisner_sibling"), LABELS)


def test_the_other_head_is_that_of_the_second_best_tree_or_the_one_asked_for(model: Parser) -> None:
    word = 1
    free = explain(model, TEST, 3, word)
    others = [h for h in range(len(free.forms) + 1) if h not in (word, free.head)]
    asked = [explain(model, TEST, 3, word, instead=h) for h in others]
    assert [each.other_head for each in asked] == others
    assert free.tree.other_score == max(each.tree.other_score for each in asked)
    assert all(each.is_asked for each in asked)
    assert not free.is_asked


def test_values_are_those_that_the_templates_read(model: Parser) -> None:
    found = explain(model, TEST, 3, 1)
    words, (head, word) = SENTENCES[2], (found.head, found.word)
    [line] = [
        line
        for line in found.tree.lines
        if (line.word, line.part) == (word, "arc")
        and line.template == "h.pos m.pos direction distance"
    ]
    tags = [words[i - 1][3] if i else "(root)" for i in (head, word)]
    expected = f"{tags[0]} {tags[1]} {'right' if head < word else 'left'} {abs(head - word)}"
    assert line.values == (expected,)


@pytest.mark.parametrize(
    ("sentence", "word", "instead", "fault"),
    [
        (0, 1, None, "sentences 1 to 4"),
        (5, 1, None, "sentences 1 to 4"),
        (3, 0, None, "has words 1 to"),
        (3, 99, None, "has words 1 to"),
        (3, 1, 1, "another word"),
        (3, 1, 99, "another word"),
    ],
)
def test_what_is_not_there_is_refused(
    model: Parser, sentence: int, word: int, instead: int | None, fault: str
) -> None:
    with pytest.raises(ConfigError, match=fault):
        explain(model, TEST, sentence, word, instead=instead)


def test_the_head_that_a_word_has_is_refused(model: Parser) -> None:
    head = explain(model, TEST, 3, 1).head
    with pytest.raises(ConfigError, match="already"):
        explain(model, TEST, 3, 1, instead=head)


def test_graphs_are_refused(model: Parser) -> None:
    graphs = replace(model, decoder="multi_parent", search_decoder="multi_parent")
    with pytest.raises(ConfigError, match="finds graphs"):
        explain(graphs, TEST, 3, 1)


def test_a_wrong_sum_is_an_error(model: Parser) -> None:
    choice = explain(model, TEST, 3, 1).tree
    with pytest.raises(ScoreError, match="this is a bug"):
        replace(choice, shared=choice.shared + 1).require_exact()


def test_tables_json_and_pages_say_the_same(model: Parser) -> None:
    found = explain(model, TEST, 3, 1)
    text, page = as_text(found, show_all=True), as_html(found, show_all=True)
    given = as_dict(found)
    for line in found.tree.lines:
        assert line.template in text
        assert html.escape(line.template) in page
    assert len(json.loads(json.dumps(given))["tree"]["lines"]) == len(found.tree.lines)
    assert given["tree"]["difference"] == sum(x["difference"] for x in given["tree"]["lines"])
    assert "http" not in page
    assert len(as_text(found)) <= len(text)


def test_the_command_explains_a_word(
    model: Parser, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "model").mkdir()
    save_parser(model, tmp_path / "model")
    file, page = tmp_path / "in.conllu", tmp_path / "why.html"
    file.write_bytes(TEST.data.tobytes())
    given = ["explain", str(tmp_path / "model"), str(file), "--sentence", "3", "--word", "1"]
    assert main(given) == 0
    assert "Why this head" in capsys.readouterr().out
    assert main([*given, "--json", "--html", str(page)]) == 0
    assert json.loads(capsys.readouterr().out)["word"] == 1
    assert page.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
