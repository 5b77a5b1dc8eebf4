"""All treebanks of a release: learned and scored one after the other, from words and from text."""

import argparse
import json
import time
from collections.abc import Mapping
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

from benchmarks.models import can_run_udpipe
from benchmarks.pipelines import parse_with, parse_with_udpipe, raw_text, words_of
from benchmarks.registry import Report
from gpuparse.config import RunConfig, load_config
from gpuparse.data.array_file import sha256
from gpuparse.data.conll import read_part, read_treebank, treebank_from_bytes
from gpuparse.data.folders import find_parts, part_files
from gpuparse.data.treebank import Treebank
from gpuparse.errors import ConfigError, DataError, one_line
from gpuparse.evaluation.metrics import score_treebanks
from gpuparse.evaluation.words import score_words
from gpuparse.files import replace_file
from gpuparse.jobs.card import read_card
from gpuparse.jobs.checkpoint import is_unfinished
from gpuparse.jobs.gold import with_fitting_decoder
from gpuparse.jobs.progress import say
from gpuparse.jobs.receipts import Origin, Receipt, flat
from gpuparse.jobs.stages import accuracies
from gpuparse.jobs.train import train
from gpuparse.jobs.train_checks import plan_of
from gpuparse.model.folder import CONFIG
from gpuparse.text.conllu import surface_sentences

GATE = (
    "tests/jobs/test_card.py",
    "tests/commands/test_stages.py",
    "tests/evaluation/test_words.py",
)
UDPIPE = "UDPipe 1"
# Title of a column, and the measure; those of text come after those of words.
WORDS = {
    "UPOS": "UPOS", "XPOS": "XPOS", "FEATS": "UFeats", "lemmas": "Lemmas", "UAS": "uas",
    "LAS": "las",
}  # fmt: skip
TEXT = {
    "tokens": "tokens", "sentences": "sentences", "words": "words", "UAS": "uas", "LAS": "las",
}  # fmt: skip
COSTS = ("learned, s", "MB", "words/s")
_TIMED = 50_000  # words that are parsed at least to take the time
_NO_RELATION = "no_relation"  # UDPipe takes no relation `_`
_AGAIN = "name another --output, or remove this file"
_DEFAULTS = ("", "", "")  # of UDPipe's tokeniser, tagger and parser


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "folder", type=Path, metavar="FOLDER", help="a release: a sub-folder for each treebank"
    )
    parser.add_argument(
        "--config", nargs="+", action="append", metavar=("NAME", "KEY=VALUE"),
        help="a config of all treebanks; several ones are compared (pipeline)",
    )  # fmt: skip
    parser.add_argument(
        "--output",
        type=Path,
        default=Path("runs/languages"),
        metavar="DIR",
        help="models and results; what is there is not done again (%(default)s)",
    )
    parser.add_argument("--udpipe", action="store_true", help="learn UDPipe 1 too: it takes hours")
    parser.add_argument(
        "--published", type=Path, metavar="FILE.json", help="treebank -> system -> column -> figure"
    )


def check(options: argparse.Namespace) -> None:
    """Raise ConfigError for options that cannot be followed to the end."""
    if not options.folder.is_dir():
        raise ConfigError(f"{options.folder}: no such folder; give one with treebanks in it")
    treebanks, left_out = found_in(options.folder)
    if not treebanks:
        reasons = "; ".join(left_out) or "it has no sub-folders"
        raise ConfigError(f"{options.folder}: has no folder of a treebank: {reasons}")
    systems = _systems(options)
    for system in systems:
        _config(system, treebanks[0], options)
    if len({Path(words[0]).stem for words in systems}) < len(systems):
        raise ConfigError("--config: two configs have the same name")
    _published(options)
    if options.udpipe and not can_run_udpipe():
        raise ConfigError("--udpipe: needs ufal.udpipe, which is not installed here")
    if options.udpipe and options.threads != 1:
        raise ConfigError("UDPipe 1 runs with one thread, so --threads must be 1")


