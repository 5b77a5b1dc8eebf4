"""Learning and parsing with an encoder: a given one, or a random one of MiniLM's size."""

import argparse
import tempfile
import time
from pathlib import Path

import torch

from benchmarks.on_device import clock
from benchmarks.on_device.contest import Contest
from gpuparse.config.load import make_config
from gpuparse.data.columns import FORM
from gpuparse.data.conll import treebank_from_bytes
from gpuparse.errors import require
from gpuparse.jobs.resources import available_processors
from gpuparse.learning.stages.encoder.stage import STEPS_OF_EVENT
from gpuparse.learning.stages.encoder.trainer import EncoderTrainer, read_pretrained
from gpuparse.model.parser import Parser
from gpuparse.model.pipeline import NO_STAGES
from tests.synthetic import generate
from tests.tiny_encoders import write_encoder

TITLE = "An encoder on a device"
COLUMNS = ["what", "numbers", "on", "seconds", "of", "per second"]
MINI_LM = {
    "hidden_size": 384, "num_hidden_layers": 6, "num_attention_heads": 12,
    "intermediate_size": 1536, "vocab_size": 30522,
}  # fmt: skip
SENTENCES, SMALL = 4000, 500
SECONDS = 1.0  # of parsing, at least


def run(options: argparse.Namespace, contest: Contest) -> None:
    """Learn an epoch with each kind of numbers, and parse with weights of 16 and 8 bits.

    Raises: MissingPackageError: an optional package is not installed.
    """
    require("the part encoder", "transformers", "tokenizers")
    data = generate(SMALL if options.small else SENTENCES, 1)
    with tempfile.TemporaryDirectory() as made:
        folder = options.encoder or str(_random_encoder(Path(made), data, options.small))
        for precision in ("bfloat16", "float32"):
            if not contest.is_over(precision):
                with contest.attempt(precision):
                    _one_precision(contest, data, folder, precision)
    contest.note(
        "Generated sentences of 13 words. Learning: steps of 400 pieces, after the first ones."
        " Parsing: from CoNLL-U in memory to tags, heads and relations. 8 bits are floats on a GPU,"
        " and native code on the CPU, with all processors."
    )


def _random_encoder(folder: Path, data: bytes, small: bool) -> Path:
    treebank = treebank_from_bytes(data, "generated")
    words = {treebank.column(w, FORM).lower() for w in range(treebank.n_words)}
    return write_encoder(folder, positions=512, words=sorted(words), **{} if small else MINI_LM)


def _one_precision(contest: Contest, data: bytes, folder: str, precision: str) -> None:
    """Learn an epoch, and parse with what was learned."""
    keys = {"features": "encoder", "decoder": "chu_liu_edmonds", "data.train": "-", "output": "-"}
    keys |= {f"encoder.{k}": v for k, v in (("model", folder), ("precision", precision))}
    config, device = make_config(keys | {"encoder.epochs": 1}), contest.device.type
    treebank, pretrained = treebank_from_bytes(data, "generated"), read_pretrained(folder)
    trainer = EncoderTrainer(treebank, config, pretrained, contest.note, device)
    times = [time.perf_counter() for _ in trainer.learn()]
    steps = STEPS_OF_EVENT * (len(times) - 2)  # all but those of the first and the last event
    seconds = times[-2] - times[0]
    contest.add(["learning", precision, device, seconds, f"{steps} steps", steps / seconds])
    _parsed(contest, trainer.model(16), data, f"16 bits, {precision}", device)
    if precision == "bfloat16":
        for place in dict.fromkeys([device, "cpu"]):
            _parsed(contest, trainer.model(8), data, "8 bits", place)


def _parsed(contest: Contest, parser: Parser, data: bytes, numbers: str, device: str) -> None:
    """Add a row for parsing."""
    n_words = treebank_from_bytes(data, "generated").n_words

    def parse() -> None:
        treebank = treebank_from_bytes(data, "generated")  # whose states are not known
        stages = NO_STAGES.filled_by(parser, device)
        tagged = stages.annotate(treebank, threads=available_processors())
        parser.parse(tagged, device=device, threads=available_processors())

    seconds = clock.seconds_of_a_call([parse], torch.device(device), seconds=SECONDS)
    contest.add(["parsing", numbers, device, seconds, f"{n_words} words", n_words / seconds])
