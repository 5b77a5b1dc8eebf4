"""Views of text, gaps, tokens and training examples, each against its definition."""

import random

import numpy as np
import pytest

from gpuparse import native
from gpuparse.data.conll import treebank_from_bytes
from gpuparse.data.formats.paragraphs import BLANKS, are_spaces, byte_offsets, code_points, segments
from gpuparse.text.boundaries import CLASSES, LONGEST, addresses, gap_fields, gaps, open_places
from gpuparse.text.boundaries import FIELDS as GAP_FIELDS
from gpuparse.text.characters import CharacterTable
from gpuparse.text.conllu import surface_sentences, text_pieces
from gpuparse.text.examples import text_examples
from gpuparse.text.sentences import END, FIELDS, GO_ON, KnownCases, Tokens
from gpuparse.text.views import MARGIN, SPACE, TextView, field_numbers, span_hashes
from tests.oracles import text as oracle
from tests.synthetic import generate
from tests.text.raw_texts import random_text


@pytest.fixture(scope="module")
def table():
    return CharacterTable.of_unicode()


def viewed(text: str, table) -> TextView:
    codes = code_points(text.encode())
    spaces = are_spaces(codes)
    return TextView.of_text(codes, spaces, segments(codes, spaces)[0], table)


def test_places_of_a_view(table):
    draw = random.Random(1)
    for _ in range(500):
        text = random_text(draw) + "x"
        codes = code_points(text.encode())
        spaces = are_spaces(codes).tolist()
        starts = segments(codes, np.array(spaces))[0].tolist()
        wanted, source = [], []
        for start, end in zip(starts, [*starts[1:], len(text)], strict=True):
            wanted += [0] * MARGIN
            source += [-1] * MARGIN
            shown = [k for k in range(start, end) if not spaces[k]]
            for before, k in zip([shown[0], *shown], shown, strict=False):
                if k > before + 1:
                    wanted.append(int(SPACE))
                    source.append(k - 1)
                wanted.append(int(codes[k]))
                source.append(k)
        view = viewed(text, table)
        assert view.codes.tolist() == wanted + [0] * MARGIN
        assert view.source.tolist() == source + [-1] * MARGIN
        for place in np.flatnonzero(view.is_blank).tolist():
            k = source[place]
            assert ord(text[k]) in BLANKS
            assert not any((spaces[k - 1], spaces[k + 1]))
        adjacent, spaced = gaps(view)
        both = view.is_visible[:-1] & view.is_visible[1:]
        assert adjacent.tolist() == np.flatnonzero(both).tolist()
        for place in spaced.tolist():
            assert view.is_visible[place]
            assert view.is_visible[place + 2]
            assert view.codes[place + 1] == SPACE


def test_views_are_those_of_the_definition(table):
    draw = random.Random(4)
    for _ in range(500):
        text = random_text(draw)
        codes = code_points(text.encode())
        spaces = are_spaces(codes)
        starts = segments(codes, spaces)[0]
        if len(starts):
            starts[0] = np.argmin(spaces)
            if spaces[starts[0]]:
                continue
        view = TextView.of_text(codes, spaces, starts, table)
        expected = oracle.view_text(codes, spaces, starts, table)
        for name in ("codes", "lower", "classes", "is_visible", "is_blank", "source", "starts"):
            assert getattr(view, name).tolist() == getattr(expected, name).tolist(), name
        assert view.places[~spaces].tolist() == expected.places[~spaces].tolist()


