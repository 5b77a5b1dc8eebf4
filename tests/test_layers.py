"""The house keeps its one direction: every import goes down a level or stays in its folder."""

import ast
import re
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "gpuparse"

# docs/architecture.md says why.
LEVELS = {
    "__init__": -1,  # for those that import it; it imports what it offers from `api` alone
    "errors": -2,  # below all others, which may raise them
    "limits": -2,
    "parts": 0,
    "native": -1,
    "compact": 0,
    "files": 0,
    "installed": 0,
    "array_file": 1,
    "cached": 0,
    "whole_numbers": 0,
    "plain_yaml": 0,
    "charts": 0,
    "inference": 1,
    "interop": 14,  # a leaf: nothing of ours imports it
    "data": 1,
    "features": 2,
    "formats": 2,
    "evaluation": 2,
    "scorers": 3,
    "engines": 4,
    "sequences": 2,
    "config": 3,
    "parser": 5,
    "tagging": 4,
    "text": 4,
    "confidence": 6,
    "decoder_choice": 6,
    "explaining": 6,
    "model_folder": 6,
    "pipeline": 7,
    "self_test": 6,
    "learning": 7,
    "jobs": 8,
    "lab": 9,
    "api": 10,
    "server": 11,
    "commands": 12,
    "__main__": 13,
}
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
    """What is wrong with the imports of one module."""
    tree, here = ast.parse(source), room_of(path)
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level:
            found.append(f"line {node.lineno}: relative import")
        if isinstance(node, ast.ImportFrom) and any(alias.name == "*" for alias in node.names):
            found.append(f"line {node.lineno}: star import")
        if isinstance(node, ast.ImportFrom) and node.module == "functools":
            # Up to Python 3.11 a fork may leave its lock held; see gpuparse/cached.py.
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
    later = "def f():\n    import gpuparse.parser\nif TYPE_CHECKING:\n    import gpuparse.parser"
    assert imported_at_once(later, known) == set()
    at_once = "try:\n    import numpy\nexcept ImportError:\n    from gpuparse import parser"
    imports["gpuparse.errors"] = imported_at_once(at_once, known)
    [circle] = circles(imports)
    assert {"gpuparse.errors", "gpuparse.parser"} <= {*circle}


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
        ("data/conll.py", "from gpuparse.parser import Parser", "imports parser (level 5)"),
        ("data/conll.py", "import gpuparse.features.plan", "imports features.plan (level 2)"),
        ("data/conll.py", "from gpuparse.inference import eisner", "imports inference (level 1)"),
        ("data/conll.py", "def f():\n    from gpuparse import parser", "imports parser (level 5)"),
        ("data/conll.py", "import gpuparse.nowhere", "in no known room"),
        ("data/conll.py", "from .sentence import Sentence", "line 1: relative import"),
        ("parser.py", "from gpuparse.data.conll import *", "line 1: star import"),
        ("errors.py", "import gpuparse.parts", "imports parts (level 0)"),
        ("files.py", "import gpuparse.parts", "imports parts (level 0)"),
        ("parser.py", "from functools import cached_property", "cached_property of functools"),
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
