"""Real Spark on this machine: the rows of one process, whatever happens to its workers."""

import os
import shutil
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

arrow = pytest.importorskip("pyarrow")
pyspark = pytest.importorskip("pyspark", reason="Spark is not installed: pip install .[spark]")
if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
    pytest.skip("Spark needs Java, which is not installed", allow_module_level=True)

import pyarrow.parquet as parquet  # noqa: E402 (after the check that it is there)
from pyspark.sql import SparkSession  # noqa: E402

from examples.spark_files import parse_files  # noqa: E402
from examples.spark_parquet import parsed_frame  # noqa: E402
from gpuparse.api.workers import WorkerParser  # noqa: E402
from gpuparse.errors import DataError  # noqa: E402

ROOT = Path(__file__).parents[2]
pytestmark = [
    pytest.mark.filterwarnings("ignore:PySpark does not yet:FutureWarning"),
    pytest.mark.filterwarnings("ignore:.*not calibrated"),
]


@pytest.fixture(scope="module")
def session() -> Iterator[Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        patch.setenv("PYTHONPATH", str(ROOT))
        patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        options = {
            "spark.ui.enabled": "false", "spark.driver.memory": "600m",
            "spark.sql.execution.arrow.maxRecordsPerBatch": "20", "spark.log.level": "OFF",
            "spark.sql.shuffle.partitions": "2", "spark.sql.files.maxPartitionBytes": "32k",
        }  # fmt: skip
        builder = SparkSession.builder.master("local[2,4]").config(map=options)
        session = builder.getOrCreate()
        yield session
        session.stop()


@pytest.fixture(scope="module")
def frame(session: Any, sentences: Any) -> Any:
    return session.createDataFrame(sentences)


def in_order(frame: Any) -> list[Any]:
    return sorted(
        (row.asDict(recursive=True) for row in frame.collect()), key=lambda row: row["id"]
    )


def bytes_in(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_files_have_the_bytes_of_one_process(session, model, corpus, parsed_files, tmp_path):
    assert parse_files(session, WorkerParser(model), corpus, tmp_path / "out") == 4 * [(100, 0)]
    assert bytes_in(tmp_path / "out") == parsed_files


def test_the_example_writes_the_rows_of_one_process(session, model, sentences, parsed, tmp_path):
    source, target = tmp_path / "in.parquet", tmp_path / "out"
    parquet.write_table(sentences.slice(0, 100), source, row_group_size=50)
    frame = session.read.parquet(str(source))
    parsed_frame(frame, WorkerParser(model)).write.parquet(str(target))
    found = parquet.read_table(target).sort_by("id")
    assert found.column_names == parsed.column_names
    assert found.to_pylist() == parsed.slice(0, 100).to_pylist()


def test_a_killed_worker_changes_nothing(frame, model, parsed, tmp_path):
    class Mortal(WorkerParser):
        """The process that meets row 200 first is killed."""

        def __call__(self, batch: Any) -> Any:
            if 200 in batch["id"].to_pylist() and not (tmp_path / "killed").exists():
                (tmp_path / "killed").touch()
                os.kill(os.getpid(), signal.SIGKILL)
            return super().__call__(batch)

    assert in_order(parsed_frame(frame, Mortal(model))) == parsed.to_pylist()
    assert (tmp_path / "killed").exists()


def test_the_schema_has_what_is_asked_for_and_is_checked_before_any_task(frame, model):
    schema = parsed_frame(frame, WorkerParser(model, probabilities=True, deps="tree")).schema
    assert schema.names[:2] == ["id", "source"]
    new = {name: schema[name].dataType.simpleString() for name in schema.names[-5:]}
    assert new == {
        "head": "array<int>", "deprel": "array<string>", "prob": "array<double>",
        "deprel_prob": "array<double>", "deps": "array<string>",
    }  # fmt: skip
    with pytest.raises(DataError, match="the model reads upos"):
        parsed_frame(frame.drop("upos"), WorkerParser(model))


def test_the_error_of_a_row_reaches_the_program(session, model, sentences):
    rows = sentences.slice(0, 20).to_pylist()
    rows[17]["form"][0] = None
    bad = session.createDataFrame(arrow.Table.from_pylist(rows, schema=sentences.schema))
    with pytest.raises(Exception, match=r"row \d+ of a batch of \d+ rows\[0\].*id=17"):
        parsed_frame(bad, WorkerParser(model)).collect()
