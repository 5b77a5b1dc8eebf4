"""Linear chains: enumeration, the textbook form, torch and native code."""

from itertools import product

import numpy as np
import pytest
import torch

from gpuparse.errors import NoTreeError, ScoreError
from gpuparse.inference import (
    chain_kbest,
    chain_log_partition,
    chain_marginals,
    chain_sample,
    chain_viterbi,
)

LENGTHS = [4, 1, 3, 2, 4]
BACKENDS = ("torch", "cpu")


def drawn(seed, k=3, *, second=False, shared=False, ties=False):
    """Scores of a batch, with forbidden parts and rubbish behind the ends."""
    generator = np.random.default_rng(seed)
    b, n = len(LENGTHS), max(LENGTHS)

    def scores(*shape):
        high = 2 if ties else 1000
        found = generator.integers(-high, high, shape).astype(float)
        found[generator.random(shape) < 0.1] = -np.inf
        return found

    unary = scores(b, n, k)
    unary[unary == -np.inf] = 0
    pairs = scores(k, k) if shared else scores(b, n - 1, k, k)
    triples = None
    if second:
        triples = scores(k, k, k) if shared else scores(b, n - 2, k, k, k)
    for row, length in enumerate(LENGTHS):
        unary[row, length:] = np.nan
        if not shared:
            pairs[row, length - 1 :] = np.nan
    tensors = [None if part is None else torch.tensor(part) for part in (unary, pairs, triples)]
    return {
        "unary": tensors[0], "pairs": tensors[1], "triples": tensors[2],
        "lengths": torch.tensor(LENGTHS),
    }  # fmt: skip


def enumerated(given, row):
    """All sequences of one chain with their scores, best first."""
    unary, pairs, triples = (given[name] for name in ("unary", "pairs", "triples"))
    n, k = int(given["lengths"][row]), unary.shape[2]
    found = []
    for tags in product(range(k), repeat=n):
        score = float(unary[row, 0, tags[0]])
        for t in range(1, n):
            pair = pairs if pairs.dim() == 2 else pairs[row, t - 1]
            step = float(unary[row, t, tags[t]]) + float(pair[tags[t - 1], tags[t]])
            if triples is not None and t > 1:
                triple = triples if triples.dim() == 3 else triples[row, t - 2]
                step += float(triple[tags[t - 2], tags[t - 1], tags[t]])
            score += step
        found.append((score, tags))
    return sorted(found, key=lambda way: (-way[0], way[1][::-1]))


def possible(given):
    return all(enumerated(given, row)[0][0] > -np.inf for row in range(len(LENGTHS)))


CASES = [
    (second, shared, ties) for second in (False, True) for shared in (False, True)
    for ties in (False, True)
]  # fmt: skip


@pytest.mark.parametrize(("second", "shared", "ties"), CASES)
@pytest.mark.parametrize("seed", range(4))
def test_all_forms_find_what_enumeration_finds(second, shared, ties, seed):
    given = drawn(seed, second=second, shared=shared, ties=ties)
    if not possible(given):
        pytest.skip("a chain without sequences; another test has such")
    lists = [enumerated(given, row) for row in range(len(LENGTHS))]
    k = 12
    tags, scores = chain_kbest(k=k, **given)
    for row, expected in enumerate(lists):
        expected = [way for way in expected if way[0] > -np.inf][:k]
        length = LENGTHS[row]
        assert scores[row, : len(expected)].tolist() == [score for score, _ in expected]
        assert [tuple(each[:length].tolist()) for each in tags[row, : len(expected)]] == [
            each for _, each in expected
        ]
        assert (tags[row, :, length:] == -1).all()
        assert (scores[row, len(expected) :] == -torch.inf).all()
        assert (tags[row, len(expected) :] == -1).all()
    for backend in BACKENDS:
        best, top = chain_viterbi(backend=backend, **given)
        assert best.tolist() == tags[:, 0].tolist()
        assert top.tolist() == scores[:, 0].tolist()
        if ties:
            sums = chain_log_partition(backend=backend, **given)
            marginals = chain_marginals(backend=backend, **given)
            for row, ways in enumerate(lists):
                values = np.array([score for score, _ in ways])
                assert float(sums[row]) == pytest.approx(np.logaddexp.reduce(values))
                shares = np.exp(values - np.logaddexp.reduce(values))
                expected_marginals = np.zeros(tuple(marginals.shape[1:]))
                for share, (_, each) in zip(shares, ways, strict=True):
                    expected_marginals[np.arange(len(each)), each] += share
                assert np.allclose(marginals[row].numpy(), expected_marginals, atol=1e-12)


