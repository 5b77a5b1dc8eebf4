"""The features of the parts of one sentence under a fused engine, with their weights.

The weights of a part's features, and what is added to them, add up to its score, which is that of
search. This is what explanations list.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gpuparse import native
from gpuparse.cached import cached_property
from gpuparse.data.atoms import Atom
from gpuparse.data.batch import AFTER, BEFORE, FIRST_VALUE, ROOT, Batch
from gpuparse.errors import ResourceError
from gpuparse.features.phrases import Clause, clauses
from gpuparse.features.plan import (
    NO_NODE,
    LabelPlan,
    RowTemplates,
    templates_of_end_rows,
    templates_of_rows,
    templates_of_sibling_rows,
)
from gpuparse.features.templates import Template
from gpuparse.inference.decoders import DECODERS
from gpuparse.inference.search import ChangeLimits
from gpuparse.inference.textbook.spanning_trees import sibling_graph_score
from gpuparse.parts import BY_NAME, CHILDREN
from gpuparse.scorers.linear.part_rows import (
    ABSENT_WORD,
    ListedPart,
    higher_part,
    list_part_rows,
    listed_number,
)
from gpuparse.scorers.linear.scorer import LinearScorer
from gpuparse.scorers.native import GraphHeads, require_all, sentences_of

if TYPE_CHECKING:
    from gpuparse.engines.fused import Fused

MAX_CELLS = 1 << 26  # of the scores of all siblings, for graphs
Graph = frozenset[tuple[int, int]]  # arcs (h, m)
NO_MODIFIER = "no modifier"  # value of an end
_SPECIAL = {BEFORE: "before the sentence", ROOT: "root", AFTER: "after the sentence"}
_PROPOSED, _RELATION = ("proposed by another parser", ""), "relation"  # in clauses
_LABELLED = frozenset(CHILDREN)
_NO_TEMPLATES = LabelPlan(
    *np.zeros((2, 1), np.int64), *np.zeros((3, 0), np.int64), *np.zeros((2, 0), np.bool_)
)


class Part(NamedTuple):
    """A part of a tree or graph.

    kind: its name in `gpuparse.parts`. words: by the roles of the kind; an absent word is the one
    that stands for it in scores. label: of labelled parts, else -1.
    """

    kind: str
    words: tuple[int, ...]
    label: int = -1

    @property
    def modifier(self) -> int:
        """The word whose part it is."""
        roles = BY_NAME[self.kind].roles
        return self.words[roles.index("e" if "e" in roles else "m")]


class Feature(NamedTuple):
    """A template with its values in one part, and the weight that it adds to the score.

    clauses: what the template reads, and the values, in words.
    """

    template: str
    values: str
    weight: int
    clauses: tuple[Clause, ...] = ()


class _ReadValues(NamedTuple):
    """The values that a template reads, as text and in words."""

    values: str
    clauses: tuple[Clause, ...]

    def with_clause(self, *clause: str) -> "_ReadValues":
        """With a further clause before the others."""
        what, value = clause
        return _ReadValues(self.values, ((what, value), *self.clauses))


_LESS_NO_MODIFIER = _ReadValues(f"less {NO_MODIFIER}", (("a modifier on this side", ""),))


class ExplainedTree(NamedTuple):
    """A tree or graph: heads and labels by node, -1 at the root.

    There are no labels where they are not found with trees. arcs: of a graph, (h, m) with their
    labels; its heads and labels are those of primary arcs.
    """

    heads: list[int]
    labels: list[int]
    arcs: Mapping[tuple[int, int], int] | None = None

    def heads_of(self, m: int) -> list[int]:
        """All heads of a word, ascending."""
        return [self.heads[m]] if self.arcs is None else sorted(h for h, w in self.arcs if w == m)


class SentenceFeatures:
    """Features of parts, and scores of trees and graphs, of a batch of one sentence.

    labels: the names of the labels.
    """

    def __init__(
        self, engine: "Fused", linear: LinearScorer, labels: Sequence[str], batch: Batch
    ) -> None:
        self._engine, self._linear, self._labels, self._batch = engine, linear, labels, batch
        self._n = int(batch.lengths[0])
        self._start = int(batch.starts[0])
        self._sentences = sentences_of(batch)
        addend = engine.addend
        self._addend = addend.explained(self._sentences, self._n + 1) if addend else None
        self._of_part: dict[Part, list[Feature]] = {}
        templates = linear.templates
        self._arc_templates = templates_of_rows(templates.arc)
        self._guide_templates = templates_of_rows(templates.guide).of_words
        self._sibling_templates = templates_of_sibling_rows(templates.sibling)
        self._end_templates = templates_of_end_rows(templates.end)
        if linear.plans.joint:
            assert linear.label_templates is not None
            self._label_templates = templates_of_rows(
                linear.label_templates.label, pairs_of_distance=True
            ).of_words

    def parts(self, tree: ExplainedTree) -> list[Part]:
        """The scored parts of a tree or graph, in the order of words."""
        if tree.arcs is not None:
            return _parts_of_graph(tree.arcs)
        linear, decoder = self._linear, DECODERS[self._engine.wanted.decoder]
        plan, joint, found = linear.plan, linear.plans.joint, []
        relatives = _relatives(tree.heads)
        for m in range(1, self._n + 1):
            h, s, t, g, inner, outer, is_outermost = relatives[m]
            arc = self.arc_of(tree, h, m)
            label = arc.label
            found.append(arc)
            if plan.siblings and "sibling" in decoder.parts:
                found.append(Part("sibling", (h, s, m)))
                if "end" in decoder.parts and is_outermost:
                    found.append(Part("end", (h, m)))
            of_higher = {
                "grandparent": (g, h, m), "grand_sibling": (g, h, s, m),
                "tri_sibling": (h, t, s, m), "head_child": (h, m, s),
                "inner_grandchild": (h, m, inner), "outer_grandchild": (h, m, outer),
            }  # fmt: skip
            for kind, words in of_higher.items():
                is_read = plan.higher is not None and kind in decoder.parts
                is_last = plan.higher is not None and plan.higher.only_last
                if is_read and (is_outermost or not (is_last and kind.startswith("grand"))):
                    has_label = joint and joint.higher and kind in _LABELLED
                    found.append(Part(kind, words, label if has_label else -1))
        return found

    @property
    def has_addend(self) -> bool:
        """Whether scores that are no weights of templates are added."""
        return self._addend is not None

    def arc_of(self, tree: ExplainedTree, h: int, m: int) -> Part:
        """An arc, with the label that the modifier has in a tree if labels are found with trees."""
        return Part("arc", (h, m), tree.labels[m] if self._linear.plans.joint else -1)

    def features(self, part: Part) -> list[Feature]:
        """The features of a part and what is added to them: their weights add up to its score."""
        if part not in self._of_part:
            self._of_part[part] = {
                "arc": self._of_arc, "sibling": self._of_sibling, "end": self._of_end
            }.get(part.kind, self._of_higher)(part)  # fmt: skip
        return self._of_part[part]

    def graph_score(self, arcs: Iterable[tuple[int, int]]) -> int:
        scores, siblings, ends = self._part_lists
        return int(sibling_graph_score(scores, siblings, set(arcs), ends))

    def scores(self, trees: Sequence[ExplainedTree]) -> list[int]:
        """What trees or graphs score as decoders add it, and not by lists of features."""
        if trees[0].arcs is not None:
            return [self.graph_score(tree.arcs or ()) for tree in trees]
        scores = np.zeros((len(trees), 1))
        for tree, score in zip(trees, scores, strict=True):
            self._engine.score_trees(self._batch, self._by_token(tree.heads), score)
        return [int(score) for score in scores[:, 0]]

    def changed_graph(self, drawn: Collection[tuple[int, int]], m: int, h: int) -> Iterator[Graph]:
        """The graph that the decoder finds if an arc must be there, or away if it was drawn."""
        wanted = self._engine.wanted
        is_wanted, single_root = (h, m) not in drawn, wanted.single_root
        arcs, siblings, ends = self._graph_parts
        # More than any change can gain, so that the search keeps to it; float64 adds it exactly.
        most = sum(float(np.abs(part).max()) for part in (arcs, siblings, ends)) * arcs.size
        arcs = arcs.copy()
        arcs[h, m] += (2 * most + 1) * (1 if is_wanted else -1)
        given = arcs[None], siblings, ends[None], self._batch.lengths
        start, score = np.zeros((1, 1, len(arcs)), np.int64), np.zeros((1, 1))
        number = DECODERS["eisner_sibling"].number
        require_all(native.call("find_trees_batch", number, *given, single_root, start, score))
        graph = np.zeros((1, *arcs.shape), np.bool_)
        limits = ChangeLimits(single_root, -1, wanted.min_gain)
        native.call("multi_parent_batch", *given, limits, start[0], graph, score[0])
        if graph[0, h, m] == is_wanted:
            yield frozenset((k, c) for k, c in np.argwhere(graph[0]).tolist())

    def _rows_of(self, part: ListedPart) -> list[int]:
        """The rows of a part, -1 for a template that does not fire."""
        rows: list[int] = list_part_rows(self._batch, self._engine.scorer, [part])[0].tolist()
        return rows

    def _of_arc(self, part: Part) -> list[Feature]:
        h, m = part.words
        at = {"h": h, "m": m}
        rows = self._rows_of(ListedPart(listed_number("arc"), h, m))
        if self._addend and not self._addend.open_arcs[h, m]:
            rows = [-1] * len(rows)
        first = self._arc_like(self._arc_templates, at, rows)
        guides = [
            (f"guide: {t}", self._values(t, at).with_clause(*_PROPOSED))
            for t in self._guide_templates
        ]
        of_guides = rows[len(first) : len(first) + len(guides)]
        first += [(*named, row) for named, row in zip(guides, of_guides, strict=True)]
        found = self._weighed(first)
        self._add_addend(found, "arc", h, m)
        if part.label < 0:
            return found
        name, templates = self._labels[part.label], self._label_templates
        rows = self._rows_of(ListedPart(listed_number("label"), h, m, label=part.label))
        of_label = self._weighed(
            [(str(t), self._values(t, at), row) for t, row in zip(templates, rows, strict=False)]
        )
        found += [
            Feature(
                f"label: {x.template}", f"{name}: {x.values}", x.weight,
                ((_RELATION, name), *x.clauses),
            )
            for x in of_label
        ]  # fmt: skip
        added = self._addend_labels(h, m)
        if added is not None:
            found.append(self._feature(int(added[part.label]), "label: ", name))
        return found

    def _weighed(self, named: Iterable[tuple[str, _ReadValues, int]]) -> list[Feature]:
        """Features that fire, with their weights."""
        return [
            Feature(t, read.values, self._weight(row), read.clauses)
            for t, read, row in named
            if row >= 0
        ]

    def _weight(self, row: int) -> int:
        """The weight of a row; those of labels come last."""
        weights, joint = self._linear.arcs.array[:, 0], self._linear.plans.joint
        if joint is None or row < len(weights):
            return int(weights[row])
        return int(joint.weights[row - len(weights)])

    def _arc_like(
        self, templates: RowTemplates, at: dict[str, int], rows: Sequence[int]
    ) -> list[tuple[str, _ReadValues, int]]:
        """Templates, values and rows of an arc, words in between from left to right."""
        named: list[tuple[Template, int | None]] = [(t, None) for t in templates.of_words]
        between = range(min(at.values()) + 1, max(at.values()))
        named += [(t, k) for family in templates.between for k in between for t in family]
        return [
            (str(t), self._values(t, at, k), row) for (t, k), row in zip(named, rows, strict=False)
        ]

    def _of_sibling(self, part: Part) -> list[Feature]:
        h, s, m = part.words
        rows = self._rows_of(ListedPart(listed_number("sibling"), h, m, s))
        at = {"h": h, "s": ABSENT_WORD if s == h else s, "m": m}
        templates = self._sibling_templates
        found = self._weighed(
            [(str(t), self._values(t, at), row) for t, row in zip(templates, rows, strict=False)]
        )
        if s != h:
            self._add_addend(found, "sibling", s, m)
        return found

    def _of_end(self, part: Part) -> list[Feature]:
        (h, m), found = part.words, []
        kind = listed_number("right_end" if h < m else "left_end")
        for e, sign in ((m, 1), (h, -1)):  # ends count from those of no modifier
            rows = self._rows_of(ListedPart(kind, h, e))
            at = {"h": h, "e": ABSENT_WORD if e == h else e}
            for t, row in zip(self._end_templates, rows, strict=False):
                values = self._values(t, at) if sign > 0 else _LESS_NO_MODIFIER
                for each in self._weighed([(str(t), values, row)]):
                    found.append(each._replace(weight=sign * each.weight))
        return found

    def _of_higher(self, part: Part) -> list[Feature]:
        linear, kind = self._linear, BY_NAME[part.kind]
        words = dict(zip(kind.roles, part.words, strict=True))
        absent = {role for role, stand_in in kind.absent if words[role] == words[stand_in]}
        at = {role: ABSENT_WORD if role in absent else word for role, word in words.items()}
        given = [(linear.templates, -1, "")]
        if part.label >= 0 and linear.label_templates:
            given.append(
                (linear.label_templates, part.label, f"label {self._labels[part.label]}: ")
            )
        found: list[Feature] = []
        for of_set, label, name in given:
            rows = self._rows_of(higher_part(part.kind, at, label))
            of_part = self._weighed(
                (f"{name}{t}", self._values(t, at), row)
                for t, row in zip(getattr(of_set, part.kind), rows, strict=False)
            )
            if label >= 0:
                relation = _RELATION, self._labels[label]
                of_part = [x._replace(clauses=(relation, *x.clauses)) for x in of_part]
            found += of_part
        if part.kind == "grandparent" and at["h"] != 0:
            self._add_addend(found, "grandparent", at["g"], at["m"])
        return found

    def _feature(self, weight: int, kind: str = "", values: str = "") -> Feature:
        """What the addend adds to a score."""
        assert self._addend
        return Feature(f"{kind}{self._addend.name}", values, weight)

    def _add_addend(self, found: list[Feature], kind: str, first: int, m: int) -> None:
        if self._addend and kind in self._addend.pairs:
            found.append(self._feature(int(self._addend.pairs[kind][first, m])))

    def _addend_labels(self, h: int, m: int) -> np.ndarray | None:
        """(labels,) what the addend gives the labels of an arc; None: it gives nothing."""
        if self._addend is None or not self._addend.has_labels:
            return None
        no_weights = np.zeros((1, len(self._labels)), np.int8)
        return self._label_scores([-1] * (self._n + 1), h, m, _NO_TEMPLATES, no_weights)

    def _label_scores(
        self, heads: Sequence[int], h: int, m: int, plan: LabelPlan, weights: np.ndarray
    ) -> np.ndarray:
        """(labels,) what all labels of the arc h -> m score. heads: of the tree, by node."""
        scores = np.zeros((1, weights.shape[1]))
        starts = (np.arange(self._batch.values.shape[1] + 1) > self._start + m).astype(np.int64)
        graph = GraphHeads(starts, np.array([h]), np.ones(weights.shape[1], np.bool_))
        native.call(
            "score_tree_labels_batch", self._sentences, plan, weights, self._engine.added,
            self._by_token(heads), graph, scores,
        )  # fmt: skip
        return scores[0]

    def _by_token(self, heads: Sequence[int]) -> np.ndarray:
        by_token = np.full(self._batch.values.shape[1], -1, np.int64)
        by_token[self._start : self._start + self._n + 1] = heads
        return by_token

    def _values(
        self, template: Template, at: dict[str, int], between: int | None = None
    ) -> _ReadValues:
        """The values that a template reads, with direction and distance."""
        values = [self._value(atom, at[atom.role]) for atom in template.atoms]
        if template.between and between is not None:
            values.append(self._value(Atom("h", 0, template.between), between))
        near = "s" if at.get("s") else "h"
        ends = [at.get(near, 0), at.get("m", at.get("e", 0))]
        if template.suffix:
            if "direction" in template.suffix:
                values.append("right" if ends[0] < ends[1] else "left")
            if "distance" in template.suffix:
                values.append(str(abs(ends[0] - ends[1])))
        return _ReadValues(" ".join(values), clauses(template, values, near=near))

    def _value(self, atom: Atom, node: int) -> str:
        fields = self._linear.vocabularies.fields
        row = fields.index(atom.field)
        place = min(max(self._start + node + atom.offset, 0), self._batch.values.shape[1] - 1)
        if node == NO_NODE:  # its value is that of a place after the sentence
            return "(none)"
        value = int(self._batch.values[row, place])
        if value in _SPECIAL:
            return f"({_SPECIAL[value]})"
        known = self._linear.vocabularies.values[atom.field]
        return known[value - FIRST_VALUE] if value >= FIRST_VALUE else "-"

    @cached_property
    def _graph_parts(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(N, N), (N, N, N), (N, N) scores of all arcs, siblings and ends; cells of no part too."""
        n_nodes, plan = self._n + 1, self._linear.plan
        if n_nodes**3 > MAX_CELLS:
            raise ResourceError(
                f"the sentence has {self._n} words, too many for the scores of graphs; explain a"
                " shorter one"
            )
        arcs, guides, ends = np.zeros((3, 1, n_nodes, n_nodes))
        siblings = np.zeros((1, n_nodes, n_nodes, n_nodes))
        native.call("score_arcs_batch", self._sentences, self._engine.scorer, arcs)
        native.call("score_siblings_batch", self._sentences, self._engine.scorer, siblings, ends)
        if plan.guide:
            native.call("score_guides_batch", self._sentences, self._engine.scorer, guides)
        pairs = self._addend.pairs if self._addend else {}
        if self._addend:
            arcs = np.where(self._addend.open_arcs, arcs, 0.0) + pairs["arc"]
        if "sibling" in pairs:  # [s, m] of any head; s == h: no sibling
            nodes = np.arange(n_nodes)
            of_pairs = np.where(nodes == nodes[:, None, None], 0.0, pairs["sibling"].T)
            siblings = siblings + of_pairs
        return (arcs + guides)[0], siblings[0], ends[0]

    @cached_property
    def _part_lists(self) -> list[list[Any]]:
        return [each.tolist() for each in self._graph_parts]

    def label_features(
        self, heads: Sequence[int], head: int, word: int
    ) -> tuple[np.ndarray, Callable[[int], list[Feature]]] | None:
        """The scores (labels,) of an arc of a finished tree or graph, and the features of a label.

        heads: of the tree, by node. Returns: None: labels are not found after trees.
        """
        plan, weights = self._linear.label_plan, self._linear.label_weights
        templates = self._linear.label_templates
        if plan is None or weights is None or templates is None:
            return None
        scores = self._label_scores(heads, head, word, plan, weights.array)
        positions = _label_positions(heads, head, word)
        lines = np.full((1, len(plan.direction)), -1, np.int64)
        native.call(
            "list_label_lines", self._sentences, plan, len(weights.array),
            self._by_token(heads), np.array([[head, word]]), lines,
        )  # fmt: skip
        added = self._addend_labels(head, word)
        if self._addend and added is not None and not self._addend.leaves_open(added):
            lines[:] = -1  # templates do not score them

        def features(label: int) -> list[Feature]:
            found = [
                Feature(str(t), read.values, int(weights.array[line, label]), read.clauses)
                for t, line in zip(templates.label, lines[0].tolist(), strict=True)
                for read in [self._values(t, positions)]
                if line >= 0
            ]
            if added is not None:
                found.append(self._feature(int(added[label])))
            return found

        return scores, features


