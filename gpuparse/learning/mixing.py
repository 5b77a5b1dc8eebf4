"""Learning in shards, whose weights are mixed after every epoch, in one process or several."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import NamedTuple

import numpy as np

from gpuparse.errors import ConfigError, ResourceError, plural
from gpuparse.extras import require
from gpuparse.learning.updates import Table

_DEALING = 2  # what is drawn for, beside the orders of the two stages


class Counts(NamedTuple):
    """Sentences learned from, words that were wrong, and words."""

    done: int
    wrong: int
    words: int


Learn = Callable[[np.ndarray, int], Iterator[Counts]]


@dataclass(frozen=True)
class Processes:
    """The processes of a run, joined in torch's default group unless there is only one."""

    rank: int = 0
    count: int = 1

    @property
    def is_first(self) -> bool:
        """Whether this one writes the model and speaks to the user."""
        return self.rank == 0

    def share(self, array: np.ndarray, source: int) -> None:
        """Give all processes the numbers that one of them has, in place; all must call.

        Raises: ResourceError: another process has ended, or does not answer.
        """
        if self.count > 1:
            import torch  # one process needs none of it
            from torch import distributed

            with _others_expected():
                distributed.broadcast(torch.from_numpy(array), source)

    def total(self, counts: Counts) -> Counts:
        """Sums over all processes, all of which must call; raises as share."""
        if self.count == 1:
            return counts
        import torch  # one process needs none of it
        from torch import distributed

        sums = torch.tensor(counts, dtype=torch.int64)
        with _others_expected():
            distributed.all_reduce(sums)
        return Counts(*sums.tolist())


ALONE = Processes()


@contextmanager
def _others_expected() -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else "no reason given"
        raise ResourceError(
            f"another process of this run has ended or does not answer ({reason}); its"
            " messages say why; --resume continues after the last finished epoch"
        ) from error


