"""Messages of training about empty columns and few sentences, before it learns."""

from dataclasses import replace

import pytest

from gpuparse.commands import train
from gpuparse.commands.console import run
from gpuparse.data.conll import treebank_from_bytes
from gpuparse.features.templates import load_templates, parse_set
from gpuparse.jobs.expectations import FEW_SENTENCES, expectations

ROW = "{}\tdog\t{}\t{}\t{}\t{}\t{}\troot\t_\t_\n"
ALL = ("dog", "NOUN", "NN", "Number=Sing")
SET = """
name: some
arc:
  - templates: [h.pos m.pos, h.form m.form, h.lemma m.pos, m.feats.*, h.form between.fpos]
word_vectors: {hidden: 0, arc: 8, label: 0, templates: [w.form, w-1.cpos]}
"""
LABELS = parse_set("name: labels\nlabel: [{templates: [m.form, m.lemma, g.pos]}]", "labels")


def treebank(*columns: str, count: int = FEW_SENTENCES):
    """Sentences of two words; the columns LEMMA, UPOS, XPOS and FEATS of the first."""
    first, second = ROW.format(1, *columns, 0), ROW.format(2, "_", "_", "_", "_", 1)
    return treebank_from_bytes(f"{first}{second}\n".encode() * count, "text")


def said(*columns: str, wish: str = "auto", count: int = FEW_SENTENCES, labels=LABELS, of=SET):
    found = treebank(*columns, count=count)
    return list(expectations(found, parse_set(of, "set"), labels, wish))


def test_full_columns_of_many_sentences_are_not_worth_a_line():
    assert said(*ALL) == []


@pytest.mark.parametrize(
    ("columns", "names", "count", "expected"),
    [
        (
            ("_", *ALL[1:]),
            "LEMMA (column 3)",
            "2 of 10 templates read this column",
            "little is lost",
        ),
        ((*ALL[:3], "_"), "FEATS (column 6)", "1 of 10 templates read this column", "inflection"),
        (("dog", "NOUN", "_", "_"), "XPOS (column 5), FEATS (column 6)", "2 of 10", "for UPOS has"),
        (("dog", "_", "NN", "_"), "UPOS (column 4), FEATS (column 6)", "2 of 10", "for XPOS has"),
        (
            ("_", "_", "_", "_"),
            "LEMMA (column 3), UPOS (column 4), XPOS (column 5), FEATS (column 6)",
            "7 of 10 templates read these columns",
            "without parts of speech expect",
        ),
    ],
)
def test_empty_columns_name_what_scores_nothing(columns, names, count, expected):
    first, second = said(*columns, wish="coarse" if columns[1] != "_" else "auto")
    assert f"{names}: `_` in every word: {count}" in first
    assert expected in second
    assert ("ten points lower" in second) == (columns[1:3] == ("_", "_"))


def test_columns_that_no_template_reads_are_not_named():
    of = "name: forms\narc: [{templates: [h.form m.form, h.lower m.lower]}]"
    assert said("_", "_", "_", "_", of=of, labels=None) == []
    of = "name: tags\narc: [{templates: [h.pos m.pos]}]"
    *_, last = said("_", "_", "_", "_", of=of, labels=None)
    assert "no template is left" in last


def test_few_sentences(tmp_path):
    assert "499 sentences are few" in said(*ALL, count=FEW_SENTENCES - 1)[0]
    assert "choose" not in said(*ALL, count=50)[0]  # there is no better config
    alone = replace(load_templates("vectors"), label=())
    lines = list(expectations(treebank(*ALL, count=50), alone, None, "auto"))
    assert "word vectors alone are then worse than templates; choose `default`" in lines[-1]


def test_training_says_it(tmp_path, capfd):
    (tmp_path / "train.conllu").write_bytes(treebank("_", "_", "_", "_", count=25).data.tobytes())
    words = ["first-order-projective", f"data.train={tmp_path / 'train.conllu'}"]
    words += [f"output={tmp_path / 'model'}", "learning.epochs=1", "labels.epochs=1"]
    words += ["feature_map.rows=1024", "labels.rows=1024", "calibration=none"]
    assert run(train.main, words) == 0
    text = capfd.readouterr().err
    assert "LEMMA (column 3), UPOS (column 4), XPOS (column 5), FEATS (column 6)" in text
    assert "25 sentences are few" in text
    assert run(train.main, [*words, "--force", "--quiet"]) == 0
    assert capfd.readouterr().err == ""
