"""Several processes on one output: each ends well or is turned away, and the result is whole."""

from __future__ import annotations

import random

from gpuparse.commands import parse, train
from tests.campaign.bench import SYSTEMS, Bench
from tests.campaign.running import Child, Failure, check_end, check_same, outputs
from tests.runs import model_files


def races(draw: random.Random, bench: Bench) -> list[str]:
    """Two to five processes at once train into one folder, or parse one file into one place."""
    place = bench.place()
    kind = draw.choice(["train", "files", "shards", "shards of many"])
    output, n = place / "out", draw.randint(2, 4)
    words: list[object] = [bench.model(), bench.input, "--output", f"{output}/", "--threads", 1]
    each = [words] * draw.randint(2, 5)
    main = parse.main
    if kind == "train":
        system = draw.choice(["first-order", "second-order", "multi-parent"])
        expected, main = bench.bytes_of(system), train.main
        each = [[bench.config(system), *SYSTEMS[system], f"output={output}"]] * len(each)
    else:
        expected = {bench.input.name: bench.parsed(bench.input)}
    if kind == "shards":
        each = [[*words, "--shard", f"all/{n}"]] * len(each)
    elif kind == "shards of many":
        each = [[*words, "--shard", f"{i + 1}/{n}"] for i in range(n)]
    children = [Child(main, given, place, name=f"child{i}") for i, given in enumerate(each)]
    ends = [child.wait() for child in children]
    for ended in ends:
        check_end(ended, [0, 2])
    codes = [ended.code for ended in ends]
    if kind == "shards of many":
        if any(codes):
            raise Failure(f"shards of their own end with {codes}")
        check_end(Child(main, [*words, "--shard", f"join/{n}"], place).wait(), [0])
    elif 0 not in codes:
        raise Failure(f"{kind}: none of the processes ends well: {codes}")
    check_same(model_files(output) if kind == "train" else outputs(output), expected, kind)
    return [f"{kind}: {codes.count(0)} of {len(codes)} end well"]
