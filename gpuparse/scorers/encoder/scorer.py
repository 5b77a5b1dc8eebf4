"""The scorer of a pretrained encoder, which fills columns from the same pass."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from gpuparse.data.array_file import below
from gpuparse.data.batch import Encoded
from gpuparse.data.cached import cached_property
from gpuparse.data.columns import UPOS
from gpuparse.data.tag_columns import Column, read_column
from gpuparse.data.treebank import Treebank
from gpuparse.errors import ConfigError, ModelError
from gpuparse.inference.decoders import Engine
from gpuparse.limits import LEAST_PROBABILITY
from gpuparse.scorers.encoder.columns import NUMBERS, Values
from gpuparse.scorers.encoder.files import KIND
from gpuparse.scorers.encoder.pieces import EncodedPieces, Splitter, Windows
from gpuparse.scorers.encoder.quantised import QuantisedEncoder
from gpuparse.scorers.encoder.quantised_heads import QuantisedHeads
from gpuparse.scorers.encoder.sizes import Sizes
from gpuparse.scorers.scorer import Scorer
from gpuparse.scorers.sizes import PartSize, sentence_cells

if TYPE_CHECKING:
    from gpuparse.scorers.encoder.dense import DenseEncoder
    from gpuparse.scorers.encoder.network import Heads, Network

PRECISIONS = ("auto", "float32", "bfloat16")  # auto: float32 on the CPU, bfloat16 on a GPU
TAG_SCALE = "tag_scale"  # (1,), the array of the factor of scores of UPOS
# Scores are whole numbers of these parts of a nat, and no larger than MOST nats, so that float32
# holds the sum over a sentence of 1,000 words. Differences of rounding between machines are much
# smaller than a part, so that they rarely change a score.
PARTS, MOST = 256, 64.0
# Pieces that an encoder reads at once, padding included: on the CPU, and on a GPU.
BATCH, GPU_BATCH = 2048, 1 << 14
_WORDS_AT_ONCE = 4096  # whose columns are read
_WORDS = ("the", "of", "A", "parser", "2000", ",", "reads", "Trees", ".", "new-born")  # for tests


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
        source: begins messages about faults that no reading of a model finds.
    """

    config: Mapping[str, Any]
    splitter: Splitter
    arrays: Mapping[str, np.ndarray]
    quantised: QuantisedEncoder | None = None
    values: Values
    tags: Mapping[str, Sequence[str]]
    n_labels: int
    precision: str = PRECISIONS[0]
    source: str = "the model"

    kind = KIND
    is_exact = False
    labels_with_trees = False
    replaces_arcs = False
    nats_per_point = (1.0 / PARTS, 1.0 / PARTS)
    reads_guides = False

    @property
    def has_labels(self) -> bool:
        """True if there are scores of labels."""
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
            with self.faults_of_source():
                found = EncodedPieces.of(treebank, self.splitter, tags)
            treebank.computed[self] = found
        return found

    @contextmanager
    def faults_of_source(self) -> Iterator[None]:
        """ModelErrors say where the model comes from."""
        try:
            yield
        except ModelError as error:
            raise ModelError(f"{self.source}: {error}") from error

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

    def runs_natively(self, device: str) -> bool:
        """True if native code computes it there, by weights of 8 bits."""
        return self.quantised is not None and device == "cpu"

    @property
    def floats(self) -> EncoderScorer:
        """The same without weights of 8 bits: torch computes it by what these stand for."""
        if self.quantised is None:
            return self
        body, casings = self.quantised.floats(self.config)
        arrays = {f"body.{name}": array for name, array in body.items()} | {"casings": casings}
        return replace(self, quantised=None, arrays={**self.arrays, **arrays})

    @cached_property
    def on_devices(self) -> dict[str, tuple[Heads, Network]]:
        """Heads and network by device; `in_torch` fills it."""
        return {}

    @property
    def sizes(self) -> Sizes:
        """The sizes of the layers that read hidden states."""
        label = self.arrays.get("heads.label_heads.weight")
        return Sizes(
            arcs=len(self.arrays["heads.arc_heads.weight"]),
            labels=0 if label is None else len(label),
            n_labels=self.n_labels,
            columns=self.values.sizes,
            tags={name: len(texts) for name, texts in self.tags.items()},
        )

    @cached_property
    def in_bytes(self) -> EncoderScorer:
        """The same with weights of 8 bits."""
        if self.quantised is not None:
            return self
        with self.faults_of_source():
            quantised = QuantisedEncoder.of(
                self.config, below(self.arrays, "body"), self.arrays["casings"]
            )
        arrays = {
            name: array for name, array in self.arrays.items()
            if name != "casings" and not name.startswith("body.")
        }  # fmt: skip
        return replace(self, quantised=quantised, arrays=arrays)

    def states(self, encoded: EncodedPieces, threads: int) -> np.ndarray:
        """(T, width) float32 hidden states of all tokens, of weights of 8 bits; computed once."""
        whole = encoded.whole
        if self not in whole.hidden:
            found = np.zeros((whole.n_tokens, self.width), np.float32)
            for sentences in whole.batches(np.arange(len(whole.word_starts) - 1), BATCH):
                windows = whole.windows(sentences)
                words, found[windows.root_tokens] = self._quantised_states(windows, threads)
                for name, ids in whole.tags_of(windows).items():
                    words += self.arrays[f"heads.tags.{name}.weight"][ids]
                found[windows.tokens] = words
            whole.hidden[self] = found
        states: np.ndarray = whole.hidden[self]
        return states

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
    def quantised_heads(self) -> QuantisedHeads:
        """The layers that read the hidden states of weights of 8 bits."""
        return QuantisedHeads.of(below(self.arrays, "heads"))

    @cached_property
    def _mix(self) -> np.ndarray:
        """(L + 1,) float32 the shares of layers."""
        mix = self.arrays["mix"].astype(np.float64)
        shares = np.exp(mix - mix.max())
        return (shares / shares.sum()).astype(np.float32)

    def arc_points(
        self, states: np.ndarray, starts: np.ndarray, lengths: np.ndarray, threads: int
    ) -> np.ndarray:
        """(B, N, N) scores of arcs by weights of 8 bits; see `QuantisedArcs.scores`."""
        return _whole_parts(self.quantised_heads.arcs.scores(states, starts, lengths, threads))

    def label_points(
        self, states: np.ndarray, heads: np.ndarray, modifiers: np.ndarray, threads: int
    ) -> np.ndarray:
        """(A, L) scores of labels by weights of 8 bits; see `QuantisedLabels.of_arcs`."""
        labels = self.quantised_heads.labels
        assert labels is not None
        return _whole_parts(labels.of_arcs(self.n_labels, states, heads, modifiers, threads))

    def without_words(self, encoded: Encoded, words: np.ndarray) -> Iterator[EncodedPieces]:
        """See `gpuparse.scorers.scorer.ReadsWholes`."""
        assert isinstance(encoded, EncodedPieces)
        return encoded.without_words(words, BATCH)

    def head_scores(self, encoded: Encoded, m: int) -> np.ndarray:
        """See `gpuparse.scorers.scorer.ReadsWholes`."""
        if self.quantised is None:
            return self.in_torch().head_scores(encoded, m)
        assert isinstance(encoded, EncodedPieces)
        arcs = self.arc_points(self.states(encoded, 1), encoded.starts, encoded.lengths, 1)
        found: np.ndarray = arcs[:, :, m].astype(np.float64)
        return found

    def in_torch(self, engine: Engine = "torch") -> DenseEncoder:
        """The same scores as dense tensors."""
        from gpuparse.scorers.encoder.dense import DenseEncoder  # and torch with it

        return DenseEncoder(self)

    def fill(
        self, treebank: Treebank, place: str, threads: int
    ) -> tuple[dict[int, Column], np.ndarray]:
        """The columns that it fills, and (W,) float64 the probabilities of UPOS, NaN without it."""
        encoded = self.encode(treebank)
        words = encoded.whole.word_tokens
        if not self.runs_natively(place):
            found = self.in_torch().columns(encoded, place)
            return self.values.tags(found.best), found.probabilities
        states = self.states(encoded, threads)
        best: dict[str, list[np.ndarray]] = {}
        probabilities = np.full(len(words), np.nan)
        for some in np.split(
            np.arange(len(words)), range(_WORDS_AT_ONCE, len(words), _WORDS_AT_ONCE)
        ):
            for name, scores in self._column_scores(states[words[some]], threads):
                best.setdefault(name, []).append(scores.argmax(1))
                if name == "upos":
                    probabilities[some] = _largest_share(scores * self.tag_scale)
        return self.values.tags({n: np.concatenate(ids) for n, ids in best.items()}), probabilities

    def _column_scores(self, states: np.ndarray, threads: int) -> Iterator[tuple[str, np.ndarray]]:
        """The scores (W, values) of each column that is filled, of words, by weights of 8 bits."""
        for name, layer in self.quantised_heads.columns.items():
            yield name, layer.of_rows(states, self.values.sizes[name], threads)

    @property
    def tag_scale(self) -> float:
        """See `gpuparse.scorers.scorer.FillsTags`."""
        return float(self.arrays[TAG_SCALE][0])

    def with_tag_scale(self, scale: float) -> EncoderScorer:
        """See `gpuparse.scorers.scorer.FillsTags`."""
        return replace(self, arrays={**self.arrays, TAG_SCALE: np.array([scale], np.float32)})

    def tag_losses(self, treebank: Treebank) -> Callable[[float], float] | None:
        """See `gpuparse.scorers.scorer.FillsTags`."""
        if UPOS not in self.fills:
            return None
        gold = tags_of(treebank, "upos", self.values.texts["upos"], unknown=-1)
        words = np.flatnonzero(gold >= 0)
        if not len(words):
            return None
        scores = self._upos_scores(self.encode(treebank), words).astype(np.float64)
        scores -= scores.max(1, keepdims=True)
        of_gold = scores[np.arange(len(words)), gold[words]]

        def loss(scale: float) -> float:
            logs = scale * of_gold - np.log(np.exp(scale * scores).sum(1))
            return float(-logs.clip(min=math.log(LEAST_PROBABILITY)).mean())

        return loss

    def _upos_scores(self, encoded: EncodedPieces, words: np.ndarray) -> np.ndarray:
        """(W, values) the scores of UPOS of some words, on the CPU."""
        if self.quantised is None:
            return self.in_torch().upos_scores(encoded, words)
        import torch

        states = self.states(encoded, torch.get_num_threads())[encoded.whole.word_tokens[words]]
        return self.quantised_heads.columns["upos"].of_rows(states, self.values.sizes["upos"])


def _whole_parts(nats: np.ndarray) -> np.ndarray:
    """Scores in nats as whole numbers of parts of a nat, in place."""
    np.clip(nats, -MOST, MOST, out=nats)
    nats *= PARTS
    return np.rint(nats, out=nats)


def _largest_share(scores: np.ndarray) -> np.ndarray:
    """(W,) float64 the softmax of the best of the scores (W, values)."""
    of_best = scores - scores.max(1, keepdims=True)
    return 1.0 / np.exp(of_best.astype(np.float64)).sum(1)


def tags_of(treebank: Treebank, name: str, texts: Sequence[str], unknown: int = 0) -> np.ndarray:
    """(W,) the number of each word's tag among those that were learned, `unknown` for others."""
    column = read_column(treebank, NUMBERS[name])
    places = {text: place for place, text in enumerate(texts)}
    return np.array([places.get(text, unknown) for text in column.names], np.int64)[column.ids]
