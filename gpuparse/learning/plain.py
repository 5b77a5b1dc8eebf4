"""The native functions of learning in NumPy and torch, for machines without native code.

Each has the name and the arguments of the function that native/api/learning.h declares, and changes
the same weights; `native.call` calls it where there is no native code. Native headers of the same
names (learn.h, learn_factored.h, learn_conditional.h, learn_labels.h) say what is done.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import torch

from gpuparse.errors import NoTreeError
from gpuparse.features.plan import LabelPlan, Plan
from gpuparse.inference.search import Search
from gpuparse.inference.tree_parts import find_parts
from gpuparse.learning.updates import (
    CONDITIONAL,
    MAX_HILDRETH_STEPS,
    MIRA_FACTORED,
    PERCEPTRON,
    UpdateRule,
    step_size,
    steps_together,
)
from gpuparse.parts import HIGHER_ORDER
from gpuparse.scoring.higher_order import higher_rows
from gpuparse.scoring.labels import arc_positions, first_best, label_lines, tree_positions
from gpuparse.scoring.native import ArcCells, GraphHeads, Scorer, Sentences
from gpuparse.scoring.part_rows import ABSENT_WORD
from gpuparse.scoring.plain import (
    TreeScores,
    allowed_arcs,
    arcs_of_graphs,
    by_node,
    find_trees,
    has_templates,
    k_best_of,
    marginals_of,
    score_batch,
    tensors_of,
    write_by_token,
)
from gpuparse.scoring.rows import PartRows
from gpuparse.scoring.tensors import TensorBatch
from gpuparse.scoring.weights import FeatureMap, label_map

ALL_HAVE_TREES = -1
MARGIN_TOLERANCE = 1e-5  # single precision weights allow no smaller one
LEAST_COEFFICIENT = 1e-9  # an arc with a smaller one is left out


def predict_batch(
    sentences: Sentences, scorer: Scorer, search: Search, rule: UpdateRule, trees: Any,
    graphs: Any, allowed: ArcCells | None,
) -> int:  # fmt: skip
    """Find the trees or graphs of all sentences, mistakes costing rule.cost."""
    for b, batch in enumerate(_one_by_one(sentences)):
        try:
            _predict(batch, scorer, search, rule, trees, graphs, allowed)
        except NoTreeError:
            return b
    return ALL_HAVE_TREES


def _predict(
    batch: TensorBatch, scorer: Scorer, search: Search, rule: UpdateRule, trees: Any, graphs: Any,
    allowed: ArcCells | None,
) -> None:  # fmt: skip
    scores = score_batch(batch, scorer, allowed_arcs(batch, allowed))
    if trees is None:
        _predict_graph(scores, search, rule.cost, graphs)
    else:
        _predict_trees(scores, search, rule.cost, trees)


def _one_by_one(sentences: Sentences) -> Iterator[TensorBatch]:
    for b in range(len(sentences.starts)):
        yield tensors_of(sentences, np.array([b]))


def _predict_graph(scores: TreeScores, search: Search, cost: float, graphs: Any) -> None:
    gold = allowed_arcs(scores.batch, ArcCells(graphs.firsts, graphs.gold))
    assert gold is not None
    scores.parts["arc"] = scores.parts["arc"] + torch.where(gold, -cost, cost)
    found = find_trees(scores, search).graphs
    assert found is not None
    _cells_of(graphs, graphs.found, scores.batch)[:] = found[0].numpy()


def _cells_of(graphs: Any, cells: np.ndarray, batch: TensorBatch) -> np.ndarray:
    """(N, N), the cells of the one sentence of a batch."""
    first = graphs.firsts[int(batch.starts[0])]
    return cells[first : first + batch.n_nodes**2].reshape(batch.n_nodes, batch.n_nodes)


def _predict_trees(scores: TreeScores, search: Search, cost: float, trees: Any) -> None:
    batch = scores.batch
    if trees.is_partial:
        _complete(scores, search, trees)
    gold, nodes = by_node(batch, trees.gold), torch.arange(batch.n_nodes)
    arcs = scores.parts["arc"] + cost * (gold.unsqueeze(1) != nodes.unsqueeze(1))
    scores.parts["arc"] = arcs
    b, right, label_costs = torch.zeros_like(gold), gold, torch.zeros(0)
    if scores.labels is not None:
        right = by_node(batch, trees.gold_labels)
        is_known = (gold >= 0) & (right >= 0)
        is_wrong = torch.arange(scores.labels.shape[-1]) != right.unsqueeze(-1)
        label_costs = torch.where(is_wrong & is_known.unsqueeze(-1), cost, 0.0)
        at = b, gold.clamp(min=0), nodes.expand_as(gold)
        of_gold = scores.labels[at]
        if scores.of_labels:
            scores.labels = scores.labels.index_put(at, of_gold + label_costs)
        else:
            most = (of_gold + label_costs).amax(-1) - of_gold.amax(-1)
            scores.parts["arc"] = arcs.index_put(
                at, torch.where(is_known, arcs[at] + most, arcs[at])
            )
    k = len(trees.found)
    if k == 1:
        found = find_trees(scores, search)
        heads, labels = found.heads.unsqueeze(1), found.labels
    else:
        heads, labels = k_best_of(scores, search, k)[0], None
    for j in range(k):
        tree = heads[:, j]
        write_by_token(batch, tree, trees.found[j])
        if scores.labels is None:
            continue
        if not scores.of_labels:
            of_arcs = scores.labels[b, tree.clamp(min=0), nodes.expand_as(tree)]
            labels = first_best(of_arcs + label_costs * (tree == gold).unsqueeze(-1))
        assert labels is not None
        write_by_token(batch, labels, trees.found_labels[j])


def _complete(scores: TreeScores, search: Search, trees: Any) -> None:
    """Fill in the heads and labels that gold lacks: those of the best tree with all known heads."""
    batch = scores.batch
    gold, found_labels = by_node(batch, trees.gold), None
    is_missing = (gold[:, 1:] < 0).any()
    if is_missing:
        found = find_trees(scores.forbid_others(gold), search)
        found_labels = found.labels
        write_by_token(batch, found.heads, trees.target)
    if scores.labels is not None:
        if not scores.of_labels or found_labels is None:
            found_labels = scores.best_labels(by_node(batch, trees.target))
        lacks = by_node(batch, trees.gold_labels) < 0
        write_by_token(batch, found_labels, trees.target_labels, lacks)


def learn_batch(
    sentences: Sentences, scorer: Scorer, search: Search, rule: UpdateRule, trees: Any,
    graphs: Any, allowed: ArcCells | None, tables: Any, seen: int, is_predicted: bool,
    wrong: np.ndarray,
) -> int:  # fmt: skip
    """Learn from all sentences one after the other."""
    for b, batch in enumerate(_one_by_one(sentences)):
        try:
            if rule.rule == MIRA_FACTORED:
                wrong[0] += _learn_factored(batch, scorer, rule, trees.gold, tables, seen + b)
                continue
            if rule.rule == CONDITIONAL:
                given = batch, scorer, search, rule, trees.gold, tables
                wrong[0] += _learn_conditional(*given, seen + b)
                continue
            if not is_predicted:
                _predict(batch, scorer, search, rule, trees, graphs, allowed)
        except NoTreeError:
            return b
        if trees is None:
            found = _graph_difference(batch, graphs)
        else:
            found = _tree_differences(batch, scorer, trees)
        wrong[0] += found.costs[0]
        if found.signs:
            rows, counts = _rows_of(batch, scorer, found)
            _take_steps(rows, counts, found.costs, rule, tables, seen + b)
    return ALL_HAVE_TREES


Part = tuple[Any, ...]
"""The name of a kind, its words, and its label if it has one."""
LABELLED = "labelled "
"""Before the names of kinds of children with labels."""


class Differences(NamedTuple):
    """What k found structures differ from gold in.

    costs: (k,) of their mistakes. signs: of each part +1 if only gold has it, -1 if gold lacks it.
    """

    costs: np.ndarray
    signs: dict[Part, np.ndarray]

    def add(self, j: int, gold: set[Part], found: set[Part]) -> None:
        """Add the parts that only one of gold and the structure j has."""
        for sign, parts in ((1, gold - found), (-1, found - gold)):
            for part in parts:
                self.signs.setdefault(part, np.zeros(len(self.costs), np.int64))[j] = sign


def _graph_difference(batch: TensorBatch, graphs: Any) -> Differences:
    gold, found = (_cells_of(graphs, cells, batch) for cells in (graphs.gold, graphs.found))
    difference = Differences(np.array([(gold != found).sum()], np.float64), {})
    if difference.costs[0]:
        difference.add(0, set(_arcs_and_siblings(gold)), set(_arcs_and_siblings(found)))
    return difference


def _tree_differences(batch: TensorBatch, scorer: Scorer, trees: Any) -> Differences:
    start, n = int(batch.starts[0]), int(batch.lengths[0])
    words = slice(start + 1, start + n + 1)
    has_labels = trees.gold_labels is not None
    gold, target = trees.gold[words], trees.target[words]
    target_labels = trees.target_labels[words] if has_labels else None
    difference = Differences(np.zeros(len(trees.found)), {})
    parts = set(_parts_of(target, target_labels, scorer))
    for j, heads in enumerate(trees.found[:, words]):
        if heads[0] < 0:
            continue
        labels = trees.found_labels[j, words] if has_labels else None
        is_wrong = gold != heads
        if labels is not None:
            is_wrong |= (trees.gold_labels[words] >= 0) & (trees.gold_labels[words] != labels)
        difference.costs[j] = (is_wrong & (gold >= 0)).sum()
        if difference.costs[j]:
            difference.add(j, parts, set(_parts_of(heads, labels, scorer)))
    return difference


def _parts_of(heads: np.ndarray, labels: np.ndarray | None, scorer: Scorer) -> Iterator[Part]:
    """The parts of a tree whose heads are those of words 1..n."""
    tree, plan, n = [-1, *heads.tolist()], scorer.plan, len(heads)
    if plan.siblings:
        graph = np.zeros((n + 1, n + 1), np.bool_)
        graph[tree[1:], np.arange(1, n + 1)] = True
        yield from _arcs_and_siblings(graph)
    else:
        yield from (("arc", h, m) for m, h in enumerate(tree[1:], 1))
    if labels is not None:
        for m, label in enumerate(labels.tolist(), 1):
            yield "label", tree[m], m, label
    children = scorer.joint.higher if scorer.joint else None
    if not plan.higher and not children:
        return
    found = find_parts(torch.tensor([[tree]]), torch.tensor([n]))
    fields = found.h, found.m, found.s, found.t, found.g, found.inner, found.outer
    of_words = torch.stack((*fields, found.is_outermost))[:, 0, 0, 1:].T.tolist()
    for h, m, s, t, g, inner, outer, is_last in of_words:
        words = {"h": h, "m": m, "g": g, "s": _or_absent(s, h), "t": _or_absent(t, h)}
        inner, outer = _or_absent(inner, m), _or_absent(outer, m)
        child = {"head_child": words["s"], "inner_grandchild": inner, "outer_grandchild": outer}
        for number, kind in enumerate(HIGHER_ORDER):
            of_kind = tuple((words | {"c": child.get(kind.name)})[role] for role in kind.roles)
            is_left_out = plan.higher and plan.higher.only_last and "g" in kind.roles
            if has_templates(plan.higher, number) and (is_last or not is_left_out):
                yield kind.name, *of_kind
            if has_templates(children, number) and labels is not None:
                yield LABELLED + kind.name, *of_kind, int(labels[m - 1])


def _or_absent(word: int, instead: int) -> int:
    return ABSENT_WORD if word == instead else word


def _arcs_and_siblings(graph: np.ndarray) -> Iterator[Part]:
    """The arcs, siblings and ends of a graph (N, N), [h, m]."""
    for h, row in enumerate(graph):
        modifiers = np.flatnonzero(row).tolist()
        for is_right in (1, 0) if h > 0 else (1,):
            side = [m for m in modifiers if (m > h) == is_right]
            chain = [h, *(side if is_right else reversed(side))]
            for s, m in pairwise(chain):
                yield "arc", h, m
                yield "sibling", h, m, s
            yield "end", h, chain[-1], is_right


def _rows_of(
    batch: TensorBatch, scorer: Scorer, found: Differences
) -> tuple[np.ndarray, np.ndarray]:
    """(R,) rows of the weights and (R, k) how often gold has each more often than the structures.

    Rows of labels that are found with the trees follow those of the other weights.
    """
    groups: dict[str, list[Part]] = defaultdict(list)
    for part in found.signs:
        groups[part[0]].append(part)
    plan, n_rows, joint = scorer.plan, len(scorer.table.array), scorer.joint
    features = FeatureMap(scorer.rows, n_rows)
    of_parts = PartRows(batch, plan, features)
    all_rows, all_signs = [], []
    for group, parts in groups.items():
        words = torch.tensor([part[1:] for part in parts])
        b = torch.zeros(len(parts), dtype=torch.int64)
        of_trees = group != "label" and not group.startswith(LABELLED)
        if group == "arc":
            rows = of_parts.of_arcs(b, *words.T)
        elif group == "sibling":
            rows = of_parts.of_siblings(b, *words.T)
        elif group == "end":
            rows = of_parts.of_ends(b, *words.T)
        elif of_trees:
            assert plan.higher is not None
            with_sentence = torch.cat([b[:, None], words], 1)
            rows = higher_rows(group, with_sentence, batch, plan.higher, features, n_rows)
        if of_trees:
            fires = rows != n_rows
        else:
            assert joint is not None
            n_lines = len(joint.table.array)
            lines = label_map(n_lines)
            if group == "label":
                rows = PartRows(batch, Plan(joint.plan), lines).of_arcs(b, *words.T[:2])
            else:
                assert joint.higher is not None
                with_sentence = torch.cat([b[:, None], words[:, :-1]], 1)
                kind = group.removeprefix(LABELLED)
                rows = higher_rows(kind, with_sentence, batch, joint.higher, lines, n_lines)
            fires = rows != n_lines
            rows = n_rows + rows * joint.stride + words[:, -1:]
        part_of, place = fires.numpy().nonzero()
        all_rows.append(rows.numpy()[part_of, place])
        all_signs.append(np.array([found.signs[part] for part in parts])[part_of])
    return _added_up(np.concatenate(all_rows), np.concatenate(all_signs))


def _added_up(rows: np.ndarray, signs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The different rows, in the order in which they come, and the sums of their signs (R, k)."""
    different, first, number = np.unique(rows, return_index=True, return_inverse=True)
    order = np.argsort(first, kind="stable")
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    counts = np.zeros((len(different), signs.shape[1]), np.int64)
    np.add.at(counts, place[number], signs)
    return different[order], counts


