"""The input of the model of FEATS: words with their pairs of UPOS and XPOS, and possible FEATS."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from gpuparse.data.cached import SharedCache, cached_property
from gpuparse.text.sequences.model import SequenceModel, Sequences
from gpuparse.text.sequences.tags import TagTable
from gpuparse.text.tagging.dictionary import Dictionary, combined
from gpuparse.text.tagging.fields import SeenTags, Words, WordSequences, value_of, words_with_upos

GIVEN = ("upos", "xpos", "seen")
_RARE = 2  # times with its pair; FEATS that were never seen are possible for rarer words
_MOST_KEYS = 1 << 16  # words with their pair whose candidates are kept in memory


class FeatsDictionaries(NamedTuple):
    """The tags of the model of FEATS that training had, and others that are possible.

    words_of_feats: of words with their pair, `form<TAB>UPOS<TAB>XPOS`.
    classes: of pairs, `UPOS<TAB>XPOS`. composed: those of pairs that training did not have.
    """

    words_of_feats: Dictionary
    classes: Dictionary
    composed: Dictionary

    @classmethod
    def empty(cls) -> "FeatsDictionaries":
        """The dictionaries of a tagger that finds no FEATS."""
        return cls(*[Dictionary.of_counts({}, 1)] * 3)


class FeatsReader:
    """Reads words for a model of FEATS; many threads may use it at once.

    Args:
        pairs: the table of (UPOS, XPOS). tags: the table of the model.
        fields: of the model, with the values of GIVEN.
    """

    def __init__(
        self, pairs: TagTable, tags: TagTable, known: FeatsDictionaries, fields: WordSequences
    ) -> None:
        self._tags, self._known, self._fields = tags, known, fields
        self._names = ["\t".join(pair) for pair in pairs.tags]
        self._values = np.array([list(map(value_of, pair)) for pair in pairs.tags], np.uint32).T
        self._of_keys: SharedCache[dict[str, tuple[np.ndarray, int]]] = SharedCache(dict)
        self._of_rare: dict[str, np.ndarray] = {}

    def read(self, words: Words, pairs: np.ndarray, seen: np.ndarray | None = None) -> Sequences:
        """The words with their candidates.

        Args: pairs: (W,) numbers. seen: (W,) values of that field, in place of those of all words.
        """
        return self._fields.read(words, *self._inputs(words, pairs, seen))

    def find(
        self, model: SequenceModel, words: Words, pairs: np.ndarray, before: Sequences
    ) -> np.ndarray:
        """The best tags. Args: pairs: (W,) numbers. before: see `WordSequences.find`."""
        return self._fields.find(model, words, *self._inputs(words, pairs), before)[1]

    def _inputs(
        self, words: Words, pairs: np.ndarray, seen: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray, list[np.ndarray]]:
        """The given values, the numbers of candidates, and these, as `WordSequences` takes them."""
        keys, names = combined((words.ids, words.forms), (pairs, self._names))
        of_keys = self._found(names)
        given = np.empty((3, len(pairs)), np.uint32)
        given[:2] = self._values[:, pairs]
        given[2] = np.array([value for _, value in of_keys])[keys] if seen is None else seen
        return given, keys, [found for found, _ in of_keys]

    def _found(self, keys: Sequence[str]) -> list[tuple[np.ndarray, int]]:
        """The possible tags and the values of `seen` of `form<TAB>UPOS<TAB>XPOS`."""
        lock, known = self._of_keys.take()
        with lock:
            if len(known) > _MOST_KEYS:
                known.clear()
            if new := [key for key in keys if key not in known]:
                values = self._seen.find(words_with_upos(new), len(new)).tolist()
                found = zip(map(self._possible, new), values, strict=True)
                known.update(zip(new, found, strict=True))
            return [known[key] for key in keys]

    def _possible(self, key: str) -> np.ndarray:
        """The possible tags of a form with its pair."""
        words, classes, composed = self._known
        found = words.candidates(key)
        if len(found):
            return found
        pair = key.partition("\t")[2]
        if words.count(key) >= _RARE:
            return classes.candidates(pair)
        if pair not in self._of_rare:
            both = [known.candidates(pair) for known in (classes, composed)]
            self._of_rare[pair] = np.sort(np.concatenate(both))
        return self._of_rare[pair]

    @cached_property
    def _seen(self) -> SeenTags:
        """The FEATS of words in lower case with their UPOS."""
        words = self._known.words_of_feats
        names = words_with_upos(words.names)
        return SeenTags.of_dictionary(words, names, [text for _, text in self._tags.tags])
