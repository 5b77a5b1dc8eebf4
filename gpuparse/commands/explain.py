"""`explain`: why a word has this head and not another, template by template."""

import argparse
import io
from collections.abc import Sequence
from pathlib import Path

from gpuparse.commands.console import exit_codes, print_json
from gpuparse.commands.evaluate import whole_number
from gpuparse.commands.parse import named
from gpuparse.data.conll import treebank_from_bytes
from gpuparse.data.guides import read_guides
from gpuparse.data.treebank import Treebank
from gpuparse.errors import ConfigError
from gpuparse.explaining import explain
from gpuparse.files import check_new_file, read_input, replace_file
from gpuparse.formats.names import (
    AUTO,
    CONLLU,
    TEXT,
    VERTICAL,
    format_of,
    is_raw_text,
)
from gpuparse.formats.text import text_chunk
from gpuparse.formats.vertical import stream_vertical
from gpuparse.jobs.options import COMMAND, ParseOptions
from gpuparse.jobs.parse import STANDARD, beginning
from gpuparse.jobs.progress import program
from gpuparse.jobs.reasons import as_dict, as_html, as_text
from gpuparse.model_folder import load_parser
from gpuparse.pipeline import Pipeline, load_stages

_INPUTS = (TEXT, VERTICAL, CONLLU)


def main(arguments: Sequence[str]) -> int:
    """Explain the head of one word of a parsed sentence.

    Args:
        arguments: `MODEL FILE --sentence K --word M [--instead H] [--all] [--json]
            [--html FILE [--force]] [--input FORMAT] [--guide SOURCE] [--keep tags]`.
    Returns: 0.
    Raises:
        ConfigError: no such sentence, word or head; the HTML file exists.
        DataError: the file cannot be used. ModelError: the model cannot be used.
        NoTreeError: no tree or graph has the other head. ResourceError: the sentence is too long.
    """
    options = _parser().parse_args(arguments)
    if options.html:
        check_new_file(options.html, force=options.force)
    model, stages = load_parser(Path(options.model)), load_stages(Path(options.model))
    treebank = _read(options, stages)
    guides = read_guides(treebank, options.guide) if options.guide else None
    treebank = stages.annotate(treebank, keep=options.keep == "tags")
    found = explain(
        model, treebank, options.sentence, options.word, instead=options.instead, guides=guides
    )
    if options.html:
        with replace_file(options.html, force=options.force) as file:
            file.write(as_html(found, show_all=options.all).encode())
    if options.json:
        print_json(as_dict(found))
    elif not options.html:
        print(as_text(found, show_all=options.all))
    return 0


def _read(options: argparse.Namespace, stages: Pipeline) -> Treebank:
    """The sentences of the file, which is raw text where `parse` would take it for such."""
    file, name = options.file, named(options.file)
    content = read_input(file)
    kind = format_of(file, options.input_format)
    is_unknown = file == STANDARD and options.input_format == AUTO
    if is_unknown and stages.tokenizer and is_raw_text(beginning(io.BytesIO(content))):
        kind = TEXT
    if kind not in _INPUTS:
        raise ConfigError(f"{name}: a table: explain reads {', '.join(_INPUTS)}")
    asked = ParseOptions(guide=options.guide, keep=options.keep)
    asked.check_input(kind, name, options.model, stages, COMMAND)
    if kind == TEXT:
        assert stages.tokenizer
        content = stages.tokenizer.split(text_chunk(content, name))
    if kind == VERTICAL:
        content = b"".join(stream_vertical(io.BytesIO(content), name))
    return treebank_from_bytes(content, name)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=program("explain"),
        description="Explain why a word has its head: compare the best tree with the best tree in"
        " which the word has another head, template by template. The weights add up to the scores"
        " of both trees exactly. Models of graphs compare graphs. docs/draw-and-explain.md says how"
        " to read the table. HEAD, DEPREL and DEPS of the file are not read.",
        epilog=exit_codes(0, 2, 3, 4, 5),
    )
    parser.add_argument("model", help="folder of a trained model")
    parser.add_argument(
        "file",
        help="CoNLL-X or CoNLL-U file, or -; its trees are not read; with a tokeniser also text"
        " (.txt)",
    )
    parser.add_argument(
        "--input",
        dest="input_format",
        choices=(AUTO, *_INPUTS),
        default=AUTO,
        help="the format of the file, as for parse",
    )
    parser.add_argument(
        "--sentence", type=whole_number(1), required=True, metavar="K", help="counted from 1"
    )
    parser.add_argument(
        "--word", type=whole_number(1), required=True, metavar="M", help="counted from 1"
    )
    parser.add_argument(
        "--instead",
        type=whole_number(0),
        metavar="H",
        help="the other head, 0 for the root; the default is that of the best tree in which the"
        " word has another head; in graphs, a head that the word has is left out",
    )
    parser.add_argument(
        "--guide", metavar="SOURCE", help="heads that another parser proposes, as for parse"
    )
    parser.add_argument("--keep", choices=("tags",), help="tags: keep those of FILE, as for parse")
    parser.add_argument("--all", action="store_true", help="list templates of weight 0 too")
    parser.add_argument("--json", action="store_true", help="write JSON instead of tables")
    parser.add_argument("--html", metavar="FILE", help="write a page instead of tables")
    parser.add_argument("--force", action="store_true", help="replace that file if it exists")
    return parser
