"""`gpuparse serve`: requests per second, their times, and processor time beside that of `parse`."""

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
from operator import itemgetter
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from benchmarks.registry import Report
from benchmarks.start import run_timed
from gpuparse.data.conll import treebank_from_bytes
from tests.synthetic import generate

GATE = ("tests/server/test_worker.py",)
STAGES = {"tokenizer": "", "tagger": "", "parser": ""}
PARAGRAPH = 20  # sentences
COPIES = 8  # of the text for the command, so that its start matters little


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
            for path in ("/process", "/api/parse"):
                # In turns, for the speed of a machine changes.
                both = [
                    (_of_command(options, texts, Path(folder)), _of_server(options, texts, path))
                    for _ in range(options.repeats)
                ]
                n_words = both[0][0][0]
                of_command = min(each[1] for each, _ in both)
                seconds, of_server, times = min((each for _, each in both), key=itemgetter(1))
                cuts = statistics.quantiles(times, n=100)
                rows.append(
                    [
                        f"{name}, {path}", len(texts) / seconds, 1e3 * cuts[49], 1e3 * cuts[98],
                        n_words / of_server, n_words / of_command, 100 * of_command / of_server,
                    ]
                )  # fmt: skip
    return Report(
        f"{options.clients} clients, one core",
        ["requests", "requests/s", "50 %, ms", "99 %, ms", "words/s", "command", "share, %"],
        rows,
        [
            f"{plural_words(sentences)}; a paragraph has {PARAGRAPH} sentences.",
            "words/s: of processor time; command: of `gpuparse parse --threads 1` on the same text,"
            " without its start.",
        ],
    )


def plural_words(sentences: list[str]) -> str:
    """The amount of text, in words."""
    return f"{len(sentences):,} generated sentences"


def _on_first_core() -> None:
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


def _of_command(options: argparse.Namespace, texts: list[str], folder: Path) -> tuple[int, float]:
    """Words of all texts, and the processor seconds that the command takes for them."""
    source, tiny, target = folder / "in.txt", folder / "tiny.txt", folder / "out.conllu"
    source.write_text("\n\n".join(texts * COPIES))
    tiny.write_text(texts[0])
    command = [sys.executable, "-m", "gpuparse", "parse", options.model, "--threads", "1"]

    def timed(file: Path) -> float:
        words = [*command, str(file), "-o", str(target), "--force", "--quiet"]
        return run_timed(words, preexec_fn=_on_first_core)[0]

    start = min(timed(tiny) for _ in range(2))
    seconds = timed(source) - start
    n_words = treebank_from_bytes(target.read_bytes(), "parsed").n_words
    return n_words // COPIES, seconds / COPIES


@contextmanager
def _server(options: argparse.Namespace) -> Iterator[tuple[int, Any]]:
    """The port of a server, and its process."""
    import psutil

    command = [sys.executable, "-m", "gpuparse", "serve", options.model, "--port", "0"]
    with tempfile.TemporaryFile("w+") as log:
        server = subprocess.Popen(
            [*command, "--threads", "1"], stderr=log, preexec_fn=_on_first_core
        )
        try:
            while "listening" not in (said := _content(log)):
                time.sleep(0.05)
            port = int(said.split("listening on ")[1].split()[0].rpartition(":")[2])
            yield port, psutil.Process(server.pid)
        finally:
            server.terminate()
            server.wait()


def _content(log: object) -> str:
    log.seek(0)  # type: ignore[attr-defined]
    return str(log.read())  # type: ignore[attr-defined]


def _of_server(
    options: argparse.Namespace, texts: list[str], path: str
) -> tuple[float, float, list[float]]:
    """Seconds for all texts, those of the server's processor, and those of each request."""
    make: Callable[[str], tuple[bytes, str]]
    if path == "/process":
        make = _form
    else:
        make = _json
    bodies = [make(text) for text in texts]
    times: list[float] = []
    with _server(options) as (port, process):

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
            begin, before = time.perf_counter(), process.cpu_times()
            list(pool.map(client, range(options.clients)))
            seconds, after = time.perf_counter() - begin, process.cpu_times()
            return seconds, after.user + after.system - before.user - before.system, times


def _form(text: str) -> tuple[bytes, str]:
    return urlencode(STAGES | {"data": text}).encode(), "application/x-www-form-urlencoded"


def _json(text: str) -> tuple[bytes, str]:
    return json.dumps({"text": text}).encode(), "application/json"
