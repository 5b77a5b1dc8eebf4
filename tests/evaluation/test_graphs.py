"""Scores of graphs: by hand, against a slow twin and the shared task's script; files refused."""

import random
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from gpuparse.data.conll import read_treebank, treebank_from_bytes
from gpuparse.errors import DataError
from gpuparse.evaluation.graphs import deps_graphs, score_treebank_graphs
from gpuparse.evaluation.metrics import ArcCounts, Share, punctuation_by_category
from tests.oracles import deps as oracle

TREEBANKS = Path(__file__).resolve().parents[2].parent / "shared" / "data"
RELATIONS = ["nsubj", "nsubj:pass", "obl", "punct", "[subj]", "conj:and", "conj:or"]
FORMS = ["Hund", ",", "...", "x."]


def bank(*deps: str, heads: list[int | str] | None = None, name: str = "f.conllu"):
    """One sentence of words with the given DEPS; by default all hang from the root."""
    heads = heads or [0] * len(deps)
    lines = [
        f"{m}\tw{m}\t_\t_\t_\t_\t{h}\tdep\t{d}\t_\n"
        for m, (h, d) in enumerate(zip(heads, deps, strict=True), 1)
    ]
    return treebank_from_bytes(("".join(lines) + "\n").encode(), name)


def test_one_sentence_by_hand():
    gold = bank("0:root", "1:obj|3:[subj]", "1:conj:and", heads=[0, 1, 1])
    system = bank("0:root", "1:iobj|3:[subj]", "1:conj:or|2:x", heads=[0, 1, 2])
    result = score_treebank_graphs(gold, system, "deps")
    assert result.words == 3
    assert result.unlabelled == ArcCounts(gold=4, system=5, found=4, right=4)
    assert result.labelled == ArcCounts(4, 5, 2, 2)
    assert result.labelled_universal == ArcCounts(4, 5, 3, 3)
    # 3 -> 2 is secondary in both; 1 -> 3 is gold's primary arc, the system's secondary one.
    assert result.secondary == ArcCounts(gold=1, system=2, found=1, right=2)
    assert result.secondary_labelled == ArcCounts(1, 2, 1, 1)
    assert (result.complete, result.complete_labelled) == (Share(0, 1), Share(0, 1))
    assert result.relations == {
        "[subj]": ArcCounts(1, 1, 1, 1),
        "conj:and": ArcCounts(1, 0, 0, 0),
        "obj": ArcCounts(1, 0, 0, 0),
        "root": ArcCounts(1, 1, 1, 1),
        "conj:or": ArcCounts(0, 1, 0, 0),
        "iobj": ArcCounts(0, 1, 0, 0),
        "x": ArcCounts(0, 1, 0, 0),
    }
    assert list(result.relations)[:4] == ["[subj]", "conj:and", "obj", "root"]
    assert result.unlabelled.precision == 80.0
    assert result.unlabelled.recall == 100.0
    assert result.unlabelled.f == pytest.approx(100 * 8 / 9)


def test_the_head_column_as_a_graph():
    gold = bank("0:root", "1:dep|3:[subj]", "1:dep", heads=[0, 1, 1])
    # What a tree parser leaves in DEPS is not looked at, be it right or unreadable.
    for deps in ("1:dep|3:[subj]", "_", "no graph"):
        system = bank("0:root", deps, "1:dep", heads=[0, 1, 2])
        result = score_treebank_graphs(gold, system, "heads")
        assert result.unlabelled == ArcCounts(4, 3, 2, 2)
        assert result.labelled == ArcCounts(4, 3, 1, 1)  # the root's relation is dep in DEPREL
        assert result.secondary == ArcCounts(gold=1, system=0, found=0, right=0)
        assert (result.secondary.precision, result.secondary.f) == (None, 0.0)


