"""A parser's folder: texts, arrays and facts, without pickle; nothing in it is ever executed.

The facts are in the file of the weights, and among them the SHA-256 of every other file. Nothing
that a folder says reaches compiled code before it is checked here; what is checked are types,
ranges and sizes, whoever made the sums.
"""

import io
import re
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from gpuparse.data import array_file
from gpuparse.data.array_file import as_json, check_names, from_json, open_file, read_text, sha256
from gpuparse.data.columns import is_value
from gpuparse.data.graphs import fits_deps
from gpuparse.data.vocabulary import Vocabularies, check_size
from gpuparse.errors import ConfigError, DataError, ModelError, did_you_mean, one_line, option
from gpuparse.features.plan import LINE
from gpuparse.features.templates import PARTS, TemplateSet, dump_set, fields_read, parse_set
from gpuparse.files import write_file
from gpuparse.inference.decoders import DECODERS, Decoder
from gpuparse.limits import (
    MAX_ARRAYS_BYTES,
    MAX_FIELDS,
    MAX_LABELS,
    MAX_TAG,
    MAX_VALUES,
    MAX_VOCABULARY_BYTES,
    MAX_YAML_BYTES,
)
from gpuparse.model.engines.searcher import Scales
from gpuparse.model.installed import UNFINISHED, WHAT_MODELS_ARE, model_hint
from gpuparse.model.parser import Parser, are_scales
from gpuparse.scorers.encoder import files as encoder_files
from gpuparse.scorers.linear.pruning import Pruner
from gpuparse.scorers.linear.scorer import LinearScorer, compile_plans
from gpuparse.scorers.linear.weights import Weights, hashed_map
from gpuparse.scorers.vectors import stored
from gpuparse.scorers.vectors.scorer import vectors_of

FORMAT = 5
_AS_MODEL: Any = {"form": FORMAT, "what": "model", "hint": "; train it again"}
CONFIG, FEATURES, LABEL_FEATURES, VOCABULARY, WEIGHTS = (
    "config.yaml",
    "features.yaml",
    "label-features.yaml",
    "vocabulary.json",
    "weights.safetensors",
)
_TEXTS = (CONFIG, FEATURES, LABEL_FEATURES, VOCABULARY)
_MOST_BYTES = {VOCABULARY: MAX_VOCABULARY_BYTES}
_COMMON_FACTS = {
    "decoder", "min_gain", "single_root", "arc_unit", "label_unit", "calibrated",
}  # fmt: skip
_FACTS = _COMMON_FACTS | {"labels_with_trees", "table_rows", "texts"}
MANIFEST = "kinds"  # the fact {stage: kind of its scorer}; a folder without it has _LINEAR
_LINEAR = {"parser": "linear"}
_PRUNER = ("pruner_unit", "pruner_threshold", "pruner_heads")
_POINTS = ("arc_points", "label_points")
_WORDS = {"labels", "primary", "pos_column", "values"}
_MAX_ROWS = 1 << 31
Reader = Callable[[Path, array_file.Opened, Callable[[str, int], str]], Parser]


def save_parser(parser: Parser, folder: Path) -> None:
    """Write a parser into a folder, which must exist; a file there is replaced whole.

    Raises: OSError: the folder cannot be written to.
    """
    for name, content in pack_parser(parser).items():
        write_file(folder / name, content, force=True)


def pack_parser(parser: Parser) -> dict[str, bytes]:
    """The files of a parser's folder by name, the weights last; `unpack_parser` reads them.

    Raises: ModelError: its scores are of a kind that is not in `_KINDS`.
    """
    kind = _kind_of({"parser": parser.scorers[0].kind}, "the model cannot be saved")
    return kind.pack(parser)


