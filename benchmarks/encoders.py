"""Hidden states of a pretrained transformer: native code with weights of 8 bits beside torch."""

import argparse
import json
import warnings
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.registry import Report, median_times
from gpuparse import native
from gpuparse.data.conll import read_treebank
from gpuparse.scorers.encoder.quantised import QuantisedEncoder

GATE = ("tests/test_encoder_native.py",)
BATCH = 32  # sequences of a batch of torch, of similar length
PHASES = (
    "embeddings", "GELU and rounding of inputs", "linear layers", "attention", "layer norms",
    "sums of layers",
)  # fmt: skip


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The model and the text."""
    parser.add_argument(
        "model", type=Path, help="folder of transformers: config.json, model.safetensors and"
        " tokenizer.json",
    )  # fmt: skip
    parser.add_argument("treebank", type=Path, help="CoNLL-U file whose forms are read")
    parser.add_argument("--sentences", type=int, default=400, help="(default: %(default)s)")


def run(options: argparse.Namespace) -> Report:
    """Pieces and words of a second of native code, torch, and torch with weights of 8 bits."""
    from safetensors.numpy import load_file
    from transformers import AutoModel
    from transformers.utils import logging

    logging.disable_progress_bar()
    ids, starts, n_words = _read_pieces(options)
    config = json.loads((options.model / "config.json").read_text())
    encoder = QuantisedEncoder.of(config, load_file(options.model / "model.safetensors"))
    types = np.zeros(len(ids), np.int32)
    last = np.eye(encoder.layers + 1, dtype=np.float32)[-1]
    exact = AutoModel.from_pretrained(options.model).eval()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch says that others shall be used
        rounded = torch.ao.quantization.quantize_dynamic(
            AutoModel.from_pretrained(options.model).eval(), {torch.nn.Linear}, dtype=torch.qint8
        )
    contestants = {
        "torch, float32": lambda: _run_torch(exact, ids, starts),
        "torch, dynamic int8": lambda: _run_torch(rounded, ids, starts),
        "native": lambda: encoder.hidden(ids, types, starts, last, options.threads),
    }
    states = {name: call() for name, call in contestants.items()}
    expected = states["torch, float32"]
    errors = {
        name: float(np.linalg.norm(found - expected) / np.linalg.norm(expected))
        for name, found in states.items()
    }
    if errors["native"] > errors["torch, dynamic int8"]:
        raise RuntimeError("states of native code are far from those of torch")
    times = median_times(contestants, options)
    slowest = times["torch, float32"]
    rows = [
        [name, len(ids) / time, n_words / time, slowest / time, errors[name]]
        for name, time in times.items()
    ]
    seconds = np.zeros(len(PHASES))
    hidden = np.empty((len(ids), encoder.width), np.float32)
    native.call("encode_pieces", encoder, ids, types, starts, last, hidden, seconds)
    shares = ", ".join(
        f"{phase} {share:.1%}" for phase, share in zip(PHASES, seconds / seconds.sum(), strict=True)
    )
    notes = [
        f"{len(starts) - 1:,} sentences of {n_words:,} words, {len(ids):,} pieces; states of the"
        f" last of {encoder.layers} layers of width {encoder.width}.",
        f"torch: batches of {BATCH} sentences of similar length.",
        "error: the norm of the difference from torch, float32, over the norm of its states.",
        f"Native code, of a thread: {shares}.",
    ]
    columns = ["states by", "pieces/s", "words/s", "times torch", "error"]
    return Report("Hidden states", columns, rows, notes)


def _read_pieces(options: argparse.Namespace) -> tuple[np.ndarray, np.ndarray, int]:
    """Ids and starts of the pieces of sentences, and the number of words."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(options.model / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    treebank = read_treebank(options.treebank)
    sentences = [list(treebank[s].forms) for s in range(min(options.sentences, len(treebank)))]
    pieces = [tokenizer.encode(words, is_pretokenized=True).ids for words in sentences]
    starts = np.cumsum([0, *map(len, pieces)], dtype=np.int64)
    return np.concatenate(pieces).astype(np.int32), starts, sum(map(len, sentences))


def _run_torch(model: Any, ids: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """The last states of all pieces."""
    lengths = np.diff(starts)
    order = np.argsort(lengths, kind="stable")
    states = np.empty((len(ids), model.config.hidden_size), np.float32)
    with torch.inference_mode():
        for first in range(0, len(order), BATCH):
            batch = order[first : first + BATCH]
            mask = np.arange(lengths[batch].max()) < lengths[batch][:, None]
            padded = np.zeros(mask.shape, np.int64)
            padded[mask] = np.concatenate([ids[starts[b] : starts[b + 1]] for b in batch])
            given = {"input_ids": torch.tensor(padded), "attention_mask": torch.tensor(mask).long()}
            found = model(**given).last_hidden_state.numpy()[mask]
            ends = np.cumsum([0, *lengths[batch]])
            for b, (begin, end) in zip(batch, pairwise(ends), strict=True):
                states[starts[b] : starts[b + 1]] = found[begin:end]
    return states
