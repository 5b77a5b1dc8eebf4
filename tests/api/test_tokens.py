"""Tokens of sentences: they are the columns of the text, and know their characters."""

import pickle
import random
import re
from itertools import accumulate, pairwise
from pathlib import Path

import pytest

import gpuparse
from gpuparse.api.tokens import Surfaces, encoded, members_as_json
from gpuparse.data.conll import treebank_from_bytes
from gpuparse.data.formats.paragraphs import SPACES
from gpuparse.data.treebank import Treebank
from gpuparse.errors import ConfigError, DataError
from gpuparse.text.conllu import NEW_DOCUMENT, surface_sentences
from tests.api.conftest import COMMENTED
from tests.multiword_texts import raw_text
from tests.strategies import some
from tests.synthetic import generate
from tests.text.raw_texts import random_text

pytestmark = pytest.mark.filterwarnings("ignore:.*not calibrated")
SEQUOIA = Path(__file__).parents[3] / "shared" / "data" / "french-sequoia" / "dev.conllu"
TEXT = generate(12, 21)


BLANKS = set(map(chr, SPACES))


def bare(text: str) -> str:
    """A text without white space."""
    return "".join(character for character in text if character not in BLANKS)


def items(text: str) -> dict[str, str]:
    """FEATS or MISC by name."""
    pairs = (item.partition("=") for item in text.split("|")) if text != "_" else ()
    return {name: value for name, _, value in pairs}


def rows_of(conllu: str) -> list[list[list[str]]]:
    """The rows of each sentence, multiword tokens too."""
    sentences = conllu.replace("\r\n", "\n").strip("\n").split("\n\n") if conllu else []
    return [
        [line.split("\t") for line in text.split("\n") if not line.startswith("#")]
        for text in sentences
    ]


def assert_tokens_are_columns(parsed: gpuparse.Parsed) -> None:
    """The law: every token is its row of `to_conllu()`, and every sentence its own text."""
    sentences = [sentence for sentence in parsed if len(sentence)]
    written = rows_of(parsed.to_conllu())
    assert len(sentences) == len(written)
    for sentence, rows in zip(sentences, written, strict=True):
        assert rows_of(sentence.to_conllu()) == [rows]
        words = [row for row in rows if row[0].isdecimal()]
        assert len(sentence) == len(words)
        for token, row in zip(sentence, words, strict=True):
            none = [None if value == "_" else value for value in row]
            assert token.sentence == sentence
            assert (str(token.id), token.form, str(token)) == (row[0], row[1], row[1])
            lemma = row[2] if row[1] == "_" else none[2]
            assert [token.lemma, token.upos, token.xpos] == [lemma, *none[3:5]]
            assert dict(token.feats) == items(row[5])
            head = token.head
            assert row[6] == (
                "_" if sentence.heads[token.id - 1] < 0 else str(head.id if head else 0)
            )
            assert token.deprel == none[7]
            assert dict(token.misc) == items(row[9])
            assert head is None or token in head.children
            assert all(child.head == token for child in token.children)
            below = {each.id for child in token.children for each in child.subtree}
            assert {each.id for each in token.subtree} == below | {token.id}
        ranges = [row for row in rows if "-" in row[0]]
        found = [(f"{each.first}-{each.last}", each.form) for each in sentence.multiword]
        assert found == [(row[0], row[1]) for row in ranges]
        roots = [token for token in sentence if sentence.heads[token.id - 1] == 0]
        assert sentence.root == (roots[0] if roots else None)


