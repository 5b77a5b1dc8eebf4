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
from gpuparse.scorers.encoder.scorer import BATCH, MOST, PARTS, EncoderScorer
from gpuparse.scorers.tensors import Arcs, added


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

        Raises: ConfigError: weights of 8 bits, and the device is not the CPU.
        """
        assert isinstance(encoded, EncodedPieces)
        scorer = self._scorer
        if scorer.quantised is not None:
            if device.type != "cpu":
                raise ConfigError(
                    f"device {device.type}: the encoder has weights of 8 bits, which the CPU reads:"
                    " train it with weights.bits=16"
                )
            return torch.from_numpy(scorer.states(encoded, torch.get_num_threads()))
        known = encoded.whole.hidden
        if (scorer, device) not in known:
            known[scorer, device] = self._hidden(encoded, device)
        found: Tensor = known[scorer, device]
        return found

    def _hidden(self, encoded: EncodedPieces, place: torch.device) -> Tensor:
        _, network = self._on_device(place)
        whole = encoded.whole
        found = torch.zeros(whole.n_tokens, self._scorer.width, device=place)
        for sentences in whole.batches(np.arange(len(whole.word_starts) - 1), BATCH):
            windows = whole.windows(sentences)
            words, roots = network.states(whole, windows)
            found[torch.from_numpy(windows.tokens).to(place)] = words
            found[torch.from_numpy(windows.root_tokens).to(place)] = roots
        return found

    def _on_device(self, place: torch.device) -> tuple[Heads, Network]:
        """The heads and the network on a device, of weights of 16 bits."""
        known, scorer = self._scorer.on_devices, self._scorer
        if place.type not in known:
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
        if self._scorer.quantised is None:
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
        if self._scorer.quantised is None:
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
        """The columns of all words that weights of 16 bits fill."""
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
