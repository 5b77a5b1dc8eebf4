"""Streams of bytes: compressed files in and out, beginnings that are read again, open pipes."""

from __future__ import annotations

import codecs
import gzip
import io
import os
import select
import stat
import zlib
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO, cast

from gpuparse.data.conll import BYTE_ORDER_MARK
from gpuparse.data.formats.names import GZIP, ZSTD, compression_of
from gpuparse.errors import ConfigError, DataError, one_line, option, require
from gpuparse.files import UTF16_MARKS

_MAX_BEGINNING = 1 << 20  # bytes that say of a stream whether it is raw text
_BLOCK = 1 << 10  # compressed bytes at a time: of zstd, 4 bytes may become 128 KiB
_MARKS = {
    b"\xff\xfe\0\0": "utf-32", b"\0\0\xfe\xff": "utf-32", **dict.fromkeys(UTF16_MARKS, "utf-16"),
}  # fmt: skip
_MARK_BYTES = 4
_GZIP = 31  # zlib's number for the format of gzip
_LEVELS = {GZIP: 6, ZSTD: 3}  # the defaults of both programs


def opened(file: BinaryIO, name: str) -> BinaryIO:
    """The bytes of an input, decompressed if its name says that it is compressed.

    Args: file: open for reading bytes. name: of the file.
    """
    suffix = compression_of(name)
    return cast(BinaryIO, _Reader(_Decompressed(file, name, suffix))) if suffix else file


def check_encoding(encoding: str) -> None:
    """ConfigError unless an encoding of text has this name."""
    try:
        io.TextIOWrapper(io.BytesIO(), encoding=encoding)  # refuses codecs that are not of text
        codecs.getincrementaldecoder(encoding)
    except (LookupError, TypeError, ValueError):
        raise ConfigError(
            f"{option('encoding')}: {encoding!r} is no encoding of text; such are utf-16, cp1252,"
            " latin-1"
        ) from None


def decoded(file: BinaryIO, name: str, encoding: str | None) -> BinaryIO:
    """A text as UTF-8.

    Args:
        name: of the file in messages.
        encoding: of the text; None: that of its byte-order mark, UTF-8 without any.
    """
    if encoding is None:
        begin = file.peek(_MARK_BYTES) if hasattr(file, "peek") else b""
        encoding = next((e for mark, e in _MARKS.items() if begin.startswith(mark)), "utf-8")
    if codecs.lookup(encoding).name == "utf-8":
        return file
    return cast(BinaryIO, _Reader(_Decoded(file, name, encoding)))


def pipe_of(file: Any) -> select.poll | None:
    """The poll of a pipe, socket or terminal for bytes that can be read; None of other files."""
    try:
        number = file.fileno()
    except (AttributeError, OSError):  # no file of the system, or one that is decompressed
        return None
    if stat.S_ISREG(os.fstat(number).st_mode) or not hasattr(file, "read1"):
        return None
    pipe = select.poll()
    pipe.register(number, select.POLLIN)
    return pipe


class _Reader(io.BufferedReader):
    """Reads a file that is compressed, or has another encoding."""

    @property
    def consumed(self) -> int:
        """Bytes of the file that were read."""
        return cast(_Decompressed | _Decoded, self.raw).consumed


class _Made(io.RawIOBase):
    """Bytes that are made of those of another file."""

    _held = memoryview(b"")  # bytes that were made and not read yet

    def readable(self) -> bool:
        return True

    @abstractmethod
    def _next(self, size: int) -> bytes:
        """Some of the next bytes, of a file of which at most `size` are read; none at the end."""

    def readinto(self, buffer: Any, /) -> int:
        """Some of the next bytes, none at the end. Raises: DataError: as the class says."""
        held = self._held or memoryview(self._next(len(buffer)))
        size = min(len(buffer), len(held))
        buffer[:size] = held[:size]
        self._held = held[size:]
        return size


