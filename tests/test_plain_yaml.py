"""YAML as plain data: what is read, what is refused, and that writing is reading's inverse."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuparse.data.plain_yaml import dump_yaml, parse_value, parse_yaml, read_yaml
from gpuparse.errors import ConfigError
from gpuparse.features.templates import SETS
from gpuparse.limits import MAX_YAML_BYTES
from gpuparse.text.sequences import templates as sequences

SCALARS = [
    ("no", "no"), ("Yes", "Yes"), ("on", "on"), ("true", True), ("False", False), ("null", None),
    ("~", None), ("", None), ("010", 10), ("0x10", "0x10"), ("1_000", "1_000"), ("1:30", "1:30"),
    ("-5", -5), ("+5", 5), ("1e3", 1000.0), ("1.5", 1.5), (".5", 0.5), (".inf", ".inf"), (".", "."),
    ("2001-01-01", "2001-01-01"), ("=", "="), ("'5'", "5"), ('"a\\tb"', "a\tb"), ("<<", "<<"),
]  # fmt: skip


@pytest.mark.parametrize(("word", "value"), SCALARS)
def test_scalars(word, value):
    read = parse_yaml(f"key: {word}\n", "x").value["key"]
    assert read == value
    assert type(read) is type(value)


def test_keys_are_words_and_have_lines():
    content = parse_yaml("no: 1\n1:\n  true: 2\n<<: {a: 3}\n", "x")
    assert content.value == {"no": 1, "1": {"true": 2}, "<<": {"a": 3}}
    assert content.lines == {
        ("no",): 1,
        ("1",): 2,
        ("1", "true"): 3,
        ("<<",): 4,
        ("<<", "a"): 4,
    }


BOMB = "a0: &a0 x\n" + "".join(
    f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 30)
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("seed: 1\nseed: 2\n", "run.yaml:2: the key 'seed' is already in line 1"),
        ("data: {a: 1, a: 2}\n", "the key 'a' is already"),
        ("a: &x 1\nb: *x\n", "run.yaml:1: anchors"),
        ("a: *x\n", "run.yaml:1: anchors"),
        ("a: !!python/object:os.system x\n", "the tag 'tag:yaml.org,2002:python/object"),
        ("a: !!str 5\n", "is refused"),
        ("a: !mine {b: 1}\n", "is refused"),
        (BOMB, "run.yaml:1: anchors"),
        ("a: 1\n--- \nb: 2\n", "run.yaml:2"),
        ("a: [1\n", "run.yaml:2"),
        ("a:\n\tb: 1\n", "run.yaml:2: a tab, where YAML needs spaces"),
        ("# text = She\n1\tShe\t_\n", "run.yaml:2: a line of a treebank, not of a config"),
        ("a: \x01\n", "run.yaml: unacceptable character"),
        ("[" * 100_000, "nested more than"),
        ("[" + "1," * 30_000 + "1]", "more than 30,000 values"),
        ("? [a, b]\n: 1\n", "a key must be one plain word"),
        ("a: '" + "x" * MAX_YAML_BYTES + "'\n", "longer than 1048576 bytes"),
    ],
)
def test_case_41_hostile_yaml_is_refused(text, message):
    with pytest.raises(ConfigError) as caught:
        parse_yaml(text, "run.yaml")
    assert message in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


def test_a_big_file_is_not_read_to_its_end(tmp_path):
    path = tmp_path / "big.yaml"
    with path.open("wb") as file:
        file.truncate(1 << 40)  # a hole: takes no room on the disk, but a terabyte to read
    with pytest.raises(ConfigError, match="longer than 1048576 bytes"):
        read_yaml(path)


def test_a_byte_order_mark_is_no_part_of_the_first_key(tmp_path):
    (tmp_path / "bom.yaml").write_bytes(b"\xef\xbb\xbfseed: 1\r\n")
    assert read_yaml(tmp_path / "bom.yaml").value == {"seed": 1}


text = st.text(
    st.characters(exclude_categories=["Cs", "Cc", "Cn"], exclude_characters="\ufeff"), max_size=30
)
scalars = st.one_of(
    text,
    st.sampled_from(["no", "null", "1e-3", "010", "+1", ".5", "true", "=", "<<", "- a", "a: b"]),
    st.integers(-(10**20), 10**20),
    st.floats(allow_nan=False, allow_infinity=False),
    st.booleans(),
    st.none(),
)


@given(st.recursive(scalars, lambda inner: st.lists(inner) | st.dictionaries(text, inner)))
def test_what_is_written_is_read_back(value):
    written = dump_yaml(value)
    assert parse_yaml(written, "x").value == value
    assert dump_yaml(parse_yaml(written, "x").value) == written


@pytest.mark.parametrize("path", [*SETS.glob("*.yaml"), *sequences.SETS.glob("*.yaml")], ids=str)
def test_template_sets_as_models_have_them_are_of_the_simple_form(path, monkeypatch):
    text = dump_yaml(read_yaml(path).value)
    expected = parse_yaml(text, "x").value
    monkeypatch.setattr("gpuparse.data.plain_yaml.parse_yaml", None)
    assert parse_value(text, "x") == expected


_PIECES = st.sampled_from(
    ["  ", "- ", "-", "a", "b:", "b: ", "templates:", "w.form[-3:]", "a:b", "x:", "[]", "[", "0",
     "12", "012", "-1", "1.5", "true", "null", "~", " ", "#", " #", "'", "\"", "*", "&a", "!a", "?",
     "{}", "|", ">", "%", "@", "\t", "\r", "é", "---", "..."]
)  # fmt: skip
_ROWS = st.builds(
    lambda indent, item, key, value: "  " * indent + item + key + value,
    st.integers(0, 3),
    st.sampled_from(["", "- "]),
    st.sampled_from(["", "a: ", "b: ", "c:", "d:"]),
    st.sampled_from(["", "", "x", "w.form m+1.pos", "''", "7", "[]", "a:b", "true", "no"]),
)


@given(st.lists(st.lists(_PIECES, max_size=4).map("".join) | _ROWS, max_size=8).map("\n".join))
def test_what_the_simple_reader_reads_pyyaml_reads_too(text):
    try:
        expected = parse_yaml(text, "x").value
    except ConfigError as error:
        with pytest.raises(ConfigError, match=re.escape(str(error))):
            parse_value(text, "x")
    else:
        assert repr(parse_value(text, "x")) == repr(expected)


@pytest.mark.parametrize("text", ["a: [{}h.lower[-2:] m.pos{}]", "a: [m.pos, {}h.form[:3]{}]"])
def test_a_slice_in_a_list_of_brackets_needs_quotes(text):
    with pytest.raises(ConfigError, match=r"s:1: expected ',' or '\]', .* quote a template with"):
        parse_yaml(text.format("", ""), "s")
    assert "[" in parse_yaml(text.format('"', '"'), "s").value["a"][-1]
    with pytest.raises(ConfigError) as raised:
        parse_yaml("a: [b [x]]", "s")
    assert "slice" not in str(raised.value)