@pytest.mark.parametrize("with_lexicon", [False, True])
def test_gaps_are_those_of_the_definition(table, with_lexicon):
    draw, generator = random.Random(5), np.random.default_rng(5)
    n_gaps = n_known = 0
    for _ in range(300):
        text = random_text(draw) + " 12 000 ab.c-d 'e' x@y/z " + "aab" * draw.randrange(60)
        view = viewed(text, table)
        is_open = generator.random((2, CLASSES**2)) < 0.5
        places, ends = open_places(view, is_open, keeps_addresses=False)
        wanted, certain = oracle.open_places(view, is_open)
        assert places.tolist() == wanted.tolist()
        assert ends.tolist() == certain.tolist()
        first = generator.integers(8, len(view.codes) - 8, 40)
        size = generator.integers(1, LONGEST + 1, 40)
        lexicon = np.unique(span_hashes(view.lower, first, first + size))
        lexicon = lexicon if with_lexicon else lexicon[:0]
        fields = gap_fields(view, places, GAP_FIELDS, lexicon)
        expected = oracle.Gaps(view, places, lexicon)
        for name, row in zip(GAP_FIELDS, fields, strict=True):
            values = oracle.GAP_FIELDS[name](expected)
            of_gaps = len(values) != len(row)
            assert (row[places] if of_gaps else row).tolist() == values.tolist(), name
            assert not of_gaps or np.count_nonzero(row) <= len(places)
        n_gaps += len(places)
        n_known += int(np.count_nonzero(fields[-1] > 1))
    assert n_gaps > 1000
    assert bool(n_known) == with_lexicon


def test_wrong_arrays_of_text_are_refused(table):
    view = viewed("Ab cd. Ef", table)
    fields = field_numbers(GAP_FIELDS, ("string",))
    no_words = np.empty(0, np.uint64)
    values = np.empty((1, len(view.codes)), np.uint32)
    for places in ([0], [9, 8], [99], [len(view.codes) - 1]):
        with pytest.raises(ValueError):
            native.call("gap_fields", view.struct, np.array(places), fields, no_words, values)
    with pytest.raises(ValueError):
        span_hashes(view.lower, np.array([3]), np.array([99]))
    with pytest.raises(ValueError):
        TextView.of_text(view.codes, view.codes == 0, np.array([99]), table)
    with pytest.raises(ValueError):
        Tokens(view, np.ones(3, np.bool_))
    tokens = Tokens(view, view.is_visible)
    tokens.rows = tokens.rows + 99
    with pytest.raises(ValueError):
        tokens.fields(("form",))


def test_known_cases_are_looked_up(table):
    view = viewed("Ab aB cD Cd eF Éf éf 7 .", table)
    tokens = Tokens(view, view.is_visible & ~np.append(view.is_visible[1:], False))
    hashes, firsts = np.unique(tokens.lower_hashes(), return_index=True)
    cases = KnownCases(hashes, (firsts % 3 + 1).astype(np.uint8))
    kind_of = dict(zip(hashes.tolist(), cases.kinds.tolist(), strict=True))
    expected = [
        kind_of[each] if capital else 0
        for each, capital in zip(
            tokens.lower_hashes().tolist(), tokens.is_capital.tolist(), strict=True
        )
    ]
    assert cases.of_tokens(tokens).tolist() == expected
    assert np.count_nonzero(expected) == 3
    assert not KnownCases(hashes[:0], cases.kinds[:0]).of_tokens(tokens).any()


def test_equal_spans_have_equal_hashes_wherever_they_are():
    draw = np.random.default_rng(1)
    values = draw.integers(0, 3, 400).astype(np.uint32)
    sums = oracle.hash_sums(values)
    first = draw.integers(0, 395, 20_000)
    last = first + draw.integers(1, 6, 20_000)
    found = span_hashes(values, first, last)
    assert (found == oracle.wide_hashes(sums, first, last)).all()
    for hashes in (found, found.astype(np.uint32)):
        texts = [tuple(values[a:b].tolist()) for a, b in zip(first, last, strict=True)]
        of_text = dict(zip(texts, hashes.tolist(), strict=True))
        assert [of_text[text] for text in texts] == hashes.tolist()
        assert len(set(of_text.values())) == len(of_text)


def test_byte_offsets():
    draw = random.Random(2)
    for _ in range(200):
        text = random_text(draw)
        wanted = [len(text[:k].encode()) for k in range(len(text) + 1)]
        assert byte_offsets(code_points(text.encode())).tolist() == wanted


