"""Models as packages: wheels that pip installs, with a model that every door finds by its name.

A wheel has the files of the model in their compact form, its card, its licence, and an entry point
with its name (`gpuparse.model.installed`). The same model gives the same bytes.
"""

import base64
import hashlib
import io
import re
import zipfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from gpuparse import __version__
from gpuparse.data.array_file import open_file, packed_again
from gpuparse.errors import ConfigError, ModelError
from gpuparse.files import write_file
from gpuparse.jobs.card import CARD, README, card_files, read_card
from gpuparse.limits import MAX_ARRAYS_BYTES
from gpuparse.model.folder import load_parser, save_parser
from gpuparse.model.installed import GROUP, NAME
from gpuparse.model.parser import Parser
from gpuparse.model.pipeline import files_of, has_parser, load_stages, sum_of_stages
from gpuparse.scorers.encoder.scorer import EncoderScorer

_ARRAYS = ".safetensors"
LICENSE = "LICENSE"
_PREFIX = "gpuparse_model_"  # of the names of packages
# As PEP 440 has them, without epochs and local parts.
_VERSION = re.compile(r"\d+(\.\d+)*((a|b|rc)\d+)?(\.post\d+)?(\.dev\d+)?", re.ASCII)
_MOST_CHARACTERS = 64  # of a version, which the name of the wheel has
_MOST_OF_LICENCE = 1000  # characters
_DATE = (1980, 1, 1, 0, 0, 0)  # of all files, so that bytes do not depend on the day
_MODE = 0o100644 << 16


class Package(NamedTuple):
    """The name, version and licence of a package of a model.

    licence: as people name it, such as "CC BY-SA 4.0".
    """

    name: str
    version: str
    licence: str

    def check(self) -> None:
        """Raises: ConfigError: a name, version or licence that a package cannot have."""
        if not NAME.fullmatch(self.name):
            raise ConfigError(
                f"{self.name}: a name of a model has letters a to z, numbers, - and _, begins with"
                " a letter, and is at most 64 long"
            )
        if not _VERSION.fullmatch(self.version) or len(self.version) > _MOST_CHARACTERS:
            raise ConfigError(
                f"{self.version[:80]}: a version is expected, such as 1.0 or 2.1rc1, at most"
                f" {_MOST_CHARACTERS} characters long"
            )
        is_text = self.licence.isprintable() and len(self.licence) <= _MOST_OF_LICENCE
        if not (self.licence.strip() and is_text):
            raise ConfigError(
                "a licence is needed, such as CC BY-SA 4.0: one line without control characters, at"
                f" most {_MOST_OF_LICENCE} characters long"
            )


def packaged_files(model: Path, package: Package, *, in_bytes: bool = False) -> dict[str, bytes]:
    """The files of a model as a package has them, its card and its licence among them.

    Arrays of many zeros have few bytes. That the files can be read is tested.

    Args: in_bytes: the weights of its pretrained encoder are rounded to 8 bits.
    Raises: ModelError: the model cannot be read, or has no card. ConfigError: as `Package.check`;
        `in_bytes` without an encoder.
    Cost: memory for the whole model.
    """
    package.check()
    if not model.is_dir():
        raise ModelError(f"{model}: no such folder of a model")
    card = read_card(model)
    if card is None:
        raise ModelError(f"{model}: has no {CARD}, which training writes: train the model again")
    with TemporaryDirectory() as scratch:
        folder = Path(scratch)
        if in_bytes:
            save_parser(_in_bytes(model), folder)
        files: dict[str, bytes] = {}
        for name in files_of(model):
            path = folder / name if (folder / name).exists() else model / name
            with open_file(path, MAX_ARRAYS_BYTES) as file:
                if name.endswith(_ARRAYS):
                    files[name] = packed_again(file, path, is_compact=True)
                else:
                    files[name] = file.read()
        for name, content in files.items():
            (folder / name).write_bytes(content)
        load_stages(folder)
        if has_parser(folder):
            load_parser(folder)
        card["model"] = sum_of_stages(folder)
    card["gpuparse"] = __version__  # not the commit: other ones give the same bytes
    card["package"] = package._asdict()
    card["files"] = {name: len(content) for name, content in files.items()}
    return files | card_files(card) | {LICENSE: _license(card).encode()}


