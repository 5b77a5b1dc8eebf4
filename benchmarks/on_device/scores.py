"""Templates on a device: scores by kernels and by bags, the time to read the weights, and heads."""

import argparse
from collections.abc import Callable
from functools import partial

import numpy as np
import torch

from benchmarks.on_device import clock
from benchmarks.on_device.contest import CALL, OURS, Contest
from benchmarks.on_device.contest import COLUMNS as TIMES
from gpuparse.data.conll import treebank_from_bytes
from gpuparse.data.vocabulary import Vocabularies
from gpuparse.errors import ScoreError
from gpuparse.features.plan import Plan
from gpuparse.features.templates import load_templates
from gpuparse.inference.engines import choose_engine
from gpuparse.model.engines.searcher import Scales
from gpuparse.model.parser import Parser
from gpuparse.scorers.linear.scorer import LinearScorer
from gpuparse.scorers.linear.weights import Weights, hashed_map
from tests.synthetic import generate

TITLE = "Scores of templates on a device"
COLUMNS = TIMES
SETS = {
    "mcdonald-2005": "eisner",
    "extended": "eisner",
    "guided": "eisner",
    "mcdonald-pereira-2006": "eisner_sibling",
}  # with their decoders
N, BATCHES, ROWS = 25, (256, 4096), 1 << 22
LINE_BYTES = 32  # least that a device reads of memory: all weights of a family for two words


def run(options: argparse.Namespace, contest: Contest) -> None:
    """Time both ways, after checking that their scores are equal."""
    n, batches, rows = (4, (2,), 1 << 12) if options.small else (N, BATCHES, ROWS)
    rate = _bytes_a_second(contest)
    for features, decoder in SETS.items():
        scorer = _scorer(features, decoder, rows)
        for batch in batches:
            if contest.is_over(f"scores of {features}, batch {batch:,}"):
                continue
            with contest.attempt(f"{features}, batch {batch:,}"):
                _one_task(contest, scorer, (features, "", n, batch), rate)
    contest.note(
        f"Random weights of 16 bits in {rows:,} rows, random values of words. bandwidth: what"
        f" reading {LINE_BYTES} bytes for each family of each part takes at {rate / 1e9:,.0f} GB/s,"
        " the speed of a copy. Heads: ids come from main memory, and heads return to it."
    )


def _scorer(features: str, decoder: str, rows: int) -> LinearScorer:
    templates = load_templates(features)
    treebank = treebank_from_bytes(generate(300, 1), "generated")
    fields = {f for part in ("arc", "guide", "sibling", "end") for f in templates.fields(part)}
    vocabularies = Vocabularies.build(treebank, sorted(fields), 1)
    given = {
        "templates": templates, "label_templates": None, "vocabularies": vocabularies,
        "label_weights": None, "decoder": decoder,
    }  # fmt: skip
    nothing = Weights(np.zeros((1, 1), np.int16))
    plan = LinearScorer(features=hashed_map(rows, 0), arcs=nothing, **given).plan
    mapped = hashed_map(rows, plan.dense_lines)
    weights = np.random.default_rng(1).integers(-999, 1000, (mapped.n_rows, 1), np.int16)
    return LinearScorer(features=mapped, arcs=Weights(weights), **given)


def _one_task(
    contest: Contest, scorer: LinearScorer, task: tuple[str, str, int, int], rate: float
) -> None:
    _, _, n, size = task
    batch = scorer.generated([n] * size)
    parser = Parser(
        scorers=(scorer,), labels=[], decoder=scorer.decoder, single_root=False,
        scales=Scales(1, 1), config="",
    )  # fmt: skip
    ways: dict[str, Callable[[], object]] = {}
    searches: dict[str, Callable[[], object]] = {}
    found = []
    for engine in OURS:
        try:
            choose_engine(engine, contest.device, has_kernels=True)
        except ScoreError as error:
            contest.note(f"{engine} left out: {error}.")
            continue
        dense = scorer.in_torch(engine)
        part = dense.part(dense.send(batch, contest.device), batch)
        ways[engine] = partial(dense.score, part)
        found.append(dense.score(part))
        searches[engine] = partial(
            parser.search, batch, batch_size=size, device=contest.device.type, engine=engine
        )
    of_part = torch.arange(n + 1, device=contest.device)
    is_arc = (of_part.unsqueeze(1) != of_part) & (of_part > 0)
    if not all(torch.equal(each.arc[:, is_arc], found[0].arc[:, is_arc]) for each in found):
        raise AssertionError(f"{task[0]}: kernels and bags disagree")
    from_ids = (f"{task[0]}, ids to heads", *task[1:])
    contest.measure(from_ids, {by: partial(_calls, way, size) for by, way in searches.items()})
    before = len(contest.rows)
    contest.measure(task, {by: partial(_calls, way, size) for by, way in ways.items()})
    if rows := contest.rows[before:]:
        us = 1e6 * size * _lines(scorer.plan, n) * LINE_BYTES / rate
        ratio = us / rows[0][CALL] if OURS[0] in ways else None
        contest.add([*task, "bandwidth", us, us, 1e6 * size / us, ratio])


def _calls(way: Callable[[], object], size: int) -> tuple[list[Callable[[], object]], int]:
    return [way], size


def _lines(plan: Plan, n: int) -> int:
    """Lines of weights that the parts of a sentence of n words read."""
    gaps = np.abs(np.arange(n + 1)[:, None] - np.arange(1, n + 1)) - 1
    between = int(gaps.clip(0).sum())
    lines = n * n * len(plan.arcs.pair) + between * len(plan.arcs.between)
    if plan.guide:
        lines += n * len(plan.guide.arcs.pair)
    if plan.siblings:
        lines += n * n * (len(plan.siblings.pairs.pair) + len(plan.siblings.ends.pair))
        lines += (n * n + between) * len(plan.siblings.triple)
    return lines


def _bytes_a_second(contest: Contest) -> float:
    """The speed of a copy, reading and writing."""
    size = 1 << (22 if contest.device.type == "cpu" else 28)
    numbers = torch.ones(size, device=contest.device)
    out = torch.empty_like(numbers)
    seconds = clock.seconds_of_a_call(
        [partial(out.copy_, numbers)], contest.device, seconds=contest.seconds
    )
    return 2 * numbers.nbytes / seconds
