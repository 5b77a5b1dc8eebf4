"""The evaluate command: what it prints, its JSON, its exit codes, and that torch stays out."""

import json
import subprocess
import sys

import pytest

from gpuparse.commands.console import run
from gpuparse.commands.evaluate import main
from tests.commands.conftest import exit_code
from tests.samples import without

GOLD = (
    "# sent_id = one\n"
    "1\tThe\tthe\tDET\tDT\t_\t2\tdet\t_\t_\n"
    "2\tdog\tdog\tNOUN\tNN\t_\t3\tnsubj:pass\t_\t_\n"
    "3\tbarks\tbark\tVERB\tVBZ\t_\t0\troot\t_\t_\n"
    "4\t.\t.\tPUNCT\t.\t_\t3\tpunct\t_\t_\n\n"
)


@pytest.fixture
def files(tmp_path):
    gold, system = tmp_path / "gold.conllu", tmp_path / "system.conllu"
    gold.write_text(GOLD)
    changed = GOLD.replace("3\tpunct", "2\tpunct").replace("nsubj:pass", "nsubj")
    system.write_text(changed)
    return str(gold), str(system)


def gpuparse(*words, **kwargs):
    return subprocess.run(
        [sys.executable, "-m", "gpuparse", *words], capture_output=True, text=True, **kwargs
    )


def test_the_table(files, capsys):
    assert main(files) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "4 words, 1 sentence"
    table = {line[:20].strip(): line[20:].split()[:4] for line in lines[2:8]}
    assert table == {
        "UAS": ["75.00", "3", "of", "4"],
        "LAS": ["75.00", "3", "of", "4"],
        "LAS, whole relation": ["50.00", "2", "of", "4"],
        "label accuracy": ["75.00", "3", "of", "4"],
        "complete": ["0.00", "0", "of", "1"],
        "complete, labelled": ["0.00", "0", "of", "1"],
    }
    arcs = {line[:20].strip(): line[20:].split() for line in lines[10:]}
    assert arcs["root"] == ["100.00", "100.00", "100.00", "1", "1"]
    # The full stop hangs from word 2, past the root word: not projective.
    assert arcs["non-projective arcs"] == ["0.00", "-", "0.00", "0", "1"]
    assert arcs["nsubj:pass"] == ["-", "0.00", "0.00", "1", "0"]


def test_it_says_why_recall_is_above_zero_without_nonprojective_arcs(files, capsys):
    gold, system = files
    # Word 4 hangs from word 2 in both; only in gold, past the root word.
    for name, heads in ((gold, "2302"), (system, "2022")):
        lines = [
            "\t".join([*line.split("\t")[:6], head, *line.split("\t")[7:]])
            for line, head in zip(GOLD.splitlines()[1:5], heads, strict=True)
        ]
        with open(name, "w") as file:
            file.write("\n".join(lines) + "\n\n")
    assert main(files) == 0
    lines = capsys.readouterr().out.splitlines()
    [at] = [i for i, line in enumerate(lines) if line.startswith("non-projective arcs")]
    assert lines[at].split()[2:] == ["-", "100.00", "0.00", "1", "0"]
    assert "where no other arc of the system's tree crosses it" in lines[at + 1]
    assert main([gold, gold]) == 0
    assert "no other arc" not in capsys.readouterr().out


