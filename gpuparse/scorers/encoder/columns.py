"""The columns that an encoder fills: their values, and lemmas by the rules of the lemmatiser."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gpuparse.cached import cached_property
from gpuparse.data.lemma_rules import WHOLE, LemmaRule, is_rule, rule_of
from gpuparse.data.tag_columns import (
    FEATS,
    FORM,
    LEMMA,
    UPOS,
    XPOS,
    Column,
    read_column,
    require_values,
)
from gpuparse.data.treebank import Treebank

LEMMAS = "lemmas"
NUMBERS = {"upos": UPOS, "xpos": XPOS, "feats": FEATS, LEMMAS: LEMMA}
TAGS = ("upos", "xpos", "feats")
CHOICES = 8  # rules of a word, the most probable ones, of which the first that fits is taken
NOTHING = -1  # of words that nothing is learned from


@dataclass(frozen=True, eq=False)
class Values:
    """The values of each column that is filled, by its key in NUMBERS; of lemmas, the rules.

    known: the rules of known words, by form and UPOS with a tab between.
    """

    texts: Mapping[str, Sequence[str]]
    known: Mapping[str, int]

    @cached_property
    def rules(self) -> list[LemmaRule]:
        """The rules of lemmas."""
        return [LemmaRule(*text.split("\t")) for text in self.texts[LEMMAS]]

    @property
    def parts(self) -> dict[str, np.ndarray]:
        """Of FEATS: (n, attributes) whether a value has an attribute."""
        if "feats" not in self.texts:
            return {}
        has = [set(text.split("|")) - {"_"} for text in self.texts["feats"]]
        names = sorted(set().union(*has))
        return {"feats": np.array([[name in each for name in names] for each in has], np.bool_)}

    @property
    def sizes(self) -> dict[str, int]:
        """How many values each column has."""
        return {name: len(texts) for name, texts in self.texts.items()}

    @property
    def columns(self) -> tuple[int, ...]:
        """The numbers of the columns that are filled."""
        return tuple(sorted(NUMBERS[name] for name in self.texts))

    def tags(self, best: Mapping[str, np.ndarray]) -> dict[int, Column]:
        """UPOS, XPOS and FEATS of words; best: (W,) the number of each value."""
        return {
            NUMBERS[name]: Column(self.texts[name], best[name].astype(np.int32))
            for name in TAGS
            if name in best
        }

    def lemmas(self, forms: Column, upos: Column | None, choices: np.ndarray) -> Column:
        """LEMMA of words; choices: (W, CHOICES) rules, the most probable first.

        A known word with its UPOS has the lemma that it most often had; another one that of the
        first rule that fits its form; where none does, the form.
        """
        found: list[str] = []
        tags = ["_"] * len(forms.ids) if upos is None else upos.texts()
        made: dict[tuple[int, str, bytes], str] = {}
        for form, tag, rules in zip(forms.ids.tolist(), tags, choices, strict=True):
            key = form, tag, rules.tobytes()
            if key not in made:
                made[key] = self._lemma(forms.names[form], tag, rules.tolist())
            found.append(made[key])
        return Column.of_texts(found, np.arange(len(found)))

    def _lemma(self, form: str, tag: str, rules: Sequence[int]) -> str:
        for key in (f"{form}\t{tag}", f"{form.lower()}\t{tag}"):
            if (number := self.known.get(key)) is not None:
                rule = self.rules[number]
                if rule.case == WHOLE or rule.fits(form):
                    return rule.apply(form)
        for number in rules:
            rule = self.rules[number]
            if rule.case != WHOLE and rule.fits(form):
                return rule.apply(form)
        return form


def learned_values(
    treebank: Treebank, names: Sequence[str]
) -> tuple[Values, dict[str, np.ndarray]]:
    """The values of the columns of a treebank, and the (W,) numbers of its words, or NOTHING.

    A column that is `_` in all words is left out.

    Raises: DataError: a text that no model may write.
    """
    texts: dict[str, list[str]] = {}
    gold: dict[str, np.ndarray] = {}
    known: dict[str, int] = {}
    for name in names:
        column = read_column(treebank, NUMBERS[name])
        if set(column.names) <= {"_"}:
            continue
        require_values(treebank, "LEMMA" if name == LEMMAS else name.upper(), column.names)
        if name == LEMMAS:
            texts[name], gold[name], known = _rules(treebank, column)
            continue
        texts[name], gold[name] = list(column.names), column.ids.astype(np.int64)
        if name == "upos" and "_" in column.names:
            gold[name][column.ids == column.names.index("_")] = NOTHING
    return Values(texts, known), gold


def _rules(treebank: Treebank, lemmas: Column) -> tuple[list[str], np.ndarray, dict[str, int]]:
    """The rules, those of all words, and those of known words with their UPOS."""
    forms, upos = read_column(treebank, FORM), read_column(treebank, UPOS)
    numbers: dict[str, int] = {}
    of_pairs: dict[tuple[int, int], int] = {}
    gold = np.full(treebank.n_words, NOTHING, np.int64)
    counts: dict[str, Counter[int]] = {}
    words = zip(forms.ids.tolist(), lemmas.ids.tolist(), upos.ids.tolist(), strict=True)
    for place, (form, lemma, tag) in enumerate(words):
        if lemmas.names[lemma] == "_" and forms.names[form] != "_":
            continue
        number = of_pairs.get((form, lemma))
        if number is None:
            text = rule_of(forms.names[form], lemmas.names[lemma]).text()
            number = numbers.setdefault(text, len(numbers)) if is_rule(text) else NOTHING
            of_pairs[form, lemma] = number
        if number == NOTHING:
            continue
        gold[place] = number
        counts.setdefault(f"{forms.names[form]}\t{upos.names[tag]}", Counter())[number] += 1
    texts = list(numbers)
    whole = np.array([text.startswith(f"{WHOLE}\t") for text in texts], np.bool_)
    known = {key: min(each, key=lambda n: (-each[n], n)) for key, each in counts.items()}
    gold[(gold >= 0) & whole[gold]] = NOTHING  # rules of one word are known, not learned
    return texts, gold, known
