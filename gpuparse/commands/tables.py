"""`tables`: train the systems of a paper on your data, and print tables in the paper's form."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence

from gpuparse.commands.config import add_overrides
from gpuparse.commands.console import exit_codes, say, silent
from gpuparse.commands.paper_files import load_tables
from gpuparse.commands.paper_runs import Work
from gpuparse.commands.paper_tables import table_as_text
from gpuparse.errors import ConfigError


def main(arguments: Sequence[str]) -> int:
    """Train the systems of a paper's tables, and print the tables.

    Args:
        arguments: `FILE [KEY=VALUE ...] [--only TABLE] [--json] [--force] [--quiet]`.
    Returns:
        0.
    Raises:
        ConfigError: the file is wrong, or another model is in the way.
        DataError: a treebank cannot be used, or lacks what a table given by --only needs.
    Cost: one training run for each system without a model.
    """
    options = _parser().parse_intermixed_args(arguments)
    tell = silent if options.quiet else say
    paper = load_tables(options.file, options.overrides)
    unknown = [name for name in options.only if name not in paper.tables]
    if unknown:
        raise ConfigError(f"--only {unknown[0]}: expected one of {', '.join(paper.tables)}")
    work = Work(paper.only(options.only or list(paper.tables)), tell, quiet=options.quiet)
    work.look_at_treebanks(named=bool(options.only))
    work.look_at_models(force=options.force)
    results = work.results(force=options.force)
    if options.json:
        json.dump(work.as_json(results), sys.stdout, indent=2, ensure_ascii=False)
        print()
    else:
        texts = [table_as_text(table, results[n]) for n, table in work.paper.tables.items()]
        print("\n".join(texts), end="")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m gpuparse tables",
        description="Train the systems of a paper's tables, one after the other, score them on"
        " data.test, and print the tables with the paper's figures beside them. Each system has a"
        " model folder in `output`; after an interruption, the same command continues.",
        epilog=exit_codes(0, 2, 3, 5),
    )
    parser.add_argument("file", metavar="FILE", help="YAML, such as those in configs/papers")
    add_overrides(
        parser,
        "overrides a key for all systems, such as data.train=train.conllu features=extended",
    )
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="TABLE",
        help="print this table and train its systems only; can be repeated",
    )
    parser.add_argument("--json", action="store_true", help="write unrounded JSON")
    parser.add_argument("--force", action="store_true", help="train all systems again")
    parser.add_argument("--quiet", action="store_true", help="only errors on stderr")
    return parser
