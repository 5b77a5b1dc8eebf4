"""Results of parsing: what they hold, tables, drawings, pickles."""

import html
import pickle
import sys

import pytest

import gpuparse
from gpuparse.data.conll import treebank_from_bytes
from gpuparse.data.graphs import read_graphs
from gpuparse.errors import ConfigError, DataError
from tests.synthetic import generate

pandas, pyarrow = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
pytestmark = pytest.mark.filterwarnings("ignore:.*not calibrated")
TEXT = generate(12, 21)


def columns_of(text: str) -> dict[str, list[list[str]]]:
    """Columns of written CoNLL-U, by sentence."""
    rows = treebank_from_bytes(text.encode(), "text")
    return {
        "form": [s.forms for s in rows], "upos": [s.cpos for s in rows],
        "head": [s.heads for s in rows], "deprel": [s.labels for s in rows],
        "misc": [s.misc for s in rows], "deps": [s.deps for s in rows],
    }  # fmt: skip


def test_lists_are_those_of_the_text(parser):
    parsed = parser.parse(TEXT, probabilities=True)
    written = columns_of(parsed.to_conllu())
    assert [s.words for s in parsed] == written["form"]
    assert [s.heads for s in parsed] == written["head"]
    assert [s.deprels for s in parsed] == written["deprel"]
    items = [
        [f"HeadProb={p:.4f}|LabelProb={q:.4f}" for p, q in zip(a, b, strict=True)]
        for a, b in ((s.probabilities, s.deprel_probabilities) for s in parsed)
    ]
    said = [[item.removeprefix("SpaceAfter=No|") for item in misc] for misc in written["misc"]]
    assert items == said
    assert [len(s) for s in parsed] == list(map(len, written["form"]))
    assert parsed[-1].words == parsed[len(parsed) - 1].words == written["form"][-1]
    assert [s.words for s in parsed[2:4]] == written["form"][2:4]
    with pytest.raises(IndexError, match="sentence 12 of 12"):
        parsed[12]


def test_what_was_not_asked_for_is_none(parser):
    [sentence, *_] = parser.parse(TEXT)
    assert (sentence.probabilities, sentence.deprel_probabilities) == (None, None)
    assert (sentence.deps, sentence.certified) == (None, None)
    assert sentence.trees == [gpuparse.Tree(sentence.heads, sentence.deprels)]


def test_several_trees_are_those_of_the_text(parser):
    parsed = parser.parse(TEXT, kbest=3, probabilities=True)
    trees = [tree for sentence in parsed for tree in sentence.trees]
    written = columns_of(parsed.to_conllu())
    assert [tree.heads for tree in trees] == written["head"]
    assert [tree.deprels for tree in trees] == written["deprel"]
    lines = parsed.to_conllu().splitlines()
    scores = [line.removeprefix("# score = ") for line in lines if line.startswith("# score")]
    assert [f"{tree.score:.6f}" for tree in trees] == scores
    said = [line.removeprefix("# probability = ") for line in lines if "# probability" in line]
    assert [f"{tree.probability:.4f}" for tree in trees] == said
    for sentence in parsed:
        assert sentence.trees[0].heads == sentence.heads
        assert sentence.trees[0].probabilities == sentence.probabilities


def test_graphs_have_all_heads_of_each_word(kinds):
    parsed = gpuparse.load(kinds.run("graphs").folder).parse(kinds.text("graphs"))
    graphs = read_graphs(treebank_from_bytes(parsed.to_conllu().encode(), "text"))
    found = [word for sentence in parsed for word in sentence.deps]
    assert [[h for h, _ in word] for word in found] == [
        graphs.heads[i:j].tolist() for i, j in zip(graphs.starts, graphs.starts[1:], strict=False)
    ]
    assert any(len(word) > 1 for word in found)
    assert parsed.to_arrow()["deps"].to_pylist() == columns_of(parsed.to_conllu())["deps"]
    several = next(s for s in parsed if any(len(word) > 1 for word in s.deps))
    assert several._repr_html_().count('<path fill="none"') == sum(map(len, several.deps))


