"""Parquet to Parquet by Ray and Spark on this machine, against one process with as many threads."""

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
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import gpuparse
from benchmarks.registry import Report
from gpuparse.data.synthetic import generate
from gpuparse.errors import ConfigError
from gpuparse.interop.ray import RayParser
from gpuparse.interop.spark import SparkParser

GATE = ("tests/interop/test_tables.py",)
ENGINES = ("ray", "spark")
_DISTINCT = 20_000  # generated sentences, which are repeated
_FILE = 25_000  # rows of an input file
_BATCH = 5000  # rows of a batch
_PAUSE = 0.2  # seconds between two looks at the processes
_READ = ("form", "lemma", "upos", "xpos", "feats")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--sentences", type=int, default=1_000_000)
    parser.add_argument("--workers", type=int, default=2, help="of one thread each")
    parser.add_argument("--engines", nargs="+", choices=ENGINES, default=list(ENGINES))
    parser.add_argument("--model", help="a model's folder; a small one of fast.yaml if not given")
    parser.add_argument("--kill", action="store_true", help="kill a worker in the middle")


def check(options: argparse.Namespace) -> None:
    if options.sentences < 2 * _BATCH or options.workers < 1:
        raise ConfigError(f"--sentences: at least {2 * _BATCH:,}; --workers: at least 1")


