"""The benchmark of whole pipelines, on a generated treebank and a small model."""

import argparse

import pytest

from benchmarks import pipelines
from gpuparse.commands import train
from gpuparse.errors import ConfigError
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
    assert float(rows["UPOS"]) > 95
    assert float(rows["LAS"]) > 70
    assert rows["words/s"] > 0
    options.threads = 2
    with pytest.raises(ConfigError, match="one thread"):
        pipelines.check(options)
    options.threads, options.models = 1, [tmp_path / "none"]
    with pytest.raises(ConfigError, match="no such model folder"):
        pipelines.check(options)


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
