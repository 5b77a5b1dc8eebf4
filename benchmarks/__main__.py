"""`python -m benchmarks CASE`: run a case behind its tests and print its table."""

import argparse
import dataclasses
import json
import platform
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

import torch

from benchmarks.on_device.machine import described
from benchmarks.registry import case_names, gate_is_green, load_case
from gpuparse.commands.console import run

PROGRAM = "python -m benchmarks"


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse the command line, pass the gate, run the case, print.

    Args:
        arguments: the command line without the program; that of the process if None.
    Raises: ConfigError, ResourceError: as the case's `check`.
    """
    first = argparse.ArgumentParser(
        prog=PROGRAM, parents=[_common_options()], add_help=False, allow_abbrev=False
    )
    first.add_argument("case", nargs="?", choices=case_names())
    name = first.parse_known_args(arguments)[0].case
    case = load_case(name) if name else None
    options = _parser(case).parse_args(arguments)
    assert case is not None
    if hasattr(case, "check"):
        case.check(options)
    if not gate_is_green(case.GATE):
        print(f"no figures: the tests in {', '.join(case.GATE)} fail", file=sys.stderr)
        return 1
    torch.set_num_threads(options.threads)
    report = case.run(options)
    print(report.as_text())
    if options.json:
        machine: dict[str, object] = {"machine": platform.machine()}
        machine |= described(torch.device("cpu")) | {"threads": options.threads}
        figures = dataclasses.asdict(report) | {"case": options.case, "on": machine}
        options.json.write_text(json.dumps(figures, indent=1) + "\n")
    return 0


def _parser(case: ModuleType | None) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=PROGRAM, parents=[_common_options()])
    parser.add_argument("case", choices=case_names(), help="its own options come after it")
    if case is not None:
        parser.description = (case.__doc__ or "").splitlines()[0]
        if hasattr(case, "add_arguments"):
            case.add_arguments(parser)
    return parser


def _common_options() -> argparse.ArgumentParser:
    """The options of all cases, which may come before the name of the case."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--threads", type=int, default=1, help="of torch and of the kernels")
    parser.add_argument("--repeats", type=int, default=9, help="rounds, of which the median counts")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    return parser


if __name__ == "__main__":
    sys.exit(run(main, sys.argv[1:]))
