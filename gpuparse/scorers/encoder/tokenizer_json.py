"""The permitted content of a `tokenizer.json`; a file is checked before anything of it runs.

The package `tokenizers` runs any regular expression that such a file has, and its parts can make
texts longer, each those of the one before. Here are the parts that the families of encoders have,
and limits far above theirs; text and time then stay in proportion to the words.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from typing import Any

import numpy as np

from gpuparse.data.array_file import from_json
from gpuparse.errors import ModelError, one_line

# The types of each part; those within a `Sequence` are under the key that comes first.
_PARTS: dict[str, tuple[str, set[str]]] = {
    "normalizer": ("normalizers", {
        "BertNormalizer", "Lowercase", "NFC", "NFD", "NFKC", "NFKD", "Precompiled", "Prepend",
        "Replace", "Sequence", "Strip", "StripAccents",
    }),
    "pre_tokenizer": ("pretokenizers", {
        "BertPreTokenizer", "ByteLevel", "Digits", "Metaspace", "Punctuation", "Sequence", "Split",
        "Whitespace", "WhitespaceSplit",
    }),
    "post_processor": ("processors", {
        "BertProcessing", "ByteLevel", "RobertaProcessing", "Sequence", "TemplateProcessing",
    }),
    "decoder": ("decoders", {
        "BPEDecoder", "ByteFallback", "ByteLevel", "Fuse", "Metaspace", "Replace", "Sequence",
        "Strip", "WordPiece",
    }),
}  # fmt: skip
_MODELS = {"BPE", "Unigram", "WordPiece"}
_KEYS = {"version", "truncation", "padding", "added_tokens", "model", *_PARTS}
_REPEATED = {"Replace", "Sequence", "Split"}  # each other type once: several make texts longer
# Regular expressions that take time in proportion to the text.
_GPT = r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}%s| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_EXPRESSIONS = {
    r" {2,}",
    r"\s+",
    r"\s{2,}|[\n\r\t]",
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)" + _GPT % "",
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)" + _GPT % "{1,3}",
}
_CHARSMAP = "precompiled_charsmap"
_MOST_PARTS = 16  # of each of `_PARTS`, those of sequences included
_MOST_ITEMS = 1_000  # of a list or table in a part
_MOST_ADDED = 20_000
MOST_PIECES = 1 << 21
_LONGEST = 500  # characters of a piece, a pattern or another text
_LONGEST_CHANGED = 100  # bytes that a character map makes of a character
_LONGEST_WORD = 200  # characters of a word that WordPiece splits, in the cube of this time
_LARGEST_SCORE = 1e6  # of a piece


def check(text: str) -> None:
    """Refuse a tokenizer that the families of encoders do not have.

    Raises: ModelError: the text is no JSON of a tokenizer, or has a part that is not known, a
        regular expression that is not, or a number or size beyond the limits.
    """
    try:
        _check(from_json(text))
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise ModelError(f"the encoder's tokenizer cannot be read: {one_line(error)}") from None


def _check(content: Any) -> None:
    if not isinstance(content, dict) or not set(content) <= _KEYS:
        raise ValueError("a table with the keys of a tokenizer is expected")
    for name in _PARTS:
        if content.get(name) is not None:
            _check_parts(name, content[name])
    _check_model(content["model"])
    added = content.get("added_tokens") or []
    _require(isinstance(added, list) and len(added) <= _MOST_ADDED, "added_tokens: too many")
    _require(all(0 < len(each["content"]) <= _LONGEST for each in added),
             f"added_tokens: a piece has from 1 to {_LONGEST} characters")  # fmt: skip


def _require(is_sound: bool, wrong: str) -> None:
    if not is_sound:
        raise ValueError(wrong)


def _check_parts(name: str, part: Any) -> None:
    """The parts under a key, those of sequences included."""
    seen: list[str] = []
    inner, known = _PARTS[name]
    for each in _each(part, inner):
        kind = _type(name, each, known)
        _require(kind in _REPEATED or kind not in seen, f"{name}: type {kind} comes twice")
        seen.append(kind)
        _require(len(seen) <= _MOST_PARTS, f"{name}: more than {_MOST_PARTS} parts")
        if "pattern" in each:
            _check_pattern(name, each)
        if kind == "TemplateProcessing":
            pieces = [*each["single"], *(each.get("pair") or [])]
            named = {piece["SpecialToken"]["id"] for piece in pieces if "SpecialToken" in piece}
            _require(named <= set(each["special_tokens"]),
                     f"{name}: a special piece has no number")  # fmt: skip
        if _CHARSMAP in each:
            _check_charsmap(each[_CHARSMAP])
        own = {key: value for key, value in each.items() if key not in (inner, _CHARSMAP)}
        _check_sizes(name, own)


def _type(name: str, part: dict[str, Any], known: set[str]) -> str:
    kind = part.get("type")
    if not isinstance(kind, str) or kind not in known:
        raise ValueError(f"{name}: type {kind} is not known: {', '.join(sorted(known))}")
    return kind


def _each(part: Any, inner: str) -> Iterator[dict[str, Any]]:
    """A part and those within it."""
    _require(isinstance(part, dict), "a part is no table")
    yield part
    for each in part.get(inner, ()):
        yield from _each(each, inner)


def _check_pattern(name: str, part: dict[str, Any]) -> None:
    [(kind, pattern)] = part["pattern"].items()
    _require(isinstance(pattern, str) and 0 < len(pattern) <= _LONGEST,
             f"{name}: a pattern has from 1 to {_LONGEST} characters")  # fmt: skip
    if kind == "Regex":
        _require(pattern in _EXPRESSIONS,
                 f"{name}: a regular expression that no known encoder has: {pattern}")  # fmt: skip
    else:
        _require(kind == "String", f"{name}: a pattern of kind {kind}")
    shortest = len(pattern) if kind == "String" else 1
    _require(len(part.get("content", "")) <= shortest,
             f"{name}: a text is replaced by a longer one")  # fmt: skip


def _check_sizes(name: str, value: Any) -> None:
    """The lengths of texts, lists and tables."""
    if isinstance(value, str):
        _require(len(value) <= _LONGEST, f"{name}: a text of more than {_LONGEST} characters")
    elif isinstance(value, dict | list):
        _require(len(value) <= _MOST_ITEMS, f"{name}: more than {_MOST_ITEMS:,} items")
        for each in [*value, *value.values()] if isinstance(value, dict) else value:
            _check_sizes(name, each)


def _check_charsmap(text: Any) -> None:
    """The character map of SentencePiece: a double array over bytes, then the texts.

    A unit of the array has the offset of its followers, or in a leaf the place of a text.
    """
    try:
        data = base64.b64decode(text, validate=True)
    except binascii.Error:
        raise ValueError(f"{_CHARSMAP} is no base64") from None
    size = int.from_bytes(data[:4], "little")
    is_sound = 0 < size <= len(data) - 4 and size % 1024 == 0
    _require(is_sound, f"{_CHARSMAP} is damaged")  # blocks of 256 units
    units = np.frombuffer(data[4 : 4 + size], "<u4").astype(np.int64)
    texts = data[4 + size :]
    followers = np.arange(len(units)) ^ (units >> 10 << ((units & 1 << 9) >> 6))
    is_inner = units >> 31 == 0
    _require(int(followers[is_inner].max(initial=0)) < len(units), f"{_CHARSMAP} is damaged")
    ends_a_key = is_inner & (units >> 8 & 1 == 1)
    places = units[followers[ends_a_key]] & 0x7FFFFFFF
    _require(int(places.max(initial=0)) <= len(texts), f"{_CHARSMAP} is damaged")
    bytes_there = np.frombuffer(texts + b"\0", np.uint8)[places]
    _require(not (bytes_there >> 6 == 2).any(), f"{_CHARSMAP} is damaged")  # within a character
    _require(max(map(len, texts.split(b"\0"))) <= _LONGEST_CHANGED,
             f"{_CHARSMAP}: a character becomes more than {_LONGEST_CHANGED} bytes")  # fmt: skip


def _check_model(model: Any) -> None:
    _type("model", model, _MODELS)
    vocabulary, merges = model["vocab"], model.get("merges") or []
    _require(len(vocabulary) <= MOST_PIECES and len(merges) <= MOST_PIECES,
             f"model: more than {MOST_PIECES:,} pieces")  # fmt: skip
    if not isinstance(vocabulary, dict):
        _require(all(abs(score) <= _LARGEST_SCORE for _, score in vocabulary),
                 f"model: a score is at most {_LARGEST_SCORE:,.0f}")  # fmt: skip
    names = vocabulary if isinstance(vocabulary, dict) else (piece for piece, _ in vocabulary)
    _require(max(map(len, names), default=0) <= _LONGEST,
             f"model: a piece of more than {_LONGEST} characters")  # fmt: skip
    _require(model["type"] != "WordPiece" or model["unk_token"] in vocabulary,
             "model: unk_token is no piece")  # fmt: skip
    _require(not model.get("dropout"), "model: dropout: pieces would be drawn at random")
    longest = model.get("max_input_chars_per_word", 0)
    _require(type(longest) is int and 0 <= longest <= _LONGEST_WORD,
             f"model: max_input_chars_per_word is at most {_LONGEST_WORD:,}")  # fmt: skip
    rest = {key: value for key, value in model.items() if key not in ("vocab", "merges")}
    _check_sizes("model", rest)
