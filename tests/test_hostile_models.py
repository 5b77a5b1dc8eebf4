"""A part of the catalogues of hostile models and states; their programs try all of them."""

from collections import Counter

import pytest

from tests import hostile_models, hostile_stages, hostile_states


@pytest.mark.parametrize(
    ("catalogue", "step", "least"),
    [(hostile_models, 19, 90), (hostile_states, 27, 28), (hostile_stages, 35, 70)],
)
def test_hostile_files_are_refused_or_harmless(catalogue, step: int, least: int) -> None:
    counts, failed = catalogue.try_all([], step)
    print(dict(counts))
    assert failed == []
    assert counts.total() > counts["refused"]
    assert counts["refused"] > least


def test_the_unchanged_ones_are_read() -> None:
    models, failed = hostile_models.try_all(["unchanged"])
    assert (models, failed) == (Counter(parsed=len(hostile_models.BASES)), [])
    stages, failed = hostile_stages.try_all(["unchanged"])
    assert (stages, failed) == (Counter(annotated=len(hostile_stages.FORMATS)), [])
    states, failed = hostile_states.try_all(["unchanged"])
    assert (states, failed) == (Counter(learned=len(hostile_states.KINDS)), [])
