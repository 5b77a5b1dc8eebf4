"""Small transformers with random weights, and the arithmetic of quantised ones in NumPy."""

import itertools
from functools import cache
from typing import Any

import numpy as np

from gpuparse.scorers.encoder.quantised import (
    PANEL,
    PANEL_INPUTS,
    ByteLinear,
    QuantisedEncoder,
)
from gpuparse.scorers.encoder.quantised_heads import QuantisedArcs, QuantisedLabels

F32 = np.float32
ROUND = F32(12582912)  # 1.5 * 2^23: adding it rounds to a whole number


def config_of(family: str = "bert", **changes: Any) -> dict[str, Any]:
    """A config as transformers has it; widths that no panel divides."""
    return {
        "model_type": family, "hidden_act": "gelu", "vocab_size": 50, "hidden_size": 36,
        "intermediate_size": 70, "num_hidden_layers": 2, "num_attention_heads": 3,
        "max_position_embeddings": 40, "type_vocab_size": 2, "layer_norm_eps": 1e-6,
        "pad_token_id": 0 if family == "bert" else 1,
    } | changes  # fmt: skip


def arrays_of(config: dict[str, Any], random: np.random.Generator) -> dict[str, np.ndarray]:
    """Random weights by the names of transformers."""
    width, inner = config["hidden_size"], config["intermediate_size"]
    made = {}

    def draw(name: str, *shape: int, mean: float = 0.0, scale: float = 0.2) -> None:
        made[name] = random.normal(mean, scale, shape).astype(F32)

    def linear(name: str, outputs: int, inputs: int) -> None:
        draw(f"{name}.weight", outputs, inputs)
        draw(f"{name}.bias", outputs)

    def norm(name: str) -> None:
        draw(f"{name}.weight", width, mean=1.0)
        draw(f"{name}.bias", width)

    draw("embeddings.word_embeddings.weight", config["vocab_size"], width)
    draw("embeddings.position_embeddings.weight", config["max_position_embeddings"], width)
    draw("embeddings.token_type_embeddings.weight", config["type_vocab_size"], width)
    norm("embeddings.LayerNorm")
    for number in range(config["num_hidden_layers"]):
        layer = f"encoder.layer.{number}"
        for part in ("query", "key", "value"):
            linear(f"{layer}.attention.self.{part}", width, width)
        linear(f"{layer}.attention.output.dense", width, width)
        norm(f"{layer}.attention.output.LayerNorm")
        linear(f"{layer}.intermediate.dense", inner, width)
        linear(f"{layer}.output.dense", width, inner)
        norm(f"{layer}.output.LayerNorm")
    return made


@cache
def encoder_of(**changes: Any) -> QuantisedEncoder:
    """A small encoder, whose arrays are not to be changed."""
    config = config_of(**changes)
    return QuantisedEncoder.of(config, arrays_of(config, np.random.default_rng(0)))


