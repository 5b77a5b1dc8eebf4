"""Vocabularies and batches against a naive encoder that works word by word."""

import itertools
from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuparse.data import vocabulary
from gpuparse.data.batch import AFTER, BEFORE, FIRST_VALUE, MARGIN, ROOT, UNKNOWN, word_places
from gpuparse.data.conll import treebank_from_bytes
from gpuparse.data.vocabulary import (
    MAX_FINE_TAGS,
    Encoder,
    Vocabularies,
    attributes,
    choose_pos_column,
    column,
    distinct,
    empty_columns,
    frequent_pairs,
    is_field,
    reader,
    seen_attributes,
)
from tests.oracles.arc_features import known_values, source_column, value_of
from tests.samples import FEATS, FORMS, LEMMAS, Sentence, random_sentences, row, treebank_of
from tests.scoring.forms import as_tensors

FIELDS = [
    "form", "lower", "lemma", "cpos", "fpos", "pos", "feats", "feats.Case", "feats.Flag",
    "form[:1]", "form[:5]", "form[-3:]", "lower[:2]", "lower[-6:]", "lemma[:4]", "lemma[-1:]",
]  # fmt: skip


def naive_rows(
    sentences: list[Sentence], train: list[Sentence], fields: list[str], pos_column: int
) -> list[list[int]]:
    """The ids of every field, place by place."""
    known = known_values(train, fields, pos_column)
    rows = []
    for field in fields:
        ids: list[int] = []
        for sentence in sentences:
            ids += [BEFORE] * MARGIN + [ROOT]
            for word in sentence:
                value = value_of(field, word, pos_column)
                unknown = value is None or value not in known[field]
                ids.append(UNKNOWN if unknown else FIRST_VALUE + known[field].index(value))
            ids += [AFTER] * MARGIN
        rows.append(ids)
    return rows


@st.composite
def treebanks(draw: st.DrawFn) -> list[Sentence]:
    text = st.text(
        st.characters(exclude_categories=("Cs", "Cc", "Z")), min_size=1, max_size=8
    ).filter(lambda t: not t.startswith("#"))
    forms = draw(st.lists(text, min_size=1, max_size=4)) + FORMS
    word = st.fixed_dictionaries(
        {
            "lemma": st.sampled_from(LEMMAS) | text,
            "cpos": st.sampled_from(["N", "V", "_"]),
            "fpos": st.sampled_from(["NN", "VV", "_", "ñ"]),
            "feats": st.sampled_from(FEATS),
        }
    )
    sentence = st.lists(st.tuples(st.sampled_from(forms), word), min_size=1, max_size=7)
    return [
        [row(m, form, m - 1, **columns) for m, (form, columns) in enumerate(words, start=1)]
        for words in draw(st.lists(sentence, min_size=1, max_size=4))
    ]


@settings(max_examples=60, deadline=None)  # the first example compiles
@given(treebanks(), treebanks(), st.sampled_from([3, 4]))
def test_encoding_equals_the_naive_encoder(
    train: list[Sentence], test: list[Sentence], pos_column: int
) -> None:
    vocabularies = Vocabularies.build(treebank_of(train), FIELDS, pos_column)
    assert vocabularies.values == known_values(train, FIELDS, pos_column)
    encoder = Encoder(vocabularies)
    for sentences in (test, train, test):  # the second time from the encoder's memory
        batch = encoder.encode(treebank_of(sentences))
        expected = naive_rows(sentences, train, FIELDS, pos_column)
        assert batch.values.dtype == np.int32
        assert batch.values.tolist() == expected
        assert batch.lengths.tolist() == [len(sentence) for sentence in sentences]
        roots = batch.values[0, batch.starts]
        assert roots.tolist() == [ROOT] * len(sentences)


@pytest.mark.parametrize(
    ("feats", "expected"),
    [
        ("_", {}),
        ("Case=Nom", {"Case": "Nom"}),
        ("Case=Nom|Number=Sing", {"Case": "Nom", "Number": "Sing"}),
        ("Flag", {"Flag": "Flag"}),
        ("Flag|Case=Acc", {"Flag": "Flag", "Case": "Acc"}),
        ("Typo=", {"Typo": "Typo"}),
        ("=x", {}),
        ("a=b=c", {"a": "b=c"}),
        ("a=1||b=2", {"a": "1", "b": "2"}),
        ("Case[psor]=Gen,Dat", {"Case[psor]": "Gen,Dat"}),
    ],
)
def test_attributes(feats: str, expected: dict[str, str]) -> None:
    assert attributes(feats) == expected
    for name, value in expected.items():
        assert reader(f"feats.{name}")(feats) == value
    assert reader("feats.Missing")(feats) is None


