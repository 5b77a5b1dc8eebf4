"""Faults of treebanks, found before a parser learns from them: all faults, and warnings."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from gpuparse.data.columns import DEPREL, DEPS, FEATS, FORM, LEMMA, MISC, UPOS, XPOS
from gpuparse.data.conll import read_treebank
from gpuparse.data.draw import aligned, printable
from gpuparse.data.faults import TreeFault, quoted
from gpuparse.data.problems import TREE_KINDS, Problem, find_faults
from gpuparse.data.scanner import column_name
from gpuparse.data.treebank import Treebank
from gpuparse.data.trees import nonprojective_arcs, tree_fault_text
from gpuparse.data.vocabulary import NO_FORMS, column_ids, is_empty_column
from gpuparse.errors import ConfigError, did_you_mean, near_names, option, plural
from gpuparse.features.phrases import TAGS
from gpuparse.files import STANDARD, read_input
from gpuparse.jobs.check_rows import row_warnings
from gpuparse.jobs.doubts import Doubt, changed_words, find_doubts, parser_beside_gold
from gpuparse.jobs.slips import feature_slips, relation_slips
from gpuparse.text.conllu import surface_sentences

MOST_WARNINGS = 20  # of a kind that are listed unless all are asked for

_COLUMNS = (LEMMA, UPOS, XPOS, FEATS, DEPREL)
_MAY_LACK = (LEMMA, FEATS)  # columns in which `_` is a value of single words
_UNIVERSAL = {*TAGS, "X"}  # values of UPOS
_AROUND = 20  # characters of a text that a message quotes


@dataclass(frozen=True)
class Checked:
    """Treebanks that were checked.

    sentences, words: those without faults. nonprojective_sentences, nonprojective_words: those of
    them with an arc that crosses another, and the words with such an arc from their head.
    problems: of all files, by line. doubts: words for which a parser prefers another head or
    relation, most doubtful first, of n_doubts, cut to the number that was asked for; None without a
    parser.
    """

    files: tuple[str, ...]
    sentences: int
    words: int
    nonprojective_sentences: int
    nonprojective_words: int
    problems: tuple[Problem, ...]
    doubts: tuple[Doubt, ...] | None = None
    n_doubts: int | None = None

    @property
    def errors(self) -> list[Problem]:
        """The problems that training refuses."""
        return [problem for problem in self.problems if problem.is_error]

    @property
    def warnings(self) -> list[Problem]:
        """The problems that training accepts, but that are worth a look."""
        return [problem for problem in self.problems if not problem.is_error]

    @property
    def counts(self) -> dict[str, int]:
        """The number of problems of each kind, errors first, the most frequent kinds first."""
        counts = Counter(problem.kind for problem in self.errors)
        more = Counter(problem.kind for problem in self.warnings)
        return dict([*counts.most_common(), *more.most_common()])

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain data, as `gpuparse check --json` writes it."""
        return asdict(self) | {"counts": self.counts}

    def __str__(self) -> str:
        return as_text(self)


@dataclass(frozen=True)
class Asked:
    """The options of a check of treebanks.

    partial: words may lack a head, as with data.partial=true. model: the folder of a parser whose
    doubts are listed. predicted: all files as `crossval --probabilities` parsed them, instead.
    guide: of a model with guide features, as for `parse`. most: doubtful words that are listed.
    threads: 0 for all processors.
    """

    partial: bool = False
    model: str | None = None
    predicted: str | None = None
    guide: str | None = None
    most: int = 20
    threads: int = 0


def check_files(
    files: Sequence[str], asked: Asked, *,
    progress: Callable[[int], None] = lambda sentences: None,
) -> tuple[Checked, list[tuple[Treebank, Treebank]]]:  # fmt: skip
    """Find what is wrong with CoNLL files, and what a parser doubts in them.

    Args:
        files: "-" is standard input.
        progress: called with the number of sentences that were parsed.
    Returns: what was found; with a parser the sentences of each file without faults, and the same
        as the parser parses them. A file with faults is not compared with `asked.predicted`.
    Raises: ConfigError: the arguments do not fit each other, or the model has no probabilities.
        DataError, OSError: a file cannot be read. ModelError: the model cannot be used.
    Cost: some microseconds per word; with a model that of parsing with probabilities, twice.
    """
    if asked.model is not None and asked.predicted is not None:
        raise ConfigError(f"give one of {option('model')} and {option('predicted')}")
    if asked.guide is not None and asked.model is None:
        raise ConfigError(f"{option('guide')}: is for {option('model')}")
    problems: list[Problem] = []
    treebanks: list[Treebank] = []
    names: dict[str, str] = {}
    for file in files:
        source = "<stdin>" if file == STANDARD else file
        treebank, faults = find_faults(read_input(file), source, partial=asked.partial)
        if not (len(treebank) or faults):
            faults = [Problem(source, None, "", "no sentences", "has no sentences")]
        found = [*faults, *_warnings(treebank, names, is_whole=not faults)]
        problems += sorted(found, key=lambda each: each.line or 0)
        treebanks.append(treebank)
    crossing = [nonprojective_arcs(each.heads, each.word_starts) for each in treebanks]
    checked = Checked(
        tuple(files), sum(map(len, treebanks)), sum(each.n_words for each in treebanks),
        sum(map(_count_sentences, treebanks, crossing)),
        int(sum(each.sum() for each in crossing)), tuple(problems),
    )  # fmt: skip
    if asked.model is None and (asked.predicted is None or checked.errors):
        return checked, []  # the sentences without errors are not all of those in `predicted`
    return _with_doubts(checked, [each for each in treebanks if len(each)], asked, progress)


