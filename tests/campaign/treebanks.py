"""Treebanks before training: `check` finds what reading refuses, and folders of treebanks."""

from __future__ import annotations

import os
import random
from pathlib import Path

import gpuparse
from gpuparse.commands import check, models, train
from gpuparse.data.folders import find_parts
from gpuparse.errors import ConfigError, DataError
from gpuparse.jobs.card import read_card
from gpuparse.jobs.gold import read_gold
from tests.campaign.bench import SYSTEMS, Bench, trees
from tests.campaign.files import mutant
from tests.campaign.running import Failure, call, check_end

NAMES = [
    "a-ud-train.conllu", "a-ud-dev.conllu", "a-ud-test.conllu", "train.conllu", "dev.conllu",
    "test.conllu", "train.conll", "b-ud-dev.conllu", "a-ud-train-1.conllu", "-ud-train.conllu",
    "a-ud-train.conllu.gz", "A-UD-TRAIN.CONLLU", "README.md", "README.txt", "README", "LICENSE.txt",
]  # fmt: skip
FOLDERS = ["UD_X-Y", "ud-treebanks-v2.16", "UD_-", "my treebank", "\u2028\u202e", "-x", "a=b", "%"]
README = """# UD_Old_X-Y

Licence: CC BY-SA 4.0. Source: the web.

# Changelog

* 2024-05-15 v2.14

=== Machine-readable metadata =====
Data available since: UD v2.0
License: CC BY-SA 4.0
Genre: news
Contributors: One, A.; Two, B.
====
"""


def checks(draw: random.Random, bench: Bench) -> list[str]:
    """A damaged file is checked: training's first error is among the problems, or there is none."""
    text, partial = mutant(draw), draw.random() < 0.4
    file = bench.place() / "mutant.conllu"
    file.write_bytes(text)
    problems = gpuparse.check(file, partial=partial).errors
    refused = ""
    try:
        gold = read_gold(
            str(file), on_error="fail", single_root=False, graphs=False, tell=len, partial=partial
        )
        refused = "" if len(gold.treebank) else "no sentences"
    except DataError as error:
        refused = str(error)
    said = [str(problem) for problem in problems]
    found = any(refused.startswith(each) or refused in each for each in said)
    if found != bool(refused) or bool(said) != bool(refused):
        raise Failure(f"check finds {said}, reading {refused!r}")
    if draw.random() < 0.3:
        words = [file, *["--partial"] * partial, *draw.choice([[], ["--json"], ["--all"]])]
        words += draw.choice([[], [], ["--model", bench.model(), "--threads", 1]])
        ended = call(check.main, words, file.parent)
        check_end(ended, [3 if problems else 0])
        return [f"command: exit {ended.code}"]
    return ["library: errors" if problems else "library: none"]


def folders(draw: random.Random, bench: Bench) -> list[str]:
    """A folder with missing, doubled or odd parts is learned from, or refused in one line."""
    place = bench.place()
    folder = place / draw.choice(FOLDERS)
    folder.mkdir()
    names = draw.sample(NAMES, k=draw.randint(0, 5))
    for name in {*names, *draw.choice([[], NAMES[:1], NAMES[:3]])}:
        make(folder / name, draw, bench)
    config = bench.folder / "of-folders.yaml"
    config.write_text("decoder: eisner\ndevice: cpu\nthreads: 1\nlabels: {rows: 1024, epochs: 1}\n")
    words = [config, *SYSTEMS["first-order"], "feature_map.rows=4096", "learning.epochs=1"]
    words += [f"data.treebank={folder}", f"output={place / 'model'}"]
    words += draw.choice([[], [], ["data.on_error=skip"], ["data.dev=null"]])
    before = listed(folder)
    ended = call(train.main, words, place)
    check_end(ended, [0, 2, 3])
    if listed(folder) != before:
        raise Failure("the folder was changed")
    try:
        train_part = find_parts(str(folder))["train"]
    except ConfigError:
        train_part = None
    card = read_card(place / "model") if (place / "model").exists() else None
    if (ended.code == 2) != (train_part is None) or (ended.code == 0) != (card is not None):
        raise Failure(f"exit code {ended.code}, part {train_part}, card {card}: {ended.err}")
    if card:
        assert train_part
        if card["parts"]["train"]["file"] != os.path.basename(train_part):
            raise Failure(f"the card has {card['parts']}")
        check_end(call(models.main, ["show", place / "model"], place), [0])
    return [f"exit {ended.code}"]


def listed(folder: Path) -> list[tuple[str, int, int]]:
    """The content of a folder, by names, sizes and times of changes."""
    found = [(path.name, path.lstat()) for path in sorted(folder.iterdir())]
    return [(name, status.st_size, status.st_mtime_ns) for name, status in found]


def make(path: Path, draw: random.Random, bench: Bench) -> None:
    """A file of a treebank, or something in its place."""
    content = README.encode() if path.name[0] in "RL" else trees(draw.randrange(99), 4)
    kind = draw.choice(["whole"] * 5 + ["damaged", "empty", "other", "link", "nowhere", "loop",
                                        "folder", "pipe", "device"])  # fmt: skip
    if kind in ("link", "nowhere", "loop", "device"):
        (path.parent.parent / path.name).write_bytes(content)
        target = {"link": f"../{path.name}", "nowhere": "../none", "loop": path.name,
                  "device": draw.choice(["/dev/zero", "/dev/full", "/proc/self/mem"])}  # fmt: skip
        path.symlink_to(target[kind])
    elif kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        if kind == "other":
            content = content.decode().encode(draw.choice(["utf-16", "utf-8-sig", "utf-32"]))
        elif kind == "damaged":
            at = draw.randrange(len(content))
            content = mutant(draw) if draw.random() < 0.5 else content[:at] + draw.randbytes(3)
        path.write_bytes(b"" if kind == "empty" else content)
