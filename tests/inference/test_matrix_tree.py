"""Sums over trees with crossing arcs: enumeration, exact integers, laws, gradients, samples."""

from decimal import Decimal, localcontext

import numpy as np
import pytest
import torch

from gpuparse.errors import ScoreError
from gpuparse.inference.matrix_tree import (
    matrix_tree_entropy,
    matrix_tree_log_partition,
    matrix_tree_marginals,
    matrix_tree_sample,
)
from gpuparse.inference.torch import matrix_tree as in_torch
from tests.oracles.brute_force import all_trees

every_root = pytest.mark.parametrize("single_root", [False, True], ids=["multi", "single"])
SUMS = [matrix_tree_log_partition, matrix_tree_marginals, matrix_tree_entropy]


def random_scores(rng, n_batch, n, scale=1.0, forbidden=0.0):
    scores = rng.standard_normal((n_batch, n + 1, n + 1)) * scale
    scores[rng.random(scores.shape) < forbidden] = -np.inf
    return scores


@pytest.mark.parametrize("heavy", [0.0, 50.0, 1e3, 1e6])
def test_case_28_heavy_cycles_leave_every_digit(heavy):
    """The Laplacian is singular to all digits here; the answer is not."""
    arcs = torch.full((1, 3, 3), -torch.inf, dtype=torch.float64)
    arcs[0, 0, 1], arcs[0, 0, 2] = 0.0, -3.0
    arcs[0, 1, 2] = arcs[0, 2, 1] = heavy
    lengths = torch.tensor([2])
    chance = 1 / (1 + np.exp(-3.0))
    found = matrix_tree_marginals(arcs, lengths, single_root=True)
    assert found[0, 0, 1].item() == pytest.approx(chance, rel=1e-14)
    assert found[0, 2, 1].item() == pytest.approx(1 - chance, rel=1e-14)
    total = matrix_tree_log_partition(arcs, lengths, single_root=True)
    assert total.item() == pytest.approx(heavy + np.log1p(np.exp(-3.0)), rel=1e-15)
    both = np.exp(-3.0 - heavy) / (1 + np.exp(-3.0) + np.exp(-3.0 - heavy))
    found = matrix_tree_marginals(arcs, lengths, single_root=False)
    expected = np.exp(-3.0) / (1 + np.exp(-3.0) + np.exp(-3.0 - heavy)) + both
    assert found[0, 0, 2].item() == pytest.approx(expected, rel=1e-9)


def exact_sums(scores, single_root):
    """Log-partition and marginals (N, N) of one sentence, by enumeration in 40 digits."""
    n = len(scores) - 1
    trees = all_trees(n, False, single_root)
    values = [[Decimal(float(scores[h, m])) for m, h in enumerate(t) if m] for t in trees.tolist()]
    with localcontext(prec=40, Emin=-(10**8), Emax=10**8):
        totals = [sum(tree) for tree in values]
        best = max(totals)
        weights = [(total - best).exp() for total in totals]
        whole = sum(weights)
        marginals = np.zeros((n + 1, n + 1))
        for tree, weight in zip(trees.tolist(), weights, strict=True):
            for m in range(1, n + 1):
                marginals[tree[m], m] += float(weight / whole)
        return float(best + whole.ln()), marginals


def nearly_singular(rng):
    """Scores of three words by name, at which a determinant loses all its digits."""
    scores = rng.standard_normal((4, 4))
    isolated, root_far, cycles = scores.copy(), scores.copy(), scores.copy()
    isolated[:, 1] = isolated[1] = -1e6
    root_far[0] -= 750.0
    cycles[1:, 1:] += 1e6
    return {
        "scores at both ends": rng.choice([-1e6, 1e6], (4, 4)) + scores,
        "heads nearly equal": scores * 1e-12,
        "heads nearly equal, high": 1e6 + scores * 1e-9,
        "a word without good arcs": isolated,
        "the root far away": root_far,
        "heavy cycles": cycles,
        "all sizes": scores * rng.choice([1e-8, 1.0, 40.0, 800.0, 1e6], (4, 4)),
    }


