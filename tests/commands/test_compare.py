"""The compare command: scores side by side, its tests against counts by hand, errors, JSON."""

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest

from gpuparse.commands.compare import main
from gpuparse.commands.console import run
from gpuparse.commands.evaluate import main as evaluate
from gpuparse.evaluation.significance import mcnemar
from tests.commands.conftest import exit_code
from tests.oracles.attachment import is_punctuation, random_tree, sentences

RELATIONS = ["nsubj", "nsubj:pass", "obl", "obl:agent", "punct"]


def random_texts(seed: int, systems: int, n_sentences: int = 40) -> list[str]:
    """A gold file and parsed ones that agree with it in two thirds of the sentences."""
    draw = random.Random(seed)
    texts = ["" for _ in range(systems + 1)]
    for _ in range(n_sentences):
        n = draw.randint(1, 14)
        gold, labels = random_tree(draw, n), [draw.choice(RELATIONS) for _ in range(n)]
        forms = [draw.choice(["Hund", ",", "...", "犬"]) for _ in range(n)]
        for k in range(systems + 1):
            heads = gold if k == 0 or draw.random() < 0.6 else random_tree(draw, n)
            for m in range(n):
                other = k and draw.random() < 0.2
                label = draw.choice(RELATIONS) if other else labels[m]
                texts[k] += f"{m + 1}\t{forms[m]}\t_\tX\t_\t_\t{heads[m]}\t{label}\t_\t_\n"
            texts[k] += "\n"
    return texts


@pytest.fixture
def files(tmp_path):
    paths = [tmp_path / f"{name}.conllu" for name in ("gold", "first", "second", "third")]
    for path, text in zip(paths, random_texts(1, 3), strict=True):
        path.write_text(text)
    return [str(path) for path in paths]


def result_of(capsys, command, *words):
    assert command(list(words)) == 0
    return json.loads(capsys.readouterr().out)


def by_hand(paths, measure, keep=lambda row: True):
    """(only first, only second) of two files, word by word from their text."""
    rows = [
        [row for rows in sentences(Path(path).read_text()) for row in rows] for path in (*paths,)
    ]

    def right(gold, row):
        cut = (lambda label: label.split(":")[0]) if measure == "las" else str
        return gold[6] == row[6] and (measure == "uas" or cut(gold[7]) == cut(row[7]))

    pairs = [
        (right(gold, a), right(gold, b)) for gold, a, b in zip(*rows, strict=True) if keep(gold)
    ]
    return sum(a > b for a, b in pairs), sum(b > a for a, b in pairs)


def lengths_by_hand(gold, system):
    """{length: (right heads, words)} from the files' text."""
    found = {name: [0, 0] for name in ("root", "1", "2", "3-6", "7-")}
    for rows, parsed in zip(
        sentences(Path(gold).read_text()), sentences(Path(system).read_text()), strict=True
    ):
        for m, (row, other) in enumerate(zip(rows, parsed, strict=True), 1):
            h = int(row[6])
            length = abs(h - m)
            name = "1" if length == 1 else "2" if length == 2 else "3-6" if length < 7 else "7-"
            counts = found["root" if h == 0 else name]
            counts[0] += row[6] == other[6]
            counts[1] += 1
    return found


@pytest.mark.parametrize("options", [[], ["--ignore-punct"], ["--punct-tags", "Y"]])
def test_the_scores_are_those_of_evaluate(files, capsys, options):
    result = result_of(capsys, main, *files, "--json", "--resamples", "10", *options)
    assert [system["file"] for system in result["systems"]] == files[1:]
    for system in result["systems"]:
        file = system.pop("file")
        assert system == result_of(capsys, evaluate, files[0], file, "--json", *options)


@pytest.mark.parametrize("ignore", [False, True])
def test_the_tests_against_counts_by_hand(files, capsys, ignore):
    options = ["--ignore-punct"] if ignore else []
    result = result_of(capsys, main, *files, "--json", "--resamples", "200", *options)
    uas = [system["uas"]["percent"] for system in result["systems"]]
    assert [c["file"] for c in result["comparisons"]] == files[2:]
    for k, comparison in enumerate(result["comparisons"], 1):
        assert comparison["against"] == files[1]
        for measure in ("uas", "las", "las_full"):
            only = by_hand(
                [files[0], files[1], files[k + 1]],
                measure,
                lambda row: not (ignore and is_punctuation(row[1])),
            )
            assert comparison["mcnemar"][measure] == {
                "only_first": only[0],
                "only_second": only[1],
                "p": mcnemar(*only),
            }
        bootstrap = comparison["bootstrap"]["uas"]
        assert bootstrap["difference"] == pytest.approx(uas[k] - uas[0])
        assert bootstrap["low"] < bootstrap["difference"] < bootstrap["high"]
        assert 0 < bootstrap["p"] <= 1


