"""The size of the code: lines, files, parameters, files that name one thing, frames of a parse."""

import argparse
import ast
import json
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from benchmarks.registry import Report
from gpuparse.errors import ConfigError

GATE = ("tests/test_layers.py",)
ROOT = Path(__file__).parents[1]
MOST = 12  # parameters
KEYWORDS = {"if", "for", "while", "switch", "return", "sizeof", "defined"}

# Parses a file in this process and prints the stack of the package's frames, from parse.py on, in
# which most time is spent; those of a worker thread come after those that wait for it. The last
# frame is the one that calls compiled code.
WALK = """
import json, signal, sys, threading
from collections import Counter
root, model, text = sys.argv[1:4]
sys.path.insert(0, root)
from gpuparse.commands.parse import main
seen = Counter()
def names(frame):
    found = []
    while frame:
        if frame.f_code.co_filename.startswith(root + "/gpuparse/"):
            found.append((frame.f_code.co_filename[len(root) + 1:], frame.f_code.co_name))
        frame = frame.f_back
    return found[::-1]
def look(number, frame):
    own = threading.get_ident()
    others = [names(top) for thread, top in sys._current_frames().items() if thread != own]
    seen[tuple(names(frame) + max(others, key=len, default=[]))] += 1
signal.signal(signal.SIGALRM, look)
with open("/dev/null", "w") as sys.stdout:
    main([model, text, "--threads", "1", "--quiet"])  # everything is imported and loaded
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
    main([model, text, "--threads", "1", "--quiet"])
    signal.setitimer(signal.ITIMER_REAL, 0)
print(json.dumps(seen.most_common(1)[0][0]), file=sys.__stdout__)
"""
SENTENCES = 3000

