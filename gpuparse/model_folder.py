"""A parser's folder: texts, tensors and facts, without pickle; nothing in it is ever executed.

The facts are in the metadata of the tensors' file. Among them is the SHA-256 of every part, so that
damage is noticed before anything is used."""

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from gpuparse.data.vocabulary import Vocabularies
from gpuparse.errors import ConfigError, ModelError
from gpuparse.features.plan import LINE, compile_arcs, compile_plan
from gpuparse.features.templates import PARTS, dump_set, parse_set
from gpuparse.files import replace_file
from gpuparse.inference.decoders import DECODERS
from gpuparse.parser import Parser, are_scales
from gpuparse.scoring.pruning import Pruner
from gpuparse.scoring.weights import Weights, hashed_map

FORMAT = 3
CONFIG, FEATURES, LABEL_FEATURES, VOCABULARY, WEIGHTS = (
    "config.yaml",
    "features.yaml",
    "label-features.yaml",
    "vocabulary.json",
    "weights.safetensors",
)
_TEXTS = (CONFIG, FEATURES, LABEL_FEATURES, VOCABULARY)
_METADATA = "gpuparse"
_SCALES = "units of probability"
_PRUNER = ("pruner_unit", "pruner_threshold", "pruner_heads")


def save_parser(parser: Parser, folder: Path) -> None:
    """Write a parser into a folder, which must exist; a file there is replaced whole.

    Raises: OSError: the folder cannot be written to.
    """
    tensors = {"arcs": parser.arcs.array}
    if parser.label_weights:
        tensors["labels"] = parser.label_weights.array
    if parser.pruner:
        tensors["pruner"] = parser.pruner.weights.array
    label_templates = parser.label_templates
    words = {
        "labels": list(parser.labels),
        "primary": None if parser.primary is None else list(parser.primary),
        "pos_column": parser.vocabularies.pos_column,
        "values": parser.vocabularies.values,
    }
    texts = {
        CONFIG: parser.config,
        FEATURES: dump_set(parser.templates),
        LABEL_FEATURES: dump_set(label_templates) if label_templates else "",
        VOCABULARY: _as_json(words),
    }
    facts = {
        "decoder": parser.decoder,
        "min_gain": parser.min_gain,
        "single_root": parser.single_root,
        "arc_unit": parser.arc_scale,
        "label_unit": parser.label_scale,
        "calibrated": parser.is_calibrated,
        "labels_with_trees": parser.joint_plan is not None,
        "table_rows": parser.features.rows.rows,
    }
    if parser.pruner:
        facts |= {
            "pruner_unit": parser.pruner.scale,
            "pruner_threshold": parser.pruner.threshold,
            "pruner_heads": parser.pruner.max_heads,
        }
    _write(folder, facts, texts, tensors)


def load_parser(folder: Path) -> Parser:
    """Read a model folder. Nothing in it is executed, whoever made it.

    Raises: ModelError: a file is missing, damaged, of another format or of another program.
    """
    parts = _read(folder)
    try:
        return _assemble(*parts)
    except (KeyError, TypeError, ValueError, RecursionError, ConfigError) as error:
        raise ModelError(f"{folder}: not a model of this version: {error}") from error


