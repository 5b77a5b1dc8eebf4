"""The interface of the trainer's stages: each is learned in epochs, after the stages before it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import ClassVar, NamedTuple

import numpy as np

from gpuparse.config import RunConfig
from gpuparse.learning.averaged import AveragedWeights
from gpuparse.learning.events import EpochCounts


class Shape(NamedTuple):
    """The type and shape of an array."""

    dtype: type[np.generic]
    sizes: tuple[int, ...]


class BestEpoch(NamedTuple):
    """The best epoch so far: its score and number, and what a model has of the stage after it.

    is_chosen: whether there will be no better one, so that a model has these arrays.
    """

    score: float
    epoch: int
    averages: list[np.ndarray]
    is_chosen: bool = False


class Stage(ABC):
    """A part of a model that is learned in epochs.

    Attributes:
        name: in events, states and records.
        drawn_for: what the orders of its epochs are drawn for, beside the seed.
        unit: what an epoch is called.
        is_scored: whether a model can be scored after each epoch.
        epochs, done: how many there are, and how many are learned.
        models: that are learned one after the other, each in the same number of epochs.
        best: the best epoch, if `scored` was called; of the model at hand, or of the last one.
    """

    name: ClassVar[str]
    drawn_for: ClassVar[int]
    unit: ClassVar[str] = "epoch"
    is_scored: ClassVar[bool] = True
    models = 1

    def __init__(self, epochs: int) -> None:
        self.epochs, self.done = epochs, 0
        self.best: BestEpoch | None = None

    def prepare(self) -> None:  # noqa: B027  most stages have nothing to do
        """Do what the stages before have to be finished for, before the epochs that are left."""

    @abstractmethod
    def learn(self, order: np.ndarray, seen: int) -> Iterator[EpochCounts]:
        """Learn an epoch from the sentences in their order; `seen` came before in all epochs."""

    @abstractmethod
    def state(self) -> dict[str, np.ndarray]:
        """The arrays that learning goes on from between two epochs: no copies."""

    @abstractmethod
    def shapes(self, done: int, state: Mapping[str, np.ndarray]) -> dict[str, Shape]:
        """The types and shapes of the arrays of a state after `done` epochs.

        Args: state: what was found in a file, for sizes that depend on it.
        """

    @abstractmethod
    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Go on from a state with the shapes of `shapes`; `done` is set already.

        Raises: ModelError: it cannot be a state of this run.
        """

    @property
    def has_labels(self) -> bool:
        """True if what is learned labels arcs."""
        return False

    @property
    def summary(self) -> str | None:
        """The result in words for the user; None before there is one, or without news."""
        return None

    @property
    def epochs_of_model(self) -> int:
        """Epochs of one of `models`."""
        return self.epochs // self.models

    @abstractmethod
    def averages(self) -> list[np.ndarray]:
        """Copies of the arrays that a model has after the last epoch, those of this stage."""

    @abstractmethod
    def average_sizes(self, done: int) -> list[tuple[int, ...]]:
        """The shapes of the float32 arrays of `best` after `done` epochs."""

    def choose(self, best: BestEpoch) -> BestEpoch:
        """Let models have the best epoch, since there is no other one to come."""
        return best._replace(is_chosen=True)

    def scored(self, score: float) -> None:
        """Keep what was learned so far if the score after the last epoch is the best.

        Of equally good epochs the first one is kept. To be called after every epoch, or after none.
        """
        epochs = self.epochs_of_model
        best = None if self.done % epochs == 1 % epochs else self.best
        if best is None or score > best.score:
            best = BestEpoch(score, self.done, self.averages())
        self.best = self.choose(best) if self.done % epochs == 0 else best


class TableStage(Stage):
    """A stage that learns tables of weights with their averages.

    Args:
        tables: of zeros, by name; learning changes them.
        n_sentences: of an epoch.
    """

    def __init__(
        self, epochs: int, tables: dict[str, np.ndarray], n_sentences: int, config: RunConfig
    ) -> None:
        super().__init__(epochs)
        self._n_sentences = n_sentences
        self._is_averaged = config.learning.averaged
        self.tables = {name: AveragedWeights(array) for name, array in tables.items()}

    def mean(self, name: str) -> np.ndarray:
        """The mean of a table's weights after each sentence; or the last ones; or the best ones."""
        if self.best is not None and self.best.is_chosen:
            return self.best.averages[list(self.tables).index(name)].copy()
        return self._mean_so_far(self.tables[name])

    def _mean_so_far(self, table: AveragedWeights) -> np.ndarray:
        if not self._is_averaged:
            return table.array.copy()
        return table.mean(max(1, self.done * self._n_sentences))

    def averages(self) -> list[np.ndarray]:
        """The means of all tables."""
        return [self._mean_so_far(table) for table in self.tables.values()]

    def average_sizes(self, done: int) -> list[tuple[int, ...]]:
        """The shapes of the tables."""
        return [table.array.shape for table in self.tables.values()]

    def state(self) -> dict[str, np.ndarray]:
        """The tables; nothing before the first epoch is done."""
        if not self.done:
            return {}
        kept: dict[str, np.ndarray] = {}
        for name, table in self.tables.items():
            kept |= {name: table.array, _weighted(name): table.weighted}
        return kept

    def shapes(self, done: int, state: Mapping[str, np.ndarray]) -> dict[str, Shape]:
        """As `Stage.shapes`."""
        shapes: dict[str, Shape] = {}
        for name, table in self.tables.items() if done else ():
            shapes[name] = Shape(np.float32, table.array.shape)
            shapes[_weighted(name)] = Shape(np.float32, table.weighted.shape)
        return shapes

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Go on from a state, or from the start."""
        for name, table in self.tables.items():
            table.array[:] = state.get(name, 0.0)
            table.weighted[:] = state.get(_weighted(name), 0.0)


def _weighted(name: str) -> str:
    return f"{name}_weighted"
