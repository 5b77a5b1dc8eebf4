"""The train command: what it says and writes, what it refuses, and going on after a kill."""

import itertools
import os
import re

import numpy as np
import pytest

import gpuparse
from gpuparse.commands import crossval, evaluate, train
from gpuparse.commands.console import run
from gpuparse.config import parse_config
from gpuparse.data.conll import treebank_from_bytes
from gpuparse.errors import ConfigError
from gpuparse.files import lock_folder, replace_file
from gpuparse.inference.nearest_trees import unkeepable
from gpuparse.jobs import checkpoint, gold, records, train_scores
from gpuparse.jobs.receipts import Origin
from gpuparse.jobs.records import METRICS, read_metrics
from gpuparse.learning.trainer import StagesTrainer
from gpuparse.model.folder import WEIGHTS, load_parser
from tests.runs import model_files
from tests.samples import without
from tests.synthetic import generate, treebank_file


def error_of(result) -> str:
    """The one error line of a run that failed; nothing but progress beside it."""
    code, _, lines = result
    assert code != 0
    errors = [line for line in lines if line.startswith("gpuparse: error: ")]
    assert len(errors) == 1, lines
    return errors[0].removeprefix("gpuparse: error: ")


def test_it_prints_the_scores_of_its_own_model(trained, parse_run, call, tmp_path):
    (tmp_path / "parsed.conllu").write_bytes(parse_run(trained.test, "--quiet")[1])
    _, table, _ = call(evaluate.main, trained.test, tmp_path / "parsed.conllu")
    assert trained.out.startswith(table.decode())


def test_it_says_what_it_works_with(trained):
    assert "gpuparse: train: 300 sentences, " in trained.err
    assert re.search(
        r"arcs, epoch 3 of 3: [\d.]+ s, [\d.]+% of the words right, dev UAS [\d.]+"
        r"; 3 epochs in [\d.]+ s, the last one is kept\n",
        trained.err,
    )
    assert re.search(
        r"labels, epoch 2 of 2: .*, dev UAS [\d.]+, LAS [\d.]+; 2 epochs in", trained.err
    )
    assert "1 thread, parsing on cpu" in trained.err
    assert "CUDA" not in trained.err
    # A line for each stage where stderr is no terminal, since epochs take less than 10 seconds.
    assert len(re.findall(r"(arcs|labels), epoch", trained.err)) == 2


def test_the_model_folder_holds_the_model_and_its_config(trained):
    assert set(model_files(trained.model)) == {
        "README.md",
        "card.json",
        "config.yaml",
        "features.yaml",
        "label-features.yaml",
        "vocabulary.json",
        "weights.safetensors",
    }
    config = parse_config((trained.model / "config.yaml").read_text(), "config.yaml")
    assert config.learning.epochs == 3
    assert config.data.train.endswith("train.conllu")


def test_case_46_the_same_bytes_again_wherever_and_with_any_threads(trained, train_run, tmp_path):
    code, out, _ = train_run("threads=2", "device=auto", "--quiet")
    assert code == 0
    assert out == trained.out
    assert model_files(tmp_path / "model") == model_files(trained.model)


def test_quiet_says_nothing_and_another_seed_gives_another_model(trained, train_run, tmp_path):
    code, out, lines = train_run("--quiet", "seed=2", "data.test=null", "data.dev=null")
    assert (code, out, lines) == (0, "", [])
    weights = "weights.safetensors"
    assert model_files(tmp_path / "model")[weights] != model_files(trained.model)[weights]


def test_bits_follow_the_development_score(train_run, tmp_path, monkeypatch):
    # No loss is too much, then any loss at all.
    for loss, bits, kind in ((100.0, 8, "int8"), (-100.0, 16, "int16")):
        monkeypatch.setattr(StagesTrainer, "most_loss", loss)
        code, _, lines = train_run("--force", "data.test=null", "learning.epochs=1")
        assert code == 0
        assert any(f"model of {bits}-bit weights" in line for line in lines)
        assert load_parser(tmp_path / "model").linear.arcs.array.dtype == kind
    train_run("--force", "data.test=null", "weights.bits=8", "learning.epochs=1")
    assert load_parser(tmp_path / "model").linear.arcs.array.dtype == "int8"
    train_run("--force", "data.test=null", "data.dev=null", "learning.epochs=1")
    assert load_parser(tmp_path / "model").linear.arcs.array.dtype == "int16"


