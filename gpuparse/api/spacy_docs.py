"""Docs of spaCy as sentences of words, and trees of these words as annotations of tokens.

A token is a word, several words (a multiword token), or none (blanks).
"""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
from spacy import attrs
from spacy.parts_of_speech import IDS as PARTS_OF_SPEECH
from spacy.tokens import Doc, Token
from spacy.vocab import Vocab

from gpuparse.api.results import Parsed
from gpuparse.data.columns import FEATS, LEMMA, UPOS, XPOS
from gpuparse.data.faults import TreeFault
from gpuparse.data.treebank import Treebank
from gpuparse.data.trees import check_sentences
from gpuparse.errors import DataError
from gpuparse.formats.paragraphs import SPACES
from gpuparse.jobs.predictions import FoundArrays, word_columns
from gpuparse.text.conllu import NO_PARAGRAPH, Surface, spaces_between, surface_sentences
from gpuparse.text.tokenizer import Tokenizer

# Extension attributes of tokens: the words of a multiword token, also on tokens that it was cut
# into, each with one word; how probable the head and the relation are.
WORDS, HEAD_PROB, DEP_PROB = "mwt_words", "head_prob", "dep_prob"
_ROOT = "ROOT"  # the relation of a word without a head in spaCy
_NO_RELATION = "dep"  # of blanks, and of words of a parser of heads only, as in spaCy
_NO_PART_OF_SPEECH = (
    "gpuparse: some coarse tags of the model are no UPOS of Universal Dependencies, and spaCy holds"
    " no others: token.pos is empty there"
)
_NO_FEATURES = (
    "gpuparse: some features of the model are not written as Name=Value, and spaCy holds no others:"
    " token.morph lacks them"
)
_BLANKS = "".join(map(chr, SPACES))
_REFUSED = frozenset("\0\t\n\r")  # characters that no column has
_REPLACED = {0: "\ufffd", **dict.fromkeys(map(ord, "\t\n\r"), " ")}
_ATTRIBUTES = {
    "deprel": attrs.DEP, "lemma": attrs.LEMMA, "upos": attrs.POS, "xpos": attrs.TAG,
    "feats": attrs.MORPH,
}  # fmt: skip
_OF_BLANKS = {"deprel": _NO_RELATION, "upos": "SPACE", "xpos": "_SP"}  # as in spaCy
_GIVEN: dict[str, Callable[[Token], str]] = {
    "lemma": lambda token: token.lemma_,
    "upos": lambda token: token.pos_,
    "xpos": lambda token: token.tag_,
    "feats": lambda token: str(token.morph),
}
FIELDS = tuple(_GIVEN)


def add_extensions(names: Iterable[str]) -> None:
    """Register extension attributes of tokens, None where they are not set."""
    for name in names:
        if not Token.has_extension(name):
            Token.set_extension(name, default=None)


class _TokensOfDoc:
    """The n tokens of a Doc, and what is known of their words and sentences.

    Attributes:
        texts: of the tokens. blank: (n,) bool, a token of spaces alone, which is no word.
        begins: (n,) bool, whether a sentence begins with the token.
        words: of tokens that are several words, or were cut out of a multiword token, by number.
    """

    def __init__(self, doc: Doc) -> None:
        self.doc = doc
        self.texts = [token.text for token in doc]
        self.blank = np.array([not text.strip(_BLANKS) for text in self.texts], np.bool_)
        given = doc.to_array([attrs.SENT_START]).reshape(-1).astype(np.int64)
        self.begins = given == 1
        self.begins[:1] = True
        self._is_open = (given == 0) & ~self.begins
        self.words: dict[int, list[str]] = {}
        if any(isinstance(key, tuple) and WORDS in key for key in doc.user_data):
            for token in doc:
                if token._.get(WORDS):
                    self.words[token.i] = [word["form"] for word in token._.get(WORDS)]

    def asks(self, tokenizer: Tokenizer) -> bool:
        """Whether a tokeniser can say more."""
        can_split = tokenizer.words is not None and not self.words
        return can_split or bool((self._is_open & ~self.blank).any())

    @property
    def ends(self) -> np.ndarray:
        """The last character of each token that is a word."""
        return np.array(
            [
                token.idx + len(text.rstrip(_BLANKS)) - 1
                for token, text, blank in zip(self.doc, self.texts, self.blank, strict=True)
                if not blank
            ],
            np.int64,
        )

    def take(self, words: dict[int, list[str]], is_end: np.ndarray) -> None:
        """Take what a tokeniser said, as far as it is not known."""
        numbers = np.flatnonzero(~self.blank)
        following = numbers[1:][is_end[:-1]]
        self.begins[following] |= self._is_open[following]
        if not self.words:
            self.words = {int(numbers[number]): forms for number, forms in words.items()}


