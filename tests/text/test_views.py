"""Views of text, gaps, tokens and training examples, each against its definition."""

import random

import numpy as np
import pytest

from gpuparse.data.conll import treebank_from_bytes
from gpuparse.data.synthetic import generate
from gpuparse.formats.paragraphs import (
    BLANKS,
    are_spaces,
    byte_offsets,
    code_points,
    segments,
)
from gpuparse.text.boundaries import addresses, gaps
from gpuparse.text.characters import CharacterTable
from gpuparse.text.conllu import surface_sentences, text_pieces
from gpuparse.text.examples import text_examples
from gpuparse.text.sentences import END, FIELDS, GO_ON, Tokens
from gpuparse.text.views import MARGIN, SPACE, TextView, hash_sums, span_hashes, wide_hashes
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


def test_equal_spans_have_equal_hashes_wherever_they_are():
    draw = np.random.default_rng(1)
    values = draw.integers(0, 3, 400).astype(np.uint32)
    sums = hash_sums(values)
    first = draw.integers(0, 395, 20_000)
    last = first + draw.integers(1, 6, 20_000)
    for hashes in (wide_hashes(sums, first, last), span_hashes(sums, first, last)):
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
        tokens = Tokens(view, ends)
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
        finals = tokens.is_final.tolist()
        for t, segment in enumerate(of):
            before = [u for u in range(t) if of[u] == segment]
            after = [u for u in range(t + 1, len(of)) if of[u] == segment]
            assert tokens.to_start[t] == len(before)
            assert tokens.to_end[t] == len(after)
            last = max((u for u in before if finals[u]), default=t - len(before) - 1)
            assert tokens.since_final()[t] == t - last
            following = min((u for u in after if finals[u]), default=t + len(after) + 1)
            assert tokens.to_final()[t] == following - t
            last_spaces = 3 if not after else 1 + (wanted[t + 1][0] > wanted[t][1])
            assert tokens.spaces()[t] == last_spaces
        fields = tokens.fields(list(FIELDS))
        empty = np.ones(len(fields["form"]), np.bool_)
        empty[tokens.rows] = False
        assert all((values[empty] == 1).all() for values in fields.values())


def test_ends_move_after_closing_marks_only(table):
    view = viewed('A b. ") c (d!)', table)
    ends = view.is_visible.copy()
    tokens = Tokens(view, ends)
    marks = [chr(view.codes[place]) for place in tokens.first]
    assert "".join(marks) == 'Ab.")c(d!)'
    is_end = np.array([mark in ".!" for mark in marks])
    moved = tokens.ends_after_closing(is_end)
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
