"""`crossval`: every fold of a treebank parsed by a parser of the other folds, and scored."""

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from gpuparse.commands.config import add_folds, add_overrides, parse_with_overrides
from gpuparse.commands.console import GIVE_AGAIN, exit_codes, goes_on_by, print_json
from gpuparse.config import load_config
from gpuparse.errors import ConfigError
from gpuparse.jobs.fold_scores import scores_as_table
from gpuparse.jobs.folds import Folds, learn_folds, read_split
from gpuparse.jobs.progress import program, say, silent


def main(arguments: Sequence[str]) -> int:
    """Parse each fold of the training treebank by a parser trained on the other folds; score them.

    Raises:
        ConfigError: the config is wrong, there are more folds than sentences, or the folder is
            finished, has other files, or folds of another config or treebank.
        DataError: the treebank cannot be used.
        ModelError: the state of an unfinished fold is damaged.
    Cost: a training run per fold, one per thread at a time.
    """
    options = parse_with_overrides(_parser(), arguments)
    tell = silent if options.quiet else say
    config = load_config(options.config, options.overrides)
    data = replace(config.data, dev=None, test=None, dev_guide=None, test_guide=None)
    config = replace(config, data=data)
    folds = Folds(
        config, Path(options.output), read_split(config, options.folds, tell=tell), tell=tell,
        probabilities=options.probabilities,
    )  # fmt: skip
    if folds.is_joined():
        folds.joined()
        raise ConfigError(
            f"{options.output}: holds this cross-validation, finished; name another --output"
        )
    if options.fold is not None and not 1 <= options.fold <= folds.n:
        raise ConfigError(f"--fold {options.fold}: expected a number from 1 to {folds.n}")
    which = list(range(1, folds.n + 1)) if options.fold is None else [options.fold]
    with goes_on_by(GIVE_AGAIN):
        learn_folds("crossval, learning", [(folds, fold) for fold in which], quiet=options.quiet)
    if options.fold is not None:
        result: dict[str, Any] = folds.scores(options.fold)
        table = scores_as_table([result], None, None)
    else:
        about = {"config": options.config, "overrides": options.overrides}
        result = folds.join(about)
        table = scores_as_table(result["folds"], result["all"], result)
    if options.json:
        print_json(result)
    else:
        print(table, end="")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=program("crossval"),
        description="Cross-validation on data.train: each fold is parsed by a parser that was"
        " trained on the other folds, and scored. After an interruption, the same command"
        " continues. Threads train folds at the same time, and change no byte.",
        epilog=exit_codes(0, 2, 3, 4, 5),
    )
    parser.add_argument("config", metavar="CONFIG", help="YAML file or name, as for train")
    add_overrides(parser, "overrides a key of the config")
    parser.add_argument(
        "-o",
        "--output",
        required=True,
        metavar="FOLDER",
        help="for the parsed treebank and the scores",
    )
    add_folds(parser)
    parser.add_argument(
        "--fold",
        type=int,
        metavar="K",
        help="work on this fold only, from 1, so that several processes can share the folds; the"
        " same command without --fold then joins them",
    )
    parser.add_argument(
        "--probabilities",
        action="store_true",
        help="write HeadProb and LabelProb into MISC of the parsed treebank, and GoldHeadProb and"
        " GoldLabelProb of the gold tree, which `check --predicted` reads",
    )
    parser.add_argument("--json", action="store_true", help="write JSON instead of a table")
    parser.add_argument("--quiet", action="store_true", help="only errors on stderr")
    return parser
