"""The plan of a training run: checks of its config and output, and what its model depends on."""

import os
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

from gpuparse.config import RunConfig
from gpuparse.data.array_file import sha256
from gpuparse.data.columns import DEPREL, is_guide_file
from gpuparse.data.folders import Facts, facts_of
from gpuparse.data.treebank import Treebank
from gpuparse.data.vocabulary import is_empty_column
from gpuparse.errors import ConfigError, require
from gpuparse.features.plan import check_joint_templates
from gpuparse.features.templates import NO_TEMPLATES, TemplateSet, dump_set, load_templates
from gpuparse.files import read_input
from gpuparse.inference.decoders import DECODERS
from gpuparse.jobs.card import check_readme
from gpuparse.jobs.checkpoint import check_output, is_unfinished
from gpuparse.jobs.gold import guide_source
from gpuparse.jobs.progress import silent
from gpuparse.jobs.receipts import Origin, flat
from gpuparse.jobs.resources import choose_device, limit_torch_threads, thread_count
from gpuparse.jobs.stages import check_stages, sum_of_models
from gpuparse.jobs.toy import is_toy
from gpuparse.learning.config_checks import check_encoder, check_learning
from gpuparse.learning.stages.encoder.pretrained_sums import sums_of_pretrained
from gpuparse.learning.trainer import check_templates, config_of_templates
from gpuparse.model.folder import CONFIG


@dataclass(frozen=True, eq=False)
class TrainingPlan:
    """The choices of a run, made before it reads a treebank; see `plan_of`.

    Attributes:
        config: the keys that are learned with.
        given: the config as it was given, which the model depends on.
        arcs, labels: the templates; labels: None: heads only are learned.
        facts: what is known of the treebank, for the card.
        threads: of native code, or of torch.
        device: where trees are found, if its self-test agrees.
        pretrained: the encoder that is trained further; None: the parser has templates.
        group: the processes that learn together; None: this one learns alone.
        tell: writes a line for the user.
    """

    config: RunConfig
    given: RunConfig
    arcs: TemplateSet
    labels: TemplateSet | None
    facts: Facts
    threads: int
    device: str
    pretrained: Any
    group: Any
    tell: Callable[[str], None]

    @property
    def output(self) -> Path:
        """The folder of the model."""
        return Path(self.config.output)

    @property
    def is_labelled(self) -> bool:
        """True if relations are learned."""
        return self.config.labels.kind != "none"

    @property
    def graphs(self) -> bool:
        """True if graphs are learned, and not trees."""
        return DECODERS[self.config.decoder].gives_graphs

    @property
    def follows(self) -> bool:
        """True if this process only learns together with the first one of several."""
        return self.group is not None and self.group.rank > 0

    def origin(self, treebank: str) -> Origin:
        """The origin of the model; `treebank` is the SHA-256 of the training treebank."""
        return origin_of(self.given, {"data.train": treebank}, *templates_of(self.given))


def plan_of(config: RunConfig, tell: Callable[[str], None]) -> TrainingPlan:
    """Check a config and choose device and threads; torch gets its number of threads.

    Args: config: valid, without decoder `auto`. tell: writes a line for the user.
    Raises: ConfigError: a template set, device or package does not exist; keys do not fit together.
    Cost: reads the pretrained encoder, if there is one; joins the other processes of `torchrun`.
    """
    if _is_one_of_several() and not (config.has_encoder and config.parser):
        raise ConfigError("torchrun: several processes learn models with an encoder alone")
    given, config = config, with_possible_keep(config, tell)
    treebank = config.data.treebank
    facts = Facts() if treebank is None else facts_of(treebank)
    arcs, labels = templates_of(config)
    check_stages(config)
    threads = thread_count(config.threads)
    if config.engine == "torch":
        what = "device cuda" if config.device == "cuda" else "learning.engine torch"
        require(what, "torch")
    pretrained = _pretrained(config, tell)
    is_native = config.engine == "native" and pretrained is None
    limit_torch_threads(threads, is_native=is_native)
    device, group = _chosen_device(config, tell), None
    if _is_one_of_several():
        group = learning_of_encoders().Processes.joined(device)
    plan = TrainingPlan(
        config, given, arcs, labels, facts, threads, device, pretrained, group, tell
    )
    _say_device(plan)
    return replace(plan, tell=silent) if plan.follows else plan  # the first process says the same


