"""The tagger and the lemmatiser on generated and hand-made treebanks."""

import io
import random
from collections import Counter
from collections.abc import Iterable
from math import exp
from pathlib import Path

import numpy as np
import pytest

from gpuparse.data.conll import treebank_from_bytes
from gpuparse.data.tag_columns import Column, with_columns
from gpuparse.errors import DataError
from gpuparse.learning.temperatures import fit_tag_temperature
from gpuparse.text.tagging.composition import composed
from gpuparse.text.tagging.dictionary import Dictionary
from gpuparse.text.tagging.fields import (
    SeenTags,
    WordFields,
    Words,
    as_bytes,
    class_of_counts,
    is_field,
    known_forms,
    seen_without_itself,
    value_of,
    words_with_upos,
)
from gpuparse.text.tagging.lemmatizer import LemmaRule, Lemmatizer, learn_lemmatizer
from gpuparse.text.tagging.tagger import Tagger, Tags
from gpuparse.text.tagging.tagger_learner import learn_tagger
from gpuparse.text.tagging.word_list import WordList
from tests.oracles import sequences as oracle
from tests.synthetic import generate

TRAIN = treebank_from_bytes(generate(300, 1), "train")
TEST = treebank_from_bytes(generate(60, 2), "test")
pytestmark = pytest.mark.usefixtures("small_taggers")


def as_treebank(rows: str):
    """A treebank of `form lemma upos xpos feats` lines."""
    lines, number = [], 0
    for line in rows.splitlines():
        number = number + 1 if line else 0
        fields = line.split()
        lines.append("\t".join([str(number), *fields, "_", "_", "_", "_"]) if line else "")
    return treebank_from_bytes(("\n".join(lines) + "\n\n").encode(), "rows")


def texts(column: Column) -> list[str]:
    return [column.names[i] for i in column.ids.tolist()]


@pytest.fixture(scope="module")
def tagger() -> Tagger:
    return learn_tagger(TRAIN, bits=16, seed=1)


@pytest.fixture(scope="module")
def lemmatizer() -> Lemmatizer:
    return learn_lemmatizer(TRAIN, seed=1)


def test_new_sentences_are_tagged(tagger):
    found, gold = tagger.tag(TEST), Tags.of(TEST)
    for one, two in zip(found, gold, strict=True):
        right = np.mean([a == b for a, b in zip(texts(one), texts(two), strict=True)])
        assert right > 0.95


def test_the_same_bytes_come_back_and_learning_repeats(tagger, lemmatizer):
    for kind, stage in ((Tagger, tagger), (Lemmatizer, lemmatizer)):
        packed = stage.pack()
        assert kind.unpack(io.BytesIO(packed), Path("x")).pack() == packed
    assert learn_tagger(TRAIN, bits=16, seed=1).pack() == tagger.pack()
    again = learn_lemmatizer(TRAIN, seed=1)
    assert again.pack() == lemmatizer.pack()


def every_probability(tagger, treebank):
    """Each word's share of the sequences that have its pair, by enumeration."""
    sequences = tagger._pairs_of(Words.of(treebank))
    read, found = oracle.Model(tagger.pairs.arrays), tagger.pairs.find(sequences)
    shares = []
    for s, start in enumerate(treebank.word_starts[:-1].tolist()):
        lattice = oracle.Lattice(read, sequences, s)
        of_words, whole = np.zeros(lattice.n), 0.0
        for _, path, score in lattice.paths():
            share = exp(tagger.pairs.scale * score)
            whole += share
            of_words += share * (np.array(path) == found[start : start + lattice.n])
        shares.append(of_words / whole)
    return np.concatenate(shares)


def test_probabilities_of_tags_are_sums_over_all_sequences(tagger):
    starts = TEST.word_starts[:12].tolist()
    few = ("\n".join(f"{TEST.column(w, 1)} _ _ _ _" for w in range(s, s + 4)) for s in starts)
    short = as_treebank("\n\n".join(few) + "\n\nzog _ _ _ _\n")
    for each in (tagger, tagger.with_scale(tagger.pairs.scale / 8)):
        tags, probabilities = each.tag_with_probabilities(short)
        assert np.allclose(probabilities, every_probability(each, short), atol=1e-9)
        assert [texts(column) for column in tags] == [texts(column) for column in tagger.tag(short)]
    assert (probabilities < 0.99).any()


