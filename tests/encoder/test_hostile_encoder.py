"""Hostile folders of models with an encoder are refused in one line or harmless; quickly."""

import numpy as np
import pytest

from gpuparse.errors import ModelError
from tests import hostile_encoders, hostile_files
from tests.hostile_files import Entry, array, at, try_entry

pytestmark = pytest.mark.usefixtures("models")  # which skips without the packages
KINDS = hostile_encoders.KINDS
every_kind = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)


def test_hostile_files_are_refused_or_harmless():
    counts, failed = hostile_files.try_all(hostile_files.ENCODERS, [], 397)
    assert failed == []
    assert counts.total() > counts["refused"] > 20


@every_kind
def test_the_unchanged_one_is_read(kind):
    try_entry(Entry("unchanged", kind, lambda parts: None, "parsed"))


@pytest.mark.parametrize("entry", hostile_encoders.alone(), ids=lambda entry: entry.name)
def test_what_is_hostile_in_encoders_alone(entry):
    try_entry(entry)


@every_kind
@pytest.mark.parametrize(
    ("place", "value", "text", "outcome"),
    [
        ("kinds/parser", "a\nb", "", "refused"),
        ("hidden_dropout_prob", float("nan"), hostile_encoders.CONFIG, "refused"),
        ("initializer_range", -0.5, hostile_encoders.CONFIG, "parsed"),
    ],
)
def test_facts_and_configs_that_no_training_writes(kind, place, value, text, outcome):
    try_entry(Entry(place, kind, at(place, value, text), outcome))


@every_kind
def test_words_that_are_no_table_are_refused(kind):
    def change(parts):
        parts.texts[hostile_encoders.WORDS] = [1]

    try_entry(Entry("a list", kind, change, "refused"))


@every_kind
def test_every_changed_array_is_refused(kind):
    """It has another name, type or shape, or a number that is not finite."""

    def spoiled(found):
        other = found.copy()
        other.reshape(-1)[-1] = np.nan
        return other

    for name, found in kind.parts().arrays.items():
        changes = [
            lambda parts, name=name: parts.arrays.update({f"{name}x": parts.arrays.pop(name)}),
            array(name, lambda a: a.astype(np.float64)),
            array(name, lambda a: a[None]),
            array(name, lambda a: np.concatenate([a, a[-1:]])),
            *([array(name, spoiled)] if found.dtype.kind == "f" else []),
        ]
        for change in changes:
            try_entry(Entry(name, kind, change, "refused"))


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("no pieces for a word", ["no pieces for the word 'a'"]),
        ("an exponential expression", ["encoder-tokenizer.json", "(a+)+$"]),
        ("hidden_size: missing", ["hidden_size"]),
        ("labels: 'xxxxxxx", ["1,000 characters"]),
    ],
)
def test_what_is_said(name, parts, tmp_path):
    for entry in hostile_encoders.alone():
        if name in entry.name:
            found = entry.kind.parts()
            entry.change(found)
            folder = tmp_path / entry.name[:1]
            folder.mkdir()
            entry.kind.write(found, folder)
            with pytest.raises(ModelError) as caught:
                entry.kind.use(folder)
            assert all(part in str(caught.value) for part in parts)


def test_the_command_says_it_in_one_line(models, tmp_path, capsys):
    found = KINDS["8 bits"]
    parts = found.parts()
    parts.texts["encoder.json"]["vocab_size"] = 10
    found.write(parts, tmp_path)
    capsys.readouterr()
    assert models.call(tmp_path, hostile_encoders.SENTENCES) == (4, b"")
    said = capsys.readouterr().err
    assert "Traceback" not in said
    assert len(said.strip().splitlines()) == 1
