"""Runs of decoders beyond the second order by the commands: pruning, certificates, resuming."""

from functools import partial

import numpy as np
import pytest

from gpuparse.commands import parse, train
from gpuparse.commands.console import run
from gpuparse.data.conll import read_treebank
from gpuparse.jobs import resources
from gpuparse.model.engines import admission
from gpuparse.model.folder import load_parser
from gpuparse.scorers import native
from gpuparse.scorers.sizes import PartSize, sentence_cells
from tests.commands.conftest import columns
from tests.learning.literal import higher_order_text
from tests.samples import random_sentences, template_set_text, text_of
from tests.synthetic import generate, treebank_file

CONFIG = """\
output: model
features: set.yaml
decoder: {decoder}
seed: 1
threads: 2
device: cpu
data: {{train: train.conllu, dev: {dev}, test: test.conllu}}
feature_map: {{rows: 65536}}
learning: {{epochs: 2, cost_augmented: true}}
pruning: {{max_heads: 4}}
labels: {{rows: 16384, epochs: 1}}
weights: {{bits: 16}}
"""
HIGHER_ORDER = higher_order_text(
    template_set_text(
        arc=["h.form m.form", "h.pos m.pos direction distance", "h.pos m.form", "h.form m.pos"],
        sibling=["s.pos m.pos direction", "h.pos s.pos m.pos"],
        end=["h.pos e.pos direction"],
    ),
    ["grandparent", "grand_sibling"],
)
MISC = 9


@pytest.fixture(scope="module", params=["eisner_grand_sibling", "dual_decomposition"])
def trained(request, tmp_path_factory):
    """A folder with a model and its treebanks, and what training said."""
    folder = tmp_path_factory.mktemp(request.param)
    (folder / "set.yaml").write_text(HIGHER_ORDER)
    (folder / "run.yaml").write_text(CONFIG.format(decoder=request.param, dev=treebank_file(20, 2)))
    (folder / "train.conllu").write_bytes(generate(40, 1))
    (folder / "test.conllu").write_bytes(generate(40, 3))
    said = []
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(train, "say", said.append)
        assert run(train.main, ["run.yaml"]) == 0
    return folder, request.param, said


@pytest.fixture
def parsed(trained, tmp_path, capfd):
    """Parse a file into bytes; (bytes, lines of standard error)."""

    def call(file, *words):
        output = tmp_path / f"out-{len(list(tmp_path.iterdir()))}"
        code = run(
            parse.main, [str(trained[0] / "model"), str(file), "--output", f"{output}/", *words]
        )
        assert code == 0
        return (output / file.name).read_bytes(), capfd.readouterr().err.splitlines()

    return call


def test_training_says_what_pruning_left(trained):
    [line] = [line for line in trained[2] if line.startswith("pruning: ")]
    heads = float(line.split()[1])
    assert 1 < heads <= 4
    assert "of the gold heads are not candidates" in line
    model = load_parser(trained[0] / "model")
    assert model.linear.pruner is not None
    assert (model.decoder, model.linear.pruner.max_heads) == (trained[1], 4)


def test_threads_batches_and_shards_change_no_byte(trained, parsed):
    file = trained[0] / "test.conllu"
    whole = parsed(file)[0]
    for words in (["--threads", "1"], ["--shard", "all/3"]):
        assert parsed(file, *words)[0] == whole


def certified(text):
    """Words, and those of them that are marked."""
    rows = [row for row in columns(text) if row[0].isdigit()]
    marked = [row for row in rows if b"Certified=No" in row[MISC].split(b"|")]
    return len(rows), len(marked)


def test_case_30_trees_that_may_not_be_the_best_ones_are_marked_and_counted(
    trained, parsed, monkeypatch, tmp_path
):
    file = trained[0] / "test.conllu"
    whole, said = parsed(file)
    counts = [line for line in said if "are certified to be the best ones" in line]
    if trained[1] != "dual_decomposition":
        assert not counts
        assert b"Certified" not in whole
        return
    assert len(counts) == 1
    monkeypatch.setattr(native, "Search", partial(native.Search, max_iterations=5))
    found, said = parsed(file)
    [count] = [line for line in said if "are certified to be the best ones" in line]
    treebank = read_treebank(file)
    predicted = load_parser(trained[0] / "model").parse(treebank)
    assert 0 < predicted.certified.sum() < 40
    assert f"{predicted.certified.sum()} of 40 trees" in count
    assert "have Certified=No in MISC" in count
    lengths = np.diff(treebank.word_starts)
    assert certified(found)[1] == lengths[~predicted.certified].sum()
    # What an earlier run said goes, in whole files and in shards.
    monkeypatch.undo()
    earlier = tmp_path / "earlier.conllu"
    earlier.write_bytes(found)
    assert parsed(earlier)[0] == whole
    assert parsed(earlier, "--shard", "all/4")[0] == whole


