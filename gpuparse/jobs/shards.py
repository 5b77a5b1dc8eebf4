"""Parsing that goes on where it was: of a file in shards, of files into a folder.

Shards are runs of whole sentences, each written and marked by itself, so that several machines can
share them. A file in a folder gets a receipt, a hidden file beside it, which says what it was made
of; when all outputs are there, the receipts go.
"""

import hashlib
import io
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast

from gpuparse.data.formats.arrow_tables import TableFile, table_writer
from gpuparse.data.formats.names import JSONL, LINES, compression_of
from gpuparse.data.formats.text import OnTextError, TextPlace, paragraph_cuts, pass_text
from gpuparse.errors import ConfigError, DataError, option, plural
from gpuparse.files import hidden_path, lock_file, replace_file
from gpuparse.jobs.receipts import Origin, Receipt

MOST = 1_000_000
_DONE, _FILE_DONE = ".done", "gpuparse.done"
_INPUT = "the input"  # its name in an origin
_BLOCK = 1 << 20
_BLANK_LINES, _LINE_ENDS = (b"\n\n", b"\n\r\n"), (b"\n",)
_NAMED = 10  # most shards that a message lists


class Place(NamedTuple):
    """The start of a run of sentences in its file; lines count from 1, bytes from 0."""

    line: int
    byte: int


class Counts(NamedTuple):
    """Numbers of sentences and of malformed sentences."""

    sentences: int
    faults: int


@dataclass(frozen=True)
class WantedShards:
    """Shard `which` of `n`, from 1; None: all shards, joined into one file.

    only_joined: whether all shards must exist already.
    """

    which: int | None
    n: int
    only_joined: bool = False


def cuts_of(path: str, n: int, blanks: Sequence[bytes] = _BLANK_LINES) -> list[int]:
    """The byte offsets that cut a file into n runs of whole sentences: n + 1, from 0 to its size.

    Cut k is the first byte after a blank line, or another of `blanks`, at or after byte
    size * k / n, or the end.

    Cost: a read at each cut, to the end of the sentence it falls in.
    """
    size, cuts = os.path.getsize(path), [0]
    with open(path, "rb") as file:
        for k in range(1, n):
            at = size * k // n
            cuts.append(cuts[-1] if at <= cuts[-1] else _next_start(file, at, size, blanks))
    return [*cuts, size]


def _next_start(file: BinaryIO, at: int, size: int, blanks: Sequence[bytes]) -> int:
    """The first byte offset >= `at`, above 0, that follows one of `blanks`, or the end."""
    first = max(0, at - 3)  # where the line feed before the blank line may be
    file.seek(first)
    held = b""
    while block := file.read(1 << 16):
        text = held + block
        ends = [
            found + len(blank)
            for blank in blanks
            if (found := text.find(blank, max(0, at - len(blank) - first))) >= 0
        ]
        if ends:
            return first + min(ends)
        held = text[-2:]
        first += len(text) - len(held)
    return size


def check_regular(file: str) -> None:
    """ConfigError unless an input is a file that can be cut."""
    if not os.path.isfile(file):
        raise ConfigError(
            f"{file}: only regular files are cut into shards; parse it without {option('shard')}"
        )
    if compression_of(file):
        raise ConfigError(f"{file}: a compressed file cannot be cut; decompress it")


class _Run(io.RawIOBase):
    """The bytes [start, end) of a file, read once; SHA-256 and number of lines so far."""

    def __init__(self, path: str, start: int, end: int) -> None:
        self._file = open(path, "rb")  # noqa: SIM115 (closed with the run)
        self._file.seek(start)
        self._left = end - start
        self.sha256 = hashlib.sha256()
        self.lines = 0

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1, /) -> bytes:
        block = self._file.read(self._left if size < 0 else min(size, self._left))
        self._left -= len(block)
        self.sha256.update(block)
        self.lines += block.count(b"\n")
        return block

    def rest(self) -> None:
        """Read the remaining bytes."""
        while self.read(_BLOCK):
            pass

    def close(self) -> None:
        self._file.close()
        super().close()


