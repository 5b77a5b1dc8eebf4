"""The examples that use other programs give the trees of the same words."""

import importlib.util
import json
from pathlib import Path

import pytest

import gpuparse
from gpuparse.data.conll import treebank_from_bytes
from tests.synthetic import generate

TEXT = generate(30, 5)
EXAMPLES = Path(__file__).parents[2] / "examples"


def example(name: str):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def columns() -> list[dict[str, list[str]]]:
    return [
        {"form": s.forms, "lemma": s.lemmas, "upos": s.cpos, "xpos": s.pos, "feats": s.feats}
        for s in treebank_from_bytes(TEXT, "text")
    ]


@pytest.fixture(scope="module")
def trees(model) -> list:
    return [(s.heads, s.deprels) for s in gpuparse.load(model, threads=1).parse(TEXT)]


def in_stanza() -> list[list[dict]]:
    """Documents as Stanza's to_dict() returns them, the first with a multiword token."""
    found = []
    for sentence in columns():
        words = zip(*sentence.values(), strict=True)
        keys = ["text", *list(sentence)[1:]]
        found.append(
            [{"id": m} | {k: v for k, v in zip(keys, word, strict=True) if v != "_"}
             for m, word in enumerate(words, 1)]
        )  # fmt: skip
    found[0].insert(0, {"id": (1, 2), "text": "both", "ner": "O"})
    return found


def test_stanza_example(model, trees):
    stanza = pytest.importorskip("stanza")
    document = stanza.Document(in_stanza())
    parsed = example("stanza_words").parse_document(model, document)
    assert [(s.heads, s.deprels) for s in parsed] == trees


def test_pandas_example(model, trees):
    pandas = pytest.importorskip("pandas")
    rows = [
        {"sentence": k, "by": "x"} | dict(zip(s, word, strict=True))
        for k, s in enumerate(columns())
        for word in zip(*s.values(), strict=True)
    ]
    found = example("pandas_frame").parse_words(model, pandas.DataFrame(rows))
    assert list(found.columns) == [*rows[0], "head", "deprel"]
    assert found["head"].tolist() == [h for heads, _ in trees for h in heads]
    assert found["deprel"].tolist() == [d for _, deprels in trees for d in deprels]


def test_datasets_example(model, trees):
    datasets = pytest.importorskip("datasets")
    rows = [{"id": k} | s for k, s in enumerate(columns())]
    given = datasets.Dataset.from_list(rows)
    found = example("hugging_face_datasets").parse_dataset(model, given)
    assert found.column_names == [*rows[0], "head", "deprel"]
    assert [(row["head"], row["deprel"]) for row in found] == trees
    assert found["id"][:3] == [0, 1, 2]


def test_datatrove_example(model, trees, tmp_path):
    pytest.importorskip("datatrove")
    (tmp_path / "in").mkdir()
    documents = [
        {"id": str(k), "text": "a text", "metadata": {"sentences": columns()[k : k + 10]}}
        for k in (0, 10, 20)
    ]
    (tmp_path / "in" / "a.jsonl").write_text("".join(json.dumps(d) + "\n" for d in documents))
    example("datatrove_step").parse_folder(
        model, str(tmp_path / "in"), str(tmp_path / "out"), str(tmp_path / "logs")
    )
    [file] = (tmp_path / "out").glob("*.jsonl")
    written = [json.loads(line) for line in file.read_text().splitlines()]
    sentences = [s for document in written for s in document["metadata"]["sentences"]]
    assert [(s["head"], s["deprel"]) for s in sentences] == trees
