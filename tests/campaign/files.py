"""Damaged files: what is accepted keeps the law of its kind, others are refused in one line."""

from __future__ import annotations

import gzip
import io
import json
import random
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow
from pyarrow import ipc

from gpuparse.commands import evaluate, parse, train
from gpuparse.data.conll import treebank_from_bytes, write_predictions
from gpuparse.errors import DataError
from tests.campaign.bench import PIPELINE, SYSTEMS, Bench
from tests.campaign.running import Failure, call, check_end
from tests.samples import random_sentences, text_of
from tests.synthetic import generate

BOM = b"\xef\xbb\xbf"
PIECES = [
    b"\t", b"\n", b"\r\n", b"\r", b"\n\n", b" ", b"|", b":", b".", b"-", b"_", b"#", b"0", b"9",
    b"\xff", b"\xf4\x8f", b"\xe2\x80\xa8", b"\0", BOM, b"3-4\tx\t_\t_\t_\t_\t_\t_\t_\t_\n",
    b"8.1\tx\t_\t_\t_\t_\t_\t_\t1:x\t_\n", b"1.1:a|", b"99999999999", b"# text = x\n", b"-1",
]  # fmt: skip


ADDED = {"text", "tokens", "multiword", "trees"}  # members that parsing writes
ARROW_TYPES = {
    "string": pyarrow.string(), "large": pyarrow.large_string(), "view": pyarrow.string_view(),
    "dictionary": pyarrow.dictionary(pyarrow.int32(), pyarrow.string()),
}  # fmt: skip


class FileKind(NamedTuple):
    """A kind of file: names, how a right one is made, what reads it and what is put into it."""

    suffixes: Sequence[str]
    make: Callable[[random.Random], bytes]
    uses: Sequence[Callable[[random.Random, Bench, bytes, Path], str]]
    pieces: Sequence[bytes] = PIECES


def damaged(
    content: bytes, draw: random.Random, pieces: Sequence[bytes] = PIECES, *, lines: bool = True
) -> bytes:
    """A file with one change.

    Args: lines: False: of bits, numbers of 32 bits and blocks, as in files without lines.
    """
    kinds = ["piece", "line", "field", "cut"]
    others = ["number", "number", "bit", "bit", "cut", "more", "moved"]
    kind, at = draw.choice(kinds if lines else others), draw.randrange(len(content) + 1)
    if not lines and draw.random() < 0.3:  # where headers are
        at %= 4096
    if kind == "piece":
        return content[:at] + draw.choice(pieces) + content[at + draw.choice([0, 0, 1, 3]) :]
    if kind == "cut":
        return content[:at]
    if kind == "more":
        return content + draw.randbytes(draw.choice([1, 100]))
    if kind == "moved":
        return content[at:] + content[:at]
    if kind == "bit":
        flipped = bytes(byte ^ 1 << draw.randrange(8) for byte in content[at : at + 1])
        return content[:at] + flipped + content[at + 1 :]
    if kind == "number":  # buffers of Arrow begin at multiples of 8
        value = draw.choice([-1, 1, 7, 1000, 2**31 - 1, -(2**31), draw.randrange(2**31)])
        at -= at % 4
        return content[:at] + value.to_bytes(4, "little", signed=True) + content[at + 4 :]
    rows = content.split(b"\n")
    i, j = draw.randrange(len(rows)), draw.randrange(len(rows))
    if kind == "line":  # doubled, moved or lost
        line = rows.pop(i)
        rows[j:j] = [line] * draw.choice([0, 1, 2])
    else:  # that of another line, or a piece
        fields, others = rows[i].split(b"\t"), rows[j].split(b"\t")
        fields[draw.randrange(len(fields))] = draw.choice([draw.choice(pieces), *others])
        rows[i] = b"\t".join(fields)
    return b"\n".join(rows)


# ---- right files ---------------------------------------------------------------------------------


def treebank(draw: random.Random) -> bytes:
    """A small treebank in CoNLL-U."""
    if draw.random() < 0.5:
        text = generate(draw.randint(1, 4), draw.randrange(50))
    else:
        text = text_of(random_sentences(draw.randrange(999), 4, 8, projective=False)).encode()
    return text.replace(b"\n", b"\r\n") if draw.random() < 0.2 else text


