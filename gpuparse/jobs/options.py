"""The options of a parse, the same at every door, and the checks that all doors make."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, get_args

from gpuparse.data.conll import OnError
from gpuparse.data.formats.names import CONLLU, JSONL, RAW, WORDS_ALONE, is_table
from gpuparse.data.formats.streams import check_encoding
from gpuparse.data.graphs import fits_deps
from gpuparse.errors import ConfigError, ScoreError, option
from gpuparse.inference.decoders import DECODERS, ENGINES
from gpuparse.jobs.predictions import DEPS_OF_TREES, EMPTY, TREE
from gpuparse.jobs.resources import choose_device, working_device
from gpuparse.limits import MAX_K_BEST
from gpuparse.model.confidence import lacks_quantity
from gpuparse.model.engines.searcher import engine_of
from gpuparse.model.parser import Parser
from gpuparse.model.pipeline import Pipeline
from gpuparse.model.self_test import device_difference

TAGS, HEADS = "tags", "heads"  # what --keep of the command keeps; in Python keep and keep_heads
TAGS_NOT_CALIBRATED = (
    "its probabilities of tags are not calibrated and may be far too high or too low; train it with"
    " data.dev, or without calibration=none"
)
NOT_CALIBRATED = (
    "its probabilities are not calibrated and may be far too high or too low; train it with"
    " data.dev, or without calibration=none"
)


@dataclass(frozen=True, kw_only=True)
class ParseOptions:
    """The options that change bytes of the output, beside model and input.

    probabilities: those of heads, relations and tags are written. mbr: minimum Bayes risk trees.
    kbest: how many trees of each sentence are found; None: one. keep_heads: heads of the input
    stay. guide: heads by another parser, `misc:KEY` or a file. keep: TAGS: tags and lemmas of the
    input stay. deps: what a parser of trees writes into DEPS, EMPTY or TREE. ranges: of tokens of
    a text, in MISC. on_error: what is done about malformed sentences. allow_missing: whether
    columns may be missing that the model reads. encoding: of text; None: by its byte-order mark, or
    UTF-8.
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
    allow_missing: bool = False
    encoding: str | None = None

    def of_bytes(self, kind: str) -> dict[str, object]:
        """The options that change bytes of the output of an input of a format, by name."""
        facts = asdict(self)
        del facts["allow_missing"], facts["encoding"]
        if kind not in WORDS_ALONE:
            del facts["ranges"]
            return facts
        return facts | {"input": kind}

    def check_values(self) -> None:
        """ConfigError for values that no option has, and for options that do not fit together."""
        if self.mbr and self.kbest is not None:
            raise ConfigError(f"{option('mbr')} and {option('kbest')} cannot be combined")
        if self.kbest is not None and (
            type(self.kbest) is not int or not 1 <= self.kbest <= MAX_K_BEST
        ):
            raise ConfigError(
                f"{option('kbest')}: expected a whole number from 1 to {MAX_K_BEST:,}, not"
                f" {self.kbest!r}"
            )
        if self.encoding is not None:
            check_encoding(self.encoding)
        for name, known in (
            ("keep", (None, TAGS)),
            ("deps", DEPS_OF_TREES),
            ("on_error", get_args(OnError)),
        ):
            value = getattr(self, name)
            if value not in known:
                expected = " or ".join(repr(each) for each in known)
                raise ConfigError(f"{option(name)}: expected {expected}, and not {value!r}")

    def check(self, model: Parser | None, stages: Pipeline, name: str) -> list[str]:
        """Refuse what a model cannot do.

        Args: model: None: without a parser. stages: before it. name: of the model, in messages.
        Returns: what a user should know, a line each: probabilities that are not calibrated.
        Raises: ConfigError.
        """
        self.check_values()
        if self.keep and not stages.columns:
            raise ConfigError(f"{option('keep', TAGS)}: {name} has no tagger and no lemmatiser")
        if model is None:
            self._check_without_parser(stages, name)
        else:
            self._check_parser(model, name)
        notes = []
        if model and (self.probabilities or self.mbr) and not model.scales.is_calibrated:
            notes.append(NOT_CALIBRATED)
        if self.probabilities and stages.tagger and not stages.tagger.is_calibrated:
            notes.append(TAGS_NOT_CALIBRATED)
        return notes

    def _check_without_parser(self, stages: Pipeline, name: str) -> None:
        if self.probabilities and not stages.tagger:
            raise ConfigError(f"{option('probabilities')}: {name} has no parser and no tagger")
        asked = {
            option("mbr"): self.mbr, option("kbest"): self.kbest,
            option("keep_heads"): self.keep_heads, option("guide"): self.guide,
            option("deps", TREE): self.deps == TREE,
        }  # fmt: skip
        for each in _asked_for(asked):
            raise ConfigError(f"{each}: {name} has no parser")

    def _check_parser(self, model: Parser, name: str) -> None:
        decoder, called = DECODERS[model.search_decoder], f"decoder {model.search_decoder}"
        asked = {"probabilities": self.probabilities, "mbr": self.mbr}
        for each in _asked_for(asked):
            if not decoder.has("marginals", "native"):
                why = lacks_quantity(model.search_decoder, "marginals")
                raise ConfigError(f"{option(each)}: {why}")
        if self.kbest and not decoder.has("k_best", "native"):
            raise ConfigError(
                f"{option('kbest')}: {lacks_quantity(model.search_decoder, 'k_best')}"
            )
        if self.keep_heads and decoder.gives_graphs:
            raise ConfigError(
                f"{option('keep_heads')}: {called} finds graphs, whose heads"
                " cannot be kept; use a model of trees"
            )
        if self.deps == TREE and decoder.gives_graphs:
            raise ConfigError(f"{option('deps', TREE)}: {called} finds graphs, and writes them")
        if self.deps == TREE and not model.labels:
            raise ConfigError(f"{option('deps', TREE)}: the model finds heads without relations")
        wrong = [label for label in model.labels if not fits_deps(label)]
        if self.deps == TREE and wrong:
            raise ConfigError(
                f"{option('deps', TREE)}: {name} has the relation {wrong[0]!r}, which DEPS cannot"
                f" have: | joins its items; give {option('deps', EMPTY)}"
            )
        if model.reads_guides and self.guide is None:
            raise ConfigError(
                f"{name}: the model has guide features: give {option('guide', 'misc:KEY')}, or"
                " a file with the input as parsed by the other parser"
            )
        if self.guide is not None and not model.reads_guides:
            raise ConfigError(f"{option('guide')}: {name}: the model has no guide features")

    def check_input(self, kind: str, name: str, model: str, stages: Pipeline) -> None:
        """Refuse an input that the stages cannot read, and options that it cannot follow.

        Args: kind: its format. name, model: of the input and the model, in messages.
        Raises: ConfigError.
        """
        if kind in RAW and stages.tokenizer is None:
            raise ConfigError(
                f"{name}: text, but {model} has no tokeniser: train a model with"
                " tokenizer.learn=true, or give words:"
                f" {option('input', 'vertical', 'conllu')}"
            )
        if kind not in RAW and self.ranges:
            raise ConfigError(f"{name}: no text, and {option('ranges')} are places in a text")
        if kind not in WORDS_ALONE:
            if self.encoding is not None:
                raise ConfigError(
                    f"{name}: {option('encoding')} is for {', '.join(WORDS_ALONE)}; convert the"
                    " file to UTF-8 (iconv)"
                )
            return
        asked = {"guide": self.guide, "keep_heads": self.keep_heads, "keep": self.keep}
        for each in _asked_for(asked):
            raise ConfigError(
                f"{name}: {kind} has no columns: {option(each)} needs CoNLL-U or a table"
            )

    def check_output(self, kind: str, form: str, name: str, model: Parser | None) -> None:
        """Refuse options that an output cannot show.

        Args:
            kind, form: the formats of the input and its output. name: of the input, in messages.
            model: None: without a parser.
        Raises: ConfigError.
        """
        if self.on_error == "keep" and kind != form and not is_table(kind):
            raise ConfigError(
                f"{name}: malformed {kind} cannot be passed through into"
                f" {'CoNLL-U' if form == CONLLU else 'JSON lines'}: give"
                f" {option('on_error', 'skip', 'fail')}"
            )
        asked = {
            option("ranges"): self.ranges, option("deps", TREE): self.deps == TREE,
            "a model of graphs": model and DECODERS[model.search_decoder].gives_graphs,
        }  # fmt: skip
        for each in _asked_for(asked) if form == JSONL else ():
            raise ConfigError(
                f"{name}: {each}: JSON lines have no DEPS and MISC; write CoNLL-U or a table"
            )


