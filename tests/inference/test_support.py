"""Which trees a distribution has: forms against enumeration, losses of other gold trees."""

from itertools import product

import numpy as np
import pytest
import torch

from gpuparse.errors import ConfigError, ScoreError
from gpuparse.inference import (
    NonProjectiveTrees,
    ProjectiveTrees,
    conditional_loss,
    hinge_loss,
    local_loss,
    projectivise,
    risk_loss,
    support,
)
from gpuparse.inference.nearest_trees import nearest_projective
from gpuparse.inference.support import TreeKind
from tests.oracles.brute_force import all_trees

every_kind = pytest.mark.parametrize("kind", [ProjectiveTrees, NonProjectiveTrees])
every_root = pytest.mark.parametrize("single_root", [False, True], ids=["multi", "single"])
every_loss = pytest.mark.parametrize("loss_of", [conditional_loss, hinge_loss])
CROSSING = [-1, 3, 0, 2, 1]  # 0 -> 2 and 3 -> 1
NEAREST = [-1, 2, 0, 2, 3]


def every_row(n):
    """All heads of n words, out of range on both sides too, as (B, n + 2) with one of padding."""
    rows = [[-1, *heads, 99] for heads in product(range(-2, n + 2), repeat=n)]
    return torch.tensor(rows)


@every_kind
@every_root
@pytest.mark.parametrize("n", [0, 1, 2, 3])
def test_all_forms_find_the_trees_that_are_enumerated(kind, single_root, n):
    rows = every_row(n)
    is_projective = kind is ProjectiveTrees
    of_kind = {tuple(t[1:]) for t in all_trees(n, is_projective, single_root and n > 0).tolist()}
    expected = [tuple(row[1 : n + 1]) not in of_kind for row in rows.tolist()]
    lengths = torch.full((len(rows),), n)
    trees = TreeKind(lengths, is_projective=is_projective, single_root=single_root)
    assert trees.find_wrong(rows).tolist() == expected
    assert trees.find_wrong(rows[:, None].expand(-1, 2, -1).contiguous()).tolist() == [
        [each, each] for each in expected
    ]
    in_torch = support._find_wrong(rows[:, None], trees, is_partial=False)[:, 0]
    assert in_torch.tolist() == expected
    known = [[(m, h) for m, h in enumerate(row[1 : n + 1]) if h != -1] for row in rows.tolist()]
    expected = [not any(all(tree[m] == h for m, h in row) for tree in of_kind) for row in known]
    assert trees.find_wrong(rows, is_partial=True).tolist() == expected
    if not is_projective:
        in_torch = support._find_wrong(rows[:, None], trees, is_partial=True)[:, 0]
        assert in_torch.tolist() == expected


@every_root
def test_other_trees_have_no_probability(single_root):
    for kind, n in product((ProjectiveTrees, NonProjectiveTrees), (1, 2, 3)):
        scores = torch.randn(1, n + 1, n + 1, dtype=torch.float64)
        trees = kind(scores, single_root=single_root)
        of_kind = all_trees(n, kind is ProjectiveTrees, single_root)[:, 1:].tolist()
        total = 0.0
        for heads in product(range(n + 1), repeat=n):
            given = torch.tensor([[-1, *heads]])
            if list(heads) in of_kind:
                total += trees.log_prob(given).exp().item()
                continue
            with pytest.raises(ScoreError, match="sentence 0: "):
                trees.log_prob(given)
        assert total == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("made", "gold", "said"),
    [
        (ProjectiveTrees, CROSSING, "word 1 has an arc that crosses another one: its head is 3"),
        (NonProjectiveTrees, [-1, 2, 1, 0], "word 1 is on a cycle: its head is 2"),
        (NonProjectiveTrees, [-1, 0, 0, 2], "several words are attached to the root; expected tr"),
        (NonProjectiveTrees, [-1, 4, 0, 2], "a head beyond the words of the sentence: its head is"),
        (NonProjectiveTrees, [-1, -2, 0, 2], "word 1 has a head below 0: its head is -2"),
        (NonProjectiveTrees, [-1, 1, 0, 2], "word 1 is its own head"),
    ],
)
@every_loss
def test_losses_of_impossible_trees_are_errors(made, gold, said, loss_of):
    scores = torch.zeros(1, len(gold), len(gold), dtype=torch.float64)
    trees = made(scores, single_root=True)
    heads = torch.tensor([gold])
    works = [lambda: loss_of(trees, heads), lambda: trees.log_prob(heads)]
    works += [lambda: trees.score_of(heads), lambda: trees.score_of(heads[:, None])]
    for is_loss, work in zip((True, False, False, False), works, strict=True):
        with pytest.raises(ScoreError, match=r"sentence 0[^:]*: .*") as caught:
            work()
        assert said in str(caught.value)
        assert ('unreachable="skip"' in str(caught.value)) == is_loss
        can_be_replaced = is_loss and "crosses" in said
        assert ('unreachable="projectivise"' in str(caught.value)) == can_be_replaced


