"""The stages before the parser in a training run: learned or taken from a model, and written."""

import dataclasses
from collections.abc import Callable, Collection
from typing import Any

import numpy as np

from gpuparse.config import RunConfig
from gpuparse.data.array_file import facts_text, sha256
from gpuparse.data.columns import FEATS, LEMMA, UPOS, XPOS
from gpuparse.data.conll import treebank_of_scan
from gpuparse.data.faults import quoted
from gpuparse.data.formats.text import text_chunk
from gpuparse.data.tag_columns import Column, read_column, with_columns
from gpuparse.data.treebank import Treebank
from gpuparse.errors import ConfigError, DataError, one_line, plural
from gpuparse.evaluation.reports import WORD_MEASURES
from gpuparse.evaluation.words import Hits, score_words
from gpuparse.jobs import training_log
from gpuparse.jobs.checkpoint import KeptStages
from gpuparse.jobs.gold import parsed
from gpuparse.jobs.parse import missing_columns
from gpuparse.jobs.training_log import TrainingLog
from gpuparse.learning.tag_folds import jackknifed
from gpuparse.learning.temperatures import calibration_parts, fit_tag_temperature
from gpuparse.model.folder import check_folder
from gpuparse.model.installed import find_model
from gpuparse.model.parser import Parser
from gpuparse.model.pipeline import (
    BEFORE_PARSER,
    FILES,
    TAGGER,
    Pipeline,
    StageRow,
    load_stage,
    unpack_stage,
)
from gpuparse.text.conllu import surface_sentences, text_pieces
from gpuparse.text.multiword import split_fault
from gpuparse.text.tagging.tagger import Tagger
from gpuparse.text.tagging.word_list import WordList

_LOSS = "log loss of tags"
_MEASURES = {"UPOS": UPOS, "XPOS": XPOS, "UFeats": FEATS, "Lemmas": LEMMA}


def check_stages(config: RunConfig) -> None:
    """Make sure that the keys of the stages fit together.

    Raises: ConfigError: they do not.
    """
    for name in FILES:
        stage = getattr(config, name)
        if stage.learn and stage.model is not None:
            raise ConfigError(
                f"{name}.model: given with {name}.learn=true; a stage is learned or taken from a"
                " model: leave one out"
            )
        if getattr(stage, "word_list", None) is not None and not stage.learn:
            raise ConfigError(
                f"{name}.word_list: given, but nothing is learned from it: give {name}.learn=true"
            )
    if not config.parser and not has_stages(config):
        raise ConfigError(
            "parser: false, and no other stage: nothing is learned; give tokenizer.learn=true,"
            " tagger.learn=true or lemmatizer.learn=true"
        )


def has_stages(config: RunConfig) -> bool:
    """True if there is any stage before the parser."""
    stages = (getattr(config, name) for name in FILES)
    return any(stage.learn or stage.model is not None for stage in stages)


def sum_of_models(config: RunConfig) -> str:
    """One SHA-256 for the stages that are taken from models; "" without any.

    Raises: ModelError: a model lacks the stage.
    """
    given = {name: getattr(config, name).model for name in FILES}
    models = {name: find_model(model) for name, model in given.items() if model}
    for folder in models.values():
        check_folder(folder)
    sums = [facts_text(folder / FILES[name]) for name, folder in models.items()]
    return sha256("\n".join(sums).encode()) if sums else ""


def learn_stages(
    config: RunConfig,
    treebank: Treebank,
    dev: Treebank | None,
    kept: KeptStages,
    *,
    threads: int,
    tell: Callable[[str], None],
    log: TrainingLog,
) -> tuple[Pipeline, Treebank]:
    """The stages of a run, and the training treebank as the parser is to learn from it.

    Args:
        dev: what probabilities of tags are fitted to.
        kept: where stages are kept as soon as they are learned, and taken from.
        tell: writes warnings and losses. log: says what is learned.
    A tagger or lemmatiser whose columns are empty in the treebank is left out, and `tell` told.

    Raises: ConfigError: templates that cannot be used. ModelError: a model to take a stage from
        cannot be read. DataError: the treebank lacks what the only stages learn from.
    """
    config, seed = _with_gold(config, treebank, tell), config.seed
    _check_word_lists(config, treebank, tell)
    if config.tokenizer.learn:
        _check_splits(treebank, tell)

    def stage(name: str, row: StageRow) -> Any:
        given = getattr(config, name)
        if given.model is not None:
            return load_stage(find_model(given.model), name)
        if not given.learn:
            return None
        assert row.result

        def learned() -> dict[str, np.ndarray]:
            found = row.learn(treebank, given, seed=seed, watch=log.begin(row.title))
            return {"file": np.frombuffer(found.pack(), np.uint8)}

        arrays = kept.arrays(name, learned)
        found = unpack_stage(arrays["file"].tobytes(), kept.output, name)
        log.end(row.title, row.result(found))
        if name == TAGGER:
            found = _calibrated(found, config, treebank, dev, kept, threads, tell)
        return found

    pipeline = Pipeline(**{name: stage(name, row) for name, row in BEFORE_PARSER.items()})
    if not config.parser or not config.tagger.learn or config.tagger.folds == 1:
        return pipeline, treebank
    predicted = _jackknifed(config, treebank, kept, threads, log)
    found = accuracies_as_text(accuracies(treebank, predicted))
    log.end(training_log.TAGS, f"by jackknifing in {config.tagger.folds} folds: {found}")
    return pipeline, predicted


