"""The network of an encoder: a pretrained transformer, and what reads its hidden states."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from gpuparse.data.array_file import below
from gpuparse.data.batch import Encoded, ranges
from gpuparse.errors import ModelError, one_line, require
from gpuparse.scorers.encoder.pieces import CASINGS, EncodedTreebank, Windows
from gpuparse.scorers.encoder.sizes import Sizes
from gpuparse.scorers.tensors import sent_to

WORDS = 4096  # whose columns are read at once
FAMILIES = ("bert", "roberta", "xlm-roberta", "deberta-v2", "modernbert")
POOLERS: dict[str, dict[str, Any]] = {
    family: {"add_pooling_layer": False} for family in ("bert", "roberta", "xlm-roberta")
}
# Keys of classifiers, of first weights, of the form of results and of single layers, which change
# what is computed or how much memory a config takes.
_NOT_READ = {
    "model_type", "num_labels", "id2label", "label2id", "problem_type", "return_dict",
    "output_attentions", "output_hidden_states", "chunk_size_feed_forward", "is_encoder_decoder",
    "per_layer_config", "pruned_heads", "torchscript", "gradient_checkpointing",
    "initializer_range",
}  # fmt: skip


class PieceTensors(NamedTuple):
    """Windows as tensors; `ids`, `casings` and `mask` are padded, (V, L)."""

    ids: Tensor
    casings: Tensor
    mask: Tensor | None  # without padding there is none, so that no device is asked for it
    pieces: Tensor  # (P',) places in the flat padded ids of the pieces of kept words
    words: Tensor  # (P',) the word of each of these pieces
    counts: Tensor  # (K,) pieces of each word
    roots: Tensor  # (S,) places of the first piece of sentences


def is_bfloat16(precision: str, device: torch.device) -> bool:
    """True if products of a transformer are those of bfloat16; precision: of PRECISIONS."""
    return precision == "bfloat16" or (precision == "auto" and device.type != "cpu")


def batch_of(windows: Windows, pad: int, device: torch.device) -> PieceTensors:
    """Windows, padded to the longest one."""
    lengths = np.diff(windows.starts)
    longest = int(lengths.max())
    rows = np.repeat(np.arange(len(lengths)), lengths)
    shift = rows * longest - windows.starts[rows]  # of flat places, by padding
    ids = np.full(len(lengths) * longest, pad, np.int64)
    casings = np.zeros(len(ids), np.int64)
    places = np.arange(len(rows)) + shift
    ids[places], casings[places] = windows.ids, windows.casings
    mask = np.arange(longest) < lengths[:, None] if (lengths < longest).any() else None
    pieces = ranges(windows.firsts, windows.firsts + windows.counts)
    words = np.repeat(np.arange(len(windows.counts)), windows.counts)
    there = partial(sent_to, device)
    shape = len(lengths), longest
    return PieceTensors(
        there(ids.reshape(shape)), there(casings.reshape(shape)),
        None if mask is None else there(mask),
        there(pieces + shift[pieces]), there(words), there(windows.counts.astype(np.float32)),
        there(windows.roots + shift[windows.roots]),
    )  # fmt: skip


class Biaffine(nn.Module):
    """Scores of pairs of vectors: x U y, with a 1 at the end of x, and of y if asked for."""

    def __init__(self, size: int, n: int, *, both: bool) -> None:
        super().__init__()
        self.both = both
        self.weight = nn.Parameter(torch.zeros(n, size + 1, size + both))

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """(B, N, N) for n of 1, of all pairs; else (A, n), of pairs (A, size)."""
        x = torch.cat([x, torch.ones_like(x[..., :1])], -1)
        if self.both:
            y = torch.cat([y, torch.ones_like(y[..., :1])], -1)
        if len(self.weight) == 1 and x.dim() == 3:
            return (x @ self.weight[0]) @ y.transpose(1, 2)
        n, rows, columns = self.weight.shape
        of_x = x @ self.weight.permute(1, 0, 2).reshape(rows, n * columns)
        return (of_x.view(len(x), n, columns) @ y.unsqueeze(-1)).squeeze(-1)


class SharingLinear(nn.Linear):
    """Scores of values that have parts: each is the sum of its own score and those of its parts.

    Args: parts: (n, p) of 0 and 1, the parts of each value.
    """

    parts: Tensor

    def __init__(self, width: int, parts: np.ndarray) -> None:
        super().__init__(width, len(parts))
        self.of_parts = nn.Parameter(torch.zeros(parts.shape[1], width))
        self.register_buffer("parts", torch.from_numpy(parts.astype(np.float32)), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """(W, n), of x (W, width)."""
        return nn.functional.linear(x, self.weight + self.parts @ self.of_parts, self.bias)


class Read(NamedTuple):
    """The values read for W words.

    best: (W,) the number of the best value of each column. probabilities: (W,) of UPOS, NaN without
    it.
    """

    best: dict[str, np.ndarray]
    probabilities: np.ndarray


class Heads(nn.Module):
    """The layers that read hidden states of tokens: scores of arcs, labels and values of columns.

    Args: parts: while it learns, the parts of the values of some columns; see `SharingLinear`.
    """

    def __init__(
        self, width: int, sizes: Sizes, dropout: float = 0.0,
        parts: Mapping[str, np.ndarray] | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.sizes = sizes
        self.dropout = dropout
        self.arc_heads, self.arc_modifiers = (nn.Linear(width, sizes.arcs) for _ in range(2))
        self.arcs = Biaffine(sizes.arcs, 1, both=False)
        if sizes.n_labels:
            self.label_heads, self.label_modifiers = (
                nn.Linear(width, sizes.labels) for _ in range(2)
            )
            self.labels = Biaffine(sizes.labels, sizes.n_labels, both=True)
        given = parts or {}
        self.columns = nn.ModuleDict(
            {
                name: SharingLinear(width, given[name]) if name in given else nn.Linear(width, n)
                for name, n in sizes.columns.items()
            }
        )
        self.tags = nn.ModuleDict({name: nn.Embedding(n, width) for name, n in sizes.tags.items()})
        for embedding in self.tags.values():
            nn.init.normal_(embedding.weight, std=0.02)

    def whole(self, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The arrays of a network whose values have no parts, from those of this one."""
        found = dict(arrays)
        for name, layer in self.columns.items():
            if isinstance(layer, SharingLinear):
                of_parts = found.pop(f"heads.columns.{name}.of_parts")
                weights = f"heads.columns.{name}.weight"
                found[weights] = found[weights] + layer.parts.cpu().numpy() @ of_parts
        return found

    def _vectors(self, layer: nn.Linear, hidden: Tensor) -> Tensor:
        found = nn.functional.gelu(layer(hidden))
        return nn.functional.dropout(found, self.dropout, self.training)

    def with_tags(self, states: Tensor, tags: Mapping[str, np.ndarray]) -> Tensor:
        """The states of words (K, width) and the vectors of the tags (K,) that are read."""
        for name, ids in tags.items():
            states = states + self.tags[name](sent_to(states.device, ids))
        return states

    def arc_scores(self, hidden: Tensor) -> Tensor:
        """(B, N, N) in nats, of head h and modifier m; hidden: (B, N, width)."""
        heads = self._vectors(self.arc_heads, hidden)
        return self.arcs(heads, self._vectors(self.arc_modifiers, hidden))

    def label_scores(self, heads: Tensor, modifiers: Tensor) -> Tensor:
        """(A, labels) in nats, of the hidden states (A, width) of heads and modifiers."""
        return self.labels(
            self._vectors(self.label_heads, heads), self._vectors(self.label_modifiers, modifiers)
        )

    @torch.inference_mode()
    def read(self, hidden: Tensor, tokens: np.ndarray, scale: float) -> Read:
        """The values of columns of words.

        Args: hidden: (T, width) by token; tokens: (W,) those of the words. scale: of the scores of
            UPOS in its probabilities.
        """
        words = sent_to(hidden.device, tokens)
        best: dict[str, list[Tensor]] = {name: [] for name in self.columns}
        probabilities: list[Tensor] = []
        for some in words.split(WORDS):
            states = hidden[some]
            for name, layer in self.columns.items():
                scores = layer(states)
                best[name].append(scores.argmax(-1))
                if name == "upos":
                    probabilities.append((scores * scale).softmax(-1).amax(-1))
        nothing = np.full(len(words), np.nan)
        return Read(
            {name: torch.cat(ids).cpu().numpy() for name, ids in best.items()},
            torch.cat(probabilities).double().cpu().numpy() if probabilities else nothing,
        )


