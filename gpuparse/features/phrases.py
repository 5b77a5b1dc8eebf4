"""The values that templates read, in words: `h.pos m.pos` as "head noun, modifier verb"."""

from collections.abc import Sequence

from gpuparse.data.atoms import Atom
from gpuparse.features.templates import Template

# What something is, and its value there: ("head", "noun"). Clauses of the same template stand in
# the same order, so that values of two places can be compared.
Clause = tuple[str, str]

ROLES = {
    "h": "head", "m": "modifier", "s": "sibling", "t": "second sibling",
    "e": "outermost modifier", "g": "grandparent", "c": "child", "p": "sibling before it",
    "q": "sibling after it", "l": "first child", "r": "last child", "o": "primary head",
    "w": "word",
}  # fmt: skip
_BETWEEN = "between them"
TAGS = {  # of Universal Dependencies, but X
    "ADJ": "adjective", "ADP": "adposition", "ADV": "adverb", "AUX": "auxiliary",
    "CCONJ": "coordinating conjunction", "DET": "determiner", "INTJ": "interjection",
    "NOUN": "noun", "NUM": "numeral", "PART": "particle", "PRON": "pronoun",
    "PROPN": "proper noun", "PUNCT": "punctuation", "SCONJ": "subordinating conjunction",
    "SYM": "symbol", "VERB": "verb",
}  # fmt: skip
_ROOT = "(root)"  # which also stands for a missing word
_MAY_BE_ROOT = ("h", "g")
_SPECIAL = {
    _ROOT: "root", "(before the sentence)": "none", "(after the sentence)": "none",
    "(none)": "none",
}  # fmt: skip


def clauses(template: Template, values: Sequence[str], *, near: str) -> tuple[Clause, ...]:
    """The clauses of a template, each with its values.

    Args:
        values: of its atoms in their order, of the word in between, of direction and distance; what
            is no value of a field is in parentheses.
        near: the role from which direction and distance count.
    """
    left = list(values)
    found: dict[str, list[str]] = {}
    for atom in template.atoms:
        texts = found.setdefault(_place(atom), [])
        value = left.pop(0)
        is_missing = value == _ROOT and atom.role not in _MAY_BE_ROOT
        if (text := "none" if is_missing else value_phrase(atom.field, value)) not in texts:
            texts.append(text)
    if template.between:
        found[_BETWEEN] = [value_phrase(template.between, left.pop(0))]
    made = [(place, " ".join(texts)) for place, texts in found.items()]
    if template.suffix:
        side = left.pop(0) if "direction" in template.suffix else ""
        words = ""
        if "distance" in template.suffix:
            number = left.pop(0)
            words = f"{number} word{'' if number == '1' else 's'}"
        way = f"{side} of" if side else "from"
        made.append(("", f"{words} {way} the {ROLES[near]}".strip()))
    return tuple(made)


def value_phrase(field: str, value: str) -> str:
    """The value of a field, as `"ship"`, `lemma ship`, `noun`, `ends in -ing`."""
    if value in _SPECIAL:
        return _SPECIAL[value]
    name, _, part = field.partition("[")
    if part:
        kind = "lemma " if name == "lemma" else ""
        return f"{kind}begins in {value}-" if part.startswith(":") else f"{kind}ends in -{value}"
    if name in ("form", "lower"):
        return f'"{value}"'
    if name == "lemma":
        return f"lemma {value}"
    if name in ("pos", "cpos", "fpos"):
        return TAGS.get(value, value)
    return f"{name.partition('.')[2]}={value}" if "." in name else value


def _place(atom: Atom) -> str:
    """The word that an atom looks at."""
    role, n = ROLES[atom.role], abs(atom.offset)
    if not n:
        return role
    words = "word" if n == 1 else f"{n} words"
    return f"{words} {'before' if atom.offset < 0 else 'after'} the {role}"
