"""Explanations add up to the scores, for every decoder and kind of template set."""

import functools
import json
import random
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gpuparse.__main__ import main
from gpuparse.api.reasons import Reasons
from gpuparse.data.draw import display_width
from gpuparse.errors import ConfigError, ScoreError
from gpuparse.features.templates import TemplateSet, parse_set
from gpuparse.inference.decoders import DECODERS
from gpuparse.jobs.reasons import as_dict, as_text
from gpuparse.learning.trainer import Trainer
from gpuparse.model.confidence import parse_with_confidence
from gpuparse.model.engines.fused_features import SentenceFeatures
from gpuparse.model.engines.searcher import BatchOptions
from gpuparse.model.explain import Explanation, explain
from gpuparse.model.folder import save_parser
from gpuparse.model.parser import Parser
from tests.graphs_by_place import acyclic_graph, with_deps
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
from tests.oracles.tree_features import Answer
from tests.runs import changed
from tests.samples import random_sentences, template_set_text, text_of, treebank_of
from tests.test_vector_models import ALONE, BOTH, GRANDPARENTS, KEYS, SIBLINGS

OF_TREES = [name for name, decoder in DECODERS.items() if not decoder.gives_graphs]
TRAIN_SENTENCES = random_sentences(90, 25, 8)
TRAIN = treebank_of(TRAIN_SENTENCES)
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
    options, treebank = replace(options, word_vectors=keys), TRAIN
    if DECODERS[decoder].gives_graphs:
        draw = random.Random(92)
        treebank = treebank_of([with_deps(s, acyclic_graph(draw, s)) for s in TRAIN_SENTENCES])
    trainer = Trainer(treebank, templates, labels, options, guides=guides)
    return learned(trainer).model(16, "seed: 1\n")


def explanations(model: Parser, **options: object) -> list[Explanation]:
    return [
        explain(model, TEST, sentence, word, **options)
        for sentence, words in enumerate(SENTENCES, start=1)
        for word in range(1, len(words) + 1, 5)
        if len(words) > 1
    ]


def number_of(each: Explanation) -> int:
    """The number of its sentence, from 1."""
    return [[row[1] for row in words] for words in SENTENCES].index(list(each.forms)) + 1


def native_score(model: Parser, each: Explanation, heads: tuple[int, ...]) -> int:
    """The score of a tree in the search for k best trees, all its heads being known."""
    guides = TEST.heads if model.linear.templates.guide else None
    b = number_of(each) - 1
    batch = model.encode(TEST, guides).select(np.array([b]))
    known = np.full(batch.n_tokens, -1, np.int64)
    known[int(batch.starts[0]) + 1 :][: len(heads)] = heads
    return int(model.host.k_best(batch, known, 1, BatchOptions()).scores[0, 0])


def literal_score(model: Parser, each: Explanation, arcs: set[tuple[int, int]]) -> int:
    """The score of arcs and of sides without modifiers, by the text of the templates."""
    literal = Literal(SENTENCES, changed(OPTIONS, decoder="dual_decomposition"), model)
    b = number_of(each) - 1
    features = literal.features_of(b, Answer(frozenset(arcs)))
    return sum(int(model.linear.arcs.array[row, 0]) * times for row, times in features.items())


CASES = {
    **{name: (name, templates_for(name), LABELS, {}) for name in OF_TREES},
    "joint": ("eisner", FIRST_ORDER, JOINT, {"labels_kind": "joint"}),
    "labelled children": ("eisner_grandchild", ALL, WITH_CHILDREN, {"labels_kind": "joint"}),
    "pruned": ("eisner_grand_sibling", ALL, JOINT, {"labels_kind": "joint", "max_heads": 3}),
    "vectors and templates": ("chu_liu_edmonds", BOTH, BOTH, {}),
    "margin": ("chu_liu_edmonds", BOTH, BOTH, {"margin": 0.05}),
    "vectors": ("eisner", ALONE, ALONE, {"labels_kind": "joint"}),
    "vectors of siblings": ("eisner_sibling", SIBLINGS, None, {}),
    "vectors of grandparents": ("eisner_grand_sibling", GRANDPARENTS, None, {}),
    "guides": ("eisner", GUIDED, None, {}),
}


