"""Tags and features of sequences by their definition."""

import random
import re
from itertools import pairwise

import numpy as np

from gpuparse.text.sequences.tags import TagTable
from gpuparse.text.sequences.templates import MARGIN, parse_sequence_templates


def drawn_tags(draw: random.Random) -> dict[tuple[str, ...], int]:
    size = draw.choice([1, 2])
    last = ("_", "A=1", "A=2", "A=1|B=1", "A=2|B=1|C=x", "B=2\tC=y")
    return {
        (*(draw.choice("NVD") for _ in range(size - 1)), draw.choice(last)): draw.randrange(1, 9)
        for _ in range(draw.randrange(1, 12))
    }


def names_of(tag: tuple[str, ...], attributes: bool) -> set[str]:
    """The parts of a tag: its beginnings, and its attributes with its first text."""
    parts = {"\t".join(tag[: size + 1]) for size in range(len(tag))}
    if attributes:
        parts |= {f"{tag[0]}\n{each}" for each in re.split(r"[|\t]", tag[-1]) if each != "_"}
    return parts


def test_tags_share_the_parts_that_their_names_share():
    draw = random.Random(1)
    for _ in range(200):
        counts, attributes = drawn_tags(draw), draw.random() < 0.5
        table = TagTable.of_counts(counts, attributes=attributes)
        assert sorted(table.tags) == sorted(counts)
        assert table.is_sorted()
        assert [table.numbers[tag] for tag in table.tags] == list(range(len(table)))
        starts = table.tag_starts.tolist()
        parts = [set(table.tag_parts[a:b].tolist()) for a, b in pairwise(starts)]
        names = [names_of(tag, attributes) for tag in table.tags]
        for i in range(len(table)):
            assert len(parts[i]) == len(names[i]) == starts[i + 1] - starts[i]
            for j in range(i):
                assert len(parts[i] & parts[j]) == len(names[i] & names[j])
        classes = table.coarse_starts.tolist()
        assert classes[-1] == len(table)
        of_classes = [{tag[0] for tag in table.tags[a:b]} for a, b in pairwise(classes)]
        assert all(len(each) == 1 for each in of_classes)
        assert len(set.union(*of_classes)) == len(of_classes)


def test_the_order_of_tags_depends_on_their_counts_alone():
    draw = random.Random(2)
    for _ in range(50):
        items = list(drawn_tags(draw).items())
        table = TagTable.of_counts(dict(items), attributes=True)
        draw.shuffle(items)
        assert TagTable.of_counts(dict(items), attributes=True) == table


def test_features_are_equal_where_what_their_template_reads_is_equal():
    read = parse_sequence_templates(
        "name: t\ntemplates: [bias, w.a, w-1.a, w.a w+2.b, w-1.a w.a w+1.a]", "t", "ab".__contains__
    )
    random_numbers = np.random.default_rng(3)
    values = random_numbers.integers(0, 4, (2, 300 + 2 * MARGIN), dtype=np.uint32)
    row = {field: number for number, field in enumerate(read.fields)}
    places = np.arange(MARGIN, 300 + MARGIN)
    found = read.features(values, places)
    assert found.shape == (300, 5)
    for k, atoms in enumerate(read.atoms):
        seen = [tuple(int(values[row[f], place + at]) for f, at in atoms) for place in places]
        for of_word, feature in zip(seen, found[:, k].tolist(), strict=True):
            assert (feature == 0) == (0 in of_word)
        present = [(each, f) for each, f in zip(seen, found[:, k].tolist(), strict=True) if f]
        assert len(set(present)) == len({each for each, _ in present})  # equal values, one feature
        assert len(set(present)) == len({feature for _, feature in present})  # and no other has it
    numbers = [set(column.tolist()) - {0} for column in found.T]
    assert len(set.union(*numbers)) == sum(map(len, numbers))  # no two templates share a feature
