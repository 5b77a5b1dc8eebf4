"""`parse`: fill in HEAD and DEPREL of CoNLL files of any size; all other bytes are preserved."""

import argparse
import os
import re
import shlex
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, fields
from itertools import groupby, repeat
from pathlib import Path
from typing import BinaryIO, NamedTuple, NoReturn, cast

from gpuparse.commands.console import add_number, exit_codes, output_file
from gpuparse.data.columns import is_guide_file
from gpuparse.data.formats.arrow_tables import TableFile
from gpuparse.data.formats.json_lines import file_format, first_line, is_object, stream_format
from gpuparse.data.formats.names import (
    AUTO,
    INPUTS,
    JSONL,
    OUTPUTS,
    RAW,
    TEXT,
    WORDS_ALONE,
    check_output_folder,
    compression_of,
    format_of,
    inputs_below,
    is_table,
    output_format,
    outputs_of,
)
from gpuparse.data.formats.sources import Piece
from gpuparse.data.formats.streams import beginning, begun
from gpuparse.data.formats.text import OnTextError
from gpuparse.errors import ConfigError, DataError, GpuparseError, ModelError, plural, require
from gpuparse.files import (
    STANDARD,
    check_new_file,
    input_file,
    standard_input,
)
from gpuparse.inference.decoders import DECODERS, ENGINES
from gpuparse.jobs.options import HEADS, TAGS, ParseOptions, device_of_parsing
from gpuparse.jobs.parse import FileParts, Job, ShareRead
from gpuparse.jobs.predictions import DEPS_OF_TREES, EMPTY, Result
from gpuparse.jobs.progress import Progress, program, say, silent
from gpuparse.jobs.receipts import Origin, Receipt
from gpuparse.jobs.resources import limit_torch_threads, thread_count
from gpuparse.jobs.shards import (
    MOST,
    Counts,
    FolderFile,
    Sharded,
    ShardedTable,
    ShardedText,
    ShardOptions,
    Summed,
    WantedShards,
    check_regular,
    receipt_of,
)
from gpuparse.jobs.toy import TOY, is_toy
from gpuparse.limits import MAX_K_BEST
from gpuparse.model.decoder_choice import limit_labels, with_decoder
from gpuparse.model.engines.admission import default_batch_size
from gpuparse.model.folder import check_folder, load_parser
from gpuparse.model.installed import find_model
from gpuparse.model.parser import Parser
from gpuparse.model.pipeline import Pipeline, has_parser, load_stages, sum_of_stages

_ALL, _JOIN = "all", "join"  # in place of the number of a shard
SHORT_FILE = 1 << 20  # bytes of an input that one worker parses as a whole
_MOST = 999_999_999  # of options whose largest value has no reason of its own


