"""Scores of whole pipelines: files of the same text whose tokens, words and sentences may differ.

The measures are those of the CoNLL 2018 shared task (Zeman et al. 2018, section 5, and its script)
and of the IWPT 2020 shared task on enhanced dependencies (Bouma, Seddah & Zeman 2020): the words of
the two files are aligned over the characters of the text, and tags, lemmas and arcs are compared
over aligned words.
"""

import re
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from gpuparse.data.columns import DEPREL, FEATS, FORM, LEMMA, UPOS, XPOS
from gpuparse.data.graphs import check_graphs, enhanced_arcs, missing_graphs
from gpuparse.data.scanner import NO_HEAD
from gpuparse.data.treebank import Treebank, place
from gpuparse.data.trees import check_trees
from gpuparse.errors import DataError, plural
from gpuparse.evaluation.metrics import ArcCounts, Share, universal_parts
from gpuparse.evaluation.significance import Comparison, disagreement, paired_bootstrap
from gpuparse.evaluation.treebanks import can_score_relations, column_numbers, require_none

# The script's sets; a relation in neither, such as punct, counts in neither way.
CONTENT = {
    "nsubj", "obj", "iobj", "csubj", "ccomp", "xcomp", "obl", "vocative", "expl", "dislocated",
    "advcl", "advmod", "discourse", "nmod", "appos", "nummod", "acl", "amod", "conj", "fixed",
    "flat", "compound", "list", "parataxis", "orphan", "goeswith", "reparandum", "root", "dep",
}  # fmt: skip
FUNCTIONAL = {"aux", "cop", "mark", "det", "clf", "case", "cc"}
UNIVERSAL_FEATURES = {
    "PronType", "NumType", "Poss", "Reflex", "Foreign", "Abbr", "Gender", "Animacy", "Number",
    "Case", "Definite", "Degree", "VerbForm", "Mood", "Tense", "Aspect", "Voice", "Evident",
    "Polarity", "Person", "Polite",
}  # fmt: skip
# Characters of Unicode's category Zs in UTF-8; the text is compared without them.
SPACES = re.compile(
    rb" |\xc2\xa0|\xe1\x9a\x80|\xe2\x80[\x80-\x8a\xaf]|\xe2\x81\x9f|\xe3\x80\x80", re.DOTALL
)
_RANGE = re.compile(rb"^([0-9]+)-([0-9]+)\t([^\t\n]*)\t", re.MULTILINE)
_MOST_CELLS = 1 << 24  # 64 MiB, of the table that aligns the words of multiword tokens
_SHOWN = 20  # characters of the text that a message quotes


class Hits(NamedTuple):
    """The counts of a measure, for G gold items and M of the system: tokens, words, arcs, ...

    right: bool (G,), gold items that the system has right. gold, system: int64 (G,) and (M,), the
    gold sentence of each item; an item of the system is in the one where it begins. aligned: gold
    items with an aligned item of the system, None where nothing is aligned.
    """

    right: np.ndarray
    gold: np.ndarray
    system: np.ndarray
    aligned: int | None

    @property
    def counts(self) -> ArcCounts:
        """The numbers of items; `precision`, `recall` and `f` are the measure."""
        right = int(np.count_nonzero(self.right))
        return ArcCounts(len(self.gold), len(self.system), right, right)

    @property
    def aligned_accuracy(self) -> float | None:
        """Percent of aligned items that are right; None without any."""
        if self.aligned is None:
            return None
        return Share(int(np.count_nonzero(self.right)), self.aligned).percent


def has_heads(treebank: Treebank) -> bool:
    """True if any word has something else than `_` in HEAD."""
    return bool((treebank.heads != NO_HEAD).any())


def has_graphs(treebank: Treebank) -> bool:
    """True if a word has something else than `_` in DEPS, and all items there can be read."""
    return not missing_graphs(treebank).all() and not check_graphs(treebank)


def has_same_tags(gold: Treebank, system: Treebank) -> bool:
    """True if two files of the same words have the same LEMMA, UPOS, XPOS and FEATS."""
    for column in (LEMMA, UPOS, XPOS, FEATS):
        (first, second), _ = column_numbers(column, gold, system)
        if not np.array_equal(first, second):
            return False
    return True