def found_in(folder: Path) -> tuple[list[Path], list[str]]:
    """The sub-folders that are treebanks, and why others are none."""
    treebanks, left_out = [], []
    for path in sorted(path for path in folder.iterdir() if path.is_dir()):
        try:
            find_parts(str(path))
            treebanks.append(path)
        except ConfigError as error:
            left_out.append(str(error))
    return treebanks, left_out


def run(options: argparse.Namespace) -> Report:
    """One row a treebank, or two with UDPipe 1, and the means of all."""
    treebanks, left_out = found_in(options.folder)
    systems, published = _systems(options), _published(options)
    names = [Path(words[0]).stem for words in systems]
    head = ["treebank", "system", "sentences", "words", *_TITLES]
    rows: list[list[Any]] = []
    notes = []
    for folder in treebanks:
        for name, system in zip(names, systems, strict=True):
            made = _result(folder, system, options)
            notes += [f"{folder.name}: {note}" for note in made["notes"]]
            rows.append([folder.name, name, made["sentences"], made["words"], *_figures(made)])
            say("  ".join(_shown(cell) for cell in rows[-1]))
        for name, figures in published.get(folder.name, {}).items():
            rows.append([folder.name, name, None, None, *map(figures.get, _TITLES)])
    for name in dict.fromkeys(row[1] for row in rows) if len(treebanks) > 1 else ():
        own = [row for row in rows if row[1] == name]
        means = [_mean([row[c] for row in own]) for c in range(4, len(head))]
        rows.append(["mean", name, None, None, *means])
    if len({row[1] for row in rows}) == 1:
        rows, head = [row[:1] + row[2:] for row in rows], head[:1] + head[2:]
    n_first = len(head) - len(_TITLES)
    rows = [row[:n_first] + [_shown(cell) for cell in row[n_first:]] for row in rows]
    about = [
        f"{', '.join(' '.join(words) for words in systems)}. Sentences and words of the training"
        " part; scores of the test part, of dev where there is no test.",
        "From words: percent of the words with the right value in the whole column; LAS with the"
        " relation up to its first ':'. From text: F as in the CoNLL 2018 shared task.",
        "Means: over the treebanks that have the measure. Seconds of CPU time; words/s: from words,"
        " on one thread, the model read included; MB: of the files of the model.",
    ]
    return Report(
        "Treebanks",
        head,
        rows,
        [*about, *dict.fromkeys(notes), *(f"Left out: {why}" for why in left_out)],
    )


_TITLES = (*WORDS, *(f"text: {title}" for title in TEXT), *COSTS)


def _figures(made: Mapping[str, Any]) -> list[Any]:
    """The figures of a result, in the order of `_TITLES`."""
    scores = [made["words_scores"].get(key) for key in WORDS.values()]
    scores += [made["text_scores"].get(key) for key in TEXT.values()]
    return [*scores, *map(made["costs"].get, COSTS)]


def _systems(options: argparse.Namespace) -> list[list[str]]:
    """Each config with its keys, and UDPipe 1 if it is asked for."""
    return [*(options.config or [["pipeline"]]), *([[UDPIPE]] if options.udpipe else [])]


def _published(options: argparse.Namespace) -> dict[str, dict[str, dict[str, float]]]:
    """Figures of others by treebank, system and column. Raises: ConfigError: another file."""
    if options.published is None:
        return {}
    try:
        found = dict(json.loads(options.published.read_text("utf-8")))
        columns = {c for systems in found.values() for each in systems.values() for c in each}
    except (OSError, ValueError, AttributeError, TypeError) as error:
        raise ConfigError(f"{options.published}: cannot be read: {one_line(error)}") from None
    if unknown := columns - set(_TITLES):
        raise ConfigError(f"{options.published}: no such column: {min(unknown)}")
    return found


def _shown(cell: Any) -> str:
    if cell is None:
        return "-"
    return f"{cell:.2f}" if isinstance(cell, float) else str(cell)


def _mean(values: list[float | None]) -> float | None:
    there = [value for value in values if value is not None]
    return fmean(there) if there else None


