"""The scores of trees: by hand, and where there is nothing to count."""

from itertools import pairwise

import pytest

from gpuparse.data.conll import treebank_from_bytes
from gpuparse.evaluation.metrics import ArcCounts, Share, score_treebanks

NAMES = ["root", "nsubj", "nsubj:pass", "obj", "<subj:pobj>", "<subj:dobj>"]


def bank(starts, heads, labels):
    text = ""
    for first, end in pairwise(starts):
        for w in range(first, end):
            text += f"{w - first + 1}\ta\t_\t_\t_\t_\t{heads[w]}\t{NAMES[labels[w]]}\t_\t_\n"
        text += "\n"
    return treebank_from_bytes(text.encode(), "a.conllu")


def scores(starts, gold, system, gold_labels, system_labels, ignored=None):
    files = bank(starts, gold, gold_labels), bank(starts, system, system_labels)
    before = [(file.data.tobytes(), file.heads.tolist()) for file in files]
    found = score_treebanks(*files, ignored=ignored)
    assert [(file.data.tobytes(), file.heads.tolist()) for file in files] == before
    return found


def test_two_sentences_by_hand():
    # Sentence 1: word 3's head is wrong. Sentence 2: all heads right, one relation wrong.
    result = scores([0, 3, 5], [2, 0, 2, 2, 0], [2, 0, 1, 2, 0], [1, 0, 3, 2, 0], [1, 0, 3, 1, 0])
    assert result.uas == Share(4, 5)
    assert result.las == Share(4, 5)  # nsubj:pass and nsubj are one relation to the script
    assert result.las_full == Share(3, 5)
    assert result.label_accuracy == Share(4, 5)
    assert result.complete == Share(1, 2)
    assert result.complete_labelled == Share(0, 2)
    assert result.root == ArcCounts(2, 2, 2, 2)
    assert result.relations == {
        "root": ArcCounts(2, 2, 2, 2),
        "nsubj": ArcCounts(1, 2, 1, 1),
        "nsubj:pass": ArcCounts(1, 0, 0, 0),
        "obj": ArcCounts(1, 1, 0, 0),
    }
    assert list(result.relations) == ["root", "nsubj", "nsubj:pass", "obj"]


def test_an_arc_found_in_a_projective_tree_counts_for_recall_alone():
    # Gold 4 -> 2 is non-projective because 3 hangs from 1; in the system's tree 3 hangs from 4.
    result = scores([0, 4], [0, 4, 1, 1], [0, 4, 4, 1], [0] * 4, [0] * 4).nonprojective
    assert result == ArcCounts(gold=1, system=0, found=1, right=0)
    assert (result.recall, result.precision, result.f) == (100.0, None, 0.0)


def test_nothing_to_count_has_no_percentage():
    result = scores([0], [], [], [], [])
    assert result.uas.percent is None
    assert result.root.f is None
    assert result.nonprojective.precision is None
    assert result.relations == {}


def test_f_is_the_harmonic_mean():
    counts = ArcCounts(gold=10, system=4, found=5, right=3)
    assert counts.f == pytest.approx(2 * 75.0 * 50.0 / (75.0 + 50.0))
    assert ArcCounts(3, 5, 2, 2).f == 50.0
