"""Public libraries of trees in their own layouts, which are made ready before the clock starts."""

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

BEST, SUM, MARGINALS, ENTROPY, SEVERAL, SAMPLE = (
    "best tree", "log-partition, gradient", "marginals", "entropy", "4 best trees", "sample",
)  # fmt: skip
K = 4
Call = tuple[Callable[[], Any], Callable[[], Tensor] | None]
"""What is timed, and a number (B,) of it that is the same in each layout."""
Calls = dict[str, Call]
"""Quantity -> Call."""


@dataclass(frozen=True)
class Peer:
    """A library.

    make: (scores, ..., lengths, single_root) of a decoder -> Calls. roots: by decoder, whether its
    search is compared with single roots and without. most: sentences that its search gets at a
    time, where it goes through them one by one.
    """

    name: str
    module: str
    make: Callable[..., Calls]
    roots: dict[str, tuple[bool, ...]]
    most: dict[str, int]

    @property
    def is_installed(self) -> bool:
        """True if it can be imported."""
        try:
            importlib.import_module(self.module)
        except ImportError:
            return False
        return True


def torch_struct(decoder: str, arcs: Tensor, *more: Any) -> Calls:
    """Its layout: no row for the root, whose arcs are on the diagonal."""
    *_, lengths, single_root = more
    if decoder == "eisner_sibling":
        return {}
    library = importlib.import_module("torch_struct")
    scores = arcs[:, 1:, 1:].clone()
    scores.diagonal(dim1=1, dim2=2).copy_(arcs[:, 0, 1:])
    scores.requires_grad_()  # release 0.5 fails on others
    is_projective = decoder == "eisner"
    crf = library.DependencyCRF if is_projective else library.NonProjectiveDependencyCRF

    def trees() -> Any:
        return crf(scores, lengths, multiroot=not single_root)

    calls: Calls = {
        SUM: (lambda: gradient(trees().partition, [scores]), lambda: trees().partition),
        MARGINALS: (lambda: trees().marginals, lambda: squares(trees().marginals)),
    }
    if is_projective:
        calls[BEST] = lambda: trees().argmax, lambda: trees().max
        calls[ENTROPY] = lambda: trees().entropy, lambda: trees().entropy
        calls[SEVERAL] = lambda: trees().topk(K), lambda: trees().kmax(K).sum(0)
        calls[SAMPLE] = lambda: trees().sample((1,)), None
    return calls


def supar(decoder: str, arcs: Tensor, *more: Any) -> Calls:
    """Its layout: modifiers first. Its parsers copy all trees to the host, one after the other."""
    *siblings, lengths, single_root = more
    library = importlib.import_module("supar.structs.tree")
    leaves = [arcs.mT.clone()]
    if siblings:
        nodes = torch.arange(arcs.shape[1], device=arcs.device)
        alone = siblings[0][:, nodes, :, nodes].transpose(0, 1)
        # It has no score of a modifier without a sibling: that is added to the arc's, and all
        # others lose it.
        leaves = [
            (arcs + alone).mT.clone(),
            (siblings[0] - alone[..., None]).transpose(1, 2).clone(),
        ]
    for leaf in leaves:
        leaf.requires_grad_()
    crf = {"eisner": library.DependencyCRF, "eisner_sibling": library.Dependency2oCRF}.get(
        decoder, library.MatrixTree
    )

    def trees() -> Any:
        return crf(tuple(leaves) if siblings else leaves[0], lengths, multiroot=not single_root)

    def marginals() -> Tensor:
        found = trees().marginals
        return found[0] if siblings else found

    calls: Calls = {
        BEST: (lambda: trees().argmax, lambda: trees().max.detach()),
        SUM: (lambda: gradient(trees().log_partition, leaves), lambda: trees().log_partition),
        MARGINALS: (marginals, lambda: squares(marginals())),
        ENTROPY: (lambda: trees().entropy, lambda: trees().entropy),
    }
    if decoder != "chu_liu_edmonds":
        calls[SEVERAL] = lambda: trees().topk(K), lambda: trees().kmax(K).sum(1)
        calls[SAMPLE] = lambda: trees().sample(), None
    return calls


def ufal(decoder: str, arcs: Tensor, *more: Any) -> Calls:
    """As parsers call it: copied to the host, one sentence per call, float64, modifiers first."""
    *_, lengths, _ = more
    if decoder != "chu_liu_edmonds":
        return {}
    find = importlib.import_module("ufal.chu_liu_edmonds").chu_liu_edmonds

    def search() -> list[tuple[list[int], float]]:
        matrices = arcs.mT.double().cpu().contiguous().numpy()
        pairs = zip(matrices, lengths.tolist(), strict=True)
        return [find(matrix[: n + 1, : n + 1].copy()) for matrix, n in pairs]

    return {BEST: (search, lambda: torch.tensor([value for _, value in search()]))}


def squares(marginals: Tensor) -> Tensor:
    """(B,), the same in each layout."""
    return marginals.detach().double().square().flatten(1).sum(1)


def gradient(values: Tensor, leaves: list[Tensor]) -> tuple[Tensor, ...]:
    """The gradient of a batch."""
    return torch.autograd.grad(values.sum(), leaves)


_BOTH = (False, True)
PEERS = (
    Peer("torch-struct", "torch_struct", torch_struct, {"eisner": (False,)}, {}),
    Peer(
        "SuPar", "supar.structs.tree", supar,
        {"eisner": _BOTH, "eisner_sibling": (False,), "chu_liu_edmonds": _BOTH},
        {"chu_liu_edmonds": 64},
    ),
    Peer(
        "ufal.chu-liu-edmonds", "ufal.chu_liu_edmonds", ufal, {"chu_liu_edmonds": (False,)},
        {"chu_liu_edmonds": 1024},
    ),
)  # fmt: skip
