"""Jackknifing: every sentence's guides come from a parser that has not seen its part."""

import os
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from gpuparse.commands import jackknife, train
from gpuparse.commands.console import run
from gpuparse.config import load_config
from gpuparse.data.conll import read_treebank, treebank_from_bytes, with_misc
from gpuparse.data.guides import read_guides
from gpuparse.jobs.train_checks import templates_of
from gpuparse.learning.trainer import Trainer
from tests.commands.conftest import ROOT
from tests.synthetic import generate

N_SENTENCES, FOLDS = 50, 3
CONFIG = """
output: model
features: mcdonald-2005
threads: 1
device: cpu
data: {train: train.conllu, dev: not-there.conllu, test: nor-this.conllu}
feature_map: {rows: 65536}
learning: {epochs: 2}
"""


@pytest.fixture
def folder(tmp_path):
    """A config and its treebank, with items in MISC that must stay, and Windows line ends."""
    treebank = treebank_from_bytes(generate(N_SENTENCES, 1), "generated")
    texts = ["x" if w % 3 else "" for w in range(treebank.n_words)]
    text = with_misc(treebank, {"Keep": texts}).replace(b"\n", b"\r\n")
    (tmp_path / "train.conllu").write_bytes(text)
    (tmp_path / "run.yaml").write_text(CONFIG)
    return tmp_path


def jackknifed(folder, *words) -> int:
    words = [str(folder / "run.yaml"), "--output", str(folder / "out.conllu"), *words]
    return run(jackknife.main, words)


def by_hand(folder) -> np.ndarray:
    """The same from files: train on a file without the fold, parse a file of the fold alone."""
    config = load_config(folder / "run.yaml")
    text = (folder / "train.conllu").read_bytes()
    sentences = text.removesuffix(b"\r\n\r\n").split(b"\r\n\r\n")
    assert len(sentences) == N_SENTENCES
    heads = []
    for i in range(FOLDS):
        first, last = i * N_SENTENCES // FOLDS, (i + 1) * N_SENTENCES // FOLDS
        others = b"".join(s + b"\r\n\r\n" for s in sentences[:first] + sentences[last:])
        fold = b"".join(s + b"\r\n\r\n" for s in sentences[first:last])
        templates, _ = templates_of(config)
        trainer = Trainer(treebank_from_bytes(others, "others"), templates, None, config)
        for _ in trainer.learn():
            pass
        heads.append(trainer.model(16).parse(treebank_from_bytes(fold, "fold")).heads)
    return np.concatenate(heads)


def test_guides_come_from_parsers_of_the_other_parts(folder, capsys):
    assert jackknifed(folder, "--folds", str(FOLDS), "--key", "PARSED") == 0
    expected = by_hand(folder)
    treebank = read_treebank(folder / "train.conllu")
    out = (folder / "out.conllu").read_bytes()
    assert out == with_misc(treebank, {"PARSED": expected.astype("S")})
    assert np.array_equal(read_guides(treebank_from_bytes(out, "out"), "misc:PARSED"), expected)
    right = 100 * (expected == treebank.heads).mean()
    assert f"{right:.2f}% of these heads are right" in capsys.readouterr().err
    # Without the items just written, it is the file that was read.
    untouched = re.sub(rb"\|PARSED=\d+", b"", out)
    untouched = re.sub(rb"PARSED=\d+", b"_", untouched)
    assert untouched == (folder / "train.conllu").read_bytes()


def test_threads_change_no_byte_and_training_takes_the_result(folder, capsys):
    assert jackknifed(folder, "--folds", "2", "--quiet") == 0
    one = (folder / "out.conllu").read_bytes()
    assert jackknifed(folder, "threads=2", "--folds", "2", "--force", "--quiet") == 0
    assert (folder / "out.conllu").read_bytes() == one
    assert capsys.readouterr().err == ""
    words = ["features=guided", "data.guide=misc:Guide", f"output={folder / 'model'}"]
    words += [
        f"data.train={folder / 'out.conllu'}",
        "labels.kind=none",
        "data.dev=null",
        "data.test=null",
        "--quiet",
    ]
    assert run(train.main, [str(folder / "run.yaml"), *words]) == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--folds", "1"], "--folds 1: expected at least 2 and at most 50"),
        (["--folds", "51"], "--folds 51: expected at least 2"),
        (["--key", "a=b"], "--key: 'a=b': expected a key"),
        (["--output", "{folder}"], "is a folder"),
        (["--output", "{folder}/no/file"], "the folder is missing"),
        (["--output", "{folder}/train.conllu", "--force"], "would be replaced by its own output"),
        (["--output", "{folder}/run.yaml"], "exists; give --force"),
    ],
)
def test_what_it_refuses_before_it_works(folder, capsys, words, said):
    before = sorted(path.name for path in folder.iterdir())
    assert jackknifed(folder, *(word.format(folder=folder) for word in words)) == 2
    assert said in capsys.readouterr().err
    assert sorted(path.name for path in folder.iterdir()) == before


@pytest.mark.parametrize("signal_number", [signal.SIGINT, signal.SIGKILL])
def test_a_killed_run_leaves_no_file(folder, signal_number):
    before = sorted(path.name for path in folder.iterdir())
    command = [sys.executable, "-m", "gpuparse", "jackknife", str(folder / "run.yaml")]
    command += ["learning.epochs=10000", "--output", str(folder / "out.conllu")]
    process = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, env=dict(os.environ))
    try:
        time.sleep(4)
        assert process.poll() is None
        process.send_signal(signal_number)
        process.communicate(timeout=30)
    finally:
        process.kill()
    assert process.returncode != 0
    assert sorted(path.name for path in folder.iterdir()) == before
