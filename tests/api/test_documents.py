"""Files as documents, scores as the commands print them, drawings, objects of other packages."""

import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import gpuparse
from gpuparse.commands import compare, draw, evaluate
from gpuparse.errors import ConfigError, DataError
from tests.api.conftest import COMMENTED
from tests.graphs_by_place import deps_of_heads
from tests.multiword_texts import raw_text
from tests.synthetic import generate

pytestmark = pytest.mark.filterwarnings("ignore:.*not calibrated")
TEXT = generate(12, 21)


@pytest.fixture(scope="module")
def parsed(parser) -> gpuparse.Parsed:
    return parser.parse(TEXT)


@pytest.fixture(scope="module")
def files(parsed, tmp_path_factory) -> dict[str, str]:
    """The gold file, and what two parsers found."""
    folder = tmp_path_factory.mktemp("files")
    texts = {
        "gold": TEXT,
        "first": parsed.to_conllu().encode(),
        "second": TEXT.replace(b"\tnsubj\t", b"\tobj\t"),
    }
    for name, text in texts.items():
        (folder / name).write_bytes(text)
    return {name: str(folder / name) for name in texts}


def test_some_sentences_are_a_document(parsed):
    gold = gpuparse.read(TEXT)
    some = gpuparse.read(gold[3:9][::-1])
    assert some.to_conllu() == "".join(sentence.to_conllu() for sentence in gold[3:9][::-1])
    found = gpuparse.evaluate(gold[3:9], parsed[3:9])
    assert found == gpuparse.evaluate(gold[3:9], heads=[s.heads for s in parsed[3:9]],
                                      deprels=[s.deprels for s in parsed[3:9]])  # fmt: skip
    assert found["las"]["total"] == sum(map(len, gold[3:9]))


def test_paths_and_texts_are_read_alike(files):
    documents = [
        gpuparse.read(source)
        for source in (files["gold"], TEXT, TEXT.decode(), generate(12, 21).replace(b"\n", b"\r\n"))
    ]
    for document in documents:
        assert [s.heads for s in document] == [s.heads for s in documents[0]]
        assert [s.deprels for s in document] == [s.deprels for s in documents[0]]
    assert documents[0].to_conllu() == TEXT.decode()
    assert documents[0].to_arrow()["head"].to_pylist() == [s.heads for s in documents[0]]
    assert documents[0][0].trees == [gpuparse.Tree(documents[0][0].heads, documents[0][0].deprels)]
    with pytest.raises(DataError, match="No such file"):
        gpuparse.read("nowhere.conllu")
    with pytest.raises(DataError, match=r"text:1: .*columns"):
        gpuparse.read("1\tShe\n\n")
    for wrong in ("", 3, None, ["She"]):
        with pytest.raises(DataError, match=r"read\(\) takes the path of a file or CoNLL-U text"):
            gpuparse.read(wrong)


@pytest.mark.parametrize(
    ("words", "options"),
    [
        ([], {}),
        (["--ignore-punct"], {"ignore_punct": True}),
        (["--punct-tags", "PUNCT", "DET"], {"punct_tags": ["PUNCT", "DET"]}),
        (["--graphs", "heads"], {"graphs": "heads"}),
    ],
    ids=str,
)
def test_scores_are_those_of_the_command(files, parsed, capsys, words, options):
    gold = files["gold"]
    if "graphs" in options:
        gold = f"{gold}-graphs"
        Path(gold).write_bytes(deps_of_heads(TEXT))
    assert evaluate.main([gold, files["first"], *words, "--json"]) == 0
    expected = json.loads(capsys.readouterr().out)
    for first in (gold, gpuparse.read(gold)):
        for second in (files["first"], parsed, parsed.to_conllu()):
            assert gpuparse.evaluate(first, second, **options) == expected
    assert evaluate.main([gold, files["first"], *words]) == 0
    assert str(gpuparse.evaluate(gold, parsed, **options)) == capsys.readouterr().out


def test_other_words_are_scored_with_a_warning(text_parser):
    text = "The old men didn't sing."
    system = text_parser(text)
    gold = system.to_conllu().replace("didn't", "didn' t").replace("\tn't\t", "\tn'\t")
    with pytest.warns(UserWarning, match="the measures are of the CoNLL 2018 shared task"):
        scores = gpuparse.evaluate(gold, system)
    assert 0 < scores["conll18"]["words"]["f"] <= 100
    with pytest.raises(ConfigError, match="ignore_punct=True needs trees over the same words"):
        gpuparse.evaluate(gold, system, ignore_punct=True)


