"""A pretrained encoder from a folder, or from where the package `transformers` keeps it."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import nn

from gpuparse.data.array_file import from_json, open_file, read_text
from gpuparse.errors import ConfigError, one_line, plural, require
from gpuparse.limits import MAX_ARRAYS_BYTES
from gpuparse.model.folder import load_parser
from gpuparse.scorers.encoder.files import CONFIG, MOST_BYTES, TOKENIZER
from gpuparse.scorers.encoder.network import (
    FAMILIES,
    POOLERS,
    empty_body,
    loaded_body,
    object_of,
)
from gpuparse.scorers.encoder.pieces import Splitter, faults_as, of_words
from gpuparse.scorers.encoder.scorer import EncoderScorer
from gpuparse.scorers.encoder.stored import LICENCE, plain_config, window_of
from gpuparse.scorers.encoder.tokenizer_json import MOST_PIECES

_CARD, _LARGEST_CARD = "README.md", 1 << 20  # characters
_FIELD = re.compile(rf"^{LICENCE}:[ \t]*(.*)\n((?:[ \t]*- .*\n)*)", re.MULTILINE)
_TEXTS = (".json", ".txt", ".model", ".jinja")
_LEAST_BYTES = 2  # of a number in a file


class Pretrained(NamedTuple):
    """A pretrained encoder.

    config: as the package `transformers` writes it, and the licence. body: makes the transformer
        with its weights.
    """

    config: Mapping[str, Any]
    splitter: Splitter
    body: Callable[[], nn.Module]

    @property
    def width(self) -> int:
        """Numbers of a hidden state."""
        return int(self.config["hidden_size"])

    @property
    def licence(self) -> str | None:
        """The licence that its model card names."""
        return self.config.get(LICENCE)

    @property
    def pad(self) -> int:
        """The id of padding."""
        return int(self.config.get("pad_token_id") or 0)


def read_pretrained(name: str) -> Pretrained:
    """The encoder of a folder, which may be a model of ours, or name; code in it is never run.

    Raises: ConfigError: there is none, or it is of a family that cannot be used.
        MissingPackageError: an optional package is not installed.
    """
    require("encoder.model", "torch", "transformers", "tokenizers")
    if (Path(name) / CONFIG).exists():
        return _of_model(Path(name))
    import transformers
    from transformers import AutoModel, AutoTokenizer
    from transformers.utils import cached_file

    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    what = f"encoder.model {name}"
    with faults_as(ConfigError, f"{what}: cannot be read"):
        if Path(name).is_dir():
            _check_files(Path(name))
        file = Path(cached_file(name, "config.json"))
        given = plain_config(from_json(read_text(file, MOST_BYTES[CONFIG])), may_lack=True)
    family = given.get("model_type")
    if family not in FAMILIES:
        known = ", ".join(FAMILIES)
        raise ConfigError(f"{what}: of the family {one_line(family)}; choose one of {known}")
    with faults_as(ConfigError, f"{what}: cannot be read"):
        read = object_of(given)
        tokenizer = AutoTokenizer.from_pretrained(name, config=read, trust_remote_code=False)
    if not getattr(tokenizer, "is_fast", False):
        raise ConfigError(f"{what}: has no tokenizer.json")
    with faults_as(ConfigError, what):
        config = plain_config(read.to_dict())
        config.pop(LICENCE, None)
        if (licence := licence_of(_card(name))) is not None:
            config[LICENCE] = licence
        # The package counts from 0 to the largest number when it writes the tokeniser.
        if (most := max(tokenizer.get_vocab().values(), default=0)) >= MOST_PIECES:
            raise ConfigError(f"{what}: the tokenizer has piece {most}; the limit is {MOST_PIECES}")
        text = of_words(tokenizer.backend_tokenizer.to_str())
        splitter = Splitter(text, window_of(config), config["vocab_size"], f"{name}: ")

    def body() -> nn.Module:
        with faults_as(ConfigError, f"{what}: its weights cannot be read"):
            needed = sum(p.numel() for p in empty_body(config).parameters())
            if needed * _LEAST_BYTES > sum(map(os.path.getsize, _weights_of(name))):
                raise ConfigError(f"{what}: its weights are of another encoder than its config")
            found, loading = AutoModel.from_pretrained(
                name, config=object_of(config), trust_remote_code=False, use_safetensors=True,
                dtype="float32", output_loading_info=True, ignore_mismatched_sizes=True,
                **POOLERS.get(family, {}),
            )  # fmt: skip
        # The package draws these at random.
        others = [key for key, *_ in loading["mismatched_keys"]] + list(loading["missing_keys"])
        if others:
            raise ConfigError(
                f"{what}: its weights are of another encoder than its config:"
                f" {plural(len(others), 'array is', 'arrays are')} missing or of another shape,"
                f" such as {min(others)}"
            )
        if not all(bool(torch.isfinite(p).all()) for p in found.parameters()):
            raise ConfigError(f"{what}: its weights have numbers that are not finite")
        return found

    return Pretrained(config, splitter, body)


def _check_files(folder: Path) -> None:
    """Refuse files of a pretrained encoder that the packages should not open.

    Raises: ModelError: a file is too large, or a pipe or device.
    """
    for path in folder.iterdir():
        most = MOST_BYTES[TOKENIZER] if path.suffix in _TEXTS else MAX_ARRAYS_BYTES
        if not path.is_dir():
            open_file(path, most).close()


def _weights_of(name: str) -> list[str]:
    """The files of the weights of a folder or name."""
    from transformers.utils import SAFE_WEIGHTS_INDEX_NAME, SAFE_WEIGHTS_NAME, cached_file
    from transformers.utils.hub import get_checkpoint_shard_files

    whole = cached_file(name, SAFE_WEIGHTS_NAME, _raise_exceptions_for_missing_entries=False)
    if whole is not None:
        return [whole]
    files, _ = get_checkpoint_shard_files(name, cached_file(name, SAFE_WEIGHTS_INDEX_NAME))
    return list(files)


def _of_model(folder: Path) -> Pretrained:
    """The encoder of a model folder, which is trained further with new heads.

    Raises: ConfigError: its weights are of 8 bits. ModelError: it cannot be read.
    """
    [scorer] = load_parser(folder).scorers
    assert isinstance(scorer, EncoderScorer)
    if scorer.quantised is not None:
        raise ConfigError(
            f"encoder.model {folder}: its weights are of 8 bits: learn that model with"
            " weights.bits=16"
        )

    def body() -> nn.Module:
        with scorer.faults_of_source():
            return loaded_body(scorer.config, scorer.arrays, torch.device("cpu")).requires_grad_()

    return Pretrained(scorer.config, scorer.splitter, body)


def _card(name: str) -> str:
    """The model card of a folder or name; "" if there is none."""
    from transformers.utils import cached_file

    try:
        path = cached_file(
            name, _CARD, _raise_exceptions_for_gated_repo=False,
            _raise_exceptions_for_missing_entries=False,
            _raise_exceptions_for_connection_errors=False,
        )  # fmt: skip
        if path is None:
            return ""
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(_LARGEST_CARD)
    except Exception:
        return ""


def licence_of(card: str) -> str | None:
    """The field `license` of the front matter of a model card; several are joined."""
    lines = [line.rstrip() for line in card.splitlines()]
    if lines[:1] != ["---"] or "---" not in lines[1:]:
        return None
    field = _FIELD.search("".join(f"{line}\n" for line in lines[1 : lines.index("---", 1)]))
    if field is None:
        return None
    given = field[1].split("#")[0].strip().strip("[]").split(",") + field[2].split("- ")
    names = [name.strip().strip("'\"") for name in given]
    return one_line(", ".join(name for name in names if name)) or None
