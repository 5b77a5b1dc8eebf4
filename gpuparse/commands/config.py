"""`config`: check and print a config, list keys or configs, explain a key, copy configs."""

import argparse
import os
import re
import textwrap
from collections.abc import Sequence
from pathlib import Path

from gpuparse.commands.console import exit_codes
from gpuparse.config.load import BASE, nearest_key, read_settings
from gpuparse.config.schema import SECTIONS, Key, default_values, known_keys, yaml_word
from gpuparse.config.shipped import nearest, shipped_configs
from gpuparse.data.plain_yaml import read_yaml
from gpuparse.errors import ConfigError, did_you_mean, near_names
from gpuparse.features.templates import SETS, shipped_sets
from gpuparse.files import write_file
from gpuparse.jobs.progress import program, say

_WIDTH = 100  # characters of a printed line
_SETS = "sets/"  # before the name of a template set, which may also be that of a config
_FIRST_SENTENCE = re.compile(r"(.*?)\.(?: [A-Z]|$)")


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
    """Check a config file and print it with all keys resolved, list or explain keys, copy configs.

    Raises: ConfigError: the config is wrong, or there is none of that name; a file is in the way of
        a copy, and nothing is copied.
    """
    if arguments[:1] == ["copy"]:
        options = _copy_parser().parse_args(arguments[1:])
        _copy(options.names, Path(options.to), force=options.force)
        return 0
    parser = argparse.ArgumentParser(
        prog=program("config"),
        usage="\n       ".join(
            f"{program('config')} {words}"
            for words in (
                "[-h] [CONFIG [KEY=VALUE ...]]",
                "KEY",
                "list",
                "copy NAME ... --to FOLDER",
            )
        ),
        description="Check a config and print it with all keys; without it, list all keys. With the"
        " name of a key, such as learning.epochs, or of a section, such as learning: explain it."
        " With list: the names of the configs and template sets of gpuparse, which copy copies.",
    )
    parser.add_argument("config", nargs="?", metavar="CONFIG", help="YAML file or name; or a key")
    add_overrides(parser, "as for train")
    options = parse_with_overrides(parser, arguments)
    name, keys = options.config, known_keys()
    if name == "list":
        print(_shipped())
    elif name is None:
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
    """Keys with their defaults and the beginnings of their meanings, one per line."""
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
        lists = "`gpuparse config` lists all keys, `gpuparse config list` all configs"
        raise ConfigError(f"{name}: no file, config or key of this name; {hint or lists}")


def _print_config(name: str, overrides: Sequence[str]) -> None:
    """Print a config; one that comes with gpuparse may lack what must be given, and says so."""
    settings = read_settings(name, overrides)
    print(settings.config(may_lack=settings.is_shipped).to_yaml(), end="")
    for missing in settings.missing():
        say(missing)


def _copy_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=program("config copy"),
        description="Copy configs and template sets that come with gpuparse, to change them, with"
        " the configs that they are based on. `gpuparse config list` lists their names.",
        epilog=exit_codes(0, 2),
    )
    parser.add_argument("names", nargs="+", metavar="NAME", help="what to copy")
    parser.add_argument(
        "--to", required=True, metavar="FOLDER", help="where to copy to; made if missing"
    )
    parser.add_argument(
        "--force", action="store_true", help="replace existing files of these names"
    )
    return parser


def _template_sets() -> dict[str, Path]:
    return {f"{_SETS}{name}": SETS / f"{name}.yaml" for name in shipped_sets()}


def _shipped() -> str:
    """The configs and template sets, a line each."""
    configs = shipped_configs()
    general = {name: configs[name] for name in configs if "/" not in name}
    others = {name: configs[name] for name in configs if name not in general}
    sections = [
        _section("Configs", general),
        _section("Configs for treebanks", others),
        _section(f"Template sets: values of `features` without `{_SETS}`", _template_sets()),
    ]
    return "\n\n".join(sections)


def _section(title: str, files: dict[str, Path]) -> str:
    width = max(map(len, files))
    lines = [f"  {name:<{width}}  {_meaning(file)}" for name, file in files.items()]
    return "\n".join([f"{title}:", *lines])


def _meaning(file: Path) -> str:
    """The first sentence of a file's first comment."""
    paragraph = file.read_text(encoding="utf-8").partition("\n#\n")[0].splitlines()
    text = " ".join(line.lstrip("# ") for line in paragraph if line.startswith("#"))
    found = _FIRST_SENTENCE.match(text)
    return found[1] if found else text


def _copy(names: Sequence[str], folder: Path, *, force: bool) -> None:
    """Copy files, and bases that are not there yet, to places in a folder as they have here."""
    known = shipped_configs() | _template_sets()
    asked = [name.removesuffix(".yaml") for name in names]
    unknown = [f"{name}: {nearest(name, list(known))}" for name in asked if name not in known]
    if unknown:
        raise ConfigError("\n".join(unknown))
    bases = [base for name in asked for base in _bases(known[name], known) if base not in asked]
    targets = {name: folder / f"{name}.yaml" for name in dict.fromkeys([*asked, *bases])}
    in_the_way = [str(targets[name]) for name in asked if os.path.lexists(targets[name])]
    if in_the_way and not force:
        raise ConfigError("\n".join(f"{e}: exists; give --force to replace it" for e in in_the_way))
    for name, target in targets.items():
        if name in bases and os.path.lexists(target):
            say(f"{target}: left as it is; the copied configs extend it")
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        write_file(target, known[name].read_bytes(), force=force)
        say(f"{target}: written")


def _bases(file: Path, known: dict[str, Path]) -> list[str]:
    """The names of the configs that a config is based on."""
    content = read_yaml(file).value
    if BASE not in content:
        return []
    base = (file.parent / content[BASE]).resolve()
    [name] = [name for name, other in known.items() if other.resolve() == base]
    return [name, *_bases(base, known)]
