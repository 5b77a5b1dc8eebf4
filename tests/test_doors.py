"""One law for all doors: the same input and the same options give the same bytes.

The doors are the command, its shards, its engines, `parse`, `parse_text`, `stream`, `parse_file`,
`WorkerParser` and the service, for tables also of batches. `train` of Python learns what the
command learns.
"""

import gzip
import io
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pyarrow
import pytest
from pyarrow import parquet
from starlette.testclient import TestClient

import gpuparse
from gpuparse.api.workers import WorkerParser
from gpuparse.commands import parse, train
from gpuparse.data.conll import treebank_from_bytes
from gpuparse.data.formats.streams import opened
from gpuparse.errors import ConfigError, DataError
from gpuparse.server.app import Limits, Service, make_app
from gpuparse.server.models import load_models
from tests.runs import model_files
from tests.samples import without
from tests.small_stages import small_stages
from tests.synthetic import generate, treebank_file

pytestmark = pytest.mark.filterwarnings("ignore:.*not calibrated")

KEYS = {
    "features": "mcdonald-2005", "decoder": "chu_liu_edmonds", "threads": 1, "device": "cpu",
    "data.dev": treebank_file(20, 2), "feature_map.rows": 65537, "labels.rows": 16384,
    "learning.epochs": 2, "labels.epochs": 1,
    **{f"{stage}.learn": True for stage in ("tokenizer", "tagger", "lemmatizer")},
    "tagger.folds": 2,
}  # fmt: skip
# Options of the command, and arguments of Python.
OPTIONS = {
    "": ([], {}),
    "probabilities": (["--probabilities"], {"probabilities": True}),
    "mbr": (["--mbr"], {"mbr": True}),
    "k best": (["--kbest", "3"], {"kbest": 3}),
    "k best with probabilities": (
        ["--kbest", "2", "--probabilities"], {"kbest": 2, "probabilities": True}
    ),
    "deps": (["--deps", "tree"], {"deps": "tree"}),
    "kept heads": (["--keep", "heads"], {"keep_heads": True}),
    "kept tags": (["--keep", "tags"], {"keep": "tags"}),
    "kept tags, probabilities": (
        ["--keep", "tags", "--probabilities"], {"keep": "tags", "probabilities": True}
    ),
    "single root": (["--single-root"], {"single_root": True}),
}  # fmt: skip
OF_COLUMNS = ("kept heads", "kept tags", "kept tags, probabilities")
KINDS = ("tagged.conllu", "words.conllu", "some.conllu", "text.txt", "words.vert", "sent.lines")
NAMES = {  # of outputs
    "text.txt": "text.conllu", "words.vert": "words.vert.conllu",
    "sent.lines": "sent.lines.conllu",
}  # fmt: skip
INPUTS = {".vert": "vertical", ".lines": "lines"}  # what no suffix says
TABLES = ("table.parquet", "table.arrow")


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Iterator[SimpleNamespace]:
    """A model with all stages, a service with it, and one text in all formats."""
    folder = tmp_path_factory.mktemp("doors")
    (folder / "train.conllu").write_bytes(generate(100, 1))
    model = folder / "model"
    with small_stages(epochs=1):
        gpuparse.train(KEYS | {"data.train": folder / "train.conllu", "output": model}, quiet=True)
    (folder / "in").mkdir()
    tagged = generate(20, 3)
    (folder / "in" / "tagged.conllu").write_bytes(tagged)
    (folder / "in" / "few.conllu").write_bytes(generate(5, 3))
    (folder / "in" / "words.conllu").write_bytes(without(tagged, *range(2, 9)))
    rows = enumerate(tagged.split(b"\n"))
    some = (row if number % 3 else without(row, *range(2, 8)) for number, row in rows)
    (folder / "in" / "some.conllu").write_bytes(b"\n".join(some))
    treebank = treebank_from_bytes(tagged, "tagged")
    text = "\n\n".join(" ".join(sentence.forms) for sentence in treebank)
    (folder / "in" / "text.txt").write_text(text)
    lines = ["\n".join(sentence.forms) + "\n" for sentence in treebank]
    (folder / "in" / "words.vert").write_text("\n".join(lines))
    (folder / "in" / "sent.lines").write_text(text.replace("\n\n", "\n\n\n") + "\n")
    table = pyarrow.table(
        {
            "page": list(range(len(treebank))), "form": [s.forms for s in treebank],
            "upos": [s.cpos for s in treebank], "xpos": [s.pos for s in treebank],
            "head": [list(s.heads) for s in treebank], "deprel": [s.labels for s in treebank],
            "deps": [["9:x"] * len(s.forms) for s in treebank],
        }
    )  # fmt: skip
    parquet.write_table(table, folder / "in" / "table.parquet")
    with pyarrow.ipc.new_file(str(folder / "in" / "table.arrow"), table.schema) as writer:
        writer.write_table(table)
    parser, with_one_root = (
        gpuparse.load(model, threads=1, single_root=single_root) for single_root in (False, True)
    )
    app = make_app(Service(load_models([str(model)], threads=1, device="cpu"), Limits()))
    with TestClient(app) as client:
        yield SimpleNamespace(
            folder=folder, model=model, table=table, parser=parser, with_one_root=with_one_root,
            client=client,
        )  # fmt: skip


