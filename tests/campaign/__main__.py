"""Faults by the thousand, drawn from a seed: nothing may be lost, crash or end in a traceback.

    python -m tests.campaign [--minutes M] [--seed S] [--only NAME,...] [--trials N] [--first I]

Each campaign gets its share of the minutes, or N trials. Prints a table of what was tried and how
it ended, and each failure with the command that repeats it; ends with 1 if there is one. A trial
is drawn from the seed, the campaign and its number alone; of the kills the moment is drawn, and
what was done by then depends on the machine.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path

import torch

from gpuparse import native
from tests.campaign.bench import Bench
from tests.campaign.files import KINDS, files
from tests.campaign.kills import kill_shards, kill_streams, kill_training, kill_writes
from tests.campaign.models import changed_in_place, damaged_models, damaged_states, hostile
from tests.campaign.packages import compact, installed, packaging
from tests.campaign.places import places
from tests.campaign.races import races
from tests.campaign.reasons import reasons
from tests.campaign.server import blocks, requests, stops
from tests.campaign.streams import disks, streams
from tests.campaign.tensors import tensors
from tests.campaign.treebanks import checks, folders

Trial = Callable[[random.Random, Bench], list[str]]
CAMPAIGNS: dict[str, Trial] = {
    **{name: partial(files, name) for name in KINDS},
    "models": damaged_models,
    "in-place": changed_in_place,
    "states": damaged_states,
    "hostile": hostile,
    "tensors": tensors,
    "kill-training": kill_training,
    "kill-writes": kill_writes,
    "kill-shards": kill_shards,
    "kill-streams": kill_streams,
    "disks": disks,
    "streams": streams,
    "places": places,
    "races": races,
    "reasons": reasons,
    "checks": checks,
    "folders": folders,
    "compact": compact,
    "installed": installed,
    "packaging": packaging,
    "requests": requests,
    "blocks": blocks,
    "stops": stops,
}


def main(arguments: Sequence[str]) -> int:
    """The command."""
    options = read_options(arguments)
    native.library()  # an error where it is missing
    torch.set_num_threads(1)  # processes are forked: no threads may run
    names = options.only or list(CAMPAIGNS)
    failed, lines = [], []
    with tempfile.TemporaryDirectory() as folder, closing(Bench(Path(folder))) as bench:
        for name in names:
            began = time.monotonic()
            outcomes: Counter[str] = Counter()
            number = options.first
            while not is_over(options, number, time.monotonic() - began, len(names)):
                try:
                    draw = random.Random(f"{options.seed} {name} {number}")
                    outcomes.update(CAMPAIGNS[name](draw, bench))
                except Exception as error:
                    outcomes["FAILED"] += 1
                    again = f"--seed {options.seed} --only {name} --first {number} --trials 1"
                    failed.append(
                        f"python -m tests.campaign {again}\n    {type(error).__name__}: {error}"
                    )
                number += 1
            tried, seconds = number - options.first, time.monotonic() - began
            lines += table_lines(name, tried, seconds, outcomes)
            print("\n".join(lines), flush=True)
            lines = []
    if failed:
        print(f"\n{len(failed)} failures:", *failed, sep="\n")
    return 1 if failed else 0


def is_over(options: argparse.Namespace, number: int, seconds: float, campaigns: int) -> bool:
    """True if a campaign has had its trials, or its share of the time."""
    if options.trials:
        return number >= options.first + options.trials
    return seconds > 60 * options.minutes / campaigns


def table_lines(name: str, tried: int, seconds: float, outcomes: Counter[str]) -> list[str]:
    """Rows of the table: a campaign, then each outcome and how often it came."""
    lines = [f"{name}: {tried:,} tried in {seconds:.0f} s"]
    return lines + [f"    {outcomes[outcome]:7,} {outcome}" for outcome in sorted(outcomes)]


def read_options(arguments: Sequence[str]) -> argparse.Namespace:
    """The options of a command line."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.campaign", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--minutes", type=float, default=5, help="for all campaigns (5)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--only", type=lambda text: text.split(","), help=f"of {', '.join(CAMPAIGNS)}"
    )
    parser.add_argument("--trials", type=int, default=0, help="of each campaign, not minutes")
    parser.add_argument("--first", type=int, default=0, help="number of the first trial")
    options = parser.parse_args(arguments)
    if unknown := set(options.only or ()) - set(CAMPAIGNS):
        parser.error(f"--only: no campaign {', '.join(sorted(unknown))}")
    return options


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
