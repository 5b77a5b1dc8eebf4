"""`report`: one HTML page about what a parser gets right and wrong, or two of them."""

import argparse
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gpuparse.commands.console import exit_codes
from gpuparse.commands.evaluate import add_punctuation_options, ignored_words, whole_number
from gpuparse.commands.report_page import Report, System, page
from gpuparse.confidence import parse_with_confidence
from gpuparse.config import SYNTHETIC
from gpuparse.data.conll import read_treebank, treebank_from_bytes
from gpuparse.data.graphs import missing_graphs
from gpuparse.data.guides import read_guides
from gpuparse.data.treebank import Treebank
from gpuparse.errors import ConfigError, DataError
from gpuparse.evaluation.errors import find_errors
from gpuparse.evaluation.graphs import GraphScores
from gpuparse.evaluation.reliability import HEAD, misc_probabilities
from gpuparse.evaluation.treebanks import (
    compare_treebanks,
    measure_reliability_of_treebanks,
    score_treebank_graphs,
    score_treebanks,
)
from gpuparse.files import check_new_file, replace_file
from gpuparse.inference.decoders import DECODERS, with_quantity
from gpuparse.jobs.gold import read_gold
from gpuparse.jobs.parse import missing_columns
from gpuparse.jobs.predictions import written
from gpuparse.jobs.progress import program, say
from gpuparse.jobs.records import read_metrics, read_scores
from gpuparse.jobs.resources import thread_count
from gpuparse.model_folder import load_parser
from gpuparse.parser import Parser
from gpuparse.pipeline import NO_STAGES, load_stages

PAGE = "report.html"
_DEPREL = 7


def main(arguments: Sequence[str]) -> int:
    """Write the page.

    Args:
        arguments: `RUN [OTHER] [--gold FILE] [--output FILE] [--force] [--sentences N]
            [--threads N] [--ignore-punct | --punct-tags TAG...]`.
    Returns: 0.
    Raises:
        ConfigError: the gold file is not known, or the page exists.
        DataError: a file cannot be used, or differs from gold in more than heads and relations.
        ModelError: a model cannot be used.
    Cost: parsing the gold file by each model.
    """
    options = _parser().parse_args(arguments)
    runs = [options.run] if options.other is None else [options.run, options.other]
    for run in runs:
        if run != "-" and not os.path.exists(run):
            raise DataError(f"{run}: no such folder of a model, and no such file")
    output = options.output or (Path(options.run) / PAGE if _is_folder(options.run) else PAGE)
    check_new_file(output, force=options.force)
    gold, part = _gold_of(runs, options.gold)
    ignored = ignored_words(gold, options)
    systems = [_system(run, gold, part, ignored=ignored, threads=options.threads) for run in runs]
    comparison = None
    if len(systems) == 2:
        comparison = compare_treebanks(gold, systems[0].parsed, systems[1].parsed, ignored=ignored)
    text = page(Report(gold, systems, comparison, options.sentences))
    with replace_file(output, force=options.force) as file:
        file.write(text.encode())
    say(f"{output}: written")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=program("report"),
        description="Write an HTML page about a run: scores, learning curves, errors by relation,"
        " part of speech, length, depth and projectivity, confusions of relations, reliability of"
        " probabilities, and the sentences with the most errors; or about two runs side by side,"
        " with tests whether they differ. Trees are those of HEAD and DEPREL; DEPS is read for"
        " models of graphs alone. docs/evaluating.md describes it.",
        epilog=exit_codes(0, 2, 3, 4, 5),
    )
    what = "folder of a trained model, which parses the gold file; or the gold file parsed by any"
    parser.add_argument("run", metavar="RUN", help=f"{what} parser")
    parser.add_argument("other", metavar="OTHER", nargs="?", help="another one, to compare with")
    parser.add_argument(
        "--gold",
        metavar="FILE",
        help="file with the right trees; the default is data.test of the model's training, or"
        " data.dev without it",
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help=f"the page; the default is {PAGE} in the folder RUN, or in the working directory",
    )
    parser.add_argument("--force", action="store_true", help="replace the page if it exists")
    parser.add_argument(
        "--sentences",
        type=whole_number(0),
        default=10,
        metavar="N",
        help="how many sentences to draw (default 10)",
    )
    parser.add_argument(
        "--threads",
        type=whole_number(0),
        default=0,
        metavar="N",
        help="threads to parse with; 0: one per available processor (default)",
    )
    add_punctuation_options(parser)
    return parser


