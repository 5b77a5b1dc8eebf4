"""`python -m benchmarks CASE`: run a case behind its tests and print its table."""

import argparse
import dataclasses
import json
import platform
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

import torch

from benchmarks.on_device.contest import Contest
from benchmarks.on_device.machine import described, measured, require_device
from benchmarks.registry import case_names, gate_is_green, load_case
from gpuparse.commands.console import run
from gpuparse.errors import ConfigError

ON_DEVICE = (
    "kernels",
    "scoring",
    "parse",
    "train",
)  # their tables on a device: benchmarks/on_device


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse the command line, pass the gate, run the case, print.

    Args:
        arguments: the command line without the program; that of the process if None.
    Raises:
        ConfigError: a device that the case does not run on.
        ResourceError: no such device is here.
    """
    first = argparse.ArgumentParser(prog="python -m benchmarks", add_help=False)
    first.add_argument("case", nargs="?", choices=case_names())
    name = first.parse_known_args(arguments)[0].case
    parser = argparse.ArgumentParser(prog="python -m benchmarks")
    parser.add_argument("case", choices=case_names())
    parser.add_argument("--threads", type=int, default=1, help="of torch and of the kernels")
    parser.add_argument("--repeats", type=int, default=9, help="rounds, of which the median counts")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    case = load_case(name) if name else None
    parser.add_argument(
        "--device", choices=("cpu", "cuda"), default=getattr(case, "DEVICE", "cpu"),
        help="what to measure: kernels, scoring, parse and train know cuda (%(default)s)",
    )  # fmt: skip
    if case is not None:
        parser.description = (case.__doc__ or "").splitlines()[0]
        if hasattr(case, "add_arguments"):
            case.add_arguments(parser)
    options = parser.parse_args(arguments)
    assert case is not None
    on_device = options.device != "cpu" and name in ON_DEVICE
    if options.device != "cpu" and not on_device and not hasattr(case, "DEVICE"):
        raise ConfigError(f"--device {options.device}: {name} measures the CPU alone")
    if hasattr(case, "check"):
        case.check(options)
    if on_device:
        device = require_device(options.device)
    if not gate_is_green(case.GATE):
        print(f"no figures: the tests in {', '.join(case.GATE)} fail", file=sys.stderr)
        return 1
    torch.set_num_threads(options.threads)
    if on_device:
        options.small = False
        forever = Contest(device, measured(device), float("inf"))
        module = import_module(f"benchmarks.on_device.{name}")
        module.run(options, forever)
        report = forever.report(module)
    else:
        report = case.run(options)
    print(report.as_text())
    if options.json:
        machine: dict[str, object] = {"machine": platform.machine()}
        machine |= described(torch.device(options.device)) | {"threads": options.threads}
        figures = dataclasses.asdict(report) | {"case": options.case, "on": machine}
        options.json.write_text(json.dumps(figures, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(run(main, sys.argv[1:]))
