"""The benchmark of whole pipelines, on a generated treebank and a small model."""

import argparse

import numpy as np
import pytest

from benchmarks import pipelines
from gpuparse.commands import train
from gpuparse.errors import ConfigError
from gpuparse.sequences.learner import known_features
from gpuparse.sequences.model import SequenceModel, Sequences
from gpuparse.sequences.tags import TagTable
from gpuparse.sequences.templates import parse_sequence_templates
from tests.commands.test_stages import KEYS
from tests.synthetic import generate


def test_a_pipeline_is_scored_and_timed(tmp_path):
    model, treebank = tmp_path / "model", tmp_path / "gold.conllu"
    keys = [*KEYS, "tagger.folds=1", "tokenizer.learn=true"]
    train.main([*keys, f"output={model}", "--quiet"])
    treebank.write_bytes(generate(30, 5))
    words = [str(model), "--treebank", str(treebank), "--from", "words", "--copies", "2"]
    words += ["--plot", str(tmp_path / "plot.svg")]
    parser = argparse.ArgumentParser()
    pipelines.add_arguments(parser)
    options = parser.parse_args(words)
    options.threads, options.repeats = 1, 1
    pipelines.check(options)
    rows = {row[0]: row[1] for row in pipelines.run(options).rows}
    assert "gpuparse" in (tmp_path / "plot.svg").read_text()
    options.stages = True
    with pytest.raises(ConfigError, match="measures no LAS"):
        pipelines.check(options)
    stages = {row[1]: row[2:] for row in pipelines.run(options).rows}
    assert list(stages) == [
        "tokeniser", "reading of words", "tagger", "lemmatiser", "writing of columns", "parser",
        "all",
    ]  # fmt: skip
    total, search, _ = stages["all"]
    assert 0 < search < total
    assert 0 < stages["tagger"][1] < stages["tagger"][0]
    assert stages["tagger"][2] > 0
    options.stages = False
    assert float(rows["UPOS"]) > 95
    assert float(rows["LAS"]) > 70
    assert rows["words/s"] > 0
    options.threads = 2
    with pytest.raises(ConfigError, match="one thread"):
        pipelines.check(options)
    options.threads, options.models = 1, [tmp_path / "none"]
    with pytest.raises(ConfigError, match="no such model folder"):
        pipelines.check(options)


def test_weights_are_counted():
    table = TagTable((("A", "x"), ("B", "y"), ("B", "z")), False)
    text = "name: t\ntemplates: [bias, w.a]"
    templates = parse_sequence_templates(text, "t", lambda name: True)
    features = np.array([[1 << 30, 2 << 30], [1 << 30, 0], [1 << 30, 3 << 30]], np.uint32)
    known = known_features(features[:2], 1)
    model = SequenceModel(templates, table, np.zeros(8, np.int16), known, 1.0, np.array([1, 2]))
    candidates = np.array([0, 1, 2], np.int32)
    sequences = Sequences(features, np.array([0, 3]), np.array([0, 0, 1, 3]), candidates)
    # Two features for each of two classes; one tag alone; one feature for each of two tags.
    assert pipelines.weights_read(model, sequences) == 2 * 2 + 0 + 1 * 2


def test_a_pipeline_of_spacy_is_scored(tmp_path, monkeypatch):
    spacy = pytest.importorskip("spacy")
    blank = spacy.blank("en")
    blank.add_pipe("sentencizer")
    monkeypatch.setattr(spacy, "load", lambda name, exclude: blank)
    treebank = tmp_path / "gold.conllu"
    treebank.write_bytes(generate(30, 5))
    parser = argparse.ArgumentParser()
    pipelines.add_arguments(parser)
    # Any package that is there stands for one of models.
    options = parser.parse_args(["spacy:numpy", "--treebank", str(treebank), "--copies", "2"])
    options.threads, options.repeats = 1, 1
    pipelines.check(options)
    rows = {row[0]: row[1] for row in pipelines.run(options).rows}
    assert float(rows["Words"]) > 90
    assert 0 <= float(rows["UAS"]) < 100
    assert rows["words/s"] > 0
    for wrong, more in (("spacy:no_such_package", []), ("spacy:numpy", ["--from", "words"])):
        options = parser.parse_args([wrong, "--treebank", str(treebank), *more])
        options.threads = 1
        with pytest.raises(ConfigError, match="spacy"):
            pipelines.check(options)
