"""Why a word has this head: what makes it score more than another one.

With templates, the best tree is compared with the best tree in which the word has another head; a
graph with the graph that is found if one arc into the word has to be there, or must not be there.
Parts that are in both cancel; the features of all others are listed, and their weights add up to
both scores, exactly: this is checked for every explanation.

A scorer that reads sentences as wholes has no such features, and word vectors give one sum. There
each other word is left out in turn, and the arcs from both heads are scored again. The effects of
single words do not add up to a score, because the effect of a word depends on the words around it.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from gpuparse.data.batch import MARGIN, UNKNOWN, Batch, Encoded
from gpuparse.data.treebank import Treebank
from gpuparse.engines.admission import CHAIN, OWN
from gpuparse.engines.engine import How
from gpuparse.engines.found import Found
from gpuparse.engines.fused_features import ExplainedTree, Feature, Graph, Part
from gpuparse.errors import ConfigError, NoTreeError, ResourceError, ScoreError
from gpuparse.features.phrases import Clause
from gpuparse.inference.decoders import DECODERS
from gpuparse.inference.textbook.spanning_trees import has_cycle
from gpuparse.parser import Parser
from gpuparse.scorers.scorer import ReadsWholes


@dataclass(frozen=True)
class TemplateChange:
    """A template of one kind of parts of one word, in both trees or graphs.

    word: the modifier. values, weight: in the one that was chosen, summed where the template fires
    several times; other_values, other_weight: in the other. Empty values: it does not fire.
    clauses, other_clauses: what it reads each time, in words; see `gpuparse.features.phrases`.
    """

    word: int
    part: str
    template: str
    values: tuple[str, ...]
    weight: int
    other_values: tuple[str, ...]
    other_weight: int
    clauses: tuple[tuple[Clause, ...], ...] = ()
    other_clauses: tuple[tuple[Clause, ...], ...] = ()

    @property
    def difference(self) -> int:
        """What the template adds to the difference of both scores."""
        return self.weight - self.other_weight


@dataclass(frozen=True)
class Choice:
    """Two alternatives, their scores, and the lines that add up to these.

    name, other_name: what is chosen, and what is not. score, other_score: in points of the model's
    whole-number weights. shared: the sum of all parts that both have; shared_parts: their
    number. lines: by falling size of their differences. scale: nats of one point.
    """

    name: str
    other_name: str
    score: int
    other_score: int
    shared: int
    shared_parts: int
    lines: tuple[TemplateChange, ...]
    scale: float = 1.0

    def nats(self, points: float) -> float:
        """A score in nats, by the scale of the parser's probabilities."""
        return points * self.scale

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
class HeadProbabilities:
    """Probabilities of the heads that are compared.

    relation: that of the found relation, given the head; None without relations. is_calibrated:
    whether they were fitted to trees that were not learned from.
    """

    head: float
    other_head: float
    relation: float | None
    is_calibrated: bool


@dataclass(frozen=True)
class LeftOutWord:
    """What is found if a word is left out.

    difference: the score of the head minus that of the other head, in nats. effect: this difference
    in the whole sentence minus that without the word: above 0, the word speaks for the head.
    head: that the explained word has in the best tree of the sentence without this word.
    """

    word: int
    difference: float
    effect: float
    head: int


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
    probabilities: None where the decoder has no exact sums. left_out: with word vectors, all other
    words, by falling size of their effects on the arcs from both heads; else empty.
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
    probabilities: HeadProbabilities | None = None
    left_out: tuple[LeftOutWord, ...] = ()


@dataclass(frozen=True)
class CandidateHead:
    """A head that a word could have, 0 for the root.

    score: of this arc alone, in nats, by the scale of the parser's probabilities.
    """

    head: int
    score: float


@dataclass(frozen=True)
class WordEffects:
    """Why a word has a head, and not another, by the effects of the other words.

    The fields that `Explanation` has too are the same. candidates: all heads that the word could
    have, by falling score. left_out: all other words, by falling size of their effects.
    """

    forms: tuple[str, ...]
    word: int
    head: int
    other_head: int
    heads: tuple[int, ...]
    labels: tuple[str, ...] | None
    decoder: str
    is_asked: bool
    is_exact: bool
    candidates: tuple[CandidateHead, ...]
    left_out: tuple[LeftOutWord, ...]
    probabilities: HeadProbabilities | None = None

    def score_of(self, head: int) -> float:
        """The score of the arc from a candidate, in nats."""
        return next(each.score for each in self.candidates if each.head == head)


