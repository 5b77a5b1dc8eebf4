"""`models`: the installed models by name."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gpuparse.commands.console import exit_codes, print_json
from gpuparse.errors import ModelError
from gpuparse.installed import installed_models
from gpuparse.jobs.card import read_card
from gpuparse.jobs.progress import program, say

_HEADS = ("name", "version", "language", "stages", "MB", "LAS", "LAS from text", "licence")


def main(arguments: Sequence[str]) -> int:
    """List the installed models.

    Args: arguments: `[--json]`.
    Returns: 0.
    Raises: ModelError: the package of a model is broken.
    """
    options = _parser().parse_args(arguments)
    cards = {}
    for name, folder in installed_models().items():
        card = _card(name, folder)
        if card is not None:
            cards[name] = card
    if options.json:
        print_json(cards)
        return 0
    rows = [_HEADS, *(_row(name, card) for name, card in cards.items())]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        print("  ".join(cells).rstrip())
    return 0


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
    parser = argparse.ArgumentParser(
        prog=program("models"),
        description="List the models that are installed and can be used by name: those that come"
        " with gpuparse, and those of packages. `info` shows more of one.",
        epilog=exit_codes(0, 2, 4),
    )
    parser.add_argument("--json", action="store_true", help="write the cards as JSON")
    return parser
