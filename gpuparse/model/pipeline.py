"""The table of stages, and the stages of a model folder before its parser.

    text -> [tokenizer] -> words -> [tagger] -> tags -> [lemmatizer] -> lemmas -> [parser] -> trees

Each stage is a file of the folder and may be absent; a folder with a parser alone is a pipeline,
too. The tokeniser makes a treebank of text where sources are read (`data.formats.sources`).
That treebank goes through the other stages; each replaces its columns and keeps all other bytes.
"""

import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gpuparse.data.array_file import facts_text, open_file, sha256
from gpuparse.data.cached import cached_property
from gpuparse.data.columns import DEPREL, DEPS, FEATS, FORM, HEAD, ID, LEMMA, MISC, UPOS, XPOS
from gpuparse.data.tag_columns import Column, filled, read_column, with_columns
from gpuparse.data.treebank import Treebank
from gpuparse.errors import ModelError, did_you_mean, plural
from gpuparse.files import write_file
from gpuparse.limits import MAX_ARRAYS_BYTES
from gpuparse.model.folder import CONFIG, WEIGHTS, check_folder, files_of_parser, sum_of_folder
from gpuparse.model.installed import WHAT_MODELS_ARE
from gpuparse.model.parser import Parser
from gpuparse.scorers.scorer import Scorer
from gpuparse.text.sequences.learner import Watch, unwatched
from gpuparse.text.tagging.lemmatizer import Lemmatizer
from gpuparse.text.tagging.tagger import Tagger, Tags
from gpuparse.text.tokenizer import Tokenizer

TOKENIZER, TAGGER, LEMMATIZER, PARSER = "tokenizer", "tagger", "lemmatizer", "parser"


class StageRow(NamedTuple):
    """A row of the table of stages.

    Attributes:
        title: what messages call it. file: of the model folder, that says that it is there.
        reads, fills: numbers of columns; a stage that reads none splits text into words.
    Of stages of linear models of sequences:
        kind: has `unpack` and `pack`.
        learner: the function of `learn`, with its module.
        gold: the names and numbers of the columns that it learns from; one must be filled.
        keys: of its section of the config, that the learner takes.
        result: what training says of it.
    """

    title: str
    file: str
    reads: tuple[int, ...]
    fills: tuple[int, ...]
    kind: Any = None
    learner: str = ""
    gold: Mapping[str, int] = {}
    keys: tuple[str, ...] = ()
    result: Callable[[Any], str] | None = None

    def learn(
        self, treebank: Treebank, section: Any, *, seed: int, watch: Watch = unwatched
    ) -> Any:
        """Learn a stage from a treebank.

        The learner is imported here, for parsing does not need it.

        Args:
            section: of the config, with the name of the stage.
            watch: called with the share that is done.
        """
        module, _, name = self.learner.rpartition(".")
        learn = getattr(import_module(module), name)
        given = {key: getattr(section, key) for key in self.keys}
        return learn(treebank, **given, seed=seed, watch=watch)


STAGES = {
    TOKENIZER: StageRow(
        "tokeniser", f"{TOKENIZER}.safetensors", (), (ID, FORM, MISC), Tokenizer,
        "gpuparse.text.training.learn_tokenizer", {}, (),
        lambda found: plural(len(found.rules.rules), "rule") + " of multiword tokens",
    ),
    TAGGER: StageRow(
        "tagger", f"{TAGGER}.safetensors", (FORM,), (UPOS, XPOS, FEATS), Tagger,
        "gpuparse.text.tagging.tagger_learner.learn_tagger", {"UPOS": UPOS, "XPOS": XPOS},
        ("bits", "networks", "word_list"),
        lambda found: plural(len(found.pairs.table), "pair") + " of UPOS and XPOS",
    ),
    LEMMATIZER: StageRow(
        "lemmatiser", f"{LEMMATIZER}.safetensors", (FORM, UPOS, FEATS), (LEMMA,), Lemmatizer,
        "gpuparse.text.tagging.lemmatizer.learn_lemmatizer", {"LEMMA": LEMMA},
        ("word_list",), lambda found: plural(len(found.rules), "rule"),
    ),
    PARSER: StageRow(
        "parser", WEIGHTS, (FORM, LEMMA, UPOS, XPOS, FEATS), (HEAD, DEPREL, DEPS),
    ),
}  # fmt: skip
BEFORE_PARSER = {name: row for name, row in STAGES.items() if name != PARSER}
FILES = {name: row.file for name, row in BEFORE_PARSER.items()}


