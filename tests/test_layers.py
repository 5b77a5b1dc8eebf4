"""The house keeps its one direction: every import goes down a level or stays in its folder."""

import ast
import re
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "gpuparse"

# docs/architecture.md says why.
ORDER = (
    "errors", "limits", "__init__", "native", "files", "data", "features", "inference", "config",
    "scorers", "text", "model", "evaluation", "learning", "jobs", "api", "server", "commands",
    "__main__",
)  # fmt: skip
# A module imports rooms above its own in this list; `__init__` is imported for the version, and
# imports what it offers from `api` alone.
LEVELS = {room: level for level, room in enumerate(ORDER)}
REFUSED_NAMES = {"utils", "util", "common", "base", "helpers", "misc"}


def room_of(path: Path) -> str:
    """The first part of a file's name below the package: a room, or a module of its own."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def own_imports(tree: ast.AST) -> list[str]:
    """Names below gpuparse that a module imports, wherever in it; "" for the package itself."""
    names = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module == "gpuparse":
            names += [f"gpuparse.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names.append(node.module or "")
    return [name.partition(".")[2] for name in names if name.split(".")[0] == "gpuparse"]


def faults(path: Path, source: str) -> list[str]:
    """The faults of one module's imports."""
    tree, here = ast.parse(source), room_of(path)
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level:
            found.append(f"line {node.lineno}: relative import")
        if isinstance(node, ast.ImportFrom) and any(alias.name == "*" for alias in node.names):
            found.append(f"line {node.lineno}: star import")
        if isinstance(node, ast.ImportFrom) and node.module == "functools":
            # Up to Python 3.11 a fork may leave its lock held; see gpuparse/data/cached.py.
            locked = [alias for alias in node.names if alias.name == "cached_property"]
            found += [f"line {node.lineno}: cached_property of functools" for _ in locked]
    for name in own_imports(tree):
        there = name.split(".")[0]
        if there in ("", "__version__"):
            there = "__init__"
        if (here, there) == ("__init__", "api"):
            continue
        if there not in LEVELS:
            found.append(f"imports {name}, which is in no known room")
        elif there != here and LEVELS[there] >= LEVELS[here]:
            found.append(f"imports {name} (level {LEVELS[there]}) from level {LEVELS[here]}")
    return found


MODULES = sorted(PACKAGE.rglob("*.py"))


