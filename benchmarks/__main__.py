"""`python -m benchmarks CASE`: run a case behind its tests and print its table."""

import argparse
import dataclasses
import json
import platform
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType

import torch

from benchmarks import plots
from benchmarks.on_device.contest import Contest
from benchmarks.on_device.machine import described, measured, require_device
from benchmarks.registry import Report, case_names, gate_is_green, load_case
from gpuparse.commands.console import run
from gpuparse.errors import ConfigError

PROGRAM = "python -m benchmarks"
ON_DEVICE = ("kernels", "scoring", "parse", "train")  # have a namesake in benchmarks.on_device


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse the command line, pass the gate, run the case, print.

    Args:
        arguments: the command line without the program; that of the process if None.
    Raises:
        ConfigError: a device that the case does not run on, or plots of what has none.
        ResourceError: no such device is here.
    """
    first = argparse.ArgumentParser(
        prog=PROGRAM, parents=[_common_options(None)], add_help=False, allow_abbrev=False
    )
    first.add_argument("case", nargs="?", choices=case_names())
    name = first.parse_known_args(arguments)[0].case
    case = load_case(name) if name else None
    options = _parser(case).parse_args(arguments)
    assert case is not None
    on_device = options.device != "cpu" and name in ON_DEVICE
    _check(case, options, on_device=on_device)
    device = require_device(options.device)
    if not gate_is_green(case.GATE):
        print(f"no figures: the tests in {', '.join(case.GATE)} fail", file=sys.stderr)
        return 1
    torch.set_num_threads(options.threads)
    report = _on_device(name, device, options) if on_device else case.run(options)
    print(report.as_text())
    if options.json:
        machine: dict[str, object] = {"machine": platform.machine()}
        machine |= described(device) | {"threads": options.threads}
        figures = dataclasses.asdict(report) | {"case": options.case, "on": machine}
        options.json.write_text(json.dumps(figures, indent=1) + "\n")
    if options.plots:
        options.plots.mkdir(parents=True, exist_ok=True)
        plots.draw(report, name, options.plots)
    return 0


def _parser(case: ModuleType | None) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=PROGRAM, parents=[_common_options(case)])
    parser.add_argument("case", choices=case_names(), help="its own options come after it")
    if case is not None:
        parser.description = (case.__doc__ or "").splitlines()[0]
        if hasattr(case, "add_arguments"):
            case.add_arguments(parser)
    return parser


def _common_options(case: ModuleType | None) -> argparse.ArgumentParser:
    """The options of all cases, which may come before the name of the case."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--threads", type=int, default=1, help="of torch and of the kernels")
    parser.add_argument("--repeats", type=int, default=9, help="rounds, of which the median counts")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    parser.add_argument(
        "--device", choices=("cpu", "cuda"), default=getattr(case, "DEVICE", "cpu"),
        help=f"what to measure; cuda is for {', '.join(ON_DEVICE)} (%(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--plots", type=Path, metavar="FOLDER", help="also draw the kernels or scoring of a device"
    )
    return parser


def _check(case: ModuleType, options: argparse.Namespace, *, on_device: bool) -> None:
    if options.device != "cpu" and not on_device and not hasattr(case, "DEVICE"):
        raise ConfigError(f"--device {options.device}: {options.case} measures the CPU alone")
    if options.plots and not (on_device and options.case in plots.CASES):
        raise ConfigError(f"--plots goes with --device cuda and {' or '.join(plots.CASES)}")
    if options.plots and not plots.can_plot():
        raise ConfigError("--plots needs matplotlib, which is not installed")
    if hasattr(case, "check"):
        case.check(options)


def _on_device(name: str, device: torch.device, options: argparse.Namespace) -> Report:
    """The case's table for a device, however long that takes."""
    module = import_module(f"benchmarks.on_device.{name}")
    contest = Contest(device, measured(device), deadline=float("inf"))
    module.run(argparse.Namespace(**vars(options), small=False), contest)
    return contest.report(module)


if __name__ == "__main__":
    sys.exit(run(main, sys.argv[1:]))