@dataclass(frozen=True)
class Pipeline:
    """The stages of a model before the parser; those that it lacks are None."""

    tokenizer: Tokenizer | None
    tagger: Tagger | None
    lemmatizer: Lemmatizer | None
    filler: "Filler | None" = None  # what fills columns after these, in the parser's pass

    def filled_by(self, parser: Parser | None, device: str = "cpu") -> "Pipeline":
        """This pipeline, with what a parser fills from its own pass."""
        scorers = () if parser is None else parser.scorers
        found = next((scorer for scorer in scorers if scorer.fills), None)
        return self if found is None else replace(self, filler=Filler(found, device))

    @cached_property
    def columns(self) -> tuple[int, ...]:
        """The numbers of the columns that it fills in, in order."""
        rows = (row for name, row in BEFORE_PARSER.items() if row.reads and getattr(self, name))
        own = {column for row in rows for column in row.fills}
        return tuple(sorted(own.union(self.filler.scorer.fills if self.filler else ())))

    def annotate(self, treebank: Treebank, *, keep: bool = False, threads: int = 1) -> Treebank:
        """The treebank with tags and lemmas, as far as the pipeline has these stages.

        Args: keep: whether UPOS, XPOS, FEATS and lemmas that the treebank has are kept; parsing
            decides it by `gpuparse.jobs.options.ParseOptions.keep`.
        Cost: about 5 microseconds per word of processor time, and some dozens for each new form.
        """
        return self._annotated(treebank, keep, threads, with_probabilities=False)[0]

    def annotate_with_probabilities(
        self, treebank: Treebank, *, keep: bool = False, threads: int = 1
    ) -> tuple[Treebank, np.ndarray | None]:
        """`annotate`, and (W,) float64 how probable the tags of each word are.

        Returns: the treebank; probabilities of `Tagger.tag_with_probabilities`, NaN of words
            whose UPOS or XPOS is kept; None without a tagger.
        Cost: about twice that of `annotate`.
        """
        return self._annotated(treebank, keep, threads, with_probabilities=True)

    def _annotated(
        self, treebank: Treebank, keep: bool, threads: int, *, with_probabilities: bool
    ) -> tuple[Treebank, np.ndarray | None]:
        asks = with_probabilities and (self.tagger is not None or self.filler is not None)
        probabilities = np.empty(0) if asks else None
        if not treebank.n_words or not (self.tagger or self.lemmatizer or self.filler):
            return treebank, probabilities
        if keep or not self.tagger:
            tags = given = Tags.of(treebank)
        if self.tagger:
            if asks:
                tags, probabilities = self.tagger.tag_with_probabilities(treebank, threads=threads)
            else:
                tags = self.tagger.tag(treebank, threads=threads)
        if self.filler:
            found, of_filled = self.filler.scorer.fill(treebank, self.filler.device, threads)
            both = zip((UPOS, XPOS, FEATS), tags, strict=True)
            tags = Tags(*(found.get(column, before) for column, before in both))
            probabilities = of_filled if asks else None
        if keep and (self.tagger or self.filler):
            if probabilities is not None:
                probabilities[has_tag(given.upos, given.xpos)] = np.nan
            tags = kept_tags(given, tags)
        columns: dict[int, Column] = dict(zip((UPOS, XPOS, FEATS), tags, strict=True))
        if self.lemmatizer:
            lemmas = self.lemmatizer.lemmatize(treebank, tags)
            columns[LEMMA] = filled(read_column(treebank, LEMMA), lemmas) if keep else lemmas
        return with_columns(treebank, columns), probabilities

    def pack(self) -> dict[str, bytes]:
        """The files of the stages by the name of the stage; `unpack_stages` reads them."""
        return {name: stage.pack() for name in FILES if (stage := getattr(self, name)) is not None}


class Filler(NamedTuple):
    """A scorer that fills columns, and the device where it does."""

    scorer: Scorer
    device: str


