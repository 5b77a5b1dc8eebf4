"""JSON lines in and out of the command `parse`: members are kept, faults told."""

import gzip
import io
import json
import sys

import pyarrow
import pytest
from pyarrow import parquet

import gpuparse
from gpuparse.commands import parse
from gpuparse.errors import ConfigError, DataError
from tests.synthetic import generate

MODEL = "english"
ROWS = [
    '{"lang": "en", "id": "a", "text": "She sings. He does not listen.", "n": 1.50e400}',
    '{"form": ["She", "sings"], "x": {"b": 1, "b": 2}, "feats": [null, {"A": "b"}]}',
    "",
    '  {"text": null, "k": "\\ud800", "big": ' + "9" * 5000 + "}\r",
    '{"tokens": [{"form": "Go", "head": 7}, {"form": "!"}], "id": 7, "trees": 0}',
    '{"text": "Stop."}',
    '{"form": null, "lemma": null}',
]


@pytest.fixture(scope="module")
def parser():
    return gpuparse.load(MODEL, threads=1)


def parsed(path, *words: object) -> int:
    options = ["--threads", 1, "--quiet", *words]
    return parse.main([MODEL, *map(str, [path, *options])])


def dicts(parsed: gpuparse.Parsed) -> list[dict]:
    return [sentence.to_dict() for sentence in parsed]


def lines_of(path) -> list[dict]:
    read = json.JSONDecoder(parse_int=lambda digits: int(digits[:20])).decode
    return [read(line) for line in path.read_text().splitlines()]


def test_lines_keep_their_members_and_get_those_of_a_sentence(parser, tmp_path):
    path, out = tmp_path / "d.jsonl", tmp_path / "o.jsonl"
    path.write_text("\ufeff" + "\n".join(ROWS))
    assert parsed(path, "-o", out) == 0
    found = lines_of(out)
    added = ["tokens", "multiword", "trees"]
    assert [list(line) for line in found] == [
        *[["lang", "id", "text", "n", *added]] * 2, ["form", "x", "feats", "id", "text", *added],
        ["text", "k", "big", "id", *added], ["tokens", "id", "trees", "text", "multiword"],
        ["text", "id", *added], ["form", "lemma", "id", "text", *added],
    ]  # fmt: skip
    assert [line["id"] for line in found] == ["a", "a", None, None, 7, "6-1-1", None]
    texts = ["She sings.", "He does not listen.", "She sings", "", "Go !", "Stop.", ""]
    assert [line["text"] for line in found] == texts
    raw = out.read_text().splitlines()
    kept = ['"n": 1.50e400,', '"x": {"b": 1, "b": 2},', '"big": ' + "9" * 5000 + ","]
    assert all(text in raw[i] for i, text in zip((0, 2, 3), kept, strict=True))
    of_text = dicts(parser.parse_text(["She sings. He does not listen."]))
    of_words = dicts(parser.parse([["She", "sings"], ["Go", "!"]]))
    for i, expected in zip((0, 1, 2, 4), [*of_text, *of_words], strict=True):
        assert {key: found[i][key] for key in added} == {key: expected[key] for key in added}
    assert found[1]["tokens"][0]["start"] == 11
    # The output is an input: the same trees of the same words.
    assert parsed(out, "-o", tmp_path / "again.jsonl") == 0
    again = [(line["text"], line["trees"]) for line in lines_of(tmp_path / "again.jsonl")]
    assert again == [(line["text"], line["trees"]) for line in found]