# Prints how often a warm call of the package goes from one of its files to another, by a call or
# by a return from one.
SWITCHES = """
import sys, threading
root, model, name = sys.argv[1:4]
sys.path.insert(0, root)
import gpuparse
parser = gpuparse.load(model, threads=1)
sentence = "The old man gave her a book about the sea ."
given = sentence if name == "parse_text" else [sentence.split()]
call = getattr(parser, name)
def switches():
    path, count, stack = None, 0, []
    def look(frame, event, argument):
        nonlocal path, count
        if event == "call":
            stack.append(path)
            file = frame.f_code.co_filename
            here = file if file.startswith(root + "/gpuparse/") else path
        elif event == "return":
            here = stack.pop() if stack else path
        else:
            return
        count += here != path and here is not None
        path = here
    sys.setprofile(look)
    call(given)[0].heads
    sys.setprofile(None)
    return count
print([switches() for _ in range(3)][-1])
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "older", nargs="*", type=Path, help="other checkouts, each with a column of its own"
    )
    parser.add_argument("--decoder", default="eisner_tri_sibling", help="is counted where named")
    parser.add_argument("--key", default="max_step", help="of a config, is counted where named")
    parser.add_argument(
        "--scorer", default=r"\b(word_vectors|WordVectors|VectorScorer|scorers\.vectors)\b",
        help="a regular expression for names of a scorer: files with one are counted",
    )  # fmt: skip
    parser.add_argument(
        "--walk", nargs="*", type=Path, default=[], metavar="MODEL",
        help="parse a file and count the frames: a model of each checkout, in their order",
    )  # fmt: skip


def check(options: argparse.Namespace) -> None:
    """A model of each checkout, or none.

    Raises:
        ConfigError: another number.
    """
    if options.walk and len(options.walk) != len(options.older) + 1:
        raise ConfigError("--walk needs one model of each checkout, that of this one last")


def run(options: argparse.Namespace) -> Report:
    """One row a quantity, one column a checkout."""
    checkouts = [path.resolve() for path in options.older] + [ROOT]
    columns = [_counts(path, options) for path in checkouts]
    rows: list[list[object]] = [
        [name, *(column[name] for column in columns)] for name in columns[0]
    ]
    notes = [
        "Files and lines are those that git knows. Parameters: of functions of Python and C++"
        " but for kernels and launches of Triton. Named: as a whole word, anywhere.",
    ]
    if options.walk:
        walks = [_walk(path, model) for path, model in zip(checkouts, options.walk, strict=True)]
        rows.append(["frames to the call of compiled code", *(len(walk) for walk in walks)])
        rows.append(["their files", *(len({file for file, _ in walk}) for walk in walks)])
        for name in ("parse", "parse_text"):
            switches = map(_switches, checkouts, options.walk, [name] * len(checkouts))
            rows.append([f"switches between files in a warm `{name}`", *switches])
        notes += [
            f"{path.name}: " + " > ".join(name for _, name in walk)
            for path, walk in zip(checkouts, walks, strict=True)
        ]
    return Report("The size of the code", ["", *(path.name for path in checkouts)], rows, notes)


def _counts(root: Path, options: argparse.Namespace) -> dict[str, int]:
    """All quantities of a checkout that are read from its files."""
    files = _git(root, "ls-files")
    in_package = [name for name in files if name.startswith("gpuparse/")]
    package = [name for name in in_package if not name.startswith("gpuparse/models/")]
    python = [name for name in files if name.endswith(".py")]
    native = [
        name for name in files if name.startswith("native/") and name.endswith((".h", ".cpp"))
    ]
    configs = [name for name in files if name.startswith("configs/") and name.endswith(".yaml")]
    launches = ("gpu_", "/gpu/", "/triton/")
    return {
        "lines of Python in the package": _lines(root, [n for n in package if n in set(python)]),
        "lines of Python in tests": _lines(root, [n for n in python if n.startswith("tests/")]),
        "lines of Python in all": _lines(root, python),
        "lines of C++": _lines(root, native),
        "Python files in the package": len([n for n in package if n.endswith(".py")]),
        "files in the package": len(package),
        "files of C++": len(native),
        f"functions of more than {MOST} parameters": sum(
            1
            for name in [*package, *native]
            if not any(word in name for word in launches)
            for _, count in functions(name, (root / name).read_text(encoding="utf-8"))
            if count > MOST
        ),
        f"files that name the decoder {options.decoder}": len(_named(root, options.decoder)),
        "of these in the package and native": len(
            [n for n in _named(root, options.decoder) if n.startswith(("gpuparse/", "native/"))]
        ),
        "type names that are defined more than once": sum(
            count > 1 for count in _types(root, package).values()
        ),
        "files of the package that name a scorer outside its folder": len(
            [
                name
                for name in _git(root, "grep", "-lE", options.scorer, "gpuparse")
                if "vectors" not in name  # its folders
            ]
        ),
        "words of docs": sum(
            len((root / name).read_text(encoding="utf-8").split())
            for name in files
            if name.startswith("docs/") and name.endswith(".md")
        ),
        f"files that name the config key {options.key}": len(_named(root, options.key)),
        "configs": len(configs),
        "most lines of a config": max((_lines(root, [name]) for name in configs), default=0),
    }


def functions(name: str, text: str) -> Iterator[tuple[str, int]]:
    """Name and number of parameters of each function that a file defines."""
    if name.endswith(".py"):
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                given = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
                yield node.name, sum(each.arg not in ("self", "cls") for each in given)
    elif name.endswith((".h", ".cpp")):
        text = re.sub(r"//[^\n]*|^\s*#(?:[^\n]*\\\n)*[^\n]*$", "", text, flags=re.MULTILINE)
        for match in re.finditer(r"\b(\w+)\s*(\((?:[^(){};]|\([^(){};]*\))*\))[\w\s]*\{", text):
            if match[1] not in KEYWORDS:
                yield match[1], _parameters(match[2][1:-1])


def _parameters(text: str) -> int:
    """Of a list of parameters in C++: commas within brackets do not count."""
    depth, count = 0, 1 if text.strip() else 0
    for character in text:
        depth += character in "<([{"
        depth -= character in ">)]}"
        count += character == "," and depth == 0
    return count


def _walk(root: Path, model: Path) -> list[tuple[str, str]]:
    """File and name of each frame between parse.py and the compiled code that takes most time."""
    with tempfile.TemporaryDirectory() as scratch:
        text = Path(scratch) / "text.conllu"
        rows = [f"{i}" + "\tx" * 5 + "\t_" * 4 + "\n" for i in range(1, 31)]
        text.write_text(("".join(rows) + "\n") * SENTENCES)
        command = [sys.executable, "-c", WALK, str(root), str(model.resolve()), str(text)]
        done = subprocess.run(command, cwd=root, check=True, capture_output=True, text=True)
    return [(file, name) for file, name in json.loads(done.stdout.splitlines()[-1])]


def _switches(root: Path, model: Path, name: str) -> int:
    """How often a warm call goes from one file of the package to another."""
    command = [sys.executable, "-c", SWITCHES, str(root), str(model.resolve()), name]
    done = subprocess.run(command, cwd=root, check=True, capture_output=True, text=True)
    return int(done.stdout)


def _types(root: Path, names: list[str]) -> Counter[str]:
    """How often each type name is defined."""
    trees = (
        ast.parse((root / name).read_text(encoding="utf-8"))
        for name in names
        if name.endswith(".py")
    )
    return Counter(
        node.name for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef)
    )


def _named(root: Path, word: str) -> list[str]:
    """Files with a word, but for this one."""
    return [name for name in _git(root, "grep", "-lw", word) if name != "benchmarks/counts.py"]


def _lines(root: Path, names: list[str]) -> int:
    return sum(len((root / name).read_text(encoding="utf-8").splitlines()) for name in names)


def _git(root: Path, *words: str) -> list[str]:
    """What git prints; files that are deleted and not committed are left out."""
    command = ["git", "-C", str(root), *words]
    lines = subprocess.run(command, capture_output=True, text=True, check=False).stdout.splitlines()
    return [line for line in lines if (root / line).is_file()]
