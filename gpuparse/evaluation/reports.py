"""Scores as text and as plain data for JSON."""

from dataclasses import dataclass
from typing import Any

from gpuparse.data.treebank import Treebank
from gpuparse.errors import plural
from gpuparse.evaluation.graphs import GraphScores, score_treebank_graphs
from gpuparse.evaluation.metrics import ArcCounts, TreeScores, score_treebanks
from gpuparse.evaluation.reliability import Reliability
from gpuparse.evaluation.words import Hits

# Title of a share, its key in JSON (and attribute), and its meaning.
SHARES = (
    ("UAS", "uas", "right head"),
    ("LAS", "las", "right head and relation, up to its first ':'"),
    ("LAS, whole relation", "las_full", "right head and whole relation"),
    ("label accuracy", "label_accuracy", "right relation, with any head"),
    ("complete", "complete", "sentences with all heads right"),
    ("complete, labelled", "complete_labelled", "sentences with all heads and relations right"),
)
ARC_SETS = (("root", "root"), ("non-projective arcs", "nonprojective"))
PROJECTIVE_TOO = (
    "recall counts a non-projective gold arc also where no other arc of the system's tree"
    " crosses it"
)
# The same for graphs.
GRAPH_SHARES = (
    ("complete", "complete", "sentences with exactly the gold arcs"),
    ("complete, labelled", "complete_labelled", "and have the gold relations"),
)
GRAPH_ARC_SETS = (
    ("arcs", "unlabelled"),
    ("arcs, relation up to its first ':'", "labelled_universal"),
    ("arcs, whole relation", "labelled"),
    ("secondary arcs", "secondary"),
    ("secondary arcs, whole relation", "secondary_labelled"),
)
# The same for measures over aligned words.
WORD_MEASURES = tuple(
    (title, title.lower())
    for title in (
        "Tokens", "Sentences", "Words", "UPOS", "XPOS", "UFeats", "AllTags", "Lemmas", "UAS", "LAS",
        "CLAS", "MLAS", "BLEX", "ELAS", "EULAS",
    )
)  # fmt: skip
_RELIABILITY_TITLES = {
    "heads": "heads",
    "relations": "relations, where the head is right",
    "both": "heads and relations",
}


_Scores = TreeScores | GraphScores


def _tables(
    scores: _Scores, *, labelled: bool = True
) -> tuple[list[tuple[str, str, str]], list[tuple[str, str]]]:
    """The shares and sets of arcs that scores have; labelled: those of relations too."""
    of_graphs = isinstance(scores, GraphScores)
    shares, arcs = (GRAPH_SHARES, GRAPH_ARC_SETS) if of_graphs else (SHARES, ARC_SETS)
    return (
        [share for share in shares if labelled or "relation" not in share[2]],
        [of for of in arcs if labelled or "relation" not in of[0]],
    )


def scores_as_text(scores: _Scores, *, labelled: bool = True) -> str:
    """The scores as a table, in percent with two decimals.

    Args:
        scores: of trees or graphs.
        labelled: whether to show measures of relations.
    Returns: The table; "-" where there is nothing to count.
    """
    n_words = scores.words if isinstance(scores, GraphScores) else scores.uas.total
    lines = [f"{plural(n_words, 'word')}, {plural(scores.complete.total, 'sentence')}", ""]
    shares, arc_sets = _tables(scores, labelled=labelled)
    for title, name, meaning in shares:
        share = getattr(scores, name)
        counts = f"{share.correct:>8} of {share.total:<8}"
        lines.append(f"{title:<20} {percent_text(share.percent)}  {counts} {meaning}")
    sets = {title: getattr(scores, name) for title, name in arc_sets}
    relations = scores.relations if labelled else {}
    width = max([20, *map(len, sets), *map(len, relations)])
    lines += ["", f"{'':<{width}} precision  recall       F      gold    system"]
    lines += [_arc_line(title, arcs, width) for title, arcs in sets.items()]
    if isinstance(scores, TreeScores) and scores.nonprojective.found != scores.nonprojective.right:
        lines.append(PROJECTIVE_TOO)
    if relations:
        lines += ["", "relations, labelled"]
        lines += [_arc_line(title, arcs, width) for title, arcs in relations.items()]
    return "\n".join(lines) + "\n"


def _arc_line(title: str, arcs: ArcCounts, width: int) -> str:
    return (
        f"{title:<{width}}    {percent_text(arcs.precision)}  {percent_text(arcs.recall)}"
        f"  {percent_text(arcs.f)}  {arcs.gold:>8}  {arcs.system:>8}"
    )


