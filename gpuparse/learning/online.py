"""The online learning step, compiled: predict, compare with gold, move the weights.

McDonald, Crammer & Pereira (2005), figure 3, and McDonald & Pereira (2006), figure 6, one sentence
after the other. The average is lazy: `weighted` gathers every change multiplied by the number of
sentences seen before it, so that the mean of the weights after each of T sentences is
weights - weighted / T, and a sentence costs nothing but its own changes.
"""

from typing import NamedTuple

from numba import types
from numba.extending import overload

from gpuparse.compiled import compiled, inlined
from gpuparse.inference.kernels.cpu.search import search
from gpuparse.inference.kernels.cpu.search_k_best import search_k_best
from gpuparse.inference.kernels.cpu.search_larger import crossing_parts
from gpuparse.learning.difference import (
    insert_guides,
    insert_parts,
    n_slots_needed,
    update_sentence,
)
from gpuparse.learning.parts import GraphCells, forget_parts, list_parts
from gpuparse.scoring.cpu import fill_parts
from gpuparse.scoring.cpu_guides import fill_guide_parts
from gpuparse.scoring.cpu_larger import fill_larger_keys
from gpuparse.scoring.cpu_parse import (
    copy_arcs,
    find_label,
    forbid_others,
    labels_children,
    score_parts,
)
from gpuparse.scoring.cpu_siblings import fill_sibling_parts

DONE, TABLE_FULL, DIFFERENCE_FULL, NO_TREE = 0, 1, 2, 3


class Course(NamedTuple):
    """What stays fixed while learning."""

    single_root: bool
    min_gain: float  # of a single change, in the searches that make them
    rule: int  # as in gpuparse.learning.updates
    cost: float  # what a mistake adds to the scores that are searched with; 0 for plain search
    cap: float  # largest step, infinity for none


@inlined
def _add_tree_cost(scores, n, gold, cost):
    """Raise every arc but those of the gold tree: each wrong head costs so much."""
    for h in range(n + 1):
        for m in range(1, n + 1):
            scores[h, m] += cost
    for m in range(1, n + 1):
        if gold[m] >= 0:
            scores[gold[m], m] -= cost


@inlined
def _add_graph_cost(scores, n, gold, cost):
    """Raise arcs that are not in the gold graph and lower those that are.

    So each false positive costs so much, and, but for a constant, each false negative.
    """
    for h in range(n + 1):
        for m in range(1, n + 1):
            scores[h, m] += -cost if gold[h * (n + 1) + m] else cost


def _add_label_cost(scores, n, gold, right, cost, joint, scratch):
    """Let wrong labels of gold arcs cost as much as wrong heads, where labels are found at all."""
    raise TypeError("only compiled code can call this")


@overload(_add_label_cost)
def _choose_label_cost(scores, n, gold, right, cost, joint, scratch):
    if isinstance(joint, types.NoneType):
        return lambda scores, n, gold, right, cost, joint, scratch: None

    def with_children(scores, n, gold, right, cost, joint, scratch):
        scratch.cost[0] = cost
        for m in range(1, n + 1):
            scratch.gold[m] = gold[m] if right[m] >= 0 else -1
            scratch.labels[m] = right[m]

    if labels_children(joint):
        return with_children

    def of_labels(scores, n, gold, right, cost, joint, scratch):
        for m in range(1, n + 1):
            h = gold[m]
            if h >= 0 and right[m] >= 0 and cost > 0.0:
                most = find_label(h, m, n, joint, scratch, right[m], cost)[1]
                scores[h, m] += most - scratch.best[h, m]

    return of_labels


def _gold_labels(structures, start):
    """The gold labels from a sentence's place on; heads where there are none."""
    raise TypeError("only compiled code can call this")


@overload(_gold_labels)
def _choose_gold_labels(structures, start):
    if isinstance(structures.types[structures.fields.index("gold_labels")], types.NoneType):
        return lambda structures, start: structures.gold[start:]
    return lambda structures, start: structures.gold_labels[start:]


