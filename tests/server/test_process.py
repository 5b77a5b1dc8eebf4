"""The command: its process, signals, sockets, and clients that mean no good."""

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import httpx
import pytest

from gpuparse.__main__ import main
from gpuparse.errors import ConfigError, ModelError
from gpuparse.server import run
from gpuparse.server.app import Limits, Service
from tests.server.conftest import ROOT, Process, body_of

LONG = "The dogs sleep. " * 10_000


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_lets_it_finish_and_exit_with_0(number, trained):
    server = Process(trained.model, trained.folder)
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(httpx.post, f"{server.url}/api/parse", json={"text": LONG}, timeout=60)
        time.sleep(0.5)
        server.process.send_signal(number)
        assert answer.result().status_code == 200
        assert answer.result().json()["conllu"].count("\n\n") >= 10_000
    assert server.process.wait(30) == 0
    assert "Traceback" not in server.said()


def test_a_server_keeps_its_models_when_their_files_change(trained, tmp_path):
    model = shutil.copytree(trained.model, tmp_path / "live")
    server = Process(model, tmp_path)
    ask = partial(
        httpx.post, f"{server.url}/api/parse", json={"text": "The dogs sleep."}, timeout=60
    )
    before = ask().json()
    for file in sorted(model.glob("*.safetensors")):
        with open(file, "r+b") as stream:
            stream.write(bytes(file.stat().st_size // 2))
        assert ask().json() == before
        os.truncate(file, 0)
        assert ask().json() == before
    server.stop()


def test_a_signal_is_heard_once_it_says_where_it_listens(models):
    """As of one who waits for the line, and stops it at once."""
    said = []

    def tell(text: str) -> None:
        said.append(text)
        signal.raise_signal(signal.SIGINT)

    run.serve(Service(models, Limits()), run.listen("127.0.0.1", 0), tell)
    assert said[0].startswith("listening on http://127.0.0.1:")


def test_the_page_is_opened_in_a_browser(trained, tmp_path, monkeypatch):
    script, opened = tmp_path / "browser", tmp_path / "opened"
    script.write_text(f'#!/bin/sh\necho "$1" > {opened}\n')
    script.chmod(0o755)
    monkeypatch.setenv("BROWSER", f"{script} %s")
    server = Process(trained.model, trained.folder, "--open")
    assert server.stop() == 0
    assert opened.read_text() == f"{server.url}\n"


def test_a_port_in_use_is_a_clear_error(process, trained):
    command = [sys.executable, "-m", "gpuparse", "serve", str(trained.model)]
    found = subprocess.run(
        [*command, "--port", str(process.port)], cwd=ROOT, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert found.returncode == 2
    assert f"--port {process.port}: another process listens there" in found.stderr


def test_wrong_options_are_refused(trained, tmp_path):
    model, token = str(trained.model), tmp_path / "token"
    token.write_text("short\n")
    large = tmp_path / "large"
    large.write_text("a" * 5000)
    for arguments, message in (
        ([model, model], "two models have the name 'quick'"),
        (["=" + model], "expected MODEL or NAME=MODEL"),
        ([model, "--token-file", str(token)], "at least 16 characters"),
        ([model, "--token-file", "/dev/zero"], "--token-file /dev/zero: is no file"),
        ([model, "--token-file", str(tmp_path)], "is no file"),
        ([model, "--token-file", str(large)], "of at most 4,096 bytes"),
        ([model, "--host", "no such host"], "no such host"),
    ):
        with pytest.raises(ConfigError, match=message):
            main(["serve", *arguments, "--port", "0"])
    with pytest.raises(ModelError):
        main(["serve", str(tmp_path / "none"), "--port", "0"])


def connected(process: Process) -> socket.socket:
    return socket.create_connection(("127.0.0.1", process.port), timeout=30)


def answer_of(connection: socket.socket) -> bytes:
    """The bytes that come until the end."""
    content = b""
    with contextlib.suppress(ConnectionError):
        while block := connection.recv(1 << 16):
            content += block
    return content


def test_an_endless_body_ends_with_413(process):
    before = process.memory()
    with connected(process) as endless:
        endless.sendall(
            b"POST /api/parse HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
            b"transfer-encoding: chunked\r\n\r\n"
        )
        n_sent = 0
        with contextlib.suppress(ConnectionError):
            while n_sent < 200_000_000:
                endless.sendall(b"10000\r\n" + b"a" * 0x10000 + b"\r\n")
                n_sent += 0x10000
        assert n_sent < 50_000_000
    with connected(process) as announced:
        announced.sendall(
            b"POST /process HTTP/1.1\r\nhost: localhost\r\ncontent-length: 99999999999\r\n\r\nabc"
        )
        assert b" 413 " in answer_of(announced).split(b"\r\n")[0]
    assert process.memory() < before + (60 << 20)


def test_slow_headers_and_bodies_end(process, monkeypatch):
    began = time.monotonic()
    with connected(process) as headers, connected(process) as silent, connected(process) as body:
        body.sendall(
            b"POST /api/parse HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
            b"content-length: 100\r\n\r\n{"
        )
        for letter in b"GET /health HTTP/1.1\r\nx-a: " + b"b" * 100:
            try:
                headers.sendall(bytes([letter]))
            except ConnectionError:
                break
            if time.monotonic() > began + run.HEADER_SECONDS + 3:
                break
            time.sleep(0.2)
        assert answer_of(headers) == b""
        assert answer_of(silent) == b""
        assert b" 408 " in answer_of(body).split(b"\r\n")[0]
    assert time.monotonic() - began < run.HEADER_SECONDS + 8
    assert httpx.get(f"{process.url}/health").status_code == 200


def sent(process: Process, head: str, body: bytes = b"") -> bytes:
    """The answer to the bytes of a request, whose connection then ends."""
    with connected(process) as connection:
        connection.sendall(head.replace("\n", "\r\n").encode() + b"\r\n\r\n" + body)
        return answer_of(connection)


def test_foreign_hosts_and_origins_are_refused(process):
    """As of a page whose name was bound to this machine, and of forms of other pages."""
    port = process.port
    names = ["localhost", "127.0.0.1", f"127.0.0.1:{port}", f"LOCALHOST:{port}", f"[::1]:{port}"]
    for host in names:
        for origin in ("", f"\nOrigin: http://{host}"):
            head = f"GET /api/models HTTP/1.1\nHost: {host}\nConnection: close{origin}"
            assert sent(process, head).startswith(b"HTTP/1.1 200"), head
    for host in ("evil.example", f"evil.example:{port}", "localhost.evil.example", "[::2]", "x:y"):
        for path in ("/api/models", "/", "/models/"):
            answer = sent(process, f"GET {path} HTTP/1.1\nHost: {host}\nConnection: close")
            assert answer.startswith(b"HTTP/1.1 421"), host
            assert b'"foreign_host"' in answer
    for origin in (
        "http://evil.example",
        "null",
        f"http://localhost:{port + 1}",
        "http://localhost",
    ):
        head = (
            f"POST /process HTTP/1.1\nHost: localhost:{port}\nConnection: close\nOrigin: {origin}"
        )
        assert sent(process, head + "\nContent-Length: 0").startswith(b"HTTP/1.1 403"), origin
    head = "GET /models/ HTTP/1.1\nHost: localhost\nConnection: close"
    assert sent(process, head).startswith(b"HTTP/1.1 404")


def test_other_hosts_and_origins_can_be_given(trained):
    given = ["--host-name", "Parser.example", "--allow-origin", "https://page.example"]
    server = Process(trained.model, trained.folder, *given)
    try:
        head = "GET /api/models HTTP/1.1\nHost: parser.example\nConnection: close\nOrigin: "
        answer = sent(server, head + "https://page.example")
        assert answer.startswith(b"HTTP/1.1 200")
        assert b"access-control-allow-origin: https://page.example" in answer.lower()
        assert sent(server, head + "https://other.example").startswith(b"HTTP/1.1 403")
        assert sent(server, head + "http://parser.example").startswith(b"HTTP/1.1 200")
    finally:
        assert server.stop() == 0


def test_ambiguous_and_large_headers_are_refused(process):
    head = "POST /api/parse HTTP/1.1\nHost: localhost\nContent-Type: application/json"
    body = body_of("No.")
    chunked = b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
    both = f"\nTransfer-Encoding: chunked\nContent-Length: {len(body)}"
    for sent_body in (chunked, chunked + b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"):
        answer = sent(process, head + both, sent_body)
        assert answer.startswith(b"HTTP/1.1 400")
        assert answer.count(b"HTTP/1.1") == 1  # the connection has ended
    long = sent(process, f"{head}\nContent-Length: 1{'0' * 30}", b"{}")
    assert long.startswith(b"HTTP/1.1 413")
    assert b'"too_many_bytes"' in long
    length = f"\nContent-Length: {len(body)}"
    for more in ("\nX-A: " + "a" * 40_000, "\nX-A: " + "a" * 400_000, "\nX-A: a" * 200):
        assert sent(process, head + length + more, body).startswith(b"HTTP/1.1 431"), len(more)
    answer = sent(process, f"{head}{length}\nConnection: close" + "\nX-A: a" * 50, body)
    assert answer.startswith(b"HTTP/1.1 200")
    assert sent(process, "no HTTP").startswith(b"HTTP/1.1 400")


def test_who_does_not_read_an_answer_is_left(trained):
    """Its connection and the temporary file of its answer end."""
    server = Process(trained.model, trained.folder, "--timeout", "8")
    try:
        body = json.dumps({"text": LONG[: 1 << 14], "kbest": 30}).encode()
        files = Path(f"/proc/{server.process.pid}/fd")
        before, n_slow = len(list(files.iterdir())), 3
        with contextlib.ExitStack() as stack:
            for _ in range(n_slow):
                slow = stack.enter_context(socket.socket())
                slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                slow.connect(("127.0.0.1", server.port))
                slow.sendall(
                    b"POST /api/parse HTTP/1.1\r\nhost: localhost\r\n"
                    b"content-type: application/json\r\ncontent-length: %d\r\n\r\n"
                    % len(body)
                    + body
                )
            counts = [before]
            end = time.monotonic() + 60
            while counts[-1] > before or len(counts) < 20:
                assert time.monotonic() < end, counts
                time.sleep(0.2)
                counts.append(len(list(files.iterdir())))
            assert max(counts) >= before + 2 * n_slow
        assert server.said().count("POST /api/parse 200") == n_slow
        assert httpx.get(f"{server.url}/health").status_code == 200
    finally:
        assert server.stop() == 0


def test_idle_connections_exhaust_nothing(process):
    """More than the process may hold: the oldest go, and who asks is answered."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, hard), hard))
    before, idle = process.memory(), []
    try:
        for number in range(2000):
            idle.append(connected(process))
            if number % 500 == 499:
                answer = httpx.post(f"{process.url}/api/parse", json={"text": "No."}, timeout=20)
                assert answer.status_code == 200
        assert process.memory() < before + (60 << 20)
    finally:
        for connection in idle:
            connection.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert httpx.get(f"{process.url}/health").status_code == 200


def test_too_many_connections_take_the_place_of_idle_ones(trained):
    """With few descriptors: 400 idle connections, and requests are answered at once."""
    code = (
        "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256));"
        "from gpuparse.__main__ import console; console()"
    )
    command = [sys.executable, "-c", code, "serve", str(trained.model), "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, cwd=ROOT, text=True) as server:
        assert server.stderr
        port = int(server.stderr.readline().rpartition(":")[2])
        try:
            url = f"http://127.0.0.1:{port}/api/parse"
            assert httpx.post(url, json={"text": "No."}, timeout=30).status_code == 200
            idle = [socket.create_connection(("127.0.0.1", port)) for _ in range(400)]
            began = time.monotonic()
            for _ in range(3):
                assert httpx.post(url, json={"text": "No."}, timeout=20).status_code == 200
            assert time.monotonic() - began < 5
            for connection in idle:
                connection.close()
        finally:
            server.terminate()
        assert server.wait(30) == 0
        assert "Too many open files" not in server.stderr.read()


def test_memory_stays_flat(process, trained):
    text = "\n\n".join(trained.paragraphs())
    with httpx.Client(base_url=process.url, timeout=60) as http:
        for _ in range(2):
            assert http.post("/process", data={"data": LONG, "tokenizer": ""}).status_code == 200
        before = process.memory()
        for _ in range(3):
            data = {"data": LONG[: 1 << 17], "tokenizer": "", "tagger": "", "parser": ""}
            assert len(http.post("/process", data=data).content) > 1_000_000
        for _ in range(100):
            assert http.post("/api/parse", json={"text": text[:400]}).status_code == 200
        assert process.memory() < before + (40 << 20)
