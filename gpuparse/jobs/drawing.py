"""Trees and graphs of a treebank as pictures, and as text."""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from html import escape
from pathlib import Path
from typing import NamedTuple

import numpy as np

from gpuparse.data.arc_layout import MARGIN, SMALL, Arc, Layout, lay_out
from gpuparse.data.draw import draw_tree, printable
from gpuparse.data.graphs import check_graphs, missing_graphs, read_graphs
from gpuparse.data.svg import FACES, svg_of_layout
from gpuparse.data.tikz import escaped, tikz_of_layout
from gpuparse.data.treebank import Treebank, word_place
from gpuparse.errors import ConfigError, DataError, option
from gpuparse.evaluation.reliability import HEAD, LABEL, misc_probabilities
from gpuparse.jobs.progress import say

WRONG_HEAD, WRONG_LABEL, MISSING = "wrong-head", "wrong-label", "missing"

KINDS = {  # name: meaning, colours on light and dark paper
    WRONG_HEAD: ("wrong head", "#b3261e", "#ff9a90"),
    WRONG_LABEL: ("wrong relation, ≠ gold", "#8a5a00", "#f0b955"),
    MISSING: ("missing: gold, below the words", "#0b6b3a", "#7cd39c"),
}

TEXT, HTML = "text", "html"
TAGS = {"upos": 3, "xpos": 4, "none": None}  # what is below the words, and its column
GRAPHS = ("deps", "heads")

_SUFFIXES = {
    ".txt": TEXT,
    ".svg": "svg",
    ".html": HTML,
    ".htm": HTML,
    ".tex": "tikz",
    ".tikz": "tikz",
}

_PALEST, _PALEST_LABEL = 0.4, 0.65  # shades of the probability 0: relations can still be read

_HEADING = 24  # pixels of a heading in an SVG of several sentences

_RANGE = re.compile(r"([0-9]{1,18})(?:(-)([0-9]{0,18}))?")


def chosen_sentences(text: str | None, treebank: Treebank) -> list[int]:
    """The sentences, from 0, of a list such as `3,7-9,20-,news-12`; all for None.

    Items are numbers or, where no sentence has the number, `sent_id`s. A `sent_id` may have commas
    if it is given alone.

    Raises: ConfigError: it is no such list, or the file has no such sentence.
    """
    n = len(treebank)
    if text is None:
        return list(range(n))
    items = text.split(",")
    chosen = [_in_range(item.strip(), n) for item in items]
    if [] not in chosen:
        return [s for each in chosen for s in each]
    named: dict[str, list[int]] = {}
    for s in range(n):
        named.setdefault(treebank.sent_id(s), []).append(s)
    if text and text in named:
        return named[text]
    found: list[int] = []
    for item, numbers in zip(items, chosen, strict=True):
        name = item.strip()
        if not (numbers or (name and name in named)):
            raise ConfigError(
                f"{option('sentences')}: {item!r}: {treebank.source} has the sentences 1 to {n},"
                " and none with this sent_id; give numbers and sent_ids as in 3,7-9,20-,news-12"
            )
        found += numbers or named[name]
    return found


def _in_range(item: str, n: int) -> list[int]:
    """The sentences, from 0, of an item such as 3, 7-9 or 20-; none if it is none of n."""
    found = _RANGE.fullmatch(item) if item.isascii() else None
    if not found:
        return []
    first = int(found[1])
    last = int(found[3] or n) if found[2] else first
    return list(range(first - 1, last)) if 1 <= first <= last <= n else []


def format_of_suffix(path: Path, advice: str = "") -> str:
    """The format of a file by its suffix.

    Raises: ConfigError: no format has it; advice: what else can be done.
    """
    if path.suffix not in _SUFFIXES:
        raise ConfigError(
            f"{path}: no format has the suffix {path.suffix!r}; expected {', '.join(_SUFFIXES)}"
            f"{advice}"
        )
    return _SUFFIXES[path.suffix]