def learning_of_encoders() -> ModuleType:
    """The module that learns encoders, which imports torch."""
    from gpuparse.learning.stages.encoder import trainer

    return trainer


def _pretrained(config: RunConfig, tell: Callable[[str], None]) -> Any:
    """The pretrained encoder that is trained further; None: the parser has templates."""
    name = config.encoder.model
    if not config.has_encoder or not config.parser or name is None:
        return None
    require("encoder.model", "torch", "transformers", "tokenizers")
    found = learning_of_encoders().read_pretrained(name)
    if found.licence is None:
        tell(
            f"warning: encoder.model {name}: its README.md names no licence: find out what you"
            " may do with it, and with models that are learned from it"
        )
    return found


def _chosen_device(config: RunConfig, tell: Callable[[str], None]) -> str:
    """Where trees are found: of higher orders by native code on the CPU alone."""
    if not DECODERS[config.decoder].is_higher_order:
        return choose_device(config.device, tell)
    if config.device == "cuda":
        raise ConfigError(
            f"device cuda: decoder {config.decoder} is native code on the CPU: choose device"
            " cpu or auto"
        )
    return "cpu"


def _say_device(plan: TrainingPlan) -> None:
    """Say what is done where, unless all is done on the CPU."""
    if plan.pretrained is not None:
        if plan.device != "cpu":
            plan.tell(f"the encoder is learned on {plan.device}")
    elif plan.config.engine == "torch":
        size = plan.config.learning.batch_size
        plan.tell(
            f"arcs are learned in torch on {plan.device}, learning.batch_size {size}"
            + ("; larger batches are much faster" if size < 32 else "")
        )
    elif plan.device != "cpu":
        plan.tell(
            f"learning runs on the CPU, {plan.device} parses data.dev and data.test;"
            " learning.engine=torch learns there"
        )


def _is_one_of_several() -> bool:
    """True if the command `torchrun` has started this process, and others."""
    return "TORCHELASTIC_RUN_ID" in os.environ and int(os.environ["WORLD_SIZE"]) > 1


def check_output_of(config: RunConfig, *, resume: bool, force: bool) -> None:
    """Make sure that a run may write into its output folder.

    Raises: ConfigError: as `check_output`; a model that the run would only learn again is replaced.
        There is a README.md that training did not write.
    """
    folder = Path(config.output)
    check_output(folder, resume=resume, force=force or _is_same_toy(folder, config))
    check_readme(folder)


def _is_same_toy(folder: Path, config: RunConfig) -> bool:
    """True if a folder has a finished model of generated sentences that this config would learn.

    Learning it again loses nothing.
    """
    text = config.recorded().to_yaml()
    try:
        return (
            is_toy(text)
            and not is_unfinished(folder)
            and (folder / CONFIG).read_text(encoding="utf-8") == text
        )
    except (OSError, UnicodeDecodeError):
        return False


def templates_of(config: RunConfig) -> tuple[TemplateSet, TemplateSet | None]:
    """The arc templates of a config, and its label templates unless it wants heads only.

    Raises:
        ConfigError: a set cannot be read or lacks templates that the config needs; keys do not fit
            together.
    """
    if config.data.partial and DECODERS[config.decoder].gives_graphs:
        raise ConfigError(
            f"data.partial: decoder {config.decoder} learns from whole graphs: choose a decoder of"
            " trees, or data.partial=false"
        )
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


def check_no_best(config: RunConfig) -> None:
    """ConfigError if the best epoch is to be kept by trainings that read no data.dev."""
    if config.learning.keep == "best":
        raise ConfigError(
            "learning.keep: best, but the parsers of folds have no data.dev to choose the epoch by:"
            " give learning.keep=last"
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
        contents[key] = sha256(read_input(path))
    if of_models := sum_of_models(config):
        contents["tokenizer.model, tagger.model, lemmatizer.model"] = of_models
    return Origin(flat(asdict(config.recorded())), contents)


def with_possible_labels(plan: TrainingPlan, treebank: Treebank) -> TrainingPlan:
    """A plan to learn heads only where a treebank has no relations."""
    if not is_empty_column(treebank, DEPREL):
        return plan
    plan.tell(f"{treebank.source}: DEPREL (column 8) is `_` in every word: heads only are learned")
    config = replace(plan.config, labels=replace(plan.config.labels, kind="none"))
    return replace(plan, config=config, labels=None)