def main(arguments: Sequence[str]) -> int:
    """Parse files with a trained model.

    Returns: 0, or 1 if malformed sentences, or sentences whose heads cannot be kept, were skipped
        or passed through.
    Raises:
        ConfigError: options that do not fit together; an output that exists already.
        ModelError: the model cannot be used.
        DataError: an input is missing, lacks a column that the model reads, or with `--on-error
            fail` has a malformed sentence or one whose heads cannot be kept.
    Cost: memory for a few MiB of an input of any size.
    """
    line = read_options(arguments)
    options, asked = line.options, line.asked
    outputs = _output_paths(line)
    check_shard(options)
    tell = silent if options.quiet else say
    folder = find_model(options.model)
    _check_model(folder)
    threads, stages = thread_count(options.threads), load_stages(folder)
    for said in line.passed_over:
        tell(said)
    for file, kind in zip(line.files, line.kinds, strict=True):
        if file != STANDARD or options.input_format != AUTO:  # else its beginning says its format
            asked.check_input(kind, named(file), options.model, stages)
    if has_parser(folder):
        model = _with_decoder(folder, options, tell)
        stages = stages.filled_by(model)
        notes = asked.check(model, stages, options.model)
        device, is_native = device_of_parsing(model, options.device, options.engine, tell)
        needs_no_torch = model.fused is not None or model.quantised is not None
        limit_torch_threads(threads, is_native=is_native and needs_no_torch)
        notes += [TOY] if is_toy(model.config) else []
    else:
        _refuse_parsing(options)
        notes = asked.check(None, stages, options.model)
        model, device, is_native = None, "cpu", True
    # Standard input is read last, so that it need not be typed before another error is printed.
    kinds, begin = _formats(line, stages, tell)
    forms = _output_formats(line, kinds)
    inputs = [_InputFile(*each) for each in zip(line.files, kinds, forms, outputs, strict=True)]
    for each in inputs:
        asked.check_input(each.kind, named(each.file), options.model, stages)
        asked.check_output(each.kind, each.form, named(each.file), model)
    for note in notes:
        tell(f"{options.model}: {note}")
    job = Job(
        model=model,
        stages=stages.filled_by(model, device),
        options=asked,
        batch_size=default_batch_size(device),
        threads=threads,
        device=device,
        engine=options.engine,
        is_native=is_native,
        tell=tell,
        may_pass_over=True,
        as_json_lines=_as_json_lines,
    )
    if line.names_folder:
        for parent in {output.parent for output in outputs if output}:
            os.makedirs(parent, exist_ok=True)
    origins = _origins(line, folder, job, inputs)
    doing = "parsing" if model else "annotating"
    with (
        _advice_if_stopped(line, tell),
        Progress(doing, quiet=options.quiet) as progress,
        ExitStack() as stack,
    ):
        if options.shard:
            made = zip(inputs, origins, strict=True)
            sharded = [_sharded(options, *of_input, job, stack) for of_input in made]
            share = ShareRead(sum(of_input.size for of_input in sharded))
            failed = sum(job.write_shards(of_input, progress, share) for of_input in sharded)
        else:
            failed = _parse_files(options, inputs, origins, job, progress, begin)
    if failed:
        # Not silenced by --quiet: it explains the exit code.
        kept = ", or their heads cannot be kept," if asked.keep_heads else ""
        are, were = ("is", "was") if failed == 1 else ("are", "were")
        fate = f"{were} {_FATE[options.on_error]}"
        say(f"{plural(failed, 'sentence')} {are} malformed{kept} and {fate}")
    return 1 if failed else 0


@dataclass(frozen=True)
class CommandLine:
    """A command line.

    options: as they were given. asked: those that all doors have. files: the inputs, those of a
    folder in its place. names: their names in an output. kinds: their formats. passed_over: a line
    for each folder with files that are not read. names_folder: whether `--output` is a folder: of
    several inputs, an existing one, or one that ends in /.
    """

    options: argparse.Namespace
    asked: ParseOptions
    files: list[str]
    names: list[str]
    kinds: list[str]
    passed_over: list[str]
    names_folder: bool


class _InputFile(NamedTuple):
    """An input, the format of its output and where that goes; None: to stdout."""

    file: str
    kind: str
    form: str
    output: Path | None


def _origins(
    line: CommandLine, folder: Path, job: Job, inputs: Sequence[_InputFile]
) -> list[Origin | None]:
    """The origin of each output, without its input, where work can go on that has ended early."""
    is_guided = line.asked.guide is not None and is_guide_file(line.asked.guide)
    if not (line.options.shard or (line.names_folder and not is_guided)):
        return [None] * len(inputs)
    contents = {"the model": sum_of_stages(folder)}
    more = {"at_most_one": line.options.at_most_one}
    return [Origin(job.recipe(each.kind, each.form) | more, contents) for each in inputs]


def _parse_files(
    options: argparse.Namespace, inputs: Sequence[_InputFile], origins: Sequence[Origin | None],
    job: Job, progress: Progress, begin: bytes,
) -> int:  # fmt: skip
    """Parse inputs one after the other; returns the number of sentences that are not sound.

    Args: begin: what was read of standard input.
    """
    share = ShareRead(_total([each.file for each in inputs]))
    receipts = [
        FolderFile(each.file, each.output, origin)
        if origin and each.output and os.path.isfile(each.file) else None
        for each, origin in zip(inputs, origins, strict=True)
    ]  # fmt: skip
    failed, n_done, left = 0, 0, []
    for each, receipt in zip(inputs, receipts, strict=True):  # before the first one is parsed
        counts = receipt.finished() if receipt and not options.force else None
        if counts is None:
            left.append((each, receipt))
        else:
            failed += counts.faults
            n_done += 1
            share.without(os.path.getsize(each.file))
    if n_done:
        job.tell(
            f"{options.output}: {plural(n_done, 'file is', 'files are')} finished and kept, with"
            " the same model, options and inputs"
        )
    try:
        for (each, receipt), parts in _with_parts(left, job):
            with output_file(each.output, force=options.force) as target:
                counts = _parse_file(each, receipt, target, job, progress, share, begin, parts)
            failed += counts.faults
            n_done += 1
    except GpuparseError:
        if n_done and any(receipts):
            job.tell(
                f"{options.output}: {plural(n_done, 'file is', 'files are')} finished; the same"
                " command parses the others"
            )
        raise
    for receipt in filter(None, receipts):
        receipt_of(receipt.output).unlink(missing_ok=True)
    return failed