def has_graphs(
    treebank: Treebank, gold: Treebank | None, asked: str | None,
    tell: Callable[[str], None] = say,
) -> bool:  # fmt: skip
    """True if DEPS is drawn.

    Args: asked: of GRAPHS; None: if it can be. tell: called with a note of what is drawn.
    Raises: DataError: it is asked for and cannot be read, or is empty.
    """
    if asked == "heads":
        return False
    for each in filter(None, (treebank, gold)):
        if each.n_words and missing_graphs(each).all():
            if asked:
                raise DataError(f"{each.source}: DEPS (column 9) is _ in every word: no graphs")
            return False
        if faults := check_graphs(each):
            if asked:
                raise faults[0]
            tell(f"{faults[0]}; only HEAD is drawn")
            return False
    if not asked:
        heads = option("graphs", "heads")
        tell(f"HEAD is drawn above the words, DEPS below; {heads} draws HEAD alone")
    return True


class Picture(NamedTuple):
    """A drawn sentence. number: from 1."""

    number: int
    name: str
    layout: Layout
    kinds: frozenset[str]
    has_shades: bool


def drawn_sentences(
    treebank: Treebank,
    gold: Treebank | None,
    chosen: Iterable[int],
    *,
    with_graphs: bool,
    tags: int | None,
) -> Iterator[Picture]:
    """Lay out sentences, one after the other.

    Args:
        gold: the same words, for the colours. chosen: from 0. with_graphs: whether DEPS is drawn.
        tags: the column below the words.
    Raises: DataError: a head is no number, or not in the sentence, or a probability is none.
    """
    given = _arcs(treebank, with_graphs)
    right = _arcs(gold, with_graphs) if gold else None
    shades = tuple(misc_probabilities(treebank, key) for key in (HEAD, LABEL))
    for s in chosen:
        start, stop = int(treebank.word_starts[s]), int(treebank.word_starts[s + 1])
        _check_heads(treebank, start, stop)
        if gold:
            _check_heads(gold, start, stop)
        drawn = _shaded(given(start, stop), [shade[start:stop] for shade in shades])
        arcs = compared(drawn, right(start, stop)) if right else drawn
        words = range(start, stop)
        below = [treebank.column(w, tags) for w in words] if tags is not None else None
        if below is not None and all(tag == "_" for tag in below):
            below = None
        yield Picture(
            s + 1,
            printable(treebank.sent_id(s)),
            lay_out([treebank.column(w, 1) for w in words], arcs, below),
            frozenset(arc.kind for arc in arcs if arc.kind),
            bool((~np.isnan(shades[0][start:stop])).any()),
        )


def _check_heads(treebank: Treebank, start: int, stop: int) -> None:
    for w, h in enumerate(treebank.heads[start:stop].tolist(), start):
        if not -1 <= h <= stop - start or h == w - start + 1:
            raise DataError(
                f"{word_place(treebank, w)}the head of word {w - start + 1} is"
                f" {treebank.column(w, 6)!r}; expected another word, 0 to {stop - start}, or _"
            )


def _arcs(treebank: Treebank, with_graphs: bool) -> Callable[[int, int], list[Arc]]:
    """The arcs of the words from `start` to `stop`: those of HEAD above, all others below."""
    graphs = read_graphs(treebank) if with_graphs else None

    def of_words(start: int, stop: int) -> list[Arc]:
        found = []
        for w in range(start, stop):
            m, primary = w - start + 1, int(treebank.heads[w])
            if primary >= 0:
                found.append(Arc(primary, m, treebank.column(w, 7).removeprefix("_")))
            if graphs:
                for k in range(int(graphs.starts[w]), int(graphs.starts[w + 1])):
                    h = int(graphs.heads[k])
                    if h != primary:
                        name = graphs.names[int(graphs.relations[k])]
                        found.append(Arc(h, m, name, is_below=True))
        return found

    return of_words


def _shaded(arcs: list[Arc], probabilities: Sequence[np.ndarray]) -> list[Arc]:
    """Arcs of HEAD with their probabilities."""

    def shade(p: float, palest: float) -> float:
        return 1.0 if np.isnan(p) else palest + (1 - palest) * p

    shaded = []
    for arc in arcs:
        head, label = (float(each[arc.modifier - 1]) for each in probabilities)
        if not arc.is_below and not np.isnan(head):
            note = f"{HEAD} {head:.4f}" + ("" if np.isnan(label) else f", {LABEL} {label:.4f}")
            of_line, of_label = shade(head, _PALEST), shade(label, _PALEST_LABEL)
            arc = arc._replace(shade=of_line, label_shade=of_label, note=note)
        shaded.append(arc)
    return shaded


