"""`explain`: why a word has this head and not another, by its templates or the other words."""

import argparse
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from gpuparse.commands.console import add_number, exit_codes, print_json, whole_number
from gpuparse.commands.parse import named
from gpuparse.data.formats.json_lines import file_format, stream_format
from gpuparse.data.formats.names import AUTO, INPUTS, is_table
from gpuparse.data.formats.sources import Source
from gpuparse.data.formats.streams import beginning, begun
from gpuparse.data.treebank import Treebank
from gpuparse.errors import ConfigError, plural, require
from gpuparse.files import STANDARD, input_file, standard_input
from gpuparse.jobs.options import ParseOptions
from gpuparse.jobs.parse import Job
from gpuparse.jobs.progress import Progress, program, say
from gpuparse.jobs.reasons import as_dict, as_text
from gpuparse.model.explain import explain
from gpuparse.model.folder import load_parser
from gpuparse.model.installed import find_model
from gpuparse.model.pipeline import load_stages


def main(arguments: Sequence[str]) -> int:
    """Explain the head of one word of a parsed sentence.

    Raises:
        ConfigError: no such sentence, word or head, or several sentences and none is named; a model
            of graphs; templates of a model without any.
        DataError: the file cannot be used. ModelError: the model cannot be used.
        NoTreeError: no tree has the other head. ResourceError: the sentence is too long.
    """
    options = _parser().parse_args(arguments)
    folder = find_model(options.model)
    model, stages = load_parser(folder), load_stages(folder)
    if options.templates and model.fused is None:
        raise ConfigError(f"--templates: {options.model} has no templates; leave it out")
    asked = ParseOptions(guide=options.guide, keep=options.keep, allow_missing=True)
    job = Job(model=model, stages=stages, options=asked, tell=say)
    treebank, sentence, guides = _read(options, job)
    n_words = int(treebank.word_starts[sentence] - treebank.word_starts[sentence - 1])
    with Progress("leaving out words", total=n_words, quiet=model.fused is not None) as progress:
        found = explain(
            model, treebank, sentence, options.word, instead=options.instead, guides=guides,
            progress=progress.advance,
        )  # fmt: skip
    if options.json:
        print_json(as_dict(found))
    else:
        print(as_text(found, templates=options.templates))
    return 0


def _read(options: argparse.Namespace, job: Job) -> tuple[Treebank, int, np.ndarray | None]:
    """The piece of the input with the sentence, the sentence's number in it, and its guides."""
    asked, name = options.sentence, named(options.file)
    n, found = 0, []
    with _source(options, job) as source:
        for piece, guides in job.annotated(source):
            row = 0  # among the sentences with words
            for n_words in piece.counts.tolist():
                n, row = n + 1, row + bool(n_words)
                is_number = asked is None or asked.isdecimal()
                own = str(n) if is_number or not n_words else piece.treebank.sent_id(row - 1)
                if asked in (None, own):
                    found.append((piece.treebank, row if n_words else 0, guides))
            if len(found) > (asked is None):
                break
    if not found:
        raise ConfigError(
            f"{name}: has {plural(n, 'sentence')}, and none with the number or sent_id {asked or 1}"
        )
    if asked is None and len(found) > 1:
        raise ConfigError(
            f"{name}: has several sentences; name one by --sentence, its number or sent_id"
        )
    if not found[0][1]:
        raise ConfigError(f"{name}: sentence {asked or 1} has no words")
    return found[0]


@contextmanager
def _source(options: argparse.Namespace, job: Job) -> Iterator[Source]:
    """The input, which is raw text where `parse` would take it for such."""
    file, name, begin = options.file, named(options.file), b""
    kind = file_format(file, options.input_format)
    if file == STANDARD and options.input_format == AUTO:
        begin = beginning(standard_input())
        kind = stream_format(begin, name, is_text=bool(job.stages.tokenizer))
    job.options.check_input(kind, name, options.model, job.stages)
    if is_table(kind):
        require(f"{name}: a table", "pyarrow.parquet")
    with input_file(file) as opened:
        yield job.source(begun(begin, opened) if begin else opened, name, kind)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=program("explain"),
        description="Explain why a word has its head: compare the best tree with the best tree in"
        " which the word has another head, and say in words what speaks for each, in nats (natural"
        " logarithms of probability ratios). The numbers add up to the difference of both scores"
        " exactly. With a pretrained encoder, the scores of two heads are compared, in the sentence"
        " and without each of the other words. docs/draw-and-explain.md says how to read the"
        " tables. HEAD, DEPREL and DEPS of the file are not read.",
        epilog=exit_codes(0, 2, 3, 4, 5),
    )
    parser.add_argument("model", help="a folder that train wrote, or an installed model")
    parser.add_argument("file", help="an input of parse, or -; its trees are not read")
    parser.add_argument(
        "--input",
        dest="input_format",
        choices=INPUTS,
        default=AUTO,
        help="the format of the file, as for parse",
    )
    parser.add_argument(
        "--sentence",
        metavar="K",
        help="its number, from 1, or its sent_id; the default is the only one",
    )
    parser.add_argument(
        "--word", required=True, type=whole_number(1), metavar="M", help="its number, from 1"
    )
    add_number(
        parser,
        "--instead",
        0,
        "the number of the other head, 0 for the root; default: from the best tree in"
        " which the word has another head, with an encoder the best scored one",
        metavar="H",
    )
    parser.add_argument(
        "--guide", metavar="SOURCE", help="heads that another parser proposes, as for parse"
    )
    parser.add_argument("--keep", choices=("tags",), help="tags: keep tags of FILE, as for parse")
    parser.add_argument(
        "--templates",
        action="store_true",
        help="list templates and the whole-number weights of the model, not reasons in words",
    )
    parser.add_argument("--json", action="store_true", help="write JSON instead of tables")
    return parser
