"""Hill climbing against the best trees: how often it finds them, how far below it stays."""

import argparse
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file
from torch import Tensor

from benchmarks.registry import Report
from gpuparse.data.conll import read_treebank
from gpuparse.data.treebank import Treebank
from gpuparse.errors import ConfigError
from gpuparse.inference import chu_liu_edmonds, eisner, eisner_sibling, hill_climb
from gpuparse.model_folder import load_parser
from gpuparse.parser import Parser
from gpuparse.scorers.linear.arcs import arc_scores
from gpuparse.scorers.linear.siblings import sibling_scores
from gpuparse.scorers.tensors import tensors_over
from tests.oracles.integer_program import integer_program

GATE = (
    "tests/inference/test_integer_program.py",
    "tests/inference/test_single_changes.py",
    "tests/benchmarks/test_gaps.py",
)
ScoredSentence = tuple[Tensor, Tensor, Tensor]
"""Arc scores (N, N), sibling scores (N, N, N) and end scores (N, N) of one sentence."""
DRAWN = (10, 20, 30, 40)
"""Words of the sentences that are drawn where no scores are given."""
BONUS = {"clear": 5000.0, "unclear": 2500.0, "noisy": 1500.0}
"""What the arcs of the planted tree are worth; the others have a standard deviation of 1000."""
CROSSING_SHARE = 0.3
"""Part of the sentences in which one word is drawn to another head than the planted one."""
ROUNDING = 1e-9  # two scores so near, relative to the higher one, are the same
PROJECTIVE, CROSSING = "projective optimum", "first-order tree"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "scores",
        nargs="*",
        type=Path,
        metavar="MODEL_OR_SCORES",
        help="folders of second-order models, or safetensors files with arc_scores (B, N, N), "
        "sibling_scores (B, N, N, N) and lengths (B,); without any, scores are drawn",
    )
    parser.add_argument("--treebank", type=Path, help="what the models score")
    parser.add_argument("--sentences", type=int, default=300, help="the most of each source")
    parser.add_argument("--max-words", type=int, default=40, help="longer sentences are left out")
    parser.add_argument(
        "--single-root", action="store_true", help="one modifier of the root; models know"
    )
    parser.add_argument("--time-limit", type=float, help="seconds for a sentence's exact tree")


def run(options: argparse.Namespace) -> Report:
    """One table with the rows of every source."""
    roots = options.single_root
    sources: list[tuple[str, Iterable[ScoredSentence], bool]] = []
    for path in options.scores:
        if path.is_dir():
            if options.treebank is None:
                raise ConfigError(f"{path} is a model: give it a --treebank to score")
            model = load_parser(path)
            scored = scored_sentences(model, read_treebank(options.treebank))
            sources.append((path.name, scored, model.single_root))
        else:
            sources.append((path.name, stored_sentences(path), roots))
    if not sources:
        for kind, bonus in BONUS.items():
            for n in DRAWN:
                drawn = drawn_sentences(n, bonus, min(options.sentences, 30))
                sources.append((f"{kind}, n = {n}", drawn, roots))
    tables = [
        gap_table(
            sentences,
            source=source,
            max_words=options.max_words,
            max_sentences=options.sentences,
            single_root=single_root,
            time_limit=options.time_limit,
        )
        for source, sentences, single_root in sources
    ]
    return joined(tables)


