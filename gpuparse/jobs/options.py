"""What a parse is asked for, the same at every door, and the checks that all doors make."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import get_args

from gpuparse.data.conll import MAX_LINE, OnError
from gpuparse.engines.admission import MAX_CELLS
from gpuparse.errors import ConfigError
from gpuparse.formats.names import RAW, WORDS_ALONE
from gpuparse.inference.decoders import DECODERS, with_quantity
from gpuparse.jobs.predictions import DEPS_OF_TREES, EMPTY, TREE
from gpuparse.jobs.resources import choose_device, is_native_on, working_device
from gpuparse.limits import MAX_K_BEST
from gpuparse.parser import Parser
from gpuparse.pipeline import Pipeline
from gpuparse.self_test import device_difference

TAGS = "tags"  # what `keep` may keep
TAGS_NOT_CALIBRATED = (
    "its probabilities of tags are not calibrated and may be far too high or too low; gpuparse"
    " calibrate MODEL GOLD fits them to gold tags"
)
NOT_CALIBRATED = (
    "its probabilities are not calibrated and may be far too high or too low; gpuparse calibrate"
    " MODEL GOLD fits them to gold trees"
)


@dataclass(frozen=True)
class Door:
    """How messages of a door name options, and say what to do about columns that are missing.

    option: of a name and values that it may have. to_allow_missing: how to parse without columns.
    to_give_columns: how to give them.
    """

    option: Callable[..., str]
    to_allow_missing: str
    to_give_columns: str = "fill it in"


def _of_command(name: str, *values: str) -> str:
    return " ".join(["--" + name.replace("_", "-"), " or ".join(values)]).rstrip()


def of_python(name: str, *values: str) -> str:
    quoted = " or ".join(f'"{value}"' for value in values)
    return f"{name}={quoted}" if values else name


def to_pass_over(door: Door) -> str:
    """What a user can do about malformed sentences, for messages."""
    return f"{door.option('on_error', 'skip', 'keep')} passes over them"


COMMAND = Door(_of_command, "give --allow-missing")
PYTHON = Door(of_python, "load the model with allow_missing=True")


@dataclass(frozen=True, kw_only=True)
class ParseOptions:
    """What a parse is asked for: all that changes bytes of its output beside model and input.

    probabilities: those of heads, relations and tags are written. mbr: minimum Bayes risk trees.
    kbest: how many trees of each sentence are found; None: one. keep_heads: heads of the input
    stay. guide: heads by another parser, `misc:KEY` or a file. keep: TAGS: tags and lemmas of the
    input stay. deps: what a parser of trees writes into DEPS, EMPTY or TREE. ranges: of tokens of
    a text, in MISC. on_error: what is done about malformed sentences. max_line: bytes of the
    longest line. max_cells: score and chart cells of a sentence; a longer sentence is parsed by a
    lower order. allow_missing: whether columns may be missing that the model reads.
    """

    probabilities: bool = False
    mbr: bool = False
    kbest: int | None = None
    keep_heads: bool = False
    guide: str | None = None
    keep: str | None = None
    deps: str = EMPTY
    ranges: bool = False
    on_error: OnError = "fail"
    max_line: int = MAX_LINE
    max_cells: int = MAX_CELLS
    allow_missing: bool = False

    @property
    def keeps_tags(self) -> bool:
        """Whether tags and lemmas of the input stay."""
        return self.keep == TAGS

    @property
    def needs_sums(self) -> bool:
        """Whether more is asked for than best trees: what native code on the CPU computes."""
        return self.probabilities or self.mbr or self.kbest is not None

    def of_bytes(self, kind: str) -> dict[str, object]:
        """The options that change bytes of the output of an input of a format, by name."""
        facts = asdict(self)
        del facts["allow_missing"]
        if kind not in WORDS_ALONE:
            del facts["ranges"]
            return facts
        return facts | {"input": kind}

    def check_values(self, door: Door) -> None:
        """ConfigError for values that no option has, and for options that do not fit together."""
        option = door.option
        if self.mbr and self.kbest is not None:
            raise ConfigError(f"{option('mbr')} and {option('kbest')} cannot be combined")
        if self.kbest is not None and (
            type(self.kbest) is not int or not 1 <= self.kbest <= MAX_K_BEST
        ):
            raise ConfigError(
                f"{option('kbest')}: expected a whole number from 1 to {MAX_K_BEST:,}, not"
                f" {self.kbest!r}"
            )
        for name, known in (
            ("keep", (None, TAGS)),
            ("deps", DEPS_OF_TREES),
            ("on_error", get_args(OnError)),
        ):
            value = getattr(self, name)
            if value not in known:
                expected = " or ".join(repr(each) for each in known)
                raise ConfigError(f"{option(name)}: expected {expected}, and not {value!r}")

    def check(self, model: Parser | None, stages: Pipeline, name: str, door: Door) -> list[str]:
        """Refuse what a model cannot do.

        Args: model: None: without a parser. stages: before it. name: of the model, in messages.
        Returns: what a user should know, a line each: probabilities that are not calibrated.
        Raises: ConfigError.
        """
        self.check_values(door)
        if self.keep and not stages.columns:
            raise ConfigError(
                f"{door.option('keep', TAGS)}: {name} has no tagger and no lemmatiser"
            )
        if model is None:
            self._check_without_parser(stages, name, door)
        else:
            self._check_parser(model, name, door)
        notes = []
        if model and (self.probabilities or self.mbr) and not model.scales.is_calibrated:
            notes.append(NOT_CALIBRATED)
        if self.probabilities and stages.tagger and not stages.tagger.is_calibrated:
            notes.append(TAGS_NOT_CALIBRATED)
        return notes

    def _check_without_parser(self, stages: Pipeline, name: str, door: Door) -> None:
        if self.probabilities and not stages.tagger:
            raise ConfigError(f"{door.option('probabilities')}: {name} has no parser and no tagger")
        asked = {
            door.option("mbr"): self.mbr, door.option("kbest"): self.kbest,
            door.option("keep_heads"): self.keep_heads, door.option("guide"): self.guide,
            door.option("deps", TREE): self.deps == TREE,
        }  # fmt: skip
        for option in (option for option, is_asked in asked.items() if is_asked):
            raise ConfigError(f"{option}: {name} has no parser")

    def _check_parser(self, model: Parser, name: str, door: Door) -> None:
        decoder, called = DECODERS[model.search_decoder], f"decoder {model.search_decoder}"
        asked = {"probabilities": self.probabilities, "mbr": self.mbr}
        for option in (option for option, is_asked in asked.items() if is_asked):
            if not decoder.has("marginals", "native"):
                raise ConfigError(
                    f"{door.option(option)}: {called} has no exact sums, and so no"
                    " probabilities; train a model with"
                    f" decoder={' or '.join(with_quantity('marginals', 'native'))}"
                )
        if self.kbest and not decoder.has("k_best", "native"):
            raise ConfigError(
                f"{door.option('kbest')}: {called} finds one tree only; train a model"
                f" with decoder={' or '.join(with_quantity('k_best', 'native'))}"
            )
        if self.keep_heads and decoder.gives_graphs:
            raise ConfigError(
                f"{door.option('keep_heads')}: {called} finds graphs, whose heads"
                " cannot be kept; use a model of trees"
            )
        if self.deps == TREE and decoder.gives_graphs:
            raise ConfigError(
                f"{door.option('deps', TREE)}: {called} finds graphs, and writes them"
            )
        if self.deps == TREE and not model.labels:
            raise ConfigError(
                f"{door.option('deps', TREE)}: the model finds heads without relations"
            )
        if model.reads_guides and self.guide is None:
            raise ConfigError(
                f"{name}: the model has guide features: give {door.option('guide', 'misc:KEY')}, or"
                " a file with the input as parsed by the other parser"
            )
        if self.guide is not None and not model.reads_guides:
            raise ConfigError(f"{door.option('guide')}: {name}: the model has no guide features")

    def check_input(self, kind: str, name: str, model: str, stages: Pipeline, door: Door) -> None:
        """Refuse an input that the stages cannot read, and options that it cannot follow.

        Args: kind: its format. name, model: of the input and the model, in messages.
        Raises: ConfigError.
        """
        if kind in RAW and stages.tokenizer is None:
            raise ConfigError(
                f"{name}: text, but {model} has no tokeniser: train a model with"
                " tokenizer.learn=true, or give words:"
                f" {door.option('input', 'vertical', 'conllu')}"
            )
        if kind not in RAW and self.ranges:
            raise ConfigError(f"{name}: no text, and {door.option('ranges')} are places in a text")
        if kind not in WORDS_ALONE:
            return
        asked = {"guide": self.guide, "keep_heads": self.keep_heads, "keep": self.keep}
        for option in (option for option, is_asked in asked.items() if is_asked):
            raise ConfigError(
                f"{name}: {kind} has no columns: {door.option(option)} needs CoNLL-U or a table"
            )
        if self.on_error == "keep":
            raise ConfigError(
                f"{name}: malformed {kind} cannot be passed through into CoNLL-U: give"
                f" {door.option('on_error', 'skip', 'fail')}"
            )


def device_of_parsing(
    model: Parser,
    options: ParseOptions,
    device: str,
    backend: str,
    door: Door,
    tell: Callable[[str], None],
) -> tuple[str, bool]:
    """The device that parses, after its self-test, and whether native code does.

    Args: device, backend: what was asked for. tell: see `choose_device`.
    Raises: ConfigError: they do not exist, or do not fit one another, the decoder or the options.
        SelfTestError: the device fails, and was asked for.
    """
    asked = {
        door.option(name): getattr(options, name) for name in ("probabilities", "mbr", "kbest")
    }
    decoder = DECODERS[model.search_decoder]
    asked[f"decoder {model.search_decoder}"] = decoder.is_higher_order
    # Other scores differ a little between devices anyway.
    native_alone = [option for option, is_asked in asked.items() if is_asked and model.is_exact]
    if native_alone and (device == "cuda" or backend in ("torch", "gpu")):
        raise ConfigError(
            f"{native_alone[0]} is computed by native code on the CPU, so that its output is the"
            f" same everywhere; use {door.option('device', 'auto', 'cpu')} and"
            f" {door.option('backend', 'auto', 'cpu')}"
        )
    if backend == "cpu" and device == "cuda":
        raise ConfigError(
            f"{door.option('backend', 'cpu')} does not run on {door.option('device', 'cuda')}; use"
            " torch or auto"
        )
    is_on_cpu = device == "auto" and (native_alone or backend == "cpu")
    chosen = working_device(
        choose_device("cpu" if is_on_cpu else device, tell),
        device,
        lambda: _difference(model, backend, keep_heads=not decoder.gives_graphs),
        can_fall_back=backend != "gpu",
    )
    return chosen, is_native_on(backend, chosen)


def _difference(model: Parser, backend: str, *, keep_heads: bool) -> str:
    """The self-test of the GPU, with the model and with what parses long sentences instead."""
    models = [model]
    if DECODERS[model.search_decoder].order > 1:
        models.append(model.lower_order())
    found = (device_difference(each, "cuda", backend, keep_heads=keep_heads) for each in models)
    return next(filter(None, found), "")