def test_threads_and_pieces_change_no_tag_and_no_bit_of_probabilities(tagger, monkeypatch):
    expected, probabilities = tagger.tag_with_probabilities(TEST)
    monkeypatch.setattr("gpuparse.text.tagging.tagger._CHUNK", 7)
    tags, found = tagger.tag_with_probabilities(TEST, threads=3)
    for each in (tags, tagger.tag(TEST, threads=3)):
        assert list(map(texts, each)) == list(map(texts, expected))
    assert (found == probabilities).all()


def test_a_scale_is_fitted_to_gold_tags(tagger):
    # Some tags are those of other words, so that a finite scale is best.
    generator, upos, xpos = np.random.default_rng(1), *Tags.of(TEST)[:2]
    places = np.arange(TEST.n_words)
    moved = generator.random(TEST.n_words) < 0.1
    places[moved] = generator.permutation(places[moved])
    columns = {c: Column(old.names, old.ids[places]) for c, old in ((3, upos), (4, xpos))}
    gold = with_columns(TEST, columns)
    blurred = tagger.with_scale(tagger.pairs.scale / 5)
    fitted, before, after = fit_tag_temperature(blurred, gold, threads=2)
    assert after < before
    assert (tagger.is_calibrated, fitted.is_calibrated) == (False, True)
    loss = fitted.losses(gold)
    assert loss(fitted.pairs.scale) == after
    assert after <= min(loss(fitted.pairs.scale * 1.3), loss(fitted.pairs.scale / 1.3))
    again = Tagger.unpack(io.BytesIO(fitted.pack()), Path("x"))
    assert (again.is_calibrated, again.pairs.scale) == (True, fitted.pairs.scale)
    assert [texts(c) for c in fitted.tag(TEST)] == [texts(c) for c in tagger.tag(TEST)]
    # Only words with a pair that the tagger knows are counted.
    rows = as_treebank("she _ _ _ _\nsees _ NOPE NOPE _\n\n")
    assert tagger.losses(rows) is None
    with pytest.raises(DataError, match="no word has tags"):
        fit_tag_temperature(tagger, rows)


def test_a_frequent_word_gets_what_it_had_and_a_new_one_anything():
    rows = "the the DET DT _\ndog dog NOUN NN Number=Sing\nruns run VERB VBZ Number=Sing\n\n" * 9
    tagger = learn_tagger(as_treebank(rows), bits=16, seed=1)
    found = tagger.tag(as_treebank("dog _ _ _ _\nthe _ _ _ _\nzog _ _ _ _\n\n"))
    assert texts(found.upos)[:2] == ["NOUN", "DET"]
    assert texts(found.feats)[:2] == ["Number=Sing", "_"]
    upos, xpos = texts(found.upos)[2], texts(found.xpos)[2]
    assert (upos, xpos) in {("NOUN", "NN"), ("VERB", "VBZ"), ("DET", "DT")}


def test_feats_are_composed_of_attributes_seen_together():
    seen = {"C=1|N=1": 5, "C=2|N=1": 3, "C=1|N=2": 4}
    assert composed(seen) == []  # C=2 and N=2 do not occur together
    seen |= {"C=2|N=2|P=1": 1}
    assert composed(seen) == ["C=2|N=2"]
    seen |= {"C=1|P=1": 1}
    assert composed(seen) == ["C=2|N=2", "C=2|P=1", "C=1|N=2|P=1"]
    assert composed({"x\tC=1|N=1": 1, "y\tC=2|N=1|P=1": 1, "z\tC=2|P=2": 1}) == [
        "x\tC=2|N=1",
        "z\tC=2|P=1",
    ]
    assert composed({"_": 2, "s|f": 1, "s|m": 1}) == []


