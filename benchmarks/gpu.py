"""All of it on a GPU, into one folder: the GPU tests, tables on the device, versions."""

import argparse
import dataclasses
import importlib.util
import json
import re
import subprocess
import sys
import time
import traceback
from importlib import import_module
from pathlib import Path

import torch

from benchmarks.on_device import machine
from benchmarks.on_device.contest import Contest
from benchmarks.registry import FOLDER, Report
from benchmarks.subjects import add_treebank_argument
from gpuparse.errors import ConfigError, ResourceError
from gpuparse.jobs.resources import available_processors

GATE = ("tests/test_self_test.py",)
SHARES = {"tests": 0.5, "kernels": 0.7, "scores": 0.75, "parse": 0.9, "train": 1.0}
"""The part of the time after which a step no longer begins."""
SEED = 0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_treebank_argument(parser)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cuda", help="(%(default)s)")
    parser.add_argument("--output", type=Path, required=True, metavar="FOLDER", help="a new folder")
    parser.add_argument(
        "--minutes", type=float, default=9.0, help="what has not begun by then is left out (9)"
    )
    parser.add_argument(
        "--small", action="store_true", help="tiny sizes, to try the program: no figures to keep"
    )
    parser.add_argument(
        "--tests", nargs="+", default=["tests"], metavar="PATH", help="what pytest -m gpu runs"
    )


def check(options: argparse.Namespace) -> None:
    """Raise ResourceError where there is no such device, ConfigError if FOLDER is not empty."""
    machine.require_device(options.device)
    if options.output.exists() and any(options.output.iterdir()):
        raise ConfigError(f"{options.output}: not empty; name a new folder")


def run(options: argparse.Namespace) -> Report:
    """Run everything; what fails is told in FOLDER/log.txt and ends with an error."""
    device = machine.require_device(options.device)
    options.output.mkdir(parents=True, exist_ok=True)
    log = Log(options.output / "log.txt")
    described = machine.described(device)
    _write_json(options.output / "machine.json", described)
    for name, value in described.items():
        log.say(f"{name}: {value}")
    begin = time.monotonic()
    deadlines = {name: begin + 60 * options.minutes * share for name, share in SHARES.items()}
    ended = _tests(options, log, deadlines["tests"] - begin)
    rows = [["tests", ended, time.monotonic() - begin, "tests.log"]]
    if ended == "failed":
        raise ResourceError(f"no figures: the tests failed, see {options.output}/tests.log")
    for case in list(SHARES)[1:]:
        started = time.monotonic()
        contest = Contest(device, deadlines[case], seconds=0.002 if options.small else 0.1)
        files, ended = _one_case(case, options, contest, log)
        rows.append([case, ended, time.monotonic() - started, files])
    log.say(f"all in {time.monotonic() - begin:.0f} s")
    failed = [f"{row[0]} {row[1]}" for row in rows if row[1] in ("failed", "not finished")]
    if failed:
        raise ResourceError(f"{', '.join(failed)}: see {options.output}/log.txt")
    notes = [f"{name}: {value}" for name, value in described.items()]
    return Report("On a device", ["what", "result", "seconds", "files"], rows, notes)


def _tests(options: argparse.Namespace, log: "Log", seconds: float) -> str:
    """Run `pytest -m gpu`: "passed", "failed", or "not finished", none having failed so far.

    On CUDA some test must have run, elsewhere all may be skipped.
    """
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-m", "gpu", "-p", "no:cacheprovider"]
    if importlib.util.find_spec("xdist"):  # compilation is most of the time
        command += ["-n", str(min(8, available_processors())), "--dist", "loadfile"]
    log.say(f"tests: pytest -m gpu {' '.join(options.tests)}")
    path = options.output / "tests.log"
    with path.open("w") as file:
        tests = subprocess.Popen(
            [*command, *options.tests], cwd=FOLDER.parent, stdout=file, stderr=subprocess.STDOUT
        )
        try:
            status = tests.wait(seconds)
        except subprocess.TimeoutExpired:
            tests.terminate()
            tests.wait()
            log.say(f"tests: not finished in {seconds:.0f} s")
            return "failed" if re.search("^FAILED|^E  ", path.read_text(), re.M) else "not finished"
    closing = path.read_text().rstrip().splitlines()[-1:]
    log.say(f"tests: {''.join(closing)}")
    has_run = bool(re.search(r"\b[1-9]\d* passed", "".join(closing)))
    passed = status == 0 and has_run if options.device == "cuda" else status in (0, 5)
    return "passed" if passed else "failed"  # 5: none chosen


def _one_case(
    case: str, options: argparse.Namespace, contest: Contest, log: "Log"
) -> tuple[str, str]:
    """Run a case and write what it gives; names of the files, and how it ended."""
    log.say(f"{case}: begins")
    torch.manual_seed(SEED)
    module, ended = import_module(f"benchmarks.on_device.{case}"), "done"
    try:
        module.run(options, contest)
    except Exception as error:  # the other tables are worth having; the end is an error anyhow
        ended = "failed"
        contest.note(f"Failed here, and what would follow is missing: {error}")
        log.say(f"{case}: failed\n{traceback.format_exc()}")
    report = contest.report(module)
    path = options.output / f"{case}.txt"
    path.write_text(report.as_text() + "\n")
    _write_json(options.output / f"{case}.json", dataclasses.asdict(report))
    files = [path.name, f"{case}.json"]
    log.say(f"{case}: {len(report.rows)} rows\n{report.as_text()}")
    return " ".join(files), ended


def _write_json(path: Path, what: object) -> None:
    path.write_text(json.dumps(what, indent=1) + "\n")


class Log:
    """Lines with the seconds since the start, in a file and on stderr."""

    def __init__(self, path: Path) -> None:
        self._path, self._started = path, time.monotonic()
        path.write_text("")

    def say(self, text: str) -> None:
        line = f"[{time.monotonic() - self._started:6.1f} s] {text}"
        with self._path.open("a") as file:
            file.write(line + "\n")
        print(line, file=sys.stderr, flush=True)
