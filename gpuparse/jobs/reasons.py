"""An explanation as text, as plain data for JSON, and as HTML."""

import html
from collections.abc import Sequence
from dataclasses import asdict

from gpuparse.data.draw import display_width, printable
from gpuparse.explaining import Choice, Explanation, TemplateChange, WordEffects
from gpuparse.features.phrases import Clause

_HEADINGS = ("difference", "part", "template")
SHOWN = 10  # reasons, candidate heads, and words left out, unless all are asked for
WIDTH = 100  # columns of a line, unless templates are shown
_NOTE = (
    "Scores are in nats. An effect is that of leaving out one word: the effects do not add up to"
    " the difference of the scores."
)


def as_dict(found: Explanation | WordEffects) -> dict[str, object]:
    """The explanation for JSON; lines and candidates have their differences."""
    made = asdict(found)
    if isinstance(found, WordEffects):
        score = found.score_of(found.head)
        for given in made["candidates"]:
            given["difference"] = score - given["score"]
        return made | {"note": _NOTE}
    for name, choice in (("tree", found.tree), ("label", found.label)):
        if choice is not None:
            made[name]["nats"] = choice.nats(choice.score - choice.other_score)
            made[name]["difference"] = choice.score - choice.other_score
            for given, line in zip(made[name]["lines"], choice.lines, strict=True):
                given["difference"] = line.difference
                given["nats"] = choice.nats(line.difference)
                given["because"] = _because(line, choice, found)
    return made


def as_text(
    found: Explanation | WordEffects, *, show_all: bool = False, templates: bool = False
) -> str:
    """The explanation in words and tables.

    Args:
        show_all: all reasons, heads and words, and not only the first.
        templates: the templates with their weights in place of reasons in words.
    """
    width = None if templates else WIDTH
    texts = [line for text in _introduction(found) for line in _wrapped(text, WIDTH)]
    for title, tables in _sections(found, show_all=show_all, templates=templates):
        texts += ["", *_wrapped(title, WIDTH)]
        for rows in tables:
            texts += ["", *aligned(rows, width)]
    return "\n".join(texts)


def _sections(
    found: Explanation | WordEffects, *, show_all: bool, templates: bool
) -> list[tuple[str, list[list[list[str]]]]]:
    """Titles with tables, each as rows, that of the headings first."""
    if isinstance(found, WordEffects):
        return [
            ("Scores of heads", [_candidate_rows(found, show_all=show_all)]),
            ("Words left out", [_left_out_rows(found, show_all=show_all)]),
        ]
    if templates:
        return [
            (title, [_summary(choice), _rows(choice, found, show_all=show_all)])
            for title, choice in _choices(found)
        ]
    sections: list[tuple[str, list[list[list[str]]]]] = []
    for title, choice in _choices(found):
        difference = choice.nats(choice.score - choice.other_score)
        title = f"{title}: {_side(choice.name)} rather than {_side(choice.other_name)}"
        rows = _reasons(choice, found, show_all=show_all)
        sections.append((f"{title}, {difference:+.2f} nats in all", [rows]))
    if found.left_out:
        head, other = (_named(found, i) for i in (found.head, found.other_head))
        whole = found.left_out[0].difference + found.left_out[0].effect
        title = (
            f"Words left out in turn: the score of the arc from {head} minus that from {other} is"
            f" {whole:+.3f} nats; without a word it is less by the word's effect"
        )
        sections.append((title, [_left_out_rows(found, show_all=show_all)]))
    return sections


def _side(name: str) -> str:
    """The heads, or the relation, that an alternative is named by."""
    return name.rsplit(" → ", 1)[0]


def _reasons(choice: Choice, found: Explanation, *, show_all: bool) -> list[list[str]]:
    """What adds to the difference of both scores, in words, the largest first."""
    lines = [line for line in choice.lines if show_all or line.weight or line.other_weight]
    shown = lines if show_all else lines[:SHOWN]
    rows = [["nats", "because"]]
    for line in shown:
        rows.append([f"{choice.nats(line.difference):+.2f}", _because(line, choice, found)])
    if len(lines) > len(shown):
        rest = choice.nats(sum(line.difference for line in lines[len(shown) :]))
        rows.append([f"{rest:+.2f}", f"all others ({len(lines) - len(shown)})"])
    return rows


