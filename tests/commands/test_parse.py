"""The parse command: bytes in and out, streams, faults, and what it refuses."""

import importlib
import io
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import gpuparse
from gpuparse.commands import draw, parse, train
from gpuparse.commands.console import run
from gpuparse.data import conll
from gpuparse.data.conll import read_treebank, treebank_from_bytes, write_predictions
from gpuparse.data.formats import sources
from gpuparse.data.formats.text import stream_text
from gpuparse.data.formats.vertical import stream_vertical
from gpuparse.data.graphs import check_graphs
from gpuparse.data.tag_columns import without_deps
from gpuparse.errors import ConfigError, DataError
from gpuparse.jobs import parse as parse_job
from gpuparse.model.decoder_choice import with_decoder
from gpuparse.model.folder import load_parser
from gpuparse.model.installed import installed_models
from tests.commands.conftest import ROOT, columns, program
from tests.samples import without
from tests.synthetic import generate


@pytest.fixture(scope="module")
def expected(trained) -> bytes:
    """The test file as the model parses it, whole, in one thread."""
    model, treebank = load_parser(trained.model), without_deps(read_treebank(trained.test))
    found = model.parse(treebank)
    return write_predictions(treebank, found.heads, model.label_names, found.labels)


def test_the_former_name_of_the_option_engine_is_refused_with_the_new_one(capsys):
    with pytest.raises(SystemExit, match="2"):
        parse.main(["english", "--backend", "cpu"])
    said = capsys.readouterr().err
    assert "argument --backend: give --engine auto, native, torch, triton" in said


def test_only_heads_and_relations_change(trained, expected, parse_run):
    code, out, _ = parse_run(trained.test)
    assert code == 0
    assert out == expected
    before, after = columns(trained.test.read_bytes()), columns(out)
    assert len(before) == len(after)
    changed = {
        i
        for old, new in zip(before, after, strict=True)
        for i, (a, b) in enumerate(zip(old, new, strict=True))
        if a != b
    }
    assert changed <= {6, 7, 8}
    assert {row[8] for row in after if len(row) == 10} == {b"_"}


def test_files_and_standard_input_come_in_their_order(trained, expected, parse_run):
    text = trained.test.read_bytes()
    assert parse_run(stdin=text)[:2] == (0, expected)
    assert parse_run(trained.test, "-", stdin=text)[:2] == (0, expected + expected)
    with open(trained.test, "rb") as file:
        done = program("parse.py", trained.model, "--threads", 1, stdin=file)
    assert (done.returncode, done.stdout) == (0, expected)
    assert b"parsing: 100 sentences in" in done.stderr


PLACES = {  # inputs, the output, and the files that are then there
    "files into a new folder": (["a", "b", "c"], "new/deep/",
                                ["new/deep/a", "new/deep/b", "new/deep/c"]),
    "a file into a folder": (["a"], "there", ["there/a"]),
    "a file into a folder with a stroke": (["a"], "there/", ["there/a"]),
    "a file into a file": (["a"], "out", ["out"]),
    "a file into a named file": (["a"], "out.conllu", ["out.conllu"]),
    "standard input into a file": (["-"], "out.conllu", ["out.conllu"]),
    "a shard": (["a"], "out --shard 2/2", ["out.shard-2-of-2", "out.shard-2-of-2.done"]),
    "all shards": (["a"], "out --shard all/2", ["out", "out.done"]),
}  # fmt: skip


@pytest.mark.parametrize("name", PLACES)
def test_outputs_are_where_they_are_asked_for(
    trained, expected, parse_run, tmp_path, monkeypatch, name
):
    monkeypatch.chdir(tmp_path)
    inputs, output, files = PLACES[name]
    Path("there").mkdir()
    for file in ("a", "b"):
        shutil.copy(trained.test, file)
    Path("c").write_bytes(b"")
    before = {path for path in tmp_path.rglob("*") if path.is_file()}
    words, text = [*inputs, "--output", *output.split()], trained.test.read_bytes()
    assert parse_run(*words, stdin=text)[:2] == (0, b"")
    assert {path for path in tmp_path.rglob("*") if path.is_file()} - before == {
        tmp_path / file for file in files
    }
    if name == "a shard":
        return
    assert Path(files[0]).read_bytes() == expected
    if "--shard" in output:
        return
    code, _, lines = parse_run(*words, stdin=text)
    assert (code, lines[-1]) == (
        2, f"gpuparse: error: {files[0]}: exists; give --force to replace it"
    )  # fmt: skip
    Path(files[0]).write_bytes(b"old")
    words[-2] = "-o"
    assert parse_run(*words, "--force", stdin=text)[:2] == (0, b"")
    assert Path(files[0]).read_bytes() == expected
    assert parse_run("a", "-o", "/dev/null")[:2] == (0, b"")


