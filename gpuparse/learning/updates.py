"""Update rules: from the constraints of one sentence to steps along gold minus found features.

    rule                constraints                       change of the weights
    perceptron          the best tree                     one whole step, if it is wrong
    mira                the k best trees                  the smallest that meets all
    passive-aggressive  the k best trees                  as mira, violations squared cost C
    mira-factored       every arc beside a gold arc       the smallest that meets all
    conditional         all trees, by their probability   up the gradient of the gold tree's

A constraint says that gold is to score at least its cost more than one wrong tree. The last two
rules search for no tree. Native code has all rules (native/updates.h); the steps of the first three
are here too, for the torch engine.
"""

from typing import NamedTuple

import numpy as np

from gpuparse.config import RULES, RunConfig
from gpuparse.errors import ConfigError
from gpuparse.inference.decoders import DECODERS, with_quantity
from gpuparse.scorers.linear.weights import Weights

PERCEPTRON, MIRA, PASSIVE_AGGRESSIVE, MIRA_FACTORED, CONDITIONAL = range(len(RULES))


class UpdateRule(NamedTuple):
    """The rule of a run: the struct UpdateRule of native/api/learning.h.

    cost: what a mistake adds to the scores that are searched with, 0 for plain search.
    max_step: C, the aggressiveness: the largest step allowed; infinity for none.
    """

    rule: int
    cost: float
    max_step: float


def update_rule(config: RunConfig) -> UpdateRule:
    """The update rule of a run."""
    learning = config.learning
    number = list(RULES).index(learning.rule)
    return UpdateRule(number, float(learning.cost_augmented), learning.max_step or np.inf)


def step_size(rule: UpdateRule, cost: float, margin: float, squared_norm: float) -> float:
    """How far to move along f(x, gold) - f(x, found), of one constraint.

    Args:
        rule: perceptron: one whole step (Collins 2002). Passive-aggressive: number II of Crammer et
            al. (2006). MIRA: the smallest step after which gold scores at least `cost` above what
            was found (McDonald & Pereira 2006, section 4); with a largest step it is number I.
        cost: of the mistakes, in words.
        margin: score of gold minus score of what was found, before the step.
        squared_norm: squared length of the difference of the feature vectors.
    Returns: The step, 0 where nothing is to be changed.
    """
    if squared_norm == 0.0:
        return 0.0
    if rule.rule == PERCEPTRON:
        return 1.0 if cost > 0.0 else 0.0
    if rule.rule == PASSIVE_AGGRESSIVE:
        return max(0.0, (cost - margin) / (squared_norm + 0.5 / rule.max_step))
    return min(rule.max_step, max(0.0, (cost - margin) / squared_norm))


def steps_in_turn(
    rule: UpdateRule, costs: np.ndarray, margins: np.ndarray, gram: np.ndarray
) -> np.ndarray:
    """The steps of B sentences one after the other, (B,) float64.

    Each step is computed with the weights that the steps before it have moved.

    Args:
        costs, margins: (B,) float64; the margins before any step.
        gram: (B, B) float64: products of the differences of the feature vectors.
    Cost: O(B^2).
    """
    steps, now = np.zeros(len(costs)), margins.copy()
    for b in range(len(costs)):
        steps[b] = step_size(rule, float(costs[b]), float(now[b]), float(gram[b, b]))
        now[b + 1 :] += steps[b] * gram[b + 1 :, b]
    return steps


class AveragedWeights:
    """A table of weights that are learned, `width` weights a row, and their average.

    To `weighted` each change of the weights is added times the number of sentences before it, so
    that after n sentences the mean over them is weights - weighted / n. A weight that a sentence
    does not change costs nothing.

    Args:
        array: (rows, width) float32, copied.
        weighted: (rows * width,) float32, copied; None: zeros.
    Source: McDonald, Crammer & Pereira (2005), figure 3.
    """

    def __init__(self, array: np.ndarray, weighted: np.ndarray | None = None) -> None:
        self.weights = Weights(array)
        self.weighted = np.zeros(array.size, np.float32) if weighted is None else weighted.copy()

    @classmethod
    def zeros(cls, rows: int, width: int = 1) -> "AveragedWeights":
        """A table before anything is learned."""
        return cls(np.zeros((rows, width), np.float32))

    @property
    def array(self) -> np.ndarray:
        """(rows, width) float32, the weights themselves."""
        return self.weights.array

    @property
    def arrays(self) -> tuple[np.ndarray, np.ndarray]:
        """The weights themselves, and the sums, as arrays of one axis."""
        return self.array.reshape(-1), self.weighted

    def mean(self, n_sentences: int) -> np.ndarray:
        """(rows, width) float32: the mean of the weights after each of `n_sentences` sentences."""
        with np.errstate(invalid="ignore"):  # storing them refuses what is not finite
            return self.array - (self.weighted / np.float32(n_sentences)).reshape(self.array.shape)


def check_encoder(config: RunConfig) -> None:
    """Raises: ConfigError: the decoder or another key is of no use to an encoder."""
    given = {
        "init_from": config.init_from is not None, "data.guide": config.data.guide is not None,
        "learning.keep_state": config.learning.keep_state,
    }  # fmt: skip
    for name in (name for name, is_given in given.items() if is_given):
        raise ConfigError(f"{name}: a parser with an encoder cannot have it: leave it out")
    decoder = DECODERS[config.decoder]
    if decoder.of_arcs != config.decoder:
        raise ConfigError(
            f"decoder {config.decoder}: an encoder scores arcs alone: choose"
            f" decoder={decoder.of_arcs}"
        )
    if config.learning.unreachable == "reorder":
        raise ConfigError(
            "learning.unreachable reorder: an encoder reads words in their order: choose"
            " projectivise or skip"
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
    if learning.cost_augmented and learning.rule == "mira-factored":
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
        (config.decoder in decoders, f"decoder {config.decoder}", f"one of {', '.join(decoders)}"),
        (config.labels.kind != "joint", "labels.kind joint", "second-stage or none"),
    ]
    for is_there, what, instead in wanted:
        if not is_there:
            raise ConfigError(
                f"learning.backend torch, which device cuda selects too: only native code learns"
                f" with {what}: choose {instead}, or learning.backend=cpu"
            )
