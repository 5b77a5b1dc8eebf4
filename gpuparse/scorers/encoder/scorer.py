"""The scorer of a pretrained encoder, which fills columns from the same pass."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gpuparse.array_file import below
from gpuparse.cached import cached_property
from gpuparse.data.batch import Encoded
from gpuparse.data.tag_columns import UPOS, Column, read_column
from gpuparse.data.treebank import Treebank
from gpuparse.errors import ConfigError
from gpuparse.evaluation.reliability import LEAST
from gpuparse.scorers.encoder.columns import NUMBERS, Values
from gpuparse.scorers.encoder.pieces import EncodedPieces, Splitter, Windows
from gpuparse.scorers.encoder.quantised import QuantisedEncoder, QuantisedLabels
from gpuparse.scorers.encoder.sizes import Sizes
from gpuparse.scorers.scorer import Scorer
from gpuparse.scorers.sizes import PartSize, sentence_cells

if TYPE_CHECKING:
    from torch import Tensor, device

    from gpuparse.inference.scores import Scores
    from gpuparse.scorers.encoder.network import Heads, Network
    from gpuparse.scorers.scorer import Arcs

KIND = "encoder"
PRECISIONS = ("float32", "bfloat16")
TAG_SCALE = "tag_scale"  # (1,), the array of what scores of UPOS are multiplied by
# Scores are whole numbers of these parts of a nat, and no larger than MOST nats, so that float32
# holds the sum over a sentence of 1,000 words. Differences of rounding between machines are much
# smaller than a part, so that they rarely change a score.
PARTS, MOST = 256, 64.0
BATCH = 2048  # pieces that an encoder reads at once, padding included
_WORDS = ("the", "of", "A", "parser", "2000", ",", "reads", "Trees", ".", "new-born")  # for tests


class NodeStates(NamedTuple):
    """Some sentences: the hidden states of all nodes (B, N, width), and their lengths (B,)."""

    hidden: Tensor
    lengths: Tensor


@dataclass(frozen=True, eq=False, kw_only=True)
class EncoderScorer:
    """A pretrained encoder and its heads; see `gpuparse.scorers.scorer`.

    Args:
        config: that of the transformer, as the package `transformers` writes it.
        splitter: of words into pieces.
        arrays: float32 or float16, by the names of `Network`; those of the transformer and of
            casings are absent if it is quantised.
        quantised: the transformer with weights of 8 bits, which native code computes.
        values: of the columns that are filled. tags: of each column that is read, the values.
        n_labels: of the parser.
        precision: of PRECISIONS, that torch computes the transformer with.
    """

    config: Mapping[str, Any]
    splitter: Splitter
    arrays: Mapping[str, np.ndarray]
    quantised: QuantisedEncoder | None = None
    values: Values
    tags: Mapping[str, Sequence[str]]
    n_labels: int
    precision: str = PRECISIONS[0]

    kind = KIND
    is_exact = False
    labels_with_trees = False
    replaces_arcs = False
    nats_per_point = (1.0 / PARTS, 1.0 / PARTS)
    reads_guides = False

    @property
    def has_labels(self) -> bool:
        """Whether there are scores of labels."""
        return self.n_labels > 0

    @property
    def reads(self) -> Mapping[int, Sequence[str]]:
        """The columns of tags that it reads."""
        return {NUMBERS[name]: [name] for name in self.tags}

    @property
    def fills(self) -> tuple[int, ...]:
        """The columns that it fills."""
        return self.values.columns

    def encode(self, treebank: Treebank, guides: np.ndarray | None = None) -> EncodedPieces:
        """The pieces of a treebank; the same ones if it has been encoded before."""
        if guides is not None:
            raise ConfigError("guides are given, but the model has no guide templates")
        found = treebank.computed.get(self)
        if found is None:
            tags = {name: tags_of(treebank, name, texts) for name, texts in self.tags.items()}
            found = EncodedPieces.of(treebank, self.splitter, tags)
            treebank.computed[self] = found
        return found

    def generated(self, lengths: Sequence[int], *, only_known: bool = False) -> EncodedPieces:
        """Sentences of a few words in turns."""
        starts = np.concatenate([[0], np.cumsum(np.asarray(lengths, np.int64))])
        words = np.arange(starts[-1]) * 7 // 3 % len(_WORDS)
        tags = {name: np.zeros(len(words), np.int64) for name in self.tags}
        return EncodedPieces.of_forms(words, _WORDS, starts, self.splitter, tags)

    def size(self, lengths: np.ndarray) -> np.ndarray:
        """(S,) cells of arcs, and of the vectors of nodes."""
        return sentence_cells(lengths, PartSize(2)) + 2 * self.width * (lengths + 1)

    @property
    def width(self) -> int:
        """Numbers of a hidden state."""
        return int(self.config["hidden_size"])

    def lower_order(self, *, is_replaced: bool = False) -> Scorer:
        """The same: there are scores of arcs alone."""
        return self

    @cached_property
    def _on_devices(self) -> dict[str, tuple[Heads, Network | None]]:
        return {}

    def on_device(self, place: device) -> tuple[Heads, Network | None]:
        """The heads on a device, and the network there unless the transformer is quantised.

        Raises: ConfigError: it is quantised, and the device is not the CPU.
        """
        from gpuparse.scorers.encoder.network import heads_of, network_of  # and torch with it

        if place.type not in self._on_devices:
            if self.quantised is not None and place.type != "cpu":
                raise ConfigError(
                    f"device {place.type}: the encoder has weights of 8 bits, which the CPU reads:"
                    " train it with weights.bits=16"
                )
            heads = heads_of(self.width, self.sizes, self.arrays, place)
            network = None
            if self.quantised is None:
                network = network_of(self.config, heads, self.arrays, self.precision, place)
            self._on_devices[place.type] = heads, network
        return self._on_devices[place.type]

    @property
    def sizes(self) -> Sizes:
        """The sizes of what reads hidden states."""
        label = self.arrays.get("heads.label_heads.weight")
        return Sizes(
            arcs=len(self.arrays["heads.arc_heads.weight"]),
            labels=0 if label is None else len(label),
            n_labels=self.n_labels,
            columns=self.values.sizes,
            tags={name: len(texts) for name, texts in self.tags.items()},
        )

    def send(self, encoded: Encoded, device: device) -> Tensor:
        """(T, width) float32 hidden states of all tokens; computed once for each device."""
        assert isinstance(encoded, EncodedPieces)
        known = encoded.whole.hidden
        if (self, device) not in known:
            known[self, device] = self._hidden(encoded, device)
        return known[self, device]

    def _hidden(self, encoded: EncodedPieces, place: device) -> Tensor:
        import torch

        heads, network = self.on_device(place)
        whole = encoded.whole
        found = torch.zeros(whole.n_tokens, self.width, device=place)
        for sentences in whole.batches(np.arange(len(whole.word_starts) - 1), BATCH):
            windows = whole.windows(sentences)
            if network is None:
                words, roots = self._quantised_states(windows, torch.get_num_threads())
                words, roots = torch.from_numpy(words), torch.from_numpy(roots)
                with torch.inference_mode():
                    words = heads.with_tags(words, whole.tags_of(windows))
            else:
                words, roots = network.states(whole, windows)
            found[torch.from_numpy(windows.tokens).to(place)] = words
            found[torch.from_numpy(windows.root_tokens).to(place)] = roots
        return found

    def _quantised_states(self, windows: Windows, threads: int) -> tuple[np.ndarray, np.ndarray]:
        """The hidden states of the words and roots of windows: means over pieces."""
        assert self.quantised is not None
        states = self.quantised.hidden(
            windows.ids, windows.casings, windows.starts, self._mix, threads
        )
        words = states[windows.firsts]
        for place in range(1, int(windows.counts.max(initial=0))):
            some = np.flatnonzero(windows.counts > place)
            words[some] += states[windows.firsts[some] + place]
        return words / windows.counts[:, None].astype(np.float32), states[windows.roots]

    @cached_property
    def _mix(self) -> np.ndarray:
        """(L + 1,) float32 the shares of layers."""
        mix = self.arrays["mix"].astype(np.float64)
        shares = np.exp(mix - mix.max())
        return (shares / shares.sum()).astype(np.float32)

    def part(self, sent: Tensor, some: Encoded) -> NodeStates:
        """The hidden states of some sentences."""
        from gpuparse.scorers.encoder.network import part_of

        return NodeStates(*part_of(sent, some))

    def score(self, part: NodeStates, before: Scores | None = None) -> Scores:
        """The scores of arcs."""
        from gpuparse.inference.scores import Scores
        from gpuparse.scorers.tensors import added

        heads = self.on_device(part.hidden.device)[0]
        scores = whole_parts(heads.arc_scores(part.hidden))
        return added(before, Scores(scores, part.lengths))

    def label_scores(
        self, part: NodeStates, heads: Tensor, arcs: Arcs, before: Tensor | None = None
    ) -> Tensor:
        """(A, L) the scores of all labels of some arcs."""
        b, h, m = arcs
        if self.quantised is None:
            own = self.on_device(part.hidden.device)[0]
            found = own.label_scores(part.hidden[b, h], part.hidden[b, m])
        else:
            found = self._quantised_labels(part.hidden, arcs)
        found = whole_parts(found)
        return found if before is None else before + found

    def _quantised_labels(self, hidden: Tensor, arcs: Arcs) -> Tensor:
        """(A, L) float32, in nats."""
        import torch

        b, h, m = arcs
        nodes = b * hidden.shape[1] + h
        order = nodes.argsort(stable=True)
        heads, counts = nodes[order].unique_consecutive(return_counts=True)
        starts = np.concatenate([[0], np.cumsum(counts.numpy())])
        scores = self._label_layers.scores(
            self.n_labels, hidden.flatten(0, 1)[heads].numpy(), starts,
            hidden[b[order], m[order]].numpy(), torch.get_num_threads(),
        )  # fmt: skip
        found = torch.empty(len(b), self.n_labels)
        found[order] = torch.from_numpy(scores)
        return found

    @cached_property
    def _label_layers(self) -> QuantisedLabels:
        return QuantisedLabels.of(below(self.arrays, "heads"))

    def without_words(self, encoded: Encoded, words: np.ndarray) -> Iterator[EncodedPieces]:
        """See `gpuparse.scorers.scorer.ReadsWholes`."""
        assert isinstance(encoded, EncodedPieces)
        return encoded.without_words(words, BATCH)

    def head_scores(self, encoded: Encoded, m: int) -> np.ndarray:
        """See `gpuparse.scorers.scorer.ReadsWholes`."""
        import torch

        part = self.part(self.send(encoded, torch.device("cpu")), encoded)
        found: np.ndarray = self.score(part).arc[:, :, m].double().numpy()
        return found

    def arc_label_scores(self, part: NodeStates, before: Tensor | None = None) -> Tensor:
        """Raises: ConfigError: labels are found for finished trees."""
        raise ConfigError("an encoder scores labels of finished trees")

    def fill(self, treebank: Treebank, place: str) -> tuple[dict[int, Column], np.ndarray]:
        """The columns that it fills, and (W,) float64 the probabilities of UPOS, NaN without it."""
        import torch

        encoded = self.encode(treebank)
        hidden = self.send(encoded, torch.device(place))
        heads = self.on_device(hidden.device)[0]
        found = heads.read(hidden, encoded.whole.word_tokens, self.tag_scale)
        return self.values.tags(found.best), found.probabilities

    @property
    def tag_scale(self) -> float:
        """See `gpuparse.scorers.scorer.FillsTags`."""
        return float(self.arrays[TAG_SCALE][0])

    def with_tag_scale(self, scale: float) -> EncoderScorer:
        """See `gpuparse.scorers.scorer.FillsTags`."""
        return replace(self, arrays={**self.arrays, TAG_SCALE: np.array([scale], np.float32)})

    def tag_losses(self, treebank: Treebank) -> Callable[[float], float] | None:
        """See `gpuparse.scorers.scorer.FillsTags`."""
        import torch

        if UPOS not in self.fills:
            return None
        gold = tags_of(treebank, "upos", self.values.texts["upos"], unknown=-1)
        words = np.flatnonzero(gold >= 0)
        if not len(words):
            return None
        encoded = self.encode(treebank)
        hidden = self.send(encoded, torch.device("cpu"))
        layer = self.on_device(hidden.device)[0].columns["upos"]
        with torch.inference_mode():
            scores = layer(hidden[encoded.whole.word_tokens[words]]).double()
        numbers = torch.from_numpy(gold[words]).unsqueeze(1)

        def loss(scale: float) -> float:
            found = (scores * scale).log_softmax(1).gather(1, numbers)
            return float(-found.clamp(min=math.log(LEAST)).mean())

        return loss


def whole_parts(nats: Tensor) -> Tensor:
    """Scores in nats as whole numbers of parts of a nat."""
    return (nats.float().clamp(-MOST, MOST) * PARTS).round()


def tags_of(treebank: Treebank, name: str, texts: Sequence[str], unknown: int = 0) -> np.ndarray:
    """(W,) the number of each word's tag among those that were learned, `unknown` for others."""
    column = read_column(treebank, NUMBERS[name])
    places = {text: place for place, text in enumerate(texts)}
    return np.array([places.get(text, unknown) for text in column.names], np.int64)[column.ids]