def _in_bytes(model: Path) -> Parser:
    """The parser of a model, the weights of its encoder rounded to 8 bits."""
    parser = load_parser(model) if has_parser(model) else None
    if parser is None or not isinstance(parser.scorers[0], EncoderScorer):
        raise ConfigError(f"{model}: has no pretrained encoder, whose weights are rounded")
    return replace(parser, scorers=(parser.scorers[0].in_bytes,))


def write_folder(files: Mapping[str, bytes], folder: Path, *, force: bool) -> None:
    """Write the files of `packaged_files` into a folder, which is made.

    Raises: ConfigError: it has other files, or some of these without `force`.
    """
    there = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    odd = sorted(there - set(files))
    if odd:
        raise ConfigError(f"{folder / odd[0]}: no file of this model; name another folder")
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        write_file(folder / name, content, force=force)


def write_wheel(files: Mapping[str, bytes], package: Package, folder: Path, *, force: bool) -> Path:
    """Write the files of `packaged_files` into a wheel in a folder, which must exist.

    Returns: the wheel.
    Raises: ConfigError: it exists, and `force` is false.
    """
    module = _PREFIX + package.name.replace("-", "_")
    info = f"{module}-{package.version}.dist-info"
    content = {f"{module}/{name}": data for name, data in files.items()}
    content[f"{module}/__init__.py"] = (
        f'"""The model {package.name} of gpuparse: gpuparse.load("{package.name}")."""\n'
    ).encode()
    content[f"{info}/METADATA"] = _metadata(module, package, files[README]).encode()
    content[f"{info}/WHEEL"] = (
        f"Wheel-Version: 1.0\nGenerator: gpuparse {__version__}\n"
        "Root-Is-Purelib: true\nTag: py3-none-any\n"
    ).encode()
    content[f"{info}/entry_points.txt"] = f"[{GROUP}]\n{package.name} = {module}\n".encode()
    content[f"{info}/licenses/{LICENSE}"] = files[LICENSE]
    lines = [f"{name},{_sum(data)},{len(data)}" for name, data in sorted(content.items())]
    content[f"{info}/RECORD"] = "\n".join([*lines, f"{info}/RECORD,,", ""]).encode()
    path = folder / f"{module}-{package.version}-py3-none-any.whl"
    write_file(path, _zipped(content), force=force)
    return path


def _zipped(content: Mapping[str, bytes]) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, data in sorted(content.items(), key=lambda item: ("dist-info" in item[0], item)):
            entry = zipfile.ZipInfo(name, _DATE)
            entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, _MODE
            archive.writestr(entry, data)
    return target.getvalue()


def _metadata(module: str, package: Package, readme: bytes) -> str:
    return (
        "Metadata-Version: 2.4\n"
        f"Name: {module.replace('_', '-')}\n"
        f"Version: {package.version}\n"
        f"Summary: The model {package.name} of the dependency parser gpuparse\n"
        f"License: {package.licence}\n"
        f"License-File: {LICENSE}\n"
        f"Requires-Dist: gpuparse>={__version__}\n"
        "Requires-Python: >=3.11\n"
        "Description-Content-Type: text/markdown\n\n" + readme.decode()
    )


def _license(card: Mapping[str, Any]) -> str:
    """The licence of a model and what it was learned from, as a text."""
    package = card["package"]
    name, version, licence = (package[key] for key in ("name", "version", "licence"))
    lines = [f"The model {name} {version} has the licence {licence}{_address(licence)}."]
    if card["treebank"]:
        of_release = f" ({card['release']})" if card["release"] else ""
        of_licence = f", licence {card['licence']}" if card["licence"] else ""
        lines.append(
            f"It was learned from the treebank {card['treebank']}{of_release}{of_licence}."
        )
    if card["attribution"]:
        lines.append(f"The treebank is by: {card['attribution']}.")
    if card["encoder"]:
        of_encoder = f", licence {card['encoder_licence']}" if card["encoder_licence"] else ""
        lines.append(f"It has the pretrained encoder {card['encoder']}{of_encoder}.")
    return "\n".join(lines) + "\n"


def _address(licence: str) -> str:
    """The address of a Creative Commons licence, which its terms want; "" for others."""
    found = re.fullmatch(r"cc[ -](by(?:-(?:nc|nd|sa))*)[ -](\d\.\d)", licence.strip().lower())
    return f" (https://creativecommons.org/licenses/{found[1]}/{found[2]}/)" if found else ""


def _sum(data: bytes) -> str:
    """A checksum as RECORD has it."""
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode()
    return f"sha256={digest.rstrip('=')}"