def test_a_tree_of_another_length_is_an_error():
    trees = NonProjectiveTrees(torch.zeros(2, 5, 5), lengths=[4, 2])
    with pytest.raises(ScoreError, match="sentence 1: word 1 has a head beyond the words"):
        trees.score_of(torch.tensor([[-1, 0, 1, 1, 1], [-1, 3, 0, 1, 1]]))


@every_loss
@every_root
def test_what_cannot_be_reached_is_skipped_or_replaced(loss_of, single_root):
    torch.manual_seed(1)
    gold = torch.tensor([CROSSING, [-1, 0, 1, 1, 3], CROSSING])
    scores = torch.randn(3, 5, 5, dtype=torch.float64, requires_grad=True)
    trees = ProjectiveTrees(scores, single_root=single_root)
    one = loss_of(ProjectiveTrees(scores[1:2], single_root=single_root), gold[1:2])
    skipped = loss_of(trees, gold, unreachable="skip")
    assert skipped.tolist() == [0.0, one.item(), 0.0]
    (gradient,) = torch.autograd.grad(skipped.sum(), scores)
    assert not gradient[0].any()
    assert not gradient[2].any()
    assert gradient.isfinite().all()
    replaced = loss_of(trees, gold, unreachable="projectivise")
    nearest = projectivise(gold, single_root=single_root)
    assert torch.equal(replaced, loss_of(trees, nearest))
    assert nearest[:2].tolist() == [NEAREST, gold[1].tolist()]
    with pytest.raises(ConfigError, match="unreachable: expected error, skip, projectivise"):
        loss_of(trees, gold, unreachable="none")


@every_loss
@every_root
def test_known_heads_that_fit_no_tree_are_skipped_or_left_out(loss_of, single_root):
    crossing, fitting = [-1, 3, -1, 2, 1], [-1, -1, 1, 1, -1]  # 2 -> 3 -> 1: no head of 2 is left
    gold = torch.tensor([crossing, fitting, crossing])
    scores = torch.randn(3, 5, 5, dtype=torch.float64)
    trees = ProjectiveTrees(scores, single_root=single_root)
    for work in (lambda: loss_of(trees, gold), lambda: trees.constrained(gold)):
        with pytest.raises(ScoreError, match=r"sentence 0: word \d has an arc that no tree has"):
            work()
    skipped = loss_of(trees, gold, unreachable="skip")
    alone = loss_of(trees[1:2], gold[1:2])
    assert skipped.tolist() == [0.0, alone.item(), 0.0]
    kept = projectivise(gold, single_root=single_root)
    assert kept[1].equal(gold[1])
    assert ((kept == gold) | (kept == -1)).all()
    assert (kept[0] != gold[0]).sum() == 1
    assert loss_of(trees, gold, unreachable="projectivise").equal(loss_of(trees, kept))


def test_skipping_forbidden_arcs_gives_no_nan():
    scores = torch.randn(1, 5, 5, dtype=torch.float64)
    scores[0, 0, 1] = -torch.inf  # of the chain of words
    scores.requires_grad_()
    loss = conditional_loss(ProjectiveTrees(scores), torch.tensor([CROSSING]), unreachable="skip")
    (gradient,) = torch.autograd.grad(loss.sum(), scores)
    assert loss.tolist() == [0.0]
    assert gradient.nan_to_num(7.0).abs().sum() == 0


