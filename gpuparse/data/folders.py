"""The folder of a treebank: its parts by the names of their files, and what its README says."""

import os
import re
from pathlib import Path
from typing import NamedTuple

from gpuparse.errors import ConfigError

PARTS = ("train", "dev", "test")
# Sentences of a small English-like grammar, for the config `quickstart`, by tests/synthetic.py.
TOY = {f"toy-{part}": f"{Path(__file__).parent}/toy/toy-{part}.conllu" for part in PARTS}
_NAMED = re.compile(r"(?:(.+)-ud-)?(train|dev|test)(?:\.conllu|\.conll)")
_SPLIT = re.compile(r"(.+)-ud-(train|dev|test)-.+\.conllu")  # a large part in several files
_README = ("README.md", "README.txt", "README")
_MOST_BYTES = 1 << 20  # of a README or a licence
_MOST_CHARACTERS = 1000  # of a text taken from it
_FIELD = re.compile(r"^([A-Z][A-Za-z ]{0,40}):[ \t]*(\S.*)$", re.MULTILINE)
_BLOCK = re.compile(
    r"^=+ *Machine-readable metadata.*?=*$\n(.*?)(?:^=+$|\Z)", re.MULTILINE | re.DOTALL
)
_UD_NAME = re.compile(r"UD_([A-Z][A-Za-z_]{0,60})-([A-Za-z0-9]{1,60})")
_LICENCE = re.compile(r"\bLicen[cs]e:[ \t]*(\S.*?)(?:\.(?=\s)|$)", re.MULTILINE)
_SOURCE = re.compile(r"^Source:[ \t]*(\S.*?)(?:\.(?=\s)|$)", re.MULTILINE)
_CHANGELOG = re.compile(r"^#+ *Changelog\b(.*?)(?:^#+ [A-Z]|\Z)", re.MULTILINE | re.DOTALL)
_VERSION = re.compile(r"\bv([0-9]{1,2})\.([0-9]{1,2})\b")
_RELEASE = re.compile(r"ud-treebanks-v([0-9]{1,2})\.([0-9]{1,2})")  # the folder of a release
_OF_TITLE = re.compile(r"\brelease ([0-9]{1,2})\.([0-9]{1,2})\b")


class Facts(NamedTuple):
    """Facts about a treebank; None is unknown.

    Attributes:
        name: `UD_French-Sequoia`, or the name of the folder.
        language: `French`. code: its code in the names of the files, `fr`.
        release: `UD v2.16`. since: the first release with these data.
        licence: as the README or LICENSE.txt says it.
        attribution: who made it, or where it is from. genre: of its texts.
    """

    name: str | None = None
    language: str | None = None
    code: str | None = None
    release: str | None = None
    since: str | None = None
    licence: str | None = None
    attribution: str | None = None
    genre: str | None = None


def part_files(part: str) -> list[str]:
    """The files of a part such as `a.conllu,b.conllu` or `toy-train`; one of this name is taken."""
    return [part] if os.path.exists(part) else [TOY.get(file, file) for file in part.split(",")]


def find_parts(folder: str) -> dict[str, str | None]:
    """The files of the parts train, dev and test of a treebank; None for dev or test without one.

    The names are those of Universal Dependencies, `fr_sequoia-ud-train.conllu`, or `train.conllu`
    and `train.conll`. The files of `cs_pdt-ud-train-a.conllu` and `cs_pdt-ud-train-b.conllu` are
    joined by commas, as `part_files` reads them. Folders below it are not searched.

    Raises: ConfigError: there is no such folder, no part train, or several files of one part.
    Cost: the names in the folder are read.
    """
    try:
        names = sorted(entry.name for entry in os.scandir(folder) if entry.is_file())
    except (FileNotFoundError, NotADirectoryError):
        what = "a file" if os.path.isfile(folder) else "no such folder"
        raise ConfigError(f"{folder}: {what}; give the folder of a treebank") from None
    except OSError as error:
        raise ConfigError(f"{folder}: cannot be read: {error.strerror}") from None
    found: dict[str, str | None] = {}
    prefixes: set[str] = set()
    for part in PARTS:
        files = [name for name in names if _part_of(name) == part]
        if len(files) > 1 and not all(map(_SPLIT.fullmatch, files)):
            raise ConfigError(
                f"{folder}: has several files of the part {part}: {', '.join(files)}; join them, or"
                " name one by the keys data.train, data.dev and data.test"
            )
        paths = [os.path.join(folder, file) for file in files]
        if len(paths) > 1 and any("," in path for path in paths):
            raise ConfigError(
                f"{folder}: a part in several files is a list with commas, and a name here has one:"
                " rename it"
            )
        found[part] = ",".join(paths) or None
        prefixes.update(prefix for name in files if (prefix := _prefix_of(name)))
    if found["train"] is None:
        raise ConfigError(
            f"{folder}: has no part train: expected a file *-ud-train.conllu, train.conllu or"
            " train.conll"
        )
    if len(prefixes) > 1:
        raise ConfigError(
            f"{folder}: has parts of several treebanks: {', '.join(sorted(prefixes))}; name the"
            " files by the keys data.train, data.dev and data.test"
        )
    return found


