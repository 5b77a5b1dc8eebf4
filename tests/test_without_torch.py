"""The packages of `pip install gpuparse` suffice: all commands run without torch and triton.

`.ci/run` tries an environment without torch, and measures it.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from gpuparse.__main__ import COMMANDS
from tests.graphs_by_place import deps_of_heads
from tests.synthetic import generate
from tests.tiny_encoders import write_encoder

ROOT = Path(__file__).parents[1]
HIDDEN = ("torch", "triton")
Run = Callable[..., str]
SMALL = """
features: mcdonald-2005
decoder: chu_liu_edmonds
threads: 2
data: {train: train.conllu, dev: dev.conllu, test: test.conllu}
feature_map: {rows: 65537}
learning: {epochs: 1}
labels: {rows: 16384, epochs: 1}
"""
STAGES = [f"{stage}.learn=true" for stage in ("tokenizer", "tagger", "lemmatizer")]
# Systems whose learning, search or labels are code of their own, beside that of the pipeline.
SYSTEMS = {
    "siblings": ["features=mcdonald-pereira-2006", "decoder=eisner_sibling"],
    "graphs": [
        "features=mcdonald-pereira-2006", "decoder=multi_parent", "labels.features=graph-labels",
        "data.train=graphs.conllu",
    ],
    "grandchildren": [
        "features=carreras-2007", "decoder=eisner_grandchild", "labels.kind=joint",
        "labels.features=carreras-2007",
    ],
    "third-order": ["features=third-order", "decoder=eisner_grand_sibling", "labels.kind=joint",
                    "labels.features=joint-labels"],
    "vectors": ["features=fast", "labels.features=fast-labels", "word_vectors.margin=2"],
    "conditional": ["learning.rule=conditional", "learning.max_step=0.1"],
}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Treebanks, a config, and modules that hide torch and triton."""
    folder = tmp_path_factory.mktemp("without")
    (folder / "hidden").mkdir()
    for package in HIDDEN:
        error = f"ModuleNotFoundError('No module named {package}', name='{package}')"
        (folder / "hidden" / f"{package}.py").write_text(f"raise {error}\n")
    for number, name in enumerate(("train", "dev", "test"), start=1):
        (folder / f"{name}.conllu").write_bytes(generate(60 if name == "train" else 12, number))
    (folder / "graphs.conllu").write_bytes(deps_of_heads((folder / "train.conllu").read_bytes()))
    (folder / "small.yaml").write_text(SMALL)
    return folder


@pytest.fixture(scope="module")
def python(folder: Path) -> Run:
    """Run Python in that folder; returns stdout, or stderr of a call that fails with `code`."""

    def run(*words: str, code: int = 0, given: str = "") -> str:
        path = os.pathsep.join([str(folder / "hidden"), str(ROOT)])
        done = subprocess.run(
            [sys.executable, *words], cwd=folder, input=given, capture_output=True, text=True,
            env={**os.environ, "PYTHONPATH": path}, check=False,
        )  # fmt: skip
        assert done.returncode == code, done.stderr
        return done.stderr if code else done.stdout

    return run


@pytest.fixture(scope="module")
def gpuparse(python: Run) -> Run:
    """Run a command."""
    return lambda *words, **how: python("-m", "gpuparse", *words, **how)


@pytest.fixture(scope="module")
def model(gpuparse: Run, folder: Path) -> str:
    """The folder of a model with all stages; `parsed.conllu` is a parse of `test.conllu`."""
    gpuparse("train", "small.yaml", *STAGES, "tagger.folds=2", "output=model")
    parsed = gpuparse("parse", "model", "test.conllu", "--probabilities")
    (folder / "parsed.conllu").write_text(parsed)
    return "model"


def test_torch_is_hidden(python: Run) -> None:
    for package in HIDDEN:
        assert "ModuleNotFoundError" in python("-c", f"import {package}", code=1)


def test_the_quickstart(gpuparse: Run, folder: Path) -> None:
    assert "LAS" in gpuparse("train", "quickstart", "learning.epochs=1", "labels.epochs=1")
    assert json.loads((folder / "runs/quickstart/scores.json").read_text())["device"] == "cpu"


# Runs command lines one after the other in one process.
LINES = """
import json, sys
from gpuparse.__main__ import main
for words in json.loads(sys.argv[1]):
    print("gpuparse", *words, file=sys.stderr)
    assert main(words) == 0
"""


def test_systems_are_learned_parse_and_are_explained(python: Run, folder: Path) -> None:
    lines = []
    for name, keys in SYSTEMS.items():
        lines += [
            ["train", "small.yaml", *keys, f"output={name}"],
            ["parse", name, "test.conllu", "--output", f"parsed-{name}.conllu"],
        ]
    trees = [name for name in SYSTEMS if name != "graphs"]
    lines += [
        ["explain", name, "test.conllu", "--sentence", "1", "--word", "1", "--json"]
        for name in trees
    ]
    printed = python("-c", LINES, json.dumps(lines))
    explained = re.findall(r"^\{.*?^\}", printed, re.MULTILINE | re.DOTALL)
    assert [json.loads(text)["word"] for text in explained] == [1] * len(trees)
    for name in SYSTEMS:
        assert (folder / f"parsed-{name}.conllu").read_text().count("\n\n") == 12


