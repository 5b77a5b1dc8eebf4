"""Fault cases: each has tests with its number in their names, most of them beside what they test;
those of one file of a treebank are the tables of tests/data/test_faults.py.

Here are the list of the cases, and the tests that go through commands and every system.
"""

import itertools
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from gpuparse import inference
from gpuparse.commands import evaluate, parse, train
from gpuparse.commands.console import run
from gpuparse.errors import ScoreError
from gpuparse.inference.decoders import DECODERS
from gpuparse.inference.scores import Scores
from gpuparse.inference.searches import decode
from gpuparse.model.folder import load_parser
from gpuparse.model.parser import Parser
from tests.campaign.bench import ALONE, SYSTEMS, Bench
from tests.hostile_files import facts_of, rewrite
from tests.samples import row, text_of
from tests.synthetic import generate

CASES = """
1 empty files and comments alone; 2 ends missing; 3 line ends; 4 byte order marks; 5 invalid UTF-8
6 strange characters; 7 numbers of columns; 8 empty forms; 9 numbers of words; 10 multiword ranges
11 empty nodes; 12 no heads in the input; 13 no heads in training; 14 no trees; 15 several roots
16 non-projective gold trees; 17 damaged DEPS; 18 all words unknown; 19 sentences of one word
20 1,000 words; 21 sentences for which memory is missing; 22 long lines; 23 deep trees and cycles
24 equal scores; 25 weights that are not numbers; 26 infinite weights; 27 far scores
28 near-singular Laplacians; 29 constraints without a tree; 30 dual decomposition without an end
31 no device memory; 32 a lost device; 33 full disks; 34 readers that go away; 35 killed training
36 killed parsing; 37 two writers; 38 damaged models; 39 hostile headers; 40 unknown facts
41 hostile YAML; 42 paths in names; 43 wrong keys; 44 missing columns; 45 threads, batches, shards
46 the surroundings of a process
"""
OF_FILES = {*range(1, 13), 14, 22}
TREES = [name for name, decoder in DECODERS.items() if decoder.trees != "graphs"]
PARSERS = [name for name in SYSTEMS if name != ALONE]
ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def bench(tmp_path_factory) -> Bench:
    return Bench(tmp_path_factory.mktemp("bench"))


@pytest.fixture
def call(capfdbinary):
    """Run a command in this process: its exit code, and what it wrote."""

    def called(main, *words):
        capfdbinary.readouterr()
        code = run(main, list(map(str, words)))
        captured = capfdbinary.readouterr()
        return code, captured.out, captured.err.decode()

    return called


def zeros(name: str, lengths: list[int]) -> Scores:
    """Scores of 0 for all parts that a decoder reads."""
    n_batch, n_nodes = len(lengths), max(lengths) + 1
    axes = {"end": 2, "grand_sibling": 4, "tri_sibling": 4, "outermost": 4}
    parts = {
        field: torch.zeros(n_batch, *[n_nodes] * axes.get(field, 3))
        for field in DECODERS[name].reads
    }
    return Scores(torch.zeros(n_batch, n_nodes, n_nodes), torch.tensor(lengths), **parts)


def test_every_case_has_a_test():
    numbers = [int(number) for number in re.findall(r"(?:^|; )(\d+) ", CASES, re.MULTILINE)]
    assert numbers == list(range(1, 47))
    text = "".join(file.read_text(encoding="utf-8") for file in (ROOT / "tests").rglob("test_*.py"))
    tested = {int(number) for number in re.findall(r"^def test_case_(\d\d)_", text, re.MULTILINE)}
    assert tested | OF_FILES == set(numbers)


def test_case_13_heads_missing_in_training(bench, call, tmp_path):
    config = bench.config("first-order")
    text = (config.parent / "train.conllu").read_bytes()
    partial = tmp_path / "partial.conllu"
    partial.write_bytes(re.sub(rb"(?m)^(1\t(?:[^\t]*\t){5})\d+\t", rb"\1_\t", text))
    words = [config, *SYSTEMS["first-order"], f"data.train={partial}", "learning.epochs=1"]
    code, _, err = call(train.main, *words, f"output={tmp_path / 'whole'}")
    assert code == 3
    assert "data.partial" in err
    assert call(train.main, *words, "data.partial=true", f"output={tmp_path / 'some'}")[0] == 0


