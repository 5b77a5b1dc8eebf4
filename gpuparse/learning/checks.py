"""Which keys of a run can be learned with together."""

from gpuparse.config import RunConfig
from gpuparse.errors import ConfigError
from gpuparse.inference.decoders import DECODERS, with_quantity
from gpuparse.learning.updates import FACTORED, RULES


def check_learning(config: RunConfig) -> None:
    """Check that update rule, decoder, labels and engine go together.

    Raises:
        ConfigError: they do not.
    """
    learning, is_joint = config.learning, config.labels.kind == "joint"
    rule, decoder = RULES[learning.rule], DECODERS[config.decoder]
    what = f"learning.rule {learning.rule}"
    if decoder.is_higher_order and learning.shards > 1 and config.pruning.max_heads is not None:
        raise ConfigError(
            f"decoder {config.decoder}: learning.shards is {learning.shards}, but the pruning"
            " parser is learned without shards: choose learning.shards=1, or"
            " pruning.max_heads=null"
        )
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
    if config.backend == "torch":
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
    if learning.cost_augmented and rule.number == FACTORED:
        raise ConfigError(f"{what}: learning.cost_augmented must be false, no tree has a cost")


def _check_torch(config: RunConfig) -> None:
    """Refuse keys that the torch engine does not have, so that no other engine replaces it."""
    learning = config.learning
    decoders = [
        name
        for name, decoder in DECODERS.items()
        if decoder.has("best", "torch") and not decoder.is_higher_order
    ]
    rules = [name for name, rule in RULES.items() if rule.searches]
    wanted = [
        (learning.rule in rules, f"learning.rule {learning.rule}", f"one of {', '.join(rules)}"),
        (learning.k == 1, f"learning.k {learning.k}", "1"),
        (
            config.decoder in decoders,
            f"decoder {config.decoder}",
            f"one of {', '.join(decoders)}",
        ),
        (config.labels.kind != "joint", "labels.kind joint", "second-stage or none"),
        (learning.shards == 1, f"learning.shards {learning.shards}", "1"),
    ]
    for is_there, what, instead in wanted:
        if not is_there:
            raise ConfigError(
                f"learning.backend torch, which device cuda selects too: only native code learns"
                f" with {what}: choose {instead}, or learning.backend=cpu"
            )