def test_feats_that_were_never_seen_are_possible_for_new_words_alone():
    rows = "".join(
        f"{prefix}s _ N n {feats}\n\n{prefix}s _ N n {feats}\n\n"
        for prefix, feats in (("fo", "G=F|N=P"), ("mi", "G=M|N=S"), ("xx", "G=F|N=S|T=X"))
    )
    tagger = learn_tagger(as_treebank(rows), bits=16, seed=1)
    again = Tagger.unpack(io.BytesIO(tagger.pack()), Path("x"))
    words = as_treebank("fot _ N n _\nmis _ N n _\n\n")
    found = again._feats_reader.read(Words.of(words), np.zeros(2, np.int32))
    tags = [again.feats.table.tags[k][1] for k in found.candidates.tolist()]
    n = found.candidate_starts[1]
    assert set(tags[:n]) == {"G=F|N=P", "G=M|N=S", "G=F|N=S|T=X", "G=F|N=S"}
    assert set(tags[n:]) == {"G=F|N=P", "G=M|N=S", "G=F|N=S|T=X"}


def list_of(path: Path, words: Iterable[tuple[str, ...]]) -> str:
    """A file of words with the columns from FORM on, a sentence each."""
    lines = ("\t".join(["1", *columns, *"_" * (9 - len(columns))]) for columns in words)
    path.write_text("".join(f"{line}\n\n" for line in lines))
    return str(path)


@pytest.mark.parametrize("with_xpos", [True, False])
def test_words_of_a_list_get_its_tags(tmp_path: Path, with_xpos: bool) -> None:
    """Words of random letters: nothing but the list tells what new ones are."""
    draw = random.Random(1)
    words = {"".join(draw.choices("abcdefghij", k=7)): draw.choice("XY") for _ in range(200)}
    known, new = list(words)[:150], list(words)[150:]
    rows = as_treebank("".join(f"{word} _ {words[word]} x _\n\n" for word in known))
    pairs = [(word, "_", tag, "x" if with_xpos else "_") for word, tag in words.items()]
    words_file = list_of(tmp_path / "words.conllu", [*pairs, (known[0], "_", "Z")])
    test = as_treebank("".join(f"{word} _ _ _ _\n\n" for word in new))

    def right(tagger: Tagger) -> float:
        again = Tagger.unpack(io.BytesIO(tagger.pack()), Path("x"))
        return sum(a == words[b] for a, b in zip(texts(again.tag(test)[0]), new, strict=True)) / 50

    assert right(learn_tagger(rows, bits=16, seed=1)) < 0.8
    learned = learn_tagger(rows, word_list=words_file, bits=16, seed=1)
    assert right(learned) == 1
    once = {learned.pairs.table.numbers[words[new[0]], "x"]: 1}
    assert learned.words.counts_of(new[0]) == once


@pytest.mark.parametrize("n_others", [0, 130])  # pairs; of many, XPOS is found with FEATS
@pytest.mark.parametrize("with_xpos", [True, False])
def test_words_of_a_list_get_its_feats(tmp_path: Path, n_others: int, with_xpos: bool) -> None:
    draw = random.Random(1)
    words = {
        "".join(draw.choices("abcdefghij", k=7)): draw.choice(["G=F", "G=M"]) for _ in range(300)
    }
    known, new = list(words)[:250], list(words)[250:]
    fine = {word: draw.choice(["x", "y"]) for word in words}
    rows = as_treebank(
        "".join(f"{word} _ X {fine[word]} {words[word]}\n\n" for word in known)
        + "".join(f"other _ Z z{k} _\n\n" for k in range(n_others))
    )
    given = [
        (word, "_", "X", fine[word] if with_xpos else "_", feats) for word, feats in words.items()
    ]
    others = [(new[0], "_", *tags) for tags in (["X"], ["X", "_", "G=N"], ["Y", "_", "G=F"])]
    words_file = list_of(tmp_path / "words.conllu", [*given, *others])
    test = as_treebank("".join(f"{word} _ _ _ _\n\n" for word in new))

    def right(tagger: Tagger) -> float:
        again = Tagger.unpack(io.BytesIO(tagger.pack()), Path("x"))
        return sum(a == words[b] for a, b in zip(texts(again.tag(test)[2]), new, strict=True)) / 50

    assert right(learn_tagger(rows, bits=16, seed=1)) < 0.8
    learned = learn_tagger(rows, word_list=words_file, bits=16, seed=1)
    assert right(learned) > 0.95
    assert learned.feats is not None
    found = {
        learned.feats.table.tags[tag][1].rpartition("\t")[2]
        for name in learned.known_feats.words_of_feats.names
        if name.startswith(f"{new[0]}\t")
        for tag in learned.known_feats.words_of_feats.counts_of(name)
    }
    assert found == {words[new[0]]}