def loaded(made, options: dict) -> tuple[gpuparse.SentenceParser, dict]:
    """The parser of options that `load` takes, and those that `parse` takes."""
    of_parse = {key: value for key, value in options.items() if key != "single_root"}
    return made.parser if of_parse == options else made.with_one_root, of_parse


def by_command(made, name: str, words: list[str], folder) -> bytes:
    arguments = [made.model, made.folder / "in" / name, *words, "--output", f"{folder}/", "--quiet"]
    if suffix := INPUTS.get(Path(name).suffix):
        arguments += ["--input", suffix]
    assert parse.main([str(word) for word in arguments]) == 0
    [file] = [path for path in folder.iterdir() if not path.name.endswith(".done")]
    return file.read_bytes()


class Case(NamedTuple):
    """An input of a test, the options of the command, and those of Python."""

    made: SimpleNamespace
    name: str
    words: list[str]
    options: dict[str, Any]
    folder: Path

    @property
    def kind(self) -> dict[str, str]:
        suffix = Path(self.name).suffix
        return {"input": INPUTS[suffix]} if suffix in INPUTS else {}

    @property
    def source(self) -> Path:
        return self.made.folder / "in" / self.name

    def command(self, *words: str) -> bytes:
        folder = self.folder / " ".join(["command", *words]).replace("/", " of ")
        return by_command(self.made, self.name, [*self.words, *words], folder)

    def python(self) -> tuple[gpuparse.SentenceParser, dict[str, Any]]:
        return loaded(self.made, self.options)


def in_small_batches(case: Case) -> bytes:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parse, "default_batch_size", lambda device: 3)
        return case.command("--threads", "3")


def by_file(case: Case) -> bytes:
    parser, options = case.python()
    parser.parse_file(case.source, case.folder / "file", **options, **case.kind)
    return (case.folder / "file").read_bytes()


def by_stream(case: Case) -> bytes:
    parser, options = case.python()
    streamed = parser.stream(case.source, **options, **case.kind)
    return "".join(sentence.to_conllu() for sentence in streamed).encode()


def by_parse(case: Case) -> bytes:
    parser, options = case.python()
    if case.name.endswith(".txt"):
        return parser.parse_text(case.source.read_text(), **options).to_conllu().encode()
    return parser.parse(case.source.read_bytes(), **options).to_conllu().encode()


def by_worker(case: Case) -> bytes:
    target = case.folder / "files" / "of worker"
    WorkerParser(case.made.model, **case.options).file(case.source, target, **case.kind)
    return target.read_bytes()


def by_service(case: Case) -> bytes:
    content = case.source.read_text(encoding="utf-8")
    given = {"text" if case.name.endswith(".txt") else "conllu": content, **case.options}
    answer = case.made.client.post("/api/parse", json=given)
    assert answer.status_code == 200, answer.text
    return answer.json()["conllu"].encode()


