"""Distributions over trees with the interface of `torch.distributions`."""

from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.distributions import Distribution, register_kl

from gpuparse.inference.distributions import TreeDistribution


class TreeEvents(Distribution):
    """A distribution whose events are heads (N,), -1 at the root and in padding.

    Args: trees: the distribution, with all quantities.
    """

    arg_constraints: ClassVar[dict[str, Any]] = {}

    def __init__(self, trees: TreeDistribution) -> None:
        self.trees = trees
        shape = trees.scores.arc.shape
        super().__init__(shape[:1], shape[1:2], validate_args=False)

    @property
    def mode(self) -> Tensor:
        """The best trees, (B, N)."""
        return self.trees.best().heads

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Independent trees, (*sample_shape, B, N), by torch's own random numbers."""
        shape = torch.Size(sample_shape)
        drawn = self.trees.sample(shape.numel())
        return drawn.transpose(0, 1).reshape(self._extended_shape(shape))

    def log_prob(self, value: Tensor) -> Tensor:
        """Logarithms of the probabilities of trees (*sample_shape, B, N), (*sample_shape, B)."""
        shape = value.shape[:-1]
        several = value.reshape(-1, *self.batch_shape, *self.event_shape).transpose(0, 1)
        return self.trees.log_prob(several).T.reshape(shape)

    def entropy(self) -> Tensor:
        """In nats, (B,)."""
        return self.trees.entropy


@register_kl(TreeEvents, TreeEvents)
def _kl(ours: TreeEvents, theirs: TreeEvents) -> Tensor:
    return ours.trees.kl(theirs.trees)
