"""`blend`: one model of several, whose scores are the weighted sum of theirs."""

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from gpuparse.blending import BlendedParser, blend
from gpuparse.commands.calibrate import check_new_folder
from gpuparse.commands.console import exit_codes
from gpuparse.errors import ConfigError, plural
from gpuparse.files import lock_folder
from gpuparse.inference.decoders import DECODERS
from gpuparse.installed import find_model
from gpuparse.jobs.card import remove_card
from gpuparse.jobs.progress import program, say, silent
from gpuparse.model_folder import load_parser, save_parser, sum_of_folder
from gpuparse.parser import Parser
from gpuparse.pipeline import NO_STAGES, Pipeline, load_stages, write_stages


def main(arguments: Sequence[str]) -> int:
    """Write one model of several.

    Args:
        arguments: `OUTPUT MODEL MODEL ... [--weights W W ...] [--label-weights W W ...] [--force]
            [--quiet]`.
    Returns: 0.
    Raises:
        ConfigError: the output exists, or no sum of the models can be made. ModelError: a model
            cannot be used. ScoreError: scores of word vectors are too large.
    Cost: a few passes over the models; all are in memory at once.
    """
    options = _parser().parse_args(arguments)
    target, tell = Path(options.output), silent if options.quiet else say
    if len(options.models) < 2:
        raise ConfigError("two models are needed at least: OUTPUT MODEL MODEL ...")
    weights = _weights("--weights", options.weights, options.models)
    label_weights = weights
    if options.label_weights is not None:
        label_weights = _weights("--label-weights", options.label_weights, options.models)
    if not options.force:
        check_new_folder(target, "another OUTPUT")
    shares, record = [], []
    for name, weight, label_weight in zip(options.models, weights, label_weights, strict=True):
        shares.append(BlendedParser(name, load_parser(find_model(name)), weight, label_weight))
        what = f"weight {weight:g}, of labels {label_weight:g}"
        tell(f"{name}: {what}, {_content(shares[-1].parser)}")
        record.append(f"# blended: {what}, of the model {sum_of_folder(Path(name))}\n")
    stages = _stages(options.models)
    parser = blend(shares)
    parser = replace(parser, config="".join(record) + parser.config)
    with lock_folder(target):
        remove_card(target)  # of another model
        write_stages(stages, target)
        save_parser(parser, target)
    tell(f"{target}: one model of {len(shares)}, {_content(parser)}")
    if DECODERS[parser.decoder].has("marginals", "native"):
        tell(
            f"{target}: its probabilities are not calibrated: gpuparse calibrate {target}"
            " GOLD --force, with gold trees that no model was trained on"
        )
    return 0


def _stages(models: list[str]) -> Pipeline:
    """The tagger and other stages of those models that have any; calibrated as those of the first.

    Raises: ConfigError: they differ, so that the models do not read the same tags.
    """
    found: dict[str, Pipeline] = {}
    for name in models:
        stages = load_stages(find_model(name))
        if stages.pack():
            found[name] = stages
    if len({tuple(_uncalibrated(stages).pack().items()) for stages in found.values()}) > 1:
        raise ConfigError(
            f"{', '.join(found)}: have different taggers or lemmatisers; train all models with"
            " those of one: tagger.model=DIR and lemmatizer.model=DIR"
        )
    return next(iter(found.values()), NO_STAGES)


def _uncalibrated(stages: Pipeline) -> Pipeline:
    """The stages with one scale of probabilities, which changes no tag."""
    tagger = stages.tagger
    return stages if tagger is None else replace(stages, tagger=tagger.with_scale(1.0))


def _weights(option: str, given: list[float] | None, models: list[str]) -> list[float]:
    if given is None:
        return [1.0 / len(models)] * len(models)
    if len(given) != len(models):
        raise ConfigError(
            f"{option}: {plural(len(given), 'weight')} for"
            f" {plural(len(models), 'model')}: give as many"
        )
    return given


def _weight(text: str) -> float:
    """A weight, in range; ValueError for any other text."""
    if not 1e-3 <= (weight := float(text)) <= 1e3:
        raise ValueError
    return weight


_weight.__name__ = "number from 0.001 to 1000"  # argparse: "invalid NAME value"


def _content(parser: Parser) -> str:
    """What scores trees, such as "first-order templates of 16 bits, 2 networks of word vectors"."""
    bits = 8 * parser.linear.arcs.array.dtype.itemsize
    parts = [f"templates of {bits} bits"] if parser.linear.templates.arc else []
    if parser.fused and parser.fused.addend:
        parts.append(parser.fused.addend.content)
    return f"{parser.decoder}, {' and '.join(parts)}"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=program("blend"),
        description="Make one model whose scores are the weighted sum of those of several, trained"
        " from one treebank: with other seeds, or by templates and by word vectors alone. It is"
        " parsed with like any other, by one search. See docs/tuning.md.",
        epilog=exit_codes(0, 2, 3, 4, 5),
    )
    parser.add_argument("output", metavar="OUTPUT", help="the folder to write the model to")
    parser.add_argument("models", metavar="MODEL", nargs="+", help="folders that train wrote")
    parser.add_argument(
        "--weights",
        type=_weight,
        nargs="+",
        metavar="W",
        help="what the scores of each model are multiplied by; without it, the mean is taken",
    )
    parser.add_argument(
        "--label-weights",
        type=_weight,
        nargs="+",
        metavar="W",
        help="the same for scores of labels; without it, those of --weights",
    )
    parser.add_argument("--force", action="store_true", help="replace an existing model")
    parser.add_argument("--quiet", action="store_true", help="only errors on stderr")
    return parser