def _is_folder(run: str) -> bool:
    return Path(run).is_dir()


def _gold_of(runs: Sequence[str], given: str | None) -> tuple[Treebank, str | None]:
    """The gold treebank, and the part of a model's data that it is; None for another file."""
    if given is not None:
        return read_treebank(given), None
    run = next(filter(_is_folder, runs), runs[0])
    record = read_scores(Path(run))
    files = record.get("files")
    for part in ("test", "dev"):
        path = files.get(part) if isinstance(files, dict) else None
        if isinstance(path, str):
            return _recorded(path, skips=record.get("on_error") == "skip"), part
    what = "its training had no data.test and no data.dev" if files else "its test file is unknown"
    raise ConfigError(f"{run}: {what}: give --gold FILE")


def _recorded(path: str, *, skips: bool) -> Treebank:
    """A treebank of a run, read as training reads it."""
    if not (skips or path.startswith(SYNTHETIC)):
        return read_treebank(path)
    on_error = "skip" if skips else "fail"
    return read_gold(path, on_error=on_error, single_root=False, graphs=False, tell=say).treebank


def _system(
    run: str, gold: Treebank, part: str | None, *, ignored: np.ndarray | None, threads: int
) -> System:
    """A run, parsed and scored."""
    record: dict[str, Any] = {}
    metrics: list[dict[str, Any]] = []
    is_calibrated = graphs = None
    if _is_folder(run):
        record, metrics = read_scores(Path(run)), read_metrics(Path(run))
        model = load_parser(Path(run))
        tagged = load_stages(Path(run)).annotate(gold, threads=threads)
        parsed, has_probabilities = _parsed(model, tagged, record, part, threads)
        is_calibrated = model.scales.is_calibrated if has_probabilities else None
        labelled = bool(model.labels)
        graphs = _graph_scores(model, gold, parsed, ignored)
    else:
        parsed = read_treebank(run)
        has_probabilities = True
        labelled = any(parsed.column(w, _DEPREL) != "_" for w in range(parsed.n_words))
    scores = score_treebanks(gold, parsed, ignored=ignored)
    if has_probabilities:
        has_probabilities = not np.isnan(misc_probabilities(parsed, HEAD)).all()
    return System(
        name=run,
        parsed=parsed,
        labelled=labelled,
        scores=scores,
        errors=find_errors(gold, parsed, ignored=ignored),
        graphs=graphs,
        reliability=measure_reliability_of_treebanks(gold, parsed, ignored=ignored)
        if has_probabilities else {},
        is_calibrated=is_calibrated,
        record=record,
        metrics=metrics,
    )  # fmt: skip


def _parsed(
    model: Parser, gold: Treebank, record: dict[str, Any], part: str | None, threads: int
) -> tuple[Treebank, bool]:
    """The treebank as a model parses it, and whether with probabilities."""
    guides = None
    if model.linear.templates.guide:
        sources = record.get("guides")
        source = sources.get(part) if isinstance(sources, dict) else None
        if not isinstance(source, str):
            raise ConfigError(
                "the model reads guides: parse the file with --guide, and give the parsed file in"
                " place of the model, and --gold"
            )
        guides = read_guides(gold, source)
    count = thread_count(threads)
    for column, fields in missing_columns(gold, model, NO_STAGES).items():
        say(
            f"{gold.source}: column {column + 1} is _ in every word; the model reads {fields} there"
        )
    can_sum = model.search_decoder in with_quantity("marginals", "native")
    if can_sum:
        found = parse_with_confidence(model, gold, guides=guides, threads=count)
    else:
        found = model.parse(gold, guides=guides, threads=count)
    return treebank_from_bytes(written(model, gold, found), f"{gold.source}, parsed"), can_sum


def _graph_scores(
    model: Parser, gold: Treebank, parsed: Treebank, ignored: np.ndarray | None
) -> GraphScores | None:
    """Of a model of graphs, if the gold file has graphs."""
    if not DECODERS[model.decoder].gives_graphs or missing_graphs(gold).all():
        return None
    return score_treebank_graphs(gold, parsed, "deps", ignored=ignored)
