"""An encoder in a model folder: what is written, and what is checked when it is read."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from gpuparse.data.array_file import as_json, below, from_json
from gpuparse.data.columns import is_value
from gpuparse.errors import ModelError
from gpuparse.limits import MAX_LABELS, MAX_TAG
from gpuparse.scorers.encoder.columns import NUMBERS, Values
from gpuparse.scorers.encoder.files import CONFIG, TOKENIZER
from gpuparse.scorers.encoder.pieces import CASINGS, MAX_WINDOW, Splitter
from gpuparse.scorers.encoder.quantised import QuantisedEncoder
from gpuparse.scorers.encoder.scorer import PRECISIONS, TAG_SCALE, EncoderScorer

LICENCE = "license"  # the key of a model card, and of a config in a folder that has it from there
_QUANTISED = "quantised"
_PRECISION = "precision"
FACTS = {_QUANTISED, _PRECISION}
WORDS = {"values", "tags"}  # of `words`
AFTER_PADDING = ("roberta", "xlm-roberta")  # families whose positions begin after padding's
_MAX_LAYERS, _MAX_WIDTH = 256, 1 << 15
# Keys that name code or files, or that say how a transformer was stored.
_DROPPED = {
    "auto_map", "quantization_config", "attn_implementation", "experts_implementation",
    "architectures", "transformers_version", "dtype", "torch_dtype", "name_or_path",
    "transformers_weights", "fusion_config", "distributed_config",
}  # fmt: skip
_SIZES = {
    "num_hidden_layers": _MAX_LAYERS, "hidden_size": _MAX_WIDTH, "intermediate_size": 1 << 18,
    "num_attention_heads": 1 << 12, "vocab_size": 1 << 24, "max_position_embeddings": 1 << 20,
}  # fmt: skip


def plain_config(config: Mapping[str, Any], *, may_lack: bool = False) -> dict[str, Any]:
    """The config of a transformer without what names code, files or devices.

    Args: may_lack: whether sizes may be missing.
    Raises: ModelError: sizes that no encoder has.
    """
    kept = {
        key: value
        for key, value in config.items()
        if not key.startswith("_") and key not in _DROPPED
    }
    for name, most in _SIZES.items():
        is_size = type(kept.get(name)) is int and 1 <= kept[name] <= most
        if not (is_size or (may_lack and name not in kept)):
            raise ModelError(f"the encoder's config has no {name} from 1 to {most:,}")
    for name, value in kept.items():
        if isinstance(value, float) and not math.isfinite(value):
            raise ModelError(f"the encoder's config has the {name} {value}")
    pad = kept.get("pad_token_id")
    if pad is not None and not (type(pad) is int and 0 <= pad < kept.get("vocab_size", pad + 1)):
        raise ModelError("the encoder's config has a pad_token_id that is no piece")
    return kept


def window_of(config: Mapping[str, Any]) -> int:
    """The most pieces that are read at once."""
    positions = int(config["max_position_embeddings"])
    if config.get("model_type") in AFTER_PADDING:
        positions -= int(config.get("pad_token_id") or 0) + 1
    return min(positions, MAX_WINDOW)


def texts(scorer: EncoderScorer) -> dict[str, str]:
    """The texts of an encoder, by the names of files."""
    return {CONFIG: as_json(dict(scorer.config)), TOKENIZER: scorer.splitter.text}


def words(scorer: EncoderScorer) -> dict[str, Any]:
    """Its entries in `vocabulary.json`."""
    return {
        "values": {name: list(texts) for name, texts in scorer.values.texts.items()},
        "tags": {name: list(texts) for name, texts in scorer.tags.items()},
    }


def facts(scorer: EncoderScorer) -> dict[str, Any]:
    """The precision of a transformer, and the facts of one with weights of 8 bits."""
    found: dict[str, Any] = {_PRECISION: scorer.precision}
    return found if scorer.quantised is None else found | {_QUANTISED: scorer.quantised.facts}


def arrays(scorer: EncoderScorer) -> dict[str, np.ndarray]:
    """The arrays, those of the transformer as float16 or quantised."""
    found = {
        name: array.astype(np.float16) if name.startswith(("body.", "heads.")) else array
        for name, array in scorer.arrays.items()
    }
    if scorer.quantised is not None:
        found |= {f"{_QUANTISED}.{n}": array for n, array in scorer.quantised.arrays.items()}
    return found


def read(
    texts: Mapping[str, str], words: Mapping[str, Any], facts: Mapping[str, Any],
    arrays: Mapping[str, np.ndarray], n_labels: int, source: str,
) -> EncoderScorer:  # fmt: skip
    """The scorer made from the results of `texts`, `words`, `facts` and `arrays`.

    Args: source: see `EncoderScorer`.
    Raises: ModelError, ValueError, KeyError, TypeError: it is damaged.
    """
    config = from_json(texts[CONFIG])
    if not isinstance(config, dict) or set(config) != set(plain_config(config)):
        raise ValueError(f"{CONFIG} has keys that no model has")
    if not is_value(config.get(LICENCE, "none")):
        raise ValueError(f"{CONFIG}: {LICENCE} is no text of one line")
    try:
        splitter = Splitter(texts[TOKENIZER], window_of(config), config["vocab_size"])
    except ModelError as error:
        raise ModelError(f"{TOKENIZER}: {error}") from None
    values = _read_values(words)
    tags = words["tags"]
    if not isinstance(tags, dict) or not set(tags) <= set(NUMBERS):
        raise ValueError("tags: other columns than UPOS, XPOS and FEATS")
    for column in tags.values():
        _check_texts(column)
    quantised = None
    if _QUANTISED in facts:
        if not isinstance(facts[_QUANTISED], dict):
            raise ValueError(f"{_QUANTISED}: a table is expected")
        quantised = QuantisedEncoder.read(facts[_QUANTISED], below(arrays, _QUANTISED))
        quantised.require_config(config)
        if len(quantised.types) != CASINGS:
            raise ValueError("the weights of 8 bits have another number of casings")
        arrays = {n: array for n, array in arrays.items() if not n.startswith(f"{_QUANTISED}.")}
    scorer = EncoderScorer(
        config=config, splitter=splitter, arrays=arrays, quantised=quantised, values=values,
        tags=tags, n_labels=n_labels, precision=facts[_PRECISION], source=source,
    )  # fmt: skip
    if scorer.precision not in PRECISIONS:
        raise ValueError(f"{_PRECISION}: expected one of {', '.join(PRECISIONS)}")
    for name, array in arrays.items():
        if array.dtype not in (np.float16, np.float32) or not np.isfinite(array).all():
            raise ValueError(f"{name}: numbers that are not finite, or of another type")
    _check_heads(scorer)
    return scorer


def _check_heads(scorer: EncoderScorer) -> None:
    """Refuse heads of other names or shapes than those of the config and the values."""
    sizes, width = scorer.sizes, scorer.width
    n_layers = scorer.config["num_hidden_layers"]
    shapes: dict[str, tuple[int, ...]] = {"mix": (n_layers + 1,), TAG_SCALE: (1,)}
    if scorer.quantised is None:
        shapes["casings"] = (CASINGS, width)
    linear = {"arc_heads": sizes.arcs, "arc_modifiers": sizes.arcs}
    shapes["heads.arcs.weight"] = (1, sizes.arcs + 1, sizes.arcs)
    if sizes.n_labels:
        linear |= {"label_heads": sizes.labels, "label_modifiers": sizes.labels}
        shapes["heads.labels.weight"] = (sizes.n_labels, sizes.labels + 1, sizes.labels + 1)
    linear |= {f"columns.{name}": n for name, n in sizes.columns.items()}
    for name, n in linear.items():
        shapes |= {f"heads.{name}.weight": (n, width), f"heads.{name}.bias": (n,)}
    shapes |= {f"heads.tags.{name}.weight": (n, width) for name, n in sizes.tags.items()}
    given = {n: a.shape for n, a in scorer.arrays.items() if not n.startswith("body.")}
    if given != shapes:
        raise ValueError("the heads of the encoder are not those of its values")
    if not scorer.tag_scale > 0:
        raise ValueError(f"{TAG_SCALE} is not above 0")
    if scorer.quantised is None and not any(n.startswith("body.") for n in scorer.arrays):
        raise ValueError("the encoder has no weights")


def _read_values(words: Mapping[str, Any]) -> Values:
    values = words["values"]
    if not isinstance(values, dict) or not set(values) <= set(NUMBERS):
        raise ValueError("values: other columns than UPOS, XPOS and FEATS")
    for name, column in values.items():
        _check_texts(column)
        if not all(map(is_value, column)):
            raise ValueError(f"values: {name}: a text that no column may have")
    return Values(values)


def _check_texts(column: Any) -> None:
    is_list = isinstance(column, list) and 0 < len(column) <= MAX_LABELS
    if not is_list or not all(type(text) is str for text in column):
        raise ValueError("values: lists of texts are expected")
    if max(map(len, column)) > MAX_TAG:
        raise ValueError(f"values: a text of more than {MAX_TAG:,} characters")
    if len(set(column)) < len(column):
        raise ValueError("values: a text that comes twice")
