"""The tokeniser: what it learns, that text comes back, and that nothing else changes its bytes."""

import io
import itertools
import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gpuparse.data.conll import MAX_LINE, treebank_from_bytes, treebank_of_scan
from gpuparse.data.formats.text import stream_text, text_chunk
from gpuparse.data.scanner import joined_scans, scan
from gpuparse.errors import DataError
from gpuparse.evaluation.words import score_words
from gpuparse.text import training
from gpuparse.text.boundaries import CUT, gap_fields, open_places, sequence_starts
from gpuparse.text.conllu import surface_sentences, text_pieces
from gpuparse.text.sentences import END, Tokens
from gpuparse.text.sequences.model import Sequences
from gpuparse.text.tokenizer import Tokenizer
from gpuparse.text.training import learn_tokenizer
from gpuparse.text.views import TextView
from tests.oracles import text as oracle
from tests.small_stages import small_stages
from tests.strategies import some
from tests.synthetic import generate
from tests.text.raw_texts import random_text

N_STRINGS = some(10_000)
DATA = Path(__file__).parents[3] / "shared" / "data"
TREEBANKS = (
    "english-ewt/en_ewt-ud-dev", "english-ewt/en_ewt-ud-test", "english-ewt/en_ewt-ud-train",
    "french-sequoia/dev", "french-sequoia/test", "french-sequoia/train", "danish-ddt/train",
    "danish-ddt/test", "chinese-small/train", "chinese-small/test",
)  # fmt: skip


def bank(text: bytes | str):
    return treebank_from_bytes(text.encode() if isinstance(text, str) else text, "text")


def raw(treebank) -> str:
    return "".join(text_pieces([treebank]))


def split(tokenizer: Tokenizer, text: str, **options) -> bytes:
    return tokenizer.split(text_chunk(text.encode(), "text"), **options).text


@pytest.fixture(scope="module", autouse=True)
def five_epochs():
    with small_stages(epochs=5):
        yield


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return learn_tokenizer(bank(generate(300, 1)), seed=1)


def rows(*sentences: str) -> str:
    """CoNLL-U of sentences of `word word- ab=a+b`: `-` no space, `=` a multiword token."""
    text = []
    for sentence in sentences:
        number = 0
        for item in sentence.split():
            misc = "SpaceAfter=No" if item.endswith("-") else "_"
            token, _, words = item.removesuffix("-").partition("=")
            parts = words.split("+") if words else [token]
            if words:
                span = f"{number + 1}-{number + len(parts)}"
                text.append("\t".join([span, token, *"_" * 7, misc]))
            for word in parts:
                number += 1
                text.append("\t".join([str(number), word, *"_" * 7, "_" if words else misc]))
        text.append("")
    return "\n".join(text) + "\n"


def test_new_text_is_split(tokenizer):
    gold = bank(generate(80, 2))
    hits = score_words(gold, bank(split(tokenizer, raw(gold))))
    assert hits["tokens"].counts.f > 99
    assert hits["words"].counts.f > 99
    assert hits["sentences"].counts.f > 90


def test_multiword_tokens_of_new_stems():
    stems = ["da", "fa", "porta", "mangia", "parla", "canta", "salta", "ama", "cerca", "trova"]
    lines = [f"voglio {stem}rlo={stem}r+lo ora- ." for stem in stems]
    lines += [f"io {stem} del=di+il pane ora- ." for stem in stems]
    made = learn_tokenizer(bank(rows(*lines)), seed=1)
    forms = bank(split(made, "voglio guardarlo ora. io guarda del vino ora."))
    words = [word for sentence in forms for word in sentence.forms]
    assert words[:4] == ["voglio", "guardar", "lo", "ora"]
    assert "di il" in " ".join(words)


def given_tokens(text: str, sentences) -> np.ndarray:
    """The last character of each token, as `Tokenizer.annotate` takes them."""
    ends, at = [], 0
    for sentence in sentences:
        for token in sentence.tokens:
            at = text.index(token.text, at) + len(token.text)
            ends.append(at - 1)
    return np.array(ends, np.int64)


