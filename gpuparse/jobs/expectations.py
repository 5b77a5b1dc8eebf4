"""Expectations from a training treebank: empty columns, unread templates, few sentences."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from gpuparse.data.scanner import COLUMNS, column_name
from gpuparse.data.treebank import Treebank
from gpuparse.data.vocabulary import choose_pos_column, column, is_empty_column
from gpuparse.errors import plural
from gpuparse.features.templates import PARTS, TemplateSet

FEW_SENTENCES = 500  # with which scores depend on the config and are far below those of treebanks
SECTION = "docs/training.md"
_SOURCES = _LEMMA, _COARSE, _FINE, _FEATS = 2, 3, 4, 5
_LOSSES = {
    _LEMMA: "without lemmas little is lost",
    _FEATS: "without FEATS little is lost in languages with little inflection, a point of the"
    " scores or more in others",
}
_NO_TAGS = (
    "without parts of speech expect scores to be about ten points lower; tag the treebank, and"
    " what is to be parsed, by the same tagger"
)


class _Read(NamedTuple):
    """A template, and the columns that it reads."""

    text: str
    columns: set[int]


def expectations(
    treebank: Treebank, arcs: TemplateSet, labels: TemplateSet | None, wish: str
) -> Iterator[str]:
    """Lines for the user, none for a treebank with all that its templates read.

    Args:
        arcs: the templates that the decoder reads. labels: those of labels, or None.
        wish: what `pos` reads, `data.pos` of the config.
    Cost: one pass of the treebank's columns.
    """
    pos_column = choose_pos_column(treebank, wish)
    templates = list(_templates(arcs, labels, pos_column))
    is_read = {source for template in templates for source in template.columns}
    empty = [
        source for source in _SOURCES if source in is_read and is_empty_column(treebank, source)
    ]
    if empty:
        silent = [template for template in templates if template.columns & set(empty)]
        names = ", ".join(map(column_name, empty))
        yield (
            f"train: {names}: `_` in every word: {len(silent):,} of"
            f" {plural(len(templates), 'template')}"
            f" read {'this column' if len(empty) == 1 else 'these columns'} and have no effect,"
            f" such as '{silent[0].text}'"
        )
        yield f"train: {'; '.join(_losses(treebank, empty))} ({SECTION})"
        if len(silent) == len(templates):
            yield "train: no template is left to learn from: choose other `features`"
    if len(treebank) < FEW_SENTENCES:
        few = (
            f"train: {plural(len(treebank), 'sentence is', 'sentences are')} few: models of 50"
            " sentences score 10 to 20 points lower than models of some thousand sentences"
        )
        if not arcs.arc:
            few += (
                ", and word vectors alone are then worse than templates; choose `default` or"
                " templates alone"
            )
        yield f"{few}; score the config by `crossval` ({SECTION})"


def _losses(treebank: Treebank, empty: Sequence[int]) -> Iterator[str]:
    """The expected losses without some columns."""
    missing = [source for source in (_COARSE, _FINE) if is_empty_column(treebank, source)]
    if len(missing) == 2:
        yield _NO_TAGS
    elif missing and missing[0] in empty:
        other = _FINE + _COARSE - missing[0]
        yield f"without {COLUMNS[missing[0]]} little is lost, for {COLUMNS[other]} has tags"
    for source in empty:
        if source in _LOSSES:
            yield _LOSSES[source]


def _templates(arcs: TemplateSet, labels: TemplateSet | None, pos_column: int) -> Iterator[_Read]:
    """All templates of a run, those of labels last."""

    def read(text: object, fields: Sequence[str]) -> _Read:
        return _Read(str(text), {pos_column if f == "pos" else column(f) for f in fields})

    for part in PARTS:
        if part != "label":
            yield from (read(template, template.fields()) for template in getattr(arcs, part))
    yield from (read(text, [field]) for text, field in arcs.vector_reads.items())
    if labels is not None:
        yield from (read(template, template.fields()) for template in labels.label)