def test_lists_that_say_nothing_are_refused(tmp_path: Path) -> None:
    words_file = list_of(tmp_path / "words.conllu", [("a", "_", "NEW"), ("b", "_", "X", "new")])
    rows = as_treebank("a a X x _\n\n")
    with pytest.raises(
        DataError, match=r"words\.conllu: no word has tags of data\.train.*or _ in X"
    ):
        WordList.read(words_file).left_out(rows)
    with pytest.raises(DataError, match=r"missing\.conllu"):
        learn_tagger(rows, word_list=str(tmp_path / "missing.conllu"), bits=16, seed=1)
    some = list_of(tmp_path / "some.conllu", [("a", "_", "X"), ("b", "_", "Y", "_", "G=F")])
    assert (
        WordList.read(some).left_out(rows) == "the tags of 1 (b: Y, _) and the FEATS of 1 (b: G=F)"
    )
    assert WordList.read(list_of(tmp_path / "all.conllu", [("a", "_", "X")])).left_out(rows) == ""
    with pytest.raises(DataError, match=r"words\.conllu: LEMMA is _ in all words.*give it lemmas"):
        learn_lemmatizer(rows, word_list=words_file, seed=1)


def test_words_of_a_list_get_its_lemmas(tmp_path: Path) -> None:
    """Words that the treebank has keep their own."""
    rows = as_treebank("cats cat N _ _\n\ndogs dog N _ _\n\nwalked walk V _ T=Past\n\n" * 3)
    words = [
        ("dogs", "hound", "N"), ("geese", "goose", "N"), ("geese", "_", "V"), ("Oxen", "ox", "N"),
        ("left", "leave", "V", "_", "T=Past"), ("left", "left", "V", "_", "T=Pres"),
        ("walked", "step", "V", "_", "T=Past"), ("walked", "step", "N"),
    ]  # fmt: skip
    words_file = list_of(tmp_path / "words.conllu", words)
    learned = learn_lemmatizer(rows, word_list=words_file, seed=1)
    again = Lemmatizer.unpack(io.BytesIO(learned.pack()), Path("x"))
    expected = (
        ("cats", "N", "_", "cat"), ("dogs", "N", "_", "dog"), ("geese", "N", "_", "goose"),
        ("Geese", "N", "G=X", "goose"), ("Oxen", "N", "_", "ox"), ("left", "V", "T=Past", "leave"),
        ("left", "V", "T=Pres", "left"), ("walked", "V", "T=Past", "walk"),
        ("walked", "N", "_", "step"),
    )  # fmt: skip
    words_of = as_treebank(
        "".join(f"{form} _ {upos} _ {feats}\n\n" for form, upos, feats, _ in expected)
    )
    assert texts(again.lemmatize(words_of, Tags.of(words_of))) == [row[3] for row in expected]


def test_a_treebank_without_feats_or_tags():
    tagger = learn_tagger(as_treebank("a a X _ _\nb b Y _ _\n\n" * 5), bits=16, seed=1)
    assert tagger.feats is None
    again = Tagger.unpack(io.BytesIO(tagger.pack()), Path("x"))
    found = again.tag(as_treebank("b _ _ _ _\n\n"))
    assert [texts(column) for column in found] == [["Y"], ["_"], ["_"]]
    with pytest.raises(DataError, match="UPOS and XPOS"):
        learn_tagger(as_treebank("a a _ _ _\n\n"), bits=16, seed=1)
    rows = as_treebank("a _ X _ _\n\n")
    with pytest.raises(DataError, match="LEMMA"):
        learn_lemmatizer(rows, seed=1)
    empty = treebank_from_bytes(b"", "empty")
    assert [len(column.ids) for column in again.tag(empty)] == [0, 0, 0]


