"""The wall between scorers and decoders: decoders know scores of parts, and no features."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
# Distributions and their losses of gold trees, for users' models; no decoder imports them.
LOSSES = ("distributions", "labelled", "losses")
DECODERS = sorted(
    path for path in (ROOT / "gpuparse" / "inference").rglob("*.py") if path.stem not in LOSSES
)
NATIVE_DECODERS = ["exact_trees", "higher", "single_changes"]
UNKNOWN_TO_DECODERS = re.compile(r"hash|gold|feature|vocabular|cost_augmented", re.IGNORECASE)


def names_in(source: str) -> set[str]:
    """All identifiers of a Python file."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        for field in ("id", "attr", "arg", "name", "module"):
            value = getattr(node, field, None)
            if isinstance(value, str):
                names.add(value)
    return names


def included_by(name: str) -> set[Path]:
    """A native file and all headers that it includes, in turn."""
    found: set[Path] = set()
    todo = [ROOT / "native" / f"{name}.cpp"]
    while todo:
        path = todo.pop()
        if path in found:
            continue
        found.add(path)
        for include in re.findall(r'#include "([^"]+)"', path.read_text()):
            todo += [p for p in (ROOT / "native" / include, path.parent / include) if p.exists()]
    return found


@pytest.mark.parametrize("path", DECODERS, ids=lambda path: str(path.relative_to(ROOT)))
def test_decoders_in_python_know_scores_only(path):
    names = names_in(path.read_text(encoding="utf-8"))
    assert {name for name in names if UNKNOWN_TO_DECODERS.search(name)} == set()


@pytest.mark.parametrize("name", NATIVE_DECODERS)
def test_native_decoders_know_scores_only(name):
    for path in included_by(name):
        code = re.sub(r"//.*", "", path.read_text())
        assert UNKNOWN_TO_DECODERS.findall(code) == [], path


def test_no_decoder_imports_the_losses():
    modules = {f"gpuparse.inference.{name}" for name in LOSSES}
    importers = {path.name for path in DECODERS if modules & names_in(path.read_text("utf-8"))}
    assert importers == {"__init__.py"}


def test_knowledge_would_be_found():
    assert UNKNOWN_TO_DECODERS.search("gold_heads")
    assert names_in("from gpuparse.features import keys\nkeys.hashed(x)") >= {"hashed", "keys"}
    assert len(included_by("exact_trees")) > 5
