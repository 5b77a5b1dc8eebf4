"""Templates of sequences: which fields of which positions make a feature, and which tags before.

    w.form w-1.lower     a feature: the form of a word with the form before it in lower case
    t-1.tag              a context: the tag of the word before
    t-1.coarse w.form    the first text of that tag, such as UPOS, with the form

A feature is a hash of its template and of the values of its fields. It is absent (0) where one of
them has no value. A context reads `coarse` or `tag` of `t-1`, of `t-2`, or of both, and
perhaps one template of the features.
"""

import re
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gpuparse import native
from gpuparse.data.atoms import parse_atom
from gpuparse.data.cached import cached_property
from gpuparse.data.plain_yaml import dump_yaml, parse_value, read_yaml
from gpuparse.errors import ConfigError
from gpuparse.text.sequences.tags import starts_of

SETS = Path(__file__).parent / "sets"
MARGIN = 4  # most positions that a template looks to either side
MAX_TEMPLATES, MAX_CONTEXTS = 256, 64
BEFORE, AFTER = 1, 2  # values of all fields before the first and behind the last position
_TAG = re.compile(r"t-(?P<distance>[12])\.(?P<level>coarse|tag)\Z")
_LEVELS = {"coarse": 1, "tag": 2}
_KEYS = ("name", "templates", "contexts")


@dataclass(frozen=True)
class SequenceTemplates:
    """A set of templates.

    Attributes:
        name: of the set. templates: the texts of the features. texts: those of the contexts.
        atoms: of each feature, its fields and offsets.
        contexts: (C, 4) int32, as the native library takes them.
    """

    name: str
    templates: tuple[str, ...]
    texts: tuple[str, ...]
    atoms: tuple[tuple[tuple[str, int], ...], ...]
    contexts: np.ndarray

    @cached_property
    def fields(self) -> tuple[str, ...]:
        """The fields that the features read, each once: the rows of the values of `features`."""
        return tuple(dict.fromkeys(field for atoms in self.atoms for field, _ in atoms))

    @property
    def order(self) -> int:
        """The number of tags before a position that the contexts read."""
        return 2 if self.contexts[:, 2].any() else int(self.contexts[:, 1].any())

    @cached_property
    def arrays(self) -> "TemplateArrays":
        """The features as arrays."""
        row = {field: number for number, field in enumerate(self.fields)}
        reads = {
            atom: number
            for number, atom in enumerate(dict.fromkeys(a for atoms in self.atoms for a in atoms))
        }
        return TemplateArrays(
            np.array([zlib.crc32(text.encode()) | 1 for text in self.templates], np.uint32),
            starts_of(map(len, self.atoms)),
            np.array([reads[atom] for atoms in self.atoms for atom in atoms], np.int64),
            np.array([(row[f], offset) for f, offset in reads], np.int64).reshape(-1, 2),
        )

    @cached_property
    def struct(self) -> native.Struct:
        """The features as the native library takes them."""
        return native.struct("SequenceTemplates", self.arrays)

    def features(self, values: np.ndarray, places: np.ndarray) -> np.ndarray:
        """The features of positions.

        Args:
            values: (F, P) uint32, a row of each of `fields`, with at least MARGIN places to both
                sides of each sequence; 0 for no value.
            places: (N,) int64, the places of the positions.
        Returns: (N, T) uint32, 0 for an absent feature.
        Raises: ValueError: a place without MARGIN places to both sides.
        Cost: half a nanosecond a field of a feature.
        """
        found = np.empty((len(places), len(self.templates)), np.uint32)
        native.call("sequence_features", self.struct, values, places, found)
        return found

    def dump(self) -> str:
        """The set as YAML, always in the same form."""
        return dump_yaml(
            {"name": self.name, "templates": list(self.templates), "contexts": list(self.texts)}
        )


class TemplateArrays(NamedTuple):
    """As native/api/sequences.h has it."""

    keys: np.ndarray
    starts: np.ndarray
    atoms: np.ndarray
    reads: np.ndarray


def load_sequence_templates(name: str, has_field: Callable[[str], bool]) -> SequenceTemplates:
    """A set that comes with gpuparse.

    Args: has_field: whether a name is a field that the caller has values of.
    """
    path = SETS / f"{name}.yaml"
    return _checked(read_yaml(path).value, str(path), has_field)


def parse_sequence_templates(
    text: str, source: str, has_field: Callable[[str], bool]
) -> SequenceTemplates:
    """A set of the text of a YAML file, as `load_sequence_templates`.

    Raises: ConfigError: it is none.
    """
    return _checked(parse_value(text, source), source, has_field)


def _checked(content: Any, source: str, has_field: Callable[[str], bool]) -> SequenceTemplates:
    if not isinstance(content, dict) or not set(content) <= set(_KEYS):
        raise ConfigError(f"{source}: expected the keys {', '.join(_KEYS)}")
    name = content.get("name")
    if not isinstance(name, str):
        raise ConfigError(f"{source}: name: expected text")
    templates = _texts(content.get("templates"), f"{source}: templates", MAX_TEMPLATES)
    contexts = _texts(content.get("contexts") or [], f"{source}: contexts", MAX_CONTEXTS)
    if not templates:
        raise ConfigError(f"{source}: templates: expected at least one")
    try:
        atoms = tuple(_atoms(text, has_field) for text in templates)
    except ConfigError as error:
        raise ConfigError(f"{source}: {error}") from None
    rows = [_context(text, templates, f"{source}: contexts") for text in contexts]
    return SequenceTemplates(
        name, templates, contexts, atoms, np.array(rows, np.int32).reshape(-1, 4)
    )


def _texts(content: Any, place: str, most: int) -> tuple[str, ...]:
    if not isinstance(content, list) or not all(isinstance(each, str) for each in content):
        raise ConfigError(f"{place}: expected a list of texts")
    texts = tuple(" ".join(text.split()) for text in content)
    if len(set(texts)) < len(texts):
        twice = next(text for text in texts if texts.count(text) > 1)
        raise ConfigError(f"{place}: {twice!r} is there twice")
    if len(texts) > most:
        raise ConfigError(f"{place}: {len(texts)} of them, more than {most}")
    return texts


def _atoms(text: str, has_field: Callable[[str], bool]) -> tuple[tuple[str, int], ...]:
    if text == "bias":
        return ()
    read = [
        parse_atom(word, text, ("w",), most=MARGIN, has_field=has_field) for word in text.split()
    ]
    return tuple((atom.field, atom.offset) for atom in read)


def _context(text: str, templates: Sequence[str], place: str) -> list[int]:
    levels, words = [0, 0], []
    for atom in text.split():
        match = _TAG.match(atom)
        if match:
            levels[int(match["distance"]) - 1] = _LEVELS[match["level"]]
        else:
            words.append(atom)
    column = -1
    if words:
        if " ".join(words) not in templates:
            raise ConfigError(f"{place}: {text!r}: {' '.join(words)!r} is none of the templates")
        column = templates.index(" ".join(words))
    if not any(levels):
        raise ConfigError(f"{place}: {text!r}: expected t-1.tag, t-1.coarse, t-2.coarse, ...")
    return [zlib.crc32(text.encode()) & 0x7FFFFFFF, *levels, column]
