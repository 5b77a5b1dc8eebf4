"""The subjects of the cases: a treebank, and models trained on it."""

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

import gpuparse
from gpuparse.config.schema import (
    DataConfig,
    FeatureMapConfig,
    LabelsConfig,
    LearningConfig,
    PruningConfig,
    RunConfig,
)
from gpuparse.data.conll import read_treebank, treebank_from_bytes
from gpuparse.data.treebank import Treebank
from gpuparse.features.templates import load_templates
from gpuparse.inference.decoders import DECODERS
from gpuparse.learning.trainer import Trainer
from gpuparse.model.parser import Parser
from tests.synthetic import generate, treebank_file

GENERATED = "4000 generated sentences"
SYSTEMS = (
    ("mcdonald-2005", "eisner"),
    ("extended", "eisner"),
    ("mcdonald-pereira-2006", "eisner_sibling"),
    ("mcdonald-pereira-2006", "hill_climb"),
    ("extended", "eisner_sibling"),
    ("extended", "hill_climb"),
)  # templates, decoder
HIGHER = tuple(
    ("grandchildren" if decoder.reads_children else "third-order", name)
    for name, decoder in DECODERS.items()
    if decoder.is_higher_order
)


def add_treebank_argument(parser: argparse.ArgumentParser) -> None:
    """`--treebank FILE`: what to train on and to parse."""
    parser.add_argument(
        "--treebank", metavar="FILE", help=f"CoNLL file to run on; otherwise {GENERATED}"
    )


def read_subject(path: str | None) -> Treebank:
    """The treebank of `--treebank`."""
    return read_treebank(path) if path else treebank_from_bytes(generate(4000, 1), GENERATED)


def options_for(
    n_rows: int, *, epochs: int, decoder: str = "eisner", cost_augmented: bool = True
) -> RunConfig:
    """A run as in the shipped configs."""
    return RunConfig(
        output="model",
        decoder=decoder,
        data=DataConfig(train="train.conllu"),
        feature_map=FeatureMapConfig(rows=n_rows),
        learning=LearningConfig(epochs=epochs, cost_augmented=cost_augmented),
        labels=LabelsConfig(rows=1 << 20, epochs=1),
        pruning=PruningConfig(threshold=0.001, max_heads=10),
    )


def trained_model(
    treebank: Treebank,
    features: str,
    *,
    decoder: str = "eisner",
    n_rows: int,
    labels: str | None,
) -> Parser:
    """A model after two epochs: as fast as one after ten, and as full of weights.

    labels: a set of label templates; `joint-labels` are found with the trees.
    """
    label_templates = load_templates(labels) if labels else None
    options = options_for(n_rows, epochs=2, decoder=decoder)
    if labels == "joint-labels":
        options = replace(options, labels=replace(options.labels, kind="joint", rows=n_rows))
    trainer = Trainer(treebank, load_templates(features), label_templates, options)
    for _ in trainer.learn():
        pass
    return trainer.model(16)


def learned_model(name: str, folder: Path, *, small: bool, **keys: Any) -> str:
    """The folder of a model of a shipped config after two epochs on generated sentences.

    keys: of the config, `__` for the dot.
    """
    given = {"learning.epochs": 2, "word_vectors.epochs": 1, "weights.bits": 16, "threads": 0}
    given |= {"data.train": treebank_file(40 if small else 2000, 1), "output": folder / name}
    given |= {key.replace("__", "."): value for key, value in keys.items()}
    gpuparse.train(name, given, quiet=True)
    return str(folder / name)


def long_input(folder: Path, copies: int, *, raw: bool) -> tuple[str, str]:
    """A tenth of some copies, and all, of 4,000 generated sentences, a treebank or a raw text."""
    data = generate(4000, 1)
    if raw:
        texts = (line.partition(b"# text = ")[2] for line in data.split(b"\n"))
        data = b"\n".join(text for text in texts if text) + b"\n"
    paths = [folder / f"{name}{'.txt' if raw else '.conllu'}" for name in ("few", "long")]
    for path, n in zip(paths, (max(1, copies // 10), copies), strict=True):
        path.write_bytes(data * n)
    few, long = map(str, paths)
    return few, long
