"""Training of the tokeniser: what a treebank tells of tokens, sentences and multiword tokens."""

import numpy as np

from gpuparse.data.formats.paragraphs import are_spaces, segments
from gpuparse.data.treebank import Treebank
from gpuparse.errors import DataError
from gpuparse.text.boundaries import (
    LONGEST,
    gap_fields,
    learn_addresses,
    learn_open_gaps,
    open_places,
    sequence_starts,
)  # fmt: skip
from gpuparse.text.characters import CharacterTable
from gpuparse.text.examples import TextExamples, text_examples
from gpuparse.text.multiword import SplitRules, learn_rules, lower
from gpuparse.text.sentences import KnownCases, Tokens
from gpuparse.text.sequences.learner import Learning, Watch, learn_sequences, unwatched
from gpuparse.text.sequences.model import SequenceModel, Sequences
from gpuparse.text.sequences.tags import TagTable
from gpuparse.text.sequences.templates import SequenceTemplates, load_sequence_templates
from gpuparse.text.tokenizer import MODELS, Tokenizer, choices
from gpuparse.text.views import TextView, span_hashes

_GAPS = 40  # of a training sequence
_TOKENS = 60  # of a training sequence, at least
_UNSPACED = 0.15  # open gaps per character of text whose words are looked up
_FOLDS = 8  # of the treebank, for words that are known from its other parts
# Perceptron steps: token ends are many, and learned well by any step.
LEARNING = Learning(epochs=10, rows=1 << 20, min_count=1, cost=0.0, max_step=0.0)
# Sentence ends are few, and a small treebank tells the perceptron little of them: a margin, and
# small steps, are better for any size.
_END_COST, _END_STEP = 1.0, 0.02
_TAGS = TagTable((("no",), ("yes",)), False)  # JOIN and CUT, GO_ON and END


def learn_tokenizer(treebank: Treebank, *, seed: int, watch: Watch = unwatched) -> Tokenizer:
    """Learn the tokens, sentences and multiword tokens of a treebank.

    Args:
        treebank: with SpaceAfter=No, or `# text`; `# newpar` where it has paragraphs.
        watch: called with the share that is done, and what is being learned.
    Raises: DataError: the treebank has no words.
    Cost: about 50 microseconds per word.
    """
    if not treebank.n_words:
        raise DataError(f"{treebank.source}: has no words; a tokeniser needs a treebank")
    examples = text_examples(treebank)
    characters = CharacterTable.of_unicode()
    spaces = are_spaces(examples.codes)
    starts, _ = segments(examples.codes, spaces)
    view = TextView.of_text(examples.codes, spaces, starts, characters)
    cut = np.zeros(len(view.codes), np.bool_)
    cut[view.places[examples.last - 1]] = True
    tokens = Tokens(view, cut)

    def part(first: float, share: float, what: str) -> Watch:
        return lambda done, note: watch(first + share * done, f"{what}: {note}")

    is_open, keeps_addresses = learn_open_gaps(view, cut), learn_addresses(view, cut)
    places, _ = open_places(view, is_open, keeps_addresses=keeps_addresses)
    gaps, lexicon = _learn_gaps(view, cut, places, seed, part(0, 0.4, "tokens"))
    cases = KnownCases.learn(tokens, examples.is_end, _FOLDS)
    rules = learn_rules(examples.words)
    keeps_closing = _keeps_closing(tokens, examples.is_end)
    ends = _learn_ends(tokens, examples, seed, part(0.4, 0.4, "sentences"))
    words = _learn_words(tokens, examples, rules, seed, part(0.8, 0.2, "words"))
    return Tokenizer(
        characters, is_open, keeps_addresses, gaps, lexicon, ends, cases, keeps_closing, rules,
        words,
    )  # fmt: skip


def _learn(
    sequences: Sequences,
    gold: np.ndarray,
    templates: SequenceTemplates,
    table: TagTable,
    learning: Learning,
    seed: int,
    watch: Watch,
) -> SequenceModel:
    gold = gold.astype(np.int32)
    return learn_sequences(sequences, gold, templates, table, learning, seed=seed, watch=watch)


