"""Noun chunks of English trees with relations of Universal Dependencies.

spaCy's own noun chunks of English know the relations of its own models, such as `dobj` and `pobj`,
and miss most nouns of UD trees, whose prepositions are below their nouns.
"""

from __future__ import annotations

from collections.abc import Iterator

from spacy.errors import Errors
from spacy.lang.en.syntax_iterators import noun_chunks as noun_chunks_of_spacy
from spacy.symbols import NOUN, PRON, PROPN
from spacy.tokens import Doc, Span, Token

_NOT_OF_UD = {"dobj", "pobj", "prep", "nsubjpass", "poss", "attr"}
# Relations, up to their first `:`, of heads of noun phrases that are not part of another one.
_OF_PHRASES = {
    "acl", "advcl", "appos", "ccomp", "csubj", "dislocated", "iobj", "list", "nmod", "nsubj", "obj",
    "obl", "orphan", "parataxis", "vocative", "xcomp", "ROOT", "root",
}  # fmt: skip
_NO_PHRASES = {"nmod:poss", "nmod:unmarked"}  # those of these that are parts
_BEFORE = {"amod", "compound", "det", "flat", "goeswith", "nummod"}  # what begins a noun phrase
_AFTER = {"flat", "goeswith"}  # what ends it


def noun_chunks(doclike: Doc | Span) -> Iterator[tuple[int, int, int]]:
    """The base noun phrases of a Doc: first token, the one after the last, and the label NP.

    A phrase is a noun, proper noun or pronoun with its determiners, adjectives, numbers, compounds
    and possessors before it, and the rest of a name after it. A tree that has relations of spaCy's
    own models has the noun chunks of spaCy.
    """
    doc = doclike.doc
    if not doc.has_annotation("DEP"):
        raise ValueError(Errors.E029)
    if any(token.dep_ in _NOT_OF_UD for token in doc):
        yield from noun_chunks_of_spacy(doclike)
        return
    label, end = doc.vocab.strings.add("NP"), -1
    for word in doclike:
        if word.pos in (NOUN, PROPN, PRON) and _heads_phrase(word):
            first, after = _bounds(word)
            if first >= end:
                yield first, after, label
                end = after


def _heads_phrase(word: Token) -> bool:
    while word.dep_.partition(":")[0] == "conj" and word.head.i < word.i:
        word = word.head
    relation = word.dep_
    return relation.partition(":")[0] in _OF_PHRASES and relation not in _NO_PHRASES


def _bounds(word: Token) -> tuple[int, int]:
    first, after = word.i, word.i + 1
    for child in word.lefts:
        if child.dep_.partition(":")[0] in _BEFORE or child.dep_ in _NO_PHRASES:
            first = min(first, child.left_edge.i)
    for child in word.rights:
        if child.dep_.partition(":")[0] in _AFTER and child.left_edge.i == after:
            after = child.right_edge.i + 1
    return first, after
