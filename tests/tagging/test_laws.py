"""Laws of the tagger, the lemmatiser and of both as stages, and of rules and tags by definition."""

import random
import re
from collections import Counter
from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuparse.data.conll import treebank_from_bytes
from gpuparse.data.vocabulary import numbered_rows
from gpuparse.model.pipeline import Pipeline
from gpuparse.text.sequences.tags import starts_of
from gpuparse.text.sequences.templates import parse_sequence_templates
from gpuparse.text.tagging.composition import composed
from gpuparse.text.tagging.dictionary import combined
from gpuparse.text.tagging.fields import (
    SeenTags,
    Words,
    WordSequences,
    _Forms,
    is_field,
    known_forms,
    value_of,
)
from gpuparse.text.tagging.lemmatizer import LemmaRule, RulesByEnd, learn_lemmatizer, rule_of
from gpuparse.text.tagging.tagger_learner import learn_tagger
from tests.oracles.fields import text_of
from tests.small_stages import small_stages
from tests.strategies import some
from tests.synthetic import generate

# Letters whose other case is another letter, several letters, or depends on the place.
LETTERS = "abcABC éÉß\u017f\u0130\u0131\u01c5\u03a3\u03c3\u03c21-'"
words = st.text(st.sampled_from(LETTERS), max_size=9)
plain_words = st.text("abc", min_size=1, max_size=9)
examples = settings(max_examples=some(2000), deadline=None)


@examples
@given(form=words, lemma=words)
def test_the_rule_of_a_form_and_its_lemma_makes_the_lemma(form, lemma):
    rule = rule_of(form, lemma)
    assert rule.apply(form) == lemma
    assert rule.case == "whole" or rule.fits(form)
    assert LemmaRule(*rule.text().split("\t")) == rule


@pytest.mark.parametrize(
    ("form", "lemma", "other_form", "other_lemma"),
    [
        ("Singing", "sing", "Walking", "walk"),
        ("MARIA", "Maria", "EVA", "Eva"),
        ("usa", "USA", "un", "UN"),
        ("McCoys", "McCoy", "O'Neills", "O'Neill"),
    ],
    ids=["lower", "title", "upper", "keep"],
)
def test_a_rule_makes_lemmas_of_other_forms_with_the_same_case(
    form, lemma, other_form, other_lemma, request
):
    rule = rule_of(form, lemma)
    assert rule.case == request.node.callspec.id
    assert rule.apply(other_form) == other_lemma


@examples
@given(form=plain_words, lemma=plain_words)
def test_a_rule_keeps_the_longest_string_that_both_have(form, lemma):
    substrings = (form[i:j] for i in range(len(form)) for j in range(i + 1, len(form) + 1))
    longest = max((len(each) for each in substrings if each in lemma), default=0)
    rule = rule_of(form, lemma)
    if longest:
        assert len(form) - len(rule.beginning) - len(rule.end) == longest
    else:
        assert rule.case == "whole"


@examples
@given(form=words, pairs=st.lists(st.tuples(words, words), max_size=30))
def test_the_candidates_of_a_form_are_the_rules_that_fit_it(form, pairs):
    rules = list(dict.fromkeys(rule_of(*pair) for pair in [*pairs, ("abc", "ab"), ("Ab", "ab")]))
    fitting = [tag for tag, rule in enumerate(rules) if rule.case != "whole" and rule.fits(form)]
    assert sorted(RulesByEnd.of(range(len(rules)), rules).candidates(form).tolist()) == fitting


@examples
@given(
    st.lists(
        st.text(st.characters(codec="utf-8", exclude_characters="\n"), max_size=15)
        | st.text("aBzé-/.1²\u01c5ß中", max_size=9),
        unique=True,
    )
)
def test_fields_of_forms_are_those_of_the_definition(forms):
    fields = [
        "form", "lower", "lower[:2]", "lower[-3:]", "shape", "shape[:8]", "case", "seen",
        "seen[:-2]", "seen[2:]", "seen.last",
    ]  # fmt: skip
    lowers = {form.lower() for form in forms}
    parts = {
        part for word in lowers for part in (word, word[:-2], word[2:], *re.split("[-/]", word))
    }
    classes = {part: f"N{len(part)}" for part in sorted(parts) if len(part) % 3 < 2}
    seen = SeenTags.of_classes(classes)
    known = _Forms(fields, seen)
    _, rows = known.read(forms)
    values, letters, _ = known.arrays
    for form, row in zip(forms, rows.tolist(), strict=True):
        expected = [value_of(text_of(field, form, classes.get)) for field in fields]
        assert values[:, row].tolist() == expected
        is_letter = form[:1].isalpha()
        assert letters[row].tolist() == [
            is_letter,
            form[:1].isupper(),
            is_letter and form.isupper(),
        ]