def _complete(values, start, n, siblings, joint, course, scratch, structures):
    """Fill in what gold leaves open; returns whether there is a tree with all it does say."""
    raise TypeError("only compiled code can call this")


@overload(_complete)
def _choose_complete(values, start, n, siblings, joint, course, scratch, structures):
    if isinstance(structures.types[structures.fields.index("completed")], types.NoneType):
        return lambda values, start, n, siblings, joint, course, scratch, structures: True
    with_children = labels_children(joint)

    def complete(values, start, n, siblings, joint, course, scratch, structures):
        gold, target = structures.gold[start:], structures.target[start : start + n + 1]
        missing = 0
        for m in range(1, n + 1):
            missing += gold[m] < 0
        if missing > 0:
            if with_children:  # no mistake costs anything here, nor those of the sentence before
                scratch.labels.cost[0] = 0.0
            given = scratch.given
            given[: n + 1, 1 : n + 1] = scratch.scores[: n + 1, 1 : n + 1]
            forbid_others(given, n, start, structures.gold)
            if not search(
                given, siblings, n, course.single_root, course.min_gain, scratch.tree, target
            ):  # fmt: skip
                return False
        _complete_labels(start, n, joint, scratch, structures)
        return True

    return complete


def _complete_labels(start, n, joint, scratch, structures):
    raise TypeError("only compiled code can call this")


@overload(_complete_labels)
def _choose_complete_labels(start, n, joint, scratch, structures):
    if isinstance(joint, types.NoneType):
        return lambda start, n, joint, scratch, structures: None

    def copy(start, n, joint, scratch, structures):
        for m in range(1, n + 1):
            if structures.gold_labels[start + m] < 0:  # then its head was searched for just now
                structures.target_labels[start + m] = scratch.tree.labels[m]

    if labels_children(joint):
        return copy

    def complete(start, n, joint, scratch, structures):
        for m in range(1, n + 1):
            if structures.gold_labels[start + m] < 0:
                head = structures.target[start + m]
                structures.target_labels[start + m] = find_label(
                    head, m, n, joint, scratch.labels, -1, 0.0
                )[0]

    return complete


def _search_trees(siblings, n, start, joint, course, scratch, structures):
    """Fill the found trees of one sentence; returns whether there is any."""
    raise TypeError("only compiled code can call this")


@overload(_search_trees)
def _choose_search_trees(siblings, n, start, joint, course, scratch, structures):
    def best(siblings, n, start, joint, course, scratch, structures):
        return search(
            scratch.scores, siblings, n, course.single_root, course.min_gain, scratch.tree,
            structures.found[0, start : start + n + 1],
        )  # fmt: skip

    def k_best(siblings, n, start, joint, course, scratch, structures):
        found, heads = structures.found, scratch.k_best.heads
        count = search_k_best(scratch.scores, siblings, n, course.single_root, scratch.k_best)
        for j in range(len(found)):
            if j < count:
                for m in range(1, n + 1):
                    found[j, start + m] = heads[j, m]
            else:
                found[j, start + 1] = -1
        return count > 0

    is_one = isinstance(scratch.types[scratch.fields.index("k_best")], types.NoneType)
    return best if is_one else k_best


@inlined
def _score_with_costs(values, start, n, plan, weights, rows, joint, course, scratch, structures):
    """Score what trees are searched for with, mistakes costing what they cost.

    Returns: as `score_parts`; whether there is a tree with all that gold says.
    """
    siblings = score_parts(values, start, n, plan, weights, rows, joint, scratch)
    if not _complete(values, start, n, siblings, joint, course, scratch, structures):
        return siblings, False
    gold, labels = structures.gold[start:], _gold_labels(structures, start)
    _add_tree_cost(scratch.scores, n, gold, course.cost)
    _add_label_cost(scratch.scores, n, gold, labels, course.cost, joint, scratch.labels)
    return siblings, True


def _predict(values, start, n, plan, weights, rows, joint, course, scratch, structures):
    """Fill what is found for one sentence; returns whether there is a tree."""
    raise TypeError("only compiled code can call this")