def _with_doubts(
    checked: Checked, treebanks: list[Treebank], asked: Asked, progress: Callable[[int], None]
) -> tuple[Checked, list[tuple[Treebank, Treebank]]]:
    """The problems found, with the doubts of a parser, and each treebank beside the parsed one."""
    if asked.predicted is not None:
        whole = read_treebank(asked.predicted)
        ends = np.cumsum([len(gold) for gold in treebanks[:-1]])
        of_files = np.searchsorted(ends, np.arange(len(whole)), side="right")
        pairs = [(gold, whole.only(of_files == k)) for k, gold in enumerate(treebanks)]
    else:
        assert asked.model is not None
        parse = parser_beside_gold(Path(asked.model), asked.guide, asked.threads)
        pairs = [(gold, parse(gold, progress)) for gold in treebanks]
    found = find_doubts(pairs)
    problems = list(checked.problems)
    for gold, parsed in pairs:
        for word, before in changed_words(gold, parsed) if asked.predicted else ():
            what = (
                f"HEAD and DEPREL differ from the {before or '_'} that {parsed.source} has a"
                " probability of; the word is not ranked: give crossval again, with this treebank"
            )
            problems.append(_warning(gold, word, "changed annotation", what))
    problems.sort(key=lambda each: each.line or 0)
    return replace(
        checked, problems=tuple(problems), doubts=tuple(found[: asked.most]), n_doubts=len(found)
    ), pairs


def as_text(checked: Checked, *, show_all: bool = False) -> str:
    """All errors, warnings and a summary; then the most doubtful words.

    Args: show_all: more than MOST_WARNINGS of a kind.
    """
    lines = [f"error: {problem}" for problem in checked.errors]
    shown: Counter[str] = Counter()
    for problem in checked.warnings:
        shown[problem.kind] += 1
        if show_all or shown[problem.kind] <= MOST_WARNINGS:
            lines.append(f"warning: {problem}")
    for kind, n_shown in shown.items():
        if n_shown > MOST_WARNINGS and not show_all:
            count = n_shown - MOST_WARNINGS
            lines.append(f"warning: {count:,} more of '{kind}'; {option('all', True)} lists them")
    lines += [""] if lines else []
    lines += _summary(checked)
    if checked.doubts is not None and checked.n_doubts is not None:
        lines += [
            "",
            f"The parser prefers another head or relation for {plural(checked.n_doubts, 'word')}.",
        ]
        if checked.doubts:
            lines += ["", *_doubts_as_text(checked.doubts)]
        if checked.n_doubts > len(checked.doubts):
            lines.append(f"... {checked.n_doubts - len(checked.doubts):,} more")
    return "\n".join(map(printable, lines))


def _doubts_as_text(doubts: Sequence[Doubt]) -> list[str]:
    """A table, a line for each doubt."""
    rows = [["line", "sentence", "word", "treebank", "P", "parser prefers", "P"]]
    for each in doubts:
        rows.append([
            str(each.line), each.sent_id, f"{each.form} ({each.word})",
            _arc(each.head, each.head_form, each.relation), f"{each.probability:.4f}",
            _arc(each.preferred_head, each.preferred_head_form, each.preferred_relation),
            f"{each.preferred_probability:.4f}",
        ])  # fmt: skip
    return aligned(rows)


def _arc(head: int, form: str, relation: str | None) -> str:
    named = f"{form} ({head})" if head else "root"
    return f"{named}, {relation}" if relation else named