def gap_table(
    scored_sentences: Iterable[ScoredSentence],
    *,
    source: str,
    max_words: int = 40,
    max_sentences: int = 300,
    single_root: bool = False,
    time_limit: float | None = None,
) -> Report:
    """Compare the starts of hill climbing, and what it makes of them, with the best trees.

    Args:
        scored_sentences: taken one by one, so they may be scored on the way.
        source: what to call them.
        max_words: longer sentences, and empty ones, are left out.
        max_sentences: the most that are read, those left out not counted.
        single_root: of all searches.
        time_limit: seconds for a sentence's exact tree; beyond it the sentence is left out.

    Raises:
        AssertionError: an approximate search found a better tree than the exact one.
    """
    for first in _Taken(3, 1).select(drawn_sentences(3, 0.0, 1)):
        # Loads the kernels and the solver.
        integer_program(*first.parts, end_scores=first.ends)
        _approximate(first, single_root)
    taken = _Taken(max_words, max_sentences)
    searches = {PROJECTIVE: _Search(), f"{PROJECTIVE}, climbed": _Search()}
    searches |= {CROSSING: _Search(), f"{CROSSING}, climbed": _Search()}
    exact = _Search()
    for batch in taken.select(scored_sentences):
        find = partial(integer_program, *batch.parts, end_scores=batch.ends)
        best, seconds = _timed(partial(find, single_root=single_root, time_limit=time_limit))
        if not best[2].item():
            taken.unsolved += 1
            continue
        exact.add(best[0], best[1], 0, best, seconds)
        for search, found in _approximate(batch, single_root).items():
            searches[search].add(*found[:3], best, found[3])
    rows = [[source, name, *search.figures()] for name, search in searches.items()]
    rows.append([source, "integer program", *exact.figures()])
    columns = [
        "scores", "search", "exact %", "gap", "gap %", "heads %", "changes", "ms", "longest ms",
    ]  # fmt: skip
    return Report("Second-order searches and the best trees", columns, rows, [taken.note(source)])


def joined(tables: list[Report]) -> Report:
    """Tables of several sources below each other, and what their columns mean."""
    notes = [
        "exact: sentences whose tree scores as much as the best one. gap: mean of what is missing; "
        "gap %: of the mean of the best scores' sizes. heads: words with the head of the best tree "
        "found. changes: mean of a sentence. ms: CPU time of a sentence in a call of its own.",
        "First-order tree: the best one under arc scores alone, crossing arcs allowed.",
    ]
    return Report(
        tables[0].title,
        tables[0].columns,
        [row for table in tables for row in table.rows],
        notes + [note for table in tables for note in table.notes],
    )


def scored_sentences(model: Parser, treebank: Treebank) -> Iterator[ScoredSentence]:
    """The sentences of a treebank as a second-order model scores them, all parts written out.

    Raises:
        ConfigError: the model is of the first order.
    """
    plan, given = model.linear.plan, (model.linear.features, model.linear.arcs)
    if plan.siblings is None:
        raise ConfigError(f"a model of the first order ({model.decoder}) has no sibling scores")
    batch = model.encode(treebank)
    for b in range(len(batch)):
        alone = batch.select(np.array([b]))
        tensors = tensors_over(torch.from_numpy(alone.values), alone)
        arcs = arc_scores(tensors, plan.arcs, *given)
        siblings, ends = sibling_scores(tensors, plan.siblings, *given)
        yield arcs[0].double(), siblings[0].double(), ends[0].double()


def stored_sentences(path: Path) -> Iterator[ScoredSentence]:
    """The sentences of a safetensors file with `arc_scores`, `sibling_scores` and `lengths`.

    `end_scores` may be there too; without them they are zeros.
    """
    tensors = load_file(path)
    ends = tensors.get("end_scores", torch.zeros_like(tensors["arc_scores"]))
    for b, n in enumerate(tensors["lengths"].tolist()):
        words = slice(n + 1)
        yield (
            tensors["arc_scores"][b, words, words],
            tensors["sibling_scores"][b, words, words, words],
            ends[b, words, words],
        )


def drawn_sentences(n: int, bonus: float, count: int) -> Iterator[ScoredSentence]:
    """Whole numbers near a planted tree, as scores of trained models are.

    The tree is projective but for one stray arc in some sentences. Sibling scores are sums over
    pairs of words and over triples of parts of speech.
    """
    rng = np.random.default_rng([n, int(bonus)])
    h, m, s = np.ogrid[: n + 1, : n + 1, : n + 1]
    far = 80.0 * abs(np.arange(n + 1) - np.arange(n + 1)[:, None])
    for _ in range(count):
        arcs = rng.normal(-2000, 1000, (n + 1, n + 1))
        planted, _ = eisner(torch.from_numpy(arcs - far)[None], torch.tensor([n]))
        arcs[planted[0, 1:].numpy(), np.arange(1, n + 1)] += bonus
        if rng.random() < CROSSING_SHARE:
            arcs[rng.integers(0, n + 1), rng.integers(1, n + 1)] += bonus + 4000
        first, pair = rng.normal(0, 500, (2, n + 1, n + 1))
        triple, of = rng.normal(0, 500, (2, 10, 10, 10)), rng.integers(0, 10, n + 1)
        siblings = pair.T[None] + triple[(h > m) * 1, of[h], of[s], of[m]]
        siblings = np.where(s == h, first[:, :, None], siblings)
        no_ends = torch.zeros(n + 1, n + 1, dtype=torch.float64)
        yield torch.from_numpy(arcs.round()), torch.from_numpy(siblings.round()), no_ends


