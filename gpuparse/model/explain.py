"""Why a word has this head: what makes it score more than another one.

With templates, the best tree is compared with the best tree in which the word has another head.
Parts that are in both cancel; the features of all others are listed, and their weights add up to
both scores, exactly: this is checked for every explanation.

A scorer that reads sentences as wholes has no such features, and word vectors give one sum. There
each other word is left out in turn, and the arcs from both heads are scored again. The effects of
single words do not add up to a score, because the effect of a word depends on the words around it.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np

from gpuparse.data.batch import UNKNOWN, Batch, Encoded
from gpuparse.data.treebank import Treebank
from gpuparse.errors import ConfigError, NoTreeError, ResourceError, ScoreError
from gpuparse.features.phrases import Clause
from gpuparse.inference.decoders import DECODERS
from gpuparse.model.engines.admission import CHAIN, OWN
from gpuparse.model.engines.fused_features import Feature, SentenceFeatures
from gpuparse.model.engines.searcher import BatchOptions
from gpuparse.model.parser import Parser
from gpuparse.scorers.scorer import ReadsWholes

Tree = tuple[np.ndarray, np.ndarray]  # heads and labels by node


@dataclass(frozen=True)
class TemplateChange:
    """A template of one kind of parts of one word, in both trees.

    word: the modifier. values, weight: in the tree that was chosen, summed where the template fires
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
        """The share of the template in the difference of both scores."""
        return self.weight - self.other_weight


@dataclass(frozen=True)
class Choice:
    """The scores of two trees, and the lines that add up to these.

    score, other_score: of the parser's tree and of the other, in points of the model's whole-number
    weights. shared: the sum of all parts that both have. lines: by falling size of their
    differences. scale: nats of one point, by the scale of the parser's probabilities.
    """

    score: int
    other_score: int
    shared: int
    lines: tuple[TemplateChange, ...]
    scale: float

    @property
    def nats(self) -> float:
        """The difference of the scores."""
        return (self.score - self.other_score) * self.scale

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
    """The result of a search without one word.

    difference: the score of the arc from the head minus that from the other head, in nats. effect:
    this difference in the whole sentence minus that without the word: above 0, the word speaks for
    the head. head: that of the explained word in the best tree of the sentence without this word.
    """

    word: int
    difference: float
    effect: float
    head: int


@dataclass(frozen=True)
class Explanation:
    """Why a word has a head, and not another.

    forms: of the sentence. word: 1..n. head, other_head: 0 for the root. heads, labels: of the
    parser's tree, by word; no labels: None. is_asked: whether the other head was asked for; else
    the other tree is the best one in which the word has another head, or, without templates, the
    other arc the best scored one. is_exact: whether the decoder is known to have found the best
    trees. other_heads, tree: the other tree and both scores, None without templates. probabilities:
    None where the decoder has no exact sums. left_out: with word vectors or without templates, all
    other words, by falling size of their effects on the arcs from both heads; else empty.
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
    probabilities: HeadProbabilities | None
    left_out: tuple[LeftOutWord, ...]
    other_heads: tuple[int, ...] | None = None
    tree: Choice | None = None


def explain(
    parser: Parser,
    treebank: Treebank,
    sentence: int,
    word: int,
    *,
    instead: int | None = None,
    guides: np.ndarray | None = None,
    progress: Callable[[int], None] = lambda sentences: None,
) -> Explanation:
    """Compare the head of a word with another one; the module says how.

    Args:
        sentence, word: counted from 1.
        instead: the other head, 0 for the root; None: that of the best such tree, or the one whose
            arc scores most.
        guides: as in `Parser.parse`.
        progress: called with the number of sentences that were parsed, with all words or without
            one; not with templates.
    Raises:
        ConfigError: no such sentence, word or head; the head that the word has already; a model of
            graphs; a model whose scores are no sums of weights, and that cannot leave out words.
            NoTreeError: no tree has the other head. ResourceError: the sentence is too long.
            ScoreError: the weights do not add up to the scores. NativeError: there is no native
            code, which lists the features.
    Cost: two searches, or one for each possible head. With word vectors also one for each word.
        Without templates: the sentence is parsed once, and once for each other word, a few at once.
    """
    if DECODERS[parser.search_decoder].gives_graphs:
        raise ConfigError("the model finds graphs: explain a model that finds trees")
    is_whole = len(parser.scorers) == 1 and isinstance(parser.scorers[0], ReadsWholes)
    if parser.fused is None and not is_whole:
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
    words = slice(*treebank.word_starts[sentence - 1 : sentence + 1])
    batch = parser.encode(
        treebank.part(sentence - 1, sentence), None if guides is None else guides[words]
    )
    [order] = parser.orders(batch)
    if order == CHAIN:
        raise ResourceError("the sentence is too long for any search, so that no tree has a score")
    searching = parser if order == OWN else parser.lower_order()
    if parser.fused is None:
        return _without_templates(searching, batch, forms, word, instead, progress)
    assert isinstance(batch, Batch)
    return _Sentence(searching, batch).explanation(forms, word, instead)


def _require_other(head: int, word: int, instead: int | None) -> None:
    """Raises: ConfigError: the other head that was asked for is the word's head."""
    if instead == head:
        raise ConfigError(f"word {word} has the head {instead} already: name another head")