def test_the_tokens_of_a_split_get_its_words_and_sentences(tokenizer):
    stems = ["da", "fa", "porta", "mangia", "parla", "canta", "salta", "ama", "cerca", "trova"]
    lines = [f"voglio {stem}rlo={stem}r+lo ora- ." for stem in stems]
    made = learn_tokenizer(bank(rows(*lines)), seed=1)
    draw = random.Random(4)
    texts = [" ", ""]
    for _ in range(40):
        parts = ("Voglio guardarlo.", "io darlo! ", "\n\n", "The man sang.", random_text(draw))
        texts.append(" ".join(draw.choice(parts) for _ in range(draw.randrange(12))))
    n_words = 0
    for model in (tokenizer, made, replace(tokenizer, max_words=5)):
        found = [list(surface_sentences(bank(split(model, text)))) for text in texts]
        ends = [given_tokens(text, each) for text, each in zip(texts, found, strict=True)]
        annotated = model.annotate(texts, ends)
        for sentences, (words, is_end) in zip(found, annotated, strict=True):
            tokens = [token for sentence in sentences for token in sentence.tokens]
            assert words == {t: list(k.words) for t, k in enumerate(tokens) if len(k.words) > 1}
            after = np.cumsum([len(sentence.tokens) for sentence in sentences])
            assert (np.flatnonzero(is_end) + 1).tolist() == after.tolist()
            n_words += len(words)
        [(words, is_end)] = model.annotate(texts[-1:], ends[-1:])
        assert (words, is_end.tolist()) == (annotated[-1][0], annotated[-1][1].tolist())
    assert n_words > 25


def test_text_without_spaces_between_words():
    generator = random.Random(1)
    words = ["我们", "喜欢", "的", "学生", "老师", "在", "学校", "里"]
    lines = [" ".join(f"{generator.choice(words)}-" for _ in range(6)) + " 。-" for _ in range(200)]
    made = learn_tokenizer(bank(rows(*lines)), seed=1)
    found = bank(split(made, "老师喜欢学生。我们在学校里。"))
    assert [sentence.forms for sentence in found] == [
        ["老师", "喜欢", "学生", "。"], ["我们", "在", "学校", "里", "。"],
    ]  # fmt: skip