def test_case_16_unreachable_trees_are_counted_and_heads_alone_have_no_las(train_run):
    code, out, lines = train_run("decoder=eisner", "learning.epochs=1", "labels.kind=none")
    assert (code, "UAS" in out, "LAS" in out) == (0, True, False)
    said = "the nearest projective tree is learned from"
    assert any(re.search(rf"[1-9]\d* non-projective training trees: {said}", x) for x in lines)


def test_unreachable_trees_are_left_out_or_errors(train_run, tmp_path):
    words = ["decoder=eisner", "learning.epochs=1", "labels.epochs=1", "data.test=null"]
    words += ["data.dev=null", "calibration=none"]
    train = generate(200, 3)
    treebank = treebank_from_bytes(train, "train")
    is_projective = [not unkeepable(np.array(sentence.heads)) for sentence in treebank]
    assert 0 < sum(is_projective) < 199
    (tmp_path / "all.conllu").write_bytes(train)
    starts = [*treebank.spans[:, 0].tolist(), len(train)]
    some = [train[i:j] for i, j in itertools.pairwise(starts)]
    (tmp_path / "some.conllu").write_bytes(b"".join(itertools.compress(some, is_projective)))
    models = []
    for file, how in (("all", "skip"), ("some", "error"), ("some", "projectivise")):
        code, _, lines = train_run(
            f"data.train={tmp_path / file}.conllu", f"learning.unreachable={how}", *words, "--force"
        )
        assert code == 0
        said = f"{200 - sum(is_projective)} non-projective training trees: left out by the parser"
        assert (f"gpuparse: {said}" in lines) == (how == "skip")
        models.append(load_parser(tmp_path / "model").linear.arcs.array.copy())
    assert all(np.array_equal(model, models[0]) for model in models)
    code, _, lines = train_run(
        f"data.train={tmp_path / 'all.conllu'}", "learning.unreachable=error", *words, "--force"
    )
    assert code == 3
    first = is_projective.index(False)
    line = int(treebank.lines[treebank.word_starts[first]])
    assert f"{tmp_path / 'all.conllu'}:{line}: " in lines[-1]
    assert "the tree has crossing arcs, and decoder eisner finds projective trees" in lines[-1]


BAD_TREE = b"1\ta\ta\tX\tX\t_\t2\tdep\t_\t_\n2\tb\tb\tX\tX\t_\t1\tdep\t_\t_\n\n"
BAD_ROW = b"1\ta\ta\tX\n\n"


def test_faulty_sentences_stop_it_or_are_left_out(trained, train_run, tmp_path):
    train_part, test_part = generate(50, 1), generate(20, 2)
    faulty, sound = tmp_path / "faulty.conllu", tmp_path / "sound.conllu"
    faulty.write_bytes(BAD_TREE + train_part + BAD_ROW)
    sound.write_bytes(train_part)
    (tmp_path / "faulty-test.conllu").write_bytes(test_part + BAD_TREE + test_part)
    (tmp_path / "sound-test.conllu").write_bytes(test_part + test_part)
    few = ["learning.epochs=1", "labels.epochs=1", "data.dev=null"]
    failed = train_run(f"data.train={faulty}", *few)
    assert failed[0] == 3
    assert error_of(failed).startswith(f"{faulty}:")
    skip = [*few, "data.on_error=skip", "--force"]
    code, out, lines = train_run(
        f"data.train={faulty}", f"data.test={tmp_path}/faulty-test.conllu", *skip
    )
    assert code == 0
    assert f"gpuparse: {faulty}: 2 malformed sentences skipped" in lines
    tensors = load_parser(tmp_path / "model").linear.arcs.array.copy()
    code, same_out, _ = train_run(
        f"data.train={sound}", f"data.test={tmp_path}/sound-test.conllu", *skip
    )
    assert (code, same_out) == (0, out)
    assert (load_parser(tmp_path / "model").linear.arcs.array == tensors).all()


