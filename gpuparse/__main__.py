"""`gpuparse COMMAND ...`: the table of commands; a command is imported when called."""

import gc
import os
import signal
import sys

if __name__ == "__main__" and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    # Imports take a while; from `run` on, an interruption does more.
    signal.signal(signal.SIGINT, lambda number, frame: os._exit(130))

from collections.abc import Sequence
from importlib import import_module
from typing import NoReturn

from gpuparse.commands.console import run_and_exit
from gpuparse.errors import ConfigError, did_you_mean, near_names
from gpuparse.jobs.progress import program
from gpuparse.jobs.version import described_version

COMMANDS = {
    "train": ("gpuparse.commands.train", "train a parser from a config file"),
    "parse": ("gpuparse.commands.parse", "parse text or CoNLL files with a model"),
    "check": (
        "gpuparse.commands.check",
        "list all faults of a treebank, and the words that a parser doubts",
    ),
    "serve": ("gpuparse.commands.serve", "answer requests over HTTP, with a page and UDPipe's API"),
    "evaluate": ("gpuparse.commands.evaluate", "score a parsed file against the gold file"),
    "compare": (
        "gpuparse.commands.compare",
        "score several parsed files, and test whether they differ",
    ),
    "report": (
        "gpuparse.commands.report",
        "write a page about a run, or two: scores, errors, drawn sentences",
    ),
    "text": ("gpuparse.commands.text", "print the raw text of a CoNLL-U file"),
    "draw": ("gpuparse.commands.draw", "draw trees and graphs as HTML, SVG, TikZ or text"),
    "explain": ("gpuparse.commands.explain", "say why a word has its head"),
    "models": (
        "gpuparse.commands.models",
        "list the installed models, show the card of one, make a package of one",
    ),
    "jackknife": ("gpuparse.commands.jackknife", "make guides (stacking features) for training"),
    "crossval": ("gpuparse.commands.crossval", "train and score a config on folds of its treebank"),
    "tune": ("gpuparse.commands.tune", "score a config with several values of its keys or sizes"),
    "doctor": ("gpuparse.commands.doctor", "test this installation, and print it for bug reports"),
    "config": ("gpuparse.commands.config", "check a config, explain keys, list and copy configs"),
}
# New objects after which Python looks for garbage. Its own number, 700, is reached many times while
# a model is read.
_NEW_OBJECTS = 20_000


def main(arguments: Sequence[str]) -> int:
    """Call the command that the first argument names with the remaining arguments.

    Args: arguments: the command line without the program.
    Returns: The command's exit code.
    Raises: ConfigError: no such command.
    """
    name, rest = (arguments[0], arguments[1:]) if arguments else ("", [])
    if name == "help" and rest:
        name, rest = rest[0], ["--help"]
    if name in ("-h", "--help", "help"):
        print(_usage())
        return 0
    if name in ("-V", "--version", "version"):
        print(f"gpuparse {described_version()}")
        return 0
    if name not in COMMANDS:
        wrong = f"no command {name!r}" if name else "a command is missing"
        hint = did_you_mean(near_names(name, COMMANDS))
        raise ConfigError(f"{wrong}; {hint or 'expected one of ' + ', '.join(COMMANDS)}")
    _import_numpy()
    command = import_module(COMMANDS[name][0])
    if not gc.isenabled():  # `console` has switched it off
        gc.freeze()
        gc.set_threshold(_NEW_OBJECTS)
        gc.enable()
    return command.main(rest)


def _import_numpy() -> None:
    """Import numpy without threads for its matrix products, which no command makes.

    To start them takes 27 % of the CPU time of `config`, 7 % of that of parsing a sentence. They
    are switched off by a variable that numpy's library reads once; torch, which may read it too, is
    not to see it.
    """
    name = "OPENBLAS_NUM_THREADS"
    if "numpy" in sys.modules or name in os.environ:
        return
    os.environ[name] = "1"
    import_module("numpy")
    del os.environ[name]


def console() -> NoReturn:
    """The installed program `gpuparse`."""
    # What is imported is no garbage, neither now nor at the end. With `_keep_memory` and `_end`
    # this saves a tenth of the CPU time of parsing a sentence, and 8 % of a small file's.
    gc.disable()
    run_and_exit(main, sys.argv[1:])


def _pages() -> str:
    """The folder of the pages that messages name, such as docs/commands.md."""
    package = os.path.dirname(os.path.abspath(__file__))
    inside = os.path.join(package, "docs")  # installed or a checkout
    return inside if os.path.isdir(inside) else os.path.join(os.path.dirname(package), "docs")


def _usage() -> str:
    lines = [f"usage: {program('')} COMMAND ...", f"       {program('help')} COMMAND"]
    lines += [f"  {name:<11} {what}" for name, (_, what) in COMMANDS.items()]
    lines.append(f"docs/: {_pages()}")
    return "\n".join(lines)


if __name__ == "__main__":
    console()