@every_root
@pytest.mark.parametrize("engine", ["native", "torch"])
def test_case_28_near_singular_laplacians(single_root, engine):
    for seed in range(3):
        for name, scores in nearly_singular(np.random.default_rng(seed)).items():
            log_partition, marginals = exact_sums(scores, single_root)
            given = torch.from_numpy(scores)[None], torch.tensor([3])
            options = {"single_root": single_root, "engine": engine}
            found = matrix_tree_marginals(*given, **options)[0].numpy()
            # Differences of scores of 1e6 are known to 1e-10.
            np.testing.assert_allclose(found, marginals, rtol=0, atol=5e-10, err_msg=name)
            total = matrix_tree_log_partition(*given, **options).item()
            assert total == pytest.approx(log_partition, rel=1e-14, abs=1e-9), name
            entropy = matrix_tree_entropy(*given, **options).item()
            assert 0 <= entropy <= np.log(16) + 1e-12, name  # 16 trees over three words


def integer_determinant(matrix):
    """Exact, by Bareiss's elimination without fractions."""
    rows, sign, before = [list(row) for row in matrix], 1, 1
    n = len(rows)
    for k in range(n - 1):
        swap = next((r for r in range(k, n) if rows[r][k]), None)
        if swap is None:
            return 0
        if swap != k:
            rows[k], rows[swap], sign = rows[swap], rows[k], -sign
        for r in range(k + 1, n):
            for c in range(k + 1, n):
                rows[r][c] = (rows[r][c] * rows[k][k] - rows[r][k] * rows[k][c]) // before
        before = rows[k][k]
    return sign * rows[-1][-1]


def integer_laplacian(weights, single_root):
    """Koo et al. 2007, sections 3.1 and 3.2, in integers."""
    n = len(weights) - 1
    first = 1 if single_root else 0
    matrix = [[-weights[h][m] for m in range(1, n + 1)] for h in range(1, n + 1)]
    for m in range(1, n + 1):
        matrix[m - 1][m - 1] = sum(weights[h][m] for h in range(first, n + 1) if h != m)
    if single_root:
        matrix[0] = [weights[0][m] for m in range(1, n + 1)]
    return matrix


def log_of_integer(value):
    shift = max(value.bit_length() - 60, 0)
    return np.log(float(value >> shift)) + shift * np.log(2.0)


