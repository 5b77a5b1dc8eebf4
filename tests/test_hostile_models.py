"""A part of the catalogues of hostile models, stages and states; their program tries all."""

import pytest

from tests import hostile_files


@pytest.mark.parametrize(
    ("catalogue", "step", "least"), [("models", 53, 150), ("states", 27, 40), ("stages", 53, 100)]
)
def test_hostile_files_are_refused_or_harmless(catalogue, step, least):
    counts, failed = hostile_files.try_all(catalogue, [], step)
    assert failed == []
    assert counts.total() > counts["refused"] > least


@pytest.mark.parametrize("catalogue", hostile_files.CATALOGUES)
def test_the_unchanged_ones_are_read(catalogue):
    counts, failed = hostile_files.try_all(catalogue, ["unchanged"])
    assert failed == []
    assert counts["refused"] == 0
    assert counts.total() >= 4
