"""`explain`: why a word has this head and not another, by its templates or the other words."""

import argparse
import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext

import numpy as np

from gpuparse.commands.console import exit_codes, print_json
from gpuparse.commands.parse import named
from gpuparse.data.treebank import Treebank
from gpuparse.errors import ConfigError, one_line, plural
from gpuparse.explaining import explain
from gpuparse.extras import require
from gpuparse.files import STANDARD, check_new_file, input_file, read_input, replace_file
from gpuparse.formats.json_lines import file_format, stream_format
from gpuparse.formats.names import AUTO, INPUTS, is_table
from gpuparse.formats.sources import Source
from gpuparse.formats.streams import beginning
from gpuparse.installed import find_model
from gpuparse.jobs.options import ParseOptions
from gpuparse.jobs.parse import Job
from gpuparse.jobs.progress import Progress, program, say
from gpuparse.jobs.reasons import as_dict, as_html, as_text
from gpuparse.model_folder import load_parser
from gpuparse.pipeline import load_stages


def main(arguments: Sequence[str]) -> int:
    """Explain the head of one word of a parsed sentence.

    Args:
        arguments: `MODEL FILE [--sentence K] --word M [--instead H] [--all] [--templates] [--json]
            [--html FILE [--force]] [--input FORMAT] [--guide SOURCE] [--keep tags]`.
    Returns: 0.
    Raises:
        ConfigError: no such sentence, word or head, several words of this form, or several
            sentences and none is named; the
            HTML file exists; templates of a model without any.
        DataError: the file cannot be used. ModelError: the model cannot be used.
        NoTreeError: no tree or graph has the other head. ResourceError: the sentence is too long.
    """
    options = _parser().parse_args(arguments)
    if options.html:
        check_new_file(options.html, force=options.force)
    folder = find_model(options.model)
    model, stages = load_parser(folder), load_stages(folder)
    if options.templates and model.fused is None:
        raise ConfigError(f"--templates: {options.model} has no templates; leave it out")
    asked = ParseOptions(guide=options.guide, keep=options.keep, allow_missing=True)
    job = Job(model=model, stages=stages, options=asked, tell=say)
    treebank, sentence, guides = _read(options, job)
    forms, other = treebank[sentence - 1].forms, options.instead
    word = _position(options.word, forms, "--word")
    instead = None if other is None else 0 if other == "0" else _position(other, forms, "--instead")
    with Progress("leaving out words", total=len(forms), quiet=model.fused is not None) as progress:
        found = explain(
            model, treebank, sentence, word, instead=instead, guides=guides,
            progress=progress.advance,
        )  # fmt: skip
    shown = {"show_all": options.all, "templates": options.templates}
    if options.html:
        with replace_file(options.html, force=options.force) as file:
            file.write(as_html(found, **shown).encode())
    if options.json:
        print_json(as_dict(found))
    elif not options.html:
        print(as_text(found, **shown))
    return 0


def _read(options: argparse.Namespace, job: Job) -> tuple[Treebank, int, np.ndarray | None]:
    """The piece of the input with the sentence, the sentence's number in it, and its guides.

    The sentence is the one with this number or, if there is none, the first with this sent_id.
    """
    asked, name = options.sentence, named(options.file)
    number = 1 if asked is None else _as_number(asked)
    n_before, found, of_name = 0, None, None
    with _source(options, job) as source:
        for piece, guides in job.annotated(source):
            n_here = len(piece.counts)
            if n_before < number <= n_before + n_here:
                n_words = piece.counts[: number - n_before]
                if n_words[-1] == 0:
                    raise ConfigError(f"{name}: sentence {number} has no words")
                found = piece.treebank, int((n_words > 0).sum()), guides
            elif asked and of_name is None:
                names = [piece.treebank.sent_id(s) for s in range(len(piece.treebank))]
                if asked in names:
                    of_name = piece.treebank, names.index(asked) + 1, guides
            n_before += n_here
            if (found and (asked or n_before > 1)) or (of_name and not number):
                break
    found = found or of_name
    if found is None:
        has = plural(n_before, "sentence")
        raise ConfigError(
            f"{name}: has {has}, and none with the number or sent_id {asked or number}"
        )
    if asked is None and n_before > 1:
        raise ConfigError(
            f"{name}: has several sentences; name one by --sentence, its number or sent_id"
        )
    return found


def _as_number(text: str) -> int:
    """A number of a sentence or word; 0 for other texts."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else 0


def _position(text: str, forms: Sequence[str], name: str) -> int:
    """The word of a number or, if there is none, of a form. name: of the option.

    Raises: ConfigError: no word or several have the form.
    """
    if 1 <= (number := _as_number(text)) <= len(forms):
        return number
    places = [m for m, form in enumerate(forms, 1) if form == text]
    if len(places) == 1:
        return places[0]
    if places:
        what = f"words {', '.join(map(str, places))} are {text}; give the number of one"
    else:
        words = one_line(" ".join(f"{form} ({m})" for m, form in enumerate(forms, 1)))
        what = f"expected a word of the sentence or its number, not {text}; it has {words}"
    raise ConfigError(f"{name}: {what}")


@contextmanager
def _source(options: argparse.Namespace, job: Job) -> Iterator[Source]:
    """The input, which is raw text where `parse` would take it for such."""
    file, name, content = options.file, named(options.file), None
    kind = file_format(file, options.input_format)
    if file == STANDARD:
        content = read_input(file)
        if options.input_format == AUTO:
            begin = beginning(io.BytesIO(content))
            kind = stream_format(begin, name, is_text=bool(job.stages.tokenizer))
    job.options.check_input(kind, name, options.model, job.stages)
    if is_table(kind):
        require(f"{name}: a table", "pyarrow.parquet")
    with input_file(file) if content is None else nullcontext(io.BytesIO(content)) as opened:
        yield job.source(opened, name, kind)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=program("explain"),
        description="Explain why a word has its head: compare the best tree with the best tree in"
        " which the word has another head, and say in words what speaks for each, in nats (natural"
        " logarithms of probability ratios). The numbers add up to the difference of both scores"
        " exactly. Models of graphs compare graphs. With a pretrained encoder, the"
        " scores of two heads are compared, in the sentence and without each of the other words;"
        " effects of words do not add up to the scores. docs/draw-and-explain.md says how to read"
        " the tables. HEAD, DEPREL and DEPS of the file are not read.",
        epilog=exit_codes(0, 2, 3, 4, 5),
    )
    parser.add_argument("model", help="a folder that train wrote, or an installed model")
    parser.add_argument(
        "file",
        help="an input of parse, or -; its trees are not read",
    )
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
        "--word", required=True, metavar="M", help="its number, from 1, or the word itself"
    )
    parser.add_argument(
        "--instead",
        metavar="H",
        help="the other head, a number or a word, 0 for the root; the default is that"
        " of the best tree in which the word has another head, with an encoder the best scored"
        " one; in graphs, a head that the word has is left out",
    )
    parser.add_argument(
        "--guide", metavar="SOURCE", help="heads that another parser proposes, as for parse"
    )
    parser.add_argument("--keep", choices=("tags",), help="tags: keep those of FILE, as for parse")
    parser.add_argument(
        "--all", action="store_true", help="list all reasons, heads and words, not the first ten"
    )
    parser.add_argument(
        "--templates",
        action="store_true",
        help="list templates and the whole-number weights of the model, not reasons in words",
    )
    parser.add_argument("--json", action="store_true", help="write JSON instead of tables")
    parser.add_argument("--html", metavar="FILE", help="write a page instead of tables")
    parser.add_argument("--force", action="store_true", help="replace that file if it exists")
    return parser
