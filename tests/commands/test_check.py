"""All faults of treebanks, and what a parser doubts in them, by all doors."""

import json
import re
from pathlib import Path

import pytest

import gpuparse
from gpuparse.commands import check, crossval, train
from gpuparse.commands.console import run
from gpuparse.data.conll import read_treebank, treebank_from_bytes, with_misc, write_predictions
from gpuparse.data.faults import DepsFault
from gpuparse.data.graphs import MESSAGES, check_graphs
from gpuparse.errors import ConfigError, DataError
from gpuparse.evaluation.reliability import HEAD, LABEL, misc_probabilities
from gpuparse.jobs.check_rows import deps_fault
from gpuparse.jobs.checking import MOST_WARNINGS
from gpuparse.jobs.doubts import GOLD_HEAD, parsed_beside_gold, parser_beside_gold
from gpuparse.model.folder import load_parser
from tests.commands.conftest import program
from tests.synthetic import generate

REAL = Path(__file__).resolve().parents[3] / "shared" / "data"
SOUND = """# sent_id = one
# text = Vom Hund, das
1-2\tVom\t_\t_\t_\t_\t_\t_\t_\t_
1\tvon\tvon\tADP\tIN\tA=b\t3\tcase\t_\t_
2\tdem\tder\tDET\tDT\t_\t3\tdet\t_\t_
3\tHund\tHund\tNOUN\tNN\t_\t0\troot\t_\tSpaceAfter=No
4\t,\t,\tPUNCT\tP\t_\t5\tpunct\t_\t_
5\tdas\tder\tPRON\tPP\t_\t3\tdep\t_\t_

"""


@pytest.fixture
def checked(tmp_path, capsys):
    """The output of `check` about a text, and its exit code."""

    def of(text: str, *words: object) -> tuple[str, int]:
        (tmp_path / "t.conllu").write_text(text)
        code = run(check.main, [str(tmp_path / "t.conllu"), *map(str, words)])
        return capsys.readouterr().out.replace(str(tmp_path / "t.conllu"), "t.conllu"), code

    return of


def test_a_sound_treebank(checked):
    said, code = checked(SOUND)
    assert code == 0
    assert said == (
        "0 errors, 0 warnings\nwithout errors: 1 sentence, 5 words\n"
        "non-projective: 0 sentences (0.0 %), 0 arcs\n"
    )


def test_all_errors_of_all_sentences_and_files(tmp_path, capsys):
    """Several of a sentence, beside others, with the exit code of bad input."""
    bad = SOUND.replace("\t3\tcase", "\t1\tcase").replace("\t3\tdet", "\t9\tdet")
    (tmp_path / "a.conllu").write_text(bad + SOUND.replace("one", "two"))
    (tmp_path / "b.conllu").write_text(SOUND.replace("\tdas\t", "\t\t").replace("one", "three"))
    files = [str(tmp_path / name) for name in ("a.conllu", "b.conllu")]
    assert run(check.main, files) == DataError.exit_code == 3
    said = capsys.readouterr().out.replace(str(tmp_path) + "/", "").splitlines()
    assert said[:3] == [
        "error: a.conllu:4: sent_id one: word 1 (von) is its own head; give it another",
        "error: a.conllu:5: sent_id one: HEAD of word 2 (dem) is 9; the sentence has 5 words",
        "error: b.conllu:8: sent_id three: FORM (column 2) is empty; write _ if there is no form",
    ]
    assert "3 errors, 0 warnings" in said
    assert run(check.main, [*files, "--json"]) == 3
    found = json.loads(capsys.readouterr().out)
    assert found["counts"] == {"own head": 1, "head not in the sentence": 1, "empty FORM": 1}
    assert [each["line"] for each in found["problems"]] == [4, 5, 8]
    assert json.loads(json.dumps(gpuparse.check(files).to_dict())) == found