def test_heads_and_tags_of_lines_can_be_kept(tmp_path):
    path, out = tmp_path / "d.jsonl", tmp_path / "o.jsonl"
    lines = [
        {"form": ["a", "b", "c"], "upos": ["X", None, ""], "head": [2, None, 2]},
        {"tokens": [{"form": "a", "head": 2, "deprel": "obj"}, {"form": "b", "head": None}]},
        {"form": ["a", "b"], "head": [9, 0]},
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    with pytest.raises(DataError, match=r"d\.jsonl:3: "):
        parsed(path, "--keep", "heads", "-o", out)
    assert parsed(path, "--keep", "heads", "--keep", "tags", "-o", out, "--on-error", "keep") == 1
    first, second, third = lines_of(out)
    assert [t["head"] for t in first["tokens"]] == [2, 0, 2]
    assert first["tokens"][0]["upos"] == "X"
    assert [(t["head"], t["deprel"]) for t in second["tokens"]] == [(2, "obj"), (0, "root")]
    assert third == lines[2]
    path.write_text('{"text": "a"}')
    with pytest.raises(ConfigError, match=r"d\.jsonl:1: a text has no heads to keep"):
        parsed(path, "--keep", "heads", "--force", "-o", out)


FAULTS = {
    "[1]": "expected an object of JSON",
    "nonsense": "no JSON: Expecting value at column 1",
    '{"text": "a"} x': "there is more behind the object at column 14",
    '{"text": "a",}': "expected a key in double quotes at column 14",
    '{"text" 1}': "expected a colon",
    '{"text": "a" "b"}': "expected a comma or the end",
    '{"text": "a"': "expected a comma or the end",
    "{": "expected a key",
    '{"text": "a", "text": "b"}': "the key \"text\" is there twice",
    '{"text": NaN}': "NaN is no number of JSON",
    '{"text": 3}': "text: expected text, and not int 3",
    '{"text": "a", "id": [1]}': "id: expected text or a whole number, and not list",
    '{"text": "a", "id": "b\\n"}': "expected an identifier of printable",
    '{"text": "\\ud800"}': "an unpaired surrogate at 0",
    '{"text": "a\\u0000"}': "byte 1 of the text is NUL",
    '{"x": 1}': "an object without the key form",
    '{"form": "ab"}': "form: expected a list with a value per word, not str",
    '{"form": ["a", 1]}': "[1]: expected a word, not int 1",
    '{"form": ["a"], "upos": []}': "1 word in form, but 0 in upos",
    '{"form": ["a"], "upos": [' + "1" * 9999 + "]}": "[0]: upos: expected text, not float inf",
    '{"form": ["a", "\\udfff"]}': "[1]: form str",
    '{"form": ["a\\tb"]}': "has a tab, a line end or NUL",
    '{"x": ' + "[" * 100_000 + "}": "the JSON has more than 100 levels",
    '{"x": ' + "[" * 100 + "]" * 100 + "}": "the JSON has more than 100 levels",
    '{"text": "' + "a" * (1 << 20) + '"}': "the line has more than 1,048,576 bytes",
    b'{"text": "\xff"}': "byte 10 of the line is not UTF-8",
}  # fmt: skip


SOUND = b'{"form": ["She", "sings"]}\n'


def as_bytes(line: str | bytes) -> bytes:
    return line if isinstance(line, bytes) else line.encode()


@pytest.mark.parametrize("line", FAULTS)
def test_faulty_lines_are_told(tmp_path, line):
    path, out = tmp_path / "d.jsonl", tmp_path / "o.jsonl"
    path.write_bytes(SOUND + as_bytes(line) + b"\n\n" + SOUND)
    with pytest.raises(DataError) as error:
        parsed(path, "-o", out)
    assert str(error.value).startswith(f"{path}:2")
    assert FAULTS[line] in str(error.value)
    assert not out.exists()


def test_faulty_lines_are_left_out_or_kept(tmp_path, capsys):
    path, out, bad = tmp_path / "d.jsonl", tmp_path / "o.jsonl", list(map(as_bytes, FAULTS))
    path.write_bytes(b"".join(SOUND + line + b"\n\n" for line in bad))
    assert parsed(path, "-o", out, "--on-error", "skip") == 1
    assert str(path) not in capsys.readouterr().out
    expected = out.read_bytes()
    [sentence] = set(expected.splitlines())
    assert expected == (sentence + b"\n") * len(bad)
    assert parsed(path, "-o", out, "--on-error", "keep", "--force") == 1
    assert out.read_bytes() == b"".join(sentence + b"\n" + line + b"\n" for line in bad)
    assert parsed(path, "-o", out, "--on-error", "skip", "--force", "--shard", "all/3") == 1
    assert out.read_bytes() == expected


def test_all_ways_give_the_same_bytes(parser, tmp_path, monkeypatch, capfdbinary):
    path, expected = tmp_path / "d.jsonl", tmp_path / "o.jsonl"
    path.write_text("".join(f"{row}\n" for _ in range(30) for row in ROWS).replace("\r", ""))
    assert parsed(path, "-o", expected) == 0
    found = {}
    assert parsed(path, "-o", tmp_path / "s.jsonl", "--shard", "all/7") == 0
    found["shards"] = (tmp_path / "s.jsonl").read_bytes()
    (tmp_path / "d.ndjson.gz").write_bytes(gzip.compress(path.read_bytes()))
    assert parsed(tmp_path / "d.ndjson.gz", "-o", f"{tmp_path}/out/") == 0
    found["gzip"] = gzip.decompress((tmp_path / "out" / "d.ndjson.gz").read_bytes())
    (tmp_path / "unnamed").write_bytes(path.read_bytes())
    assert parsed(tmp_path / "unnamed") == 0
    found["unnamed"] = capfdbinary.readouterr().out
    for words in ([], ["--input", "jsonl"]):
        stdin = io.TextIOWrapper(io.BufferedReader(io.BytesIO(path.read_bytes())))
        monkeypatch.setattr(sys, "stdin", stdin)
        assert parsed("-", *words) == 0
        found[f"pipe {words}"] = capfdbinary.readouterr().out
    counts = parser.parse_file(path, tmp_path / "p.jsonl")
    assert counts == (210, 0)
    found["parse_file"] = (tmp_path / "p.jsonl").read_bytes()
    assert [way for way, content in found.items() if content != expected.read_bytes()] == []
    trees = [sentence.to_dict()["trees"] for sentence in parser.stream(path)]
    assert trees == [line["trees"] for line in lines_of(expected)]
    with pytest.raises(ConfigError, match="shards are not compressed"):
        parsed(path, "-o", tmp_path / "x.jsonl.gz", "--shard", "all/2")


def test_other_inputs_are_written_as_json_lines(parser, tmp_path, capfd):
    named = generate(20, 3)
    text = b"".join(line for line in named.splitlines(True) if b"# sent_id" not in line)
    (tmp_path / "a.conllu").write_bytes(text)
    expected = dicts(parser.parse(text))
    for line in expected:
        line["id"] = None  # the input has no sent_id
    assert parsed(tmp_path / "a.conllu", "-o", tmp_path / "a.jsonl") == 0
    assert lines_of(tmp_path / "a.jsonl") == expected
    assert parsed(tmp_path / "a.conllu", "--format", "jsonl") == 0
    assert capfd.readouterr().out == (tmp_path / "a.jsonl").read_text()
    assert parsed(tmp_path / "a.conllu", "--format", "jsonl", "-o", f"{tmp_path}/out/") == 0
    assert lines_of(tmp_path / "out" / "a.jsonl") == expected
    assert parsed(tmp_path / "a.conllu", "-o", tmp_path / "s.jsonl", "--shard", "all/3") == 0
    assert lines_of(tmp_path / "s.jsonl") == expected
    (tmp_path / "t.txt").write_text("She sings.\n\nHe listens.\n")
    assert parsed(tmp_path / "t.txt", "-o", tmp_path / "t.jsonl", "--kbest", 2) == 0
    first, second = lines_of(tmp_path / "t.jsonl")
    assert (first["id"], second["text"], len(first["trees"])) == ("1-1", "He listens.", 2)
    assert parsed(tmp_path / "a.jsonl", "-o", tmp_path / "b.conllu") == 0
    words = [token["form"] for line in expected for token in line["tokens"]]
    assert [s.form for p in gpuparse.read(tmp_path / "b.conllu") for s in p] == words


def test_rows_of_a_table_are_written_as_json_lines(parser, tmp_path):
    table = pyarrow.table(
        {"id": [5, 6], "form": [["She", "sings"], None], "when": pyarrow.array([0, 1], "date32"),
         "x": [float("nan"), 1.5], "b": [b"\xff", None], "m": [{"a": float("inf")}, None]}
    )  # fmt: skip
    parquet.write_table(table, tmp_path / "t.parquet")
    assert parsed(tmp_path / "t.parquet", "-o", tmp_path / "t.jsonl") == 0
    first, second = lines_of(tmp_path / "t.jsonl")
    kept = {"id": 5, "form": ["She", "sings"], "when": "1970-01-01", "x": None, "b": "/w==",
            "m": {"a": None}}  # fmt: skip
    assert {key: first[key] for key in kept} == kept
    trees = parser.parse([["She", "sings"]])[0].to_dict()["trees"]
    assert (first["trees"], second["tokens"]) == (trees, [])
    assert parsed(tmp_path / "t.parquet", "-o", tmp_path / "s.jsonl", "--shard", "all/2") == 0
    assert (tmp_path / "s.jsonl").read_bytes() == (tmp_path / "t.jsonl").read_bytes()
    texts = pyarrow.table({"text": ["She sings. Stop.", "c\0", None], "n": [1, 2, 3]})
    parquet.write_table(texts, tmp_path / "d.parquet")
    words = ["-o", tmp_path / "d.jsonl", "--on-error", "keep"]
    assert parsed(tmp_path / "d.parquet", *words) == 1
    found = lines_of(tmp_path / "d.jsonl")
    assert [(line["text"], line["n"], "tokens" in line) for line in found] == [
        ("She sings.", 1, True), ("Stop.", 1, True), ("", 2, False), ("", 3, True)
    ]  # fmt: skip


def test_json_is_not_parsed_as_prose_in_silence(parser, tmp_path, capfd, monkeypatch):
    line = '{"name": "x", "body": "She sings."}'
    for name in ("a.txt", "a", "a.conllu"):
        (tmp_path / name).write_text(f"\n{line}\n")
        with pytest.raises(DataError, match=r"first line is an object of JSON without the key fo"):
            parsed(tmp_path / name)
        with pytest.raises(DataError, match=r"prose, give --input text"):
            next(parser.stream(tmp_path / name))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(line.encode())))
    with pytest.raises(DataError, match=r"<stdin>: the first line is an object of JSON without"):
        parsed("-")
    capfd.readouterr()
    for kind in ("text", "lines"):
        assert parse.main([MODEL, str(tmp_path / "a.txt"), "--input", kind]) == 0
        said = capfd.readouterr().err
        assert (
            f"a.txt: the first line is an object of JSON: read as {kind}, as --input says" in said
        )
        with pytest.warns(UserWarning, match=f"is an object of JSON: read as {kind}") as warned:
            next(parser.stream(tmp_path / "a.txt", input=kind))
        assert warned[0].filename == __file__  # the line of the user's program
    (tmp_path / "a.txt").write_text('{"text": "She sings."}\n' * 2)
    assert parse.main([MODEL, str(tmp_path / "a.txt")]) == 0
    told = capfd.readouterr()
    assert "a.txt: the first line is an object of JSON: read as JSON lines" in told.err
    assert [json.loads(line)["text"] for line in told.out.splitlines()] == ["She sings."] * 2
    (tmp_path / "b.txt").write_text("{She} sings.\n{\n")
    assert parse.main([MODEL, str(tmp_path / "b.txt")]) == 0
    assert "JSON" not in capfd.readouterr().err


