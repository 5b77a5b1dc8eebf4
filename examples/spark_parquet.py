"""Parse Parquet files with Spark: python examples/spark_parquet.py MODEL INPUT OUTPUT

INPUT: a Parquet file or a folder of them: a row per sentence, list columns form, upos, ...
OUTPUT: a folder, which gets Parquet files with all columns, and head and deprel.
"""

import argparse
import os
import sys
from collections.abc import Iterator

import pyarrow
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

from gpuparse.api.workers import WorkerParser


def parsed_frame(frame: DataFrame, parse: WorkerParser) -> DataFrame:
    """A frame with the columns of the trees; each worker loads the model once."""

    def rows(batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        for batch in batches:
            yield from parse(batch).to_batches()

    schema = parse.schema(to_arrow_schema(frame.schema))
    return frame.mapInArrow(rows, from_arrow_schema(schema))


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
    parsed_frame(session.read.parquet(given.input), WorkerParser(given.model)).write.parquet(
        given.output
    )
    session.stop()
