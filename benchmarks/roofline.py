"""What an H100 can do at best, on paper: no device is used, nothing is measured."""

import argparse

from benchmarks import floors
from benchmarks.registry import Report

GATE = ("tests/benchmarks/test_floors.py",)
WORDS, BATCH = 25, 1024
GATHERS = 36_400  # weights of a sentence of 25 words under the templates of 2005, halves shared
PAIRS = 8 * WORDS**2  # four templates of sibling pairs, each also with direction and distance
TRIPLES = 2 * WORDS**3 / 3  # of parts of speech, likewise
FIELDS = 8


def run(options: argparse.Namespace) -> Report:
    """Floors and waiting for batches of 1,024 sentences of 25 words."""
    ids = floors.arc_scores(BATCH, WORDS, GATHERS, fields=FIELDS)
    siblings = floors.arc_scores(BATCH, WORDS, PAIRS + TRIPLES, fields=0)
    tasks = {
        "eisner, from scores": floors.eisner(BATCH, WORDS),
        "chu_liu_edmonds, from scores": floors.chu_liu_edmonds(BATCH, WORDS),
        "eisner_sibling, from dense scores": floors.eisner_sibling(BATCH, WORDS),
        "arc scores, from ids": ids,
        "eisner, from ids": ids + floors.eisner(BATCH, WORDS),
        "eisner_sibling, from ids": ids + siblings + floors.eisner_sibling(BATCH, WORDS),
    }
    rows = [_row(task, work) for task, work in tasks.items()]
    copied = floors.host_copy(BATCH, WORDS, fields=FIELDS)
    notes = [
        f"{floors.H100.name}; {BATCH:,} sentences of {WORDS} words, float32.",
        f"arc scores: {GATHERS:,} gathers a sentence, from a table that the second-level cache "
        "holds.",
        f"Ids in and heads out over the bus: {copied / 1e6:.1f} MB a batch, beside these.",
        "waiting: barriers between the steps of a sentence, all sentences side by side.",
    ]
    columns = ["task", "floor us", "set by", "waiting us", "sentences/s at best"]
    return Report("Roofline", columns, rows, notes)


def _row(task: str, work: floors.Work) -> list[object]:
    seconds, bound = floors.floor(work, floors.H100)
    waiting = floors.latency(work, floors.H100, BATCH)
    return [task, 1e6 * seconds, bound, 1e6 * waiting, BATCH / (seconds + waiting)]
