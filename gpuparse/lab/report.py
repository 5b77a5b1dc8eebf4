"""What a report says of a run: its model parses the gold file, and is scored."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gpuparse.confidence import parse_with_confidence
from gpuparse.config import SYNTHETIC
from gpuparse.data.columns import DEPREL
from gpuparse.data.conll import read_part, read_treebank, treebank_from_bytes
from gpuparse.data.graphs import missing_graphs
from gpuparse.data.guides import read_guides
from gpuparse.data.scanner import column_name
from gpuparse.data.treebank import Treebank
from gpuparse.errors import ConfigError, DataError, option
from gpuparse.evaluation.errors import find_errors
from gpuparse.evaluation.graphs import GraphScores
from gpuparse.evaluation.reliability import HEAD, misc_probabilities
from gpuparse.evaluation.treebanks import (
    measure_reliability_of_treebanks,
    score_treebank_graphs,
    score_treebanks,
)
from gpuparse.files import STANDARD
from gpuparse.inference.decoders import DECODERS, with_quantity
from gpuparse.installed import find_model, model_hint
from gpuparse.jobs.gold import read_gold
from gpuparse.jobs.parse import missing_columns
from gpuparse.jobs.predictions import written
from gpuparse.jobs.progress import say
from gpuparse.jobs.records import read_metrics, read_scores
from gpuparse.jobs.resources import thread_count
from gpuparse.lab.report_page import System
from gpuparse.model_folder import load_parser
from gpuparse.parser import Parser
from gpuparse.pipeline import NO_STAGES, load_stages


def model_of(run: str) -> Path | None:
    """The folder of the model of a run; None of a parsed file.

    Raises: DataError: there is neither.
    """
    path = Path(run) if run == STANDARD or os.path.exists(run) else find_model(run)
    if run != STANDARD and not path.exists():
        raise DataError(f"{run}: no such model, and no such file; {model_hint(run)}")
    return path if path.is_dir() else None


def gold_of(runs: Sequence[str], given: str | None) -> tuple[Treebank, str | None]:
    """The gold treebank, and the part of a model's data that it is; None for another file."""
    if given is not None:
        return read_treebank(given), None
    run, folder = next(((run, path) for run in runs if (path := model_of(run))), (runs[0], None))
    record = read_scores(folder) if folder else {}
    files = record.get("files")
    for part in ("test", "dev"):
        path = files.get(part) if isinstance(files, dict) else None
        if isinstance(path, str):
            return _recorded(path, skips=record.get("on_error") == "skip"), part
    what = "its training had no data.test and no data.dev" if files else "its test file is unknown"
    raise ConfigError(f"{run}: {what}: give a file with {option('gold')}")


def _recorded(path: str, *, skips: bool) -> Treebank:
    """A treebank of a run, read as training reads it."""
    if not (skips or path.startswith(SYNTHETIC)):
        return read_part(path)
    on_error = "skip" if skips else "fail"
    return read_gold(path, on_error=on_error, single_root=False, graphs=False, tell=say).treebank


def system_of(
    run: str, gold: Treebank, part: str | None, *, ignored: np.ndarray | None, threads: int
) -> System:
    """A run, parsed and scored."""
    record: dict[str, Any] = {}
    metrics: list[dict[str, Any]] = []
    is_calibrated = graphs = None
    if folder := model_of(run):
        record, metrics = read_scores(folder), read_metrics(folder)
        model = load_parser(folder)
        tagged = load_stages(folder).filled_by(model).annotate(gold, threads=threads)
        parsed, has_probabilities = _parsed(model, tagged, record, part, threads)
        is_calibrated = model.scales.is_calibrated if has_probabilities else None
        labelled = bool(model.labels)
        graphs = _graph_scores(model, gold, parsed, ignored)
    else:
        parsed = read_treebank(run)
        has_probabilities = True
        labelled = any(parsed.column(w, DEPREL) != "_" for w in range(parsed.n_words))
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
                f"the model reads guides: parse the file with {option('guide')}, and give the"
                f" parsed file in place of the model, and {option('gold')}"
            )
        guides = read_guides(gold, source)
    count = thread_count(threads)
    for column, fields in missing_columns(gold, model, NO_STAGES).items():
        say(
            f"{gold.source}: {column_name(column)} is _ in every word; the model reads {fields}"
            " there"
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