def _with_parts(
    left: Sequence[tuple[_InputFile, FolderFile | None]], job: Job
) -> Iterator[tuple[tuple[_InputFile, FolderFile | None], FileParts | None]]:
    """Inputs, with the parts of short ones after the first, which workers parse as a whole."""

    def is_short(of_input: tuple[_InputFile, FolderFile | None]) -> bool:
        file = of_input[0].file
        return os.path.isfile(file) and os.path.getsize(file) <= SHORT_FILE

    for are_short, group in groupby(left, key=is_short):
        first, *others = group
        yield first, None  # it makes what workers share
        parts: Iterable[FileParts | None] = repeat(None)
        if are_short and others and job.may_share and job.is_native:
            parts = job.parts_of_files([(file, kind, form) for (file, kind, form, _), _ in others])
        yield from zip(others, parts, strict=False)


def _parse_file(
    each: _InputFile, receipt: FolderFile | None, target: BinaryIO, job: Job, progress: Progress,
    share: ShareRead, begin: bytes, parts: FileParts | None,
) -> Counts:  # fmt: skip
    with input_file(each.file) as source:
        origin = receipt.origin() if receipt else None
        summed = Summed(target)
        counts = job.write(
            job.source(
                begun(begin, source) if each.file == STANDARD and begin else source,
                named(each.file), each.kind,
            ),
            cast(BinaryIO, summed) if origin else target, progress, share,
            form=each.form, name=str(each.output or ""), of_file=parts,
        )  # fmt: skip
    if receipt and origin:  # before the output appears
        Receipt(origin, summed.facts | counts._asdict()).write(receipt_of(receipt.output))
    return counts


@contextmanager
def _advice_if_stopped(line: CommandLine, tell: Callable[[str], None]) -> Iterator[None]:
    """Say how to go on if the user stops the work."""
    try:
        yield
    except KeyboardInterrupt:
        output = line.options.output
        if line.options.shard:
            tell("the same command again parses the shards that are not finished")
        elif line.names_folder:
            tell(f"finished files are in {output}: the same command parses the others")
        elif output:
            tell(f"{output}: not written; with --shard all/N finished parts are kept")
        raise


def _check_model(folder: Path) -> None:
    """ModelError where there is no such folder, with the form of the command."""
    try:
        check_folder(folder)
    except ModelError as error:
        if folder.is_dir():
            raise
        raise ModelError(f"{error}; write: {program('parse')} MODEL [FILE ...]") from None


def _formats(
    line: CommandLine, stages: Pipeline, tell: Callable[[str], None]
) -> tuple[list[str], bytes]:
    """The format of each input, and what was read of standard input to find out its format.

    Standard input has no suffix: an object of JSON begins JSON lines and, with a tokeniser, what
    begins like raw text is raw text.
    """
    kinds, begin, given = list(line.kinds), b"", line.options.input_format
    for i, file in enumerate(line.files):
        is_json = kinds[i] == JSONL != format_of(file, given)
        if file == STANDARD and given in (AUTO, *WORDS_ALONE):
            begin = beginning(standard_input())
            is_json = is_object(begin)
            if given == AUTO:
                kinds[i] = stream_format(begin, named(file), is_text=bool(stages.tokenizer))
                if kinds[i] == TEXT:
                    tell("<stdin>: the first line has no tab: read as raw text, as by --input text")
        elif given in WORDS_ALONE and os.path.isfile(file):
            is_json = is_object(first_line(file))
        if is_json:
            how = "read as JSON lines, as by --input jsonl"
            how = f"read as {kinds[i]}, as --input says" if kinds[i] != JSONL else how
            tell(f"{named(file)}: the first line is an object of JSON: {how}")
    return kinds, begin


def _output_formats(line: CommandLine, kinds: Sequence[str]) -> list[str]:
    """The format of each output.

    Raises: ConfigError: as `output_format`; outputs of several formats would follow each other.
    """
    output = line.options.output
    path = "" if line.names_folder else output or ""
    forms = [output_format(kind, path, line.options.format) for kind in kinds]
    if output is None and len(set(forms)) > 1:
        raise ConfigError(
            f"the outputs would be {' and '.join(sorted(set(forms)))}, one after the other; give"
            " --output FOLDER"
        )
    return forms


