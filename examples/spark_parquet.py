"""Parse Parquet files with Spark: python examples/spark_parquet.py MODEL INPUT OUTPUT

INPUT: a Parquet file or a folder of them: a row per sentence, list columns form, upos, ...
OUTPUT: a folder, which gets Parquet files with all columns, and head and deprel.
"""

import argparse
import os
import sys

from pyspark.sql import SparkSession

from gpuparse.interop.spark import SparkParser


def parse_parquet(session: SparkSession, model: str, source: str, target: str) -> None:
    """Parse with the workers of a session; each loads the model once."""
    frame = session.read.parquet(source)
    parse = SparkParser(model)
    frame.mapInArrow(parse, parse.schema(frame.schema)).write.parquet(target)


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
    parse_parquet(session, given.model, given.input, given.output)
    session.stop()