def test_random_text_comes_back(tokenizer):
    draw = random.Random(1)
    alone = [random_text(draw) for _ in range(N_STRINGS // 10)]
    others = [random_text(draw) for _ in range(N_STRINGS - len(alone))]
    together = ["\n\n".join(others[k : k + 30]) for k in range(0, len(others), 30)]
    for text in (*alone, *together):
        found = split(tokenizer, text)
        if found:
            assert raw(bank(found)) == text
        else:
            assert not text.strip("\ufeff\u200b").strip()


@pytest.mark.parametrize("name", TREEBANKS)
def test_text_of_treebanks_comes_back(name, tokenizer):
    path = DATA / f"{name}.conllu"
    if not path.exists():
        pytest.skip("the treebanks are not beside the repository")
    text = raw(bank(path.read_bytes()))
    found = b"".join(
        tokenizer.split(chunk).text
        for chunk in stream_text(io.BytesIO(text.encode()), name, chunk_bytes=1 << 16)
    )
    assert raw(bank(found)) == text


@pytest.mark.parametrize("most", [1000, 5])
def test_chunks_and_threads_change_nothing(tokenizer, monkeypatch, most):
    tokenizer = replace(tokenizer, max_words=most)
    draw = random.Random(2)
    text = "".join(f"{random_text(draw)} Some words. And more!\n\n" for _ in range(30)).encode()
    expected = tokenizer.split(text_chunk(text, "text")).text
    for size in (17, 100, 5000):
        chunks = stream_text(io.BytesIO(text), "text", chunk_bytes=size)
        assert b"".join(tokenizer.split(chunk).text for chunk in chunks) == expected
    monkeypatch.setattr("gpuparse.text.tokenizer._GROUP", 50)
    found = tokenizer.split(text_chunk(text, "text"), threads=3)
    assert found.text == expected
    for ours, its in zip(found.found, scan(expected, MAX_LINE, stop_at_fault=True), strict=True):
        assert np.array_equal(ours, its)


def test_a_line_that_is_too_long_is_an_error(tokenizer):
    chunk = text_chunk(b"short\n" + b"x " * MAX_LINE, "t", of_lines=True)
    tokenizer = replace(tokenizer, max_words=MAX_LINE)
    found = tokenizer.split(chunk)
    assert found.found is None
    assert joined_scans([tokenizer.split(text_chunk(b"a b", "t")), found]).found is None
    with pytest.raises(DataError, match="t:6: "):
        treebank_of_scan(found, "t")


@pytest.mark.parametrize("keeps_closing", [False, True])
def test_one_call_finds_what_the_single_steps_find(tokenizer, keeps_closing):
    draw, generator = random.Random(3), np.random.default_rng(3)
    tokenizer = replace(tokenizer, keeps_closing=keeps_closing, is_open=tokenizer.is_open | True)
    n_ends = n_tokens = 0
    for number in range(some(300)):
        text = random_text(draw) + '\n\nHe sang. "No!") she\'s 12 000. ' + random_text(draw)
        chunk = text_chunk(text.encode(), "text")
        given = chunk.codes, chunk.spaces, chunk.starts
        known = generator.integers(0, 3, len(chunk.codes), dtype=np.uint8) if number % 2 else None
        found = tokenizer._found(*given, known, of_segments=number % 5 == 0)
        view = TextView.of_text(*given, tokenizer.characters)
        places, cut = open_places(view, tokenizer.is_open, keeps_addresses=False)
        if known is not None:
            of_places = np.where(view.is_visible, known[view.source], 0)
            places = places[of_places[places] == 0]
            cut = np.where(of_places > 0, of_places == 2, cut)
        templates = tokenizer.gaps.templates
        fields = gap_fields(view, places, templates.fields, tokenizer.lexicon)
        gaps = Sequences.open(templates.features(fields, places), sequence_starts(view, places))
        cut[places] = tokenizer.gaps.find(gaps) == CUT
        tokens = oracle.Tokens(view, cut)
        of_model = Tokens(view, cut)
        is_end = np.zeros(len(tokens), np.bool_)
        if number % 5:
            is_end = tokenizer.ends.find(tokenizer._sequences_of_ends(of_model)) == END
        is_end[tokens.starts[1:] - 1] = True
        if keeps_closing and number % 5:
            is_end = tokens.ends_after_closing(is_end)
        assert found.first.tolist() == view.source[tokens.first].tolist()
        assert found.last.tolist() == (view.source[tokens.last - 1] + 1).tolist()
        assert found.segments.tolist() == tokens.segments.tolist()
        assert found.is_end.tolist() == is_end.tolist()
        n_ends, n_tokens = n_ends + int(is_end.sum()), n_tokens + len(tokens)
    assert 100 < n_ends < n_tokens / 2


@pytest.mark.parametrize("options", [{}, {"token_range": True, "threads": 2}], ids=["", "ranges"])
def test_texts_that_are_split_together_get_what_each_gets_alone(options, tokenizer):
    draw = random.Random(5)
    for _ in range(some(40)):
        texts = [
            draw.choice(("", " ", "\n\n", "see a@b.example ", "She's ")) + random_text(draw)
            + draw.choice(("", "\n", " \n\n")) for _ in range(draw.randint(1, 9))
        ]  # fmt: skip
        texts += ["", " \n", "They don't. " * draw.choice((1, 5000))]
        draw.shuffle(texts)
        chunks = [text_chunk(text.encode(), "text", of_lines=draw.random() < 0.3) for text in texts]
        chunks.append(
            chunks[0]._replace(numbers=chunks[0].numbers + 7, character=99, begins_document=False)
        )
        alone = [tokenizer.split(chunk, **options).text for chunk in chunks]
        assert [each.text for each in tokenizer.split_all(chunks, **options)] == alone


def test_places_of_tokens(tokenizer):
    text = "The men sang. \U0001f642 Ärzte, too.\n"
    lines = split(tokenizer, text, token_range=True).decode().split("\n")
    fields = [line.split("\t") for line in lines if line[:1].isdigit()]
    for each in fields:
        place = next(item for item in each[9].split("|") if item.startswith("TokenRange="))
        start, end = map(int, place.removeprefix("TokenRange=").split(":"))
        assert text[start:end] == each[1]


def test_odd_texts_give_words(tokenizer):
    odd = ("漢字かな交じり文。", "a@b.example http://x.example/?q=1 :-)", "\U0001f1e9\U0001f1ea")
    for text in ("x" * 10_000, *odd):
        words = [word for sentence in bank(split(tokenizer, text)) for word in sentence.forms]
        assert "".join(words) == text.replace(" ", "")


WHOLE = [
    "\U0001f468\u200d\U0001f469\u200d\U0001f467", "\U0001f44d\U0001f3fd", "\U0001f1e9\U0001f1ea",
    "\u2764\ufe0f", "1\ufe0f\u20e3", "Cafe\u0301", "anti\u00adpode", "Привет", "שלום", "नमस्ते",
    "ΣΤΟΥΣ", "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645", "\u200f\u05e9\u05dc\u05d5",
    "สวัสดีครับ",
    "http://www.example.com/a?b=c&d=(e)#f", "www.example.org", "HTTPS://Example.org/É_",
    "x@y.example", "first.last+x@sub-a.example.com", "ftp://u@host.example/p",
]  # fmt: skip


@pytest.mark.parametrize("string", WHOLE)
def test_strings_without_example_that_stay_whole(string, tokenizer):
    """Marks and joiners, letters of other scripts, addresses: none is in the generated treebank."""
    for around in ("{}", "The men {} sang.", "The men sang {}."):
        text = around.format(string)
        found = split(tokenizer, text)
        assert string in [word for sentence in bank(found) for word in sentence.forms]
        assert raw(bank(found)) == text


def test_addresses_that_the_treebank_separates_are_separated():
    lines = ["see http- :- /- /- a- .- de now- .", "mail c- @- d- .- org now- ."]
    for examples, expected in ((lines, "h t t p : / / a . d e"), (lines[:0], "http://a.de")):
        made = learn_tokenizer(bank(rows(*(["one two three- ."] * 50 + examples * 20))), seed=1)
        words = [w for s in bank(split(made, "see http://a.de now")) for w in s.forms]
        assert made.keeps_addresses == (not examples)
        assert "".join(words[1:-1]) == "".join(expected.split())
        assert (len(words) > 3) == bool(examples)


def test_tokens_with_spaces_have_no_line_ends():
    """`10 000` of the treebank is one token; two lines never are."""
    lines = [f"un homme a {k} 000 euros- ." for k in range(10, 99)]
    one = rows(*lines).replace(" ", "")
    for k in range(10, 99):
        one = one.replace(
            f"4\t{k}\t" + "_\t" * 7 + "_\n5\t000\t", f"4\t{k} 000\t"
        ).replace("\n6\teuros", "\n5\teuros").replace("\n7\t.", "\n6\t.")  # fmt: skip
    made = learn_tokenizer(bank(one), seed=1)
    for between in (" ", "\u00a0", "\u202f", "\n", "\t", "\r\n", "  ", "\u2028", "\x0b", "\u200b"):
        text = f"un homme a 55{between}000 euros."
        found = bank(split(made, text))
        assert raw(found) == text
        is_one = f"55{between}000" in [w for sentence in found for w in sentence.forms]
        assert is_one == (between in " \u00a0\u202f")
    for numbers in ("2019 12", "5 3", "1 1 1", "55 0000", "123 000"):
        words = [w for s in bank(split(made, f"un homme a {numbers} euros.")) for w in s.forms]
        assert words[3:-2] == numbers.split()


def test_the_same_bytes_come_back_and_learning_repeats(tokenizer):
    packed = tokenizer.pack()
    assert Tokenizer.unpack(io.BytesIO(packed), Path("x")).pack() == packed
    assert learn_tokenizer(bank(generate(300, 1)), seed=1).pack() == packed
    with pytest.raises(DataError):
        learn_tokenizer(bank(""), seed=1)


def test_sentences_end_after_closing_marks():
    plain = ["one two- .", "“- three four- .- ”", "(- five six- .- )", "seven- !"] * 20
    text = "Aa bb. “Cc dd!” Ee. (Ff gg.) “Hh ii.”) Jj. ” Kk."
    known = learn_tokenizer(bank(rows(*plain)), seed=1)
    assert known.keeps_closing
    ends = [sentence.split("\n")[-1].split("\t")[1] for sentence in sentences_of(known, text)]
    assert "”" in ends
    assert ")" in ends
    for end, following in itertools.pairwise(sentences_of(known, text.replace(". ”", "."))):
        assert following.split("\t")[1] not in {"”", ")"}, end
    otherwise = learn_tokenizer(bank(rows(*["“- three four- .-", "” one two- ."] * 20)), seed=1)
    assert not otherwise.keeps_closing
    split_there = sentences_of(otherwise, "“Three four.” One two.")
    assert [sentence.split("\t")[1] for sentence in split_there] == ["“", "”"]


def sentences_of(tokenizer: Tokenizer, text: str) -> list[str]:
    """The rows of each sentence."""
    return [
        "\n".join(line for line in sentence.split("\n") if not line.startswith("#"))
        for sentence in split(tokenizer, text).decode().strip().split("\n\n")
    ]


def test_long_sentences_are_cut(tokenizer):
    text = "'" * 30_000 + " l'" * 20_000 + "\n\nShe sings.\n"
    found = bank(split(tokenizer, text))
    sizes = np.diff(found.word_starts).tolist()
    assert max(sizes) == tokenizer.max_words == 1000
    assert raw(found) == text
    short = replace(tokenizer, max_words=7)
    for given in (text[27_000:33_000], random_text(random.Random(3), 400)):
        few, many = bank(split(short, given)), bank(split(tokenizer, given))
        assert np.diff(few.word_starts).max() <= 7
        assert [s.forms for s in few] != [s.forms for s in many]
        assert [w for s in few for w in s.forms] == [w for s in many for w in s.forms]
        assert raw(few) == raw(many)
        assert split(short, given, threads=3) == split(short, given)


def test_a_long_sentence_is_cut_where_an_end_is_likely():
    """`;` ends some sentences of training, but too few; only it is a likely place."""
    lines = ["a b c ; d e f- ."] * 60 + ["a b c ;", "d e f- ."] * 15
    made = learn_tokenizer(bank(rows(*lines)), seed=1)
    text = "a b c ; d e f a b c ; d e f" + " e" * 18 + "."
    assert len(sentences_of(made, text)) == 1
    sizes = [len(s.forms) for s in bank(split(replace(made, max_words=12), text))]
    assert sizes[0] == 11, "up to the second `;`"
    assert sizes[1] == 12, "no place is better than the last one"
    assert sum(sizes) == len(bank(split(made, text))[0].forms)


def test_sentence_ends_have_a_cost_and_a_step_of_their_own(monkeypatch):
    treebank = bank(rows(*["one two- .", "three, four five- .", "six. seven- ."] * 10))
    made = learn_tokenizer(treebank, seed=1)
    other_steps = training.LEARNING._replace(cost=3.0, max_step=0.5)
    monkeypatch.setattr(training, "LEARNING", other_steps)
    other = learn_tokenizer(treebank, seed=1)
    assert np.array_equal(made.ends.weights, other.ends.weights)
    assert made.ends.scale == other.ends.scale
    assert not np.array_equal(made.gaps.weights, other.gaps.weights)


def test_a_long_sentence_is_not_cut_before_a_closing_mark():
    made = learn_tokenizer(bank(rows(*["one two- .", "(- five six- .- )"] * 20)), seed=1)
    found = bank(split(replace(made, max_words=3), "(one two three) four (five six seven) eight"))
    assert [s.forms[0] for s in found if s.forms[0] in ").,"] == []
    assert max(len(s.forms) for s in found) == 3


def test_a_sentence_is_cut_between_tokens_and_keeps_tokens_of_more_words():
    treebank = bank(rows(*["des=de+les mots", "du=de+le mot"] * 40))
    made = replace(learn_tokenizer(treebank, seed=1), max_words=1)
    found = bank(split(made, "des mots du mot"))
    assert [s.forms for s in found] == [["de", "les"], ["mots"], ["de", "le"], ["mot"]]
    again = Tokenizer.unpack(io.BytesIO(made.pack()), Path("tokenizer"))
    assert again.max_words == 1
