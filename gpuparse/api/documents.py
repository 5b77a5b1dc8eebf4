"""Files of trees as documents of sentences, and their scores."""

from __future__ import annotations

import os
import warnings
from collections.abc import Collection, Sequence
from typing import Any, cast

import numpy as np

from gpuparse.api.results import Parsed, ParsedSentence
from gpuparse.data.conll import read_treebank, treebank_from_bytes
from gpuparse.data.treebank import Treebank
from gpuparse.errors import ConfigError, DataError
from gpuparse.evaluation.graphs import GraphColumn
from gpuparse.jobs.drawing import GRAPHS
from gpuparse.jobs.predictions import Result
from gpuparse.jobs.scoring import RESAMPLES, Punctuation, Scored, compared, scored

_TEXT = "text"  # the name of CoNLL-U text in messages
Given = str | bytes | os.PathLike[str] | Parsed | list[ParsedSentence]


class Evaluation(dict[str, Any]):
    """The numbers that `evaluate` or `compare` prints with `--json`; `str` gives the tables."""

    def __init__(self, found: Scored) -> None:
        """`evaluate` and `compare` make it."""
        super().__init__(found.as_json)
        self._text = found.as_text

    def __str__(self) -> str:
        return self._text


def read(source: Given) -> Parsed:
    r"""Read the sentences of a CoNLL-U or CoNLL-X file, with the trees of the file.

    Args:
        source: the path of a file; or the text itself, as bytes, or as a str with a tab or a line
            end in it; or sentences, such as `document[:-100]`.
    Returns: sentences as a parser returns them; `deps` has the graphs if the file has some in DEPS.
        Heads are not checked.
    Raises: DataError: the file cannot be read, or is malformed; names its line.
    Cost: 2 ns per byte; tokens are made when they are asked for.

    >>> [sentence] = gpuparse.read("1\tNo\tno\tINTJ\tUH\t_\t0\troot\t_\t_\n\n")
    >>> sentence.root
    <Token 1 No: root>
    """
    return _parsed(_treebank_of(source, "read()", _TEXT))


def _parsed(treebank: Treebank) -> Parsed:
    result = Result(treebank=treebank, found=None, names=[], decoder="")
    return Parsed(result, np.diff(treebank.word_starts))


def evaluate(
    gold: Given, system: Given | None = None, *, heads: Sequence[Any] | None = None,
    deprels: Sequence[Sequence[str]] | None = None, graphs: str | None = None,
    ignore_punct: bool = False, punct_tags: Collection[str] | None = None,
) -> Evaluation:  # fmt: skip
    """Score parsed sentences against gold ones, as the command `evaluate` does.

    Args:
        gold, system: paths, CoNLL-U text, or sentences that a parser or `read` returned, all or
            a list of some.
        heads, deprels: or, in place of a system, trees of the gold sentences, see
            `Parsed.with_heads`; without deprels, measures of relations are None.
        graphs: "deps" or "heads": where the system's graphs are; None: score trees.
        ignore_punct: whether to leave out words whose characters are all punctuation.
        punct_tags: or words with one of these tags in the gold file.
    Returns: the numbers of `evaluate --json`, in percent with their counts, such as
        `["las"]["percent"]`; printed, the tables. Sentences of the same text with other words get
        the measures of the CoNLL 2018 shared task under "conll18", with a warning.
    Raises: DataError: a file cannot be used, or the texts differ. ConfigError: wrong options.

    >>> gold = "1\\tNo\\tno\\tINTJ\\tUH\\t_\\t0\\troot\\t_\\t_\\n\\n"
    >>> gpuparse.evaluate(gold, gold)["las"]["percent"]
    100.0
    """
    if graphs is not None and graphs not in GRAPHS:
        raise ConfigError(f"graphs: expected {' or '.join(GRAPHS)}, not {graphs!r}")
    gold_treebank = _treebank_of(gold, "evaluate()", "gold")
    if heads is not None:
        if system is not None:
            raise ConfigError("evaluate() takes a system or heads, and not both")
        sentences = gold if isinstance(gold, Parsed) else _parsed(gold_treebank)
        system = sentences.with_heads(heads, deprels)
    elif deprels is not None:
        raise ConfigError("evaluate() takes deprels together with heads")
    found = scored(
        gold_treebank, _treebank_of(system, "evaluate()", "system"),
        cast("GraphColumn | None", graphs), _punctuation(ignore_punct, punct_tags),
    )  # fmt: skip
    return _told(found)


