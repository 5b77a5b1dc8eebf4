"""Jackknifing: a training treebank gets tags and lemmas as a treebank that was not learned from.

A tagger tags the treebank that it learned from too well. The treebank is cut into folds of
consecutive sentences; each is tagged by a tagger that is learned from all other folds.
"""

from collections.abc import Callable
from threading import Lock

import numpy as np

from gpuparse.config.schema import LemmatizerConfig, TaggerConfig
from gpuparse.data.columns import FEATS, LEMMA, UPOS, XPOS
from gpuparse.data.tag_columns import Column
from gpuparse.data.treebank import Treebank
from gpuparse.errors import DataError
from gpuparse.native import mapped
from gpuparse.text.sequences.learner import Watch, unwatched
from gpuparse.text.tagging.lemmatizer import learn_lemmatizer
from gpuparse.text.tagging.tagger import part_of
from gpuparse.text.tagging.tagger_learner import learn_tagger

Keep = Callable[[int, Callable[[], dict[int, Column]]], dict[int, Column]]


def jackknifed(
    treebank: Treebank,
    tagger: TaggerConfig,
    lemmatizer: LemmatizerConfig | None,
    *,
    seed: int,
    threads: int,
    watch: Watch = unwatched,
    keep: Keep = lambda fold, learn: learn(),
) -> dict[int, Column]:
    """The tags, and lemmas, of a treebank as predicted by stages of its other folds, by column.

    Args:
        lemmatizer: None where there is no lemmatiser; lemmas are gold then.
        threads: folds that are learned at the same time.
        watch: called with the share that is done, by one thread at a time.
        keep: gives the columns of a fold, from 1, that it has or that are learned now.
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
    shares, lock = [0.0] * folds, Lock()

    def say(k: int, share: float, note: str) -> None:
        with lock:
            shares[k] = share
            watch(sum(shares) / folds, f"fold {k + 1} of {folds}{note}")

    def annotate(k: int) -> dict[int, Column]:
        others = np.ones(n, np.bool_)
        others[bounds[k] : bounds[k + 1]] = False
        rest, fold = treebank.only(others), part_of(treebank, bounds[k], bounds[k + 1])
        learned = learn_tagger(
            rest, seed=seed, bits=tagger.bits, word_list=tagger.word_list, of_fold=True,
            watch=lambda share, note: say(k, share, f", {note}"),
        )  # fmt: skip
        tags = learned.tag(fold)
        columns: dict[int, Column] = dict(zip((UPOS, XPOS, FEATS), tags, strict=True))
        if lemmatizer is not None:
            lemmas = learn_lemmatizer(rest, seed=seed, word_list=lemmatizer.word_list)
            columns[LEMMA] = lemmas.lemmatize(fold, tags)
        return columns

    def kept(k: int) -> dict[int, Column]:
        columns = keep(k + 1, lambda: annotate(k))
        say(k, 1.0, "")
        return columns

    found = list(mapped(kept, range(folds), min(threads, folds)))
    return {number: _joined([columns[number] for columns in found]) for number in found[0]}


def _joined(columns: list[Column]) -> Column:
    """One column after the other."""
    names: list[str] = []
    ids = []
    for column in columns:
        ids.append(column.ids + len(names))
        names += column.names
    return Column.of_texts(names, np.concatenate(ids))