# A door, the inputs that it takes here, and the options that it has not.
ENDS, SHARDED = (".conllu", ".txt", ".vert", ".lines"), ("some.conllu", "text.txt")
NO_TORCH = ("probabilities", "mbr", "kbest")
DOORS = {
    "shards": (lambda case: case.command("--shard", "all/3"), SHARDED, ()),
    "threads and batches": (in_small_batches, SHARDED, ()),
    "torch": (lambda case: case.command("--engine", "torch"), SHARDED, NO_TORCH),
    "parse_file": (by_file, ENDS, ()),
    "stream": (by_stream, ENDS, ()),
    "parse": (by_parse, (".conllu", ".txt"), ()),
    "WorkerParser": (by_worker, ENDS, ()),
    "service": (by_service, SHARDED, ("deps", "keep_heads", "single_root")),
}


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("what", OPTIONS)
def test_case_45_all_doors_give_the_same_bytes(made, tmp_path, name, what):
    words, options = OPTIONS[what]
    if what in OF_COLUMNS and not name.endswith(".conllu"):
        pytest.skip("an option about columns, which the input has not")
    case = Case(made, name, words, options, tmp_path)
    expected = case.command()
    [output] = (tmp_path / "command").iterdir()
    assert output.name == NAMES.get(name, name)
    found = {
        door: call(case) == expected
        for door, (call, names, lacks) in DOORS.items()
        if name.endswith(names) and not options.keys() & set(lacks)
    }
    assert found == dict.fromkeys(found, True)


@pytest.mark.triton
@pytest.mark.parametrize("name", ["few.conllu"])
def test_case_45_kernels_give_the_same_bytes(made, tmp_path, name):
    """Where there is no GPU, an interpreter takes a second per sentence."""
    case = Case(made, name, [], {}, tmp_path)
    assert case.command("--engine", "triton") == case.command()


@pytest.mark.gpu
def test_case_45_a_gpu_gives_the_same_bytes(made, tmp_path):
    if not pytest.importorskip("torch").cuda.is_available():
        pytest.skip("no CUDA device on this machine")
    case = Case(made, "tagged.conllu", [], {}, tmp_path)
    assert case.command("--device", "cuda") == case.command()


def test_the_same_words_get_the_same_columns_in_all_formats(made, tmp_path):
    found = {name: read_columns(by_command(made, name, [], tmp_path / name)) for name in KINDS}
    assert [name for name in KINDS if found[name] != found["words.conllu"]] == []


def read_columns(text: bytes) -> list[list[str]]:
    """All columns of the words of a CoNLL-U file but DEPS and MISC."""
    rows = [line.split("\t") for line in text.decode().split("\n")]
    return [row[:8] for row in rows if row[0].isdigit()]


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("what", [what for what in OPTIONS if "k best" not in what])
def test_all_doors_give_the_same_tables(made, tmp_path, name, what):
    words, options = OPTIONS[what]
    source = made.folder / "in" / name
    expected = by_command(made, name, words, tmp_path / "out")
    for way in (["--shard", "all/2"], ["--threads", "3"]):
        assert by_command(made, name, [*words, *way], tmp_path / way[0]) == expected
    parser, of_parse = loaded(made, options)
    parser.parse_file(source, tmp_path / "file", **of_parse)
    assert (tmp_path / "file").read_bytes() == expected
    read = parquet.read_table if name.endswith(".parquet") else read_arrow
    table = read(tmp_path / "file")
    # As text, in which NaN, the probability of given tags, is equal to itself.
    values = str(table.to_pydict())
    assert str(parser.parse(made.table, **of_parse).to_arrow().to_pydict()) == values
    heads = [sentence.heads for sentence in parser.stream(source, **of_parse)]
    assert heads == table.column("head").to_pylist()
    assert table.column_names.count("deps") == 1
    if what != "deps":
        assert set(sum(table.column("deps").to_pylist(), [])) == {None}  # noqa: RUF017
    of_worker = WorkerParser(made.model, **options)
    of_worker.file(source, tmp_path / "files" / name)
    assert (tmp_path / "files" / name).read_bytes() == expected
    if name == TABLES[0]:
        assert str(of_worker(made.table).to_pydict()) == values


