"""The generated treebank: the same on every machine, trees with one root, graphs without cycles."""

import hashlib
from pathlib import Path

import numpy as np
import pytest

from gpuparse.data.conll import check_trees, treebank_from_bytes
from gpuparse.data.folders import TOY
from gpuparse.data.graphs import acyclic, read_graphs
from gpuparse.data.trees import nonprojective_arcs
from gpuparse.text.conllu import text_pieces
from tests.synthetic import LONGEST, SHORTEST, generate

N = 3000
TEXT = generate(N, 1)


def test_it_is_the_same_on_every_machine():
    digest = hashlib.sha256(TEXT).hexdigest()
    assert digest == "efdfe64c84d10786e2ce18495259793a1aef011c8ec47440c4138e2d9daa0466"


@pytest.mark.parametrize(
    ("name", "sentences", "seed"), [("toy-train", 300, 8), ("toy-dev", 40, 2), ("toy-test", 100, 3)]
)
def test_the_files_of_quickstart_are_generated(name, sentences, seed):
    assert Path(TOY[name]).read_bytes() == generate(sentences, seed)


def test_the_first_sentences_do_not_depend_on_how_many_are_made():
    assert TEXT.startswith(generate(20, 1))
    assert generate(0, 3) == b""
    assert generate(20, 3) != generate(20, 4)


def test_trees_graphs_and_texts_are_well_formed():
    treebank = treebank_from_bytes(TEXT, "synthetic")
    assert len(treebank) == N
    assert treebank.faults == treebank.warnings == check_trees(treebank, single_root=True) == []
    lengths = np.diff(treebank.word_starts)
    assert (lengths.min() >= SHORTEST, lengths.max() <= LONGEST) == (True, True)
    crossing = nonprojective_arcs(treebank.heads, treebank.word_starts)
    assert 0.05 < (np.add.reduceat(crossing, treebank.word_starts[:-1]) > 0).mean() < 0.12
    graphs = read_graphs(treebank)
    assert acyclic(graphs, treebank)[1] == 0
    assert 0.02 < (np.diff(graphs.starts) > 1).mean() < 0.05
    basic = graphs.heads == treebank.heads[graphs.modifiers()]
    assert basic.sum() == treebank.n_words  # the head of each word is in its graph
    written = "".join(f"{s.comments[1].removeprefix('# text = ')} " for s in treebank)
    assert " ".join("".join(text_pieces([treebank])).split()) == written.rstrip()
