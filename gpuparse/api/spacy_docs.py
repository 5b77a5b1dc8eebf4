"""Docs of spaCy as sentences of words, and trees of these words as annotations of tokens.

A token is a word, several words (a multiword token), or none (blanks).
"""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise

import numpy as np
from spacy import attrs
from spacy.parts_of_speech import IDS as PARTS_OF_SPEECH
from spacy.tokens import Doc, Token
from spacy.vocab import Vocab

from gpuparse.api.results import Parsed
from gpuparse.data.columns import FEATS
from gpuparse.data.faults import TreeFault
from gpuparse.data.formats.paragraphs import SPACES
from gpuparse.data.treebank import Treebank
from gpuparse.data.trees import check_sentences
from gpuparse.data.vocabulary import column_ids
from gpuparse.errors import DataError
from gpuparse.text.conllu import (
    NO_PARAGRAPH,
    Surface,
    spaces_between,
    surface_sentences,
    text_pieces,
)
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
_REPLACED = {0: "\ufffd", **dict.fromkeys(map(ord, "\t\n\r"), " ")}  # what no column has
_ATTRIBUTES = {  # of tokens, and the argument of Doc that sets them
    "deprel": (attrs.DEP, "deps"), "lemma": (attrs.LEMMA, "lemmas"), "upos": (attrs.POS, "pos"),
    "xpos": (attrs.TAG, "tags"), "feats": (attrs.MORPH, "morphs"),
}  # fmt: skip
# As in spaCy; their lemma is their text.
_OF_BLANKS = {"deprel": _NO_RELATION, "upos": "SPACE", "xpos": "_SP", "feats": None}
_GIVEN: dict[str, Callable[[Token], str]] = {
    "lemma": lambda token: token.lemma_,
    "upos": lambda token: token.pos_,
    "xpos": lambda token: token.tag_,
    "feats": lambda token: str(token.morph),
}
FIELDS = tuple(_GIVEN)


def add_extensions() -> None:
    """Register the extension attributes of tokens, None where they are not set."""
    for name in (WORDS, HEAD_PROB, DEP_PROB):
        if not Token.has_extension(name):
            Token.set_extension(name, default=None)


