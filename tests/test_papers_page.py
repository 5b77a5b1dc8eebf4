"""Every row of docs/papers.md names code, a config and a test that are there."""

import ast
import re
from pathlib import Path

import pytest

from gpuparse.config import load_config

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "papers.md").read_text(encoding="utf-8")
ROWS = [
    cells
    for line in PAGE.splitlines()
    if line.startswith("| ")
    and len(cells := [cell.strip() for cell in line.strip("|").split("|")]) == 5
    and "`" in cells[2]
]


def spans(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def names_in(path: Path) -> set[str]:
    """The functions and classes that a module defines."""
    found = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    return {node.name for node in found if isinstance(node, ast.FunctionDef | ast.ClassDef)}


def assert_defined(cell: str, folder: str) -> None:
    """Files, each followed by the names that it defines."""
    path = None
    for span in spans(cell):
        if "/" in span:
            path = ROOT / folder / span
            assert path.is_file(), span
        else:
            assert path is not None
            assert span in names_in(path), f"{path.name} does not define {span}"


def test_all_papers_have_rows() -> None:
    assert len(ROWS) > 30
    assert {"2.3.1, equation 1", "2.3, figure 4", "2.1, figure 2"} <= {row[0] for row in ROWS}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_what_a_row_names_is_there(row: list[str]) -> None:
    _, _, code, config, test = row
    assert_defined(code, "gpuparse")
    name, *changes = spans(config)
    load_config(ROOT / "configs" / f"{name}.yaml", ["data.train=train.conllu", *changes])
    assert_defined(test, "tests")
    assert spans(test)[1:], "a row names a test function"
