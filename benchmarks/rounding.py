"""What rounding word vectors to whole numbers costs: accuracy beside the learned 32-bit numbers."""

import argparse
from typing import Any
from unittest import mock

import numpy as np
import torch
from torch import Tensor

from benchmarks.registry import Report
from gpuparse.config import load_config
from gpuparse.data.batch import Batch
from gpuparse.data.conll import read_treebank, treebank_from_bytes, write_predictions
from gpuparse.errors import ConfigError
from gpuparse.evaluation.metrics import score_treebanks
from gpuparse.features.word_vectors import VectorPlan
from gpuparse.inference import chu_liu_edmonds, eisner
from gpuparse.jobs.gold import with_fitting_decoder
from gpuparse.jobs.train_checks import templates_of
from gpuparse.learning import trainer as learning
from gpuparse.learning.stages.vectors.torch_engine import rows_of
from gpuparse.parser import Parser
from gpuparse.scorers.vectors.scores import add_between, values_in_between
from gpuparse.scorers.vectors.word_vectors import VectorWeights

GATE = ("tests/test_vector_models.py", "tests/benchmarks/test_rounding.py")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("config", help="a config of word vectors alone with first-order trees")
    parser.add_argument("overrides", nargs="+", metavar="KEY=VALUE", help="data.train, data.test")


def run(options: argparse.Namespace) -> Report:
    """Train once; parse data.test by the model, and by the weights that it was rounded from."""
    config = with_fitting_decoder(load_config(options.config, options.overrides))
    if config.data.test is None:
        raise ConfigError("data.test: the benchmark needs trees to score; name a file")
    arcs, labels = templates_of(config)
    if arcs.word_vectors is None or arcs.arc or labels is None or labels.label:
        raise ConfigError(f"{options.config}: not a config of word vectors alone with labels")
    train, gold = read_treebank(config.data.train), read_treebank(config.data.test)
    seen: list[tuple[VectorWeights, VectorPlan]] = []

    def frozen(weights: VectorWeights, plan: VectorPlan, batch: Batch) -> Any:
        seen[:] = [(weights, plan)]
        return freeze(weights, plan, batch)

    # A model has whole numbers only: what they are made of is seen where they are made.
    freeze = learning.frozen
    with mock.patch.object(learning, "frozen", frozen):
        trainer = learning.Trainer(train, arcs, labels, config, threads=options.threads)
        for _ in trainer.learn():
            pass
        model = trainer.model(16)
    whole = model.parse(gold)
    heads, found_labels = parsed_by_floats(model, *seen[0], model.encode(gold))
    rows: list[list[object]] = []
    for name, h, r in [
        ("whole numbers", whole.heads, whole.labels),
        ("32-bit numbers", heads, found_labels),
    ]:
        text = write_predictions(gold, h, model.label_names, r)
        scores = score_treebanks(gold, treebank_from_bytes(text, name))
        differ = int(((h != whole.heads) | (r != whole.labels)).sum())
        rows.append([name, f"{scores.uas.percent:.2f}", f"{scores.las.percent:.2f}", differ])
    notes = [f"{gold.source}, {gold.n_words:,} words; sums of the 32-bit numbers in 64 bits."]
    columns = ["weights", "UAS", "LAS", "words that differ"]
    return Report("Word vectors as whole numbers", columns, rows, notes)


def parsed_by_floats(
    model: Parser, weights: VectorWeights, plan: VectorPlan, batch: Batch
) -> tuple[np.ndarray, np.ndarray]:
    """(W,) heads and labels of a batch's words, scored with learned weights in float64."""
    wide = [torch.from_numpy(np.asarray(array, np.float64)) for array in weights]
    decode = eisner if model.decoder == "eisner" else chu_liu_edmonds
    heads, labels = [], []
    for start, n in zip(batch.starts.tolist(), batch.lengths.tolist(), strict=True):
        scores, u, v = _float_scores(VectorWeights(*wide), plan, batch, start, n)
        lengths = torch.tensor([n])
        best = decode(scores.unsqueeze(0), lengths, single_root=model.single_root)[0]
        of_words = best[0, 1 : n + 1]
        label = weights.cuts[-1]
        a, b = u[of_words, label:], v[1:, label:]
        terms = torch.cat([a * b, a, b, torch.ones(n, 1, dtype=a.dtype)], 1)
        heads.append(of_words.numpy())
        labels.append((terms @ wide[VectorWeights._fields.index("labels")].T).argmax(1).numpy())
    return np.concatenate(heads), np.concatenate(labels)


def _float_scores(
    weights: Any, plan: VectorPlan, batch: Batch, start: int, n: int
) -> tuple[Tensor, Tensor, Tensor]:
    """(N, N) scores of arcs, and (N, columns) vectors of nodes as heads and as modifiers."""
    rows = rows_of(plan, batch.values, np.arange(start, start + n + 1))
    none = torch.zeros(1, weights.table.shape[1], dtype=torch.float64)
    summed = weights.bias + torch.cat([weights.table, none])[rows].sum(1)  # row -1 is none
    u, v = summed.chunk(2, 1)
    if len(weights.heads):
        u, v = u.relu() @ weights.heads, v.relu() @ weights.modifiers
    size = (weights.arcs.shape[1] - 1) // 3
    a, b = u[:, :size], v[:, :size]
    nodes = np.arange(n + 1)
    distance = nodes - nodes[:, None]
    bucket = plan.buckets[np.clip(np.abs(distance) - 1, 0, len(plan.buckets) - 1)]
    combination = torch.from_numpy(np.where(distance > 0, bucket, plan.n_buckets + bucket))
    scores = torch.zeros(n + 1, n + 1, dtype=torch.float64)
    for k, terms in enumerate(weights.arcs):
        of_pair, of_head, of_modifier, constant = terms.split([size, size, size, 1])
        every = (a * of_pair) @ b.T + (a @ of_head)[:, None] + b @ of_modifier + constant
        scores = torch.where(combination == k, every, scores)
    if plan.n_between:
        places = torch.arange(start, start + n + 1).unsqueeze(0)
        values = values_in_between(plan, torch.from_numpy(batch.values), places)
        of_heads = a @ weights.between[:, :size].T + weights.between[:, -1]
        of_modifiers = b @ weights.between[:, size:-1].T
        add_between(scores.unsqueeze(0), values, of_heads[None], of_modifiers[None])
    return scores, u, v
