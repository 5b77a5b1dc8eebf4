"""Linear chains: sequences of tags scored by tags and by neighbouring tags.

Scores of a batch: `unary` (B, N, K), of tag k at a position; `pairs` (B, N - 1, K, K), of a tag and
the tag behind it, or (K, K) for all positions; and for chains of the second order `triples`
(B, N - 2, K, K, K) or (K, K, K), of a tag and the two behind it. -inf forbids. What belongs to
positions behind the end of a sequence is never read. Integers are computed with as float64.

Of equally good sequences the one whose last tag is smallest comes first, then the one whose tag
before is smallest, and so on.
"""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from gpuparse import native
from gpuparse.errors import NoTreeError, ScoreError
from gpuparse.inference.backends import choose_engine, require_native
from gpuparse.inference.native_trees import MAX_TREES, require_sample_count

MAX_TAGS = 4096
_NO_TAG = -1


def chain_viterbi(
    unary: Tensor,
    pairs: Tensor,
    lengths: Tensor | None = None,
    *,
    triples: Tensor | None = None,
    backend: str = "auto",
) -> tuple[Tensor, Tensor]:
    """The best sequence of every chain of a batch.

    Args:
        unary, pairs, triples: as above. lengths: int (B,), 1..N; None: N of each.
        backend: "auto", "torch" or "cpu" (native); all give the same sequences and the same bits.
    Returns: tags int64 (B, N), -1 behind the end; scores float64 (B,), without gradient, added
        from the first position on: the score so far, and the sum of tag, pair and triple.
    Raises:
        ScoreError: wrong shapes, types, lengths or values; an unknown backend.
        NoTreeError: a chain, named by its index, has no sequence without forbidden parts.
    Cost: O(n K^2) time and O(n K) memory a chain; O(n K^3) and O(n K^2) of the second order.
    Source: Viterbi 1967; Rabiner 1989, section III.B.
    """
    given = _checked(unary, pairs, triples, lengths)
    if choose_engine(backend, unary.device) == "native":
        tags, scores = given.found(1)
        tags, scores = tags[:, 0], scores[:, 0]
    else:
        tags, scores = given.best()
    _require_sequences(scores)
    return tags, scores


def chain_kbest(
    unary: Tensor,
    pairs: Tensor,
    k: int,
    lengths: Tensor | None = None,
    *,
    triples: Tensor | None = None,
    backend: str = "auto",
) -> tuple[Tensor, Tensor]:
    """The k best sequences of every chain, exactly, best first.

    Args:
        unary, pairs, triples, lengths: as `chain_viterbi` reads them, in main memory.
        k: number of sequences, from 1 to 2^20 - 1.
        backend: "auto" or "cpu" (native), which are the same: there is no torch form.
    Returns: tags int64 (B, k, N), scores float64 (B, k). Where a chain has fewer sequences, the
        remaining rows have tags -1 and score -inf. The first row is that of `chain_viterbi`.
    Raises: as `chain_viterbi`; ScoreError for an impossible k.
    Cost: O(n K^2 k) time and O(n K k) memory a chain in the worst case; second order: K times that.
    """
    if type(k) is not int or not 1 <= k <= MAX_TREES:
        raise ScoreError(f"k is {k}, expected a number from 1 to {MAX_TREES}")
    given = _checked(unary, pairs, triples, lengths)
    require_native("chain_kbest", backend, unary.device)
    tags, scores = given.found(k)
    _require_sequences(scores[:, 0])
    return tags, scores


def chain_log_partition(
    unary: Tensor,
    pairs: Tensor,
    lengths: Tensor | None = None,
    *,
    triples: Tensor | None = None,
    backend: str = "auto",
) -> Tensor:
    """Logarithm of the sum of exp(score) over all sequences of every chain.

    Args: as `chain_viterbi`. Second derivatives come from the torch form.
    Returns: float64 (B,), differentiable: its gradients are the probabilities of tags, pairs and
        triples.
    Raises: as `chain_viterbi`.
    Cost: as `chain_viterbi`, and the memory of gradients; in torch O(n K^2) memory a chain, or
        O(n K^3), where gradients are asked for.
    Source: forward sums, backward shares; Rabiner 1989, section III.A.
    """
    given = _checked(unary, pairs, triples, lengths)
    if choose_engine(backend, unary.device) != "native":
        sums = given.log_sums()
    elif torch.is_grad_enabled() and given.needs_gradient:
        sums = _ChainLogPartition.apply(*given)
    else:
        sums = given.summed(with_marginals=False)[0]
    _require_sequences(sums)
    return sums