def test_errors_are_those_that_training_meets(tmp_path, capsys):
    """Each error by itself: training refuses the treebank with the same message."""
    for old, new in (
        ("\t3\tcase", "\t_\tcase"), ("\t3\tcase", "\t1\tcase"), ("\t3\tdep", "\t4\tdep"),
        ("5\tdas", "6\tdas"), ("_\tSpaceAfter", "SpaceAfter"), ("1-2\t", "1-9\t"),
    ):  # fmt: skip
        text = SOUND.replace(old, new)
        path = tmp_path / "t.conllu"
        path.write_text(text)
        [problem] = gpuparse.check(path).errors
        words = ["fast", f"data.train={path}", f"output={tmp_path}/m", "--quiet"]
        assert run(train.main, words) == 3
        assert str(problem) in capsys.readouterr().err


def test_a_treebank_without_its_words_is_refused_by_training(tmp_path, capsys):
    """Some treebanks are distributed without their text."""
    path = tmp_path / "t.conllu"
    path.write_text(re.sub(r"(?m)^(\d+)\t[^\t]+", r"\1\t_", SOUND))
    [problem] = gpuparse.check(path).errors
    assert str(problem).startswith(f"{path}: FORM (column 2) is _ in every word; merge the text")
    for name in ("fast", "pipeline"):
        assert run(train.main, [name, f"data.train={path}", f"output={tmp_path}/m"]) == 3
        assert str(problem) in capsys.readouterr().err


EMPTY = "%s\tnode\t_\t_\t_\t_\t%s\t%s\t%s\t_\n"