class _Relatives(NamedTuple):
    """The words around a word m of a tree, as scores of parts count them (`gpuparse.parts`).

    head. sibling: the inner sibling, the head for none; next_sibling: that of the sibling.
    grandparent: the head's head, 0 for none. inner, outer: the modifier of m furthest from it
    between m and its head, and on its other side; m for none. is_outermost: whether its head has no
    modifier beyond it.
    """

    head: int
    sibling: int
    next_sibling: int
    grandparent: int
    inner: int
    outer: int
    is_outermost: bool


def _relatives(heads: Sequence[int]) -> list[_Relatives]:
    """Of every word of a tree by node; nothing of use at the root."""
    nodes, found = range(len(heads)), [_Relatives(-1, 0, 0, 0, 0, 0, False)]
    for m in nodes[1:]:
        h = heads[m]
        side = [c for c in nodes[1:] if heads[c] == h and (c < h) == (m < h)]
        side.sort(key=lambda c: abs(c - h))
        place = side.index(m)
        inside = [h, h, *side][place : place + 2]  # the two before m
        children = [c for c in nodes[1:] if heads[c] == m]
        between = [c for c in children if min(h, m) < c < max(h, m)]
        beyond = [c for c in children if c not in between]
        inner, outer = (
            max(each, key=lambda c: abs(c - m), default=m) for each in (between, beyond)
        )
        grandparent = max(heads[h], 0) if h else 0
        found.append(_Relatives(h, inside[1], inside[0], grandparent, inner, outer, m == side[-1]))
    return found


