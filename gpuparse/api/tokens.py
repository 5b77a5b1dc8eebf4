"""Tokens: the words of a parsed sentence one by one, and its multiword tokens."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate, chain
from math import isnan
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from gpuparse.data.columns import FEATS, FORM, LEMMA, MISC, UPOS, XPOS
from gpuparse.data.treebank import Treebank
from gpuparse.data.vocabulary import column_ids
from gpuparse.text.conllu import NEW_DOCUMENT, Surface, read_comments, surface, surface_sentence

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
        return self._column(FORM)

    @property
    def lemma(self) -> str | None:
        """LEMMA; None without one, which is `_` except of the word `_`."""
        return _lemma(self.form, self._column(LEMMA))

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


def _lemma(form: str, value: str) -> str | None:
    return value if form == "_" else _none(value)


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
    def of(
        cls, treebank: Treebank, *, is_text: bool, firsts: Mapping[int, int] | None = None
    ) -> Surfaces:
        """Those of the sentences of a treebank.

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
                found = surface_sentence(treebank.data[start:end].tobytes().decode()).tokens
                here = slice(bounds[s], bounds[s + 1])
                after[here][~is_inner[here]] = _lengths([token.after for token in found])
                text = _joined(found) if text is None else text
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
    """How long texts are; _UNSAID: None."""
    return np.array([_UNSAID if text is None else len(text) for text in texts], np.int64)


def _joined(tokens: list[Surface]) -> str:
    """The text of a sentence without `# text`: one space after each token, unless MISC has none."""
    return "".join(token.text + ("" if token.after == "" else " ") for token in tokens).rstrip(" ")


encoded = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


def as_json(sentence: ParsedSentence, number: int) -> str:
    """A sentence as JSON, with the fields of `ParsedSentence.to_dict`.

    Args: number: its name if it has no `# sent_id`.
    """
    return f"{{{','.join(members_as_json(sentence, str(number)).values())}}}"


def members_as_json(sentence: ParsedSentence, name: str | None) -> dict[str, str]:
    """The members of a sentence, key and value as JSON, by key.

    Args: name: what `id` is without a `# sent_id`.
    """
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
    tokens = sentence._parsed._tokens_as_json[sentence._start : sentence._stop]
    return {
        "id": f'"id":{encoded(sentence.sent_id or name)}',
        "text": f'"text":{encoded(sentence.text)}',
        "tokens": f'"tokens":[{",".join(tokens)}]',
        "multiword": f'"multiword":{encoded(multiword)}',
        "trees": f'"trees":{encoded(trees)}',
    }


def tokens_as_json(parsed: Parsed) -> list[str]:
    """Each word as JSON. Cost: 2 µs per word."""
    treebank, found, surfaces = parsed._treebank, parsed._found, parsed._surfaces
    size = treebank.n_words
    null = ["null"] * size
    forms, *others, feats = (column_ids(treebank, number) for number in range(FORM, FEATS + 1))
    values = [_texts_of(ids, [encoded(_none(name)) for name in names]) for ids, names in others]
    if "_" in forms[1]:
        for w in np.flatnonzero(forms[0] == forms[1].index("_")).tolist():
            values[0][w] = encoded(_lemma("_", others[0][1][others[0][0][w]]))
    ids = np.arange(1, size + 1) - np.repeat(
        treebank.word_starts[:-1], np.diff(treebank.word_starts)
    )
    labels, names = found.labels, [encoded(_none(name)) for name in found.names]
    return [
        f'{{"id":{i},"form":{form},"lemma":{lemma},"upos":{upos},"xpos":{xpos},"feats":{features},'
        f'"head":{head},"deprel":{deprel},"start":{start},"end":{end},"space_after":{space},'
        f'"probability":{p},"deprel_probability":{q},"tag_probability":{r}}}'
        for i, form, lemma, upos, xpos, features, head, deprel, start, end, space, p, q, r in zip(
            ids.tolist(), _texts_of(forms[0], map(encoded, forms[1])), *values,
            _texts_of(feats[0], [encoded(dict(items_of(name))) for name in feats[1]]),
            [head if head >= 0 else "null" for head in found.heads[0].tolist()],
            null if labels is None else _texts_of(labels[0], names),
            surfaces.starts or null, surfaces.ends or null,
            ["true" if space else "false" for space in surfaces.space_after],
            _numbers(found.head_probabilities) or null, _numbers(found.label_probabilities) or null,
            _numbers(found.tag_probabilities) or null, strict=True,
        )
    ]  # fmt: skip


def _numbers(probabilities: np.ndarray | None) -> list[str]:
    """Probabilities of words, (W,) or those of the best trees of (k, W), as JSON."""
    if probabilities is None:
        return []
    of_words: list[float] = np.atleast_2d(probabilities)[0].tolist()
    return ["null" if isnan(number) else repr(number) for number in of_words]


def _texts_of(ids: np.ndarray, texts: Iterable[str]) -> list[str]:
    by_number = list(texts)
    return [by_number[i] for i in ids.tolist()]
