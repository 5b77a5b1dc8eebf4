"""Real Ray on this machine: the rows of one process, whatever happens to its workers."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

arrow = pytest.importorskip("pyarrow")
ray = pytest.importorskip("ray", reason="Ray is not installed: pip install .[ray]")
pytest.importorskip("ray.data", reason="Ray Data is not installed: pip install .[ray]")

import pyarrow.parquet as parquet  # noqa: E402 (after the check that it is there)

from examples.ray_files import parse_files  # noqa: E402
from examples.ray_parquet import parse_parquet  # noqa: E402
from gpuparse.api.workers import WorkerParser  # noqa: E402

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module", autouse=True)
def session() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("RAY_DATA_DISABLE_PROGRESS_BARS", "1")
        patch.setenv("PYTHONPATH", str(ROOT))
        ray.init(
            num_cpus=3, include_dashboard=False, object_store_memory=100 << 20,
            logging_level="error", log_to_driver=False,
        )  # fmt: skip
        yield
        ray.shutdown()


def parsed_by(kind: type, model: str, table: Any, **options: Any) -> Any:
    """The rows in the order of their ids, parsed by two actors in batches of 20."""
    dataset = ray.data.from_arrow([table.slice(k, 100) for k in range(0, len(table), 100)])
    done = dataset.map_batches(
        kind, fn_constructor_kwargs={"model": model, **options}, batch_format="pyarrow",
        batch_size=20, compute=ray.data.ActorPoolStrategy(size=2), num_cpus=1,
    )  # fmt: skip
    return arrow.concat_tables(ray.get(done.to_arrow_refs())).sort_by("id").combine_chunks()


def test_files_have_the_bytes_of_one_process(model, corpus, parsed_files, tmp_path):
    found = parse_files(WorkerParser(model), corpus, tmp_path / "out", threads=1)
    assert found == 4 * [(100, 0)]
    assert bytes_in(tmp_path / "out") == parsed_files


@pytest.mark.slow
def test_a_worker_killed_over_files_changes_nothing(model, corpus, parsed_files, tmp_path):
    class Mortal(WorkerParser):
        """The process that parses file 2 first is killed when its output is there."""

        def file(self, source: str, target: str) -> Any:
            found = super().file(source, target)
            if source.endswith("2.parquet") and not (tmp_path / "killed").exists():
                (tmp_path / "killed").touch()
                os.kill(os.getpid(), signal.SIGKILL)
            return found

    found = parse_files(Mortal(model), corpus, tmp_path / "out", threads=1)
    assert (tmp_path / "killed").exists()
    assert found == 4 * [(100, 0)]
    assert bytes_in(tmp_path / "out") == parsed_files


def bytes_in(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_the_example_writes_the_rows_of_one_process(model, sentences, parsed, tmp_path):
    source, target = tmp_path / "in.parquet", tmp_path / "out"
    parquet.write_table(sentences.slice(0, 100), source, row_group_size=50)
    parse_parquet(model, str(source), str(target), actors=2, threads=1)
    assert parquet.read_table(target).equals(parsed.slice(0, 100))


def test_a_killed_actor_changes_nothing(model, sentences, parsed, tmp_path):
    class Mortal(WorkerParser):
        """The actor that meets row 200 first is killed; one is loaded anew in its place."""

        def __init__(self, marks: str, **options: Any) -> None:
            super().__init__(**options)
            self.marks = Path(marks)
            (self.marks / f"loaded-{os.getpid()}").touch()

        def __call__(self, batch: Any) -> Any:
            if 200 in batch["id"].to_pylist() and not (self.marks / "killed").exists():
                (self.marks / "killed").touch()
                os.kill(os.getpid(), signal.SIGKILL)
            return super().__call__(batch)

    found = parsed_by(Mortal, model, sentences, marks=str(tmp_path))
    assert found.equals(parsed.combine_chunks())
    names = [path.name.partition("-") for path in tmp_path.iterdir()]
    assert [name for name, _, _ in names].count("killed") == 1
    assert [name for name, _, _ in names].count("loaded") == 3  # two, and one in place of the dead


def test_the_error_of_a_row_reaches_the_program(model, sentences):
    rows = sentences.slice(0, 100).to_pylist()
    rows[17]["form"][0] = None
    bad = arrow.Table.from_pylist(rows, schema=sentences.schema)
    with pytest.raises(ray.exceptions.RayTaskError, match=r"row 17 of a batch of 20 rows\[0\]"):
        parsed_by(WorkerParser, model, bad)
