"""Parsing of Spark data frames: a function and a schema for `mapInArrow`, and a pandas UDF.

    parse = SparkParser("runs/danish")
    parsed = frame.mapInArrow(parse, parse.schema(frame.schema))

A Python worker process of Spark loads the model once, whatever number of tasks it runs. A task
parses with as many threads as the CPUs that Spark reserves for it, `spark.task.cpus`.
"""

import os
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from gpuparse.interop.tables import TableParser


class SparkParser:
    """A function for `mapInArrow` over frames with a row per sentence and array columns form, ...

    It is small: it has the name of the model's folder and the options, and no model.
    """

    def __init__(
        self,
        model: str | os.PathLike[str],
        *,
        threads: int | None = None,
        device: str = "cpu",
        allow_missing: bool = False,
        single_root: bool = False,
        on_error: str = "fail",
        **asked: Any,
    ) -> None:
        """
        Args:
            model: the folder that training wrote, which each worker and the driver see; or one
                that was shipped by `SparkContext.addFile(folder, recursive=True)`, by its name.
            threads: CPU threads of each task; None: `spark.task.cpus`.
            device: "cpu", "cuda", or "auto".
            allow_missing, single_root: see `gpuparse.load`.
            on_error: "fail": an error that names the rows that cannot be read; "null": they have
                nulls in the new columns.
            asked: options that `SentenceParser.parse` defines: probabilities, mbr, deps, and others
                but kbest.
        """
        self._model, self._threads = os.fspath(model), threads
        self._options = (
            ("device", device), ("allow_missing", allow_missing), ("single_root", single_root),
            ("on_error", on_error), *asked.items(),
        )  # fmt: skip

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        """Record batches with the columns of `schema`.

        Raises: DataError: rows that cannot be read, which it names.
        """
        parser = self._parser()
        for batch in batches:
            new = list(parser.new_columns(batch.schema.names))
            table = parser(batch)
            kept = [name for name in batch.schema.names if name not in new]
            yield from table.select(kept + new).to_batches()

    def schema(self, of_input: Any) -> Any:
        """The StructType of the result: the input's columns, then those that parsing adds.

        head: array<int>, deprel: array<string>; prob and deprel_prob: array<double>, if
        probabilities are asked for; deps: array<string>, of parsers of graphs; lemma, upos, xpos
        and feats: array<string>, of models with a tagger or a lemmatiser.

        Args: of_input: the input's StructType, `frame.schema`.
        Raises: ModelError: there is no model here. DataError: the input lacks columns that the
            model reads.
        """
        from pyspark.sql.types import StructType

        self._parser().check_columns(of_input.fieldNames())
        new = self._new_fields(of_input.fieldNames())
        names = {field.name for field in new}
        return StructType([field for field in of_input if field.name not in names] + new)

    def udf(self) -> Any:
        """A pandas UDF from a struct of the columns of a sentence to a struct of the new ones.

        frame.withColumn("tree", parse.udf()(struct("form", "upos", "xpos"))); `mapInArrow` has less
        to convert, and is faster.

        Raises: ModelError: there is no model here.
        """
        import pandas
        import pyarrow as arrow
        from pyspark.sql.functions import pandas_udf
        from pyspark.sql.types import StructType

        def trees(frames: Iterator[pandas.DataFrame]) -> Iterator[pandas.DataFrame]:
            parser = self._parser()
            new = list(parser.new_columns(["form"]))
            for frame in frames:
                table = parser(arrow.Table.from_pandas(frame, preserve_index=False))
                yield table.select(new).to_pandas()

        return pandas_udf(trees, StructType(self._new_fields(["form"])))

    def _new_fields(self, names: list[str]) -> list[Any]:
        from pyspark.sql.pandas.types import from_arrow_type
        from pyspark.sql.types import StructField

        return [
            StructField(name, from_arrow_type(kind))
            for name, kind in self._parser().new_columns(names).items()
        ]

    def _parser(self) -> TableParser:
        """The parser of this process."""
        from pyspark import SparkFiles, TaskContext

        model, task = self._model, TaskContext.get()
        if not Path(model).is_dir():
            shipped = SparkFiles.get(Path(model).name)
            model = shipped if Path(shipped).is_dir() else model
        threads = self._threads or (1 if task is None else task.cpus())
        return _loaded(model, threads, self._options)


@lru_cache(maxsize=4)
def _loaded(model: str, threads: int, options: tuple[tuple[str, Any], ...]) -> TableParser:
    """A parser, loaded when it is first asked for in this process."""
    return TableParser(model, threads=threads, **dict(options))