COMMAND_LINES = {
    "parse": ["model", "test.conllu", "--kbest", "3", "--probabilities"],
    "parse ": ["model", "test.conllu", "--mbr", "--device", "auto"],
    "parse  ": ["model", "--input", "text"],
    "check": ["test.conllu", "--model", "model"],
    "evaluate": ["test.conllu", "parsed.conllu"],
    "compare": ["test.conllu", "parsed.conllu", "parsed.conllu"],
    "evaluate ": ["test.conllu", "parsed.conllu", "--probabilities"],
    "report": ["model"],
    "text": ["test.conllu"],
    "draw": ["parsed.conllu", "--against", "test.conllu"],
    "explain": ["model", "test.conllu", "--sentence", "1", "--word", "2"],
    "jackknife": ["small.yaml", "--folds", "2", "--output", "guided.conllu"],
    "crossval": ["small.yaml", "--folds", "2", "--output", "folds"],
    "tune": ["small.yaml", "--grid", "learning.k=1,2", "--output", "tuned"],
    "models": [],
    "models ": ["show", "model"],
    "models  ": ["package", "model", "toy", "--version", "1.0", "--license", "MIT"],
    "doctor": [],
    "config": ["small.yaml"],
    "config ": ["list"],
    "train": ["small.yaml", "data.train=dev.conllu", "output=other"],
}  # fmt: skip


def test_every_command_is_tried() -> None:
    without_end = {"serve"}  # tests/server starts the server
    assert {line.strip() for line in COMMAND_LINES} == set(COMMANDS) - without_end


def test_commands(python: Run, model: str) -> None:
    lines = [[line.strip(), *words] for line, words in COMMAND_LINES.items()]
    python("-c", LINES, json.dumps(lines), given="She sings. They sang.\n")


SCRIPT = """
import gpuparse
parser = gpuparse.load("model", device="auto")
parsed = parser.parse_text("She sings. They sang.", probabilities=True)
assert len(parsed) >= 1 and parsed.to_conllu()
assert parser.explain(open("test.conllu").read().split("\\n\\n")[0] + "\\n\\n", 1).head >= 0
assert len(list(parser.stream("test.conllu"))) == 12
parser.parse_file("test.conllu", "of_file.conllu")
table = parser.parse([["She", "sings"]]).to_arrow()
assert parser.parse(table).to_pandas().shape[0] == 1
run = gpuparse.train("small.yaml", {"output": "from-python", "threads": 1}, quiet=True)
assert run.metrics["test_uas"] > 0
"""
INTEROP = """
import pyarrow
from gpuparse.api.workers import WorkerParser
parse = WorkerParser("model")
assert parse.file("test.conllu", "of_worker.conllu")
assert parse(pyarrow.table({"form": [["She", "sings"]]})).num_rows == 1
"""
SPACY = """
import spacy
nlp = spacy.blank("en")
nlp.add_pipe("sentencizer")
nlp.add_pipe("gpuparse", config={"model": "model"})
assert [token.dep_ for token in nlp("She sings.")]
"""


@pytest.mark.parametrize("script", [SCRIPT, INTEROP, SPACY], ids=["api", "interop", "spacy"])
def test_python(script: str, python: Run, model: str) -> None:
    nothing = "import sys\nassert not {'torch', 'triton'} & set(sys.modules)\n"
    python("-c", f"{script}{nothing}")


ENCODER_WORDS = [
    ["--probabilities"], ["--kbest", "3", "--probabilities"], ["--mbr", "--probabilities"],
    ["--keep", "heads"], ["--decoder", "eisner"], ["--decoder", "chu_liu_edmonds", "--mbr"],
]  # fmt: skip


def test_an_encoder_of_8_bits_does_all_that_parsers_do(
    python: Run, gpuparse: Run, folder: Path
) -> None:
    import gpuparse as library

    pytest.importorskip("transformers", reason="encoders are learned with transformers")
    write_encoder(folder / "pretrained", "bert")
    keys = {name: str(folder / f"{name}.conllu") for name in ("train", "dev")}
    keys = {f"data.{name}": file for name, file in keys.items()}
    keys |= {"encoder.model": str(folder / "pretrained"), "output": str(folder / "encoder")}
    library.train("encoder", keys | {"encoder.epochs": 1, "weights.bits": 8}, quiet=True)
    for threads in (1, 3):
        words = ["parse", "encoder", "test.conllu", "--threads", str(threads)]
        with_torch = [sys.executable, "-m", "gpuparse", *words]
        done = subprocess.run(with_torch, cwd=folder, capture_output=True, text=True, check=True)
        assert gpuparse(*words) == done.stdout
    text = "the old teacher sees a dog ."
    assert gpuparse("parse", "encoder", "--input", "text", given=text).count("\t") > 50
    lines = [["parse", "encoder", "test.conllu", *words] for words in ENCODER_WORDS]
    lines += [
        ["parse", "encoder", "text.jsonl", "--format", "jsonl"],
        ["check", "test.conllu", "--model", "encoder"],
        ["explain", "encoder", "test.conllu", "--sentence", "1", "--word", "2"],
        ["report", "encoder", "--output", "encoder.html"],
        ["models", "show", "encoder"],
    ]
    (folder / "text.jsonl").write_text(json.dumps({"text": text}) + "\n")
    python("-c", LINES, json.dumps(lines))
    of_file = SCRIPT.rpartition("run =")[0].replace("of_file", "of_encoder")
    for script in (of_file, INTEROP, SPACY):
        python("-c", re.sub(r'(?<=[( ])"model"(?=[,)}])', '"encoder"', script))
