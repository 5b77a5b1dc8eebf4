"""The list of parts has room for all in which trees can differ."""

from dataclasses import replace

import numpy as np
import pytest

from gpuparse.compiled import compiled
from gpuparse.features.plan import SiblingPlan
from gpuparse.learning.parts import PartList, Trees, list_parts, make_part_list
from tests.learning.literal import OPTIONS, toy_treebank, trainer_of


@compiled
def _listed(structures, siblings, start, n, listed):
    return list_parts(structures, siblings, start, n, listed)


def siblings_plan() -> SiblingPlan:
    trainer = trainer_of(
        toy_treebank("eisner_sibling", 1, [3]), replace(OPTIONS, decoder="eisner_sibling")
    )
    plan = trainer.model(16).plan.siblings
    assert plan is not None
    return plan


@pytest.mark.parametrize("n", [1, 2, 3, 12])
def test_chains_in_both_directions_with_other_labels_fit(n: int) -> None:
    """Every word differs in its head and label, and every head in its last modifiers."""
    to_the_right = [-1, *range(n)]
    to_the_left = [-1, *range(2, n + 1), 0]
    gold, found = (np.array(heads, np.int64) for heads in (to_the_right, to_the_left))
    labels = np.zeros(n + 1, np.int64)
    trees = Trees(gold, found[np.newaxis], labels, labels[np.newaxis] + 1, gold, labels, None)
    listed: PartList = make_part_list(n, 1, graphs=False, siblings=True)
    most = len(listed.parts)
    roomy = listed._replace(
        parts=np.empty((4 * most, 5), np.int64), signs=np.empty((4 * most, 1), np.int64)
    )
    count = _listed(trees, siblings_plan(), 0, n, roomy)
    assert count == (10 * n - 2 if n > 1 else 2)
    assert count <= most
    assert listed.costs.tolist() == [n]
    assert not roomy.signs[:count].sum()  # as many parts of the one as of the other
