"""`report`: a run's model parses the gold file, which is scored; a page of HTML about it.

The page has its style and its drawn sentences, no scripts and no other files.
"""

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from gpuparse.data.arc_layout import Arc
from gpuparse.data.conll import read_part, read_treebank, treebank_from_bytes
from gpuparse.data.draw import printable
from gpuparse.data.graphs import missing_graphs
from gpuparse.data.guides import read_guides
from gpuparse.data.scanner import column_name
from gpuparse.data.svg import svg_graph
from gpuparse.data.treebank import Sentence, Treebank
from gpuparse.errors import ConfigError, DataError, option, plural
from gpuparse.evaluation.errors import Errors, Group, find_errors
from gpuparse.evaluation.metrics import measure_reliability_of_treebanks, score_treebanks
from gpuparse.evaluation.reliability import HEAD, Reliability, misc_probabilities
from gpuparse.evaluation.reports import percent_text, reliability_as_text, scores_as_text
from gpuparse.evaluation.treebanks import has_relations
from gpuparse.files import STANDARD
from gpuparse.inference.decoders import DECODERS
from gpuparse.jobs.drawing import KINDS, compared, legend, page_head
from gpuparse.jobs.gold import read_gold
from gpuparse.jobs.parse import missing_columns
from gpuparse.jobs.predictions import written
from gpuparse.jobs.progress import say, visible
from gpuparse.jobs.records import read_scores
from gpuparse.jobs.resources import thread_count
from gpuparse.jobs.scoring import NO_ARCS, Punctuation, scored
from gpuparse.jobs.scoring import compared as compare_scores
from gpuparse.model.confidence import parse_with_confidence
from gpuparse.model.folder import load_parser
from gpuparse.model.installed import find_model, model_hint
from gpuparse.model.parser import Parser
from gpuparse.model.pipeline import NO_STAGES, load_stages