def read_arrow(path):
    return pyarrow.ipc.open_file(str(path)).read_all()


@pytest.mark.parametrize("name", ["text.txt", "words.vert"])
def test_all_doors_refuse_what_the_input_has_not(made, tmp_path, name):
    kind = {"input": "vertical"} if name.endswith(".vert") else {}
    words = ["--input", "vertical"] if kind else []
    source, parser = made.folder / "in" / name, gpuparse.load(made.model)
    for option, argument in (
        (["--keep", "tags"], {"keep": "tags"}), (["--keep", "heads"], {"keep_heads": True}),
        (["--on-error", "keep"], {"on_error": "keep"}),
    ):  # fmt: skip
        with pytest.raises(ConfigError, match=r"has no columns|cannot be passed through"):
            parse.main([str(made.model), str(source), *words, *option])
        with pytest.raises(ConfigError, match=r"has no columns|cannot be passed through"):
            parser.parse_file(source, tmp_path / "out", **argument, **kind)
        if "on_error" not in argument:
            with pytest.raises(ConfigError, match="has no columns"):
                parser.stream(source, **argument, **kind)
    with pytest.raises(ConfigError, match="input: expected auto, text, lines, vertical,"):
        parser.stream(source, input="html")


@pytest.mark.parametrize("name", ["tagged.conllu", "text.txt", "words.vert"])
@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_compressed_files_have_the_bytes_of_others(made, tmp_path, name, suffix):
    pack, unpack = packers(suffix)
    source = tmp_path / f"{name}{suffix}"
    source.write_bytes(pack((made.folder / "in" / name).read_bytes()))
    expected = by_command(made, name, [], tmp_path / "plain")
    words = ["--input", "vertical"] if name.endswith(".vert") else []
    kind = {"input": "vertical"} if words else {}
    of_name = NAMES.get(name, name) + suffix
    for target in (tmp_path / "out", tmp_path / "again"):
        arguments = [str(made.model), str(source), *words, "--output", f"{target}/", "--quiet"]
        assert parse.main(arguments) == 0
        assert unpack((target / of_name).read_bytes()) == expected
    assert (tmp_path / "out" / of_name).read_bytes() == (tmp_path / "again" / of_name).read_bytes()
    parser = gpuparse.load(made.model, threads=1)
    parser.parse_file(source, tmp_path / "file", **kind)
    assert (tmp_path / "file").read_bytes() == expected
    streamed = parser.stream(source, **kind)
    assert "".join(s.to_conllu() for s in streamed).encode() == expected
    WorkerParser(made.model).file(source, tmp_path / "files" / of_name, **kind)
    assert unpack((tmp_path / "files" / of_name).read_bytes()) == expected
    half = tmp_path / f"half-{name}{suffix}"
    half.write_bytes(source.read_bytes()[:-20])
    with pytest.raises(DataError, match=rf"half-{name}{suffix}: cannot be decompressed: "):
        parser.parse_file(half, tmp_path / "none", **kind)
    assert not (tmp_path / "none").exists()
    with pytest.raises(ConfigError, match="a compressed file cannot be cut"):
        parse.main([str(made.model), str(source), *words, "-o", f"{tmp_path}/x", "--shard", "1/2"])


def packers(suffix: str):
    if suffix == ".gz":
        # Two streams after each other are one.
        return lambda data: gzip.compress(data[:900]) + gzip.compress(data[900:]), gzip.decompress
    zstandard = pytest.importorskip("zstandard")

    def unpack(data: bytes) -> bytes:
        reader = zstandard.ZstdDecompressor().stream_reader(io.BytesIO(data))
        return reader.read()

    return lambda data: zstandard.compress(data[:900]) + zstandard.compress(data[900:]), unpack


def test_zeros_behind_a_gzip_file_are_passed_over():
    text = b"1\n" * 2000
    for n_zeros in (1, 400, 1024, 5000):
        padded = gzip.compress(text) + bytes(n_zeros)
        assert opened(io.BytesIO(padded), "a.gz").read() == text
        assert opened(io.BytesIO(padded + gzip.compress(text)), "a.gz").read() == 2 * text
        for wrong in (padded + b"x", bytes(n_zeros) + padded):
            with pytest.raises(DataError, match=r"a\.gz: cannot be decompressed"):
                opened(io.BytesIO(wrong), "a.gz").read()