def capitals_of(sentence):
    letters = [form for form in sentence if form[:1].isalpha()]
    capital = sum(form[:1].isupper() for form in letters)
    upper = sum(form.isupper() for form in letters)
    level = 0
    if letters:
        level = 1 if 2 * capital <= len(letters) else 2 + (2 * upper >= len(letters))
    return 4 + level + 4 * (len(sentence) < 4)


@examples
@given(
    sentences=st.lists(st.lists(words, min_size=1, max_size=6), min_size=1, max_size=4),
    lists=st.lists(st.lists(st.integers(0, 9), max_size=3), min_size=1, max_size=4),
    data=st.data(),
)
def test_words_as_sequences_are_those_of_the_definition(sentences, lists, data):
    forms = [form for sentence in sentences for form in sentence]
    distinct = list(dict.fromkeys(forms))
    ids = np.array([distinct.index(form) for form in forms], np.int32)
    of_words = Words(starts_of(map(len, sentences)), ids, distinct)
    numbers = st.lists(st.integers(0, 9), min_size=len(forms), max_size=len(forms))
    given, chosen = data.draw(numbers), data.draw(numbers)
    templates = parse_sequence_templates(
        "name: x\ntemplates: [w.form w-1.lower, w.seen w+2.form, w.place, w-1.capitals w.seen]",
        "x", is_field,
    )  # fmt: skip
    known = known_forms(templates.fields, SeenTags.of_classes({}))
    reader = WordSequences(templates, ["seen"], known)
    of_seen = np.array([given], np.uint32)
    values, places = reader.read_values(of_words, of_seen)
    rows = {name: [] for name in templates.fields}
    seen = iter(given)
    for sentence in sentences:
        for name, row in rows.items():
            row += [1] * 4
            if name in ("form", "lower"):
                row += [value_of(form if name == "form" else form.lower()) for form in sentence]
            elif name == "seen":
                row += [next(seen) for _ in sentence]
            elif name == "place":
                row += [4 + min(k, 2) for k in range(len(sentence))]
            else:
                row += [capitals_of(sentence)] * len(sentence)
            row += [2] * 4
    assert values.tolist() == [rows[name] for name in templates.fields]
    of_places = [place for place, value in enumerate(rows["place"]) if value >= 4]
    assert places.tolist() == of_places
    which = np.array([k % len(lists) for k in chosen], np.int32)
    found = reader.read(of_words, of_seen, which, [np.array(each, np.int32) for each in lists])
    assert (found.features == templates.features(values, places)).all()
    bounds = pairwise(found.candidate_starts.tolist())
    candidates = [found.candidates[a:b].tolist() for a, b in bounds]
    assert candidates == [lists[k] for k in which.tolist()]
    assert found.starts.tolist() == of_words.starts.tolist()


def test_composed_feats_are_those_of_the_definition():
    draw, n_new = random.Random(1), 0
    for _ in range(some(2000)):
        counts = Counter()
        for _ in range(draw.randrange(1, 9)):
            names = draw.sample("CNPT", draw.randrange(1, 4))
            value = "|".join(f"{name}={draw.choice('12')}" for name in sorted(names))
            counts[value] += draw.randrange(1, 5)
        known = {frozenset(value.split("|")) for value in counts}
        pairs = {frozenset(pair) for value in known for pair in combinations(value, 2)}
        single = {attribute for value in known for attribute in value}
        near = {
            (value - {old}) | {new}
            for value in known for old in value for new in single
            if new[0] == old[0] and new != old
        }  # fmt: skip
        possible = {
            value for value in near - known
            if all(frozenset(pair) in pairs for pair in combinations(value, 2))
        }  # fmt: skip
        found = [frozenset(value.split("|")) for value in composed(counts)]
        assert len(set(found)) == len(found) == min(len(possible), len(counts))
        assert set(found) <= possible
        n_new += len(found)
    assert n_new > 100


TRAIN = treebank_from_bytes(generate(120, 1), "train")
GIVEN = generate(30, 2)


@pytest.fixture(scope="module")
def stages() -> Pipeline:
    with small_stages(rows=1 << 14):
        tagger = learn_tagger(TRAIN, seed=1)
        return Pipeline(None, tagger, learn_lemmatizer(TRAIN, seed=1))