def _pack_linear(parser: Parser) -> dict[str, bytes]:
    """The files of a parser with templates."""
    tensors = {"arcs": parser.linear.arcs.array}
    if parser.linear.label_weights:
        tensors["labels"] = parser.linear.label_weights.array
    if parser.linear.pruner:
        tensors["pruner"] = parser.linear.pruner.weights.array
    vectors = vectors_of(parser.scorers)
    if vectors is not None:
        tensors |= stored.arrays(vectors)
    label_templates = parser.linear.label_templates
    words = {
        "labels": list(parser.labels),
        "primary": None if parser.primary is None else list(parser.primary),
        "pos_column": parser.linear.vocabularies.pos_column,
        "values": parser.linear.vocabularies.values,
    }
    texts = {
        CONFIG: parser.config,
        FEATURES: dump_set(parser.linear.templates),
        LABEL_FEATURES: dump_set(label_templates) if label_templates else "",
        VOCABULARY: as_json(words),
    }
    facts = _facts_of(parser) | {
        "labels_with_trees": parser.linear.joint_plan is not None,
        "table_rows": parser.linear.features.rows.rows,
    }
    if parser.linear.points:
        facts |= dict(zip(_POINTS, parser.linear.points, strict=True))
    if parser.linear.pruner:
        facts |= {
            "pruner_unit": parser.linear.pruner.scale,
            "pruner_threshold": parser.linear.pruner.threshold,
            "pruner_heads": parser.linear.pruner.max_heads,
        }
    if vectors is not None:
        facts |= stored.facts(vectors, tensors)
    facts["texts"] = {name: sha256(text.encode()) for name, text in texts.items()}
    packed = array_file.pack(facts, tensors, form=FORMAT)
    return {name: text.encode() for name, text in texts.items()} | {WEIGHTS: packed}


def _facts_of(parser: Parser) -> dict[str, Any]:
    """The facts of parsers of all kinds."""
    return {
        "decoder": parser.decoder,
        "min_gain": parser.min_gain,
        "single_root": parser.single_root,
        "arc_unit": parser.scales.arc,
        "label_unit": parser.scales.label,
        "calibrated": parser.scales.is_calibrated,
    }