def _check_splits(treebank: Treebank, tell: Callable[[str], None]) -> None:
    """Tell of multiword tokens that no rule of a tokeniser can split."""
    tokens = (token for sentence in surface_sentences(treebank) for token in sentence.tokens)
    found = [
        (token, fault)
        for token in tokens
        if len(token.words) > 1 and (fault := split_fault(token.text, token.words))
    ]
    if found:
        token, fault = found[0]
        n = plural(len(found), "multiword token is", "multiword tokens are")
        tell(
            f"warning: {treebank.source}: {n} left out of the tokeniser, such as"
            f" {quoted(token.text)} of {len(token.words)} words: its rule has {fault}"
        )


def _check_word_lists(config: RunConfig, treebank: Treebank, tell: Callable[[str], None]) -> None:
    """Make sure, before anything is learned, that the lists say something; tell what they do not.

    Raises: DataError: a list cannot be read, or has no word that its stage can use.
    """
    path = config.tagger.word_list
    if config.tagger.learn and path is not None:
        words = WordList.read(path)
        if left_out := words.left_out(treebank):
            n = plural(len(words.words), "word")
            tell(f"warning: {path}: data.train lacks {left_out} of {n}: these are left out")
    path = config.lemmatizer.word_list
    if config.lemmatizer.learn and path is not None:
        WordList.read(path).lemmas()


def _with_gold(config: RunConfig, treebank: Treebank, tell: Callable[[str], None]) -> RunConfig:
    """The config without stages whose columns the treebank does not have."""
    for name, row in BEFORE_PARSER.items():
        stage = getattr(config, name)
        texts = {
            text for column in row.gold.values() for text in read_column(treebank, column).names
        }
        if not stage.learn or not row.gold or texts - {"_"}:
            continue
        what = " and ".join(row.gold) + (" are" if len(row.gold) > 1 else " is")
        config = dataclasses.replace(config, **{name: dataclasses.replace(stage, learn=False)})
        if not config.parser and not has_stages(config):
            raise DataError(f"{treebank.source}: {what} _ in all words; nothing to learn")
        tell(f"warning: {treebank.source}: {what} _ in all words: no {row.title} is learned")
    return config


def _jackknifed(
    config: RunConfig, treebank: Treebank, kept: KeptStages, threads: int, log: TrainingLog
) -> Treebank:
    """The training treebank with predicted tags, and lemmas if they are predicted."""

    def keep(fold: int, learn: Callable[[], dict[int, Column]]) -> dict[int, Column]:
        arrays = kept.arrays(f"tags-{fold}", lambda: _as_arrays(learn()))
        return {
            number: Column(arrays[f"{number}.names"].tobytes().decode().split("\n"), array)
            for number in (LEMMA, UPOS, XPOS, FEATS)
            if (array := arrays.get(f"{number}.ids")) is not None
        }

    folds = range(1, config.tagger.folds + 1)
    n_kept = sum(kept.has(f"tags-{fold}") for fold in folds)
    columns = jackknifed(
        treebank,
        config.tagger,
        config.lemmatizer if config.lemmatizer.learn else None,
        seed=config.seed,
        threads=threads,
        watch=log.begin(training_log.TAGS) if n_kept < len(folds) else lambda done, note: None,
        keep=keep,
    )
    return with_columns(treebank, columns)