def compare(
    gold: Given, *systems: Given, ignore_punct: bool = False,
    punct_tags: Collection[str] | None = None, resamples: int = RESAMPLES, seed: int = 0,
) -> Evaluation:  # fmt: skip
    """Score several parsers against gold sentences, and test each against the first.

    Args:
        gold, systems: see `evaluate`; at least two systems.
        ignore_punct, punct_tags: see `evaluate`.
        resamples, seed: of the bootstrap.
    Returns: the numbers of `compare --json`: `["systems"]`, scores as `evaluate` has them, and
        `["comparisons"]`, the tests; printed, the tables.
    Raises: as `evaluate`.
    Cost: 10 ns for each sentence of each resample.

    >>> gold = "1\\tNo\\tno\\tINTJ\\tUH\\t_\\t0\\troot\\t_\\t_\\n\\n"
    >>> found = gpuparse.compare(gold, gold, gold, resamples=10)
    >>> found["comparisons"][0]["bootstrap"]["las"]["difference"]
    0.0
    """
    if len(systems) < 2:
        raise ConfigError(
            "compare() takes the gold sentences and the sentences of two or more parsers; for one"
            " parser use evaluate()"
        )
    for name, number, least in (("resamples", resamples, 1), ("seed", seed, 0)):
        if not hasattr(number, "__index__") or number < least:
            raise ConfigError(f"{name}: expected a whole number from {least} on, not {number!r}")
    names = [f"systems[{number}]" for number in range(len(systems))]
    read_systems = [
        _treebank_of(each, "compare()", name) for each, name in zip(systems, names, strict=True)
    ]
    found = compared(
        _treebank_of(gold, "compare()", "gold"), read_systems,
        [treebank.source for treebank in read_systems],
        _punctuation(ignore_punct, punct_tags), resamples=resamples, seed=seed,
    )  # fmt: skip
    return _told(found)


def _treebank_of(given: Any, function: str, name: str) -> Treebank:
    """The sentences of a path, of text or of a document; name: what messages call text."""
    if isinstance(given, Parsed) and given._result.found is None:
        return given._treebank
    if isinstance(given, Parsed) or _are_sentences(given):
        if any(sentence._parsed._found.scores is not None for sentence in given):
            raise DataError(f"{name}: has several trees of each sentence; parse them without kbest")
        if isinstance(given, list):
            return treebank_from_bytes("".join(s.to_conllu() for s in given).encode(), name)
        return treebank_from_bytes(given._result.text, name)
    if isinstance(given, str) and ("\t" in given or "\n" in given):
        try:
            given = given.encode()
        except UnicodeEncodeError as error:
            raise DataError(f"{name}: an unpaired surrogate at {error.start}") from error
    if isinstance(given, bytes):
        return treebank_from_bytes(given, name)
    if not isinstance(given, (str, os.PathLike)) or not os.fspath(given):
        raise DataError(
            f"{function} takes the path of a file or CoNLL-U text, or what a parser or read()"
            f" returned, and not {type(given).__name__} {given!r:.60}"
        )
    return read_treebank(os.fspath(given))


def _are_sentences(given: Any) -> bool:
    return isinstance(given, list) and all(isinstance(each, ParsedSentence) for each in given)


def _punctuation(ignored: bool, tags: Collection[str] | None) -> Punctuation:
    if isinstance(tags, str):
        raise ConfigError(f"punct_tags: expected a list of tags, not {tags!r}")
    if ignored and tags:
        raise ConfigError("ignore_punct and punct_tags exclude each other: give one of them")
    return Punctuation(ignored, tags)


def _told(found: Scored) -> Evaluation:
    for note in found.notes:
        warnings.warn(note, stacklevel=3)
    return Evaluation(found)