def test_marks_of_another_models_run_go(trained, parsed, tmp_path):
    marked = tmp_path / "marked.conllu"
    rows = (trained[0] / "test.conllu").read_text().splitlines()
    marked.write_text(
        "".join(
            (row[: row.rindex("\t")] + "\tCertified=No" if row[:1].isdigit() else row) + "\n"
            for row in rows
        )
    )
    assert marked.read_text().count("Certified=No") > 100
    if trained[1] != "dual_decomposition":
        assert certified(parsed(marked)[0])[1] == 0
    assert certified(parsed(marked)[0])[1] == certified(parsed(trained[0] / "test.conllu")[0])[1]


def test_long_sentences_are_parsed_by_a_lower_order(trained, parsed, monkeypatch):
    file = trained[0] / "test.conllu"
    lengths = np.diff(read_treebank(file).word_starts)
    middle = np.sort(lengths)[len(lengths) // 2 :][:1]
    most = int(sentence_cells(middle, PartSize(4, 4))[0])
    monkeypatch.setattr(admission, "MAX_CELLS", most)
    found, said = parsed(file)
    lower = "eisner" if trained[1] == "eisner_grand_sibling" else "chu_liu_edmonds"
    [line] = [line for line in said if "too long for decoder" in line]
    of_arcs = (lengths > middle) & (sentence_cells(lengths, PartSize(2)) <= most)
    assert 0 < of_arcs.sum() < len(lengths)
    assert f"{of_arcs.sum()} sentences were too long for decoder {trained[1]}" in line
    assert found.count(f"ParsedWith={lower}".encode()) == lengths[of_arcs].sum()


def test_heads_that_cross_are_kept_or_told(trained, tmp_path, capfd):
    crossing = tmp_path / "crossing.conllu"
    sentences = [
        words
        for words in random_sentences(82, 40, 7, projective=False)
        if [word[6] for word in words].count("0") == 1  # as in what was learned from
    ]
    crossing.write_text(text_of(sentences))
    words = [str(trained[0] / "model"), str(crossing), "--keep", "heads", "--allow-missing"]
    code = run(parse.main, [*words, "--on-error", "skip"])
    out, err = capfd.readouterr()
    heads = [row.split("\t")[6] for row in out.splitlines() if row[:1].isdigit()]
    if trained[1] == "dual_decomposition":
        assert code == 0
        assert heads == [word[6] for words in sentences for word in words]
    else:
        assert code == 1
        assert "cannot all be kept: decoder eisner_grand_sibling finds projective trees" in err
        assert 0 < len(heads) < sum(map(len, sentences))


def test_another_decoder_is_told(trained, parsed):
    file = trained[0] / "test.conllu"
    other = {"dual_decomposition": "eisner_grand_sibling"}.get(trained[1], "dual_decomposition")
    found, said = parsed(file, "--decoder", other)
    assert any(line.endswith(f"the weights were learned with {trained[1]}") for line in said)
    assert len(read_treebank(file).heads) == certified(found)[0]
    assert any("are certified" in line for line in said) == (other == "dual_decomposition")


def test_where_there_is_a_gpu_they_run_on_the_cpu_all_the_same(trained, monkeypatch, capfd):
    """Nothing of the kind is there, so that anything sent there would fail."""
    monkeypatch.setattr(resources, "cuda_trouble", lambda: "")
    file = str(trained[0] / "test.conllu")
    assert run(parse.main, [str(trained[0] / "model"), file, "--device", "auto"]) == 0
    monkeypatch.chdir(trained[0])
    words = ["run.yaml", "output=other", "learning.epochs=1", "learning.engine=native", "--force"]
    assert run(train.main, [*words, "device=auto"]) == 0
    assert run(train.main, [*words, "device=cuda"]) == 2
    assert "is native code on the CPU" in capfd.readouterr().err


REFUSED = [  # the command, its words, and what is said
    (parse, ["--probabilities"], "no exact sums"),
    (parse, ["--mbr"], "no exact sums"),
    (parse, ["--kbest", "2"], "finds one tree only"),
    (parse, ["--engine", "torch"], "computed by native code on the CPU"),
    (parse, ["--device", "cuda"], "computed by native code on the CPU"),
    (parse, ["--decoder", "eisner"], "no option changes that"),
    (train, ["learning.shards=2"], "learning.shards: unknown key"),
    (train, ["learning.k=2"], "finds one tree only"),
    (train, ["features=mcdonald-2005"], "templates, which decoder"),
    (train, ["learning.engine=torch"], "only native code learns"),
    (train, ["pruning.threshold=1.5"], "pruning.threshold: expected a number from 0 to 1"),
    (train, [f"data.train={treebank_file(3, 1)}"],
     "a pruner needs 4 sentences or more, and the treebank has 3"),
]  # fmt: skip


@pytest.mark.parametrize(("command", "words", "said"), REFUSED, ids=[row[2] for row in REFUSED])
def test_what_is_refused(trained, call, monkeypatch, command, words, said):
    monkeypatch.chdir(trained[0])
    given = ["model", "test.conllu"] if command is parse else ["run.yaml", "output=refused"]
    code, out, err = call(command.main, *given, *words)
    assert (code, out, said in err) == (2, b"", True)
    assert not (trained[0] / "refused" / "weights.safetensors").exists()
