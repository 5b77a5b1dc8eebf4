"""Damaged CoNLL files: accepted and preserved to the byte, or refused in one line."""

from __future__ import annotations

import random
import re
from pathlib import Path

from gpuparse.commands import evaluate, parse, train
from gpuparse.data.conll import treebank_from_bytes, write_predictions
from gpuparse.errors import DataError
from tests.campaign.bench import SYSTEMS, Bench
from tests.campaign.running import Failure, call, check_end
from tests.samples import random_sentences, text_of
from tests.synthetic import generate

BOM = b"\xef\xbb\xbf"
PIECES = [
    b"\t", b"\n", b"\r\n", b"\r", b"\n\n", b" ", b"|", b":", b".", b"-", b"_", b"#", b"0", b"9",
    b"\xff", b"\xf4\x8f", b"\xe2\x80\xa8", b"\0", BOM, b"3-4\tx\t_\t_\t_\t_\t_\t_\t_\t_\n",
    b"8.1\tx\t_\t_\t_\t_\t_\t_\t1:x\t_\n", b"1.1:a|", b"99999999999", b"# text = x\n", b"-1",
]  # fmt: skip


def mutant(draw: random.Random) -> bytes:
    """A small treebank of which some bytes, lines or fields are changed."""
    if draw.random() < 0.05:
        return draw.randbytes(draw.randrange(200))
    if draw.random() < 0.5:
        text = generate(draw.randint(1, 4), draw.randrange(50))
    else:
        text = text_of(random_sentences(draw.randrange(999), 4, 8, projective=False)).encode()
    if draw.random() < 0.2:
        text = text.replace(b"\n", b"\r\n")
    for _ in range(draw.choice([0, 1, 1, 2, 3, 8])):
        text = changed(text, draw)
    return text


def changed(text: bytes, draw: random.Random) -> bytes:
    kind = draw.randrange(4)
    if kind == 0:  # bytes
        at = draw.randrange(len(text) + 1)
        return text[:at] + draw.choice(PIECES) + text[at + draw.choice([0, 0, 1, 3]) :]
    lines = text.split(b"\n")
    i, j = draw.randrange(len(lines)), draw.randrange(len(lines))
    if kind == 1:  # a line is doubled, moved or lost
        line = lines.pop(i)
        lines[j:j] = [line] * draw.choice([0, 1, 2])
        return b"\n".join(lines)
    if kind == 2:  # a field is that of another line, or a piece
        fields, others = lines[i].split(b"\t"), lines[j].split(b"\t")
        fields[draw.randrange(len(fields))] = draw.choice([draw.choice(PIECES), *others])
        lines[i] = b"\t".join(fields)
        return b"\n".join(lines)
    return text[: draw.randrange(len(text) + 1)]  # the end is lost


def mutants(draw: random.Random, bench: Bench) -> list[str]:
    """One damaged file through the library or a command."""
    text, place = mutant(draw), bench.place()
    file = place / "mutant.conllu"
    file.write_bytes(text)
    work = draw.choice([read_and_write, parse_file, parse_file, evaluate_file, learn])
    return [work(draw, bench, text, file)]


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
    words += draw.choice([[], [], ["--keep-heads"]])
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
