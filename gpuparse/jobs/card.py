"""The card of a model folder: what a model was learned from, and how well it parses.

`card.json` is for programs and `README.md`, a page made from it, for readers; neither is read for
parsing. A card has no times and no paths, so that the same run writes the same bytes.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Collection, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuparse.config.load import TREEBANK, read_settings
from gpuparse.config.schema import yaml_word
from gpuparse.config.shipped import shipped_configs
from gpuparse.data.array_file import from_json, read_text
from gpuparse.data.columns import FORM
from gpuparse.data.folders import PARTS, Facts, find_parts
from gpuparse.data.scanner import COLUMNS
from gpuparse.errors import ConfigError, ModelError, one_line
from gpuparse.evaluation.reports import GRAPH_ARC_SETS, GRAPH_SHARES, SHARES
from gpuparse.files import write_file
from gpuparse.inference.decoders import DECODERS
from gpuparse.jobs.receipts import flat
from gpuparse.jobs.version import described_version
from gpuparse.model.pipeline import (
    LEMMATIZER,
    PARSER,
    STAGES,
    TAGGER,
    files_of,
    stages_of,
    sum_of_stages,
)
from gpuparse.scorers.encoder.stored import LICENCE

if TYPE_CHECKING:
    from gpuparse.config import RunConfig
    from gpuparse.model.parser import Parser
    from gpuparse.model.pipeline import Pipeline

CARD, README = "card.json", "README.md"
FORMAT = 1
_MOST_BYTES = 1 << 20  # of card.json
_OWN = "A model of gpuparse"  # begins a line of a README of training
_TAGS = ("UPOS", "XPOS", "UFeats", "Lemmas")  # as scores.json has them
# Keys that the command of a card does not name: they change no model.
_OF_THE_RUN = {"output", "threads", "device"}
_TITLES = {
    "treebank": "Treebank", "language": "Language", "release": "Release", "genre": "Genre",
    "licence": "Licence of the treebank", "attribution": "By", "encoder": "Pretrained encoder",
    "encoder_licence": "Licence of the encoder",
}  # fmt: skip


def card_of(
    folder: Path,
    config: RunConfig,
    facts: Facts,
    stages: Pipeline,
    parser: Parser | None,
    sizes: Mapping[str, Mapping[str, int]],
    scores: Mapping[str, Any],
) -> dict[str, Any]:
    """The card of a model that a run has written.

    Args:
        folder, stages, parser: of the model. config: of the run. facts: about its treebank.
        sizes: `sentences` and `words` of the parts train, dev and test that were read.
        scores: what scores.json says.
    Returns: Plain data. What is unknown is None. Characters that cannot be printed, which names of
        files may have, are `?`.
    Cost: opens the files of the model and reads the configs that come with gpuparse.
    """
    data, known = config.recorded().data, facts._asdict()
    decoder = None if parser is None else DECODERS[parser.decoder]
    of_encoder = getattr(parser.scorers[0], "config", {}) if parser else {}
    needs, fills = _columns(stages, parser)
    card = {
        "format": FORMAT,
        "gpuparse": described_version(),
        "model": sum_of_stages(folder),
        "package": None,
        "treebank": known.pop("name"),
        **known,
        "parts": {
            part: {"file": getattr(data, part), **sizes[part]} if part in sizes else None
            for part in PARTS
        },
        "stages": _stages(folder, fills),
        "decoder": decoder.name if decoder else None,
        "graphs": decoder is not None and decoder.gives_graphs,
        "encoder": config.recorded().encoder.model if config.has_encoder and parser else None,
        "encoder_licence": of_encoder.get(LICENCE),
        "text": stages.tokenizer is not None,
        "needs": needs,
        "fills": fills,
        "scores": _scores(scores, needs),
        "command": _command(config),
        "files": {file: (folder / file).stat().st_size for file in files_of(folder)},
    }
    printable: dict[str, Any] = _printable(card)
    return printable


def _printable(value: Any) -> Any:
    """Plain data without characters that cannot be printed, which a reader of cards refuses."""
    if isinstance(value, dict):
        return {name: _printable(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_printable(each) for each in value]
    if not isinstance(value, str):
        return value
    return "".join(c if c.isprintable() else "?" for c in value)


def write_card(folder: Path, card: Mapping[str, Any]) -> None:
    """Write card.json and README.md into a model folder."""
    for name, content in card_files(card).items():
        write_file(folder / name, content, force=True)


def card_files(card: Mapping[str, Any]) -> dict[str, bytes]:
    """The files card.json and README.md of a card."""
    text = json.dumps(card, indent=1, ensure_ascii=False) + "\n"
    return {CARD: text.encode(), README: markdown(card).encode()}


def read_card(folder: Path) -> dict[str, Any] | None:
    """The card of a model folder; None if it has none.

    Types and sizes are checked, whoever wrote it; that it is true is not.

    Raises: ModelError: it is damaged, too large, or of another version.
    """
    path = folder / CARD
    if not os.path.lexists(path):
        return None
    text = read_text(path, _MOST_BYTES)
    try:
        card = from_json(text)
        if not isinstance(card, dict):
            raise ValueError("a table is expected")
        if card.get("format") != FORMAT:
            raise ValueError(f"its format is not {FORMAT}")
        wrong = [name for name in _SHAPE if not _fits(card.get(name, ...), _SHAPE[name])]
        if not wrong and not 0 < len(set(card["stages"])) == len(card["stages"]):
            wrong.append("stages")
        if not wrong and any("/" in name or name in (".", "..") for name in card["files"]):
            wrong.append("files")
        if wrong:
            raise ValueError(f"missing or wrong: {', '.join(wrong)}")
    except (ValueError, RecursionError) as error:
        raise ModelError(
            f"{path}: not a card of this version: {one_line(error)}; a model needs none: remove it"
        ) from error
    return {name: card[name] for name in ("format", *_SHAPE)}


def remove_card(folder: Path) -> None:
    """Take away the card of an earlier model; a README.md that training did not write stays."""
    (folder / CARD).unlink(missing_ok=True)
    if _is_own(folder / README):
        (folder / README).unlink()


def check_readme(folder: Path) -> None:
    """Make sure that there is no README.md that training did not write.

    Raises: ConfigError: there is one.
    """
    path = folder / README
    if os.path.lexists(path) and not _is_own(path):
        raise ConfigError(
            f"{path}: would be replaced by the card of the model, and training did not write it:"
            " name another output, or move this file"
        )


def _is_own(path: Path) -> bool:
    """True if a file is a README.md that training has written."""
    if not path.is_file() or path.is_symlink():
        return False
    with path.open("rb") as file:
        return f"\n{_OWN}".encode() in file.read(10_000)


def _command(config: RunConfig) -> str:
    """The command that trains the model in a folder with the files and folders that it names.

    Its config is the one that comes with gpuparse and has the fewest other values, of equals the
    first; files of treebanks do not count.
    """
    treebank, values = config.data.treebank, flat(asdict(config.recorded()))
    for key in ("features", "labels.features"):  # which may be in a folder
        values[key] = os.path.basename(values[key])
    changed: dict[str, dict[str, str]] = {}
    for name, path in shipped_configs().items():
        shipped = read_settings(path).config(may_lack=True)
        if treebank is None or shipped.data.train is None:
            own = flat(asdict(shipped.recorded()))
            changed[name] = {
                key: yaml_word(value)
                for key, value in values.items()
                if value != own[key] and key not in _OF_THE_RUN
            }
    parts = {f"data.{part}" for part in PARTS}
    name = min(changed, key=lambda name: len(changed[name].keys() - parts))
    words = {key: word for key, word in changed[name].items() if key in parts}
    if treebank is not None:
        words = {TREEBANK: os.path.basename(os.path.abspath(treebank))}
        there = find_parts(treebank)
        left_out = [part for part in PARTS if there[part] and not getattr(config.data, part)]
        words |= dict.fromkeys((f"data.{part}" for part in left_out), "null")
    words |= {key: word for key, word in changed[name].items() if key not in parts}
    given = [f"{key}={word}" for key, word in words.items()]
    return shlex.join(["gpuparse", "train", name, *given])


def _stages(folder: Path, fills: Collection[str]) -> list[str]:
    """The stages of a model; the parser of an encoder is its tagger too."""
    there, has_tags = stages_of(folder), "UPOS" in fills or "XPOS" in fills
    return [name for name in STAGES if name in there or (name == TAGGER and has_tags)]


def _columns(stages: Pipeline, parser: Parser | None) -> tuple[list[str], list[str]]:
    """The columns of words that the model reads and does not fill, and those that it fills."""
    read, filled = {*(parser.reads if parser else ())}, {*stages.columns}
    if stages.lemmatizer:
        read.update(STAGES[LEMMATIZER].reads)
    if parser:
        filled.update(parser.fills)
        names = ["HEAD"] + ["DEPREL"] * bool(parser.labels)
        names += ["DEPS"] * DECODERS[parser.decoder].gives_graphs
        filled.update(map(COLUMNS.index, names))
    needs, fills = sorted(read - filled - {FORM}), sorted(filled)
    return [COLUMNS[column] for column in needs], [COLUMNS[column] for column in fills]


def _scores(scores: Mapping[str, Any], needs: list[str]) -> list[dict[str, Any]]:
    """The scores on dev and test, from words and from text, in percent with two decimals."""
    found = []
    for part in ("dev", "test"):
        of_text = scores.get("from_text", {}).get(part, {})
        of_words = _measures(scores.get(part, {}))
        for source, given, measures in (("words", needs, of_words), ("text", [], of_text)):
            rounded = {title: round(v, 2) for title, v in measures.items() if v is not None}
            if rounded:
                found.append({"part": part, "from": source, "given": given, "measures": rounded})
    return found


def _measures(scores: Mapping[str, Any]) -> dict[str, float | None]:
    """The measures of words of one part, by their titles."""
    graphs = scores.get("graphs", {})
    found = {name: scores[name] for name in _TAGS if name in scores}
    found |= {title: scores[key]["percent"] for title, key, _ in SHARES if key in scores}
    found |= {f"graphs: {t}": graphs[key]["percent"] for t, key, _ in GRAPH_SHARES if key in graphs}
    return found | {f"graphs: {t}": graphs[key]["f"] for t, key in GRAPH_ARC_SETS if key in graphs}


def markdown(card: Mapping[str, Any]) -> str:
    """README.md of a card of `card_of` or `read_card`."""
    package = card["package"]
    name = package["name"] if package else card["treebank"] or card["parts"]["train"]["file"]
    model = _safe(package["name"]) if package else "MODEL"
    source = "text.txt" if card["text"] else "words.conllu"
    lines = [f"# {_safe(name)}", "", f"{_OWN} {_safe(card['gpuparse'])}, a dependency parser.", ""]
    if PARSER in card["stages"] or card["text"]:
        lines += _fenced(f"gpuparse parse {model} {source} > output.conllu")
    rows = [["Version", package["version"]], ["Licence", package["licence"]]] if package else []
    rows += [[title, card[key]] for key, title in _TITLES.items() if card[key] is not None]
    rows.append(["Stages", ", ".join(STAGES[stage].title for stage in card["stages"])])
    rows += [["Decoder", card["decoder"]]] if card["decoder"] else []
    rows += [["Columns it needs", ", ".join(card["needs"])]] if card["needs"] else []
    rows.append(["Columns it fills", ", ".join(card["fills"])])
    for part in PARTS:
        if (each := card["parts"][part]) is not None:
            size = f"{each['sentences']:,} sentences, {each['words']:,} words"
            rows.append([part, f"{each['file']}: {size}"])
    rows.append(["Bytes of all files", f"{sum(card['files'].values()):,}"])
    lines += [*_table(["", ""], [list(map(_safe, row)) for row in rows]), ""]
    lines += ["## Scores", "", *_score_lines(card["scores"]), ""]
    lines += ["## Training", "", *_fenced(card["command"])]
    return "\n".join(lines).rstrip("\n") + "\n"


def _score_lines(scores: list[dict[str, Any]]) -> list[str]:
    """A table with a row for each measure; a column for each part and what it was parsed from."""
    if not scores:
        return ["None were measured."]
    names = list(dict.fromkeys(name for each in scores for name in each["measures"]))
    heads = [
        f"{each['part']}, from {'raw text' if each['from'] == 'text' else 'words'}"
        + (f" and gold {', '.join(each['given'])}" if each["given"] else "")
        for each in scores
    ]
    rows = [
        [_safe(name)]
        + [f"{each['measures'][name]:.2f}" if name in each["measures"] else "" for each in scores]
        for name in names
    ]
    notes = "Percent. From raw text: F over aligned words, as in the CoNLL 2018 shared task."
    return [*_table(["", *heads], rows), "", notes]


def _table(heads: list[str], rows: list[list[str]]) -> list[str]:
    lines = [heads, ["---"] * len(heads), *rows]
    return [f"| {' | '.join(line)} |" for line in lines]


def _fenced(text: str) -> list[str]:
    """A block of code; the text may have fences of its own."""
    longest = max(map(len, re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return [f"{fence}sh", text, fence, ""]


def _safe(text: str) -> str:
    """A text without what Markdown and HTML read as more than text."""
    return re.sub(r"([\\`*<>|\[\]&#])", r"\\\1", text)


def _fits(value: Any, shape: Any) -> bool:
    """True if plain data has a shape: see `_SHAPE`."""
    if isinstance(shape, tuple):
        return any(_fits(value, each) for each in shape)
    if isinstance(shape, list):
        return isinstance(value, list) and all(_fits(each, shape[0]) for each in value)
    if isinstance(shape, dict):
        return (
            isinstance(value, dict)
            and (str in shape or value.keys() == shape.keys())
            and all(
                _is_text(name) and _fits(each, shape.get(name, shape.get(str)))
                for name, each in value.items()
            )
        )
    if shape is int:
        return type(value) is int and 0 <= value < 1 << 53
    if shape is float:
        return type(value) in (int, float) and 0 <= value <= 100
    if shape in (str, bool, None):
        return _is_text(value) if shape is str else type(value) is (shape or type(None))
    return isinstance(value, str) and value in shape


def _is_text(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value) <= 100_000 and value.isprintable()


# Fields of a card and what they may be: a tuple has alternatives, a list the shape of each item, a
# table the shapes of its keys, or of any key under `str`; int is a count, float a percentage.
_PART = {"file": str, "sentences": int, "words": int}
_COLUMNS = [frozenset(COLUMNS)]
_SCORES = {
    "part": frozenset(("dev", "test")), "from": frozenset(("words", "text")), "given": _COLUMNS,
    "measures": {str: float},
}  # fmt: skip
_SHAPE: dict[str, Any] = {
    "gpuparse": str, "model": str,
    "package": (None, {"name": str, "version": str, "licence": str}),
    "treebank": (None, str), **dict.fromkeys(Facts._fields[1:], (None, str)),
    "parts": {part: _PART if part == "train" else (None, _PART) for part in PARTS},
    "stages": [frozenset(STAGES)], "decoder": (None, str), "graphs": bool,
    "encoder": (None, str), "encoder_licence": (None, str), "text": bool,
    "needs": _COLUMNS, "fills": _COLUMNS, "scores": [_SCORES], "command": str,
    "files": {str: int},
}  # fmt: skip
