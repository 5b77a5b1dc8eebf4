"""`tune`: train and score a config with several values of its keys, or on several amounts of data.

Each setting has a folder of its own, which is that of a cross-validation with these overrides.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import fields

from gpuparse.commands.config import add_overrides, parse_with_overrides
from gpuparse.commands.console import GIVE_AGAIN, add_number, exit_codes, goes_on_by, print_json
from gpuparse.errors import ConfigError
from gpuparse.files import check_new_file, write_file
from gpuparse.jobs.plots import check_plots, tuning_plot
from gpuparse.jobs.progress import program, say, silent
from gpuparse.jobs.search import SearchOptions, SettingsSearch
from gpuparse.jobs.settings import drawn_settings, grid, parse_grid, parse_sizes

_NOT_SEARCHED = ("output", "data.dev", "data.test")


def main(arguments: Sequence[str]) -> int:
    """Score settings of a config on folds of data.train or on data.dev; print a table.

    Raises:
        ConfigError: a setting or the command line is wrong, or the folder has results of another
            config, treebank or sample.
        DataError: a treebank cannot be used.
        ModelError: the state of an unfinished training is damaged.
        MissingPackageError: --plot without matplotlib.
    Cost: a training run per setting and fold, one per thread at a time.
    """
    options = parse_with_overrides(_parser(), arguments)
    tell = silent if options.quiet else say
    if options.plot:
        check_plots()
        check_new_file(options.plot, force=options.force)
    axes = parse_grid(options.grid)
    if refused := [axis.name for axis in axes if axis.name in _NOT_SEARCHED]:
        raise ConfigError(f"--grid {refused[0]}: is not searched over")
    sizes = [parse_sizes(options.sizes)] if options.sizes else []
    if not axes and not sizes:
        raise ConfigError("nothing to try: give --grid KEY=VALUE,VALUE,... or --sizes N,N,...")
    if options.random is None:
        settings = grid(axes)
    else:
        settings = drawn_settings(axes, options.random, options.seed)
    settings = [{**setting, **size} for setting in settings for size in grid(sizes)]
    axes += sizes
    names = [field.name for field in fields(SearchOptions)]
    asked = SearchOptions(**{name: getattr(options, name) for name in names})
    search = SettingsSearch(asked, axes, settings, tell)
    with goes_on_by(GIVE_AGAIN):
        search.learn()
    if options.plot:
        plot = tuning_plot(axes, search.points(), search.title)
        write_file(options.plot, plot, force=options.force)
    if options.json:
        print_json(search.as_json())
    elif options.tsv:
        sys.stdout.write("".join("\t".join(row) + "\n" for row in search.as_rows()))
    else:
        print(search.as_text())
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=program("tune"),
        description="Train and score a config with several values of its keys (--grid), or with"
        " several numbers of training sentences (--sizes), or all combinations of both. Settings"
        " are scored on folds of data.train (--folds), or on data.dev. After an interruption, the"
        " same command continues; when all is done, it prints the results again."
        " docs/tuning.md has examples.",
        epilog=exit_codes(0, 2, 3, 4, 5),
    )
    parser.add_argument("config", metavar="CONFIG", help="YAML file or name, as for train")
    add_overrides(parser, "overrides a key of the config, for all settings")
    parser.add_argument(
        "-o", "--output", required=True, metavar="FOLDER", help="for a folder of each setting"
    )
    parser.add_argument(
        "--grid",
        action="append",
        default=[],
        metavar="KEY=VALUE,...",
        help="values of a key, such as learning.epochs=5,10,20; repeated, all combinations; with"
        " --random also a range, such as learning.max_step=0.001..0.1",
    )
    parser.add_argument(
        "--sizes",
        metavar="N,...",
        help="numbers of training sentences, such as 100,300,1000,all, for a learning curve",
    )
    add_number(
        parser,
        "--random",
        1,
        "try N settings drawn from the values and ranges instead of all combinations",
    )
    add_number(
        parser,
        "--folds",
        2,
        "score on N folds of data.train, as crossval does; without it, on data.dev",
    )
    add_number(
        parser,
        "--seed",
        0,
        "seed of --random, and of the sentences that --sizes draws (0)",
        default=0,
    )
    parser.add_argument(
        "--setting",
        type=int,
        metavar="K",
        help="work on this setting only, from 1, so that several processes can share them; the"
        " same command without --setting then has the table of all",
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="write unrounded JSON instead of a table")
    form.add_argument("--tsv", action="store_true", help="write tab-separated values instead")
    parser.add_argument(
        "--plot", metavar="FILE", help="draw the scores over the values, as SVG (extra plots)"
    )
    parser.add_argument("--force", action="store_true", help="replace that file if it exists")
    parser.add_argument("--quiet", action="store_true", help="only errors on stderr")
    return parser