def _summary(checked: Checked) -> list[str]:
    n_errors, n_warnings = len(checked.errors), len(checked.warnings)
    lines = [
        f"{plural(n_errors, 'error')}, {plural(n_warnings, 'warning')}",
        *(f"{count:7,}  {kind}" for kind, count in checked.counts.items()),
        f"without errors: {plural(checked.sentences, 'sentence')}, {plural(checked.words, 'word')}",
    ]
    if checked.sentences:
        count = checked.nonprojective_sentences
        share = 100 * count / checked.sentences
        lines.append(
            f"non-projective: {plural(count, 'sentence')} ({share:.1f} %),"
            f" {plural(checked.nonprojective_words, 'arc')}"
        )
    return lines


def _count_sentences(treebank: Treebank, words: np.ndarray) -> int:
    """The number of sentences with one of the words, (W,) bool."""
    of_words = np.repeat(np.arange(len(treebank)), np.diff(treebank.word_starts))
    return len(np.unique(of_words[words]))


def _warnings(treebank: Treebank, names: dict[str, str], *, is_whole: bool) -> Iterator[Problem]:
    """The problems that training accepts.

    Args: names: where each sent_id was, of all files, which grows. is_whole: whether all sentences
        of the file are in the treebank, and not those without errors alone.
    """
    for text in treebank.warnings:
        message = text.removeprefix(f"{treebank.source}: ")
        yield Problem(treebank.source, None, "", "bytes", message, is_error=False)
    if len(treebank):
        yield from _of_columns(treebank, is_whole)
        for problems in (_of_values, _of_slips, _of_roots, _of_texts, row_warnings):
            yield from problems(treebank)
        yield from _of_names(treebank, names)


def _warning(treebank: Treebank, word: int, kind: str, message: str) -> Problem:
    """The warning about a word of the treebank, from 0."""
    s = int(np.searchsorted(treebank.word_starts, word, side="right")) - 1
    line = int(treebank.lines[word])
    return Problem(treebank.source, line, treebank.sent_id(s), kind, message, is_error=False)


def _of_columns(treebank: Treebank, is_whole: bool) -> Iterator[Problem]:
    """Columns that are `_` in all words, or in some where no word should lack it."""
    of = "" if is_whole else " of the sentences without errors"
    if is_empty_column(treebank, FORM):
        what = f"{column_name(FORM)} is _ in every word{of}; {NO_FORMS}"
        yield Problem(treebank.source, None, "", "missing column", what)
    for column in _COLUMNS:
        ids, names = column_ids(treebank, column)
        is_empty = np.array([each == "_" for each in names])[ids]
        where = f"{column_name(column)} is _ in"
        if is_empty.all():
            what = f"{where} every word{of}; a parser learns nothing from it"
            yield Problem(treebank.source, None, "", "missing column", what, is_error=False)
        elif is_empty.any() and column not in _MAY_LACK:
            count = int(is_empty.sum())
            what = f"{where} this word and {count - 1:,} of {treebank.n_words - 1:,} others{of}"
            yield _warning(treebank, int(is_empty.argmax()), "missing column", what)


def _of_values(treebank: Treebank) -> Iterator[Problem]:
    """Values that the validator of Universal Dependencies refuses.

    Empty columns are those of any treebank; others are of one whose UPOS are mostly universal tags,
    as CoNLL-X has other tags and features, and no MISC.
    """
    for column in (*_COLUMNS, DEPS, MISC):
        yield from _of_words(treebank, column, "empty column", _empty_fault)
    ids, names = column_ids(treebank, UPOS)
    is_universal = np.array([name in _UNIVERSAL for name in names])[ids]
    is_given = np.array([name not in ("", "_") for name in names])[ids]
    if 2 * is_universal.sum() > is_given.sum():
        yield from _of_words(treebank, UPOS, "UPOS", _tag_fault)
        yield from _of_words(treebank, FEATS, "FEATS", _feats_fault)
        yield from _of_words(treebank, MISC, "MISC", _misc_fault)


def _of_slips(treebank: Treebank) -> Iterator[Problem]:
    """Rare relations and FEATS that look like a slip of another one."""
    for column, find in ((DEPREL, relation_slips), (FEATS, feature_slips)):
        ids, names = column_ids(treebank, column)
        found = find(dict(zip(names, np.bincount(ids).tolist(), strict=True)))
        yield from _of_words(treebank, column, "slip", defaultdict(str, found).__getitem__)


def _of_words(
    treebank: Treebank, column: int, kind: str, fault: Callable[[str], str]
) -> Iterator[Problem]:
    """Words whose column has a fault. fault: what is wrong with a value, "" for nothing."""
    ids, names = column_ids(treebank, column)
    faults = [fault(name) for name in names]
    for word in np.flatnonzero(np.array([bool(each) for each in faults])[ids]).tolist():
        what = f"{column_name(column)} {faults[ids[word]]}"
        yield _warning(treebank, word, kind, what)


