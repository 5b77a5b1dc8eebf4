"""`parse`: fill HEAD and DEPREL of CoNLL files of any size, everything else left as it is."""

from __future__ import annotations

import argparse
import os
import stat
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import BinaryIO

import numpy as np
import torch

from gpuparse.commands.ahead import ahead
from gpuparse.commands.console import Progress, exit_codes, say, silent
from gpuparse.commands.kernels import compilation_announced
from gpuparse.commands.predictions import (
    Kept,
    kept_of,
    long_sentences,
    written,
    written_k_best,
)
from gpuparse.commands.resources import choose_device, limit_torch_threads, thread_count
from gpuparse.commands.shards import Counts, Place, Recipe, Sharded, wanted_shards
from gpuparse.data.batch import Batch
from gpuparse.data.conll import MAX_LINE, OnError, check_trees, stream_treebanks
from gpuparse.data.gold_trees import WELL_FORMED, check_sentences
from gpuparse.data.guides import Guides
from gpuparse.data.misc_keys import is_guide_file
from gpuparse.data.treebank import Treebank, word_place
from gpuparse.data.vocabulary import empty_columns
from gpuparse.errors import ConfigError, DataError
from gpuparse.files import replace_file
from gpuparse.inference.backends import choose_backend
from gpuparse.inference.decode import DECODERS
from gpuparse.inference.kernels.cpu.search_k_best import K_BEST
from gpuparse.learning.projectivize import unkeepable
from gpuparse.model import Model
from gpuparse.model_folder import sum_of_folder
from gpuparse.scoring.admission import MAX_CELLS
from gpuparse.scoring.cpu_confidence import SUMS
from gpuparse.scoring.device import Sent

STANDARD = "-"
BATCH, GPU_BATCH = 64, 2048  # sentences
GPU_CHUNK = 16 << 20  # bytes of input that are on a GPU together
SHOWN = 20  # faulty sentences that are told one by one
COLUMNS = ("ID", "FORM", "LEMMA", "coarse tags", "fine tags", "FEATS")
SHORT = 30  # words; a shorter text may well have neither lemmas nor features
TAGS = (3, 4)
FORM = 1
MANY = 12  # words that a message lists at most
# Decoders that find no tree where no projective one has the heads that are to be kept.
BEGINS_PROJECTIVE = ("eisner", "eisner_sibling", "hill_climb")