REFUSED = [  # overrides, the exit code, and all that is said
    ("learning.epoch=3", 2, ["unknown key; did you mean learning.epochs"]),
    ("learning.epochs=many", 2, ["expected an integer"]),
    ("features=extendet", 2, [" or extended or extended-guided or "]),
    ("features=none.yaml", 2, ["none.yaml"]),
    ("labels.features=mcdonald-2005", 2, ["has no label templates"]),
    ("data.train=none.conllu", 3, ["data.train: none.conllu: no such file"]),
    ("data.train=a.conllu data.dev=b.conllu data.test=c.conllu", 3,
     [f"data.{name}.conllu: no such file" for name in ("train: a", "dev: b", "test: c")]),
    ("data.train={empty}", 3, ["no sentences"]),
    ("device=cuda", 2, ["no CUDA here"]),
    ("--device cuda", 2, ["no CUDA here"]),
    ("output={long}", 2, ["{long}: cannot be made: File name too long; name another output"]),
    ("output=/proc/gpuparse/model", 2, ["cannot be made: No such file or directory; name another"]),
    ("output={empty}/model", 2, ["{empty}/model: is not a folder; name another output"]),
    ("output={empty}/model decoder=eisner", 2, ["{empty}/model: is not a folder; name another"]),
    ("output={empty} --force", 2, ["{empty}: is not a folder"]),
    ("--resume output={linked}", 2, ["last: is a link"]),
    ("--force output={linked}", 2, ["last: is a link"]),
    ("output={letter}", 2, ["holds other files"]),
    ("output={letter} --resume", 2, ["holds other files"]),
    ("output={model}", 2, ["holds a finished model; give --force"]),
    ("output={model} --resume", 2, ["nothing to resume"]),
    ("output={locked}", 2, ["another process is writing there"]),
]  # fmt: skip


@pytest.mark.parametrize(("words", "code", "said"), REFUSED, ids=[row[0] for row in REFUSED])
def test_case_37_what_cannot_be_done_is_told_and_leaves_nothing(
    trained, train_run, tmp_path, monkeypatch, words, code, said
):
    monkeypatch.setattr("gpuparse.jobs.resources.cuda_trouble", lambda: "no CUDA here")
    names = {name: tmp_path / name for name in ("empty", "linked", "letter", "locked", "other")}
    names |= {"long": tmp_path / ("long" * 100), "model": trained.model}
    names["empty"].write_text("# nothing\n")
    for name in ("linked", "letter", "locked", "other"):
        names[name].mkdir()
    (names["letter"] / "letter.txt").write_text("dear")
    (names["other"] / "state.safetensors").write_text("mine")
    (names["linked"] / "last").symlink_to(names["other"])
    folders = [tmp_path, trained.model]
    with lock_folder(names["locked"]):
        before = [model_files(folder) for folder in folders]
        found, out, lines = train_run(*words.format(**names).split())
        assert [model_files(folder) for folder in folders] == before
    errors = [line for line in lines if line.startswith("gpuparse: error: ")]
    assert (found, out, len(errors)) == (code, "", len(said))
    for error, each in zip(errors, said, strict=True):
        assert each.format(**names) in error
    assert not (tmp_path / "model").exists()


def test_what_is_wrong_in_a_config_is_said_before_anything_is_read(trained, monkeypatch, tmp_path):
    monkeypatch.setattr(gold, "read_input", cut)
    for decoder in ("eisner", "auto"):
        with pytest.raises(ConfigError, match="cannot be made: No such file or directory"):
            gpuparse.train(
                str(trained.config), {"output": "/proc/gpuparse/model", "decoder": decoder}
            )


def test_what_a_killed_run_left_is_no_obstacle(train_run, tmp_path, monkeypatch):
    """A kill before the first checkpoint leaves no state, but it may leave a temporary file."""
    folder = tmp_path / "model"
    folder.mkdir()
    monkeypatch.setattr(os, "replace", cut)
    monkeypatch.setattr(os, "unlink", cut)
    with pytest.raises(Cut), replace_file(folder / METRICS) as file:
        file.write(b"half a li")
    monkeypatch.undo()
    assert [file.name for file in folder.iterdir()] == [".metrics.jsonl.gpuparse.part"]
    assert train_run("data.test=null", "data.dev=null", "learning.epochs=1")[0] == 0
    assert not list(folder.glob("*.part")) + list(folder.glob(".*"))