ONE_MODEL = "a model is a folder that `gpuparse train` wrote"
NAMES = ", ".join(installed_models())
NO_MODEL = f"no such folder; {ONE_MODEL}, or an installed one: {NAMES}"
WRITE = "write: gpuparse parse MODEL [FILE ...]"
BARE = "The quick brown fox jumps over the lazy dog near the river.\n"
NO_COLUMNS = (
    "1 column instead of 10: this is not CoNLL-U; parse raw text first, by a model that has a"
    " tokeniser, such as english: give `parse` --input text"
)
REFUSED = [  # the model, inputs and options, the exit code, and what is said
    ("{model}", "- -", 2, "can be read once only"),
    ("{model}", "a.conllu --output no/out.conllu", 2,
     "no/out.conllu: the folder is missing; make it first"),
    ("{model}", "a.conllu --output a.conllu --force", 2, "replaced by its own output"),
    ("{model}", "a.conllu --output . --force", 2, "replaced by its own output"),
    ("{model}", "- --output there", 2,
     "standard input has no name in the folder there; name a file"),
    ("{model}", "a.conllu hello.txt --output old", 2,
     "old: is not a folder; name another, or a file for one input"),
    ("{model}", "a.conllu --output old/", 2,
     "old/: is not a folder; name another, or a file for one input"),
    ("none", "a.conllu there/a.conllu --output out/", 2, "would both be written as out/a.conllu"),
    ("none", "a.conllu a.txt --output out/", 2, "would both be written as out/a.conllu"),
    ("{model}", "none.conllu", 3, "none.conllu: no such file"),
    ("{model}", "a.conllu none.conllu", 3, "none.conllu: no such file"),
    ("{model}", "empty", 2, "empty"),
    ("She sings.", "", 4, f"She sings.: {NO_MODEL}; {WRITE}"),
    ("en", "hello.txt", 4, f"en: {NO_MODEL}; {WRITE}"),
    ("hello.txt", "", 4, f"hello.txt: a file; {ONE_MODEL}; {WRITE}"),
    ("empty", "hello.txt", 4, f"empty: there is no model in this folder; {ONE_MODEL}"),
    ("{above}", "hello.txt", 4,
     "{above}: there is no model in this folder; did you mean {model}?"),
    ("{model}", "bare", 3, f"bare:1: {NO_COLUMNS}"),
    ("{model}", "-", 3, f"<stdin>:1: {NO_COLUMNS}"),
    ("{model}", "hello.txt", 2, "has no tokeniser: train a model with"),
    ("{model}", "a.conllu --keep tags", 2, "--keep tags"),
    ("{model}", "long", 3, f"longer than {conll.MAX_LINE} bytes"),
    ("{model}", "a.conllu --device cuda", 2, "device cuda: no CUDA here; use cpu or auto"),
    ("{model}", "a.conllu --device cuda --engine native", 2, "cuda"),
    ("{model}", "--engine triton --device cpu", 2, "reads tensors on a CUDA device"),
    ("{model}", "a.conllu --threads -1", 2, "--threads"),
    ("{model}", "a.conllu --threads many", 2, "--threads"),
    ("{model}", "a.conllu --device x", 2, "--device"),
    ("{model}", "a.conllu --decoder best", 2, "--decoder"),
    *[("{model}", f"a.conllu --decoder {name}", 2, f"decoder {name}: it ")
      for name in ("eisner_sibling", "hill_climb", "multi_parent")],
    ("{heads}", "a.conllu --deps tree", 2, "--deps tree: the model finds heads without relations"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("model", "words", "code", "said"), REFUSED, ids=[f"{row[0]} {row[1]}" for row in REFUSED]
)
def test_what_is_refused_leaves_no_output(
    trained, heads_alone, parse_run, tmp_path, monkeypatch, model, words, code, said
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["gpuparse"])
    monkeypatch.setattr("gpuparse.jobs.resources.cuda_trouble", lambda: "no CUDA here")
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    for folder in ("there", "empty"):
        Path(folder).mkdir()
    for file in ("a.conllu", "there/a.conllu"):
        shutil.copy(trained.test, file)
    long = b"#" * (conll.MAX_LINE + 1) + b"\n" + generate(1, 1)
    for file, text in (("old", b"old"), ("hello.txt", b"She sings.\n"), ("a.txt", b""),
                       ("bare", BARE.encode()), ("long", long)):  # fmt: skip
        Path(file).write_bytes(text)
    before = {path: path.is_file() and path.read_bytes() for path in tmp_path.rglob("*")}
    names = {"model": trained.model, "above": trained.folder, "heads": heads_alone}
    found, out, lines = parse_run(*words.split(), model=model.format(**names), stdin=BARE.encode())
    assert (found, out) == (code, b"")
    assert said.format(**names) in lines[-1]
    assert before == {path: path.is_file() and path.read_bytes() for path in tmp_path.rglob("*")}


def test_a_sentence_in_the_place_of_a_file_is_told_how_to_parse_it(trained, parse_run, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["gpuparse"])
    code, _, lines = parse_run("The man's dog sang.")
    sentence = "'The man'\"'\"'s dog sang.'"
    hint = f"to parse a sentence: echo {sentence} | gpuparse parse {trained.model}"
    assert (code, lines) == (3, [f"gpuparse: error: The man's dog sang.: no such file; {hint}"])
    for name in ("my file.txt", "word"):
        assert parse_run(name)[2] == [f"gpuparse: error: {name}: no such file"]


def test_the_longest_line_is_no_fault(parse_run):
    assert parse_run(stdin=b"# " + b"x" * (conll.MAX_LINE - 2) + b"\n" + generate(1, 1))[0] == 0


@pytest.mark.parametrize("line_end", [b"\n", b"\r\n"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("last", [2, 1, 0])
def test_case_02_line_ends_byte_order_marks_and_missing_ends(
    trained, expected, parse_run, tmp_path, line_end, mark, last
):
    text = trained.test.read_bytes().rstrip(b"\n") + b"\n" * last
    (tmp_path / "text.conllu").write_bytes(mark + text.replace(b"\n", line_end))
    code, out, _ = parse_run(tmp_path / "text.conllu", "--quiet")
    assert code == 0
    assert out == expected.replace(b"\n", line_end)


@pytest.mark.parametrize("text", [b"", b"# only a comment\n", b"\n\n"])
def test_case_01_files_without_words_come_back(parse_run, text):
    code, out, _ = parse_run(stdin=text)
    assert code == 0
    assert out.startswith(text)
    assert out.strip() == text.strip()


def test_rows_that_are_no_words_come_back(parse_run):
    text = (
        b"# text = vamonos\n1-2\tvamonos\t_\t_\t_\t_\t_\t_\t_\tSpaceAfter=No\n"
        b"1\tvamos\tir\tVERB\tV\t_\t_\t_\t_\t_\n1.1\tx\t_\t_\t_\t_\t_\t_\t0:y\t_\n"
        b"2\tnos\tnos\tPRON\tP\t_\t_\t_\t2:z\t_\n\n"
    )
    code, out, _ = parse_run(stdin=text)
    assert code == 0
    assert sorted(row[6] for row in columns(out) if row[0] in (b"1", b"2")) in (
        [b"0", b"1"],
        [b"0", b"2"],
    )
    assert [row for row in columns(out) if row[0] not in (b"1", b"2")] == [
        row for row in columns(text) if row[0] not in (b"1", b"2")
    ]


def test_faulty_sentences(trained, expected, parse_run):
    bad = b"# sent_id = bad\n1\tonly\tfour\tcolumns\n\n"
    text = bad + trained.test.read_bytes() + bad
    code, out, lines = parse_run(stdin=text)
    assert (code, out) == (3, b"")
    assert lines[-1].startswith("gpuparse: error: <stdin>:2: sent_id bad: ")
    code, out, lines = parse_run("--on-error", "skip", stdin=text)
    assert code == 1
    assert out.strip(b"\n") == expected.strip(b"\n")
    assert lines[-1] == "gpuparse: 2 sentences are malformed and were skipped"
    code, out, lines = parse_run("--on-error", "keep", "--quiet", stdin=text)
    assert (code, out) == (1, bad + expected + bad)
    assert lines == ["gpuparse: 2 sentences are malformed and were passed through unparsed"]


def test_a_model_without_labels_leaves_relations_alone(trained, heads_alone, parse_run):
    code, out, _ = parse_run(trained.test, model=heads_alone)
    assert code == 0
    gold = columns(trained.test.read_bytes())
    assert [row[7:8] for row in columns(out)] == [row[7:8] for row in gold]
    assert [row[6:7] for row in columns(out)] != [row[6:7] for row in gold]


def test_another_decoder_than_the_models(trained, expected, parse_run):
    assert parse_run(trained.test, "--decoder", "chu_liu_edmonds")[:2] == (0, expected)
    code, out, lines = parse_run(trained.test, "--decoder", "eisner")
    assert code == 0
    assert (
        "gpuparse: decoder eisner, with 1 to 10 points of UAS less; the weights were learned with"
        " chu_liu_edmonds"
    ) in lines
    treebank = without_deps(read_treebank(trained.test))
    model = with_decoder(load_parser(trained.model), "eisner")
    found = model.parse(treebank)
    assert out == write_predictions(treebank, found.heads, model.label_names, found.labels)
    assert out != expected


def test_case_34_a_reader_that_goes_away(trained, tmp_path):
    (tmp_path / "long.conllu").write_bytes(trained.test.read_bytes() * 40)
    process = subprocess.Popen(
        [sys.executable, "parse.py", trained.model, tmp_path / "long.conllu", "--quiet"],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout.read(10)
    process.stdout.close()
    assert process.wait(120) == 0
    assert process.stderr.read() == b""
    process.stderr.close()


@pytest.mark.parametrize("grows", [True, False])
def test_an_input_that_changes_meanwhile_has_no_output(trained, parse_run, tmp_path, grows):
    """It is a file that is being written, and one that is cut off in the middle of a sentence."""
    path = tmp_path / "text"
    path.write_bytes(trained.test.read_bytes() * 3)

    def small_chunks(file, source, **options):
        for chunk in conll.cut_treebanks(file, source, **(options | {"chunk_bytes": 30_000})):
            if grows:
                with path.open("ab") as more:
                    more.write(b"# more\n")
            else:
                os.truncate(path, 70_000)
            yield chunk

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sources, "cut_treebanks", small_chunks)
        for way in (["--output", f"{tmp_path}/out/"], []):
            path.write_bytes(trained.test.read_bytes() * 3)
            code, _, err = parse_run(path, *way)
            assert code == 3
            assert (
                err[-1] == f"gpuparse: error: {path}: was changed while it was read; read it again"
            )
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.parametrize(
    ("output", "more", "advice"),
    [
        ("a.conllu", [], "{}/a.conllu: not written; with --shard all/N finished parts are kept"),
        ("out/", [], "finished files are in {}/out/: the same command parses the others"),
        ("out/", ["--shard", "all/2"],
         "the same command again parses the shards that are not finished"),
    ],
)  # fmt: skip
def test_an_interruption_says_how_to_go_on(
    trained, parse_run, tmp_path, monkeypatch, output, more, advice
):
    def interrupted(*arguments, **named):
        raise KeyboardInterrupt

    monkeypatch.setattr(parse_job.Job, "write", interrupted)
    words = [trained.test, "--output", f"{tmp_path}/{output}", *more]
    code, _, lines = parse_run(*words)
    assert code == 130
    assert lines[-2:] == [f"gpuparse: {advice.format(tmp_path)}", "gpuparse: interrupted"]
    assert parse_run(*words, "--quiet")[2] == ["gpuparse: interrupted"]


@pytest.mark.parametrize("module", ["gzip", "bz2", "lzma"])
def test_compressed_input(parse_run, trained, tmp_path, module):
    file = tmp_path / "input"
    file.write_bytes(importlib.import_module(module).compress(trained.test.read_bytes()))
    code, _, lines = parse_run(file)
    assert (code, len(lines)) == (3, 1)
    assert lines == [
        f"gpuparse: error: {file}:1: the file is compressed; decompress it (`parse` reads .gz of"
        " gzip and .zst of zstd)"
    ]
    for stream in (stream_text, stream_vertical):
        with pytest.raises(DataError, match="input:1: the file is compressed"):
            list(stream(io.BytesIO(file.read_bytes()), "input"))


def test_case_44_an_input_without_tags_is_refused_before_any_output(trained, parse_run, tmp_path):
    path, out = tmp_path / "bare.conllu", tmp_path / "out"
    path.write_bytes(without(trained.test.read_bytes(), 3, 4))
    code, written, lines = parse_run(path, "--output", f"{out}/")
    assert (code, written) == (3, b"")
    errors = [line for line in lines if line.startswith("gpuparse: error: ")]
    assert [error.split(" is _ in all of the first ")[0] for error in errors] == [
        f"gpuparse: error: {path}: UPOS (column 4)",
        f"gpuparse: error: {path}: XPOS (column 5)",
    ]
    assert "reads cpos there; fill it in, or give --allow-missing" in errors[0]
    assert "reads pos there; " in errors[1]
    assert list(out.iterdir()) == []
    code, written, lines = parse_run(path, "--allow-missing", "--device", "cpu")
    assert code == 0
    assert len(columns(written)) == len(columns(path.read_bytes()))
    assert lines[0].startswith(f"gpuparse: {path}: UPOS (column 4) is _ in all")


def test_words_that_are_all_underscores_are_an_error(trained, parse_run):
    """Some treebanks are distributed without their text; a short text may have such words."""
    bare = without(trained.test.read_bytes(), 1)
    code, out, lines = parse_run(stdin=bare)
    assert (code, out) == (3, b"")
    assert "FORM (column 2) is _ in all of the first" in lines[-1]
    assert lines[-1].endswith(
        "merge the text of the treebank in, as its README says, or give --allow-missing to parse"
        " without"
    )
    code, out, lines = parse_run("--allow-missing", stdin=bare)
    assert (code, len(columns(out))) == (0, len(columns(bare)))
    assert "FORM (column 2) is _ in all of the first" in lines[0]
    assert parse_run(stdin=bare[: bare.index(b"\n\n") + 2])[0] == 0


def test_what_a_model_does_not_read_may_be_missing(trained, parse_run, tmp_path):
    (tmp_path / "set.yaml").write_text("arc:\n  - templates: [h.pos m.lemma, h.pos m.feats.*]\n")
    done = program(
        "train.py", trained.config, f"output={tmp_path}/model", f"features={tmp_path}/set.yaml",
        "labels.kind=none", "learning.epochs=1", "data.dev=null", "data.test=null",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    text, model = trained.test.read_bytes(), tmp_path / "model"
    _, expected, _ = parse_run(stdin=text, model=model)
    code, out, _ = parse_run(stdin=without(text, 3), model=model)
    assert code == 0
    assert [row[6:8] for row in columns(out)] == [row[6:8] for row in columns(expected)]
    bare = without(text, 2, 5)
    code, out, lines = parse_run(stdin=bare, model=model)
    assert (code, out) == (3, b"")
    errors = [line for line in lines if line.startswith("gpuparse: error: ")]
    assert len(errors) == 2
    assert "LEMMA (column 3)" in errors[0]
    assert "reads lemma there;" in errors[0]
    assert "FEATS (column 6)" in errors[1]
    assert re.search(r"reads feats\.\w+, feats\.\w+, feats\.\w+ and \d+ more there;", errors[1])
    sentence = bare[: bare.index(b"\n\n") + 2]  # so short that it may have no features
    assert parse_run(stdin=sentence, model=model)[0] == 0
    assert parse_run(stdin=without(sentence, 4), model=model)[0] == 3


def test_output_sent_into_the_input_is_refused(trained, tmp_path):
    path = tmp_path / "text.conllu"
    path.write_bytes(generate(3, 1))
    with open(path, "ab") as out:
        done = subprocess.run(
            [sys.executable, "parse.py", trained.model, path],
            cwd=ROOT, stdout=out, stderr=subprocess.PIPE,
        )  # fmt: skip
    assert done.returncode == 2
    assert b"standard output is redirected to this input" in done.stderr
    assert path.read_bytes() == generate(3, 1)


EMPTY_NODE = (
    "# text = a b\n1\ta\ta\tNOUN\tNN\t_\t2\tdep\t2:dep|2.1:x\t_\n"
    "2\tb\tb\tNOUN\tNN\t_\t0\troot\t0:root\tK=v\n2.1\tc\tc\tX\t_\t_\t_\t_\t1:dep\t_\n\n"
)


@pytest.mark.parametrize(
    "options", [[], ["--kbest", "2"], ["--keep", "heads"], ["--probabilities"]]
)
def test_deps_of_other_trees_are_emptied_or_replaced(trained, parse_run, tmp_path, options):
    (tmp_path / "in.conllu").write_text(EMPTY_NODE)
    for how in ("empty", "tree"):
        code, out, _ = parse_run(tmp_path / "in.conllu", "--allow-missing", "--deps", how, *options)
        assert code == 0
        rows = [row for row in columns(out) if len(row) == 10]
        words = [row for row in rows if row[0].isdigit()]
        assert {tuple(row) for row in rows if row not in words} == {
            tuple(b"2.1 c c X _ _ _ _ 1:dep _".split())
        }
        expected = [b"_" if how == "empty" else row[6] + b":" + row[7] for row in words]
        assert [row[8] for row in words] == expected


def test_trees_drawn_against_gold_ones_are_the_parsed_ones(
    trained, parse_run, tmp_path, capfdbinary
):
    _, out, _ = parse_run(trained.test)
    (tmp_path / "parsed.conllu").write_bytes(out)
    files = [str(tmp_path / "parsed.conllu"), "--against", str(trained.test)]
    assert draw.main([*files, "--output", str(tmp_path / "a.html")]) == 0
    assert draw.main([*files, "--output", str(tmp_path / "b.html"), "--graphs", "heads"]) == 0
    assert (tmp_path / "a.html").read_bytes() == (tmp_path / "b.html").read_bytes()
    assert draw.main([str(trained.test), "--output", str(tmp_path / "c.html")]) == 0
    assert b"HEAD is drawn above the words, DEPS below" in capfdbinary.readouterr().err


def test_relations_that_deps_cannot_have(tmp_path, capfd):
    """The model's are refused before parsing, kept ones at their words."""
    rows = "1\ta\t_\tN\tN\t_\t2\t%s\t_\t_\n2\tb\t_\tV\tV\t_\t0\troot\t_\t_\n\n"
    bar, plain = tmp_path / "bar.conllu", tmp_path / "plain.conllu"
    bar.write_text(20 * (rows % "SBJ|OBJ"))
    plain.write_text(20 * (rows % ":a b"))  # what white space and colons are in DEPREL, they may be
    models = []
    for file in (bar, plain):
        models.append(str(tmp_path / file.stem))
        words = [f"data.train={file}", f"output={models[-1]}", "--quiet", "calibration=none"]
        assert run(train.main, ["first-order-projective", *words]) == 0
    capfd.readouterr()
    assert run(parse.main, [models[0], str(bar), "--deps", "tree"]) == 2
    said = capfd.readouterr()
    assert said.out == ""
    assert "--deps tree: " in said.err
    assert "has the relation 'SBJ|OBJ', which DEPS cannot have" in said.err
    with pytest.raises(ConfigError, match="which DEPS cannot have"):
        gpuparse.load(models[0]).parse([["a", "b"]], deps="tree")
    assert run(parse.main, [models[0], str(bar)]) == 0
    assert "\t2\tSBJ|OBJ\t_\t" in capfd.readouterr().out
    assert run(parse.main, [models[1], str(plain), "--deps", "tree"]) == 0
    out = capfd.readouterr().out
    assert "\t2\t:a b\t2::a b\t" in out
    assert not check_graphs(treebank_from_bytes(out.encode(), "out"))
    kept = tmp_path / "kept.conllu"
    kept.write_text(rows % ":a b" + rows % "x|y")
    words = [models[1], str(kept), "--keep", "heads", "--deps", "tree"]
    assert run(parse.main, words) == 3
    said = f"{kept}:4: the relation 'x|y' cannot be written into DEPS"
    assert said in capfd.readouterr().err
    assert run(parse.main, [*words, "--on-error", "skip"]) == 1
    assert said in (captured := capfd.readouterr()).err
    assert captured.out.count("root") == 2  # HEAD and DEPS of the first sentence