def _because(line: TemplateChange, choice: Choice, found: Explanation) -> str:
    """What a template reads in both trees, or in one; of several times each value once."""
    mine, its = _values_by_place(line.clauses), _values_by_place(line.other_clauses)
    sides = _side(choice.name), _side(choice.other_name)
    if not (mine or its):
        kind = "" if line.part in ("arc", "label") else f" ({line.part})"
        both = (f"{choice.nats(w):+.2f}" for w in (line.weight, line.other_weight))
        own, other = (f"{value} with {side}" for value, side in zip(both, sides, strict=True))
        text = f"{line.template}{kind}: {own}, {other}"
    elif mine and its:
        text = ", ".join(
            f"{place} {value}".strip()
            + (f" (not {_other(value, its[place])})" if its.get(place, value) != value else "")
            for place, value in mine.items()
        )
    else:
        text = ", ".join(f"{place} {value}".strip() for place, value in (mine or its).items())
        text = f"only with {sides[0] if mine else sides[1]}: {text}"
    return f"of {_named(found, line.word)}: {text}" if line.word != found.word else text


def _other(value: str, other: str) -> str:
    """Another value, without the words at its end that both have."""
    words, others = value.split(), other.split()
    while len(words) > 1 and len(others) > 1 and words[-1] == others[-1]:
        words, others = words[:-1], others[:-1]
    return " ".join(others)


def _values_by_place(times: Sequence[Sequence[Clause]]) -> dict[str, str]:
    """The values of each word that a template looks at, of all times that it fires."""
    values: dict[str, list[str]] = {}
    for clauses in times:
        for place, value in clauses:
            known = values.setdefault(place, [])
            known += [value] if value not in known else []
    return {place: ", ".join(of_place) for place, of_place in values.items()}


def _introduction(found: Explanation | WordEffects) -> list[str]:
    lines = [" ".join(found.forms), ""]
    relation = f", relation {found.labels[found.word - 1]}" if found.labels else ""
    word, head, other = (_named(found, i) for i in (found.word, found.head, found.other_head))
    compared = f"The head of {word} is {head}{relation}. Compared with {other} as its head."
    probabilities = _probabilities(found, head, other)
    if isinstance(found, WordEffects):
        lines += [compared, probabilities, *_of_effects(found, head, other)]
    elif found.graph and found.other_graph:
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
        lines += [compared, probabilities]
        if found.is_asked:
            lines.append(
                f"The other tree is the best tree that was found with that head ({other})."
            )
        else:
            lines.append("The other tree is the best one found in which the word has another head.")
    if not found.is_exact:
        kind = "graph" if _is_of_graphs(found) else "tree"
        lines.append(f"The search of {found.decoder} does not always find the best {kind}.")
    return lines


def _probabilities(found: Explanation | WordEffects, head: str, other: str) -> str:
    """The probabilities of what is compared."""
    given = found.probabilities
    if given is None:
        return f"The decoder {found.decoder} gives no probabilities."
    said = f"Probability of {head}: {given.head:.4f}, of {other}: {given.other_head:.4f}"
    if given.relation is not None and found.labels:
        name = found.labels[found.word - 1]
        said += f"; of the relation {name}, if the head is right: {given.relation:.4f}"
    return said + ("." if given.is_calibrated else " (not calibrated).")


def _of_effects(found: WordEffects, head: str, other: str) -> list[str]:
    difference = found.score_of(found.head) - found.score_of(found.other_head)
    lines = []
    if not found.is_asked:
        lines.append("The arc from the other head scores more than those from all further heads.")
    if difference < 0:
        lines.append(
            f"The arc from {other} scores more than that from {head}; the best tree as a whole does"
            " not have it."
        )
    return [*lines, _NOTE]


def _is_of_graphs(found: Explanation | WordEffects) -> bool:
    return isinstance(found, Explanation) and found.graph is not None


def _heads(found: Explanation, heads: Sequence[int]) -> str:
    names = [_named(found, head) for head in heads]
    return f"the head {names[0]}" if len(names) == 1 else f"the heads {', '.join(names)}"


def _named(found: Explanation | WordEffects, node: int) -> str:
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


def _candidate_rows(found: WordEffects, *, show_all: bool) -> list[list[str]]:
    """A table of the best heads and of those that are compared."""
    score, compared = found.score_of(found.head), (found.head, found.other_head)
    rows = [["difference", "head", "score"]]
    for place, each in enumerate(found.candidates):
        if show_all or place < SHOWN or each.head in compared:
            difference = f"{score - each.score:+.3f}"
            rows.append([difference, _named(found, each.head), f"{each.score:.3f}"])
    return rows + _rest(rows, len(found.candidates), "heads")


