"""Tokens: the words of a parsed sentence one by one, and its multiword tokens."""

from __future__ import annotations

from collections.abc import Mapping
from math import isnan
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gpuparse.data.treebank import Treebank
from gpuparse.data.vocabulary import column_ids
from gpuparse.text.conllu import NEW_DOCUMENT, Surface, surface_sentences

if TYPE_CHECKING:
    from gpuparse.api.results import ParsedSentence

FORM, LEMMA, UPOS, XPOS, FEATS, MISC = 1, 2, 3, 4, 5, 9


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
        return self._column(FORM)

    @property
    def lemma(self) -> str | None:
        """LEMMA; None without one."""
        return self._value(LEMMA)

    @property
    def upos(self) -> str | None:
        """UPOS, the coarse tag; None without one."""
        return self._value(UPOS)

    @property
    def xpos(self) -> str | None:
        """XPOS, the fine tag; None without one."""
        return self._value(XPOS)

    @property
    def feats(self) -> Mapping[str, str]:
        """FEATS by name, read-only; a feature without `=` has the value ""."""
        return items_of(self._column(FEATS))

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
        head = self._head
        return Token(self._sentence, head - 1) if head > 0 else None

    @property
    def deprel(self) -> str | None:
        """The relation to its head; None from a parser of heads only."""
        found = self._sentence._parsed._found
        if found.labels is None:
            return None
        return _none(found.names[found.labels[0, self._word]])

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
        starts = self._sentence._parsed._surfaces.starts
        return starts[self._word] if starts else None

    @property
    def end(self) -> int | None:
        """The character after its last one; see `start`."""
        ends = self._sentence._parsed._surfaces.ends
        return ends[self._word] if ends else None

    @property
    def space_after(self) -> bool:
        """Whether white space may follow: False for `SpaceAfter=No`, and in a multiword token."""
        return self._sentence._parsed._surfaces.space_after[self._word]

    @property
    def probability(self) -> float | None:
        """The probability of its head; None unless asked for."""
        return self._number(self._sentence._parsed._found.head_probabilities)

    @property
    def deprel_probability(self) -> float | None:
        """The probability of its relation, given the head; None unless asked for."""
        return self._number(self._sentence._parsed._found.label_probabilities)

    @property
    def tag_probability(self) -> float | None:
        """The probability of its tags; None unless asked for, and where the tags were given."""
        found = self._sentence._parsed._found.tag_probabilities
        number = None if found is None else float(found[self._word])
        return None if number is None or isnan(number) else number

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
        head, deprel = self._head, self.deprel
        above = self.head
        of = "root" if head == 0 else "no head" if above is None else f"{head} {above.form}"
        if above is not None:
            of = f"{deprel or 'modifier'} of {of}"
        elif deprel not in (None, of):
            of = f"{deprel}, {of}"
        return f"<Token {self.id} {self.form}: {of}>"

    @property
    def _word(self) -> int:
        """Its number among the words of all sentences."""
        return self._sentence._start + self._index

    @property
    def _head(self) -> int:
        return int(self._sentence._parsed._found.heads[0, self._word])

    def _column(self, number: int) -> str:
        ids, names = column_ids(self._sentence._parsed._treebank, number)
        return names[ids[self._word]]

    def _value(self, number: int) -> str | None:
        return _none(self._column(number))

    def _number(self, of_trees: np.ndarray | None) -> float | None:
        return None if of_trees is None else float(of_trees[0, self._word])


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
    """How the words of a treebank are written in the text.

    starts, ends: (W,) characters of the text; empty for inputs that are no text. space_after:
    (W,). multiword, texts: of the S sentences with words.
    """

    starts: list[int]
    ends: list[int]
    space_after: list[bool]
    multiword: list[list[MultiwordToken]]
    texts: list[str]

    @classmethod
    def of(cls, treebank: Treebank, *, is_text: bool) -> Surfaces:
        """Those of the sentences of a treebank.

        Args: is_text: whether it was made of raw texts, each of which begins with `# newdoc`.
        Cost: 4 µs per word.
        """
        found = cls([], [], [], [], [])
        at = 0
        for sentence in surface_sentences(treebank):
            if sentence.begins == NEW_DOCUMENT:
                at = 0
            ranges: list[MultiwordToken] = []
            number = 1
            for token in sentence.tokens:
                start = at + len(token.before)
                end = start + len(token.text)
                found._add(token, start)
                if token.is_range:
                    last = number + len(token.words) - 1
                    place = (start, end) if is_text else (None, None)
                    ranges.append(MultiwordToken(token.form, number, last, *place))
                number += len(token.words)
                at = end + (1 if token.after is None else len(token.after))
            found.multiword.append(ranges)
            found.texts.append(_joined(sentence.tokens) if sentence.text is None else sentence.text)
        return found if is_text else found._replace(starts=[], ends=[])

    def _add(self, token: Surface, start: int) -> None:
        """Add the words of a token that begins at a character."""
        words, end = token.words, start + len(token.text)
        if len(words) > 1 and "".join(words) == token.text:
            for word in words:
                self.starts.append(start)
                start += len(word)
                self.ends.append(start)
        else:
            self.starts.extend([start] * len(words))
            self.ends.extend([end] * len(words))
        self.space_after.extend([False] * (len(words) - 1))
        self.space_after.append(token.after != "")


def _joined(tokens: list[Surface]) -> str:
    """The text of a sentence without `# text`: one space after each token, unless MISC has none."""
    return "".join(token.text + ("" if token.after == "" else " ") for token in tokens).rstrip(" ")


def plain_tokens(sentence: ParsedSentence) -> list[dict[str, Any]]:
    """The tokens of a sentence as plain data, with the keys of `ParsedSentence.to_dict`."""
    parsed, words = sentence._parsed, slice(sentence._start, sentence._stop)
    surfaces, size = parsed._surfaces, len(sentence)
    nothing: list[Any] = [None] * size
    columns = []
    for number in (FORM, LEMMA, UPOS, XPOS, FEATS):
        ids, names = column_ids(parsed._treebank, number)
        columns.append([names[i] for i in ids[words].tolist()])
    forms, *others, feats = columns
    return [
        {
            "id": i, "form": form, "lemma": _none(lemma), "upos": _none(upos),
            "xpos": _none(xpos), "feats": dict(items_of(features)),
            "head": head if head >= 0 else None, "deprel": None if deprel == "_" else deprel,
            "start": start, "end": end, "space_after": space, "probability": p,
            "deprel_probability": q, "tag_probability": r,
        }
        for i, form, lemma, upos, xpos, features, head, deprel, start, end, space, p, q, r in zip(
            range(1, size + 1), forms, *others, feats, sentence._head_array.tolist(),
            sentence.deprels or nothing, surfaces.starts[words] or nothing,
            surfaces.ends[words] or nothing, surfaces.space_after[words],
            sentence.probabilities or nothing, sentence.deprel_probabilities or nothing,
            sentence.tag_probabilities or nothing, strict=True,
        )
    ]  # fmt: skip
