"""Damaged JSON lines: their members are kept, or their faults are told in one line."""

from __future__ import annotations

import json
import random
from typing import Any

from gpuparse.commands import parse
from tests.campaign.bench import Bench
from tests.campaign.running import Failure, call, check_end

MODEL = "english"  # which reads texts and words
ADDED = {"text", "tokens", "multiword", "trees"}
TEXTS = [
    '"She sings. He listens."', '"Stop."', '""', "null", "3", '["a"]', '"a\\u0000"', '"\\ud800"',
    '"a\\n\\nb"', '"\\ufeffa"', '" "', '"\u2028x"', "1e999", "NaN", "-0", "9" * 5000, "true",
    "[" * 3000, "[" * 99 + "]" * 99, '{"form": {"form": 1, "form": 2}}',
]  # fmt: skip
WORDS = [
    '["She", "sings"]', "[]", "null", '"ab"', '["a", null]', '["a", ""]', '["a\\tb"]', '[["a"]]',
    '["\\udc00"]', '[{"form": "a"}, {"form": "b", "head": 1}]', '[{"form": 1}]', '[{"x": "a"}]',
    '{"a": "b"}', '["1", "2", "3"]',
]  # fmt: skip
KEYS = ["text", "form", "tokens", "id", "upos", "feats", "head", "x", "trees", "\\ud83d", "text"]
PIECES = ["{", "}", "[", "]", ",", ":", '"', "\\", "\n", "\r\n", "\ufeff", "\0", " ", "\t", "1"]


def line(draw: random.Random) -> bytes:
    """An object of JSON, or something like one."""
    keys = draw.choices(KEYS, k=draw.choice([0, 1, 1, 2, 3, 5]))
    members = [
        f'"{key}":{" " * draw.randrange(2)}'
        + draw.choice(WORDS if key in ("form", "tokens", "upos", "feats", "head") else TEXTS)
        for key in keys
    ]
    text = "{" + ",".join(members) + "}"
    for _ in range(draw.choice([0, 0, 0, 1, 2])):
        at = draw.randrange(len(text) + 1)
        text = text[:at] + draw.choice(PIECES) + text[at + draw.choice([0, 0, 1, 3]) :]
    content = text.encode()
    if draw.random() < 0.1:
        at = draw.randrange(len(content) + 1)
        content = content[:at] + draw.choice([b"\xff", b"\xed\xa0\x80", b"\x1f\x8b"]) + content[at:]
    return content


def json_lines(draw: random.Random, bench: Bench) -> list[str]:
    """One file of lines, parsed with every way to treat faults, whole and in shards."""
    place = bench.place()
    file, out = place / "lines.jsonl", place / "out.jsonl"
    marks = b"\xef\xbb\xbf" if draw.random() < 0.2 else b""
    ends = [draw.choice([b"\n", b"\n", b"\r\n", b"\n\n"]) for _ in range(draw.randint(0, 6))]
    file.write_bytes(marks + b"".join(line(draw) + end for end in ends))
    on_error = draw.choice(["fail", "skip", "keep"])
    words = [MODEL, file, "--threads", 1, "--on-error", on_error]
    words += draw.choice([[], ["--probabilities"], ["--keep", "tags"]])
    ended = call(parse.main, [*words, "-o", out], place)
    check_end(ended, [0, 3] if on_error == "fail" else [0, 1])
    if ended.code == 3:
        if out.exists() or str(file) not in ended.err:
            raise Failure(f"an output, or an error without its place: {ended.err}")
        return ["fail: exit 3"]
    check_members(file.read_bytes().removeprefix(marks), out.read_bytes(), on_error)
    in_shards = place / "shards.jsonl"
    check_end(call(parse.main, [*words, "-o", in_shards, "--shard", "all/3"], place), [ended.code])
    if in_shards.read_bytes() != out.read_bytes():
        raise Failure("shards have other bytes")
    return [f"{on_error}: exit {ended.code}"]


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
