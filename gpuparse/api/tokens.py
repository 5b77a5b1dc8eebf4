"""Tokens: the words of a parsed sentence one by one, and its multiword tokens."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from itertools import accumulate, chain
from math import isnan
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gpuparse.data.columns import FEATS, FORM, LEMMA, MISC, UPOS, XPOS
from gpuparse.data.treebank import Treebank
from gpuparse.data.vocabulary import column_ids
from gpuparse.text.conllu import (
    NEW_DOCUMENT,
    Surface,
    read_comments,
    sentence_text,
    surface,
    surface_sentence,
)

if TYPE_CHECKING:
    from gpuparse.api.results import Parsed, ParsedSentence


class Token:
    """A word of a sentence, with what was given and found; it reads the sentence's arrays.

    Tokens are equal if they are the same word of the same sentence of one result.
    """

    __slots__ = ("_index", "_sentence")

    def __init__(self, sentence: ParsedSentence, index: int) -> None:
        """index: from 0."""
        self._sentence, self._index = sentence, index

    @property
    def sentence(self) -> ParsedSentence:
        """The sentence that it is a word of."""
        return self._sentence

    @property
    def id(self) -> int:
        """ID: its number in the sentence, from 1."""
        return self._index + 1

    @property
    def form(self) -> str:
        """FORM, the word."""
        return self._value("form")

    @property
    def lemma(self) -> str | None:
        """LEMMA; None without one, which is `_` except of the word `_`."""
        return self._value("lemma")

    @property
    def upos(self) -> str | None:
        """UPOS, the coarse tag; None without one."""
        return self._value("upos")

    @property
    def xpos(self) -> str | None:
        """XPOS, the fine tag; None without one."""
        return self._value("xpos")

    @property
    def feats(self) -> Mapping[str, str]:
        """FEATS by name, read-only; a feature without `=` has the value ""."""
        return MappingProxyType(self._value("feats"))

    @property
    def misc(self) -> Mapping[str, str]:
        """MISC by key, read-only, as `to_conllu` writes it; an item without `=` has the value "".

        Cost: the first time, that of `to_conllu` of all sentences.
        """
        written = self._sentence._parsed._written
        return items_of(written.column(self._sentence._written_start + self._index, MISC))

    @property
    def head(self) -> Token | None:
        """Its head; None for the root, and for a word of a file without a head."""
        head = self._value("head")
        return Token(self._sentence, head - 1) if head else None

    @property
    def deprel(self) -> str | None:
        """The relation to its head; None from a parser of heads only."""
        return self._value("deprel")

    @property
    def children(self) -> list[Token]:
        """The words that it is the head of, in the order of the text."""
        heads = self._sentence._head_array
        return [Token(self._sentence, i) for i in np.flatnonzero(heads == self.id).tolist()]

    @property
    def subtree(self) -> list[Token]:
        """The word with all that descends from it, in the order of the text."""
        modifiers: dict[int, list[int]] = {}
        for i, head in enumerate(self._sentence._head_array.tolist()):
            modifiers.setdefault(head - 1, []).append(i)
        reached = {self._index}
        left = [self._index]
        while left:
            new = [i for i in modifiers.get(left.pop(), ()) if i not in reached]
            reached.update(new)
            left += new
        return [Token(self._sentence, i) for i in sorted(reached)]

    @property
    def start(self) -> int | None:
        """The first character of the text that was given; None for inputs that are no text.

        A word of a multiword token has the characters of the token, unless the words one after
        the other are the token, as `do` and `n't` are `don't`.
        """
        return self._value("start")

    @property
    def end(self) -> int | None:
        """The character after its last one; see `start`."""
        return self._value("end")

    @property
    def space_after(self) -> bool:
        """True if white space may follow: False for `SpaceAfter=No`, and in a multiword token."""
        return self._value("space_after")

    @property
    def probability(self) -> float | None:
        """The probability of its head; None unless asked for."""
        return self._value("probability")

    @property
    def deprel_probability(self) -> float | None:
        """The probability of its relation, given the head; None unless asked for."""
        return self._value("deprel_probability")

    @property
    def tag_probability(self) -> float | None:
        """The probability of its tags; None unless asked for, and where the tags were given."""
        return self._value("tag_probability")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Token):
            return NotImplemented
        return self._index == other._index and self._sentence == other._sentence

    def __hash__(self) -> int:
        return hash((self._sentence, self._index))

    def __str__(self) -> str:
        """The word."""
        return self.form

    def __repr__(self) -> str:
        head, deprel, above = self._value("head"), self.deprel, self.head
        of = "root" if head == 0 else "no head" if above is None else f"{head} {above.form}"
        if above is not None:
            of = f"{deprel or 'modifier'} of {of}"
        elif deprel not in (None, of):
            of = f"{deprel}, {of}"
        return f"<Token {self.id} {self.form}: {of}>"

    def _value(self, field: str) -> Any:
        return self._sentence._parsed._values(field)[self._sentence._start + self._index]


def items_of(text: str) -> Mapping[str, str]:
    """FEATS or MISC by name, read-only."""
    items = (item.partition("=") for item in text.split("|")) if text != "_" else ()
    return MappingProxyType({name: value for name, _, value in items})


def _none(value: str) -> str | None:
    return None if value == "_" else value


class MultiwordToken(NamedTuple):
    """A token of several words, such as `don't` of `do` and `n't`.

    first, last: the IDs of its words. start, end: its characters in the text that was given, None
    for inputs that are no text.
    """

    form: str
    first: int
    last: int
    start: int | None
    end: int | None


class Surfaces(NamedTuple):
    """The spelling of the words of a treebank in the text.

    starts, ends: (W,) characters of the text; empty for inputs that are no text. space_after:
    (W,). multiword, texts: of the S sentences with words.
    """

    starts: list[int]
    ends: list[int]
    space_after: list[bool]
    multiword: list[list[MultiwordToken]]
    texts: list[str]

    @classmethod
    def of(
        cls, treebank: Treebank, *, is_text: bool, firsts: Mapping[int, int] | None = None
    ) -> Surfaces:
        """The surfaces of a treebank's sentences.

        Args:
            is_text: whether it was made of raw texts, each of which begins with `# newdoc`.
            firsts: of pieces of texts, the first character by the number of the first sentence.
        Cost: 0.5 µs per word; of sentences without spaces in MISC, or without `# text`, 4 µs.
        """
        bounds, n_words = treebank.word_starts.tolist(), treebank.n_words
        if not n_words:
            return cls([], [], [], [], [])
        heads, ranges = _other_lines(treebank)
        ids, miscs = column_ids(treebank, MISC)
        form_ids, forms = column_ids(treebank, FORM)
        said = [surface("", misc) for misc in miscs]
        before = _lengths([each.before for each in said])[ids]
        sizes = _lengths([each.text for each in said])[ids]  # of tokens with spaces in them
        sizes = np.where(sizes > 0, sizes, _lengths(forms)[form_ids])
        after = _lengths([each.after for each in said])[ids]
        is_inner = np.zeros(n_words, np.bool_)
        for each in ranges:  # its first word is the token, the others are nothing
            token, i = each.token, each.first
            before[i], sizes[i], after[i] = _lengths([token.before, token.text, token.after])
            is_inner[i + 1 : each.stop] = True
        before[is_inner], sizes[is_inner], after[is_inner] = 0, 0, _UNSAID
        says_spaces = np.maximum.reduceat(after, treebank.word_starts[:-1]) > _UNSAID
        texts, at_begin = [], {0: 0}
        for s, (head, says) in enumerate(zip(heads, says_spaces.tolist(), strict=True)):
            begins, text = read_comments(head)
            if begins == NEW_DOCUMENT:
                at_begin[s] = 0
            if text is None or not says:
                start, end = treebank.spans[s].tolist()
                found = surface_sentence(treebank.data[start:end].tobytes().decode())
                here = slice(bounds[s], bounds[s + 1])
                after[here][~is_inner[here]] = _lengths([token.after for token in found.tokens])
                text = sentence_text(found)
            texts.append(text)
        after[is_inner] = 0
        passed = np.concatenate([[0], np.cumsum(before + sizes + np.abs(after))])
        at_begin |= firsts or {}
        sentences = np.array(sorted(at_begin))
        words = treebank.word_starts[sentences]
        shifts = np.array([at_begin[s] for s in sentences.tolist()]) - passed[words]
        places = passed[:-1] + before + np.repeat(shifts, np.diff(words, append=n_words))
        starts, ends, spaces = places.tolist(), (places + sizes).tolist(), (after != 0).tolist()
        multiword: list[list[MultiwordToken]] = [[] for _ in heads]
        for each in ranges:
            i, j = each.first, each.stop
            place = starts[i], ends[i]
            starts[i:j], ends[i:j] = each.places(*place, forms=[forms[w] for w in form_ids[i:j]])
            spaces[i:j] = [*[False] * (j - i - 1), spaces[i]]
            begin = bounds[each.sentence] - 1
            multiword[each.sentence].append(
                MultiwordToken(
                    each.token.form, i - begin, j - 1 - begin, *(place if is_text else (None, None))
                )
            )
        return cls(starts if is_text else [], ends if is_text else [], spaces, multiword, texts)


class _Range(NamedTuple):
    """A multiword token of a treebank; its words are `first` to `stop` - 1."""

    sentence: int
    first: int
    stop: int
    token: Surface

    def places(self, start: int, end: int, *, forms: list[str]) -> tuple[list[int], list[int]]:
        """The first characters of its words, and their ends."""
        if "".join(forms) != self.token.text:
            return [start] * len(forms), [end] * len(forms)
        bounds = list(accumulate(map(len, forms), initial=start))
        return bounds[:-1], bounds[1:]


def _other_lines(treebank: Treebank) -> tuple[list[str], list[_Range]]:
    """The lines before the words of each sentence, and the multiword tokens."""
    data, starts = treebank.data.tobytes(), treebank.word_starts
    begins, firsts = treebank.spans[:, 0].tolist(), treebank.columns[starts[:-1], 0].tolist()
    heads = [data[i:j].decode() for i, j in zip(begins, firsts, strict=True)]
    follows = np.diff(treebank.lines) == 1
    follows[starts[1:-1] - 1] = True
    later = np.flatnonzero(~follows) + 1  # words with other lines between them and the word before
    sentences = np.searchsorted(starts, later, side="right") - 1
    between = [
        (s, w, data[i - 1 : j].decode())
        for s, w, i, j in zip(
            sentences.tolist(), later.tolist(), treebank.columns[later - 1, 10].tolist(),
            treebank.columns[later, 0].tolist(), strict=True,
        )
    ]  # fmt: skip
    at_first = [
        (s, w, head) for s, (w, head) in enumerate(zip(starts[:-1].tolist(), heads, strict=True))
    ]
    ranges = []
    for s, first, lines in chain(at_first, between):
        for found in _RANGE.finditer(lines):
            columns = found[0].removesuffix("\r").split("\t")
            size = int(found[2]) - int(found[1]) + 1
            ranges.append(_Range(s, first, first + size, surface(columns[1], columns[9])))
    return heads, sorted(ranges, key=lambda each: each.first)


_RANGE = re.compile(r"^([0-9]+)-([0-9]+)\t.*$", re.MULTILINE)
_UNSAID = -1


def _lengths(texts: Sequence[str | None]) -> np.ndarray:
    """The lengths of texts; _UNSAID for None."""
    return np.array([_UNSAID if text is None else len(text) for text in texts], np.int64)


encoded = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode

_COLUMNS = {"form": FORM, "lemma": LEMMA, "upos": UPOS, "xpos": XPOS, "feats": FEATS}
_FIELDS = (
    "id", *_COLUMNS, "head", "deprel", "start", "end", "space_after", "probability",
    "deprel_probability", "tag_probability",
)  # fmt: skip
_TEXTS = (*_COLUMNS, "deprel", "space_after")  # of few values; others are numbers


def as_dict(sentence: ParsedSentence, name: str | None) -> dict[str, Any]:
    """A sentence as `ParsedSentence.to_dict` describes it.

    Args: name: what `id` is without a `# sent_id`.
    """
    words = slice(sentence._start, sentence._stop)
    columns = [sentence._parsed._values(field)[words] for field in _FIELDS]
    tokens = [dict(zip(_FIELDS, values, strict=True)) for values in zip(*columns, strict=True)]
    for token in tokens:
        token["feats"] = dict(token["feats"])
    return _members(sentence, name) | {"tokens": tokens}


def members_as_json(sentence: ParsedSentence, name: str | None) -> dict[str, str]:
    """The members of `as_dict`, key and value as JSON, by key."""
    tokens = sentence._parsed._tokens_as_json[sentence._start : sentence._stop]
    values = {key: encoded(value) for key, value in _members(sentence, name).items()}
    values["tokens"] = f"[{','.join(tokens)}]"
    return {key: f'"{key}":{value}' for key, value in values.items()}


def _members(sentence: ParsedSentence, name: str | None) -> dict[str, Any]:
    """The members of `as_dict`, without its tokens."""
    trees = [
        {"heads": [head if head >= 0 else None for head in tree.heads], "deprels": tree.deprels,
         "probabilities": tree.probabilities, "score": tree.score, "probability": tree.probability}
        for tree in sentence.trees
    ]  # fmt: skip
    multiword = [
        {"first": each.first, "last": each.last, "form": each.form, "start": each.start,
         "end": each.end}
        for each in sentence.multiword
    ]  # fmt: skip
    return {
        "id": sentence.sent_id or name, "text": sentence.text, "tokens": [],
        "multiword": multiword, "trees": trees,
    }  # fmt: skip


def tokens_as_json(parsed: Parsed) -> list[str]:
    """Each word as JSON, in half the time of `json`: each text is encoded once."""
    columns = []
    for field in _FIELDS:
        values = parsed._values(field)
        if field in _TEXTS:
            texts = {number: encoded(value) for number, value in {id(v): v for v in values}.items()}
            columns.append([texts[id(value)] for value in values])
        else:
            columns.append(["null" if value is None else value for value in values])
    members = ",".join(f'"{field}":%s' for field in _FIELDS)
    return [f"{{{members % row}}}" for row in zip(*columns, strict=True)]


def values_of(parsed: Parsed, field: str) -> list[Any]:
    """A field of tokens, for all words."""
    treebank, found = parsed._treebank, parsed._found
    if field in _COLUMNS:
        ids, names = column_ids(treebank, _COLUMNS[field])
        values: list[Any] = names
        if field == "feats":
            values = [dict(items_of(name)) for name in names]
        elif field != "form":
            values = [_none(name) for name in names]
        of_words = [values[i] for i in ids.tolist()]
        if field == "lemma" and "_" in names:
            forms, place = parsed._values("form"), names.index("_")
            for w in np.flatnonzero(ids == place).tolist():
                of_words[w] = "_" if forms[w] == "_" else None
        return of_words
    if field == "id":
        starts = treebank.word_starts
        ids = np.arange(1, treebank.n_words + 1) - np.repeat(starts[:-1], np.diff(starts))
        return ids.tolist()
    if field == "head":
        return [head if head >= 0 else None for head in found.heads[0].tolist()]
    nothing = [None] * treebank.n_words
    if field == "deprel":
        values = [_none(name) for name in found.names]
        return nothing if found.labels is None else [values[i] for i in found.labels[0].tolist()]
    if field in ("start", "end", "space_after"):
        surfaces = parsed._surfaces
        places = {"start": surfaces.starts, "end": surfaces.ends}
        return surfaces.space_after if field == "space_after" else places[field] or nothing
    numbers = {
        "probability": found.head_probabilities, "deprel_probability": found.label_probabilities,
        "tag_probability": found.tag_probabilities,
    }[field]  # fmt: skip
    if numbers is None:
        return nothing
    # Of trees those of the best one.
    return [None if isnan(number) else number for number in np.atleast_2d(numbers)[0].tolist()]
