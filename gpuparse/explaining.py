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
import torch

from gpuparse.cached import cached_property
from gpuparse.data.batch import AFTER, BEFORE, FIRST_VALUE, ROOT, Batch
from gpuparse.data.treebank import Treebank
from gpuparse.errors import ConfigError, NoTreeError, ResourceError, ScoreError
from gpuparse.features.atoms import Atom
from gpuparse.features.plan import (
    NO_NODE,
    NO_NODE_VALUE,
    HigherPlan,
    RowTemplates,
    templates_of_end_rows,
    templates_of_rows,
    templates_of_sibling_rows,
)
from gpuparse.features.templates import Template
from gpuparse.inference.approximate.hill_climb import primary_heads
from gpuparse.inference.decoders import DECODERS
from gpuparse.inference.scores import Scores
from gpuparse.inference.textbook.spanning_trees import has_cycle, sibling_graph_score
from gpuparse.inference.tree_parts import find_parts, part_tree_scores
from gpuparse.parser import Parser
from gpuparse.parts import BY_NAME, CHILDREN, HIGHER_ORDER
from gpuparse.scoring.admission import CHAIN, OWN, ROWS_AT_ONCE
from gpuparse.scoring.arcs import TorchScorer
from gpuparse.scoring.device import DeviceParser
from gpuparse.scoring.engines import Found
from gpuparse.scoring.higher_order import dense_higher_scores, higher_rows
from gpuparse.scoring.labels import LABEL_ROLES, arc_label_scores, arc_positions, label_lines
from gpuparse.scoring.rows import PartRows
from gpuparse.scoring.tensors import TensorBatch, as_tensors
from gpuparse.scoring.vector_scores import NodeVectors, adding_labels, nodes_of
from gpuparse.scoring.weights import label_map