def _take_steps(
    rows: np.ndarray, counts: np.ndarray, costs: np.ndarray, rule: UpdateRule, tables: Any,
    seen: int,
) -> None:  # fmt: skip
    """Move the weights along the differences of one sentence."""
    n_arcs = len(tables.weights)
    parts = [(tables.weights, tables.sums, rows < n_arcs, 0)]
    if tables.label_weights is not None:
        parts.append((tables.label_weights, tables.label_sums, rows >= n_arcs, n_arcs))
    weights = np.zeros(len(rows))
    for table, _, which, first in parts:
        weights[which] = table[rows[which] - first]
    steps = steps_together(rule, costs, counts.T @ weights, (counts.T @ counts).astype(np.float64))
    changes = counts @ steps
    for table, sums, which, first in parts:
        _change(table, sums, rows[which] - first, changes[which], seen)


def _change(
    table: np.ndarray, sums: np.ndarray, rows: np.ndarray, changes: np.ndarray, seen: int
) -> None:
    """Add to different rows, and to the sums for their average."""
    table[rows] = table[rows] + changes
    sums[rows] = sums[rows] + float(seen) * changes


def _learn_factored(
    batch: TensorBatch, scorer: Scorer, rule: UpdateRule, gold: np.ndarray, tables: Any, seen: int
) -> int:
    """Learn from one sentence by constraints over all arcs; the words with a violated one."""
    heads = by_node(batch, gold)[0].numpy()
    words = np.flatnonzero(heads >= 0)
    of_parts = PartRows(batch, scorer.plan, FeatureMap(scorer.rows, len(tables.weights)))
    listed = np.zeros((batch.n_nodes, batch.n_nodes), np.bool_)
    rows, before = np.zeros(0, np.int64), np.zeros(0)  # of the sentence
    constraints: list[_Constraint] = []
    while True:
        scores = score_batch(batch, scorer).parts["arc"][0].numpy()
        margins = scores[heads[words], words] - scores[:, words]
        violated = (margins < 1.0 - MARGIN_TOLERANCE) & ~listed[:, words]
        violated[heads[words], np.arange(len(words))] = False
        violated[words, np.arange(len(words))] = False
        column, h = violated.T.nonzero()
        if len(h) == 0:
            break
        m = words[column]
        listed[h, m] = True
        for row, counts in _arc_differences(of_parts, heads[m], h, m):
            new = np.setdiff1d(row, rows)
            rows = np.concatenate([rows, new])
            before = np.concatenate([before, tables.weights[new].astype(np.float64)])
            constraints.append(_Constraint(row, counts))
        tables.weights[rows] = before + _meet(constraints, rows, before, rule.max_step)
    moved = tables.weights[rows] - before.astype(np.float32)
    tables.sums[rows] = tables.sums[rows] + float(seen) * moved.astype(np.float64)
    return int(listed.any(0).sum())


