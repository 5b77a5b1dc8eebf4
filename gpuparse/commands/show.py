"""`show`: the page of `serve` for the own machine, in the browser."""

import argparse
import webbrowser
from collections.abc import Sequence

from gpuparse.commands.console import exit_codes, whole_number
from gpuparse.extras import require
from gpuparse.jobs.progress import program, say
from gpuparse.server.refusals import Limits


def main(arguments: Sequence[str]) -> int:
    """Open the page of a model in a browser, until SIGINT or SIGTERM.

    Args: arguments: `MODEL ... [--port N] [--threads N]`.
    Returns: 0, after a signal.
    Raises: as `serve`.
    """
    options = _parser().parse_args(arguments)
    require("gpuparse show", "starlette", "uvicorn", "prometheus_client")
    from gpuparse.server.app import Service
    from gpuparse.server.models import load_models
    from gpuparse.server.run import address_of, listen, serve

    with listen("127.0.0.1", options.port) as listening:
        models = load_models(options.models, threads=options.threads, device="cpu")

        def tell(text: str) -> None:
            say(f"{text} until Ctrl-C")
            if not webbrowser.open(address_of(listening)):
                say("no browser was found: open this address in one")

        serve(Service(models, Limits(), None), listening, tell)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=program("show"),
        description="Open a page in a browser: text in, trees out, with probabilities, the k best"
        " trees, why a word has its head, and heads that can be fixed. It is the page of serve, for"
        " this machine alone.",
        epilog=exit_codes(0, 2, 4, 5, 6),
    )
    parser.add_argument("models", nargs="+", metavar="[NAME=]MODEL", help="models, as for serve")
    parser.add_argument(
        "--port", type=whole_number(0, 65535), default=0, metavar="N", help="any free one if 0 (0)"
    )
    parser.add_argument(
        "--threads", type=whole_number(0, 10**6), default=0, metavar="N", help="0: all processors"
    )
    return parser
