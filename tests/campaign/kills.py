"""Processes killed at random moments; what is run again must end with the undisturbed bytes."""

from __future__ import annotations

import random
import time
from pathlib import Path

from gpuparse.commands import parse
from gpuparse.commands.records import read_metrics
from tests.campaign.bench import SYSTEMS, Bench
from tests.campaign.running import Child, Failure, check_end, check_same, contents, outputs
from tests.runs import model_files

MOST = 3  # kills of one run


def wait_and_kill(children: list[Child], seconds: float, draw: random.Random) -> bool:
    """Kill processes after some time, in any order; false if one had ended before."""
    time.sleep(seconds)
    draw.shuffle(children)
    killed = [child.kill() for child in children]  # all of them
    return all(killed)


def kill_training(draw: random.Random, bench: Bench) -> list[str]:
    """Training is killed once or several times, resumed or begun again, and ends."""
    system = draw.choice(list(SYSTEMS))
    expected, seconds = bench.bytes_of(system), bench.seconds(system)
    model = bench.place() / "model"
    outcomes: list[str] = []
    wanted = draw.randint(1, MOST)
    while len(outcomes) < wanted:
        children = bench.start(system, model, *way_to_go_on(model))
        if wait_and_kill(children, draw.uniform(0, seconds), draw):
            kept = " after a kept state" if is_unfinished(model) else ""
            outcomes.append(f"{system}: killed{kept}")
        elif (model / "weights.safetensors").exists() and not is_unfinished(model):
            seconds *= 0.7
            if outcomes:
                break
            bench.place()
    if not (model / "weights.safetensors").exists() or is_unfinished(model):
        for child in bench.start(system, model, *way_to_go_on(model)):
            check_end(child.wait(), [0])
    check_same(model_files(model), expected, system)
    found, undisturbed = (
        [(line["stage"], line["epoch"]) for line in read_metrics(folder)]
        for folder in (model, bench.model(system))
    )
    if found != undisturbed:
        raise Failure(f"{system}: metrics of the epochs {found}")
    return outcomes


def is_unfinished(model: Path) -> bool:
    return (model / "last" / "state.safetensors").exists()


def way_to_go_on(model: Path) -> list[str]:
    return ["--resume"] if is_unfinished(model) else []


def kill_shards(draw: random.Random, bench: Bench) -> list[str]:
    """`--shard all/N` is killed once or several times, and given again until it ends."""
    n, threads = draw.randint(2, 12), draw.randint(1, 2)
    output = bench.place() / "out"
    words = [bench.model(), bench.input, "--output", f"{output}/", "--shard", f"all/{n}"]
    return killed_and_again(draw, bench, [*words, "--threads", threads], output)


def kill_streams(draw: random.Random, bench: Bench) -> list[str]:
    """`parse` to a file or to standard output is killed, and given again until it ends."""
    place = bench.place()
    output = place / "out"
    words = [bench.model(), bench.input, "--threads", draw.randint(1, 2)]
    if draw.random() < 0.5:
        return killed_and_again(draw, bench, [*words, "--output", f"{output}/"], output)
    whole, killed = bench.parsed(bench.input), False
    while not killed:
        child = Child(parse.main, words, place)
        killed = wait_and_kill([child], draw.uniform(0, duration(bench)), draw)
        found = (place / "child.out").read_bytes() if (place / "child.out").exists() else b""
        check_same({"stdout": found}, {"stdout": whole[: len(found)]}, "what was written")
    ended = Child(parse.main, words, place).wait()
    check_end(ended, [0])
    check_same({"stdout": ended.out}, {"stdout": whole}, "standard output")
    return ["stdout: killed"]


def killed_and_again(
    draw: random.Random, bench: Bench, words: list[object], output: Path
) -> list[str]:
    kind = "shards" if "--shard" in words else "files"
    whole, final = bench.parsed(bench.input), output / bench.input.name
    outcomes: list[str] = []
    wanted = draw.randint(1, MOST)
    while len(outcomes) < wanted:
        child = Child(parse.main, words, output.parent)
        if wait_and_kill([child], draw.uniform(0, duration(bench)), draw):
            begun = ", something was there" if contents_of(output) else ""
            outcomes.append(f"{kind}: killed{begun}")
        elif outcomes:
            break
        else:
            output = Path(words[words.index("--output") + 1])
            for file in output.iterdir():
                file.unlink()
        if final.exists():
            check_same({"output": final.read_bytes()}, {"output": whole}, "after a kill")
    if kind == "shards" or not final.exists():
        check_end(Child(parse.main, words, output.parent).wait(), [0])
    check_same(outputs(output), {final.name: whole}, f"{kind}, done again")
    if kind == "shards":  # a finished run is left as it is
        before = contents(output)
        check_end(Child(parse.main, words, output.parent).wait(), [0])
        check_same(contents(output), before, "a finished run, given again")
    return outcomes


def contents_of(folder: Path) -> dict[str, bytes]:
    return contents(folder) if folder.exists() else {}


_durations: dict[Bench, float] = {}


def duration(bench: Bench) -> float:
    """Seconds of an undisturbed run of `parse`."""
    if bench not in _durations:
        place = bench.folder / "duration"
        place.mkdir()
        child = Child(parse.main, [bench.model(), bench.input, "--output", f"{place}/out/"], place)
        check_end(child.wait(), [0])
        _durations[bench] = child.seconds
    return _durations[bench]
