"""`configs`: list the configs and template sets that come with gpuparse, or copy some."""

import argparse
import os
import re
from collections.abc import Sequence
from pathlib import Path

from gpuparse.commands.console import exit_codes
from gpuparse.config.load import BASE
from gpuparse.config.shipped import nearest, shipped_configs
from gpuparse.errors import ConfigError
from gpuparse.features.templates import SETS, shipped_sets
from gpuparse.files import replace_file
from gpuparse.jobs.progress import program, say
from gpuparse.plain_yaml import read_yaml

_SETS = "sets/"  # before the name of a template set, which may also be that of a config
_FIRST_SENTENCE = re.compile(r"(.*?)\.(?: [A-Z]|$)")


def main(arguments: Sequence[str]) -> int:
    """List the configs and template sets, or copy some.

    Args: arguments: `[copy NAME ... --to FOLDER [--force]]`.
    Returns: 0.
    Raises: ConfigError: a name is unknown or a file is in the way; nothing is copied then.
    """
    options = _parser().parse_intermixed_args(arguments)
    verb, *names = options.words or ["list"]
    if verb == "list" and not names and options.to is None:
        print(_list())
    elif verb == "copy" and names and options.to is not None:
        _copy(names, Path(options.to), force=options.force)
    else:
        raise ConfigError(f"expected copy NAME ... --to FOLDER; {program('configs')} lists names")
    return 0


def _parser() -> argparse.ArgumentParser:
    called = program("configs")
    parser = argparse.ArgumentParser(
        prog=called,
        usage=f"{called} [-h]\n       {called} copy NAME [NAME ...] --to FOLDER [--force]",
        description="List the configs and template sets that come with gpuparse; or copy some, to"
        " change them, with the configs that they are based on. Commands take a config by its name"
        " in this list if there is no file of that path.",
        epilog=exit_codes(0, 2),
    )
    parser.add_argument("words", nargs="*", metavar="copy NAME", help="what to copy")
    parser.add_argument("--to", metavar="FOLDER", help="where to copy to; made if missing")
    parser.add_argument(
        "--force", action="store_true", help="replace existing files of these names"
    )
    return parser


def _template_sets() -> dict[str, Path]:
    return {f"{_SETS}{name}": SETS / f"{name}.yaml" for name in shipped_sets()}


def _list() -> str:
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
        with replace_file(target, force=force) as file:
            file.write(known[name].read_bytes())
        say(f"{target}: written")


def _bases(file: Path, known: dict[str, Path]) -> list[str]:
    """The names of the configs that a config is based on."""
    content = read_yaml(file).value
    if BASE not in content:
        return []
    base = (file.parent / content[BASE]).resolve()
    [name] = [name for name, other in known.items() if other.resolve() == base]
    return [name, *_bases(base, known)]
