"""The tokeniser: text to tokens, sentences and words, by three models of sequences.

The first decides the open gaps between characters, the second after which tokens a sentence ends,
the third which rule splits a multiword token. Each is a linear model over hashed features
(`gpuparse/text/sequences`); its templates are in `gpuparse/text/sequences/sets/`.
"""

import functools
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from gpuparse import native
from gpuparse.data import array_file
from gpuparse.data.array_file import below, check_names
from gpuparse.data.cached import cached_property
from gpuparse.data.columns import joined_names
from gpuparse.data.formats.paragraphs import are_spaces, byte_offsets, segments
from gpuparse.data.formats.text import TextChunk
from gpuparse.data.scanner import ScannedText, joined_scans
from gpuparse.errors import ConfigError, ModelError, one_line
from gpuparse.limits import MAX_SENTENCE
from gpuparse.native import mapped
from gpuparse.text import boundaries, sentences
from gpuparse.text.boundaries import CLASSES, addresses, has_address_signs
from gpuparse.text.characters import CharacterTable
from gpuparse.text.conllu import (
    NEW_DOCUMENT,
    NEW_PARAGRAPH,
    NO_PARAGRAPH,
    TokenTable,
    write_tokens,
)  # fmt: skip
from gpuparse.text.multiword import SplitRules
from gpuparse.text.sentences import END, KnownCases, Tokens
from gpuparse.text.sequences.model import (
    ARRAYS,
    ModelArrays,
    SequenceModel,
    Sequences,
    candidate_lists,
    unpacked,
)
from gpuparse.text.sequences.templates import TemplateArrays
from gpuparse.text.views import BLANK_CODES, SPACE, TextView, field_numbers, span_hashes

FORMAT = 3
_AS_MODEL: Any = {"form": FORMAT, "what": "tokeniser", "hint": "; train it again"}
MAX_WORDS = 1_000  # of a sentence
_GROUP = 1 << 15  # characters that are looked at together; no result depends on it
_CACHED = 1 << 16  # forms whose rules are kept in memory
_CACHED_LENGTH = 100  # characters of them
OPEN, GOES_ON, ENDS = 0, 1, 2  # the models decide whether a token ends; none does; one does