def assert_characters_are_forms(parsed: gpuparse.Parsed, texts: list[str]) -> None:
    """The law: the characters of each token are its form, but for spaces in it."""
    names = list(dict.fromkeys(sentence.document for sentence in parsed))
    of_name = dict(zip(names, texts, strict=True)) if names != [None] else {None: texts[0]}
    reached: dict[str | None, int] = {}
    for sentence in parsed:
        text = of_name[sentence.document]
        ranges = {i: each for each in sentence.multiword for i in range(each.first, each.last + 1)}
        for token in sentence:
            assert token.start is not None
            assert token.end is not None
            said, form = text[token.start : token.end], token.form
            whole = ranges.get(token.id)
            if whole and (token.start, token.end) == (whole.start, whole.end):
                form = whole.form
            assert bare(said) == bare(form)
            assert said[0] not in BLANKS
            assert said[-1] not in BLANKS
            if not token.space_after and whole is None:
                assert text[token.end : token.end + 1] not in BLANKS
        for each in sentence.multiword:
            assert text[each.start : each.end] == each.form
            words = sentence[each.first - 1 : each.last]
            assert all(each.start <= word.start < word.end <= each.end for word in words)
            together = "".join(word.form for word in words) == each.form
            spans = {(word.start, word.end) for word in words}
            assert len(spans) == (len(words) if together else 1)
            assert not any(word.space_after for word in words[:-1])
        first, last = sentence[0], sentence[-1]
        assert bare(sentence.text) == bare(text[first.start : last.end])
        assert first.start >= reached.get(sentence.document, 0)
        reached[sentence.document] = last.end


@pytest.mark.parametrize("options", [{}, {"probabilities": True}, {"mbr": True}], ids=str)
def test_tokens_of_trees_are_the_columns_of_the_text(parser, options):
    assert_tokens_are_columns(parser.parse(TEXT, **options))
    assert_tokens_are_columns(parser.parse(COMMENTED, **options))


def test_tokens_of_other_inputs_are_the_columns_of_their_text(kinds, parser, text_parser):
    assert_tokens_are_columns(gpuparse.load(kinds.run("graphs").folder).parse(kinds.text("graphs")))
    assert_tokens_are_columns(gpuparse.read(kinds.text("graphs")))
    crlf = TEXT.replace(b"\n", b"\r\n")
    assert_tokens_are_columns(gpuparse.read(crlf))
    words = [["She", "sings"], [], ["No"]]
    assert_tokens_are_columns(text_parser.parse(words))
    assert [token.start for token in text_parser.parse(words)[0]] == [None, None]
    frame = parser.parse(TEXT).to_pandas()
    assert_tokens_are_columns(parser.parse(frame))


def test_tokens_of_raw_text_know_their_characters(text_parser):
    text = raw_text()
    parsed = text_parser(text, probabilities=True)
    assert_tokens_are_columns(parsed)
    assert_characters_are_forms(parsed, [text])
    forms = {each.form for sentence in parsed for each in sentence.multiword}
    assert {"didn't", "wthe"} <= forms
    texts = [text[:900], "", "  \n", text[900:], "No."]
    documents = text_parser(texts)
    assert_tokens_are_columns(documents)
    assert_characters_are_forms(documents, [texts[0], texts[3], texts[4]])
    import pandas

    table = text_parser.parse(pandas.DataFrame({"text": [texts[0], texts[3]]}))
    assert_characters_are_forms(table, [texts[0], texts[3]])


def test_tokens_of_random_texts_know_their_characters(text_parser):
    draw = random.Random(3)
    for _ in range(some(300)):
        text = random_text(draw)
        parsed = text_parser(text)
        if text.strip():
            assert_characters_are_forms(parsed, [text])
        assert_tokens_are_columns(parsed)


@pytest.mark.skipif(not SEQUOIA.exists(), reason="no treebank beside the repository")
def test_tokens_of_a_treebank_are_its_columns():
    document = gpuparse.read(SEQUOIA)
    assert document.to_conllu() == SEQUOIA.read_text(encoding="utf-8")
    assert_tokens_are_columns(document)
    texts = [sentence.text for sentence in document]
    lines = SEQUOIA.read_text(encoding="utf-8").split("\n")
    assert texts == [line[9:] for line in lines if line.startswith("# text = ")]


def test_numbers_of_tokens_are_those_of_their_sentence(text_parser):
    parsed = text_parser("The old men didn't sing.", probabilities=True)
    [sentence] = parsed
    assert [token.probability for token in sentence] == sentence.probabilities
    assert [token.deprel_probability for token in sentence] == sentence.deprel_probabilities
    assert [token.tag_probability for token in sentence] == sentence.tag_probabilities
    plain = text_parser("She sings.")[0][0]
    assert (plain.probability, plain.deprel_probability, plain.tag_probability) == (None,) * 3
    several = text_parser("The old men didn't sing.", kbest=3)
    assert dict(several[0][0].misc) == dict(text_parser("The old men didn't sing.")[0][0].misc)