def test_heads_that_are_not_known_are_no_fault():
    trees = ProjectiveTrees(torch.randn(1, 5, 5, dtype=torch.float64))
    partial = torch.tensor([[-1, 2, 0, -1, -1]])
    for loss_of in (conditional_loss, hinge_loss, local_loss, risk_loss):
        assert loss_of(trees, partial).item() >= 0
        with pytest.raises(ScoreError, match="word 1 is on a cycle"):
            loss_of(trees, torch.tensor([[-1, 2, 1, -1, -1]]))


@pytest.mark.parametrize("single_root", [False, True])
def test_projectivise_is_the_form_of_training(single_root):
    generator = torch.Generator().manual_seed(2)
    lengths = torch.tensor([7, 3, 0, 6])
    scores = torch.randn(4, 8, 8, generator=generator)
    heads = NonProjectiveTrees(scores, lengths, single_root=single_root).best().heads
    found = projectivise(heads, lengths, single_root=single_root)
    assert found.dtype == torch.int64
    for b, n in enumerate(lengths.tolist()):
        alone = nearest_projective(heads[b, 1 : n + 1].numpy(), single_root=single_root)
        assert found[b].tolist() == [-1, *alone.tolist(), *[-1] * (7 - n)]
    assert torch.equal(projectivise(found, lengths, single_root=single_root), found)
    with pytest.raises(ScoreError, match="sentence 0: word 1 is on a cycle"):
        projectivise(torch.tensor([[-1, 2, 1]]))
    with pytest.raises(ScoreError, match=r"heads has shape \(3,\), expected \(B, N\)"):
        projectivise(torch.tensor([-1, 0, 1]))


@pytest.mark.parametrize(
    ("heads", "said"),
    [
        (torch.zeros(2, 4), "heads has type torch.float32, expected integers"),
        (torch.zeros(2, 3, dtype=torch.int64), r"heads has shape \(2, 3\), expected \(2, 4\)"),
        (torch.zeros(1, 4, dtype=torch.int64), r"heads has shape \(1, 4\), expected \(2, 4\)"),
        ([[0, 1]], "heads is a list, expected a torch.Tensor"),
        (np.zeros((2, 4), np.int64), r"expected a torch.Tensor: torch.from_numpy\(heads\)"),
    ],
)
def test_heads_of_a_wrong_kind_are_told(heads, said):
    trees = NonProjectiveTrees(torch.zeros(2, 4, 4))
    for work in (
        lambda: conditional_loss(trees, heads), lambda: hinge_loss(trees, heads),
        lambda: local_loss(trees, heads), lambda: risk_loss(trees, heads),
        lambda: trees.log_prob(heads), lambda: trees.score_of(heads),
    ):  # fmt: skip
        with pytest.raises(ScoreError, match=said):
            work()


def test_a_mask_is_as_good_as_lengths():
    scores = torch.randn(3, 5, 5, dtype=torch.float64)
    mask = torch.tensor([[0, 1, 1, 1, 1], [1, 1, 1, 0, 0], [0, 0, 0, 0, 0]]).bool()
    by_mask, by_lengths = (
        NonProjectiveTrees(scores, mask=mask),
        NonProjectiveTrees(scores, [4, 2, 0]),
    )
    assert by_mask.lengths.tolist() == [4, 2, 0]
    assert torch.equal(by_mask.log_partition, by_lengths.log_partition)
    for wrong, said in (
        ({"mask": mask, "lengths": [4, 2, 0]}, "lengths and mask are given"),
        ({"mask": mask.flip(1)}, "mask: sentence 1: expected the first words of each sentence"),
        ({"mask": mask[:, 1:]}, r"mask has shape \(3, 4\) and type torch.bool, expected \(3, 5\)"),
        ({"mask": mask.long()}, "type torch.int64"),
        ({"lengths": mask}, "or a mask of words as mask="),
    ):  # fmt: skip
        with pytest.raises(ScoreError, match=said):
            NonProjectiveTrees(scores, **wrong)