def _empty_fault(value: str) -> str:
    return "" if value.strip(" ") else "is empty; write _"


def _tag_fault(value: str) -> str:
    if value in _UNIVERSAL or value in ("", "_"):
        return ""
    what = f"is {quoted(value)}, which is none of the 17 tags of Universal Dependencies"
    return "; ".join(filter(None, [what, did_you_mean(near_names(value.upper(), _UNIVERSAL))]))


def _feats_fault(value: str) -> str:
    if value in ("", "_"):
        return ""
    items = value.split("|")
    pairs = [item.partition("=") for item in items]
    for item, (name, _, text) in zip(items, pairs, strict=True):
        if not (name and text):
            return f"has the item {quoted(item)}; items are Name=Value, joined by |"
    repeated = [name for name, n in Counter(name for name, _, _ in pairs).items() if n > 1]
    if repeated:
        return f"has {quoted(repeated[0])} twice; join its values by commas, as in Name=A,B"
    for item, after in pairwise(items):
        if item.lower() > after.lower():
            return f"is not sorted: {quoted(after)} belongs before {quoted(item)}"
    return ""


def _misc_fault(value: str) -> str:
    is_wrong = value and "" in value.split("|")
    return f"has an empty item beside a |: {quoted(value)}" if is_wrong else ""


def _of_roots(treebank: Treebank) -> Iterator[Problem]:
    """Several roots; words at the root with another relation, and the relation of others."""
    ids, names = column_ids(treebank, DEPREL)
    is_root = treebank.heads == 0
    relations = [name.partition(":")[0].casefold() == "root" for name in names]
    is_named = np.array(relations)[ids]
    if 2 * (is_root & is_named).sum() > is_root.sum():  # else the treebank has other names for it
        usual = Counter(ids[is_root & is_named].tolist()).most_common(1)[0][0]
        for word in np.flatnonzero(is_root != is_named).tolist():
            form, relation = treebank.column(word, 1), names[ids[word]]
            m = word - int(treebank.word_starts[treebank.word_starts <= word][-1]) + 1
            if is_root[word]:
                what = f"has HEAD 0 and the relation {relation}; it is {names[usual]} elsewhere"
            else:
                head = int(treebank.heads[word])
                what = f"has the relation {relation} and HEAD {head}; its HEAD is 0 elsewhere"
            yield _warning(treebank, word, "root relation", f"word {m} ({form}) {what}")
    roots = np.add.reduceat(is_root, treebank.word_starts[:-1], dtype=np.int64)
    for s in np.flatnonzero(roots > 1).tolist():
        m, what = tree_fault_text(treebank[s], TreeFault.SEVERAL_ROOTS, 0)
        word = int(treebank.word_starts[s]) + m - 1
        yield _warning(treebank, word, TREE_KINDS[TreeFault.SEVERAL_ROOTS], what)


def _of_names(treebank: Treebank, names: dict[str, str]) -> Iterator[Problem]:
    """Names of sentences that another one has too."""
    for s in range(len(treebank)):
        word = int(treebank.word_starts[s])
        if name := treebank.sent_id(s):
            where = names.setdefault(name, f"{treebank.source}:{treebank.lines[word]}")
            if where != f"{treebank.source}:{treebank.lines[word]}":
                what = f"the sentence at {where} has the same sent_id; name each differently"
                yield _warning(treebank, word, "sent_id", what)


def _of_texts(treebank: Treebank) -> Iterator[Problem]:
    """Comments `# text` that differ from the words; white space counts as a space.

    A treebank without any space in MISC, as in CoNLL-X, says nothing about spaces.
    """
    says_spaces = any("Spac" in value for value in column_ids(treebank, MISC)[1])
    for s, sentence in enumerate(surface_sentences(treebank, spaced_as_text=not says_spaces)):
        if sentence.text is None:
            continue
        tokens = [
            token.before + token.text + (" " if token.after is None else token.after)
            for token in sentence.tokens
        ]
        text, words = (" ".join(each.split()) for each in (sentence.text, "".join(tokens)))
        if text == words:
            continue
        same = next(
            (i for i, (a, b) in enumerate(zip(text, words, strict=False)) if a != b),
            min(len(text), len(words)),
        )
        first = max(0, same - _AROUND)
        here, there = (each[first : same + _AROUND] for each in (text, words))
        what = f"# text has {here!r} where the words have {there!r} (SpaceAfter=No counts)"
        yield _warning(treebank, int(treebank.word_starts[s]), "text", what)
