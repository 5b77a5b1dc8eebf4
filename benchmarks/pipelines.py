"""Whole pipelines, UDPipe 1 and spaCy among them: the measures of CoNLL 2018, words per second."""

import argparse
import io
import tempfile
import time
from collections.abc import Callable
from contextlib import redirect_stdout
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from benchmarks import models, plots
from benchmarks.registry import Report, median_times
from gpuparse.data.conll import read_treebank, stream_treebanks
from gpuparse.data.treebank import Treebank
from gpuparse.errors import ConfigError
from gpuparse.evaluation.reports import WORD_MEASURES
from gpuparse.evaluation.words import score_words
from gpuparse.text.conllu import text_pieces

GATE = ("tests/commands/test_stages.py", "tests/evaluation/test_words.py")
TEXT, WORDS = "text", "words"
COLUMNS = ("ID", "FORM", "LEMMA", "UPOS", "XPOS", "FEATS", "HEAD", "DEPREL", "DEPS", "MISC")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "models",
        nargs="+",
        type=Path,
        metavar="MODEL",
        help="a model folder with a tagger and a parser, a file of UDPipe 1, or spacy:PACKAGE",
    )
    parser.add_argument("--treebank", type=Path, required=True, help="gold annotation")
    parser.add_argument(
        "--from",
        dest="start",
        choices=(TEXT, WORDS),
        default=TEXT,
        help="start from the treebank's raw text, or from its words (%(default)s)",
    )
    parser.add_argument("--copies", type=int, default=5, help="of the input in the timed file")
    parser.add_argument(
        "--plot", type=Path, metavar="FILE.svg", help="also draw LAS against words per second"
    )


def check(options: argparse.Namespace) -> None:
    """Raise ConfigError for options that cannot be followed to the end."""
    of_spacy = [model for model in options.models if _package(model)]
    for model in of_spacy:
        if not find_spec("spacy") or not find_spec(_package(model)):
            raise ConfigError(f"{model}: needs spacy and the package {_package(model)}")
        if options.start != TEXT:
            raise ConfigError(f"{model}: spaCy reads raw text, without --from words")
    for model in set(options.models) - set(of_spacy):
        if not model.exists():
            raise ConfigError(f"{model}: no such model folder, and no such file of UDPipe 1")
    models.check(options)
    if options.threads != 1:
        raise ConfigError("UDPipe 1 runs with one thread, so --threads must be 1")


def run(options: argparse.Namespace) -> Report:
    """One column a model; they take turns. CPU time from file to file, loading included."""
    gold = read_treebank(options.treebank)
    names = [
        _package(model) or (model.stem if model.is_file() else model.name)
        for model in options.models
    ]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        suffix = ".txt" if options.start == TEXT else ".conllu"
        once, many = folder / f"once{suffix}", folder / f"many{suffix}"
        content = raw_text(options.treebank) if options.start == TEXT else words_of(gold, [])
        once.write_bytes(content)
        many.write_bytes(b"\n\n".join([content.rstrip()] * options.copies) + b"\n\n")
        runs = {
            name: partial(_runner(model), model, start=options.start)
            for name, model in zip(names, options.models, strict=True)
        }
        calls: dict[str, Callable[[], object]] = {
            name: partial(run, text=many, output=folder / name) for name, run in runs.items()
        }
        seconds = median_times(calls, options, clock=time.process_time)
        scores = {}
        for name, run in runs.items():
            run(text=once, output=folder / name)
            system = read_treebank((folder / name / once.name).with_suffix(".conllu"))
            scores[name] = score_words(gold, system)
    rows: list[list[object]] = []
    for label, measure in WORD_MEASURES:
        if measure not in scores[names[0]]:
            continue
        values = [scores[name][measure].counts.f or 0.0 for name in names]
        rows.append([label, *(f"{value:.2f}" for value in values)])
    speeds = [gold.n_words * options.copies / seconds[name] for name in names]
    if options.plot:
        marks: dict[str, list[tuple[str, float, float]]] = {}
        for name, model, speed in zip(names, options.models, speeds, strict=True):
            parser = "spaCy" if _package(model) else "UDPipe 1" if model.is_file() else "gpuparse"
            las = scores[name]["las"].counts.f or 0.0
            marks.setdefault(parser, []).append((name, speed, las))
        plots.draw_accuracy(marks, options.plot)
    rows.append(["words/s", *speeds])
    rows.append(["speed, of the last", *(speed / speeds[-1] for speed in speeds)])
    notes = [
        f"{options.treebank.name}, from {options.start}; F of the measures of CoNLL 2018.",
        f"{options.copies} times over, one thread; median of {options.repeats} rounds of CPU time,"
        " models read included.",
    ]
    return Report("Pipelines", ["measure", *names], rows, notes)


def words_of(gold: Treebank, needs: list[str]) -> bytes:
    """The words of a treebank with the columns that a model needs, and no other annotation."""
    kept = {0, 1, *(COLUMNS.index(name) for name in needs)}
    lines = []
    for line in gold.data.tobytes().decode().replace("\r\n", "\n").split("\n"):
        fields = line.split("\t")
        if not line.startswith("#") and len(fields) >= 8:
            fields = [field if at in kept else "_" for at, field in enumerate(fields)]
        lines.append("\t".join(fields))
    return "\n".join(lines).encode()


def raw_text(path: Path) -> bytes:
    """The raw text of a treebank."""
    with path.open("rb") as file:
        return "".join(text_pieces(stream_treebanks(file, str(path)))).encode()


def _package(model: Path) -> str:
    """The package of a model of spaCy, or nothing."""
    start, _, package = str(model).partition(":")
    return package if start == "spacy" else ""


def _runner(model: Path) -> Callable[..., None]:
    """The function that parses with a model."""
    if _package(model):
        return _spacy
    return parse_with_udpipe if model.is_file() else parse_with


def _spacy(model: Path, text: Path, output: Path, start: str) -> None:
    """Run a pipeline of spaCy without named entities, paragraph by paragraph."""
    import spacy

    pipeline = spacy.load(_package(model), exclude=["ner"])
    lines = []
    paragraphs = text.read_text("utf-8").split("\n\n")
    for document in pipeline.pipe(" ".join(each.split()) for each in paragraphs if each.strip()):
        for sentence in document.sents:
            words = [token for token in sentence if not token.is_space]
            places = {token.i: place for place, token in enumerate(words, 1)}
            for token in words:
                head = 0 if token.head == token else places.get(token.head.i, 0)
                relation = "root" if token.dep_ == "ROOT" else token.dep_ or "_"
                fields = [token.text, token.lemma_ or "_", token.pos_ or "_", token.tag_ or "_"]
                fields += [str(token.morph) or "_", str(head), relation, "_", "_"]
                lines.append("\t".join([str(places[token.i]), *fields]))
            if words:
                lines.append("")
    output.mkdir(exist_ok=True)
    file = (output / text.name).with_suffix(".conllu")
    file.write_text("".join(f"{line}\n" for line in lines), "utf-8")


def parse_with(model: Path, text: Path, output: Path, start: str) -> None:
    with redirect_stdout(io.StringIO()):
        models.parse_file(model, text, output)


def parse_with_udpipe(model: Path, text: Path, output: Path, start: str) -> None:
    """Run UDPipe 1 with its defaults. Raises: ModelError, DataError: as `parse_by_udpipe`."""
    models.parse_by_udpipe(model, text, output, 0, "tokenize" if start == TEXT else "conllu")
