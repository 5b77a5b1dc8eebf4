"""Random graphs with several heads per word, and arrays of them by place."""

import random
from typing import NamedTuple

import numpy as np

from gpuparse.data.batch import Batch
from tests.samples import Sentence


class Graph(NamedTuple):
    """heads: primary heads of words 1..n. arcs: (h, m), by modifier and then by head."""

    heads: list[int]
    arcs: list[tuple[int, int]]


def random_graph(draw: random.Random, sentence: Sentence, share: float = 0.4) -> Graph:
    """The sentence's tree, and up to three further heads for some of its words, cycles or not."""
    heads, arcs = [int(word[6]) for word in sentence], []
    for m, primary in enumerate(heads, start=1):
        others = [h for h in range(len(heads) + 1) if h not in (m, primary)]
        count = draw.randint(1, 3) if draw.random() < share else 0
        further = draw.sample(others, min(count, len(others)))
        arcs += [(h, m) for h in sorted([primary, *further])]
    return Graph(heads, arcs)


def acyclic_graph(draw: random.Random, sentence: Sentence, share: float = 0.4) -> Graph:
    """The sentence's tree, and up to two further heads for some of its words, without cycles."""
    heads = [int(word[6]) for word in sentence]

    def depth(m: int) -> int:
        return 1 + depth(heads[m - 1]) if m else 0

    arcs = []
    for m, primary in enumerate(heads, start=1):
        # All arcs lead downwards, or to the right between words of one depth.
        above = [h for h in range(1, len(heads) + 1) if (depth(h), h) < (depth(m), m)]
        others = [h for h in above if h != primary]
        count = draw.randint(1, 2) if draw.random() < share else 0
        arcs += [(h, m) for h in sorted([primary, *draw.sample(others, min(count, len(others)))])]
    return Graph(heads, arcs)


def with_deps(sentence: Sentence, graph: Graph) -> Sentence:
    """The sentence with a graph in DEPS; an arc's relation is DEPREL, or tells the head's side."""
    rows = []
    for m, word in enumerate(sentence, start=1):
        items = [
            f"{h}:{word[7] if h == graph.heads[m - 1] else 'left' if h < m else 'right'}"
            for h, modifier in graph.arcs
            if modifier == m
        ]
        rows.append([*word[:8], "|".join(items), word[9]])
    return rows


def tree_of(graph: Graph) -> Graph:
    """Its primary arcs alone."""
    return Graph(graph.heads, [(h, m) for m, h in enumerate(graph.heads, start=1)])


def by_place(
    batch: Batch, graphs: list[Graph]
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Primary heads (T,), arc starts (T + 1,), arc heads (A,) and whether each is primary (A,)."""
    n_places = batch.values.shape[1]
    heads, counts = np.full(n_places, -1, np.int64), np.zeros(n_places, np.int64)
    arc_heads, is_primary = [], []
    for start, graph in zip(batch.starts.tolist(), graphs, strict=True):
        heads[start + 1 : start + 1 + len(graph.heads)] = graph.heads
        for h, m in graph.arcs:
            counts[start + m] += 1
            arc_heads.append(h)
            is_primary.append(graph.heads[m - 1] == h)
    arc_starts = np.concatenate([[0], np.cumsum(counts)])
    return heads, arc_starts, np.array(arc_heads), np.array(is_primary)


def deps_of_heads(text: bytes) -> bytes:
    """CoNLL-U whose DEPS are the arcs of HEAD, with their relations."""
    rows = [line.split(b"\t") for line in text.split(b"\n")]
    rows = [[*row[:8], b":".join(row[6:8]), *row[9:]] if row[1:] else row for row in rows]
    return b"\n".join(map(b"\t".join, rows))
