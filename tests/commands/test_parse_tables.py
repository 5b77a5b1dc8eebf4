"""Tables in and out of the command `parse`: the trees of CoNLL-U, all other columns kept."""

import datetime
import gc
import io
import os
import re
import subprocess
import sys

import pyarrow
import pytest
from pyarrow import ipc, parquet

import gpuparse
from gpuparse.commands import parse
from gpuparse.commands.console import run
from gpuparse.data.conll import MAX_LINE, treebank_from_bytes
from gpuparse.data.formats import arrow_tables
from gpuparse.data.formats.sources import TableSource
from gpuparse.errors import ConfigError, DataError
from tests.synthetic import generate

TEXT = generate(60, 9)
FORMATS = ["parquet", "arrow", "arrows"]


def table_of(text: bytes) -> pyarrow.Table:
    """One row per sentence with columns of many types, one without words, one of nulls."""
    treebank = treebank_from_bytes(text, "text")
    columns = {
        "form": [s.forms for s in treebank], "lemma": [s.lemmas for s in treebank],
        "upos": [s.cpos for s in treebank], "xpos": [s.pos for s in treebank],
        "feats": [[None if f == "_" else f for f in s.feats] for s in treebank],
    }  # fmt: skip
    for values in columns.values():
        values.insert(3, [])
        values.insert(30, None)
    rows = len(columns["form"])
    tags = pyarrow.list_(pyarrow.dictionary(pyarrow.int32(), pyarrow.string()))
    words = pyarrow.large_list(pyarrow.large_string())
    vectors = pyarrow.list_(pyarrow.float32(), 2)
    table = pyarrow.table(
        {
            "when": [datetime.datetime(2020, 1, 1 + r % 28) for r in range(rows)],
            "form": pyarrow.array(columns["form"], words),
            "lemma": columns["lemma"],
            "upos": pyarrow.array(columns["upos"], tags),
            "xpos": columns["xpos"],
            "source": pyarrow.array(["a", "b", None] * (rows // 3) + ["c"] * (rows % 3)),
            "feats": columns["feats"],
            "vector": pyarrow.array([[r / 2, 1] for r in range(rows)], vectors),
            "about": [{"page": r, "by": None if r % 2 else "x"} for r in range(rows)],
        }
    )  # fmt: skip
    return table.replace_schema_metadata({"made by": "a test"})


def write(table: pyarrow.Table, path, rows: int = 1000):
    """Write a table in the format of the suffix, in row groups of a given number of rows."""
    if path.suffix == ".parquet":
        parquet.write_table(table, path, row_group_size=rows)
    else:
        make = ipc.new_file if path.suffix == ".arrow" else ipc.new_stream
        with make(str(path), table.schema) as writer:
            writer.write_table(table.combine_chunks(), rows)
    return path


def read(path) -> pyarrow.Table:
    if path.suffix == ".parquet":
        return parquet.read_table(path)
    return (ipc.open_file if path.suffix == ".arrow" else ipc.open_stream)(str(path)).read_all()


def parsed(trained, path, folder, *words: object) -> int:
    options = ["--output", f"{folder}/", "--quiet", *words]
    return parse.main([str(word) for word in (trained.model, path, *options)])


@pytest.mark.parametrize("suffix", FORMATS)
@pytest.mark.parametrize("words", [(), ("--probabilities", "--single-root")], ids=["", "options"])
def test_a_table_gets_the_trees_of_its_text_and_keeps_its_columns(
    trained, tmp_path, suffix, words, short_runs
):
    table = table_of(TEXT)
    path = write(table, tmp_path / f"in.{suffix}", 10)
    assert parsed(trained, path, tmp_path / "out", *words) == 0
    found = read(tmp_path / "out" / path.name)
    added = ["head", "deprel", *(["prob", "deprel_prob"] if words else [])]
    assert found.column_names == table.column_names + added
    as_read = read(path)
    assert found.select(table.column_names).equals(as_read)
    assert found.schema.metadata[b"made by"] == b"a test"
    kinds = [pyarrow.int32(), pyarrow.string(), pyarrow.float64(), pyarrow.float64()]
    assert found.schema.types[len(table.column_names) :] == [
        pyarrow.list_(kind) for kind in kinds[: len(added)]
    ]
    (tmp_path / "in.conllu").write_bytes(TEXT)
    assert parsed(trained, tmp_path / "in.conllu", tmp_path / "out", *words) == 0
    expected = list(treebank_from_bytes((tmp_path / "out" / "in.conllu").read_bytes(), "out"))
    rows = [row for row in found.to_pylist() if row["form"]]
    assert [row["head"] for row in rows] == [s.heads for s in expected]
    assert [row["deprel"] for row in rows] == [s.labels for s in expected]
    assert [row["head"] for row in found.to_pylist() if not row["form"]] == [[], []]
    if words:
        written = [re.findall(r"HeadProb=([\d.]+)", " ".join(s.misc)) for s in expected]
        assert [[f"{p:.4f}" for p in row["prob"]] for row in rows] == written


@pytest.mark.parametrize("suffix", FORMATS)
def test_bytes_do_not_depend_on_threads_row_groups_and_shards(
    trained, tmp_path, suffix, short_runs
):
    table = table_of(TEXT)
    for rows in (3, 10, 1000):
        path, outputs = write(table, tmp_path / f"{rows}.{suffix}", rows), set()
        for threads in (1, 1, 2):
            assert parsed(trained, path, tmp_path / "out", "--force", "--threads", threads) == 0
            outputs.add((tmp_path / "out" / path.name).read_bytes())
        assert len(outputs) == 1
    if suffix == "parquet":
        assert outputs == {(tmp_path / "out" / "3.parquet").read_bytes()}
    if suffix == "parquet":
        about = parquet.read_metadata(tmp_path / "out" / "3.parquet")
        groups = [about.row_group(i).num_rows for i in range(about.num_row_groups)]
        assert groups == [7] * 8 + [6]
    if suffix == "arrows":
        with pytest.raises(ConfigError, match="an Arrow stream does not say"):
            parsed(trained, path, tmp_path / "in shards", "--shard", "all/2")
        return
    for shards in (1, 3, 20):
        folder = tmp_path / f"in {shards} shards"
        assert parsed(trained, path, folder, "--shard", f"all/{shards}") == 0
        assert {(folder / path.name).read_bytes()} == outputs
        assert sorted(file.name for file in folder.iterdir()) == [path.name, f"{path.name}.done"]
        assert parsed(trained, path, folder, "--shard", f"all/{shards}") == 0
    folder = tmp_path / "one by one"
    for i in (3, 1, 2):
        assert parsed(trained, path, folder, "--shard", f"{i}/3") == 0
    assert sum(len(read(file.rename(file.with_name(f"{file.name}.{suffix}"))))
               for file in list(folder.glob("*of-3"))) == len(table)  # fmt: skip
    for file in list(folder.glob("*of-3.*")):
        if not file.name.endswith(".done"):
            file.rename(file.with_suffix(""))
    assert parsed(trained, path, folder, "--shard", "join/3") == 0
    assert {(folder / path.name).read_bytes()} == outputs


def test_a_stopped_job_goes_on_where_it_was(trained, tmp_path, short_runs, monkeypatch):
    path = write(table_of(TEXT), tmp_path / "in.parquet")
    assert parsed(trained, path, tmp_path / "whole") == 0
    as_it_is = TableSource.piece

    def failing(self, table, first, **options):
        if first >= 28:
            raise KeyboardInterrupt
        return as_it_is(self, table, first, **options)

    monkeypatch.setattr(TableSource, "piece", failing)
    with pytest.raises(KeyboardInterrupt):
        parsed(trained, path, tmp_path / "out", "--shard", "all/4")
    assert not (tmp_path / "out" / "in.parquet").exists()
    monkeypatch.setattr(TableSource, "piece", as_it_is)
    after: list[int] = []

    def noting(self, table, first, **options):
        after.append(first)
        return as_it_is(self, table, first, **options)

    monkeypatch.setattr(TableSource, "piece", noting)
    assert parsed(trained, path, tmp_path / "out", "--shard", "all/4") == 0
    assert sorted(first for first in after if first) == [*range(21, 62, 7)]
    same = (tmp_path / "whole" / "in.parquet").read_bytes()
    assert (tmp_path / "out" / "in.parquet").read_bytes() == same


BAD = {
    4: ("upos", ["X"], ": 12 words in form, but 1 in upos"),
    9: ("form", ["a", None], "[1]: expected a word, not None"),
    11: ("form", ["", "b"], "[0]: expected a word, not str ''"),
    20: ("lemma", ["a\tb"], r"[0]: lemma str 'a\\tb' has a tab or a line end"),
    21: ("xpos", ["X\n"], "[0]: xpos .* has a tab or a line end"),
    33: ("misc", ["_\n1.1" + "\tb" * 9], "[0]: misc .* has a tab or a line end"),
    34: ("misc", ["_", "_\r"], "[1]: misc .* has a tab or a line end"),
}


def with_bad_rows() -> pyarrow.Table:
    rows = table_of(TEXT).select(["form", "lemma", "upos", "xpos", "feats", "source"]).to_pylist()
    for row in rows:
        row["misc"] = None
    for r, (column, values, _) in BAD.items():
        if column != "upos":
            rows[r] = dict.fromkeys(rows[r], ["a"] * len(values)) | {
                column: values,
                "source": "bad",
            }
        else:
            rows[r][column] = values
    return pyarrow.Table.from_pylist(rows)


@pytest.mark.parametrize("suffix", ["parquet", "arrow"])
def test_malformed_rows_stop_or_are_skipped_or_kept(trained, tmp_path, suffix, short_runs, capsys):
    table = with_bad_rows()
    path = write(table, tmp_path / f"in.{suffix}", 10)
    length = len(table["form"][4].as_py())
    said = f"in\\.{suffix}:row:4: {length} words in form, but 1 in upos; --on-error"
    with pytest.raises(DataError, match=said):
        parsed(trained, path, tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []
    words = [
        str(word) for word in (trained.model, path, "--output", f"{tmp_path}/out/", "--on-error")
    ]
    assert parse.main([*words, "skip"]) == 1
    said = capsys.readouterr().err
    for r, (_, _, what) in BAD.items():
        what = what.replace("12 words", f"{length} words").replace("[", r"\[").replace("]", r"\]")
        assert re.search(rf"row:{r}{what}", said), (r, said)
    assert "7 sentences are malformed and were skipped" in said
    skipped = read(tmp_path / "out" / path.name)
    sound = [r for r in range(len(table)) if r not in BAD]
    assert skipped["source"].to_pylist() == table.take(sound)["source"].to_pylist()
    assert parse.main([*words, "keep", "--force", "--quiet"]) == 1
    kept = read(tmp_path / "out" / path.name)
    assert kept["source"].to_pylist() == table["source"].to_pylist()
    assert [r for r in range(len(kept)) if kept["head"][r].as_py() is None] == list(BAD)
    assert kept.take(sound)["head"].to_pylist() == skipped["head"].to_pylist()
    assert parse.main([*words, "keep", "--quiet", "--shard", "all/3", "--force"]) == 1
    assert read(tmp_path / "out" / path.name).equals(kept)


def test_long_values_and_other_encodings_are_faults_of_their_rows(trained, tmp_path, capsys):
    broken = pyarrow.array([b"a", b"\xff", b"c"]).cast(pyarrow.binary())
    values = pyarrow.Array.from_buffers(pyarrow.string(), 3, broken.buffers())
    forms = pyarrow.ListArray.from_arrays([0, 1, 2, 3], values)
    tags = [["X"], ["X"], ["Y" * (MAX_LINE + 1)]]
    table = pyarrow.table({"form": forms, "upos": tags, "xpos": tags})
    path = write(table, tmp_path / "in.arrow")
    words = [trained.model, path, "--output", tmp_path, "--on-error", "skip"]
    assert parse.main([*map(str, words), "--output", f"{tmp_path}/out/"]) == 1
    said = capsys.readouterr().err
    assert "in.arrow:row:1[0]: form is not UTF-8" in said
    assert "in.arrow:row:2[0]: the columns of the word have more than 1,048,576 bytes" in said
    assert len(read(tmp_path / "out" / "in.arrow")) == 1


def test_kept_heads_are_kept(trained, tmp_path, short_runs):
    table = table_of(TEXT)
    free = write(table, tmp_path / "in.parquet")
    parsed(trained, free, tmp_path / "out")
    heads = read(tmp_path / "out" / "in.parquet")["head"].to_pylist()
    asked = [[0, *([None] * (len(h) - 1))] if h else h for h in heads]
    asked[40] = [99, *asked[40][1:]]
    path = write(table.append_column("head", pyarrow.array(asked)), tmp_path / "kept.parquet")
    with pytest.raises(DataError, match=r"kept.parquet:row:40: HEAD of word 1 .* is 99"):
        parsed(trained, path, tmp_path / "out", "--keep", "heads")
    assert parsed(trained, path, tmp_path / "out", "--keep", "heads", "--on-error", "keep") == 1
    found = read(tmp_path / "out" / "kept.parquet")["head"].to_pylist()
    assert found[40] is None
    assert all(h[0] == 0 for h in found[:40] + found[41:] if h)


@pytest.mark.parametrize("suffix", FORMATS)
def test_a_table_without_rows_or_words_gets_its_columns(trained, tmp_path, suffix):
    words = pyarrow.list_(pyarrow.string())
    for name, table in (
        ("rows", table_of(TEXT)[:0]),
        ("words", pyarrow.table({"form": pyarrow.array([[], None], words)})),
        ("types", pyarrow.table({"form": [None, None]})),
    ):  # fmt: skip
        path = write(table, tmp_path / f"{name}.{suffix}")
        assert parsed(trained, path, tmp_path / "out") == 0
        found = read(tmp_path / "out" / path.name)
        assert found.column_names == [*table.column_names, "head", "deprel"]
        assert found["head"].to_pylist() == [[]] * len(table)


def test_a_column_that_the_model_reads_must_be_there(trained, tmp_path):
    path = write(table_of(TEXT).drop_columns(["xpos", "upos"]), tmp_path / "in.parquet")
    with pytest.raises(DataError, match=r"xpos is missing or _ in all of the first"):
        parsed(trained, path, tmp_path / "out")
    with pytest.raises(DataError, match=r"xpos is missing or _ in all of the first"):
        parsed(trained, path, tmp_path / "out", "--shard", "2/2")
    assert parsed(trained, path, tmp_path / "out", "--allow-missing") == 0


def test_files_that_are_no_tables_of_sentences_say_so(trained, tmp_path):
    forms = pyarrow.array([["a"]])
    for name, table, said in (
        ("form", {"text": ["a b"]}, "a column 'form' with the list of its words"),
        ("type", {"form": [[1]]}, r"column form: expected a list of words per row, .* not list"),
        ("tags", {"form": forms, "upos": ["X"]}, "column upos: expected a list of text per row"),
    ):
        path = write(pyarrow.table(table), tmp_path / f"{name}.parquet")
        with pytest.raises(DataError, match=said):
            parsed(trained, path, tmp_path / "out")
    (tmp_path / "text.parquet").write_bytes(TEXT)
    (tmp_path / "text.arrow").write_bytes(TEXT)
    (tmp_path / "empty.parquet").write_bytes(b"")
    (tmp_path / "empty.arrow").write_bytes(b"")
    whole = write(table_of(TEXT), tmp_path / "whole.parquet").read_bytes()
    (tmp_path / "cut.parquet").write_bytes(whole[:-100])
    for name in ("text.parquet", "text.arrow", "empty.parquet", "empty.arrow", "cut.parquet"):
        with pytest.raises(DataError, match=rf"{name}: cannot be read as an? .*--input if"):
            parsed(trained, tmp_path / name, tmp_path / "out")
    damaged = bytearray(whole)
    damaged[200:2000] = bytes(1800)
    (tmp_path / "damaged.parquet").write_bytes(damaged)
    with pytest.raises(DataError, match=r"damaged\.parquet"):
        parsed(trained, tmp_path / "damaged.parquet", tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []
    assert parsed(trained, tmp_path / "text.arrow", tmp_path / "out", "--input", "conllu") == 0


def test_options_that_do_not_fit_tables_are_refused(trained, tmp_path):
    path = write(table_of(TEXT), tmp_path / "in.parquet")
    for words, said in (
        (["--kbest", "2", "--output", f"{tmp_path}/out/"], "one tree per row"),
        (["--guide", str(path), "--output", f"{tmp_path}/out/"], "misc:KEY"),
        ([str(path)], "give --output"),
    ):
        with pytest.raises(ConfigError, match=said):
            parse.main([str(trained.model), str(path), *words])


def test_tables_come_and_go_through_pipes(trained, tmp_path):
    table = table_of(TEXT)
    path = write(table, tmp_path / "in.arrows")
    parsed(trained, path, tmp_path / "out")
    command = [sys.executable, "-m", "gpuparse", "parse", str(trained.model), "--quiet"]
    command += ["--input", "arrow"]
    with subprocess.Popen(["cat", str(path)], stdout=subprocess.PIPE) as cat:
        found = subprocess.run(command, stdin=cat.stdout, capture_output=True, check=True).stdout
    assert found == (tmp_path / "out" / "in.arrows").read_bytes()
    as_parquet = write(table, tmp_path / "in.parquet")
    parsed(trained, as_parquet, tmp_path / "out")
    command[-1] = "parquet"
    with open(as_parquet, "rb") as file:
        found = subprocess.run(command, stdin=file, capture_output=True, check=True).stdout
    assert found == (tmp_path / "out" / "in.parquet").read_bytes()
    with subprocess.Popen(["cat", str(as_parquet)], stdout=subprocess.PIPE) as cat:
        piped = subprocess.run(command, stdin=cat.stdout, capture_output=True)
    assert piped.returncode == 2
    assert b"<stdin>: Parquet cannot be read from a pipe" in piped.stderr
    assert piped.stdout == b""


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")
@pytest.mark.parametrize("suffix", FORMATS)
def test_a_full_disk_is_an_error_and_the_end_is_not_written(trained, tmp_path, suffix, short_runs):
    path = write(table_of(TEXT), tmp_path / f"in.{suffix}")
    out = tmp_path / "out"
    out.mkdir()
    (out / path.name).symlink_to("/dev/full")
    words = [str(trained.model), str(path), "--output", f"{out}/", "--force", "--quiet"]
    assert run(parse.main, words) == 5


@pytest.mark.parametrize("suffix", ["parquet", "arrow"])
def test_a_part_of_an_output_looks_broken(trained, tmp_path, suffix, short_runs, capfdbinary):
    table = with_bad_rows()
    sound = [r for r in range(len(table)) if r not in list(BAD)[:3]]
    path = write(table.take(sound), tmp_path / f"in.{suffix}")
    with pytest.raises(DataError, match="row:17"):
        parse.main([str(trained.model), str(path), "--quiet", "--on-error", "fail"])
    gc.collect()
    sys.stdout.flush()
    out = capfdbinary.readouterr().out
    assert out
    with pytest.raises(pyarrow.ArrowInvalid):
        (parquet.read_table if suffix == "parquet" else ipc.open_file)(io.BytesIO(out))


def test_long_rows_make_short_runs(tmp_path, monkeypatch):
    path = write(table_of(TEXT), tmp_path / "in.parquet")
    monkeypatch.setattr(arrow_tables, "RUN_BYTES", 2000)
    with open(path, "rb") as file:
        source = arrow_tables.TableFile(file, "in.parquet", "parquet", threads=False)
        assert 1 <= source.run < 20
        firsts = [first for first, _ in source.runs()]
    assert firsts == list(range(0, 62, source.run))


@pytest.mark.parametrize("suffix", FORMATS)
def test_python_streams_tables(trained, tmp_path, suffix):
    path = write(table_of(TEXT), tmp_path / f"in.{suffix}")
    parser = gpuparse.load(trained.model, threads=1)
    found = [sentence.heads for sentence in parser.stream(path)]
    parsed(trained, path, tmp_path / "out")
    assert found == read(tmp_path / "out" / path.name)["head"].to_pylist()
    with pytest.raises(DataError, match="cannot be read"):
        next(parser.stream(tmp_path / "none.parquet"))
    bad = write(with_bad_rows(), tmp_path / f"bad.{suffix}")
    with pytest.raises(DataError, match=r"row:4: .* words in form, but 1 in upos"):
        list(parser.stream(bad))


def test_without_pyarrow_it_is_said_what_to_install(trained, tmp_path, monkeypatch):
    path = write(table_of(TEXT), tmp_path / "in.parquet")
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(ConfigError, match=r"needs pyarrow: pip install 'gpuparse\[arrow\]'"):
        parsed(trained, path, tmp_path / "out")


def test_faulty_rows_of_string_views_are_skipped(trained, tmp_path):
    forms = pyarrow.array([["a"], ["b\tc"], None, ["d"]], pyarrow.list_(pyarrow.string_view()))
    tags = pyarrow.array([["X"], ["X"], ["X"], ["X"]], pyarrow.list_(pyarrow.string_view()))
    write(pyarrow.table({"form": forms, "upos": tags}), tmp_path / "in.arrow")
    words = [trained.model, tmp_path / "in.arrow", "--output", f"{tmp_path}/out/"]
    words += ["--on-error", "skip", "--allow-missing", "--quiet"]
    assert parse.main(list(map(str, words))) == 1
    found = ipc.open_file(tmp_path / "out" / "in.arrow").read_all()
    assert found.column("form").to_pylist() == [["a"], ["d"]]