def score_words(gold: Treebank, system: Treebank, *, same_words: bool = False) -> dict[str, Hits]:
    """Score a file against a gold file of the same text.

    The measures are those of the source, `tokens` to `eulas`. A multiword range is one token. Words
    outside of multiword tokens are aligned if they are the same characters of the text; where
    either file has a multiword token, the words of both there are aligned by a longest common
    subsequence of their lower-cased forms. `_` for a gold lemma is right with any.

    Without any head in one of the files, the measures of arcs are left out, and without any
    relation in the system those of relations. `elas` and `eulas` are
    there if both files `has_graphs`. Their items are the arcs of `enhanced_arcs`: one is right if
    the other file has the arc between the same two words (or from the root) with the same relation,
    for `eulas` with the same relation up to its first ":", which leaves out prepositions and other
    subtypes.

    Args:
        gold, system: the files; white space in forms (Unicode's Zs) is no part of the text.
        same_words: the files have the same words in the same sentences: each is aligned with
            itself, tokens are not read, and the first three measures are left out.
    Returns: The measures by the names above, in that order.
    Raises: DataError: the texts differ, a form has only spaces, or heads are not trees.
    Cost: 1 µs per word, and the product of the lengths of differing multiword tokens.
    Source: Zeman et al. (2018), section 5, and the shared task's script; of enhanced arcs Bouma,
        Seddah & Zeman (2020), section 5. differs: the script refuses several roots in a sentence,
        gives 0 where there is nothing to count, and counts each pair of equal arcs as correct.
    """
    hits: dict[str, Hits] = {}
    of_gold = np.repeat(np.arange(len(gold)), np.diff(gold.word_starts))
    if same_words:
        partner, of_system = np.arange(gold.n_words), of_gold
    else:
        first, second = _tokens(gold), _tokens(system)
        _check_same_text(first, second)
        bounds, other_bounds = _sentence_bounds(gold, first), _sentence_bounds(system, second)

        def sentence_at(places: np.ndarray) -> np.ndarray:
            return np.searchsorted(bounds[:-1], places, side="right") - 1

        hits["tokens"] = _same_spans(first.starts, second.starts, sentence_at)
        hits["sentences"] = _same_spans(bounds, other_bounds, sentence_at)
        partner, of_system = align_words(first, second), sentence_at(second.word_starts)
        hits["words"] = Hits(partner >= 0, of_gold, of_system, None)
    g = np.flatnonzero(partner >= 0)
    s = partner[g]

    def of_words(right: np.ndarray) -> Hits:
        return Hits(_marked(g[right], gold.n_words), of_gold, of_system, len(g))

    def equal(ids: list[np.ndarray]) -> np.ndarray:
        return ids[0][g] == ids[1][s]

    tags = [column_numbers(column, gold, system)[0] for column in (UPOS, XPOS)]
    upos, xpos = (equal(ids) for ids in tags)
    feats_ids, feats_names = column_numbers(FEATS, gold, system)
    universal = _numbered([universal_features(feats) for feats in feats_names])
    ufeats = equal([universal[ids] for ids in feats_ids])
    lemma_ids, lemma_names = column_numbers(LEMMA, gold, system)
    any_lemma = np.array([lemma == "_" for lemma in lemma_names], bool)
    lemmas = equal(lemma_ids) | any_lemma[lemma_ids[0][g]]
    hits |= {"upos": of_words(upos), "xpos": of_words(xpos), "ufeats": of_words(ufeats)}
    hits |= {"alltags": of_words(upos & xpos & ufeats), "lemmas": of_words(lemmas)}
    if not (has_heads(gold) and has_heads(system)):
        return hits

    for treebank in (gold, system):
        require_none(check_trees(treebank))
    relation_ids, names = column_numbers(DEPREL, gold, system)
    parts = universal_parts(names)
    labels = [parts[ids] for ids in relation_ids]
    cut = [name.split(":", 1)[0] for name in names]
    content, functional = (
        [np.array([part in group for part in cut], bool)[ids] for ids in relation_ids]
        for group in (CONTENT, FUNCTIONAL)
    )
    parents = [_parents(treebank) for treebank in (gold, system)]
    back = np.full(system.n_words + 1, -2)  # unaligned; the last entry is the root's
    back[s], back[-1] = g, -1
    uas = parents[0][g] == back[parents[1][s]]
    las = uas & equal(labels)

    def of_content(right: np.ndarray) -> Hits:
        kept = content[0]
        marks = _marked(g[right], gold.n_words)[kept]
        return Hits(marks, of_gold[kept], of_system[content[1]], int(content[0][g].sum()))

    # The functional modifiers of two words are equal if there are as many, and as many equal pairs:
    # alignment keeps the order.
    child = las & upos & ufeats & functional[0][g] & (parents[0][g] >= 0)
    same = np.bincount(parents[0][g[child]], minlength=gold.n_words)
    wanted, found = (
        np.bincount(parent[is_one & (parent >= 0)], minlength=len(parent))
        for parent, is_one in zip(parents, functional, strict=True)
    )
    modifiers = (wanted[g] == found[s]) & (wanted[g] == same[g])
    hits["uas"] = of_words(uas)
    if can_score_relations(gold, system):
        hits |= {"las": of_words(las), "clas": of_content(las)}
        hits["mlas"] = of_content(las & upos & ufeats & modifiers)
        hits["blex"] = of_content(las & lemmas)
    if has_graphs(gold) and has_graphs(system):
        hits |= _enhanced_hits(gold, system, back, (of_gold, of_system))
    return hits


