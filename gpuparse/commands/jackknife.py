"""`jackknife`: guides for training; those of a sentence come from a parser that has not seen it."""

import argparse
from collections.abc import Sequence

from gpuparse.commands.config import add_folds, add_overrides, parse_with_overrides
from gpuparse.commands.console import exit_codes
from gpuparse.config import load_config
from gpuparse.data.columns import is_key
from gpuparse.data.conll import with_misc
from gpuparse.errors import ConfigError
from gpuparse.files import write_file
from gpuparse.jobs.jackknife import jackknifed
from gpuparse.jobs.progress import program, say, silent


def main(arguments: Sequence[str]) -> int:
    """Write the training treebank with heads predicted by parsers of its other folds.

    Raises:
        ConfigError: the config is wrong, or more folds than sentences, or the output exists.
        DataError: the treebank cannot be used.
    Cost: for N folds, N trainings without second-stage labels, one per thread at a time.
    """
    options = parse_with_overrides(_parser(), arguments)
    tell = silent if options.quiet else say
    if not is_key(options.key):
        raise ConfigError(f"--key: {options.key!r}: expected a key without blanks, '=' and '|'")
    treebank, heads = jackknifed(
        load_config(options.config, options.overrides), options.folds, options.output,
        force=options.force, quiet=options.quiet, tell=tell,
    )  # fmt: skip
    right = 100 * (heads == treebank.heads)[treebank.heads >= 0].mean()
    text = with_misc(treebank, {options.key: heads.astype("S")})
    write_file(options.output, text, force=options.force)
    tell(f"{options.output}: {options.key}=HEAD in MISC; {right:.2f}% of these heads are right")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=program("jackknife"),
        description="Write data.train with guides in MISC: the heads of each fold are predicted by"
        " the config's parser, trained on the other folds. Nothing else in the file changes."
        " Threads train folds at the same time, and change no byte.",
        epilog=exit_codes(0, 2, 3, 5),
    )
    parser.add_argument("config", metavar="CONFIG", help="YAML file or name, as for train")
    add_overrides(parser, "overrides a key of the config")
    parser.add_argument(
        "-o", "--output", required=True, metavar="FILE", help="the treebank to write"
    )
    add_folds(parser)
    parser.add_argument("--key", default="Guide", metavar="KEY", help="the key in MISC (Guide)")
    parser.add_argument("--force", action="store_true", help="replace FILE if it exists")
    parser.add_argument("--quiet", action="store_true", help="only errors on stderr")
    return parser