def test_words_left_out_take_all_their_arcs_along():
    gold, system = bank("0:a", "1:b|3:c", "2:d|1:e"), bank("0:a", "1:b", "1:e")
    ignored = np.array([False, True, False])
    result = score_treebank_graphs(gold, system, "deps", ignored=ignored)
    assert (result.words, result.unlabelled) == (2, ArcCounts(3, 2, 2, 2))
    assert set(result.relations) == {"a", "d", "e"}
    nothing = score_treebank_graphs(gold, system, "deps", ignored=np.ones(3, bool))
    assert nothing.complete == Share(0, 0)
    assert nothing.unlabelled.f is None
    assert nothing.relations == {}


def test_words_without_deps_have_the_arc_from_head_and_those_below_empty_nodes_none():
    gold = bank("0:root", "_", "1.1:x", heads=[0, 1, 2])
    graphs = deps_graphs(gold)
    assert graphs.heads.tolist() == [0, 1]
    assert [graphs.names[r] for r in graphs.relations] == ["root", "dep"]
    same = score_treebank_graphs(gold, bank("0:root", "1:dep", "_", heads=[0, 1, "_"]), "deps")
    assert same.unlabelled == ArcCounts(2, 2, 2, 2)


def test_files_of_no_sentences_have_nothing_to_count():
    empty = treebank_from_bytes(b"", "f")
    result = score_treebank_graphs(empty, empty, "deps")
    assert (result.words, result.unlabelled.f, result.complete.percent) == (0, None, None)


def test_a_file_without_graphs_is_refused():
    full, empty = bank("0:a", "1:b"), bank("_", "_", name="empty.conllu")
    for gold, system in ((full, empty), (empty, full)):
        with pytest.raises(DataError, match=r"^empty.conllu: DEPS \(column 9\) is _ in every word"):
            score_treebank_graphs(gold, system, "deps")
    assert score_treebank_graphs(full, empty, "heads").unlabelled.system == 2


@pytest.mark.parametrize(
    ("gold", "system", "column", "what"),
    [
        (bank("0:a", "9:b"), bank("0:a", "1:b"), "deps", "DEPS of word 2"),
        (bank("0:a", "1:b"), bank("0:a", "x"), "deps", "DEPS of word 2"),
        (bank("0:a", "1:b"), bank("0:a"), "deps", "ends before this word"),
        (bank("0:a", "_", heads=[0, 7]), bank("0:a", "1:b"), "deps", "HEAD of word 2"),
        (bank("0:a", "1:b"), bank("_", "_", heads=[2, 1]), "heads", "form a cycle"),
        (bank("0:a", "1:b"), bank("_", "_", heads=[0, "_"]), "heads", "no HEAD for word 2"),
    ],
)
def test_what_cannot_be_compared_is_refused(gold, system, column, what):
    with pytest.raises(DataError, match=what):
        score_treebank_graphs(gold, system, column)


def random_files(seed: int, n_sentences: int) -> tuple[bytes, bytes]:
    """Gold and system: the same words, graphs that share most arcs, cycles and all."""
    draw = random.Random(seed)
    texts: tuple[list[str], list[str]] = ([], [])
    for _ in range(n_sentences):
        n = draw.randint(1, 9)
        rows: list[list[list[str]]] = [[], []]
        for m in range(1, n + 1):
            heads = [h for h in range(n + 1) if h != m]
            arcs = {h: draw.choice(RELATIONS) for h in draw.sample(heads, min(n, 2))}
            primary = 0 if m == 1 else draw.randint(1, m - 1)
            form = draw.choice(FORMS)
            other = {
                h if draw.random() < 0.8 else draw.choice(heads): r
                if draw.random() < 0.8
                else draw.choice(RELATIONS)
                for h, r in arcs.items()
            }
            for side, deps in enumerate((arcs, other)):
                items = [f"{h}:{r}" for h, r in deps.items()] + ["1.1:e"] * draw.randint(0, 1)
                text = "|".join(items) if draw.random() < 0.9 else "_"
                rows[side].append(
                    [str(m), form, *"____", str(primary), draw.choice(RELATIONS), text, "_"]
                )
        if draw.random() < 0.3:
            rows[1] = rows[0]
        for text, side in zip(texts, rows, strict=True):
            text += ["\t".join(row) + "\n" for row in side] + ["\n"]
    return "".join(texts[0]).encode(), "".join(texts[1]).encode()


