"""Files and batches as engines cut them: any cut gives the same bytes, rows, types and errors."""

import pickle
from pathlib import Path
from typing import Any

import pytest

import gpuparse
from gpuparse.api.workers import WorkerParser, files_of
from gpuparse.commands import parse
from gpuparse.errors import ConfigError, DataError, ModelError

arrow = pytest.importorskip("pyarrow")
import pyarrow.parquet as parquet  # noqa: E402 (after the check that it is there)

pytestmark = pytest.mark.filterwarnings("ignore:.*not calibrated")


def contents(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def test_files_below_a_folder_get_the_bytes_of_the_command(model, corpus, sentences, tmp_path):
    """Other options and formats are in tests/test_doors.py."""
    (corpus / "deep" / "er").mkdir(parents=True)
    text = gpuparse.load(model).parse(sentences.slice(0, 5)).to_conllu()
    (corpus / "deep" / "er" / "text.conllu").write_text(text)
    (corpus / "_SUCCESS").touch()
    of_worker = pickle.loads(pickle.dumps(WorkerParser(model)))  # noqa: S301
    pairs = files_of(corpus, tmp_path / "out")
    names = [*(f"{k}.parquet" for k in range(4)), "deep/er/text.conllu"]
    assert pairs == [(str(corpus / name), str(tmp_path / "out" / name)) for name in names]
    assert [of_worker.file(*pair) for pair in pairs] == 4 * [(100, 0)] + [(5, 0)]
    command = [model, str(corpus), "--output", f"{tmp_path}/command/", "--quiet"]
    assert parse.main(command) == 0
    assert contents(tmp_path / "out") == contents(tmp_path / "command")
    (tmp_path / "out" / "1.parquet").unlink()  # a job goes on where it ended
    assert files_of(corpus, tmp_path / "out") == [pairs[1]]


def with_fault(table: Any, row: int) -> Any:
    rows = table.to_pylist()
    rows[row]["form"][0] = None
    return arrow.Table.from_pylist(rows, schema=table.schema)


def test_a_file_with_a_fault_is_named_and_not_half_written(model, corpus, tmp_path):
    path = corpus / "2.parquet"
    parquet.write_table(with_fault(parquet.read_table(path), 17), path)
    with pytest.raises(DataError, match=r"2\.parquet:row:17\[0\]: expected a word"):
        WorkerParser(model).file(path, tmp_path / "out" / "2.parquet")
    assert contents(tmp_path / "out") == {}
    assert WorkerParser(model, on_error="keep").file(path, tmp_path / "kept.parquet") == (100, 1)


def test_models_are_given_by_name(tmp_path):
    """Each process finds an installed model by itself."""
    (tmp_path / "a.txt").write_text("He left.")
    of_worker = pickle.loads(pickle.dumps(WorkerParser("english")))  # noqa: S301
    assert of_worker.file(tmp_path / "a.txt", tmp_path / "a.conllu").sentences == 1
    assert of_worker._of_model[0] == "english"


@pytest.mark.parametrize("size", [1, 7, 400])
def test_batches_of_any_size_give_the_rows_of_one_process(model, sentences, parsed, size):
    of_worker = WorkerParser(model)
    batches = [of_worker(sentences.slice(k, size)) for k in range(0, len(sentences), size)]
    assert arrow.concat_tables(batches).equals(parsed)
    assert of_worker(sentences.to_batches()[0]).equals(parsed)


def test_the_schema_is_that_of_every_batch(model, sentences):
    of_worker = WorkerParser(model, probabilities=True, deps="tree")
    whole, schema = of_worker(sentences), of_worker.schema(sentences.schema)
    assert whole.schema.equals(schema)
    assert schema.names[-5:] == ["head", "deprel", "deps", "prob", "deprel_prob"]
    expected = gpuparse.load(model).parse(sentences, probabilities=True, deps="tree").to_arrow()
    assert whole.equals(expected)
    assert of_worker.schema(schema).names == schema.names


def test_a_faulty_row_is_named_with_its_other_columns_or_has_nulls(model, sentences, parsed):
    bad = with_fault(sentences, 17)
    with pytest.raises(DataError, match=r"row 17 of a batch of 400 rows\[0\].*None: id=17, source"):
        WorkerParser(model)(bad)
    found = WorkerParser(model, on_error="keep")(bad)
    assert found.schema.equals(parsed.schema)
    for name in ("head", "deprel"):
        assert found[name][17].as_py() is None
        for rows in (slice(0, 17), slice(18, 400)):
            assert found[name].to_pylist()[rows] == parsed[name].to_pylist()[rows]


def test_a_missing_column_is_an_error_in_batches_of_any_size(model, sentences):
    without = sentences.drop_columns(["upos"])
    for size in (0, 1, 400):
        with pytest.raises(DataError, match="the model reads upos, but there is no such column"):
            WorkerParser(model)(without.slice(0, size))
    WorkerParser(model, allow_missing=True)(without)
    with pytest.raises(DataError, match="form"):
        WorkerParser(model, on_error="keep")(sentences.drop_columns(["form"]))


def test_a_column_without_values_is_an_error_in_a_large_batch_only(model, sentences):
    place = sentences.column_names.index("xpos")
    for nothing in (
        [["_"] * len(forms) for forms in sentences["form"].to_pylist()],
        [None] * len(sentences),
    ):
        column = arrow.array(nothing, arrow.list_(arrow.string()))
        without = sentences.set_column(place, "xpos", column)
        WorkerParser(model)(without.slice(0, 3))
        with pytest.raises(DataError, match="sentences: xpos is missing or _ in all of the first"):
            WorkerParser(model)(without)


REFUSED = {  # options, whether they are refused at once, and why
    "name": ({"model": "englich"}, ModelError, "no such folder; did you mean english"),
    "option": ({"probability": True}, TypeError, "probability"),
    "kbest": ({"kbest": 2}, ConfigError, "kbest: a table has one tree per row"),
    "deps": ({"deps": "trees"}, ConfigError, "deps: expected 'empty' or 'tree'"),
    "on_error": ({"on_error": "null"}, ConfigError, "expected 'fail' or 'skip' or 'keep'"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_wrong_is_an_error_and_writes_nothing(model, corpus, tmp_path, name):
    options, error, message = REFUSED[name]
    with pytest.raises(error, match=message):
        WorkerParser(**{"model": model, **options}).file(
            corpus / "0.parquet", tmp_path / "out" / "0.parquet"
        )
    with pytest.raises(error, match=message):
        WorkerParser(**{"model": model, **options})(parquet.read_table(corpus / "0.parquet"))
    assert contents(tmp_path / "out") == {}


def test_folders_without_files_for_it_are_refused(corpus, tmp_path):
    (tmp_path / "same").mkdir()
    for name in ("a.txt", "a.conllu"):
        (tmp_path / "same" / name).write_text("")
    for source, target, message in (
        (corpus, corpus / "below", "name another folder for the output"),
        (corpus / "0.parquet", tmp_path / "out", "has no files"),
        (tmp_path / "same", tmp_path / "out", r"a\..* and .*a\..* would both be written as .*/a\."),
    ):
        with pytest.raises(ConfigError, match=message):
            files_of(source, target)