def test_certificates_are_those_of_the_text(kinds):
    parsed = gpuparse.load(kinds.run("third order").folder).parse(kinds.text("third order"))
    assert all(isinstance(s.certified, bool) for s in parsed)
    marked = [any("Certified=No" in line for line in s.to_conllu().splitlines()) for s in parsed]
    assert [not s.certified for s in parsed] == marked


def test_tables_have_the_columns_of_the_text_and_can_be_parsed_again(parser):
    parsed = parser.parse(TEXT, probabilities=True)
    written = columns_of(parsed.to_conllu())
    table, frame = parsed.to_arrow(), parsed.to_pandas()
    names = ["form", "lemma", "upos", "xpos", "feats", "head", "deprel", "prob", "deprel_prob"]
    assert table.column_names == names == list(frame.columns)
    for name in ("form", "upos", "head", "deprel"):
        assert table[name].to_pylist() == frame[name].tolist() == written[name]
    assert table["prob"].to_pylist() == [s.probabilities for s in parsed]
    assert table["deprel_prob"].to_pylist() == [s.deprel_probabilities for s in parsed]
    assert table.schema.field("head").type == pyarrow.list_(pyarrow.int32())
    again = parser.parse(table, probabilities=True).to_arrow()
    assert again.equals(table)
    assert parser.parse(frame).to_pandas()["head"].tolist() == written["head"]
    feats = [[None if f == "_" else f for f in s.feats] for s in treebank_from_bytes(TEXT, "t")]
    assert table["feats"].to_pylist() == feats


def test_a_missing_package_is_an_error_that_says_so(parser, monkeypatch):
    parsed = parser.parse(TEXT)
    for package, method in (("pandas", parsed.to_pandas), ("pyarrow", parsed.to_arrow)):
        with monkeypatch.context() as patch:
            patch.setitem(sys.modules, package, None)
            patch.setitem(sys.modules, f"{package}.parquet", None)
            install = rf"needs {package}: pip install 'gpuparse\[arrow\]'"
            with pytest.raises(ConfigError, match=install):
                method()


@pytest.mark.parametrize("index", ["a", None, 1.5])
def test_what_is_no_index_is_an_error_that_says_so(parser, index):
    with pytest.raises(DataError, match=r"parsed\[...\]: expected the number of a sentence, not "):
        parser.parse(TEXT)[index]


def test_tables_keep_their_other_columns_rows_and_index(parser):
    forms = [s.forms for s in treebank_from_bytes(TEXT, "text")]
    tags = [s.pos for s in treebank_from_bytes(TEXT, "text")]
    rows = {
        "doc": ["x", "y", "z"], "form": [forms[0], None, forms[1]],
        "xpos": [tags[0], None, tags[1]], "upos": [tags[0], None, tags[1]],
        "lemma": [forms[0], None, forms[1]], "feats": [["A=b"] * len(forms[0]), None, None],
        "head": ["old", "old", "old"],
    }  # fmt: skip
    parsed = parser.parse(pyarrow.table(rows))
    table = parsed.to_arrow()
    assert table["doc"].to_pylist() == ["x", "y", "z"]
    assert table["form"].to_pylist() == rows["form"]
    assert (
        table["head"].to_pylist()
        == [s.heads for s in parsed]
        == [parsed[0].heads, [], parsed[2].heads]
    )
    assert table.column_names == [*[n for n in rows if n != "head"], "head", "deprel"]
    frame = pandas.DataFrame(rows, index=[7, 7, 9])
    found = parser.parse(frame).to_pandas()
    assert found.index.tolist() == [7, 7, 9]
    assert found["doc"].tolist() == ["x", "y", "z"]
    assert found["head"].tolist() == table["head"].to_pylist()
    assert frame["head"].tolist() == ["old"] * 3
    [batch] = pyarrow.table(rows).to_batches()
    assert parser.parse(batch).to_arrow().equals(table)
    assert parser.parse(rows).to_arrow()["head"].to_pylist() == table["head"].to_pylist()