@pytest.mark.parametrize("options", [["--ignore-punct"], ["--punct-tags", "PUNCT", ","]])
def test_punctuation_can_be_left_out(files, capsys, options):
    assert main([*files, "--json", *options]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["uas"] == {"percent": 100.0, "correct": 3, "total": 3}
    assert "punct" not in result["relations"]


def with_deps(text: str, *deps: str) -> str:
    """The text with the DEPS of its words replaced."""
    lines = text.split("\n")
    for k, item in enumerate(deps, 1):
        lines[k] = lines[k].removesuffix("_\t_") + f"{item}\t_"
    return "\n".join(lines)


@pytest.fixture
def graph_files(tmp_path):
    gold, system = tmp_path / "gold.conllu", tmp_path / "system.conllu"
    gold.write_text(with_deps(GOLD, "2:det", "3:nsubj:pass|1:[x]", "0:root", "3:punct"))
    system.write_text(with_deps(GOLD, "2:det|3:y", "3:nsubj", "0:root", "2:punct"))
    return str(gold), str(system)


def test_graphs_as_a_table(graph_files, capsys):
    assert main([*graph_files, "--graphs", "deps"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "4 words, 1 sentence"
    assert lines[2].split()[:4] == ["complete", "0.00", "0", "of"]
    assert lines[3].startswith("complete, labelled")
    width = len("arcs, relation up to its first ':'")
    table = {line[:width].strip(): line[width:].split() for line in lines[6:]}
    assert table["arcs"] == ["60.00", "60.00", "60.00", "5", "5"]
    assert table["arcs, relation up to its first ':'"] == ["60.00", "60.00", "60.00", "5", "5"]
    assert table["arcs, whole relation"] == ["40.00", "40.00", "40.00", "5", "5"]
    assert table["secondary arcs"] == ["0.00", "0.00", "0.00", "1", "2"]
    assert table["nsubj:pass"] == ["-", "0.00", "0.00", "1", "0"]


def test_heads_as_graphs(graph_files, capsys):
    # The system's HEAD and DEPREL are the gold ones: only the secondary arc is missing.
    assert main([*graph_files, "--graphs", "heads", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert {"labelled_universal", "secondary_labelled", "complete", "relations"} < result.keys()
    assert result["labelled"]["precision"] == 100.0
    assert result["labelled"]["recall"] == 80.0
    assert result["secondary"]["system"] == 0


def words_table(text: str) -> dict[str, list[str]]:
    return {line[:20].strip(): line[20:].split() for line in text.splitlines()}


def test_other_words_get_the_table_of_the_shared_task(files, tmp_path, capsys):
    other = tmp_path / "other.conllu"
    merged = "3\tbarks.\tbark\tVERB\tVBZ\t_\t0\troot\t_\t_\n\n"
    other.write_text(GOLD[: GOLD.index("3\tbarks")] + merged)
    assert main([files[0], str(other)]) == 0
    shown = capsys.readouterr()
    table = words_table(shown.out)
    parts = f"{other}:4: sent_id one: the word is 'barks.', but at {files[0]}:4 it is 'barks'"
    assert f"{parts}: the measures are of the CoNLL 2018 shared task" in shown.err
    assert table["Tokens"] == ["66.67", "50.00", "57.14", "-", "4", "3"]
    assert table["Sentences"] == ["100.00", "100.00", "100.00", "-", "1", "1"]
    assert table["UPOS"] == ["66.67", "50.00", "57.14", "100.00", "4", "3"]
    assert table["UAS"] == ["33.33", "25.00", "28.57", "50.00", "4", "3"]
    assert table["CLAS"] == ["0.00", "0.00", "0.00", "0.00", "2", "2"]
    assert main([files[0], str(other), "--json"]) == 0
    scores = json.loads(capsys.readouterr().out)["conll18"]
    assert len(scores) == 13
    assert scores["tokens"]["aligned_accuracy"] is None
    assert scores["upos"] == {
        "precision": pytest.approx(200 / 3),
        "recall": 50.0,
        "f": pytest.approx(400 / 7),
        "gold": 4,
        "system": 3,
        "correct": 2,
        "aligned_accuracy": 100.0,
        "aligned": 2,
    }
    assert run(main, [files[0], str(other), "--ignore-punct"]) == 2
    assert f"{parts}: --ignore-punct needs trees over the same words" in capsys.readouterr().err
    assert run(main, [files[0], str(other), "--punct-tags", "PUNCT"]) == 2
    assert f"{parts}: --punct-tags needs" in capsys.readouterr().err
    assert run(main, [files[0], files[1], "--ignore-punct"]) == 0
    assert "shared task" not in capsys.readouterr().err


def test_other_tags_of_the_same_words_are_scored_too(files, tmp_path, capsys):
    other = tmp_path / "other.conllu"
    other.write_text(GOLD.replace("NOUN\tNN", "VERB\tNN").replace("\tbark\t", "\tbarks\t"))
    assert main([files[0], str(other)]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("4 words, 1 sentence\n")
    table = words_table(printed[printed.index("tags and lemmas") :])
    assert table["UPOS"][2] == table["Lemmas"][2] == "75.00"
    assert (table["XPOS"][2], table["MLAS"][2], "Tokens" in table) == ("100.00", "50.00", False)
    assert main([files[0], str(other), "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["uas"]["correct"], result["conll18"]["lemmas"]["correct"]) == (4, 3)
    assert main([files[0], files[0], "--json"]) == 0
    assert "conll18" not in json.loads(capsys.readouterr().out)


def test_files_without_trees_are_scored_by_their_tags(tmp_path, capsys):
    gold, system = tmp_path / "gold.conllu", tmp_path / "system.conllu"
    gold.write_bytes(without(GOLD.encode(), 6, 7))
    system.write_bytes(gold.read_bytes().replace(b"VBZ", b"NN"))
    assert main([str(gold), str(system)]) == 0
    shown = capsys.readouterr()
    table = words_table(shown.out)
    assert (table["XPOS"][2], table["Words"][2], "UAS" in table) == ("75.00", "100.00", False)
    assert f"{gold}: no word has a HEAD: the measures are" in shown.err


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ("- -", 2, "can be read once only"),
        ("gold system --ignore-punct --punct-tags X", 2, "not allowed with"),
        ("gold none.conllu", 3, "none.conllu: cannot be read: No such file"),
        ("gold other", 3, "{other}:3: sent_id one: the text here is 'cat"),
        ("gold system --graphs deps", 3, "{gold}: DEPS (column 9) is _ in every word"),
        ("gold system --graphs deps", 3, "--graphs heads"),
    ],
)
def test_what_is_refused(files, tmp_path, capsys, words, code, said):
    (tmp_path / "other.conllu").write_text(GOLD.replace("dog\tdog", "cat\tdog"))
    paths = {path.stem: str(path) for path in tmp_path.iterdir()}
    assert exit_code(main, [paths.get(word, word) for word in words.split()]) == code
    shown = capsys.readouterr()
    assert said.format(**paths) in shown.err
    assert shown.out == ""
    assert code == 2 or shown.err.count("\n") == 1


def test_one_file_may_come_from_stdin(files):
    with open(files[1]) as system:
        done = gpuparse("evaluate", files[0], "-", "--json", stdin=system)
    assert json.loads(done.stdout)["uas"]["correct"] == 3