def test_a_run_of_which_nothing_was_kept_begins_anew(trained, train_run, tmp_path):
    """Wherever a run is killed, the same command with --resume ends with the model."""
    folder = tmp_path / "model"
    begins_anew = f"gpuparse: {folder}: nothing is kept of an earlier run: this one begins anew"
    code, out, lines = train_run("--resume")  # killed before the folder was made
    assert (code, out) == (0, trained.out)
    assert begins_anew in lines
    assert model_files(folder) == model_files(trained.model)
    (folder / "last").mkdir()  # killed after --force, before anything was kept
    assert "holds an unfinished run; give --resume" in error_of(train_run("seed=2"))
    code, out, lines = train_run("--resume")
    assert (code, out) == (0, trained.out)
    assert begins_anew in lines
    assert model_files(folder) == model_files(trained.model)
    assert "there is nothing to resume" in error_of(train_run("--resume"))
    (folder / "letter.txt").write_text("dear")
    for file in (WEIGHTS, METRICS):
        (folder / file).unlink()
    assert "holds other files" in error_of(train_run("--resume"))


@pytest.mark.parametrize("where", ["write", "write_test"])
def test_a_kill_after_the_model_is_written_loses_nothing(
    trained, train_run, tmp_path, monkeypatch, where
):
    folder = tmp_path / "model"
    with monkeypatch.context() as patch:
        patch.setattr(train_scores.RunScores, where, cut)
        with pytest.raises(Cut):
            train_run()
    assert (folder / WEIGHTS).exists()
    assert "holds an unfinished run" in error_of(train_run())
    code, out, lines = train_run("--resume")
    assert (code, out) == (0, trained.out)
    assert not any(", epoch " in line for line in lines)
    assert model_files(folder) == model_files(trained.model)
    found, expected = (records.read_scores(each) for each in (folder, trained.model))
    assert (found["dev"], found["files"]) == (expected["dev"], expected["files"])
    assert set(found["test"]) == set(expected["test"])


