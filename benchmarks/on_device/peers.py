"""Public decoders in their own layouts, made ready before the clock starts."""

import importlib
import importlib.util
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

Search = Callable[[], object]
Ready = tuple[Search, Callable[[], Tensor]]
"""The search to time, and a function for the values (B,) of the trees that it finds."""


@dataclass(frozen=True)
class Peer:
    """A decoder of another project.

    make: (scores, ..., lengths, single_root) -> Ready. roots: whether it is compared with single
    roots and without. most: sentences it is given at a time, for those that go through them one by
    one; None for all.
    """

    name: str
    module: str
    decoder: str
    make: Callable[..., Ready]
    roots: tuple[bool, ...]
    most: int | None = None

    @property
    def is_installed(self) -> bool:
        """True if it can be imported."""
        try:
            importlib.import_module(self.module)
        except ImportError:
            return False
        return True


def torch_struct_argmax(arcs: Tensor, lengths: Tensor, single_root: bool) -> Ready:
    """Its layout: no row for the root, whose arcs stand on the diagonal."""
    crf = importlib.import_module("torch_struct").DependencyCRF
    theirs = arcs[:, 1:, 1:].clone()
    theirs.diagonal(dim1=1, dim2=2).copy_(arcs[:, 0, 1:])
    theirs.requires_grad_()  # release 0.5 fails on others

    def search() -> Tensor:
        return crf(theirs, lengths).argmax

    return search, lambda: (search() * theirs).detach().sum((1, 2))


def supar_eisner(arcs: Tensor, lengths: Tensor, single_root: bool) -> Ready:
    """Its layout: modifiers first."""
    crf = importlib.import_module("supar.structs.tree").DependencyCRF
    theirs = arcs.mT.contiguous()

    def search() -> Tensor:
        return crf(theirs, lengths, multiroot=not single_root).argmax

    return search, lambda: crf(theirs, lengths, multiroot=not single_root).max.detach()


def supar_sibling(arcs: Tensor, siblings: Tensor, lengths: Tensor, single_root: bool) -> Ready:
    """Modifiers first; it has no score of a modifier without a sibling."""
    crf = importlib.import_module("supar.structs.tree").Dependency2oCRF
    nodes = torch.arange(arcs.shape[1], device=arcs.device)
    alone = siblings[:, nodes, :, nodes].transpose(0, 1)
    # Where there is no sibling its score is that of the arc alone, which all others have to lose.
    theirs = (
        (arcs + alone).mT.contiguous(),
        (siblings - alone[..., None]).transpose(1, 2).contiguous(),
    )

    def search() -> Tensor:
        return crf(theirs, lengths, multiroot=not single_root).argmax

    return search, lambda: crf(theirs, lengths, multiroot=not single_root).max.detach()


def supar_chu_liu_edmonds(arcs: Tensor, lengths: Tensor, single_root: bool) -> Ready:
    """As its parsers decode: copied to the host, one sentence after the other."""
    tree = importlib.import_module("supar.structs.tree").MatrixTree
    theirs = arcs.mT.contiguous()

    def search() -> Tensor:
        return tree(theirs, lengths, multiroot=not single_root).argmax

    return search, lambda: value_of(arcs, lengths, search())


def ufal_chu_liu_edmonds(arcs: Tensor, lengths: Tensor, single_root: bool) -> Ready:
    """As parsers call it: copied to the host, one sentence per call, float64, modifiers first."""
    find = importlib.import_module("ufal.chu_liu_edmonds").chu_liu_edmonds

    def search() -> list[tuple[list[int], float]]:
        return [find(matrix) for matrix in arcs.mT.double().cpu().contiguous().numpy()]

    return search, lambda: torch.tensor([value for _, value in search()])


def value_of(arcs: Tensor, lengths: Tensor, heads: Tensor) -> Tensor:
    """(B,) sums of the arcs to words 1..n under heads (B, N)."""
    words = torch.arange(arcs.shape[1], device=arcs.device)
    is_word = (words >= 1) & (words <= lengths[:, None])
    chosen = heads.to(arcs.device).clamp(min=0)
    scores = arcs.double().gather(1, chosen[:, None]).squeeze(1)
    return torch.where(is_word, scores, torch.zeros_like(scores)).sum(1)


PEERS = (
    Peer("torch-struct", "torch_struct", "eisner", torch_struct_argmax, (False,)),
    Peer("SuPar", "supar", "eisner", supar_eisner, (False, True)),
    Peer("SuPar", "supar", "eisner_sibling", supar_sibling, (False,)),
    Peer("SuPar", "supar", "chu_liu_edmonds", supar_chu_liu_edmonds, (False, True), most=64),
    Peer(
        "ufal.chu-liu-edmonds", "ufal.chu_liu_edmonds", "chu_liu_edmonds", ufal_chu_liu_edmonds,
        (False,), most=1024,
    ),
)  # fmt: skip
