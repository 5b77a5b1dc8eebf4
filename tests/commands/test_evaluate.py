"""The evaluate command: what it prints, its JSON, its exit codes, and that torch stays out."""

import json
import subprocess
import sys

import pytest

from gpuparse.commands.console import run
from gpuparse.commands.evaluate import main

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
    assert lines[0] == "4 words, 1 sentences"
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


@pytest.mark.parametrize("options", [["--ignore-punct"], ["--punct-tags", "PUNCT", ","]])
def test_punctuation_can_be_left_out(files, capsys, options):
    assert main([*files, "--json", *options]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["uas"] == {"percent": 100.0, "correct": 3, "total": 3}
    assert "punct" not in result["relations"]


def test_json(files, capsys):
    assert main([*files, "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["las_full"] == {"percent": 50.0, "correct": 2, "total": 4}
    assert result["nonprojective"]["recall"] is None
    assert result["root"] == {"precision": 100, "recall": 100, "f": 100, "gold": 1, "system": 1}
    assert result["relations"]["punct"]["f"] == 0.0


def test_the_two_ways_to_ignore_exclude_each_other(files, capsys):
    with pytest.raises(SystemExit) as caught:
        main([*files, "--ignore-punct", "--punct-tags", "X"])
    assert caught.value.code == 2
    assert "not allowed with" in capsys.readouterr().err


def test_as_a_process(files):
    done = gpuparse("evaluate", *files)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("4 words, 1 sentences\n")


def test_one_file_may_come_from_stdin(files):
    with open(files[1]) as system:
        done = gpuparse("evaluate", files[0], "-", "--json", stdin=system)
    assert json.loads(done.stdout)["uas"]["correct"] == 3


def test_standard_input_cannot_be_both_files(capsys):
    assert run(main, ["-", "-"]) == 2
    assert "can be read once only" in capsys.readouterr().err


def test_files_that_differ_are_bad_input(files, tmp_path):
    other = tmp_path / "other.conllu"
    other.write_text(GOLD.replace("dog\tdog", "cat\tdog"))
    done = gpuparse("evaluate", files[0], str(other))
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.startswith(f"gpuparse: error: {other}:3: sent_id one: the word is 'cat'")
    assert len(done.stderr.splitlines()) == 1


def test_a_missing_file_is_one_line(files, tmp_path):
    done = gpuparse("evaluate", files[0], str(tmp_path / "none.conllu"))
    assert done.returncode == 3
    assert done.stderr.startswith("gpuparse: error: ")
    assert "none.conllu" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_torch_is_not_loaded():
    code = "import sys, gpuparse.commands.evaluate; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