def _assemble(facts: dict, texts: dict[str, str], tensors: dict[str, np.ndarray]) -> Parser:
    words = json.loads(texts[VOCABULARY])
    _check_parts(facts, words, tensors)
    vocabularies = Vocabularies(words["values"], words["pos_column"])
    templates = parse_set(texts[FEATURES], FEATURES)
    arcs, decoder = Weights(tensors["arcs"]), DECODERS[facts["decoder"]]
    features = hashed_map(facts["table_rows"], compile_plan(templates, vocabularies).dense_lines)
    given = {part for part in PARTS if part != "label" and getattr(templates, part)}
    fits = given <= {"arc", "guide", *decoder.parts}
    fits &= not decoder.needs or not given.isdisjoint(decoder.needs)
    if features.n_rows != len(arcs.array) or not fits:
        raise ValueError("the files of the folder come from different models")
    pruner = None
    if "pruner" in tensors:
        least = features.rows.rows + compile_arcs(templates, vocabularies).dense_lines * LINE
        if not decoder.is_higher_order or len(tensors["pruner"]) != least:
            raise ValueError("the weights of the pruning parser come from another model")
        pruner = Pruner(
            Weights(tensors["pruner"]),
            decoder.of_arcs,
            facts["pruner_unit"], facts["pruner_threshold"], facts["pruner_heads"],
        )  # fmt: skip
    return Parser(
        templates=templates,
        label_templates=(
            parse_set(texts[LABEL_FEATURES], LABEL_FEATURES) if words["labels"] else None
        ),
        vocabularies=vocabularies,
        features=features,
        arcs=arcs,
        labels=words["labels"],
        primary=words["primary"],
        label_weights=Weights(tensors["labels"]) if "labels" in tensors else None,
        labels_with_trees=facts["labels_with_trees"],
        decoder=facts["decoder"],
        min_gain=facts["min_gain"],
        single_root=facts["single_root"],
        arc_scale=facts["arc_unit"],
        label_scale=facts["label_unit"],
        is_calibrated=facts["calibrated"],
        pruner=pruner,
        config=texts[CONFIG],
    )


def _write(
    folder: Path, facts: dict[str, Any], texts: dict[str, str], tensors: dict[str, np.ndarray]
) -> None:
    """Write the parts of a model into a folder, which must exist; a file there is replaced whole.

    Raises: OSError: the folder cannot be written to.
    """
    facts = facts | {"format": FORMAT, "sha256": _sums(facts, texts, tensors)}
    # One metadata key: the order of several would differ from save to save.
    packed = save(tensors, metadata={_METADATA: _as_json(facts)})
    for name, content in [*((n, t.encode()) for n, t in texts.items()), (WEIGHTS, packed)]:
        with replace_file(folder / name, force=True) as file:
            file.write(content)


def _read(folder: Path) -> tuple[dict, dict[str, str], dict[str, np.ndarray]]:
    """The facts, texts and tensors of a model.

    Raises: ModelError: a file is missing, damaged, of another format or of another program.
    """
    tensors, facts = _read_weights(folder / WEIGHTS)
    texts = {name: _read_text(folder / name) for name in _TEXTS}
    wanted, found = facts.get("sha256"), _sums(facts, texts, tensors)
    if not isinstance(wanted, dict):
        raise ModelError(f"{folder}: '{WEIGHTS}' lacks the sums of its parts: it is damaged")
    for name in sorted(found | wanted):
        if name not in found or wanted.get(name) != found[name]:
            raise ModelError(f"{folder}: '{name}' was changed or damaged after training")
    return facts, texts, tensors


def sum_of_folder(folder: Path) -> str:
    """One SHA-256 for all that makes a model, from what is written in it; nothing is checked.

    Raises: ModelError: as load_parser, of the weights' file.
    Cost: none but opening the file.
    """
    try:
        with safe_open(folder / WEIGHTS, "np") as file:
            return _sha256((file.metadata() or {}).get(_METADATA, "").encode())
    except (OSError, SafetensorError) as error:
        raise ModelError(f"{folder / WEIGHTS}: cannot be read: {error}") from error


def _sums(facts: dict, texts: dict[str, str], tensors: dict[str, np.ndarray]) -> dict[str, str]:
    """The SHA-256 of every part, and of what no look at the numbers could tell from damage."""
    numbers = [facts.get(name) for name in ("arc_unit", "label_unit")]
    scales = _as_json(numbers + [facts[name] for name in _PRUNER if name in facts])
    return (
        {name: _sha256(text.encode()) for name, text in texts.items()}
        | {name: _sha256(tensor.tobytes()) for name, tensor in tensors.items()}
        | {_SCALES: _sha256(scales.encode())}
    )


