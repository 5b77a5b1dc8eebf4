"""File to file with one thread: sentences a second, and where the time goes."""

import argparse
import contextlib
import io
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks import floors
from benchmarks.registry import Report
from benchmarks.subjects import HIGHER, add_treebank_argument, read_subject, trained_model
from gpuparse import native
from gpuparse.commands import parse
from gpuparse.data.batch import Batch, word_places
from gpuparse.data.conll import treebank_from_bytes, write_predictions
from gpuparse.data.treebank import Treebank
from gpuparse.inference.decoders import DECODERS
from gpuparse.model_folder import save_parser
from gpuparse.parser import NOTHING_KNOWN, Parser
from gpuparse.scorers.native import sentences_of
from gpuparse.scorers.vectors.scorer import VectorScorer, vectors_of

GATE = ("tests/test_model.py",)
SETS = ("mcdonald-2005", "extended")
_ROUNDS = 15  # of each stage of a part of a text
GATHER = 0.32e-9  # seconds per gather from the first-level cache, the floor of scoring


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_treebank_argument(parser)
    parser.add_argument(
        "--sentences", type=int, default=100_000, help="the text is repeated to this number"
    )


def run(options: argparse.Namespace) -> Report:
    """Parse a repeated text by the command, then time its stages on one copy of it."""
    treebank = read_subject(options.treebank)
    copies = max(1, options.sentences // len(treebank))
    rows = []
    for features in SETS:
        model = trained_model(treebank, features, n_rows=1 << 22, labels="labels")
        whole = _file_to_file(model, treebank, copies)
        rows.append([features, "file to file", copies * len(treebank) / whole, None, None])
        for stage, seconds, floor in _stages(model, treebank):
            per_sentence = 1e6 * seconds / len(treebank)
            share = floor / seconds if floor else None
            rows.append([features, stage, None, per_sentence, share])
    for features, decoder in HIGHER:
        model = trained_model(
            treebank, features, decoder=decoder, n_rows=1 << 22, labels="joint-labels"
        )
        whole = _file_to_file(model, treebank, copies)
        name = f"{features}, {decoder}"
        rows.append([name, "file to file", copies * len(treebank) / whole, None, None])
    notes = [
        f"{treebank.source}, {treebank.n_words / len(treebank):.1f} words a sentence, repeated "
        f"{copies} times; 2^22 rows, 16-bit weights, labels included; CPU time of the process.",
        "Floors: reading and writing, bytes.split on line and column ends and one join; scores, "
        f"every weight gathered from the first-level cache at {1e9 * GATHER} ns.",
    ]
    columns = ["templates", "stage", "sentences/s", "us per sentence", "floor / time"]
    return Report("Parsing from file to file, one thread", columns, rows, notes)


def _file_to_file(model: Parser, treebank: Treebank, copies: int) -> float:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        save_parser(model, folder)
        text, out = folder / "input.conllu", folder / "out"
        with text.open("wb") as file:
            for _ in range(copies):
                file.write(treebank.data.tobytes())
        short = folder / "short.conllu"
        short.write_bytes(treebank.data.tobytes())
        parse_file(folder, short, out)  # loads the kernels
        begin = time.process_time()
        parse_file(folder, text, out)
        return time.process_time() - begin


def parse_file(model: Path, text: Path, output: Path, threads: int = 1) -> None:
    """Parse a file by the command, on the CPU."""
    options = ["--output", f"{output}/", "--threads", str(threads), "--device", "cpu", "--quiet"]
    parse.main([str(model), str(text), *options, "--force"])


def _stages(model: Parser, treebank: Treebank) -> Iterator[tuple[str, float, float | None]]:
    text = treebank.data.tobytes()
    floor = _seconds(lambda: [line.split(b"\t") for line in text.split(b"\n")])
    yield "reading", _seconds(lambda: treebank_from_bytes(text, "text")), floor
    batch = model.encode(treebank)
    yield "token ids", _seconds(lambda: model.encode(treebank)), None
    order = np.argsort(batch.lengths, kind="stable")
    parts = [batch.select(order[first : first + 64]) for first in range(0, len(order), 64)]
    assert model.fused is not None
    scorer = model.fused.scorer

    def score_arcs() -> None:
        for part in parts:
            out = np.zeros((len(part), part.n_nodes, part.n_nodes))
            native.call("score_arcs_batch", sentences_of(part), scorer, out)

    scores = _seconds(score_arcs)
    yield "scores", scores, _gathers(model, batch.lengths) * GATHER
    found = model.search(batch)
    heads, labels = found.heads, found.labels
    plan, weights = model.linear.label_plan, model.linear.label_weights.array
    given = sentences_of(batch), plan, weights, None, heads, None, labels.copy()
    labelling = _seconds(lambda: native.call("label_batch", *given))
    both = _seconds(lambda: model.search(batch))
    yield "search, and all between", max(0.0, both - scores - labelling), None
    yield "labels", labelling, None
    places = word_places(batch)
    columns = heads[places].astype(np.int32), labels[places].astype(np.int32)
    floor = _seconds(lambda: b"\n".join(text.split(b"\n")))
    writing = _seconds(
        lambda: write_predictions(treebank, columns[0], model.label_names, columns[1])
    )
    yield "writing", writing, floor


def vector_stages(model: Parser, treebank: Treebank) -> list[tuple[str, float, float | None]]:
    """Name, seconds and floor of each stage of a parser with word vectors and second-stage labels.

    What templates take is the difference to the same parser without any.

    Floors: the text and rows are read from the second-level cache at the bandwidth measured there,
    products done at the measured rate of the dot instructions, and so are steps of the search.
    """
    text = treebank.data.tobytes()
    batch = model.encode(treebank)
    order = np.argsort(batch.lengths, kind="stable")
    parts = [batch.select(order[first : first + 64]) for first in range(0, len(order), 64)]
    vectors, engine = vectors_of(model.scorers), model.fused
    assert vectors is not None
    assert engine is not None
    assert model.linear.label_templates is not None
    bare = replace(
        model.linear,
        templates=replace(model.linear.templates, arc=()),
        label_templates=replace(model.linear.label_templates, label=()),
        compiled=None,
    )
    after = VectorScorer.after(bare, vectors.with_margin(None))
    alone = replace(model, scorers=(bare, after)).fused
    assert alone is not None
    work = vector_work(model, batch)
    machine = this_machine()
    floors_of = {name: floors.floor(of, machine)[0] for name, of in work.stages().items()}
    given = native.struct("WordVectors", vectors)
    found, firsts = engine.empty(batch), engine.empty_firsts(batch)
    timed = np.zeros(4)
    trees, labels = np.zeros(2), np.zeros(2)  # without templates, and with
    for part in parts:  # the least of each, since others may use the core for a moment
        least, of_part = np.full(4, np.inf), np.zeros(4)
        for _ in range(_ROUNDS):
            native.call("time_vectors", sentences_of(part), given, of_part)
            least = np.minimum(least, of_part)
        timed += least
        kept = engine.kept(part)
        for k, each in enumerate((alone, engine)):
            search = partial(each.find_trees, part, NOTHING_KNOWN, found, firsts, kept)
            trees[k] += _seconds(search, _ROUNDS)
            labels[k] += _seconds(partial(each.label_trees, part, found, kept), _ROUNDS)
    lengths = batch.lengths.astype(np.float64)
    steps = (lengths + 1) ** 2
    if DECODERS[model.search_decoder].is_projective:
        steps = 3 * 2 * ((lengths + 1) ** 3 - (lengths + 1)) / 6
    search_floor = float(steps.sum()) * 8 / machine.operations  # float64: an eighth of the bytes
    places = word_places(batch)
    heads = found.heads[places].astype(np.int32)
    relations = found.labels[places].astype(np.int32)
    once = len(text) / machine.bandwidth
    return [
        ("reading", _seconds(lambda: treebank_from_bytes(text, "text")), once),
        ("token ids", _seconds(lambda: model.encode(treebank)), None),
        ("rows of the table: which", timed[0], None),
        ("rows of the table", timed[1], floors_of["rows of the table"]),
        ("matrices", timed[2], floors_of["matrices"]),
        ("scores of arcs", timed[3], floors_of["scores of arcs"]),
        ("templates of arcs", trees[1] - trees[0], None),
        ("search, and all between", max(0.0, trees[0] - float(timed.sum())), search_floor),
        ("labels", labels[0], floors_of["labels"]),
        ("templates of labels", labels[1] - labels[0], None),
        ("writing", _seconds(
            lambda: write_predictions(treebank, heads, model.label_names, relations)
        ), 2 * once),
    ]  # fmt: skip


def vector_work(model: Parser, batch: Batch) -> floors.VectorWork:
    """What a batch does with a model's word vectors."""
    vectors = vectors_of(model.scorers)
    assert vectors is not None
    plan = vectors.plan
    rows = np.empty((batch.values.shape[1], len(plan.rows)), np.int32)
    native.call("find_vector_rows", sentences_of(batch), native.struct("VectorPlan", plan), rows)
    nodes = np.concatenate([word_places(batch), batch.starts])
    words = float(batch.lengths.sum())
    return floors.VectorWork(
        len(nodes), words, float((batch.lengths.astype(np.float64) ** 2).sum()),
        float((rows[nodes] >= 0).sum() / len(nodes)), vectors.table.shape[1],
        vectors.heads.shape[1], vectors.arcs.shape[1], 2 * len(vectors.labels),
        len(vectors.label_constants), vectors.networks,
    )  # fmt: skip


def this_machine() -> floors.Machine:
    """One core of this machine: its rates, each the best of five measurements."""
    memory, best = np.zeros(1 << 19, np.int8), np.zeros(3)
    for _ in range(_ROUNDS):
        found = np.zeros(3)
        native.call("time_machine", memory, 1 << 20, found)
        best = np.maximum(best, found)
    return floors.Machine("this core", best[2], best[0], best[2] / floors.SECTOR)


def _gathers(model: Parser, lengths: np.ndarray) -> float:
    """Weights that the pair families read for all arcs."""
    per_arc = len(model.linear.plan.arcs.pair) + int(
        (model.linear.plan.arcs.pair["second_codes"] >= 0).sum()
    )
    return float(per_arc * (lengths * lengths).sum())


def _seconds(call: Callable[[], object], rounds: int = 5) -> float:
    """The least CPU time of some calls."""
    times = []
    with contextlib.redirect_stdout(io.StringIO()):
        for _ in range(rounds):
            begin = time.process_time()
            call()
            times.append(time.process_time() - begin)
    return min(times)
