"""Treebanks checked from Python."""

import os
from collections.abc import Iterable

from gpuparse.jobs.checking import Asked, Checked, check_files

__all__ = ["Checked", "check"]


def check(
    path: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    *,
    partial: bool = False,
    model: str | os.PathLike[str] | None = None,
    predicted: str | os.PathLike[str] | None = None,
    guide: str | None = None,
    most: int = 20,
    threads: int = 0,
) -> Checked:
    """Find all that is wrong with treebanks, as the command `check` does.

    Args:
        path: a CoNLL-X or CoNLL-U file, or several.
        partial: words may lack a head, as with data.partial=true.
        model: folder of a parser that has not learned from the treebank; the words for which it
            prefers another head or relation are listed.
        predicted: in place of a model: the files as `crossval --probabilities` has parsed them.
        guide: of models with guide features, as for `SentenceParser.parse_file`.
        most: doubtful words that are listed.
        threads: 0 for all processors.
    Returns: `problems`, each with `file`, `line`, `sent_id`, `kind`, `message` and `is_error`;
        `errors`, `warnings` and `counts` of them; `doubts` of the parser. `str` gives the text of
        the command, `to_dict` its JSON.
    Raises: ConfigError: the arguments do not fit each other, or the model has no probabilities.
        DataError, OSError: a file cannot be read. ModelError: the model cannot be used.
    Cost: some microseconds per word; with a model twice that of parsing with probabilities.
    """
    paths = [path] if isinstance(path, (str, os.PathLike)) else list(path)
    folder, parsed = (None if each is None else os.fspath(each) for each in (model, predicted))
    asked = Asked(
        partial=partial, model=folder, predicted=parsed, guide=guide, most=most, threads=threads
    )
    return check_files([os.fspath(each) for each in paths], asked)[0]
