"""The features in which two trees of a sentence differ, with their weights, for explanations."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from gpuparse import native
from gpuparse.data.atoms import Atom
from gpuparse.data.batch import AFTER, BEFORE, FIRST_VALUE, ROOT, Batch
from gpuparse.data.parts import HIGHER_ORDER
from gpuparse.features.phrases import Clause, clauses
from gpuparse.features.plan import (
    LabelPlan,
    templates_of_end_rows,
    templates_of_rows,
    templates_of_sibling_rows,
)
from gpuparse.features.templates import Template
from gpuparse.inference.decoders import DECODERS
from gpuparse.model.engines.fused import Fused
from gpuparse.scorers.linear.part_rows import (
    ABSENT_WORD,
    LISTED_KINDS,
    ListedPart,
    list_part_rows,
    listed_number,
)
from gpuparse.scorers.native import GraphHeads, sentences_of

NO_MODIFIER = "no modifier"  # value of an end
_SPECIAL = {BEFORE: "before the sentence", ROOT: "root", AFTER: "after the sentence"}
_PROPOSED, _RELATION = ("proposed by another parser", ""), "relation"  # in clauses
_HIGHER = tuple(kind.name for kind in HIGHER_ORDER)
_NO_TEMPLATES = LabelPlan(
    *np.zeros((2, 1), np.int64), *np.zeros((3, 0), np.int64), *np.zeros((2, 0), np.bool_)
)


class Feature(NamedTuple):
    """A template with its values in one part, and the weight that it adds to the score.

    word: the modifier. part: the kind. clauses: the values in words.
    """

    word: int
    part: str
    template: str
    values: str
    weight: int
    clauses: tuple[Clause, ...] = ()


class SentenceFeatures:
    """Features and scores of trees of a batch of one sentence.

    labels: the names of the labels.
    """

    def __init__(self, engine: Fused, labels: Sequence[str], batch: Batch) -> None:
        self._engine, self._linear, self._labels, self._batch = engine, engine.linear, labels, batch
        self._n, self._start = int(batch.lengths[0]), int(batch.starts[0])
        self._sentences = sentences_of(batch)
        vectors = engine.vectors
        self._vectors = vectors.explained(self._sentences, self._n + 1) if vectors else None

    @property
    def has_vectors(self) -> bool:
        """Word vectors add scores that are no weights of templates."""
        return self._vectors is not None

    def score(self, heads: np.ndarray) -> int:
        """The score of a tree as decoders add it, and not by lists of features."""
        by_token, score = np.full(self._batch.values.shape[1], -1, np.int64), np.zeros(1)
        by_token[self._start : self._start + self._n + 1] = heads
        self._engine.score_trees(self._batch, by_token, score)
        return int(score[0])

    def differing(
        self, ours: tuple[np.ndarray, np.ndarray], theirs: tuple[np.ndarray, np.ndarray]
    ) -> tuple[list[Feature], list[Feature]]:
        """The features of the parts that only one of two trees has.

        Args: ours, theirs: heads and labels by node.
        """
        parts = DECODERS[self._engine.task.decoder].parts
        plan, joint = self._linear.plan, self._linear.plans.joint
        higher = plan.higher
        if higher:  # parts without templates may have word vectors
            is_read = [0, *(name in parts for name in _HIGHER)]
            higher = higher._replace(family_start=np.cumsum(is_read))
        labels = (ours[1], theirs[1]) if joint else np.zeros((2, 0), np.int64)
        has_siblings = plan.siblings is not None and "sibling" in parts
        given = ours[0], theirs[0], *labels, has_siblings, higher, joint and joint.higher
        none = np.zeros((0, 7), np.int64)
        listed = np.zeros((native.call("list_tree_difference", *given, none), 7), np.int64)
        native.call("list_tree_difference", *given, listed)
        found = self._features([ListedPart(*part) for part in listed[:, :6].tolist()])
        signed = list(zip(listed[:, 6].tolist(), found, strict=True))
        mine, its = (
            [feature for times, features in signed if times == sign for feature in features]
            for sign in (1, -1)
        )
        return mine, its

    def arc_points(self, head: int, word: int, label: int) -> int:
        """The score of one arc, with its label if labels are found with trees."""
        parts = [ListedPart(listed_number("arc"), head, word)]
        if self._linear.plans.joint:
            parts.append(ListedPart(listed_number("label"), head, word, label=label))
        return sum(x.weight for features in self._features(parts) for x in features)

    def _features(self, parts: Sequence[ListedPart]) -> list[list[Feature]]:
        """The features of parts and what is added to them: their weights add up to the scores."""
        all_rows = list_part_rows(self._batch, self._engine.scorer, parts).tolist()
        return [list(self._of_part(*each)) for each in zip(parts, all_rows, strict=True)]

    def _of_part(self, part: ListedPart, rows: Sequence[int]) -> Iterator[Feature]:
        name, is_labelled = (*((each, False) for each in (*LISTED_KINDS, *_HIGHER)),
                             *((each, True) for each in _HIGHER))[part.kind]  # fmt: skip
        of_label = self._labels[part.label] if name == "label" or is_labelled else ""
        shown = {"label": "arc", "left_end": "end", "right_end": "end"}.get(name, name)
        at = self._words(name, part)
        relation = ((_RELATION, of_label),) if of_label else ()
        no_end = shown == "end" and part.m == part.h
        named = self._templates(name, at, is_labelled)
        if name == "arc" and self._vectors and not self._vectors.open_arcs[part.h, part.m]:
            rows = []  # word vectors alone score it
        for (prefix, template, between), row in zip(named, rows, strict=False):
            if row < 0:
                continue
            values, said = self._values(template, at, between)
            if no_end:
                side = name.removesuffix("_end")
                values, said = NO_MODIFIER, ((f"{NO_MODIFIER} on the {side} side", ""),)
            if prefix == "guide: ":
                said = (_PROPOSED, *said)
            if of_label:
                values = f"{of_label}: {values}"
            yield Feature(
                part.m, shown, f"{prefix}{template}", values, self._weight(row), (*relation, *said)
            )
        if not is_labelled:
            yield from self._added(name, part, of_label)

    def _words(self, name: str, part: ListedPart) -> dict[str, int]:
        """The nodes of a part by role."""
        if name in ("left_end", "right_end"):
            return {"h": part.h, "e": ABSENT_WORD if part.m == part.h else part.m}
        if name == "sibling":
            s = ABSENT_WORD if part.third == part.h else part.third
            return {"h": part.h, "s": s, "m": part.m}
        at = {"h": part.h, "m": part.m}
        if name in _HIGHER:
            further = {"grandparent": "g", "grand_sibling": "sg", "tri_sibling": "st"}
            at |= zip(further.get(name, "c"), (part.third, part.fourth), strict=False)
        return at

    def _templates(
        self, name: str, at: dict[str, int], is_labelled: bool
    ) -> Iterable[tuple[str, Template, int | None]]:
        """The prefix of a template, the template and the word in between, row by row."""
        given, of_labels = self._linear.templates, self._linear.label_templates
        prefix, templates = "", []
        if name == "arc":
            of_arcs = templates_of_rows(given.arc)
            yield from (("", t, None) for t in of_arcs.of_words)
            between = range(min(at.values()) + 1, max(at.values()))
            for family in of_arcs.between:
                yield from (("", t, k) for k in between for t in family)
            prefix, templates = "guide: ", templates_of_rows(given.guide).of_words
        elif name == "label":
            assert of_labels
            prefix = "label: "
            templates = templates_of_rows(of_labels.label, pairs_of_distance=True).of_words
        elif name == "sibling":
            templates = templates_of_sibling_rows(given.sibling)
        elif name in ("left_end", "right_end"):
            templates = templates_of_end_rows(given.end)
        else:
            prefix = "label: " if is_labelled else ""
            templates = getattr(of_labels if is_labelled else given, name)
        yield from ((prefix, t, None) for t in templates)

    def _added(self, name: str, part: ListedPart, label: str) -> Iterator[Feature]:
        """The features that word vectors add to the score of a part."""
        if self._vectors is None:
            return
        h, m, third = part.h, part.m, part.third
        if name == "label":
            if self._vectors.has_labels:
                title, weight = f"label: {self._vectors.name}", self._vector_label(h, m, part.label)
                yield Feature(m, "arc", title, label, weight)
            return
        first = {"arc": h, "sibling": third if third != h else None,
                 "grandparent": third if h else None}.get(name)  # fmt: skip
        if first is not None and name in self._vectors.pairs:
            weight = int(self._vectors.pairs[name][first, m])
            yield Feature(m, name, self._vectors.name, "", weight)

    def _weight(self, row: int) -> int:
        """The weight of a row; those of labels come last."""
        weights, joint = self._linear.arcs.array[:, 0], self._linear.plans.joint
        if joint is None or row < len(weights):
            return int(weights[row])
        return int(joint.weights[row - len(weights)])

    def _vector_label(self, h: int, m: int, label: int) -> int:
        """The score that word vectors give a label of an arc."""
        n_labels, scores = len(self._labels), np.zeros((1, len(self._labels)))
        starts = (np.arange(self._batch.values.shape[1] + 1) > self._start + m).astype(np.int64)
        arc = GraphHeads(starts, np.array([h]), np.ones(n_labels, np.bool_))
        no_heads = np.full(self._batch.values.shape[1], -1, np.int64)
        native.call(
            "score_tree_labels_batch", self._sentences, _NO_TEMPLATES,
            np.zeros((1, n_labels), np.int8), self._engine.added, no_heads, arc, scores,
        )  # fmt: skip
        return int(scores[0, label])

    def _values(
        self, template: Template, at: dict[str, int], between: int | None = None
    ) -> tuple[str, tuple[Clause, ...]]:
        """The values that a template reads, with direction and distance; and in words."""
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
        return " ".join(values), clauses(template, values, near=near)

    def _value(self, atom: Atom, node: int) -> str:
        fields = self._linear.vocabularies.fields
        row = fields.index(atom.field)
        place = min(max(self._start + node + atom.offset, 0), self._batch.values.shape[1] - 1)
        value = int(self._batch.values[row, place])
        if value in _SPECIAL:
            return f"({_SPECIAL[value]})"
        known = self._linear.vocabularies.values[atom.field]
        return known[value - FIRST_VALUE] if value >= FIRST_VALUE else "-"