def main(arguments: Sequence[str]) -> int:
    """Parse files with a trained model.

    Args:
        arguments: `MODEL [FILE ...] [options]`; see `--help`.
    Returns:
        0, or 1 if some sentences could not be read, or their heads not be kept, and were skipped
        or passed through.
    Raises:
        ConfigError: options that do not fit together; an output that exists already.
        ModelError: the model cannot be used.
        DataError: an input is missing, or lacks a column that the model reads, or has a faulty
            sentence under `--on-error fail`, or one with heads that cannot be kept.
    Cost: memory for a few MiB of input, whatever its size.
    """
    options = _parser().parse_intermixed_args(arguments)
    files = options.files or [STANDARD]
    if options.force_decoder and not options.decoder:
        raise ConfigError("--force-decoder is nothing without --decoder NAME")
    if options.mbr and options.kbest:
        raise ConfigError("--mbr finds one tree and --kbest several best ones: give one of the two")
    _check_guide(options.guide, files)
    # Of shards it is known later whether what stands there is an unfinished job's.
    outputs = _outputs(files, options.output, force=options.force or options.shard is not None)
    _check_shard(options)
    tell = silent if options.quiet else say
    with nullcontext() if options.quiet else compilation_announced():
        threads, device = thread_count(options.threads), _device(options, tell)
        backend = choose_backend(options.backend, torch.device(device), has_kernels=True)
        compiled = backend == "cpu"
        limit_torch_threads(threads, compiled=compiled)
        job = _Job(
            model=_model(options, tell),
            guide=options.guide,
            probabilities=options.probabilities,
            least_risk=options.mbr,
            k=options.kbest,
            keep_heads=options.keep_heads,
            batch_size=options.batch_size or (BATCH if device == "cpu" else GPU_BATCH),
            max_cells=options.max_cells,
            threads=threads,
            device=device,
            backend=options.backend,
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
                share = _Share(_total(files))
                for file, output in zip(files, outputs, strict=True):
                    with _opened(file) as source, _writer(output, options.force) as target:
                        failed += job.parse(source, file, target, progress, share).faults
    if failed:
        # Not silenced by --quiet: it is what the exit code means.
        kept = ", or their heads not be kept," if options.keep_heads else ""
        say(f"{failed:,} sentences could not be read{kept} and were {_FATE[options.on_error]}")
    return 1 if failed else 0


_FATE = {"skip": "left out", "keep": "passed through unparsed"}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="parse.py",
        description="Parse CoNLL-X or CoNLL-U files; only HEAD and DEPREL are changed, and MISC"
        " with --probabilities. Threads, batch size, device and backend change no byte of the"
        " output.",
        epilog=exit_codes(0, 1, 2, 3, 4, 5),
    )
    parser.add_argument("model", metavar="MODEL", help="the folder that train.py wrote")
    parser.add_argument(
        "files",
        nargs="*",
        default=[],  # or argparse would call the files required
        metavar="FILE",
        help="input; - or none is standard input",
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
        help=f"most sentences at a time ({BATCH}; {GPU_BATCH:,} on a GPU)",
    )
    parser.add_argument(
        "--max-cells",
        type=_size,
        default=MAX_CELLS,
        metavar="N",
        help="most score cells that one sentence may take, on any device; longer sentences are"
        f" parsed by a search of lower order, and MISC says so ({MAX_CELLS})",
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
        help="cpu: compiled; torch: tensors on any device; gpu: Triton kernels; the output is the"
        " same",
    )
    parser.add_argument(
        "--decoder",
        choices=tuple(DECODERS),
        metavar="NAME",
        help="the search; the default is the one the model was trained with, and another one is"
        f" refused without --force-decoder ({', '.join(DECODERS)})",
    )
    parser.add_argument(
        "--force-decoder",
        action="store_true",
        help="search with a --decoder that the weights were not learned with, if they can be"
        " searched with it at all; expect much worse trees",
    )
    _add_confidence(parser)
    parser.add_argument(
        "--on-error",
        choices=("fail", "skip", "keep"),
        default="fail",
        help="a sentence that cannot be read, or whose heads cannot be kept: stop, leave it out, or"
        " pass it through unparsed",
    )
    parser.add_argument(
        "--max-line",
        type=_size,
        default=MAX_LINE,
        metavar="BYTES",
        help=f"a longer line is a fault ({MAX_LINE})",
    )
    parser.add_argument(
        "--allow-missing",
        action="store_true",
        help="parse even if a column that the model reads, such as the tags, is _ in every word",
    )
    parser.add_argument(
        "--guide",
        metavar="SOURCE",
        help="for models with guide features, the heads that another parser proposes: misc:KEY, an"
        " item of MISC, or the input as that parser parsed it",
    )
    parser.add_argument(
        "--shard",
        type=wanted_shards,
        metavar="I/N",
        help="of each file, cut into N runs of whole sentences, only the I-th, into"
        " DIR/NAME.shard-I-of-N; all/N: all in turn, joined in the end, going on where such a"
        " command was killed; join/N: join what is there",
    )
    parser.add_argument("--force", action="store_true", help="replace files in DIR")
    parser.add_argument("--quiet", action="store_true", help="no progress and warnings on stderr")
    return parser


def _add_confidence(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--probabilities",
        action="store_true",
        help="write HeadProb, the probability of the head, and LabelProb, that of the relation"
        " given the head, into MISC",
    )
    parser.add_argument(
        "--kbest",
        type=_size,
        metavar="K",
        help="the K best trees of each sentence, one after the other, each with its rank and score"
        " in comments",
    )
    parser.add_argument(
        "--mbr",
        action="store_true",
        help="the trees with the most heads expected to be right, by their probabilities (minimum"
        " Bayes risk), instead of the best ones",
    )
    parser.add_argument(
        "--single-root",
        action="store_true",
        help="exactly one word under the root, even where the training trees had several",
    )
    parser.add_argument(
        "--keep-heads",
        action="store_true",
        help="keep the heads that stand in the input, and the relations beside them; find the"
        " others (_)",
    )


