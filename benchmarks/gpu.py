"""A GPU and the cores beside it: tests and figures, part by part, within nine minutes.

    python -m benchmarks gpu --output FOLDER

Each part is a module of `on_device`, and runs in a process of its own, which is killed when its
time is over. FOLDER gets PART.json of each part, and figures.json and figures.md of all of them,
after each part. The same command given again runs the parts that are not finished.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch

from benchmarks.on_device.machine import described
from benchmarks.registry import Report
from gpuparse.errors import GpuparseError

GATE = ("tests/test_self_test.py",)
PACKAGE = "benchmarks.on_device"
PARTS = {
    "tests": 120.0, "cores": 90.0, "files": 100.0, "kernels": 70.0, "mira": 40.0,
    "encoder": 45.0,
}  # fmt: skip
"""The seconds after which a part is killed: with the gate and the start nine minutes in all."""
WITHOUT_CUDA = ("cores",)
DONE, NO_CUDA = "done", "no CUDA device"
_PART = "from benchmarks.on_device.contest import main; main()"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--output", type=Path, required=True, metavar="FOLDER", help="of figures")
    parser.add_argument(
        "--parts", nargs="+", choices=PARTS, default=[*PARTS], metavar="PART",
        help=f"some of {', '.join(PARTS)} (all)",
    )  # fmt: skip
    parser.add_argument(
        "--encoder", metavar="FOLDER", help="a pretrained encoder; else a random one like MiniLM"
    )
    parser.add_argument(
        "--small", action="store_true", help="tiny sizes on the CPU, to try the program"
    )


def run(options: argparse.Namespace) -> Report:
    """Run the parts that have not been finished on this device by this commit.

    Raises: GpuparseError: a part failed, or did not end in time; the others have run.
    """
    options.output.mkdir(parents=True, exist_ok=True)
    has_device = options.small or torch.cuda.is_available()
    device = "cpu" if options.small or not has_device else "cuda"
    given = {"device": device, "small": options.small, "encoder": options.encoder}
    on = described(torch.device(device)) | {"options": str(given)}
    for name in options.parts:
        path = options.output / f"{name}.json"
        record = _record_in(path)
        if record.get("result") == DONE and record["on"] == on:
            print(f"{name}: finished before, in {path}", file=sys.stderr)
            continue
        record = {"result": NO_CUDA, "seconds": 0.0}
        if has_device or name in WITHOUT_CUDA:
            record = _ran(name, PARTS[name], given, options.output)
        path.write_text(json.dumps({"part": name, "on": on, **record}, indent=1) + "\n")
        print(f"{name}: {record['result']}, {record['seconds']:.0f} s", file=sys.stderr)
        _write_figures(options.output)
    records = _write_figures(options.output)
    failed = [f"{n}: {records[n]['result']}" for n in options.parts if records[n]["result"] != DONE]
    if failed:
        raise GpuparseError(f"{'; '.join(failed)}; see figures.md and log.txt in {options.output}")
    rows = [[name, each["result"], each["seconds"]] for name, each in records.items()]
    notes = [f"{name}: {value}" for name, value in on.items()]
    return Report("On a device", ["part", "result", "seconds"], rows, notes)


def _ran(name: str, limit: float, given: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Run a part; returns its report, which has the rows so far if it fails, with the result."""
    path, begin = folder / f"{name}.rows", time.monotonic()
    path.unlink(missing_ok=True)
    words = [f"{PACKAGE}.{name}", str(path), str(begin + limit), json.dumps(given)]
    with (folder / "log.txt").open("a") as log:
        part = subprocess.Popen(
            [sys.executable, "-c", _PART, *words], stdout=log, stderr=log, start_new_session=True
        )
        try:
            code = part.wait(limit)
            result = DONE if code == 0 else f"failed: exit code {code}"
        except subprocess.TimeoutExpired:
            result = f"failed: not finished after {limit:g} s"
        finally:  # with all processes that it has started
            with suppress(ProcessLookupError):
                os.killpg(part.pid, signal.SIGKILL)
            part.wait()
    found = {"result": result, "seconds": time.monotonic() - begin} | _record_in(path)
    path.unlink(missing_ok=True)
    return found


def _record_in(path: Path) -> dict[str, Any]:
    """The JSON of a file; empty if it is missing, or was cut off."""
    try:
        found: dict[str, Any] = json.loads(path.read_text())
    except (FileNotFoundError, json.JSONDecodeError):
        return {}
    return found


def _write_figures(folder: Path) -> dict[str, dict[str, Any]]:
    """Write all that there is into one JSON file and one page; returns the records by part."""
    found = {name: _record_in(folder / f"{name}.json") for name in PARTS}
    records = {name: record for name, record in found.items() if record}
    (folder / "figures.json").write_text(json.dumps(records, indent=1) + "\n")
    lines, on = ["# Figures of a device", ""], None
    for name, record in records.items():
        if on != record["on"]:
            on = record["on"]
            lines += [*(f"- {key}: {value}" for key, value in on.items()), ""]
        lines += [f"## {name}", "", f"{record['result']}, {record['seconds']:.0f} s", ""]
        if "report" in record:
            lines += ["```text", Report(**record["report"]).as_text(), "```", ""]
    (folder / "figures.md").write_text("\n".join(lines))
    return records
