"""`models`: list the installed models, show the card of a model, make a package of one."""

import argparse
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gpuparse.commands.console import exit_codes, print_json
from gpuparse.data.draw import aligned
from gpuparse.errors import ConfigError, ModelError
from gpuparse.jobs.card import CARD, markdown, read_card
from gpuparse.jobs.package import Package, packaged_files, write_folder, write_wheel
from gpuparse.jobs.progress import program, say
from gpuparse.model.folder import check_folder
from gpuparse.model.installed import find_model, installed_models

_HEADS = ("name", "version", "language", "stages", "MB", "LAS", "LAS from text", "licence")


def main(arguments: Sequence[str]) -> int:
    """List the installed models, show the card of one, or make a package of one.

    Raises:
        ModelError: the model cannot be used or has no card, or the package of one is broken.
        ConfigError: a name, version or licence that a package cannot have; an output that exists.
    """
    options = _parser().parse_args(arguments)
    if options.what == "show":
        _show(options)
    elif options.what == "package":
        _package(options)
    else:
        _list(options)
    return 0


def _list(options: argparse.Namespace) -> None:
    cards = {}
    for name, folder in installed_models().items():
        card = _card(name, folder)
        if card is not None:
            cards[name] = card
    if options.json:
        print_json(cards)
        return
    rows = [_HEADS, *(_row(name, card) for name, card in cards.items())]
    print("\n".join(aligned(rows)))


def _show(options: argparse.Namespace) -> None:
    folder = find_model(options.model)
    check_folder(folder)
    card = read_card(folder)
    if card is None:
        raise ModelError(
            f"{options.model}: has no {CARD}: it is of an older version; training writes one"
        )
    if options.json:
        print_json(card)
    else:
        print(markdown(card).rstrip("\n"))


def _package(options: argparse.Namespace) -> None:
    package = Package(options.name, options.version, options.license)
    package.check()
    output = Path(options.output)
    if not output.is_dir():
        raise ConfigError(f"{output}: no such folder; make it first, or give another --output")
    files = packaged_files(find_model(options.model), package, in_bytes=options.bits == 8)
    if options.unpacked:
        made = output / options.name
        write_folder(files, made, force=options.force)
    else:
        made = write_wheel(files, package, output, force=options.force)
    print(os.fspath(made))


def _card(name: str, folder: Path) -> dict[str, Any] | None:
    """The card of an installed model; a broken one is reported and left out."""
    try:
        card = read_card(folder)
    except ModelError as error:
        say(f"{name}: {error}")
        return None
    if card is None:
        say(f"{name}: {folder} has no card; install the model again")
    return card


def _row(name: str, card: dict[str, Any]) -> tuple[str, ...]:
    package = card["package"] or {"version": "", "licence": card["licence"] or ""}
    size = sum(card["files"].values()) / 1e6
    return (
        name, package["version"], card["language"] or "", ", ".join(card["stages"]), f"{size:.1f}",
        _score(card, "words"), _score(card, "text"), package["licence"],
    )  # fmt: skip


def _score(card: dict[str, Any], source: str) -> str:
    """LAS of the test part, or else of the development part."""
    found = {
        each["part"]: each["measures"]["LAS"]
        for each in card["scores"]
        if each["from"] == source and "LAS" in each["measures"]
    }
    part = "test" if "test" in found else "dev"
    return f"{found[part]:.2f} ({part})" if part in found else ""


def _parser() -> argparse.ArgumentParser:
    called = program("models")
    parser = argparse.ArgumentParser(
        prog=called,
        description="List the installed models, which can be used by name: models that come"
        " with gpuparse, and models of packages.",
        epilog=exit_codes(0, 2, 4, 5),
    )
    parser.add_argument("--json", action="store_true", help="write the cards as JSON")
    kinds = parser.add_subparsers(dest="what", title="of one model", prog=called)
    text = "print the card of a model: treebank, licence, scores, stages, size, command"
    show = kinds.add_parser("show", help=text, description=f"{text[0].upper()}{text[1:]}.")
    show.add_argument("model", help="a folder that train wrote, or an installed model's name")
    show.add_argument(
        "--json", action="store_true", default=argparse.SUPPRESS, help="write card.json"
    )
    _add_package(
        kinds.add_parser(
            "package",
            help="write a wheel of a model, for pip",
            description="Write a wheel of a model, and print its path. Once pip has installed it,"
            " all commands, Python and the server take the model by its name. The wheel has the"
            " model's files in a compact form, its card (card.json, README.md) and its licence. The"
            " same model gives the same bytes.",
        )
    )
    return parser


def _add_package(parser: argparse.ArgumentParser) -> None:
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
        "--bits", type=int, choices=[8], help="round a pretrained encoder's weights of 16 bits to 8"
    )
    parser.add_argument(
        "--unpacked", action="store_true", help="write a folder named NAME and not a wheel"
    )
    parser.add_argument("--force", action="store_true", help="replace existing files")