def test_many_pairs_are_found_by_the_second_model(monkeypatch):
    monkeypatch.setattr("gpuparse.text.tagging.tagger_learner._MANY", 3)
    tagger = learn_tagger(TRAIN, bits=16, seed=1)
    assert {tag[1] for tag in tagger.pairs.table.tags} == {"_"}
    again = Tagger.unpack(io.BytesIO(tagger.pack()), Path("x"))
    for one, two in zip(again.tag(TEST), Tags.of(TEST), strict=True):
        assert np.mean([a == b for a, b in zip(texts(one), texts(two), strict=True)]) > 0.9


def test_lemmas_of_new_words_depend_on_their_own_tags_alone():
    """XPOS too, whatever the lemmatiser has met before."""
    rows = "".join(
        f"{stem}s {stem} N PL _\n{stem}s {stem}s N SG _\n\n"
        for stem in ("lamp", "dog", "cat", "tree", "star", "cloud", "stone", "river")
    )
    learned = learn_lemmatizer(as_treebank(rows), seed=1)
    found = {}
    for order in (("PL", "SG"), ("SG", "PL")):
        fresh = Lemmatizer.unpack(io.BytesIO(learned.pack()), Path("x"))
        for xpos in order:
            words = as_treebank(f"houses _ N {xpos} _\n\n")
            found[order, xpos] = texts(fresh.lemmatize(words, Tags.of(words)))
    assert found == {(order, x): ["house" if x == "PL" else "houses"] for order, x in found}


def test_lemmas_of_known_and_new_words(lemmatizer):
    found = texts(lemmatizer.lemmatize(TEST, Tags.of(TEST)))
    gold = [lemma for sentence in TEST for lemma in sentence.lemmas]
    assert np.mean([a == b for a, b in zip(found, gold, strict=True)]) > 0.9
    rows = "".join(
        f"{stem}s {stem} NOUN NNS Number=Plur\n{stem} {stem} NOUN NN Number=Sing\n\n"
        for stem in ("dog", "cat", "house", "tree", "stone", "river")
    )
    train = as_treebank(rows)
    learned = learn_lemmatizer(train, seed=1)
    new = as_treebank("Lamps _ NOUN NNS Number=Plur\nlamp _ NOUN NN Number=Sing\n\n")
    assert texts(learned.lemmatize(new, Tags.of(new))) == ["lamp", "lamp"]
    strange = as_treebank("qq _ ZZ _ _\n\n")
    assert texts(learned.lemmatize(strange, Tags.of(strange))) == ["qq"]


def test_no_rule_leaves_an_empty_lemma():
    rows = "dogs dog NOUN NN _\ncats cat NOUN NN _\nhens hen NOUN NN _\n\n" * 5
    known = learn_lemmatizer(as_treebank(rows), seed=1)
    words = as_treebank("s _ NOUN NN _\nS _ NOUN NN _\npigs _ NOUN NN _\n\n")
    assert texts(known.lemmatize(words, Tags.of(words))) == ["s", "s", "pig"]
    assert LemmaRule("keep", "10", "", "000", "").apply("10 000") == "10 000"


@pytest.mark.parametrize("column", ["UPOS", "XPOS", "FEATS"])
def test_tags_that_no_model_may_have_are_not_learned(column):
    for text, what in (
        ("", "blank or has NUL"),
        ("a\0", "blank or has NUL"),
        ("x" * 1001, "1,000"),
    ):
        fields = {"LEMMA": "dog", "UPOS": "NOUN", "XPOS": "NN", "FEATS": "A=B"} | {column: text}
        line = "\t".join(["1", "dog", *fields.values(), "_", "_", "_", "_"])
        with pytest.raises(DataError, match=f"^rows: {column}: .*{what}"):
            learn_tagger(treebank_from_bytes(f"{line}\n\n".encode(), "rows"), bits=16, seed=1)


