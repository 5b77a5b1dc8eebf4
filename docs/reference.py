"""The reference that is made from the code: help of commands, tables of the API, docstrings.

`docs/update.py` writes tables of commands and of the API into their pages, so that these can be
read without the site. Sphinx adds the help of commands and whole docstrings.
"""

import contextlib
import importlib
import inspect
import io
import os
import re
import sys
from unittest import mock

from gpuparse.__main__ import COMMANDS

_SECTION = re.compile(r"(Args|Returns|Yields|Raises|Cost|Source): ?(.*)")
_API_TABLE = re.compile(
    r"\| (?:name \| what it is|functions \|) \|\n\| --- \| --- \|\n((?:\|.*\|\n)+)"
)
_API_ROW = re.compile(r"^\| `(gpuparse[\w.]*)` \|(.*)\|$", re.MULTILINE)
_ITEM = re.compile(r"\*{0,2}[\w.]+(?:, \*{0,2}[\w.]+)*: ")


_PARTS = {"config": ("copy",), "models": ("show", "package")}  # of commands, with help of their own


def commands() -> str:
    """The help of each command, as Markdown."""
    pages = []
    for name, (module, purpose) in COMMANDS.items():
        text = io.StringIO()
        for words in ([], *([part] for part in _PARTS.get(name, ()))):
            with (
                mock.patch.object(sys, "argv", ["gpuparse"]),
                mock.patch.dict(os.environ, COLUMNS="88"),
                contextlib.redirect_stdout(text),
                contextlib.suppress(SystemExit),
            ):
                importlib.import_module(module).main([*words, "--help"])
        pages.append(
            f"## {name}\n\n{purpose[0].upper()}{purpose[1:]}.\n\n```text\n{text.getvalue()}```\n"
        )
    return "\n".join(pages)


def commands_table() -> str:
    """The purpose of each command, as a Markdown table."""
    rows = [f"| `gpuparse {name}` | {purpose} |" for name, (_, purpose) in COMMANDS.items()]
    return "\n".join(["| command | what it does |", "| --- | --- |", *rows, ""])


def add_commands(app: object, page: str, source: list[str]) -> None:
    """A hook of Sphinx: the help of all commands after their table."""
    if page == "commands":
        source[0] += "\n" + commands()


def with_summaries(page: str) -> str:
    """The page of the API with the first sentence of each docstring in its tables."""
    return _API_ROW.sub(lambda row: f"| `{row[1]}` | {_summary(row[1])} |", page)


def _summary(name: str) -> str:
    """The first sentence of a docstring, and the public members of a module."""
    thing = _named(name)
    text = (inspect.getdoc(thing) or "").split("\n\n")[0].replace("\n", " ").replace("|", "\\|")
    own = vars(thing).items() if inspect.ismodule(thing) else ()
    members = [key for key, each in own if _is_public(key, each, name)]
    return text + "".join(f"{', ' if i else ' '}`{key}`" for i, key in enumerate(members))


def _is_public(name: str, thing: object, module: str) -> bool:
    is_own = getattr(thing, "__module__", "") == module
    return is_own and not name.startswith("_") and (inspect.isclass(thing) or callable(thing))


def _named(name: str) -> object:
    """The object of a dotted name."""
    with contextlib.suppress(ModuleNotFoundError):
        return importlib.import_module(name)
    module, _, last = name.rpartition(".")
    return getattr(_named(module), last)


def add_api(app: object, page: str, source: list[str]) -> None:
    """A hook of Sphinx: whole docstrings in place of the tables of api.md."""
    if page == "api":
        source[0] = _API_TABLE.sub(_directives, source[0])


def functions_of(page: str) -> list[str]:
    """The functions of `gpuparse.inference` that a page of the API has in its tables."""
    cells = re.findall(r"^\| (`\w+`(?:, `\w+`)*) \|", page, re.MULTILINE)
    return [f"gpuparse.inference.{name}" for cell in cells for name in re.findall(r"\w+", cell)]


def _directives(table: re.Match[str]) -> str:
    rst = []
    for name in [row[1] for row in _API_ROW.finditer(table[1])] + functions_of(table[1]):
        thing = _named(name)
        if inspect.isfunction(thing):
            rst.append(f".. autofunction:: {name}")
            continue
        kind = "automodule" if inspect.ismodule(thing) else "autoclass"
        # Users do not call the classes of `gpuparse`: arguments are not shown.
        is_of_users = name.count(".") == 1 or ".api." in name
        hidden = "()" if is_of_users and kind == "autoclass" else ""
        rst += [f".. {kind}:: {name}{hidden}", "   :members:"]
    return "\n".join(["```{eval-rst}", *rst, "```", ""])


def add_contents(app: object, page: str, source: list[str]) -> None:
    """A hook of Sphinx: the pages that a section of index.md lists are its table of contents."""
    if page != "index":
        return
    first, *sections = source[0].split("\n## ")
    for i, section in enumerate(sections):
        title, pages = section.partition("\n")[0], re.findall(r"\(([\w-]+)\.md\)", section)
        contents = ["```{toctree}", f":caption: {title}", ":hidden:", "", *pages, "```"]
        sections[i] = "\n".join([section, *contents, ""])
    source[0] = "\n## ".join([first, *sections])


def name_pages(app: object, page: str, source: list[str]) -> None:
    """A hook of Sphinx: links whose text is a file name get the title of the page or section."""
    source[0] = re.sub(r"\[[\w-]+\.md\](?=\([\w#.-]+\))", "[]", source[0])


def as_rst(app: object, what: str, name: str, thing: object, options: object, lines: list[str]):
    """A hook of Sphinx: a docstring as reStructuredText, with its sections as fields."""
    rst: list[str] = []
    in_section = in_code = False
    for line in lines:
        text, indent = line.strip(), len(line) - len(line.lstrip())
        follows_blank = not rst or not rst[-1].strip()
        in_section &= indent > 0 or not follows_blank or not text
        margin = "    " * in_section
        if section := _SECTION.fullmatch(line):
            rst += ["", f":{section[1]}:", "    " + _escaped(section[2])]
            in_section = True
        elif not text:
            rst.append("")
            in_code = False
        elif text.startswith((">>>", "...")) or in_code:
            rst.append(line)
            in_code = True
        elif in_section and indent == 4 and (item := _ITEM.match(text)):
            name_end = item.end() - 2
            names, meaning = _escaped(text[:name_end]), _escaped(text[name_end:])
            rst += ["", f"{margin}**{names}**{meaning}"]
        elif text.startswith("- "):
            rst += ["", margin + _escaped(text)]
        elif in_section or indent < 4:
            in_item = rst and rst[-1].startswith((margin + "- ", margin + "  "))
            rst.append(margin + "  " * bool(in_item and indent) + _escaped(text))
        else:
            rst += ["", "::", ""] if follows_blank else []
            rst.append("    " + line)
    lines[:] = rst


def _escaped(text: str) -> str:
    """Text whose only markup is code between backticks."""
    pieces = text.split("`")
    plain = [re.sub(r"([*_|\\])", r"\\\1", piece) for piece in pieces]
    return "".join(
        f"``{code}``" if i % 2 and i < len(pieces) - 1 and code else plain[i]
        for i, code in enumerate(pieces)
    )
