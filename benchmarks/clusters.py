"""Parquet to Parquet by Ray and Spark on this machine, against one process with as many threads.

`ray` and `spark` give names of files to workers; `ray-batches` and `spark-batches` give them rows.
`processes` is what is left without an engine: as many processes of one thread.
"""

import argparse
import hashlib
import json
import multiprocessing
import os
import signal
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import lru_cache
from pathlib import Path
from typing import Any

from benchmarks.registry import Report
from gpuparse.errors import ConfigError
from gpuparse.interop.workers import WorkerParser, files_of

GATE = ("tests/interop/test_files.py", "tests/interop/test_tables.py")
ENGINES = ("processes", "ray", "spark", "ray-batches", "spark-batches")
_FILE = 25_000  # rows of an input file
_BATCH = 5000  # rows of a batch
_PAUSE = 0.2  # seconds between two looks at the processes
_READ = ("form", "lemma", "upos", "xpos", "feats")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", help="the folder that train wrote")
    parser.add_argument("text", metavar="FILE", help="CoNLL-U, whose sentences are repeated")
    parser.add_argument("--sentences", type=int, default=1_000_000)
    parser.add_argument("--workers", type=int, default=2, help="of one thread each")
    parser.add_argument("--engines", nargs="+", choices=ENGINES, default=list(ENGINES))
    parser.add_argument("--kill", action="store_true", help="kill a worker in the middle")


def check(options: argparse.Namespace) -> None:
    if options.sentences < 2 * _BATCH or options.workers < 1:
        raise ConfigError(f"--sentences: at least {2 * _BATCH:,}; --workers: at least 1")


