"""A drawn tree or graph as a TikZ picture."""

from gpuparse.data.arc_layout import BEND, ArcLine, Layout, Text

_SPECIAL = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#",
    "%": r"\%", "_": r"\_", "^": r"\textasciicircum{}", "~": r"\textasciitilde{}",
    "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}", '"': r"\textquotedbl{}",
    "`": r"\textasciigrave{}", "-": "{-}", "'": "{'}",
    ",": "{,}", "≠": r"\ensuremath{\neq}",
}  # fmt: skip


def tikz_of_layout(layout: Layout) -> str:
    """A `tikzpicture` of a drawing: a pixel is 0.75 pt. It has no packages but `tikz`.

    The kinds of arcs are styles, such as `gpuparse wrong head` for wrong-head.
    """
    lines = [r"\begin{tikzpicture}[x=0.75pt, y=-0.75pt, inner sep=0pt, outer sep=0pt]"]
    lines.append(rf"\path[use as bounding box] (0,0) rectangle ({layout.width},{layout.height});")
    for line in layout.lines:
        lines += _line(line)
    lines += [_text(word) for word in layout.words]
    lines += [_text(tag, "opacity=0.7") for tag in layout.tags]
    return "\n".join([*lines, r"\end{tikzpicture}", ""])


def escaped(text: str) -> str:
    """Text that LaTeX prints as it is."""
    return "".join(_SPECIAL.get(character, character) for character in text)


def _style(kind: str, opacity: float) -> str:
    named = f", gpuparse {kind.replace('-', ' ')}" if kind else ""
    return named + (f", opacity={opacity:.2f}" if opacity < 1 else "")


def _line(line: ArcLine) -> list[str]:
    arc, h, m, foot, top = line.arc, line.head, line.modifier, line.foot, line.top
    route = f"({m},{top}) -- ({m},{foot})"
    if h is not None:
        route = f"({h},{foot}) -- ({h},{top}) -- ({m},{top}) -- ({m},{foot})"
    style = _style(arc.kind, arc.shade)
    drawn = [rf"\draw[->, rounded corners={0.75 * BEND}pt{style}] {route};"]
    if line.label:
        drawn.append(_text(line.label, _style(arc.kind, arc.label_shade).removeprefix(", ")))
    return drawn


def _text(text: Text, style: str = "") -> str:
    size = f"{0.75 * text.size:g}"
    font = rf"font=\fontsize{{{size}}}{{{size}}}\selectfont\sffamily"
    options = ", ".join(filter(None, ("anchor=base", font, style)))
    return rf"\node[{options}] at ({text.x},{text.y}) {{{escaped(text.text)}}};"
