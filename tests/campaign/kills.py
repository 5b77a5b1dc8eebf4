"""Processes killed at random moments; what is run again must end with the undisturbed bytes."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from gpuparse.commands import parse, train
from gpuparse.data import array_file
from gpuparse.jobs import checkpoint
from gpuparse.jobs.records import read_metrics, read_scores
from gpuparse.learning.trainer import STAGES
from gpuparse.model.folder import WEIGHTS
from gpuparse.model.pipeline import FILES, LEMMATIZER, TAGGER, TOKENIZER
from tests.campaign.bench import PIPELINE, SYSTEMS, Bench
from tests.campaign.running import (
    Child,
    Ended,
    Failure,
    check_end,
    check_same,
    contents,
    outputs,
)
from tests.runs import model_files

MOST = 3  # kills of one run


def wait_and_kill(child: Child, seconds: float) -> bool:
    """Kill a process after some time; false if it had ended before."""
    time.sleep(seconds)
    return child.kill()


def kill_training(draw: random.Random, bench: Bench) -> list[str]:
    """Training is killed once or several times, resumed or begun again, and ends."""
    system = draw.choice(list(SYSTEMS))
    seconds = bench.seconds(system)
    model = bench.place() / "model"
    outcomes: list[str] = []
    wanted = draw.randint(1, MOST)
    while len(outcomes) < wanted:
        child = bench.start(system, model, *(["--resume"] if outcomes else []))
        if wait_and_kill(child, draw.uniform(0, seconds)):
            outcomes.append(f"{system}: killed after {last_kept(model)}")
        elif is_finished(model):
            seconds *= 0.7
            if outcomes:
                break
            bench.place()
    check_resumed(system, model, bench)
    return outcomes


def kill_writes(draw: random.Random, bench: Bench) -> list[str]:
    """Training is killed just before or after one of its files is in its place, and resumed."""
    system = draw.choice([PIPELINE, PIPELINE, *SYSTEMS])
    model = bench.place() / "model"
    n_writes = count_writes(system, bench)
    outcomes: list[str] = []
    for _ in range(draw.randint(1, MOST)):
        number, is_done = draw.randint(1, n_writes), draw.random() < 0.5
        if not killed_at(system, model, bench, number, is_done=is_done):
            break
        outcomes.append(f"{system}: killed after {last_kept(model)}")
    check_resumed(system, model, bench)
    return outcomes


def killed_at(system: str, model: Path, bench: Bench, number: int, *, is_done: bool) -> bool:
    """Train, or go on, until file `number` is written, and die there; false if there are fewer.

    Args: is_done: whether the file gets into its place.
    """
    replace, count = os.replace, 0

    def write(*given: object) -> None:
        nonlocal count
        count += 1
        if is_done:
            replace(*given)
        if count == number:
            os.kill(os.getpid(), signal.SIGKILL)
        if not is_done:
            replace(*given)

    ended = trained_with(system, model, bench, write, *(["--resume"] if model.exists() else []))
    check_end(ended, [0, 2, -signal.SIGKILL])  # 2: it was killed after its end
    return ended.code == -signal.SIGKILL


_writes: dict[str, int] = {}


def count_writes(system: str, bench: Bench) -> int:
    """The number of files that an undisturbed training writes, with a state after each epoch."""
    if system not in _writes:
        replace, log = os.replace, bench.place() / "log"

        def write(*given: object) -> None:
            with log.open("a") as file:
                file.write("x")
            replace(*given)

        check_end(trained_with(system, log.parent / "model", bench, write), [0])
        check_same(model_files(log.parent / "model"), bench.bytes_of(system), system)
        _writes[system] = len(log.read_text())
        bench.place()
    return _writes[system]


def trained_with(
    system: str, model: Path, bench: Bench, write: Callable[..., None], *words: str
) -> Ended:
    """Train in a process in which `write` replaces files, with a state after each epoch."""

    def main(words: Sequence[str]) -> int:
        os.replace, checkpoint.SHARE = write, float("inf")  # of this process alone
        return train.main(words)

    given = [bench.config(system), *SYSTEMS[system], f"output={model}", *words]
    return Child(main, given, model.parent).wait()


def check_resumed(system: str, model: Path, bench: Bench) -> None:
    """Go on with `--resume` unless the run has ended; Failure unless all is as if undisturbed."""
    whole = bench.model(system)
    if not is_finished(model):
        check_end(bench.start(system, model, "--resume").wait(), [0])
    check_same(model_files(model), bench.bytes_of(system), system)
    found, undisturbed = (
        [(line["stage"], line["epoch"]) for line in read_metrics(folder)]
        for folder in (model, whole)
    )
    if found != undisturbed:
        raise Failure(f"{system}: metrics of the epochs {found}")
    found, undisturbed = (without_times(read_scores(folder)) for folder in (model, whole))
    if found != undisturbed:
        raise Failure(f"{system}: other scores: {found}")


def without_times(scores: dict[str, Any]) -> dict[str, Any]:
    """The content of `scores.json` but for what differs between two equal runs."""
    timed = ("seconds", "learning_seconds", "peak_memory_bytes")
    return {
        name: without_times(value) if isinstance(value, dict) else value
        for name, value in scores.items() if name not in timed
    }  # fmt: skip


def is_finished(model: Path) -> bool:
    written = any((model / name).exists() for name in (WEIGHTS, *FILES.values()))
    return written and not checkpoint.is_unfinished(model)


def last_kept(model: Path) -> str:
    """The latest thing that a run has kept, in words."""
    last = model / checkpoint.FOLDER
    if is_finished(model):
        return "its end"
    if (model / WEIGHTS).exists():
        return "the model"
    if (last / checkpoint.CALIBRATION).exists():
        return "a part of the calibration"
    if (last / checkpoint.STATE).exists():
        arrays = array_file.read(last / checkpoint.STATE, form=checkpoint.FORMAT, what="state")[1]
        begun = [stage.name for stage in STAGES if arrays.get(f"{stage.name}.done", [0])[0]]
        return f"an epoch of {begun[-1]}"
    stages = {file.stem for file in (last / checkpoint.STAGES).glob("*.safetensors")}
    order = ["tags-3", "tags-2", "tags-1", LEMMATIZER, "tagger-scale", TAGGER, TOKENIZER]
    return next((name for name in order if name in stages), "nothing")


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
        killed = wait_and_kill(child, draw.uniform(0, duration(bench)))
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
        if wait_and_kill(child, draw.uniform(0, duration(bench))):
            begun = ", the folder had a file" if contents_of(output) else ""
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