def run(options: argparse.Namespace) -> Report:
    """Parse the same files in one process and by each engine, and compare what they write."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        n_words = _write_input(folder / "input", Path(options.text), options.sentences)
        names = ["one", *options.engines, "one again"]  # the load of a machine may change
        found = {name: _measured(_BY.get(name, _alone), folder, name, options) for name in names}
        alone = (found["one"]["cpu"] + found["one again"]["cpu"]) / 2
        rows, notes = [], []
        for name in names:
            equal = _digest if name.endswith("batches") else _bytes_of
            same = equal(folder / name) == equal(folder / "one")
            rows.append(_row(name, found[name], alone, options.sentences, same))
            if name in options.engines:
                parts = ", ".join(f"{part} {s:.1f}" for part, s in found[name]["parts"].items())
                killed = found[name]["killed"]
                notes.append(
                    f"{name}, CPU seconds of other processes: {parts}"
                    + (f"; worker {killed} was killed" if killed else "")
                )
        notes.append(
            f"{options.sentences:,} sentences, {n_words:,} words, in files of {_FILE:,};"
            f" {options.workers} workers of one thread; one: one process of as many threads. CPU"
            " seconds of all processes from the first call to the end; parsing: those within the"
            " parser's calls, which read and write files too unless they are given batches."
            " Overhead: CPU seconds above the mean of one process. Equal: bytes of files, or rows"
            " of batches."
        )
    columns = [
        "engine", "sentences/s", "s before", "CPU s", "parsing", "rest of workers", "other",
        "overhead %", "equal",
    ]  # fmt: skip
    return Report("A corpus in Parquet files", columns, rows, notes)


def _row(name: str, found: dict[str, Any], alone: float, n: int, same: bool) -> list[Any]:
    overhead = 100 * (found["cpu"] / alone - 1)
    return [
        name, n / found["seconds"], found["before"], found["cpu"], found["parsing"],
        found["workers"] - found["parsing"], found["cpu"] - found["workers"], overhead,
        "yes" if same else "NO",
    ]  # fmt: skip


def _write_input(folder: Path, text: Path, n_sentences: int) -> int:
    """Write files of rows with an id each; returns the number of words."""
    import pyarrow as arrow
    import pyarrow.compute as compute
    import pyarrow.parquet as parquet

    folder.mkdir()
    distinct, n_words = _table(text.read_text()), 0
    for first in range(0, n_sentences, _FILE):
        ids = arrow.array(range(first, min(n_sentences, first + _FILE)), arrow.int64())
        places = arrow.array([i.as_py() % len(distinct) for i in ids])
        table = distinct.take(places).add_column(0, "id", ids)
        n_words += compute.sum(compute.list_value_length(table["form"])).as_py()
        parquet.write_table(table, folder / f"{first // _FILE:05}.parquet", row_group_size=_BATCH)
    return n_words


def _table(text: str) -> Any:
    """The columns of the words of CoNLL-U text."""
    import pyarrow as arrow

    columns: dict[str, list[list[str]]] = {name: [] for name in _READ}
    for sentence in text.strip().split("\n\n"):
        rows = [row.split("\t") for row in sentence.split("\n") if not row.startswith("#")]
        words = [row for row in rows if row[0].isdigit()]
        for place, name in enumerate(_READ, 1):
            columns[name].append([word[place] for word in words])
    return arrow.table(columns)


class _Timed:
    """A function of batches or names that writes what its calls have taken to a file."""

    def __init__(self, parser: Callable[[Any], Any], marks: Path, rows: int) -> None:
        self.parser, self._file, self._rows = parser, marks / f"{os.getpid()}.json", rows
        self._calls, self._parsing, self._began = 0, 0.0, 0.0
        self._process = time.process_time()

    def __call__(self, item: Any) -> Any:
        if not self._calls:
            self._began, self._process = time.time(), time.process_time()
        before = time.process_time()
        found = self.parser(item)
        self._parsing += time.process_time() - before
        self._calls += 1
        said = {
            "began": self._began, "ended": time.time(), "parsing": self._parsing,
            "process": time.process_time() - self._process, "rows": self._calls * self._rows,
        }  # fmt: skip
        self._file.write_text(json.dumps(said))
        return found


class _TimedFiles:
    """A parser of files that is timed in each process."""

    def __init__(self, folder: Path, name: str, options: argparse.Namespace, threads: int) -> None:
        self._parser = WorkerParser(options.model, threads=threads)
        self.files = files_of(folder / "input", folder / name)
        self._marks = _marks(folder, name)

    def __call__(self, names: tuple[str, str]) -> Any:
        timed = _of_process(self._marks, _FILE)
        timed.parser = lambda names: self._parser.file(*names)
        return timed(names)


class _TimedOfRay(_Timed):
    def __init__(self, model: str, marks: Path) -> None:
        super().__init__(WorkerParser(model), marks, _BATCH)


class _TimedOfSpark(WorkerParser):
    def __init__(self, model: str, marks: Path) -> None:
        super().__init__(model)
        self._marks = marks

    def __call__(self, batch: Any) -> Any:
        timed = _of_process(self._marks, _BATCH)
        timed.parser = super().__call__
        return timed(batch)


@lru_cache
def _of_process(marks: Path, rows: int) -> _Timed:
    """What times all tasks of a worker process."""
    return _Timed(iter, marks, rows)


def _marks(folder: Path, name: str) -> Path:
    return folder / f"{name}-marks"


def _alone(folder: Path, name: str, options: argparse.Namespace) -> None:
    timed = _TimedFiles(folder, name, options, options.workers)
    for file in timed.files:
        timed(file)


def _by_processes(folder: Path, name: str, options: argparse.Namespace) -> None:
    timed = _TimedFiles(folder, name, options, 1)
    with ProcessPoolExecutor(options.workers, multiprocessing.get_context("spawn")) as pool:
        list(pool.map(timed, timed.files))


def _start_ray(n_cpus: int) -> Any:
    import ray

    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    os.environ["RAY_worker_niceness"] = "0"  # noqa: SIM112 (that of one process)
    os.environ["PYTHONPATH"] = os.getcwd()
    ray.init(
        num_cpus=n_cpus, include_dashboard=False, log_to_driver=False,
        logging_level="error", object_store_memory=500 << 20,
    )  # fmt: skip
    return ray


def _by_ray(folder: Path, name: str, options: argparse.Namespace) -> None:
    ray = _start_ray(options.workers)
    timed = _TimedFiles(folder, name, options, 1)
    task = ray.remote(lambda file: timed(file))
    ray.get([task.remote(file) for file in timed.files])
    ray.shutdown()


def _by_ray_in_batches(folder: Path, name: str, options: argparse.Namespace) -> None:
    ray = _start_ray(options.workers + 1)  # one reads and writes
    context = ray.data.DataContext.get_current()
    context.target_max_block_size = 8 << 20  # all actors have work from the beginning
    arguments = {"model": options.model, "marks": _marks(folder, name)}
    parsed = ray.data.read_parquet(str(folder / "input"), num_cpus=0.2).map_batches(
        _TimedOfRay, fn_constructor_kwargs=arguments, batch_size=_BATCH, batch_format="pyarrow",
        compute=ray.data.ActorPoolStrategy(size=options.workers), num_cpus=1,
    )  # fmt: skip
    parsed.write_parquet(str(folder / name), ray_remote_args={"num_cpus": 0.2})
    ray.shutdown()


def _start_spark(options: argparse.Namespace) -> Any:
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ["PYTHONPATH"] = os.getcwd()
    settings = {
        "spark.ui.enabled": "false", "spark.log.level": "ERROR", "spark.driver.memory": "1g",
        "spark.sql.execution.arrow.maxRecordsPerBatch": str(_BATCH),
        "spark.sql.files.maxPartitionBytes": "4m",
    }  # fmt: skip
    builder = SparkSession.builder.master(f"local[{options.workers},4]")
    return builder.config(map=settings).getOrCreate()


def _by_spark(folder: Path, name: str, options: argparse.Namespace) -> None:
    session = _start_spark(options)
    timed = _TimedFiles(folder, name, options, 1)
    tasks = session.sparkContext.parallelize(timed.files, len(timed.files))
    tasks.map(timed).collect()
    session.stop()


def _by_spark_in_batches(folder: Path, name: str, options: argparse.Namespace) -> None:
    from examples.spark_parquet import parsed_frame

    session = _start_spark(options)
    frame = session.read.parquet(str(folder / "input"))
    parsed = parsed_frame(frame, _TimedOfSpark(options.model, _marks(folder, name)))
    parsed.write.mode("overwrite").parquet(str(folder / name))
    session.stop()


_BY = {
    "processes": _by_processes, "ray": _by_ray, "spark": _by_spark,
    "ray-batches": _by_ray_in_batches, "spark-batches": _by_spark_in_batches,
}  # fmt: skip


def _measured(
    target: Callable[..., None], folder: Path, name: str, options: argparse.Namespace
) -> dict[str, Any]:
    """Run it in a new process; what its workers say, and what all its processes have used."""
    (folder / name).mkdir()
    marks = _marks(folder, name)
    marks.mkdir()
    process = multiprocessing.get_context("spawn").Process(
        target=target, args=(folder, name, options)
    )
    begin = time.time()
    process.start()
    assert process.pid is not None
    usage = _Usage(process.pid)
    killed = None
    while process.is_alive():
        usage.look()
        if options.kill and name not in ("one", "one again", "processes") and killed is None:
            killed = _kill_one(marks, options)
        process.join(_PAUSE)
    ended = time.time()
    if process.exitcode:
        raise RuntimeError(f"{name} failed with exit code {process.exitcode}")
    said = {int(file.stem): json.loads(file.read_text()) for file in marks.glob("*.json")}
    began = min(each["began"] for each in said.values())
    parts = usage.parts(since=began)
    workers = sum(seconds for pid, (_, seconds) in parts.items() if pid in said)
    others: dict[str, float] = defaultdict(float)
    for pid, (kind, seconds) in parts.items():
        if pid not in said:
            others[kind] += seconds
    return {
        "before": began - begin,
        "seconds": max(each["ended"] for each in said.values()) - began,
        "end": ended - began,
        "parsing": sum(each["parsing"] for each in said.values()),
        "workers": workers,
        "cpu": sum(seconds for _, seconds in parts.values()),
        "parts": dict(sorted(others.items(), key=lambda item: -item[1])),
        "killed": killed,
    }


def _kill_one(marks: Path, options: argparse.Namespace) -> int | None:
    """Kill a worker when a third of the sentences are done; its process id."""
    said = {}
    for file in marks.glob("*.json"):
        try:
            said[int(file.stem)] = json.loads(file.read_text())["rows"]
        except ValueError:  # being written
            return None
    if 3 * sum(said.values()) < options.sentences:
        return None
    pid = min(said)
    os.kill(pid, signal.SIGKILL)
    return pid


class _Usage:
    """The CPU seconds of a process and all below it, by process."""

    def __init__(self, pid: int) -> None:
        import psutil

        self._root, self._errors = psutil.Process(pid), psutil.Error
        self._looks: list[tuple[float, dict[int, tuple[str, float]]]] = []

    def look(self) -> None:
        """Note what each process has used."""
        seen = {}
        try:
            processes = [self._root, *self._root.children(recursive=True)]
        except self._errors:
            return
        for process in processes:
            try:
                times, name = process.cpu_times(), process.name()
            except self._errors:
                continue
            seen[process.pid] = name, times.user + times.system
        self._looks.append((time.time(), seen))

    def parts(self, since: float) -> dict[int, tuple[str, float]]:
        """Name and CPU seconds of each process since a time."""
        first: dict[int, float] = {}
        last: dict[int, tuple[str, float]] = {}
        for at, seen in self._looks:
            for pid, (name, seconds) in seen.items():
                if at <= since:
                    first[pid] = seconds
                last[pid] = name, seconds
        return {pid: (name, s - first.get(pid, 0.0)) for pid, (name, s) in last.items()}


def _bytes_of(folder: Path) -> dict[str, str]:
    """SHA-256 of each file."""
    found = {}
    for path in folder.iterdir():
        with path.open("rb") as file:
            found[path.name] = hashlib.file_digest(file, "sha256").hexdigest()
    return found


def _digest(folder: Path) -> str:
    """SHA-256 of all rows in the order of their ids, written as one Parquet file."""
    import pyarrow as arrow
    import pyarrow.parquet as parquet

    files = sorted(folder.rglob("*.parquet"))
    table = arrow.concat_tables([parquet.ParquetFile(file).read() for file in files])
    lists = [field.name for field in table.schema if field.name != "id"]
    kinds = {name: arrow.int32() if name == "head" else arrow.string() for name in lists}
    schema = arrow.schema(
        [("id", arrow.int64()), *((name, arrow.list_(kinds[name])) for name in sorted(lists))]
    )
    ordered = table.select(schema.names).cast(schema).sort_by("id")
    sink = arrow.BufferOutputStream()
    parquet.write_table(ordered.combine_chunks(), sink, compression="none")
    return hashlib.sha256(sink.getvalue()).hexdigest()