class Network(nn.Module):
    """A transformer, what is added to the embeddings of pieces, the mix of layers, and the heads.

    Args:
        body: of the package `transformers`. pad: the id of padding.
        precision: of PRECISIONS; that of products in the transformer, whose results are added in
            float32.
    """

    def __init__(self, body: nn.Module, pad: int, heads: Heads, precision: str = "float32") -> None:
        super().__init__()
        self.body, self.pad, self.heads, self.precision = body, pad, heads, precision
        layers = int(body.config.num_hidden_layers) + 1
        self.mix = nn.Parameter(torch.zeros(layers))
        with torch.no_grad():
            self.mix[-1] = 3.0  # nearly the last layer alone
        self.casings = nn.Parameter(torch.zeros(CASINGS, int(body.config.hidden_size)))

    def hidden(self, batch: PieceTensors, tags: Mapping[str, np.ndarray]) -> tuple[Tensor, Tensor]:
        """Hidden states of words (K, width) and of roots (S, width): means over their pieces.

        Args: tags: (K,) numbers of the tags that are read, which are added.
        """
        with self.products(batch.ids.device):
            embeddings = self.body.get_input_embeddings()(batch.ids) + self.casings[batch.casings]
            out = self.body(
                inputs_embeds=embeddings, attention_mask=self._mask(batch.mask),
                output_hidden_states=True,
            )  # fmt: skip
        layers = zip(self.mix.softmax(0), out.hidden_states, strict=True)
        mixed = sum(share * layer.float() for share, layer in layers)
        flat = mixed.flatten(0, 1)
        words = flat.new_zeros(len(batch.counts), flat.shape[1])
        words = words.index_add(0, batch.words, flat[batch.pieces])
        words = words / batch.counts.unsqueeze(1)
        return self.heads.with_tags(words, tags), flat[batch.roots]

    def products(self, device: torch.device) -> torch.autocast:
        """A context in which products have the precision of this network."""
        is_coarse = is_bfloat16(self.precision, device)
        return torch.autocast(device.type, torch.bfloat16, enabled=is_coarse)

    def _mask(self, is_piece: Tensor | None) -> Any:
        """A mask in a form of which the transformer does not ask the device if all are pieces."""
        config = self.body.config
        if is_piece is None or config.model_type == "deberta-v2":
            return is_piece if is_piece is None else is_piece.long()
        length = is_piece.shape[1]
        whole = is_piece[:, None, None].expand(-1, 1, length, -1)
        if config.model_type != "modernbert":
            return whole
        places = torch.arange(length, device=is_piece.device)
        is_near = (places[:, None] - places).abs() <= config.sliding_window
        return {"full_attention": whole, "sliding_attention": whole & is_near}

    @torch.inference_mode()
    def states(self, whole: EncodedTreebank, windows: Windows) -> tuple[Tensor, Tensor]:
        """The hidden states of the words and roots of windows, (K, width) and (S, width)."""
        return self.hidden(batch_of(windows, self.pad, self.mix.device), whole.tags_of(windows))


