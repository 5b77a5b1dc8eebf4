"""docs/coming-from.md names all of SuPar and torch-struct, and its rows give their numbers."""

import re
from pathlib import Path

import pytest
import torch
from torch import Tensor

from gpuparse.inference import (
    NonProjectiveTrees,
    ProjectiveTrees,
    arc_scores_of_labels,
    label_marginals,
    matrix_tree_log_partition,
    matrix_tree_marginals,
)
from tests.test_docs import FENCE

PAGE = (Path(__file__).parents[2] / "docs" / "coming-from.md").read_text(encoding="utf-8")
LENGTHS = torch.tensor([5, 4, 2])
every_root = pytest.mark.parametrize("multiroot", [True, False])
pytestmark = pytest.mark.filterwarnings("ignore:.*arg_constraints")


def named_in(title: str) -> set[str]:
    """Words in code of a section of the page."""
    page = re.sub(FENCE, "", PAGE)
    [section] = re.findall(rf"^## {title}\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL)
    return {word for code in re.findall(r"`([^`]+)`", section) for word in re.findall(r"\w+", code)}


def public(kind: type) -> set[str]:
    return {name for name in vars(kind) if not name.startswith("_")}


@pytest.fixture
def torch_struct():
    return pytest.importorskip("torch_struct", reason="torch-struct is not installed")


@pytest.fixture
def structs():
    return pytest.importorskip("supar.structs", reason="SuPar is not installed")


def draw(seed: int, *shape: int) -> Tensor:
    """Scores; release 0.5 of torch-struct fails on those that do not require gradients."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator).requires_grad_()


def test_the_page_names_all_of_torch_struct(torch_struct):
    base = torch_struct.distributions.StructDistribution
    kinds = {
        name for name, each in vars(torch_struct).items()
        if isinstance(each, type) and issubclass(each, base) and each is not base
    }  # fmt: skip
    semirings = {name for name in vars(torch_struct) if re.fullmatch(r"[A-Z]\w+Semiring", name)}
    assert len(kinds) >= 8
    assert len(semirings) >= 12
    functions = {"deptree_part", "deptree_nonproj", "to_parts", "from_parts"}
    assert kinds | semirings | public(base) | functions <= named_in("torch-struct")


def with_root(potentials: Tensor) -> Tensor:
    """Scores with the root on the diagonal in our layout."""
    of_root = potentials.diagonal(dim1=1, dim2=2)[:, None]
    return torch.nn.functional.pad(torch.cat([of_root, potentials], 1), (1, 0))


def on_diagonal(arcs: Tensor) -> Tensor:
    """The reverse."""
    return arcs[..., 1:, 1:].diagonal_scatter(arcs[..., 0, 1:], dim1=-2, dim2=-1)


def arcs_of(heads: Tensor) -> Tensor:
    arcs = torch.zeros(*heads.shape, heads.shape[-1])
    arcs.scatter_(-2, heads.clamp(min=0)[..., None, :], (heads >= 0).float()[..., None, :])
    return on_diagonal(arcs)


def close(found: Tensor, expected: Tensor, *, atol: float = 1e-4) -> None:
    expected = expected.detach().reshape(found.shape).to(found.dtype)
    torch.testing.assert_close(found.detach(), expected, rtol=1e-4, atol=atol)


@every_root
def test_projective_trees_have_the_numbers_of_torch_struct(torch_struct, multiroot):
    potentials, sizes = draw(1, 3, 5, 5), torch.tensor([5, 4, 3])
    ours = ProjectiveTrees(with_root(potentials), sizes, single_root=not multiroot)
    heads, values = ours.k_best(3)
    best, events = arcs_of(ours.best().heads), arcs_of(heads).transpose(0, 1)
    peer = torch_struct.DependencyCRF(potentials, sizes, multiroot=multiroot)
    close(ours.log_partition, peer.partition)
    close(on_diagonal(ours.marginals), peer.marginals)
    close(ours.entropy, peer.entropy)
    close(ours.best().scores, peer.max)
    for name in ("argmax", "mode"):
        close(best, getattr(peer, name))
    close(events, peer.topk(3))
    close(values.T, peer.kmax(3))
    close(ours.log_prob(ours.best().heads), peer.log_prob(best))
    tree = torch_struct.DepTree
    heads = ours.best().heads[:1, 1:]
    close(best[:1], tree.to_parts(heads))
    close(heads, tree.from_parts(best[:1])[0])
    for semiring, found in (
        (torch_struct.LogSemiring, ours.log_partition),
        (torch_struct.MaxSemiring, ours.best().scores),
        (torch_struct.EntropySemiring, ours.entropy),
    ):
        close(found, tree(semiring).sum(potentials, sizes))
    expected = tree(torch_struct.KMaxSemiring(3)).sum(potentials, sizes, _raw=True)
    close(values.T, expected)


def test_labels_are_the_fourth_axis_of_torch_struct(torch_struct):
    labels = draw(2, 2, 4, 4, 3)
    peer = torch_struct.DependencyCRF(labels, torch.tensor([4, 3]))
    ours = ProjectiveTrees(with_root(arc_scores_of_labels(labels)), torch.tensor([4, 3]))
    close(ours.log_partition, peer.partition)
    close(label_marginals(on_diagonal(ours.marginals), labels), peer.marginals)


def test_samples_are_those_of_torch_struct(torch_struct):
    potentials = draw(3, 2, 3, 3)
    torch.manual_seed(4)
    theirs = torch_struct.DependencyCRF(potentials, torch.tensor([3, 3])).sample((1000,))
    ours = ProjectiveTrees(with_root(potentials)).sample(1000, seed=4)
    close(arcs_of(ours).mean(1), theirs.float().mean(0), atol=0.1)


@every_root
def test_the_matrix_tree_functions_are_about_those_of_torch_struct(torch_struct, multiroot):
    """They add 1e-5 to every exponential."""
    potentials = draw(5, 3, 5, 5)
    scores, options = with_root(potentials), {"single_root": not multiroot}
    expected = torch_struct.deptree_part(potentials, multiroot, LENGTHS)
    close(matrix_tree_log_partition(scores, LENGTHS, **options), expected, atol=1e-3)
    expected = torch_struct.deptree_nonproj(potentials, multiroot, LENGTHS)
    close(on_diagonal(matrix_tree_marginals(scores, LENGTHS, **options)), expected, atol=1e-3)


def test_the_page_names_all_of_supar(structs):
    names = {*structs.__all__} - {"StructuredDistribution"}
    methods = public(structs.StructuredDistribution) - {"forward", "backward"}
    assert len(names) >= 11
    assert names | methods <= named_in("SuPar")


@every_root
@pytest.mark.parametrize("name", ["DependencyCRF", "Dependency2oCRF", "MatrixTree"])
def test_trees_have_the_numbers_of_supar(structs, name, multiroot):
    n_nodes = 6
    arcs = draw(6, 3, n_nodes, n_nodes)
    siblings = draw(8, 3, n_nodes, n_nodes, n_nodes).detach()
    for h in range(n_nodes):
        siblings[:, :, h, h] = 0  # it scores no modifiers without siblings
    is_second = name == "Dependency2oCRF"
    kind = NonProjectiveTrees if name == "MatrixTree" else ProjectiveTrees

    def pair(scores: Tensor) -> tuple:
        given = (scores, siblings) if is_second else scores
        peer = getattr(structs, name)(given, LENGTHS, multiroot=multiroot)
        own = {"sibling_scores": siblings.transpose(1, 2)} if is_second else {}
        return peer, kind(scores.mT, LENGTHS, single_root=not multiroot, **own)

    peer, ours = pair(arcs)
    other_peer, other = pair(draw(7, 3, n_nodes, n_nodes))
    close(ours.kl(other), peer.kl(other_peer))
    close(ours.cross_entropy(other), peer.cross_entropy(other_peer))
    close(ours.log_partition, peer.log_partition)
    close(ours.entropy, peer.entropy)
    close(ours.best().scores, peer.max)
    for title in ("argmax", "mode"):
        close(ours.best().heads.clamp(min=0), getattr(peer, title))
    close(ours.marginals, peer.marginals.mT)
    if not is_second:
        heads = ours.best().heads.clamp(min=0)
        close(ours.log_prob(heads), peer.log_prob(heads))
        close(ours.score_of(heads), peer.score(heads))
    if name == "DependencyCRF":
        heads, values = ours.k_best(2)
        close(heads.clamp(min=0).transpose(1, 2), peer.topk(2))
        close(values, peer.kmax(2))
