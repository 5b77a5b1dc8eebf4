"""Guides from end to end: trained with, parsed with, refused where they are wrong or missing."""

import re
from types import SimpleNamespace

import numpy as np
import pytest

from gpuparse.commands import parse, train
from gpuparse.commands.console import run
from gpuparse.config import load_config
from gpuparse.data.conll import read_treebank, treebank_from_bytes, with_misc, write_predictions
from gpuparse.jobs.progress import silent
from gpuparse.jobs.train_checks import plan_of
from tests.commands.conftest import program
from tests.synthetic import generate

CONFIG = """
output: {folder}/model
features: guided
threads: 1
device: cpu
data:
  train: train.conllu
  test: test.conllu
  guide: misc:G
feature_map: {{rows: 65536}}
learning: {{epochs: 3}}
labels: {{rows: 16384, epochs: 1}}
"""


def guided(sentences: int, seed: int) -> tuple[bytes, bytes]:
    """A treebank whose MISC has guides that are right in 95 of 100 words, and those as HEAD."""
    treebank = treebank_from_bytes(generate(sentences, seed), "generated")
    draw, heads = np.random.default_rng(seed), treebank.heads.copy()
    for start, end in zip(treebank.word_starts[:-1], treebank.word_starts[1:], strict=True):
        for m in range(1, end - start + 1):
            if end - start > 1 and draw.random() < 0.05:
                heads[start + m - 1] = draw.choice([h for h in range(end - start + 1) if h != m])
    assert 0.03 < (heads != treebank.heads).mean() < 0.07
    return with_misc(treebank, {"G": heads.astype("S")}), write_predictions(treebank, heads)


@pytest.fixture(scope="module")
def guided_run(tmp_path_factory) -> SimpleNamespace:
    """Models with and without guides of the same treebank, and its files."""
    folder = tmp_path_factory.mktemp("guided")
    for name, count, seed in (("train", 200, 1), ("test", 100, 2)):
        in_misc, as_heads = guided(count, seed)
        (folder / f"{name}.conllu").write_bytes(in_misc)
        (folder / f"{name}-guides.conllu").write_bytes(as_heads)
    (folder / "run.yaml").write_text(CONFIG.format(folder=folder))
    config = str(folder / "run.yaml")
    assert run(train.main, [config, "--quiet"]) == 0
    bare = ["features=mcdonald-2005", "data.guide=null", f"output={folder}/bare", "--quiet"]
    assert run(train.main, [config, *bare]) == 0
    return SimpleNamespace(folder=folder, config=config, model=str(folder / "model"))


def uas(gold, output: bytes) -> float:
    return 100 * (read_treebank(gold).heads == treebank_from_bytes(output, "out").heads).mean()


def test_guides_raise_the_score_and_stand_anywhere(guided_run, call):
    folder, test = guided_run.folder, guided_run.folder / "test.conllu"
    code, found, _ = call(parse.main, guided_run.model, test, "--guide", "misc:G")
    assert code == 0
    code, bare, _ = call(parse.main, folder / "bare", test)
    assert code == 0
    assert uas(test, found) > 98
    assert uas(test, found) > uas(test, bare) + 1.5
    of_file = ["--guide", folder / "test-guides.conllu"]
    assert call(parse.main, guided_run.model, test, *of_file)[1] == found
    for more in (["--engine", "torch"], ["--threads", "2"]):
        assert call(parse.main, guided_run.model, test, "--guide", "misc:G", *more)[1] == found
    # Guides are looked at, heads are not.
    treebank = read_treebank(test)
    blank = write_predictions(treebank, np.full(treebank.n_words, -1))
    done = program("parse.py", guided_run.model, "--guide", "misc:G", input=blank)
    assert done.stdout == found
    assert done.returncode == 0


def test_words_without_guides_are_parsed_without(guided_run, call, tmp_path):
    treebank = read_treebank(guided_run.folder / "test.conllu")
    heads = ["" if w % 2 else str(h) for w, h in enumerate(treebank.heads.tolist())]
    half, none = tmp_path / "half.conllu", tmp_path / "none.conllu"
    half.write_bytes(with_misc(treebank, {"G": heads}))
    none.write_bytes(with_misc(treebank, {"G": [""] * treebank.n_words}))
    code, some, _ = call(parse.main, guided_run.model, half, "--guide", "misc:G")
    assert code == 0
    words = [guided_run.model, none, "--guide", "misc:G"]
    code, out, err = call(parse.main, *words)
    assert (code, out) == (3, b"")
    assert f"{none}: no word has a guide, G=HEAD in MISC (column 10); add them, or give" in err
    code, least, err = call(parse.main, *words, "--allow-missing")
    assert code == 0
    assert "no word has a guide" in err
    assert uas(half, least) < uas(half, some)