def check_folder(folder: Path) -> None:
    """Make sure that there is a folder, and no unfinished run in it.

    Raises: ModelError: there is none; a similar one is named. What is in it is not read.
    """
    try:
        is_file = stat.S_ISREG(folder.stat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        near = "runs" / folder
        hint = did_you_mean([str(near)] if (near / WEIGHTS).is_file() else [])
        hint = hint or model_hint(str(folder))
        raise ModelError(f"{folder}: no such folder; {hint}") from None
    except (OSError, ValueError):
        return  # reading it says what is wrong
    if is_file:
        raise ModelError(f"{folder}: a file; {WHAT_MODELS_ARE}")
    if (folder / UNFINISHED).is_dir() and not (folder / WEIGHTS).exists():
        resume = option("resume", True)
        raise ModelError(f"{folder}: an unfinished run; training with {resume} finishes it")


def load_parser(folder: Path) -> Parser:
    """Read a model folder. Nothing in it is executed, whoever made it.

    Raises: ModelError: a file is missing, damaged, of another format or of another program.
    """
    check_folder(folder)
    path = folder / WEIGHTS
    with open_file(path, MAX_ARRAYS_BYTES) as file:
        opened = array_file.opened(file, path, **_AS_MODEL)
    read = _kind_of(opened.facts.get(MANIFEST, _LINEAR), str(folder)).read
    return read(folder, opened, lambda name, most: read_text(folder / name, most))


def unpack_parser(files: Mapping[str, bytes], folder: Path) -> Parser:
    """As `load_parser`, of the files that `pack_parser` returns; `folder` is for messages."""
    opened = array_file.opened(io.BytesIO(files[WEIGHTS]), folder / WEIGHTS, **_AS_MODEL)
    read = _kind_of(opened.facts.get(MANIFEST, _LINEAR), str(folder)).read
    return read(folder, opened, lambda name, most: files[name].decode())


def _kind_of(manifest: object, what: str) -> "FolderKind":
    """The reader and packer of a folder's parser, by the kind of its scorer.

    Args: what: begins the message.
    Raises: ModelError: a manifest that is none, or a kind that is not known.
    """
    if not isinstance(manifest, dict) or set(manifest) != set(_LINEAR):
        raise ModelError(f"{what}: not a model of this version: {MANIFEST} names other stages")
    kind = manifest["parser"]
    if not isinstance(kind, str) or kind not in _KINDS:
        known = ", ".join(_KINDS)
        raise ModelError(
            f"{what}: its scores are of kind {one_line(kind)}; this version reads {known}"
        )
    return _KINDS[kind]


def _read_linear(
    folder: Path, opened: array_file.Opened, text_of: Callable[[str, int], str]
) -> Parser:
    """The parser of a folder with templates; `text_of` reads a text by name, up to some bytes."""
    texts = _checked_texts(folder, opened.facts, _TEXTS, text_of)
    try:
        parser = _assemble(opened, texts)
    except (
        KeyError, TypeError, ValueError, OverflowError, RecursionError, ConfigError, DataError,
    ) as error:  # fmt: skip
        raise ModelError(f"{folder}: not a model of this version: {one_line(error)}") from error
    opened.remember()
    return parser


def _encoder() -> ModuleType:
    """The module that knows the files of an encoder; a parser of templates needs none of it."""
    from gpuparse.scorers.encoder import stored

    return stored


def _pack_encoder(parser: Parser) -> dict[str, bytes]:
    """The files of a parser whose scores are those of an encoder."""
    encoder, found = _encoder(), parser.scorers[0]
    words = {"labels": list(parser.labels)} | encoder.words(found)
    if parser.primary is not None:
        words["primary"] = list(parser.primary)
    texts = {CONFIG: parser.config, VOCABULARY: as_json(words)} | encoder.texts(found)
    facts = _facts_of(parser) | encoder.facts(found)
    facts[MANIFEST] = {"parser": found.kind}
    facts["texts"] = {name: sha256(text.encode()) for name, text in texts.items()}
    packed = array_file.pack(facts, encoder.arrays(found), form=FORMAT)
    return {name: text.encode() for name, text in texts.items()} | {WEIGHTS: packed}


def _read_encoder(
    folder: Path, opened: array_file.Opened, text_of: Callable[[str, int], str]
) -> Parser:
    """The parser of a folder with an encoder; `text_of` reads a text by name, up to some bytes."""
    encoder, facts = _encoder(), opened.facts
    texts = _checked_texts(folder, facts, (CONFIG, VOCABULARY, *encoder_files.MOST_BYTES), text_of)
    try:
        words = from_json(texts[VOCABULARY])
        if not isinstance(words, dict):
            raise TypeError(f"{VOCABULARY} is no table")
        check_names(facts, {*_COMMON_FACTS, MANIFEST, "texts", *(encoder.FACTS & facts.keys())})
        check_names(words, {"labels", *encoder.WORDS, *({"primary"} & words.keys())})
        labels, primary = words["labels"], words.get("primary")
        _require_short(labels, primary)
        decoder = facts["decoder"]
        wrong = _wrong_facts(facts) | _wrong_labels(decoder, labels, primary)
        if any(wrong.values()):
            raise ValueError(", ".join(name for name, is_wrong in wrong.items() if is_wrong))
        if DECODERS[decoder].of_arcs != decoder and not DECODERS[decoder].gives_graphs:
            raise ValueError(f"decoder {decoder} reads more than arcs")
        scorer = encoder.read(texts, words, facts, opened.arrays, len(labels), str(folder))
    except (
        KeyError, TypeError, ValueError, OverflowError, RecursionError, ModelError,
    ) as error:  # fmt: skip
        raise ModelError(f"{folder}: not a model of this version: {one_line(error)}") from error
    opened.remember()
    return Parser(
        scorers=(scorer,), labels=labels, primary=primary, decoder=decoder,
        min_gain=facts["min_gain"],
        single_root=facts["single_root"], config=texts[CONFIG],
        scales=Scales(facts["arc_unit"], facts["label_unit"], facts["calibrated"]),
    )  # fmt: skip


def _checked_texts(
    folder: Path, facts: Mapping[str, Any], names: tuple[str, ...],
    text_of: Callable[[str, int], str],
) -> dict[str, str]:  # fmt: skip
    """The texts of a folder by name.

    Raises: ModelError: one is missing, or was changed.
    """
    sums = facts.get("texts")
    if not isinstance(sums, dict):
        raise ModelError(f"{folder}: '{WEIGHTS}' lacks the sums of the other files: it is damaged")
    texts = {}
    for name in names:
        most = _MOST_BYTES.get(name) or encoder_files.MOST_BYTES.get(name, MAX_YAML_BYTES)
        texts[name] = text_of(name, most)
        if sums.get(name) != sha256(texts[name].encode()):
            raise ModelError(f"{folder}: '{name}' was changed or damaged after training")
    return texts


class FolderKind(NamedTuple):
    """The files of a kind of scorer, and the function that reads its parser."""

    read: Reader
    pack: Callable[[Parser], dict[str, bytes]]


_KINDS = {
    "linear": FolderKind(_read_linear, _pack_linear),
    encoder_files.KIND: FolderKind(_read_encoder, _pack_encoder),
}


def sum_of_folder(folder: Path) -> str:
    """One SHA-256 for all that makes a model, from what is written in it; nothing is checked.

    Raises: ModelError: as load_parser, of the weights' file.
    Cost: none but opening the file.
    """
    return sha256(array_file.facts_text(folder / WEIGHTS).encode())


def files_of_parser(folder: Path) -> list[str]:
    """The names of the files of a parser's folder, the weights last; nothing is checked.

    Raises: ModelError: the file of the weights cannot be read.
    Cost: none but opening it.
    """
    try:
        sums = from_json(array_file.facts_text(folder / WEIGHTS))["texts"]
        return [name for name in (*_TEXTS, *encoder_files.MOST_BYTES) if name in sums] + [WEIGHTS]
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise ModelError(f"{folder}: '{WEIGHTS}' is damaged: {one_line(error)}") from error


def _assemble(opened: array_file.Opened, texts: dict[str, str]) -> Parser:
    """The parser of templates of a folder, whose texts have the sums that the facts say.

    Raises: KeyError, TypeError, ValueError, OverflowError, RecursionError, ConfigError, DataError:
        a fact, a text or an array is not as `pack_parser` writes it, or does not fit the others.
    """
    facts, tensors = opened.facts, opened.arrays
    words = _read_words(texts[VOCABULARY], is_known=opened.is_known)
    _check_parts(facts, words, tensors)
    decoder = DECODERS[facts["decoder"]]
    templates = parse_set(texts[FEATURES], FEATURES)
    _check_templates(templates, decoder)
    label_templates = None
    if words["labels"]:
        label_templates = parse_set(texts[LABEL_FEATURES], LABEL_FEATURES)
        if not (label_templates.label or templates.scores_labels):
            raise ValueError(f"{LABEL_FEATURES} has no label templates")
    elif texts[LABEL_FEATURES]:
        raise ValueError(f"{LABEL_FEATURES}, but no labels")
    if set(words["values"]) != set(fields_read(templates, label_templates)):
        raise ValueError("the fields of the vocabulary are not those that the templates read")
    vocabularies = Vocabularies(words["values"], words["pos_column"])
    pruner = None
    if "pruner" in tensors:
        pruner = Pruner(
            Weights(tensors["pruner"]), decoder.of_arcs, *(facts[name] for name in _PRUNER)
        )
    label_weights = Weights(tensors["labels"]) if "labels" in tensors else None
    # All templates are compiled now: no fault of theirs is found while parsing.
    compiled = compile_plans(
        templates, label_templates, vocabularies, label_weights,
        labels_with_trees=facts["labels_with_trees"], decoder=facts["decoder"],
    )  # fmt: skip
    linear = LinearScorer(
        templates=templates,
        label_templates=label_templates,
        vocabularies=vocabularies,
        features=hashed_map(facts["table_rows"], compiled.trees.dense_lines),
        arcs=Weights(tensors["arcs"]),
        label_weights=label_weights,
        labels_with_trees=facts["labels_with_trees"],
        decoder=facts["decoder"],
        points=(facts[_POINTS[0]], facts[_POINTS[1]]) if _POINTS[0] in facts else None,
        pruner=pruner,
        compiled=compiled,
    )
    if len(linear.arcs.array) != linear.features.n_rows:
        raise ValueError("the files of the folder come from different models")
    if pruner:
        least = linear.features.rows.rows + linear.plan.arcs.dense_lines * LINE
        if not decoder.is_higher_order or len(pruner.weights.array) != least:
            raise ValueError("the weights of the pruning parser come from another model")
    vectors = stored.read(opened, linear, len(words["labels"]))
    return Parser(
        scorers=(linear,) if vectors is None else (linear, vectors),
        labels=words["labels"],
        primary=words["primary"],
        decoder=facts["decoder"],
        min_gain=facts["min_gain"],
        single_root=facts["single_root"],
        scales=Scales(facts["arc_unit"], facts["label_unit"], facts["calibrated"]),
        config=texts[CONFIG],
    )


def _read_words(text: str, *, is_known: bool) -> dict[str, Any]:
    """The content of vocabulary.json, its labels not yet checked.

    is_known: whether the text was read before.
    Raises: ValueError, TypeError, RecursionError: it is not such a file, or too large.
    """
    if is_known:
        content: dict[str, Any] = from_json(text)
        return content
    # Before memory is taken for the values, some of which have commas and brackets in them.
    if text.count(",") > 2 * MAX_VALUES or text.count("[") + text.count("{") > MAX_VALUES // 16:
        raise ValueError(f"{VOCABULARY} has more than {MAX_VALUES:,} values, or odd ones")
    words = from_json(text)
    if not isinstance(words, dict) or set(words) != _WORDS:
        raise ValueError(f"{VOCABULARY} has other keys than {', '.join(sorted(_WORDS))}")
    values = words["values"]
    if not isinstance(values, dict) or len(values) > MAX_FIELDS:
        raise ValueError(f"{VOCABULARY}: values: up to {MAX_FIELDS:,} fields are expected")
    if not all(map(_are_values, values.values())):
        raise ValueError(f"{VOCABULARY}: values: lists of different texts are expected")
    check_size(values)
    # Halves of characters come from escapes alone, which the writer has no use for.
    if re.search(r"\\u[dD][89a-fA-F]", text):
        as_json(values).encode()
    return words


def _are_values(known: object) -> bool:
    return (
        isinstance(known, list) and set(map(type, known)) <= {str} and len(set(known)) == len(known)
    )


def _check_templates(templates: TemplateSet, decoder: Decoder) -> None:
    """Refuse templates of parts that the decoder does not read.

    Raises: ValueError: there are such, or none that it needs.
    """
    given = {part for part in PARTS if part != "label" and templates.scores(part)}
    fits = given <= {"arc", "guide", *decoder.parts}
    fits &= given.issuperset(templates.vector_parts)
    if not fits or (decoder.needs and given.isdisjoint(decoder.needs)):
        raise ValueError("the files of the folder come from different models")


def _check_parts(facts: dict, words: dict, tensors: dict[str, np.ndarray]) -> None:
    """Refuse parts that no training writes.

    Raises: KeyError, TypeError, ValueError: something is missing or not as it should be.
    """
    labels = words["labels"]
    _require_short(labels, words["primary"])
    expected = _FACTS | (set(_PRUNER) if "pruner" in tensors else set())
    expected |= {MANIFEST} & facts.keys()
    expected |= set(_POINTS) if facts.keys() & set(_POINTS) else set()
    names = {"arcs"} | (tensors.keys() & {"labels", "pruner"})
    of_facts, of_arrays = stored.names(facts, tensors)
    expected |= of_facts
    names |= of_arrays
    for found, wanted in (
        (set(facts), expected),
        (set(tensors), names),
        (set(facts["texts"]), set(_TEXTS)),
    ):
        check_names(found, wanted)
    decoder, joint = facts["decoder"], facts["labels_with_trees"]
    n_labels = len(labels) if _are_labels(labels) else 0
    of_labels = _wrong_labels(decoder, labels, words["primary"])
    of_labels["labels"] |= bool(n_labels) != ("labels" in tensors)
    wrong = _wrong_facts(facts) | {
        "labels_with_trees": not isinstance(joint, bool)
        or (joint and (_gives_graphs(decoder) or not n_labels)),
        "table_rows": type(facts["table_rows"]) is not int
        or not LINE <= facts["table_rows"] <= _MAX_ROWS,
        "pos_column": type(words["pos_column"]) is not int or words["pos_column"] not in (3, 4),
        "arcs": not _are_weights(tensors["arcs"], 1),
        **of_labels,
    }
    if _POINTS[0] in facts:
        wrong["arc_points or label_points"] = not all(
            _is_number(facts[name], np.inf) and facts[name] > 0 for name in _POINTS
        )
    if "labels" in tensors:
        wrong["labels"] |= not _are_weights(tensors["labels"], n_labels) or not len(
            tensors["labels"]
        )
        # Native code adds both in one sum.
        wrong["labels"] |= joint and tensors["labels"].dtype != tensors["arcs"].dtype
    if "pruner" in tensors:
        scale, threshold, heads = (facts[name] for name in _PRUNER)
        wrong["pruner"] = (
            not _are_weights(tensors["pruner"], 1)
            or not are_scales(scale)
            or not _is_number(threshold, 1.0)
            or not (type(heads) is int and 1 <= heads <= _MAX_ROWS)
        )
    if any(wrong.values()):
        raise ValueError(", ".join(name for name, is_wrong in wrong.items() if is_wrong))


def _wrong_facts(facts: Mapping[str, Any]) -> dict[str, bool]:
    """The facts of parsers of all kinds that no training writes."""
    decoder = facts["decoder"]
    return {
        "decoder": not (isinstance(decoder, str) and decoder in DECODERS),
        "single_root": not isinstance(facts["single_root"], bool),
        "min_gain": not _is_number(facts["min_gain"], np.inf),
        "arc_unit or label_unit": not are_scales(facts["arc_unit"], facts["label_unit"]),
        "calibrated": not isinstance(facts["calibrated"], bool),
    }


def _wrong_labels(decoder: object, labels: Any, primary: object) -> dict[str, bool]:
    """The labels of parsers of all kinds, and their DEPREL, that no training writes."""
    are_labels, of_graphs = _are_labels(labels), _gives_graphs(decoder)
    return {
        "labels": not are_labels or (of_graphs and not all(map(fits_deps, labels))),
        "primary": are_labels and not _are_primary(primary, len(labels) if of_graphs else 0),
    }


def _gives_graphs(decoder: object) -> bool:
    """True if this is a decoder that finds graphs."""
    return isinstance(decoder, str) and decoder in DECODERS and DECODERS[decoder].gives_graphs


def _require_short(*names: object) -> None:
    """ValueError for a relation that is too long."""
    for some in names:
        if isinstance(some, list) and any(len(x) > MAX_TAG for x in some if isinstance(x, str)):
            raise ValueError(f"{VOCABULARY}: a relation of more than {MAX_TAG:,} characters")


def _are_labels(labels: object) -> bool:
    """True if these are names of relations."""
    if not isinstance(labels, list) or len(labels) > MAX_LABELS:
        return False
    return all(map(_is_label, labels)) and len(set(labels)) == len(labels)


def _is_number(value: object, most: float) -> bool:
    """True if a value is a finite float from 0 to `most`."""
    return isinstance(value, float) and 0 <= value <= most and value < np.inf


def _are_weights(array: np.ndarray, width: int) -> bool:
    """True if an array has whole numbers of 8 or 16 bits, `width` a row."""
    return array.dtype in (np.int8, np.int16) and array.ndim == 2 and array.shape[1] == width


def _are_primary(primary: object, n_labels: int) -> bool:
    """True if there are DEPRELs of primary arcs for the labels of a parser of graphs.

    n_labels: 0 for a parser of trees, which has none.
    """
    if not n_labels or not isinstance(primary, list):
        return primary is None and not n_labels
    named = [name for name in primary if name is not None]
    return len(primary) == n_labels and bool(named) and all(map(_is_label, named))


def _is_label(label: object) -> bool:
    """True if a relation can be written into a column."""
    return is_value(label) and bool(str(label).strip())
