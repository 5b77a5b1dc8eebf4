"""The scores over arrays: by hand, and where there is nothing to count."""

import numpy as np
import pytest

from gpuparse.evaluation.metrics import ArcCounts, Share, score_trees

NAMES = ["root", "nsubj", "nsubj:pass", "obj", "<subj:pobj>", "<subj:dobj>"]


def scores(starts, gold, system, gold_labels, system_labels, scored=None):
    return score_trees(
        np.array(starts, np.int64),
        np.array(gold, np.int32),
        np.array(system, np.int32),
        np.array(gold_labels, np.int32),
        np.array(system_labels, np.int32),
        NAMES,
        scored,
    )


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


def test_danish_relations_are_cut_at_their_first_colon_for_las_alone():
    result = scores([0, 2], [0, 1], [0, 1], [0, 4], [0, 5])
    assert result.las.percent == 100.0
    assert result.las_full.percent == 50.0
    assert result.label_accuracy.percent == 50.0


def test_several_roots_are_scored_as_sets():
    result = scores([0, 3], [0, 0, 2], [0, 1, 0], [0] * 3, [0] * 3)
    assert result.root == ArcCounts(gold=2, system=2, found=1, right=1)
    assert result.root.f == 50.0


def test_nonprojective_arcs_by_hand():
    # Gold: 4 -> 2 passes over 3, which hangs from 1. The system attaches 2 elsewhere and 3 to 1.
    gold, system = [0, 4, 1, 1], [0, 1, 4, 1]
    assert scores([0, 4], gold, gold, [0] * 4, [0] * 4).nonprojective == ArcCounts(1, 1, 1, 1)
    assert scores([0, 4], gold, system, [0] * 4, [0] * 4).nonprojective == ArcCounts(1, 0, 0, 0)


def test_an_arc_found_in_a_projective_tree_counts_for_recall_alone():
    # Gold 4 -> 2 is non-projective because 3 hangs from 1; in the system's tree 3 hangs from 4.
    result = scores([0, 4], [0, 4, 1, 1], [0, 4, 4, 1], [0] * 4, [0] * 4).nonprojective
    assert result == ArcCounts(gold=1, system=0, found=1, right=0)
    assert (result.recall, result.precision, result.f) == (100.0, None, 0.0)


def test_words_left_out_count_nowhere():
    scored = np.array([True, True, False, False])
    # Sentence 2 has no scored word: it is no sentence of the measure.
    result = scores([0, 3, 4], [2, 0, 2, 0], [2, 0, 1, 0], [1, 0, 3, 0], [1, 0, 1, 0], scored)
    assert result.uas == Share(2, 2)
    assert result.complete == Share(1, 1)
    assert result.root == ArcCounts(1, 1, 1, 1)
    assert set(result.relations) == {"root", "nsubj"}


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


def test_arrays_of_different_lengths_are_refused():
    with pytest.raises(ValueError, match="one entry per word"):
        scores([0, 2], [0, 1], [0], [0, 0], [0, 0])


def test_inputs_are_unchanged():
    arrays = [np.array(a, np.int32) for a in ([0, 4, 1, 1], [0, 1, 1, 1], [0, 1, 2, 3], [0] * 4)]
    before = [a.copy() for a in arrays]
    score_trees(np.array([0, 4]), *arrays, NAMES, np.array([True, False, True, True]))
    for array, copy in zip(arrays, before, strict=True):
        np.testing.assert_array_equal(array, copy)