def explain(
    parser: Parser,
    treebank: Treebank,
    sentence: int,
    word: int,
    *,
    instead: int | None = None,
    guides: np.ndarray | None = None,
    progress: Callable[[int], None] = lambda sentences: None,
) -> Explanation | WordEffects:
    """Compare the head of a word with another one.

    With templates, the parser's tree is compared with the best tree in which the word has another
    head. A graph is compared with the best one found in which the word has the other head, too or
    instead; or does not have it, if it is one of the word's heads. That is the graph that the
    decoder finds under this condition, or the parser's graph with other heads of this word alone.

    With a scorer that reads sentences as wholes, the scores of both arcs are compared, in the
    sentence and without each of the other words.

    Args:
        sentence, word: counted from 1.
        instead: the other head, 0 for the root; None: that of the best such tree or graph, or the
            one whose arc scores most.
        guides: as in `Parser.parse`.
        progress: called with the number of sentences that were parsed, with all words or without
            one; not with templates.
    Raises:
        ConfigError: no such sentence, word or head; the head that the word has already in a tree;
            a model whose scores are no sums of weights, and that cannot leave out words.
            NoTreeError: no tree or graph has the other head. ResourceError: the sentence is too
            long. ScoreError: the weights do not add up to the scores. NativeError: there is no
            native code, which lists the features.
    Cost: two searches, or one for each possible head; for graphs the scores of all siblings. With
        word vectors also one for each word. Without templates: the sentence is parsed once, and
        once for each other word, a few at once.
    """
    if parser.fused is None and not _reads_wholes(parser):
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
    batch = parser.encode(treebank, guides).select(np.array([sentence - 1]))
    searching = _searching(parser, batch)
    if parser.fused is None:
        return _word_effects(searching, batch, forms, word, instead, progress)
    assert isinstance(batch, Batch)
    explained = _Sentence(searching, _alone(batch))
    chosen = explained.search()
    if chosen.arcs is None:
        _require_other(chosen.heads[word], word, instead)
    if instead is None:
        other_head, other = explained.best_other(chosen, word)
    else:
        other_head, other = instead, explained.changed(chosen, word, instead)
    return explained.compare(forms, word, chosen, other_head, other, is_asked=instead is not None)


def _reads_wholes(parser: Parser) -> bool:
    return len(parser.scorers) == 1 and isinstance(parser.scorers[0], ReadsWholes)


def _require_other(head: int, word: int, instead: int | None) -> None:
    """Raises: ConfigError: the other head that was asked for is the word's head."""
    if instead == head:
        raise ConfigError(f"word {word} has the head {instead} already: name another head")


def _word_effects(
    parser: Parser, batch: Encoded, forms: Sequence[str], word: int, instead: int | None,
    progress: Callable[[int], None],
) -> WordEffects:  # fmt: skip
    """The effects of all other words on the head of a word of the only sentence of a batch."""
    [scorer] = parser.scorers
    assert isinstance(scorer, ReadsWholes)
    n = len(forms)
    others = np.array([w for w in range(1, n + 1) if w != word], np.int64)
    differences, new_heads = [], []
    trees = None  # those of the first batch, which begins with the whole sentence
    for some in scorer.without_words(batch, np.concatenate([[0], others])):
        found = parser.search(some)
        scores = scorer.head_scores(some, word) * parser.scales.arc
        if trees is None:
            trees = found
            head = int(found.heads[word])
            _require_other(head, word, instead)
            candidates = _candidates(scores[0], word)
            rival = next(each.head for each in candidates if each.head != head)
            other_head = rival if instead is None else instead
        differences.append(scores[:, head] - scores[:, other_head])
        new_heads.append(found.heads[some.starts + word])
        progress(len(some))
    assert trees is not None
    of_whole, *of_others = np.concatenate(differences).tolist()
    _, *heads_then = np.concatenate(new_heads).tolist()
    left_out = [
        LeftOutWord(w, difference, of_whole - difference, new_head)
        for w, difference, new_head in zip(others.tolist(), of_others, heads_then, strict=True)
    ]
    labels = None
    if parser.labels:
        labels = tuple(parser.labels[k] for k in trees.labels[1 : n + 1].tolist())
    [whole] = scorer.without_words(batch, np.zeros(1, np.int64))
    return WordEffects(
        tuple(forms), word, head, other_head, tuple(trees.heads[1 : n + 1].tolist()), labels,
        parser.search_decoder, instead is not None,
        DECODERS[parser.search_decoder].search == "exact", tuple(candidates),
        tuple(sorted(left_out, key=lambda each: -abs(each.effect))),
        _probabilities(parser, whole, (word, other_head), trees.heads[: n + 1].tolist(),
                 trees.labels[: n + 1].tolist()),
    )  # fmt: skip