def chain_marginals(
    unary: Tensor,
    pairs: Tensor,
    lengths: Tensor | None = None,
    *,
    triples: Tensor | None = None,
    backend: str = "auto",
) -> Tensor:
    """Probability of every tag, sequences having probabilities proportional to exp(score).

    Args: as `chain_log_partition`, whose gradients are those of pairs and triples too. Where a
        gradient is asked for, "auto" takes the torch form.
    Returns: float64 (B, N, K), each position sums to 1; 0 behind the end. Differentiable in the
        torch form.
    Raises: as `chain_viterbi`.
    Cost: about twice that of `chain_log_partition`.
    Source: forward-backward; in torch the derivative of the forward sums (Eisner 2016).
    """
    given = _checked(unary, pairs, triples, lengths)
    keeps = torch.is_grad_enabled() and given.needs_gradient
    engine = choose_engine(backend, unary.device)
    if engine == "native" and not (keeps and backend == "auto"):
        sums, (marginals, *_) = given.summed(with_marginals=True)
        _require_sequences(sums)
        return marginals
    with torch.enable_grad():
        own = given.unary if given.unary.requires_grad else given.unary.detach().requires_grad_()
        sums = given._replace(unary=own).log_sums()
        _require_sequences(sums)
        (found,) = torch.autograd.grad(sums.sum(), own, create_graph=keeps)
    return found