WARNINGS = [  # a change of the sound treebank, the line, kind and text of its only warning
        # Empty nodes: right ones first.
        ("1-2\t", EMPTY % ("0.1", "_", "_", "_") + "1-2\t", None, None, ""),
        ("2\tdem", EMPTY % ("1.1", "_", "_", "3:x") + EMPTY % ("1.2", "_", "_", "1.1:x") + "2\tdem",
         None, None, ""),
        ("3\tHund", EMPTY % ("2.2", "_", "_", "_") + "3\tHund", 6, "empty node",
         "empty node 2.2 where 2.1 should be; put empty nodes behind the word that they follow"),
        ("3\tHund", EMPTY % ("3.1", "_", "_", "_") + "3\tHund", 6, "empty node",
         "where 2.1 should be"),
        ("1\tvon", EMPTY % ("0.1", "_", "_", "_") + "1\tvon", 4, "empty node",
         "empty node 0.1 is behind the row 1-2; put it before that row"),
        ("3\tHund", EMPTY % ("2.1", "1", "_", "_") + "3\tHund", 6, "empty node",
         "HEAD (column 7) of the empty node 2.1 is '1'; write _"),
        ("3\tHund", EMPTY % ("2.1", "_", "dep", "_") + "3\tHund", 6, "empty node",
         "DEPREL (column 8) of the empty node 2.1 is 'dep'; write _"),
        ("3\tHund", EMPTY % ("2.1", "_", "_", "9:x") + "3\tHund", 6, "DEPS",
         "DEPS of empty node 2.1 (node) has the item '9:x', whose head is not in the sentence"),
        ("3\tHund", EMPTY % ("2.1", "_", "_", "2.1:x") + "3\tHund", 6, "DEPS", "its own head"),
        ("3\tHund", EMPTY % ("2.1", "_", "_", "3.1:x") + "3\tHund", 6, "DEPS",
         "has the item '3.1:x', but the sentence has no empty node 3.1"),
        # Comments.
        ("3\tHund", "# a comment\n3\tHund", 6, "comment", "put it before the first word"),
        ("1\tvon", "# a comment\n1\tvon", 4, "comment", "put it before the first word"),
        ("3\tdep\t_\t_\n", "3\tdep\t_\t_\n# a comment\n", 9, "comment", "put it before the first"),
        # Multiword tokens.
        ("Vom\t_\t_\t_\t_", "Vom\t_\t_\t_\tTypo=Yes", None, None, ""),
        ("Vom\t_\t_\t_\t_", "Vom\t_\t_\t_\tA=b", 3, "multiword token",
         "FEATS (column 6) of the multiword token 1-2 is 'A=b'; write _"),
        ("Vom\t_", "Vom\tvom", 3, "multiword token", "LEMMA (column 3) of the multiword token 1-2"),
        ("Vom\t_\t_\t_\t_\t_\t_\t_", "Vom\t_\t_\t_\t_\t_\t_\t3:x", 3, "multiword token",
         "DEPS (column 9) of the multiword token 1-2 is '3:x'"),
        # Characters; umlauts that are one character are right.
        ("Hund\tHund", "Hund\tHünd", None, None, ""),
        ("Hund\tHund", "Hund\tHu\u0308nd", 6, "normal form",
         "LEMMA (column 3), 'Hu\u0308nd', is not in"),
        ("# sent_id", "# u\u0308\n# sent_id", 1, "normal form",
         "the comment is not in Unicode's normal"),
        # Trees, texts and values of columns.
        ("0\troot", "0\tdep", None, None, ""),  # no word at the root is named root
        ("3\tdep", "0\tdep", None, "several roots",
         "2 roots: words 3 (Hund) and 5 (das); keep one"),
        ("3\tdep", "3\troot", None, "root relation",
         "word 5 (das) has the relation root and HEAD 3; its HEAD is 0 elsewhere"),
        ("Hund, das", "Hund , das", None, "text",
         "# text has 'Vom Hund , das' where the words have 'Vom Hund, das'"),
        ("text = Vom", "text = Von", None, "text", "# text has 'Von Hund, das' where"),
        ("\tdas\tder\tPRON", "\tdas\tder\t_", None, "missing column",
         "UPOS (column 4) is _ in this word and 0 of 4 others"),
        ("A=b", "_", None, "missing column", "FEATS (column 6) is _ in every word; a parser"),
        ("\tvon\tvon\t", "\tvon\t\t", None, "empty column", "LEMMA (column 3) is empty; write _"),
        ("\tdep\t_\t_", "\tdep\t\t_", None, "empty column", "DEPS (column 9) is empty; write _"),
        ("PRON", "PRO", None, "UPOS",
         "UPOS (column 4) is 'PRO', which is none of the 17 tags of Universal Dependencies; did you"
         " mean PRON?"),
        ("A=b", "B=a|A=b", None, "FEATS", "is not sorted: 'A=b' belongs before 'B=a'"),
        ("A=b", "A=b|a=c", None, None, ""),  # sorted without regard to case, as the validator does
        ("A=b", "A=b|A=c", None, "FEATS", "FEATS (column 6) has 'A' twice"),
        ("A=b", "A=b|B", None, "FEATS", "has the item 'B'; items are Name=Value"),
        ("A=b", "A=b|B=", None, "FEATS", "has the item 'B='"),
        ("A=b", "A=b|", None, "FEATS", "has the item ''"),
        ("SpaceAfter=No", "SpaceAfter=No|", None, "MISC",
         "MISC (column 10) has an empty item beside a |: 'SpaceAfter=No|'"),
        ("SpaceAfter=No", "|SpaceAfter=No", None, "MISC", "has an empty item"),
]  # fmt: skip


def test_all_faults_of_deps(checked):
    """Several of a sentence, in a file where no sentence has readable DEPS too."""
    text = SOUND.replace("\tcase\t_", "\tcase\t9:x|1:y|3:z").replace("\tdet\t_", "\tdet\tx")
    said, code = checked(text)
    assert code == 0
    items = re.findall(r":(\d): sent_id one: DEPS of word (\d) .* has the item '(.*?)'", said)
    assert items == [
        ("4", "1", "9:x"), ("4", "1", "1:y"), ("5", "2", "x"),
    ]  # fmt: skip