SHOWN_ROWS = 20  # of a table; further ones are folded
_FACTS = (
    "decoder", "features", "seed", "bits", "seconds", "learning_seconds", "peak_memory_bytes",
    "threads", "device", "version",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class System:
    """A run: a parsed file and its scores.

    name: as the user gave it. labelled: whether it has relations. has_graphs: whether those of a
    model are scored. reliability: by measure, none without probabilities. is_calibrated: of a model
    that has them. record: of scores.json.
    """

    name: str
    parsed: Treebank
    labelled: bool
    has_graphs: bool
    errors: Errors
    reliability: dict[str, Reliability]
    is_calibrated: bool | None
    record: dict[str, Any]


@dataclass(frozen=True, eq=False)
class Report:
    """One run or two; punctuation is left out of the scores. sentences: how many are drawn."""

    gold: Treebank
    systems: list[System]
    punctuation: Punctuation
    sentences: int

    @property
    def letters(self) -> list[str]:
        """The names of runs in headings: nothing, if there is but one."""
        return [""] if len(self.systems) == 1 else ["A", "B"]

    @property
    def labelled(self) -> bool:
        """True if all runs have relations."""
        return all(system.labelled for system in self.systems)


def model_of(run: str) -> Path | None:
    """The folder of the model of a run; None of a parsed file.

    Raises: DataError: there is neither.
    """
    path = Path(run) if run == STANDARD or os.path.exists(run) else find_model(run)
    if run != STANDARD and not path.exists():
        raise DataError(f"{run}: no such model, and no such file; {model_hint(run)}")
    return path if path.is_dir() else None


def gold_of(runs: Sequence[str], given: str | None) -> tuple[Treebank, str | None]:
    """The gold treebank, and the part of a model's data that it is; None for another file."""
    if given is not None:
        return read_treebank(given), None
    run, folder = next(((run, path) for run in runs if (path := model_of(run))), (runs[0], None))
    record = read_scores(folder) if folder else {}
    files = record.get("files")
    for part in ("test", "dev"):
        path = files.get(part) if isinstance(files, dict) else None
        if isinstance(path, str):
            return _recorded(path, skips=record.get("on_error") == "skip"), part
    what = "its training had no data.test and no data.dev" if files else "its test file is unknown"
    raise ConfigError(f"{run}: {what}: give a file with {option('gold')}")


def _recorded(path: str, *, skips: bool) -> Treebank:
    """A treebank of a run, read as training reads it."""
    if not skips:
        return read_part(path)
    return read_gold(path, on_error="skip", single_root=False, graphs=False, tell=say).treebank


def system_of(
    run: str, gold: Treebank, part: str | None, *, punctuation: Punctuation, threads: int
) -> System:
    """A run, parsed and scored."""
    record: dict[str, Any] = {}
    is_calibrated, has_graphs = None, False
    if folder := model_of(run):
        record = read_scores(folder)
        model = load_parser(folder)
        tagged = load_stages(folder).filled_by(model).annotate(gold, threads=threads)
        parsed, has_probabilities = _parsed(model, tagged, record, part, threads)
        is_calibrated = model.scales.is_calibrated if has_probabilities else None
        labelled = bool(model.labels)
        has_graphs = DECODERS[model.decoder].gives_graphs and not missing_graphs(gold).all()
    else:
        parsed = read_treebank(run)
        has_probabilities = True
        labelled = has_relations(parsed)
    ignored = punctuation.words_of(gold)
    errors = find_errors(gold, parsed, ignored=ignored)
    reliability = {}
    if has_probabilities and not np.isnan(misc_probabilities(parsed, HEAD)).all():
        reliability = measure_reliability_of_treebanks(gold, parsed, ignored=ignored)
    return System(run, parsed, labelled, has_graphs, errors, reliability, is_calibrated, record)


def _parsed(
    model: Parser, gold: Treebank, record: dict[str, Any], part: str | None, threads: int
) -> tuple[Treebank, bool]:
    """The treebank as a model parses it, and whether with probabilities."""
    guides = None
    if model.reads_guides:
        sources = record.get("guides")
        source = sources.get(part) if isinstance(sources, dict) else None
        if not isinstance(source, str):
            raise ConfigError(
                f"the model reads guides: parse the file with {option('guide')}, and give the"
                f" parsed file in place of the model, and {option('gold')}"
            )
        guides = read_guides(gold, source)
    count = thread_count(threads)
    for column, fields in missing_columns(gold, model, NO_STAGES).items():
        say(
            f"{gold.source}: {column_name(column)} is _ in every word; the model reads {fields}"
            " there"
        )
    can_sum = DECODERS[model.search_decoder].has("marginals", "native")
    if can_sum:
        found = parse_with_confidence(model, gold, guides=guides, threads=count)
    else:
        found = model.parse(gold, guides=guides, threads=count)
    return treebank_from_bytes(written(model, gold, found), f"{gold.source}, parsed"), can_sum


_STYLE = """
body { max-width: 76rem; overflow-wrap: anywhere; }
h2 { margin-top: 2.5rem; font-size: 1.3rem; border-bottom: 1px solid #8888; }
nav a { margin-right: 1.1rem; color: inherit; }
table { border-collapse: collapse; margin: .6rem 0; font-variant-numeric: tabular-nums; }
th, td { padding: .15rem .7rem; border-bottom: 1px solid #8886; text-align: right;
  white-space: nowrap; }
th:first-child, .text th, .text td { text-align: left; }
.text td { white-space: normal; overflow-wrap: anywhere; }
tbody th { font-weight: 400; }
"""


def page(report: Report) -> str:
    """The page as HTML; the same bytes for the same report."""
    names = [system.name for system in report.systems]
    sections = [
        ("The runs" if len(names) > 1 else "The run", _about(report)),
        ("Scores", _scores(report)),
        ("Errors", "".join(_groups(report, kind) for kind in report.systems[0].errors.groups)),
        ("Confusion of relations", _of_each(report, _confusions)),
        ("Reliability of probabilities", _of_each(report, _reliability)),
        ("Sentences", _sentences(report)),
    ]
    links, body = "", ""
    for heading, text in sections:
        if text:
            anchor = heading.lower().replace(" ", "-")
            links += f'<a href="#{anchor}">{heading}</a>'
            body += f'<section id="{anchor}"><h2>{heading}</h2>\n{text}</section>\n'
    title = "Parsing report: " + " and ".join(names)
    return f"{page_head(title, _STYLE)}<nav>{links}</nav>\n{body}</body></html>\n"


def _table(headings: Sequence[str], rows: Iterable[Sequence[str]], kind: str = "") -> str:
    """A table with a name first in each row; further rows than those shown are folded.

    kind: "text" for cells with words instead of numbers.
    """
    head = "<tr>" + "".join(f'<th scope="col">{escape(text)}</th>' for text in headings) + "</tr>"
    lines = []
    for name, *cells in rows:
        others = "".join(f"<td>{escape(printable(cell))}</td>" for cell in cells)
        lines.append(f'<tr><th scope="row">{escape(printable(name))}</th>{others}</tr>\n')

    def table(of: list[str]) -> str:
        return (
            f'<div class="wide"><table class="{kind}"><thead>{head}</thead><tbody>\n{"".join(of)}'
            "</tbody></table></div>\n"
        )

    first, rest = lines[:SHOWN_ROWS], lines[SHOWN_ROWS:]
    more = f"<details><summary>{len(rest)} more</summary>{table(rest)}</details>\n" if rest else ""
    return table(first) + more


def _preformatted(text: str) -> str:
    return f'<div class="wide"><pre>{escape(visible(text))}</pre></div>\n'


def _note(text: str) -> str:
    return f"<p>{escape(printable(text))}</p>\n"


def _about(report: Report) -> str:
    gold, systems = report.gold, report.systems
    said = f"{gold.source}: {plural(len(gold), 'sentence')}, {plural(gold.n_words, 'word')}"
    rows = [["run", *(system.name for system in systems)], ["gold trees", said]]
    for key in _FACTS:
        values = [system.record.get(key, "-") for system in systems]
        if values != ["-"] * len(values):
            rows.append([key.replace("_", " "), *map(str, values)])
    return _table(["", *report.letters], rows, "text")


def _scores(report: Report) -> str:
    """The tables of `evaluate`, or of `compare` for two runs."""
    gold, systems, left_out = report.gold, report.systems, report.punctuation
    if len(systems) > 1:
        parsed, names = zip(*((system.parsed, system.name) for system in systems), strict=True)
        text = compare_scores(gold, parsed, names, left_out).as_text
    else:
        scores = score_treebanks(gold, systems[0].parsed, ignored=left_out.words_of(gold))
        text = scores_as_text(scores, labelled=report.labelled)
    for system, letter in zip(systems, report.letters, strict=True):
        if system.has_graphs:
            text += f"\ngraphs {letter}\n{scored(gold, system.parsed, 'deps', left_out).as_text}"
    return _preformatted(text)


_NOTES = {
    "relation": "Recall, precision and F: head and whole relation right.",
    "arc length": "Words from the word to its head. UAS is over the gold arcs of a length,"
    " precision over the system's arcs of a length.",
    "distance to the root": "Arcs from the root to the word; precision as for lengths.",
    "projectivity": "Non-projective: a word between the two ends of the arc is not below its head;"
    " a non-projective sentence has such an arc in its gold tree.",
}


def _groups(report: Report, kind: str) -> str:
    """A table of groups of words, of each measure the values of all runs."""
    if kind == "relation" and not report.labelled:
        return ""
    of_runs = [{group.name: group for group in run.errors.groups[kind]} for run in report.systems]
    headings, rows = [], []
    for name in dict.fromkeys(name for groups in of_runs for name in groups):
        groups = [of.get(name, Group(name, NO_ARCS, NO_ARCS)) for of in of_runs]
        measures = {"UAS": [group.heads.recall for group in groups]}
        if kind == "relation":
            for title, measure in (("recall", "recall"), ("precision", "precision"), ("F", "f")):
                measures[title] = [getattr(group.labelled, measure) for group in groups]
        elif report.labelled:
            measures["LAS"] = [group.labelled.recall for group in groups]
        if kind in ("arc length", "distance to the root"):  # arcs of other words than in gold
            measures["precision"] = [group.heads.precision for group in groups]
        gold = max(group.heads.gold for group in groups)
        wrong = [f"{group.heads.gold - group.heads.found:,}" for group in groups]
        values = [percent_text(value).strip() for of in measures.values() for value in of]
        titles = (*measures, "wrong heads")
        headings = [f"{title} {letter}".rstrip() for title in titles for letter in report.letters]
        rows.append([name, f"{gold:,}", *values, *wrong])
    note = _note(_NOTES[kind]) if kind in _NOTES else ""
    return f"<h3>By {kind}</h3>\n{note}{_table(['', 'words', *headings], rows)}"


def _of_each(report: Report, section: Callable[[System], str]) -> str:
    """A section of each run, where it has one."""
    text = ""
    for system, letter in zip(report.systems, report.letters, strict=True):
        if part := section(system):
            text += f"<h3>{letter}</h3>\n{part}" if letter else part
    return text


def _confusions(system: System) -> str:
    """The relations that are confused most often."""
    wrong = system.errors.confusions - np.diag(np.diag(system.errors.confusions))
    total = int(wrong.sum())
    if not (system.labelled and total):
        return "<p>No relation is wrong.</p>\n" if system.labelled else ""
    relations, rows = system.errors.relations, []
    for k in np.argsort(-wrong.ravel(), kind="stable")[:SHOWN_ROWS]:
        if count := wrong.flat[k]:
            gold, found = divmod(int(k), len(relations))
            share = f"{100 * count / total:.1f} %"
            rows.append([f"{relations[gold]} → {relations[found]}", f"{count:,}", share])
    said = f"{total:,} words have another relation than in gold, with right or wrong heads."
    return _note(said) + _table(["gold → system", "words", "of all"], rows)


def _reliability(system: System) -> str:
    text = _preformatted(reliability_as_text(system.reliability)) if system.reliability else ""
    if system.is_calibrated is False:
        text += _note(
            "These probabilities are not calibrated: train with data.dev, or without"
            " calibration=none."
        )
    return text


def _sentences(report: Report) -> str:
    counts = [
        system.errors.wrong_heads + (system.errors.wrong_relations if system.labelled else 0)
        for system in report.systems
    ]
    weight, intro = counts[0], "The sentences with the most wrong words."
    if len(counts) == 2:
        weight = np.abs(counts[0] - counts[1])
        intro = "The sentences in which the numbers of wrong words differ most."
    order = np.argsort(-weight, kind="stable")[: report.sentences]
    drawn = [_sentence(report, int(s)) for s in order if weight[s]]
    keys = legend(KINDS, has_shades=False)
    return f"{_note(intro)}{keys}{''.join(drawn)}" if drawn else ""


def _sentence(report: Report, s: int) -> str:
    gold = report.gold[s]
    gold_arcs = _arcs(gold, labelled=report.labelled)
    said, figures = [], ""
    for system, letter in zip(report.systems, report.letters, strict=True):
        heads, relations = system.errors.wrong_heads[s], system.errors.wrong_relations[s]
        also = f" and {relations} of the other relations" if system.labelled and relations else ""
        name = f"{letter}: " if letter else ""
        said.append(f"{name}{heads} of {len(gold)} heads{also} wrong")
        arcs = compared(_arcs(system.parsed[s], labelled=report.labelled), gold_arcs)
        figures += f'<p>{letter}</p><div class="wide">{svg_graph(gold.forms, arcs)}</div>\n'
    return (
        f"<article><h3>{escape(printable(gold.sent_id or f'sentence {s + 1}'))}</h3>\n"
        f"<p>{'; '.join(said)}.</p>\n{figures}</article>\n"
    )


def _arcs(sentence: Sentence, *, labelled: bool) -> list[Arc]:
    """The arcs of a tree, all above the words."""
    labels = sentence.labels if labelled else [""] * len(sentence)
    return [
        Arc(h, m, label) for m, (h, label) in enumerate(zip(sentence.heads, labels, strict=True), 1)
    ]
