"""A server under damaged requests: a documented answer to each, and right ones beside them."""

from __future__ import annotations

import http.client
import json
import os
import random
import re
import signal
import socket
import time
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

from gpuparse.commands import parse
from gpuparse.data.conll import treebank_from_bytes
from gpuparse.server import run
from gpuparse.server.app import Limits, Service
from gpuparse.server.models import load_models
from gpuparse.server.worker import Worker
from tests.campaign.bench import PIPELINE, Bench
from tests.campaign.files import PIECES, mutant
from tests.campaign.packages import changed_json, edited
from tests.campaign.running import Child, Failure, call, check_end
from tests.server.test_attacks import VALUES
from tests.synthetic import generate

N_REQUESTS = 200  # of a trial
SECONDS = 30  # to wait for an answer
BESIDE = 3.0  # seconds of a right request beside others, on a machine with other work
LIMITS = Limits(n_bytes=1 << 18, n_words=20_000, seconds=20, queue=64, idle_seconds=0.3)
MEMORY = 96 << 20  # bytes that a server may have in addition to those after its first trial
API = {200, 400, 404, 405, 408, 413, 415, 421, 422, 429, 431, 503}
OF_FORMS = {200, 400, 408, 413, 429, 503}
BREAK = "break-the-worker"  # a word that ends the work of the thread that parses
JSON = "application/json"
BYTES = [
    *PIECES,
    b"%ff",
    b'"',
    b"}",
    b"{",
    b"[" * 9999,
    b"\\ud800",
    b"=",
    b"&",
    b"\xe2\x80",
    b"\r\n--a",
]
_LOG = re.compile(r"\S+Z \S+ \S+ \d{3} in=\d+ out=\d+ words=\d+ ms=[\d.]+")
_HEADERS = [
    b"\r\n", b"\n", b"\0", b":", b" ", b"Content-Length: 5\r\n", b"Content-Length: -1\r\n",
    b"Transfer-Encoding: chunked\r\n", b"Expect: 100-continue\r\n", b"HTTP/9.9", b"\xff" * 9,
    b"Upgrade: websocket\r\nConnection: upgrade\r\n", b"x" * 70_000, b"GET ", b"%00", b"//",
]  # fmt: skip


class Request(NamedTuple):
    """A request, and what is done with its answer.

    pieces: sent one after another. ends: "answer" waits for it, "half" sends no more, "close" and
    "reset" leave. check: of status, content type and body. may_lack: whether none may come.
    """

    kind: str
    pieces: list[bytes]
    check: Callable[[int, str, bytes], str]
    ends: str = "answer"
    may_lack: bool = False


