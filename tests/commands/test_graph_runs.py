"""Training and parsing of graphs by the commands: DEPS in, DEPS out, scored, faults told."""

import random
import re
import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from gpuparse.commands import evaluate, parse, train
from gpuparse.data.conll import read_treebank
from gpuparse.data.graphs import read_graphs
from gpuparse.model.folder import load_parser
from tests.graphs_by_place import acyclic_graph, with_deps
from tests.samples import Sentence, random_sentences, text_of

CONFIG = """
features: mcdonald-pereira-2006
decoder: multi_parent
threads: 1
device: cpu
data: {train: train.conllu, dev: test.conllu, test: test.conllu}
feature_map: {rows: 65536}
learning: {epochs: 2}
labels: {features: graph-labels, rows: 16384, epochs: 1}
"""
BAD_DEPS = "1\ta\ta\tX\tX\t_\t0\troot\t7:obj\t_\n\n"


def graphs(seed: int, count: int) -> list[Sentence]:
    draw = random.Random(seed)
    return [
        with_deps(s, acyclic_graph(draw, s))
        for s in random_sentences(seed, count, 9, projective=False)
    ]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A config and its treebanks."""
    folder = tmp_path_factory.mktemp("graphs")
    (folder / "run.yaml").write_text(f"output: {folder}/model\n{CONFIG}")
    (folder / "train.conllu").write_text(text_of(graphs(1, 50)))
    (folder / "test.conllu").write_text(text_of(graphs(2, 20)))
    return folder


@pytest.fixture
def trained(folder, call) -> SimpleNamespace:
    """The model of that config, trained once, and what training said then."""
    if not (folder / "model" / "weights.safetensors").exists():
        code, out, err = call(train.main, folder / "run.yaml")
        assert code == 0, err
        (folder / "out").write_bytes(out)
        (folder / "err").write_text(err)
    return SimpleNamespace(
        folder=folder, config=folder / "run.yaml", model=folder / "model",
        test=folder / "test.conllu", out=(folder / "out").read_bytes(),
        err=(folder / "err").read_text(),
    )  # fmt: skip


def test_training_says_graph_scores(trained):
    assert trained.err.count(", dev arcs F ") == 2  # after the last epochs of arcs and labels
    assert trained.err.count("gpuparse: dev: arcs F ") == 1  # of 8 bits
    assert ", labelled arcs F " in trained.err
    assert re.search(r"arcs, epoch 2 of 2: .* wrong or missing arcs per 100 words", trained.err)
    assert trained.err.count("UAS") == 0


def test_its_output_is_what_evaluate_says_of_what_parse_writes(trained, tmp_path, call):
    code, out, err = call(parse.main, trained.model, trained.test, "--quiet")
    assert (code, err) == (0, "")
    (tmp_path / "parsed.conllu").write_bytes(out)
    files = [trained.test, tmp_path / "parsed.conllu"]
    _, trees, _ = call(evaluate.main, *files)
    _, graph_scores, _ = call(evaluate.main, *files, "--graphs", "deps")
    trees, _, enhanced = trees.partition(b"\nenhanced dependencies, all words\n")
    assert trained.out.startswith(trees)
    [elas] = [row.split() for row in enhanced.splitlines() if row.startswith(b"ELAS")]
    [whole] = [row for row in graph_scores.splitlines() if row.startswith(b"arcs, whole relation")]
    assert elas[1:4] == whole.split()[3:6]  # precision, recall, F
    assert graph_scores in trained.out
    assert b"secondary arcs" in graph_scores


@pytest.mark.parametrize("options", [["--engine", "torch"], ["--threads", 2]], ids=str)
def test_nothing_changes_a_byte(trained, call, options):
    words = [trained.model, trained.test, "--quiet"]
    expected = call(parse.main, *words)
    assert expected[0] == 0
    assert call(parse.main, *words, *options) == expected


def test_only_head_deprel_and_deps_change(trained, tmp_path, call):
    code, out, _ = call(parse.main, trained.model, trained.test, "--quiet")
    assert code == 0
    before, after = trained.test.read_bytes().split(b"\n"), out.split(b"\n")
    for old, new in zip(before, after, strict=True):
        cells = [line.split(b"\t") for line in (old, new)]
        assert cells[0][:6] == cells[1][:6]
        assert cells[0][9:] == cells[1][9:]
    (tmp_path / "parsed.conllu").write_bytes(out)
    parsed = read_treebank(tmp_path / "parsed.conllu")
    found = read_graphs(parsed)
    modifiers = found.modifiers()
    # HEAD is among the heads of DEPS, with DEPREL as its relation.
    is_primary = found.heads == parsed.heads[modifiers]
    assert is_primary.sum() == parsed.n_words < len(found.heads)
    labels = [label for sentence in parsed for label in sentence.labels]
    assert [found.names[i] for i in found.relations[is_primary]] == labels


def test_case_11_empty_nodes_and_what_hangs_from_them_stay(trained, call):
    text = (
        "# text = a b\n1-2\tab\t_\t_\t_\t_\t_\t_\t_\t_\n"
        "1\tHunde\thund\tN\tNN\t_\t9\tx\t9:x|1.1:obj\tM=1\n"
        "1.1\tweg\tweg\tV\tVV\t_\t_\t_\t0:gone\tCopyOf=1\n"
        "2\tschläft\tschlafen\tV\tVV\t_\t_\t_\t_\t_\n\n"
    ).replace("\t9\tx\t9:x|", "\t2\tx\t2:old|")
    code, out, _ = call(parse.main, trained.model, "--quiet", stdin=text.encode())
    assert code == 0
    before, after = (t.splitlines() for t in (text, out.decode()))
    assert [after[i] for i in (0, 1, 3, 5)] == [before[i] for i in (0, 1, 3, 5)]
    first, second = (after[i].split("\t") for i in (2, 4))
    assert "1.1:obj" in first[8].split("|")
    assert "2:old" not in first[8]
    for cells in (first, second):
        assert f"{cells[6]}:{cells[7]}" in cells[8].split("|")


@pytest.mark.parametrize(
    ("word", "code", "said"),
    [
        ("data.train={trees}", 3, "DEPS, column 9, is _ in every word"),
        ("features=mcdonald-2005", 2,
         "'mcdonald-2005' has no sibling templates, which decoder multi_parent needs"),
    ],
)  # fmt: skip
def test_what_training_refuses(trained, call, tmp_path, word, code, said):
    trees = tmp_path / "trees.conllu"
    trees.write_text(text_of(random_sentences(3, 10, 6)))
    words = trained.config, f"output={tmp_path}/model", word.format(trees=trees)
    found, _, err = call(train.main, *words)
    assert (found, said in err) == (code, True)
    assert not (tmp_path / "model").exists()


def test_case_17_faulty_deps_stop_it_or_are_left_out(trained, tmp_path, call):
    sound, faulty = tmp_path / "sound.conllu", tmp_path / "faulty.conllu"
    text = trained.folder / "train.conllu"
    shutil.copy(text, sound)
    faulty.write_text(BAD_DEPS + text.read_text())
    words = [trained.config, "data.dev=null", "data.test=null", "learning.epochs=1"]
    words += ["data.on_error=skip", "--force", f"output={tmp_path}/model"]
    code, _, err = call(train.main, *words, "data.on_error=fail", f"data.train={faulty}")
    assert code == 3
    assert f"{faulty}:1: " in err
    assert "'7:obj'" in err
    assert "data.on_error=skip skips such sentences" in err
    code, _, err = call(train.main, *words, f"data.train={faulty}")
    assert code == 0
    assert "faulty.conllu: 1 malformed sentence skipped" in err
    first = load_parser(tmp_path / "model")
    assert call(train.main, *words, f"data.train={sound}")[0] == 0
    again = load_parser(tmp_path / "model")
    assert again.linear.vocabularies.values == first.linear.vocabularies.values
    assert np.array_equal(again.linear.arcs.array, first.linear.arcs.array)
    # A tree parser does not look at DEPS at all.
    code, _, err = call(train.main, *words, f"data.train={faulty}", "decoder=eisner_sibling")
    assert code == 0
    assert "left out" not in err


@pytest.mark.parametrize("decoder", ["eisner_sibling", "hill_climb"])
def test_second_order_trees_empty_deps(trained, tmp_path, call, decoder):
    words = [trained.config, f"output={tmp_path}/model", f"decoder={decoder}"]
    code, out, err = call(train.main, *words, "learning.epochs=1")
    assert code == 0
    assert b"UAS" in out
    assert b"secondary" not in out
    assert "dev: UAS" in err
    code, out, _ = call(parse.main, tmp_path / "model", trained.test, "--quiet")
    assert code == 0
    assert {line.split(b"\t")[8] for line in out.split(b"\n") if b"\t" in line} == {b"_"}
