"""Jackknifing: tags and lemmas of a training treebank as of one that was not learned from.

A tagger tags the treebank that it learned from too well. The treebank is cut into folds of
consecutive sentences; each is tagged by a tagger that is learned from the others.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from gpuparse.config.schema import LemmatizerConfig, TaggerConfig
from gpuparse.data.tag_columns import (
    FEATS,
    LEMMA,
    UPOS,
    XPOS,
    Column,
    read_column,
)
from gpuparse.data.treebank import Treebank
from gpuparse.errors import DataError
from gpuparse.tagging.lemmatizer import learn_lemmatizer
from gpuparse.tagging.tagger import Tags, learn_tagger, part_of

Watch = Callable[[float, str], None]


def gold_tags(treebank: Treebank) -> Tags:
    """The tags that a treebank has."""
    return Tags(*(read_column(treebank, column) for column in (UPOS, XPOS, FEATS)))


def jackknifed(
    treebank: Treebank,
    tagger: TaggerConfig,
    lemmatizer: LemmatizerConfig | None,
    *,
    seed: int,
    threads: int,
    watch: Watch = lambda done, note: None,
) -> dict[int, Column]:
    """The tags, and lemmas, of a treebank as predicted by stages of its other folds, by column.

    Args:
        lemmatizer: None where there is no lemmatiser; lemmas are gold then.
        threads: folds that are learned at the same time.
        watch: is told the share that is done.
    Raises: DataError: fewer than two sentences, or a fold without words to learn from.
    Cost: folds - 1 times that of learning the stages.
    """
    n, folds = len(treebank), min(tagger.folds, len(treebank))
    if folds < 2:
        raise DataError(
            f"{treebank.source}: predicted tags need two sentences or more, there are {n}: give"
            " tagger.folds=1 to learn from gold tags"
        )
    bounds = [k * n // folds for k in range(folds + 1)]
    shares = [0.0] * folds

    def annotate(k: int) -> tuple[Tags, Column | None]:
        def watch_fold(done: float, note: str) -> None:
            shares[k] = done
            watch(sum(shares) / folds, f"fold {k + 1} of {folds}, {note}")

        others = np.ones(n, np.bool_)
        others[bounds[k] : bounds[k + 1]] = False
        rest, fold = treebank.only(others), part_of(treebank, bounds[k], bounds[k + 1])
        tags = learn_tagger(rest, tagger, seed=seed, watch=watch_fold).tag(fold)
        if lemmatizer is None:
            return tags, None
        learned = learn_lemmatizer(rest, gold_tags(rest), lemmatizer, seed=seed)
        return tags, learned.lemmatize(fold, tags)

    with ThreadPoolExecutor(max(1, min(threads, folds))) as pool:
        found = list(pool.map(annotate, range(folds)))
    columns = {
        number: _joined([tags[place] for tags, _ in found])
        for place, number in enumerate((UPOS, XPOS, FEATS))
    }
    if lemmatizer is not None:
        columns[LEMMA] = _joined([lemmas for _, lemmas in found if lemmas is not None])
    return columns


def _joined(columns: list[Column]) -> Column:
    """One column after the other."""
    names: list[str] = []
    ids = []
    for column in columns:
        ids.append(column.ids + len(names))
        names += column.names
    return Column.of_texts(names, np.concatenate(ids))
