"""The options of `parse`: their help, and checks before any work begins."""

from __future__ import annotations

import argparse
import os
import stat
import sys
from collections.abc import Sequence
from pathlib import Path

from gpuparse.commands.console import exit_codes
from gpuparse.commands.parse_job import STANDARD
from gpuparse.commands.shards import wanted_shards
from gpuparse.data.columns import is_guide_file
from gpuparse.data.conll import MAX_LINE
from gpuparse.errors import ConfigError, DataError
from gpuparse.inference.decoders import DECODERS
from gpuparse.scoring.admission import MAX_CELLS, default_batch_size


def read_options(arguments: Sequence[str]) -> argparse.Namespace:
    """The options of a command line with its `files`, checked as far as possible without a model.

    Raises:
        ConfigError: options that do not fit together. DataError: the file of guides is missing.
    """
    options = _parser().parse_intermixed_args(arguments)
    options.files = options.files or [STANDARD]
    if options.force_decoder and not options.decoder:
        raise ConfigError("--force-decoder needs --decoder NAME")
    if options.mbr and options.kbest:
        raise ConfigError("--mbr and --kbest cannot be combined")
    _check_guide(options.guide, options.files)
    return options


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="parse.py",
        description="Parse CoNLL-X or CoNLL-U files; only HEAD and DEPREL are changed, and MISC"
        " with --probabilities, in very long sentences and in trees without a certificate. Threads,"
        " batch size, device and backend change no byte of the output.",
        epilog=exit_codes(0, 1, 2, 3, 4, 5),
    )
    parser.add_argument("model", metavar="MODEL", help="the folder that train.py wrote")
    parser.add_argument(
        "files",
        nargs="*",
        default=[],  # otherwise argparse calls the files required
        metavar="FILE",
        help="input; - or none: standard input",
    )
    parser.add_argument(
        "--output", metavar="DIR", help="write each file into DIR under its own name, not to stdout"
    )
    parser.add_argument(
        "--threads", type=_count, default=0, metavar="N", help="0, the default: all processors"
    )
    parser.add_argument(
        "--batch-size",
        type=_size,
        metavar="N",
        help=f"largest number of sentences in a batch ({default_batch_size('cpu')};"
        f" {default_batch_size('cuda')} on a GPU)",
    )
    parser.add_argument(
        "--max-cells",
        type=_size,
        default=MAX_CELLS,
        metavar="N",
        help="largest number of score cells of one sentence, on any device; longer sentences are"
        f" parsed by a decoder of lower order, and MISC says so ({MAX_CELLS})",
    )
    parser.add_argument(
        "--device",
        choices=("auto", "cpu", "cuda"),
        default="auto",
        help="auto, the default: CUDA if it works",
    )
    parser.add_argument(
        "--backend",
        choices=("auto", "cpu", "torch", "gpu"),
        default="auto",
        help="cpu: native code; torch: torch operations on any device; gpu: Triton kernels; the"
        " output is the same",
    )
    parser.add_argument(
        "--decoder",
        choices=tuple(DECODERS),
        metavar="NAME",
        help="the decoder; the default is the one that the model was trained with, and another one"
        f" is refused without --force-decoder ({', '.join(DECODERS)})",
    )
    parser.add_argument(
        "--force-decoder",
        action="store_true",
        help="use a --decoder that the model was not trained with, if it reads the same parts;"
        " expect much worse trees",
    )
    _add_confidence(parser)
    parser.add_argument(
        "--on-error",
        choices=("fail", "skip", "keep"),
        default="fail",
        help="a malformed sentence, or one whose heads cannot be kept: stop, skip it, or pass it"
        " through unparsed",
    )
    parser.add_argument(
        "--max-line",
        type=_size,
        default=MAX_LINE,
        metavar="BYTES",
        help=f"a longer line is malformed ({MAX_LINE})",
    )
    parser.add_argument(
        "--allow-missing",
        action="store_true",
        help="parse even if a column that the model reads, such as the tags, is _ in every word",
    )
    parser.add_argument(
        "--guide",
        metavar="SOURCE",
        help="for models with guide features, the heads predicted by another parser: misc:KEY, an"
        " item of MISC, or the input as parsed by that parser",
    )
    parser.add_argument(
        "--shard",
        type=wanted_shards,
        metavar="I/N",
        help="cut each file into N shards of whole sentences and parse only shard I, into"
        " DIR/NAME.shard-I-of-N; all/N: parse all shards and join them, continuing after a kill;"
        " join/N: join existing shards",
    )
    parser.add_argument("--force", action="store_true", help="replace files in DIR")
    parser.add_argument("--quiet", action="store_true", help="no progress and warnings on stderr")
    return parser


