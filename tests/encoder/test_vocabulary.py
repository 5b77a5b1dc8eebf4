"""Vocabularies that are cut to what a treebank needs."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpuparse
from gpuparse.data.conll import treebank_from_bytes
from gpuparse.errors import ConfigError, DataError
from gpuparse.model.folder import load_parser
from gpuparse.scorers.encoder.pieces import Splitter
from tests.samples import without
from tests.synthetic import generate
from tests.tiny_encoders import FAMILIES, tokenizer, write_encoder

pytest.importorskip("transformers", reason="encoders need the package transformers")

from gpuparse.learning.stages.encoder import vocabulary
from gpuparse.learning.stages.encoder.pretrained import read_pretrained
from gpuparse.learning.stages.encoder.vocabulary import cut, with_vocabulary, words_of

LETTERS = "abcd"  # é has no piece of its own, but may have two bytes
SPECIAL = ["[PAD]", "[CLS]", "[SEP]", "[UNK]", "[MASK]"]
long = st.lists(st.text(LETTERS + "é", min_size=4, max_size=7), min_size=8, max_size=20)


@pytest.fixture(autouse=True, scope="module")
def no_more_pieces():
    """No pieces that no word needs are kept."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(vocabulary, "MOST", 0)
        yield


@st.composite
def texts(draw: st.DrawFn) -> tuple[str, str, list[str]]:
    """The kind and the text of a tokenizer whose vocabulary is drawn, and parts of words."""
    kind = draw(st.sampled_from(["WordPiece", "Unigram", "BPE"]))
    more = draw(long)
    content = tokenizer({"WordPiece": "bert", "Unigram": "xlm-roberta", "BPE": "roberta"}[kind])
    model = content["model"]
    if kind == "WordPiece":
        names = [*LETTERS, *("##" + letter for letter in LETTERS)]
        names += [draw(st.sampled_from(["", "##"])) + piece for piece in more]
    elif kind == "Unigram":
        names = ["▁", *LETTERS, *(draw(st.sampled_from(["", "▁"])) + piece for piece in more)]
    else:
        more = [*LETTERS]
        names = [name for name in model["vocab"] if name not in SPECIAL]
        for _ in range(draw(st.integers(10, 25))):
            first = draw(st.sampled_from(["Ġ", *LETTERS, *more[-3:]]))
            second = draw(st.sampled_from([*LETTERS, *more[-3:]]))
            if first + second not in names and second[0] != "Ġ":
                names.append(first + second)
                more.append(first + second)
                model["merges"].append([first, second])
        content["pre_tokenizer"]["add_prefix_space"] = True
    names = draw(st.permutations([*SPECIAL, *dict.fromkeys(names)]))
    numbers = {name: number for number, name in enumerate(names)}
    if kind == "Unigram":
        scores = st.floats(-30, -1, width=16) | st.integers(-3, -1).map(float)
        model["vocab"] = [[name, draw(scores)] for name in names]
        model["unk_id"] = numbers["[UNK]"]
    else:
        model["vocab"] = numbers
    for name, each in content["post_processor"]["special_tokens"].items():
        each["ids"] = [numbers[name]]
    return kind, json.dumps(content), [*LETTERS, *(piece.lstrip("Ġ") for piece in more)]


def pieces(splitter: Splitter, word: str) -> list[str]:
    """The texts of the pieces of a word."""
    [encoded] = splitter._tokenizer.encode_batch([word], add_special_tokens=False)
    return encoded.tokens


def config_of(splitter: Splitter, family: str = "bert") -> dict:
    special = {
        f"{name}_token_id": splitter.piece_named(f"[{name.upper()}]") for name in ("pad", "sep")
    }
    return {"model_type": family, "max_position_embeddings": 64, "bos_token_id": None,
            "vocab_size": splitter._tokenizer.get_vocab_size()} | special  # fmt: skip


