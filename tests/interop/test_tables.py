"""Batches as engines cut them: any cut gives the same rows, types and errors."""

from typing import Any

import pytest

import gpuparse
from gpuparse.errors import ConfigError, DataError, ModelError
from gpuparse.interop.ray import RayParser

arrow = pytest.importorskip("pyarrow")
pytestmark = pytest.mark.filterwarnings("ignore:.*not calibrated")


def parser_of(model: str, **options: Any) -> RayParser:
    """As in an actor, without Ray: threads and device are given."""
    return RayParser(model, threads=1, device="cpu", **options)


@pytest.mark.parametrize("size", [1, 7, 400])
def test_batches_of_any_size_give_the_rows_of_one_process(model, sentences, parsed, size):
    parse = parser_of(model)
    batches = [parse(sentences.slice(k, size)) for k in range(0, len(sentences), size)]
    assert arrow.concat_tables(batches).equals(parsed)
    assert parse(sentences.to_batches()[0]).equals(parsed)


def test_columns_of_an_empty_batch_have_the_types_of_others(model, sentences):
    parse = parser_of(model, probabilities=True)
    whole, empty = parse(sentences), parse(sentences.slice(0, 0))
    assert empty.num_rows == 0
    assert whole.schema.equals(empty.schema)
    assert whole.column_names[-4:] == ["head", "deprel", "prob", "deprel_prob"]
    expected = gpuparse.load(model).parse(sentences, probabilities=True).to_arrow()
    assert whole.equals(expected)


def with_fault(table: Any, row: int) -> Any:
    rows = table.to_pylist()
    rows[row]["form"][0] = None
    return arrow.Table.from_pylist(rows, schema=table.schema)


def test_a_faulty_row_is_named_with_its_other_columns(model, sentences):
    with pytest.raises(DataError, match=r"row 17 of a batch of 400 rows\[0\].*None: id=17, source"):
        parser_of(model)(with_fault(sentences, 17))


def test_faulty_rows_get_nulls_if_that_is_asked_for(model, sentences, parsed):
    found = parser_of(model, on_error="null")(with_fault(sentences, 17))
    assert found.schema.equals(parsed.schema)
    assert found["head"][17].as_py() is None
    assert found["deprel"][17].as_py() is None
    for rows in (slice(0, 17), slice(18, 400)):
        assert found["head"].to_pylist()[rows] == parsed["head"].to_pylist()[rows]
    with pytest.raises(DataError, match="form"):
        parser_of(model, on_error="null")(sentences.drop_columns(["form"]))


def test_a_missing_column_is_an_error_in_batches_of_any_size(model, sentences):
    without = sentences.drop_columns(["upos"])
    for size in (1, 400):
        with pytest.raises(DataError, match="the model reads upos, but there is no such column"):
            parser_of(model)(without.slice(0, size))
    parser_of(model, allow_missing=True)(without)


def test_a_column_without_values_is_an_error_in_a_large_batch_only(model, sentences):
    place = sentences.column_names.index("xpos")
    for nothing in (
        [["_"] * len(forms) for forms in sentences["form"].to_pylist()],
        [None] * len(sentences),
    ):
        column = arrow.array(nothing, arrow.list_(arrow.string()))
        without = sentences.set_column(place, "xpos", column)
        parser_of(model)(without.slice(0, 3))
        with pytest.raises(DataError, match="the model reads xpos, but all values are missing"):
            parser_of(model)(without)


def test_wrong_options_are_errors_when_the_model_is_loaded(model, tmp_path):
    with pytest.raises(ConfigError, match="fail or null"):
        parser_of(model, on_error="skip")
    with pytest.raises(ConfigError, match="kbest: a table has one tree per row"):
        parser_of(model, kbest=2)
    with pytest.raises(ConfigError, match="deps: expected 'empty' or 'tree'"):
        parser_of(model, deps="trees")
    with pytest.raises(TypeError, match="probability"):
        parser_of(model, probability=True)
    with pytest.raises(ModelError):
        parser_of(str(tmp_path))
