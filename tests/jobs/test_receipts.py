"""Receipts of work that can be continued: what is written is read, and nothing else is."""

from pathlib import Path

import pytest

from gpuparse.errors import ConfigError
from gpuparse.jobs.receipts import Origin, Receipt, flat

ORIGIN = Origin({"seed": 1, "kinds": ("a", "b"), "name": "\udcff"}, {"the input": "0" * 64})
DONE = Receipt(ORIGIN, {"faults": 2, "seconds": 0.5})


@pytest.mark.parametrize("receipt", [Receipt(ORIGIN), DONE])
def test_what_is_written_is_read(tmp_path, receipt):
    path = tmp_path / "receipt"
    assert Receipt.read(path, "") is None
    receipt.write(path)
    found = Receipt.read(path, "")
    assert found.result == receipt.result
    found.origin.check(ORIGIN, tmp_path, "")


def test_every_change_of_a_file_is_found(tmp_path):
    path = tmp_path / "receipt"
    sound = DONE.as_text()
    for i in range(len(sound)):
        path.write_text(f"{sound[:i]}9{sound[i + 1 :]}")
        if sound[i] in "9\n":  # the same number, or white space
            continue
        with pytest.raises(ConfigError, match="receipt: is damaged, or of another version; do X"):
            Receipt.read(path, "do X")


@pytest.mark.parametrize("part", ["options", "contents"])
def test_tables_are_tables(part):
    origin = Origin(**{"options": {}, "contents": {}} | {part: []})
    with pytest.raises(ConfigError, match="is damaged"):
        Receipt.of_text(Receipt(origin).as_text(), Path("x"), "")


def test_the_error_names_all_that_differs():
    now = Origin({"seed": 2, "kinds": ["a", "b"]}, {"the input": "1", "the model": "2"}, "9.9")
    with pytest.raises(ConfigError) as caught:
        ORIGIN.check(now, Path("out"), "give another output")
    said = str(caught.value).splitlines()
    assert said[1:] == [
        "out: cannot continue: seed was 1 and is now 2",
        'out: cannot continue: name was "?" and is now null',
        "out: cannot continue: the input: has other content",
        "out: cannot continue: the model: has other content",
        "out: give what it was begun with, or give another output",
    ]
    assert said[0].startswith("out: cannot continue: the version was ")


def test_keys_of_inner_tables_are_dotted():
    assert flat({"a": 1, "b": {"c": {"d": 2}, "e": []}}) == {"a": 1, "b.c.d": 2, "b.e": []}
