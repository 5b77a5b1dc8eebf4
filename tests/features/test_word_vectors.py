"""The section of word vectors: what it reads and refuses, and the rows that values get."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gpuparse.data.batch import UNKNOWN, word_places
from gpuparse.data.conll import read_treebank
from gpuparse.data.vocabulary import Encoder, Vocabularies, seen_attributes
from gpuparse.errors import ConfigError
from gpuparse.features import word_vectors
from gpuparse.features.templates import dump_set, fields_read, load_templates, parse_set
from gpuparse.features.word_vectors import (
    DISTANCE,
    VectorTemplates,
    compile_vectors,
    frequent_values,
)
from tests.samples import random_sentences, treebank_of

SECTION = "word_vectors: {hidden: 8, arc: 4, label: 2, templates: [w.pos, w-1.form, w.feats.*]}"


def vectors_of(text: str) -> VectorTemplates:
    vectors = parse_set(text, "set").word_vectors
    assert vectors is not None
    return vectors


def test_a_set_may_have_vectors_alone():
    templates = parse_set(SECTION, "set")
    vectors = vectors_of(SECTION)
    assert list(map(str, vectors.templates)) == ["w.pos", "w-1.form", "w.feats.*"]
    assert (vectors.hidden, vectors.arc, vectors.label) == (8, 4, 2)
    assert vectors.distance == DISTANCE
    assert parse_set(dump_set(templates), "again") == templates
    assert fields_read(templates, None) == ["feats.*", "form", "pos"]


def test_a_shipped_section_stands_beside_other_templates():
    templates = parse_set("arc: mcdonald-2005\nword_vectors: vectors", "set")
    assert templates.arc == load_templates("mcdonald-2005").arc
    assert templates.word_vectors == load_templates("vectors").word_vectors
    assert templates.word_vectors.sibling > 0
    alone = replace(templates.word_vectors, sibling=0, grandparent=0)  # no template scores them
    assert templates.first_order() == replace(templates, word_vectors=alone)
    with pytest.raises(ConfigError, match="no shipped set that has word_vectors"):
        parse_set("word_vectors: labels", "set")


def test_the_templates_of_a_shipped_set_may_have_other_sizes():
    text = "word_vectors: {hidden: 8, arc: 4, label: 2, templates: NAME}"
    vectors = vectors_of(text.replace("NAME", "vectors"))
    shipped = vectors_of(dump_set(load_templates("vectors")))
    assert (vectors.templates, vectors.between) == (shipped.templates, shipped.between)
    assert (vectors.hidden, vectors.arc, vectors.label, vectors.sibling) == (8, 4, 2, 0)
    with pytest.raises(ConfigError, match="'labels' is no shipped set that has word_vectors"):
        vectors_of(text.replace("NAME", "labels"))


def test_attributes_are_written_out_once():
    text = SECTION.replace("w.feats.*]", "w.feats.Case, w.feats.*]")
    expanded = parse_set(text, "set").expanded(["Case", "Number"]).word_vectors
    assert expanded is not None
    words = ["w.pos", "w-1.form", "w.feats.Case", "w.feats.Number"]
    assert list(map(str, expanded.templates)) == words
    with pytest.raises(ConfigError, match=r"513 templates.*more than 512"):
        parse_set(SECTION, "set").expanded([str(i) for i in range(511)])


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("hidden: 8", "hidden: 4097", "hidden: a whole number from 0 to 4096"),
        ("hidden: 8", "hidden: true", "hidden: a whole number"),
        ("hidden: 8, ", "", "hidden: a whole number"),
        ("arc: 4", "arc: 0", "arc: a whole number from 1 to 2048"),
        ("label: 2", "label: 1.5", "label: a whole number"),
        ("label: 2", "label: 2, sibling: 2049", "sibling: a whole number from 0 to 2048"),
        (
            "label: 2",
            "labels: 2",
            "has the keys templates, hidden, arc, sibling, grandparent, label and distance",
        ),
        ("[w.pos, w-1.form, w.feats.*]", "w.pos", "'w.pos' is no shipped set"),
        ("[w.pos, w-1.form, w.feats.*]", "[]", "a list of templates"),
        ("w.pos", "h.pos", "with a role of w"),
        ("w.pos", "w.pos w.form", "unknown field 'pos w.form'"),
        ("w.pos", "w-4.pos", "looks further than 3 words"),
        ("w.pos", "w.no", "unknown field 'no'"),
        ("w.pos", "w-1.form", "'w-1.form' appears twice"),
        ("w.pos", "w.feats.**", "looks at one attribute"),
        ("w.pos", "between.no", "unknown field 'no'"),
        ("w.pos", "between.feats.*", "name one attribute"),
        ("w.pos", "between.pos, between.cpos", "only one between.FIELD"),
        ("[w.pos, w-1.form, w.feats.*]", "[between.pos]", "none of the word itself"),
        ("arc: 4", "arc: 4, distance: [2, 1]", "at most 15 upper ends, rising"),
        ("arc: 4", "arc: 4, distance: [10001]", "from 1 to 10,000"),
        ("arc: 4", f"arc: 4, distance: {list(range(1, 17))}", "at most 15 upper ends"),
        (SECTION, "word_vectors: 5", "has the keys templates"),
        (SECTION, "word_vectors: null", "at least one template is needed"),
    ],
)
def test_what_is_refused(old: str, new: str, message: str) -> None:
    assert old in SECTION
    with pytest.raises(ConfigError, match=message):
        parse_set(SECTION.replace(old, new, 1), "set")


def test_rows_are_those_of_values_that_are_frequent_enough(tmp_path: Path):
    path = tmp_path / "two.conllu"
    words = [["the", "dog", "saw", "the", "cat"], ["the", "dog"]]
    lines = [
        "".join(
            f"{i}\t{word}\t_\tX\t_\tCase=Nom\t{0 if i == 1 else 1}\tdep\t_\t_\n"
            for i, word in enumerate(sentence, 1)
        )
        for sentence in words
    ]
    path.write_text("\n".join(lines) + "\n")
    treebank = read_treebank(str(path))
    text = "word_vectors: {hidden: 0, arc: 1, label: 0, templates: [w.form, w-1.form, w.feats.*],"
    text += " distance: [1, 3]}"
    text = text.replace("w.feats.*]", "w.feats.*, between.form]")
    vectors = vectors_of(text).expanded(seen_attributes(treebank))
    vocabularies = Vocabularies.build(treebank, ["feats.Case", "form"], 3)
    batch = Encoder(vocabularies).encode(treebank)

    has_row = frequent_values(vectors, vocabularies, batch, 2)
    plan = compile_vectors(vectors, vocabularies, has_row)
    # By definition: count the values of all nodes.
    expected = []
    for atom in vectors.templates:
        row = batch.values[vocabularies.fields.index(atom.field)]
        seen = [
            row[start + node + atom.offset]
            for start, length in zip(batch.starts, batch.lengths, strict=True)
            for node in range(length + 1)
        ]
        sizes = range(vocabularies.size(atom.field))
        expected += [seen.count(value) >= 2 and value != UNKNOWN for value in sizes]
    size = vocabularies.size("form")
    forms = batch.values[1, word_places(batch)].tolist()
    of_words = [forms.count(value) >= 2 and value != UNKNOWN for value in range(size)]
    assert has_row.tolist() == expected + of_words
    assert plan.n_between == sum(of_words)
    numbers = plan.between_places[has_row[-size:]]
    assert numbers.tolist() == list(range(plan.n_between))
    assert (plan.between_places[~has_row[-size:]] == -1).all()
    assert plan.between_row == vocabularies.fields.index("form")
    has_row = has_row[:-size]
    assert plan.n_rows == sum(expected)
    assert plan.places[has_row].tolist() == list(range(plan.n_rows))
    assert (plan.places[~has_row] == -1).all()
    assert plan.rows.tolist() == [1, 1, 0]
    assert plan.offsets.tolist() == [0, -1, 0]
    assert plan.starts.tolist() == [0, *np.cumsum(plan.sizes)[:-1].tolist()]
    assert (plan.buckets.tolist(), plan.n_buckets) == ([0, 1, 1, 2], 3)
    with pytest.raises(ValueError, match="values, of which"):
        compile_vectors(vectors, vocabularies, has_row[1:])
    with pytest.raises(ValueError, match="unknown values"):
        compile_vectors(vectors, vocabularies, np.ones(len(has_row) + size, np.bool_))


@pytest.mark.parametrize(("few_words", "same_as"), [(1, 5), (10_000, 2)])
def test_auto_counts_by_the_size_of_the_treebank(
    monkeypatch: pytest.MonkeyPatch, few_words: int, same_as: int
):
    treebank = treebank_of(random_sentences(3, 3, 9))
    vectors = vectors_of(SECTION.replace("w.feats.*", "between.form"))
    vocabularies = Vocabularies.build(treebank, sorted(set(vectors.reads.values())), 3)
    batch = Encoder(vocabularies).encode(treebank)
    monkeypatch.setattr(word_vectors, "FEW_WORDS", few_words)
    found = frequent_values(vectors, vocabularies, batch, "auto")
    other = frequent_values(vectors, vocabularies, batch, 7 - same_as)
    assert found.tolist() == frequent_values(vectors, vocabularies, batch, same_as).tolist()
    assert found.tolist() != other.tolist()


def test_few_values_of_words_in_between_are_told_apart(monkeypatch: pytest.MonkeyPatch):
    treebank = treebank_of(random_sentences(3, 40, 9))
    vectors = vectors_of(SECTION.replace("w.feats.*", "between.form"))
    vocabularies = Vocabularies.build(treebank, sorted(set(vectors.reads.values())), 3)
    batch = Encoder(vocabularies).encode(treebank)
    counts = np.bincount(batch.values[vocabularies.fields.index("form"), word_places(batch)])
    frequent = np.sort(counts[UNKNOWN + 1 :])[::-1]
    monkeypatch.setattr(word_vectors, "MAX_BETWEEN_VALUES", 3)
    has_row = frequent_values(vectors, vocabularies, batch, 1)
    kept = np.flatnonzero(has_row[-vocabularies.size("form") :])
    assert len(kept) == 3
    assert set(counts[kept[kept < len(counts)]]) <= set(frequent[:3])
    assert compile_vectors(vectors, vocabularies, has_row).n_between == 3
    has_row[-1] = has_row[-2] = has_row[-3] = has_row[-4] = True
    with pytest.raises(ValueError, match="values of words in between"):
        compile_vectors(vectors, vocabularies, has_row)