def nodes_of(
    words: Tensor, roots: Tensor, lengths: np.ndarray
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The hidden states of sentences by node, and where their words are.

    Args: words: (K, width), sentence by sentence; roots: (B, width).
    Returns: (B, N, width); (K,) the sentence and the node of each word; lengths (B,).
    """
    nodes = words.new_zeros(len(lengths), int(lengths.max()) + 1, words.shape[1])
    ends = np.cumsum(lengths)
    sentences = np.repeat(np.arange(len(lengths)), lengths)
    places = np.arange(len(words)) - (ends - lengths)[sentences] + 1
    b, m, n = (sent_to(words.device, array) for array in (sentences, places, lengths))
    nodes = nodes.index_put((b, m), words)
    every = torch.arange(len(lengths), device=b.device)
    return nodes.index_put((every, m.new_zeros(1)), roots), b, m, n


def part_of(hidden: Tensor, some: Encoded) -> tuple[Tensor, Tensor]:
    """The hidden states of all nodes of some sentences (B, N, width), and their lengths (B,)."""
    lengths, starts = (sent_to(hidden.device, each) for each in (some.lengths, some.starts))
    nodes = torch.arange(int(some.lengths.max(initial=0)) + 1, device=hidden.device)
    places = starts.unsqueeze(1) + torch.minimum(nodes, lengths.unsqueeze(1) + 1)
    return hidden[places], lengths


def body_of(config: Mapping[str, Any], shapes: Mapping[str, tuple[int, ...]]) -> nn.Module:
    """A transformer with random weights.

    Args: shapes: of its parameters; memory is taken only if they are those of the config.
    Raises: ModelError: as `empty_body`, or a config of other parameters.
    """
    empty = empty_body(config)
    if {name: tuple(p.shape) for name, p in empty.named_parameters()} != dict(shapes):
        raise ModelError("the encoder's weights do not fit its config")
    return _made(config)


def empty_body(config: Mapping[str, Any]) -> nn.Module:
    """A transformer that takes no memory for its weights.

    Raises: ModelError: a family that is not in FAMILIES, or a config that it does not read.
    """
    family = config.get("model_type")
    if family not in FAMILIES:
        known = ", ".join(FAMILIES)
        raise ModelError(
            f"the encoder is of the family {one_line(family)}; this version reads {known}"
        )
    require("the encoder", "transformers")
    try:
        with torch.device("meta"):
            return _made(config)
    except Exception as error:  # what a config of a stranger makes the package raise
        raise ModelError(f"the encoder's config cannot be read: {one_line(error)}") from error


def _made(config: Mapping[str, Any]) -> nn.Module:
    from transformers import AutoModel

    made: nn.Module = AutoModel.from_config(
        object_of(config), **POOLERS.get(config["model_type"], {})
    )
    return made


def object_of(config: Mapping[str, Any]) -> Any:
    """A config as the package `transformers` has it, without keys that no layer reads."""
    from transformers import AutoConfig

    keys = {key: value for key, value in config.items() if key not in _NOT_READ}
    return AutoConfig.for_model(config["model_type"], **copy.deepcopy(keys))


def loaded_body(
    config: Mapping[str, Any], arrays: Mapping[str, np.ndarray], device: torch.device
) -> nn.Module:
    """A transformer with its weights. Arguments and errors: as `network_of`."""
    own = below(arrays, "body")
    body = body_of(config, {name: array.shape for name, array in own.items()})
    _load(body, own, device)
    return body


def heads_of(
    width: int, sizes: Sizes, arrays: Mapping[str, np.ndarray], device: torch.device
) -> Heads:
    """The heads with their weights, for parsing.

    Args: arrays: by the names of the parameters of `Network`, perhaps more of them.
    Raises: ModelError: they are not those of the heads.
    """
    with torch.device("meta"):
        heads = Heads(width, sizes)
    _load(heads, below(arrays, "heads"), device)
    return heads


def network_of(
    config: Mapping[str, Any], heads: Heads, arrays: Mapping[str, np.ndarray], precision: str,
    device: torch.device,
) -> Network:  # fmt: skip
    """A network with its weights, for parsing.

    Args: heads: on the device. arrays: by the names of its parameters. precision: see `Network`.
    Raises: ModelError: they are not those of this network.
    """
    body = loaded_body(config, arrays, device)
    network = Network(body, int(config.get("pad_token_id") or 0), heads, precision)
    for name in ("mix", "casings"):
        getattr(network, name).data = torch.from_numpy(np.array(arrays[name], np.float32))
    if is_bfloat16(precision, device):
        for layer in body.modules():  # as autocast would, for each batch
            if isinstance(layer, nn.Linear):
                layer.to(torch.bfloat16)
    return network.to(device).eval()


def _load(module: nn.Module, arrays: Mapping[str, np.ndarray], device: torch.device) -> None:
    """Let a module that was made without weights have these."""
    state = {
        name: torch.from_numpy(np.array(array, np.float32)).to(device)
        for name, array in arrays.items()
    }
    try:
        module.load_state_dict(state, strict=True, assign=True)
    except RuntimeError as error:
        message = f"the encoder's weights do not fit its config: {one_line(error)}"
        raise ModelError(message) from None
    module.requires_grad_(False).eval()
