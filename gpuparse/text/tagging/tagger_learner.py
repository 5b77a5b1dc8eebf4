"""Learning of a tagger: dictionaries, the models of pairs and of FEATS, and their network."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from gpuparse.data.columns import FORM
from gpuparse.data.tag_columns import read_column, require_values
from gpuparse.data.treebank import Treebank
from gpuparse.errors import DataError
from gpuparse.text.sequences.learner import Learning, Watch, learn_sequences, unwatched
from gpuparse.text.sequences.tags import Tag, TagTable
from gpuparse.text.sequences.templates import load_sequence_templates
from gpuparse.text.tagging.composition import composed
from gpuparse.text.tagging.dictionary import Dictionary, counted
from gpuparse.text.tagging.feats import GIVEN, FeatsDictionaries, FeatsReader
from gpuparse.text.tagging.fields import (
    SeenTags,
    Words,
    WordSequences,
    class_of_counts,
    is_field,
    known_forms,
    seen_without_itself,
)
from gpuparse.text.tagging.network_learner import TagTask, epochs_of, learn_network
from gpuparse.text.tagging.tagger import Tagger, Tags
from gpuparse.text.tagging.word_list import WordList

LEARNING = Learning(epochs=8, rows=1 << 22, min_count=2, margin=1.5)
FREQUENT = 20  # times that a word must occur to get only the tags that it had
_LEARNED = 10  # times as often a word has only its tags in learning, which meets more wrong ones
_OF_NETWORK = 0.5  # of the time of learning
_MANY = 128  # pairs of UPOS and XPOS; where there are more, UPOS is found first


class _Gold(NamedTuple):
    """The gold values of all words.

    pairs: UPOS and XPOS, or UPOS and `_` where XPOS is found with FEATS.
    feats: FEATS, or XPOS and FEATS with a tab between.
    """

    words: list[str]
    pairs: list[Tag]
    feats: list[str]

    @classmethod
    def of(cls, treebank: Treebank) -> _Gold:
        """Raises: DataError: there are no words, or no tags, or some that no model may have."""
        if not treebank.n_words:
            raise DataError(f"{treebank.source}: a tagger cannot be learned from no words")
        upos, xpos, feats = (column.texts() for column in Tags.of(treebank))
        for column, texts in ("UPOS", upos), ("XPOS", xpos), ("FEATS", feats):
            require_values(treebank, column, set(texts))
        if set(upos) | set(xpos) <= {"_"}:
            raise DataError(
                f"{treebank.source}: UPOS and XPOS are _ in all words; nothing to learn"
            )
        pairs: list[Tag] = list(zip(upos, xpos, strict=True))
        if len(set(pairs)) > _MANY:
            feats = list(map("\t".join, zip(xpos, feats, strict=True)))
            pairs = [(each, "_") for each in upos]
        return cls(read_column(treebank, FORM).texts(), pairs, feats)

    @property
    def upos(self) -> list[str]:
        return [pair[0] for pair in self.pairs]


class _KnownWords(NamedTuple):
    """The values that words were seen with.

    words: for the tagger. of_words: what the field `seen` reads. seen: (W,) its values as if each
    word did not occur itself.
    """

    words: Dictionary
    of_words: SeenTags
    seen: np.ndarray


class _PossibleFeats(NamedTuple):
    """The tags of the model of FEATS; for each `UPOS<TAB>XPOS` those seen, and those composed."""

    table: TagTable
    seen: dict[str, list[Tag]]
    composed: dict[str, list[Tag]]


def learn_tagger(
    treebank: Treebank, *, seed: int, bits: int = 11, networks: int = 1,
    word_list: str | None = None, of_fold: bool = False, watch: Watch = unwatched,
) -> Tagger:  # fmt: skip
    """Learn a tagger from the tags of a treebank.

    Args:
        bits: of a weight. networks, word_list: as the keys of the config.
        of_fold: whether it is the tagger of a fold, whose networks have fewer passes.
    Raises: DataError: a treebank without words, or without tags; a word list that cannot be read.
    Cost: about a minute for 200,000 words of English.
    """
    gold, words = _Gold.of(treebank), Words.of(treebank)
    more = None if word_list is None else WordList.read(word_list)
    has_feats = set(gold.feats) != {"_"}
    share = (0.5 if has_feats else 1.0) * (1 - _OF_NETWORK)
    learned_least = _LEARNED * FREQUENT

    table = TagTable.of_counts(Counter(gold.pairs), attributes=False)
    pairs = np.array([table.numbers[pair] for pair in gold.pairs], np.int32)
    known = _known_words(gold, table, pairs, more)
    templates = load_sequence_templates("tags", is_field)
    fields = WordSequences(templates, ["seen"], known_forms(templates.fields, known.of_words))
    lists = known.words.with_least(learned_least).candidates_of(words.forms)
    sequences = fields.read(words, known.seen[None], words.ids, lists)
    model = learn_sequences(
        sequences, pairs, templates, table, LEARNING, bits=bits, seed=seed,
        watch=lambda done, note: watch(share * done, f"UPOS and XPOS, {note}"),
    )  # fmt: skip
    tasks = {"pairs": TagTask(model.scale, table, sequences, pairs)}

    of_feats, known_feats = None, FeatsDictionaries.empty()
    if has_feats:
        possible = _possible_feats(gold)
        numbers = possible.table.numbers
        tags = zip(gold.upos, gold.feats, strict=True)
        feats = np.array([numbers[tag] for tag in tags], np.int32)
        known_feats, seen = _known_feats(gold, feats, possible, more)
        templates = load_sequence_templates("feats", is_field)
        of_words = known_feats.words_of_feats.with_least(learned_least)
        forms = known_forms(templates.fields, SeenTags.of_classes({}))
        reader = FeatsReader(
            table, possible.table, known_feats._replace(words_of_feats=of_words),
            WordSequences(templates, GIVEN, forms),
        )  # fmt: skip
        sequences = reader.read(words, pairs, seen)
        of_feats = learn_sequences(
            sequences, feats, templates, possible.table, LEARNING, bits=bits, seed=seed,
            watch=lambda done, note: watch(share * (1 + done), f"FEATS, {note}"),
        )  # fmt: skip
        tasks["feats"] = TagTask(of_feats.scale, possible.table, sequences, feats)

    network = learn_network(
        words, known.of_words, known.seen, tasks, networks=networks,
        epochs=epochs_of(treebank.n_words, of_fold=of_fold), seed=seed,
        watch=lambda done, note: watch(1 - _OF_NETWORK * (1 - done), note),
    )  # fmt: skip
    return Tagger(model, known.words, of_feats, known_feats, network)


def _known_words(
    gold: _Gold, table: TagTable, pairs: np.ndarray, more: WordList | None
) -> _KnownWords:
    """The pairs that words were seen with. Args: pairs: (W,) numbers in the table."""
    counts: dict[str, Counter[int]] = {}
    if more:
        more.count_pairs(counts, table)
    lowers = [word.lower() for word in gold.words]
    upos_of_tags = [tag[0] for tag in table.tags]
    of_lowers = counted(lowers, gold.upos, _renamed(counts, str.lower, upos_of_tags))
    classes = {word: class_of_counts(of_word) for word, of_word in of_lowers.items()}
    return _KnownWords(
        Dictionary.of_counts(counted(gold.words, pairs.tolist(), counts), FREQUENT),
        SeenTags.of_classes(classes),
        seen_without_itself(lowers, gold.upos, of_lowers),
    )


def _possible_feats(gold: _Gold) -> _PossibleFeats:
    of_pairs = counted(map("\t".join, gold.pairs), gold.feats)
    seen: dict[str, list[Tag]] = {}
    new: dict[str, list[Tag]] = {}
    for name, of_pair in of_pairs.items():
        upos = name.partition("\t")[0]
        seen[name] = [(upos, text) for text in of_pair]
        new[name] = [(upos, text) for text in composed(of_pair)]
    counts: Counter[Tag] = Counter(zip(gold.upos, gold.feats, strict=True))
    counts.update(dict.fromkeys((tag for tags in new.values() for tag in tags), 0))
    return _PossibleFeats(TagTable.of_counts(counts, attributes=True), seen, new)


def _known_feats(
    gold: _Gold, feats: np.ndarray, possible: _PossibleFeats, more: WordList | None
) -> tuple[FeatsDictionaries, np.ndarray]:
    """The FEATS that are known, and (W,) values of `seen` as if each word did not occur itself.

    Args: feats: (W,) numbers of the tags of FEATS.
    """
    table = possible.table
    counts: dict[str, Counter[int]] = {}
    if more:
        of_pairs = {name: [*possible.seen[name], *new] for name, new in possible.composed.items()}
        more.count_feats(counts, table, of_pairs)
    pairs = list(map("\t".join, gold.pairs))
    keys = list(map("\t".join, zip(gold.words, pairs, strict=True)))
    with_upos = list(map(_word_and_upos, keys))
    texts = [tag[1] for tag in table.tags]
    of_words = counted(with_upos, gold.feats, _renamed(counts, _word_and_upos, texts))
    of_composed = {
        name: dict.fromkeys(sorted(table.numbers[tag] for tag in new), 1)
        for name, new in possible.composed.items()
        if new
    }
    known = FeatsDictionaries(
        Dictionary.of_counts(counted(keys, feats.tolist(), counts), FREQUENT),
        Dictionary.of_counts(counted(pairs, feats.tolist()), 1),
        Dictionary.of_counts(of_composed, 1),
    )
    return known, seen_without_itself(with_upos, gold.feats, of_words)


def _renamed(
    counts: Mapping[str, Mapping[int, int]], name_of: Callable[[str], str], texts: Sequence[str]
) -> dict[str, Counter[str]]:
    """Counts under other names and by the texts of tags."""
    found: dict[str, Counter[str]] = {}
    for name, of_name in counts.items():
        of_new = found.setdefault(name_of(name), Counter())
        for tag, n in of_name.items():
            of_new[texts[tag]] += n
    return found


def _word_and_upos(key: str) -> str:
    """The key by which FEATS of unknown pairs are looked up: the word in lower case, and UPOS."""
    form, upos, _ = key.split("\t")
    return f"{form.lower()}\t{upos}"