def run(options: argparse.Namespace) -> Report:
    """Parse the same files in one process and by each engine, and compare all rows."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model = options.model or _small_model(folder / "model")
        _write_input(folder / "input", options.sentences)
        alone = _measured(_alone, folder, "one", model, options)
        expected = _digest(folder / "one")
        rows = [_row("one process", alone, alone, options.sentences, True)]
        notes = []
        for engine in options.engines:
            target = {"ray": _by_ray, "spark": _by_spark}[engine]
            found = _measured(target, folder, engine, model, options)
            same = _digest(folder / engine) == expected
            rows.append(_row(engine, found, alone, options.sentences, same))
            parts = ", ".join(f"{part} {seconds:.1f}" for part, seconds in found["parts"].items())
            killed = f"; killed: {found['killed']}" if options.kill else ""
            notes.append(f"{engine}, CPU seconds of other processes: {parts}{killed}")
        notes.append(
            f"{options.sentences:,} sentences, {_DISTINCT:,} different ones; {options.workers}"
            " workers of one thread, or one process of as many. CPU seconds of all processes from"
            " the first batch to the end; parsing: those within the parser's calls, which read and"
            " make Arrow tables too. Overhead: CPU seconds above those of one process."
        )
    columns = [
        "engine", "sentences/s", "s before", "CPU s", "parsing", "rest of workers", "other",
        "overhead %", "equal",
    ]  # fmt: skip
    return Report("A corpus in Parquet files", columns, rows, notes)


def _row(name: str, found: dict[str, Any], alone: dict[str, Any], n: int, same: bool) -> list[Any]:
    overhead = 100 * (found["cpu"] / alone["cpu"] - 1)
    return [
        name, n / found["seconds"], found["before"], found["cpu"], found["parsing"],
        found["workers"] - found["parsing"], found["cpu"] - found["workers"], overhead,
        "yes" if same else "NO",
    ]  # fmt: skip


def _small_model(folder: Path) -> str:
    keys = {"output": folder, "data.train": "synthetic:2000:1", "decoder": "eisner", "threads": 1}
    gpuparse.train("fast", keys, quiet=True)
    return str(folder)


def _write_input(folder: Path, n_sentences: int) -> None:
    """Files of rows with an id each."""
    import pyarrow as arrow
    import pyarrow.parquet as parquet

    folder.mkdir()
    distinct = _table(generate(_DISTINCT, 7))
    for first in range(0, n_sentences, _FILE):
        ids = arrow.array(range(first, min(n_sentences, first + _FILE)), arrow.int64())
        places = arrow.array([i.as_py() % len(distinct) for i in ids])
        table = distinct.take(places).add_column(0, "id", ids)
        parquet.write_table(table, folder / f"{first // _FILE:05}.parquet", row_group_size=_BATCH)


def _table(text: bytes) -> Any:
    """The columns of the words of CoNLL-U text."""
    import pyarrow as arrow

    columns: dict[str, list[list[str]]] = {name: [] for name in _READ}
    for sentence in text.decode().strip().split("\n\n"):
        words = [row.split("\t") for row in sentence.split("\n") if not row.startswith("#")]
        for place, name in enumerate(_READ, 1):
            columns[name].append([word[place] for word in words])
    return arrow.table(columns)


class _Timed:
    """A parser that writes what its calls have taken to a file of its process."""

    def __init__(self, parser: Callable[[Any], Any], marks: str) -> None:
        self.parser, self._file = parser, Path(marks) / f"{os.getpid()}.json"
        self._calls, self._parsing, self._began = 0, 0.0, 0.0
        self._process = time.process_time()

    def __call__(self, batch: Any) -> Any:
        if not self._calls:
            self._began, self._process = time.time(), time.process_time()
        before = time.process_time()
        found = self.parser(batch)
        self._parsing += time.process_time() - before
        self._calls += 1
        said = {
            "began": self._began, "ended": time.time(), "parsing": self._parsing,
            "process": time.process_time() - self._process, "calls": self._calls,
        }  # fmt: skip
        self._file.write_text(json.dumps(said))
        return found


class _TimedOfRay(_Timed):
    def __init__(self, model: str, marks: str) -> None:
        super().__init__(RayParser(model), marks)


class _TimedOfSpark:
    def __init__(self, parse: SparkParser, marks: str) -> None:
        self._parse, self._marks = parse, marks

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        timed = _of_process(self._marks)
        timed.parser = lambda batch: list(self._parse(iter([batch])))
        for batch in batches:
            yield from timed(batch)


@lru_cache
def _of_process(marks: str) -> _Timed:
    """What times all tasks of a worker process."""
    return _Timed(iter, marks)


def _alone(folder: Path, model: str, marks: str, options: argparse.Namespace) -> None:
    import pyarrow.parquet as parquet

    parser = gpuparse.load(model, threads=options.workers)
    timed = _Timed(lambda batch: parser.parse(batch).to_arrow(), marks)
    for file in sorted((folder / "input").iterdir()):
        tables = [timed(batch) for batch in parquet.ParquetFile(file).iter_batches(_BATCH)]
        with parquet.ParquetWriter(folder / "one" / file.name, tables[0].schema) as writer:
            for table in tables:
                writer.write_table(table)


def _by_ray(folder: Path, model: str, marks: str, options: argparse.Namespace) -> None:
    import ray

    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    os.environ["RAY_worker_niceness"] = "0"  # noqa: SIM112 (that of one process)
    os.environ["PYTHONPATH"] = os.getcwd()
    ray.init(
        num_cpus=options.workers + 1, include_dashboard=False, log_to_driver=False,
        logging_level="error", object_store_memory=500 << 20,
    )  # fmt: skip
    context = ray.data.DataContext.get_current()
    context.target_max_block_size = 8 << 20  # all actors have work from the beginning
    parsed = ray.data.read_parquet(str(folder / "input"), num_cpus=0.2).map_batches(
        _TimedOfRay, fn_constructor_kwargs={"model": model, "marks": marks}, batch_size=_BATCH,
        batch_format="pyarrow", compute=ray.data.ActorPoolStrategy(size=options.workers),
        num_cpus=1,
    )  # fmt: skip
    parsed.write_parquet(str(folder / "ray"), ray_remote_args={"num_cpus": 0.2})
    ray.shutdown()


def _by_spark(folder: Path, model: str, marks: str, options: argparse.Namespace) -> None:
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ["PYTHONPATH"] = os.getcwd()
    settings = {
        "spark.ui.enabled": "false", "spark.log.level": "ERROR", "spark.driver.memory": "1g",
        "spark.sql.execution.arrow.maxRecordsPerBatch": str(_BATCH),
        "spark.sql.files.maxPartitionBytes": "4m",
    }  # fmt: skip
    session = (
        SparkSession.builder.master(f"local[{options.workers},4]")
        .config(map=settings)
        .getOrCreate()
    )
    frame = session.read.parquet(str(folder / "input"))
    parse = SparkParser(model)
    schema = parse.schema(frame.schema)

    frame.mapInArrow(_TimedOfSpark(parse, marks), schema).write.mode("overwrite").parquet(
        str(folder / "spark")
    )
    session.stop()


def _measured(
    target: Callable[..., None], folder: Path, name: str, model: str, options: argparse.Namespace
) -> dict[str, Any]:
    """Run it in a new process; what its workers say, and what all its processes have used."""
    (folder / name).mkdir()
    marks = folder / f"{name}-marks"
    marks.mkdir()
    process = multiprocessing.get_context("spawn").Process(
        target=target, args=(folder, model, str(marks), options)
    )
    begin = time.time()
    process.start()
    assert process.pid is not None
    usage = _Usage(process.pid)
    killed = None
    while process.is_alive():
        usage.look()
        if options.kill and name != "one" and killed is None:
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
    """Kill a worker when a third of the batches are done; its process id."""
    said = {}
    for file in marks.glob("*.json"):
        try:
            said[int(file.stem)] = json.loads(file.read_text())["calls"]
        except ValueError:  # being written
            return None
    if 3 * sum(said.values()) * _BATCH < options.sentences:
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