def test_comparisons_are_those_of_the_command(files, capsys):
    names = [files[name] for name in ("gold", "first", "second")]
    assert compare.main([*names, "--json", "--resamples", "50", "--seed", "3"]) == 0
    expected = json.loads(capsys.readouterr().out)
    found = gpuparse.compare(*names, resamples=50, seed=3)
    assert json.loads(json.dumps(found)) == expected
    assert compare.main([*names, "--resamples", "50", "--seed", "3"]) == 0
    assert str(found) == capsys.readouterr().out


def padded(rows, make) -> list:
    """Rows of -1 at position 0 and in padding, of different lengths; make: of each."""
    return [make([-1, *row, *[-1] * (s % 3)]) for s, row in enumerate(rows)]


def rectangle(rows) -> torch.Tensor:
    width = max(map(len, rows))
    return torch.tensor([[-1, *row, *[-1] * (width - len(row))] for row in rows])


LAYOUTS = {
    "lists": lambda rows: rows,
    "arrays": lambda rows: [np.array(row, np.int32) for row in rows],
    "tensors": lambda rows: [torch.tensor(row, dtype=torch.int64) for row in rows],
    "padded lists": lambda rows: padded(rows, list),
    "padded tensors": lambda rows: padded(rows, torch.tensor),
    "a tensor": rectangle,
    "an array": lambda rows: rectangle(rows).numpy(),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_given_heads_are_as_those_of_a_parser(parser, files, layout):
    text = TEXT + COMMENTED.encode()
    gold, expected = gpuparse.read(text), gpuparse.read(parser.parse(text).to_conllu())
    heads = LAYOUTS[layout]([sentence.heads for sentence in expected])
    deprels = [sentence.deprels for sentence in expected]
    given = gold.with_heads(heads, deprels)
    assert given.to_conllu() == expected.to_conllu()
    assert given.to_arrow().equals(expected.to_arrow())
    assert [s.to_dict() for s in given] == [s.to_dict() for s in expected]
    assert given[3].draw().svg == expected[3].draw().svg
    several = parser.parse(text, probabilities=True, kbest=2)
    assert several.with_heads(heads, deprels).to_conllu() == expected.to_conllu()
    system = parser.parse(TEXT)
    for gold in (files["gold"], gpuparse.read(TEXT)):
        found = gpuparse.evaluate(gold, heads=heads[: len(system)], deprels=deprels[: len(system)])
        assert found == gpuparse.evaluate(gold, system)
        assert str(found) == str(gpuparse.evaluate(gold, system))


def test_heads_without_relations_are_not_scored_for_them(files):
    gold, system = gpuparse.read(files["gold"]), gpuparse.read(files["first"])
    heads = [sentence.heads for sentence in system]
    assert gold.with_heads(heads).to_conllu() == re.sub(
        r"^(\d+\t(?:[^\t]*\t){6})[^\t]*", r"\1_", system.to_conllu(), flags=re.MULTILINE
    )
    found, whole = gpuparse.evaluate(gold, heads=heads), gpuparse.evaluate(gold, system)
    of_relations = {"las", "las_full", "label_accuracy", "complete_labelled"}
    for measure in of_relations:
        assert found[measure] == {"percent": None, "correct": 0, "total": 0}
    assert found["relations"] == {}
    rest = whole.keys() - of_relations - {"relations"}
    assert [found[measure] for measure in rest] == [whole[measure] for measure in rest]
    assert re.search(r"^LAS +- +0 of 0 ", str(found), re.MULTILINE)
    assert "relations, labelled" not in str(found)
    compared = gpuparse.compare(gold, system, gold.with_heads(heads), resamples=9)
    for tests in ("bootstrap", "mcnemar"):
        assert compared["comparisons"][0][tests].keys() == {"uas"}
    assert re.search(r"^LAS +\S+ +- +-$", str(compared), re.MULTILINE)
    tagged = gold.with_heads(heads).to_conllu().replace("\tNOUN\t", "\tX\t")
    assert {"upos", "clas"} & gpuparse.evaluate(gold, tagged)["conll18"].keys() == {"upos"}


def test_sentences_without_words_have_no_heads(text_parser):
    parsed = text_parser.parse([["She", "sings"], [], ["No"]])
    for heads in ([[0, 1], [], [0]], torch.tensor([[-1, 0, 1], [-1, -1, -1], [-1, 0, -1]])):
        given = parsed.with_heads(heads)
        assert [s.heads for s in given] == [[0, 1], [], [0]]
        assert gpuparse.evaluate(given, heads=heads)["uas"]["percent"] == 100


def test_heads_that_are_no_trees_are_named():
    document = gpuparse.read(COMMENTED)
    heads, names = [[2, 0, 2], [0]], [["a", "b", "c"], ["d"]]
    cases = [
        ([[2, 0, 2]], names, "heads: given for 1 sentence, but there are 2"),
        (3, names, "heads: expected a list, an array or a tensor, not 3"),
        ([2, 0], names, "text:3: sent_id first: heads: expected a list, an array or a tensor"),
        ([[2, 0], [0]], names, "text:3: sent_id first: 2 heads for 3 words; give one for each"),
        ([[-1, 2, 0, 2, 0], [0]], names, "text:3: sent_id first: 5 heads for 3 words"),
        ([[2, 0, 2.0], [0]], names, r"heads must be whole numbers, but are \[2, 0, 2.0\]"),
        ([[2, 0, 4], [0]], names, r"text:6: .*HEAD of word 3 \(c\) is 4; the sentence has 3 words"),
        ([[2, 0, 10**30], [0]], names, r"HEAD of word 3 \(c\) is \d+; the sentence has 3 words"),
        ([[2, -1, 2], [0]], names, r"no HEAD for word 2 \(b\)"),
        ([[2, 2, 2], [0]], names, r"word 2 \(b\) is its own head"),
        ([[2, 0, 2], [1]], names, r"text:9: sent_id second: word 1 \(d\) is its own head"),
        ([[2, 1, 0], [0]], names, r"words 1 \(a\) and 2 \(b\) form a cycle"),
        (heads, [["a", "b", "c"]], "deprels: given for 1 sentence, but there are 2"),
        (heads, [["a", "b"], ["d"]], "sent_id first: 2 relations for 3 words"),
        (heads, [["a", "b", 3], ["d"]], "expected the name of a relation, not 3"),
        (heads, [["a", "b", "c\td"], ["d"]], "expected the name of a relation, not 'c.td'"),
    ]
    for given, deprels, said in cases:
        with pytest.raises(DataError, match=said):
            document.with_heads(given, deprels)
        with pytest.raises(DataError, match=said.replace("text:", "gold:")):
            gpuparse.evaluate(COMMENTED, heads=given, deprels=deprels)


def test_wrong_arguments_of_scores_are_named(files, parser):
    gold, first = files["gold"], files["first"]
    cases = [
        (lambda: gpuparse.evaluate(gold, first, graphs="x"), "graphs: expected deps or heads"),
        (lambda: gpuparse.evaluate(gold, first, punct_tags="X"), "punct_tags: expected a list"),
        (
            lambda: gpuparse.evaluate(gold, first, punct_tags=["X"], ignore_punct=True),
            "exclude each other",
        ),
        (lambda: gpuparse.evaluate(gold, first, heads=[]), "a system or heads, and not both"),
        (lambda: gpuparse.evaluate(gold, first, deprels=[]), "deprels together with heads"),
        (lambda: gpuparse.compare(gold, first), "two or more parsers"),
        (lambda: gpuparse.compare(gold, first, first, resamples=0), "resamples: expected a whole"),
        (lambda: gpuparse.compare(gold, *[first] * 27), "at most 26"),
    ]
    for call, said in cases:
        with pytest.raises(ConfigError, match=said):
            call()
    several = parser.parse(TEXT, kbest=2)
    for system in (several, several[:]):
        with pytest.raises(DataError, match="system: has several trees of each sentence"):
            gpuparse.evaluate(gold, system)
    with pytest.raises(DataError, match=r"evaluate\(\) takes .*what a parser or read\(\) returned"):
        gpuparse.evaluate(gold, None)


def test_drawings_are_those_of_the_command(parser, tmp_path, capsysbinary):
    sentence = parser.parse(TEXT, probabilities=True)[3]
    name = str(tmp_path / sentence.sent_id)
    with open(name, "w") as file:
        file.write(sentence.to_conllu())
    forms = {".svg": "svg", ".html": "html", ".tex": "tikz", ".txt": "text"}
    for suffix, form in forms.items():
        assert draw.main([name, "--format", form]) == 0
        expected = capsysbinary.readouterr().out.replace(name.encode(), sentence.sent_id.encode())
        drawing = sentence.draw(tmp_path / f"tree{suffix}")
        assert (tmp_path / f"tree{suffix}").read_bytes() == expected
        with pytest.raises(ConfigError, match="exists; give force=True"):
            drawing.save(tmp_path / f"tree{suffix}")
    assert drawing._repr_svg_() == drawing.svg in drawing._repr_html_()
    assert str(drawing) == str(sentence)
    assert repr(drawing) == f"<Drawing of {sentence.sent_id}>"
    assert sentence.draw(tags="none").svg != sentence.draw(tags="xpos").svg
    again = sentence.draw(tmp_path / "tree.svg", tags="none", force=True)
    assert (tmp_path / "tree.svg").read_text() == again.svg


def test_documents_are_drawn_sentence_by_sentence(parser, tmp_path, capsysbinary):
    """The best trees, as the command draws the text of one tree per sentence."""
    name = str(tmp_path / "all.conllu")
    with open(name, "w") as file:
        file.write(parser.parse(TEXT).to_conllu())
    assert draw.main([name, "--format", "text"]) == 0
    expected = capsysbinary.readouterr().out
    parsed = parser.parse(TEXT, kbest=2)
    drawing = parsed.draw(tmp_path / "all.txt")
    assert (tmp_path / "all.txt").read_bytes() == expected
    assert drawing.svg.count("<svg ") == 1 + len(parsed)
    assert repr(drawing) == f"<Drawing of {len(parsed)} sentences>"


def test_drawings_of_graphs_have_all_arcs(kinds):
    parsed = gpuparse.load(kinds.run("graphs").folder).parse(kinds.text("graphs"))
    several = next(s for s in parsed if any(len(word) > 1 for word in s.deps))
    n_arcs = several.draw().svg.count('<path fill="none"')
    assert n_arcs == sum(map(len, several.deps))
    assert several.draw(graphs="heads").svg.count('<path fill="none"') == len(several)


def test_what_cannot_be_drawn_is_an_error(parsed, tmp_path):
    sentence = parsed[0]
    cases = [
        ({"target": tmp_path / "tree.png"}, "no format has the suffix '.png'; expected .*.svg"),
        ({"target": tmp_path / "no" / "tree.svg"}, "the folder is missing"),
        ({"tags": "lemma"}, "tags: expected one of upos, xpos, none, not 'lemma'"),
        ({"graphs": "all"}, "graphs: expected deps or heads, not 'all'"),
    ]
    for options, said in cases:
        with pytest.raises(ConfigError, match=said):
            sentence.draw(**options)
    assert list(tmp_path.iterdir()) == []
    wrong = gpuparse.read("1\ta\t_\t_\t_\t_\t7\tx\t_\t_\n\n")[0]
    with pytest.raises(DataError, match="sentence 1:1: the head of word 1 is '7'"):
        wrong.draw()


def test_docs_of_spacy_have_the_text_and_the_trees(text_parser):
    spacy = pytest.importorskip("spacy")
    text = raw_text()
    parsed = text_parser(text, probabilities=True)
    vocab = spacy.blank("en").vocab
    doc = parsed.to_spacy(vocab)
    assert (doc.text, doc.vocab) == (text, vocab)
    spans = [span for span in doc.sents if not span.text.isspace()]
    assert len(spans) == len(parsed)
    for span, sentence in zip(spans, parsed, strict=True):
        several = {i for each in sentence.multiword for i in range(each.first, each.last + 1)}
        of_place = {token.start: token for token in sentence if token.id not in several}
        tokens = {token.idx: token for token in span}
        for start, token in of_place.items():
            found = tokens[start]
            assert (found.text, found.lemma_) == (token.form, token.lemma)
            assert (found.pos_, found.tag_) == (token.upos, token.xpos or "")
            assert found.morph.to_dict() == dict(token.feats)
            assert found._.head_prob == token.probability
            head = token.head
            if head is None:
                assert (found.dep_, found.head) == ("ROOT", found)
            elif head.id not in several:
                assert (found.dep_, found.head.idx) == (token.deprel, head.start)
    assert {"didn't", "did", "wthe"} & {token.text for token in doc} == {"did", "wthe"}
    words = text_parser.parse([["She", "sings"], [], ["No"]]).to_spacy()
    assert (words.text, [span.text for span in words.sents]) == (
        "She sings No",
        ["She sings", "No"],
    )
    assert text_parser("").to_spacy().text == ""


def test_docs_hold_no_sentence_with_several_roots():
    pytest.importorskip("spacy")
    two = gpuparse.read(
        "# sent_id = x\n1\ta\t_\t_\t_\t_\t0\tx\t_\t_\n2\tb\t_\t_\t_\t_\t0\tx\t_\t_\n\n"
    )
    with pytest.raises(DataError, match=r"sentence 0 \(x\) is no tree with one root"):
        two.to_spacy()


def test_a_missing_package_is_an_error_that_names_its_extra(parsed, monkeypatch):
    monkeypatch.setitem(sys.modules, "spacy", None)
    with pytest.raises(ConfigError, match=r"needs spacy: pip install 'gpuparse\[spacy\]'"):
        parsed.to_spacy()