@pytest.mark.parametrize("item", [
    "3:x", "0:root", "3", "", ":", ":x", "3:", "3.1:x", "3.0:x", "03:x", "-1:x", "x:y", "4:x",
    "9:x", "4.2:x", "2:x", "2.1:x", "2-3:x", "3:a:b", "1.:x", ".1:x", " 3:x", "٣:x", "³:x",
])  # fmt: skip
def test_faults_of_deps_are_those_of_reading(item):
    text = "".join(
        f"{m}\tw\t_\t_\t_\t_\t{m - 1}\tx\t{item if m == 2 else '_'}\t_\n" for m in (1, 2, 3)
    )
    errors = check_graphs(treebank_from_bytes(f"{text}\n".encode(), "t"))
    fault = deps_fault(item, "2", 3)
    assert len(errors) == (fault != DepsFault.NO_DEPS_FAULT)
    assert all(str(error).endswith(MESSAGES[fault].format(n=3)) for error in errors)


def many(text: str, *others: str) -> str:
    """A sentence 25 times, and others once, all with names of their own."""
    texts = [text] * 25 + list(others)
    return "".join(each.replace("one", f"s{i}") for i, each in enumerate(texts))


@pytest.mark.parametrize(
    ("old", "new", "meant"),
    [
        ("\tpunct", "\tpuntc", "punct"), ("\tpunct", "\tpunkt", "punct"),
        ("\tpunct", "\tPunct", "punct"), ("\tpunct", "\tpunc", "punct"),
        ("\tdep", "\tdeep", "dep"), ("\tdep", "\tdepp:x", "dep:x"),
        ("\tcase", "\tcase:posz", None), ("\tcase", "\tcase:posss", "case:poss"),
        ("\tdet", "\tdep", None), ("\tdet", "\tclf", None), ("\tdet", "\tfoo", None),
        ("Number=Sing", "Number=sing", "Number=Sing"),
        ("Number=Sing", "Number=Snig", "Number=Sing"),
        ("Number=Sing", "Numbre=Sing", "Number=Sing"), ("Number=Sing", "Number=Song", None),
        ("ExtPos=PROPN", "ExtPos=PRON", None), ("Class=Bantu1", "Class=Bantu11", None),
    ],
)  # fmt: skip
def test_slips(checked, old, new, meant):
    feats = "Class=Bantu1|ExtPos=PROPN|Number=Sing"
    sound = SOUND.replace("A=b", feats).replace("case", "case:poss")
    old = old.replace("case", "case:poss")
    assert "0 warnings" in checked(many(sound))[0]
    found, code = checked(many(sound, sound.replace(old, new)), "--json")
    messages = [each["message"] for each in json.loads(found)["problems"] if each["kind"] == "slip"]
    assert code == 0
    assert [each.endswith(f"which looks like a slip of {meant!r}") for each in messages] == (
        [True] * (meant is not None)
    )


def test_slips_of_other_relations(checked):
    """Other inventories have rare names with another letter; only frequent names are meant."""
    sound = SOUND.replace("\tpunct", "\tnsubjpass").replace("\tdet", "\tVMOD").replace("ADP", "IN")
    for old, new, count in (
        ("nsubjpass", "csubjpass", 0), ("nsubjpass", "nsubjpas", 1), ("VMOD", "NMOD", 0),
        ("VMOD", "VMDO", 1), ("VMOD", "MOD", 0), ("VMOD", "Vmod", 1),
    ):  # fmt: skip
        said, _ = checked(many(sound, sound.replace(old, new)))
        assert said.count("looks like a slip of") == count, new
    said, _ = checked(many(sound, *[sound.replace("nsubjpass", "nsubjpas")] * 3))
    assert "slip" not in said  # three are no slip


