"""Checks of a training run's config and output, and what its model depends on."""

from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

from gpuparse.config import RunConfig
from gpuparse.data.array_file import sha256
from gpuparse.data.columns import is_guide_file
from gpuparse.data.conll import read_treebank
from gpuparse.errors import ConfigError
from gpuparse.features.plan import check_joint_templates
from gpuparse.features.templates import NO_TEMPLATES, TemplateSet, dump_set, load_templates
from gpuparse.inference.decoders import DECODERS
from gpuparse.jobs.card import check_readme
from gpuparse.jobs.checkpoint import check_output
from gpuparse.jobs.gold import guide_source
from gpuparse.jobs.receipts import Origin, flat
from gpuparse.jobs.stages import sum_of_models
from gpuparse.jobs.toy import is_same_toy
from gpuparse.learning.config_checks import check_encoder, check_learning
from gpuparse.learning.stages.encoder.pretrained_sums import sums_of_pretrained
from gpuparse.learning.trainer import check_templates, config_of_templates


def check_output_of(config: RunConfig, *, resume: bool, force: bool) -> None:
    """Make sure that a run may write into its output folder.

    Raises: ConfigError: as `check_output`; a model that the run would only learn again is replaced.
        There is a README.md that training did not write.
    """
    folder = Path(config.output)
    check_output(folder, resume=resume, force=force or is_same_toy(folder, config))
    check_readme(folder)


def templates_of(config: RunConfig) -> tuple[TemplateSet, TemplateSet | None]:
    """The arc templates of a config, and its label templates unless it wants heads only.

    Raises:
        ConfigError: a set cannot be read or lacks templates that the config needs; keys do not fit
            together.
    """
    if config.has_encoder:
        if config.encoder.model is None and config.parser:
            raise ConfigError(
                "encoder.model: missing; features: encoder needs a pretrained encoder: give its"
                " folder or name"
            )
        check_encoder(config)
        return NO_TEMPLATES, None
    if config.encoder.model is not None:
        raise ConfigError(
            f"encoder.model: given, but features is {config.features!r}: give features=encoder, or"
            " train the config `encoder`"
        )
    arcs = load_templates(config.features)
    check_learning(config_of_templates(arcs, config))
    if config.data.partial and DECODERS[config.decoder].gives_graphs:
        raise ConfigError(
            f"data.partial: decoder {config.decoder} learns from whole graphs: choose a decoder of"
            " trees, or data.partial=false"
        )
    _check_guides(config, has_templates=bool(arcs.guide))
    labels = None if config.labels.kind == "none" else load_templates(config.labels.features)
    check_templates(arcs, labels, config)
    if labels is not None and config.labels.kind == "joint":
        check_joint_templates(labels)
    return arcs, labels


def _check_guides(config: RunConfig, *, has_templates: bool) -> None:
    """ConfigError unless guides are given exactly where templates read them."""
    data = config.data
    named = [
        name for name in ("guide", "dev_guide", "test_guide") if getattr(data, name) is not None
    ]
    if named and not has_templates:
        raise ConfigError(f"data.{named[0]}: the set {config.features!r} has no guide templates")
    if has_templates and data.guide is None:
        raise ConfigError(
            f"data.guide: missing; the set {config.features!r} has guide templates: give misc:KEY"
            " or a parsed copy of data.train"
        )
    for part in ("dev", "test"):
        if getattr(data, part) is not None:
            guide_source(config, part)


def check_no_best(config: RunConfig, what: str) -> None:
    """ConfigError if the best epoch is to be kept by trainings that read no data.dev."""
    if config.learning.keep == "best":
        raise ConfigError(
            f"learning.keep: best, but {what} have no data.dev to choose the epoch by: give"
            " learning.keep=last"
        )


def with_possible_keep(config: RunConfig, tell: Callable[[str], None]) -> RunConfig:
    """A config that keeps the last epoch where it has no data.dev to choose the best one by."""
    if config.learning.keep != "best" or config.data.dev is not None:
        return config
    tell("learning.keep best: without data.dev, the last epoch is kept")
    return replace(config, learning=replace(config.learning, keep="last"))


def origin_of(
    config: RunConfig, contents: dict[str, str], arcs: TemplateSet, labels: TemplateSet | None
) -> Origin:
    """The origin of a model of a config; `contents`: SHA-256 of its treebanks, by key."""
    text = dump_set(arcs) + (dump_set(labels) if labels else "")
    contents = contents | {"features, labels.features": sha256(text.encode())}
    if config.data.guide is not None and is_guide_file(config.data.guide):
        contents["data.guide"] = sha256(Path(config.data.guide).read_bytes())
    if config.encoder.model is not None:
        contents |= sums_of_pretrained(config.encoder.model)
    for key, path in config.word_lists.items():
        contents[key] = sha256(read_treebank(path).data.tobytes())
    if of_models := sum_of_models(config):
        contents["tokenizer.model, tagger.model, lemmatizer.model"] = of_models
    return Origin(flat(asdict(config.recorded())), contents)
