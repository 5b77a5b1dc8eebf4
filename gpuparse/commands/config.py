"""`config`: check a config file and print it complete, or print the table of all keys."""

import argparse
from collections.abc import Sequence

from gpuparse.commands.console import program
from gpuparse.config.load import load_config
from gpuparse.config.schema import default_values, known_keys, yaml_word


def add_overrides(parser: argparse.ArgumentParser, meaning: str) -> None:
    """Let a command line end in words such as `learning.epochs=5`, kept as `overrides`."""
    parser.add_argument(
        "overrides",
        nargs="*",
        default=[],  # or argparse would call them required
        metavar="KEY=VALUE",
        help=meaning,
    )


def schema_table() -> str:
    """All keys as a Markdown table: key, what it accepts, default, meaning."""
    defaults = default_values()
    rows = ["| key | accepts | default | meaning |", "| --- | --- | --- | --- |"]
    for name, key in known_keys().items():
        default = f"`{yaml_word(defaults[name])}`" if name in defaults else "required"
        if name == "output":
            default = "`runs/NAME`"
        rows.append(f"| `{name}` | {key.expected()} | {default} | {key.meaning} |")
    return "\n".join(rows) + "\n"


def main(arguments: Sequence[str]) -> int:
    """Check a config file and print it with all keys resolved, or print the table of all keys.

    Args: arguments: `[FILE [KEY=VALUE ...]]`.
    Returns: 0.
    Raises: ConfigError: the config is wrong.
    """
    parser = argparse.ArgumentParser(
        prog=program("config"),
        description="Check a config and print it with all keys, or list all keys.",
    )
    parser.add_argument("config", nargs="?", help="YAML file or name; without it, keys are listed")
    add_overrides(parser, "as for train")
    options = parser.parse_args(arguments)
    if options.config is None:
        print(schema_table(), end="")
    else:
        print(load_config(options.config, options.overrides).to_yaml(), end="")
    return 0
