"""Sums over trees with crossing arcs: enumeration, exact integers, laws, gradients, samples."""

from decimal import Decimal, localcontext
from itertools import pairwise

import numpy as np
import pytest
import torch

from gpuparse import native
from gpuparse.errors import NoTreeError, ScoreError
from gpuparse.inference import DECODERS, engines
from gpuparse.inference.matrix_tree import (
    _checked,
    _eliminate,
    matrix_tree_entropy,
    matrix_tree_log_partition,
    matrix_tree_marginals,
    matrix_tree_sample,
)
from tests.oracles.brute_force import all_trees, tree_values
from tests.strategies import cases

every_root = pytest.mark.parametrize("single_root", [False, True], ids=["multi", "single"])
SUMS = [matrix_tree_log_partition, matrix_tree_marginals, matrix_tree_entropy]
every_sum = pytest.mark.parametrize("total", SUMS)


def enumerated(scores, single_root):
    """Log-partition (B,), marginals (B, N, N) and entropy (B,), from every tree there is."""
    n = scores.shape[1] - 1
    trees = all_trees(n, False, single_root)
    values = tree_values(scores, trees)
    best = values.max(axis=1, keepdims=True)
    best[best == -np.inf] = 0.0
    weights = np.exp(values - best)
    with np.errstate(divide="ignore", invalid="ignore"):
        log_partition = best[:, 0] + np.log(weights.sum(axis=1))
        probabilities = weights / weights.sum(axis=1, keepdims=True)
        terms = np.where(probabilities > 0, probabilities * np.log(probabilities), 0.0)
        entropy = -terms.sum(axis=1)
    marginals = np.zeros_like(scores)
    for m in range(1, n + 1):
        for h in range(n + 1):
            marginals[:, h, m] = probabilities[:, trees[:, m] == h].sum(axis=1)
    return log_partition, marginals, entropy


def random_scores(rng, n_batch, n, scale=1.0, forbidden=0.0):
    scores = rng.standard_normal((n_batch, n + 1, n + 1)) * scale
    scores[rng.random(scores.shape) < forbidden] = -np.inf
    return scores


def on_torch(scores, lengths, single_root):
    """Log-partition and marginals by the elimination in torch."""
    read, words = _checked(torch.as_tensor(scores), lengths)
    leaf = read.clone().requires_grad_()
    sums, _ = _eliminate(leaf, words, single_root)
    (marginals,) = torch.autograd.grad(sums.sum(), leaf)
    return sums.detach(), marginals


