"""Rules of multiword tokens: what they learn, and that a treebank's own tokens come back."""

import json
import random
from pathlib import Path

import pytest

from gpuparse.data.conll import read_treebank
from gpuparse.text import multiword
from gpuparse.text.examples import text_examples
from gpuparse.text.multiword import (
    SplitRule,
    SplitRules,
    learn_rules,
    lower,
    split_fault,
    without_accents,
)

DATA = Path(__file__).parents[3] / "shared" / "data"


def splits(rules, token):
    return [rules.words(token, number) for number in rules.fitting(token)]


@pytest.mark.parametrize("name", ["french-sequoia/train", "english-ewt/en_ewt-ud-train"])
def test_multiword_tokens_of_treebanks_come_back(name):
    path = DATA / f"{name}.conllu"
    if not path.is_file():
        pytest.skip("needs the treebank")
    tokens = text_examples(read_treebank(path)).words
    rules = SplitRules.unpacked(json.loads(json.dumps(learn_rules(tokens).packed())))
    several = {each for each in tokens if len(each[1]) > 1}
    assert len(several) > 10
    lost = [each for each in several if list(each[1]) not in splits(rules, each[0])]
    assert not lost


def test_fitting_rules_are_those_of_the_definition():
    draw = random.Random(1)
    texts = ["", "a", "b", "ab", "ba", "abc", "c"]
    for _ in range(200):
        rules = []
        for _ in range(draw.randrange(1, 12)):
            front, back = draw.choice(texts), draw.choice(texts)
            if not front and not back:
                continue
            shortest = draw.randrange(4)
            if shortest:
                rules.append(SplitRule(front, back, ("x",), "", "", ("y",), False, shortest))
            else:
                rules.append(SplitRule(front + back, "", ("x", "y"), "", "", (), False, 0))
        made = SplitRules(rules, {})
        for _ in range(50):
            token = "".join(draw.choice("abcABC") for _ in range(draw.randrange(1, 8)))
            wanted = [k for k, rule in enumerate(rules) if rule.words(token) is not None]
            assert made.fitting(token) == wanted


def test_tokens_that_no_rule_can_split_are_named_with_the_reason():
    words = tuple("abcdefghijklmnopq")
    assert split_fault("".join(words[:16]), words[:16]) == ""
    assert "more than 16 words" in split_fault("".join(words), words)
    assert "more than 100 characters" in split_fault(101 * "a", ("a", 100 * "a"))
    assert "for each one that it takes off" in split_fault("a", ("a", "b", "c"))
    assert not learn_rules([("".join(words), words)]).rules


def test_case_and_accents():
    assert lower("ÉTÉ İ") == "été İ"
    assert lower("ΣΤΟΥΣ") == "στους"
    assert without_accents("dándoñü") == "dandoñü"
    tokens = [(f"{stem}rlo", (f"{stem}r", "lo")) for stem in ("da", "ve", "come")]
    tokens += [("dárselo", ("dar", "se", "lo")), ("tomárselo", ("tomar", "se", "lo"))]
    tokens += [("du", ("de", "le"))] * 3 + [("AU", ("À", "Le")), ("pelo", ("pelo",))]
    rules = learn_rules(tokens)
    assert ["llevar", "se", "lo"] in splits(rules, "llevárselo")
    assert ["Mirar", "lo"] in splits(rules, "Mirarlo")
    assert splits(rules, "Du") == [["De", "le"]]
    assert splits(rules, "DU") == [["DE", "le"]]
    assert splits(rules, "AU") == [["À", "Le"]]
    assert splits(rules, "pero") == []


def test_no_rule_is_too_long_for_a_model_and_there_are_not_too_many(monkeypatch):
    long = "ab" * 5000
    tokens = [(long, (long[:-1], "c")), ("du", ("de", "le" * 600)), ("des", ("de", "les"))]
    assert [rule.front for rule in learn_rules(tokens).rules] == ["des"]
    monkeypatch.setattr(multiword, "MOST", 3)
    tokens = [(c * 3, ("x" + c, "yy" + c)) for c in "abcdef"] * 2 + [("fff", ("xf", "yyf"))]
    rules = learn_rules(tokens)
    assert len(rules.rules) == 3
    assert splits(rules, "fff") == [["xf", "yyf"]], "the most frequent one is kept"
    SplitRules.unpacked(rules.packed())


def test_rules_that_no_model_may_have_are_not_learned():
    many = tuple("abcdefghijklmnopq")
    tokens = [
        ("".join(many), many),
        ("x", ("y", "z", "w")),
        ("&", ("a", "b" * 20)),
        ("v", ("a", "b")),
    ]
    rules = learn_rules(tokens)
    assert [rule.front for rule in rules.rules] == ["v"]
    assert SplitRules.unpacked(rules.packed()).rules == rules.rules


def test_no_stem_is_a_space():
    rule = SplitRule("10", "000", ("a",), "", "", ("b",), False, 1)
    for token, words in (("10 000", []), ("101000", [["a", "1", "b"]])):
        assert splits(SplitRules([rule], {}), token) == words
        assert rule.words(token) == (words[0] if words else None)


@pytest.mark.parametrize(
    "row",
    [
        [], ["a", "", [], "", "", [], False, 0], ["", "", ["a", "b"], "", "", [], False, 0],
        ["a", "", ["b\n", "c"], "", "", [], False, 0], ["a", "", ["b", ""], "", "", [], False, 0],
        ["a" * 1001, "", ["b", "c"], "", "", [], False, 0],
        ["a", "", ["b", "c"], "", "", [], 0, 0], ["a", "", ["b", "c"], "", "", [], False, -1],
    ],
)  # fmt: skip
def test_damaged_rules_are_refused(row):
    with pytest.raises(ValueError, match="rule"):
        SplitRules.unpacked({"rules": [row], "exceptions": {}})
