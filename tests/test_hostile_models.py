"""A part of the catalogues of hostile models, stages and states; their program tries all."""

import pytest

from tests import hostile_files, hostile_stages


@pytest.mark.parametrize(
    ("catalogue", "step", "least"), [("models", 101, 75), ("states", 53, 20), ("stages", 149, 35)]
)
def test_hostile_files_are_refused_or_harmless(catalogue, step, least):
    counts, failed = hostile_files.try_all(catalogue, [], step)
    assert failed == []
    assert counts.total() > counts["refused"] > least


@pytest.mark.parametrize("kind", hostile_stages.KINDS.values(), ids=hostile_stages.KINDS)
def test_every_changed_array_of_a_stage_is_refused_or_harmless(kind):
    for name in kind.parts().arrays:
        for value in (lambda found: found[:-1], lambda found: found + found.dtype.type(77)):
            change = hostile_files.array(name, value)
            hostile_files.try_entry(hostile_files.Entry(name, kind, change))


@pytest.mark.parametrize("catalogue", hostile_files.CATALOGUES)
def test_the_unchanged_ones_are_read(catalogue):
    counts, failed = hostile_files.try_all(catalogue, ["unchanged"])
    assert failed == []
    assert counts["refused"] == 0
    assert counts.total() >= 4