def _asked_for(asked: dict[str, Any]) -> list[str]:
    return [option for option, is_asked in asked.items() if is_asked]


def device_of_parsing(
    model: Parser, device: str, engine: str, tell: Callable[[str], None]
) -> tuple[str, bool]:
    """The device that parses, after its self-test, and whether native code does.

    Args: device, engine: what was asked for. tell: see `choose_device`.
    Raises: ConfigError: they do not exist, or do not fit one another or the decoder.
        SelfTestError: the device fails, and was asked for.
    """
    decoder = DECODERS[model.search_decoder]
    # Other scores differ a little between devices anyway.
    native_alone = model.is_exact and decoder.is_higher_order
    if native_alone and (device == "cuda" or engine in ("torch", "triton")):
        raise ConfigError(
            f"decoder {decoder.name} is computed by native code on the CPU, so that its output is"
            f" the same everywhere; use {option('device', 'auto', 'cpu')} and"
            f" {option('engine', 'auto', 'native')}"
        )
    if engine == "native" and device == "cuda":
        raise ConfigError(
            f"{option('engine', 'native')} does not run on {option('device', 'cuda')}; use"
            " torch or auto"
        )
    is_on_cpu = device == "auto" and (native_alone or engine == "native")
    chosen = working_device(
        choose_device("cpu" if is_on_cpu else device, tell),
        device,
        lambda: _difference(model, engine, keep_heads=not decoder.gives_graphs),
        can_fall_back=engine != "triton",
    )
    if engine not in ("auto", *ENGINES):
        raise ConfigError(f"engine: expected auto, {', '.join(ENGINES)}, and not {engine!r}")
    try:
        is_fused = model.fused is not None
        runs = engine_of(model.search_decoder, chosen, engine, is_fused=is_fused)
    except ScoreError as error:
        raise ConfigError(f"engine {engine}: {error}") from None
    return chosen, runs == "native"


def _difference(model: Parser, engine: str, *, keep_heads: bool) -> str:
    """The self-test of the GPU, with the model and with what parses long sentences instead."""
    models = [model]
    if DECODERS[model.search_decoder].order > 1:
        models.append(model.lower_order())
    found = (device_difference(each, "cuda", engine, keep_heads=keep_heads) for each in models)
    return next(filter(None, found), "")