def test_case_15_evaluation_counts_sentences_of_several_roots(call, tmp_path):
    file = tmp_path / "gold.conllu"
    one, two = [row(1, "a", 0), row(2, "b", 1)], [row(1, "a", 0), row(2, "b", 0)]
    file.write_text(text_of([one, two, two]))
    code, _, err = call(evaluate.main, file, file)
    assert code == 0
    assert f"{file}: 2 of 3 sentences have several roots" in err
    file.write_text(text_of([one, one]))
    assert call(evaluate.main, file, file)[2] == ""
    file.write_text("")
    assert call(evaluate.main, file, file)[2] == ""


@pytest.mark.parametrize("name", DECODERS)
@pytest.mark.parametrize("single_root", [False, True])
def test_case_19_the_tree_of_one_word(name, single_root):
    found = decode(name, zeros(name, [1]), single_root=single_root)
    if found.heads is None:
        assert found.arcs[0].tolist() == [[False, True], [False, False]]
    else:
        assert found.heads.tolist() == [[-1, 0]]


@pytest.mark.parametrize("system", PARSERS)
def test_case_19_one_word_through_the_commands(bench, call, system, tmp_path):
    file = tmp_path / "one.conllu"
    file.write_text(text_of([[row(1, "a", "_", "_", fpos="NN", cpos="N")]]))
    model = bench.model(system)
    with_sums = DECODERS[load_parser(model).decoder].has("marginals", "native")
    words = ["--probabilities"] if with_sums else []
    code, out, _ = call(parse.main, model, file, "--allow-missing", *words)
    assert code == 0
    assert out.split(b"\t")[6] == b"0"
    assert (b"HeadProb=1.0000" in out) == with_sums


def test_case_20_a_sentence_of_a_thousand_words_among_others(bench, call, tmp_path):
    words = [row(m, f"w{m % 9}", "_", "_", fpos="NN", cpos="N") for m in range(1, 1001)]
    short = generate(3, 1)
    file = tmp_path / "long.conllu"
    file.write_bytes(short + text_of([words]).encode() + short)
    code, out, _ = call(parse.main, bench.model(), file, "--allow-missing")
    assert code == 0
    assert b"ParsedWith" not in out
    (tmp_path / "short.conllu").write_bytes(short)
    alone = call(parse.main, bench.model(), tmp_path / "short.conllu", "--allow-missing")[1]
    assert out.startswith(alone)
    assert out.endswith(alone)


@pytest.mark.parametrize("name", TREES)
@pytest.mark.parametrize("single_root", [False, True])
def test_case_24_equal_scores_have_one_tree_on_every_engine_and_in_any_batch(name, single_root):
    lengths = [4, 2, 4, 1, 3]
    expected = None
    for engine in {*DECODERS[name].engines["best"]} - {"triton"}:
        found = decode(name, zeros(name, lengths), single_root=single_root, engine=engine)
        expected = found.heads if expected is None else expected
        assert found.heads.equal(expected)
    for b, n in enumerate(lengths):
        alone = decode(name, zeros(name, [n]), single_root=single_root).heads
        assert alone[0].tolist() == expected[b, : n + 1].tolist()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1.0])
@pytest.mark.parametrize("name", ["arcs", "labels"])
def test_case_25_weights_that_are_no_whole_numbers(bench, call, tmp_path, name, value):
    model = tmp_path / "model"
    shutil.copytree(bench.model(), model)
    facts, arrays = facts_of(model)
    changed = arrays[name].astype(np.float32)
    changed.reshape(-1)[7] = value
    rewrite(model, facts, arrays | {name: changed})
    code, out, err = call(parse.main, model, bench.input)
    assert (code, out) == (4, b"")
    assert name in err
    assert len(err.splitlines()) == 1


