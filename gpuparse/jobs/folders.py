"""Files that are parsed into a folder: a run that has ended early goes on where it was.

An output gets a receipt, a hidden file beside it, which says what it was made of. When all outputs
are there, the receipts go.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, replace
from pathlib import Path

from gpuparse.errors import ConfigError, option
from gpuparse.files import hidden_path
from gpuparse.jobs.receipts import Origin, Receipt
from gpuparse.jobs.shards import Counts, no_link

_DONE = "gpuparse.done"


def receipt_of(output: Path) -> Path:
    """The path of the receipt of an output.

    Raises: ConfigError: a link is there.
    """
    return no_link(Path(hidden_path(str(output.parent), output.name, _DONE)))


@dataclass(frozen=True)
class FolderFile:
    """A file that is parsed into a folder.

    recipe: what the output depends on besides the file.
    """

    source: str
    output: Path
    recipe: Origin

    def finished(self) -> Counts | None:
        """The counts of an earlier run whose output this run would write again; None without one.

        Raises: ConfigError: the output was made of another input, model or with other options, or
            was changed since.
        """
        if not self.output.exists():
            return None
        advice = f"name another output, or {option('force', True)} to parse all files again"
        receipt = Receipt.read(receipt_of(self.output), advice)
        if receipt is None:
            return None  # and the output is not ours, which writing refuses
        receipt.origin.check(self.origin(), self.output, advice)
        if _digest(self.output) != receipt.result.get("sha256"):
            raise ConfigError(f"{self.output}: was changed since it was parsed; {advice}")
        return Counts(receipt.result["sentences"], receipt.result["faults"])

    def origin(self) -> Origin:
        """All that the output depends on."""
        contents = self.recipe.contents | {"the input": _digest(self.source)}
        return replace(self.recipe, contents=contents)


def _digest(path: str | os.PathLike[str]) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
