"""Why a word has this head: the scores of two trees or graphs, template by template.

The best tree is compared with the best tree in which the word has another head; a graph with the
graph that is found if one arc into the word has to be there, or must not be there. Parts that are
in both cancel; the features of all others are listed, and their weights add up to both scores,
exactly: this is checked for every explanation.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from gpuparse import native
from gpuparse.cached import cached_property
from gpuparse.data.atoms import Atom
from gpuparse.data.batch import AFTER, BEFORE, FIRST_VALUE, MARGIN, ROOT, Batch
from gpuparse.data.treebank import Treebank
from gpuparse.engines.admission import CHAIN, OWN
from gpuparse.engines.found import Found
from gpuparse.errors import ConfigError, NoTreeError, ResourceError, ScoreError
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
from gpuparse.inference.textbook.spanning_trees import has_cycle, sibling_graph_score
from gpuparse.parser import Parser
from gpuparse.parts import BY_NAME, CHILDREN
from gpuparse.scorers.linear.part_rows import (
    ABSENT_WORD,
    ListedPart,
    higher_part,
    list_part_rows,
    listed_number,
)
from gpuparse.scorers.native import GraphHeads, require_all, sentences_of

MAX_CELLS = 1 << 26  # of the scores of all siblings, for graphs
Graph = frozenset[tuple[int, int]]  # arcs (h, m)
NO_MODIFIER = "no modifier"  # value of an end
_SPECIAL = {BEFORE: "before the sentence", ROOT: "root", AFTER: "after the sentence"}
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
    """A template with its values in one part, and the weight that it adds to the score."""

    template: str
    values: str
    weight: int


@dataclass(frozen=True)
class TemplateChange:
    """A template of one kind of parts of one word, in both trees or graphs.

    word: the modifier. values, weight: in the one that was chosen, summed where the template fires
    several times; other_values, other_weight: in the other. Empty values: it does not fire.
    """

    word: int
    part: str
    template: str
    values: tuple[str, ...]
    weight: int
    other_values: tuple[str, ...]
    other_weight: int

    @property
    def difference(self) -> int:
        """What the template adds to the difference of both scores."""
        return self.weight - self.other_weight


@dataclass(frozen=True)
class Choice:
    """Two alternatives, their scores, and the lines that add up to these.

    name, other_name: what is chosen, and what is not. score, other_score: in points of the model's
    whole-number weights. shared: the sum of all parts that both have; shared_parts: their
    number. lines: by falling size of their differences.
    """

    name: str
    other_name: str
    score: int
    other_score: int
    shared: int
    shared_parts: int
    lines: tuple[TemplateChange, ...]

    def require_exact(self) -> None:
        """Raises: ScoreError: the lines do not add up to the scores."""
        sums = (
            self.shared + sum(line.weight for line in self.lines),
            self.shared + sum(line.other_weight for line in self.lines),
        )
        if sums != (self.score, self.other_score):
            raise ScoreError(
                f"the explanation adds up to {sums[0]} and {sums[1]}, and the scores are"
                f" {self.score} and {self.other_score}: this is a bug, please report it"
            )


@dataclass(frozen=True)
class Explanation:
    """Why a word has a head, and not another.

    forms: of the sentence. word: 1..n. head, other_head: 0 for the root. heads, other_heads: the
    trees, by word; labels: of the arcs of the first one, or None. graph, other_graph: None for
    trees; of graphs all heads of each word, ascending, while `heads` and `other_heads` are the
    primary ones. Of graphs the word has `other_head` in one of the two only, and `head` is that
    head if it is in the first, else the primary one.
    is_asked: whether the other head was asked for; else the other tree is the best one in which the
    word has another head, or the other graph the best one in which it has other heads. is_exact:
    whether the decoder is known to have found the best trees. tree: the choice of the tree or
    graph. label: that of the label of the arc from `head`, of labels of finished trees.
    """

    forms: tuple[str, ...]
    word: int
    head: int
    other_head: int
    heads: tuple[int, ...]
    other_heads: tuple[int, ...]
    labels: tuple[str, ...] | None
    graph: tuple[tuple[int, ...], ...] | None
    other_graph: tuple[tuple[int, ...], ...] | None
    decoder: str
    is_asked: bool
    is_exact: bool
    tree: Choice
    label: Choice | None


def explain(
    parser: Parser,
    treebank: Treebank,
    sentence: int,
    word: int,
    *,
    instead: int | None = None,
    guides: np.ndarray | None = None,
) -> Explanation:
    """Compare the parser's tree with the best tree in which a word has another head.

    A graph is compared with the best one found in which the word has the other head, too or
    instead; or does not have it, if it is one of the word's heads. That is the graph that the
    decoder finds under this condition, or the parser's graph with other heads of this word alone.

    Args:
        sentence, word: counted from 1.
        instead: the other head, 0 for the root; None: that of the best such tree or graph.
        guides: as in `Parser.parse`.
    Raises:
        ConfigError: no such sentence, word or head; the head that the word has already in a tree;
            a model whose scores are no sums of weights.
            NoTreeError: no tree or graph has the other head. ResourceError: the sentence is too
            long. ScoreError: the weights do not add up to the scores. NativeError: there is no
            native code, which lists the features.
    Cost: two searches, or one for each possible head; for graphs the scores of all siblings.
    """
    if parser.fused is None:
        raise ConfigError(
            f"the model's scores are of kind {parser.kinds}, and no sums of weights of features"
            " that could be listed: explain a model of templates"
        )
    if not 1 <= sentence <= len(treebank):
        raise ConfigError(f"sentence {sentence}: the file has sentences 1 to {len(treebank)}")
    forms = treebank[sentence - 1].forms
    if not 1 <= word <= len(forms):
        raise ConfigError(f"word {word}: sentence {sentence} has words 1 to {len(forms)}")
    if instead is not None and (not 0 <= instead <= len(forms) or instead == word):
        raise ConfigError(
            f"head {instead} of word {word}: expected 0 (the root) to {len(forms)}, another word"
        )
    batch = parser.linear.encode(treebank, guides).select(np.array([sentence - 1]))
    explained = _Sentence(_searching(parser, batch), _alone(batch))
    chosen = explained.search()
    if chosen.arcs is None and instead == chosen.heads[word]:
        raise ConfigError(f"word {word} has the head {instead} already: name another head")
    if instead is None:
        other_head, other = explained.best_other(chosen, word)
    else:
        other_head, other = instead, explained.changed(chosen, word, instead)
    return explained.compare(forms, word, chosen, other_head, other, is_asked=instead is not None)


def _searching(parser: Parser, batch: Batch) -> Parser:
    """The parser, or that of a lower order for a sentence that is too long for it."""
    [order] = parser.orders(batch)
    if order == CHAIN:
        raise ResourceError("the sentence is too long for any search, so that no tree has a score")
    return parser if order == OWN else parser.lower_order()


def _alone(batch: Batch) -> Batch:
    """A batch of one sentence over a copy of its own values."""
    low = int(batch.starts[0]) - MARGIN
    values = batch.values[:, low : low + int(batch.lengths[0]) + 1 + 2 * MARGIN].copy()
    return Batch(values, batch.starts - low, batch.lengths)


class _Tree(NamedTuple):
    """heads, labels by node, -1 at the root; no labels where they are not found with trees.

    arcs: of a graph, (h, m) with their labels; its heads and labels are those of primary arcs.
    """

    heads: list[int]
    labels: list[int]
    arcs: Mapping[tuple[int, int], int] | None = None

    def heads_of(self, m: int) -> list[int]:
        """All heads of a word, ascending."""
        return [self.heads[m]] if self.arcs is None else sorted(h for h, w in self.arcs if w == m)


class _Sentence:
    """One sentence under a parser: searches, features of parts, scores of trees and graphs."""

    def __init__(self, parser: Parser, batch: Batch) -> None:
        self._parser, self._batch = parser, batch
        self._n = int(batch.lengths[0])
        self._start = int(batch.starts[0])
        self._places = slice(self._start, self._start + self._n + 1)
        self._sentences = sentences_of(batch)
        assert parser.fused is not None
        linear, self._fused = parser.linear, parser.fused
        self._linear, joint = linear, linear.plans.joint
        self._scorer = self._fused.scorer
        addend = self._fused.addend
        self._further = addend.explained(self._sentences, self._n + 1) if addend else None
        self._of_part: dict[Part, list[Feature]] = {}
        templates = parser.linear.templates
        self._arc_templates = templates_of_rows(templates.arc)
        self._guide_templates = templates_of_rows(templates.guide).of_words
        self._sibling_templates = templates_of_sibling_rows(templates.sibling)
        self._end_templates = templates_of_end_rows(templates.end)
        if joint:
            assert parser.linear.label_templates is not None
            self._label_templates = templates_of_rows(
                parser.linear.label_templates.label, pairs_of_distance=True
            ).of_words

    def search(self, known: dict[int, int] | None = None) -> _Tree:
        """The best tree with some known heads."""
        given = np.full(self._batch.values.shape[1], -1, np.int64)
        for m, h in (known or {}).items():
            given[self._start + m] = h
        found: Found = self._parser.search(self._batch, known=given if known else given[:0])
        arcs = None
        if found.arcs is not None:
            modifiers, heads, labels = (each.tolist() for each in found.arcs)
            modifiers = [place - self._start for place in modifiers]
            arcs = dict(zip(zip(heads, modifiers, strict=True), labels, strict=True))
        return _Tree(found.heads[self._places].tolist(), found.labels[self._places].tolist(), arcs)

    def changed(self, chosen: _Tree, m: int, h: int) -> _Tree:
        """The best tree with a head of a word; of graphs, without it if the chosen one has it.

        Raises: NoTreeError: there is none.
        """
        if chosen.arcs is None:
            return self.search({m: h})
        graphs = [*self._searched(chosen.arcs, m, h), *self._single_changes(chosen, m, h)]
        if not graphs:
            raise NoTreeError(f"no other graph has, or leaves out, the arc from {h} to {m}")
        arcs = max(graphs, key=self._graph_score)
        return _Tree(_primary_heads(arcs, self._n), [-1] * (self._n + 1), dict.fromkeys(arcs, -1))

    def _searched(self, drawn: Collection[tuple[int, int]], m: int, h: int) -> Iterator[Graph]:
        """The graph that the decoder finds if an arc must be there, or away if it was drawn."""
        is_wanted, single_root = (h, m) not in drawn, self._parser.single_root
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
        limits = ChangeLimits(single_root, -1, self._parser.min_gain)
        native.call("multi_parent_batch", *given, limits, start[0], graph, score[0])
        if graph[0, h, m] == is_wanted:
            yield frozenset((k, c) for k, c in np.argwhere(graph[0]).tolist())

    def _single_changes(self, chosen: _Tree, m: int, h: int) -> Iterator[Graph]:
        """Graphs that differ from a graph in heads of one word, with an arc or without it.

        The root is no additional head, and replaces an only head if there may be several roots.
        """
        assert chosen.arcs is not None
        heads, drawn = chosen.heads_of(m), frozenset(chosen.arcs)
        others = {k for k in range(self._n + 1) if k not in (m, *heads)}
        if self._parser.single_root or len(heads) > 1:
            others.discard(0)
        for new in sorted(others if h in heads else others & {h}):
            for old in [h] if h in heads else heads:
                yield from _acyclic(drawn - {(old, m)} | {(new, m)})
            if h not in heads and h > 0:
                yield from _acyclic(drawn | {(h, m)})
        if h in heads and len(heads) > 1:
            yield from _acyclic(drawn - {(h, m)})

    def best_other(self, chosen: _Tree, word: int) -> tuple[int, _Tree]:
        """The best of the changed trees, and its head; of equals, that of the smallest head."""
        trees = {}
        for h in range(self._n + 1):
            if h != word and (chosen.arcs is not None or h != chosen.heads[word]):
                with suppress(NoTreeError):
                    trees[h] = self.changed(chosen, word, h)
        if not trees:
            raise NoTreeError(f"word {word} has the same head in every tree")
        return max(trees.items(), key=lambda item: self._sum(item[1]))

    def _sum(self, tree: _Tree) -> int:
        """The weights of all features: trees have most parts in common, whose features are kept."""
        return sum(f.weight for part in self.parts(tree) for f in self.features(part))

    def parts(self, tree: _Tree) -> list[Part]:
        """The scored parts of a tree or graph, in the order of words."""
        if tree.arcs is not None:
            return _parts_of_graph(tree.arcs)
        parser = self._parser
        decoder = DECODERS[parser.search_decoder]
        plan, joint, found = parser.linear.plan, parser.linear.plans.joint, []
        relatives = _relatives(tree.heads)
        for m in range(1, self._n + 1):
            h, s, t, g, inner, outer, is_outermost = relatives[m]
            label = tree.labels[m] if joint else -1
            found.append(Part("arc", (h, m), label))
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

    def features(self, part: Part) -> list[Feature]:
        """The features of a part and what is added to them: their weights add up to its score."""
        if part not in self._of_part:
            self._of_part[part] = {
                "arc": self._of_arc, "sibling": self._of_sibling, "end": self._of_end
            }.get(part.kind, self._of_higher)(part)  # fmt: skip
        return self._of_part[part]

    def _rows_of(self, part: ListedPart) -> list[int]:
        """The rows of a part, -1 for a template that does not fire."""
        rows: list[int] = list_part_rows(self._batch, self._scorer, [part])[0].tolist()
        return rows

    def _of_arc(self, part: Part) -> list[Feature]:
        h, m = part.words
        at = {"h": h, "m": m}
        rows = self._rows_of(ListedPart(listed_number("arc"), h, m))
        if self._further and not self._further.open_arcs[h, m]:
            rows = [-1] * len(rows)
        first = self._arc_like(self._arc_templates, at, rows)
        guides = [(f"guide: {t}", self._values(t, at)) for t in self._guide_templates]
        of_guides = rows[len(first) : len(first) + len(guides)]
        first += [(*named, row) for named, row in zip(guides, of_guides, strict=True)]
        found = self._weighed(first)
        self._add_further(found, "arc", h, m)
        if part.label < 0:
            return found
        name, templates = self._parser.labels[part.label], self._label_templates
        rows = self._rows_of(ListedPart(listed_number("label"), h, m, label=part.label))
        of_label = self._weighed(
            [(str(t), self._values(t, at), row) for t, row in zip(templates, rows, strict=False)]
        )
        found += [
            Feature(f"label: {x.template}", f"{name}: {x.values}", x.weight) for x in of_label
        ]
        further = self._further_labels(h, m)
        if further is not None:
            found.append(self._feature(int(further[part.label]), "label: ", name))
        return found

    def _weighed(self, named: Iterable[tuple[str, str, int]]) -> list[Feature]:
        """Features that fire, with their weights."""
        return [Feature(t, v, self._weight(row)) for t, v, row in named if row >= 0]

    def _weight(self, row: int) -> int:
        """The weight of a row; those of labels come after the others."""
        weights, joint = self._linear.arcs.array[:, 0], self._linear.plans.joint
        if joint is None or row < len(weights):
            return int(weights[row])
        return int(joint.weights[row - len(weights)])

    def _arc_like(
        self, templates: RowTemplates, at: dict[str, int], rows: Sequence[int]
    ) -> list[tuple[str, str, int]]:
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
            self._add_further(found, "sibling", s, m)
        return found

    def _of_end(self, part: Part) -> list[Feature]:
        (h, m), found = part.words, []
        kind = listed_number("right_end" if h < m else "left_end")
        for e, sign in ((m, 1), (h, -1)):  # ends count from those of no modifier
            rows = self._rows_of(ListedPart(kind, h, e))
            at = {"h": h, "e": ABSENT_WORD if e == h else e}
            for t, row in zip(self._end_templates, rows, strict=False):
                values = self._values(t, at) if sign > 0 else f"less {NO_MODIFIER}"
                for each in self._weighed([(str(t), values, row)]):
                    found.append(each._replace(weight=sign * each.weight))
        return found

    def _of_higher(self, part: Part) -> list[Feature]:
        parser, kind = self._parser, BY_NAME[part.kind]
        words = dict(zip(kind.roles, part.words, strict=True))
        absent = {role for role, stand_in in kind.absent if words[role] == words[stand_in]}
        at = {role: ABSENT_WORD if role in absent else word for role, word in words.items()}
        given = [(parser.linear.templates, -1, "")]
        if part.label >= 0 and parser.linear.label_templates:
            given.append(
                (parser.linear.label_templates, part.label, f"label {parser.labels[part.label]}: ")
            )
        found: list[Feature] = []
        for of_set, label, name in given:
            rows = self._rows_of(higher_part(part.kind, at, label))
            found += self._weighed(
                (f"{name}{t}", self._values(t, at), row)
                for t, row in zip(getattr(of_set, part.kind), rows, strict=False)
            )
        if part.kind == "grandparent" and at["h"] != 0:
            self._add_further(found, "grandparent", at["g"], at["m"])
        return found

    def _feature(self, weight: int, kind: str = "", values: str = "") -> Feature:
        """What the further scorer adds to a score."""
        assert self._further
        return Feature(f"{kind}{self._further.name}", values, weight)

    def _add_further(self, found: list[Feature], kind: str, first: int, m: int) -> None:
        if self._further and kind in self._further.pairs:
            found.append(self._feature(int(self._further.pairs[kind][first, m])))

    def _further_labels(self, h: int, m: int) -> np.ndarray | None:
        """(labels,) what the further scorer gives the labels of an arc; None: it gives nothing."""
        if self._further is None or not self._further.has_labels:
            return None
        no_weights = np.zeros((1, len(self._parser.labels)), np.int8)
        return self._label_scores([-1] * (self._n + 1), h, m, _NO_TEMPLATES, no_weights)

    def _label_scores(
        self, heads: Sequence[int], h: int, m: int, plan: LabelPlan, weights: np.ndarray
    ) -> np.ndarray:
        """(labels,) what all labels of the arc h -> m score. heads: of the tree, by node."""
        scores = np.zeros((1, weights.shape[1]))
        starts = (np.arange(self._batch.values.shape[1] + 1) > self._start + m).astype(np.int64)
        graph = GraphHeads(starts, np.array([h]), np.ones(weights.shape[1], np.bool_))
        native.call(
            "score_tree_labels_batch", self._sentences, plan, weights, self._fused.added,
            self._by_token(heads), graph, scores,
        )  # fmt: skip
        return scores[0]

    def _by_token(self, heads: Sequence[int]) -> np.ndarray:
        by_token = np.full(self._batch.values.shape[1], -1, np.int64)
        by_token[self._places] = heads
        return by_token

    def _values(self, template: Template, at: dict[str, int], between: int | None = None) -> str:
        """The values that a template reads, with direction and distance."""
        atoms = [self._value(atom, at[atom.role]) for atom in template.atoms]
        if template.between and between is not None:
            atoms.append(self._value(Atom("h", 0, template.between), between))
        ends = [at.get("s") or at.get("h", 0), at.get("m", at.get("e", 0))]
        if template.suffix:
            if "direction" in template.suffix:
                atoms.append("right" if ends[0] < ends[1] else "left")
            if "distance" in template.suffix:
                atoms.append(str(abs(ends[0] - ends[1])))
        return " ".join(atoms)

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

    def compare(
        self, forms: Sequence[str], word: int, chosen: _Tree, other_head: int, other: _Tree, *,
        is_asked: bool,
    ) -> Explanation:  # fmt: skip
        """The explanation of two trees or graphs."""
        parser, name = self._parser, _namer(forms)
        ours, theirs = self.parts(chosen), self.parts(other)
        both = set(ours) & set(theirs)
        shared = sum(f.weight for part in both for f in self.features(part))
        lines = _lines(
            [(p, f) for p in ours if p not in both for f in self.features(p)],
            [(p, f) for p in theirs if p not in both for f in self.features(p)],
        )
        score, other_score = self._scores([chosen, other])
        first, second = (
            f"{', '.join(map(name, tree.heads_of(word)))} → {name(word)}"
            for tree in (chosen, other)
        )
        choice = Choice(first, second, score, other_score, shared, len(both), lines)
        choice.require_exact()
        is_exact = DECODERS[parser.search_decoder].search == "exact"
        labels = None
        if parser.linear.label_weights:
            labels = tuple(parser.labels[k] for k in chosen.labels[1:])
        graph, other_graph = (
            None if tree.arcs is None
            else tuple(tuple(tree.heads_of(m)) for m in range(1, self._n + 1))
            for tree in (chosen, other)
        )  # fmt: skip
        head = other_head if other_head in chosen.heads_of(word) else chosen.heads[word]
        return Explanation(
            tuple(forms), word, head, other_head, tuple(chosen.heads[1:]), tuple(other.heads[1:]),
            labels, graph, other_graph, parser.search_decoder, is_asked, is_exact, choice,
            self._label_choice(chosen, head, word),
        )  # fmt: skip

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
        native.call("score_arcs_batch", self._sentences, self._scorer, arcs)
        native.call("score_siblings_batch", self._sentences, self._scorer, siblings, ends)
        if plan.guide:
            native.call("score_guides_batch", self._sentences, self._scorer, guides)
        pairs = self._further.pairs if self._further else {}
        if self._further:
            arcs = np.where(self._further.open_arcs, arcs, 0.0) + pairs["arc"]
        if "sibling" in pairs:  # [s, m] of any head; s == h: no sibling
            nodes = np.arange(n_nodes)
            of_pairs = np.where(nodes == nodes[:, None, None], 0.0, pairs["sibling"].T)
            siblings = siblings + of_pairs
        return (arcs + guides)[0], siblings[0], ends[0]

    @cached_property
    def _part_lists(self) -> list[list[Any]]:
        return [each.tolist() for each in self._graph_parts]

    def _graph_score(self, arcs: Iterable[tuple[int, int]]) -> int:
        scores, siblings, ends = self._part_lists
        return int(sibling_graph_score(scores, siblings, set(arcs), ends))

    def _scores(self, trees: Sequence[_Tree]) -> list[int]:
        """What trees or graphs score as decoders add it, and not by lists of features."""
        if trees[0].arcs is not None:
            return [self._graph_score(tree.arcs or ()) for tree in trees]
        scores = np.zeros((len(trees), 1))
        for tree, score in zip(trees, scores, strict=True):
            self._fused.score_trees(self._batch, self._by_token(tree.heads), score)
        return [int(score) for score in scores[:, 0]]

    def _label_choice(self, tree: _Tree, head: int, word: int) -> Choice | None:
        """The best label of an arc of a finished tree or graph, and the next."""
        parser = self._parser
        plan, weights, templates = (
            parser.linear.label_plan,
            parser.linear.label_weights,
            parser.linear.label_templates,
        )
        if plan is None or weights is None or templates is None:
            return None
        scores = self._label_scores(tree.heads, head, word, plan, weights.array)
        best = tree.labels[word] if tree.arcs is None else tree.arcs[head, word]
        permitted = parser.may_be_primary if head == tree.heads[word] else None
        others = [
            k
            for k in range(len(parser.labels))
            if k != best and (permitted is None or permitted[k])
        ]
        if not others:
            return None
        other = max(others, key=lambda k: (float(scores[k]), -k))
        positions = _label_positions(tree.heads, head, word)
        lines = np.full((1, len(plan.direction)), -1, np.int64)
        native.call(
            "list_label_lines", self._sentences, plan, len(weights.array),
            self._by_token(tree.heads), np.array([[head, word]]), lines,
        )  # fmt: skip
        further = self._further_labels(head, word)
        if self._further and further is not None and not self._further.leaves_open(further):
            lines[:] = -1  # templates do not score them
        part, found = Part("arc", (head, word)), []
        for label in (best, other):
            features = [
                Feature(str(t), self._values(t, positions), int(weights.array[line, label]))
                for t, line in zip(templates.label, lines[0].tolist(), strict=True)
                if line >= 0
            ]
            if further is not None:
                features.append(self._feature(int(further[label])))
            found.append([(part, each) for each in features])
        choice = Choice(
            parser.labels[best], parser.labels[other], int(scores[best]), int(scores[other]), 0, 0,
            _lines(found[0], found[1], part="label"),
        )  # fmt: skip
        choice.require_exact()
        return choice


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


def _primary_heads(arcs: Iterable[tuple[int, int]], n: int) -> list[int]:
    """The nearest head of every word of a graph, the left one of two as near; -1 at the root."""
    nearest: dict[int, tuple[int, bool, int]] = {}
    for h, m in arcs:
        nearest[m] = min(nearest.get(m, (n + 1, True, h)), (abs(h - m), h > m, h))
    return [-1, *(nearest[m][2] for m in range(1, n + 1))]


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


def _acyclic(arcs: Graph) -> Iterator[Graph]:
    """The graph, unless it has a cycle."""
    if not has_cycle(set(arcs)):
        yield arcs


def _lines(
    ours: Sequence[tuple[Part, Feature]], theirs: Sequence[tuple[Part, Feature]], part: str = ""
) -> tuple[TemplateChange, ...]:
    """Features of two trees or graphs side by side, those with the largest differences first."""
    table: dict[tuple[int, str, str], tuple[list[Feature], list[Feature]]]
    table = defaultdict(lambda: ([], []))
    for side, found in enumerate((ours, theirs)):
        for of, feature in found:
            table[of.modifier, part or of.kind, feature.template][side].append(feature)
    lines = [
        TemplateChange(
            *key,
            tuple(f.values for f in mine), sum(f.weight for f in mine),
            tuple(f.values for f in its), sum(f.weight for f in its),
        )
        for key, (mine, its) in table.items()
    ]  # fmt: skip
    return tuple(sorted(lines, key=lambda line: -abs(line.difference)))


def _namer(forms: Sequence[str]) -> Callable[[int], str]:
    return lambda node: f"{forms[node - 1]} ({node})" if node else "root (0)"
