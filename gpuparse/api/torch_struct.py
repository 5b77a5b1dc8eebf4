"""Distributions over trees with the interface of torch-struct, on our algorithms.

`DependencyCRF` (projective trees) and `NonProjectiveDependencyCRF` (all trees) have the arguments
and the layout of the classes of torch-struct 0.5, so only the import changes:

    from gpuparse.api.torch_struct import DependencyCRF, NonProjectiveDependencyCRF

`log_potentials` are (B, n, n) or, with labels, (B, n, n, L): [b, h, m] is the score of the word h
as the head of the word m, both from 0, and [b, m, m] that of the root. Events and marginals have
the type of the potentials.

Where these differ from torch-struct 0.5, on purpose:

- Potentials of any kind work, with or without gradients, under `no_grad` and `inference_mode` too;
  they may be -inf and are never written to. A sentence that -inf leaves without a tree is an error
  (`NoTreeError`) that names it.
- Scores, partitions, entropies and log-probabilities are float64, and added up in it, for
  potentials of any type.
- `multiroot` belongs to the object: two distributions in one program do not change each other.
- Padding beyond `lengths` is never read, NaN included; events are 0 there.
- `topk` and `kmax`: if there are fewer than k trees, the remaining events are 0 and their scores
  -inf; torch-struct returns invalid trees with scores of about -1e9.
- Non-projective partition and marginals add no 1e-5 to the exponentials and are right for scores of
  any size.
- Non-projective trees have all methods of projective ones: `argmax`, `max`, `topk`, `kmax`,
  `log_prob`, `entropy`, `sample`, `count`, labels.
- `argmax` and `topk` have no gradient; `max` and `kmax` have. `sample` takes any shape and gives
  exact, independent trees.
- `count`, `cross_entropy` and `kl` work; in torch-struct they fail on current torch.
- `gumbel_crf` and the attribute `struct` do not exist.

As in torch-struct, `log_prob` does not check that events are trees.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from gpuparse.errors import require

# ruff: noqa: E402 (imports of torch come after the error that says how to install it)
require("gpuparse.api.torch_struct", "torch")

import torch
from torch import Tensor
from torch.distributions import Distribution

from gpuparse.errors import ScoreError
from gpuparse.inference import LabelledTrees, NonProjectiveTrees, ProjectiveTrees
from gpuparse.inference.distributions import TreeDistribution, expectation
from gpuparse.inference.labelled import BestLabelled


def _kept(function: Callable[[Any], Tensor]) -> Any:
    """A property that is computed once, and once more where gradients are wanted."""

    def get(self: Any) -> Tensor:
        key = function.__name__, torch.is_grad_enabled()
        if key not in self._results:
            self._results[key] = function(self)
        return self._results[key]

    return property(get, doc=function.__doc__)


class _TreeDistribution(Distribution):
    """Trees with probabilities proportional to exp(score)."""

    arg_constraints: ClassVar[dict[str, Any]] = {}
    _kind: ClassVar[type[ProjectiveTrees] | type[NonProjectiveTrees]]
    _multiroot: ClassVar[bool]  # unless it is said

    def __init__(
        self,
        log_potentials: Tensor,
        lengths: Tensor | Sequence[int] | None = None,
        args: dict[str, Any] | None = None,
        multiroot: bool | None = None,
    ) -> None:
        if log_potentials.dim() not in (3, 4) or log_potentials.shape[1] != log_potentials.shape[2]:
            shape = tuple(log_potentials.shape)
            raise ScoreError(
                f"log_potentials has shape {shape}, expected (B, n, n) or (B, n, n, L)"
            )
        self.log_potentials = log_potentials
        self.lengths = lengths
        self.args = {} if args is None else args
        self.multiroot = self._multiroot if multiroot is None else multiroot
        n_batch, n = log_potentials.shape[:2]
        if lengths is None:
            lengths = torch.full((n_batch,), n)
        self._words = torch.as_tensor(lengths, device=log_potentials.device)
        self._results: dict[tuple[str, bool], Tensor] = {}
        super().__init__(log_potentials.shape[:1], log_potentials.shape[1:], validate_args=False)

    @_kept
    def partition(self) -> Tensor:
        """The log-partition, (B,)."""
        return self._trees().log_partition

    @_kept
    def marginals(self) -> Tensor:
        """Probabilities of arcs, with labels if the potentials have them: (B, *event_shape)."""
        return self._typed(self._marginals())

    @_kept
    def entropy(self) -> Tensor:
        """In nats, (B,)."""
        return self._trees().entropy

    @_kept
    def argmax(self) -> Tensor:
        """The best tree as ones among zeros, (B, *event_shape)."""
        best = self._trees().best()
        labels = best.labels if isinstance(best, BestLabelled) else None
        return self._typed(self._events(best.heads, labels))

    @property
    def mode(self) -> Tensor:
        """The same as `argmax`."""
        return self.argmax

    @_kept
    def max(self) -> Tensor:
        """The score of the best tree, (B,)."""
        return self._score(self.argmax)

    @_kept
    def count(self) -> Tensor:
        """The number of trees with a score above -inf, (B,); exact up to 2^53."""
        allowed = torch.zeros_like(self.log_potentials, dtype=torch.float64)
        allowed = allowed.masked_fill(self.log_potentials.detach() == -torch.inf, -torch.inf)
        return self._trees(allowed).log_partition.exp().round()

    def topk(self, k: int) -> Tensor:
        """The k best trees, best first, (k, B, *event_shape); zeros where there are no more."""
        return self._topk(k)[0]

    def kmax(self, k: int) -> Tensor:
        """Scores of the k best trees, (k, B); -inf where there are no more."""
        events, is_tree = self._topk(k)
        return self._score(events).masked_fill(~is_tree, -torch.inf)

    def log_prob(self, value: Tensor) -> Tensor:
        """Logarithms of the probabilities of events (*sample_shape, B, *event_shape)."""
        return self._score(value) - self.partition

    def sample(self, sample_shape: Sequence[int] = torch.Size()) -> Tensor:
        """Independent trees, (*sample_shape, B, *event_shape), by torch's own random numbers."""
        with torch.no_grad():
            n_samples = math.prod(sample_shape)
            drawn = self._trees().sample(n_samples)
            events = self._events(*drawn) if isinstance(drawn, tuple) else self._events(drawn)
            events = events.transpose(0, 1)
            return self._typed(events.reshape(*sample_shape, *self.batch_shape, *self.event_shape))

    def cross_entropy(self, other: "_TreeDistribution") -> Tensor:
        """Minus the expected log-probability of our trees under another distribution, (B,)."""
        return other.partition - expectation([self._marginals()], [other.log_potentials])

    def kl(self, other: "_TreeDistribution") -> Tensor:
        """Divergence from another distribution, (B,)."""
        return self.cross_entropy(other) - self.entropy

    def to_event(
        self, sequence: Tensor, extra: Tensor | None = None, lengths: Tensor | None = None
    ) -> Tensor:
        """Heads (B, n), 0 for the root and words from 1, as an event of integers.

        Args:
            extra: labels (B, n), for distributions with labels.
            lengths: of these sentences; None: those of the distribution.
        """
        words = self._words if lengths is None else lengths
        words = torch.as_tensor(words, device=sequence.device)
        is_word = torch.arange(sequence.shape[1], device=sequence.device) < words[:, None]
        heads = torch.where(is_word, sequence, -1)
        padded = (
            torch.nn.functional.pad(given, (1, 0), value=-1)
            for given in (heads, extra)
            if given is not None
        )
        return self._events(*padded)

    def from_event(self, event: Tensor) -> tuple[Tensor, Tensor | None]:
        """Heads (B, n), 0 for the root (and in padding), of an event; and labels (B, n) or None."""
        labels = event.sum(1).argmax(2) if event.dim() == 4 else None
        arcs = event.sum(3) if event.dim() == 4 else event
        root, word = torch.arange(arcs.shape[1], device=arcs.device), arcs.argmax(1)
        heads = torch.where((word == root) | ~arcs.bool().any(1), 0, word + 1)
        return heads, labels

    @property
    def _has_labels(self) -> bool:
        return self.log_potentials.dim() == 4

    @property
    def _n_labels(self) -> int:
        return self.log_potentials.shape[3]

    def _typed(self, result: Tensor) -> Tensor:
        is_float = self.log_potentials.is_floating_point()
        return result.to(self.log_potentials.dtype if is_float else torch.float64)

    def _trees(self, potentials: Tensor | None = None) -> TreeDistribution | LabelledTrees:
        """The distribution in our layout, under other potentials if they are given."""
        scores = _our_layout(self.log_potentials if potentials is None else potentials)
        arcs = scores.new_zeros(scores.shape[:3]) if self._has_labels else scores
        words = self._words.to(scores.device)
        trees = self._kind(arcs, words, single_root=not self.multiroot)
        return LabelledTrees(trees, scores) if self._has_labels else trees

    def _events(self, heads: Tensor, labels: Tensor | None = None) -> Tensor:
        """Events (..., *event_shape) of heads and labels (..., n + 1) in our layout."""
        arcs = _arcs_of_heads(heads)
        if labels is None:
            return arcs
        of_words = torch.nn.functional.one_hot(labels[..., 1:].clamp(min=0), self._n_labels)
        return arcs[..., None] * of_words[..., None, :, :]

    def _marginals(self) -> Tensor:
        trees = self._trees()
        if isinstance(trees, LabelledTrees):
            return _their_layout(trees.label_marginals.movedim(3, 1)).movedim(1, 3)
        return _their_layout(trees.marginals)

    def _score(self, events: Tensor) -> Tensor:
        """Scores of events (*sample_shape, B, *event_shape)."""
        position = torch.arange(self.log_potentials.shape[1], device=self._words.device)
        is_word = position < self._words[:, None]
        is_read = is_word[:, :, None] & is_word[:, None]
        if self._has_labels:
            is_read = is_read[..., None]
        values = events.double()
        parts = torch.where(is_read & (values != 0), self.log_potentials * values, 0.0)
        return parts.flatten(-len(self.event_shape)).sum(-1)

    def _topk(self, k: int) -> tuple[Tensor, Tensor]:
        """The k best events, and which of them there are, bool (k, B)."""
        trees = self._trees(self.log_potentials.detach().cpu())
        heads, *labels, scores = (x.to(self.log_potentials.device) for x in trees.k_best(k))
        events = self._events(heads, *labels)
        return self._typed(events.transpose(0, 1)), (scores > -torch.inf).T


