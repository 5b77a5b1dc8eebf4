"""Why a word has this head: the scores of two trees, template by template.

The best tree is compared with the best tree in which the word has another head. Parts that are in
both trees cancel; the features of all others are listed, and their weights add up to the scores of
both trees, exactly: this is checked for every explanation.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch

from gpuparse.data.batch import AFTER, BEFORE, FIRST_VALUE, ROOT, Batch
from gpuparse.data.treebank import Treebank
from gpuparse.errors import ConfigError, NoTreeError, ResourceError, ScoreError
from gpuparse.features.atoms import Atom
from gpuparse.features.plan import (
    NO_NODE,
    NO_NODE_VALUE,
    RowTemplates,
    templates_of_end_rows,
    templates_of_rows,
    templates_of_sibling_rows,
)
from gpuparse.features.templates import Template
from gpuparse.inference.decoders import DECODERS
from gpuparse.inference.scores import Scores
from gpuparse.inference.tree_parts import find_parts, part_tree_scores
from gpuparse.parser import Parser
from gpuparse.parts import BY_NAME, CHILDREN
from gpuparse.scoring.admission import CHAIN, OWN
from gpuparse.scoring.engines import Found
from gpuparse.scoring.higher_order import higher_rows
from gpuparse.scoring.labels import LABEL_ROLES, label_lines, tree_label_scores, tree_positions
from gpuparse.scoring.native import Scorer
from gpuparse.scoring.plain import score_batch
from gpuparse.scoring.rows import PartRows
from gpuparse.scoring.tensors import TensorBatch, as_tensors
from gpuparse.scoring.vector_scores import NodeVectors, nodes_of
from gpuparse.scoring.weights import label_map

MAX_CELLS = 1 << 26  # of a dense table of scores, with which sums are checked
VECTORS = "word vectors"  # in the place of a template
NO_MODIFIER = "no modifier"  # value of an end
_SPECIAL = {BEFORE: "before the sentence", ROOT: "root", AFTER: "after the sentence"}
_LABELLED = frozenset(CHILDREN)


class Part(NamedTuple):
    """A part of a tree. kind: its name in `gpuparse.parts`; words: by the roles of the kind.

    An absent word is the one that stands for it in scores. label: of labelled parts, else -1.
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
    """A template of one kind of parts of one word, in both trees.

    word: the modifier. values, weight: in the tree that was chosen, summed where the template fires
    several times; other_values, other_weight: in the other tree. Empty values: it does not fire.
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
    whole-number weights. shared: the sum of all parts that both trees have; shared_parts: their
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
    trees, by word; labels: of the arcs of the first one, or None. is_asked: whether the other head
    was asked for; else the tree with it is the best one in which the word has another head.
    is_exact: whether the decoder is known to have found the best trees. tree: the choice of the
    tree. label: that of the label, of labels of finished trees.
    """

    forms: tuple[str, ...]
    word: int
    head: int
    other_head: int
    heads: tuple[int, ...]
    other_heads: tuple[int, ...]
    labels: tuple[str, ...] | None
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

    Args:
        sentence, word: counted from 1.
        instead: the other head, 0 for the root; None: that of the best such tree.
        guides: as in `Parser.parse`.
    Raises:
        ConfigError: no such sentence, word or head; the head that the word has already; a parser of
            graphs. NoTreeError: no tree has the other head. ResourceError: the sentence is too
            long. ScoreError: the weights do not add up to the scores.
    Cost: two searches, or one for each possible head; dense scores of the sentence.
    """
    if DECODERS[parser.search_decoder].gives_graphs:
        raise ConfigError(
            f"decoder {parser.search_decoder} finds graphs; explanations are of trees: parse with"
            " a model of trees"
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
    batch = parser.encode(treebank, guides).select(np.array([sentence - 1]))
    explained = _Sentence(_searching(parser, batch), batch)
    chosen = explained.search()
    head = chosen.heads[word]
    if instead == head:
        raise ConfigError(f"word {word} has the head {head} already: name another head")
    other = explained.search({word: instead}) if instead is not None else None
    if other is None:
        other = explained.best_other(chosen, word)
    return explained.compare(forms, word, chosen, other, is_asked=instead is not None)


def _searching(parser: Parser, batch: Batch) -> Parser:
    """The parser, or that of a lower order for a sentence that is too long for it."""
    [order] = parser.orders(batch)
    if order == CHAIN:
        raise ResourceError("the sentence is too long for any search, so that no tree has a score")
    return parser if order == OWN else parser.lower_order()


class _Tree(NamedTuple):
    """heads, labels by node, -1 at the root; no labels where they are not found with trees."""

    heads: list[int]
    labels: list[int]
    is_certified: bool


class _Sentence:
    """One sentence under a parser: searches, the features of parts, and scores of trees."""

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
            lines = label_map(len(joint.table.array))
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
        is_certified = found.certificates is None or bool(found.certificates[0, self._start] > 0)
        return _Tree(
            found.heads[self._places].tolist(), found.labels[self._places].tolist(), is_certified
        )

    def best_other(self, chosen: _Tree, word: int) -> _Tree:
        """The best tree in which a word has another head; of equals, that of the smallest head."""
        trees = []
        for h in range(self._n + 1):
            if h not in (word, chosen.heads[word]):
                with suppress(NoTreeError):
                    trees.append(self.search({word: h}))
        if not trees:
            raise NoTreeError(f"word {word} has the same head in every tree")
        if self._parser.plan.higher:  # few arcs at a time have few parts
            scores = [self._scores([tree])[0] for tree in trees]
        else:
            scores = self._scores(trees)
        return trees[scores.index(max(scores))]

    def parts(self, tree: _Tree) -> list[Part]:
        """The scored parts of a tree, in the order of words."""
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
        joint = self._parser.plans.joint
        assert joint is not None
        lines = self._lines.of_arcs(b, h, m)[0].tolist()
        name = self._parser.labels[part.label]
        of_label = _weighed(
            self._arc_like(self._label_templates, at, lines), joint.table.array[:, part.label]
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
            lines, column = label_map(len(joint.table.array)), joint.table.array[:, part.label]
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
        self, forms: Sequence[str], word: int, chosen: _Tree, other: _Tree, *, is_asked: bool
    ) -> Explanation:
        """The explanation of two trees."""
        parser, name = self._parser, _namer(forms)
        ours, theirs = self.parts(chosen), self.parts(other)
        both = set(ours) & set(theirs)
        shared = sum(f.weight for part in both for f in self.features(part))
        lines = _lines(
            [(p, f) for p in ours if p not in both for f in self.features(p)],
            [(p, f) for p in theirs if p not in both for f in self.features(p)],
        )
        score, other_score = self._scores([chosen, other])
        first, second = (f"{name(tree.heads[word])} → {name(word)}" for tree in (chosen, other))
        choice = Choice(first, second, score, other_score, shared, len(both), lines)
        choice.require_exact()
        is_exact = DECODERS[parser.search_decoder].search == "exact"
        labels = None
        if parser.label_weights:
            labels = tuple(parser.labels[k] for k in chosen.labels[1:])
        return Explanation(
            tuple(forms), word, chosen.heads[word], other.heads[word], tuple(chosen.heads[1:]),
            tuple(other.heads[1:]), labels, parser.search_decoder, is_asked, is_exact, choice,
            self._label_choice(chosen, word),
        )  # fmt: skip

    def _scores(self, trees: Sequence[_Tree]) -> list[int]:
        """What trees score, by the dense scores of the sentence and not by lists of features."""
        parser, joint = self._parser, self._parser.plans.joint
        decoder, n_nodes = DECODERS[parser.search_decoder], self._n + 1
        axes = 4 if parser.plan.higher else 2 + (parser.plan.siblings is not None)
        width = joint.stride if joint else 1
        if n_nodes**axes * (width if decoder.reads_children or axes < 4 else 1) > MAX_CELLS:
            raise ResourceError(
                f"the sentence has {self._n} words, too many for its scores to be checked; explain"
                " a shorter one"
            )
        is_arc = torch.zeros(1, n_nodes, n_nodes, dtype=torch.bool)
        for tree in trees:
            is_arc[0, tree.heads[1:], torch.arange(1, n_nodes)] = True
        scorer = Scorer(
            parser.plan, parser.arcs.array.reshape(-1), parser.features.rows, joint,
            parser.vectors, parser.arcs,
        )  # fmt: skip
        found = score_batch(self._tensors, scorer, is_arc)
        parts = {name: x for name, x in found.parts.items() if name in ("arc", *decoder.reads)}
        if joint and not joint.higher:
            assert found.labels is not None
            parts["arc"] = parts["arc"] - found.labels.amax(-1)
        scores, lengths = [], self._tensors.lengths
        for tree in trees:
            heads, labels = torch.tensor([tree.heads]), torch.tensor([tree.labels])
            score = part_tree_scores(Scores(lengths=lengths, **parts), heads)
            if joint:
                of_labels = Scores(found.labels, lengths, **found.of_labels)
                score = score + part_tree_scores(of_labels, heads, labels)
            scores.append(int(score))
        return scores

    def _label_choice(self, tree: _Tree, word: int) -> Choice | None:
        """The best label of an arc of a finished tree, and the next."""
        parser = self._parser
        plan, weights, templates = parser.label_plan, parser.label_weights, parser.label_templates
        if plan is None or weights is None or templates is None or len(parser.labels) < 2:
            return None
        heads = torch.tensor([tree.heads])
        scores = tree_label_scores(self._tensors, heads, plan, weights, self._nodes)[0, word]
        best = tree.labels[word]
        others = [k for k in range(len(parser.labels)) if k != best]
        other = max(others, key=lambda k: (float(scores[k]), -k))
        positions = tree_positions(heads)
        at = {role: int(x[0, word]) for role, x in zip(LABEL_ROLES, positions, strict=True)}
        rows = label_lines(
            self._tensors, self._tensors.starts.unsqueeze(1), positions, heads >= 0, plan,
            len(weights.array),
        )[0, word].tolist()  # fmt: skip
        by_vectors = None
        if self._nodes and self._nodes.of.has_labels:
            b, h, m = (torch.tensor([x]) for x in (0, tree.heads[word], word))
            by_vectors = self._nodes.labels(b, h, m)[0, : len(parser.labels)]
            if not self._nodes.have_open_labels(by_vectors):  # templates do not score them
                rows = [len(weights.array)] * len(rows)
        part, found = Part("arc", (tree.heads[word], word)), []
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


def _weighed(named: Sequence[tuple[str, str, int]], weights: np.ndarray) -> list[Feature]:
    """Features with their weights; a row beyond the weights is that of a silent template."""
    return [Feature(t, v, int(weights[row])) for t, v, row in named if row < len(weights)]


def _lines(
    ours: Sequence[tuple[Part, Feature]], theirs: Sequence[tuple[Part, Feature]], part: str = ""
) -> tuple[Line, ...]:
    """Features of two trees side by side, those with the largest differences first."""
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