@functools.cache
def of_case(case: str) -> Parser:
    decoder, templates, labels, change = CASES[case]
    return trained(decoder, templates, labels, **change)


@pytest.mark.parametrize("case", CASES)
def test_lines_add_up_to_the_scores(case: str) -> None:
    decoder, templates, _, change = CASES[case]
    model, guides = of_case(case), TEST.heads if templates.guide else None
    found, heads = explanations(model, guides=guides), model.parse(TEST, guides=guides).heads
    for each in found:
        assert "".join(map(str, each.heads)) in "".join(map(str, heads))
        assert each.other_heads[each.word - 1] == each.other_head != each.head
        both = ((each.tree.score, each.heads), (each.tree.other_score, each.other_heads))
        if DECODERS[decoder].has("k_best", "native"):
            for score, tree in both:
                assert score == native_score(model, each, tree)
        if each.is_exact and model.linear.pruner is None:
            assert each.tree.score >= each.tree.other_score
        sums = [sum(line.weight for line in each.tree.lines)]
        sums.append(sum(line.other_weight for line in each.tree.lines))
        shared = each.tree.shared
        assert [shared + x for x in sums] == [each.tree.score, each.tree.other_score]
    assert any(line.weight for each in found for line in each.tree.lines)
    is_plain = templates.word_vectors is None and not change
    if is_plain and not DECODERS[decoder].has("k_best", "native"):
        each = found[-1]
        trees = [{(h, m) for m, h in enumerate(x, 1)} for x in (each.heads, each.other_heads)]
        scores = (literal_score(model, each, tree) for tree in trees)
        assert each.tree.score - next(scores) == each.tree.other_score - next(scores)


@pytest.mark.parametrize(
    "case", [name for name in CASES if "vectors" in name or name in ("margin", "eisner")]
)
def test_words_are_left_out_of_models_with_vectors(case: str) -> None:
    """As if the treebank had values there that training did not have."""
    _, templates, _, change = CASES[case]
    model, word, sentence = of_case(case), 2, SENTENCES[2]
    found = explain(model, TEST, 3, word)
    if templates.word_vectors is None:
        assert found.left_out == ()
        return
    effects = [abs(each.effect) for each in found.left_out]
    assert effects == sorted(effects, reverse=True)
    assert any(effects)
    others = [m for m in range(1, len(sentence) + 1) if m != word]
    assert sorted(each.word for each in found.left_out) == others
    is_joint = change.get("labels_kind") == "joint"
    for each in found.left_out:
        rows = [list(row) for row in sentence]
        rows[each.word - 1][1:6] = ["unseen"] * 5
        treebank = treebank_of([rows])
        [head] = model.parse(treebank).heads[word - 1 : word]
        assert each.head == head
        of_whole = found.left_out[0].difference + found.left_out[0].effect
        assert each.effect == pytest.approx(of_whole - each.difference)
        batch = model.encode(treebank)
        if not is_joint:
            features = SentenceFeatures(model.fused, model.labels, batch)
            ours, theirs = (
                features.arc_points(h, word, -1) for h in (found.head, found.other_head)
            )
            assert each.difference == pytest.approx((ours - theirs) * model.scales.arc)


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
        (3, 1, -1, "already"),
    ],
)
def test_what_is_not_there_is_refused(
    model: Parser, sentence: int, word: int, instead: int | None, fault: str
) -> None:
    """instead: -1 for the head that the word has."""
    instead = explain(model, TEST, 3, 1).head if instead == -1 else instead
    with pytest.raises(ConfigError, match=fault):
        explain(model, TEST, sentence, word, instead=instead)


def test_a_model_of_graphs_is_refused() -> None:
    model = trained("multi_parent", templates_for("multi_parent"))
    with pytest.raises(ConfigError, match="the model finds graphs"):
        explain(model, TEST, 3, 1)


def test_a_wrong_sum_is_an_error(model: Parser) -> None:
    choice = explain(model, TEST, 3, 1).tree
    with pytest.raises(ScoreError, match="this is a bug"):
        replace(choice, shared=choice.shared + 1).require_exact()


