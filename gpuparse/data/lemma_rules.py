"""Rules that make lemmas of forms: what is replaced at both ends, and the case of the result."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from gpuparse.data.columns import common_string, has_separator, is_value
from gpuparse.limits import MAX_TAG

_LOWER, _KEEP, _TITLE, _UPPER, WHOLE = "lower", "keep", "title", "upper", "whole"
_CASES: dict[str, Callable[[str], str]] = {
    _LOWER: str.lower,
    _TITLE: lambda text: text[:1].upper() + text[1:].lower(),
    _UPPER: str.upper,
}


class LemmaRule(NamedTuple):
    """A rule that makes a lemma of a form.

    case: of the result: `lower`, `title`, `upper`, `keep`, or `whole`, where `added_end` is the
    lemma. The beginning and the end of the form, which are compared in lower case, are replaced.
    """

    case: str
    beginning: str
    added_beginning: str
    end: str
    added_end: str

    def fits(self, form: str) -> bool:
        """True if the form in lower case has the beginning and the end."""
        lower = form.lower()
        return (
            len(lower) == len(form) >= len(self.beginning) + len(self.end)
            and lower.startswith(self.beginning)
            and lower.endswith(self.end)
        )

    def apply(self, form: str) -> str:
        """The lemma of a form that the rule fits; the form where nothing would be left."""
        if self.case == WHOLE:
            return self.added_end
        stem = form[len(self.beginning) : len(form) - len(self.end)]
        text = self.added_beginning + stem + self.added_end
        if not text.strip(" "):
            text = form
        return text if self.case == _KEEP else _CASES[self.case](text)

    def text(self) -> str:
        return "\t".join(self)


def is_rule(text: str) -> bool:
    """True if a text is that of a rule; what it makes of any form can be a LEMMA."""
    case, *parts = text.split("\t")
    return (
        len(text) <= MAX_TAG
        and len(parts) == len(LemmaRule._fields) - 1
        and case in (*_CASES, _KEEP, WHOLE)
        and not any(map(has_separator, parts))
        and (case != WHOLE or is_value(parts[-1]))
    )


def rule_of(form: str, lemma: str) -> LemmaRule:
    """The rule that makes a lemma of a form, by their longest common substring."""
    low_form, low_lemma = form.lower(), lemma.lower()
    start, at, size = common_string(low_form, low_lemma)
    edit = (low_form[:start], low_lemma[:at], low_form[start + size :], low_lemma[at + size :])
    if size:
        for case in (_LOWER, _KEEP, _TITLE, _UPPER):
            rule = LemmaRule(case, *edit)
            if rule.fits(form) and rule.apply(form) == lemma:
                return rule
    return LemmaRule(WHOLE, "", "", "", lemma)
