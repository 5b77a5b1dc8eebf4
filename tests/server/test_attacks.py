"""Requests that nobody sends by accident: each gets a clear error, and the next one an answer."""

import json
import random
from urllib.parse import parse_qsl

import pytest

from gpuparse.server.bodies import MAX_OBJECTS, OPENED, read_form, read_json
from gpuparse.server.refusals import RequestError

FIELDS = ("model", "text", "conllu", "sentences", "probabilities", "mbr", "kbest", "keep", "heads")
VALUES = [1, -1, 1.5, 10**30, "x", "", [], {}, [[]], [1], [[1]], [{}], [[{}]], [["a", {}]],
          [[{"form": 1}]], True, "\ud800", [["\ud800"]], [["a\tb"]], [["a\nb"]],
          [[{"form": "a", "head": "x"}]],
          [[{"form": "a", "unknown": "x"}]],
          [{"sentence": 1, "word": 1, "head": True}]]  # fmt: skip


def post(client, body: bytes, path: str = "/api/parse", **headers):
    return client.post(path, content=body, headers={"content-type": "application/json"} | headers)


@pytest.mark.parametrize(
    "body",
    [
        b"", b"{", b"[]", b"null", b"1", b'"a"', b"\xff", b'{"text": "\xff"}', b"[" * 200_000,
        b'{"a":' * 100_000, b'{"kbest": ' + b"1" * 10_000 + b"}", b'{"kbest": NaN}',
        b'{"kbest": Infinity}', b'{"text": "a", "text": "b"}', b'{"text": "a"} x',
        '{"text": "a"}'.encode("utf-16"), b'{"text": "\\ud800"}', b'{"text": "a\\u0000b"}',
        b'{"text": "a", "kbest": 1e999}',
    ],
    ids=range(19),
)  # fmt: skip
@pytest.mark.parametrize("path", ["/api/parse", "/api/explain", "/api/draw"])
def test_bad_json_is_one_error(body, path, client):
    answer = post(client, body, path)
    assert answer.status_code in (400, 422)
    assert answer.json()["error"]["message"]
    assert client.get("/health").status_code == 200


@pytest.mark.parametrize("field", FIELDS)
def test_a_field_of_a_wrong_type_is_named(field, client):
    n_refused = 0
    for value in VALUES:
        body = {field: value}
        if field not in ("text", "conllu", "sentences"):
            body["sentences"] = [["a", "b"]]
        answer = post(client, json.dumps(body).encode())
        assert answer.status_code in (200, 400, 404, 422), (value, answer.text)
        if answer.status_code != 200:
            n_refused += 1
            assert answer.json()["error"]["where"] == field, (value, answer.text)
    assert n_refused >= 12


@pytest.mark.parametrize(
    "name", ["../quick", "/etc/passwd", "quick/../first", "", "first\0", "FIRST"]
)
def test_a_model_is_a_loaded_name(name, client):
    answer = post(client, json.dumps({"model": name, "text": "a"}).encode())
    assert answer.status_code == 404
    assert answer.json()["error"]["where"] == "model"


def test_other_fields_types_and_methods_are_refused(client):
    error = post(client, b'{"text": "a", "file": "/etc/passwd"}').json()["error"]
    assert (error["code"], error["where"]) == ("unknown_field", "file")
    assert post(client, b"{}", **{"content-type": "text/plain"}).status_code == 415
    assert client.get("/api/parse").status_code == 405
    assert client.post("/").status_code == 405
    assert client.get("/api/parse/../../etc").status_code == 404
    assert client.get("/api/models").headers["content-type"] == "application/json"


def test_scripts_stay_strings_of_json(client):
    words = ["<script>alert(1)</script>", '"];alert(1)//', "\u2028", "</textarea>", "\\u0022"]
    answer = post(client, json.dumps({"sentences": [words]}).encode())
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert [token["form"] for token in answer.json()["sentences"][0]["tokens"]] == words


def test_forms_are_read_as_python_reads_them():
    """As of `parse_qsl`, which takes 30 times the memory of a long form."""
    draw, n_refused = random.Random(1), 0
    pieces = ["%", "4", "1", "%41", "%C3%A9", "%c3", "+", "&", "=", "a", "é", "%zz", "%2", "%26"]
    for _ in range(3000):
        text = "".join(draw.choice(pieces) for _ in range(draw.randint(0, 9)))
        try:
            wanted = dict(parse_qsl(text, keep_blank_values=True, errors="strict"))
        except UnicodeDecodeError:
            n_refused += 1
            with pytest.raises(RequestError, match="is not UTF-8"):
                read_form(text.encode(), "application/x-www-form-urlencoded", b"")
        else:
            assert read_form(b"", "", text.encode()) == wanted
    assert 100 < n_refused < 2000


@pytest.mark.parametrize("value", [b"[]", b"{}", b'{"a":1}', b'"ab"'])
def test_json_of_too_many_values_is_refused_unread(value):
    n = MAX_OBJECTS // (OPENED if value[:1] != b'"' else 60) + 1
    many = b'{"sentences": [' + b",".join([value] * n) + b"]}"
    with pytest.raises(RequestError, match="too many values"):
        read_json(many)
    text = json.dumps({"text": '[{,"\\' * n}).encode()
    assert len(read_json(text)["text"]) == 5 * n


def test_a_line_of_too_many_words_is_counted_before_it_is_split(start):
    client, _ = start(n_words=1000)
    for data in ("a " * 1001, "a\n" * 1001):
        answer = client.post("/process", data={"data": data, "input": "horizontal"})
        assert answer.status_code == 413
    assert client.post("/process", data={"data": "a " * 900, "input": "horizontal"}).is_success
