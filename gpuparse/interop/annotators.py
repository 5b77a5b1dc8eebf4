"""What Stanza and UDPipe return, as sentences that `SentenceParser.parse` takes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from gpuparse.errors import DataError

_FIELDS = ("lemma", "upos", "xpos", "feats", "head", "deprel", "misc")


def from_stanza(document: Any) -> list[dict[str, list[Any]]]:
    """The words of a Stanza Document, or of its `to_dict()`, by sentence and column.

    Multiword tokens are left out, and their words stay; empty nodes are left out.

    Raises: DataError: it is neither.

    >>> she = [{"id": 1, "text": "She", "upos": "PRON"}, {"id": 2, "text": "sings"}]
    >>> from_stanza([she])[0]["form"]
    ['She', 'sings']
    """
    if hasattr(document, "to_dict"):
        document = document.to_dict()
    if not isinstance(document, list) or not all(isinstance(each, list) for each in document):
        raise DataError(
            "from_stanza takes a Document, as Pipeline returns it, or what its to_dict() does, not"
            f" {type(document).__name__}"
        )
    sentences = []
    for sentence in document:
        words = [word for word in sentence if _is_word(word["id"])]
        columns = {field: [word.get(field) for word in words] for field in _FIELDS}
        there = {
            field: values
            for field, values in columns.items()
            if any(value is not None for value in values)
        }
        sentences.append({"form": [word["text"] for word in words]} | there)
    return sentences


def from_udpipe(sentences: Iterable[Any]) -> list[dict[str, list[Any]]]:
    """The words of Sentences of ufal.udpipe, by sentence and column.

    CoNLL-U, which UDPipe writes, needs no conversion: `parse` takes its text.
    """
    found = []
    for sentence in sentences:
        words = list(sentence.words)[1:]  # after the root
        found.append(
            {
                "form": [word.form for word in words],
                "lemma": [word.lemma for word in words],
                "upos": [word.upostag for word in words],
                "xpos": [word.xpostag for word in words],
                "feats": [word.feats for word in words],
                "head": [word.head if word.head >= 0 else None for word in words],
                "deprel": [word.deprel for word in words],
                "misc": [word.misc for word in words],
            }
        )
    return found


def _is_word(number: Any) -> bool:
    """Whether an ID of Stanza is that of a word: a number, alone or in a tuple."""
    return isinstance(number, int) or len(number) == 1
