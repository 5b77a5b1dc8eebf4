"""The page of `report`: HTML with its style and drawings, without scripts and other files."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np

from gpuparse.data.arc_layout import Arc
from gpuparse.data.draw import printable
from gpuparse.data.svg import svg_graph
from gpuparse.data.treebank import Sentence, Treebank
from gpuparse.errors import plural
from gpuparse.evaluation.errors import Errors, Group
from gpuparse.evaluation.graphs import GraphScores
from gpuparse.evaluation.metrics import ArcCounts, Share, TreeScores
from gpuparse.evaluation.reliability import Reliability
from gpuparse.evaluation.reports import (
    ARC_SETS,
    GRAPH_ARC_SETS,
    GRAPH_SHARES,
    PROJECTIVE_TOO,
    SHARES,
)
from gpuparse.evaluation.significance import Comparison
from gpuparse.lab.comparing import TESTED, change, p_value
from gpuparse.lab.drawing import KINDS, LINES, compared
from gpuparse.lab.line_charts import Axis, ChartLine, line_chart
from gpuparse.learning.trainer import STAGES

SHOWN_ROWS = 20  # of a table; further ones are folded
CONFUSED = 12  # relations of the matrix
PAIRS = 10  # of relations that are confused most often


@dataclass(frozen=True, eq=False)
class System:
    """What a page says of one run.

    name: as the user gave it. labelled: whether it has relations. graphs: of models of graphs.
    reliability: by measure, none without probabilities. is_calibrated: of a model that has them.
    record: of scores.json. metrics: of metrics.jsonl.
    """

    name: str
    parsed: Treebank
    labelled: bool
    scores: TreeScores
    errors: Errors
    graphs: GraphScores | None
    reliability: dict[str, Reliability]
    is_calibrated: bool | None
    record: dict[str, Any]
    metrics: list[dict[str, Any]]


@dataclass(frozen=True, eq=False)
class Report:
    """What a page says: of one run or two, and of their comparison if there are two."""

    gold: Treebank
    systems: list[System]
    comparison: Comparison | None
    sentences: int


_STYLE = """
:root { color-scheme: light dark; --line-0: light-dark(#1663b0, #74b3f2);
  --line-1: light-dark(#b5460f, #f2a06b); --line-2: light-dark(#1d7a46, #7cd39c);
  --rule: light-dark(#d9d9d9, #444); --soft: light-dark(#dbe8f6, #23415f);
  --wrong: light-dark(#b3261e, #ff9a90); --paper: light-dark(#fff, #17181a); }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 76rem; margin: 1.5rem auto;
  padding: 0 1rem; background: var(--paper); color: light-dark(#1b1b1b, #e6e6e6);
  overflow-wrap: break-word; }
h1 { line-height: 1.2; font-size: 1.7rem; overflow-wrap: anywhere; }
h2 { margin-top: 2.5rem; border-bottom: 1px solid var(--rule); line-height: 1.3; }
h3 { margin-bottom: .3rem; }
a { color: var(--line-0); }
nav { display: flex; flex-wrap: wrap; gap: .3rem 1.1rem; }
.wide { overflow-x: auto; max-width: 100%; }
.row { display: flex; flex-wrap: wrap; gap: 1rem 2rem; align-items: flex-start; }
.row > * { min-width: 0; max-width: 100%; }
.row > figure { max-width: 22.5rem; }
table { border-collapse: collapse; margin: .6rem 0; font-variant-numeric: tabular-nums; }
th, td { padding: .15rem .7rem; border-bottom: 1px solid var(--rule); text-align: right;
  white-space: nowrap; }
th:first-child, td.text { text-align: left; }
thead th { font-weight: 600; vertical-align: bottom; }
tbody th { font-weight: 400; }
.facts th { text-align: left; white-space: normal; }
td.text { white-space: normal; overflow-wrap: anywhere; }
td.bar { background: linear-gradient(to right, var(--soft) var(--share), transparent 0); }
td.wrong, b.wrong { color: var(--wrong); font-weight: 600; }
.matrix th, .matrix td { padding: .1rem .4rem; }
.matrix td { background: color-mix(in srgb, var(--line-1) var(--share), transparent); }
.matrix td.same { background: none; opacity: .55; }
.matrix thead th + th { writing-mode: vertical-rl; transform: rotate(180deg); text-align: left; }
@media (max-width: 34rem) { body { font-size: 15px; } th, td { padding: .15rem .35rem; } }
figure { margin: 0 0 1rem; }
figcaption { font-weight: 600; }
.row .note { max-width: 34rem; }
.note, .legend { color: light-dark(#555, #aaa); font-size: .9rem; }
.legend span { white-space: nowrap; margin-right: 1rem; }
.legend i { display: inline-block; width: 1.6em; border-top: 3px solid; vertical-align: middle;
  margin-right: .35em; }
.legend i.dashed { border-top-style: dashed; }
svg { display: block; }
figure > svg { max-width: 100%; height: auto; }
article { margin: 1.5rem 0 2.5rem; }
summary { cursor: pointer; }
"""
_COLOURS = "".join(
    f".{kind} {{ color: light-dark({light}, {dark}); }}\n"
    for kind, (_, light, dark) in KINDS.items()
)


_POLICY = "default-src 'none'; style-src 'unsafe-inline'"  # no script, no request


def page(report: Report) -> str:
    """The page as HTML; the same bytes for the same report."""
    names = [printable(system.name) for system in report.systems]
    title = "Parsing report: " + " and ".join(names)
    sections = [(heading, text) for heading, text in _sections(report) if text]
    links = "".join(
        f'<a href="#{_anchor(heading)}">{escape(heading)}</a>' for heading, _ in sections
    )
    body = "".join(
        f'<section id="{_anchor(heading)}"><h2>{escape(heading)}</h2>\n{text}</section>\n'
        for heading, text in sections
    )
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{_STYLE}{_COLOURS}{LINES}</style></head>\n<body>\n"
        f"<h1>{escape(title)}</h1>\n<nav>{links}</nav>\n{body}</body></html>\n"
    )


def _anchor(heading: str) -> str:
    return heading.lower().replace(" ", "-")


def _sections(report: Report) -> list[tuple[str, str]]:
    """The headings of the page, and what is below them; nothing where there is nothing to show."""
    systems = report.systems
    return [
        ("The runs" if len(systems) > 1 else "The run", _about(report)),
        ("Scores", _scores(report)),
        ("Learning curves", _curves(systems)),
        ("Errors", _errors(systems)),
        ("Confusion of relations", "".join(_confusions(s, systems) for s in systems)),
        ("Reliability of probabilities", _reliability(systems)),
        ("Sentences", _sentences(report)),
    ]


# Tables.


@dataclass(frozen=True)
class Cell:
    """A cell with a kind, a class of the style, and a share, drawn as a bar or shade."""

    text: str
    kind: str = ""
    share: float | None = None


_Cell = Cell | str


def _table(
    headings: Sequence[str], rows: Iterable[Sequence[_Cell]], kind: str = "", *, folds: bool = True
) -> str:
    """Rows, the first cell of each its name; folds: whether rows of a long table are folded."""
    lines = [f"<tr>{_cells(row)}</tr>" for row in rows]
    head = "<tr>" + "".join(f'<th scope="col">{escape(text)}</th>' for text in headings) + "</tr>"
    what = f' class="{kind}"' if kind else ""

    def table(of: list[str]) -> str:
        inside = "\n".join(of)
        return (
            f'<div class="wide"><table{what}><thead>{head}</thead><tbody>\n{inside}\n</tbody>'
            "</table></div>\n"
        )

    first, rest = (lines[:SHOWN_ROWS], lines[SHOWN_ROWS:]) if folds else (lines, [])
    more = f"<details><summary>{len(rest)} more</summary>{table(rest)}</details>\n" if rest else ""
    return table(first) + more


def _cells(row: Sequence[_Cell]) -> str:
    name, *others = (cell if isinstance(cell, Cell) else Cell(cell) for cell in row)
    made = [f'<th scope="row">{escape(printable(name.text))}</th>']
    for cell in others:
        kind = f' class="{cell.kind}"' if cell.kind else ""
        share = "" if cell.share is None else f' style="--share:{100 * cell.share:.1f}%"'
        made.append(f"<td{kind}{share}>{escape(printable(cell.text))}</td>")
    return "".join(made)


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _letters(systems: Sequence[System]) -> list[str]:
    """What runs are called in headings: nothing, if there is but one."""
    return [""] if len(systems) == 1 else [" A", " B"]


# The sections.


def _about(report: Report) -> str:
    systems = report.systems
    gold = report.gold
    said = f"{gold.source}: {plural(len(gold), 'sentence')}, {plural(gold.n_words, 'word')}"
    scored = systems[0].scores.uas.total
    if scored < gold.n_words:
        said += f", of which {scored:,} are scored"
    rows: list[list[_Cell]] = [
        [letter.strip() or "run", Cell(system.name, "text")]
        for letter, system in zip(_letters(systems), systems, strict=True)
    ]
    rows.append(["gold trees", Cell(said, "text")])
    text = _table(["", ""], rows)
    records = [system.record for system in systems]
    shown: list[list[_Cell]] = [
        [title, *(Cell(_fact(record, key), "text") for record in records)]
        for key, title in _FACTS.items()
        if any(key in record for record in records)
    ]
    letters = [letter.strip() or "training" for letter in _letters(systems)]
    return text + (_table(["", *letters], shown, "facts") if shown else "")


_FACTS = {
    "decoder": "decoder",
    "features": "template set",
    "seed": "seed",
    "bits": "bits of a weight",
    "seconds": "seconds of training",
    "learning_seconds": "CPU seconds of learning",
    "peak_memory_bytes": "peak memory, MiB",
    "threads": "threads",
    "device": "device",
    "version": "gpuparse",
    "torch": "torch",
    "python": "Python",
}


def _fact(record: dict[str, Any], key: str) -> str:
    value = record.get(key)
    if value is None:
        return "-"
    if key == "peak_memory_bytes" and isinstance(value, int):
        return f"{value >> 20:,}"
    if isinstance(value, float):
        return f"{value:,.1f}"
    return str(value)


def _scores(report: Report) -> str:
    systems = report.systems
    letters = _letters(systems)
    labelled = all(system.labelled for system in systems)
    headings = ["", *(f"percent{letter}" for letter in letters)]
    headings += ["difference"] if len(systems) > 1 else ["right", "of"]
    rows: list[list[_Cell]] = []
    for title, name, meaning in SHARES:
        if labelled or "relation" not in meaning:
            shares: list[Share] = [getattr(system.scores, name) for system in systems]
            row = [title, *(_percent(share.percent) for share in shares)]
            if len(shares) > 1:
                row.append(change(*(share.percent for share in shares)))
            else:
                row += [f"{shares[0].correct:,}", f"{shares[0].total:,}"]
            rows.append([*row])
    text = _table(headings, rows, folds=False)
    all_scores = [system.scores for system in systems]
    text += _arc_sets([*ARC_SETS], all_scores, letters)
    crossing = [scores.nonprojective for scores in all_scores]
    if any(counts.found != counts.right for counts in crossing):
        text += f'<p class="note">{PROJECTIVE_TOO[0].upper()}{PROJECTIVE_TOO[1:]}.</p>\n'
    graphs = [system.graphs for system in systems if system.graphs]
    if len(graphs) == len(systems):
        text += "<h3>Graphs</h3>\n"
        sets = [(title, name) for title, name in GRAPH_ARC_SETS]
        text += _arc_sets(sets, graphs, letters)
        complete = [
            [title, *(_percent(getattr(each, name).percent) for each in graphs)]
            for title, name, _ in GRAPH_SHARES
        ]
        text += _table(["", *(f"percent{letter}" for letter in letters)], complete)
    if report.comparison is not None:
        text += _tests(report.comparison, labelled=labelled)
    return text


def _arc_sets(
    sets: Sequence[tuple[str, str]],
    scores: Sequence[TreeScores] | Sequence[GraphScores],
    letters: Sequence[str],
) -> str:
    measures = ("precision", "recall", "f")
    headings = ["", *(f"{measure}{n}" for measure in ("precision", "recall", "F") for n in letters)]
    rows = []
    for title, name in sets:
        counts: list[ArcCounts] = [getattr(each, name) for each in scores]
        rows.append([title, *(_percent(getattr(c, m)) for m in measures for c in counts)])
    return _table(headings, rows)


def _tests(comparison: Comparison, *, labelled: bool) -> str:
    """McNemar's test and the bootstrap."""
    rows = []
    for title, name in TESTED:
        if labelled or name == "uas":
            counts, drawn = comparison.disagreements[name], comparison.bootstrap[name]
            rows.append(
                [
                    title,
                    f"{drawn.difference:+.2f}",
                    f"{drawn.low:+.2f} to {drawn.high:+.2f}",
                    p_value(drawn.p),
                    f"{counts.only_first:,}",
                    f"{counts.only_second:,}",
                    p_value(counts.p),
                ]
            )
    headings = ["", "B - A", "95 % interval", "p, bootstrap", "only A right", "only B right"]
    headings.append("p, McNemar")
    return (
        "<h3>Do the runs differ?</h3>\n"
        + _table(headings, rows)
        + '<p class="note">A paired bootstrap over sentences, and the test of McNemar on the words'
        " that only one of the two has right. Both are two-sided: a small p says that so large a"
        " difference is rare between equally good parsers.</p>\n"
    )


def _curves(systems: Sequence[System]) -> str:
    charts = [_curve(stage.name, systems) for stage in STAGES if stage.is_scored]
    if not any(charts):
        return ""
    note = (
        "Training: words that are predicted rightly while they are learned from, which in"
        " cost-augmented search are fewer than could be."
    )
    if any(key in epoch for system in systems for epoch in system.metrics for key in _DEV.values()):
        note += " Dev: after the epoch, on data.dev."
    if any(epoch["stage"] == "vectors" for system in systems for epoch in system.metrics):
        note += " Several networks of word vectors are learned one after the other."
    tables = "".join(
        _epochs(system, n) for system, n in zip(systems, _letters(systems), strict=True)
    )
    return f'<div class="row">{"".join(charts)}</div>\n<p class="note">{note}</p>\n{tables}'


# Titles of the lines, and how their values follow from a line of metrics.jsonl.
_DEV = {
    "UAS": "dev_uas", "LAS": "dev_las", "arcs F": "dev_arcs_f",
    "labelled arcs F": "dev_labelled_arcs_f",
}  # fmt: skip


def _curve(stage: str, systems: Sequence[System]) -> str:
    """The chart of a stage; nothing if no run has it."""
    lines: list[ChartLine] = []
    for number, (system, letter) in enumerate(zip(systems, _letters(systems), strict=True)):
        epochs = [epoch for epoch in system.metrics if epoch["stage"] == stage]
        is_dashed = number > 0
        training = [(epoch["epoch"], _right(epoch)) for epoch in epochs]
        drawn = [(f"training{letter}", training, 2)]
        for k, key in enumerate(_DEV.values()):
            points = [(epoch["epoch"], _number(epoch, key)) for epoch in epochs]
            drawn.append((f"dev {list(_DEV)[k]}{letter}", points, k % 2))
        for name, values, colour in drawn:
            known = [(float(at), value) for at, value in values if value is not None]
            if known:
                lines.append(ChartLine(name, known, colour, is_dashed))
    if not lines:
        return ""
    x = Axis.over("epoch", [at for line in lines for at, _ in line.points], is_whole=True)
    y = Axis.over("percent", [value for line in lines for _, value in line.points])
    return _figure(stage, line_chart(lines, x, y), lines)


def _figure(title: str, chart: str, lines: Sequence[ChartLine]) -> str:
    keys = "".join(
        f"<span><i{' class=dashed' if line.is_dashed else ''}"
        f' style="color:var(--line-{line.colour})"></i>{escape(line.name)}</span> '
        for line in lines
    )
    return (
        f"<figure><figcaption>{escape(title)}</figcaption>{chart}"
        f'<div class="legend">{keys}</div></figure>'
    )


def _number(epoch: dict[str, Any], key: str) -> float | None:
    value = epoch.get(key)
    is_number = isinstance(value, (int, float)) and abs(value) < 1e9 and not math.isnan(value)
    return float(value) if is_number and value is not None else None


def _right(epoch: dict[str, Any]) -> float | None:
    """Percent of the words that are predicted rightly in training; of graphs, none."""
    wrong, words = _number(epoch, "wrong"), _number(epoch, "words")
    if wrong is None or not words or wrong > words or "dev_arcs_f" in epoch:
        return None
    return 100 * (1 - wrong / words)


def _epochs(system: System, letter: str) -> str:
    """The numbers of all epochs, folded."""
    if not system.metrics:
        return ""
    keys = {title: key for title, key in _DEV.items() if any(key in e for e in system.metrics)}
    rows = [
        [
            f"{epoch['stage']} {epoch['epoch']}",
            _percent(_right(epoch)),
            *(_percent(_number(epoch, key)) for key in keys.values()),
            _percent(_number(epoch, "seconds")),
        ]
        for epoch in system.metrics
    ]
    headings = ["stage and epoch", "training", *(f"dev {title}" for title in keys), "seconds"]
    table = _table(headings, rows, folds=False)
    return f"<details><summary>All epochs{letter}</summary>{table}</details>\n"


_NOTES = {
    "relation": "Recall, precision and F: head and whole relation right.",
    "arc length": "Words from the word to its head. UAS is over the gold arcs of a length,"
    " precision over the system's arcs of a length.",
    "distance to the root": "Arcs from the root to the word; precision as for lengths.",
    "sentence length": "All words of the sentences of a length.",
    "projectivity": "Non-projective: a word between the two ends of the arc is not below its head;"
    " a non-projective sentence has such an arc in its gold tree.",
}


def _errors(systems: Sequence[System]) -> str:
    tables = [_groups(kind, systems) for kind in systems[0].errors.groups]
    return '<div class="row">' + "".join(f"<div>{table}</div>\n" for table in tables) + "</div>\n"


def _groups(kind: str, systems: Sequence[System]) -> str:
    """A table of groups of words, those of both runs in one."""
    found = [{group.name: group for group in system.errors.groups[kind]} for system in systems]
    names = list(dict.fromkeys(name for groups in found for name in groups))
    labelled = all(system.labelled for system in systems)
    if kind == "relation" and not labelled:
        return ""
    make = _compared if len(systems) > 1 else _alone
    headings, rows = make(kind, names, found, labelled=labelled)
    note = f'<p class="note">{_NOTES[kind]}</p>\n' if kind in _NOTES else ""
    return f"<h3>By {escape(kind)}</h3>\n{note}{_table(headings, rows)}"


_BY_SYSTEM = ("arc length", "distance to the root")  # groups of arcs of other words than in gold


def _alone(
    kind: str, names: Sequence[str], found: Sequence[dict[str, Group]], *, labelled: bool
) -> tuple[list[str], list[list[_Cell]]]:
    headings = ["", "words", "UAS"]
    if kind == "relation":
        headings += ["recall", "precision", "F"]
    else:
        headings += ["LAS"] if labelled else []
        headings += ["precision"] if kind in _BY_SYSTEM else []
    headings += ["wrong heads", "of all wrong"]
    groups = found[0]
    # Arcs and sentences of the groups by projectivity are the same words twice.
    wrong = sum(group.heads.gold - group.heads.found for group in groups.values())
    wrong = wrong // 2 if kind == "projectivity" else wrong
    rows: list[list[_Cell]] = []
    for name in names:
        heads, both = groups[name].heads, groups[name].labelled
        row: list[_Cell] = [name, f"{heads.gold:,}", _percent(heads.recall)]
        if kind == "relation":
            row += [_percent(both.recall), _percent(both.precision), _percent(both.f)]
        else:
            row += [_percent(both.recall)] if labelled else []
            row += [_percent(heads.precision)] if kind in _BY_SYSTEM else []
        missed = heads.gold - heads.found
        share = missed / wrong if wrong else 0.0
        rows.append([*row, f"{missed:,}", Cell(f"{100 * share:.1f} %", "bar", share)])
    return headings, rows


def _compared(
    kind: str, names: Sequence[str], found: Sequence[dict[str, Group]], *, labelled: bool
) -> tuple[list[str], list[list[_Cell]]]:
    headings = ["", "words", "UAS A", "UAS B", "B - A"]
    measure = "F" if kind == "relation" else "LAS"
    headings += [f"{measure} A", f"{measure} B", "B - A"] if labelled else []
    rows: list[list[_Cell]] = []
    nothing = ArcCounts(0, 0, 0, 0)
    for name in names:
        groups = [each.get(name, Group(name, nothing, nothing)) for each in found]
        uas = [group.heads.recall for group in groups]
        both = [g.labelled.f if kind == "relation" else g.labelled.recall for g in groups]
        row: list[_Cell] = [name, f"{max(group.heads.gold for group in groups):,}"]
        for values in (uas, both) if labelled else (uas,):
            row += [*map(_percent, values), change(*values)]
        rows.append(row)
    return headings, rows


def _confusions(system: System, systems: Sequence[System]) -> str:
    if not system.labelled:
        return ""
    errors = system.errors
    heading = f"<h3>{escape(printable(system.name))}</h3>\n" if len(systems) > 1 else ""
    wrong = errors.confusions - np.diag(np.diag(errors.confusions))
    total = int(wrong.sum())
    if not total:
        return heading + "<p>No relation is wrong.</p>\n"
    note = (
        f"{total:,} words have another relation than in gold, whatever their heads. Rows: gold;"
        f" columns: the system; the {CONFUSED} relations with most errors, and all other"
        " relations together."
    )
    return (
        f'{heading}<p class="note">{note}</p>\n<div class="row">{_matrix(errors, wrong)}'
        f"{_pairs(errors, wrong, total)}</div>\n"
    )


def _matrix(errors: Errors, wrong: np.ndarray) -> str:
    order = np.argsort(-(wrong.sum(0) + wrong.sum(1)), kind="stable")
    shown, others = order[:CONFUSED], order[CONFUSED:]
    has_others = bool(wrong[others].any() or wrong[:, others].any())
    names = [errors.relations[k] for k in shown] + ["others"] * has_others
    groups = [np.array([k]) for k in shown] + [others] * has_others
    rows: list[list[_Cell]] = []
    for i, of_gold in enumerate(groups):
        counts = [int(errors.confusions[np.ix_(of_gold, k)].sum()) for k in groups]
        most = max([count for j, count in enumerate(counts) if j != i], default=0)
        row: list[_Cell] = [names[i]]
        for j, count in enumerate(counts):
            share = 0.75 * count / most if most and i != j else None
            row.append(Cell(f"{count:,}" if count else "", "same" if i == j else "", share))
        rows.append(row)
    return _table(["gold \\ system", *names], rows, "matrix", folds=False)


def _pairs(errors: Errors, wrong: np.ndarray, total: int) -> str:
    """The pairs of relations that are confused most often."""
    n = len(errors.relations)
    most = [int(k) for k in np.argsort(-wrong.ravel(), kind="stable")[:PAIRS]]
    rows: list[list[_Cell]] = []
    for k in most:
        count = int(wrong.flat[k])
        if count:
            i, j = divmod(k, n)
            share = count / total
            of_all = Cell(f"{100 * share:.1f} %", "bar", share)
            system = Cell(errors.relations[j], "text")
            rows.append([errors.relations[i], system, f"{count:,}", of_all])
    return _table(["gold", "system", "words", "of all"], rows)


_MEASURES = {"heads": "heads", "relations": "relations, head right", "both": "both"}


def _reliability(systems: Sequence[System]) -> str:
    figures, rows = [], []
    for system, letter in zip(systems, _letters(systems), strict=True):
        if not system.reliability:
            continue
        lines = [
            ChartLine(_MEASURES[name], [(row.mean, row.right) for row in found.bins], k)
            for k, (name, found) in enumerate(system.reliability.items())
        ]
        ends = [0.0, 1.0]
        x, y = Axis.over("mean probability", ends), Axis.over("share right", ends)
        title = letter.strip() or "Share of right words by probability"
        figures.append(_figure(title, line_chart(lines, x, y, has_diagonal=True), lines))
        rows += [_measured(name, letter, found) for name, found in system.reliability.items()]
    if not figures:
        return ""
    note = (
        "Calibrated probabilities lie on the diagonal; below it they are too high. ECE is the"
        " expected calibration error; the last column is the share of all errors that are among"
        " the 10 % of the words with the lowest probabilities."
    )
    uncalibrated = [system for system in systems if system.is_calibrated is False]
    note += "".join(
        f" The probabilities of {escape(printable(system.name))} are not calibrated: train"
        " it with data.dev, or without calibration=none."
        for system in uncalibrated
    )
    headings = ["", "words", "right", "expected", "ECE", "Brier", "log loss", "AUC", "errors found"]
    return (
        f'<p class="note">{note}</p>\n<div class="row">{"".join(figures)}{_table(headings, rows)}'
        "</div>\n"
    )


def _measured(name: str, letter: str, found: Reliability) -> list[_Cell]:
    errors = found.errors_found[10]
    return [
        _MEASURES[name] + letter,
        f"{found.count:,}",
        f"{100 * found.right:.2f}",
        f"{100 * found.mean:.2f}",
        f"{100 * found.ece:.2f}",
        f"{found.brier:.4f}",
        f"{found.log_loss:.4f}",
        "-" if found.auc is None else f"{found.auc:.4f}",
        "-" if errors is None else f"{100 * errors:.1f} %",
    ]


def _sentences(report: Report) -> str:
    """The sentences with the most errors, or those in which two runs differ most."""
    counts = [_errors_of(system) for system in report.systems]
    if len(counts) == 1:
        weight, intro = counts[0], "The sentences with the most wrong words."
    else:
        weight = np.abs(counts[0] - counts[1])
        intro = "The sentences in which the numbers of wrong words differ most."
    order = np.argsort(-weight, kind="stable")[: report.sentences]
    drawn = [_sentence(report, int(s)) for s in order if weight[s]]
    keys = "".join(
        f'<span class="{kind}">{escape(meaning)}</span> ' for kind, (meaning, *_) in KINDS.items()
    )
    legend = f'<p class="legend">{keys}</p>\n'
    return f'<p class="note">{intro}</p>\n{legend}{"".join(drawn)}' if drawn else ""


def _errors_of(system: System) -> np.ndarray:
    errors = system.errors
    return errors.wrong_heads + (errors.wrong_relations if system.labelled else 0)


def _sentence(report: Report, s: int) -> str:
    gold = report.gold[s]
    name = gold.sent_id or f"sentence {s + 1}"
    said = []
    for system, letter in zip(report.systems, _letters(report.systems), strict=True):
        heads, relations = (
            int(n[s]) for n in (system.errors.wrong_heads, system.errors.wrong_relations)
        )
        also = f" and {relations} of the other relations" if system.labelled and relations else ""
        said.append(
            f"{letter.strip()}{': ' if letter else ''}{heads} of {len(gold)} heads{also} wrong"
        )
    labelled = all(system.labelled for system in report.systems)
    own = _arcs(gold, labelled=labelled)
    figures = []
    for system, letter in zip(report.systems, _letters(report.systems), strict=True):
        arcs = compared(_arcs(system.parsed[s], labelled=labelled), own)
        title = f"<figcaption>{letter.strip()}</figcaption>" if letter else ""
        figures.append(f'{title}<div class="wide">{svg_graph(gold.forms, arcs)}</div>\n')
    return (
        f"<article><h3>{escape(printable(name))}</h3>\n<p>{escape('; '.join(said))}.</p>\n"
        f"{''.join(figures)}{_wrong_words(report, s, labelled=labelled)}</article>\n"
    )


def _arcs(sentence: Sentence, *, labelled: bool) -> list[Arc]:
    """The arcs of a tree, all above the words."""
    labels = sentence.labels if labelled else [""] * len(sentence)
    return [
        Arc(h, m, label) for m, (h, label) in enumerate(zip(sentence.heads, labels, strict=True), 1)
    ]


def _wrong_words(report: Report, s: int, *, labelled: bool) -> str:
    """The words of a sentence that a run has wrong, with both heads."""
    gold, parsed = report.gold[s], [system.parsed[s] for system in report.systems]
    forms, gold_heads, gold_labels = gold.forms, gold.heads, gold.labels
    trees = [(tree.heads, tree.labels) for tree in parsed]

    def arc(head: int, label: str) -> str:
        text = f"{forms[head - 1]} ({head})" if head else "the root"
        return f"{text}, {label}" if labelled else text

    rows: list[list[_Cell]] = []
    for w, form in enumerate(forms):
        right = gold_heads[w], gold_labels[w] if labelled else ""
        found = [(heads[w], labels[w] if labelled else "") for heads, labels in trees]
        if any(each != right for each in found):
            cells = [Cell(arc(*each), "text" if each == right else "text wrong") for each in found]
            rows.append([f"{form} ({w + 1})", Cell(arc(*right), "text"), *cells])
    titles = [letter.strip() or "system" for letter in _letters(report.systems)]
    table = _table(["word", "gold", *titles], rows, "facts", folds=False)
    return f"<details open><summary>The wrong words</summary>{table}</details>\n"