def test_a_folder_is_parsed_by_all_doors(made, tmp_path):
    source = tmp_path / "in"
    (source / "below").mkdir(parents=True)
    for name, place in (("text.txt", source), ("tagged.conllu", source / "below")):
        (place / name).write_bytes((made.folder / "in" / name).read_bytes())
    (source / ".hidden").write_bytes(b"no CoNLL-U")
    arguments = [str(made.model), str(source), "--output", str(tmp_path / "out"), "--quiet"]
    assert parse.main(arguments) == 0
    outputs = {"text.conllu": "text.txt", "below/tagged.conllu": "tagged.conllu"}
    parser = gpuparse.load(made.model, threads=1)
    counts = parser.parse_file(source, tmp_path / "python")
    for output, name in outputs.items():
        expected = by_command(made, name, [], tmp_path / name)
        assert (tmp_path / "out" / output).read_bytes() == expected
        assert (tmp_path / "python" / output).read_bytes() == expected
    found = list(parser.stream(source))
    assert counts == (len(found), 0)
    with pytest.raises(ConfigError, match="is a folder: give --output FOLDER"):
        parse.main([str(made.model), str(source)])
    with pytest.raises(ConfigError, match="name another folder for the output"):
        parser.parse_file(source, source / "out")


def test_documents_of_all_doors_have_the_sentences_of_their_texts(made, tmp_path):
    whole = (made.folder / "in" / "text.txt").read_text().split("\n\n")
    texts = ["\n\n".join(whole[:5]), None, " ".join(whole[5:11]), "", whole[11]]
    names = ["a", "b", "c", "d", "e"]
    parser = gpuparse.load(made.model, threads=1)
    alone = {
        name: [sentence.heads for sentence in parser.parse_text(text or "")]
        for name, text in zip(names, texts, strict=True)
    }
    there = [name for name, heads in alone.items() if heads]
    table = pyarrow.table({"id": names, "n": range(5), "text": texts})
    parquet.write_table(table, tmp_path / "docs.parquet")
    arguments = [str(made.model), str(tmp_path / "docs.parquet"), "--quiet", "--output"]
    assert parse.main([*arguments, f"{tmp_path}/out.parquet"]) == 0
    assert parse.main([*arguments, f"{tmp_path}/shards.parquet", "--shard", "all/2"]) == 0
    expected = (tmp_path / "out.parquet").read_bytes()
    assert (tmp_path / "shards.parquet").read_bytes() == expected
    parser.parse_file(tmp_path / "docs.parquet", tmp_path / "file.parquet")
    assert (tmp_path / "file.parquet").read_bytes() == expected
    rows = parquet.read_table(tmp_path / "out.parquet").to_pydict()
    found = {name: [] for name in names}
    for name, number, heads in zip(rows["id"], rows["n"], rows["head"], strict=True):
        assert names[number] == name
        found[name] += [heads] if heads else []
    assert found == alone
    first = parser.parse_text(texts[0])[0].to_conllu()
    assert f"# text = {rows['text'][0]}\n" in first
    of_list = parser.parse_text([text or "" for text in texts], ids=names)
    for of_door in (
        of_list, parser.parse(table), parser.parse(table.to_pandas()),
    ):  # fmt: skip
        trees = {name: [s.heads for s in found] for name, found in of_door.documents.items()}
        assert trees == alone
        assert list(trees) == names  # each text, in order
    with pytest.raises(DataError, match=r"ids\[2\]: 'a' is the name of texts\[0\] too; rename one"):
        parser.parse_text(["A.", "", "B."], ids=["a", "b", "a"])
    same = parser.parse(pyarrow.table({"id": ["a", "b", "b"], "text": ["A.", "B.", "C."]}))
    assert same.to_arrow()["id"].to_pylist() == ["a", "b", "b"]  # rows keep their places
    with pytest.raises(DataError, match="documents 1 and 2 are both named 'b'; rename one"):
        same.documents  # noqa: B018 (it is computed)
    assert str(parser.parse(table).to_arrow().to_pydict()) == str(rows)
    assert str(WorkerParser(made.model)(table).to_pydict()) == str(rows)
    streamed = [(s.document, s.heads) for s in parser.stream(tmp_path / "docs.parquet") if len(s)]
    assert streamed == [(name, heads) for name in names for heads in alone[name]]
    text = of_list.to_conllu()
    assert [line for line in text.split("\n") if line.startswith("# newdoc")] == [
        f"# newdoc id = {name}" for name in there
    ]
    assert "# sent_id = c-1-1" in text
    bad = table.set_column(2, "text", pyarrow.array(["A\0b.", "c.", "d.", "e.", "f."]))
    nulls = WorkerParser(made.model, on_error="keep")(bad).to_pydict()
    assert [heads is None for heads in nulls["head"]] == [True, False, False, False, False]
    with pytest.raises(DataError, match=r"row 0 of a batch of 5 rows: byte 1 of the text is NUL"):
        WorkerParser(made.model)(bad)
    with pytest.raises(DataError, match=r"texts\[0\]: byte 1 of the text is NUL"):
        parser.parse_text(["A\0b."])
    with pytest.raises(ConfigError, match="no heads to keep"):
        parser.parse(table, keep_heads=True)