@given(texts(), st.data())
def test_words_that_are_kept_are_split_as_before(drawn, data):
    kind, text, parts = drawn
    splitter = Splitter(text, 64, 1000)
    words = st.lists(st.sampled_from(parts), min_size=1, max_size=5).map("".join)
    kept = data.draw(st.lists(words, min_size=1, max_size=5))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(vocabulary, "MOST", data.draw(st.integers(0, 30)))
        config, made, rows = cut(config_of(splitter), splitter, kept, most=vocabulary.MOST)
        assert cut(config, made, kept, most=vocabulary.MOST)[2].tolist() == list(range(len(rows)))
    for word in kept:
        assert pieces(made, word) == pieces(splitter, word)
        new, old = (each.split([word]).values for each in (made, splitter))
        assert np.array_equal(rows[new], old)
    for word in data.draw(st.lists(words.map(lambda word: word.replace("é", "a")))):
        found = pieces(made, word)
        assert "[UNK]" not in found
        mark = {"WordPiece": "", "Unigram": "▁", "BPE": "Ġ"}[kind]
        assert "".join(found).replace("##", "") == mark + word
    assert rows[made.prefix + made.suffix].tolist() == splitter.prefix + splitter.suffix
    assert np.array_equal(rows[made.masks.values], splitter.masks.values)
    assert (np.diff(rows) > 0).all()
    assert config["vocab_size"] == len(rows)
    for name in ("pad", "sep"):
        assert rows[config[f"{name}_token_id"]] == splitter.piece_named(f"[{name.upper()}]")


def splitter_of(family: str, vocabulary: object, **model: object) -> Splitter:
    """The tokenizer of a family with other pieces than `SPECIAL`, which come first."""
    content = tokenizer(family)
    if isinstance(vocabulary, dict):
        pieces = [[name, 0.0] for name in SPECIAL] + [list(item) for item in vocabulary.items()]
    else:
        pieces = {name: number for number, name in enumerate([*SPECIAL, *vocabulary])}
    content["model"] |= {"vocab": pieces} | model
    return Splitter(json.dumps(content), 64, 1000)


def test_an_unknown_character_costs_what_it_did():
    """Its score is below the lowest one of the vocabulary."""
    letters = dict.fromkeys("abcdef", -9.0)
    scores = {"▁": -1.0, "éab": -20.0, "abcdef": -1.0, "zzzz": -100.0, **letters}
    splitter = splitter_of("xlm-roberta", scores)
    _, made, rows = cut(config_of(splitter), splitter, ["éabcdef", "abcdef"], most=vocabulary.MOST)
    assert pieces(made, "éabcdef") == ["▁", "éab", "c", "d", "e", "f"]
    assert pieces(made, "abcdef") == ["▁", "abcdef"]
    assert len(rows) == len(SPECIAL) + len(scores)


def test_merges_that_make_a_piece_are_kept():
    letters = sorted({"Ġ", *"abcdefgh"})
    names = ["ab", "abc", "abcd", "abcde", "abcdef", "gh", "ghab", "ghabc", "ghabcd"]
    merges = [["a", "b"], ["ab", "c"], ["abc", "d"], ["abcd", "e"], ["abcde", "f"],
              ["g", "h"], ["gh", "ab"], ["ghab", "c"], ["ghabc", "d"]]  # fmt: skip
    splitter = splitter_of("roberta", [*letters, *names], merges=merges)
    _, made, rows = cut(config_of(splitter), splitter, ["abcdef"], most=vocabulary.MOST)
    assert pieces(made, "abcdef") == ["abcdef"]
    assert len(rows) == len(SPECIAL) + len(letters) + len(names) - 4


@pytest.mark.parametrize(("most", "kept"), [(0, 3), (61, 3), (62, 4), (90, 5)])
def test_short_pieces_of_known_letters_are_kept(monkeypatch, most, kept):
    monkeypatch.setattr(vocabulary, "MOST", most)
    short = ["caaa", "abcabc", "caa", "ab", "cab", "aaz"]  # c is known, z is not
    splitter = Splitter(json.dumps(tokenizer("bert", [*short, "abc"])), 64, 1000)
    _, made, rows = cut(config_of(splitter), splitter, ["abc", "c"], most=vocabulary.MOST)
    there = [piece for piece in short if made.piece_named(piece) is not None]
    assert there == [p for p in short if p in ("ab", "caa", "cab", "caaa", "abcabc")[:kept]]
    assert len(rows) == 5 + 52 + 1 + kept


def test_pieces_of_pairs_and_of_a_config_follow():
    content = tokenizer("bert", ["unneeded", "[X]", "[Y]", "unneeded2", "unneeded3"])
    number = content["model"]["vocab"]
    own = content["post_processor"]["special_tokens"]
    own["[X]"] = {"id": "[X]", "ids": [number["[X]"]], "tokens": ["[X]"]}
    splitter = Splitter(json.dumps(content), 64, 1000)
    config, made, rows = cut(
        config_of(splitter) | {"y_token_id": number["[Y]"]}, splitter, ["a"], most=vocabulary.MOST
    )
    assert len(rows) == len(number) - 3
    found = json.loads(made.text)["post_processor"]["special_tokens"]["[X]"]["ids"]
    assert rows[found].tolist() == [number["[X]"]]
    assert rows[config["y_token_id"]] == number["[Y]"]


