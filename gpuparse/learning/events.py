"""The events that learning reports while it runs."""

from dataclasses import dataclass
from typing import NamedTuple


class EpochCounts(NamedTuple):
    """Sentences learned from in an epoch, of how many, words that were wrong, and words."""

    done: int
    total: int
    wrong: int
    words: int


@dataclass(frozen=True)
class LearningEvent:
    """The state of an epoch: `done` of `total` sentences, `wrong` of `words` words.

    Cost-augmented search makes mistakes on purpose; they are counted too.
    """

    stage: str  # the name of a stage of the trainer
    epoch: int  # from 1
    done: int
    total: int
    wrong: int
    words: int

    @property
    def epoch_is_over(self) -> bool:
        return self.done == self.total