@overload(_predict)
def _choose_predict(values, start, n, plan, weights, rows, joint, course, scratch, structures):
    def of_trees(values, start, n, plan, weights, rows, joint, course, scratch, structures):
        siblings, is_possible = _score_with_costs(
            values, start, n, plan, weights, rows, joint, course, scratch, structures
        )
        if not is_possible:
            return False
        found = _search_trees(siblings, n, start, joint, course, scratch, structures)
        if found:
            _fill_found_labels(n, start, joint, scratch, course.cost, structures)
        return found

    def of_graphs(values, start, n, plan, weights, rows, joint, course, scratch, structures):
        first = structures.firsts[start]
        siblings = score_parts(values, start, n, plan, weights, rows, joint, scratch)
        _add_graph_cost(scratch.scores, n, structures.gold[first:], course.cost)
        found = search(
            scratch.scores, siblings, n, course.single_root, course.min_gain, scratch.tree,
            structures.heads[start : start + n + 1],
        )  # fmt: skip
        copy_arcs(scratch.tree.arcs, n, structures.found[first:])
        return found

    return of_graphs if structures.instance_class is GraphCells else of_trees


def _fill_found_labels(n, start, joint, scratch, cost, structures):
    raise TypeError("only compiled code can call this")


@overload(_fill_found_labels)
def _choose_fill_found(n, start, joint, scratch, cost, structures):
    if isinstance(joint, types.NoneType):
        return lambda n, start, joint, scratch, cost, structures: None

    def copy(n, start, joint, scratch, cost, structures):
        for m in range(1, n + 1):
            structures.found_labels[0, start + m] = scratch.tree.labels[m]

    if labels_children(joint):
        return copy

    def fill(n, start, joint, scratch, cost, structures):
        for j in range(len(structures.found)):
            if structures.found[j, start + 1] < 0:
                continue
            for m in range(1, n + 1):
                # On an arc that is wrong anyhow every label costs the same.
                head, place = structures.found[j, start + m], start + m
                right = structures.gold_labels[place]
                of_cost = cost if head == structures.gold[place] and right >= 0 else 0.0
                label = find_label(head, m, n, joint, scratch.labels, right, of_cost)[0]
                structures.found_labels[j, place] = label

    return fill


@compiled
def predict_sentences(
    values, starts, lengths, plan, weights, rows, joint, course, scratch, structures
):  # fmt: skip
    """Fill what is found for all sentences, with the same weights; returns as `parse_sentences`."""
    for b in range(len(starts)):
        if not _predict(
            values, starts[b], lengths[b], plan, weights, rows, joint, course, scratch, structures
        ):  # fmt: skip
            return b
    return -1


@compiled
def parts_to_solve(values, start, n, plan, weights, rows, joint, course, scratch, structures):
    """What an integer program is to find the best tree of, mistakes costing what they cost."""
    parts, _ = _score_with_costs(
        values, start, n, plan, weights, rows, joint, course, scratch, structures
    )
    return crossing_parts(scratch.scores, parts, n)


@compiled
def label_solved(start, n, joint, course, scratch, structures):
    """Fill the labels of the tree that was found for the sentence scored last."""
    _fill_found_labels(n, start, joint, scratch, course.cost, structures)


@inlined
def fill_keys(values, start, n, plan, rows, joint, scratch):
    """Fill the keys of a sentence that was not parsed just now."""
    fill_parts(values, start, n, plan.arcs, rows, scratch.parts)
    _fill_sibling_keys(values, start, n, plan.siblings, rows, scratch.siblings)
    fill_guide_parts(values, start, n, plan.guide, rows, scratch.guide)
    _fill_label_keys(values, start, n, joint, scratch.labels)
    _fill_larger_keys(values, start, n, plan.larger, scratch.larger)


def _fill_larger_keys(values, start, n, plan, scratch):
    raise TypeError("only compiled code can call this")