def name_of(path: Path) -> str:
    """The name of a module; that of a package for its `__init__.py`."""
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported_at_once(source: str, known: set[str]) -> set[str]:
    """The modules of `known` that a module imports when it is imported itself."""
    names: set[str] = set()
    todo: list[ast.AST] = [ast.parse(source)]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names |= {f"{node.module}", *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            todo += node.orelse
        elif not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            todo += ast.iter_child_nodes(node)
    return names & known


def circles(imports: dict[str, set[str]]) -> list[list[str]]:
    """The strongly connected components of more than one module, by Tarjan's algorithm."""
    numbers: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    found = []

    def visit(module: str) -> None:
        numbers[module] = lowest[module] = len(numbers)
        stack.append(module)
        for other in imports[module]:
            if other not in numbers:
                visit(other)
            if other in stack:
                lowest[module] = min(lowest[module], lowest[other])
        if lowest[module] == numbers[module]:
            place = stack.index(module)
            component = stack[place:]
            del stack[place:]
            if len(component) > 1:
                found.append(sorted(component))

    for module in imports:
        if module not in numbers:
            visit(module)
    return found


def test_no_modules_import_each_other_in_a_circle():
    known = {name_of(path) for path in MODULES}
    imports = {
        name_of(path): imported_at_once(path.read_text(encoding="utf-8"), known) for path in MODULES
    }
    assert sum(map(len, imports.values())) > 4 * len(MODULES)
    assert circles(imports) == []
    # A circle would be found; what is imported later or never makes none.
    below = "import gpuparse.model.parser"
    later = f"def f():\n    {below}\nif TYPE_CHECKING:\n    {below}"
    assert imported_at_once(later, known) == set()
    at_once = "try:\n    import numpy\nexcept ImportError:\n    from gpuparse.model import parser"
    imports["gpuparse.errors"] = imported_at_once(at_once, known)
    [circle] = circles(imports)
    assert {"gpuparse.errors", "gpuparse.model.parser"} <= {*circle}


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_go_down(path):
    assert room_of(path) in LEVELS, "a room that docs/architecture.md does not know"
    assert faults(path, path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_nothing_is_called_by_a_name_that_says_nothing(path):
    assert not REFUSED_NAMES.intersection(path.relative_to(PACKAGE).with_suffix("").parts)


@pytest.mark.parametrize(
    ("module", "source", "fault"),
    [
        ("data/conll.py", "from gpuparse.model.parser import Parser", "imports model.parser"),
        ("data/conll.py", "import gpuparse.features.plan", "imports features.plan (level 6)"),
        ("data/conll.py", "from gpuparse.inference import eisner", "imports inference (level 7)"),
        ("data/conll.py", "def f():\n    from gpuparse import model", "imports model (level 11)"),
        ("data/conll.py", "import gpuparse.nowhere", "in no known room"),
        ("data/conll.py", "from .sentence import Sentence", "line 1: relative import"),
        ("model/parser.py", "from gpuparse.data.conll import *", "line 1: star import"),
        ("errors.py", "import gpuparse.data.parts", "imports data.parts"),
        ("files.py", "import gpuparse.data.parts", "imports data.parts"),
        ("model/parser.py", "from functools import cached_property", "cached_property of funct"),
    ],
)
def test_a_wrong_import_is_found(module, source, fault):
    [found] = faults(PACKAGE / module, source)
    assert fault in found


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("data/conll.py", "import numpy, gpuparse.data.treebank\nfrom gpuparse.errors import X"),
        ("__main__.py", "from gpuparse import __version__\nfrom gpuparse.commands import config"),
    ],
)
def test_a_right_import_passes(module, source):
    assert faults(PACKAGE / module, source) == []


def test_the_map_names_every_room_and_its_level():
    text = (PACKAGE.parent / "docs" / "architecture.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`.*`) \| (-?\d+) \|", text, re.MULTILINE)
    levels = {
        room.removesuffix("/").removesuffix(".py"): int(level)
        for rooms, level in rows
        for room in re.findall(r"`([\w./]+)`", rooms)
    }
    there = {room_of(path) for path in MODULES} - {"__init__", "__main__"}
    assert levels == {room: level for room, level in LEVELS.items() if room in there}
    assert len(text.splitlines()) <= 100


def test_no_two_types_have_one_name():
    places: dict[str, list[str]] = {}
    for path in MODULES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name, []).append(str(path.relative_to(PACKAGE)))
    assert {name: files for name, files in places.items() if len(files) > 1} == {}


ROOT = PACKAGE.parent
DOCUMENTED = [
    path
    for room in (PACKAGE, *(ROOT / each for each in ("benchmarks", "docs", "native", "tests")))
    for path in room.rglob("*.py")
]
RIDDLES = ("What", "Whether", "Those", "Of", "How")  # a docstring is a plain sentence


def riddles(source: str) -> list[str]:
    """The docstrings that begin with a word of `RIDDLES`."""
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    texts = [
        ast.get_docstring(n) or "" for n in ast.walk(ast.parse(source)) if isinstance(n, kinds)
    ]
    return [text for text in texts if re.match(rf"({'|'.join(RIDDLES)})\b", text)]


def test_docstrings_are_plain_sentences():
    found = {path: riddles(path.read_text(encoding="utf-8")) for path in DOCUMENTED}
    assert len(found) > 500
    assert {path: texts for path, texts in found.items() if texts} == {}
    for word in RIDDLES:
        assert riddles(f'def f():\n    """{word} it is."""') == [f"{word} it is."]
