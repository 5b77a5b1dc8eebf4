"""A scorer of dense random floats, which depend on the forms of a sentence and on nothing else."""

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gpuparse.data.parts import axes_of
from gpuparse.data.treebank import Treebank
from gpuparse.inference.decoders import DECODERS, Engine
from gpuparse.inference.scores import Scores
from gpuparse.model.engines.searcher import Scales
from gpuparse.model.parser import Parser
from gpuparse.scorers.sizes import PartSize, sentence_cells

LABELS = ("nsubj", "obj", "det")


@dataclass(frozen=True, eq=False)
class Texts:
    """Sentences as their forms; the tokens are those of `gpuparse.data.batch.Encoded`."""

    starts: np.ndarray
    lengths: np.ndarray
    n_tokens: int
    forms: list[list[str]]

    @classmethod
    def of(cls, forms: list[list[str]]) -> "Texts":
        lengths = np.array([len(words) for words in forms], np.int64)
        widths = lengths + 2
        starts = np.cumsum(widths) - widths
        return cls(starts, lengths, int(widths.sum()), forms)

    def __len__(self) -> int:
        return len(self.lengths)

    def select(self, sentences: np.ndarray | slice) -> "Texts":
        chosen = np.arange(len(self))[sentences]
        return replace(
            self, starts=self.starts[chosen], lengths=self.lengths[chosen],
            forms=[self.forms[s] for s in chosen],
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class DenseScorer:
    """Scores of the parts that a decoder reads, times `size`.

    wrong: what is added to the scores on a device other than the CPU's, for self-tests.
    """

    decoder: str
    n_labels: int = len(LABELS)
    labels_with_trees: bool = False
    size_of_scores: float = 1.0

    kind = "random"
    is_exact = False
    replaces_arcs = False
    nats_per_point = (1.0, 1.0)
    reads_guides = False
    fills = ()

    @property
    def has_labels(self) -> bool:
        return self.n_labels > 0

    @property
    def reads(self) -> Mapping[int, Sequence[str]]:
        return {1: ["form"]}

    def encode(self, treebank: Treebank, guides: np.ndarray | None = None) -> Texts:
        return Texts.of([list(treebank[s].forms) for s in range(len(treebank))])

    def generated(self, lengths: Sequence[int], *, only_known: bool = False) -> Texts:
        return Texts.of([[f"word{k}" for k in range(n)] for n in lengths])

    def size(self, lengths: np.ndarray) -> np.ndarray:
        return sentence_cells(lengths, PartSize(1 + DECODERS[self.decoder].order))

    def lower_order(self, *, is_replaced: bool = False) -> "DenseScorer":
        return replace(self, decoder=DECODERS[self.decoder].of_arcs)

    def in_torch(self, engine: Engine = "torch") -> "DenseScorer":
        return self

    def send(self, encoded: Texts, device: torch.device) -> torch.device:
        return device

    def part(self, sent: torch.device, some: Texts) -> tuple[torch.device, Texts]:
        return sent, some

    def score(self, part: tuple[torch.device, Texts], before: Scores | None = None) -> Scores:
        device, texts = part
        parts = {
            field: self._padded(texts, field, len(axes_of(field))).to(device)
            for field in ("arc", *DECODERS[self.decoder].reads)
        }
        return Scores(lengths=torch.from_numpy(texts.lengths).to(device), **parts)

    def label_scores(
        self, part: Any, heads: Tensor, arcs: tuple[Tensor, Tensor, Tensor],
        before: Tensor | None = None,
    ) -> Tensor:  # fmt: skip
        return self.arc_label_scores(part)[arcs]

    def arc_label_scores(
        self, part: tuple[torch.device, Texts], before: Tensor | None = None
    ) -> Tensor:
        device, texts = part
        return self._padded(texts, "label", 2, self.n_labels).to(device)

    def _padded(self, texts: Texts, field: str, n_axes: int, *more: int) -> Tensor:
        """(B, N, ..., N, *more): of each sentence numbers that do not depend on the padding."""
        n_nodes = int(texts.lengths.max(initial=0)) + 1
        padded = torch.full((len(texts), *[n_nodes] * n_axes, *more), torch.nan)
        for b, words in enumerate(texts.forms):
            seed = zlib.crc32(f"{field} {' '.join(words)}".encode())
            shape = (*[len(words) + 1] * n_axes, *more)
            own = np.random.default_rng(seed).normal(0.0, self.size_of_scores, shape)
            padded[(b, *[slice(len(words) + 1)] * n_axes)] = torch.from_numpy(own).float()
        return padded


def dense_parser(decoder: str, **options: Any) -> Parser:
    """A parser of random floats; options: those of `DenseScorer`, and `single_root`."""
    single_root = options.pop("single_root", False)
    scorer = DenseScorer(decoder, **options)
    labels = list(LABELS[: scorer.n_labels])
    primary = labels if DECODERS[decoder].gives_graphs and labels else None
    return Parser(
        scorers=(scorer,), labels=labels, primary=primary, decoder=decoder,
        single_root=single_root, scales=Scales(*scorer.nats_per_point), config="",
    )  # fmt: skip