def test_sentences_are_sequences(text_parser):
    parsed = text_parser("The old men sing. She listens.")
    first, second = parsed
    assert parsed.sentences == [first, second]
    assert [token.form for token in first] == first.words
    assert (first[3].id, first[-1].form, first[1:3]) == (4, ".", [first[1], first[2]])
    assert first[3] == parsed[0][3] != second[3:] + [first[2]]
    assert len({first[0], parsed[0][0], first[1], second[0], second}) == 4
    assert first == parsed[0] != second
    assert (first[1] in first, first[1] in second) == (True, False)
    assert pickle.loads(pickle.dumps(first[1])).form == first[1].form  # noqa: S301 (our own)
    with pytest.raises(IndexError, match=r"token 5 of the 5 of sentence 0 \(1-1\)"):
        first[5]
    with pytest.raises(
        DataError, match=r"sentence\[...\]: expected the number of a token, not 'a'"
    ):
        first["a"]
    with pytest.raises(TypeError):
        first[0].feats["Case"] = "Nom"
    root = first.root
    assert repr(root) == f"<Token {root.id} {root.form}: root>"
    child = root.children[0]
    assert (
        repr(child) == f"<Token {child.id} {child.form}: {child.deprel} of {root.id} {root.form}>"
    )


def test_a_text_that_no_model_can_read_is_an_error(parser, text_parser):
    with pytest.raises(ConfigError, match="has no tokeniser"):
        parser("She sings.")
    with pytest.raises(DataError, match=r"texts\[1\]: expected a str, and not int"):
        text_parser(["She sings.", 3])


def test_cycles_and_missing_heads_of_a_file_are_no_error():
    rows = [
        "1\ta\t_\t_\t_\t_\t2\tx\t_\t_",
        "2\tb\t_\t_\t_\t_\t1\tx\t_\t_",
        "3\tc\t_\t_\t_\t_\t_\t_\t_\t_",
    ]
    [sentence] = gpuparse.read("\n".join(rows) + "\n\n")
    assert [token.id for token in sentence[0].subtree] == [1, 2]
    assert (sentence.root, sentence[2].head) == (None, None)
    assert repr(sentence[2]) == "<Token 3 c: no head>"
    assert [token["head"] for token in sentence.to_dict()["tokens"]] == [2, 1, None]


def test_words_of_raw_text_are_explained(text_parser):
    [sentence] = text_parser("She sings.")
    reasons = text_parser.explain("She sings.", 1)
    assert reasons.head == sentence[0].head.id
    assert reasons.to_dict() == text_parser.explain(sentence.to_conllu(), 1).to_dict()
    with pytest.raises(DataError, match="takes one sentence with words, and not 2"):
        text_parser.explain("She sings. He sings.", 1)
    with pytest.raises(DataError, match="an unpaired surrogate at 1"):
        text_parser.explain("a\ud800", 1)


def test_the_lemma_of_an_underscore_may_be_one():
    rows = ("1 _ _ _ _ _ 0 root _ _", "2 _ x _ _ _ 1 dep _ _", "3 a _ _ _ _ 1 dep _ _")
    [sentence] = gpuparse.read("\n".join(rows).replace(" ", "\t") + "\n\n")
    assert [token.lemma for token in sentence] == ["_", "x", None]
    assert [token["lemma"] for token in sentence.to_dict()["tokens"]] == ["_", "x", None]


