"""Groups of words and their errors, against a count of one word after the other."""

from collections import Counter

import numpy as np
import pytest

from gpuparse.data.conll import treebank_from_bytes
from gpuparse.data.trees import is_projective, nonprojective_arcs
from gpuparse.errors import DataError
from gpuparse.evaluation.errors import find_errors
from gpuparse.evaluation.metrics import ArcCounts, score_treebanks
from tests.synthetic import generate

GOLD = treebank_from_bytes(generate(80, 5), "gold")


def damaged(seed: int):
    """The gold trees with other heads and relations of some words, as trees."""
    draw = np.random.default_rng(seed)
    lines = []
    for sentence in GOLD:
        heads, labels = sentence.heads, list(sentence.labels)
        n = len(heads)
        for _ in range(draw.integers(0, 4)):
            m, h = int(draw.integers(1, n + 1)), int(draw.integers(0, n + 1))
            others = [*heads]
            others[m - 1] = h
            if h != m and all(depth(others, w) for w in range(1, n + 1)):
                heads = others
            labels[int(draw.integers(n))] = str(draw.choice(["obj", "obl:more", "nsubj:pass"]))
        for w, (form, upos) in enumerate(zip(sentence.forms, sentence.cpos, strict=True)):
            lines.append(f"{w + 1}\t{form}\t_\t{upos}\t_\t_\t{heads[w]}\t{labels[w]}\t_\t_")
        lines.append("")
    return treebank_from_bytes("\n".join([*lines, ""]).encode(), "system")


def depth(heads: list[int], m: int) -> int:
    """Arcs from the root to a word; 0 in a cycle."""
    for arcs in range(1, len(heads) + 1):
        m = heads[m - 1]
        if m == 0:
            return arcs
    return 0


def name_of(number: int, bins: str) -> str:
    for name in bins.split():
        least, dash, most = name.partition("-")
        if int(least) <= number <= (int(most or 10**9) if dash else int(least)):
            return name
    raise AssertionError(number)


def words(treebank):
    """Each word's group by every kind, its head and its relation."""
    for s, sentence in enumerate(treebank):
        heads, labels = sentence.heads, sentence.labels
        crossing = nonprojective_arcs(heads)
        for w, (head, label) in enumerate(zip(heads, labels, strict=True)):
            length = "root" if head == 0 else name_of(abs(head - w - 1), "1 2 3 4 5 6-9 10-19 20-")
            yield (
                {
                    "relation": label,
                    "part of speech": GOLD[s].cpos[w],
                    "arc length": length,
                    "distance to the root": name_of(depth(heads, w + 1), "1 2 3 4 5 6 7-"),
                    "sentence length": name_of(len(heads), "1-10 11-20 21-30 31-40 41-50 51-"),
                    "arcs": "non-projective arcs" if crossing[w] else "projective arcs",
                    "sentences": "projective sentences"
                    if is_projective(GOLD[s].heads) else "non-projective sentences",
                },
                head,
                label,
            )  # fmt: skip


def counted(system, kind: str, keep) -> dict[str, tuple[ArcCounts, ArcCounts]]:
    counts: Counter = Counter()
    names = set()
    for w, (gold, found) in enumerate(zip(words(GOLD), words(system), strict=True)):
        if not keep[w]:
            continue
        head = gold[1] == found[1]
        cut = (lambda label: label) if kind == "relation" else (lambda label: label.split(":")[0])
        both = head and cut(gold[2]) == cut(found[2])
        for place, (groups, *_) in enumerate((gold, found)):
            names.add(groups[kind])
            counts[groups[kind], place] += 1
            counts[groups[kind], place, "head"] += head
            counts[groups[kind], place, "both"] += both
    return {
        name: tuple(
            ArcCounts(
                counts[name, 0], counts[name, 1], counts[name, 0, what], counts[name, 1, what]
            )
            for what in ("head", "both")
        )
        for name in names
    }


@pytest.mark.parametrize("seed", range(3))
def test_all_groups_are_those_of_counting(seed):
    system = damaged(seed)
    ignored = None if seed == 0 else np.arange(GOLD.n_words) % 3 == seed
    keep = np.ones(GOLD.n_words, bool) if ignored is None else ~ignored
    errors = find_errors(GOLD, system, ignored=ignored)
    for kind, groups in errors.groups.items():
        kinds = ["arcs", "sentences"] if kind == "projectivity" else [kind]
        expected = {}
        for each in kinds:
            expected |= counted(system, each, keep)
        assert {group.name: (group.heads, group.labelled) for group in groups} == expected
    wrong, pairs = Counter(), Counter()
    for w, ((_, head, label), (_, found, other)) in enumerate(
        zip(words(GOLD), words(system), strict=True)
    ):
        if keep[w]:
            s = int(np.searchsorted(GOLD.word_starts, w, side="right")) - 1
            wrong[s, "head"] += head != found
            wrong[s, "relation"] += head == found and label != other
            pairs[label, other] += 1
    assert errors.wrong_heads.tolist() == [wrong[s, "head"] for s in range(len(GOLD))]
    assert errors.wrong_relations.tolist() == [wrong[s, "relation"] for s in range(len(GOLD))]
    assert errors.wrong_heads.any()
    assert errors.wrong_relations.any()
    names = errors.relations
    found_pairs = {
        (names[i], names[j]): int(errors.confusions[i, j])
        for i, j in np.argwhere(errors.confusions)
    }
    assert found_pairs == {pair: count for pair, count in pairs.items() if count}


def test_they_agree_with_the_scores():
    system = damaged(4)
    scores, groups = score_treebanks(GOLD, system), find_errors(GOLD, system).groups
    relations = {group.name: group.labelled for group in groups["relation"]}
    assert relations == scores.relations
    assert list(relations) == list(scores.relations)
    crossing = next(g for g in groups["projectivity"] if g.name == "non-projective arcs")
    assert crossing.heads == scores.nonprojective
    for kind in ("part of speech", "arc length", "sentence length"):
        assert sum(group.heads.found for group in groups[kind]) == scores.uas.correct
        assert sum(group.labelled.found for group in groups[kind]) == scores.las.correct


def test_without_coarse_tags_fine_ones_group():
    text = b"1\ta\t_\t_\tX\t_\t0\troot\t_\t_\n2\tb\t_\t_\tY\t_\t1\tobj\t_\t_\n\n"
    treebank = treebank_from_bytes(text, "gold")
    groups = find_errors(treebank, treebank).groups["part of speech"]
    assert [(group.name, group.heads.gold) for group in groups] == [("X", 1), ("Y", 1)]


def test_no_words_and_other_words():
    nothing = treebank_from_bytes(b"", "gold")
    errors = find_errors(nothing, nothing)
    assert not any(errors.groups.values())
    with pytest.raises(DataError, match="ends before"):
        find_errors(GOLD, nothing)
