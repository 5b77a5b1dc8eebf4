"""The reasons of a head, as Python objects."""

from typing import Any

from gpuparse.jobs.reasons import as_dict, as_text
from gpuparse.model.explain import Explanation, explain

__all__ = ["Reasons", "explain"]


class Reasons:
    """The reasons of a head, as `SentenceParser.explain` returns it; `str` gives the text.

    explanation: both trees, both scores and all rows; of models without templates the words left
    out.
    """

    def __init__(self, explanation: Explanation) -> None:
        self.explanation = explanation

    @property
    def head(self) -> int:
        """The head of the word; 0 is the root."""
        return self.explanation.head

    @property
    def other_head(self) -> int:
        """The head that it is compared with."""
        return self.explanation.other_head

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain data, as `gpuparse explain --json` writes it."""
        return as_dict(self.explanation)

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        return as_text(self.explanation)
