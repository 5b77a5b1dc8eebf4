"""`package`: a wheel of a model, which pip installs and every door finds by its name."""

import argparse
import os
from collections.abc import Sequence
from pathlib import Path

from gpuparse.commands.console import exit_codes
from gpuparse.errors import ConfigError
from gpuparse.installed import find_model
from gpuparse.jobs.package import Package, packaged_files, write_folder, write_wheel
from gpuparse.jobs.progress import program


def main(arguments: Sequence[str]) -> int:
    """Make a package of a model.

    Args: arguments: `MODEL NAME --version V --license L [--output FOLDER] [--unpacked] [--force]`.
    Returns: 0.
    Raises: ModelError: the model cannot be used. ConfigError: a name, version or licence that a
        package cannot have; an output that exists.
    """
    options = _parser().parse_args(arguments)
    package = Package(options.name, options.version, options.license)
    package.check()
    output = Path(options.output)
    if not output.is_dir():
        raise ConfigError(f"{output}: no such folder; make it first, or give another --output")
    files = packaged_files(find_model(options.model), package)
    if options.unpacked:
        made = output / options.name
        write_folder(files, made, force=options.force)
    else:
        made = write_wheel(files, package, output, force=options.force)
    print(os.fspath(made))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=program("package"),
        description="Write a wheel of a model, and print its path. Once pip has installed it, all"
        " commands, Python and the server take the model by its name. The wheel has the model's"
        " files in a compact form, its card (card.json, README.md) and its licence. The same model"
        " gives the same bytes.",
        epilog=exit_codes(0, 2, 4, 5),
    )
    parser.add_argument("model", help="a folder that train wrote")
    parser.add_argument("name", metavar="NAME", help="the model's name: a to z, numbers, - and _")
    parser.add_argument("--version", required=True, metavar="V", help="such as 1.0")
    parser.add_argument(
        "--license", required=True, metavar="L", help='of the model, such as "CC BY-SA 4.0"'
    )
    parser.add_argument(
        "--output", default=".", metavar="FOLDER", help="where to write; this folder by default"
    )
    parser.add_argument(
        "--unpacked", action="store_true", help="write a folder named NAME and not a wheel"
    )
    parser.add_argument("--force", action="store_true", help="replace existing files")
    return parser
