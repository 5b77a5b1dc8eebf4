"""Compact and packaged models: damaged, or other ones under right sums; installed ones by name."""

from __future__ import annotations

import io
import json
import random
import re
import shutil
import sys
import zipfile
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from gpuparse.commands import models, parse
from gpuparse.data.array_file import pack, read_open
from gpuparse.data.compact import compacted
from gpuparse.model.pipeline import files_of
from tests.campaign.bench import PIPELINE, Bench
from tests.campaign.models import REFUSED, damage
from tests.campaign.running import Failure, call, check_end, check_same, contents

SYSTEMS = ["second-order", "best-epochs", PIPELINE]
ASKED = ["toy", "--version", "1.0", "--license", "MIT"]
MODULE, INFO = "gpuparse_model_toy", "gpuparse_model_toy-1.0.dist-info"
TYPES = ["i1", "i2", "i4", "i8", "u1", "f4", "f8"]
NUMBERS = [0, -1, 1, 2**31, 2**62, 10**30, 1.5, True, None, "5"]
JSON = [None, True, -1, 1.5, float("nan"), 10**400, "", "x", "\ud800", "../x", "a\nb", [], {}, [[]],
        [{}], {"LAS": 1}]  # fmt: skip
WORDS = [b"..", b"../x", b"/etc/passwd", b"gpuparse", b"os.path", b"a:b", b"", b"\0", b"\xff",
         b"\n", b"[", b"]", b"=", b" ", b"x" * 999, b"toy", b"Name: ", b"\n\n", MODULE.encode(),
         b"[gpuparse.models]\n", b"toy = os\n", b"../up = os\n", "\u2028é".encode()]  # fmt: skip


def changed_json(value: Any, draw: random.Random, values: Sequence[Any] = JSON) -> Any:
    """Plain data in which one thing, or a few, is another, missing or there twice."""
    if isinstance(value, (dict, list)) and value and draw.random() < 0.9:
        copy = dict(value) if isinstance(value, dict) else list(value)
        at = draw.choice(list(copy) if isinstance(copy, dict) else range(len(copy)))
        kind = draw.randrange(8)
        if kind == 0:
            del copy[at]
        elif kind == 1 and isinstance(copy, list):
            copy.insert(draw.randrange(len(copy)), copy[at])
        elif kind == 1:
            copy[draw.choice(["x", "", "text", "\u2028", *copy])] = copy[at]
        else:
            copy[at] = changed_json(copy[at], draw, values)
        return copy
    return draw.choice(values)


def form_of(content: bytes) -> int:
    """The number of the format of a file of arrays."""
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    return int(json.loads(header["__metadata__"]["gpuparse"])["format"])


def other_arrays(content: bytes, draw: random.Random) -> bytes:
    """A compact file of arrays in which some are others; its sums are right."""
    form = form_of(content)
    facts, arrays = read_open(io.BytesIO(content), Path("whole"), form=form, what="model")
    stored, forms = compacted(arrays)
    names = sorted({n for n in stored if n.rpartition(".")[0] in forms or n in forms})
    for _ in range(draw.choice([1, 1, 2, 4])):
        if not names or draw.random() < 0.4:
            forms = changed_json(forms, draw, [*NUMBERS, *TYPES, "<i2", "<f4", [2**20, 1], "<i8"])
            continue
        name = draw.choice(names)
        array = stored[name].copy()
        kind = draw.randrange(6)
        if kind == 0:
            array = array.reshape(-1)[: draw.randrange(array.size + 1)]
        elif kind == 1:
            array = np.concatenate([array.reshape(-1), array.reshape(-1)[: draw.randint(1, 9)]])
        elif kind == 2:
            array = array.astype(draw.choice(TYPES))
        elif kind == 3:
            array = array[None]
        elif array.size:
            cells = [draw.randrange(array.size) for _ in range(draw.choice([1, 9]))]
            array.reshape(-1)[cells] = np.array(draw.choice([0, 1, 127, 255])).astype(array.dtype)
        stored[draw.choice([name] * 5 + names)] = array
    return pack({**facts, "compact": forms}, stored, form=form)


@cache
def wheel(bench: Bench, system: str) -> dict[str, bytes]:
    """The files of the wheel of a model."""
    place = bench.folder / f"wheel-of-{system}"
    place.mkdir()
    ended = call(models.main, ["package", bench.model(system), *ASKED, "--output", place], place)
    check_end(ended, [0])
    with zipfile.ZipFile(next(place.glob("*.whl"))) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def write(files: dict[str, bytes], folder: Path) -> None:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


def small(bench: Bench) -> Path:
    return bench.config("first-order").parent / "dev.conllu"


def compact(draw: random.Random, bench: Bench) -> list[str]:
    """A packaged model with a damaged file, or with other arrays under right sums."""
    system = draw.choice(SYSTEMS)
    place, whole = bench.place(), bench.parsed(small(bench), system)
    write(wheel(bench, system), place)
    model = place / MODULE
    file = draw.choice(sorted(model.glob("*.safetensors")))
    is_damaged = draw.random() < 0.4
    if is_damaged:
        said = damage(file, draw)
    else:
        said = f"{file.name}: other arrays"
        file.write_bytes(other_arrays(file.read_bytes(), draw))
    ended = call(parse.main, [model, small(bench), "--threads", 1], place)
    try:
        check_end(ended, [0, REFUSED])
        # A pipeline without one of its stages is a model.
        if ended.code == 0 and is_damaged and file.is_file():
            check_same({"output": ended.out}, {"output": whole}, "parses")
    except Failure as failure:
        raise Failure(f"{system}: {said}: {failure}") from None
    return [f"{'damaged' if is_damaged else 'other arrays'}: exit {ended.code}"]


