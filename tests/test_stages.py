"""The law of the table of stages: a stage changes the columns that its row names, and no others."""

import subprocess
import sys
from pathlib import Path

import pytest

from gpuparse.commands import parse, train
from gpuparse.config import RunConfig, known_keys
from gpuparse.model.pipeline import (
    BEFORE_PARSER,
    FILES,
    PARSER,
    STAGES,
    Pipeline,
    load_stages,
    stages_of,
)
from tests.synthetic import generate, treebank_file

KEYS = [
    "quickstart", f"data.train={treebank_file(80, 1)}", "data.dev=null", "data.test=null",
    "feature_map.rows=65536", "labels.rows=65536", "learning.epochs=1", "labels.epochs=1",
    "calibration=none", "tagger.folds=1", "--quiet",
    *(f"{name}.learn=true" for name in FILES),
]  # fmt: skip
COLUMNS = range(10)


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("stages") / "model"
    assert train.main([*KEYS, f"output={folder}"]) == 0
    return folder


def given() -> bytes:
    """A treebank with a value in every column of every word, comments and other rows."""
    lines = []
    for line in generate(20, 5).decode().split("\n"):
        fields = line.split("\t")
        if len(fields) == 10:
            fields[2:6] = "given", "X", "XX", "Case=Given"
            fields[7:] = "given", "0:given", "Given=Yes|SpaceAfter=No"
        lines.append("\t".join(fields))
    text = "\n".join(lines).replace("\n2\t", "\n1.1\te\te\tX\tX\tA=B\t_\t_\t_\t_\n2\t")
    return (
        "# given\n\n" + text.replace("\n1\t", "\n1-2\tmulti\t_\t_\t_\t_\t_\t_\t_\t_\n1\t")
    ).encode()


def rows_of(text: bytes) -> list[list[str]]:
    return [line.split("\t") for line in text.decode().split("\n")]


def is_word(row: list[str]) -> bool:
    return len(row) == 10 and row[0].isdigit()


def test_the_table_has_every_stage_of_a_folder_and_of_a_config(model):
    assert stages_of(model) == list(STAGES)
    assert {*BEFORE_PARSER, PARSER} == {*STAGES} <= RunConfig.__dataclass_fields__.keys()
    loaded = load_stages(model)
    for name, row in BEFORE_PARSER.items():
        assert isinstance(getattr(loaded, name), row.kind)
        assert {f"{name}.{key}" for key in row.keys} <= known_keys().keys()
    filled = [column for row in STAGES.values() for column in row.fills]
    assert sorted(filled) == list(COLUMNS)


@pytest.mark.parametrize("name", STAGES)
def test_a_stage_changes_only_the_columns_of_its_row(name, model, tmp_path, capfdbinary):
    row, text = STAGES[name], given()
    alone = tmp_path / name
    alone.mkdir()
    others = FILES.values()
    for file in model.iterdir():
        if file.name == row.file or (name == PARSER and file.name not in others):
            (alone / file.name).write_bytes(file.read_bytes())
    assert stages_of(alone) == [name]
    source = tmp_path / ("in.conllu" if row.reads else "in.txt")
    source.write_bytes(text if row.reads else b"The men sang. She sings. The men sang.")
    assert parse.main([str(alone), str(source), "--quiet"]) == 0
    found = capfdbinary.readouterr().out
    if not row.reads:  # all columns are new: those that the stage does not fill are empty
        words = [each for each in rows_of(found) if is_word(each)]
        assert words
        assert {each[c] for each in words for c in COLUMNS if c not in row.fills} == {"_"}
        assert all(any(each[c] != "_" for each in words) for c in row.fills)
        return
    changed = set()
    for before, after in zip(rows_of(text), rows_of(found), strict=True):
        if not is_word(before):
            assert after == before
            continue
        changed |= {c for c in COLUMNS if before[c] != after[c]}
    assert changed
    assert changed <= set(row.fills)


@pytest.mark.parametrize("name", [name for name, row in BEFORE_PARSER.items() if row.reads])
def test_the_columns_of_a_pipeline_are_those_of_its_rows(name, model):
    alone = Pipeline(**dict.fromkeys(FILES) | {name: getattr(load_stages(model), name)})
    assert alone.columns == tuple(sorted(STAGES[name].fills))


def test_a_model_is_loaded_without_the_learner_of_the_tokeniser(model):
    code = (
        "import sys, gpuparse; gpuparse.load(sys.argv[1]).parse_text('She sings.')\n"
        "print('gpuparse.text.tokenizer' in sys.modules, 'gpuparse.text.training' in sys.modules)"
    )
    found = subprocess.run([sys.executable, "-c", code, model], capture_output=True, check=True)
    assert found.stdout.split() == [b"True", b"False"]