@pytest.mark.skipif(not REAL.is_dir(), reason="needs the treebanks in ../shared/data")
def test_real_treebanks_have_no_such_faults():
    """However many relations and features they have that differ in a letter."""
    kinds = {"slip", "comment", "empty node", "multiword token", "normal form", "DEPS", "text"}
    files = sorted(REAL.rglob("*.conll*"))
    assert files
    for file in files:
        assert not kinds & gpuparse.check(file).counts.keys()


@pytest.mark.parametrize(("old", "new", "line", "kind", "said"), WARNINGS)
def test_warnings_have_their_line_and_kind(checked, old, new, line, kind, said):
    """Reading accepts all of it."""
    assert old in SOUND
    for text in (SOUND.replace(old, new), SOUND.replace(old, new).replace("\n", "\r\n")):
        found, code = checked(text, "--json")
        problems = [each for each in json.loads(found)["problems"] if each["kind"] != "bytes"]
        assert code == 0
        assert [each["kind"] for each in problems] == [kind] * bool(kind)
        assert all(line in (each["line"], None) for each in problems)
        assert all(said in each["message"] and not each["is_error"] for each in problems)


TWO = SOUND.replace("one", "two")
BAD = TWO.replace("\t3\tcase", "\t1\tcase")
PARTIAL = SOUND.replace("\t3\tcase", "\t_\t_")
GRAPH = SOUND.replace("\t_\tSpaceAfter", "\t0:root\tSpaceAfter")
OTHER_TAGS = re.sub("ADP|DET|NOUN|PUNCT|PRON", "N", SOUND).replace("A=b", "pl|m|pl")
ELSEWHERE = "word 3 (Hund) has HEAD 0 and the relation dep; it is root elsewhere"
TREEBANKS = {  # a treebank, the exit code, what is said, and what is not
    "a missing SpaceAfter": (SOUND + TWO.replace("SpaceAfter=No", "_"), 0,
        "sent_id two: # text has 'Vom Hund, das' where the words have 'Vom Hund , das'", "1 error"),
    "no SpaceAfter, as in CoNLL-X": (SOUND.replace("SpaceAfter=No", "_"), 0, "0 warnings", ""),
    "tags of CoNLL-X": (OTHER_TAGS.replace("\t_\tSpaceAfter=No", "\t_\t|"), 0, "", "FEATS|MISC"),
    "an empty column": (OTHER_TAGS.replace("\t_\tSpaceAfter=No", "\t_\t"), 0,
        "MISC (column 10) is empty; write _", "FEATS"),
    "no FEATS but in faulty sentences": (SOUND.replace("A=b", "_") + BAD, 3,
        "FEATS (column 6) is _ in every word of the sentences without errors; a parser", ""),
    "few UPOS but in faulty sentences": (SOUND.replace("PRON", "_") + BAD, 3,
        "is _ in this word and 0 of 4 others of the sentences without errors", ""),
    "one of two roots": (SOUND + TWO.replace("0\troot", "0\tdep"), 0, "", "root relation"),
    "one of three roots": (2 * SOUND + TWO.replace("0\troot", "0\tdep"), 0, ELSEWHERE, ""),
    "a name twice": (2 * SOUND, 0,
        "t.conllu:13: sent_id one: the sentence at t.conllu:4 has the same sent_id", ""),
    "DEPS of graphs": (GRAPH + GRAPH.replace("one", "two").replace("0:root", "7:root"), 0,
        "t.conllu:15: sent_id two: DEPS of word 3 (Hund) has the item '7:root'", ""),
    "PHEAD of CoNLL-X": (SOUND.replace("\t_\tSpaceAfter", "\t0\tSpaceAfter"), 0, "0 warnings", ""),
    "crossing arcs": (SOUND.replace("5\tpunct", "1\tpunct").replace("3\tcase", "5\tcase"), 0,
        "non-projective: 1 sentence (100.0 %), 2 arcs", ""),
    "a missing head": (PARTIAL, 3, "no HEAD for word 1 (von)", ""),
    "--partial": (PARTIAL, 0, "", "no HEAD"),
    "nothing": ("", 3, "t.conllu: has no sentences", ""),
}  # fmt: skip