def _config(system: list[str], folder: Path, options: argparse.Namespace) -> RunConfig:
    """The config of a system on a treebank; that of UDPipe 1 has the files alone."""
    name, *keys = ["pipeline"] if system == [UDPIPE] else system
    output = options.output / Path(system[0]).stem / folder.name
    keys += [f"data.treebank={folder}", f"output={output}", f"threads={options.threads}"]
    return load_config(name, keys)


def _result(folder: Path, system: list[str], options: argparse.Namespace) -> dict[str, Any]:
    """The scores of a system on a treebank: those of an earlier run, or what is done now."""
    config, name = _config(system, folder, options), Path(system[0]).stem
    path = options.output / f"{folder.name}.{name}.json"
    (options.output / name).mkdir(parents=True, exist_ok=True)
    parts = [part for part in (config.data.train, config.data.dev, config.data.test) if part]
    files = [file for part in parts for file in part_files(part)]
    contents = {Path(file).name: sha256(Path(file).read_bytes()) for file in files}
    origin = Origin(flat(asdict(config.recorded())) | {"system": name}, contents)
    if path.exists():
        kept = Receipt.of_text(path.read_text("utf-8"), path, _AGAIN)
        kept.origin.check(origin, path, _AGAIN)
        return kept.result
    say(f"{folder.name}: {name} learns")
    made: dict[str, Any] = dict.fromkeys(("sentences", "words"))
    made |= {"words_scores": {}, "text_scores": {}, "costs": {}, "notes": []}
    try:
        train = read_part(config.data.train)
        made |= {"sentences": len(train), "words": train.n_words}
        config, made["notes"] = with_possible_stages(config, train)
        made |= _scored(config, name)
    except DataError as error:  # the other treebanks can be learned
        made["notes"].append(f"{name}: {one_line(error)}")
    Receipt(origin, made).write(path)
    return made


def with_possible_stages(config: RunConfig, train: Treebank) -> tuple[RunConfig, list[str]]:
    """The config without a tokeniser where the treebank has no text, and a note that says so.

    Training itself leaves out stages whose columns are empty.
    """
    if not config.tokenizer.learn or has_text(train):
        return config, []
    config = replace(config, tokenizer=replace(config.tokenizer, learn=False))
    return config, ["no text, so no tokeniser and no scores from text"]


def has_text(treebank: Treebank) -> bool:
    """True if a treebank says how its tokens are written: `# text`, or spaces in MISC."""
    return any(
        sentence.text is not None or any(token.after is not None for token in sentence.tokens)
        for sentence in surface_sentences(treebank)
    )


