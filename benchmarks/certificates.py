"""Dual decomposition of trained models: how many trees are certified, and all against the best."""

import argparse
import time
from pathlib import Path

import numpy as np

from benchmarks.registry import Report
from gpuparse.data.batch import Batch
from gpuparse.data.conll import read_treebank
from gpuparse.data.treebank import Treebank
from gpuparse.decoder_choice import with_decoder
from gpuparse.errors import ConfigError
from gpuparse.folder import load_parser
from gpuparse.inference.decoders import DECODERS
from gpuparse.parser import Parser
from gpuparse.scoring.exact import CrossingParts, best_tree, tree_score

GATE = (
    "tests/inference/test_dual_decomposition.py",
    "tests/inference/test_integer_program.py",
    "tests/scoring/test_larger.py",
)
ROUNDING = 1e-6  # of scores that are whole numbers


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "models", nargs="+", type=Path, metavar="MODEL",
        help="folders of models of dual_decomposition, or of hill_climb",
    )  # fmt: skip
    parser.add_argument("--treebank", type=Path, required=True, help="what they parse")
    parser.add_argument("--max-words", type=int, default=40, help="of exact trees")
    parser.add_argument("--exact", type=int, default=300, help="exact trees of each model, at most")


def run(options: argparse.Namespace) -> Report:
    """One row a model and search."""
    treebank = read_treebank(options.treebank)
    rows = [
        row
        for path in options.models
        for row in _rows(path.name, load_parser(path), treebank, options)
    ]
    columns = ["model", "search", "certified %", "iterations", "99%", "sent/s", "best %", "gap"]
    notes = [
        f"{options.treebank.name}, {len(treebank)} sentences; sent/s: from token ids to heads, one "
        "thread, CPU time; iterations: mean, and the most of 99 % of the sentences.",
        f"best %, gap: of at most {options.exact} sentences of up to {options.max_words} words, the"
        " trees that score as much as that of the integer program, and what the others miss on"
        " average, in points of score. No certified tree misses anything: that ends the run.",
    ]
    return Report("Certificates of dual decomposition", columns, rows, notes)


def _rows(
    name: str, model: Parser, treebank: Treebank, options: argparse.Namespace
) -> list[list[object]]:
    decoder = model.decoder
    if not {"sibling"} <= set(DECODERS[decoder].parts) or DECODERS[decoder].is_projective:
        raise ConfigError(f"{name}: learned with {decoder}, not with a search of crossing arcs")
    searches = [decoder] if decoder == "dual_decomposition" else [decoder, "dual_decomposition"]
    batch = model.encode(treebank)
    exact = with_decoder(model, "ilp", force=True)
    taken = np.flatnonzero(batch.lengths <= options.max_words)[: options.exact]
    best = {int(b): _best_score(exact, batch, int(b)) for b in taken}
    rows: list[list[object]] = []
    for search in searches:
        searcher = with_decoder(model, search, force=True)
        searcher.min_gain = 0.0  # what search misses, not what a model gives away
        searcher.search(batch.select(np.arange(min(2, len(batch)))))  # gets the kernels
        began = time.process_time()
        found = searcher.search(batch)
        seconds = time.process_time() - began
        marks = None
        if search == "dual_decomposition" and found.notes is not None:
            marks = found.notes.by_place[:, batch.starts]
        gaps = []
        for b, (score, parts) in best.items():
            start, n = int(batch.starts[b]), int(batch.lengths[b])
            gap = score - tree_score(parts, n, found.heads[start : start + n + 1])
            if gap < -ROUNDING or (marks is not None and marks[0, b] and gap > ROUNDING):
                raise AssertionError(f"{name}, sentence {b}: the best tree is {gap} better")
            gaps.append(max(gap, 0.0))
        missed = [gap for gap in gaps if gap > ROUNDING]
        row: list[object] = [name, search, None, None, None]
        if marks is not None:
            row[2:] = [
                100 * float(np.mean(marks[0] > 0)), float(np.mean(marks[1])),
                float(np.percentile(marks[1], 99)),
            ]  # fmt: skip
        row += [len(batch) / seconds, 100 * (1 - len(missed) / max(1, len(gaps)))]
        rows.append([*row, float(np.mean(missed)) if missed else 0.0])
    return rows


def _best_score(model: Parser, batch: Batch, b: int) -> tuple[float, CrossingParts]:
    """The score of the best tree of a sentence, and the parts that it is made of."""
    parts, n = model.crossing_parts(batch.select(np.array([b]))), int(batch.lengths[b])
    return tree_score(parts, n, best_tree(parts, n, single_root=model.single_root)), parts
