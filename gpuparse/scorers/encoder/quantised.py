"""A pretrained transformer with weights of 8 bits, whose states native code computes without torch.

A linear layer has whole weights and a scale an output; its inputs are rounded to bytes, which reach
from the least number of a piece to its largest one. Of the weights of four inputs, numbers 8 k + 0,
1, 4, 5 or 8 k + 2, 3, 6, 7, the positive ones are at most 128 together, and so are the magnitudes
of the negative ones: the sum of their products fits in 16 bits, and all dot instructions sum
exactly. Sums of float32 are added in one order. So states are equal to the last bit in any batch,
in any number of threads, on every processor.

Weights are stored in panels of 16 outputs, which have 4 inputs of each output side by side. All
instruction sets read this form, so that arrays are used as a file has them.
"""

import itertools
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from gpuparse import native
from gpuparse.errors import ModelError, ScoreError
from gpuparse.native import mapped

FAMILIES = ("bert", "roberta", "xlm-roberta")  # values of model_type
PANEL, PANEL_INPUTS = 16, 4  # as in native/byte_layers.h
MOST_INPUTS = 8192  # of a linear layer
_MOST_OF_WORDS, _MOST_OF_FOURS = 127, 128
_HALVES = 2  # four weights, each rounded up by at most half
_MOST_TYPES = 1 << 10  # of tokens, only the first of which is used
_LEAST_SCALE = 1e-30  # below, weights count as zeros
_PARTS = 4  # of a batch, for each thread
_LINEAR = {  # parts of a layer that are put side by side, and the sizes of outputs and inputs
    "query_key_value": (
        ("attention.self.query", "attention.self.key", "attention.self.value"), "width", "width",
    ),
    "attention_output": (("attention.output.dense",), "width", "width"),
    "intermediate": (("intermediate.dense",), "inner", "width"),
    "output": (("output.dense",), "width", "inner"),
}  # fmt: skip


