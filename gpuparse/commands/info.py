"""`info`: the card of a model."""

import argparse
from collections.abc import Sequence

from gpuparse.commands.console import exit_codes, print_json
from gpuparse.errors import ModelError
from gpuparse.installed import find_model
from gpuparse.jobs.card import CARD, markdown, read_card
from gpuparse.jobs.progress import program
from gpuparse.model_folder import check_folder


def main(arguments: Sequence[str]) -> int:
    """Print the card of a model.

    Args: arguments: `MODEL [--json]`.
    Returns: 0.
    Raises: ModelError: there is no such model, or it has no card.
    """
    options = _parser().parse_args(arguments)
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
        _, _, text = markdown(card).partition("\n---\n")
        print(text.strip())
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=program("info"),
        description="Print the card of a model: treebank, licence, scores, stages, limits, sizes,"
        " and the config that it was learned with.",
        epilog=exit_codes(0, 2, 4),
    )
    parser.add_argument("model", help="a folder that train wrote, or an installed model's name")
    parser.add_argument("--json", action="store_true", help="write card.json")
    return parser
