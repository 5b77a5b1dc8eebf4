"""`calibrate`: fit the temperatures of a model to a treebank that it was not trained on."""

import argparse
import os
from collections.abc import Sequence
from pathlib import Path

from gpuparse.commands.console import exit_codes, whole_number
from gpuparse.data.guides import read_guides
from gpuparse.errors import ConfigError
from gpuparse.files import lock_folder
from gpuparse.installed import find_model
from gpuparse.jobs.calibrate import fits_as_text, with_fitted_tags
from gpuparse.jobs.card import carry_card, check_readme, read_card
from gpuparse.jobs.gold import read_gold
from gpuparse.jobs.progress import program, say, silent
from gpuparse.jobs.resources import limit_torch_threads, thread_count
from gpuparse.learning.temperatures import fit_temperatures
from gpuparse.model_folder import WEIGHTS, load_parser, save_parser
from gpuparse.pipeline import has_parser, load_stages, write_stages


def main(arguments: Sequence[str]) -> int:
    """Fit the temperatures of a model, and write the model with them.

    Args:
        arguments: `MODEL GOLD [--output DIR] [--force] [--guide SOURCE] [--on-error ...]
            [--threads N] [--quiet]`.
    Returns: 0.
    Raises:
        ConfigError: the output exists or has a README.md of others, the model has no
            probabilities, or an option is of parsers and it has none. ModelError: the model cannot
            be used. DataError: GOLD cannot be used.
    Cost: about twenty parses of GOLD with --probabilities.
    """
    options = _parser().parse_args(arguments)
    folder = find_model(options.model)
    if options.output is None and folder != Path(options.model).expanduser():
        raise ConfigError(f"{options.model}: an installed model stays as it is; give --output")
    options.model = str(folder)
    target = Path(options.output or options.model)
    if not options.force:
        _check_output(target, is_other=options.output is not None)
    card = read_card(Path(options.model))
    check_readme(target)
    tell = silent if options.quiet else say
    threads = thread_count(options.threads)
    limit_torch_threads(threads, is_native=True)
    stages, parses = load_stages(Path(options.model)), has_parser(Path(options.model))
    model = load_parser(Path(options.model)) if parses else None
    if model is None and (options.guide is not None or stages.tagger is None):
        what = "--guide" if options.guide is not None else "calibrate"
        raise ConfigError(f"{what}: {options.model} has no parser")
    gold = read_gold(
        options.gold, on_error=options.on_error, single_root=False, graphs=False, tell=tell,
        partial=True if model is None else None,
    ).treebank  # fmt: skip
    fits: list[str] = []
    fitted_stages = with_fitted_tags(stages, gold, threads, fits.append, needed=model is None)
    if model is not None:
        guides = None if options.guide is None else read_guides(gold, options.guide)
        gold = stages.annotate(gold, threads=threads)  # as it is parsed later
        model, before, after = fit_temperatures(model, gold, guides=guides, threads=threads)
        fits.append(fits_as_text(before, after))
    with lock_folder(target):
        write_stages(fitted_stages, target)
        if model is not None:
            save_parser(model, target)
        carry_card(card, target)
    for fit in fits:
        tell(f"{target}: {fit}")
    return 0


def _check_output(target: Path, *, is_other: bool) -> None:
    if not is_other:
        raise ConfigError(f"{target}: give --force to change the model, or --output DIR to copy it")
    check_new_folder(target, "another --output")


def check_new_folder(target: Path, other: str) -> None:
    """Make sure that no folder of a model is written over.

    Args: other: what to name instead.
    Raises: ConfigError: it is a file, or holds files.
    """
    if target.exists() and not target.is_dir():
        raise ConfigError(f"{target}: is not a folder; name {other}")
    if (target / WEIGHTS).exists():
        raise ConfigError(f"{target}: holds a model; give --force to replace it")
    if target.exists() and os.listdir(target):
        raise ConfigError(f"{target}: holds other files; name {other}, or give --force")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=program("calibrate"),
        description="Fit the temperatures of a model's probabilities to gold trees, and gold tags,"
        " that it was not trained on, and write the model with them. Its trees and tags do not"
        " change. See docs/probabilities.md.",
        epilog=exit_codes(0, 2, 3, 4, 5),
    )
    parser.add_argument(
        "model", metavar="MODEL", help="a folder that train wrote, or an installed model"
    )
    parser.add_argument("gold", metavar="GOLD", help="CoNLL-X or CoNLL-U file with the right trees")
    parser.add_argument("-o", "--output", metavar="DIR", help="write the model there, not to MODEL")
    parser.add_argument("--force", action="store_true", help="replace an existing model")
    parser.add_argument(
        "--guide",
        metavar="SOURCE",
        help="for models with guide features, the heads that another parser predicted for GOLD:"
        " misc:KEY, or a file",
    )
    parser.add_argument(
        "--on-error",
        choices=("fail", "skip"),
        default="fail",
        help="a malformed sentence, or one without a tree: stop, or skip it",
    )
    parser.add_argument(
        "--threads", type=whole_number(0), default=0, metavar="N", help="0: all processors"
    )
    parser.add_argument("--quiet", action="store_true", help="only errors on stderr")
    return parser