def _as_json_lines(piece: Piece, result: Result) -> bytes:
    from gpuparse.api.json_lines import as_json_lines  # and the results of Python with it

    return as_json_lines(piece, result)


def _refuse_parsing(options: argparse.Namespace) -> None:
    """ConfigError for options of this command that a model without a parser cannot follow."""
    asked = {
        "--decoder": options.decoder, "--single-root": options.single_root,
        "--at-most-one": options.at_most_one,
    }  # fmt: skip
    for option in (option for option, is_asked in asked.items() if is_asked):
        raise ConfigError(f"{option}: {options.model} has no parser")


_FATE = {"skip": "skipped", "keep": "passed through unparsed"}


def _with_decoder(folder: Path, options: argparse.Namespace, tell: Callable[[str], None]) -> Parser:
    """The model with the decoder, roots and limits of the options."""
    model = load_parser(folder)
    if options.single_root:
        model = model.with_single_root()
    if options.decoder is not None:
        if options.decoder != model.decoder:
            tell(
                f"decoder {options.decoder}, with 1 to 10 points of UAS less; the weights were"
                f" learned with {model.decoder}"
            )
        model = with_decoder(model, options.decoder)
    if options.at_most_one:
        model = limit_labels(model, [limit.split(",") for limit in options.at_most_one])
    return model


def _sharded(
    options: argparse.Namespace, each: _InputFile, recipe: Origin | None, job: Job, stack: ExitStack
) -> Sharded:
    """An input to parse in shards, checked before the work begins; a table stays open."""
    assert recipe
    assert each.output
    asked = ShardOptions(
        each.output, options.shard, recipe, each.form, force=options.force, tell=job.tell
    )
    if each.kind in RAW:
        skips: OnTextError = "fail" if options.on_error == "fail" else "skip"
        return ShardedText(each.file, each.kind, asked, on_error=skips)
    if not is_table(each.kind):
        return Sharded(each.file, each.kind, asked)
    check_regular(each.file)
    source = stack.enter_context(input_file(each.file))
    return ShardedTable(TableFile(source, each.file, each.kind, threads=job.threads > 1), asked)


def _total(files: list[str]) -> int:
    """Number of bytes of all inputs; 0 if one is a pipe."""
    regular = all(file != STANDARD and os.path.isfile(file) for file in files)
    return sum(os.path.getsize(file) for file in files) if regular else 0


def read_options(arguments: Sequence[str]) -> CommandLine:
    """A command line, checked as far as possible without a model.

    Raises: ConfigError: options that do not fit together. DataError: the file of guides is missing.
    """
    options = _parser().parse_intermixed_args(arguments)
    given = vars(options) | {
        "keep_heads": HEADS in options.keep, "keep": TAGS if TAGS in options.keep else None
    }  # fmt: skip
    asked = ParseOptions(**{field.name: given[field.name] for field in fields(ParseOptions)})
    asked.check_values()
    files, names, passed_over = _in_folders(options)
    kinds = [file_format(file, options.input_format) for file in files]
    _check_guide(asked.guide, files)
    output = options.output
    names_folder = output is not None and (
        len(files) > 1 or any(file != STANDARD and os.path.isdir(file) for file in options.files)
        or output.endswith(os.sep) or os.path.isdir(output)
    )  # fmt: skip
    line = CommandLine(options, asked, files, names, kinds, passed_over, names_folder)
    _check_tables(line)
    return line


def _in_folders(options: argparse.Namespace) -> tuple[list[str], list[str], list[str]]:
    """Files, names and passed_over of `CommandLine`."""
    files: list[str] = []
    names: list[str] = []
    passed_over: list[str] = []
    for given in options.files or [STANDARD]:
        below: list[str] = []
        if given != STANDARD and os.path.isdir(given):
            below, said = inputs_below(given, options.input_format)
            passed_over += filter(None, [said])
        files += [os.path.join(given, name) for name in below] or [given]
        names += below or [os.path.basename(given)]
        if below and options.output is None:
            raise ConfigError(f"{given}: is a folder: give --output FOLDER for its parsed files")
        if below:
            check_output_folder(options.output, given)
    return files, names, passed_over