def _without_templates(
    parser: Parser, batch: Encoded, forms: Sequence[str], word: int, instead: int | None,
    progress: Callable[[int], None],
) -> Explanation:  # fmt: skip
    """The effects of all other words on the head of a word of the only sentence of a batch."""
    [scorer] = parser.scorers
    assert isinstance(scorer, ReadsWholes)
    n = len(forms)
    if n == 1:
        raise NoTreeError(f"word {word} has the same head in every tree")
    others = [w for w in range(1, n + 1) if w != word]
    arcs, heads, trees = [], [], []
    for some in scorer.without_words(batch, np.array([0, *others])):
        found = parser.search(some)
        trees.append((found.heads[: n + 1], found.labels[: n + 1]))
        arcs.append(scorer.head_scores(some, word) * parser.scales.arc)
        heads += found.heads[some.starts + word].tolist()
        progress(len(some))
    head, *heads_then = heads
    _require_other(head, word, instead)
    scores = np.concatenate(arcs)
    open_heads = np.where(np.isin(np.arange(n + 1), (head, word)), -np.inf, scores[0])
    other_head = int(np.argmax(open_heads)) if instead is None else instead
    of_whole, *of_others = (scores[:, head] - scores[:, other_head]).tolist()
    [whole] = scorer.without_words(batch, np.zeros(1, np.int64))
    return _explanation(
        parser, whole, forms, (word, head, other_head), trees[0], is_asked=instead is not None,
        left_out=_left_out(others, of_whole, of_others, heads_then),
    )  # fmt: skip


def _left_out(
    words: Sequence[int], of_whole: float, differences: Sequence[float], heads: Sequence[int]
) -> tuple[LeftOutWord, ...]:
    """Words with their effects, the largest first."""
    found = [
        LeftOutWord(w, difference, of_whole - difference, head)
        for w, difference, head in zip(words, differences, heads, strict=True)
    ]
    return tuple(sorted(found, key=lambda each: -abs(each.effect)))


def _explanation(
    parser: Parser, batch: Encoded, forms: Sequence[str], asked: tuple[int, int, int], tree: Tree,
    *, is_asked: bool, left_out: tuple[LeftOutWord, ...], other: np.ndarray | None = None,
    choice: Choice | None = None,
) -> Explanation:  # fmt: skip
    """An explanation of the only sentence of a batch.

    Args: asked: the word and both heads. other: heads by node.
    """
    heads, labels = (each.tolist() for each in tree)
    has_labels = bool(parser.labels) and min(labels[1:]) >= 0
    decoder = parser.search_decoder
    return Explanation(
        tuple(forms), *asked, tuple(heads[1:]),
        tuple(parser.labels[k] for k in labels[1:]) if has_labels else None,
        decoder, is_asked, DECODERS[decoder].search == "exact",
        _probabilities(parser, batch, asked, tree), left_out,
        None if other is None else tuple(other.tolist()[1:]), choice,
    )  # fmt: skip


def _probabilities(
    parser: Parser, batch: Encoded, asked: tuple[int, int, int], tree: Tree
) -> HeadProbabilities | None:
    """Probabilities of heads in a batch of one sentence; None where there are no exact sums.

    Args: asked: the word and both heads.
    """
    if not DECODERS[parser.search_decoder].has("marginals", "native"):
        return None
    word, _, other_head = asked
    start, n_nodes = int(batch.starts[0]), len(tree[0])
    of_head, of_label, of_other, none = np.full((4, batch.n_tokens), -1, np.int64)
    of_head[start + 1 : start + n_nodes], of_label[start + 1 : start + n_nodes] = (
        each[1:] for each in tree
    )
    of_other[start + word] = other_head
    found = parser.host.probabilities_of(batch, of_head, of_label, "both", BatchOptions())
    other = parser.host.probabilities_of(batch, of_other, none, "heads", BatchOptions())
    place = 0, start + word
    relation = float(found.labels[place])
    return HeadProbabilities(
        float(found.heads[place]), float(other.heads[place]),
        None if np.isnan(relation) else relation, parser.scales.is_calibrated,
    )  # fmt: skip