MAX_CELLS = 1 << 26  # of a dense table of scores, with which sums are checked
Graph = frozenset[tuple[int, int]]  # arcs (h, m)
VECTORS = "word vectors"  # in the place of a template
NO_MODIFIER = "no modifier"  # value of an end
_SPECIAL = {BEFORE: "before the sentence", ROOT: "root", AFTER: "after the sentence"}
_LABELLED = frozenset(CHILDREN)
# Kind of higher-order parts -> what decoders call their scores.
_SCORES_OF = {kind.name: kind.name for kind in HIGHER_ORDER} | {"head_child": "sibling"}


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
class Line:
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
    lines: tuple[Line, ...]

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
        ConfigError: no such sentence, word or head; the head that the word has already in a tree.
            NoTreeError: no tree or graph has the other head. ResourceError: the sentence is too
            long. ScoreError: the weights do not add up to the scores.
    Cost: two searches, or one for each possible head; dense scores of the sentence.
    """
    if not 1 <= sentence <= len(treebank):
        raise ConfigError(f"sentence {sentence}: the file has sentences 1 to {len(treebank)}")
    forms = treebank[sentence - 1].forms
    if not 1 <= word <= len(forms):
        raise ConfigError(f"word {word}: sentence {sentence} has words 1 to {len(forms)}")
    if instead is not None and (not 0 <= instead <= len(forms) or instead == word):
        raise ConfigError(
            f"head {instead} of word {word}: expected 0 (the root) to {len(forms)}, another word"
        )
    batch = parser.encode(treebank, guides).select(np.array([sentence - 1]))
    explained = _Sentence(_searching(parser, batch), batch)
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


class _DenseScores(NamedTuple):
    """Scores of all parts of a sentence, float64; labels count apart.

    parts: by their names in `Scores`. labels: (1, N, N, L) of labels that are found with the trees.
    of_labels: of children with labels, by part; labels are the last axis.
    """

    parts: dict[str, torch.Tensor]
    labels: torch.Tensor | None
    of_labels: dict[str, torch.Tensor]


class _Sentence:
    """One sentence under a parser: searches, features of parts, scores of trees and graphs."""

    def __init__(self, parser: Parser, batch: Batch) -> None:
        self._parser, self._batch = parser, batch
        self._n = int(batch.lengths[0])
        self._start = int(batch.starts[0])
        start = self._start
        # Tensors of the sentence alone
        self._tensors: TensorBatch = as_tensors(batch)
        self._places = slice(start, start + self._n + 1)
        self._rows = PartRows(self._tensors, parser.plan, parser.features)
        self._nodes: NodeVectors | None = nodes_of(self._tensors, parser.vectors)
        self._vector_scores: dict[str, torch.Tensor] = {}
        self._open: torch.Tensor | None = None  # arcs that vectors leave open to templates
        if self._nodes and parser.vectors:
            self._vector_scores["arc"] = self._nodes.arcs()
            self._open = self._nodes.are_open(self._vector_scores["arc"])
            for kind in ("sibling", "grandparent"):
                if parser.vectors.scores(kind):
                    self._vector_scores[kind] = self._nodes.pairs(kind)
        self._of_part: dict[Part, list[Feature]] = {}
        templates = parser.templates
        self._arc_templates = templates_of_rows(templates.arc)
        self._guide_templates = templates_of_rows(templates.guide)
        self._sibling_templates = templates_of_sibling_rows(templates.sibling)
        self._end_templates = templates_of_end_rows(templates.end)
        joint = parser.plans.joint
        if joint:
            assert parser.label_templates is not None
            assert parser.label_weights is not None
            self._label_lines = parser.label_weights.array
            lines = label_map(len(self._label_lines))
            self._lines = PartRows(self._tensors, parser.plan._replace(
                arcs=joint.plan, siblings=None, guide=None, higher=None
            ), lines)  # fmt: skip
            self._label_templates = templates_of_rows(
                parser.label_templates.label, pairs_of_distance=True
            )

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
        matrix = torch.zeros(1, self._n + 1, self._n + 1, dtype=torch.bool)
        matrix[0][tuple(zip(*arcs, strict=True))] = True
        return _Tree(
            primary_heads(matrix)[0].tolist(), [-1] * (self._n + 1), dict.fromkeys(arcs, -1)
        )

    def _searched(self, drawn: Collection[tuple[int, int]], m: int, h: int) -> Iterator[Graph]:
        """The graph that the decoder finds if an arc must be there, or away if it was drawn."""
        is_wanted = (h, m) not in drawn
        arcs, siblings, ends = (each[None] for each in self._graph_parts)
        # More than any change can gain, so that the search keeps to it; float64 adds it exactly.
        most = sum(float(each.abs().max()) for each in (arcs, siblings, ends)) * arcs.numel()
        arcs = arcs.clone()
        arcs[0, h, m] += (2 * most + 1) * (1 if is_wanted else -1)
        graphs, _ = DECODERS[self._parser.search_decoder].function()(
            arcs, siblings, self._tensors.lengths, end_scores=ends,
            min_gain=self._parser.min_gain, single_root=self._parser.single_root,
        )  # fmt: skip
        if bool(graphs[0, h, m]) == is_wanted:
            yield frozenset(map(tuple, graphs[0].nonzero().tolist()))

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
        nodes = find_parts(torch.tensor([[tree.heads]]), torch.tensor([self._n]))
        plan, joint, found = parser.plan, parser.plans.joint, []
        for m in range(1, self._n + 1):
            h, s, t, g, inner, outer = (
                int(x[0, 0, m])
                for x in (nodes.h, nodes.s, nodes.t, nodes.g, nodes.inner, nodes.outer)
            )
            is_outermost = bool(nodes.is_outermost[0, 0, m])
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
        """The features of a part, word vectors among them: their weights add up to its score."""
        if part not in self._of_part:
            self._of_part[part] = {
                "arc": self._of_arc, "sibling": self._of_sibling, "end": self._of_end
            }.get(part.kind, self._of_higher)(part)  # fmt: skip
        return self._of_part[part]

    def _of_arc(self, part: Part) -> list[Feature]:
        b, h, m = (torch.tensor([x]) for x in (0, *part.words))
        at = {"h": part.words[0], "m": part.words[1]}
        weights = self._parser.arcs.array[:, 0]
        rows = self._rows.of_arcs(b, h, m)[0].tolist()
        if self._open is not None and not self._open[0, h, m]:
            rows = [self._rows.silent] * len(rows)
        first = self._arc_like(self._arc_templates, at, rows)
        guides = self._guide_templates.word + self._guide_templates.pair
        first += list(zip((f"guide: {t}" for t in guides), (self._values(t, at) for t in guides),
                          rows[len(first) :], strict=True))  # fmt: skip
        found = _weighed(first, weights)
        self._add_vectors(found, "arc", *part.words)
        if part.label < 0:
            return found
        lines = self._lines.of_arcs(b, h, m)[0].tolist()
        name = self._parser.labels[part.label]
        of_label = _weighed(
            self._arc_like(self._label_templates, at, lines), self._label_lines[:, part.label]
        )
        found += [
            Feature(f"label: {x.template}", f"{name}: {x.values}", x.weight) for x in of_label
        ]
        if self._nodes and self._nodes.of.has_labels:
            score = int(self._nodes.labels(b, h, m)[0, part.label])
            found.append(Feature(f"label: {VECTORS}", name, score))
        return found

    def _arc_like(
        self, templates: RowTemplates, at: dict[str, int], rows: Sequence[int]
    ) -> list[tuple[str, str, int]]:
        """Templates, values and rows of an arc: of words and pairs, then of words in between."""
        named: list[tuple[Template, int | None]]
        named = [(t, None) for t in templates.word + templates.pair]
        named += [
            (t, k)
            for k in range(self._n + 1 if templates.between else 0)
            for t in templates.between
        ]
        return [
            (str(t), self._values(t, at, k), row) for (t, k), row in zip(named, rows, strict=False)
        ]

    def _of_sibling(self, part: Part) -> list[Feature]:
        h, s, m = part.words
        rows = self._rows.of_siblings(*(torch.tensor([x]) for x in (0, h, m, s)))[0].tolist()
        at = {"h": h, "s": 0 if s == h else s, "m": m}
        named = [
            (str(t), self._values(t, at), row)
            for t, row in zip(self._sibling_templates, rows, strict=True)
        ]
        found = _weighed(named, self._parser.arcs.array[:, 0])
        if s != h:
            self._add_vectors(found, "sibling", s, m)
        return found

    def _of_end(self, part: Part) -> list[Feature]:
        (h, m), found = part.words, []
        for e, sign in ((m, 1), (h, -1)):  # ends count from those of no modifier
            given = (torch.tensor([x]) for x in (0, h, e, int(h < m)))
            rows = self._rows.of_ends(*given)[0].tolist()
            at = {"h": h, "e": 0 if e == h else e}
            for t, row in zip(self._end_templates, rows, strict=True):
                values = self._values(t, at) if sign > 0 else f"less {NO_MODIFIER}"
                for each in _weighed([(str(t), values, row)], self._parser.arcs.array[:, 0]):
                    found.append(each._replace(weight=sign * each.weight))
        return found

    def _of_higher(self, part: Part) -> list[Feature]:
        parser, kind = self._parser, BY_NAME[part.kind]
        at = dict(zip(kind.roles, part.words, strict=True))
        for role, stand_in in kind.absent:
            if at[role] == dict(zip(kind.roles, part.words, strict=True))[stand_in]:
                at[role] = 0
        words = torch.tensor([[0, *at.values()]])
        assert parser.plan.higher is not None  # there are such parts
        given = [
            (parser.plan.higher, parser.features, parser.arcs.array[:, 0], parser.templates, "")
        ]
        joint = parser.plans.joint
        if part.label >= 0 and joint and joint.higher and parser.label_templates:
            lines, column = label_map(len(self._label_lines)), self._label_lines[:, part.label]
            name = f"label {parser.labels[part.label]}: "
            given.append((joint.higher, lines, column, parser.label_templates, name))
        found: list[Feature] = []
        for plan, features, weights, templates, name in given:
            rows = higher_rows(part.kind, words, self._tensors, plan, features, len(weights))
            named = [
                (f"{name}{t}", self._values(t, at), row)
                for t, row in zip(getattr(templates, part.kind), rows[0].tolist(), strict=True)
            ]
            found += _weighed(named, weights)
        if part.kind == "grandparent" and at["h"] != 0:
            self._add_vectors(found, "grandparent", at["g"], at["m"])
        return found

    def _add_vectors(self, found: list[Feature], kind: str, first: int, m: int) -> None:
        scores = self._vector_scores.get(kind)
        if scores is not None:
            found.append(Feature(VECTORS, "", int(scores[0, first, m])))

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
        fields = self._parser.vocabularies.fields
        row = fields.index(atom.field)
        place = min(max(self._start + node + atom.offset, 0), self._batch.values.shape[1] - 1)
        value = NO_NODE_VALUE if node == NO_NODE else int(self._batch.values[row, place])
        if value in _SPECIAL:
            return f"({_SPECIAL[value]})"
        known = self._parser.vocabularies.values[atom.field]
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
        if parser.label_weights:
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

    def _dense(self, trees: Sequence[_Tree] = ()) -> _DenseScores:
        """The scores of all parts of the sentence, those of a higher order for arcs of trees."""
        parser, joint = self._parser, self._parser.plans.joint
        decoder, n_nodes = DECODERS[parser.search_decoder], self._n + 1
        axes = 4 if parser.plan.higher else 2 + (parser.plan.siblings is not None)
        width = joint.stride if joint else 1
        if n_nodes**axes * (width if decoder.reads_children or axes < 4 else 1) > MAX_CELLS:
            raise ResourceError(
                f"the sentence has {self._n} words, too many for its scores to be checked; explain"
                " a shorter one"
            )
        scored = DeviceParser(parser.scored, "cpu", "torch").scores(self._tensors, self._nodes)
        parts = dict(zip(("arc", "sibling", "end"), scored, strict=False))
        labels = None
        if joint:
            assert parser.label_weights is not None
            labels = TorchScorer(
                self._tensors, joint.plan, label_map(len(self._label_lines)), parser.label_weights,
                ROWS_AT_ONCE, more=adding_labels(self._nodes),
            ).scores().reshape(*parts["arc"].shape, -1)  # fmt: skip
        of_labels: dict[str, torch.Tensor] = {}
        if parser.plan.higher:
            is_arc = torch.zeros(1, n_nodes, n_nodes, dtype=torch.bool)
            for tree in trees:
                is_arc[0, tree.heads[1:], torch.arange(1, n_nodes)] = True
            self._add_higher(parts, of_labels, is_arc)
        return _DenseScores(parts, labels, of_labels)

    def _add_higher(
        self, parts: dict[str, torch.Tensor], of_labels: dict[str, torch.Tensor],
        is_arc: torch.Tensor,
    ) -> None:  # fmt: skip
        """Add the scores of parts of three and four words, and those of children by label."""
        parser, joint = self._parser, self._parser.plans.joint
        plan = parser.plan.higher
        assert plan is not None
        for kind, name in _SCORES_OF.items():
            if _has_templates(plan, kind):
                dense = dense_higher_scores(
                    kind, is_arc, self._tensors, plan, parser.features, parser.arcs
                )[..., 0]
                if kind == "grandparent" and self._nodes:
                    more = self._nodes.parts(kind)
                    dense = dense if more is None else dense + more
                if plan.only_last and name.startswith("grand"):
                    of_five = dense if dense.dim() == 5 else dense.unsqueeze(3)
                    name, dense = "outermost", of_five.expand(*of_five.shape[:3], *is_arc.shape[1:])
                parts[name] = parts.get(name, 0) + dense
            if joint and kind in CHILDREN and _has_templates(joint.higher, kind):
                assert joint.higher is not None
                assert parser.label_weights is not None
                lines = label_map(len(self._label_lines))
                of_labels[name] = dense_higher_scores(
                    kind, is_arc, self._tensors, joint.higher, lines, parser.label_weights
                )

    @cached_property
    def _graph_parts(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """(N, N), (N, N, N), (N, N) scores of all arcs, siblings and ends."""
        parts = self._dense().parts
        return parts["arc"][0], parts["sibling"][0], parts["end"][0]

    @cached_property
    def _part_lists(self) -> list[list[Any]]:
        return [each.tolist() for each in self._graph_parts]

    def _graph_score(self, arcs: Iterable[tuple[int, int]]) -> int:
        scores, siblings, ends = self._part_lists
        return int(sibling_graph_score(scores, siblings, set(arcs), ends))

    def _scores(self, trees: Sequence[_Tree]) -> list[int]:
        """What trees or graphs score, by the dense scores and not by lists of features."""
        if trees[0].arcs is not None:
            return [self._graph_score(tree.arcs or ()) for tree in trees]
        decoder, found = DECODERS[self._parser.search_decoder], self._dense(trees)
        parts = {name: x for name, x in found.parts.items() if name in ("arc", *decoder.reads)}
        scores, lengths = [], self._tensors.lengths
        for tree in trees:
            heads, labels = torch.tensor([tree.heads]), torch.tensor([tree.labels])
            score = part_tree_scores(Scores(lengths=lengths, **parts), heads)
            if found.labels is not None:
                of_labels = Scores(found.labels, lengths, **found.of_labels)
                score = score + part_tree_scores(of_labels, heads, labels)
            scores.append(int(score))
        return scores

    def _label_choice(self, tree: _Tree, head: int, word: int) -> Choice | None:
        """The best label of an arc of a finished tree or graph, and the next."""
        parser = self._parser
        plan, weights, templates = parser.label_plan, parser.label_weights, parser.label_templates
        if plan is None or weights is None or templates is None:
            return None
        heads = torch.tensor([tree.heads])
        arc = tuple(torch.tensor([x]) for x in (0, head, word))
        scores = arc_label_scores(self._tensors, heads, arc, plan, weights, self._nodes)[0]
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
        positions = arc_positions(heads, *arc)
        at = {role: int(x[0]) for role, x in zip(LABEL_ROLES, positions, strict=True)}
        rows = label_lines(
            self._tensors, self._tensors.starts, positions, torch.ones(1, dtype=torch.bool), plan,
            len(weights.array),
        )[0].tolist()  # fmt: skip
        by_vectors = None
        if self._nodes and self._nodes.of.has_labels:
            by_vectors = self._nodes.labels(*arc)[0, : len(parser.labels)]
            if not self._nodes.have_open_labels(by_vectors):  # templates do not score them
                rows = [len(weights.array)] * len(rows)
        part, found = Part("arc", (head, word)), []
        for label in (best, other):
            named = [(str(t), self._values(t, at), row)
                     for t, row in zip(templates.label, rows, strict=True)]  # fmt: skip
            features = _weighed(named, weights.array[:, label])
            if by_vectors is not None:
                features.append(Feature(VECTORS, "", int(by_vectors[label])))
            found.append([(part, each) for each in features])
        choice = Choice(
            parser.labels[best], parser.labels[other], int(scores[best]), int(scores[other]), 0, 0,
            _lines(found[0], found[1], part="label"),
        )  # fmt: skip
        choice.require_exact()
        return choice


def _has_templates(plan: HigherPlan | None, kind: str) -> bool:
    """Whether a plan has templates of a higher-order kind."""
    if plan is None:
        return False
    number = [each.name for each in HIGHER_ORDER].index(kind)
    return bool(plan.family_start[number] < plan.family_start[number + 1])


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


def _weighed(named: Sequence[tuple[str, str, int]], weights: np.ndarray) -> list[Feature]:
    """Features with their weights; a row beyond the weights is that of a silent template."""
    return [Feature(t, v, int(weights[row])) for t, v, row in named if row < len(weights)]


def _lines(
    ours: Sequence[tuple[Part, Feature]], theirs: Sequence[tuple[Part, Feature]], part: str = ""
) -> tuple[Line, ...]:
    """Features of two trees or graphs side by side, those with the largest differences first."""
    table: dict[tuple[int, str, str], tuple[list[Feature], list[Feature]]]
    table = defaultdict(lambda: ([], []))
    for side, found in enumerate((ours, theirs)):
        for of, feature in found:
            table[of.modifier, part or of.kind, feature.template][side].append(feature)
    lines = [
        Line(
            *key,
            tuple(f.values for f in mine), sum(f.weight for f in mine),
            tuple(f.values for f in its), sum(f.weight for f in its),
        )
        for key, (mine, its) in table.items()
    ]  # fmt: skip
    return tuple(sorted(lines, key=lambda line: -abs(line.difference)))


def _namer(forms: Sequence[str]) -> Callable[[int], str]:
    return lambda node: f"{forms[node - 1]} ({node})" if node else "root (0)"
