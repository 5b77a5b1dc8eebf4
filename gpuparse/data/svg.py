"""A dependency tree or graph as SVG: words in a row, arcs with their relations above and below."""

from collections.abc import Sequence
from html import escape

from gpuparse.data.arc_layout import BEND, Arc, ArcLine, Layout, Text, has_known_width, lay_out

FACES = "Helvetica, Arial, sans-serif"


def svg_graph(
    forms: Sequence[str],
    arcs: Sequence[Arc | tuple[int, int, str]],
    *,
    tags: Sequence[str] | None = None,
) -> str:
    """Draws words and arcs; words of scripts that run from right to left are drawn so.

    Args:
        forms: (n,) the words.
        arcs: (head, modifier, relation), both 1..n, the head of a root is 0; or an `Arc`, whose
            kind is the class of its element.
        tags: (n,) small text below the words.
    Returns: an `<svg>` element in the colour of the text around it.
    Raises: ValueError: an arc leads out of the sentence, or the lengths differ.
    Cost: the square of the number of arcs.
    """
    return svg_of_layout(lay_out(forms, [Arc(*arc) for arc in arcs], tags))


def svg_of_layout(layout: Layout, attributes: str = "") -> str:
    """An `<svg>` element of a drawing; attributes: more ones of the element."""
    shapes = [_line(line) for line in layout.lines]
    of_words = ' direction="rtl"' if layout.is_mirrored else ""  # turns brackets round
    shapes += [_text(word, of_words) for word in layout.words]
    shapes += [_text(tag, ' opacity="0.7"') for tag in layout.tags]
    size = f'width="{layout.width}" height="{layout.height}"'
    if layout.is_mirrored:  # relations do not take the direction of the page around
        attributes += ' direction="ltr"'
    title = escape(" ".join(word.text for word in layout.words))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size}'
        f' viewBox="0 0 {layout.width} {layout.height}" role="img" fill="currentColor"'
        f' text-anchor="middle" font-family="{FACES}"'
        f"{attributes}><title>{title}</title>{''.join(shapes)}</svg>"
    )


def _text(text: Text, attributes: str = "") -> str:
    if has_known_width(text.text) and text.width:  # in a wider face it is made narrower
        attributes = f' textLength="{text.width:.1f}" lengthAdjust="spacingAndGlyphs"{attributes}'
    return (
        f'<text x="{text.x}" y="{text.y}" font-size="{text.size}"{attributes}>'
        f"{escape(text.text)}</text>"
    )


def _line(line: ArcLine) -> str:
    """The line, arrowhead and relation of an arc."""
    arc, h, m, foot, top = line.arc, line.head, line.modifier, line.foot, line.top
    up = 1 if arc.is_below else -1  # from the words outwards
    point = foot + 4 * up
    opacity = f' stroke-opacity="{0.55 * arc.shade:.2f}"' if not arc.kind else ""
    if arc.kind and arc.shade < 1:
        opacity = f' stroke-opacity="{arc.shade:.2f}"'
    path = f'<path fill="none" stroke="currentColor"{opacity} d="'
    if h is None:
        path += f'M{m},{top}V{point}"/>'
    else:
        turn, corner = (BEND if m > h else -BEND), top - BEND * up
        path += (
            f"M{h},{foot}V{corner}Q{h},{top} {round(h + turn, 1)},{top}"
            f'H{round(m - turn, 1)}Q{m},{top} {m},{corner}V{point}"/>'
        )
    fill = f' fill-opacity="{arc.shade:.2f}"' if arc.shade < 1 else ""
    path += f'<path{fill} d="M{m},{foot}l-3.5,{7 * up}h7z"/>'
    if line.label:
        shade = f' opacity="{arc.label_shade:.2f}"' if arc.label_shade < 1 else ""
        path += _text(line.label, shade)
    if not (arc.kind or arc.note):
        return path
    kind = f' class="{escape(arc.kind)}"' if arc.kind else ""
    note = f"<title>{escape(arc.note)}</title>" if arc.note else ""
    return f"<g{kind}>{note}{path}</g>"
