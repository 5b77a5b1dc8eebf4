"""The messages about an input that is parsed, from the counts of its pieces."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from gpuparse.data.formats.names import TEXT
from gpuparse.data.formats.sources import Piece, Source, StreamSource, TableSource
from gpuparse.errors import DataError, option, plural
from gpuparse.jobs.predictions import Result, long_sentences, uncertified
from gpuparse.model.engines.admission import CHAIN, LOWER
from gpuparse.model.parser import Predictions

SHOWN = 20  # malformed sentences that are reported one by one
_ORDERS = 3  # kinds of search that find trees: see Predictions


class PieceCounts(NamedTuple):
    """The numbers and messages of a piece; see Piece.

    has_comments: whether it has comments and no sentences.
    """

    n_sentences: int
    size: int
    faults: list[DataError]
    warnings: Sequence[str]
    hints: Sequence[str]
    has_comments: bool

    @classmethod
    def of(cls, piece: Piece) -> PieceCounts:
        """The numbers of a piece."""
        data, n = piece.treebank, piece.n_sentences
        has_comments = not n and b"#" in data.data.tobytes()
        return cls(n, piece.size, piece.faults, data.warnings, piece.hints, has_comments)


class ResultCounts(NamedTuple):
    """The numbers of a result.

    orders: sentences by the search that found them; see Predictions. certified, searched: trees.
    """

    orders: np.ndarray
    certified: int = 0
    searched: int = 0

    @classmethod
    def of(cls, result: Result) -> ResultCounts:
        """The numbers of a result."""
        found, orders = result.found, np.zeros(_ORDERS, np.int64)
        if found is not None and found.orders is not None:
            orders = np.bincount(found.orders, minlength=_ORDERS)
        if not isinstance(found, Predictions) or found.certified is None:
            return cls(orders)
        return cls(orders, int(found.certified.sum()), len(found.certified))


@dataclass(kw_only=True)
class Messages:
    """The messages about an input, to its user.

    tell, advise: functions that write a line, and a hint about a text. fails: whether the first
    malformed sentence is an error. may_pass_over: whether the door has the option `on_error`.
    decoder: that searches.
    """

    source: Source
    tell: Callable[[str], None]
    advise: Callable[[str], None]
    fails: bool
    may_pass_over: bool
    decoder: str
    _faults: int = 0
    _sentences: int = 0
    _certified: int = 0
    _searched: int = 0
    _has_comments: bool = False
    _warnings: set[str] = field(default_factory=set)
    _orders: np.ndarray = field(default_factory=lambda: np.zeros(_ORDERS, np.int64))

    def read(self, counts: PieceCounts) -> None:
        """Tell what was seen in a piece. Raises: DataError: a fault of an input that fails."""
        for warning in counts.warnings:
            if warning not in self._warnings:
                self.tell(warning)
        self._warnings.update(counts.warnings)
        for hint in counts.hints:
            self.advise(hint)
        if counts.faults and self.fails:
            self._refuse(counts.faults)
        for fault in counts.faults[: max(0, SHOWN - self._faults)]:
            self.tell(str(fault))
        self._faults += len(counts.faults)
        self._sentences += counts.n_sentences
        self._has_comments |= counts.has_comments

    def found(self, counts: ResultCounts | None) -> None:
        """Count what was found."""
        assert counts is not None
        self._orders += counts.orders
        self._certified += counts.certified
        self._searched += counts.searched

    def end(self, *, has_misc: bool) -> None:
        """Tell what is known at the end of the input; has_misc: whether the output has MISC."""
        source = self.source
        is_whole = getattr(source, "place", None) is None
        if self._has_comments and not self._sentences and is_whole:
            may_be_text = isinstance(source, StreamSource) and source.split
            how = f"; give {option('input', TEXT)} if it is text" if may_be_text else ""
            self.advise(f"{source.name}: has comments (#) and no sentences{how}")
        in_misc = has_misc and not isinstance(source, TableSource)
        of_orders = self._orders[[LOWER, CHAIN]].tolist()
        said = long_sentences(self.decoder, *of_orders, in_misc=in_misc)
        if self._searched:
            said.append(uncertified(self._certified, self._searched, in_misc=in_misc))
        for line in said:
            self.tell(f"{source.name}: {line}")

    def _refuse(self, faults: list[DataError]) -> None:
        n_more = len(faults) - 1
        more = f" (and {plural(n_more, f'more such {self.source.unit}')})" if n_more else ""
        how = option("on_error", "skip", "keep")
        advice = f"; {how} passes over them" if self.may_pass_over else ""
        raise DataError(f"{faults[0]}{more}{advice}")