class _Decoded(_Made):
    """A text of another encoding as UTF-8; see `decoded`. DataError: no text of the encoding."""

    def __init__(self, file: Any, name: str, encoding: str) -> None:
        self._file, self._name, self._encoding = file, name, encoding
        self._decoder = codecs.getincrementaldecoder(encoding)()
        self._n_read = 0

    @property
    def consumed(self) -> int:
        return int(getattr(self._file, "consumed", self._n_read))

    def fileno(self) -> int:
        return int(self._file.fileno())

    def _next(self, size: int) -> bytes:
        while True:
            block = self._file.read1(io.DEFAULT_BUFFER_SIZE)
            first = self._n_read - len(self._decoder.getstate()[0])
            self._n_read += len(block)
            try:
                text = self._decoder.decode(block, final=not block).encode()
            except UnicodeError as error:
                place = first + error.start if isinstance(error, UnicodeDecodeError) else first
                raise DataError(
                    f"{self._name}: byte {place} is not {self._encoding}; give"
                    f" {option('encoding')} with the encoding of the text"
                ) from None
            if text or not block:
                return text


class _Decompressed(_Made):
    """The content of a compressed file; several compressed streams in a row are one.

    Args: file: open for reading bytes. name: its name in messages. suffix: GZIP or ZSTD.
    Raises: MissingPackageError: zstandard is not installed. DataError, in reading: the file is
        damaged, or ends too early.
    """

    def __init__(self, file: BinaryIO, name: str, suffix: str) -> None:
        self._file, self._name, self._suffix = file, name, suffix
        self.consumed = 0  # bytes of the file that were read
        self._rest = b""  # compressed bytes behind the last stream
        self._errors: tuple[type[Exception], ...] = (zlib.error,)
        if suffix == ZSTD:
            require(f"{name}: a .zst file", "zstandard")
            import zstandard

            self._errors = (zstandard.ZstdError,)
        self._stream: Any = None

    def _next(self, size: int) -> bytes:
        while True:
            block = self._rest or self._file.read(_BLOCK)
            if not self._rest:
                self.consumed += len(block)
            self._rest = b""
            if not block:
                if self._stream is not None:
                    raise self._damaged("the end is missing")
                return b""
            if self._stream is None and self._suffix == GZIP and self.consumed > len(block):
                block = block.lstrip(b"\0")  # with which archives are filled up
            if block and (found := self._decompressed(block)):
                return found

    def _decompressed(self, block: bytes) -> bytes:
        if self._stream is None:
            self._stream = self._new_stream()
        try:
            text: bytes = self._stream.decompress(block)
        except self._errors as error:
            raise self._damaged(one_line(error)) from error
        if self._stream.eof:
            self._rest, self._stream = self._stream.unused_data, None
        return text

    def _new_stream(self) -> Any:
        if self._suffix == GZIP:
            return zlib.decompressobj(_GZIP)
        import zstandard

        return zstandard.ZstdDecompressor().decompressobj()

    def _damaged(self, what: str) -> DataError:
        program = "gzip" if self._suffix == GZIP else "zstd"
        return DataError(
            f"{self._name}: cannot be decompressed: {what}; {program} -t checks it; rename it if it"
            " is not compressed"
        )


@contextmanager
def compressed(file: BinaryIO, name: str) -> Iterator[BinaryIO]:
    """The stream of an output, compressed if its name says so, to the same bytes always.

    Args: file: open for writing bytes. name: of the output.
    Raises: MissingPackageError: zstandard is not installed.
    """
    suffix = compression_of(name)
    if not suffix:
        yield file
    elif suffix == GZIP:
        with gzip.GzipFile("", "wb", _LEVELS[GZIP], file, mtime=0) as stream:
            yield cast(BinaryIO, stream)
    else:
        require(f"{name}: a .zst file", "zstandard")
        import zstandard

        compressor = zstandard.ZstdCompressor(_LEVELS[ZSTD])
        with compressor.stream_writer(file, closefd=False) as stream:
            yield cast(BinaryIO, stream)


def beginning(source: BinaryIO) -> bytes:
    """The first line of a stream that is not blank and no comment, and those before it."""
    begin = b""
    while line := source.readline(_MAX_BEGINNING - len(begin)):
        begin += line
        if line.strip() and not line.removeprefix(BYTE_ORDER_MARK).startswith(b"#"):
            break
    return begin


def begun(begin: bytes, source: BinaryIO) -> BinaryIO:
    """A stream whose beginning was read, which is read again."""
    return cast(BinaryIO, io.BufferedReader(_Begun(begin, source)))


class _Begun(_Made):
    def __init__(self, begin: bytes, source: Any) -> None:
        self._held, self._source = memoryview(begin), source

    def fileno(self) -> int:
        return int(self._source.fileno())

    def _next(self, size: int) -> bytes:
        return bytes(self._source.read1(size))