@dataclass(frozen=True, eq=False)
class Tokenizer:
    """A tokeniser, frozen; many threads may use it at once.

    Attributes:
        characters: classes and lower case.
        is_open: (2, CLASSES²) bool, gaps that `gaps` decides. gaps: None where there are none.
        keeps_addresses: whether addresses of the web and of e-mail are tokens.
        lexicon: uint64, hashes of the words of open gaps, ascending.
        ends: the model of sentence ends. cases: how words are written, which it reads.
        keeps_closing: whether a closing mark belongs to the sentence before it.
        rules: of multiword tokens. words: the model that chooses them; None where there are none.
        max_words: of a sentence; a longer one is cut where an end is most likely.
    """

    characters: CharacterTable
    is_open: np.ndarray
    keeps_addresses: bool
    gaps: SequenceModel | None
    lexicon: np.ndarray
    ends: SequenceModel
    cases: KnownCases
    keeps_closing: bool
    rules: SplitRules
    words: SequenceModel | None
    max_words: int = MAX_WORDS

    def split(
        self, chunk: TextChunk, *, threads: int = 1, token_range: bool = False
    ) -> ScannedText:
        """The tokens of a text as CoNLL-U, with `# newdoc`, `# newpar`, `# sent_id` and `# text`.

        Args:
            chunk: the text, as `stream_text` or `text_chunk` reads it.
            token_range: whether MISC says which characters of the text a token is.
        Cost: some microseconds per word.
        """
        return self.split_all([chunk], threads=threads, token_range=token_range)[0]

    def split_all(
        self, chunks: Sequence[TextChunk], *, threads: int = 1, token_range: bool = False
    ) -> list[ScannedText]:
        """The results of `split` for each of several texts, of any documents.

        Cost: that of one text of their size; short ones are looked at together.
        """
        of_chunks = [list(_groups(chunk)) for chunk in chunks]
        batches = list(_batches(chain.from_iterable(of_chunks)))
        work = functools.partial(self._split, token_range=token_range)
        found = chain.from_iterable(mapped(work, batches, threads))
        return [joined_scans(list(islice(found, len(groups)))) for groups in of_chunks]

    def _split(self, groups: "list[_Group]", *, token_range: bool) -> list[ScannedText]:
        """The tokens of each group as CoNLL-U."""
        codes, spaces, starts = joined = _joined(groups)
        known = None
        if self.keeps_addresses and any(has_address_signs(group.data) for group in groups):
            view = TextView.of_text(*joined, self.characters)
            known = np.zeros(len(codes), np.uint8)
            for start, end in addresses(view):
                known[view.source[start:end]] = GOES_ON
                known[view.source[end - 1]] = ENDS
        tokens = self._found(codes, spaces, starts, known, groups[0].of_lines)
        return [
            write_tokens(
                np.frombuffer(group.data, np.uint8),
                _table(part, group, token_range=token_range),
            )
            for group, part in zip(groups, tokens.of_groups(groups), strict=True)
        ]  # fmt: skip

    def annotate(
        self, texts: Sequence[str], ends: Sequence[np.ndarray]
    ) -> list[tuple[dict[int, list[str]], np.ndarray]]:
        """The words of multiword tokens, and the ends of sentences, among tokens that are given.

        Tokens that `split` finds in a text get the words and sentences that it finds there.

        Args:
            texts: without NUL; no sentence goes on from one text into the next.
            ends: (T,) int64 for each text, ascending: the last character of each token, no space.
                A token begins with the first character after the token before it that is no space.
        Returns: for each text the words of tokens of several words, by the number of the token;
            and (T,) bool, whether a sentence ends with the token.
        Cost: some microseconds per token.
        """
        codes = [np.frombuffer(text.encode("utf-32-le"), np.uint32) for text in texts]
        starts, lasts, size = [], [], 0
        for of_text, of_tokens in zip(codes, ends, strict=True):
            if len(of_tokens):
                spaces = are_spaces(of_text)
                begins = segments(of_text, spaces)[0]
                begins[0] = np.argmin(spaces)  # the spaces before it are of no segment
                starts.append(begins + size)
                lasts.append(of_tokens + size)
            size += len(of_text)
        found: list[dict[int, list[str]]] = [{} for _ in texts]
        if not starts:
            return [(each, np.empty(0, np.bool_)) for each in found]
        joined = np.concatenate(codes)
        known = np.full(len(joined), GOES_ON, np.uint8)
        known[np.concatenate(lasts)] = ENDS
        tokens = self._found(joined, are_spaces(joined), np.concatenate(starts), known)
        after = np.cumsum([len(of_text) for of_text in ends])  # tokens up to the end of each text
        for token, words in tokens.splits.items():
            text = int(np.searchsorted(after, token, side="right"))
            found[text][token - int(after[text]) + len(ends[text])] = words
        return list(zip(found, np.split(tokens.is_end, after[:-1]), strict=True))

    def _found(
        self, codes: np.ndarray, spaces: np.ndarray, starts: np.ndarray,
        known: np.ndarray | None = None, of_segments: bool = False,
    ) -> "_Found":  # fmt: skip
        """The tokens of a text, their words, and where sentences end.

        Args:
            codes, spaces, starts: as `TextView.of_text` takes them.
            known: (C,) uint8, of each character OPEN, GOES_ON or ENDS; None: all are open.
            of_segments: whether sentences end where segments do, and nowhere else.
        """
        n, templates = len(codes), self.words.templates.templates if self.words else ()
        numbers, flags = np.empty((3, n), np.int64), np.empty((2, n), np.bool_)
        arguments = self._struct, codes, spaces, starts, known, of_segments, numbers, flags
        features = np.empty((n // 8 + 8, len(templates)), np.uint32)  # mostly enough
        size = native.call("split_text", *arguments, features)
        first, last, segments = numbers[:, :size]
        is_end, may_split = flags[:, :size]
        chosen, splits = may_split.nonzero()[0].tolist(), {}
        if len(chosen) > len(features):
            features = np.empty((len(chosen), len(templates)), np.uint32)
            native.call("split_text", *arguments, features)
        if chosen:
            text = codes.tobytes().decode("utf-32-le")
            bounds = zip(first[chosen].tolist(), last[chosen].tolist(), strict=True)
            splits = self._splits(chosen, [text[i:j] for i, j in bounds], features)
        if size + sum(len(words) - 1 for words in splits.values()) > self.max_words:
            view = TextView.of_text(codes, spaces, starts, self.characters)
            ends = np.zeros(len(view.codes), np.bool_)
            ends[view.places[last - 1]] = True
            self._cut_long(Tokens(view, ends), splits, is_end)
        return _Found(first, last, segments, is_end, splits)

    @cached_property
    def _struct(self) -> native.Struct:
        """The tokeniser as the native library takes it."""
        last, begin = self.rules.endings() if self.words else (set(), set())
        lower = self.characters.lower
        arrays = TextTokenizer(
            self.characters.classes, lower, BLANK_CODES, self.is_open,
            *_parts(self.gaps, boundaries.FIELDS), self.lexicon,
            *_parts(self.ends, sentences.FIELDS), *self.cases, self.keeps_closing,
            _hashes(self.rules.edges(), lower), _pair_table(last, lower),
            _pair_table(begin, lower, first=True),
            *_parts(self.words, sentences.OWN_FIELDS)[1:],
        )  # fmt: skip
        return native.struct("TextTokenizer", arrays)

    def _cut_long(self, tokens: Tokens, splits: dict[int, list[str]], is_end: np.ndarray) -> None:
        """Let sentences of more than `max_words` words end within."""
        sizes = np.ones(len(tokens), np.int64)
        for token, found in splits.items():
            sizes[token] = len(found)
        words = np.concatenate([[0], np.cumsum(sizes)])  # before each token
        ends = np.flatnonzero(is_end)
        starts = np.concatenate([[0], ends[:-1] + 1])
        is_long = words[ends + 1] - words[starts] > self.max_words
        if not is_long.any():
            return
        of_segment, sequences = tokens.segments[starts], self._sequences_of_ends(tokens)
        for segment in np.flatnonzero(np.bincount(of_segment[is_long])).tolist():
            first = int(tokens.starts[segment])
            likely = self._likely_ends(tokens, sequences, first)
            here = is_long & (of_segment == segment)
            for start, end in zip(starts[here].tolist(), ends[here].tolist(), strict=True):
                cuts = _cuts(words[start : end + 2], likely[start - first :], self.max_words)
                is_end[start + cuts] = True

    def _sequences_of_ends(self, tokens: Tokens) -> Sequences:
        """The features of sentence ends, a sequence for each segment."""
        templates = self.ends.templates
        tokens.cases = self.cases.of_tokens(tokens)
        features = templates.features(tokens.fields(templates.fields), tokens.rows)
        return Sequences.open(features, _without_empty(tokens.starts))

    def _likely_ends(self, tokens: Tokens, sequences: Sequences, first: int) -> np.ndarray:
        """The log of how probable it is that a sentence ends with each token of a segment.

        Rounded, so that equal places have equal values for any order of sums; -inf before closing
        marks that belong to the sentence before them.

        Args: first: the first token of the segment, which is one of the sequences.
        """
        number = int(np.searchsorted(sequences.starts, first))
        part = sequences.part(number, number + 1)
        n = len(part.features)
        probabilities = self.ends.marginals(part, np.full(n, END, np.int32))
        likely: np.ndarray = np.log(probabilities.clip(min=1e-300)).round(3)
        if self.keeps_closing:
            likely[:-1][tokens.is_closing[first + 1 : first + n]] = -np.inf
        return likely

    def _splits(
        self, tokens: Sequence[int], forms: Sequence[str], features: np.ndarray
    ) -> dict[int, list[str]]:
        """The words of multiword tokens, by the number of the token.

        Args:
            tokens: numbers of those that may be some. forms, features: of these.
        """
        rules = [(k, fitting) for k, form in enumerate(forms) if (fitting := self._fitting(form))]
        if self.words is None or not rules:
            return {}
        given = choices(features[[k for k, _ in rules]], [fitting for _, fitting in rules])
        return {
            tokens[k]: list(self._words_of(forms[k], tag - 1))
            for (k, _), tag in zip(rules, self.words.find(given).tolist(), strict=True)
            if tag
        }

    @cached_property
    def _fitting(self) -> Callable[[str], list[int]]:
        return _kept_by_form(self.rules.fitting)

    @cached_property
    def _words_of(self) -> Callable[[str, int], list[str]]:
        return _kept_by_form(self.rules.words)

    @property
    def models(self) -> dict[str, SequenceModel]:
        """Its models by name."""
        return {name: model for name in MODELS if (model := getattr(self, name)) is not None}

    def pack(self) -> bytes:
        """One file of facts and arrays, from which `unpack` makes the tokeniser again."""
        facts: dict[str, Any] = {
            "rules": self.rules.packed(), "keeps_closing": self.keeps_closing,
            "keeps_addresses": self.keeps_addresses, "models": {}, "max_words": self.max_words,
        }  # fmt: skip
        arrays = {f"characters.{name}": a for name, a in self.characters.packed().items()}
        arrays["is_open"] = self.is_open.astype(np.uint8)
        arrays["lexicon"] = self.lexicon.view(np.int64)
        arrays["cases.hashes"] = self.cases.hashes.view(np.int64)
        arrays["cases.kinds"] = self.cases.kinds
        for name, model in self.models.items():
            facts["models"][name], of_model = model.packed()
            arrays |= {f"{name}.{key}": array for key, array in of_model.items()}
        return array_file.pack(facts, arrays, form=FORMAT)

    @classmethod
    def unpack(cls, file: BinaryIO, path: Path) -> "Tokenizer":
        """The tokeniser of a file; `path` is its name in messages.

        Raises: ModelError: the file is damaged, of another program or not a tokeniser's.
        """
        opened = array_file.opened(file, path, **_AS_MODEL)
        try:
            found = _unpacked(opened.facts, opened.arrays)
        except (ValueError, TypeError, KeyError, ConfigError) as error:
            raise ModelError(f"{path}: not a tokeniser: {one_line(error)}") from error
        opened.remember()
        return found


_FACTS = {"rules", "keeps_closing", "keeps_addresses", "models", "max_words"}
MODELS = {
    "gaps": boundaries.FIELDS.__contains__,
    "ends": sentences.FIELDS.__contains__,
    "words": sentences.OWN_FIELDS.__contains__,
}


def _unpacked(facts: dict[str, Any], arrays: dict[str, np.ndarray]) -> Tokenizer:
    check_names(facts, _FACTS)
    models, max_words = facts["models"], facts["max_words"]
    if not isinstance(models, dict) or not {"ends"} <= set(models) <= set(MODELS):
        raise ValueError("models: other ones are expected")
    check_names(arrays, [
        "is_open", "lexicon", "cases.hashes", "cases.kinds",
        *(f"characters.{name}" for name in CharacterTable.ARRAYS),
        *(f"{model}.{name}" for model in models for name in ARRAYS),
    ])  # fmt: skip
    is_open, lexicon = arrays["is_open"], arrays["lexicon"]
    if is_open.dtype != np.uint8 or is_open.shape != (2, CLASSES**2) or is_open.max() > 1:
        raise ValueError(f"is_open: 2 rows of {CLASSES**2} flags are expected")
    if lexicon.dtype != np.int64 or lexicon.ndim != 1:
        raise ValueError("lexicon: hashes are expected")
    if type(max_words) is not int or not 1 <= max_words <= MAX_SENTENCE:
        raise ValueError(f"max_words: a number from 1 to {MAX_SENTENCE:,} is expected")
    made = {
        name: unpacked(models[name], below(arrays, name), is_field) if name in models else None
        for name, is_field in MODELS.items()
    }
    rules = SplitRules.unpacked(facts["rules"])
    if made["gaps"] is None:
        is_open = np.zeros_like(is_open)
    n_tags = {"gaps": 2, "ends": 2, "words": len(rules.rules) + 1}
    if any(model is not None and len(model.table) != n_tags[name] for name, model in made.items()):
        raise ValueError("models: other numbers of tags are expected")
    ends = made["ends"]
    assert ends is not None
    for name, flag in ("closing", facts["keeps_closing"]), ("addresses", facts["keeps_addresses"]):
        if type(flag) is not bool:
            raise ValueError(f"keeps_{name}: true or false is expected")
    return Tokenizer(
        CharacterTable.unpacked(below(arrays, "characters")), is_open.astype(np.bool_),
        facts["keeps_addresses"], made["gaps"], np.sort(lexicon.view(np.uint64)), ends,
        _cases(below(arrays, "cases")), facts["keeps_closing"], rules, made["words"], max_words,
    )  # fmt: skip


def _cases(arrays: dict[str, np.ndarray]) -> KnownCases:
    hashes, kinds = arrays["hashes"], arrays["kinds"]
    if hashes.dtype != np.int64 or kinds.dtype != np.uint8 or hashes.ndim != 1:
        raise ValueError("cases: hashes and kinds are expected")
    if hashes.shape != kinds.shape or kinds.max(initial=0) > 3:
        raise ValueError("cases: a kind from 0 to 3 for each hash is expected")
    return KnownCases(hashes.view(np.uint64), kinds)


class TextTokenizer(NamedTuple):
    """As native/api/text.h has it."""

    class_of: np.ndarray
    lower_of: np.ndarray
    blanks: np.ndarray
    is_open: np.ndarray
    gaps: ModelArrays | None
    gap_templates: TemplateArrays | None
    gap_fields: np.ndarray | None
    lexicon: np.ndarray
    ends: ModelArrays | None
    end_templates: TemplateArrays | None
    end_fields: np.ndarray | None
    hashes: np.ndarray
    kinds: np.ndarray
    keeps_closing: bool
    edges: np.ndarray
    ending_pairs: np.ndarray
    beginning_pairs: np.ndarray
    word_templates: TemplateArrays | None
    word_fields: np.ndarray | None


def _parts(
    model: SequenceModel | None, fields: tuple[str, ...]
) -> tuple[ModelArrays | None, TemplateArrays | None, np.ndarray | None]:
    """A model, its templates, and the places of their fields among all."""
    if model is None:
        return None, None, None
    templates = model.templates
    return model.arrays_of_search, templates.arrays, field_numbers(fields, templates.fields)


class _Found(NamedTuple):
    """T tokens of a text.

    first, last: (T,) int64, the first character and the one after the last. segments: (T,) int64.
    is_end: (T,) bool, whether a sentence ends with the token.
    splits: the words of multiword tokens, by the number of the token.
    """

    first: np.ndarray
    last: np.ndarray
    segments: np.ndarray
    is_end: np.ndarray
    splits: dict[int, list[str]]

    def of_groups(self, groups: "list[_Group]") -> "list[_Found]":
        """The results of each of the joined groups, counted from its beginning."""
        if len(groups) == 1:
            return [self]
        sizes = [(len(group.codes), len(group.starts)) for group in groups]
        before = np.zeros((len(groups) + 1, 2), np.int64)
        np.cumsum(sizes, axis=0, out=before[1:])
        cuts = self.first.searchsorted(before[:, 0]).tolist()
        splits: list[dict[int, list[str]]] = [{} for _ in groups]
        for token, words in self.splits.items():
            number = bisect_right(cuts, token, hi=len(groups)) - 1
            splits[number][token - cuts[number]] = words
        return [
            _Found(
                self.first[i:j] - character, self.last[i:j] - character,
                self.segments[i:j] - segment, self.is_end[i:j], of_group,
            )
            for (i, j), (character, segment), of_group in zip(
                pairwise(cuts), before[:-1].tolist(), splits, strict=True
            )
        ]  # fmt: skip


class _Group(NamedTuple):
    """Successive segments of a chunk, which has no words elsewhere among them."""

    data: bytes
    codes: np.ndarray  # characters
    spaces: np.ndarray
    offsets: np.ndarray  # of all characters in bytes, and of the end
    starts: np.ndarray  # of the segments
    begins: np.ndarray  # uint8, NO_PARAGRAPH, NEW_PARAGRAPH or NEW_DOCUMENT
    ends_paragraph: bool
    numbers: np.ndarray  # of the segments, in sent_id
    character: int  # the first one, in the file
    of_lines: bool  # whether each is a sentence
    document: bytes


def _groups(chunk: TextChunk) -> Iterator[_Group]:
    """Successive segments of at least _GROUP characters together, but the last ones."""
    starts, kinds = chunk.starts, chunk.begins.astype(np.uint8)  # 1 is NEW_PARAGRAPH
    if chunk.spaces.all():
        return
    kinds[0] = (
        NEW_DOCUMENT if chunk.begins_document
        else NEW_PARAGRAPH if chunk.begins_paragraph else NO_PARAGRAPH
    )  # fmt: skip
    offsets, s = byte_offsets(chunk.codes), 0
    if len(chunk.codes) <= _GROUP:  # a short text is one group as it is
        yield _Group(
            chunk.data, chunk.codes, chunk.spaces, offsets, starts, kinds, chunk.ends_paragraph,
            chunk.numbers, chunk.character, chunk.of_lines, chunk.document,
        )  # fmt: skip
        return
    while s < len(starts):
        after = int(starts.searchsorted(starts[s] + _GROUP))
        after = max(after, s + 1)
        is_last = after == len(starts)
        first, end = int(starts[s]), len(chunk.codes) if is_last else int(starts[after])
        yield _Group(
            chunk.data[offsets[first] : offsets[end]], chunk.codes[first:end],
            chunk.spaces[first:end], offsets[first : end + 1] - offsets[first],
            starts[s:after] - first, kinds[s:after],
            chunk.ends_paragraph if is_last else bool(kinds[after]),
            chunk.numbers[s:after], chunk.character + first, chunk.of_lines, chunk.document,
        )  # fmt: skip
        s = after


def _batches(groups: Iterable[_Group]) -> Iterator[list[_Group]]:
    """Groups that are looked at together; no result depends on it."""
    batch: list[_Group] = []
    size = 0
    for group in groups:
        if batch and (size + len(group.codes) > _GROUP or group.of_lines != batch[0].of_lines):
            yield batch
            batch, size = [], 0
        batch.append(group)
        size += len(group.codes)
    if batch:
        yield batch


def _joined(groups: list[_Group]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The characters, spaces and starts of the segments of successive groups."""
    if len(groups) == 1:
        return groups[0].codes, groups[0].spaces, groups[0].starts
    starts, size = [], 0
    for group in groups:
        of_group = group.starts + size
        if size:  # the spaces before its first word are of no segment
            of_group[0] += group.spaces.argmin()
        starts.append(of_group)
        size += len(group.codes)
    codes = np.concatenate([group.codes for group in groups])
    return codes, np.concatenate([group.spaces for group in groups]), np.concatenate(starts)


def _table(tokens: _Found, group: _Group, *, token_range: bool) -> TokenTable:
    """The tokens of a group as they are written."""
    first, last, offsets = tokens.first, tokens.last, group.offsets
    ends = tokens.is_end.nonzero()[0]
    starts = np.zeros(len(ends) + 1, np.int64)
    starts[1:] = ends + 1
    of_segment = tokens.segments[ends]
    numbers = np.arange(len(ends)) - of_segment.searchsorted(of_segment)  # within the segment
    sizes = np.zeros(len(first) + 1, np.int64)
    words = []
    for token, found in sorted(tokens.splits.items()):
        sizes[token + 1] = len(found)
        words += [word.encode() for word in found]
    return TokenTable(
        offsets[first], offsets[last], starts,
        group.begins[of_segment] * (numbers == 0),  # 0 is NO_PARAGRAPH
        group.numbers[of_segment], numbers + 1, sizes.cumsum(), *joined_names(words),
        np.stack([first, last], axis=1) + group.character if token_range else None,
        group.ends_paragraph, np.frombuffer(group.document, np.uint8),
    )  # fmt: skip


def _cuts(words: np.ndarray, likely: np.ndarray, most: int) -> np.ndarray:
    """The tokens of a long sentence that a sentence of at most `most` words is to end with.

    Each is the most likely end, and of equal ones the last, in the second half of `most` words; a
    token that is more words is a sentence of its own.

    Args: words: (T + 1,) words before each token of the sentence, and all of them.
        likely: how likely an end is, of each token and of others after them.
    """
    cuts, start = [], 0
    while words[-1] - words[start] > most:
        half, limit = np.searchsorted(words, words[start] + [most // 2, most], side="right") - 1
        limit = max(int(limit), start + 1)  # tokens before it, at least one
        half = min(max(int(half), start + 1), limit)
        ends = likely[half - 1 : limit][::-1]
        start = limit - int(ends.argmax())
        cuts.append(start - 1)
    return np.array(cuts, np.int64)


def _without_empty(starts: np.ndarray) -> np.ndarray:
    """Starts of sequences, ascending, without those that are empty."""
    is_kept = np.ones(len(starts), np.bool_)
    is_kept[1:] = starts[1:] > starts[:-1]
    return starts[is_kept]


def choices(features: np.ndarray, fitting: list[list[int]]) -> Sequences:
    """Sequences of one token each, with the tags of the rules that fit, and 0 for none."""
    lists = [[0, *(number + 1 for number in numbers)] for numbers in fitting]
    return Sequences(features, np.arange(len(lists) + 1), *candidate_lists(lists))


def _kept_by_form(compute: Callable[..., Any]) -> Callable[..., Any]:
    """The same function of a form and perhaps more, whose results for short forms are kept."""
    cached = functools.lru_cache(_CACHED)(compute)
    return lambda form, *more: (cached if len(form) <= _CACHED_LENGTH else compute)(form, *more)


def _hashes(texts: set[str], lower: np.ndarray) -> np.ndarray:
    """The hashes of texts in lower case as views have them, ascending: uint64."""
    ends = np.cumsum([0, *map(len, texts)], dtype=np.int64)
    codes = np.frombuffer("".join(texts).encode("utf-32-le"), np.uint32)
    shown = np.where(are_spaces(codes), SPACE, lower[codes])
    return np.sort(span_hashes(shown, ends[:-1], ends[1:]))


def _pair_table(pairs: set[str], lower: np.ndarray, *, first: bool = False) -> np.ndarray:
    """The pairs of characters that begin or (not `first`) end with a text: (256, 256) bool.

    A pair is the low bytes of its characters in lower case.
    """
    table = np.zeros((256, 256), np.bool_)
    for pair in pairs:
        low = [int(lower[ord(character)]) & 0xFF for character in pair]
        if len(low) == 2:
            table[low[0], low[1]] = True
        elif first:
            table[low[0], :] = True
        else:
            table[:, low[0]] = True
    return table