def mutant(draw: random.Random) -> bytes:
    """A small treebank of which some bytes, lines or fields are changed."""
    if draw.random() < 0.05:
        return draw.randbytes(draw.randrange(200))
    text = treebank(draw)
    for _ in range(draw.choice([0, 1, 1, 2, 3, 8])):
        text = damaged(text, draw)
    return text


def plain_text(draw: random.Random) -> bytes:
    """Sentences of raw text, or a word per line."""
    words = [s.forms for s in treebank_from_bytes(treebank(draw), "text")]
    blank, end = draw.choice([(" ", "\n"), (" ", " "), ("\n", "\n\n"), ("\t", "\r\n")])
    return end.join(blank.join(forms) for forms in words).encode()


JSON_TEXTS = [
    '"She sings. He listens."', '"Stop."', '""', "null", "3", '["a"]', '"a\\u0000"', '"\\ud800"',
    '"a\\n\\nb"', '"\\ufeffa"', '" "', '"\u2028x"', "1e999", "NaN", "-0", "9" * 5000, "true",
    "[" * 3000, "[" * 99 + "]" * 99, '{"form": {"form": 1, "form": 2}}',
]  # fmt: skip
JSON_WORDS = [
    '["She", "sings"]', "[]", "null", '"ab"', '["a", null]', '["a", ""]', '["a\\tb"]', '[["a"]]',
    '["\\udc00"]', '[{"form": "a"}, {"form": "b", "head": 1}]', '[{"form": 1}]', '[{"x": "a"}]',
    '{"a": "b"}', '["1", "2", "3"]',
]  # fmt: skip
JSON_KEYS = [
    "text",
    "form",
    "tokens",
    "id",
    "upos",
    "feats",
    "head",
    "x",
    "trees",
    "\\ud83d",
    "text",
]
JSON_PIECES = [
    b"{", b"}", b"[", b"]", b",", b":", b'"', b"\\", b"\n", b"\r\n", BOM, b"\0", b" ", b"\t", b"1",
    b"\xff", b"\xed\xa0\x80", b"\x1f\x8b",
]  # fmt: skip


def line(draw: random.Random) -> bytes:
    """An object of JSON, or something like one."""
    keys = draw.choices(JSON_KEYS, k=draw.choice([0, 1, 1, 2, 3, 5]))
    members = [
        f'"{key}":{" " * draw.randrange(2)}'
        + draw.choice(
            JSON_WORDS if key in ("form", "tokens", "upos", "feats", "head") else JSON_TEXTS
        )
        for key in keys
    ]
    return ("{" + ",".join(members) + "}").encode()


def json_lines(draw: random.Random) -> bytes:
    """Some objects, a line each."""
    ends = [draw.choice([b"\n", b"\n", b"\r\n", b"\n\n"]) for _ in range(draw.randint(0, 6))]
    lines = b"".join(line(draw) + end for end in ends)
    return BOM + lines if draw.random() < 0.2 else lines


def table(draw: random.Random) -> bytes:
    """Some sentences in the memory of a record batch, and a column that is passed over."""
    kind = ARROW_TYPES[draw.choice(list(ARROW_TYPES))]
    treebank = treebank_from_bytes(generate(draw.randint(1, 4), draw.randrange(50)), "text")
    table = pyarrow.table(
        {
            "form": pyarrow.array([s.forms for s in treebank], pyarrow.list_(kind)),
            "upos": pyarrow.array([s.cpos for s in treebank], pyarrow.large_list(kind)),
            "text": pyarrow.array([" ".join(s.forms) for s in treebank]),
        }
    )
    written = io.BytesIO()
    with ipc.new_file(written, table.schema) as writer:
        writer.write_table(table)
    return written.getvalue()


# ---- what reads them -----------------------------------------------------------------------------