class DocWords:
    """The words of a Doc.

    Attributes:
        texts: of the tokens.
        blank, begins: (n,) bool: a token is of spaces alone, which is no word; a sentence begins
            with it.
        split: the words of multiword tokens, and of tokens that were cut out of one, by number.
        forms: of the words of each token, none of blanks; there after `cut`.
    """

    def __init__(self, doc: Doc) -> None:
        self.doc, self.forms = doc, list[list[str]]()
        self.texts = [token.text for token in doc]
        self.blank = np.array([not text.strip(_BLANKS) for text in self.texts], np.bool_)
        given = doc.to_array([attrs.SENT_START]).reshape(-1).astype(np.int64)
        self.begins = given == 1
        self.begins[:1] = True
        self._is_open = (given == 0) & ~self.begins
        self._places = doc.to_array([attrs.IDX]).reshape(-1).astype(np.int64)
        extended = [(key, of) for key, of in doc.user_data.items() if isinstance(key, tuple)]
        known = {key[2]: of for key, of in extended if key[:2] == ("._.", WORDS)}
        of_tokens = [(t, known.get(place)) for t, place in enumerate(self._places.tolist())]
        self.split = {t: [word["form"] for word in of] for t, of in of_tokens if of}

    def ask(self, tokenizer: Tokenizer) -> None:
        """Let a tokeniser say where sentences begin and what is several words, if the Doc does not.

        Cost: that of the tokeniser.
        """
        can_split = tokenizer.words is not None and not self.split
        if not can_split and not (self._is_open & ~self.blank).any():
            return
        words = np.flatnonzero(~self.blank)
        sizes = np.array([len(text.rstrip(_BLANKS)) for text in self.texts], np.int64)
        ends = self._places + sizes - 1
        text = self.doc.text.replace("\0", "\ufffd")
        [(split, is_end)] = tokenizer.annotate([text], [ends[words]])
        following = words[1:][is_end[:-1]]
        self.begins[following] |= self._is_open[following]
        self.split = self.split or {int(words[number]): split[number] for number in split}

    def cut(self, *, splits: bool) -> int:
        """Cut tokens into words; returns their number.

        splits: whether multiword tokens are several words; else each is one.
        """
        split = self.split if splits else {}
        self.forms = [
            [] if blank else split.get(t) or [self.texts[t]]
            for t, blank in enumerate(self.blank.tolist())
        ]
        return sum(map(len, self.forms))

    def sentences(self, fields: Iterable[str]) -> Iterator[dict[str, list[str]]]:
        """The sentences that have words, as `SentenceParser.parse` takes them.

        Args: fields: of FIELDS, what else is read of the Doc. The words of a multiword token have
            none of it.
        """
        for tokens in self._ranges():
            words = [(t, form) for t in tokens for form in self.forms[t]]
            columns = {"form": [_clean(form) or "_" for _, form in words]}
            for field in fields:
                value = _GIVEN[field]
                columns[field] = [
                    _clean(value(self.doc[t])) if len(self.forms[t]) == 1 else "" for t, _ in words
                ]
            if words:
                yield columns

    def write(self, parsed: Parsed, first: int, filled: Iterable[str]) -> int:
        """Write trees of the words, tags and lemmas into the Doc.

        A multiword token has the head and the relation of its highest word: the one with the
        shortest path to the root, the first one of equal ones. Each head is thus higher than its
        modifier, so that the result is a tree. Its part of speech is that of this word, and the
        rest is what `spacy convert --merge-subtokens` gives it: the lemmas of all words with spaces
        between, their tags with `_` between, and all values of their features.

        Args:
            parsed: the result for `sentences`, with trees of one root each.
            first: the sentence of the result that the Doc begins with.
            filled: of FIELDS, what the model fills in, and is written.
        Returns: the sentence after its last one.
        """
        owners = [t for t, words in enumerate(self.forms) for _ in words]
        here = slice(parsed._starts[first], parsed._starts[first] + len(owners))
        heads: list[int] = []  # words; -1 for the root
        while len(heads) < len(owners):
            start = len(heads)
            heads += [head + start - 1 if head else -1 for head in parsed[first].heads]
            first += 1
        columns = {name: _column(parsed, name, here) for name in filled}
        columns["deprel"] = [each or _NO_RELATION for each in parsed._values("deprel")[here]]
        numbers = {HEAD_PROB: "probability", DEP_PROB: "deprel_probability"}
        asked = {name: parsed._values(field)[here] for name, field in numbers.items()}
        token_heads = self._heads_of_blanks()
        values: dict[str, list[str | None]] = {name: [] for name in columns}
        stop = 0
        for t, forms in enumerate(self.forms):
            words = range(stop, stop + len(forms))
            stop, top = words.stop, min(words, key=lambda w: _depth(w, heads), default=-1)
            for name, column in columns.items():
                value = column[top] if words else _OF_BLANKS.get(name, self.texts[t])
                if len(words) > 1 and name in _MERGED:
                    of_words = [text for w in words if (text := column[w]) is not None]
                    value = _MERGED[name](of_words) if of_words else None
                values[name].append(value)
            if words:
                token_heads[t] = owners[heads[top]] if heads[top] >= 0 else t
                for name, of_all in asked.items():
                    if of_all[top] is not None:
                        self.doc[t]._.set(name, of_all[top])
            if token_heads[t] == t:
                values["deprel"][-1] = _ROOT
            if len(words) > 1:
                found = [{name: column[w] for name, column in columns.items()} for w in words]
                self.doc[t]._.set(
                    WORDS,
                    [{"form": _clean(form) or "_"} | {n: v for n, v in of.items() if v is not None}
                     for form, of in zip(forms, found, strict=True)],
                )  # fmt: skip
        if len(self.doc):
            given = {
                _ATTRIBUTES[name][1]: [_held(name, text) for text in texts]
                for name, texts in values.items()
            }
            made = Doc(self.doc.vocab, words=self.texts, heads=token_heads, **given)
            names = [attrs.HEAD, *(_ATTRIBUTES[name][0] for name in values)]
            self.doc.from_array(names, made.to_array(names))
        return first

    def _ranges(self) -> Iterator[range]:
        """The tokens of each sentence."""
        starts = [*np.flatnonzero(self.begins).tolist(), len(self.forms)]
        return (range(i, j) for i, j in pairwise(starts))

    def _heads_of_blanks(self) -> list[int]:
        """For each token the word before it in its sentence, itself of a word.

        Before the first word it is that word, in a sentence without words the first token.
        """
        heads = []
        for tokens in self._ranges():
            head = next((t for t in tokens if self.forms[t]), tokens.start)
            for t in tokens:
                head = t if self.forms[t] else head
                heads.append(head)
        return heads


