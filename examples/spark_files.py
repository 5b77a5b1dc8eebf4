"""Parse a folder of files with Spark: python examples/spark_files.py MODEL INPUT OUTPUT

INPUT: a folder of Parquet files with a row per sentence, or of Arrow or CoNLL-U files.
OUTPUT: a folder, which gets files of the same names with all columns, and head and deprel.
"""

import argparse
import os
import sys

from pyspark.sql import SparkSession

from gpuparse.interop.files import FileParser, ParsedFile


def parse_files(
    session: SparkSession, parse: FileParser, existing: str = "fail"
) -> list[ParsedFile]:
    """Parse each file in a task, which Spark repeats if its process dies."""
    names = parse.files(existing)
    return session.sparkContext.parallelize(names, max(1, len(names))).map(parse).collect()


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__)
    for name in ("model", "input", "output"):
        arguments.add_argument(name)
    arguments.add_argument("--workers", type=int, default=2)
    arguments.add_argument("--existing", default="fail", help="outputs: fail, keep or replace")
    given = arguments.parse_args()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    function = FileParser(given.model, given.input, given.output)
    # On this machine: the number of workers, and four attempts at each task.
    builder = SparkSession.builder.master(f"local[{given.workers},4]")
    session = builder.config("spark.ui.enabled", "false").getOrCreate()
    found = parse_files(session, function, given.existing)
    print(f"{len(found)} files, {sum(file.sentences for file in found):,} sentences")
    session.stop()
