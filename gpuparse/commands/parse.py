"""`parse`: fill in HEAD and DEPREL of CoNLL files of any size; all other bytes are preserved."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from gpuparse.commands.console import Progress, say, silent
from gpuparse.commands.parse_job import STANDARD, Job, Share
from gpuparse.commands.parse_options import check_shard, output_paths, read_options
from gpuparse.commands.resources import choose_device, limit_torch_threads, thread_count
from gpuparse.commands.shards import Recipe, Sharded
from gpuparse.decoder_choice import limit_labels, with_decoder
from gpuparse.errors import ConfigError, ScoreError
from gpuparse.files import replace_file
from gpuparse.folder import load_parser, sum_of_folder
from gpuparse.inference.decoders import DECODERS, with_quantity
from gpuparse.parser import Parser
from gpuparse.scoring.admission import default_batch_size


def main(arguments: Sequence[str]) -> int:
    """Parse files with a trained model.

    Args:
        arguments: `MODEL [FILE ...] [options]`; see `--help`.
    Returns:
        0, or 1 if malformed sentences, or sentences whose heads cannot be kept, were skipped or
        passed through.
    Raises:
        ConfigError: options that do not fit together; an output that exists already.
        ModelError: the model cannot be used.
        DataError: an input is missing, lacks a column that the model reads, or with `--on-error
            fail` has a malformed sentence or one whose heads cannot be kept.
    Cost: memory for a few MiB of input, whatever its size.
    """
    options = read_options(arguments)
    files = options.files
    # Existing outputs of shards are checked later: they may be of this job, unfinished.
    outputs = output_paths(files, options.output, force=options.force or options.shard is not None)
    check_shard(options)
    tell = silent if options.quiet else say
    threads, model = thread_count(options.threads), _model(options, tell)
    device = _device(options, model.search_decoder, tell)
    is_compiled = _is_compiled(options.backend, device)
    limit_torch_threads(threads, compiled=is_compiled)
    job = Job(
        model=model,
        guide=options.guide,
        probabilities=options.probabilities,
        least_risk=options.mbr,
        k=options.kbest,
        keep_heads=options.keep_heads,
        batch_size=options.batch_size or default_batch_size(device),
        max_cells=options.max_cells,
        threads=threads,
        device=device,
        backend=options.backend,
        is_compiled=is_compiled,
        on_error=options.on_error,
        max_line=options.max_line,
        allow_missing=options.allow_missing,
        tell=tell,
    )
    if options.output:
        os.makedirs(options.output, exist_ok=True)
    failed = 0
    sharded = _sharded(options, job, outputs) if options.shard else None
    with Progress("parsing", quiet=options.quiet) as progress:
        if sharded is not None:
            failed = job.parse_shards(sharded, progress)
        else:
            share = Share(_total(files))
            for file, output in zip(files, outputs, strict=True):
                with _opened(file) as source, _writer(output, options.force) as target:
                    failed += job.parse(source, file, target, progress, share).faults
    if failed:
        # Not silenced by --quiet: it explains the exit code.
        kept = ", or their heads cannot be kept," if options.keep_heads else ""
        say(f"{failed:,} sentences are malformed{kept} and were {_FATE[options.on_error]}")
    return 1 if failed else 0


_FATE = {"skip": "skipped", "keep": "passed through unparsed"}


def _model(options: argparse.Namespace, tell: Callable[[str], None]) -> Parser:
    """The model with the decoder of the options, if it supports them."""
    model = _with_decoder(options, tell)
    name, decoder = model.search_decoder, DECODERS[model.search_decoder]
    asked = {"--probabilities": options.probabilities, "--mbr": options.mbr}
    for option in (option for option, is_asked in asked.items() if is_asked):
        if not decoder.has("marginals", "native"):
            raise ConfigError(
                f"{option}: decoder {name} has no exact sums, and so no probabilities; train a"
                f" model with decoder={' or '.join(with_quantity('marginals', 'native'))}"
            )
    if options.kbest and not decoder.has("k_best", "native"):
        raise ConfigError(
            f"--kbest: decoder {name} finds one tree only; train a model with"
            f" decoder={' or '.join(with_quantity('k_best', 'native'))}"
        )
    if options.keep_heads and decoder.gives_graphs:
        raise ConfigError(
            f"--keep-heads: decoder {name} finds graphs, whose heads cannot be kept; use a model of"
            " trees"
        )
    if any(asked.values()) and not model.is_calibrated:
        tell(
            f"{options.model}: its probabilities are not calibrated and may be far too high or too"
            " low; python -m gpuparse calibrate MODEL GOLD fits them to gold trees"
        )
    return model


def _with_decoder(options: argparse.Namespace, tell: Callable[[str], None]) -> Parser:
    """The model with the decoder, roots and limits of the options; its guides are checked."""
    model = load_parser(Path(options.model))
    if model.templates.guide and options.guide is None:
        raise ConfigError(
            f"{options.model}: the model has guide features: give --guide misc:KEY, or --guide FILE"
            " with the input as parsed by the other parser"
        )
    if options.guide is not None and not model.templates.guide:
        raise ConfigError(f"--guide: {options.model}: the model has no guide features")
    if options.single_root:
        model = model.with_single_root()
    if options.decoder is not None:
        if options.decoder != model.decoder and options.force_decoder:
            tell(f"decoder {options.decoder}; the weights were learned with {model.decoder}")
        model = with_decoder(model, options.decoder, force=options.force_decoder)
    if options.at_most_one:
        model = limit_labels(model, [limit.split(",") for limit in options.at_most_one])
    return model


def _sharded(
    options: argparse.Namespace, job: Job, outputs: Sequence[Path | None]
) -> list[Sharded]:
    """The inputs to parse in shards, checked before the work begins."""
    model = job.model
    recipe = Recipe(
        sum_of_folder(Path(options.model)),
        {"decoder": model.search_decoder, "single_root": model.single_root}
        | {name: getattr(options, name) for name in _OF_BYTES},
    )
    return [
        Sharded(file, output, options.shard, recipe, force=options.force, tell=job.tell)
        for file, output in zip(options.files, outputs, strict=True)
        if output is not None
    ]


# Options besides the decoder that change bytes of the output.
_OF_BYTES = (
    "probabilities", "mbr", "kbest", "keep_heads", "guide", "on_error", "max_line", "max_cells",
    "at_most_one",
)  # fmt: skip


def _device(options: argparse.Namespace, decoder: str, tell: Callable[[str], None]) -> str:
    asked = {
        "--probabilities": options.probabilities, "--mbr": options.mbr, "--kbest": options.kbest,
        f"decoder {decoder}": DECODERS[decoder].is_higher_order,
    }  # fmt: skip
    for option in (option for option, is_asked in asked.items() if is_asked):
        if options.device == "cuda" or options.backend in ("torch", "gpu"):
            raise ConfigError(
                f"{option} is computed by native code on the CPU, so that its output is the same"
                " everywhere; use --device auto or cpu and --backend auto or cpu"
            )
    if any(asked.values()):
        return "cpu"
    if options.backend == "cpu":
        if options.device == "cuda":
            raise ConfigError("--backend cpu does not run on --device cuda; use torch or auto")
        return "cpu"
    return choose_device(options.device, tell)


def _is_compiled(backend: str, device: str) -> bool:
    """Whether native code parses; ConfigError if the backend cannot run on the device."""
    if device == "cpu" and backend in ("auto", "cpu"):
        return True
    # Here, because native code needs no torch.
    import torch

    from gpuparse.inference.backends import choose_backend

    try:
        return choose_backend(backend, torch.device(device), has_kernels=True) == "cpu"
    except ScoreError as error:
        raise ConfigError(f"--backend {backend}: {error}") from None


def _total(files: list[str]) -> int:
    """Number of bytes of all inputs; 0 if one is a pipe."""
    regular = all(file != STANDARD and os.path.isfile(file) for file in files)
    return sum(os.path.getsize(file) for file in files) if regular else 0


@contextmanager
def _opened(file: str) -> Iterator[BinaryIO]:
    if file == STANDARD:
        yield sys.stdin.buffer
        return
    with open(file, "rb") as source:
        yield source


@contextmanager
def _writer(output: Path | None, force: bool) -> Iterator[BinaryIO]:
    if output is None:
        yield sys.stdout.buffer
        return
    with replace_file(output, force=force) as target:
        yield target
