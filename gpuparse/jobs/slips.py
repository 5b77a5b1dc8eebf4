"""Relations and features that are rare, and one edit away from a frequent or known one.

An edit is a letter too many, too few or at its neighbour's place, or another letter case. Another
letter in its place counts beside the relations of Universal Dependencies alone: treebanks have rare
values that differ so from frequent ones, such as `csubjpass` and `nsubjpass`.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping

from gpuparse.data.faults import SHOWN, quoted
from gpuparse.evaluation.words import CONTENT, FUNCTIONAL
from gpuparse.features.phrases import TAGS

RARE, FREQUENT = 2, 20  # times in a file: a slip at most, what was meant at least
RELATIONS = {*CONTENT, *FUNCTIONAL, "punct"}  # of Universal Dependencies
_KNOWN = {*RELATIONS, "ROOT"}
_MOSTLY = 0.9  # share of words with such a relation, from which on a treebank has these
_SHORT, _LONG = 3, 4  # letters: no slip below; a letter too many or too few from here on


def relation_slips(counts: Mapping[str, int]) -> dict[str, str]:
    """Relations that look like a slip, and what is said of each.

    Args: counts: of each relation of a treebank the number of its words.
    """
    found = _slips_of_ud(counts) if _are_of_ud(counts) else _slips(counts)
    return {slip: _said(slip, meant) for slip, meant in found.items()}


def _are_of_ud(counts: Mapping[str, int]) -> bool:
    known = sum(n for relation, n in counts.items() if _base(relation) in _KNOWN)
    return known >= _MOSTLY * sum(counts.values())


def _slips_of_ud(counts: Mapping[str, int]) -> dict[str, str]:
    """Relations that are none of Universal Dependencies, and subtypes of the others."""
    bases, subtypes = Counter[str](), dict[str, Counter[str]]()
    for relation, count in counts.items():
        base, _, subtype = relation.partition(":")
        bases[base] += count
        if subtype and base in _KNOWN:
            subtypes.setdefault(base, Counter())[subtype] += count
    meant = _slips({base: n for base, n in bases.items() if base not in _KNOWN}, RELATIONS)
    found = {
        relation: relation.replace(base, meant[base], 1)
        for relation in counts if (base := _base(relation)) in meant
    }  # fmt: skip
    for base, each in subtypes.items():
        found |= {f"{base}:{slip}": f"{base}:{other}" for slip, other in _slips(each).items()}
    return found


def _base(relation: str) -> str:
    return relation.partition(":")[0]


def feature_slips(counts: Mapping[str, int]) -> dict[str, str]:
    """FEATS with a name or value that looks like a slip, and what is said of each.

    Args: counts: of each FEATS of a treebank the number of its words.
    """
    names, values = Counter[str](), dict[str, Counter[str]]()
    for feats, count in counts.items():
        for name, value in _features(feats):
            names[name] += count
            values.setdefault(name, Counter())[value] += count
    meant = {
        (name, value): (name, other)
        for name, each in values.items()
        for value, other in _slips({v: n for v, n in each.items() if v not in TAGS}).items()
    }
    for name, other in _slips(names).items():
        meant |= {(name, value): (other, value) for value in values[name]}
    found = {}
    for feats in counts:
        wrong = [pair for pair in _features(feats) if pair in meant]
        if wrong:
            found[feats] = "; ".join(_said("=".join(w), "=".join(meant[w])) for w in wrong)
    return found


def _features(feats: str) -> Iterator[tuple[str, str]]:
    for item in feats.split("|"):
        name, is_given, value = item.partition("=")
        if is_given:
            yield name, value


def _slips(counts: Mapping[str, int], known: Collection[str] = ()) -> dict[str, str]:
    """Rare names, each with the name that was probably meant.

    Args: known: names that may be meant; those that are frequent if empty.
    Cost: linear in the names, each of which is cut at each of its letters.
    """
    index: dict[str, list[str]] = {}
    for name in sorted(known or (name for name, count in counts.items() if count >= FREQUENT)):
        for key in _keys(name):
            index.setdefault(key, []).append(name)
    found = {}
    for name, count in counts.items():
        if count <= RARE and index:
            near = (other for key in _keys(name) for other in index.get(key, ()))
            meant = next((each for each in near if _is_edit(name, each, bool(known))), None)
            if meant is not None:
                found[name] = meant
    return found


def _keys(name: str) -> list[str]:
    """Texts of which names that are one edit apart share one."""
    if len(name) > SHOWN:
        return []
    lower = name.casefold()
    return [lower, *(lower[:i] + lower[i + 1 :] for i in range(len(lower)))]


def _is_edit(name: str, meant: str, is_known: bool) -> bool:
    """True if a name is one edit away. is_known: another letter in its place is an edit too."""
    shorter = min(len(name), len(meant))
    if name == meant or shorter < _SHORT:
        return False
    if name.casefold() == meant.casefold():
        return True
    if any(letter.isdigit() for letter in name + meant):
        return False
    same = next((i for i in range(shorter) if name[i] != meant[i]), shorter)
    a, b = name[same:], meant[same:]
    if len(a) != len(b):
        return (a[1:] == b or a == b[1:]) and (is_known or shorter >= _LONG)
    return (a[2:] == b[2:] and a[:2] == b[:2][::-1]) or (is_known and a[1:] == b[1:])


def _said(slip: str, meant: str) -> str:
    return f"has {quoted(slip)}, which looks like a slip of {quoted(meant)}"