def _scored(config: RunConfig, system: str) -> dict[str, Any]:
    """Learn, if that is not done, and score on data.test or data.dev."""
    model, began, is_new = Path(config.output), time.process_time(), False
    if system != UDPIPE:
        is_new = not model.exists()
        learn_ours(config)
        card = read_card(model)
        assert card is not None
        needs, reads_text = card["needs"], card["text"]
        size, parse = sum(card["files"].values()), partial(parse_with, model)
    else:
        reads_text = has_text(read_part(config.data.train))
        if is_new := not model.exists():
            learn_udpipe(
                config.data.train, config.data.dev, model, _DEFAULTS, with_tokenizer=reads_text
            )
        needs, size, parse = [], model.stat().st_size, partial(parse_with_udpipe, model)
    # Of a training that was interrupted, only a part of the time is known.
    costs = {COSTS[0]: time.process_time() - began if is_new else None, COSTS[1]: size / 1e6}
    made: dict[str, Any] = {"words_scores": {}, "text_scores": {}, "costs": costs}
    file = config.data.test or config.data.dev
    if file is None:
        return made
    gold, work = read_part(file), model.parent / ".work"
    work.mkdir(exist_ok=True)
    words, many, n_copies = work / "words.conllu", work / "many.conllu", -(-_TIMED // gold.n_words)
    words.write_bytes(words_of(gold, needs))
    many.write_bytes(n_copies * (words.read_bytes().rstrip() + b"\n\n"))
    parse(words, work / "out", "words")
    found = _with_relations(read_treebank(work / "out" / words.name))
    began = time.process_time()
    parse(many, work / "out", "words")
    costs[COSTS[2]] = n_copies * gold.n_words / (time.process_time() - began)
    arcs = score_treebanks(gold, found)
    made["words_scores"] = accuracies(gold, found)
    made["words_scores"] |= {"uas": arcs.uas.percent, "las": arcs.las.percent}
    if reads_text:
        text = work / "text.txt"
        text.write_bytes(raw_text(Path(file)))
        parse(text, work / "out", "text")
        hits = score_words(gold, _with_relations(read_treebank(work / "out" / "text.conllu")))
        made["text_scores"] = {key: hits[key].counts.f for key in TEXT.values() if key in hits}
    return made


def learn_ours(config: RunConfig) -> None:
    """Train a model, or go on with a training that was interrupted; a finished one is kept.

    Raises: ConfigError: there is a model of another config.
    """
    output, config = Path(config.output), with_fitting_decoder(config)
    unfinished = is_unfinished(output)
    if unfinished or not (output / CONFIG).exists():
        train(plan_of(config, say), resume=unfinished, force=False, quiet=True)
    elif (output / CONFIG).read_text(encoding="utf-8") != config.recorded().to_yaml():
        raise ConfigError(f"{output}: a model of another config; name another --output")


def learn_udpipe(
    train: str, dev: str | None, path: Path, options: tuple[str, str, str], *, with_tokenizer: bool
) -> None:
    """Learn a tokeniser, tagger and parser of UDPipe 1.

    Args: options: of the three, as UDPipe's manual has them; "": its defaults.
    Raises: DataError: UDPipe does not take the treebank.
    """
    from ufal import udpipe

    of_tokenizer, of_tagger, of_parser = options
    if not _has_ud_roots(read_part(train)):
        of_parser = ";".join(filter(None, (of_parser, "single_root=0")))
    sentences = [_udpipe_sentences(file) if file else udpipe.Sentences() for file in (train, dev)]
    error = udpipe.ProcessingError()
    learned = udpipe.Trainer.train(
        "morphodita_parsito", *sentences,
        of_tokenizer if with_tokenizer else udpipe.Trainer.NONE, of_tagger, of_parser, error,
    )  # fmt: skip
    if error.occurred():
        raise DataError(f"{train}: UDPipe 1 learns nothing from it: {error.message}")
    with replace_file(path) as file:
        file.write(learned)


def _has_ud_roots(treebank: Treebank) -> bool:
    """True if each sentence has one root, with the relation `root`, as UDPipe expects it."""
    return all(
        [label for head, label in zip(each.heads, each.labels, strict=True) if head == 0]
        == ["root"]
        for each in treebank
    )


def _udpipe_sentences(path: str) -> Any:
    """A treebank as UDPipe reads it; a relation `_` gets a name."""
    from ufal import udpipe

    reader = udpipe.InputFormat.newConlluInputFormat()
    lines = [_renamed(line, "_", _NO_RELATION) for line in _lines(read_part(path).data.tobytes())]
    reader.setText("\n".join(lines))
    found, error = udpipe.Sentences(), udpipe.ProcessingError()
    sentence = udpipe.Sentence()
    while reader.nextSentence(sentence, error):
        found.append(sentence)
        sentence = udpipe.Sentence()
    if error.occurred():
        raise DataError(f"{path}: UDPipe 1 does not read it: {error.message}")
    return found


def _with_relations(system: Treebank) -> Treebank:
    """A parsed treebank in which the relation `_` has its name again."""
    lines = [_renamed(line, _NO_RELATION, "_") for line in _lines(system.data.tobytes())]
    return treebank_from_bytes("\n".join(lines).encode(), system.source)


def _lines(content: bytes) -> list[str]:
    return content.decode().replace("\r\n", "\n").split("\n")


def _renamed(line: str, before: str, after: str) -> str:
    """A line with another relation; lines of multiword tokens and comments stay."""
    fields = line.split("\t")
    if len(fields) < 8 or not fields[0].isdecimal() or fields[7] != before:
        return line
    return "\t".join([*fields[:7], after, *fields[8:]])
