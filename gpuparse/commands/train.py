"""`train`: learn a parser from a config, save it, and score it."""

import argparse
import os
from collections.abc import Sequence

from gpuparse.commands.config import add_overrides, parse_with_overrides
from gpuparse.commands.console import exit_codes, goes_on_by
from gpuparse.config import load_config
from gpuparse.evaluation.reports import hits_as_text, scores_as_text
from gpuparse.jobs.gold import with_fitting_decoder
from gpuparse.jobs.progress import program, say, silent
from gpuparse.jobs.train import train
from gpuparse.jobs.train_checks import check_output_of, plan_of
from gpuparse.jobs.train_scores import Tested


def main(arguments: Sequence[str]) -> int:
    """Train, save and score a parser.

    Raises:
        ConfigError: the config is wrong, or the output folder may not be written to.
        DataError: a treebank cannot be used.
        ModelError: with --resume, a state that is damaged.
    """
    options = parse_with_overrides(_parser(), arguments)
    asked = [f"device={options.device}"] if options.device else []
    config = load_config(options.config, [*options.overrides, *asked])
    resume, force = options.resume, options.force
    advice = "run the same command with --resume" + (" in place of --force" if force else "")
    with goes_on_by(advice):
        check_output_of(config, resume=resume, force=force)
        plan = plan_of(with_fitting_decoder(config), silent if options.quiet else say)
        trained = train(plan, resume=resume, force=force, quiet=options.quiet)
        if trained.tested is not None:
            _print_tested(trained.tested, labelled=trained.plan.is_labelled)
        if plan.follows:
            # It has nothing left to do, and torch may abort where its threads are taken apart.
            os._exit(0)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=program("train"),
        description="Train a parser from a YAML config, and score it on data.test.",
        epilog=exit_codes(0, 2, 3, 4, 5),
    )
    parser.add_argument(
        "config",
        metavar="CONFIG",
        help="YAML file, or a name that `gpuparse config list` lists",
    )
    add_overrides(
        parser,
        "overrides a key of the config, such as seed=2 or data.train=train.conllu;"
        " `gpuparse config` lists all keys",
    )
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--resume", action="store_true", help="continue an interrupted run")
    which.add_argument("--force", action="store_true", help="replace the output folder's content")
    parser.add_argument(
        "--device", choices=("auto", "cpu", "cuda"), help="the same as device=, as for parse"
    )
    parser.add_argument("--quiet", action="store_true", help="only errors on stderr")
    return parser


def _print_tested(tested: Tested, *, labelled: bool) -> None:
    """Print the scores on data.test."""
    print(scores_as_text(tested.scores, labelled=labelled), end="")
    if tested.graphs is not None:
        print("", scores_as_text(tested.graphs, labelled=labelled), sep="\n", end="")
    if tested.from_text is not None:
        print("", "from raw text", hits_as_text(tested.from_text), sep="\n", end="")