def installed(draw: random.Random, bench: Bench) -> list[str]:
    """An installed package with damaged files, names and cards, by the commands that find it."""
    system = draw.choice(SYSTEMS)
    whole, site = bench.parsed(small(bench), system), bench.place() / "site"
    files = dict(wheel(bench, system))
    files[f"{MODULE}/__init__.py"] = b"raise SystemExit('its code was executed')\n"
    said = []
    for _ in range(draw.choice([1, 1, 2])):
        name = draw.choice([f"{INFO}/{each}" for each in ("entry_points.txt", "METADATA", "RECORD")]
                           + [f"{MODULE}/card.json", f"{MODULE}/card.json"])  # fmt: skip
        said.append(name)
        if name.endswith(".json") and draw.random() < 0.8:
            whole_card = json.loads(wheel(bench, system)[name])
            files[name] = json.dumps(changed_json(whole_card, draw)).encode()
        elif draw.random() < 0.1:
            files.pop(name, None)
        else:
            files[name] = edited(files.get(name, b""), draw)
    if draw.random() < 0.2:  # two of them
        files |= {f"b{name}": data for name, data in files.items() if name.startswith(INFO)}
    write(files, site)
    if is_model := draw.random() < 0.3:
        said.append(damage(site / MODULE / draw.choice(sorted(files_of(site / MODULE))), draw))

    def among(main: Callable[[Sequence[str]], int]) -> Callable[[Sequence[str]], int]:
        def work(words: Sequence[str]) -> int:
            sys.path.insert(0, str(site))  # of this process alone
            return main(words)

        return work

    name, ends = draw.choice([*["toy"] * 9, "../up", "up", "os"]), {}
    asked = {
        "models": (models.main, [[], ["--json"], ["show", name], ["show", name, "--json"]]),
        "parse": (parse.main, [[name, str(small(bench)), "--threads", "1"]]),
    }  # fmt: skip
    try:
        for command, (main, words) in asked.items():
            ended = call(among(main), draw.choice(words), bench.folder)
            check_end(ended, [0, REFUSED])
            if "was executed" in ended.err:
                raise Failure("the code of the package was executed")
            ends[command] = ended
        if ends["parse"].code == 0 and not is_model:
            check_same({"output": ends["parse"].out}, {"output": whole}, "parses")
    except Failure as failure:
        raise Failure(f"{system}: {said}: {failure}") from None
    return [f"{command}: exit {ended.code}" for command, ended in ends.items()]


def edited(text: bytes, draw: random.Random, pieces: Sequence[bytes] = WORDS) -> bytes:
    """A text with other pieces at some places, where values begin mostly."""
    for _ in range(draw.choice([1, 1, 3])):
        marks = [found.end() for found in re.finditer(rb"= |: ", text)]
        at = draw.choice(marks) if marks and draw.random() < 0.5 else draw.randrange(len(text) + 1)
        end = at + draw.choice([0, 1, 9, len(text[at:].partition(b"\n")[0])])
        text = text[:at] + draw.choice(pieces) + text[end:]
    return text if draw.random() < 0.9 else text[: draw.randrange(len(text) + 1)]


def packaging(draw: random.Random, bench: Bench) -> list[str]:
    """`models package` of a damaged model, or with names and versions that none has."""
    system = draw.choice(SYSTEMS)
    place = bench.place()
    shutil.copytree(bench.model(system), place / "model")
    (place / "out").mkdir()
    names = [*["toy"] * 40, "..", "../x", "a/b", "", "Toy", "x" * 65, "con", "t\ny"]
    versions = [*["1.0"] * 40, "..", "1/2", "1.0/../..", "", "1" * 400, "1\n", "9!1", "1.0+a"]
    licences = [*["MIT"] * 40, "", " ", "a\nb", "\u2028", "x" * 5000, "a\rb", "\x1b[1m"]
    words = [draw.choice(names), "--version", draw.choice(versions)]
    words += ["--license", draw.choice(licences), *draw.choice([[], ["--unpacked"]])]
    is_whole = draw.random() < 0.5
    if not is_whole:
        damage(draw.choice(sorted(path for path in (place / "model").iterdir())), draw)
    before = contents(place / "model")
    ended = call(
        models.main, ["package", place / "model", *words, "--output", place / "out"], place
    )
    check_end(ended, [0, 2, REFUSED])
    check_same(contents(place / "model"), before, "the model")
    made = contents(place / "out")
    if {path.name for path in place.iterdir()} - {"model", "out", "child.out", "child.err"}:
        raise Failure(f"{words}: files beside the output")
    if bool(made) != (ended.code == 0):
        raise Failure(f"{words}: exit code {ended.code}, and {list(made)}")
    if ended.code == 0:
        if "--unpacked" not in words:
            with zipfile.ZipFile(next((place / "out").iterdir())) as archive:
                archive.extractall(place / "site")
        folder = place / ("out" if "--unpacked" in words else "site")
        [model] = [path for path in folder.iterdir() if path.suffix != ".dist-info"]
        if is_whole:
            again = call(parse.main, [model, small(bench), "--threads", 1], place)
            check_end(again, [0])
            check_same(
                {"out": again.out}, {"out": bench.parsed(small(bench), system)}, f"{words}: parses"
            )
    return [f"package: exit {ended.code}"]
