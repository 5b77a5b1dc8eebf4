"""The reference that is made from the code: the help of all commands, and docstrings as reST."""

import contextlib
import importlib
import io
import os
import re
import sys
from unittest import mock

from gpuparse.__main__ import COMMANDS

_SECTION = re.compile(r"(Args|Returns|Yields|Raises|Cost|Source): ?(.*)")
_ITEM = re.compile(r"\*{0,2}[\w.]+(?:, \*{0,2}[\w.]+)*: ")


def commands() -> str:
    """The help of each command, as Markdown."""
    pages = []
    for name, (module, purpose) in COMMANDS.items():
        text = io.StringIO()
        with (
            mock.patch.object(sys, "argv", ["gpuparse"]),
            mock.patch.dict(os.environ, COLUMNS="88"),
            contextlib.redirect_stdout(text),
            contextlib.suppress(SystemExit),
        ):
            importlib.import_module(module).main(["--help"])
        pages.append(
            f"## {name}\n\n{purpose[0].upper()}{purpose[1:]}.\n\n```text\n{text.getvalue()}```\n"
        )
    return "\n".join(pages)


def add_commands(app: object, page: str, source: list[str]) -> None:
    """A hook of Sphinx: the help of the commands in place of a comment of commands.md."""
    if page == "commands":
        source[0] = source[0].replace("<!-- commands -->", commands())


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
