"""Parse a folder of files with Spark: python examples/spark_files.py MODEL INPUT OUTPUT

INPUT: a folder of Parquet files with a row per sentence, or of Arrow or CoNLL-U files.
OUTPUT: a folder, which gets files of the same names with all columns, and head and deprel.
"""

import argparse
import os
import sys

from pyspark.sql import SparkSession

from gpuparse.api.workers import WorkerParser, files_of


def parse_files(
    session: SparkSession, parse: WorkerParser, source: str, target: str
) -> list[tuple[int, int]]:
    """Parse each file in a task, which Spark repeats if its process dies.

    Returns: sentences and malformed ones of each file that had no output.
    """
    files = files_of(source, target)
    tasks = session.sparkContext.parallelize(files, max(1, len(files)))
    return tasks.map(lambda names: parse.file(*names)).collect()


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__)
    for name in ("model", "input", "output"):
        arguments.add_argument(name)
    arguments.add_argument("--workers", type=int, default=2)
    given = arguments.parse_args()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    # On this machine: the number of workers, and four attempts at each task.
    builder = SparkSession.builder.master(f"local[{given.workers},4]")
    session = builder.config("spark.ui.enabled", "false").getOrCreate()
    found = parse_files(session, WorkerParser(given.model), given.input, given.output)
    print(f"{len(found)} files, {sum(sentences for sentences, _ in found):,} sentences")
    session.stop()