REFUSED = [  # the command, the exit code, words after the usual ones, and what is said
    (parse, 2, "", "the model has guide features: give --guide misc:KEY"),
    (parse, 2, "--guide misc:", "expected misc:KEY"),
    (parse, 2, "{folder}/test.conllu --guide {folder}/test-guides.conllu",
     "needs a single input"),
    (parse, 3, "--guide {folder}/nowhere", "nowhere: no such file"),
    (parse, 3, "--guide {folder}/train-guides.conllu", "{folder}/train-guides.conllu:"),
    (train, 2, "data.guide=null", "data.guide: missing; the set 'guided' has guide templates"),
    (train, 2, "features=mcdonald-2005", "the set 'mcdonald-2005' has no guide templates"),
    (train, 2, "data.guide=misc:a=b", "data.guide: expected misc:KEY or a path or null, the key"),
    (train, 2, "data.guide={folder}/train-guides.conllu",
     "data.test_guide: missing; data.guide is"),
    (train, 3, "data.guide=none.conllu data.test=null", "data.guide: none.conllu: no such file"),
    (train, 3, "data.test_guide=none.conllu", "data.test_guide: none.conllu: no such file"),
    (train, 3, "data.guide=misc:K", "no word has a guide, K=HEAD in MISC (column 10); gpuparse"),
]  # fmt: skip


@pytest.mark.parametrize(("command", "code", "words", "said"), REFUSED, ids=[r[3] for r in REFUSED])
def test_what_is_refused(guided_run, call, tmp_path, command, code, words, said):
    folder = guided_run.folder
    given = (
        [guided_run.model, folder / "test.conllu"]
        if command is parse
        else [guided_run.config, f"output={tmp_path}/m"]
    )
    found, out, err = call(command.main, *given, *words.format(folder=folder).split())
    assert (found, out, said.format(folder=folder) in err) == (code, b"", True)
    assert not (tmp_path / "m" / "weights.safetensors").exists()


def test_guides_that_do_not_fit_are_refused(guided_run, call, tmp_path):
    folder, test = guided_run.folder, guided_run.folder / "test.conllu"
    code, out, err = call(parse.main, folder / "bare", test, "--guide", "misc:G")
    assert (code, out, "has no guide features" in err) == (2, b"", True)
    bad = tmp_path / "bad.conllu"
    bad.write_bytes(re.sub(rb"G=\d+", b"G=999", test.read_bytes(), count=1))
    line = read_treebank(bad).lines[0]
    code, _, err = call(parse.main, guided_run.model, bad, "--guide", "misc:G")
    assert (code, f"{bad}:{line}: " in err) == (3, True)
    assert "the guide of word 1 is 999; expected a head, 0 to " in err


def test_dev_and_test_have_guides_of_their_own_or_those_of_the_same_key(guided_run, call, tmp_path):
    folder = guided_run.folder
    words = ["learning.epochs=1", f"data.dev={folder}/test.conllu", f"output={tmp_path}/m"]
    code, by_key, err = call(train.main, guided_run.config, *words)
    assert code == 0
    files = [f"data.{part}_guide={folder}/test-guides.conllu" for part in ("dev", "test")]
    files.append(f"data.guide={folder}/train-guides.conllu")
    code, by_file, other_err = call(train.main, guided_run.config, *words, *files, "--force")
    assert code == 0
    assert by_file == by_key
    scores = [re.findall(r"dev: UAS [\d.]+", text) for text in (err, other_err)]
    assert scores[0] == scores[1] != []


def test_guides_are_part_of_what_a_model_is_made_of(guided_run, tmp_path):
    guides = tmp_path / "guides.conllu"
    guides.write_bytes((guided_run.folder / "train-guides.conllu").read_bytes())
    words = ["data.test=null", f"output={tmp_path}/m"]
    by_file = load_config(guided_run.config, [*words, f"data.guide={guides}"])
    of_file = plan_of(by_file, silent)
    before = of_file.origin("abc")
    assert of_file.origin("abc") == before
    assert before.options["data.guide"] == "guides.conllu"
    guides.write_bytes(guides.read_bytes() + b"\n")
    assert of_file.origin("abc") != before
    in_misc = plan_of(load_config(guided_run.config, words), silent)
    assert in_misc.origin("abc").contents["data.train"] == "abc"
    assert in_misc.origin("abc").options["data.guide"] == "misc:G"