def rows_of(text: bytes) -> list[list[str]]:
    return [line.split("\t") for line in text.decode().split("\n")]


def is_word(row: list[str]) -> bool:
    return len(row) == 10 and row[0].isdigit()


def emptied(text: bytes, share: float = 1.0, seed: int = 1) -> bytes:
    """CoNLL-U with `_` in the columns of the stages, in a share of the words."""
    draw, lines = random.Random(seed), []
    for row in rows_of(text):
        if is_word(row) and draw.random() < share:
            row[2:6] = "____"
        lines.append("\t".join(row))
    return "\n".join(lines).encode()


def annotated(stages: Pipeline, text: bytes, **options) -> bytes:
    return stages.annotate(treebank_from_bytes(text, "text"), **options).data.tobytes()


def with_other_rows(text: bytes) -> bytes:
    """Comments and blank lines of several kinds, an empty node, and line ends of Windows."""
    text = b"# a comment\n\n\n" + text.replace(
        b"\n2\t", b"\n1.1\tx\tx\tX\tX\tA=B\t_\t_\t_\t_\n2\t", 3
    )
    return text.replace(b"\n", b"\r\n")


@pytest.mark.parametrize("text", [GIVEN, with_other_rows(GIVEN)], ids=["plain", "other rows"])
def test_only_the_columns_of_the_stages_change(stages, text):
    found = annotated(stages, emptied(text))
    assert found != emptied(text)
    assert emptied(found) == emptied(text)
    alone = Pipeline(None, None, stages.lemmatizer)
    lemmas = annotated(alone, text)
    for before, after in zip(rows_of(text), rows_of(lemmas), strict=True):
        assert before[:2] + before[3:] == after[:2] + after[3:]


def test_what_the_columns_had_before_changes_nothing(stages):
    found = annotated(stages, GIVEN)
    assert annotated(stages, emptied(GIVEN)) == found
    assert annotated(stages, found) == found


def test_no_sentence_depends_on_others_or_on_what_was_annotated_before(stages):
    blocks = GIVEN.split(b"\n\n")[:-1]
    expected = annotated(stages, GIVEN).split(b"\n\n")[:-1]
    order = random.Random(3).sample(range(len(blocks)), len(blocks))
    text = b"\n\n".join(blocks[k] for k in order) + b"\n\n"
    for threads in (1, 3):
        found = annotated(stages, text, threads=threads).split(b"\n\n")[:-1]
        assert [found[order.index(k)] for k in range(len(blocks))] == expected
    assert annotated(stages, blocks[0] + b"\n\n") == expected[0] + b"\n\n"


@pytest.mark.parametrize("share", [0.0, 0.4, 1.0])
def test_what_is_kept_stays_and_what_is_missing_is_filled(stages, share):
    text = emptied(GIVEN, share)
    found = annotated(stages, text, keep=True)
    for before, after in zip(rows_of(text), rows_of(found), strict=True):
        if is_word(before):
            given = before[3] != "_"
            assert after[2:6] == before[2:6] if given else "_" not in after[2:4], before
    if share == 1.0:
        assert found == annotated(stages, text)


def test_probabilities_come_with_the_same_tags(stages):
    treebank = treebank_from_bytes(emptied(GIVEN), "text")
    found, probabilities = stages.annotate_with_probabilities(treebank)
    assert found.data.tobytes() == annotated(stages, GIVEN)
    assert probabilities.shape == (treebank.n_words,)
    assert ((probabilities > 0) & (probabilities <= 1 + 1e-12)).all()
    kept = stages.annotate_with_probabilities(treebank_from_bytes(GIVEN, "text"), keep=True)
    assert kept[0].data.tobytes() == GIVEN
    assert np.isnan(kept[1]).all()


@examples
@given(rows=st.lists(st.tuples(*[st.integers(0, 3)] * 3), max_size=40), times=st.integers(1, 9))
def test_equal_rows_have_one_number(rows, times):
    rows = rows * times  # of many, native code numbers them
    columns = np.array(rows, np.int32).reshape(-1, 3).T
    numbers, firsts = numbered_rows(list(columns))
    distinct = list(dict.fromkeys(rows))
    assert numbers.tolist() == [distinct.index(row) for row in rows]
    assert firsts.tolist() == [rows.index(row) for row in distinct]
    names = ["a", "b", "c", "d"]
    found = combined(*[(column, names) for column in columns])
    assert found[1] == ["\t".join(names[i] for i in row) for row in distinct]