def read_and_write(draw: random.Random, bench: Bench, text: bytes, file: Path) -> str:
    """A file that the library accepts is written as it was, but for the mark and the end."""
    on_error = draw.choice(["fail", "keep"])
    limit = draw.choice([40, 1 << 20])
    try:
        treebank = treebank_from_bytes(text, "text", on_error=on_error, max_line=limit)
    except DataError as error:
        if not str(error).startswith("text:"):
            raise Failure(f"an error without its place: {error}") from None
        return "library: refused"
    words = [(head, label) for s in treebank for head, label in zip(s.heads, s.labels, strict=True)]
    names = sorted({label.encode() for _, label in words})
    numbers = {name: k for k, name in enumerate(names)}
    written = write_predictions(
        treebank, treebank.heads, names, [numbers[label.encode()] for _, label in words]
    )
    if (treebank.heads < 0).any():  # HEAD is not a number: `_` or text
        check_lossless(text, written)
    else:
        check_beginning(text, written)
    return f"library: {on_error}, written"


def parse_file(draw: random.Random, bench: Bench, text: bytes, file: Path) -> str:
    """Parsed with every way to treat errors: nothing but HEAD, DEPREL and DEPS may change."""
    on_error = draw.choice(["fail", "keep", "skip"])
    words: list[object] = ["--on-error", on_error, "--allow-missing", "--threads", 1]
    words += draw.choice([[], [], ["--keep", "heads"]])
    from_pipe = draw.random() < 0.3
    source, stdin = ("-", str(file)) if from_pipe else (file, "/dev/null")
    ended = call(parse.main, [bench.model(), source, *words], file.parent, stdin)
    check_end(ended, [0, 3] if on_error == "fail" else [0, 1])
    if ended.code != 3 and on_error != "skip":
        check_lossless(text, ended.out)
    elif ended.code != 3:
        check_subsequence(text, ended.out)
    return f"parse: {on_error}, exit {ended.code}"


def evaluate_file(draw: random.Random, bench: Bench, text: bytes, file: Path) -> str:
    ended = call(evaluate.main, [file, file], file.parent)
    check_end(ended, [0, 3])
    return f"evaluate: exit {ended.code}"


def learn(draw: random.Random, bench: Bench, text: bytes, file: Path) -> str:
    system = draw.choice(["first-order", "second-order"])
    given = [f"data.train={file}", "data.dev=null", f"output={file.parent / 'model'}"]
    given += [f"data.on_error={draw.choice(['fail', 'skip'])}"]
    given += [f"data.partial={draw.choice(['true', 'false'])}", "learning.epochs=1"]
    ended = call(train.main, [bench.config(system), *SYSTEMS[system], *given], file.parent)
    check_end(ended, [0, 3])
    return f"train: exit {ended.code}"


def parse_any(draw: random.Random, bench: Bench, content: bytes, file: Path) -> str:
    """Parsed by a model that reads all formats."""
    words = [bench.model(PIPELINE), file, "--threads", 1, "--allow-missing"]
    ended = call(parse.main, [*words, "--on-error", draw.choice(["fail", "skip"])], file.parent)
    check_end(ended, [0, 1, 3])
    return f"exit {ended.code}"


def parse_lines(draw: random.Random, bench: Bench, content: bytes, file: Path) -> str:
    """JSON lines, parsed with every way to treat faults, whole and in shards."""
    out, in_shards = file.parent / "out.jsonl", file.parent / "shards.jsonl"
    on_error = draw.choice(["fail", "skip", "keep"])
    words: list[object] = ["english", file, "--threads", 1, "--on-error", on_error]
    words += draw.choice([[], ["--probabilities"], ["--keep", "tags"]])
    ended = call(parse.main, [*words, "-o", out], file.parent)
    check_end(ended, [0, 3] if on_error == "fail" else [0, 1])
    if ended.code == 3:
        if out.exists() or str(file) not in ended.err:
            raise Failure(f"an output, or an error without its place: {ended.err}")
        return "fail: exit 3"
    check_members(content.removeprefix(BOM), out.read_bytes(), on_error)
    shards = [*words, "-o", in_shards, "--shard", "all/3"]
    check_end(call(parse.main, shards, file.parent), [ended.code])
    if in_shards.read_bytes() != out.read_bytes():
        raise Failure("shards have other bytes")
    return f"{on_error}: exit {ended.code}"