def test_right_heads_by_length(files, capsys):
    result = result_of(capsys, main, *files[:3], "--json", "--resamples", "10")
    [comparison] = result["comparisons"]
    for side, file in (("first", files[1]), ("second", files[2])):
        for length, (right, total) in lengths_by_hand(files[0], file).items():
            assert comparison["lengths"][length]["total"] == total > 0
            assert comparison["lengths"][length][side] == pytest.approx(100 * right / total)


def test_the_tables(files, capsys):
    assert main([*files, "--resamples", "100", "--seed", "3"]) == 0
    text = capsys.readouterr().out
    lines = text.splitlines()
    assert lines[0].endswith(" words, 40 sentences")
    assert lines[1:4] == [
        f"{letter}  {file}" for letter, file in zip("ABC", files[1:], strict=True)
    ]
    assert lines[5].split() == ["A", "B", "C", "B", "-", "A", "C", "-", "A"]
    first = [float(cell) for cell in lines[6].removeprefix("UAS").split()]
    assert first[3] == pytest.approx(first[1] - first[0], abs=0.011)
    assert first[4] == pytest.approx(first[2] - first[0], abs=0.011)
    assert [line for line in lines if line.endswith("against A")] == ["B against A", "C against A"]
    assert text.count("from, to: 95 % interval; 100 resamples of the sentences, seed 3") == 2
    assert max(map(len, lines)) <= 100


def test_relations_are_listed_by_how_many_words_more_are_right(files, capsys):
    scores = result_of(capsys, main, *files[:3], "--json", "--resamples", "10")["systems"]
    assert main([*files[:3], "--resamples", "10"]) == 0
    lines = capsys.readouterr().out.splitlines()
    at = next(k for k, line in enumerate(lines) if line.startswith("F by relation"))
    changes = [int(line.split()[-1]) for line in lines[at + 1 :]]
    assert [abs(c) for c in changes] == sorted((abs(c) for c in changes), reverse=True)
    assert changes
    for line in lines[at + 1 :]:
        name, a, b, *_ = line.split()
        assert a == f"{scores[0]['relations'][name]['f']:.2f}"
        assert b == f"{scores[1]['relations'][name]['f']:.2f}"


def test_a_file_against_itself(files, capsys):
    result = result_of(capsys, main, files[0], files[1], files[1], "--json", "--resamples", "50")
    [comparison] = result["comparisons"]
    assert comparison["mcnemar"]["uas"] == {"only_first": 0, "only_second": 0, "p": 1.0}
    assert comparison["bootstrap"]["las"] == {
        "difference": 0.0,
        "low": 0.0,
        "high": 0.0,
        "p": 1.0,
        "turned": 1.0,
    }


def test_the_seed_alone_decides(files, capsys):
    words = [*files[:3], "--json", "--resamples", "300"]
    once, again = result_of(capsys, main, *words), result_of(capsys, main, *words)
    assert once == again == result_of(capsys, main, *words, "--seed", "0")
    other = result_of(capsys, main, *words, "--seed", "1")
    assert other["comparisons"][0]["bootstrap"] != once["comparisons"][0]["bootstrap"]
    assert other["comparisons"][0]["mcnemar"] == once["comparisons"][0]["mcnemar"]


def merged_at_the_end(text: str) -> str:
    """The text with the last two words of some sentences as one."""
    blocks = []
    for block in text.rstrip("\n").split("\n\n"):
        lines = block.split("\n")
        last = lines[-1].split("\t")
        heads = [line.split("\t")[6] for line in lines]
        if len(lines) > 1 and last[0] not in heads and last[6] != "0":
            before = lines[-2].split("\t")
            before[1] += last[1]
            lines[-2:] = ["\t".join(before)]
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks) + "\n\n"


