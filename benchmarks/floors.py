"""The least time that a device can take for a piece of work, whatever program does it.

All formulas stand here. A floor is the largest of three: bytes that must cross the device's memory
once, by its bandwidth; instructions, by their rate; sectors fetched at random places of the
second-level cache, by theirs. What runs on a device adds waiting to that: `latency`.
"""

from dataclasses import dataclass

SECTOR = 32  # bytes that one gather moves at least


@dataclass(frozen=True)
class Machine:
    """What a device does in a second.

    bandwidth: bytes of its memory, read or written. operations: instructions on float32, one for an
    addition, a maximum or both at once as a fused multiplication and addition. sectors: 32-byte
    sectors from random places in the second-level cache. phase: seconds of a step whose threads
    must wait for one another; 0 where it was not measured. programs: sentences at work at a time.
    """

    name: str
    bandwidth: float
    operations: float
    sectors: float
    phase: float = 0.0
    programs: int = 1


@dataclass(frozen=True)
class Work:
    """What must be done at least: bytes, instructions, sectors, and steps one after the other."""

    bytes: float
    operations: float = 0.0
    sectors: float = 0.0
    phases: float = 0.0

    def __add__(self, other: "Work") -> "Work":
        return Work(
            self.bytes + other.bytes,
            self.operations + other.operations,
            self.sectors + other.sectors,
            self.phases + other.phases,
        )


WORD = 2  # multiplications of bytes in the time of one of 16-bit numbers

# An H100 SXM by its data sheet: 132 multiprocessors of 128 lanes at 1.755 GHz, 3 TB/s reached of
# 3.35. Its second-level cache: 5.5 TB/s, of which random sectors are assumed to reach 60 %. A
# phase: one barrier and the loads behind it, assumed. Eight programs a multiprocessor.
H100 = Machine(
    "H100, on paper",
    bandwidth=3.0e12,
    operations=132 * 128 * 1.755e9,
    sectors=0.6 * 5.5e12 / SECTOR,
    phase=0.3e-6,
    programs=132 * 8,
)


def floor(work: Work, machine: Machine) -> tuple[float, str]:
    """Seconds that the work takes at least, and what sets them: a field of `Work`."""
    times = {
        "bytes": work.bytes / machine.bandwidth,
        "operations": work.operations / machine.operations,
        "sectors": work.sectors / machine.sectors,
    }
    bound = max(times, key=lambda name: times[name])
    return times[bound], bound


def latency(work: Work, machine: Machine, batch: int) -> float:
    """Seconds of waiting between steps, in as many waves as the batch takes."""
    return work.phases * machine.phase * -(-batch // machine.programs)


def trees_from_scores(batch: int, n: int, *, dimensions: int = 2) -> Work:
    """Float32 scores of all nodes are read once; int64 heads, lengths and values go by."""
    nodes = n + 1
    return Work(batch * (4.0 * nodes**dimensions + 8 * nodes + 8 + 4))


def eisner(batch: int, n: int) -> Work:
    """First order: (N^3 - N) / 6 splits for each of three kinds of items, N = n + 1.

    Incomplete spans of both directions share their sums, complete ones have one a direction; a sum
    and a maximum for each split, and two phases a width.
    """
    nodes = n + 1
    splits = (nodes**3 - nodes) / 6
    return trees_from_scores(batch, n) + Work(0, batch * splits * 3 * 2, 0, 2.0 * n)


def eisner_sibling(batch: int, n: int) -> Work:
    """Second order, from dense scores (B, N, N, N).

    Splits as in `eisner`: incomplete spans of two directions, with two sums and a maximum, sibling
    items with one sum, complete spans of two directions with one. Three phases a width.
    """
    nodes = n + 1
    splits = (nodes**3 - nodes) / 6
    per_split = 2 * 3 + 2 + 2 * 2
    scores = trees_from_scores(batch, n, dimensions=3) + Work(batch * 4.0 * nodes**2)
    return scores + Work(0, batch * splits * per_split, 0, 3.0 * n)


def chu_liu_edmonds(batch: int, n: int) -> Work:
    """Every arc is looked at once at least: a comparison. A step per word."""
    return trees_from_scores(batch, n) + Work(0, batch * float(n) * n, 0, float(n))


def arc_scores(batch: int, n: int, gathers: float, *, fields: int) -> Work:
    """Weights from random rows, one sector each; ids are read and float32 scores written once.

    Args:
        gathers: weights summed for one sentence.
        fields: int32 ids of a word.
    """
    nodes = n + 1
    return Work(
        batch * (4.0 * fields * nodes + 4.0 * nodes**2), batch * gathers, batch * gathers, 1.0
    )


@dataclass(frozen=True)
class VectorWork:
    """What a batch does with word vectors; its operations are multiplications of bytes, summed.

    nodes: words and roots; words; pairs: of a word and a possible head. rows: of the table, of a
    node, in the mean; width: numbers of a row. columns: numbers of a vector, of which `arc` score
    arcs and `label` labels; networks: that are multiplied with matrices of their own.
    """

    nodes: float
    words: float
    pairs: float
    rows: float
    width: int
    columns: int
    arc: int
    label: int
    labels: int
    networks: int

    def stages(self) -> dict[str, Work]:
        """The work of each stage; weights of all words but rows are in the nearest cache."""
        rows = self.nodes * self.rows * self.width
        return {
            "rows of the table": Work(rows, rows),
            "matrices": Work(0.0, self.nodes * self.width * self.columns / self.networks),
            "scores of arcs": Work(0.0, WORD * self.pairs * self.arc),
            "labels": Work(0.0, WORD * 3.0 * self.words * self.label * self.labels),
        }


def host_copy(batch: int, n: int, *, fields: int) -> float:
    """Bytes that go to the device and come back: int32 ids, int32 heads."""
    return batch * 4.0 * (n + 1) * (fields + 1)


DECODERS = {"eisner": eisner, "eisner_sibling": eisner_sibling, "chu_liu_edmonds": chu_liu_edmonds}