def words_of(treebank) -> list[oracle.Words]:
    return [
        [
            {head: label} if text == "_" else oracle.arcs_of(text)
            for head, label, text in zip(s.heads, s.labels, s.deps, strict=True)
        ]
        for s in treebank
    ]


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("without_punctuation", [False, True])
def test_equals_the_slow_twin(seed, without_punctuation):
    gold, system = (treebank_from_bytes(text, "f") for text in random_files(seed, 60))
    ignored = np.zeros(gold.n_words, bool)
    if without_punctuation:
        ignored = punctuation_by_category(gold)
        assert ignored.any()
    result = score_treebank_graphs(gold, system, "deps", ignored=ignored)
    expected = oracle.scores(
        words_of(gold),
        words_of(system),
        [sentence.heads for sentence in gold],
        [sentence.heads for sentence in system],
        [(~ignored[i:j]).tolist() for i, j in pairwise(gold.word_starts)],
    )
    for name, numbers in expected.items():
        assert tuple(vars(getattr(result, name)).values()) == numbers, name
    assert sum(arcs.right for arcs in result.relations.values()) == result.labelled.right
    assert sum(arcs.gold for arcs in result.relations.values()) == result.labelled.gold


@pytest.mark.skipif(not TREEBANKS.is_dir(), reason="the treebanks are not beside the repository")
def test_equals_the_shared_task_script_on_a_treebank(tmp_path):
    udeval = pytest.importorskip("udtools.udeval", reason="the udtools package is not installed")
    path = TREEBANKS / "english-ewt" / "en_ewt-ud-test.conllu"
    draw, lines = random.Random(3), path.read_text(encoding="utf-8").split("\n")
    for i, line in enumerate(lines):
        columns = line.split("\t")
        if columns[0].isdigit() and draw.random() < 0.2:
            items = columns[8].split("|")
            k = draw.randrange(len(items))
            head = items[k].split(":")[0]
            items[k] = f"{head}:{draw.choice(['obj', 'nmod:of', 'nsubj:pass'])}"
            if head != "1" and "1:" not in columns[8] and columns[0] != "1":
                items.insert(0, "1:obj")
            columns[8] = "|".join(items)
            lines[i] = "\t".join(columns)
    system = tmp_path / "system.conllu"
    system.write_text("\n".join(lines), encoding="utf-8")
    result = score_treebank_graphs(read_treebank(path), read_treebank(system), "deps")
    theirs = udeval.evaluate(
        udeval.load_conllu_file(str(path)), udeval.load_conllu_file(str(system))
    )
    for name, arcs in (("ELAS", result.labelled), ("EULAS", result.labelled_universal)):
        their = theirs[name]
        assert (their.gold_total, their.system_total) == (arcs.gold, arcs.system)
        assert their.correct == arcs.right == arcs.found
        assert 100 * their.f1 == pytest.approx(arcs.f)
    assert result.labelled.right < result.labelled_universal.right < result.unlabelled.right


@pytest.mark.skipif(not TREEBANKS.is_dir(), reason="the treebanks are not beside the repository")
def test_danish_trees_find_all_arcs_but_the_secondary_ones():
    treebank = read_treebank(TREEBANKS / "danish-ddt" / "test.conllu")
    result = score_treebank_graphs(treebank, treebank, "heads")
    n_secondary = result.secondary.gold
    assert result.unlabelled == ArcCounts(18072 + n_secondary, 18072, 18072, 18072)
    assert result.unlabelled == result.labelled
    assert n_secondary == 769
