"""FEATS that a treebank does not have, composed of attributes that it has.

A new value differs from a seen one of the same class (of UPOS, or of UPOS and XPOS) in the value of
one attribute, and each two of its attributes occur together in some value of the class: with
`Case=Gen|Number=Sing`, `Case=Gen|Number=Plur|Poss=Yes` and `Case=Dat|Number=Plur|Poss=Yes`, so on.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import combinations


def composed(counts: Mapping[str, int]) -> list[str]:
    """The new values of a class: those near to frequent ones first, at most the number that it has.

    Args: counts: how often the class had each FEATS; a tab separates what is not changed from it.
    Cost: for each value, the square of its attributes times the values that these have.
    """
    parts = {text: _parts(text) for text in counts}
    known = {frozenset(attributes) for _, attributes in parts.values()}
    together = {pair for each in known for pair in combinations(sorted(each), 2)}
    values: dict[str, Counter[str]] = {}
    for text, (_, attributes) in parts.items():
        for name, value in attributes:
            values.setdefault(name, Counter())[value] += counts[text]
    found: list[str] = []
    for text in sorted(counts, key=lambda each: (-counts[each], each)):
        before, attributes = parts[text]
        for changed in _changed(attributes, values):
            key = frozenset(changed)
            if key in known or not together.issuperset(combinations(sorted(key), 2)):
                continue
            known.add(key)
            found.append(before + "|".join(f"{name}={value}" for name, value in changed))
    return found[: len(counts)]


def _parts(text: str) -> tuple[str, tuple[tuple[str, str], ...]]:
    """The kept value, and the attributes with their values; none if some have no value."""
    before, tab, feats = text.rpartition("\t")
    pairs = [attribute.partition("=") for attribute in feats.split("|")]
    if not all(value for _, _, value in pairs):
        return before + tab, ()
    return before + tab, tuple((name, value) for name, _, value in pairs)


def _changed(
    attributes: tuple[tuple[str, str], ...], values: Mapping[str, Counter[str]]
) -> Iterator[tuple[tuple[str, str], ...]]:
    """The attributes with another value of one of them, frequent values first."""
    for place, (name, value) in enumerate(attributes):
        others = values[name]
        for other in sorted(others, key=lambda each: (-others[each], each)):
            if other != value:
                yield (*attributes[:place], (name, other), *attributes[place + 1 :])
