"""The JSON interface: what it gives is what the command gives, and as it is described."""

import json
import warnings

import pytest
from starlette.testclient import TestClient

import gpuparse
from gpuparse.server.answers import MAX_DRAWN
from gpuparse.server.app import Limits, Service, make_app
from gpuparse.server.models import load_models
from tests.server.schemas import faults
from tests.synthetic import generate
from tests.test_doors import KEYS

WORDS = [["The", "dogs", "sleep"], [{"form": "She", "upos": "PRON"}, {"form": "sings"}]]


def parsed(client, **body) -> dict:
    answer = client.post("/api/parse", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def refused(client, path="/api/parse", **body) -> dict:
    answer = client.post(path, json=body)
    assert answer.status_code >= 400
    error = answer.json()["error"]
    assert error["status"] == answer.status_code
    assert error["message"]
    return error


@pytest.mark.parametrize("change", [
    lambda text: text.replace(b"\n", b"\r\n"), lambda text: b"\n\n" + text,
    lambda text: text.rstrip(b"\n"), lambda text: text.replace(b"\n\n", b"\n\n\n\n"),
    lambda text: text + b"# at the end\n", lambda text: b"\xef\xbb\xbf" + text, lambda text: b"",
], ids=["returns", "blank", "open", "wide", "comment", "mark", "empty"])  # fmt: skip
def test_odd_files_give_the_bytes_of_the_command(change, client, trained):
    content = change(trained.conllu)
    found = parsed(client, conllu=content.decode())
    assert found["model"] == "first"
    assert found["conllu"] == trained.command(content, "conllu")


def test_sentences_are_those_of_python(client, trained, models):
    text = "\n\n".join(trained.paragraphs())
    options = {"probabilities": True, "kbest": 2}
    parser = models["first"].parser
    for given in ({}, options):
        found = parsed(client, text=text, **given)["sentences"]
        assert found == [s.to_dict() for s in parser.parse_text(text, **given)]
        assert any(sentence["multiword"] for sentence in found)
        found = parsed(client, conllu=trained.conllu.decode(), **given)["sentences"]
        assert found == [s.to_dict() for s in parser.parse(trained.conllu, **given)]
    for words in (WORDS, []):
        expected = [s.to_dict() for s in parser.parse(words)]
        assert parsed(client, sentences=words)["sentences"] == expected


def test_lines_are_sentences_and_a_text_of_lines_is_told(client, trained):
    text = "- the owl\n\n- the dogs\n- two men\n"
    found = parsed(client, lines=text)
    assert found["conllu"] == trained.command(text.encode(), "lines")
    assert (len(found["sentences"]), found["warnings"]) == (3, [])
    starts = [sentence["tokens"][0]["start"] for sentence in found["sentences"]]
    assert starts == [text.index("- the o"), text.index("- the d"), text.index("- two")]
    said = parsed(client, text=text.replace("\n\n", "\n"))["warnings"]
    assert said == [
        "3 lines that look like sentences or items of their own became 1 sentence; lines in place"
        " of text makes each a sentence"
    ]
    assert refused(client, lines=text, keep="tags")["where"] == "keep"


def test_hints_about_requests_are_not_in_the_log(client, monkeypatch):
    said = []
    monkeypatch.setattr(warnings, "showwarning", lambda message, *_: said.append(str(message)))
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        parsed(client, conllu="# a comment\n\n")
        parsed(client, text="- one\n- two\n- three\n")
    assert [each for each in said if "sentence" in each] == []


def test_given_heads_are_kept(client, trained):
    free = parsed(client, sentences=[WORDS[0]])["sentences"][0]["tokens"]
    head = next(h for h in (0, 1, 3) if h != free[1]["head"])
    heads = [{"sentence": 1, "word": 2, "head": head}]
    for words in ({"sentences": [WORDS[0]]}, {"text": "The dogs sleep"}):
        [sentence] = parsed(client, **words, heads=heads)["sentences"]
        assert sentence["tokens"][1]["head"] == head
        assert all(token["deprel"] for token in sentence["tokens"])
    columns = ("1 The _ _ _ _ _ _ _ _", "2 dogs _ _ _ _ {} _ _ _", "3 sleep _ _ _ _ _ _ _ _")
    rows = "\n".join(columns).replace(" ", "\t") + "\n\n"
    wanted = trained.command(rows.format(head).encode(), "conllu", "--keep", "heads")
    assert parsed(client, conllu=rows.format("_"), heads=heads)["conllu"] == wanted
    # other heads of the input are not kept
    assert parsed(client, conllu=rows.format(1), heads=[heads[0] | {"word": 1, "head": 2}])
    for wrong in ({"word": 4}, {"sentence": 2}, {"head": 4}, {"head": 2}):
        error = refused(client, sentences=[WORDS[0]], heads=[heads[0] | wrong])
        assert (error["status"], error["where"]) == (422, "heads")


def test_a_head_is_explained(client, trained):
    answer = client.post("/api/explain", json={"sentences": WORDS, "sentence": 2, "word": 1})
    found = answer.json()
    assert found["reasons"]["word"] == 1
    assert found["reasons"]["forms"] == ["She", "sings"]
    assert "She" in found["text"]
    both = [{"text": trained.paragraphs()[12], "sentence": 3, "word": 2}, {"conllu": "", "word": 1}]
    assert client.post("/api/explain", json=both[0]).status_code == 200
    assert refused(client, "/api/explain", **both[1])["where"] == "sentence"
    assert refused(client, "/api/explain", sentences=WORDS)["where"] == "word"
    for wrong, field in (
        ({"word": 9}, "word"), ({"word": 1, "instead": 4}, "instead"),
        ({"word": 1, "instead": 1}, "instead"),
        ({"word": 1, "instead": both_heads(client)}, "instead"),
    ):  # fmt: skip
        error = refused(client, "/api/explain", sentences=WORDS, **wrong)
        assert (error["status"], error["where"]) == (400, field)


def both_heads(client) -> int:
    """The head that the first word has already."""
    return parsed(client, sentences=WORDS)["sentences"][0]["tokens"][0]["head"]


def test_tags_are_kept_in_explanations_as_in_trees(client, trained, models):
    body = {"conllu": trained.conllu.decode(), "sentence": 1, "word": 1, "keep": "tags"}
    found = client.post("/api/explain", json=body).json()["reasons"]
    [first, *_] = trained.conllu.split(b"\n\n")
    reasons = models["first"].parser.explain(first + b"\n\n", 1, keep="tags")
    assert found == json.loads(json.dumps(reasons.to_dict()))
    assert refused(client, "/api/explain", text="No.", word=1, keep="tags")["where"] == "keep"


def test_missing_columns_are_called_as_in_requests(tmp_path):
    """From a parser without a tagger: no option of Python, and no field of templates."""
    file = tmp_path / "train.conllu"
    file.write_bytes(generate(60, 1))
    given = {
        key: value for key, value in KEYS.items() if not key.startswith(("token", "tag", "lem"))
    }
    gpuparse.train(given | {"data.train": file, "output": tmp_path / "plain"}, quiet=True)
    models = load_models([str(tmp_path / "plain")], threads=1, device="cpu")
    with TestClient(make_app(Service(models, Limits()))) as client:
        conllu = "1\tShe\t_\t_\t_\t_\t_\t_\t_\t_\n\n"
        for body, name in (({"sentences": WORDS[:1]}, "upos"), ({"conllu": conllu}, "UPOS (")):
            for path, more in (("/api/parse", {}), ("/api/explain", {"word": 1})):
                said = refused(client, path, **body, **more)["message"]
                assert name in said or path == "/api/explain"
                assert "but the model reads it; fill it in" in said
                assert "allow_missing" not in said
                assert "cpos" not in said


def test_trees_are_drawn(client):
    svg = client.post("/api/draw", json={"sentences": WORDS}).json()["drawings"]
    assert len(svg) == 2
    assert all(each.startswith("<svg") for each in svg)
    tikz = client.post("/api/draw", json={"sentences": WORDS, "format": "tikz"}).json()["drawings"]
    assert all(r"\begin{tikzpicture}" in each for each in tikz)
    hostile = client.post("/api/draw", json={"sentences": [["<script>alert(1)</script>", "x"]]})
    assert "<script" not in hostile.json()["drawings"][0]
    long = refused(client, "/api/draw", sentences=[["a"] * (MAX_DRAWN + 1)])
    assert long["code"] == "too_long_to_draw"


def test_answers_are_as_described(client, trained):
    document = client.get("/api/openapi.json").json()
    assert document["openapi"] == "3.1.0"
    schemas = document["components"]["schemas"]

    def check(answer, name) -> None:
        assert faults(answer.json(), schemas[name], document) == []

    check(client.get("/api/models"), "Models")
    text = "\n\n".join(trained.paragraphs())
    for body in (
        {"text": text}, {"text": text, "probabilities": True, "kbest": 2}, {"sentences": WORDS},
        {"conllu": trained.conllu.decode(), "probabilities": True, "keep": "tags"},
    ):  # fmt: skip
        assert faults(body, schemas["ParseRequest"], document) == []
        check(client.post("/api/parse", json=body), "ParseAnswer")
    check(client.post("/api/draw", json={"text": text}), "DrawAnswer")
    check(client.post("/api/explain", json={"sentences": WORDS, "word": 1}), "ExplainAnswer")
    for answer in (
        client.post("/api/parse", json={}), client.get("/nothing"), client.get("/api/parse"),
        client.post("/api/parse", content=b"{", headers={"content-type": "application/json"}),
        client.post("/api/parse", content=b"{}"), client.post("/api/parse", json={"text": 1}),
    ):  # fmt: skip
        check(answer, "Error")
    paths = {"/api/models", "/api/parse", "/api/explain", "/api/draw"}
    assert set(document["paths"]) == paths
    wrong = client.get("/api/models").json()
    wrong["models"][0]["can"]["text"] = "yes"
    assert faults(wrong, schemas["Models"], document)


def test_models_are_listed(client):
    found = client.get("/api/models").json()
    assert found["default"] == "first"
    assert [model["name"] for model in found["models"]] == ["first", "quick"]
    assert found["models"][0]["stages"] == ["tokenizer", "tagger", "lemmatizer", "parser"]
    assert parsed(client, model="quick", text="No.")["model"] == "quick"


def test_the_page_is_served_with_its_headers(start, tmp_path):
    page = tmp_path / "page"
    assert start(page=page)[0].get("/").status_code == 404
    page.mkdir()
    for name in ("index.html", "a.js", "b.css", "secret.py"):
        (page / name).write_text(name)
    client, _ = start(page=page)
    (page / "late.js").write_text("late")
    found = client.get("/")
    assert (found.text, found.headers["content-type"]) == ("index.html", "text/html; charset=utf-8")
    policy = found.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self';")
    assert found.headers["x-content-type-options"] == "nosniff"
    assert found.headers["referrer-policy"] == "no-referrer"
    assert client.get("/page/a.js").headers["content-type"].startswith("text/javascript")
    assert client.get("/page/b.css").headers["content-type"].startswith("text/css")
    for name in ("secret.py", "late.js", "..%2f..%2fapp.py", "../app.py", "%2e%2e/app.py"):
        assert client.get(f"/page/{name}").status_code == 404


def test_health_and_metrics(client):
    assert client.get("/health").json() == {"status": "ok"}
    parsed(client, sentences=WORDS)
    client.get("/secret-word")
    lines = client.get("/metrics").text.splitlines()
    assert 'gpuparse_requests_total{path="/api/parse",status="200"} 1.0' in lines
    assert "gpuparse_words_total 5.0" in lines
    assert not any("secret-word" in line for line in lines)


def test_a_token_is_needed_where_there_is_one(start):
    client, _ = start(token=b"0123456789abcdef")
    assert client.get("/health").status_code == 200
    for path in ("/", "/page/page.js"):  # the page asks for the token
        assert client.get(path).status_code == 200
    for path in (
        "/metrics",
        "/models",
        "/process",
        "/api/openapi.json",
        "/page/../models",
        "/page/none.js",
    ):
        assert client.get(path).status_code == 401
    for value in (None, "Bearer wrong", "Basic 0123456789abcdef", "Bearer 0123456789abcdefg"):
        headers = {} if value is None else {"authorization": value}
        answer = client.get("/api/models", headers=headers)
        assert answer.status_code == 401
        assert answer.json()["error"]["code"] == "unauthorised"
    right = {"authorization": "Bearer 0123456789abcdef"}
    assert client.get("/api/models", headers=right).status_code == 200