def doc_of_text(text: str, placed: Iterable[tuple[int, Surface, bool]], vocab: Vocab) -> Doc:
    """The tokens of a text as a Doc, without annotations; placed: see `placed_tokens`.

    A multiword token whose words, one after the other, are its text becomes a token for each. The
    first sentence begins with the white space before it.
    """
    texts: list[str] = []
    spaced: set[int] = set()  # tokens with a space after them
    begins = {0}
    split: dict[int, tuple[str, ...]] = {}

    def add_blanks(blanks: str) -> None:
        if texts and blanks.startswith(" "):
            spaced.add(len(texts) - 1)
            blanks = blanks[1:]
        texts.extend([blanks] if blanks else [])

    end = 0
    for start, token, is_first in placed:
        add_blanks(text[end:start])
        if is_first and end:
            begins.add(len(texts))
        pieces = token.words if "".join(token.words) == token.text else (token.text,)
        if len(pieces) > 1:
            split |= {k: (word,) for k, word in enumerate(pieces, len(texts))}
        elif len(token.words) > 1:
            split[len(texts)] = token.words
        texts += pieces
        end = start + len(token.text)
    add_blanks(text[end:])
    numbers = range(len(texts))
    doc = Doc(
        vocab, words=texts, spaces=[t in spaced for t in numbers],
        sent_starts=[t in begins for t in numbers],
    )  # fmt: skip
    for number, words in split.items():
        doc[number]._.set(WORDS, [{"form": word} for word in words])
    return doc


def placed_tokens(treebank: Treebank) -> Iterator[tuple[int, Surface, bool]]:
    """The tokens of a treebank with their first characters in its text; see `text_pieces`.

    Yields: them, and whether a sentence begins with the token.
    """
    at, after = 0, None
    for number, sentence in enumerate(surface_sentences(treebank)):
        for i, token in enumerate(sentence.tokens):
            if i:
                at += 1 if after is None else len(after)
            elif number:
                at += len(spaces_between(after, sentence.begins != NO_PARAGRAPH))
            at += len(token.before)
            yield at, token, not i
            at += len(token.text)
            after = token.after


def doc_of(parsed: Parsed, vocab: Vocab | None) -> Doc:
    """Parsed sentences as a Doc, as `Parsed.to_spacy` describes it."""
    treebank = parsed._treebank
    faults, _ = check_sentences(parsed._found.heads[0], treebank.word_starts, True, False)
    wrong = np.flatnonzero(faults != TreeFault.WELL_FORMED)
    if len(wrong):
        name = treebank.sent_id(int(wrong[0]))
        raise DataError(
            f"to_spacy(): sentence {parsed._rows.index(wrong[0])}{f' ({name})' if name else ''} is"
            " no tree with one root, and a Doc holds no others; a parser that was loaded with"
            " single_root=True finds them"
        )
    add_extensions()
    text = "".join(text_pieces([treebank]))
    placed = list(placed_tokens(treebank))
    for at, token, _ in placed[-1:]:  # not the line feed of a file
        text = text[: at + len(token.text) + len(token.after or "")]
    doc = doc_of_text(text, placed, Vocab() if vocab is None else vocab)
    words = DocWords(doc)
    if words.cut(splits=True) != treebank.n_words:
        raise DataError("to_spacy(): a word has only white space, which no token of spaCy has")
    words.write(parsed, 0, [name for name in FIELDS if any(_column(parsed, name, slice(None)))])
    return doc


def _column(parsed: Parsed, name: str, words: slice) -> list[str | None]:
    """A field of some words, None for nothing."""
    if name != "feats":
        return parsed._values(name)[words]
    ids, names = column_ids(parsed._treebank, FEATS)
    return [None if names[i] == "_" else names[i] for i in ids[words].tolist()]


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


def _held(name: str, text: str | None) -> str:
    """A value of a column as far as a Doc can hold it."""
    if text is None or (text == "_" and name in ("upos", "feats")):
        return ""
    if name == "upos" and text not in PARTS_OF_SPEECH:
        warnings.warn(_NO_PART_OF_SPEECH, stacklevel=2)
        return ""
    if name != "feats":
        return text
    items = text.split("|")
    named = [item for item in items if item.count("=") == 1 and not item.startswith("=")]
    if len(named) < len(items):
        warnings.warn(_NO_FEATURES, stacklevel=2)
    return "|".join(named)


def _clean(text: str) -> str:
    """A text as a column can have it."""
    replaced = text.translate(_REPLACED)
    return text if replaced == text else replaced.strip(" ")


def _depth(word: int, heads: list[int]) -> int:
    """The number of words above a word. heads: -1 for the root."""
    depth = 0
    while (word := heads[word]) >= 0:
        depth += 1
    return depth
