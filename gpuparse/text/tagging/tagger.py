"""The tagger: UPOS with XPOS by one model of sequences, then FEATS by a second one.

The first model finds the pairs of UPOS and XPOS of a sentence; or UPOS alone, where the treebank
has many pairs, and the second finds XPOS with FEATS. The second reads the pairs of all words
around. A frequent word of the training treebank gets only what it was seen with; for others the
first model looks at all pairs, and the second at all FEATS that the word's pair was seen with; for
words that are new or occurred once, also at FEATS that are composed of their attributes. Scores are
sums of those of templates and of a network (network.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from gpuparse.data import array_file
from gpuparse.data.array_file import check_names
from gpuparse.data.cached import cached_property
from gpuparse.data.columns import FEATS, UPOS, XPOS, is_value
from gpuparse.data.tag_columns import Column, read_column
from gpuparse.data.treebank import Treebank
from gpuparse.errors import ConfigError, ModelError, one_line
from gpuparse.limits import LEAST_PROBABILITY, MAX_TAG
from gpuparse.native import mapped
from gpuparse.text.sequences.model import (
    ARRAYS,
    SequenceModel,
    Sequences,
    unpacked,
)
from gpuparse.text.sequences.tags import PART_BLOCK, Tag
from gpuparse.text.tagging import dictionary
from gpuparse.text.tagging.dictionary import Dictionary
from gpuparse.text.tagging.feats import GIVEN, FeatsDictionaries, FeatsReader
from gpuparse.text.tagging.fields import (
    COLUMNS,
    SeenTags,
    Words,
    WordSequences,
    as_bytes,
    is_field,
    known_forms,
    value_of,
)
from gpuparse.text.tagging.network import TagNetwork
from gpuparse.text.tagging.network import unpacked as unpacked_network

FORMAT = 2
_AS_MODEL: Any = {"form": FORMAT, "what": "tagger", "hint": "; train it again"}
_CHUNK = 40_000  # words that a thread tags at once: what a form adds is found once for them
_LEAST_CHUNK = 5_000
_NOT_GIVEN = np.empty((0, 0), np.uint32)
_CELLS = 1 << 23  # of words times candidates: words are tagged in smaller parts above it


class Tags(NamedTuple):
    """The tags that a tagger finds."""

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
        """Make them from the text of every tag."""
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
            there are many pairs; None where nothing is left to find. known_feats: possible ones.
        network: whose scores are added to those of both models.
        is_calibrated: whether the scale of `pairs` was fitted to tags that were not learned from.
    """

    def __init__(
        self,
        pairs: SequenceModel,
        words: Dictionary,
        feats: SequenceModel | None,
        known_feats: FeatsDictionaries,
        network: TagNetwork,
        *,
        is_calibrated: bool = False,
    ) -> None:
        self.is_calibrated, self.network = is_calibrated, network
        self.pairs = replace(pairs, output=network.outputs["pairs"])
        self.feats = replace(feats, output=network.outputs["feats"]) if feats else None
        self.words, self.known_feats = words, known_feats

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
        candidates = self.words.candidates_of(words.forms)
        sequences, pairs = self._of_pairs.find(self.pairs, words, _NOT_GIVEN, words.ids, candidates)
        probabilities = np.empty(0)
        if with_probabilities:
            probabilities = self.pairs.marginals(sequences, pairs)
        if not self.feats:
            return pairs, np.zeros(len(pairs), np.int32), probabilities
        feats = self._feats_reader.find(self.feats, words, pairs, sequences)
        return pairs, feats, probabilities

    @cached_property
    def _chunk(self) -> int:
        """Words that are tagged at once; no result depends on it."""
        most = sum(known.most for known in (self.words, *self.known_feats))
        return min(_CHUNK, _CELLS // max(most, 1))

    def _pairs_of(self, words: Words) -> Sequences:
        """The words for the model of pairs."""
        candidates = self.words.candidates_of(words.forms)
        return self._of_pairs.read(words, _NOT_GIVEN, words.ids, candidates)

    @cached_property
    def _of_pairs(self) -> WordSequences:
        return WordSequences(self.pairs.templates, (), self._forms, self.network)

    @cached_property
    def _forms(self) -> Any:
        """The forms for both models."""
        of_feats = set(self.feats.templates.fields if self.feats else ()) - {*GIVEN}
        fields = [*self.pairs.templates.fields, *sorted(of_feats)]
        return known_forms(fields, self._seen, self.network)

    def losses(self, treebank: Treebank, *, threads: int = 1) -> Callable[[float], float] | None:
        """The mean -ln of the probability of a word's gold pair, as a function of the scale.

        Not counted are words without tags, and with a pair that the tagger does not know. A
        probability counts as at least LEAST_PROBABILITY, as in measures of reliability.

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
            model = replace(self.pairs, scale=scale)
            parts = mapped(lambda piece: model.marginals(*piece), pieces, threads)
            found = np.concatenate(list(parts))
            return float(-np.log(found[counted].clip(min=LEAST_PROBABILITY)).mean())

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
            replace(self.pairs, scale=scale), self.words, self.feats, self.known_feats,
            self.network, is_calibrated=True,
        )  # fmt: skip

    @cached_property
    def _feats_reader(self) -> FeatsReader:
        assert self.feats
        fields = WordSequences(self.feats.templates, GIVEN, self._forms, self.network)
        return FeatsReader(self.pairs.table, self.feats.table, self.known_feats, fields)

    @cached_property
    def _seen(self) -> SeenTags:
        """The coarse tags of words in lower case."""
        lowers = as_bytes("\n".join(self.words.names).lower())
        return SeenTags.of_dictionary(self.words, lowers, [tag[0] for tag in self.pairs.table.tags])

    def pack(self) -> bytes:
        """The tagger as one file."""
        facts: dict[str, Any] = {}
        arrays: dict[str, np.ndarray] = {}
        for name, model in (("pairs", self.pairs), ("feats", self.feats)):
            if model:
                facts[name], tables = model.packed()
                arrays |= {f"{name}_{key}": table for key, table in tables.items()}
        for name, known in zip(_DICTIONARIES, (self.words, *self.known_feats), strict=True):
            facts[name] = known.least
            arrays |= known.packed(name)
        if self.is_calibrated:
            facts[_CALIBRATED] = True
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
            optional = {"feats", _CALIBRATED} & set(facts)
            check_names(facts, {"pairs", _NETWORK, *_DICTIONARIES, *optional})
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
            read = {*pairs.templates.fields, *(feats.templates.fields if feats else ())} - {*GIVEN}
            if not read.isdisjoint(COLUMNS) or not {*GIVEN[:2]}.isdisjoint(pairs.templates.fields):
                raise ValueError("templates that read columns which are found later")
            _check_tags(pairs.table.tags, feats.table.tags if feats else ())
            n_feats = len(feats.table) if feats else 1
            sizes = {"words": len(pairs.table)} | dict.fromkeys(_DICTIONARIES[1:], n_feats)
            tabs = {"words_of_feats": 2}  # of a form, UPOS and XPOS
            known = {
                name: dictionary.unpacked(arrays, name, facts[name], size, tabs=tabs.get(name))
                for name, size in sizes.items()
            }
            tables = {key.removeprefix(f"{_NETWORK}_"): array for key, array in below.items()}
            of_models = {"pairs": pairs} | ({"feats": feats} if feats else {})
            parts = {name: PART_BLOCK * len(m.table.blocks) for name, m in of_models.items()}
            found = cls(
                pairs, known.pop("words"), feats, FeatsDictionaries(**known),
                unpacked_network(facts[_NETWORK], tables, parts, is_field),
                is_calibrated=_CALIBRATED in facts,
            )  # fmt: skip
        except (
            KeyError, TypeError, ValueError, AttributeError, AssertionError, ConfigError,
        ) as error:  # fmt: skip
            raise ModelError(f"{path}: not a tagger of this version: {one_line(error)}") from error
        opened.remember()
        return found


_CALIBRATED, _NETWORK = "calibrated", "network"
_DICTIONARIES = ("words", *FeatsDictionaries._fields)


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
    """Sentences first : last of a treebank; all of them are the treebank itself."""
    return treebank if last - first == len(treebank) else treebank.part(first, last)