class QuantisedEncoder(NamedTuple):
    """A transformer with L layers of width d; the struct `Encoder` of native/api/encoder.h.

    D, F: d and the width of the inner layer, rounded up to a multiple of 16. V: pieces.

    width: d. heads: of attention. epsilon: of layer norms.
    words: (V, D) int8, times word_scales (V,): embeddings of pieces.
    positions: (positions, D) float32, of pieces from the first one on. types: (T, D) float32.
    norms: (2 L + 1, 2, D) float32, factors and biases.
    query_key_value, ...: (L, outputs / 16, inputs / 4, 64) int8. Scales and biases: (L, outputs)
        float32. Queries are divided by the root of their size.
    """

    width: int
    heads: int
    epsilon: float
    words: np.ndarray
    word_scales: np.ndarray
    positions: np.ndarray
    types: np.ndarray
    norms: np.ndarray
    query_key_value: np.ndarray
    query_key_value_scales: np.ndarray
    query_key_value_biases: np.ndarray
    attention_output: np.ndarray
    attention_output_scales: np.ndarray
    attention_output_biases: np.ndarray
    intermediate: np.ndarray
    intermediate_scales: np.ndarray
    intermediate_biases: np.ndarray
    output: np.ndarray
    output_scales: np.ndarray
    output_biases: np.ndarray

    @classmethod
    def of(
        cls, config: Mapping[str, Any], arrays: Mapping[str, np.ndarray],
        casings: np.ndarray | None = None,
    ) -> "QuantisedEncoder":  # fmt: skip
        """Round the weights of a model.

        Args:
            config: of transformers, as in config.json.
            arrays: float32 or float16, by the names of the `state_dict` of a BertModel,
                RobertaModel or XLMRobertaModel; more than those of the body may be there.
            casings: (T, d), which are added to the first type of tokens and give all types; None:
                the types are those of the model.
        Raises: ModelError: another family or form, an array is missing, of another shape, or not
            finite.
        """
        sizes = _Sizes.of(config)
        taken = _Taken(arrays, sizes)
        columns = rounded_up(sizes.width)
        words = taken.matrix("embeddings.word_embeddings.weight", sizes.pieces, sizes.width)
        places = taken.matrix("embeddings.position_embeddings.weight", sizes.positions, sizes.width)
        types = taken.matrix("embeddings.token_type_embeddings.weight", sizes.types, sizes.width)
        types = types if casings is None else types[0] + casings
        whole, word_scales = _rounded(words, np.abs(words).max(axis=1) / np.float32(_MOST_OF_WORDS))
        norms = [taken.norm("embeddings.LayerNorm")]
        found: dict[str, list[np.ndarray]] = {}
        for layer in (f"encoder.layer.{number}" for number in range(sizes.layers)):
            norms.append(taken.norm(f"{layer}.attention.output.LayerNorm"))
            norms.append(taken.norm(f"{layer}.output.LayerNorm"))
            for name, (parts, *ends) in _LINEAR.items():
                outputs, inputs = (getattr(sizes, end) for end in ends)
                rounded = [taken.linear(f"{layer}.{part}", outputs, inputs) for part in parts]
                for kind, of_parts in zip(
                    ("", "_scales", "_biases"), zip(*rounded, strict=False), strict=True
                ):
                    found.setdefault(name + kind, []).append(np.concatenate(of_parts))
        return cls(
            sizes.width,
            sizes.heads,
            sizes.epsilon,
            padded(whole, columns=columns),
            word_scales,
            padded(places[sizes.first_position :], columns=columns),
            padded(types, columns=columns),
            np.stack(norms),
            **{name: np.stack(of_layers) for name, of_layers in found.items()},
        )

    @classmethod
    def read(cls, facts: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> "QuantisedEncoder":
        """The encoder with the facts and arrays that a file has, all of which are checked.

        Arrays are used as they are. Only the embeddings of pieces are not looked at, of which all
        numbers are possible.
        Raises: ModelError: they do not fit together, or have numbers that no encoder has.
        """
        for name, kind in cls.__annotations__.items():
            value = arrays.get(name) if kind is np.ndarray else facts.get(name)
            if type(value) is not kind and not (kind is np.ndarray and isinstance(value, kind)):
                raise ModelError(f"the encoder lacks {name}, or it is of another type")
        encoder = cls(**{name: (facts | arrays)[name] for name in cls._fields})  # type: ignore[operator]
        _check(encoder)
        return encoder

    def require_config(self, config: Mapping[str, Any]) -> None:
        """Raise ModelError unless the weights are those of a config."""
        sizes = _Sizes.of(config)
        wanted = (
            sizes.width, sizes.heads, sizes.epsilon, sizes.layers, sizes.pieces,
            sizes.positions - sizes.first_position, rounded_up(sizes.inner),
        )  # fmt: skip
        given = (
            self.width, self.heads, self.epsilon, self.layers, len(self.words),
            len(self.positions), self.intermediate_scales.shape[1],
        )  # fmt: skip
        if given != wanted or sizes.types > _MOST_TYPES:
            raise ModelError("the weights of 8 bits do not fit the config")

    def floats(self, config: Mapping[str, Any]) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """The weights and casings that `of` has rounded, float32, for devices without native code.

        Args: config: as `require_config` accepts it.
        Returns: the arguments `arrays` and `casings` of `of`.
        """
        sizes = _Sizes.of(config)
        width = sizes.width
        places = np.zeros((sizes.positions, width), np.float32)
        places[sizes.first_position :] = self.positions[:, :width]
        types = np.zeros((sizes.types, width), np.float32)
        types[0] = self.types[0, :width]
        found = {
            "embeddings.word_embeddings.weight": self.words[:, :width] * self.word_scales[:, None],
            "embeddings.position_embeddings.weight": places,
            "embeddings.token_type_embeddings.weight": types,
        }
        layers = [f"encoder.layer.{number}" for number in range(sizes.layers)]
        norms = [f"{layer}.{part}output" for layer in layers for part in ("attention.", "")]
        for norm, both in zip(["embeddings", *norms], self.norms[:, :, :width], strict=True):
            for kind, array in zip(("weight", "bias"), both, strict=True):
                found[f"{norm}.LayerNorm.{kind}"] = array
        for name, (parts, *ends) in _LINEAR.items():
            outputs, inputs = (getattr(sizes, end) for end in ends)
            panels, scales, biases = (getattr(self, name + k) for k in ("", "_scales", "_biases"))
            for number, layer in enumerate(layers):
                whole = _of_panels(panels[number]) * scales[number][:, None]
                rows = np.column_stack([whole, biases[number]])
                for part, some in zip(parts, np.split(rows, len(parts)), strict=True):
                    if part.endswith("query"):
                        some = some * np.float32(np.sqrt(width // sizes.heads))
                    found[f"{layer}.{part}.weight"] = some[:outputs, :inputs]
                    found[f"{layer}.{part}.bias"] = some[:outputs, -1]
        return found, self.types[:, :width] - self.types[0, :width]

    @property
    def facts(self) -> dict[str, Any]:
        """The plain numbers that `read` takes beside the arrays."""
        return {name: getattr(self, name) for name in ("width", "heads", "epsilon")}

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        """The arrays that `read` takes."""
        return {name: value for name, value in self._asdict().items() if name not in self.facts}

    @property
    def layers(self) -> int:
        """L."""
        return len(self.query_key_value)

    def hidden(
        self, ids: np.ndarray, types: np.ndarray, starts: np.ndarray, mix: np.ndarray,
        threads: int = 1,
    ) -> np.ndarray:  # fmt: skip
        """Weighted sums of the states of pieces.

        Args:
            ids: (P,) int32, pieces with those that begin and end a sequence; no padding.
            types: (P,) int32, of each piece.
            starts: (B + 1,) int64, from 0 to P: sequence b has pieces starts[b] to starts[b + 1].
            mix: (L + 1,) float32, the weights of the states after the embeddings and each layer.
        Returns: (P, d) float32.
        Raises: ScoreError: an argument is not as it should be, or states are not finite.
        """
        self._check_pieces(ids, types, starts, mix)
        hidden = np.empty((len(ids), self.width), np.float32)
        encoder = native.struct("Encoder", self)

        def encode(part: tuple[int, int]) -> None:
            of_part = starts[part[0] : part[1] + 1]
            pieces = slice(of_part[0], of_part[-1])
            native.call(
                "encode_pieces", encoder, ids[pieces], types[pieces], of_part - of_part[0], mix,
                hidden[pieces],
            )  # fmt: skip

        list(mapped(encode, parts_of(starts, threads), threads))
        if not np.isfinite(hidden).all():
            raise ScoreError("states of the encoder are not finite: its weights are too large")
        return hidden

    def _check_pieces(
        self, ids: np.ndarray, types: np.ndarray, starts: np.ndarray, mix: np.ndarray
    ) -> None:
        """Raise ScoreError unless the arguments of `hidden` are as they should be."""
        for name, array, dtype in (
            ("ids", ids, np.int32), ("types", types, np.int32), ("starts", starts, np.int64),
            ("mix", mix, np.float32),
        ):  # fmt: skip
            if array.dtype != dtype or array.ndim != 1 or not array.flags.c_contiguous:
                raise ScoreError(f"{name}: a contiguous row of {np.dtype(dtype)} is expected")
        lengths = np.diff(starts)
        if not len(starts) or starts[0] != 0 or starts[-1] != len(ids) or (lengths < 0).any():
            raise ScoreError(f"starts: numbers that ascend from 0 to {len(ids)} are expected")
        if lengths.max(initial=0) > len(self.positions):
            raise ScoreError(
                f"a sequence has {lengths.max():,} pieces, and the encoder reads at most"
                f" {len(self.positions):,}"
            )
        if len(types) != len(ids):
            raise ScoreError(f"types: {len(ids)} are expected, one of each piece")
        for name, numbers, table in (("ids", ids, self.words), ("types", types, self.types)):
            if len(ids) and not (numbers.min() >= 0 and numbers.max() < len(table)):
                raise ScoreError(f"{name}: numbers from 0 to {len(table) - 1} are expected")
        if len(mix) != self.layers + 1 or not np.isfinite(mix).all():
            raise ScoreError(f"mix: {self.layers + 1} finite numbers are expected")


class _Sizes(NamedTuple):
    """The sizes of a model, from its config."""

    pieces: int
    width: int
    inner: int
    layers: int
    heads: int
    positions: int
    types: int
    first_position: int
    epsilon: float

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> "_Sizes":
        family = config.get("model_type")
        if family not in FAMILIES:
            known = ", ".join(FAMILIES)
            raise ModelError(f"model_type {family!r}: native code computes these alone: {known}")
        for key, usual in (
            ("hidden_act", "gelu"), ("position_embedding_type", "absolute"), ("is_decoder", False),
            ("add_cross_attention", False),
        ):  # fmt: skip
            if config.get(key, usual) != usual:
                raise ModelError(f"{key} {config[key]!r}: native code computes {usual!r} alone")

        def size(key: str, least: int = 1) -> int:
            value = config.get(key)
            if type(value) is not int or value < least:
                raise ModelError(f"{key}: a whole number from {least} on is expected")
            return value

        epsilon = config.get("layer_norm_eps")
        if not isinstance(epsilon, float) or not 0.0 < epsilon < 1.0:
            raise ModelError("layer_norm_eps: a number between 0 and 1 is expected")
        sizes = cls(
            pieces=size("vocab_size"),
            width=size("hidden_size"),
            inner=size("intermediate_size"),
            layers=size("num_hidden_layers"),
            heads=size("num_attention_heads"),
            positions=size("max_position_embeddings"),
            types=size("type_vocab_size"),
            first_position=0 if family == "bert" else size("pad_token_id", 0) + 1,
            epsilon=epsilon,
        )
        if sizes.width % sizes.heads:
            raise ModelError("hidden_size is not a multiple of num_attention_heads")
        if sizes.first_position >= sizes.positions:
            raise ModelError("pad_token_id leaves no position of max_position_embeddings")
        if max(sizes.width, sizes.inner) > MOST_INPUTS:
            raise ModelError(f"a layer is wider than {MOST_INPUTS}")
        return sizes


class _Taken(NamedTuple):
    """The arrays of a model, as float32 of the shapes that they should have."""

    arrays: Mapping[str, np.ndarray]
    sizes: _Sizes

    def take(self, name: str, *shape: int) -> np.ndarray:
        if name not in self.arrays:
            raise ModelError(f"array {name} is missing")
        array = self.arrays[name]
        if array.dtype not in (np.float32, np.float16) or array.shape != shape:
            found = f"{array.dtype} {array.shape}"
            raise ModelError(f"array {name}: float32 or float16 {shape} is expected, not {found}")
        array = array.astype(np.float32)
        if not np.isfinite(array).all():
            raise ModelError(f"array {name} has numbers that are not finite")
        return array

    def matrix(self, name: str, rows: int, columns: int) -> np.ndarray:
        return self.take(name, rows, columns)

    def norm(self, name: str) -> np.ndarray:
        """(2, D)."""
        both = [self.take(f"{name}.{kind}", self.sizes.width) for kind in ("weight", "bias")]
        return padded(np.stack(both), columns=rounded_up(self.sizes.width))

    def linear(self, name: str, outputs: int, inputs: int) -> "ByteLinear":
        """A linear layer."""
        weights = self.take(f"{name}.weight", outputs, inputs)
        layer = ByteLinear.of(weights, self.take(f"{name}.bias", outputs))
        if name.endswith("query"):  # scores of attention are divided so
            root = np.float32(np.sqrt(self.sizes.width // self.sizes.heads))
            return layer._replace(scales=layer.scales / root, biases=layer.biases / root)
        return layer


class ByteLinear(NamedTuple):
    """A linear layer; the struct `ByteLinear` of native/api/encoder.h.

    weights: (outputs / 16, inputs / 4, 64) int8. scales, biases: (outputs,) float32. Sizes are
    those of the layer, rounded up to multiples of 16.
    """

    weights: np.ndarray
    scales: np.ndarray
    biases: np.ndarray

    @classmethod
    def of(cls, weights: np.ndarray, biases: np.ndarray) -> "ByteLinear":
        """Round weights (outputs, inputs), float32."""
        rows, columns = map(rounded_up, weights.shape)
        sums = _sums_of_fours(padded(weights, columns=columns).reshape(-1, 2, 2, 2), np.float32)
        most = sums.reshape(len(weights), -1).max(axis=1)
        whole, scales = _rounded(weights, most / np.float32(_MOST_OF_FOURS - _HALVES))
        both = padded(np.stack([scales, biases]), columns=rows)
        return cls(as_panels(padded(whole, rows=rows, columns=columns)), both[0], both[1])

    def of_rows(self, rows: np.ndarray, n: int, threads: int = 1) -> np.ndarray:
        """The first n outputs for rows (R, inputs), float32; the same in any batch."""
        rows = padded(rows, columns=rounded_up(rows.shape[1]))
        found = np.empty((len(rows), n), np.float32)
        linear = native.struct("ByteLinear", self)

        def multiply(part: slice) -> None:
            native.call("multiply_byte_linear", linear, rows[part], found[part])

        list(mapped(multiply, equal_parts(len(rows), threads), threads))
        return found


def _sums_of_fours(weights: np.ndarray, dtype: type) -> np.ndarray:
    """(R, P) the sums of those of four weights (R, 2, P, 2) that have one sign; the larger one."""

    def sums(part: np.ndarray) -> np.ndarray:
        first, second = (np.add(*part[:, half].T, dtype=dtype).T for half in (0, 1))
        return first + second

    return np.maximum(sums(np.maximum(weights, 0)), -sums(np.minimum(weights, 0)))


def as_panels(weights: np.ndarray) -> np.ndarray:
    """Weights (outputs, inputs) as (outputs / 16, inputs / 4, 64); both are multiples of 16."""
    outputs, inputs = weights.shape
    blocks = weights.reshape(outputs // PANEL, PANEL, inputs // PANEL_INPUTS, PANEL_INPUTS)
    return np.ascontiguousarray(blocks.transpose(0, 2, 1, 3)).reshape(
        outputs // PANEL, inputs // PANEL_INPUTS, PANEL * PANEL_INPUTS
    )


def _of_panels(panels: np.ndarray) -> np.ndarray:
    """Weights (outputs, inputs) from those of `as_panels`."""
    blocks = panels.reshape(*panels.shape[:2], PANEL, PANEL_INPUTS).transpose(0, 2, 1, 3)
    return blocks.reshape(len(panels) * PANEL, -1)


def _rounded(rows: np.ndarray, scales: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Whole numbers, int8, and the scale of each row, 0 where the one that is given is tiny."""
    scales[scales < _LEAST_SCALE] = 0
    divisors = np.where(scales > 0, scales, np.float32(np.inf))
    return np.rint(rows / divisors[:, None]).astype(np.int8), scales


def rounded_up(size: int) -> int:
    """A size of which panels are full."""
    return -(-size // PANEL) * PANEL


def padded(matrix: np.ndarray, *, rows: int | None = None, columns: int) -> np.ndarray:
    """The matrix, with zeros up to these numbers of rows and columns; itself if it has them."""
    if (rows or len(matrix), columns) == matrix.shape:
        return matrix
    found = np.zeros((rows or len(matrix), columns), matrix.dtype)
    found[: len(matrix), : matrix.shape[1]] = matrix
    return found


def _check(encoder: QuantisedEncoder) -> None:
    """Raise ModelError unless all sizes agree, and all numbers are some that an encoder has."""
    width, heads, layers = encoder.width, encoder.heads, encoder.layers
    inner = encoder.intermediate_scales.shape[-1] if encoder.intermediate_scales.ndim else 0
    if not (1 <= width <= MOST_INPUTS and 1 <= inner <= MOST_INPUTS and inner % PANEL == 0):
        raise ModelError(f"the encoder has layers of width {width} and {inner}")
    if not (1 <= heads <= width and width % heads == 0 and 0.0 < encoder.epsilon < 1.0):
        raise ModelError("the encoder has a wrong number of heads, or epsilon")
    columns = rounded_up(width)
    shapes = {
        "words": (len(encoder.words), columns),
        "word_scales": (len(encoder.words),),
        "positions": (len(encoder.positions), columns),
        "types": (len(encoder.types), columns),
        "norms": (2 * layers + 1, 2, columns),
    }
    sizes = {"width": columns, "inner": inner}
    for name, (parts, outputs, inputs) in _LINEAR.items():
        n_outputs, n_inputs = len(parts) * sizes[outputs], sizes[inputs]
        shapes[name] = (layers, n_outputs // PANEL, n_inputs // PANEL_INPUTS, PANEL * PANEL_INPUTS)
        shapes[f"{name}_scales"] = shapes[f"{name}_biases"] = (layers, n_outputs)
    for name, shape in shapes.items():
        array = getattr(encoder, name)
        dtype = np.int8 if name == "words" or name in _LINEAR else np.float32
        if array.dtype != dtype or array.shape != shape or 0 in shape[1:]:
            raise ModelError(f"the encoder's {name} are not {np.dtype(dtype)} {shape}")
        if dtype == np.float32 and not np.isfinite(array).all():
            raise ModelError(f"the encoder's {name} are not finite")
        if name in _LINEAR:
            fours = array.reshape(-1, 2, PANEL * PANEL_INPUTS // 2, 2)
            if _sums_of_fours(fours, np.int16).max() > _MOST_OF_FOURS:
                raise ModelError(
                    f"the encoder's {name} have fours above {_MOST_OF_FOURS}, as an early version"
                    " rounded them: round the weights of 16 bits again, or train the model again"
                )


def parts_of(starts: np.ndarray, threads: int) -> list[tuple[int, int]]:
    """Sequences from a first to before a last one, with about equal numbers of pieces each."""
    n_parts = min(_PARTS * threads if threads > 1 else 1, len(starts) - 1)
    wanted = starts[-1] * np.arange(1, n_parts) // max(n_parts, 1)
    ends = [0, *np.searchsorted(starts, wanted).tolist(), len(starts) - 1]
    return [(first, end) for first, end in itertools.pairwise(ends) if first < end]


def equal_parts(n: int, threads: int) -> list[slice]:
    """n rows in parts, some for each thread."""
    n_parts = max(1, min(_PARTS * threads if threads > 1 else 1, n))
    ends = [n * part // n_parts for part in range(n_parts + 1)]
    return [slice(first, end) for first, end in itertools.pairwise(ends)]