def _enhanced_hits(
    gold: Treebank, system: Treebank, back: np.ndarray, sentences: tuple[np.ndarray, np.ndarray]
) -> dict[str, Hits]:
    """The measures of enhanced arcs.

    Args:
        back: (W + 1,) the gold word of each word of the system, -2 for none; at the end -1, which
            is the root's.
        sentences: the gold sentence of each word, and of each one of the system.
    """
    ours, theirs = enhanced_arcs(gold), enhanced_arcs(system)
    heads, modifiers = back[theirs.heads], back[theirs.modifiers]
    names = [*ours.names, *theirs.names]
    whole = np.append(ours.relations, theirs.relations + len(ours.names))
    hits = {}
    for name, kept in (("elas", names), ("eulas", [_universal_path(path) for path in names])):
        rows = np.stack([
            np.append(ours.modifiers, modifiers), np.append(ours.heads, heads),
            _numbered(kept)[whole],
        ])  # fmt: skip
        numbers = np.unique(rows, axis=1, return_inverse=True)[1].reshape(-1)
        first, second = np.split(numbers, [len(ours.heads)])
        second = second[(heads != -2) & (modifiers != -2)]
        # Of equal arcs, as many are right as both files have.
        order = np.argsort(first, kind="stable")
        before = np.arange(len(order)) - np.searchsorted(first[order], first[order])
        right = np.zeros(len(first), bool)
        right[order] = before < np.bincount(second, minlength=len(numbers))[first[order]]
        hits[name] = Hits(right, sentences[0][ours.modifiers], sentences[1][theirs.modifiers], None)
    return hits


def _universal_path(path: str) -> str:
    """The relations of an arc through empty nodes, each up to its first ":"."""
    return ">".join(step.split(":", 1)[0] for step in path.split(">"))


def compare_words(
    gold: Treebank,
    first: dict[str, Hits],
    second: dict[str, Hits],
    *,
    resamples: int = 10_000,
    seed: int = 0,
) -> Comparison:
    """Test whether two systems that `score_words` has scored against a gold file differ.

    McNemar's test counts the gold items (tokens, sentences, words) that one system alone has right;
    the bootstrap is of the difference of F, over gold sentences.

    Args:
        gold: the gold file.
        first, second: the systems' scores.
        resamples, seed: of the bootstrap.
    Returns: The comparison, by measure; without `lengths`.
    Raises: DataError: the gold file has no word.
    Cost: the bootstrap, about 25 ns for each sentence and resample.
    """
    if not gold.n_words:
        raise DataError(f"{gold.source}: no word to compare the systems on; give a longer text")

    counts = np.array([
        [np.bincount(sentences, minlength=len(gold)) for sentences in (
            ours.gold, ours.gold[ours.right], ours.system, theirs.gold[theirs.right], theirs.system,
        )]
        for ours, theirs in ((hits, second[name]) for name, hits in first.items())
    ])  # fmt: skip
    results = paired_bootstrap(counts, resamples=resamples, seed=seed)
    return Comparison(
        disagreements={
            name: disagreement(hits.right, second[name].right) for name, hits in first.items()
        },
        bootstrap=dict(zip(first, results, strict=True)),
        lengths={},
    )


