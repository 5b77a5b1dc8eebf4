"""The lemmatiser: a dictionary of words with their tags, and edit rules for other words.

A rule changes the beginning, the end and the case of a form: `ies` at the end becomes `y`. For a
word with tags that the training treebank does not have, a linear model chooses among the rules that
the UPOS was seen with and that fit the form; the lemma depends on the word and its tags alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import compress
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from gpuparse.data import array_file
from gpuparse.data.array_file import check_names
from gpuparse.data.cached import SharedCache
from gpuparse.data.columns import FORM, LEMMA
from gpuparse.data.lemma_rules import WHOLE, LemmaRule, is_rule, rule_of
from gpuparse.data.tag_columns import Column, require_values
from gpuparse.data.treebank import Treebank
from gpuparse.data.vocabulary import column_ids
from gpuparse.errors import ConfigError, DataError, ModelError, one_line
from gpuparse.text.sequences.learner import Learning, Watch, learn_sequences, unwatched
from gpuparse.text.sequences.model import (
    ARRAYS,
    SequenceModel,
    Sequences,
    unpacked,
)
from gpuparse.text.sequences.tags import Tag, TagTable
from gpuparse.text.sequences.templates import load_sequence_templates
from gpuparse.text.tagging import dictionary
from gpuparse.text.tagging.dictionary import Dictionary, combined, counted
from gpuparse.text.tagging.fields import (
    SeenTags,
    Words,
    WordSequences,
    is_field,
    known_forms,
    value_of,
)
from gpuparse.text.tagging.tagger import Tags
from gpuparse.text.tagging.word_list import WordList

FORMAT = 2
_DICTIONARIES = ("words", "classes")
_AS_MODEL: Any = {"form": FORMAT, "what": "lemmatiser", "hint": "; train it again"}
_CACHE = 1 << 18  # words with tags whose lemmas are kept
_MOST_RULES = 40  # candidates of a word
LEARNING = Learning(epochs=8, rows=1 << 20, min_count=1, beam=(_MOST_RULES, _MOST_RULES))


class Lemmatizer:
    """A lemmatiser, frozen; many threads may use it at once.

    Args:
        model: of the rules. words: rules of words with UPOS and FEATS, and of words with UPOS
            alone, whose names have no second tab. classes: the rules of each UPOS.
    """

    def __init__(self, model: SequenceModel, words: Dictionary, classes: Dictionary) -> None:
        self.model, self.words, self.classes = model, words, classes
        self.rules = [LemmaRule(*tag[0].split("\t")) for tag in model.table.tags]
        forms = known_forms(model.templates.fields, SeenTags.of_classes({}))
        self._fields = WordSequences(model.templates, Tags._fields, forms)
        self._lemmas: SharedCache[dict[str, str]] = SharedCache(dict)
        self._by_end: dict[str, RulesByEnd] = {}
        for upos in classes.names:
            # Rules of equal numbers of words in the order of the table.
            counts = sorted(classes.counts_of(upos).items(), key=lambda item: (-item[1], item[0]))
            self._by_end[upos] = RulesByEnd.of([tag for tag, _ in counts], self.rules)

    def lemmatize(self, treebank: Treebank, tags: Tags) -> Column:
        """The lemmas of all words under given tags.

        Cost: some 20 microseconds for each word with tags that was not met before; less than a
            microsecond for others.
        """
        columns = column_ids(treebank, FORM), (tags.upos.ids, tags.upos.names)
        others = ((column.ids, column.names) for column in (tags.feats, tags.xpos))
        words, names = combined(*columns, *others)
        lock, known = self._lemmas.take()
        with lock:
            lemmas = {place: known[name] for place, name in enumerate(names) if name in known}
        if len(lemmas) < len(names):
            new = [place for place in range(len(names)) if place not in lemmas]
            found = self._find(treebank, tags, words, names, new)
            lemmas |= found
            with lock:
                if len(known) + len(found) > _CACHE:
                    known.clear()
                known.update((names[place], lemma) for place, lemma in found.items())
        of_names = [lemmas[place] for place in range(len(names))]
        distinct = list(dict.fromkeys(of_names))
        numbers = {lemma: number for number, lemma in enumerate(distinct)}
        return Column(distinct, np.array([numbers[each] for each in of_names], np.int32)[words])

    def _find(
        self, treebank: Treebank, tags: Tags, words: np.ndarray, names: Sequence[str],
        new: Sequence[int],
    ) -> dict[int, str]:  # fmt: skip
        """The lemmas of new words with tags, by their places among the names."""
        known: dict[int, str] = {}
        unknown = []
        for place in new:
            name = names[place].rpartition("\t")[0]  # the dictionary is without XPOS
            form, upos, _ = name.split("\t")
            rule = self._known_rule(name, form, upos)
            if rule is None:
                unknown.append(place)
            else:
                known[place] = rule.apply(form)
        if not unknown:
            return known
        firsts = np.full(len(names), -1)
        firsts[words[::-1]] = np.arange(len(words))[::-1]
        chosen = firsts[unknown]
        candidates = [self._candidates(*names[place].split("\t")[:2]) for place in unknown]
        sequences = self._sequences(treebank, tags, chosen, candidates)
        found = self.model.find(sequences).tolist()
        for place, tag in zip(unknown, found, strict=True):
            form = names[place].partition("\t")[0]
            rule = self.rules[tag]
            # Without a candidate the model may find any rule.
            known[place] = rule.apply(form) if _is_usable(rule, form) else form
        return known

    def _known_rule(self, name: str, form: str, upos: str) -> LemmaRule | None:
        """The rule of a word that the dictionary has, with FEATS, without, or in lower case."""
        for key in (name, f"{form}\t{upos}", f"{form.lower()}\t{upos}"):
            tag = self.words.most_frequent(key)
            if tag is not None:
                rule = self.rules[tag]
                if rule.case == WHOLE or rule.fits(form):
                    return rule
        return None

    def _candidates(self, form: str, upos: str) -> np.ndarray:
        return self._by_end.get(upos, _NO_RULES).candidates(form)

    def _sequences(
        self, treebank: Treebank, tags: Tags, words: np.ndarray, candidates: list[np.ndarray]
    ) -> Sequences:
        """Some words, each a sequence of its own."""
        given = [
            np.array(list(map(value_of, column.names)), np.uint32)[column.ids[words]]
            for column in tags
        ]
        ids, forms = column_ids(treebank, FORM)
        chosen = Column.of_texts([forms[i] for i in ids[words].tolist()], np.arange(len(words)))
        alone = Words(np.arange(len(words) + 1), chosen.ids, chosen.names)
        lists = np.arange(len(words), dtype=np.int32)
        return self._fields.read(alone, np.array(given), lists, candidates)

    def pack(self) -> bytes:
        """The lemmatiser as one file."""
        facts, arrays = self.model.packed()
        return array_file.pack(
            {"rules": facts},
            arrays | self.words.packed("words") | self.classes.packed("classes"),
            form=FORMAT,
        )

    @classmethod
    def unpack(cls, file: BinaryIO, path: Path) -> Lemmatizer:
        """Read what `pack` wrote; nothing in it is executed.

        Raises: ModelError: it is damaged, or no lemmatiser.
        """
        opened = array_file.opened(file, path, **_AS_MODEL)
        facts, arrays = opened.facts, opened.arrays
        try:
            check_names(facts, ["rules"])
            names = (f"{name}_{key}" for name in _DICTIONARIES for key in dictionary.ARRAYS)
            check_names(arrays, [*ARRAYS, *names])
            model = unpacked(facts["rules"], arrays, is_field)
            for tag in model.table.tags:
                if len(tag) != 1 or not is_rule(tag[0]):
                    raise ValueError(f"{tag[0][:40]!r} is no rule that makes a LEMMA")
            words, classes = (
                dictionary.unpacked(arrays, name, 1, len(model.table)) for name in _DICTIONARIES
            )
            found = cls(model, words, classes)
        except (KeyError, TypeError, ValueError, AttributeError, ConfigError) as error:
            message = f"{path}: not a lemmatiser of this version: {one_line(error)}"
            raise ModelError(message) from error
        opened.remember()
        return found


def _is_usable(rule: LemmaRule, form: str) -> bool:
    return rule.case != WHOLE and rule.fits(form)


class RulesByEnd(NamedTuple):
    """Some rules by the end that they replace.

    order: their numbers, frequent ones first; others are places in it. sizes: of the ends,
    descending. plain: by end, those that leave the beginning; others: the rest with the beginning
    that they take off, by end and the first letter of it.
    """

    order: Sequence[int]
    sizes: Sequence[int]
    plain: Mapping[str, Sequence[int]]
    others: Mapping[tuple[str, str], Sequence[tuple[int, str]]]

    @classmethod
    def of(cls, tags: Sequence[int], rules: Sequence[LemmaRule]) -> RulesByEnd:
        """Rules by their numbers, frequent ones first."""
        plain: dict[str, list[int]] = {}
        others: dict[tuple[str, str], list[tuple[int, str]]] = {}
        for place, tag in enumerate(tags):
            beginning, end = rules[tag].beginning, rules[tag].end
            if rules[tag].case == WHOLE:
                continue
            of_end = plain.setdefault(end, [])
            if beginning:
                others.setdefault((end, beginning[0]), []).append((place, beginning))
            else:
                of_end.append(place)
        return cls(tags, sorted(set(map(len, plain)), reverse=True), plain, others)

    def candidates(self, form: str) -> np.ndarray:
        """The most frequent rules that fit a form."""
        lower = form.lower()
        if len(lower) != len(form):
            return np.empty(0, np.int32)  # no rule fits
        found: list[int] = []
        for size in self.sizes:
            start = len(lower) - size
            if start < 0 or (end := lower[start:]) not in self.plain:
                continue
            others = [
                place
                for place, beginning in self.others.get((end, lower[:1]), ())
                if len(beginning) <= start and lower.startswith(beginning)
            ]
            found += sorted([*self.plain[end], *others]) if others else self.plain[end]
        tags = [self.order[place] for place in found]
        return np.array(tags if len(tags) <= _MOST_RULES else sorted(tags)[:_MOST_RULES], np.int32)


_NO_RULES = RulesByEnd((), (), {}, {})


def learn_lemmatizer(
    treebank: Treebank, *, seed: int, word_list: str | None = None, watch: Watch = unwatched
) -> Lemmatizer:
    """Learn a lemmatiser from the lemmas of a treebank, under its tags.

    Args: word_list: as the key of the config.
    Raises: DataError: there are no lemmas, or the list cannot be read.
    Cost: some seconds for 200,000 words of English.
    """
    ids, forms = column_ids(treebank, FORM)
    lemma_ids, lemmas = column_ids(treebank, LEMMA)
    tags = Tags.of(treebank)
    require_values(treebank, "LEMMA", lemmas)
    has_lemma = np.array([lemma != "_" for lemma in lemmas], np.bool_)[lemma_ids]
    has_lemma |= np.array([form == "_" for form in forms], np.bool_)[ids]
    if not has_lemma.any():
        raise DataError(f"{treebank.source}: LEMMA is _ in all words; nothing to learn")
    kept = np.flatnonzero(has_lemma)
    texts = {
        (form, lemma): rule_of(forms[form], lemmas[lemma]).text()
        for form, lemma in set(zip(ids[kept].tolist(), lemma_ids[kept].tolist(), strict=True))
    }
    pairs = list(zip(ids[kept].tolist(), lemma_ids[kept].tolist(), strict=True))
    short = [is_rule(texts[pair]) for pair in pairs]  # no model may have longer rules
    kept, pairs = kept[short], list(compress(pairs, short))
    of_words = [texts[pair] for pair in pairs]
    more = [] if word_list is None else _rules_of(word_list)
    counts: Counter[Tag] = Counter((text,) for text in of_words)
    counts.update(dict.fromkeys(((text,) for _, text in more), 0))
    table = TagTable.of_counts(counts, attributes=False)
    gold = [table.numbers[(text,)] for text in of_words]
    upos = [tags.upos.names[i] for i in tags.upos.ids[kept].tolist()]
    feats = [tags.feats.names[i] for i in tags.feats.ids[kept].tolist()]
    words = [forms[i] for i in ids[kept].tolist()]
    with_upos = [f"{word}\t{tag}" for word, tag in zip(words, upos, strict=True)]
    keys = [f"{name}\t{tag}" for name, tag in zip(with_upos, feats, strict=True)]
    counts_of_words = counted([*keys, *with_upos], [*gold, *gold])
    of_list = counted([name for name, _ in more], [table.numbers[(text,)] for _, text in more])
    known = Dictionary.of_counts(of_list | counts_of_words, 1)
    # Each word with its tags and rule counts once: frequent words are found in the dictionary.
    firsts = {
        (key, tag): place
        for place, (key, tag) in reversed(list(enumerate(zip(keys, gold, strict=True))))
    }
    places = sorted(firsts.values())
    of_classes = counted([upos[place] for place in places], [gold[place] for place in places])
    classes = Dictionary.of_counts(of_classes, 1)
    templates = load_sequence_templates("lemmas", is_field)
    untrained = SequenceModel(
        templates, table, np.zeros(2, np.int16), np.zeros(1, np.uint32), 1.0, np.ones(2, np.int64)
    )
    lemmatizer = Lemmatizer(untrained, known, classes)
    # Words whose lemma no rule makes are in the dictionary alone.
    places = [place for place in places if lemmatizer.rules[gold[place]].case != WHOLE]
    chosen = kept[places]
    candidates = [lemmatizer._candidates(words[place], upos[place]) for place in places]
    model = learn_sequences(
        lemmatizer._sequences(treebank, tags, chosen, candidates),
        np.array([gold[place] for place in places], np.int32), templates, table,
        LEARNING, seed=seed, watch=watch,
    )  # fmt: skip
    return Lemmatizer(model, known, classes)


def _rules_of(path: str) -> list[tuple[str, str]]:
    """Names of the words of a list, and the text of the rule that makes the lemma of each."""
    words = WordList.read(path).lemmas()
    texts = [rule_of(form, lemma).text() for _, form, lemma in words]
    return [(name, text) for (name, *_), text in zip(words, texts, strict=True) if is_rule(text)]
