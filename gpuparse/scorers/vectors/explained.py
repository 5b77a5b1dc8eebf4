"""The scores of word vectors in one sentence, for explanations."""

import numpy as np

from gpuparse import native
from gpuparse.scorers.vectors.word_vectors import KINDS, MOST_POINTS, WordVectors


class ExplainedVectors:
    """The scores of word vectors in one sentence of N nodes.

    Attributes:
        has_labels: whether labels are scored.
        pairs: (N, N) of a pair, by kind of parts: "arc" (h, m), "sibling" (s, m), "grandparent"
            (g, m).
        open_arcs: (N, N) bool, the arcs that templates score too: those whose vectors score about
            as much as those of the best head.
    """

    name = "word vectors"  # in the place of a template

    def __init__(self, vectors: WordVectors, sentences: native.Struct, n_nodes: int) -> None:
        self._vectors, self.has_labels = vectors, vectors.scores("label")
        self.pairs: dict[str, np.ndarray] = {}
        for number, kind in enumerate(KINDS[:-1]):
            if vectors.scores(kind):
                scores = np.zeros((1, n_nodes, n_nodes))
                native.call("score_vectors_batch", sentences, vectors, number, scores)
                self.pairs[kind] = scores[0]
        self.open_arcs = self._open_arcs(self.pairs["arc"])

    def _open_arcs(self, scores: np.ndarray) -> np.ndarray:
        is_arc = ~np.eye(len(scores), dtype=np.bool_)
        is_arc[:, 0] = False
        if self._vectors.arc_margin < 0:
            return is_arc
        scores = np.where(is_arc, scores, -np.inf)
        margin, multiplier, shift = (
            int(getattr(self._vectors, f"arc_{name}")) for name in ("margin", "multiplier", "shift")
        )
        points = min((margin * multiplier + ((1 << shift) >> 1)) >> shift, MOST_POINTS)
        is_close = is_arc & (scores >= scores.max(0) - points)
        return is_close & (is_close.sum(0) > 1)