class Summed(io.RawIOBase):
    """Forwards what is written; SHA-256 and size so far."""

    def __init__(self, target: BinaryIO) -> None:
        self._target = target
        self.sha256 = hashlib.sha256()
        self.size = 0

    def writable(self) -> bool:
        return True

    def write(self, content: Any, /) -> int:
        self.sha256.update(content)
        self.size += len(content)
        return self._target.write(content)

    def flush(self) -> None:
        self._target.flush()

    @property
    def facts(self) -> dict[str, Any]:
        return {"size": self.size, "sha256": self.sha256.hexdigest()}


Parse = Callable[[Any, BinaryIO, Any], Counts]  # of a source, into a target, from a place on


@dataclass(frozen=True)
class ShardOptions:
    """The options of parsing one input in shards.

    output: the joined file; shards are beside it, as NAME.shard-I-of-N. wanted: which shards.
    recipe: what the output depends on besides the input. form: the format of the output. force:
    replace an output, and shards of another input or recipe. tell: writes a line for the user.
    """

    output: Path
    wanted: WantedShards
    recipe: Origin
    form: str
    force: bool
    tell: Callable[[str], None]


class Sharded:
    """One input that is parsed in shards.

    Args: kind: its format, one whose sentences end with a blank line, or JSONL.
    Raises: ConfigError: the input is no regular file, or the output exists.
    """

    def __init__(self, file: str, kind: str, asked: ShardOptions) -> None:
        check_regular(file)
        self.file, self.kind, self.form = file, kind, asked.form
        self.table: Any = None  # the TableFile of an input that is a table
        self._output, self._wanted, self._recipe = asked.output, asked.wanted, asked.recipe
        self._force, self._tell = asked.force, asked.tell
        self._advice = (
            f"name another output, or give {option('force', True)} to replace such shards"
        )
        self._stamp = self._stamp_now()
        self._cuts = self._make_cuts()
        self._known = Place(1, 0)  # a byte whose line is known
        self._whole = _marker_of(self._output)
        if self._wanted.which is None:
            self._check_output(may_be_ours=self._whole.exists())

    @property
    def size(self) -> int:
        """Number of bytes, or rows of a table, to parse if no shard exists yet."""
        which = self._wanted.which
        if which is None:
            return 0 if self._wanted.only_joined else self._cuts[-1]
        return self._cuts[which] - self._cuts[which - 1]

    def run(self, parse: Parse, pass_over: Callable[[int], None]) -> int:
        """Parse or join the shards.

        Args:
            parse: parses a run of the input into a file.
            pass_over: called with the size of each run that is finished already.
        Returns: The number of malformed sentences, those of finished shards included.
        Raises:
            ConfigError: an existing shard is of another input, model or options; another process
                works on it; the output exists.
            DataError: a shard to be joined is missing or was changed; the input was changed
                meanwhile; and the errors of `parse`.
        """
        if self._wanted.which is not None:
            return int(self._shard(self._wanted.which, parse, pass_over).result["faults"])
        with lock_file(self._output):
            return self._joined(parse, pass_over)

    def _joined(self, parse: Parse, pass_over: Callable[[int], None]) -> int:
        shards = range(1, self._wanted.n + 1)
        if (faults := self._finished()) is not None:
            self._tell(f"{self._output}: already done")
            pass_over(self._cuts[-1])
        else:
            self._check_output(may_be_ours=False)
            self._tell_of_others()
            if self._wanted.only_joined:
                markers = self._all_done()
            else:
                markers = [self._shard(i, parse, pass_over) for i in shards]
            faults = sum(int(marker.result["faults"]) for marker in markers)
            self._join(markers, faults)
        for i in shards:
            _marker_of(self._path(i)).unlink(missing_ok=True)  # never a marker without its shard
            self._path(i).unlink(missing_ok=True)
        return faults

    def _shard(self, i: int, parse: Parse, pass_over: Callable[[int], None]) -> Receipt:
        """The marker of a shard, which is parsed if necessary."""
        path = self._path(i)
        with lock_file(path):
            marker = self._marker(i)
            if marker is not None:
                self._tell(f"{path}: already done")
                pass_over(self._cuts[i] - self._cuts[i - 1])
                return marker
            _marker_of(path).unlink(missing_ok=True)
            start, end = self._cuts[i - 1 : i + 1]
            with replace_file(path, force=True) as file:
                target = Summed(file)
                counts, run = self._parsed_run(start, end, cast(BinaryIO, target), parse)
            if self._stamp != self._stamp_now():
                path.unlink()
                raise DataError(f"{self.file}: was changed while it was parsed; parse it again")
            marker = Receipt(self._origin(run), target.facts | counts._asdict())
            marker.write(_marker_of(path))
            return marker

    def _parsed_run(
        self, start: int, end: int, target: BinaryIO, parse: Parse
    ) -> tuple[Counts, str]:
        """Parse a run; returns the numbers of its sentences and what `_sum_of_run` does."""
        place = self._place(start)
        with _Run(self.file, start, end) as source:
            counts = parse(cast(BinaryIO, source), target, place)
            source.rest()
            self._known = Place(self._line_at(start) + source.lines, end)
            return counts, _sum(start, end, source)

    def _marker(self, i: int) -> Receipt | None:
        """The marker of a finished shard of this input and recipe, or None.

        Raises: ConfigError: it is of another input or recipe, and `force` is false.
        """
        path = self._path(i)
        if not path.is_file():
            return None
        try:
            marker = Receipt.read(_marker_of(path), self._advice)
            if marker is None:
                return None
            start, end = self._cuts[i - 1 : i + 1]
            marker.origin.check(self._origin(self._sum_of_run(start, end)), path, self._advice)
            if path.stat().st_size != marker.result["size"]:
                raise ConfigError(f"{path}: was changed since it was parsed; {self._advice}")
        except ConfigError:
            if self._force:
                return None
            raise
        return marker

    def _all_done(self) -> list[Receipt]:
        markers = [self._marker(i) for i in range(1, self._wanted.n + 1)]
        missing = [str(i) for i, marker in enumerate(markers, 1) if marker is None]
        if missing:
            more = len(missing) - _NAMED
            listed = ", ".join(missing[:_NAMED]) + (f" and {more} more" if more > 0 else "")
            raise DataError(
                f"{self._output}: cannot be joined yet, missing shards of {self._wanted.n}:"
                f" {listed}"
            )
        return [marker for marker in markers if marker is not None]

    def _join(self, markers: list[Receipt], faults: int) -> None:
        """Write the joined file, and before it appears a marker that identifies it."""
        with replace_file(self._output, force=self._force) as file:
            whole = Summed(file)
            self._write_joined(markers, cast(BinaryIO, whole))
            origin = self._origin(_sum_of_all(each.origin.contents[_INPUT] for each in markers))
            Receipt(origin, whole.facts | {"faults": faults}).write(self._whole)

    def _write_joined(self, markers: list[Receipt], target: BinaryIO) -> None:
        """Write what the shards have, one after the other."""
        for i, marker in enumerate(markers, 1):
            self._copy(i, marker, target)

    def _copy(self, i: int, marker: Receipt, target: BinaryIO) -> None:
        """Write the bytes of a shard; DataError if they are not those that its marker knows."""
        shard = Summed(target)
        with open(self._path(i), "rb") as source:
            while block := source.read(_BLOCK):
                shard.write(block)
        if not shard.facts.items() <= marker.result.items():
            raise DataError(
                f"{self._path(i)}: was changed after it was parsed; remove it and parse it again"
            )

    def _finished(self) -> int | None:
        """The number of malformed sentences if this command has joined the file already."""
        with suppress(ConfigError):  # it has not
            marker = Receipt.read(self._whole, self._advice)
            if marker is None or not self._output.is_file():
                return None
            sums = map(self._sum_of_run, self._cuts, self._cuts[1:])
            marker.origin.check(self._origin(_sum_of_all(sums)), self._output, self._advice)
            with _Run(str(self._output), 0, self._output.stat().st_size) as whole:
                whole.rest()
                same = whole.sha256.hexdigest() == marker.result["sha256"]
            return int(marker.result["faults"]) if same else None
        return None

    def _check_output(self, *, may_be_ours: bool) -> None:
        if self._output.exists() and not self._force and not may_be_ours:
            raise ConfigError(f"{self._output}: exists; give {option('force', True)} to replace it")

    def _tell_of_others(self) -> None:
        begin, end = f"{self._output.name}.shard-", f"-of-{self._wanted.n}{_DONE}"
        others = [
            file.name
            for file in self._output.parent.iterdir()
            if file.name.startswith(begin) and file.name.endswith(_DONE)
            and not file.name.endswith(end)
        ]  # fmt: skip
        if others:
            self._tell(
                f"{self._output}:"
                f" {plural(len(others), 'shard')} of another number than {self._wanted.n}"
                " were found and are not used"
            )

    def _path(self, i: int) -> Path:
        # With leading zeros, so that a shell lists them in order.
        n = self._wanted.n
        return no_link(
            self._output.with_name(f"{self._output.name}.shard-{i:0{len(str(n))}}-of-{n}")
        )

    def _origin(self, of_input: str) -> Origin:
        return replace(self._recipe, contents=self._recipe.contents | {_INPUT: of_input})

    def _make_cuts(self) -> list[int]:
        """The ends of the runs, n + 1 of them from 0 on, in the unit of the input."""
        return cuts_of(self.file, self._wanted.n, _ends_of(self.kind))

    def _place(self, start: int) -> Any:
        """The start of a run, as `parse` takes it."""
        return Place(self._line_at(start), start)

    def _sum_of_run(self, start: int, end: int) -> str:
        with _Run(self.file, start, end) as run:
            run.rest()
            if self._known.byte == start:
                self._known = Place(self._known.line + run.lines, end)
            return _sum(start, end, run)

    def _line_at(self, byte: int) -> int:
        if self._known.byte > byte:
            self._known = Place(1, 0)
        if self._known.byte < byte:
            self._sum_of_run(self._known.byte, byte)
        return self._known.line

    def _stamp_now(self) -> tuple[int, int]:
        status = os.stat(self.file)
        return status.st_size, status.st_mtime_ns