def _check_tables(line: CommandLine) -> None:
    """ConfigError for options that do not fit tables, where the input has some."""
    options = line.options
    tables = [file for file, kind in zip(line.files, line.kinds, strict=True) if is_table(kind)]
    has_rows = tables or JSONL in line.kinds
    if has_rows and options.guide is not None and is_guide_file(options.guide):
        raise ConfigError(
            "--guide FILE needs an input in CoNLL-U; give --guide misc:KEY for tables and JSON"
            " lines"
        )
    if not tables:
        return
    require(f"{named(tables[0])}: a table", "pyarrow.parquet")
    if options.kbest:
        raise ConfigError(
            "--kbest: a table has one tree per row; give CoNLL-U, or use parse of Python"
        )
    is_written = options.format == AUTO and options.output is None
    if is_written and (len(line.files) > 1 or sys.stdout.isatty()):
        raise ConfigError(
            f"{named(tables[0])}: a table cannot be shown, and not follow another; give --output"
        )


def named(file: str) -> str:
    """The name of an input in messages."""
    return "<stdin>" if file == STANDARD else file


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=program("parse"),
        description="Parse raw text, one word per line, CoNLL-U or CoNLL-X, or tables. Raw text"
        " needs a model with a tokeniser; its output is CoNLL-U. In CoNLL-U, HEAD, DEPREL and DEPS"
        " change; a tagger changes UPOS, XPOS and FEATS, a lemmatiser LEMMA; MISC changes with"
        " --probabilities, in very long sentences and in trees without a certificate. Tables"
        " get columns with the trees. Threads, batch size, device and engine change no byte of the"
        " output; with an encoder, another device may change a few heads.",
        epilog=exit_codes(0, 1, 2, 3, 4, 5, 6),
    )
    parser.add_argument(
        "model", metavar="MODEL", help="a folder that train wrote, or an installed model's name"
    )
    parser.add_argument(
        "files",
        nargs="*",
        default=[],  # otherwise argparse calls the files required
        metavar="FILE",
        help="input, a file or a folder of files; - or none: standard input",
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="PATH",
        help="write there, not to stdout: a file, for one input, compressed if it ends in .gz or"
        " .zst; a folder, for several inputs, or if PATH is one or ends in /, with the names of the"
        " inputs, .conllu in place of .txt",
    )
    parser.add_argument(
        "--input",
        dest="input_format",
        choices=INPUTS,
        default=AUTO,
        help="text, for models with a tokeniser; lines: text with a sentence per line; vertical: a"
        " word per line, an empty line after each sentence; conllu; jsonl: an object of JSON per"
        " sentence, or per document; or a table with a row for each in Parquet or Arrow IPC; auto,"
        " the default: by the suffix (.txt, .jsonl, .parquet, .arrow, ...), conllu for others; .gz"
        " and .zst files are decompressed",
    )
    parser.add_argument(
        "--format",
        choices=OUTPUTS,
        default=AUTO,
        help="the format of the output; default: by the suffix of a file, otherwise jsonl for"
        " JSON lines, the same table for a table, and conllu for all others",
    )
    parser.add_argument(
        "--encoding",
        metavar="NAME",
        help="of text, such as cp1252; the default is UTF-16 if the text begins with its byte-order"
        " mark, else UTF-8",
    )
    parser.add_argument(
        "--keep",
        action="append",
        choices=(TAGS, HEADS),
        default=[],
        help="tags: keep UPOS, XPOS, FEATS and lemmas of the input; models with a tagger or a"
        " lemmatiser predict those that are _, and without this option all; heads: keep the heads"
        " of the input, and the relations beside them; predict those that are _; can be repeated",
    )
    parser.add_argument(
        "--deps",
        choices=DEPS_OF_TREES,
        default=EMPTY,
        help="what a parser of trees writes into DEPS, whose arcs in the input are of other trees:"
        " empty, the default: _; tree: head and relation of each word; parsers of graphs write"
        " their arcs",
    )
    parser.add_argument(
        "--ranges",
        action="store_true",
        help="write TokenRange=FIRST:END into MISC of tokens of text: their first character in the"
        " file, from 0, and the one after the last",
    )
    add_number(parser, "--threads", 0, "0, the default: all processors", most=_MOST, default=0)
    parser.add_argument(
        "--device",
        choices=("auto", "cpu", "cuda"),
        default="auto",
        help="auto, the default: CUDA if it works",
    )
    parser.add_argument(
        "--engine",
        choices=("auto", *ENGINES),
        default="auto",
        help="native: compiled code; torch: on any device; triton: kernels on a GPU; the output is"
        " the same",
    )
    parser.add_argument("--backend", type=_renamed, help=argparse.SUPPRESS)
    parser.add_argument(
        "--decoder",
        choices=tuple(DECODERS),
        metavar="NAME",
        help="the decoder; the default is the one that the model was trained with; another one that"
        f" reads the same parts gives much worse trees ({', '.join(DECODERS)})",
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
        type=_wanted_shards,
        metavar="I/N",
        help="cut each file into N shards of whole sentences and parse only shard I, into"
        " OUTPUT.shard-I-of-N; all/N: parse all shards and join them, continuing after a kill;"
        " join/N: join existing shards",
    )
    parser.add_argument("--force", action="store_true", help="replace existing files")
    parser.add_argument("--quiet", action="store_true", help="no progress and warnings on stderr")
    return parser