def _label_positions(heads: Sequence[int], h: int, m: int) -> dict[str, int]:
    """The nodes that the label templates of an arc read, by role; NO_NODE for none.

    heads: the tree of primary heads, by node.
    """
    words = range(1, len(heads))
    sisters, children = ([c for c in words if heads[c] == node] for node in (h, m))
    return {
        "h": h,
        "m": m,
        "g": heads[h] if h else NO_NODE,
        "p": max((c for c in sisters if c < m), default=NO_NODE),
        "q": min((c for c in sisters if c > m), default=NO_NODE),
        "l": min(children, default=NO_NODE),
        "r": max(children, default=NO_NODE),
        "o": heads[m] if heads[m] != h else NO_NODE,
    }


def _parts_of_graph(arcs: Iterable[tuple[int, int]]) -> list[Part]:
    """The arcs, siblings and ends of a graph, in the order of modifiers and then of heads."""
    found = []
    for h, m in sorted(arcs, key=lambda arc: arc[::-1]):
        side = [c for k, c in arcs if k == h and (c < h) == (m < h)]
        nearer = [c for c in side if abs(c - h) < abs(m - h)]
        found += [
            Part("arc", (h, m)),
            Part("sibling", (h, max(nearer, key=lambda c: abs(c - h), default=h), m)),
        ]
        if m == max(side, key=lambda c: abs(c - h)):
            found.append(Part("end", (h, m)))
    return found