def test_fields_read_their_columns() -> None:
    for field in FIELDS:
        assert is_field(field)
        if field != "pos":
            assert column(field) == source_column(field, 3)
    for wrong in ("", "word", "feats.", "form[0]", "form[:0]", "form[:10]", "pos[:2]", "Form"):
        assert not is_field(wrong)


def tagged(coarse: list[str], fine: list[str]) -> list[Sentence]:
    return [
        [
            row(m, "a", m - 1, cpos=c, fpos=f)
            for m, (c, f) in enumerate(zip(coarse, fine, strict=True), start=1)
        ]
    ]


@pytest.mark.parametrize(
    ("fine", "expected"),
    [
        (["_", "_", "_"], 3),
        (["X", "X", "_"], 3),
        (["X", "Y", "_"], 4),
        ([f"T{i}" for i in range(MAX_FINE_TAGS)], 4),
        (["_", *(f"T{i}" for i in range(MAX_FINE_TAGS))], 4),
        ([f"T{i}" for i in range(MAX_FINE_TAGS + 1)], 3),
    ],
)
def test_pos_is_fine_where_there_are_neither_too_few_nor_too_many(
    fine: list[str], expected: int
) -> None:
    treebank = treebank_of(tagged(["N"] * len(fine), fine))
    assert choose_pos_column(treebank, "auto") == expected
    assert choose_pos_column(treebank, "fine") == 4
    assert choose_pos_column(treebank, "coarse") == 3
    vocabularies = Vocabularies.build(treebank, ["pos"], expected)
    seen = ["N"] if expected == 3 else [tag for tag in fine if tag != "_"]
    assert vocabularies.values == {"pos": list(dict.fromkeys(seen))}


def naive_pairs(sentences: list[Sentence]) -> Counter[tuple[str, str]]:
    """The arcs that have each pair of attributes, the head's first."""
    counts = Counter[tuple[str, str]]()
    for sentence in sentences:
        for word in sentence:
            if word[6] not in ("0", "_"):
                head = sentence[int(word[6]) - 1]
                counts.update(itertools.product(attributes(head[5]), attributes(word[5])))
    return counts


@pytest.mark.parametrize("seed", range(3))
def test_pairs_of_attributes_are_those_of_the_most_arcs(seed: int) -> None:
    sentences = random_sentences(seed, 30, 8, projective=False)
    sentences[3][0][6] = "_"
    counts = naive_pairs(sentences)
    assert len(counts) == 9
    treebank = treebank_of(sentences)
    assert frequent_pairs(treebank, 9) == frequent_pairs(treebank, 100) == sorted(counts)
    best = sorted(counts, key=lambda pair: (-counts[pair], pair))
    assert frequent_pairs(treebank, 5) == sorted(best[:5])


def test_pairs_of_attributes_are_of_the_most_frequent_attributes() -> None:
    head, other = row(1, "a", 0, feats="A=1|C=1"), row(2, "b", 1, feats="C=2|D=1|B=1")
    treebank = treebank_of([[head, other]] * 2)
    assert frequent_pairs(treebank, 2) == [("A", "C"), ("C", "C")]
    assert frequent_pairs(treebank, 3) == [("A", "B"), ("A", "C"), ("C", "B")]
    assert frequent_pairs(treebank_of([[head]]), 4) == []
    assert frequent_pairs(treebank_of([[row(1, "a", 0), row(2, "b", 1)]]), 4) == []


def test_seen_attributes_are_sorted_and_distinct() -> None:
    treebank = treebank_of([[row(1, "a", 0, feats="B=1|A=2"), row(2, "b", 1, feats="C|A=3")]])
    assert seen_attributes(treebank) == ["A", "B", "C"]
    assert distinct(treebank, 1) == ["a", "b"]


def test_ids_of_vocabularies() -> None:
    vocabularies = Vocabularies({"form": ["a", "b"], "pos": []}, 4)
    assert vocabularies.fields == ["form", "pos"]
    assert vocabularies.ids("form", ["a", "b", "c", None]) == [4, 5, UNKNOWN, UNKNOWN]
    assert (vocabularies.size("form"), vocabularies.size("pos")) == (6, 4)