class Mixing:
    """Sentences dealt to shards once and for all, and the mixing of what the shards have learned.

    Every shard learns from its own sentences, starting with the same weights; the weights that
    all go on with are the mean of theirs. The shards are dealt to the processes. All sums are
    taken in the order of the shards, so the number of processes changes no bit.

    Args:
        n_sentences: to be dealt.
        shards: their number; with 1 nothing is dealt or mixed.
        seed: of the random order in which sentences are dealt; None: the order of the file.
        processes: of the run; each has the same sentences and options.
    Raises: ConfigError: more shards than sentences, or more processes than shards.
    Source: McDonald, Hall & Mann (2010), Distributed Training Strategies for the Structured
        Perceptron, figure 3, with uniform mixing; differs: any of our learners takes the place of
        the perceptron, and averages are of the weights after each sentence of each shard.
    """

    def __init__(
        self, n_sentences: int, shards: int, seed: int | None, processes: Processes = ALONE
    ) -> None:
        if shards > n_sentences:
            raise ConfigError(
                f"learning.shards is {shards}, but the treebank has"
                f" {plural(n_sentences, 'sentence')}"
            )
        if processes.count > shards:
            raise ConfigError(
                f"learning.shards is {shards}: {processes.count} processes need at least as many"
                " shards"
            )
        self._shards, self._processes = shards, processes
        dealt = np.arange(n_sentences)
        if seed is not None:
            seeds = np.random.SeedSequence([seed, _DEALING, 0])
            dealt = np.random.Generator(np.random.PCG64(seeds)).permutation(n_sentences)
        self._shard_of = np.empty(n_sentences, np.int64)
        self._shard_of[dealt] = np.arange(n_sentences) * shards // n_sentences

    def epoch(
        self, order: np.ndarray, epoch: int, tables: Sequence[Table], learn: Learn
    ) -> Iterator[Counts]:
        """Learn from all sentences once; yields counts during the epoch and at its end.

        Args:
            order: (N,) the sentences in the order of this epoch.
            epoch: from 0.
            tables: all that learning changes, changed in place: weights become mixed ones, and the
                sums such that weights - weighted / (N * epochs) is the mean over all epochs and
                shards of the mean over each shard's sentences.
            learn: learns from sentences in their order, given the number of earlier ones; yields
                counts, at the end those of all.
        Raises: ResourceError: as Processes.share.
        Cost: of each table two copies in float32 and one in float64; the tables of every shard
            travel to every process.
        """
        if self._shards == 1:
            yield from learn(order, epoch * len(order))
            return
        begun = [Table(table.weights.copy(), table.weighted.copy()) for table in tables]
        sums = [(np.zeros(len(t.weights)), np.zeros(len(t.weights))) for t in tables]
        before = Counts(0, 0, 0)
        step = self._processes.count
        for first in range(0, self._shards, step):
            shards = range(first, min(first + step, self._shards))
            own = Counts(0, 0, 0)
            if first + self._processes.rank in shards:
                part = order[self._shard_of[order] == first + self._processes.rank]
                for table, start in zip(tables, begun, strict=True):
                    table.weights[:] = start.weights
                    table.weighted[:] = 0
                for own in learn(part, epoch * len(part)):
                    if own.done < len(part):
                        yield _added(before, own)
            for shard in shards:
                # Counted as if the shard had all the sentences, each several times.
                scale = len(order) / np.count_nonzero(self._shard_of == shard)
                self._add(tables, sums, shard - first, scale)
            before = _added(before, self._processes.total(own))
            if before.done < len(order):
                yield before
        for table, start, (weights, weighted) in zip(tables, begun, sums, strict=True):
            table.weights[:] = weights / self._shards
            table.weighted[:] = start.weighted + weighted / self._shards
        yield before

    def _add(
        self,
        tables: Sequence[Table],
        sums: list[tuple[np.ndarray, np.ndarray]],
        source: int,
        scale: float,
    ) -> None:
        """Add what one process has learned to the sums of all processes."""
        mine = source == self._processes.rank
        for table, (weights, weighted) in zip(tables, sums, strict=True):
            learned = table if mine else Table(*map(np.empty_like, table))
            for array in learned:
                self._processes.share(array, source)
            weights += learned.weights
            weighted += learned.weighted * scale


def _added(one: Counts, other: Counts) -> Counts:
    return Counts(one.done + other.done, one.wrong + other.wrong, one.words + other.words)


# The first process scores data.dev between two epochs while the other processes wait.
PATIENCE = timedelta(minutes=30)


@contextmanager
def joined_processes() -> Iterator[Processes]:
    """The processes that torchrun started as one run.

    Yields: The processes; this process alone if WORLD_SIZE is not set or 1.
    Raises:
        ConfigError: an environment variable that torchrun sets is missing, or torch.
        ResourceError: the processes cannot connect.
    """
    if os.environ.get("WORLD_SIZE", "1") == "1":
        yield ALONE
        return
    require("learning in several processes", "torch")
    from torch import distributed

    try:
        distributed.init_process_group("gloo", timeout=PATIENCE)
    except ValueError as error:
        raise ConfigError(f"several processes: {error}; start them with torchrun") from error
    except RuntimeError as error:
        reason = str(error).strip().splitlines()[0]
        raise ResourceError(f"the processes of this run cannot connect: {reason}") from error
    try:
        yield Processes(distributed.get_rank(), distributed.get_world_size())
    finally:
        distributed.destroy_process_group()


def check_same(sha256: str, processes: Processes) -> None:
    """Make sure that all processes learn the same model; all of them must call this.

    Args: sha256: of the origin of this process's model, in hexadecimal.
    Raises:
        ConfigError: the first process has another origin.
        ResourceError: another process has ended, or does not answer.
    """
    own = np.frombuffer(bytes.fromhex(sha256), np.uint8)
    first = own.copy()
    processes.share(first, 0)
    if not (first == own).all():
        raise ConfigError(
            f"process {processes.rank} has another config, treebank or template sets than the first"
        )
