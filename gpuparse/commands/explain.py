"""`explain`: why a word has this head and not another, template by template."""

import argparse
import html
import io
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from gpuparse.commands.console import exit_codes, print_json, program
from gpuparse.commands.evaluate import whole_number
from gpuparse.commands.parse import named
from gpuparse.commands.parse_job import STANDARD, beginning, check_input
from gpuparse.data.conll import treebank_from_bytes
from gpuparse.data.draw import display_width, printable
from gpuparse.data.guides import read_guides
from gpuparse.data.table_files import AUTO, CONLLU, TEXT, VERTICAL, format_of, is_raw_text
from gpuparse.data.treebank import Treebank
from gpuparse.errors import ConfigError
from gpuparse.explaining import Choice, Explanation, Line, explain
from gpuparse.files import check_new_file, read_input, replace_file
from gpuparse.model_folder import load_parser
from gpuparse.pipeline import Pipeline, load_stages
from gpuparse.text.reader import text_chunk
from gpuparse.text.vertical import stream_vertical

_INPUTS = (TEXT, VERTICAL, CONLLU)
_HEADINGS = ("difference", "part", "template")


def main(arguments: Sequence[str]) -> int:
    """Explain the head of one word of a parsed sentence.

    Args:
        arguments: `MODEL FILE --sentence K --word M [--instead H] [--all] [--json]
            [--html FILE [--force]] [--input FORMAT] [--guides SOURCE] [--keep tags]`.
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
    guides = read_guides(treebank, options.guides) if options.guides else None
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
    of_columns = {"--guides": options.guides, "--keep": options.keep}
    check_input(kind, name, options.model, stages, of_columns, "fail")
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
        " of both trees exactly. Models of graphs compare graphs. docs/explaining.md says how to"
        " read the table. HEAD, DEPREL and DEPS of the file are not read.",
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
        "--guides", metavar="SOURCE", help="heads that another parser proposes, as for parse"
    )
    parser.add_argument("--keep", choices=("tags",), help="tags: keep those of FILE, as for parse")
    parser.add_argument("--all", action="store_true", help="list templates of weight 0 too")
    parser.add_argument("--json", action="store_true", help="write JSON instead of tables")
    parser.add_argument("--html", metavar="FILE", help="write a page instead of tables")
    parser.add_argument("--force", action="store_true", help="replace that file if it exists")
    return parser


def as_dict(found: Explanation) -> dict[str, object]:
    """The explanation for JSON; lines have their differences."""
    made = asdict(found)
    for name, choice in (("tree", found.tree), ("label", found.label)):
        if choice is not None:
            made[name]["difference"] = choice.score - choice.other_score
            for given, line in zip(made[name]["lines"], choice.lines, strict=True):
                given["difference"] = line.difference
    return made


def as_text(found: Explanation, *, show_all: bool = False) -> str:
    """The explanation as tables; show_all: with templates of weight 0."""
    texts = [printable(line) for line in _introduction(found)]
    for title, choice in _choices(found):
        rows, table = _summary(choice), _rows(choice, found, show_all=show_all)
        texts += ["", title, "", *_aligned(rows), "", *_aligned(table)]
    return "\n".join(texts)


def _introduction(found: Explanation) -> list[str]:
    lines = [" ".join(found.forms), ""]
    relation = f", relation {found.labels[found.word - 1]}" if found.labels else ""
    word, head, other = (_named(found, i) for i in (found.word, found.head, found.other_head))
    if found.graph and found.other_graph:
        mine, its = (
            _heads(found, graph[found.word - 1]) for graph in (found.graph, found.other_graph)
        )
        lines.append(f"{word} has {mine}. Compared with a graph in which it has {its}.")
        verb = "must not be" if found.other_head in found.graph[found.word - 1] else "must be"
        if found.is_asked:
            lines.append(f"The other graph is the one that was found where {other} {verb} a head.")
        else:
            lines.append("The other graph is the best one found in which the word has other heads.")
    else:
        lines.append(f"The head of {word} is {head}{relation}. Compared with {other} as its head.")
        if found.is_asked:
            lines.append(
                f"The other tree is the best tree that was found with that head ({other})."
            )
        else:
            lines.append("The other tree is the best one found in which the word has another head.")
    if not found.is_exact:
        kind = "graph" if found.graph else "tree"
        lines.append(f"The search of {found.decoder} does not always find the best {kind}.")
    return lines


def _heads(found: Explanation, heads: Sequence[int]) -> str:
    names = [_named(found, head) for head in heads]
    return f"the head {names[0]}" if len(names) == 1 else f"the heads {', '.join(names)}"


def _named(found: Explanation, node: int) -> str:
    return f"{found.forms[node - 1]} ({node})" if node else "the root (0)"


def _choices(found: Explanation) -> list[tuple[str, Choice]]:
    choices = [("Why these heads" if found.graph else "Why this head", found.tree)]
    if found.label and found.graph:
        choices.append(
            (f"Why this relation (of the arc from {_named(found, found.head)})", found.label)
        )
    elif found.label:
        choices.append(("Why this relation (of the finished tree)", found.label))
    return choices


def _summary(choice: Choice) -> list[list[str]]:
    difference = choice.score - choice.other_score
    rows = [["score", choice.name, choice.other_name, "difference"]]
    if choice.shared_parts:
        own, other = choice.score - choice.shared, choice.other_score - choice.shared
        name = f"parts of both ({choice.shared_parts})"
        rows.append([name, str(choice.shared), str(choice.shared), "0"])
        rows.append(["parts of one", str(own), str(other), f"{difference:+d}"])
    return [*rows, ["sum", str(choice.score), str(choice.other_score), f"{difference:+d}"]]


def _rows(choice: Choice, found: Explanation, *, show_all: bool) -> list[list[str]]:
    """A table of the templates, those without weight in one row."""
    rows = [[*_HEADINGS, choice.name, choice.other_name]]
    silent = 0
    for line in choice.lines:
        if not (show_all or line.weight or line.other_weight):
            silent += 1
            continue
        of = f"{line.part} of {_named(found, line.word)}" if line.word != found.word else line.part
        rows.append([f"{line.difference:+d}", of, line.template, *map(_cell, _sides(line))])
    if silent:
        rows.append(["+0", "", f"other templates ({silent})", "0", "0"])
    return rows


def _sides(line: Line) -> tuple[tuple[tuple[str, ...], int], tuple[tuple[str, ...], int]]:
    return (line.values, line.weight), (line.other_values, line.other_weight)


def _cell(side: tuple[tuple[str, ...], int]) -> str:
    values, weight = side
    if not values:
        return "-"
    return f"{weight:+d}  {', '.join(filter(None, values))}".rstrip()


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows as lines, columns one below the other."""
    cells = [[printable(cell) for cell in row] for row in rows]
    widths = [max(map(display_width, column)) for column in zip(*cells, strict=True)]
    return [
        "  ".join(
            cell + " " * (width - display_width(cell))
            for cell, width in zip(row, widths, strict=True)
        ).rstrip()
        for row in cells
    ]


