"""Temperatures of taggers, and what fitted temperatures gain, as text."""

from collections.abc import Callable
from dataclasses import replace

from gpuparse.data.treebank import Treebank
from gpuparse.errors import DataError
from gpuparse.learning.temperatures import Fit, fit_tag_temperature
from gpuparse.pipeline import Pipeline


def with_fitted_tags(
    stages: Pipeline,
    gold: Treebank,
    threads: int,
    tell: Callable[[str], None],
    *,
    needed: bool = False,
) -> Pipeline:
    """The stages with the temperature of the tagger, if there is one, fitted to gold tags.

    Args: tell: is told the log loss, or why nothing was fitted, which is an error if `needed`.
    Raises: DataError: see above.
    """
    if stages.tagger is None:
        return stages
    try:
        tagger, before, after = fit_tag_temperature(stages.tagger, gold, threads=threads)
    except DataError as error:
        if needed:
            raise
        tell(f"probabilities of tags stay as they are: {error}")
        return stages
    tell(f"log loss of tags {before:.4f} -> {after:.4f} nats per word")
    return replace(stages, tagger=tagger)


def fits_as_text(before: Fit, after: Fit) -> str:
    """The log loss of the gold heads, relations and tags, before and after."""
    text = f"log loss of heads {before.heads:.4f} -> {after.heads:.4f} nats per word"
    if before.labels is not None and after.labels is not None:
        text += f", of relations {before.labels:.4f} -> {after.labels:.4f}"
    if before.tags is not None and after.tags is not None:
        text += f", of UPOS {before.tags:.4f} -> {after.tags:.4f}"
    return text
