"""The tagger: UPOS with XPOS by one model of sequences, then FEATS by a second one.

The first model finds the pairs of UPOS and XPOS of a sentence; or UPOS alone, where the treebank
has many pairs, and the second finds XPOS with FEATS. The second reads the pairs of all words
around. A frequent word of the training treebank gets only what it was seen with; for others the
first model looks at all pairs, and the second at all FEATS that the word's pair was seen with; for
words that are new or occurred once, also at FEATS that are composed of their attributes. Scores are
sums of those of templates and of a network (network.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

import numpy as np

from gpuparse import array_file
from gpuparse.array_file import check_names
from gpuparse.cached import SharedCache, cached_property
from gpuparse.data.columns import is_value
from gpuparse.data.tag_columns import (
    FEATS,
    FORM,
    UPOS,
    XPOS,
    Column,
    read_column,
    require_values,
)
from gpuparse.data.treebank import Treebank
from gpuparse.data.vocabulary import column_ids
from gpuparse.errors import ConfigError, DataError, ModelError, one_line
from gpuparse.evaluation.reliability import LEAST
from gpuparse.limits import MAX_TAG
from gpuparse.sequences.learner import Watch, learn_sequences, unwatched
from gpuparse.sequences.model import (
    ARRAYS,
    NO_HIDDEN,
    SequenceModel,
    Sequences,
    SummedModel,
    unpacked,
)
from gpuparse.sequences.tags import PART_BLOCK, Tag, TagTable
from gpuparse.sequences.templates import load_sequence_templates
from gpuparse.tagging import dictionary
from gpuparse.tagging.composition import composed
from gpuparse.tagging.dictionary import Dictionary, combined, counted, joined_candidates
from gpuparse.tagging.fields import (
    SeenTags,
    WordFields,
    Words,
    as_bytes,
    class_of_counts,
    is_field,
    is_of_form,
    seen_without_itself,
    value_of,
    words_with_upos,
)
from gpuparse.tagging.network import TagNetwork
from gpuparse.tagging.network import unpacked as unpacked_network
from gpuparse.tagging.network_learner import TagTask, learn_network
from gpuparse.tagging.word_lexicon import WordLexicon
from gpuparse.threads import mapped

if TYPE_CHECKING:
    from gpuparse.config.schema import TaggerConfig

FORMAT = 2
_AS_MODEL: Any = {"form": FORMAT, "what": "tagger", "hint": "; train it again"}
_BEAM, _MARGIN = (3, 8), 1.5  # coarse classes, tags; costs below the best one
_LEARNED = 10  # times as often a word has only its tags in learning, which meets more wrong ones
_MANY = 128  # pairs of UPOS and XPOS; where there are more, UPOS is found first
_RARE = 2  # times with its pair; FEATS that were never seen are possible for rarer words
_MOST_KEYS = 1 << 16  # words with their pair whose candidates are kept in memory
_CHUNK = 40_000  # words that a thread tags at once: what a form adds is found once for them
_LEAST_CHUNK = 5_000
_CELLS = 1 << 23  # of words times candidates: words are tagged in smaller parts above it


class Tags(NamedTuple):
    """What a tagger finds."""

    upos: Column
    xpos: Column
    feats: Column

    @classmethod
    def of(cls, treebank: Treebank) -> Tags:
        """The tags that a treebank has."""
        return cls(*(read_column(treebank, column) for column in (UPOS, XPOS, FEATS)))


class TextsOfTags(NamedTuple):
    """The texts of one column that the tags of a model have.

    names: distinct texts. numbers: (K,) int32, the text of each tag. values: (K,) uint32 of it.
    """

    names: Sequence[str]
    numbers: np.ndarray
    values: np.ndarray

    @classmethod
    def of(cls, texts: Sequence[str]) -> TextsOfTags:
        """Of the text of every tag."""
        names, numbers = Column.of_texts(texts, np.arange(len(texts)))
        return cls(names, numbers, np.array([value_of(name) for name in names], np.uint32)[numbers])

    def __call__(self, tags: np.ndarray) -> Column:
        """The column of words with given tags, (W,) numbers."""
        return Column(self.names, self.numbers[tags])


class Tagger:
    """A tagger, frozen; many threads may use it at once.

    Args:
        pairs: the model of (UPOS, XPOS); XPOS is `_` where the treebank has many pairs.
            words: what frequent words were seen with.
        feats: the model of (UPOS, FEATS), or of (UPOS, XPOS and FEATS with a tab between) where
            there are many pairs; None where nothing is left to find. words_of_feats: the FEATS of
            frequent words with their pair; classes: those of the pairs; composed: others that
            are possible for the pairs.
        network: whose scores are added to those of both models; None: there is none.
        is_calibrated: whether the scale of `pairs` was fitted to tags that were not learned from.
    """

    def __init__(
        self,
        pairs: SequenceModel,
        words: Dictionary,
        feats: SequenceModel | None,
        words_of_feats: Dictionary,
        classes: Dictionary,
        composed: Dictionary,
        *,
        network: TagNetwork | None = None,
        is_calibrated: bool = False,
    ) -> None:
        self.is_calibrated, self.network = is_calibrated, network
        if network:
            pairs = replace(pairs, output=network.outputs["pairs"])
            feats = replace(feats, output=network.outputs["feats"]) if feats else None
        self.pairs, self.words, self.feats = pairs, words, feats
        self.words_of_feats, self.classes, self.composed = words_of_feats, classes, composed

    def tag(self, treebank: Treebank, *, threads: int = 1) -> Tags:
        """The tags of all words.

        Cost: about 4 microseconds per word, and about a dozen for each distinct form that is new.
        """
        return self._tagged(treebank, threads, with_probabilities=False)[0]

    def tag_with_probabilities(
        self, treebank: Treebank, *, threads: int = 1
    ) -> tuple[Tags, np.ndarray]:
        """The tags of all words, and (W,) float64 how probable each pair of UPOS and XPOS is.

        The probability of a sequence of pairs is proportional to exp(scale * score), over the
        sequences of all candidates; that of a pair is the sum over those that
        have it at the word. Where the treebank of learning had many pairs, it is that of UPOS.
        """
        tags, probabilities = self._tagged(treebank, threads, with_probabilities=True)
        return tags, probabilities

    def _tagged(
        self, treebank: Treebank, threads: int, *, with_probabilities: bool
    ) -> tuple[Tags, np.ndarray]:
        n, workers = treebank.n_words, max(threads, 1)
        rounds = -(-n // (self._chunk * workers)) or 1
        even = max(-(-n // (rounds * workers)), _LEAST_CHUNK)
        pieces = pieces_of(treebank.word_starts, min(even, self._chunk))

        def work(piece: tuple[int, int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
            return self._tag(part_of(treebank, *piece), with_probabilities=with_probabilities)

        found = list(mapped(work, pieces, threads))
        nothing = np.empty(0, np.int32)
        pair_ids, feat_ids, probabilities = (
            found[0] if len(found) == 1
            else [np.concatenate([piece[i] for piece in found] or [nothing]) for i in range(3)]
        )  # fmt: skip
        return self._columns(treebank, pair_ids, feat_ids), probabilities

    def _columns(self, treebank: Treebank, pair_ids: np.ndarray, feat_ids: np.ndarray) -> Tags:
        upos, xpos = (column(pair_ids) for column in self._of_table[:2])
        if not self.feats:
            return Tags(upos, xpos, Column(["_"], np.zeros(treebank.n_words, np.int32)))
        *fine, feats = (column(feat_ids) for column in self._of_table[2:])
        return Tags(upos, fine[0] if fine else xpos, feats)

    @cached_property
    def _of_table(self) -> list[TextsOfTags]:
        """UPOS and XPOS of all pairs; what the tags of `feats` have behind UPOS."""
        texts = [list(tag) for tag in self.pairs.table.tags]
        columns = [TextsOfTags.of(column) for column in zip(*texts, strict=True)]
        if self.feats:
            texts = [tag[1].split("\t") for tag in self.feats.table.tags]
            columns += [TextsOfTags.of(column) for column in zip(*texts, strict=True)]
        return columns

    def _tag(
        self, treebank: Treebank, *, with_probabilities: bool
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Numbers of the pairs and of the tags of `feats` of all words; probabilities of pairs."""
        words = Words.of(treebank)
        sequences = self._pairs_of(words)
        pairs, probabilities = self._search_of_pairs.find(sequences), np.empty(0)
        if with_probabilities:
            probabilities = self._search_of_pairs.marginals(sequences, pairs)
        if not self.feats:
            return pairs, np.zeros(len(pairs), np.int32), probabilities
        feats = self.feats.find(self._feats_of(words, pairs, before=sequences))
        return pairs, feats, probabilities

    @cached_property
    def _chunk(self) -> int:
        """Words that are tagged at once; no result depends on it."""
        known = (self.words, self.words_of_feats, self.classes, self.composed)
        most = sum(each.most for each in known)
        return min(_CHUNK, _CELLS // max(most, 1))

    def _pairs_of(self, words: Words) -> Sequences:
        """The words for `_search_of_pairs`."""
        candidates = joined_candidates(words.ids, self.words.candidates_of(words.forms))
        templates, starts = self._search_of_pairs.templates, words.treebank.word_starts
        hidden = self._hidden(words, candidates[0])
        if not self._summed:
            features = templates.features(*self._of_pairs.read(words))
            return Sequences(features, starts, *candidates, hidden)
        values, places, sums = self._of_pairs.read_summed(words)
        features, scored = templates.features(values, places), self._summed.split.scored
        return Sequences(features, starts, *candidates, hidden, *sums, scored)

    @cached_property
    def _summed(self) -> SummedModel | None:
        """The model of pairs, where what it knows of forms alone is summed once for each form."""
        return SummedModel.of(self.pairs, is_of_form)

    @cached_property
    def _search_of_pairs(self) -> SequenceModel:
        return self._summed.model if self._summed else self.pairs

    @cached_property
    def _of_pairs(self) -> WordFields:
        fields = self._search_of_pairs.templates.fields
        return WordFields(fields, self._seen, self._summed, self.network)

    def _hidden(
        self, words: Words, starts: np.ndarray, before: Sequences | None = None
    ) -> np.ndarray:
        """The network's hidden numbers of words with candidates to choose from.

        Args: starts: of candidates. before: of the same words, whose hidden numbers are used again.
        """
        if not self.network:
            return NO_HIDDEN
        is_open, found = np.diff(starts) != 1, None
        if before:
            found = before.hidden
            is_open &= np.diff(before.candidate_starts) == 1
        vectors, forms = self._of_pairs.read_vectors(words)
        return self.network.hidden(vectors, forms, words.places, is_open, found)

    def losses(self, treebank: Treebank, *, threads: int = 1) -> Callable[[float], float] | None:
        """Of any scale, the mean -ln of the probability of a word's gold pair.

        Not counted are words without tags, and with a pair that the tagger does not know. A
        probability counts as at least LEAST, as in measures of reliability.

        Returns: a function of the scale; None where no word counts.
        Cost: of each call, the sums over all sequences.
        """
        numbers, counted = self._numbers(treebank)
        if not counted.any():
            return None
        pieces = []
        for piece in pieces_of(treebank.word_starts, self._chunk):
            part = part_of(treebank, *piece)
            start, end = treebank.word_starts[list(piece)]
            pieces.append((self._pairs_of(Words.of(part)), numbers[start:end]))

        def loss(scale: float) -> float:
            model = replace(self._search_of_pairs, scale=scale)
            parts = mapped(lambda piece: model.marginals(*piece), pieces, threads)
            found = np.concatenate(list(parts))
            return float(-np.log(found[counted].clip(min=LEAST)).mean())

        return loss

    def _numbers(self, treebank: Treebank) -> tuple[np.ndarray, np.ndarray]:
        """(W,) numbers of the pairs of a treebank, and (W,) bool whether they are known."""
        upos, xpos = (column.texts() for column in Tags.of(treebank)[:2])
        table = self.pairs.table
        if all(tag[1] == "_" for tag in table.tags):
            xpos = ["_"] * len(upos)
        numbers = np.array(
            [
                -1 if pair == ("_", "_") else table.numbers.get(pair, -1)
                for pair in zip(upos, xpos, strict=True)
            ],
            np.int32,
        )
        return numbers, numbers >= 0

    def with_scale(self, scale: float) -> Tagger:
        """The tagger with another, fitted scale of probabilities; it finds the same tags."""
        return Tagger(
            replace(self.pairs, scale=scale), self.words, self.feats, self.words_of_feats,
            self.classes, self.composed, network=self.network, is_calibrated=True,
        )  # fmt: skip

    @property
    def models(self) -> dict[str, SequenceModel]:
        """Its models by name."""
        return {"pairs": self.pairs} | ({"feats": self.feats} if self.feats else {})

    def with_models(self, models: Mapping[str, SequenceModel]) -> Tagger:
        """The tagger with others in place of `models`."""
        return Tagger(
            models["pairs"], self.words, models.get("feats"), self.words_of_feats, self.classes,
            self.composed, network=self.network, is_calibrated=self.is_calibrated,
        )  # fmt: skip

    @property
    def has_many_pairs(self) -> bool:
        """Whether XPOS is found with FEATS."""
        return self.feats is not None and "\t" in self.feats.table.tags[0][1]

    def _feats_of(
        self, words: Words, pairs: np.ndarray, seen: np.ndarray | None = None,
        before: Sequences | None = None,
    ) -> Sequences:  # fmt: skip
        """The words for the model of FEATS, under given pairs.

        Args: seen: values of that field. before: the words for the model of pairs.
        """
        assert self.feats
        keys, key_names = combined((words.ids, words.forms), (pairs, self._pair_names))
        of_keys = self._known(key_names)
        given = {
            "upos": self._of_table[0].values[pairs], "xpos": self._of_table[1].values[pairs],
            "seen": (
                np.array([value for _, value in of_keys], np.uint32)[keys] if seen is None else seen
            ),
        }  # fmt: skip
        candidates = joined_candidates(keys, [found for found, _ in of_keys])
        return Sequences(
            self.feats.templates.features(*self._of_feats.read(words, given)),
            words.treebank.word_starts,
            *candidates,
            self._hidden(words, candidates[0], before),
        )

    def _known(self, keys: Sequence[str]) -> list[tuple[np.ndarray, int]]:
        """The possible tags of `feats` and the values of `seen` of `form<TAB>UPOS<TAB>XPOS`."""
        lock, known = self._known_keys.take()
        with lock:
            if len(known) > _MOST_KEYS:
                known.clear()
            new = [key for key in keys if key not in known]
            values = self._seen_feats.find(words_with_upos(new), len(new)).tolist()
            known.update(zip(new, zip(map(self._possible, new), values, strict=True), strict=True))
            return [known[key] for key in keys]

    @cached_property
    def _known_keys(self) -> SharedCache[dict[str, tuple[np.ndarray, int]]]:
        return SharedCache(dict)

    def _possible(self, key: str) -> np.ndarray:
        """The possible tags of `feats` of a form with its pair."""
        found = self.words_of_feats.candidates(key)
        if len(found):
            return found
        pair = key.partition("\t")[2]
        is_rare = self.words_of_feats.count(key) < _RARE
        return self._feats_of_rare[pair] if is_rare else self.classes.candidates(pair)

    @cached_property
    def _feats_of_rare(self) -> dict[str, np.ndarray]:
        """The possible tags of `feats` of rare words with each pair."""
        both = self.classes, self.composed
        return {
            pair: np.sort(np.concatenate([known.candidates(pair) for known in both]))
            for pair in self._pair_names
        }

    @cached_property
    def _pair_names(self) -> list[str]:
        return ["\t".join(pair) for pair in self.pairs.table.tags]

    @cached_property
    def _of_feats(self) -> WordFields:
        assert self.feats
        return WordFields(self.feats.templates.fields, SeenTags.of_classes({}))

    @cached_property
    def _seen(self) -> SeenTags:
        """The coarse tags of words in lower case."""
        lowers = as_bytes("\n".join(self.words.names).lower())
        return SeenTags.of_dictionary(self.words, lowers, self._coarse)

    @cached_property
    def _seen_feats(self) -> SeenTags:
        """The FEATS of words in lower case with their UPOS."""
        names = words_with_upos(self.words_of_feats.names)
        return SeenTags.of_dictionary(self.words_of_feats, names, self._feats_texts)

    @property
    def _coarse(self) -> list[str]:
        return [tag[0] for tag in self.pairs.table.tags]

    @property
    def _feats_texts(self) -> list[str]:
        return [tag[1] for tag in self.feats.table.tags] if self.feats else []

    def pack(self) -> bytes:
        """The tagger as one file."""
        facts: dict[str, Any] = {}
        arrays: dict[str, np.ndarray] = {}
        for name, model in (("pairs", self.pairs), ("feats", self.feats)):
            if model:
                facts[name], tables = model.packed()
                arrays |= {f"{name}_{key}": table for key, table in tables.items()}
        for name in _DICTIONARIES:
            known: Dictionary = getattr(self, name)
            facts[name] = known.least
            arrays |= known.packed(name)
        if self.is_calibrated:
            facts[_CALIBRATED] = True
        if self.network:
            facts[_NETWORK], tables = self.network.packed()
            arrays |= {f"{_NETWORK}_{key}": table for key, table in tables.items()}
        return array_file.pack(facts, arrays, form=FORMAT)

    @classmethod
    def unpack(cls, file: BinaryIO, path: Path) -> Tagger:
        """Read what `pack` wrote; nothing in it is executed.

        Raises: ModelError: it is damaged, or no tagger.
        """
        opened = array_file.opened(file, path, **_AS_MODEL)
        facts, arrays = opened.facts, opened.arrays
        try:
            optional = {"feats", _CALIBRATED, _NETWORK} & set(facts)
            check_names(facts, {"pairs", *_DICTIONARIES, *optional})
            if facts.get(_CALIBRATED, True) is not True:
                raise ValueError(f"{_CALIBRATED}: true is expected")
            below = {key: array for key, array in arrays.items() if key.startswith(f"{_NETWORK}_")}
            _check_arrays(arrays.keys() - below.keys(), {"pairs", "feats"} & set(facts))
            models = [
                unpacked(facts[name], _below(arrays, name), is_field) if name in facts else None
                for name in ("pairs", "feats")
            ]
            pairs, feats = models
            assert pairs
            _check_tags(pairs.table.tags, feats.table.tags if feats else ())
            n_feats = len(feats.table) if feats else 1
            sizes = {"words": len(pairs.table)} | dict.fromkeys(_DICTIONARIES[1:], n_feats)
            tabs = {"words_of_feats": 2}  # of a form, UPOS and XPOS
            known = {
                name: dictionary.unpacked(arrays, name, facts[name], size, tabs=tabs.get(name))
                for name, size in sizes.items()
            }
            network = None
            if _NETWORK in facts or below:
                tables = {key.removeprefix(f"{_NETWORK}_"): array for key, array in below.items()}
                of_models = {"pairs": pairs} | ({"feats": feats} if feats else {})
                parts = {name: PART_BLOCK * len(m.table.blocks) for name, m in of_models.items()}
                network = unpacked_network(facts[_NETWORK], tables, parts, is_field)
            found = cls(
                pairs, feats=feats, **known, network=network, is_calibrated=_CALIBRATED in facts
            )
        except (
            KeyError, TypeError, ValueError, AttributeError, AssertionError, ConfigError,
        ) as error:  # fmt: skip
            raise ModelError(f"{path}: not a tagger of this version: {one_line(error)}") from error
        opened.remember()
        return found


_CALIBRATED, _NETWORK = "calibrated", "network"
_DICTIONARIES = ("words", "words_of_feats", "classes", "composed")


def learn_tagger(
    treebank: Treebank, config: TaggerConfig, *, seed: int, watch: Watch = unwatched,
    start: Tagger | None = None,
) -> Tagger:  # fmt: skip
    """Learn a tagger from the tags of a treebank.

    Args: start: to learn on from, whose models have `learned`; its tags and words are kept.
    Raises: ConfigError: templates that do not exist or are wrong. DataError: a treebank without
        words, or without tags.
    Cost: about a minute for 200,000 words of English.
    """
    if not treebank.n_words:
        raise DataError(f"{treebank.source}: a tagger cannot be learned from no words")
    ids, forms = column_ids(treebank, FORM)
    upos, xpos, feats = (column.texts() for column in Tags.of(treebank))
    for column, texts in ("UPOS", upos), ("XPOS", xpos), ("FEATS", feats):
        require_values(treebank, column, set(texts))
    if set(upos) | set(xpos) <= {"_"}:
        raise DataError(f"{treebank.source}: UPOS and XPOS are _ in all words; nothing to learn")
    words = [forms[i] for i in ids.tolist()]
    pairs: list[Tag] = list(zip(upos, xpos, strict=True))
    if start is not None:
        _check_columns(treebank, start, xpos, feats)
    if len(set(pairs)) > _MANY if start is None else start.has_many_pairs:
        feats = [f"{fine}\t{text}" for fine, text in zip(xpos, feats, strict=True)]
        pairs = [(coarse, "_") for coarse in upos]
    table = TagTable.of_counts(
        Counter(pairs), attributes=False, before=start.pairs.table if start else None
    )
    gold = np.array([table.numbers[pair] for pair in pairs], np.int32)
    earlier = start.words.all_counts() if start else {}
    lexicon = None if config.lexicon is None else WordLexicon.read(config.lexicon)
    if lexicon:
        lexicon.count_pairs(earlier, table)
    lowers = [word.lower() for word in words]
    coarse_texts = [coarse for coarse, _ in table.tags]
    counts = counted(lowers, upos, _renamed(earlier, str.lower, coarse_texts))
    known = Dictionary.of_counts(counted(words, gold.tolist(), earlier), config.dictionary)
    has_feats = set(feats) != {"_"}
    # A new network beside models that are learned on would not know the words of before.
    has_network = start.network is not None if start else config.network_epochs != 0
    of_network = 0.5 if has_network else 0.0
    share = (0.5 if has_feats else 1.0) * (1 - of_network)
    templates = load_sequence_templates(config.features, is_field)
    classes = {word: class_of_counts(of_word) for word, of_word in counts.items()}
    of_words = SeenTags.of_classes(classes)
    seen = seen_without_itself(lowers, upos, counts)
    all_words = Words.of(treebank)
    features = templates.features(
        *WordFields(templates.fields, of_words).read(all_words, {"seen": seen})
    )
    learned_least = _LEARNED * config.dictionary
    candidates = joined_candidates(ids, known.with_least(learned_least).candidates_of(forms))
    sequences = Sequences(features, treebank.word_starts, *candidates)
    common: Any = {
        "epochs": config.epochs, "rows": config.rows, "min_count": config.min_count,
        "cost": config.cost, "max_step": config.max_step, "beam": _BEAM, "margin": _MARGIN,
        "bits": config.bits, "seed": seed,
    }  # fmt: skip
    model = learn_sequences(
        sequences, gold, templates, table, start=start.pairs if start else None,
        watch=lambda done, note: watch(share * done, f"UPOS and XPOS, {note}"), **common,
    )  # fmt: skip
    tasks = {"pairs": TagTask(model.scale, table, sequences, gold)}

    def network() -> TagNetwork | None:
        if not has_network:
            return None
        return learn_network(
            all_words, of_words, seen, tasks, networks=config.networks,
            epochs=config.network_epochs, seed=seed,
            start=start.network if start else None,
            watch=lambda done, note: watch(1 - of_network * (1 - done), note),
        )  # fmt: skip

    if not has_feats:
        return Tagger(model, known, None, *[Dictionary.of_counts({}, 1)] * 3, network=network())
    tags: list[Tag] = list(zip(upos, feats, strict=True))
    names = ["\t".join(pair) for pair in pairs]
    before = start if start and start.feats else None
    of_pairs = counted(names, feats)
    if before and before.feats:
        for name in before.classes.names:
            of_pair = of_pairs.setdefault(name, Counter())
            for tag, count in before.classes.counts_of(name).items():
                of_pair[before.feats.table.tags[tag][1]] += count
    new: dict[str, list[Tag]] = {
        name: [(name.partition("\t")[0], text) for text in composed(of_pair)]
        for name, of_pair in of_pairs.items()
    }
    counts_of_tags = Counter(tags)
    counts_of_tags.update(dict.fromkeys((tag for found in new.values() for tag in found), 0))
    feats_table = TagTable.of_counts(
        counts_of_tags, attributes=True,
        before=before.feats.table if before and before.feats else None,
    )  # fmt: skip
    gold_feats = np.array([feats_table.numbers[tag] for tag in tags], np.int32)
    keys = [f"{word}\t{name}" for word, name in zip(words, names, strict=True)]
    feats_templates = load_sequence_templates(config.feats_features, is_field)
    untrained = SequenceModel(
        feats_templates, feats_table, np.zeros(2, np.int16), model.known, 1.0, model.beam
    )
    earlier = before.words_of_feats.all_counts() if before else {}
    if lexicon:
        possible = {
            name: [*new[name], *((name.partition("\t")[0], text) for text in of_pair)]
            for name, of_pair in of_pairs.items()
        }
        lexicon.count_feats(earlier, feats_table, possible)
    words_and_upos = list(map(_word_and_upos, keys))
    texts_of_feats = [text for _, text in feats_table.tags]
    seen_feats = counted(words_and_upos, feats, _renamed(earlier, _word_and_upos, texts_of_feats))
    of_feats = (
        Dictionary.of_counts(counted(keys, gold_feats.tolist(), earlier), config.dictionary),
        Dictionary.of_counts(
            counted(names, gold_feats.tolist(), before.classes.all_counts() if before else None), 1
        ),
        Dictionary.of_counts(
            {
                name: dict.fromkeys(sorted(feats_table.numbers[tag] for tag in found), 1)
                for name, found in new.items()
                if found
            },
            1,
        ),
    )
    of_learning = of_feats[0].with_least(learned_least), *of_feats[1:]
    of_open = Tagger(model, known, untrained, *of_learning)._feats_of(
        all_words, gold, seen_without_itself(words_and_upos, feats, seen_feats)
    )
    learned = learn_sequences(
        of_open, gold_feats, feats_templates, feats_table, start=before.feats if before else None,
        watch=lambda done, note: watch(share * (1 + done), f"FEATS, {note}"), **common,
    )  # fmt: skip
    tasks["feats"] = TagTask(learned.scale, feats_table, of_open, gold_feats)
    return Tagger(model, known, learned, *of_feats, network=network())


def _check_columns(
    treebank: Treebank, start: Tagger, xpos: Sequence[str], feats: Sequence[str]
) -> None:
    """DataError if a column is empty of which a tagger that is learned on has values."""
    has_xpos = start.has_many_pairs or any(tag[1] != "_" for tag in start.pairs.table.tags)
    has_feats = start.feats and any(
        tag[1].rpartition("\t")[2] != "_" for tag in start.feats.table.tags
    )
    for column, texts, is_found in (("XPOS", xpos, has_xpos), ("FEATS", feats, has_feats)):
        if is_found and set(texts) <= {"_"}:
            raise DataError(
                f"{treebank.source}: {column} is _ in all words, but the tagger of init_from finds"
                f" {column}: annotate them"
            )


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
    """What FEATS of unknown pairs are looked up by: the word in lower case, and UPOS."""
    form, upos, _ = key.split("\t")
    return f"{form.lower()}\t{upos}"


def _check_tags(pairs: Sequence[Tag], feats: Sequence[Tag]) -> None:
    """ValueError unless all are tags of columns.

    Args: feats: all (UPOS, FEATS), or all (UPOS, XPOS and FEATS with a tab between).
    """
    if {len(tag) for tag in (*pairs, *feats)} != {2}:
        raise ValueError("tags of two texts are expected")
    columns = [tag[1].split("\t") for tag in feats]
    if len(set(map(len, columns))) > 1 or (columns and len(columns[0]) > 2):
        raise ValueError("FEATS of different kinds")
    for text in chain(*pairs, (tag[0] for tag in feats), *columns):
        if not is_value(text) or len(text) > MAX_TAG:
            raise ValueError(f"{text[:40]!r} cannot be UPOS, XPOS or FEATS")


def _check_arrays(arrays: Iterable[str], models: Iterable[str]) -> None:
    """ValueError for arrays that no tagger with these models has."""
    known = {f"{name}_{key}" for name in models for key in ARRAYS}
    known |= {f"{name}_{key}" for name in _DICTIONARIES for key in dictionary.ARRAYS}
    check_names(arrays, known)


def _below(arrays: dict[str, np.ndarray], name: str) -> dict[str, np.ndarray]:
    """The arrays of one model."""
    return {key: arrays[f"{name}_{key}"] for key in ARRAYS}


def pieces_of(word_starts: np.ndarray, most: int) -> list[tuple[int, int]]:
    """Sentences first : last of successive pieces of at most `most` words, or of one sentence."""
    pieces, first, n = [], 0, len(word_starts) - 1
    while first < n:
        last = int(word_starts.searchsorted(word_starts[first] + most, side="right")) - 1
        last = max(last, first + 1)
        pieces.append((first, last))
        first = last
    return pieces


def part_of(treebank: Treebank, first: int, last: int) -> Treebank:
    """Sentences first : last of a treebank, over the same bytes; for reading alone."""
    if last - first == len(treebank):
        return treebank
    start, end = treebank.word_starts[first], treebank.word_starts[last]
    return replace(
        treebank,
        columns=treebank.columns[start:end],
        word_starts=treebank.word_starts[first : last + 1] - start,
        heads=treebank.heads[start:end],
        lines=treebank.lines[start:end],
        spans=treebank.spans[first:last],
    )
