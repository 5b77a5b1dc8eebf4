"""The list of parts in which trees differ holds those alone."""

import random
from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest

from gpuparse import native
from gpuparse.data.parts import CHILDREN, HIGHER_ORDER
from gpuparse.features.plan import HigherPlan, compile_higher
from tests.oracles.higher_order_parts import higher_order_parts_of
from tests.samples import any_heads, projective_heads
from tests.scoring.test_higher_order import prepared, template_set

# As native/part_list.h numbers them.
ARC, LABEL, SIBLINGS, RIGHT_END, LEFT_END, HIGHER = range(6)
HIGHER_PARTS = tuple(kind.name for kind in HIGHER_ORDER)
LABELLED = HIGHER + len(HIGHER_PARTS)
Tree = tuple[np.ndarray, np.ndarray]  # heads and labels at 1..n


def listed(
    gold: Tree, found: Tree, *, siblings: bool = False, higher: HigherPlan | None = None,
    children: HigherPlan | None = None,
) -> list[list[int]]:  # fmt: skip
    """Kind, h, m, third, fourth, label and sign of every part in which two trees differ."""
    n = len(gold[0]) - 1
    parts = np.empty((40 * n + 40, 7), np.int64)
    count = native.call(
        "list_tree_difference", gold[0], found[0], gold[1], found[1], siblings, higher, children,
        parts,
    )  # fmt: skip
    return parts[:count].tolist()


def tree(heads: list[int], label: int = 0) -> Tree:
    return np.array([-1, *heads], np.int64), np.full(len(heads) + 1, label, np.int64)


@pytest.mark.parametrize("n", [1, 2, 3, 12])
def test_chains_in_both_directions_with_other_labels(n: int) -> None:
    """Every word differs in its head and label, and every head in its last modifiers."""
    parts = listed(tree(list(range(n))), tree([*range(2, n + 1), 0], 1), siblings=True)
    assert len(parts) == (10 * n - 2 if n > 1 else 2)
    assert not sum(sign for *_, sign in parts)  # each tree has the same number of parts


def higher_plan(kinds: tuple[str, ...]) -> HigherPlan:
    templates = template_set(kinds, siblings=False)
    plan = compile_higher(templates, prepared(templates, 1 << 12)[1])
    assert plan is not None
    return plan


def named(part: list[int]) -> tuple:
    """A listed part by its kind, label if any, and words in the order of their roles."""
    kind, h, m, third, fourth, label, _ = part
    if kind in (ARC, LABEL):
        return (kind, h, m, label)
    is_labelled = kind >= LABELLED
    name = HIGHER_PARTS[kind - (LABELLED if is_labelled else HIGHER)]
    if is_labelled:
        return (name, label, (h, m, third))
    words = {
        "grandparent": (third, h, m), "grand_sibling": (fourth, h, third, m),
        "tri_sibling": (h, fourth, third, m),
    }.get(name, (h, m, third))  # fmt: skip
    return (name, words)


def all_parts(
    heads: list[int], labels: list[int], kinds: tuple[str, ...], labelled: tuple[str, ...]
) -> Counter:
    """All parts of a tree, and those of children with labels, by looking at the whole of it."""
    only_last = "tri_sibling" in kinds
    parts: Counter = Counter()
    for m, (h, label) in enumerate(zip(heads, labels, strict=True), start=1):
        parts[ARC, h, m, 0] += 1
        parts[LABEL, h, m, label] += 1
    for kind, words, m, is_last in higher_order_parts_of([-1, *heads]):
        if kind in labelled:
            parts[kind, labels[m - 1], words] += 1
        if kind in kinds and (is_last or not only_last or kind not in HIGHER_PARTS[:2]):
            parts[kind, words] += 1
    return parts


@pytest.mark.parametrize(
    ("kinds", "heads_of"),
    [
        (HIGHER_PARTS, projective_heads),
        ((*HIGHER_PARTS[:2], *CHILDREN), projective_heads),
        (HIGHER_PARTS[:3], any_heads),
        (HIGHER_PARTS[:2], any_heads),  # as dual decomposition has them
    ],
)
def test_higher_order_parts_that_differ_are_those_of_the_whole_trees(
    kinds: tuple[str, ...], heads_of: Callable[[random.Random, int], list[int]]
) -> None:
    draw, higher = random.Random(1), higher_plan(kinds)
    labelled = CHILDREN if set(CHILDREN) <= set(kinds) else ()
    children = higher_plan(labelled) if labelled else None
    different = 0
    for case in range(400):
        n = draw.randint(1, 9)
        trees = [heads_of(draw, n) for _ in range(2)]
        if case % 5 == 0:  # other labels alone
            trees[1] = trees[0]
        labels = [[draw.randint(0, 2) for _ in range(n)] for _ in range(2)]
        gold, guess = (
            (np.array([-1, *heads], np.int64), np.array([-1, *of_words], np.int64))
            for heads, of_words in zip(trees, labels, strict=True)
        )
        found: Counter = Counter()
        parts = listed(gold, guess, higher=higher, children=children)
        for part in parts:
            found[named(part)] += part[-1]
        expected = all_parts(trees[0], labels[0], kinds, labelled)
        expected.subtract(all_parts(trees[1], labels[1], kinds, labelled))
        assert {p: s for p, s in found.items() if s} == {p: s for p, s in expected.items() if s}
        different += len(parts) > 0
    assert different > 250