def compared(drawn: Sequence[Arc], gold: Sequence[Arc]) -> list[Arc]:
    """Arcs with the kinds of their errors, and the gold arcs that are missing."""
    right = {(arc.head, arc.modifier): arc for arc in gold}
    compared = []
    for arc in drawn:
        own = right.pop((arc.head, arc.modifier), None)
        if own is None:
            arc = arc._replace(kind=WRONG_HEAD)
        elif own.label != arc.label:
            arc = arc._replace(kind=WRONG_LABEL, label=f"{arc.label} ≠ {own.label}")
        compared.append(arc)
    return compared + [arc._replace(kind=MISSING, is_below=True) for arc in right.values()]


_COLOURS = "".join(f".{kind} {{ color: {light}; }}\n" for kind, (_, light, _) in KINDS.items())

_DARK = "".join(f".{kind} {{ color: {dark}; }}\n" for kind, (_, _, dark) in KINDS.items())

_LINES = f""".{MISSING} path[stroke] {{ stroke-dasharray: 5 3; }}
.{WRONG_HEAD} path[stroke] {{ stroke-width: 2; }}
"""

_PAPER = ("--paper: #fff; color: #1b1b1b;", "--paper: #17181a; color: #e6e6e6;")

_DRAWING_STYLE = (
    f"svg {{ {_PAPER[0]} background: var(--paper); }}\n{_COLOURS}{_LINES}"
    f"@media (prefers-color-scheme: dark) {{ svg {{ {_PAPER[1]} }}\n{_DARK}}}\n"
)

_PAGE_STYLE = f"""
:root {{ color-scheme: light dark; }}
body {{ font: 16px/1.5 system-ui, sans-serif; margin: 1.5rem auto; padding: 0 1rem;
  background: var(--paper); {_PAPER[0]} }}
h1 {{ font-size: 1.4rem; line-height: 1.2; overflow-wrap: anywhere; }}
h2 {{ font-size: 1rem; margin: 2rem 0 .3rem; overflow-wrap: anywhere; }}
.wide {{ overflow-x: auto; }}
svg {{ display: block; }}
.legend span {{ margin-right: 1.2rem; display: inline-block; }}
{_COLOURS}{_LINES}@media (prefers-color-scheme: dark) {{ body {{ {_PAPER[1]} }}
{_DARK}}}
"""

_POLICY = "default-src 'none'; style-src 'unsafe-inline'"  # no script, no request


def page_head(title: str, style: str = "") -> str:
    """The beginning of a page with its title and its style, besides that of all pages."""
    title = escape(printable(title))
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{title}</title><style>{_PAGE_STYLE}{style}</style></head>\n<body>\n"
        f"<h1>{title}</h1>\n"
    )


def _html(pictures: Iterable[Picture], source: str) -> Iterator[str]:
    yield page_head(source)
    for picture in pictures:
        name = f" · {escape(picture.name)}" if picture.name else ""
        way = ' dir="rtl"' if picture.layout.is_mirrored else ""
        yield (
            f'<h2 id="s{picture.number}">{picture.number}{name}</h2>\n'
            f"{legend(picture.kinds, has_shades=picture.has_shades)}"
            f'<div class="wide" tabindex="0"{way}>{svg_of_layout(picture.layout)}</div>\n'
        )
    yield "</body></html>\n"


def legend(kinds: Collection[str], *, has_shades: bool) -> str:
    """The colours of a drawing."""
    said = [
        f'<span class="{kind}">{escape(meaning)}</span>'
        for kind, (meaning, _, _) in KINDS.items()
        if kind in kinds
    ]
    if has_shades:
        said.append("<span>lighter: less probable</span>")
    return f'<p class="legend">{"".join(said)}</p>\n' if said else ""