def _probabilities(
    parser: Parser, batch: Encoded, asked: tuple[int, int], heads: Sequence[int],
    labels: Sequence[int],
) -> HeadProbabilities | None:  # fmt: skip
    """Probabilities of heads in a batch of one sentence; None where there are no exact sums.

    Args: asked: the word and the other head. heads, labels: of the tree, by node.
    """
    if not DECODERS[parser.search_decoder].has("marginals", "native"):
        return None
    word, other_head = asked
    words = slice(int(batch.starts[0]) + 1, int(batch.starts[0]) + len(heads))
    of_head, of_label, of_other, none = np.full((4, batch.n_tokens), -1, np.int64)
    of_head[words], of_label[words] = heads[1:], labels[1:]
    of_other[words.start + word - 1] = other_head
    found = parser.host.probabilities_of(batch, of_head, of_label, "both", How())
    other = parser.host.probabilities_of(batch, of_other, none, "heads", How())
    place = 0, words.start + word - 1
    relation = float(found.labels[place])
    return HeadProbabilities(
        float(found.heads[place]), float(other.heads[place]),
        None if np.isnan(relation) else relation, parser.scales.is_calibrated,
    )  # fmt: skip


def _candidates(scores: np.ndarray, word: int) -> list[CandidateHead]:
    """All heads that a word could have, by falling score; scores: (N,) in nats.

    Raises: NoTreeError: there is one only.
    """
    heads = [h for h in np.argsort(-scores, kind="stable").tolist() if h != word]
    if len(heads) == 1:
        raise NoTreeError(f"word {word} has the same head in every tree")
    return [CandidateHead(h, float(scores[h])) for h in heads]


def _searching(parser: Parser, batch: Encoded) -> Parser:
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


