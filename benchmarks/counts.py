"""The size of the code beside its goals: lines, words, entries, commands, keys, rooms, frames."""

import argparse
import ast
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from benchmarks.registry import Report
from tests.test_layers import circles, imported_at_once, name_of

GATE = ("tests/test_layers.py",)
ROOT = Path(__file__).parents[1]
GOALS = {
    "lines of Python in the package": 49_000,
    "lines of C++": 20_000,
    "lines of Python in tests": 40_000,
    "lines of Python in benchmarks": 4_000,
    "words of the book": 8_000,
    "words of docs": 25_000,
    "entries at the top of the package": 19,
    "commands": 16,
    "keys": 65,
    "options of parse": 22,
    "circles of imports": 0,
    "imports of ours inside functions": 15,
    "frames to the search in torch": 14,
    "switches between files in a warm parse_text": 90,
}
# Folder of the package -> budget in lines.
ROOMS = {
    "inference": 6_200,
    "jobs": 6_500,
    "scorers": 5_200,
    "learning": 4_000,
    "data": 5_500,
    "commands": 2_300,
    "evaluation": 1_900,
    "api": 2_900,
    "text": 4_600,
    "server": 1_900,
    "features": 1_250,
    "config": 1_100,
    "model": 4_100,
}
LOOSE, LOOSE_BUDGET = "room: loose files", 1_400

# Prints the number of keys, of options of `parse`, of frames of the package from its command to the
# first call of a torch form, which a kernel of a GPU takes the place of, and how often a warm
# `parse_text` goes from one file of the package to another, by a call or by a return.
MEASURE = """
import contextlib, io, re, sys, tempfile, threading
root = sys.argv[1]
import gpuparse
from gpuparse.commands import parse
from gpuparse.config.schema import known_keys
out = io.StringIO()
with contextlib.suppress(SystemExit), contextlib.redirect_stdout(out):
    parse.main(["--help"])
options = set(re.findall(r"^  (?:-o PATH, )?(--[a-z-]+)", out.getvalue(), re.M)) - {"--help"}
is_ours = lambda frame: frame.f_code.co_filename.startswith(root + "/gpuparse/")
def depth(frame):
    count = 0
    while frame:
        count += is_ours(frame)
        frame = frame.f_back
    return count
found, main = [], threading.get_ident()
def enter(frame, event, argument):
    if event == "call" and not found and is_ours(frame):
        if "/inference/torch/" in frame.f_code.co_filename:
            above = 0
            if threading.get_ident() != main:
                above = depth(sys._current_frames()[main])
            found.append(depth(frame) + above)
with tempfile.TemporaryDirectory() as folder, open(folder + "/in.conllu", "w") as file:
    file.write("1\\tShe\\tshe\\tPRON\\tPRP" + "\\t_" * 5 + "\\n\\n")
    file.flush()
    words = ["english", file.name, "--quiet", "--device", "cpu", "--engine", "torch", "--output"]
    parse.main([*words, file.name + ".1"])  # everything is imported and loaded
    sys.setprofile(enter), threading.setprofile(enter)
    parse.main([*words, file.name + ".2"])
    sys.setprofile(None), threading.setprofile(None)
parser = gpuparse.load("english", threads=1)
def switches():
    path, count, stack = None, 0, []
    def look(frame, event, argument):
        nonlocal path, count
        if event == "call":
            stack.append(path)
            here = frame.f_code.co_filename if is_ours(frame) else path
        elif event == "return":
            here = stack.pop() if stack else path
        else:
            return
        count += here != path and here is not None
        path = here
    sys.setprofile(look)
    parser.parse_text("The old man gave her a book about the sea .")[0].heads
    sys.setprofile(None)
    return count
print(len(known_keys()), len(options), found[0], [switches() for _ in range(3)][-1])
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "other", nargs="?", type=Path, help="another checkout, which has a column of its own"
    )


def run(options: argparse.Namespace) -> Report:
    """One row a quantity; the goal, this checkout, the other one."""
    checkouts = [ROOT, *([options.other.resolve()] if options.other else [])]
    columns = [counted(root) for root in checkouts]
    budgets = {f"room: {room}": budget for room, budget in ROOMS.items()}
    goals = GOALS | budgets | {LOOSE: LOOSE_BUDGET}
    rows: list[list[object]] = [
        [name, goal, *(column[name] for column in columns)] for name, goal in goals.items()
    ]
    notes = [
        "Files and lines are those that git knows. Frames: of the package, from the command `parse"
        " english` on; with a GPU a kernel takes the place of the last. Rooms: lines of Python.",
    ]
    return Report("The size of the code", ["", "goal", *(r.name for r in checkouts)], rows, notes)


def counted(root: Path) -> dict[str, int]:
    """All quantities of a checkout."""
    command = ["git", "-C", str(root), "ls-files"]
    known = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    files = [name for name in known if (root / name).is_file()]
    python = [name for name in files if name.endswith(".py")]
    package = [name for name in python if name.startswith("gpuparse/")]
    modules = {name_of(ROOT / name): _text(root, name) for name in package}
    imports = {name: imported_at_once(text, set(modules)) for name, text in modules.items()}
    measured = [sys.executable, "-c", MEASURE, str(root)]
    printed = subprocess.run(
        measured, cwd=root, check=True, stdout=subprocess.PIPE, text=True
    ).stdout

    def lines(start: str, names: Iterable[str] = python) -> int:
        return sum(_text(root, n).count("\n") for n in names if n.startswith(start))

    native = [name for name in files if name.endswith((".h", ".cpp"))]
    pages = [name for name in files if re.fullmatch(r"docs/[^/]+\.md", name)]
    found = [
        lines("gpuparse/"),
        lines("native/", native),
        lines("tests/"),
        lines("benchmarks/"),
        len(_text(root, "benchmarks/book.md").split()),
        sum(len(_text(root, page).split()) for page in pages),
        len({name.split("/")[1] for name in files if name.startswith("gpuparse/")}),
        len(re.findall(r'^    "[\w-]+": \(', _text(root, "gpuparse/__main__.py"), re.MULTILINE)),
        *map(int, printed.split()[:2]),
        len(circles(imports)),
        sum(map(inner_imports, modules.values())),
        *map(int, printed.split()[2:]),
    ]
    rooms = {f"room: {room}": lines(f"gpuparse/{room}/") for room in ROOMS}
    loose = {LOOSE: lines("gpuparse/") - sum(rooms.values())}
    return dict(zip(GOALS, found, strict=True)) | rooms | loose


def inner_imports(text: str) -> int:
    """The statements in functions that import modules of the package."""
    found = set()
    for function in ast.walk(ast.parse(text)):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            for node in ast.walk(function):
                names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
                names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
                if any(name.split(".")[0] == "gpuparse" for name in names):
                    found.add(node)
    return len(found)


def _text(root: Path, name: str) -> str:
    return (root / name).read_text(encoding="utf-8")
