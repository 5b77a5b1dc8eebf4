"""Receipts: what some work depends on and, when it is done, what came of it.

All work that can be continued keeps them: trainings, the stages before a parser, shards, folds.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

from gpuparse import __version__
from gpuparse.data.array_file import sha256
from gpuparse.errors import ConfigError, one_line, plural
from gpuparse.files import write_file

_LARGEST = 1 << 20  # bytes of a file
_SHOWN = 20  # options that differ and are named


@dataclass(frozen=True)
class Origin:
    """The inputs of some work: work of the same origin gives the same bytes.

    options: plain data by name. contents: SHA-256 sums of files, by what they are in messages.
    """

    options: dict[str, Any]
    contents: dict[str, str]
    version: str = __version__

    def differences(self, now: Origin) -> list[str]:
        """Differences of another origin, a line each, such as "seed was 1 and is now 2"."""
        old, new = ({"the version": each.version} | each.options for each in (self, now))
        shown = [(name, _shown(old.get(name)), _shown(new.get(name))) for name in old | new]
        changed = [each for each in shown if each[1] != each[2]]
        lines = [
            one_line(f"{name} was {before} and is now {after}")
            for name, before, after in changed[:_SHOWN]
        ]
        if len(changed) > _SHOWN:
            n_more = len(changed) - _SHOWN
            lines.append(plural(n_more, "more option differs", "more options differ"))
        old, new = self.contents, now.contents
        others = [name for name in old | new if old.get(name) != new.get(name)]
        return lines + [one_line(f"{name}: has other content") for name in others]

    def check(self, now: Origin, where: Path, advice: str) -> None:
        """Make sure that what was begun can be continued.

        Args:
            now: the origin of what continues it. where: the file or folder, for messages.
            advice: what can be done beside giving the same options and files.
        Raises: ConfigError: they differ.
        """
        lines = [f"cannot continue: {line}" for line in self.differences(now)]
        if lines:
            lines.append(f"give what it was begun with, or {advice}")
            raise ConfigError("\n".join(f"{where}: {line}" for line in lines))


def _shown(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def flat(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Plain data with the keys of inner tables as `outer.inner`."""
    found: dict[str, Any] = {}
    for key, value in tree.items():
        inner = isinstance(value, Mapping)
        found |= flat(value, f"{prefix}{key}.") if inner else {prefix + key: value}
    return found


@dataclass(frozen=True)
class Receipt:
    """The origin of some work and what came of it; nothing while it is not done."""

    origin: Origin
    result: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of_text(cls, text: str | bytes, path: Path, advice: str) -> Self:
        """The receipt of a text of `as_text`.

        Raises: ConfigError: the text is another one; says so of `path`, and gives `advice`.
        """
        try:
            facts = json.loads(text)
            is_whole = facts.pop("sha256") == _sum(facts)
            receipt = cls(Origin(**facts["origin"]), facts["result"])
            tables = receipt.origin.options, receipt.origin.contents, receipt.result
            is_whole = is_whole and all(isinstance(table, dict) for table in tables)
        except (ValueError, RecursionError, AttributeError, TypeError, KeyError):
            is_whole = False
        if not is_whole:
            raise ConfigError(f"{path}: is damaged, or of another version; {advice}")
        return receipt

    def as_text(self) -> str:
        """The receipt as JSON, under a checksum."""
        facts = asdict(self)
        return json.dumps(facts | {"sha256": _sum(facts)}, indent=1, sort_keys=True) + "\n"

    @classmethod
    def read(cls, path: Path, advice: str) -> Self | None:
        """The receipt in a file; None if there is none.

        Raises: ConfigError: as `of_text`.
        """
        if not path.exists():
            return None
        is_sound = path.is_file() and path.stat().st_size <= _LARGEST
        return cls.of_text(path.read_bytes() if is_sound else b"", path, advice)

    def write(self, path: Path) -> None:
        """Write the receipt in place of an earlier one."""
        write_file(path, self.as_text().encode(), force=True)


def _sum(facts: dict[str, Any]) -> str:
    return sha256(json.dumps(facts, sort_keys=True).encode())