@every_root
@pytest.mark.parametrize("n", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("kind", ["normal", "wide", "forbidden", "wide, forbidden"])
def test_many_matrices_have_the_sums_of_enumeration(single_root, n, kind):
    rng = np.random.default_rng(n)
    n_batch = cases({1: 200, 2: 500, 3: 1000, 4: 1000, 5: 1000})[n]
    scores = random_scores(
        rng, n_batch, n, 200.0 if "wide" in kind else 2.0, 0.3 if "forbidden" in kind else 0.0
    )
    log_partition, marginals, entropy = enumerated(scores, single_root)
    has_tree = log_partition > -np.inf
    arcs, lengths = torch.from_numpy(scores[has_tree]), torch.full((int(has_tree.sum()),), n)
    results = [total(arcs, lengths, single_root=single_root) for total in SUMS]
    for found, expected in zip(results, (log_partition, marginals, entropy), strict=True):
        assert found.dtype == torch.float64
        np.testing.assert_allclose(found.numpy(), expected[has_tree], rtol=1e-9, atol=1e-9)
    sums, found = on_torch(arcs, lengths, single_root)
    np.testing.assert_allclose(sums.numpy(), log_partition[has_tree], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(found.numpy(), marginals[has_tree], rtol=1e-9, atol=1e-9)
    for matrix in scores[~has_tree][:10]:
        for total in SUMS:
            with pytest.raises(NoTreeError, match="sentence 0"):
                total(torch.from_numpy(matrix[None]), torch.tensor([n]), single_root=single_root)
    assert not has_tree.all() or "forbidden" not in kind or n > 3


@every_root
@pytest.mark.parametrize("scale", [1e3, 1e6])
@pytest.mark.parametrize("kind", ["integers", "reals", "forbidden"])
def test_scores_of_any_scale(single_root, scale, kind):
    """Integers have ties, so that several trees share the sum."""
    rng = np.random.default_rng(6)
    scores = random_scores(rng, 300, 4, forbidden=0.2 if kind == "forbidden" else 0.0)
    if kind != "reals":
        scores = np.round(scores)
    scores *= scale
    log_partition, marginals, entropy = enumerated(scores, single_root)
    has_tree = log_partition > -np.inf
    arcs, lengths = torch.from_numpy(scores[has_tree]), torch.full((int(has_tree.sum()),), 4)
    found = [total(arcs, lengths, single_root=single_root).numpy() for total in SUMS]
    # The scores themselves are known to 1e-10 at this scale, and so are differences of sums.
    np.testing.assert_allclose(found[0], log_partition[has_tree], rtol=1e-14, atol=1e-9)
    np.testing.assert_allclose(found[1], marginals[has_tree], atol=1e-8)
    np.testing.assert_allclose(found[2], entropy[has_tree], atol=1e-7)
    if kind != "reals":
        np.testing.assert_allclose(found[1], marginals[has_tree], atol=1e-9)
        np.testing.assert_allclose(found[2], entropy[has_tree], atol=1e-9)
    assert (entropy[has_tree] > 0.5).any() or kind == "reals"


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


@every_root
@pytest.mark.parametrize("scale", [1.0, 40.0, 400.0, 1e6])
@pytest.mark.parametrize("forbidden", [0.0, 0.3])
def test_the_elimination_in_torch_equals_the_native_one(single_root, scale, forbidden):
    rng = np.random.default_rng(8)
    scores = random_scores(rng, 60, 17, scale, forbidden)
    scores[:, 0, 1:] = rng.standard_normal((60, 17)) * scale
    lengths = torch.from_numpy(rng.integers(0, 18, 60))
    read, words = _checked(torch.from_numpy(scores), lengths)
    sums, marginals = np.empty(60), np.empty(scores.shape)
    native.call(
        "sum_trees_batch", DECODERS["chu_liu_edmonds"].number, read.numpy(), None, None,
        words.numpy(), single_root, marginals, sums,
    )  # fmt: skip
    on_torch_sums, found = on_torch(scores, lengths, single_root)
    np.testing.assert_allclose(on_torch_sums.numpy(), sums, rtol=1e-12, atol=1e-12)
    has_tree = sums > -np.inf
    tolerance = 1e-11 if scale < 1e6 else 1e-7
    np.testing.assert_allclose(found.numpy()[has_tree], marginals[has_tree], atol=tolerance)


@every_root
@every_sum
def test_gradients(single_root, total):
    """First and second derivatives, by differences; forbidden arcs and padding included."""
    torch.manual_seed(9)
    scores = torch.randn(3, 5, 5, dtype=torch.float64)
    for h, m in ((0, 2), (3, 1), (2, 1)):
        scores[1, h, m] = -torch.inf
    allowed, lengths = scores.isfinite(), torch.tensor([4, 4, 2])

    def of_allowed(cells):
        return total(scores.masked_scatter(allowed, cells), lengths, single_root=single_root)

    cells = scores[allowed].clone().requires_grad_()
    assert torch.autograd.gradcheck(of_allowed, cells, fast_mode=True)
    assert torch.autograd.gradgradcheck(of_allowed, cells, fast_mode=True)


@every_root
@pytest.mark.parametrize("scale", [1.0, 1e6])
def test_the_gradient_of_the_log_partition_is_the_marginals(single_root, scale):
    arcs = torch.from_numpy(random_scores(np.random.default_rng(10), 7, 12, scale))
    lengths = torch.tensor([12, 0, 1, 5, 7, 11, 12])
    leaf = arcs.clone().requires_grad_()
    matrix_tree_log_partition(leaf, lengths, single_root=single_root).sum().backward()
    marginals = matrix_tree_marginals(arcs, lengths, single_root=single_root)
    assert leaf.grad.equal(marginals)
    assert not marginals.requires_grad
    _, found = on_torch(arcs, lengths, single_root)
    torch.testing.assert_close(found, marginals, rtol=0, atol=1e-12 if scale == 1 else 1e-7)


@every_root
def test_gradients_arrive_in_the_type_of_the_scores(single_root):
    leaf = torch.randn(2, 4, 4, generator=torch.Generator().manual_seed(1)).requires_grad_()
    entropy = matrix_tree_entropy(leaf, torch.tensor([3, 2]), single_root=single_root)
    assert entropy.dtype == torch.float64
    entropy.sum().backward()
    assert leaf.grad.dtype == torch.float32
    assert (leaf.grad[1, :, 3] == 0).all()
    assert (leaf.grad[:, :, 0] == 0).all()


@every_root
@every_sum
def test_cells_that_are_not_read_and_batch_mates_change_nothing(single_root, total):
    rng = np.random.default_rng(11)
    scores, lengths = random_scores(rng, 6, 8, 3.0), torch.tensor([8, 0, 3, 1, 5, 7])
    found = total(torch.from_numpy(scores), lengths, single_root=single_root)
    wide = np.full((6, 11, 11), np.nan)
    for b, n in enumerate(lengths.tolist()):
        wide[b, : n + 1, : n + 1] = scores[b, : n + 1, : n + 1]
    wide[:, :, 0] = np.nan
    wide[:, np.arange(11), np.arange(11)] = np.nan
    before = wide.copy()
    padded = total(torch.from_numpy(wide), lengths, single_root=single_root)
    np.testing.assert_array_equal(wide, before)
    if found.dim() == 3:
        assert (padded[:, 9:] == 0).all()
        assert (padded[:, :, 9:] == 0).all()
        padded = padded[:, :9, :9]
    assert padded.equal(found)
    order = torch.tensor([4, 2, 0, 5, 1, 3])
    mixed = total(torch.from_numpy(scores)[order], lengths[order], single_root=single_root)
    assert mixed.equal(found[order])
    alone = total(torch.from_numpy(scores[2:3, :4, :4]), lengths[2:3], single_root=single_root)
    assert alone.equal(found[2:3] if found.dim() == 1 else found[2:3, :4, :4])
    leaf = torch.from_numpy(wide).requires_grad_()
    total(leaf, lengths, single_root=single_root).sum().backward()
    assert leaf.grad.isfinite().all()


@every_root
@pytest.mark.parametrize("scale", [1.0, 30.0, 1e3, 1e6])
def test_marginals_are_probabilities(single_root, scale):
    lengths = torch.tensor([14, 9, 1, 2, 14])
    arcs = torch.from_numpy(random_scores(np.random.default_rng(12), 5, 14, scale, 0.1))
    arcs[:, 0] = 0.0
    marginals = matrix_tree_marginals(arcs, lengths, single_root=single_root)
    assert ((marginals >= 0) & (marginals <= 1)).all()
    is_word = (torch.arange(15) > 0) & (torch.arange(15) <= lengths[:, None])
    torch.testing.assert_close(marginals.sum(1), is_word.double(), rtol=0, atol=1e-8)
    assert (marginals[arcs == -torch.inf] == 0).all()
    if single_root:
        of_root = marginals[:, 0].sum(1)
        torch.testing.assert_close(of_root, torch.ones(5).double(), rtol=0, atol=1e-8)


@every_root
def test_a_constant_added_to_one_column_changes_the_log_partition_alone(single_root):
    arcs = torch.from_numpy(random_scores(np.random.default_rng(13), 4, 6))
    lengths, moved = torch.full((4,), 6), arcs.clone()
    moved[:, :, 3] += 1000.0
    before, after = (
        [total(a, lengths, single_root=single_root) for total in SUMS] for a in (arcs, moved)
    )
    torch.testing.assert_close(after[0], before[0] + 1000.0, rtol=1e-13, atol=0)
    torch.testing.assert_close(after[1], before[1], rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(after[2], before[2], rtol=1e-9, atol=1e-12)


@pytest.mark.filterwarnings("ignore:.*arg_constraints")
@pytest.mark.parametrize("single_root", [False, True], ids=["multi", "single"])
def test_torch_structs_bias_is_not_ours(single_root):
    """All scores equal: every tree counts the same, and torch-struct's answer depends on them."""
    lengths = torch.tensor([4])
    count = len(all_trees(4, False, single_root))
    for score in (0.0, -15.0, 15.0, -1e6, 1e6):
        arcs = torch.full((1, 5, 5), score)
        total = matrix_tree_log_partition(arcs, lengths, single_root=single_root)
        assert total.item() == pytest.approx(4 * score + np.log(count), rel=1e-14)
        entropy = matrix_tree_entropy(arcs, lengths, single_root=single_root)
        assert entropy.item() == pytest.approx(np.log(count), rel=1e-13)
    peer = pytest.importorskip("torch_struct", reason="torch-struct is not installed")
    theirs = peer.NonProjectiveDependencyCRF(
        torch.full((1, 4, 4), -15.0).requires_grad_(), lengths, multiroot=not single_root
    )
    assert abs(theirs.partition.item() - (4 * -15.0 + np.log(count))) > 1.0


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


def test_thread_counts_change_nothing(monkeypatch):
    monkeypatch.setattr(engines, "WORTH_A_THREAD", 1)
    arcs = torch.from_numpy(random_scores(np.random.default_rng(14), 40, 40))
    lengths = torch.from_numpy(np.random.default_rng(15).integers(0, 41, 40))
    before, results = torch.get_num_threads(), []
    try:
        for n_threads in (1, 2):
            torch.set_num_threads(n_threads)
            generator = torch.Generator().manual_seed(1)
            found = matrix_tree_sample(arcs, lengths, 3, generator)
            results.append([*(total(arcs, lengths) for total in SUMS), found])
    finally:
        torch.set_num_threads(before)
    assert all(a.equal(b) for a, b in zip(*results, strict=True))


@every_root
@pytest.mark.parametrize(
    ("scale", "forbidden", "shift"), [(1.0, 0.0, 0.0), (1.0, 0.35, 0.0), (1.5, 0.0, 1e6)]
)
def test_samples_have_the_probabilities_of_enumeration(single_root, scale, forbidden, shift):
    """Pearson's chi-square over all 125 (multi) or 64 (single) trees of four words.

    A shift makes the words' cycles outweigh all trees, where walks that erase loops never end.
    """
    rng, n, n_samples = np.random.default_rng(16), 4, 40_000
    trees = all_trees(n, False, single_root)
    base = (n + 1) ** np.arange(n)
    for _ in range(4):
        scores = random_scores(rng, 1, n, scale, forbidden)
        scores[0, 1:] += shift
        values = tree_values(scores, trees)[0]
        if values.max() == -np.inf:
            continue
        probabilities = np.exp(values - values.max())
        probabilities /= probabilities.sum()
        drawn = matrix_tree_sample(
            torch.from_numpy(scores), torch.tensor([n]), n_samples,
            torch.Generator().manual_seed(3), single_root=single_root,
        )  # fmt: skip
        codes, counts = np.unique(drawn[0, :, 1:].numpy() @ base, return_counts=True)
        of_code = dict(zip(codes.tolist(), counts.tolist(), strict=True))
        observed = np.array([of_code.pop(code, 0) for code in (trees[:, 1:] @ base).tolist()])
        assert of_code == {}
        assert (observed[probabilities == 0] == 0).all()
        expected = probabilities * n_samples
        often = expected > 5
        rare = [observed[~often].sum()], [expected[~often].sum()]
        seen, wanted = np.append(observed[often], rare[0]), np.append(expected[often], rare[1])
        seen, wanted = seen[wanted > 1e-6], wanted[wanted > 1e-6]
        statistic, freedom = ((seen - wanted) ** 2 / wanted).sum(), len(seen) - 1
        assert statistic < freedom + 5 * np.sqrt(2 * freedom) + 5


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


@every_root
def test_samples_depend_on_seed_place_and_scores_alone(single_root):
    arcs = torch.from_numpy(random_scores(np.random.default_rng(18), 3, 9))
    lengths = torch.tensor([9, 4, 7])

    def draw(scores, words, n_samples):
        generator = torch.Generator().manual_seed(5)
        return matrix_tree_sample(scores, words, n_samples, generator, single_root=single_root)

    first = draw(arcs, lengths, 50)
    assert first.dtype == torch.int64
    assert draw(arcs, lengths, 50).equal(first)
    assert draw(arcs, lengths, 20).equal(first[:, :20])
    assert draw(arcs[:2], lengths[:2], 50).equal(first[:2])
    others = arcs.clone()
    others[0], others[2] = 0.0, 1.0
    assert draw(others, torch.tensor([2, 4, 5]), 50)[1].equal(first[1])
    wide = torch.full((3, 12, 12), torch.nan, dtype=torch.float64)
    wide[:, :10, :10] = arcs
    assert draw(wide, lengths, 50)[:, :, :10].equal(first)
    assert draw(arcs, lengths, 0).shape == (3, 0, 10)
    assert any(not a.equal(b) for a, b in pairwise(first[0]))
    other = matrix_tree_sample(arcs, lengths, 50, torch.Generator().manual_seed(6))
    assert not other.equal(first)
    torch.manual_seed(7)
    by_default = matrix_tree_sample(arcs, lengths, 50)
    torch.manual_seed(7)
    assert matrix_tree_sample(arcs, lengths, 50).equal(by_default)


def test_errors():
    arcs, lengths = torch.zeros(2, 3, 3), torch.tensor([2, 2])
    with pytest.raises(ScoreError, match="n_samples is -1"):
        matrix_tree_sample(arcs, lengths, -1)
    for total in [*SUMS, lambda *a, **k: matrix_tree_sample(*a, 1, **k)]:
        with pytest.raises(ScoreError, match="length 3"):
            total(arcs, torch.tensor([2, 3]))
        far = arcs.double()
        far[1, 0, 1] = -1e101
        with pytest.raises(ScoreError, match="too far"):
            total(far, lengths)
        cut_off = arcs.clone()
        cut_off[1, :, 2] = -torch.inf
        with pytest.raises(NoTreeError, match="sentence 1"):
            total(cut_off, lengths)
        two_roots = arcs.clone()
        two_roots[1, 1, 2] = two_roots[1, 2, 1] = -torch.inf
        total(two_roots, lengths, single_root=False)
        with pytest.raises(NoTreeError, match="sentence 1"):
            total(two_roots, lengths, single_root=True)


@every_sum
def test_no_sentences_and_no_words(total):
    assert total(torch.zeros(0, 4, 4), torch.zeros(0, dtype=torch.int64)).numel() == 0
    empty = total(torch.full((2, 1, 1), torch.nan), torch.tensor([0, 0]))
    assert (empty == 0).all()


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


@pytest.mark.parametrize("engine", ["native", "torch"])
def test_both_engines_have_every_sum(engine):
    arcs = torch.from_numpy(random_scores(np.random.default_rng(20), 4, 6))
    for total in SUMS:
        found = total(arcs, [6, 3, 0, 5], engine=engine)
        torch.testing.assert_close(found, total(arcs, torch.tensor([6, 3, 0, 5])))