def surfaces_one_by_one(treebank: Treebank, firsts: dict[int, int]) -> tuple[list, ...]:
    """`Surfaces.of`, sentence by sentence and token by token."""
    starts, ends, spaces, multiword, texts = found = [], [], [], [], []
    at = 0
    for s, sentence in enumerate(surface_sentences(treebank)):
        at = 0 if sentence.begins == NEW_DOCUMENT else at
        at = firsts.get(s, at)
        multiword.append([])
        number, text = 1, ""
        for token in sentence.tokens:
            start, n = at + len(token.before), len(token.words)
            end = start + len(token.text)
            places = [(start, end)] * n
            if n > 1 and "".join(token.words) == token.text:
                bounds = list(accumulate(map(len, token.words), initial=start))
                places = list(pairwise(bounds))
            starts += [each[0] for each in places]
            ends += [each[1] for each in places]
            spaces += [*[False] * (n - 1), token.after != ""]
            if token.is_range:
                multiword[-1].append((token.form, number, number + n - 1, start, end))
            number += n
            text += token.text + " " * (token.after != "")
            at = end + (1 if token.after is None else len(token.after))
        texts.append(text.rstrip(" ") if sentence.text is None else sentence.text)
    return found


def test_surfaces_are_those_of_single_tokens(text_parser):
    """For texts, their pieces, and treebanks whose MISC or comments say less."""
    draw = random.Random(8)
    banks = [treebank_from_bytes(TEXT, "a")]
    if SEQUOIA.exists():
        banks.append(
            treebank_from_bytes(SEQUOIA.read_bytes()[: 1 << 18].rpartition(b"\n\n")[0], "b")
        )
    for _ in range(some(40)):
        n = draw.randint(1, 3)
        texts = [random_text(draw) + draw.choice(("", raw_text())) for _ in range(n)]
        written = text_parser(texts).to_conllu().encode()
        for change in (
            lambda text: text,
            lambda text: text.replace(b"\n", b"\r\n"),
            lambda text: re.sub(rb"# text = .*\n", b"", text),
            lambda text: re.sub(rb"\t[^\t\n]*$", b"\t_", text, flags=re.MULTILINE),
            lambda text: re.sub(rb"^1\t", b"0.1\tx\t_\t_\t_\t_\t_\t_\t_\t_\n1\t", text, flags=re.M),
        ):
            banks.append(treebank_from_bytes(change(written), "c"))
    n_ranges = 0
    for treebank in banks:
        firsts = {s: 100 * s for s in range(len(treebank)) if draw.random() < 0.1}
        for given in ({}, firsts):
            wanted = surfaces_one_by_one(treebank, given)
            found = Surfaces.of(treebank, is_text=True, firsts=given)
            assert tuple(found) == wanted
            n_ranges += sum(map(len, found.multiword))
    assert n_ranges > 20
    assert tuple(Surfaces.of(treebank_from_bytes(b"", "d"), is_text=True)) == ([], [], [], [], [])


def test_plain_data_are_those_of_the_tokens(text_parser):
    text = " The old men didn't sing with the sea.\nShe listens."
    parsed = text_parser(text, probabilities=True, kbest=2)
    first = parsed[0].to_dict()
    for sentence in parsed:  # the JSON of doors
        members = members_as_json(sentence, str(sentence._index + 1)).values()
        assert f"{{{','.join(members)}}}" == encoded(sentence.to_dict())
    first["tokens"][0]["feats"]["Case"] = "Xxx"  # a copy
    first = parsed[0].to_dict()
    assert list(first) == ["id", "text", "tokens", "multiword", "trees"]
    names = [
        "id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "start", "end",
        "space_after", "probability", "deprel_probability", "tag_probability",
    ]  # fmt: skip
    for token, plain in zip(parsed[0], first["tokens"], strict=True):
        assert list(plain) == names
        head = token.head.id if token.head else 0
        own = {name: getattr(token, name) for name in names} | {"head": head}
        assert plain == own | {"feats": dict(token.feats)}
    assert first["multiword"] == [
        {name: getattr(each, name) for name in ("first", "last", "form", "start", "end")}
        for each in parsed[0].multiword
    ]
    assert [tree["heads"] for tree in first["trees"]] == [tree.heads for tree in parsed[0].trees]
    assert list(first["trees"][0]) == ["heads", "deprels", "probabilities", "score", "probability"]
    assert (first["id"], first["text"]) == ("1-1", parsed[0].text)