def test_case_26_learning_that_diverges_is_an_error(bench, call, tmp_path):
    words = ["learning.rule=conditional", "learning.max_step=1e38", f"output={tmp_path / 'model'}"]
    config = bench.config("first-order")
    code, _, err = call(train.main, config, "features=mcdonald-2005", *words)
    assert code == 3
    assert "not finite" in err
    assert not (tmp_path / "model" / "weights.safetensors").exists()


@pytest.mark.parametrize("scale", [1e16, 1e38, 1e290])
@pytest.mark.parametrize("engine", ["native", "torch"])
def test_case_27_sums_that_leave_no_digits_are_refused(scale, engine):
    arcs = torch.full((2, 5, 5), scale, dtype=torch.float64)
    siblings = torch.full((2, 5, 5, 5), scale, dtype=torch.float64)
    with pytest.raises(ScoreError, match="sentence 0: its log-partition is"):
        inference.eisner_marginals(arcs, None, engine=engine)
    with pytest.raises(ScoreError, match="sentence 0: its log-partition is"):
        inference.eisner_sibling_marginals(arcs, siblings, None, engine=engine)


@pytest.mark.parametrize("at", [1, 3])
def test_case_32_a_lost_device_ends_the_run_and_the_next_one_goes_on(
    bench, call, monkeypatch, tmp_path, at
):
    """The device is lost in the shard `at`; what was finished before it is not parsed again."""
    words = [bench.model(), bench.input, "--output", f"{tmp_path}/out/", "--shard", "all/4"]
    calls = itertools.count(1)

    def lost(*given, **options):
        if next(calls) == at:
            raise torch.AcceleratorError("CUDA error: unspecified launch failure\nmore")
        return whole(*given, **options)

    whole = Parser.parse
    with monkeypatch.context() as patch:
        patch.setattr(Parser, "parse", lost)
        code, _, err = call(parse.main, *words)
    assert code == 5
    assert err.splitlines()[-1] == (
        "gpuparse: error: the device failed: CUDA error: unspecified launch failure"
    )
    code, _, err = call(parse.main, *words)
    assert code == 0
    assert err.count("already done") == at - 1
    assert (tmp_path / "out" / bench.input.name).read_bytes() == bench.parsed(bench.input)


def test_case_42_outputs_stay_in_their_folder(bench, call, tmp_path):
    (tmp_path / "here").mkdir()
    (tmp_path / "in").mkdir()
    file = tmp_path / "here" / ".." / "in" / "a b.conllu"
    file.write_bytes(bench.input.read_bytes())
    before = set(tmp_path.rglob("*"))
    words = [bench.model(), file, "--output", f"{tmp_path}/out/"]
    assert call(parse.main, *words)[0] == 0
    assert call(parse.main, *words, "--shard", "all/2", "--force")[0] == 0
    after = {path for path in tmp_path.rglob("*") if path.suffix != ".done"}
    assert after - before == {tmp_path / "out", tmp_path / "out" / "a b.conllu"}
    assert call(parse.main, bench.model(), tmp_path / "in" / "..", "--output", tmp_path)[0] == 2


SURROUNDINGS = {
    "HOME": None, "LC_ALL": "C", "LANG": None, "PYTHONHASHSEED": "7", "TZ": "Asia/Tokyo",
    "TMPDIR": "/nowhere", "http_proxy": "http://127.0.0.1:9",
}  # fmt: skip


def test_case_46_the_surroundings_change_nothing(bench, monkeypatch):
    """Another process without a home, with another locale, clock, seed and folder."""
    for name, value in SURROUNDINGS.items():
        monkeypatch.delenv(name, raising=False) if value is None else monkeypatch.setenv(
            name, value
        )
    command = [sys.executable, ROOT / "parse.py", bench.model(), bench.input]
    done = subprocess.run(command, cwd="/proc", capture_output=True, umask=0o777)
    assert done.returncode == 0, done.stderr
    assert done.stdout == bench.parsed(bench.input)