def universal_features(feats: str) -> str:
    """The universal features of a FEATS column, sorted; "" without any."""
    items = feats.split("|")
    return "|".join(sorted(item for item in items if item.split("=")[0] in UNIVERSAL_FEATURES))


class ScoredTokens(NamedTuple):
    """The T tokens of a treebank, words and multiword ranges, over its text without spaces."""

    treebank: Treebank
    text: np.ndarray  # uint8, the forms of all tokens without spaces, one after the other
    starts: np.ndarray  # int64 (T + 1,): token t is text[starts[t] : starts[t + 1]]
    rows: np.ndarray  # int64 (T,), byte offset of the token's row in the file
    first_words: np.ndarray  # int64 (T,)
    of_word: np.ndarray  # int64 (W,), the token of each word
    in_range: np.ndarray  # bool (W,), words of multiword ranges

    @property
    def word_starts(self) -> np.ndarray:
        """(W,) where the token of each word begins in the text."""
        return self.starts[self.of_word]

    @property
    def word_ends(self) -> np.ndarray:
        """(W,) where the token of each word ends in the text."""
        return self.starts[self.of_word + 1]

    def lower_form(self, word: int) -> str:
        """FORM of a word in lower case; of words outside of ranges, without spaces."""
        form = self.treebank.column(word, FORM)
        if not self.in_range[word]:
            form = SPACES.sub(b"", form.encode()).decode()
        return form.lower()


def _tokens(treebank: Treebank) -> ScoredTokens:
    """The tokens of a treebank. DataError: a form has only spaces."""
    data, columns = treebank.data, treebank.columns
    ranges = _ranges(treebank)
    begins = np.zeros(treebank.n_words + 1, np.int64)
    np.add.at(begins, ranges[:, 1] + 1, 1)
    np.add.at(begins, ranges[:, 1] + ranges[:, 2], -1)
    goes_on = np.cumsum(begins)[:-1] > 0
    first_words = np.flatnonzero(~goes_on)
    of_word = np.cumsum(~goes_on) - 1
    rows, starts, ends = (columns[first_words, c] for c in (0, FORM, FORM + 1))
    ends = ends - 1
    at = of_word[ranges[:, 1]]
    rows[at], starts[at], ends[at] = ranges[:, 0], ranges[:, 3], ranges[:, 4]
    is_range = np.zeros(len(rows), bool)
    is_range[at] = True

    bounds = np.concatenate([[0], np.cumsum(ends - starts)])
    text = data[np.repeat(starts - bounds[:-1], ends - starts) + np.arange(bounds[-1])]
    kept = np.ones(len(text), bool)
    for space in SPACES.finditer(text.data):
        kept[space.start() : space.end()] = False
    if not kept.all():
        bounds = np.concatenate([[0], np.cumsum(kept)])[bounds]
        text = text[kept]
    empty = np.flatnonzero(np.diff(bounds) == 0)
    tokens = ScoredTokens(treebank, text, bounds, rows, first_words, of_word, is_range[of_word])
    if len(empty):
        where = _place(tokens, int(empty[0]))
        raise DataError(f"{where}FORM (column 2) has only spaces; write a visible character")
    return tokens