def _as_arrays(columns: dict[int, Column]) -> dict[str, np.ndarray]:
    arrays = {}
    for number, column in columns.items():
        arrays[f"{number}.ids"] = column.ids
        arrays[f"{number}.names"] = np.frombuffer("\n".join(column.names).encode(), np.uint8)
    return arrays


def _calibrated(
    tagger: Tagger,
    config: RunConfig,
    treebank: Treebank,
    dev: Treebank | None,
    kept: KeptStages,
    threads: int,
    tell: Callable[[str], None],
) -> Tagger:
    """The tagger with a temperature fitted to unseen tags; see `calibration` of the config."""
    try:
        if dev is not None:
            fitted, before, after = fit_tag_temperature(tagger, dev, threads=threads)
            tell(f"dev: {_LOSS} {before:.4f} -> {after:.4f} nats per word")
            return fitted
        parts = calibration_parts(len(treebank))
        if config.calibration != "held-out" or parts is None:
            return tagger
        learned, held_out = (treebank.only(part) for part in parts)

        def fit() -> dict[str, np.ndarray]:
            other = BEFORE_PARSER[TAGGER].learn(learned, config.tagger, seed=config.seed)
            fitted, *losses = fit_tag_temperature(other, held_out, threads=threads)
            scales = [fitted.pairs.scale, other.pairs.scale]
            return {"scales": np.array(scales), "losses": np.array(losses)}

        arrays = kept.arrays("tagger-scale", fit)
    except DataError as error:
        tell(f"probabilities of tags are not calibrated: {one_line(error)}")
        return tagger
    before, after = arrays["losses"].tolist()
    fitted, first = arrays["scales"].tolist()
    tell(f"calibration: {_LOSS} {before:.4f} -> {after:.4f} nats per word")
    return tagger.with_scale(tagger.pairs.scale * fitted / first)


def accuracies(
    gold: Treebank, system: Treebank, columns: Collection[int] = tuple(_MEASURES.values())
) -> dict[str, float]:
    """Percent of the words with the right tags and lemmas, of columns that gold has.

    Args: columns: numbers of those that are compared.
    """
    found = {}
    for name, number in _MEASURES.items():
        if number not in columns:
            continue
        one, two = read_column(gold, number), read_column(system, number)
        if set(one.names) <= {"_"}:
            continue
        places = {text: place for place, text in enumerate(two.names)}
        numbers = np.array([places.get(text, -1) for text in one.names])
        found[name] = 100 * float((numbers[one.ids] == two.ids).mean())
    return found


def hits_from_text(
    gold: Treebank, pipeline: Pipeline, parser: Parser | None, *, threads: int, device: str
) -> dict[str, Hits]:
    """The hits of a pipeline with a tokeniser on a treebank's raw text.

    Args: parser: None for none.
    Returns: The measures of `score_words` for what is predicted and gold has. Trees are left out if
        `parse` would refuse the text, since the parser reads a column that no stage predicts.
    """
    assert pipeline.tokenizer is not None
    text = text_chunk("".join(text_pieces([gold])).encode(), gold.source)
    tokens = pipeline.tokenizer.split(text, threads=threads)
    pipeline = pipeline.filled_by(parser, device)
    system = pipeline.annotate(treebank_of_scan(tokens, gold.source), threads=threads)
    names = {"tokens", "sentences", "words"}
    for name, number in _MEASURES.items():
        if number in pipeline.columns and not set(read_column(gold, number).names) <= {"_"}:
            names.add(name.lower())
    if "upos" in names:
        names.add("alltags")
    if parser is not None and not missing_columns(system, parser, pipeline):
        system = parsed(parser, system, threads=threads, device=device)
        names.add("uas")
        if parser.labels:
            names |= {"las", "clas"}
            names |= {"mlas"} if {"upos", "ufeats"} <= names else set()
            names |= {"blex"} if "lemmas" in names else set()
            names |= {"elas", "eulas"} if parser.primary is not None else set()
    return {name: hits for name, hits in score_words(gold, system).items() if name in names}


def as_scores(hits: dict[str, Hits]) -> dict[str, float]:
    """F of measures by their titles, in percent; without those that nothing counts for."""
    found = {title: hits[name].counts.f for title, name in WORD_MEASURES if name in hits}
    return {title: f for title, f in found.items() if f is not None}


def accuracies_as_text(found: dict[str, float]) -> str:
    """As `UPOS 95.30, XPOS 94.60`."""
    return ", ".join(f"{name} {percent:.2f}" for name, percent in found.items())
