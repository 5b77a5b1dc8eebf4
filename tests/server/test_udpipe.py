"""The interface of UDPipe 2's service: fields, formats, errors as plain text."""

import email.mime.multipart
import email.mime.nonmultipart
import email.policy

import pytest

ALL = {"tokenizer": "", "tagger": "", "parser": ""}


def result(client, **fields) -> str:
    answer = client.post("/process", data=fields)
    assert answer.status_code == 200, answer.text
    assert list(answer.json()) == ["model", "acknowledgements", "result"]
    return answer.json()["result"]


def test_models(client):
    wanted = {
        "models": {name: ["tokenizer", "tagger", "parser"] for name in ("first", "quick")},
        "default_model": "first",
    }
    assert client.get("/models").json() == wanted
    assert client.post("/models").json() == wanted


def test_the_result_is_that_of_the_command(client, trained):
    text = "\n\n".join(trained.paragraphs())
    wanted = trained.command(text.encode(), "text")
    assert result(client, data=text, **ALL) == wanted
    files = {name: (None, value) for name, value in ({"data": text} | ALL).items()}
    assert client.post("/process", files=files).json()["result"] == wanted
    assert client.get("/process", params={"data": text[:500]} | ALL).json()["result"] == (
        trained.command(text[:500].encode(), "text")
    )
    given = trained.conllu.decode()
    wanted = trained.command(trained.conllu, "conllu")
    assert result(client, data=given, tagger="", parser="", model="quick") == wanted
    wanted = trained.command(trained.conllu, "conllu", "--keep", "tags")
    assert result(client, data=given, parser="") == wanted


def test_rare_spaces_are_as_they_are_in_the_text(client, trained):
    """UDPipe does not escape them; other doors do, so that programs keep them."""
    text = "The\u00a0dogs\u3000sleep .\u2028\n"
    found, escaped = result(client, data=text, **ALL), trained.command(text.encode(), "text")
    spaces = [f"SpacesAfter={each}\n" for each in ("\u00a0", "\u3000", "\u2028\\n")]
    assert [each in found for each in spaces] == [True] * 3
    rows = [f"SpacesAfter={each}\n" for each in ("\\u00A0", "\\u3000", "\\u2028\\n")]
    assert [each in escaped for each in rows] == [True] * 3
    for before, after in zip(rows, spaces, strict=True):
        escaped = escaped.replace(before, after)
    assert found == escaped
    row = "1\tHi\t_\tX\t_\t_\t_\t_\t_\tSpacesAfter=\\u00A0\n\n"
    assert "SpacesAfter=\\u00A0\n" in result(client, data=row, tagger="", parser="")  # MISC stays


def test_a_form_of_the_standard_library_is_read(client, trained):
    """As the client of UDPipe makes it."""
    message = email.mime.multipart.MIMEMultipart("form-data", policy=email.policy.HTTP)
    for name, value in ({"data": "The dogs sleep.\r\nÆ\n"} | ALL).items():
        part = email.mime.nonmultipart.MIMENonMultipart("text", "plain")
        part.add_header("Content-Disposition", f'form-data; name="{name}"')
        part.add_header("Content-Transfer-Encoding", "8bit")
        part.set_payload(value, charset="utf-8")
        message.attach(part)
    body = message.as_bytes().split(b"\r\n\r\n", maxsplit=1)[1]
    headers = {"content-type": message["Content-Type"]}
    answer = client.post("/process", content=body, headers=headers)
    rows = answer.json()["result"].splitlines()
    forms = [row.split("\t")[1] for row in rows if row[:1].isdigit()]
    assert forms[:3] == ["The", "dogs", "sleep"]
    assert any("\tÆ\t" in row for row in rows)


def test_stages_that_are_not_asked_for_do_nothing(client, trained):
    given = trained.conllu.decode()
    assert result(client, data=given) == given
    tagged = result(client, data=given, tagger="")
    heads = [line.split("\t")[6:8] for line in given.splitlines() if line[:1].isdigit()]
    assert [line.split("\t")[6:8] for line in tagged.splitlines() if line[:1].isdigit()] == heads
    words = result(client, data="The dogs sleep.", tokenizer="")
    rows = [line.split("\t") for line in words.splitlines() if line[:1].isdigit()]
    assert [row[2:8] for row in rows] == [["_"] * 6] * 4


def test_formats(client):
    text = "The dogs sleep. She sings.\n\nNo."
    assert result(client, data="The dogs\n\nShe", input="horizontal", output="vertical") == (
        "The\ndogs\n\nShe\n\n"
    )
    assert result(client, data="The\ndogs\n\nShe\n", input="vertical", output="horizontal") == (
        "The dogs\nShe\n"
    )
    plain = result(client, data=text, input="generic_tokenizer", output="plaintext")
    assert plain.replace("\n", " ").split() == text.split()
    assert not plain.startswith("\n")
    lines = result(client, data="One two.\nThree\n", tokenizer="presegmented", output="horizontal")
    assert lines == "One two .\nThree\n"
    ranged = result(client, data="One two", tokenizer="ranges")
    assert "TokenRange=4:7" in ranged


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, "The parameter 'data' is required."),
        ({"data": "", "model": "nobody"}, "The requested model 'nobody' does not exist."),
        ({"data": "", "model": "../quick"}, "The requested model '../quick' does not exist."),
        ({"data": "", "output": "epe"}, "Unknown output format 'epe'"),
        ({"data": "", "input": "epe"}, "Cannot parse the input in 'epe' format"),
        ({"data": "", "tokenizer": "joint"}, "Unknown option of the tokenizer 'joint'"),
        ({"data": "", "tagger": "fast"}, "Unknown option of the tagger 'fast'"),
        ({"data": "no CoNLL-U\n\n"}, "data:1"),
        ({"data": "a\0b", "tokenizer": ""}, "NUL"),
    ],
)
def test_errors_are_plain_text(fields, message, client):
    answer = client.post("/process", data=fields or {"model": ""})
    assert answer.status_code == 400
    assert answer.headers["content-type"].startswith("text/plain")
    assert message in answer.text


MULTIPART = "multipart/form-data; boundary=a"
ENCODED = "application/x-www-form-urlencoded"
PART = b'--a\r\nContent-Disposition: form-data; name="data"\r\n\r\n'


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"x", "text/plain"),
        (b"x", "multipart/form-data"),
        (b"x", MULTIPART),
        (b"--a\r\n\r\nx\r\n--a--", MULTIPART),
        (PART + b"x", MULTIPART),
        (PART + b"\xff\r\n--a--\r\n", MULTIPART),
        (b"--a\r\n" * 300, MULTIPART),
        (b"data=%ff", ENCODED),
        (b"data=\xff", ENCODED),
        (b"a=1&" * 200, ENCODED),
    ],
)
def test_bad_forms_are_refused(body, kind, client):
    answer = client.post("/process", content=body, headers={"content-type": kind})
    assert answer.status_code == 400
    assert answer.text