class DependencyCRF(_TreeDistribution):
    """A distribution over projective dependency trees; see the top of this file.

    Args:
        log_potentials: (B, n, n) or (B, n, n, L), [b, h, m], the root on the diagonal.
        lengths: words of each sentence, int (B,); None: n.
        args: kept, not used.
        multiroot: one or more modifiers of the root (the default here); otherwise exactly one.
    """

    _kind, _multiroot = ProjectiveTrees, True


class NonProjectiveDependencyCRF(_TreeDistribution):
    """A distribution over all dependency trees, with crossing arcs; see the top of this file.

    Args:
        log_potentials, lengths, args: as `DependencyCRF`.
        multiroot: one or more modifiers of the root; otherwise exactly one (the default here).
    """

    _kind, _multiroot = NonProjectiveTrees, False


def _our_layout(scores: Tensor) -> Tensor:
    """Scores (B, n, n) or (B, n, n, L) with the root on the diagonal, with the root at 0."""
    of_root = scores.diagonal(dim1=1, dim2=2).movedim(-1, 1)[:, None]
    after = (0, 0) * (scores.dim() - 3)  # no padding of labels
    return torch.nn.functional.pad(torch.cat([of_root, scores], 1), (*after, 1, 0))


def _their_layout(arcs: Tensor) -> Tensor:
    """Numbers (..., n + 1, n + 1) with the root at 0 as (..., n, n) with it on the diagonal."""
    of_words, of_root = arcs[..., 1:, 1:], arcs[..., 0, 1:]
    return of_words.diagonal_scatter(of_root, dim1=-2, dim2=-1)


def _arcs_of_heads(heads: Tensor) -> Tensor:
    """Ones at the arcs of heads (..., n + 1), -1 for none, in their layout."""
    arcs = heads.new_zeros((*heads.shape, heads.shape[-1]))
    index = heads.clamp(min=0)[..., None, :]
    return _their_layout(arcs.scatter(-2, index, (heads >= 0).to(arcs.dtype)[..., None, :]))