@dataclass(frozen=True)
class _Batch:
    """A batch of one sentence: arc scores, sibling scores and lengths; and its end scores."""

    parts: tuple[Tensor, Tensor, Tensor]
    ends: Tensor


@dataclass
class _Taken:
    """Which sentences are looked at, and how many are left out and why."""

    max_words: int
    max_sentences: int
    taken: int = 0
    too_long: int = 0
    unsolved: int = 0
    there_are_more: bool = False

    def select(self, sentences: Iterable[ScoredSentence]) -> Iterator[_Batch]:
        """Batches of one sentence each."""
        for arcs, siblings, ends in sentences:
            n = len(arcs) - 1
            if self.taken == self.max_sentences:
                self.there_are_more = True
                return
            if n > self.max_words:
                self.too_long += 1
            elif n > 0:
                self.taken += 1
                parts = arcs[None].double(), siblings[None].double(), torch.tensor([n])
                yield _Batch(parts, ends[None].double())

    def note(self, source: str) -> str:
        text = f"{source}: {self.taken - self.unsolved} sentences; {self.too_long} left out that "
        text += f"are longer than {self.max_words} words, {self.unsolved} whose exact tree took "
        text += "too long"
        if self.there_are_more:
            text += f", and all after the first {self.max_sentences}"
        return text + "."


@dataclass
class _Search:
    """What one search found, a sentence an item."""

    gaps: list[float] = field(default_factory=list)
    best: list[float] = field(default_factory=list)
    solved: list[bool] = field(default_factory=list)
    changes: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    heads: int = 0
    words: int = 0

    def add(
        self,
        heads: Tensor,
        scores: Tensor,
        changes: int,
        best: tuple[Tensor, ...],
        seconds: float,
    ) -> None:
        optimum, gap = best[1].item(), best[1].item() - scores.item()
        rounding = ROUNDING * max(1.0, abs(optimum))
        if gap < -rounding:
            raise AssertionError(f"a tree of {scores.item()}, the best one has {optimum}")
        self.gaps.append(max(0.0, gap))
        self.best.append(abs(optimum))
        self.solved.append(gap <= rounding)
        self.changes.append(changes)
        self.seconds.append(seconds)
        self.heads += int((heads == best[0])[:, 1:].sum())
        self.words += heads.shape[1] - 1

    def figures(self) -> list[float | None]:
        """As `gap_table` has its columns."""
        if not self.gaps:
            return [None] * 7
        size = sum(self.best)
        return [
            100 * float(np.mean(self.solved)),
            float(np.mean(self.gaps)),
            100 * sum(self.gaps) / size if size else None,
            100 * self.heads / self.words,
            float(np.mean(self.changes)),
            1000 * float(np.mean(self.seconds)),
            1000 * max(self.seconds),
        ]


def _approximate(batch: _Batch, single_root: bool) -> dict[str, tuple[Tensor, Tensor, int, float]]:
    """Heads, score, changes and seconds of every start and of what is climbed from it."""
    arcs, _, lengths = batch.parts
    of_ends = {"end_scores": batch.ends, "single_root": single_root}
    starts = {
        PROJECTIVE: partial(eisner_sibling, *batch.parts, **of_ends),
        CROSSING: partial(chu_liu_edmonds, arcs, lengths, single_root=single_root),
    }
    found = {}
    for name, search in starts.items():
        (start, *_), seconds = _timed(search)
        climb = partial(hill_climb, *batch.parts, start=start, **of_ends)
        still = climb(max_changes=0)
        found[name] = start, still[1], 0, seconds
        (heads, scores, changes), more = _timed(climb)
        found[f"{name}, climbed"] = heads, scores, int(changes), seconds + more
    return found


def _timed(search: Callable[[], tuple[Tensor, ...]]) -> tuple[tuple[Tensor, ...], float]:
    begin = time.process_time()
    found = search()
    return found, time.process_time() - begin