@dataclass(frozen=True, eq=False)
class DocWords:
    """The W words of the T tokens of some Docs, Doc after Doc.

    Attributes:
        docs: the Docs. texts: of the tokens.
        blank, begins: (T,) bool: the token is no word; a sentence begins with it.
        owners: (W,) int64, the token that a word is, or is part of. forms: of the words.
        sentence_starts: int64, words, of the sentences that have any; the last is W.
    """

    docs: Sequence[Doc]
    texts: list[str]
    blank: np.ndarray
    begins: np.ndarray
    owners: np.ndarray
    forms: list[str]
    sentence_starts: np.ndarray

    @classmethod
    def of(cls, docs: Sequence[Doc], tokenizer: Tokenizer | None, *, splits: bool) -> DocWords:
        """The words of Docs.

        Args:
            tokenizer: says where sentences begin, and which tokens are several words, as far as the
                Docs do not say it.
            splits: whether multiword tokens are several words; else each is one.
        Cost: about a microsecond a token, and that of the tokeniser.
        """
        read = [_TokensOfDoc(doc) for doc in docs]
        if tokenizer is not None:
            asked = [each for each in read if each.asks(tokenizer)]
            texts = [each.doc.text.replace("\0", "\ufffd") for each in asked]
            told = tokenizer.annotate(texts, [each.ends for each in asked])
            for each, (words, is_end) in zip(asked, told, strict=True):
                each.take(words, is_end)
        forms: list[list[str]] = []  # of each token
        for each in read:
            known = each.words if splits else {}
            for i, (text, blank) in enumerate(zip(each.texts, each.blank.tolist(), strict=True)):
                forms.append([] if blank else known.get(i) or [text])
        owners = np.repeat(np.arange(len(forms)), [len(words) for words in forms])
        begins = _joined([each.begins for each in read])
        sentences = np.cumsum(begins)[owners]
        return cls(
            docs, [text for each in read for text in each.texts],
            _joined([each.blank for each in read]), begins, owners,
            [_clean(form) or "_" for words in forms for form in words],
            np.append(np.flatnonzero(np.diff(sentences, prepend=0)), len(owners)),
        )  # fmt: skip

    def sentences(self, fields: Iterable[str]) -> list[Any]:
        """The sentences that have words, as `SentenceParser.parse` takes them.

        Args: fields: of FIELDS, what else is read of the Docs. The words of a multiword token have
            none of it.
        """
        columns = {"form": self.forms}
        if fields:
            tokens = [token for doc in self.docs for token in doc]
            is_alone = np.bincount(self.owners, minlength=len(tokens)) == 1
            words = list(zip(self.owners.tolist(), is_alone[self.owners].tolist(), strict=True))
            for field in fields:
                value = _GIVEN[field]
                columns[field] = [_clean(value(tokens[t])) if alone else "" for t, alone in words]
        bounds = pairwise(self.sentence_starts.tolist())
        if len(columns) == 1:
            return [self.forms[i:j] for i, j in bounds]
        return [{name: values[i:j] for name, values in columns.items()} for i, j in bounds]

    def write(self, parsed: Parsed, filled: Iterable[int], *, keep: bool) -> None:
        """Write trees of the words, tags and lemmas into the Docs.

        A multiword token has the head and the relation of its highest word: the one with the
        shortest path to the root, the first one of equal ones. Each head is thus higher than its
        modifier, so that the result is a tree.

        Args:
            parsed: the result for `sentences`, with trees of one root each.
            filled: numbers of the columns that the model fills in, and that are written.
            keep: whether lemmas and tags that the Docs have stay.
        """
        found = parsed._found
        firsts = np.repeat(self.sentence_starts[:-1], np.diff(self.sentence_starts))
        heads = np.where(found.heads[0] > 0, found.heads[0] - 1 + firsts, -1)
        highest, several = self._highest(heads)
        offsets = self._token_heads(heads, highest) - np.arange(len(highest))
        of_words: dict[str, tuple[np.ndarray, list[str]]] = {}
        for name, (ids, names) in word_columns(parsed._treebank, filled).items():
            of_words[name] = ids, names or []
        of_words["deprel"] = _relations(found)
        of_tokens = {
            name: self._of_tokens(name, *column, highest, several, offsets == 0)
            for name, column in of_words.items()
        }
        for vocab in {id(doc.vocab): doc.vocab for doc in self.docs}.values():
            hashes = {name: _hashes(name, *column, vocab) for name, column in of_tokens.items()}
            for doc, (start, stop) in zip(
                self.docs, pairwise(accumulate(map(len, self.docs), initial=0)), strict=True
            ):
                if doc.vocab is vocab and len(doc):
                    here = {_ATTRIBUTES[name]: of[start:stop] for name, of in hashes.items()}
                    here = _kept(doc, here) if keep else here
                    here[attrs.HEAD] = offsets[start:stop].astype(np.uint64)
                    doc.from_array(list(here), np.stack(list(here.values()), axis=1))
        self._extend(found, of_words, highest, several)

    def _of_tokens(
        self, name: str, of_words: np.ndarray, names: list[str], highest: np.ndarray,
        several: dict[int, range], is_root: np.ndarray,
    ) -> tuple[np.ndarray, list[str]]:  # fmt: skip
        """A column of words as one of tokens: numbers of names, -1 for nothing, and the names.

        Multiword tokens have what `spacy convert --merge-subtokens` gives them: the part of speech
        and the relation of the highest word; the lemmas of all words with spaces between, their
        tags with `_` between, and all values of their features.
        """
        names = list(names)
        ids = np.append(of_words, -1)[highest]
        for token, words in several.items() if name in _MERGED else ():
            texts = [names[i] for i in of_words[words.start : words.stop].tolist() if i >= 0]
            if texts:
                ids[token] = len(names)
                names.append(_MERGED[name](texts))
        if name == "lemma":
            for token in np.flatnonzero(self.blank).tolist():
                ids[token] = len(names)
                names.append(self.texts[token])
        elif name in _OF_BLANKS:
            ids[self.blank] = len(names)
            names.append(_OF_BLANKS[name])
        if name == "deprel":
            ids[is_root] = len(names)
            names.append(_ROOT)
        return ids, names

    def _extend(
        self, found: FoundArrays, of_words: dict[str, tuple[np.ndarray, list[str]]],
        highest: np.ndarray, several: dict[int, range],
    ) -> None:  # fmt: skip
        """Set the extension attributes of tokens."""
        numbers = {HEAD_PROB: found.head_probabilities, DEP_PROB: found.label_probabilities}
        asked = {name: each[0].tolist() for name, each in numbers.items() if each is not None}
        if not asked and not several:
            return
        tokens = (token for doc in self.docs for token in doc)
        for t, (token, word) in enumerate(zip(tokens, highest.tolist(), strict=True)):
            for name, of_all in asked.items() if word >= 0 else ():
                token._.set(name, of_all[word])
            if t in several:
                values = [{"form": self.forms[w]} for w in several[t]]
                for w, value in zip(several[t], values, strict=True):
                    for name, (ids, names) in of_words.items():
                        if ids[w] >= 0:
                            value[name] = names[ids[w]]
                token._.set(WORDS, values)

    def _highest(self, heads: np.ndarray) -> tuple[np.ndarray, dict[int, range]]:
        """(T,) int64, the highest word of each token, -1 of blanks; the words of multiword tokens.

        Args: heads: (W,) int64, words; -1 for the root.
        """
        firsts = np.searchsorted(self.owners, np.arange(len(self.blank) + 1))
        highest = np.where(self.blank, -1, firsts[:-1])
        several = {}
        for token in np.flatnonzero(np.diff(firsts) > 1).tolist():
            words = range(firsts[token], firsts[token + 1])
            several[token] = words
            highest[token] = min(words, key=lambda word: _depth(word, heads))
        return highest, several

    def _token_heads(self, heads: np.ndarray, highest: np.ndarray) -> np.ndarray:
        """(T,) int64, the head of each token, itself for the root.

        Blanks are attached to the word before them in their sentence, or to its first word; of a
        sentence without words, the first token is the root, and the head of all other tokens.
        """
        tokens = np.arange(len(highest))
        starts = np.flatnonzero(self.begins)
        sentences = np.cumsum(self.begins) - 1
        first, end = starts[sentences], np.append(starts[1:], len(tokens))[sentences]
        before = np.maximum.accumulate(np.where(self.blank, -1, tokens))
        after = np.minimum.accumulate(np.where(self.blank, len(tokens), tokens)[::-1])[::-1]
        of_blanks = np.where(before >= first, before, np.where(after < end, after, first))
        above = np.append(heads, -1)[highest]  # words; -1 for the root
        of_words = np.where(above < 0, tokens, np.append(self.owners, -1)[above])
        return np.where(self.blank, of_blanks, of_words)