NO_STAGES = Pipeline(None, None, None)


def unpack_stages(files: Mapping[str, bytes], folder: Path) -> Pipeline:
    """The stages of `Pipeline.pack`; `folder` is for messages.

    Raises: ModelError: a file is damaged.
    """
    return Pipeline(*(unpack_stage(files[name], folder, name) if name in files else None
                      for name in FILES))  # fmt: skip


def unpack_stage(file: bytes, folder: Path, name: str) -> Any:
    """One stage of `Pipeline.pack`; `folder` is for messages.

    Raises: ModelError: the file is damaged.
    """
    return STAGES[name].kind.unpack(io.BytesIO(file), folder / FILES[name])


def write_stages(stages: Pipeline, folder: Path) -> None:
    """Write the files of the stages into a model folder; files of other stages are removed.

    Raises: OSError: the folder cannot be written to.
    """
    packed = stages.pack()
    for name, file_name in FILES.items():
        if name not in packed:
            (folder / file_name).unlink(missing_ok=True)
            continue
        write_file(folder / file_name, packed[name], force=True)


def kept_tags(given: Tags, found: Tags) -> Tags:
    """The annotated tags, and those of a tagger where there are none.

    FEATS are filled only in words without any annotation: where UPOS is given, a word without FEATS
    may be right.
    """
    ids = np.where(has_tag(*given), given.feats.ids, len(given.feats.names) + found.feats.ids)
    return Tags(
        filled(given.upos, found.upos),
        filled(given.xpos, found.xpos),
        Column.of_texts([*given.feats.names, *found.feats.names], ids),
    )


def has_tag(*columns: Column) -> np.ndarray:
    """(W,) bool: the words that are not `_` in one of the columns."""
    found = np.zeros(len(columns[0].ids), np.bool_)
    for column in columns:
        found |= np.array([name != "_" for name in column.names], np.bool_)[column.ids]
    return found


def stages_of(folder: Path) -> list[str]:
    """The names of the stages that a folder has, the parser's among them, in order."""
    return [name for name, row in STAGES.items() if (folder / row.file).exists()] or [PARSER]


def has_parser(folder: Path) -> bool:
    """True if a folder has a parser; one without any stage is taken for that of a parser."""
    return PARSER in stages_of(folder)


def files_of(folder: Path) -> list[str]:
    """The names of the files of a model folder that parsing reads, in the order of the stages.

    Raises: ModelError: the file of the weights cannot be read.
    """
    there = stages_of(folder)
    before = [FILES[name] for name in there if name != PARSER]
    return before + (files_of_parser(folder) if PARSER in there else [])


def load_stages(folder: Path) -> Pipeline:
    """The stages of a model folder before the parser; nothing in it is executed.

    Raises: ModelError: there is no such folder; a file is damaged, of another format or of another
        program.
    """
    check_folder(folder)
    there = stages_of(folder)
    if there == [PARSER] and not any((folder / name).exists() for name in (WEIGHTS, CONFIG)):
        models = sorted(path.parent for path in folder.glob(f"*/{WEIGHTS}"))[:3]
        hint = did_you_mean([str(model) for model in models]) or WHAT_MODELS_ARE
        raise ModelError(f"{folder}: there is no model in this folder; {hint}")
    return Pipeline(*(load_stage(folder, name) if name in there else None for name in FILES))


def load_stage(folder: Path, name: str) -> Any:
    """One stage of a model folder: TOKENIZER, TAGGER or LEMMATIZER.

    Raises: ModelError: it has none, or a damaged one.
    """
    check_folder(folder)
    path = folder / FILES[name]
    with open_file(path, MAX_ARRAYS_BYTES) as file:
        return STAGES[name].kind.unpack(file, path)


def sum_of_stages(folder: Path) -> str:
    """One SHA-256 for all stages of a folder, from what is written in them; nothing is checked.

    Raises: ModelError: a file cannot be read.
    """
    there = stages_of(folder)
    sums = [
        sum_of_folder(folder) if name == PARSER else facts_text(folder / FILES[name])
        for name in there
    ]
    return sums[0] if there == [PARSER] else sha256("\n".join(sums).encode())