def _as_json(content: object) -> str:
    """JSON that is always the same for the same content."""
    return json.dumps(content, ensure_ascii=False, sort_keys=True, indent=0) + "\n"


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _check_parts(facts: dict, words: dict, tensors: dict[str, np.ndarray]) -> None:
    """Refuse parts that no training writes; the kernels do not look before they read.

    Raises: KeyError, TypeError, ValueError: something is missing or not as it should be.
    """
    arcs, labels = tensors["arcs"], words["labels"]
    whole = {np.dtype(np.int8), np.dtype(np.int16)}
    wrong = {
        "decoder": facts["decoder"] not in DECODERS,
        "single_root": not isinstance(facts["single_root"], bool),
        "labels_with_trees": not isinstance(facts["labels_with_trees"], bool),
        "min_gain": not isinstance(facts["min_gain"], float) or not 0 <= facts["min_gain"] < np.inf,
        "arc_unit or label_unit": not are_scales(facts["arc_unit"], facts["label_unit"]),
        "calibrated": not isinstance(facts["calibrated"], bool),
        "pos_column": words["pos_column"] not in (3, 4),
        "arcs": arcs.dtype not in whole or arcs.ndim != 2 or arcs.shape[1] != 1,
        "values": not isinstance(words["values"], dict)
        or any(
            not isinstance(known, list) or len(set(known)) != len(known)
            for known in words["values"].values()
        ),
        "labels": not isinstance(labels, list)
        or not all(_is_label(label) for label in labels)
        or bool(labels) != ("labels" in tensors),
    }
    wrong["primary"] = not _is_primary(words["primary"], labels, facts["decoder"])
    if "labels" in tensors:
        lines = tensors["labels"]
        wrong["labels"] |= lines.dtype not in whole or lines.ndim != 2 or len(lines) == 0
        wrong["labels"] |= lines.shape[1:] != (len(labels),)
    if "pruner" in tensors:
        pruner, (scale, threshold, heads) = tensors["pruner"], (facts[name] for name in _PRUNER)
        wrong["pruner"] = (
            pruner.dtype not in whole
            or pruner.ndim != 2
            or pruner.shape[1] != 1
            or not are_scales(scale)
            or not (isinstance(threshold, float) and 0 <= threshold <= 1)
            or not (type(heads) is int and heads >= 1)
        )
    if any(wrong.values()):
        raise ValueError(", ".join(name for name, is_wrong in wrong.items() if is_wrong))


def _is_primary(primary: object, labels: object, decoder: object) -> bool:
    """Whether exactly the parsers of graphs with labels have DEPRELs of primary arcs."""
    is_needed = decoder in DECODERS and DECODERS[str(decoder)].gives_graphs and bool(labels)
    if not (is_needed and isinstance(primary, list) and isinstance(labels, list)):
        return primary is None and not is_needed
    named = [name for name in primary if name is not None]
    return len(primary) == len(labels) and bool(named) and all(map(_is_label, named))


def _is_label(label: object) -> bool:
    """Whether a relation can be written into a column."""
    if not isinstance(label, str) or any(separator in label for separator in "\t\n\r"):
        return False
    return not any("\ud800" <= character <= "\udfff" for character in label)


def _read_text(path: Path) -> str:
    try:
        return path.read_bytes().decode()
    except (OSError, UnicodeDecodeError) as error:
        raise ModelError(f"{path}: cannot be read ({error}): not a whole model folder") from error


def _read_weights(path: Path) -> tuple[dict[str, np.ndarray], dict]:
    try:
        with safe_open(path, "np") as file:
            facts = json.loads((file.metadata() or {}).get(_METADATA, "{}"))
            # Before any tensor: another program's file may be large, or of types unknown here.
            if not isinstance(facts, dict) or facts.get("format") != FORMAT:
                raise ModelError(f"{path}: not a gpuparse model of format {FORMAT}; train it again")
            # Copies, since memory of NumPy's own has huge pages: random rows are found 7 % faster.
            tensors = {name: file.get_tensor(name).copy() for name in file.keys()}  # noqa: SIM118
    except FileNotFoundError as error:
        raise ModelError(f"{path}: no such file: give the folder that training wrote") from error
    except (OSError, SafetensorError, ValueError, RecursionError) as error:
        raise ModelError(f"{path}: damaged or not a weights file: {error}") from error
    return tensors, facts