def test_tokens_and_their_counts(table):
    draw = random.Random(3)
    for _ in range(300):
        text = random_text(draw) + " Ab. c"
        view = viewed(text, table)
        ends = np.array([draw.random() < 0.6 for _ in view.codes])
        ends[np.flatnonzero(view.is_visible)[-1]] = True
        for start in view.starts[1:]:
            ends[:start][np.flatnonzero(view.is_visible[:start])[-1]] = True
        tokens, expected = Tokens(view, ends), oracle.Tokens(view, ends)
        for name in ("first", "last", "segments", "rows", "starts", "is_closing"):
            assert getattr(tokens, name).tolist() == getattr(expected, name).tolist(), name
        first = None
        wanted = []
        for place in np.flatnonzero(view.is_visible).tolist():
            first = place if first is None else first
            if ends[place]:
                wanted.append((first, place + 1))
                first = None
        assert list(zip(tokens.first.tolist(), tokens.last.tolist(), strict=True)) == wanted
        of = [int((view.starts <= a).sum()) - 1 for a, _ in wanted]
        assert tokens.segments.tolist() == of
        finals = expected.is_final.tolist()
        for t, segment in enumerate(of):
            before = [u for u in range(t) if of[u] == segment]
            after = [u for u in range(t + 1, len(of)) if of[u] == segment]
            assert expected.to_start[t] == len(before)
            assert expected.to_end[t] == len(after)
            last = max((u for u in before if finals[u]), default=t - len(before) - 1)
            assert expected.since_final()[t] == t - last
            following = min((u for u in after if finals[u]), default=t + len(after) + 1)
            assert expected.to_final()[t] == following - t
            last_spaces = 3 if not after else 1 + (wanted[t + 1][0] > wanted[t][1])
            assert expected.spaces()[t] == last_spaces
        tokens.cases = expected.cases = np.array([draw.randrange(4) for _ in wanted], np.uint8)
        fields = tokens.fields(FIELDS)
        for name, row in zip(FIELDS, fields, strict=True):
            assert row[tokens.rows].tolist() == oracle.TOKEN_FIELDS[name](expected).tolist(), name
        empty = np.ones(fields.shape[1], np.bool_)
        empty[tokens.rows] = False
        assert (fields[:, empty] == 1).all()


def test_ends_move_after_closing_marks_only(table):
    view = viewed('A b. ") c (d!)', table)
    ends = view.is_visible.copy()
    tokens = Tokens(view, ends)
    marks = [chr(view.codes[place]) for place in tokens.first]
    assert "".join(marks) == 'Ab.")c(d!)'
    is_end = np.array([mark in ".!" for mark in marks])
    moved = oracle.Tokens(view, ends).ends_after_closing(is_end)
    # The quote has a space before it: it opens.
    assert [mark for mark, end in zip(marks, moved, strict=True) if end] == [".", ")"]
    assert moved.tolist().index(True) == 2
    assert moved[-1]
    assert (GO_ON, END) == (0, 1)


def test_addresses(table):
    for text in (
        "<http://a.de> (www.b.org/c_(d)?e=f), x.y@z.fr. a@b c@ @d.e www.f http:// WWW.G.HI!",
        "http://u@v.example/p",
    ):
        view = viewed(text, table)
        found = ["".join(map(chr, view.codes[a:b])) for a, b in addresses(view)]
        wanted = ["http://a.de", "www.b.org/c_(d)?e=f", "WWW.G.HI", "x.y@z.fr"]
        assert found == (wanted if "<" in text else [text])


def test_examples_are_the_text_and_its_tokens():
    treebank = treebank_from_bytes(generate(100, 5), "t")
    examples = text_examples(treebank)
    text = "".join(map(chr, examples.codes.tolist()))
    assert text == "".join(text_pieces([treebank])).rstrip()
    sentences = list(surface_sentences(treebank))
    tokens = [token for sentence in sentences for token in sentence.tokens]
    spans = zip(examples.first.tolist(), examples.last.tolist(), strict=True)
    assert [text[a:b] for a, b in spans] == [token.text for token in tokens]
    assert examples.words == [(token.text, token.words) for token in tokens]
    last = np.cumsum([len(sentence.tokens) for sentence in sentences]) - 1
    assert np.flatnonzero(examples.is_end).tolist() == last.tolist()