class ShardedText(Sharded):
    """Raw text that is parsed in shards of whole paragraphs, or of whole lines."""

    def __init__(self, file: str, kind: str, asked: ShardOptions, on_error: OnTextError) -> None:
        self._on_error, self._passed = on_error, TextPlace()
        super().__init__(file, kind, asked)

    def _make_cuts(self) -> list[int]:
        cuts = cuts_of(self.file, self._wanted.n, _ends_of(self.kind))[:-1]
        return [*paragraph_cuts(self.file, cuts), os.path.getsize(self.file)]

    def _place(self, start: int) -> TextPlace:
        if self._passed.byte > start:
            self._passed = TextPlace()
        if self._passed.byte < start:
            with _Run(self.file, self._passed.byte, start) as run:
                self._passed = pass_text(
                    cast(BinaryIO, run), self.file, on_error=self._on_error, start=self._passed,
                    of_lines=self.kind == LINES,
                )  # fmt: skip
        return self._passed


class ShardedTable(Sharded):
    """A table that is parsed in shards of whole runs of rows."""

    def __init__(self, source: TableFile, asked: ShardOptions) -> None:
        """As Sharded, of the file of a source, which stays open meanwhile."""
        if source.n_rows is None:
            raise ConfigError(
                f"{source.name}: an Arrow stream does not say where its rows are; write it as a"
                f" file, or parse it without {option('shard')}"
            )
        self._source, self._n_rows, self._digest = source, source.n_rows, ""
        super().__init__(source.name, "table", asked)
        self.table = source

    def _make_cuts(self) -> list[int]:
        """Numbers of rows: cut k is the first row of a run at or after rows * k / n."""
        n, run = self._wanted.n, self._source.run
        cuts = [-(-self._n_rows * k // (n * run)) * run for k in range(n)]
        return [min(cut, self._n_rows) for cut in cuts] + [self._n_rows]

    def _parsed_run(
        self, start: int, end: int, target: BinaryIO, parse: Parse
    ) -> tuple[Counts, str]:
        counts = parse(self._source.runs(start, end), target, None)
        return counts, self._sum_of_run(start, end)

    def _sum_of_run(self, start: int, end: int) -> str:
        """The rows, and the SHA-256 of the whole file, in which they have no bytes of their own."""
        if not self._digest:
            self._digest = _digest(self.file)
        return f"{start}-{end} {self._digest}"

    def _write_joined(self, markers: list[Receipt], target: BinaryIO) -> None:
        """Write the rows of all shards, in the same row groups as without shards."""
        if self.form != self._source.format:
            return super()._write_joined(markers, target)
        with open(os.devnull, "wb") as nowhere:
            for i, marker in enumerate(markers, 1):
                self._copy(i, marker, nowhere)
        with self._shard_file(1) as shard:
            schema = shard.schema
        with table_writer(target, self._source, schema) as writer:
            for i in range(1, len(markers) + 1):
                with self._shard_file(i) as shard:
                    for table in shard.groups():
                        writer.write(table)

    @contextmanager
    def _shard_file(self, i: int) -> Iterator[TableFile]:
        path = self._path(i)
        with open(path, "rb") as file:
            yield TableFile(file, str(path), self._source.format, threads=False)


def receipt_of(output: Path) -> Path:
    """The path of the receipt of an output.

    Raises: ConfigError: a link is there.
    """
    return no_link(Path(hidden_path(str(output.parent), output.name, _FILE_DONE)))


@dataclass(frozen=True)
class FolderFile:
    """A file that is parsed into a folder.

    recipe: what the output depends on besides the file.
    """

    source: str
    output: Path
    recipe: Origin

    def finished(self) -> Counts | None:
        """The counts of an earlier run whose output this run would write again; None without one.

        Raises: ConfigError: the output was made of another input, model or with other options, or
            was changed since.
        """
        if not self.output.exists():
            return None
        advice = f"name another output, or {option('force', True)} to parse all files again"
        receipt = Receipt.read(receipt_of(self.output), advice)
        if receipt is None:
            return None  # and the output is not ours, which writing refuses
        receipt.origin.check(self.origin(), self.output, advice)
        if _digest(self.output) != receipt.result.get("sha256"):
            raise ConfigError(f"{self.output}: was changed since it was parsed; {advice}")
        return Counts(receipt.result["sentences"], receipt.result["faults"])

    def origin(self) -> Origin:
        """All that the output depends on."""
        contents = self.recipe.contents | {"the input": _digest(self.source)}
        return replace(self.recipe, contents=contents)


def _ends_of(kind: str) -> tuple[bytes, ...]:
    """The ends of a sentence of a format."""
    return _LINE_ENDS if kind in (LINES, JSONL) else _BLANK_LINES


def _marker_of(path: Path) -> Path:
    return no_link(path.with_name(path.name + _DONE))


def no_link(path: Path) -> Path:
    """A path that shards alone have; ConfigError if a link there leads to another file."""
    if path.is_symlink():
        raise ConfigError(f"{path}: is a link, which is not followed; remove it")
    return path


def _sum(start: int, end: int, run: _Run) -> str:
    return f"{start}-{end} {run.sha256.hexdigest()}"


def _sum_of_all(sums: Iterable[str]) -> str:
    return hashlib.sha256("".join(sums).encode()).hexdigest()


def _digest(path: str | os.PathLike[str]) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
