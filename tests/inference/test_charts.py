"""The pages of the charts: each projective tree has one derivation, and the language is strict."""

from math import exp

import pytest

from gpuparse.inference.charts import eisner, eisner_sibling, grand_sibling, grandchild, tri_sibling
from gpuparse.inference.charts.rules import Chart
from gpuparse.inference.textbook.interpreter import heads_of, k_best, log_partition
from tests.oracles.brute_force import all_trees

PAGES = [eisner, eisner_sibling, grand_sibling, tri_sibling, grandchild]
NAMES = (
    "arc", "sib", "sibling", "end", "grandparent", "grand_sibling", "tri_sibling", "outermost",
    "inner_grandchild", "outer_grandchild",
)  # fmt: skip
ZEROS = {name: lambda *at: 0.0 for name in NAMES}
every_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.__name__.split(".")[-1])
every_root = pytest.mark.parametrize("single_root", [False, True], ids=["multi", "single"])


@every_page
@every_root
@pytest.mark.parametrize("n_labels", [1, 2])
def test_each_projective_tree_has_one_derivation(page, single_root, n_labels):
    for n in range(1, 6):
        trees = {tuple(tree) for tree in all_trees(n, True, single_root).tolist()}
        options = {"single_root": single_root, "sizes": {"L": n_labels}}
        count = len(trees) * (n_labels**n if page is grandchild else 1)
        assert exp(log_partition(page.CHART, ZEROS, n, **options)) == pytest.approx(count)
        if n < 5:
            found = k_best(page.CHART, ZEROS, n, None, **options)
            assert len(found) == count
            assert {tuple(heads_of(tree, n)) for tree in found} == trees


@every_page
def test_a_page_says_what_a_reader_needs(page):
    for word in ("Items:", "Paper:", "Scores", "Ties:"):
        assert word in page.__doc__


@pytest.mark.parametrize(
    "rule", ["A(i) = B(i", "A(i) = B(i) for i < r", "A(i) = B(r) for i < r > 0"]
)
def test_a_rule_that_cannot_be_read_is_refused(rule):
    with pytest.raises(ValueError, match="not a"):
        Chart(rule, trees="A(n)", single_root="A(n)")