def chain_sample(
    unary: Tensor,
    pairs: Tensor,
    n_samples: int,
    lengths: Tensor | None = None,
    *,
    triples: Tensor | None = None,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Independent sequences, each drawn with its exact probability.

    The generator gives one seed a chain, in the order of the batch. Sample s of a chain depends on
    its seed, its scores and s alone.

    Args:
        unary, pairs, triples, lengths: as `chain_viterbi`. n_samples: for each chain.
        generator: where randomness comes from; None: torch's own. It moves on by B numbers.
    Returns: tags int64 (B, n_samples, N), -1 behind the end, on the device of the scores.
    Raises: as `chain_viterbi`; ScoreError for a negative number of samples.
    Cost: that of `chain_log_partition`, and O(n K) a sample; in main memory, whatever the device.
    Source: forward filtering, backward sampling.
    """
    require_sample_count(n_samples)
    given = _checked(unary, pairs, triples, lengths)
    bounds = torch.iinfo(torch.int64)
    seeds = torch.randint(bounds.min, bounds.max, (len(given.lengths),), generator=generator)
    tags = np.empty((len(seeds), n_samples, given.unary.shape[1]), np.int64)
    _require_sequences(given.summed(with_marginals=False)[0])
    native.call("sample_chains", given.arrays(), seeds.numpy(), tags)
    return torch.from_numpy(tags).to(unary.device)


class _Arrays(NamedTuple):
    """The scores as the native library takes them."""

    unary: np.ndarray
    pairs: np.ndarray
    triples: np.ndarray
    lengths: np.ndarray


class _Chains(NamedTuple):
    """The checked scores of a batch in float64; pairs and triples have all axes, perhaps of 1."""

    unary: Tensor  # (B, N, K)
    pairs: Tensor  # (B or 1, N - 1 or 1, K, K)
    triples: Tensor | None  # (B or 1, N - 2 or 1, K, K, K)
    lengths: Tensor  # int64 (B,)

    def arrays(self) -> _Arrays:
        k = self.unary.shape[2]
        triples = (
            torch.zeros((0, 0, k * k, k), dtype=torch.float64)
            if self.triples is None
            else self.triples.flatten(2, 3)
        )
        parts = (self.unary, self.pairs, triples, self.lengths)
        return _Arrays(*(part.detach().cpu().contiguous().numpy() for part in parts))

    def found(self, k: int) -> tuple[Tensor, Tensor]:
        """The k best sequences by native code: tags (B, k, N) and scores (B, k)."""
        n_chains, n, _ = self.unary.shape
        tags, scores = np.empty((n_chains, k, n), np.int64), np.empty((n_chains, k))
        native.call("find_chains", self.arrays(), tags, scores)
        return torch.from_numpy(tags), torch.from_numpy(scores)

    @property
    def needs_gradient(self) -> bool:
        return any(part is not None and part.requires_grad for part in self[:3])

    def summed(
        self, *, with_marginals: bool, with_parts: bool = False
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Logarithms of sums (B,) and probabilities by native code.

        Probabilities of tags, with parts of pairs and triples too: the shapes of their scores, B
        chains each. Where one score is for all positions, they are sums over the positions.
        """
        given, n_chains = self.arrays(), len(self.lengths)
        sums = np.empty(n_chains)
        shares = [
            np.empty((n_chains * is_there, *part.shape[1:]))
            for part, is_there in zip(
                given[:3], (with_marginals, with_parts, with_parts), strict=True
            )
        ]
        native.call("sum_chains", given, sums, *shares)
        return torch.from_numpy(sums), tuple(map(torch.from_numpy, shares))

    def steps(self, t: int) -> Tensor:
        """What is added at position t >= 1: (B, K before, K), or (B, K, K before, K)."""
        pairs = self.pairs[:, min(t - 1, self.pairs.shape[1] - 1)]
        steps = self.unary[:, t, None, :] + pairs
        if self.triples is None:
            return steps
        if t == 1:
            return steps[:, None].expand(-1, steps.shape[2], -1, -1)
        return steps[:, None] + self.triples[:, min(t - 2, self.triples.shape[1] - 1)]

    def start(self) -> Tensor:
        """The values of the states at the first position; see native/chains.cpp."""
        first = self.unary[:, 0]
        if self.triples is None:
            return first
        none = torch.full_like(first, -torch.inf)[:, None].expand(-1, first.shape[1] - 1, -1)
        return torch.cat([first[:, None], none], 1)

    def best(self) -> tuple[Tensor, Tensor]:
        """The best sequences by operations of torch."""
        given = _Chains(*(None if part is None else part.detach() for part in self))
        value, (n_chains, n, k) = given.start(), given.unary.shape
        places = torch.arange(k, device=value.device)
        back = []
        for t in range(1, n):
            ways = value[..., None] + given.steps(t)
            top = ways.amax(1)
            shape = [1, k] + [1] * (ways.dim() - 2)
            first = torch.where(ways == top[:, None], places.view(shape), k).amin(1)
            is_there = (t < given.lengths).view([-1] + [1] * (top.dim() - 1))
            value = torch.where(is_there, top, value)
            back.append(first.clamp(max=k - 1))
        flat = value.transpose(1, 2).flatten(1) if given.triples is not None else value
        scores = flat.amax(1)
        states = torch.arange(flat.shape[1], device=flat.device)
        last = torch.where(flat == scores[:, None], states, flat.shape[1]).amin(1)
        last = last.clamp(max=flat.shape[1] - 1)
        tags = torch.full((n_chains, n), _NO_TAG, device=flat.device)
        rows = torch.arange(n_chains, device=flat.device)
        tag, before = (last, last) if given.triples is None else (last // k, last % k)
        for t in range(n - 1, -1, -1):
            is_there = t < given.lengths
            tags[:, t] = torch.where(is_there, tag, tags[:, t])
            if not t:
                break
            if given.triples is None:
                tag = torch.where(is_there, back[t - 1][rows, tag], tag)
            else:
                earlier = back[t - 1][rows, before, tag]
                tag = torch.where(is_there, before, tag)
                before = torch.where(is_there, earlier, before)
        return tags, scores

    def log_sums(self) -> Tensor:
        """The logarithms of sums (B,) by operations of torch, differentiable."""
        value = self.start()
        for t in range(1, self.unary.shape[1]):
            is_there = (t < self.lengths).view([-1] + [1] * (value.dim() - 1))
            value = torch.where(is_there, _log_sum(value[..., None] + self.steps(t), 1), value)
        return _log_sum(value.flatten(1), 1)


def _log_sum(values: Tensor, axis: int) -> Tensor:
    """logsumexp whose gradient is 0, not NaN, where all values are -inf."""
    top = values.detach().amax(axis, keepdim=True)
    top = torch.where(top == -torch.inf, 0.0, top)
    sums = (values - top).exp().sum(axis)
    is_none = sums == 0
    logs = torch.where(is_none, 1.0, sums).log() + top.squeeze(axis)
    return torch.where(is_none, -torch.inf, logs)


class _ChainLogPartition(torch.autograd.Function):
    """The log-partition with the native probabilities as its gradients."""

    @staticmethod
    def forward(ctx, *given):  # type: ignore[no-untyped-def]
        with_parts = any(ctx.needs_input_grad[1:])
        sums, shares = _Chains(*given).summed(with_marginals=True, with_parts=with_parts)
        ctx.save_for_backward(*given, *shares)
        return sums

    @staticmethod
    def backward(ctx, of_sums):  # type: ignore[no-untyped-def]
        given, shares = ctx.saved_tensors[:4], ctx.saved_tensors[4:]
        if torch.is_grad_enabled():  # somebody wants to go on to the second derivative
            wanted = [part for part in given if part is not None and part.requires_grad]
            sums = _Chains(*given).log_sums()
            found = iter(torch.autograd.grad(sums, wanted, of_sums, create_graph=True))
            return tuple(next(found) if needs else None for needs in ctx.needs_input_grad)
        found = [
            _weighted(share, of_sums, part) if needs else None
            for part, share, needs in zip(given, shares, ctx.needs_input_grad, strict=False)
        ]
        return *found, None


def _weighted(shares: Tensor, weights: Tensor, part: Tensor) -> Tensor:
    """The gradient of scores: the shares of the chains, weighted; summed for shared scores."""
    shares = shares.reshape(len(shares), *part.shape[1:])
    return (weights.view(-1, *[1] * (part.dim() - 1)) * shares).sum_to_size(part.shape)


def _require_sequences(scores: Tensor) -> None:
    """Raise NoTreeError for the first chain whose score is -inf."""
    missing = (scores == -torch.inf).nonzero()
    if len(missing):
        raise NoTreeError(f"chain {int(missing[0])} has no sequence without forbidden parts")


def _checked(
    unary: Tensor, pairs: Tensor, triples: Tensor | None, lengths: Tensor | None
) -> _Chains:
    """The scores in float64 with all axes.

    Raises: ScoreError: wrong shapes, types, lengths or values.
    """
    named = {"unary": unary, "pairs": pairs, "triples": triples}
    for name, part in named.items():
        if part is None and name == "triples":
            continue
        if not isinstance(part, Tensor) or part.dtype == torch.bool or part.is_complex():
            raise ScoreError(f"{name}: expected a tensor of real numbers")
        if part.device != unary.device:
            raise ScoreError(f"{name} is on {part.device}, unary on {unary.device}")
    if unary.dim() != 3 or not 1 <= unary.shape[2] <= MAX_TAGS or unary.shape[1] < 1:
        raise ScoreError(
            f"unary has the shape {tuple(unary.shape)}, expected (B, N, K) with N of at least 1 and"
            f" K from 1 to {MAX_TAGS}"
        )
    n_chains, n, k = unary.shape
    read = [unary.to(torch.float64)]
    for name, axes in (("pairs", 2), ("triples", 3)):
        part = named[name]
        if part is None:
            continue
        whole = (n_chains, max(n + 1 - axes, 0), *[k] * axes)
        if tuple(part.shape) == (k,) * axes:
            part = part[None, None]
        elif tuple(part.shape) != whole:
            raise ScoreError(
                f"{name} has the shape {tuple(part.shape)}, expected {whole} or {(k,) * axes}"
            )
        read.append(part.to(torch.float64))
    if lengths is None:
        words = torch.full((n_chains,), n)
    else:
        words = torch.as_tensor(lengths).to("cpu")
        is_whole = not words.is_floating_point() and words.dtype != torch.bool
        if not is_whole or tuple(words.shape) != (n_chains,):
            raise ScoreError(f"lengths: expected ({n_chains},) whole numbers")
        if n_chains and not (int(words.min()) >= 1 and int(words.max()) <= n):
            raise ScoreError(f"lengths: expected numbers from 1 to {n}")
        words = words.to(torch.int64)
    words = words.to(unary.device)
    for place, name in enumerate(list(named)[: len(read)]):
        part = read[place]
        if part.shape[:2] == (n_chains, n - place):
            # What is not read must not reach gradients.
            behind = torch.arange(place, n, device=unary.device) >= words[:, None]
            part = part.masked_fill(behind.view([*behind.shape] + [1] * (part.dim() - 2)), 0.0)
        if bool((part.isnan() | (part == torch.inf)).any()):
            raise ScoreError(f"{name} has NaN or +infinity")
        read[place] = part
    return _Chains(read[0], read[1], read[2] if triples is not None else None, words)