def _learn_gaps(
    view: TextView, cut: np.ndarray, places: np.ndarray, seed: int, watch: Watch
) -> tuple[SequenceModel | None, np.ndarray]:
    """The model of open gaps, and the hashes of words that it knows."""
    if not len(places):
        return None, np.empty(0, np.uint64)
    templates = load_sequence_templates("tokens", MODELS["gaps"])
    tokens = Tokens(view, cut)
    short = tokens.last - tokens.first <= LONGEST
    if len(places) < _UNSPACED * np.count_nonzero(view.is_visible):
        short[:] = False
    hashes = span_hashes(view.lower, tokens.first[short], tokens.last[short])
    # A word is known from other parts of the treebank, as words of new text are.
    edges = np.linspace(0, len(view.codes), _FOLDS + 1).astype(np.int64)
    fold_of = np.searchsorted(edges, np.arange(len(view.codes)), side="right") - 1
    features = np.empty((len(places), len(templates.templates)), np.uint32)
    of_word = fold_of[tokens.first[short]]
    for fold in range(_FOLDS):
        here = places[fold_of[places] == fold]
        if not len(here):
            continue
        known = np.unique(hashes[of_word != fold])
        fields = gap_fields(view, here, templates.fields, known)
        features[fold_of[places] == fold] = templates.features(fields, here)
    of_segment = sequence_starts(view, places)
    starts = np.unique(np.concatenate([of_segment, np.arange(0, len(places), _GAPS)]))
    model = _learn(
        Sequences.open(features, starts), cut[places], templates, _TAGS, LEARNING, seed, watch
    )
    return model, np.unique(hashes)


def _learn_ends(tokens: Tokens, examples: TextExamples, seed: int, watch: Watch) -> SequenceModel:
    """The model of sentence ends."""
    templates = load_sequence_templates("sentences", MODELS["ends"])
    features = templates.features(tokens.fields(templates.fields), tokens.rows)
    # A sequence begins where a sentence does, as a segment does.
    starts = [0]
    is_start = np.zeros(len(tokens) + 1, np.bool_)
    is_start[tokens.starts] = True
    for end in (np.flatnonzero(examples.is_end) + 1).tolist():
        if is_start[end] or end - starts[-1] >= _TOKENS:
            starts.append(end)
    return _learn(
        Sequences.open(features, np.unique([*starts, len(tokens)])), examples.is_end, templates,
        _TAGS, LEARNING._replace(cost=_END_COST, max_step=_END_STEP), seed, watch,
    )  # fmt: skip


def _keeps_closing(tokens: Tokens, is_end: np.ndarray) -> bool:
    """True if (nearly) no sentence of training ends before a closing mark."""
    before = is_end[:-1] & tokens.is_closing[1:]
    return bool(np.count_nonzero(before) <= 0.1 * np.count_nonzero(tokens.is_closing))


def _learn_words(
    tokens: Tokens, examples: TextExamples, rules: SplitRules, seed: int, watch: Watch
) -> SequenceModel | None:
    """The model that chooses the rule of a multiword token."""
    at, fitting, gold = [], [], []
    for t, (text, words) in enumerate(examples.words):
        numbers = rules.fitting(text)
        if not numbers:
            continue
        low = tuple(map(lower, words))
        right = [n for n in numbers if tuple(map(lower, rules.words(text, n))) == low]
        if len(words) > 1 and not right:
            continue
        at.append(t)
        fitting.append(numbers)
        gold.append(right[0] + 1 if len(words) > 1 else 0)
    if not at:
        return None
    templates = load_sequence_templates("words", MODELS["words"])
    features = templates.features(
        tokens.fields(templates.fields), tokens.rows[np.array(at, np.int64)]
    )
    tags = (("no", "no"), *(("yes", str(n)) for n in range(len(rules.rules))))
    return _learn(
        choices(features, fitting), np.array(gold), templates, TagTable(tags, False), LEARNING,
        seed, watch,
    )  # fmt: skip
