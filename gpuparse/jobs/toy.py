"""Models of generated sentences, such as that of `quickstart`, which know a toy grammar."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from gpuparse.model.folder import CONFIG

if TYPE_CHECKING:
    from gpuparse.config import RunConfig

TOY = (
    "learned from generated sentences: it knows only their toy grammar; for real text learn from a"
    " treebank (data.train=FILE)"
)


def is_toy(config: str) -> bool:
    """True if a model learned from generated sentences, by the config that it records."""
    return "\n  train: toy-train.conllu\n" in config  # it is always written in the same form


def is_same_toy(folder: Path, config: RunConfig) -> bool:
    """True if a folder has a finished model of generated sentences that this config would learn.

    Learning it again loses nothing.
    """
    from gpuparse.jobs.checkpoint import is_unfinished  # slow to import; parsing does not need it

    text = config.recorded().to_yaml()
    try:
        return (
            is_toy(text)
            and not is_unfinished(folder)
            and (folder / CONFIG).read_text(encoding="utf-8") == text
        )
    except (OSError, UnicodeDecodeError):
        return False
