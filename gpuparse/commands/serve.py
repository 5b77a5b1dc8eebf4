"""`serve`: answer requests over HTTP, with the interface of UDPipe's service and one in JSON."""

import argparse
import os
import webbrowser
from collections.abc import Sequence

from gpuparse.commands.console import LARGEST, add_number, exit_codes
from gpuparse.errors import ConfigError, require
from gpuparse.files import STANDARD, input_file
from gpuparse.jobs.progress import program, say
from gpuparse.server.refusals import Limits

MAX_TOKEN = 4096  # bytes of its file
_LIMITS = Limits()  # unless asked for others


def main(arguments: Sequence[str]) -> int:
    """Serve models until SIGINT or SIGTERM.

    Returns: 0, after a signal; what was under way is finished.
    Raises:
        ConfigError: a name that cannot be one; the port is in use; the token is too short.
        MissingPackageError: the extra `serve` is not installed.
        ModelError: a model cannot be used.
    """
    options = _parser().parse_args(arguments)
    require("gpuparse serve", "starlette", "uvicorn", "prometheus_client")
    from gpuparse.server import app, models, run

    token = _token(options.token_file) if options.token_file else None
    listening = run.listen(options.host, options.port)
    with listening:
        served = models.load_models(options.models, threads=options.threads, device=options.device)
        limits = Limits(
            options.max_bytes, options.max_words, options.timeout, options.queue,
            options.max_sentence,
        )  # fmt: skip
        hosts = tuple(name.lower() for name in options.host_name)

        def tell(text: str) -> None:
            say(text)
            if options.open and not webbrowser.open(run.address_of(listening)):
                say("no browser was found: open this address in one")

        service = app.Service(served, limits, token, hosts, tuple(options.allow_origin))
        run.serve(service, listening, tell)
    return 0


def _token(path: str) -> bytes:
    """The token in a file, without white space around it."""
    if path != STANDARD and os.path.exists(path) and not os.path.isfile(path):
        raise ConfigError(f"--token-file {path}: is no file; - is standard input")
    with input_file(path) as file:
        text = file.read(MAX_TOKEN + 1)
    token = text.strip()
    if not (len(text) <= MAX_TOKEN and len(token) >= 16 and all(0x21 <= b <= 0x7E for b in token)):
        raise ConfigError(
            f"--token-file {path}: expected one token of at least 16 characters of ASCII,"
            f" without spaces, in a file of at most {MAX_TOKEN:,} bytes"
        )
    return token


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=program("serve"),
        description="Answer requests over HTTP: POST /api/parse takes and gives JSON"
        " (/api/openapi.json describes it), POST /process has the interface of UDPipe 2's service,"
        " and / is a page. Requests that wait are parsed together; the answers equal the output"
        " of parse. SIGTERM and SIGINT stop it when running requests are answered. docs/serve.md"
        " has examples.",
        epilog=exit_codes(0, 2, 3, 4, 5, 6),
    )
    parser.add_argument(
        "models",
        nargs="+",
        metavar="[NAME=]MODEL",
        help="a folder that train wrote, or an installed model; NAME is its public name, without"
        " it the last part of the path; the first model is the default",
    )
    parser.add_argument(
        "--open",
        action="store_true",
        help="open the page in a browser: trees of your text with probabilities, the k best trees,"
        " why a word has its head, and heads that can be fixed",
    )
    parser.add_argument(
        "--host", default="127.0.0.1", help="the address to listen on (127.0.0.1: this machine)"
    )
    add_number(parser, "--port", 0, "0: any free (8080)", most=65535, default=8080)
    add_number(
        parser, "--threads", 0, "of parsing; 0, the default: all processors", most=10**6, default=0
    )
    parser.add_argument(
        "--device",
        choices=("auto", "cpu", "cuda"),
        default="cpu",
        help="cpu, the default, has probabilities and k best trees",
    )
    parser.add_argument(
        "--token-file",
        metavar="FILE",
        help="requests need the token in this file: Authorization: Bearer TOKEN; the page asks"
        " for it",
    )
    parser.add_argument(
        "--host-name",
        action="append",
        default=[],
        metavar="NAME",
        help="a name of this server, as that of a proxy, by which requests may call it; may be"
        " repeated (on an address of this machine its own names, on others any)",
    )
    parser.add_argument(
        "--allow-origin",
        action="append",
        default=[],
        metavar="ORIGIN",
        help="as https://example.org: pages that may send requests; may be repeated (default:"
        " pages of the server's own host)",
    )
    for name, value, most, metavar, meaning in (
        ("--max-bytes", _LIMITS.n_bytes, 1 << 30, "N", "of the body of a request"),
        ("--max-words", _LIMITS.n_words, LARGEST, "N", "of a request"),
        ("--max-sentence", _LIMITS.sentence, LARGEST, "N", "words of a sentence that is parsed"),
        ("--timeout", _LIMITS.seconds, 86_400, "SECONDS", "for a body to come, and for its answer"),
        ("--queue", _LIMITS.queue, 10**6, "N", "requests that may wait"),
    ):
        said = f"{meaning} ({value})"
        add_number(parser, name, 1, said, most=most, default=value, metavar=metavar)
    return parser