class DocTokens:
    """The tokens of a text, from which its Doc is made.

    A multiword token whose words, one after the other, are its text becomes a token for each.
    """

    def __init__(self, text: str) -> None:
        self._text, self._end = text, 0  # of the tokens that are there
        self._only_blanks = True
        self._texts: list[str] = []
        self._spaces: list[bool] = []
        self._begins: list[bool] = []
        self._words: dict[int, tuple[str, ...]] = {}

    def add(self, start: int, text: str, words: tuple[str, ...], *, begins: bool) -> None:
        """A token from the character `start` on.

        begins: whether a sentence begins with it; the first one begins with the white space before.
        """
        self._add_blanks(start)
        begins = not self._texts or (begins and not self._only_blanks)
        self._only_blanks = False
        pieces: tuple[str, ...] = (text,)
        if len(words) > 1:
            if "".join(words) == text:
                pieces = words
                self._words |= {len(self._texts) + k: (word,) for k, word in enumerate(words)}
            else:
                self._words[len(self._texts)] = words
        for piece in pieces:
            self._add(piece, begins=begins)
            begins = False
        self._end = start + len(text)

    def doc(self, vocab: Vocab) -> Doc:
        """The Doc, after the last token."""
        self._add_blanks(len(self._text))
        made = Doc(vocab, words=self._texts, spaces=self._spaces, sent_starts=self._begins)
        for number, words in self._words.items():
            made[number]._.set(WORDS, [{"form": word} for word in words])
        return made

    def _add_blanks(self, end: int) -> None:
        blanks = self._text[self._end : end]
        if self._texts and blanks.startswith(" "):
            self._spaces[-1] = True
            blanks = blanks[1:]
        if blanks:
            self._add(blanks, begins=not self._texts)

    def _add(self, text: str, *, begins: bool) -> None:
        self._texts.append(text)
        self._spaces.append(False)
        self._begins.append(begins)