@every_root
@pytest.mark.parametrize("spread", [5, 60, 1000])
def test_exact_integers(single_root, spread):
    """Weights 2^k: the determinant is an integer of thousands of digits, and exact."""
    rng = np.random.default_rng(7)
    for n in (2, 6, 11):
        powers = rng.integers(0, spread + 1, (n + 1, n + 1))
        weights = [[2 ** int(k) for k in row] for row in powers]
        if n == 6:
            for h, m in ((2, 1), (0, 1), (3, 1), (4, 1), (5, 2), (1, 6)):
                weights[h][m] = 0
        whole = integer_determinant(integer_laplacian(weights, single_root))
        scores = torch.tensor(
            [[float(k) * np.log(2.0) if w else -np.inf for k, w in zip(*rows, strict=True)]
             for rows in zip(powers, weights, strict=True)]
        )[None].double()  # fmt: skip
        lengths = torch.tensor([n])
        total = matrix_tree_log_partition(scores, lengths, single_root=single_root)
        assert total.item() == pytest.approx(log_of_integer(whole), rel=1e-12, abs=1e-12)
        marginals = matrix_tree_marginals(scores, lengths, single_root=single_root)[0]
        for h, m in ((0, 1), (1, 2), (2, 1), (0, n), (n, 1)):
            without = [list(row) for row in weights]
            without[h][m] = 0
            rest = integer_determinant(integer_laplacian(without, single_root))
            # Few digits are lost to the powers' logarithms, none to cancellation.
            expected = float((whole - rest) * 10**300 // whole) * 1e-300
            assert marginals[h, m].item() == pytest.approx(expected, rel=1e-9, abs=1e-290)


@every_root
@pytest.mark.parametrize("n", [10, 25, 60])
def test_long_sentences_against_the_determinant(single_root, n):
    """Where the Laplacian is far from singular, its determinant and inverse are good oracles."""
    scores = random_scores(np.random.default_rng(n), 5, n)
    arcs, lengths = torch.from_numpy(scores).requires_grad_(), torch.full((5,), n)
    eye = torch.eye(n, dtype=torch.bool)
    weights = arcs[:, 1:, 1:].exp().masked_fill(eye, 0.0)
    root = arcs[:, 0, 1:].exp()
    laplacian = torch.diag_embed(weights.sum(1) + (0.0 if single_root else root)) - weights
    if single_root:
        laplacian = torch.cat([root[:, None], laplacian[:, 1:]], 1)
    expected = torch.linalg.slogdet(laplacian).logabsdet
    (marginals,) = torch.autograd.grad(expected.sum(), arcs)
    sums = matrix_tree_log_partition(arcs, lengths, single_root=single_root)
    torch.testing.assert_close(sums, expected, rtol=1e-11, atol=1e-11)
    found = matrix_tree_marginals(arcs.detach(), lengths, single_root=single_root)
    torch.testing.assert_close(found, marginals, rtol=1e-9, atol=1e-11)
    entropy = matrix_tree_entropy(arcs.detach(), lengths, single_root=single_root)
    average = (marginals * arcs.detach()).sum((1, 2))
    torch.testing.assert_close(entropy, expected.detach() - average, rtol=1e-10, atol=1e-10)


@pytest.mark.filterwarnings("ignore:.*arg_constraints")
@pytest.mark.parametrize("single_root", [False, True], ids=["multi", "single"])
def test_torch_struct_agrees_where_it_is_right(single_root):
    peer = pytest.importorskip("torch_struct", reason="torch-struct is not installed")
    arcs = torch.randn(6, 11, 11, generator=torch.Generator().manual_seed(2)) + 2
    lengths = torch.full((6,), 10)
    theirs = arcs[:, 1:, 1:].clone()
    theirs.diagonal(dim1=1, dim2=2).copy_(arcs[:, 0, 1:])
    crf = peer.NonProjectiveDependencyCRF(
        theirs.requires_grad_(), lengths, multiroot=not single_root
    )
    ours = matrix_tree_marginals(arcs, lengths, single_root=single_root).float()
    found = ours[:, 1:, 1:].clone()
    found.diagonal(dim1=1, dim2=2).copy_(ours[:, 0, 1:])
    torch.testing.assert_close(found, crf.marginals.detach(), rtol=1e-3, atol=1e-4)


@every_root
def test_samples_of_long_sentences_have_the_marginals(single_root):
    scores = random_scores(np.random.default_rng(17), 2, 20, 1.5)
    arcs, lengths = torch.from_numpy(scores), torch.tensor([20, 13])
    drawn = matrix_tree_sample(
        arcs, lengths, 20_000, torch.Generator().manual_seed(4), single_root=single_root
    )
    marginals = matrix_tree_marginals(arcs, lengths, single_root=single_root)
    for b, n in enumerate(lengths.tolist()):
        assert (drawn[b, :, 0] == -1).all()
        assert (drawn[b, :, n + 1 :] == -1).all()
        for m in range(1, n + 1):
            share = torch.bincount(drawn[b, :, m], minlength=21) / 20_000
            spread = (marginals[b, :, m] * (1 - marginals[b, :, m]) / 20_000).sqrt()
            assert (abs(share - marginals[b, :, m]) <= 5 * spread + 2e-4).all()


def test_errors():
    arcs, lengths = torch.zeros(2, 3, 3), torch.tensor([2, 2])
    for total in [*SUMS, lambda *a, **k: matrix_tree_sample(*a, 1, **k)]:
        with pytest.raises(ScoreError, match="length 3"):
            total(arcs, torch.tensor([2, 3]))
        far = arcs.double()
        far[1, 0, 1] = -1e101
        with pytest.raises(ScoreError, match="too far"):
            total(far, lengths)


@every_root
def test_sentences_of_one_batch_share_no_memory(single_root):
    """Sentences of any length and scale after one another, in plain and in scaled numbers."""
    rng = np.random.default_rng(19)
    sizes = [(30, 1), (1, 1), (4, 1e4), (17, 1), (30, 500), (2, 1), (16, 1), (3, 1e6), (3, 1)]
    arcs = torch.full((len(sizes), 33, 33), torch.nan, dtype=torch.float64)
    for b, (n, scale) in enumerate(sizes):
        arcs[b, : n + 1, : n + 1] = torch.from_numpy(random_scores(rng, 1, n, scale)[0])
    lengths = torch.tensor([n for n, _ in sizes])
    sums = matrix_tree_log_partition(arcs, lengths, single_root=single_root)
    marginals = matrix_tree_marginals(arcs, lengths, single_root=single_root)
    for b, (n, _) in enumerate(sizes):
        alone = arcs[b : b + 1, : n + 1, : n + 1], lengths[b : b + 1]
        assert matrix_tree_log_partition(*alone, single_root=single_root) == sums[b]
        found = matrix_tree_marginals(*alone, single_root=single_root)[0]
        assert found[:, 1:].equal(marginals[b, : n + 1, 1 : n + 1])
        assert marginals[b].sum().item() == pytest.approx(n, rel=1e-12)


@every_root
@pytest.mark.parametrize("quantity", [matrix_tree_marginals, matrix_tree_entropy])
def test_derivatives_of_near_singular_laplacians_are_those_of_the_elimination(
    single_root, quantity
):
    """Also where others of the batch come from an inverse; first and second derivatives."""
    of_names = nearly_singular(np.random.default_rng(5))
    arcs = torch.from_numpy(np.stack([np.full((4, 4), 0.5), *of_names.values()]))
    lengths = torch.full((len(arcs),), 3)
    sizes = torch.randn(arcs.shape, generator=torch.Generator().manual_seed(1)).double()
    found = {}
    for engine in ("native", "torch"):
        leaf = arcs.clone().requires_grad_()
        value = quantity(leaf, lengths, single_root=single_root, engine=engine)
        total = (value * sizes[:, :1, 0].view(-1, *[1] * (value.dim() - 1))).sum()
        if value.dim() == 3:
            total = (value * sizes).sum()
        (first,) = torch.autograd.grad(total, leaf, create_graph=True)
        (second,) = torch.autograd.grad((first * sizes).sum(), leaf)
        found[engine] = first.detach(), second
    for native, other in zip(found["native"], found["torch"], strict=True):
        torch.testing.assert_close(native, other, rtol=1e-7, atol=1e-6)


@every_root
@pytest.mark.parametrize(("n", "spread"), [(1, 1.0), (2, 3.0), (30, 2.0), (100, 1.0), (20, 30.0)])
def test_bounds_of_errors_of_the_inverse(single_root, n, spread):
    """The elimination is within them, and they are low for scores of most models."""
    arcs = torch.from_numpy(random_scores(np.random.default_rng(n), 12, n, spread, 0.02))
    arcs[:, 0, 1:] = arcs[:, 0, 1:].nan_to_num(neginf=0.0)
    given = arcs, torch.linspace(0, n, 12).long(), single_root
    found, bounds = in_torch.sums_by_inverse(*given)
    assert (bounds <= 1e-9).all() or spread == 30.0
    errors = (found - torch.stack(in_torch.eliminate(*given))).abs()
    assert (errors <= bounds + 1e-14 * (1 + found.abs()))[:, bounds <= 1e-9].all()
    marginals = in_torch.marginals_by_inverse(*given)
    expected = matrix_tree_marginals(*given[:2], single_root=single_root)
    assert ((marginals - expected).abs().amax((1, 2)) <= bounds + 1e-14)[bounds <= 1e-9].all()


@every_root
@pytest.mark.parametrize("quantity", SUMS)
def test_hard_scores_alone_are_eliminated(single_root, quantity, monkeypatch):
    """Second derivatives included; where values cannot be looked at, all are."""
    easy = random_scores(np.random.default_rng(1), 3, 3)
    hard = random_scores(np.random.default_rng(2), 1, 3)[0]
    hard[1:3, 3], hard[3, 1:3] = -1500.0, -1e6  # two words that rather choose each other than one
    hard[0, 1:3] = -750.0  # from outside
    hard[1, 2] = hard[2, 1] = 40.0
    arcs = torch.from_numpy(np.stack([easy[0], hard, *easy[1:]]))
    lengths, eliminated, found = torch.tensor([3, 3, 2, 0]), [], []
    eliminate = in_torch.eliminate

    def counted(scores, *rest, **more):
        eliminated.append(len(scores))
        return eliminate(scores, *rest, **more)

    monkeypatch.setattr("gpuparse.inference.tree_sums.eliminate", counted)
    for some in ([0, 1, 2, 3], [0, 2, 3]):
        eliminated.clear()
        leaf = arcs[some].requires_grad_()
        value = quantity(leaf, lengths[some], single_root=single_root, engine="torch")
        (first,) = torch.autograd.grad(value.square().sum(), leaf, create_graph=True)
        (second,) = torch.autograd.grad(first.square().sum(), leaf)
        assert eliminated == ([1] if 1 in some else [])
        found.append([value[[s != 1 for s in some]], *(
            part[[s != 1 for s in some]] for part in (first, second)
        )])  # fmt: skip
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-9)
    native = quantity(arcs, lengths, single_root=single_root)
    own = quantity(arcs, lengths, single_root=single_root, engine="torch")
    torch.testing.assert_close(own, native, rtol=1e-14, atol=1e-9)