@pytest.mark.parametrize("name", TREEBANKS)
def test_treebanks(checked, name):
    text, expected, there, not_there = TREEBANKS[name]
    said, code = checked(text, *[name] * name.startswith("--"))
    assert (code, there in said) == (expected, True)
    assert not any(each in said for each in not_there.split("|") if each)


def test_many_warnings_of_a_kind(checked):
    text = (MOST_WARNINGS + 3) * SOUND
    said, _ = checked(text)
    assert said.count("same sent_id") == MOST_WARNINGS
    assert "warning: 2 more of 'sent_id'; --all lists them" in said
    said, _ = checked(text, "--all")
    assert said.count("same sent_id") == MOST_WARNINGS + 2


@pytest.fixture(scope="module")
def wrong(trained, tmp_path_factory):
    """The gold test file, in which a head and a relation were made wrong; the two lines."""
    gold = read_treebank(str(trained.test))
    text = trained.test.read_bytes()
    heads = gold.heads.copy()
    s = next(s for s in range(len(gold)) if len(gold[s]) > 5 and gold[s].heads[4] not in (0, 1))
    word = int(gold.word_starts[s]) + 4
    children = [w for w in range(len(gold[s])) if gold[s].heads[w] == 5]
    heads[word] = next(
        h for h in range(1, len(gold[s]) + 1)
        if h not in (5, heads[word]) and h - 1 not in children
        and gold[s].heads[h - 1] not in (5, *(c + 1 for c in children))
    )  # fmt: skip
    lines = write_predictions(gold, heads).decode().split("\n")
    other = int(gold.lines[gold.word_starts[20]])
    row = lines[other - 1].split("\t")
    row[7] = "never-seen"
    lines[other - 1] = "\t".join(row)
    assert treebank_from_bytes(text, "t").n_words == gold.n_words
    path = tmp_path_factory.mktemp("wrong") / "wrong.conllu"
    path.write_text("\n".join(lines))
    return path, int(gold.lines[word]), other


def test_doubts_of_a_model(trained, wrong, capsys, tmp_path):
    """Wrong heads and unknown relations come first; all doors give the same."""
    path, line, other = wrong
    page = tmp_path / "page.html"
    words = [str(path), "--model", str(trained.model), "--most", "12"]
    assert run(check.main, [*words, "--json", "--html", str(page)]) == 0
    found = json.loads(capsys.readouterr().out)
    doubts = found["doubts"]
    assert len(doubts) == 12 <= found["n_doubts"]
    by_line = {each["line"]: each for each in doubts}
    assert {line, other} <= set(by_line)
    assert by_line[other]["relation"] == "never-seen"
    assert by_line[other]["relation_probability"] == by_line[other]["probability"] == 0.0
    assert by_line[line]["head_probability"] < by_line[line]["preferred_head_probability"]
    probabilities = [each["probability"] for each in doubts]
    assert probabilities == sorted(probabilities)
    assert page.read_text().count("<h2") == len({each["sent_id"] for each in doubts})
    same = gpuparse.check(path, model=trained.model, most=12)
    assert json.loads(json.dumps(same.to_dict())) == found
    assert run(check.main, words) == 0
    text = capsys.readouterr().out
    assert "never-seen" in text
    assert text.rstrip() == str(same)