def _add_confidence(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--probabilities",
        action="store_true",
        help="write into MISC: HeadProb, the marginal probability of the head; LabelProb, the"
        " probability of the relation given the head; TagProb, of models with a tagger, the"
        " marginal probability of UPOS and XPOS",
    )
    add_number(
        parser,
        "--kbest",
        1,
        "the K best trees of each sentence, one after the other, with rank and score in comments",
        most=MAX_K_BEST,
        metavar="K",
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
        raise ConfigError("--shard needs --output")
    if compression_of(options.output):
        raise ConfigError(f"{options.output}: shards are not compressed; name an output without it")
    if options.encoding is not None:
        raise ConfigError("--shard reads UTF-8, without --encoding; convert the text (iconv)")
    if options.guide is not None and is_guide_file(options.guide):
        raise ConfigError("--shard cannot be combined with --guide FILE; give --guide misc:KEY")


def _output_paths(line: CommandLine) -> list[Path | None]:
    """The output of each input, None for stdout, checked before the work begins."""
    options, files, output = line.options, line.files, line.options.output
    force = options.force or options.shard is not None  # an output of shards may be of this job
    for file in files:
        if file != STANDARD and not os.path.exists(file):
            raise DataError(f"{file}: no such file{_if_sentence(file, options.model)}")
    if files.count(STANDARD) > 1:
        raise ConfigError("standard input (-) can be read once only")
    if output is None:
        _check_stdout(files)
        return [None] * len(files)
    if not line.names_folder:
        check_new_file(output, force=force, source=files[0])
        output_format(line.kinds[0], output, options.format)
        return [Path(output)]
    if STANDARD in files:
        raise ConfigError(f"standard input has no name in the folder {output}; name a file")
    if os.path.exists(output.rstrip(os.sep) or os.sep) and not os.path.isdir(output):
        raise ConfigError(f"{output}: is not a folder; name another, or a file for one input")
    outputs = outputs_of(files, line.names, output, line.kinds, options.format)
    if os.path.isdir(output):
        for file, each in zip(files, outputs, strict=True):
            check_new_file(each, force=force or receipt_of(each).exists(), source=file)
    return [*outputs]


def _if_sentence(file: str, model: str) -> str:
    """Advice for a missing file whose name looks like a sentence; else an empty text."""
    if not re.search(r"\s", file) or re.search(r"\.\w+$", file):
        return ""
    return f"; to parse a sentence: echo {shlex.quote(file)} | {program('parse')} {model}"


def _check_stdout(files: list[str]) -> None:
    """ConfigError if stdout is redirected to an input, which would be read while it is written."""
    out = os.fstat(sys.stdout.fileno())
    for file in files:
        if file != STANDARD and stat.S_ISREG(out.st_mode) and os.path.samestat(out, os.stat(file)):
            raise ConfigError(f"{file}: standard output is redirected to this input")


def _renamed(value: str) -> NoReturn:
    raise argparse.ArgumentTypeError(f"give --engine auto, {', '.join(ENGINES)}")


def _wanted_shards(text: str) -> WantedShards:
    """The shards that `--shard I/N`, `all/N` and `join/N` name."""
    which, _, n = text.partition("/")
    if n.isascii() and n.isdigit() and len(n) < 10 and 0 < int(n) <= MOST:
        if which in (_ALL, _JOIN):
            return WantedShards(None, int(n), only_joined=which == _JOIN)
        if which.isascii() and which.isdigit() and len(which) < 10 and 0 < int(which) <= int(n):
            return WantedShards(int(which), int(n))
    raise argparse.ArgumentTypeError(
        f"expected I/N with I from 1 to N, {_ALL}/N or {_JOIN}/N, N at most {MOST}, not {text!r}"
    )
