"""Parsing of a folder of files by the workers of any engine, which move names of files only.

    parse = FileParser("runs/danish", "corpus", "parsed")
    session.sparkContext.parallelize(names := parse.files(), len(names)).map(parse).collect()

A worker reads its file, parses it, and writes a file: no sentence passes through the engine.
"""

from __future__ import annotations

import os
import warnings
from functools import lru_cache
from inspect import signature
from pathlib import Path
from typing import Any, NamedTuple

from gpuparse.api.parsing import SentenceParser, load
from gpuparse.errors import ConfigError
from gpuparse.formats.json_lines import file_format
from gpuparse.formats.names import AUTO, check_output_folder, inputs_below, outputs_of
from gpuparse.installed import find_model
from gpuparse.model_folder import check_folder

EXISTING = ("fail", "keep", "replace")


class ParsedFile(NamedTuple):
    """The name of a file, its number of sentences, and that of malformed ones."""

    name: str
    sentences: int
    faults: int


class FileParser:
    """A function that parses a file of a folder into a file in another folder.

    Files have the same names there, but text has `.conllu` in place of `.txt`.

    It is small and can be pickled: it has names and options, and no model. A process loads the
    model when it parses its first file, and keeps it. A file appears under its name when it is
    complete, and has the bytes that `gpuparse parse` writes; a call that is killed and repeated
    changes nothing.
    """

    def __init__(
        self,
        model: str | os.PathLike[str],
        source: str | os.PathLike[str],
        target: str | os.PathLike[str],
        *,
        threads: int = 1,
        device: str = "cpu",
        allow_missing: bool = False,
        single_root: bool = False,
        input: str = AUTO,
        **asked: Any,
    ) -> None:
        """
        Args:
            model: the folder that training wrote, or the name of a model that is installed where
                files are parsed.
            source: the folder of the input; files in folders below it too.
            input: the format of the files; see `SentenceParser.parse_file`.
            target: the folder of the output, which is made. All processes must see these folders
                under the same paths.
            threads: CPU threads of a call: what the engine reserves for a task.
            device: "cpu", "cuda", or "auto".
            allow_missing, single_root: see `gpuparse.load`.
            asked: options that `SentenceParser.parse_file` defines: probabilities, mbr, on_error,
                and others.
        Raises: ConfigError: the target is the source, or in it. ModelError: there is no such model.
            TypeError: there is no such option.
        """
        self.source, self.target = Path(source).resolve(), Path(target).resolve()
        check_output_folder(target, source)
        # A worker has an installed model of this name in a folder of its own.
        check_folder(folder := find_model(model))
        is_name = folder != Path(model).expanduser()
        self._model = os.fspath(model if is_name else folder.absolute())
        self._of_model = (threads, device, allow_missing, single_root)
        # Bound now, so that a wrong name is an error here, and not in each worker.
        self._options: dict[str, Any] = (
            signature(SentenceParser.parse_file)
            .bind(None, source, target, input=input, force=True, **asked)
            .kwargs
        )

    def files(self, existing: str = "fail") -> list[str]:
        """The names of the files to parse, in order, relative to the source.

        Names that begin with `.` or `_`, of files and folders, are passed over, and so are files
        whose suffix says no format unless `input` was given, with a warning.

        Args: existing: what is done about a file that has an output: "fail": an error; "keep": it
            is left out, which continues a job that has ended early; "replace": it is parsed again.
        Raises: ConfigError: the source is no folder or has no files; an output exists.
        """
        if existing not in EXISTING:
            raise ConfigError(f"existing: expected one of {', '.join(EXISTING)}, not {existing!r}")
        if not self.source.is_dir():
            raise ConfigError(f"{self.source}: is not a folder; name the folder of the files")
        names, said = inputs_below(self.source, self._options["input"])
        if said:
            warnings.warn(said, stacklevel=2)
        outputs = self._outputs(names)
        done = {name for name, out in zip(names, outputs, strict=True) if out.exists()}
        if done and existing == "fail":
            raise ConfigError(
                f"{self.output(min(done))}: exists; name another folder, or give"
                ' existing="keep" to parse the other files, "replace" to parse all'
            )
        return sorted(set(names) - done if existing == "keep" else names)

    def output(self, name: str) -> Path:
        """The output of a file, given its name relative to the source.

        Text and vertical text become CoNLL-U: `.conllu` follows the name, or takes the place of
        `.txt`.
        """
        return self._outputs([name])[0]

    def _outputs(self, names: list[str]) -> list[Path]:
        files = [str(self.source / name) for name in names]
        kinds = [file_format(file, self._options["input"]) for file in files]
        return outputs_of(files, names, self.target, kinds)

    def __call__(self, name: str) -> ParsedFile:
        """Parse a file, given its name relative to the source; replaces its output.

        Raises: as `gpuparse.load` and `SentenceParser.parse_file`.
        """
        output = self.output(name)
        output.parent.mkdir(parents=True, exist_ok=True)
        parser = _loaded(self._model, *self._of_model)
        counts = parser.parse_file(self.source / name, output, **self._options)
        return ParsedFile(name, *counts)


@lru_cache(maxsize=4)
def _loaded(
    model: str, threads: int, device: str, allow_missing: bool, single_root: bool
) -> SentenceParser:
    """A parser, loaded when this process first asks for it."""
    return load(
        model, threads=threads, device=device, allow_missing=allow_missing, single_root=single_root
    )