def test_tables_and_json_say_the_same(model: Parser) -> None:
    found = explain(model, TEST, 3, 1)
    assert found.tree is not None
    table = as_text(found, templates=True)
    given = json.loads(json.dumps(as_dict(found)))["tree"]
    for line, of_json in zip(found.tree.lines, given["lines"], strict=True):
        has_weight = bool(line.weight or line.other_weight)
        row = rf"(?m)^{re.escape(f'{line.difference:+d}')} .*  {re.escape(line.template)}  "
        assert re.search(row, table) or not has_weight
        assert of_json["difference"] == line.difference
    assert given["difference"] == sum(x["difference"] for x in given["lines"])
    assert as_text(found) == str(Reasons(found))


@pytest.mark.parametrize("case", CASES)
def test_reasons_in_words(case: str) -> None:
    """They fit into lines of 100 columns, and add up to the difference but for rounding."""
    found = explain(of_case(case), TEST, 3, 2, guides=TEST.heads if CASES[case][1].guide else None)
    assert found.tree is not None
    text = as_text(found)
    assert max(map(display_width, text.splitlines())) <= 100
    reasons = re.split(r"nats in all", text)[1]
    numbers = re.findall(r"^([+-]\d+\.\d\d)  ", reasons, re.MULTILINE)
    assert sum(map(float, numbers)) == pytest.approx(found.tree.nats, abs=0.006 * len(numbers))
    assert not re.search(r"[a-z]\.(pos|form|lemma)\b", text)


def test_probabilities_of_explanations(model: Parser) -> None:
    """They are equal to those of `parse`; the probabilities of all heads sum to 1."""
    for each in explanations(model):
        word, heads = each.word, range(len(each.forms) + 1)
        others = [h for h in heads if h not in (word, each.head)]
        assert each.probabilities is not None
        rest = [
            explain(model, TEST, number_of(each), word, instead=h).probabilities.other_head
            for h in others
        ]
        assert each.probabilities.head + sum(rest) == pytest.approx(1.0, abs=1e-9)
        found = parse_with_confidence(model, TEST)
        place = int(TEST.word_starts[number_of(each) - 1]) + word - 1
        assert found.head_probabilities is not None
        assert found.label_probabilities is not None
        assert each.probabilities.head == pytest.approx(found.head_probabilities[place], abs=1e-12)
        assert each.probabilities.relation == pytest.approx(
            found.label_probabilities[place], abs=1e-12
        )
        text = as_text(each)
        assert f"{each.probabilities.head:.4f}, of " in text
        assert "(not calibrated)" in text
    assert explain(trained("hill_climb", ALL, None), TEST, 3, 1).probabilities is None


def test_the_command_explains_a_word(
    model: Parser, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "model").mkdir()
    save_parser(model, tmp_path / "model")
    file = tmp_path / "in.conllu"
    file.write_bytes(TEST.data.tobytes())
    given = ["explain", str(tmp_path / "model"), str(file), "--sentence", "3", "--word", "1"]
    assert main(given) == 0
    assert "Why this head" in capsys.readouterr().out
    with pytest.raises(ConfigError, match="has several sentences; name one by --sentence, its"):
        main([word for word in given if word not in ("--sentence", "3")])
    (tmp_path / "one.conllu").write_bytes(text_of([SENTENCES[2]]).encode())
    words = [given[0], given[1], str(tmp_path / "one.conllu"), "--word", "1"]
    assert main(words) == 0
    alone = capsys.readouterr().out
    assert main(given) == 0
    assert capsys.readouterr().out == alone
    # The same by its sent_id.
    blocks = TEST.data.tobytes().decode().split("\n\n")
    named = tmp_path / "named.conllu"
    named.write_text("\n\n".join(f"# sent_id = {k}-{k}\n{each}" for k, each in enumerate(blocks)))
    by_name = [*given[:2], str(named), "--sentence", "2-2", "--word", "1"]
    assert main(by_name) == 0
    assert capsys.readouterr().out == alone
    with pytest.raises(ConfigError, match="and none with the number or sent_id 3-"):
        main([*given[:2], str(named), "--sentence", "3-", "--word", "1"])
    assert main([*given, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["word"] == 1