def percent_text(value: float | None) -> str:
    """Six characters, two decimals; "-" without a value."""
    return f"{'-':>6}" if value is None else f"{value:6.2f}"


def scores_as_json(scores: _Scores) -> dict[str, Any]:
    """The scores as plain data: unrounded percentages and their counts.

    Args: scores: of trees or graphs.
    Returns: For each share `percent, correct, total`; for each set of arcs `precision, recall, f,
        gold, system`; null where there is nothing to count; of graphs the number of scored words.
    """
    shares, arc_sets = _tables(scores)
    result: dict[str, Any] = {"words": scores.words} if isinstance(scores, GraphScores) else {}
    for _, name, _ in shares:
        share = getattr(scores, name)
        result[name] = {"percent": share.percent, "correct": share.correct, "total": share.total}
    result |= {name: _arcs_as_json(getattr(scores, name)) for _, name in arc_sets}
    result["relations"] = {name: _arcs_as_json(arcs) for name, arcs in scores.relations.items()}
    return result


def hits_as_text(hits: dict[str, Hits]) -> str:
    """Measures over aligned words as a table, in percent with two decimals."""
    lines = [f"{'':<20} precision  recall       F   aligned      gold    system"]
    for title, name in WORD_MEASURES:
        if name in hits:
            of = hits[name]
            counts = of.counts
            lines.append(
                f"{title:<20}    {percent_text(counts.precision)}  {percent_text(counts.recall)}"
                f"  {percent_text(counts.f)}    {percent_text(of.aligned_accuracy)}"
                f"  {counts.gold:>8}  {counts.system:>8}"
            )
    if {"words", "upos"} <= hits.keys():
        lines.append("aligned: accuracy over the aligned words")
    return "\n".join(lines) + "\n"


def hits_as_json(hits: dict[str, Hits]) -> dict[str, Any]:
    """Measures over aligned words as plain data.

    Returns: For each measure `precision, recall, f, gold, system` as for sets of arcs; `correct`;
        `aligned_accuracy` and `aligned`, null where nothing is aligned.
    """
    return {
        name: {
            **_arcs_as_json(of.counts),
            "correct": of.counts.right,
            "aligned_accuracy": of.aligned_accuracy,
            "aligned": of.aligned,
        }
        for name, of in hits.items()
    }


def reliability_as_text(found: dict[str, Reliability]) -> str:
    """A reliability table and the measures of each kind of probability."""
    tables = (_reliability_table(_RELIABILITY_TITLES[name], part) for name, part in found.items())
    return "\n\n".join("\n".join(table) for table in tables) + "\n"


def _reliability_table(title: str, found: Reliability) -> list[str]:
    expected, right = 100 * found.mean, 100 * found.right
    lines = [
        f"{title}: {plural(found.count, 'word')}, {right:.2f} % right, {expected:.2f} % expected",
        "",
        "probability            words  expected   right    right - expected",
    ]
    for row in found.bins:
        values = (
            f"{100 * row.mean:9.2f} {100 * row.right:7.2f} {100 * (row.right - row.mean):+z9.2f}"
        )
        lines.append(f"{row.least:.4f} to {row.most:.4f} {row.count:>9} {values}")
    auc = "-" if found.auc is None else f"{found.auc:.4f}"
    lines += [
        "",
        f"expected calibration error  {100 * found.ece:.2f} %",
        f"Brier score                 {found.brier:.4f}",
        f"log loss                    {found.log_loss:.4f}",
        f"AUC                         {auc}",
    ]
    for percent, share in found.errors_found.items():
        if share is not None:
            lines.append(
                f"least certain {percent:>2} % of words  {100 * share:.2f} % of the errors"
            )
    return lines


@dataclass(frozen=True)
class Measures:
    """The choice of measures: with relations or not, graphs in DEPS or trees."""

    labelled: bool
    graphs: bool


def treebank_scores(gold: Treebank, system: Treebank, measures: Measures) -> dict[str, Any]:
    """The scores of a parsed treebank as plain data, as `evaluate --json` writes them.

    A parser of heads leaves DEPREL unchanged, so that scores of relations would be misleading.
    """
    scores = scores_as_json(score_treebanks(gold, system))
    if not measures.labelled:
        for name in ["relations", *(n for _, n, meaning in SHARES if "relation" in meaning)]:
            del scores[name]
    if measures.graphs:
        scores["graphs"] = scores_as_json(score_treebank_graphs(gold, system, "deps"))
    return {"sentences": len(gold), "words": gold.n_words} | scores


def _arcs_as_json(arcs: ArcCounts) -> dict[str, float | int | None]:
    return {name: getattr(arcs, name) for name in ("precision", "recall", "f", "gold", "system")}