def test_names_of_outputs_say_what_is_written(parser, tmp_path):
    (tmp_path / "a.txt").write_text("She sings.")
    for name in ("x.json", "x.csv", "x.xml.gz", "x.parquet", "x.arrow", "x.txt", "x.conllu.xz"):
        with pytest.raises(
            ConfigError, match=r"conllu or jsonl, and .* ends in \.conllu or \.jsonl"
        ):
            parsed(tmp_path / "a.txt", "-o", tmp_path / name)
        with pytest.raises(ConfigError, match=r"x\.[a-z.]+: the output is conllu or jsonl"):
            parser.parse_file(tmp_path / "a.txt", tmp_path / name)
        with pytest.raises(ConfigError, match=r"x\.[a-z.]+: the output is conllu or jsonl"):
            parsed("-", "-o", tmp_path / name)
    with pytest.raises(ConfigError, match=r"the output is conllu, and \.jsonl says otherwise"):
        parsed(tmp_path / "a.txt", "-o", tmp_path / "x.jsonl", "--format", "conllu")
    for name in ("x", "x.out", "x.dep", "x.conll", "x.gz"):
        assert parsed(tmp_path / "a.txt", "-o", tmp_path / name) == 0
    parquet.write_table(pyarrow.table({"form": [["a"]]}), tmp_path / "t.parquet")
    with pytest.raises(ConfigError, match=r"ends in \.parquet or \.jsonl"):
        parsed(tmp_path / "t.parquet", "-o", tmp_path / "x.conllu")
    with pytest.raises(ConfigError, match=r"--format conllu: an input of parquet can be written"):
        parsed(tmp_path / "t.parquet", "--format", "conllu")
    (tmp_path / "d.jsonl").write_text('{"text": "a"}')
    with pytest.raises(ConfigError, match=r"the outputs would be conllu and jsonl"):
        parsed(tmp_path / "a.txt", tmp_path / "d.jsonl")


def test_options_that_json_lines_cannot_show_are_refused(parser, tmp_path):
    (tmp_path / "a.txt").write_text("She sings.")
    (tmp_path / "d.jsonl").write_text('{"text": "a"}')
    for words in (["--ranges"], ["--deps", "tree"]):
        with pytest.raises(ConfigError, match=f"{words[0]}.*: JSON lines have no DEPS and MISC"):
            parsed(tmp_path / "a.txt", "--format", "jsonl", *words)
    with pytest.raises(ConfigError, match="JSON lines have no DEPS"):
        parser.parse_file(tmp_path / "a.txt", tmp_path / "x.jsonl", deps="tree")
    for source, words in (("a.txt", ["--format", "jsonl"]), ("d.jsonl", ["--format", "conllu"])):
        with pytest.raises(ConfigError, match="cannot be passed through into"):
            parsed(tmp_path / source, *words, "--on-error", "keep")
    with pytest.raises(ConfigError, match=r"--guide misc:KEY for tables and JSON lines"):
        parsed(tmp_path / "d.jsonl", "--guide", tmp_path / "a.txt")
