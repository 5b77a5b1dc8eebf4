"""The queue: requests are parsed together, each gets its own; limits, errors and the end."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import httpx
import pytest

from gpuparse.server import worker as worker_module
from gpuparse.server.worker import Worker
from tests.server.conftest import body_of


@contextmanager
def held(monkeypatch):
    """Rounds that wait until the block ends."""
    gate, round_of = threading.Event(), Worker._round
    with monkeypatch.context() as patch:
        patch.setattr(Worker, "_round", lambda self, tasks: (gate.wait(20), round_of(self, tasks)))
        try:
            yield gate
        finally:
            gate.set()
            time.sleep(0.05)


def waits_for(service, n: int) -> None:
    end = time.monotonic() + 10
    while len(service.worker) < n:
        assert time.monotonic() < end
        time.sleep(0.01)


def test_16_clients_get_what_each_would_get_alone(process, trained):
    texts = trained.paragraphs()
    wanted = {text: trained.command(text.encode(), "text") for text in texts}
    tagged = trained.command(trained.conllu, "conllu")
    k_best = {text: trained.command(text.encode(), "text", "--kbest", "2") for text in texts[10:16]}

    def client(number: int) -> int:
        with httpx.Client(base_url=process.url, timeout=60) as http:
            for turn in range(24):
                text = texts[(number * 7 + turn) % len(texts)]
                if turn % 8 == 3:
                    data = {"data": trained.conllu.decode(), "tagger": "", "parser": ""}
                    assert http.post("/process", data=data).json()["result"] == tagged
                elif turn % 8 == 5:
                    text = texts[10 + turn % 6]
                    answer = http.post("/api/parse", json={"text": text, "kbest": 2})
                    assert answer.json()["conllu"] == k_best[text]
                elif turn % 8 == 6:
                    answer = http.post("/api/parse", json={"conllu": f"1\t{number}\n\n"})
                    assert answer.status_code == 422
                elif turn % 2:
                    data = {"data": text, "tokenizer": "", "tagger": "", "parser": ""}
                    assert http.post("/process", data=data).json()["result"] == wanted[text]
                else:
                    answer = http.post("/api/parse", json={"text": text})
                    assert answer.json()["conllu"] == wanted[text]
        return 1

    with ThreadPoolExecutor(16) as pool:
        assert sum(pool.map(client, range(16))) == 16
    figures = dict(
        line.rsplit(" ", 1) for line in httpx.get(f"{process.url}/metrics").text.splitlines()
        if line.startswith("gpuparse_")
    )  # fmt: skip
    assert float(figures["gpuparse_joined"]) > 1.5 * float(figures["gpuparse_rounds"])


def test_long_texts_go_through_in_pieces(process, trained):
    text = "\n\n".join(trained.paragraphs()) + "\n\n"
    text *= -(-400_000 // len(text))
    answer = httpx.post(f"{process.url}/api/parse", json={"text": text}, timeout=60)
    assert answer.json()["conllu"] == trained.command(text.encode(), "text")
    for sentence in answer.json()["sentences"]:
        inner = {i for e in sentence["multiword"] for i in range(e["first"], e["last"] + 1)}
        for token in (each for each in sentence["tokens"] if each["id"] not in inner):
            assert text[token["start"] : token["end"]] == token["form"]
    conllu = trained.conllu * 12
    answer = httpx.post(f"{process.url}/api/parse", json={"conllu": conllu.decode()}, timeout=60)
    assert answer.json()["conllu"] == trained.command(conllu, "conllu")


def test_a_full_queue_refuses(start, monkeypatch):
    client, service = start(queue=2)
    with held(monkeypatch) as gate, ThreadPoolExecutor(3) as pool:
        waiting = [pool.submit(client.post, "/api/parse", json={"text": "No."}) for _ in range(2)]
        waits_for(service, 2)
        refused = client.post("/api/parse", json={"text": "No."})
        assert refused.status_code == 429
        assert refused.headers["retry-after"] == "1"
        assert refused.json()["error"]["code"] == "queue_full"
        form = client.post("/process", data={"data": "No.", "tokenizer": ""})
        assert (form.status_code, form.headers["retry-after"]) == (429, "1")
        gate.set()
        assert [each.result().status_code for each in waiting] == [200, 200]


def test_time_is_limited(start, monkeypatch):
    client, service = start(seconds=0.3)
    with held(monkeypatch):
        refused = client.post("/api/parse", json={"text": "No."})
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "timeout")
    assert client.post("/api/parse", json={"text": "No."}).status_code == 200
    assert not service.worker._waiting


def test_words_and_bytes_are_limited(start):
    client, _ = start(n_words=20, n_bytes=2000)
    assert client.post("/api/parse", json={"text": "a b " * 10}).status_code == 200
    for body in ({"text": "a b " * 11}, {"sentences": [["a"] * 21]}):
        error = client.post("/api/parse", json=body).json()["error"]
        assert (error["status"], error["code"]) == (413, "too_many_words")
    answer = client.post("/process", data={"data": "a b " * 11, "tokenizer": "", "parser": ""})
    assert answer.status_code == 413
    error = client.post("/api/parse", json={"text": "a" * 2000}).json()["error"]
    assert (error["status"], error["code"]) == (413, "too_many_bytes")


def test_bytes_of_all_bodies_are_limited(start):
    client, service = start(n_bytes=1000)
    service.held.n_bytes = service.held.most - 100
    assert client.post("/api/parse", json={"text": "a" * 200}).status_code == 429
    service.held.n_bytes = 0
    assert client.post("/api/parse", json={"text": "a" * 200}).status_code == 200
    assert service.held.n_bytes == 0


@pytest.mark.parametrize("error", [RuntimeError("secret text"), SystemExit(3), MemoryError()])
def test_an_error_of_the_thread_is_one_answer(error, start, monkeypatch, capfd):
    client, _ = start()

    def fails(*given):
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(worker_module, "missing_columns", fails)
        found = client.post("/api/parse", json={"text": "No."})
        assert found.status_code == 500
        assert found.json()["error"]["code"] == "internal"
    assert client.post("/api/parse", json={"text": "No."}).status_code == 200
    log = capfd.readouterr().err
    assert type(error).__name__ in log
    assert "secret" not in log + found.text


def test_who_has_left_is_not_parsed_for(process):
    """The client closes the connection while its request waits behind a long one."""
    import socket

    long = "The dogs sleep. " * 12_000
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(httpx.post, f"{process.url}/api/parse", json={"text": long}, timeout=60)
        time.sleep(0.1)
        n_before = process.said().count(" 499 ")
        for _ in range(5):
            with socket.create_connection(("127.0.0.1", process.port)) as left:
                body = body_of(long)
                left.sendall(
                    b"POST /api/parse HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
                    b"content-length: %d\r\n\r\n" % len(body) + body
                )
                time.sleep(0.1)
        assert first.result().status_code == 200
    end = time.monotonic() + 20
    while process.said().count(" 499 ") < n_before + 5:
        assert time.monotonic() < end
        time.sleep(0.05)
    while "gpuparse_waiting 0.0" not in httpx.get(f"{process.url}/metrics").text:
        assert time.monotonic() < end
        time.sleep(0.05)


def test_what_comes_after_the_end_is_refused(start):
    client, service = start()
    service.is_stopping = True
    refused = client.post("/api/parse", json={"text": "No."})
    assert (refused.status_code, refused.json()["error"]["code"]) == (503, "shutting_down")
    assert client.get("/health").json() == {"status": "stopping"}


def test_the_log_has_no_text(start, capfd):
    client, _ = start()
    client.post("/api/parse?text=hidden", json={"text": "hidden words."})
    client.post("/process?data=hidden&tokenizer=")
    client.get("/a%0ab%20c")
    log = capfd.readouterr().err
    assert "POST /api/parse 200 in=" in log
    assert "words=3" in log
    assert "GET /a?b?c 404" in log
    assert "hidden" not in log
