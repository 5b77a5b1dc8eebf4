"""`evaluate --probabilities`: tables, JSON, errors."""

import json

import pytest

from gpuparse.commands.console import run
from gpuparse.commands.evaluate import main as evaluate

WORD = "{}\t{}\t_\t{}\t_\t_\t{}\t{}\t_\t{}\n"


def main(arguments) -> int:
    return evaluate(["--probabilities", *arguments])


def text_of(*rows: tuple[str, str, int, str, str]) -> str:
    return "".join(WORD.format(m, *row) for m, row in enumerate(rows, 1)) + "\n"


@pytest.fixture
def files(tmp_path):
    gold, system = tmp_path / "gold.conllu", tmp_path / "system.conllu"
    gold.write_text(
        text_of(
            ("The", "DET", 2, "det", "_"),
            ("dog", "NOUN", 3, "nsubj:pass", "_"),
            ("barks", "VERB", 0, "root", "_"),
            (".", "PUNCT", 3, "punct", "_"),
        )
    )
    system.write_text(
        text_of(
            ("The", "DET", 2, "det", "HeadProb=0.9500|LabelProb=1.0000"),
            ("dog", "NOUN", 3, "nsubj", "HeadProb=0.8500|LabelProb=0.5500"),
            ("barks", "VERB", 0, "root", "SpaceAfter=No|HeadProb=0.9500|LabelProb=0.9000"),
            (".", "PUNCT", 2, "punct", "HeadProb=0.4000|LabelProb=0.9500"),
        )
    )
    return str(gold), str(system)


def test_the_tables(files, capsys):
    assert main(files) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    heads, relations, both = captured.out.split("\n\n")[::3]
    assert heads == "heads: 4 words, 75.00 % right, 78.75 % expected"
    assert relations.startswith("relations, where the head is right: 3 words, 66.67 % right")
    assert both.startswith("heads and relations: 4 words, 50.00 % right")
    lines = captured.out.splitlines()
    assert lines[3].split() == ["0.4000", "to", "0.5000", "1", "40.00", "0.00", "-40.00"]
    assert lines[5].split() == ["0.9000", "to", "1.0000", "2", "95.00", "100.00", "+5.00"]
    # (1 * 0.40 + 1 * 0.15 + 2 * 0.05) / 4
    assert "expected calibration error  16.25 %" in lines
    assert "AUC                         1.0000" in lines
    assert "least certain 20 % of words  80.00 % of the errors" in lines


@pytest.mark.parametrize("options", [["--ignore-punct"], ["--punct-tags", "PUNCT"]])
def test_punctuation_can_be_left_out(files, capsys, options):
    assert main([*files, "--json", *options]) == 0
    result = json.loads(capsys.readouterr().out)
    assert list(result) == ["heads", "relations", "both"]
    assert result["heads"]["right"] == 1.0
    assert result["heads"]["auc"] is None


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ("gold gold", 3, "no scored word has HeadProb in MISC (column 10); parse the file with"),
        ("gold wrong", 3, "{wrong}:2: HeadProb in MISC (column 10) is '85 %'"),
        ("gold other", 3, "the word is 'cat'"),
    ],
)
def test_what_is_refused(files, tmp_path, capsys, words, code, said):
    text = (tmp_path / "system.conllu").read_text()
    (tmp_path / "wrong.conllu").write_text(text.replace("0.8500", "85 %"))
    (tmp_path / "other.conllu").write_text(text.replace("dog", "cat"))
    paths = {path.stem: str(path) for path in tmp_path.iterdir()}
    assert run(main, [paths[word] for word in words.split()]) == code
    assert said.format(**paths) in capsys.readouterr().err


def test_words_without_a_probability_are_said(files, tmp_path, capsys):
    partial = tmp_path / "partial.conllu"
    with open(files[1]) as system:
        partial.write_text(system.read().replace("HeadProb=0.8500|", ""))
    assert main([files[0], str(partial), "--json"]) == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out)["heads"]["count"] == 3
    assert "1 word without HeadProb is not counted" in captured.err