@overload(_fill_larger_keys)
def _choose_larger_keys(values, start, n, plan, scratch):
    if isinstance(plan, types.NoneType):
        return lambda values, start, n, plan, scratch: None
    return lambda values, start, n, plan, scratch: fill_larger_keys(values, start, n, plan, scratch)


def _fill_sibling_keys(values, start, n, plan, rows, scratch):
    raise TypeError("only compiled code can call this")


@overload(_fill_sibling_keys)
def _choose_sibling_keys(values, start, n, plan, rows, scratch):
    if isinstance(plan, types.NoneType):
        return lambda values, start, n, plan, rows, scratch: None

    def fill(values, start, n, plan, rows, scratch):
        fill_sibling_parts(values, start, n, plan.pairs, rows, scratch.parts)
        fill_parts(values, start, n, plan.ends, rows, scratch.end_parts)

    return fill


def of_children(joint):
    """The plan of templates of children that labels are found with, or None."""
    raise TypeError("only compiled code can call this")


@overload(of_children)
def _choose_of_children(joint):
    return (lambda joint: joint.larger) if labels_children(joint) else (lambda joint: None)


def _fill_label_keys(values, start, n, joint, scratch):
    raise TypeError("only compiled code can call this")


@overload(_fill_label_keys)
def _choose_label_keys(values, start, n, joint, scratch):
    if isinstance(joint, types.NoneType):
        return lambda values, start, n, joint, scratch: None

    def fill(values, start, n, joint, scratch):
        fill_parts(values, start, n, joint.plan, joint.rows, scratch.parts)
        _fill_larger_keys(values, start, n, joint.larger, scratch.larger)

    return fill


@compiled
def learn_sentences(
    values, starts, lengths, structures, plan, weights, weighted, seen, rows, joint,
    labels_weighted, course, scratch, difference, predict, first,
):  # fmt: skip
    """Learn from the sentences first, first + 1, ... one after the other.

    Args:
        values, starts, lengths: a batch in its order of learning.
        structures: Trees or GraphCells; what is found is filled where `predict` is set, and
            otherwise there already.
        weights, weighted: (rows,) float32, changed in place; `seen` sentences came before.
        joint, labels_weighted: the same of labels found with the trees, or None.
    Returns:
        DONE, TABLE_FULL or DIFFERENCE_FULL (grow the exact map, or double the capacity of the
        difference, then go on) or NO_TREE; the sentence at which that happened; the cost of the
        mistakes in the sentences learned: wrong words, or for graphs wrong and missing arcs.
    """
    wrong, listed = 0.0, difference.listed
    for b in range(first, len(starts)):
        start, n = starts[b], lengths[b]
        if predict and not _predict(
            values, start, n, plan, weights, rows, joint, course, scratch, structures
        ):  # fmt: skip
            return NO_TREE, b, wrong
        n_parts = list_parts(
            structures, plan.siblings, plan.larger, of_children(joint), start, n, listed
        )
        status = DONE
        if n_parts > 0:
            n_slots = n_slots_needed(
                listed.parts, n_parts, plan.arcs, difference.per_guide, difference.per_other_part
            )
            if n_slots > len(difference.slots):
                status = DIFFERENCE_FULL
            else:
                if not predict:
                    fill_keys(values, start, n, plan, rows, joint, scratch)
                if insert_guides(
                    values, start, listed.parts, n_parts, plan.guide, len(weights), rows.keys,
                    rows.bases, rows.state, scratch.guide,
                ) and insert_parts(
                    listed.parts, n_parts, plan, len(weights), rows.keys, rows.bases, rows.state,
                    scratch,
                ):  # fmt: skip
                    update_sentence(
                        values, start, n, n_parts, n_slots, plan, weights, weighted, seen + b, rows,
                        joint, labels_weighted, course, scratch, difference,
                    )  # fmt: skip
                else:
                    status = TABLE_FULL
            forget_parts(listed, n_parts)
        if status != DONE:
            return status, b, wrong
        wrong += listed.costs[0]
    return DONE, len(starts), wrong