@dataclass
class _Constraint:
    """Gold is to score at least 1 more: the rows (E,) of the difference, how often; the step."""

    rows: np.ndarray
    counts: np.ndarray
    step: float = 0.0


def _arc_differences(
    of_parts: PartRows, right: np.ndarray, other: np.ndarray, m: np.ndarray
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The rows that only one of the arcs right -> m and other -> m has, and how often."""
    b, modifiers = torch.zeros(len(m), dtype=torch.int64), torch.from_numpy(m)
    of_right, of_other = (
        of_parts.of_arcs(b, torch.from_numpy(h), modifiers).numpy() for h in (right, other)
    )
    signs = np.repeat([1, -1], [of_right.shape[1], of_other.shape[1]])
    for line in np.concatenate([of_right, of_other], 1):
        fires = line != of_parts.silent
        rows, number = np.unique(line[fires], return_inverse=True)
        counts = np.bincount(number, signs[fires], len(rows))
        yield rows[counts != 0], counts[counts != 0]


def _meet(
    constraints: list[_Constraint], rows: np.ndarray, before: np.ndarray, cap: float
) -> np.ndarray:
    """Hildreth's method over sparse constraints: changes the steps, returns that of the weights."""
    order = np.argsort(rows)
    change = np.zeros(len(rows))
    places = [order[np.searchsorted(rows, each.rows, sorter=order)] for each in constraints]
    missing = []
    for each, place in zip(constraints, places, strict=True):
        missing.append(1.0 - float(each.counts @ before[place]))
        change[place] += each.step * each.counts
    for _ in range(MAX_HILDRETH_STEPS):
        most = 0.0
        for each, place, least in zip(constraints, places, missing, strict=True):
            norm = float(each.counts @ each.counts)
            if norm == 0.0:
                continue
            residual = least - float(each.counts @ change[place])
            moved = min(cap, max(0.0, each.step + residual / norm)) - each.step
            most = max(most, abs(moved) * norm)
            each.step += moved
            change[place] += moved * each.counts
        if most <= MARGIN_TOLERANCE / 10:
            break
    return change


def _learn_conditional(
    batch: TensorBatch, scorer: Scorer, search: Search, rule: UpdateRule, gold: np.ndarray,
    tables: Any, seen: int,
) -> int:  # fmt: skip
    """Learn from one sentence by a step up the gradient of the likelihood; the improbable words."""
    heads, nodes = by_node(batch, gold), torch.arange(batch.n_nodes)
    scores = score_batch(batch, scorer)
    is_gold = heads.unsqueeze(1) == nodes.unsqueeze(1)
    is_known = heads.unsqueeze(1) >= 0
    scores.parts["arc"] = scores.parts["arc"] + rule.cost * (is_known & ~is_gold)
    expected, wanted = marginals_of(scores, search, 1.0)[0], is_gold.double()
    if (heads[:, 1:] < 0).any():
        wanted = marginals_of(scores.forbid_others(heads), search, 1.0)[0]
    steps = rule.max_step * (wanted - expected)
    is_large = steps.abs() > rule.max_step * LEAST_COEFFICIENT
    is_large[:, :, 0] = False
    is_large.diagonal(dim1=1, dim2=2).fill_(False)
    of_parts = PartRows(batch, scorer.plan, FeatureMap(scorer.rows, len(tables.weights)))
    rows = of_parts.of_arcs(*is_large.nonzero(as_tuple=True))
    fires = rows != of_parts.silent
    each = steps[is_large].unsqueeze(1).expand_as(rows)[fires].numpy()
    different, number = np.unique(rows[fires].numpy(), return_inverse=True)
    changes = np.bincount(number, each, len(different))
    _change(tables.weights, tables.sums, different, changes, seen)
    return int((is_gold & (expected <= 0.5)).sum())


def learn_labels(
    sentences: Sentences, plan: LabelPlan, rule: UpdateRule, heads: np.ndarray,
    graphs: GraphHeads | None, gold: np.ndarray, seen: int, weights: np.ndarray, sums: np.ndarray,
) -> int:  # fmt: skip
    """Learn second-stage labels from finished trees, or from every arc of gold graphs."""
    n_wrong, learner = 0, _LabelLearner(rule, weights, sums.reshape(weights.shape))
    for b in range(len(sentences.starts) if weights.shape[1] > 1 else 0):
        part = Sentences(sentences.values, sentences.starts[b : b + 1],
                         sentences.lengths[b : b + 1], sentences.known)  # fmt: skip
        batch = tensors_of(part)
        trees, start = by_node(batch, heads), int(batch.starts[0])
        if graphs is None:
            numbers = np.arange(start + 1, start + batch.n_nodes)
            positions = [of_role[0, 1:] for of_role in tree_positions(trees)]
            is_primary = np.zeros(len(numbers), np.bool_)  # any label goes with a tree's arcs
        else:
            numbers, arcs = arcs_of_graphs(part, graphs)
            positions = arc_positions(trees, *arcs)
            is_primary = (trees[0, arcs[2]] == arcs[1]).numpy()
        everywhere = torch.ones(len(numbers), dtype=torch.bool)
        lines = label_lines(batch, batch.starts, positions, everywhere, plan, len(weights)).numpy()
        for arc, right in enumerate(gold[numbers].tolist()):
            if right >= 0:
                permitted = graphs.may_be_primary if graphs and is_primary[arc] else None
                n_wrong += learner.learn(lines[arc], right, seen + b, permitted)
    return n_wrong


class _LabelLearner:
    """The weights of second-stage labels and the sums for their average, (lines, labels)."""

    def __init__(self, rule: UpdateRule, weights: np.ndarray, sums: np.ndarray) -> None:
        self._rule, self._weights, self._sums = rule, weights, sums

    def learn(
        self, lines: np.ndarray, right: int, seen: int, permitted: np.ndarray | None = None
    ) -> bool:
        """Learn from one arc; whether a wrong label, of those permitted, scored as high as gold's.

        lines: (F,) of its features, the number of lines for one that does not fire.
        """
        lines = lines[lines < len(self._weights)]
        scores = self._weights[lines].sum(0, dtype=np.float32)
        others = scores.copy()
        others[right] = -np.inf
        if permitted is not None:
            others[~permitted] = -np.inf
        guess = int(others.argmax())
        if others[guess] == -np.inf:
            return False
        margin = float(scores[right]) - float(scores[guess])
        is_wrong = margin <= 0.0
        if self._rule.rule == CONDITIONAL:
            shares = np.exp(scores - scores.max())
            shares /= shares.sum(dtype=np.float32)
            steps = -self._rule.max_step * shares.astype(np.float64)
            steps[right] = self._rule.max_step * (1.0 - float(shares[right]))
            for line in lines:
                self._change(line, slice(None), steps, seen)
            return is_wrong
        cost = 1.0 if self._rule.rule != PERCEPTRON or is_wrong else 0.0
        norm = 2.0 * float((np.unique(lines, return_counts=True)[1] ** 2).sum())
        step = step_size(self._rule, cost, margin, norm)
        for line in lines if step > 0.0 else ():
            self._change(line, right, step, seen)
            self._change(line, guess, -step, seen)
        return is_wrong

    def _change(self, line: int, label: Any, step: Any, seen: int) -> None:
        weights, sums = self._weights[line], self._sums[line]
        weights[label] = weights[label].astype(np.float64) + step
        sums[label] = sums[label].astype(np.float64) + float(seen) * step


FUNCTIONS: dict[str, Callable[..., int]] = {
    function.__name__: function for function in (predict_batch, learn_batch, learn_labels)
}
