"""A small model, and tables of sentences."""

import re
from pathlib import Path
from typing import Any

import pytest

import gpuparse
from tests.synthetic import generate, treebank_file

CONFIG = Path(__file__).parents[2] / "configs" / "fast.yaml"
SMALL = {
    "decoder": "eisner", "device": "cpu", "threads": 1, "data.train": treebank_file(300, 1),
    "labels.epochs": 1, "word_vectors.networks": 1, "word_vectors.epochs": 1,
    "word_vectors.min_count": 2,
}  # fmt: skip
COLUMNS = {"form": 1, "lemma": 2, "upos": 3, "xpos": 4, "feats": 5}


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The folder of a trained model."""
    folder = tmp_path_factory.mktemp("model") / "small"
    gpuparse.train(CONFIG, SMALL | {"output": folder}, quiet=True)
    return str(folder)


@pytest.fixture(scope="session")
def sentences() -> Any:
    """A table of 400 sentences, with columns of other kinds."""
    arrow = pytest.importorskip("pyarrow")
    texts = generate(400, 7).decode().strip().split("\n\n")
    rows = [re.findall(r"^\d+\t.*", text, re.MULTILINE) for text in texts]
    words = [[row.split("\t") for row in sentence] for sentence in rows]
    columns: dict[str, Any] = {"id": list(range(len(words)))}
    columns["source"] = [{"page": k // 10} for k in range(len(words))]
    for name, place in COLUMNS.items():
        columns[name] = [[word[place] for word in sentence] for sentence in words]
    return arrow.table(columns)


@pytest.fixture(scope="session")
def parsed(model: str, sentences: Any) -> Any:
    """The same table, parsed in one process."""
    return gpuparse.load(model, threads=1).parse(sentences).to_arrow()


@pytest.fixture
def corpus(sentences: Any, tmp_path: Path) -> Path:
    """A folder of four Parquet files with these sentences."""
    parquet = pytest.importorskip("pyarrow.parquet")
    folder = tmp_path / "corpus"
    folder.mkdir()
    for k in range(4):
        parquet.write_table(sentences.slice(100 * k, 100), folder / f"{k}.parquet")
    return folder


@pytest.fixture
def parsed_files(model: str, corpus: Path, tmp_path: Path) -> dict[str, bytes]:
    """The bytes of these files, parsed in one process."""
    parser = gpuparse.load(model, threads=2)
    for path in corpus.iterdir():
        parser.parse_file(path, tmp_path / path.name)
    return {path.name: path.read_bytes() for path in tmp_path.glob("*.parquet")}