def doc_of(parsed: Parsed, vocab: Vocab | None) -> Doc:
    """Parsed sentences as a Doc, as `Parsed.to_spacy` describes it."""
    treebank = parsed._treebank
    heads = parsed._found.heads[0]
    faults, _ = check_sentences(heads, treebank.word_starts, True, False)
    wrong = np.flatnonzero(faults != TreeFault.WELL_FORMED)
    if len(wrong):
        name = treebank.sent_id(int(wrong[0]))
        raise DataError(
            f"to_spacy(): sentence {parsed._rows.index(wrong[0])}{f' ({name})' if name else ''} is"
            " no tree with one root, and a Doc holds no others; a parser that was loaded with"
            " single_root=True finds them"
        )
    add_extensions((WORDS, HEAD_PROB, DEP_PROB))
    doc = _doc_of_surfaces(treebank).doc(Vocab() if vocab is None else vocab)
    words = DocWords.of([doc], None, splits=True)
    if len(words.forms) != treebank.n_words:
        raise DataError("to_spacy(): a word has only white space, which no token of spaCy has")
    given = word_columns(treebank, (LEMMA, UPOS, XPOS, FEATS)).values()
    there = [n for n, (ids, _) in zip((LEMMA, UPOS, XPOS, FEATS), given, strict=True)
             if (ids >= 0).any()]  # fmt: skip
    words.write(parsed, there, keep=False)
    return doc