@pytest.mark.parametrize("second", [False, True])
@pytest.mark.parametrize("is_shared", [False, True])
def test_gradients_are_probabilities_and_right(second, is_shared):
    generator = torch.Generator().manual_seed(1)

    def leaf(*shape):
        found = torch.randn(*shape, dtype=torch.float64, generator=generator)
        return found.requires_grad_()

    k, lengths = 2, torch.tensor([4, 2])
    unary = leaf(2, 4, k)
    pairs = leaf(k, k) if is_shared else leaf(2, 3, k, k)
    triples = leaf(k, k, k) if is_shared else leaf(2, 2, k, k, k)
    scores = (unary, pairs, triples) if second else (unary, pairs)

    def log_partition(u, p, *t, backend="auto"):
        return chain_log_partition(u, p, lengths, triples=t[0] if t else None, backend=backend)

    assert torch.autograd.gradcheck(log_partition, scores)
    assert torch.autograd.gradgradcheck(log_partition, scores)
    weights = torch.tensor([1.0, 0.5])
    found = [
        torch.autograd.grad((weights * log_partition(*scores, backend=backend)).sum(), scores)
        for backend in ("auto", "torch")
    ]
    for one, two in zip(*found, strict=True):
        assert torch.allclose(one, two, atol=1e-12)
    marginals = chain_marginals(*[part.detach() for part in scores[:2]], lengths,
                                triples=triples.detach() if second else None)  # fmt: skip
    assert torch.allclose(found[0][0], weights[:, None, None] * marginals)
    assert float(found[0][1].sum()) == pytest.approx(3 * 1 + 1 * 0.5)  # the pairs of each chain
    only = torch.autograd.grad(
        log_partition(unary, *[part.detach() for part in scores[1:]]).sum(), unary
    )
    assert float(only[0].sum()) == pytest.approx(6)

    def probabilities(u, p, *t):
        return chain_marginals(u, p, lengths, triples=t[0] if t else None)

    assert torch.autograd.gradcheck(probabilities, scores)


def test_a_forbidden_part_gives_no_nan():
    unary = torch.zeros(1, 3, 2, dtype=torch.float64, requires_grad=True)
    pairs = torch.tensor([[0.0, -torch.inf], [-torch.inf, 0.0]])
    chain_log_partition(unary, pairs).sum().backward()
    assert unary.grad is not None
    assert unary.grad.tolist() == [[[0.5, 0.5]] * 3]


@pytest.mark.parametrize("second", [False, True])
def test_samples_have_their_probabilities(second):
    given = drawn(3, k=2, second=second, shared=True, ties=True)
    n_samples = 4000
    samples = chain_sample(n_samples=n_samples, generator=torch.Generator().manual_seed(5), **given)
    again = chain_sample(n_samples=7, generator=torch.Generator().manual_seed(5), **given)
    assert samples[:, :7].tolist() == again.tolist()
    for row in range(len(LENGTHS)):
        ways = enumerated(given, row)
        values = np.array([score for score, _ in ways])
        shares = np.exp(values - np.logaddexp.reduce(values))
        drawn_tags = [tuple(each[: LENGTHS[row]].tolist()) for each in samples[row]]
        for share, (_, tags) in zip(shares, ways, strict=True):
            width = 5 * (share * (1 - share) / n_samples) ** 0.5 + 1e-9
            assert abs(drawn_tags.count(tags) / n_samples - share) <= width


def test_chains_without_sequences_and_wrong_scores_are_said():
    unary, pairs = torch.zeros(2, 3, 2), torch.full((2, 2), -torch.inf)
    for function in (chain_viterbi, chain_log_partition, chain_marginals):
        for backend in BACKENDS:
            with pytest.raises(NoTreeError, match="chain 1"):
                function(unary, pairs, torch.tensor([1, 2]), backend=backend)
    with pytest.raises(NoTreeError, match="chain 0"):
        chain_sample(unary, pairs, 2)
    with pytest.raises(NoTreeError, match="chain 0"):
        chain_kbest(unary, pairs, 2)
    good = torch.zeros(2, 2)
    for wrong in (
        lambda: chain_viterbi(unary[0], good), lambda: chain_viterbi(unary, torch.zeros(3, 3)),
        lambda: chain_viterbi(unary, good, torch.tensor([0, 1])),
        lambda: chain_viterbi(unary, good, torch.tensor([1.0, 1.0])),
        lambda: chain_viterbi(unary * torch.nan, good),
        lambda: chain_viterbi(unary, good + torch.inf),
        lambda: chain_viterbi(unary, good, triples=torch.zeros(2, 2)),
        lambda: chain_marginals(unary, good, backend="gpu"), lambda: chain_kbest(unary, good, 0),
        lambda: chain_viterbi(unary.bool(), good), lambda: chain_sample(unary, good, -1),
    ):  # fmt: skip
        with pytest.raises(ScoreError):
            wrong()


def test_inputs_are_never_written_and_empty_batches_work():
    given = drawn(1, second=True)
    kept = {name: part.clone() for name, part in given.items()}
    chain_viterbi(**given)
    chain_marginals(**given)
    for name, part in kept.items():
        assert torch.equal(given[name].nan_to_num(7.0), part.nan_to_num(7.0))
    for backend in BACKENDS:
        tags, scores = chain_viterbi(torch.zeros(0, 3, 2), torch.zeros(2, 2), backend=backend)
        assert tuple(tags.shape) == (0, 3)
        assert tuple(scores.shape) == (0,)
        leaf = torch.zeros(2, 2, requires_grad=True)
        chain_log_partition(torch.zeros(0, 3, 2), leaf, backend=backend).sum().backward()
        assert leaf.grad is not None
        assert not leaf.grad.any()
