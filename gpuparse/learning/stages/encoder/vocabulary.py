"""The vocabulary of a pretrained encoder, cut to the pieces that a treebank needs.

A word that is kept has the pieces that it had: of the ways to split it, only others are gone. Other
words have shorter pieces where theirs are gone.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from torch import nn

from gpuparse.config.schema import TREEBANK, WHOLE
from gpuparse.data.columns import FORM
from gpuparse.data.treebank import Treebank
from gpuparse.data.vocabulary import column_ids
from gpuparse.errors import ConfigError, DataError, one_line
from gpuparse.files import input_file, no_utf8
from gpuparse.learning.stages.encoder.pretrained import Pretrained
from gpuparse.scorers.encoder.pieces import Splitter
from gpuparse.scorers.encoder.stored import AFTER_PADDING, window_of

SHORT = 3  # letters of pieces that are always kept, if the others have these letters
# Pieces that `treebank` keeps where there are more: with width 384 they take 19 MB of 8 bits. Of
# 250,000 pieces, 6 to 18 % of the new words of a test part then have other ones ("Vocabularies" in
# benchmarks/book.md).
MOST = 50_000
_BEGINNINGS = "▁Ġ"  # marks of words
_BYTE = re.compile("<0x[0-9A-F]{2}>")


def with_vocabulary(
    pretrained: Pretrained, treebank: Treebank, given: str, tell: Callable[[str], None]
) -> Pretrained:
    """The encoder with the pieces that the key `encoder.vocabulary` keeps.

    Args: given: the value of the key.
    Raises: ConfigError: the tokeniser cannot be cut. DataError: the file of words is not UTF-8.
    """
    if given == WHOLE:
        return pretrained
    _, forms = column_ids(treebank, FORM)
    words = set(forms)
    if given != TREEBANK:
        words |= words_of(given)
    # At the beginning of a sentence, in titles.
    words |= {w.lower() for w in words} | {w[:1].upper() + w[1:] for w in words}
    most = MOST if given == TREEBANK else 0
    config, splitter, rows = cut(pretrained.config, pretrained.splitter, words, most=most)

    def body() -> nn.Module:
        found = pretrained.body()
        table = found.get_input_embeddings()
        table.weight = nn.Parameter(table.weight.detach()[rows].clone())
        table.num_embeddings, table.padding_idx = len(rows), config.get("pad_token_id")
        return found

    n_before = pretrained.config["vocab_size"]
    tell(f"encoder.vocabulary {given}: {len(rows):,} of {n_before:,} pieces are kept")
    return Pretrained(config, splitter, body)


def words_of(path: str) -> set[str]:
    """The words of a text file, between which there is white space.

    Raises: DataError: it cannot be read, or is not UTF-8.
    """
    words: set[str] = set()
    with input_file(path) as file:
        for number, line in enumerate(file, 1):
            try:
                words.update(line.decode().split())
            except UnicodeDecodeError:
                wrong = no_utf8(line) or "is not UTF-8; convert the file to UTF-8"
                raise DataError(f"{path}:{number}: {wrong}") from None
    return words


def cut(
    config: Mapping[str, Any], splitter: Splitter, words: Iterable[str], *, most: int
) -> tuple[dict[str, Any], Splitter, np.ndarray]:
    """The vocabulary with the pieces of some words, special ones and short ones alone.

    Args: most: pieces, up to which longer ones are kept too, the shortest first.
    Returns: the config, the splitter, and (V,) the old number of each piece, ascending.
    Raises: ConfigError: the package `tokenizers` would number the pieces otherwise.
    """
    content, config = json.loads(splitter.text), dict(config)
    model, size = content["model"], config["vocab_size"]
    of_config = [name for name, n in config.items() if _is_piece(name, n) and n < size]
    of_parts = list(_places(content.get("post_processor") or {}))
    numbers = splitter.pieces_of(words) | {config[name] for name in of_config}
    numbers |= {found[place] for found, place in of_parts}
    if config["model_type"] in AFTER_PADDING:
        numbers |= set(range(config["pad_token_id"] + 1))
    added = content.get("added_tokens") or []
    numbers |= {splitter.piece_named(each["content"]) for each in added}
    known = _numbered(model)
    kept = _kept(model, known, numbers, most)
    order = sorted({number for piece, number in known if piece in kept} | numbers)
    new = {number: place for place, number in enumerate(order)}
    if isinstance(model["vocab"], dict):
        model["vocab"] = {piece: new[number] for piece, number in known if number in new}
    else:
        model["vocab"] = [model["vocab"][number] for number in order if number < len(known)]
        model["unk_id"] = new.get(model.get("unk_id"))
    for each in added:
        each["id"] = new[splitter.piece_named(each["content"])]
    for found, place in of_parts:
        found[place] = new[found[place]]
    for name in of_config:
        config[name] = new[config[name]]
    rows = np.array([number for number in order if number < size], np.int64)
    config["vocab_size"] = len(rows)
    content |= {"truncation": None, "padding": None}
    made = Splitter(json.dumps(content, ensure_ascii=False), window_of(config), len(rows))
    pieces = [piece for piece, number in known if number in new]
    for piece in (*pieces, *(each["content"] for each in added)):
        if made.piece_named(piece) != new.get(splitter.piece_named(piece)):
            raise ConfigError(
                "encoder.vocabulary: the encoder's tokenizer has no room for the number of"
                f" {one_line(piece)}: give encoder.vocabulary={WHOLE}"
            )
    return config, made, rows


def _is_piece(name: str, value: object) -> bool:
    """True for a key of a config whose value is the number of a piece."""
    return name.endswith("_token_id") and type(value) is int and value >= 0


def _places(part: dict[str, Any]) -> Iterator[tuple[list, int]]:
    """The numbers of pieces in a post-processor: lists, and places in them."""
    for inner in part.get("processors", ()):
        yield from _places(inner)
    for each in part.get("special_tokens", {}).values():
        yield from ((each["ids"], place) for place in range(len(each["ids"])))
    for name in {"sep", "cls"} & part.keys():
        yield part[name], 1


def _numbered(model: dict[str, Any]) -> list[tuple[str, int]]:
    """The pieces of a vocabulary, and their numbers."""
    if isinstance(model["vocab"], dict):
        return list(model["vocab"].items())
    return [(piece, number) for number, (piece, _) in enumerate(model["vocab"])]


def _kept(
    model: dict[str, Any], known: list[tuple[str, int]], numbers: set[int], most: int
) -> set[str]:
    """The pieces that have some numbers, short ones, and those that these are made of.

    Short ones have letters of the others. They include what the package `tokenizers` needs for
    unknown characters.
    """
    kept = {piece for piece, number in known if number in numbers}
    letters = set("".join(kept))
    prefix = model.get("continuing_subword_prefix") or ""
    suffix = model.get("end_of_word_suffix") or ""
    others = []
    for piece, number in known:
        bare = piece.removeprefix(prefix).removesuffix(suffix).lstrip(_BEGINNINGS)
        is_known = letters.issuperset(bare)
        is_short = len(bare) <= (SHORT if is_known else 1)
        if is_short or _BYTE.fullmatch(piece) or number == model.get("unk_id"):
            kept.add(piece)
        elif piece not in kept and is_known:
            others.append((len(bare), number, piece))
    kept |= {piece for _, _, piece in sorted(others)[: max(0, most - len(kept))]}
    if (unknown := model.get("unk_token")) is not None:
        kept.add(unknown)
    if model["type"] == "Unigram":  # an unknown character has a score below the lowest one
        kept.add(min(model["vocab"], key=lambda each: each[1])[0])
    if model["type"] == "BPE":
        model["merges"] = _merges_of(kept, model["merges"], prefix)
    return kept


def _merges_of(kept: set[str], merges: list, prefix: str) -> list[list[str]]:
    """The merges that make some pieces, to which their parts are added."""
    pairs = [each.split(" ") if isinstance(each, str) else each for each in merges]
    made = [first + second.removeprefix(prefix) for first, second in pairs]
    parts: dict[str, list[str]] = defaultdict(list)
    for piece, pair in zip(made, pairs, strict=True):
        parts[piece] += pair
    to_do = list(kept)
    while to_do:
        new = set(parts[to_do.pop()]) - kept
        kept |= new
        to_do += new
    return [pair for piece, pair in zip(made, pairs, strict=True) if piece in kept]
