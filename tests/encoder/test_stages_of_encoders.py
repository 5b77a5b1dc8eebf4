"""The benchmark of the stages of a pipeline with an encoder."""

import argparse

import pytest

from benchmarks import pipelines


def test_the_stages_of_an_encoder(models):
    model = models.model("bert", "stages", tokenizer__learn=True)
    treebank = models.folder / "gold.conllu"
    treebank.write_bytes(models.gold)
    parser = argparse.ArgumentParser()
    pipelines.add_arguments(parser)
    options = parser.parse_args([str(model), "--treebank", str(treebank), "--stages"])
    options.threads, options.repeats = 1, 1
    pipelines.check(options)
    stages = {row[1]: row[2] for row in pipelines.run(options).rows}
    assert list(stages) == [
        "tokeniser", "reading of words, pieces", "hidden states", "columns", "writing of columns",
        "arcs and relations", "all",
    ]  # fmt: skip
    assert stages["all"] == pytest.approx(sum(stages.values()) - stages["all"])
