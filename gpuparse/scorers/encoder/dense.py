"""The scores of an encoder as dense tensors, on any device."""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from gpuparse.data.batch import Encoded
from gpuparse.errors import ConfigError
from gpuparse.inference.scores import Scores
from gpuparse.scorers.encoder.network import (
    Heads,
    Network,
    Read,
    heads_of,
    network_of,
    part_of,
)
from gpuparse.scorers.encoder.pieces import EncodedPieces
from gpuparse.scorers.encoder.scorer import BATCH, GPU_BATCH, MOST, PARTS, EncoderScorer
from gpuparse.scorers.tensors import Arcs, added, sent_to


class NodeStates(NamedTuple):
    """Some sentences: the hidden states of all nodes (B, N, width), and their lengths (B,)."""

    hidden: Tensor
    lengths: Tensor


class DenseEncoder:
    """The scores of an encoder in torch; see `gpuparse.scorers.scorer.TorchScorer`."""

    def __init__(self, scorer: EncoderScorer) -> None:
        self._scorer, self.has_labels = scorer, scorer.has_labels

    def send(self, encoded: Encoded, device: torch.device) -> Tensor:
        """(T, width) float32 hidden states of all tokens; computed once for each device.

        A GPU is not waited for: it computes batch after batch while others are made.
        Raises: torch.OutOfMemoryError: it has no memory for one sentence.
        """
        assert isinstance(encoded, EncodedPieces)
        scorer = self._scorer
        if scorer.runs_natively(device.type):
            return torch.from_numpy(scorer.states(encoded, torch.get_num_threads()))
        known = encoded.whole.hidden
        if (scorer, device) not in known:
            most = BATCH if device.type == "cpu" else GPU_BATCH
            while (hidden := self._hidden(encoded, device, most)) is None:
                torch.cuda.empty_cache()
                most //= 2
            known[scorer, device] = hidden
        found: Tensor = known[scorer, device]
        return found

    def _hidden(self, encoded: EncodedPieces, place: torch.device, most: int) -> Tensor | None:
        """`send`, with `most` pieces at once; None: there is no memory for these."""
        _, network = self._on_device(place)
        whole = encoded.whole
        found = torch.zeros(whole.n_tokens, self._scorer.width, device=place)
        for sentences in whole.batches(np.arange(len(whole.word_starts) - 1), most):
            windows = whole.windows(sentences)
            try:
                words, roots = network.states(whole, windows)
            except torch.OutOfMemoryError:
                if len(sentences) == 1:
                    raise
                return None
            found[sent_to(place, windows.tokens)] = words
            found[sent_to(place, windows.root_tokens)] = roots
        return found

    def _on_device(self, place: torch.device) -> tuple[Heads, Network]:
        """The heads and the network on a device.

        Raises: ModelError: the weights are not those of the config.
        """
        known = self._scorer.on_devices
        if place.type not in known:
            scorer = self._scorer.floats
            with scorer.faults_of_source():
                heads = heads_of(scorer.width, scorer.sizes, scorer.arrays, place)
                network = network_of(scorer.config, heads, scorer.arrays, scorer.precision, place)
            known[place.type] = heads, network
        return known[place.type]

    def part(self, sent: Tensor, some: Encoded) -> NodeStates:
        """The hidden states of some sentences."""
        return NodeStates(*part_of(sent, some))

    def score(self, part: NodeStates, before: Scores | None = None) -> Scores:
        """The scores of arcs."""
        hidden, lengths = part
        if not self._scorer.runs_natively(hidden.device.type):
            scores = whole_parts(self._on_device(hidden.device)[0].arc_scores(hidden))
        else:
            starts = np.arange(len(lengths)) * hidden.shape[1]
            scores = torch.from_numpy(
                self._scorer.arc_points(
                    hidden.flatten(0, 1).numpy(), starts, lengths.numpy(), torch.get_num_threads()
                )
            )
        return added(before, Scores(scores, lengths))

    def label_scores(
        self, part: NodeStates, heads: Tensor, arcs: Arcs, before: Tensor | None = None
    ) -> Tensor:
        """(A, L) the scores of all labels of some arcs."""
        b, h, m = arcs
        hidden = part.hidden
        if not self._scorer.runs_natively(hidden.device.type):
            own = self._on_device(hidden.device)[0]
            found = whole_parts(own.label_scores(hidden[b, h], hidden[b, m]))
        else:
            first = b * hidden.shape[1]
            found = torch.from_numpy(
                self._scorer.label_points(
                    hidden.flatten(0, 1).numpy(), (first + h).numpy(), (first + m).numpy(),
                    torch.get_num_threads(),
                )
            )  # fmt: skip
        return found if before is None else before + found

    def arc_label_scores(self, part: NodeStates, before: Tensor | None = None) -> Tensor:
        """Raises: ConfigError: labels are found for finished trees."""
        raise ConfigError("an encoder scores labels of finished trees")

    def head_scores(self, encoded: Encoded, m: int) -> np.ndarray:
        """See `gpuparse.scorers.scorer.ReadsWholes`."""
        part = self.part(self.send(encoded, torch.device("cpu")), encoded)
        found: np.ndarray = self.score(part).arc[:, :, m].double().numpy()
        return found

    def columns(self, encoded: EncodedPieces, place: str) -> Read:
        """The columns of all words that are filled, where native code does not."""
        hidden = self.send(encoded, torch.device(place))
        heads, _ = self._on_device(hidden.device)
        return heads.read(hidden, encoded.whole.word_tokens, self._scorer.tag_scale)

    def upos_scores(self, encoded: EncodedPieces, words: np.ndarray) -> np.ndarray:
        """(W, values) the scores of UPOS of some words, by weights of 16 bits on the CPU."""
        hidden = self.send(encoded, torch.device("cpu"))
        layer = self._on_device(hidden.device)[0].columns["upos"]
        with torch.inference_mode():
            found: np.ndarray = layer(hidden[encoded.whole.word_tokens[words]]).numpy()
        return found


def whole_parts(nats: Tensor) -> Tensor:
    """Scores in nats as whole numbers of parts of a nat."""
    return (nats.float().clamp(-MOST, MOST) * PARTS).round()