class _Sentence:
    """One sentence under a parser of templates: searches, and features and scores of trees."""

    def __init__(self, parser: Parser, batch: Batch) -> None:
        self._parser, self._batch = parser, batch
        self._n, self._start = int(batch.lengths[0]), int(batch.starts[0])
        assert parser.fused is not None
        self._features = SentenceFeatures(parser.fused, parser.labels, batch)

    def explanation(self, forms: Sequence[str], word: int, instead: int | None) -> Explanation:
        """See `explain`."""
        chosen = self._search()
        head = int(chosen[0][word])
        _require_other(head, word, instead)
        if instead is None:
            other_head, other = self._best_other(chosen, word)
        else:
            other_head, other = instead, self._search({word: instead})
        return _explanation(
            self._parser, self._batch, forms, (word, head, other_head), chosen,
            is_asked=instead is not None, other=other[0],
            choice=self._choice(chosen, other),
            left_out=self._effects(word, (chosen, head), (other, other_head)),
        )  # fmt: skip

    def _search(self, known: dict[int, int] | None = None) -> Tree:
        """The best tree with some known heads. Raises: NoTreeError: there is none."""
        given = np.full(self._batch.values.shape[1], -1, np.int64)
        for m, h in (known or {}).items():
            given[self._start + m] = h
        found = self._parser.search(self._batch, known=given if known else given[:0])
        places = slice(self._start, self._start + self._n + 1)
        return found.heads[places], found.labels[places]

    def _best_other(self, chosen: Tree, word: int) -> tuple[int, Tree]:
        """The best tree with another head; of equals, that of the smallest head."""
        trees = {}
        for h in range(self._n + 1):
            if h not in (word, chosen[0][word]):
                with suppress(NoTreeError):
                    trees[h] = self._search({word: h})
        if not trees:
            raise NoTreeError(f"word {word} has the same head in every tree")
        return max(trees.items(), key=lambda item: self._features.score(item[1][0]))

    def _choice(self, chosen: Tree, other: Tree) -> Choice:
        score, other_score = (self._features.score(tree[0]) for tree in (chosen, other))
        ours, theirs = self._features.differing(chosen, other)
        shared = score - sum(feature.weight for feature in ours)
        choice = Choice(score, other_score, shared, _lines(ours, theirs), self._parser.scales.arc)
        choice.require_exact()
        return choice

    def _effects(
        self, word: int, ours: tuple[Tree, int], theirs: tuple[Tree, int]
    ) -> tuple[LeftOutWord, ...]:
        """The effects of all other words on the arcs from two heads, of models with vectors."""
        if not self._features.has_vectors:
            return ()
        words = [w for w in range(1, self._n + 1) if w != word]
        arcs = [(head, word, int(tree[1][word])) for tree, head in (ours, theirs)]
        differences, heads = [], []
        for w in words:
            values = self._batch.values.copy()
            values[:, self._start + w] = UNKNOWN
            without = _Sentence(self._parser, replace(self._batch, values=values))
            differences.append(without._difference(arcs))
            heads.append(int(without._search()[0][word]))
        return _left_out(words, self._difference(arcs), differences, heads)

    def _difference(self, arcs: Sequence[tuple[int, int, int]]) -> float:
        """The score of the first of two arcs minus that of the second, in nats."""
        ours, theirs = (self._features.arc_points(*arc) for arc in arcs)
        return (ours - theirs) * self._parser.scales.arc


def _lines(ours: Sequence[Feature], theirs: Sequence[Feature]) -> tuple[TemplateChange, ...]:
    """Features of two trees side by side, those with the largest differences first."""
    table: dict[tuple[int, str, str], tuple[list[Feature], list[Feature]]]
    table = defaultdict(lambda: ([], []))
    for side, found in enumerate((ours, theirs)):
        for feature in found:
            table[feature[:3]][side].append(feature)
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