def test_the_number_of_padding_stays_where_positions_begin_after_it():
    content = tokenizer("bert", ["unneeded"])
    names = list(content["model"]["vocab"])
    names = [names[-1], *names[:-1]]
    content["model"]["vocab"] = {name: number for number, name in enumerate(names)}
    for each in content["post_processor"]["special_tokens"].values():
        each["ids"] = [names.index(each["id"])]
    splitter = Splitter(json.dumps(content), 64, 1000)
    for family, first in (("bert", 1), ("xlm-roberta", 0)):
        config, _, rows = cut(config_of(splitter, family), splitter, ["a"], most=vocabulary.MOST)
        assert rows[0] == first
        assert config["pad_token_id"] == 1 - first


def test_numbers_that_collide_are_refused():
    """The package gives an added piece the number of pieces, which another one has."""
    content = tokenizer("bert")
    vocabulary = content["model"]["vocab"]
    vocabulary["##z"] = len(vocabulary)
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    content["added_tokens"] = [{"id": 999, "content": "[NEW]", "special": True} | flags]
    splitter = Splitter(json.dumps(content), 64, 1000)
    with pytest.raises(ConfigError, match=r"number of .*: give encoder\.vocabulary=whole"):
        cut(config_of(splitter), splitter, ["a"], most=0)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_same_is_learned(models, tmp_path, family):
    """All weights of 16 bits are equal but those of pieces, of which some are left."""
    words = ["zzzzz", "farmers"]
    encoder = write_encoder(tmp_path / "encoder", family, words=words, vocab_size=400)
    found = {}
    for kept in ("whole", "treebank"):
        keys = {"encoder.model": str(encoder), "encoder.vocabulary": kept, "weights.bits": 16,
                "lemmatizer.learn": False, "data.dev": None}  # fmt: skip
        output = tmp_path / kept
        gpuparse.train("encoder", models.keys(family, output) | keys, quiet=True)
        [scorer] = load_parser(output).scorers
        found[kept] = scorer, models.parse(output, without(generate(40, 1), *range(2, 9)))
    (whole, parsed), (less, parsed_by_less) = found.values()
    assert parsed == parsed_by_less
    n_pieces = less.config["vocab_size"]
    assert n_pieces < 310
    for name, array in whole.arrays.items():
        is_equal = np.array_equal(less.arrays[name], array)
        assert is_equal != (array.shape[0] == 400), name
    pretrained = read_pretrained(str(tmp_path / "treebank"))
    treebank = treebank_from_bytes(generate(40, 1), "train")
    again = with_vocabulary(pretrained, treebank, "treebank", lambda line: None)
    assert (again.config, again.splitter.text) == (less.config, less.splitter.text)
    assert len(again.body().get_input_embeddings().weight) == n_pieces


def test_words_of_a_file_are_kept(models, tmp_path):
    encoder = write_encoder(tmp_path / "encoder", "bert", words=["zzzzz", "yyyyy", "xxxxx"])
    file = tmp_path / "words.txt"
    file.write_text("A zzzzz\n  Yyyyy\t12\n")
    assert words_of(str(file)) == {"A", "zzzzz", "Yyyyy", "12"}
    told: list[str] = []
    treebank = treebank_from_bytes(models.gold, "gold")
    pretrained = read_pretrained(str(encoder))
    found = with_vocabulary(pretrained, treebank, str(file), told.append)
    numbers = [found.splitter.piece_named(word) is not None for word in ("zzzzz", "yyyyy", "xxxxx")]
    assert numbers == [True, True, False]
    before, after = len(pretrained.body().get_input_embeddings().weight), found.config["vocab_size"]
    assert told == [f"encoder.vocabulary {file}: {after} of {before} pieces are kept"]
    assert len(found.body().get_input_embeddings().weight) == after
    file.write_bytes(b"A\n\xff\n")
    with pytest.raises(DataError, match=r"words\.txt:2: is not UTF-8"):
        words_of(str(file))
    keys = models.keys("bert", tmp_path / "model")
    with pytest.raises(DataError, match=r"encoder\.vocabulary: none: no such file; .*=FILE$"):
        gpuparse.train("encoder", keys | {"encoder.vocabulary": "none"}, quiet=True)
