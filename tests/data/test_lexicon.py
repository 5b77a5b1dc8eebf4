"""Lexicons: what templates read of them, by dictionaries; faults by line; copies in models."""

import csv
import io

import numpy as np
import pytest

from gpuparse.commands import parse, train
from gpuparse.commands.console import run
from gpuparse.config import load_config
from gpuparse.data.batch import FIRST_VALUE, UNKNOWN, word_places
from gpuparse.data.conll import treebank_from_bytes
from gpuparse.data.lexicon import Lexicon, read_lexicon
from gpuparse.data.synthetic import generate
from gpuparse.data.vocabulary import Encoder, Vocabularies
from gpuparse.errors import ConfigError, DataError, ModelError
from gpuparse.features.templates import parse_set
from gpuparse.jobs import train as train_job
from gpuparse.limits import MAX_LEXICON_COLUMNS
from gpuparse.model_folder import load_parser, save_parser
from tests.hostile_files import facts_of
from tests.parsers import parser_with

TREEBANK = treebank_from_bytes(generate(60, 3), "text")
SET = """
name: clusters
distance: [1, 2, 5]
arc:
  - suffixes: ["", direction distance]
    templates: [h.pos m.pos, h.lexicon.cluster m.lexicon.cluster, m+1.lexicon.size m.pos,
                h.pos between.lexicon.cluster m.pos]
label: [{templates: [m.lexicon.size, h.pos m.pos]}]
word_vectors: {hidden: 0, arc: 8, label: 8, templates: [w.lexicon.cluster, w-1.lexicon.size, w.pos]}
"""


def forms(treebank=TREEBANK) -> list[str]:
    return [treebank.column(word, 1) for word in range(treebank.n_words)]


def text_of(key: str, words: list[str]) -> str:
    """A lexicon with two columns of values; every third word is not there, some have no size."""
    rows = [
        f"{word}\tc{number % 7}\t{['_', '', 'big', 'small'][number % 4]}"
        for number, word in enumerate(sorted(set(words)))
        if number % 3
    ]
    return "\n".join([f"{key}\tcluster\tsize", *rows]) + "\n"


@pytest.mark.parametrize("key", ["form", "lower", "lemma"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_values_are_those_of_a_dictionary(key, end):
    columns = {"form": 1, "lower": 1, "lemma": 2}
    words = [TREEBANK.column(word, columns[key]) for word in range(TREEBANK.n_words)]
    words = [word.lower() if key == "lower" else word for word in words]
    text = text_of(key, words)
    lexicon = Lexicon(text.replace("\n", end), "lexicon")
    rows = csv.DictReader(io.StringIO(text), delimiter="\t", quoting=csv.QUOTE_NONE)
    expected = {row[key]: row for row in rows}
    vocabularies = Vocabularies.build(
        TREEBANK, ["form", "lexicon.cluster", "lexicon.size"], 3, lexicon
    )
    batch = Encoder(vocabularies).encode(TREEBANK)
    for row, name in ((1, "cluster"), (2, "size")):
        seen = vocabularies.values[f"lexicon.{name}"]
        ids = batch.values[row, word_places(batch)]
        found = [None if i == UNKNOWN else seen[i - FIRST_VALUE] for i in ids.tolist()]
        wanted = [expected.get(word, {}).get(name, "_") for word in words]
        assert found == [None if value in ("", "_") else value for value in wanted]
        assert any(found), "nothing is tested"
        assert vocabularies.column(f"lexicon.{name}") == columns[key]


def test_only_lower_ignores_case():
    for key, expected in (("form", None), ("lower", "1")):
        read = Lexicon(f"{key}\tcluster\nDog\t1\n", "lexicon").reader("lexicon.cluster")
        assert read("Dog") == "1"
        assert read("DOG") == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "lexicon:1: an empty lexicon"),
        ("word\tcluster\n", "lexicon:1: the first column is named 'word'; expected form, lower"),
        ("form\n", "lexicon:1: 0 columns of values"),
        ("form" + "\tc" * (MAX_LEXICON_COLUMNS + 1), "lexicon:1: 101 columns of values"),
        ("form\tc\tc\n", "lexicon:1: a name appears twice"),
        ("form\t*\n", "lexicon:1: '*': expected a name"),
        ("form\tc d\n", "lexicon:1: 'c d': expected a name"),
        ("form\tc\na\t1\nb\n", "lexicon:3: 1 column, and the first line names 2"),
        ("form\tc\na\t1\t2\n", "lexicon:2: 3 columns, and the first line names 2"),
        ("form\tc\n\na\t1\n", "lexicon:2: 1 column"),
        ("form\tc\n\t1\n", "lexicon:2: the column 'form' is empty"),
        ("form\tc\na\t1\na\t1\n", "lexicon:3: 'a' appears twice"),
        ("lower\tc\na\t1\nA\t1\n", "lexicon:3: 'a' appears twice"),
    ],
)
def test_faults_have_file_and_line(text, expected):
    with pytest.raises(DataError) as caught:
        Lexicon(text, "lexicon")
    assert str(caught.value).startswith(expected)


def test_files_that_cannot_be_read(tmp_path):
    path = tmp_path / "l.tsv"
    with pytest.raises(DataError, match=r"l\.tsv: cannot be read"):
        read_lexicon(str(path))
    path.write_bytes(b"form\tc\nd\xf8g\t1\n")
    with pytest.raises(DataError, match=r"l\.tsv:2: not UTF-8"):
        read_lexicon(str(path))
    path.write_bytes("\ufeffform\tc\ndøg\t1\n".encode())
    assert read_lexicon(str(path)).reader("lexicon.c")("døg") == "1"


