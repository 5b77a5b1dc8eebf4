"""Token ids to scores, to trees, and the whole way of `Model.search`, on a device."""

import argparse
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks import floors
from benchmarks.on_device.contest import COLUMNS as TIMES
from benchmarks.on_device.contest import OURS, Contest
from benchmarks.parse import vector_work
from benchmarks.subjects import read_subject, trained_model
from gpuparse.data.batch import Batch
from gpuparse.data.conll import treebank_from_bytes
from gpuparse.errors import ScoreError
from gpuparse.features.plan import ArcPlan
from gpuparse.inference.scores import Scores
from gpuparse.inference.searches import decode
from gpuparse.parser import Parser
from gpuparse.scorers.scorer import Sum
from gpuparse.scorers.tensors import Sent
from tests.scoring.forms import as_arrays, as_tensors
from tests.synthetic import generate

TITLE = "Token ids to trees on a device"
COLUMNS = TIMES
SYSTEMS = (
    ("mcdonald-2005", "eisner"),
    ("vectors", "eisner"),
    ("mcdonald-pereira-2006", "eisner_sibling"),
    ("mcdonald-2005", "chu_liu_edmonds"),
    ("vectors", "chu_liu_edmonds"),
    ("extended", "eisner"),
)  # templates, decoder
N, BATCH = 25, 1024  # where only the other one varies
WORDS, SMALL_WORDS = (8, 16, 25, 30), (4, 6)
BATCHES, SMALL_BATCHES = (256, 1024, 4096), (1, 3)
ROWS, SMALL_ROWS = 1 << 22, 1 << 12
LARGEST = 1 << 33  # bytes of dense sibling scores
SCORES = "torch"  # the backend that scores, whichever searches
SETS = 4  # batches of different sentences that take turns


def run(options: argparse.Namespace, contest: Contest) -> None:
    """Time each stage, and search on both backends after checking that they find the same."""
    systems = SYSTEMS[1:3] if options.small else SYSTEMS
    for features, decoder in systems:
        if not contest.is_over(f"{features}, {decoder}"):
            _one_system(options, contest, features, decoder)
    contest.note(
        "vectors: ids on the device to vectors of nodes; scores: to scores on the device; trees: "
        "to heads on the device; search: Model.search, from ids on the host to heads on the host."
    )
    contest.note(
        "Floors count one sector a weight gathered, of pairs of words and of triples; those of "
        "single words and of words between are not in them. Of word vectors (two networks) they "
        "count the sectors of the rows of the table; their products are not in them."
    )


def _one_system(options: argparse.Namespace, contest: Contest, features: str, decoder: str) -> None:
    if options.small:
        treebank = treebank_from_bytes(generate(60, 1), "generated")
    else:
        treebank = read_subject(options.treebank)
    rows = SMALL_ROWS if options.small else ROWS
    model = trained_model(treebank, features, decoder=decoder, n_rows=rows, labels=None)
    whole = model.encode(treebank)
    for n, batch in sizes(small=options.small):
        if model.linear.plan.siblings and 8 * batch * (n + 1) ** 3 > LARGEST:
            continue
        chosen = np.flatnonzero(whole.lengths == n)
        if not len(chosen):
            contest.note(f"n = {n} left out: {treebank.source} has no sentence of {n} words.")
            continue
        draws = np.random.default_rng(batch)
        sets = [
            as_arrays(as_tensors(whole.select(draws.choice(chosen, batch))).alone())
            for _ in range(SETS)
        ]
        if not contest.is_over(f"{features}, {decoder}, n = {n}, batch {batch:,}"):
            _one_batch(contest, f"{features}, {decoder}", model, sets)


def sizes(*, small: bool) -> list[tuple[int, int]]:
    """n and batch: all n at one batch size, then all other batch sizes at one n."""
    if small:
        words, batches, n, batch = SMALL_WORDS, SMALL_BATCHES, SMALL_WORDS[-1], SMALL_BATCHES[-1]
    else:
        words, batches, n, batch = WORDS, BATCHES, N, BATCH
    pairs = [(each, batch) for each in words] + [(n, each) for each in batches]
    return list(dict.fromkeys(pairs))


