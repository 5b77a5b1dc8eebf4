"""`gpuparse serve`: requests a second and their times, beside the same text through `parse`."""

import argparse
import http.client
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlencode

from benchmarks.registry import Report
from gpuparse.data.conll import treebank_from_bytes
from gpuparse.data.synthetic import generate

GATE = ("tests/server/test_worker.py",)
STAGES = {"tokenizer": "", "tagger": "", "parser": ""}
PARAGRAPH = 20  # sentences


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The model and the number of clients."""
    parser.add_argument("model", help="folder of a model with a tokeniser and a parser")
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--sentences", type=int, default=4000, help="of generated text")


def run(options: argparse.Namespace) -> Report:
    """Both with one thread on one core; clients on the others."""
    treebank = treebank_from_bytes(generate(options.sentences, 7), "generated")
    sentences = [
        line.removeprefix("# text = ")
        for s in range(len(treebank)) for line in treebank.comments(s) if line.startswith("# text")
    ]  # fmt: skip
    paragraphs = [
        " ".join(sentences[i : i + PARAGRAPH]) for i in range(0, len(sentences), PARAGRAPH)
    ]
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for name, texts in (("sentences", sentences), ("paragraphs", paragraphs)):
            n_words, of_command = _of_command(options, texts, Path(folder))
            for path in ("/process", "/api/parse"):
                found = [_of_server(options, texts, path) for _ in range(options.repeats)]
                seconds, times = min(found, key=lambda each: each[0])
                cuts = statistics.quantiles(times, n=100)
                rows.append(
                    [
                        f"{name}, {path}", len(texts) / seconds, 1e3 * cuts[49], 1e3 * cuts[98],
                        n_words / seconds, n_words / of_command, 100 * of_command / seconds,
                    ]
                )  # fmt: skip
    return Report(
        f"{options.clients} clients, one core",
        ["requests", "requests/s", "50 %, ms", "99 %, ms", "words/s", "command", "share, %"],
        rows,
        [
            f"{plural_words(sentences)}; a paragraph has {PARAGRAPH} sentences.",
            "command: words/s of `gpuparse parse --threads 1` on the same text, without its start.",
        ],
    )


def plural_words(sentences: list[str]) -> str:
    """How much text it is."""
    return f"{len(sentences):,} generated sentences"


def _on_first_core() -> None:
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


def _of_command(options: argparse.Namespace, texts: list[str], folder: Path) -> tuple[int, float]:
    """Words of all texts, and the seconds that the command takes for them."""
    source, tiny, target = folder / "in.txt", folder / "tiny.txt", folder / "out.conllu"
    source.write_text("\n\n".join(texts))
    tiny.write_text(texts[0])
    command = [sys.executable, "-m", "gpuparse", "parse", options.model, "--threads", "1"]

    def timed(file: Path) -> float:
        begin = time.perf_counter()
        subprocess.run(
            [*command, str(file), "-o", str(target), "--force", "--quiet"], check=True,
            preexec_fn=_on_first_core,
        )  # fmt: skip
        return time.perf_counter() - begin

    timed(tiny)
    rounds = range(options.repeats)
    seconds = min(timed(source) for _ in rounds) - min(timed(tiny) for _ in rounds)
    timed(source)
    return treebank_from_bytes(target.read_bytes(), "parsed").n_words, seconds


@contextmanager
def _server(options: argparse.Namespace) -> Iterator[int]:
    """The port of a server."""
    command = [sys.executable, "-m", "gpuparse", "serve", options.model, "--port", "0"]
    with tempfile.TemporaryFile("w+") as log:
        server = subprocess.Popen(
            [*command, "--threads", "1"], stderr=log, preexec_fn=_on_first_core
        )
        try:
            while "listening" not in (said := _content(log)):
                time.sleep(0.05)
            yield int(said.split("listening on ")[1].split()[0].rpartition(":")[2])
        finally:
            server.terminate()
            server.wait()


def _content(log: object) -> str:
    log.seek(0)  # type: ignore[attr-defined]
    return str(log.read())  # type: ignore[attr-defined]


def _of_server(
    options: argparse.Namespace, texts: list[str], path: str
) -> tuple[float, list[float]]:
    """Seconds for all texts, and those of each request."""
    make: Callable[[str], tuple[bytes, str]]
    if path == "/process":
        make = _form
    else:
        make = _json
    bodies = [make(text) for text in texts]
    times: list[float] = []
    with _server(options) as port:

        def client(number: int) -> None:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
            for body, kind in bodies[number :: options.clients]:
                begin = time.perf_counter()
                connection.request("POST", path, body, {"content-type": kind})
                answer = connection.getresponse()
                content = answer.read()
                times.append(time.perf_counter() - begin)
                assert answer.status == 200, content[:200]

        with ThreadPoolExecutor(options.clients) as pool:
            list(pool.map(client, range(min(options.clients, len(bodies)))))  # warm
            times.clear()
            begin = time.perf_counter()
            list(pool.map(client, range(options.clients)))
            return time.perf_counter() - begin, times


def _form(text: str) -> tuple[bytes, str]:
    return urlencode(STAGES | {"data": text}).encode(), "application/x-www-form-urlencoded"


def _json(text: str) -> tuple[bytes, str]:
    return json.dumps({"text": text}).encode(), "application/json"
