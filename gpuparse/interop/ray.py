"""Parsing of Ray datasets: a class for `map_batches`, whose actors load the model once each.

    dataset.map_batches(
        RayParser, fn_constructor_kwargs={"model": "runs/danish"}, batch_format="pyarrow",
        batch_size=4000, compute=ray.data.ActorPoolStrategy(size=2), num_cpus=1,
    )

`num_cpus` is both what Ray reserves for an actor and the number of threads that parse in it.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from gpuparse.interop.tables import TableParser

if TYPE_CHECKING:
    import pyarrow


class RayParser:
    """A parser of Arrow tables with one row per sentence and list columns form, upos, xpos, ..."""

    def __init__(
        self,
        model: str | os.PathLike[str],
        *,
        threads: int | None = None,
        device: str | None = None,
        allow_missing: bool = False,
        single_root: bool = False,
        on_error: str = "fail",
        **asked: Any,
    ) -> None:
        """Load the model, in an actor.

        Args:
            model: the folder that training wrote, as the actor's machine sees it.
            threads: CPU threads; None: as many as the CPUs that Ray gave to the actor.
            device: "cpu", "cuda", or "auto"; None: "cuda" if Ray gave a GPU to the actor.
            allow_missing, single_root: see `gpuparse.load`.
            on_error: "fail": an error that names the rows that cannot be read; "null": they have
                nulls in the new columns.
            asked: options that `SentenceParser.parse` defines: probabilities, mbr, deps, and others
                but kbest.
        Raises: as TableParser.
        """
        if threads is None or device is None:
            import ray

            given = ray.get_runtime_context().get_assigned_resources()
            threads = max(1, int(given.get("CPU", 1))) if threads is None else threads
            device = device or ("cuda" if given.get("GPU") else "cpu")
        self._parser = TableParser(
            model, threads=threads, device=device, allow_missing=allow_missing,
            single_root=single_root, on_error=on_error, **asked,
        )  # fmt: skip

    def __call__(self, batch: pyarrow.Table) -> pyarrow.Table:
        """The batch with list columns head, deprel, and prob, deprel_prob and deps where there are.

        Models with a tagger or a lemmatiser fill in lemma, upos, xpos and feats, too.

        Raises: DataError: rows that cannot be read, which it names; columns that the model reads
            are missing.
        """
        return self._parser(batch)
