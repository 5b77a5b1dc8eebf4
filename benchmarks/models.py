"""Saved models, those of UDPipe 1 among them: accuracy, and words per second from file to file."""

import argparse
import tempfile
import time
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from benchmarks import plots
from benchmarks.registry import Report, median_times
from gpuparse.commands import parse
from gpuparse.data.conll import read_treebank
from gpuparse.errors import ConfigError, DataError, ModelError
from gpuparse.evaluation.metrics import score_treebanks

GATE = ("tests/test_model.py", "tests/test_vector_models.py")
OURS, UDPIPE = "gpuparse", "UDPipe 1"
DEFAULT_BEAM = 5  # that of UDPipe


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "models",
        nargs="+",
        type=Path,
        metavar="MODEL",
        help="a model folder, or a file of UDPipe 1",
    )
    parser.add_argument("--treebank", type=Path, required=True, help="gold trees to parse")
    parser.add_argument("--copies", type=int, default=20, help="of the treebank in the timed file")
    parser.add_argument(
        "--beams", nargs="+", type=int, default=[DEFAULT_BEAM], metavar="SIZE",
        help="of UDPipe's search, each a row of its own (%(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--plot", type=Path, metavar="FILE.svg", help="also draw LAS against words per second"
    )


def check(options: argparse.Namespace) -> None:
    """Raise ConfigError for options that cannot be followed to the end."""
    if options.plot and not plots.can_plot():
        raise ConfigError("--plot needs matplotlib, which is not installed")
    files = [str(model) for model in options.models if model.is_file()]
    if files and not can_run_udpipe():
        raise ConfigError(f"{files[0]}: a model of UDPipe 1 needs ufal.udpipe, not installed here")
    if files and options.threads != 1:
        raise ConfigError(f"{files[0]}: UDPipe 1 runs with one thread, so --threads must be 1")


def can_run_udpipe() -> bool:
    """True if the Python package of UDPipe 1 is installed; it is imported to parse only."""
    return bool(find_spec("ufal") and find_spec("ufal.udpipe"))


def run(options: argparse.Namespace) -> Report:
    """One row a model; they take turns. The start of the command is not timed, loading is."""
    gold = read_treebank(options.treebank)
    words = gold.n_words * options.copies
    parsers = _parsers(options)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        text, output = folder / "input.conllu", folder / "out"
        text.write_bytes(gold.data.tobytes() * options.copies)
        calls = {
            model: partial(parse, text=text, output=output) for model, (_, parse) in parsers.items()
        }
        # A parse has threads of its own for reading and writing.
        clock = time.process_time if options.threads == 1 else time.perf_counter
        seconds = median_times(calls, options, clock=clock)
        first = next(iter(seconds.values()))
        rows, marks = [], {}
        for model, (by, parse) in parsers.items():
            parse(text=options.treebank, output=output)
            scores = score_treebanks(gold, read_treebank(output / options.treebank.name))
            speed, uas, las = words / seconds[model], scores.uas.percent, scores.las.percent
            rows.append([model, f"{uas:.2f}", f"{las:.2f}", speed, first / seconds[model]])
            marks.setdefault(by, []).append((model, speed, las))
    notes = [
        f"{options.treebank.name}, {options.copies} times over, {words:,} words,"
        f" {options.threads} threads; median of {options.repeats} rounds"
        f" of {'CPU time' if options.threads == 1 else 'time'}.",
    ]
    if options.plot:
        plots.draw_accuracy(marks, options.plot)
    columns = ["model", "UAS", "LAS", "words/s", "speed, of the first"]
    return Report("Accuracy and speed of models", columns, rows, notes)


def _parsers(options: argparse.Namespace) -> dict[str, tuple[str, Callable[..., None]]]:
    """Name of a row -> whose parser it is, and a function of `text` and `output`."""
    found: dict[str, tuple[str, Callable[..., None]]] = {}
    for model in options.models:
        rows: dict[str, tuple[str, Callable[..., None]]] = {}
        if model.is_file():
            for beam in options.beams:
                parse = partial(parse_by_udpipe, model, beam=beam)
                rows[f"{model.stem}, beam {beam}"] = UDPIPE, parse
        else:
            rows[model.name] = OURS, partial(parse_file, model, threads=options.threads)
        for name in rows:
            if name in found:
                raise ConfigError(f"two models have the name {name}")
        found |= rows
    return found


def parse_file(model: Path, text: Path, output: Path, threads: int = 1) -> None:
    """Parse a file by the command, on the CPU."""
    options = ["--output", f"{output}/", "--threads", str(threads), "--device", "cpu", "--quiet"]
    parse.main([str(model), str(text), *options, "--force"])


def parse_by_udpipe(
    model: Path, text: Path, output: Path, beam: int = DEFAULT_BEAM, kind: str = "conllu"
) -> None:
    """Parse a file by UDPipe 1; the heads in it are not looked at.

    Args:
        model: a model file with a parser.
        text: what to parse.
        output: a folder, into which a CoNLL-U file of the same name is written.
        beam: size of the search's beam, on the tags in the text; 1 is greedy; 0: the tagger and the
            parser run as they do by default.
        kind: "conllu", or "tokenize" for raw text.
    Raises:
        ModelError: the file is no such model.
        DataError: UDPipe does not take the text.
    """
    from ufal import udpipe

    loaded = udpipe.Model.load(str(model))
    if loaded is None:
        raise ModelError(f"{model}: not a model of UDPipe 1")
    none, default = udpipe.Pipeline.NONE, udpipe.Pipeline.DEFAULT
    how = (none, f"beam_search={beam}") if beam else (default, default)
    error = udpipe.ProcessingError()
    parsed = udpipe.Pipeline(loaded, kind, *how, "conllu").process(text.read_text("utf-8"), error)
    if error.occurred():
        raise DataError(f"{text}:1: UDPipe 1: {error.message}")
    output.mkdir(exist_ok=True)
    name = text.name if kind == "conllu" else f"{text.stem}.conllu"
    (output / name).write_text(parsed, "utf-8")