def test_probabilities_are_those_of_given_trees(trained, tmp_path, capsys):
    """`parse --keep heads` of all but one head, and HeadProb where the parser agrees with gold."""
    model, gold = load_parser(trained.model), read_treebank(str(trained.test))
    parsed = parsed_beside_gold(model, gold, threads=1)
    same = gold.heads == parsed.heads
    assert 0.5 < same.mean() < 1.0
    of_gold, of_found = (misc_probabilities(parsed, key) for key in (GOLD_HEAD, HEAD))
    assert (of_gold[same] == of_found[same]).all()
    assert (of_gold + of_found)[~same].max() <= 1.0001
    assert not any("nan" in parsed.column(w, 9) for w in range(parsed.n_words))
    # The gold heads given to the parser: as it would have them itself.
    again = parsed_beside_gold(model, treebank_from_bytes(parsed.data.tobytes(), "p"), threads=1)
    assert (misc_probabilities(again, GOLD_HEAD) == of_found).all()
    assert (misc_probabilities(again, "GoldLabelProb") == misc_probabilities(parsed, LABEL)).all()


FOLDS = ["learning.epochs=2", "labels.epochs=1", "threads=1", "--folds", "2", "--quiet",
         "--probabilities"]  # fmt: skip


@pytest.fixture(scope="module")
def folds(tmp_path_factory):
    """A treebank, and the folder of its cross-validation."""
    folder = tmp_path_factory.mktemp("folds")
    path, out = folder / "train.conllu", folder / "out"
    path.write_bytes(generate(60, 1))
    assert run(crossval.main, ["fast", f"data.train={path}", *FOLDS, "--output", str(out)]) == 0
    return path, out


def test_doubts_by_folds(folds, capsys):
    """Each word is judged by a parser of the other folds."""
    path, predicted = folds[0], folds[1] / "predicted.conllu"
    items = r"GoldHeadProb=[01]\.\d{4}\|GoldLabelProb=.*\|GoldArc=\d+:[a-z]"
    assert re.search(items, predicted.read_text())
    words = [str(path), "--predicted", str(predicted), "--json"]
    assert run(check.main, words) == 0
    found = json.loads(capsys.readouterr().out)
    gold, system = read_treebank(str(path)), read_treebank(str(predicted))
    wrong_words = sum(
        (one.heads[w], one.labels[w]) != (other.heads[w], other.labels[w])
        for one, other in zip(gold, system, strict=True)
        for w in range(len(one))
    )
    assert found["n_doubts"] == wrong_words
    assert run(check.main, [str(predicted), "--predicted", str(path)]) == 3
    assert "words have no GoldArc in MISC; make the file by crossval" in (capsys.readouterr().err)


def test_probabilities_of_changed_words(folds, tmp_path, capsys):
    """The probability of a word's earlier head and relation is never taken for that of others."""
    path, out = folds
    predicted = out / "predicted.conllu"
    before = gpuparse.check(path, predicted=predicted, most=1000)
    gold = read_treebank(str(path))
    sure = set(gold.lines.tolist()) - {doubt.line for doubt in before.doubts}
    leaves = [
        (s, m) for s in range(len(gold)) for m in range(1, len(gold[s]) + 1)
        if m not in gold[s].heads and int(gold.lines[gold.word_starts[s]]) + m - 1 in sure
    ][:2]  # fmt: skip
    lines = path.read_text().split("\n")
    edited_lines = [int(gold.lines[gold.word_starts[s]]) + m - 1 for s, m in leaves]
    rows = [lines[line - 1].split("\t") for line in edited_lines]
    arcs = [f"{row[6]}:{row[7]}" for row in rows]
    rows[0][7] = "a|b%"
    m, head = leaves[1][1], int(rows[1][6])
    rows[1][6] = str(next(h for h in range(1, 4) if h not in (m, head)))
    for line, row in zip(edited_lines, rows, strict=True):
        lines[line - 1] = "\t".join(row)
    edited = tmp_path / "edited.conllu"
    edited.write_text("\n".join(lines))
    found = gpuparse.check(edited, predicted=predicted, most=1000)
    changed = [each for each in found.problems if each.kind == "changed annotation"]
    assert [each.line for each in changed] == edited_lines
    for problem, arc in zip(changed, arcs, strict=True):
        assert f"the {arc} that {predicted} has a probability of" in problem.message
    assert [each.line for each in found.doubts] == [each.line for each in before.doubts]
    # With an error in another sentence the words differ, and the error is what is said.
    capsys.readouterr()
    broken = tmp_path / "broken.conllu"
    broken.write_text("\n".join(lines).replace("\t0\troot", "\t99\troot", 1))
    asked = [str(broken), "--predicted", str(predicted), "--html", str(tmp_path / "page.html")]
    assert run(check.main, asked) == 3
    said = capsys.readouterr()
    assert "is 99; the sentence has" in said.out
    assert "until the errors are corrected" in said.err
    assert not (tmp_path / "page.html").exists()
    # The finished folder is of the other annotation; learned again, both words are ranked.
    words = ["fast", f"data.train={edited}", *FOLDS, "--output"]
    assert run(crossval.main, [*words, str(out)]) == 2
    said = capsys.readouterr().err
    assert "data.train: has other content" in said
    assert "remove this folder to learn anew" in said
    assert run(crossval.main, [*words, str(tmp_path / "again")]) == 0
    again = gpuparse.check(edited, predicted=tmp_path / "again" / "predicted.conllu", most=1000)
    assert not again.warnings or "changed annotation" not in again.counts
    assert {*edited_lines} <= {each.line for each in again.doubts}