def _model(options: argparse.Namespace, tell: Callable[[str], None]) -> Model:
    """The model as it is to search, if it can do what is asked for."""
    model = _with_decoder(options, tell)
    name, decoder = model.searched_with, DECODERS[model.searched_with]
    asked = {"--probabilities": options.probabilities, "--mbr": options.mbr}
    for option in (option for option, is_asked in asked.items() if is_asked):
        if name not in SUMS:
            raise ConfigError(
                f"{option}: there are no exact sums over what decoder {name} searches, and so no"
                f" probabilities; train a model with decoder={' or '.join(SUMS)}"
            )
    if options.kbest and name not in K_BEST:
        raise ConfigError(
            f"--kbest: decoder {name} finds one tree only; train a model with"
            f" decoder={' or '.join(K_BEST)}"
        )
    if options.keep_heads and decoder.gives_graphs:
        raise ConfigError(
            f"--keep-heads: decoder {name} finds graphs, of which no heads can be kept; use a model"
            " of trees"
        )
    if any(asked.values()) and not model.is_calibrated:
        # Not a matter of progress, but --quiet is for those who know.
        tell(
            f"{options.model}: its probabilities are not calibrated and may be far too sure or not"
            " sure enough; python -m gpuparse calibrate MODEL GOLD fits them to gold trees"
        )
    return model


def _with_decoder(options: argparse.Namespace, tell: Callable[[str], None]) -> Model:
    """The model, with the decoder and roots asked for, if it has the guides that it needs."""
    model = Model.load(Path(options.model))
    if model.templates.guide and options.guide is None:
        raise ConfigError(
            f"{options.model}: the model has guide features: give --guide misc:KEY, or --guide FILE"
            " with the input as the other parser parsed it"
        )
    if options.guide is not None and not model.templates.guide:
        raise ConfigError(f"--guide: {options.model}: the model has no guide features")
    if options.single_root:
        model = model.with_single_root()
    if options.decoder is None:
        return model
    if options.decoder != model.decoder and options.force_decoder:
        tell(f"searching with {options.decoder}; the weights were learned with {model.decoder}")
    return model.with_decoder(options.decoder, force=options.force_decoder)


def _check_guide(source: str | None, files: list[str]) -> None:
    if source is None or not is_guide_file(source):
        return
    if not os.path.exists(source):
        raise DataError(f"{source}: no such file")
    if len(files) > 1:
        raise ConfigError("--guide FILE goes with one input; give misc:KEY, or parse them in turn")


def _check_shard(options: argparse.Namespace) -> None:
    if options.shard is None:
        return
    if options.output is None:
        raise ConfigError("--shard writes files: give --output DIR")
    if options.guide is not None and is_guide_file(options.guide):
        raise ConfigError("--shard goes with --guide misc:KEY, not with a second file")


def _sharded(
    options: argparse.Namespace, job: _Job, outputs: Sequence[Path | None]
) -> list[Sharded]:
    """The inputs as they are to be parsed in shards; what would fail later fails here."""
    model = job.model
    recipe = Recipe(
        sum_of_folder(Path(options.model)),
        {"decoder": model.searched_with, "single_root": model.single_root}
        | {name: getattr(options, name) for name in _OF_BYTES},
    )
    return [
        Sharded(file, output, options.shard, recipe, force=options.force, tell=job.tell)
        for file, output in zip(options.files, outputs, strict=True)
        if output is not None
    ]


# Other options that change bytes of the output, beside the decoder.
_OF_BYTES = (
    "probabilities", "mbr", "kbest", "keep_heads", "guide", "on_error", "max_line", "max_cells",
)  # fmt: skip


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise argparse.ArgumentTypeError(f"expected a whole number of at least 0, not {text!r}")
    return int(text)