def _one_batch(contest: Contest, system: str, model: Parser, sets: list[Batch]) -> None:
    n, count = int(sets[0].lengths.max()), len(sets[0])
    scorer = Sum(model.scorers)
    on_device = [(scorer.send(batch, contest.device), batch) for batch in sets]
    stages: dict[str, Callable[..., object]] = {"scores": scores_of, "trees": trees_of}
    if len(model.scorers) > 1:
        stages = {"vectors": parts_of, **stages}
    heads = model.search(sets[0]).heads
    contestants: dict[str, dict[str, Any]] = {stage: {} for stage in (*stages, "search")}
    for backend in OURS:
        try:
            model.engine(contest.device.type, backend)
            found = trees_of(model, backend, *on_device[0])
            whole = _searched(model, sets[0], contest.device, backend)
        except ScoreError as error:
            contest.note(f"{backend} left out: {error}.")
            continue
        places = sets[0].places()
        is_word = (found >= 0).cpu()
        if not np.array_equal(heads[places[is_word.numpy()]], found.cpu()[is_word].numpy()):
            raise AssertionError(f"{system}: {backend} finds other trees than the compiled parser")
        if not np.array_equal(heads, whole):
            raise AssertionError(f"{system}: Model.search differs with backend {backend}")
        for stage, call in stages.items():
            if stage != "trees" and backend != SCORES:
                continue  # it would be timed twice
            contestants[stage][backend] = partial(
                _ready, [partial(call, model, backend, *each) for each in on_device], count
            )
        contestants["search"][backend] = partial(
            _ready,
            [partial(_searched, model, each, contest.device, backend) for each in sets],
            count,
        )
    for stage, backends in contestants.items():
        root = "single" if model.single_root else "multi"
        task = f"{system}: {stage}", root, n, count
        contest.measure(task, backends, work_of(model, sets[0], stage))


def _ready(
    calls: Sequence[Callable[[], object]], count: int
) -> tuple[Sequence[Callable[[], object]], int]:
    return calls, count


def parts_of(model: Parser, _: str, sent: Sent, batch: Batch) -> list[Any]:
    """What scores are computed from, where the batch is: of word vectors those of all nodes."""
    return Sum(model.scorers).part(sent, batch)


def scores_of(model: Parser, backend: str, sent: Sent, batch: Batch) -> Scores:
    """Scores that the model's decoder reads, where the batch is."""
    return Sum(model.scorers).score(parts_of(model, backend, sent, batch))


def trees_of(model: Parser, backend: str, sent: Sent, batch: Batch) -> Tensor:
    """(B, N) heads, where the batch is."""
    scores = scores_of(model, backend, sent, batch)
    found = decode(
        model.search_decoder, scores, single_root=model.single_root, backend=backend,
        are_checked=True,
    ).heads  # fmt: skip
    assert found is not None
    return found


def _searched(model: Parser, batch: Batch, device: torch.device, backend: str) -> np.ndarray:
    return model.search(batch, batch_size=len(batch), device=device.type, backend=backend).heads


def work_of(model: Parser, batch: Batch, stage: str) -> floors.Work:
    """What a stage takes at least: scoring the batch, and finding its trees.

    Gathers: of the pair families of arcs and of siblings n^2 each, of triples n^3 / 3.
    """
    n, count = int(batch.lengths.max()), len(batch)
    words = batch.lengths.astype(np.float64)
    gathers = _pairs(model.linear.plan.arcs) * float((words**2).mean())
    if model.linear.plan.siblings:
        siblings = model.linear.plan.siblings
        gathers += (_pairs(siblings.pairs) + _pairs(siblings.ends)) * float((words**2).mean())
        gathers += _suffixes(siblings.triple) * float((words**3).mean()) / 3
    work = floors.arc_scores(count, n, gathers, fields=len(batch.values))
    if len(model.scorers) > 1:
        rows = vector_work(model, batch).stages()["rows of the table"].bytes
        of_rows = floors.Work(0.0, 0.0, rows / floors.SECTOR)
        if stage == "vectors":
            return of_rows
        work += of_rows
    return work if stage == "scores" else work + floors.DECODERS[model.decoder](count, n)


def _pairs(plan: ArcPlan) -> int:
    return _suffixes(plan.pair)


def _suffixes(families: np.ndarray) -> int:
    return len(families) + int((families["second_codes"] >= 0).sum())