def test_files_of_other_words_are_compared_by_aligned_words(files, tmp_path, capsys):
    other = tmp_path / "other.conllu"
    other.write_text(merged_at_the_end(Path(files[2]).read_text()))
    names = [files[1], str(other)]
    result = result_of(capsys, main, files[0], *names, "--json", "--resamples", "200")
    for system in result["systems"]:
        file = system["file"]
        evaluated = result_of(capsys, evaluate, files[0], file, "--json")
        if file == str(other):
            assert system["conll18"] == evaluated["conll18"]
        else:  # the same words as gold, of which `evaluate` shows the trees
            assert system["conll18"]["uas"]["correct"] == evaluated["uas"]["correct"]
    [comparison] = result["comparisons"]
    tests = comparison["conll18"]
    words, other_words = (system["conll18"] for system in result["systems"])
    assert words["words"]["f"] == 100 > other_words["words"]["f"]
    for name, counts in tests["mcnemar"].items():
        more = counts["only_second"] - counts["only_first"]
        assert more == other_words[name]["correct"] - words[name]["correct"]
        drawn = tests["bootstrap"][name]
        if words[name]["f"] is not None:
            change = other_words[name]["f"] - words[name]["f"]
            assert drawn["difference"] == pytest.approx(change)
            assert drawn["low"] <= drawn["difference"] <= drawn["high"]
    assert main([files[0], *names, "--resamples", "200"]) == 0
    printed = capsys.readouterr().out
    assert "gold words" in printed.splitlines()[0]
    assert "right for MLAS" in printed
    assert run(main, [files[0], *names, "--ignore-punct"]) == 2


def test_other_tags_of_the_same_words_are_compared_too(files, tmp_path, capsys):
    other = tmp_path / "other.conllu"
    other.write_text(Path(files[2]).read_text().replace("\tX\t", "\tY\t", 3))
    result = result_of(capsys, main, *files[:2], str(other), "--json", "--resamples", "100")
    tests = result["comparisons"][0]["conll18"]
    assert tests["mcnemar"]["upos"] == {"only_first": 3, "only_second": 0, "p": 0.25}
    assert result["comparisons"][0]["mcnemar"].keys() == {"uas", "las", "las_full"}
    assert main([*files[:2], str(other), "--resamples", "100"]) == 0
    printed = capsys.readouterr().out
    assert "tags and lemmas, all words" in printed
    assert "right for UPOS" in printed
    assert "right heads by length" in printed


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ("gold first other", 3, "the text here is 'Hest"),
        ("partial partial partial", 3, "no HEAD for word 2"),
        ("points points points --ignore-punct", 3, "no word to compare"),
        ("gold - -", 2, "can be read once only"),
        ("gold" + 27 * " first", 2, "at most 26"),
        ("", 2, "expected the gold file and two parsed files or more: "),
        ("gold", 2, "expected the gold file and two parsed files or more: "),
        ("gold first", 2, "expected the gold file and two parsed files or more: "),
        ("gold first second --resamples 0", 2, "expected a whole number"),
        ("gold first second --resamples x", 2, "expected a whole number"),
        ("gold first second --seed -1", 2, "expected a whole number"),
        ("gold first second --seed 1.5", 2, "expected a whole number"),
    ],
)
def test_what_is_refused(files, tmp_path, capsys, words, code, said):
    row = "{}\t{}\t_\t_\t_\t_\t{}\t_\t_\t_\n"
    (tmp_path / "other.conllu").write_text(Path(files[2]).read_text().replace("Hund", "Hest", 1))
    (tmp_path / "partial.conllu").write_text(row.format(1, "a", 0) + row.format(2, "b", "_") + "\n")
    (tmp_path / "points.conllu").write_text(row.format(1, ".", 0) + "\n")
    paths = {path.stem: str(path) for path in tmp_path.iterdir()}
    assert exit_code(main, [paths.get(word, word) for word in words.split()]) == code
    assert said.format(**paths) in capsys.readouterr().err


def test_as_a_process(files):
    command = [sys.executable, "-m", "gpuparse", "compare", *files, "--resamples", "100"]
    with open(files[3]) as third:
        words = [*command[:4], *files[:3], "-", "--resamples", "100"]
        piped = subprocess.run(words, stdin=third, capture_output=True, text=True)
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert piped.stdout == done.stdout.replace(files[3], "-")