class _Sentence:
    """One sentence under a parser: searches, features of parts, scores of trees and graphs."""

    def __init__(self, parser: Parser, batch: Batch) -> None:
        self._parser, self._batch = parser, batch
        self._n = int(batch.lengths[0])
        self._start = int(batch.starts[0])
        self._places = slice(self._start, self._start + self._n + 1)
        assert parser.fused is not None
        self._features = parser.fused.features_of(batch, parser.labels)

    def search(self, known: dict[int, int] | None = None) -> ExplainedTree:
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
        return ExplainedTree(
            found.heads[self._places].tolist(), found.labels[self._places].tolist(), arcs
        )

    def changed(self, chosen: ExplainedTree, m: int, h: int) -> ExplainedTree:
        """The best tree with a head of a word; of graphs, without it if the chosen one has it.

        Raises: NoTreeError: there is none.
        """
        if chosen.arcs is None:
            return self.search({m: h})
        graphs = [
            *self._features.changed_graph(chosen.arcs, m, h),
            *self._single_changes(chosen, m, h),
        ]
        if not graphs:
            raise NoTreeError(f"no other graph has, or leaves out, the arc from {h} to {m}")
        arcs = max(graphs, key=self._features.graph_score)
        return ExplainedTree(
            _primary_heads(arcs, self._n), [-1] * (self._n + 1), dict.fromkeys(arcs, -1)
        )

    def _single_changes(self, chosen: ExplainedTree, m: int, h: int) -> Iterator[Graph]:
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

    def best_other(self, chosen: ExplainedTree, word: int) -> tuple[int, ExplainedTree]:
        """The best of the changed trees, and its head; of equals, that of the smallest head."""
        trees = {}
        for h in range(self._n + 1):
            if h != word and (chosen.arcs is not None or h != chosen.heads[word]):
                with suppress(NoTreeError):
                    trees[h] = self.changed(chosen, word, h)
        if not trees:
            raise NoTreeError(f"word {word} has the same head in every tree")
        return max(trees.items(), key=lambda item: self._sum(item[1]))

    def _sum(self, tree: ExplainedTree) -> int:
        """The weights of all features: trees have most parts in common, whose features are kept."""
        return sum(
            f.weight for part in self._features.parts(tree) for f in self._features.features(part)
        )

    def compare(
        self, forms: Sequence[str], word: int, chosen: ExplainedTree, other_head: int,
        other: ExplainedTree, *, is_asked: bool,
    ) -> Explanation:  # fmt: skip
        """The explanation of two trees or graphs."""
        parser, name = self._parser, _namer(forms)
        ours, theirs = self._features.parts(chosen), self._features.parts(other)
        both = set(ours) & set(theirs)
        shared = sum(f.weight for part in both for f in self._features.features(part))
        lines = _lines(
            [(p, f) for p in ours if p not in both for f in self._features.features(p)],
            [(p, f) for p in theirs if p not in both for f in self._features.features(p)],
        )
        score, other_score = self._features.scores([chosen, other])
        first, second = (
            f"{', '.join(map(name, tree.heads_of(word)))} → {name(word)}"
            for tree in (chosen, other)
        )
        choice = Choice(
            first, second, score, other_score, shared, len(both), lines, parser.scales.arc
        )
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
        probabilities = None
        if chosen.arcs is None:
            asked = word, other_head
            probabilities = _probabilities(parser, self._batch, asked, chosen.heads, chosen.labels)
        return Explanation(
            tuple(forms), word, head, other_head, tuple(chosen.heads[1:]), tuple(other.heads[1:]),
            labels, graph, other_graph, parser.search_decoder, is_asked, is_exact, choice,
            self._label_choice(chosen, head, word), probabilities,
            self._left_out(word, (chosen, head), (other, other_head)),
        )  # fmt: skip

    def _left_out(
        self, word: int, ours: tuple[ExplainedTree, int], theirs: tuple[ExplainedTree, int]
    ) -> tuple[LeftOutWord, ...]:
        """The effects of all other words on the arcs from two heads, of trees with word vectors."""
        if not self._features.has_addend or ours[0].arcs is not None:
            return ()
        arcs = [self._features.arc_of(tree, head, word) for tree, head in (ours, theirs)]
        of_whole = self._difference(*arcs)
        found = []
        for w in range(1, self._n + 1):
            if w != word:
                without = _Sentence(self._parser, self._without(w))
                difference = without._difference(*arcs)
                head = without.search().heads[word]
                found.append(LeftOutWord(w, difference, of_whole - difference, head))
        return tuple(sorted(found, key=lambda each: -abs(each.effect)))

    def _difference(self, arc: Part, other: Part) -> float:
        """What an arc scores more than another, in nats."""
        points = [sum(f.weight for f in self._features.features(each)) for each in (arc, other)]
        return (points[0] - points[1]) * self._parser.scales.arc

    def _without(self, word: int) -> Batch:
        """The sentence with a word of which nothing is known."""
        values = self._batch.values.copy()
        values[:, self._start + word] = UNKNOWN
        return Batch(values, self._batch.starts, self._batch.lengths)

    def _label_choice(self, tree: ExplainedTree, head: int, word: int) -> Choice | None:
        """The best label of an arc of a finished tree or graph, and the next."""
        parser = self._parser
        found = self._features.label_features(tree.heads, head, word)
        if found is None:
            return None
        scores, features = found
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
        part = Part("arc", (head, word))
        ours, theirs = ([(part, each) for each in features(label)] for label in (best, other))
        choice = Choice(
            parser.labels[best], parser.labels[other], int(scores[best]), int(scores[other]), 0, 0,
            _lines(ours, theirs, part="label"), parser.scales.label,
        )  # fmt: skip
        choice.require_exact()
        return choice


def _primary_heads(arcs: Iterable[tuple[int, int]], n: int) -> list[int]:
    """The nearest head of every word of a graph, the left one of two as near; -1 at the root."""
    nearest: dict[int, tuple[int, bool, int]] = {}
    for h, m in arcs:
        nearest[m] = min(nearest.get(m, (n + 1, True, h)), (abs(h - m), h > m, h))
    return [-1, *(nearest[m][2] for m in range(1, n + 1))]


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
            tuple(f.clauses for f in mine), tuple(f.clauses for f in its),
        )
        for key, (mine, its) in table.items()
    ]  # fmt: skip
    return tuple(sorted(lines, key=lambda line: -abs(line.difference)))


def _namer(forms: Sequence[str]) -> Callable[[int], str]:
    return lambda node: f"{forms[node - 1]} ({node})" if node else "root (0)"
