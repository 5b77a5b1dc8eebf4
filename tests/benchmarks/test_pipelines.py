"""The benchmark of whole pipelines, on a generated treebank and a small model."""

import argparse

import pytest

from benchmarks import pipelines
from gpuparse.commands import train
from gpuparse.data.synthetic import generate
from gpuparse.errors import ConfigError
from tests.commands.test_stages import KEYS


def test_a_pipeline_is_scored_and_timed(tmp_path):
    model, treebank = tmp_path / "model", tmp_path / "gold.conllu"
    train.main([*KEYS, "tagger.folds=1", f"output={model}", "--quiet"])
    treebank.write_bytes(generate(30, 5))
    words = [str(model), "--treebank", str(treebank), "--from", "words", "--copies", "2"]
    parser = argparse.ArgumentParser()
    pipelines.add_arguments(parser)
    options = parser.parse_args(words)
    options.threads, options.repeats = 1, 1
    pipelines.check(options)
    rows = {row[0]: row[1] for row in pipelines.run(options).rows}
    assert float(rows["UPOS"]) > 95
    assert float(rows["LAS"]) > 70
    assert rows["words/s"] > 0
    options.threads = 2
    with pytest.raises(ConfigError, match="one thread"):
        pipelines.check(options)
    options.threads, options.models = 1, [tmp_path / "none"]
    with pytest.raises(ConfigError, match="no such model folder"):
        pipelines.check(options)