def test_an_interruption_says_how_to_go_on(train_run, monkeypatch, trained, tmp_path):
    def interrupt(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(checkpoint, "write_checkpoint", interrupt)
        code, out, lines = train_run("--quiet")
        told = train_run("--quiet", "--force")[2]
    assert (code, out) == (130, "")
    said = "gpuparse: interrupted; to continue, run the same command with --resume"
    assert (lines, told) == ([said], [f"{said} in place of --force"])
    assert not (tmp_path / "model" / "last").exists()  # there was nothing in it
    assert train_run("--quiet", "--resume")[:2] == (0, trained.out)


def test_a_treebank_without_relations_trains_heads_only(trained, train_run, tmp_path):
    for name, file in (("train", trained.folder / "train.conllu"), ("test", trained.test)):
        (tmp_path / f"{name}.conllu").write_bytes(without(file.read_bytes(), 7))
    words = [f"data.train={tmp_path}/train.conllu", f"data.test={tmp_path}/test.conllu"]
    code, out, lines = train_run(*words)
    said = (
        f"{tmp_path}/train.conllu: DEPREL (column 8) is `_` in every word: heads only are learned"
    )
    assert code == 0
    assert f"gpuparse: {said}" in lines
    assert "LAS" not in out
    found = model_files(tmp_path / "model")
    assert train_run(*words, "labels.kind=none", "--force")[:2] == (0, out)
    assert model_files(tmp_path / "model") == found
    assert "labels: {kind: none" in found["config.yaml"].decode().replace("\n  kind", " {kind")


BEST = [
    "learning.epochs=8", "labels.epochs=6", "data.test=null", "learning.keep=best",
    f"data.train={treebank_file(80, 5)}", "weights.bits=16",
]  # fmt: skip


def test_the_best_epoch_is_kept_if_asked(train_run, tmp_path):
    words = [*BEST, f"data.dev={treebank_file(40, 9)}"]
    code, _, lines = train_run(*words)
    assert code == 0
    folder = tmp_path / "model"
    best = {}  # the first of the highest scores on data.dev
    for stage, measure in (("arcs", "dev_uas"), ("labels", "dev_las")):
        of_stage = [line for line in read_metrics(folder) if line["stage"] == stage]
        best[stage] = max(of_stage, key=lambda line, measure=measure: line[measure])["epoch"]
    assert (best["arcs"], best["labels"]) == (6, 3)  # and not the last ones
    for stage, epoch in best.items():
        line = next(line for line in lines if f"gpuparse: {stage}, epoch" in line)
        assert line.endswith(f", epoch {epoch} is kept")
    model = load_parser(folder)
    of_best = next(
        line for line in read_metrics(folder)
        if (line["stage"], line["epoch"]) == ("labels", best["labels"])
    )  # fmt: skip
    scores = records.read_scores(folder)["dev"]
    assert scores["uas"]["percent"] == pytest.approx(of_best["dev_uas"])
    assert scores["las"]["percent"] == pytest.approx(of_best["dev_las"])
    # The epochs of a run do not depend on how many there are.
    short = [f"learning.epochs={best['arcs']}", f"labels.epochs={best['labels']}"]
    assert train_run(*words, *short, "learning.keep=last", "--force")[0] == 0
    last = load_parser(folder)
    assert (last.linear.arcs.array == model.linear.arcs.array).all()
    assert (last.linear.label_weights.array == model.linear.label_weights.array).all()


def test_without_data_dev_the_last_epoch_is_kept(train_run, trained, call, tmp_path):
    short = ["data.dev=null", "learning.epochs=2", "labels.epochs=1"]
    code, _, lines = train_run(*BEST, *short)
    said = "gpuparse: learning.keep best: without data.dev, the last epoch is kept"
    assert (code, lines.count(said)) == (0, 1)
    best = model_files(tmp_path / "model")
    assert train_run(*BEST, *short, "learning.keep=last", "--force")[0] == 0
    assert model_files(tmp_path / "model") == best
    folds = ["--folds", "2", "--output", tmp_path / "folds"]
    code, _, err = call(crossval.main, trained.config, "learning.keep=best", *folds)
    assert (code, "the parsers of folds have no data.dev" in err) == (2, True)


@pytest.mark.parametrize("config", ["fast", "default", "best"])
def test_partial_trees_have_a_set_that_learns_from_them(config, tmp_path, capsys):
    """The advice of the error can be followed in each config with word vectors."""
    partial = tmp_path / "partial.conllu"
    rows = enumerate(generate(40, 3).split(b"\n"))
    partial.write_bytes(b"\n".join(row if n % 2 else without(row, 6, 7) for n, row in rows))
    words = [config, f"data.train={partial}", "data.partial=true", f"output={tmp_path / 'model'}",
             "learning.epochs=1", "labels.epochs=1", "calibration=none", "--quiet"]  # fmt: skip
    assert run(train.main, words) == 2
    advice = re.search(r"give (features=\w+), a set without them", capsys.readouterr().err)
    assert run(train.main, [*words, advice[1]]) == 0
    assert load_parser(tmp_path / "model").label_names


class Cut(BaseException):
    """Ends a run as a kill would, just after a checkpoint."""


def cut(*_, **__):
    raise Cut


def cut_at(monkeypatch, n_checkpoints: int, *, is_written: bool = True) -> None:
    counter, original = itertools.count(1), checkpoint.write_checkpoint

    def write(*words):
        number = next(counter)
        if is_written or number < n_checkpoints:
            original(*words)
        if number == n_checkpoints:
            raise Cut

    monkeypatch.setattr(checkpoint, "write_checkpoint", write)


SMALL = ["data.dev=null", "data.test=null"]
RUNS = {  # overrides, the epochs that are learned, and the checkpoints that it is cut off at
    "batches": ([*SMALL, "learning.epochs=2", "learning.batch_size=3"],
                "arcs 2 labels 2", (1, 2, 3, 4)),
    "scores": ([], "arcs 3 labels 2", (1, 4)),
    "word vectors": (["features=extended-vectors", "word_vectors.epochs=2", "learning.epochs=1",
                      "data.dev=null"], "vectors 2 arcs 1 labels 2", (1, 2)),
    "pruning": ([*SMALL, "decoder=dual_decomposition", "features=extended", "learning.epochs=1",
                 f"data.train={treebank_file(40, 1)}", "labels.kind=none"],
                "pruning 3 arcs 1", (1, 2, 3, 4)),
    "best epochs": ([*BEST, f"data.dev={treebank_file(40, 9)}"], "arcs 8 labels 6", (3, 8, 9, 13)),
}  # fmt: skip


@pytest.mark.parametrize("name", RUNS)
def test_case_35_a_run_cut_off_at_any_checkpoint_ends_with_the_same_bytes(
    train_run, tmp_path, monkeypatch, name
):
    """Cut off after the checkpoint is written, or before; each epoch is recorded once."""
    words, stages, checkpoints = RUNS[name]
    stages = stages.split()
    every = [(stage, epoch) for stage, n in zip(stages[::2], stages[1::2], strict=True)
             for epoch in range(1, 1 + int(n))]  # fmt: skip
    folder = tmp_path / "model"
    monkeypatch.setattr("gpuparse.learning.stages.pruning.FOLDS", 2)
    code, out, lines = train_run(*words)
    assert code == 0, lines
    whole, scores = model_files(folder), records.read_scores(folder)
    assert epochs(folder) == every
    for n, is_written in (*((n, True) for n in checkpoints), (checkpoints[-1], False)):
        with monkeypatch.context() as patch:
            cut_at(patch, n, is_written=is_written)
            with pytest.raises(Cut):
                train_run(*words, "--force")
        assert epochs(folder) == every[:n]
        assert "holds an unfinished run" in error_of(train_run(*words))
        with (folder / METRICS).open("a") as file:
            file.write('{"stage": "labels", "epo')  # as a full disk may leave it
        code, again, lines = train_run(*words, "--resume")
        assert (code, again) == (0, out)
        assert epochs(folder) == every
        assert len((folder / METRICS).read_text().splitlines()) == len(every)
        assert model_files(folder) == whole
        assert records.read_scores(folder).get("dev") == scores.get("dev")
        assert not any(line.startswith("gpuparse: pruning: ") for line in lines) or n < 4


def epochs(folder) -> list[tuple[str, int]]:
    return [(line["stage"], line["epoch"]) for line in read_metrics(folder)]


@pytest.fixture
def unfinished(train_run, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        cut_at(patch, 1)
        with pytest.raises(Cut):
            train_run("--quiet")
    return tmp_path / "model" / "last" / "state.safetensors"


def test_few_of_many_keys_that_differ_are_named():
    many = Origin({f"k{i}": 1 for i in range(50)}, {})
    lines = many.differences(Origin({"seed": 1}, {}))
    assert (len(lines), lines[-1]) == (21, "31 more options differ")


@pytest.mark.usefixtures("unfinished")
def test_only_the_same_run_can_be_resumed(trained, train_run, tmp_path):
    code, _, lines = train_run("--resume", "seed=5", "learning.epochs=7")
    assert code == 2
    text = "\n".join(lines)
    assert "cannot continue: seed was 1 and is now 5" in text
    assert "cannot continue: learning.epochs was 3 and is now 7" in text
    before = (trained.folder / "train.conllu").read_bytes()
    try:
        (trained.folder / "train.conllu").write_bytes(before + generate(1, 77))
        text = "\n".join(train_run("--resume")[2])
    finally:
        (trained.folder / "train.conllu").write_bytes(before)
    assert "cannot continue: data.train: has other content" in text
    assert train_run("--resume", "threads=2", "--quiet")[0] == 0
    assert model_files(tmp_path / "model") == model_files(trained.model)


def test_a_damaged_checkpoint_is_told(unfinished, trained, train_run, tmp_path):
    state = bytearray(unfinished.read_bytes())
    for damaged in (state[:-100], state[:-1] + bytes([state[-1] ^ 1]), b""):
        unfinished.write_bytes(damaged)
        result = train_run("--resume")
        assert result[0] == 4
        assert "give --force to start again" in error_of(result)
    assert train_run("--force", "--quiet")[0] == 0
    assert model_files(tmp_path / "model") == model_files(trained.model)