def test_a_lemma_without_a_short_rule_is_not_learned():
    rows = f"dog {'x' * 1001} NOUN NN _\ncats cat NOUN NN _\n\n"
    known = learn_lemmatizer(as_treebank(rows), seed=1)
    again = Lemmatizer.unpack(io.BytesIO(known.pack()), Path("x"))
    assert texts(again.lemmatize(as_treebank(rows), Tags.of(as_treebank(rows)))) == ["dog", "cat"]


def test_fields_are_what_they_are_said_to_be():
    words = as_treebank("Well-known _ A B C\nÄrzte _ A B C\n7th _ A B C\n\n")
    seen = SeenTags.of_classes({"known": "ADJ|VERB", "well-know": "X"})
    expected = {
        "form": ["Well-known", "Ärzte", "7th"], "lower": ["well-known", "ärzte", "7th"],
        "lower[:4]": ["well", "ärzt", None], "lower[-2:]": ["wn", "te", "th"],
        "shape": ["Xx-x", "Xx", "dx"], "shape[:3]": ["Xxx", "Xxx", "dxx"],
        "case": ["-UM"[0:2], "U", "d"], "seen": [None] * 3, "seen[:-1]": ["X", None, None],
        "seen.last": ["ADJ|VERB", None, None], "upos": ["A"] * 3, "feats": ["C"] * 3,
    }  # fmt: skip
    given = {name: expected[name] for name in ("upos", "feats")}
    fields = WordFields(list(expected), list(given), known_forms(expected, seen))
    of_columns = np.array([list(map(value_of, given[name])) for name in given], np.uint32)
    values, places = fields.read_values(Words.of(words), of_columns)
    for row, (field, texts_) in zip(values, expected.items(), strict=True):
        assert is_field(field)
        assert row[places].tolist() == [value_of(text) for text in texts_], field
    assert not is_field("lower[:0]")
    assert not is_field("head")


def test_a_training_word_does_not_see_itself():
    counts = {"a": {"X": 1}, "b": {"X": 1, "Y": 9}}
    found = seen_without_itself(["a", "b", "b"], ["X", "X", "Y"], counts)
    assert found.tolist() == [0, value_of("Y"), value_of("Y|X")]


CASES = ["Ab", "ab", "ΟΔΟΣ", "İ", "ΣΑΣ.", "ǅ", "AB", "οδος", "x", "Σ"]
TAGS = ["V", "N", "É", "N", "NN", "a"]


@pytest.mark.parametrize("seed", range(20))
def test_what_words_were_seen_with_is_counted_by_their_lower_case(seed):
    draw = random.Random(seed)
    names = draw.sample(CASES, draw.randrange(len(CASES) + 1))
    counts: dict[str, dict[int, int]] = {
        name: {tag: draw.choice([1, 2, 3, 100])
        for tag in draw.sample(range(6), draw.randint(1, 6))}
        for name in names
    }  # fmt: skip
    known = Dictionary.of_counts(counts, 1)
    seen = SeenTags.of_dictionary(known, as_bytes("\n".join(names).lower()), TAGS)
    expected: dict[str, Counter[str]] = {}
    for name, of_name in counts.items():
        for tag, n in of_name.items():
            expected.setdefault(name.lower(), Counter())[TAGS[tag]] += n
    asked = [*{name.lower() for name in CASES}, "y", ""]
    classes = [class_of_counts(expected[name]) if name in expected else None for name in asked]
    found = seen.find(as_bytes("\n".join(asked)), len(asked))
    assert found.tolist() == list(map(value_of, classes))


def test_words_with_their_upos_are_in_lower_case():
    names = ["ΟΔΟΣ\tNOUN\tNN", "İx\tX\t", "\tx\tY", "Ab\tVERB\tVB\tZ"]
    expected = "οδος\tNOUN\ni̇x\tX\n\tx\nab\tVERB"
    assert words_with_upos(names).tobytes().decode() == expected
    assert words_with_upos([]).tobytes() == b""
    with pytest.raises(ValueError):
        words_with_upos(["a\tA\tA", "b"])
