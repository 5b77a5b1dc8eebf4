"""Guides for training: those of a sentence come from a parser that has not seen it."""

import dataclasses
import threading
from collections.abc import Callable

import numpy as np

from gpuparse.config import RunConfig
from gpuparse.data.folders import part_files
from gpuparse.data.treebank import Treebank
from gpuparse.errors import ConfigError
from gpuparse.files import check_new_file
from gpuparse.inference.decoders import DECODERS
from gpuparse.jobs.folds import consecutive_folds
from gpuparse.jobs.gold import check_treebanks, gold_part, guides_of, with_fitting_decoder
from gpuparse.jobs.progress import Progress
from gpuparse.jobs.resources import limit_torch_threads, thread_count
from gpuparse.jobs.train_checks import check_no_best, templates_of
from gpuparse.learning.trainer import Trainer
from gpuparse.native import mapped


def jackknifed(
    config: RunConfig,
    n_folds: int,
    output: str,
    *,
    force: bool,
    quiet: bool,
    tell: Callable[[str], None],
) -> tuple[Treebank, np.ndarray]:
    """The training treebank, and (W,) heads; those of a fold from a parser of the other folds.

    Args:
        config: of the parser. output: where the heads are to be written. force: whether it may be
            replaced. quiet: whether no progress is shown. tell: writes a line for the user.
    Raises:
        ConfigError: the config does not fit, more folds than sentences, or the output exists.
        DataError: the treebank cannot be used.
    """
    config = with_fitting_decoder(_training_alone(config))
    if config.has_encoder:
        raise ConfigError("jackknife: parsers with an encoder are not jackknifed: choose templates")
    templates, labels = templates_of(config)
    if config.labels.kind == "second-stage":
        labels = None  # these labels change no head
    for file in part_files(config.data.train):
        check_new_file(output, force=force, source=file)
    check_treebanks(config)
    n_threads = thread_count(config.threads)
    limit_torch_threads(n_threads, is_native=True)
    graphs = DECODERS[config.decoder].gives_graphs
    gold = gold_part(config, "train", graphs=graphs, tell=tell, partial=config.data.partial)
    treebank = gold.treebank
    guides = guides_of(config, "train", treebank)
    folds = consecutive_folds(len(treebank), n_folds)
    total = config.learning.epochs * (len(folds) - 1) * len(treebank)
    lock = threading.Lock()
    with Progress("jackknife, learning", total=total, quiet=quiet) as progress:

        def heads_of(fold: slice) -> np.ndarray:
            is_in = np.zeros(len(treebank), np.bool_)
            is_in[fold] = True
            words = np.repeat(is_in, np.diff(treebank.word_starts))
            known, held_out = (None if guides is None else guides[w] for w in (~words, words))
            trainer = Trainer(treebank.only(~is_in), templates, labels, config, guides=known)
            done = 0
            for event in trainer.learn():
                if event.stage == "arcs":
                    with lock:
                        progress.advance(event.done - done)
                    done = 0 if event.epoch_is_over else event.done
            return trainer.model(16).parse(treebank.only(is_in), guides=held_out).heads

        return treebank, np.concatenate(list(mapped(heads_of, folds, n_threads)))


def _training_alone(config: RunConfig) -> RunConfig:
    if config.tagger.learn or config.tagger.model or config.lemmatizer.learn:
        raise ConfigError(
            "tagger, lemmatizer: guides are predicted from the tags of data.train; leave them out,"
            " or learn them in a run of their own"
        )
    check_no_best(config)
    data = dataclasses.replace(config.data, dev=None, test=None, dev_guide=None, test_guide=None)
    # Folds are learned at the same time, one thread each, in native code.
    learning = dataclasses.replace(config.learning, engine="native")
    return dataclasses.replace(config, data=data, learning=learning)
