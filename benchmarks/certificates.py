"""Dual decomposition of trained models: how many trees are certified, and who else finds them."""

import argparse
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks.registry import Report
from gpuparse.data.batch import Batch
from gpuparse.data.conll import read_treebank
from gpuparse.data.treebank import Treebank
from gpuparse.decoder_choice import with_decoder
from gpuparse.engines.found import Found
from gpuparse.errors import ConfigError
from gpuparse.inference.decoders import DECODERS
from gpuparse.model_folder import load_parser
from gpuparse.parser import Parser

GATE = ("tests/inference/test_dual_decomposition.py", "tests/scoring/test_higher_order.py")
DUAL = "dual_decomposition"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "models", nargs="+", type=Path, metavar="MODEL",
        help="folders of models of dual_decomposition, or of hill_climb",
    )  # fmt: skip
    parser.add_argument("--treebank", type=Path, required=True, help="what they parse")


def run(options: argparse.Namespace) -> Report:
    """One row a model and search."""
    treebank = read_treebank(options.treebank)
    rows = [row for path in options.models for row in _rows(path.name, load_parser(path), treebank)]
    columns = ["model", "search", "certified %", "iterations", "99%", "sent/s", "best tree %"]
    notes = [
        f"{options.treebank.name}, {len(treebank)} sentences; sent/s: from token ids to heads, one "
        "thread, CPU time; iterations: mean, and the most of 99 % of the sentences.",
        "best tree %: of the sentences with a certified tree, those where the search finds this"
        " tree (another one may score as much). min_gain is 0.",
    ]
    return Report("Certificates of dual decomposition", columns, rows, notes)


def _rows(name: str, model: Parser, treebank: Treebank) -> list[list[object]]:
    mine = DECODERS[model.decoder]
    if mine.is_projective or not mine.reads_siblings:
        raise ConfigError(f"{name}: learned with {mine.name}, not with a search of crossing arcs")
    batch = model.encode(treebank)
    exact, seconds = _search(model, DUAL, batch)
    assert exact.certificates is not None
    is_certified, iterations = exact.certificates[:, batch.starts]
    rows: list[list[object]] = []
    if mine.name != DUAL:
        found, its_seconds = _search(model, mine.name, batch)
        same = [
            bool((found.heads[start : start + n + 1] == exact.heads[start : start + n + 1]).all())
            for start, n in zip(batch.starts.tolist(), batch.lengths.tolist(), strict=True)
        ]
        share = 100 * float(np.mean(np.array(same)[is_certified > 0]))
        rows.append([name, mine.name, None, None, None, len(batch) / its_seconds, share])
    rows.append(
        [
            name, DUAL, 100 * float(np.mean(is_certified > 0)), float(np.mean(iterations)),
            float(np.percentile(iterations, 99)), len(batch) / seconds, 100.0,
        ]
    )  # fmt: skip
    return rows


def _search(model: Parser, decoder: str, batch: Batch) -> tuple[Found, float]:
    """Trees of a batch, and the CPU time they took."""
    parser = replace(with_decoder(model, decoder), min_gain=0.0)
    began = time.process_time()
    found = parser.search(batch)
    return found, time.process_time() - began