def test_templates_and_lexicon_must_fit():
    lexicon = Lexicon("form\tc\n", "lexicon")
    with pytest.raises(ConfigError, match=r"read lexicon\.c, and there is no lexicon"):
        Vocabularies.build(TREEBANK, ["lexicon.c"], 3)
    with pytest.raises(ConfigError, match="no template reads the lexicon"):
        Vocabularies.build(TREEBANK, ["form"], 3, lexicon)
    with pytest.raises(ConfigError, match=r"read lexicon.d, and the lexicon's columns are c"):
        Vocabularies.build(TREEBANK, ["lexicon.d"], 3, lexicon)
    for field in ("lexicon", "lexicon.", "lexicon.*", "lexicon.é"):
        with pytest.raises(ConfigError, match="unknown field"):
            parse_set(f"arc: [{{templates: [h.{field}]}}]", "set")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model with a lexicon, which was trained on files that are gone."""
    folder = tmp_path_factory.mktemp("lexicon")
    (folder / "set.yaml").write_text(SET)
    (folder / "train.conllu").write_bytes(generate(60, 3))
    (folder / "words.tsv").write_text(text_of("form", forms()))
    (folder / "config.yaml").write_text(
        "features: set.yaml\nlexicon: words.tsv\ndata: {train: train.conllu}\n"
        "labels: {features: set.yaml, epochs: 1, rows: 4096}\nfeature_map: {rows: 4096}\n"
        "learning: {epochs: 2}\nword_vectors: {epochs: 1}\n"
    )
    assert run(train.main, [str(folder / "config.yaml"), f"output={folder / 'model'}"]) == 0
    for name in ("set.yaml", "words.tsv", "train.conllu"):
        (folder / name).rename(folder / f"gone-{name}")
    return folder


def test_a_model_parses_by_its_own_copy(folder, capfdbinary):
    model = load_parser(folder / "model")
    assert model.linear.vocabularies.lexicon.text == (folder / "gone-words.tsv").read_text()
    assert (folder / "model" / "lexicon.tsv").read_bytes().decode() == text_of("form", forms())
    assert b"lexicon: words.tsv" in (folder / "model" / "config.yaml").read_bytes()
    capfdbinary.readouterr()
    assert run(parse.main, [str(folder / "model"), str(folder / "gone-train.conllu")]) == 0
    found = treebank_from_bytes(capfdbinary.readouterr().out, "parsed").heads
    expected = model.parse(TREEBANK)
    assert np.array_equal(found, expected.heads)
    # Without the values of the lexicon there are other trees: they are of use.
    known = model.linear.vocabularies
    blank = Lexicon("form\tcluster\tsize\n", "blank")
    bare = parser_with(model, vocabularies=Vocabularies(known.values, known.pos_column, blank))
    assert not np.array_equal(bare.parse(TREEBANK).heads, expected.heads)


def test_damaged_copies_are_refused(folder, tmp_path):
    model = load_parser(folder / "model")
    save_parser(model, tmp_path)
    assert set(facts_of(tmp_path)[0]["texts"]) >= {"lexicon.tsv", "vocabulary.json"}
    text = (tmp_path / "lexicon.tsv").read_bytes()
    (tmp_path / "lexicon.tsv").write_bytes(text + b"new\tc1\t_\n")
    with pytest.raises(ModelError, match=r"lexicon\.tsv' was changed"):
        load_parser(tmp_path)
    (tmp_path / "lexicon.tsv").unlink()
    with pytest.raises(ModelError, match=r"lexicon\.tsv"):
        load_parser(tmp_path)
    for content in ("form\tcluster\n", "form\tother\tsize\n", "no lexicon"):
        made = Lexicon(text.decode(), "lexicon")
        made.text = content
        known = parser_with(model, compiled=model.linear.plans)
        known.linear.vocabularies.lexicon = made
        save_parser(known, tmp_path)
        with pytest.raises(ModelError, match="not a model of this version"):
            load_parser(tmp_path)


def test_another_lexicon_is_not_resumed(folder, tmp_path, capsys):
    for name in ("set.yaml", "words.tsv", "train.conllu"):
        (tmp_path / name).write_bytes((folder / f"gone-{name}").read_bytes())
    (tmp_path / "config.yaml").write_bytes((folder / "config.yaml").read_bytes())

    class Stopped(Exception):
        pass

    def watch(event):
        if event.stage == "arcs" and event.epoch == 2:
            raise Stopped

    config = load_config(str(tmp_path / "config.yaml"), [f"output={tmp_path / 'model'}"])
    with pytest.raises(Stopped):
        train_job.Run(config, lambda line: None, quiet=True, watch=watch).train(
            resume=False, force=False
        )
    words = [str(tmp_path / "config.yaml"), f"output={tmp_path / 'model'}", "--resume"]
    with (tmp_path / "words.tsv").open("a") as file:
        file.write("new\tc1\t_\n")
    assert run(train.main, words) == 2
    assert "cannot continue: lexicon: has other content" in capsys.readouterr().err
    (tmp_path / "words.tsv").write_bytes((folder / "gone-words.tsv").read_bytes())
    assert run(train.main, words) == 0
    once, resumed = (load_parser(each / "model") for each in (folder, tmp_path))
    assert once.linear.vocabularies.lexicon.text == resumed.linear.vocabularies.lexicon.text
    assert np.array_equal(once.linear.arcs.array, resumed.linear.arcs.array)
    assert once.scales.arc == resumed.scales.arc