@pytest.mark.parametrize("name", ["tagged.conllu", "text.txt", "words.vert", "sent.lines"])
def test_answers_come_while_a_pipe_is_open(made, monkeypatch, capfdbinary, name):
    kind = INPUTS.get(Path(name).suffix, "text" if name.endswith(".txt") else "conllu")
    content = (made.folder / "in" / name).read_bytes()
    ends = b"\n" if kind == "lines" else b"\n\n"
    parts = [part + ends for part in content.split(ends) if part.strip()][:3]
    answers, (waiting, _) = [], os.pipe()

    class Pipe(io.RawIOBase):
        def fileno(self):
            return waiting  # where nothing more can be read

        def readable(self):
            return True

        def readinto(self, buffer):
            # The answer to the part before must be there when the next one is asked for.
            answers.append(capfdbinary.readouterr().out)
            part = parts[len(answers) - 1] if len(answers) <= len(parts) else b""
            buffer[: len(part)] = part
            return len(part)

    stdin = io.TextIOWrapper(io.BufferedReader(Pipe(), 1 << 20))
    monkeypatch.setattr(sys, "stdin", stdin)
    assert parse.main([str(made.model), "--input", kind, "--quiet"]) == 0
    assert answers[0] == b""
    assert [answer.count(b"\n\n") > 0 for answer in answers[1:4]] == [True, True, True]
    together = b"".join(parts)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(together)))
    assert parse.main([str(made.model), "--input", kind, "--quiet"]) == 0
    expected = capfdbinary.readouterr().out
    assert b"".join(answers) == expected
    # A writer that pauses nowhere is read as a file is.
    done = subprocess.run(
        [sys.executable, "-m", "gpuparse", "parse", made.model, "--input", kind, "--quiet"],
        input=together, capture_output=True, check=True,
    )  # fmt: skip
    assert done.stdout == expected


@pytest.mark.usefixtures("small_stages")
@pytest.mark.parametrize("keys", [{"parser": False}, {}], ids=["without a parser", "with one"])
def test_python_learns_what_the_command_learns(made, tmp_path, keys):
    given = KEYS | {"data.train": made.folder / "train.conllu"} | keys
    words = [f"{key}={str(value).lower() if value in (True, False) else value}"
             for key, value in given.items()]  # fmt: skip
    (tmp_path / "run.yaml").write_text(f"data: {{train: {given['data.train']}}}\n")
    folder = tmp_path / "command"
    with small_stages(epochs=1):
        assert train.main([str(tmp_path / "run.yaml"), *words, f"output={folder}", "--quiet"]) == 0
        run = gpuparse.train(given | {"output": tmp_path / "python"}, quiet=True)
    assert model_files(tmp_path / "python") == model_files(folder)
    assert run.folder == tmp_path / "python"