def _ranges(treebank: Treebank) -> np.ndarray:
    """(R, 5) of the multiword ranges: offset of the row, first word, words, and place of FORM."""
    found = [
        (row.start(), int(row[2]) - int(row[1]) + 1, *row.span(3))
        for row in _RANGE.finditer(treebank.data.data)
    ]
    rows, counts, starts, ends = np.array(found, np.int64).reshape(-1, 4).T
    first = np.searchsorted(treebank.columns[:, 0], rows)
    table = np.stack([rows, first, counts, starts, ends], axis=1)
    if not len(treebank.dropped):
        return table
    sentence = np.searchsorted(treebank.spans[:, 0], rows, side="right") - 1
    return table[(sentence >= 0) & (rows < treebank.spans[sentence, 1])]


def _check_same_text(gold: ScoredTokens, system: ScoredTokens) -> None:
    """DataError with both places unless the tokens of two files are the same text."""
    if np.array_equal(gold.text, system.text):
        return
    n = min(len(gold.text), len(system.text))
    differs = np.flatnonzero(gold.text[:n] != system.text[:n])
    at = int(differs[0]) if len(differs) else n
    if at == len(gold.text) or at == len(system.text):
        longer, shorter = (gold, system) if at == len(system.text) else (system, gold)
        where = _place(longer, _token_at(longer, at))
        raise DataError(
            f"{where}{shorter.treebank.source} ends before {_quoted(longer, at, at)}; both files"
            " need the same text"
        )
    start = min(int(tokens.starts[_token_at(tokens, at)]) for tokens in (gold, system))
    there = f"{gold.treebank.source}:{_line(gold, _token_at(gold, at))}"
    raise DataError(
        f"{_place(system, _token_at(system, at))}the text here is {_quoted(system, start, at)},"
        f" but at {there} it is {_quoted(gold, start, at)}; both files need the same text, spaces"
        " apart"
    )


def _token_at(tokens: ScoredTokens, at: int) -> int:
    return int(np.searchsorted(tokens.starts, at, side="right")) - 1


def _line(tokens: ScoredTokens, token: int) -> int:
    """The line number of a token's row."""
    bank, word = tokens.treebank, int(tokens.first_words[token])
    rows = bank.data[tokens.rows[token] : bank.columns[word, 0]]
    return int(bank.lines[word]) - int(np.count_nonzero(rows == ord("\n")))


def _place(tokens: ScoredTokens, token: int) -> str:
    """`place` of a token."""
    bank, word = tokens.treebank, int(tokens.first_words[token])
    sentence = int(np.searchsorted(bank.word_starts, word, side="right")) - 1
    return place(bank.source, _line(tokens, token), bank.sent_id(sentence))


def _quoted(tokens: ScoredTokens, start: int, at: int) -> str:
    """The text from `start`, or shortly before `at`, to shortly after `at`."""
    start, end = max(start, at - 4 * _SHOWN), at + 4 * _SHOWN
    before = len(tokens.text[start:at].tobytes().decode(errors="ignore"))
    return repr(tokens.text[start:end].tobytes().decode(errors="ignore")[: before + _SHOWN])


def _sentence_bounds(treebank: Treebank, tokens: ScoredTokens) -> np.ndarray:
    """(S + 1,) where each sentence begins in the text, and the end of the text."""
    first = tokens.of_word[treebank.word_starts[:-1]]
    return np.append(tokens.starts[first], len(tokens.text))


def _same_spans(
    gold: np.ndarray, system: np.ndarray, sentence_at: Callable[[np.ndarray], np.ndarray]
) -> Hits:
    """Hits of the spans between (G + 1,) and (M + 1,) ascending bounds of the same text."""
    known = np.isin(gold, system)
    right = known[:-1] & known[1:]
    # No bound of the system may lie between.
    at = np.searchsorted(system, gold)
    right &= np.diff(at) == 1
    return Hits(right, sentence_at(gold[:-1]), sentence_at(system[:-1]), None)


def _marked(places: np.ndarray, n: int) -> np.ndarray:
    marks = np.zeros(n, bool)
    marks[places] = True
    return marks


def _numbered(values: list[str]) -> np.ndarray:
    """A number for each value; equal values have equal numbers."""
    numbers: dict[str, int] = {}
    return np.array([numbers.setdefault(value, len(numbers)) for value in values], np.int64)


