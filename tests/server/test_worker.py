"""The queue: requests are parsed together, each gets its own; limits, errors and the end."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import httpx
import numpy as np
import pytest

from gpuparse.server import worker as worker_module
from gpuparse.server.models import ServedModel
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
            for turn in range(12):
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
    text *= -(-150_000 // len(text))
    answer = httpx.post(f"{process.url}/api/parse", json={"text": text}, timeout=60)
    assert answer.json()["conllu"] == trained.command(text.encode(), "text")
    for sentence in answer.json()["sentences"]:
        inner = {i for e in sentence["multiword"] for i in range(e["first"], e["last"] + 1)}
        for token in (each for each in sentence["tokens"] if each["id"] not in inner):
            assert text[token["start"] : token["end"]] == token["form"]
    conllu = trained.conllu * 6
    answer = httpx.post(f"{process.url}/api/parse", json={"conllu": conllu.decode()}, timeout=60)
    assert answer.json()["conllu"] == trained.command(conllu, "conllu")


@pytest.mark.parametrize("part", [0.0, 1e-3])
def test_answers_do_not_depend_on_how_inputs_are_cut(part, start, trained, monkeypatch):
    """Each sentence is a part of its own, or some are."""
    client, _ = start(seconds=600)
    text = " \n\n " + "\n\n".join(trained.paragraphs())
    dos = trained.conllu.replace(b"\n", b"\r\n").decode()
    odd = "\n# a comment\n\n" + trained.conllu.decode().rstrip("\n")
    bodies = [
        {"text": text}, {"text": text, "probabilities": True, "kbest": 2}, {"conllu": dos},
        {"conllu": odd}, {"conllu": odd, "kbest": 3},
        {"text": text, "heads": [{"sentence": 30, "word": 1, "head": 0}]},
        {"sentences": [["a", "b"], ["c"]] * 300},
    ]  # fmt: skip
    wanted = [client.post("/api/parse", json=body) for body in bodies]
    monkeypatch.setattr(worker_module, "PART", part)
    for body, expected in zip(bodies, wanted, strict=True):
        assert expected.status_code == 200
        assert client.post("/api/parse", json=body).content == expected.content
    assert wanted[0].json()["conllu"] == trained.command(text.encode(), "text")
    assert wanted[2].json()["conllu"].encode() == trained.command(dos.encode(), "conllu").encode()


LONG = {"sentences": [["a"] * 300] * 2}


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/api/parse", LONG | {"kbest": 20}),
        ("/api/explain", {"sentences": [["a"] * 150], "word": 1}),
    ],
)
def test_short_requests_do_not_wait_for_a_long_sentence(path, body, start, monkeypatch):
    client, _ = start()
    monkeypatch.setattr(ServedModel, "seconds", lambda self, n, *_: np.where(n > 100, 1.0, 1e-3))
    gate, round_of = threading.Event(), Worker._round

    def slowly(self, tasks):
        if tasks[0].is_long:
            assert gate.wait(20)
        round_of(self, tasks)

    monkeypatch.setattr(Worker, "_round", slowly)
    with ThreadPoolExecutor(2) as pool:
        long = pool.submit(client.post, path, json=body)
        for _ in range(5):
            assert client.post("/api/parse", json={"text": "No."}).status_code == 200
        assert not long.done()
        gate.set()
        assert long.result().status_code == 200


def test_long_requests_take_turns(start, monkeypatch):
    """One of 40 parts and one of two: that of two ends after about four rounds."""
    client, service = start()
    monkeypatch.setattr(worker_module, "PART", 0.0)
    rounds, round_of, both = [], Worker._round, threading.Event()

    def counted(self, tasks):
        both.wait(20)
        round_of(self, tasks)
        rounds.append([task.n_words for task in tasks if task.is_done])

    monkeypatch.setattr(Worker, "_round", counted)
    with ThreadPoolExecutor(2) as pool:
        bodies = [{"sentences": [["a"]] * 40}, {"sentences": [["a", "b"]] * 2, "kbest": 2}]
        found = [pool.submit(client.post, "/api/parse", json=body) for body in bodies]
        time.sleep(0.5)
        both.set()
        assert [each.result().status_code for each in found] == [200, 200]
    while len(service.worker):  # the last round may not have ended
        time.sleep(0.01)
    assert rounds.index([4]) < 6
    assert rounds.index([40]) >= 40


def test_sentences_and_answers_are_limited(start):
    client, _ = start(sentence=20, answer_bytes=20_000)
    error = client.post("/api/parse", json={"sentences": [["a"], ["a"] * 21]}).json()["error"]
    assert (error["status"], error["code"]) == (422, "sentence_too_long")
    assert error["message"].startswith("sentence 2 has 21 words: at most 20 are parsed")
    vertical = {"data": "a\n" * 21, "input": "vertical"}
    assert client.post("/process", data=vertical).status_code == 200
    answer = client.post("/process", data=vertical | {"parser": ""})
    assert (answer.status_code, answer.text) == (400, error["message"].replace("2", "1", 1))
    few = {"sentences": [["a", "b"]] * 10}
    assert client.post("/api/parse", json=few).status_code == 200
    many = client.post("/api/parse", json={"sentences": [["a", "b"]] * 500}).json()["error"]
    assert (many["status"], many["code"]) == (413, "answer_too_long")
    draw = client.post("/api/draw", json={"sentences": [["a", "b"]] * 50}).json()["error"]
    assert (draw["status"], draw["code"]) == (413, "answer_too_long")


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


def test_work_ends_when_its_time_is_over(start):
    """A search of seconds, whose native calls run on without a check."""
    client, service = start(seconds=1, sentence=2500)
    body = {"sentences": [["a"] * 2500], "probabilities": True}
    refused = client.post("/api/parse", json=body)
    assert (refused.status_code, refused.json()["error"]["code"]) == (503, "timeout")
    began = time.monotonic()
    while len(service.worker):
        assert time.monotonic() < began + 2
        time.sleep(0.01)
    assert client.post("/api/parse", json={"text": "No."}).status_code == 200


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
        patch.setattr(Worker, "_check", fails)
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
                    b"POST /api/parse HTTP/1.1\r\nhost: localhost\r\n"
                    b"content-type: application/json\r\ncontent-length: %d\r\n\r\n"
                    % len(body)
                    + body
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