def _left_out_rows(found: Explanation | WordEffects, *, show_all: bool) -> list[list[str]]:
    """A table of the words with the largest effects."""
    rows = [["effect", "without", "difference then", "head then"]]
    for each in found.left_out[: None if show_all else SHOWN]:
        then = [f"{each.difference:+.3f}", _named(found, each.head)]
        rows.append([f"{each.effect:+.3f}", _named(found, each.word), *then])
    return rows + _rest(rows, len(found.left_out), "words")


def _rest(rows: list[list[str]], n: int, what: str) -> list[list[str]]:
    """A row that says how many of n things are in none of the rows below the headings."""
    n_left = n + 1 - len(rows)
    empty = [""] * (len(rows[0]) - 2)
    return [["", f"other {what} ({n_left})", *empty]] if n_left else []


def _sides(line: TemplateChange) -> tuple[tuple[tuple[str, ...], int], tuple[tuple[str, ...], int]]:
    return (line.values, line.weight), (line.other_values, line.other_weight)


def _cell(side: tuple[tuple[str, ...], int]) -> str:
    values, weight = side
    if not values:
        return "-"
    return f"{weight:+d}  {', '.join(filter(None, values))}".rstrip()


def aligned(rows: Sequence[Sequence[str]], width: int | None = None) -> list[str]:
    """Rows as lines, columns one below the other.

    Args: width: columns of a line; the last cell of a longer one is wrapped.
    """
    cells = [[printable(cell) for cell in row] for row in rows]
    widths = [max(map(display_width, column)) for column in zip(*cells, strict=True)]
    left = sum(widths[:-1]) + 2 * (len(widths) - 1)
    lines = []
    for *row, last in cells:
        start = "".join(
            cell + " " * (room + 2 - display_width(cell))
            for cell, room in zip(row, widths[:-1], strict=True)
        )
        for text in [last] if width is None else _wrapped(last, max(width - left, WIDTH // 3)):
            lines.append((start + text).rstrip())
            start = " " * left
    return lines


def _wrapped(text: str, width: int) -> list[str]:
    """The text in lines of at most `width` columns; a longer word has its own line."""
    lines = [""]
    for word in printable(text).split(" "):
        if lines[-1] and display_width(f"{lines[-1]} {word}") > width:
            lines.append(word)
        else:
            lines[-1] = f"{lines[-1]} {word}" if lines[-1] else word
    return lines


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


def as_html(
    found: Explanation | WordEffects, *, show_all: bool = False, templates: bool = False
) -> str:
    """The explanation as a page that needs no other file, for light and dark screens."""
    heads = "Heads" if _is_of_graphs(found) else "The head"
    title = html.escape(printable(f"{heads} of {_named(found, found.word)}"))
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{title}</title><style>{_PAGE}</style></head>\n<body>\n<h1>{title}</h1>\n"
        f"{as_fragment(found, show_all=show_all, templates=templates)}\n</body></html>\n"
    )


def as_fragment(
    found: Explanation | WordEffects, *, show_all: bool = False, templates: bool = False
) -> str:
    """The explanation as an element of a page or notebook, with its style."""
    body = [f"<p>{html.escape(printable(line))}</p>" for line in _introduction(found) if line]
    for title, tables in _sections(found, show_all=show_all, templates=templates):
        body.append(f"<h2>{html.escape(printable(title))}</h2>")
        body += map(_html_table, tables)
    return f'<div class="explained"><style>{_STYLE}</style>\n' + "\n".join(body) + "</div>"


def _html_table(rows: Sequence[Sequence[str]]) -> str:
    lines = []
    for number, row in enumerate(rows):
        tag, sign = "td" if number else "th", ""
        if row[0].startswith(("+", "-")) and row[0].strip("+-0."):
            sign = ' class="plus"' if row[0].startswith("+") else ' class="minus"'
        cells = "".join(f"<{tag}>{html.escape(printable(cell))}</{tag}>" for cell in row)
        lines.append(f"<tr{sign}>{cells}</tr>")
    return '<div class="wide" tabindex="0"><table>\n' + "\n".join(lines) + "\n</table></div>"