def _add_confidence(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--probabilities",
        action="store_true",
        help="write HeadProb, the marginal probability of the head, and LabelProb, the probability"
        " of the relation given the head, into MISC",
    )
    parser.add_argument(
        "--kbest",
        type=_size,
        metavar="K",
        help="the K best trees of each sentence, one after the other, with rank and score in"
        " comments",
    )
    parser.add_argument(
        "--mbr",
        action="store_true",
        help="minimum Bayes risk trees, with the largest expected number of correct heads, instead"
        " of the highest-scoring trees",
    )
    parser.add_argument(
        "--single-root",
        action="store_true",
        help="exactly one word attached to the root, even if the training trees had several",
    )
    parser.add_argument(
        "--at-most-one",
        action="append",
        default=[],
        metavar="REL,REL",
        help="no head gets two modifiers with these relations, such as nsubj,csubj; can be"
        " repeated; needs decoder dual_decomposition and joint labels",
    )
    parser.add_argument(
        "--keep-heads",
        action="store_true",
        help="keep the heads of the input, and the relations beside them; predict those that are _",
    )


def _check_guide(source: str | None, files: list[str]) -> None:
    if source is None or not is_guide_file(source):
        return
    if not os.path.exists(source):
        raise DataError(f"{source}: no such file")
    if len(files) > 1:
        raise ConfigError("--guide FILE needs a single input; give misc:KEY or one input")


def check_shard(options: argparse.Namespace) -> None:
    if options.shard is None:
        return
    if options.output is None:
        raise ConfigError("--shard needs --output DIR")
    if options.guide is not None and is_guide_file(options.guide):
        raise ConfigError("--shard cannot be combined with --guide FILE; give --guide misc:KEY")


def output_paths(files: list[str], folder: str | None, *, force: bool) -> list[Path | None]:
    """The output of each input, None for stdout, checked before the work begins."""
    for file in files:
        if file != STANDARD and not os.path.exists(file):
            raise DataError(f"{file}: no such file")
        if os.path.isdir(file):
            raise DataError(f"{file}: is a folder; name the files in it")
    if files.count(STANDARD) > 1:
        raise ConfigError("standard input (-) can be read once only")
    if folder is None:
        _check_stdout(files)
        return [None] * len(files)
    if STANDARD in files:
        raise ConfigError("standard input has no name in --output; name a file, or write to stdout")
    names: dict[str, str] = {}
    for file in files:
        name = os.path.basename(file)
        if name in names:
            raise ConfigError(f"{names[name]} and {file} would both be written as {name}")
        names[name] = file
        target = os.path.join(folder, name)
        if os.path.exists(target) and os.path.samefile(target, file):
            raise ConfigError(f"{file}: would be replaced by its own output; name another --output")
        if os.path.exists(target) and not force:
            raise ConfigError(f"{target}: exists; give --force to replace it")
    return [Path(folder) / name for name in names]


def _check_stdout(files: list[str]) -> None:
    """ConfigError if stdout is redirected to an input, which would be read while it is written."""
    out = os.fstat(sys.stdout.fileno())
    for file in files:
        if file != STANDARD and stat.S_ISREG(out.st_mode) and os.path.samestat(out, os.stat(file)):
            raise ConfigError(f"{file}: standard output is redirected to this input")


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise argparse.ArgumentTypeError(f"expected a whole number of at least 0, not {text!r}")
    return int(text)


def _size(text: str) -> int:
    if _count(text) == 0:
        raise argparse.ArgumentTypeError("expected at least 1")
    return int(text)