def test_doubts_of_several_files(trained, tmp_path, capsys):
    """One file of cross-validation has the sentences of all, one after the other."""
    gold = read_treebank(str(trained.test))
    predicted = tmp_path / "predicted.conllu"
    parsed = parser_beside_gold(trained.model, None, 1)(gold, lambda sentences: None)
    predicted.write_bytes(parsed.data.tobytes())
    whole = gpuparse.check(trained.test, predicted=predicted, most=1000)
    cut, files = len(gold) // 3, [tmp_path / "a.conllu", tmp_path / "b.conllu"]
    for file, part in zip(files, ([0, cut], [cut, len(gold)]), strict=True):
        file.write_bytes(with_misc(gold.part(*part), {}))
    found = gpuparse.check(files, predicted=predicted, most=1000)
    assert found.n_doubts == whole.n_doubts > 0
    assert {each.file for each in found.doubts} == {*map(str, files)}
    assert [each.probability for each in found.doubts] == [
        each.probability for each in whole.doubts
    ]
    for wrong in (files[:1], files[::-1], [*files, files[0]]):
        assert run(check.main, [*map(str, wrong), "--predicted", str(predicted)]) == 3
        assert "both files need the same words and sentences" in capsys.readouterr().err


def test_files_of_earlier_versions_are_refused(trained, tmp_path, capsys):
    """Probabilities of gold trees without the trees that they are of."""
    parsed = parser_beside_gold(trained.model, None, 1)(read_treebank(str(trained.test)), print)
    path = tmp_path / "predicted.conllu"
    path.write_bytes(re.sub(rb"\|GoldArc=[^|\n]*", b"", parsed.data.tobytes()))
    assert run(check.main, [str(trained.test), "--predicted", str(path)]) == 3
    assert "words have no GoldArc in MISC; make the file by crossval" in capsys.readouterr().err


def test_wrong_options(trained, tmp_path, capsys):
    path = str(trained.test)
    for words, said in (
        ([path, "--model", "m", "--predicted", "p"], "give one of --model and --predicted"),
        ([path, "--html", "x.html"], "--html: needs one treebank"),
        ([path, "--guide", "misc:G"], "--guide: is for --model"),
    ):
        assert run(check.main, words) == 2
        assert said in capsys.readouterr().err
    with pytest.raises(ConfigError, match="give one of"):
        gpuparse.check(path, model="m", predicted="p")
    words = ["crossval", "fast", f"data.train={path}", "decoder=hill_climb", "--probabilities"]
    done = program("-m", "gpuparse", *words, "--output", tmp_path / "o")
    assert done.returncode == 2
    assert b"decoder hill_climb has no exact sums" in done.stderr
