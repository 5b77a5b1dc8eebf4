"""Places where nothing can be read or written: one line, a documented code, nothing changed."""

from __future__ import annotations

import os
import random
from pathlib import Path

from tests.campaign.bench import SYSTEMS, Bench
from tests.campaign.running import ROOT, Failure, check_end, contents, shell

ENVIRONMENTS: list[dict[str, str]] = [
    {}, {"HOME": "/proc/nohome"}, {"TMPDIR": "/proc/none"}, {"LC_ALL": "C"}, {"LC_ALL": "tr_TR"},
    {"PYTHONHASHSEED": "7"}, {"TZ": "Nowhere/Land"}, {"COLUMNS": "1"}, {"TERM": ""},
]  # fmt: skip


def bad_places(folder: Path) -> list[Path]:
    """Paths of every kind at which nothing can be read or written."""
    (folder / "file").write_text("a file\n")
    (folder / "loop").symlink_to(folder / "loop")
    (folder / "dangling").symlink_to(folder / "nowhere" / "file")
    (folder / "folder").mkdir()
    (folder / "folder" / "letter").write_text("dear\n")
    return [
        folder / "file", folder / "file" / "below", folder / "loop", folder / "loop" / "below",
        folder / "dangling", folder / "folder", folder / ("long" * 100), folder / "nowhere" / "x",
        Path("/proc/none"), Path("/proc/self/mem"), Path("/proc"), Path("/dev/full"),
        Path("/dev/null"), Path(""), Path("/sys/none"),
    ]  # fmt: skip


def places(draw: random.Random, bench: Bench) -> list[str]:
    """A command of which the model, input, output or working directory is at a bad place."""
    place = bench.place()
    bad = draw.choice(bad_places(place))
    kind = draw.choice(["model", "input", "output", "train", "config", "train output", "here"])
    model, file, output = str(bench.model()), str(bench.input), str(place / "out")
    config = str(bench.config("first-order"))
    before = contents(place)
    if kind in ("model", "input", "output", "here"):
        words = [ROOT / "parse.py", bad if kind == "model" else model]
        words += [bad if kind == "input" else file]
        words += ["--output", bad if kind == "output" else output, "--threads", 1]
        words += ["--shard", "all/2"] if draw.random() < 0.3 else []
    else:
        words = [ROOT / "train.py", bad if kind == "config" else config, *SYSTEMS["first-order"]]
        words += [f"data.train={bad}"] if kind == "train" else []
        words += [f"output={bad if kind == 'train output' else output}"]
    line = '"$@"'
    if kind == "here":
        (place / "gone").mkdir()
        line = draw.choice(['cd gone; rmdir ../gone; "$@"', 'cd /proc; "$@"', 'cd /sys; "$@"'])
    ended = shell(f"umask {draw.choice(['000', '022', '077'])}; {line}", words, place,
                  **draw.choice(ENVIRONMENTS))  # fmt: skip
    try:
        check_end(ended, [0, 2, 3, 4, 5])
        after = contents(place)
        changed = [name for name in before if after.get(name) != before[name]]
        if changed:
            raise Failure(f"{changed} changed")
        if left := [name for name in after if os.path.basename(name).endswith(".part")]:
            raise Failure(f"{left} left")
    except Failure as failure:
        raise Failure(f"{kind} {bad}: {failure}") from None
    return [f"{kind}: exit {ended.code}"]