def _svg(pictures: Iterable[Picture], source: str) -> Iterator[str]:
    """One SVG; several sentences are one below the other, each with its number."""
    drawn = list(pictures)
    style = f"<style>{_DRAWING_STYLE}</style>"
    if len(drawn) == 1:
        alone = svg_of_layout(drawn[0].layout)
        yield alone.replace("<title>", f"{style}<title>", 1) + "\n"
        return
    width = max((picture.layout.width for picture in drawn), default=2 * MARGIN)
    height = sum(picture.layout.height + _HEADING for picture in drawn)
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}"'
        f' viewBox="0 0 {width} {height}" fill="currentColor"'
        f' font-family="{FACES}">{style}'
        f"<title>{escape(printable(source))}</title>\n"
    )
    top = 0
    for picture in drawn:
        drawing = svg_of_layout(picture.layout, f' y="{top + _HEADING}"')
        yield (
            f'<text x="{MARGIN}" y="{top + _HEADING - 6}" font-size="{SMALL}">{picture.number}'
            f"</text>{drawing}\n"
        )
        top += picture.layout.height + _HEADING
    yield "</svg>\n"


def _tikz(pictures: Iterable[Picture], source: str) -> Iterator[str]:
    yield (
        f"% {printable(source)}: needs \\usepackage[T1]{{fontenc}} and \\usepackage{{tikz}}; other"
        " scripts than Latin need LuaLaTeX or XeLaTeX and a font\n"
    )
    for kind, (_, light, _) in KINDS.items():
        name = f"gpuparse{kind.replace('-', '')}"
        look = {WRONG_HEAD: ", thick", MISSING: ", dashed"}.get(kind, "")
        yield f"\\definecolor{{{name}}}{{HTML}}{{{light[1:].upper()}}}\n"
        yield f"\\tikzset{{gpuparse {kind.replace('-', ' ')}/.style={{{name}{look}}}}}\n"
    for picture in pictures:
        name = f" {escaped(picture.name)}" if picture.name else ""
        yield f"\n% sentence {picture.number}{name}\n{tikz_of_layout(picture.layout)}"


def tree_texts(
    treebank: Treebank, gold: Treebank | None, chosen: Sequence[int], width: int
) -> Iterator[str]:
    """Trees for a terminal, one after the other; of several, each with its number.

    width: characters of a line.
    """
    for i, s in enumerate(chosen):
        start, stop = int(treebank.word_starts[s]), int(treebank.word_starts[s + 1])
        _check_heads(treebank, start, stop)
        if gold:
            _check_heads(gold, start, stop)
        name = printable(treebank.sent_id(s))
        heading = f"{s + 1} · {name}\n" if name else f"{s + 1}\n"
        if len(chosen) > 1:
            yield ("\n" if i else "") + heading
        forms = [treebank.column(w, 1) for w in range(start, stop)]
        heads = treebank.heads[start:stop].tolist()
        labels = _notes(treebank, gold, start, stop, forms)
        try:
            drawn = draw_tree(forms, heads, labels, width=width)
        except ValueError:  # a cycle
            rows = zip(forms, heads, labels, strict=True)
            drawn = "\n".join(
                printable(f"{m} {form}{f' ← {h}' if h >= 0 else ''} {label}").rstrip()
                for m, (form, h, label) in enumerate(rows, 1)
            )
        yield f"{drawn}\n"


def _notes(
    treebank: Treebank, gold: Treebank | None, start: int, stop: int, forms: Sequence[str]
) -> list[str]:
    """The relation of each word, and the gold relation and head where these are others."""
    notes = []
    for w in range(start, stop):
        note = treebank.column(w, 7).removeprefix("_")
        if gold and (right := gold.column(w, 7).removeprefix("_")) != note:
            note = f"{note} ≠ {right}"
        if gold and (h := int(gold.heads[w])) != treebank.heads[w]:
            head = "no head" if h < 0 else f"{h} {forms[h - 1]}" if h else "the root"
            note = f"{note}, gold head: {head}"
        notes.append(note)
    return notes


WRITERS: dict[str, Callable[[Iterable[Picture], str], Iterator[str]]] = {
    HTML: _html,
    "svg": _svg,
    "tikz": _tikz,
}
