"""`config`: check a config file and print it complete, list all keys, or explain one."""

import argparse
import os
import textwrap
from collections.abc import Sequence

from gpuparse.config.load import nearest_key, read_settings
from gpuparse.config.schema import SECTIONS, Key, default_values, known_keys, yaml_word
from gpuparse.config.shipped import shipped_configs
from gpuparse.errors import ConfigError, did_you_mean, near_names
from gpuparse.jobs.progress import program, say

_WIDTH = 100  # characters of a printed line


def add_folds(parser: argparse.ArgumentParser) -> None:
    """Let a command line name the number of folds."""
    parser.add_argument(
        "--folds",
        type=int,
        default=10,
        metavar="N",
        help="number of folds, each of consecutive sentences (10)",
    )


def add_overrides(parser: argparse.ArgumentParser, meaning: str) -> None:
    """Let a command line end in words such as `learning.epochs=5`, kept as `overrides`."""
    parser.add_argument(
        "overrides",
        nargs="*",
        default=[],  # or argparse would call them required
        metavar="KEY=VALUE",
        help=meaning,
    )


def parse_with_overrides(
    parser: argparse.ArgumentParser, arguments: Sequence[str]
) -> argparse.Namespace:
    """The options of a command line that may have overrides.

    Raises: ConfigError: a key is written as an option, as other programs have it.
    """
    options, unknown = parser.parse_known_intermixed_args(arguments)
    for word in unknown:
        name = word.removeprefix("--").partition("=")[0]
        key = known_keys().get(name)
        if key is not None:
            value = "FILE" if key.kind in ("path", "paths") else "VALUE"
            raise ConfigError(f"{word}: keys are given without dashes: {name}={value}")
    if unknown:
        parser.error(f"unrecognized arguments: {' '.join(unknown)}")
    return options


def main(arguments: Sequence[str]) -> int:
    """Check a config file and print it with all keys resolved, list all keys, or explain one.

    Args: arguments: `[CONFIG [KEY=VALUE ...]]`, or the name of a key or section.
    Returns: 0.
    Raises: ConfigError: the config is wrong, or there is none of that name.
    """
    parser = argparse.ArgumentParser(
        prog=program("config"),
        usage=f"{program('config')} [-h] [CONFIG [KEY=VALUE ...]]\n       {program('config')} KEY",
        description="Check a config and print it with all keys; without it, list all keys. With the"
        " name of a key, such as learning.epochs, or of a section, such as learning: explain it.",
    )
    parser.add_argument("config", nargs="?", metavar="CONFIG", help="YAML file or name; or a key")
    add_overrides(parser, "as for train")
    options = parse_with_overrides(parser, arguments)
    name, keys = options.config, known_keys()
    if name is None:
        print(_listed(keys))
        print("\n`gpuparse config KEY` explains a key; docs/configuration.md has them all.")
    elif name in SECTIONS:
        print(_listed({key: keys[key] for key in keys if key.startswith(f"{name}.")}))
    elif name in keys:
        print(_explained(name, keys[name]))
    else:
        _check_name(name)
        _print_config(name, options.overrides)
    return 0


def _listed(keys: dict[str, Key]) -> str:
    """Keys with their defaults and the beginnings of their meanings, one a line."""
    defaults = {name: _default(name) for name in keys}
    width, of_default = (max(map(len, words)) for words in (defaults, defaults.values()))
    lines = [f"{'key':<{width}}  {'default':<{of_default}}  meaning"]
    for name, key in keys.items():
        begin = f"{name:<{width}}  {defaults[name]:<{of_default}}  "
        room = _WIDTH - len(begin)
        meaning = textwrap.shorten(key.meaning, room, placeholder=" …", break_on_hyphens=False)
        lines.append(begin + meaning)
    return "\n".join(lines)


def _explained(name: str, key: Key) -> str:
    wrapper = textwrap.TextWrapper(
        _WIDTH, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False
    )
    lines = [f"accepts: {key.expected()}", f"default: {_default(name)}", key.meaning]
    return "\n".join([name, *map(wrapper.fill, lines)])


def _default(name: str) -> str:
    if name == "output":
        return "runs/NAME"
    values = default_values()
    return yaml_word(values[name]) if name in values else "required"


def _check_name(name: str) -> None:
    """ConfigError unless there is a config or a file of a name."""
    shipped = shipped_configs()
    if name.removesuffix(".yaml") not in shipped and not os.path.lexists(name):
        hint = did_you_mean([*near_names(name, shipped), *nearest_key(name)])
        lists = "`gpuparse config` lists all keys, `gpuparse configs` all configs"
        raise ConfigError(f"{name}: no file, config or key of this name; {hint or lists}")


def _print_config(name: str, overrides: Sequence[str]) -> None:
    """Print a config; one that comes with gpuparse may lack what must be given, and says so."""
    settings = read_settings(name, overrides)
    print(settings.config(may_lack=settings.is_shipped).to_yaml(), end="")
    for missing in settings.missing():
        say(missing)