def _parents(treebank: Treebank) -> np.ndarray:
    """(W,) the head of each word as a word of the treebank; -1 the root."""
    first = np.repeat(treebank.word_starts[:-1], np.diff(treebank.word_starts))
    return np.where(treebank.heads == 0, -1, first + treebank.heads - 1)


def align_words(gold: ScoredTokens, system: ScoredTokens) -> np.ndarray:
    """The system's word that each gold word is aligned with; -1 for none.

    Args: gold, system: tokens of the same text.
    Returns: int64 (W,), ascending apart from the -1.
    Raises: DataError: multiword tokens too long to align.
    Cost: 0.3 µs per word, and the product of the words in differing multiword tokens.
    """
    partner = np.full(len(gold.of_word), -1)
    starts, ends, multi = _as_lists(gold)
    other_starts, other_ends, other_multi = _as_lists(system)
    n, n_other = len(starts), len(other_starts)
    pairs: list[tuple[int, int]] = []
    g = s = 0
    while g < n and s < n_other:
        start, other_start = starts[g], other_starts[s]
        if not (multi[g] or other_multi[s]):
            if start == other_start and ends[g] == other_ends[s]:
                pairs.append((g, s))
                g, s = g + 1, s + 1
            elif start <= other_start:
                g += 1
            else:
                s += 1
            continue
        # One word before the multiword token may overlap it; it is not aligned.
        end = ends[g] if multi[g] else other_ends[s]
        if multi[g] and not other_multi[s] and other_start < start:
            s += 1
        elif not multi[g] and start < other_start:
            g += 1
        first_g, first_s = g, s
        # Words of both files, in the order of the text, until both have passed the end; multiword
        # tokens that begin before the end move it.
        while True:
            g_past = g >= n or (starts[g] >= end if multi[g] else ends[g] > end)
            s_past = s >= n_other or (
                other_starts[s] >= end if other_multi[s] else other_ends[s] > end
            )
            if g_past and s_past:
                break
            if g < n and (s >= n_other or starts[g] <= other_starts[s]):
                end = max(end, ends[g]) if multi[g] else end
                g += 1
            else:
                end = max(end, other_ends[s]) if other_multi[s] else end
                s += 1
        pairs += _align_forms(gold, system, range(first_g, g), range(first_s, s))
    at = np.array(pairs, np.int64).reshape(-1, 2)
    partner[at[:, 0]] = at[:, 1]
    return partner


def _as_lists(tokens: ScoredTokens) -> tuple[list[int], list[int], list[bool]]:
    return tokens.word_starts.tolist(), tokens.word_ends.tolist(), tokens.in_range.tolist()


def _align_forms(
    gold: ScoredTokens, system: ScoredTokens, gold_words: range, system_words: range
) -> list[tuple[int, int]]:
    """A longest common subsequence of lower-cased forms; of several, the script's choice."""
    if len(gold_words) * len(system_words) > _MOST_CELLS:
        raise DataError(
            f"{_place(gold, int(gold.of_word[gold_words[0]]))}{plural(len(gold_words), 'word')} of"
            f" multiword tokens here cannot be aligned with {len(system_words):,} of"
            f" {system.treebank.source}; divide the tokens"
        )
    ours = [gold.lower_form(w) for w in gold_words]
    theirs = [system.lower_form(w) for w in system_words]
    if ours == theirs:
        return list(zip(gold_words, system_words, strict=True))
    numbers = _numbered(ours + theirs)
    first, second = numbers[: len(ours)], numbers[len(ours) :]
    # longest[i, j]: words in common from the i-th and the j-th on.
    longest = np.zeros((len(ours) + 1, len(theirs) + 1), np.int32)
    for i in range(len(ours) - 1, -1, -1):
        below = longest[i + 1]
        best = np.maximum(below[:-1], np.where(first[i] == second, below[1:] + 1, 0))
        longest[i, :-1] = np.maximum.accumulate(best[::-1])[::-1]
    pairs = []
    i = j = 0
    while i < len(ours) and j < len(theirs):
        if ours[i] == theirs[j]:
            pairs.append((gold_words[i], system_words[j]))
            i, j = i + 1, j + 1
        elif longest[i, j] == longest[i + 1, j]:
            i += 1
        else:
            j += 1
    return pairs