def test_ids_stay_when_the_cache_grows_and_when_it_starts_afresh(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    train = random_sentences(1, 10, 8)
    vocabularies = Vocabularies.build(treebank_of(train), FIELDS, 3)
    treebank = treebank_of(train)
    expected = Encoder(vocabularies).encode(treebank).values
    monkeypatch.setattr(vocabulary, "_CACHE_LIMIT", 50)
    encoder = Encoder(vocabularies)
    for start in range(0, 400, 40):
        words = [row(m, f"new{start + m}", m - 1, lemma=f"l{start + m}") for m in range(1, 41)]
        encoder.encode(treebank_of([words]))
        assert np.array_equal(encoder.encode(treebank).values, expected)


def test_subsets_share_memory_and_lose_nothing() -> None:
    sentences = random_sentences(2, 8, 6)
    vocabularies = Vocabularies.build(treebank_of(sentences), ["form", "pos"], 3)
    batch = Encoder(vocabularies).encode(treebank_of(sentences))
    part = batch.select(np.array([5, 2]))
    assert part.values is batch.values
    assert part.lengths.tolist() == [len(sentences[5]), len(sentences[2])]
    moved = as_tensors(part).to(torch.device("cpu"))
    for one, other in zip(part.places(), moved.places(), strict=True):
        assert np.array_equal(part.values[:, one], moved.values[:, other])
    places = word_places(part)
    forms = [word[1] for b in (5, 2) for word in sentences[b]]
    assert vocabularies.ids("form", forms) == part.values[0, places].tolist()


def test_places_stay_within_the_sentence_and_its_edges() -> None:
    sentences = random_sentences(3, 6, 7)
    batch = Encoder(Vocabularies({"form": []}, 3)).encode(treebank_of(sentences))
    places = batch.places()
    assert places.shape == (6, max(map(len, sentences)) + 1)
    for b, n in enumerate(batch.lengths.tolist()):
        start = int(batch.starts[b])
        assert places[b, : n + 1].tolist() == list(range(start, start + n + 1))
        assert set(places[b, n + 1 :].tolist()) <= {start + n + 1}


def test_no_sentences_are_an_empty_batch() -> None:
    batch = Encoder(Vocabularies({"form": ["a"], "pos": []}, 3)).encode(treebank_of([]))
    assert len(batch) == 0
    assert batch.values.shape == (2, 0)
    assert word_places(batch).tolist() == np.array([]).tolist()


@pytest.mark.parametrize("pos_column", [3, 4])
def test_columns_are_empty_where_no_word_has_what_is_known(pos_column: int) -> None:
    full = [[row(1, "a", 0, lemma="l", cpos="N", fpos="NN", feats="Case=Nom")]]
    known = Vocabularies.build(treebank_of(full), FIELDS, pos_column)
    assert empty_columns(treebank_of(full), known.known_by_column) == {}
    bare = [[row(1, "_", 0, lemma="_", cpos="_", fpos="_", feats="_")]]
    found = empty_columns(treebank_of(bare), known.known_by_column)
    assert list(found) == [1, 2, 3, 4, 5]
    assert ("pos" in found[3], "pos" in found[4]) == (pos_column == 3, pos_column == 4)
    assert empty_columns(treebank_of(bare + full), known.known_by_column) == {}
    nothing = Vocabularies.build(treebank_of(bare), FIELDS, 3).known_by_column
    assert list(empty_columns(treebank_of(bare), nothing)) == [1]


@pytest.mark.parametrize("n", [0, 1, 5])
def test_few_strings_are_found_as_many_are(n):
    text = "".join(
        f"{k + 1}\t{form}\t_\t_\t_\t_\t_\t_\t_\t_\n" for k, form in enumerate("äbäc語"[:n])
    )
    treebank = treebank_from_bytes((text + "\n").encode(), "t")
    bounds = treebank.columns[:, 1], treebank.columns[:, 2] - 1
    few, many = (
        find(treebank.data, *bounds) for find in (vocabulary._few_strings, vocabulary._many_strings)
    )
    assert few[0].dtype == many[0].dtype
    assert few[0].tolist() == many[0].tolist()
    assert few[1] == many[1] == list(dict.fromkeys("äbäc語"[:n]))
