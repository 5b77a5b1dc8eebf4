"""The train command: rules and trees known in part, and what is refused before data is read."""

import pytest

from gpuparse.commands import train
from gpuparse.commands.console import run
from gpuparse.jobs import train as train_job
from gpuparse.model.folder import load_parser
from tests.runs import model_files
from tests.synthetic import generate

CONFIG = """\
output: model
features: features.yaml
decoder: eisner
seed: 1
threads: 1
device: cpu
data:
  train: train.conllu
feature_map: {rows: 65536}
learning: {epochs: 1}
labels: {rows: 4096, epochs: 1, features: labels.yaml}
weights: {bits: 16}
"""
ARCS = "arc: [{templates: [h.pos m.pos, m.form]}]\nsibling: [{templates: [s.pos m.pos]}]\n"


@pytest.fixture
def train_here(tmp_path, capsys, monkeypatch):
    """Train in a folder of its own; (exit code, stderr)."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run.yaml").write_text(CONFIG)
    (tmp_path / "features.yaml").write_text(ARCS)
    (tmp_path / "labels.yaml").write_text("label: [{templates: [m.pos, h.pos m.pos]}]\n")
    (tmp_path / "tree.yaml").write_text("label: [{templates: [g.pos m.pos]}]\n")

    def call(*words):
        code = run(train.main, ["run.yaml", "--force", *words])
        return code, capsys.readouterr().err

    return call


def without_heads(text: bytes) -> bytes:
    """Every third word of every second sentence without a head."""
    blocks = text.decode().strip().split("\n\n")
    for b in range(0, len(blocks), 2):
        rows = [line.split("\t") for line in blocks[b].split("\n")]
        for columns in rows:
            if columns[0].isdigit() and int(columns[0]) % 3 == 0:
                columns[6] = "_"
        blocks[b] = "\n".join("\t".join(columns) for columns in rows)
    return ("\n\n".join(blocks) + "\n\n").encode()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["learning.k=2", "learning.rule=perceptron"], "learns from one tree only"),
        (["learning.k=2", "decoder=hill_climb"], "decoder hill_climb finds one tree only"),
        (["learning.rule=conditional"], "learning.max_step must be given"),
        (["learning.rule=mira-factored", "decoder=eisner_sibling"], "is of the first order"),
        (["labels.kind=joint", "decoder=multi_parent"], "finds graphs"),
        (["learning.rule=mira-factored", "learning.batch_size=2"], "batch_size must be 1"),
        (["labels.kind=joint", "labels.features=tree.yaml"], "looks at g"),
        (["data.partial=true", "decoder=multi_parent"], "data.partial: decoder multi_parent"),
        (["learning.engine=torch", "decoder=hill_climb"], "learns with decoder hill_climb"),
        (["device=cuda", "decoder=multi_parent"], "which device cuda selects too"),
        (
            ["learning.engine=torch", "learning.rule=mira-factored"],
            "learns with learning.rule mira-factored",
        ),
        (["learning.engine=torch", "labels.kind=joint"], "choose second-stage or none"),
    ],
)
def test_options_are_refused_before_data_is_read(train_here, words, message):
    """There is no treebank here at all."""
    code, text = train_here(*words)
    assert code == 2
    assert message in text
    assert "no such file" not in text


def test_missing_heads_are_an_error_that_names_the_key(train_here, tmp_path):
    (tmp_path / "train.conllu").write_bytes(without_heads(generate(20, 1)))
    code, text = train_here()
    assert code == 3
    assert "no HEAD for word" in text
    assert "data.on_error=skip skips such sentences, data.partial=true learns from" in text
    # Other faults are none of a missing head, and treebanks that are scored need whole trees.
    (tmp_path / "dev.conllu").write_bytes(without_heads(generate(20, 1)))
    code, text = train_here("data.dev=dev.conllu", "data.partial=true")
    assert code == 3
    assert "dev.conllu" in text
    assert "data.partial=true" not in text
    (tmp_path / "train.conllu").write_text("1\ta\t_\tN\t_\t_\t1\tx\t_\t_\n\n")
    code, text = train_here()
    assert code == 3
    assert "is its own head" in text
    assert "data.partial" not in text
    assert train_here("data.partial=true")[0] == 3


def test_trees_known_in_part_are_learned_from(train_here, tmp_path):
    (tmp_path / "train.conllu").write_bytes(without_heads(generate(40, 1)))
    code, text = train_here("data.partial=true")
    assert code == 0, text
    assert "of them without a head" in text
    code, text = train_here("data.on_error=skip")
    assert code == 0
    assert "20 malformed sentences skipped" in text
    assert "of them without a head" not in text


def test_where_all_heads_are_known_the_key_changes_nothing_but_the_record(train_here, tmp_path):
    (tmp_path / "train.conllu").write_bytes(generate(40, 1))
    weights = []
    for partial in ("true", "false"):
        assert train_here(f"data.partial={partial}")[0] == 0
        files = model_files(tmp_path / "model")
        assert f"partial: {partial}".encode() in files.pop("config.yaml")
        files.pop("weights.safetensors")  # holds the sum of the config
        del files["card.json"], files["README.md"]  # and so do these
        weights.append((files, load_parser(tmp_path / "model").linear.arcs.array.tobytes()))
    assert weights[0] == weights[1]


def test_learning_in_torch_repeats_and_is_recorded(train_here, tmp_path):
    (tmp_path / "train.conllu").write_bytes(generate(60, 1))
    models = []
    for words in (
        ["threads=1"],
        ["threads=2", "learning.engine=torch"],
        ["learning.engine=native"],
    ):
        code, text = train_here("learning.batch_size=16", "learning.engine=torch", *words)
        assert code == 0, text
        models.append(model_files(tmp_path / "model"))
    assert models[0] == models[1]
    assert b"engine: torch" in models[0]["config.yaml"]
    assert b"engine: native" in models[2]["config.yaml"]
    code, text = train_here("learning.engine=torch")
    assert "arcs are learned in torch on cpu, learning.batch_size 1; larger" in text


def test_what_learned_half_of_a_run_learns_the_rest(train_here, tmp_path, monkeypatch):
    (tmp_path / "train.conllu").write_bytes(generate(30, 1))
    words = ["learning.batch_size=8", "learning.epochs=2"]
    assert train_here(*words, "learning.engine=torch")[0] == 0
    whole = (tmp_path / "model" / "weights.safetensors").read_bytes()

    def killed(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(train_job, "_bits", killed)
        assert train_here(*words, "learning.engine=torch")[0] != 0
    arguments = ["run.yaml", "--resume", *words]
    assert run(train.main, [*arguments, "learning.engine=native"]) == 2
    assert run(train.main, [*arguments, "learning.engine=torch"]) == 0
    assert (tmp_path / "model" / "weights.safetensors").read_bytes() == whole