class Server:
    """A server in a process of its own, on a free port of this machine or a given one."""

    def __init__(self, bench: Bench, folder: Path, name: str, port: int = 0) -> None:
        model, self._log, self._read = bench.model(PIPELINE), folder / f"{name}.err", 0
        self.most_memory = 0

        def main(words: Sequence[str]) -> int:
            signal.alarm(0)  # the campaign ends it
            run.HEADER_SECONDS, Worker._parse = 0.5, _breaking(Worker._parse)
            models = load_models([f"model={model}"], threads=1, device="cpu")
            run.serve(Service(models, LIMITS), run.listen("127.0.0.1", port), self._tell)
            return 0

        self.child = Child(main, [], folder, name=name)
        end = time.monotonic() + SECONDS
        while not (found := re.search(r"listening on \S+:(\d+)", self._said())):
            if time.monotonic() > end:
                raise Failure(f"the server does not start: {self._said()}")
            time.sleep(0.01)
        self.port = int(found[1])
        self._read = len(self._said())

    def _tell(self, text: str) -> None:
        os.write(2, f"{text}\n".encode())

    def _said(self) -> str:
        return self._log.read_text(errors="replace") if self._log.exists() else ""

    def memory(self) -> int:
        """Resident bytes."""
        pages = int(Path(f"/proc/{self.child.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def odd_lines(self) -> list[str]:
        """The lines that it has printed since the last call, without the line of each request."""
        said = self._said()
        new, self._read = said[self._read :], len(said)
        return [line for line in new.splitlines() if not _LOG.fullmatch(line)]


def _breaking(parse_round: Callable[..., None]) -> Callable[..., None]:
    """The method of the thread that parses, which a word can break."""
    errors = [MemoryError, SystemExit, KeyboardInterrupt, RecursionError, AssertionError]

    def work(self: Worker, taken: Any, *given: Any) -> None:
        for _, part in taken:
            if BREAK.encode() in (text := part.words.data.tobytes()):
                raise errors[text.count(BREAK.encode()) % len(errors)]
        parse_round(self, taken, *given)

    return work


def packed(path: str, kind: str, body: bytes, method: str = "POST") -> bytes:
    """A request as it is sent."""
    head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
    return f"{head}Content-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


@cache
def right_requests(bench: Bench) -> list[Request]:
    """Requests, each with the bytes that `parse` writes for its input."""
    conllu, folder, found = generate(12, 5), bench.folder, []
    lines = [x.removeprefix("# text = ") for x in conllu.decode().splitlines() if "# text" in x]
    text = "\n\n".join(" ".join(lines[i : i + 3]) for i in range(0, len(lines), 3))
    for name, given, options in (
        ("text", text.encode(), []), ("conllu", conllu, []), ("conllu", conllu, ["--kbest", 2]),
        ("conllu", conllu, ["--probabilities"]), ("form", conllu, []),
    ):  # fmt: skip
        (folder / "right").write_bytes(given)
        kind = "text" if name == "text" else "conllu"
        words = [bench.model(PIPELINE), folder / "right", "--input", kind, "--threads", 1]
        ended = call(parse.main, [*words, *options], folder)
        check_end(ended, [0])
        if name == "form":
            body = urlencode({"data": given, "tagger": "", "parser": ""}).encode()
            sent = packed("/process", "application/x-www-form-urlencoded", body)
        else:
            asked = {name: given.decode()} | ({"kbest": 2} if "--kbest" in options else {})
            asked |= {"probabilities": True} if "--probabilities" in options else {}
            sent = packed("/api/parse", JSON, json.dumps(asked).encode())
        found.append(Request("right", [sent], _right(ended.out.decode(), name)))
    return found


def _right(expected: str, name: str) -> Callable[[int, str, bytes], str]:
    def check(status: int, kind: str, body: bytes) -> str:
        if status != 200:
            raise Failure(f"a right request is answered by {status}: {body[:300]!r}")
        if json.loads(body)["result" if name == "form" else "conllu"] != expected:
            raise Failure("a right request has an answer other than that of parse")
        return "right"

    return check


def check_api(status: int, kind: str, body: bytes) -> str:
    """Failure unless an answer of the interface in JSON is documented and whole."""
    if status not in API or kind != JSON:
        raise Failure(f"status {status}, {kind}: {body[:300]!r}")
    found = json.loads(body)
    if status != 200:
        error = found["error"]
        if set(error) != {"status", "code", "message", "where"} or error["status"] != status:
            raise Failure(f"status {status}: {body[:300]!r}")
        if not error["message"] or len(error["message"].splitlines()) != 1:
            raise Failure(f"status {status}: the message is {error['message']!r}")
    elif "sentences" in found:
        n_words = [len(sentence["tokens"]) for sentence in found["sentences"]]
        trees = treebank_from_bytes(found["conllu"].encode(), "answer", on_error="skip")
        for sentence, n in zip(found["sentences"], n_words, strict=True):
            if any(not 0 <= token["head"] <= n for token in sentence["tokens"]):
                raise Failure(f"heads of {body[:300]!r}")
        if sum(n_words) > trees.n_words:
            raise Failure(f"{sum(n_words)} words and {trees.n_words} of CoNLL-U")
    return f"{status}"


def check_form(status: int, kind: str, body: bytes) -> str:
    """Failure unless an answer of UDPipe's interface is documented and whole."""
    is_right = status in OF_FORMS - {200} and kind.startswith("text/plain") and body
    if not is_right and (status != 200 or "result" not in json.loads(body)):
        raise Failure(f"status {status}, {kind}: {body[:300]!r}")
    return f"{status}"


def check_any(status: int, kind: str, body: bytes) -> str:
    """Failure unless an answer to something that may be no HTTP is documented."""
    if status not in API or not body:
        raise Failure(f"status {status}, {kind}: {body[:300]!r}")
    return f"{status}"


def check_broken(status: int, kind: str, body: bytes) -> str:
    """Failure unless the answer says that there was an error inside."""
    if status != 500 or json.loads(body)["error"]["code"] != "internal":
        raise Failure(f"status {status}, {kind}: {body[:300]!r}")
    return "500"


def of_json(draw: random.Random) -> tuple[str, dict[str, Any]]:
    """A right request in JSON: its path and its body."""
    conllu = generate(draw.randint(1, 3), draw.randrange(50)).decode()
    if draw.random() < 0.4:
        conllu = mutant(draw).decode(errors=draw.choice(["replace", "surrogateescape"]))
    words = [["a", "b"], ["c"]] if draw.random() < 0.5 else [[{"form": "a", "upos": "X"}]]
    text = draw.choice(
        ["She sings. No!", "a\n\n\nb", "", " ", "\u2028\0", "Don't \ud83d\ude00", "a " * 500]
    )
    asked = draw.choice([{"text": text}, {"conllu": conllu}, {"sentences": words}])
    path = draw.choice(["/api/parse", "/api/parse", "/api/explain", "/api/draw"])
    if path == "/api/explain":
        asked |= {"sentence": draw.randint(1, 2), "word": draw.randint(1, 3)}
        asked |= {"instead": 0} if draw.random() < 0.3 else {}
    elif draw.random() < 0.6:
        asked |= draw.choice([
            {"probabilities": True}, {"mbr": True}, {"kbest": draw.randint(1, 101)},
            {"keep": "tags"}, {"heads": [{"sentence": 1, "word": 1, "head": draw.randint(0, 2)}]},
            {"model": "model", "probabilities": True, "kbest": 3}, {"mbr": True, "kbest": 2},
        ])  # fmt: skip
        asked |= {"format": draw.choice(["svg", "tikz"])} if path == "/api/draw" else {}
    return path, asked


def of_form(draw: random.Random) -> bytes:
    """A request with UDPipe's interface, of which some fields may be wrong."""
    data = draw.choice(
        [mutant(draw), generate(2, draw.randrange(50)), b"She sings.\n\nNo!", b"a b"]
    )
    fields: dict[str, Any] = {"data": data}
    for name, values in {
        "tokenizer": ["", "", "presegmented", "ranges", "ranges;presegmented", "x"],
        "tagger": ["", "", "x"], "parser": ["", "", "x"], "model": ["", "model", "../model", "\0"],
        "input": ["conllu", "vertical", "horizontal", "generic_tokenizer", "conllu=v2", "x", ""],
        "output": ["conllu", "vertical", "horizontal", "plaintext", "conllu=v2", "x", ""],
    }.items():  # fmt: skip
        if draw.random() < 0.4:
            fields[name] = draw.choice(values)
    if draw.random() < 0.1:
        del fields["data"]
    kind, body, path = "application/x-www-form-urlencoded", urlencode(fields).encode(), "/process"
    if draw.random() < 0.4:
        kind = "multipart/form-data; boundary=a"
        parts = [
            b'--a\r\nContent-Disposition: form-data; name="%s"\r\n\r\n%s\r\n'
            % (name.encode(), value if isinstance(value, bytes) else value.encode())
            for name, value in fields.items()
        ]
        body = b"".join([*parts, b"--a--\r\n"])
    elif draw.random() < 0.2:
        path, body = f"/process?{body.decode()}"[:4000], b""
    if draw.random() < 0.4:
        body = edited(body, draw, BYTES)
    if draw.random() < 0.1:
        kind = draw.choice(["text/plain", "multipart/form-data", kind + ";;", JSON, "x"])
    return packed(path, kind, body, draw.choice(["POST", "POST", "GET"]))


def damaged(draw: random.Random, bench: Bench) -> Request:
    """One request that is probably wrong."""
    path, asked = of_json(draw)
    body = json.dumps(asked).encode()
    kind = draw.choices(
        ["structure", "bytes", "form", "headers", "left", "pieces", "stalled", "large", "right",
         "other"], [8, 5, 8, 3, 3, 2, 0.2, 0.5, 3, 1],
    )[0]  # fmt: skip
    if kind == "right":
        return draw.choice(right_requests(bench))
    if kind == "form":
        return Request(kind, [of_form(draw)], check_form)
    if kind == "structure":
        for _ in range(draw.choice([1, 1, 2])):
            asked = changed_json(asked, draw, VALUES)
        body = json.dumps(asked).encode()
    elif kind == "bytes":
        if draw.random() < 0.2:
            body = json.dumps(asked, ensure_ascii=False).encode(
                draw.choice(["utf-16", "utf-8-sig", "utf-7"]), errors="replace"
            )
        body = edited(body, draw, BYTES)
    elif kind == "large":
        body = json.dumps({"text": "a " * (1 << draw.choice([11, 17, 18, 19]))}).encode()
        return Request(kind, [packed(path, JSON, body)], check_api, may_lack=True)
    elif kind == "other":
        path, method = draw.choice(["/x", "/", "/page/../../x", path]), draw.choice(["PUT", "POST"])
        return Request(kind, [packed(path, draw.choice([JSON, "x"]), body, method)], check_api)
    sent = packed(path, JSON, body) if draw.random() < 0.7 else of_form(draw)
    if kind == "left":
        end = draw.choice(["half", "close", "reset"])
        at = draw.choice([len(sent), draw.randrange(len(sent))])
        return Request(kind, [sent[:at]], check_any, end, may_lack=True)
    if kind == "headers":
        at = sent.index(b"\r\n\r\n")
        head = edited(sent[:at], draw, _HEADERS)
        ends = draw.choice(["answer", *["half"] * 9])
        return Request(kind, [head + sent[at:]], check_any, ends, may_lack=True)
    sent = packed(path, JSON, body)
    pieces = [sent]
    if kind == "pieces":
        cuts = sorted(draw.randrange(len(sent)) for _ in range(3))
        pieces = [sent[i:j] for i, j in zip([0, *cuts], [*cuts, len(sent)], strict=True)]
    elif kind == "stalled":
        pieces = [sent[: draw.randrange(sent.index(b"\r\n\r\n") + 4, len(sent))]]
    return Request(kind, pieces, check_api)


def start(request: Request, port: int) -> socket.socket | None:
    """Send a request; None if it was left."""
    connection = socket.create_connection(("127.0.0.1", port), timeout=SECONDS)
    try:
        for number, piece in enumerate(request.pieces):
            time.sleep(0.01 * bool(number))
            connection.sendall(piece)
        if request.ends == "half":
            connection.shutdown(socket.SHUT_WR)
    except ConnectionError:  # it has answered, or not, before it was sent
        pass
    if request.ends in ("close", "reset"):
        if request.ends == "reset":
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        connection.close()
        return None
    return connection


def answer(request: Request, connection: socket.socket) -> str:
    """The answer to a request. Raises: Failure: not what it should be."""
    with connection:
        try:
            found = http.client.HTTPResponse(connection, method="POST")
            found.begin()
            body = found.read()
        except (ConnectionError, http.client.HTTPException, TimeoutError) as error:
            if request.may_lack and not isinstance(error, TimeoutError):
                return "no answer"
            raise Failure(f"no answer: {type(error).__name__} {error}") from None
        return request.check(found.status, found.headers.get("content-type", ""), body)


@cache
def served(bench: Bench) -> Server:
    """The server that all trials share."""
    server = Server(bench, bench.folder, "server")
    bench.servers.append(server.child)
    return server


def answers(group: list[Request], server: Server) -> list[str]:
    """The answers to requests that are sent at once."""
    outcomes, connections = [], [start(request, server.port) for request in group]
    for request, connection in zip(group, connections, strict=True):
        try:
            said = "left" if connection is None else answer(request, connection)
        except Failure as failure:
            sent = b"".join(request.pieces)
            raise Failure(f"{request.kind}: {failure}; sent {sent[:1500]!r}") from None
        outcomes.append(f"{request.kind}: {said}")
    return outcomes


def requests(draw: random.Random, bench: Bench) -> list[str]:
    """Damaged requests, up to eight at once; then right ones."""
    expected = right_requests(bench)
    server, outcomes = served(bench), []
    groups = []
    while sum(map(len, groups)) < N_REQUESTS:
        groups.append([damaged(draw, bench) for _ in range(draw.randint(1, 8))])
    body = json.dumps({"sentences": [[BREAK] * draw.randint(1, 5)]}).encode()
    broken = Request("worker", [packed("/api/parse", JSON, body)], check_broken)
    for group in [*groups, expected]:
        outcomes += answers(group, server)
    if odd := server.odd_lines():
        raise Failure(f"the log has {odd[:5]}")
    outcomes += [*answers([broken], server), *answers(expected, server)]
    server.odd_lines()  # the places of the error
    server.most_memory = server.most_memory or server.memory() + MEMORY
    if server.memory() > server.most_memory:
        raise Failure(f"the server has {server.memory():,} bytes")
    return outcomes


def blocking(draw: random.Random) -> Request:
    """A request that takes long: long sentences, many trees, reasons, drawings, odd bodies."""
    words = [["a"] * draw.randint(300, 1000) for _ in range(draw.randint(1, 9))]
    few = [["a"] * draw.randint(200, 400) for _ in range(draw.randint(1, 40))]
    text = draw.choice(["lol::", "((", "a ", "1.", "a\n"])
    path, asked = draw.choice(
        [
            ("parse", {"sentences": words}), ("parse", {"sentences": words, "mbr": True}),
            ("parse", {"sentences": words[:1], "kbest": 100, "probabilities": True}),
            ("explain", {"sentences": words[:1], "word": 1}),
            ("explain", {"sentences": few, "word": 1, "instead": 200}),
            ("draw", {"sentences": few}),
            ("parse", {"text": text * draw.randint(1000, 9000)}),
            ("parse", {"text": "She sings. " * 400, "kbest": 100}),
            ("parse", {"sentences": [[{}] * 80_000]}), ("parse", {"heads": [{}] * 80_000}),
        ]
    )  # fmt: skip
    body = json.dumps(asked).encode()
    return Request("blocking", [packed(f"/api/{path}", JSON, body)], check_api, may_lack=True)


def blocks(draw: random.Random, bench: Bench) -> list[str]:
    """Requests that take long, some of whose answers nobody reads; right ones beside them."""
    expected, server = right_requests(bench), served(bench)
    requests = [blocking(draw) for _ in range(draw.randint(1, 4))]
    connections = [start(request, server.port) for request in requests]
    outcomes, slowest = [], 0.0
    for _ in range(30):
        began = time.monotonic()
        outcomes += answers([draw.choice(expected)], server)
        slowest = max(slowest, time.monotonic() - began)
    if slowest > BESIDE:
        raise Failure(f"a right request took {slowest:.1f} seconds beside others")
    for request, connection in zip(requests, connections, strict=True):
        assert connection
        if draw.random() < 0.5:
            connection.close()
        else:
            outcomes.append(f"blocking: {answer(request, connection)}")
    if odd := server.odd_lines():
        raise Failure(f"the log has {odd[:5]}")
    return outcomes


def stops(draw: random.Random, bench: Bench) -> list[str]:
    """A server is stopped or killed among requests, and another one begins at its port."""
    place, expected = bench.place(), right_requests(bench)
    server = Server(bench, place, "first")
    number = draw.choice([signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
    wanted = [draw.choice(expected) for _ in range(draw.randint(1, 12))]
    connections = [start(request, server.port) for request in wanted]
    time.sleep(draw.choice([0, draw.uniform(0, 0.2)]))
    os.kill(server.child.pid, number)
    outcomes = []
    for request, connection in zip(wanted, connections, strict=True):
        assert connection
        lost = request._replace(may_lack=True, check=_stopping(request.check))
        outcomes.append(f"{number.name}: {answer(lost, connection)}")
    check_end(server.child.wait(), [-number if number == signal.SIGKILL else 0])
    again = Server(bench, place, "second", server.port)
    for request in expected:
        connection = start(request, again.port)
        assert connection
        answer(request, connection)
    os.kill(again.child.pid, signal.SIGTERM)
    check_end(again.child.wait(), [0])
    return outcomes


def _stopping(check: Callable[[int, str, bytes], str]) -> Callable[[int, str, bytes], str]:
    def of(status: int, kind: str, body: bytes) -> str:
        return "503" if status == 503 else check(status, kind, body)

    return of
