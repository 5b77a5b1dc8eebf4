"""What a run learns on from: a model with its weights as they were before they were rounded.

The file is beside the model. It has float32 arrays of the parser, named as in `sizes_of`, and of
the stages before it, named `stage.model`. It has the sums of the whole numbers that a model has of
them, so that no model is learned on from the weights of another one.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gpuparse import array_file
from gpuparse.array_file import facts_text, sum_of_array
from gpuparse.config import RunConfig, parse_config
from gpuparse.errors import ConfigError, ModelError, one_line
from gpuparse.files import replace_file
from gpuparse.learning.stages.addends import ADDEND_STAGES
from gpuparse.parser import Parser
from gpuparse.scorers.linear.weights import stride_of

FILE = "training.safetensors"
FORMAT = 1
_SUMS = "sums"


class Start(NamedTuple):
    """A parser, and the float32 arrays that it was rounded from, named as in `sizes_of`."""

    parser: Parser
    arrays: Mapping[str, np.ndarray]


def write_learned(
    folder: Path, arrays: Mapping[str, np.ndarray], rounded: Mapping[str, np.ndarray]
) -> None:
    """Write learned arrays beside their model.

    Args: rounded: the whole numbers of the model.
    Raises: OSError: the folder cannot be written to.
    """
    facts: dict[str, Any] = {_SUMS: _sums(rounded)}
    with replace_file(folder / FILE, force=True) as file:
        file.write(array_file.pack(facts, dict(arrays), form=FORMAT))


def read_learned(
    folder: Path,
    sizes: Mapping[str, tuple[int, ...]],
    rounded: Mapping[str, np.ndarray],
    optional: Mapping[str, np.ndarray] = {},
) -> dict[str, np.ndarray]:
    """The arrays that `write_learned` wrote beside a model with these whole numbers.

    Args:
        sizes: the shapes of the arrays, by name.
        optional: whole numbers that it may have more, in the shapes of their arrays; all or none
            of those whose names have the same text before the first point.
    Raises:
        ConfigError: there are none.
        ModelError: the file is damaged, or of another model.
    """
    path = folder / FILE
    if not path.exists():
        raise ConfigError(
            f"init_from: {folder} has no {FILE}, which learning goes on from: learn that model with"
            " learning.keep_state=true"
        )
    facts, arrays = array_file.read(path, form=FORMAT, what="training state")
    sums = facts.get(_SUMS)
    there = {name.partition(".")[0] for name in sums} if isinstance(sums, dict) else set()
    others = {name: a for name, a in optional.items() if name.partition(".")[0] in there}
    if facts != {_SUMS: _sums({**rounded, **others})}:
        raise ModelError(f"{path}: of another model than the one in the folder")
    sizes = {**sizes, **{name: array.shape for name, array in others.items()}}
    odd = sorted(set(sizes) ^ set(arrays))
    if odd:
        raise ModelError(f"{path}: of another model: {odd[0][:40]!r} is missing or unknown")
    for name, array in arrays.items():
        if array.dtype != np.float32 or array.shape != sizes[name]:
            raise ModelError(
                f"{path}: of another model: '{name}' is {array.dtype} {list(array.shape)}, not"
                f" float32 {list(sizes[name])}"
            )
        if not np.isfinite(array).all():
            raise ModelError(f"{path}: damaged: '{name}' has numbers that are not finite")
    return arrays


def sum_of_learned(folder: Path) -> str:
    """What identifies the arrays of a folder; "" where it has none.

    Raises: ModelError: the file cannot be read.
    """
    return facts_text(folder / FILE) if (folder / FILE).exists() else ""


def rounded_of(parser: Parser) -> dict[str, np.ndarray]:
    """The whole numbers of a parser."""
    found = {"arcs": parser.linear.arcs.array}
    if parser.linear.label_weights is not None:
        found["labels"] = parser.linear.label_weights.array
    for stage in ADDEND_STAGES:
        found |= stage.rounded(parser)
    return found


def sizes_of(parser: Parser) -> dict[str, tuple[int, ...]]:
    """The shapes of the arrays that a parser was rounded from, as `Trainer.learned` names them.

    Raises: ConfigError: as `config_of`.
    """
    sizes: dict[str, tuple[int, ...]] = {"arcs.weights": parser.linear.arcs.array.shape}
    if parser.linear.label_weights is not None:
        n_lines, n_labels = parser.linear.label_weights.array.shape
        if parser.linear.labels_with_trees:
            sizes["arcs.labels"] = n_lines, stride_of(n_labels)
        else:
            sizes["labels.weights"] = n_lines, n_labels
    for stage in ADDEND_STAGES:
        of_stage = stage.sizes_of(parser, config_of(parser))
        sizes |= {f"{stage.name}.{name}": size for name, size in of_stage.items()}
    return sizes


def config_of(parser: Parser) -> RunConfig:
    """The config that a parser was learned with.

    Raises: ConfigError: it has none of this version.
    """
    try:
        return parse_config(parser.config, "config.yaml")
    except ConfigError as error:
        raise ConfigError(f"init_from: the model's {one_line(error)}") from error


def _sums(arrays: Mapping[str, np.ndarray]) -> dict[str, str]:
    return {name: sum_of_array(array) for name, array in arrays.items()}
