"""`python -m benchmarks CASE`: run a case behind its tests and print its table."""

import argparse
import dataclasses
import json
import platform
import sys
from pathlib import Path

import torch

from benchmarks.registry import case_names, gate_is_green, load_case


def main() -> int:
    """Parse the command line, pass the gate, run the case, print."""
    first = argparse.ArgumentParser(prog="python -m benchmarks", add_help=False)
    first.add_argument("case", nargs="?", choices=case_names())
    name = first.parse_known_args()[0].case
    parser = argparse.ArgumentParser(prog="python -m benchmarks")
    parser.add_argument("case", choices=case_names())
    parser.add_argument("--threads", type=int, default=1, help="of torch and of the kernels")
    parser.add_argument("--repeats", type=int, default=9, help="rounds, of which the median counts")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    case = load_case(name) if name else None
    if case is not None:
        parser.description = (case.__doc__ or "").splitlines()[0]
        if hasattr(case, "add_arguments"):
            case.add_arguments(parser)
    options = parser.parse_args()
    assert case is not None
    if not gate_is_green(case.GATE):
        print(f"no figures: the tests in {', '.join(case.GATE)} fail", file=sys.stderr)
        return 1
    torch.set_num_threads(options.threads)
    report = case.run(options)
    print(report.as_text())
    if options.json:
        machine = {"machine": platform.machine(), "python": platform.python_version()}
        machine |= {"torch": torch.__version__, "threads": options.threads}
        figures = dataclasses.asdict(report) | {"case": options.case, "on": machine}
        options.json.write_text(json.dumps(figures, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
