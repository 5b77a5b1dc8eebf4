"""The counts of the code."""

import argparse

from benchmarks import counts


def test_imports_in_functions_are_counted():
    text = (
        "import gpuparse\ndef f():\n    import os, gpuparse.files\n    from gpuparse import api\n"
    )
    assert counts.inner_imports(text) == 2
    assert counts.inner_imports(text + "def g():\n    from os import path\n") == 2


def test_the_table_has_goals_and_a_column_for_each_checkout():
    report = counts.run(argparse.Namespace(other=counts.ROOT))
    assert report.columns[:2] == ["", "goal"]
    assert all(here == there for _, _, here, there in report.rows)
    known = {row[0]: row[2] for row in report.rows}
    lines = known["lines of Python in the package"]
    assert lines == sum(n for name, n in known.items() if name.startswith("room: ")) > 10_000
    folders = (counts.ROOT / "gpuparse").iterdir()
    assert set(counts.ROOMS) == {each.name for each in folders if any(each.rglob("*.py"))}
    assert known["lines of C++"] > 1000
    assert known["words of docs"] <= 25_000
    assert known["words of the book"] <= 8_000
    assert known["lines of Python in benchmarks"] <= 4_000
    assert known["circles of imports"] == 0
    assert 5 < known["frames to the search in torch"] < 40