def test_tables_of_arrow_are_read_alike_however_they_are_stored(parser):
    rows = [
        {
            "form": s.forms, "lemma": s.lemmas, "upos": s.cpos, "xpos": s.pos,
            "feats": [("Case=Nom", None, "")[k % 3] for k, _ in enumerate(s.feats)],
            "head": [0 if k == 1 else None for k, _ in enumerate(s.feats)],
        }
        for s in treebank_from_bytes(TEXT, "text")
    ]  # fmt: skip
    rows.insert(3, {name: [] for name in rows[0]})
    plain = pyarrow.Table.from_pylist(rows)
    kinds = {
        "form": pyarrow.large_list(pyarrow.large_string()),
        "lemma": pyarrow.list_(pyarrow.string()),
        "upos": pyarrow.list_(pyarrow.dictionary(pyarrow.int8(), pyarrow.string())),
        "xpos": pyarrow.list_(pyarrow.string()),
        "feats": pyarrow.list_(pyarrow.large_string()),
        "head": pyarrow.list_(pyarrow.int8()),
    }
    ways = {
        "another schema": pyarrow.Table.from_pylist(rows, schema=pyarrow.schema(kinds)),
        "in chunks": pyarrow.concat_tables([plain[:2], plain[2:3], plain[3:]]),
        "a slice": pyarrow.concat_tables([plain[:5], plain])[5:],
        "with a row of nulls": plain.take([0, 1, 2, None, *range(4, 13)]),
        "rows": rows,
    }
    for keep_heads in (False, True):
        expected = parser.parse(plain.to_pydict(), keep_heads=keep_heads)
        for name, table in ways.items():
            found = parser.parse(table, keep_heads=keep_heads)
            assert found.to_conllu() == expected.to_conllu(), name
            assert list(map(len, found)) == list(map(len, expected)), name


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ([["a", None]], r"sentences\[0\]\[1\]: expected a word, not None"),
        ([["a"], ["b", ""]], r"sentences\[1\]\[1\]: expected a word, not str ''"),
        ([["a\tb"]], "has a tab or a line end"),
        ([["a"], ["\n1"]], r"sentences\[1\]\[0\]: form .* has a tab or a line end"),
        ([[1]], "column form: expected a list of words per row, .* not list<.*: int64>"),
        (["a"], "column form: expected a list of words per row, .* not string"),
    ],
    ids=repr,
)
def test_wrong_tables_of_arrow_are_told_what_is_expected(parser, values, said):
    with pytest.raises(DataError, match=said):
        parser.parse(pyarrow.table({"form": values}))
    with pytest.raises(DataError, match="1 word in form, but 2 in upos"):
        parser.parse(pyarrow.table({"form": [["a"]], "upos": [["X", "Y"]]}))


def test_trees_are_drawn_for_terminals_and_notebooks(parser):
    parsed = parser.parse(TEXT)
    assert str(parsed[0]) == repr(parsed[0])
    assert [line.split()[-2] for line in str(parsed[0]).splitlines()] == parsed[0].words
    assert "… and 2 more sentences" in str(parsed)
    assert "… and 2 more sentences" in parsed._repr_html_()
    assert parsed._repr_html_().count("<svg") == 10
    assert repr(parsed) == f"<Parsed: 12 sentences, {sum(map(len, parsed)):,} words>"
    for word in parsed[0].words:
        assert f">{html.escape(word)}</text>" in parsed[0]._repr_html_()
    assert ">synthetic-21-1<" in parsed[0]._repr_html_()


def test_results_can_be_pickled_without_their_parser(parser, kinds):
    parsed = parser.parse(TEXT, kbest=2)
    pickled = pickle.dumps(parsed)
    assert len(pickled) < 40 * len(TEXT)
    again = pickle.loads(pickled)  # noqa: S301 (our own)
    assert again.to_conllu() == parsed.to_conllu()
    assert [s.trees for s in again] == [s.trees for s in parsed]