def facts_of(folder: str) -> Facts:
    """Facts from a treebank's folder: its name, its files, README and LICENSE.txt.

    Nothing is guessed: what is not said, or not in a known form, is None.

    Cost: README and LICENSE.txt are read, up to 1 MiB each.
    """
    here = os.path.abspath(folder)
    readme = next(filter(None, (_text(os.path.join(here, name)) for name in _README)), "")
    titles = [line for line in readme.splitlines()[:5] if line.startswith("# ")]
    title = titles[0] if titles else ""
    name = os.path.basename(here)
    named = _UD_NAME.fullmatch(name) or _UD_NAME.search(title)
    block = _BLOCK.search(readme)
    fields = dict(_FIELD.findall(block[1])) if block else {}
    licence = fields.get("License") or _first(_LICENCE, readme)
    licence = licence or _text(os.path.join(here, "LICENSE.txt")).strip().partition("\n")[0]
    prefix = next(filter(None, map(_prefix_of, sorted(os.listdir(here)))), None)
    return Facts(
        name=_line(named[0] if named else name),
        language=_line(named[1].replace("_", " ")) if named else None,
        code=_line(prefix.partition("_")[0]) if prefix else None,
        release=_release(here, title, readme) if named else None,
        since=_line(fields.get("Data available since")),
        licence=_line(licence),
        attribution=_line(fields.get("Contributors") or _first(_SOURCE, readme)),
        genre=_line(fields.get("Genre")),
    )


def _part_of(name: str) -> str | None:
    """The part that a file is, or a piece of."""
    if match := _NAMED.fullmatch(name):
        return match[2]
    match = _SPLIT.fullmatch(name)
    return match[2] if match else None


def _prefix_of(name: str) -> str | None:
    """`fr_sequoia` of `fr_sequoia-ud-train.conllu`."""
    match = _NAMED.fullmatch(name) or _SPLIT.fullmatch(name)
    return match[1] if match else None


def _release(folder: str, title: str, readme: str) -> str | None:
    """The release, by the folder of all treebanks, the title, or the last one of the changelog."""
    above = _RELEASE.fullmatch(os.path.basename(os.path.dirname(folder)))
    if found := above or _OF_TITLE.search(title):
        return f"UD v{found[1]}.{found[2]}"
    changes = _CHANGELOG.search(readme)
    versions = _VERSION.findall(changes[1]) if changes else []
    numbers = [(int(major), int(minor)) for major, minor in versions]
    return "UD v{}.{}".format(*max(numbers)) if numbers else None


def _first(pattern: re.Pattern[str], text: str) -> str | None:
    found = pattern.search(text)
    return found[1] if found else None


def _line(text: str | None) -> str | None:
    """A text of a README as one line that can be printed; None if nothing is left, or it is long.

    A part of a licence may say what the whole does not.
    """
    printable = "".join(c if c.isprintable() else " " for c in text or "")
    words = " ".join(printable.split())
    return words if 0 < len(words) <= _MOST_CHARACTERS else None


def _text(path: str) -> str:
    """The text of a file of the folder; "" if there is none, or it is too large or no text."""
    if not os.path.isfile(path) or os.path.getsize(path) > _MOST_BYTES:
        return ""
    try:
        return Path(path).read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        return ""