def _size(text: str) -> int:
    if _count(text) == 0:
        raise argparse.ArgumentTypeError("expected at least 1")
    return int(text)


def _device(options: argparse.Namespace, tell: Callable[[str], None]) -> str:
    asked = {
        "--probabilities": options.probabilities, "--mbr": options.mbr, "--kbest": options.kbest,
    }  # fmt: skip
    for option in (option for option, is_asked in asked.items() if is_asked):
        if options.device == "cuda" or options.backend in ("torch", "gpu"):
            raise ConfigError(
                f"{option} is computed by compiled code on the CPU, so that its output is the same"
                " everywhere; use --device auto or cpu and --backend auto or cpu"
            )
    if any(asked.values()):
        return "cpu"
    if options.backend == "cpu":
        if options.device == "cuda":
            raise ConfigError("--backend cpu does not run on --device cuda; use torch or auto")
        return "cpu"
    return choose_device(options.device, tell)


def _listed(fields: list[str]) -> str:
    """The first names of a list, and how many more there are."""
    more = f" and {len(fields) - 3} more" if len(fields) > 3 else ""
    return ", ".join(fields[:3]) + more


def _outputs(files: list[str], folder: str | None, *, force: bool) -> list[Path | None]:
    """Where each input's output goes, None for stdout; all that would fail later fails here."""
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
    """A shell may have sent stdout into one of the inputs: it would be read as it is written."""
    out = os.fstat(sys.stdout.fileno())
    for file in files:
        if file != STANDARD and stat.S_ISREG(out.st_mode) and os.path.samestat(out, os.stat(file)):
            raise ConfigError(f"{file}: standard output goes into this input")


def _total(files: list[str]) -> int:
    """Bytes in all inputs; 0 where one of them is a pipe."""
    regular = all(file != STANDARD and os.path.isfile(file) for file in files)
    return sum(os.path.getsize(file) for file in files) if regular else 0


