"""Settings that a search tries: a grid over config keys and treebank sizes, or draws from it."""

import itertools
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random

from gpuparse.config.load import unknown_key
from gpuparse.config.schema import known_keys
from gpuparse.errors import ConfigError, option, plural

SENTENCES = "sentences"
ALL = "all"  # sentences
_NUMBER = r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
_RANGE = re.compile(rf"({_NUMBER})\.\.({_NUMBER})")
_MISSES = 1000  # drawn settings that are not new, before there seem to be no more


@dataclass(frozen=True)
class KeyValues:
    """A key and its values.

    values: as words of the command line. range: ends of a range in place of values.
    """

    name: str
    values: tuple[str, ...] = ()
    range: tuple[float, float] | None = None

    @property
    def is_number(self) -> bool:
        """True if the values are places on a scale: a range, or numbers of sentences."""
        return self.range is not None or self.name == SENTENCES

    def drawn(self, draw: Random) -> str:
        """One value: each with the same probability, or one of a range, uniform in its logarithm.

        A number of a range has three significant digits.
        """
        if self.range is None:
            return self.values[int(draw.random() * len(self.values))]
        low, high = (math.log(end) for end in self.range)
        value = math.exp(low + draw.random() * (high - low))
        return str(round(value)) if _is_whole(self.name) else f"{value:.3g}"


Setting = Mapping[str, str]
"""Values by key, in the order of the axes; numbers of sentences as SENTENCES."""


def parse_grid(words: Sequence[str]) -> list[KeyValues]:
    """The axes of words such as `learning.epochs=5,10,20` or `learning.max_step=0.001..0.1`.

    Raises: ConfigError: a word is no key with values, or a key comes twice.
    """
    axes = []
    for word in words:
        name, _, text = word.partition("=")
        values = tuple(dict.fromkeys(text.split(",")))
        if not text or "" in values:
            raise ConfigError(f"{option('grid', word)}: expected KEY=VALUE,VALUE,...")
        if name not in known_keys():
            raise ConfigError(f"{option('grid', word)}: {unknown_key(name)}")
        found = _RANGE.fullmatch(text) if known_keys()[name].kind in ("integer", "number") else None
        axes.append(
            KeyValues(name, range=_range(word, found)) if found else KeyValues(name, values)
        )
    names = [axis.name for axis in axes]
    if twice := [name for name in names if names.count(name) > 1]:
        raise ConfigError(
            f"{option('grid')}: {twice[0]} is given twice; write its values after one another"
        )
    return axes


def _range(word: str, found: re.Match[str]) -> tuple[float, float]:
    low, high = float(found[1]), float(found[2])
    if not 0 < low < high:
        raise ConfigError(f"{option('grid', word)}: expected a range above 0, the lower end first")
    return low, high


def _is_whole(name: str) -> bool:
    return known_keys()[name].kind == "integer"


def parse_sizes(text: str) -> KeyValues:
    """The axis of numbers of sentences such as `100,300,all`.

    Raises: ConfigError: not such numbers.
    """
    values = tuple(dict.fromkeys(text.split(",")))
    if not all(v == ALL or (v.isascii() and v.isdigit() and int(v) > 0) for v in values):
        raise ConfigError(
            f"{option('sizes', text)}: expected numbers of sentences, such as 100,300,{ALL}"
        )
    return KeyValues(SENTENCES, tuple(v if v == ALL else str(int(v)) for v in values))


def grid(axes: Sequence[KeyValues]) -> list[Setting]:
    """All combinations; those of the last axis change fastest.

    Raises: ConfigError: a range, which has no end of values.
    """
    for axis in axes:
        if axis.range is not None:
            raise ConfigError(
                f"{axis.name}: a range has too many values; give a number with {option('random')}"
            )
    names = [axis.name for axis in axes]
    return [
        dict(zip(names, values, strict=True))
        for values in itertools.product(*(axis.values for axis in axes))
    ]


def drawn_settings(axes: Sequence[KeyValues], n: int, seed: int) -> list[Setting]:
    """Different settings, drawn with a seed; more of them begin with the same ones.

    Raises: ConfigError: there are fewer than n.
    """
    draw, found = Random(seed), dict[tuple[str, ...], Setting]()
    misses = 0
    while len(found) < n:
        setting = {axis.name: axis.drawn(draw) for axis in axes}
        key = tuple(setting.values())
        misses = misses + 1 if key in found else 0
        if misses > _MISSES:
            raise ConfigError(
                f"{option('random', n)}: no more than {plural(len(found), 'setting')} can be drawn"
            )
        found[key] = setting
    return list(found.values())


def setting_words(setting: Setting) -> list[str]:
    """The overrides of a setting."""
    return [f"{name}={value}" for name, value in setting.items() if name != SENTENCES]