def _doc_of_surfaces(treebank: Treebank) -> DocTokens:
    """The tokens of a treebank in its text; see `text_pieces`."""
    after: str | None
    pieces: list[str] = []
    found: list[tuple[int, Surface, bool]] = []  # with the first character; begins a sentence
    at, after = 0, None

    def add(piece: str) -> None:
        nonlocal at
        pieces.append(piece)
        at += len(piece)

    for number, sentence in enumerate(surface_sentences(treebank)):
        if number:
            add(spaces_between(after, sentence.begins != NO_PARAGRAPH))
        for i, token in enumerate(sentence.tokens):
            if i:
                add(" " if after is None else after)
            add(token.before)
            found.append((at, token, not i))
            add(token.text)
            after = token.after
    add(after or "")
    tokens = DocTokens("".join(pieces))
    for start, token, begins in found:
        tokens.add(start, token.text, token.words, begins=begins)
    return tokens


def _relations(found: FoundArrays) -> tuple[np.ndarray, list[str]]:
    """The relations of words, as `word_columns` has columns."""
    if found.labels is None:
        return np.zeros(found.heads.shape[1], np.int64), [_NO_RELATION]
    return found.labels[0], found.names


def _merged_features(texts: list[str]) -> str:
    """All values of the features of several words."""
    values: dict[str, set[str]] = defaultdict(set)
    for item in "|".join(texts).split("|"):
        name, _, value = item.partition("=")
        values[name] |= set(value.split(","))
    return "|".join(f"{name}={','.join(sorted(values[name]))}" for name in sorted(values))


_MERGED: dict[str, Callable[[list[str]], str]] = {
    "lemma": " ".join, "xpos": "_".join, "feats": _merged_features,
}  # fmt: skip


def _hashes(name: str, ids: np.ndarray, names: list[str], vocab: Vocab) -> np.ndarray:
    """(T,) uint64, the values of a column as spaCy stores them."""
    if name == "upos":
        values = [_part_of_speech(text) for text in names]
    elif name == "feats":
        values = [_analysis(text, vocab) for text in names]
    else:
        values = [vocab.strings.add(text) for text in names]
    nothing = _analysis("_", vocab) if name == "feats" else 0
    return np.array([*values, nothing], np.uint64)[ids]


def _part_of_speech(text: str) -> int:
    """The number of a part of speech, 0 for none."""
    number = PARTS_OF_SPEECH.get(text)
    if number is None and text != "_":
        warnings.warn(_NO_PART_OF_SPEECH, stacklevel=2)
    return number or 0


def _analysis(features: str, vocab: Vocab) -> int:
    """The number of an analysis, with those features that have a name and a value."""
    items = [] if features == "_" else features.split("|")
    named = [item for item in items if item.count("=") == 1 and not item.startswith("=")]
    if len(named) < len(items):
        warnings.warn(_NO_FEATURES, stacklevel=2)
    return int(vocab.morphology.add("|".join(named)))


def _kept(doc: Doc, found: dict[int, np.ndarray]) -> dict[int, np.ndarray]:
    """What is found, where a Doc has nothing.

    Features are kept, or left out, in words that have any tag.
    """
    kept = dict(found)
    of_tags = (attrs.POS, attrs.TAG, attrs.MORPH)
    given = {attr: doc.to_array([attr]).reshape(-1) for attr in (attrs.LEMMA, *of_tags)}
    is_given = {attr: values != 0 for attr, values in given.items()}
    is_given[attrs.MORPH] &= given[attrs.MORPH] != _analysis("_", doc.vocab)
    is_given[attrs.MORPH] = np.any([is_given[attr] for attr in of_tags], axis=0)
    for attr in given.keys() & found.keys():
        kept[attr] = np.where(is_given[attr], given[attr], found[attr])
    return kept


def _joined(arrays: Sequence[np.ndarray]) -> np.ndarray:
    return np.concatenate([np.empty(0, np.bool_), *arrays])


def _clean(text: str) -> str:
    """A text as a column can have it."""
    return text if _REFUSED.isdisjoint(text) else text.translate(_REPLACED).strip(" ")


def _depth(word: int, heads: np.ndarray) -> int:
    """How many words are above a word. heads: (W,), -1 for the root."""
    depth = 0
    while (word := heads[word]) >= 0:
        depth += 1
    return depth
