"""Public implementations by others as oracles, on scores of our own making."""

import numpy as np
import pytest
import torch

from gpuparse.inference import chu_liu_edmonds, eisner, eisner_kbest, eisner_sibling
from tests.inference.decoders import IN_MAIN_MEMORY

every_engine = pytest.mark.parametrize("engine", IN_MAIN_MEMORY)


@every_engine
@pytest.mark.parametrize("single_root", [False, True], ids=["multi", "single"])
@pytest.mark.filterwarnings("ignore:.*arg_constraints")
def test_eisner_against_torch_struct(engine, single_root):
    torch_struct = pytest.importorskip("torch_struct", reason="torch-struct is not installed")
    arcs = torch.randn(20, 16, 16, generator=torch.Generator().manual_seed(1))
    lengths = torch.randint(2, 16, (20,), generator=torch.Generator().manual_seed(2))
    # Its layout has no row for the root: arcs from the root stand on the diagonal.
    theirs = arcs[:, 1:, 1:].clone()
    theirs.diagonal(dim1=1, dim2=2).copy_(arcs[:, 0, 1:])
    # Release 0.5 fails on scores that do not require gradients.
    peer = torch_struct.DependencyCRF(theirs.requires_grad_(), lengths, multiroot=not single_root)
    chosen, best = peer.argmax, peer.max
    heads, values = eisner(arcs, lengths, single_root=single_root, engine=engine)
    torch.testing.assert_close(values.float(), best.detach())
    for b, n in enumerate(lengths.tolist()):
        for m in range(1, n + 1):
            h = int(heads[b, m])
            assert chosen[b, (h or m) - 1, m - 1] == 1


@pytest.mark.filterwarnings("ignore:.*arg_constraints")
def test_eisner_kbest_against_torch_struct():
    torch_struct = pytest.importorskip("torch_struct", reason="torch-struct is not installed")
    arcs = torch.randn(8, 13, 13, generator=torch.Generator().manual_seed(4))
    lengths = torch.full((8,), 12)
    theirs = arcs[:, 1:, 1:].clone()
    theirs.diagonal(dim1=1, dim2=2).copy_(arcs[:, 0, 1:])
    trees = torch_struct.DependencyCRF(theirs.requires_grad_(), lengths).topk(5)
    heads, values = eisner_kbest(arcs, lengths, 5)
    torch.testing.assert_close(values, (trees.double() * theirs).detach().sum((2, 3)).T)
    word = torch.arange(12)
    heads = torch.where(heads[:, :, 1:] == 0, word, heads[:, :, 1:] - 1)
    found = trees.transpose(0, 1).argmax(2)  # of every word, its head, or itself under the root
    assert found.equal(heads)


@every_engine
def test_chu_liu_edmonds_against_ufal(engine):
    ufal = pytest.importorskip(
        "ufal.chu_liu_edmonds", reason="ufal.chu-liu-edmonds is not installed"
    )
    rng = np.random.default_rng(3)
    for n in [1, 2, 5, 20, 60]:
        arcs = rng.standard_normal((5, n + 1, n + 1))
        heads, values = chu_liu_edmonds(torch.from_numpy(arcs), torch.full((5,), n), engine=engine)
        for b in range(5):
            # Its rows are modifiers, its columns heads.
            theirs, value = ufal.chu_liu_edmonds(np.ascontiguousarray(arcs[b].T))
            assert heads[b].tolist() == list(theirs)
            assert values[b].item() == pytest.approx(value, rel=1e-12, abs=1e-12)


@every_engine
@pytest.mark.parametrize("single_root", [False, True], ids=["multi", "single"])
def test_eisner_sibling_against_supar(engine, single_root):
    tree = pytest.importorskip("supar.structs.tree", reason="SuPar is not installed")
    rng = torch.Generator().manual_seed(8)
    n_batch, n_nodes = 12, 12
    arcs = torch.randn(n_batch, n_nodes, n_nodes, generator=rng)
    siblings = torch.randn(n_batch, n_nodes, n_nodes, n_nodes, generator=rng)
    lengths = torch.randint(2, n_nodes, (n_batch,), generator=rng)
    for h in range(n_nodes):
        siblings[:, h, :, h] = 0  # it scores no modifiers without siblings
    # Its rows are modifiers, its columns heads.
    theirs = (arcs.mT.contiguous(), siblings.permute(0, 2, 1, 3).contiguous())
    peer = tree.Dependency2oCRF(theirs, lengths, multiroot=not single_root)
    heads, values = eisner_sibling(arcs, siblings, lengths, single_root=single_root, engine=engine)
    torch.testing.assert_close(values.float(), peer.max.detach(), rtol=1e-5, atol=1e-4)
    for b, n in enumerate(lengths.tolist()):
        assert peer.argmax[b, 1 : n + 1].tolist() == heads[b, 1 : n + 1].tolist()
