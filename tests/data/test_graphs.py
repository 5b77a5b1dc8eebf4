"""Graphs: DEPS read and written back, made acyclic, by place; against slow twins and treebanks."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuparse.data.conll import (
    read_treebank,
    treebank_from_bytes,
    write_predictions,
)
from gpuparse.data.graphs import (
    Graphs,
    acyclic,
    by_place,
    check_graphs,
    missing_graphs,
    primary_relations,
    read_graphs,
    readable_graphs,
    tree_graphs,
    with_tree_arcs,
)
from gpuparse.data.vocabulary import Encoder, Vocabularies
from gpuparse.errors import DataError
from tests.oracles import deps as oracle

TREEBANKS = Path(__file__).resolve().parents[2].parent / "shared" / "data"
RELATIONS = [
    "obj",
    "nsubj:xsubj",
    "[subj]",
    "<subj:pobj>",
    "nmod:på_grund_af",
    "子",
    ":",
    "_",
    "a>b",
]


@st.composite
def trees(draw: st.DrawFn, n: int) -> list[int]:
    order = draw(st.permutations(range(1, n + 1)))
    heads = [0] * n
    for k, m in enumerate(order):
        heads[m - 1] = draw(st.sampled_from([0, *order[:k]]))
    return heads


@st.composite
def sentences(draw: st.DrawFn) -> list[list[str]]:
    """Rows of words with a tree in HEAD and anything readable in DEPS."""
    n = draw(st.integers(1, 6))
    heads = draw(trees(n))
    relation = st.sampled_from(RELATIONS)
    empty = st.builds(
        lambda i, j: f"{i}.{j}", st.integers(0, n), st.sampled_from([1, 2, 9, 10, 11])
    )
    rows = []
    for m in range(1, n + 1):
        word = st.integers(0, n).filter(lambda h, m=m: h != m).map(str)
        often = st.just(str(heads[m - 1]))
        head = st.one_of(word, word, often, empty)
        items = draw(st.lists(st.tuples(head, relation), max_size=5))
        deps = "|".join(":".join(item) for item in items) or "_"
        rows.append([str(m), "w", "_", "_", "_", "_", str(heads[m - 1]), draw(relation), deps, "_"])
    return rows


def text_of(treebank: list[list[list[str]]], line_end: str = "\n") -> bytes:
    """With a comment, a multiword range and an empty node in every sentence."""
    lines = []
    for rows in treebank:
        lines += ["# c", f"1-{len(rows)}\tx" + "\t_" * 8]
        lines += ["\t".join(row) for row in rows]
        lines += [f"{len(rows)}.1\te" + "\t_" * 6 + "\t0:exroot|1:x\t_", ""]
    return "".join(line + line_end for line in lines).encode()


def bank_of(treebank: list[list[list[str]]]):
    return treebank_from_bytes(text_of(treebank), "f")


def as_words(graphs: Graphs, word_starts: np.ndarray) -> list[oracle.Words]:
    """The graphs as the oracle has them; heads in order."""
    words = [
        {
            int(graphs.heads[a]): graphs.names[graphs.relations[a]]
            for a in range(graphs.starts[w], graphs.starts[w + 1])
        }
        for w in range(graphs.n_words)
    ]
    sizes = np.diff(graphs.starts).tolist()
    assert [len(arcs) for arcs in words] == sizes  # no head twice
    assert all(list(arcs) == sorted(arcs) for arcs in words)
    return [words[i:j] for i, j in pairwise(word_starts)]


def expected_words(treebank: list[list[list[str]]]) -> list[oracle.Words]:
    return [[oracle.arcs_of(row[8]) for row in rows] for rows in treebank]


@settings(deadline=None, max_examples=70)
@given(st.lists(sentences(), max_size=4))
def test_deps_are_read_as_splitting_reads_them(rows):
    treebank = bank_of(rows)
    graphs = read_graphs(treebank)
    assert as_words(graphs, treebank.word_starts) == expected_words(rows)
    assert (graphs.starts.dtype, graphs.heads.dtype) == (np.int64, np.int32)
    assert graphs.relations.dtype == np.int32
    # Names in order of first appearance, each once.
    seen = [graphs.names[r] for r in graphs.relations]
    assert graphs.names == list(dict.fromkeys(seen))
    items = [oracle.split_items(row[8]) for sentence in rows for row in sentence]
    kept = [{head for head, _ in word if "." not in head} for word in items]
    assert np.diff(graphs.starts).tolist() == list(map(len, kept))
    assert missing_graphs(treebank).tolist() == [row[8] == "_" for s in rows for row in s]
    assert check_graphs(treebank) == []


@settings(deadline=None, max_examples=70)
@given(st.lists(sentences(), max_size=3), st.data(), st.sampled_from(["\n", "\r\n"]))
def test_only_head_deprel_and_deps_are_written(rows, draw, line_end):
    treebank = treebank_from_bytes(text_of(rows, line_end), "f")
    other = [[list(row) for row in sentence] for sentence in rows]
    new = []
    for sentence in other:
        n = len(sentence)
        for row in sentence:
            heads = draw.draw(st.sets(st.integers(0, 12), max_size=4))
            arcs = {head: draw.draw(st.sampled_from(RELATIONS)) for head in sorted(heads)}
            row[6] = str(draw.draw(st.integers(0, n)))
            row[7] = draw.draw(st.sampled_from(["a", "longer"]))
            row[8] = oracle.written(row[8], arcs)
            new.append(arcs)
    names = ["unused", *RELATIONS]
    graphs = Graphs(
        np.cumsum([0, *map(len, new)]),
        np.array([head for arcs in new for head in arcs], np.int32),
        np.array([names.index(r) for arcs in new for r in arcs.values()], np.int32),
        names,
    )
    words = [row for sentence in other for row in sentence]
    text = write_predictions(
        treebank,
        np.array([int(row[6]) for row in words], np.int32),
        [b"a", b"longer"],
        np.array([row[7] == "longer" for row in words], np.int32),
        graphs=graphs,
    )
    assert text.decode() == text_of(other, line_end).decode()


@settings(deadline=None, max_examples=50)
@given(st.lists(sentences(), max_size=3))
def test_what_is_written_is_read_again(rows):
    treebank = bank_of(rows)
    graphs = read_graphs(treebank)
    text = write_predictions(treebank, np.full(treebank.n_words, -2), graphs=graphs)
    again = treebank_from_bytes(text, "f")
    for part in ("starts", "heads", "relations", "names"):
        assert np.array_equal(getattr(read_graphs(again), part), getattr(graphs, part))
    # Written a second time nothing moves, and all but DEPS is as it was.
    assert write_predictions(again, again.heads, graphs=graphs) == text
    without = Graphs(np.zeros_like(graphs.starts), graphs.heads[:0], graphs.relations[:0], [])
    emptied = [[[*r[:8], oracle.written(r[8], {}), r[9]] for r in s] for s in rows]
    assert write_predictions(treebank, treebank.heads, graphs=without) == text_of(emptied)


def test_garbage_in_deps_is_replaced_when_graphs_are_written():
    rows = [
        [["1", "w", *"____", "0", "r", deps, "_"]] for deps in ("x", "", "|", "1.1:", "|1.1:a|")
    ]
    rows += [[["1", "w", *"____", "0", "r", "9", ""]]]
    treebank = bank_of(rows)
    n = treebank.n_words
    graphs = Graphs(np.arange(n + 1), np.zeros(n, np.int32), np.zeros(n, np.int32), ["r:x"])
    text = write_predictions(treebank, treebank.heads, graphs=graphs)
    expected = [[["1", "w", *"____", "0", "r", "0:r:x", "_"]] for _ in rows]
    expected[4][0][8] = "0:r:x|1.1:a"
    expected[5][0][9] = ""
    assert text.decode() == text_of(expected).decode()


ONE = [
    ["1", "a", *"____", "2", "x", "2:x|2.1:y|0:z", "_"],
    ["2", "b", *"____", "0", "r", "0:r", "_"],
]


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"names": ["a|b", "y", "z"]}, r"relation 'a\|b' cannot be written to DEPS"),
        ({"names": ["a", "", "z"]}, "relation '' cannot"),
        ({"names": ["a", "b\tc", "z"]}, "a tab"),
        ({"names": ["a"]}, "none of their 1 names"),
        ({"relations": np.array([0, -1, 0], np.int32)}, "none of their"),
        ({"starts": np.array([0, 3])}, "do not fit"),
        ({"starts": np.array([0, 2, 4])}, "do not fit"),
        ({"starts": np.array([0, 4, 3])}, "do not ascend"),
        ({"starts": np.array([1, 2, 3])}, "do not ascend"),
        ({"heads": np.array([0, -1, 0], np.int32)}, "negative"),
    ],
)
def test_graphs_that_cannot_be_written_are_refused(change, what):
    treebank = bank_of([ONE])
    parts = vars(read_graphs(treebank)) | change
    with pytest.raises(ValueError, match=what):
        write_predictions(treebank, treebank.heads, graphs=Graphs(**parts))


def test_arrays_of_other_sizes_are_refused():
    treebank = bank_of([ONE])
    graphs, every = read_graphs(treebank), np.ones(2, bool)
    batch = Encoder(Vocabularies({"form": []}, 3)).encode(bank_of([ONE, ONE]))
    for call, what in (
        (lambda: write_predictions(treebank, np.zeros(3), graphs=graphs), "of shape"),
        (lambda: with_tree_arcs(graphs, treebank, every), "has one already"),
        (lambda: by_place(graphs, batch), "the graphs have 2 words, the batch 4"),
    ):
        with pytest.raises(ValueError, match=what):
            call()


FAULTS = [
    ("3", "'3', without a ':'; write head:relation"),
    ("", "'', without a ':'"),
    ("1:a||3:b", "'', without a ':'"),
    ("1:a|", "'', without a ':'"),
    ("x:a", "'x:a', whose head is no number; write a number from 0 to 3, or i.j"),
    (":a", "':a', whose head is no number"),
    ("-1:a", "whose head is no number"),
    ("01:a", "whose head is no number"),
    ("1-2:a", "whose head is no number"),
    ("1.:a", "whose head is no number"),
    ("1.0:a", "whose head is no number"),
    ("99999999999:a", "whose head is no number"),
    ("1:", "'1:', without a relation; write it behind the ':'"),
    ("1.1:", "'1.1:', without a relation"),
    ("1:a|4:b", "'4:b', whose head is not in the sentence; it has 3 words"),
    ("4.1:b", "'4.1:b', whose head is not in the sentence"),
    ("2:b", "'2:b', but a word is not its own head; give it another"),
    ("4" + "x" * 90, "'4" + "x" * 39 + "...', without"),
]


@pytest.mark.parametrize(("deps", "what"), FAULTS, ids=[f[0][:12] for f in FAULTS])
def test_a_faulty_item_is_told(deps, what):
    sound = "1\tw\t_\t_\t_\t_\t0\tr\t0:r|1.1:x\t_\n\n"
    faulty = "".join(
        f"{m}\tw{m}\t_\t_\t_\t_\t{h}\tr\t{d}\t_\n"
        for m, h, d in ((1, 0, "0:r|0:s|1.1:e"), (2, 1, deps), (3, 1, "nothing"))
    )
    text = f"{sound}# sent_id = bad\n{faulty}\n{sound}"
    treebank = treebank_from_bytes(text.encode(), "f.conllu")
    [error] = check_graphs(treebank)
    assert str(error).startswith("f.conllu:5: sent_id bad: DEPS of word 2 (w2) has the item ")
    assert what in str(error)
    with pytest.raises(DataError) as caught:
        read_graphs(treebank)
    assert str(caught.value) == str(error)
    assert readable_graphs(treebank).tolist() == [True, False, True]


def test_every_faulty_sentence_is_told_once():
    rows = [[["1", "w", *"____", "0", "r", deps, "_"]] for deps in ("a", "0:r", "b", "c:d")]
    treebank = bank_of(rows)
    assert [str(error).split(":")[1] for error in check_graphs(treebank)] == ["3", "13", "18"]
    assert readable_graphs(treebank).tolist() == [False, True, False, False]


@settings(deadline=None, max_examples=50)
@given(st.lists(sentences(), max_size=3))
def test_acyclic_graphs_are_those_of_the_slow_twin(rows):
    treebank = bank_of(rows)
    graphs = read_graphs(treebank)
    found, n_dropped = acyclic(graphs, treebank)
    expected = [
        oracle.acyclic(words, [(int(row[6]), row[7]) for row in sentence])
        for words, sentence in zip(expected_words(rows), rows, strict=True)
    ]
    assert as_words(found, treebank.word_starts) == [words for words, _ in expected]
    assert n_dropped == sum(n for _, n in expected)
    for words, _ in expected:
        assert oracle.is_acyclic(words)
        assert all(words)
    assert found.names[: len(graphs.names)] == graphs.names
    again, n_again = acyclic(found, treebank)
    assert n_again == 0
    assert np.array_equal(again.heads, found.heads)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        # 1 <-> 2 is a cycle whose arc 1 -> 2 is from HEAD; 3 has none from HEAD; 4 no arc at all.
        (
            [("0", "root", "0:root|2:rel"), ("1", "mod", "1:mod:of"), ("1", "obj", "2:xobj"),
             ("3", "dep", "_")],
            [{0: "root"}, {1: "mod:of"}, {2: "xobj"}, {3: "dep"}],
        ),
        # No arc is from HEAD: 1 <- 2 is taken, 2 <- 1 closes a cycle, and so does HEAD 3 of 2.
        (
            [("0", "root", "2:x"), ("3", "y", "1:y"), ("1", "z", "1:z")],
            [{2: "x"}, {0: "y"}, {1: "z"}],
        ),
    ],
    ids=["head is kept", "the root where HEAD closes a cycle"],
)  # fmt: skip
def test_acyclic_by_hand(words, expected):
    rows = [[str(m), "w", *"____", *word, "_"] for m, word in enumerate(words, 1)]
    treebank = bank_of([rows])
    found, n_dropped = acyclic(read_graphs(treebank), treebank)
    assert n_dropped == 1
    assert as_words(found, treebank.word_starts) == [expected]


@pytest.mark.parametrize("label", ["", "a|b"])
def test_a_new_arc_needs_a_relation_that_deps_can_hold(label):
    rows = [["1", "a", *"____", "0", label, "_", "_"]]
    treebank = bank_of([rows])
    with pytest.raises(DataError, match=r"f:3: the relation .* cannot be written into DEPS"):
        acyclic(read_graphs(treebank), treebank)


def test_acyclic_needs_trees_and_graphs_of_the_same_words():
    graphs = read_graphs(bank_of([ONE]))
    with pytest.raises(ValueError, match="graphs of 2 words, a treebank of 1"):
        acyclic(graphs, bank_of([[["1", "a", *"____", "0", "r", "_", "_"]]]))
    for heads in ("_", "7", "1"):
        rows = [[ONE[0], ["2", "b", *"____", heads, "r", "0:r", "_"]]]
        with pytest.raises(ValueError, match="the heads of sentence 0 are no tree"):
            acyclic(graphs, bank_of(rows))


@settings(deadline=None, max_examples=50)
@given(st.lists(sentences(), max_size=3))
def test_trees_as_graphs(rows):
    treebank = bank_of(rows)
    graphs = tree_graphs(treebank)
    expected = [[{int(row[6]): row[7]} for row in sentence] for sentence in rows]
    assert as_words(graphs, treebank.word_starts) == expected
    given_back = with_tree_arcs(read_graphs(treebank), treebank, missing_graphs(treebank))
    for words, arcs, sentence in zip(
        as_words(given_back, treebank.word_starts), expected_words(rows), rows, strict=True
    ):
        for found, own, row in zip(words, arcs, sentence, strict=True):
            assert found == ({int(row[6]): row[7]} if row[8] == "_" else own)


def test_words_without_a_head_have_no_arc():
    rows = [["1", "a", *"____", "_", "x", "_", "_"], ["2", "b", *"____", "0", "r", "_", "_"]]
    treebank = bank_of([rows])
    assert tree_graphs(treebank).starts.tolist() == [0, 0, 1]
    assert with_tree_arcs(read_graphs(treebank), treebank, np.ones(2, bool)).heads.tolist() == [0]


def test_primary_relations():
    deprels = ["nmod", "nmod", "obl", "acl", "nsubj", "a", "b"]
    deps = ["0:nmod:of|1.1:e", "0:nmod:of", "0:nmod:of", "0:acl|1:acl:to", "1:nsubj", "0:t", "0:t"]
    rows = [
        [str(m), "w", *"____", "0", label, item, "_"]
        for m, (label, item) in enumerate(zip(deprels, deps, strict=True), 1)
    ]
    treebank = bank_of([rows])
    graphs = read_graphs(treebank)
    assert dict(zip(graphs.names, primary_relations(graphs, treebank), strict=True)) == {
        "nmod:of": "nmod",
        "acl": "acl",
        "acl:to": None,
        "nsubj": None,
        "t": "a",
    }
    nothing = bank_of([])
    assert primary_relations(read_graphs(nothing), nothing) == []


@settings(deadline=None, max_examples=50)
@given(st.lists(sentences(), max_size=4))
def test_arcs_by_place(rows):
    treebank = bank_of(rows)
    graphs = read_graphs(treebank)
    batch = Encoder(Vocabularies({"form": ["w"]}, 3)).encode(treebank)
    starts, heads, relations = by_place(graphs, batch)
    assert (starts.dtype, heads.dtype) == (np.int64, np.int64)
    assert starts.shape == (batch.values.shape[1] + 1,)
    of_words = []
    for s in range(len(batch)):
        root, n = int(batch.starts[s]), int(batch.lengths[s])
        for t in range(root + 1, root + n + 1):
            span = slice(starts[t], starts[t + 1])
            of_words.append(dict(zip(heads[span].tolist(), relations[span].tolist(), strict=True)))
    names = [[{h: graphs.names[r] for h, r in arcs.items()} for arcs in of_words]]
    assert names == [[arcs for words in expected_words(rows) for arcs in words]]
    assert starts[0] == 0
    assert starts[-1] == len(heads) == sum(map(len, of_words))  # no arc is another place's


needs_treebanks = pytest.mark.skipif(
    not TREEBANKS.is_dir(), reason="the treebanks are not beside the repository"
)


@needs_treebanks
def test_danish_graphs_are_acyclic_as_published():
    counts = np.zeros(8, np.int64)
    for part in ("train", "test"):
        treebank = read_treebank(TREEBANKS / "danish-ddt" / f"{part}.conllu")
        graphs = read_graphs(treebank)
        counts += np.bincount(np.diff(graphs.starts), minlength=8)
        found, n_dropped = acyclic(graphs, treebank)
        assert n_dropped == 0
        for name in ("starts", "heads", "relations", "names"):
            assert np.array_equal(getattr(found, name), getattr(graphs, name))
        secondary = graphs.heads != treebank.heads[graphs.modifiers()]
        assert len(graphs.heads) - np.count_nonzero(secondary) == treebank.n_words
        text = write_predictions(treebank, treebank.heads, graphs=graphs)
        assert text == treebank.data.tobytes()
    assert counts[:5].tolist() == [0, 84960, 2744, 318, 49]
    assert counts[5:].sum() == 11
    names = dict(zip(graphs.names, primary_relations(graphs, treebank), strict=True))
    assert names["<subj>"] == "<subj>"
    assert names["[subj]"] is None


@needs_treebanks
@pytest.mark.parametrize(("part", "n_cyclic"), [("train", 1794), ("dev", 202), ("test", 194)])
def test_english_graphs_lose_their_cycles_alone(part, n_cyclic):
    # One more sentence of train and of dev has a cycle, but only through an empty node.
    treebank = read_treebank(TREEBANKS / "english-ewt" / f"en_ewt-ud-{part}.conllu")
    graphs = read_graphs(treebank)
    found, n_dropped = acyclic(graphs, treebank)
    assert np.diff(found.starts).min() > 0
    before, after = (as_words(g, treebank.word_starts) for g in (graphs, found))
    assert all(oracle.is_acyclic(words) for words in after)
    cyclic = [s for s, words in enumerate(before) if not oracle.is_acyclic(words)]
    assert len(cyclic) == n_cyclic
    assert n_cyclic <= n_dropped < 1.5 * n_cyclic
    for s in set(range(len(treebank))).difference(cyclic):
        if all(before[s]):  # else the HEAD of a word below empty nodes alone may close a cycle
            assert before[s] == after[s]
    names = dict(zip(graphs.names, primary_relations(graphs, treebank), strict=True))
    assert (names["nmod:of"], names["nsubj:xsubj"]) == ("nmod", None)
    # What stands in DEPS is in order already: written back, the file is the same.
    text = write_predictions(treebank, treebank.heads, graphs=graphs)
    assert text == treebank.data.tobytes()
