"""Full disks, and standard streams that are closed, full or broken: no loss without an error."""

from __future__ import annotations

import random

from gpuparse.commands import parse, train
from tests.campaign.bench import SYSTEMS, Bench
from tests.campaign.running import (
    ROOT,
    Ended,
    Failure,
    call,
    check_end,
    check_same,
    contents,
    outputs,
    shell,
)
from tests.runs import model_files

FINE = [0, 2, 3, 4, 5, 6, 130]  # 1 means that sentences were malformed, and none is
STREAMS = ["<&-", ">&-", "2>&-", ">/dev/full", "2>/dev/full", "> out 2>&-", "> out 2>/dev/full"]


def unbuffered(draw: random.Random) -> dict[str, str]:
    return draw.choice([{}, {"PYTHONUNBUFFERED": "1"}])


def streams(draw: random.Random, bench: Bench) -> list[str]:
    """`parse` with some of its streams closed, full or with a reader that goes away."""
    place, whole = bench.place(), bench.parsed(bench.input)
    redirected = " ".join(draw.sample(STREAMS, k=draw.choice([1, 1, 2, 3])))
    if draw.random() < 0.2:
        redirected = draw.choice(["| head -c 100 > out", "2>&1 > out | head -c 1 > /dev/null"])
    words: list[object] = [ROOT / "parse.py", bench.model(), bench.input, "--threads", 1]
    words += ["--output", "parsed/"] if draw.random() < 0.3 else []
    words += ["--quiet"] if draw.random() < 0.3 else []
    line = f'{{ "$@"; echo $? > code; }} {redirected}'
    if "|" not in redirected:
        line = f'"$@" {redirected}; echo $? > code'
    ended = shell(line, words, place, **unbuffered(draw))
    code = int((place / "code").read_text())
    shown = f"{redirected} {'--output' if '--output' in words else ''}"
    try:
        check_end(Ended(code, b"", ended.err), FINE)
        kept = place / "parsed" / bench.input.name
        if "--output" in words:
            found = kept.read_bytes() if kept.exists() else None
            if found != whole and (found is not None or code == 0):
                raise Failure(f"exit code {code}, and not the whole file")
        elif redirected.endswith("> out") or "> out" in redirected.split("|")[-1]:
            found = (place / "out").read_bytes()
            if not whole.startswith(found):
                raise Failure(f"not the beginning of the output: {found[:200]!r}")
            if code == 0 and found != whole and "|" not in redirected:
                raise Failure("exit code 0, and not the whole output")
        elif code == 0 and "/dev/full" in redirected.replace("2>/dev/full", ""):
            raise Failure("exit code 0 with a full standard output")
    except Failure as failure:
        raise Failure(f"{shown}: {failure}") from None
    return [f"exit {code}"]


def disks(draw: random.Random, bench: Bench) -> list[str]:
    """A limit of file sizes as a full disk has it, then the same command with enough room."""
    place, whole = bench.place(), bench.parsed(bench.input)
    blocks = draw.choice([0, 1, draw.randint(1, len(whole) // 512)])  # of 512 bytes
    kind = draw.choice(["stdout", "files", "shards", "train"])
    words: list[object] = [bench.model(), bench.input, "--threads", 1]
    if kind == "files":
        words += ["--output", f"{place}/out/"]
    elif kind == "shards":
        words += ["--output", f"{place}/out/", "--shard", f"all/{draw.randint(1, 4)}"]
    elif kind == "train":
        system = draw.choice(["first-order", "second-order"])
        words = [bench.config(system), *SYSTEMS[system], f"output={place / 'model'}"]
    program = ROOT / ("train.py" if kind == "train" else "parse.py")
    line = f'ulimit -f {blocks}; "$@" > {place}/stdout 2> /dev/null; echo $? >&2'
    ended = shell(line, [program, *words], place, **unbuffered(draw))
    code = int(ended.err.split()[-1]) if ended.err.split() else ended.code
    check_end(Ended(code, b"", ""), [0, 5])
    found = (place / "stdout").read_bytes()
    if kind == "stdout":
        if found != whole[: len(found)] or (code == 0 and found != whole):
            raise Failure(f"exit code {code} with {len(found)} of {len(whole)} bytes")
        return [f"{kind}: exit {code}"]
    left = [name for name in contents(place) if name.endswith(".part")]
    if left:
        raise Failure(f"{kind}: exit code {code} leaves {left}")
    if kind == "train":
        if code:
            unfinished = (place / "model" / "last" / "state.safetensors").exists()
            words += ["--resume"] if unfinished else []
            check_end(call(train.main, words, bench.folder), [0])
        check_same(
            model_files(place / "model"), bench.bytes_of(system), f"exit code {code}, {kind}"
        )
    else:
        kept = contents(place / "out") if (place / "out").exists() else {}
        if bench.input.name in kept:
            check_same({"output": kept[bench.input.name]}, {"output": whole}, f"exit code {code}")
        if code:
            check_end(call(parse.main, words, bench.folder), [0])
        check_same(outputs(place / "out"), {bench.input.name: whole}, f"exit code {code}, {kind}")
    return [f"{kind}: exit {code}"]