class _Share:
    """Which share of the input has been read; unknown where the bytes in all are given as 0."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._done = 0

    def without(self, n_bytes: int) -> None:
        """So much need not be read."""
        self._total -= n_bytes

    def after(self, n_bytes: int) -> float | None:
        self._done += n_bytes
        return self._done / self._total if self._total > 0 else None


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


@dataclass(frozen=True, kw_only=True)
class _Job:
    """How to parse a stream."""

    model: Model
    guide: str | None
    probabilities: bool
    least_risk: bool
    k: int | None
    keep_heads: bool
    batch_size: int
    max_cells: int
    threads: int
    device: str
    backend: str
    on_error: OnError
    max_line: int
    allow_missing: bool
    tell: Callable[[str], None]

    def parse_shards(self, inputs: list[Sharded], progress: Progress) -> int:
        """Parse inputs in shards; returns how many sentences had faults."""
        share = _Share(sum(each.n_bytes for each in inputs))
        failed = sum(self._parse_sharded(each, progress, share) for each in inputs)
        for each in inputs:
            each.finish()
        return failed

    def _parse_sharded(self, sharded: Sharded, progress: Progress, share: _Share) -> int:
        checked = False

        def parse(source: BinaryIO, target: BinaryIO, place: Place) -> Counts:
            nonlocal checked
            if not checked:
                self._check_beginning(sharded.file)
            checked = True
            return self.parse(source, sharded.file, target, progress, share, place)

        return sharded.run(parse, share.without)

    def parse(
        self,
        source: BinaryIO,
        name: str,
        target: BinaryIO,
        progress: Progress,
        share: _Share,
        place: Place | None = None,
    ) -> Counts:
        """Copy a stream, parsed, chunk by chunk; its columns are looked at unless it has a place
        in a file."""
        failed, n_sentences = 0, 0
        name = "<stdin>" if name == STANDARD else name
        checked, place = place is not None, place or Place(1, 0)
        guides = None if self.guide is None else Guides(self.guide)
        orders = np.zeros(3, np.int64)
        for chunk, heads, batch, sent in self._read(source, name, guides, place):
            if not checked and chunk.n_words:
                self._check_first(chunk, guides, heads)
                checked = True
            for warning in chunk.warnings:
                self.tell(warning)
            faults, sound = list(chunk.faults), np.ones(len(chunk), np.bool_)
            if self.keep_heads:
                unkept, sound = self._unkept(chunk)
                faults += unkept
            for fault in faults[: max(0, SHOWN - failed)]:
                self.tell(str(fault))
            failed += len(faults)
            n_sentences += len(chunk)
            some = chunk
            if not sound.all():
                some, heads = self._only(chunk, heads, sound)
                batch = sent = None
            parsed, of_chunk = self._parsed(some, heads, batch, sent)
            target.write(parsed)
            orders += np.bincount(of_chunk, minlength=len(orders))
            progress.advance(len(chunk), fraction=share.after(len(chunk.data)))
        if guides is not None:
            guides.check_end()
        for line in long_sentences(self.model, np.repeat(np.arange(len(orders)), orders)):
            self.tell(f"{name}: {line}")
        return Counts(n_sentences, failed)

    def _check_beginning(self, file: str) -> None:
        """Look at the columns of the first piece of a file, which decide for all its shards."""
        with open(file, "rb") as source:
            # Its faults are told where it is parsed.
            for chunk in stream_treebanks(source, file, on_error="skip", max_line=self.max_line):
                if chunk.n_words:
                    guides = None if self.guide is None else Guides(self.guide)
                    heads = None if guides is None else guides.of(chunk)
                    self._check_first(chunk, guides, heads)
                    return

    def _check_first(
        self, chunk: Treebank, guides: Guides | None, heads: np.ndarray | None
    ) -> None:
        self._check_columns(chunk)
        if guides is not None and heads is not None and heads.max() < 0:
            self._miss([guides.missing_in(chunk)], "add them")

    def _read(
        self, source: BinaryIO, name: str, guides: Guides | None, place: Place
    ) -> Iterator[tuple[Treebank, np.ndarray | None, Batch | None, Sent | None]]:
        """A stream in chunks, with their guides; for a device encoded too, and on their way there.

        For a device the next chunk is read while one is parsed.
        """
        on_gpu = choose_backend(self.backend, torch.device(self.device), has_kernels=True) != "cpu"
        stream = partial(stream_treebanks, chunk_bytes=GPU_CHUNK) if on_gpu else stream_treebanks
        chunks = stream(
            source,
            name,
            on_error=self.on_error,
            max_line=self.max_line,
            first_line=place.line,
            first_byte=place.byte,
        )
        if not on_gpu:
            for chunk in chunks:
                yield chunk, None if guides is None else guides.of(chunk), None, None
            return

        def encoded() -> Iterator[tuple[Treebank, np.ndarray | None, Batch | None, Sent | None]]:
            for chunk in chunks:
                heads = None if guides is None else guides.of(chunk)
                batch = self.model.encode(chunk, heads)
                yield chunk, heads, batch, self.model.send(batch, self.device, self.backend)

        yield from ahead(encoded())

    def _check_columns(self, chunk: Treebank) -> None:
        """Refuse an input that lacks what the model looks at: its trees would be far worse."""
        missing = [
            f"{chunk.source}: column {column + 1} ({COLUMNS[column]}) is _ in all of the first"
            f" {chunk.n_words:,} words, but the model looks there for {_listed(fields)}"
            for column, fields in empty_columns(chunk, self.model.vocabularies).items()
            if column in TAGS or chunk.n_words >= SHORT
        ]
        self._miss(missing, "fill it in")

    def _miss(self, missing: list[str], what: str) -> None:
        """Refuse what is missing, or say so where that is allowed."""
        if missing and not self.allow_missing:
            advice = f"; {what}, or give --allow-missing to parse without"
            raise DataError("\n".join(line + advice for line in missing))
        for line in missing:
            self.tell(line)

    def _unkept(self, chunk: Treebank) -> tuple[list[DataError], np.ndarray]:
        """Errors of sentences whose heads no tree has all together, and which are sound, (S,)."""
        name, single_root = self.model.searched_with, self.model.single_root
        faults = check_trees(chunk, single_root=single_root, partial=True)
        starts = chunk.word_starts
        found, _ = check_sentences(chunk.heads, starts, single_root, True)
        sound = found == WELL_FORMED
        if name in BEGINS_PROJECTIVE:
            for s in np.flatnonzero(sound).tolist():
                heads = chunk.heads[starts[s] : starts[s + 1]]
                words = unkeepable(heads, single_root=single_root) if (heads >= 0).any() else []
                if words:
                    sound[s] = False
                    faults.append(_crossing(chunk, int(starts[s]), words, name))
        if faults and self.on_error == "fail":
            more = f" (and {len(faults) - 1} more such sentences)" if len(faults) > 1 else ""
            raise DataError(f"{faults[0]}{more}; --on-error skip or keep passes over them")
        return faults, sound

    def _only(
        self, chunk: Treebank, guides: np.ndarray | None, sound: np.ndarray
    ) -> tuple[Treebank, np.ndarray | None]:
        """The sound sentences and their guides; the others are left out or pass through."""
        some = replace(chunk.only(sound), dropped=chunk.dropped)
        if self.on_error == "skip":
            some = _without(some, chunk.spans[~sound])
        words = np.repeat(sound, np.diff(chunk.word_starts))
        return some, None if guides is None else guides[words]

    def _parsed(
        self,
        chunk: Treebank,
        guides: np.ndarray | None,
        batch: Batch | None,
        sent: Sent | None,
    ) -> tuple[bytes, np.ndarray]:
        """The bytes of a parsed chunk, and the orders of its sentences."""
        kept: Kept | None = kept_of(chunk) if self.keep_heads else None
        known = None if kept is None else kept.heads
        if self.k is not None:
            several = self.model.k_best(
                chunk,
                self.k,
                guides=guides,
                known=known,
                probabilities=self.probabilities,
                batch_size=self.batch_size,
                max_cells=self.max_cells,
                threads=self.threads,
            )
            assert several.orders is not None
            return written_k_best(self.model, chunk, several, kept), several.orders
        found = self.model.parse(
            chunk,
            guides=guides,
            known=known,
            probabilities=self.probabilities,
            least_risk=self.least_risk,
            batch_size=self.batch_size,
            max_cells=self.max_cells,
            threads=self.threads,
            device=self.device,
            backend=self.backend,
            batch=batch,
            sent=sent,
        )
        assert found.orders is not None
        return written(self.model, chunk, found, kept), found.orders


def _without(chunk: Treebank, spans: np.ndarray) -> Treebank:
    """The treebank that leaves out these lines (F, 2) too, with the blank line after each."""
    text = chunk.data
    ends = [
        end + (2 if text[end : end + 2].tobytes() == b"\r\n" else 1) for end in spans[:, 1].tolist()
    ]
    dropped = np.concatenate([chunk.dropped, np.stack([spans[:, 0], ends], 1).clip(max=len(text))])
    is_last = bool((spans[:, 1] == len(text)).any())
    return replace(
        chunk,
        dropped=dropped[np.argsort(dropped[:, 0])],
        file_end=b"" if is_last else chunk.file_end,
    )


def _crossing(chunk: Treebank, first: int, words: list[int], decoder: str) -> DataError:
    """The error of a sentence whose words' heads cannot be kept where arcs may not cross."""
    named = [f"{m} ({chunk.column(first + m - 1, FORM)})" for m in words[:MANY]]
    listed = ", ".join(named) + (f" and {len(words) - MANY} more" if len(words) > MANY else "")
    what = "searches for" if DECODERS[decoder].is_projective else "begins with"
    return DataError(
        f"{word_place(chunk, first + words[0] - 1)}the heads of the words {listed} cannot all be"
        f" kept: decoder {decoder} {what} trees without crossing arcs, and no such tree has them;"
        " change one to _, or parse with a model of decoder=chu_liu_edmonds"
    )
