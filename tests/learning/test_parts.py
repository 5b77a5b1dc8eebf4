"""The list of parts has room for all in which trees can differ, and holds those alone."""

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from gpuparse.compiled import compiled
from gpuparse.features.larger_plan import CHILDREN, LargerPlan, compile_larger
from gpuparse.features.plan import SiblingPlan
from gpuparse.features.templates import LARGER_PARTS
from gpuparse.learning.parts import (
    ARC,
    LABEL,
    LABELLED,
    LARGER,
    OTHER_WORD,
    PartList,
    Trees,
    list_parts,
    make_part_list,
)
from tests.learning.literal import OPTIONS, toy_treebank, trainer_of
from tests.oracles.larger_trees import larger_parts_of
from tests.samples import any_heads, projective_heads
from tests.scoring.test_larger import prepared, template_set


@compiled
def _listed(structures, siblings, start, n, listed):
    return list_parts(structures, siblings, None, None, start, n, listed)


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


@compiled
def _listed_larger(structures, larger, children, start, n, listed):
    return list_parts(structures, None, larger, children, start, n, listed)


def larger_plan(kinds: tuple[str, ...]) -> LargerPlan:
    templates = template_set(kinds, siblings=False)
    plan = compile_larger(templates, prepared(templates, 1 << 12)[1])
    assert plan is not None
    return plan


def named(part: list[int]) -> tuple:
    """A listed part by its kind, label if any, and words in the order of their roles."""
    kind, h, m, third, _ = part
    if kind in (ARC, LABEL):
        return (kind, h, m, third)
    is_labelled = kind >= LABELLED
    name = LARGER_PARTS[kind - (LABELLED if is_labelled else LARGER)]
    one, other = third % OTHER_WORD, third // OTHER_WORD
    if is_labelled:
        return (name, other, (h, m, one))
    words = {
        "grandparent": (one, h, m), "grand_sibling": (one, h, other, m),
        "tri_sibling": (h, one, other, m),
    }.get(name, (h, m, one))  # fmt: skip
    return (name, words)


def all_parts(
    heads: list[int], labels: list[int], kinds: tuple[str, ...], labelled: tuple[str, ...]
) -> Counter:
    """Arcs, labels, larger parts, and those of children with labels, by looking at the tree."""
    only_last = "tri_sibling" in kinds
    parts: Counter = Counter()
    for m, (h, label) in enumerate(zip(heads, labels, strict=True), start=1):
        parts[ARC, h, m, 0] += 1
        parts[LABEL, h, m, label] += 1
    for kind, words, m, is_last in larger_parts_of([-1, *heads]):
        if kind in labelled:
            parts[kind, labels[m - 1], words] += 1
        if kind in kinds and (is_last or not only_last or kind not in LARGER_PARTS[:2]):
            parts[kind, words] += 1
    return parts


@pytest.mark.parametrize(
    ("kinds", "heads_of"),
    [
        (LARGER_PARTS, projective_heads),
        ((*LARGER_PARTS[:2], *CHILDREN), projective_heads),
        (LARGER_PARTS[:3], any_heads),
        (LARGER_PARTS[:2], any_heads),  # as dual decomposition has them
    ],
)
def test_larger_parts_that_differ_are_those_of_the_whole_trees(
    kinds: tuple[str, ...], heads_of: Callable[[random.Random, int], list[int]]
) -> None:
    draw, larger = random.Random(1), larger_plan(kinds)
    labelled = CHILDREN if set(CHILDREN) <= set(kinds) else ()
    children = larger_plan(labelled) if labelled else None
    listed, different = make_part_list(9, 1, graphs=False, siblings=False, larger=True), 0
    for case in range(400):
        n = draw.randint(1, 9)
        trees = [heads_of(draw, n) for _ in range(2)]
        if case % 5 == 0:  # other labels alone
            trees[1] = trees[0]
        labels = [[draw.randint(0, 2) for _ in range(n)] for _ in range(2)]
        heads = [np.array([-1, *tree], np.int64) for tree in trees]
        of_words = [np.array([-1, *each], np.int64) for each in labels]
        structures = Trees(
            heads[0], heads[1][np.newaxis], of_words[0], of_words[1][np.newaxis], heads[0],
            of_words[0], None,
        )  # fmt: skip
        listed.first[:] = -1
        count = _listed_larger(structures, larger, children, 0, n, listed)
        found = Counter()
        for part, (sign,) in zip(
            listed.parts[:count].tolist(), listed.signs[:count].tolist(), strict=True
        ):
            found[named(part)] += sign
        expected = all_parts(trees[0], labels[0], kinds, labelled)
        expected.subtract(all_parts(trees[1], labels[1], kinds, labelled))
        assert {p: s for p, s in found.items() if s} == {p: s for p, s in expected.items() if s}
        different += count > 0
    assert different > 250


@pytest.mark.parametrize("n", [1, 2, 3, 12])
def test_larger_parts_of_chains_fit(n: int) -> None:
    """Nothing of the one tree is in the other."""
    plan = larger_plan(LARGER_PARTS)
    gold = np.array([-1, *range(n)], np.int64)
    found = np.array([-1, *range(2, n + 1), 0], np.int64)
    labels = np.zeros(n + 1, np.int64)
    trees = Trees(gold, found[np.newaxis], labels, labels[np.newaxis] + 1, gold, labels, None)
    listed = make_part_list(n, 1, graphs=False, siblings=True, larger=True)
    roomy = listed._replace(
        parts=np.empty((1000, 5), np.int64), signs=np.empty((1000, 1), np.int64)
    )
    count = _listed_larger(trees, plan, plan, 0, n, roomy)
    # With siblings and ends there are up to 6 more a word; see above.
    assert 0 < count <= len(listed.parts) - 6 * n