KINDS = {
    "mutants": FileKind(
        [".conllu"], treebank, [read_and_write, parse_file, parse_file, evaluate_file, learn]
    ),
    "tables": FileKind([".arrow"], table, [parse_any]),
    "json-lines": FileKind([".jsonl"], json_lines, [parse_lines], JSON_PIECES),
    "texts": FileKind([".txt", ".vert"], plain_text, [parse_any]),
    "compressed": FileKind(
        [".conllu.gz", ".txt.gz"], lambda draw: gzip.compress(treebank(draw)), [parse_any]
    ),
}


def files(name: str, draw: random.Random, bench: Bench) -> list[str]:
    """One damaged file of a kind through the library or a command."""
    kind, file = KINDS[name], bench.place() / f"file{draw.choice(KINDS[name].suffixes)}"
    content = kind.make(draw)
    for _ in range(draw.choice([0, 1, 1, 2, 3, 8])):
        lines = name not in ("tables", "compressed")
        content = damaged(content, draw, kind.pieces, lines=lines)
    if draw.random() < 0.05:
        content = draw.randbytes(draw.randrange(200))
    file.write_bytes(content)
    return [draw.choice(kind.uses)(draw, bench, content, file)]


# ---- laws ----------------------------------------------------------------------------------------


def check_beginning(text: bytes, written: bytes) -> None:
    """Failure unless a file was written as it was; a mark goes, the end may be completed."""
    text = text.removeprefix(BOM)
    if not written.startswith(text) or not re.fullmatch(rb"(\r?\n){0,2}", written[len(text) :]):
        raise Failure(f"written as {written!r}, not as {text!r}")


def check_lossless(text: bytes, written: bytes) -> None:
    """Failure unless only HEAD, DEPREL and DEPS of words have changed."""
    before, after = unparsed(text.removeprefix(BOM)), unparsed(written)
    check_beginning(before, after)


def check_subsequence(text: bytes, written: bytes) -> None:
    """Failure unless all lines are lines of the file, in its order, but for what parsing writes."""
    before = unparsed(text.removeprefix(BOM)).split(b"\n")
    lines = (line.strip(b"\r") for line in before)
    for line in (line.strip(b"\r") for line in unparsed(written).split(b"\n")):
        if line and line not in lines:  # which goes on where it was found before
            raise Failure(f"the line {line!r} is not of the file {text!r}")


def unparsed(text: bytes) -> bytes:
    """A file without HEAD, DEPREL and DEPS of its words, which parsing writes."""
    lines = text.split(b"\n")
    for i, line in enumerate(lines):
        fields = line.split(b"\t")
        if len(fields) == 10 and fields[0].isdigit():
            lines[i] = b"\t".join([*fields[:6], b"_", b"_", b"_", fields[9]])
    return b"\n".join(lines)


def check_members(given: bytes, found: bytes, on_error: str) -> None:
    """Failure unless each line that was written is one of the input, or has its members."""
    lines = given.split(b"\n")
    at = 0
    for text in found.split(b"\n")[:-1]:
        while at < len(lines) and not is_of(text, lines[at], on_error):
            at += 1
        if at == len(lines):
            raise Failure(f"the line {text[:300]!r} is not of the input {given[:600]!r}")


def is_of(found: bytes, given: bytes, on_error: str) -> bool:
    """True if a line is another one as it was, or with the members that parsing adds."""
    if on_error == "keep" and found == given:
        return True
    try:
        before, after = members(given), members(found)
    except (ValueError, RecursionError):
        return False
    names = [name for name, _ in after]
    kept = [item for item in before if item[0] not in ADDED]
    return kept == [item for item in after if item[0] not in ADDED][: len(kept)] and all(
        name in names for name in ADDED
    )


def members(text: bytes) -> list[tuple[str, Any]]:
    """The members of an object, with numbers as they are written."""
    found = json.loads(text, parse_int=str, parse_float=str, object_pairs_hook=tuple)
    return list(found) if isinstance(found, tuple) else []