def sequences_of(
    encoder: QuantisedEncoder, lengths: list[int], seed: int = 0
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Random pieces of sequences: ids, types and starts."""
    starts = np.cumsum([0, *lengths], dtype=np.int64)
    random = np.random.default_rng(seed)
    ids, types = (
        random.integers(0, len(table), starts[-1]).astype(np.int32)
        for table in (encoder.words, encoder.types)
    )
    return ids, types, starts


def fold(lanes: np.ndarray) -> np.ndarray:
    """Sums over the last axis, a multiple of 16, in the order of native code."""
    sums = np.zeros((*lanes.shape[:-1], 16), F32)
    for first in range(0, lanes.shape[-1], 16):
        sums = sums + lanes[..., first : first + 16]
    a, b, c, d = np.moveaxis(sums.reshape(*sums.shape[:-1], 4, 4), -2, 0)
    four = (a + c) + (b + d)
    return (four[..., 0] + four[..., 2]) + (four[..., 1] + four[..., 3])


def product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """A product of matrices whose sums are added in order."""
    sums = np.zeros((len(a), b.shape[1]), F32)
    for k in range(len(b)):
        sums = sums + a[:, k, None] * b[k]
    return sums


def exp(x: np.ndarray) -> np.ndarray:
    """As native/float_functions.h has it."""
    is_zero = x < F32(-87)
    x = np.where(is_zero, F32(-87), x)
    e = (x * F32(1.44269504) + ROUND) - ROUND
    r = x - e * F32(0.693359375) - e * F32(-2.12194440e-4)
    total = np.full_like(x, 1 / F32(5040))
    for divisor in (720, 120, 24, 6, 2, 1, 1):
        total = total * r + 1 / F32(divisor)
    return np.where(is_zero, F32(0), np.ldexp(total, e.astype(np.int32)))


def gelu(x: np.ndarray) -> np.ndarray:
    """As native/float_functions.h has it."""
    over = (-1.4422984591346663e-06, 0.0002537507228486152, 0.01013247189520109,
            0.0723904459167222, 0.3626529084698641, 1.1283820421656698)  # fmt: skip
    under = (0.0023676813105760934, 0.028074810492561976, 0.1823968820660466, 0.654738980711837, 1)
    u = np.clip(x * F32(0.70710678), F32(-3.92), F32(3.92))
    z = u * u
    p, q = np.full_like(z, over[0]), np.full_like(z, under[0])
    for number in over[1:]:
        p = p * z + F32(number)
    for number in under[1:]:
        q = q * z + F32(number)
    half = x * F32(0.5)
    return half + half * (u * p / q)


def linear(encoder: QuantisedEncoder, name: str, layer: int, rows: np.ndarray) -> np.ndarray:
    """A linear layer of an encoder."""
    kinds = ("", "_scales", "_biases")
    return multiplied(ByteLinear(*(getattr(encoder, name + kind)[layer] for kind in kinds)), rows)


def multiplied(layer: ByteLinear, rows: np.ndarray) -> np.ndarray:
    """A linear layer on rows rounded to whole numbers; the sums are exact."""
    extent = rows.max(axis=1, initial=0) - rows.min(axis=1, initial=0)
    whole = ((rows * (F32(254) / extent)[:, None] + ROUND) - ROUND).astype(np.int64)
    panels = layer.weights
    blocks = panels.reshape(*panels.shape[:2], PANEL, PANEL_INPUTS).transpose(0, 2, 1, 3)
    weights = blocks.reshape(-1, rows.shape[1]).astype(np.int64)
    sums = (whole @ weights.T).astype(F32)
    return sums * (layer.scales * (extent / F32(254))[:, None]) + layer.biases


def normalised(encoder: QuantisedEncoder, norm: int, rows: np.ndarray) -> np.ndarray:
    """The layer norm of rows."""
    centred = rows - (fold(rows) / F32(encoder.width))[:, None]
    centred[:, encoder.width :] = 0
    variance = fold(centred * centred) / F32(encoder.width)
    inverse = F32(1) / np.sqrt(variance + F32(encoder.epsilon))
    return centred * inverse[:, None] * encoder.norms[norm, 0] + encoder.norms[norm, 1]


def attended(encoder: QuantisedEncoder, projected: np.ndarray) -> np.ndarray:
    """The result of attention for queries, keys and values of a sequence."""
    padded = projected.shape[1] // 3
    context = np.zeros((len(projected), padded), F32)
    size = encoder.width // encoder.heads
    for head in range(encoder.heads):
        of_head = slice(head * size, (head + 1) * size)
        queries, keys, values = (part[:, of_head] for part in np.split(projected, 3, axis=1))
        scores = product(queries, keys.T)
        powers = exp(scores - scores.max(axis=1, keepdims=True, initial=-np.inf))
        lanes = np.pad(powers, [(0, 0), (0, -len(powers) % 16)])
        context[:, of_head] = product(powers, values) * (F32(1) / fold(lanes))[:, None]
    return context


def textbook_hidden(
    encoder: QuantisedEncoder, ids: np.ndarray, types: np.ndarray, starts: np.ndarray,
    mix: np.ndarray,
) -> np.ndarray:  # fmt: skip
    """As `QuantisedEncoder.hidden`, a sequence after the other."""
    found = [np.zeros((0, encoder.width), F32)]
    for first, end in itertools.pairwise(starts):
        pieces = ids[first:end]
        words = encoder.words[pieces].astype(F32) * encoder.word_scales[pieces, None]
        places = encoder.positions[: len(pieces)]
        states = normalised(encoder, 0, words + places + encoder.types[types[first:end]])
        hidden = states * mix[0]
        for layer in range(encoder.layers):
            projected = linear(encoder, "query_key_value", layer, states)
            context = attended(encoder, projected)
            change = linear(encoder, "attention_output", layer, context)
            states = normalised(encoder, 1 + 2 * layer, states + change)
            inner = gelu(linear(encoder, "intermediate", layer, states))
            change = linear(encoder, "output", layer, inner)
            states = normalised(encoder, 2 + 2 * layer, states + change)
            hidden = hidden + states * mix[layer + 1]
        found.append(hidden[:, : encoder.width])
    return np.concatenate(found)


def arcs_of_bytes(width: int, size: int, seed: int = 0) -> QuantisedArcs:
    """Random weights of arcs."""
    random = np.random.default_rng(seed)
    shapes = {"arcs.weight": (1, size + 1, size)}
    for kind in ("heads", "modifiers"):
        shapes |= {f"arc_{kind}.weight": (size, width), f"arc_{kind}.bias": (size,)}
    return QuantisedArcs.of(
        {name: random.normal(0, 0.2, shape).astype(F32) for name, shape in shapes.items()}
    )


def textbook_arcs(arcs: QuantisedArcs, states: np.ndarray) -> np.ndarray:
    """(n, n) as `QuantisedArcs.scores`, of a sentence whose width is a multiple of 16."""
    x, y = gelu(multiplied(arcs.heads, states)), gelu(multiplied(arcs.modifiers, states))
    return product(multiplied(arcs.products, x), y.T)


def labels_of(width: int, size: int, n_labels: int, seed: int = 0) -> QuantisedLabels:
    """Random weights of labels."""
    random = np.random.default_rng(seed)
    shapes = {"labels.weight": (n_labels, size + 1, size + 1)}
    for kind in ("heads", "modifiers"):
        shapes |= {f"label_{kind}.weight": (size, width), f"label_{kind}.bias": (size,)}
    return QuantisedLabels.of(
        {name: random.normal(0, 0.2, shape).astype(F32) for name, shape in shapes.items()}
    )


def textbook_labels(
    labels: QuantisedLabels, n_labels: int, heads: np.ndarray, starts: np.ndarray,
    modifiers: np.ndarray,
) -> np.ndarray:  # fmt: skip
    """As `QuantisedLabels.scores`, of states whose width is a multiple of 16."""
    x, y = gelu(multiplied(labels.heads, heads)), gelu(multiplied(labels.modifiers, modifiers))
    products = multiplied(labels.products, x)[:, : (y.shape[1] + 1) * n_labels]
    products = products.reshape(len(x), -1, n_labels)[np.repeat(np.arange(len(x)), np.diff(starts))]
    sums = products[:, -1]
    for j in range(y.shape[1]):
        sums = sums + y[:, j, None] * products[:, j]
    return sums