_PAGE = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 80rem; margin: 2rem auto; padding: 0 1rem; }
h1, p { overflow-wrap: anywhere; }
"""
_STYLE = """
.explained .wide { overflow-x: auto; }
.explained table { border-collapse: collapse; margin: 1rem 0; }
.explained :is(th, td) { text-align: left; padding: .2rem .8rem; border-bottom: 1px solid #8886; }
.explained td:first-child { font-variant-numeric: tabular-nums; white-space: nowrap; }
.explained td:nth-child(n+4) { overflow-wrap: anywhere; }
.explained .plus td:first-child { color: light-dark(#05631c, #7ddb90); }
.explained .minus td:first-child { color: light-dark(#a3200d, #ff9e8c); }
@media (max-width: 40rem) {
  .explained :is(th, td) { padding: .2rem .4rem; white-space: nowrap; }
}
"""


def as_html(found: Explanation, *, show_all: bool = False) -> str:
    """The explanation as a page that needs no other file, for light and dark screens."""
    title = html.escape(
        printable(f"{'Heads' if found.graph else 'The head'} of {_named(found, found.word)}")
    )
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{title}</title><style>{_PAGE}</style></head>\n<body>\n<h1>{title}</h1>\n"
        f"{as_fragment(found, show_all=show_all)}\n</body></html>\n"
    )


def as_fragment(found: Explanation, *, show_all: bool = False) -> str:
    """The explanation as an element of a page or notebook, with its style."""
    body = [f"<p>{html.escape(printable(line))}</p>" for line in _introduction(found) if line]
    for heading, choice in _choices(found):
        body.append(f"<h2>{html.escape(heading)}</h2>")
        body.append(_html_table(_summary(choice), has_signs=False))
        body.append(_html_table(_rows(choice, found, show_all=show_all), has_signs=True))
    return f'<div class="explained"><style>{_STYLE}</style>\n' + "\n".join(body) + "</div>"


def _html_table(rows: Sequence[Sequence[str]], *, has_signs: bool) -> str:
    lines = []
    for number, row in enumerate(rows):
        tag, sign = "td" if number else "th", ""
        if has_signs and number and row[0] != "+0":
            sign = ' class="plus"' if row[0].startswith("+") else ' class="minus"'
        cells = "".join(f"<{tag}>{html.escape(printable(cell))}</{tag}>" for cell in row)
        lines.append(f"<tr{sign}>{cells}</tr>")
    return '<div class="wide" tabindex="0"><table>\n' + "\n".join(lines) + "\n</table></div>"
