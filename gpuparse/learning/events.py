"""What learning reports while it runs."""

from dataclasses import dataclass, replace
from typing import NamedTuple

STAGES = ("vectors", "arcs", "labels")  # those whose epochs are counted, in their order


class Counts(NamedTuple):
    """Sentences learned from in an epoch, words that were wrong, and words."""

    done: int
    wrong: int
    words: int


@dataclass(frozen=True)
class Progress:
    """The state of an epoch: `done` of `total` sentences, `wrong` of `words` words.

    Cost-augmented search makes mistakes on purpose; they are counted too.
    """

    stage: str  # "vectors", "pruning", "arcs" or "labels"
    epoch: int  # from 1
    done: int
    total: int
    wrong: int
    words: int

    @property
    def epoch_is_over(self) -> bool:
        return self.done == self.total

    def as_part_of(self, stage: str, number: int, epochs: int) -> "Progress":
        """The same event as a part of epoch `number` (from 0) of another stage.

        Args: epochs: epochs of this event's own stage, which make up that one epoch.
        """
        before = (self.epoch - 1) * self.total
        return replace(
            self, stage=stage, epoch=number + 1, done=before + self.done, total=epochs * self.total
        )
