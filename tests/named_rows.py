"""Names of features, as the oracles give them, and the weight rows where a model keeps them."""

from collections import Counter, defaultdict
from collections.abc import Hashable, Mapping

from gpuparse.data.batch import Batch
from gpuparse.model.parser import Parser
from gpuparse.scorers.linear.weights import label_map
from tests.rows import rows_of_arcs, rows_of_ends, rows_of_siblings, wide_map

Part = tuple
Named = Mapping[Part, Counter]  # the features of every part of a sentence
Rows = Mapping[Part, list[int]]


def rows_of_names(named: list[Named], exact: list[Rows], found: list[Rows]) -> dict[Hashable, int]:
    """Name of a feature -> row in `found`.

    Names are paired with the rows of a map without collisions, `exact`, that they share all their
    parts with, and those stand in the order of `found`.
    """
    parts_of_row, parts_of_name = defaultdict(Counter), defaultdict(Counter)
    row_in_found: dict[int, int] = {}
    for b, (names, ours, theirs) in enumerate(zip(named, exact, found, strict=True)):
        for part, rows in ours.items():
            row_in_found.update(zip(rows, theirs[part], strict=True))
            for row in rows:
                parts_of_row[row][b, part] += 1
            for name, times in names[part].items():
                parts_of_name[name][b, part] += times
    free = defaultdict(list)
    for row, parts in parts_of_row.items():
        free[frozenset(parts.items())].append(row_in_found[row])
    rows = {name: free[frozenset(parts.items())].pop() for name, parts in parts_of_name.items()}
    assert not any(free.values())
    return rows


def rows_of_trees(model: Parser, batch: Batch, named: list[Named]) -> dict[Hashable, int]:
    """The rows of arc and guide features, and of sibling and end features if there are any."""
    plan, exact = model.linear.plan, wide_map(model.linear.plan)
    ours, theirs = [], []
    for b in range(len(batch)):
        for features, rows in ((exact, ours), (model.linear.features, theirs)):
            found: dict[Part, list[int]] = dict(rows_of_arcs(batch, b, plan, features))
            if plan.siblings:
                found |= rows_of_siblings(batch, b, plan, features)
                found |= rows_of_ends(batch, b, plan, features)
            rows.append(found)
    return rows_of_names(named, ours, theirs)


def lines_of_labels(model: Parser, batch: Batch, named: list[Named]) -> dict[Hashable, int]:
    """The lines of label features, of labels that are found with the trees."""
    assert model.linear.joint_plan is not None
    assert model.linear.label_weights is not None
    exact = wide_map(model.linear.joint_plan)
    hashed = label_map(len(model.linear.label_weights.array))
    ours, theirs = (
        [rows_of_arcs(batch, b, model.linear.joint_plan, features) for b in range(len(batch))]
        for features in (exact, hashed)
    )
    return rows_of_names(named, ours, theirs)
