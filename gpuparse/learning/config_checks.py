"""Checks of a config: update rule, decoder, labels, engine and encoder must go together."""

from gpuparse.config import RULES, RunConfig
from gpuparse.errors import ConfigError
from gpuparse.features.templates import TemplateSet
from gpuparse.inference.decoders import DECODERS, with_quantity


def check_encoder(config: RunConfig) -> None:
    """Raises: ConfigError: the decoder or another key is of no use to an encoder."""
    if config.data.guide is not None:
        raise ConfigError("data.guide: a parser with an encoder cannot have it: leave it out")
    decoder, loss = DECODERS[config.decoder], config.encoder.loss
    if decoder.gives_graphs:
        if loss != "local":
            raise ConfigError(
                f"encoder.loss {loss}: it is of trees, and decoder {config.decoder} finds graphs:"
                " choose encoder.loss=local"
            )
    elif decoder.of_arcs != config.decoder:
        raise ConfigError(
            f"decoder {config.decoder}: an encoder scores arcs alone: choose"
            f" decoder={decoder.of_arcs}"
        )


def check_vectors(arcs: TemplateSet, config: RunConfig) -> None:
    """Check that a template set with word vectors goes with the other keys.

    Raises: ConfigError: it does not.
    """
    if arcs.word_vectors is None:
        return
    which = f"the set {arcs.name!r}"
    if DECODERS[config.decoder].gives_graphs:
        raise ConfigError(
            f"features: {which} has word vectors, which learn from trees, and decoder"
            f" {config.decoder} finds graphs: choose a decoder of trees"
        )
    if config.data.partial:
        raise ConfigError(
            f"data.partial: word vectors, which {which} has, learn from whole trees: give"
            " features=extended, a set without them"
        )
    if arcs.guide and config.word_vectors.margin is not None:
        raise ConfigError(
            f"word_vectors.margin: {which} has guide templates, which score all arcs: give null"
        )


def check_learning(config: RunConfig) -> None:
    """Check that update rule, decoder, labels and engine go together.

    Raises: ConfigError: they do not.
    """
    learning, is_joint = config.learning, config.labels.kind == "joint"
    rule, decoder = RULES[learning.rule], DECODERS[config.decoder]
    what = f"learning.rule {learning.rule}"
    if learning.k > 1 and not rule.takes_k_best:
        raise ConfigError(f"{what}: learning.k is {learning.k}, and it learns from one tree only")
    if learning.k > 1 and not decoder.has("k_best"):
        raise ConfigError(
            f"learning.k is {learning.k}, and decoder {config.decoder} finds one tree only: choose"
            f" one of {', '.join(with_quantity('k_best'))}"
        )
    if rule.needs_max_step and learning.max_step is None:
        raise ConfigError(f"{what}: learning.max_step must be given")
    if is_joint and decoder.gives_graphs:
        raise ConfigError(
            f"labels.kind joint: decoder {config.decoder} finds graphs, which are labelled when"
            " they are finished: choose second-stage"
        )
    if config.engine == "torch":
        _check_torch(config)
    if rule.searches:
        return
    if decoder.parts:
        raise ConfigError(
            f"{what}: it is of the first order, decoder {config.decoder} is not: choose eisner or"
            " chu_liu_edmonds"
        )
    if is_joint:
        raise ConfigError(f"{what}: it does not learn labels.kind joint: choose second-stage")
    if learning.batch_size > 1:
        raise ConfigError(f"{what}: it searches for no trees: learning.batch_size must be 1")
    if learning.cost_augmented and learning.rule == "mira-factored":
        raise ConfigError(f"{what}: learning.cost_augmented must be false, no tree has a cost")


def _check_torch(config: RunConfig) -> None:
    """Refuse keys that the torch engine does not have, so that no other engine replaces it."""
    learning = config.learning
    decoders = with_quantity("best", "torch")
    rules = [name for name, rule in RULES.items() if rule.searches]
    wanted = [
        (learning.rule in rules, f"learning.rule {learning.rule}", f"one of {', '.join(rules)}"),
        (config.decoder in decoders, f"decoder {config.decoder}", f"one of {', '.join(decoders)}"),
        (config.labels.kind != "joint", "labels.kind joint", "second-stage or none"),
    ]
    for is_there, what, instead in wanted:
        if not is_there:
            raise ConfigError(
                f"learning.engine torch, which device cuda selects too: only native code learns"
                f" with {what}: choose {instead}, or learning.engine=native"
            )
